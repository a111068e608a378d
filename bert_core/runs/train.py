"""The training of a job: `for event in Training(job)` yields rows, snapshots and held-out numbers. And its state, which
is saved beside a model, so that it continues as if it had never stopped.

A training knows neither threads nor commands: pausing is not asking for the next event."""

import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field
from safetensors.torch import save_file
from torch import Tensor

from bert_core.config import LOCAL, Limits
from bert_core.data.corpus import Corpus
from bert_core.device import give_back_memory, keep_memory
from bert_core.errors import CheckpointError, CorpusError, RunError
from bert_core.runs.jobs import Job, TaskJob
from bert_core.runs.recipe import FinetuningRecipe, Recipe
from bert_core.storage.checkpoint import TRAINING_STATE, Checkpoint, assemble, empty_model, small_files, weights_of
from bert_core.storage.weights import Tensors, check_finite, open_tensors, without
from bert_core.tasks.examples import TaskParts
from bert_core.tasks.prediction import review, verdict
from bert_core.tasks.task import Task
from bert_core.training import OF_EVERY_STEP, Pretraining, StepRow, rank, read_rows, until_divergence

SLICE_SECONDS = 0.03
TRIM_SECONDS = 30.0  # between two returns of free memory
SNAPSHOT_SECONDS = 0.5  # of wall-clock time; a running model has a new snapshot at least this often
SNAPSHOT_GROWTH = 1.1  # a step this many times that of the last snapshot gets one too: dense at the start


@dataclass(frozen=True, eq=False, repr=False)
class Snapshot:
    """A run's weights after a step, by the names of the model's parameters; they must not change."""

    step: int
    weights: Mapping[str, Tensor]
    empty: Checkpoint  # of a model without memory for weights

    @functools.cached_property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.weights.values())

    def checkpoint(self) -> Checkpoint:
        """A new model in eval mode, which shares the memory of the weights."""
        found = self.empty.with_weights(self.weights)
        found.module.requires_grad_(False)
        return found


# The rows of the steps of a slice, a copy of the weights, or the numbers of the newest copy on held-out data.
Event = Sequence[StepRow] | Snapshot | StepRow


# --- The saved state --------------------------------------------------------------------------------------------------

# The parts of the file: each begins the names of its tensors.
_MODEL, _BEST, _AVERAGES, _FILES = "model.", "best.", "average.", "file."
_HISTORY, _EVALUATIONS, _FACTS = "history", "evaluations", "facts"
_PARAMETER_BYTES = 24  # for each parameter: two models, the optimizer's averages, and the rows of all steps

Source = TypeVar("Source", bound=Corpus | TaskParts)


