"""The training state that is saved beside a model, so that its training continues as if it had never stopped.

training_state.safetensors holds the optimizer's averages and the numbers of all steps so far, training_state.json the
step, the fingerprint of the text and the SHA-256 of all other files of the save. recipe.json, which every model has,
holds the settings and the seed.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from bert_core.config import check_seed
from bert_core.errors import CheckpointError, CorpusError, quoted
from bert_core.machine import share
from bert_core.runs.recipe import FinetuningRecipe, Recipe, Source
from bert_core.storage.checkpoint import MODEL_FILES, RECIPE, TOKENIZER, TRAINING_STATE, TRAINING_TENSORS
from bert_core.storage.untrusted import read_json
from bert_core.storage.weights import CONFIG, FLOATS, WEIGHTS, TensorEntry, check_finite, read_header, read_tensor
from bert_core.training.objective import StepRow
from bert_core.training.trainer import TrainerState

_LAST = "last"  # the weights of the last step, in one tensor as the averages, where the model has others
_HASHED = {CONFIG, WEIGHTS, TOKENIZER, RECIPE, TRAINING_TENSORS}  # at least
_MAX_SETTINGS_BYTES = 256 * 2**10  # of recipe.json and of training_state.json, which have a few kB
_LONGEST_NAME = 255  # letters, as of a file
_MAX_STEPS = 1_000_000  # the numbers of each are kept in memory


@dataclass(frozen=True)
class TrainingState:
    """The state of a run after a step. last: the weights of this step, in one tensor, where the saved model is that of
    a task's best epoch; None where it is that of this step."""

    recipe: Any  # a Recipe or, for a task, a FinetuningRecipe; at scale, with the seed and all parts of its training
    text: str  # fingerprint of the whole text or task
    trainer: TrainerState
    history: Sequence[StepRow]  # of all steps so far
    evaluations: Sequence[StepRow]  # the held-out curve so far
    last: Tensor | None = None

    def matching(self, source: Source | None) -> Source:
        """The given text or task, or the recipe's own for None. Raises CorpusError for another than was trained on."""
        source = source or self.recipe.source()
        if source.fingerprint != self.text:
            raise CorpusError(
                f"{source.name} is not the text that this model was being trained on; give the same text, unchanged."
            )
        return source

    def write(self, folder: Path) -> None:
        """Write the two files into a folder that has the model's files and no others, for `save_checkpoint`."""
        check_finite(self.trainer.averages, "The training was not saved", "train it again with a lower learning rate")
        tensors = {name: average.contiguous() for name, average in self.trainer.averages.items()}
        tables = {"history": self.history, "evaluations": self.evaluations}
        for name, rows in tables.items():
            if rows:
                table = [[*vars(row).values()] for row in rows]
                tensors[name] = torch.tensor(table, dtype=torch.float64)
        if self.last is not None:
            tensors[_LAST] = self.last.cpu()
        save_file(tensors, folder / TRAINING_TENSORS)
        share(folder / TRAINING_TENSORS)
        content = {
            "step": self.trainer.step,
            "seconds": self.trainer.seconds,
            "updates": self.trainer.updates,
            "text": self.text,
            "recipe": self.recipe.name,
            "columns": {name: list(vars(rows[0]))[1:] if rows else [] for name, rows in tables.items()},
            "sha256": {path.name: _sha256(path) for path in sorted(folder.iterdir())},
        }
        (folder / TRAINING_STATE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_training_state(folder: str | Path) -> TrainingState:
    """Read and check the state beside a model. Raises CheckpointError or, for recipe.json, ConfigError."""
    folder = Path(folder)
    if not (folder / TRAINING_STATE).exists():
        raise CheckpointError(
            f"{folder.name} holds a model without its training state; the model works, but cannot be trained further."
        )
    facts, settings = (read_json(folder / name, most_bytes=_MAX_SETTINGS_BYTES) for name in (TRAINING_STATE, RECIPE))
    check_seed(settings.get("seed"))
    match facts:
        case {
            "recipe": str() as name,
            "step": int() as step,
            "seconds": float() | int() as seconds,
            "updates": [*updates],
            "text": str() as text,
            "columns": {"history": names, "evaluations": [*measures]} as columns,
            "sha256": dict() as hashes,
        } if (
            len(name) <= _LONGEST_NAME
            and all(map(_is_count, [step, *updates]))
            and all(map(_is_name, measures))
            and hashes.keys() >= _HASHED
        ):
            pass
        case _:
            raise _mismatch()
    recipe = (FinetuningRecipe if "task" in settings else Recipe).from_dict(name, settings)
    if step > recipe.training.total_steps:
        raise _mismatch()
    if names != (list(recipe.names) if step else []):
        raise CheckpointError("Another version of this program has saved this training; start it again.")
    for name, digest in hashes.items():
        if not MODEL_FILES.fullmatch(name) or not (folder / name).is_file() or _sha256(folder / name) != digest:
            raise CheckpointError(
                f"{quoted(name)} is not the file that was saved with {TRAINING_STATE}; the model may work, but its "
                "training cannot continue. Save or download it again."
            )
    if step > _MAX_STEPS:
        raise CheckpointError(f"This training has done {step:,} steps; the limit is {_MAX_STEPS:,}. Start it again.")
    entries = read_header(folder / TRAINING_TENSORS)
    if not all(entry.dtype in (*FLOATS, "F64") for entry in entries.values()):
        raise _mismatch()
    averages = {name: read_tensor(entry) for name, entry in entries.items() if name not in columns}
    check_finite(averages, "The training cannot continue", "save the model again")
    history, evaluations = (_rows(columns[name], entries.get(name), step + 1) for name in ("history", "evaluations"))
    sizes = {each.shape for each in averages.values()}
    if [row.step for row in history] != list(range(1, step + 1)) or len(sizes) > 1:
        raise _mismatch()
    last = averages.pop(_LAST, None)
    trainer = TrainerState(step, float(seconds), tuple(updates), averages)
    return TrainingState(recipe, text, trainer, history, evaluations, last)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _rows(names: Sequence[str], entry: TensorEntry | None, most: int) -> list[StepRow]:
    """The rows of a table in the file; the size is checked before the numbers are read."""
    if entry is None:
        return []
    if len(entry.shape) != 2 or entry.shape[0] > most or entry.shape[1] != 1 + len(names):
        raise _mismatch()
    rows = []
    for numbers in read_tensor(entry, torch.float64).tolist():
        values = dict(zip(("step", *names), numbers))
        counts = {name: value for name, value in values.items() if name in ("step", "tokens")}
        if not all(map(math.isfinite, counts.values())):
            raise _mismatch()
        rows.append(StepRow(**values | {name: int(value) for name, value in counts.items()}))
    return rows


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= 10**9


def _mismatch() -> CheckpointError:
    return CheckpointError(f"{TRAINING_STATE} and {TRAINING_TENSORS} do not belong together; download the model again.")
