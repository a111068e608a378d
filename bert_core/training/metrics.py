"""The numbers of a step: on the device, read in blocks, and what an objective must give a trainer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

# The K numbers of a batch as sums and as counts, (K,) each on the model's device: each number is its sum divided by its
# count. Several processes add both up. The sums of losses have gradients.
Fractions = tuple[Tensor, Tensor]

# The numbers of every step, beside those that the objective names: seconds is the training time up to its end, tokens
# counts the real tokens of its batch, and grad_norm is before clipping.
OF_EVERY_STEP = ("learning_rate", "grad_norm", "tokens", "seconds")


class Numbers:
    """A frozen dataclass with `eq=False` that equals another if all its numbers do; nan equals nan."""

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


@dataclass(frozen=True, eq=False)
class StepMetrics(Numbers):
    """The numbers of a training step, or of held-out data after it. Each is also an attribute, such as `row.mlm_loss`.

    Losses are in nats, means over a batch or over several; accuracies are fractions.
    """

    step: int  # counted from 1
    values: Mapping[str, float]

    def __getattr__(self, name: str) -> float:
        if name.startswith("__") or name not in self.values:
            raise AttributeError(name)
        return self.values[name]

    @property
    def losses(self) -> dict[str, float]:
        return {name: value for name, value in self.values.items() if name.endswith("loss")}

    @property
    def measures(self) -> dict[str, float]:
        """Of held-out examples, all numbers that are neither a loss nor the epoch."""
        return {name: value for name, value in self.values.items() if name != "epoch" and name not in self.losses}


@dataclass(frozen=True)
class PendingMetrics:
    """A step's metrics with the objective's numbers and the gradient's norm still on the device, (K + 1,).

    `read_metrics` fetches those of many steps at once. A number that is asked for by its name, such as
    `metrics.mlm_loss`, is fetched then, for which the device must end the step.
    """

    step: int
    learning_rate: float
    tokens: int
    seconds: float
    numbers: Tensor
    names: Sequence[str]

    def __getattr__(self, name: str) -> float:
        if name.startswith("__") or name not in (*self.names, *OF_EVERY_STEP):
            raise AttributeError(name)
        return read_metrics([self])[0].values[name]

    def __repr__(self) -> str:
        return repr(read_metrics([self])[0])


def read_metrics(block: Sequence[PendingMetrics]) -> list[StepMetrics]:
    """Fetch a block of metrics from the device in one transfer."""
    if not block:
        return []
    rows = []
    for each, (*numbers, grad_norm) in zip(block, torch.stack([each.numbers for each in block]).tolist()):
        of_every = each.learning_rate, grad_norm, each.tokens, each.seconds
        rows.append(StepMetrics(each.step, dict(zip((*each.names, *OF_EVERY_STEP), (*numbers, *of_every)))))
    return rows


def until_divergence(rows: Sequence[StepMetrics]) -> tuple[list[StepMetrics], str]:
    """The rows before the first one whose loss or gradient is not finite, and a message about that one, or ""."""
    for i, row in enumerate(rows):
        if not math.isfinite(sum(row.losses.values()) + row.grad_norm):
            return list(rows[:i]), (
                f"The loss stopped being a number at step {row.step} (learning rate {row.learning_rate:.3g}); "
                "the last model before it is kept. Start again with a lower learning rate."
            )
    return list(rows), ""


@runtime_checkable
class Objective(Protocol):
    """What a trainer minimises. The types of batch and config are the objective's own; a batch has attention_mask.

    names: of the numbers of a step, the losses first.
    """

    names: ClassVar[tuple[str, ...]]

    def size(self, batch: Any, /) -> tuple[Tensor, int]:
        """The number of tokens of each row, and the number of asked positions; see `batch_operations`."""

    def run(self, model: Any, batch: Any, device: torch.device, /) -> Fractions:
        """Run a model on a batch and compare its answers with the labels: the numbers, in the order of `names`."""

    def loss(self, numbers: Tensor, config: Any, step: int, /) -> Tensor:
        """The loss to minimise, (), from the numbers (K,) of a step, counted from 0."""
