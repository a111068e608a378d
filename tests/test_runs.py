"""The background service: determinism beside other work, controls, fairness, failure of one run alone."""

import threading
import time

import pytest
import torch

from bert_core.checkpoint import load_checkpoint, save_checkpoint
from bert_core.corpus import Corpus
from bert_core.errors import ConfigError, RunError
from bert_core.probing import fill_mask
from bert_core.recipes import load_recipe, prepare
from bert_core.run import ENDED, Run
from bert_core.runs import TrainingService
from bert_core.snapshots import MAX_SNAPSHOTS
from bert_core.training import read_metrics

PATIENCE = 60  # seconds; only a broken service takes as long


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


def wait(condition, message="the service did not do it in time"):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, message
        time.sleep(0.005)


def finished(run: Run) -> Run:
    wait(lambda: run.status in ENDED)
    assert run.status == "finished", run.reason
    return run


def numbers(rows):
    return [(row.step, row.mlm_loss, row.nsp_loss, row.mlm_accuracy, row.nsp_accuracy, row.grad_norm) for row in rows]


def alone(recipe, seed):
    return numbers(read_metrics(list(prepare(recipe, seed=seed).trainer())))


def test_a_run_gives_the_losses_of_the_plain_trainer(service, recipe):
    run = finished(service.start(recipe, seed=5))
    assert numbers(run.history()) == alone(recipe, 5)
    assert run.progress().step == run.progress().steps == 60


def test_the_same_seed_gives_the_same_losses_whatever_else_happens(service, recipe, tiny_checkpoint, tmp_path):
    expected = alone(recipe, 5)
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    others = [service.start(recipe.override({"training.steps": 300}), seed=seed) for seed in (6, 7, 8)]
    done = threading.Event()

    def load_models():
        while not done.is_set():
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
    time.sleep(0.1)
    stood = len(run.history())
    time.sleep(0.1)
    assert len(run.history()) == stood
    for extra in (1, 2, 3):
        run.step()
        wait(lambda extra=extra: len(run.history()) == stood + extra)
        assert run.status == "paused"
        assert run.snapshots[-1].step == stood + extra
    run.resume()
    assert numbers(finished(run).history()) == alone(recipe, 5)


def test_a_run_can_be_started_paused_step_by_step(service, recipe):
    run = service.start(recipe)
    run.step()
    wait(lambda: len(run.history()) == 1)
    time.sleep(0.1)
    assert len(run.history()) == 1
    assert run.status == "paused"


def test_stopping_ends_a_run_with_a_reason_and_keeps_what_it_learnt(service, recipe):
    run = service.start(recipe.override({"training.steps": 100_000}))
    wait(lambda: len(run.history()) >= 10)
    run.stop()
    assert run.status == "stopped"
    assert run.reason.startswith("Stopped by you at step ")
    time.sleep(0.1)
    stood = len(run.history())
    time.sleep(0.1)
    assert len(run.history()) == stood
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
    run = service.start(recipe.override({"training.steps": 3000, "data.batch_size": 1}))
    wait(lambda: len(run.snapshots) >= 5)
    early = run.snapshots[2]
    kept = early.weights.clone()
    finished(run)
    steps = [snapshot.step for snapshot in run.snapshots]
    assert steps == sorted(set(steps))
    assert steps[0] == 0
    assert steps[-1] == 3000
    assert 20 <= len(steps) <= MAX_SNAPSHOTS
    assert sum(step < 300 for step in steps) >= len(steps) / 3
    assert torch.equal(early.weights, kept)


def test_runs_share_the_machine_and_a_newcomer_is_served_at_once(service, recipe):
    long = recipe.override({"training.steps": 100_000})
    first = service.start(long)
    wait(lambda: len(first.history()) > 200)
    second = service.start(long)
    wait(lambda: len(second.history()) > 0)
    before = (len(first.history()), len(second.history()))
    wait(lambda: len(second.history()) > before[1] + 300)
    gained = (len(first.history()) - before[0], len(second.history()) - before[1])
    assert 0.5 < gained[0] / gained[1] < 2


def test_a_run_that_fails_says_why_and_the_others_go_on(service, recipe, monkeypatch):
    good = service.start(recipe.override({"training.steps": 400}))
    bad_text = service.start(recipe, corpus=Corpus((("only one",),)))
    wait(lambda: bad_text.status in ENDED)
    assert bad_text.status == "failed"
    assert "single sentence" in bad_text.reason

    broken = service.start(recipe.override({"training.steps": 100_000}))
    wait(lambda: len(broken.history()) > 3)
    monkeypatch.setattr(broken._trainer.batches, "_draw_group", lambda g: 1 / 0)
    wait(lambda: broken.status in ENDED)
    assert broken.status == "failed"
    assert "internal error (ZeroDivisionError)" in broken.reason
    finished(good)


def test_a_loss_that_is_no_number_ends_the_run_and_keeps_the_last_finite_model(service, recipe):
    run = service.start(recipe.override({"training.steps": 100_000}))
    wait(lambda: len(run.history()) > 20)
    run.pause()
    time.sleep(0.1)
    run._trainer.model.bert.embeddings.LayerNorm.eps = float("nan")
    stood = len(run.history())
    run.resume()
    wait(lambda: run.status in ENDED)
    assert run.status == "failed"
    assert f"at step {stood + 1}" in run.reason
    assert "lower learning rate" in run.reason
    assert len(run.history()) == stood
    assert run.snapshots[-1].step == stood
    assert run.snapshots[-1].weights.isfinite().all()


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
    service = TrainingService("cpu")
    runs = [service.start(recipe.override({"training.steps": 100_000}), seed=seed) for seed in range(3)]
    wait(lambda: any(run.history() for run in runs))
    service.close()
    assert all(run.status == "stopped" for run in runs)
    assert all(run.reason == "The app was closed." for run in runs)
    assert not service._thread.is_alive()
    with pytest.raises(RunError, match="closing"):
        service.start(recipe)
    service.close()


def test_a_zero_gpu_space_trains_on_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("SPACES_ZERO_GPU", "1")
    service = TrainingService("auto")
    assert service.device == ("mps" if torch.backends.mps.is_available() else "cpu")
    service.close()
