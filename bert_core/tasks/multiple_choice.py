"""The choice that goes on from a prompt: multiple-choice, from SWAG's csv and CODAH's tsv."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Encoding

from bert_core.errors import CorpusError, quoted
from bert_core.tasks import task
from bert_core.tasks.tables import Table, TaskFile
from bert_core.tasks.task import Layout, Metrics, Row, accuracy
from bert_core.tasks.texts import LabelTask

MAX_CHOICES = 26


@dataclass(frozen=True, slots=True)
class ChoiceExample(task.Example):
    """A prompt, with which every choice is read as a pair. label: index of the right choice."""

    text: str
    choices: tuple[str, ...]
    label: int | None
    line: int = 0

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text, *self.choices)

    def in_words(self, value: int) -> str:
        return self.choices[value]


class BertForMultipleChoice(task.BertForTask):
    """A score for each choice of an example, each in a row with its prompt: inputs (R, C, T), logits (R, C)."""


class MultipleChoice(LabelTask[ChoiceExample]):
    """The index of the right choice."""

    name = "multiple-choice"
    example = ChoiceExample
    model = BertForMultipleChoice
    form = "SWAG's csv columns or CODAH's tsv columns"

    def read(self, file: TaskFile) -> list[ChoiceExample]:
        rows = _swag(file) if "ending0" in file.first_line()[1] else _codah(file)
        examples: list[ChoiceExample] = []
        for line, text, choices, label in rows:
            count = len(choices)
            if label is not None and not (label.isdecimal() and int(label[:9]) < count):
                raise file.wrong(line, f"has the label {quoted(label)}", f"it must be from 0 to {count - 1}")
            examples.append(ChoiceExample(text, tuple(choices), None if label is None else int(label), line))
            if count != len(examples[0].choices) or not 2 <= count <= MAX_CHOICES:
                remedy = f"all examples need the same number, from 2 to {MAX_CHOICES}"
                raise file.wrong(line, f"has {count} choices", remedy)
            file.check_texts(line, examples[-1].texts)
        if file.labelled and examples and all(each.label for each in examples):
            file.notes.append("No example has the label 0, though labels count from 0.")
        return examples

    def rows_of(self, example: ChoiceExample, number: int, texts: Sequence[Encoding], layout: Layout) -> list[Row]:
        target = None if example.label is None else np.array([example.label])
        return [layout.row(number, (texts[0], choice), target) for choice in texts[1:]]

    def measures(self, right: Sequence, found: Sequence, labels: Sequence[str] = ()) -> Metrics:
        return {"accuracy": accuracy(right, found)}


# The line, the prompt, the choices and the label of each example.
_Rows = Iterator[tuple[int, str, list[str], str | None]]


def _swag(file: TaskFile) -> _Rows:
    table = Table(file, ",")
    header = table.first
    numbers = {int(column[6:]): i for i, column in enumerate(header) if re.fullmatch("ending[0-9]{1,4}", column)}
    endings = [numbers[number] for number in sorted(numbers)]
    needed = ["sent1", "sent2", *(["label"] if file.labelled else [])]
    if missing := [column for column in needed if column not in header]:
        raise CorpusError(
            f"{file.name} has no column {missing[0]!r}; SWAG's csv has sent1, sent2, ending0, ... and label."
        )
    prompt, start, *label = [header.index(column) for column in needed]
    file.say(header, True, Texts=[prompt, start, *endings], Label=label)
    for line, fields in table.examples(is_named=True):
        file.check_texts(line, [fields[i] for i in endings])
        choices = [f"{fields[start]} {fields[i]}".strip() for i in endings]
        yield line, fields[prompt], choices, fields[label[0]] if label else None


def _codah(file: TaskFile) -> _Rows:
    table = Table(file, "\t", is_even=False)
    # Of a file with labels that is read without them, the labels are no choices.
    has_labels = file.labelled or all(fields[-1].isdecimal() for _, fields in table.rows() if fields)
    if (end := len(table.first) - has_labels) >= 4:  # else the first line is refused below
        file.say(table.names(False), False, Texts=range(1, end), Label=[end] if file.labelled else [])
    for line, fields in table.examples(is_named=False):
        end = len(fields) - has_labels
        if end < 4:
            wanted = "write a category, a prompt, the endings and the index of the right one"
            raise file.wrong(line, f"has too few columns ({len(fields)})", wanted)
        yield line, fields[1], fields[2:end], fields[-1] if file.labelled else None
