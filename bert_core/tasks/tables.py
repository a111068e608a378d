"""Task files as rows of columns, and which columns are the texts and the label: the usual names of a header are known,
and what two or three columns without one are. Anything else is asked: see `ColumnsError`."""

import contextlib
import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tokenizers import Tokenizer

from bert_core.errors import CorpusError, quoted
from bert_core.storage.untrusted import parse_value

SEPARATORS = {"tab": "\t", "space": " "}  # by the names with which a person chooses them
FIRST_ROWS = 5  # that a person is shown
_RARE = 1000  # rows, of which one may have other columns than the first, as in QQP, or an empty text, as in NSMC
_BLANK = " \t\r\x0b\x0c\xa0\ufeff\u200b"
_MOST = 20  # columns in a sentence
_MARK = "\x1f"  # stands for a separator of several letters; no text has it
csv.field_size_limit(2**31 - 1)  # the size of the whole file is limited

Row = tuple[str, ...]  # the fields of a line, none of an empty one
Rows = list[tuple[int, Row]]  # each with the number of its first line, from 1


@dataclass(frozen=True)
class Columns:
    """Which columns are read, counted from 0, and whether the first row names them. label: one column, or none. first:
    the first rows of the file."""

    texts: Sequence[int]
    label: Sequence[int]
    is_named: bool
    first: Sequence[Row]

    def names_of(self, columns: Sequence[int]) -> list[str]:
        """Their names in the header, or their numbers from 1."""
        return [self.first[0][i] if self.is_named else str(i + 1) for i in columns]

    @property
    def names(self) -> tuple[str, ...]:
        """The texts and the label as a person chooses them."""
        return tuple(self.names_of([*self.texts, *self.label]))


class ColumnsError(CorpusError):
    """It is not known which columns are the texts and the label. columns: the first rows, and what is known. example:
    a choice, by numbers from 1."""

    def __init__(self, message: str, columns: Columns, example: str) -> None:
        super().__init__(message)
        self.columns, self.example = columns, example


@dataclass(frozen=True)
class Usual:
    """How the files of a kind of task usually are. what: the texts and the label of an example in words. texts: their
    names in a header, in small letters without spaces, _ and -; the second pattern is for files without the first.
    label: its names, the likeliest first. by_order: of so many columns without a header, the texts and the label."""

    what: tuple[str, str]
    texts: tuple[str, ...]
    label: tuple[str, ...]
    by_order: Mapping[int, tuple[list[int], int]]
    most: int = 2  # texts of an example

    def named_by(self, row: Row) -> tuple[list[int], list[int]]:
        """The columns that a header names: those of the texts, and that of the label."""
        names = [re.sub(r"[\s_-]", "", each.lower()) for each in row]
        texts = ([i for i, name in enumerate(names) if re.fullmatch(kind, name)] for kind in self.texts)
        return next(filter(None, texts), []), [names.index(name) for name in self.label if name in names][:1]


