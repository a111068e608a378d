"""Answers as parts of the context: the best start and end over all windows (Devlin et al. 2018, 4.2 and 4.3).

Shapes: T tokens of a window.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bert_core.data.tokenizer import end_of_marks
from bert_core.finetuning.features import Row


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


def best_answers(
    context: str,
    windows: Sequence[tuple[Row, np.ndarray]],
    *,
    best: int = 20,
    longest: int = 30,
    may_be_missing: bool = False,
) -> list[Answer]:
    """The likeliest answers to one question, the best first; at least one.

    windows: each with its logits, (T, 2). best: how many of the likeliest starts and ends of a window are combined, and
    how many answers are returned. longest: of an answer in tokens. may_be_missing: "no answer" is a candidate too, with
    the lowest score that a window's [CLS] has (SQuAD 2). An answer starts where its window shows the most context,
    lies inside the context and does not end before it starts.
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
