"""From an encoded text to batches: which sentences stand together as A and B, truncation and masking (Devlin et al.
2018, sections 3.1 and A.1-A.2).

Neither side alone may give the label away: the A of a NotNext pair has a next sentence too, and its B follows another
one, except in the fraction OUTSIDE of the pairs and where all that follow another one follow A too. A swapped pair,
NotNext as well, is two neighbours in the wrong order (ALBERT, Lan et al. 2019, section 3.1). Where no B is found that
never follows A, nothing is asked of the pair.

Batch k is a function of (seed, k) alone, so any batch can be drawn again, in any order, on any machine.

Shapes: S sentences, N pairs of neighbours or positions to predict, G steps or batches in a group, B pairs in a batch,
R = G * B rows, T tokens."""

import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from tokenizers import Tokenizer
from torch import Tensor

from bert_core.config import DataConfig
from bert_core.data.encoding import IGNORED, IS_NEXT, NOT_NEXT, EncodedCorpus
from bert_core.data.tokenizer import CLS, MASK, PAD, SEP, special_ids
from bert_core.errors import CorpusError, percent

Array = np.ndarray

# Of NotNext pairs, this fraction has the last sentence of a document as A, and this fraction the first one as B: 1 % of
# all pairs. Without them a model does not learn that nothing follows the last sentence.
OUTSIDE = 0.01
SHORT = 0.1  # fraction of packed pairs that are shorter, as in create_pretraining_data of google-research/bert

PASS_STREAM, BATCH_STREAM, TRIAL_STREAM = 0, 1, 2
_MIN_BLOCK = 1024  # sentences; several passes through a shorter text are shuffled in one call
_DRAWS = 64  # of a B that turns out to follow A; in the second half, from all sentences
_TRIED = 1024  # sentences for which a B is drawn on trial
_MANY_FAIL = 0.01  # of the sentences tried
_FEW_PAIRS = 0.2  # of the sentences
_MIN_ROWS = 512  # small batches are drawn together, which spreads the cost of each call


def generator(seed: int, stream: int, index: int) -> Generator:
    """A generator that depends on nothing but its arguments."""
    return Generator(np.random.Philox(key=seed, counter=[0, 0, stream, index]))


