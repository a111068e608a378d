"""What a person expects who uses `bert_core` in a script or a notebook."""

import inspect
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from helpers import PATIENCE

import bert_core
from bert_core import TrainingService, load_checkpoint, load_recipe, prepare
from bert_core.errors import BertCoreError, CheckpointError, RunError
from bert_core.training import Trainer

SMALL = {"training.steps": 3, "data.batch_size": 3, "model.hidden_size": 12, "model.num_attention_heads": 3}
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def recipe():
    return load_recipe("romeo-juliet").override(SMALL)


def test_a_script_waits_for_a_run_and_reads_what_it_is(recipe):
    with TrainingService("cpu") as service:
        run = service.start(recipe, paused=True)
        assert re.fullmatch(r"CPU, \d+ cores?", service.device_name)
        run.resume()
        assert run.wait() is run
        assert (run.status, run.steps_done) == ("finished", 3)
        assert run.snapshots[-1].empty.name == "Romeo and Juliet, quick, step 3"
        failed = service.start(recipe, bert_core.Corpus.from_text("one"))
        with pytest.raises(RunError, match=r"one|sentence"):
            failed.wait()
    assert not service.is_alive, "the end of the block ends the threads"


def test_the_end_of_a_block_waits_for_the_step_in_progress(recipe, monkeypatch):
    """Without it, the end of the interpreter would abort the program in the middle of the step."""
    step, begun = Trainer.__next__, threading.Event()

    def slow(trainer):
        begun.set()
        time.sleep(1)
        return step(trainer)

    monkeypatch.setattr(Trainer, "__next__", slow)
    with TrainingService("cpu") as service:
        run = service.start(recipe)
        assert begun.wait(PATIENCE)
    assert not service.is_alive
    assert (run.status, run.steps_done) == ("stopped", 1)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("", "The program ends and stops 1 unfinished run(s). To let a run finish, call run.wait() first.\n"),
        ("service.close()", ""),
        ("import os, sys\nif child := os.fork(): sys.exit(os.waitpid(child, 0)[1])", "call run.wait() first.\n"),
    ],
    ids=["left open", "a step goes on", "a fork"],
)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="one of them forks")
def test_a_program_that_ends_before_its_runs_says_so_and_ends_well(end, said):
    """Also where the service is closed in the middle of a step, and where a fork of the program ends."""
    program = f"""
import time
from bert_core import TrainingService
from bert_core.training import Trainer
step = Trainer.__next__
def slow(trainer):
    time.sleep(1)
    return step(trainer)
Trainer.__next__ = slow
service = TrainingService("cpu")
run = service.start("romeo-juliet", seed=3)
while not run.steps_done:
    time.sleep(0.1)
{end}
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.endswith(said)
    assert done.stderr.count("call run.wait() first") == bool(said)


def test_a_training_loop_reads_numbers(recipe):
    trainer = prepare(recipe, seed=0).trainer()
    losses = [metrics.mlm_loss + metrics.nsp_loss for metrics in trainer]
    assert len(losses) == trainer.step == 3
    assert all(isinstance(loss, float) and 1 < loss < 9 for loss in losses)
    metrics = next(prepare(recipe, seed=0).trainer())
    assert repr(metrics).startswith(f"StepRow(step=1, mlm_loss={metrics.mlm_loss}, ")
    assert not hasattr(metrics, "accuracy")


def test_a_model_has_a_name_and_a_line():
    checkpoint = load_checkpoint("romeo-juliet")
    assert repr(checkpoint) == ("<Checkpoint romeo-juliet: BertForPreTraining, 2 layers of 48, 48,091 parameters>")


def test_a_name_of_the_hub_is_answered_with_the_way_to_it():
    with pytest.raises(CheckpointError, match=r"For a model of the Hub, that is what fetch_checkpoint returns\.$"):
        load_checkpoint("google-bert/bert-tiny")


def public_functions():
    for name, value in vars(bert_core).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            yield name, value
        elif inspect.isclass(value) and value.__module__.startswith("bert_core"):
            yield from (
                (f"{name}.{part}", each)
                for part, each in vars(value).items()
                if inspect.isfunction(each) and not part.startswith("_")
            )


def test_help_shows_what_can_be_read():
    unreadable = []
    for name, function in public_functions():
        text = f"{name}{inspect.signature(function)}"
        if "<lambda>" in text or not inspect.getdoc(function):
            unreadable.append(text)
    assert unreadable == []
    assert issubclass(CheckpointError, BertCoreError)
