"""Reads the files in which tasks are published. The form is detected; an error names the line.

text-classification, text-regression: a text and its label, or two texts and their label, in columns separated by tabs
or by _!_, with or without a header; also the five columns of MRPC. multiple-choice: SWAG's csv, CODAH's tsv.
question-answering: SQuAD's JSON, versions 1.1 and 2. token-classification: a word a line, the tag in the last column,
a blank line between sentences (CoNLL).
"""

import csv
import dataclasses
import io
import itertools
import json
import math
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from bert_core.config import LOCAL, Limits
from bert_core.data.decoding import decoded_blocks
from bert_core.errors import CorpusError, checked, megabytes, quoted
from bert_core.finetuning.examples import AnswerExample, ChoiceExample, Example, TaggedExample, TaskData, TextExample
from bert_core.storage.untrusted import parse_value

MAX_BYTES = 200 * 2**20
MAX_CHOICES = 26
_NEAR = 10_000  # characters in which a misplaced answer is searched, since each of many may need the whole context

_SEPARATOR = "_!_"
_BLANK = string.whitespace + "\ufeff\u200b\xa0"
# Names of the label's column in a header.
_LABEL_NAMES = {"label", "labels", "score", "quality", "similarity", "class", "category", "target", "gold_label"}
# Names of columns that are neither a text nor a label.
_ID_NAMES = {"", "id", "index", "idx", "guid", "#1 id", "#2 id", "pair_id", "pairid"}

Lines = list[tuple[int, str]]  # numbers from 1, and the text of lines that are not blank


@checked
def load_task(
    path: str | Path,
    task: str,
    *,
    labelled: bool = True,
    encoding: str | None = None,
    label_separator: str | None = None,
    limits: Limits = LOCAL,
) -> TaskData:
    """Read the examples of a task file.

    labelled: whether it has labels; without them, for `predict`, the same form has no label column. encoding: of a file
    that is not UTF-8, see `decoded_blocks`. label_separator: what stands between the labels of a text that may have
    several; alone, it means none of them. None: each text has one label. Raises CorpusError, with the line or the
    question, if a part cannot be read, and for a file without examples or over the limits.
    """
    path = Path(path)
    if task not in _READERS:
        raise CorpusError(f"The task {quoted(task)} is unknown; it can be one of: {', '.join(TASKS)}.")
    notes: list[str] = []
    try:
        if path.stat().st_size > (most := min(MAX_BYTES, limits.upload_bytes)):
            raise CorpusError(f"{path.name} has more than {megabytes(most)}; use a part of it.")
        with path.open("rb") as file:
            text = "".join(decoded_blocks(file, path.name, notes, encoding))
    except OSError as error:
        raise CorpusError(f"{path.name} cannot be read ({error.strerror or error}).") from None
    examples = _READERS[task](text, path.name, labelled, notes, limits.items)
    if not examples:
        raise CorpusError(f"{path.name} has no examples; a {task} file has {FORMS[task]}.")
    if label_separator and labelled and task == "text-classification":
        examples = [_several(cast(TextExample, example), label_separator) for example in examples]
    return TaskData(task, examples, path.name, tuple(notes))


def _several(example: TextExample, separator: str) -> TextExample:
    """The example with all labels that its label names, each once."""
    names = [name.strip() for name in str(example.label).split(separator)]
    return dataclasses.replace(example, label=tuple(dict.fromkeys(filter(None, names))))


def _all_lines(text: str) -> Iterator[tuple[int, str]]:
    """Every line with its number; one of white space and byte order marks alone is empty."""
    for number, line in enumerate(text.split("\n"), 1):
        yield number, line.rstrip("\r") if line.strip(_BLANK) else ""


def _lines(text: str) -> Lines:
    return [(number, line) for number, line in _all_lines(text) if line]


def _count(text: str, name: str, marks: str, most: int) -> None:
    """Raise CorpusError if a text has more than `most` of the marks that end a line or a column."""
    items = sum(map(text.count, marks))
    if items > most:
        raise CorpusError(f"{name} has {items:,} lines and columns; the limit here is {most:,}. Use a part of it.")


def _wrong(name: str, line: int, problem: str, remedy: str) -> CorpusError:
    return CorpusError(f"Line {line} of {name} {problem}; {remedy}.")


# --- Texts and pairs with a label ------------------------------------------------------------------------------------


