"""One visitor's runs and models.

An unguessable token is all that identifies a visitor. Handlers find runs through the visitor's workspace, so nobody
can see or stop another's run, and a wrong token and an unknown run give the same error.
"""

import itertools
import secrets
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from balcony.handlers import own
from bert_core.errors import RunError, first_three
from bert_core.runs.recipe import FinetuningRecipe
from bert_core.runs.run import ACTIVE, ENDED, TRAINING, Run, least_useful
from bert_core.storage.checkpoint import Checkpoint

NOT_YOURS = "This run is not here: it is not one of yours, or the server has restarted."
NO_RUN_YET = "There is no run yet; press Start."
NO_MODEL_YET = "Your run is being prepared; its model comes in a moment."
MOST_RUNS = 24
LONGEST_NAME = 60
# Of other runs' curves, drawn over those of the shown run.
RUN_COLOURS: tuple[str, ...] = ("#8b5cf6", "#0891b2", "#ec4899", "#65a30d", "#ef4444", "#a8715a")
RUN_COLOURS += ("#08a07a", "#ff05ea", "#8f5095", "#67732b", "#9705ff", "#f06400")
RUN_LOOKS = tuple((colour, dotted) for dotted in (False, True) for colour in RUN_COLOURS)  # one for each of MOST_RUNS
PASTED_TEXT = "Your text"  # the name of a text that was pasted
BUDGET_BYTES = 2**30  # of a visitor
ROW_BYTES = 500  # of a step's metrics, which are Python numbers
MODEL_BYTES = 2**20  # of a model beside its weights: modules, tokenizer
MOST_BUILT = 2  # checkpoints built from snapshots and kept: the newest and the selected one


