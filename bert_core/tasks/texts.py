"""A text, or a pair of texts, with a label, several labels, or a number: text-classification and text-regression."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Encoding
from torch import Tensor

from bert_core.errors import CorpusError, quoted
from bert_core.tasks import task
from bert_core.tasks.tables import Nested, TaskFile, TextTable, is_unread_list, listed_labels, number_in
from bert_core.tasks.task import Json, Layout, Metrics, Parts, Row, Verdict, fractions, ratio
from bert_core.training.objective import Fractions

_NO_TEXT = "a text is empty"


@dataclass(frozen=True, slots=True)
class TextExample(task.Example):
    """A text, or a pair of texts, with a label, several or, for regression, a number."""

    text: str
    pair: str | None
    label: str | tuple[str, ...] | float | None
    line: int = 0  # in its file, from 1

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,) if self.pair is None else (self.text, self.pair)

    def in_words(self, value: object) -> str:
        if isinstance(value, tuple):
            return ", ".join(value) or "none"
        return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)

    @property
    def named_labels(self) -> Iterable[tuple[str, int]]:
        names = self.label if isinstance(self.label, tuple) else (self.label,)
        return [(name, self.line) for name in names if isinstance(name, str)]


@dataclass(frozen=True)
class LabelPrediction(task.Prediction):
    """The likeliest label, for choices its index, or for regression the number."""

    label: Any  # of a model for several labels, those above one half
    probabilities: tuple[float, ...] = ()  # of each label or choice in order; empty for regression


class BertForSequenceClassification(task.BertForTask):
    """One label for a text or a pair of texts, or one number for regression: logits (R, L)."""


class LabelTask(task.Task[task.E, LabelPrediction]):
    """A task with one output for each label or choice."""

    def decode(self, example: task.E, parts: Parts, layout: Layout) -> LabelPrediction:
        scores = torch.from_numpy(parts[0][1]).softmax(-1)
        best = int(scores.argmax())
        return LabelPrediction(layout.labels[best] if layout.labels else best, tuple(scores.tolist()))

    def judge(self, example: task.E, found: LabelPrediction, labels: Sequence[str]) -> Verdict:
        names: Sequence = labels or range(len(found.probabilities))
        return found.label == example.right, 1 - dict(zip(names, found.probabilities)).get(example.right, 0.0)

    def as_json(self, example: task.E, found: LabelPrediction, labels: Sequence[str]) -> Json:
        names = labels or [str(i) for i in range(len(found.probabilities))]
        return {"label": found.label, "probabilities": dict(zip(names, found.probabilities))}


class TextClassification(LabelTask[TextExample]):
    """One label for a text or a pair."""

    name = "text-classification"
    example = TextExample
    model = BertForSequenceClassification
    form = "a text and a label on each line, with a tab or a comma between them"
    columns = ("one or two texts", "the label")
    has_pairs = True
    is_number: ClassVar[bool] = False  # the label

    def read(self, file: TaskFile) -> list[TextExample]:
        table = TextTable(file, is_number=self.is_number)
        if not table.first:
            return []
        columns, label, is_named = table.columns()
        names = table.names(is_named)
        file.say(names, is_named, Texts=columns, Label=label)
        file.chosen = [names[i] for i in (*columns, *label)]
        none = table.no_labels(label[0], is_named) if label else set()
        left_out, examples = Counter[str](), list[TextExample]()
        for line, fields in table.examples(is_named):
            lists = [i for i in label if not file.separator and listed_labels(fields[i]) is not None]
            if nested := [i for i in (*columns, *label) if isinstance(fields[i], Nested)] or lists:
                several = "one label there, or say what stands between several labels (--label-separator)"
                remedy = f"write {several if nested[0] in label else 'a text there'}"
                raise file.wrong(line, f"has an object or a list in {names[nested[0]]}", remedy)
            given = fields[label[0]] if label else ""
            if given in none:
                left_out[f"their label is {quoted(given) if given else 'empty'}"] += 1
                continue
            texts = [fields[i] for i in columns]
            if label and not all(texts) and left_out[_NO_TEXT] < file.most_left_out:
                left_out[_NO_TEXT] += 1
                continue
            file.check_texts(line, texts)
            value = self.label_in(given, file, line) if label else None
            examples.append(TextExample(texts[0], texts[1] if len(texts) == 2 else None, value, line))
        for reason, count in left_out.items():
            file.notes.append(f"Examples left out because {reason}: {count:,}.")
        if left_out and not examples:
            raise CorpusError(f"No example of {file.name} has a label; add labels, or use it without them in predict.")
        return examples

    def label_in(self, field: str, file: TaskFile, line: int) -> str | tuple[str, ...] | float:
        """The label that a field names."""
        if file.separator and is_unread_list(field):
            remedy = 'write ["a", "b"], or the labels with what stands between them'
            raise file.wrong(line, f"has {quoted(field)} for a list of labels", remedy)
        return file.several(field) if file.separator else field

    def rows_of(self, example: TextExample, number: int, texts: Sequence[Encoding], layout: Layout) -> list[Row]:
        target = None if example.label is None else self.target_of(example, layout)
        return [layout.row(number, texts, target)]

    def target_of(self, example: TextExample, layout: Layout) -> np.ndarray:
        """What a model learns from an example; see `Row`."""
        return np.array([layout.ids[example.right]])

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

    def compared(self, example: TextExample, found: LabelPrediction) -> Iterable[tuple[str, str]]:
        return [(example.label, found.label)] if isinstance(example.label, str) else ()


class SeveralLabels(TextClassification):
    """Several labels for a text or a pair, or none."""

    measure = "f1"  # the labels of a text are seldom all right

    def target_of(self, example: TextExample, layout: Layout) -> np.ndarray:
        return np.array([[name in example.right for name in layout.ids]], np.float32)

    def numbers(self, logits: Tensor, target: Tensor) -> Fractions:
        loss = F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
        right = ((logits.detach() > 0) == (target > 0)).all(1).sum()
        return fractions(loss, target.numel(), right, len(target))

    def decode(self, example: TextExample, parts: Parts, layout: Layout) -> LabelPrediction:
        scores = torch.from_numpy(parts[0][1]).sigmoid().tolist()
        return LabelPrediction(tuple(each for each, score in zip(layout.labels, scores) if score > 0.5), tuple(scores))

    def measures(self, right: Sequence, found: Sequence, labels: Sequence[str] = ()) -> Metrics:
        """accuracy, the fraction of texts whose labels are all right, and f1 over all labels of all texts (micro)."""
        pairs = [({*a}, {*b}) for a, b in zip(right, found)]
        both, each = sum(len(a & b) for a, b in pairs), sum(len(a) + len(b) for a, b in pairs)
        return {"accuracy": ratio(sum(a == b for a, b in pairs), len(pairs)), "f1": ratio(2 * both, each)}

    def judge(self, example: TextExample, found: LabelPrediction, labels: Sequence[str]) -> Verdict:
        right = example.right or ()
        off = (abs((name in right) - score) for name, score in zip(labels, found.probabilities))
        return {*right} == {*found.label}, max(off)


class TextRegression(TextClassification):
    """A number for a text or a pair."""

    name = "text-regression"
    form = "one or two texts and a number on each line"
    measure = "pearson"
    is_number = True

    def label_in(self, field: str, file: TaskFile, line: int) -> float:
        number = number_in(field)
        if number is None or not math.isfinite(number):
            raise file.wrong(
                line, f"has the label {quoted(field)}", "text-regression needs a number for a label, such as 0.5"
            )
        return number

    def target_of(self, example: TextExample, layout: Layout) -> np.ndarray:
        return np.array([example.right], np.float32)

    def numbers(self, logits: Tensor, target: Tensor) -> Fractions:
        loss = F.mse_loss(logits.squeeze(1), target, reduction="sum")
        return fractions(loss, len(target), torch.zeros_like(loss), 0)  # the accuracy is nan

    def decode(self, example: TextExample, parts: Parts, layout: Layout) -> LabelPrediction:
        return LabelPrediction(float(parts[0][1][0]))

    def measures(self, right: Sequence, found: Sequence, labels: Sequence[str] = ()) -> Metrics:
        """pearson and spearman correlation; ties get their mean rank, as in SciPy."""
        return {"pearson": _pearson(right, found), "spearman": _pearson(_ranks(right), _ranks(found))}

    def judge(self, example: TextExample, found: LabelPrediction, labels: Sequence[str]) -> Verdict:
        return None, abs(example.right - found.label)

    def as_json(self, example: TextExample, found: LabelPrediction, labels: Sequence[str]) -> Json:
        return {"label": found.label}


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
