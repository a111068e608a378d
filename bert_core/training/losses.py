"""The pre-training objective: the losses of masked words and next sentence, and the accuracies.

Shapes: B pairs, T tokens, M asked positions, V vocabulary.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_core.config import TrainingConfig
from bert_core.data.batches import Batch
from bert_core.model import BertForPreTraining, Packing
from bert_core.training.metrics import Fractions

DETAILS = ("masked_accuracy", "replaced_accuracy", "kept_accuracy")
HELD_OUT = ("mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy")  # what is measured on held-out text, too


@dataclass(frozen=True)
class DeviceBatch:
    """A batch on a model's device, with the list of its asked positions."""

    input_ids: Tensor  # (B, T)
    token_type_ids: Tensor  # (B, T)
    attention_mask: Tensor | None  # (B, T), None if nothing is padding
    next_sentence_label: Tensor  # (B,)
    asked: Tensor  # (M,) the asked positions among all B * T
    labels: Tensor  # (M,) the true ids there
    packing: Packing  # of the mask

    @classmethod
    def of(cls, batch: Batch, device: torch.device | str = "cpu") -> "DeviceBatch":
        """Send a batch to a device. The CPU counts positions before, so that it need not wait for the device."""
        asked, labels = batch.asked()
        is_padded = not bool(batch.attention_mask.all())
        return cls(
            input_ids=batch.input_ids.to(device),
            token_type_ids=batch.token_type_ids.to(device),
            attention_mask=batch.attention_mask.to(device) if is_padded else None,
            next_sentence_label=batch.next_sentence_label.to(device),
            asked=asked.to(device),
            labels=labels.to(device),
            packing=Packing.of(batch.attention_mask, device),
        )


@dataclass(frozen=True)
class Pretraining:
    """The `Objective` of pre-training. Its numbers are means over the asked words and over the pairs of a batch.

    mask_token_id: the id of [MASK]; without it, masked_accuracy and replaced_accuracy are nan. These and kept_accuracy:
    fraction correct of the asked words shown as [MASK], as another word, and unchanged (a word replaced by itself
    counts as kept); nan where the batch has none.
    """

    names: ClassVar[tuple[str, ...]] = (*HELD_OUT, *DETAILS)
    mask_token_id: int | None = None

    def send(self, batch: Batch, device: torch.device) -> DeviceBatch:
        return DeviceBatch.of(batch, device)

    def size(self, batch: Batch) -> tuple[Tensor, int]:
        return batch.attention_mask.sum(1), len(batch.asked()[0])

    def measure(self, model: BertForPreTraining, batch: DeviceBatch) -> Fractions:
        """Run the model and compare its answers with the labels; see `names` for the numbers."""
        inputs = batch.input_ids, batch.attention_mask, batch.token_type_ids
        output = model(*inputs, asked_positions=batch.asked, packing=batch.packing)
        # One copy in float32 where autocast would make it for the loss only: the search below is slow in bfloat16.
        words, pairs = output.prediction_logits.float(), output.seq_relationship_logits.float()  # (M, V), (B, 2)
        shown, labels = batch.input_ids.flatten()[batch.asked], batch.labels
        mask, is_known = self.mask_token_id, self.mask_token_id is not None
        kept, masked = shown == labels, torch.eq(shown, -1 if mask is None else mask)
        kinds = torch.stack([torch.ones_like(kept), masked, ~(kept | masked) & is_known, kept]).float()  # (4, M)
        right = kinds @ (words.detach().argmax(1) == labels).float()
        pairs_right = (pairs.detach().argmax(1) == batch.next_sentence_label).sum()
        mlm_loss = F.cross_entropy(words, labels, reduction="sum")
        nsp_loss = F.cross_entropy(pairs, batch.next_sentence_label, reduction="sum")
        of_words, of_pairs = kinds.sum(1), kinds.new_full((), len(pairs))
        sums = torch.stack([mlm_loss, nsp_loss, right[0], pairs_right, *right[1:]])
        return sums, torch.stack([of_words[0], of_pairs, of_words[0], of_pairs, *of_words[1:]])

    def loss(self, numbers: Tensor, config: TrainingConfig, step: int) -> Tensor:
        """The weighted sum of both losses or, if they alternate, the MLM loss in even and the NSP loss in odd steps."""
        mlm_loss, nsp_loss = config.mlm_weight * numbers[0], config.nsp_weight * numbers[1]
        if config.alternating:
            return nsp_loss if step % 2 else mlm_loss
        return mlm_loss + nsp_loss
