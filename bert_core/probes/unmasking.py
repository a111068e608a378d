"""Writing by unmasking, and how much of what was written stands in another text.

Shapes: T tokens of the input, N [MASK]s, V vocabulary."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from bert_core.config import check_seed
from bert_core.data.encoding import EncodedCorpus
from bert_core.data.sentences import UNSPACED
from bert_core.data.tokenizer import MASK, PREFIX, SPECIAL_TOKENS, UNK, special_ids
from bert_core.errors import InputError
from bert_core.probes.forward import word_scores
from bert_core.probes.masked_words import find_masks
from bert_core.probes.reading import row_of, token_text
from bert_core.storage.checkpoint import Checkpoint


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
