"""A corpus as flat arrays of token ids, in memory or, for a long text, in files that are mapped."""

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from bert_core.data.arrays import Append, gather
from bert_core.data.corpus import Corpus
from bert_core.data.stored_text import StoredSentences
from bert_core.data.tokenizer import UNK

IS_NEXT, NOT_NEXT = 0, 1

_ENCODED_AT_ONCE = 10_000  # sentences; an even number, so that pairs stay together
_MOST_KNOWN = 500_000  # words with their ids


@dataclass(frozen=True)
class EncodedCorpus:
    """A corpus as one array of token ids.

    ids: all tokens in reading order, of the smallest unsigned type that holds the vocabulary. offsets: (S + 1,),
    sentence s is ids[offsets[s] : offsets[s + 1]]. documents: (D + 1,), document d is the sentences documents[d] to
    documents[d + 1] - 1; it may have none, because sentences without a token are left out. texts: (S,) 64-bit numbers,
    the same for sentences of the same tokens. unknown_share: share of the tokens that are [UNK]. pair_labels:
    (S / 2,) for labelled pairs, of which pair p is the sentences 2p and 2p + 1; otherwise None.
    """

    ids: np.ndarray
    offsets: np.ndarray
    documents: np.ndarray
    texts: np.ndarray
    unknown_share: float
    pair_labels: np.ndarray | None = None

    def __len__(self) -> int:
        """Sentences."""
        return len(self.texts)

    @property
    def lengths(self) -> np.ndarray:
        """(S,) tokens per sentence."""
        return np.diff(self.offsets)

    def lengths_of(self, sentences: np.ndarray) -> np.ndarray:
        """Tokens of these sentences."""
        return self.offsets[sentences + 1] - self.offsets[sentences]

    @property
    def unigram_entropy(self) -> float:
        """Entropy of the token frequencies in nats: the MLM loss of who knows these and nothing else."""
        counts = np.unique(self.ids, return_counts=True)[1]
        shares = counts / counts.sum()
        return float(-(shares * np.log(shares)).sum())

    @property
    def has_next(self) -> np.ndarray:
        """(S,) whether another sentence of the same document follows."""
        has_next = np.ones(len(self), bool)
        last = self.documents[1:] - 1
        has_next[last[last >= 0]] = False  # empty documents may stand before the first sentence
        return has_next


def encode_corpus(
    corpus: Corpus, tokenizer: Tokenizer, *, progress: Callable[[float], None] = lambda share: None
) -> EncodedCorpus:
    """Turn every sentence into token ids, without special tokens: a "[MASK]" in the text is a word like any other.

    Words that are new in a block are encoded on all processor cores, the others are looked up. A text that is kept in
    a folder has its ids kept there too, for every tokenizer. progress: called with the share of the sentences that are
    done.
    """
    arrays, facts = gather(lambda append: _encode(corpus, tokenizer, append, progress), _place(corpus, tokenizer))
    return EncodedCorpus(**arrays, **facts)


def _place(corpus: Corpus, tokenizer: Tokenizer) -> Path | None:
    sentences = corpus.sentences
    if not isinstance(sentences, StoredSentences):
        return None
    vocabulary = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()[:32]
    return sentences.folder / f"ids-{vocabulary}-{sentences.start}-{sentences.stop}"


def _encode(corpus: Corpus, tokenizer: Tokenizer, append: Append, progress: Callable[[float], None]) -> dict[str, Any]:
    unknown = tokenizer.token_to_id(UNK)
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.encode_special_tokens = True
    kind = np.min_scalar_type(tokenizer.get_vocab_size())
    sentences, end, unknowns = corpus.sentences, 0, 0
    # A space ends a word always, so that what stands between two of them has the same ids wherever it stands.
    known: dict[str, Sequence[int]] = {}
    kept_parts = []
    append("offsets", np.zeros(1, np.int64))
    for start in range(0, len(sentences), _ENCODED_AT_ONCE):
        progress(start / len(sentences))
        rows = [sentence.split(" ") for sentence in sentences[start : start + _ENCODED_AT_ONCE]]
        parts = list(itertools.chain.from_iterable(rows))
        if len(known) > _MOST_KNOWN:
            known.clear()
        new = list(set(parts).difference(known))
        known.update(zip(new, (row.ids for row in tokenizer.encode_batch_fast(new, add_special_tokens=False))))
        found = [known[part] for part in parts]
        lengths = np.fromiter(map(len, found), np.int64, len(found))  # (parts,)
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(itertools.chain.from_iterable(found), kind, lengths.sum())
        lengths = np.add.reduceat(lengths, counts.cumsum() - counts)  # (sentences,)
        kept = lengths > 0
        if corpus.labels is not None:  # a pair goes as a whole
            kept = kept.reshape(-1, 2).all(1).repeat(2)
            labels = np.asarray(corpus.labels[start // 2 : (start + len(rows)) // 2])
            append("pair_labels", np.where(labels, IS_NEXT, NOT_NEXT)[kept[::2]])
            ids = ids[kept.repeat(lengths)]
        lengths = lengths[kept]
        append("ids", ids)
        append("offsets", end + lengths.cumsum())
        append("texts", text_numbers(ids, lengths))
        kept_parts.append(kept)
        end, unknowns = end + len(ids), unknowns + int((ids == unknown).sum())
    kept_before = np.concatenate([[0], np.concatenate(kept_parts).cumsum()])
    lengths = np.fromiter((len(document) for document in corpus.documents), np.int64, len(corpus.documents))
    append("documents", kept_before[np.concatenate([[0], lengths.cumsum()])])
    return {"unknown_share": unknowns / end if end else 0.0}


def text_numbers(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """A 64-bit number for each sentence, (S,), made of its ids and their places.

    Two different sentences among ten million have the same number with a chance of 3 in a million; then a pair or two
    that could have served as NotNext is not drawn.
    """
    starts = lengths.cumsum() - lengths
    places = np.arange(len(ids), dtype=np.uint64) - starts.astype(np.uint64).repeat(lengths)
    mixed = mix(places << np.uint64(32) | ids)
    return np.add.reduceat(mixed, starts) if len(ids) else np.empty(0, np.uint64)


def mix(numbers: np.ndarray) -> np.ndarray:
    """Spread 64-bit numbers over all 64-bit numbers, one to one (the finalizer of SplitMix64, Steele et al. 2014)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ numbers >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ numbers >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return numbers ^ numbers >> np.uint64(31)
