"""Explanations of one guess, and their trial: what each word contributes to the guess at a [MASK] by five methods, and
whether it falls faster when words are hidden in the order of a method than in random orders.

All explain log p, the natural logarithm of the guess's probability, summed over the pieces of a word. Shapes: M
methods, N words besides the guessed one, T tokens, D hidden size, H heads, d = D / H, P points of a curve."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import MASK
from bert_core.errors import InputError
from bert_core.probes.attention import rollout
from bert_core.probes.forward import gradient, numbers_of, require, word_scores
from bert_core.probes.masked_words import at_mask, each_masked, rated
from bert_core.probes.reading import Row, Word, masked_row, read_words, row_of, tokenize
from bert_core.storage.checkpoint import Checkpoint

METHODS = ("left_out", "norms", "rollout", "integrated", "gradient")
STEPS = 32  # of integrated gradients
ORDERS = 20  # random ones of a trial
LEAST_WORDS = 5  # of a sentence drawn for a trial: fewer have hardly more orders than are drawn
_POINTS = 20  # of a curve, beside its beginning
_DRAWN = 50  # sentences looked at for each one that is wanted


@dataclass(frozen=True)
class Explanation:
    """What each word contributes to log p of one answer, see `explain`."""

    row: Row  # the input
    positions: list[int]  # of the answer's pieces in it
    ids: list[int]
    answer: tuple[str, ...]  # these pieces
    log_probability: float
    hidden: float  # log p with all N words hidden
    words: tuple[Word, ...]  # N
    shares: Tensor  # (M, N), in the order of METHODS
    others: Tensor  # (M,) shares of [CLS], [SEP] and the [MASK]s; 0 of those left out
    correlations: Tensor  # (M, M) Spearman's, nan where all words have one share
    error: float  # the sum of the integrated gradients minus the difference log_probability - hidden


@dataclass(frozen=True)
class Deletion:
    """Curves of log p while words are hidden, see `deletion`."""

    counts: tuple[int, ...]  # (P,) of hidden words, from 0 to N
    curves: Tensor  # (M, P) by the order of each method
    chance: Tensor  # (ORDERS, P) by random orders
    slower: Tensor  # (M,) how many random orders have a higher mean than the method
    deviations: Tensor  # (M,) how much lower its mean is, in standard deviations of the random ones; nan if these are 0


def explain(
    checkpoint: Checkpoint, text: str, text_pair: str | None = None, *, mask: int = 0, answer: str | None = None
) -> Explanation:
    """Which words a guess depends on, by five METHODS. The shares of the pieces of a word are summed.

    "left_out": how much log p falls when the word is hidden too.
    "norms": the norm of what attention brings from each token, the sum over heads of weight times value times output
        matrix (Kobayashi et al. 2020, section 3). They look at each layer alone; here, a layer's norms, each row scaled
        to sum to 1, take the place of the weights in "rollout".
    "rollout": attention multiplied through the layers, the row of the [MASK] (Abnar & Zuidema 2020).
    "integrated": integrated gradients (Sundararajan et al. 2017) of log p by the word vectors, on the way from the text
        with all N words hidden, in the middle of STEPS equal steps. Positions and segments stay.
    "gradient": the gradient of log p by the word vectors, times these (Shrikumar et al. 2016), with its sign.

    "norms" and "rollout" are parts of 1, in which a head that is switched off has no weight; the others are in nats and
    may be negative. answer: the word that is explained, None for the likeliest token. mask and errors as for
    `rate_guess`."""
    encoding, positions, ids, own = at_mask(checkpoint, text, text_pair, mask, answer)
    row, (words, rows) = row_of(encoding), each_masked(checkpoint, encoding, text, text_pair)
    left_out = own.log_probability - torch.tensor(_scores(checkpoint, rows, positions, ids))  # (N,)
    attended, brought = (each[positions].mean(0) for each in _reaching(checkpoint, row))  # (T,)
    table = checkpoint.model.bert.embeddings.word_embeddings
    both = torch.tensor([_masked(checkpoint, row, words)[0], row[0]], device=checkpoint.model.device)
    with torch.no_grad():
        start, end = table(both).cpu()  # (T, D)
    ways = [0, 1, *((step + 0.5) / STEPS for step in range(STEPS))]
    passes = [gradient(checkpoint, row, start + way * (end - start), positions, ids) for way in ways]
    (hidden, _), (shown, slope), *between = passes
    integrated = ((end - start) * torch.stack([each for _, each in between]).mean(0)).sum(-1)
    tokens = torch.stack([brought, attended, integrated, (end * slope).sum(-1)])
    of_words = [tokens[:, word.first : word.last].sum(1) for word in words]
    shares = torch.cat([left_out[None], torch.stack(of_words, 1)])
    return Explanation(
        row=row,
        positions=positions,
        ids=ids,
        answer=own.pieces,
        log_probability=own.log_probability,
        hidden=hidden,
        words=tuple(words),
        shares=shares,
        others=torch.cat([torch.zeros(1), tokens.sum(1) - shares[1:].sum(1)]),
        correlations=rank_correlations(shares),
        error=integrated.sum().item() - (shown - hidden),
    )


def deletion(checkpoint: Checkpoint, found: Explanation) -> Deletion:
    """Put explanations on trial: hide words one after another, the largest share first, and follow log p (deletion,
    Petsiuk et al. 2018), beside ORDERS random orders.

    The lower the mean of log p, the better the explanation names the words that the guess needs. A random one is lower
    than all random orders once in ORDERS + 1 times. The trial favours "left_out", which hides words too. Above 20
    words, several are hidden at once. found: what `explain` returns; its `shares`, (M, N), may be replaced by those of
    any methods."""
    require(checkpoint, "mlm")
    N, generator = len(found.words), torch.Generator().manual_seed(0)
    if found.shares.shape[1:] != (N,):
        shape = tuple(found.shares.shape)
        raise InputError(f"The shares have the shape {shape}; it must be (methods, {N}), a row of each.")
    orders = [*found.shares.argsort(dim=1, descending=True, stable=True)]
    orders += [torch.randperm(N, generator=generator) for _ in range(ORDERS)]
    points = min(N, _POINTS)
    counts = [round(N * point / points) for point in range(points + 1)]
    hidden = [[found.words[number] for number in order[:count].tolist()] for order in orders for count in counts]
    rows = [_masked(checkpoint, found.row, each) for each in hidden]
    logs = _scores(checkpoint, rows, found.positions, found.ids)
    curves = torch.tensor(logs, dtype=torch.float64).view(len(orders), -1)
    means, chance = curves.mean(1).split([len(found.shares), ORDERS])
    spread = chance.std()
    return Deletion(
        counts=tuple(counts),
        curves=curves[: len(found.shares)],
        chance=curves[len(found.shares) :],
        slower=(chance > means[:, None]).sum(1),
        deviations=(chance.mean() - means) / spread if spread > 0 else torch.full_like(means, math.nan),
    )


def trial_texts(checkpoint: Checkpoint, corpus: Corpus, *, count: int = 20) -> list[str]:
    """At most `count` sentences of a text, each with one word hidden, to put explanations on trial: drawn among those
    that fit the model and have LEAST_WORDS other words; the hidden word among the known words of one piece."""
    drawing, sentences, found = random.Random(0), list(dict.fromkeys(corpus.sentences)), list[str]()
    for text in drawing.sample(sentences, max(0, min(len(sentences), _DRAWN * count))):
        if len(found) == count:
            break
        if MASK in text or len(tokenize(checkpoint, text)) > checkpoint.config.max_position_embeddings:
            continue
        words = [word for word in read_words(checkpoint, text) if not word.is_special]
        known = [word for word in words if word.is_known and len(word.pieces) == 1 and word.text[0].isalnum()]
        if known and len(words) > LEAST_WORDS:
            word = drawing.choice(known)
            found.append(text[: word.start] + MASK + text[word.end :])
    return found


def rank_correlations(shares: Tensor) -> Tensor:
    """Spearman's rank correlations of the rows, (M, M); equal numbers have the mean of their ranks."""
    ranks = torch.sign(shares[:, :, None] - shares[:, None]).sum(2).double()  # twice the rank, around 0
    lengths = ranks.norm(dim=1)
    return (ranks @ ranks.T / (lengths[:, None] * lengths)).clamp(-1, 1)


