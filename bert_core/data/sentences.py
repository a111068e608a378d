"""From bytes to sentences, in blocks, so that a text of any length takes the memory of a block.

Everything a person gives is checked here: encoding, control characters, absurdly long words and lines.
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

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with a byte order mark"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
_LONG_WORD = re.compile(rf"(?<!\S)\S{{{MAX_WORD_CHARACTERS + 1},}}")
# Control characters that no text file holds, and lone surrogates, which no encoding can carry.
_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ud800-\udfff]")
# A sentence ends at . ! ? or … (with closing quotes or brackets) before white space, or at a full stop of Chinese or
# Japanese.
_SENTENCE_END = re.compile(r"[.!?…]([\"'”’)\]]*)\s+|[。！？]")
_WIKITEXT_HEADING = re.compile(r"(= ?)+.*(= ?)+")
_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Prof|Sr|Jr|vs|etc|e\.g|i\.e|cf|No|Vol|pp)|\b[A-Z])\.$")
_MARKDOWN_HEADING = re.compile(r"#{1,6} ")
_MARKDOWN_RULE = re.compile(r"(?:-{3,}|\*{3,}|_{3,}|[*_-](?: [*_-]){2,})")
_MARKDOWN_EMPHASIS = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)")
_LONG_LINE = 200  # characters; longer than a sentence
_PARAGRAPH = 100  # characters; a short line right above it may be its heading
_HEADING_WORDS = 8
_MARKS = "!?…:;,\"'”’)]。！？"  # a heading ends in none of these


def decoded_blocks(file: BinaryIO, name: str, notes: list[str], size: int = BLOCK_BYTES) -> Iterator[str]:
    """The text of a file in blocks of about `size` bytes, each cut after a line.

    UTF-8 unless a byte order mark says otherwise, which becomes one of the notes. Raises CorpusError for what is no
    text, with the place of the first wrong byte, and for a line of more than 64 MB.
    """
    data = file.read(size)
    known = ((mark, encoding, label) for mark, encoding, label in _BYTE_ORDER_MARKS if data.startswith(mark))
    mark, encoding, label = next(known, (b"", "utf-8", ""))
    if label:
        notes.append(f"Read as {label}.")
    data, start = data[len(mark) :], len(mark)  # start: bytes before data
    decoder = codecs.getincrementaldecoder(encoding)()
    rest: list[str] = []  # of a line that is not over, without a line break
    while data:
        following = file.read(size)
        before = start - len(decoder.getstate()[0])
        try:
            text = decoder.decode(data, final=not following)
        except UnicodeDecodeError as error:
            raise _no_text(name, before + error.start) from None
        if found := _NOT_TEXT.search(text):
            raise _no_text(name, before + len(text[: found.start()].encode(encoding)))
        start += len(data)
        end = text.rfind("\n") + 1 if following else len(text)
        if end:
            yield "".join([*rest, text[:end]])
            rest = []
        rest.append(text[end:])
        if sum(map(len, rest)) > MAX_LINE_BYTES:
            raise CorpusError(
                f"{name} has a line of more than {MAX_LINE_BYTES // 2**20} MB; put line breaks between its paragraphs."
            )
        data = following


class SentenceReader:
    """Cuts a text that comes in blocks into documents of sentences.

    kind: "lines" (a sentence a line), "documents" (each line is a paragraph that is split into sentences), or "auto"
    (documents when the typical line of the first block is longer than a sentence); a blank line ends a document in
    these. In "documents" headings are no sentences and are left out: short lines right above a paragraph, and those of
    Markdown, which end a document too. In a text that begins with one of these, blank lines only part paragraphs.
    "wikitext": every line of at least two sentences, which end in " . ", is a document; headings are left out.
    "pairs": two texts and a label a line, separated by tabs: `text<TAB>text<TAB>label`, label 1 for positive, or the
    five columns of MRPC with its header.

    notes: sentences on what was changed, complete when the text is read. labels: of pairs, whether each is positive.
    Raises ConfigError for another kind, and CorpusError while reading what is no text or no pair, or is empty.
    """

    def __init__(self, kind: str, name: str) -> None:
        if kind not in CORPUS_KINDS:
            raise ConfigError(f"The corpus kind {kind!r} is unknown; it can be one of: {', '.join(CORPUS_KINDS)}.")
        self.kind, self.name = kind, name
        self.labels: list[bool] = []
        self._cut_words = self._headings = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed, a sentence each."""
        counts = (
            (self._cut_words, f"words longer than {MAX_WORD_CHARACTERS} characters were cut."),
            (self._headings, "headings were left out."),
        )
        return tuple(f"{count:,} {what}" for count, what in counts if count)

    def read(self, blocks: Iterable[str]) -> Iterator[list[str] | None]:
        """The sentences of a line or paragraph at a time, and None at the end of every document."""
        blocks = self._cleaned(blocks)
        if self.kind == "auto":
            first = next(blocks, "")
            written = sorted(len(line) for line in _lines([first]) if line)
            self.kind = "documents" if written and written[len(written) // 2] > _LONG_LINE else "lines"
            blocks = itertools.chain([first], blocks)
        parse = {
            "lines": lambda lines: ([line] if line else None for line in lines),
            "documents": self._paragraphs,
            "wikitext": _wikitext,
        }
        found = self._pairs(blocks) if self.kind == "pairs" else parse[self.kind](_lines(blocks))
        is_empty = True
        for sentences in found:
            is_empty = is_empty and not sentences
            yield sentences
        if is_empty:
            need = "pairs; write text, tab, text, tab and 1 or 0 on each line."
            raise CorpusError(
                f"{self.name} has no {need}"
                if self.kind == "pairs"
                else f"{self.name} is empty; type or paste at least two sentences."
            )

    def _cleaned(self, blocks: Iterable[str]) -> Iterator[str]:
        for block in blocks:
            text, cut = _LONG_WORD.subn(lambda word: word.group()[:MAX_WORD_CHARACTERS], block)
            self._cut_words += cut
            yield text

    def _paragraphs(self, lines: Iterator[str]) -> Iterator[list[str] | None]:
        first = next((line for line in lines if line), "")
        is_markdown = _MARKDOWN_HEADING.match(first)
        # The empty line at the end lets go of what is held.
        return (self._markdown if is_markdown else self._line_by_line)(itertools.chain([first], lines, [""]))

    def _line_by_line(self, lines: Iterable[str]) -> Iterator[list[str] | None]:
        held: list[str] = []  # what the next line may show to be a heading
        for line in lines:
            if len(line) >= _PARAGRAPH and _looks_like_heading(held):
                self._headings += 1
            elif held:
                yield held
            is_heading = _MARKDOWN_HEADING.match(line)
            self._headings += bool(is_heading)
            held = [] if is_heading else split_sentences(line)
            if not held:
                yield None

    def _markdown(self, lines: Iterable[str]) -> Iterator[list[str] | None]:
        paragraph: list[str] = []
        for line in lines:
            is_heading = _MARKDOWN_HEADING.match(line)
            if paragraph and (is_heading or not line):
                yield split_sentences(_MARKDOWN_EMPHASIS.sub("", " ".join(paragraph)))
                paragraph = []
            if is_heading:
                self._headings += 1
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
                    f"Line {number} of {self.name} is no pair; write text, tab, text, tab and 1 or 0, or MRPC's five "
                    "columns."
                )
            self.labels.append(cells[2] == "1")
            yield cells[:2]
            yield None


