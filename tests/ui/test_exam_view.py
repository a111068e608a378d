"""Memorising versus generalising: the view of both parts of a text, and of a text with nothing to hold out."""

import itertools
import re
from typing import Any

import pytest
from helpers import finished, wait

from balcony.server.workspace import Workspace
from balcony.train import exam
from balcony.train.exam import MOST_WORDS, PartExam, exam_value
from bert_core import TrainingService, load_recipe
from bert_core.data.corpus import Corpus
from bert_core.probes.sentence_pairs import Tally
from bert_core.runs.run import Run

RECIPE = load_recipe("romeo-juliet")
WORDS = ("one", "two", "three", "four", "five", "six", "seven")


def trained(
    service: TrainingService, steps: int, corpus: Corpus | None = None, **settings: Any
) -> tuple[dict[str, Any], Workspace, Run]:
    changes = {f"training.{name}": value for name, value in settings.items()}
    run = finished(service.start(RECIPE.override({"training.steps": steps, **changes}), corpus, seed=1))
    space = Workspace("token")
    space.add_run(run)
    return exam_value(space, run), space, run


def test_a_text_with_nothing_to_hold_out_gets_no_verdict_on_generalising(service: TrainingService) -> None:
    value, space, run = trained(service, 110)
    assert value["text"] == "There is nothing to hold out: all 9 sentences of this text are used for training."
    words, pairs = value["verdict"]
    assert words == (
        "It fills in 62 of 62 hidden words of its own text. (Always answering “you” would fill in 7.) The accuracy in "
        "the curve is lower: a step hides 15% of the words at once and replaces some by others, the exam one at a "
        "time. All 9 sentences were used for training, so this cannot show whether it learned a rule or learned the "
        "text by heart."
    )
    right = "It judges 81 of 81 pairs of its own text right: better than always answering “does not follow” (73)."
    assert (pairs, value["hasMore"]) == (right, False)
    assert value["step"] == 110
    assert "sign test" in value["rule"]
    untrained = exam_value(space, run, 0)
    assert untrained["step"] == 0
    assert "would fill in 7.) That is no better than always giving that answer: it has not" in untrained["verdict"][0]
    assert untrained["hasMore"] is True


def test_a_run_that_has_not_learned_is_told_its_learning_rate(service: TrainingService) -> None:
    value, _, _ = trained(service, 60, learning_rate=0.3)
    words, pairs = value["verdict"]
    assert words.endswith("it has not learned from the words around, not yet or not at this learning rate, up to 0.3.")
    assert "no better than always answering “does not follow”" in pairs


def part(right: int) -> PartExam:
    """The exam of a part where a constant answer gets 10 of 200 words right."""
    words, pairs = Tally(asked=200, right=right, baseline=10, both=5), Tally(0, 0, 0, 0)
    return PartExam(words, pairs, "the", sentences=30, repeated=0, tokens=200, unknown=0)


def test_a_longer_text_is_examined_on_both_parts(service: TrainingService) -> None:
    lines = [" ".join(words) for words in itertools.product(WORDS, repeat=3)]
    corpus = Corpus.from_text("\n".join([*lines[:313], *(f"zebra {line}" for line in lines[313:])]), "lines")
    value, _, run = trained(service, 40, corpus)
    assert run.job.parts.validation is not None
    count = len(run.job.parts.validation.sentences)
    assert value["text"].startswith(f"{count} sentences are [[held out]]. ")
    assert "held-out words are left out: they are [UNK] or not in the training text." in value["text"]
    words, *pairs = value["verdict"]
    own, held = rf"\d+ of {MOST_WORDS} hidden words of its own text", rf"\d+ of {3 * count} of the held-out text"
    assert re.match(rf"It fills in {own} and {held}\. \(Always answering “\w+” would fill in \d+ and \d+\.\) ", words)
    assert ["its own text" in pairs[0], "the held-out text" in pairs[1]] == [True, True]


def test_a_text_that_was_learned_by_heart_is_not_to_be_trained_longer() -> None:
    sentence, has_more = exam._word_verdict(part(120), part(9), rate=0.001)
    assert sentence.endswith(
        "It learned its own text by heart: on held-out words it is no better than always giving that answer. A longer "
        "text of the same kind teaches more that carries over, and so do initial weights of a model that knows the "
        "language; words in random order teach nothing."
    )
    assert has_more is False
    assert exam._word_verdict(part(120), part(90), rate=0.001)[1] is True


def test_held_out_sentences_of_the_training_text_are_not_asked(service: TrainingService) -> None:
    paragraph = "the cat sat down\nit was warm there\nthe dog came in later\nthey looked at each other\nthen both slept"
    value, _, _ = trained(service, 60, Corpus.from_text("\n\n".join([paragraph] * 24), "documents"))
    assert value["text"] == "10 sentences are [[held out]]. 10 of them are in the training text too and are left out."
    words, pairs = value["verdict"]
    assert words.endswith(
        "No held-out word could be asked, so this cannot show whether it learned a rule or learned the text by heart."
    )
    assert "of the held-out text" not in words
    # Four that follow are too few, whatever it answers.
    assert re.search("right: (no|not clearly) better", pairs)


@pytest.mark.parametrize(("weight", "judged"), [("mlm_weight", "It judges "), ("nsp_weight", "It fills in ")])
def test_an_objective_that_was_not_trained_is_not_judged(service: TrainingService, weight: str, judged: str) -> None:
    [verdict] = trained(service, 5, **{weight: 0})[0]["verdict"]
    assert verdict.startswith(judged)


def test_a_run_in_training_is_examined_only_at_a_selected_step(service: TrainingService) -> None:
    run = service.start(RECIPE.override({"training.steps": 50_000}), seed=1)
    wait(lambda: run.progress().step)
    space = Workspace("token")
    space.add_run(run)
    assert "verdict" not in exam_value(space, run)
    assert exam_value(space, run, 0)["step"] == 0
    run.stop()
