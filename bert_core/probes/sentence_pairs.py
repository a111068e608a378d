"""Sentence pairs: whether the second follows the first, for one pair or for every pair of S sentences of a text. The
exam masks every word of a text once, too."""

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bert_core.config import check_seed
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IS_NEXT, EncodedCorpus, encode_corpus
from bert_core.errors import InputError
from bert_core.probes.forward import pair_scores, require, word_scores
from bert_core.probes.reading import Row, encode_text, masked_row, pair_row, row_of, token_text, tokenize
from bert_core.storage.checkpoint import Checkpoint

UNLABELLED = -1
EXAM_SENTENCES = 200  # limit; of a longer text, a window of this many sentences is examined
Question = tuple[Row, int]  # a row, and the position of the token that is asked


@dataclass(frozen=True)
class PairMatrix:
    """S sentences against each other, the first of a pair in the row."""

    numbers: tuple[int, ...]  # of the S sentences in the text, from 0
    sentences: tuple[str, ...]
    probabilities: Tensor  # (S, S), P(IsNext); nan where the pair is longer than the model reads
    labels: Tensor  # (S, S), 1 where the second follows, 0 where not, UNLABELLED between labelled pairs

    @property
    def is_asked(self) -> Tensor:
        """(S, S), whether a pair was judged and has a label."""
        return ~self.probabilities.isnan() & (self.labels != UNLABELLED)

    @property
    def is_right(self) -> Tensor:
        """(S, S), whether a pair was judged right."""
        return self.is_asked & ((self.probabilities >= 0.5) == (self.labels == 1))

    @property
    def found(self) -> tuple[int, int]:
        """How many sentences have a true next sentence as the likeliest of all, and how many have one at all."""
        has_next = (self.is_asked & (self.labels == 1)).any(1)
        likeliest = self.probabilities.nan_to_num(-1).argmax(1, keepdim=True)
        return int((has_next & (self.labels.gather(1, likeliest)[:, 0] == 1)).sum()), int(has_next.sum())


def next_sentence(checkpoint: Checkpoint, sentence_a: str, sentence_b: str) -> float:
    """The probability that the second sentence follows the first, P(IsNext).

    Raises InputError when a sentence has no word, the pair is too long, or the model has no next-sentence head."""
    require(checkpoint, "nsp")
    for which, sentence in (("first", sentence_a), ("second", sentence_b)):
        if not tokenize(checkpoint, sentence, add_special_tokens=False).ids:
            state = "has no word that the model reads" if sentence.strip() else "is empty"
            raise InputError(f"The {which} sentence {state}; next sentence prediction needs two.")
    return pair_scores(checkpoint, [row_of(encode_text(checkpoint, sentence_a, sentence_b))]).item()


def pair_matrix(checkpoint: Checkpoint, corpus: Corpus, *, limit: int = 32) -> PairMatrix:
    """P(IsNext) for every ordered pair of a text's sentences, a sentence with itself among them.

    Of more than `limit` sentences, the first ones are judged. A pair is IsNext when its sentences are neighbours
    anywhere among them. Labelled pairs keep their labels, and all others of their text are unlabelled.
    Sentences without a word are left out. Raises InputError without a next-sentence head or two sentences."""
    require(checkpoint, "nsp")
    _, corpus = window(corpus, limit)
    document_of = [d for d, document in enumerate(corpus.documents) for _ in document]
    tokens = [tokenize(checkpoint, each, add_special_tokens=False).ids for each in corpus.sentences]
    kept = [i for i, ids in enumerate(tokens) if ids]
    if len(kept) < 2:
        raise InputError(f"{corpus.name} has fewer than two sentences with a word; next sentence prediction needs two.")
    labels = {
        number: 1 if corpus.labels is None else int(corpus.labels[document_of[i]])
        for number, (i, after) in enumerate(itertools.pairwise(kept))
        if document_of[i] == document_of[after]
    }
    texts, S = [tuple(tokens[i]) for i in kept], len(kept)
    return PairMatrix(
        numbers=tuple(kept),
        sentences=tuple(corpus.sentences[i] for i in kept),
        probabilities=judge_pairs(checkpoint, itertools.product(texts, repeat=2)).view(S, S),
        labels=label_pairs(texts, labels, other=0 if corpus.labels is None else UNLABELLED),
    )


def window(corpus: Corpus, limit: int, start: int = 0) -> tuple[int, Corpus]:
    """At most `limit` sentences of a corpus from number `start` on, or earlier so that they are as many, and the number
    of the first. A labelled pair stays whole."""
    start = max(0, min(start, len(corpus.sentences) - limit))
    if corpus.labels is not None:
        start, limit = start // 2 * 2, limit // 2 * 2
    return start, corpus.part(start, min(start + limit, len(corpus.sentences)))


def judge_pairs(checkpoint: Checkpoint, pairs: Iterable[Sequence[Sequence[int]]]) -> Tensor:
    """P(IsNext) of N pairs of sentences of token ids, (N,); nan where a pair is too long."""
    room, pairs = checkpoint.config.max_position_embeddings - 3, list(pairs)
    kept = [i for i, (a, b) in enumerate(pairs) if len(a) + len(b) <= room]
    probabilities = torch.full((len(pairs),), torch.nan)
    probabilities[kept] = pair_scores(checkpoint, [pair_row(checkpoint, *pairs[i]) for i in kept])
    return probabilities


