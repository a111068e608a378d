"""From a recipe to a job, and its training: `for event in Training(job)` yields rows, snapshots and held-out numbers.

A training knows neither threads nor commands: pausing is not asking for the next event."""

import dataclasses
import math
import time
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

from bert_core.data.corpus import Corpus
from bert_core.device import choose_device, give_back_memory, keep_memory
from bert_core.errors import ConfigError, RunError, ignore, noting, quoted
from bert_core.runs.job import Job
from bert_core.runs.recipe import FinetuningRecipe, Recipe
from bert_core.runs.saved_state import TrainingState
from bert_core.runs.snapshots import Snapshot
from bert_core.runs.task_job import prepare_task
from bert_core.runs.text_job import prepare_text
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskParts
from bert_core.tasks.prediction import review, verdict
from bert_core.training.distributed import rank
from bert_core.training.objective import StepRow, read_rows, until_divergence

SLICE_SECONDS = 0.03
TRIM_SECONDS = 30.0  # between two returns of free memory
SNAPSHOT_SECONDS = 0.5  # of wall-clock time; a running model has a new snapshot at least this often
SNAPSHOT_GROWTH = 1.1  # a step this many times that of the last snapshot gets one too: dense at the start

# The rows of the steps of a slice, a copy of the weights, or the numbers of the newest copy on held-out data.
Event = Sequence[StepRow] | Snapshot | StepRow


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
    the text, 40 %". Raises BertCoreError for unusable data or sizes."""
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
    stops being a number, after the rows before it.

    state: to continue from."""

    def __init__(
        self, job: Job, state: TrainingState | None = None, may_step: Callable[[], bool] = lambda: True
    ) -> None:
        self._may_step = may_step
        self._step_seconds = SLICE_SECONDS  # in the last slice, with the wait for the device
        self.kept_steps: Container[int | None] = ()  # of which a snapshot is taken in any case
        self.history: list[StepRow] = list(state.history) if state else []  # of all steps
        self.points: list[StepRow] = list(state.evaluations) if state else []  # the held-out curve
        self.best: Snapshot | None = None  # of a task
        keep_memory()
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
                give_back_memory()
                return
            rows, divergence = self._slice()
            if rows and not divergence and self._is_snapshot_due:
                yield self.take_snapshot()
            self.history += rows
            yield rows
            if divergence:
                raise RunError(divergence)

    @property
    def recipe(self) -> Recipe | FinetuningRecipe:
        return self.job.recipe.replace(training=self.trainer.config)

    def add_part(self, steps: int, learning_rate: float | None) -> Recipe | FinetuningRecipe:
        """Go on from this step for so many steps, with another learning rate; None keeps it. Returns the recipe."""
        self.trainer.config = self.trainer.config.then(self.trainer.step, steps, learning_rate)
        return self.recipe

    @property
    def is_trained(self) -> bool:
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
        """Whether a slice ends at this step, because it needs a snapshot."""
        return self.is_trained or self._is_evaluated_step or self.trainer.step in self.kept_steps

    def _slice(self) -> tuple[list[StepRow], str]:
        """Train for a slice. Returns the rows and why the training ends after them, or ""."""
        started, pending = time.monotonic(), list[StepRow]()
        while not self.is_trained and self._may_step():
            pending.append(next(self.trainer))
            # A GPU is given steps before it has done the earlier ones; whoever asks the model waits for all of them.
            seconds = max(len(pending) * self._step_seconds, time.monotonic() - started)
            if self._ends_slice or seconds >= SLICE_SECONDS:
                break
        give_back_memory(TRIM_SECONDS)
        read = time.monotonic()
        rows, divergence = until_divergence(read_rows(pending))
        if rows:  # reading waits for a GPU to finish the steps
            now = time.monotonic()
            self._step_seconds = (now - started) / len(rows)
            self.trainer.seconds += now - read
            rows[-1].seconds = self.trainer.seconds
        return rows, divergence

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
        weights = {name: each.detach().clone() for name, each in model.named_parameters()}
        name = f"{recipe.title}, step {step}"
        return Snapshot(step, weights, model.config, job.tokenizer, name, recipe.content(), job.head)

    def to_save(self) -> tuple[Snapshot, TrainingState]:
        """The model to show to others, that of a task's best epoch, and all that the training needs to continue."""
        last = self.copy(self.trainer.step)
        best = dataclasses.replace(self.best, recipe=last.recipe) if self.best else None
        state = TrainingState(
            last.checkpoint(),
            self.recipe,
            self.job.source.fingerprint,
            self.trainer.state(),
            tuple(self.history),
            tuple(self.points),
            best.checkpoint() if best else None,
        )
        return best or last, state


def measured(training: Training) -> tuple[dict[str, Any], list[str]]:
    """How good a model is whose fine-tuning has ended: its measures on "validation" and "test", {} without one, and
    what "always" giving the most frequent answer would get there; and what is to be known of them, a sentence each."""
    job, result = training.job, training.best or training.newest
    kept = next(point for point in training.points if point.step == result.step)
    always, said = verdict(job.validation, kept.loss)
    found: dict[str, Any] = {"validation": kept.measures, "test": {}, "always": {"validation": always}}
    if job.parts.test:
        test = review(result.checkpoint(), job.parts.test)
        found["test"], found["always"]["test"] = test.measures, test.always
        said = [*said, *test.notes]
    return found, said