class _Facts(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    recipe: str = Field(max_length=255)  # its name
    text: str  # fingerprint of the whole text or task
    evaluations: list[Annotated[str, Field(pattern=r"^\w+$", max_length=100)]]  # the names of their numbers


@dataclass(frozen=True)
class TrainingState:
    """What a training needs to continue, but its text. It is saved as one safetensors file, which needs no other and
    which neither `transformers` nor `load_checkpoint` reads."""

    model: Checkpoint  # with the weights of the last step
    recipe: Any  # a Recipe or, for a task, a FinetuningRecipe; with the seed and all parts of its training
    text: str  # fingerprint of the whole text or task
    averages: dict[str, Tensor]  # of the optimizer, see `Trainer.averages`
    history: Sequence[StepRow]  # of all steps so far
    evaluations: Sequence[StepRow]  # the held-out curve so far
    best: Checkpoint | None = None  # with the weights of a task's best epoch, if there is one

    def matching(self, source: Source | None) -> Source:
        """The given text or task, or the recipe's own for None. Raises CorpusError for another than was trained on."""
        source = source or self.recipe.source()
        if source.fingerprint != self.text:
            raise CorpusError(
                f"{source.name} is not the text that this model was being trained on; give the same text, unchanged."
            )
        return source

    def write(self, folder: Path) -> None:
        """Write the file into a folder, for `save_checkpoint`, which puts it in its place. Raises CheckpointError if a
        number is not finite."""
        check_finite(self.averages, "The training was not saved", "train it again with a lower learning rate")
        names = [*vars(self.evaluations[0])] if self.evaluations else []
        facts = _Facts(recipe=self.recipe.name, text=self.text, evaluations=names)
        texts = {f"{_FILES}{name}": content for name, content in small_files(self.model).items()}
        texts[_FACTS] = facts.model_dump_json().encode()
        tensors = {name: torch.frombuffer(bytearray(text), dtype=torch.uint8) for name, text in texts.items()}
        best = weights_of(self.best) if self.best else {}
        for part, found in ((_MODEL, weights_of(self.model)), (_BEST, best), (_AVERAGES, self.averages)):
            tensors |= {f"{part}{name}": each.contiguous() for name, each in found.items()}
        for name, rows in ((_HISTORY, self.history), (_EVALUATIONS, self.evaluations)):
            tensors[name] = torch.tensor([[*vars(row).values()] for row in rows], dtype=torch.float64)
        save_file(tensors, folder / TRAINING_STATE)


def read_training_state(folder: str | Path, limits: Limits = LOCAL) -> TrainingState:
    """Read and check the state in a folder, as untrusted; its other files are not opened. Raises CheckpointError or,
    for its recipe, ConfigError."""
    path = Path(folder, TRAINING_STATE)
    if not os.path.exists(path):  # no error where no file can have this name
        raise CheckpointError(
            f"There is no training state in {path.parent.name}; give the folder of a training that was saved. A model "
            "alone cannot be trained further."
        )
    stored = open_tensors(path, _PARAMETER_BYTES * limits.parameters)
    try:
        return _state(stored, path.parent.name, limits)
    except (LookupError, ValueError, OverflowError):
        raise CheckpointError(
            f"{TRAINING_STATE} is damaged, or another version of this program has saved it. Start the training again."
        ) from None


def _state(stored: Tensors, name: str, limits: Limits) -> TrainingState:
    texts = {file: _text(each, limits) for file, each in _part(stored, _FILES).items()}
    facts = _Facts.model_validate_json(_text(stored[_FACTS], limits))
    best, model = _part(stored, _BEST), assemble(texts, _part(stored, _MODEL), name, limits=limits)
    if model.recipe is None:
        raise ValueError("its recipe is missing")
    kind, objective = (FinetuningRecipe, Task) if "task" in model.recipe else (Recipe, Pretraining)
    recipe = kind.from_dict(facts.recipe, model.recipe)
    most = recipe.training.total_steps
    if (done := len(stored[_HISTORY])) > limits.steps:  # the numbers of each are kept in memory
        raise CheckpointError(f"This training has done {done:,} steps; the limit is {limits.steps:,}.")
    history = _rows(["step", *objective.names, *OF_EVERY_STEP], stored[_HISTORY], most)
    if [row.step for row in history] != [*range(1, len(history) + 1)]:
        raise ValueError("steps are missing")
    if history and not 0 <= history[-1].seconds < math.inf:
        raise ValueError("its time is no number")
    averages = {of: each.float() for of, each in _part(stored, _AVERAGES).items()}
    check_finite(averages, "The training cannot continue", "save the model again")
    evaluations = _rows(facts.evaluations, stored[_EVALUATIONS], most + 1)
    shown = assemble(texts, best, name, limits=limits) if best else None
    return TrainingState(model, recipe, facts.text, averages, history, evaluations, shown)


def _part(stored: Tensors, part: str) -> dict[str, Tensor]:
    return {name.removeprefix(part): each for name, each in stored.items() if name.startswith(part)}


def _text(entry: Tensor, limits: Limits) -> bytes:
    if entry.dtype != torch.uint8 or entry.numel() > limits.upload_bytes:
        raise ValueError("it is no text, or a long one")
    return entry.numpy().tobytes()


def _rows(names: Sequence[str], entry: Tensor, most: int) -> list[StepRow]:
    """The rows of a table in the file; the size is checked before they become objects."""
    if not entry.numel():
        return []
    if entry.dtype != torch.float64 or entry.shape[1:] != (len(names),) or len(entry) > most:
        raise ValueError("it is no such table")
    rows = [StepRow(**dict(zip(names, numbers))) for numbers in entry.tolist()]
    for row in rows:
        vars(row).update({name: int(getattr(row, name)) for name in ("step", "tokens") if hasattr(row, name)})
    return rows


# --- The training -----------------------------------------------------------------------------------------------------


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
        self.job, head = dataclasses.replace(job, start=None), job.head
        missing = head.never if head else frozenset[str]()
        empty = empty_model(self.trainer.model.config, head)
        self._empty = Checkpoint(empty, job.tokenizer, missing=missing, head=head)
        if state:
            last = self.history[-1] if self.history else StepRow(step=0, seconds=0.0)
            self.trainer.restore(last.step, last.seconds, state.averages)
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
            self.history += rows  # first, because a program may save at the snapshot
            if rows and not divergence and self._is_snapshot_due:
                yield self.take_snapshot()
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
        knows_something = step or not isinstance(self.job, TaskJob)  # unlike a new output layer
        return bool(is_one and knows_something and rank() == 0)

    def _evaluated(self) -> Iterator[Event]:
        """Evaluate the newest snapshot, if this step is to be evaluated and has not been."""
        if not self._is_evaluated_step or (self.points and self.points[-1].step >= self.trainer.step):
            return
        for row in self.job.evaluate(self.newest.checkpoint(), self.newest.step):
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
        kept = without(dict(self.trainer.model.named_parameters()), self._empty.missing)
        weights = {name: each.detach().clone() for name, each in kept.items()}
        name, recipe = f"{self.recipe.title}, step {step}", self.recipe.content()
        return Snapshot(step, weights, dataclasses.replace(self._empty, name=name, recipe=recipe))

    def to_save(self) -> tuple[Checkpoint, TrainingState]:
        """The model to show to others, that of a task's best epoch, and all that the training needs to continue. Raises
        RunError when the loss has stopped being a number."""
        if self.trainer.step != len(self.history):
            raise RunError("The loss is no longer a number, so nothing was saved; train with a lower learning rate.")
        last = self.copy(self.trainer.step).checkpoint()
        best = dataclasses.replace(self.best.checkpoint(), recipe=last.recipe) if self.best else None
        numbers = self.trainer.averages(), tuple(self.history), tuple(self.points)
        return best or last, TrainingState(last, self.recipe, self.job.source.fingerprint, *numbers, best)


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
