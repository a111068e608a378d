"""From a fine-tuned model to predictions about examples, and how good they are.

An answer is a part of the context: the best start and end over all windows (Devlin et al. 2018, 4.2 and 4.3).
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from bert_core.config import FinetuningData
from bert_core.data.tokenizer import end_of_marks
from bert_core.finetuning import metrics
from bert_core.finetuning.batches import TaskBatches
from bert_core.finetuning.examples import AnswerExample, ChoiceExample, Example, TaggedExample, TaskData, TextExample
from bert_core.finetuning.features import Row
from bert_core.finetuning.heads import BertForTask


@dataclass(frozen=True)
class Answer:
    """A part of the context; an empty text means that the context holds no answer.

    start: its first character. score: sum of the logits of its first and last token. probability: softmax over the
    candidates of the question.
    """

    text: str
    start: int
    score: float
    probability: float = 1.0


@dataclass(frozen=True)
class LabelPrediction:
    """The likeliest label, for choices its index, or for regression the number. probabilities: of each label or choice
    in order; empty for regression."""

    label: str | int | float
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True)
class AnswerPrediction:
    """The likeliest answers to a question, the best first; at least one."""

    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class TagPrediction:
    """A tag for each word of a sentence; O for a word that the tokenizer drops."""

    tags: tuple[str, ...]


Prediction = LabelPrediction | AnswerPrediction | TagPrediction


@torch.inference_mode()
def predictions(
    model: BertForTask,
    batches: TaskBatches,
    examples: Sequence[Example],
    labels: Sequence[str],
    config: FinetuningData,
    *,
    may_be_missing: bool = False,
    progress: Callable[[float], None] = lambda fraction: None,
) -> list[Prediction]:
    """A prediction for each example, in their order, with the model in eval mode.

    batches: of the rows of `examples`. labels: of the model's outputs, empty for regression, choices and answers.
    may_be_missing: see `best_answers`.
    """
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    outputs: list[np.ndarray] = [np.empty(0)] * batches.count
    done = 0
    for numbers, batch in batches.in_order():
        logits = batch.to(device).logits(model)
        if batch.positions is None:
            parts = logits.unbind()
        else:  # split among the rows by their numbers of words
            parts = logits.split([len(cast(np.ndarray, batches.rows[number].positions)) for number in numbers])
        for number, part in zip(numbers, parts):
            outputs[number] = part.cpu().numpy()
        done += len(numbers)
        progress(done / batches.count)
    model.train(was_training)
    return _decoded(batches, outputs, examples, labels, config, may_be_missing)


def _decoded(
    batches: TaskBatches,
    outputs: Sequence[np.ndarray],
    examples: Sequence[Example],
    labels: Sequence[str],
    config: FinetuningData,
    may_be_missing: bool,
) -> list[Prediction]:
    each = batches.choices or 1
    of_example: list[list[tuple[Row, np.ndarray]]] = [[] for _ in examples]
    for row, output in zip(batches.rows[::each], outputs):
        of_example[row.example].append((row, output))
    found: list[Prediction] = []
    for example, parts in zip(examples, of_example):
        if isinstance(example, AnswerExample):
            limits = {"best": config.best_answers, "longest": config.longest_answer}
            answers = best_answers(example.context, parts, may_be_missing=may_be_missing, **limits)
            found.append(AnswerPrediction(tuple(answers)))
        elif isinstance(example, TaggedExample):
            tags = ["O"] * len(example.words)
            for row, output in parts:
                for word, label in zip(cast(np.ndarray, row.words), output.argmax(1) if len(output) else ()):
                    tags[word] = labels[label]
            found.append(TagPrediction(tuple(tags)))
        elif isinstance(example, TextExample) and not labels:
            found.append(LabelPrediction(float(parts[0][1][0])))
        else:
            scores = torch.from_numpy(parts[0][1]).softmax(-1).tolist()
            best = max(range(len(scores)), key=scores.__getitem__)
            found.append(LabelPrediction(labels[best] if labels else best, tuple(scores)))
    return found


def score(data: TaskData, found: Sequence[Prediction], labels: Sequence[str]) -> metrics.Metrics:
    """The measures of predictions about labelled examples; see `metrics`."""
    examples = data.examples
    if data.task == "question-answering":
        accepted = [[text for text, _ in cast(AnswerExample, each).answers or ()] for each in examples]
        return metrics.answer_metrics(accepted, [cast(AnswerPrediction, each).answers[0].text for each in found])
    if data.task == "token-classification":
        tags = [cast(TaggedExample, each).tags or () for each in examples]
        return metrics.entity_metrics(tags, [cast(TagPrediction, each).tags for each in found])
    predicted: list[Any] = [cast(LabelPrediction, each).label for each in found]
    wanted: list[Any] = [cast(TextExample | ChoiceExample, each).label for each in examples]
    if data.task == "text-regression":
        return metrics.regression_metrics(wanted, predicted)
    if data.task == "multiple-choice":
        return metrics.choice_metrics(wanted, predicted)
    return metrics.classification_metrics(wanted, predicted, labels)


def as_json(example: Example, found: Prediction, labels: Sequence[str]) -> dict[str, Any]:
    """A prediction as JSON data: label and probabilities, or answer, start and probability, or entities."""
    if isinstance(found, AnswerPrediction):
        best = found.answers[0]
        return {"answer": best.text, "start": best.start, "probability": best.probability}
    if isinstance(found, TagPrediction):
        words = cast(TaggedExample, example).words
        return {
            "entities": [
                {"type": kind, "text": " ".join(words[start:end]), "start": start, "end": end}
                for kind, start, end in metrics.entities(found.tags)
            ]
        }
    if not found.probabilities:
        return {"label": found.label}
    names = labels or [str(i) for i in range(len(found.probabilities))]
    return {"label": found.label, "probabilities": dict(zip(names, found.probabilities))}


def best_answers(
    context: str,
    windows: Sequence[tuple[Row, np.ndarray]],
    *,
    best: int = 20,
    longest: int = 30,
    may_be_missing: bool = False,
) -> list[Answer]:
    """The likeliest answers to one question, the best first; at least one.

    windows: each with its logits, (T, 2) for T tokens. best: how many of the likeliest starts and ends of a window are
    combined, and how many answers are returned. longest: of an answer in tokens. may_be_missing: "no answer" is a
    candidate too, with the lowest score that a window's [CLS] has (SQuAD 2). An answer starts where its window shows
    the most context, lies inside the context and does not end before it starts.
    """
    found: dict[tuple[int, int], float] = {}
    nothing = math.inf
    for row, logits in windows:
        assert row.offsets is not None
        assert row.widest is not None
        inside = row.offsets[:, 0] >= 0
        nothing = min(nothing, float(logits[0].sum()))
        starts = _best(logits[:, 0], inside & row.widest, best)
        ends = _best(logits[:, 1], inside, best)
        for start in starts:
            for end in ends:
                if start <= end < start + longest:
                    span = int(row.offsets[start, 0]), end_of_marks(context, int(row.offsets[end, 1]))
                    found[span] = max(found.get(span, -math.inf), float(logits[start, 0] + logits[end, 1]))
    candidates = [Answer(context[a:b], a, score) for (a, b), score in found.items()]
    if may_be_missing or not candidates:
        candidates.append(Answer("", 0, nothing))
    chosen = heapq.nlargest(best, candidates, key=lambda answer: answer.score)
    weights = [math.exp(answer.score - chosen[0].score) for answer in chosen]
    total = math.fsum(weights)
    return [Answer(each.text, each.start, each.score, weight / total) for each, weight in zip(chosen, weights)]


def _best(scores: np.ndarray, allowed: np.ndarray, count: int) -> list[int]:
    positions = np.flatnonzero(allowed)
    return positions[np.argsort(-scores[positions], kind="stable")[:count]].tolist()
