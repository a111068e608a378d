"""A text as documents of sentences; next-sentence pairs are neighbours in the same document."""

import dataclasses
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bert_core.config import CORPUS_KINDS, Limits
from bert_core.data.decoding import decode
from bert_core.data.sentences import FINAL_MARK, LONG_WORD, MARKS, MAX_WORD_CHARACTERS, UNSPACED, split_sentences
from bert_core.errors import ConfigError, CorpusError, first_three, megabytes, noting, percent

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
_LONG_RUN = re.compile(rf"\S{{{MAX_WORD_CHARACTERS + 1},}}")  # is looked at more closely
_REPEATED = 0.01  # of a text; said from there on


@dataclass(frozen=True)
class Corpus:
    """A text as documents of sentences.

    documents: lists of sentences, each with at least one. name: for messages. notes: how it was read, one sentence
    each. labels: whether each pair is positive, if every document is a labelled pair; None if the positive pairs are
    the neighbours in a document. kind, encoding: with which it was asked for, None where they were not given."""

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
        data: bytes | Mapping[str, bytes],
        kind: str = "auto",
        name: str = "the file",
        encoding: str | None = None,
        limits: Limits | None = None,
        most_documents: int | None = None,
    ) -> "Corpus":
        """Read the content of a file, or of several by their names, one after the other.

        kind: one of KINDS, in the first three of which a blank line ends a document, or "auto", see `kind_of`. name:
        for messages. encoding: see `decode`. limits: of a visitor. most_documents: read so many from the start. Raises
        CorpusError if the text is too large, not plain text, empty, or a line is not a pair; ConfigError for another
        kind or encoding."""
        if kind not in CORPUS_KINDS:
            raise ConfigError(f"The corpus kind {kind!r} is unknown; it can be one of: {', '.join(CORPUS_KINDS)}.")
        files, notes = {name: data} if isinstance(data, bytes) else data, list[str]()
        texts, lines = dict[str, str](), dict[str, list[str]]()
        with noting(notes):
            for file, content in files.items():
                texts[file], said = _text_of(content, file, encoding, limits)
                notes += said if len(files) == 1 else [f"{file}: {note}" for note in said]
                lines[file] = [" ".join(line.split()) for line in texts[file].splitlines()]
            if not any(map(any, lines.values())):
                raise CorpusError(f"{name} is empty; type or paste at least two sentences.")
            if empty := [file for file, each in lines.items() if not any(each)]:
                notes.append(f"Files without text: {first_three(empty)}.")
            used = kind
            if kind == "auto":
                used = kind_of([line for each in lines.values() for line in [*each[:_LINES_TESTED], ""]])
                notes.append(f"Read as {used}: {KINDS[used]}. If that is wrong, choose another kind of text (--kind).")
            divided = (
                _pairs(texts[each], each) if used == "pairs" else _documents(lines[each], used) for each in files
            )
            documents = [*itertools.islice(itertools.chain.from_iterable(divided), most_documents)]
            if len({len(pair) for pair in documents if used == "pairs"}) > 1:
                raise CorpusError(f"Of {name}, only some have a label for each pair; read them apart.")
            if not documents:
                raise CorpusError(
                    f"{name} has no {used}: {KINDS[used]}. Choose another kind of text (--kind), or write it so."
                )
        labels = [pair[2] == "1" for pair in documents if len(pair) == 3] if used == "pairs" else []
        documents = [pair[:2] for pair in documents] if labels else documents
        notes += _repeated(documents, used)
        return cls(documents, name, tuple(notes), labels or None, kind, encoding)

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
    """Read a corpus from a file, a folder of files, several of both, or a string, which is a path only if it is one
    line that names one.

    For a visitor's text use `Corpus.from_text`, which never opens a file. The others: see `Corpus.from_bytes`; of more
    than 1 GB, most_documents has to be given, and that much is read."""
    if isinstance(path_or_text, str) and ("\n" in path_or_text or not os.path.exists(path_or_text)):
        return Corpus.from_text(path_or_text, kind).first(most_documents)
    paths, notes = _files([path_or_text] if isinstance(path_or_text, str | os.PathLike) else path_or_text)
    names = [path.name for path in paths]
    names = names if len({*names}) == len(names) else [*map(str, paths)]
    files, room, title = dict[str, bytes](), WHOLE_BYTES, first_three(names)
    with noting(notes):
        for name, path in zip(names, paths):
            try:
                with path.open("rb") as file:
                    files[name] = file.read(room + 1)
            except OSError as error:
                raise CorpusError(f"The file {path} cannot be read ({error.strerror}); check its name.") from None
            if (room := room - len(files[name])) >= 0:
                continue
            if most_documents is None:
                raise CorpusError(
                    f"{title} has more than {megabytes(WHOLE_BYTES)}; say with corpus.most_documents how many "
                    "documents to read from its start."
                )
            files[name] = files[name][: files[name].rfind(b"\n") + 1]
            rest = len(paths) - len(files)
            notes += [f"Files after the first {megabytes(WHOLE_BYTES)}, left out: {rest}."] * bool(rest)
            break
        corpus = Corpus.from_bytes(files, kind, title, encoding, most_documents=most_documents)
    return dataclasses.replace(corpus, notes=(*notes, *corpus.notes))


