"""From sentences of token ids to batches: pairs, truncation, masking (Devlin et al. 2018, sections 3.1 and A.1-A.2).

Shapes: S sentences, B batch, T tokens, N asked positions. A batch is a few array operations and no Python loop, and
batch k is a function of (seed, k) alone: any step can be drawn again, in any order, on any machine.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from bert_core.config import DataConfig
from bert_core.corpus import Corpus
from bert_core.errors import CorpusError
from bert_core.tokenization import CLS, MASK, PAD, SEP, UNK, special_ids

IS_NEXT, NOT_NEXT = 0, 1
IGNORED = -100  # label of a position that nothing is asked of

_EPOCH_STREAM, _BATCH_STREAM = 0, 1
_ENCODED_AT_ONCE = 20_000  # sentences
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


@dataclass(frozen=True)
class EncodedCorpus:
    """A corpus as one array of token ids.

    ids: all tokens in reading order. offsets: (S + 1,), sentence s is ids[offsets[s] : offsets[s + 1]].
    document: (S,), the number of each sentence's document. Sentences without a token are left out.
    pair_labels: (S / 2,) for labelled pairs, of which pair p is the sentences 2p and 2p + 1; otherwise None.
    """

    ids: np.ndarray
    offsets: np.ndarray
    document: np.ndarray
    unknown_share: float
    pair_labels: np.ndarray | None = None

    @property
    def lengths(self) -> np.ndarray:
        """(S,) tokens per sentence."""
        return np.diff(self.offsets)

    @property
    def unigram_entropy(self) -> float:
        """Entropy of the token frequencies in nats: the MLM loss of who knows these and nothing else."""
        counts = np.unique(self.ids, return_counts=True)[1]
        shares = counts / counts.sum()
        return float(-(shares * np.log(shares)).sum())

    @property
    def has_next(self) -> np.ndarray:
        """(S,) whether another sentence of the same document follows."""
        return np.append(self.document[1:] == self.document[:-1], False)


def encode_corpus(
    corpus: Corpus, tokenizer: Tokenizer, *, progress: Callable[[float], None] = lambda share: None
) -> EncodedCorpus:
    """Turn every sentence into token ids, without special tokens: a "[MASK]" in the text is a word like any other.

    progress: called with the share of the sentences that are done.
    """
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.encode_special_tokens = True
    sentences, pieces, lengths = corpus.sentences, [], []
    for start in range(0, len(sentences), _ENCODED_AT_ONCE):
        progress(start / len(sentences))
        encodings = tokenizer.encode_batch_fast(
            list(sentences[start : start + _ENCODED_AT_ONCE]), add_special_tokens=False
        )
        pieces.append(np.fromiter((i for encoding in encodings for i in encoding.ids), np.int64))
        lengths += [len(encoding) for encoding in encodings]
    ids, lengths = np.concatenate(pieces), np.array(lengths)
    document = np.repeat(np.arange(len(corpus.documents)), [len(document) for document in corpus.documents])
    kept, pair_labels = lengths > 0, None
    if corpus.labels is not None:  # a pair goes as a whole
        whole = kept.reshape(-1, 2).all(1)
        kept = whole.repeat(2)
        pair_labels = np.where(corpus.labels, IS_NEXT, NOT_NEXT)[whole]
        ids = ids[kept.repeat(lengths)]
    return EncodedCorpus(
        ids=ids,
        offsets=np.concatenate([[0], lengths[kept].cumsum()]),
        document=document[kept],
        unknown_share=float((ids == tokenizer.token_to_id(UNK)).mean()) if len(ids) else 0.0,
        pair_labels=pair_labels,
    )


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
        self._has_next = encoded.has_next & ~self._too_long(np.arange(len(encoded.lengths)))
        self._starts = np.flatnonzero(self._has_next)
        if len(self._starts) == 0:
            raise CorpusError(
                f"The text has {len(encoded.lengths)} sentences and no two neighbours in the same document that fit "
                f"into {config.sequence_length} tokens; next sentence prediction needs at least two."
            )
        # What a pass goes through: the pairs if they are labelled, else the sentences.
        self._units = self._starts if encoded.pair_labels is not None else np.arange(len(encoded.lengths))
        self._text, self._successions = _successions(encoded)
        self._n_texts = int(self._text.max()) + 1
        if encoded.pair_labels is None and len(self._successions) == self._n_texts**2:
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
        return len(self._units) / self.config.batch_size

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
            first[lacking] = rng.choice(self._starts, lacking.sum())
        second = np.where(is_next, first + 1, rng.integers(S, size=is_next.shape))
        while (wrong := ~is_next & (self._follows(first, second) | self._too_long(first, second))).any():
            count = wrong.sum()
            first[wrong], second[wrong] = rng.integers(S, size=count), rng.integers(S, size=count)
        return first.ravel(), second.ravel(), np.where(is_next, IS_NEXT, NOT_NEXT).ravel()

    def _firsts(self, start: int, count: int) -> np.ndarray:
        """Sentences number start, start + 1, ... of an endless row of shuffled passes through the text (a copy)."""
        S = len(self._units)
        passes = -(-_MIN_BLOCK // S)
        block = S * passes
        taken = []
        while count:
            b, at = divmod(start, block)
            if b not in self._orders:
                order = np.broadcast_to(self._units, (passes, S))
                # Only the newest two are kept: a batch reaches from one block into the next and never back.
                self._orders = {key: value for key, value in self._orders.items() if key == b - 1}
                self._orders[b] = self._generator(_EPOCH_STREAM, b).permuted(order, axis=1).ravel()
            taken.append(self._orders[b][at : at + count])
            start, count = start + len(taken[-1]), count - len(taken[-1])
        return np.concatenate(taken)

    def _too_long(self, first: np.ndarray, second: np.ndarray | None = None) -> np.ndarray:
        """Whether a pair is to be left out for its length; second: by default the sentence after the first."""
        lengths = self.encoded.lengths
        after = (first + 1) % len(lengths) if second is None else second
        return lengths[first] + lengths[after] > self._longest

    def _follows(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Whether the text of `second` follows the text of `first` anywhere, so also where a sentence is repeated."""
        pair = self._text[first] * self._n_texts + self._text[second]
        place = np.searchsorted(self._successions, pair)
        return self._successions[np.minimum(place, len(self._successions) - 1)] == pair

    def _lay_out(
        self, first: np.ndarray, second: np.ndarray, longest: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """[CLS] A [SEP] B [SEP] of at most `longest` (B,) tokens, and padding: ids, segments and mask, (B, T) each."""
        start, length = self.encoded.offsets, self.encoded.lengths
        length_a, length_b = truncated_lengths(length[first], length[second], longest - 3)
        # Of the tokens that a side loses, each comes from its front or its back with equal chance.
        start_a = start[first] + rng.binomial(length[first] - length_a, 0.5)
        start_b = start[second] + rng.binomial(length[second] - length_b, 0.5)
        a, b = length_a[:, None], length_b[:, None]  # (B, 1)
        t = np.arange((length_a + length_b).max() + 3)  # (T,)
        in_second = t > a + 1
        attended = t < a + b + 3
        source = np.where(in_second, start_b[:, None] + t - a - 2, start_a[:, None] + t - 1)
        ids = self.encoded.ids.take(source, mode="clip")
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


def _successions(encoded: EncodedCorpus) -> tuple[np.ndarray, np.ndarray]:
    """A number for each sentence's text, (S,), and sorted keys of all pairs of texts that follow one another."""
    numbers: dict[bytes, int] = {}
    bounds = zip(encoded.offsets[:-1], encoded.offsets[1:])
    text = np.array([numbers.setdefault(encoded.ids[s:e].tobytes(), len(numbers)) for s, e in bounds])
    first = np.flatnonzero(encoded.has_next)
    return text, np.unique(text[first] * len(numbers) + text[first + 1])
