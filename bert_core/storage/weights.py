"""Reads safetensors files, and the weights of a model folder, as untrusted: names, shapes and numbers are checked.

A file has eight bytes (the header's length, little endian), a JSON header and the numbers. The library checks the
header; its size is limited here before, because the library needs seconds for megabytes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bert_core.config import LOCAL, Limits
from bert_core.errors import CheckpointError, first_three, ignore, megabytes, quoted
from bert_core.storage.untrusted import parse_json, part, read_limited, while_same

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

POSITIONS = "bert.embeddings.position_embeddings.weight"

MAX_SHARDS = 16
MAX_HEADER_BYTES = 512 * 2**10  # 48 layers, twice in a training state, have 200 kB
FLOATS = ("F32", "F16", "BF16")

_CHECKED_AT_ONCE = 2**20  # numbers; PyTorch's check copies them twice

Shapes = Mapping[str, tuple[int, ...]]

# The parts that may be missing, each as a whole. All other tensors are required.
PARTS = {"pooler": "bert.pooler.", "mlm": "cls.predictions.", "nsp": "cls.seq_relationship."}

# The output layers of fine-tuned models, by class: the name of the layer, and whether its model has a pooler.
TASK_HEADS = {
    "BertForSequenceClassification": ("classifier", True),
    "BertForMultipleChoice": ("classifier", True),
    "BertForQuestionAnswering": ("qa_outputs", False),
    "BertForTokenClassification": ("classifier", False),
}
# Read only if the config names their class; buffers that old versions saved are ignored.
_OUTPUT_LAYERS = tuple({f"{layer}." for layer, _ in TASK_HEADS.values()})
_BUFFERS = ("bert.embeddings.position_ids", "bert.embeddings.token_type_ids")
# Second names under which files may repeat the output matrix and bias.
_WORD_BIAS = "cls.predictions.bias"
_COPIES = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": _WORD_BIAS,
}


@dataclass(frozen=True)
class Stored:
    """A tensor in an open file, not yet read. file: the name of the file."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    _opened: Any
    _name: str

    def read(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """A copy, because the numbers of a mapped file would change with it."""
        return self._opened.get_tensor(self._name).to(dtype, copy=True)


def open_tensors(path: Path) -> dict[str, Stored]:
    """All tensors of a safetensors file by name. The file is opened once, so that they are of one save even if another
    one replaces it meanwhile.

    Raises CheckpointError if the file is incomplete or damaged, its header is too large, or the tensors overlap, leave
    holes or do not end with the file.
    """
    try:
        if not path.is_file():
            raise CheckpointError(f"{path.name} is missing; download the model folder again.")
        with path.open("rb") as file:
            if int.from_bytes(file.read(8), "little") > MAX_HEADER_BYTES:
                most = megabytes(MAX_HEADER_BYTES)
                raise CheckpointError(f"{path.name} is not a safetensors file, or its header has more than {most}.")
        opened = while_same(path, lambda: safe_open(path, "pt"))  # it checks the header, and opens the file twice
        slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118  # it is no mapping
        return {
            name: Stored(path.name, each.get_dtype(), tuple(each.get_shape()), opened, name)
            for name, each in slices.items()
        }
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read ({error.strerror}); check the folder.") from None
    except SafetensorError as error:
        raise CheckpointError(f"{path.name} is damaged ({error}); download or export it again.") from None


def open_weights(folder: Path, limits: Limits = LOCAL) -> dict[str, Stored]:
    """The tensors in all files of a model folder, under the names in the files: one file, or several with an index."""
    if (folder / WEIGHTS).exists():
        return open_tensors(folder / WEIGHTS)
    if not (folder / INDEX).exists():
        if parts := sorted(path.name for path in folder.glob("*.safetensors") if "training" not in path.name):
            raise CheckpointError(
                f"The folder has {first_three(parts)}, but no {INDEX} and no {WEIGHTS}; add the one or the other."
            )
        raise CheckpointError(
            f"The folder has no {WEIGHTS}. With --random-weights, the command line begins with random ones. Weights in "
            ".bin, .pt and .ckpt files are never opened, because such a file can run programs. To convert a file that "
            f"you trust, run Python in its folder:\n{CONVERSION}"
        )
    index = parse_json(read_limited(folder / INDEX, limits), INDEX)
    files = {str(name) for name in part(index, "weight_map", dict, {"": ""}).values()}
    if not all(re.fullmatch(r"\w[\w.-]*\.safetensors", name) for name in files):
        raise CheckpointError(f"{INDEX} must map every tensor to the name of a .safetensors file beside it.")
    if len(files) > MAX_SHARDS:
        raise CheckpointError(f"{INDEX} names {len(files):,} files; the limit is {MAX_SHARDS}.")
    stored: dict[str, Stored] = {}
    for file in sorted(files):
        more = open_tensors(folder / file)
        if repeated := stored.keys() & more.keys():
            raise CheckpointError(f"{file} holds {first_three(map(quoted, sorted(repeated)))} a second time.")
        stored.update(more)
    return stored


# The weights alone, without any other object of the pickle, and each tensor with memory of its own.
CONVERSION = f"""import torch, safetensors.torch as safe; weights = torch.load("pytorch_model.bin", weights_only=True)
safe.save_file({{name: each.contiguous().clone() for name, each in weights.items()}}, "{WEIGHTS}")"""


def read_weights(
    stored: Mapping[str, Stored], shapes: Shapes, *, tied: bool, note: Callable[[str], None] = ignore
) -> tuple[dict[str, Tensor], frozenset[str]]:
    """The weights of a model as float32, and the names of the missing PARTS.

    stored: the tensors of its files; without the `bert.` prefix, under the old names gamma and beta, in float32,
    float16 or bfloat16 as well. shapes: every tensor of the model with its shape, under Hugging Face's names. tied:
    whether the config shares one matrix between input and output. note: called with a sentence on an output layer that
    is left out. Raises CheckpointError with the file, the first three differences and the remedy; names and shapes are
    checked before any tensor is read.
    """
    entries = _with_current_names(stored, shapes)
    unread = stored.keys() - shapes.keys()
    if others := sorted(layer[:-1] for layer in _OUTPUT_LAYERS if any(name.startswith(layer) for name in unread)):
        note(
            f"The files have an output layer ({first_three(others)}) that is left out, since the first of the "
            f"architectures in {CONFIG} is no task's class that has it."
        )
    missing = frozenset(part for part, prefix in PARTS.items() if not any(name.startswith(prefix) for name in entries))
    _check_entries(entries, shapes, missing)
    if not tied and "mlm" not in missing and "cls.predictions.decoder.weight" not in entries:
        raise CheckpointError(f"{CONFIG} has tie_word_embeddings false, but the weights lack the output matrix.")

    tensors = {name: entry.read() for name, entry in entries.items()}
    check_finite(tensors, "The weights cannot be used", "export the model again")
    for copy, original in _COPIES.items():
        if copy in tensors and not torch.equal(tensors.pop(copy), tensors[original]):
            raise CheckpointError(
                f"{copy} differs from {original}; this program shares one between input and output, as BERT does."
            )
    return tensors, missing


def _with_current_names(stored: Mapping[str, Stored], shapes: Shapes) -> dict[str, Stored]:
    """The tensors under Hugging Face's current names, without those that this model does not have."""
    is_prefixed = any(name.startswith("bert.") for name in stored)
    renamed: dict[str, Stored] = {}
    for name, entry in stored.items():
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
        name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
        if not is_prefixed and name.startswith(("embeddings.", "encoder.", "pooler.")):
            name = f"bert.{name}"
        if name in renamed:
            raise CheckpointError(f"{entry.file} holds {quoted(name)} under two names; export the model again.")
        is_ignored = name.startswith(_OUTPUT_LAYERS) and name not in shapes
        if not is_ignored and name not in _BUFFERS:
            renamed[name] = entry
    if _WORD_BIAS not in renamed and "cls.predictions.decoder.bias" in renamed:
        renamed[_WORD_BIAS] = renamed.pop("cls.predictions.decoder.bias")
    return renamed


def _check_entries(entries: Mapping[str, Stored], shapes: Shapes, missing: frozenset[str]) -> None:
    """Raise CheckpointError with the first three differences between the files and the config."""
    missing_prefixes = tuple(PARTS[part] for part in missing)
    expected = {**shapes, **{copy: shapes[original] for copy, original in _COPIES.items() if copy in entries}}
    differences = []
    for name, shape in expected.items():
        entry = entries.get(name)
        if entry is None:
            if not name.startswith(missing_prefixes):
                differences.append(f"{name} is missing")
        elif entry.shape != shape:
            differences.append(f"{name} has the shape {list(entry.shape)} instead of {list(shape)}")
        elif entry.dtype not in FLOATS:
            differences.append(f"{name} is {entry.dtype} instead of {', '.join(FLOATS)}")
    differences += [f"{quoted(name)} is unknown" for name in entries.keys() - expected]
    if differences:
        files = first_three(sorted({entry.file for entry in entries.values()})) or WEIGHTS
        raise CheckpointError(f"{files} does not fit {CONFIG}: {first_three(differences)}; take both from one model.")


def check_finite(tensors: Mapping[str, Tensor], problem: str, remedy: str) -> None:
    """Raise CheckpointError with `problem`, the tensors with NaN or infinity, and `remedy`."""
    counts = {
        name: sum(part.numel() - int(part.isfinite().sum()) for part in tensor.flatten().split(_CHECKED_AT_ONCE))
        for name, tensor in tensors.items()
    }
    bad = [f"{count:,} in {name}" for name, count in counts.items() if count]
    if bad:
        raise CheckpointError(f"{problem}: some numbers are NaN or infinite ({first_three(bad)}); {remedy}.")
