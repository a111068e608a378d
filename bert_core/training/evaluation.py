"""The held-out curve: a model looked at on text that it does not learn from, a batch at a time.

Also what tells memory from learning: the same questions on text that was learned from and on text that was not.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bert_core.data.batches import Batch, PretrainingBatches
from bert_core.model import BertForPreTraining
from bert_core.training.losses import PlacedBatch, pretraining_losses

MOST_BATCHES = 8  # of one look
_PASSES = 4  # looks at every sentence of a short text, each time with other words hidden
TIME_SHARE = 0.1  # of the training time


@dataclass(frozen=True)
class EvaluationPoint:
    """Losses in nats and shares right on held-out text after a step, dropout off; means over batches."""

    step: int
    mlm_loss: float
    nsp_loss: float
    mlm_accuracy: float
    nsp_accuracy: float


@torch.no_grad()
def evaluate(model: BertForPreTraining, batches: Sequence[Batch], count: int, step: int) -> EvaluationPoint:
    """The model, after a step, on the first `count` batches of a held-out text; the same batches at every call."""
    was_training = model.training
    model.eval()
    sums = sum(_look(model, batches[k]) for k in range(count))
    model.train(was_training)
    return EvaluationPoint(step, *(sums / count).tolist())


def _look(model: BertForPreTraining, batch: Batch) -> Tensor:
    """Losses and shares right of one batch, (4,), on the model's device."""
    return torch.stack(pretraining_losses(model, PlacedBatch.of(batch, model.device))[:4])


class Evaluator:
    """Looks at held-out text, the same batches each time, in slices as long as one batch takes.

    batches: of the held-out part. points: what the looks gave, oldest first; a run that is resumed has some already.
    latest_step: of the last look that has begun, -1 before. A look goes on while its model is trained further, so it
    needs weights of its own: a snapshot's.
    """

    def __init__(self, batches: PretrainingBatches, points: Sequence[EvaluationPoint] = ()) -> None:
        count = max(1, min(MOST_BATCHES, round(_PASSES * batches.steps_per_epoch)))
        self._batches: Sequence[Batch] = [batches[k] for k in range(count)]
        self._left: list[Batch] = []
        self._sums: list[Tensor] = []
        self._model: BertForPreTraining | None = None
        self.latest_step = points[-1].step if points else -1
        self._seconds = 0.0
        self.points = list(points)

    @property
    def is_looking(self) -> bool:
        """Whether a look has begun and is not over."""
        return bool(self._left)

    def may_look(self, step: int, training_seconds: float) -> bool:
        """Whether a new look at this step keeps all looks within a tenth of the training time; the first is free."""
        return not self._left and step > self.latest_step and self._seconds <= TIME_SHARE * training_seconds

    def begin(self, step: int, model: BertForPreTraining) -> None:
        """Begin a look; a model in eval mode whose weights nobody changes. One that is not over yet is dropped."""
        self.latest_step, self._model, self._left, self._sums = step, model, list(self._batches), []

    @torch.no_grad()
    def look_on(self) -> None:
        """One batch of the look that has begun."""
        started = time.monotonic()
        self._sums.append(_look(self._model, self._left.pop()))
        if not self._left:
            means = torch.stack(self._sums).mean(0).tolist()  # fetched from the device once
            self.points.append(EvaluationPoint(self.latest_step, *means))
            self._model, self._sums = None, []
        self._seconds += time.monotonic() - started

    def finish(self) -> None:
        """All of a look that is not over."""
        while self.is_looking:
            self.look_on()


def is_more_than_chance(learned: tuple[int, int], held_out: tuple[int, int]) -> bool:
    """Whether a share (right, asked) is larger than another by more than two standard errors of their difference."""
    (right, asked), (other_right, other_asked) = learned, held_out
    share, other = right / asked, other_right / other_asked
    error = math.sqrt(share * (1 - share) / asked + other * (1 - other) / other_asked)
    return share - other > 2 * error