def label_pairs(texts: Sequence[Hashable], labels: Mapping[int, int], *, other: int) -> Tensor:
    """The labels of all ordered pairs of S texts, (S, S): of the texts i and i + 1 by i, and of pairs of the same texts
    the same; else `other`."""
    known = {(texts[i], texts[i + 1]): label for i, label in labels.items()}
    found = [known.get((a, b), other) for a in texts for b in texts]
    return torch.tensor(found).view(len(texts), len(texts))


class Tally(NamedTuple):
    """How many questions are asked, and answered right by the model, by one constant answer (baseline), and by both."""

    asked: int
    right: int
    baseline: int
    both: int


@dataclass(frozen=True)
class Exam:
    """The result of `exam`, beside always giving the same answer."""

    words: Tally  # beside always guessing `frequent`
    pairs: Tally  # beside always giving `label`
    frequent: str  # the token that is asked most often
    label: str  # the more frequent one of the pairs
    window: tuple[int, int] | None  # first and last sentence, from 1, if only a part was examined


def exam(checkpoint: Checkpoint, corpus: Corpus, *, seed: int = 0) -> Exam:
    """Mask each word of every adjacent pair, one at a time, and judge every ordered pair of sentences.

    A word is right when it is the likeliest guess. A pair is IsNext when its sentences are neighbours anywhere in the
    text; all others, such as a sentence with itself, are NotNext. Of a text of labelled pairs, only these are judged,
    by their labels. Of a text of more than 200 sentences, a window drawn by the seed is examined. Pairs longer than the
    model reads are left out. Raises InputError when the model lacks a head, ConfigError for a seed out of range."""
    require(checkpoint, "mlm", "nsp")
    check_seed(seed)
    S = len(corpus.sentences)
    start = int(np.random.default_rng(seed).integers(max(1, S - EXAM_SENTENCES + 1)))
    start, corpus = window(corpus, EXAM_SENTENCES, start)
    encoded = encode_corpus(corpus, checkpoint.tokenizer)
    sentences, followed = [ids_of(encoded, s) for s in range(len(encoded))], np.flatnonzero(encoded.has_next)
    questions: list[Question] = []
    for a, b in (sentences[s : s + 2] for s in followed):
        row = pair_row(checkpoint, a, b)
        if len(row[0]) <= checkpoint.config.max_position_embeddings:
            questions += [(row, position) for position in range(1, len(row[0]) - 1) if position != len(a) + 1]
    frequent = int(np.bincount([row[0][position] for row, position in questions]).argmax()) if questions else 0
    if encoded.pair_labels is None:
        pairs = [*itertools.product(sentences, repeat=2)]
        known = dict.fromkeys(followed.tolist(), 1)
        labels = label_pairs(encoded.hashes.tolist(), known, other=0).flatten().numpy() == 1
    else:
        pairs, labels = [*zip(sentences[::2], sentences[1::2])], encoded.pair_labels == IS_NEXT
    mostly_next = bool(labels.mean() > 0.5) if len(labels) else False
    return Exam(
        words=ask_words(checkpoint, questions, frequent),
        pairs=judge(checkpoint, pairs, labels, mostly_next),
        frequent=token_text(checkpoint.tokenizer, frequent),
        label="IsNext" if mostly_next else "NotNext",
        window=(start + 1, start + len(corpus.sentences)) if S > EXAM_SENTENCES else None,
    )


def ask_words(checkpoint: Checkpoint, questions: Sequence[Question], frequent: int) -> Tally:
    """Mask one token at a time: the right guesses beside always `frequent`."""
    rows = [masked_row(checkpoint, row, position, position + 1) for row, position in questions]
    labels = np.array([row[0][position] for row, position in questions], np.int64)
    places = [[position] for _, position in questions]
    guesses = word_scores(checkpoint, rows, places, lambda _, scores: int(scores[0].argmax()))
    return _tally(np.array(guesses, np.int64) == labels, labels == frequent)


def judge(
    checkpoint: Checkpoint, pairs: Sequence[Sequence[Sequence[int]]], labels: np.ndarray, constant: bool
) -> Tally:
    """Judge pairs of sentences of token ids beside the constant answer IsNext or, where it is False, NotNext. labels:
    whether each is IsNext."""
    probabilities = judge_pairs(checkpoint, pairs).numpy()
    kept = ~np.isnan(probabilities)
    return _tally((probabilities >= 0.5)[kept] == labels[kept], labels[kept] == constant)


def _tally(right: np.ndarray, constant: np.ndarray) -> Tally:
    """Of answers that are right by the model and by the constant answer, one truth value each."""
    return Tally(len(right), int(right.sum()), int(constant.sum()), int((right & constant).sum()))


def ids_of(encoded: EncodedCorpus, s: int) -> list[int]:
    return encoded.ids[encoded.offsets[s] : encoded.offsets[s + 1]].tolist()
