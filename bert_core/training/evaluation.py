"""Evaluation on held-out text, which the model is not trained on."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from bert_core.costs import probe_operations, threads_for, using_threads
from bert_core.data.batches import Batch, PretrainingBatches
from bert_core.model import BertForPreTraining
from bert_core.training.losses import DeviceBatch, Pretraining

MAX_BATCHES = 8  # of one evaluation
_PASSES = 4  # over a short text, each with other words masked
TIME_FRACTION = 0.1  # of the training time


@dataclass(frozen=True)
class EvaluationPoint:
    """Losses in nats and accuracies on held-out text after a step, without dropout; means over batches."""

    step: int
    mlm_loss: float
    nsp_loss: float
    mlm_accuracy: float
    nsp_accuracy: float


@torch.no_grad()
def evaluate(model: BertForPreTraining, batches: PretrainingBatches, count: int, step: int) -> EvaluationPoint:
    """Evaluate a model, as it is after `step`, on the first `count` batches of a held-out text."""
    was_training = model.training
    model.eval()
    means = torch.stack([_evaluate_batch(model, batches[k]) for k in range(count)]).mean(0)
    model.train(was_training)
    return EvaluationPoint(step, *means.tolist())


def _evaluate_batch(model: BertForPreTraining, batch: Batch) -> Tensor:
    """Both losses and both accuracies in the order of `EvaluationPoint`, (4,), on the model's device."""
    with using_threads(threads_for(probe_operations(model.config, batch.input_ids.numel()))):
        sums, counts = Pretraining().measure(model, DeviceBatch.of(batch, model.device))
    return (sums / counts)[:4]


class Evaluator:
    """Evaluates snapshots on the same batches of held-out text, one batch at a time.

    batches: of the held-out text. points: the results so far, oldest first; a resumed run has some already.
    latest_step: of the last evaluation that has begun, -1 before the first. Training goes on during an evaluation, so
    each one needs a copy of the weights: a snapshot. every, best_step, best: only fine-tuning's evaluators have them.
    """

    every: ClassVar[int | None] = None
    best_step: ClassVar[int | None] = None
    best: Any = None

    def __init__(self, batches: PretrainingBatches, points: Sequence[EvaluationPoint] = ()) -> None:
        count = max(1, min(MAX_BATCHES, round(_PASSES * batches.steps_per_epoch)))
        self._batches: Sequence[Batch] = [batches[k] for k in range(count)]
        self._left: list[Batch] = []
        self._sums: list[Tensor] = []
        self._model: BertForPreTraining | None = None
        self.latest_step = points[-1].step if points else -1
        self._seconds = 0.0
        self.points = list(points)

    @property
    def is_running(self) -> bool:
        """Whether an evaluation has begun and has not ended."""
        return self._model is not None

    def may_begin(self, step: int, training_seconds: float) -> bool:
        """Whether to evaluate this step now: none is running, and all took at most a tenth of the training time."""
        is_new = not self.is_running and step > self.latest_step
        return is_new and self._seconds <= TIME_FRACTION * training_seconds

    def begin(self, snapshot: Any) -> None:
        """Begin to evaluate a snapshot; drops an unfinished evaluation."""
        self.latest_step, self._model = snapshot.step, snapshot.checkpoint().model
        self._left, self._sums = list(self._batches), []

    @torch.no_grad()
    def advance(self) -> None:
        """Evaluate one batch, if an evaluation is running."""
        if self._model is None:
            return
        started = time.monotonic()
        self._sums.append(_evaluate_batch(self._model, self._left.pop()))
        if not self._left:
            means = torch.stack(self._sums).mean(0).tolist()  # one transfer from the device
            self.points.append(EvaluationPoint(self.latest_step, *means))
            self._model, self._sums = None, []
        self._seconds += time.monotonic() - started