def _texts(text: str, name: str, labelled: bool, notes: list[str], most: int, numbers: bool = False) -> list[Example]:
    _count(text, name, "\n\t", most)
    lines = _lines(text)
    separator = _SEPARATOR if lines and _SEPARATOR in lines[0][1] else "\t"
    if not lines:
        return []

    def fields_of(line: str) -> list[str]:
        return [field.strip() for field in line.split(separator)]

    first_line, first = lines[0][0], fields_of(lines[0][1])
    width = len(first)
    header = _header(first, labelled)
    if header:
        columns, label_column = header
        lines = lines[1:]
    else:
        label_column = width - 1 if labelled else None
        columns = [i for i in range(width) if i != label_column]
    if not 1 <= len(columns) <= 2:
        has = f"has {width} {'column' if width == 1 else 'columns'}"
        wanted = "a text, or two texts," + (" and a label" if labelled else "")
        raise _wrong(name, first_line, has, f"write {wanted} in columns separated by tabs or {_SEPARATOR}")
    examples: list[Example] = []
    for number, line in lines:
        # One row at a time: while the garbage collector visits the lists of 100,000 rows, all threads wait.
        fields = fields_of(line)
        if len(fields) != width:
            problem = f"has {len(fields)} columns where the first line has {width}"
            raise _wrong(name, number, problem, "give every line the same columns")
        texts = [fields[column] for column in columns]
        if not all(texts):
            raise _wrong(name, number, "has an empty text", "fill it in or take the line out")
        label = None if label_column is None else _label(fields[label_column], numbers, name, number)
        examples.append(TextExample(texts[0], texts[1] if len(texts) == 2 else None, label, number))
    return examples


def _header(fields: list[str], labelled: bool) -> tuple[list[int], int | None] | None:
    """The columns of the texts and of the label, if these fields of the first line name them."""
    names = [field.strip().lower() for field in fields]
    labels = [i for i, each in enumerate(names) if each in _LABEL_NAMES]
    known = {"text", "sentence", "sentence1", "sentence2", "premise", "hypothesis", "question1", "question2"}
    if not labels and (labelled or not known & set(names)):
        return None
    texts = [i for i, each in enumerate(names) if each not in _ID_NAMES and i not in labels]
    return texts, labels[-1] if labels and labelled else None


def _label(field: str, numbers: bool, name: str, line: int) -> str | float:
    if not field:
        raise _wrong(name, line, "has an empty label", "fill it in or take the line out")
    if not numbers:
        return field
    try:
        value = float(field)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _wrong(name, line, f"has the label {quoted(field)}", "text-regression needs a number in the last column")
    return value


def _numbered_texts(text: str, name: str, labelled: bool, notes: list[str], most: int) -> list[Example]:
    return _texts(text, name, labelled, notes, most, numbers=True)


# --- Multiple choice -------------------------------------------------------------------------------------------------


def _choices(text: str, name: str, labelled: bool, notes: list[str], most: int) -> list[Example]:
    _count(text, name, "\n\t,", most)
    is_swag = "ending0" in text.lstrip(_BLANK).partition("\n")[0]
    return (_swag if is_swag else _codah)(text, name, labelled)


def _swag(text: str, name: str, labelled: bool) -> list[Example]:
    reader = csv.reader(io.StringIO(text.lstrip(_BLANK), newline=""))
    try:
        rows = [(reader.line_num, row) for row in reader if any(row)]
    except csv.Error as error:
        raise _wrong(name, reader.line_num, f"is not CSV ({error})", "quote texts that hold commas or quotes") from None
    header, rows = rows[0][1], rows[1:]
    endings = [i for i, column in enumerate(header) if column.startswith("ending")]
    needed = ["sent1", "sent2", *(["label"] if labelled else [])]
    if missing := [column for column in needed if column not in header]:
        raise CorpusError(f"{name} has no column {missing[0]!r}; SWAG's csv has sent1, sent2, ending0, ... and label.")
    at = {column: header.index(column) for column in needed}
    examples: list[Example] = []
    for number, row in rows:
        if len(row) != len(header):
            problem = f"has {len(row)} columns where the header has {len(header)}"
            raise _wrong(name, number, problem, "give every line the same columns")
        choices = tuple(f"{row[at['sent2']]} {row[i]}".strip() for i in endings)
        label = _choice(row[at["label"]], len(choices), name, number) if labelled else None
        examples.append(ChoiceExample(row[at["sent1"]].strip(), choices, label, number))
    return _checked_choices(examples, name)


