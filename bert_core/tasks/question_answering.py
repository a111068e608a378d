"""The part of a context that answers a question: question-answering, from SQuAD's JSON, versions 1.1 and 2.

A long context is read in overlapping windows, each with the question before it. An answer is the best start and end
over all windows (Devlin et al. 2018, 4.2 and 4.3).
"""

import heapq
import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError
from tokenizers import Encoding
from torch import Tensor

from bert_core.config import FinetuningData
from bert_core.data.tokenizer import end_of_marks
from bert_core.errors import CorpusError, first_three, quoted
from bert_core.storage.untrusted import parse_value
from bert_core.tasks import task
from bert_core.tasks.tables import TaskFile
from bert_core.tasks.task import Answer, Json, Layout, Metrics, Parts, Prediction, Row, Verdict, ratio
from bert_core.training.objective import Fractions

_NEAR = 10_000  # characters in which a misplaced answer is searched, since each of many may need the whole context
_LEAST_CONTEXT = 4  # tokens that a window shows of it
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class AnswerExample(task.Example):
    """A question about a context. label: the text of each answer and its first character in the context; empty if there
    is none, and None if the answer is not known."""

    text: str
    context: str
    label: tuple[tuple[str, int], ...] | None
    name: str = ""
    line: int = 0  # SQuAD's JSON does not count them

    @property
    def texts(self) -> tuple[str, ...]:
        return self.text, self.context


_Text = Annotated[str, Field(pattern=r"\S")]


class _Answer(BaseModel):
    text: _Text
    answer_start: int


class _Question(BaseModel):
    question: _Text
    id: str | int | None = None
    answers: list[_Answer] | None = None
    is_impossible: bool | None = None


class _Paragraph(BaseModel):
    context: _Text
    qas: list[_Question]


class _Article(BaseModel):
    paragraphs: list[_Paragraph]


class _Squad(BaseModel):
    """The fields of SQuAD's JSON that are read."""

    data: list[_Article]


class BertForQuestionAnswering(task.BertForTask):
    """A score for each token as the first and as the last one of the answer: logits (R, T, 2)."""

    has_dropout = False

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None, **more: Any
    ) -> Tensor:
        """As the base class; no answer starts or ends in the padding, which has the logits -inf."""
        logits = super().forward(input_ids, attention_mask, token_type_ids, **more)
        return logits if attention_mask is None else logits.masked_fill(attention_mask[..., None] == 0, -math.inf)


