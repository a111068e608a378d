"""From a fine-tuned model to predictions about examples, and how good they are.

An answer is a part of the context: the best start and end over all windows (Devlin et al. 2018, 4.2 and 4.3).
"""

import dataclasses
import heapq
import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from bert_core.config import FinetuningData, build
from bert_core.costs import probe_operations, threads_for, using_threads
from bert_core.data.tokenizer import end_of_marks
from bert_core.errors import ConfigError, InputError, checked, quoted
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks import metrics
from bert_core.tasks.batches import TaskBatches, task_numbers
from bert_core.tasks.examples import (
    KINDS,
    AnswerExample,
    ChoiceExample,
    Example,
    TaggedExample,
    TaskData,
    TextExample,
)
from bert_core.tasks.features import Row, task_rows
from bert_core.tasks.heads import BertForTask, learned_columns, model_of, task_of
from bert_core.training.evaluation import result_of


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
    """The likeliest label, for choices its index, or for regression the number; of a model for several labels, those
    above one half. probabilities: of each label or choice in order; empty for regression."""

    label: str | int | float | tuple[str, ...]
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

_PREDICTED_TOGETHER = 64  # examples


@torch.inference_mode()
def predicting(
    model: BertForTask,
    batches: TaskBatches,
    examples: Sequence[Example],
    labels: Sequence[str],
    config: FinetuningData,
    *,
    may_be_missing: bool = False,
    is_multi_label: bool = False,
) -> Generator[float, None, tuple[list[Prediction], float]]:
    """Predict a batch at a time: yields the done fraction, and returns a prediction for each example, in their order,
    and their mean loss, nan without labels.

    model: in eval mode. batches: of the rows of `examples`. labels: of the model's outputs, empty for regression,
    choices and answers. may_be_missing: see `best_answers`.
    """
    device = next(model.parameters()).device
    outputs: list[np.ndarray] = [np.empty(0)] * batches.count
    done, sums, counts = 0, *torch.zeros(2, 2, device=device)
    for numbers, batch in batches.in_order():
        batch = batch.to(device)
        with using_threads(threads_for(probe_operations(model.config, batch.input_ids.numel()))):
            logits = batch.logits(model)
        if batch.target is not None and len(batch.target):
            fractions = task_numbers(logits, batch.target)
            sums += fractions[0]
            counts += fractions[1]
        if batch.positions is None:
            parts = logits.unbind()
        else:  # split among the rows by their numbers of words
            parts = logits.split([len(cast(np.ndarray, batches.rows[number].positions)) for number in numbers])
        for number, part in zip(numbers, parts):
            outputs[number] = part.cpu().numpy()
        done += len(numbers)
        yield done / batches.count
    found = _decoded(batches, outputs, examples, labels, config, may_be_missing, is_multi_label)
    return found, float(sums[0] / counts[0])


