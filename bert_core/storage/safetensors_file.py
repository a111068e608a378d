"""Reads untrusted safetensors files.

A file has eight bytes (the header's length, little endian), a JSON header (name -> dtype, shape, offsets) and the
numbers. This module checks the header, because the library needs seconds and hundreds of megabytes for a malicious one
and accepts repeated names.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bert_core.errors import CheckpointError, megabytes, quoted
from bert_core.storage.untrusted import parse_json

MAX_HEADER_BYTES = 256 * 2**10
MAX_TENSORS = 1024  # 48 layers have 783
_MAX_VALUES = 16 * MAX_TENSORS  # a tensor has about eight

FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@dataclass(frozen=True)
class TensorEntry:
    """A tensor in a file: its dtype as in the header, its shape, and the bytes from `start` up to `end`."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def read_header(path: Path) -> dict[str, TensorEntry]:
    """All tensors of a safetensors file by name.

    Raises CheckpointError if the file is incomplete, its header is too large or malformed, a name is repeated, or the
    tensors overlap, leave holes or do not end with the file.
    """
    try:
        if not path.is_file():
            raise CheckpointError(f"{path.name} is missing; download the model folder again.")
        file_bytes = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if file_bytes < 10 or length > file_bytes - 8:
                raise CheckpointError(f"{path.name} is incomplete or not a safetensors file; download it again.")
            if length > MAX_HEADER_BYTES:
                raise CheckpointError(
                    f"The header of {path.name} has {megabytes(length)}; the limit is {megabytes(MAX_HEADER_BYTES)}."
                )
            header = parse_json(file.read(length), path.name, _MAX_VALUES)
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read ({error.strerror}); check the folder.") from None
    header.pop("__metadata__", None)
    if len(header) > MAX_TENSORS:
        raise CheckpointError(f"{path.name} has {len(header):,} tensors; the limit is {MAX_TENSORS:,}.")
    entries = {name: _entry(path, name, fields, 8 + length) for name, fields in header.items()}
    position = 8 + length
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start != position:
            raise CheckpointError(f"{path.name}: {quoted(name)} overlaps others or leaves a hole; export it again.")
        position = entry.end
    if position != file_bytes:
        raise CheckpointError(
            f"{path.name} has {file_bytes:,} bytes and its header describes {position:,}; download or export it again."
        )
    return entries


def read_tensor(entry: TensorEntry, dtype: torch.dtype = torch.float32) -> Tensor:
    """Read a floating-point tensor, converted to `dtype`. Raises CheckpointError if the file has become shorter."""
    data = bytearray(entry.end - entry.start)
    try:
        with entry.path.open("rb") as file:
            file.seek(entry.start)
            complete = file.readinto(data) == len(data)
    except OSError as error:
        raise CheckpointError(f"{entry.path.name} cannot be read ({error.strerror}); check the folder.") from None
    if not complete:
        raise CheckpointError(f"{entry.path.name} changed while it was read; try again.")
    stored = {**FLOATS, "F64": torch.float64}[entry.dtype]
    numbers = torch.frombuffer(data, dtype=stored) if data else torch.empty(0, dtype=stored)
    return numbers.view(entry.shape).to(dtype)


def _entry(path: Path, name: str, fields: Any, data_start: int) -> TensorEntry:
    fields = fields if isinstance(fields, dict) else {}
    dtype, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if (
        not isinstance(dtype, str)
        or dtype not in _ITEM_BYTES
        or not _are_sizes(shape, 8)
        or not _are_sizes(offsets, 2)
        or len(offsets) != 2
        or offsets[1] - offsets[0] != math.prod(shape) * _ITEM_BYTES[dtype]
    ):
        raise CheckpointError(f"{path.name}: the entry of {quoted(name)} is malformed; export the model again.")
    return TensorEntry(path, dtype, tuple(shape), data_start + offsets[0], data_start + offsets[1])


def _are_sizes(values: Any, longest: int) -> bool:
    return isinstance(values, list) and len(values) <= longest and all(type(v) is int and v >= 0 for v in values)
