"""From text to sentences, in blocks, so that a text of any length takes the memory of a block."""

import itertools
import math
import re
import statistics
from collections.abc import Iterable, Iterator

from bert_core.config import CORPUS_KINDS
from bert_core.data.decoding import with_plain_line_ends
from bert_core.errors import ConfigError, CorpusError

MAX_WORD_CHARACTERS = 100  # WordPiece takes quadratic time in the length of a word
MAX_RUN_CHARACTERS = 1000  # without white space, such as an address on the web

MAX_LINE_CHARACTERS = 100_000  # regular expressions stop all other threads for one line

_CUT_LINES = f"Line breaks added to lines of more than {MAX_LINE_CHARACTERS:,} characters"
_CUT_WORDS = f"Words cut after {MAX_WORD_CHARACTERS} characters"
_HEADINGS = "Headings left out"

# Scripts that write no spaces between words, as part of a character class: Thai, Lao, Tibetan, Burmese; Khmer; Tai
# scripts; Balinese; kana, Bopomofo, Han, Yi; Javanese.
UNSPACED = (
    "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\u2e80-\u2fdf\u3005-\u3007\u3041-\u312f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\ua4cf\ua980-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
GREEK = "\u0370-\u03ff\u1f00-\u1fff"
_UNSPACED = re.compile(f"[{UNSPACED}]")
# Marks that end a sentence with or without white space behind them (Sentence_Terminal in UAX #29, and ；), and marks
# that need white space behind them or such a script before them.
ENDS = "。｡！？；‼⁇⁈⁉।॥؟۔܀։።፧፨།༎။។៕᠃"
_WEAK_ENDS = ".!?…．"
_GREEK_QUESTIONS = ";\u037e"
_LINE_ENDS = "\n\r\x0b\x0c\x85\u2028\u2029"  # of those that splitlines knows, the ones that a text may contain
_CUTS = ("\n", "\r", ". ", "。", " ")  # where a long text is divided, the best first
_BLOCK_CHARACTERS = 2**20
_MARKS = f"{ENDS}{_WEAK_ENDS}{_GREEK_QUESTIONS}"
_CLOSING = "\"'”’»›)\\]」』】》〉）］｝〕"

# No pattern here backtracks: a match begins only where a run begins, so every run is read once.
_LONG_WORD = re.compile(
    rf"(?<![^\W{UNSPACED}])[^\W{UNSPACED}]{{{MAX_WORD_CHARACTERS + 1},}}"
    rf"|(?<![^\s{UNSPACED}])[^\s{UNSPACED}]{{{MAX_RUN_CHARACTERS + 1},}}"
)
_REST_OF_WORD = re.compile(rf"[^\s{UNSPACED}]+")
# “ and « close a quotation in German; before a letter, they open one. French writes a space before ».
_SENTENCE_END = re.compile(rf"(?<![{_MARKS}])([{_MARKS}]+)([{_CLOSING}]*(?:[“«‹](?!\S)|\s[»›](?!\S))?)")
_GREEK = re.compile(f"[{GREEK}]")
_QUOTED_ON = re.compile("[、，,]|と|って|など")  # after a quotation in Japanese: its sentence goes on
# A title, another common short form, a single letter that is no word, and in Thai and Lao any word before a full stop.
_ABBREVIATION = re.compile(
    r"\b(?:Mrs?|Ms|Dr|St|Prof|Sr|Jr|Gen|Col|Capt|Lt|Rev|Mt|vs|etc|e\.g|i\.e|cf|No|Vol|pp|al|ca|approx"
    r"|bzw|vgl|usw|Nr|Jh|Chr|Mio|Mrd|Mme|av|TP|GS|TS|εκατ|δισ|гг|ок|им|ул|см|тыс|млн|млрд|проф|d\. ?h|т\. ?е|डॉ"
    r"|[A-ZÀ-ÞΑ-ΩА-Яβγδζθκλμνξπρστφχψбвгджзклмнпрстфхцчшщא-תء-ي])\.$|[\u0e01-\u0edf]\.$"
)
# Numbers and small letters end no sentence at its start, and none before these: 3. Oktober, 19. yüzyıl, z. B., v. Chr.
_ORDINAL = re.compile(r"(?:(?<![\d.,])\d{1,3}|\b[b-df-hj-np-tv-xz])\.$")
_AFTER_ORDINAL = re.compile(r"\s*(?:[a-zß-ÿα-ωа-я]|[A-Z]\.|Chr|Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez|Jahr)")
# Thai and Lao have no mark for the end of a sentence. A space ends a phrase there, except beside a number, another
# script, or a sign of abbreviation or repetition.
_NOT_A_LETTER = r"[\d฿ฯๆຯໆ]"
_PHRASE_END = re.compile(rf"(?<=[\u0e01-\u0edf])(?<!{_NOT_A_LETTER})\s+(?=[\u0e01-\u0edf])(?!{_NOT_A_LETTER})")
_MARKDOWN_HEADING = re.compile(r"#{1,6} ")
_MARKDOWN_RULE = re.compile(r"(?:-{3,}|\*{3,}|_{3,}|[*_-](?: [*_-]){2,})")
_MARKDOWN_EMPHASIS = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)")
_WRAPPED_LINE = 40  # characters; prose is seldom wrapped earlier
_LONG_LINE = 200  # characters; longer than a sentence
_MANY_SENTENCES = 3  # a line of a dialogue has one or two
_LINES_TESTED = 1000
_PARAGRAPH = 100  # characters; a short line directly above it may be its heading
_HEADING_WORDS = 8
_CHARACTERS_OF_A_WORD = 2  # in a script without spaces
_NOT_OF_HEADINGS = re.compile(rf"[{ENDS}!?…;:,、，：{_CLOSING}]$")


