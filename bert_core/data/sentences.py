"""From text to sentences, in blocks, so that a text of any length takes the memory of a block."""

import itertools
import math
import re
import statistics
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from bert_core.config import CORPUS_KINDS
from bert_core.data.decoding import with_plain_line_ends, without_invisible
from bert_core.errors import ConfigError, CorpusError

MAX_WORD_CHARACTERS = 100  # WordPiece takes quadratic time in the length of a word
MAX_RUN_CHARACTERS = 1000  # without white space, such as an address on the web

MAX_LINE_CHARACTERS = 100_000  # a regular expression holds the interpreter's lock for a line

_CUT_LINES = f"Line breaks added to lines of more than {MAX_LINE_CHARACTERS:,} characters"
_CUT_WORDS = f"Words cut after {MAX_WORD_CHARACTERS} characters"
_HEADINGS = "Headings left out"
_INVISIBLE = "Characters without width taken out of words"
_JOINED = "Lines joined to the next one, because they are parts of sentences (--kind lines would keep them apart)"
_MENDED = "Words put together that a hyphen divided at the end of a line"
_HYPHENATED = "Hyphens at the end of a line kept as parts of words"
_NEIGHBOURS = "Each line has two texts, which are read as neighbours (--kind lines would make them one sentence)."
_LABELLED = (
    "Each line has two texts and a label, 1 if they belong together (--kind lines would make them one sentence)."
)
_NO_LETTER = "Sentences of digits and marks alone"
_MARKS_OF_MARKDOWN = "Marks of Markdown left out"
_SEVERAL = "Some lines have several sentences, and each line is read as one; --kind documents would divide them."
_TABS = "Lines with tabs are read as one sentence each; --kind pairs reads two texts and 1 or 0 from a line."
_OF_WIKITEXT = "This looks like WikiText, and its headings are read as sentences too; --kind wikitext leaves them out."
_NOT_JOINED = (
    "Each line is read as a sentence. If the lines are parts of longer sentences, --kind documents joins them."
)

