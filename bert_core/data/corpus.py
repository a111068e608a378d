"""A text as documents of sentences.

Next-sentence pairs come from neighbours in the same document. A short text is held in memory; a long file is cut into
sentences once, which are kept in a folder and read from there when they are needed.
"""

import dataclasses
import hashlib
import io
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bert_core.data.arrays import Append, cache_folder, gather
from bert_core.data.sentences import SentenceReader, check_text, decoded_blocks
from bert_core.errors import CorpusError

MAX_BYTES = 64 * 2**20  # of a text that a visitor gives
IN_MEMORY_BYTES = 16 * 2**20  # a longer file is kept in a folder and read in parts

_READ_AT_ONCE = 10_000  # sentences
_SAMPLED_AT_ONCE = 100
_RULES = 1  # to be raised when texts are cut in another way, so that kept ones are cut again


@dataclass(frozen=True)
class Corpus:
    """A text as documents of sentences.

    documents: sentences as they were written, white space at both ends removed. name: for messages. notes: sentences
    on what was changed while reading (encoding, cut words). labels: for pairs, whose documents are two sentences each,
    whether a pair is positive; otherwise None, and neighbours are what follows one another.
    """

    documents: Sequence[Sequence[str]]
    name: str = "the text"
    notes: tuple[str, ...] = ()
    labels: Sequence[bool] | None = None

    @cached_property
    def sentences(self) -> Sequence[str]:
        """All sentences in reading order."""
        if isinstance(self.documents, StoredDocuments):
            return self.documents.sentences
        if len(self.documents) == 1:
            return self.documents[0]
        return tuple(sentence for document in self.documents for sentence in document)

    def sample(self, most_bytes: int) -> Iterable[str]:
        """All sentences, or of a longer text that is kept in a folder so many bytes, spread evenly over it."""
        sentences, share = self.sentences, self.sampled_share(most_bytes)
        if share == 1:
            return sentences
        starts = (
            int(n * _SAMPLED_AT_ONCE / share) for n in range(math.ceil(len(sentences) * share / _SAMPLED_AT_ONCE))
        )
        return (sentence for start in starts for sentence in sentences[start : start + _SAMPLED_AT_ONCE])

    def sampled_share(self, most_bytes: int) -> float:
        """The share of the sentences that `sample` gives."""
        sentences = self.sentences
        return min(1.0, most_bytes / sentences.nbytes) if isinstance(sentences, StoredSentences) else 1.0

    @cached_property
    def fingerprint(self) -> str:
        """A number in hexadecimal that another text does not have; the name does not count."""
        digest = hashlib.sha256()
        for lines in _as_lines(self.documents):
            digest.update(lines)
        if self.labels is not None:
            digest.update(bytes(bytearray(self.labels)))
        return digest.hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes, kind: str = "auto", name: str = "the file") -> "Corpus":
        """Decode and split a file's content; UTF-8 unless a byte order mark says otherwise. Raises CorpusError."""
        if len(data) > MAX_BYTES:
            raise CorpusError(
                f"{name} has {len(data) / 2**20:.0f} MB; the limit is {MAX_BYTES // 2**20} MB. Take a part of it."
            )
        notes: list[str] = []
        reader = SentenceReader(kind, name)
        # In blocks: a search through all of it would hold up every other thread.
        corpus = cls._read(reader, decoded_blocks(io.BytesIO(data), name, notes))
        return dataclasses.replace(corpus, notes=(*notes, *corpus.notes))

    @classmethod
    def from_text(cls, text: str, kind: str = "auto", name: str = "the text") -> "Corpus":
        """Split a text into documents of sentences.

        kind: see `SentenceReader`. Raises CorpusError when the text is too large, not text, or empty.
        """
        reader = SentenceReader(kind, name)
        if len(text) > MAX_BYTES:
            raise CorpusError(
                f"{name} has {len(text) / 1e6:.0f} million characters; the limit is {MAX_BYTES / 1e6:.0f} million. "
                "Take a part of it."
            )
        text = text.removeprefix("\ufeff")
        check_text(text, name)
        return cls._read(reader, [text])

    @classmethod
    def _read(cls, reader: SentenceReader, blocks: Iterable[str]) -> "Corpus":
        documents: list[list[str]] = [[]]
        for sentences in reader.read(blocks):
            if sentences is not None:
                documents[-1] += sentences
            elif documents[-1]:
                documents.append([])
        documents = tuple(tuple(document) for document in documents if document)
        return cls(documents, reader.name, reader.notes, tuple(reader.labels) or None)

    def first(self, number: int | None) -> "Corpus":
        """The first documents or pairs; all of them for None."""
        labels = None if self.labels is None else self.labels[:number]
        return dataclasses.replace(self, documents=self.documents[:number], labels=labels)

    def excerpt(self, most: int) -> "Corpus":
        """The first sentences, at most `most`, in the documents they stand in."""
        documents, left = [], most
        for document in self.documents:
            if left < 2:
                break
            documents.append(document[:left])
            left -= len(document)
        labels = None if self.labels is None else self.labels[: len(documents)]
        return dataclasses.replace(self, documents=tuple(documents), labels=labels)

    def split(self, *shares: float) -> tuple["Corpus", ...]:
        """The text in parts: one for each share, from the end, and what is left of it first.

        `corpus.split(0.16, 0.2)` gives the first 64 %, the next 16 % and the last 20 %. Documents stay whole, unless
        there is only one, which is cut between sentences. Raises CorpusError when a part would have no pair.
        """
        if not shares:
            return (self,)
        is_one = len(self.documents) == 1
        n = len(self.sentences if is_one else self.documents)
        cuts = [0, *(round(n * (1 - sum(shares[i:]))) for i in range(len(shares))), n]
        parts = []
        for start, end in itertools.pairwise(cuts):
            documents = (self.sentences[start:end],) if is_one else self.documents[start:end]
            if not any(len(document) > 1 for document in documents):
                raise CorpusError(f"{self.name} is too short to be split; set validation_share and test_share to 0.")
            labels = None if self.labels is None else self.labels[start:end]
            parts.append(dataclasses.replace(self, documents=documents, labels=labels))
        return tuple(parts)


