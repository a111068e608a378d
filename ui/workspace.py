"""One visitor's runs and models.

A visitor is known by an unguessable token and by nothing else. Handlers find runs through the visitor's workspace, so
nobody can see or stop another's run, and a wrong token and an unknown run give the same answer. A workspace lives on a
lease that the page renews; nothing ends because a page was closed or reloaded.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bert_core.errors import BertCoreError, RunError

NOT_YOURS = "This is not one of your runs."
ACTIVE = ("queued", "running", "paused")
SHIPPED = "shipped"
MOST_RUNS = 6
MOST_MODELS = 6
MOST_ACTIVE = 64

# Probes run in the server's many threads; each would use every core, so they take turns.
_probing = threading.Semaphore(1)


@contextmanager
def probing() -> Iterator[None]:
    """The one place at the machine for a probe; waits its turn."""
    with _probing:
        yield


@dataclass(frozen=True)
class Lease:
    """How long a visitor may be away before the runs are paused, and before everything is freed (seconds)."""

    pause_after: float = 10 * 60
    free_after: float = 3 * 3600


@dataclass
class Model:
    """A model that the probing tabs can look at; `title` and `detail` are for the person."""

    title: str
    detail: str
    checkpoint: Any


@dataclass
class Workspace:
    """What one visitor has: runs by id, models that were loaded or kept, and which one the page looks at."""

    token: str
    runs: dict[str, Any] = field(default_factory=dict)
    models: dict[str, Model] = field(default_factory=dict)
    selected: str = SHIPPED
    last_seen: float = 0.0
    boards: dict[str, Any] = field(default_factory=dict)
    paused_by_lease: set[str] = field(default_factory=set)
    _newest: dict[str, tuple[int, Any]] = field(default_factory=dict)

    def run(self, run_id: str) -> Any:
        """The visitor's run of that id; RunError with one fixed sentence for any other."""
        try:
            return self.runs[run_id]
        except (KeyError, TypeError):
            raise RunError(NOT_YOURS) from None

    @property
    def latest_run(self) -> Any | None:
        """The run that was started last."""
        return next(reversed(self.runs.values()), None)

    @property
    def active_run(self) -> Any | None:
        """The run that is not over yet."""
        return next((run for run in self.runs.values() if run.status in ACTIVE), None)

    def add_run(self, run: Any) -> None:
        """Keep a run and look at it from now on; the oldest finished ones make room."""
        self.runs[run.id] = run
        self.selected = run.id
        for old in [r.id for r in self.runs.values() if r.status not in ACTIVE][: max(0, len(self.runs) - MOST_RUNS)]:
            del self.runs[old]
            self._newest.pop(old, None)
            self.boards.pop(old, None)

    def add_model(self, model: Model) -> str:
        """Keep a loaded or saved model, look at it, and give its key; RunError when there are too many."""
        if len(self.models) >= MOST_MODELS:
            raise RunError(f"You keep {MOST_MODELS} models, which is the limit. Remove one first.")
        key = secrets.token_hex(8)
        self.models[key] = model
        self.selected = key
        return key

    def remove_selected_model(self) -> None:
        """Forget the kept model that is looked at, and look at the shipped one again."""
        self.models.pop(self.selected, None)
        self.selected = SHIPPED

    def newest(self, run: Any) -> tuple[int, Any] | None:
        """Step and checkpoint of a run's newest snapshot, built once per snapshot; None before the first."""
        snapshots = run.snapshots
        if not snapshots:
            return None
        cached = self._newest.get(run.id)
        if cached is None or cached[0] != snapshots[-1].step:
            cached = self._newest[run.id] = (snapshots[-1].step, snapshots[-1].checkpoint())
        return cached


class Workspaces:
    """All visitors of one server.

    lease: None where a visitor may stay away for ever, as on one's own machine. clock: monotonic seconds.
    """

    def __init__(
        self,
        service: Any,
        load_shipped: Callable[[], Any],
        *,
        shipped_name: str = "",
        lease: Lease | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.service = service
        self.shipped_name = shipped_name
        self._load_shipped = load_shipped
        self._shipped: Any = None
        self._lease = lease
        self._clock = clock
        self._lock = threading.Lock()
        self._spaces: dict[str, Workspace] = {}

    def enter(self, token: str | None) -> Workspace:
        """The workspace of a token, or a new one with a new token: a token is never taken from a client."""
        with self._lock:
            space = self._spaces.get(token) if isinstance(token, str) else None
            if space is None:
                space = self._new(secrets.token_hex(16))
            self._renew(space)
            return space

    def find(self, token: str) -> Workspace:
        """The workspace of a token; RunError with the same sentence as for an unknown run."""
        with self._lock:
            space = self._spaces.get(token) if isinstance(token, str) else None
            if space is None:
                raise RunError(NOT_YOURS)
            self._renew(space)
            return space

    def adopt(self, run: Any) -> Workspace:
        """A workspace for a run that a program started: the run's own id is the credential."""
        with self._lock:
            space = self._new(run.id)
            self._renew(space)
        space.add_run(run)
        return space

    def check_room(self) -> None:
        """RunError when the machine has as many runs as it can share."""
        with self._lock:
            active = sum(run.status in ACTIVE for space in self._spaces.values() for run in space.runs.values())
        if active >= MOST_ACTIVE:
            raise RunError(f"{active} runs are going on this machine, which is the limit. Try again in a few minutes.")

    def sweep(self) -> None:
        """Pause the runs of visitors who have been away for long; free what was left for very long."""
        if self._lease is None:
            return
        now = self._clock()
        with self._lock:
            for token, space in list(self._spaces.items()):
                away = now - space.last_seen
                if away > self._lease.free_after:
                    del self._spaces[token]
                    for run in space.runs.values():
                        if run.status in ACTIVE:
                            run.stop()
                elif away > self._lease.pause_after:
                    for run in space.runs.values():
                        if run.status in ("queued", "running"):
                            run.pause()
                            space.paused_by_lease.add(run.id)

    def shipped(self) -> Any:
        """The model that comes with the program; BertCoreError when it isn't there."""
        with self._lock:
            if self._shipped is None:
                self._shipped = self._load_shipped()
            return self._shipped

    def model(self, space: Workspace) -> Model:
        """What the page looks at now: a run at its newest step, a kept model, or the shipped one."""
        if space.selected in space.models:
            return space.models[space.selected]
        run = space.runs.get(space.selected)
        if run is not None and (newest := space.newest(run)) is not None:
            step, checkpoint = newest
            return Model(f"Your run: {run.recipe.title}", f"step {step}", checkpoint)
        if run is not None:
            raise BertCoreError("Your run has no model yet; it will in a moment.")
        return Model(self.shipped_name, "comes with Balcony", self.shipped())

    def _new(self, token: str) -> Workspace:
        space = self._spaces[token] = Workspace(token)
        return space

    def _renew(self, space: Workspace) -> None:
        space.last_seen = self._clock()
        # Whoever comes back finds the run going on as it was left.
        for run_id in space.paused_by_lease:
            if (run := space.runs.get(run_id)) is not None and run.status == "paused":
                run.resume()
        space.paused_by_lease.clear()


def sweep_forever(workspaces: Workspaces, *, every: float = 60.0) -> threading.Event:
    """Sweep in a background thread until the returned event is set."""
    over = threading.Event()

    def loop() -> None:
        while not over.wait(every):
            workspaces.sweep()

    threading.Thread(target=loop, name="lease", daemon=True).start()
    return over
