"""One budget of bytes for all visitors, and the limits of a place, are checked before the work begins."""

import dataclasses
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bert_core import costs
from bert_core.config import LOCAL, PUBLIC, Limits
from bert_core.data.corpus import Corpus
from bert_core.errors import ConfigError, RunError
from bert_core.runs import run as run_module
from bert_core.runs.prepare import prepare, preview
from bert_core.runs.recipe import Recipe, load_recipe
from bert_core.runs.run import ENDED, Run
from bert_core.runs.service import TrainingService
from bert_core.runs.snapshots import Memory
from bert_core.training.trainer import Trainer

PATIENCE = 60
TEXT = Corpus((("a b c d", "b c d e", "c d e f"),))


def wait(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe("romeo-juliet").override(
        {"training.steps": 3, "data.batch_size": 2, "model.hidden_size": 12, "model.num_attention_heads": 3}
    )


def ended(run: Run) -> Run:
    wait(lambda: run.progress().status in ENDED)
    return run


class Holder:
    """A run as the budget sees it. calls: what was freed."""

    def __init__(
        self, budget: Any, calls: list[Any], name: str, *, working: int = 0, spare: int = 0, left: bool = False
    ):
        self.snapshots: tuple[Any, ...] = ()
        self.fixed_bytes, self.working_bytes, self.spare_bytes, self.is_left = 0, working, spare, left
        self._calls, self._name = calls, name
        budget.hold(self)

    def give_up(self) -> None:
        self._calls.append(self._name)
        self.spare_bytes = 0

    def free(self, reason: str) -> None:
        self.give_up()
        self.working_bytes, self.is_left = 0, False


def snapshot(step: int, nbytes: int) -> Any:
    return SimpleNamespace(step=step, stays=False, nbytes=nbytes)


def test_what_others_hold_and_have_reserved_is_subtracted_and_the_least_useful_goes_first() -> None:
    memory, calls = Memory(1000, threading.RLock()), []
    budgets = [memory.budget(500) for _ in range(4)]
    kept = [
        Holder(budgets[0], calls, "training", working=300),
        Holder(budgets[1], calls, "ended", spare=100),
        Holder(budgets[2], calls, "left", working=200, left=True),
        Holder(budgets[3], calls, "watched"),
    ]
    kept[3].snapshots = tuple(snapshot(step, 40) for step in (0, 1, 2, 9))
    assert memory.used == 760
    with memory.reserve(240, "It"):
        assert (memory.used, calls) == (1000, [])
        with (
            pytest.raises(RunError, match=r"This text needs about .* of memory; 0 kB of 1 kB are free .* later"),
            memory.reserve(500, "This text"),
        ):
            pass
        assert calls == ["left", "ended"]
        assert [each.step for each in kept[3].snapshots] == [0, 9], "ends stay"
        assert kept[0].working_bytes == 300
        assert memory.used == 620
        with memory.reserve(380, "It"):
            assert not memory.has_room(1)
    assert memory.used == 380


def test_above_what_is_ample_no_visitor_keeps_more_than_an_even_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bert_core.runs.snapshots.LEAST_PART", 100)
    memory, calls = Memory(10_000, threading.RLock(), 740), []
    budgets = [memory.budget(500) for _ in range(3)]
    much = Holder(budgets[0], calls, "much", spare=50, working=50)
    much.snapshots = tuple(snapshot(step, 40) for step in (0, 1, 2, 3, 9, 99))
    little = Holder(budgets[1], calls, "little", spare=100)
    little.snapshots = tuple(snapshot(step, 30) for step in (0, 1, 9))
    memory.tidy()
    assert (memory.used, calls) == (530, []), "less than is ample"
    large = Holder(budgets[2], calls, "large", spare=10, working=90)
    large.snapshots = (snapshot(0, 150), snapshot(9, 150))
    memory.tidy()  # 600 are left for three
    assert [each.step for each in much.snapshots] == [0, 9, 99]
    assert len(little.snapshots) == 3
    assert calls == ["large"], "its two snapshots and its training stay"
    assert budgets[0].part == 200
    assert memory.has_room(9000)
    large.working_bytes = 900
    memory.tidy()
    assert budgets[0].part == 100, "training leaves nothing"
    assert [each.step for each in much.snapshots] == [0, 99]
    large.working_bytes = 0
    memory.tidy()
    assert not budgets[2].is_exceeded, "there is enough again"


def test_the_bytes_of_all_runs_are_added_up_once_however_many_they_are() -> None:
    """It happens twice a second and at each preparation, under the lock of all runs."""

    class Counted(Holder):
        fixed_bytes = property(lambda self: calls.append("") or 0, lambda self, value: None)

    for limit in (10**9, 0):
        calls: list[str] = []
        memory = Memory(limit, threading.RLock())
        budgets = [memory.budget(500) for _ in range(300)]
        holders = [Counted(budget, calls, "run", working=1) for budget in budgets]
        assert memory.has_room() == (limit > 0)
        assert len(calls) < 10 * len(holders)


def test_a_run_waits_in_line_until_others_have_freed_the_memory(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = TrainingService("cpu")
    service.memory.limit = int(1.8 * prepare(recipe, TEXT).training_bytes)
    first = service.start(recipe, TEXT, paused=True)
    wait(lambda: first.progress().status == "paused")
    longer = recipe.override({"training.steps": 200})  # so that it still trains when the third one is prepared
    second, third = service.start(longer, TEXT), service.start(recipe, TEXT)
    wait(lambda: "freed enough memory" in second.progress().preparing)
    assert third.progress().runs_ahead == 1
    first.stop()
    assert [ended(run).status for run in (second, third)] == ["finished", "finished"]
    assert first.worker is None, "its state to continue made room"
    monkeypatch.setattr(run_module, "MEMORY_SECONDS", 0.0)
    first = service.start(recipe, TEXT, paused=True)
    wait(lambda: first.progress().status == "paused")
    assert "memory was full" in ended(service.start(recipe, TEXT)).reason
    first.stop()
    service.memory.limit //= 3
    assert "Choose a smaller model" in ended(service.start(recipe, TEXT)).reason
    service.close()


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


def test_a_step_beyond_the_limit_ends_its_run(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    step, slow = Trainer.__next__, 0.05

    def busy(trainer: Trainer) -> Any:
        until = time.thread_time() + slow
        while time.thread_time() < until:
            pass
        return step(trainer)

    service = TrainingService("cpu", limits=dataclasses.replace(LOCAL, step_seconds=slow / 4))
    monkeypatch.setattr(run_module, "check_limits", lambda *arguments: None)
    monkeypatch.setattr(Trainer, "__next__", busy)
    run = ended(service.start(recipe, TEXT))
    assert run.status == "failed"
    assert run.reason.startswith("A step took 0.1 s; the limit here is 0.025 s.")
    service.close()


def test_limits_are_frozen_and_the_public_ones_are_the_smaller() -> None:
    for field in dataclasses.fields(Limits):
        assert getattr(PUBLIC, field.name) < getattr(LOCAL, field.name)
    assert (PUBLIC.parameters, PUBLIC.step_seconds, PUBLIC.steps) == (20_000_000, 2.0, 20_000)


@pytest.mark.parametrize(
    ("groups", "files", "limits"),
    [
        ("0::/box\n", {"box/memory.max": "700", "memory.max": "max"}, [700]),
        ("4:memory:/a/b\n0::/\n", {"memory/a/memory.limit_in_bytes": "50", "memory.max": "60"}, [50, 60]),
        ("0::/\n", {}, []),
        (None, {"memory.max": "60"}, []),
    ],
)
def test_the_containers_limit_counts(tmp_path: Path, groups: str | None, files: dict, limits: list[int]) -> None:
    written = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in (written | ({"proc/self/cgroup": groups} if groups else {})).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert costs._container_limits(tmp_path) == limits


def test_memory_is_known_without_the_calls_of_a_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_container_limits", lambda: [10 * 2**20])
    assert costs.usable_memory() == 6 * 2**20
    monkeypatch.delattr(os, "sysconf")
    assert costs._host_memory() == 4 * 2**30