class StoredSentences(Sequence[str]):
    """Sentences `start` to `stop` of a folder that `_stored` has written.

    They are read and not mapped: mapped pages would count as memory of this process while the whole text goes by.
    """

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
        for start in range(self.start, self.stop, _READ_AT_ONCE):
            stop = min(start + _READ_AT_ONCE, self.stop)
            lines, places = self._read(start, stop), (self._offsets[start : stop + 1] - self._offsets[start]).tolist()
            for begin, end in itertools.pairwise(places):
                yield lines[begin:end].rstrip(b"\n").decode()

    @property
    def nbytes(self) -> int:
        """Bytes of the sentences and the line breaks after them."""
        return int(self._offsets[self.stop] - self._offsets[self.start])

    def lines(self) -> Iterator[bytes]:
        """A sentence a line and an empty line after every document, in blocks."""
        for start in range(self.start, self.stop, _READ_AT_ONCE):
            yield self._read(start, min(start + _READ_AT_ONCE, self.stop))

    def _read(self, start: int, stop: int) -> bytes:
        begin, end = int(self._offsets[start]), int(self._offsets[stop])
        return np.fromfile(self.folder / "text.bin", np.uint8, end - begin, offset=begin).tobytes()


class StoredDocuments(Sequence[StoredSentences]):
    """Documents of such a folder; bounds: (D + 1,) number of the first sentence of each, and of the one after."""

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
    def sentences(self) -> StoredSentences:
        """All sentences of these documents."""
        return self._all[self._bounds[0] : self._bounds[-1]]


def _as_lines(documents: Sequence[Sequence[str]]) -> Iterator[bytes]:
    """A sentence a line and an empty line after every document: what `_stored` writes."""
    if isinstance(documents, StoredDocuments):
        yield from documents.sentences.lines()
        return
    for document in documents:
        yield "".join(f"{sentence}\n" for sentence in (*document, "")).encode("utf-8", "surrogatepass")


