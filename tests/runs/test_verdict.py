"""What is said of a training's numbers: what always the same answer would get, how much is covered, and chance."""

import itertools
import math

import pytest
import torch

from bert_core.data.corpus import Corpus
from bert_core.errors import percent
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import load_recipe
from bert_core.runs.train import Training
from bert_core.training import StepRow

RECIPE = load_recipe("romeo-juliet").override(
    {"training.steps": 4, "data.batch_size": 3, "model.hidden_size": 12, "model.num_attention_heads": 3}
)
TEXT = Corpus([[f"w{i % 7} w{(i + j) % 5} w{j}" for j in range(4)] for i in range(40)])


def trained(job):
    """The rows, the evaluations and what is said of them."""
    training = Training(job)
    events = list(training)
    rows = [row for event in events if isinstance(event, list) for row in event]
    evaluations = [event for event in events if isinstance(event, StepRow)]
    return rows, evaluations, training.job.verdict(rows, training.points)


def test_held_out_accuracies_stand_beside_those_of_always_the_same_answer_and_what_they_cover():
    job = prepare(RECIPE, TEXT)
    rows, evaluations, said = trained(job)
    assert [row.step for row in evaluations] == [0, 3, 4]
    words = torch.cat([batch.asked()[1] for batch in job.held_out]).tolist()
    pairs = torch.cat([batch.next_sentence_label for batch in job.held_out]).tolist()
    last = evaluations[-1]
    for accuracy, labels, what in (
        (last.mlm_accuracy, words, "hidden words"),
        (last.nsp_accuracy, pairs, "pairs"),
    ):
        always = max(labels.count(label) for label in labels) / len(labels)
        assert accuracy * len(labels) == pytest.approx(round(accuracy * len(labels))), "a sum divided by a count"
        assert (
            f"{percent(accuracy)} of {len(labels):,} {what} of 16 held-out sentences, 10% of the text, are right; "
            f"always the same answer would get {percent(always)}."
        ) in said
    assert job.verdict(rows, []) == job.verdict(rows[-20:], []), "without a held-out part, only what is chance"


@pytest.mark.parametrize(("factor", "is_said"), [(0.5, False), (1.0, False), (1.1, True)])
def test_a_loss_above_that_of_chance_at_the_end_is_said(factor, is_said):
    job = prepare(RECIPE.override({"corpus.validation_share": 0.0}), TEXT)
    chance = {"MLM": math.log(job.config.vocab_size), "NSP": math.log(2)}
    rows = [StepRow(step=i, mlm_loss=factor * chance["MLM"], nsp_loss=factor * chance["NSP"]) for i in range(30)]
    expected = [
        f"The {name} loss at the end, {factor * loss:.2f}, is above {loss:.2f}, that of guessing."
        for name, loss in chance.items()
    ]
    assert job.verdict(rows, []) == expected * is_said
    held = StepRow(step=4, mlm_loss=factor * chance["MLM"], nsp_loss=0.1, mlm_accuracy=0.0, nsp_accuracy=1.0)
    job = prepare(RECIPE, TEXT)
    found = [each for each in job.verdict(rows, [held]) if "guessing" in each]
    assert found == [each.replace("The MLM", "The held-out MLM") for each in expected[:1]] * is_said


def test_an_objective_that_is_not_trained_is_not_judged():
    _, _, said = trained(prepare(RECIPE.override({"training.nsp_weight": 0.0}), TEXT))
    assert said
    assert not any("pairs" in each or "NSP" in each for each in said)


def test_held_out_words_that_are_unknown_are_said_before_the_training():
    words = (f"x{number}" for number in itertools.count())
    unknown = [[" ".join(itertools.islice(words, 2 + i)) for i in range(4)] for _ in range(4)]
    job = prepare(RECIPE, Corpus([*TEXT.documents[:36], *unknown]))
    assert job.parts.validation.documents == unknown
    [said] = [note for note in job.notes if "words held out" in note]
    assert said.startswith("100% of the words held out for validation are unknown")
    assert not any("words held out" in note for note in prepare(RECIPE, TEXT).notes)
