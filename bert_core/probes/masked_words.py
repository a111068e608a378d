"""Masked words: a model's guesses at each [MASK], layer by layer, and the probability of any word; writing by
unmasking, and how much of what was written stands in another text.

A word of several pieces is masked whole, with a [MASK] for each piece: a model that sees "juli" completes it with
"##et" from the spelling alone. Its probability is the product of its pieces', each guessed without the others.

Shapes: T tokens of the input, N [MASK]s, L layers, C candidates, V vocabulary. Probabilities are a softmax over the
whole vocabulary."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from tokenizers import Encoding
from torch import Tensor

from bert_core.config import check_seed
from bert_core.data.encoding import EncodedCorpus
from bert_core.data.sentences import UNSPACED
from bert_core.data.tokenizer import MASK, PREFIX, SPECIAL_TOKENS, UNK, special_ids, token_id
from bert_core.errors import InputError
from bert_core.probes.forward import Guess, hidden_states, likeliest, log_probabilities, require, word_scores
from bert_core.probes.reading import Row, Word, encode_text, masked_row, read_words, row_of, token_text, tokenize
from bert_core.storage.checkpoint import Checkpoint


@dataclass(frozen=True)
class WordGuess:
    """A word at a masked position."""

    pieces: tuple[str, ...]  # its tokens
    log_probabilities: tuple[float, ...]  # of each piece at its [MASK], natural logarithms
    ranks: tuple[int, ...]  # of each piece; 1 is the likeliest token of the vocabulary

    @property
    def log_probability(self) -> float:
        return sum(self.log_probabilities)

    @property
    def probability(self) -> float:
        return math.exp(self.log_probability)


@dataclass(frozen=True)
class LayerLens:
    """Each layer's guesses at one [MASK], the embeddings first."""

    candidates: tuple[str, ...]  # C tokens
    probabilities: Tensor  # (L + 1, C)
    ranks: Tensor  # (L + 1, C), 1 is the likeliest
    best: tuple[Guess, ...]  # each layer's best guess


@dataclass(frozen=True)
class SweptWord:
    word: Word
    own: WordGuess | None  # the word itself at its position, None if the vocabulary lacks it
    rivals: tuple[tuple[Guess, ...], ...]  # the likeliest tokens for each piece


def fill_mask(checkpoint: Checkpoint, text: str, text_pair: str | None = None, *, top_k: int = 5) -> list[list[Guess]]:
    """The likeliest tokens at each [MASK], in reading order: (token, probability), the best first.

    Raises InputError when there is no [MASK], the input is too long, or the model has no masked-word head."""
    encoding, masks = find_masks(checkpoint, text, text_pair)
    [scores] = word_scores(checkpoint, [row_of(encoding)], [masks], lambda _, scores: scores)
    return [[*likeliest(checkpoint, row, top_k)] for row in scores]


def rate_guess(
    checkpoint: Checkpoint, guess: str, text: str, text_pair: str | None = None, *, mask: int = 0
) -> WordGuess:
    """The probability and rank of the word `guess` at a [MASK].

    mask: number of the [MASK] in reading order, from 0. A word of several pieces needs as many neighbouring [MASK]s,
    of which `mask` is the first. Raises InputError when there are too few, or the vocabulary lacks the word."""
    return at_mask(checkpoint, text, text_pair, mask, guess)[-1]


