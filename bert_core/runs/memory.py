"""The memory that one visitor and all visitors together may use.

While too much is in use, the visitor who holds the most loses the least useful snapshot, or else the oldest ended run
its training state. When nobody has any of these, the runs of visitors who have left are freed.
"""

import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from bert_core.errors import RunError, megabytes

BUDGET_BYTES = 2**30  # of a visitor


class Budget:
    """The bytes that one visitor's runs and models may keep, and the time that the runs have trained.

    limit: in bytes; training itself is not counted. seconds: of training so far, by which visitors share the training
    thread. runs: each `Run` that something else refers to, the oldest first. lock: the service's.
    """

    def __init__(self, limit: int = BUDGET_BYTES, lock: AbstractContextManager | None = None) -> None:
        self.limit, self.seconds, self._lock = limit, 0.0, lock or nullcontext()
        self.runs: weakref.WeakKeyDictionary[Any, None] = weakref.WeakKeyDictionary()
        self._models: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()

    @property
    def used(self) -> int:
        with self._lock:
            return sum(run.kept_bytes for run in list(self.runs)) + sum(self._models.values())

    def forget(self, run: Any) -> None:
        with self._lock:
            self.runs.pop(run, None)

    def keep(self, model: object, nbytes: int) -> None:
        """Count a model, which only its visitor can remove, and make room for it; RunError if that is not possible."""
        with self._lock:
            needed = nbytes + sum(self._models.values()) + sum(run.staying_bytes for run in list(self.runs))
            if needed > self.limit:
                raise RunError(
                    f"With this one your models and runs would take {needed / 2**20:,.0f} MB of memory; "
                    f"{self.limit / 2**20:,.0f} MB is the limit. Remove a model first."
                )
            self._models[model] = nbytes
            self.make_room()

    def make_room(self) -> None:
        """Free what is least useful until the rest is within the limit, or nothing more can be freed."""
        with self._lock:
            excess = self.used - self.limit
            while excess > 0 and (freed := self.free_least()):
                excess -= freed

    def free_least(self) -> int:
        """Free the least useful snapshot, or else the training state of the oldest ended run; returns its bytes."""
        found = [(least, run) for run in list(self.runs) if (least := run.least_useful())]
        if found:
            (_, snapshot), run = min(found, key=lambda item: item[0][0])
            return run.drop(snapshot)
        return next(filter(None, (run.give_up() for run in list(self.runs) if run.spare_bytes)), 0)


class Memory:
    """The bytes that all visitors of a process may take together: what their budgets count, and training.

    limit: above it, memory is freed. capacity: above it, no run is admitted. lock: the service's.
    """

    def __init__(self, limit: int, capacity: int, lock: AbstractContextManager) -> None:
        self.limit, self.capacity = limit, capacity
        self._lock = lock
        self._budgets: weakref.WeakSet[Budget] = weakref.WeakSet()

    def budget(self, limit: int = BUDGET_BYTES) -> Budget:
        """A visitor's share, which counts here."""
        budget = Budget(limit, self._lock)
        with self._lock:
            self._budgets.add(budget)
        return budget

    @property
    def used(self) -> int:
        with self._lock:
            return sum(budget.used for budget in self._budgets) + sum(run.working_bytes for run in self._runs)

    @property
    def _runs(self) -> list[Any]:
        return [run for budget in self._budgets for run in budget.runs]

    def admit(self, run: Any, nbytes: int) -> None:
        """Make room for a run and these bytes beside it. Raises RunError when they cannot have it."""
        with self._lock:
            needed, used = nbytes + run.training_bytes, self.used - run.working_bytes
            if needed > self.capacity:
                raise RunError(
                    f"This run needs about {megabytes(needed)} of memory; the limit here is "
                    f"{megabytes(self.capacity)}. Choose a smaller model or a shorter text."
                )
            left = self._free(used + needed - self.capacity)
            if left > 0:
                raise RunError(
                    f"This run needs about {megabytes(needed)} of memory; {megabytes(max(0, needed - left))} of "
                    f"{megabytes(self.capacity)} are free on this machine now. Choose less, or try again later."
                )

    def make_room(self) -> None:
        """Free what is least useful until the rest is within the limit, or nothing more can be freed."""
        with self._lock:
            self._free(self.used - self.limit)

    def _free(self, excess: int) -> int:
        """Free this many bytes; returns how many of them could not be freed."""
        held = {budget: budget.used for budget in self._budgets} if excess > 0 else {}
        while excess > 0 and held:
            most = max(held, key=lambda budget: held[budget])
            freed = most.free_least()
            excess, held[most] = excess - freed, held[most] - freed
            if not freed:
                del held[most]
        for run in self._runs if excess > 0 else ():
            if excess > 0 and run.is_left:
                before = run.kept_bytes + run.working_bytes
                run.free("Stopped and freed, because others needed the memory and nobody was watching.")
                excess -= before - run.kept_bytes - run.working_bytes
        return excess
