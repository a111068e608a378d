"""The choice that goes on from a prompt: multiple-choice, from SWAG's csv and CODAH's tsv."""

import re
from collections.abc import Iterator

from bert_core.errors import CorpusError, quoted
from bert_core.tasks.tables import TaskFile
from bert_core.tasks.task import BertForTask, Example, Task
from bert_core.tasks.texts import number_in


class BertForMultipleChoice(BertForTask):
    """A score for each choice of an example, each in a row with its prompt: inputs (R, C, T), logits (R, C)."""


class MultipleChoice(Task):
    """The index of the right choice."""

    name = "multiple-choice"
    model = BertForMultipleChoice
    form = "SWAG's csv columns or CODAH's tsv columns"
    texts = range(3, 28)  # a prompt and its choices
    has_choices = True

    def read(self, file: TaskFile) -> list[Example]:
        examples: list[Example] = []
        is_swag = "ending0" in file.text.lstrip().partition("\n")[0]
        for line, texts, label in _swag(file) if is_swag else _codah(file):
            first = examples[0].texts if examples else texts
            if not all(texts) or len(texts) not in self.texts or len(texts) != len(first):
                remedy = f"all need a prompt and as many choices, from 2 to {self.texts[-1] - 1}"
                raise file.wrong(line, "has an empty text or another number of choices", remedy)
            right = None if label is None else number_in(label)
            if label is not None and right not in range(len(texts) - 1):
                raise file.wrong(line, f"has the label {quoted(label)}", f"it must be from 0 to {len(texts) - 2}")
            examples.append(Example(texts, None if right is None else int(right)))
        return examples


# The line, the prompt with its choices, and the label of each example.
_Rows = Iterator[tuple[int, tuple[str, ...], str | None]]


def _swag(file: TaskFile) -> _Rows:
    file.separator = file.separator or ","
    (_, header), *rows = ((line, row) for line, row in file.rows() if row)
    endings = [name for name in header if re.fullmatch("ending[0-9]{1,4}", name)]
    endings.sort(key=lambda name: int(name.removeprefix("ending")))
    if missing := {"sent1", *["label"] * file.labelled} - {*header}:
        raise CorpusError(
            f"{file.name} has no column {min(missing)!r}; SWAG's csv has sent1, sent2 (or none), ending0, ... and "
            "label."
        )
    for line, fields in ((line, dict(zip(header, row))) for line, row in rows):
        begin = fields.get("sent2", "")
        choices = (f"{begin} {fields[name]}".strip() if fields[name] else "" for name in endings)
        yield line, (fields["sent1"], *choices), fields["label"] if file.labelled else None


def _codah(file: TaskFile) -> _Rows:
    file.separator = file.separator or "tab"
    rows = [(line, row) for line, row in file.rows() if row]
    # Of a file with labels that is read without them, the labels are no choices.
    has_labels = file.labelled or all(row[-1].isdecimal() for _, row in rows)
    for line, row in rows:
        yield line, row[1 : len(row) - has_labels], row[-1] if file.labelled else None
