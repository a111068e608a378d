"""A run as a zip: that it continues with the same numbers, and what is refused."""

import dataclasses
import functools
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers import killed_after, wait

from balcony.server.files import pack
from balcony.server.workspace import Workspace
from balcony.train.exam import exam_value
from balcony.train.saved_run import OTHER_TEXT, File, report_file, resumed, state_file
from bert_core import load_recipe
from bert_core.config import PUBLIC
from bert_core.data.corpus import Corpus
from bert_core.errors import BertCoreError, CheckpointError, CorpusError, RunError
from bert_core.runs.run import Run
from bert_core.runs.saved_state import TrainingState, read_training_state
from bert_core.runs.train import Training, prepare
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

RECIPE = load_recipe("romeo-juliet").override({"training.steps": 24, "training.learning_rate": 0.004})
OWN_TEXT = Corpus.from_text("one two three\nfour five six\nseven eight nine\nten eleven", name="Your text")


@pytest.fixture
def kept(tmp_path: Path) -> Callable[[File], str]:
    """Writes a file and returns its path."""

    def keep(file: File) -> str:
        name, write = file
        write(tmp_path / name)
        return str(tmp_path / name)

    return keep


def of_visitor(run: Run) -> Workspace:
    space = Workspace("token")
    space.add_run(run)
    return space


def losses(run: Run) -> list[tuple[int, float, float]]:
    return [(row.step, row.mlm_loss, row.nsp_loss) for row in run.history()]


@pytest.mark.parametrize("text", [None, OWN_TEXT], ids=["the recipe's own text", "a text of one's own"])
def test_a_run_continues_from_its_zip_with_the_same_numbers(service, kept, text: Corpus | None) -> None:
    whole = service.start(RECIPE, text, seed=6)
    wait(lambda: whole.status == "finished")
    run = service.start(RECIPE, text, seed=6, paused=True)
    for step in range(1, 10):
        wait(lambda: run.status == "paused")
        run.step()
        wait(lambda step=step: run.progress().step == step)
    path = kept(state_file(of_visitor(run), run))
    assert Path(path).name == f"Run-1-{'Your-text' if text else 'Romeo-and-Juliet-quick'}-step-9-training-state.zip"
    kinds = []
    again = resumed(service.resume, path, lambda recipe: kinds.append(recipe.text_kind) or text)
    wait(lambda: again.status == "finished")
    assert losses(again) == losses(whole)
    assert kinds == ["auto"]
    assert of_visitor(again).title(again.id) == of_visitor(run).title(run.id)
    run.stop()


def test_a_run_on_another_text_asks_for_it(service, kept) -> None:
    run = service.start(RECIPE, OWN_TEXT, seed=6)
    wait(lambda: run.status == "finished")
    path = kept(state_file(of_visitor(run), run))
    with pytest.raises(CorpusError) as caught:
        resumed(service.resume, path, lambda recipe: None)
    assert str(caught.value) == OTHER_TEXT
    with pytest.raises(CorpusError, match="Your poem is not the text"):
        resumed(service.resume, path, lambda recipe: Corpus.from_text("a b c\nd e f", name="Your poem"))


def test_what_cannot_be_saved_is_refused_with_a_reason(service, kept) -> None:
    run = service.start(RECIPE, seed=6)
    wait(lambda: run.status == "finished")
    run.give_up()
    with pytest.raises(RunError, match="no longer kept"):
        kept(state_file(of_visitor(run), run))


def test_a_zip_that_is_not_a_saved_run_is_refused(service, tiny_checkpoint, tmp_path) -> None:
    holiday, model, escape = (tmp_path / f"{name}.zip" for name in ("holiday", "model", "escape"))
    with zipfile.ZipFile(holiday, "w") as archive:
        archive.writestr("beach.jpg", b"sand")
    pack(functools.partial(save_checkpoint, tiny_checkpoint), model)
    with zipfile.ZipFile(escape, "w") as archive:
        archive.writestr("../training_state.json", b"{}")
    (tmp_path / "letter.zip").write_bytes(b"Dear Juliet")
    before = set(tmp_path.rglob("*"))
    for path, message in (
        (holiday, "config.json"),
        (model, "There is no training state in"),
        (escape, "path"),
        (tmp_path / "letter.zip", "damaged or not a plain zip"),
    ):
        with pytest.raises(CheckpointError, match=message):
            resumed(service.resume, str(path), lambda recipe: None)
    assert set(tmp_path.rglob("*")) == before
    assert issubclass(CheckpointError, BertCoreError)


def test_a_state_over_the_limits_is_refused_before_it_fills_the_memory(service, tmp_path) -> None:
    run = service.start(RECIPE, seed=6)
    wait(lambda: run.status == "finished")
    run.save(tmp_path)
    assert read_training_state(tmp_path, PUBLIC).trainer.step == 24
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


def test_a_training_that_is_killed_while_it_saves_goes_on_bit_for_bit(tmp_path) -> None:
    """At 20 random moments, with another process that saves the fourth and the eighth step in turns."""
    saved = {}
    for step in (4, 8):
        shown, state = after(step).to_save()
        saved[step] = shown.checkpoint(), state
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
        assert same_weights(state.model, saved[state.trainer.step][0])
        if state.trainer.step not in found:
            found.add(state.trainer.step)
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


def test_the_report_is_that_of_the_run(service, kept) -> None:
    space = Workspace("token")
    run = service.start(RECIPE, seed=6)
    wait(lambda: run.status == "finished")
    space.add_run(run)
    path, (_, verdict) = Path(kept(report_file(space, run))), exam_value(space, run)["verdict"]
    assert path.name == "Run-1-Romeo-and-Juliet-quick-step-24-report.html"
    text = path.read_text(encoding="utf-8")
    assert verdict in text
    assert f"MLM loss {run.history()[-1].mlm_loss:.4f}" in text
