"""The workspaces of all visitors, found by token, their lease, and the memory that they may use together.

Every request renews the lease; closing or reloading a page ends nothing. The runs of a visitor who stays away are
paused and later freed, and the workspace is dropped.

While too much memory is in use, the visitor who holds the most loses the least useful snapshot, or else the oldest
ended run its training state. When nobody has any of these, the runs of visitors who have left are freed.
"""

import math
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from balcony.handlers import on_error
from balcony.server.kept import KeptRuns, digest
from balcony.server.workspace import NO_MODEL_YET, NOT_YOURS, Model, Workspace, kept_bytes
from balcony.system import usable_memory
from bert_core.data.corpus import Corpus
from bert_core.device import give_back_memory
from bert_core.errors import RunError, megabytes
from bert_core.runs.recipe import FinetuningRecipe, Recipe
from bert_core.runs.run import ACTIVE, TRAINING, Run
from bert_core.runs.service import Source, TrainingService
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskParts

ENGLISH = "english-mini"  # the shipped model that learns the tasks of programs
LEASE_SECONDS = 600.0
FREE_AFTER = 18  # leases without a visitor, after which runs are freed: three hours for a lease of ten minutes
MOST_TRAINING = 500  # visitors at once
MOST_PROGRAMS = 64  # runs of programs that have not ended
PROGRAM_BYTES = 2**24  # of a program's run: a larger one keeps its first, its newest and its best weights alone
MOST_SPACES = 5_000
LOST = "When the server restarts, your runs and models are lost."
KEPT = (
    "When the server restarts, your runs stop, and keep their last model alone; you can continue them. Other models "
    "are lost."
)
LATER = " The same happens 3 hours after your last visit."  # FREE_AFTER * LEASE_SECONDS


