"""A text or a pair with a label or a number, and the choice that goes on from a prompt: text-classification,
text-regression and multiple-choice, the last one from SWAG's csv."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bert_core.errors import CorpusError, quoted
from bert_core.tasks.tables import TaskFile, Usual
from bert_core.tasks.task import BertForTask, Example, Layout, Metrics, Parts, Prediction, Row, Task, ratio
from bert_core.training import Fractions

_TEXTS = (
    "(text|sentence|string|question|premise)[12ab]?|textpair|s[12]|#[12]string|hypothesis|query|passage|context|content"
    "|review(text)?|comment(text)?|body|tweet|message|document|utterance|sms"
    "|title|headline|description|abstract|summary|post|answer|response|article"
)
_LABELS = (
    *("goldlabel", "label", "class", "category", "target", "sentiment", "intent", "isduplicate", "quality", "polarity"),
    *("emotion", "topic", "stance", "relation", "entailmentjudgment"),
)
_NUMBERS = ("score", "similarity", "similarityscore", "relatednessscore", "rating", "stars")
_ORDER = {2: ([0], [1]), 3: ([0, 1], [2])}


class BertForSequenceClassification(BertForTask):
    """One label for a text or a pair of texts, or one number for regression: logits (R, L)."""


class TextClassification(Task):
    """One label for a text or a pair."""

    name = "text-classification"
    model = BertForSequenceClassification
    form = "a text and a label on each line, with a tab or a comma between them"
    texts = range(1, 3)
    usual: ClassVar[Usual] = Usual(("one or two texts", "the label"), _TEXTS, _LABELS + _NUMBERS, _ORDER)

    def read(self, file: TaskFile) -> list[Example]:
        columns, rows = file.table(self.usual)
        labels = {row[i] for i in columns.label for _, row in rows if row}
        first, *others = [row[i] for i in columns.label for _, row in rows if row] or [""]
        if not columns.is_named and file.has_header is None and first not in others and len({*others}) < len(others):
            said = f"The first line is read as an example, and no other has its label {quoted(first)}."
            file.notes.append(f"{said} If it names the columns, say so (--columns).")
        none = {"", "-"} if "+" not in labels else {""}  # SNLI has - for a label on which nobody agreed
        examples: list[Example] = []
        for line, row in rows:
            texts, label = ([row[i] for i in each] if row else [] for each in (columns.texts, columns.label))
            if {*label} & none:
                file.counts["Examples left out because they have no label"] += 1
            elif not (texts and all(texts)):
                file.counts["Examples left out because a text is empty"] += bool(row)
                file.blanks.append(len(examples) + len(file.blanks))
            else:
                found = self.label_in(label[0], file, line) if label else None
                examples.append(Example(tuple(texts), found))
        return examples

    def label_in(self, field: str, file: TaskFile, line: int) -> str | float:
        return field

    def measures(self, right: Sequence[Any], found: Sequence[Any], labels: Sequence[str] = ()) -> Metrics:
        """accuracy, f1 and matthews_correlation (for more than two labels: Gorodkin 2004). Of two labels, f1 is that of
        the second one, of more their mean over those that occur: scikit-learn's binary and macro average."""
        table = np.array(confusion(zip(right, found), labels), float)
        n, correct, rows, columns = len(right), table.trace(), table.sum(1), table.sum(0)
        scores = 2 * table.diagonal() / np.maximum(rows + columns, 1)
        covariance = n * correct - rows @ columns
        spread = (n * n - rows @ rows) * (n * n - columns @ columns)
        return {
            "accuracy": ratio(correct, n),
            "f1": float(scores[1]) if len(labels) == 2 else ratio(scores.sum(), int(np.count_nonzero(rows + columns))),
            "matthews_correlation": ratio(covariance, math.sqrt(spread)),
        }


class TextRegression(TextClassification):
    """A number for a text or a pair."""

    name = "text-regression"
    form = "one or two texts and a number on each line"
    usual: ClassVar[Usual] = Usual(("one or two texts", "the number"), _TEXTS, _NUMBERS + _LABELS, _ORDER)
    measure = "pearson"

    def label_in(self, field: str, file: TaskFile, line: int) -> float:
        number = number_in(field)
        if number is None or not math.isfinite(number):
            raise file.wrong(line, f"has the label {quoted(field)}", "text-regression needs a number, such as 0.5")
        return number

    def numbers(self, logits: Tensor, target: Tensor) -> Fractions:
        loss = F.mse_loss(logits.squeeze(1), target, reduction="sum")
        return torch.stack([loss, torch.zeros_like(loss)]), loss.new_tensor([len(target), 0])  # the accuracy is nan

    def chance(self, rows: Sequence[Row]) -> float:
        """The least loss of a number that is always the same: the variance."""
        return float(np.concatenate([row.target for row in rows if row.target is not None]).var())

    def decode(self, example: Example, parts: Parts, layout: Layout) -> Prediction:
        return Prediction(float(parts[0][1][0]))

    def measures(self, right: Sequence[Any], found: Sequence[Any], labels: Sequence[str] = ()) -> Metrics:
        """pearson and spearman correlation; ties get their mean rank, as in SciPy."""
        return {"pearson": _pearson(right, found), "spearman": _pearson(_ranks(right), _ranks(found))}

    def judge(self, example: Example, found: Prediction, labels: Sequence[str]) -> tuple[bool | None, float]:
        return None, abs(example.label - found.label)


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


def number_in(value: str) -> float | None:
    """The number that a field has, if it is one."""
    try:
        return float(value)
    except ValueError:
        return None


def confusion(pairs: Iterable[tuple[str, str]], labels: Sequence[str]) -> list[list[int]]:
    """How often each label, a row, was predicted as each, a column; both in the order of `labels`."""
    counts = Counter(pairs)
    return [[counts[label, other] for other in labels] for label in labels]


def _pearson(x: Sequence[float], y: Sequence[float]) -> float:
    try:
        return statistics.correlation(x, y)
    except statistics.StatisticsError:  # all are equal
        return 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    _, number, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts + 1) / 2)[number].tolist()
