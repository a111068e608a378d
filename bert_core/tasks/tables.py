"""Task files as rows of columns, and which columns are the texts and the label: the usual names of a header are known,
and what two or three columns without one are. Anything else is asked: see `ColumnsError`."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tokenizers import Tokenizer

from bert_core.errors import CorpusError, first_three, quoted

SEPARATORS = {"tab": "\t", "space": " "}  # by the names with which a person chooses them
NUMBERS_OF_TEXTS = {1: "single texts", 2: "pairs of texts"}
_FIRST_ROWS = 5  # that a person is shown
_RARE = 1000  # lines, of which one may have other columns than the first, as in QQP
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

    columns: Columns
    example: str


@dataclass(frozen=True)
class Usual:
    """How the files of a kind of task usually are. what: the texts and the label of an example in words. texts: their
    names in a header, in small letters without spaces, _ and -; the second pattern is for files without the first.
    label: its names, the likeliest first. by_order: of so many columns without a header, the texts and the label."""

    what: tuple[str, str]
    texts: tuple[str, ...]
    label: tuple[str, ...]
    by_order: Mapping[int, tuple[list[int], list[int]]]
    most: int = 2  # texts of an example

    def named_by(self, row: Row) -> tuple[list[int], list[int]]:
        """The columns that a header names: those of the texts, and that of the label."""
        names = [re.sub(r"[\s_-]", "", each.lower()) for each in row]
        texts = ([i for i, name in enumerate(names) if re.fullmatch(kind, name)] for kind in self.texts)
        return next(filter(None, texts), []), [names.index(name) for name in self.label if name in names][:1]


@dataclass
class TaskFile:
    """A task file while it is read. most: lines and columns that it may have. chosen, has_header, separator: what a
    person says, see `load_task`. learned: the columns of the training part, as `Columns.names`. tokenizer: of the model
    that it is for. blanks: see `TaskData`."""

    text: str
    name: str
    labelled: bool
    most: int
    chosen: Sequence[str]
    has_header: bool | None
    separator: str | None
    learned: Sequence[str]
    tokenizer: Tokenizer | None
    notes: list[str]
    counts: Counter[str] = field(default_factory=Counter)  # of what is left out and changed, noted at the end
    blanks: list[int] = field(default_factory=list)
    columns: Columns | None = None  # that were read

    def wrong(self, line: int, problem: str, remedy: str) -> CorpusError:
        return CorpusError(f"Line {line} of {self.name} {problem}; {remedy}.")

    def _mark(self) -> str:
        """What stands between the columns, as a person says or the first line has it."""
        if self.separator:
            return SEPARATORS.get(self.separator, self.separator)
        first = next(filter(str.strip, self.text.split("\n")), "")
        # Without labels, a line may be a text with commas.
        is_table = self.labelled or self.name.lower().endswith(".csv")
        other = max(";,", key=first.count) if is_table else "\t"
        return next((mark for mark in ("_!_", "\t") if mark in first), other)

    def _fields(self, mark: str) -> Iterator[tuple[int, list[str]]]:
        """The number and the fields of each line. Only with commas and semicolons are they quoted, as CSV is."""
        if mark not in (",", ";"):
            for number, line in enumerate(self.text.removesuffix("\n").split("\n"), 1):
                yield number, [each for each in line.split(mark) if each or mark != " "]
            return
        reader, end = (
            csv.reader(io.StringIO(self.text, newline=""), delimiter=mark, skipinitialspace=True, strict=True),
            0,
        )
        try:
            for row in reader:
                yield end + 1, row
                end = reader.line_num
        except csv.Error as error:
            raise self.wrong(end + 1, f"is not CSV ({error})", "quote texts that hold commas or quotes") from None

    def rows(self) -> Rows:
        """All rows. One line in a thousand may have other columns than the first; it is empty here. Raises
        CorpusError for more of them, and for JSON."""
        if re.match(r'\s*\{\s*"', self.text):
            raise CorpusError(f"{self.name} is JSON; write its texts and labels in columns, with tabs between them.")
        mark = self._mark()
        if (items := self.text.count("\n") + self.text.count(mark)) > self.most:
            raise CorpusError(
                f"{self.name} has {items:,} lines and columns; the limit here is {self.most:,}. Use a part of it."
            )
        stripped = ((line, tuple(map(str.strip, fields))) for line, fields in self._fields(mark))
        rows = [(line, row if any(row) else ()) for line, row in stripped]
        width = next((len(row) for _, row in rows if row), 0)
        uneven = [(line, len(row)) for line, row in rows if len(row) not in (0, width)]
        if len(uneven) > len(rows) // _RARE:
            [line, other], *_ = uneven
            problem = f"has another number of columns ({other}) than the first line ({width})"
            raise self.wrong(line, problem, "give every line the same columns")
        self.counts["Lines left out because they have other columns than the first"] = len(uneven)
        return [(line, row if len(row) == width else ()) for line, row in rows]

    def table(self, usual: Usual) -> tuple[Columns, Rows]:
        """The columns to read, and the rows below a header. Raises ColumnsError where it is not clear which."""
        rows = self.rows()
        first = [row for _, row in rows if row][:_FIRST_ROWS] or [()]
        self.columns = found = self._columns(usual, first)
        rest = [i for i in range(len(first[0])) if i not in (*found.texts, *found.label)]
        titles, prefix = (
            ("Texts", "Label") if usual.most > 1 else ("Words", "Tags"),
            "" if found.is_named else "column ",
        )
        named = zip((*titles, "Left out"), map(found.names_of, (found.texts, found.label, rest)))
        notes = (f"{title}: {first_three(prefix + name for name in names)}." for title, names in named if names)
        self.notes.append(" ".join(notes))
        below = 1 + next(i for i, (_, row) in enumerate(rows) if row) if found.is_named else 0
        return found, rows[below:]

    def _columns(self, usual: Usual, first: Sequence[Row]) -> Columns:
        """The columns that a person has chosen, else those of the training part, those that a header names as usual, or
        those of the usual order."""
        names, width = first[0], len(first[0])
        wanted = 1 if usual.most == 1 else max(0, len(self.learned) - 1)  # texts of an example; 0 for any number
        texts, label = usual.named_by(names)
        is_usual, is_named = bool(texts and (label or not self.labelled)), self.has_header
        learned = self.learned if self.labelled else self.learned[:-1]
        fits = (int(each) <= width and not is_usual if each.isdecimal() else each in names for each in learned)
        chosen = self.chosen or (learned if all(fits) else ())
        if is_named is None:
            is_named = is_usual or any(each in names and not each.isdecimal() for each in chosen)
        if chosen:
            places = {str(i + 1): i for i in range(width)}
            places |= {name: i for i, name in enumerate(names) if is_named}
            if unknown := [quoted(each) for each in chosen if each not in places]:
                raise CorpusError(f"{self.name} has no column {unknown[0]}; its columns are: {', '.join(places)}.")
            texts = [places[each] for each in chosen]
            texts, label = (texts[:-1], texts[-1:]) if self.labelled else (texts, [])
        elif not (is_named and is_usual):
            is_half = self.has_header is None and (texts or label)  # of a header, which may be an example too
            is_alone = not self.labelled and width == (wanted or 1)
            by_order = usual.by_order if self.labelled or wanted else {}
            texts, label = ([], []) if is_half else ([*range(width)], []) if is_alone else by_order.get(width, ([], []))
        found = Columns(texts, label if self.labelled else [], is_named, first)
        count = wanted or len(texts)
        if 1 <= len(texts) == count <= usual.most and len({*texts, *found.label}) == count + self.labelled:
            return found
        what, numbers = " and ".join(usual.what[: 1 + self.labelled]), [str(i + 1) for i in range(width)]
        learned_from = f"The training examples are {NUMBERS_OF_TEXTS[wanted]}. " if wanted and usual.most > 1 else ""
        error = ColumnsError(f"It is not clear which columns of {self.name} are {what}. {learned_from}Choose them.")
        error.columns = found
        error.example = ",".join([*numbers[: wanted or 1], *numbers[-1:] * self.labelled])
        raise error
