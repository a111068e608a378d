"""From bytes to documents of sentences.

A corpus is documents, a document is sentences in reading order: next-sentence pairs come from neighbours in the same
document. Everything a person gives is checked here: size, encoding, control characters, absurdly long words.
"""

import codecs
import dataclasses
import hashlib
import itertools
import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bert_core.config import KINDS
from bert_core.errors import ConfigError, CorpusError

MAX_BYTES = 64 * 2**20
MAX_WORD_CHARACTERS = 100  # WordPiece takes quadratic time in the length of a word

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with a byte order mark"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
_LONG_WORD = re.compile(rf"\S{{{MAX_WORD_CHARACTERS + 1},}}")
# Control characters that no text file holds, and lone surrogates, which no encoding can carry.
_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ud800-\udfff]")
# A sentence ends at . ! ? or … (with closing quotes or brackets) before white space, or at a full stop of Chinese or
# Japanese.
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])")
_WIKITEXT_HEADING = re.compile(r"(= ?)+.*(= ?)+")
_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Prof|Sr|Jr|vs|etc|e\.g|i\.e|cf|No|Vol|pp)|\b[A-Z])\.$")


@dataclass(frozen=True)
class Corpus:
    """A text as documents of sentences.

    documents: sentences as they were written, white space at both ends removed. name: for messages. notes: sentences
    on what was changed while reading (encoding, cut words). labels: for pairs, whose documents are two sentences each,
    whether a pair is positive; otherwise None, and neighbours are what follows one another.
    """

    documents: tuple[tuple[str, ...], ...]
    name: str = "the text"
    notes: tuple[str, ...] = ()
    labels: tuple[bool, ...] | None = None

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """All sentences in reading order."""
        return tuple(sentence for document in self.documents for sentence in document)

    @cached_property
    def fingerprint(self) -> str:
        """A number in hexadecimal that another text does not have; the name does not count."""
        return hashlib.sha256(json.dumps([self.documents, self.labels]).encode()).hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes, kind: str = "auto", name: str = "the file") -> "Corpus":
        """Decode and split a file's content; UTF-8 unless a byte order mark says otherwise. Raises CorpusError."""
        if len(data) > MAX_BYTES:
            raise CorpusError(
                f"{name} has {len(data) / 2**20:.0f} MB; the limit is {MAX_BYTES // 2**20} MB. Take a part of it."
            )
        known = ((mark, encoding, label) for mark, encoding, label in _BYTE_ORDER_MARKS if data.startswith(mark))
        mark, encoding, label = next(known, (b"", "utf-8", ""))
        try:
            text = data[len(mark) :].decode(encoding)
        except UnicodeDecodeError as error:
            raise _no_text(name, len(mark) + error.start) from None
        if found := _NOT_TEXT.search(text):
            raise _no_text(name, len(mark) + len(text[: found.start()].encode(encoding)))
        corpus = cls.from_text(text, kind, name)
        return dataclasses.replace(corpus, notes=(f"Read as {label}.", *corpus.notes)) if label else corpus

    @classmethod
    def from_text(cls, text: str, kind: str = "auto", name: str = "the text") -> "Corpus":
        """Split a text into documents of sentences.

        kind: "lines" (a sentence a line), "documents" (paragraphs are split into sentences), or "auto" (documents
        when the typical line is longer than a sentence); a blank line ends a document in these. "wikitext": every line
        of at least two sentences, which end in " . ", is a document; headings are left out. "pairs": two texts and a
        label a line, separated by tabs (see `_read_pairs`). Raises CorpusError when the text is too large, not text,
        or empty.
        """
        if kind not in KINDS:
            raise ConfigError(f"The corpus kind {kind!r} is unknown; it can be one of: {', '.join(KINDS)}.")
        if len(text) > MAX_BYTES:
            raise CorpusError(
                f"{name} has {len(text) / 1e6:.0f} million characters; the limit is {MAX_BYTES / 1e6:.0f} million. "
                "Take a part of it."
            )
        text = text.removeprefix("\ufeff")
        if found := _NOT_TEXT.search(text):
            raise _no_text(name, len(text[: found.start()].encode("utf-8")))
        text, cut = _LONG_WORD.subn(lambda word: word.group()[:MAX_WORD_CHARACTERS], text)
        notes = (f"{cut} words longer than {MAX_WORD_CHARACTERS} characters were cut.",) if cut else ()
        if kind == "pairs":
            return _read_pairs(text, name, notes)
        lines = [" ".join(line.split()) for line in text.splitlines()]
        written = [line for line in lines if line]
        if not written:
            raise CorpusError(f"{name} is empty; type or paste at least two sentences.")
        if kind == "wikitext":
            parts = (line.removesuffix(" .").split(" . ") for line in written if not _WIKITEXT_HEADING.fullmatch(line))
            found = (tuple(part.strip() for part in line if part.strip(" .")) for line in parts)
            return cls(tuple(sentences for sentences in found if len(sentences) > 1), name, notes)
        if kind == "auto":
            kind = "documents" if sorted(map(len, written))[len(written) // 2] > 200 else "lines"
        documents: list[list[str]] = [[]]
        for line in lines:
            if line:
                documents[-1].extend(split_sentences(line) if kind == "documents" else [line])
            elif documents[-1]:
                documents.append([])
        return cls(tuple(tuple(document) for document in documents if document), name, notes)

    def first(self, number: int | None) -> "Corpus":
        """The first documents or pairs; all of them for None."""
        labels = None if self.labels is None else self.labels[:number]
        return dataclasses.replace(self, documents=self.documents[:number], labels=labels)

    def split(self, *shares: float) -> tuple["Corpus", ...]:
        """The text in parts: one for each share, from the end, and what is left of it first.

        `corpus.split(0.16, 0.2)` gives the first 64 %, the next 16 % and the last 20 %. Documents stay whole, unless
        there is only one, which is cut between sentences. Raises CorpusError when a part would have no pair.
        """
        if not shares:
            return (self,)
        whole = self if len(self.documents) > 1 else Corpus(tuple((s,) for s in self.sentences), self.name, self.notes)
        n = len(whole.documents)
        cuts = [0, *(round(n * (1 - sum(shares[i:]))) for i in range(len(shares))), n]
        parts = []
        for start, end in itertools.pairwise(cuts):
            documents = whole.documents[start:end]
            if whole is not self:
                documents = (tuple(sentence for document in documents for sentence in document),)
            if not any(len(document) > 1 for document in documents):
                raise CorpusError(f"{self.name} is too short to be split; set validation_share and test_share to 0.")
            labels = None if self.labels is None else self.labels[start:end]
            parts.append(dataclasses.replace(self, documents=documents, labels=labels))
        return tuple(parts)


def _read_pairs(text: str, name: str, notes: tuple[str, ...]) -> Corpus:
    """Two texts and a label, 1 for positive: `text<TAB>text<TAB>label`, or the five columns of MRPC with its header."""
    documents, labels = [], []
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.split("\t")]
        if not line.strip() or (number == 1 and cells[0].lower() == "quality"):
            continue
        if len(cells) == 5:
            cells = [cells[3], cells[4], cells[0]]
        if len(cells) != 3 or cells[2] not in ("0", "1"):
            raise CorpusError(
                f"Line {number} of {name} is no pair; write text, tab, text, tab and 1 or 0, or MRPC's five columns."
            )
        documents.append((cells[0], cells[1]))
        labels.append(cells[2] == "1")
    if not documents:
        raise CorpusError(f"{name} has no pairs; write text, tab, text, tab and 1 or 0 on each line.")
    return Corpus(tuple(documents), name, notes, tuple(labels))