def check_text(text: str, name: str) -> None:
    """Raise CorpusError where a text holds what no text file does."""
    if found := _NOT_TEXT.search(text):
        raise _no_text(name, len(text[: found.start()].encode("utf-8")))


def _no_text(name: str, byte: int) -> CorpusError:
    return CorpusError(f"{name} is not plain text (byte {byte}); save it as UTF-8 text.")


def _lines(blocks: Iterable[str]) -> Iterator[str]:
    return (" ".join(line.split()) for block in blocks for line in block.splitlines())


def _wikitext(lines: Iterable[str]) -> Iterator[list[str] | None]:
    for line in lines:
        if not _WIKITEXT_HEADING.fullmatch(line):
            sentences = [part.strip() for part in line.removesuffix(" .").split(" . ") if part.strip(" .")]
            if len(sentences) > 1:
                yield sentences
                yield None


def _looks_like_heading(sentences: list[str]) -> bool:
    """Whether a line right above a paragraph is no sentence: a few words, without a mark or with a full stop."""
    return len(sentences) == 1 and sentences[0][-1] not in _MARKS and sentences[0].count(" ") < _HEADING_WORDS


def split_sentences(paragraph: str) -> list[str]:
    """Split a paragraph after . ! ? … and their Chinese forms; common abbreviations and initials do not end a sentence.

    >>> split_sentences("Dr. Jekyll left. Who came in?")
    ['Dr. Jekyll left.', 'Who came in?']
    """
    sentences: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(paragraph):
        stop = end.start() + 1
        # Looking back no further than an abbreviation reaches keeps a page of initials from taking quadratic time.
        if not end.group(1) and _ABBREVIATION.search(paragraph, max(start, stop - 8), stop):
            continue
        if part := paragraph[start : end.end()].strip():
            sentences.append(part)
        start = end.end()
    rest = paragraph[start:].strip()
    return [*sentences, rest] if rest else sentences
