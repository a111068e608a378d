"""The last stage of a fine-tuned model: the numbers of its task's own layer, and the answer that they make.

Shapes: T tokens of the followed row, D hidden size, L labels, C choices."""

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from balcony.frame.question import Question
from balcony.parts.task_input import example_of, hint_of
from balcony.server.probe_lock import probe_lock
from bert_core.errors import InputError
from bert_core.storage.checkpoint import Checkpoint
from bert_core.storage.weights import TASK_HEADS
from bert_core.tasks.prediction import layout_of, task_logits, task_of, task_rows
from bert_core.tasks.question_answering import REFUSED, best_positions, refusals, span_of
from bert_core.tasks.task import Example, Layout, Prediction, Row

MOST_ANSWERS = 10
MOST_ENDS = 8  # starts and ends that are combined in the table
MOST_PAIRS = 12  # in the table, that may be an answer
MOST_REFUSED = 4  # for each reason
NOTHING = "no answer"
ENDS = ("Start logit", "End logit")
OUTRANKED = "not among the best answers, or another pair gives the same words a higher score"
_POOLED = (
    "The last layer's vector at [[[CLS]]], or of some models the mean of all vectors, passes through the [[pooler]], a "
    "matrix and tanh. "
)
TASK_TEXTS = {
    "text-classification": _POOLED
    + "The task's own layer makes a [[score]] (logit) of it for each label, and [[softmax]] turns the scores into "
    "probabilities.",
    "text-regression": _POOLED + "The task's own layer makes one number of it, the answer.",
    "multiple-choice": "Each choice stands in a row of its own, after the sentence. "
    + _POOLED
    + "The task's own layer makes one [[score]] (logit) of it. [[Softmax]] over the scores of all rows makes them "
    "probabilities.",
    "question-answering": "The task's own layer makes two [[score|scores]] (logits) of each token's last vector: as "
    "the first and as the last token of the answer. The score of an answer is the sum of both; of all that are "
    "allowed, in all windows, the highest wins.",
    "token-classification": "The task's own layer makes a [[score]] (logit) of each token's last vector for each tag, "
    "and [[softmax]] turns the scores of a token into probabilities. The first piece of a word gives the word's tag.",
}
# Python for the last stage; {head} is the name of the task's layer.
_CHOICES = "[checkpoint.model.{head}(follow(checkpoint, row.inputs).pooled) for row in rows]"
_WINDOWS = "[checkpoint.model.{head}(follow(checkpoint, row.inputs).states[-1]).detach().numpy() for row in rows]"
TASK_LINES = {
    "text-classification": ("checkpoint.model.{head}(found.pooled).softmax(-1)  # without softmax: the logits, (L,)",),
    "text-regression": ("checkpoint.model.{head}(found.pooled)  # (1,)",),
    "multiple-choice": (f"logits = torch.cat({_CHOICES})", "logits.softmax(-1)  # (C,)"),
    "question-answering": (
        "logits = checkpoint.model.{head}(found.states[-1])  # (T, 2): as the start and as the end",
        f"windows = list(zip(rows, {_WINDOWS}))",
        "best_answers({context!r}, windows, {best}, {longest}, {may_be_missing})",
    ),
    "token-classification": (
        "logits = checkpoint.model.{head}(found.states[-1])  # (T, L)",
        "logits.softmax(-1)[t]  # of each tag, at token t",
    ),
}


@dataclass(frozen=True)
class TaskInput:
    """An example as the model reads it. at: the followed one of its rows."""

    example: Example
    rows: Sequence[Row]
    at: int

    @property
    def row(self) -> Row:
        return self.rows[self.at]


def task_input(checkpoint: Checkpoint, question: Question) -> TaskInput:
    """The question's example. Raises InputError where a part of it is missing, and as `task_rows`."""
    if (example := example_of(checkpoint, question)) is None:
        raise InputError(hint_of(checkpoint))
    rows = task_rows(checkpoint, example)
    return TaskInput(example, rows, max(0, min(question.row, len(rows) - 1)))


def layer_of(checkpoint: Checkpoint) -> tuple[str, nn.Linear, bool]:
    """The name of the task's layer, the layer, and whether it reads the pooler."""
    assert checkpoint.head is not None
    name, has_pooler = TASK_HEADS[checkpoint.head.architecture]
    layer = checkpoint.model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    return name, layer, has_pooler


