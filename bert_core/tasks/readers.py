"""Reads the files in which tasks are published. The form is detected, and the notes say what was read; an error names
the line.

text-classification, text-regression: a text and its label, or two texts and their label, in columns separated by tabs,
commas or _!_, with or without a header, or as JSON objects, one on each line. multiple-choice: SWAG's csv, CODAH's tsv.
question-answering: SQuAD's JSON, versions 1.1 and 2. token-classification: a word a line, the tag in the last column,
a blank line between sentences (CoNLL).
"""

import csv
import io
import itertools
import json
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from bert_core.config import LOCAL, Limits
from bert_core.data.decoding import decoded_blocks, with_plain_line_ends, without_invisible
from bert_core.errors import CorpusError, checked, first_three, megabytes, quoted
from bert_core.storage.checkpoint import Checkpoint
from bert_core.storage.untrusted import parse_value
from bert_core.tasks.examples import AnswerExample, ChoiceExample, Example, TaggedExample, TaskData, TextExample
from bert_core.tasks.heads import learned_columns
from bert_core.tasks.metrics import marked

MAX_BYTES = 200 * 2**20
MAX_CHOICES = 26
_NEAR = 10_000  # characters in which a misplaced answer is searched, since each of many may need the whole context

_SEPARATOR = "_!_"
_BLANK = string.whitespace + "\ufeff\u200b\xa0"

# Names of columns in a header, in small letters and without spaces, _ and -.
_TEXT_NAMES = {"text", "sentence", "string", "question", "premise", "hypothesis", "query", "passage", "context"}
_TEXT_NAMES |= {"review", "reviewtext", "content", "body", "comment", "commenttext", "tweet", "message", "document"}
_TEXT_NAMES |= {"utterance", "sms", "textpair", "s1", "s2", "#1string", "#2string"}
_TEXT_NAMES |= {name + mark for name in ("text", "sentence", "string", "question", "premise") for mark in "12ab"}
# Read where none of those occurs.
_OTHER_TEXT_NAMES = {"title", "headline", "description", "abstract", "summary", "post", "answer", "response", "article"}
_CLASS_NAMES = (
    *("goldlabel", "label", "labels", "class", "category", "target", "sentiment", "intent", "isduplicate", "quality"),
    *("polarity", "emotion", "topic", "stance", "relation", "entailmentjudgment"),
)
_NUMBER_NAMES = ("score", "similarity", "similarityscore", "relatednessscore", "rating", "stars")
_ID_NAMES = {"", "id", "index", "idx", "guid", "uid", "#1id", "#2id", "pairid", "qid", "unnamed:0"}
# Labels that stand for none, as published files have them, unless they are as frequent as classes are.
_NO_LABELS = ("-1", "-")
# A name or number of a row, no text.
_ID = re.compile(r"(?=\D*\d)[\w.:#/-]{1,40}", re.ASCII)
_MOST_SHOWN = 20  # names of columns
_NEW_DOCUMENT = "-DOCSTART-"
_WORD_AND_TAG = "write a word first and its tag last in the same columns on every line"
_WANTED = dict.fromkeys(("text-classification", "text-regression"), "one or two texts and then the label")
_WANTED |= {"token-classification": "the word and then the tag"}


