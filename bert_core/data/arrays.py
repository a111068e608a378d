"""Long flat arrays of numbers, gathered piece by piece: in memory, or in a folder of files that are mapped into memory.

The folder holds NAME.bin for each array, only its numbers, and header.json with types, lengths and facts. Mapped
numbers are read from the disk when they are used, and the operating system frees their memory when it is short.
"""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bert_core.atomic_folder import replacing
from bert_core.errors import CorpusError

HEADER = "header.json"

Arrays = dict[str, np.ndarray]
Append = Callable[[str, np.ndarray], None]


def cache_folder() -> Path:
    """The folder in which large texts are stored for later runs: `balcony` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "balcony"


def gather(fill: Callable[[Append], dict[str, Any]], folder: Path | None) -> tuple[Arrays, dict[str, Any]]:
    """The arrays that `fill` appends to by name, each flat and of one type, and the facts that it returns.

    folder: None gathers the arrays in memory. Otherwise they are written there and mapped; if the folder already holds
    them, `fill` is not called. Raises CorpusError if the folder cannot be written.
    """
    if folder is None:
        pieces: dict[str, list[np.ndarray]] = {}
        facts = fill(lambda name, piece: pieces.setdefault(name, []).append(piece))
        return {name: np.concatenate(parts) for name, parts in pieces.items()}, facts
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):  # missing or damaged files
        return _mapped(folder)
    try:
        with replacing(folder, last=HEADER, members=()) as new:
            _write(fill, new)
    except OSError as error:
        raise CorpusError(
            f"The text cannot be stored in {folder.parent} ({error.strerror or error}); make room there, or choose "
            "another cache folder with XDG_CACHE_HOME."
        ) from None
    return _mapped(folder)


def _write(fill: Callable[[Append], dict[str, Any]], folder: Path) -> None:
    kinds: dict[str, np.dtype] = {}
    with contextlib.ExitStack() as stack:
        files: dict[str, Any] = {}

        def append(name: str, piece: np.ndarray) -> None:
            if name not in files:
                files[name] = stack.enter_context((folder / f"{name}.bin").open("wb"))
                kinds[name] = piece.dtype
            files[name].write(np.ascontiguousarray(piece, kinds[name]))

        facts = fill(append)
        sizes = {name: [kind.str, files[name].tell() // kind.itemsize] for name, kind in kinds.items()}
    (folder / HEADER).write_text(json.dumps({"arrays": sizes, "facts": facts}), encoding="utf-8")


def _mapped(folder: Path) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and facts of a folder; raises one of many errors if something is missing or damaged."""
    header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    arrays = {name: _map(folder / f"{name}.bin", *size) for name, size in header["arrays"].items()}
    return arrays, header["facts"]


def _map(path: Path, kind: str, length: int) -> np.ndarray:
    if path.stat().st_size != length * np.dtype(kind).itemsize:
        raise ValueError(path)
    # A plain array: operations on a np.memmap would return more of them, each keeping the file open.
    return np.asarray(np.memmap(path, kind, "r")) if length else np.empty(0, kind)
