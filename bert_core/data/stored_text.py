"""Sentences of a long text in a folder: written once, then read in parts.

The arrays of the folder (see `bert_core.data.arrays`) are text (UTF-8, one sentence per line and an empty line after
each document), sentences (S + 1, the byte at which each begins in text, and the end), documents (D + 1, the number of
each one's first sentence, and of all sentences) and, for pairs, labels (D,).
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_core.data.arrays import Append

_READ_AT_ONCE = 10_000  # sentences


class StoredSentences(Sequence[str]):
    """Sentences `start` to `stop` of a folder; offsets: its array `sentences`."""

    def __init__(self, folder: Path, offsets: np.ndarray, start: int, stop: int) -> None:
        self.folder, self.start, self.stop, self._offsets = folder, start, stop, offsets

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return StoredSentences(self.folder, self._offsets, self.start + start, self.start + max(start, stop))
        number = range(len(self))[index]
        return next(iter(self[number : number + 1]))

    def __iter__(self) -> Iterator[str]:
        for (start, stop), block in zip(self._ranges(), self.blocks()):
            offsets = (self._offsets[start : stop + 1] - self._offsets[start]).tolist()
            for begin, end in itertools.pairwise(offsets):
                yield block[begin:end].rstrip(b"\n").decode()

    @property
    def nbytes(self) -> int:
        """Bytes of the sentences and the line breaks after them."""
        return int(self._offsets[self.stop] - self._offsets[self.start])

    def blocks(self) -> Iterator[bytes]:
        """The lines of these sentences as the folder holds them, in blocks."""
        for start, stop in self._ranges():
            begin, end = int(self._offsets[start]), int(self._offsets[stop])
            # Not mapped: the mapped pages of a whole text would count as memory of this process.
            yield np.fromfile(self.folder / "text.bin", np.uint8, end - begin, offset=begin).tobytes()

    def _ranges(self) -> Iterator[tuple[int, int]]:
        for start in range(self.start, self.stop, _READ_AT_ONCE):
            yield start, min(start + _READ_AT_ONCE, self.stop)


class StoredDocuments(Sequence[StoredSentences]):
    """Documents of a folder; bounds: its array `documents`, or a part of it."""

    def __init__(self, sentences: StoredSentences, bounds: np.ndarray) -> None:
        self._all, self._bounds = sentences, bounds

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return StoredDocuments(self._all, self._bounds[start : max(start, stop) + 1])
        number = range(len(self))[index]
        return self._all[self._bounds[number] : self._bounds[number + 1]]

    @property
    def bounds(self) -> np.ndarray:
        """The number of each document's first sentence among these documents, and of all their sentences."""
        return self._bounds - self._bounds[0]

    def cut(self, bounds: np.ndarray) -> "StoredDocuments":
        """Documents with other bounds among the same sentences."""
        return StoredDocuments(self._all, self._bounds[0] + bounds)

    @property
    def sentences(self) -> StoredSentences:
        """All sentences of these documents."""
        return self._all[self._bounds[0] : self._bounds[-1]]


def append_text(parts: Iterable[list[str] | None], append: Append) -> None:
    """Append the arrays text, sentences and documents; parts: what `SentenceReader.read` yields."""
    append("sentences", np.zeros(1, np.int64))
    append("documents", np.zeros(1, np.int64))
    count, end, lines = 0, 0, _lines(parts)
    while block := list(itertools.islice(lines, _READ_AT_ONCE)):
        append("text", np.frombuffer(b"".join(block), np.uint8))
        ends = end + np.fromiter(map(len, block), np.int64, len(block)).cumsum()
        append("sentences", ends)
        is_last = np.array([line.endswith(b"\n\n") for line in block])
        append("documents", count + 1 + np.flatnonzero(is_last))
        count, end = count + len(block), int(ends[-1])


def _lines(parts: Iterable[list[str] | None]) -> Iterator[bytes]:
    """One line for each sentence; that of a document's last sentence includes the empty line."""
    line = b""  # not yet yielded, because its document may end here
    for sentences in itertools.chain(parts, [None]):
        for sentence in sentences or ():
            if line:
                yield line
            line = f"{sentence}\n".encode()
        if sentences is None and line:
            yield line + b"\n"
            line = b""
