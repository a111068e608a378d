"""From pairs of sentences to batches: truncation and masking (Devlin et al. 2018, sections 3.1 and A.1-A.2).

Batch k is a function of (seed, k) alone, so any batch can be drawn again, in any order, on any machine.
Shapes: S sentences, G batches in a group, B pairs in a batch, R = G * B rows, T tokens, N positions to predict."""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from bert_core.config import DataConfig
from bert_core.data.encoding import IGNORED, EncodedCorpus
from bert_core.data.pairs import BATCH_STREAM, PairSampler, generator
from bert_core.data.tokenizer import CLS, MASK, PAD, SEP, special_ids

Array = np.ndarray

_MIN_ROWS = 512  # small batches are drawn together, which spreads the cost of each call


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as int64 tensors, trimmed to the longest pair.

    input_ids, token_type_ids, attention_mask: (B, T). labels: (B, T), the original id at the positions to predict and
    -100 elsewhere. next_sentence_label: (B,), 0 IsNext, 1 NotNext, -100 where it is not asked."""

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


class PretrainingBatches:
    """An endless sequence of batches: `batches[k]` is the batch of step k, the same at every call.

    needs_pairs: False without next sentence prediction, see `PairSampler`. Raises CorpusError as it does."""

    def __init__(
        self, encoded: EncodedCorpus, tokenizer: Tokenizer, config: DataConfig, seed: int = 0, needs_pairs: bool = True
    ) -> None:
        self.encoded, self.config, self.seed = encoded, config, seed
        self.short_steps = 0  # the first steps with pairs of at most config.short_length tokens; `prepare_text` sets it
        self._special = special_ids(tokenizer)
        vocabulary = np.arange(tokenizer.get_vocab_size())
        self._word_ids = vocabulary[~np.isin(vocabulary, list(self._special.values()))]
        self._sampler = PairSampler(encoded, config, seed, needs_pairs)
        self.notes = self._sampler.notes  # what is cut or cannot be asked, one sentence each
        self._group = max(1, _MIN_ROWS // config.batch_size)
        self._last_group: tuple[int, tuple[Array, ...]] = (-1, ())

    def copy(self) -> "PretrainingBatches":
        """The same batches for another thread; both share the text."""
        other = copy.copy(self)
        other._last_group = (-1, ())
        return other

    @property
    def steps_per_epoch(self) -> float:
        """Number of batches in one pass through all sentences that can begin a pair, or through all labelled pairs."""
        return self._sampler.pass_length / self.config.batch_size

    def __getitem__(self, k: int) -> Batch:
        group, number = divmod(k, self._group)
        if group != self._last_group[0]:
            self._last_group = group, self._draw_group(group)
        B = self.config.batch_size
        ids, segments, attended, labels, pair_labels = (
            rows[number * B : (number + 1) * B] for rows in self._last_group[1]
        )
        T = attended.sum(1).max()
        arrays = [np.ascontiguousarray(array[:, :T]) for array in (ids, segments, attended, labels)]
        return Batch(*map(torch.from_numpy, (*arrays, pair_labels.copy())))

    def _draw_group(self, group: int) -> tuple[Array, ...]:
        """The five arrays of a `Batch` for all batches of a group, with R rows."""
        rng = generator(self.seed, BATCH_STREAM, group)
        steps = np.arange(group * self._group, (group + 1) * self._group)  # (G,)
        longest = np.where(steps < self.short_steps, self.config.short_length or 0, self.config.sequence_length)
        sides, pair_labels = self._sampler.draw(steps, longest, rng)
        ids, segments, attended = self._lay_out(sides, longest.repeat(self.config.batch_size), rng)
        shown, labels = self._mask(ids, attended, rng)
        return shown, segments, attended, labels, pair_labels

    def _lay_out(self, sides: Array, longest: Array, rng: np.random.Generator) -> tuple[Array, ...]:
        """[CLS] A [SEP] B [SEP] of at most `longest` (R,) tokens or, where B is empty, [CLS] A [SEP], and padding: ids,
        segments and mask, (R, T) each. sides: (4, R) numbers of sentences, see `PairSampler.draw`."""
        start_a, end_a, start_b, end_b = self.encoded.offsets[sides]
        whole_a, whole_b = end_a - start_a, end_b - start_b
        length_a, length_b = truncated_lengths(whole_a, whole_b, longest - 3)
        # Each token that a side loses is removed from its front or its back with equal chance.
        start_a += rng.binomial(whole_a - length_a, 0.5)
        start_b += rng.binomial(whole_b - length_b, 0.5)
        a, b = length_a[:, None], length_b[:, None]  # (R, 1)
        t = np.arange((length_a + length_b).max() + 3)  # (T,)
        in_second = t > a + 1  # (R, T)
        attended = t < np.where(b > 0, a + b + 3, a + 2)
        source = np.where(in_second, start_b[:, None] + t - a - 2, start_a[:, None] + t - 1)
        ids = self.encoded.ids.take(source, mode="clip").astype(np.int64)
        ids[:, 0] = self._special[CLS]
        ids[(t == a + 1) | (t == a + b + 2)] = self._special[SEP]  # the second one is padding where B is empty
        ids[~attended] = self._special[PAD]
        return ids, (in_second & attended).astype(np.int64), attended.astype(np.int64)

    def _mask(self, ids: Array, attended: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Choose positions to predict and mask them: the ids that the model reads, and labels, (R, T) each."""
        config = self.config
        maskable = (attended == 1) & (ids != self._special[CLS]) & (ids != self._special[SEP])
        lengths = attended.sum(1)  # (R,)
        wanted = np.rint(lengths * config.mask_probability).clip(config.min_predictions, config.max_predictions)
        rank = np.where(maskable, rng.random(ids.shape), 2.0).argsort(1).argsort(1)  # in a random order
        asked = maskable & (rank < wanted[:, None])
        labels = np.where(asked, ids, IGNORED)
        N = int(asked.sum())
        draw = rng.random(N)  # one number chooses between [MASK], random and unchanged, so the fractions are exact
        if config.draw == "batch":  # one for each batch of the group
            draw = rng.random(self._group).repeat(config.batch_size)[asked.nonzero()[0]]
        words = self._word_ids[rng.integers(len(self._word_ids), size=N)]
        replacement = np.where(draw < config.mask_share + config.random_share, words, ids[asked])
        replacement[draw < config.mask_share] = self._special[MASK]
        shown = ids.copy()
        shown[asked] = replacement
        return shown, labels


def truncated_lengths(length_a: Array, length_b: Array, room: int | Array) -> tuple[Array, Array]:
    """Lengths of both sides after the longer one, of equal sides the second, loses one token at a time until
    a + b <= room, as in truncate_seq_pair of google-research/bert."""
    half = (room + 1) // 2  # the larger one, for A
    a = np.minimum(length_a, np.maximum(room - length_b, half))
    return a, np.minimum(length_b, room - a)
