"""Experiments: the same questions for all models, and what follows from the numbers."""

import dataclasses
import math

import pytest
import torch

from bert_core.data.batches import IGNORED, PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.runs.experiments import (
    MEASURES,
    Marks,
    answer,
    compared,
    examine,
    format_number,
    load_experiments,
    spread,
)
from bert_core.runs.recipe import load_recipe

RECIPE = load_recipe("romeo-juliet").override({"training.steps": 7, "data.batch_size": 4})


def test_marks_equal_those_of_one_prediction_at_a_time(tiny_checkpoint, dialogue):
    data = dataclasses.replace(RECIPE.data, batch_size=64, sequence_length=17, mask_probability=0.4)
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


def test_a_kind_of_word_that_never_occurs_has_no_mark(tiny_checkpoint, dialogue):
    data = dataclasses.replace(RECIPE.data, sequence_length=17, mask_share=1.0, random_share=0.0)
    marks = examine(tiny_checkpoint, dialogue, data)
    assert math.isnan(marks.kept_accuracy)
    assert math.isnan(marks.replaced_accuracy)
    assert marks.masked_accuracy == pytest.approx(marks.mlm_accuracy)
    assert format_number(spread([marks], "kept_accuracy"), "kept_accuracy") == "–"


def test_a_long_text_is_examined_at_its_beginning(tiny_checkpoint):
    sentences = tuple(("how are you today", "thank you romeo", "my name is juliet")[i % 3] for i in range(5000))
    long = examine(tiny_checkpoint, Corpus((sentences[:1500], sentences[1500:])), RECIPE.data)
    cut = examine(tiny_checkpoint, Corpus((sentences[:1500], sentences[1500:2000])), RECIPE.data)
    assert long == cut


def marked(**numbers):
    return Marks(**{item.name: numbers.get(item.name, 0.5) for item in dataclasses.fields(Marks)})


def spread_of(*values):
    return spread([marked(mlm_accuracy=value) for value in values], "mlm_accuracy")


@pytest.mark.parametrize(
    ("first", "other", "outcome"),
    [
        ((0.5,), (0.9,), "higher"),
        ((0.9,), (0.5,), "lower"),
        ((0.5,), (0.51,), "alike"),
        ((0.50, 0.52, 0.51), (0.80, 0.79, 0.90), "higher"),
        ((0.80, 0.79, 0.90), (0.50, 0.52, 0.51), "lower"),
        ((0.50, 0.52, 0.85), (0.80, 0.79, 0.90), "unclear"),
        ((0.50, 0.90, 0.70), (0.71, 0.50, 0.90), "alike"),
    ],
)
def test_a_difference_counts_if_the_ranges_of_the_seeds_do_not_overlap(first, other, outcome):
    assert compared(spread_of(*first), spread_of(*other), "mlm_accuracy") == outcome


def test_times_are_compared_by_their_ratio():
    times = [spread([marked(seconds=value)], "seconds") for value in (20.0, 20.5, 50.0)]
    assert compared(times[0], times[1], "seconds") == "alike"
    assert compared(times[0], times[2], "seconds") == "higher"


def test_mean_and_spread_are_the_textbook_ones():
    numbers = spread_of(0.90, 0.94, 0.98)
    assert (numbers.mean, numbers.deviation) == pytest.approx((0.94, 0.04))
    assert format_number(numbers, "mlm_accuracy") == "94% ± 4"
    assert format_number(spread_of(0.9), "mlm_accuracy") == "90%"
    assert format_number(spread([marked(mlm_loss=1.234)], "mlm_loss"), "mlm_loss") == "1.23"
    assert format_number(spread([marked(seconds=3.0), marked(seconds=4.0)], "seconds"), "seconds") == "3.5 s ± 0.7"


@pytest.mark.parametrize("experiment", load_experiments(), ids=lambda experiment: experiment.name)
def test_the_answer_follows_the_numbers(experiment):
    for contrast in experiment.contrasts:
        assert contrast.measure in MEASURES
        assert 0 < contrast.other < len(experiment.variants)
        answers = set()
        for value in (0.1, 0.5, 0.9):
            sides = [[marked()] for _ in experiment.variants]
            sides[contrast.other] = [marked(**{contrast.measure: value})]
            sentence = answer(experiment, sides)
            assert sentence.startswith("With this one seed, ")
            assert format_number(spread(sides[contrast.other], contrast.measure), contrast.measure) in sentence
            answers.add(sentence)
        assert len(answers) == 3
        sides = [[marked(), marked()] for _ in experiment.variants]
        sides[contrast.other] = [marked(**{contrast.measure: value}) for value in (0.4, 0.9)]
        assert "the seeds do not settle it" in answer(experiment, sides).lower()
