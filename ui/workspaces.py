"""The workspaces of all visitors, found by token, and the lease they live on.

The page renews the lease with every question; nothing ends because a page was closed or reloaded.
"""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from bert_core.checkpoint import Checkpoint
from bert_core.errors import BertCoreError, RunError
from bert_core.runs import Run, TrainingService
from ui.workspace import ACTIVE, NOT_YOURS, Model, Workspace

MOST_ACTIVE = 64


@dataclass(frozen=True)
class Lease:
    """How long a visitor may be away before the runs are paused, and before everything is freed (seconds)."""

    pause_after: float = 10 * 60
    free_after: float = 3 * 3600


class Workspaces:
    """All visitors of one server.

    lease: None where a visitor may stay away for ever, as on one's own machine. clock: monotonic seconds.
    """

    def __init__(
        self,
        service: TrainingService,
        load_shipped: Callable[[], Checkpoint],
        *,
        shipped_name: str = "",
        lease: Lease | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.service = service
        self.shipped_name = shipped_name
        self._load_shipped = load_shipped
        self._shipped: Checkpoint | None = None
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

    @property
    def is_shared(self) -> bool:
        """Whether visitors other than the machine's owner may come."""
        return self._lease is not None

    def find(self, token: str) -> Workspace:
        """The workspace of a token; RunError with the same sentence as for an unknown run."""
        with self._lock:
            space = self._spaces.get(token) if isinstance(token, str) else None
            if space is None:
                raise RunError(NOT_YOURS)
            self._renew(space)
            return space

    def adopt(self, run: Run) -> Workspace:
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

    def shipped(self) -> Checkpoint:
        """The model that comes with the program; BertCoreError when it isn't there."""
        with self._lock:
            if self._shipped is None:
                self._shipped = self._load_shipped()
            return self._shipped

    def model(self, space: Workspace) -> Model:
        """What the page looks at now: a run at a step, a kept model, or the shipped one."""
        if space.selected in space.models:
            return space.models[space.selected]
        run = space.runs.get(space.selected)
        if run is None:
            return Model(self.shipped_name, "comes with Balcony", self.shipped())
        if (found := space.checkpoint(run, space.at)) is None:
            raise BertCoreError("Your run has no model yet; it will in a moment.")
        step, checkpoint = found
        return Model(f"Your run: {run.recipe.title}", f"step {step:,}", checkpoint)

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
