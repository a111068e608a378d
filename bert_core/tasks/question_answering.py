"""The part of a context that answers a question: question-answering, from SQuAD's JSON, versions 1.1 and 2.

A long context is read in overlapping windows, each with the question before it. An answer is the best start and end
over all windows (Devlin et al. 2018, 4.2 and 4.3).
"""

import functools
import heapq
import itertools
import json
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from tokenizers import Encoding
from torch import Tensor

from bert_core.config import FinetuningData
from bert_core.data.tokenizer import end_of_marks
from bert_core.errors import CorpusError, first_three, quoted
from bert_core.storage.untrusted import parse_value, part
from bert_core.tasks import task
from bert_core.tasks.tables import TaskFile
from bert_core.tasks.task import Json, Layout, Metrics, Parts, Row, Verdict, ratio
from bert_core.training.objective import Fractions

_NEAR = 10_000  # characters in which a misplaced answer is searched, since each of many may need the whole context
_LEAST_CONTEXT = 4  # tokens that a window shows of it
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class AnswerExample(task.Example):
    """A question about a context. answers: each text and its first character in the context; empty if there is none,
    and None if the answer is not known."""

    answer: ClassVar[str] = "answers"

    text: str
    context: str
    answers: tuple[tuple[str, int], ...] | None
    name: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        return self.text, self.context

    @property
    def right(self) -> list[str]:
        return [text for text, _ in self.answers or ()]

    def in_words(self, value: Sequence[str]) -> str:
        return " / ".join(dict.fromkeys(value))


@dataclass(frozen=True)
class Answer:
    """A part of the context; an empty text means that the context holds no answer."""

    text: str
    start: int  # its first character
    score: float  # sum of the logits of its first and last token
    probability: float = 1.0  # softmax over the candidates of the question


@dataclass(frozen=True)
class AnswerPrediction(task.Prediction):
    """The likeliest answers to a question, the best first; at least one."""

    answers: tuple[Answer, ...]

    @property
    def value(self) -> list[str]:
        return [self.answers[0].text]


class BertForQuestionAnswering(task.BertForTask):
    """A score for each token as the first and as the last one of the answer: logits (R, T, 2)."""

    has_dropout = False

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None, **more: Any
    ) -> Tensor:
        """As the base class; no answer starts or ends in the padding, which has the logits -inf."""
        logits = super().forward(input_ids, attention_mask, token_type_ids, **more)
        return logits if attention_mask is None else logits.masked_fill(attention_mask[..., None] == 0, -math.inf)


