"""Unfinished runs go on after the server has restarted, bit for bit, and answer to their visitor's old token alone."""

import json
import shutil
import threading
from pathlib import Path

import pytest
from helpers import labelled, wait

from balcony.app import build, open_workspaces
from balcony.server import kept as module
from balcony.server.kept import KeptRuns, _read, _written, digest
from balcony.server.scripts import locales
from balcony.server.workspace import NOT_YOURS
from balcony.server.workspaces import Workspaces
from bert_core import TrainingService, load_recipe
from bert_core.data.corpus import Corpus
from bert_core.errors import CheckpointError, RunError
from bert_core.runs.recipe import FinetuningRecipe, Recipe
from bert_core.runs.run import ENDED, Run
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TASKS, TaskParts

TEXT = Corpus([["a b c d", "b c d e", "c d e f"], ["d e f a", "e f a b"]], "mine")


@pytest.fixture
def recipe() -> Recipe:
    small = {"training.steps": 30, "data.batch_size": 2, "model.hidden_size": 12, "model.num_attention_heads": 3}
    return load_recipe("romeo-juliet").override(small)


def numbers(run: Run) -> list[tuple]:
    wait(lambda: run.progress().status in ENDED)
    assert run.status == "finished", run.reason
    return [(row.step, row.mlm_loss, row.nsp_loss, row.grad_norm) for row in run.history()]


def server(folder: Path) -> tuple[TrainingService, Workspaces]:
    service = TrainingService("cpu")
    workspaces = Workspaces(service, {})
    workspaces.keep(folder)
    return service, workspaces


def stepped(run: Run, steps: int) -> Run:
    for _ in range(steps):
        run.step()
    wait(lambda: run.steps_done == steps)
    return run


def test_runs_go_on_bit_for_bit_in_a_new_server(recipe: Recipe, tmp_path: Path) -> None:
    service, workspaces = server(tmp_path)
    whole = [numbers(service.start(recipe, TEXT, seed)) for seed in range(3)]
    spaces = [workspaces.enter(None) for _ in range(2)]
    runs = [workspaces.start(spaces[seed % 2], recipe, TEXT, seed, paused=True, variant=f"{seed}") for seed in range(2)]
    runs.append(workspaces.start_for_program(recipe, TEXT, 2))
    cuts = [stepped(run, 5 + 9 * number).steps_done for number, run in enumerate(runs[:2])]
    runs[0].resume()
    wait(lambda: all(run.steps_done or run.status in ENDED for run in runs))
    assert workspaces.kept is not None
    workspaces.kept.close()
    service.close()
    files = [path.name for path in tmp_path.rglob("*")]
    assert not any(space.token in name for space in spaces for name in files), "a token is a credential"

    service, workspaces = server(tmp_path)
    for seed, (token, run) in enumerate(
        [(spaces[0].token, runs[0]), (spaces[1].token, runs[1]), (runs[2].id, runs[2])]
    ):
        if run.status in ENDED and run.reason != "The app was closed.":
            continue  # it was so quick that it had finished
        space = workspaces.find(token)
        again = space.run(run.id)
        if seed < 2:
            assert space.entries[run.id].variant == f"{seed}"
            assert space.is_readmitted, "so that the page says what a restart loses"
        if seed == 1:
            wait(lambda again=again: again.status == "paused")
            assert again.steps_done == cuts[1]
            again.resume()
        assert numbers(again) == whole[seed]
        assert space.token == token
    kept = workspaces.kept
    assert kept is not None
    wait(lambda: kept.save_all() or not list(tmp_path.glob("*/*")))  # what has ended is removed
    for token in (spaces[0].token[:-1], "0" * 32, digest(spaces[0].token)):
        with pytest.raises(RunError, match=NOT_YOURS):
            workspaces.find(token)
    service.close()


def test_whether_a_run_is_paused_is_kept_as_well_as_its_step(recipe: Recipe, tmp_path: Path) -> None:
    service, workspaces = server(tmp_path)
    kept, run = workspaces.kept, workspaces.start(workspaces.enter(None), recipe, TEXT, 0, paused=True)
    assert kept is not None
    stepped(run, 3)
    run.set_pace(0.1)  # it has not ended before the next command
    for command, is_paused in ((run.pause, True), (run.resume, False), (run.pause, True)):
        command()
        wait(lambda is_paused=is_paused: (run.status == "paused") is is_paused)
        kept.save_all()
        [file] = tmp_path.glob("*/*.json")
        assert json.loads(file.read_text(encoding="utf-8"))["is_paused"] is is_paused
    service.close()


@pytest.mark.parametrize("kind", TASKS)
def test_examples_are_written_and_read(kind: str) -> None:
    parts = TaskParts(labelled(kind), None, labelled(kind, seed=1))
    again = _read(json.loads(json.dumps(_written(parts))))
    assert again == parts
    assert again.fingerprint == parts.fingerprint


def test_a_run_that_fine_tunes_goes_on_in_a_new_server(tmp_path: Path, tiny_checkpoint: Checkpoint) -> None:
    service, workspaces = server(tmp_path)
    parts = TaskParts(labelled("text-classification"))
    tuning = FinetuningRecipe(name="own", task="text-classification", title="A task").override(
        {"epochs": 3, "batch_size": 9}
    )
    whole = service.finetune(tuning, tiny_checkpoint, parts)
    wait(lambda: whole.status in ENDED)
    space = workspaces.enter(None)
    run = workspaces.finetune(space, tuning, tiny_checkpoint, parts)
    run.pause()
    wait(lambda: run.status == "paused")
    cut = run.steps_done
    assert workspaces.kept is not None
    workspaces.kept.close()
    service.close()

    service, workspaces = server(tmp_path)
    again = workspaces.find(space.token).run(run.id)
    again.resume()
    wait(lambda: again.status in ENDED)
    assert again.status == "finished", again.reason
    assert cut < again.steps_done == whole.steps_done
    assert [row.loss for row in again.history()] == [row.loss for row in whole.history()]
    service.close()