class QuestionAnswering(task.Task):
    """The first and the last token of the answer, or [CLS] as both for none."""

    name = "question-answering"
    example = AnswerExample
    model = BertForQuestionAnswering
    measure = "f1"
    form = "SQuAD's JSON"
    keeps_characters = True  # an answer's place is counted in them

    def read(self, file: TaskFile) -> list[AnswerExample]:
        try:
            content = _Squad.model_validate(parse_value(file.text), strict=True)
        except ValidationError as error:
            where, what = (error.errors()[0][each] for each in ("loc", "msg"))
            place = ".".join(map(str, where))
            raise CorpusError(f"{file.name} is not in SQuAD's format ({place}: {what}); correct it there.") from None
        except ValueError as error:
            raise CorpusError(f"{file.name} is not JSON ({error}); save it in SQuAD's format.") from None
        examples: list[AnswerExample] = []
        moved = dropped = 0
        paragraphs = (paragraph for article in content.data for paragraph in article.paragraphs)
        for context, asked in ((paragraph.context, asked) for paragraph in paragraphs for asked in paragraph.qas):
            given = [] if asked.is_impossible else asked.answers
            dropped += len(asked.answers or ()) if asked.is_impossible else 0
            if file.labelled and given is None:
                raise CorpusError(f"{file.name} has no answers to {quoted(asked.question.strip())}; add them.")
            answers = list[tuple[str, int]]()
            for answer in (given or ()) if file.labelled else ():
                start = _nearest(context, answer.text, answer.answer_start)
                if start is None:
                    raise CorpusError(
                        f"{file.name} has the answer {quoted(answer.text)}, which is not near its answer_start, "
                        f"{answer.answer_start}; correct it."
                    )
                answers.append((answer.text, start))
                moved += start != answer.answer_start
            label = tuple(answers) if file.labelled else None
            examples.append(AnswerExample(asked.question.strip(), context, label, str(asked.id or "")))
        file.count("Questions without an answer in their context", sum(each.label == () for each in examples))
        file.count("Answers left out because is_impossible is true", dropped)
        file.count("Answers whose answer_start was wrong, now at the nearest occurrence", moved)
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
        text, first = example.label[0] if example.label else ("", 0)
        answer = np.flatnonzero((spans[:, 1] > first) & (spans[:, 0] < first + len(text)))  # its tokens
        rows: list[Row] = []
        for i, window in enumerate(windows):
            offsets = np.pad(spans[window], ((before, 1), (0, 0)), constant_values=-1)
            widest = np.pad(score[:, window].argmax(0) == i, (before, 1))
            target = None
            if example.label is not None:
                target = np.zeros((1, 2), np.int64)  # [CLS]: the window does not hold the answer
                if text and len(answer) and window.start <= answer[0] and answer[-1] < window.stop:
                    target[0] = answer[[0, -1]] - window.start + before
            ids = [layout.cls, *asked, layout.sep, *context.ids[window], layout.sep]
            lost = len(texts[0].ids) - len(asked) if i == 0 else 0
            rows.append(Row(ids, before, number, target, offsets=offsets, widest=widest, lost=lost))
        return rows

    def doubts(self, examples: Sequence[AnswerExample], rows: Sequence[Row], config: FinetuningData) -> list[str]:
        targets = ((row.example, row.target[0]) for row in rows if row.target is not None and row.target.any())
        lengths = {example: end - start + 1 for example, (start, end) in targets}  # of answers that a window holds
        lost = sum(i not in lengths for i, each in enumerate(examples) if each.label)
        long = sum(length > config.longest_answer for length in lengths.values())
        return [
            *[f"Answers that no window of data.sequence_length holds, learned as no answer: {lost:,}."] * bool(lost),
            *[f"Answers longer than data.longest_answer, which no prediction can match: {long:,}."] * bool(long),
        ]

    def numbers(self, logits: Tensor, target: Tensor) -> Fractions:
        return super().numbers(logits.transpose(1, 2).flatten(0, 1), target.flatten())  # starts and ends in turn

    def chance(self, rows: Sequence[Row]) -> float:
        """The loss of an answer that may as well be anywhere."""
        return float(np.mean([math.log(len(row.ids)) for row in rows]))

    def decode(self, example: AnswerExample, parts: Parts, layout: Layout) -> Prediction:
        best, longest = layout.config.best_answers, layout.config.longest_answer
        found = best_answers(example.context, parts, best, longest, layout.may_be_missing)
        return Prediction(found[0].text, answers=tuple(found))

    def measures(self, right: Sequence, found: Sequence, labels: Sequence[str] = ()) -> Metrics:
        """exact_match and f1, as SQuAD's script (version 2) computes them: "" is right where no answer has a word."""
        accepted = [[words for text, _ in answers if (words := _words(text))] or [[]] for answers in right]
        guesses = [_words(answer) for answer in found]
        best = (max(_f1(each, guess) for each in answers) for answers, guess in zip(accepted, guesses))
        exact = sum(guess in answers for answers, guess in zip(accepted, guesses))
        return {"exact_match": ratio(exact, len(guesses)), "f1": ratio(sum(best), len(guesses))}

    def always(self, right: Sequence) -> tuple[str, Sequence]:
        return "that there is no answer", [""] * len(right)

    def judge(self, example: AnswerExample, found: Prediction, labels: Sequence[str]) -> Verdict:
        measures = self.measures([example.label], [found.label])
        return measures["exact_match"] == 1, 1 - measures["f1"]

    def as_json(self, example: AnswerExample, found: Prediction, labels: Sequence[str]) -> Json:
        best, *_ = n_best = [
            {"answer": each.text, "start": each.start, "probability": each.probability} for each in found.answers
        ]
        return {**({"id": example.name} if example.name else {}), **best, "n_best": n_best}


def squad_predictions(examples: Sequence[AnswerExample], found: Sequence[Prediction]) -> dict[str, str]:
    """The best answer to each question by its id, as SQuAD's own evaluation reads it; "" for none."""
    return {example.name: each.label for example, each in zip(examples, found)}


def check_ids(examples: Sequence[AnswerExample], name: str) -> None:
    """Raise CorpusError unless each question has an id of its own. name: of their file."""
    counts = Counter(each.name for each in examples)
    if missing := counts[""]:
        raise CorpusError(f"{name} has {missing:,} questions without an id; SQuAD's evaluation needs one for each.")
    if repeated := [quoted(each) for each, count in counts.items() if count > 1]:
        raise CorpusError(f"{name} has several questions with the same id: {first_three(repeated)}; give each its own.")


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