class Workspaces:
    """All visitors of one server.

    shipped: loaders of the models that come with the program, by name; a new visitor gets the first. lease: seconds
    without a request after which a visitor's runs are paused; after FREE_AFTER leases they are freed. None, as on
    one's own machine: never.
    """

    def __init__(
        self, service: TrainingService, shipped: Mapping[str, Callable[[], Checkpoint]], *, lease: float | None = None
    ) -> None:
        self.service = service
        self.shipped_names = tuple(shipped)
        self._load_shipped = shipped
        self._shipped: dict[str, Checkpoint] = {}
        self._loading = threading.Lock()
        self._lease = lease
        self._lock = threading.Lock()  # taken while the service's own is held, never the other way round
        self._spaces: dict[str, Workspace] = {}  # by digest of the token; the one seen last comes last
        self.kept: KeptRuns | None = None
        self.lesson_runs: list[Any] = []  # as links describe them: no limit of a class is for them
        usable = usable_memory(service.device)
        self.memory = Memory(self._all, int(min(usable, service.limits.memory_bytes)), usable)
        service.tick, service.admit = on_error(lambda sentence: None)(self.tick), self.memory.admit

    @property
    def is_shared(self) -> bool:
        """Whether visitors other than the machine's owner may come."""
        return self._lease is not None

    @property
    def losses(self) -> str:
        """What a visitor loses by a restart, for the page."""
        return (KEPT if self.kept else LOST) + LATER * self.is_shared

    def enter(self, token: str | None) -> Workspace:
        """The workspace of a token, or a new one with a new token: a client never chooses its token."""
        return self.lookup(token) or self._add(Workspace(secrets.token_hex(16)))

    def find(self, token: str | None) -> Workspace:
        """The workspace of a token; RunError with the same sentence as for an unknown run."""
        if (space := self.lookup(token)) is None:
            raise RunError(NOT_YOURS)
        return space

    def start(self, space: Workspace, recipe: Recipe, corpus: Source = None, seed: int = 0, **options: Any) -> Run:
        """Start a visitor's run, queued after the active ones. options: as for `TrainingService.start`, "variant", the
        title of its variant in an experiment, and "listed", see `_begin`. RunError when too many visitors train
        already."""
        return self._begin(space, self.service.start, recipe, corpus, seed, **options)

    def _begin(
        self,
        space: Workspace,
        begin: Callable[..., Run],
        *what: Any,
        variant: str = "",
        listed: bool = True,
        **options: Any,
    ) -> Run:
        """Let the service begin a visitor's run. listed: whether it is among the visitor's runs, or only for the
        caller, who removes it from `unlisted`."""
        self._check_room(space)
        run = begin(*what, owner=space.owner, **options)
        space.add_run(run, variant) if listed else space.unlisted.append(run)
        return run

    def finetune(
        self, space: Workspace, recipe: FinetuningRecipe, start: Checkpoint, parts: TaskParts, *, listed: bool = True
    ) -> Run:
        """Start a visitor's run that fine-tunes the model `start`. listed: see `_begin`. Errors as for `start`."""
        return self._begin(space, self.service.finetune, recipe, start, parts, listed=listed)

    def start_for_program(
        self, recipe: Recipe | FinetuningRecipe, corpus: Corpus | None = None, seed: int = 0, *, caller: str = ""
    ) -> Run:
        """Start a run in a workspace of its own, whose token is the run's id. One that fine-tunes begins as the
        shipped model ENGLISH, on the recipe's examples. caller: address of the program. Errors as for `start` and
        `shipped`, and RunError when the caller's runs or those of all programs are too many."""
        active = [space.caller for space in self._all() if space.caller is not None and space.active_run]
        most = self.service.limits.program_runs
        if active.count(caller) >= most or len(active) >= MOST_PROGRAMS:
            raise RunError(
                f"{active.count(caller)} runs of programs at your address and {len(active)} in all have not ended; the "
                f"limits here are {most} and {MOST_PROGRAMS}. Stop one, or try again later."
            )
        space = Workspace("", PROGRAM_BYTES, caller=caller)
        if isinstance(recipe, FinetuningRecipe):
            start = self.shipped(ENGLISH).checkpoint
            run = self.finetune(space, recipe.with_seed(seed), start, recipe.source())
        else:
            run = self.start(space, recipe, corpus, seed)
        space.token = run.id
        self._add(space)
        return run

    def _check_room(self, visitor: Workspace) -> None:
        if visitor.caller is not None:
            return
        others = [space for space in self._all() if space is not visitor and space.caller is None]
        training = sum(any(run.status in TRAINING for run in space.all_runs) for space in others)
        if training >= MOST_TRAINING:
            raise RunError(f"{training} others are training on this machine, which is the limit. Try again later.")

    def tick(self) -> None:
        """Pause, and later free, the runs of visitors who stay away, drop their workspaces, and see to the memory."""
        now, lease = self.service.now(), math.inf if self._lease is None else self._lease
        with self._lock:
            gone = {key: space for key, space in self._spaces.items() if now - space.last_seen > FREE_AFTER * lease}
            for key in gone:
                del self._spaces[key]
        for run in [run for space in gone.values() for run in space.all_runs]:
            run.free("Stopped and freed, because nobody had visited it for long.")
        for space in self._all():
            if now - space.last_seen > lease:
                space.leave()
            space.make_room()
        self.memory.make_room()
        if gone:
            give_back_memory()

    def shipped(self, name: str = "") -> Model:
        """A model that comes with the program, "" for the first; BertCoreError if it is not there or can't load."""
        name = name or self.shipped_names[0]
        if name not in self._load_shipped:
            there = ", ".join(self.shipped_names)
            raise RunError(f"The model {name} does not come with this server; there is: {there}.")
        with self._loading:
            if name not in self._shipped:
                self._shipped[name] = self._load_shipped[name]()
            return Model(name, "comes with Balcony", self._shipped[name])

    def model(self, space: Workspace, key: str = "", step: int | None = None) -> Model:
        """A model of the visitor: a run at a step, None for its newest, an opened model, or a shipped one, "" for the
        first. RunError for another visitor's, and before a run has a model."""
        if not key or key in self._load_shipped:
            return self.shipped(key)
        if model := space.models.get(key):
            return Model(space.title(key), model.detail, model.checkpoint)
        run = space.run(key)
        if (found := space.checkpoint(run, step)) is None:
            ended = f"This run ended before it had a model. {run.reason}"
            raise RunError(NO_MODEL_YET if run.status in ACTIVE else ended)
        return Model(space.title(key), f"step {found[0]:,}", found[1])

    def _add(self, space: Workspace) -> Workspace:
        space.touch(self.service.now())
        with self._lock:
            self._spaces[digest(space.token)] = space
            for key in [key for key, other in self._spaces.items() if not (other.runs or other.models)]:
                if len(self._spaces) <= MOST_SPACES:
                    break
                del self._spaces[key]  # a page that was opened, and no more: it gets a new token
        return space

    def _all(self) -> list[Workspace]:
        with self._lock:
            return list(self._spaces.values())

    def keep(self, folder: Path) -> None:
        """Save the runs of all pages in a folder from now on; a visitor who comes back has those that are there."""
        self.kept = KeptRuns(folder, self._of_pages)

    def has(self, visitor: str) -> bool:
        """Whether there is a visitor, by the digest of the token; it renews no lease."""
        return visitor in self._spaces

    def _of_pages(self) -> dict[str, Workspace]:
        with self._lock:
            return {visitor: space for visitor, space in self._spaces.items() if space.caller is None}

    def lookup(self, token: str | None) -> Workspace | None:
        """The workspace of a token, None for an unknown or expired one."""
        if not isinstance(token, str):
            return None
        key = digest(token)
        with self._lock:
            if (space := self._spaces.pop(key, None)) is not None:
                self._spaces[key] = space
        if space is None and self.kept and self.kept.has(key):
            space = self._readmit(self.kept, key)
        if space is not None:
            space.token = token
            space.touch(self.service.now())
        return space

    def _readmit(self, kept: KeptRuns, visitor: str) -> Workspace:
        """The workspace of a visitor from before a restart."""
        with self._loading:  # two requests that come at once are of one visitor
            if found := self._spaces.get(visitor):
                return found
            space = Workspace("", last_seen=self.service.now())
            kept.list_again(visitor, space, self.service)
            with self._lock:
                self._spaces[visitor] = space
            return space


