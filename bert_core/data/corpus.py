"""A text as documents of sentences; next-sentence pairs are neighbours in the same document."""

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bert_core.config import CORPUS_KINDS, LOCAL, Limits
from bert_core.data.decoding import cleaned, decode, without_invisible
from bert_core.data.sentences import (
    FINAL_MARK,
    LONG_WORD,
    MARKS,
    MAX_WORD_CHARACTERS,
    UNSPACED,
    split_at_marks,
    split_sentences,
)
from bert_core.errors import ConfigError, CorpusError, megabytes, noting, percent

MAX_BYTES = 64 * 2**20  # of a visitor's text
WHOLE_BYTES = 2**30  # of a file that is read whole

KINDS = {
    "lines": "each line is a sentence",
    "documents": "each line is a paragraph, which is divided into sentences",
    "wrapped": "the lines up to a blank line are joined and divided into sentences",
    "wikitext": "each line with “ . ”, which divides sentences, is a document, without headings",
    "pairs": "each line is a pair of texts, with 1 if they belong together and else 0",
}
_LINES_TESTED, _MANY_SENTENCES = 1000, 4  # for "auto"
_WORDS, _CHARACTERS = 25, 40  # with a mark among so many, a text has sentences
_UNSPACED = re.compile(f"[{UNSPACED}]")
_TIGHT = f"{UNSPACED}\u3001-\u3029\uff01-\uff9f"  # no space stands beside these
_TIGHT_BREAK = re.compile(f"(?<=[{_TIGHT}])\n|\n(?=[{_TIGHT}])")
_REPEATED = 0.01  # of a text; said from there on


