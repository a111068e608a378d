"""Task files as lines and tables: columns separated by tabs, commas or _!_, with or without a header, or JSON objects,
one on each line. The form is detected, the notes say what was read, and an error names the line."""

import ast
import contextlib
import csv
import functools
import io
import itertools
import json
import math
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from bert_core.errors import CorpusError, first_three, quoted
from bert_core.storage.untrusted import Json, parse_value

_SEPARATOR = "_!_"
_BLANK = string.whitespace + "\ufeff\u200b\xa0"
_SEPARATOR_LINE = re.compile('\ufeff?"?sep=([,;\t])"?,*')  # as spreadsheets read and write it
_DECIMAL_COMMA = re.compile(r";-?\d+,\d+(?:;|$)")
# A list of labels as Python writes it.
_ITEM = r"""(?:'(?:[^'\\]|\\[\\'"nrtxuU])*'|"(?:[^"\\]|\\[\\'"nrtxuU])*"|-?\d+)"""
_PYTHON_LIST = re.compile(rf"\[(?:{_ITEM}(?:, *{_ITEM})*)?\]")
JSON_OBJECT = re.compile(r'\[?\s*\{\s*"')  # how a line begins

# Names of columns in a header, in small letters and without spaces, _ and -.
_TEXT_NAME = re.compile(
    "(text|sentence|string|question|premise)[12ab]?|textpair|s[12]|#[12]string|hypothesis|query|passage|context|content"
    "|review(text)?|comment(text)?|body|tweet|message|document|utterance|sms"
)
# Read where none of those occurs.
_OTHER_TEXT_NAME = re.compile("title|headline|description|abstract|summary|post|answer|response|article")
_CLASS_NAMES = (
    *("goldlabel", "label", "labels", "class", "category", "target", "sentiment", "intent", "isduplicate", "quality"),
    *("polarity", "emotion", "topic", "stance", "relation", "entailmentjudgment"),
)
_NUMBER_NAMES = ("score", "similarity", "similarityscore", "relatednessscore", "rating", "stars")
_ID_NAME = re.compile("|(gu|u|pair|q|#1|#2)?id|index|idx|unnamed:0")
# Labels that stand for none, as published files have them, unless they are as frequent as classes are.
_NO_LABELS = ("-1", "-")
# A name or number of a row, no text.
_ID = re.compile(r"(?=\D*\d)[\w.:#/-]{1,40}", re.ASCII)
_LONGEST_LIST = 10_000  # characters of a list of labels
_MOST_SHOWN = 20  # names of columns
_COUNTED = 100  # lines, in which commas and semicolons are counted
csv.field_size_limit(2**31 - 1)  # the size of the whole file is limited
_RARE = 1000  # lines, of which one may have other columns than the rest, as in QQP, or an empty text, as in NSMC


