"""Which sentences stand together as A and B (Devlin et al. 2018, section 3.1 and appendix A.2).

Neither side alone may give the label away: the A of a NotNext pair has a next sentence too, and its B follows another
one, except in the fraction OUTSIDE of the pairs. A swapped pair, NotNext as well, is two neighbours in the wrong order
(ALBERT, Lan et al. 2019, section 3.1); there a document's first and last sentence can show the label.

Shapes: S sentences, G steps, R = G * batch_size pairs.
"""

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from bert_core.config import DataConfig
from bert_core.data.encoding import IS_NEXT, NOT_NEXT, EncodedCorpus, mix
from bert_core.errors import CorpusError

Array = np.ndarray

# This fraction of the pairs, always NotNext, has the last sentence of a document as A, or the first one as B; without
# them a model does not learn that nothing follows the last sentence.
OUTSIDE = 0.01
SHORT = 0.1  # fraction of packed pairs that are shorter, as in create_pretraining_data of google-research/bert

PASS_STREAM, BATCH_STREAM = 0, 1
_KEYS_AT_ONCE = 1_000_000  # sentences
_MIN_BLOCK = 1024  # sentences; several passes through a shorter text are shuffled in one call
_DRAWS = 64  # of a B that turns out to follow A; after that, the sentences that do not are listed
_MOST_LEFT_OUT = 0.01  # of the sentences that can be A