def test_a_run_that_cannot_be_saved_or_read_leaves_the_others_alone(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service, workspaces = server(tmp_path)
    space = workspaces.enter(None)
    first = stepped(workspaces.start(space, recipe, TEXT, paused=True), 3)
    service.admit = lambda run, nbytes: 1  # there is no memory for another one
    queued = workspaces.start(space, recipe, TEXT)
    kept = workspaces.kept
    assert kept is not None
    kept.save_all()
    folder = tmp_path / digest(space.token) / first.id
    assert folder.is_dir()
    assert not folder.with_name(queued.id).exists(), "it has no model yet"
    first.step()
    wait(lambda: first.steps_done == 4)
    with monkeypatch.context() as full:
        full.setattr(Run, "save", lambda *_: (_ for _ in ()).throw(CheckpointError("secret words of a visitor")))
        kept.save_all()
    assert "a run was not kept: CheckpointError at test_kept.py" in caplog.text
    assert "secret" not in caplog.text
    kept.close()
    service.close()
    assert folder.is_dir()

    visitor, (half, lost, damaged, gone) = tmp_path / ("0a" * 32), (f"{number}c" * 16 for number in range(4))
    (visitor / f".{half}.0.new").mkdir(parents=True)
    (visitor / f"{lost}.text").write_text("{}")
    (visitor / f"{damaged}.json").write_text("[")
    shutil.copy(folder.with_suffix(".json"), folder.with_name(f"{gone}.json"))
    shutil.copy(folder.with_suffix(".text"), folder.with_name(f"{gone}.text"))
    service, workspaces = server(tmp_path)
    assert "a kept run cannot be read: JSONDecodeError" in caplog.text
    assert "a kept run does not go on: CheckpointError" in caplog.text
    assert list(workspaces.find(space.token).runs) == [first.id]
    assert [path.name for path in visitor.iterdir()] == [f"{damaged}.json"]
    monkeypatch.setattr(module, "LARGEST_TEXT", 3)
    workspaces.find(space.token).run(first.id).stop()
    other = stepped(workspaces.start(workspaces.enter(None), recipe, TEXT, paused=True), 1)
    assert workspaces.kept is not None
    workspaces.kept.save_all()
    assert not folder.exists()
    assert not list(tmp_path.glob(f"*/{other.id}*")), "its text is too long"
    service.close()


@pytest.mark.parametrize("keeps", [False, True])
def test_the_page_says_what_a_restart_loses(keeps: bool, tmp_path: Path) -> None:
    service = TrainingService("cpu")
    workspaces = open_workspaces(service)
    if keeps:
        workspaces.keep(tmp_path)
    shown = [block.value for block in build(service, workspaces).blocks.values() if hasattr(block, "value")]
    assert shown.count(f"<p>{workspaces.losses}</p>") == 2  # beside the models, and where a run is saved
    assert ("unfinished runs continue" in workspaces.losses) == keeps
    assert all(workspaces.losses in json.loads(texts) for texts in locales().values())
    if workspaces.kept is not None:
        workspaces.kept.close()
    service.close()


def test_a_save_that_takes_long_does_not_hold_up_the_end_of_the_server(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a large model, which waits for a step in progress: both end when the process does."""
    service, workspaces = server(tmp_path)
    stepped(workspaces.start(workspaces.enter(None), recipe, TEXT, paused=True), 1)
    over = threading.Event()
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.2)
    monkeypatch.setattr(Run, "save", lambda *_: over.wait())
    assert workspaces.kept is not None
    workspaces.kept.close()  # without a limit it would not return
    assert not over.is_set()
    over.set()
    service.close()


def test_what_a_person_has_in_the_folder_stays_as_it_is(tmp_path: Path) -> None:
    """The folder of --keep may be any: a home, a repository."""
    folder, elsewhere, visitor, run = tmp_path / "home", tmp_path / "elsewhere", "0a" * 32, "1b" * 16
    own = ["book/draft.txt", "book/notes/one.txt", "book/.hidden", "book/facts.json", f"{visitor}/mine.txt"]
    halves = [f"{visitor}/{run}/config.json", f"{visitor}/.{run}.0a1b.new/config.json", f"{visitor}/{run}.new"]
    linked = [f"{run}/config.json"]
    for top, names in ((folder, own + halves), (elsewhere, linked)):
        for name in names:
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text("{}")
    (folder / "link").symlink_to(elsewhere)
    (folder / ("2c" * 32)).symlink_to(elsewhere)
    service, _ = server(folder)
    service.close()
    assert all((folder / name).read_text() == "{}" for name in own)
    assert all((elsewhere / name).exists() for name in linked)
    assert not any((folder / name).exists() for name in halves)


@pytest.mark.parametrize("place", ["/proc/x", __file__, f"{__file__}/inside"])
def test_a_folder_that_cannot_be_written_is_refused_at_once(place: str) -> None:
    with pytest.raises(RunError, match=rf"^Runs cannot be kept in {place} \([^)]+\); choose another folder\.$"):
        KeptRuns(Path(place), lambda: iter(()))
