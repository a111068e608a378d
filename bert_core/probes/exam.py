"""The exam: every word of a text masked in turn, every ordered pair of its sentences judged."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IS_NEXT, encode_corpus
from bert_core.data.tokenizer import CLS, MASK, SEP
from bert_core.probes.forward import (
    batches,
    forward_rows,
    require,
)
from bert_core.storage.checkpoint import Checkpoint

EXAM_SENTENCES = 200  # a longer text is examined in a window of this many sentences


@dataclass(frozen=True)
class Exam:
    """words, pairs: (right, asked). window: (first, last) sentence numbers from 1 when only a part was examined."""

    words: tuple[int, int]
    pairs: tuple[int, int]
    window: tuple[int, int] | None = None


def exam(checkpoint: Checkpoint, corpus: Corpus, *, seed: int = 0) -> Exam:
    """Mask every word of every adjacent pair in turn, and judge every ordered pair of sentences.

    A word is right when the likeliest guess is the word. A pair is IsNext when its second sentence's text follows
    its first's somewhere in the text; a sentence with itself is NotNext. Over 200 sentences, a window of 200 chosen
    by the seed is examined. Pairs that are longer than the model reads are left out. Raises InputError when the model
    lacks a head.
    """
    require(checkpoint, "mlm", "guess masked words")
    require(checkpoint, "nsp", "judge sentence pairs")
    encoded = encode_corpus(corpus, checkpoint.tokenizer)
    S, has_next = len(encoded), encoded.has_next
    first = int(np.random.default_rng(seed).integers(max(1, S - EXAM_SENTENCES + 1)))
    last = min(S, first + EXAM_SENTENCES)
    sentences = [encoded.ids[encoded.offsets[s] : encoded.offsets[s + 1]].tolist() for s in range(first, last)]
    adjacent = [s for s in range(len(sentences) - 1) if has_next[first + s]]
    true_pairs = {(tuple(sentences[s]), tuple(sentences[s + 1])) for s in adjacent}
    ids = checkpoint.tokenizer.token_to_id
    cls, sep, mask = ids(CLS), ids(SEP), ids(MASK)

    def row(a: Sequence[int], b: Sequence[int]) -> tuple[list[int], list[int]]:
        return [cls, *a, sep, *b, sep], [0] * (len(a) + 2) + [1] * (len(b) + 1)

    limit = checkpoint.config.max_position_embeddings
    masked, asked = [], []
    for s in adjacent:
        whole, segments = row(sentences[s], sentences[s + 1])
        for i, token in enumerate(whole):
            if token not in (cls, sep) and len(whole) <= limit:
                masked.append(([*whole[:i], mask, *whole[i + 1 :]], segments))
                asked.append((i, token))
    pairs = [(tuple(a), tuple(b)) for a in sentences for b in sentences if len(a) + len(b) + 3 <= limit]
    right_words = right_pairs = 0
    for part in batches(checkpoint, masked):
        places = [(row, asked[number][0]) for row, number in enumerate(part)]
        scores = forward_rows(checkpoint, [masked[number] for number in part], places).prediction_logits
        truth = (asked[number][1] for number in part)
        right_words += sum(guess == word for guess, word in zip(scores.argmax(-1).tolist(), truth))
    rows = [row(a, b) for a, b in pairs]
    for part in batches(checkpoint, rows):
        scores = forward_rows(checkpoint, [rows[number] for number in part], []).seq_relationship_logits
        says_next = (scores.argmax(-1) == IS_NEXT).tolist()
        right_pairs += sum(says == (pairs[number] in true_pairs) for says, number in zip(says_next, part))
    window = (first + 1, last) if S > EXAM_SENTENCES else None
    return Exam((right_words, len(masked)), (right_pairs, len(pairs)), window)
