"""An error at any point of preparing, training, saving and probing has a reason; the threads and all else go on."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import PATIENCE, wait

from balcony.handlers import SURPRISE, on_error
from balcony.server import probe_lock
from bert_core.data.batches import PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.errors import OUT_OF_MEMORY, reason_of
from bert_core.model import BertForPreTraining
from bert_core.probes import forward, masked_words
from bert_core.runs import jobs, run, service, train
from bert_core.runs.recipe import Recipe, load_recipe
from bert_core.runs.run import ENDED, Run
from bert_core.runs.service import TrainingService
from bert_core.storage import checkpoint
from bert_core.training import Optimizer, Pretraining, Trainer

TEXT = Corpus([[f"w{i % 7} w{(i + j) % 5} w{j}" for j in range(4)] for i in range(12)])


class Panic(BaseException):
    """Like a panic of a library in Rust: no Exception."""


def too_little_memory() -> RuntimeError:
    return RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: 12")


@pytest.fixture(scope="module")
def service_() -> Iterator[TrainingService]:
    made = TrainingService("cpu")
    yield made
    made.close()


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return load_recipe("romeo-juliet").override(
        {"training.steps": 4, "data.batch_size": 2, "model.hidden_size": 12, "model.num_attention_heads": 3}
    )


def once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: BaseException) -> list[str]:
    """Let a function raise at its first call; returns a list that then holds its name."""
    original, raised = getattr(owner, name), []

    def fail(*arguments: Any, **named: Any) -> Any:
        if raised:
            return original(*arguments, **named)
        raised.append(name)
        raise error

    monkeypatch.setattr(owner, name, property(fail) if isinstance(original, property) else fail)
    return raised


IN_A_RUN = [
    *[(jobs, name) for name in ("train_tokenizer", "training_bytes", "encode_corpus", "PretrainingBatches")],
    *[(jobs, "prepare_text"), (jobs, "BertForPreTraining"), (jobs, "evaluate")],
    *[(service, name) for name in ("prepare", "Training")],
    (run, "thinned"),
    *[(Run, name) for name in ("_publish", "may_step", "begin", "train", "_end")],
    *[(train, name) for name in ("read_rows", "until_divergence", "Snapshot")],
    *[(Recipe, name) for name in ("source", "content")],
    *[(train.Training, name) for name in ("__iter__", "_slice", "take_snapshot", "_evaluated")],
    (jobs.TextJob, "verdict"),
    *[(Trainer, name) for name in ("__next__", "_run")],
    *[(PretrainingBatches, "__getitem__"), (Pretraining, "loss"), (Optimizer, "step")],
]


@pytest.mark.parametrize(("owner", "name"), IN_A_RUN, ids=lambda value: getattr(value, "__name__", value))
def test_an_error_in_one_run_gives_it_a_reason_and_the_next_run_trains(
    service_: TrainingService, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    raised = once(monkeypatch, owner, name, Panic("no Exception"))
    text = None if name == "source" else TEXT
    broken, next_one = service_.start(recipe, text), service_.start(recipe, text)
    wait(lambda: broken.progress().status in ENDED and next_one.progress().status in ENDED)
    assert raised
    failed, fine = sorted((broken, next_one), key=lambda each: each.status == "finished")
    assert (failed.status, fine.status) == ("failed", "finished")
    assert "internal error (Panic)" in failed.reason
    assert len(fine.history()) == 4


@pytest.mark.parametrize(("owner", "name"), [(jobs, "BertForPreTraining"), (Trainer, "_run")])
@pytest.mark.parametrize("error", [MemoryError(), too_little_memory()], ids=["python", "torch"])
def test_a_failed_allocation_says_that_the_machine_is_too_small(
    service_: TrainingService, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception
) -> None:
    once(monkeypatch, owner, name, error)
    started = service_.start(recipe, TEXT)
    wait(lambda: started.progress().status in ENDED)
    assert "ran out of memory; choose a smaller model" in started.reason
    assert reason_of(error) == OUT_OF_MEMORY
    assert reason_of(RuntimeError("shape '[3]' is invalid")) == ""


IN_SAVING = [
    *[(train.Training, "to_save"), (train.Training, "copy"), (Trainer, "averages")],
    *[(checkpoint, name) for name in ("check_finite", "_put_in_place", "weights_of", "small_files")],
    *[(train.TrainingState, "write"), (train, "save_file")],
]


@pytest.mark.parametrize(("owner", "name"), IN_SAVING, ids=lambda value: getattr(value, "__name__", value))
def test_an_error_while_saving_has_a_reason_and_the_run_goes_on(
    service_: TrainingService,
    recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    owner: Any,
    name: str,
) -> None:
    started = service_.start(recipe, TEXT, paused=True)
    started.step()
    wait(lambda: started.steps_done == 1 and started.status == "paused")
    save = on_error(str)(lambda: started.save(tmp_path / "model"))
    raised = once(monkeypatch, owner, name, Panic())
    assert save() == SURPRISE
    assert raised
    assert list(tmp_path.glob("model/*")) == [], "no half of a save"
    assert save() is None
    assert train.read_training_state(tmp_path / "model").history[-1].step == 1
    started.resume()
    wait(lambda: started.progress().status in ENDED)
    assert started.status == "finished"


IN_PROBING = [
    *[(masked_words, name) for name in ("find_masks", "word_scores", "likeliest", "require")],
    *[(forward, name) for name in ("run", "using_threads")],
    (BertForPreTraining, "forward"),
]


@pytest.mark.parametrize(("owner", "name"), IN_PROBING, ids=lambda value: getattr(value, "__name__", value))
def test_an_error_in_a_probe_has_a_reason_and_the_next_one_is_answered(
    tiny_checkpoint: checkpoint.Checkpoint, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    @on_error(str)
    def probe() -> Any:
        with probe_lock.probe_lock:
            return masked_words.fill_mask(tiny_checkpoint, "hello [MASK]")

    raised = once(monkeypatch, owner, name, Panic())
    assert probe() == SURPRISE
    assert raised
    assert len(probe()) == 1
    assert probe_lock.probe_lock.waiting == 0


IN_THE_SERVICE = ["_chosen_run", "_next_runs"]


@pytest.mark.parametrize("name", IN_THE_SERVICE)
def test_an_error_of_the_scheduler_does_not_stop_it(
    service_: TrainingService, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(service, "TICK_SECONDS", 0.02)
    raised = once(monkeypatch, TrainingService, name, Panic())
    with service_.changed:
        service_.changed.notify_all()
    wait(lambda: raised)
    started = service_.start(recipe, TEXT)
    wait(lambda: started.progress().status in ENDED)
    assert started.status == "finished"


@pytest.mark.parametrize("name", ["tick", "admit"])
def test_an_error_of_the_program_around_ends_no_other_run(
    service_: TrainingService, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(service, "TICK_SECONDS", 0.02)
    raised = once(monkeypatch, service_, name, Panic())
    runs = [service_.start(recipe, TEXT) for _ in range(2)]
    wait(lambda: raised and all(each.progress().status in ENDED for each in runs))
    assert runs[1].status == "finished"
    assert runs[0].status == ("failed" if name == "admit" else "finished")


@pytest.mark.parametrize(
    "command", [Run.pause, Run.resume, Run.step, Run.stop], ids=["pause", "resume", "step", "stop"]
)
def test_an_error_while_a_command_is_carried_out_ends_its_run_and_nobody_waits_for_ever(
    service_: TrainingService, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    run_ = service_.start(recipe.override({"training.steps": 100_000}), TEXT)
    wait(run_.history)
    once(monkeypatch, Run, "_resume" if command is Run.resume else "_keep_newest", Panic())
    command(run_)
    wait(lambda: run_.status in ENDED)
    assert (run_.status, "internal error (Panic)" in run_.reason) == ("failed", True)


@pytest.fixture
def slow_step(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Every step waits for this event."""
    door, step = threading.Event(), Trainer.__next__

    def slow(trainer: Trainer) -> Any:
        door.wait(PATIENCE)
        return step(trainer)

    monkeypatch.setattr(Trainer, "__next__", slow)
    yield door
    door.set()


