"""Task files as rows of columns, and which columns are the texts and the label: the usual names of a header are known,
and what two or three columns without one are. Anything else is asked: see `ColumnsError`."""

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
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
    the first rows of the file. between: what stands between two columns, as a person would choose it."""

    texts: Sequence[int]
    label: Sequence[int]
    is_named: bool
    first: Sequence[Row]
    between: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The texts and the label as a person chooses them: by their names in the header, or by numbers from 1."""
        return tuple(self.first[0][i] if self.is_named else str(i + 1) for i in (*self.texts, *self.label))


class ColumnsError(CorpusError):
    """It is not known which columns are the texts and the label. columns: the first rows, and what is known."""

    columns: Columns


@dataclass(frozen=True)
class Usual:
    """How the files of a kind of task usually are. what: the texts and the label of an example in words. texts, label:
    their names in a header, in small letters without spaces, _ and -, those of the label with the likeliest first.
    by_order: of so many columns without a header, the texts and the label."""

    what: tuple[str, str]
    texts: str  # a pattern
    label: tuple[str, ...]
    by_order: Mapping[int, tuple[list[int], list[int]]]
    titles: tuple[str, str] = ("Texts", "Label")  # of the columns
    most: int = 2  # texts of an example

    def named_by(self, row: Row) -> tuple[list[int], list[int]]:
        """The columns that a header names: those of the texts, and that of the label."""
        names = [re.sub(r"[\s_-]", "", each.lower()) for each in row]
        texts = [i for i, name in enumerate(names) if re.fullmatch(self.texts, name)]
        return texts, [names.index(name) for name in self.label if name in names][:1]


@dataclass
class TaskFile:
    """A task file while it is read, see `load_task` and `TaskData`. most: lines and columns that it may have. learned:
    the columns of the training part, as `Columns.names`."""

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

    def rows(self) -> Rows:
        """All rows. One line in a thousand may have other columns than the first; it is empty here. Raises
        CorpusError for more of them, and for JSON."""
        if re.match(r'\s*\[?\s*\{\s*"', self.text):
            raise CorpusError(f"{self.name} is JSON; write its texts and labels in columns, with tabs between them.")
        mark = self._mark()
        if (items := self.text.count("\n") + self.text.count(mark)) > self.most:
            raise CorpusError(
                f"{self.name} has {items:,} lines and columns; the limit here is {self.most:,}. Use a part of it."
            )
        rows = self._split(mark)
        width = next((len(row) for _, row in rows if row), 0)
        uneven = [(line, len(row)) for line, row in rows if len(row) not in (0, width)]
        if len(uneven) > len(rows) // _RARE:
            [line, other], *_ = uneven
            problem = f"has another number of columns ({other}) than the first line ({width})"
            raise self.wrong(line, problem, "give every line the same columns")
        self.counts["Lines left out because they have other columns than the first"] = len(uneven)
        return [(line, row if len(row) == width else ()) for line, row in rows]

    def _mark(self) -> str:
        """What stands between the columns, as a person says or the first line has it."""
        if self.separator:
            return SEPARATORS.get(self.separator, self.separator)
        first = next(filter(str.strip, self.text.split("\n")), "")
        if "_!_" in first:
            return "_!_"
        # Without labels, a line may be a text with commas.
        is_table = self.labelled or self.name.lower().endswith(".csv")
        return max(";,", key=first.count) if is_table and "\t" not in first else "\t"

    def _split(self, mark: str) -> Rows:
        rows, end, between = list[tuple[int, Row]](), 0, mark if len(mark) == 1 else "\x1f"  # which no text has
        lines = io.StringIO(self.text.replace(mark, between), newline="")
        try:
            if mark in (",", ";"):
                reader = csv.reader(lines, delimiter=mark, skipinitialspace=True, strict=True)
            else:
                reader = csv.reader(lines, delimiter=between, quoting=csv.QUOTE_NONE)
            for fields in reader:
                row = tuple(each.strip() for each in fields if each or mark != " ")
                rows.append((end + 1, row if any(row) else ()))
                end = reader.line_num
        except (csv.Error, ValueError) as error:
            raise self.wrong(end + 1, f"is not CSV ({error})", "quote texts that hold commas or quotes") from None
        return rows

    def table(self, usual: Usual) -> tuple[Columns, Rows]:
        """The columns to read, and the rows below a header. Raises ColumnsError where it is not clear which."""
        rows = self.rows()
        first = [row for _, row in rows if row][:_FIRST_ROWS] or [()]
        self.columns = found = self._columns(usual, first)
        names = [name if found.is_named else f"column {i}" for i, name in enumerate(first[0], 1)]
        rest = [i for i in range(len(names)) if i not in (*found.texts, *found.label)]
        titles = zip((*usual.titles, "Left out"), (found.texts, found.label, rest))
        said = (f"{title}: {first_three(names[i] for i in columns)}." for title, columns in titles if columns)
        self.notes.append(" ".join(said))
        below = 1 + next(i for i, (_, row) in enumerate(rows) if row) if found.is_named else 0
        return found, rows[below:]

    def _columns(self, usual: Usual, first: Sequence[Row]) -> Columns:
        """The columns that a person has chosen, else those of the training part, those that a header names as usual, or
        those of the usual order."""
        names, numbers = first[0], [str(i) for i in range(1, len(first[0]) + 1)]
        wanted = 1 if usual.most == 1 else max(0, len(self.learned) - 1)  # texts of an example; 0 for any number
        texts, label = usual.named_by(names)
        is_usual, is_named = bool(texts and (label or not self.labelled)), self.has_header
        learned = {*(self.learned if self.labelled else self.learned[:-1])}
        fits = learned <= {*names} or (not is_usual and learned <= {*numbers})
        chosen = self.chosen or (self.learned[: len(learned)] if fits else ())
        if is_named is None:
            is_named = is_usual or any(each in names and each not in numbers for each in chosen)
        if chosen:
            places = {name: i for i, name in [*enumerate(numbers), *enumerate(names if is_named else ())]}
            if unknown := [quoted(each) for each in chosen if each not in places]:
                raise CorpusError(f"{self.name} has no column {unknown[0]}; its columns are: {', '.join(places)}.")
            texts = [places[each] for each in chosen]
            texts, label = (texts[:-1], texts[-1:]) if self.labelled else (texts, [])
        elif not self.labelled and not (is_named and is_usual) and len(names) == (wanted or 1):
            texts = [*range(len(names))]
        elif self.has_header is None and not is_usual and (texts or label):
            texts, label = [], []  # half of a header, which may be an example too
        elif not (is_named and is_usual):
            texts, label = usual.by_order.get(len(names) if self.labelled or wanted else 0, ([], []))
        between = {mark: name for name, mark in SEPARATORS.items()}.get(mark := self._mark(), mark)
        found = Columns(texts, label if self.labelled else [], is_named, first, between)
        count = wanted or len(texts)
        if 1 <= len(texts) == count <= usual.most and len({*texts, *found.label}) == count + self.labelled:
            return found
        what = " and ".join(usual.what[: 1 + self.labelled])
        about = f"The training examples are {NUMBERS_OF_TEXTS[wanted]}. " if self.learned and usual.most > 1 else ""
        error = ColumnsError(f"It is not clear which columns of {self.name} are {what}. {about}Choose them.")
        error.columns = found
        raise error
