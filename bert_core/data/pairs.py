"""Which sentences stand together as A and B (Devlin et al. 2018, section 3.1 and appendix A.2).

Neither side alone may give the label away: the A of a NotNext pair has a next sentence too, and its B follows another
one, except in the fraction OUTSIDE of the pairs and where all that follow another one follow A too. A swapped pair,
NotNext as well, is two neighbours in the wrong order (ALBERT, Lan et al. 2019, section 3.1). Where no B is found that
never follows A, nothing is asked of the pair.

Shapes: S sentences, N pairs of neighbours, G steps, R = G * batch_size pairs."""

import functools
from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from bert_core.config import DataConfig
from bert_core.data.encoding import IGNORED, IS_NEXT, NOT_NEXT, EncodedCorpus
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
