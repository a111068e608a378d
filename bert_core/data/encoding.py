"""A corpus as flat arrays of token ids.

Shapes: S sentences, D documents. Sentences without a token are left out, and documents without such a sentence."""

import itertools
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from tokenizers import Tokenizer

from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import UNK, plain
from bert_core.errors import CorpusError, ignore, percent

IS_NEXT, NOT_NEXT = 0, 1  # class ids, as in BERT; labels of a corpus and of a matrix are 1 for IsNext
IGNORED = -100  # label of what is not asked
MANY_UNKNOWN, MOST_UNKNOWN = 0.1, 0.95  # of a text's words: said above the one, refused above the other

_ENCODED_AT_ONCE = 1000  # sentences, on all processor cores; no other thread runs while they become Python objects


@dataclass(frozen=True)
class EncodedCorpus:
    """A corpus as one array of token ids.

    ids: in reading order, in the smallest unsigned type that holds the vocabulary. offsets: (S + 1,); sentence s is
    ids[offsets[s] : offsets[s + 1]]. document_offsets: (D + 1,); document d has the sentences document_offsets[d] to
    document_offsets[d + 1] - 1. hashes: (S,) of 64 bits, equal for sentences of the same tokens. unknown_share: of the
    tokens. pair_labels: for labelled pairs (S / 2,); pair p has the sentences 2p and 2p + 1."""

    ids: np.ndarray
    offsets: np.ndarray
    document_offsets: np.ndarray
    hashes: np.ndarray
    unknown_share: float
    pair_labels: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.hashes)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of tokens in each sentence, (S,)."""
        return np.diff(self.offsets)

    @property
    def has_next(self) -> np.ndarray:
        """Whether another sentence of the same document follows, (S,)."""
        has_next = np.ones(len(self), bool)
        has_next[self.document_offsets[1:] - 1] = False
        return has_next


def notes_on_unknown(share: float, name: str, remedy: str) -> tuple[str, ...]:
    """A note where more than MANY_UNKNOWN of a text's words are [UNK]. Raises CorpusError above MOST_UNKNOWN."""
    if share > MOST_UNKNOWN:
        raise CorpusError(
            f"{percent(share)} of the words of {name} are unknown to this vocabulary, so nothing can be learned; "
            f"{remedy}."
        )
    return (f"{percent(share)} of the words are unknown to this vocabulary; {remedy}.",) if share > MANY_UNKNOWN else ()


def encode_corpus(corpus: Corpus, tokenizer: Tokenizer, *, progress: Callable[[float], None] = ignore) -> EncodedCorpus:
    """Turn every sentence into token ids, without special tokens; a "[MASK]" in the text is a word like any other.

    progress: called with the encoded fraction."""
    unknown, dtype = tokenizer.token_to_id(UNK), np.min_scalar_type(tokenizer.get_vocab_size())
    tokenizer, sentences = plain(tokenizer), corpus.sentences
    ids, lengths, hashes = [np.empty(0, dtype)], array("q"), array("q")
    for start in range(0, len(sentences), _ENCODED_AT_ONCE):
        progress(start / len(sentences))
        group = sentences[start : start + _ENCODED_AT_ONCE]
        rows = [row.ids for row in tokenizer.encode_batch_fast(group, add_special_tokens=False)]
        ids.append(np.fromiter(itertools.chain.from_iterable(rows), dtype))
        lengths.extend(map(len, rows))
        # Two of ten million sentences share a hash with a probability of 3 in a million; they are then never a NotNext
        # pair. Python's hash of whole numbers is the same in every process.
        hashes.extend(map(hash, map(tuple, rows)))
    all_lengths = np.array(lengths)
    kept, pair_labels = all_lengths > 0, None
    if corpus.labels is not None:  # a pair is kept or left out as a whole
        kept = kept.reshape(-1, 2).all(1).repeat(2)
        pair_labels = np.where(corpus.labels, IS_NEXT, NOT_NEXT)[kept[::2]]
    whole = np.concatenate(ids)[kept.repeat(all_lengths)]
    kept_before = np.concatenate([[0], kept.cumsum()])
    ends = np.cumsum([0, *map(len, corpus.documents)])
    return EncodedCorpus(
        ids=whole,
        offsets=np.concatenate([[0], all_lengths[kept].cumsum()]),
        document_offsets=np.unique(kept_before[ends]),  # a document without a kept sentence vanishes
        hashes=np.array(hashes)[kept],
        unknown_share=float((whole == unknown).mean()) if len(whole) else 0.0,
        pair_labels=pair_labels,
    )
