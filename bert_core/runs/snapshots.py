"""Weights of a run as they were after a step, and how much of all that a visitor may keep."""

import copy
import functools
import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from bert_core.config import BertConfig
from bert_core.errors import RunError
from bert_core.model import BertForPreTraining
from bert_core.storage.checkpoint import Checkpoint
from bert_core.training.optimizer import Layout, fill_from_flat

MAX_SNAPSHOTS = 40  # of one run
BUDGET_BYTES = 2**30


@dataclass(frozen=True)
class Snapshot:
    """A run's weights after a step, as one flat tensor that nobody changes."""

    step: int
    weights: Tensor
    layout: Layout
    config: BertConfig
    tokenizer: Tokenizer
    name: str
    recipe: Mapping[str, Any]

    def checkpoint(self) -> Checkpoint:
        """A model in eval mode over these weights; each call builds one, the weights are not copied."""
        model = _twin(_skeleton(self.config))
        fill_from_flat(model, self.layout, self.weights)
        return Checkpoint(model, self.tokenizer, self.name, recipe=self.recipe)


@functools.lru_cache(maxsize=8)
def _skeleton(config: BertConfig) -> BertForPreTraining:
    """A model in eval mode without numbers. To build one takes longer than to fill it."""
    with torch.device("meta"):
        return BertForPreTraining(config).eval()


def _twin(module: nn.Module) -> nn.Module:
    """The same modules, whose parameters can be exchanged without touching the other's."""
    twin = copy.copy(module)
    twin._parameters = dict(module._parameters)
    twin._modules = {name: _twin(child) for name, child in module._modules.items()}
    return twin


class Holder(Protocol):
    """A run, as a budget sees it. fixed_bytes: what it keeps as long as it is there. spare_bytes: what it keeps only to
    be continued some day; `give_up` frees that."""

    snapshots: tuple[Snapshot, ...]

    @property
    def fixed_bytes(self) -> int: ...

    @property
    def spare_bytes(self) -> int: ...

    def give_up(self) -> None: ...


class Budget:
    """What one visitor's runs and models share: the bytes that they may keep, and time in the training thread.

    Bytes are those of models and snapshots, of texts and the numbers of all steps, and of what ended runs need to be
    continued. When there are more, the snapshot goes that is missed least among all those runs; the first and the
    newest of a run stay. When no other is left, the oldest ended run can't be continued any more. What nobody else
    holds counts no more. lock: a service gives its own, so that several threads may use it. seconds: of the training
    thread so far; the visitor who had the least is next.
    """

    def __init__(self, limit: int = BUDGET_BYTES, lock: AbstractContextManager | None = None) -> None:
        self.limit = limit
        self._lock = lock or nullcontext()
        self.seconds = 0.0
        self._holders: weakref.WeakKeyDictionary[Holder, None] = weakref.WeakKeyDictionary()  # oldest first
        self._kept: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def hold(self, holder: Holder) -> None:
        """Count a run from now on."""
        with self._lock:
            self._holders[holder] = None

    def forget(self, holder: Holder) -> None:
        """Count a run no more."""
        with self._lock:
            self._holders.pop(holder, None)

    def keep(self, model: Any, nbytes: int) -> None:
        """Count a model that only its visitor gives up; what runs can spare makes room for it.

        Raises RunError, and lets nothing go, where even that is not enough.
        """
        with self._lock:
            runs = list(self._holders)
            ends = [end for run in runs for end in run.snapshots[:1] + run.snapshots[1:][-1:]]
            stays = sum(run.fixed_bytes for run in runs) + sum(snapshot.weights.nbytes for snapshot in ends)
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
        """Bytes that are kept now."""
        with self._lock:
            runs = sum(
                holder.spare_bytes + holder.fixed_bytes + sum(snapshot.weights.nbytes for snapshot in holder.snapshots)
                for holder in list(self._holders)
            )
            return runs + sum(self._kept.values())

    def make_room(self) -> None:
        """Drop what is missed least until the rest is within the limit, or nothing more can go."""
        holders = list(self._holders)
        while self.used > self.limit:
            found = [(*missed, holder) for holder in holders if (missed := least_missed(holder.snapshots))]
            spare = next((holder for holder in holders if holder.spare_bytes), None)
            if found:
                _, number, holder = min(found, key=lambda item: item[0])
                holder.snapshots = holder.snapshots[:number] + holder.snapshots[number + 1 :]
            elif spare is not None:
                spare.give_up()
            else:
                return


def least_missed(snapshots: Sequence[Snapshot]) -> tuple[float, int] | None:
    """The snapshot whose neighbours are closest in ratio, as that ratio and its number; None if all must stay."""
    steps = [snapshot.step + 1 for snapshot in snapshots]
    ratios = [(after / before, number) for number, (before, after) in enumerate(zip(steps, steps[2:]), 1)]
    return min(ratios, default=None)


def thinned(snapshots: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """At most MAX_SNAPSHOTS of one run, dense at the start."""
    kept = list(snapshots)
    while len(kept) > MAX_SNAPSHOTS:
        del kept[least_missed(kept)[1]]
    return tuple(kept)
