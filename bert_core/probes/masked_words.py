"""Words under a mask, looked at closely: one's own guess, layer by layer, every word in turn, one word less.

A word of several pieces is masked whole, with a [MASK] for each piece, as in whole-word masking: a model that sees
"juli" finds "##et" without thinking. Its probability is then the product of its pieces' probabilities, each guessed
without the others.

Shapes: L layers, C candidates, N words. Probabilities are a softmax over the whole vocabulary.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from tokenizers import Encoding
from torch import Tensor

from bert_core.data.tokenizer import MASK, UNK
from bert_core.errors import InputError
from bert_core.probes.forward import (
    Row,
    Word,
    batches,
    encode_text,
    forward,
    forward_rows,
    read_words,
    require,
)
from bert_core.storage.checkpoint import Checkpoint


def fill_mask(
    checkpoint: Checkpoint, text: str, text_pair: str | None = None, *, top_k: int = 5
) -> list[list[tuple[str, float]]]:
    """The likeliest words at each [MASK], in reading order: (token, probability), likeliest first.

    Probabilities are a softmax over the whole vocabulary. text_pair: a second sentence, in segment B. Raises
    InputError when there is no [MASK], the input is too long, or the model has no masked-word head.
    """
    require(checkpoint, "mlm", "guess masked words")
    if top_k < 1:
        raise InputError(f"top_k is {top_k}; ask for at least 1 guess.")
    encoding = encode_text(checkpoint, text, text_pair)
    at = [i for i, token in enumerate(encoding.tokens) if token == MASK]
    if not at:
        raise InputError(f"There is no {MASK} in the text; put one where a word is to be guessed.")
    output = forward(checkpoint, encoding, asked_positions=torch.tensor(at))
    probabilities = output.prediction_logits.float().softmax(-1).cpu()  # (N, V)
    # An embedding may have more rows than the tokenizer has tokens; those stand for no word.
    best = probabilities[:, : checkpoint.tokenizer.get_vocab_size()].topk(
        min(top_k, checkpoint.tokenizer.get_vocab_size())
    )
    return [
        [(checkpoint.tokenizer.id_to_token(i), p) for i, p in zip(ids, values)]
        for ids, values in zip(best.indices.tolist(), best.values.tolist())
    ]


Guess = tuple[str, float]


@dataclass(frozen=True)
class WordGuess:
    """A word at a place that is masked. pieces: its tokens. log_probabilities, ranks: of each piece at its [MASK],
    natural logarithm; rank 1 is the likeliest of the whole vocabulary.
    """

    pieces: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    ranks: tuple[int, ...]

    @property
    def log_probability(self) -> float:
        """Of all pieces together, each guessed without the others."""
        return sum(self.log_probabilities)

    @property
    def probability(self) -> float:
        """Of all pieces together: the product of theirs."""
        return math.exp(self.log_probability)


@dataclass(frozen=True)
class LayerLens:
    """What each layer would say at one [MASK]. candidates: C tokens. probabilities: (L + 1, C), the embeddings first.
    ranks: (L + 1, C), 1 is the likeliest. best: L + 1 guesses, (token, probability).
    """

    candidates: tuple[str, ...]
    probabilities: Tensor
    ranks: Tensor
    best: tuple[Guess, ...]


@dataclass(frozen=True)
class SweptWord:
    """A word that was masked. own: itself at its place, None for a word the vocabulary lacks. rivals: for each piece
    the likeliest tokens.
    """

    word: Word
    own: WordGuess | None
    rivals: tuple[tuple[Guess, ...], ...]


@dataclass(frozen=True)
class Sweep:
    """Every word masked in turn. mean_log_probability: natural logarithm, over the words the vocabulary has; nan when
    it has none. It says how well words fit their places and is not the logarithm of a sentence's probability: each
    word was guessed from all others.
    """

    words: tuple[SweptWord, ...]
    mean_log_probability: float


@dataclass(frozen=True)
class LeaveOneOut:
    """A word at a [MASK] when one more word is masked. answer: its pieces. probability: with all words there. words:
    the N others. without: (N,), the probability without each.
    """

    answer: tuple[str, ...]
    probability: float
    words: tuple[Word, ...]
    without: Tensor


def rate_guess(
    checkpoint: Checkpoint, guess: str, text: str, text_pair: str | None = None, *, mask: int = 0
) -> WordGuess:
    """How likely any word is at a [MASK], and its rank.

    mask: number of the [MASK] in reading order, from 0. A word of several pieces needs as many neighbouring [MASK]s,
    of which `mask` is the first. Raises InputError when there are too few, or the vocabulary lacks the word.
    """
    return _at_mask(checkpoint, text, text_pair, mask, guess)[2]


@torch.inference_mode()
def layer_lens(
    checkpoint: Checkpoint,
    text: str,
    text_pair: str | None = None,
    *,
    mask: int = 0,
    words: Sequence[str] = (),
    top_k: int = 5,
) -> LayerLens:
    """The masked-word head applied to every layer's hidden state at one [MASK] ("logit lens", nostalgebraist 2020).

    The head was trained on the last layer alone, where the answer is that of `fill_mask`; at the others it shows how
    far the answer has come. mask: number of the [MASK] in reading order, from 0. The candidates are the last layer's
    `top_k` likeliest tokens, then those of `words` that are one known token. Raises InputError when there is no such
    [MASK].
    """
    encoding, places = _masks(checkpoint, text, text_pair, mask)
    output = forward(checkpoint, encoding, asked_positions=torch.tensor(places), output_hidden_states=True)
    states = torch.stack([state[0, places[mask]] for state in output.hidden_states])  # (L + 1, D)
    scores = _known(checkpoint, checkpoint.model.score_words(states))  # (L + 1, V)
    ids = scores[-1].topk(min(top_k, scores.shape[1])).indices.tolist()
    for word in words:
        encoded = checkpoint.tokenizer.encode(word, add_special_tokens=False)
        if len(encoded) == 1 and encoded.tokens != [UNK]:
            ids += [i for i in encoded.ids if i not in ids]
    return LayerLens(
        candidates=tuple(map(checkpoint.tokenizer.id_to_token, ids)),
        probabilities=scores[:, ids].exp(),
        ranks=(scores[:, :, None] > scores[:, None, ids]).sum(1) + 1,
        best=tuple(_best(checkpoint, row, 1)[0] for row in scores),
    )


def sweep(checkpoint: Checkpoint, text: str, text_pair: str | None = None, *, top_k: int = 5) -> Sweep:
    """Mask every word of one or two sentences in turn and see how likely it is at its place.

    A [MASK] that was typed stays one all along. Raises InputError for an empty or too long text.
    """
    require(checkpoint, "mlm", "guess masked words")
    encoding = encode_text(checkpoint, text, text_pair)
    words = _other_words(checkpoint, text, text_pair)
    rows = [_masked(checkpoint, (encoding.ids, encoding.type_ids), word) for word in words]
    swept: dict[int, SweptWord] = {}
    for number, scores in _scores(checkpoint, rows, [range(word.first, word.last) for word in words]):
        word = words[number]
        own = _rated(checkpoint, word.pieces, scores) if word.is_known else None
        swept[number] = SweptWord(word, own, tuple(_best(checkpoint, row, top_k) for row in scores))
    ordered = tuple(swept[number] for number in range(len(words)))
    logs = [entry.own.log_probability for entry in ordered if entry.own]
    return Sweep(ordered, sum(logs) / len(logs) if logs else math.nan)


def leave_one_out(
    checkpoint: Checkpoint, text: str, text_pair: str | None = None, *, mask: int = 0, answer: str | None = None
) -> LeaveOneOut:
    """Which words the answer at a [MASK] rests on: each other word is masked in turn.

    mask: number of the [MASK] in reading order, from 0. answer: the word that is watched; None watches the likeliest
    guess. One of several pieces needs as many neighbouring [MASK]s, of which `mask` is the first. Raises InputError as
    `rate_guess` does.
    """
    encoding, asked, rated = _at_mask(checkpoint, text, text_pair, mask, answer)
    words = _other_words(checkpoint, text, text_pair)
    rows = [_masked(checkpoint, (encoding.ids, encoding.type_ids), word) for word in words]
    without = torch.empty(len(words))
    for number, scores in _scores(checkpoint, rows, [asked] * len(rows)):
        without[number] = _rated(checkpoint, rated.pieces, scores).probability
    return LeaveOneOut(rated.pieces, rated.probability, tuple(words), without)


def _masks(checkpoint: Checkpoint, text: str, text_pair: str | None, mask: int) -> tuple[Encoding, list[int]]:
    """The input and where its masks stand."""
    require(checkpoint, "mlm", "guess masked words")
    encoding = encode_text(checkpoint, text, text_pair)
    places = [i for i, token in enumerate(encoding.tokens) if token == MASK]
    if not 0 <= mask < len(places):
        raise InputError(f"There are {len(places)} {MASK} in the text, counted from 0; number {mask} is none of them.")
    return encoding, places


def _at_mask(
    checkpoint: Checkpoint, text: str, text_pair: str | None, mask: int, word: str | None
) -> tuple[Encoding, range, WordGuess]:
    """The input, the tokens that a word takes from a mask on, and the word there; None takes the likeliest guess."""
    encoding, places = _masks(checkpoint, text, text_pair, mask)
    scores = _known(checkpoint, forward(checkpoint, encoding, asked_positions=torch.tensor(places)).prediction_logits)
    if word is None:
        pieces = (_best(checkpoint, scores[mask], 1)[0][0],)
    else:
        pieces = tuple(checkpoint.tokenizer.encode(word, add_special_tokens=False).tokens)
        if not pieces or UNK in pieces:
            raise InputError(f"The model never learned the word {word.strip()[:60]!r}; try another.")
    asked = range(places[mask], places[mask] + len(pieces))
    if places[mask : mask + len(pieces)] != list(asked):
        raise InputError(
            f"{word.strip()[:60]!r} is {len(pieces)} pieces to the model; put as many {MASK} beside each other."
        )
    return encoding, asked, _rated(checkpoint, pieces, scores[mask : mask + len(pieces)])


def _other_words(checkpoint: Checkpoint, text: str, text_pair: str | None) -> list[Word]:
    return [word for word in read_words(checkpoint, text, text_pair) if not word.is_special]


def _masked(checkpoint: Checkpoint, row: Row, word: Word) -> Row:
    """The row with a [MASK] for each piece of the word."""
    ids, segments = row
    mask = checkpoint.tokenizer.token_to_id(MASK)
    return [*ids[: word.first], *[mask] * len(word.pieces), *ids[word.last :]], segments


@torch.inference_mode()
def _scores(
    checkpoint: Checkpoint, rows: Sequence[Row], asked: Sequence[Sequence[int]]
) -> Iterator[tuple[int, Tensor]]:
    """Each row's number and the logarithms of the probabilities at its asked tokens, (asked, V)."""
    for part in batches(checkpoint, rows):
        places = [(at, token) for at, number in enumerate(part) for token in asked[number]]
        logits = forward_rows(checkpoint, [rows[number] for number in part], places).prediction_logits
        yield from zip(part, _known(checkpoint, logits).split([len(asked[number]) for number in part]))


def _known(checkpoint: Checkpoint, logits: Tensor) -> Tensor:
    """Logarithms of the probabilities of the tokens: an embedding may have more rows than there are tokens."""
    return logits.float().log_softmax(-1)[:, : checkpoint.tokenizer.get_vocab_size()].cpu()


def _rated(checkpoint: Checkpoint, pieces: Sequence[str], scores: Tensor) -> WordGuess:
    """A word whose pieces were scored, (pieces, V)."""
    ids = torch.tensor([checkpoint.tokenizer.token_to_id(piece) for piece in pieces])
    own = scores.gather(1, ids[:, None])  # (pieces, 1)
    return WordGuess(tuple(pieces), tuple(own[:, 0].tolist()), tuple(((scores > own).sum(1) + 1).tolist()))


def _best(checkpoint: Checkpoint, scores: Tensor, top_k: int) -> tuple[Guess, ...]:
    """The likeliest tokens of one place, (V,), likeliest first."""
    best = scores.topk(min(top_k, len(scores)))
    return tuple(zip(map(checkpoint.tokenizer.id_to_token, best.indices.tolist()), best.values.exp().tolist()))
