"""From sentences of token ids to batches: pairs, truncation, masking (Devlin et al. 2018, sections 3.1 and A.1-A.2).

Shapes: S sentences, B batch, T tokens, N asked positions. A batch is a few array operations and no Python loop, and
batch k is a function of (seed, k) alone: any step can be drawn again, in any order, on any machine.
"""

import copy
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

IGNORED = -100  # label of a position that nothing is asked of

_EPOCH_STREAM, _BATCH_STREAM = 0, 1
_AT_ONCE = 1_000_000  # sentences, where there may be many
_MIN_BLOCK = 1024  # a short corpus is shuffled many times at once
_MIN_ROWS = 512  # small batches are drawn several at once


@dataclass(frozen=True)
class Batch:
    """input_ids, token_type_ids, attention_mask: (B, T) int64, trimmed to the longest pair. labels: (B, T), the true
    id where it is asked for and -100 elsewhere. next_sentence_label: (B,), 0 IsNext, 1 NotNext.
    """

    input_ids: Tensor
    token_type_ids: Tensor
    attention_mask: Tensor
    labels: Tensor
    next_sentence_label: Tensor

    def asked(self) -> tuple[Tensor, Tensor]:
        """Places of the asked words among all B * T, and what stood there: (N,) each."""
        labels = self.labels.flatten()
        places = (labels != IGNORED).nonzero().squeeze(1)
        return places, labels[places]

    def at_length(self, length: int) -> "Batch":
        """The batch with padding up to `length` tokens."""
        rest = (0, length - self.input_ids.shape[1])
        ids, segments, mask = (F.pad(each, rest) for each in (self.input_ids, self.token_type_ids, self.attention_mask))
        return Batch(ids, segments, mask, F.pad(self.labels, rest, value=IGNORED), self.next_sentence_label)