@dataclass
class _File:
    """A task file while it is read. columns: those asked for, and after reading those read; see `TaskData`.

    model: for which examples without labels are read. most: of lines and columns. separator: between several labels.
    """

    text: str
    name: str
    task: str
    labelled: bool
    columns: Sequence[str]
    model: Checkpoint | None
    separator: str | None
    most: int
    notes: list[str]
    blanks: list[int] = field(default_factory=list)

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

    def wrong(self, line: int, problem: str, remedy: str) -> CorpusError:
        """An error in a line."""
        return CorpusError(f"Line {line} of {self.name} {problem}; {remedy}.")

    def say(self, prefix: str, names: Sequence[str], **columns: Sequence[int]) -> None:
        """Note which columns were read as what, and which were not. prefix: of their names."""
        read = {i for each in columns.values() for i in each}
        said = columns | {"Left out": [i for i in range(len(names)) if i not in read]}
        listed = {what: _listed([prefix + names[i] for i in each]) for what, each in said.items()}
        self.notes.append(" ".join(f"{what}: {each}." for what, each in listed.items() if each))

    def check_columns(self, known: Sequence[str], *counts: int) -> None:
        """Raise CorpusError unless the chosen columns are among these. counts: of those chosen beside a label."""
        wanted = self.columns
        if missing := [each for each in wanted if each not in known]:
            raise CorpusError(f"{self.name} has no column {quoted(missing[0])}; its columns are: {_listed(known)}.")
        if len({*wanted}) != len(wanted) or len(wanted) - self.labelled not in counts:
            wants = _WANTED[self.task] if self.labelled else _WANTED[self.task].partition(" and then")[0]
            raise CorpusError(f"For {self.name}, choose {wants}; the chosen columns are: {_listed(wanted)}.")

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the model."""
        return self.model.head.labels if self.model and self.model.head else ()

    @property
    def learned(self) -> int:
        """The number of texts in each example that the model learned from, 0 if it is not known."""
        return max(0, len(learned_columns(self.model)) - 1)

    @property
    def learned_names(self) -> tuple[str, ...]:
        """The names of the columns that the model learned texts from, () if they had none."""
        names = learned_columns(self.model)[:-1]
        return () if all(each.isdecimal() for each in names) else names


@checked
def load_task(
    path: str | Path,
    task: str,
    *,
    labelled: bool = True,
    columns: str | Sequence[str] = (),
    model: Checkpoint | None = None,
    encoding: str | None = None,
    label_separator: str | None = None,
    limits: Limits = LOCAL,
) -> TaskData:
    """Read the examples of a task file.

    labelled: whether to read labels; without them, for `predict`. columns: the texts and then, with labels, the label,
    or the word and the tag: names of a header, or numbers from 1 where there is none, such as ("review", "sentiment")
    or "1,2". By default, a header's usual names, else the order. model: the fine-tuned model that examples without
    labels are for; it knows its columns and labels. encoding: of a file that is not UTF-8, see `decoded_blocks`.
    label_separator: what stands between the labels of a text that may have several; alone, it means none of them. None:
    each text has one label. Raises CorpusError, with the line or the question, if a part cannot be read, if it is not
    clear which columns to read, and for a file without examples or over the limits.
    """
    path = Path(path)
    if isinstance(columns, str):
        columns = next(csv.reader(columns.splitlines(), skipinitialspace=True), [])
    columns = [str(each).strip() for each in columns]
    if task not in _READERS:
        raise CorpusError(f"The task {quoted(task)} is unknown; it can be one of: {', '.join(TASKS)}.")
    if columns and task in ("multiple-choice", "question-answering"):
        raise CorpusError(f"A {task} file has columns of its own; leave out the choice of columns.")
    notes: list[str] = []
    try:
        if path.stat().st_size > (most := min(MAX_BYTES, limits.upload_bytes)):
            raise CorpusError(f"{path.name} has more than {megabytes(most)}; use a part of it.")
        with path.open("rb") as opened:
            text = "".join(map(with_plain_line_ends, decoded_blocks(opened, path.name, notes, encoding)))
    except OSError as error:
        raise CorpusError(f"{path.name} cannot be read ({error.strerror or error}).") from None
    # Not where the places of answers are counted in characters, or a word may be such a mark alone.
    if task not in ("question-answering", "token-classification"):
        text, invisible = without_invisible(text)
        notes += [f"Characters without width taken out of words: {invisible:,}."] if invisible else []
    separator = label_separator if task == "text-classification" else None
    file = _File(text, path.name, task, labelled, columns, model, separator, limits.items, notes)
    examples = _READERS[task](file)
    if not examples:
        raise CorpusError(f"{path.name} has no examples; a {task} file has {FORMS[task]}.")
    return TaskData(task, examples, path.name, tuple(notes), tuple(file.columns), tuple(file.blanks))


# --- Tables: lines of columns, comma-separated files, JSON lines ------------------------------------------------------


class _Table:
    """The rows of a file. line, first: the number and the fields of its first row; of JSON objects, the names."""

    def __init__(self, file: _File, separator: str | None = None) -> None:
        self.file = file
        self.line, line = next(((number, line) for number, line in file.lines() if line), (1, ""))
        self.separator = separator or _separator(line, file)
        self.is_json = self.separator == "{"
        file.count({"{": "\n,[{", ",": "\n,", ";": "\n;"}.get(self.separator, "\n\t"))
        self.first = list(self._object(line, self.line)) if self.is_json else []
        self.first = self.first or next((fields for _, fields in self._rows() if fields), [])

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Each row's first line, and its fields; none for an empty row. The table can be read again, a row at a time:
        while the garbage collector visits the lists of 100,000 rows, all threads wait."""
        for number, fields in self._rows():
            if fields and len(fields) != len(self.first):
                problem = f"has {len(fields)} columns where the first line has {len(self.first)}"
                raise self.file.wrong(number, problem, "give every line the same columns")
            yield number, fields

    def values(self, column: int, is_named: bool) -> Counter[str]:
        """How often a column has each value. is_named: whether the first row is a header."""
        rows = (fields for _, fields in self.rows() if fields and not (is_named and fields == self.first))
        return Counter(fields[column] for fields in rows)

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        if self.is_json:
            for number, line in self.file.lines():
                content = self._object(line, number) if line else {}
                yield number, [self._field(content.get(name)) for name in self.first] if content else []
        elif self.separator in (",", ";"):
            yield from self._csv()
        else:
            for number, line in self.file.lines():
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
            raise self.file.wrong(reader.line_num, f"is not CSV ({error})", remedy) from None

    def _object(self, line: str, number: int) -> dict[str, Any]:
        try:
            content = parse_value(line, self.file.most)
        except ValueError as error:
            raise self.file.wrong(number, f"is not JSON ({error})", "write an object on each line") from None
        if not isinstance(content, dict):
            raise self.file.wrong(number, "is not a JSON object", "write one on each line")
        return content

    def _field(self, value: Any) -> str:
        if isinstance(value, list) and self.file.separator and all(isinstance(each, str) for each in value):
            return self.file.separator.join(value) or self.file.separator
        return value.strip() if isinstance(value, str) else "" if value is None else json.dumps(value)


