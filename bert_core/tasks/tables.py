"""Task files as rows of columns, and which columns are the texts and the label: the usual names of a header are known,
and what two or three columns without one are. Anything else is asked: see `ColumnsError`."""

import contextlib
import csv
import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tokenizers import Tokenizer

from bert_core.errors import CorpusError, quoted
from bert_core.storage.untrusted import parse_value

SEPARATORS = {"tab": "\t", "space": " "}  # by the names with which a person chooses them
FIRST_ROWS = 5  # that a person is shown, and in which commas and semicolons are counted
_RARE = 1000  # rows, of which one may have other columns than the first, as in QQP, or an empty text, as in NSMC
_MOST = 20  # columns in a sentence
_BLANK = " \t\r\x0b\x0c\xa0\ufeff\u200b"
csv.field_size_limit(2**31 - 1)  # the size of the whole file is limited

Row = tuple[str, ...]  # the fields of a line, none of an empty one
Rows = Iterator[tuple[int, Row]]  # each with the number of its first line, from 1


@dataclass(frozen=True)
class Columns:
    """Which columns are read, counted from 0, and whether the first row names them. label: one column, or none. first:
    the first rows of the file."""

    texts: Sequence[int]
    label: Sequence[int]
    is_named: bool
    first: Sequence[Row]

    @property
    def names(self) -> tuple[str, ...]:
        """The texts and the label as a person chooses them: by names of the header, or by numbers from 1."""
        return tuple(self.name_of(i) for i in (*self.texts, *self.label))

    def name_of(self, column: int) -> str:
        return self.first[0][column] if self.is_named else str(column + 1)


class ColumnsError(CorpusError):
    """It is not known which columns of a file are the texts and the label. columns: the first rows, and what is known.
    example: a choice, by numbers from 1."""

    def __init__(self, message: str, columns: Columns, example: str) -> None:
        super().__init__(message)
        self.columns, self.example = columns, example


@dataclass(frozen=True)
class Usual:
    """How the files of a kind of task usually are.

    what: the columns of an example, those of the texts and that of the label. texts: patterns of their names in a
    header, in small letters, without spaces, _ and -; a later one is for files without the earlier ones. label: names,
    the likeliest first. by_order: of so many columns without a header, the texts and the label. most: of texts.
    """

    what: tuple[str, str]
    texts: tuple[str, ...]
    label: tuple[str, ...]
    by_order: Mapping[int, tuple[list[int], int]]
    most: int = 2

    def named_by(self, row: Row) -> tuple[list[int], list[int]]:
        """The columns that a header names: those of the texts, and that of the label."""
        names = [re.sub(r"[\s_-]", "", each.lower()) for each in row]
        texts = ([i for i, name in enumerate(names) if re.fullmatch(kind, name)] for kind in self.texts)
        return next(filter(None, texts), []), [names.index(name) for name in self.label if name in names][:1]


