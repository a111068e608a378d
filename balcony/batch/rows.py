"""A training batch as text: which tokens were masked and how, and a model's answers to it.

Data are a function of seed and step, so the batch of any step can be drawn again at any time. A batch holds its IsNext
pairs before the others. The model does not see the order of rows, so views show both kinds interleaved.

Shapes: B pairs, T tokens, M asked positions of the batch.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tokenizers import Tokenizer
from torch import Tensor

from bert_core.data.batches import Batch
from bert_core.data.encoding import IGNORED, IS_NEXT
from bert_core.data.tokenizer import CLS, MASK, PAD, SEP, special_ids
from bert_core.probes.forward import likeliest, scores_of
from bert_core.probes.reading import token_text
from bert_core.storage.checkpoint import Checkpoint

Kind = Literal["masked", "replaced", "kept", "untouched", "special", "padding"]


@dataclass(frozen=True)
class RowView:
    """A pair of segments A and B, of a sentence or more each, or A alone."""

    ids: tuple[int, ...]  # (T,)
    tokens: tuple[str, ...]  # (T,) as the model reads them
    kinds: tuple[Kind, ...]  # (T,); masked, replaced and kept tokens are asked, the others are not
    segments: tuple[int, ...]  # (T,) 0 for A and 1 for B
    is_next: bool | None  # whether B follows A in the text; None where that is not asked
    labels: dict[int, str]  # the true tokens by asked position
    number: int  # its row in the whole batch, from 0


@dataclass(frozen=True)
class AskedGuess:
    """A model's best guess at an asked position."""

    position: int
    loss: float  # -ln of the label's probability, in nats
    token: str
    probability: float
    is_right: bool


@dataclass(frozen=True)
class RowJudgement:
    """A model's answers to a row."""

    guesses: tuple[AskedGuess, ...]  # one for each asked position, in reading order
    is_next: float  # the probability that B follows A


@dataclass(frozen=True)
class BatchView:
    """A batch, or a part of it."""

    rows: tuple[RowView, ...]  # one for each pair, in the order of `interleaved`
    shape: tuple[int, int]  # (B, T) of the whole batch
    asked: int  # M of the whole batch
    _batch: Batch

    def judge(self, checkpoint: Checkpoint) -> tuple[RowJudgement, ...]:
        """A model's answers to each row, without dropout. The checkpoint must have the vocabulary of the batch."""
        batch = self._batch
        positions, labels = batch.asked()  # (M,)
        words, pairs = scores_of(checkpoint, (batch.input_ids, batch.attention_mask, batch.token_type_ids), positions)
        guesses: list[list[AskedGuess]] = [[] for _ in self.rows]
        for at, label, scores in zip(positions.tolist(), labels.tolist(), words):
            row, position = divmod(at, batch.labels.shape[1])
            [(token, probability)] = likeliest(checkpoint, scores, 1)
            is_right = token == self.rows[row].labels[position]
            guesses[row].append(AskedGuess(position, -scores[label].item(), token, probability, is_right))
        is_next = pairs.softmax(-1)[:, IS_NEXT].tolist()
        return tuple(RowJudgement(tuple(found), p) for found, p in zip(guesses, is_next, strict=True))


def view_batch(batch: Batch, tokenizer: Tokenizer, rows: slice = slice(None)) -> BatchView:
    """The pairs `rows` of a batch, in the order of `interleaved`, with their tokens as text and their kinds."""
    B, T = batch.input_ids.shape
    M = len(batch.asked()[0])
    wanted = interleaved(batch.next_sentence_label)[rows]
    batch = Batch(*(getattr(batch, field.name)[wanted] for field in dataclasses.fields(Batch)))
    specials, views = special_ids(tokenizer), []
    tensors = batch.input_ids, batch.labels, batch.token_type_ids, batch.next_sentence_label, wanted
    for ids, labels, segments, label, number in zip(*(tensor.tolist() for tensor in tensors)):
        tokens = tuple(token_text(tokenizer, token) for token in ids)
        kinds = tuple(_kind(token, true, specials) for token, true in zip(ids, labels))
        asked = {i: token_text(tokenizer, true) for i, true in enumerate(labels) if true != IGNORED}
        is_next = None if label == IGNORED else label == IS_NEXT
        views.append(RowView(tuple(ids), tokens, kinds, tuple(segments), is_next, asked, number))
    return BatchView(tuple(views), (B, T), M, batch)


def interleaved(next_sentence_label: Tensor) -> Tensor:
    """The rows of a batch, (B,), in an order that spreads IsNext and NotNext evenly over it, however many there are of
    each; each kind keeps its own order. next_sentence_label: (B,)."""
    alike = (next_sentence_label[:, None] == next_sentence_label).double()  # (B, B)
    middles = (alike.tril().sum(1) - 0.5) / alike.sum(1)  # (i - 1/2) / n for the i-th of n rows of a kind
    return middles.argsort(stable=True)


def shape_rows(tensors: Mapping[str, tuple[str, str]], sizes: Mapping[str, int]) -> list[list[str]]:
    """[name, shape in letters, sizes, what it has] of each tensor. tensors: by name, the letters of each, such as
    "B, T", and what it has. sizes: of each letter; what is no letter is a number."""
    rows = []
    for name, (letters, text) in tensors.items():
        each = letters.split(", ")
        size = " × ".join(f"{sizes[letter]:,}" if letter in sizes else letter for letter in each)
        rows.append([name, f"({letters},)" if len(each) == 1 else f"({letters})", size, text])
    return rows


def _kind(token: int, label: int, specials: dict[str, int]) -> Kind:
    if label != IGNORED:
        return "masked" if token == specials[MASK] else "kept" if token == label else "replaced"
    if token == specials[PAD]:
        return "padding"
    return "special" if token in (specials[CLS], specials[SEP]) else "untouched"
