"""When heads are born in a run: from which kept step on each keeps a pattern, and whether the loss fell then.

Shapes: S kept steps, L layers, H heads."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bert_core.errors import InputError
from bert_core.probes.attention import TARGETS, HeadPatterns

FEWEST = 10  # kept steps in which a fall of the loss is looked for
LEAST_FALL = 0.2  # of the loss where it begins; batches alone change a loss, too


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
    several such targets, it is born with the earliest, and of two with the one that stands first in TARGETS. steps:
    (S,) that a run kept, from the first to the last. patterns: (S,) of the same model at each step, in the same input.
    Raises InputError where their numbers differ."""
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
    """The kept steps between which the loss falls most steeply: the fewest, one after another, from which to which it
    falls by half of what it falls in all. A run keeps its steps closer together at its start; so the loss is the mean
    since the kept step before.

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
    the fall. Chen et al. 2023 look at such falls: https://arxiv.org/abs/2309.07311. steps: (S,). fall: see
    `steepest_fall`."""
    ends = np.array(steps[1:])
    inside = (ends > fall[0]) & (ends <= fall[1])  # (S - 1,) from each kept step to the next
    places = np.array([steps.index(birth.step) - 1 for birth in births], dtype=int)
    counts = [int(inside[(places + move) % len(inside)].sum()) for move in range(len(inside))]
    return counts[0], sum(count >= counts[0] for count in counts) / len(counts)
