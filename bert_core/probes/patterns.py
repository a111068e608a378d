"""Patterns of attention heads: which words each attends to, against heads with random weights; and when heads are born
in a run: from which kept step on each keeps a pattern, and whether the loss fell then.

Shapes: L layers, H heads, T tokens, D hidden size, S kept steps."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bert_core.data.tokenizer import CLS, SEP
from bert_core.errors import InputError
from bert_core.model import BertSelfAttention
from bert_core.probes.attention import SPECIAL, AttentionMaps, attention
from bert_core.probes.forward import before_passes, hidden_states, pass_cost
from bert_core.probes.reading import encode_text
from bert_core.storage.checkpoint import Checkpoint

TARGETS = ("next", "previous", "same", "cls", "sep", "other")  # of a head: words, [CLS], [SEP] or the other sentence
NAMED_FROM = 0.4  # fraction of the way from uniform attention to all of it on one target
RANDOM_HEADS = 300  # a random head exceeds all of them on a target once in 301 times, on one of six in 2 %
FEWEST = 10  # kept steps in which a fall of the loss is looked for
LEAST_FALL = 0.2  # of the loss where it begins; batches alone change a loss, too
_WEIGHTS_AT_ONCE = 2**24  # limit of the random heads that are drawn together


def above_chance(maps: AttentionMaps) -> Tensor:
    """How far each head's weight on each of TARGETS is from that of uniform attention, 0, to 1, (targets, L, H); -1 if
    no token has the target.

    The weights on "cls" and "sep" are means over all tokens. The others are means over the words that have the target:
    a next or previous word, the same word anywhere (itself included), another sentence."""
    tokens, segments, weights = np.array(maps.tokens), np.array(maps.token_type_ids), maps.weights.double()
    T, is_word = len(tokens), ~np.isin(tokens, SPECIAL)
    words = is_word[:, None] & is_word
    targets = {  # whether a row has it in a column, (T, T) each
        "next": words & np.eye(T, k=1, dtype=bool),
        "previous": words & np.eye(T, k=-1, dtype=bool),
        "same": words & (tokens[:, None] == tokens),
        "cls": np.tile(tokens == CLS, (T, 1)),
        "sep": np.tile(tokens == SEP, (T, 1)),
        "other": words & (segments[:, None] != segments),
    }
    ways = []
    for target in (torch.from_numpy(targets[name]) for name in TARGETS):
        having = target.any(1)
        chance = target[having].double().mean()
        own = weights.flatten(-2) @ (target.double() / having.sum()).flatten()
        ways.append((own - chance) / (1 - chance).clamp(min=1e-9))
    return torch.stack(ways).nan_to_num(-1)


@dataclass(frozen=True)
class HeadPatterns:
    """above: how far each head's weight on each of TARGETS is above chance, (targets, L, H), see `above_chance`.
    limits: what it must exceed for the head to have the pattern, (targets, L)."""

    above: Tensor
    limits: Tensor

    @property
    def held(self) -> Tensor:
        """Whether each head has each pattern, (targets, L, H)."""
        return self.above > self.limits[..., None]


def head_patterns(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> HeadPatterns:
    """Which of TARGETS each head clearly attends to in one input.

    The limit of a layer is NAMED_FROM of the way from chance to 1, or what the best of RANDOM_HEADS heads with random
    weights of the same size reaches, if that is more. In a model with random weights, at most 2 % of the heads have a
    pattern. Raises InputError for an empty or too long input."""
    maps, blocks = attention(checkpoint, text, text_pair), checkpoint.model.bert.encoder.layer
    states = hidden_states(checkpoint, encode_text(checkpoint, text, text_pair)).double()
    at_once = max(1, _WEIGHTS_AT_ONCE // len(maps.tokens) ** 2)
    limits = torch.full((len(TARGETS), len(blocks)), NAMED_FROM, dtype=torch.float64)
    for number, block in enumerate(blocks):
        before_passes.get()(pass_cost(checkpoint, torch.tensor([len(maps.tokens)]), 0))  # its random heads take longer
        generator = torch.Generator().manual_seed(number)
        for first in range(0, RANDOM_HEADS, at_once):
            heads = min(at_once, RANDOM_HEADS - first)
            random = _random_heads(block.attention.self, states[number], heads, generator)
            best = above_chance(dataclasses.replace(maps, weights=random[None])).amax((1, 2))
            limits[:, number] = limits[:, number].maximum(best)
    return HeadPatterns(above_chance(maps), limits)


def head_names(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> list[list[str]]:
    """L lists of H names: the one of its patterns that is furthest above chance, one of TARGETS, or "" for a head that
    has none. Arguments and errors are those of `head_patterns`."""
    found = head_patterns(checkpoint, text, text_pair)
    best, which = found.above.where(found.held, -1).max(0)  # (L, H)
    return [[TARGETS[i] if way > 0 else "" for way, i in zip(*heads)] for heads in zip(best.tolist(), which.tolist())]


@torch.no_grad()
def _random_heads(attention: BertSelfAttention, inputs: Tensor, heads: int, generator: torch.Generator) -> Tensor:
    """Attention weights (heads, T, T) of heads with normal query and key weights of the layer's root mean squares."""
    projected, D = [], inputs.shape[1]
    for project in (attention.query, attention.key):
        # Of the unit vectors and of zero, which tell the weights of a layer with an adapter, too.
        images = project(torch.eye(D + 1, D, device=next(project.parameters()).device)).cpu().double()
        weight, bias = (each.square().mean().sqrt() for each in (images[:-1] - images[-1], images[-1]))
        scaled = torch.cat([inputs * weight, bias.expand(len(inputs), 1)], 1)  # (T, D + 1)
        # With scaled^T = Q R, scaled scaled^T is R^T R: R^T times normal numbers is distributed as scaled times them.
        root = torch.linalg.qr(scaled.T, mode="r").R.T.float()
        size = D // attention.num_heads
        projected.append(root @ torch.randn(heads, root.shape[1], size, generator=generator))
    query, key = projected
    return (query @ key.transpose(1, 2) / math.sqrt(size)).softmax(-1)