def _separator(line: str, file: _File) -> str:
    """What stands between the columns of a file with this first line; { for JSON lines."""
    if re.match(r'\[?\s*\{\s*"', line) or line.strip() == "[":
        return "{"
    if found := next((each for each in (_SEPARATOR, "\t") if each in line), None):
        return found
    comma = max(",;", key=line.count)
    names = [_plain(each) for each in line.replace('"', "").split(comma)]
    is_csv = file.labelled or file.name.lower().endswith(".csv") or (len(names) > 1 and _TEXT_NAMES & {*names})
    return comma if is_csv else "\t"


def _plain(name: str) -> str:
    """The name of a column as the lists of known names have it."""
    return re.sub(r"[\s_-]", "", name.strip(_BLANK).lower())


def _listed(names: Sequence[str], between: str = ", ") -> str:
    """The names of columns in a sentence: the first ones, if there are many."""
    more = [f"and {len(names) - _MOST_SHOWN:,} more"] if len(names) > _MOST_SHOWN else []
    return between.join([*(quoted(name)[1:-1] or "''" for name in names[:_MOST_SHOWN]), *more])


# --- Texts and pairs with a label ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """Which columns of a table are the texts and the label, and whether its first row is a header."""

    texts: list[int]
    label: int | None
    is_named: bool


