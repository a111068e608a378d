"""Runs are saved to a folder, and after a restart their visitor alone has them again and can continue them."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import finished, labelled, wait

from balcony.handlers import own
from balcony.server import kept as module
from balcony.server.kept import INTERRUPTED, digest
from balcony.server.workspace import NOT_YOURS
from balcony.server.workspaces import Workspaces
from bert_core import TrainingService, load_recipe
from bert_core.data.corpus import Corpus
from bert_core.errors import RunError
from bert_core.runs.recipe import FinetuningRecipe, Recipe
from bert_core.runs.run import ENDED, Run
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TASKS, TaskParts

TEXT = Corpus([["a b c d", "b c d e", "c d e f"], ["d e f a", "e f a b"]], "mine")


@pytest.fixture
def recipe() -> Recipe:
    small = {"training.steps": 30, "data.batch_size": 2, "model.hidden_size": 12, "model.num_attention_heads": 3}
    return load_recipe("romeo-juliet").override(small)


@contextmanager
def server(folder: Path) -> Iterator[Workspaces]:
    """A server until it is ended, as by Ctrl-C."""
    workspaces = Workspaces(TrainingService("cpu"), {})
    workspaces.keep(folder)
    try:
        yield workspaces
    finally:
        assert workspaces.kept is not None
        workspaces.kept.close()
        workspaces.service.close()


def losses(run: Run) -> list[tuple]:
    return [(row.step, *row.losses.values()) for row in run.history()]


def stepped(run: Run, steps: int) -> Run:
    """The same run, paused after so many steps."""
    run.pause()
    for _ in range(steps):
        run.step()
    wait(lambda: run.steps_done == steps and run.status == "paused")
    return run


def again(workspaces: Workspaces, token: str, run: Run) -> Run:
    """The visitor's run after a restart, once it is prepared."""
    found = workspaces.find(token).run(run.id)
    wait(lambda: found.status in ENDED)
    return found


def test_runs_are_stopped_after_a_restart_and_go_on_bit_for_bit(recipe: Recipe, tmp_path: Path) -> None:
    with server(tmp_path) as workspaces:
        whole = losses(finished(workspaces.service.start(recipe, TEXT, 0)))
        spaces = [workspaces.enter(None) for _ in range(2)]
        cut, done = (workspaces.start(spaces[0], recipe, TEXT, 0, paused=True, variant=each) for each in "ab")
        stepped(cut, 7)
        finished(workspaces.start(spaces[1], recipe, TEXT, 0))
        done.resume()
        finished(done)
        spaces[0].rename(done.id, "My own")
    files = [path.name for path in tmp_path.rglob("*")]
    assert not any(space.token in name for space in spaces for name in files), "a token is a credential"

    with server(tmp_path) as workspaces:
        later = again(workspaces, spaces[0].token, cut)
        assert (later.status, later.reason, later.steps_done) == ("stopped", INTERRUPTED, 7)
        space = workspaces.find(spaces[0].token)
        assert list(space.runs) == [cut.id, done.id]
        assert [space.entries[run_id].variant for run_id in space.runs] == ["a", "b"]
        assert space.title(done.id) == own("My own")
        later.continue_for(23)
        assert losses(finished(later)) == whole == losses(finished(space.run(done.id)))
        for token in (spaces[0].token[:-1], "0" * 32, digest(spaces[0].token)):
            with pytest.raises(RunError, match=NOT_YOURS):
                workspaces.find(token)
        with pytest.raises(RunError, match=NOT_YOURS):
            workspaces.find(spaces[1].token).run(cut.id)
        space.remove(done.id)

    with server(tmp_path) as workspaces:
        assert losses(again(workspaces, spaces[0].token, cut)) == whole
        assert list(workspaces.find(spaces[0].token).runs) == [cut.id], "what a person has removed stays so"


@pytest.mark.parametrize("kind", TASKS)
def test_a_run_that_fine_tunes_goes_on_after_a_restart(kind: str, tmp_path: Path, tiny_checkpoint: Checkpoint) -> None:
    parts = TaskParts(labelled(kind), None, labelled(kind, seed=1))
    recipe = FinetuningRecipe(name="own", task=kind, title="A task").override({"epochs": 2, "batch_size": 9})
    with server(tmp_path) as workspaces:
        whole = losses(finished(workspaces.service.finetune(recipe, tiny_checkpoint, parts)))
        space = workspaces.enter(None)
        run = stepped(workspaces.finetune(space, recipe, tiny_checkpoint, parts), 1)
    with server(tmp_path) as workspaces:
        later = again(workspaces, space.token, run)
        assert (later.status, later.steps_done) == ("stopped", 1)
        later.continue_for(len(whole) - 1)
        assert losses(finished(later)) == whole


def test_a_run_is_saved_every_half_minute_and_when_it_ends(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    saved: list[int] = []
    save: Callable[[Run, Path], None] = Run.save
    monkeypatch.setattr(Run, "save", lambda run, folder: (save(run, folder), saved.append(run.steps_done)))
    with server(tmp_path) as workspaces:
        run = workspaces.start(workspaces.enter(None), recipe, TEXT, paused=True)
        wait(lambda: saved == [0])
        run.step()
        wait(lambda: run.steps_done == 1)
        monkeypatch.setattr(module, "KEEP_SECONDS", 0)
        wait(lambda: saved == [0, 1])
        monkeypatch.setattr(module, "KEEP_SECONDS", 1e6)
        run.step()
        wait(lambda: run.steps_done == 2)
        run.stop()
        wait(lambda: len(saved) > 2)
        assert saved == [0, 1, 2]


def test_a_run_that_cannot_be_read_is_named_in_the_log_and_left_out(
    recipe: Recipe, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with server(tmp_path) as workspaces:
        space = workspaces.enter(None)
        runs = [stepped(workspaces.start(space, recipe, TEXT, paused=True), 1) for _ in range(3)]
    folders = [tmp_path / digest(space.token) / run.id for run in runs]
    (folders[0] / "listed.json").write_text("[")
    (folders[1] / "training_state.safetensors").unlink()
    (tmp_path / "my book").mkdir()
    with server(tmp_path) as workspaces:
        again(workspaces, space.token, runs[2])
        assert list(workspaces.find(space.token).runs) == [runs[2].id]
    for folder in folders[:2]:
        assert f"the run in {folder} cannot be read: " in caplog.text
        assert folder.is_dir()
    assert (tmp_path / "my book").is_dir(), "a folder of --keep may have other things, which stay"


def test_a_run_that_cannot_be_saved_keeps_what_was_saved_before(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with server(tmp_path) as workspaces:
        space = workspaces.enter(None)
        run = stepped(workspaces.start(space, recipe, TEXT, paused=True), 2)
        wait(lambda: list(tmp_path.glob("*/*/listed.json")))
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, 0))  # type: ignore[attr-defined]
        run.step()
        wait(lambda: run.steps_done == 3)
    assert "a run was not saved in" in caplog.text
    with server(tmp_path) as workspaces:
        assert again(workspaces, space.token, run).steps_done == 2


@pytest.mark.parametrize("place", ["/proc/x", __file__, f"{__file__}/inside"])
def test_a_folder_that_cannot_be_written_is_refused_at_once(place: str) -> None:
    with pytest.raises(RunError, match=rf"^Runs cannot be kept in {place} \([^)]+\); choose another folder\.$"):
        Workspaces(TrainingService("cpu"), {}).keep(Path(place))