class PretrainingBatches:
    """An endless sequence of batches: `batches[k]` is the batch of step k, the same at every call.

    encoded: the text. tokenizer: whose special ids and vocabulary are used. config: sizes and shares. seed: with k
    it decides everything. In every pass each sentence is the first of a pair once, up to the exchange that keeps half
    of each batch IsNext; labelled pairs come each once and keep their own balance. Raises CorpusError when the text
    cannot give both kinds of pairs.
    """

    def __init__(self, encoded: EncodedCorpus, tokenizer: Tokenizer, config: DataConfig, *, seed: int = 0) -> None:
        self.config, self.seed = config, seed
        self.short_steps = 0  # that many steps, from the first, have pairs of config.short_length
        self.encoded = encoded
        self._longest = config.sequence_length - 3 if config.long_pairs == "drop" else np.inf  # tokens of both sides
        self._special = special_ids(tokenizer)
        vocabulary = np.arange(tokenizer.get_vocab_size())
        self._word_ids = vocabulary[~np.isin(vocabulary, list(self._special.values()))]
        self._has_next = encoded.has_next
        if np.isfinite(self._longest):
            fits = encoded.lengths[:-1] + encoded.lengths[1:] <= self._longest
            self._has_next[:-1] &= fits
        # The smallest type saves most of the memory that a long text takes.
        self._starts = np.flatnonzero(self._has_next).astype(np.min_scalar_type(len(encoded)))
        if len(self._starts) == 0:
            raise CorpusError(
                f"The text has {len(encoded)} sentences and no two neighbours in the same document that fit "
                f"into {config.sequence_length} tokens; next sentence prediction needs at least two."
            )
        self._successions = self._find_successions()
        if encoded.pair_labels is None and self._leaves_no_other():
            raise CorpusError("All sentences are alike; next sentence prediction needs at least two different ones.")
        self._group = max(1, _MIN_ROWS // config.batch_size)
        self._masks = 0  # which drawing of the masks this is
        self._forget()

    def another(self, masks: int = 0) -> "PretrainingBatches":
        """The same batches for another reader: the text is shared, and threads may read both at once.

        masks: 1, 2, ... hide other words of the same pairs.
        """
        other = copy.copy(self)
        other._masks = masks
        other._forget()
        return other

    def _forget(self) -> None:
        self._orders: dict[int, np.ndarray] = {}
        self._drawn, self._rows = -1, ()

    @property
    def steps_per_epoch(self) -> float:
        """Batches in which every sentence has been the first of a pair once, or every labelled pair was seen."""
        return self._n_units / self.config.batch_size

    @property
    def _n_units(self) -> int:
        """Length of a pass: the pairs if they are labelled, else the sentences."""
        return len(self._starts) if self.encoded.pair_labels is not None else len(self.encoded)

    def __iter__(self) -> Iterator[Batch]:
        k = 0
        while True:
            yield self[k]
            k += 1

    def __getitem__(self, k: int) -> Batch:
        """The batch of step k (0, 1, 2, ...)."""
        B, group = self.config.batch_size, self._group
        if k // group != self._drawn:
            self._rows, self._drawn = self._draw_group(k // group), k // group
        rows = slice(k % group * B, (k % group + 1) * B)
        ids, segments, attended, labels, label = (array[rows] for array in self._rows)
        T = attended.sum(1).max()
        matrices = (np.ascontiguousarray(array[:, :T]) for array in (ids, segments, attended, labels))
        return Batch(*map(torch.from_numpy, matrices), torch.from_numpy(label.copy()))

    def _draw_group(self, g: int) -> tuple[np.ndarray, ...]:
        """The rows of all batches of group g, below one another: drawing many at once spreads the cost of each call."""
        rng = self._generator(_BATCH_STREAM, g)
        steps = np.arange(g * self._group, (g + 1) * self._group)
        draw = self._draw_pairs if self.encoded.pair_labels is None else self._take_pairs
        first, second, label = draw(steps, rng)
        lengths = np.where(steps < self.short_steps, self.config.short_length or 0, self.config.sequence_length)
        ids, segments, attended = self._lay_out(first, second, lengths.repeat(self.config.batch_size), rng)
        shown, labels = self._mask(
            ids, attended, self._generator(_BATCH_STREAM, g, self._masks) if self._masks else rng
        )
        return shown, segments, attended, labels, label

    def _generator(self, stream: int, index: int, again: int = 0) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=self.seed, counter=[0, again, stream, index]))

    def _take_pairs(self, steps: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `_draw_pairs`, for a text of labelled pairs."""
        B = self.config.batch_size
        first = self._firsts(int(steps[0]) * B, len(steps) * B)
        return first, first + 1, self.encoded.pair_labels[first // 2]

    def _draw_pairs(self, steps: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sentence numbers of both sides and labels for the batches of these steps, (group * B,) each."""
        B, S = self.config.batch_size, len(self._has_next)
        # (group, B): an odd batch rounds down and up in turns
        is_next = np.arange(B) < (B + steps[:, None] % 2) // 2
        first = self._firsts(int(steps[0]) * B, is_next.size).reshape(is_next.shape)
        first = np.take_along_axis(first, np.argsort(~self._has_next[first], 1, kind="stable"), 1)
        lacking = is_next & ~self._has_next[first]
        if lacking.any():
            first[lacking] = self._starts[rng.integers(len(self._starts), size=lacking.sum())]
        second = np.where(is_next, first + 1, rng.integers(S, size=is_next.shape))
        while (wrong := ~is_next & (self._follows(first, second) | self._too_long(first, second))).any():
            count = wrong.sum()
            first[wrong], second[wrong] = rng.integers(S, size=count), rng.integers(S, size=count)
        return first.ravel(), second.ravel(), np.where(is_next, IS_NEXT, NOT_NEXT).ravel()

    def _firsts(self, start: int, count: int) -> np.ndarray:
        """Sentences number start, start + 1, ... of an endless row of shuffled passes through the text (a copy)."""
        S = self._n_units
        passes = -(-_MIN_BLOCK // S)
        block = S * passes
        taken = []
        while count:
            b, at = divmod(start, block)
            if b not in self._orders:
                # Only the newest two are kept: a batch reaches from one block into the next and never back.
                self._orders = {key: value for key, value in self._orders.items() if key == b - 1}
                order = np.tile(np.arange(S, dtype=self._starts.dtype), (passes, 1))
                self._orders[b] = self._generator(_EPOCH_STREAM, b).permuted(order, axis=1, out=order).ravel()
            part = self._orders[b][at : at + count]
            taken.append((part if self.encoded.pair_labels is None else self._starts[part]).astype(np.int64))
            start, count = start + len(taken[-1]), count - len(taken[-1])
        return np.concatenate(taken)

    def _too_long(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Whether a pair is to be left out for its length."""
        return self.encoded.lengths_of(first) + self.encoded.lengths_of(second) > self._longest

    def _find_successions(self) -> np.ndarray:
        """Sorted keys of all pairs of texts that follow one another."""
        has_next, texts = self.encoded.has_next, self.encoded.texts
        keys = np.empty(has_next.sum(), np.uint64)
        filled = 0
        for start in range(0, len(has_next), _AT_ONCE):  # in parts, because every step of it is a copy
            first = start + np.flatnonzero(has_next[start : start + _AT_ONCE])
            keys[filled : filled + len(first)] = _succession(texts[first], texts[first + 1])
            filled += len(first)
        keys.sort()
        return keys

    def _leaves_no_other(self) -> bool:
        """Whether every text follows every text, so that nothing can be NotNext."""
        different = np.count_nonzero(np.diff(self._successions)) + 1
        return different == len(np.unique(self.encoded.texts)) ** 2

    def _follows(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Whether the text of `second` follows the text of `first` anywhere, so also where a sentence is repeated."""
        pair = _succession(self.encoded.texts[first], self.encoded.texts[second])
        place = np.searchsorted(self._successions, pair)
        return self._successions[np.minimum(place, len(self._successions) - 1)] == pair

    def _lay_out(
        self, first: np.ndarray, second: np.ndarray, longest: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """[CLS] A [SEP] B [SEP] of at most `longest` (B,) tokens, and padding: ids, segments and mask, (B, T) each."""
        start, whole_a, whole_b = self.encoded.offsets, *map(self.encoded.lengths_of, (first, second))
        length_a, length_b = truncated_lengths(whole_a, whole_b, longest - 3)
        # Of the tokens that a side loses, each comes from its front or its back with equal chance.
        start_a = start[first] + rng.binomial(whole_a - length_a, 0.5)
        start_b = start[second] + rng.binomial(whole_b - length_b, 0.5)
        a, b = length_a[:, None], length_b[:, None]  # (B, 1)
        t = np.arange((length_a + length_b).max() + 3)  # (T,)
        in_second = t > a + 1
        attended = t < a + b + 3
        source = np.where(in_second, start_b[:, None] + t - a - 2, start_a[:, None] + t - 1)
        ids = self.encoded.ids.take(source, mode="clip").astype(np.int64)
        ids[:, 0] = self._special[CLS]
        ids[(t == a + 1) | (t == a + b + 2)] = self._special[SEP]
        ids[~attended] = self._special[PAD]
        return ids, (in_second & attended).astype(np.int64), attended.astype(np.int64)

    def _mask(self, ids: np.ndarray, attended: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Choose what is asked and hide it: the ids that the model is shown, and the labels, (B, T) each."""
        config = self.config
        maskable = (attended == 1) & (ids != self._special[CLS]) & (ids != self._special[SEP])
        wanted = np.rint(attended.sum(1) * config.mask_probability).clip(
            config.min_predictions, config.max_predictions
        )  # (B,)
        order = np.where(maskable, rng.random(ids.shape), 2.0).argsort(1).argsort(1)
        asked = maskable & (order < wanted[:, None])
        labels = np.where(asked, ids, IGNORED)
        N = int(asked.sum())
        fate = rng.random(N)  # one number decides, so that the three shares are exact
        if config.draw == "batch":
            per_batch = rng.random(self._group).repeat(config.batch_size)  # (group * B,)
            fate = per_batch[asked.nonzero()[0]]
        words = self._word_ids[rng.integers(len(self._word_ids), size=N)]
        hidden = np.where(fate < config.mask_share + config.random_share, words, ids[asked])
        hidden[fate < config.mask_share] = self._special[MASK]
        shown = ids.copy()
        shown[asked] = hidden
        return shown, labels


def truncated_lengths(
    length_a: np.ndarray, length_b: np.ndarray, room: int | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of both sides after the longer one has lost a token again and again until a + b <= room.

    The second side gives way when both are equally long, as in google-research/bert's truncate_seq_pair.
    """
    a = np.minimum(length_a, np.maximum(room - length_b, -(-room // 2)))
    return a, np.minimum(length_b, room - a)


def _succession(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """A number for a pair of texts in this order."""
    return mix(first) ^ second
