"""The background service: determinism beside other work, controls, fairness, failure of one run alone."""

import math
import os
import random
import sys
import threading
import time
import types

import pytest
import torch
from helpers import PATIENCE, change_state, finished, wait
from hypothesis import settings
from safetensors.torch import save_file
from torch.nn.utils import parameters_to_vector

from bert_core import device
from bert_core.data import encoding as encoding_module
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.device import choose_device
from bert_core.errors import CheckpointError, ConfigError, CorpusError, RunError
from bert_core.probes.masked_words import fill_mask
from bert_core.runs import train
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import load_recipe
from bert_core.runs.run import ENDED, MAX_SNAPSHOTS, Run
from bert_core.runs.service import TrainingService
from bert_core.storage.checkpoint import load_checkpoint, save_checkpoint
from bert_core.training import evaluate, read_rows


def flat(snapshot):
    """A copy of all weights as one tensor."""
    return parameters_to_vector(snapshot.weights.values())


@pytest.fixture
def service():
    service = TrainingService("cpu")
    yield service
    service.close()


@pytest.fixture
def recipe():
    """A run of some tenths of a second, with dropout."""
    return load_recipe("romeo-juliet").override(
        {
            "training.steps": 60,
            "data.batch_size": 4,
            "model.hidden_size": 12,
            "model.num_attention_heads": 3,
            "model.hidden_dropout_prob": 0.1,
            "model.attention_probs_dropout_prob": 0.1,
        }
    )


def numbers(rows):
    return [(row.step, row.mlm_loss, row.nsp_loss, row.mlm_accuracy, row.nsp_accuracy, row.grad_norm) for row in rows]


def alone(recipe, seed):
    return numbers(read_rows(list(prepare(recipe, seed=seed).trainer())))


def test_a_run_gives_the_losses_of_the_plain_trainer(service, recipe):
    run = finished(service.start(recipe, seed=5))
    assert numbers(run.history()) == alone(recipe, 5)
    assert run.progress().step == run.progress().steps == 60


def test_the_same_seed_gives_the_same_losses_whatever_else_happens(service, recipe, tiny_checkpoint, tmp_path):
    expected = alone(recipe, 5)
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    others = [service.start(recipe.override({"training.steps": 100_000}), seed=seed) for seed in (6, 7, 8)]
    done = threading.Event()

    def load_models():
        while not done.wait(0.005):
            fill_mask(load_checkpoint(tmp_path / "model"), "how [MASK] you")

    loader = threading.Thread(target=load_models)
    loader.start()
    try:
        run = finished(service.start(recipe, seed=5))
        assert all(other.status in ("queued", "running") for other in others)  # they did train beside it
        assert any(other.history() for other in others)
    finally:
        done.set()
        loader.join()
    assert numbers(run.history()) == expected
    assert numbers(run.history()) != numbers(others[0].history()[:60])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_training_and_preparing_have_less_priority_than_answers(service, recipe):
    finished(service.start(recipe))
    priority = {each.name: os.getpriority(os.PRIO_PROCESS, each.native_id) for each in threading.enumerate()}
    own = priority["MainThread"]
    assert {name: priority[name] for name in ("train", "prepare")} == {
        "train": min(19, own + 10),
        "prepare": min(19, own + 10),
    }


