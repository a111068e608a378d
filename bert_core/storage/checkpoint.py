"""A model as a Hugging Face folder: written so that `transformers` opens it, read without trusting a byte of it.

Nothing here is a pickle. What is guaranteed when a write is interrupted stands in `save_checkpoint`, what a foreign
folder must be like in `load_checkpoint`.
"""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from bert_core.atomic_folder import replacing, restore_backup
from bert_core.config import BertConfig
from bert_core.data.tokenizer import PAD, SPECIAL_TOKENS
from bert_core.errors import CheckpointError, ConfigError, quoted
from bert_core.model import BertForPreTraining, draw_weights, extend_positions
from bert_core.storage.tokenizer_file import load_tokenizer, save_tokenizer
from bert_core.storage.untrusted import read_json, unzip
from bert_core.storage.weights import CONFIG, INDEX, PARTS, WEIGHTS, check_finite, read_weights

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
VOCABULARY = "vocab.txt"
RECIPE = "recipe.json"
TRAINING_STATE = "training_state.json"  # these two are written and read by `bert_core.runs.saved_state`
TRAINING_TENSORS = "training_state.safetensors"

MAX_PARAMETERS = 500_000_000  # bert-large has 336 million
MAX_ARCHIVE_BYTES = 2**30

_PART_TITLES = {"pooler": "the pooler", "mlm": "the masked-word head", "nsp": "the next-sentence head"}

# Files that belong to a model and must not survive beside another one's.
_MODEL_FILES = {
    *(CONFIG, WEIGHTS, INDEX, TOKENIZER, TOKENIZER_CONFIG, VOCABULARY, RECIPE),
    *("special_tokens_map.json", "added_tokens.json", TRAINING_STATE),
}
_ARCHIVED = re.compile(
    rf"{'|'.join(map(re.escape, [CONFIG, INDEX, TOKENIZER, TOKENIZER_CONFIG, VOCABULARY, RECIPE, TRAINING_STATE]))}"
    r"|training_state\.safetensors|model(-[0-9]{5}-of-[0-9]{5})?\.safetensors"
)

