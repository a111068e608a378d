"""A text as documents of sentences; next-sentence pairs are neighbours in the same document."""

import dataclasses
import hashlib
import io
import itertools
import json
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bert_core.config import LOCAL, Limits
from bert_core.data.decoding import END_OF_FILE, decoded_blocks, notes_on_characters, without_controls
from bert_core.data.sentences import SentenceReader
from bert_core.errors import CorpusError, ignore, megabytes

MAX_BYTES = 64 * 2**20  # of a visitor's text
WHOLE_BYTES = 2**30  # of a file that is read whole


@dataclass(frozen=True)
class Corpus:
    """A text as documents of sentences.

    documents: lists of their sentences, each with at least one. name: for messages. notes: what the reader changed
    (encoding, cut words), one sentence each. labels: whether each pair is positive, if every document is a labelled
    pair; None if the positive pairs are the neighbours in a document. kind, encoding: how it was read; None for a text
    that was not read here, and for UTF-8.
    """

    documents: list[list[str]]
    name: str = "the text"
    notes: tuple[str, ...] = ()
    labels: list[bool] | None = None
    kind: str | None = None
    encoding: str | None = None

    @cached_property
    def sentences(self) -> list[str]:
        """All sentences in reading order."""
        return [*itertools.chain.from_iterable(self.documents)]

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 of the sentences, documents and labels, in hexadecimal; the name does not matter."""
        digest = hashlib.sha256(json.dumps(self.labels).encode())
        for document in self.documents:
            digest.update(json.dumps(document).encode())
        return digest.hexdigest()

    @cached_property
    def nbytes(self) -> int:
        """Memory of the text in bytes, about."""
        return sum(64 + 2 * len(sentence) for sentence in self.sentences)

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

    def part(self, start: int, end: int) -> "Corpus":
        """The sentences `start` to `end` in their documents, without the rest of a document that is cut; of labelled
        pairs, those that begin there."""
        if self.labels is not None:
            pairs = slice(start // 2, end // 2)
            return dataclasses.replace(self, documents=self.documents[pairs], labels=self.labels[pairs])
        documents, first = [], 0
        for document in self.documents:
            if kept := document[max(0, start - first) : max(0, end - first)]:
                documents.append(kept)
            first += len(document)
        return dataclasses.replace(self, documents=documents)

    def split(self, *shares: float, needs_pairs: bool = True) -> tuple["Corpus", ...]:
        """Split the text into consecutive parts; `corpus.split(0.16, 0.2)` returns 64 %, 16 % and 20 % of it.

        The shares are of the sentences. A cut is moved to the end of a document if that changes each part by less than
        half of the smallest, and in any case if the documents are labelled pairs; otherwise it is inside a document.
        Raises CorpusError if a part has no pair or, where no pairs are needed, no sentence.
        """
        if not shares:
            return (self,)
        bounds, count = [0, *itertools.accumulate(map(len, self.documents))], len(self.sentences)
        wanted = [count * (1 - sum(shares[i:])) for i in range(len(shares))]
        smallest = min(b - a for a, b in itertools.pairwise([0, *wanted, count]))
        cuts = [0]
        for cut in wanted:
            after = bisect_left(bounds, cut)
            end = min(bounds[after], bounds[after - 1], key=lambda bound: abs(bound - cut))
            is_near = abs(end - cut) < smallest / 2 or self.labels is not None
            cuts.append(end if is_near else round(cut))
        parts = tuple(self.part(start, end) for start, end in itertools.pairwise([*cuts, count]))
        if not all(any(len(document) > needs_pairs for document in part.documents) for part in parts):
            raise CorpusError(f"{self.name} is too short to be split; set validation_share and test_share to 0.")
        return parts


def read_corpus(
    path_or_text: str | os.PathLike,
    *,
    kind: str = "auto",
    encoding: str | None = None,
    most_documents: int | None = None,
    progress: Callable[[float], None] = ignore,
) -> Corpus:
    """Read a corpus from a file, or from a string.

    path_or_text: a string is a path only if it is one line that names an existing file; for a visitor's text use
    `Corpus.from_text`, which never opens a file. kind: see `SentenceReader`. encoding: if not UTF-8, see
    `decoded_blocks`. most_documents: read so many from the start; of a file of more than 1 GB, it has to be given.
    progress: called with the fraction that is read. Raises CorpusError, or ConfigError for another kind or encoding.
    """
    if isinstance(path_or_text, str) and ("\n" in path_or_text or not os.path.isfile(path_or_text)):
        return Corpus.from_text(path_or_text, kind).first(most_documents)
    path = Path(path_or_text)
    notes: list[str] = []
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > WHOLE_BYTES and most_documents is None:
                raise CorpusError(
                    f"{path.name} has {megabytes(size)}; a text of more than {megabytes(WHOLE_BYTES)} is read in part: "
                    "say with corpus.most_documents how many documents from its start."
                )

            def blocks() -> Iterator[str]:
                for block in decoded_blocks(file, path.name, notes, encoding):
                    progress(file.tell() / size)
                    yield block

            return _read(SentenceReader(kind, path.name), blocks(), notes, encoding, most_documents)
    except OSError as error:
        raise CorpusError(f"The file {path} cannot be read ({error.strerror}); check its name.") from None


def _read(
    reader: SentenceReader,
    blocks: Iterable[str],
    notes: list[str],
    encoding: str | None,
    most_documents: int | None = None,
) -> Corpus:
    """notes: on the blocks, complete when these are read."""
    kind = reader.kind  # "auto" becomes another while it reads
    documents: list[list[str]] = [[]]
    for sentences in reader.read(blocks):
        if sentences:
            documents[-1] += sentences
        elif documents[-1]:
            if len(documents) == most_documents:
                break
            documents.append([])
    if not documents[-1]:
        documents.pop()
    labels = reader.labels[: len(documents)] or None
    return Corpus(documents, reader.name, (*notes, *reader.notes), labels, kind, encoding)