def _files(given: Iterable[str | os.PathLike[str]]) -> tuple[list[Path], list[str]]:
    """The files, each once, those of a folder in the order of their names; and notes on that."""
    paths, notes = list[Path](), list[str]()
    for each in map(Path, given):
        inside = sorted(each.iterdir()) if os.path.isdir(each) else [each]
        files = [path for path in inside if path == each or (path.is_file() and not path.name.startswith("."))]
        if not files:
            raise CorpusError(f"The folder {each} has no file of text; give one that has.")
        notes += [f"In {each.name}, hidden or no files: {len(inside) - len(files):,}."] * (len(files) < len(inside))
        paths += files
    once = {path.resolve(): path for path in paths}
    notes += [f"Files given more than once, read once: {len(paths) - len(once):,}."] * (len(once) < len(paths))
    notes += [f"Files read, in this order: {first_three(path.name for path in once.values())}."] * (len(once) > 1)
    return [*once.values()], notes


def kind_of(lines: Sequence[str]) -> str:
    """The kind that "auto" stands for: "documents" if lines with four or more sentences hold most sentences; "wrapped"
    if most lines that another one follows end without a sentence's mark, and the text has a mark at least every 25
    words (40 characters without spaces); else "lines". The first 1,000 lines decide.

    lines: without white space at both ends."""
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
        if not any(cells) or (number == 1 and cells[0].lower() == "quality"):
            continue
        if len(cells) == 5:
            cells = [cells[3], cells[4], cells[0]]
        columns = columns or len(cells)
        if len(cells) != columns or columns < 2 or not all(cells[:2]) or cells[2:] not in ([], ["0"], ["1"]):
            raise CorpusError(
                f"Line {number} of {name} is not a pair; write text, tab, text, tab and 1 or 0, or MRPC's five columns,"
                " or on all lines two texts with a tab between them."
            )
        yield cells


def _text_of(data: bytes, name: str, encoding: str | None, limits: Limits | None) -> tuple[str, list[str]]:
    """The text of a file without long words, and notes; see `Corpus.from_bytes`."""
    if limits and len(data) > (most := limits.upload_bytes):
        raise CorpusError(f"{name} has {megabytes(len(data))}; the limit is {megabytes(most)}. Use a part.")
    text, notes = decode(data, name, encoding)
    with noting(notes):
        if limits and sum(text.count(mark) for mark in ("\n", *MARKS)) > limits.items:
            raise CorpusError(
                f"{name} has more than {limits.items:,} lines and sentence marks, the limit here. Use a part."
            )
    text, cut = _without_long_words(text)
    return text, [*notes, *cut]


def _without_long_words(text: str) -> tuple[str, list[str]]:
    """A text with its long words cut, and a note on it."""
    words = sum(len(LONG_WORD.findall(run)) for run in _LONG_RUN.findall(text))
    if not words:
        return text, []
    cut = LONG_WORD.sub(lambda word: word[0][:MAX_WORD_CHARACTERS], text)
    share = f"{percent(1 - len(cut) / len(text))} of the text is left out"
    return cut, [f"Words cut after {MAX_WORD_CHARACTERS} characters: {words:,}; {share}."]


def _repeated(documents: list[list[str]], kind: str) -> list[str]:
    """A note on the sentences or pairs that a text has more than once, where they are not few."""
    units = [*map(tuple, documents)] if kind == "pairs" else [*itertools.chain.from_iterable(documents)]
    repeated, what = len(units) - len(set(units)), "Pairs" if kind == "pairs" else "Sentences"
    is_said = repeated > 0 and repeated >= _REPEATED * len(units)
    return [f"{what} that stand further up already: {repeated:,} of {len(units):,}."] if is_said else []
