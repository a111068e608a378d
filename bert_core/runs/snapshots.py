"""Snapshots of a run's weights, and the memory that one visitor and all visitors together may use."""

import contextlib
import copy
import dataclasses
import functools
import math
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from bert_core.config import BertConfig
from bert_core.errors import RunError, megabytes
from bert_core.model import BertForPreTraining, draw, set_parameter
from bert_core.storage.checkpoint import Checkpoint, TaskHead
from bert_core.storage.weights import PARTS, TASK_HEADS

MAX_SNAPSHOTS = 40  # of one run
BUDGET_BYTES = 2**30
LEAST_PART = 2**24  # of a visitor while memory is scarce: some runs of the dialogue

Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Snapshot:
    """A run's weights after a step, by the names of the model's parameters; they must not change.

    head: of a task, without its weights. stays: it is not dropped for others.
    """

    step: int
    weights: Mapping[str, Tensor]
    config: BertConfig
    tokenizer: Tokenizer
    name: str
    recipe: Mapping[str, Any]
    head: TaskHead | None = None
    stays: bool = False

    @functools.cached_property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        return sum(each.nbytes for each in self.weights.values())

    def checkpoint(self) -> Checkpoint:
        """A new model in eval mode, which shares the memory of the weights."""
        model, head, missing, weights = _twin(_skeleton(self.config)), self.head, frozenset[str](), dict(self.weights)
        if head is not None:
            weight, bias = (weights.pop(name) for name in head.tensors())
            head = dataclasses.replace(head, weight=weight, bias=bias)
            _, has_pooler = TASK_HEADS[head.architecture]
            missing = frozenset({"mlm", "nsp"} if has_pooler else PARTS)
            generator, left_out = torch.Generator().manual_seed(0), tuple(PARTS[part] for part in missing)
            for name, parameter in model.named_parameters():
                if name.startswith(left_out):
                    weights[name] = draw(name, parameter.shape, self.config, generator).to(weight.device)
        for name, each in weights.items():
            set_parameter(model, name, each)
        return Checkpoint(model, self.tokenizer, self.name, (), missing, self.recipe, head)


@functools.lru_cache(maxsize=8)
def _skeleton(config: BertConfig) -> BertForPreTraining:
    """A model in eval mode on the meta device: building it takes longer than filling it."""
    with torch.device("meta"):
        return BertForPreTraining(config).eval()


def _twin(module: Module) -> Module:
    """A copy of the modules whose parameters can be replaced independently."""
    twin = copy.copy(module)
    twin._parameters = dict(module._parameters)
    twin._modules = {name: child and _twin(child) for name, child in module._modules.items()}
    return twin


class Holder(Protocol):
    """A run, as a budget sees it. fixed_bytes: kept with it. working_bytes: to train it, until it has ended.
    spare_bytes: to continue it then; `give_up` frees them, `free` all but its history. is_left: whether its visitor
    has been away for longer than the lease."""

    snapshots: tuple[Snapshot, ...]

    @property
    def is_left(self) -> bool: ...

    @property
    def working_bytes(self) -> int: ...

    @property
    def fixed_bytes(self) -> int: ...

    @property
    def spare_bytes(self) -> int: ...

    def give_up(self) -> None: ...

    def free(self, reason: str) -> None: ...


class Memory:
    """The bytes that all visitors of a process may take together: their budgets, runs in training, and what is
    reserved for a moment. limit: of all. ample: see `tidy`. lock: the service's."""

    def __init__(self, limit: int, lock: AbstractContextManager, ample: float = math.inf) -> None:
        self.limit, self.ample = limit, ample
        self._lock = lock
        self._budgets: weakref.WeakSet[Budget] = weakref.WeakSet()
        self._reserved = 0

    def budget(self, limit: int) -> "Budget":
        """A visitor's share, which counts here."""
        budget = Budget(limit, self._lock)
        with self._lock:
            self._budgets.add(budget)
        return budget

    @property
    def used(self) -> int:
        """Bytes in use."""
        with self._lock:
            return self._passing + sum(budget.used for budget in self._budgets)

    @property
    def _passing(self) -> int:
        """Bytes in use that no visitor keeps: of training, and what is reserved."""
        return self._reserved + sum(holder.working_bytes for budget in self._budgets for holder in budget.holders)

    @contextlib.contextmanager
    def reserve(self, nbytes: int, what: str) -> Iterator[None]:
        """Count these bytes for the length of a block. what: what they are for, such as "This text". Raises RunError
        when they are not free."""
        with self._lock:
            if not self.has_room(nbytes):
                raise RunError(
                    f"{what} needs about {megabytes(nbytes)} of memory; {megabytes(max(0, self.limit - self.used))} "
                    f"of {megabytes(self.limit)} are free on this machine now. Choose less, or try again later."
                )
            self._reserved += nbytes
        try:
            yield
        finally:
            with self._lock:
                self._reserved -= nbytes

    def has_room(self, nbytes: int = 0) -> bool:
        """Whether these bytes are free, after freeing what is least useful.

        First go the runs whose visitors have left, the oldest first, then the state for continuing ended runs, and
        last all snapshots but the first and the newest of a run.
        """
        with self._lock:
            excess = self.used + nbytes - self.limit
            holders = [holder for budget in self._budgets for holder in budget.holders] if excess > 0 else []
            for holder in holders:
                if excess > 0 and holder.is_left:
                    holder.free("Stopped and freed, because others needed the memory and nobody was watching.")
                    excess = self.used + nbytes - self.limit  # which adds up all runs: only after a change
            for holder in holders:
                if excess > 0 and holder.spare_bytes:
                    holder.give_up()
                    excess = self.used + nbytes - self.limit
            for budget in self._budgets:
                if excess > 0:
                    before = budget.used
                    budget.make_room(excess)
                    excess -= before - budget.used
            return excess <= 0

    def tidy(self) -> None:
        """While more than `ample` bytes are in use, no visitor keeps more than an even part of what training leaves of
        them, or LEAST_PART.

        First and newest snapshots stay, and so does all that a run needs for training.
        """
        if self.ample == math.inf:
            return
        with self._lock:
            left, kept = self.ample - self._passing, {budget: budget.used for budget in self._budgets}
            part = max(LEAST_PART, left / max(1, len(kept))) if sum(kept.values()) > left else math.inf
            for budget, nbytes in kept.items():
                budget.part = part
                if nbytes > part:
                    budget.make_room()