class PairSampler:
    """Draws the pairs of any step.

    In each pass every sentence that can begin A does so once. Labelled pairs occur once too and keep their own balance.
    needs_pairs: False without next sentence prediction; a sentence that can be in no pair is then A alone, with an
    empty B. notes: what is cut or cannot be asked, one sentence each. Raises CorpusError if the text has no IsNext or
    no NotNext pair that fits."""

    def __init__(self, encoded: EncodedCorpus, config: DataConfig, seed: int, needs_pairs: bool) -> None:
        self.encoded, self.config, self.seed = encoded, config, seed
        has_labels, most = encoded.pair_labels is not None, config.sequence_length - 3
        self._is_packed = config.segments == "packed" and not has_labels
        self._most_tokens = most if config.long_pairs == "drop" else np.inf  # of A and B, or the pair is not drawn
        neighbours = np.flatnonzero(encoded.has_next)  # (N,)
        sizes = encoded.lengths[neighbours] + encoded.lengths[neighbours + 1]
        self._can_end_a = neighbours[sizes <= self._most_tokens]  # sentences that another one follows
        possible = self._can_end_a
        if not (needs_pairs or has_labels):
            possible = np.flatnonzero(encoded.lengths <= self._most_tokens)
        self._starts = {n: self._starts_of(possible, n) for n in (config.sequence_length, config.short_length) if n}
        if not self.pass_length:
            raise CorpusError(
                f"The text has {len(encoded):,} sentences, of which no two neighbours in a document fit into "
                f"{config.sequence_length} tokens. Take out blank lines between them, which end documents, raise "
                "sequence_length, or set nsp_weight to 0."
            )
        self._order = functools.lru_cache(2)(self._draw_order)
        self._true_pairs = np.sort(self._keys(neighbours, neighbours + 1))  # for a binary search
        self.notes = (*self._notes(sizes),) if needs_pairs else ()

    @property
    def pass_length(self) -> int:
        return len(self._starts[self.config.sequence_length])

    def _notes(self, sizes: Array) -> Iterator[str]:
        """What is cut or cannot be asked. sizes: (N,) tokens of neighbours."""
        N, S = len(sizes), len(self.encoded)
        longest, pair_labels = self.config.sequence_length, self.encoded.pair_labels
        if N < _FEW_PAIRS * S and pair_labels is None:
            yield (
                f"Only {N:,} of the {S:,} sentences have a next one in their document, so next sentence prediction "
                "learns no more than these pairs. Blank lines end documents; take out those between sentences."
            )
        long = int((sizes > longest - 3).sum())
        if long and not self._is_packed:
            lost = "lose their ends" if self.config.long_pairs == "crop" else "are left out"
            yield f"{long:,} of the {N:,} pairs of neighbours have more than {longest} tokens and {lost}."
        if pair_labels is not None:
            return
        rng = generator(self.seed, TRIAL_STREAM, 0)
        last = self._can_end_a[rng.integers(len(self._can_end_a), size=_TRIED)]
        sides, label = np.stack([last, last + 1, last + 1, last + 2]), np.full(_TRIED, IGNORED)
        self._draw_negatives(sides, label, np.arange(_TRIED), np.full(_TRIED, longest), rng)
        failed = float((label == IGNORED).mean())
        if failed == 1:
            raise CorpusError("Next sentence prediction needs two different sentences that never follow each other.")
        if failed > _MANY_FAIL:
            yield (
                f"For {percent(failed)} of the sentences no other was found that never follows them, so that less is "
                "asked about them."
            )

    def draw(self, steps: Array, longest: Array, rng: Generator) -> tuple[Array, Array]:
        """The pairs of consecutive steps, (G,), of at most `longest` tokens each, (G,): sentence numbers, (4, R), of
        start and end of A, start and end of B, which may be empty; and IS_NEXT, NOT_NEXT or IGNORED, (R,)."""
        B = self.config.batch_size
        start = np.concatenate([self._in_passes(*each) for each in zip(longest.tolist(), (steps * B).tolist())])
        if self.encoded.pair_labels is not None:
            return np.stack([start, start + 1, start + 1, start + 2]), self.encoded.pair_labels[start // 2]
        limits = longest.repeat(B)  # (R,)
        cut, end = self._cut(start, limits - 3, rng)
        # The number of IsNext pairs of an odd batch is rounded down in even steps and up in odd steps.
        is_next = (np.arange(B) < (B + steps[:, None] % 2) // 2).ravel() & (cut < end)
        sides, label = np.stack([start, cut, cut, end]), np.where(is_next, IS_NEXT, IGNORED)  # until a B is found
        rows = np.flatnonzero(~is_next & (cut < end))
        if self.config.negatives == "swapped":  # unless A follows B somewhere in the text
            can_swap = self._can_be_negative(end[rows] - 1, start[rows])
            at, rows = rows[can_swap], rows[~can_swap]
            sides[:, at], label[at] = np.roll(sides[:, at], 2, axis=0), NOT_NEXT
        self._draw_negatives(sides, label, rows, limits, rng)
        if not self._is_packed:  # seldom, A is the last sentence of a document
            at, ends = rows[rng.random(len(rows)) < OUTSIDE], self.encoded.document_offsets[1:] - 1
            last, second = ends[rng.integers(len(ends), size=len(at))], rng.integers(len(self.encoded), size=len(at))
            fits = self._can_be_negative(last, second)
            sides[:, at[fits]] = np.stack([last, last + 1, second, second + 1])[:, fits]
            label[at[fits]] = NOT_NEXT
        return sides, label

    def _in_passes(self, longest: int, first: int) -> Array:
        """The starts of A of a batch: the items from `first` on of the endless sequence of shuffled passes."""
        items, size = np.arange(first, first + self.config.batch_size), len(self._order(longest, 0))
        blocks = range(items[0] // size, items[-1] // size + 1)
        return np.concatenate([self._order(longest, block)[items[items // size == block] % size] for block in blocks])

    def _draw_order(self, longest: int, block: int) -> Array:
        """Some shuffled passes through the starts of A."""
        starts = self._starts[longest]
        passes = np.tile(starts, (-(-_MIN_BLOCK // len(starts)), 1))
        return generator(self.seed, PASS_STREAM, block).permuted(passes, axis=1).ravel()

    def _starts_of(self, possible: Array, longest: int) -> Array:
        """Those that begin A; when packing, where the document fills `longest` tokens, or at a shorter one's start."""
        if not self._is_packed:
            return possible
        offsets, documents = self.encoded.offsets, self.encoded.document_offsets
        following = np.searchsorted(documents, possible, "right")  # the number of the next document
        is_full = offsets[documents[following]] - offsets[possible] >= longest - 3
        return possible[is_full | (documents[following - 1] == possible)]

    def _end(self, start: Array, tokens: Array) -> Array:
        """The end of two sentences or, when packing, of as many as have `tokens` tokens, in the same document."""
        offsets, documents = self.encoded.offsets, self.encoded.document_offsets
        end = np.maximum(np.searchsorted(offsets, offsets[start] + tokens), start + 2) if self._is_packed else start + 2
        return np.minimum(end, documents[np.searchsorted(documents, start, "right")])

    def _cut(self, start: Array, room: Array, rng: Generator) -> tuple[Array, Array]:
        """The ends of A, at a random sentence, and of the B that follows; both are equal for a sentence alone."""
        if self._is_packed:
            room = np.where(rng.random(len(start)) < SHORT, rng.integers(2, room + 1), room)
        end = self._end(start, room)
        low, high = np.searchsorted(self._can_end_a, [start, end - 1])  # of the candidates for the last sentence of A
        chosen = low + (rng.random(len(start)) * (high - low)).astype(np.int64)
        can_pair, cut = low < high, start + 1
        cut[can_pair] = self._can_end_a[chosen[can_pair]] + 1
        return cut, np.where(can_pair, end, cut)

    def _draw_negatives(self, sides: Array, label: Array, rows: Array, longest: Array, rng: Generator) -> None:
        """Give the pairs in `rows` a B that never follows A and, when packing, is about as long as the true one. Those
        for which no draw finds one stay as they are."""
        tokens = self.encoded.offsets[sides[3]] - self.encoded.offsets[sides[2]]  # (R,)
        for number in range(_DRAWS):
            if not len(rows):
                return
            start, end = self._draw_seconds(tokens[rows], longest[rows], number >= _DRAWS // 2, rng)
            fits = self._can_be_negative(sides[1, rows] - 1, start)
            at = rows[fits]
            sides[2:, at], label[at] = (start[fits], end[fits]), NOT_NEXT
            rows = rows[~fits]

    def _draw_seconds(self, tokens: Array, longest: Array, anywhere: bool, rng: Generator) -> tuple[Array, Array]:
        """Start and end of random B's. anywhere: of all sentences; otherwise they follow another one or, seldom, are
        the first of a document; when packing, they end a random window such as IsNext pairs are."""
        count, offsets = len(tokens), self.encoded.offsets
        if anywhere:
            start = rng.integers(len(self.encoded), size=count)
            return start, self._end(start, tokens) if self._is_packed else start + 1
        if not self._is_packed:
            start = self._can_end_a[rng.integers(len(self._can_end_a), size=count)] + 1
            firsts = self.encoded.document_offsets[:-1]
            start = np.where(rng.random(count) < OUTSIDE, firsts[rng.integers(len(firsts), size=count)], start)
            return start, start + 1
        window = np.empty_like(tokens)
        for length, starts in self._starts.items():
            rows = longest == length
            window[rows] = starts[rng.integers(len(starts), size=rows.sum())]
        end = self._end(window, longest - 3)
        start = np.searchsorted(offsets, offsets[end] - tokens, "right") - 1  # at least `tokens` tokens, if possible
        latest = np.maximum(end - 1, window)  # B has a sentence at least
        earliest = np.minimum(window + 1, latest)  # and, where it can, one before it in its window
        return start.clip(earliest, latest), end

    def _can_be_negative(self, last: Array, second: Array) -> Array:
        """Whether each pair fits and its sentences are neighbours nowhere in the text, where sentences may repeat."""
        keys = self._keys(last, second)
        index = np.searchsorted(self._true_pairs, keys)
        is_true = self._true_pairs[np.minimum(index, len(self._true_pairs) - 1)] == keys
        return ~is_true & (self.encoded.lengths[last] + self.encoded.lengths[second] <= self._most_tokens)

    def _keys(self, first: Array, second: Array) -> Array:
        """A number for each ordered pair of texts: hashes of 64 bits, as those of the texts."""
        return self.encoded.hashes[first] * np.int64(0x1E3779B97F4A7C15) + self.encoded.hashes[second]


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

    def _lay_out(self, sides: Array, longest: Array, rng: Generator) -> tuple[Array, ...]:
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

    def _mask(self, ids: Array, attended: Array, rng: Generator) -> tuple[Array, Array]:
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