# Scripts that write no spaces between words, as part of a character class: Thai, Lao, Tibetan, Burmese; Khmer; Tai
# scripts; Balinese; kana, Bopomofo, Han, Yi; Javanese.
UNSPACED = (
    "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\u2e80-\u2fdf\u3005-\u3007\u3041-\u312f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\ua4cf\ua980-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
GREEK = "\u0370-\u03ff\u1f00-\u1fff"
_UNSPACED = re.compile(f"[{UNSPACED}]")
_SEVERAL_WORDS = re.compile(rf"\S\s+\S|[{UNSPACED}]{{2}}")
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
_FINAL_MARK = re.compile(rf"[{ENDS}{_WEAK_ENDS}][{_CLOSING}“«‹]*\Z")
_GREEK = re.compile(f"[{GREEK}]")
_QUOTED_ON = re.compile("[、，,]|と|って|など")  # after a quotation in Japanese: its sentence goes on
# A title, another common short form, a single letter that is no word, and in Thai and Lao any word before a full stop.
_ABBREVIATION = re.compile(
    r"\b(?:Mrs?|Ms|Dr|St|Prof|Sr|Jr|Gen|Col|Capt|Lt|Sgt|Gov|Sen|Rev|Mt|vs|etc|e\.g|i\.e|cf|No|Vol|pp|al|ca|approx"
    r"|bzw|vgl|usw|Nr|Jh|Chr|Mio|Mrd|Hr|Mme|Mlle|MM|Mgr|Sra|Srta|Dra|EE|Sig|[Dd]ott|prof|[Aa]v|v"
    r"|TP|GS|TS|εκατ|δισ|гг|ок|им|ул|см|тыс|млн|млрд|проф|d\. ?h|т\. ?е|डॉ"
    r"|[A-ZÀ-ÞΑ-ΩА-Яβγδζθκλμνξπρστφχψбвгджзклмнпрстфхцчшщא-תء-ي])\.$|[\u0e01-\u0edf]\.$"
)
# Numbers and small letters end no sentence at its start, and none before these: 3. Oktober, 19. yüzyıl, z. B., v. Chr.
_ORDINAL = re.compile(r"(?:(?<![\d.,])\d{1,3}|\b[b-df-hj-np-tv-xz])\.$")
_AFTER_ORDINAL = re.compile(r"\s*(?:[a-zß-ÿα-ωа-я]|[A-Z]\.|Chr|Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez|Jahr)")
# Before a number, very short words and short ones with a capital are abbreviations: Art. 5, Jan. 2001, c. 1780; so are
# these with a small letter. Any word would be too many: sentences begin with numbers too.
_NUMBERED = re.compile(
    r"\b(?:\w{1,2}|[A-ZÀ-ÞΑ-ΩА-Я]\w{1,3}|arts?|figs?|sect?|vols?|par|paras?|chap|nos|eqs?|tab|approx|abb|kap|str|rys|poz|ust"
    r"|núm|fasc|cap|αριθ|απεβ|άρθ|рис|табл|стр|гл)\.$"
)
# Thai and Lao have no mark for the end of a sentence. A space ends a phrase there, except beside a number, another
# script, or a sign of abbreviation or repetition.
_NOT_A_LETTER = r"[\d฿ฯๆຯໆ]"
_PHRASE_END = re.compile(rf"(?<=[\u0e01-\u0edf])(?<!{_NOT_A_LETTER})\s+(?=[\u0e01-\u0edf])(?!{_NOT_A_LETTER})")
_NAMES = r"[A-Z]\w*(?: [A-Z]\w*)*"  # of columns
# Forms of files with more than a text, by what their beginning has.
FORMATS = {
    "subtitles": re.compile(r"\d\d:\d\d[,.]\d{3} --> |^\[\d\d:\d\d\.\d\d\]|^Dialogue: \d,\d:\d\d", re.MULTILINE),
    "HTML": re.compile(
        r"<!doctype html|<html[ >]|<br ?/?>|</(?:p|div|body)>|&(?:quot|amp|nbsp|lt|gt|#\d{2,4});", re.IGNORECASE
    ),
    "XML": re.compile(r"\A\s*<(?:\?xml |[a-z][\w:-]* [\w:-]+=|mediawiki>)", re.IGNORECASE),
    "the markup of a wiki": re.compile(r"\[\[[^\[\]\n]+\]\]|\{\{[^{}\n]+\}\}"),
    "JSON": re.compile(r'\A\s*(?:\[\s*)?\{\s*"|\A\s*\[\s*"'),
    "CSV": re.compile(rf'\A(?:(?a:"?\w+"?(?:[,;]"?\w+"?)+)|\w+(?:;\w+)+|(?a:{_NAMES}(?:[,;]{_NAMES})+))[\r\n]'),
    "Markdown with settings above it": re.compile(r"\A---[ \r]?\n[\w-]+:"),
    "a mailbox": re.compile(r"\AFrom \S+@\S+ .*\d{4}[\r\n]"),
    "RTF": re.compile(r"\A\s*\{\\rtf"),
    "LaTeX": re.compile(r"\\(?:documentclass|begin\{document\}|section\{)"),
    "a book of Project Gutenberg": re.compile(
        r"\A\W*(?:the )?project gutenberg|start of th\w+ project gutenberg", re.IGNORECASE
    ),
    "a chat": re.compile(
        r"^\W{0,2}\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?:T|,? )\d{1,2}:\d\d|^\[?\d\d:\d\d(?::\d\d)?\]? <", re.MULTILINE
    ),
}
_BEGINNING_OF_FILE = 2000  # characters
_NO_LETTERS = re.compile(r"[!-@\[-`{-~\s]+")
_MARKDOWN_HEADING = re.compile(r"#{1,6} ")
_MARKDOWN = re.compile(r"\s*#{1,6} .*\n\s*?\n")  # a text that begins so, and not with a comment above its lines
_MARKDOWN_ITEM = re.compile(r"(?:[-*+|]|\d{1,3}[.)]) ")  # of a list, or a row of a table
_MARKDOWN_RULE = re.compile(r"(?:-{3,}|\*{3,}|_{3,}|[*_-](?: [*_-]){2,})")
_MARKDOWN_EMPHASIS = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)")
_WRAPPED_LINE = 40  # columns; prose is seldom wrapped earlier
_FEW_LINES = 3  # without a final mark; fewer show nothing of how a text is wrapped, and so many must all be full
_NOT_FULL = 0.3  # of more such lines; some programs leave more room at the end of a line than the next word needs
_SURELY_FULL, _MAYBE_FULL = 0.9, 0.5  # of such lines
_BROKEN = 1 / 3  # of all lines, the fewest such lines in a wrapped text, where every paragraph has some
_WIDEST = 0.95  # of the lines are not wider; a few, such as an address on the web, may be
_SHORT_LINE = 0.7  # of the width; even without a final mark, its paragraph ends there
_DIVIDED = re.compile(r"(?<=\w)[-‐\xad]\n(?=\w)")
_PART_BEFORE, _PART_AFTER = re.compile(r"[\w‐-]+\Z"), re.compile(r"\w+")
_HYPHENATED_WORD = re.compile(r"\w+(?:[-‐]\w+)*")
_SUSPENDED = {"and", "or", "nor", "to", "und", "oder", "bis", "sowie"}  # after the first half of “Ein- und Ausgang”
_TIGHT = f"{UNSPACED}\u3001-\u3029\uff01-\uff9f"  # no space stands beside these, and a line may end before each
_TIGHT_BREAK = re.compile(f"(?<=[{_TIGHT}])\n|\n(?=[{_TIGHT}])")
# What does not fit into a line of such a script is one character, with the marks that may not begin a line; of a text
# that is wrapped at its few spaces, it is all up to the next space.
_FIRST_WORDS = (re.compile(rf"[{_TIGHT}][{ENDS}、，．{_CLOSING}]*|[^\s{_TIGHT}]+"), re.compile(r"\S+(?=\s)|."))
_BEGINNING = re.compile(rf"[.!?…][{_CLOSING}]*\s+([^\W\d_])")
_HANGING = f"{ENDS}、，．」』】》〉）］｝〕"  # marks that may stand outside the width of a page
_LONG_LINE = 200  # characters; longer than a sentence
_MANY_SENTENCES = 3  # a line of a dialogue has one or two
_LINES_TESTED = 1000
_FIRST_LETTER = 100  # characters, among which the first letter is looked for
_PARAGRAPH = 100  # characters; a short line directly above it may be its heading
_HEADING_WORDS = 8
_HEADINGS_SEEN = 10  # such a line with a full stop is a heading if a text has so many and few that are not
_HEADINGS_WITH_STOP, _WORDS_WITH_STOP = 0.75, 3  # the least fraction with at most so many words
_CHARACTERS_OF_A_WORD = 2  # in a script without spaces
_WIKITEXT = re.compile(r"^ = [^=\n]+ = *\n(?=(?:.*\n){0,9}.* \. )", re.MULTILINE)  # a heading and sentences below it
_NOT_OF_HEADINGS = re.compile(rf"[{ENDS}!?…;:,、，：{_CLOSING}]$")