class Pairs(NamedTuple):
    """Sentence numbers: A is start_a to end_a - 1, B is start_b to end_b - 1 or empty. label: IS_NEXT or NOT_NEXT."""

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
    empty B and NOT_NEXT. Raises CorpusError if the text has no IsNext or no NotNext pair that fits.
    """

    def __init__(self, encoded: EncodedCorpus, config: DataConfig, seed: int, needs_pairs: bool) -> None:
        self.encoded, self.config, self.seed = encoded, config, seed
        has_labels = encoded.pair_labels is not None
        self._is_packed = config.segments == "packed" and not has_labels
        self._longest = config.sequence_length - 3 if config.long_pairs == "drop" else np.inf  # tokens of both sides
        # The smallest type saves most of the memory that a long text takes.
        self._type = np.min_scalar_type(len(encoded))
        has_next = encoded.has_next
        has_next[:-1] &= encoded.lengths[:-1] + encoded.lengths[1:] <= self._longest
        self._lasts = np.flatnonzero(has_next).astype(self._type)  # every sentence that can be the last one of A
        if needs_pairs and not encoded.has_next.any():
            raise CorpusError(
                f"The text has {len(encoded)} sentences and no two neighbours in the same document; next sentence "
                "prediction needs at least two. Take out blank lines between them, which end documents, or set "
                "nsp_weight to 0."
            )
        if needs_pairs and not len(self._lasts):
            raise CorpusError(
                f"The text has {len(encoded)} sentences and no two neighbours in the same document that fit "
                f"into {config.sequence_length} tokens; next sentence prediction needs at least two. Raise "
                "sequence_length, or set nsp_weight to 0."
            )
        if not has_labels:
            self._true_pairs = self._find_true_pairs()
            self._choose_seconds(has_next)
        if needs_pairs and not len(self._lasts):
            raise CorpusError(
                "Of any two sentences that fit together, the second follows the first somewhere in the text; next "
                "sentence prediction needs two different sentences that do not."
            )
        possible = self._lasts
        if not (needs_pairs or has_labels):
            possible = np.flatnonzero(encoded.lengths <= self._longest).astype(self._type)
        self._starts = {n: self._starts_of(possible, n) for n in (config.sequence_length, config.short_length) if n}
        if not self.pass_length:
            raise CorpusError(f"No sentence fits into {config.sequence_length} tokens; raise sequence_length.")
        self._orders: dict[tuple[int, int], Array] = {}

    @property
    def pass_length(self) -> int:
        """Number of pairs in one pass."""
        return len(self._starts[self.config.sequence_length])

    def draw(self, steps: Array, longest: Array, rng: Generator) -> Pairs:
        """The pairs of consecutive steps, (G,). longest: (G,) the most tokens that a pair of each step may have."""
        B = self.config.batch_size
        lengths, first_steps, counts = np.unique(longest, return_index=True, return_counts=True)
        parts = zip(lengths.tolist(), steps[first_steps].tolist(), counts.tolist())  # a shorter length comes first
        start = np.concatenate([self._in_passes(length, step * B, count * B) for length, step, count in parts])
        if self.encoded.pair_labels is not None:
            return Pairs(start, start + 1, start + 1, start + 2, self.encoded.pair_labels[start // 2])
        longest = longest.repeat(B)  # (R,)
        cut, end = self._cut(start, longest - 3, rng)
        # The number of IsNext pairs of an odd batch is rounded down in even steps and up in odd steps.
        is_next = (np.arange(B) < (B + steps[:, None] % 2) // 2).ravel() & (cut < end)
        rows = np.flatnonzero(~is_next & (cut < end))
        pairs = Pairs(start, cut, cut.copy(), end, np.where(is_next, IS_NEXT, NOT_NEXT))
        if self.config.negatives == "swapped":
            rows = self._swap(pairs, rows)
        pairs.start_b[rows], pairs.end_b[rows] = self._draw_negatives(cut[rows], end[rows], longest[rows], rng)
        if not self._is_packed:
            self._draw_outside(pairs, rows, rng)
        return pairs

    def _in_passes(self, longest: int, start: int, count: int) -> Array:
        """Items start, start + 1, ... of the endless sequence of shuffled passes through the starts of A."""
        starts = self._starts[longest]
        passes = -(-_MIN_BLOCK // len(starts))
        taken: list[Array] = []
        while count:
            block, offset = divmod(start, len(starts) * passes)
            if (longest, block) not in self._orders:
                # Only two blocks are kept: a batch may continue in the next block, never in an earlier one. The dict is
                # a new one, because copies of this sampler in other threads share the present one.
                self._orders = {key: order for key, order in self._orders.items() if key == (longest, block - 1)}
                order = np.tile(np.arange(len(starts), dtype=self._type), (passes, 1))
                rng = generator(self.seed, PASS_STREAM, block)
                self._orders[longest, block] = rng.permuted(order, axis=1, out=order).ravel()
            part = self._orders[longest, block][offset : offset + count]
            taken.append(starts[part].astype(np.int64))
            start, count = start + len(part), count - len(part)
        return np.concatenate(taken)

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
        # A search for numbers of another type would copy all of the text's numbers.
        low, high = (np.searchsorted(self._lasts, each.astype(self._type)) for each in (start, end - 1))
        chosen = low + (rng.random(len(start)) * (high - low)).astype(np.int64)
        can_pair, cut = low < high, start + 1
        cut[can_pair] = self._lasts[chosen[can_pair]].astype(np.int64) + 1
        return cut, np.where(can_pair, end, cut)

    def _swap(self, pairs: Pairs, rows: Array) -> Array:
        """Swap A and B in `rows`. Returns the rows that stay: there A would follow B somewhere in the text."""
        can_swap = self._is_negative(pairs.end_b[rows] - 1, pairs.start_a[rows])
        at = rows[can_swap]
        swapped = [each[at] for each in (pairs.start_b, pairs.end_b, pairs.start_a, pairs.end_a)]
        pairs.start_a[at], pairs.end_a[at], pairs.start_b[at], pairs.end_b[at] = swapped
        return rows[~can_swap]

    def _draw_negatives(self, cut: Array, end: Array, longest: Array, rng: Generator) -> tuple[Array, Array]:
        """Start and end of a B for each A that ends at `cut`: it never follows A and, when packing, is about as long as
        the B from `cut` to `end`."""
        last, tokens = cut - 1, self.encoded.offsets[end] - self.encoded.offsets[cut]
        start, ends = np.empty_like(cut), np.empty_like(cut)
        draw = self._draw_window_ends if self._is_packed else self._draw_sentences
        left = np.arange(len(cut))
        for _ in range(_DRAWS):
            start[left], ends[left] = draw(last[left], tokens[left], longest[left], rng)
            left = left[~self._is_negative(last[left], start[left])]
            if not len(left):
                return start, ends
        texts = self.encoded.texts[last[left]]
        for text in np.unique(texts):
            rows = left[texts == text]
            negative = self._seconds[self._is_negative(last[rows[:1]], self._seconds)]
            start[rows] = negative[rng.integers(len(negative), size=len(rows))]
            ends[rows] = self._end(start[rows], tokens[rows]) if self._is_packed else start[rows] + 1
        return start, ends

    def _draw_sentences(self, last: Array, tokens: Array, longest: Array, rng: Generator) -> tuple[Array, Array]:
        """Random sentences that fit."""
        fitting: Array | int = len(self._seconds)
        if np.isfinite(self._longest):
            fitting = np.searchsorted(self._second_lengths, self._longest - self.encoded.lengths_of(last), "right")
        start = self._seconds[rng.integers(fitting, size=len(last))].astype(np.int64)
        return start, start + 1

    def _draw_window_ends(self, last: Array, tokens: Array, longest: Array, rng: Generator) -> tuple[Array, Array]:
        """The last sentences, with at least `tokens` tokens if possible, of random windows such as IsNext pairs are."""
        offsets, window = self.encoded.offsets, np.empty_like(last)
        for length, starts in self._starts.items():
            rows = longest == length
            window[rows] = starts[rng.integers(len(starts), size=rows.sum())]
        end = self._end(window, longest - 3)
        start = np.searchsorted(offsets, offsets[end] - tokens, "right") - 1
        return np.minimum(np.maximum(start, window + 1), np.maximum(end - 1, window)), end

    def _draw_outside(self, pairs: Pairs, rows: Array, rng: Generator) -> None:
        """Replace some of the NotNext pairs, in `rows`, by such as OUTSIDE describes."""
        chance = rng.random(len(rows)) / 2  # half of all pairs are NotNext
        chosen, is_last = rows[chance < OUTSIDE], (chance < OUTSIDE / 2)[chance < OUTSIDE]
        last, second = pairs.end_a[chosen] - 1, rng.integers(len(self.encoded), size=len(chosen))
        last[is_last] = self._document_lasts[rng.integers(len(self._document_lasts), size=is_last.sum())]
        second[~is_last] = self._document_firsts[rng.integers(len(self._document_firsts), size=(~is_last).sum())]
        fits = self._is_negative(last, second)
        at, last, second = chosen[fits], last[fits], second[fits]
        pairs.start_a[at], pairs.end_a[at], pairs.start_b[at], pairs.end_b[at] = last, last + 1, second, second + 1

    def _is_negative(self, last: Array, second: Array) -> Array:
        """Whether each pair fits and its sentences are neighbours nowhere in the text, where sentences may repeat."""
        keys = _pair_keys(self.encoded.texts[last], self.encoded.texts[second])
        index = np.searchsorted(self._true_pairs, keys)
        is_true = self._true_pairs[np.minimum(index, len(self._true_pairs) - 1)] == keys
        return ~is_true & (self.encoded.lengths_of(last) + self.encoded.lengths_of(second) <= self._longest)

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

    def _choose_seconds(self, has_next: Array) -> None:
        """Choose the sentences that can be B in a NotNext pair, and leave out those A for which there is none. B
        follows another sentence or stands alone, unless too many would be left out: then any sentence can be B."""
        encoded, lasts = self.encoded, self._lasts
        has_previous = np.concatenate([[False], has_next[:-1]])
        for can_be_second in (has_previous | ~has_next, np.ones(len(encoded), bool)):
            self._seconds = np.flatnonzero(can_be_second).astype(self._type)
            self._lasts = lasts[self._have_negatives(lasts)]
            if len(self._lasts) >= (1 - _MOST_LEFT_OUT) * len(lasts):
                break
        if np.isfinite(self._longest):
            self._seconds = self._seconds[np.argsort(encoded.lengths_of(self._seconds), kind="stable")]
            self._second_lengths = encoded.lengths_of(self._seconds)
        self._document_lasts = np.flatnonzero(~encoded.has_next)
        self._document_firsts = encoded.documents[:-1]

    def _have_negatives(self, lasts: Array) -> Array:
        """Whether a sentence of `_seconds` fits that does not follow it anywhere, for each of `lasts`."""
        encoded, texts = self.encoded, self.encoded.texts
        if not len(lasts):
            return np.zeros(0, bool)
        # A text has at most as many different successors as it has occurrences, so only few need to be counted.
        at = np.unique(texts[self._seconds], return_index=True)[1]
        lengths = np.sort(encoded.lengths_of(self._seconds[at]))
        fitting = np.searchsorted(lengths, self._longest - encoded.lengths_of(lasts), "right")  # different texts
        doubtful = np.flatnonzero(fitting <= np.unique(texts[lasts], return_counts=True)[1].max())
        keys = _pair_keys(texts[lasts[doubtful]], texts[lasts[doubtful].astype(np.int64) + 1])
        at = doubtful[np.unique(keys, return_index=True)[1]]
        found, first, successors = np.unique(texts[lasts[at]], return_index=True, return_counts=True)
        return ~np.isin(texts[lasts], found[successors >= fitting[at[first]]])


def _pair_keys(first: Array, second: Array) -> Array:
    """A number for each ordered pair of texts."""
    return mix(first) ^ second