def _texts(file: _File) -> list[Example]:
    table = _Table(file)
    if not table.first:
        return []
    columns = _chosen(table) if file.columns else _found(table)
    label = [] if columns.label is None else [columns.label]
    names = table.first if columns.is_named else [str(i) for i in range(1, len(table.first) + 1)]
    file.say("" if columns.is_named else "column ", names, Texts=columns.texts, Label=label)
    file.columns = [names[i] for i in (*columns.texts, *label)]
    none = _no_labels(table.values(label[0], columns.is_named), file.task) if label else set()
    counts: Counter[str] = Counter()
    examples: list[Example] = []
    for number, fields in table.rows():
        is_header = columns.is_named and fields == table.first
        counts["header"] += is_header
        if is_header and counts["header"] == 1:
            file.blanks.clear()
        elif is_header or not fields:
            file.blanks.append(len(examples) + len(file.blanks))
        elif label and fields[label[0]] in none:
            counts[quoted(fields[label[0]]) if fields[label[0]] else "empty"] += 1
        else:
            texts = [fields[column] for column in columns.texts]
            if not all(texts):
                raise file.wrong(number, "has an empty text", "fill it in or take the line out")
            value = _label(fields[label[0]], file, number) if label else None
            examples.append(TextExample(texts[0], texts[1] if len(texts) == 2 else None, value, number))
    if (repeated := counts.pop("header", 0) - 1) > 0:
        file.notes.append(f"Repeated headers left out: {repeated:,}.")
    file.notes += [f"Examples left out because their label is {what}: {count:,}." for what, count in counts.items()]
    if counts and not examples:
        raise CorpusError(f"No example of {file.name} has a label; add labels, or use it without them in predict.")
    return examples


def _chosen(table: _Table) -> _Columns:
    """The columns that a person asked for."""
    file, is_named = table.file, table.is_json or not all(each.isdecimal() for each in table.file.columns)
    known = table.first if is_named else [str(i) for i in range(1, len(table.first) + 1)]
    file.check_columns(known, 1, 2)
    found = [known.index(each) for each in file.columns]
    texts = found[:-1] if file.labelled else found
    return _fitting(table, _Columns(texts, found[-1] if file.labelled else None, is_named))


def _found(table: _Table) -> _Columns:
    """The columns by the names of a header, else by their order. Raises CorpusError where neither is clear."""
    file, first = table.file, table.first
    if file.labelled and len(first) == 1:
        wanted = f"write a text, or two texts, and a label in columns separated by tabs, commas or {_SEPARATOR}"
        raise file.wrong(table.line, "has 1 column", wanted)
    named = _by_name(table)
    if not table.is_json and not _is_header(table, named):
        return _fitting(table, _by_order(table))
    if named is None:
        _refuse(table, f"names the columns {_listed(first)}", first)
    return _fitting(table, named)


def _fitting(table: _Table, columns: _Columns) -> _Columns:
    """The columns, if they are as many as the model learned from that they are for. Raises CorpusError."""
    texts, learned = len(columns.texts), table.file.learned
    if texts not in (1, 2) or (learned and texts != learned):
        known = {1: "; the model learned from single texts", 2: "; the model learned from pairs of texts"}
        _refuse(table, f"has {texts} columns of texts{known.get(learned, '')}", [])
    return columns


def _refuse(table: _Table, problem: str, names: Sequence[str]) -> NoReturn:
    """Ask for the columns. names: of a header, if there may be one."""
    file, example = table.file, [*names[:1], *names[-1:]] if names else ["1", "2"]
    what = "the texts and then the label" if file.labelled else "the texts"
    chosen = _listed(example[: file.labelled + max(1, file.learned)], ",")
    raise file.wrong(table.line, problem, f"choose {what}, for example --columns {chosen}")


