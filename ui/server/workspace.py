"""One visitor's runs and models.

A visitor is known by an unguessable token and by nothing else. Handlers find runs through the visitor's workspace, so
nobody can see or stop another's run, and a wrong token and an unknown run give the same answer.
"""

import secrets
import threading
from dataclasses import dataclass, field

from bert_core.errors import RunError
from bert_core.runs.run import ACTIVE, Run
from bert_core.runs.snapshots import Budget
from bert_core.storage.checkpoint import Checkpoint

NOT_YOURS = "This is not one of your runs."
MOST_RUNS = 24
# Of whole runs, when their curves lie over one another.
RUN_COLOURS = ("#8b5cf6", "#3b82f6", "#ec4899", "#65a30d", "#ef4444", "#a8715a")
MODEL_BYTES = 2**20  # what a model takes beside its weights: modules, tokenizer
MOST_BUILT = 2  # models of snapshots that are kept built: the newest one and the one that is looked at


@dataclass(eq=False)
class Model:
    """A model that the probing tabs can look at; `title` and `detail` are for the person."""

    title: str
    detail: str
    checkpoint: Checkpoint

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return MODEL_BYTES + sum(weight.nbytes for weight in self.checkpoint.model.parameters())


@dataclass(frozen=True)
class Entry:
    """A run in the visitor's list. number: counted from 1 and never given twice. variant: the side of an experiment
    that it is on, else "". colour: of its curves over another run's; runs of the same side have the same."""

    number: int
    variant: str
    colour: str


@dataclass(eq=False)
class Workspace:
    """What one visitor has: runs by id, models that were loaded or kept, and which one the page looks at.

    shipped: names of the models that everybody has. selected: id of a run, key of a model, or name of a shipped one; ""
    stands for the first of these. at: the step of that run, None for its newest (live). Both are set by `look_at`.
    watched: id of the run that the Train tab shows, set by `watch`. entries: what the list of runs says of each.
    budget: bytes for all of it. last_seen: when the visitor's lease was renewed, by the service's clock.
    """

    token: str
    budget: Budget = field(default_factory=Budget)
    runs: dict[str, Run] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    models: dict[str, Model] = field(default_factory=dict)
    shown_run_id: str = ""
    shipped: tuple[str, ...] = ()
    selected: str = ""
    selected_step: int | None = None
    last_seen: float = 0.0
    _built: dict[tuple[str, int], Checkpoint] = field(default_factory=dict)
    _building: threading.Lock = field(default_factory=threading.Lock)

    def touch(self, now: float) -> None:
        """The visitor is here: renew the lease of everything."""
        self.last_seen = now
        for run in list(self.runs.values()):
            run.touch()

    def run(self, run_id: str) -> Run:
        """The visitor's run of that id; RunError with one fixed sentence for any other."""
        try:
            return self.runs[run_id]
        except (KeyError, TypeError):
            raise RunError(NOT_YOURS) from None

    @property
    def current_run(self) -> Run | None:
        """The run that is watched: the first that is not over yet, else the one that was started last."""
        return self.active_run or next(reversed(self.runs.values()), None)

    @property
    def active_run(self) -> Run | None:
        """The first run that is not over yet; others wait for it."""
        return next((run for run in self.runs.values() if run.status in ACTIVE), None)

    def show_current_run(self) -> Run | None:
        """The current run. Who looked at the newest step of the one before it looks at this one's now."""
        run = self.current_run
        if run is not None and run.id != self.shown_run_id:
            if self.selected == self.shown_run_id and self.selected_step is None:
                self.select(run.id)
            self.shown_run_id = run.id
        return run

    def stop(self) -> None:
        """Stop the run that is going and those that wait for it."""
        for run in reversed(self.runs.values()):
            if run.status in ACTIVE:
                run.stop()

    def refuse_if_busy(self) -> None:
        """RunError while a run is going."""
        if self.active_run is not None:
            raise RunError("A run of yours is still going; stop it before you start another.")

    def add_run(self, run: Run, variant: str = "") -> None:
        """Keep a run, and look at it if it is the one that is watched. When there are too many, or they keep more bytes
        than they may, the oldest ones that are over make room."""
        number = max((entry.number for entry in self.entries.values()), default=0) + 1
        alike = (entry.colour for entry in self.entries.values() if variant and entry.variant == variant)
        self.entries[run.id] = Entry(number, variant, next(alike, RUN_COLOURS[number % len(RUN_COLOURS)]))
        self.runs[run.id] = run
        if self.current_run is run:
            self.select(run.id)
        for old in [other for other in self.runs.values() if other.status not in ACTIVE and other is not run]:
            if len(self.runs) <= MOST_RUNS and self.budget.used <= self.budget.limit:
                break
            del self.runs[old.id], self.entries[old.id]
            self.budget.forget(old)

    def add_model(self, model: Model) -> str:
        """Keep a loaded or saved model, look at it, and give its key; RunError when it does not fit into the budget."""
        self.budget.keep(model, model.nbytes)
        key = secrets.token_hex(8)
        self.models[key] = model
        self.select(key)
        return key

    def remove_selected_model(self) -> None:
        """Forget the kept model that is looked at, and look at the first shipped one again."""
        self.models.pop(self.selected, None)
        self.selected, self.selected_step = "", None

    def select(self, key: str, step: int | None = None) -> None:
        """Look at a run, a model or a shipped one; step: of a run, None for live. RunError for another's run."""
        if key not in self.shipped and key not in self.models:
            self.run(key)
        self.selected, self.selected_step = key, step

    def checkpoint(self, run: Run, step: int | None = None) -> tuple[int, Checkpoint] | None:
        """Step and checkpoint of a run's snapshot next to `step`, of its newest for None; None before the first."""
        snapshots = run.snapshots
        if not snapshots:
            return None
        found = snapshots[-1] if step is None else min(snapshots, key=lambda snapshot: abs(snapshot.step - step))
        key = (run.id, found.step)
        with self._building:
            # Asked last stands last.
            self._built[key] = self._built.pop(key, None) or found.checkpoint()
            while len(self._built) > MOST_BUILT:
                del self._built[next(iter(self._built))]
            return found.step, self._built[key]