class Budget:
    """The bytes that one visitor's runs and models may take, and the time that the runs have trained.

    It counts models, snapshots, texts, histories, and the state for continuing ended runs. Over the limit, it drops the
    least useful snapshot, but never the first and the newest of a run; then the oldest ended runs lose that state. Runs
    and models that nothing else refers to are not counted. lock: the service's, for use by several threads. seconds: of
    training so far, by which visitors share the training thread. part: a lower limit for runs while memory is scarce.
    """

    def __init__(self, limit: int = BUDGET_BYTES, lock: AbstractContextManager | None = None) -> None:
        self.limit = limit
        self._lock = lock or nullcontext()
        self.seconds, self.part = 0.0, math.inf
        self._holders: weakref.WeakKeyDictionary[Holder, None] = weakref.WeakKeyDictionary()  # oldest first
        self._kept: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    @property
    def holders(self) -> list[Holder]:
        """The counted runs, the oldest first."""
        return list(self._holders)

    def hold(self, holder: Holder) -> None:
        """Start counting a run."""
        with self._lock:
            self._holders[holder] = None

    def forget(self, holder: Holder) -> None:
        """Stop counting a run."""
        with self._lock:
            self._holders.pop(holder, None)

    def keep(self, model: Any, nbytes: int) -> None:
        """Count a model, which only its visitor can remove, and make room for it; RunError if that is not possible."""
        with self._lock:
            runs = list(self._holders)
            ends = [end for run in runs for end in run.snapshots[:1] + run.snapshots[1:][-1:]]
            stays = sum(run.fixed_bytes for run in runs) + sum(snapshot.nbytes for snapshot in ends)
            needed = nbytes + sum(self._kept.values()) + stays
            if needed > self.limit:
                raise RunError(
                    f"With this one your models and runs would take {needed / 2**20:,.0f} MB of memory; "
                    f"{self.limit / 2**20:,.0f} MB is the limit. Remove a model first."
                )
            self._kept[model] = nbytes
            self.make_room()

    @property
    def used(self) -> int:
        """Bytes in use."""
        with self._lock:
            runs = sum(
                holder.spare_bytes + holder.fixed_bytes + nbytes_of(holder.snapshots) for holder in list(self._holders)
            )
            return runs + sum(self._kept.values())

    @property
    def is_exceeded(self) -> bool:
        """Whether more is in use than the limit or the part."""
        return self.used > min(self.limit, self.part)

    def make_room(self, excess: int = 0) -> None:
        """Free what is least useful until the rest is within the limit and the part, or nothing more can be freed.

        excess: free at least these bytes.
        """
        holders, most = list(self._holders), min(self.limit, self.part, self.used - excess)
        while self.used > most:
            found = [(*least, holder) for holder in holders if (least := least_useful(holder.snapshots))]
            spare = next((holder for holder in holders if holder.spare_bytes), None)
            if found:
                _, number, holder = min(found, key=lambda item: item[0])
                holder.snapshots = holder.snapshots[:number] + holder.snapshots[number + 1 :]
            elif spare is not None:
                spare.give_up()
            else:
                return


def nbytes_of(snapshots: Sequence[Snapshot]) -> int:
    """Bytes of the weights of a run's snapshots, all as large: this is asked for all runs of a room twice a second."""
    return len(snapshots) * snapshots[0].nbytes if snapshots else 0


def least_useful(snapshots: Sequence[Snapshot]) -> tuple[float, int] | None:
    """Ratio and index of the snapshot between the two closest neighbours, by the ratio of steps, of those that need not
    stay; None for up to two."""
    steps = [snapshot.step + 1 for snapshot in snapshots]
    ratios = [(after / before, number) for number, (before, after) in enumerate(zip(steps, steps[2:]), 1)]
    return min((each for each in ratios if not snapshots[each[1]].stays), default=None)


def thinned(snapshots: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """At most MAX_SNAPSHOTS of one run, dense at the start."""
    kept = list(snapshots)
    while len(kept) > MAX_SNAPSHOTS and (least := least_useful(kept)):
        del kept[least[1]]
    return tuple(kept)
