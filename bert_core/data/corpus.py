"""A text as documents of sentences; next-sentence pairs are neighbours in the same document."""

import dataclasses
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bert_core.config import CORPUS_KINDS, Limits
from bert_core.data.decoding import decode
from bert_core.data.sentences import FINAL_MARK, LONG_WORD, MARKS, MAX_WORD_CHARACTERS, UNSPACED, split_sentences
from bert_core.errors import ConfigError, CorpusError, first_three, megabytes, noting, percent, quoted

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
_LONG_RUN = re.compile(rf"\S{{{MAX_WORD_CHARACTERS + 1},}}")  # is found sooner than LONG_WORD, and most texts have none
_REPEATED = 0.01  # of a text; said from there on


@dataclass(frozen=True)
class Corpus:
    """A text as documents of sentences.

    documents: at least one sentence each. notes: how it was read, one sentence each. labels: whether each pair is
    positive, if every document is a labelled pair; None if the positive pairs are the neighbours in a document. kind,
    encoding: with which it was asked for, if they were given."""

    documents: list[list[str]]
    name: str = "the text"
    notes: tuple[str, ...] = ()
    labels: list[bool] | None = None
    kind: str | None = None
    encoding: str | None = None

    @cached_property
    def sentences(self) -> list[str]:
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
        limits: Limits | None = None,
    ) -> "Corpus":
        """Read the content of a file.

        kind: one of KINDS, in the first three of which a blank line ends a document, or "auto", see `kind_of`.
        encoding: see `decode`. Raises CorpusError if the text is too large, not plain text, empty, or a line is not a
        pair; ConfigError for another kind or encoding."""
        if limits and len(data) > (most := limits.upload_bytes):
            raise CorpusError(f"{name} has {megabytes(len(data))}; the limit is {megabytes(most)}. Use a part.")
        text, notes = decode(data, name, encoding)
        with noting(notes):
            if limits and sum(text.count(mark) for mark in ("\n", *MARKS)) > limits.items:
                raise CorpusError(
                    f"{name} has more than {limits.items:,} lines and sentence marks, the limit here. Use a part."
                )
            return _divided(text, kind, name, notes, encoding)

    @classmethod
    def from_text(cls, text: str, kind: str = "auto", name: str = "the text", limits: Limits | None = None) -> "Corpus":
        """Read a text as `from_bytes` does a file; half of a character, a lone surrogate, is a damaged one."""
        whole = re.sub("[\ud800-\udfff]", "\ufffd", text.removeprefix("\ufeff"))
        return cls.from_bytes(whole.encode(), kind, name, limits=limits)

    def first(self, number: int | None) -> "Corpus":
        """The first `number` documents or pairs; None: all."""
        return self.part(0, sum(map(len, self.documents[:number])))

    @property
    def text(self) -> str:
        """What `read_corpus` reads as this text again, as kind "pairs" if it has tabs and else as kind "lines"."""
        if self.labels is not None or (self.kind == "pairs" and all(len(pair) == 2 for pair in self.documents)):
            labels = [f"\t{label:d}" for label in self.labels or ()] or [""] * len(self.documents)
            return "".join("\t".join(pair) + label + "\n" for pair, label in zip(self.documents, labels))
        return "\n\n".join(map("\n".join, self.documents)) + "\n"

    def part(self, start: int, end: int) -> "Corpus":
        """The sentences `start` to `end` in their documents; of labelled pairs, those that begin there."""
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

        The shares are of the sentences. A cut is at the end of a document if that changes each part by less than half
        of the smallest, and of labelled pairs always. Raises CorpusError if a part has no pair or, where no pairs are
        needed, no sentence."""
        if not shares:
            return (self,)
        ends, count = [0, *itertools.accumulate(map(len, self.documents))], len(self.sentences)
        near = count * min(*shares, 1 - sum(shares)) / 2
        cuts = [0]
        for number in range(len(shares)):
            cut = count * (1 - sum(shares[number:]))
            nearest = min(ends, key=lambda end: (abs(end - cut), -end))
            cuts.append(nearest if abs(nearest - cut) < near or self.labels is not None else round(cut))
        parts = tuple(itertools.starmap(self.part, itertools.pairwise([*cuts, count])))
        least = 2 if needs_pairs else 1  # sentences of a document
        if not all(any(len(document) >= least for document in part.documents) for part in parts):
            raise CorpusError(f"{self.name} is too short to be split; set validation_share and test_share to 0.")
        return parts


def read_corpus(
    path_or_text: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    kind: str = "auto",
    encoding: str | None = None,
    most_documents: int | None = None,
) -> Corpus:
    """Read a corpus from a file, several, a folder, whose files are read in the order of their names, but for hidden
    ones, or a string, which is a path only if it is one line that names one. Several files are one text.

    For a visitor's text use `Corpus.from_text`, which never opens a file. The others: see `Corpus.from_bytes`; of more
    than 1 GB, most_documents has to be given, and 1 GB of each file is read."""
    if isinstance(path_or_text, str) and ("\n" in path_or_text or not os.path.exists(path_or_text)):
        return Corpus.from_text(path_or_text, kind).first(most_documents)
    given = [path_or_text] if isinstance(path_or_text, str | os.PathLike) else path_or_text
    paths = [path for each in map(Path, given) for path in (_files(each) if os.path.isdir(each) else [each])]
    name, several = first_three(path.name for path in paths), len(paths) > 1
    notes, texts = [f"Files read, in this order: {name}."] * several, list[str]()
    with noting(notes):
        for path, data in zip(paths, _contents(paths, name, most_documents)):
            text, said = decode(data, path.name, encoding)
            texts.append(text)
            notes += [f"{path.name}: {note}" for note in said] if several else said
            if path.stat().st_size > len(data):
                notes.append(f"Of {path.name}, the first {megabytes(len(data))} are read.")
        return _divided("\n\n".join(texts), kind, name, notes, encoding, most_documents)


def _files(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if not files:
        raise CorpusError(f"The folder {folder} has no file of text; give one that has.")
    return files


def _contents(paths: Sequence[Path], name: str, most_documents: int | None) -> Iterator[bytes]:
    """The content of each file, of a long one its first lines, where that is asked for."""
    try:
        if most_documents is None and sum(path.stat().st_size for path in paths) > WHOLE_BYTES:
            raise CorpusError(
                f"{name} has more than {megabytes(WHOLE_BYTES)}; use a part of it, or say in a training with "
                "corpus.most_documents how many documents to read from its start."
            )
        for path in paths:
            with path.open("rb") as file:
                yield file.read(WHOLE_BYTES) + file.readline()
    except OSError as error:
        raise CorpusError(f"The file {error.filename} cannot be read ({error.strerror}); check its name.") from None


def _divided(
    text: str, kind: str, name: str, notes: list[str], encoding: str | None, most_documents: int | None = None
) -> Corpus:
    """The corpus of a text, with more notes than these. Errors: see `from_bytes`."""
    if kind not in CORPUS_KINDS:
        raise ConfigError(f"The corpus kind {kind!r} is unknown; it can be one of: {', '.join(CORPUS_KINDS)}.")
    words, cut = 0, text
    if _LONG_RUN.search(text):
        cut, words = LONG_WORD.subn(lambda word: word[0][:MAX_WORD_CHARACTERS], text)
    if words:
        share = f"{percent(1 - len(cut) / len(text))} of the text is left out"
        notes.append(f"Words cut after {MAX_WORD_CHARACTERS} characters: {words:,}; {share}.")
    lines = [" ".join(line.split()) for line in cut.splitlines()]
    if not any(lines):
        raise CorpusError(f"{name} is empty; type or paste at least two sentences.")
    used = kind
    if kind == "auto":
        used = kind_of(lines)
        notes.append(f"Read as {used}: {KINDS[used]}. If that is wrong, choose another kind of text (--kind).")
    divided = _pairs(cut, name) if used == "pairs" else _documents(lines, used)
    documents = [*itertools.islice(divided, most_documents)]
    if not documents:
        raise CorpusError(f"{name} has no {used}: {KINDS[used]}. Choose another kind of text (--kind), or write it so.")
    labels = None
    if used == "pairs" and len(documents[0]) == 3:
        labels = [label == "1" for _, _, label in documents]
        documents = [pair[:2] for pair in documents]
    units = [*map(tuple, documents)] if used == "pairs" else [*itertools.chain.from_iterable(documents)]
    repeated, what = len(units) - len({*units}), "Pairs" if used == "pairs" else "Sentences"
    if repeated and repeated >= _REPEATED * len(units):
        notes.append(f"{what} that stand further up already: {repeated:,} of {len(units):,}.")
    return Corpus(documents, name, tuple(notes), labels, kind, encoding)


def kind_of(lines: Sequence[str]) -> str:
    """The kind that "auto" stands for: "documents" if lines with four or more sentences hold most sentences; "wrapped"
    if most lines that another one follows end without a sentence's mark, and the text has a mark at least every 25
    words (40 characters without spaces); else "lines". The first 1,000 lines decide."""
    lines = lines[:_LINES_TESTED]
    counts = [len(split_sentences(line, phrases=False)) for line in lines]
    if 2 * sum(count for count in counts if count >= _MANY_SENTENCES) > sum(counts):
        return "documents"
    followed = [line for line, after in itertools.pairwise(lines) if line and after]
    unended = sum(not FINAL_MARK.search(line[-4:]) for line in followed)
    text = " ".join(lines)
    marks = sum(bool(FINAL_MARK.search(sentence[-4:])) for sentence in split_sentences(text, phrases=False))
    least = len(text.split()) / _WORDS + len(_UNSPACED.findall(text)) / _CHARACTERS
    return "wrapped" if 2 * unended > len(followed) and marks >= least else "lines"


def _documents(lines: Iterable[str], kind: str) -> Iterator[list[str]]:
    if kind == "wikitext":
        texts = (line for line in lines if not (len(line) > 1 and line[0] == line[-1] == "="))  # others are headings
        divided = ([part for part in line.split(" . ") if part.strip(" .")] for line in texts if " . " in f"{line} ")
        yield from filter(None, divided)
        return
    for has_text, group in itertools.groupby(lines, bool):
        if has_text and kind == "lines":
            yield [*group]
        elif has_text and kind == "documents":
            yield [sentence for line in group for sentence in split_sentences(line)]
        elif has_text:
            yield split_sentences(_TIGHT_BREAK.sub("", "\n".join(group)).replace("\n", " "))


def _pairs(text: str, name: str) -> Iterator[list[str]]:
    """The two texts of each line with, on all lines or on none, its label "0" or "1". Only a line feed ends a line."""
    columns = 0
    for number, line in enumerate(text.split("\n"), 1):
        cells = [cell.strip() for cell in line.split("\t")]
        if not any(cells) or (len(cells) == 5 and cells[0] == "Quality"):  # a header of MRPC
            continue
        if len(cells) == 5:
            cells = [cells[3], cells[4], cells[0]]
        columns = columns or len(cells)
        if len(cells) != columns or columns < 2 or not all(cells[:2]) or cells[2:] not in ([], ["0"], ["1"]):
            raise CorpusError(
                f"Line {number} of {name} is not a pair; write text, tab, text, tab and 1 or 0, or MRPC's five columns,"
                f" or on all lines two texts with a tab between them. It is {quoted(line)}."
            )
        yield cells
