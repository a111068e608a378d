"""From a recipe to a job, and its training: `for event in Training(job)` yields rows, snapshots and held-out numbers.

A training knows neither threads nor commands: pausing is not asking for the next event.
"""

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from bert_core.data.corpus import Corpus
from bert_core.device import choose_device, give_back_memory
from bert_core.errors import ConfigError, RunError, ignore, noting, quoted
from bert_core.runs.job import Job
from bert_core.runs.recipe import FinetuningRecipe, Recipe
from bert_core.runs.saved_state import TrainingState
from bert_core.runs.snapshots import Snapshot
from bert_core.runs.task_job import prepare_task
from bert_core.runs.text_job import prepare_text
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskData, TaskParts
from bert_core.tasks.prediction import review, verdict
from bert_core.tasks.task import Metrics
from bert_core.training.distributed import lost_process, rank
from bert_core.training.objective import StepRow, read_rows, until_divergence

SLICE_SECONDS = 0.03
TRIM_SECONDS = 30.0  # between two returns of free memory
SNAPSHOT_SECONDS = 0.5  # of wall-clock time; a running model has a new snapshot at least this often
SNAPSHOT_GROWTH = 1.1  # a step this many times that of the last snapshot gets one too: dense at the start

# The rows of the steps of a slice, a copy of the weights, or the numbers of the newest copy on held-out data.
Event = Sequence[StepRow] | Snapshot | StepRow

_mps = threading.RLock()


def prepare(
    recipe: Recipe | FinetuningRecipe,
    source: Corpus | TaskParts | None = None,
    seed: int | None = None,
    device: str = "auto",
    *,
    start: Checkpoint | None = None,
    progress: Callable[[str], None] = ignore,
) -> Job:
    """Encode a text or labelled examples, without the global random generator.

    source, seed: None for the recipe's own. device: see `choose_device`. start: the model to start from, which a task
    needs; without one, a tokenizer is trained on the text. progress: called with the present stage, such as "encoding
    the text, 40 %". Raises BertCoreError for unusable data or sizes.
    """
    device, recipe = choose_device(device), recipe.with_seed(seed)
    if start is None and recipe.start:
        raise ConfigError(
            f"This recipe goes on from the model {quoted(recipe.start)}, which is missing here. Train it on the "
            "command line, with --start and that model's folder."
        )
    source = source or recipe.source()
    with noting(source.notes):
        if isinstance(recipe, Recipe) and isinstance(source, Corpus):
            return prepare_text(recipe, source, device, start, progress)
        if isinstance(recipe, FinetuningRecipe) and isinstance(source, TaskParts) and start:
            return prepare_task(recipe, source, device, start, progress)
    raise ConfigError("A recipe and what it learns from do not fit; a text goes with Recipe, a task with TaskParts.")


