"""The pre-training objective: the losses of masked words and next sentence, and the accuracies.

Shapes: B pairs, M asked positions, V vocabulary.
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
class Pretraining:
    """The `Objective` of pre-training. Its numbers are means over the asked words and over the pairs of a batch.

    mask_token_id: the id of [MASK]; without it, masked_accuracy and replaced_accuracy are nan. These and kept_accuracy:
    fraction correct of the asked words shown as [MASK], as another word, and unchanged (a word replaced by itself
    counts as kept); nan where the batch has none.
    """

    names: ClassVar[tuple[str, ...]] = (*HELD_OUT, *DETAILS)
    mask_token_id: int | None = None

    def size(self, batch: Batch) -> tuple[Tensor, int]:
        return batch.attention_mask.sum(1), len(batch.asked()[0])

    def run(self, model: BertForPreTraining, batch: Batch, device: torch.device) -> Fractions:
        asked, labels = batch.asked()  # counted on the CPU, which need not wait for the device
        packing = Packing.of(batch.attention_mask, device)
        asked, labels, ids, segments, is_not_next = (
            each.to(device)
            for each in (asked, labels, batch.input_ids, batch.token_type_ids, batch.next_sentence_label)
        )
        mask = None if packing.real is None else batch.attention_mask.to(device)
        output = model(ids, mask, segments, asked_positions=asked, packing=packing)
        # One copy in float32 where autocast would make it for the loss only: the search below is slow in bfloat16.
        words, pairs = output.prediction_logits.float(), output.seq_relationship_logits.float()  # (M, V), (B, 2)
        shown, is_known = ids.flatten()[asked], self.mask_token_id is not None
        kept, masked = shown == labels, torch.eq(shown, -1 if self.mask_token_id is None else self.mask_token_id)
        kinds = torch.stack([torch.ones_like(kept), masked, ~(kept | masked) & is_known, kept]).float()  # (4, M)
        right = kinds @ (words.detach().argmax(1) == labels).float()
        pairs_right = (pairs.detach().argmax(1) == is_not_next).sum()
        mlm_loss = F.cross_entropy(words, labels, reduction="sum")
        nsp_loss = F.cross_entropy(pairs, is_not_next, reduction="sum")
        of_words, of_pairs = kinds.sum(1), kinds.new_full((), len(pairs))
        sums = torch.stack([mlm_loss, nsp_loss, right[0], pairs_right, *right[1:]])
        return sums, torch.stack([of_words[0], of_pairs, of_words[0], of_pairs, *of_words[1:]])

    def loss(self, numbers: Tensor, config: TrainingConfig, step: int) -> Tensor:
        """The weighted sum of both losses or, if they alternate, the MLM loss in even and the NSP loss in odd steps."""
        mlm_loss, nsp_loss = config.mlm_weight * numbers[0], config.nsp_weight * numbers[1]
        if config.alternating:
            return nsp_loss if step % 2 else mlm_loss
        return mlm_loss + nsp_loss
