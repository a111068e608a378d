"""The memory that one visitor and all visitors together may use.

While too much is in use, the visitor who holds the most loses the least useful snapshot, or else the oldest ended run
its training state. When nobody has any of these, the runs of visitors who have left are freed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from bert_core.errors import RunError, megabytes
from bert_core.runs.run import ENDED, Run
from bert_core.runs.snapshots import least_useful

BUDGET_BYTES = 2**30  # of a visitor
ROW_BYTES = 500  # of a step's metrics, which are Python numbers


class Holder(Protocol):
    """A visitor: runs, the oldest first, and models that only the visitor can remove. limit: bytes of all of them;
    training itself is not counted."""

    limit: int
    models: Mapping[str, Any]
    is_away: bool

    @property
    def all_runs(self) -> list[Run]: ...


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


def _staying_bytes(run: Run) -> int:
    """Bytes that stay when all is freed that others may need: text, history, first, newest and best weights."""
    ends, staying = run.snapshots[:1] + run.snapshots[-1:], run.staying
    return fixed_bytes(run) + sum(each.nbytes for each in run.snapshots if each in ends or each.step in staying)


def used_by(holder: Holder) -> int:
    return sum(map(kept_bytes, holder.all_runs)) + _bytes_of_models(holder)


def _bytes_of_models(holder: Holder) -> int:
    return sum(model.nbytes for model in holder.models.values())


def check_model(holder: Holder, nbytes: int) -> None:
    """Raise RunError where a model of so many bytes would not fit beside what cannot be freed."""
    needed = nbytes + _bytes_of_models(holder) + sum(map(_staying_bytes, holder.all_runs))
    if needed > holder.limit:
        raise RunError(
            f"With this one your models and runs would take {needed / 2**20:,.0f} MB of memory; "
            f"{holder.limit / 2**20:,.0f} MB is the limit. Remove a model first."
        )


def make_room(holder: Holder) -> None:
    """Free what is least useful until the rest is within the visitor's limit, or nothing more can be freed."""
    excess = used_by(holder) - holder.limit
    while excess > 0 and (freed := _free_least(holder)):
        excess -= freed


def _free_least(holder: Holder) -> int:
    """Free the least useful snapshot, or else the training state of the oldest ended run; returns its bytes."""
    found = [(least, run) for run in holder.all_runs if (least := least_useful(run.snapshots, run.staying))]
    if found:
        (_, snapshot), run = min(found, key=lambda each: each[0][0])
        run.drop(snapshot)
        return snapshot.nbytes
    for run in holder.all_runs:
        if nbytes := _spare_bytes(run):
            run.give_up()
            return nbytes
    return 0


class Memory:
    """The bytes that all visitors may take together: what they hold, and training.

    limit: above it, memory is freed. capacity: above it, no run is admitted.
    """

    def __init__(self, holders: Callable[[], Iterable[Holder]], limit: int, capacity: int) -> None:
        self._holders, self.limit, self.capacity = holders, limit, capacity

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

    def _held(self) -> dict[Holder, int]:
        return {holder: used_by(holder) for holder in self._holders()}

    def _free(self, beside: int) -> int:
        """Free memory until what is used and `beside` are 0 bytes together; returns how many are left."""
        held = self._held()
        excess = left = _used(held) + beside
        richest = dict(held) if excess > 0 else {}
        while excess > 0 and richest:
            most = max(richest, key=lambda holder: richest[holder])
            freed = _free_least(most)
            excess, left, richest[most] = excess - freed, left - freed, richest[most] - freed
            if not freed:
                del richest[most]
        for run in [run for holder in held if holder.is_away for run in holder.all_runs]:
            if excess > 0:
                before = kept_bytes(run) + run.training_bytes
                run.free("Stopped and freed, because others needed the memory and nobody was watching.")
                excess -= before  # a run with a step in progress is free a moment later
                left -= before - kept_bytes(run) - run.training_bytes
        return left


def _used(held: Mapping[Holder, int]) -> int:
    return sum(held.values()) + sum(run.training_bytes for holder in held for run in holder.all_runs)