class Training:
    """The training of a job, which iterates over its events until all steps are done and the last one is evaluated.

    Rows come a slice of SLICE_SECONDS at a time, a step where that takes longer; the snapshot of a step comes before
    its row. A slice without rows gives the control back in the middle of an evaluation, or because `may_step`, which
    is asked before each step, has refused one. The first of several processes evaluates. Raises RunError when the loss
    stops being a number, LostProcess when another process has ended, after the rows before it.

    state: to continue from. kept_steps: of which a snapshot is taken in any case. points: the held-out curve. best: the
    best snapshot of a task. Snapshots of a model on MPS are on the CPU, so that no other thread asks that device.
    """

    def __init__(
        self, job: Job, state: TrainingState | None = None, may_step: Callable[[], bool] = lambda: True
    ) -> None:
        self._may_step, self._turn = may_step, turn_on(job.device)
        self._step_seconds = SLICE_SECONDS  # in the last slice, with the wait for the device
        self.kept_steps: set[int | None] = set()
        self.points: list[StepRow] = list(state.evaluations) if state else []
        self.best: Snapshot | None = None
        with self._turn:
            self.trainer = job.trainer()
            self.job = dataclasses.replace(job, start=None)
            if state:
                self.trainer.restore(state.trainer)
                if state.best and self._best_step:
                    job.load(self.trainer.model, state.best)
                    self.best = self.copy(self._best_step)
                job.load(self.trainer.model, state.model)
        self.take_snapshot()

    def __iter__(self) -> Iterator[Event]:
        yield self.newest
        while True:
            yield from self._evaluated()
            if self.is_trained:
                return
            rows, problem = self._slice()
            if rows and not problem and self._is_snapshot_due:
                yield self.take_snapshot()
            yield rows
            if problem:
                raise problem

    @property
    def recipe(self) -> Recipe | FinetuningRecipe:
        """The recipe, with every change of the schedule."""
        return self.job.recipe.replace(training=self.trainer.config)

    def add_part(self, steps: int, learning_rate: float | None) -> Recipe | FinetuningRecipe:
        """Let the training go on from this step for `steps` steps, with another learning rate; None keeps it."""
        self.trainer.config = self.trainer.config.then(self.trainer.step, steps, learning_rate)
        return self.recipe

    @property
    def is_trained(self) -> bool:
        """Whether all steps are done."""
        return self.trainer.step >= self.trainer.config.total_steps

    @property
    def _is_evaluated_step(self) -> bool:
        every, step = self.job.evaluate_every, self.trainer.step
        is_one = every and (self.is_trained or step % every == 0)
        return bool(is_one and rank() == 0 and (step or self.job.is_text))  # a new output layer knows nothing

    def _evaluated(self) -> Iterator[Event]:
        """Evaluate the newest snapshot, if this step is to be evaluated and has not been."""
        if not self._is_evaluated_step or (self.points and self.points[-1].step >= self.trainer.step):
            return
        for row in self.job.evaluate(self.newest):
            if row:
                self.points.append(row)
                self.best = self.newest if self._best_step == row.step else self.best
            yield row or ()

    @property
    def _best_step(self) -> int | None:
        """The step that did best so far, of equal ones the latest; None before the first result."""
        name = self.job.best_by
        if not name or not self.points:
            return None
        return max(self.points, key=lambda point: (getattr(point, name, -math.inf), point.step)).step

    @property
    def _ends_slice(self) -> bool:
        """Whether there is a snapshot of this step, however many there are."""
        return self.is_trained or self._is_evaluated_step or self.trainer.step in self.kept_steps

    def _slice(self) -> tuple[list[StepRow], Exception | None]:
        """Train for a slice. Returns the rows and what ends the training after them."""
        started, pending, problem = time.monotonic(), list[StepRow](), None
        while not self.is_trained:
            try:
                if not self._may_step():
                    break
                with self._turn:
                    pending.append(next(self.trainer))
            except RuntimeError as error:
                if not (problem := lost_process(error)):
                    raise
                break
            # A GPU is given steps before it has done the earlier ones; whoever asks the model waits for all of them.
            seconds = max(len(pending) * self._step_seconds, time.monotonic() - started)
            if self._ends_slice or seconds >= SLICE_SECONDS:
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
        return rows, RunError(divergence) if divergence else problem

    @property
    def _is_snapshot_due(self) -> bool:
        grown = self.trainer.step >= SNAPSHOT_GROWTH * self.newest.step
        return grown or self._ends_slice or time.monotonic() - self._snapshot_taken >= SNAPSHOT_SECONDS

    def take_snapshot(self) -> Snapshot:
        """Copy the weights; the copy is the newest snapshot from now on."""
        self.newest, self._snapshot_taken = self.copy(self.trainer.step), time.monotonic()
        return self.newest

    def copy(self, step: int) -> Snapshot:
        """A copy of the weights, which are those of this step, with all that a checkpoint needs."""
        job, model, recipe = self.job, self.trainer.model, self.recipe
        shown_on = "cpu" if job.device == "mps" else job.device
        with self._turn:
            weights = {name: each.detach().to(shown_on, copy=True) for name, each in model.named_parameters()}
        name = f"{recipe.title}, step {step}"
        return Snapshot(step, weights, model.config, job.tokenizer, name, recipe.content(), job.head)

    def to_save(self, history: Sequence[StepRow]) -> tuple[Snapshot, TrainingState]:
        """The model to show to others, that of a task's best epoch, and all that the training needs to continue.
        history: the rows of all steps."""
        last, best = self.copy(self.trainer.step), self.best
        if best:
            best = dataclasses.replace(best, recipe=last.recipe)
        with self._turn:
            state = TrainingState(
                last.checkpoint(),
                self.recipe,
                self.job.source.fingerprint,
                self.trainer.state(),
                tuple(history),
                tuple(self.points),
                best.checkpoint() if best else None,
            )
        return best or last, state


def turn_on(device: str) -> AbstractContextManager:
    """A block in which no other thread works on this device, if it is Apple's MPS: there, two threads that work at once
    can abort the process. It comes after all other locks: a thread that holds it waits for none."""
    return _mps if device == "mps" else nullcontext()


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
    def of(cls, training: Training, history: Sequence[StepRow]) -> "Finetuned":
        """The result of a training that has ended."""
        job, points = training.job, training.points
        result = training.best or training.newest
        kept = next(point for point in points if point.step == result.step)
        tuned, held_out = result.checkpoint(), job.parts.test
        tested = review(tuned, held_out) if held_out else None
        always, said = verdict(job.validation, kept.loss)
        return cls(
            tuned,
            kept.measures,
            tested.measures if tested else {},
            {"validation": always, **({"test": tested.always} if tested else {})},
            len(job.parts.train.examples),
            training.trainer.config.precision,
            history,
            points,
            job.notes,
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
    job = prepare(recipe.override(settings), parts, seed, device, start=checkpoint)
    for note in job.notes:
        tell(note)
    training, history = Training(job), list[StepRow]()
    for event in training:
        if isinstance(event, list) and event:
            history += event
            progress(event[-1], training.trainer.config.total_steps)
    return Finetuned.of(training, history)
