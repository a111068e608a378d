"""The exam: mask every word of a text once, and judge every ordered pair of its sentences, or every labelled pair."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bert_core.config import check_seed
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IS_NEXT, EncodedCorpus, encode_corpus
from bert_core.probes.forward import require, word_scores
from bert_core.probes.reading import Row, masked_row, pair_row, token_text
from bert_core.probes.sentence_pairs import judge_pairs, label_pairs, window
from bert_core.storage.checkpoint import Checkpoint

EXAM_SENTENCES = 200  # limit; of a longer text, a window of this many sentences is examined
Question = tuple[Row, int]  # a row, and the position of the token that is asked


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
