"""Runs answer only to their visitor's token; a visitor gone for long is paused, then freed."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from bert_core.errors import RunError
from ui.workspace import MOST_MODELS, MOST_RUNS, NOT_YOURS, SHIPPED, Model
from ui.workspaces import MOST_ACTIVE, Lease, Workspaces


@dataclass
class FakeRun:
    """A run whose status follows the commands, without any training."""

    id: str
    status: str = "running"
    snapshots: tuple = ()
    recipe: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(title="A recipe"))

    def pause(self) -> None:
        self.status = "paused"

    def resume(self) -> None:
        self.status = "running"

    def stop(self) -> None:
        self.status = "stopped"


class Clock:
    """Seconds that pass only when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def workspaces(clock: Clock) -> Workspaces:
    return Workspaces(None, lambda: "the shipped model", shipped_name="shipped", lease=Lease(60, 600), clock=clock)


def test_a_token_is_made_here_and_has_128_bits(workspaces: Workspaces) -> None:
    tokens = {workspaces.enter(None).token for _ in range(50)}
    assert len(tokens) == 50
    assert all(len(bytes.fromhex(token)) == 16 for token in tokens)


@pytest.mark.parametrize("token", ["chosen-by-the-client", "", 7, ["x"], {"a": 1}])
def test_a_token_is_never_taken_from_a_client(workspaces: Workspaces, token: object) -> None:
    assert workspaces.enter(token).token != token
    with pytest.raises(RunError, match=NOT_YOURS):
        workspaces.find(token)


def test_a_visitor_comes_back_to_the_same_workspace(workspaces: Workspaces) -> None:
    space = workspaces.enter(None)
    assert workspaces.enter(space.token) is space
    assert workspaces.find(space.token) is space


def test_a_wrong_token_and_an_unknown_run_and_anothers_run_give_the_same_answer(workspaces: Workspaces) -> None:
    mine, other = workspaces.enter(None), workspaces.enter(None)
    mine.add_run(FakeRun("a" * 32))
    messages = set()
    for ask in (
        lambda: workspaces.find("0" * 32).run("a" * 32),
        lambda: other.run("a" * 32),
        lambda: other.run("b" * 32),
        lambda: other.run(["not", "even", "a", "string"]),
    ):
        with pytest.raises(RunError) as caught:
            ask()
        messages.add(str(caught.value))
    assert messages == {NOT_YOURS}
    assert mine.run("a" * 32).id == "a" * 32


def test_a_run_that_a_program_started_answers_to_its_own_id_alone(workspaces: Workspaces) -> None:
    run = FakeRun("c" * 32)
    workspaces.adopt(run)
    assert workspaces.find(run.id).run(run.id) is run
    with pytest.raises(RunError, match=NOT_YOURS):
        workspaces.enter(None).run(run.id)


def test_a_visitor_who_is_away_is_paused_and_then_freed(workspaces: Workspaces, clock: Clock) -> None:
    space = workspaces.enter(None)
    run = FakeRun("d" * 32)
    space.add_run(run)
    clock.now += 59
    workspaces.sweep()
    assert run.status == "running"
    clock.now += 2
    workspaces.sweep()
    assert run.status == "paused"
    clock.now += 540
    workspaces.sweep()
    assert run.status == "stopped"
    with pytest.raises(RunError, match=NOT_YOURS):
        workspaces.find(space.token)


def test_a_poll_renews_the_lease_and_goes_on_with_what_the_lease_paused(workspaces: Workspaces, clock: Clock) -> None:
    space = workspaces.enter(None)
    by_lease, by_person = FakeRun("e" * 32), FakeRun("f" * 32, status="paused")
    space.add_run(by_lease)
    space.add_run(by_person)
    clock.now += 61
    workspaces.sweep()
    workspaces.find(space.token)
    assert (by_lease.status, by_person.status) == ("running", "paused")
    clock.now += 59
    workspaces.sweep()
    assert by_lease.status == "running"


def test_without_a_lease_nobody_is_away_for_too_long(clock: Clock) -> None:
    workspaces = Workspaces(None, lambda: None, clock=clock)
    space = workspaces.enter(None)
    space.add_run(run := FakeRun("1" * 32))
    clock.now += 10**9
    workspaces.sweep()
    assert run.status == "running"


def test_the_page_looks_at_the_shipped_model_and_then_at_the_run(workspaces: Workspaces) -> None:
    space = workspaces.enter(None)
    assert workspaces.model(space).checkpoint == "the shipped model"
    run = FakeRun("2" * 32)
    space.add_run(run)
    built = []
    run.snapshots = (SimpleNamespace(step=3, checkpoint=lambda: built.append(3) or "model of step 3"),)
    assert [workspaces.model(space).checkpoint for _ in range(3)] == ["model of step 3"] * 3
    assert built == [3], "one snapshot is built once"
    run.snapshots += (SimpleNamespace(step=9, checkpoint=lambda: "model of step 9"),)
    assert workspaces.model(space).detail == "step 9"
    space.selected = SHIPPED
    assert workspaces.model(space).checkpoint == "the shipped model"


def test_old_finished_runs_make_room_and_active_ones_stay(workspaces: Workspaces) -> None:
    space = workspaces.enter(None)
    space.add_run(FakeRun("active"))
    for number in range(MOST_RUNS + 3):
        space.add_run(FakeRun(f"finished {number}", status="finished"))
    assert len(space.runs) == MOST_RUNS
    assert "active" in space.runs
    assert "finished 0" not in space.runs
    assert space.latest_run.id == space.selected == f"finished {MOST_RUNS + 2}"


def test_kept_models_have_a_limit_and_can_be_removed(workspaces: Workspaces) -> None:
    space = workspaces.enter(None)
    for number in range(MOST_MODELS):
        key = space.add_model(Model(f"model {number}", "kept", number))
        assert space.selected == key
    with pytest.raises(RunError, match=str(MOST_MODELS)):
        space.add_model(Model("one more", "kept", None))
    space.remove_selected_model()
    assert space.selected == SHIPPED
    assert len(space.models) == MOST_MODELS - 1


def test_a_full_machine_says_so(workspaces: Workspaces) -> None:
    for number in range(MOST_ACTIVE):
        workspaces.check_room()
        workspaces.enter(None).add_run(FakeRun(str(number)))
    with pytest.raises(RunError, match=f"{MOST_ACTIVE} runs"):
        workspaces.check_room()


def test_the_slider_goes_to_a_snapshot_and_back_to_live(workspaces: Workspaces) -> None:
    space = workspaces.enter(None)
    run = FakeRun("3" * 32)
    run.snapshots = tuple(SimpleNamespace(step=step, checkpoint=lambda s=step: f"model of {s}") for step in (0, 4, 9))
    space.add_run(run)
    seen = []
    for step in (4, 0, 5, 1000, None):
        space.look_at(run.id, step)
        seen.append(workspaces.model(space).checkpoint)
    assert seen == ["model of 4", "model of 0", "model of 4", "model of 9", "model of 9"]
    space.look_at(run.id, 4)
    space.add_run(FakeRun("4" * 32))
    assert space.at is None, "a new run is looked at live"
    with pytest.raises(RunError, match=NOT_YOURS):
        space.look_at("5" * 32)
