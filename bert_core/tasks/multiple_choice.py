"""The choice that goes on from a prompt: multiple-choice, from SWAG's csv."""

import re

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
    form = "SWAG's csv columns"
    texts = range(3, 28)  # a prompt and its choices
    has_choices = True

    def read(self, file: TaskFile) -> list[Example]:
        file.separator = file.separator or ","
        (_, header), *rows = ((line, row) for line, row in file.rows() if row)
        endings = [name for name in header if re.fullmatch("ending[0-9]{1,4}", name)]
        endings.sort(key=lambda name: int(name.removeprefix("ending")))
        if missing := {"sent1", *["label"] * file.labelled} - {*header}:
            raise CorpusError(
                f"{file.name} has no column {min(missing)!r}; SWAG's csv has sent1, sent2 (or none), ending0, ... and "
                "label."
            )
        examples: list[Example] = []
        for line, fields in ((line, dict(zip(header, row))) for line, row in rows):
            begin = fields.get("sent2", "")
            choices = [f"{begin} {fields[name]}".strip() if fields[name] else "" for name in endings]
            if not all((fields["sent1"], *choices)) or 1 + len(choices) not in self.texts:
                remedy = f"all need a prompt and as many choices, from 2 to {self.texts[-1] - 1}"
                raise file.wrong(line, "has an empty text or another number of choices", remedy)
            right = number_in(fields["label"]) if file.labelled else None
            if file.labelled and right not in range(len(choices)):
                problem = f"has the label {quoted(fields['label'])}"
                raise file.wrong(line, problem, f"it must be from 0 to {len(choices) - 1}")
            examples.append(Example((fields["sent1"], *choices), None if right is None else int(right)))
        return examples
