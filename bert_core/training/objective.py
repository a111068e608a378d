"""What a trainer minimises, the losses and accuracies of pre-training, and the row of numbers that each step gives.

Shapes: B pairs, M asked positions, V vocabulary, K numbers of an objective."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_core.config import TrainingConfig
from bert_core.data.batches import Batch
from bert_core.device import Cost, using_threads
from bert_core.model import BertForPreTraining, Packing

# The K numbers of a batch as sums and as counts, (K,) each on the model's device: each number is its sum divided by its
# count. Several processes add both up. The sums of losses have gradients.
Fractions = tuple[Tensor, Tensor]

# The numbers of every step, beside those that the objective names: seconds is the training time up to its end, tokens
# counts the real tokens of its batch, and grad_norm is before clipping.
OF_EVERY_STEP = ("learning_rate", "grad_norm", "tokens", "seconds")
DETAILS = ("masked_accuracy", "replaced_accuracy", "kept_accuracy")
HELD_OUT = ("mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy")  # what is measured on held-out text, too


class StepRow(SimpleNamespace):
    """The numbers of a training step, or of held-out data after it, by name: `row.step`, counted from 1, comes first.

    Losses are means in nats; accuracies are fractions. Numbers of a step that were computed on a GPU are still there,
    as tensors (), until `read_rows` or float() waits for them."""

    @property
    def losses(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if name.endswith("loss")}

    @property
    def measures(self) -> dict[str, float]:
        """Of held-out examples, all numbers that are neither a loss, the step nor the epoch."""
        return {name: value for name, value in vars(self).items() if name not in ("step", "epoch", *self.losses)}


def read_rows(rows: Sequence[StepRow]) -> list[StepRow]:
    """The rows with Python's numbers, fetched from the device in one transfer."""
    waiting = [value for row in rows for value in vars(row).values() if torch.is_tensor(value)]
    found = iter(torch.stack(waiting).tolist() if waiting else ())
    return [
        StepRow(**{name: next(found) if torch.is_tensor(value) else value for name, value in vars(row).items()})
        for row in rows
    ]


def until_divergence(rows: list[StepRow]) -> tuple[list[StepRow], str]:
    """The rows before the first one whose gradient, and so its loss, is not finite, and a message about it, or ""."""
    for i, row in enumerate(rows):
        if not math.isfinite(row.grad_norm):
            return rows[:i], (
                f"The loss stopped being a number at step {row.step} (learning rate {row.learning_rate:.3g}); "
                "the last model before it is kept. Start again with a lower learning rate."
            )
    return rows, ""


class Objective(Protocol):
    """What a trainer minimises. The types of batch and config are its own; a batch has attention_mask.

    names: of the K numbers of a step, the losses first. size: the tokens of each row, (B,), and how many positions are
    asked. run: the numbers of a model on a batch. loss: to minimise, (), from the numbers (K,) of a step, from 0 on."""

    @property
    def names(self) -> tuple[str, ...]: ...
    def size(self, batch: Any, /) -> tuple[Tensor, int]: ...
    def run(self, model: Any, batch: Any, device: torch.device, /) -> Fractions: ...
    def loss(self, numbers: Tensor, config: Any, step: int, /) -> Tensor: ...


@dataclass(frozen=True)
class Pretraining:
    """The `Objective` of pre-training. Its numbers are means over the asked words and over the pairs of a batch.

    mask_token_id: the id of [MASK]; without it, masked_accuracy and replaced_accuracy are nan. These and kept_accuracy:
    fraction correct of the asked words shown as [MASK], as another word, and unchanged (a word replaced by itself
    counts as kept); nan where the batch has none."""

    names: ClassVar[tuple[str, ...]] = (*HELD_OUT, *DETAILS)
    mask_token_id: int | None = None

    def size(self, batch: Batch) -> tuple[Tensor, int]:
        return batch.attention_mask.sum(1), len(batch.asked()[0])

    def run(self, model: BertForPreTraining, batch: Batch, device: torch.device) -> Fractions:
        asked, labels = batch.asked()  # counted on the CPU, which need not wait for the device
        packing = Packing.of(batch.attention_mask, device)
        asked, labels, ids, segments, pair_labels = (
            each.to(device)
            for each in (asked, labels, batch.input_ids, batch.token_type_ids, batch.next_sentence_label)
        )
        mask = None if packing.real is None else batch.attention_mask.to(device)
        output = model(ids, mask, segments, asked_positions=asked, packing=packing)
        # float32 once: autocast would copy for the loss only, and argmax is slow in bfloat16.
        words, pairs = output.prediction_logits.float(), output.seq_relationship_logits.float()  # (M, V), (B, 2)
        shown, is_known = ids.flatten()[asked], self.mask_token_id is not None
        kept, masked = shown == labels, torch.eq(shown, -1 if self.mask_token_id is None else self.mask_token_id)
        kinds = torch.stack([torch.ones_like(kept), masked, ~(kept | masked) & is_known, kept]).float()  # (4, M)
        right = kinds @ (words.detach().argmax(1) == labels).float()
        pairs_right = (pairs.detach().argmax(1) == pair_labels).sum()
        mlm_loss = F.cross_entropy(words, labels, reduction="sum")
        nsp_loss = F.cross_entropy(pairs, pair_labels, reduction="sum")
        of_words, of_pairs = kinds.sum(1), (pair_labels >= 0).sum()
        # In the order of `names`: losses, accuracies, details.
        sums = torch.stack([mlm_loss, nsp_loss, right[0], pairs_right, *right[1:]])
        return sums, torch.stack([of_words[0], of_pairs, of_words[0], of_pairs, *of_words[1:]])

    def loss(self, numbers: Tensor, config: TrainingConfig, step: int) -> Tensor:
        """The weighted sum of both losses or, if they alternate, the MLM loss in even and the NSP loss in odd steps."""
        mlm_loss, nsp_loss = config.mlm_weight * numbers[0], config.nsp_weight * numbers[1]
        if config.alternating:
            return nsp_loss if step % 2 else mlm_loss
        return mlm_loss + nsp_loss


def evaluate(
    model: BertForPreTraining, batches: Iterable[Batch], step: int = 0, mask_token_id: int | None = None
) -> Iterator[StepRow | None]:
    """Evaluate a model in eval mode, as it is after `step`: yields None after each batch, and at the end the row of
    numbers, each a sum over all batches divided by a count. mask_token_id: for the DETAILS, see `Pretraining`.

    `*_, row = evaluate(model, batches)` takes the row."""
    objective, total = Pretraining(mask_token_id), torch.zeros((), device=model.device)
    for batch in batches:
        cost = Cost(model.config, *objective.size(batch), str(model.device), is_step=False)
        with torch.no_grad(), using_threads(cost.threads):
            total = total + torch.stack(objective.run(model, batch, model.device))  # (2, K)
        yield None
    sums, counts = total.cpu().double()
    names = HELD_OUT if mask_token_id is None else objective.names
    yield StepRow(step=step, **dict(zip(names, (sums / counts).tolist())))