def test_no_slice_gives_a_device_more_steps_than_it_does_in_the_time_of_a_slice(recipe, monkeypatch):
    def read(pending):
        clock[0] += device_seconds * len(pending)  # until the device has done the steps that it was given
        return read_rows(pending)

    def may_step():
        clock[0] += train.SLICE_SECONDS / 10
        return True

    clock = [0.0]
    monkeypatch.setattr(train, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(train, "read_rows", read)
    device_seconds = 2 * train.SLICE_SECONDS
    made = train.Training(prepare(recipe.override({"training.steps": 100_000})), may_step=may_step)
    made._slice()  # the first slice tells how long a step takes
    device_seconds = train.SLICE_SECONDS
    assert [len(made._slice()[0]) for _ in range(4)] == [1, 1, 1, 1]
    device_seconds = 0
    assert max(len(made._slice()[0]) for _ in range(9)) > 1


def test_history_is_read_with_a_cursor(service, recipe):
    run = service.start(recipe)
    cursor, rows = 0, []
    while run.status not in ENDED or cursor < len(run.history()):
        fresh = run.history(since=cursor)
        cursor += len(fresh)
        rows += fresh
        time.sleep(0.002)
    assert [row.step for row in rows] == list(range(1, 61))


def test_pausing_stepping_and_resuming_change_no_loss(service, recipe):
    run = service.start(recipe, seed=5)
    wait(lambda: len(run.history()) >= 5)
    run.pause()
    wait(lambda: run.status == "paused")
    done = len(run.history())
    assert run.snapshots[-1].step == done
    finished(service.start(recipe))  # the service goes on, and gives this run no time
    assert len(run.history()) == done
    for extra in (1, 2, 3):
        run.step()
        wait(lambda extra=extra: len(run.history()) == done + extra)
        assert run.status == "paused"
        assert run.snapshots[-1].step == done + extra
    run.resume()
    assert numbers(finished(run).history()) == alone(recipe, 5)


@pytest.mark.parametrize(("command", "status"), [(Run.pause, "paused"), (Run.stop, "stopped")])
def test_a_run_that_rests_has_a_snapshot_of_its_last_step(service, recipe, monkeypatch, command, status):
    monkeypatch.setattr(train, "SNAPSHOT_SECONDS", math.inf)
    monkeypatch.setattr(train, "SNAPSHOT_GROWTH", math.inf)
    runs = [service.start(recipe.override({"training.steps": 100_000}), seed=seed) for seed in range(4)]
    wait(lambda: all(len(run.history()) > 5 for run in runs))
    for run in runs:  # most of them between two slices
        command(run)
        wait(lambda run=run: run.status == status)
        assert run.snapshots[-1].step == len(run.history())


def test_a_run_can_be_started_paused_step_by_step(service, recipe):
    run = service.start(recipe, paused=True)
    run.step()
    wait(lambda: len(run.history()) == 1)
    finished(service.start(recipe))
    assert len(run.history()) == 1
    assert run.status == "paused"


def test_stopping_ends_a_run_with_a_reason_and_keeps_what_it_learnt(service, recipe):
    run = service.start(recipe.override({"training.steps": 100_000}))
    wait(lambda: len(run.history()) >= 10)
    run.stop()
    assert run.status == "stopped"
    done = len(run.history())
    assert run.reason == f"Stopped by you at step {done}."
    finished(service.start(recipe))
    assert len(run.history()) == done
    assert fill_mask(run.snapshots[-1].checkpoint(), "how [MASK] you")
    for command in (run.pause, run.resume, run.step):
        with pytest.raises(RunError, match="ended"):
            command()
    run.stop()
    assert run.status == "stopped"


def test_the_last_snapshot_is_the_finished_model(service, recipe):
    run = finished(service.start(recipe, seed=5))
    trainer = prepare(recipe, seed=5).trainer()
    list(trainer)
    checkpoint = run.snapshots[-1].checkpoint()
    assert run.snapshots[-1].step == 60
    assert not checkpoint.model.training
    for (name, ours), theirs in zip(checkpoint.model.state_dict().items(), trainer.model.state_dict().values()):
        assert torch.equal(ours, theirs), name
    assert checkpoint.recipe["seed"] == 5


def test_snapshots_are_dense_at_the_start_thinned_and_never_change(service, recipe):
    run = service.start(recipe.override({"training.steps": 700, "data.batch_size": 1}))
    wait(lambda: len(run.snapshots) >= 5)
    early = run.snapshots[2]
    kept = flat(early)
    finished(run)
    steps = [snapshot.step for snapshot in run.snapshots]
    assert steps == sorted(set(steps))
    assert steps[0] == 0
    assert steps[-1] == 700
    assert 20 <= len(steps) <= MAX_SNAPSHOTS
    assert sum(step < 105 for step in steps) >= len(steps) / 3
    assert torch.equal(flat(early), kept)


def expect_even_shares(count_one, count_other):
    """Wait until each of two visitors has done 100 more steps, and neither twice as many as the other.

    A moment in which the machine stands still counts as time of whose turn it is, so at first they may be apart.
    """
    before = (count_one(), count_other())

    def even():
        few, many = sorted((count_one() - before[0], count_other() - before[1]))
        return few > 100 and many < 2 * few

    wait(even, "the two did not share the machine evenly")


def test_runs_share_the_machine_and_a_newcomer_is_served_at_once(service, recipe):
    long = recipe.override({"training.steps": 100_000})
    first = service.start(long)
    wait(lambda: len(first.history()) > 100)
    second = service.start(long)
    wait(lambda: len(second.history()) > 0)
    expect_even_shares(lambda: len(first.history()), lambda: len(second.history()))


def test_the_runs_of_an_owner_wait_for_each_other_but_not_for_a_paused_one(service, recipe):
    long = recipe.override({"training.steps": 100_000})
    first, second = (service.start(each, seed=seed, owner="a") for each, seed in ((long, 1), (recipe, 2)))
    wait(first.history)
    finished(service.start(recipe))  # another owner is served meanwhile
    assert second.status == "queued"
    assert second.job is None  # not even prepared
    first.pause()
    assert numbers(finished(second).history()) == alone(recipe, 2)
    assert first.status == "paused"
    third = service.start(recipe, seed=3, owner="a")
    first.resume()
    wait(lambda: first.status == "running")
    first.stop()
    assert numbers(finished(third).history()) == alone(recipe, 3)


def test_commands_to_a_queued_run_are_carried_out_when_it_is_prepared(service, recipe):
    first, second = (service.start(recipe, seed=seed, owner="b", paused=True) for seed in (1, 2))
    third = service.start(recipe.override({"training.steps": 100_000}), owner="b")
    third.step()
    wait(lambda: third.steps_done == 1 and third.status == "paused")
    assert [first.status, second.status] == ["paused", "paused"]
    for run in (second, first):
        run.resume()
        finished(run)


def test_many_runs_of_an_owner_take_the_share_of_one(service, recipe):
    long = recipe.override({"training.steps": 100_000})
    many = [service.start(long, seed=seed, owner=("a", 1)) for seed in range(5)]
    other = service.start(long)
    wait(lambda: many[0].history() and other.history())
    expect_even_shares(lambda: sum(len(run.history()) for run in many), lambda: len(other.history()))
    assert not any(run.history() for run in many[1:])


def test_a_paused_run_does_not_catch_up_on_missed_time(service, recipe):
    long = recipe.override({"training.steps": 100_000})
    away, other = stepped(service.start(long, paused=True), 1), service.start(long)
    wait(lambda: len(other.history()) > 120)
    away.resume()
    done = len(other.history())
    wait(lambda: len(away.history()) > 60)
    assert len(other.history()) - done > 20  # it gets its share of the time


def test_a_run_without_memory_waits_in_the_queue_and_says_how_long(service, recipe):
    free = [0]

    def admit(run, nbytes):
        return max(0, nbytes - free[0]) if run.owner == "large" else 0

    service.admit = admit
    other = service.start(recipe.override({"training.steps": 100_000}))
    large, small = service.start(recipe, seed=5, owner="large"), service.start(recipe)
    finished(small)  # it does not wait for the other one
    wait(lambda: large.progress().lacking)
    other.set_pace(100)
    wait(lambda: other.progress().seconds_left)
    progress = large.progress()
    assert (progress.status, progress.lacking) == ("queued", other.training_bytes)
    assert progress.wait_seconds > 100, "until the other run ends"
    other.pause()
    wait(lambda: other.status == "paused")
    assert large.progress().wait_seconds is None
    free[0] = 2**40
    assert numbers(finished(large).history()) == alone(recipe, 5)
    assert large.progress().lacking == 0
    service.admit = lambda run, nbytes: 1
    waiting = service.start(recipe)
    wait(lambda: waiting.progress().lacking)
    waiting.stop()
    assert waiting.status == "stopped"


class BrokenBatches:
    def __getitem__(self, k):
        return 1 / 0


def test_a_run_that_fails_has_a_reason_and_the_others_continue(service, recipe, monkeypatch):
    good = service.start(recipe.override({"training.steps": 400}))
    bad_text = service.start(recipe, corpus=Corpus([["only one"]]))
    wait(lambda: bad_text.status in ENDED)
    assert bad_text.status == "failed"
    assert "single sentence" in bad_text.reason

    broken = service.start(recipe.override({"training.steps": 100_000}))
    wait(lambda: len(broken.history()) > 3)
    monkeypatch.setattr(broken.training.trainer, "batches", BrokenBatches())
    wait(lambda: broken.status in ENDED)
    assert broken.status == "failed"
    assert "internal error (ZeroDivisionError)" in broken.reason
    finished(good)


def test_a_loss_that_is_not_a_number_ends_the_run_and_keeps_the_last_finite_model(service, recipe):
    run = service.start(recipe.override({"training.steps": 100_000}))
    wait(lambda: len(run.history()) > 20)
    run.pause()
    wait(lambda: run.status == "paused")
    run.training.trainer.model.bert.embeddings.LayerNorm.eps = float("nan")
    done = len(run.history())
    run.resume()
    wait(lambda: run.status in ENDED)
    assert run.status == "failed"
    assert f"at step {done + 1}" in run.reason
    assert "lower learning rate" in run.reason
    assert len(run.history()) == done
    assert run.snapshots[-1].step == done
    assert flat(run.snapshots[-1]).isfinite().all()


def test_ids_are_128_random_bits(service, recipe):
    runs = [service.start(recipe) for _ in range(5)]
    assert len({run.id for run in runs}) == 5
    assert all(len(bytes.fromhex(run.id)) == 16 for run in runs)


def test_a_wrong_request_is_refused_at_once(service):
    with pytest.raises(ConfigError, match="no recipe 'hamlet'"):
        service.start("hamlet")
    with pytest.raises(ConfigError, match="seed"):
        service.start("romeo-juliet", seed=-1)
    with pytest.raises(ConfigError, match="not available"):
        TrainingService("tpu")


def test_closing_stops_everything(recipe):
    before = set(threading.enumerate())
    service = TrainingService("cpu")
    runs = [service.start(recipe.override({"training.steps": 100_000}), seed=seed) for seed in range(3)]
    wait(lambda: any(run.history() for run in runs))
    service.close()
    assert all(run.status == "stopped" for run in runs)
    assert all(run.reason == "The app was closed." for run in runs)
    assert set(threading.enumerate()) <= before
    with pytest.raises(RunError, match="closing"):
        service.start(recipe)
    service.close()


def stepped(run, steps):
    """The run after so many single steps, at rest."""
    for _ in range(steps):
        run.step()
    wait(lambda: len(run.history()) == steps)
    return run


def test_the_same_recipe_and_seed_begin_with_the_same_weights(service, recipe):
    runs = [stepped(service.start(recipe, seed=seed, paused=True), 1) for seed in (5, 5, 6)]
    first, again, other = (flat(run.snapshots[0]) for run in runs)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_continued_run_equals_one_whose_recipe_states_both_parts(service, recipe):
    run = finished(service.start(recipe.override({"training.steps": 20}), seed=5))
    with service.changed:  # no step is done meanwhile
        run.continue_for(15)
        assert run.status == "running"
    assert finished(run).progress().steps == 35
    run.continue_for(5)
    both = recipe.replace(training=run.recipe.training)
    assert numbers(finished(run).history()) == alone(both, 5)
    peak = recipe.training.learning_rate
    assert [(part.start, part.steps) for part in both.training.parts] == [(20, 15), (35, 5)]
    assert run.history()[20].learning_rate == run.history()[35].learning_rate == peak
    assert run.snapshots[-1].checkpoint().recipe["training"]["parts"][0]["start"] == 20


def test_a_stopped_run_can_be_continued(service, recipe):
    run = stepped(service.start(recipe, seed=5, paused=True), 7)
    run.stop()
    run.continue_for(10)
    both = recipe.replace(training=recipe.training.then(7, 10))
    assert numbers(finished(run).history()) == alone(both, 5)
    rest = stepped(service.start(recipe, seed=5, paused=True), 7)
    rest.stop()
    rest.continue_for(recipe.training.total_steps - 7)
    assert numbers(finished(rest).history()) == alone(recipe, 5)


def test_the_remaining_time_follows_the_pace_and_leaves_out_a_pause(service, recipe):
    run = service.start(recipe.override({"training.steps": 60}), seed=1)
    run.set_pace(4)
    wait(lambda: len(run.history()) >= 2)
    assert run.progress().seconds_left > 0.9 * 58 / 4
    run.pause()
    time.sleep(3)
    run.resume()
    before = len(run.history())
    wait(lambda: len(run.history()) > before)
    assert run.progress().seconds_left < 1.5 * 58 / 4
    run.stop()


def test_a_run_resumed_from_its_files_gives_the_same_losses_at_any_cut(service, recipe, tmp_path):
    short = recipe.override({"training.steps": 12})
    changed = short.replace(training=short.training.then(6, 6, 0.02))
    whole = {recipe: numbers(finished(service.start(recipe, seed=5)).history()) for recipe in (short, changed)}
    other = service.start(recipe.override({"training.steps": 100_000}), seed=6)
    cuts = [(short, cut) for cut in (0, 1, 7, 12)] + [(changed, cut) for cut in (0, 3, 5, 6, 7, 11, 12)]
    for number, (asked, cut) in enumerate(cuts):
        saved = tmp_path / str(number)
        run = stepped(service.start(asked, seed=5, paused=True), cut)
        wait(lambda run=run: run.snapshots)
        run.save(saved)
        run.stop()
        resumed = finished(service.resume(saved))
        assert resumed.recipe.seed == 5
        assert numbers(resumed.history()) == whole[asked], cut
        assert [row.seconds for row in resumed.history()[:cut]] == [row.seconds for row in run.history()]
    assert other.status == "running"
    assert other.history()


def test_a_changed_learning_rate_and_later_steps_are_saved_and_repeated(service, recipe, tmp_path):
    run = stepped(service.start(recipe.override({"training.steps": 12}), seed=5, paused=True), 4)
    run.set_learning_rate(0.02)
    run.save(tmp_path / "paused")
    run.resume()
    resumed = finished(service.resume(tmp_path / "paused"))
    assert numbers(finished(run).history()) == numbers(resumed.history())
    run.save(tmp_path / "finished")
    again = service.resume(tmp_path / "finished")
    for each in (run, finished(again)):
        each.continue_for(6)
        finished(each)
    assert numbers(again.history()) == numbers(run.history())
    assert again.recipe.training == run.recipe.training


def test_a_running_run_is_saved_at_a_whole_step(service, recipe, tmp_path):
    run = service.start(recipe.override({"training.steps": 120}), seed=5)
    wait(lambda: len(run.history()) > 10)
    run.save(tmp_path / "model")
    resumed = finished(service.resume(tmp_path / "model"))
    assert numbers(finished(run).history()) == numbers(resumed.history())


def test_the_held_out_curve_is_kept(service, recipe, tmp_path):
    text = "\n\n".join("\n".join(f"w{i % 7} w{(i + j) % 5} w{j}" for j in range(4)) for i in range(40))
    corpus = Corpus.from_text(text, "lines")
    run = finished(service.start(recipe.override({"training.steps": 9}), corpus, seed=5))
    run.save(tmp_path / "model")
    resumed = finished(service.resume(tmp_path / "model", corpus))
    assert resumed.evaluations() == run.evaluations()
    assert resumed.job.parts.validation == run.job.parts.validation
    other = Corpus.from_text(text.replace("w3", "w4", 1), "lines", "another text")
    for wrong, problem in (
        (None, "give it the text that it was trained on"),
        (other, "is not the text that this model"),
    ):
        with pytest.raises(CorpusError, match=problem):
            service.resume(tmp_path / "model", wrong)


def test_files_that_cannot_be_resumed_are_refused(service, recipe, tiny_checkpoint, tmp_path):
    save_checkpoint(tiny_checkpoint, tmp_path / "plain")
    with pytest.raises(CheckpointError, match="There is no training state in"):
        service.resume(tmp_path / "plain")
    run = stepped(service.start(recipe, seed=5, paused=True), 2)
    run.save(tmp_path / "model")
    state = tmp_path / "model" / "training_state.safetensors"
    good = state.read_bytes()
    changes = [
        (lambda tensors, facts: facts.update(text=2), "is damaged"),
        (lambda tensors, facts: tensors.update(history=tensors["history"].repeat(999, 1)), "is damaged"),
        (lambda tensors, facts: facts["evaluations"].append(-1), "is damaged"),
        (lambda tensors, facts: tensors.pop("history"), "is damaged"),
        (lambda tensors, facts: tensors.pop("file.recipe.json"), "is damaged"),
        (lambda tensors, facts: tensors.update(history=torch.zeros(2, 3, dtype=torch.float64)), "is damaged"),
        (lambda tensors, facts: tensors["history"].__setitem__((0, 0), 7), "is damaged"),
        (lambda tensors, facts: tensors.pop("model.bert.pooler.dense.bias"), "is missing"),
    ]
    for change, message in changes:
        state.write_bytes(good)
        change_state(state.parent, change)
        with pytest.raises(CheckpointError, match=message):
            service.resume(tmp_path / "model")
    state.write_bytes(b"\x08" + bytes(20))
    with pytest.raises(CheckpointError, match="is damaged"):
        service.resume(tmp_path / "model")
    save_file({"0.exp_avg": torch.zeros(3), "history": torch.zeros(2, 3)}, state)  # as it was before
    with pytest.raises(CheckpointError, match="another version of this program has saved it"):
        service.resume(tmp_path / "model")
    save_checkpoint(tiny_checkpoint, tmp_path / "model")  # the state goes with its model
    with pytest.raises(CheckpointError, match="There is no training state in"):
        service.resume(tmp_path / "model")


def test_a_run_that_cannot_be_continued_is_refused_with_a_reason(service, recipe):
    run = service.start(recipe.override({"training.steps": 100_000}), paused=True)
    with pytest.raises(RunError, match="Only a finished or stopped run"):
        run.continue_for(5)
    bad = service.start(recipe, corpus=Corpus([["only one"]]))
    wait(lambda: bad.status == "failed")
    with pytest.raises(RunError, match="this one is failed"):
        bad.continue_for(5)
    stepped(run, 1).stop()
    with pytest.raises(ConfigError, match="steps is 0"):
        run.continue_for(0)
    assert run.status == "stopped"


def test_the_learning_rate_is_changed_in_a_pause_and_stays_in_the_recipe(service, recipe):
    running = service.start(recipe.override({"training.steps": 100_000}))
    wait(lambda: running.history())
    with pytest.raises(RunError, match="pause it first"):
        running.set_learning_rate(0.02)
    running.stop()  # dropout draws from one generator, so only one training at a time repeats itself
    run = stepped(service.start(recipe, seed=5, paused=True), 9)
    with pytest.raises(ConfigError, match="learning_rate is -1"):
        run.set_learning_rate(-1)
    run.set_learning_rate(0.03)
    run.set_learning_rate(0.02)  # changed again
    run.resume()
    repeated = recipe.replace(training=recipe.training.then(9, 51, 0.02))
    assert numbers(finished(run).history()) == alone(repeated, 5)
    assert run.history()[9].learning_rate == 0.02
    assert run.recipe.training == repeated.training.replace(precision="float32")
    with pytest.raises(RunError, match="pause it first"):
        run.set_learning_rate(0.01)


def test_a_stopped_run_goes_on_with_another_learning_rate(service, recipe):
    run = stepped(service.start(recipe, seed=5, paused=True), 9)
    run.stop()
    run.set_learning_rate(0.02)
    assert run.status == "stopped"
    run.continue_for(51)
    assert numbers(finished(run).history()) == alone(recipe.replace(training=recipe.training.then(9, 51, 0.02)), 5)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def slow_service(clock):
    service = TrainingService("cpu", clock=clock)
    yield service
    service.close()


def test_a_pace_gives_a_step_when_its_time_has_come(slow_service, clock, recipe):
    run = slow_service.start(recipe, seed=5, paused=True)
    run.set_pace(2)
    run.resume()
    for steps in (1, 2, 3):
        wait(lambda steps=steps: len(run.history()) == steps)
        finished(slow_service.start(recipe.override({"training.steps": 3})))  # others are not slowed down
        assert len(run.history()) == steps
        clock.now += 0.5
    assert run.pace == 2
    run.set_pace(None)
    assert numbers(finished(run).history()) == alone(recipe, 5)
    with pytest.raises(ConfigError, match="pace is 0"):
        run.set_pace(0)


def test_a_run_has_its_newest_snapshot_and_its_reason_before_it_is_called_paused(slow_service, recipe, monkeypatch):
    """A reader of `status` takes no lock."""
    monkeypatch.setattr(train, "SNAPSHOT_SECONDS", math.inf)
    monkeypatch.setattr(train, "SNAPSHOT_GROWTH", math.inf)
    seen = []

    def note(run, name, value):
        object.__setattr__(run, name, value)
        if vars(run).get("_history") and run.status == "paused":
            seen.append((run.snapshots[-1].step == len(run.history()), "nobody was watching" in run.reason))

    monkeypatch.setattr(Run, "__setattr__", note, raising=False)
    run = slow_service.start(recipe.override({"training.steps": 100_000}))
    wait(lambda: run.history())
    run.pause("Paused, because nobody was watching.")
    wait(lambda: seen)
    assert set(seen) == {(True, True)}


def test_stopping_ends_the_preparation_at_the_next_block_of_sentences(service, recipe, monkeypatch):
    door, blocks, plain = threading.Event(), [], encoding_module.plain

    class Counting:
        def __init__(self, tokenizer):
            self._tokenizer = plain(tokenizer)

        def encode_batch_fast(self, sentences, **options):
            blocks.append(sentences)
            run.stop()
            return self._tokenizer.encode_batch_fast(sentences, **options)

    monkeypatch.setattr(encoding_module, "_ENCODED_AT_ONCE", 2)
    monkeypatch.setattr(encoding_module, "plain", Counting)
    run = service.start(recipe, lambda: door.wait(PATIENCE) and read_corpus("a b\nc d\ne f\ng h\ni j\n"))
    door.set()
    wait(lambda: run.status == "stopped" and not service._plans)
    assert len(blocks) == 1


def test_a_text_whose_pairs_are_all_alike_fails_and_the_next_run_is_prepared(service, recipe):
    settings = {"data.long_pairs": "drop", "data.sequence_length": 8, "model.max_position_embeddings": 8}
    alike = read_corpus("x y\n" * 5 + "a b c d e f g h\n")
    runs = [service.start(recipe.override(settings), alike), service.start(recipe.override({"training.steps": 2}))]
    wait(lambda: all(run.status in ("failed", "finished") for run in runs))
    assert [run.status for run in runs] == ["failed", "finished"]
    assert "two different sentences" in runs[0].reason


def test_progress_counts_the_runs_that_are_prepared_before(service, recipe):
    doors = [threading.Event() for _ in range(3)]

    def text_behind(door):
        def read():
            assert door.wait(PATIENCE)
            return read_corpus("a b c\nd e f\ng h i\n")

        return read

    runs = [service.start(recipe, text_behind(door)) for door in doors]
    wait(lambda: runs[0].progress().preparing == "reading the text")
    assert [run.progress().runs_ahead for run in runs] == [0, 1, 2]
    runs[1].stop()
    assert [run.progress().runs_ahead for run in runs] == [0, 0, 1]
    doors[0].set()
    finished(runs[0])
    assert runs[0].progress().preparing == ""
    wait(lambda: runs[2].progress().preparing)
    assert runs[2].progress().runs_ahead == 0
    for door in doors:
        door.set()
    assert runs[1].status == "stopped"
    assert finished(runs[2]).job.source.sentences[0] == "a b c"


def test_the_held_out_curve_begins_untrained_and_ends_with_the_run(service, recipe):
    rng = random.Random(0)
    words = [f"w{i}" for i in range(30)]
    text = "\n\n".join("\n".join(" ".join(rng.choices(words, k=4)) for _ in range(4)) for _ in range(40))
    run = finished(service.start(recipe, Corpus.from_text(text, "lines"), seed=5))
    assert len(run.job.parts.validation.documents) == 4
    assert [
        *run.job.parts.train.documents,
        *run.job.parts.validation.documents,
    ] == run.job.source.documents
    points = run.evaluations()
    assert points[0].step == 0
    assert points[-1].step == 60
    assert [point.step for point in points] == sorted({point.step for point in points})
    assert run.evaluations(since=1) == points[1:]
    prepared = prepare(run.recipe, run.job.source, seed=5)
    held_out = [prepared.validation[k] for k in range(8)]  # as many as more than one pass over the sentences takes
    *_, before = evaluate(prepared.first_model().eval(), held_out, 0)
    assert vars(points[0]) == pytest.approx(vars(before), abs=1e-5)
    *_, after = evaluate(run.snapshots[-1].checkpoint().model, held_out, 60)
    assert vars(points[-1]) == pytest.approx(vars(after), abs=1e-5)
    # Evaluating has changed nothing.
    assert numbers(run.history()) == numbers(read_rows(list(prepared.trainer())))


def test_a_text_of_one_short_document_has_nothing_to_hold_out(service, recipe):
    run = finished(service.start(recipe))
    assert run.job.parts.validation is None
    assert run.job.parts.train == run.job.source
    assert run.evaluations() == []


def test_a_zero_gpu_space_trains_on_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("SPACES_ZERO_GPU", "1")
    service = TrainingService("auto")
    assert service.device == "cpu"
    assert service.device_name.endswith(" (ZeroGPU lends no GPU to training)")
    service.close()


def test_a_gpu_is_taken_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert [choose_device(each) for each in ("auto", "cpu")] == ["cpu", "cpu"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(device, "gpu_fault", lambda device="cuda": "")
    assert [choose_device(each) for each in ("auto", "cuda", "cuda:1")] == ["cuda", "cuda", "cuda:1"]
    for missing in ("cuda:2", "gpu", "", None):
        with pytest.raises(ConfigError, match=r"is not available here; there is: cpu, cuda, cuda:0, cuda:1\."):
            choose_device(missing)


@pytest.mark.fuzz
def test_runs_cut_anywhere_go_on_bit_for_bit_while_others_train(service, recipe, tmp_path):
    """At 8 random cuts, or at 100 in a release run (see test_fuzz.py)."""
    draw = random.Random(0)
    cuts = [(draw.randint(1, 8), draw.randrange(3)) for _ in range(8 if settings.default.max_examples == 60 else 100)]
    recipe = recipe.override({"training.steps": 9, "data.batch_size": 2})
    expected = [alone(recipe, seed) for seed in range(3)]
    noise = service.start(recipe.override({"training.steps": 100_000}), seed=6)
    noise.set_pace(100)
    again = []
    for cut, seed in cuts:
        stepped(service.start(recipe, seed=seed, paused=True), cut).save(tmp_path / "cut")
        again.append(service.resume(tmp_path / "cut"))
    for (cut, seed), run in zip(cuts, again):
        assert numbers(finished(run).history()) == expected[seed], (cut, seed)
    assert noise.history(), "it trained beside them"
    assert noise.status == "running"


def test_training_returns_memory_from_time_to_time_and_at_its_end(recipe, monkeypatch):
    given_back, kept, now = [], [], time.monotonic()
    library = types.SimpleNamespace(malloc_trim=given_back.append, mallopt=lambda *of: kept.append(of))
    device.keep_memory.cache_clear()
    monkeypatch.setattr(device, "_trimmed", now)
    monkeypatch.setattr(device.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(device, "time", types.SimpleNamespace(monotonic=lambda: now, perf_counter=time.perf_counter))
    monkeypatch.setattr(train, "SLICE_SECONDS", 0)
    for _ in range(3):
        for event in train.Training(prepare(recipe.override({"training.steps": 3}))):
            now += 20.0 * (isinstance(event, list) and len(event))
    device.keep_memory.cache_clear()
    assert kept == [(-3, 2**25), (-1, 2**30)], "before the first one"
    assert len(given_back) == 2 * 3, "in each of three runs of a minute, after forty seconds and at the end"
