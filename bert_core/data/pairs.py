"""Which sentences stand together as A and B (Devlin et al. 2018, section 3.1 and appendix A.2).

Neither side alone may give the label away: the A of a NotNext pair has a next sentence too, and its B follows another
one, except in the fraction OUTSIDE of the pairs and where all that follow another one follow A too. A swapped pair,
NotNext as well, is two neighbours in the wrong order (ALBERT, Lan et al. 2019, section 3.1); there a document's first
and last sentence can show the label. Where no B is found that never follows A, nothing is asked of the pair.

Shapes: S sentences, N pairs of neighbours, G steps, R = G * batch_size pairs.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from bert_core.config import DataConfig
from bert_core.data.encoding import IGNORED, IS_NEXT, NOT_NEXT, EncodedCorpus
from bert_core.errors import CorpusError, percent

Array = np.ndarray

# This fraction of the pairs, always NotNext, has the last sentence of a document as A, or the first one as B; without
# them a model does not learn that nothing follows the last sentence.
OUTSIDE = 0.01
SHORT = 0.1  # fraction of packed pairs that are shorter, as in create_pretraining_data of google-research/bert

PASS_STREAM, BATCH_STREAM, TRIAL_STREAM = 0, 1, 2
_MIN_BLOCK = 1024  # sentences; several passes through a shorter text are shuffled in one call
_DRAWS = 64  # of a B that turns out to follow A; in the second half, from all sentences
_TRIED = 1024  # sentences for which a B is drawn on trial
_MANY_FAIL = 0.01  # of the sentences tried
_FEW_PAIRS = 0.2  # of the sentences


class Pairs(NamedTuple):
    """Sentence numbers: A is start_a to end_a - 1, B is start_b to end_b - 1 or empty. label: IS_NEXT, NOT_NEXT or
    IGNORED."""

    start_a: Array
    end_a: Array
    start_b: Array
    end_b: Array
    label: Array


def generator(seed: int, stream: int, index: int, masks: int = 0) -> Generator:
    """A generator that depends on nothing but its arguments."""
    return Generator(np.random.Philox(key=seed, counter=[0, masks, stream, index]))


class PairSampler:
    """Draws the pairs of any step.

    In each pass every sentence that can begin A does so once. Labelled pairs occur once too and keep their own balance.
    needs_pairs: False without next sentence prediction; a sentence that can be in no pair is then A alone, with an
    empty B. notes: what is cut or cannot be asked, one sentence each. Raises CorpusError if the text has no IsNext or
    no NotNext pair that fits.
    """

    def __init__(self, encoded: EncodedCorpus, config: DataConfig, seed: int, needs_pairs: bool) -> None:
        self.encoded, self.config, self.seed = encoded, config, seed
        has_labels = encoded.pair_labels is not None
        self._is_packed = config.segments == "packed" and not has_labels
        self._longest = config.sequence_length - 3 if config.long_pairs == "drop" else np.inf  # tokens of both sides
        neighbours = np.flatnonzero(encoded.has_next)  # (N,)
        if needs_pairs and not len(neighbours):
            raise CorpusError(
                f"The text has {len(encoded)} sentences and no two neighbours in the same document; next sentence "
                "prediction needs at least two. Take out blank lines between them, which end documents, or set "
                "nsp_weight to 0."
            )
        sizes = encoded.lengths_of(neighbours) + encoded.lengths_of(neighbours + 1)
        self._lasts = neighbours[sizes <= self._longest]  # every sentence that can be the last one of A
        possible = self._lasts if needs_pairs or has_labels else np.flatnonzero(encoded.lengths <= self._longest)
        self._starts = {n: self._starts_of(possible, n) for n in (config.sequence_length, config.short_length) if n}
        if not self.pass_length:
            raise CorpusError(
                f"No two sentences that follow each other fit into {config.sequence_length} tokens; raise "
                "sequence_length, or set long_pairs to crop."
            )
        self._order = functools.lru_cache(2)(self._draw_order)
        self._true_pairs = np.sort(self._keys(neighbours, neighbours + 1))  # for a binary search
        failed = self._share_without_negatives() if needs_pairs and not has_labels else 0.0
        if failed == 1:
            raise CorpusError(
                "Of any two sentences that fit together, the second follows the first somewhere in the text; next "
                "sentence prediction needs two different sentences that do not."
            )
        self.notes = (*self._notes(sizes, failed),) if needs_pairs else ()

    @property
    def pass_length(self) -> int:
        """Number of pairs in one pass."""
        return len(self._starts[self.config.sequence_length])

    def _notes(self, sizes: Array, failed: float) -> Iterator[str]:
        """sizes: (N,) tokens of neighbours. failed: see `_share_without_negatives`."""
        N, S, longest = len(sizes), len(self.encoded), self.config.sequence_length
        if N < _FEW_PAIRS * S and self.encoded.pair_labels is None:
            yield (
                f"Only {N:,} of the {S:,} sentences have a next one in their document, so next sentence prediction "
                "learns no more than these pairs. Blank lines end documents; take out those between sentences."
            )
        long = int((sizes > longest - 3).sum())
        if long and not self._is_packed:
            lost = "lose their ends" if self.config.long_pairs == "crop" else "are left out"
            yield f"{long:,} of the {N:,} pairs of neighbours have more than {longest} tokens and {lost}."
        if failed > _MANY_FAIL:
            yield (
                f"For {percent(failed)} of the sentences no other was found that never follows them, so that less is "
                "asked about them."
            )

    def draw(self, steps: Array, longest: Array, rng: Generator) -> Pairs:
        """The pairs of consecutive steps, (G,). longest: (G,) the most tokens that a pair of each step may have."""
        B = self.config.batch_size
        places = zip(longest.tolist(), (steps * B).tolist())
        start = np.concatenate([self._in_passes(length, first, B) for length, first in places])
        if self.encoded.pair_labels is not None:
            return Pairs(start, start + 1, start + 1, start + 2, self.encoded.pair_labels[start // 2])
        longest = longest.repeat(B)  # (R,)
        cut, end = self._cut(start, longest - 3, rng)
        # The number of IsNext pairs of an odd batch is rounded down in even steps and up in odd steps.
        is_next = (np.arange(B) < (B + steps[:, None] % 2) // 2).ravel() & (cut < end)
        pairs = Pairs(start, cut, cut.copy(), end, np.where(is_next, IS_NEXT, IGNORED))
        rows = np.flatnonzero(~is_next & (cut < end))
        if self.config.negatives == "swapped":
            rows = self._swap(pairs, rows)
        self._draw_negatives(pairs, rows, longest, rng)
        if not self._is_packed:  # seldom, A is the last sentence of a document
            at, lasts = rows[rng.random(len(rows)) < OUTSIDE], self.encoded.documents[1:] - 1
            last, second = lasts[rng.integers(len(lasts), size=len(at))], rng.integers(len(self.encoded), size=len(at))
            fits = self._is_negative(last, second)
            at, last, second = at[fits], last[fits], second[fits]
            for each, values in zip(pairs, (last, last + 1, second, second + 1, NOT_NEXT)):
                each[at] = values
        return pairs

    def _in_passes(self, longest: int, start: int, count: int) -> Array:
        """Items start, start + 1, ... of the endless sequence of shuffled passes through the starts of A."""
        size = len(self._order(longest, 0))
        blocks = range(start // size, (start + count - 1) // size + 1)
        places = ((block, start - block * size) for block in blocks)
        return np.concatenate([self._order(longest, block)[max(0, at) : at + count] for block, at in places])

    def _draw_order(self, longest: int, block: int) -> Array:
        """Some shuffled passes through the starts of A."""
        starts = self._starts[longest]
        passes = np.tile(starts, (-(-_MIN_BLOCK // len(starts)), 1))
        return generator(self.seed, PASS_STREAM, block).permuted(passes, axis=1).ravel()

    def _starts_of(self, possible: Array, longest: int) -> Array:
        """Those that begin A; when packing, where the document fills `longest` tokens, or at a shorter one's start."""
        if not self._is_packed:
            return possible
        offsets, documents = self.encoded.offsets, self.encoded.documents
        number = np.searchsorted(documents, possible, "right")
        is_full = offsets[documents[number]] - offsets[possible] >= longest - 3
        return possible[is_full | (documents[number - 1] == possible)]

    def _end(self, start: Array, tokens: Array) -> Array:
        """The end of two sentences or, when packing, of as many as have `tokens` tokens, in the same document."""
        offsets, documents = self.encoded.offsets, self.encoded.documents
        end = np.maximum(np.searchsorted(offsets, offsets[start] + tokens), start + 2) if self._is_packed else start + 2
        return np.minimum(end, documents[np.searchsorted(documents, start, "right")])

    def _cut(self, start: Array, room: Array, rng: Generator) -> tuple[Array, Array]:
        """The ends of A, at a random sentence, and of the B that follows; both are equal for a sentence alone."""
        if self._is_packed:
            room = np.where(rng.random(len(start)) < SHORT, rng.integers(2, room + 1), room)
        end = self._end(start, room)
        low, high = (np.searchsorted(self._lasts, each) for each in (start, end - 1))
        chosen = low + (rng.random(len(start)) * (high - low)).astype(np.int64)
        can_pair, cut = low < high, start + 1
        cut[can_pair] = self._lasts[chosen[can_pair]] + 1
        return cut, np.where(can_pair, end, cut)

    def _swap(self, pairs: Pairs, rows: Array) -> Array:
        """Swap A and B in `rows`. Returns the rows that stay: there A would follow B somewhere in the text."""
        can_swap = self._is_negative(pairs.end_b[rows] - 1, pairs.start_a[rows])
        at = rows[can_swap]
        a, b = (pairs.start_a[at], pairs.end_a[at]), (pairs.start_b[at], pairs.end_b[at])
        (pairs.start_a[at], pairs.end_a[at]), (pairs.start_b[at], pairs.end_b[at]) = b, a
        pairs.label[at] = NOT_NEXT
        return rows[~can_swap]

    def _draw_negatives(self, pairs: Pairs, rows: Array, longest: Array, rng: Generator) -> None:
        """Give the pairs in `rows` a B that never follows A and, when packing, is about as long as the true one. Those
        for which no draw finds one stay as they are."""
        tokens = self.encoded.offsets[pairs.end_b] - self.encoded.offsets[pairs.start_b]  # (R,)
        for number in range(_DRAWS):
            if not len(rows):
                return
            start, end = self._draw_seconds(tokens[rows], longest[rows], number >= _DRAWS // 2, rng)
            fits = self._is_negative(pairs.end_a[rows] - 1, start)
            at = rows[fits]
            pairs.start_b[at], pairs.end_b[at], pairs.label[at] = start[fits], end[fits], NOT_NEXT
            rows = rows[~fits]

    def _draw_seconds(self, tokens: Array, longest: Array, anywhere: bool, rng: Generator) -> tuple[Array, Array]:
        """Start and end of random B's. anywhere: of all sentences; otherwise they follow another one or, seldom, are
        the first of a document."""
        count = len(tokens)
        if anywhere:
            start = rng.integers(len(self.encoded), size=count)
            return start, self._end(start, tokens) if self._is_packed else start + 1
        if self._is_packed:
            return self._draw_window_ends(tokens, longest, rng)
        start, firsts = self._lasts[rng.integers(len(self._lasts), size=count)] + 1, self.encoded.documents[:-1]
        start = np.where(rng.random(count) < OUTSIDE, firsts[rng.integers(len(firsts), size=count)], start)
        return start, start + 1

    def _draw_window_ends(self, tokens: Array, longest: Array, rng: Generator) -> tuple[Array, Array]:
        """The last sentences, with at least `tokens` tokens if possible, of random windows such as IsNext pairs are."""
        offsets, window = self.encoded.offsets, np.empty_like(tokens)
        for length, starts in self._starts.items():
            rows = longest == length
            window[rows] = starts[rng.integers(len(starts), size=rows.sum())]
        end = self._end(window, longest - 3)
        start = np.searchsorted(offsets, offsets[end] - tokens, "right") - 1
        return np.minimum(np.maximum(start, window + 1), np.maximum(end - 1, window)), end

    def _share_without_negatives(self) -> float:
        """The fraction of the sentences, on trial, for which no B is found that never follows them."""
        rng = generator(self.seed, TRIAL_STREAM, 0)
        last = self._lasts[rng.integers(len(self._lasts), size=_TRIED)]
        pairs = Pairs(last, last + 1, last + 1, last + 2, np.full(_TRIED, IGNORED))
        self._draw_negatives(pairs, np.arange(_TRIED), np.full(_TRIED, self.config.sequence_length), rng)
        return float((pairs.label == IGNORED).mean())

    def _is_negative(self, last: Array, second: Array) -> Array:
        """Whether each pair fits and its sentences are neighbours nowhere in the text, where sentences may repeat."""
        keys = self._keys(last, second)
        index = np.searchsorted(self._true_pairs, keys)
        is_true = self._true_pairs[np.minimum(index, len(self._true_pairs) - 1)] == keys
        return ~is_true & (self.encoded.lengths_of(last) + self.encoded.lengths_of(second) <= self._longest)

    def _keys(self, first: Array, second: Array) -> Array:
        """A number for each ordered pair of texts: hashes of 64 bits, as those of the texts."""
        return self.encoded.texts[first] * np.int64(0x1E3779B97F4A7C15) + self.encoded.texts[second]
