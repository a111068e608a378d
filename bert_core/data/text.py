"""Arrays that are built piece by piece, in memory or in `.npy` files that are mapped into memory."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bert_core.atomic_folder import replacing
from bert_core.errors import CorpusError

Append = Callable[[str, np.ndarray], None]


def arrays(fill: Callable[[Append], None], folder: Path | None, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The named arrays that `fill(append)` builds piece by piece with `append(name, piece)`.

    folder: None builds them in memory. Otherwise each is written there as NAME.npy and mapped; `fill` is not called if
    the folder already holds them. Raises CorpusError if the folder cannot be written.
    """
    if folder is None:
        pieces: dict[str, list[np.ndarray]] = defaultdict(list)
        fill(lambda name, piece: pieces[name].append(piece))
        return {name: np.concatenate(pieces[name]) for name in names}
    with contextlib.suppress(OSError, ValueError):  # missing or damaged files
        return _mapped(folder, names)
    try:
        with replacing(folder, last=f"{names[-1]}.npy", is_member=lambda name: False) as new:
            _write(fill, new)
    except OSError as error:
        raise CorpusError(
            f"The text cannot be stored in {folder.parent} ({error.strerror or error}); make room there, or choose "
            "another cache folder with XDG_CACHE_HOME."
        ) from None
    return _mapped(folder, names)


def _write(fill: Callable[[Append], None], folder: Path) -> None:
    headers: dict[str, dict[str, Any]] = {}  # of .npy files; each has the same size for any length of the array
    lengths: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        files: dict[str, BinaryIO] = {}

        def append(name: str, piece: np.ndarray) -> None:
            if name not in files:
                files[name] = stack.enter_context((folder / f"{name}.npy").open("wb"))
                headers[name] = np.lib.format.header_data_from_array_1_0(piece)
                np.lib.format.write_array_header_1_0(files[name], headers[name])
            files[name].write(np.ascontiguousarray(piece).data)
            lengths[name] += len(piece)

        fill(append)
        for name, file in files.items():
            file.seek(0)
            np.lib.format.write_array_header_1_0(file, {**headers[name], "shape": (lengths[name],)})


def _mapped(folder: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    # Plain arrays, because operations on a np.memmap return more of them, and each keeps the file open.
    return {name: np.asarray(np.lib.format.open_memmap(folder / f"{name}.npy", "r")) for name in names}