@dataclass
class TaskFile:
    """A task file while it is read. most: lines and columns that it may have. chosen, has_header, separator: what a
    person says, see `load_task`. learned: the columns of the training part. labels, tokenizer: of the model that it is
    for. blanks: see `TaskData`."""

    text: str
    name: str
    labelled: bool
    most: int
    usual: Usual | None  # of its kind; None if that has columns of its own
    chosen: Sequence[str] = ()
    has_header: bool | None = None
    separator: str | None = None
    learned: Sequence[str] = ()
    labels: Sequence[str] = ()
    tokenizer: Tokenizer | None = None
    notes: list[str] = field(default_factory=list)
    blanks: list[int] = field(default_factory=list)
    columns: Columns | None = None  # that were read

    @cached_property
    def first_line(self) -> str:
        """The first line with more than white space."""
        return next((line for line in self.text.split("\n") if line.strip(_BLANK)), "")

    @property
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
        """What stands between the columns, as a person says or the first line has it; { for JSON objects."""
        if self.separator:
            return SEPARATORS.get(self.separator, self.separator)
        if re.match(r'\s*\{\s*"', self.first_line):
            return "{"
        if found := [mark for mark in ("_!_", "\t") if mark in self.first_line]:
            return found[0]
        # Without labels, a line may be a text with commas.
        is_table = self.labelled or self.name.lower().endswith(".csv")
        return max(";,", key=self.first_line.count) if is_table else "\t"

    def _fields(self, mark: str) -> Iterator[tuple[int, Row]]:
        """The rows, those with commas and semicolons quoted as CSV is; otherwise, a quote is a character."""
        is_csv, end = mark in (",", ";"), 0
        text = self.text if len(mark) == 1 else self.text.replace(mark, _MARK)
        reader = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=mark if len(mark) == 1 else _MARK,
            quoting=csv.QUOTE_MINIMAL if is_csv else csv.QUOTE_NONE,
            skipinitialspace=is_csv,
            strict=True,
        )
        try:
            for row in reader:
                fields = filter(None, row) if mark == " " else (each.strip(None if is_csv else " ") for each in row)
                yield end + 1, tuple(fields) if any(each.strip(_BLANK) for each in row) else ()
                end = reader.line_num
        except csv.Error as error:
            raise self.wrong(end + 1, f"is not CSV ({error})", "quote texts that hold commas or quotes") from None

    def _objects(self) -> Iterator[tuple[int, Row]]:
        """The names in JSON objects, one on each line, then their values."""
        objects: list[tuple[int, dict]] = []
        for number, line in enumerate(self.text.removesuffix("\n").split("\n"), 1):
            content = None
            with contextlib.suppress(ValueError):
                content = parse_value(line) if line.strip() else {}
            if not isinstance(content, dict):
                raise self.wrong(number, "is no JSON object", "write one on each line")
            objects.append((number, content))
        names = list(dict.fromkeys(name for _, content in objects for name in content))
        self._limit(len(objects) * len(names))
        yield 1, tuple(names)
        for number, content in objects:
            values = (content.get(name) for name in names)
            texts = (each if isinstance(each, str) else "" if each is None else json.dumps(each) for each in values)
            yield number, tuple(each.strip() for each in texts) if content else ()

    def _limit(self, items: int) -> None:
        if items > self.most:
            raise CorpusError(
                f"{self.name} has {items:,} lines and columns; the limit here is {self.most:,}. Use a part of it."
            )

    def rows(self, most_uneven: int = 0) -> Rows:
        """All rows. Those with other columns than the first are empty and counted. Raises CorpusError for more than
        `most_uneven` of them."""
        self._limit(self.text.count("\n") + self.text.count(self.mark))
        rows = list(self._objects() if self.mark == "{" else self._fields(self.mark))
        width = next((len(row) for _, row in rows if row), 0)
        uneven = [(line, len(row)) for line, row in rows if row and len(row) != width]
        if len(uneven) > most_uneven:
            [line, other], *_ = uneven
            problem = f"has another number of columns ({other}) than the first line ({width})"
            raise self.wrong(line, problem, "give every line the same columns")
        self.count("Lines left out because they have other columns than the first", len(uneven))
        return [(line, row if len(row) == width else ()) for line, row in rows] if uneven else rows

    def table(self, *said: str, most_uneven: int = 0) -> tuple[Columns, Rows]:
        """The columns to read, and all rows below a header. said: what a note calls the texts and the label. Raises
        ColumnsError where it is not clear which columns these are."""
        rows = self.rows(most_uneven)
        first = [row for _, row in rows if row][:FIRST_ROWS]
        if not first:
            raise CorpusError(f"{self.name} has no examples; it is empty.")
        self.columns = found = self._columns(first)
        rest = [i for i in range(len(first[0])) if i not in (*found.texts, *found.label)]
        prefix = "" if found.is_named else "column "
        parts = zip((*said, "Left out"), map(found.names_of, (found.texts, found.label, rest)))
        named = {what: ", ".join(prefix + name for name in names[:_MOST]) for what, names in parts}
        self.notes.append(" ".join(f"{what}: {each}." for what, each in named.items() if each))
        if not found.is_named:
            return found, rows
        below = rows[1 + next(i for i, (_, row) in enumerate(rows) if row) :]
        self.count("Repeated headers left out", sum(row == first[0] for _, row in below))
        return found, [(line, () if row == first[0] else row) for line, row in below]

    def _columns(self, first: Sequence[Row]) -> Columns:
        """The columns that a person has chosen, else those of the training part, those that a header names as usual, or
        those of the usual order."""
        assert self.usual is not None
        texts, label = self.usual.named_by(first[0])
        is_usual = bool(texts) and bool(label or not self.labelled)
        chosen, is_named, wanted = self.chosen or self._learned_in(first[0], is_usual), self.has_header, self._texts
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
        count = wanted or len(texts)
        if not 1 <= len(texts) == count <= self.usual.most or len({*found.names}) < count + self.labelled:
            raise self.unclear(found)
        return found

    def unclear(self, found: Columns) -> ColumnsError:
        assert self.usual is not None
        known = {2: "The training examples are single texts. ", 3: "The training examples are pairs of texts. "}
        learned = known.get(len(self.learned), "") if self.usual.most > 1 else ""
        what, numbers = (
            " and ".join(self.usual.what[: 1 + self.labelled]),
            list(map(str, range(1, len(found.first[0]) + 1))),
        )
        return ColumnsError(
            f"It is not clear which columns of {self.name} are {what}. {learned}Choose them.",
            found,
            ",".join([*numbers[: self._texts or 1], *numbers[-1:] * self.labelled]),
        )

    @property
    def _texts(self) -> int | None:
        """How many texts an example must have; None for any number."""
        return len(self.learned) - 1 if self.learned else 1 if self.usual and self.usual.most == 1 else None

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