def _by_name(table: _Table) -> _Columns | None:
    """The columns that the first row names, if that is clear."""
    file, names = table.file, [_plain(each) for each in table.first]
    if file.learned_names and set(file.learned_names) <= {*table.first}:
        return _Columns([table.first.index(each) for each in file.learned_names], None, True)
    known = _TEXT_NAMES if _TEXT_NAMES & {*names} else _OTHER_TEXT_NAMES
    texts = [i for i, name in enumerate(names) if name in known]
    usual = _NUMBER_NAMES + _CLASS_NAMES if file.task == "text-regression" else _CLASS_NAMES + _NUMBER_NAMES
    label = next((names.index(name) for name in usual if name in names), None)
    rest = [i for i, name in enumerate(names) if i not in (*texts, label) and name not in _ID_NAMES]
    if len(rest) == 1 and not texts and (label is not None or not file.labelled):
        texts = rest
    elif len(rest) == 1 and label is None and texts and texts[0] < rest[0]:
        label = rest[0]
    if not 1 <= len(texts) <= 2 or (file.labelled and label is None):
        return None
    return _Columns(texts, label if file.labelled else None, True)


def _is_header(table: _Table, named: _Columns | None) -> bool:
    """Whether the first row names the columns. Raises CorpusError for one that may also be an example."""
    file, first = table.file, table.first
    known = _TEXT_NAMES | _OTHER_TEXT_NAMES if len(first) > 1 else _TEXT_NAMES
    named_texts = [i for i, name in enumerate(first) if _plain(name) in known]
    has_name = any(first[i] not in table.values(i, is_named=True) for i in named_texts)
    if not file.labelled:
        is_learned = bool(file.learned_names) and set(file.learned_names) <= {*first}
        return has_name or is_learned or _label_column(table, True) != _label_column(table, False)
    column = named.label if named and named.label is not None and has_name else len(first) - 1
    label, others = first[column], table.values(column, is_named=has_name)
    if not has_name:
        others = others - Counter([label])
    if not _several(label, file) or _number(label) is not None or (len(first) > 3 and not has_name):
        return False
    if not others or file.task == "text-regression":
        return has_name or bool(others)
    is_alone = {*_several(label, file)}.isdisjoint(each for other in others for each in _several(other, file))
    if is_alone != has_name:
        which = "which no other line has" if is_alone else "which other lines have, and the name of a column"
        problem = f"has the label {quoted(label)}, {which}, so it may be a header or an example"
        numbers = ",".join(str(i) for i in range(1, len(first) + 1))
        raise file.wrong(
            table.line, problem, f"choose --columns {_listed(first, ',')} for a header, or --columns {numbers}"
        )
    return has_name


def _by_order(table: _Table) -> _Columns:
    """One or two texts and then the label, without a header. Raises CorpusError if that is doubtful."""
    file, width = table.file, len(table.first)
    texts = list(range(width - file.labelled))
    if not file.labelled:
        if (label := _label_column(table, False)) is not None:
            texts.remove(label)
        return _Columns(texts, None, False)
    rows = {tuple(fields) for _, fields in table.rows() if fields} if len(texts) <= 2 else set()
    kinds = [Counter(values) for values in zip(*rows)]
    # A column with as few values as the label has is a label, or its name.
    is_few = [1 < len(each) <= len(kinds[-1]) and max(each.values()) > 1 for each in kinds[:-1]]
    is_id = [len(texts) == 2 and all(map(_ID.fullmatch, each)) for each in kinds[:-1]]
    if not kinds or any(is_id) or (any(is_few) and file.task == "text-classification"):
        few = first_three(f"{i} {quoted(each)}" for i, each in enumerate(table.first, 1))
        _refuse(table, f"has {width} columns ({few}), which are not clearly texts and then a label", [])
    return _Columns(texts, width - 1, False)


def _label_column(table: _Table, is_named: bool) -> int | None:
    """Of one more column than the model learned texts from, the last one with nothing but its labels, or numbers."""
    labels, model, width = table.file.labels, table.file.model, len(table.first)
    for i in reversed(range(width)) if model and width in {2, 3} - {table.file.learned} else ():
        values = table.values(i, is_named)
        if values and all(each in labels if labels else _number(each) is not None for each in values):
            return i
    return None


