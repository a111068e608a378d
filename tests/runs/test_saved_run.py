"""A run on the disk: what is refused, that a crash leaves it whole; its report."""

import dataclasses
import random
import shutil

import pytest
import torch
from helpers import killed_after, wait

from balcony.server.workspace import Workspace
from balcony.train.exam import exam_value
from balcony.train.monitor import run_file
from bert_core import load_recipe
from bert_core.config import PUBLIC
from bert_core.errors import CheckpointError, RunError
from bert_core.runs.jobs import prepare
from bert_core.runs.train import Snapshot, Training, TrainingState, read_training_state
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

RECIPE = load_recipe("romeo-juliet").override({"training.steps": 24, "training.learning_rate": 0.004})


def test_a_state_over_the_limits_is_refused_before_it_fills_the_memory(service, tmp_path) -> None:
    run = service.start(RECIPE, seed=6)
    wait(lambda: run.status == "finished")
    run.save(tmp_path)
    assert read_training_state(tmp_path, PUBLIC).history[-1].step == 24
    for limits, message in (
        ({"steps": 23}, "has done 24 steps; the limit is 23"),
        ({"parameters": 9}, "training_state.safetensors is larger than the limit of 0 kB"),
        ({"tokens": 9}, "more than the limit of 9"),
        ({"upload_bytes": 9}, "is damaged"),
    ):
        with pytest.raises(CheckpointError, match=message):
            read_training_state(tmp_path, dataclasses.replace(PUBLIC, **limits))


def after(steps: int, state: TrainingState | None = None) -> Training:
    """A training of twelve steps that has done so many."""
    job = prepare(RECIPE.override({"training.steps": 12}), seed=6, device="cpu")
    training = Training(job, state, lambda: training.trainer.step < steps)
    for _ in training:
        if len(training.history) == steps:
            break
    training.take_snapshot()
    return training


def test_what_is_saved_at_a_snapshot_has_a_row_for_each_of_its_steps() -> None:
    training = Training(prepare(RECIPE, seed=6, device="cpu"))
    steps = []
    for event in training:
        if isinstance(event, Snapshot):
            state = training.to_save()[1]
            steps.append((event.step, len(state.history)))
    assert len(steps) > 2
    assert all(step == rows for step, rows in steps)


def test_a_training_whose_loss_is_no_number_is_not_saved() -> None:
    training = Training(prepare(RECIPE, seed=6, device="cpu"))
    for weights in training.trainer.model.parameters():
        weights.data.fill_(float("nan"))
    with pytest.raises(RunError, match="loss"):
        list(training)
    with pytest.raises(RunError, match="nothing was saved"):
        training.to_save()


def test_a_training_that_is_killed_while_it_saves_goes_on_bit_for_bit(tmp_path) -> None:
    """At 20 random moments, with another process that saves the fourth and the eighth step in turns."""
    saved = {}
    for step in (4, 8):
        shown, state = after(step).to_save()
        saved[step] = shown, state
    whole, folder, rng, found = after(12), tmp_path / "model", random.Random(0), set()

    def save_again_and_again() -> None:
        while True:
            for model, state in reversed(saved.values()):
                save_checkpoint(model, folder, also=state.write)

    save_checkpoint(saved[4][0], folder, also=saved[4][1].write)
    for _ in range(20):
        killed_after(rng.uniform(0.02, 0.3), save_again_and_again)
        model, state = load_checkpoint(folder), read_training_state(folder)
        assert any(same_weights(model, each) for each, _ in saved.values())
        assert same_weights(state.model, saved[len(state.history)][0])
        if len(state.history) not in found:
            found.add(len(state.history))
            assert numbers(after(12, state)) == numbers(whole)
    assert found == {4, 8}
    for path in folder.iterdir():
        if path.name != "training_state.safetensors":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert numbers(after(12, read_training_state(folder))) == numbers(whole), "it needs no other file"


def same_weights(model: Checkpoint, other: Checkpoint) -> bool:
    theirs = other.model.state_dict()
    return all(torch.equal(theirs[name], each) for name, each in model.model.state_dict().items())


def numbers(training: Training) -> list[dict[str, float]]:
    """Of each step and of the weights at the end, without the seconds."""
    weights = {name: each.double().sum().item() for name, each in training.newest.weights.items()}
    return [*({**vars(row), "seconds": 0.0} for row in training.history), weights]


def test_the_report_is_that_of_the_run(service) -> None:
    space = Workspace("token")
    run = service.start(RECIPE, seed=6)
    wait(lambda: run.status == "finished")
    space.add_run(run)
    file, (_, verdict) = run_file(space, run, "html"), exam_value(space, run)["verdict"]
    assert file["name"] == "Run-1-Romeo-and-Juliet-quick-step-24-report"
    assert verdict in file["content"]
    assert f"MLM loss {run.history()[-1].mlm_loss:.4f}" in file["content"]
