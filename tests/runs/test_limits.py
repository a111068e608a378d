"""The limits of a place are checked before the work begins."""

import dataclasses

import pytest
from helpers import wait

from balcony.train.preview import preview
from bert_core.config import LOCAL, PUBLIC, Limits
from bert_core.data.corpus import Corpus
from bert_core.errors import ConfigError
from bert_core.runs.recipe import Recipe, load_recipe
from bert_core.runs.run import ENDED, Run
from bert_core.runs.service import TrainingService

TEXT = Corpus([["a b c d", "b c d e", "c d e f"]])


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe("romeo-juliet").override(
        {"training.steps": 3, "data.batch_size": 2, "model.hidden_size": 12, "model.num_attention_heads": 3}
    )


def ended(run: Run) -> Run:
    wait(lambda: run.progress().status in ENDED)
    return run


TOO_MUCH = [
    ({"parameters": 1000}, r"This model has .* million parameters; the limit here is 0.001 million. Choose"),
    ({"steps": 2}, "This run would have 3 steps; the limit here is 2. Choose fewer"),
    ({"step_seconds": 1e-9}, "A step would take about 0 s; the limit here is 1e-09 s. Choose a smaller model"),
]


@pytest.mark.parametrize(("changes", "message"), TOO_MUCH)
def test_each_limit_is_named_in_the_preview_and_by_the_run(recipe: Recipe, changes: dict, message: str) -> None:
    limits = dataclasses.replace(PUBLIC, **changes)
    with pytest.raises(ConfigError, match=message):
        preview(recipe, TEXT, "cpu", limits)
    service = TrainingService("cpu", limits=limits)
    run = ended(service.start(recipe, TEXT))
    service.close()
    with pytest.raises(ConfigError, match=message):
        raise ConfigError(run.reason)


def test_a_finished_run_does_not_go_on_beyond_the_limit(recipe: Recipe) -> None:
    service = TrainingService("cpu", limits=dataclasses.replace(PUBLIC, steps=5))
    run = ended(service.start(recipe, TEXT))
    with pytest.raises(ConfigError, match="6 steps; the limit here is 5"):
        run.continue_for(3)
    run.continue_for(2)
    assert len(ended(run).history()) == 5
    service.close()


def test_a_runs_own_limits_are_meant(recipe: Recipe) -> None:
    service = TrainingService("cpu", limits=dataclasses.replace(PUBLIC, steps=1))
    assert ended(service.start(recipe, TEXT, limits=LOCAL)).status == "finished"
    service.close()


def test_limits_are_frozen_and_the_public_ones_are_the_smaller() -> None:
    for field in dataclasses.fields(Limits):
        assert getattr(PUBLIC, field.name) < getattr(LOCAL, field.name)
    assert (PUBLIC.parameters, PUBLIC.step_seconds, PUBLIC.steps) == (50_000_000, 2.0, 20_000)