def _no_text(name: str, byte: int) -> CorpusError:
    return CorpusError(f"{name} is not plain text (byte {byte}); save it as UTF-8 text.")


def read_corpus(path_or_text: str | os.PathLike, *, kind: str = "auto") -> Corpus:
    """Read a corpus from a file, or from a text itself.

    path_or_text: a path; or a string, which is taken as a path only if it is one line that names an existing file.
    Use `Corpus.from_text` for what a visitor typed: it never opens a file. Raises CorpusError.
    """
    if isinstance(path_or_text, str) and not _names_a_file(path_or_text):
        return Corpus.from_text(path_or_text, kind)
    path = Path(path_or_text)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CorpusError(
                f"{path.name} has {path.stat().st_size / 2**20:.0f} MB; the limit is {MAX_BYTES // 2**20} MB. "
                "Take a part of it."
            )
        data = path.read_bytes()
    except OSError as error:
        raise CorpusError(f"The file {path} cannot be read ({error.strerror}); check its name.") from None
    return Corpus.from_bytes(data, kind, path.name)


def _names_a_file(text: str) -> bool:
    try:
        return "\n" not in text and len(text) < 4096 and Path(text).is_file()
    except (OSError, ValueError):
        return False


def split_sentences(paragraph: str) -> list[str]:
    """Split a paragraph after . ! ? … and their Chinese forms; common abbreviations and initials do not end a sentence.

    >>> split_sentences("Dr. Jekyll left. Who came in?")
    ['Dr. Jekyll left.', 'Who came in?']
    """
    sentences: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(paragraph):
        stop = end.start()
        # Looking back no further than an abbreviation reaches keeps a page of initials from taking quadratic time.
        if not end.group().strip() and _ABBREVIATION.search(paragraph, max(start, stop - 8), stop):
            continue
        if part := paragraph[start : end.end()].strip():
            sentences.append(part)
        start = end.end()
    rest = paragraph[start:].strip()
    return [*sentences, rest] if rest else sentences