class Memory:
    """The bytes that all visitors may take together: what they hold, and training.

    limit: above it, memory is freed. capacity: above it, no run is admitted.
    """

    def __init__(self, spaces: Callable[[], Iterable[Workspace]], limit: int, capacity: int) -> None:
        self._spaces, self.limit, self.capacity = spaces, limit, capacity

    @property
    def used(self) -> int:
        return _used(self._held())

    def admit(self, run: Run, nbytes: int) -> int:
        """Make room for these bytes of a run; returns how many are missing now. Raises RunError for more than can ever
        be free."""
        if nbytes > self.capacity:
            raise RunError(
                f"This run needs about {megabytes(nbytes)} of memory; the limit here is {megabytes(self.capacity)}. "
                "Choose a smaller model or a shorter text."
            )
        return max(0, self._free(nbytes - self.capacity))

    def make_room(self) -> None:
        """Free what is least useful until the rest is within the limit, or nothing more can be freed."""
        self._free(-self.limit)

    def _held(self) -> dict[Workspace, int]:
        return {space: space.used for space in self._spaces()}

    def _free(self, beside: int) -> int:
        """Free memory until what is used and `beside` are 0 bytes together; returns how many are left."""
        held = self._held()
        excess = left = _used(held) + beside
        richest = dict(held) if excess > 0 else {}
        while excess > 0 and richest:
            most = max(richest, key=lambda space: richest[space])
            freed = most.free_least()
            excess, left, richest[most] = excess - freed, left - freed, richest[most] - freed
            if not freed:
                del richest[most]
        for run in [run for space in held if space.is_away for run in space.all_runs]:
            if excess > 0:
                before = kept_bytes(run) + run.training_bytes
                run.free("Stopped and freed, because others needed the memory and nobody was watching.")
                excess -= before  # a run with a step in progress is free a moment later
                left -= before - kept_bytes(run) - run.training_bytes
        return left


def _used(held: Mapping[Workspace, int]) -> int:
    return sum(held.values()) + sum(run.training_bytes for space in held for run in space.all_runs)
