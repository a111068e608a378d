"""From bytes to sentences, in blocks, so that a text of any length takes the memory of a block.

The encoding, control characters, very long words and lines of a person's text are checked here.
"""

import codecs
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from bert_core.config import CORPUS_KINDS
from bert_core.errors import ConfigError, CorpusError

MAX_WORD_CHARACTERS = 100  # WordPiece takes quadratic time in the length of a word
BLOCK_BYTES = 4 * 2**20
MAX_LINE_BYTES = 64 * 2**20

_CUT_WORDS = f"Words cut after {MAX_WORD_CHARACTERS} characters"
_HEADINGS = "Headings left out"

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with a byte order mark"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
# Control characters that no text file contains, and lone surrogates, which UTF-8 cannot represent.
_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ud800-\udfff]")
_LONG_WORD = re.compile(rf"(?<!\S)\S{{{MAX_WORD_CHARACTERS + 1},}}")
# A sentence ends at . ! ? or … (with closing quotes or brackets) before white space, or at a full stop of Chinese or
# Japanese.
_SENTENCE_END = re.compile(r"[.!?…]([\"'”’)\]]*)\s+|[。！？]")
_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Prof|Sr|Jr|vs|etc|e\.g|i\.e|cf|No|Vol|pp)|\b[A-Z])\.$")
_WIKITEXT_HEADING = re.compile(r"(= ?)+.*(= ?)+")
_MARKDOWN_HEADING = re.compile(r"#{1,6} ")
_MARKDOWN_RULE = re.compile(r"(?:-{3,}|\*{3,}|_{3,}|[*_-](?: [*_-]){2,})")
_MARKDOWN_EMPHASIS = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)")
_LONG_LINE = 200  # characters; longer than a sentence
_PARAGRAPH = 100  # characters; a short line directly above it may be its heading
_HEADING_WORDS = 8
_MARKS = "!?…:;,\"'”’)]。！？"  # a heading ends in none of these


def decoded_blocks(file: BinaryIO, name: str, notes: list[str], size: int = BLOCK_BYTES) -> Iterator[str]:
    """Yield the text of a file in blocks of about `size` bytes, each ending after a line.

    The text is UTF-8, unless a byte order mark at its start names another encoding; any mark adds a note to `notes`.
    Raises CorpusError with the position of the first byte that is not text, and for a line of more than 64 MB.
    """
    data = file.read(size)
    found = (entry for entry in _BYTE_ORDER_MARKS if data.startswith(entry[0]))
    mark, encoding, label = next(found, (b"", "utf-8", ""))
    if label:
        notes.append(f"Read as {label}.")
    data, start = data[len(mark) :], len(mark)  # start: bytes before data
    decoder = codecs.getincrementaldecoder(encoding)()
    line: list[str] = []  # pieces of a line whose end is not yet read
    while data:
        following = file.read(size)
        text_start = start - len(decoder.getstate()[0])
        try:
            text = decoder.decode(data, final=not following)
        except UnicodeDecodeError as error:
            raise _not_text(name, text_start + error.start) from None
        check_text(text, name, text_start, encoding)
        start += len(data)
        end = text.rfind("\n") + 1 if following else len(text)
        if end:
            yield "".join([*line, text[:end]])
            line = []
        line.append(text[end:])
        if sum(map(len, line)) > MAX_LINE_BYTES:
            raise CorpusError(
                f"{name} has a line of more than {MAX_LINE_BYTES // 2**20} MB; put line breaks between its paragraphs."
            )
        data = following


def check_text(text: str, name: str, start: int = 0, encoding: str = "utf-8") -> None:
    """Raise CorpusError if a text that begins at byte `start` has a character that no text file contains."""
    if wrong := _NOT_TEXT.search(text):
        raise _not_text(name, start + len(text[: wrong.start()].encode(encoding)))


def _not_text(name: str, byte: int) -> CorpusError:
    return CorpusError(f"{name} is not plain text (byte {byte}); save it as UTF-8 text.")


