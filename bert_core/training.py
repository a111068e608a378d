"""Pre-training: masked words and next sentence together, as an iterator.

`for metrics in trainer:` is the whole loop. The trainer knows of no thread, page or file: pausing is not asking for
the next step, a single step is asking once, stopping is dropping it.

All parameters live in one flat tensor, their gradients in another. So zeroing, clipping, the optimizer's step and a
snapshot of the weights are each one operation instead of one for every matrix.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_core.config import TrainingConfig, TrainingPart
from bert_core.errors import CheckpointError
from bert_core.model import BertForPreTraining
from bert_core.packing import Packing
from bert_core.pretraining_data import IGNORED, Batch

_ALIGNMENT = 16  # float32 numbers; every parameter starts at a multiple of 64 bytes
_AVERAGES = {
    "adamw": ("exp_avg", "exp_avg_sq"),
    "adam": ("exp_avg", "exp_avg_sq"),
    "adadelta": ("square_avg", "acc_delta"),
}
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


Layout = dict[str, tuple[slice, torch.Size]]  # where in a flat tensor each parameter lies, and its shape


class FlatParameters:
    """A model's parameters as views into one tensor, and their gradients as views into another.

    Matrices come first and take weight decay; biases and LayerNorm weights come after and take none.
    """

    def __init__(self, model: nn.Module) -> None:
        named = sorted(model.named_parameters(), key=lambda item: item[1].ndim < 2)
        ends, total = [], 0
        for _, parameter in named:
            total += -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
            ends.append(total)
        first = named[0][1]
        self.weights = torch.zeros(total, dtype=first.dtype, device=first.device)
        self.gradients = torch.zeros_like(self.weights)
        self.layout: Layout = {}
        start = 0
        for (name, parameter), end in zip(named, ends):
            place = slice(start, start + parameter.numel())
            self.layout[name] = (place, parameter.shape)
            self.weights[place].copy_(parameter.detach().flatten())
            parameter.data = self.weights[place].view(parameter.shape)
            parameter.grad = self.gradients[place].view(parameter.shape)
            start = end
        split = max((end for (_, p), end in zip(named, ends) if p.ndim >= 2), default=0)
        self.decayed, self.plain = (nn.Parameter(part) for part in (self.weights[:split], self.weights[split:]))
        self.decayed.grad, self.plain.grad = self.gradients[:split], self.gradients[split:]

    @property
    def numel(self) -> int:
        """Numbers of the model, without the gaps."""
        return sum(place.stop - place.start for place, _ in self.layout.values())

    def groups(self) -> list[tuple[nn.Parameter, slice]]:
        """What an optimizer sees, and where it lies in the flat tensor."""
        split = len(self.decayed)
        return [(self.decayed, slice(0, split)), (self.plain, slice(split, len(self.weights)))]

    def ordered(self, flat: Tensor) -> Tensor:
        """A flat tensor with the parameters in the order of their names and without gaps, (numel,)."""
        return torch.cat([flat[self.layout[name][0]] for name in sorted(self.layout)])

    def laid_out(self, ordered: Tensor) -> Tensor:
        """The reverse of `ordered`, with zeros in the gaps."""
        flat, start = torch.zeros_like(self.weights), 0
        for name in sorted(self.layout):
            place, _ = self.layout[name]
            end = start + place.stop - place.start
            flat[place] = ordered[start:end]
            start = end
        return flat


def fill_from_flat(model: nn.Module, layout: Layout, weights: Tensor) -> None:
    """Make a model hold `weights`, a copy of a flat tensor with this layout, without copying it again."""
    for name, (place, shape) in layout.items():
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, nn.Parameter(weights[place].view(shape), requires_grad=False))


class Trainer:
    """Trains a model on batches, one step for each `next()`.

    model: changed in place, on the device where it is. batches: `batches[k]` is the batch of step k; all that the
    trainer draws is a function of (seed, k), so that a run gives the same losses bit for bit on the same device and
    number of threads. threads: processor threads for a step, set before each one; None leaves PyTorch's number.
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
        self.step, self.seconds = 0, 0.0
        self.flat = FlatParameters(model)
        sizes = model.config
        self._has_dropout = any(
            (sizes.hidden_dropout_prob, sizes.attention_probs_dropout_prob, sizes.classifier_dropout)
        )
        # In turns, each objective has an optimizer, that is a memory, of its own over the shared weights.
        self.optimizers = [_make_optimizer(self.flat, config) for _ in range(2 if config.turns else 1)]

    def __iter__(self) -> Iterator[PendingMetrics]:
        return self

    def __next__(self) -> PendingMetrics:
        if self.step >= self.config.total_steps:
            raise StopIteration
        started = time.perf_counter()
        if self.threads and self.threads != torch.get_num_threads():
            torch.set_num_threads(self.threads)
        learning_rate = learning_rate_at(self.step, self.config)
        turn = self.step % len(self.optimizers)
        optimizer = self.optimizers[turn]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        batch = self.batches[self.step]
        # Dropout is the one thing that draws from the global generator; seeded here, it depends on nothing before.
        if self._has_dropout:
            torch.manual_seed((self.seed * _SEED_STRIDE + self.step) % 2**63)
        self.flat.gradients.zero_()
        mlm_loss, nsp_loss, *accuracies, right = pretraining_losses(self.model, batch)
        weighted = (self.config.mlm_weight * mlm_loss, self.config.nsp_weight * nsp_loss)
        (weighted[turn] if self.config.turns else sum(weighted)).backward()
        grad_norm = self._clip(optimizer)
        optimizer.step()
        self.step += 1
        self.seconds += time.perf_counter() - started
        return PendingMetrics(
            step=self.step,
            learning_rate=learning_rate,
            tokens=int(batch.attention_mask.sum()),
            seconds=self.seconds,
            values=torch.cat(
                [
                    torch.stack([mlm_loss.detach(), nsp_loss.detach(), *accuracies, grad_norm]),
                    accuracy_by_kind(batch, right, self.mask_token_id),
                ]
            ),
        )

    def state(self) -> "TrainerState":
        """A copy of everything but the weights that the next step depends on."""
        updates, averages = [], {}
        for number, optimizer in enumerate(self.optimizers):
            kept = [optimizer.state.get(part, {}) for part in (self.flat.decayed, self.flat.plain)]
            updates.append(int(kept[0].get("step", 0)))
            for name in _AVERAGES[self.config.optimizer] if updates[-1] else ():
                averages[f"{number}.{name}"] = self.flat.ordered(torch.cat([part[name] for part in kept]))
        return TrainerState(self.step, self.seconds, tuple(updates), averages)

    def restore(self, state: "TrainerState") -> None:
        """Go on from a state; the weights must be those of its step already. Raises CheckpointError if it does not fit
        the model or the optimizer."""
        for number, optimizer in enumerate(self.optimizers):
            updates = state.updates[number] if number < len(state.updates) else -1
            names = [f"{number}.{name}" for name in (_AVERAGES[self.config.optimizer] if updates else ())]
            size = self.flat.numel
            if updates < 0 or any(
                name not in state.averages or state.averages[name].shape != (size,) for name in names
            ):
                raise CheckpointError("The training state does not fit the model's sizes or its optimizer; save again.")
            for part, place in self.flat.groups() if updates else ():
                counter = torch.tensor(float(updates), device=part.device if optimizer.defaults.get("fused") else "cpu")
                averages = {name.split(".")[1]: self.flat.laid_out(state.averages[name])[place] for name in names}
                optimizer.state[part] = {"step": counter, **{name: each.clone() for name, each in averages.items()}}
        self.step, self.seconds = state.step, state.seconds

    @property
    def nbytes(self) -> int:
        """Bytes of weights, gradients and the optimizers' averages."""
        return self.flat.weights.nbytes * (2 + len(_AVERAGES[self.config.optimizer]) * len(self.optimizers))

    def _clip(self, optimizer: torch.optim.Optimizer) -> Tensor:
        """Scale the gradient down to max_grad_norm; leave the weights alone if it is not finite. Returns its norm."""
        grad_norm = torch.linalg.vector_norm(self.flat.gradients)
        scale = torch.ones_like(grad_norm)
        if self.config.max_grad_norm:
            scale = (grad_norm / self.config.max_grad_norm).clamp_(min=1.0)
        lost = ~torch.isfinite(grad_norm)
        if optimizer.defaults.get("fused"):
            # A fused optimizer divides by the first and skips its step when the second is 1, without another pass over
            # the gradient and without a wait for the device.
            optimizer.grad_scale, optimizer.found_inf = scale, lost.float()
        else:
            self.flat.gradients.div_(scale).masked_fill_(lost, 0.0)
        return grad_norm


