"""A text, or a pair of texts, with a label or a number: text-classification and text-regression."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Encoding
from torch import Tensor

from bert_core.errors import CorpusError, quoted
from bert_core.tasks import task
from bert_core.tasks.tables import TaskFile, Usual
from bert_core.tasks.task import Json, Layout, Metrics, Parts, Prediction, Row, Verdict, fractions, ratio
from bert_core.training.objective import Fractions

_TEXTS = (
    "(text|sentence|string|question|premise)[12ab]?|textpair|s[12]|#[12]string|hypothesis|query|passage|context|content"
    "|review(text)?|comment(text)?|body|tweet|message|document|utterance|sms",
    "title|headline|description|abstract|summary|post|answer|response|article",
)
_LABELS = (
    *("goldlabel", "label", "class", "category", "target", "sentiment", "intent", "isduplicate", "quality", "polarity"),
    *("emotion", "topic", "stance", "relation", "entailmentjudgment"),
)
_NUMBERS = ("score", "similarity", "similarityscore", "relatednessscore", "rating", "stars")
_ORDER = {2: ([0], 1), 3: ([0, 1], 2)}


@dataclass(frozen=True, slots=True)
class TextExample(task.Example):
    """A text, or a pair of texts, with a label or, for regression, a number."""

    text: str
    pair: str | None
    label: str | float | None
    line: int = 0  # in its file, from 1

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,) if self.pair is None else (self.text, self.pair)


class BertForSequenceClassification(task.BertForTask):
    """One label for a text or a pair of texts, or one number for regression: logits (R, L)."""


class TextClassification(task.Task):
    """One label for a text or a pair."""

    name = "text-classification"
    example = TextExample
    model = BertForSequenceClassification
    form = "a text and a label on each line, with a tab or a comma between them"
    usual = Usual(("one or two texts", "the label"), _TEXTS, _LABELS + _NUMBERS, _ORDER)
    has_pairs = True
    has_names = True

    def read(self, file: TaskFile) -> list[TextExample]:
        columns, rows = file.table("Texts", "Label", most_uneven=file.few)
        labels = {row[i] for i in columns.label for _, row in rows if row}
        none = {"", "-"} if "+" not in labels else {""}  # SNLI has - for a label on which nobody agreed
        examples, empty, unlabelled = list[TextExample](), list[int](), 0
        for line, row in rows:
            texts, label = ([row[i] for i in each] if row else [] for each in (columns.texts, columns.label))
            if not row:
                file.blanks.append(len(examples) + len(file.blanks))
            elif {*label} & none:
                unlabelled += 1
            elif not all(texts):
                empty.append(line)
            else:
                pair = texts[1] if len(texts) == 2 else None
                examples.append(
                    TextExample(texts[0], pair, self.label_in(label[0], file, line) if label else None, line)
                )
        if len(empty) > file.few * file.labelled:
            raise file.wrong(empty[0], "has an empty text", "fill it in or take the line out")
        file.count("Examples left out because a text is empty", len(empty))
        file.count("Examples left out because they have no label", unlabelled)
        if unlabelled and not examples:
            raise CorpusError(f"No example of {file.name} has a label; add labels, or use it without them in predict.")
        return examples

    def label_in(self, field: str, file: TaskFile, line: int) -> str | float:
        """The label that a field names."""
        if field[0] == "[" and field[-1] == "]":
            raise file.wrong(line, f"has the label {quoted(field)}", "give each text one label")
        return field

    def measures(self, right: Sequence, found: Sequence, labels: Sequence[str] = ()) -> Metrics:
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
    usual = Usual(("one or two texts", "the number"), _TEXTS, _NUMBERS + _LABELS, _ORDER)
    measure = "pearson"
    has_names = False

    def label_in(self, field: str, file: TaskFile, line: int) -> float:
        number = number_in(field)
        if number is None or not math.isfinite(number):
            remedy = "text-regression needs a number for a label, such as 0.5"
            raise file.wrong(line, f"has the label {quoted(field)}", remedy)
        return number

    def rows_of(self, example: TextExample, number: int, texts: Sequence[Encoding], layout: Layout) -> list[Row]:
        return [layout.row(number, texts, None if example.label is None else np.array([example.label], np.float32))]

    def numbers(self, logits: Tensor, target: Tensor) -> Fractions:
        loss = F.mse_loss(logits.squeeze(1), target, reduction="sum")
        return fractions(loss, len(target), torch.zeros_like(loss), 0)  # the accuracy is nan

    def chance(self, rows: Sequence[Row]) -> float:
        """The least loss of a number that is always the same: the variance."""
        return float(np.concatenate([row.target for row in rows if row.target is not None]).var())

    def decode(self, example: task.Example, parts: Parts, layout: Layout) -> Prediction:
        return Prediction(float(parts[0][1][0]))

    def measures(self, right: Sequence, found: Sequence, labels: Sequence[str] = ()) -> Metrics:
        """pearson and spearman correlation; ties get their mean rank, as in SciPy."""
        return {"pearson": _pearson(right, found), "spearman": _pearson(_ranks(right), _ranks(found))}

    def judge(self, example: task.Example, found: Prediction, labels: Sequence[str]) -> Verdict:
        return None, abs(example.label - found.label)

    def as_json(self, example: task.Example, found: Prediction, labels: Sequence[str]) -> Json:
        return {"label": found.label}


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
