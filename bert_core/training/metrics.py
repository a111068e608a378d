"""The numbers of a step: on the device, read in blocks, and what an objective must give a trainer."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

# The K numbers of a batch as sums and as counts, (K,) each on the model's device: each number is its sum divided by its
# count. Several processes add both up. The sums of losses have gradients.
Fractions = tuple[Tensor, Tensor]


class Numbers:
    """A frozen dataclass of numbers that equals another if all fields do; nan equals nan, which `eq=False` leaves to
    this class."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _fields(other) == _fields(self)

    def __hash__(self) -> int:
        return hash(_fields(self))


def _fields(numbers: Any) -> tuple:
    values = (getattr(numbers, field.name) for field in dataclasses.fields(numbers))
    return tuple("nan" if isinstance(value, float) and math.isnan(value) else value for value in values)


@dataclass(frozen=True, eq=False)
class StepMetrics(Numbers):
    """The numbers of one step. Losses are in nats, means over the asked words and over the pairs of the batch.

    step: counted from 1. mlm_accuracy, nsp_accuracy: fraction correct in the batch. grad_norm: before clipping.
    tokens: real tokens of the batch. seconds: training time up to the end of this step. masked_accuracy,
    replaced_accuracy, kept_accuracy: fraction correct of the asked words shown as [MASK], as another word, and
    unchanged (a word replaced by itself counts as kept); nan where the batch has none.
    """

    step: int
    mlm_loss: float
    nsp_loss: float
    mlm_accuracy: float
    nsp_accuracy: float
    learning_rate: float
    grad_norm: float
    tokens: int
    seconds: float
    masked_accuracy: float = math.nan
    replaced_accuracy: float = math.nan
    kept_accuracy: float = math.nan

    # The names of the losses, and of all numbers that the objective measures, in their order.
    losses: ClassVar = ("mlm_loss", "nsp_loss")
    measured: ClassVar = (
        *losses,
        "mlm_accuracy",
        "nsp_accuracy",
        "masked_accuracy",
        "replaced_accuracy",
        "kept_accuracy",
    )


@dataclass(frozen=True)
class PendingMetrics:
    """A step's metrics with the measured numbers and the gradient's norm still on the device, (K + 1,). `read_metrics`
    fetches those of many steps at once."""

    step: int
    learning_rate: float
    tokens: int
    seconds: float
    values: Tensor
    kind: Any = StepMetrics


def read_metrics(block: Sequence[PendingMetrics]) -> list[Any]:
    """Fetch a block of metrics from the device in one transfer."""
    if not block:
        return []
    facts = ("step", "learning_rate", "tokens", "seconds")
    rows = torch.stack([pending.values for pending in block]).tolist()
    return [
        pending.kind(
            **{name: getattr(pending, name) for name in facts},
            **dict(zip((*pending.kind.measured, "grad_norm"), row)),
        )
        for pending, row in zip(block, rows)
    ]


def until_divergence(rows: Sequence[Any]) -> tuple[list[Any], str]:
    """The rows before the first one whose loss or gradient is not finite, and a message about that one, or ""."""
    for i, row in enumerate(rows):
        if not math.isfinite(sum(getattr(row, name) for name in row.losses) + row.grad_norm):
            return list(rows[:i]), (
                f"The loss stopped being a number at step {row.step} (learning rate {row.learning_rate:.3g}); "
                "the last model before it is kept. Start again with a lower learning rate."
            )
    return list(rows), ""


@runtime_checkable
class Objective(Protocol):
    """What a trainer minimises. The types of batch and config are the objective's own; a batch has attention_mask.

    metrics: the class of a step's numbers, with `losses` and `measured` as `StepMetrics` has them.
    """

    metrics: ClassVar[Any]

    def send(self, batch: Any, device: torch.device, /) -> Any:
        """The batch on a device."""

    def size(self, batch: Any, /) -> tuple[Tensor, int]:
        """The number of tokens of each row, and the number of asked positions; see `batch_operations`."""

    def optimizers(self, config: Any, /) -> int:
        """The number of optimizers, which alternate from step to step."""

    def measure(self, model: Any, batch: Any, /) -> Fractions:
        """The numbers of a batch on the device, as `metrics.measured` names them."""

    def loss(self, numbers: Tensor, config: Any, step: int, /) -> Tensor:
        """The loss to minimise, (), from the numbers (K,) of a step, counted from 0."""
