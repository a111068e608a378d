"""The choice that goes on from a prompt: multiple-choice, from SWAG's csv and CODAH's tsv."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Encoding

from bert_core.errors import CorpusError, quoted
from bert_core.tasks import task
from bert_core.tasks.tables import TaskFile
from bert_core.tasks.task import Layout, Row
from bert_core.tasks.texts import number_in

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


class BertForMultipleChoice(task.BertForTask):
    """A score for each choice of an example, each in a row with its prompt: inputs (R, C, T), logits (R, C)."""


class MultipleChoice(task.Task):
    """The index of the right choice."""

    name = "multiple-choice"
    example = ChoiceExample
    model = BertForMultipleChoice
    form = "SWAG's csv columns or CODAH's tsv columns"

    def read(self, file: TaskFile) -> list[ChoiceExample]:
        examples: list[ChoiceExample] = []
        for line, text, choices, label in _swag(file) if "ending0" in file.first_line else _codah(file):
            right, count = None, len(choices)
            if label is not None and (right := number_in(label)) not in range(count):
                raise file.wrong(line, f"has the label {quoted(label)}", f"it must be from 0 to {count - 1}")
            examples.append(ChoiceExample(text, tuple(choices), None if right is None else int(right), line))
            if count != len(examples[0].choices) or not 2 <= count <= MAX_CHOICES:
                remedy = f"all examples need the same number, from 2 to {MAX_CHOICES}"
                raise file.wrong(line, f"has {count} choices", remedy)
            if not all(examples[-1].texts):
                raise file.wrong(line, "has an empty text", "fill it in or take the line out")
        return examples

    def rows_of(self, example: ChoiceExample, number: int, texts: Sequence[Encoding], layout: Layout) -> list[Row]:
        target = None if example.label is None else np.array([example.label])
        return [layout.row(number, (texts[0], choice), target) for choice in texts[1:]]


# The line, the prompt, the choices and the label of each example.
_Rows = Iterator[tuple[int, str, Sequence[str], str | None]]


def _swag(file: TaskFile) -> _Rows:
    file.separator = file.separator or ","
    (_, header), *rows = ((line, row) for line, row in file.rows() if row)
    numbers = {int(column[6:]): i for i, column in enumerate(header) if re.fullmatch("ending[0-9]{1,4}", column)}
    needed = ["sent1", "sent2", *["label"] * file.labelled]
    if missing := [column for column in needed if column not in header]:
        raise CorpusError(
            f"{file.name} has no column {missing[0]!r}; SWAG's csv has sent1, sent2, ending0, ... and label."
        )
    prompt, start, *label = [header.index(column) for column in needed]
    for line, row in rows:
        endings = [row[numbers[number]] for number in sorted(numbers)]
        choices = [f"{row[start]} {ending}".strip() if ending else "" for ending in endings]
        yield line, row[prompt], choices, row[label[0]] if label else None


def _codah(file: TaskFile) -> _Rows:
    file.separator = file.separator or "tab"
    rows = [(line, row) for line, row in file.rows() if row]
    # Of a file with labels that is read without them, the labels are no choices.
    has_labels = file.labelled or all(row[-1].isdecimal() for _, row in rows)
    for line, row in rows:
        if len(row) < 4 + has_labels:
            wanted = "write a category, a prompt, the endings and the index of the right one"
            raise file.wrong(line, f"has too few columns ({len(row)})", wanted)
        yield line, row[1], row[2 : len(row) - has_labels], row[-1] if file.labelled else None
