"""Reads untrusted safetensors files.

A file has eight bytes (the header's length, little endian), a JSON header and the numbers. The library checks the
header; its size is limited here before, because the library needs seconds for megabytes and accepts repeated names.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bert_core.errors import CheckpointError, megabytes
from bert_core.storage.untrusted import parse_json

MAX_HEADER_BYTES = 256 * 2**10
MAX_TENSORS = 1024  # 48 layers have 783
_MAX_VALUES = 16 * MAX_TENSORS  # a tensor has about eight

FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class TensorEntry:
    """A tensor in a file: its name and dtype there, and its shape."""

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]


def read_header(path: Path) -> dict[str, TensorEntry]:
    """All tensors of a safetensors file by name. Raises CheckpointError if the file is incomplete, its header is too
    large or malformed, a name is repeated, or the tensors overlap, leave holes or do not end with the file."""
    try:
        if not path.is_file():
            raise CheckpointError(f"{path.name} is missing; download the model folder again.")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > path.stat().st_size - 8:
                raise CheckpointError(f"{path.name} is incomplete or not a safetensors file; download it again.")
            if length > MAX_HEADER_BYTES:
                raise CheckpointError(
                    f"The header of {path.name} has {megabytes(length)}; the limit is {megabytes(MAX_HEADER_BYTES)}."
                )
            header = parse_json(file.read(length), path.name, _MAX_VALUES)
        if len(header) > MAX_TENSORS:
            raise CheckpointError(f"{path.name} has {len(header):,} tensors; the limit is {MAX_TENSORS:,}.")
        with safe_open(path, "pt") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
            return {
                name: TensorEntry(path, name, each.get_dtype(), tuple(each.get_shape()))
                for name, each in slices.items()
            }
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read ({error.strerror}); check the folder.") from None
    except SafetensorError as error:
        raise CheckpointError(f"{path.name} is damaged ({error}); download or export it again.") from None


def read_tensor(entry: TensorEntry, dtype: torch.dtype = torch.float32) -> Tensor:
    """Read a tensor as `dtype`. Raises CheckpointError if the file has changed since its header was read."""
    try:
        with safe_open(entry.path, "pt") as tensors:
            # A copy, because the numbers of a mapped file would change with it.
            return tensors.get_tensor(entry.name).to(dtype, copy=True)
    except (OSError, SafetensorError):
        raise CheckpointError(f"{entry.path.name} changed while it was read; try again.") from None