class SentenceReader:
    """Splits a text, given in blocks, into documents of sentences.

    kind:
        "lines": one sentence per line; a blank line ends a document.
        "documents": each line is a paragraph, which is split into sentences; a blank line ends a document. Headings are
            left out: short lines directly above a paragraph, and Markdown headings, which also end a document. In a
            text that begins with a Markdown heading, a blank line ends only a paragraph.
        "auto": "documents" for prose with hard line ends, whose lines are joined up to the next blank line, and if the
            median of the first 1,000 lines has more than 200 characters or at least three sentences; else "lines".
        "wikitext": each line of at least two sentences, separated by " . ", is a document; headings are left out.
        "pairs": `text<TAB>text<TAB>label` per line, label 1 for positive and 0 for negative, or MRPC's five columns.

    most_items: limit on lines and sentence marks together. labels: after reading pairs, whether each is positive.
    Raises ConfigError for another kind.
    """

    def __init__(self, kind: str, name: str, most_items: float = math.inf) -> None:
        if kind not in CORPUS_KINDS:
            raise ConfigError(f"The corpus kind {kind!r} is unknown; it can be one of: {', '.join(CORPUS_KINDS)}.")
        self.kind, self.name, self.most_items = kind, name, most_items
        self.labels: list[bool] = []
        self._has_text = False
        self._changes = {_CUT_LINES: 0, _CUT_WORDS: 0, _HEADINGS: 0}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader has changed so far, one sentence each."""
        return tuple(f"{change}: {count:,}." for change, count in self._changes.items() if count)

    def read(self, blocks: Iterable[str]) -> Iterator[list[str] | None]:
        """Yield the sentences of one line or paragraph at a time, and None at the end of every document.

        Raises CorpusError if a line is not a pair, the text is empty or has too many items.
        """
        blocks = self._checked(blocks)
        if self.kind == "auto":
            blocks = iter(blocks)
            first = next(blocks, "")
            is_wrapped = _is_wrapped(first)
            self.kind = "documents" if is_wrapped or _has_paragraphs(first) else "lines"
            blocks = itertools.chain([first], blocks)
            blocks = _joined(blocks) if is_wrapped else blocks
        parse = {"lines": _sentence_lines, "documents": self._paragraphs, "wikitext": _wikitext, "pairs": self._pairs}
        is_empty = True
        for sentences in parse[self.kind](blocks):
            is_empty = is_empty and not sentences
            yield sentences and [self._with_short_words(sentence) for sentence in sentences]
        if is_empty and self.kind == "pairs":
            raise CorpusError(f"{self.name} has no pairs; write text, tab, text, tab and 1 or 0 on each line.")
        if is_empty:
            if self.kind == "wikitext" and self._has_text:
                rule = "paragraphs of at least two sentences, each sentence ended by “ . ”"
                raise CorpusError(f"The reader of WikiText found no {rule} in {self.name}; choose another recipe.")
            raise CorpusError(f"{self.name} is empty; type or paste at least two sentences.")

    def _checked(self, blocks: Iterable[str]) -> Iterator[str]:
        """The text in smaller blocks with shorter lines; its items are counted before they are read."""
        items = 0
        for block in itertools.chain.from_iterable(divided(block, _BLOCK_CHARACTERS) for block in blocks):
            items += sum(map(block.count, _LINE_ENDS + _MARKS))
            self._has_text = self._has_text or not block.isspace()
            if items > self.most_items:
                limit = f"{self.most_items:,} lines and sentence marks, the limit here"
                raise CorpusError(f"{self.name} has more than {limit}. Use a part.")
            lines = block.splitlines(keepends=True) if len(block) > MAX_LINE_CHARACTERS else [block]
            if max(map(len, lines)) > MAX_LINE_CHARACTERS:
                parts = [part for line in lines for part in divided(line, MAX_LINE_CHARACTERS)]
                self._changes[_CUT_LINES] += len(parts) - len(lines)
                block = "".join(part if part[-1] in _LINE_ENDS else f"{part}\n" for part in parts)
            yield block

    def _with_short_words(self, sentence: str) -> str:
        if len(sentence) <= MAX_WORD_CHARACTERS:
            return sentence
        text, cut = _LONG_WORD.subn(lambda word: word.group()[:MAX_WORD_CHARACTERS], sentence)
        self._changes[_CUT_WORDS] += cut
        return text

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
        lines = (line for block in blocks for line in with_plain_line_ends(block).removesuffix("\n").split("\n"))
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


def divided(text: str, most: int) -> Iterator[str]:
    """A text in parts of at most `most` characters, each ending after a line, else a sentence, else a word.

    The rest of a longer word is left out.
    """
    start = 0
    while len(text) - start > most:
        ends = ((mark, text.rfind(mark, start, start + most)) for mark in _CUTS)
        stop = next((found + len(mark) for mark, found in ends if found >= 0), 0)
        yield text[start : stop or start + most]
        start = stop or start + most
        while not stop and (rest := _REST_OF_WORD.match(text, start, start + most)):
            start = rest.end()
    if start < len(text):
        yield text[start:]


def split_sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences: after the marks of many scripts, in Thai and Lao also between phrases.

    Closing quotes stay with their sentence. Common abbreviations, initials and ordinal numbers end none.
    """
    sentences = _split_at_marks(paragraph)
    if paragraph.isascii():
        return sentences
    return [phrase for sentence in sentences for phrase in _PHRASE_END.split(sentence)]


