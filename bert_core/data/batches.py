"""From sentences of token ids to batches: pairs, truncation, masking (Devlin et al. 2018, sections 3.1 and A.1-A.2).

Batch k is a function of (seed, k) alone, so any batch can be drawn again, in any order, on any machine. A few array
operations draw a group of batches together, without a Python loop over its rows.

Shapes: S sentences, G batches in a group, B pairs in a batch, R = G * B rows, T tokens, N positions to predict.
"""

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from bert_core.config import DataConfig
from bert_core.data.encoding import IS_NEXT, NOT_NEXT, EncodedCorpus, mix
from bert_core.data.tokenizer import CLS, MASK, PAD, SEP, special_ids
from bert_core.errors import CorpusError

Array = np.ndarray

IGNORED = -100  # label of a position that is not predicted

_PASS_STREAM, _BATCH_STREAM = 0, 1
_KEYS_AT_ONCE = 1_000_000  # sentences
_MIN_BLOCK = 1024  # sentences; several passes through a shorter text are shuffled in one call
_MIN_ROWS = 512  # small batches are drawn together, which spreads the cost of each call


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as int64 tensors, trimmed to the longest pair.

    input_ids, token_type_ids, attention_mask: (B, T). labels: (B, T), the original id at the positions to predict and
    -100 elsewhere. next_sentence_label: (B,), 0 IsNext, 1 NotNext.
    """

    input_ids: Tensor
    token_type_ids: Tensor
    attention_mask: Tensor
    labels: Tensor
    next_sentence_label: Tensor

    def asked(self) -> tuple[Tensor, Tensor]:
        """The positions to predict among all B * T, and their labels: (N,) each."""
        labels = self.labels.flatten()
        positions = (labels != IGNORED).nonzero().squeeze(1)
        return positions, labels[positions]

    def at_length(self, length: int) -> "Batch":
        """The batch padded to `length` tokens."""
        rest = (0, length - self.input_ids.shape[1])
        ids, segments, mask = (F.pad(each, rest) for each in (self.input_ids, self.token_type_ids, self.attention_mask))
        return Batch(ids, segments, mask, F.pad(self.labels, rest, value=IGNORED), self.next_sentence_label)


class PretrainingBatches:
    """An endless sequence of batches: `batches[k]` is the batch of step k, the same at every call.

    In each pass every sentence is the first of a pair once; some are replaced so that half of each batch is IsNext.
    Labelled pairs occur once in a pass and keep their own balance. Raises CorpusError if the text has no two neighbours
    that fit, or no two sentences that are not neighbours.
    """

    def __init__(self, encoded: EncodedCorpus, tokenizer: Tokenizer, config: DataConfig, *, seed: int = 0) -> None:
        self.encoded, self.config, self.seed = encoded, config, seed
        self.short_steps = 0  # pairs of this many first steps have at most config.short_length tokens
        self._longest = config.sequence_length - 3 if config.long_pairs == "drop" else np.inf  # tokens of both sides
        self._special = special_ids(tokenizer)
        vocabulary = np.arange(tokenizer.get_vocab_size())
        self._word_ids = vocabulary[~np.isin(vocabulary, list(self._special.values()))]
        self._has_next = encoded.has_next
        if np.isfinite(self._longest):
            self._has_next[:-1] &= encoded.lengths[:-1] + encoded.lengths[1:] <= self._longest
        # The smallest type saves most of the memory that a long text takes.
        self._with_next = np.flatnonzero(self._has_next).astype(np.min_scalar_type(len(encoded)))
        if len(self._with_next) == 0:
            raise CorpusError(
                f"The text has {len(encoded)} sentences and no two neighbours in the same document that fit "
                f"into {config.sequence_length} tokens; next sentence prediction needs at least two."
            )
        self._pass_length = len(encoded) if encoded.pair_labels is None else len(self._with_next)
        self._true_pairs = self._find_true_pairs()
        if encoded.pair_labels is None and self._has_no_negatives():
            raise CorpusError("All sentences are alike; next sentence prediction needs at least two different ones.")
        self._group = max(1, _MIN_ROWS // config.batch_size)
        self._masks = 0
        self._clear_caches()

    def copy(self, masks: int = 0) -> "PretrainingBatches":
        """The same batches for another thread; both share the text. masks: 1, 2, ... mask other tokens than 0 does."""
        other = copy.copy(self)
        other._masks = masks
        other._clear_caches()
        return other

    def _clear_caches(self) -> None:
        self._orders: dict[int, Array] = {}
        self._last_group: tuple[int, tuple[Array, ...]] = (-1, ())

    @property
    def steps_per_epoch(self) -> float:
        """Number of batches in one pass through all sentences, or through all labelled pairs."""
        return self._pass_length / self.config.batch_size

    def __iter__(self) -> Iterator[Batch]:
        return map(self.__getitem__, itertools.count())

    def __getitem__(self, k: int) -> Batch:
        """The batch of step k (0, 1, 2, ...)."""
        group, number = divmod(k, self._group)
        if group != self._last_group[0]:
            self._last_group = group, self._draw_group(group)
        B = self.config.batch_size
        ids, segments, attended, labels, is_next = (rows[number * B : (number + 1) * B] for rows in self._last_group[1])
        T = attended.sum(1).max()
        arrays = [*(np.ascontiguousarray(array[:, :T]) for array in (ids, segments, attended, labels)), is_next.copy()]
        return Batch(*map(torch.from_numpy, arrays))

    def _draw_group(self, group: int) -> tuple[Array, ...]:
        """All batches of a group as one: the five arrays of a `Batch` with R rows."""
        rng = self._generator(_BATCH_STREAM, group)
        steps = np.arange(group * self._group, (group + 1) * self._group)  # (G,)
        first, second, label = self._draw_pairs(steps, rng)
        lengths = np.where(steps < self.short_steps, self.config.short_length or 0, self.config.sequence_length)
        ids, segments, attended = self._lay_out(first, second, lengths.repeat(self.config.batch_size), rng)
        mask_rng = self._generator(_BATCH_STREAM, group, self._masks) if self._masks else rng
        shown, labels = self._mask(ids, attended, mask_rng)
        return shown, segments, attended, labels, label

    def _generator(self, stream: int, index: int, masks: int = 0) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=self.seed, counter=[0, masks, stream, index]))

    def _draw_pairs(self, steps: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Sentence numbers of both sides, and labels, for the batches of these steps: (R,) each."""
        B, S = self.config.batch_size, len(self.encoded)
        first = self._first_sentences(int(steps[0]) * B, len(steps) * B)
        if self.encoded.pair_labels is not None:
            return first, first + 1, self.encoded.pair_labels[first // 2]
        # (G, B); the number of IsNext pairs of an odd batch is rounded down in even steps and up in odd steps.
        is_next = np.arange(B) < (B + steps[:, None] % 2) // 2
        first = first.reshape(is_next.shape)
        first = np.take_along_axis(first, np.argsort(~self._has_next[first], 1, kind="stable"), 1)
        lacking = is_next & ~self._has_next[first]
        first[lacking] = self._with_next[rng.integers(len(self._with_next), size=lacking.sum())]
        second = np.where(is_next, first + 1, rng.integers(S, size=is_next.shape))
        while (wrong := ~is_next & ~self._is_negative(first, second)).any():
            first[wrong], second[wrong] = rng.integers(S, size=(2, wrong.sum()))
        return first.ravel(), second.ravel(), np.where(is_next, IS_NEXT, NOT_NEXT).ravel()

    def _first_sentences(self, start: int, count: int) -> Array:
        """Items start, start + 1, ... of the endless sequence of shuffled passes through the text, as a copy."""
        passes = -(-_MIN_BLOCK // self._pass_length)
        taken: list[Array] = []
        while count:
            block, offset = divmod(start, self._pass_length * passes)
            if block not in self._orders:
                # Only two blocks are kept: a batch may continue in the next block, never in an earlier one.
                self._orders = {key: value for key, value in self._orders.items() if key == block - 1}
                order = np.tile(np.arange(self._pass_length, dtype=self._with_next.dtype), (passes, 1))
                self._orders[block] = self._generator(_PASS_STREAM, block).permuted(order, axis=1, out=order).ravel()
            part = self._orders[block][offset : offset + count]
            taken.append((part if self.encoded.pair_labels is None else self._with_next[part]).astype(np.int64))
            start, count = start + len(part), count - len(part)
        return np.concatenate(taken)

    def _is_negative(self, first: Array, second: Array) -> Array:
        """Whether each pair fits and its sentences are neighbours nowhere in the text, where sentences may repeat."""
        keys = _pair_keys(self.encoded.texts[first], self.encoded.texts[second])
        index = np.searchsorted(self._true_pairs, keys)
        is_true = self._true_pairs[np.minimum(index, len(self._true_pairs) - 1)] == keys
        return ~is_true & (self.encoded.lengths_of(first) + self.encoded.lengths_of(second) <= self._longest)

    def _find_true_pairs(self) -> Array:
        """Sorted keys of all pairs of neighbours, for a binary search."""
        has_next, texts = self.encoded.has_next, self.encoded.texts
        keys = np.empty(has_next.sum(), np.uint64)
        filled = 0
        for start in range(0, len(has_next), _KEYS_AT_ONCE):  # in parts, because every operation makes a copy
            first = start + np.flatnonzero(has_next[start : start + _KEYS_AT_ONCE])
            keys[filled : filled + len(first)] = _pair_keys(texts[first], texts[first + 1])
            filled += len(first)
        keys.sort()
        return keys

    def _has_no_negatives(self) -> bool:
        """Whether every sentence follows every sentence somewhere, so that no pair can be NotNext."""
        different = np.count_nonzero(np.diff(self._true_pairs)) + 1
        return different == len(np.unique(self.encoded.texts)) ** 2

    def _lay_out(self, first: Array, second: Array, longest: Array, rng: np.random.Generator) -> tuple[Array, ...]:
        """[CLS] A [SEP] B [SEP] of at most `longest` (R,) tokens, and padding: ids, segments and mask, (R, T) each."""
        start, whole_a, whole_b = self.encoded.offsets, *map(self.encoded.lengths_of, (first, second))
        length_a, length_b = truncated_lengths(whole_a, whole_b, longest - 3)
        # Each token that a side loses is removed from its front or its back with equal chance.
        start_a = start[first] + rng.binomial(whole_a - length_a, 0.5)
        start_b = start[second] + rng.binomial(whole_b - length_b, 0.5)
        a, b = length_a[:, None], length_b[:, None]  # (R, 1)
        t = np.arange((length_a + length_b).max() + 3)  # (T,)
        in_second = t > a + 1  # (R, T)
        attended = t < a + b + 3
        source = np.where(in_second, start_b[:, None] + t - a - 2, start_a[:, None] + t - 1)
        ids = self.encoded.ids.take(source, mode="clip").astype(np.int64)
        ids[:, 0] = self._special[CLS]
        ids[(t == a + 1) | (t == a + b + 2)] = self._special[SEP]
        ids[~attended] = self._special[PAD]
        return ids, (in_second & attended).astype(np.int64), attended.astype(np.int64)

    def _mask(self, ids: Array, attended: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Choose positions to predict and mask them: the ids that the model reads, and labels, (R, T) each."""
        config = self.config
        maskable = (attended == 1) & (ids != self._special[CLS]) & (ids != self._special[SEP])
        lengths = attended.sum(1)  # (R,)
        wanted = np.rint(lengths * config.mask_probability).clip(config.min_predictions, config.max_predictions)
        order = np.where(maskable, rng.random(ids.shape), 2.0).argsort(1).argsort(1)
        asked = maskable & (order < wanted[:, None])
        labels = np.where(asked, ids, IGNORED)
        N = int(asked.sum())
        draw = rng.random(N)  # one number chooses between [MASK], random and unchanged, so the fractions are exact
        if config.draw == "batch":
            draw = rng.random(self._group).repeat(config.batch_size)[asked.nonzero()[0]]
        words = self._word_ids[rng.integers(len(self._word_ids), size=N)]
        hidden = np.where(draw < config.mask_share + config.random_share, words, ids[asked])
        hidden[draw < config.mask_share] = self._special[MASK]
        shown = ids.copy()
        shown[asked] = hidden
        return shown, labels


def truncated_lengths(length_a: Array, length_b: Array, room: int | Array) -> tuple[Array, Array]:
    """Lengths of both sides after the longer one loses one token at a time until a + b <= room.

    Of equal sides the second loses a token, as in truncate_seq_pair of google-research/bert.
    """
    a = np.minimum(length_a, np.maximum(room - length_b, -(-room // 2)))
    return a, np.minimum(length_b, room - a)


def _pair_keys(first: Array, second: Array) -> Array:
    """A number for each ordered pair of texts."""
    return mix(first) ^ second
