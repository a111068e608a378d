"""A corpus as flat arrays of token ids, in memory or, for a long text, in files that are mapped into memory."""

# Shapes: S sentences, D documents. Sentences without a token are left out, and documents without such a sentence.

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from bert_core.data.corpus import Corpus
from bert_core.data.text import Append, arrays
from bert_core.data.tokenizer import UNK, plain
from bert_core.errors import CorpusError, ignore, percent

IS_NEXT, NOT_NEXT = 0, 1
MANY_UNKNOWN, MOST_UNKNOWN = 0.1, 0.95  # of a text's words: said above the one, refused above the other

_ENCODED_AT_ONCE = 10_000  # sentences
_CHARACTERS_AT_ONCE = 2**17  # or a pair; a group holds the interpreter's lock while its words become Python objects
_MOST_CACHED = 500_000  # words


@dataclass(frozen=True)
class EncodedCorpus:
    """A corpus as one array of token ids.

    ids: all tokens in reading order, in the smallest unsigned type that holds the vocabulary. offsets: (S + 1,);
    sentence s is ids[offsets[s] : offsets[s + 1]]. documents: (D + 1,); document d has the sentences documents[d] to
    documents[d + 1] - 1. texts: (S,) hashes, equal for sentences of the same tokens. unknown_share: fraction of the
    tokens that are [UNK]. pair_labels: for labelled pairs (S / 2,); pair p has the sentences 2p and 2p + 1.
    """

    ids: np.ndarray
    offsets: np.ndarray
    documents: np.ndarray
    texts: np.ndarray
    unknown_share: float
    pair_labels: np.ndarray | None = None

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.texts)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens in each sentence, (S,)."""
        return np.diff(self.offsets)

    def lengths_of(self, sentences: np.ndarray) -> np.ndarray:
        """Number of tokens in each of these sentences."""
        return self.offsets[sentences + 1] - self.offsets[sentences]

    @property
    def unigram_entropy(self) -> float:
        """Entropy of the token frequencies in nats: the MLM loss of a model that knows only these frequencies."""
        counts = np.unique(self.ids, return_counts=True)[1]
        frequencies = counts / counts.sum()
        return float(-(frequencies * np.log(frequencies)).sum())

    @property
    def has_next(self) -> np.ndarray:
        """Whether another sentence of the same document follows, (S,)."""
        has_next = np.ones(len(self), bool)
        has_next[self.documents[1:] - 1] = False
        return has_next


def notes_on_unknown(share: float, name: str, remedy: str) -> tuple[str, ...]:
    """A note where more than MANY_UNKNOWN of a text's words are unknown to a vocabulary.

    share: of the words that are [UNK]. Raises CorpusError above MOST_UNKNOWN: nothing would be left to learn.
    """
    if share > MOST_UNKNOWN:
        raise CorpusError(
            f"{percent(share)} of the words of {name} are unknown to this vocabulary, so nothing can be learned; "
            f"{remedy}."
        )
    return (f"{percent(share)} of the words are unknown to this vocabulary; {remedy}.",) if share > MANY_UNKNOWN else ()


def encode_corpus(corpus: Corpus, tokenizer: Tokenizer, *, progress: Callable[[float], None] = ignore) -> EncodedCorpus:
    """Turn every sentence into token ids, without special tokens; a "[MASK]" in the text is a word like any other.

    progress: called with the encoded fraction.
    """
    names = ["ids", "offsets", "documents", "texts", "unknown_share"]
    names += [] if corpus.labels is None else ["pair_labels"]
    found = arrays(lambda append: _encode(corpus, tokenizer, append, progress), None, names)
    return EncodedCorpus(unknown_share=float(found.pop("unknown_share")[0]), **found)


def _encode(corpus: Corpus, tokenizer: Tokenizer, append: Append, progress: Callable[[float], None]) -> None:
    unknown = tokenizer.token_to_id(UNK)
    dtype = np.min_scalar_type(tokenizer.get_vocab_size())
    tokenizer = plain(tokenizer)
    start, end, unknowns = 0, 0, 0
    # A space always ends a word, so the text between two spaces has the same ids in every sentence.
    ids_of: dict[str, Sequence[int]] = {}
    kept_parts = []
    append("offsets", np.zeros(1, np.int64))
    for group in _groups(corpus.sentences):
        progress(start / len(corpus.sentences))
        rows = [sentence.split(" ") for sentence in group]
        words = list(itertools.chain.from_iterable(rows))
        if len(ids_of) > _MOST_CACHED:
            _empty(ids_of)
        new = list(set(words).difference(ids_of))  # encoded on all processor cores
        ids_of.update(zip(new, (row.ids for row in tokenizer.encode_batch_fast(new, add_special_tokens=False))))
        found = [ids_of[word] for word in words]
        word_lengths = np.fromiter(map(len, found), np.int64, len(found))  # (words,)
        ids = np.fromiter(itertools.chain.from_iterable(found), dtype, word_lengths.sum())
        word_counts = np.fromiter(map(len, rows), np.int64, len(rows))  # (sentences,)
        lengths = np.add.reduceat(word_lengths, word_counts.cumsum() - word_counts)  # (sentences,)
        kept = lengths > 0
        if corpus.labels is not None:  # a pair is kept or left out as a whole
            kept = kept.reshape(-1, 2).all(1).repeat(2)
            labels = np.asarray(corpus.labels[start // 2 : (start + len(rows)) // 2])
            append("pair_labels", np.where(labels, IS_NEXT, NOT_NEXT)[kept[::2]])
            ids = ids[kept.repeat(lengths)]
        lengths = lengths[kept]
        append("ids", ids)
        append("offsets", end + lengths.cumsum())
        append("texts", text_hashes(ids, lengths))
        kept_parts.append(kept)
        start, end, unknowns = start + len(rows), end + len(ids), unknowns + int((ids == unknown).sum())
    _empty(ids_of)
    kept_before = np.concatenate([[0], np.concatenate(kept_parts).cumsum()])
    bounds = [0, *itertools.accumulate(map(len, corpus.documents))]
    append("documents", np.unique(kept_before[bounds]))
    append("unknown_share", np.array([unknowns / end if end else 0.0]))


def _groups(sentences: Iterable[str]) -> Iterator[list[str]]:
    """The sentences in groups that keep pairs together."""
    group: list[str] = []
    characters = 0
    for sentence in sentences:
        group.append(sentence)
        characters += len(sentence)
        is_large = len(group) >= _ENCODED_AT_ONCE or characters >= _CHARACTERS_AT_ONCE
        if is_large and len(group) % 2 == 0:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _empty(ids_of: dict[str, Sequence[int]]) -> None:
    """Free a dict item by item: `clear` holds the interpreter's lock until the last of its lists is freed."""
    while ids_of:
        ids_of.popitem()


def text_hashes(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each sentence, (S,), from its ids and their positions.

    Two of ten million sentences share one with a probability of 3 in a million; they are then never a NotNext pair.
    """
    starts = lengths.cumsum() - lengths
    positions = np.arange(len(ids), dtype=np.uint64) - starts.astype(np.uint64).repeat(lengths)
    mixed = mix(positions << np.uint64(32) | ids)
    return np.add.reduceat(mixed, starts) if len(ids) else np.empty(0, np.uint64)


def mix(numbers: np.ndarray) -> np.ndarray:
    """A bijection that scrambles 64-bit numbers (the finalizer of SplitMix64, Steele et al. 2014)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ numbers >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ numbers >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return numbers ^ numbers >> np.uint64(31)