def test_stop_is_a_flag_and_a_save_waits_for_the_step(
    service_: TrainingService, recipe: Recipe, slow_step: threading.Event, tmp_path: Path
) -> None:
    started = service_.start(recipe)
    wait(lambda: started.in_slice)
    saver = threading.Thread(target=started.save, args=[tmp_path / "model"])
    saver.start()
    wait(lambda: started._commands)
    for _ in range(40):  # in this thread: none of them waits
        started.stop(wait=False)
    assert started.progress().reason == "Stopping after the step in progress."
    assert started.status == "running"
    slow_step.set()
    saver.join(PATIENCE)
    wait(lambda: started.status in ENDED)
    assert started.reason == f"Stopped by you at step {len(started.history())}."
    assert started.snapshots[-1].step == len(started.history()) >= 1
    assert train.read_training_state(tmp_path / "model").history[-1].step == len(started.history())


def test_closing_waits_for_the_step_in_progress(recipe: Recipe, slow_step: threading.Event) -> None:
    made = TrainingService("cpu")
    started = made.start(recipe)
    wait(lambda: started.in_slice)
    closing = threading.Thread(target=made.close)
    closing.start()
    wait(lambda: started._commands)
    assert started.status == "running"
    slow_step.set()
    closing.join(PATIENCE)
    assert started.reason == "The app was closed."
    assert not made.is_alive
