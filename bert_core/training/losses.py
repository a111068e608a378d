"""The training objective: the losses of masked words and next sentence, and the accuracies.

Shapes: B pairs, T tokens, M asked positions, V vocabulary.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_core.config import BertConfig, TrainingConfig
from bert_core.costs import batch_operations
from bert_core.data.batches import IGNORED, Batch
from bert_core.model import BertForPreTraining
from bert_core.packing import ALL_ROWS, AllRows, Packing, send
from bert_core.training.metrics import Measures, StepMetrics


class Batches(Protocol):
    """A finite or infinite sequence of batches: `batches[k]` is the batch of step k, counted from 0."""

    def __getitem__(self, k: int, /) -> Batch: ...


@dataclass(frozen=True)
class DeviceBatch:
    """A batch on a model's device, with the list of its asked positions.

    input_ids, token_type_ids: (B, T). attention_mask: (B, T), None if nothing is padding. next_sentence_label: (B,).
    asked: (M,) the asked positions among all B * T. labels: (M,) the true ids there, IGNORED where `asked` is padded.
    packing: of the mask; ALL_ROWS computes padding too.
    """

    input_ids: Tensor
    token_type_ids: Tensor
    attention_mask: Tensor | None
    next_sentence_label: Tensor
    asked: Tensor
    labels: Tensor
    packing: AllRows = ALL_ROWS

    @classmethod
    def of(cls, batch: Batch, device: torch.device | str = "cpu") -> "DeviceBatch":
        """Send a batch to a device. The CPU counts positions before, so that it need not wait for the device."""
        asked, labels = batch.asked()
        is_padded = not bool(batch.attention_mask.all())
        return cls(
            input_ids=send(batch.input_ids, device),
            token_type_ids=send(batch.token_type_ids, device),
            attention_mask=send(batch.attention_mask, device) if is_padded else None,
            next_sentence_label=send(batch.next_sentence_label, device),
            asked=send(asked, device),
            labels=send(labels, device),
            packing=Packing.of(batch.attention_mask, device) if is_padded else ALL_ROWS,
        )

    @property
    def shown(self) -> Tensor:
        """The ids that the model sees at the asked positions, (M,)."""
        return self.input_ids.flatten()[self.asked]


class Losses(NamedTuple):
    """Losses in nats and accuracies of a batch, () each on its device; the losses have gradients.

    mlm_loss: mean over the asked positions of the batch. nsp_loss: mean over the pairs. correct: (M,) 1.0 where the
    likeliest word is the label, else 0.0.
    """

    mlm_loss: Tensor
    nsp_loss: Tensor
    mlm_accuracy: Tensor
    nsp_accuracy: Tensor
    correct: Tensor


def pretraining_losses(model: BertForPreTraining, batch: DeviceBatch) -> Losses:
    """Run the model on a batch and compare its answers with the labels."""
    inputs = batch.input_ids, batch.attention_mask, batch.token_type_ids
    output = model(*inputs, asked_positions=batch.asked, packing=batch.packing)
    # One copy in float32 where autocast would make it for the loss only: the search below is slow in bfloat16.
    words, pairs = output.prediction_logits.float(), output.seq_relationship_logits  # (M, V), (B, 2)
    mlm_loss = F.cross_entropy(words, batch.labels, ignore_index=IGNORED)
    nsp_loss = F.cross_entropy(pairs, batch.next_sentence_label)
    with torch.no_grad():
        correct = (words.argmax(1) == batch.labels).float()
        mlm_accuracy = correct.sum() / (batch.labels != IGNORED).sum()
        nsp_accuracy = (pairs.argmax(1) == batch.next_sentence_label).float().mean()
    return Losses(mlm_loss, nsp_loss, mlm_accuracy, nsp_accuracy, correct)


def objective(mlm_loss: Tensor, nsp_loss: Tensor, config: TrainingConfig, step: int) -> Tensor:
    """The loss that a step minimises: the weighted sum of both or, with `config.alternating`, the MLM loss in
    even steps and the NSP loss in odd ones, counted from 0."""
    mlm_loss, nsp_loss = config.mlm_weight * mlm_loss, config.nsp_weight * nsp_loss
    if config.alternating:
        return nsp_loss if step % 2 else mlm_loss
    return mlm_loss + nsp_loss


@dataclass(frozen=True)
class Pretraining:
    """The `Objective` of pre-training. mask_token_id: the id of [MASK]; without it, masked_accuracy and
    replaced_accuracy are nan."""

    metrics: ClassVar = StepMetrics
    mask_token_id: int | None = None

    def send(self, batch: Batch, device: torch.device) -> DeviceBatch:
        return DeviceBatch.of(batch, device)

    def operations(self, config: BertConfig, batch: Batch) -> float:
        return batch_operations(config, batch.attention_mask.sum(1), len(batch.asked()[0]))

    def rates(self, model: nn.Module, config: TrainingConfig) -> list[None]:
        # With alternating objectives, each objective has an optimizer, with running averages, of its own.
        return [None] * (2 if config.alternating else 1)

    def loss(
        self, model: BertForPreTraining, batch: DeviceBatch, config: TrainingConfig, step: int
    ) -> tuple[Tensor, Measures]:
        losses = pretraining_losses(model, batch)
        loss = objective(losses.mlm_loss, losses.nsp_loss, config, step)
        return loss, measures(losses, batch, self.mask_token_id)


def kinds_asked(shown: Tensor, labels: Tensor, mask_token_id: int | None) -> Tensor:
    """Whether each asked word was masked, replaced or kept: (3, M) of 0.0 and 1.0.

    shown: (M,) the ids that the model sees. labels: (M,). Without the id of [MASK], only kept words are counted.
    """
    is_asked, kept = labels != IGNORED, shown == labels
    masked = (shown == (-1 if mask_token_id is None else mask_token_id)) & is_asked
    kinds = torch.stack([masked, is_asked & ~(masked | kept), kept]).float()
    if mask_token_id is None:
        kinds[:2] = 0
    return kinds


def accuracy_by_kind(batch: DeviceBatch, correct: Tensor, mask_token_id: int | None) -> Tensor:
    """The accuracies for masked, replaced and kept words, (3,); nan where the batch has none. correct: see `Losses`."""
    kinds = kinds_asked(batch.shown, batch.labels, mask_token_id)
    return kinds @ correct / kinds.sum(1)


def measures(losses: Losses, batch: DeviceBatch, mask_token_id: int | None) -> Measures:
    """The numbers that a step reports."""
    *means, correct = losses
    return Measures(*(mean.detach() for mean in means), *accuracy_by_kind(batch, correct, mask_token_id))