@dataclass(frozen=True)
class TrainerState:
    """What the next step depends on besides weights, settings and seed.

    step, seconds: done so far. updates: how often each optimizer has moved the weights. averages: its memory, float32
    of as many numbers as the model has, by the optimizer's number and name ("0.exp_avg"), parameters by name.
    """

    step: int
    seconds: float
    updates: tuple[int, ...]
    averages: dict[str, Tensor]


def _make_optimizer(flat: FlatParameters, config: TrainingConfig) -> torch.optim.Optimizer:
    groups = [
        {"params": [flat.decayed], "weight_decay": config.weight_decay},
        {"params": [flat.plain], "weight_decay": 0.0},
    ]
    if config.optimizer == "adadelta":
        return torch.optim.Adadelta(groups, lr=config.learning_rate)
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[config.optimizer]
    return kind(groups, lr=config.learning_rate, betas=(config.beta1, config.beta2), fused=True)


def learning_rate_at(step: int, config: TrainingConfig) -> float:
    """The learning rate of a step counted from 0, by the part of the training that the step belongs to."""
    for part in reversed(config.parts):
        if part.start <= step:
            return part.learning_rate * schedule(step - part.start, part)
    return config.learning_rate * schedule(step, config)


def schedule(step: int, config: TrainingConfig | TrainingPart) -> float:
    """Share of the peak learning rate at a step counted from 0: linear warm-up, then linear decay or none.

    The first step already moves (1 / warmup_steps), the last one still does (Devlin et al. 2018, A.2).
    """
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if config.decay == "none":
        return 1.0
    return max(0.0, (config.steps - step) / max(1, config.steps - config.warmup_steps))


