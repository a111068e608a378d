"""Pre-training: masked words and next sentence together, as an iterator.

`for metrics in trainer:` is the whole loop. The trainer knows of no thread, page or file: pausing is not asking for
the next step, a single step is asking once, stopping is dropping it.

All parameters live in one flat tensor, so that a snapshot of the weights is one copy. Gradients do not: a step's
gradients are new tensors that autograd hands over as they are, without a pass that clears and a pass that adds.
"""

import contextlib
import ctypes
import dataclasses
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bert_core.config import TrainingConfig
from bert_core.costs import Precision, batch_operations, faster_precision
from bert_core.data.batches import Batch
from bert_core.errors import CheckpointError
from bert_core.model import BertForPreTraining
from bert_core.training.losses import PlacedBatch, accuracy_by_kind, pretraining_losses, weighted_loss
from bert_core.training.optimizer import FlatWeights, Optimizer, learning_rate_at

_TRIM_SECONDS = 30.0  # of training, after which freed memory is given back
_SEED_STRIDE = 0x9E3779B97F4A7C15  # an odd constant spreads neighbouring seeds over all 64-bit numbers


@dataclass(frozen=True)
class StepMetrics:
    """What one step gave. Losses are in nats, means over the asked words and over the pairs of the batch.

    step counts from 1. mlm_accuracy and nsp_accuracy: share right in this batch. grad_norm: before clipping.
    tokens: real tokens of the batch. seconds: training time since the first step began. masked_accuracy,
    replaced_accuracy, kept_accuracy: share right of the asked words that were shown as [MASK], as another word, and as
    they are (a word replaced by itself counts as kept); nan where the batch has none.
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


@dataclass(frozen=True)
class PendingMetrics:
    """A step's metrics while the measured numbers are still on the device; `read_metrics` fetches many at once."""

    step: int
    learning_rate: float
    tokens: int
    seconds: float
    values: Tensor  # (8,) mlm_loss, nsp_loss, mlm_accuracy, nsp_accuracy, grad_norm, and mlm_accuracy by kind


def read_metrics(block: Sequence[PendingMetrics]) -> list[StepMetrics]:
    """Fetch a block of metrics from the device in one transfer."""
    if not block:
        return []
    rows = torch.stack([pending.values for pending in block]).tolist()
    return [
        StepMetrics(pending.step, *row[:4], pending.learning_rate, row[4], pending.tokens, pending.seconds, *row[5:])
        for pending, row in zip(block, rows)
    ]


def until_divergence(rows: Sequence[StepMetrics]) -> tuple[list[StepMetrics], str]:
    """The rows before the first whose loss or gradient is not a number, and a sentence on that one ("" if none is)."""
    for i, row in enumerate(rows):
        if not math.isfinite(row.mlm_loss + row.nsp_loss + row.grad_norm):
            return list(rows[:i]), (
                f"The loss stopped being a number at step {row.step} (learning rate {row.learning_rate:.3g}); "
                "the model of before is kept. Start again with a lower learning rate."
            )
    return list(rows), ""


