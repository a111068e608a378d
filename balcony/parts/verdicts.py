"""Verdicts on counted answers, and on runs with a few seeds. Each rule states how often chance alone passes it.

A verdict is one word of a small vocabulary, which the page turns into a sentence.
"""

import math
import statistics
from dataclasses import dataclass
from typing import Literal

from bert_core.probes.sentence_pairs import Tally

CHANCE = 0.01  # highest probability with which equal answers pass a test on counts
SEEDS = 3  # the fewest for a comparison: with two, both runs of one side often fail by chance, and none of the other
# Half the width of the 95 % interval around a difference, in standard errors: Student's t with 2 degrees of freedom,
# the fewest that Welch's test can get from 3 runs on each side, so unequal spreads do not make it too narrow.
STANDARD_ERRORS = 4.3
FEWEST, MOST_JUDGED = 8, 200  # held-out examples: that measure something, that are asked
MARGIN = 0.05  # accuracies that differ by less count as alike
MARGIN_RATIO = 0.1  # of other numbers, as a fraction of the first

Memory = Literal["not asked", "no better", "unmeasured", "memorised", "generalises", "both", "unclear"]
Comparison = Literal["not asked", "no better", "saturated", "few seeds", "alike", "higher", "lower", "unclear"]


def beats_baseline(tally: Tally) -> bool:
    """Whether the model is right more often than the constant answer, by a one-sided sign test on the questions that
    only one of the two answers right (McNemar 1947, exact)."""
    model, baseline = tally.right - tally.both, tally.baseline - tally.both
    n = model + baseline
    return sum(math.comb(n, k) for k in range(model, n + 1)) <= CHANCE * 2**n


def exceeds(one: Tally, other: Tally) -> bool:
    """Whether the model is right more often on the first questions, by a one-sided test (Fisher 1922, exact)."""
    asked, right = one.asked + other.asked, one.right + other.right
    ways = sum(
        math.comb(one.asked, k) * math.comb(other.asked, right - k) for k in range(one.right, min(one.asked, right) + 1)
    )
    return ways <= CHANCE * math.comb(asked, right)


def judge_memory(seen: Tally, unseen: Tally | None) -> Memory:
    """Whether a model memorises or generalises, by words of its training text and of held-out text, if there is any."""
    if not seen.asked:
        return "not asked"
    if not beats_baseline(seen):
        return "no better"
    if unseen is None or not unseen.asked:
        return "unmeasured"
    if exceeds(seen, unseen):
        return "both" if beats_baseline(unseen) else "memorised"
    return "generalises" if beats_baseline(unseen) else "unclear"


@dataclass(frozen=True)
class Spread:
    """One measure of runs that differ only in the seed; the standard deviation of a single run is nan."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        return statistics.stdev(self.values) if len(self.values) > 1 else math.nan


def learned(accuracy: float, baseline: float) -> bool:
    """Whether a model is right clearly more often than always the most frequent answer."""
    return accuracy > baseline + MARGIN


def compare(first: Spread, other: Spread, baseline: float | None = None) -> Comparison:
    """How the other numbers compare with the first ones: as many runs on both sides, with the same seeds.

    baseline: for accuracies, that of the best constant answer; None for other numbers. Accuracies that are all within
    MARGIN of it ("no better") or of 1 ("saturated") cannot differ much. Else the answer is "alike" when the interval
    around the difference of the means is within MARGIN, "higher" or "lower" when it leaves out 0, or "unclear".
    """
    means = first.mean, other.mean
    if not all(map(math.isfinite, means)):
        return "not asked"
    if baseline is not None and not learned(max(means), baseline):
        return "no better"
    if baseline is not None and min(means) >= 1 - MARGIN:
        return "saturated"
    n = len(first.values)
    if n < SEEDS:
        return "few seeds"
    difference = other.mean - first.mean
    reach = STANDARD_ERRORS * math.hypot(first.deviation, other.deviation) / math.sqrt(n)
    if abs(difference) + reach < (MARGIN_RATIO * first.mean if baseline is None else MARGIN):
        return "alike"
    if abs(difference) <= reach:
        return "unclear"
    return "higher" if difference > 0 else "lower"
