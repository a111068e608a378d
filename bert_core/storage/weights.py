"""Reads safetensors files, and the weights of a model folder, as untrusted: names, shapes and numbers are checked."""

import math
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from bert_core.config import Limits
from bert_core.errors import CheckpointError, first_three, megabytes, quoted
from bert_core.storage.untrusted import read_limited

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
_OTHER_WEIGHTS = re.compile(r"\.(bin|pt|pth|ckpt|h5|msgpack|safetensors)\b")

MAX_HEADER_BYTES = 512 * 2**10  # 48 layers, twice in a training state, have 200 kB
MAX_PARAMETER_BYTES = 6  # in a file, for each parameter of a model: float32, and what is there twice
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


# The parts that may be missing, each as a whole. All other tensors are required.
PARTS = {"pooler": "bert.pooler.", "mlm": "cls.predictions.", "nsp": "cls.seq_relationship."}

# The output layers of fine-tuned models, by class: the name of the layer, and whether its model has a pooler.
TASK_HEADS = {
    "BertForSequenceClassification": ("classifier", True),
    "BertForMultipleChoice": ("classifier", True),
    "BertForQuestionAnswering": ("qa_outputs", False),
    "BertForTokenClassification": ("classifier", False),
}
# Ignored: an output layer of a class that config.json does not name, and buffers that old versions saved.
_IGNORED = ("classifier.", "qa_outputs.", "bert.embeddings.position_ids", "bert.embeddings.token_type_ids")
# Second names under which files may repeat the output matrix and bias.
_COPIES = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


Tensors = Mapping[str, Tensor]  # of a file, by name
Shapes = Mapping[str, tuple[int, ...]]
Named = TypeVar("Named")


def open_tensors(path: Path, max_bytes: int) -> dict[str, Tensor]:
    """All tensors of a safetensors file by name, from one reading of it, because another save may replace it. Raises
    CheckpointError if it is damaged or too large."""
    data = read_limited(path, max_bytes)
    if int.from_bytes(data[:8], "little") > MAX_HEADER_BYTES:  # the library needs seconds for megabytes
        most = megabytes(MAX_HEADER_BYTES)
        raise CheckpointError(f"{path.name} is not a safetensors file, or its header has more than {most}.")
    try:
        return load(data)
    except (SafetensorError, KeyError) as error:
        raise CheckpointError(f"{path.name} is damaged ({error}); download or export it again.") from None


def open_weights(folder: Path, limits: Limits) -> dict[str, Tensor] | None:
    """The tensors in model.safetensors, None in a folder without weights. Raises CheckpointError as `has_weights`, and
    for a damaged or too large file."""
    most = MAX_PARAMETER_BYTES * limits.parameters
    return open_tensors(folder / WEIGHTS, most) if has_weights([path.name for path in folder.iterdir()]) else None


def has_weights(names: Collection[str]) -> bool:
    """Whether files of these names hold weights. Raises CheckpointError if only such do that are not read."""
    if WEIGHTS not in names and (others := sorted(filter(_OTHER_WEIGHTS.search, names))):
        if others[0].endswith(".safetensors"):
            raise CheckpointError(
                f"There is no {WEIGHTS}, but {quoted(others[0])}; save the model with save_pretrained(folder, "
                f'max_shard_size="50GB"), or name its file {WEIGHTS}.'
            )
        raise CheckpointError(
            f"There is no {WEIGHTS}, but {quoted(others[0])}. Weights in .bin, .pt and .ckpt files are never opened, "
            "because such a file can run programs; a folder without weights opens with random ones. To convert a file "
            f"that you trust, run Python in its folder:\n{CONVERSION}"
        )
    return WEIGHTS in names


# The weights alone, without any other object of the pickle, and each tensor with memory of its own.
CONVERSION = f"""import torch, safetensors.torch as safe

weights = torch.load("pytorch_model.bin", weights_only=True)
safe.save_file({{name: each.contiguous().clone() for name, each in weights.items()}}, "{WEIGHTS}")"""


def read_weights(stored: Tensors, shapes: Shapes) -> tuple[dict[str, Tensor], frozenset[str]]:
    """The weights of a model as float32, and which of PARTS are missing.

    stored: the tensors of its files; without the `bert.` prefix, under the old names gamma and beta, in float32,
    float16 or bfloat16 as well. shapes: every tensor of the model with its shape, under Hugging Face's names. Raises
    CheckpointError with the first three differences."""
    entries = _with_current_names(stored, shapes)
    missing = frozenset(part for part, prefix in PARTS.items() if not any(name.startswith(prefix) for name in entries))
    expected = without(shapes, missing)
    expected |= {copy: shapes[original] for copy, original in _COPIES.items() if copy in entries}
    differences = [f"{quoted(name)} is unknown" for name in entries if name not in expected]
    for name, shape in expected.items():
        entry = entries.get(name)
        if entry is None:
            differences.append(f"{name} is missing")
        elif entry.shape != shape or entry.dtype not in FLOATS:
            differences.append(f"{name} is {entry.dtype} {list(entry.shape)} instead of float32 {list(shape)}")
    if differences:
        raise CheckpointError(f"{WEIGHTS} does not fit {CONFIG}: {first_three(differences)}; take both from one model.")

    tensors = {name: entry.float() for name, entry in entries.items()}
    check_finite(tensors, "The weights cannot be used", "export the model again")
    for copy, original in _COPIES.items():
        if copy in tensors and not torch.equal(tensors.pop(copy), tensors[original]):
            raise CheckpointError(
                f"{copy} differs from {original}; this program shares one between input and output, as BERT does."
            )
    return tensors, missing


def without(named: Mapping[str, Named], parts: Collection[str]) -> dict[str, Named]:
    """What belongs to the tensors of a model by name, but for some of PARTS."""
    left_out = tuple(PARTS[part] for part in parts)
    return {name: each for name, each in named.items() if not name.startswith(left_out)}


def _with_current_names(stored: Tensors, shapes: Shapes) -> dict[str, Tensor]:
    """The tensors under Hugging Face's current names, without those that this model does not have."""
    is_prefixed = any(name.startswith("bert.") for name in stored)
    entries: dict[str, Tensor] = {}
    for name, entry in stored.items():
        if not is_prefixed and name.startswith(("embeddings.", "encoder.", "pooler.")):
            name = f"bert.{name}"
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if name in shapes or not name.startswith(_IGNORED):
            entries[name] = entry
    for copy, original in _COPIES.items():
        if copy in entries:
            entries.setdefault(original, entries[copy])
    return entries


def check_finite(tensors: Mapping[str, Tensor], problem: str, remedy: str) -> None:
    """Raise CheckpointError with `problem`, the tensors with NaN or infinity, and `remedy`."""
    # The extremes of a tensor with a NaN are NaN, and need no copy of it.
    bad = [name for name, each in tensors.items() if each.numel() and not all(map(math.isfinite, each.aminmax()))]
    if bad:
        raise CheckpointError(f"{problem}: some numbers are NaN or infinite ({first_three(bad)}); {remedy}.")
