"""The training state that is saved beside a model, so that its training continues as if it had never stopped.

It is one safetensors file and needs no other: weights, the contents of a model's small files, the optimizer's averages,
the numbers of all steps so far, and the facts below. `transformers` and `load_checkpoint` do not read it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field
from safetensors.torch import save_file
from torch import Tensor

from bert_core.config import LOCAL, Limits
from bert_core.data.corpus import Corpus
from bert_core.errors import CheckpointError, CorpusError
from bert_core.runs.recipe import FinetuningRecipe, Recipe
from bert_core.storage.checkpoint import RECIPE, TRAINING_STATE, Checkpoint, assemble, small_files, weights_of
from bert_core.storage.untrusted import parse_json
from bert_core.storage.weights import Tensors, check_finite, open_tensors
from bert_core.tasks.examples import TaskParts
from bert_core.tasks.task import Task
from bert_core.training.objective import OF_EVERY_STEP, Pretraining, StepRow
from bert_core.training.trainer import TrainerState

# The parts of the file: each begins the names of its tensors.
_MODEL, _BEST, _AVERAGES, _FILES = "model.", "best.", "average.", "file."
_HISTORY, _EVALUATIONS, _FACTS = "history", "evaluations", "facts"
_PARAMETER_BYTES = 24  # for each parameter: two models, the optimizer's averages, and the rows of all steps

Source = TypeVar("Source", bound=Corpus | TaskParts)


class _Facts(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    recipe: str = Field(max_length=255)  # its name
    text: str  # fingerprint of the whole text or task
    step: int = Field(ge=0)
    seconds: float = Field(ge=0)
    evaluations: list[Annotated[str, Field(pattern=r"^\w+$", max_length=100)]]  # the names of their numbers


@dataclass(frozen=True)
class TrainingState:
    model: Checkpoint  # with the weights of this step
    recipe: Any  # a Recipe or, for a task, a FinetuningRecipe; with the seed and all parts of its training
    text: str  # fingerprint of the whole text or task
    trainer: TrainerState
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
        check_finite(self.trainer.averages, "The training was not saved", "train it again with a lower learning rate")
        facts = _Facts(
            recipe=self.recipe.name,
            text=self.text,
            step=self.trainer.step,
            seconds=self.trainer.seconds,
            evaluations=[*vars(self.evaluations[0])] if self.evaluations else [],
        )
        texts = {f"{_FILES}{name}": content for name, content in small_files(self.model).items()}
        texts[_FACTS] = facts.model_dump_json().encode()
        tensors = {name: torch.frombuffer(bytearray(text), dtype=torch.uint8) for name, text in texts.items()}
        best = weights_of(self.best) if self.best else {}
        for part, found in ((_MODEL, weights_of(self.model)), (_BEST, best), (_AVERAGES, self.trainer.averages)):
            tensors |= {f"{part}{name}": each.contiguous() for name, each in found.items()}
        for name, rows in ((_HISTORY, self.history), (_EVALUATIONS, self.evaluations)):
            if rows:
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
    if facts.step > limits.steps:  # the numbers of each are kept in memory
        raise CheckpointError(f"This training has done {facts.step:,} steps; the limit is {limits.steps:,}.")
    settings, weights, best = parse_json(texts[RECIPE], RECIPE), _part(stored, _MODEL), _part(stored, _BEST)
    kind, objective = (FinetuningRecipe, Task) if "task" in settings else (Recipe, Pretraining)
    recipe = kind.from_dict(facts.recipe, settings)
    history = _rows(["step", *objective.names, *OF_EVERY_STEP], stored.get(_HISTORY), facts.step)
    if facts.step > recipe.training.total_steps or [row.step for row in history] != [*range(1, facts.step + 1)]:
        raise ValueError("steps are missing")
    averages = {of: each.float() for of, each in _part(stored, _AVERAGES).items()}
    check_finite(averages, "The training cannot continue", "save the model again")
    return TrainingState(
        assemble(texts, weights, name, limits=limits),
        recipe,
        facts.text,
        TrainerState(facts.step, facts.seconds, averages),
        history,
        _rows(facts.evaluations, stored.get(_EVALUATIONS), facts.step + 1),
        assemble(texts, best, name, limits=limits) if best else None,
    )


def _part(stored: Tensors, part: str) -> dict[str, Tensor]:
    return {name.removeprefix(part): each for name, each in stored.items() if name.startswith(part)}


def _text(entry: Tensor, limits: Limits) -> bytes:
    if entry.dtype != torch.uint8 or entry.numel() > limits.upload_bytes:
        raise ValueError("it is no text, or a long one")
    return entry.numpy().tobytes()


def _rows(names: Sequence[str], entry: Tensor | None, most: int) -> list[StepRow]:
    """The rows of a table in the file; the size is checked before they become objects."""
    if entry is None:
        return []
    if entry.dtype != torch.float64 or entry.shape[1:] != (len(names),) or entry.shape[0] > most:
        raise ValueError("it is no such table")
    rows = [StepRow(**dict(zip(names, numbers))) for numbers in entry.tolist()]
    for row in rows:
        vars(row).update({name: int(getattr(row, name)) for name in ("step", "tokens") if hasattr(row, name)})
    return rows
