"""What a training goes down: the losses of masked words and of next sentence, and which words were guessed.

Shapes: B pairs, T tokens, N asked words, V vocabulary.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_core.config import TrainingConfig
from bert_core.data.batches import IGNORED, Batch
from bert_core.model import BertForPreTraining
from bert_core.packing import ALL_ROWS, AllRows, Packing, send


@dataclass(frozen=True)
class PlacedBatch:
    """A batch on a model's device, with the list of its asked words.

    input_ids, token_type_ids: (B, T). attention_mask: (B, T), None where nothing is padding. next_sentence_label: (B,).
    asked: (N,) places of the asked words among all B * T. truth: (N,) what stood there, IGNORED where the list was only
    filled up. packing: of the mask; ALL_ROWS leaves the padding in.
    """

    input_ids: Tensor
    token_type_ids: Tensor
    attention_mask: Tensor | None
    next_sentence_label: Tensor
    asked: Tensor
    truth: Tensor
    packing: AllRows = ALL_ROWS

    @classmethod
    def of(cls, batch: Batch, device: torch.device | str = "cpu") -> "PlacedBatch":
        """A batch made ready for a model on a device. All that needs counting is counted before, on the CPU."""
        asked, truth = batch.asked()
        is_padded = not bool(batch.attention_mask.all())
        return cls(
            input_ids=send(batch.input_ids, device),
            token_type_ids=send(batch.token_type_ids, device),
            attention_mask=send(batch.attention_mask, device) if is_padded else None,
            next_sentence_label=send(batch.next_sentence_label, device),
            asked=send(asked, device),
            truth=send(truth, device),
            packing=Packing.of(batch.attention_mask, device) if is_padded else ALL_ROWS,
        )

    @property
    def shown(self) -> Tensor:
        """What the model is shown in place of the asked words, (N,)."""
        return self.input_ids.flatten()[self.asked]


def pretraining_losses(model: BertForPreTraining, batch: PlacedBatch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """mlm_loss, nsp_loss, mlm_accuracy and nsp_accuracy of a batch, as device scalars; the losses can go backward.
    Last, whether each asked word was guessed, (N,) 0.0 or 1.0.

    The masked-word loss is the mean over the asked positions of the whole batch; padding and unasked words have none.
    """
    output = model(
        batch.input_ids,
        batch.attention_mask,
        batch.token_type_ids,
        asked_positions=batch.asked,
        packing=batch.packing,
    )
    words, pairs = output.prediction_logits, output.seq_relationship_logits  # (N, V), (B, 2)
    mlm_loss = F.cross_entropy(words, batch.truth, ignore_index=IGNORED)
    nsp_loss = F.cross_entropy(pairs, batch.next_sentence_label)
    with torch.no_grad():
        right = (words.argmax(1) == batch.truth).float()
        mlm_accuracy = right.sum() / (batch.truth != IGNORED).sum()
        nsp_accuracy = (pairs.argmax(1) == batch.next_sentence_label).float().mean()
    return mlm_loss, nsp_loss, mlm_accuracy, nsp_accuracy, right


def weighted_loss(mlm_loss: Tensor, nsp_loss: Tensor, config: TrainingConfig, turn: int) -> Tensor:
    """What a step goes down: the weighted sum, or with `alternating` one of the two."""
    weighted = (config.mlm_weight * mlm_loss, config.nsp_weight * nsp_loss)
    return weighted[turn] if config.alternating else sum(weighted)


def kinds_asked(shown: Tensor, truth: Tensor, mask_token_id: int | None) -> Tensor:
    """Whether each asked word was masked, replaced or kept: (3, N) of 0.0 and 1.0.

    shown: (N,) what the model is shown in its place. truth: (N,). Without the id of [MASK] only the kept ones are told.
    """
    is_asked, kept = truth != IGNORED, shown == truth
    masked = (shown == (-1 if mask_token_id is None else mask_token_id)) & is_asked
    kinds = torch.stack([masked, is_asked & ~(masked | kept), kept]).float()
    if mask_token_id is None:
        kinds[:2] = 0
    return kinds


def accuracy_by_kind(batch: PlacedBatch, right: Tensor, mask_token_id: int | None) -> Tensor:
    """Share of the masked, the replaced and the kept words that was guessed, (3,), nan where there is none of a kind.

    right: (N,), as `pretraining_losses` tells it.
    """
    kinds = kinds_asked(batch.shown, batch.truth, mask_token_id)
    return kinds @ right / kinds.sum(1)
