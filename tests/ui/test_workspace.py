"""Runs answer only to their visitor's token; a visitor gone for long is paused, then freed."""

import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from helpers import wait

from balcony.handlers import own
from balcony.server.news import run_news
from balcony.server.workspace import MODEL_BYTES, MOST_RUNS, NOT_YOURS, Model, Workspace, fixed_bytes
from balcony.server.workspaces import FREE_AFTER, MOST_TRAINING, Workspaces
from balcony.train.monitor import run_guesses
from bert_core import TrainingService, load_recipe
from bert_core.errors import RunError
from bert_core.runs.recipe import Recipe, finetuning_recipe
from bert_core.runs.run import ENDED, Run
from bert_core.storage.checkpoint import Checkpoint

LEASE = 60


@dataclass
class FakeRun:
    """A run without any training."""

    id: str
    status: str = "running"
    snapshots: tuple = ()
    recipe: Recipe = field(default_factory=lambda: load_recipe("romeo-juliet").replace(title="A recipe"))

    training: None = None
    steps_done: int = 0
    text_bytes: int = 0
    training_bytes: int = 0
    staying: frozenset = frozenset()

    @property
    def asked(self) -> Recipe:
        return self.recipe

    def pause(self, reason: str) -> None:
        pass

    def resume(self) -> None:
        pass

    def free(self, reason: str) -> None:
        pass


