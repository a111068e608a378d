"""One rule for the memory of all visitors; a run that has no room waits until it has."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import finished, wait

from balcony.server import workspace as workspace_module
from balcony.server.workspace import Workspace, fixed_bytes
from balcony.server.workspaces import Memory, Workspaces
from bert_core.data.corpus import Corpus
from bert_core.errors import RunError
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import Recipe, load_recipe
from bert_core.runs.run import ENDED
from bert_core.runs.service import TrainingService

TEXT = Corpus([["a b c d", "b c d e", "c d e f"]])


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe("romeo-juliet").override(
        {"training.steps": 3, "data.batch_size": 2, "model.hidden_size": 12, "model.num_attention_heads": 3}
    )


def visitor(limit: int = 500) -> Workspace:
    return Workspace("", limit)


class Held:
    """A run as the memory sees it. freed: what was freed, by name."""

    def __init__(
        self,
        space: Workspace,
        freed: list[str],
        name: str,
        steps: tuple[int, ...] = (),
        *,
        best: int | None = None,
        working: int = 0,
        spare: int = 0,
    ) -> None:
        self.snapshots = tuple(SimpleNamespace(step=step, nbytes=40) for step in steps)
        self.staying, self.training_bytes, self.steps_done, self.text_bytes = {best}, working, 0, 0
        self.status = "finished" if spare else "running"
        self.training = SimpleNamespace(trainer=SimpleNamespace(nbytes=spare)) if spare else None
        self._freed, self._name = freed, name
        space.unlisted.append(self)

    @property
    def steps(self) -> list[int]:
        return [each.step for each in self.snapshots]

    def drop(self, dropped: Any) -> None:
        self._freed.append(f"{self._name} {dropped.step}")
        self.snapshots = tuple(each for each in self.snapshots if each is not dropped)

    def give_up(self) -> None:
        self._freed.append(f"{self._name} state")
        self.training = None

    def free(self, reason: str) -> None:
        self._freed.append(f"{self._name} run")
        self.training, self.training_bytes, self.snapshots = None, 0, ()


def test_who_holds_the_most_loses_snapshots_then_states_and_those_who_left_their_runs() -> None:
    freed, visitors = list[str](), [visitor(), visitor(), visitor()]
    much, some, little = visitors
    memory = Memory(lambda: visitors, 10_000, 10_000)
    first = Held(much, freed, "first", (0, 9), spare=60)
    second = Held(much, freed, "second", (0, 1, 2, 9), spare=50)
    other = Held(some, freed, "other", (0, 1, 9), working=100)
    Held(little, freed, "left", (0, 9))
    little.is_away = True
    memory.make_room()
    assert (memory.used, freed) == (350 + 220 + 80, [])
    for limit, expected in (
        (600, ["second 1", "second 2"]),  # one was too few
        (540, ["first state"]),  # the oldest ended run, before what another visitor holds
        (460, ["second state"]),
        (420, ["other 1"]),
        (400, ["left run"]),
        (0, []),  # first and newest snapshots and training stay
    ):
        before = len(freed)
        memory.limit = limit
        memory.make_room()
        assert [each for each in freed[before:] if "left" not in each or limit == 400] == expected
    assert (first.steps, second.steps, other.steps, other.training_bytes) == ([0, 9], [0, 9], [0, 9], 100)


def test_the_first_the_newest_and_the_best_snapshot_stay() -> None:
    freed, one, other = list[str](), visitor(), visitor(130)
    run = Held(one, freed, "run", (0, 1, 2, 3, 9), best=2)
    Memory(lambda: [one], 0, 10_000).make_room()
    assert run.steps == [0, 2, 9]
    own = Held(other, freed, "own", (0, 1, 2, 9))
    one.make_room()
    assert own.steps == [0, 1, 2, 9]
    other.make_room()
    assert own.steps == [0, 2, 9], "a visitor's own limit"


def test_the_bytes_of_all_runs_are_added_up_once_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """It happens twice a second and at each preparation, under the lock of all runs."""
    calls = itertools.count()
    monkeypatch.setattr(workspace_module, "fixed_bytes", lambda run: 0 * next(calls))
    for limit in (10**9, 0):
        visitors = [visitor() for _ in range(300)]
        holders = [Held(each, [], "run", working=1) for each in visitors]
        before = next(calls)
        Memory(lambda visitors=visitors: visitors, limit, limit).make_room()
        assert next(calls) - before < 10 * len(holders)


def test_a_run_waits_while_others_have_the_memory(recipe: Recipe) -> None:
    service = TrainingService("cpu")
    workspaces = Workspaces(service, {})
    needed = prepare(recipe, TEXT).training_bytes
    workspaces.memory.capacity = workspaces.memory.limit = int(1.8 * needed)
    spaces = [workspaces.enter(None) for _ in range(4)]
    over = finished(workspaces.start(spaces[0], recipe, TEXT))
    assert over.training is not None
    first = workspaces.start(spaces[1], recipe, TEXT, paused=True)
    wait(lambda: first.progress().status == "paused")
    waiting = workspaces.start(spaces[2], recipe, TEXT)
    wait(lambda: waiting.progress().lacking)
    assert waiting.status == "queued"
    assert over.training is None, "its state to continue made room"
    assert [each.step for each in first.snapshots] == [0]
    first.stop()
    finished(waiting)
    workspaces.memory.capacity = needed // 2
    refused = workspaces.start(spaces[3], recipe, TEXT)
    with pytest.raises(RunError, match="Choose a smaller model or a shorter text"):
        refused.wait()
    service.close()


def test_a_visitor_keeps_no_more_than_allowed(recipe: Recipe) -> None:
    service = TrainingService("cpu")
    workspaces = Workspaces(service, {})
    space = workspaces.enter(None)
    recipe = recipe.override({"training.steps": 40})
    run = finished(workspaces.start(space, recipe, TEXT))
    one, fixed = run.snapshots[0].nbytes, fixed_bytes(run)
    space.rename(run.id, "mine")  # it is not dropped for the next one
    space.limit = 6 * one + 2 * fixed
    runs = [run, finished(workspaces.start(space, recipe, TEXT, 1))]
    wait(lambda: space.used <= space.limit)
    for each in space.runs.values():  # beginning and end stay
        assert [each.snapshots[0].step, each.snapshots[-1].step] == [0, 40]
    with pytest.raises(RunError, match="no longer kept"):
        runs[0].continue_for(5)  # the oldest one gave up first
    assert all(each.status in ENDED for each in runs)
    service.close()