class SentenceReader:
    """Splits a text, given in blocks, into documents of sentences.

    kind:
        "lines": one sentence per line; a blank line ends a document.
        "documents": each line is a paragraph, which is split into sentences; a blank line ends a document. Headings are
            left out: short lines directly above a paragraph, and Markdown headings, which also end a document. In a
            text that begins with a Markdown heading, a blank line ends only a paragraph.
        "auto": "documents" if the median line of the first block is longer than 200 characters, otherwise "lines".
        "wikitext": each line of at least two sentences, separated by " . ", is a document; headings are left out.
        "pairs": `text<TAB>text<TAB>label` per line, label 1 for positive and 0 for negative, or MRPC's five columns.

    labels: after reading pairs, whether each is positive. Raises ConfigError for another kind.
    """

    def __init__(self, kind: str, name: str) -> None:
        if kind not in CORPUS_KINDS:
            raise ConfigError(f"The corpus kind {kind!r} is unknown; it can be one of: {', '.join(CORPUS_KINDS)}.")
        self.kind, self.name = kind, name
        self.labels: list[bool] = []
        self._changes = {_CUT_WORDS: 0, _HEADINGS: 0}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader has changed so far, one sentence each."""
        return tuple(f"{change}: {count:,}." for change, count in self._changes.items() if count)

    def read(self, blocks: Iterable[str]) -> Iterator[list[str] | None]:
        """Yield the sentences of one line or paragraph at a time, and None at the end of every document.

        Raises CorpusError if a line is not a pair or the text is empty.
        """
        blocks = self._with_short_words(blocks)
        if self.kind == "auto":
            first = next(blocks, "")
            lengths = sorted(len(line) for line in _lines([first]) if line)
            self.kind = "documents" if lengths and lengths[len(lengths) // 2] > _LONG_LINE else "lines"
            blocks = itertools.chain([first], blocks)
        parse = {"lines": _sentence_lines, "documents": self._paragraphs, "wikitext": _wikitext, "pairs": self._pairs}
        is_empty = True
        for sentences in parse[self.kind](blocks):
            is_empty = is_empty and not sentences
            yield sentences
        if is_empty and self.kind == "pairs":
            raise CorpusError(f"{self.name} has no pairs; write text, tab, text, tab and 1 or 0 on each line.")
        if is_empty:
            raise CorpusError(f"{self.name} is empty; type or paste at least two sentences.")

    def _with_short_words(self, blocks: Iterable[str]) -> Iterator[str]:
        for block in blocks:
            text, cut = _LONG_WORD.subn(lambda word: word.group()[:MAX_WORD_CHARACTERS], block)
            self._changes[_CUT_WORDS] += cut
            yield text

    def _paragraphs(self, blocks: Iterable[str]) -> Iterator[list[str] | None]:
        lines = _lines(blocks)
        first = next((line for line in lines if line), "")
        parse = self._markdown_paragraphs if _MARKDOWN_HEADING.match(first) else self._line_paragraphs
        return parse(itertools.chain([first], lines, [""]))  # the empty line ends the last paragraph

    def _line_paragraphs(self, lines: Iterable[str]) -> Iterator[list[str] | None]:
        previous: list[str] = []  # sentences of the line above, unless the next line shows that it is a heading
        for line in lines:
            if len(line) >= _PARAGRAPH and _may_be_heading(previous):
                self._changes[_HEADINGS] += 1
            elif previous:
                yield previous
            is_heading = _MARKDOWN_HEADING.match(line)
            self._changes[_HEADINGS] += bool(is_heading)
            previous = [] if is_heading else split_sentences(line)
            if not previous:
                yield None

    def _markdown_paragraphs(self, lines: Iterable[str]) -> Iterator[list[str] | None]:
        paragraph: list[str] = []
        for line in lines:
            is_heading = _MARKDOWN_HEADING.match(line)
            if paragraph and (is_heading or not line):
                yield split_sentences(_MARKDOWN_EMPHASIS.sub("", " ".join(paragraph)))
                paragraph = []
            if is_heading:
                self._changes[_HEADINGS] += 1
                yield None
            elif line and not _MARKDOWN_RULE.fullmatch(line):
                paragraph.append(line)

    def _pairs(self, blocks: Iterable[str]) -> Iterator[list[str] | None]:
        lines = (line for block in blocks for line in block.splitlines())
        for number, line in enumerate(lines, 1):
            cells = [cell.strip() for cell in line.split("\t")]
            if not line.strip() or (number == 1 and cells[0].lower() == "quality"):
                continue
            if len(cells) == 5:
                cells = [cells[3], cells[4], cells[0]]
            if len(cells) != 3 or cells[2] not in ("0", "1"):
                raise CorpusError(
                    f"Line {number} of {self.name} is not a pair; write text, tab, text, tab and 1 or 0, or MRPC's "
                    "five columns."
                )
            self.labels.append(cells[2] == "1")
            yield cells[:2]
            yield None


def split_sentences(paragraph: str) -> list[str]:
    """Split a paragraph after . ! ? … and 。！？, but not after common abbreviations and initials."""
    sentences: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(paragraph):
        stop = end.start() + 1
        # Searching only the last 8 characters, the longest abbreviation, avoids quadratic time on a page of initials.
        if not end.group(1) and _ABBREVIATION.search(paragraph, max(start, stop - 8), stop):
            continue
        if part := paragraph[start : end.end()].strip():
            sentences.append(part)
        start = end.end()
    rest = paragraph[start:].strip()
    return [*sentences, rest] if rest else sentences


def _lines(blocks: Iterable[str]) -> Iterator[str]:
    return (" ".join(line.split()) for block in blocks for line in block.splitlines())


def _sentence_lines(blocks: Iterable[str]) -> Iterator[list[str] | None]:
    return ([line] if line else None for line in _lines(blocks))


def _wikitext(blocks: Iterable[str]) -> Iterator[list[str] | None]:
    for line in _lines(blocks):
        if not _WIKITEXT_HEADING.fullmatch(line):
            sentences = [part.strip() for part in line.removesuffix(" .").split(" . ") if part.strip(" .")]
            if len(sentences) > 1:
                yield sentences
                yield None


def _may_be_heading(sentences: list[str]) -> bool:
    """Whether the sentences of a line above a paragraph may be a heading: few words, no final mark but a full stop."""
    return len(sentences) == 1 and sentences[0][-1] not in _MARKS and sentences[0].count(" ") < _HEADING_WORDS