def _decoded(
    batches: TaskBatches,
    outputs: Sequence[np.ndarray],
    examples: Sequence[Example],
    labels: Sequence[str],
    config: FinetuningData,
    may_be_missing: bool,
    is_multi_label: bool,
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
        elif is_multi_label:
            scores = torch.from_numpy(parts[0][1]).sigmoid().tolist()
            chosen = tuple(label for label, probability in zip(labels, scores) if probability > 0.5)
            found.append(LabelPrediction(chosen, tuple(scores)))
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
    if data.is_multi_label:
        return metrics.multi_label_metrics(wanted, predicted)
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


@checked
def predict(checkpoint: Checkpoint, examples: Iterable[str | tuple[str, str] | Example]) -> list[Prediction]:
    """Predictions of a fine-tuned model about examples; a text, or a pair of texts, stands for a `TextExample`.

    Raises CheckpointError for a model that is not fine-tuned, InputError for examples of another task, for single texts
    where the model learned from pairs or the other way round, and for a text or a pair outside of a list.
    """
    task, head = task_of(checkpoint), checkpoint.head
    assert head is not None
    is_pair = isinstance(examples, tuple) and len(examples) == 2 and all(isinstance(each, str) for each in examples)
    if is_pair:
        raise InputError(f"predict takes a list of examples, not {quoted(examples)}; give one, such as ['a text'].")
    data = TaskData(task, [_example(each) for each in examples])
    if any(type(each) is not KINDS[task] for each in data.examples):
        raise InputError(f"This model does {task}; give it examples of that task.")
    if not data.examples:
        return []
    learned = len(learned_columns(checkpoint)) - 1
    if KINDS[task] is TextExample and learned > 0 and data.texts != learned:
        kinds = ("single texts", "pairs of texts") if learned == 1 else ("pairs of texts", "single texts")
        raise InputError("This model learned from {}, and these are {}; give it {}.".format(*kinds, kinds[0]))
    recipe = checkpoint.recipe or {}
    saved = recipe.get("data")
    try:
        config = build(FinetuningData, saved if isinstance(saved, dict) else {}, "data")
    except ConfigError:
        config = FinetuningData()
    length = min(config.sequence_length if saved else 512, checkpoint.config.max_position_embeddings)
    config = dataclasses.replace(config, sequence_length=length)
    rows = task_rows(data, (), checkpoint.tokenizer, config)
    batches = TaskBatches(rows, checkpoint.config.pad_token_id, _PREDICTED_TOGETHER, choices=data.choices, seed=0)
    model = model_of(checkpoint)
    options = {"may_be_missing": recipe.get("may_be_missing") is True, "is_multi_label": head.is_multi_label}
    return result_of(predicting(model, batches, data.examples, head.labels, config, **options))[0]


def _example(given: str | tuple[str, str] | Example) -> Example:
    """An example without its label, which the model may not know."""
    if isinstance(given, str):
        return TextExample(given, None, None)
    if isinstance(given, tuple | list) and len(given) == 2 and all(isinstance(each, str) for each in given):
        return TextExample(given[0], given[1], None)
    if not isinstance(given, Example):
        raise InputError(f"An example is a text, a pair of texts or one that load_task reads, not {quoted(given)}.")
    field = {TaggedExample: "tags", AnswerExample: "answers"}.get(type(given), "label")
    unlabelled: Any = {field: None}
    return dataclasses.replace(given, **unlabelled)


@dataclass(frozen=True)
class Judged:
    """A labelled example beside its prediction.

    is_right: whether label, answer (as SQuAD's exact match), all of several labels or all tags are right; None for
    regression. mistake: how far off the prediction is: 1 - the probability of the label (the least certain of several),
    1 - the F1 of an answer, the fraction of wrong tags, or for regression the absolute difference.
    """

    example: Example
    prediction: Prediction
    is_right: bool | None
    mistake: float


@dataclass(frozen=True)
class Review:
    """How a fine-tuned model does on labelled examples.

    measures: see `metrics`. judged: all examples, mistakes first and of these the worst first. labels, confusion: names
    of labels or tags, and how often each, a row, was predicted as each, a column; empty for other tasks.
    """

    measures: metrics.Metrics
    judged: tuple[Judged, ...]
    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]


@checked
def review(checkpoint: Checkpoint, data: TaskData) -> Review:
    """Apply a fine-tuned model to labelled examples and compare. Errors as for `predict`."""
    found = predict(checkpoint, data.examples)
    assert checkpoint.head is not None
    labels = checkpoint.head.labels
    judged = [_judged(example, each, labels) for example, each in zip(data.examples, found)]
    judged.sort(key=lambda each: (bool(each.is_right), -each.mistake))
    pairs = [pair for each in judged for pair in _labels_of(each)]
    table = metrics.confusion([a for a, _ in pairs], [b for _, b in pairs], labels) if pairs else []
    return Review(score(data, found, labels), tuple(judged), labels, tuple(map(tuple, table)))


def _judged(example: Example, found: Prediction, labels: Sequence[str]) -> Judged:
    if isinstance(found, AnswerPrediction):
        accepted = [[text for text, _ in cast(AnswerExample, example).answers or ()]]
        measures = metrics.answer_metrics(accepted, [found.answers[0].text])
        return Judged(example, found, measures["exact_match"] == 1, 1 - measures["f1"])
    if isinstance(found, TagPrediction):
        tags = cast(TaggedExample, example).tags or ()
        wrong = sum(a != b for a, b in zip(tags, found.tags))
        return Judged(example, found, not wrong, wrong / max(1, len(tags)))
    label = cast(TextExample | ChoiceExample, example).label
    if not found.probabilities:
        return Judged(example, found, None, abs(cast(float, label) - cast(float, found.label)))
    if isinstance(label, tuple):
        off = max(abs((name in label) - each) for name, each in zip(labels, found.probabilities))
        return Judged(example, found, set(label) == set(cast(tuple, found.label)), off)
    names: Sequence[Any] = labels or range(len(found.probabilities))
    probability = found.probabilities[names.index(label)] if label in names else 0.0
    return Judged(example, found, found.label == label, 1 - probability)


def _labels_of(judged: Judged) -> list[tuple[str, str]]:
    """The labels or tags of an example, each with the predicted one."""
    example, found = judged.example, judged.prediction
    if isinstance(example, TaggedExample):
        return list(zip(example.tags or (), cast(TagPrediction, found).tags))
    if isinstance(example, TextExample) and isinstance(example.label, str):
        return [(example.label, cast(str, cast(LabelPrediction, found).label))]
    return []
