"""A training batch as a person reads it: which words were hidden and how, and what a model says to it.

Data are a function of seed and step, so the batch of any step can be drawn again at any time. A batch holds its IsNext
pairs before the others, and its order is nothing to the model: here they are shown in turns, see `interleaved`.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import torch
from tokenizers import Tokenizer
from torch import Tensor

from bert_core.data.batches import IGNORED, IS_NEXT, Batch
from bert_core.data.tokenizer import CLS, MASK, PAD, SEP, special_ids
from bert_core.storage.checkpoint import Checkpoint

Kind = Literal["masked", "replaced", "kept", "untouched", "special", "padding"]


@dataclass(frozen=True)
class RowView:
    """One pair. tokens: (T,) as the model is shown them. kinds: (T,); masked, replaced and kept are asked, untouched,
    special and padding are not. segments: (T,) 0 for sentence A and 1 for B. is_next: whether B follows A in the text.
    labels: the true token at each asked position, by position.
    """

    tokens: tuple[str, ...]
    kinds: tuple[Kind, ...]
    segments: tuple[int, ...]
    is_next: bool
    labels: dict[int, str]


@dataclass(frozen=True)
class Guess:
    """What a model says at an asked position. loss: -ln of the true token's probability, in nats."""

    position: int
    loss: float
    token: str
    probability: float
    is_right: bool


@dataclass(frozen=True)
class RowJudgement:
    """guesses: the best one at each asked position, in reading order. is_next: the probability that B follows A."""

    guesses: tuple[Guess, ...]
    is_next: float


@dataclass(frozen=True)
class BatchView:
    """The batch of a step, or a part of it: a row for each pair, both kinds in turns. step counts from 1. pairs: of the
    whole batch."""

    step: int
    rows: tuple[RowView, ...]
    pairs: int
    _batch: Batch

    @torch.no_grad()
    def judge(self, checkpoint: Checkpoint) -> tuple[RowJudgement, ...]:
        """What a model says to each row, dropout off. A checkpoint of the same run: it must have its vocabulary."""
        batch, model = self._batch, checkpoint.model
        device = model.device
        rows, positions = (batch.labels != IGNORED).nonzero(as_tuple=True)
        truth = batch.labels[rows, positions]
        output = model(
            batch.input_ids.to(device),
            batch.attention_mask.to(device),
            batch.token_type_ids.to(device),
            asked_positions=rows * batch.labels.shape[1] + positions,
        )
        words = output.prediction_logits.float().log_softmax(-1).cpu()  # (N, V)
        is_next = output.seq_relationship_logits.float().softmax(-1)[:, IS_NEXT].tolist()
        best = words.max(-1)
        guesses: list[list[Guess]] = [[] for _ in is_next]
        losses = -words.gather(1, truth[:, None]).squeeze(1)
        columns = (rows, positions, losses, best.indices, best.values.exp(), best.indices == truth)
        for row, position, loss, token, probability, is_right in zip(*(column.tolist() for column in columns)):
            word = checkpoint.tokenizer.id_to_token(token)
            guesses[row].append(Guess(position, loss, word, probability, is_right))
        return tuple(RowJudgement(tuple(found), share) for found, share in zip(guesses, is_next))


def view_batch(batch: Batch, tokenizer: Tokenizer, step: int, rows: slice = slice(None)) -> BatchView:
    """Some pairs of a batch, all by default, with their tokens as text and the kind of each position.

    rows: which of them, in the order of `interleaved`.
    """
    specials, pairs = special_ids(tokenizer), len(batch.input_ids)
    wanted = interleaved(batch.next_sentence_label)[rows]
    batch = Batch(*(getattr(batch, part.name)[wanted] for part in dataclasses.fields(Batch)))
    views = []
    for number in range(len(batch.input_ids)):
        shown, truth, segments = (
            tensor[number].tolist() for tensor in (batch.input_ids, batch.labels, batch.token_type_ids)
        )
        views.append(
            RowView(
                tokens=tuple(map(tokenizer.id_to_token, shown)),
                kinds=tuple(_kind(token, label, specials) for token, label in zip(shown, truth)),
                segments=tuple(segments),
                is_next=int(batch.next_sentence_label[number]) == IS_NEXT,
                labels={i: tokenizer.id_to_token(label) for i, label in enumerate(truth) if label != IGNORED},
            )
        )
    return BatchView(step, tuple(views), pairs, batch)


def interleaved(next_sentence_label: Tensor) -> Tensor:
    """The rows of a batch, (B,), in an order in which IsNext and NotNext come in turns, spread evenly whatever their
    shares; each kind keeps its own order. next_sentence_label: (B,)."""
    places = torch.empty(len(next_sentence_label), dtype=torch.double)
    for kind in next_sentence_label.unique():
        rows = next_sentence_label == kind
        count = int(rows.sum())
        places[rows] = (torch.arange(count, dtype=torch.double) + 0.5) / count
    return places.argsort(stable=True)


def _kind(token: int, label: int, specials: dict[str, int]) -> Kind:
    if label != IGNORED:
        return "masked" if token == specials[MASK] else "kept" if token == label else "replaced"
    if token == specials[PAD]:
        return "padding"
    return "special" if token in (specials[CLS], specials[SEP]) else "untouched"
