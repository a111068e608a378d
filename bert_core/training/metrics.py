"""The numbers of a step: on the device, read in blocks, and what an objective must give a trainer."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from bert_core.config import BertConfig


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


class Measures(NamedTuple):
    """The numbers of a batch, () each, without gradients; see `StepMetrics`."""

    mlm_loss: Tensor
    nsp_loss: Tensor
    mlm_accuracy: Tensor
    nsp_accuracy: Tensor
    masked_accuracy: Tensor
    replaced_accuracy: Tensor
    kept_accuracy: Tensor


class Metrics(Protocol):
    """The numbers of one step of any objective.

    losses: names of the losses. measured: names of the values that the device computes, in their order.
    """

    losses: ClassVar[tuple[str, ...]]
    measured: ClassVar[tuple[str, ...]]

    @property
    def step(self) -> int: ...

    @property
    def learning_rate(self) -> float: ...

    @property
    def grad_norm(self) -> float: ...


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

    losses: ClassVar = ("mlm_loss", "nsp_loss")
    measured: ClassVar = (*Measures._fields, "grad_norm")


@dataclass(frozen=True)
class PendingMetrics:
    """A step's metrics, with the values that `kind.measured` names still on the device. `read_metrics` fetches those of
    many steps at once."""

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
    rows = torch.stack([pending.values for pending in block]).tolist()
    return [
        pending.kind(
            step=pending.step,
            learning_rate=pending.learning_rate,
            tokens=pending.tokens,
            seconds=pending.seconds,
            **dict(zip(pending.kind.measured, row)),
        )
        for pending, row in zip(block, rows)
    ]


M = TypeVar("M", bound=Metrics)


def until_divergence(rows: Sequence[M]) -> tuple[list[M], str]:
    """The rows before the first one whose loss or gradient is not finite, and a message about that one, or ""."""
    for i, row in enumerate(rows):
        if not math.isfinite(sum(getattr(row, name) for name in row.losses) + row.grad_norm):
            return list(rows[:i]), (
                f"The loss stopped being a number at step {row.step} (learning rate {row.learning_rate:.3g}); "
                "the last model before it is kept. Start again with a lower learning rate."
            )
    return list(rows), ""


class Objective(Protocol):
    """What a trainer minimises. The types of batch and config are the objective's own; a batch has attention_mask.

    metrics: the class of a step's numbers.
    """

    metrics: ClassVar[Any]

    def send(self, batch: Any, device: torch.device, /) -> Any:
        """The batch on a device."""

    def operations(self, config: BertConfig, batch: Any, /) -> float:
        """Floating-point operations of a step."""

    def rates(self, model: nn.Module, config: Any, /) -> Sequence[Sequence[float] | None]:
        """For each optimizer, which take turns, the factors of `Optimizer`."""

    def loss(self, model: Any, batch: Any, config: Any, step: int, /) -> tuple[Tensor, Sequence[Tensor]]:
        """The loss of a batch on the device, (), and the numbers to report, () each."""