@torch.no_grad()
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

    The head was trained on the last layer, where it gives the answer of `fill_mask`. On earlier layers it shows where
    this head can read that answer, not where the answer appears. The candidates are the last layer's `top_k` likeliest
    tokens and those of `words` that are one known token. mask and errors as for `rate_guess`."""
    encoding, positions = find_masks(checkpoint, text, text_pair, mask)
    states = hidden_states(checkpoint, encoding)[:, positions[mask]].to(checkpoint.model.device)  # (L + 1, D)
    scores = log_probabilities(checkpoint, checkpoint.model.score_words(states)).cpu()  # (L + 1, V)
    tokens = [token for token, _ in likeliest(checkpoint, scores[-1], top_k)]
    for word in words:
        pieces = tokenize(checkpoint, word, add_special_tokens=False).tokens
        tokens += pieces if len(pieces) == 1 and pieces[0] not in (UNK, *tokens) else []
    ids = [token_id(checkpoint.tokenizer, token) for token in tokens]
    return LayerLens(
        candidates=tuple(tokens),
        probabilities=scores[:, ids].exp(),
        ranks=(scores[:, :, None] > scores[:, None, ids]).sum(1) + 1,
        best=tuple(likeliest(checkpoint, row, 1)[0] for row in scores),
    )


def sweep(checkpoint: Checkpoint, text: str, text_pair: str | None = None, *, top_k: int = 5) -> list[SweptWord]:
    """Mask each word of one or two sentences, one at a time, and rate it at its position. A [MASK] in the text stays.

    The log-probabilities give a pseudo-log-likelihood of the text (Salazar et al. 2020). Raises InputError for an empty
    or too long text."""
    require(checkpoint, "mlm")
    encoding = encode_text(checkpoint, text, text_pair)
    words, rows = each_masked(checkpoint, encoding, text, text_pair)

    def swept(number: int, scores: Tensor) -> SweptWord:
        word = words[number]
        own = rated(checkpoint, encoding.ids[word.first : word.last], scores) if word.is_known else None
        return SweptWord(word, own, tuple(likeliest(checkpoint, row, top_k) for row in scores))

    return word_scores(checkpoint, rows, [range(word.first, word.last) for word in words], swept)


def find_masks(checkpoint: Checkpoint, text: str, text_pair: str | None, mask: int = 0) -> tuple[Encoding, list[int]]:
    """The input and the positions of its masks; there must be one of number `mask`."""
    require(checkpoint, "mlm")
    encoding = encode_text(checkpoint, text, text_pair)
    positions = [i for i, token in enumerate(encoding.tokens) if token == MASK]
    if not positions:
        raise InputError(f"There is no {MASK} in the text; put one where the model should guess.")
    if not 0 <= mask < len(positions):
        raise InputError(f"There is no {MASK} number {mask} in the text; choose one from 0 to {len(positions) - 1}.")
    return encoding, positions


def at_mask(
    checkpoint: Checkpoint, text: str, text_pair: str | None, mask: int, word: str | None
) -> tuple[Encoding, list[int], list[int], WordGuess]:
    """A word rated at a [MASK] and those after it, None for the likeliest token; with the input, and the positions and
    ids of the word's pieces."""
    encoding, positions = find_masks(checkpoint, text, text_pair, mask)
    [scores] = word_scores(checkpoint, [row_of(encoding)], [positions[mask:]], lambda _, scores: scores)
    if word is None:
        ids = [int(scores[0].argmax())]
    else:
        pieces = tokenize(checkpoint, word, add_special_tokens=False)
        ids, named = pieces.ids, repr(word.strip()[:60])
        if not ids or UNK in pieces.tokens:
            raise InputError(f"The model never learned the word {named}; try another.")
        if positions[mask : mask + len(ids)] != list(range(positions[mask], positions[mask] + len(ids))):
            raise InputError(f"The model reads {named} as {len(ids)} pieces; put {len(ids)} {MASK} in a row.")
    return encoding, positions[mask : mask + len(ids)], ids, rated(checkpoint, ids, scores[: len(ids)])


def each_masked(
    checkpoint: Checkpoint, encoding: Encoding, text: str, text_pair: str | None
) -> tuple[list[Word], list[Row]]:
    """The words of an input that are not special, and for each of them the row with it masked. Raises InputError where
    there are none."""
    words = [word for word in read_words(checkpoint, text, text_pair) if not word.is_special]
    if not words:
        raise InputError("There is no other word to hide; type a longer sentence.")
    return words, [masked_row(checkpoint, row_of(encoding), word.first, word.last) for word in words]


def rated(checkpoint: Checkpoint, ids: Sequence[int], scores: Tensor) -> WordGuess:
    """A word rated by the ids of its pieces and the log-probabilities at their positions, (pieces, V)."""
    own = scores.gather(1, torch.tensor(ids)[:, None])  # (pieces, 1)
    return WordGuess(
        pieces=tuple(token_text(checkpoint.tokenizer, number) for number in ids),
        log_probabilities=tuple(own[:, 0].tolist()),
        ranks=tuple(((scores > own).sum(1) + 1).tolist()),
    )


@dataclass(frozen=True)
class Round:
    tokens: tuple[str, ...]  # N
    probabilities: tuple[float, ...]  # N, of each token when it was written
    hidden: tuple[int, ...]  # numbers of the [MASK]s that the next round writes again


@dataclass(frozen=True)
class Writing:
    tokens: tuple[str, ...]  # T
    masks: tuple[int, ...]  # N positions
    rounds: tuple[Round, ...]
    texts: tuple[str, str]  # the sentences, as the tokenizer decodes them


