"""A text as bytes and offsets, in memory or in `.npy` files that are mapped into memory.

Shapes: S sentences, D documents.
"""

import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from bert_core.atomic_folder import replacing
from bert_core.errors import CorpusError

Item = TypeVar("Item")
Append = Callable[[str, np.ndarray], None]
TEXT_ARRAYS = ("text", "sentences", "documents")

_AT_ONCE = 10_000  # sentences that are read or written together


@dataclass(frozen=True, eq=False)
class _Parts(Sequence[Item]):
    """The items between the `offsets` in `whole`; a slice shares both. Equal to a tuple of the same items."""

    whole: Any
    offsets: np.ndarray

    def _item(self, start: int, end: int) -> Item:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int | slice) -> Any:
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            return self._item(*self.offsets[numbers : numbers + 2].tolist())
        if numbers.step != 1:
            return tuple(self[number] for number in numbers)
        return replace(self, offsets=self.offsets[numbers.start : max(numbers.start, numbers.stop) + 1])

    def __iter__(self) -> Iterator[Item]:
        for first in range(0, len(self), _AT_ONCE):
            offsets = self.offsets[first : first + _AT_ONCE + 1].tolist()
            yield from itertools.starmap(self._item, itertools.pairwise(offsets))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Parts | tuple) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


@dataclass(frozen=True, eq=False)
class Sentences(_Parts[str]):
    """Sentences in UTF-8, with a line feed after each.

    whole: the bytes of the text. offsets: (S + 1,) the byte at which each sentence begins, and the end. folder: that of
    the mapped files, where more about this text can be kept; None for a text in memory.
    """

    folder: Path | None = None

    def _item(self, start: int, end: int) -> str:
        return str(self.whole[start : end - 1], "utf-8", "surrogatepass")


@dataclass(frozen=True, eq=False)
class Documents(_Parts[Sentences]):
    """Documents of sentences. whole: all sentences. offsets: (D + 1,) the number of each one's first, and the end."""

    def _item(self, start: int, end: int) -> Sentences:
        return self.whole[start:end]

    @property
    def sentences(self) -> Sentences:
        """All sentences of these documents."""
        return self.whole[self.offsets[0] : self.offsets[-1]]

    @property
    def bounds(self) -> np.ndarray:
        """The number of each document's first sentence among `sentences`, and their number, (D + 1,)."""
        return self.offsets - self.offsets[0]

    @classmethod
    def of(cls, documents: Sequence[Sequence[str]]) -> "Documents":
        """Documents of any other form, in memory."""
        if isinstance(documents, Documents):
            return documents
        parts = itertools.chain.from_iterable((document, None) for document in documents)
        return cls.from_arrays(arrays(lambda append: append_text(parts, append), None, TEXT_ARRAYS))

    @classmethod
    def from_arrays(cls, found: dict[str, np.ndarray], folder: Path | None = None) -> "Documents":
        """Documents from the arrays that `append_text` builds."""
        return cls(Sentences(found["text"], found["sentences"], folder), found["documents"])


def append_text(parts: Iterable[Sequence[str] | None], append: Append) -> None:
    """Append TEXT_ARRAYS: the bytes, and the offsets of `Sentences` and `Documents`.

    parts: some sentences at a time, and None at the end of every document. Empty documents are left out.
    """
    append("sentences", np.zeros(1, np.int64))
    append("documents", np.zeros(1, np.int64))
    count, end, last = 0, 0, 0
    parts = itertools.chain(parts, [None])
    while group := list(itertools.islice(parts, _AT_ONCE)):
        lines: list[bytes] = []
        bounds = []
        for sentences in group:
            lines += [f"{sentence}\n".encode("utf-8", "surrogatepass") for sentence in sentences or ()]
            if sentences is None and count + len(lines) > last:
                last = count + len(lines)
                bounds.append(last)
        ends = end + np.array([len(line) for line in lines], np.int64).cumsum()
        append("text", np.frombuffer(b"".join(lines), np.uint8))
        append("sentences", ends)
        append("documents", np.array(bounds, np.int64))
        count, end = count + len(lines), int(ends[-1]) if lines else end


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