def _split_at_marks(paragraph: str) -> list[str]:
    sentences: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(paragraph):
        if _ends_sentence(paragraph, start, end):
            sentences.append(paragraph[start : end.end()].strip())
            start = end.end()
    rest = paragraph[start:].strip()
    return [*sentences, rest] if rest else sentences


def _ends_sentence(paragraph: str, start: int, end: re.Match[str]) -> bool:
    """Whether the marks end the sentence that begins at `start`."""
    marks, closing = end.groups()
    first, stop = end.start(), end.end()
    before, after = paragraph[max(start, first - 1) : first], paragraph[stop : stop + 1]
    if not marks.strip(_GREEK_QUESTIONS) and not _GREEK.match(before):
        return False
    if not marks.strip(_WEAK_ENDS):
        is_apart = not after or after.isspace()
        if not is_apart and (not _UNSPACED.match(before) or (after.isascii() and after.isalnum())):
            return False
        following = paragraph[stop : stop + 4].strip()
        letters = following.lstrip("-–— ")
        if closing or letters != following:  # a quotation; its sentence goes on in small letters
            return not letters[:1].islower()
        if marks == ".":
            # Searching only the last characters avoids quadratic time on a page of initials.
            if _ABBREVIATION.search(paragraph, max(start, stop - 8), stop):
                return False
            ordinal = _ORDINAL.search(paragraph, max(start, stop - 8), stop)
            return not ordinal or (ordinal.start() > start and not _AFTER_ORDINAL.match(paragraph, stop))
        return True
    return not (closing and _QUOTED_ON.match(paragraph, stop))


def _has_paragraphs(block: str) -> bool:
    """Whether the lines of a text are paragraphs and not sentences."""
    lines = list(itertools.islice(filter(None, _lines([block])), _LINES_TESTED))
    return bool(lines) and (
        statistics.median_high(map(len, lines)) > _LONG_LINE
        or statistics.median_high(len(_split_at_marks(line)) for line in lines) >= _MANY_SENTENCES
    )


def _is_wrapped(block: str) -> bool:
    """Whether prose has hard line ends: its sentences have final marks, but most lines end amid a sentence."""
    lines = list(itertools.islice(_lines([block]), _LINES_TESTED))
    inner = [(line, after) for line, after in itertools.pairwise(lines) if line and after]
    broken = sum(after[0].islower() and not _SENTENCE_END.search(line[-2:]) for line, after in inner)
    long = statistics.median_high(len(line) for line, _ in inner) >= _WRAPPED_LINE if inner else False
    return long and 2 * broken > len(inner) and 10 * len(_SENTENCE_END.findall(block)) > len(inner)


def _joined(blocks: Iterable[str]) -> Iterator[str]:
    """Each paragraph as one line; a very long one is cut after a line that ends a sentence."""
    part: list[str] = []
    for line in itertools.chain(_lines(blocks), [""]):
        if line:
            part.append(line)
        if not line or (len(part) > _LINES_TESTED and _SENTENCE_END.search(line[-2:])):
            yield " ".join(part) + ("\n\n" if not line else "\n")
            part = []


def _lines(blocks: Iterable[str]) -> Iterator[str]:
    return (" ".join(line.split()) for block in blocks for line in block.splitlines())


def _sentence_lines(blocks: Iterable[str]) -> Iterator[list[str] | None]:
    return ([line] if line else None for line in _lines(blocks))


def _wikitext(blocks: Iterable[str]) -> Iterator[list[str] | None]:
    for line in _lines(blocks):
        is_heading = len(line) > 1 and line[0] == line[-1] == "="
        if not is_heading:
            sentences = [part.strip() for part in line.removesuffix(" .").split(" . ") if part.strip(" .")]
            if len(sentences) > 1:
                yield sentences
                yield None


def _may_be_heading(sentences: list[str]) -> bool:
    """Whether the sentences of a line above a paragraph may be a heading: few words, no final mark but a full stop."""
    if len(sentences) != 1 or _NOT_OF_HEADINGS.search(sentences[0]):
        return False
    words = sentences[0].count(" ") + len(_UNSPACED.findall(sentences[0])) / _CHARACTERS_OF_A_WORD
    return words < _HEADING_WORDS
