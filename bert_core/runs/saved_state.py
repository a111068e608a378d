"""The training state that is saved beside a model, so that its training continues as if it had never stopped.

It is one safetensors file and needs no other: the weights of the step and, of a task, those of its best epoch, the
contents of the small files of a model (config, tokenizer and recipe), the optimizer's averages, the numbers of all
steps so far, and the facts below. `transformers` and `load_checkpoint` do not read it.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.torch import save_file

from bert_core.config import LOCAL, Limits, check_seed
from bert_core.data.corpus import Corpus
from bert_core.errors import CheckpointError, CorpusError
from bert_core.runs.recipe import FinetuningRecipe, Recipe
from bert_core.storage.checkpoint import (
    RECIPE,
    SMALL_FILES,
    TRAINING_STATE,
    Checkpoint,
    assemble,
    small_files,
    weights_of,
)
from bert_core.storage.untrusted import parse_json
from bert_core.storage.weights import FLOATS, Stored, check_finite, open_tensors
from bert_core.tasks.examples import TaskParts
from bert_core.training.objective import StepRow
from bert_core.training.trainer import TrainerState

# The parts of the file: each begins the names of its tensors.
_MODEL, _BEST, _AVERAGES, _FILES = "model.", "best.", "average.", "file."
_HISTORY, _EVALUATIONS, _FACTS = "history", "evaluations", "facts"

_Columns = list[Annotated[str, Field(pattern=r"^\w+$", max_length=100)]]
Source = TypeVar("Source", bound=Corpus | TaskParts)


class _Facts(BaseModel):
    """recipe: its name. text: fingerprint of the whole text or task. columns: of the two tables."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    recipe: str = Field(max_length=255)
    step: int = Field(ge=0)
    seconds: float = Field(ge=0)
    updates: list[Annotated[int, Field(ge=0, le=2**53)]]
    text: str
    history: _Columns
    evaluations: _Columns


@dataclass(frozen=True)
class TrainingState:
    """The state of a run after a step. model: with the weights of this step. best: with those of a task's best epoch;
    None where the run has none."""

    model: Checkpoint
    recipe: Any  # a Recipe or, for a task, a FinetuningRecipe; with the seed and all parts of its training
    text: str  # fingerprint of the whole text or task
    trainer: TrainerState
    history: Sequence[StepRow]  # of all steps so far
    evaluations: Sequence[StepRow]  # the held-out curve so far
    best: Checkpoint | None = None

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
            step=self.trainer.step,
            seconds=self.trainer.seconds,
            updates=list(self.trainer.updates),
            text=self.text,
            history=_columns(self.history),
            evaluations=_columns(self.evaluations),
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
    """Read and check the state in a folder, as untrusted; its other files are not opened.

    limits: of the model's files, tokens and parameters, and of steps. Raises CheckpointError or, for its recipe,
    ConfigError.
    """
    path = Path(folder, TRAINING_STATE)
    if not os.path.isdir(folder):
        raise CheckpointError(f"There is no folder {path.parent.name!r}; give the folder of a saved training.")
    if not path.exists():
        raise CheckpointError(
            f"{path.parent.name} holds a model without its training state; the model works, but cannot be trained "
            "further."
        )
    stored = open_tensors(path)
    if _FACTS not in stored:
        raise CheckpointError(
            "An earlier version of this program has saved this training, and this one cannot continue it; the model "
            "beside it works. Start the training again."
        )
    files = _part(stored, _FILES)
    texts = {name: _text(files[name], limits) for name in SMALL_FILES if name in files}
    try:
        facts = _Facts.model_validate_json(_text(stored[_FACTS], limits))
        settings = parse_json(texts[RECIPE], RECIPE)
        model = assemble(texts, _part(stored, _MODEL), path.parent.name, limits=limits)
    except (ValidationError, KeyError):
        raise _damaged() from None
    if facts.step > limits.steps:  # the numbers of each are kept in memory
        raise CheckpointError(f"This training has done {facts.step:,} steps; the limit is {limits.steps:,}.")
    check_seed(settings.get("seed"))
    recipe = (FinetuningRecipe if "task" in settings else Recipe).from_dict(facts.recipe, settings)
    if facts.history != (["step", *recipe.names] if facts.step else []):
        raise CheckpointError("Another version of this program has saved this training; start it again.")
    history = _rows(facts.history, stored.get(_HISTORY), facts.step)
    evaluations = _rows(facts.evaluations, stored.get(_EVALUATIONS), facts.step + 1)
    if facts.step > recipe.training.total_steps or [row.step for row in history] != list(range(1, facts.step + 1)):
        raise _damaged()
    weights, stored_averages = _part(stored, _BEST), _part(stored, _AVERAGES)
    best = assemble(texts, weights, path.parent.name, limits=limits) if weights else None
    if not {each.dtype for each in stored_averages.values()} <= {*FLOATS}:
        raise _damaged()
    averages = {name: each.read() for name, each in stored_averages.items()}
    check_finite(averages, "The training cannot continue", "save the model again")
    trainer = TrainerState(facts.step, facts.seconds, tuple(facts.updates), averages)
    return TrainingState(model, recipe, facts.text, trainer, history, evaluations, best)


def _part(stored: Mapping[str, Stored], part: str) -> dict[str, Stored]:
    return {name.removeprefix(part): each for name, each in stored.items() if name.startswith(part)}


def _text(entry: Stored, limits: Limits) -> bytes:
    if entry.dtype != "U8" or len(entry.shape) != 1 or entry.shape[0] > limits.upload_bytes:
        raise _damaged()
    return entry.read(torch.uint8).numpy().tobytes()


def _columns(rows: Sequence[StepRow]) -> list[str]:
    return list(vars(rows[0])) if rows else []


def _rows(names: list[str], entry: Stored | None, most: int) -> list[StepRow]:
    """The rows of a table in the file; the size is checked before the numbers are read."""
    if entry is None:
        return []
    is_table = entry.dtype == "F64" and entry.shape[1:] == (len(names),) and names[:1] == ["step"]
    if not is_table or entry.shape[0] > most:
        raise _damaged()
    table, counts = entry.read(torch.float64), [i for i, name in enumerate(names) if name in ("step", "tokens")]
    if not torch.equal(table[:, counts], table[:, counts].trunc()) or not table[:, counts].isfinite().all():
        raise _damaged()
    rows = (dict(zip(names, numbers)) for numbers in table.tolist())
    return [StepRow(**row | {names[i]: int(row[names[i]]) for i in counts}) for row in rows]


def _damaged() -> CheckpointError:
    return CheckpointError(f"{TRAINING_STATE} is damaged; save or download it again.")