def _no_labels(counts: Counter[str], task: str) -> set[str]:
    """Those labels of a file that stand for none."""
    others = counts.keys() - {"", *_NO_LABELS}
    none = {""} if task == "text-regression" else {"", *_NO_LABELS}
    if "+" in others:
        none.discard("-")
    # A scale, such as -1, 0 and 1, has negative numbers too.
    rarest = min((counts[each] for each in others), default=math.inf)
    is_class = others <= {"0", "1", "+1"} and 2 * counts["-1"] > max(2, rarest)
    if is_class or any(_number(each) is not None and each.startswith("-") for each in others):
        none.discard("-1")
    return none


def _label(value: str, file: _File, line: int) -> str | tuple[str, ...] | float:
    if file.task == "text-regression":
        if (number := _number(value)) is None or not math.isfinite(number):
            raise file.wrong(line, f"has the label {quoted(value)}", "text-regression needs a number for a label")
        return number
    return _several(value, file) if file.separator else value


def _several(label: str, file: _File) -> tuple[str, ...]:
    """All labels that a label names, each once."""
    names = label.split(file.separator) if file.separator else [label]
    return tuple(dict.fromkeys(filter(None, (name.strip() for name in names))))


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


# --- Multiple choice -------------------------------------------------------------------------------------------------


def _choices(file: _File) -> list[Example]:
    first = next((line for _, line in file.lines() if line), "")
    return _swag(file) if "ending0" in first else _codah(file)


def _swag(file: _File) -> list[Example]:
    table = _Table(file, ",")
    header = table.first
    endings = [i for i, column in enumerate(header) if column.startswith("ending")]
    needed = ["sent1", "sent2", *(["label"] if file.labelled else [])]
    if missing := [column for column in needed if column not in header]:
        raise CorpusError(
            f"{file.name} has no column {missing[0]!r}; SWAG's csv has sent1, sent2, ending0, ... and label."
        )
    at = {column: header.index(column) for column in needed}
    examples: list[Example] = []
    for number, row in table.rows():
        if row == header:
            file.blanks.clear()
        elif not row:
            file.blanks.append(len(examples) + len(file.blanks))
        else:
            choices = tuple(f"{row[at['sent2']]} {row[i]}".strip() for i in endings)
            label = _choice(row[at["label"]], len(choices), file, number) if file.labelled else None
            examples.append(ChoiceExample(row[at["sent1"]], choices, label, number))
    file.say("", header, Texts=[at["sent1"], at["sent2"], *endings], Label=[at[each] for each in needed[2:]])
    return _checked_choices(examples, file)


def _codah(file: _File) -> list[Example]:
    file.count("\n\t")
    # Of a file with labels that is read without them, the labels are no choices.
    has_labels = file.labelled or all(line.split("\t")[-1].strip().isdecimal() for _, line in file.lines() if line)
    if has_labels and not file.labelled:
        file.notes.append("Left out: the last column, which has the labels.")
    examples: list[Example] = []
    for number, line in file.lines():
        if not line:
            file.blanks.append(len(examples) + len(file.blanks))
            continue
        fields = [field.strip() for field in line.split("\t")]
        end = len(fields) - has_labels
        if end < 4:
            wanted = "write a category, a prompt, the endings and the index of the right one"
            raise file.wrong(number, f"has {len(fields)} columns", wanted)
        label = _choice(fields[-1], end - 2, file, number) if file.labelled else None
        examples.append(ChoiceExample(fields[1], tuple(fields[2:end]), label, number))
    return _checked_choices(examples, file)


def _choice(field: str, count: int, file: _File, line: int) -> int:
    if not (field.isdecimal() and int(field[:9]) < count):
        raise file.wrong(line, f"has the label {quoted(field)}", f"it must be from 0 to {count - 1}")
    return int(field)


