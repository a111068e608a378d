"""Steps of a small model on a GPU, recorded as CUDA graphs: all kernels of a step are started with one call.

A small model's step is some hundred kernels of a few microseconds each, less than it takes to start them one by one. A
graph repeats what was recorded with the same shapes at the same places in memory, so a batch is filled up to one of a
few shapes, and each shape has a graph of its own.
"""

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_core.losses import PlacedBatch
from bert_core.packing import send
from bert_core.pretraining_data import IGNORED, Batch
from bert_core.training import Trainer

_log = logging.getLogger(__name__)
_TOKENS, _ASKED = 16, 64  # lengths of rows and lists of asked words are rounded up to multiples of these

Work = Callable[[], Tensor]


@dataclass(frozen=True)
class _Layout:
    """Where the parts of a batch of one shape lie in one tensor of numbers, so that they travel in one copy.

    B pairs of T tokens, N asked words.
    """

    B: int
    T: int
    N: int

    @property
    def numbers(self) -> int:
        return 3 * self.B * self.T + self.B + 2 * self.N

    def view(self, numbers: Tensor) -> PlacedBatch:
        """A batch whose parts are views of (numbers,)."""
        B, T, N = self.B, self.T, self.N
        *matrices, pairs, asked, truth = numbers.split([B * T] * 3 + [B, N, N])
        ids, segments, mask = (matrix.view(B, T) for matrix in matrices)
        return PlacedBatch(ids, segments, mask, pairs, asked, truth)


def filled_up(batch: Batch) -> tuple[_Layout, Tensor]:
    """A batch with padding and with places of which nothing is asked, so that few shapes occur: layout and numbers."""
    B, T = batch.input_ids.shape
    more = -T % _TOKENS
    ids, segments, mask = (
        F.pad(matrix, (0, more)) for matrix in (batch.input_ids, batch.token_type_ids, batch.attention_mask)
    )
    labels = F.pad(batch.labels, (0, more), value=IGNORED).flatten()
    asked = labels.ne(IGNORED).nonzero().squeeze(1)
    spare = -len(asked) % _ASKED
    parts = (
        *(ids, segments, mask, batch.next_sentence_label),
        *(F.pad(asked, (0, spare)), F.pad(labels[asked], (0, spare), value=IGNORED)),
    )
    return _Layout(B, T + more, len(asked) + spare), torch.cat([part.flatten() for part in parts])


def cuda_graph(work: Work, pool: Any) -> Work:
    """Record what `work` does on the GPU, without doing it; the answer does it. Graphs of one pool share memory."""
    graph = torch.cuda.CUDAGraph()
    # Other threads use the GPU meanwhile; only this one must keep from what cannot be recorded.
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        values = work()

    def repeat() -> Tensor:
        graph.replay()
        return values.clone()

    return repeat


class CapturedTrainer(Trainer):
    """A `Trainer` whose steps are recorded: the first step of each shape is done as it is, which also lets the
    libraries set themselves up for it, the second is recorded, and from then on it is repeated.

    record: as `cuda_graph`. Where the GPU's software refuses to record, steps are done as they are. Not for training in
    turns, nor for Adadelta, which takes its learning rate as a plain number.
    """

    def __init__(self, *args: Any, record: Callable[[Work, Any], Work] = cuda_graph, **options: Any) -> None:
        super().__init__(*args, **options)
        device = self.flat.weights.device
        self._rate = torch.zeros((), device=device)
        self._record: Callable[[Work, Any], Work] | None = record
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        self._steps: dict[_Layout, tuple[Tensor, Work]] = {}  # the numbers that a step reads, and the step
        self._recorded: set[_Layout] = set()

    def _take_step(self, batch: Batch | PlacedBatch, learning_rate: float | Tensor) -> Tensor:
        layout, numbers = filled_up(batch)
        is_new = layout not in self._steps
        if is_new:
            read = torch.zeros(layout.numbers, dtype=numbers.dtype, device=self._rate.device)
            self._steps[layout] = read, functools.partial(super()._take_step, layout.view(read), self._rate)
        read, step = self._steps[layout]
        read.copy_(send(numbers, read.device))
        self._rate.fill_(learning_rate)
        if not is_new and self._record and layout not in self._recorded:
            try:
                step = self._record(step, self._pool)
            except RuntimeError as error:
                _log.warning("Training steps cannot be recorded here (%s); they are done one by one.", error)
                self._record = None
            else:
                self._steps[layout] = read, step
                self._recorded.add(layout)
        return step()
