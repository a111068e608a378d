"""Reading files that somebody else wrote: capped in size, as JSON, tensors or a zip, never a pickle.

A safetensors file is eight bytes (the header's length, little endian), a JSON header (name -> dtype, shape, offsets)
and the numbers. The header is checked here by hand, because the library takes seconds and hundreds of megabytes for
a header made to hurt, and accepts the same name twice.
"""

import json
import math
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bert_core.errors import CheckpointError

MAX_JSON_BYTES = 32 * 2**20  # a tokenizer.json of 250,000 tokens has about 10 MB
MAX_HEADER_BYTES = 256 * 2**10
MAX_ZIP_ENTRIES = 1000
MAX_TENSORS = 1024  # 48 layers have 783

_ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor stands: its file, dtype as safetensors spells it, shape, first byte and the byte after its last."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def read_limited(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes. Raises CheckpointError."""
    try:
        if not path.is_file():
            raise CheckpointError(f"{path.name} is missing; a model folder needs it.")
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read ({error.strerror}); check the folder.") from None
    if len(data) > limit:
        raise CheckpointError(f"{path.name} is larger than the limit of {_size(limit)}; it is not a BERT's.")
    return data


def read_json(path: Path, limit: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """A JSON file that holds one object, within `limit` bytes. Raises CheckpointError."""
    return _parse_object(read_limited(path, limit), path.name)


def read_header(path: Path) -> dict[str, TensorEntry]:
    """The names of a safetensors file with their places, all checked against the file's true size.

    Raises CheckpointError when the file is cut off, its header is too large or malformed, a name stands twice, or
    the tensors overlap, leave holes or reach past the end.
    """
    try:
        if not path.is_file():
            raise CheckpointError(f"{path.name} is missing; download the model folder again.")
        file_bytes = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if file_bytes < 10 or length > file_bytes - 8:
                raise CheckpointError(f"{path.name} is cut off or no safetensors file; download or export it again.")
            if length > MAX_HEADER_BYTES:
                raise CheckpointError(
                    f"The header of {path.name} has {_size(length)}; the limit is {_size(MAX_HEADER_BYTES)}."
                )
            header = _parse_object(file.read(length), path.name)
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read ({error.strerror}); check the folder.") from None
    header.pop("__metadata__", None)
    if len(header) > MAX_TENSORS:
        raise CheckpointError(f"{path.name} has {len(header):,} tensors; the limit is {MAX_TENSORS:,}.")
    entries = {name: _entry(path, name, fields, 8 + length) for name, fields in header.items()}
    position = 8 + length
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start != position:
            raise CheckpointError(f"{path.name}: the bytes of {shown(name)} overlap others or leave a hole; export it again.")
        position = entry.end
    if position != file_bytes:
        raise CheckpointError(
            f"{path.name} has {file_bytes:,} bytes where its header asks for {position:,}; download or export it again."
        )
    return entries


def read_tensor(entry: TensorEntry) -> Tensor:
    """The numbers of a floating-point tensor, as float32. Raises CheckpointError when the file has become shorter."""
    data = bytearray(entry.end - entry.start)
    try:
        with entry.path.open("rb") as file:
            file.seek(entry.start)
            complete = file.readinto(data) == len(data)
    except OSError as error:
        raise CheckpointError(f"{entry.path.name} cannot be read ({error.strerror}); check the folder.") from None
    if not complete:
        raise CheckpointError(f"{entry.path.name} changed while it was read; try again.")
    return torch.frombuffer(data, dtype=FLOATS[entry.dtype]).view(entry.shape).to(torch.float32)


def unzip(zip_path: Path, folder: Path, wanted: re.Pattern[str], max_bytes: int) -> None:
    """Write the wanted files of a zip into a folder; the rest is skipped.

    wanted: matches the whole name of each file to take. They must stand together, at the top of the archive or in one
    folder there, and have at most `max_bytes` together, counted while they are read and not as the archive says.
    Raises CheckpointError for an archive that is damaged, encrypted or full of tricks, OSError when writing fails.
    """
    try:
        with zipfile.ZipFile(zip_path) as archive:
            left = max_bytes
            for info in _members(zip_path.name, archive, wanted):
                with archive.open(info) as source, (folder / info.filename.split("/")[-1]).open("wb") as target:
                    while block := source.read(2**20):
                        left -= len(block)
                        if left < 0:
                            raise CheckpointError(
                                f"{zip_path.name} unpacks to more than the limit of {_size(max_bytes)}."
                            )
                        target.write(block)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
        raise CheckpointError(f"{zip_path.name} is damaged or not a plain zip file; pack the folder again.") from None


def _members(zip_name: str, archive: zipfile.ZipFile, wanted: re.Pattern[str]) -> list[zipfile.ZipInfo]:
    """The files to take, after every entry of the archive was looked at."""
    if len(archive.infolist()) > MAX_ZIP_ENTRIES:
        raise CheckpointError(
            f"{zip_name} has {len(archive.infolist()):,} files; the limit is {MAX_ZIP_ENTRIES:,}. Pack the model's only."
        )
    members: dict[tuple[str, ...], zipfile.ZipInfo] = {}
    for info in archive.infolist():
        path = tuple(info.filename.split("/"))
        if "\\" in info.filename or ":" in info.filename or path[0] == "" or ".." in path:
            raise CheckpointError(f"{zip_name} holds the path {shown(info.filename)}; pack plain file names only.")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise CheckpointError(f"{zip_name} holds the link {shown(info.filename)}; pack the file itself.")
        if len(path) > 2 or path[0] == "__MACOSX" or not wanted.fullmatch(path[-1]):
            continue
        if path in members:
            raise CheckpointError(f"{zip_name} holds {shown(info.filename)} twice; pack the folder again.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise CheckpointError(f"{zip_name} is packed in an unusual way; pack it as an ordinary zip.")
        members[path] = info
    if len({path[:-1] for path in members}) > 1:
        raise CheckpointError(f"{zip_name} holds models in several folders; pack one of them.")
    return list(members.values())


def first_three(items: Iterable[str]) -> str:
    """The first three of a list, and how many more there are.

    >>> first_three("abcde")
    'a, b, c and 2 more'
    """
    items = list(items)
    more = f" and {len(items) - 3:,} more" if len(items) > 3 else ""
    return ", ".join(items[:3]) + more


def shown(value: Any) -> str:
    """A foreign value for a message: quoted, escaped and cut at 100 characters."""
    return repr(value[:100] if isinstance(value, str) else value)[:110]


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
        raise CheckpointError(f"{path.name}: the entry of {shown(name)} is malformed; export the model again.")
    return TensorEntry(path, dtype, tuple(shape), data_start + offsets[0], data_start + offsets[1])


def _are_sizes(values: Any, longest: int) -> bool:
    return isinstance(values, list) and len(values) <= longest and all(type(v) is int and v >= 0 for v in values)


def _parse_object(data: bytes, name: str) -> dict[str, Any]:
    try:
        content = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_without_repeats,
            parse_int=_short_int,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        reason = f" ({error})" if isinstance(error, _Refused) else ""
        raise CheckpointError(f"{name} is not valid JSON{reason}; download or export it again.") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{name} does not hold a JSON object; download or export it again.")
    return content


class _Refused(ValueError):
    """A thing that JSON readers let pass and no honest file holds; its message is for the person."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _Refused(f"the name {shown(repeated)} stands twice")
    return content


def _short_int(digits: str) -> int:
    if len(digits) > 19:
        raise _Refused("a number has more than 19 digits")
    return int(digits)


def _refuse_constant(name: str) -> None:
    raise _Refused(f"{name} is not a number")


def _size(count: int) -> str:
    return f"{count / 2**20:,.0f} MB" if count >= 2**20 else f"{count / 2**10:,.0f} kB"
