"""The exam: mask every word of a text once, and judge every ordered pair of its sentences, or every labelled pair.

`examine_part` asks only some words and pairs of a part of a text. It also counts how often one constant answer is
right, so training text and held-out text can be compared.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from bert_core.config import check_seed
from bert_core.data.batches import truncated_lengths
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IS_NEXT, EncodedCorpus, encode_corpus
from bert_core.data.tokenizer import UNK
from bert_core.probes.forward import require, word_scores
from bert_core.probes.reading import Row, masked_row, pair_row, token_text
from bert_core.probes.sentence_pairs import judge_pairs, label_pairs
from bert_core.storage.checkpoint import Checkpoint

EXAM_SENTENCES = 200  # limit; of a longer text, a window of this many sentences is examined
MOST_WORDS = 200  # of a part, drawn by chance; an answer takes a moment
PAIRED_SENTENCES = 16  # of a part, from its start: every ordered pair of them
CHANCE = 0.01  # highest probability with which equal answers pass a test on counts
LABELLED_PAIRS = 256  # of a part, from its start
_Question = tuple[Row, int]  # a row, and the position of the token that is asked
_Pairs = tuple[np.ndarray, np.ndarray]  # numbers of two sentences, (N, 2), and whether they are IsNext, (N,)


class Tally(NamedTuple):
    """How many questions are asked, and answered right by the model, by one constant answer (baseline), and by both."""

    asked: int
    right: int
    baseline: int
    both: int

    @property
    def beats_baseline(self) -> bool:
        """Whether the model is right more often, by a one-sided sign test on the questions that only one of the two
        answers right (McNemar 1947, exact)."""
        model, baseline = self.right - self.both, self.baseline - self.both
        n = model + baseline
        return sum(math.comb(n, k) for k in range(model, n + 1)) <= CHANCE * 2**n

    def exceeds(self, other: "Tally") -> bool:
        """Whether the model is right more often than on other questions, by a one-sided test (Fisher 1922, exact)."""
        asked, right = self.asked + other.asked, self.right + other.right
        ways = sum(
            math.comb(self.asked, k) * math.comb(other.asked, right - k)
            for k in range(self.right, min(self.asked, right) + 1)
        )
        return ways <= CHANCE * math.comb(asked, right)


@dataclass(frozen=True)
class Exam:
    """The result of `exam`, beside always giving the same answer."""

    words: Tally  # beside always guessing `frequent`
    pairs: Tally  # beside always giving `label`
    frequent: str  # the token that is asked most often
    label: str  # the more frequent one of the pairs
    window: tuple[int, int] | None = None  # first and last sentence, from 1, if only a part was examined


def exam(checkpoint: Checkpoint, corpus: Corpus, *, seed: int = 0) -> Exam:
    """Mask each word of every adjacent pair, one at a time, and judge every ordered pair of sentences.

    A word is right when it is the likeliest guess. A pair is IsNext when its sentences are neighbours anywhere in the
    text; all others, such as a sentence with itself, are NotNext. Of a text of labelled pairs, only these are judged,
    by their labels. Of a text of more than 200 sentences, a window drawn by the seed is examined. Pairs longer than the
    model reads are left out. Raises InputError when the model lacks a head, ConfigError for a seed out of range.
    """
    require(checkpoint, "mlm", "nsp")
    check_seed(seed)
    encoded = encode_corpus(corpus, checkpoint.tokenizer)
    S, has_labels = len(encoded), encoded.pair_labels is not None
    first = int(np.random.default_rng(seed).integers(max(1, S - EXAM_SENTENCES + 1)))
    first = first // 2 * 2 if has_labels else first  # a labelled pair stays whole
    numbers = np.arange(first, min(S, first + EXAM_SENTENCES))
    sentences = [_ids_of(encoded, s) for s in numbers.tolist()]
    adjacent = np.flatnonzero(encoded.has_next[numbers[:-1]])
    questions: list[_Question] = []
    for a, b in (sentences[i : i + 2] for i in adjacent):
        row = pair_row(checkpoint, a, b)
        if len(row[0]) <= checkpoint.config.max_position_embeddings:
            questions += [(row, position) for position in range(1, len(row[0]) - 1) if position != len(a) + 1]
    frequent = int(np.bincount([row[0][position] for row, position in questions]).argmax()) if questions else 0
    words, _ = _ask_words(checkpoint, questions, frequent)
    if has_labels:
        pairs, is_next = _labelled_pairs(encoded, numbers[::2] // 2)
    else:
        pairs, is_next = _ordered_pairs(encoded, numbers, np.ones((len(numbers), len(numbers)), bool))
    mostly_next = bool(is_next.mean() > 0.5) if len(is_next) else False
    judged = _judge(checkpoint, encoded, pairs, is_next, mostly_next)
    asked_most, label = token_text(checkpoint.tokenizer, frequent), "IsNext" if mostly_next else "NotNext"
    window = (first + 1, int(numbers[-1]) + 1) if S > EXAM_SENTENCES else None
    return Exam(words, judged, asked_most, label, window)


@dataclass(frozen=True)
class PartExam:
    """Answers to questions about a part of a text.

    information: nats that the guesses contain about the words around them, the mean divergence of a guess from their
    mean; nan without a word. unknown: tokens left out because they are [UNK] or not in the training text.
    """

    words: Tally  # beside always guessing `frequent`
    information: float
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
    PAIRED_SENTENCES is judged, or the first LABELLED_PAIRS; pairs of two sentences of the training text are left out.
    """
    counts = np.bincount(training.ids, minlength=checkpoint.tokenizer.get_vocab_size())
    counts[checkpoint.tokenizer.token_to_id(UNK)] = 0
    repeated = np.zeros(len(part), bool) if part is training else np.isin(part.texts, training.texts)
    tokens = np.flatnonzero((_is_first(part.texts) & ~repeated).repeat(part.lengths))
    known = tokens[counts[part.ids[tokens]] > 0]
    frequent = int(counts.argmax())
    drawn = np.random.default_rng(0).permutation(known)[:MOST_WORDS]
    of_sentence, has_next = np.searchsorted(part.offsets, drawn, side="right") - 1, part.has_next
    questions = [_question_around(checkpoint, part, has_next, *each, longest) for each in zip(drawn, of_sentence)]
    words, information = _ask_words(checkpoint, questions, frequent)
    labels = None if part.pair_labels is None else training.pair_labels
    constant_pair = labels is not None and bool((labels == IS_NEXT).mean() > 0.5)
    pairs, is_next = _new_pairs(part, ~repeated, labels is not None)
    return PartExam(
        words=words,
        information=information,
        pairs=_judge(checkpoint, part, pairs, is_next, constant_pair),
        frequent=token_text(checkpoint.tokenizer, frequent),
        sentences=len(part),
        repeated=int(repeated.sum()),
        tokens=len(tokens),
        unknown=len(tokens) - len(known),
    )