@dataclass
class TaskFile:
    """A task file while it is read.

    usual: of its kind; None if the kind has columns of its own. most: lines and columns that it may have. chosen,
    has_header, separator: what a person says, see `load_task`. learned: the columns of the training part. labels,
    tokenizer: of the model for which it is read. blanks: see `TaskData`. columns: those that were read. skipped: lines
    that are not read.
    """

    text: str
    name: str
    labelled: bool
    most: int
    usual: Usual | None
    chosen: Sequence[str] = ()
    has_header: bool | None = None
    separator: str | None = None
    learned: Sequence[str] = ()
    labels: Sequence[str] = ()
    tokenizer: Tokenizer | None = None
    notes: list[str] = field(default_factory=list)
    blanks: list[int] = field(default_factory=list)
    columns: Columns | None = None
    skipped: re.Pattern | None = None

    def lines(self) -> Iterator[tuple[int, str]]:
        """Every line but skipped ones, with its number from 1; one of white space alone is empty."""
        for number, line in enumerate(self.text.removesuffix("\n").split("\n"), 1):
            if not (self.skipped and self.skipped.match(line)):
                yield number, line if line.strip(_BLANK) else ""

    @cached_property
    def first_line(self) -> str:
        """The first one that is not empty."""
        return next((line for _, line in self.lines() if line), "")

    @cached_property
    def few(self) -> int:
        """How many rows may be unlike the others."""
        return self.text.count("\n") // _RARE

    def wrong(self, line: int, problem: str, remedy: str) -> CorpusError:
        return CorpusError(f"Line {line} of {self.name} {problem}; {remedy}.")

    def count(self, what: str, count: int) -> None:
        """Note how many there are, if any."""
        self.notes += [f"{what}: {count:,}."] * bool(count)

    @cached_property
    def mark(self) -> str:
        """What stands between the columns, as a person says or the first lines have it; { for JSON objects."""
        if self.separator:
            return SEPARATORS.get(self.separator, self.separator)
        if re.match(r'\s*\{\s*"', self.first_line):
            return "{"
        known = (each for each in ("_!_", "\t", ";", ",") if each in self.first_line)
        mark = next((each for each in known if each not in ";," or self._divides(each)), ",")
        # Without labels, a line may be a text with commas.
        is_table = self.labelled or mark not in ";," or self.name.lower().endswith(".csv") or self._has_names(mark)
        return mark if is_table else "\t"

    def _divides(self, mark: str) -> bool:
        """Whether a mark divides all of the first rows into the same number of columns, which is more than one."""
        with contextlib.suppress(CorpusError):
            widths = {len(row) for _, row in itertools.islice(self._csv(mark), FIRST_ROWS) if row}
            return len(widths) == 1 and widths != {1}
        return False

    def _has_names(self, mark: str) -> bool:
        first = next((row for _, row in self._csv(mark) if row), ())
        return self.usual is not None and bool(self.usual.named_by(first)[0])

    def rows(self, most_uneven: int = 0) -> list[tuple[int, Row]]:
        """All rows; the names in JSON objects are the first one. Rows with other columns than the first are empty and
        counted. Raises CorpusError for more than `most_uneven` of them."""
        self._limit(self.text.count("\n") + self.text.count(self.mark))
        kinds = {"{": self._objects, ",": self._csv, ";": self._csv}
        rows = list(kinds.get(self.mark, self._fields)(self.mark))
        width = next((len(row) for _, row in rows if row), 0)
        uneven = [(line, len(row)) for line, row in rows if row and len(row) != width]
        if len(uneven) > most_uneven:
            [line, other], *_ = uneven
            problem = f"has another number of columns ({other}) than the first line ({width})"
            raise self.wrong(line, problem, "give every line the same columns")
        self.count("Lines left out because they have other columns than the first", len(uneven))
        return [(line, row if len(row) == width else ()) for line, row in rows] if uneven else rows

    def _limit(self, items: int) -> None:
        if items > self.most:
            raise CorpusError(
                f"{self.name} has {items:,} lines and columns; the limit here is {self.most:,}. Use a part of it."
            )

    def _fields(self, mark: str) -> Rows:
        for number, line in self.lines():
            fields = filter(None, line.split(" ")) if mark == " " else (each.strip(" ") for each in line.split(mark))
            yield number, tuple(fields) if line else ()

    def _csv(self, mark: str) -> Rows:
        lines, end = io.StringIO(self.text, newline=""), 0
        reader = csv.reader(lines, delimiter=mark, skipinitialspace=True, strict=True)
        try:
            for row in reader:
                fields = tuple(each.strip() for each in row)
                yield end + 1, fields if any(each.strip(_BLANK) for each in fields) else ()
                end = reader.line_num
        except csv.Error as error:
            raise self.wrong(end + 1, f"is not CSV ({error})", "quote texts that hold commas or quotes") from None

    def _objects(self, _: str) -> Rows:
        objects: list[tuple[int, dict]] = []
        for number, line in self.lines():
            try:
                objects.append((number, dict(parse_value(line) if line else {})))  # type: ignore[call-overload]
            except (ValueError, TypeError) as error:
                raise self.wrong(number, f"is no JSON object ({error})", "write one on each line") from None
        names = list(dict.fromkeys(name for _, content in objects for name in content))
        self._limit(len(objects) * len(names))
        yield 1, tuple(names)
        for number, content in objects:
            values = (content.get(name) for name in names)
            texts = (each if isinstance(each, str) else "" if each is None else json.dumps(each) for each in values)
            yield number, tuple(each.strip() for each in texts) if content else ()

    def table(self, *said: str, most_uneven: int = 0) -> tuple[Columns, list[tuple[int, Row]]]:
        """The columns to read, and all rows below a header. said: what a note calls the texts and the label. Raises
        ColumnsError where it is not clear which columns these are."""
        rows = self.rows(most_uneven)
        first = [row for _, row in rows if row][:FIRST_ROWS]
        if not first:
            raise CorpusError(f"{self.name} has no examples; it is empty.")
        self.columns = found = self._columns(first)
        rest = [i for i in range(len(first[0])) if i not in (*found.texts, *found.label)]
        parts = zip((*said, "Left out"), (found.texts, found.label, rest))
        prefix = "" if found.is_named else "column "
        named = {what: ", ".join(prefix + found.name_of(i) for i in columns[:_MOST]) for what, columns in parts}
        self.notes.append(" ".join(f"{what}: {each}." for what, each in named.items() if each))
        if not found.is_named:
            return found, rows
        start = 1 + next(i for i, (_, row) in enumerate(rows) if row)
        self.count("Repeated headers left out", sum(row == first[0] for _, row in rows[start:]))
        return found, [(line, () if row == first[0] else row) for line, row in rows[start:]]

    def _columns(self, first: Sequence[Row]) -> Columns:
        """The columns that a person has chosen, else those of the training part, those that a header names as usual, or
        those of the usual order."""
        assert self.usual is not None
        texts, label = self.usual.named_by(first[0])
        is_usual = bool(texts) and bool(label or not self.labelled)
        chosen = self.chosen or self._learned_in(first[0], is_usual)
        is_named = self.has_header
        if is_named is None:
            by_name = any(each in first[0] and not each.isdecimal() for each in chosen)
            is_named = is_usual or by_name or self.mark == "{"
        if chosen:
            places = [self._place(each, first[0], is_named) for each in chosen]
            texts, label = places[: len(places) - self.labelled], places[len(places) - self.labelled :]
        elif not (is_named and is_usual):
            # A header of which half is usual may be an example too.
            is_doubtful = self.mark == "{" or (self.has_header is None and bool(texts or label))
            texts, label = ([], []) if is_doubtful else self._by_order(len(first[0]))
        found = Columns(texts, label if self.labelled else [], is_named, first)
        count = self._texts or len(texts)
        if not 1 <= len(texts) == count <= self.usual.most or len({*found.names}) < count + self.labelled:
            raise self.unclear(found)
        return found

    def unclear(self, columns: Columns) -> ColumnsError:
        assert self.usual is not None
        what, learned = " and ".join(self.usual.what[: 1 + self.labelled]), len(self.learned) - 1
        of = {1: "The training examples are single texts. ", 2: "The training examples are pairs of texts. "}
        known = of.get(learned, "") if self.usual.most > 1 else ""
        numbers = [str(i) for i in range(1, len(columns.first[0]) + 1)]
        example = ",".join([*numbers[: self._texts or 1], *numbers[-1:] * self.labelled])
        message = f"It is not clear which columns of {self.name} are {what}. {known}Choose them."
        return ColumnsError(message, columns, example)

    @property
    def _texts(self) -> int | None:
        """How many texts an example must have; None for any number."""
        assert self.usual is not None
        return len(self.learned) - 1 if self.learned else 1 if self.usual.most == 1 else None

    def _learned_in(self, first: Row, is_usual: bool) -> Sequence[str]:
        """The columns of the training part, if this file has them."""
        learned = self.learned if self.labelled else self.learned[:-1]
        if all(each.isdecimal() for each in learned):
            return [] if is_usual or len(first) < max(map(int, learned), default=0) else learned
        return learned if {*learned} <= {*first} else []

    def _place(self, name: str, first: Row, is_named: bool) -> int:
        if is_named and name in first:
            return first.index(name)
        if name.isdecimal() and 1 <= int(name) <= len(first):
            return int(name) - 1
        known = ", ".join(first if is_named else map(str, range(1, len(first) + 1)))
        raise CorpusError(f"{self.name} has no column {quoted(name)}; its columns are: {known}.")

    def _by_order(self, width: int) -> tuple[list[int], list[int]]:
        assert self.usual is not None
        texts, *label = self.usual.by_order.get(width, ([],))
        if self.labelled or len(texts) == self._texts:
            return list(texts), list(label)
        return list(range(width * (width == (self._texts or 1)))), []