def pretraining_losses(model: BertForPreTraining, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """mlm_loss, nsp_loss, mlm_accuracy and nsp_accuracy of a batch, as device scalars; the losses can go backward.
    Last, whether each asked word was guessed, (N,) 0.0 or 1.0.

    The masked-word loss is the mean over the asked positions of the whole batch; padding and unasked words have none.
    """
    device = next(model.parameters()).device
    labels = batch.labels.flatten()
    asked = (labels != IGNORED).nonzero().squeeze(1)  # on the CPU, where the batch was made: no wait for the device
    truth = labels[asked].to(device, non_blocking=True)
    attention_mask = packing = None
    if not bool(batch.attention_mask.all()):
        attention_mask = batch.attention_mask.to(device, non_blocking=True)
        packing = Packing.of(batch.attention_mask, device)
    output = model(
        batch.input_ids.to(device, non_blocking=True),
        attention_mask,
        batch.token_type_ids.to(device, non_blocking=True),
        asked_positions=asked.to(device, non_blocking=True),
        packing=packing,
    )
    words, pairs = output.prediction_logits, output.seq_relationship_logits  # (N, V), (B, 2)
    pair_truth = batch.next_sentence_label.to(device, non_blocking=True)
    mlm_loss, nsp_loss = F.cross_entropy(words, truth), F.cross_entropy(pairs, pair_truth)
    with torch.no_grad():
        right = (words.argmax(1) == truth).float()
        nsp_accuracy = (pairs.argmax(1) == pair_truth).float().mean()
    return mlm_loss, nsp_loss, right.mean(), nsp_accuracy, right


def accuracy_by_kind(batch: Batch, right: Tensor, mask_token_id: int | None) -> Tensor:
    """Shares right of the asked words that were masked, replaced and kept: (3,), nan where there is none.

    right: (N,) on the device. What was asked is known on the CPU, so nobody waits for the device.
    """
    asked = batch.labels != IGNORED
    shown, truth = batch.input_ids[asked], batch.labels[asked]
    masked, kept = shown == (-1 if mask_token_id is None else mask_token_id), shown == truth
    kinds = torch.stack([masked, ~(masked | kept), kept]).float()  # (3, N)
    if mask_token_id is None:
        kinds[:2] = 0
    return (kinds / kinds.sum(1, keepdim=True)).to(right.device, non_blocking=True) @ right


@dataclass(frozen=True)
class Evaluation:
    """Losses in nats and shares right on a text that was not trained on; means over batches."""

    mlm_loss: float
    nsp_loss: float
    mlm_accuracy: float
    nsp_accuracy: float


@torch.no_grad()
def evaluate(model: BertForPreTraining, batches: Sequence[Batch], count: int) -> Evaluation:
    """The model on the first `count` batches of a held-out text, dropout off; the same batches at every call."""
    was_training = model.training
    model.eval()
    sums = sum(torch.stack(pretraining_losses(model, batches[k])[:4]) for k in range(count))
    model.train(was_training)
    return Evaluation(*(sums / count).tolist())
