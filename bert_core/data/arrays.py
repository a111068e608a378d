"""Flat arrays built piece by piece, in memory or in files that are mapped into memory.

A folder holds NAME.bin for each array, only its numbers, and header.json with types, lengths and facts (a few other
values, such as notes). The operating system reads mapped numbers when they are used.
"""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bert_core.atomic_folder import replacing
from bert_core.errors import CorpusError

HEADER = "header.json"

Arrays = dict[str, np.ndarray]
Append = Callable[[str, np.ndarray], None]


def cache_folder() -> Path:
    """The folder that keeps large texts for later runs: `balcony` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "balcony"


def gather(fill: Callable[[Append], dict[str, Any]], folder: Path | None) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays that `fill(append)` builds by `append(name, piece)`, and the facts that it returns.

    folder: None builds the arrays in memory. Otherwise they are written there and mapped; if the folder already holds
    them, `fill` is not called. Raises CorpusError if the folder cannot be written.
    """
    if folder is None:
        pieces: dict[str, list[np.ndarray]] = {}
        facts = fill(lambda name, piece: pieces.setdefault(name, []).append(piece))
        return {name: np.concatenate(parts) for name, parts in pieces.items()}, facts
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):  # missing or damaged files
        return _mapped(folder)
    try:
        with replacing(folder, last=HEADER, is_member=lambda name: False) as new:
            _write(fill, new)
    except OSError as error:
        raise CorpusError(
            f"The text cannot be stored in {folder.parent} ({error.strerror or error}); make room there, or choose "
            "another cache folder with XDG_CACHE_HOME."
        ) from None
    return _mapped(folder)


def _write(fill: Callable[[Append], dict[str, Any]], folder: Path) -> None:
    with contextlib.ExitStack() as stack:
        files: dict[str, tuple[BinaryIO, np.dtype]] = {}

        def append(name: str, piece: np.ndarray) -> None:
            if name not in files:
                files[name] = stack.enter_context((folder / f"{name}.bin").open("wb")), piece.dtype
            file, dtype = files[name]
            file.write(np.ascontiguousarray(piece, dtype).data)

        facts = fill(append)
        sizes = {name: [dtype.str, file.tell() // dtype.itemsize] for name, (file, dtype) in files.items()}
    (folder / HEADER).write_text(json.dumps({"arrays": sizes, "facts": facts}), encoding="utf-8")


def _mapped(folder: Path) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and facts of a folder. Missing or damaged files raise the errors that `gather` suppresses."""
    header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    return {name: _map(folder / f"{name}.bin", *size) for name, size in header["arrays"].items()}, header["facts"]


def _map(path: Path, dtype: str, length: int) -> np.ndarray:
    if path.stat().st_size != length * np.dtype(dtype).itemsize:
        raise ValueError(path)
    # A plain array, because operations on a np.memmap return more of them, and each keeps the file open.
    return np.asarray(np.memmap(path, dtype, "r")) if length else np.empty(0, dtype)