@dataclass
class TaskFile:
    """A task file while it is read."""

    text: str
    name: str
    labelled: bool
    chosen: Sequence[str]  # columns asked for, and after reading those read
    wants: tuple[str, ...]  # see `Task.columns`
    separator: str | None  # between several labels
    most: int  # lines and columns
    notes: list[str]
    learned: tuple[str, ...] = ()  # columns of the texts of the model for which examples are read
    learned_label: tuple[str, ...] = ()  # that of its label, or none
    labels: tuple[str, ...] | None = None  # of that model
    blanks: list[int] = field(default_factory=list)  # see `TaskData`

    def count(self, marks: str) -> None:
        """Raise CorpusError if the text has too many of the marks that end a line or a column."""
        items = sum(map(self.text.count, marks))
        if items > self.most:
            message = f"{self.name} has {items:,} lines and columns; the limit here is {self.most:,}. Use a part of it."
            raise CorpusError(message)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Every line with its number from 1; one of white space and byte order marks alone is empty."""
        for number, line in enumerate(self.text.removesuffix("\n").split("\n"), 1):
            yield number, line if line.strip(_BLANK) else ""

    def first_line(self) -> tuple[int, str]:
        """The first line that is not empty, with its number."""
        return next(((number, line) for number, line in self.lines() if line), (1, ""))

    def wrong(self, line: int, problem: str, remedy: str) -> CorpusError:
        return CorpusError(f"Line {line} of {self.name} {problem}; {remedy}.")

    @cached_property
    def most_left_out(self) -> int:
        """How many lines may be left out because they are not like the others."""
        return self.text.count("\n") // _RARE

    def check_texts(self, line: int, texts: Sequence[str]) -> None:
        """Raise CorpusError if a text is empty."""
        if not all(texts):
            raise self.wrong(line, "has an empty text", "fill it in or take the line out")

    def say(self, names: Sequence[str], is_named: bool, **columns: Sequence[int]) -> None:
        """Note which columns were read as what, and which were not. is_named: whether the file names its columns."""
        read = {i for each in columns.values() for i in each}
        columns["Left out"] = [i for i in range(len(names)) if i not in read]
        prefix = "" if is_named else "column "
        listed = {what: _listed([prefix + names[i] for i in each]) for what, each in columns.items()}
        self.notes.append(" ".join(f"{what}: {each}." for what, each in listed.items() if each))

    def chosen_among(self, known: Sequence[str], *counts: int) -> list[int]:
        """Which of these columns are chosen. counts: of those beside a label. Raises CorpusError for other columns."""
        chosen = self.chosen
        if missing := [each for each in chosen if each not in known]:
            raise CorpusError(f"{self.name} has no column {quoted(missing[0])}; its columns are: {_listed(known)}.")
        if len({*chosen}) != len(chosen) or len(chosen) - self.labelled not in counts:
            wants = " and then ".join(self.wants[: 1 + self.labelled])
            raise CorpusError(f"For {self.name}, choose {wants}; the chosen columns are: {_listed(chosen)}.")
        return [known.index(each) for each in chosen]

    def several(self, label: str) -> tuple[str, ...]:
        """All labels that a label names, each once."""
        listed = listed_labels(label) if self.separator else (label,)
        names = label.split(self.separator) if listed is None else listed
        return tuple(dict.fromkeys(filter(None, (name.strip() for name in names))))


@functools.lru_cache(1024)
def listed_labels(label: str) -> tuple[str, ...] | None:
    """The labels of a list that JSON or Python has written, such as ['a', 'b']; None for anything else."""
    if not (label.startswith("[") and label.endswith("]")) or len(label) > _LONGEST_LIST:
        return None
    found: object = None
    with contextlib.suppress(ValueError):
        found = parse_value(label, _LONGEST_LIST)
    if found is None and _PYTHON_LIST.fullmatch(label):
        with contextlib.suppress(ValueError, SyntaxError):
            found = ast.literal_eval(label)
    return tuple(map(str, found)) if isinstance(found, list) and {*map(type, found)} <= {str, int} else None


def is_unread_list(label: str) -> bool:
    """Whether a label looks like a list but is none that can be read, such as one of NumPy: ['a' 'b']."""
    is_bracketed = label.startswith("[") and label.endswith("]") and listed_labels(label) is None
    return is_bracketed and ("'" in label or '"' in label or not any(map(str.isalpha, label)))


class Nested(str):
    """A field of a JSON object that has an object or a list."""


class Table:
    """The rows of a file. line, first: the number and the fields of its first row; of JSON objects, the names.
    separator: None to detect it, { for JSON lines. is_even: all rows need as many columns as the first one."""

    def __init__(self, file: TaskFile, separator: str | None = None, *, is_even: bool = True) -> None:
        self.file, self.is_even = file, is_even
        self.line, line = file.first_line()
        if mark := _SEPARATOR_LINE.fullmatch(line):
            separator, file.text = mark[1], file.text.replace(line, "", 1)  # an empty line keeps the others' numbers
            self.line, line = file.first_line()
        self.separator = separator or _separator(line, file)
        self.is_json = self.separator == "{"
        if self.is_json and line.lstrip().startswith("["):
            raise file.wrong(self.line, "begins a list of JSON", "write its objects alone, one on each line")
        file.count({"{": "\n,[{", ",": "\n,", ";": "\n;"}.get(self.separator, "\n\t"))
        self.is_csv = self.separator in (",", ";") or self._has_quotes(line)
        file.notes += ["Quotes around fields were taken away."] * (self.is_csv and self.separator == "\t")
        self.first: list[str] = self._object_names() if self.is_json else []
        self.first = self.first or next((fields for _, fields in self.rows() if fields), [])

    def names(self, is_named: bool) -> list[str]:
        """The names of the columns, or their numbers. is_named: whether the first row is a header."""
        return self.first if is_named else numbered(len(self.first))

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Each row's first line, and its fields; none for an empty row."""
        uneven = 0
        # Read again each time: while the garbage collector visits the lists of 100,000 rows, all threads wait.
        for number, fields in self._csv() if self.is_csv else self._lines():
            if fields and self.is_even and len(fields) != len(self.first or fields):
                uneven += 1
                if uneven > self.file.most_left_out:
                    problem = f"has another number of columns ({len(fields)}) than the first line ({len(self.first)})"
                    raise self.file.wrong(number, problem, "give every line the same columns")
                fields = []
            yield number, fields
        note = f"Lines left out because they have other columns than the first: {uneven:,}."
        self.file.notes += [note] * (uneven > 0 and note not in self.file.notes)

    def examples(self, is_named: bool) -> Iterator[tuple[int, list[str]]]:
        """Each row that is neither empty nor a header; the file keeps the places of the others."""
        blanks, found, headers = self.file.blanks, 0, 0
        for number, fields in self.rows():
            is_header = is_named and fields == self.first
            headers += is_header
            if is_header and headers == 1:
                blanks.clear()
            elif is_header or not fields:
                blanks.append(found + len(blanks))
            else:
                yield number, fields
                found += 1
        if headers > 1:
            self.file.notes.append(f"Repeated headers left out: {headers - 1:,}.")

    def values(self, column: int, is_named: bool) -> Counter[str]:
        """How often a column has each value below a header."""
        return Counter(fields[column] for fields in self.below(is_named))

    def below(self, is_named: bool) -> Iterator[list[str]]:
        """Each row that is not empty, below a header."""
        return (fields for _, fields in self.rows() if fields and not (is_named and fields == self.first))

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        for number, line in self.file.lines():
            if line and self.is_json:
                content = self._object(line, number)
                yield number, [self._field(content.get(name)) for name in self.first] if content else []
            else:
                yield number, [each.strip() for each in line.split(self.separator)] if line else []

    def _csv(self) -> Iterator[tuple[int, list[str]]]:
        text = io.StringIO(self.file.text, newline="")
        reader, end = csv.reader(text, delimiter=self.separator, skipinitialspace=True, strict=True), 0
        try:
            for row in reader:
                fields = [each.strip() for each in row]
                yield end + 1, fields if any(each.strip(_BLANK) for each in fields) else []
                end = reader.line_num
        except csv.Error as error:
            remedy = "quote texts that hold commas or quotes"
            raise self.file.wrong(end + 1, f"is not CSV ({error})", remedy) from None

    def _has_quotes(self, first_line: str) -> bool:
        """Whether a file with tabs has quotes around fields as CSV has them: these then make sense everywhere, and the
        header is quoted, a quote in a field is doubled, or a tab or the end of a line belongs to a field."""
        if self.separator != "\t" or not re.search(r'(?:^|\t)"', self.file.text, re.MULTILINE):
            return False
        try:
            widths = {len(fields) for _, fields in self._csv() if fields}
        except CorpusError:
            return False
        has_doubled = re.search(r'(?:^|\t)"[^"\t\n]*""', self.file.text, re.MULTILINE)
        are_needed = has_doubled is not None or len({line.count("\t") for _, line in self.file.lines() if line}) > 1
        is_quoted = all(len(each) > 1 and each[0] == each[-1] == '"' for each in first_line.split("\t"))
        return len(widths) == 1 and (are_needed or is_quoted)

    def _object_names(self) -> list[str]:
        """The names in all JSON objects. Raises CorpusError for too many."""
        found = Counter(name for number, line in self.file.lines() if line for name in self._object(line, number))
        if len(found) * self.file.text.count("\n") > max(self.file.most, 100 * found.total()):
            raise self.file.wrong(self.line, f"begins objects with {len(found):,} names", "give all the same names")
        return list(found)

    def _object(self, line: str, number: int) -> Json:
        try:
            content = parse_value(line, self.file.most)
        except ValueError as error:
            raise self.file.wrong(number, f"is not JSON ({error})", "write an object on each line") from None
        if not isinstance(content, dict):
            raise self.file.wrong(number, "is not a JSON object", "write one on each line")
        return content

    def _field(self, value: object) -> str:
        separator = self.file.separator
        if isinstance(value, list) and separator and {*map(type, value)} <= {str, int}:
            return separator.join(map(str, value)) or separator
        if isinstance(value, list | dict):
            return Nested(json.dumps(value))
        return value.strip() if isinstance(value, str) else "" if value is None else json.dumps(value)


def _separator(line: str, file: TaskFile) -> str:
    """What stands between the columns of a file with this first line; { for JSON lines."""
    if JSON_OBJECT.match(line) or line.strip() == "[":
        return "{"
    if found := next((each for each in (_SEPARATOR, "\t") if each in line), None):
        return found
    if re.match(r"\s*\{\s*'", line):
        raise file.wrong(file.first_line()[0], "has single quotes, as Python prints an object", "write JSON lines")
    lines = [each for _, each in itertools.islice(file.lines(), _COUNTED) if each]
    if len(lines) > 1 and all(map(_DECIMAL_COMMA.search, lines[1:])):
        return ";"
    counts = {mark: {each.count(mark) for each in lines} for mark in ",;"}
    comma = max(",;", key=lambda mark: (mark in line and len(counts[mark]) == 1, line.count(mark)))
    names = [plain(each) for each in line.replace('"', "").split(comma)]
    has_names = len(names) > 1 and any(map(_TEXT_NAME.fullmatch, names))
    return comma if file.labelled or has_names or file.name.lower().endswith(".csv") else "\t"


def plain(name: str) -> str:
    """The name of a column as the lists of known names have it."""
    return re.sub(r"[\s_-]", "", name.strip(_BLANK).lower())


def _listed(names: Sequence[str], between: str = ", ") -> str:
    """The names of columns in a sentence: the first ones, if there are many."""
    more = [f"and {len(names) - _MOST_SHOWN:,} more"] if len(names) > _MOST_SHOWN else []
    return between.join([*(quoted(name)[1:-1] or "''" for name in names[:_MOST_SHOWN]), *more])


def _names_columns(fields: Sequence[str], labelled: bool) -> bool:
    """Whether fields are usual names of a text and, of a labelled file, of a label."""
    names = [plain(each) for each in fields]
    return any(map(_TEXT_NAME.fullmatch, names)) and (
        not labelled or not {*_CLASS_NAMES, *_NUMBER_NAMES}.isdisjoint(names)
    )


def numbered(count: int) -> list[str]:
    """The names of so many columns without a header."""
    return [str(i) for i in range(1, count + 1)]


def number_in(value: str) -> float | None:
    """The number that a field has, if it is one."""
    try:
        return float(value)
    except ValueError:
        return None


class Columns(NamedTuple):
    """Which columns of a table are the texts and the label, and whether its first row is a header."""

    texts: list[int]
    label: list[int]  # one column, or none
    is_named: bool


class TextTable(Table):
    """A table of texts, or pairs of texts, with a label. is_number: whether a label is a number."""

    def __init__(self, file: TaskFile, *, is_number: bool) -> None:
        super().__init__(file)
        self.is_number = is_number
        # Columns that the first row names as the model's own have them, and as texts are often named.
        is_known = {*file.learned} <= {*self.first} and not all(each.isdecimal() for each in file.learned)
        self._learned, self._learned_label = (
            [self.first.index(each) for each in columns if is_known and each in self.first]
            for columns in (file.learned, file.learned_label)
        )
        self._names = [plain(each) for each in self.first]
        self.width = len(self.first)  # without empty last columns
        if self.width > 2 and not self.first[-1]:
            filled = (i for _, fields in self.rows() for i in range(len(fields), 2, -1) if fields[i - 1])
            self.width = max(filled, default=2)
        usual, other = (
            [i for i, name in enumerate(self._names) if kind.fullmatch(name)] for kind in (_TEXT_NAME, _OTHER_TEXT_NAME)
        )
        self._texts, self._named = usual or other, usual + other if len(self.first) > 1 else usual

    def columns(self) -> Columns:
        """The columns that a person asked for, else by the names of a header, else by their order. Raises CorpusError
        where none is clear, and for others than the model learned from that they are for."""
        found, learned = self._columns(), len(self.file.learned)
        if len(found.texts) not in (1, 2) or (learned and len(found.texts) != learned):
            known = {1: "; the training examples are single texts", 2: "; the training examples are pairs of texts"}
            columns = "column" if len(found.texts) == 1 else "columns"
            raise self._unclear(f"has {len(found.texts)} {columns} of texts{known.get(learned, '')}")
        return found

    def _columns(self) -> Columns:
        file = self.file
        if file.chosen:
            is_named = self.is_json or not all(each.isdecimal() for each in file.chosen)
            found = file.chosen_among(self.names(is_named), 1, 2)
            count = len(found) - file.labelled
            return Columns(found[:count], found[count:], is_named or self._has_header_above(found))
        if file.labelled and self.width == 1:
            wanted = f"write a text, or two texts, and a label in columns separated by tabs, commas or {_SEPARATOR}"
            raise file.wrong(self.line, "has 1 column", wanted)
        is_title = "" in self.first[: self.width] and not _names_columns(self.first, file.labelled)
        if is_title and not self.is_json and _names_columns(next(self.below(True), []), file.labelled):
            raise file.wrong(self.line, "is no header, but the line below it is", "take it out")
        named = self._by_name()
        if not self.is_json and not self._is_header(named):
            return self._by_order()
        if named is None:
            raise self._unclear(f"names the columns {_listed(self.first)}", self.first)
        return named

    def _has_header_above(self, chosen: list[int]) -> bool:
        """Whether the first row names chosen columns as usual, and no other row has the name in the last of them."""
        column = chosen[-1]
        has_label = not self.file.labelled or self._names[column] in (*_CLASS_NAMES, *_NUMBER_NAMES)
        has_text = any(i in self._named for i in chosen)
        return has_label and has_text and self.values(column, False)[self.first[column]] == 1

    def _unclear(self, problem: str, names: Sequence[str] = ()) -> CorpusError:
        """Ask for the columns. names: of a header, if there may be one."""
        file, example = self.file, [*names[:1], *names[-1:]] if names else ["1", "2"]
        what = "the texts and then the label" if file.labelled else "the texts"
        chosen = _listed(example[: file.labelled + max(1, len(file.learned))], ",")
        return file.wrong(self.line, problem, f"choose {what} with --columns, for example {chosen}")

    def _by_name(self) -> Columns | None:
        """The columns that the first row names, if that is clear."""
        labelled, names, texts = self.file.labelled, self._names, self._learned or self._texts
        usual = _NUMBER_NAMES + _CLASS_NAMES if self.is_number else _CLASS_NAMES + _NUMBER_NAMES
        label = self._learned_label or [names.index(name) for name in usual if name in names][:1]
        rest = [i for i, name in enumerate(names) if i not in (*texts, *label) and not _ID_NAME.fullmatch(name)]
        if len(rest) == 1 and not texts and (label or not labelled):
            texts = rest
        elif len(rest) == 1 and not label and texts and texts[0] < rest[0]:
            label = rest
        is_clear = 1 <= len(texts) <= 2 and (label or not labelled)
        return Columns(texts, label if labelled else [], True) if is_clear else None

    def _is_header(self, named: Columns | None) -> bool:
        """Whether the first row names the columns. Raises CorpusError for one that may also be an example."""
        if self._learned:
            return True
        file, first = self.file, self.first
        repeated = {i for fields in self.below(True) for i in self._named if fields[i] == first[i]}
        has_name = not repeated.issuperset(self._named)
        if not file.labelled:
            return has_name or self._label_column(True) != self._label_column(False)
        [column] = (named.label if named and has_name else []) or [self.width - 1]
        label, others = first[column], self.values(column, is_named=has_name)
        if not has_name:
            others = others - Counter([label])
        if (
            not file.several(label)
            or number_in(label.replace(",", ".")) is not None
            or (len(first) > 3 and not has_name)
        ):
            return False
        if not others or self.is_number:
            return has_name or bool(others)
        is_alone = {*file.several(label)}.isdisjoint(each for other in others for each in file.several(other))
        if is_alone != has_name:
            which = "which no other line has" if is_alone else "which other lines have, and the name of a column"
            # The label is likely the column with the fewest values, and comes last.
            columns = range(self.width)
            known = [i for i in columns if not _ID_NAME.fullmatch(self._names[i])] or columns
            kinds = [len({*values}) for values in zip(first, *self.below(True))]
            last = min(reversed(known), key=kinds.__getitem__)
            order = [*(i for i in known if i != last), last]
            header, example = (_listed([each[i] for i in order], ",") for each in (first, self.names(False)))
            raise file.wrong(
                self.line,
                f"has the label {quoted(label)}, {which}, so it may be a header or an example",
                f"choose the columns with --columns: {header} for a header, or {example}",
            )
        return has_name

    def _by_order(self) -> Columns:
        """One or two texts and then the label, without a header. Raises CorpusError if that is doubtful."""
        width = self.width
        if not self.file.labelled:
            label = self._label_column(False)
            return Columns([i for i in range(width) if i != label], [], False)
        rows = {tuple(fields) for _, fields in self.rows() if fields} if width <= 3 else set()
        kinds = [Counter(values) for values in zip(*rows)][:width]
        # A column with as few values as the label has is a label, or its name.
        is_few = [1 < len(each) <= len(kinds[-1]) and max(each.values()) > 1 for each in kinds[:-1]]
        is_id = [width == 3 and all(map(_ID.fullmatch, each)) for each in kinds[:-1]]
        if not kinds or any(is_id) or (any(is_few) and not self.is_number):
            few = first_three(f"{i} {quoted(each)}" for i, each in enumerate(self.first, 1))
            raise self._unclear(f"has {width} columns ({few}), which are not clearly texts and then a label")
        return Columns(list(range(width - 1)), [width - 1], False)

    def _label_column(self, is_named: bool) -> int | None:
        """Of one column more than the model learned texts from, the last one with nothing but labels, or numbers."""
        labels, width = self.file.labels, len(self.first)
        found = None
        for i in range(width) if labels is not None and width in {2, 3} - {len(self.file.learned)} else ():
            values = self.values(i, is_named)
            if values and all(each in labels if labels else number_in(each) is not None for each in values):
                found = i
        return found

    def no_labels(self, column: int, is_named: bool) -> set[str]:
        """Those labels of the file that stand for none."""
        counts = self.values(column, is_named)
        others = counts.keys() - {"", *_NO_LABELS}
        none = {""} if self.is_number else {"", *_NO_LABELS}
        if "+" in others:
            none.discard("-")
        # A scale, such as -1, 0 and 1, has negative numbers too.
        rarest = min((counts[each] for each in others), default=math.inf)
        is_class = others <= {"0", "1", "+1"} and 2 * counts["-1"] > max(2, rarest)
        if is_class or any(number_in(each) is not None and each.startswith("-") for each in others):
            none.discard("-1")
        return none
