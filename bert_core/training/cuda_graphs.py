"""Steps of a small model on a GPU, recorded as CUDA graphs: one call starts all kernels of a step.

A small model's step is a few hundred kernels of some microseconds each, less than it takes to start them one by one. A
graph replays the recorded kernels, with the same shapes at the same addresses. So each batch is padded to one of a few
shapes, and each shape has its own graph.
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
from bert_core.training.losses import DeviceBatch
from bert_core.training.trainer import Trainer

_log = logging.getLogger(__name__)
_TOKENS, _ASKED = 16, 64  # row lengths and numbers of asked positions are rounded up to multiples of these

Work = Callable[[], Tensor]


@dataclass(frozen=True)
class _Layout:
    """Where the parts of a batch, B pairs of T tokens with M asked positions, lie in one tensor, so that one copy sends
    them to the device."""

    B: int
    T: int
    M: int

    @property
    def numbers(self) -> int:
        return 3 * self.B * self.T + self.B + 2 * self.M

    def view(self, numbers: Tensor) -> DeviceBatch:
        """The batch whose parts are views of a tensor (numbers,)."""
        B, T, M = self.B, self.T, self.M
        *matrices, pairs, asked, labels = numbers.split([B * T] * 3 + [B, M, M])
        ids, segments, mask = (matrix.view(B, T) for matrix in matrices)
        return DeviceBatch(ids, segments, mask, pairs, asked, labels)


def pad_to_layout(batch: Batch, longest: int) -> tuple[_Layout, Tensor]:
    """Pad rows, to `longest` tokens at most, and the list of asked positions, so that few shapes occur; returns the
    layout and the numbers in it."""
    B, T = batch.input_ids.shape
    T = min(T + -T % _TOKENS, longest)
    batch = batch.at_length(T)
    asked, labels = batch.asked()
    spare = (0, -len(asked) % _ASKED)
    asked, labels = F.pad(asked, spare), F.pad(labels, spare, value=IGNORED)
    parts = batch.input_ids, batch.token_type_ids, batch.attention_mask, batch.next_sentence_label, asked, labels
    return _Layout(B, T, len(asked)), torch.cat([part.flatten() for part in parts])


@functools.cache
def _pool() -> Any:
    # All trainers share one pool: their graphs never run at the same time, and no step needs another's leftovers.
    return torch.cuda.graph_pool_handle()


# A failed recording can leave PyTorch's generator as if it still recorded, by version: dropout would fail from then on.
# So the generator gets a new state; the recordings that draw from the old one are replayed no more, and none is made.
_failures: list[str] = []


def cuda_graph(work: Work) -> Work:
    """Record the GPU's part of `work` without running it; returns a function that replays it. After a recording has
    failed in this process, that function runs `work`."""
    if _failures:
        return work
    graph = torch.cuda.CUDAGraph()
    try:
        # The outer context restores the stream even if recording fails. Other threads may use the GPU meanwhile: only
        # this thread is limited to operations that can be recorded.
        with (
            torch.cuda.stream(torch.cuda.current_stream()),
            torch.cuda.graph(graph, pool=_pool(), capture_error_mode="thread_local"),
        ):
            values = work()
    except torch.OutOfMemoryError:  # of one run; the others' recordings are in order
        raise
    except RuntimeError as error:
        _failures.append(str(error))
        _renew_generator()
        raise

    def replay() -> Tensor:
        if _failures:
            return work()
        graph.replay()
        return values.clone()

    return replay


def _renew_generator() -> None:
    """Give the GPU's global generator a new state with the seed of the present one."""
    present = torch.cuda.default_generators[torch.cuda.current_device()]
    new = torch.Generator(present.device).manual_seed(present.initial_seed())
    present.graphsafe_set_state(new.graphsafe_get_state())


class RecordedTrainer(Trainer):
    """A `Trainer` that records its steps. Of each shape, the first step runs unrecorded, which also initialises CUDA's
    libraries; the second is recorded, and the recording is replayed for it and all later ones. A new `config` is
    recorded anew, because its settings are part of the recordings.

    record: as `cuda_graph`; if it fails, steps run unrecorded. Not for alternating objectives, nor for Adadelta, whose
    learning rate is a Python number.
    """

    def __init__(self, *args: Any, record: Callable[[Work], Work] = cuda_graph, **options: Any) -> None:
        super().__init__(*args, **options)
        self._rate = torch.zeros((), device=self.flat.weights.device)
        self._record: Callable[[Work], Work] | None = record
        self._inputs: dict[_Layout, Tensor] = {}  # the numbers that the steps of each shape read
        self.recorded: dict[_Layout, Work] = {}
        self._recorded_config = self.config

    def _take_step(self, batch: Batch, learning_rate: float) -> Tensor:
        if self._recorded_config is not self.config:
            self.recorded, self._recorded_config = {}, self.config
        layout, numbers = pad_to_layout(batch, self.model.config.max_position_embeddings)
        is_new = layout not in self._inputs
        if is_new:
            self._inputs[layout] = torch.zeros(layout.numbers, dtype=numbers.dtype, device=self._rate.device)
        inputs = self._inputs[layout]
        inputs.copy_(numbers.pin_memory() if inputs.is_cuda else numbers, non_blocking=True)
        self._rate.fill_(learning_rate)
        if layout in self.recorded:
            return self.recorded[layout]()
        backward = functools.partial(self._backward_on_device, layout.view(inputs))
        step = functools.partial(self._update, backward, self._rate)
        if is_new or not self._record:
            return step()
        try:
            self.recorded[layout] = self._record(step)
        except RuntimeError as error:
            _log.warning("Training steps cannot be recorded here (%s); they run one by one.", error)
            self._record = None
            return step()
        return self.recorded[layout]()