class Clock:
    """Seconds that pass only when a test sets them."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def service(clock: Clock) -> Iterator[TrainingService]:
    service = TrainingService("cpu", clock=clock)
    yield service
    service.close()


@pytest.fixture
def workspaces(service: TrainingService) -> Workspaces:
    return Workspaces(service, {"shipped": lambda: "the shipped model", "other": lambda: "the other one"}, lease=LEASE)


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
    run = workspaces.start_for_program(load_recipe("romeo-juliet").override({"training.steps": 1}))
    assert workspaces.find(run.id).run(run.id) is run
    with pytest.raises(RunError, match=NOT_YOURS):
        workspaces.enter(None).run(run.id)


def endless(workspaces: Workspaces, space: Workspace) -> Run:
    run = workspaces.start(space, load_recipe("romeo-juliet").override({"training.steps": 100_000}))
    wait(lambda: len(run.history()) > 0)
    return run


def test_a_visitor_who_is_away_is_paused_then_freed_and_never_at_once(workspaces: Workspaces, clock: Clock) -> None:
    gone, here = workspaces.enter(None), workspaces.enter(None)
    run, model = endless(workspaces, gone), weakref.ref(gone)
    clock.now += LEASE + 1
    wait(lambda: run.status == "paused")
    assert "nobody was watching" in run.reason
    assert workspaces.find(gone.token) is gone
    wait(lambda: (run.status, run.reason) == ("running", ""), "the run resumes when its visitor returns")
    workspaces.find(here.token)
    clock.now += LEASE * FREE_AFTER - 1
    wait(lambda: run.status == "paused")
    workspaces.find(here.token)
    clock.now += 2
    wait(lambda: run.status == "stopped")
    token = gone.token
    del gone
    wait(lambda: gc.collect() is not None and model() is None)  # not by `find`, which is a visit
    with pytest.raises(RunError, match=NOT_YOURS):
        workspaces.find(token)
    assert workspaces.find(here.token) is here


def test_what_a_person_has_paused_stays_paused(workspaces: Workspaces, clock: Clock) -> None:
    space = workspaces.enter(None)
    run = endless(workspaces, space)
    run.pause()
    clock.now += LEASE + 1
    workspaces.find(space.token)
    assert run.status in ("running", "paused")
    wait(lambda: run.status == "paused")
    run.stop()


def test_without_a_lease_nothing_is_paused_or_freed(service: TrainingService, clock: Clock) -> None:
    workspaces = Workspaces(service, {})
    space = workspaces.enter(None)
    run = endless(workspaces, space)
    clock.now += 10**9
    stood = len(run.history())
    wait(lambda: len(run.history()) > stood + 100)
    assert workspaces.find(space.token) is space
    run.stop()


def test_visitors_who_left_leave_nothing_behind(workspaces: Workspaces, clock: Clock) -> None:
    """Each trains, polls, selects an early step, keeps a model; some leave while their run trains."""
    recipe = load_recipe("romeo-juliet").override({"training.steps": 12})
    left: list[weakref.ref] = []

    def visit(number: int) -> None:
        space = workspaces.enter(None)
        run = endless(workspaces, space) if number == 0 else workspaces.start(space, recipe, seed=number)
        wait(lambda: run.status in ENDED or len(run.history()) > 20)
        run_news(space, run.id, *run_news(space, run.id)["cursors"])
        run_guesses(space, run, None, first=True)
        kept = Model("kept", "kept", workspaces.model(space, run.id, 3).checkpoint)
        space.add_model(kept)
        models = [run.training.trainer.model, kept.checkpoint.model]
        left.extend(map(weakref.ref, [space, run, *run.snapshots, kept, *models]))

    def alive() -> list[type]:
        gc.collect()
        return [type(thing) for reference in left if (thing := reference()) is not None]

    for number in range(3):
        visit(number)
    left.append(weakref.ref(workspaces.start_for_program(recipe)))
    assert len(alive()) > 15
    clock.now += LEASE * FREE_AFTER + 1
    wait(lambda: not alive(), "something of visitors who left is still held", every=0.1)


def test_a_program_fine_tunes_no_other_model_where_the_english_one_is_missing(workspaces: Workspaces) -> None:
    with pytest.raises(RunError, match="english-mini does not come with this server; there is: shipped, other"):
        workspaces.start_for_program(finetuning_recipe("subjects"))


def test_the_page_shows_the_shipped_model_and_then_the_run(workspaces: Workspaces) -> None:
    space = workspaces.enter(None)
    assert workspaces.model(space).checkpoint == "the shipped model"
    run = FakeRun("2" * 32)
    space.add_run(run)
    built = []
    run.snapshots = (SimpleNamespace(step=3, nbytes=1, checkpoint=lambda: built.append(3) or "model of step 3"),)
    assert [workspaces.model(space, run.id).checkpoint for _ in range(3)] == ["model of step 3"] * 3
    assert built == [3], "one snapshot is built once"
    run.snapshots += (SimpleNamespace(step=9, nbytes=1, checkpoint=lambda: "model of step 9"),)
    assert workspaces.model(space, run.id).detail == "step 9"
    assert workspaces.model(space).checkpoint == "the shipped model"
    other = workspaces.model(space, "other")
    assert (other.title, other.checkpoint) == ("other", "the other one")


def test_old_finished_runs_make_room_and_active_ones_stay(workspaces: Workspaces) -> None:
    space = workspaces.enter(None)
    space.add_run(active := FakeRun("active"))
    for number in range(MOST_RUNS + 3):
        space.add_run(FakeRun(f"finished {number}", status="finished"))
    assert len(space.runs) == len(space.entries) == MOST_RUNS
    assert "active" in space.runs
    assert "finished 0" not in space.runs
    assert space.current_run is active, "others wait for it"
    active.status = "finished"
    assert space.current_run.id == f"finished {MOST_RUNS + 2}"
    assert [entry.number for entry in space.entries.values()] == [1, *range(6, MOST_RUNS + 5)]


def test_what_makes_room_is_said_and_named_runs_go_last(workspaces: Workspaces) -> None:
    space = workspaces.enter(None)
    runs = [FakeRun(f"run {number}", status="finished") for number in range(MOST_RUNS + 2)]
    for run in runs[:MOST_RUNS]:
        space.add_run(run)
    space.rename(runs[0].id, "my best one")
    assert space.dropped_notes == []
    space.add_run(runs[MOST_RUNS])
    assert space.dropped == ["Run 2 · A recipe"]
    assert space.dropped_notes[0].startswith("Made room for newer runs: Run 2 · A recipe. A page keeps 24;")
    assert space.title(runs[0].id) == own("my best one")
    space.rename(runs[0].id, "")
    space.add_run(runs[MOST_RUNS + 1])
    assert space.dropped == ["Run 2 · A recipe", "Run 1 · A recipe"]
    for run in list(space.runs.values()):
        space.rename(run.id, f"named {run.id}")
    space.add_run(FakeRun("one more", status="finished"))
    assert len(space.runs) == MOST_RUNS
    assert space.dropped[2:] == [own("named run 2")]


def test_old_runs_also_make_room_for_newer_ones_in_a_visitors_memory(service: TrainingService) -> None:
    space = Workspace("a visitor")
    recipe = load_recipe("romeo-juliet").override({"training.steps": 2})
    for number in range(3):
        run = service.start(recipe, seed=number, owner=space.owner)
        wait(lambda run=run: run.status == "finished")
        space.limit = 0 if number == 1 else 2**30
        space.add_run(run)
        assert len(space.runs) == (2 if number == 2 else 1), "the second run takes the place of the first"


def test_one_budget_decides_over_models_and_snapshots(service: TrainingService, tiny_checkpoint: Checkpoint) -> None:
    def model() -> Model:
        return Model("kept", "kept", tiny_checkpoint)

    assert model().nbytes == MODEL_BYTES + sum(weight.nbytes for weight in tiny_checkpoint.model.parameters())
    space = Workspace("a visitor")
    recipe = load_recipe("romeo-juliet").override({"training.steps": 30})
    run = service.start(recipe, paused=True, owner=space.owner)
    space.add_run(run)
    for _ in range(20):
        run.step()
    wait(lambda: len(run.history()) == 20)
    one, many = run.snapshots[0].nbytes, len(run.snapshots)
    space.limit = 2 * model().nbytes + 3 * one + fixed_bytes(run)
    for _ in range(2):
        key = space.add_model(model())
    assert space.used == space.limit
    kept = run.snapshots
    assert [kept[0].step, kept[-1].step, len(kept)] == [0, 20, 3]
    assert many > 3, "snapshots made room for models"
    with pytest.raises(RunError, match="is the limit"):
        space.add_model(model())
    assert run.snapshots == kept, "nothing goes for a model that does not fit"
    space.remove_model(key)
    space.add_model(model())
    run.stop()


def test_a_full_machine_refuses_a_run(workspaces: Workspaces) -> None:
    for number in range(MOST_TRAINING):
        space = workspaces.enter(None)
        for run in ("a", "b"):  # the second waits for the first
            space.add_run(FakeRun(f"{run}{number}"))
    workspaces.enter(None).add_run(FakeRun("of somebody who is away", status="paused"))
    with pytest.raises(RunError, match=f"{MOST_TRAINING} others"):
        workspaces.start(workspaces.enter(None), load_recipe("romeo-juliet"))


def test_the_slider_goes_to_a_snapshot_and_back_to_live(workspaces: Workspaces) -> None:
    space = workspaces.enter(None)
    run = FakeRun("3" * 32)
    run.snapshots = tuple(
        SimpleNamespace(step=step, nbytes=1, checkpoint=lambda s=step: f"model of {s}") for step in (0, 4, 9)
    )
    space.add_run(run)
    seen = [workspaces.model(space, run.id, step).checkpoint for step in (4, 0, 5, 1000, None)]
    assert seen == ["model of 4", "model of 0", "model of 4", "model of 9", "model of 9"]
    with pytest.raises(RunError, match=NOT_YOURS):
        workspaces.model(space, "5" * 32)
    with pytest.raises(RunError, match=NOT_YOURS):
        space.rename("5" * 32, "mine")
    space.rename(run.id, "  the   first ")
    assert workspaces.model(space, run.id).title == own("the first")
    space.rename(run.id, "")
    assert workspaces.model(space, run.id).title == "Run 1 · A recipe"


def test_what_a_visitor_has_may_change_while_another_thread_reads_it(tiny_checkpoint: Checkpoint) -> None:
    space = Workspace("")
    for number in range(3):
        space.add_run(FakeRun(f"{number}", "finished"))
        space.add_model(Model("a copy", "", tiny_checkpoint))
        space.rename(f"{number}", "My own")
    for run_id, _, key, name in zip(space.runs, space.entries.values(), space.models, space.names.items()):
        space.add_run(FakeRun(f"after {run_id}", "finished"))
        space.rename(f"after {run_id}", name[1])
        space.add_model(Model("another", "", tiny_checkpoint))
        space.remove_model(key)
        space.remove(run_id)
    assert [*space.runs] == [*space.entries] == [*space.names] == ["after 0", "after 1", "after 2"]
    assert [model.title for model in space.models.values()] == ["another"] * 3
