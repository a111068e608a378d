"""The exam: mask every word of a text once, and judge every ordered pair of its sentences, or every labelled pair.

`examine_part` asks a sample instead, beside constant answers, so that training text and held-out text can be compared.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch

from bert_core.config import check_seed
from bert_core.data.batches import truncated_lengths
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IS_NEXT, EncodedCorpus, encode_corpus
from bert_core.data.tokenizer import UNK
from bert_core.errors import checked
from bert_core.probes.forward import require, word_scores
from bert_core.probes.reading import Row, masked_row, pair_row, token_text
from bert_core.probes.sentence_pairs import judge_pairs, label_pairs
from bert_core.storage.checkpoint import Checkpoint
from bert_core.training.metrics import Numbers
from bert_core.training.verdicts import Tally

EXAM_SENTENCES = 200  # limit; of a longer text, a window of this many sentences is examined
MOST_WORDS = 200  # of a part, drawn by chance; an answer takes a moment
PAIRED_SENTENCES = 16  # of a part, from its start: every ordered pair of them
LABELLED_PAIRS = 256  # of a part, from its start


@dataclass(frozen=True)
class Exam:
    """words, pairs: numbers (right, asked). window: first and last sentence, from 1, if only a part was examined."""

    words: tuple[int, int]
    pairs: tuple[int, int]
    window: tuple[int, int] | None = None


@checked
def exam(checkpoint: Checkpoint, corpus: Corpus, *, seed: int = 0) -> Exam:
    """Mask each word of every adjacent pair, one at a time, and judge every ordered pair of sentences.

    A word is right when it is the likeliest guess. A pair is IsNext when its sentences are neighbours anywhere in the
    text; all others, such as a sentence with itself, are NotNext. Of a text of labelled pairs, only these are judged,
    by their labels. Of a text of more than 200 sentences, a window drawn by the seed is examined. Pairs longer than the
    model reads are left out. Raises InputError when the model lacks a head,
    ConfigError for a seed out of range.
    """
    require(checkpoint, "mlm")
    require(checkpoint, "nsp")
    check_seed(seed)
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


@dataclass(frozen=True, eq=False)
class PartExam(Numbers):
    """Answers to questions about a part of a text.

    words: beside always guessing `frequent`, the most frequent token of the training text. information: nats that the
    guesses contain about the words around them, the mean divergence of a guess from their mean; nan without a word.
    pairs: beside always the more frequent label; of neighbours, NotNext. sentences: in the part. repeated: of these,
    left out because the training text has them too. tokens: of the others, each different sentence once. unknown: of
    these, left out because they are [UNK] or not in the training text, so that no label was ever this token.
    """

    words: Tally
    information: float
    pairs: Tally
    frequent: str
    sentences: int
    repeated: int
    tokens: int
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
    fresh = np.zeros(len(part), bool)
    fresh[np.unique(part.texts, return_index=True)[1]] = True
    fresh &= ~repeated
    tokens = np.flatnonzero(fresh.repeat(part.lengths))
    known = tokens[counts[part.ids[tokens]] > 0]
    frequent = int(counts.argmax())
    words, information = _ask_words(checkpoint, part, known, frequent, longest)
    return PartExam(
        words=words,
        information=information,
        pairs=_ask_pairs(checkpoint, part, ~repeated, training),
        frequent=token_text(checkpoint.tokenizer, frequent),
        sentences=len(part),
        repeated=int(repeated.sum()),
        tokens=len(tokens),
        unknown=len(tokens) - len(known),
    )


def _ask_words(
    checkpoint: Checkpoint, part: EncodedCorpus, known: np.ndarray, frequent: int, longest: int
) -> tuple[Tally, float]:
    """Mask tokens of a part, one at a time. known: their positions in the part, of which at most MOST_WORDS are drawn.
    Returns the answers and their information."""
    drawn = np.random.default_rng(0).permutation(known)[:MOST_WORDS]
    sentences, has_next = np.searchsorted(part.offsets, drawn, side="right") - 1, part.has_next
    questions = [_row_around(checkpoint, part, has_next, *each, longest) for each in zip(drawn, sentences)]
    labels = part.ids[drawn].tolist()
    guesses = [0] * len(drawn)
    mean, entropy = torch.zeros(checkpoint.tokenizer.get_vocab_size(), dtype=torch.float64), 0.0
    rows, positions = [row for row, _ in questions], [[position] for _, position in questions]
    for number, scores in word_scores(checkpoint, rows, positions):
        guesses[number] = int(scores.argmax())
        probabilities = scores[0].double().exp()
        mean += probabilities / len(drawn)
        entropy += float(torch.special.entr(probabilities).sum()) / len(drawn)
    right = [guess == label for guess, label in zip(guesses, labels)]
    both = sum(guess == label == frequent for guess, label in zip(guesses, labels))
    information = float(torch.special.entr(mean).sum()) - entropy if labels else math.nan
    return Tally(len(labels), sum(right), labels.count(frequent), both), information


def _row_around(
    checkpoint: Checkpoint, part: EncodedCorpus, has_next: np.ndarray, token: int, s: int, longest: int
) -> tuple[Row, int]:
    """The row in which a token of sentence s is masked, and its position there. The sentence is before the next one, at
    the end of a document after the previous one, and alone where it has neither."""
    start, end = part.offsets[s : s + 2]
    is_second = bool(not has_next[s] and s and has_next[s - 1])
    beside = slice(part.offsets[s - 1], start) if is_second else slice(end, part.offsets[s + 2] if has_next[s] else end)
    near = part.ids[beside].tolist()
    kept, rest = truncated_lengths(end - start, np.asarray(len(near)), longest - 3)
    begin = min(max(token - kept // 2, start), end - kept)
    own, near = part.ids[begin : begin + kept].tolist(), near[len(near) - rest :] if is_second else near[:rest]
    row = pair_row(checkpoint, *((near, own) if is_second else (own, near)))
    position = int(token - begin) + (len(near) + 2 if is_second else 1)
    return masked_row(checkpoint, row, position, position + 1), position


def _ask_pairs(checkpoint: Checkpoint, part: EncodedCorpus, is_new: np.ndarray, training: EncodedCorpus) -> Tally:
    """Judge different pairs of a part. is_new: which sentences the training text lacks; a pair needs one of them."""

    def ids_of(sentence: int) -> list[int]:
        return part.ids[part.offsets[sentence] : part.offsets[sentence + 1]].tolist()

    if part.pair_labels is None or training.pair_labels is None:
        wanted, has_next = is_new.copy(), part.has_next[:-1]
        wanted[:-1] |= has_next & is_new[1:]
        wanted[1:] |= has_next & is_new[:-1]
        numbers = np.flatnonzero(wanted)[:PAIRED_SENTENCES]
        sentences = [ids_of(s) for s in numbers]
        following = {i: 1 for i, (s, t) in enumerate(itertools.pairwise(numbers)) if t == s + 1 and has_next[s]}
        is_first = np.zeros(len(numbers), bool)  # of equal sentences
        is_first[np.unique(part.texts[numbers], return_index=True)[1]] = True
        asked = np.logical_and.outer(is_first, is_first) & np.logical_or.outer(is_new[numbers], is_new[numbers])
        is_next = label_pairs(sentences, following, other=0).flatten()[asked.flatten()] == 1
        probabilities = judge_pairs(checkpoint, [(sentences[i], sentences[j]) for i, j in np.argwhere(asked)])
        baseline = False
    else:
        pairs = np.flatnonzero(is_new.reshape(-1, 2).any(1))[:LABELLED_PAIRS]
        is_next = torch.from_numpy(part.pair_labels[pairs] == IS_NEXT)
        probabilities = judge_pairs(checkpoint, [(ids_of(2 * p), ids_of(2 * p + 1)) for p in pairs])
        baseline = bool((training.pair_labels == IS_NEXT).mean() > 0.5)
    judged = ~probabilities.isnan()
    right, constant = judged & ((probabilities >= 0.5) == is_next), judged & (is_next == baseline)
    return Tally(*(int(each.sum()) for each in (judged, right, constant, right & constant)))
