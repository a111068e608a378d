"""What a saved model needs beside its weights so that its training goes on as if it had never stopped.

Two files in the model's folder, besides recipe.json with settings and seed: training_state.safetensors holds the
optimizer's averages and the numbers of all steps so far, training_state.json how far it is and which text it needs.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from bert_core.data.corpus import Corpus
from bert_core.errors import CheckpointError, CorpusError
from bert_core.runs.prepare import Prepared
from bert_core.runs.recipe import Recipe, check_seed, recipe_corpus
from bert_core.storage.checkpoint import RECIPE, TRAINING_STATE, TRAINING_TENSORS, Checkpoint
from bert_core.storage.safetensors_file import FLOATS, read_header, read_tensor
from bert_core.storage.untrusted import read_json
from bert_core.storage.weights import check_finite
from bert_core.training.evaluation import EvaluationPoint
from bert_core.training.trainer import StepMetrics, Trainer, TrainerState

_HISTORY, _EVALUATIONS = "history", "evaluations"
_MAX_SETTINGS_BYTES = 256 * 2**10  # of recipe.json and of training_state.json, which have a few kB
_MAX_STEPS = 1_000_000  # a row of numbers is kept in memory for each


@dataclass(frozen=True)
class TrainingState:
    """recipe, seed: what the run is trained with, at scale and with all parts of its training. text: fingerprint of the
    whole text. trainer: the optimizer's state. history, evaluations: all rows so far."""

    recipe: Recipe
    seed: int
    text: str
    trainer: TrainerState
    history: Sequence[StepMetrics]
    evaluations: Sequence[EvaluationPoint]

    @classmethod
    def of(
        cls,
        prepared: Prepared,
        trainer: Trainer,
        history: Sequence[StepMetrics],
        evaluations: Sequence[EvaluationPoint],
    ) -> "TrainingState":
        """A copy of the state of a trainer, with the rows so far."""
        recipe = dataclasses.replace(prepared.recipe, training=trainer.config)
        text = prepared.corpus.fingerprint
        return cls(recipe, prepared.seed, text, trainer.state(), list(history), list(evaluations))

    def text_to_go_on(self, corpus: Corpus | None) -> Corpus:
        """The text of the run: the one that is given or else the recipe's own. Raises CorpusError for another one."""
        corpus = corpus or recipe_corpus(self.recipe)
        if corpus.fingerprint != self.text:
            raise CorpusError(
                f"{corpus.name} is not the text that this model was being trained on; give the same text, unchanged."
            )
        return corpus

    def trainer_of(self, prepared: Prepared, checkpoint: Checkpoint, device: str) -> Trainer:
        """A trainer that goes on where this state stands.

        prepared: from this state's recipe, seed and text. checkpoint: the weights of the same step. Raises
        CheckpointError when they do not belong together.
        """
        if (
            checkpoint.config != prepared.model.config
            or checkpoint.tokenizer.get_vocab() != prepared.tokenizer.get_vocab()
        ):
            raise CheckpointError(
                "The model does not fit its recipe.json, or this program cuts words in another way than the one that "
                "saved it; its training cannot go on."
            )
        prepared.model.load_state_dict(checkpoint.model.state_dict())
        trainer = prepared.trainer(device)
        trainer.restore(self.trainer)
        return trainer

    def writer(self) -> Callable[[Path], None]:
        """What `save_checkpoint` calls to write the two files beside the model."""
        return lambda folder: _write(self, folder)


def _write(state: TrainingState, folder: Path) -> None:
    tables = {_HISTORY: state.history, _EVALUATIONS: state.evaluations}
    tensors = {name: average.cpu().contiguous() for name, average in state.trainer.averages.items()}
    tensors |= {
        name: torch.tensor([dataclasses.astuple(row) for row in rows], dtype=torch.float64)
        for name, rows in tables.items()
        if rows
    }
    check_finite(state.trainer.averages, "The training was not saved", "train it again with a lower learning rate")
    save_file(tensors, folder / TRAINING_TENSORS)
    (folder / TRAINING_TENSORS).chmod(0o644)
    content = {
        "step": state.trainer.step,
        "seconds": state.trainer.seconds,
        "updates": list(state.trainer.updates),
        "text": state.text,
        "columns": {_HISTORY: _columns(StepMetrics), _EVALUATIONS: _columns(EvaluationPoint)},
    }
    (folder / TRAINING_STATE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_training_state(folder: str | Path) -> TrainingState:
    """The state that was saved beside a model, all of it checked. Raises CheckpointError or, for recipe.json,
    ConfigError."""
    folder = Path(folder)
    if not (folder / TRAINING_STATE).exists():
        raise CheckpointError(
            f"{folder.name} holds a model without its training state; it can be used, but its training cannot go on."
        )
    facts, settings = (read_json(folder / name, _MAX_SETTINGS_BYTES) for name in (TRAINING_STATE, RECIPE))
    check_seed(settings.get("seed"))
    recipe = Recipe.from_dict("saved", settings)
    step, seconds, updates, text = (facts.get(name) for name in ("step", "seconds", "updates", "text"))
    if (
        not (_is_count(step) and step <= recipe.training.total_steps)
        or not isinstance(seconds, float | int)
        or not (isinstance(updates, list) and all(map(_is_count, updates)))
        or not isinstance(text, str)
        or facts.get("columns") != {_HISTORY: _columns(StepMetrics), _EVALUATIONS: _columns(EvaluationPoint)}
    ):
        raise _not_ours()
    entries = read_header(folder / TRAINING_TENSORS)
    if not all(entry.dtype in (*FLOATS, "F64") for entry in entries.values()):
        raise _not_ours()
    if step > _MAX_STEPS:
        raise CheckpointError(f"This training has done {step:,} steps; the limit is {_MAX_STEPS:,}, it cannot go on.")
    for name, most in ((_HISTORY, step), (_EVALUATIONS, step + 1)):
        if name in entries and entries[name].shape[:1] > (most,):
            raise _not_ours()
    averages = {name: read_tensor(entry) for name, entry in entries.items() if name not in (_HISTORY, _EVALUATIONS)}
    check_finite(averages, "The training cannot go on", "save the model again")
    history, evaluations = (
        _rows(kind, read_tensor(entries[name], torch.float64) if name in entries else None)
        for name, kind in ((_HISTORY, StepMetrics), (_EVALUATIONS, EvaluationPoint))
    )
    if [row.step for row in history] != list(range(1, step + 1)):
        raise _not_ours()
    return TrainingState(
        recipe,
        settings["seed"],
        text,
        TrainerState(step, float(seconds), tuple(updates), averages),
        history,
        evaluations,
    )


def _rows(kind: type, table: Tensor | None) -> list[Any]:
    if table is None:
        return []
    whole = [item.type is int for item in dataclasses.fields(kind)]
    if table.ndim != 2 or table.shape[1] != len(whole) or not table[:, whole].isfinite().all():
        raise _not_ours()
    return [kind(*(int(x) if is_whole else x for x, is_whole in zip(row, whole))) for row in table.tolist()]


def _columns(kind: type) -> list[str]:
    return [item.name for item in dataclasses.fields(kind)]


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 10**9


def _not_ours() -> CheckpointError:
    return CheckpointError(f"{TRAINING_STATE} and {TRAINING_TENSORS} do not belong together; download the model again.")
