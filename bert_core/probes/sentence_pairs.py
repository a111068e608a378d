"""Every sentence of a text against every other: what a model says about all pairs, beside what is true.

Shapes: S sentences of the window.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IS_NEXT
from bert_core.data.tokenizer import CLS, SEP
from bert_core.errors import InputError
from bert_core.probes.forward import (
    NO_WORDS,
    Row,
    batches,
    encode_text,
    forward,
    forward_rows,
    require,
    tokenize,
)
from bert_core.storage.checkpoint import Checkpoint


def next_sentence(checkpoint: Checkpoint, sentence_a: str, sentence_b: str) -> float:
    """The probability that the second sentence follows the first, P(IsNext).

    Raises InputError when a sentence is empty, the pair too long, or the model has no next-sentence head.
    """
    require(checkpoint, "nsp", "judge sentence pairs")
    for place, sentence in (("first", sentence_a), ("second", sentence_b)):
        if not sentence.strip():
            raise InputError(f"The {place} sentence is empty; next sentence prediction needs two.")
    output = forward(checkpoint, encode_text(checkpoint, sentence_a, sentence_b), asked_positions=NO_WORDS)
    return output.seq_relationship_logits.float().softmax(-1)[0, 0].item()


UNLABELLED = -1


@dataclass(frozen=True)
class PairMatrix:
    """S sentences against each other, the first of a pair in the row.

    start: where in the text the window begins, from 0. numbers: of the sentences in the text. probabilities: (S, S),
    P(IsNext); nan where the pair is longer than the model reads. truth: (S, S), 1 where the second follows the first,
    0 where not, UNLABELLED where nobody said (pairs that are labelled one by one).
    """

    start: int
    numbers: tuple[int, ...]
    sentences: tuple[str, ...]
    probabilities: Tensor
    labels: Tensor

    @property
    def is_asked(self) -> Tensor:
        """(S, S), whether the pair was judged and its truth is known."""
        return ~self.probabilities.isnan() & (self.labels != UNLABELLED)

    @property
    def is_right(self) -> Tensor:
        """(S, S), whether the pair was judged right."""
        return self.is_asked & ((self.probabilities >= 0.5) == (self.labels == 1))

    @property
    def found(self) -> tuple[int, int]:
        """For how many sentences a true next one is the likeliest of all, and how many have a true next one."""
        has_next = (self.is_asked & (self.labels == 1)).any(1)
        likeliest = self.probabilities.nan_to_num(-1).argmax(1)
        is_true = self.labels.gather(1, likeliest[:, None])[:, 0] == 1
        return int((has_next & is_true).sum()), int(has_next.sum())


def window(corpus: Corpus, limit: int, start: int = 0) -> tuple[int, Corpus]:
    """At most `limit` sentences of a corpus from number `start` on, and that number, from 0.

    Near the end of the text it begins earlier, so that there are as many; a labelled pair stays whole.
    """
    start = max(0, min(start, len(corpus.sentences) - limit))
    if corpus.labels is not None:
        start, limit = start // 2 * 2, limit // 2 * 2
    documents, labels, before = [], [], 0
    for number, document in enumerate(corpus.documents):
        if before >= start + limit:
            break
        part = document[max(0, start - before) : max(0, start + limit - before)]
        before += len(document)
        if part:
            documents.append(part)
            labels += [] if corpus.labels is None else [corpus.labels[number]]
    return start, replace(corpus, documents=tuple(documents), labels=None if corpus.labels is None else tuple(labels))


def pair_matrix(checkpoint: Checkpoint, corpus: Corpus, *, limit: int = 32, start: int = 0) -> PairMatrix:
    """P(IsNext) for every ordered pair of a text's sentences, a sentence with itself among them.

    corpus: of a text of more than `limit` sentences, a window from number `start` on is taken. A pair is true when
    its second sentence's text follows its first's somewhere in the window, as in the exam; labelled pairs are true or
    not as their labels say, and all others unlabelled. Sentences without a word are left out. Raises InputError when
    the model has no next-sentence head or fewer than two sentences are left.
    """
    require(checkpoint, "nsp", "judge sentence pairs")
    start, corpus = window(corpus, limit, start)
    places = [(document, place) for document, part in enumerate(corpus.documents) for place in range(len(part))]
    kept, numbers, tokens = [], [], []
    for number, (document, place) in enumerate(places, start):
        if ids := tokenize(checkpoint, corpus.documents[document][place], None, add_special_tokens=False).ids:
            kept.append((document, place))
            numbers.append(number)
            tokens.append(ids)
    if len(kept) < 2:
        raise InputError(f"{corpus.name} has fewer than two sentences with a word; next sentence prediction needs two.")
    sentences = tuple(corpus.documents[document][place] for document, place in kept)
    return PairMatrix(start, tuple(numbers), sentences, _judged(checkpoint, tokens), _truth(corpus, kept, tokens))


@torch.inference_mode()
def _judged(checkpoint: Checkpoint, tokens: Sequence[list[int]]) -> Tensor:
    """P(IsNext) of every ordered pair of sentences, (S, S); nan where a pair is too long."""
    cls, sep = map(checkpoint.tokenizer.token_to_id, (CLS, SEP))
    limit = checkpoint.config.max_position_embeddings
    pairs = [
        (a, b)
        for a, b in itertools.product(range(len(tokens)), repeat=2)
        if len(tokens[a]) + len(tokens[b]) + 3 <= limit
    ]
    rows: list[Row] = [
        ([cls, *tokens[a], sep, *tokens[b], sep], [0] * (len(tokens[a]) + 2) + [1] * (len(tokens[b]) + 1))
        for a, b in pairs
    ]
    judged = torch.full((len(tokens), len(tokens)), torch.nan)
    for part in batches(checkpoint, rows):
        scores = forward_rows(checkpoint, [rows[number] for number in part], []).seq_relationship_logits
        first, second = zip(*(pairs[number] for number in part))
        judged[list(first), list(second)] = scores.float().softmax(-1)[:, IS_NEXT].cpu()
    return judged


def _truth(corpus: Corpus, kept: Sequence[tuple[int, int]], tokens: Sequence[list[int]]) -> Tensor:
    S = len(kept)
    truth = torch.full((S, S), UNLABELLED if corpus.labels is not None else 0)
    known = {}  # texts that repeat are one text
    for i, ((document, _), (after, _)) in enumerate(itertools.pairwise(kept)):
        if document == after:
            label = corpus.labels[document] if corpus.labels is not None else True
            known[tuple(tokens[i]), tuple(tokens[i + 1])] = int(label)
    for (i, a), (j, b) in itertools.product(enumerate(map(tuple, tokens)), repeat=2):
        truth[i, j] = known.get((a, b), int(truth[i, j]))
    return truth