class SentenceReader:
    """Splits a text, given in blocks, into documents of sentences.

    kind:
        "lines": one sentence per line; a blank line ends a document.
        "documents": each line is a paragraph, which is split into sentences; a blank line ends a document. Headings are
            left out: short lines directly above a paragraph, and Markdown headings, which also end a document. In a
            text that begins with one, a blank line ends only a paragraph. The lines of a wrapped text are joined.
        "auto": "pairs" where a tab divides each line into two texts of several words; "documents" where the next word
            would make most of the first 1,000 lines too wide, their median has more than 200 characters, or lines of at
            least three sentences have most of the sentences; else "lines".
        "wikitext": each line with " . ", which separates sentences, is a document; headings are left out.
        "pairs": `text<TAB>text<TAB>label` per line, label 1 for positive and 0 for negative, or MRPC's five columns; or
            `text<TAB>text`, whose lines are documents of two sentences.

    most_items: limit on lines and sentence marks together. labels: after reading pairs, whether each is positive.
    Raises ConfigError for another kind.
    """

    def __init__(self, kind: str, name: str, most_items: float = math.inf) -> None:
        if kind not in CORPUS_KINDS:
            raise ConfigError(f"The corpus kind {kind!r} is unknown; it can be one of: {', '.join(CORPUS_KINDS)}.")
        self.kind, self.name, self.most_items = kind, name, most_items
        self.labels: list[bool] = []
        self._has_text = False
        self._doubts: list[str] = []
        changes = (_CUT_LINES, _JOINED, _MENDED, _HYPHENATED, _INVISIBLE, _CUT_WORDS, _HEADINGS)
        self._changes = dict.fromkeys((*changes, _MARKS_OF_MARKDOWN, _NO_LETTER), 0)
        self._words: set[str] = set()  # of the first block, to know where a hyphen belongs to a word

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader has changed so far, one sentence each."""
        return (*self._doubts, *(f"{change}: {count:,}." for change, count in self._changes.items() if count))

    def read(self, blocks: Iterable[str]) -> Iterator[list[str] | None]:
        """Yield the sentences of one line or paragraph at a time, and None at the end of every document.

        Raises CorpusError if a line is not a pair, the text is empty or has too many items.
        """
        blocks = self._visible(self._laid_out(self._checked(blocks)))
        # The kind is known once the first block is read.
        blocks = itertools.chain([next(blocks, "")], blocks)
        parse = {"lines": _sentence_lines, "documents": self._paragraphs, "wikitext": _wikitext, "pairs": self._pairs}
        is_empty = True
        for sentences in parse[self.kind](blocks):
            is_empty = is_empty and not sentences
            self._changes[_NO_LETTER] += len([*filter(_NO_LETTERS.fullmatch, sentences or ())])
            yield sentences and [self._with_short_words(sentence) for sentence in sentences]
        if is_empty and self.kind == "pairs":
            raise CorpusError(f"{self.name} has no pairs; write text, tab, text, tab and 1 or 0 on each line.")
        if is_empty:
            if self.kind == "wikitext" and self._has_text:
                rule = "paragraphs whose sentences end in “ . ”"
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

    def _laid_out(self, blocks: Iterator[str]) -> Iterator[str]:
        """The text with the lines of a wrapped one joined; `kind` is then not "auto"."""
        if self.kind not in ("auto", "documents"):
            yield from blocks
            return
        first = next(blocks, "")
        forms = [name for name, pattern in FORMATS.items() if pattern.search(first[:_BEGINNING_OF_FILE])]
        self._doubts += [
            f"This looks like {name}: what is not its text is read as words too; save the text alone."
            for name in forms[:1]
        ]
        self._doubts += [_OF_WIKITEXT] * bool(_WIKITEXT.search(first[:_BEGINNING_OF_FILE]))
        if self.kind == "auto" and (columns := _columns_of_pairs(first)):
            self.kind = "pairs"
            self._doubts += [_LABELLED] * (columns == 3)
            yield from itertools.chain([first], blocks)
            return
        is_markdown = _MARKDOWN_HEADING.match(first.lstrip())  # its paragraphs are joined as such
        wrapping = _wrapping(first)
        is_wrapped = wrapping is not None and (wrapping.is_certain or self.kind == "documents")
        if self.kind == "auto":
            has_paragraphs, doubts = _paragraphs_of(first)
            plain = with_plain_line_ends(first)
            self.kind = "documents" if is_wrapped or has_paragraphs or _MARKDOWN.match(plain) else "lines"
            doubts = [_NOT_JOINED] if wrapping or len(_DIVIDED.findall(plain)) >= _FEW_LINES else doubts
            self._doubts += doubts if self.kind == "lines" else []
        blocks = itertools.chain([first], blocks)
        self._words = _words_inside(first)
        yield from self._joined(blocks, wrapping) if wrapping and is_wrapped and not is_markdown else blocks

    def _joined(self, blocks: Iterable[str], wrapping: "_Wrapping") -> Iterator[str]:
        """Each paragraph as one line; a very long one is cut after a line that ends a sentence."""
        part: list[str] = []
        for line, after in itertools.pairwise(itertools.chain(_lines(blocks), ["", ""])):
            if line:
                part.append(f"{line} " if wrapping.ends_at_space(line, after) else line)
            is_end = not line or not after or wrapping.ends_paragraph(line, after)
            if is_end or (len(part) > _LINES_TESTED and _FINAL_MARK.search(line[-4:])):
                self._changes[_JOINED] += max(0, len(part) - 1)
                yield self._join(part) + ("\n" if line else "\n\n")
                part = []

    def _join(self, lines: list[str]) -> str:
        """The lines of a paragraph as one, without a space beside characters of scripts without spaces."""
        text = _DIVIDED.sub(self._mended, "\n".join(lines))
        return _TIGHT_BREAK.sub("", text).replace("\n", " ")

    def _mended(self, hyphen: re.Match[str]) -> str:
        """What becomes of a hyphen at the end of a line: the words of the text tell whether it is part of a word."""
        text, start, end = hyphen.string, hyphen.start(), hyphen.end()
        before = _PART_BEFORE.search(text, max(0, start - MAX_WORD_CHARACTERS), start)
        after = _PART_AFTER.match(text, end, end + MAX_WORD_CHARACTERS)
        first, second = (part.group().casefold() if part else "" for part in (before, after))
        if hyphen.group()[0] != "\xad":
            if second in _SUSPENDED:
                return "- "
            is_word = first + second in self._words
            are_words = f"{first}-{second}" in self._words or {first, second} <= self._words
            if not is_word and (are_words or "-" in first or not text[end].islower()):
                self._changes[_HYPHENATED] += 1
                return "-"
        self._changes[_MENDED] += 1
        return ""

    def _visible(self, blocks: Iterable[str]) -> Iterator[str]:
        for block in blocks:
            text, count = without_invisible(block)
            self._changes[_INVISIBLE] += count
            yield text

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

    def _line_paragraphs(self, lines: Iterator[str]) -> Iterator[list[str] | None]:
        tested = list(itertools.islice(lines, _LINES_TESTED))
        lines, most_words = itertools.chain(tested, lines), _HEADING_WORDS if _has_headings_with_stop(tested) else 1
        previous: list[str] = []  # sentences of the line above, unless the next line shows that it is a heading
        for line in lines:
            if len(line) >= _PARAGRAPH and _may_be_heading(previous, most_words):
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
            is_next = is_heading or not line or _MARKDOWN_ITEM.match(line) or len(paragraph) > _LINES_TESTED
            if paragraph and is_next:
                text, marks = _MARKDOWN_EMPHASIS.subn("", self._join(paragraph))
                self._changes[_JOINED] += len(paragraph) - 1
                self._changes[_MARKS_OF_MARKDOWN] += marks
                yield split_sentences(text)
                paragraph = []
            if is_heading:
                self._changes[_HEADINGS] += 1
                yield None
            elif _MARKDOWN_RULE.fullmatch(line):
                self._changes[_MARKS_OF_MARKDOWN] += 1
            elif line:
                paragraph.append(line)

    def _pairs(self, blocks: Iterable[str]) -> Iterator[list[str] | None]:
        lines = (line for block in blocks for line in with_plain_line_ends(block).removesuffix("\n").split("\n"))
        are_neighbours: bool | None = None
        for number, line in enumerate(lines, 1):
            cells = [cell.strip() for cell in line.split("\t")]
            if not line.strip() or (number == 1 and cells[0].lower() == "quality"):
                continue
            if len(cells) == 5:
                cells = [cells[3], cells[4], cells[0]]
            if len(cells) == 2 and are_neighbours is None:
                self._doubts.append(_NEIGHBOURS)
            are_neighbours = (len(cells) == 2) if are_neighbours is None else are_neighbours
            if len(cells) != 3 - are_neighbours or cells[2:] not in ([], ["0"], ["1"]):
                raise CorpusError(
                    f"Line {number} of {self.name} is not a pair; write text, tab, text, tab and 1 or 0, or MRPC's "
                    "five columns, or on all lines two texts with a tab between them; --kind lines reads any line."
                )
            self.labels += [label == "1" for label in cells[2:]]
            yield [cell for cell in cells[:2] if cell or not are_neighbours]
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
    letters = (character for character in paragraph[:_FIRST_LETTER] if character.lower() != character.upper())
    start, has_capitals = 0, next(letters, "").isupper()
    for end in _SENTENCE_END.finditer(paragraph):
        if _ends_sentence(paragraph, start, end, has_capitals):
            sentences.append(paragraph[start : end.end()].strip())
            start = end.end()
    rest = paragraph[start:].strip()
    return [*sentences, rest] if rest else sentences


def _ends_sentence(paragraph: str, start: int, end: re.Match[str], has_capitals: bool) -> bool:
    """Whether the marks end the sentence that begins at `start`. has_capitals: sentences begin with one."""
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
            begin = max(start, stop - 8)
            if (has_capitals and following[:1].islower()) or _ABBREVIATION.search(paragraph, begin, stop):
                return False
            if has_capitals and following[:1].isdecimal() and _NUMBERED.search(paragraph, begin, stop):
                return False
            ordinal = _ORDINAL.search(paragraph, begin, stop)
            return not ordinal or (ordinal.start() > start and not _AFTER_ORDINAL.match(paragraph, stop))
        return True
    return not (closing and _QUOTED_ON.match(paragraph, stop))


def _columns_of_pairs(block: str) -> int:
    """The number of columns if all lines are two texts with a tab between them, alone or with the label 1 or 0 after
    them; else 0. A text has several words."""
    rows = [line.split("\t") for line in itertools.islice(filter(str.strip, block.splitlines()), _LINES_TESTED)]
    widths = {*map(len, rows)}
    if widths not in ({2}, {3}) or {cell.strip() for row in rows for cell in row[2:]} - {"0", "1"}:
        return 0
    texts = [*zip(*rows)][:2]
    are_texts = all(2 * sum(map(bool, map(_SEVERAL_WORDS.search, each))) > len(rows) for each in texts)
    return widths.pop() * are_texts


def _paragraphs_of(block: str) -> tuple[bool, list[str]]:
    """Whether the lines of a text are paragraphs, and otherwise why they may not be sentences."""
    lines = list(itertools.islice(filter(str.strip, block.splitlines()), _LINES_TESTED))
    plain = list(_lines(lines))
    counts = [len(_split_at_marks(line)) for line in plain]
    in_paragraphs = sum(count for count in counts if count >= _MANY_SENTENCES)  # beside the short lines of a dialogue
    is_long = bool(lines) and statistics.median_high(map(len, plain)) > _LONG_LINE
    has_tabs = 2 * sum("\t" in line.strip() for line in lines) > len(lines)
    has_several = 2 * sum(count for count in counts if count > 1) > sum(counts)
    doubts = [_TABS] * has_tabs or [_SEVERAL] * has_several
    return bool(lines) and (is_long or 2 * in_paragraphs > sum(counts)), doubts


class _Wrapping(NamedTuple):
    """How a text is wrapped. measure: the width of a line. first_word: what does not fit into the line before. width:
    of almost all lines. is_certain: or the lines may be sentences all the same."""

    measure: Callable[[str], int]
    first_word: re.Pattern[str]
    width: int
    is_certain: bool = False

    def is_full(self, line: str, after: str) -> bool:
        """Whether the first word of the next line would make a line too wide, or a hyphen divides it."""
        return self._with_next_word(line, after) > self.width or bool(_DIVIDED.search(f"{line[-2:]}\n{after[:1]}"))

    def ends_paragraph(self, line: str, after: str) -> bool:
        """Whether a line is so short that its paragraph ends with it."""
        width = self.width if _FINAL_MARK.search(line[-4:]) else _SHORT_LINE * self.width
        is_known = self.first_word is _FIRST_WORDS[0] or " " in after
        return is_known and self._with_next_word(line, after) <= width and not self.is_full(line, after)

    def ends_at_space(self, line: str, after: str) -> bool:
        """Whether a line of a script without spaces had room for more, so that it ends where there was a space."""
        is_tight = _TIGHT_BREAK.search(f"{line[-1:]}\n{after[:1]}")
        return bool(is_tight) and self.first_word is _FIRST_WORDS[1] and self.measure(line) < self.width

    def _with_next_word(self, line: str, after: str) -> int:
        word = self.first_word.match(after)
        space = not _TIGHT_BREAK.search(f"{line[-1:]}\n{after[:1]}")
        return self.measure(line) + space + (self.measure(word.group()) if word else 0)


def _wrapping(block: str) -> _Wrapping | None:
    """How a text is wrapped; None unless many lines seem to end amid a sentence: most lines without a final mark are
    full or, where sentences begin with capitals, small letters follow."""
    lines = list(itertools.islice(_lines([block]), _LINES_TESTED))
    inner = [(line, after) for line, after in itertools.pairwise(lines) if line and after]
    broken = [pair for pair in inner if not _FINAL_MARK.search(pair[0][-4:])]
    usual = statistics.median_high(_columns(line) for line, _ in inner) if inner else 0
    has_ends = 10 * len(_SENTENCE_END.findall(block)) > len(inner) or _PHRASE_END.search(block)
    if len(broken) < max(_FEW_LINES, _BROKEN * len(inner)) or usual < _WRAPPED_LINE or not has_ends:
        return None
    found = []
    for measure, first_word in itertools.product((len, _columns), _FIRST_WORDS):
        widths = sorted(measure(line.rstrip(_HANGING)) for line, _ in inner)
        wrapping = _Wrapping(measure, first_word, widths[min(int(_WIDEST * len(widths)), len(widths) - 1)])
        found.append((sum(wrapping.is_full(*pair) for pair in broken) / len(broken), wrapping))
    share, wrapping = next((each for each in found if each[0] >= _SURELY_FULL), max(found, key=lambda each: each[0]))
    beginnings = _BEGINNING.findall("\n".join(lines))
    has_capitals = 2 * sum(map(str.isupper, beginnings)) > len(beginnings)
    follows_small = 2 * sum(after[0].islower() for _, after in broken) > len(inner)
    are_full = len(broken) * (1 - share) <= _NOT_FULL * (len(broken) - _FEW_LINES)
    is_certain = are_full or (follows_small and has_capitals)
    return wrapping._replace(is_certain=is_certain) if is_certain or follows_small or share >= _MAYBE_FULL else None


def _columns(line: str) -> int:
    """The width of a line in a terminal: two columns for each wide character, none for a mark on another one."""
    if line.isascii():
        return len(line)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in line)
    return len(line) + wide - sum(unicodedata.category(character) in ("Mn", "Me", "Cf") for character in line)


def _words_inside(block: str) -> set[str]:
    """The words of a text in small letters, without parts of words at the ends of lines."""
    words: set[str] = set()
    is_divided = False
    for line in _lines([block]):
        found = _HYPHENATED_WORD.findall(line.casefold())
        was_divided, is_divided = is_divided, line.endswith(("-", "‐", "\xad"))
        words.update(found[was_divided : len(found) - is_divided])
    return words


def _lines(blocks: Iterable[str]) -> Iterator[str]:
    return (" ".join(line.split()) for block in blocks for line in block.splitlines())


def _sentence_lines(blocks: Iterable[str]) -> Iterator[list[str] | None]:
    return ([line] if line else None for line in _lines(blocks))


def _wikitext(blocks: Iterable[str]) -> Iterator[list[str] | None]:
    for line in _lines(blocks):
        is_heading = len(line) > 1 and line[0] == line[-1] == "="
        if not is_heading and " . " in f"{line} ":
            yield [part for part in line.split(" . ") if part.strip(" .")]
            yield None


def _has_headings_with_stop(lines: list[str]) -> bool:
    """Whether short lines with a full stop are headings, as in some of Wikipedia's: no document ends with one."""
    few = others = 0
    for line, after in itertools.pairwise([*lines, ""]):
        if line.endswith(".") and _may_be_heading(split_sentences(line), _HEADING_WORDS):
            is_above = len(after) >= _PARAGRAPH
            is_few = is_above and line.count(" ") < _WORDS_WITH_STOP
            few, others = few + is_few, others + (not is_few and (is_above or not after))
    return few >= _HEADINGS_SEEN and few >= _HEADINGS_WITH_STOP * (few + others)


def _may_be_heading(sentences: list[str], most_with_stop: int) -> bool:
    """Whether the sentences of a line above a paragraph may be a heading: few words, no final mark but a full stop, and
    with it fewer than `most_with_stop` words."""
    if len(sentences) != 1 or _NOT_OF_HEADINGS.search(sentences[0]):
        return False
    words = sentences[0].count(" ") + len(_UNSPACED.findall(sentences[0])) / _CHARACTERS_OF_A_WORD
    return words < (most_with_stop if sentences[0].endswith(".") else _HEADING_WORDS)