def task_value(checkpoint: Checkpoint, given: TaskInput, token: int) -> dict[str, Any]:
    """What the last stage shows of an example, with the vectors "task", the logits of the followed row (of choices, of
    all rows) and "task_probability", their softmax: of tokens (T, L) or (T, 2), else (L,) or (C,)."""
    task, layout, row = task_of(checkpoint), layout_of(checkpoint), given.row
    every = [dataclasses.replace(each, positions=None, words=None) for each in given.rows]
    with probe_lock:
        found = task_logits(checkpoint, every, len(every) if task.has_choices else 1)
    parts = [(each, own if each.positions is None else own[each.positions]) for each, own in zip(given.rows, found)]
    prediction, logits = task.decode(given.example, parts, layout), found[0 if task.has_choices else given.at]
    shares = torch.from_numpy(logits).softmax(0 if row.offsets is not None else -1).numpy()
    labels = given.example.texts[1:] if task.has_choices else layout.labels or ENDS[: logits.shape[-1]]
    answers = [(name, float(share)) for name, share in zip(labels, shares if logits.ndim == 1 else shares[token])]
    if row.offsets is not None:
        answers = [(each.text or NOTHING, each.probability) for each in prediction.answers]
    is_number = isinstance(prediction.label, float)
    return {
        "name": task.name,
        "rows": len(given.rows),
        "row": given.at,
        "labels": [] if is_number else list(labels),
        "number": prediction.label if is_number else None,
        "answers": [] if is_number else sorted(answers, key=lambda each: -each[1])[:MOST_ANSWERS],
        "is_of_tokens": logits.ndim == 2,
        "why": reasons(row, len(row.ids)) if logits.ndim == 2 else [],
        "pairs": pairs_of(given, logits, prediction, layout) if row.offsets is not None else [],
        "longest": layout.config.longest_answer,
        "lost": sum(each.lost for each in given.rows),
        "vectors": {"task": torch.from_numpy(logits), "task_probability": torch.from_numpy(shares)},
    }


def reasons(row: Row, count: int) -> list[str]:
    """Of each token why the model is not asked there: of an answer as its start, of tags at all; "" where it is."""
    if row.offsets is not None:
        every = np.arange(count)
        return [REFUSED[i] for i in refusals(row, every, every, count).diagonal()]
    asked = set() if row.positions is None else set(row.positions.tolist())
    edges = (0, count - 1)
    return ["" if i in asked else "special token" if i in edges else "later piece of a word" for i in range(count)]


def pairs_of(given: TaskInput, logits: np.ndarray, found: Prediction, layout: Layout) -> list[dict[str, Any]]:
    """The best starts and ends of the followed window in pairs, the best first, each with its probability or why it is
    no answer: MOST_PAIRS that the rules allow, and MOST_REFUSED for each rule that refuses some."""
    row, context, answers = given.row, given.example.texts[1], {(each.start, each.text): each for each in found.answers}
    assert row.widest is not None
    every = np.ones(len(logits), bool)
    starts, ends = (
        np.union1d(best_positions(scores, allowed, MOST_ENDS), best_positions(scores, every, MOST_ENDS))
        for scores, allowed in zip(logits.T, (row.inside & row.widest, row.inside))
    )
    shown = defaultdict[str, list[dict[str, Any]]](list)
    for (i, j), code in np.ndenumerate(refusals(row, starts, ends, layout.config.longest_answer)):
        start, end, text, probability, why = int(starts[i]), int(ends[j]), "", None, REFUSED[code]
        score = float(logits[start, 0] + logits[end, 1])
        if not code:
            a, b = span_of(context, row, start, end)
            text, answer = context[a:b], answers.get((a, context[a:b]))
            if answer is None or answer.score > score:
                why = OUTRANKED
            else:
                probability = answer.probability
        pair = {"start": start, "end": end, "text": text, "score": score, "probability": probability, "why": why}
        shown[REFUSED[code]].append(pair)
    for pairs in shown.values():
        pairs.sort(key=lambda each: -each["score"])
    some = [each for why, pairs in shown.items() for each in pairs[: MOST_REFUSED if why else MOST_PAIRS]]
    return sorted(some, key=lambda each: -each["score"])


def rows_code(given: TaskInput) -> str:
    """Python for the rows of an example."""
    texts = given.example.texts
    return f"rows = task_rows(checkpoint, {texts if len(texts) > 1 else texts[0]!r})"


def task_lines(checkpoint: Checkpoint, given: TaskInput) -> list[str]:
    layout = layout_of(checkpoint)
    names = {
        "head": layer_of(checkpoint)[0],
        "context": given.example.texts[-1],
        "best": layout.config.best_answers,
        "longest": layout.config.longest_answer,
        "may_be_missing": layout.may_be_missing,
    }
    return [line.format(**names) for line in TASK_LINES[task_of(checkpoint).name]]
