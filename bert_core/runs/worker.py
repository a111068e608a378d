"""The training of one prepared run: steps in slices of time, snapshots and the held-out curve.

A worker knows neither threads nor commands; a `Run` calls it from one thread at a time and publishes the results.
"""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from bert_core.device import give_back_memory
from bert_core.errors import ConfigError, RunError, ignore
from bert_core.runs.prepare import Prepared, prepare
from bert_core.runs.recipe import FinetuningRecipe, Recipe
from bert_core.runs.saved_state import TrainingState
from bert_core.runs.snapshots import Snapshot
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskData, TaskParts
from bert_core.tasks.prediction import review, verdict
from bert_core.tasks.task import Metrics
from bert_core.training.distributed import LostProcess
from bert_core.training.objective import StepRow, read_rows, until_divergence

SLICE_SECONDS = 0.03
TRIM_SECONDS = 30.0  # between two returns of free memory
SNAPSHOT_SECONDS = 0.5  # of wall-clock time; a running model has a new snapshot at least this often
SNAPSHOT_GROWTH = 1.1  # a step this many times that of the last snapshot gets one too: dense at the start

_mps = threading.RLock()


def turn_on(device: str) -> AbstractContextManager:
    """A block in which no other thread works on this device, if it is Apple's MPS: there, two threads that work at once
    can abort the process. It comes after all other locks: a thread that holds it waits for none."""
    return _mps if device == "mps" else nullcontext()


