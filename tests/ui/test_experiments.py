"""Experiments: the same questions for all models, and what follows from the numbers."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
import torch

from balcony.compare.definitions import MEASURES, Marks, examine, load_experiments, outcome
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

    assert marks.numbers["mlm_loss"] == pytest.approx(mean(losses), rel=1e-5)
    assert marks.numbers["nsp_loss"] == pytest.approx(mean(pair_losses), rel=1e-5)
    assert marks.numbers["nsp_accuracy"] == pytest.approx(mean(pairs))
    assert marks.numbers["mlm_accuracy"] == pytest.approx(mean([hit for hits in right.values() for hit in hits]))
    for kind, hits in right.items():
        assert marks.numbers[f"{kind}_accuracy"] == pytest.approx(mean(hits)), kind
    assert marks.numbers["seconds"] == 1.5
    assert examine(tiny_checkpoint, dialogue, data, 1.5) == marks


def test_a_text_without_pairs_tests_models_that_were_not_trained_on_them(tiny_checkpoint):
    text = Corpus.from_text("hello romeo\n\nnice name\n\ngreat team today\n", "lines", "single sentences")
    data = RECIPE.data.replace(sequence_length=17)
    assert math.isfinite(examine(tiny_checkpoint, text, data, trained=("mlm",)).numbers["mlm_loss"])
    with pytest.raises(CorpusError, match="no two neighbours"):
        examine(tiny_checkpoint, text, data)


def test_a_kind_of_word_that_never_occurs_has_no_mark(tiny_checkpoint, dialogue):
    data = RECIPE.data.replace(sequence_length=17, mask_share=1.0, random_share=0.0)
    marks = examine(tiny_checkpoint, dialogue, data)
    assert math.isnan(marks.numbers["kept_accuracy"])
    assert math.isnan(marks.numbers["replaced_accuracy"])
    assert marks.numbers["masked_accuracy"] == pytest.approx(marks.numbers["mlm_accuracy"])


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
    assert (marks.about, marks.baselines["nsp"]) == ("480 pairs of the text, masked by the recipe", 0.5)
    assert marks.numbers.keys() == {"nsp_accuracy", "nsp_loss", "seconds"}
    assert marks.baselines["mlm"] == pytest.approx(int(labels.bincount().max()) / len(labels))
    assert examine(tiny_checkpoint, dialogue, data.replace(batch_size=600)).about.startswith("600 pairs")


def marked(value=0.6, baseline=0.2, **numbers):
    return Marks(dict.fromkeys(MEASURES, value) | numbers, dict.fromkeys(("mlm", "nsp", "task"), baseline), "questions")


def of_its_task(experiment):
    """With the measure of a task, as it has when it begins."""
    measured = [dataclasses.replace(each, measure=each.measure.replace("task", "f1")) for each in experiment.contrasts]
    return dataclasses.replace(experiment, contrasts=tuple(measured))


EXPERIMENTS = [of_its_task(experiment) for experiment in load_experiments()]
CONTRASTS = [(experiment, contrast) for experiment in EXPERIMENTS for contrast in experiment.contrasts]


@pytest.mark.parametrize(("experiment", "contrast"), CONTRASTS, ids=lambda each: getattr(each, "name", None))
def test_every_contrast_has_an_outcome(experiment, contrast):
    measure = MEASURES[contrast.measure]
    assert measure.unit in ("fraction", "seconds")

    def found(other, first=(0.5, 0.5, 0.5), without=()):
        sides = [[marked(value) for value in first]] * len(experiment.variants)
        sides[contrast.other] = [marked(value) for value in other]
        for name in without:
            for each in sides[contrast.other]:
                del each.numbers[name]
        return outcome(experiment, contrast, sides)

    assert [found([value] * 3) for value in (0.3, 0.5, 0.8)] == ["lower", "alike", "higher"]
    assert found([0.3, 0.5, 0.8]) == "unclear"
    assert found([math.nan] * 3) == "not asked"
    if measure.objective:
        assert found([0.8] * 3, without=[contrast.measure]) == "not trained"
        assert found([0.24] * 3, [0.18] * 3) == "no better"
        assert found([0.6], [0.5]) == "few seeds"


def test_where_a_run_did_not_learn_there_is_no_verdict_on_the_variant():
    experiment = experiment_named("layers")
    depth, time = experiment.contrasts
    good, bad = [marked(0.6)] * 3, [marked(0.24)] * 3
    for sides in ((good, bad), (bad, good), (good, [*good[:2], *bad[:1]])):
        assert outcome(experiment, depth, sides) == "failed"
        assert outcome(experiment, time, sides) not in ("failed", "no better"), "how long it took is seen all the same"
    assert outcome(experiment, depth, (bad, bad)) == "no better"


def test_a_model_that_does_not_learn_answers_questions_about_the_rate_the_order_and_pretraining():
    rate, order = experiment_named("learning-rate"), experiment_named("order")
    good, bad = [marked(0.6)] * 3, [marked(0.24)] * 3
    assert outcome(rate, rate.contrasts[1], (good, good, bad)) == "fallback"
    assert outcome(order, order.contrasts[0], (bad, good)) == "higher"
    assert outcome(EXPERIMENTS[-1], EXPERIMENTS[-1].contrasts[0], [bad, good] * 3) == "higher"


def test_few_examples_measure_nothing():
    few = [dataclasses.replace(marked(), is_enough=False)] * 3
    assert outcome(EXPERIMENTS[-1], EXPERIMENTS[-1].contrasts[0], [few] * 6) == "too few"


def test_a_factor_multiplies_the_recipes_own_setting():
    [slow] = [variant.apply(RECIPE) for variant in experiment_named("learning-rate").variants if "÷" in variant.title]
    assert slow.training.learning_rate == pytest.approx(RECIPE.training.learning_rate / 10)
    assert slow.training.replace(learning_rate=RECIPE.training.learning_rate) == RECIPE.training


def test_an_experiment_with_equal_models_finds_a_difference_in_at_most_five_of_a_hundred_draws():
    rng = np.random.default_rng(5)
    found = Counter()
    for _ in range(1000):
        sides = [
            [marked(**dict(zip(MEASURES, rng.normal(0.6, 0.04, len(MEASURES))))) for _ in range(3)] for _ in range(6)
        ]
        for experiment in EXPERIMENTS[:-1]:  # the last one is three experiments in one
            outcomes = {outcome(experiment, contrast, sides) for contrast in experiment.contrasts}
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
    assert usual.numbers["nsp_loss"] != order.numbers["nsp_loss"]
