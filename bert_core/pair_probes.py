"""Every sentence of a text against every other: what a model says about all pairs, beside what is true.

Shapes: S sentences of the window.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bert_core.checkpoint import Checkpoint
from bert_core.corpus import Corpus
from bert_core.errors import InputError
from bert_core.pretraining_data import IS_NEXT
from bert_core.reading import Row, batches, forward_rows, require, tokenize
from bert_core.tokenization import CLS, SEP

UNLABELLED = -1


@dataclass(frozen=True)
class PairMatrix:
    """S sentences against each other, the first of a pair in the row.

    start: the number of the first of them in the text, from 0. probabilities: (S, S), P(IsNext); nan where the pair
    is longer than the model reads. truth: (S, S), 1 where the second follows the first, 0 where not, UNLABELLED
    where nobody said (pairs that are labelled one by one).
    """

    start: int
    sentences: tuple[str, ...]
    probabilities: Tensor
    truth: Tensor

    @property
    def is_asked(self) -> Tensor:
        """(S, S), whether the pair was judged and its truth is known."""
        return ~self.probabilities.isnan() & (self.truth != UNLABELLED)

    @property
    def is_right(self) -> Tensor:
        """(S, S), whether the pair was judged right."""
        return self.is_asked & ((self.probabilities >= 0.5) == (self.truth == 1))


def pair_matrix(checkpoint: Checkpoint, corpus: Corpus, *, limit: int = 32, start: int = 0) -> PairMatrix:
    """P(IsNext) for every ordered pair of a text's sentences, a sentence with itself among them.

    corpus: of a text of more than `limit` sentences, a window from number `start` on is taken. A pair is true when
    its second sentence's text follows its first's somewhere in the window, as in the exam; labelled pairs are true or
    not as their labels say, and all others unlabelled. Sentences without a word are left out. Raises InputError when
    the model has no next-sentence head or fewer than two sentences are left.
    """
    require(checkpoint, "nsp", "judge sentence pairs")
    start = max(0, min(start, len(corpus.sentences) - limit))
    if corpus.labels is not None:  # a pair stays whole
        start, limit = start // 2 * 2, limit // 2 * 2
    places = ((d, place) for d, document in enumerate(corpus.documents) for place in range(len(document)))
    kept, tokens = [], []
    for document, place in itertools.islice(places, start, start + limit):
        ids = tokenize(checkpoint, corpus.documents[document][place], None, add_special_tokens=False).ids
        if ids:
            kept.append((document, place))
            tokens.append(ids)
    if len(kept) < 2:
        raise InputError(f"{corpus.name} has fewer than two sentences with a word; next sentence prediction needs two.")
    sentences = tuple(corpus.documents[document][place] for document, place in kept)
    return PairMatrix(start, sentences, _judged(checkpoint, tokens), _truth(corpus, kept, tokens))


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
