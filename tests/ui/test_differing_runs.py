"""Runs side by side: the settings that differ, and whether runs began with the same weights."""

import pytest
from helpers import finished

from balcony.compare.runs_list import begin_alike, differences, settings_of
from bert_core.data.corpus import Corpus
from bert_core.runs.recipe import load_recipe
from bert_core.runs.service import TrainingService
from bert_core.runs.train import prepare

RECIPE = load_recipe("romeo-juliet").override({"training.steps": 7, "data.batch_size": 4})


def prepared_settings(changes, seed=3):
    prepared = prepare(RECIPE.override(changes), seed=seed)
    return settings_of(prepared.recipe, prepared.source)


def test_exactly_the_settings_that_differ_are_named():
    same = prepared_settings({})
    assert differences([same, prepared_settings({})]) == {}
    others = [prepared_settings({"data.mask_probability": 0.4}), prepared_settings({"training.steps": 9}, seed=4)]
    assert differences([same, *others]) == {
        "seed": ["3", "3", "4"],
        "data.mask_probability": [0.15, 0.4, 0.15],
        "training.steps": [7, 7, 9],
    }


def test_another_text_differs_whatever_its_name():
    texts = [Corpus.from_text(text, "lines") for text in ("a b\nc d\n", "a b\nc e\n", "a b\nc d\n")]
    columns = [settings_of(RECIPE, text) for text in texts]
    assert list(differences(columns[:2])) == ["text"]
    assert differences([columns[0], columns[2]]) == {}


@pytest.fixture
def service():
    service = TrainingService("cpu")
    yield service
    service.close()


def test_runs_of_one_seed_and_one_size_begin_alike(service):
    runs = [
        finished(service.start(RECIPE.override(changes), seed=seed))
        for changes, seed in (
            ({}, 3),
            ({"data.mask_probability": 0.4}, 3),
            ({}, 4),
            ({"model.num_hidden_layers": 1}, 3),
        )
    ]
    first, masks, seed, layers = (run.snapshots for run in runs)
    assert begin_alike([first, masks, first]) is True
    assert begin_alike([first, masks, seed]) is False
    assert begin_alike([first, layers]) is False
    assert begin_alike([first, ()]) is None
    assert begin_alike([first, (), seed]) is False
    assert begin_alike([first, first[1:]]) is None