def _codah(text: str, name: str, labelled: bool) -> list[Example]:
    examples: list[Example] = []
    for number, line in _lines(text):
        fields = [field.strip() for field in line.split("\t")]
        end = len(fields) - 1 if labelled else len(fields)
        if end < 4:
            problem = f"has {len(fields)} columns"
            raise _wrong(
                name, number, problem, "write a category, a prompt, the endings and the index of the right one"
            )
        choices = tuple(fields[2:end])
        label = _choice(fields[-1], len(choices), name, number) if labelled else None
        examples.append(ChoiceExample(fields[1], choices, label, number))
    return _checked_choices(examples, name)


def _choice(field: str, count: int, name: str, line: int) -> int:
    if not (field.isdecimal() and int(field[:9]) < count):
        raise _wrong(name, line, f"has the label {quoted(field)}", f"it must be from 0 to {count - 1}")
    return int(field)


def _checked_choices(examples: list[Example], name: str) -> list[Example]:
    for example in examples:
        assert isinstance(example, ChoiceExample)
        first = examples[0]
        assert isinstance(first, ChoiceExample)
        if len(example.choices) != len(first.choices) or not 2 <= len(example.choices) <= MAX_CHOICES:
            problem = f"has {len(example.choices)} choices"
            remedy = f"all examples need the same number, from 2 to {MAX_CHOICES}"
            raise _wrong(name, example.line, problem, remedy)
        if not example.text or not all(example.choices):
            raise _wrong(name, example.line, "has an empty text", "fill it in or take the line out")
    return examples


# --- Answers ---------------------------------------------------------------------------------------------------------


def _answers(text: str, name: str, labelled: bool, notes: list[str], most: int) -> list[Example]:
    try:
        content = parse_value(text, most)
    except ValueError as error:
        line = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise CorpusError(f"{name} is not JSON ({line}); save it in SQuAD's format.") from None
    examples: list[Example] = []
    impossible = moved = 0
    for number, (context, entry) in enumerate(_questions(content, name)):
        question = entry["question"].strip()

        def wrong(problem: str, remedy: str, number: int = number, entry: dict[str, Any] = entry) -> CorpusError:
            asked = f"has the question {quoted(entry.get('id', entry['question']))}{problem}"
            return _wrong(name, _line_of_question(text, number), asked, remedy)

        if not question or not context or context.isspace():
            raise wrong(" with an empty text", "fill it in or take it out")
        if not labelled:
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


def _tagged(text: str, name: str, labelled: bool, notes: list[str], most: int) -> list[Example]:
    _count(text, name, "\n\t", most)
    examples: list[Example] = []
    words: list[str] = []
    tags: list[str] = []
    start = width = 0
    for number, line in _all_lines(f"{text}\n"):
        fields = line.split("\t") if "\t" in line else line.split()
        if fields and fields[0] != "-DOCSTART-":
            if not width:
                width = len(fields)
            if len(fields) != width or width < 1 + labelled:
                problem = f"has {len(fields)} columns" + (
                    f" where the first has {width}" if width != len(fields) else ""
                )
                raise _wrong(
                    name, number, problem, "write a word first and its tag last in the same columns on every line"
                )
            start = start or number
            words.append(fields[0].strip())
            if labelled:
                tags.append(_tag(fields[-1].strip(), tags[-1] if tags else "O", name, number))
        elif words:
            examples.append(TaggedExample(tuple(words), tuple(tags) if labelled else None, start))
            words, tags, start = [], [], 0
    return examples


def _tag(tag: str, before: str, name: str, line: int) -> str:
    """A tag in IOB2; in IOB1, an entity begins with I- unless it follows another one of its type."""
    mark, dash, kind = tag.partition("-")
    if tag != "O" and not (mark in ("B", "I") and dash and kind):
        raise _wrong(name, line, f"has the tag {quoted(tag)}", "a tag is O, or B- or I- and the type of the entity")
    return f"B-{kind}" if mark == "I" and before.partition("-")[2] != kind else tag


_READERS: dict[str, Callable[[str, str, bool, list[str], int], list[Example]]] = {
    "text-classification": _texts,
    "text-regression": _numbered_texts,
    "multiple-choice": _choices,
    "question-answering": _answers,
    "token-classification": _tagged,
}
FORMS = {
    "text-classification": "a text, a tab and a label on each line",
    "text-regression": "one or two texts and a number on each line",
    "multiple-choice": "SWAG's csv columns or CODAH's tsv columns",
    "question-answering": "SQuAD's JSON",
    "token-classification": "a word and a tag on each line",
}
TASKS = tuple(_READERS)
