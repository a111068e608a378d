"""The training of one prepared run: steps in slices of time, snapshots and the held-out curve.

A worker knows neither threads nor commands; a `Run` calls it from one thread at a time and publishes the results.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence

from bert_core.runs.prepare import Prepared
from bert_core.runs.recipe import Recipe, recipe_content
from bert_core.runs.saved_state import TrainingState
from bert_core.runs.snapshots import Snapshot
from bert_core.storage.checkpoint import Checkpoint
from bert_core.training.evaluation import EvaluationPoint, Evaluator
from bert_core.training.metrics import PendingMetrics, StepMetrics, read_metrics, until_divergence

SLICE_SECONDS = 0.03
SNAPSHOT_SECONDS = 0.5  # of wall-clock time; a running model has a new snapshot at least this often
SNAPSHOT_GROWTH = 1.1  # a step this many times that of the last snapshot gets one too: dense at the start


class Worker:
    """Trains one run.

    prepared: its text, tokenizer and model. saved: a checkpoint and a state to continue from. trainer: `trainer.step`
    steps are done. newest: the last snapshot. evaluations: the held-out curve so far, empty if nothing is held out.
    """

    def __init__(self, prepared: Prepared, device: str, saved: tuple[Checkpoint, TrainingState] | None = None) -> None:
        self.prepared = prepared
        if saved is None:
            self.trainer = prepared.trainer(device)
            points: Sequence[EvaluationPoint] = ()
        else:
            checkpoint, state = saved
            self.trainer, points = state.restore_trainer(prepared, checkpoint, device), state.evaluations
        self._evaluator = Evaluator(prepared.validation, points) if prepared.validation else None
        self.evaluations: Sequence[EvaluationPoint] = self._evaluator.points if self._evaluator else ()
        self.take_snapshot()
        if self._evaluator and self._evaluator.latest_step < self.trainer.step:
            self._begin_evaluation(self._evaluator)

    @property
    def recipe(self) -> Recipe:
        """The recipe at scale, with every change of the schedule."""
        return dataclasses.replace(self.prepared.recipe, training=self.trainer.config)

    def add_part(self, steps: int, learning_rate: float | None) -> Recipe:
        """Let the training go on, from this step, for `steps` steps with another learning rate; None keeps it."""
        self.trainer.config = self.trainer.config.then(self.trainer.step, steps, learning_rate)
        return self.recipe

    @property
    def is_finished(self) -> bool:
        """Whether all steps are done."""
        return self.trainer.step >= self.trainer.config.total_steps

    def train(self, may_step: Callable[[], bool]) -> tuple[list[StepMetrics], str]:
        """Train for SLICE_SECONDS, or for one step where that takes longer.

        may_step: called before each step; False ends the slice. Returns the steps' rows, as `until_divergence` does.
        """
        started = time.monotonic()
        pending: list[PendingMetrics] = []
        while time.monotonic() - started < SLICE_SECONDS and may_step():
            if (metrics := next(self.trainer, None)) is None:
                break
            pending.append(metrics)
        read = time.monotonic()
        rows, divergence = until_divergence(read_metrics(pending))
        if rows:  # reading waits for a GPU to finish the steps
            self.trainer.seconds += time.monotonic() - read
            rows[-1] = dataclasses.replace(rows[-1], seconds=self.trainer.seconds)
        return rows, divergence

    @property
    def is_snapshot_due(self) -> bool:
        """Whether the newest snapshot is too old for a run that goes on."""
        grown = self.trainer.step >= SNAPSHOT_GROWTH * self.newest.step
        return grown or self.is_finished or time.monotonic() - self._snapshot_taken >= SNAPSHOT_SECONDS

    def take_snapshot(self) -> Snapshot:
        """Copy the weights; the copy is the newest snapshot from now on."""
        self.newest, self._snapshot_taken = self.copy(), time.monotonic()
        return self.newest

    def copy(self) -> Snapshot:
        """A copy of the weights with all that a checkpoint needs."""
        trainer, recipe, flat = self.trainer, self.recipe, self.trainer.flat
        name, content = f"{recipe.title}, step {trainer.step}", recipe_content(recipe)
        weights, config = flat.weights.clone(), trainer.model.config
        return Snapshot(trainer.step, weights, flat.layout, config, self.prepared.tokenizer, name, content)

    def evaluate(self) -> None:
        """Evaluate one held-out batch; after the last step all that remain, and then the finished model."""
        evaluator = self._evaluator
        if evaluator is None:
            return
        if evaluator.may_begin(self.newest.step, self.trainer.seconds):
            self._begin_evaluation(evaluator)
        evaluator.advance()
        if self.is_finished:
            evaluator.finish()
            if evaluator.latest_step < self.newest.step:
                self._begin_evaluation(evaluator)
                evaluator.finish()

    def _begin_evaluation(self, evaluator: Evaluator) -> None:
        evaluator.begin(self.newest.step, self.newest.checkpoint().model)
