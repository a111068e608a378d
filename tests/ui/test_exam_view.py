"""Memorising versus generalising: the view of both parts of a text, and of a text with nothing to hold out."""

import itertools
import re
import statistics
from typing import Any

import pytest
from helpers import finished, wait

from balcony.server.workspace import Workspace
from balcony.train import exam
from balcony.train.exam import exam_value
from balcony.train.part_exam import MOST_WORDS, PartExam, examine_part
from balcony.train.tab import slower
from bert_core import TrainingService, load_recipe
from bert_core.data.corpus import Corpus
from bert_core.probes.exam import Tally
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
    assert (pairs, value["advice"]) == (right, "")
    assert (value["columns"], value["step"]) == (["Training text"], 110)
    assert value["rows"] == [
        ["Hidden words right", (62, 62)],
        ["Always “you”", (7, 62)],
        ["Pairs judged right", (81, 81)],
        ["Always “does not follow”", (81 - 8, 81)],
    ]
    assert "sign test" in value["rule"]
    untrained = exam_value(space, run, 0)
    assert untrained["step"] == 0
    assert "would fill in 7.) That is no better than always giving that answer: it has not" in untrained["verdict"][0]
    assert untrained["advice"] == "longer"


def test_a_run_that_went_on_says_what_the_added_steps_have_changed(service: TrainingService, monkeypatch) -> None:
    monkeypatch.setattr("bert_core.runs.snapshots.MAX_SNAPSHOTS", 6)
    _, space, run = trained(service, 40)
    run.continue_for(40)
    run.wait()
    sentence, (step, before) = exam_value(space, run)["verdict"][0], space.checkpoint(run, 40)
    assert step == 40, "the step of the earlier verdict is kept"
    losses = [row.mlm_loss for row in run.history()]
    was, then, now = (
        statistics.fmean(part) for part in (losses[step - 10 : step], losses[step : step + 10], losses[-10:])
    )
    training = run.job.batches.encoded
    right = examine_part(before, training, training, run.recipe.data.sequence_length).words.right
    said = f" At step {step} it filled in {right}; the MLM loss, a mean of 10 steps, was {was:.2f} then"
    assert f"{said} and is {now:.2f} now. " in sentence
    assert ("rose at first" in sentence) == (then > 1.1 * was)
    assert "At step" not in exam_value(space, run, step)["verdict"][0], "nothing was added before it"
    newest = space.checkpoint(run)
    space.checkpoint = lambda run, step=None: newest  # type: ignore[method-assign]  # no earlier one is kept
    assert "At step" not in exam_value(space, run)["verdict"][0]


def test_a_diverged_run_is_called_that(service: TrainingService) -> None:
    value, _, _ = trained(service, 60, learning_rate=0.3)
    words, pairs = value["verdict"]
    assert "It gives the same answer at every position, whatever the words around it: this run has diverged." in words
    assert words.endswith("The learning rate, up to 0.3, is probably too high.")
    assert value["advice"] == "slower"
    assert "no better than always answering “does not follow”" in pairs
    assert value["rows"][0][1:] == value["rows"][1][1:]
    later = {"start": 40, "steps": 20, "learning_rate": 0.5}
    phases = RECIPE.override({"training.steps": 60, "training.parts": [later]}).training
    again = RECIPE.override(slower(phases, phases))
    rates = again.training.learning_rate, *(part.learning_rate for part in again.training.parts)
    assert rates == pytest.approx((RECIPE.training.learning_rate / 10, 0.05)), "a rate that was changed later too"
    assert again.training.total_steps == 60
    added = RECIPE.override(slower(phases, RECIPE.training)).training
    assert (added.total_steps, added.parts, added.learning_rate) == (60, (), pytest.approx(0.05))


def test_a_run_whose_loss_stands_still_gets_a_lower_rate_and_a_short_one_more_steps(service: TrainingService) -> None:
    four = {"model.num_hidden_layers": 4, "training.learning_rate": 0.02}
    said, advised = {}, {}
    for name, steps, changes in (
        ("still", 220, four),  # one answer at every position, or some: rounding decides, so the processor does
        ("short", 20, four),
        ("low", 60, {"training.learning_rate": 3e-5}),
        ("high", 45, {"training.learning_rate": 0.04}),
    ):
        recipe = RECIPE.override({"training.steps": steps, **changes})
        run = finished(service.start(recipe))
        space = Workspace("token")
        space.add_run(run)
        value = exam_value(space, run)
        said[name], advised[name] = value["verdict"][0], value["advice"]
    assert re.search("diverged|has not fallen since the middle", said["still"])
    assert said["still"].endswith("earning rate, up to 0.02, is probably too high.")
    assert "it has not learned from the words around, not yet or not at this learning rate, up to 0.04." in said["high"]
    assert advised == {"still": "slower", "short": "longer", "low": "longer", "high": "slower"}


