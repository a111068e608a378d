"""A text as documents of sentences; next-sentence pairs are neighbours in the same document."""

import dataclasses
import hashlib
import io
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from bert_core.config import LOCAL, Limits
from bert_core.data.decoding import END_OF_FILE, decoded_blocks, notes_on_characters, without_controls
from bert_core.data.sentences import SentenceReader
from bert_core.data.text import TEXT_ARRAYS, Append, Documents, Sentences, append_text, arrays
from bert_core.errors import CorpusError, ignore, megabytes
from bert_core.machine import cache_folder

MAX_BYTES = 64 * 2**20  # of a visitor's text
IN_MEMORY_BYTES = 16 * 2**20  # the sentences of a longer file are kept in a folder

_SAMPLED_AT_ONCE = 100  # sentences
_RULES = 10  # raise this number when the rules of `SentenceReader` or the files change, so that texts are split again


@dataclass(frozen=True)
class Corpus:
    """A text as documents of sentences.

    documents: sequences of their sentences as written, without white space at both ends. name: for messages. notes:
    what the reader changed (encoding, cut words), one sentence each. labels: whether each pair is positive, if every
    document is a labelled pair; None if the positive pairs are the neighbours in a document. kind, encoding: how it was
    read; None for a text that was not read here, and for UTF-8. text: the documents as bytes and offsets.
    """

    documents: Sequence[Sequence[str]]
    name: str = "the text"
    notes: tuple[str, ...] = ()
    labels: Sequence[bool] | None = None
    kind: str | None = None
    encoding: str | None = None
    text: Documents = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", Documents.of(self.documents))
        object.__setattr__(self, "documents", self.text)

    @property
    def sentences(self) -> Sentences:
        """All sentences in reading order."""
        return self.text.sentences

    def sample(self, most_bytes: int) -> Iterable[str]:
        """All sentences or, of a text over `most_bytes`, about that much, spread evenly over the text."""
        sentences, share = self.sentences, self.sampled_share(most_bytes)
        if share == 1:
            return sentences
        parts = math.ceil(len(sentences) * share / _SAMPLED_AT_ONCE)
        starts = (int(n * _SAMPLED_AT_ONCE / share) for n in range(parts))
        return (sentence for start in starts for sentence in sentences[start : start + _SAMPLED_AT_ONCE])

    def sampled_share(self, most_bytes: int) -> float:
        """The fraction of the sentences that `sample` yields."""
        offsets = self.sentences.offsets
        return min(1.0, most_bytes / max(1, int(offsets[-1] - offsets[0])))

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 of the sentences, documents and labels, in hexadecimal; the name does not matter."""
        digest = hashlib.sha256()
        for document in self.text:
            digest.update(document.whole[document.offsets[0] : document.offsets[-1]])
            digest.update(b"\n")
        if self.labels is not None:
            digest.update(bytes(self.labels))
        return digest.hexdigest()

    @property
    def nbytes(self) -> int:
        """Memory of the text in bytes; one in mapped files takes none."""
        sentences = self.sentences
        return 0 if sentences.folder else int(sentences.offsets[-1] - sentences.offsets[0]) + sentences.offsets.nbytes

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        kind: str = "auto",
        name: str = "the file",
        encoding: str | None = None,
        limits: Limits = LOCAL,
    ) -> "Corpus":
        """Decode and split the content of a file (see `decoded_blocks`, `SentenceReader`). Raises CorpusError."""
        if len(data) > (most := min(MAX_BYTES, limits.upload_bytes)):
            raise CorpusError(f"{name} has {megabytes(len(data))}; the limit is {megabytes(most)}. Use a part.")
        notes: list[str] = []
        # In blocks, because one regular expression over the whole text would hold the interpreter's lock.
        blocks = decoded_blocks(io.BytesIO(data), name, notes, encoding)
        return _read(SentenceReader(kind, name, limits.items), blocks, notes, encoding)

    @classmethod
    def from_text(cls, text: str, kind: str = "auto", name: str = "the text", limits: Limits = LOCAL) -> "Corpus":
        """Split a text (see `SentenceReader`). Raises CorpusError if it is too large, not plain text, or empty."""
        if len(text) > (most := min(MAX_BYTES, limits.upload_bytes)):
            raise CorpusError(f"{name} has {len(text):,} characters; the limit is {most:,}. Use a part.")
        text, odd = without_controls(text.rstrip(END_OF_FILE), name)
        reader = SentenceReader(kind, name, limits.items)
        return _read(reader, [text.removeprefix("\ufeff")], notes_on_characters(odd), None)

    def first(self, number: int | None) -> "Corpus":
        """The first `number` documents or pairs; None: all."""
        labels = None if self.labels is None else self.labels[:number]
        return dataclasses.replace(self, documents=self.documents[:number], labels=labels)

    def excerpt(self, most: int) -> "Corpus":
        """The first `most` sentences in their documents; one fewer if the last document would have only one."""
        end = min(most, len(self.sentences))
        if end == most and end - 1 in self.text.bounds:
            end -= 1
        part = self.part(0, max(0, end))
        return dataclasses.replace(part, documents=tuple(part.documents))  # in memory

    def split(self, *shares: float, needs_pairs: bool = True) -> tuple["Corpus", ...]:
        """Split the text into consecutive parts; `corpus.split(0.16, 0.2)` returns 64 %, 16 % and 20 % of it.

        The shares are of the sentences. A cut is moved to the end of a document if that changes each part by less than
        half of the smallest, and in any case if the documents are labelled pairs; otherwise it is inside a document.
        Raises CorpusError if a part has no pair or, where no pairs are needed, no sentence.
        """
        if not shares:
            return (self,)
        bounds, S = self.text.bounds, len(self.sentences)
        wanted = np.array([S * (1 - sum(shares[i:])) for i in range(len(shares))])
        after = np.searchsorted(bounds, wanted)
        ends = np.where(2 * wanted < bounds[after - 1] + bounds[after], bounds[after - 1], bounds[after])  # the nearest
        is_near = np.abs(ends - wanted) < np.diff(wanted, prepend=0, append=S).min() / 2
        cuts = [0, *np.where(is_near | (self.labels is not None), ends, wanted.round()).astype(int).tolist(), S]
        parts = tuple(self.part(start, end) for start, end in itertools.pairwise(cuts))
        if not all(any(len(document) > needs_pairs for document in part.documents) for part in parts):
            raise CorpusError(f"{self.name} is too short to be split; set validation_share and test_share to 0.")
        return parts

    def part(self, start: int, end: int) -> "Corpus":
        """The sentences `start` to `end` in their documents, without the rest of a document that is cut."""
        bounds = self.text.bounds
        kept = np.unique([start, *bounds[(start < bounds) & (bounds < end)], end])
        documents = dataclasses.replace(self.text, offsets=self.text.offsets[0] + kept)
        labels = None if self.labels is None else self.labels[start // 2 : end // 2]
        return dataclasses.replace(self, documents=documents, labels=labels)


def read_corpus(
    path_or_text: str | os.PathLike,
    *,
    kind: str = "auto",
    encoding: str | None = None,
    progress: Callable[[float], None] = ignore,
) -> Corpus:
    """Read a corpus from a file, or from a string.

    path_or_text: a string is a path only if it is one line that names an existing file; for a visitor's text use
    `Corpus.from_text`, which never opens a file. A file of more than 16 MB is kept as sentences in the user's cache
    folder for later runs, and takes no more memory than a short one. kind: see `SentenceReader`. encoding: if not
    UTF-8, see `decoded_blocks`. progress: called with the fraction that is read. Raises CorpusError, or ConfigError for
    another kind or encoding.
    """
    if isinstance(path_or_text, str) and ("\n" in path_or_text or not os.path.isfile(path_or_text)):
        return Corpus.from_text(path_or_text, kind)
    path, folder = Path(path_or_text), None
    notes: list[str] = []
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > IN_MEMORY_BYTES:
                content = hashlib.file_digest(file, "sha256").hexdigest()
                folder = cache_folder() / f"text-{content[:32]}-{kind}-{encoding or 'utf-8'}-{_RULES}"
                file.seek(0)

            def blocks() -> Iterator[str]:
                for block in decoded_blocks(file, path.name, notes, encoding):
                    progress(file.tell() / size)
                    yield block

            return _read(SentenceReader(kind, path.name), blocks(), notes, encoding, folder)
    except OSError as error:
        raise CorpusError(f"The file {path} cannot be read ({error.strerror}); check its name.") from None


def _read(
    reader: SentenceReader, blocks: Iterable[str], notes: list[str], encoding: str | None, folder: Path | None = None
) -> Corpus:
    """notes: on the blocks, complete when these are read. folder: see `arrays`."""
    kind = reader.kind  # "auto" becomes another while it reads

    def fill(append: Append) -> None:
        append_text(reader.read(blocks), append)
        append("labels", np.array(reader.labels, bool))
        append("notes", np.array([*notes, *reader.notes], str))

    found = arrays(fill, folder, (*TEXT_ARRAYS, "labels", "notes"))
    labels = tuple(found["labels"].tolist()) or None
    text, all_notes = Documents.from_arrays(found, folder), tuple(found["notes"].tolist())
    return Corpus(text, reader.name, all_notes, labels, kind, encoding)