class QuestionAnswering(task.Task[AnswerExample, AnswerPrediction]):
    """The first and the last token of the answer, or [CLS] as both for none."""

    name = "question-answering"
    example = AnswerExample
    model = BertForQuestionAnswering
    measure = "f1"
    form = "SQuAD's JSON"
    keeps_characters = True  # an answer's place is counted in them

    def read(self, file: TaskFile) -> list[AnswerExample]:
        try:
            content = parse_value(file.text, file.most)
        except ValueError as error:
            line = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise CorpusError(f"{file.name} is not JSON ({line}); save it in SQuAD's format.") from None
        examples: list[AnswerExample] = []
        moved = dropped = 0
        for number, (context, entry) in enumerate(_questions(content, file.name)):
            question, answers = entry["question"].strip(), None
            wrong = functools.partial(_wrong, file, number, entry)
            if not question or not context or context.isspace():
                raise wrong(" with an empty text", "fill it in or take it out")
            if file.labelled:
                answers = _answers(entry, context, wrong)
                given = [each["answer_start"] for each in entry["answers"]] if answers else []
                dropped += len(part(entry, "answers", list, [])) - len(answers)
                moved += sum(start != place for start, (_, place) in zip(given, answers))
            examples.append(AnswerExample(question, context, answers, str(entry.get("id") or "")))
        if impossible := sum(each.answers == () for each in examples):
            file.notes.append(f"Questions without an answer in their context: {impossible:,}.")
        if dropped:
            file.notes.append(f"Answers left out because is_impossible is true: {dropped:,}.")
        if moved:
            file.notes.append(f"Answers whose answer_start was wrong, now at the nearest occurrence: {moved:,}.")
        return examples

    def rows_of(self, example: AnswerExample, number: int, texts: Sequence[Encoding], layout: Layout) -> list[Row]:
        config, context = layout.config, texts[1]
        asked = texts[0].ids[: config.question_length]
        before = len(asked) + 2
        room = config.sequence_length - before - 1
        if room < _LEAST_CONTEXT:
            raise CorpusError(
                f"A question of {len(asked)} tokens leaves {max(0, room)} for its context; the model reads "
                f"{config.sequence_length}. Set data.question_length to {config.sequence_length // 2}."
            )
        spans = np.array(context.offsets, np.int64).reshape(-1, 2)
        stride = min(config.stride or room // 2, room)
        starts = range(0, max(1, len(spans) - room + stride), stride)  # until a window reaches the end
        windows = [slice(start, min(start + room, len(spans))) for start in starts]
        # How much context a window shows on a token's poorer side; a hundredth for a long window, as Google's code.
        score = np.full((len(windows), len(spans)), -1.0)
        for row, window in zip(score, windows):
            inside = np.arange(window.stop - window.start)
            row[window] = np.minimum(inside, inside[::-1]) + 0.01 * len(inside)
        text, first = example.answers[0] if example.answers else ("", 0)
        answer = np.flatnonzero((spans[:, 1] > first) & (spans[:, 0] < first + len(text)))  # its tokens
        rows: list[Row] = []
        for i, window in enumerate(windows):
            offsets = np.pad(spans[window], ((before, 1), (0, 0)), constant_values=-1)
            widest = np.pad(score[:, window].argmax(0) == i, (before, 1))
            target = None
            if example.answers is not None:
                target = np.zeros((1, 2), np.int64)  # [CLS]: the window does not hold the answer
                if text and len(answer) and window.start <= answer[0] and answer[-1] < window.stop:
                    target[0] = answer[[0, -1]] - window.start + before
            ids = [layout.cls, *asked, layout.sep, *context.ids[window], layout.sep]
            rows.append(Row(ids, before, number, target, offsets=offsets, widest=widest))
        return rows

    def doubts(self, examples: Sequence[AnswerExample], rows: Sequence[Row], config: FinetuningData) -> list[str]:
        targets = ((row.example, row.target[0]) for row in rows if row.target is not None and row.target.any())
        lengths = {example: end - start + 1 for example, (start, end) in targets}  # of answers that a window holds
        lost = sum(i not in lengths for i, each in enumerate(examples) if each.answers)
        long = sum(length > config.longest_answer for length in lengths.values())
        return [
            *[f"Answers that no window of data.sequence_length holds, learned as no answer: {lost:,}."] * bool(lost),
            *[f"Answers longer than data.longest_answer, which no prediction can match: {long:,}."] * bool(long),
        ]

    def numbers(self, logits: Tensor, target: Tensor) -> Fractions:
        return super().numbers(logits.transpose(1, 2).flatten(0, 1), target.flatten())  # starts and ends in turn

    def decode(self, example: AnswerExample, parts: Parts, layout: Layout) -> AnswerPrediction:
        best, longest = layout.config.best_answers, layout.config.longest_answer
        return AnswerPrediction(tuple(best_answers(example.context, parts, best, longest, layout.may_be_missing)))

    def measures(self, right: Sequence, found: Sequence, labels: Sequence[str] = ()) -> Metrics:
        """exact_match and f1, as SQuAD's script (version 2) computes them: "" is right where no answer has a word."""
        accepted = [list(filter(None, map(_words, answers))) or [[]] for answers in right]
        guesses = [_words(answer) for [answer] in found]
        best = (max(_f1(each, guess) for each in answers) for answers, guess in zip(accepted, guesses))
        exact = sum(guess in answers for answers, guess in zip(accepted, guesses))
        return {"exact_match": ratio(exact, len(guesses)), "f1": ratio(sum(best), len(guesses))}

    def judge(self, example: AnswerExample, found: AnswerPrediction, labels: Sequence[str]) -> Verdict:
        measures = self.measures([example.right], [found.value])
        return measures["exact_match"] == 1, 1 - measures["f1"]

    def as_json(self, example: AnswerExample, found: AnswerPrediction, labels: Sequence[str]) -> Json:
        best, *_ = n_best = [
            {"answer": each.text, "start": each.start, "probability": each.probability} for each in found.answers
        ]
        return {**({"id": example.name} if example.name else {}), **best, "n_best": n_best}


def squad_predictions(examples: Sequence[AnswerExample], found: Sequence[AnswerPrediction]) -> dict[str, str]:
    """The best answer to each question by its id, as SQuAD's own evaluation reads it; "" for none."""
    return {example.name: each.answers[0].text for example, each in zip(examples, found)}


def check_ids(examples: Sequence[AnswerExample], name: str) -> None:
    """Raise CorpusError unless each question has an id of its own. name: of their file."""
    counts = Counter(each.name for each in examples)
    if missing := counts[""]:
        raise CorpusError(f"{name} has {missing:,} questions without an id; SQuAD's evaluation needs one for each.")
    if repeated := [quoted(each) for each, count in counts.items() if count > 1]:
        raise CorpusError(f"{name} has several questions with the same id: {first_three(repeated)}; give each its own.")


def _questions(content: object, name: str) -> Iterator[tuple[str, Json]]:
    """Each question with its context, once its types are checked."""

    def listed(value: object, key: str) -> list[Json]:
        entries = value.get(key) if isinstance(value, dict) else None
        if type(entries) is not list or {*map(type, entries)} - {dict}:
            raise CorpusError(f"{name} lacks a list {key!r}; SQuAD's format is data, paragraphs, qas.")
        return entries

    for article in listed(content, "data"):
        for paragraph in listed(article, "paragraphs"):
            for entry in listed(paragraph, "qas"):
                if {type(paragraph.get("context")), type(entry.get("question"))} != {str}:
                    raise CorpusError(f"{name} has a paragraph without a context or a question; add them as texts.")
                yield paragraph["context"], entry


def _wrong(file: TaskFile, number: int, entry: Json, problem: str, remedy: str) -> CorpusError:
    """An error about a question, with its line. number: from 0."""
    keys = re.finditer(r'(?<!\\)"question"\s*:', file.text)
    found = next(itertools.islice(keys, number, None), None)  # None: a letter of the key is written as \\u0071
    line = 1 + file.text.count("\n", 0, found.start() if found else 0)
    return file.wrong(line, f"has the question {quoted(entry.get('id', entry['question']))}{problem}", remedy)


def _answers(entry: Json, context: str, wrong: Callable[..., CorpusError]) -> tuple[tuple[str, int], ...]:
    if not isinstance(impossible := entry.get("is_impossible"), bool | None):
        raise wrong(f", whose is_impossible is {quoted(json.dumps(impossible))}", "write true or false")
    given = [] if impossible else entry.get("answers")
    if not isinstance(given, list):
        raise wrong(" without a list of answers", "add one, or is_impossible")
    answers = []
    for answer in given:
        match answer:
            case {"text": str(words), "answer_start": int(start)} if words.strip() and type(start) is int:
                place = start if context.startswith(words, max(0, start)) else _nearest(context, words, start)
            case _:
                raise wrong(" with an answer without a text and an answer_start", "add them")
        if place is None:
            where = f"near its answer_start, {start}" if words in context else "in its context"
            raise wrong(f", whose answer {quoted(words)} is not {where}", "correct it")
        answers.append((words, place))
    return tuple(answers)


def _nearest(context: str, words: str, start: int) -> int | None:
    """The occurrence of an answer that is nearest to `start`, among those up to 10,000 characters from it."""
    start = min(max(0, start), len(context))
    first, last = max(0, start - _NEAR), start + _NEAR + len(words)
    before, after = context.rfind(words, first, start + len(words)), context.find(words, start, last)
    found = [position for position in (before, after) if position >= 0]
    return min(found, key=lambda position: abs(position - start), default=None)


def best_answers(
    context: str, windows: Parts, best: int = 20, longest: int = 30, may_be_missing: bool = False
) -> list[Answer]:
    """The likeliest answers to one question, the best first; at least one. Each starts where its window shows the most
    context, and lies inside the context.

    windows: each with its logits, (T, 2) for T tokens. best: how many of the likeliest starts and ends of a window are
    combined, and how many answers are returned. longest: of an answer in tokens. may_be_missing: "no answer" is a
    candidate too, with the lowest score that a window's [CLS] has (SQuAD 2).
    """
    found: dict[tuple[int, int], float] = {}
    for row, logits in windows:
        assert row.offsets is not None
        assert row.widest is not None
        inside = row.offsets[:, 0] >= 0
        ends = _best(logits[:, 1], inside, best)
        for start in _best(logits[:, 0], inside & row.widest, best):
            for end in ends:
                if start <= end < start + longest:
                    span = int(row.offsets[start, 0]), end_of_marks(context, int(row.offsets[end, 1]))
                    found[span] = max(found.get(span, -math.inf), float(logits[start, 0] + logits[end, 1]))
    candidates = [Answer(context[a:b], a, score) for (a, b), score in found.items()]
    if may_be_missing or not candidates:
        candidates.append(Answer("", 0, min(float(logits[0].sum()) for _, logits in windows)))
    chosen = heapq.nlargest(best, candidates, key=lambda answer: answer.score)
    weights = [math.exp(answer.score - chosen[0].score) for answer in chosen]
    total = math.fsum(weights)
    return [Answer(each.text, each.start, each.score, weight / total) for each, weight in zip(chosen, weights)]


def _best(scores: np.ndarray, allowed: np.ndarray, count: int) -> list[int]:
    positions = np.flatnonzero(allowed)
    return positions[np.argsort(-scores[positions], kind="stable")[:count]].tolist()


def _words(answer: str) -> list[str]:
    return _ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split()


def _f1(words: list[str], others: list[str]) -> float:
    if not words or not others:
        return float(words == others)
    return 2 * (Counter(words) & Counter(others)).total() / (len(words) + len(others))