def _ask_words(checkpoint: Checkpoint, questions: Sequence[_Question], frequent: int = -1) -> tuple[Tally, float]:
    """Mask one token at a time: the right guesses beside always `frequent`, and the information as in `PartExam`."""
    rows = [masked_row(checkpoint, row, position, position + 1) for row, position in questions]
    labels = np.array([row[0][position] for row, position in questions], np.int64)
    guesses, entropy = np.empty_like(labels), 0.0
    mean = torch.zeros(checkpoint.tokenizer.get_vocab_size(), dtype=torch.float64)
    for number, [scores] in word_scores(checkpoint, rows, [[position] for _, position in questions]):
        guesses[number] = int(scores.argmax())
        probabilities = scores.double().exp()
        mean += probabilities / len(questions)
        entropy += float(torch.special.entr(probabilities).sum()) / len(questions)
    information = float(torch.special.entr(mean).sum()) - entropy if questions else math.nan
    return _tally(guesses == labels, labels == frequent), information


def _question_around(
    checkpoint: Checkpoint, part: EncodedCorpus, has_next: np.ndarray, token: int, s: int, longest: int
) -> _Question:
    """The row of a token of sentence s, of at most `longest` tokens. The sentence is before the next one, at the end of
    a document after the previous one, and alone where it has neither."""
    start, end = part.offsets[s : s + 2]
    is_second = bool(not has_next[s] and s and has_next[s - 1])
    near = _ids_of(part, s - 1) if is_second else _ids_of(part, s + 1) if has_next[s] else []
    kept, rest = truncated_lengths(end - start, np.asarray(len(near)), longest - 3)
    begin = min(max(token - kept // 2, start), end - kept)
    own = part.ids[begin : begin + kept].tolist()
    if is_second:
        return pair_row(checkpoint, near[len(near) - rest :], own), int(token - begin + rest + 2)
    return pair_row(checkpoint, own, near[:rest]), int(token - begin + 1)


def _new_pairs(part: EncodedCorpus, is_new: np.ndarray, has_labels: bool) -> _Pairs:
    """Different pairs of a part. is_new: which sentences the training text lacks; a pair needs one of them."""
    if has_labels:
        return _labelled_pairs(part, np.flatnonzero(is_new.reshape(-1, 2).any(1))[:LABELLED_PAIRS])
    wanted, has_next = is_new.copy(), part.has_next[:-1]
    wanted[:-1] |= has_next & is_new[1:]
    wanted[1:] |= has_next & is_new[:-1]
    numbers = np.flatnonzero(wanted)[:PAIRED_SENTENCES]
    is_first, new = _is_first(part.texts[numbers]), is_new[numbers]
    return _ordered_pairs(part, numbers, np.outer(is_first, is_first) & np.logical_or.outer(new, new))


def _ordered_pairs(part: EncodedCorpus, numbers: np.ndarray, asked: np.ndarray) -> _Pairs:
    """The ordered pairs of the sentences `numbers` (S,) at which `asked` (S, S) is true."""
    is_followed = part.has_next[numbers[:-1]] & (numbers[1:] == numbers[:-1] + 1)
    following = dict.fromkeys(np.flatnonzero(is_followed).tolist(), 1)
    labels = label_pairs(part.texts[numbers].tolist(), following, other=0).numpy()
    return numbers[np.argwhere(asked)], labels[asked] == 1


def _labelled_pairs(part: EncodedCorpus, numbers: np.ndarray) -> _Pairs:
    assert part.pair_labels is not None
    return np.stack([2 * numbers, 2 * numbers + 1], 1), part.pair_labels[numbers] == IS_NEXT


def _judge(checkpoint: Checkpoint, part: EncodedCorpus, pairs: np.ndarray, labels: np.ndarray, constant: bool) -> Tally:
    """Judge pairs beside the constant answer IsNext or, where `constant` is False, NotNext."""
    probabilities = judge_pairs(checkpoint, [(_ids_of(part, a), _ids_of(part, b)) for a, b in pairs]).numpy()
    kept = ~np.isnan(probabilities)
    return _tally((probabilities >= 0.5)[kept] == labels[kept], labels[kept] == constant)


def _tally(right: np.ndarray, constant: np.ndarray) -> Tally:
    """Of answers that are right by the model and by the constant answer, one truth value each."""
    return Tally(len(right), int(right.sum()), int(constant.sum()), int((right & constant).sum()))


def _is_first(texts: np.ndarray) -> np.ndarray:
    """Whether each text is the first of those equal to it."""
    return np.isin(np.arange(len(texts)), np.unique(texts, return_index=True)[1])


def _ids_of(encoded: EncodedCorpus, s: int) -> list[int]:
    return encoded.ids[encoded.offsets[s] : encoded.offsets[s + 1]].tolist()
