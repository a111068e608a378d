"""The exam of a part of a text, held out or not: some of its words and pairs, beside one constant answer, so that
training text and held-out text can be compared."""

from dataclasses import dataclass

import numpy as np

from bert_core.data.batches import truncated_lengths
from bert_core.data.encoding import IS_NEXT, EncodedCorpus
from bert_core.data.tokenizer import UNK
from bert_core.probes.reading import pair_row, token_text
from bert_core.probes.sentence_pairs import Question, Tally, ask_words, ids_of, judge, label_pairs
from bert_core.storage.checkpoint import Checkpoint

MOST_WORDS = 200  # drawn by chance; an answer takes a moment
PAIRED_SENTENCES = 16  # from the start of the part: every ordered pair of them
LABELLED_PAIRS = 256  # from the start of the part


@dataclass(frozen=True)
class PartExam:
    """Answers to questions about a part of a text. unknown: tokens left out because they are [UNK] or not in the
    training text."""

    words: Tally  # beside always guessing `frequent`
    pairs: Tally  # beside always the more frequent label; of neighbours, NotNext
    frequent: str  # the most frequent token of the training text
    sentences: int  # in the part
    repeated: int  # of these, left out because the training text has them too
    tokens: int  # of the others, each different sentence once
    unknown: int


def examine_part(checkpoint: Checkpoint, part: EncodedCorpus, training: EncodedCorpus, longest: int) -> PartExam:
    """Ask about a part of a text that a model was trained on, or about held-out text; at most MOST_WORDS words.

    training: the whole training text; `part` may be the same object. longest: tokens of a pair in training. A word is
    masked once, beside a neighbouring sentence; a longer pair is cut around it. Every ordered pair of the first
    PAIRED_SENTENCES is judged, or the first LABELLED_PAIRS, without those that the training text has.
    """
    counts = np.bincount(training.ids, minlength=checkpoint.tokenizer.get_vocab_size())
    counts[checkpoint.tokenizer.token_to_id(UNK)] = 0
    repeated = np.zeros(len(part), bool) if part is training else np.isin(part.hashes, training.hashes)
    tokens = np.flatnonzero((_is_first(part.hashes) & ~repeated).repeat(part.lengths))
    known = tokens[counts[part.ids[tokens]] > 0]
    frequent = int(counts.argmax())
    drawn = np.random.default_rng(0).permutation(known)[:MOST_WORDS]
    of_sentence, has_next = np.searchsorted(part.offsets, drawn, side="right") - 1, part.has_next
    questions = [_question_around(checkpoint, part, has_next, *each, longest) for each in zip(drawn, of_sentence)]
    labels = None if part.pair_labels is None else training.pair_labels
    constant_pair = labels is not None and bool((labels == IS_NEXT).mean() > 0.5)
    numbers, is_next = _new_pairs(part, ~repeated, labels is not None)
    pairs = [(ids_of(part, a), ids_of(part, b)) for a, b in numbers]
    return PartExam(
        words=ask_words(checkpoint, questions, frequent),
        pairs=judge(checkpoint, pairs, is_next, constant_pair),
        frequent=token_text(checkpoint.tokenizer, frequent),
        sentences=len(part),
        repeated=int(repeated.sum()),
        tokens=len(tokens),
        unknown=len(tokens) - len(known),
    )


def _question_around(
    checkpoint: Checkpoint, part: EncodedCorpus, has_next: np.ndarray, token: int, s: int, longest: int
) -> Question:
    """The row of a token of sentence s, of at most `longest` tokens. The sentence is before the next one, at the end of
    a document after the previous one, and alone where it has neither."""
    start, end = part.offsets[s : s + 2]
    is_second = bool(not has_next[s] and s and has_next[s - 1])
    near = ids_of(part, s - 1) if is_second else ids_of(part, s + 1) if has_next[s] else []
    kept, rest = truncated_lengths(end - start, np.asarray(len(near)), longest - 3)
    begin = min(max(token - kept // 2, start), end - kept)
    own = part.ids[begin : begin + kept].tolist()
    if is_second:
        return pair_row(checkpoint, near[len(near) - rest :], own), int(token - begin + rest + 2)
    return pair_row(checkpoint, own, near[:rest]), int(token - begin + 1)


def _new_pairs(part: EncodedCorpus, is_new: np.ndarray, has_labels: bool) -> tuple[np.ndarray, np.ndarray]:
    """Different pairs of a part: numbers of two sentences, (N, 2), and whether they are IsNext, (N,). is_new: which
    sentences the training text lacks: both of a pair, one of a labelled one."""
    if has_labels:
        assert part.pair_labels is not None
        kept = np.flatnonzero(is_new.reshape(-1, 2).any(1))[:LABELLED_PAIRS]
        return np.stack([2 * kept, 2 * kept + 1], 1), part.pair_labels[kept] == IS_NEXT
    numbers = np.flatnonzero(is_new)[:PAIRED_SENTENCES]
    followed = np.flatnonzero(part.has_next[numbers[:-1]] & (np.diff(numbers) == 1))
    labels = label_pairs(part.hashes[numbers].tolist(), dict.fromkeys(followed.tolist(), 1), other=0).numpy() == 1
    is_first = _is_first(part.hashes[numbers])
    asked = np.outer(is_first, is_first)
    return numbers[np.argwhere(asked)], labels[asked]


def _is_first(texts: np.ndarray) -> np.ndarray:
    """Whether each text is the first of those equal to it."""
    return np.isin(np.arange(len(texts)), np.unique(texts, return_index=True)[1])
