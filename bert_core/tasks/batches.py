"""Batches of a task's rows: examples of like length together, so that little of a batch is padding.

Shapes: R rows of a batch, C choices of an example, T tokens, M tagged words, L labels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bert_core.model import Packing
from bert_core.tasks.features import Row
from bert_core.tasks.heads import BertForQuestionAnswering, BertForTask
from bert_core.training.metrics import Fractions

_SORTED_TOGETHER = 50  # batches; within them, examples are sorted by length and the batches shuffled


@dataclass(frozen=True)
class TaskBatch:
    """Rows as int64 tensors, padded to the longest; see `Row`.

    input_ids, token_type_ids, attention_mask: (R, T), for choices (R, C, T). target: (R,) label ids, numbers or indices
    of choices, (R, L) 1.0 for each of several labels, (R, 2) starts and ends, or (M,) tags; None without labels.
    positions: (M,) those of tagged words among all R * T. packing: of the mask.
    """

    input_ids: Tensor
    token_type_ids: Tensor
    attention_mask: Tensor
    target: Tensor | None = None
    positions: Tensor | None = None
    packing: Packing | None = None

    @classmethod
    def of(cls, rows: Sequence[Row], pad_token_id: int, choices: int | None = None) -> "TaskBatch":
        """Pad rows. choices: the number of rows of an example, if it has several."""
        lengths = np.array([len(row.ids) for row in rows])
        t = np.arange(lengths.max())  # (T,)
        mask = t < lengths[:, None]
        ids = np.full(mask.shape, pad_token_id)
        ids[mask] = np.concatenate([row.ids for row in rows])
        segments = mask & (t >= np.array([row.second for row in rows])[:, None])
        targets = [row.target for row in rows[:: choices or 1] if row.target is not None]
        positions = None
        if rows[0].positions is not None:
            starts = (row.positions + i * len(t) for i, row in enumerate(rows) if row.positions is not None)
            positions = torch.from_numpy(np.concatenate(list(starts)))
        target = None
        if targets:
            is_window = rows[0].offsets is not None
            target = torch.from_numpy(np.stack(targets) if is_window else np.concatenate(targets))
            target = target.float() if target.is_floating_point() else target
        shape = (-1, choices, len(t)) if choices else mask.shape
        tensors = [torch.from_numpy(each.astype(np.int64)).view(shape) for each in (ids, segments, mask)]
        return cls(tensors[0], tensors[1], tensors[2], target, positions)

    def to(self, device: torch.device | str) -> "TaskBatch":
        """The batch on a device, with the packing of its mask."""
        mask = self.attention_mask.view(-1, self.attention_mask.shape[-1])
        return TaskBatch(
            self.input_ids.to(device),
            self.token_type_ids.to(device),
            self.attention_mask.to(device),
            None if self.target is None else self.target.to(device),
            None if self.positions is None else self.positions.to(device),
            Packing.of(mask, device),
        )

    def logits(self, model: BertForTask) -> Tensor:
        """The model's logits for a batch on its device: (R, L), (R, C), (R, T, 2) or, for tagged words, (M, L). Padding
        has the logits -inf as a start or an end."""
        is_padded = self.packing is not None and self.packing.real is not None
        mask = self.attention_mask if is_padded else None
        inputs = self.input_ids, mask, self.token_type_ids
        logits = model(*inputs, positions=self.positions, packing=self.packing).float()
        if isinstance(model, BertForQuestionAnswering) and mask is not None:
            return logits.masked_fill(mask[:, :, None] == 0, float("-inf"))
        return logits


def task_numbers(logits: Tensor, target: Tensor) -> Fractions:
    """Compare logits with targets, as the task classes of `transformers` do; see `TaskBatch` and `TaskMetrics`."""
    guesses, examples = logits.detach(), len(target)
    if target.is_floating_point() and target.ndim == 2:
        loss = F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
        right, losses = ((guesses > 0) == (target > 0)).all(1).sum(), target.numel()
    elif target.is_floating_point():
        loss = F.mse_loss(logits.squeeze(1), target, reduction="sum")
        right, losses, examples = torch.zeros_like(loss), examples, 0
    else:
        if target.ndim == 2:  # starts and ends in turn
            logits, target = logits.transpose(1, 2).flatten(0, 1), target.flatten()
        loss = F.cross_entropy(logits, target, reduction="sum")
        right, losses = (logits.detach().argmax(1) == target).sum(), len(target)
        examples = losses
    return torch.stack([loss, right]), logits.new_tensor([losses, examples])


class TaskBatches:
    """An endless sequence of shuffled passes through a task's examples: `batches[k]` is the batch of step k.

    Every pass contains each example once; its last batch may be smaller. The batches are a function of (seed, k). A
    window or a part of a long example counts as an example.
    """

    def __init__(
        self, rows: Sequence[Row], pad_token_id: int, batch_size: int, *, choices: int | None, seed: int
    ) -> None:
        self.rows, self.pad_token_id, self.batch_size, self.choices, self.seed = (
            rows,
            pad_token_id,
            batch_size,
            choices,
            seed,
        )
        each = choices or 1
        self._lengths = np.array([len(row.ids) for row in rows]).reshape(-1, each).max(1)
        self._pass: tuple[int, list[np.ndarray]] = (-1, [])

    @property
    def count(self) -> int:
        """Number of examples, windows or parts in a pass."""
        return len(self._lengths)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of the rows, which are Python objects."""
        return sum(500 + 36 * len(row.ids) for row in self.rows)

    @property
    def longest(self) -> int:
        """Number of tokens of the longest row."""
        return int(self._lengths.max())

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in one pass."""
        return -(-len(self._lengths) // self.batch_size)

    def __getitem__(self, k: int) -> TaskBatch:
        """The batch of step k (0, 1, 2, ...)."""
        number, step = divmod(k, self.steps_per_epoch)
        if number != self._pass[0]:
            self._pass = number, self._shuffled(number)
        return self._batch(self._pass[1][step])

    def _shuffled(self, number: int) -> list[np.ndarray]:
        """The examples of each batch of a pass."""
        rng = np.random.Generator(np.random.Philox(key=self.seed, counter=[0, 0, 0, number]))
        order = rng.permutation(len(self._lengths))
        batches = []
        for start in range(0, len(order), _SORTED_TOGETHER * self.batch_size):
            part = order[start : start + _SORTED_TOGETHER * self.batch_size]
            part = part[np.argsort(self._lengths[part], kind="stable")]
            batches += [part[i : i + self.batch_size] for i in range(0, len(part), self.batch_size)]
        rng.shuffle(batches)
        return batches

    def _batch(self, examples: np.ndarray) -> TaskBatch:
        each = self.choices or 1
        rows = [self.rows[example * each + choice] for example in examples.tolist() for choice in range(each)]
        return TaskBatch.of(rows, self.pad_token_id, self.choices)

    def in_order(self) -> Iterator[tuple[np.ndarray, TaskBatch]]:
        """Every example once, the short ones first: (R,) numbers of a batch's examples, and the batch."""
        order = np.argsort(self._lengths, kind="stable")
        for start in range(0, len(order), self.batch_size):
            part = order[start : start + self.batch_size]
            yield part, self._batch(part)