@dataclass(frozen=True)
class HeadBirth:
    """A head that has one of TARGETS from this kept step on, and not yet at the one before. layer, head: from 0."""

    step: int
    layer: int
    head: int
    target: str


def head_births(steps: Sequence[int], patterns: Sequence[HeadPatterns]) -> list[HeadBirth]:
    """The heads that come to have a pattern and keep it, in the order of their births.

    A head is born at the first step from which on it is above the limit of one target, the same one at all later steps,
    of which there must be one at least; one that is above it from the first kept step on is not born in this run. With
    several such targets, it is born with the earliest, then the first of TARGETS. steps: (S,) that a run kept, from the
    first to the last. patterns: (S,) in the same input. Raises InputError where their numbers differ."""
    if len(steps) != len(patterns):
        raise InputError(f"There are {len(steps)} steps and the patterns of {len(patterns)}; give one of each step.")
    if len(steps) < 2:
        return []
    held = torch.stack([each.held for each in patterns])  # (S, targets, L, H)
    since, which = (len(steps) - held.flip(0).cumprod(0).sum(0)).min(0)  # (L, H)
    found = [
        HeadBirth(steps[k], layer, head, TARGETS[int(which[layer, head])])
        for (layer, head), k in np.ndenumerate(since.numpy())
        if 0 < k < len(steps) - 1
    ]
    return sorted(found, key=lambda birth: birth.step)


def steepest_fall(steps: Sequence[int], rows: Sequence[tuple[int, float]]) -> tuple[int, int] | None:
    """The fewest kept steps over which the loss falls by half of what it falls in all. A run keeps its steps closer
    together at its start; so the loss is the mean since the kept step before.

    None where it falls by less than LEAST_FALL, where less than FEWEST steps are kept, and where a loss is missing.
    steps: (S,). rows: of the history, the step and the loss of each."""
    at, losses = np.array(rows, dtype=float).reshape(-1, 2).T
    parts = [losses[(at > before) & (at <= step)] for before, step in itertools.pairwise(steps)]
    if len(steps) < FEWEST or not all(len(part) for part in parts):
        return None
    means = np.array([part.mean() for part in parts])
    if (whole := means[0] - means.min()) < LEAST_FALL * means[0]:
        return None
    widths = ((width, means[:-width] - means[width:]) for width in range(1, len(means)))
    width, falls = next((width, falls) for width, falls in widths if falls.max() >= whole / 2)
    first = 1 + int(falls.argmax())
    return steps[first], steps[first + width]


def coincidence(steps: Sequence[int], births: Sequence[HeadBirth], fall: tuple[int, int]) -> tuple[int, float]:
    """How many heads are born within a fall of the loss, and how often as many would be by chance.

    Heads of one model are not born independently. So chance moves all births together, by the same number of kept steps
    and round from the last to the first, and the share of these S - 1 ways is returned in which at least as many are in
    the fall. Chen et al. 2023 look at such falls: https://arxiv.org/abs/2309.07311. fall: see `steepest_fall`."""
    ends = np.array(steps[1:])
    inside = (ends > fall[0]) & (ends <= fall[1])  # (S - 1,) from each kept step to the next
    places = np.array([steps.index(birth.step) - 1 for birth in births], dtype=int)
    counts = [int(inside[(places + move) % len(inside)].sum()) for move in range(len(inside))]
    return counts[0], sum(count >= counts[0] for count in counts) / len(counts)