def _reaching(checkpoint: Checkpoint, row: Row) -> tuple[Tensor, Tensor]:
    """What reaches each token from each through all layers, (T, T): by the weights, and by the norms of what these
    bring."""
    found = numbers_of(checkpoint, row, ["*.hook_pattern", "*.attn.hook_v", "*.attn.hook_z"])
    H, D = checkpoint.config.num_attention_heads, checkpoint.config.hidden_size
    weights, norms = [], []
    for number, layer in enumerate(checkpoint.model.bert.encoder.layer):
        weight, value, context = (found[f"blocks.{number}.attn.hook_{name}"] for name in ("pattern", "v", "z"))
        weights.append(weight * (context.abs().amax((0, 2)) > 0)[:, None, None])  # without heads that are switched off
        dense = layer.attention.output.dense
        with torch.no_grad():  # of the unit vectors and of zero, which give the matrix of a layer with an adapter, too
            images = dense(torch.eye(D + 1, D, device=checkpoint.model.device)).cpu().float()
        matrix = (images[:-1] - images[-1]).view(H, D // H, D)
        brought = torch.einsum("jhd,hde->jhe", value, matrix)  # (T, H, D)
        products = brought @ brought.transpose(1, 2)  # (T, H, H), of which squares of the norms of sums are made
        squares = weights[-1] * torch.einsum("hij,jhk->kij", weights[-1], products)
        norms.append(squares.sum(0).clamp(min=0).sqrt())
    scaled = [each / each.sum(1, keepdim=True).clamp(min=1e-30) for each in norms]
    return rollout(torch.stack(weights))[-1], rollout(torch.stack(scaled)[:, None])[-1]


def _masked(checkpoint: Checkpoint, row: Row, words: Sequence[Word]) -> Row:
    for word in words:
        row = masked_row(checkpoint, row, word.first, word.last)
    return row


def _scores(checkpoint: Checkpoint, rows: Sequence[Row], positions: Sequence[int], ids: Sequence[int]) -> list[float]:
    """log p of the answer in each row."""
    asked = [positions] * len(rows)
    return word_scores(checkpoint, rows, asked, lambda _, scores: rated(checkpoint, ids, scores).log_probability)