def give_back_memory() -> None:
    """Let the C library return what is free in its heap to the system, where it has a way to.

    Packed batches need blocks of ever-changing sizes. These leave holes in glibc's heap, which grows by a megabyte or
    two with every step of a middle-sized model, and is given back only when somebody asks for it.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


class Trainer:
    """Trains a model on batches, one step for each `next()`.

    model: changed in place, on the device where it is. batches: `batches[k]` is the batch of step k; all that the
    trainer draws is a function of (seed, k), so that a run gives the same losses bit for bit on the same device and
    number of threads. Dropout draws from PyTorch's global generator: of two trainers with dropout that step at the
    same time in two threads, neither repeats itself. Weights, gradients and losses are float32.
    config.precision is that of the matrix products; for "auto", the trainer's own config says which one was chosen.
    threads: processor threads for a step, set before each one; None leaves PyTorch's number.
    mask_token_id: the id of [MASK], which tells masked words from replaced ones; None counts none of either.
    The iterator ends after config.total_steps steps; `config` may be exchanged between two steps.
    """

    def __init__(
        self,
        model: BertForPreTraining,
        batches: Sequence[Batch],
        config: TrainingConfig,
        *,
        seed: int = 0,
        threads: int | None = None,
        mask_token_id: int | None = None,
    ) -> None:
        self.threads, self.mask_token_id = threads, mask_token_id
        self.model, self.batches, self.config, self.seed = model.train(), batches, config, seed
        self._parameters = list(model.parameters())
        self.step, self.seconds = 0, 0.0
        self._trimmed = 0.0
        self.flat = FlatWeights(model)
        sizes = model.config
        self._device = self.flat.weights.device.type
        if config.precision == "auto":
            self.config = dataclasses.replace(config, precision=self._faster_precision())
        self._has_dropout = any(
            (sizes.hidden_dropout_prob, sizes.attention_probs_dropout_prob, sizes.classifier_dropout)
        )
        # Alternating objectives have an optimizer each, with moments of its own, over the shared weights.
        self.optimizers = [Optimizer(self.flat, config) for _ in range(2 if config.alternating else 1)]

    def __iter__(self) -> Iterator[PendingMetrics]:
        return self

    def __next__(self) -> PendingMetrics:
        if self.step >= self.config.total_steps:
            raise StopIteration
        started = time.perf_counter()
        if self.threads and self.threads != torch.get_num_threads():
            torch.set_num_threads(self.threads)
        learning_rate = learning_rate_at(self.step, self.config)
        batch = self.batches[self.step]
        # Dropout is the one thing that draws from the global generator; seeded here, it depends on nothing before.
        if self._has_dropout:
            torch.manual_seed((self.seed * _SEED_STRIDE + self.step) % 2**63)
        values = self._take_step(batch, learning_rate)
        self.step += 1
        if self.seconds - self._trimmed > _TRIM_SECONDS:
            give_back_memory()
            self._trimmed = self.seconds
        self.seconds += time.perf_counter() - started
        return PendingMetrics(
            step=self.step,
            learning_rate=learning_rate,
            tokens=int(batch.attention_mask.sum()),
            seconds=self.seconds,
            values=values,
        )

    def _take_step(self, batch: Batch | PlacedBatch, learning_rate: float | Tensor) -> Tensor:
        """All that a step does on the device; the values of its `PendingMetrics`, (8,)."""
        turn = self.step % len(self.optimizers)
        for parameter in self._parameters:
            parameter.grad = None
        means, by_kind = self._backward(batch, turn)
        gradients = [parameter.grad for parameter in self._parameters]
        grad_norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm([g for g in gradients if g is not None])))
        scale = (grad_norm / self.config.max_grad_norm).clamp_(min=1.0) if self.config.max_grad_norm else None
        self.optimizers[turn].step(gradients, learning_rate, scale, lost=~torch.isfinite(grad_norm))
        return torch.cat([torch.stack([*means, grad_norm]), by_kind])

    def _backward(self, batch: Batch | PlacedBatch, turn: int) -> tuple[Sequence[Tensor], Tensor]:
        """Leave the gradients of a batch in the parameters; its losses and accuracies, (), and those by kind, (3,)."""
        if isinstance(batch, Batch):
            batch = PlacedBatch.of(batch, self.flat.weights.device)
        with self._autocast():
            mlm_loss, nsp_loss, *accuracies, right = pretraining_losses(self.model, batch)
        weighted_loss(mlm_loss, nsp_loss, self.config, turn).backward()
        return (mlm_loss.detach(), nsp_loss.detach(), *accuracies), accuracy_by_kind(batch, right, self.mask_token_id)

    def _faster_precision(self) -> Precision:
        batch = self.batches[0]  # speaks for all
        lengths, (asked, _) = batch.attention_mask.sum(1), batch.asked()
        return faster_precision(batch_operations(self.model.config, lengths, len(asked)), self._device)

    def _autocast(self) -> contextlib.AbstractContextManager:
        if self.config.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self._device, torch.bfloat16)

    def state(self) -> "TrainerState":
        """A copy of everything but the weights that the next step depends on."""
        averages = {
            f"{number}.{name}": average.clone()
            for number, optimizer in enumerate(self.optimizers)
            for name, average in optimizer.averages.items()
        }
        return TrainerState(self.step, self.seconds, tuple(each.updates for each in self.optimizers), averages)

    def restore(self, state: "TrainerState") -> None:
        """Go on from a state; the weights must be those of its step already. Raises CheckpointError if it does not fit
        the model or the optimizer."""
        wanted = {
            f"{number}.{name}": average
            for number, optimizer in enumerate(self.optimizers)
            for name, average in optimizer.averages.items()
        }
        if (
            len(state.updates) != len(self.optimizers)
            or state.averages.keys() != wanted.keys()
            or any(state.averages[name].shape != average.shape for name, average in wanted.items())
        ):
            raise CheckpointError("The training state does not fit the model's sizes or its optimizer; save again.")
        for name, average in wanted.items():
            average.copy_(state.averages[name])
        for optimizer, updates in zip(self.optimizers, state.updates):
            optimizer.updates = updates
        self.step, self.seconds = state.step, state.seconds

    @property
    def nbytes(self) -> int:
        """Bytes of weights, gradients and the optimizers' averages."""
        return self.flat.weights.nbytes * (2 + sum(len(each.averages) for each in self.optimizers))


@dataclass(frozen=True)
class TrainerState:
    """What the next step depends on besides weights, settings and seed.

    step, seconds: done so far. updates: how often each optimizer has moved the weights. averages: its memory, laid out
    like the flat weights, by the optimizer's number and name ("0.exp_avg").
    """

    step: int
    seconds: float
    updates: tuple[int, ...]
    averages: dict[str, Tensor]
