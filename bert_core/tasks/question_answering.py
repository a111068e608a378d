"""The part of a context that answers a question: question-answering, from SQuAD's JSON, versions 1.1 and 2. A long
context is read in overlapping windows, each with the question before it, or after it with `context_first`. An answer is
the best start and end over all windows (Devlin et al. 2018, 4.2 and 4.3)."""

import heapq
import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Encoding
from torch import Tensor

from bert_core.data.tokenizer import end_of_marks
from bert_core.errors import CorpusError
from bert_core.storage.untrusted import Json, parse_value
from bert_core.tasks.tables import TaskFile
from bert_core.tasks.task import Answer, BertForTask, Example, Layout, Metrics, Parts, Prediction, Row, Task, ratio
from bert_core.training import Fractions

REFUSED = (  # why a start and an end are no answer
    "",
    "outside the context",
    "another window shows more context around the start",
    "the end is before the start",
    "longer than the limit",
)
_LEAST_CONTEXT = 4  # tokens that a window shows of it
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class BertForQuestionAnswering(BertForTask):
    """A score for each token as the first and as the last one of the answer: logits (R, T, 2)."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None, **more: Any
    ) -> Tensor:
        """As the base class; no answer starts or ends in the padding, which has the logits -inf."""
        logits = super().forward(input_ids, attention_mask, token_type_ids, **more)
        return logits if attention_mask is None else logits.masked_fill(attention_mask[..., None] == 0, -math.inf)


class QuestionAnswering(Task):
    """The first and the last token of the answer, or [CLS] as both for none."""

    name = "question-answering"
    model = BertForQuestionAnswering
    measure = "f1"
    form = "SQuAD's JSON"
    texts = range(2, 3)  # a question and its context

    def read(self, file: TaskFile) -> list[Example]:
        examples: list[Example] = []
        try:
            content: Any = parse_value(file.text)
            paragraphs = [paragraph for article in content["data"] for paragraph in article["paragraphs"]]
            for context, asked in ((each["context"], asked) for each in paragraphs for asked in each["qas"]):
                question, is_known = asked["question"].strip(), file.labelled and asked.get("is_impossible") is not True
                given = [(each["text"], each["answer_start"]) for each in (asked["answers"] if is_known else ())]
                label = [(text, i) for text, i in given if text.strip() and i >= 0 and context.startswith(text, i)]
                if not (question and context.strip()):
                    raise ValueError
                if given and not label:
                    file.counts["Questions left out because no answer is at its answer_start"] += 1
                else:
                    answers = tuple(label) if file.labelled else None
                    examples.append(Example((question, context), answers, name=str(asked.get("id") or "")))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise CorpusError(
                f"{file.name} is not SQuAD's JSON; write contexts, questions and answers in that form."
            ) from None
        file.counts["Questions without an answer in their context"] = sum(each.label == () for each in examples)
        return examples

    def rows_of(self, example: Example, number: int, texts: Sequence[Encoding], layout: Layout) -> list[Row]:
        config, context = layout.config, texts[1]
        asked = texts[0].ids[: config.question_length]
        room = config.sequence_length - len(asked) - 3
        # Tokens before and after the context.
        before, after = (1, len(asked) + 2) if config.context_first else (len(asked) + 2, 1)
        if room < _LEAST_CONTEXT:
            raise CorpusError(
                f"A question of {len(asked)} tokens leaves {max(0, room)} for its context; the model reads "
                f"{config.sequence_length}. Set data.question_length to {config.sequence_length // 2}."
            )
        spans = np.array(context.offsets, np.int64).reshape(-1, 2)
        stride = min(config.stride or room // 2, room)
        starts = range(0, max(1, len(spans) - room + stride), stride)  # until a window reaches the end
        windows = [range(start, min(start + room, len(spans))) for start in starts]
        # How much context a window shows on a token's poorer side; a hundredth for a long window, as Google's code.
        score = np.full((len(windows), len(spans)), -1.0)
        for row, window in zip(score, windows):
            inside = np.arange(len(window))
            row[window] = np.minimum(inside, inside[::-1]) + 0.01 * len(inside)
        text, first = example.label[0] if example.label else ("", 0)
        answer = np.flatnonzero((spans[:, 1] > first) & (spans[:, 0] < first + len(text)))  # its tokens
        holds = [len(answer) and window.start <= answer[0] and answer[-1] < window.stop for window in windows]
        lost = len(texts[0].ids) - len(asked) + max(1, len(answer)) * (text != "" and not any(holds))
        rows: list[Row] = []
        for i, window in enumerate(windows):
            target = None if example.label is None else np.zeros((1, 2), np.int64)  # [CLS]: the answer is not here
            if target is not None and holds[i]:
                target[0] = answer[[0, -1]] - window.start + before
            offsets = np.pad(spans[window], ((before, after), (0, 0)), constant_values=-1)
            widest = np.pad(score[:, window].argmax(0) == i, (before, after))
            a, b = [*asked, layout.sep], [*context.ids[window.start : window.stop], layout.sep]
            a, b = (b, a) if config.context_first else (a, b)
            ids, second = [layout.cls, *a, *b], len(a) + 1
            shown = Row(ids, second, number, target, offsets=offsets, widest=widest, window=window)
            rows.append(replace(shown, lost=lost) if i == 0 else shown)
        return rows

    def numbers(self, logits: Tensor, target: Tensor) -> Fractions:
        return super().numbers(logits.transpose(1, 2).flatten(0, 1), target.flatten())  # starts and ends in turn

    def decode(self, example: Example, parts: Parts, layout: Layout) -> Prediction:
        best, longest = layout.config.best_answers, layout.config.longest_answer
        found = best_answers(example.texts[1], parts, best, longest, layout.may_be_missing)
        return Prediction(found[0].text, answers=tuple(found))

    def measures(self, right: Sequence[Any], found: Sequence[Any], labels: Sequence[str] = ()) -> Metrics:
        """exact_match and f1, as SQuAD's script (version 2) computes them: "" is right where no answer has a word."""
        accepted = [[words for text, _ in answers if (words := _words(text))] or [[]] for answers in right]
        guesses = [_words(answer) for answer in found]
        best = (max(_f1(each, guess) for each in answers) for answers, guess in zip(accepted, guesses))
        exact = sum(guess in answers for answers, guess in zip(accepted, guesses))
        return {"exact_match": ratio(exact, len(guesses)), "f1": ratio(sum(best), len(guesses))}

    def always(self, right: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        return "that there is no answer", [""] * len(right)

    def judge(self, example: Example, found: Prediction, labels: Sequence[str]) -> tuple[bool | None, float]:
        measures = self.measures([example.label], [found.label])
        return measures["exact_match"] == 1, 1 - measures["f1"]

    def as_json(self, example: Example, found: Prediction, labels: Sequence[str]) -> Json:
        best, *_ = n_best = [
            {"answer": each.text, "start": each.start, "probability": each.probability} for each in found.answers
        ]
        return {**({"id": example.name} if example.name else {}), **best, "n_best": n_best}


def best_answers(
    context: str, windows: Parts, best: int = 20, longest: int = 30, may_be_missing: bool = False
) -> list[Answer]:
    """The likeliest answers to one question, the best first; at least one. Each starts where its window shows the most
    context. windows: each with its logits, (T, 2) for T tokens. best: how many of the likeliest starts and ends of a
    window are combined, and how many answers are returned. longest: of an answer in tokens. may_be_missing: "no answer"
    is a candidate too, with the lowest score that a window's [CLS] has (SQuAD 2)."""
    found: dict[tuple[int, int], float] = {}
    for row, logits in windows:
        for each in candidates(context, row, logits, best, longest):
            found[each.span] = max(found.get(each.span, -math.inf), each.score)
    answers = [Answer(context[a:b], a, score) for (a, b), score in found.items()]
    if may_be_missing or not answers:
        answers.append(Answer("", 0, min(float(logits[0].sum()) for _, logits in windows)))
    chosen = heapq.nlargest(best, answers, key=lambda answer: answer.score)
    weights = [math.exp(answer.score - chosen[0].score) for answer in chosen]
    total = math.fsum(weights)
    return [Answer(each.text, each.start, each.score, weight / total) for each, weight in zip(chosen, weights)]


class Candidate(NamedTuple):
    """A start and an end that a window proposes. start, end: positions in its row. span: characters of the context."""

    start: int
    end: int
    score: float  # the sum of both logits
    span: tuple[int, int]


def candidates(context: str, row: Row, logits: np.ndarray, best: int = 20, longest: int = 30) -> list[Candidate]:
    """What a window proposes, the best first, before `best_answers` chooses among all windows; arguments as there."""
    starts = best_positions(logits[:, 0], row.inside & row.widest, best)
    ends = best_positions(logits[:, 1], row.inside, best)
    allowed = np.argwhere(refusals(row, starts, ends, longest) == 0)
    pairs = [(int(starts[i]), int(ends[j])) for i, j in allowed]
    found = [Candidate(i, j, float(logits[i, 0] + logits[j, 1]), span_of(context, row, i, j)) for i, j in pairs]
    return sorted(found, key=lambda each: -each.score)


def best_positions(scores: np.ndarray, allowed: np.ndarray, count: int) -> np.ndarray:
    """The allowed positions with the highest scores, the best first."""
    positions = np.flatnonzero(allowed)
    return positions[np.argsort(-scores[positions], kind="stable")[:count]]


def refusals(row: Row, starts: np.ndarray, ends: np.ndarray, longest: int) -> np.ndarray:
    """Why a start with an end is no answer, (starts, ends), as indices of REFUSED; 0 where it may be one."""
    assert row.widest is not None
    outside, lengths = ~row.inside, ends - starts[:, None] + 1
    rules = (outside[starts, None] | outside[ends], ~row.widest[starts, None], lengths < 1, lengths > longest)
    return np.select(rules, range(1, len(REFUSED)), 0)


def span_of(context: str, row: Row, start: int, end: int) -> tuple[int, int]:
    """The characters of the context from one token of a window to another."""
    assert row.offsets is not None
    return int(row.offsets[start, 0]), end_of_marks(context, int(row.offsets[end, 1]))


def _words(answer: str) -> list[str]:
    return _ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split()


def _f1(words: list[str], others: list[str]) -> float:
    if not words or not others:
        return float(words == others)
    return 2 * (Counter(words) & Counter(others)).total() / (len(words) + len(others))