def _checked_choices(examples: list[Example], file: _File) -> list[Example]:
    for example in examples:
        assert isinstance(example, ChoiceExample)
        first = examples[0]
        assert isinstance(first, ChoiceExample)
        if len(example.choices) != len(first.choices) or not 2 <= len(example.choices) <= MAX_CHOICES:
            problem = f"has {len(example.choices)} choices"
            remedy = f"all examples need the same number, from 2 to {MAX_CHOICES}"
            raise file.wrong(example.line, problem, remedy)
        if not example.text or not all(example.choices):
            raise file.wrong(example.line, "has an empty text", "fill it in or take the line out")
    return examples


# --- Answers ---------------------------------------------------------------------------------------------------------


def _answers(file: _File) -> list[Example]:
    text, name, notes = file.text, file.name, file.notes
    try:
        content = parse_value(text, file.most)
    except ValueError as error:
        line = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise CorpusError(f"{name} is not JSON ({line}); save it in SQuAD's format.") from None
    examples: list[Example] = []
    impossible = moved = 0
    for number, (context, entry) in enumerate(_questions(content, name)):
        question = entry["question"].strip()

        def wrong(problem: str, remedy: str, number: int = number, entry: dict[str, Any] = entry) -> CorpusError:
            asked = f"has the question {quoted(entry.get('id', entry['question']))}{problem}"
            return file.wrong(_line_of_question(text, number), asked, remedy)

        if not question or not context or context.isspace():
            raise wrong(" with an empty text", "fill it in or take it out")
        if not file.labelled:
            examples.append(AnswerExample(question, context, None, str(entry.get("id", ""))))
            continue
        answers = []
        given = [] if entry.get("is_impossible") is True else entry.get("answers")
        if not isinstance(given, list):
            raise wrong(" without a list of answers", "add one, or is_impossible")
        for answer in given:
            start, words = (
                (answer.get("answer_start"), answer.get("text")) if isinstance(answer, dict) else (None, None)
            )
            if not isinstance(words, str) or not words.strip() or isinstance(start, bool) or not isinstance(start, int):
                raise wrong(" with an answer without a text and an answer_start", "add them")
            if context[max(0, start) : max(0, start) + len(words)] != words:
                nearest = _nearest(context, words, start)
                if nearest is None:
                    raise wrong(f", whose answer {quoted(words)} is not in its context", "correct it")
                start, moved = nearest, moved + 1
            answers.append((words, start))
        impossible += not answers
        examples.append(AnswerExample(question, context, tuple(answers), str(entry.get("id", ""))))
    if impossible:
        notes.append(f"Questions without an answer in their context: {impossible:,}.")
    if moved:
        notes.append(f"Answers whose answer_start was wrong, now at the nearest occurrence: {moved:,}.")
    return examples