def part(right: int) -> PartExam:
    """The exam of a part where a constant answer gets 10 of 200 words right."""
    words, pairs = Tally(asked=200, right=right, baseline=10, both=5), Tally(0, 0, 0, 0)
    return PartExam(words, 1.0, pairs, "the", sentences=30, repeated=0, tokens=200, unknown=0)


@pytest.mark.parametrize(("rate", "advice"), [(0.009, "slower"), (0.02, "slower"), (3e-5, "longer")])
def test_a_loss_that_stands_still_at_less_than_the_rate_of_the_recipe_is_not_called_too_fast(
    rate: float, advice: str
) -> None:
    sentence, found = exam._word_verdict(part(10), rate=rate, usual=0.009, losses=[3.7] * 60)
    assert found == advice
    too_high = f"the loss has not fallen since the middle of the run: the learning rate, up to {rate}, is probably too"
    assert (too_high in sentence) == (advice == "slower")
    assert ("not yet or not at this learning rate, up to 3e-05" in sentence) == (advice == "longer")


def test_a_longer_text_is_examined_on_both_parts(service: TrainingService) -> None:
    lines = [" ".join(words) for words in itertools.product(WORDS, repeat=3)]
    corpus = Corpus.from_text("\n".join([*lines[:313], *(f"zebra {line}" for line in lines[313:])]), "lines")
    value, _, run = trained(service, 40, corpus)
    assert run.job.parts.validation is not None
    count = len(run.job.parts.validation.sentences)
    assert value["text"].startswith(f"{count} sentences are [[held out]]. ")
    assert "held-out words are left out: they are [UNK] or not in the training text." in value["text"]
    assert value["columns"] == ["Training text", "Held out"]
    (_, seen, unseen), (_, *always), *pairs = value["rows"]
    assert seen[1] == MOST_WORDS
    assert unseen[1] == always[1][1] == 3 * count
    assert [name for name, *_ in pairs] == ["Pairs judged right", "Always “does not follow”"]
    own, held = (
        f"{seen[0]} of {seen[1]} hidden words of its own text",
        f"{unseen[0]} of {unseen[1]} of the held-out text",
    )
    assert value["verdict"][0].startswith(f"It fills in {own} and {held}. (Always answering “")
    assert len(value["verdict"]) == 3  # the pairs of each part


def test_a_text_that_was_learned_by_heart_is_not_to_be_trained_longer() -> None:
    sentence, advice = exam._word_verdict(part(120), part(9), rate=0.001, usual=0.001)
    assert sentence.endswith(
        "It learned its own text by heart: on held-out words it is no better than always giving that answer. A longer "
        "text of the same kind teaches more that carries over, and so do initial weights of a model that knows the "
        "language; words in random order teach nothing."
    )
    assert advice == ""
    assert exam._word_verdict(part(120), part(90), rate=0.001, usual=0.001)[1] == "longer"


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
    assert value["rows"][0][2] == (0, 0)


@pytest.mark.parametrize(
    ("weight", "rows"), [("mlm_weight", "Pairs judged right"), ("nsp_weight", "Hidden words right")]
)
def test_an_objective_that_was_not_trained_is_not_judged(service: TrainingService, weight: str, rows: str) -> None:
    value, _, _ = trained(service, 5, **{weight: 0})
    assert value["rows"][0][0] == rows
    assert len(value["rows"]) == 2


def test_a_run_in_training_is_examined_only_at_a_selected_step(service: TrainingService) -> None:
    run = service.start(RECIPE.override({"training.steps": 50_000}), seed=1)
    wait(lambda: run.progress().step)
    space = Workspace("token")
    space.add_run(run)
    assert "rows" not in exam_value(space, run)
    assert exam_value(space, run, 0)["step"] == 0
    run.stop()
