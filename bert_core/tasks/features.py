"""From labelled examples to rows of tokens with targets, as the paper lays them out (Devlin et al. 2018, 4).

A text or a pair is one row, a choice example one row for each choice. A long context is read in overlapping windows,
each with the question before it; a long tagged sentence is read in parts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from tokenizers import Encoding, Tokenizer

from bert_core.config import FinetuningData
from bert_core.data.batches import truncated_lengths
from bert_core.data.tokenizer import CLS, SEP, plain, special_ids
from bert_core.errors import CorpusError
from bert_core.tasks.examples import AnswerExample, ChoiceExample, Example, TaggedExample, TaskData, TextExample

_AT_ONCE = 10_000  # texts
_LEAST_CONTEXT = 4  # tokens that a window shows of it


@dataclass(frozen=True)
class Row:
    """[CLS] A [SEP] or [CLS] A [SEP] B [SEP], with what the model learns for it.

    ids: all tokens. second: index of the first token of B, or the number of tokens. example: index of its example.
    target: (1,) the label's id, the number or the index of the right choice; (1, L) 1.0 for each of several labels;
    (2,) the tokens where the answer starts and ends; (M,) label ids of tagged words; None without labels. positions:
    for tagged words (M,), the first token of each word. words: for tagged words, their indices in the sentence.
    offsets: for windows, (T, 2), the first character of each token in the context and that after its last one; -1
    outside the context. widest: for windows, (T,), whether no other window shows the token with more context on both
    sides.
    """

    ids: Sequence[int]
    second: int
    example: int
    target: np.ndarray | None = None
    positions: np.ndarray | None = None
    words: np.ndarray | None = None
    offsets: np.ndarray | None = None
    widest: np.ndarray | None = None


def task_rows(data: TaskData, labels: Sequence[str], tokenizer: Tokenizer, config: FinetuningData) -> list[Row]:
    """The rows of all examples, in their order.

    labels: the label of each id, from `TaskData.labels`. Raises CorpusError for a label that is not among them.
    """
    data.check_labels(labels)
    return _Reader(labels, tokenizer, config).rows(data.examples)


class _Reader:
    def __init__(self, labels: Sequence[str], tokenizer: Tokenizer, config: FinetuningData) -> None:
        self.ids = {label: i for i, label in enumerate(labels)}
        self.config = config
        self.tokenizer = plain(tokenizer)
        self.cls, self.sep = (special_ids(tokenizer)[token] for token in (CLS, SEP))

    def rows(self, examples: Sequence[Example]) -> list[Row]:
        rows: list[Row] = []
        for start in range(0, len(examples), _AT_ONCE):
            part = examples[start : start + _AT_ONCE]
            first = self._encode([each.words if isinstance(each, TaggedExample) else each.text for each in part])
            others = iter(self._encode([text for each in part for text in _second_texts(each)]))
            for number, (example, encoding) in enumerate(zip(part, first), start):
                seconds: list[Encoding | None] = [next(others) for _ in _second_texts(example)]
                if isinstance(example, AnswerExample):
                    rows += self._windows(number, example, encoding, cast(Encoding, seconds[0]))
                elif isinstance(example, TaggedExample):
                    rows += self._parts(number, example, encoding)
                else:
                    target = self._target(example)
                    rows += [self._row(number, encoding.ids, each, target) for each in seconds or [None]]
        return rows

    def _encode(self, texts: Iterable[str | Sequence[str]]) -> list[Encoding]:
        texts = list(texts)
        is_split = bool(texts) and not isinstance(texts[0], str)
        return self.tokenizer.encode_batch(texts, add_special_tokens=False, is_pretokenized=is_split)

    def _target(self, example: TextExample | ChoiceExample) -> np.ndarray | None:
        label = example.label
        if label is None:
            return None
        if isinstance(label, tuple):
            return np.array([[float(name in label) for name in self.ids]])
        return np.array([self.ids[label] if isinstance(label, str) else label])

    def _row(self, example: int, a: Sequence[int], second: Encoding | None, target: np.ndarray | None) -> Row:
        """One or two texts, the end of the longer one cut."""
        room = self.config.sequence_length - (2 if second is None else 3)
        b = [] if second is None else second.ids
        length_a, length_b = (int(each) for each in truncated_lengths(np.array(len(a)), np.array(len(b)), room))
        ids = [self.cls, *a[:length_a], self.sep, *b[:length_b], *([] if second is None else [self.sep])]
        return Row(ids, length_a + 2, example, target)

    def _windows(self, number: int, example: AnswerExample, question: Encoding, context: Encoding) -> list[Row]:
        asked = question.ids[: self.config.question_length]
        before = len(asked) + 2
        room = self.config.sequence_length - before - 1
        if room < _LEAST_CONTEXT:
            raise CorpusError(
                f"A question of {len(asked)} tokens leaves {max(0, room)} for its context; the model reads "
                f"{self.config.sequence_length}. Set data.question_length to {self.config.sequence_length // 2}."
            )
        spans = np.array(context.offsets, np.int64).reshape(-1, 2)
        starts = _window_starts(len(spans), room, self.config.stride or room // 2)
        # How much context a window shows on a token's poorer side; a hundredth for a long window, as Google's code.
        score = np.full((len(starts), len(spans)), -1.0)
        for row, start in zip(score, starts):
            length = min(room, len(spans) - start)
            inside = np.arange(length)
            row[start : start + length] = np.minimum(inside, length - 1 - inside) + 0.01 * length
        answer = _answer_tokens(example, spans)
        rows: list[Row] = []
        for window, start in enumerate(starts):
            part = slice(start, min(start + room, len(spans)))
            length = part.stop - part.start
            offsets = np.full((before + length + 1, 2), -1)
            offsets[before:-1] = spans[part]
            widest = np.zeros(len(offsets), bool)
            widest[before:-1] = score[:, part].argmax(0) == window
            target = None
            if example.answers is not None:
                target = np.zeros(2, np.int64)  # [CLS]: the window does not hold the answer
                if answer is not None and start <= answer[0] and answer[1] < part.stop:
                    target = np.array(answer) - start + before
            ids = [self.cls, *asked, self.sep, *context.ids[part], self.sep]
            rows.append(Row(ids, before, number, target, offsets=offsets, widest=widest))
        return rows

    def _parts(self, number: int, example: TaggedExample, encoding: Encoding) -> list[Row]:
        room = self.config.sequence_length - 2
        word_of = np.array([-1 if word is None else word for word in encoding.word_ids], np.int64)
        begins = np.flatnonzero(np.diff(word_of, prepend=-1))  # the first token of each word that has any
        tags = None if example.tags is None else np.array([self.ids[tag] for tag in example.tags])
        rows: list[Row] = []
        start = 0
        while start < len(word_of) or not rows:
            stop = min(start + room, len(word_of))
            if stop < len(word_of):  # at the last word that begins inside, unless it is the only one
                inside = begins[(begins > start) & (begins <= stop)]
                stop = int(inside[-1]) if len(inside) else stop
            first = begins[(begins >= start) & (begins < stop)]
            words = word_of[first]
            target = None if tags is None else tags[words]
            ids = [self.cls, *encoding.ids[start:stop], self.sep]
            rows.append(Row(ids, len(ids), number, target, first - start + 1, words))
            start = stop
            if not len(word_of):
                break
        return rows


def _second_texts(example: Example) -> Sequence[str]:
    if isinstance(example, ChoiceExample):
        return example.choices
    if isinstance(example, AnswerExample):
        return (example.context,)
    return (example.pair,) if isinstance(example, TextExample) and example.pair is not None else ()


def _window_starts(tokens: int, room: int, stride: int) -> list[int]:
    """The first token of each window: `stride` apart, until one reaches the end."""
    count = 1 + max(0, -(-(tokens - room) // min(stride, room)))
    return [i * min(stride, room) for i in range(count)]


def _answer_tokens(example: AnswerExample, spans: np.ndarray) -> tuple[int, int] | None:
    """The first and last token of the first answer, or None without one."""
    if not example.answers:
        return None
    text, start = example.answers[0]
    touched = np.flatnonzero((spans[:, 1] > start) & (spans[:, 0] < start + len(text)))
    return (int(touched[0]), int(touched[-1])) if len(touched) else None