def _questions(content: Any, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each question with its context, once its types are checked."""

    def listed(value: Any, key: str) -> list[dict[str, Any]]:
        entries = value.get(key) if isinstance(value, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise CorpusError(f"{name} lacks a list {key!r}; SQuAD's format is data, paragraphs, qas.")
        return entries

    for article in listed(content, "data"):
        for paragraph in listed(article, "paragraphs"):
            for entry in listed(paragraph, "qas"):
                if not isinstance(paragraph.get("context"), str) or not isinstance(entry.get("question"), str):
                    raise CorpusError(f"{name} has a paragraph without a context or a question; add them as texts.")
                yield paragraph["context"], entry


def _line_of_question(text: str, number: int) -> int:
    """The line in which a question stands. number: from 0."""
    keys = re.finditer(r'(?<!\\)"question"\s*:', text)
    found = next(itertools.islice(keys, number, None), None)  # None: a letter of the key is written as \\u0071
    return 1 + text.count("\n", 0, found.start() if found else 0)


def _nearest(context: str, words: str, start: int) -> int | None:
    """The occurrence of an answer that is nearest to `start`, among those up to 10,000 characters from it."""
    start = min(max(0, start), len(context))
    first, last = max(0, start - _NEAR), start + _NEAR + len(words)
    before, after = context.rfind(words, first, start + len(words)), context.find(words, start, last)
    found = [position for position in (before, after) if position >= 0]
    return min(found, key=lambda position: abs(position - start), default=None)


# --- Tagged words ----------------------------------------------------------------------------------------------------


def _tagged(file: _File) -> list[Example]:
    file.count("\n\t")
    lines = ((number, line) for number, line in file.lines() if line and not line.startswith(_NEW_DOCUMENT))
    first_line, first = next(lines, (1, ""))
    if not first:
        return []
    width = len(_fields(first))
    if not file.labelled and not file.columns and _has_sentences(file, first):
        return _sentences(file)
    if file.labelled and width == 1:
        raise file.wrong(first_line, "has 1 columns", _WORD_AND_TAG)
    known = [str(i) for i in range(1, width + 1)]
    if file.columns:
        file.check_columns(known, 1)
        chosen = file.columns
    else:
        learned = [each for each in learned_columns(file.model)[:1] if each in known]
        chosen = [*(learned or known[:1]), *(known[-1:] if file.labelled else [])]
    word, tag = known.index(chosen[0]), known.index(chosen[1]) if file.labelled else None
    file.say("column ", known, Words=[word], Tags=[] if tag is None else [tag])
    file.columns = chosen
    examples: list[Example] = []
    words: list[str] = []
    tags: list[str] = []
    start = 0
    for number, line in (*file.lines(), (0, "")):
        if line and not line.startswith(_NEW_DOCUMENT):
            fields = _fields(line)
            if len(fields) != width:
                raise file.wrong(number, f"has {len(fields)} columns where the first has {width}", _WORD_AND_TAG)
            start = start or number
            words.append(fields[word])
            if tag is not None:
                tags.append(_tag(fields[tag], tags[-1] if tags else "O", file, number))
        elif words:
            examples.append(TaggedExample(tuple(words), None if tag is None else tuple(tags), start))
            words, tags, start = [], [], 0
    return examples


def _fields(line: str) -> list[str]:
    """The columns of a line, or the words of a sentence. White space but spaces and tabs belongs to a word."""
    if "\t" in line:
        return [each.strip(" ") for each in line.split("\t")]
    return [each for each in line.split(" ") if each]


def _has_sentences(file: _File, first: str) -> bool:
    """Whether lines without labels are sentences, and not words with columns, of which the last is one of tags."""

    def is_tag(word: str) -> bool:
        return word in file.labels or word == "O" or ("-" in word and marked(word)[0] != "")

    lines = [line for _, line in file.lines() if line]
    is_long = any(len(_fields(line)) > 1 for line in lines)
    return "\t" not in first and is_long and not all(is_tag(_fields(line)[-1]) for line in lines)


def _sentences(file: _File) -> list[Example]:
    file.notes.append("Each line was read as a sentence, with its words between spaces.")
    examples: list[Example] = []
    for number, line in file.lines():
        if line:
            examples.append(TaggedExample(tuple(_fields(line)), None, number))
        else:
            file.blanks.append(len(examples) + len(file.blanks))
    return examples


def _tag(tag: str, before: str, file: _File, line: int) -> str:
    """A tag in IOB2; in IOB1, an entity begins with I- unless it follows another one of its type."""
    if not tag:
        raise file.wrong(line, "has an empty tag", "a tag is O, a type, or B- or I- and the type of the entity")
    mark, kind = marked(tag)
    return f"B-{kind}" if mark == "I" and kind and marked(before)[1] != kind else tag


_READERS: dict[str, Callable[[_File], list[Example]]] = {
    "text-classification": _texts,
    "text-regression": _texts,
    "multiple-choice": _choices,
    "question-answering": _answers,
    "token-classification": _tagged,
}
FORMS = {
    "text-classification": "a text and a label on each line, between tabs or commas",
    "text-regression": "one or two texts and a number on each line",
    "multiple-choice": "SWAG's csv columns or CODAH's tsv columns",
    "question-answering": "SQuAD's JSON",
    "token-classification": "a word and a tag on each line",
}
TASKS = tuple(_READERS)