# Sizes that a config.json may leave out, where the world's defaults are not ours.
_HUGGING_FACE_DEFAULTS = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
}
# Fields that change the mathematics, with what this model computes. Other fields that we don't know are harmless.
_FIXED_FIELDS: dict[str, tuple] = {
    "model_type": ("bert",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}


@dataclass(frozen=True)
class Checkpoint:
    """A model with its tokenizer, ready to be asked.

    model: in eval mode. notes: sentences on what the files lacked and what was done about it. missing: those of
    "pooler", "mlm" and "nsp" that the files lacked and that are random now, so that their probes refuse. recipe: the
    settings that it was trained with as JSON data, where they are known.
    """

    model: BertForPreTraining
    tokenizer: Tokenizer
    name: str = "model"
    notes: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()
    recipe: Mapping[str, Any] | None = None

    @property
    def config(self) -> BertConfig:
        """The sizes of the model."""
        return self.model.config


# --- Writing ---------------------------------------------------------------------------------------------------------


def save_checkpoint(
    checkpoint: Checkpoint,
    folder: str | Path,
    *,
    dtype: torch.dtype = torch.float32,
    also: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Write a model as a Hugging Face folder, all or nothing.

    dtype: of the numbers in the file; torch.float16 halves it. also: writes files that belong to the model, such as
    its training state, into the folder it is given. Parts that the checkpoint lacks are left out again.

    Whenever the process is killed or the disk fills up, the folder holds the old model or the new one, never a
    mixture; see `atomic_folder.replacing`. Other files in the folder, such as
    metrics.csv, stay. Raises CheckpointError when weights are not finite or the folder cannot be written.
    """
    folder = Path(folder).resolve()
    tensors = _tensors_to_write(checkpoint, dtype)
    try:
        members = _MODEL_FILES | {path.name for path in folder.glob("*.safetensors")}
        with replacing(folder, last=CONFIG, members=members) as new:
            _write_files(checkpoint, tensors, dtype, new)
            also(new)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"The model was not saved to {folder.name} ({_reason(error)}); what was there before is kept."
        ) from None


def pack_checkpoint(
    checkpoint: Checkpoint, zip_path: str | Path, *, also: Callable[[Path], None] = lambda folder: None
) -> None:
    """Write a model as a zip of its Hugging Face folder, which carries the model's name. also, errors: as
    save_checkpoint."""
    zip_path = Path(zip_path).resolve()
    top = re.sub(r"[^\w.-]+", "-", checkpoint.name).strip("-.") or "model"
    tensors = _tensors_to_write(checkpoint, torch.float32)
    try:
        with tempfile.TemporaryDirectory(dir=zip_path.parent, prefix=".pack-") as temporary:
            folder, archive_path = Path(temporary, top), Path(temporary, f"{top}.zip")
            folder.mkdir()
            _write_files(checkpoint, tensors, torch.float32, folder)
            also(folder)
            with zipfile.ZipFile(archive_path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                for path in sorted(folder.iterdir()):
                    archive.write(path, f"{top}/{path.name}")
            os.replace(archive_path, zip_path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{zip_path.name} was not written ({_reason(error)}).") from None


def unpack_checkpoint(zip_path: str | Path, folder: str | Path, *, max_bytes: int = MAX_ARCHIVE_BYTES) -> None:
    """Take the files of a model out of a foreign zip; `load_checkpoint(folder)` then checks what is in them.

    folder: made here, and gone again when something is wrong. max_bytes: of all files together. The files may stand
    at the top of the archive or in one folder; files that are no part of a model are left where they are. Raises
    CheckpointError.
    """
    zip_path, folder = Path(zip_path), Path(folder)
    try:
        folder.mkdir(parents=True)
        try:
            unzip(zip_path, folder, _ARCHIVED, max_bytes)
            if not (folder / CONFIG).exists():
                raise CheckpointError(
                    f"{zip_path.name} has no {CONFIG}, at its top or in one folder; pack a model folder."
                )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    except OSError as error:
        raise CheckpointError(f"{zip_path.name} cannot be unpacked ({_reason(error)}).") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _tensors_to_write(checkpoint: Checkpoint, dtype: torch.dtype) -> dict[str, Tensor]:
    left_out = tuple(PARTS[part] for part in checkpoint.missing)
    tensors = {
        name: tensor.detach().to("cpu", dtype).contiguous()
        for name, tensor in checkpoint.model.state_dict().items()
        if not name.startswith(left_out)
    }
    check_finite(tensors, "The model was not saved", "train it again with a lower learning rate")
    return tensors


def _write_files(checkpoint: Checkpoint, tensors: dict[str, Tensor], dtype: torch.dtype, folder: Path) -> None:
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod(0o644)  # the library lets nobody else read it
    save_tokenizer(checkpoint.tokenizer, folder / TOKENIZER)
    # With another class, or none, `transformers` makes a word vocabulary into WordPiece; without the input names it
    # drops the segments.
    _write_json(
        folder / TOKENIZER_CONFIG,
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS},
            "model_max_length": checkpoint.config.max_position_embeddings,
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        },
    )
    if checkpoint.recipe is not None:
        _write_json(folder / RECIPE, checkpoint.recipe)
    _write_json(
        folder / CONFIG,
        {
            "architectures": ["BertForPreTraining"],
            "model_type": "bert",
            **dataclasses.asdict(checkpoint.config),
            "tie_word_embeddings": True,
            "dtype": str(dtype).removeprefix("torch."),
        },
    )


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(dict(content), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


# --- Reading ---------------------------------------------------------------------------------------------------------


def load_checkpoint(folder: str | Path, *, max_positions: int | None = None) -> Checkpoint:
    """Open a Hugging Face BERT folder, checking everything before anything is built from it.

    Read are config.json, model.safetensors (or its parts and their index), tokenizer.json or vocab.txt,
    tokenizer_config.json and recipe.json. Tensor names may lack the `bert.` prefix or be the old gamma and beta;
    numbers may be float32, float16 or bfloat16 and become float32. The pooler and the heads may be missing, each
    whole; they are then new (drawn from a fixed seed), listed in `missing` and named in `notes`. No random number is
    drawn from PyTorch's global generator.

    max_positions: longest input in tokens that the model is to read, where that is more than the weights have; their
    positions stay, the others are new (from a fixed seed) and `notes` says so. None, or as many as there are, changes
    nothing. No connection is ever made: `bert_core.storage.hub` fetches models by name.

    Raises CheckpointError with the file, what differs, and the remedy.
    """
    folder = Path(folder).resolve()
    with contextlib.suppress(OSError):
        restore_backup(folder)
    if not folder.is_dir():
        raise CheckpointError(f"There is no folder {folder.name!r}; give the folder that holds {CONFIG}.")
    content = read_json(folder / CONFIG)
    config = _read_config(content)
    if max_positions is not None:
        _check_positions(config, max_positions)
    tokenizer = _read_tokenizer(folder)
    tokens = tokenizer.get_vocab_size()
    if tokens > config.vocab_size:
        raise CheckpointError(
            f"The tokenizer has {tokens:,} tokens where {CONFIG} has a vocab_size of {config.vocab_size:,}; "
            "take both from the same model."
        )
    notes = []
    if tokens < config.vocab_size:
        notes.append(
            f"The tokenizer has no text for the last {config.vocab_size - tokens:,} of {config.vocab_size:,} ids."
        )
    config = dataclasses.replace(config, pad_token_id=tokenizer.token_to_id(PAD))
    with torch.device("meta"):
        model = BertForPreTraining(config)
    missing = _fill(model, folder, tied=content.get("tie_word_embeddings") in (True, None))
    if missing:
        *others, last = [title for part, title in _PART_TITLES.items() if part in missing]
        parts, are = (f"{', '.join(others)} and {last}", "they are") if others else (last, "it is")
        notes.append(f"The files lack {parts}; {are} new and untrained here.")
    known = config.max_position_embeddings
    if max_positions is not None and max_positions > known:
        extend_positions(model, max_positions, torch.Generator().manual_seed(0))
        notes.append(f"The weights have {known:,} positions; {known + 1:,} to {max_positions:,} are new and untrained.")
    return Checkpoint(model.eval(), tokenizer, folder.name, tuple(notes), missing, _read_recipe(folder))


def _read_config(content: dict[str, Any]) -> BertConfig:
    for field, allowed in _FIXED_FIELDS.items():
        if content.get(field) not in allowed:
            raise CheckpointError(
                f"{CONFIG} has {field} {quoted(content.get(field))}; this program computes {allowed[0]!r} only."
            )
    names = {field.name for field in dataclasses.fields(BertConfig)}
    given = {name: value for name, value in content.items() if name in names and value is not None}
    try:
        config = BertConfig(**{**_HUGGING_FACE_DEFAULTS, **given})
    except ConfigError as error:
        raise CheckpointError(f"{CONFIG}: {error}") from None
    _check_size(config, f"{CONFIG} asks for")
    return config


def _check_size(config: BertConfig, who_asks: str) -> None:
    if config.parameter_count() > MAX_PARAMETERS:
        raise CheckpointError(
            f"{who_asks} {config.parameter_count():,} parameters; the limit is {MAX_PARAMETERS:,}. "
            "Choose a smaller model."
        )


def _check_positions(config: BertConfig, max_positions: int) -> None:
    """Raise CheckpointError unless a model of these sizes can read `max_positions` tokens."""
    try:
        longer = dataclasses.replace(config, max_position_embeddings=max_positions)
    except ConfigError as error:
        raise CheckpointError(f"max_positions cannot be used: {error}") from None
    if max_positions < config.max_position_embeddings:
        raise CheckpointError(
            f"max_positions is {max_positions:,}; the weights have {config.max_position_embeddings:,} positions, and "
            "none is taken away. Ask for as many or more."
        )
    _check_size(longer, f"{max_positions:,} positions make")


def _read_tokenizer(folder: Path) -> Tokenizer:
    settings = read_json(folder / TOKENIZER_CONFIG) if (folder / TOKENIZER_CONFIG).exists() else {}
    for name in (TOKENIZER, VOCABULARY):
        if (folder / name).exists():
            return load_tokenizer(folder / name, settings)
    raise CheckpointError(f"The folder has neither {TOKENIZER} nor {VOCABULARY}; add the one of this model.")


def _read_recipe(folder: Path) -> Mapping[str, Any] | None:
    """What recipe.json holds; a file of that name that is something else is no reason to refuse a model."""
    with contextlib.suppress(CheckpointError):
        return read_json(folder / RECIPE)
    return None


def _fill(model: BertForPreTraining, folder: Path, *, tied: bool) -> frozenset[str]:
    """Give a model on the meta device its weights; returns the parts that the files lack and that are new."""
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    tensors, missing = read_weights(folder, shapes, tied=tied)
    new = {name: torch.empty(shape) for name, shape in shapes.items() if name not in tensors}
    draw_weights(new.items(), model.config.initializer_range, torch.Generator().manual_seed(0))
    model.load_state_dict({**tensors, **new}, assign=True)
    return missing