def read_corpus(
    path_or_text: str | os.PathLike,
    *,
    kind: str = "auto",
    progress: Callable[[float], None] = lambda share: None,
) -> Corpus:
    """Read a corpus from a file, or from a text itself.

    path_or_text: a path; or a string, which is taken as a path only if it is one line that names an existing file.
    A file of more than 16 MB is cut into sentences once, which are kept in the user's cache folder and found there by
    the next run; it takes no more memory than a short one. progress: called with the share of such a file that is read.
    Use `Corpus.from_text` for what a visitor typed: it never opens a file. Raises CorpusError.
    """
    if isinstance(path_or_text, str) and not _names_a_file(path_or_text):
        return Corpus.from_text(path_or_text, kind)
    path = Path(path_or_text)
    try:
        if path.stat().st_size > IN_MEMORY_BYTES:
            return _stored(path, kind, progress)
        data = path.read_bytes()
    except OSError as error:
        raise CorpusError(f"The file {path} cannot be read ({error.strerror}); check its name.") from None
    return Corpus.from_bytes(data, kind, path.name)


def _stored(path: Path, kind: str, progress: Callable[[float], None]) -> Corpus:
    """A long file's sentences, from the cache folder if they are there.

    Arrays: text (a sentence a line and an empty line after every document, UTF-8), sentences (where each begins, and
    the end), documents (the number of each one's first sentence, and of all), and for pairs labels.
    """
    reader = SentenceReader(kind, path.name)

    def fill(append: Append) -> dict[str, Any]:
        notes: list[str] = []
        writer = _TextWriter(append)
        with path.open("rb") as file:
            size = path.stat().st_size
            blocks = _reported(decoded_blocks(file, path.name, notes), lambda: progress(file.tell() / size))
            for sentences in reader.read(blocks):
                writer.add(sentences)
        writer.close()
        if reader.labels:
            append("labels", np.array(reader.labels))
        return {"notes": [*notes, *reader.notes]}

    with path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    folder = cache_folder() / f"text-{content[:32]}-{kind}-{_RULES}"
    arrays, facts = gather(fill, folder)
    sentences = StoredSentences(folder, arrays["sentences"], 0, len(arrays["sentences"]) - 1)
    documents = StoredDocuments(sentences, arrays["documents"])
    return Corpus(documents, path.name, tuple(facts["notes"]), arrays.get("labels"))


def _reported(blocks: Iterator[str], report: Callable[[], None]) -> Iterator[str]:
    for block in blocks:
        report()
        yield block


class _TextWriter:
    """Appends sentences to the arrays of `_stored`, many at a time."""

    def __init__(self, append: Append) -> None:
        self._append = append
        self._lines: list[bytes] = []
        self._places, self._bounds = [0], [0]  # not appended yet
        self._bytes = self._count = self._bound = 0

    def add(self, sentences: list[str] | None) -> None:
        """Sentences of the present document, or None where it ends."""
        if sentences is None:
            self._end_document()
            return
        for sentence in sentences:
            line = f"{sentence}\n".encode()
            self._lines.append(line)
            self._bytes += len(line)
            self._places.append(self._bytes)
        self._count += len(sentences)
        if len(self._lines) > _READ_AT_ONCE:
            self._flush()

    def close(self) -> None:
        """End the last document and append what is left."""
        self._end_document()
        self._flush()
        self._append("sentences", np.array(self._places, np.int64))

    def _end_document(self) -> None:
        if self._count == self._bound:
            return
        # The empty line belongs to the sentence before it.
        self._lines.append(b"\n")
        self._bytes += 1
        self._places[-1] = self._bytes
        self._bound = self._count
        self._bounds.append(self._bound)

    def _flush(self) -> None:
        self._append("text", np.frombuffer(b"".join(self._lines), np.uint8))
        # The last place stays: a document that ends there moves it.
        self._append("sentences", np.array(self._places[:-1], np.int64))
        self._append("documents", np.array(self._bounds, np.int64))
        self._lines, self._places, self._bounds = [], self._places[-1:], []


def _names_a_file(text: str) -> bool:
    try:
        return "\n" not in text and len(text) < 4096 and Path(text).is_file()
    except (OSError, ValueError):
        return False
