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

from bert_core.data.batches import IGNORED, Batch
from bert_core.training.losses import PlacedBatch
from bert_core.training.trainer import Trainer

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


def filled_up(batch: Batch, longest: int) -> tuple[_Layout, Tensor]:
    """A batch with padding, up to `longest` tokens, and with places of which nothing is asked, so that few shapes
    occur: layout and numbers."""
    B, T = batch.input_ids.shape
    T = min(T + -T % _TOKENS, longest)
    batch = batch.at_length(T)
    asked, truth = batch.asked()
    spare = (0, -len(asked) % _ASKED)
    asked, truth = F.pad(asked, spare), F.pad(truth, spare, value=IGNORED)
    parts = batch.input_ids, batch.token_type_ids, batch.attention_mask, batch.next_sentence_label, asked, truth
    return _Layout(B, T, len(asked)), torch.cat([part.flatten() for part in parts])


@functools.cache
def _pool() -> Any:
    # One for the graphs of all trainers: these take turns, and nothing in it is needed from one step to the next.
    return torch.cuda.graph_pool_handle()


def cuda_graph(work: Work) -> Work:
    """Record what `work` does on the GPU, without doing it; the answer does it."""
    graph = torch.cuda.CUDAGraph()
    # The first of these puts the stream back even where recording fails. Other threads use the GPU meanwhile; only
    # this one must keep from what cannot be recorded.
    with (
        torch.cuda.stream(torch.cuda.current_stream()),
        torch.cuda.graph(graph, pool=_pool(), capture_error_mode="thread_local"),
    ):
        values = work()

    def repeat() -> Tensor:
        graph.replay()
        return values.clone()

    return repeat


class CapturedTrainer(Trainer):
    """A `Trainer` whose steps are recorded: the first step of each shape is done as it is, which also lets the
    libraries set themselves up for it, the second is recorded, and from then on it is repeated.

    record: as `cuda_graph`. Where the GPU's software refuses to record, steps are done as they are. `config` may be
    exchanged for one with another schedule; what else it says is recorded. Not for alternating objectives, nor for
    Adadelta, which takes its learning rate as a plain number.
    """

    def __init__(self, *args: Any, record: Callable[[Work], Work] = cuda_graph, **options: Any) -> None:
        super().__init__(*args, **options)
        self._rate = torch.zeros((), device=self.flat.weights.device)
        self._record: Callable[[Work], Work] | None = record
        self._reads: dict[_Layout, Tensor] = {}  # for each shape the numbers that its steps read
        self.recorded: dict[_Layout, Work] = {}

    def _take_step(self, batch: Batch | PlacedBatch, learning_rate: float | Tensor) -> Tensor:
        layout, numbers = filled_up(batch, self.model.config.max_position_embeddings)
        is_new = layout not in self._reads
        if is_new:
            self._reads[layout] = torch.zeros(layout.numbers, dtype=numbers.dtype, device=self._rate.device)
        read = self._reads[layout]
        read.copy_(numbers.pin_memory() if read.is_cuda else numbers, non_blocking=True)
        self._rate.fill_(learning_rate)
        if layout in self.recorded:
            return self.recorded[layout]()
        step = functools.partial(super()._take_step, layout.view(read), self._rate)
        if is_new or not self._record:
            return step()
        try:
            self.recorded[layout] = self._record(step)
        except RuntimeError as error:
            _log.warning("Training steps cannot be recorded here (%s); they are done one by one.", error)
            self._record = None
            return step()
        return self.recorded[layout]()