def _without(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {each: value for each, value in values.items() if each != key}


def is_finetuning(run: Run) -> bool:
    """Whether a run learns a task, from labelled examples."""
    return isinstance(run.recipe, FinetuningRecipe)


def fixed_bytes(run: Run) -> int:
    """Estimated bytes of the history and the text."""
    return ROW_BYTES * run.steps_done + run.text_bytes


def _spare_bytes(run: Run) -> int:
    """Bytes that an ended run keeps only to be continued."""
    return run.training.trainer.nbytes if run.training is not None and run.status in ENDED else 0


def kept_bytes(run: Run) -> int:
    """Bytes that it keeps beside training; asked often, so one snapshot stands for all, which have one size."""
    snapshots = run.snapshots
    return fixed_bytes(run) + _spare_bytes(run) + (len(snapshots) * snapshots[0].nbytes if snapshots else 0)


@dataclass(eq=False)
class Model:
    """A model that the probing tabs can use."""

    title: str
    detail: str
    checkpoint: Checkpoint

    @property
    def nbytes(self) -> int:
        return MODEL_BYTES + sum(weight.nbytes for weight in self.checkpoint.model.parameters())


@dataclass(frozen=True)
class Entry:
    """A run in the visitor's list. number: from 1, never reused. variant: its title in an experiment, else "".
    colour, is_dotted: of its curves over another run's; runs of one variant share them."""

    number: int
    variant: str
    colour: str
    is_dotted: bool = False


@dataclass(eq=False)
class Workspace:
    """What one visitor has: runs by id, and opened models by key. Other threads iterate over these mappings, so
    a change puts another one in the place of one of them.

    token: "" until the visitor of a run that was kept on the disk comes back. caller: address of the program whose
    run it is, None for a page's.
    entries: the list of runs, by run id. unlisted: runs that end when they are measured, and no list shows. names: that
    the person gave to runs and models. dropped: names of runs that made room for newer ones. limit: bytes for all of
    it; training itself is not counted. last_seen: when the lease was renewed, by the service's clock.
    """

    token: str
    limit: int = BUDGET_BYTES
    owner: object = field(default_factory=object)
    runs: Mapping[str, Run] = field(default_factory=dict)
    entries: Mapping[str, Entry] = field(default_factory=dict)
    unlisted: list[Run] = field(default_factory=list)
    models: Mapping[str, Model] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    last_seen: float = 0.0
    is_away: bool = False
    caller: str | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _built: dict[tuple[str, int], Checkpoint] = field(default_factory=dict)
    _building: threading.Lock = field(default_factory=threading.Lock)
    _changing: threading.Lock = field(default_factory=threading.Lock)  # held while a mapping is replaced
    _left: list[Run] = field(default_factory=list)  # that were paused, because the visitor was away

    def touch(self, now: float) -> None:
        """Renew the lease; the runs that were paused at its end continue."""
        self.last_seen, self.is_away = now, False
        left, self._left = self._left, []
        for run in left:
            if run.status in ACTIVE:
                run.resume()

    def leave(self) -> None:
        """Pause the runs of a visitor who stays away."""
        self.is_away = True
        for run in self.all_runs:
            if run.status in TRAINING and run not in self._left:
                done = f"Paused at step {run.steps_done}"
                run.pause(f"{done}, because nobody was watching; it continues when you do.")
                self._left.append(run)

    @property
    def used(self) -> int:
        return sum(map(kept_bytes, self.all_runs)) + sum(model.nbytes for model in self.models.values())

    def make_room(self) -> None:
        """Free what is least useful until the rest is within the limit, or nothing more can be freed."""
        excess = self.used - self.limit
        while excess > 0 and (freed := self.free_least()):
            excess -= freed

    def free_least(self) -> int:
        """Free the least useful snapshot, or else the training state of the oldest ended run; returns its bytes."""
        found = [(least, run) for run in self.all_runs if (least := least_useful(run.snapshots, run.staying))]
        if found:
            (_, snapshot), run = min(found, key=lambda each: each[0][0])
            run.drop(snapshot)
            return snapshot.nbytes
        for run in self.all_runs:
            if nbytes := _spare_bytes(run):
                run.give_up()
                return nbytes
        return 0

    def run(self, run_id: str) -> Run:
        """The visitor's run of that id; RunError with one fixed sentence for any other."""
        try:
            return self.runs[run_id]
        except (KeyError, TypeError):
            raise RunError(NOT_YOURS) from None

    def title(self, key: str) -> str:
        """What the page calls a run or an opened model, with the words marked that a person wrote: the name that
        the person gave, or a run's number and its recipe or text. RunError for another visitor's."""
        if name := self.names.get(key):
            return own(name)
        if model := self.models.get(key):
            return own(model.title)
        run = self.run(key)
        recipe, title = run.recipe, run.recipe.title.removesuffix(".txt")
        is_own = not recipe.files if is_finetuning(run) else recipe.corpus.file is None
        return f"Run {self.entries[key].number} · {own(title) if is_own and title != PASTED_TEXT else title}"

    def rename(self, key: str, name: str) -> None:
        """Give a run or a model another name, "" for its first one. RunError for another visitor's."""
        if key not in self.models:
            self.run(key)
        with self._changing:
            self.names = {**self.names, key: " ".join(name.split())[:LONGEST_NAME]}

    @property
    def all_runs(self) -> list[Run]:
        return [*self.runs.values(), *self.unlisted]

    @property
    def active_run(self) -> Run | None:
        """The first run that has not ended; later ones wait for it."""
        return next((run for run in self.all_runs if run.status in ACTIVE), None)

    @property
    def pretraining_runs(self) -> list[Run]:
        return [run for run in self.runs.values() if not is_finetuning(run)]

    @property
    def finetuning_run(self) -> Run | None:
        """The newest listed run that fine-tunes."""
        return next((run for run in reversed([*self.runs.values()]) if is_finetuning(run)), None)

    @property
    def current_run(self) -> Run | None:
        """The active pretraining run, else the newest one; those of experiments come after all others."""
        runs = self.pretraining_runs
        active = (run for run in runs if run.status in ACTIVE)
        ended = sorted(runs, key=lambda run: not self.entries[run.id].variant)
        return next(active, None) or next(reversed(ended), None)

    def stop(self) -> None:
        for run in reversed(self.all_runs):
            if run.status in ACTIVE:
                run.stop(wait=False)

    def refuse_if_active(self) -> None:
        """RunError while a run has not ended, which it names."""
        if (run := self.active_run) is None:
            return
        known = run.id in self.runs  # the runs of an experiment with a task are in no list
        name = self.title(run.id) if known else "The experiment"
        raise RunError(f"“{name}” has not ended. Stop it before you start another.")

    @property
    def dropped_notes(self) -> list[str]:
        """That runs were dropped, in one sentence or none."""
        if not self.dropped:
            return []
        names = first_three(self.dropped[::-1])
        return [f"Made room for newer runs: {names}. A page keeps {MOST_RUNS}; runs that you named go last."]

    def add_run(self, run: Run, variant: str = "") -> None:
        """Keep a run. With too many runs or bytes, the oldest ended ones are dropped, those that the person named
        last."""
        number = next(self._numbers)
        alike = (each.number for each in self.entries.values() if variant and each.variant == variant)
        entry = Entry(number, variant, *RUN_LOOKS[next(alike, number) % len(RUN_LOOKS)])
        with self._changing:
            self.entries, self.runs = {**self.entries, run.id: entry}, {**self.runs, run.id: run}
        self.make_room()
        ended = [other for other in self.runs.values() if other.status not in ACTIVE and other is not run]
        for old in sorted(ended, key=lambda other: bool(self.names.get(other.id))):
            if len(self.runs) <= MOST_RUNS and self.used <= self.limit:
                break
            self.dropped.append(self.title(old.id))
            self._forget(old)

    def remove(self, run_id: str) -> None:
        """Forget an ended run, and free all that it keeps. RunError for an active one and for another visitor's."""
        run = self.run(run_id)
        if run.status in ACTIVE:
            raise RunError("This run has not ended. Stop it before you remove it.")
        self._forget(run)
        run.free("Removed.")

    def _forget(self, run: Run) -> None:
        with self._changing:
            found = self.runs, self.entries, self.names
            self.runs, self.entries, self.names = (_without(each, run.id) for each in found)
        with self._building:
            self._built = {key: built for key, built in self._built.items() if key[0] != run.id}

    def add_model(self, model: Model) -> str:
        """Keep an opened model and return its key; RunError when it exceeds the limit."""
        models = model.nbytes + sum(each.nbytes for each in self.models.values())
        if models > self.limit:
            raise RunError(
                f"With this one your models would take {models / 2**20:,.0f} MB of memory; "
                f"{self.limit / 2**20:,.0f} MB is the limit. Remove a model first."
            )
        key = secrets.token_hex(8)
        with self._changing:
            self.models = {**self.models, key: model}
        self.make_room()
        return key

    def remove_model(self, key: str) -> None:
        with self._changing:
            self.models = _without(self.models, key)

    def checkpoint(self, run: Run, step: int | None = None) -> tuple[int, Checkpoint] | None:
        """Step and checkpoint of the run's snapshot nearest to `step`, None for the newest; None before the first."""
        snapshots = run.snapshots
        if not snapshots:
            return None
        found = snapshots[-1] if step is None else min(snapshots, key=lambda snapshot: abs(snapshot.step - step))
        key = (run.id, found.step)
        with self._building:
            checkpoint = self._built.pop(key, None) or found.checkpoint()
            self._built[key] = checkpoint  # the most recently used comes last
            while len(self._built) > MOST_BUILT:
                del self._built[next(iter(self._built))]
        return found.step, checkpoint
