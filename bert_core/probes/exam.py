"""The exam: mask every word of a text once, and judge every ordered pair of its sentences, or every labelled pair."""

import itertools
from dataclasses import dataclass

import numpy as np
import torch

from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IS_NEXT, encode_corpus
from bert_core.probes.forward import require, word_scores
from bert_core.probes.reading import Row, masked_row, pair_row
from bert_core.probes.sentence_pairs import judge_pairs, label_pairs
from bert_core.storage.checkpoint import Checkpoint

EXAM_SENTENCES = 200  # limit; of a longer text, a window of this many sentences is examined


@dataclass(frozen=True)
class Exam:
    """words, pairs: numbers (right, asked). window: first and last sentence, from 1, if only a part was examined."""

    words: tuple[int, int]
    pairs: tuple[int, int]
    window: tuple[int, int] | None = None


def exam(checkpoint: Checkpoint, corpus: Corpus, *, seed: int = 0) -> Exam:
    """Mask each word of every adjacent pair, one at a time, and judge every ordered pair of sentences.

    A word is right when it is the likeliest guess. A pair is IsNext when its sentences are neighbours anywhere in the
    text; all others, such as a sentence with itself, are NotNext. Of a text of labelled pairs, only these are judged,
    by their labels. Of a text of more than 200 sentences, a window drawn by the seed is examined. Pairs longer than the
    model reads are left out. Raises InputError when the model lacks a head.
    """
    require(checkpoint, "mlm")
    require(checkpoint, "nsp")
    encoded = encode_corpus(corpus, checkpoint.tokenizer)
    S, has_next = len(encoded), encoded.has_next
    first = int(np.random.default_rng(seed).integers(max(1, S - EXAM_SENTENCES + 1)))
    if encoded.pair_labels is not None:
        first = first // 2 * 2  # a labelled pair stays whole
    last = min(S, first + EXAM_SENTENCES)
    sentences = [encoded.ids[encoded.offsets[s] : encoded.offsets[s + 1]].tolist() for s in range(first, last)]
    adjacent = [i for i in range(len(sentences) - 1) if has_next[first + i]]

    rows: list[Row] = []
    asked: list[list[int]] = []  # the masked position of each row
    answers: list[int] = []
    for i in adjacent:
        a, b = sentences[i : i + 2]
        row = pair_row(checkpoint, a, b)
        if len(row[0]) <= checkpoint.config.max_position_embeddings:
            positions = [*range(1, len(a) + 1), *range(len(a) + 2, len(a) + len(b) + 2)]
            rows += [masked_row(checkpoint, row, position, position + 1) for position in positions]
            asked += [[position] for position in positions]
            answers += a + b
    scored = word_scores(checkpoint, rows, asked)
    right_words = sum(int(scores.argmax()) == answers[number] for number, scores in scored)

    if encoded.pair_labels is None:
        probabilities = judge_pairs(checkpoint, itertools.product(sentences, repeat=2))
        is_next = label_pairs(sentences, dict.fromkeys(adjacent, 1), other=0).flatten() == 1
    else:
        probabilities = judge_pairs(checkpoint, [sentences[i : i + 2] for i in adjacent])
        is_next = torch.from_numpy(encoded.pair_labels[first // 2 : last // 2] == IS_NEXT)
    judged = ~probabilities.isnan()
    right_pairs = judged & ((probabilities >= 0.5) == is_next)
    return Exam(
        words=(right_words, len(rows)),
        pairs=(int(right_pairs.sum()), int(judged.sum())),
        window=(first + 1, last) if S > EXAM_SENTENCES else None,
    )
