"""When heads are born in a run: from which kept step on each keeps a pattern, and whether the loss fell then.

Shapes: S kept steps, L layers, H heads."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bert_core.errors import InputError
from bert_core.probes.attention import TARGETS, HeadPatterns

FEWEST = 10  # kept steps in which a fall of the loss is looked for
AVERAGED = 5  # falls from one kept step to the next
LEAST_FALL = 0.1  # of the loss where it begins; batches alone change a loss, too


@dataclass(frozen=True)
class HeadBirth:
    """A head that has one of TARGETS from the kept step `step` on, and not yet at the one before; `before` is None
    where it has it from the first kept step on. layer, head: from 0."""

    step: int
    before: int | None
    layer: int
    head: int
    target: str


def head_births(steps: Sequence[int], patterns: Sequence[HeadPatterns]) -> list[HeadBirth]:
    """The heads that come to have a pattern and keep it, in the order of their births.

    A head is born at the first step from which on it is above the limit of one target, the same one at all later steps,
    of which there must be one at least. With several such targets, it is born with the earliest, and of two with the
    one that stands first in TARGETS. steps: (S,) that a run kept, from the first to the last. patterns: (S,) of the
    same model at each step, in the same input. Raises InputError where their numbers differ."""
    if len(steps) != len(patterns):
        raise InputError(f"There are {len(steps)} steps and the patterns of {len(patterns)}; give one of each step.")
    if len(steps) < 2:
        return []
    held = torch.stack([each.held for each in patterns])  # (S, targets, L, H)
    since, which = (len(steps) - held.flip(0).cumprod(0).sum(0)).min(0)  # (L, H)
    found = [
        HeadBirth(steps[k], steps[k - 1] if k else None, layer, head, TARGETS[int(which[layer, head])])
        for (layer, head), k in np.ndenumerate(since.numpy())
        if k < len(steps) - 1
    ]
    return sorted(found, key=lambda birth: birth.step)


def steepest_fall(steps: Sequence[int], rows: Sequence[tuple[int, float]]) -> tuple[int, int] | None:
    """The kept steps between which the loss falls most steeply; None where it falls by less than LEAST_FALL there,
    where less than FEWEST steps are kept, and where a loss is missing.

    A run keeps its steps closer together at its start; so the fall is that from one kept step to the next, of the mean
    loss since the kept step before, and averaged over AVERAGED of them. It is steep around its maximum, as long as it
    is at least half of that. steps: (S,). rows: of the history, the step and the loss of each."""
    if len(steps) < FEWEST:
        return None
    at, losses = np.array(rows, dtype=float).reshape(-1, 2).T
    parts = [losses[(at > before) & (at <= step)] for before, step in itertools.pairwise(steps)]
    if not all(len(part) for part in parts):
        return None
    falls = np.pad(-np.gradient([part.mean() for part in parts]), AVERAGED // 2, mode="edge")
    falls = np.convolve(falls, np.full(AVERAGED, 1 / AVERAGED), "valid")  # (S - 1,) from each kept step to the next
    top, gentle = int(falls.argmax()), np.flatnonzero(falls < falls.max() / 2)
    first, last = max(gentle[gentle < top], default=-1) + 1, min(gentle[gentle > top], default=len(falls))
    return (steps[first], steps[last]) if falls[first:last].sum() >= LEAST_FALL * parts[first].mean() else None


def coincidence(steps: Sequence[int], births: Sequence[HeadBirth], fall: tuple[int, int]) -> tuple[int, float]:
    """How many heads are born within a fall of the loss, and how often as many would be by chance.

    Heads of one model are not born independently. So chance moves all births together, by the same number of kept steps
    and round from the last to the first, and the share of these S - 1 ways is returned in which at least as many are in
    the fall; nan without a birth. Those that are there from the first kept step on do not count. Chen et al. 2023 look
    at such falls: https://arxiv.org/abs/2309.07311. steps: (S,). fall: see `steepest_fall`."""
    places = np.array([steps.index(birth.step) - 1 for birth in births if birth.before is not None], dtype=int)
    if not len(places):
        return 0, math.nan
    ends = np.array(steps[1:])
    inside = (ends > fall[0]) & (ends <= fall[1])  # (S - 1,) from each kept step to the next
    counts = [int(inside[(places + move) % len(inside)].sum()) for move in range(len(inside))]
    return counts[0], sum(count >= counts[0] for count in counts) / len(counts)
