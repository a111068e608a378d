"""Experiments: the same questions for all models, and what follows from the numbers."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
import torch

from balcony.compare.definitions import (
    MEASURES,
    Marks,
    baseline_of,
    examine,
    load_experiments,
    outcome,
)
from balcony.compare.experiments import experiment_named
from bert_core.data.batches import IGNORED, PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.errors import CorpusError
from bert_core.runs.recipe import load_recipe

RECIPE = load_recipe("romeo-juliet").override({"training.steps": 7, "data.batch_size": 4})


def test_marks_equal_those_of_one_prediction_at_a_time(tiny_checkpoint, dialogue):
    data = RECIPE.data.replace(batch_size=64, sequence_length=17, mask_probability=0.4)
    marks = examine(tiny_checkpoint, dialogue, data, 1.5)
    batches = PretrainingBatches(encode_corpus(dialogue, tiny_checkpoint.tokenizer), tiny_checkpoint.tokenizer, data)
    mask = tiny_checkpoint.tokenizer.token_to_id("[MASK]")
    losses, pair_losses, pairs = [], [], []
    right = {"masked": [], "replaced": [], "kept": []}
    for k in range(8):  # of 64 pairs
        batch = batches[k]
        with torch.no_grad():
            output = tiny_checkpoint.model(batch.input_ids, batch.attention_mask, batch.token_type_ids)
        for i in range(64):
            verdict = output.seq_relationship_logits[i].log_softmax(0)
            label = int(batch.next_sentence_label[i])
            pair_losses.append(-float(verdict[label]))
            pairs.append(int(verdict.argmax()) == label)
            for t in range(batch.input_ids.shape[1]):
                truth, shown = int(batch.labels[i, t]), int(batch.input_ids[i, t])
                if truth == IGNORED:
                    continue
                scores = output.prediction_logits[i, t].log_softmax(0)
                losses.append(-float(scores[truth]))
                kind = "masked" if shown == mask else "kept" if shown == truth else "replaced"
                right[kind].append(int(scores.argmax()) == truth)

    def mean(values):
        return sum(values) / len(values)

    assert marks.mlm_loss == pytest.approx(mean(losses), rel=1e-5)
    assert marks.nsp_loss == pytest.approx(mean(pair_losses), rel=1e-5)
    assert marks.nsp_accuracy == pytest.approx(mean(pairs))
    assert marks.mlm_accuracy == pytest.approx(mean([hit for hits in right.values() for hit in hits]))
    for kind, hits in right.items():
        assert getattr(marks, f"{kind}_accuracy") == pytest.approx(mean(hits)), kind
    assert marks.seconds == 1.5
    assert examine(tiny_checkpoint, dialogue, data, 1.5) == marks


def test_a_text_without_pairs_tests_models_that_were_not_trained_on_them(tiny_checkpoint):
    text = Corpus.from_text("hello romeo\n\nnice name\n\ngreat team today\n", "lines", "single sentences")
    data = RECIPE.data.replace(sequence_length=17)
    assert math.isfinite(examine(tiny_checkpoint, text, data, trained=("mlm",)).mlm_loss)
    with pytest.raises(CorpusError, match="no two neighbours"):
        examine(tiny_checkpoint, text, data)


def test_a_kind_of_word_that_never_occurs_has_no_mark(tiny_checkpoint, dialogue):
    data = RECIPE.data.replace(sequence_length=17, mask_share=1.0, random_share=0.0)
    marks = examine(tiny_checkpoint, dialogue, data)
    assert math.isnan(marks.kept_accuracy)
    assert math.isnan(marks.replaced_accuracy)
    assert marks.masked_accuracy == pytest.approx(marks.mlm_accuracy)


def test_a_long_text_is_examined_at_its_beginning(tiny_checkpoint):
    sentences = tuple(("how are you today", "thank you romeo", "my name is juliet")[i % 3] for i in range(5000))
    long = examine(tiny_checkpoint, Corpus([sentences[:1500], sentences[1500:]]), RECIPE.data)
    cut = examine(tiny_checkpoint, Corpus([sentences[:1500], sentences[1500:2000]]), RECIPE.data)
    assert long == cut


def test_the_pairs_are_counted_and_the_baselines_are_those_of_the_labels(tiny_checkpoint, dialogue):
    data = RECIPE.data.replace(batch_size=48, sequence_length=17)
    marks = examine(tiny_checkpoint, dialogue, data, trained=("nsp",))
    batches = PretrainingBatches(encode_corpus(dialogue, tiny_checkpoint.tokenizer), tiny_checkpoint.tokenizer, data)
    labels = torch.cat([batches[k].asked()[1] for k in range(10)])
    assert (marks.pairs, marks.nsp_baseline, marks.trained) == (480, 0.5, ("nsp",))
    assert marks.mlm_baseline == pytest.approx(int(labels.bincount().max()) / len(labels))
    assert examine(tiny_checkpoint, dialogue, data.replace(batch_size=600)).pairs == 600


def marked(**numbers):
    return Marks(**{"pairs": 480, "trained": ("mlm", "nsp")} | {name: numbers.get(name, 0.2) for name in NUMBERS})


NUMBERS = [item.name for item in dataclasses.fields(Marks) if item.name not in ("pairs", "trained")]


CONTRASTS = [contrast for experiment in load_experiments() for contrast in experiment.contrasts]


@pytest.mark.parametrize("contrast", CONTRASTS, ids=lambda contrast: contrast.measure)
def test_every_contrast_has_an_outcome(contrast):
    measure = MEASURES[contrast.measure]
    assert measure.unit in ("fraction", "seconds")

    def runs(*values, trained=("mlm", "nsp")):
        return [dataclasses.replace(marked(**{contrast.measure: value}), trained=trained) for value in values]

    def found(other, first=(0.5, 0.5, 0.5), **trained):
        sides = [runs(*first)] * 3
        sides[contrast.other] = runs(*other, **trained)
        return outcome(contrast, sides)

    assert [found([value] * 3) for value in (0.3, 0.5, 0.8)] == ["lower", "alike", "higher"]
    assert found([0.3, 0.5, 0.8]) == "unclear"
    assert found([math.nan] * 3) == "not asked"
    if measure.objective:
        assert found([0.8] * 3, trained=()) == "not trained"
        assert found([0.24] * 3, [0.18] * 3) == "no better"
        assert baseline_of(marked(), contrast.measure) == 0.2
        fallback = "fallback" if contrast.fallback else "few seeds"
        assert (found([0.2], [0.5]), found([0.5], [0.2])) == (fallback, "few seeds")


def test_a_factor_multiplies_the_recipes_own_setting():
    [slow] = [variant.apply(RECIPE) for variant in experiment_named("learning-rate").variants if "÷" in variant.title]
    assert slow.training.learning_rate == pytest.approx(RECIPE.training.learning_rate / 10)
    assert slow.training.replace(learning_rate=RECIPE.training.learning_rate) == RECIPE.training


def test_the_other_variants_of_an_experiment_are_compared_with_the_first():
    for experiment in load_experiments():
        assert all(0 < contrast.other < len(experiment.variants) for contrast in experiment.contrasts)


def test_an_experiment_with_equal_models_finds_a_difference_in_at_most_five_of_a_hundred_draws():
    rng = np.random.default_rng(5)
    found = Counter()
    for _ in range(1000):
        sides = [
            [marked(**dict(zip(NUMBERS, rng.normal(0.6, 0.04, len(NUMBERS))))) for _ in range(3)] for _ in range(3)
        ]
        sides[0][0] = dataclasses.replace(sides[0][0], mlm_baseline=0.1, nsp_baseline=0.1)
        for experiment in load_experiments():
            outcomes = {outcome(contrast, sides) for contrast in experiment.contrasts}
            found[experiment.name] += bool(outcomes & {"higher", "lower"})
    assert max(found.values()) <= 50


def test_the_experiment_about_order_asks_for_the_order(tiny_checkpoint, dialogue):
    """All its models get swapped pairs in the test, also those that were trained on random ones."""
    experiment = experiment_named("order")
    random, swapped = (variant.apply(RECIPE).data.negatives for variant in experiment.variants)
    assert (random, swapped) == ("random", "swapped")
    short = RECIPE.override({"data.sequence_length": 17})
    asked = experiment.test.apply(short).data
    assert short.data.replace(negatives="swapped") == asked
    usual, order = (examine(tiny_checkpoint, dialogue, data) for data in (short.data, asked))
    assert usual.nsp_loss != order.nsp_loss
