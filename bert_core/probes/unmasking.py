"""Writing by unmasking, and how much of what was written stands in another text.

Shapes: T tokens of the input, N [MASK]s, V vocabulary."""

import random
import re
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np
import torch

from bert_core.config import check_seed
from bert_core.data.encoding import EncodedCorpus
from bert_core.data.sentences import UNSPACED
from bert_core.data.tokenizer import MASK, PREFIX, SPECIAL_TOKENS, special_ids
from bert_core.errors import InputError
from bert_core.probes.forward import announce, word_scores
from bert_core.probes.masked_words import find_masks
from bert_core.probes.reading import row_of, token_text
from bert_core.storage.checkpoint import Checkpoint

_ORDERS = 20


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


@dataclass(frozen=True)
class Copied:
    runs: tuple[tuple[int, int], ...]  # [first, last) tokens of each, two words or more, the longest run first
    longest: int  # words of the longest run, 1 where there is none
    by_chance: float  # the same for all words in a random order, the mean of 20


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
    words stay. Probabilities are a softmax over the whole vocabulary. temperature: 0 takes the likeliest token;
    otherwise the softmax of the log-probabilities, divided by it, gives a draw (as in Wang & Cho 2019). seed: of the
    draws. Raises InputError as `fill_mask` does and for settings out of range, ConfigError for such a seed."""
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
    announce(checkpoint, [len(ids)] * R)
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


def copied(checkpoint: Checkpoint, writing: Writing, corpus: EncodedCorpus, *, seed: int = 0) -> Copied:
    """Which runs of words, each with a written one, stand word for word in the documents of a text.

    corpus: of the checkpoint's tokenizer. An unknown word is like no other one. seed: of the random orders."""
    numbers = checkpoint.tokenizer.get_vocab()
    pieces = np.zeros(len(numbers) + 1, bool)  # which tokens continue a word; the last one is for -1
    pieces[[number for token, number in numbers.items() if token.startswith(PREFIX)]] = True
    text = np.insert(corpus.ids.astype(np.int32), corpus.offsets[corpus.document_offsets[1:]], -1)
    starts = [i for i, token in enumerate(writing.tokens) if i == 0 or not token.startswith(PREFIX)]
    spans = [*pairwise([*starts, len(writing.tokens)])]
    words = [[-2 if t in SPECIAL_TOKENS else numbers[t] for t in writing.tokens[a:b]] for a, b in spans]
    places = {word[0]: np.flatnonzero(text == word[0]) for word in words}

    def reach(words: list[list[int]], start: int) -> int:
        """How many words from this one on stand in the text one after another, 1 without a second one."""
        at = places[words[start][0]]
        for count, word in enumerate(words[start:]):
            for token in word:
                at = at[text[at] == token] + 1
            at = at[~pieces[text[at]]]  # where the word ends too
            if not len(at):
                return max(1, count)
        return len(words) - start

    lengths = [reach(words, start) for start in range(len(words))]
    runs, longest = list[tuple[int, int]](), 1
    for start in sorted(range(len(words)), key=lambda start: -lengths[start]):
        first, last = spans[start][0], spans[start + lengths[start] - 1][1]
        is_free = all(last <= a or b <= first for a, b in runs)
        if lengths[start] > 1 and is_free and any(first <= mask < last for mask in writing.masks):
            runs.append((first, last))
            longest = max(longest, lengths[start])
    known, generator = [word for word in words if word != [-2]], random.Random(seed)
    orders = (generator.sample(known, len(known)) for _ in range(_ORDERS))
    by_chance = [max((reach(order, start) for start in range(len(order))), default=1) for order in orders]
    return Copied(tuple(runs), longest, fmean(by_chance))