class Worker:
    """Trains one run. Of its model on MPS, it shows copies on the CPU, so that no other thread asks that device.

    prepared: its text or task, tokenizer and model. state: to continue from. trainer: `trainer.step` steps are done.
    newest: the last snapshot. evaluator: has the held-out curve and the best snapshot of a task. history: the rows of
    all steps, where `slices` adds new ones.
    lost: of several processes, that one has ended.
    """

    def __init__(self, prepared: Prepared, state: TrainingState | None = None) -> None:
        self.prepared, device = prepared, prepared.device
        self._turn, self._shown_on = turn_on(device), "cpu" if device == "mps" else device
        self.history: list[StepRow] = list(state.history) if state else []
        self.lost: LostProcess | None = None
        self._step_seconds = SLICE_SECONDS  # in the last slice, with the wait for the device
        self.evaluator = prepared.evaluator(state.evaluations if state else ())
        with self._turn:
            if state:
                prepared.load(state.best or state.model)
            self.trainer = prepared.trainer()
            if state:
                self.trainer.restore(state.trainer)
            if self.evaluator.best_step:
                self.evaluator.best = self.copy(self.evaluator.best_step)  # its weights are those of the saved model
            if state and state.best:
                prepared.load(state.model)
        self.take_snapshot()
        self.evaluator.begin_if_due(self.newest, self.is_trained)

    @property
    def recipe(self) -> Recipe | FinetuningRecipe:
        """The recipe at scale, with every change of the schedule."""
        return self.prepared.recipe.replace(training=self.trainer.config)

    def add_part(self, steps: int, learning_rate: float | None) -> Recipe | FinetuningRecipe:
        """Let the training go on from this step for `steps` steps, with another learning rate; None keeps it."""
        self.trainer.config = self.trainer.config.then(self.trainer.step, steps, learning_rate)
        return self.recipe

    @property
    def is_trained(self) -> bool:
        """Whether all steps are done."""
        return self.trainer.step >= self.trainer.config.total_steps

    @property
    def is_finished(self) -> bool:
        """Whether all steps are done and the finished model is evaluated."""
        return self.is_trained and self.evaluator.is_done(self.trainer.step)

    @property
    def is_fixed_step(self) -> bool:
        """Whether this step has a snapshot in any case: the last one, and those to evaluate."""
        return self.is_trained or self.evaluator.is_one_of(self.trainer.step)

    def slices(self, may_step: Callable[[], bool] = lambda: True) -> Iterator[list[StepRow]]:
        """Train and evaluate until all is done, `may_step` refuses a step or another process is lost.

        Yields the rows of each slice. Raises RunError when the loss stops being a number.
        """
        while not (self.is_finished or self.lost):
            rows, divergence = self.train(may_step)
            if divergence:
                raise RunError(divergence)
            if not rows and not self.is_trained:
                return
            if self.is_fixed_step:
                self.take_snapshot()
            self.evaluate()
            self.history += rows
            yield rows

    def train(self, may_step: Callable[[], bool]) -> tuple[list[StepRow], str]:
        """Train for SLICE_SECONDS, for one step where that takes longer, and no further than a task's next evaluation.

        may_step: called before each step; False ends the slice. Returns the steps' rows, as `until_divergence` does.
        """
        started = time.monotonic()
        pending: list[StepRow] = []
        while not self.is_trained:
            try:
                if not may_step():
                    break
                with self._turn:
                    pending.append(next(self.trainer))
            except LostProcess as error:
                self.lost = error
                break
            # A GPU is given steps before it has done the earlier ones; whoever asks the model waits for all of them.
            seconds = max(len(pending) * self._step_seconds, time.monotonic() - started)
            if self.is_fixed_step or seconds >= SLICE_SECONDS:
                break
        give_back_memory(TRIM_SECONDS)
        read = time.monotonic()
        with self._turn:
            rows, divergence = until_divergence(read_rows(pending))
        if rows:  # reading waits for a GPU to finish the steps
            now = time.monotonic()
            self._step_seconds = (now - started) / len(rows)
            self.trainer.seconds += now - read
            rows[-1].seconds = self.trainer.seconds
        return rows, divergence

    @property
    def is_snapshot_due(self) -> bool:
        """Whether the newest snapshot is too old for a run that goes on."""
        grown = self.trainer.step >= SNAPSHOT_GROWTH * self.newest.step
        return grown or self.is_fixed_step or time.monotonic() - self._snapshot_taken >= SNAPSHOT_SECONDS

    def take_snapshot(self) -> Snapshot:
        """Copy the weights; the copy is the newest snapshot from now on."""
        self.newest, self._snapshot_taken = self.copy(), time.monotonic()
        return self.newest

    def copy(self, step: int | None = None) -> Snapshot:
        """A copy of the weights with all that a checkpoint needs. step: whose weights they are; None for the last."""
        trainer, recipe, prepared = self.trainer, self.recipe, self.prepared
        step = trainer.step if step is None else step
        with self._turn:
            named = trainer.model.named_parameters()
            weights = {name: each.detach().to(self._shown_on, copy=True) for name, each in named}
        name, content = f"{recipe.title}, step {step}", recipe.content()
        return Snapshot(step, weights, trainer.model.config, prepared.tokenizer, name, content, prepared.head)

    def to_save(self, history: Sequence[StepRow]) -> tuple[Snapshot, TrainingState]:
        """The model to show to others, that of a task's best epoch, and all that the training needs to continue. It
        ends an evaluation first. history: the rows of all steps."""
        while self.evaluator.is_running:
            self.evaluate()
        last, best = self.copy(), self.evaluator.best
        if best:
            best = dataclasses.replace(best, recipe=last.recipe)
        with self._turn:
            state = TrainingState(
                last.checkpoint(),
                self.recipe,
                self.prepared.source.fingerprint,
                self.trainer.state(),
                tuple(history),
                tuple(self.evaluator.points),
                best.checkpoint() if best else None,
            )
        return best or last, state

    def evaluate(self) -> None:
        """Evaluate one held-out batch, of the newest model that was due."""
        self.evaluator.begin_if_due(self.newest, self.is_trained)
        self.evaluator.advance()


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned model and its measures."""

    checkpoint: Checkpoint
    validation: Metrics
    test: Metrics  # empty without a test part
    always: dict[str, Metrics]  # of each part, what always giving the most frequent answer would get
    examples: int  # how many it was trained on
    precision: str  # of the matrix products
    history: Sequence[StepRow]
    evaluations: Sequence[StepRow]
    notes: Sequence[str]  # what the readers changed, one sentence each
    verdict: Sequence[str]  # what is to be known of the measures, one sentence each

    @classmethod
    def of(cls, worker: Worker) -> "Finetuned":
        """The result of a worker that is finished."""
        prepared, points = worker.prepared, worker.evaluator.points
        result = worker.evaluator.best or worker.newest
        kept = next(point for point in points if point.step == result.step)
        tuned, held_out = result.checkpoint(), prepared.parts.test
        tested = review(tuned, held_out) if held_out else None
        validation, rows, loss = prepared.parts.validation, prepared.validation.rows, kept.loss
        always, said = verdict(validation, rows, loss, prepared.head.labels if prepared.head else ())
        return cls(
            tuned,
            kept.measures,
            tested.measures if tested else {},
            {"validation": always, **({"test": tested.always} if tested else {})},
            len(prepared.parts.train.examples),
            worker.trainer.config.precision,
            worker.history,
            points,
            prepared.notes,
            [*said, *(tested.notes if tested else ())],
        )


def finetune(
    checkpoint: Checkpoint,
    task: TaskData | None = None,
    *,
    validation: TaskData | None = None,
    test: TaskData | None = None,
    recipe: FinetuningRecipe | None = None,
    seed: int | None = None,
    random_weights: bool | None = None,
    device: str = "auto",
    progress: Callable[[StepRow, int], None] = ignore,
    tell: Callable[[str], None] = ignore,
    **settings: object,
) -> Finetuned:
    """Fine-tune a model and wait for the result: that of the best epoch, unless the recipe keeps the last weights.

    task, validation, test: see `TaskParts`; without a task, the recipe's own examples. recipe: None for the defaults.
    random_weights: start from random weights of the same sizes; None for the recipe's choice. device: see
    `choose_device`. progress: called with the last step and the number of steps. tell: called with each note before the
    first step. settings: see `FinetuningRecipe.override`. Raises BertCoreError; RunError for a loss that is no number.
    """
    parts = TaskParts(task, validation, test) if task else None
    if recipe is None:
        if task is None:
            raise ConfigError("There are no examples; give a task, or a recipe with examples of its own.")
        recipe = FinetuningRecipe(name="own", task=task.task, title=task.name)
    if random_weights is not None:
        recipe = recipe.replace(random_weights=random_weights)
    prepared = prepare(recipe.override(settings), parts, seed, device, start=checkpoint)
    for note in prepared.notes:
        tell(note)
    worker = Worker(prepared)
    for _ in worker.slices():
        progress(worker.history[-1], worker.trainer.config.total_steps)
    return Finetuned.of(worker)
