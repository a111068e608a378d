"""One rule for the memory of all visitors, and the limits of a place, are checked before the work begins."""

import dataclasses
import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import wait

from bert_core import costs, machine
from bert_core.config import LOCAL, PUBLIC, Limits
from bert_core.data.corpus import Corpus
from bert_core.errors import ConfigError
from bert_core.runs import run as run_module
from bert_core.runs.memory import Budget, Memory
from bert_core.runs.prepare import prepare, preview
from bert_core.runs.recipe import Recipe, load_recipe
from bert_core.runs.run import ENDED, Run
from bert_core.runs.service import TrainingService
from bert_core.runs.snapshots import least_useful
from bert_core.training.trainer import Trainer

TEXT = Corpus([["a b c d", "b c d e", "c d e f"]])


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe("romeo-juliet").override(
        {"training.steps": 3, "data.batch_size": 2, "model.hidden_size": 12, "model.num_attention_heads": 3}
    )


def ended(run: Run) -> Run:
    wait(lambda: run.progress().status in ENDED)
    return run


class Held:
    """A run as a visitor's budget sees it. freed: what was freed, by name."""

    def __init__(self, budget: Budget, freed: list[str], name: str, steps: tuple[int, ...] = (), **bytes_: int):
        self.snapshots, self.best, self.is_left = (
            tuple(snapshot(step) for step in steps),
            bytes_.pop("best", None),
            False,
        )
        self.training_bytes = self.working_bytes = bytes_.pop("working", 0)
        self.spare_bytes, self.fixed_bytes = bytes_.pop("spare", 0), bytes_.pop("fixed", 0)
        self._freed, self._name = freed, name
        budget.runs[self] = None  # type: ignore[index]

    @property
    def steps(self) -> list[int]:
        return [each.step for each in self.snapshots]

    @property
    def kept_bytes(self) -> int:
        return self.fixed_bytes + self.spare_bytes + 40 * len(self.snapshots)

    def least_useful(self) -> Any:
        return least_useful(self.snapshots, {self.best})

    def drop(self, dropped: Any) -> int:
        self._freed.append(f"{self._name} {dropped.step}")
        self.snapshots = tuple(each for each in self.snapshots if each is not dropped)
        return 40

    def give_up(self) -> int:
        self._freed.append(f"{self._name} state")
        freed, self.spare_bytes = self.spare_bytes, 0
        return freed

    def free(self, reason: str) -> None:
        self._freed.append(f"{self._name} run")
        self.spare_bytes = self.fixed_bytes = self.working_bytes = 0
        self.snapshots, self.is_left = (), False


def snapshot(step: int) -> Any:
    return SimpleNamespace(step=step, nbytes=40)


def test_who_holds_the_most_loses_snapshots_then_states_and_those_who_left_their_runs() -> None:
    memory, freed = Memory(10_000, 10_000, threading.RLock()), list[str]()
    much, some, little = (memory.budget(500) for _ in range(3))
    first = Held(much, freed, "first", (0, 9), spare=60)
    second = Held(much, freed, "second", (0, 1, 2, 9), spare=50)
    other = Held(some, freed, "other", (0, 1, 9), working=100)
    left = Held(little, freed, "left", (0, 9))
    left.is_left = True
    memory.make_room()
    assert (memory.used, freed) == (350 + 220 + 80, [])
    memory.limit = 600
    memory.make_room()
    assert freed == ["second 1", "second 2"], "one was too few"
    memory.limit = 540
    memory.make_room()
    assert freed[2:] == ["first state"], "the oldest ended run, before what another visitor holds"
    memory.limit = 460
    memory.make_room()
    assert freed[3:] == ["second state"]
    memory.limit = 420
    memory.make_room()
    assert freed[4:] == ["other 1"]
    memory.limit = 400
    memory.make_room()
    assert freed[5:] == ["left run"]
    memory.limit = 0
    memory.make_room()
    assert len(freed) == 6, "first and newest snapshots and training stay"
    assert (first.steps, second.steps, other.steps, other.working_bytes) == ([0, 9], [0, 9], [0, 9], 100)


def test_the_first_the_newest_and_the_best_snapshot_stay() -> None:
    memory, freed = Memory(0, 10_000, threading.RLock()), list[str]()
    budget, other = memory.budget(500), memory.budget(130)
    run = Held(budget, freed, "run", (0, 1, 2, 3, 9), best=2)
    memory.make_room()
    assert run.steps == [0, 2, 9]
    own = Held(other, freed, "own", (0, 1, 2, 9))
    budget.make_room()
    assert own.steps == [0, 1, 2, 9]
    other.make_room()
    assert own.steps == [0, 2, 9], "a visitor's own limit"


def test_the_bytes_of_all_runs_are_added_up_once_however_many_they_are() -> None:
    """It happens twice a second and at each preparation, under the lock of all runs."""

    class Counted(Held):
        fixed_bytes = property(lambda self: calls.append("") or 0, lambda self, value: None)

    for limit in (10**9, 0):
        calls: list[str] = []
        memory = Memory(limit, limit, threading.RLock())
        budgets = [memory.budget(500) for _ in range(300)]
        holders = [Counted(budget, [], "run", working=1) for budget in budgets]
        memory.make_room()
        assert len(calls) < 10 * len(holders)


def test_a_run_is_refused_while_others_have_the_memory(recipe: Recipe) -> None:
    service = TrainingService("cpu")
    service.memory.capacity = service.memory.limit = int(1.8 * prepare(recipe, TEXT).training_bytes)
    over = ended(service.start(recipe, TEXT))
    assert over.worker is not None
    first = service.start(recipe, TEXT, paused=True)
    wait(lambda: first.progress().status == "paused")
    refused = ended(service.start(recipe, TEXT))
    assert refused.status == "failed"
    assert re.fullmatch(
        r"This run needs about .* of memory; .* of .* are free on this machine now\. Choose less, or try again later\.",
        refused.reason,
    )
    assert over.worker is None, "its state to continue made room"
    assert first.status == "paused"
    assert [each.step for each in first.snapshots] == [0]
    first.stop()
    assert ended(service.start(recipe, TEXT)).status == "finished", "its state to continue made room"
    service.memory.capacity //= 3
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

    few = dataclasses.replace(LOCAL, step_seconds=slow / 4)
    service = TrainingService("cpu", limits=few)
    monkeypatch.setattr(run_module, "check_limits", lambda *arguments: None)
    monkeypatch.setattr(Trainer, "__next__", busy)
    run = ended(service.start(recipe, TEXT))
    assert run.status == "failed"
    assert run.reason.startswith("A step took 0.1 s; the limit here is 0.025 s.")
    short = recipe.override({"training.steps": 2})
    assert ended(service.start(short, TEXT, limits=LOCAL)).status == "finished", "a run's own limits are meant"
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
    assert machine._container_limits(tmp_path) == limits


def test_a_share_of_the_containers_memory_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_container_limits", lambda: [10 * 2**20])
    assert costs.usable_memory() == 6 * 2**20