@dataclass(frozen=True)
class Corpus:
    """A text as documents of sentences.

    documents: lists of their sentences, each with at least one. name: for messages. notes: how it was read and what was
    changed (encoding, cut words), one sentence each. labels: whether each pair is positive, if every document is a
    labelled pair; None if the positive pairs are the neighbours in a document. kind, encoding: with which it was asked
    for; None for a text that was not read here, and where none was given.
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

    @property
    def longest(self) -> str:
        """The sentence with the most characters."""
        return max(self.sentences, key=len)

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
        """Read the content of a file: see `decode` and, for the rest, `from_text`."""
        if len(data) > (most := min(MAX_BYTES, limits.upload_bytes)):
            raise CorpusError(f"{name} has {megabytes(len(data))}; the limit is {megabytes(most)}. Use a part.")
        text, notes = decode(data, name, encoding)
        return _read(text, name, notes, kind, encoding=encoding, items=limits.items)

    @classmethod
    def from_text(cls, text: str, kind: str = "auto", name: str = "the text", limits: Limits = LOCAL) -> "Corpus":
        """Read a text. A blank line ends a document in the first three kinds.

        kind:
            "lines": each line is a sentence.
            "documents": each line is a paragraph, which is divided into sentences.
            "wrapped": the lines up to a blank line are joined, and divided into sentences.
            "auto": "documents" if lines with four or more sentences hold most sentences; "wrapped" if most lines that
                another one follows end without a sentence's mark, and the text has a mark at least every 25 words (40
                characters without spaces); else "lines". The first 1,000 lines decide, and a note says which it is.
            "wikitext": each line with " . ", which divides sentences, is a document; headings are left out.
            "pairs": `text<TAB>text<TAB>label` per line, label 1 for positive and 0 for negative, or MRPC's five
                columns; or `text<TAB>text`, whose lines are documents of two sentences.

        name: for messages. Raises CorpusError if the text is too large, not plain text, empty, or a line is not a pair;
        ConfigError for another kind.
        """
        if len(text) > (most := min(MAX_BYTES, limits.upload_bytes)):
            raise CorpusError(f"{name} has {len(text):,} characters; the limit is {most:,}. Use a part.")
        text, notes = cleaned(text.removeprefix("\ufeff"), name)
        return _read(text, name, notes, kind, items=limits.items)

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
) -> Corpus:
    """Read a corpus from a file, or from a string.

    path_or_text: a string is a path only if it is one line that names an existing file; for a visitor's text use
    `Corpus.from_text`, which never opens a file. kind: see `Corpus.from_text`. encoding: see `decode`. most_documents:
    read so many from the start; it has to be given for a file of more than 1 GB, of which that much is read. Raises
    CorpusError, or ConfigError for another kind or encoding.
    """
    if isinstance(path_or_text, str) and ("\n" in path_or_text or not os.path.isfile(path_or_text)):
        return Corpus.from_text(path_or_text, kind).first(most_documents)
    path = Path(path_or_text)
    try:
        with path.open("rb") as file:
            size, data = os.fstat(file.fileno()).st_size, file.read(WHOLE_BYTES)
    except OSError as error:
        raise CorpusError(f"The file {path} cannot be read ({error.strerror}); check its name.") from None
    if size > WHOLE_BYTES:
        if most_documents is None:
            raise CorpusError(
                f"{path.name} has {megabytes(size)}; of a text of more than {megabytes(WHOLE_BYTES)}, say with "
                "corpus.most_documents how many documents to read from its start."
            )
        data = data[: data.rfind(b"\n") + 1]
    text, notes = decode(data, path.name, encoding)
    return _read(text, path.name, notes, kind, encoding=encoding, most_documents=most_documents)


def _read(
    text: str,
    name: str,
    notes: list[str],
    kind: str,
    *,
    encoding: str | None = None,
    items: float = math.inf,
    most_documents: int | None = None,
) -> Corpus:
    """A text as it was decoded, with notes on that. items: as in `Limits`. The others: see `read_corpus`."""
    if kind not in CORPUS_KINDS:
        raise ConfigError(f"The corpus kind {kind!r} is unknown; it can be one of: {', '.join(CORPUS_KINDS)}.")
    with noting(notes):
        if sum(map(text.count, f"\n{MARKS}")) > items:
            raise CorpusError(f"{name} has more than {items:,} lines and sentence marks, the limit here. Use a part.")
        text, invisible = without_invisible(text)
        notes += [f"Characters without width taken out of words: {invisible:,}."] if invisible else []
        lines = [" ".join(line.split()) for line in text.splitlines()]
        if not any(lines):
            raise CorpusError(f"{name} is empty; type or paste at least two sentences.")
        used, labels = kind, None
        if kind == "auto":
            used = kind_of(lines)
            notes.append(f"Read as {used}: {KINDS[used]}. If that is wrong, choose another kind of text (--kind).")
        if used == "pairs":
            documents, labels = _pairs(text, name, most_documents)
        else:
            divide = _wikitext if used == "wikitext" else functools.partial(_documents, kind=used)
            documents = [*itertools.islice(divide(lines), most_documents)]
        if not documents:
            raise CorpusError(
                f"{name} has no {used}: {KINDS[used]}. Choose another kind of text (--kind), or write it so."
            )
        notes += [*_cut_words(documents), *_repeated(documents, used == "pairs")]
    return Corpus(documents, name, tuple(notes), labels, kind, encoding)


def kind_of(lines: Sequence[str]) -> str:
    """The kind that "auto" stands for, see `Corpus.from_text`. lines: without white space at both ends."""
    lines = lines[:_LINES_TESTED]
    counts = [len(split_at_marks(line)) for line in lines]
    if 2 * sum(count for count in counts if count >= _MANY_SENTENCES) > sum(counts):
        return "documents"
    followed = [line for line, after in itertools.pairwise(lines) if line and after]
    unended = sum(not FINAL_MARK.search(line[-4:]) for line in followed)
    text = " ".join(lines)
    marks = sum(bool(FINAL_MARK.search(sentence[-4:])) for sentence in split_at_marks(text))
    least = len(text.split()) / _WORDS + len(_UNSPACED.findall(text)) / _CHARACTERS
    return "wrapped" if 2 * unended > len(followed) and marks >= least else "lines"


def _documents(lines: Iterable[str], kind: str) -> Iterator[list[str]]:
    for has_text, group in itertools.groupby(lines, bool):
        if has_text and kind == "lines":
            yield [*group]
        elif has_text and kind == "documents":
            yield [sentence for line in group for sentence in split_sentences(line)]
        elif has_text:
            yield split_sentences(_TIGHT_BREAK.sub("", "\n".join(group)).replace("\n", " "))


def _wikitext(lines: Iterable[str]) -> Iterator[list[str]]:
    for line in lines:
        is_heading = len(line) > 1 and line[0] == line[-1] == "="
        if not is_heading and " . " in f"{line} ":
            yield [part for part in line.split(" . ") if part.strip(" .")]


def _pairs(text: str, name: str, most: int | None) -> tuple[list[list[str]], list[bool] | None]:
    """The pairs, and whether each is positive; None for neighbours. Only a line feed ends a line here."""
    documents: list[list[str]] = []
    labels: list[bool] = []
    for number, line in enumerate(text.split("\n"), 1):
        cells = [cell.strip() for cell in line.split("\t")]
        if not line.strip() or (number == 1 and cells[0].lower() == "quality"):
            continue
        if len(documents) == most:
            break
        if len(cells) == 5:
            cells = [cells[3], cells[4], cells[0]]
        is_first, has_label = not documents, cells[2:] in (["0"], ["1"])
        if len(cells) != 2 + has_label or (not is_first and has_label != bool(labels)):
            raise CorpusError(
                f"Line {number} of {name} is not a pair; write text, tab, text, tab and 1 or 0, or MRPC's five columns,"
                " or on all lines two texts with a tab between them."
            )
        documents.append([cell for cell in cells[:2] if cell or has_label])
        labels += [cells[2] == "1"] if has_label else []
    return documents, labels or None


def _cut_words(documents: list[list[str]]) -> list[str]:
    """Cut the long words of these documents. Returns a note on it."""
    words, lost, kept = 0, 0, 0
    for document in documents:
        for i, sentence in enumerate(document):
            if len(sentence) > MAX_WORD_CHARACTERS:
                document[i], count = LONG_WORD.subn(lambda word: word[0][:MAX_WORD_CHARACTERS], sentence)
                words, lost = words + count, lost + len(sentence) - len(document[i])
            kept += len(document[i])
    share = f"{percent(lost / max(1, lost + kept))} of the text is left out"
    return [f"Words cut after {MAX_WORD_CHARACTERS} characters: {words:,}; {share}."] if words else []


def _repeated(documents: list[list[str]], are_pairs: bool) -> list[str]:
    """A note on the sentences, or labelled pairs, that a text has more than once."""
    units = [*map(tuple, documents)] if are_pairs else [*itertools.chain.from_iterable(documents)]
    repeated, what = len(units) - len(set(units)), "Pairs" if are_pairs else "Sentences"
    is_worth = repeated >= _REPEATED * len(units)
    return [f"{what} that stand further up already: {repeated:,} of {len(units):,}."] if repeated and is_worth else []
