"""Evaluation on held-out text, which the model is not trained on."""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from bert_core.data.batches import Batch
from bert_core.device import Cost, using_threads
from bert_core.model import BertForPreTraining
from bert_core.training.distributed import rank
from bert_core.training.objective import HELD_OUT, Fractions, Pretraining, StepRow

Result = TypeVar("Result")

MAX_BATCHES = 8  # of one evaluation
MAX_EVALUATIONS = 100  # of one run
_PASSES = 4  # over a short text, each with other words masked
_TIME_SHARE = 0.1  # of the training time, which all evaluations take
_COST = 1 / 3  # of evaluating a batch: a training step computes as much twice more, backwards


def evaluation_plan(steps: int, steps_per_epoch: float) -> tuple[int, int]:
    """The steps from one evaluation to the next and the batches of each, for a run of so many steps.

    steps_per_epoch: batches in one pass through the held-out text. All evaluations take about a tenth of the training
    time, also of a short run, which has two: before its first step and after its last.
    """
    most = round(_TIME_SHARE * steps / (2 * _COST))
    batches = max(1, min(MAX_BATCHES, most, round(_PASSES * steps_per_epoch)))
    return max(round(batches * _COST / _TIME_SHARE), math.ceil(steps / MAX_EVALUATIONS)), batches


@torch.no_grad()
def measured(
    model: BertForPreTraining, batches: Iterable[Batch], mask_token_id: int | None = None
) -> Iterator[Fractions]:
    """A model's answers to batches, compared with their labels: `Pretraining.run` of one batch at a time.

    model: in eval mode. mask_token_id: see `Pretraining`.
    """
    objective = Pretraining(mask_token_id)
    for batch in batches:
        cost = Cost(model.config, *objective.size(batch), str(model.device), is_step=False)
        with using_threads(cost.threads):
            fractions = objective.run(model, batch, model.device)
        yield fractions


def evaluating(model: BertForPreTraining, batches: Iterable[Batch], step: int) -> Generator[None, None, StepRow]:
    """Evaluate a model in eval mode, as it is after `step`, on one batch at a time."""
    found = []
    for sums, counts in measured(model, batches):
        found.append((sums / counts)[: len(HELD_OUT)])
        yield
    numbers = torch.stack(found).mean(0).tolist()  # one transfer from the device
    return StepRow(step=step, **dict(zip(HELD_OUT, numbers)))


def result_of(work: Generator[object, None, Result]) -> Result:
    """Run a generator to its end and return what it returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


class Evaluator:
    """Evaluates snapshots, each with its `step`, on held-out data, one batch at a time, while training goes on.

    evaluate: gives the work on a snapshot, which yields after each batch and returns the result; None where nothing is
    held out. Of several processes, the first one evaluates. every: steps from one evaluation to the next. points: the
    results so far, oldest first. first: the first step to evaluate. best_by: the measure by which the best snapshot is
    chosen, if any. best: the best one so far.
    """

    def __init__(
        self,
        evaluate: Callable[[Any], Generator[object, None, StepRow]] | None,
        every: int,
        points: Sequence[StepRow] = (),
        *,
        first: int = 0,
        best_by: str | None = None,
    ) -> None:
        self._evaluate = evaluate if rank() == 0 else None
        self._every, self._best_by, self.points = every, best_by, list(points)
        self._begun = points[-1].step if points else first - 1  # the step of the last evaluation that has begun
        self.best: Any = None
        self._work: Generator[object, None, StepRow] | None = None  # in progress, of `_snapshot`

    @property
    def is_running(self) -> bool:
        return self._work is not None

    def is_one_of(self, step: int) -> bool:
        """Whether this step is evaluated, even if it is not the last one."""
        return self._evaluate is not None and step % self._every == 0

    def is_done(self, step: int) -> bool:
        """Whether this step has been evaluated, if anything is."""
        return self._evaluate is None or (not self.is_running and self._begun >= step)

    def begin_if_due(self, snapshot: Any, is_last: bool) -> None:
        """Begin to evaluate a snapshot if its step is to be evaluated; a running evaluation ends first, but not for
        that of the last step, which can wait."""
        is_due = self.is_one_of(snapshot.step) or (is_last and not self.is_running)
        if self._evaluate is None or not is_due or snapshot.step <= self._begun:
            return
        while self.is_running:
            self.advance()
        self._begun, self._snapshot, self._work = snapshot.step, snapshot, self._evaluate(snapshot)

    def advance(self) -> None:
        """Evaluate one batch, if an evaluation is running."""
        if self._work is None:
            return
        try:
            next(self._work)
        except StopIteration as end:
            self.points.append(end.value)
            if self.best_step == self._snapshot.step:
                self.best = self._snapshot
            self._work = None

    @property
    def best_step(self) -> int | None:
        """The step that did best so far, of equal ones the latest; None before the first result."""
        name = self._best_by
        if name is None or not self.points:
            return None
        return max(self.points, key=lambda point: (getattr(point, name, -math.inf), point.step)).step