def unmask(
    checkpoint: Checkpoint,
    text: str,
    text_pair: str | None = None,
    *,
    rounds: int = 8,
    temperature: float = 0,
    seed: int = 0,
) -> Writing:
    """Write a token for each [MASK]; each round then hides the least sure ones, which the next one writes again.

    This is mask-predict (Ghazvininejad et al. 2019, section 3.2): round t of R leaves N * (R - t) // R hidden, and R is
    at most N. Special tokens and [UNK] are never written; a ## piece stands only behind another [MASK], so that given
    words stay. temperature: 0 takes the likeliest token; otherwise one is drawn by the softmax of the log-probabilities
    divided by it (Wang & Cho 2019). seed: of the draws. Raises InputError as `fill_mask` does and for settings out of
    range, ConfigError for such a seed."""
    encoding, masks = find_masks(checkpoint, text, text_pair)
    if rounds < 1 or not 0 <= temperature < float("inf"):
        raise InputError(f"{rounds} rounds at temperature {temperature}: ask for 1 or more, at 0 or above.")
    check_seed(seed)
    generator, tokenizer = torch.Generator().manual_seed(seed), checkpoint.tokenizer
    (ids, segments), N, mask = row_of(encoding), len(masks), special_ids(tokenizer)[MASK]
    vocabulary = [token_text(tokenizer, number) for number in range(tokenizer.get_vocab_size())]
    never = torch.tensor([token in SPECIAL_TOKENS for token in vocabulary]).repeat(N, 1)  # (N, V)
    begins = torch.tensor([position - 1 not in masks for position in masks])
    never[begins] |= torch.tensor([token.startswith(PREFIX) for token in vocabulary])
    if never.all(1).any():
        raise InputError("The vocabulary of this model has no word that can be written; choose another model.")
    hidden, sure, found, R = [*range(N)], [0.0] * N, list[Round](), min(rounds, N)
    for left in reversed(range(R)):
        asked = [masks[number] for number in hidden]
        for position in asked:
            ids[position] = mask
        [scores] = word_scores(checkpoint, [(ids, segments)], [asked], lambda _, scores: scores)
        allowed = scores.masked_fill(never[hidden], -torch.inf)  # (hidden, V)
        best = allowed.amax(-1, True)  # subtracted, and in float64, so that no temperature is too small or too large
        weights = ((allowed - best).double() / temperature).softmax(-1) if temperature else None
        drawn = allowed.argmax(-1) if weights is None else weights.multinomial(1, generator=generator)[:, 0]
        for row, number in enumerate(hidden):
            token = int(drawn[row])
            ids[masks[number]], sure[number] = token, float(scores[row, token].exp())
        hidden = sorted(sorted(range(N), key=sure.__getitem__)[: N * left // R])
        found.append(Round(tuple(vocabulary[ids[each]] for each in masks), tuple(sure), tuple(hidden)))
    sides = ([token for token, side in zip(ids, encoding.sequence_ids) if side == each] for each in (0, 1))
    decoded = (tokenizer.decode(side, skip_special_tokens=False) for side in sides)
    first, second = (re.sub(f"(?<=[{UNSPACED}]) (?=[{UNSPACED}])", "", each) for each in decoded)
    return Writing(tuple(vocabulary[token] for token in ids), tuple(masks), tuple(found), (first, second))


def copied(checkpoint: Checkpoint, writing: Writing, corpus: EncodedCorpus) -> list[tuple[int, int]]:
    """The runs of two words or more, each with a written one, that stand word for word in the documents of a text:
    [first, last) tokens of each, from left to right, each as long as it can be.

    corpus: of the checkpoint's tokenizer. An unknown word is like no other one."""
    tokenizer = checkpoint.tokenizer
    names = np.array([token_text(tokenizer, number) for number in range(tokenizer.get_vocab_size())], dtype=object)
    names[special_ids(tokenizer)[UNK]] = "\n"
    ends = pairwise(corpus.offsets[corpus.document_offsets].tolist())
    text = "\n".join(f" {_spelled(names[corpus.ids[first:last]])} " for first, last in ends)
    bounds = [i for i, token in enumerate(writing.tokens) if not token.startswith(PREFIX)] + [len(writing.tokens)]
    words = [_spelled(writing.tokens[first:last]) for first, last in pairwise(bounds)]
    runs, start = list[tuple[int, int]](), 0
    for end in range(1, len(words) + 1):
        if end < len(words) and f" {' '.join(words[start : end + 1])} " in text:
            continue
        first, last = bounds[start], bounds[end]
        if end > start + 1 and any(first <= mask < last for mask in writing.masks):
            runs.append((first, last))
        start = end
    return runs


def _spelled(tokens: Iterable[str]) -> str:
    """Tokens with a space between two words, and none before a piece of one."""
    return " ".join(tokens).replace(f" {PREFIX}", PREFIX)
