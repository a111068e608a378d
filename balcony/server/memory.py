"""The memory that all visitors together may use.

While too much is in use, the visitor who holds the most loses the least useful snapshot, or else the oldest ended run
its training state. When nobody has any of these, the runs of visitors who have left are freed.
"""

from collections.abc import Callable, Iterable, Mapping

from balcony.server.workspace import Workspace, kept_bytes
from bert_core.errors import RunError, megabytes
from bert_core.runs.run import Run


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
