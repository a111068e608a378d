"""Verdicts from made numbers: by hand, how often chance passes a rule, and how often a clear difference does."""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from balcony.parts.verdicts import (
    MARGIN,
    Comparison,
    Memory,
    Spread,
    beats_baseline,
    compare,
    exceeds,
    judge_memory,
    learned,
)
from bert_core.probes.sentence_pairs import Tally

DRAWS = 1000


@pytest.mark.parametrize(
    ("right", "baseline", "both", "beats"),
    [
        (7, 0, 0, True),  # one half to the power of 7 is 0.8 %
        (6, 0, 0, False),
        (14, 2, 0, True),  # 137 of 65,536 ways
        (13, 3, 0, False),  # 697
        (57, 50, 50, True),  # what both answer right does not count
        (50, 50, 50, False),
        (0, 0, 0, False),
    ],
)
def test_the_sign_test_counts_the_answers_on_which_model_and_baseline_differ(
    right: int, baseline: int, both: int, beats: bool
) -> None:
    assert beats_baseline(Tally(100, right, baseline, both)) == beats


def test_two_parts_are_compared_exactly() -> None:
    def tally(right: int, asked: int) -> Tally:
        return Tally(asked, right, 0, 0)

    assert exceeds(tally(5, 5), tally(0, 5))  # 1 of 252 tables
    assert not exceeds(tally(4, 4), tally(0, 4))  # 1 of 70
    assert not exceeds(tally(0, 5), tally(5, 5))
    assert exceeds(tally(60, 100), tally(40, 100))
    assert not exceeds(tally(55, 100), tally(45, 100))
    assert exceeds(tally(200, 200), tally(180, 200))
    assert not exceeds(tally(0, 10), tally(0, 10))


@pytest.mark.parametrize(
    ("seen", "unseen", "verdict"),
    [
        (Tally(0, 0, 0, 0), None, "not asked"),
        (Tally(100, 19, 18, 18), Tally(100, 19, 18, 18), "no better"),
        (Tally(100, 90, 10, 10), None, "unmeasured"),
        (Tally(100, 90, 10, 10), Tally(0, 0, 0, 0), "unmeasured"),
        (Tally(100, 90, 10, 10), Tally(100, 12, 10, 10), "memorised"),
        (Tally(100, 90, 10, 10), Tally(100, 40, 10, 5), "both"),
        (Tally(100, 50, 10, 10), Tally(100, 45, 10, 5), "generalises"),
        (Tally(100, 50, 10, 10), Tally(10, 4, 1, 1), "unclear"),
    ],
)
def test_the_verdict_on_memorising(seen: Tally, unseen: Tally | None, verdict: Memory) -> None:
    assert judge_memory(seen, unseen) == verdict


def answers(rng: np.random.Generator, chance: float, baseline: float = 0.1, asked: int = 200) -> Tally:
    """Of a model that is right with a probability whatever the baseline is."""
    right, constant = rng.binomial(asked, [chance, baseline]).tolist()
    return Tally(asked, right, constant, int(rng.hypergeometric(right, asked - right, constant)))


def shares(draw: Callable[[np.random.Generator], str]) -> dict[str, float]:
    rng = np.random.default_rng(13)
    counts = Counter(draw(rng) for _ in range(DRAWS))
    return Counter({name: count / DRAWS for name, count in counts.items()})


def test_equal_parts_seldom_look_memorised_and_a_guesser_seldom_looks_trained() -> None:
    equal = shares(lambda rng: judge_memory(answers(rng, 0.4), answers(rng, 0.4)))
    assert equal["memorised"] + equal["both"] <= 0.02
    guesser = shares(lambda rng: judge_memory(answers(rng, 0.1), answers(rng, 0.1)))
    assert guesser["no better"] >= 0.98


def test_clear_differences_between_the_parts_are_found() -> None:
    assert shares(lambda rng: judge_memory(answers(rng, 0.6), answers(rng, 0.3)))["both"] >= 0.95
    assert shares(lambda rng: judge_memory(answers(rng, 0.6), answers(rng, 0.1)))["memorised"] >= 0.95


def seeds(rng: np.random.Generator, number: Callable[[np.random.Generator], float]) -> Spread:
    return Spread(tuple(float(number(rng)) for _ in range(3)))


EQUAL_MODELS: dict[str, Callable[[np.random.Generator], float]] = {
    "a small spread": lambda rng: rng.normal(0.7, 0.002),
    "a usual spread": lambda rng: rng.normal(0.7, 0.02),
    "a large spread": lambda rng: rng.normal(0.6, 0.1),
    "coarse numbers": lambda rng: rng.binomial(30, 0.8) / 30,
    "near the top": lambda rng: min(1.0, rng.normal(0.95, 0.03)),
    "any number": lambda rng: rng.random(),
    "every second one fails": lambda rng: rng.normal(0.9, 0.01) if rng.random() < 0.5 else rng.normal(0.5, 0.01),
}


@pytest.mark.parametrize("name", EQUAL_MODELS)
def test_equal_models_differ_in_at_most_five_of_a_hundred_draws(name: str) -> None:
    number = EQUAL_MODELS[name]
    found = shares(lambda rng: compare(seeds(rng, number), seeds(rng, number), baseline=0.1))
    assert found["higher"] + found["lower"] <= 0.05
    times = shares(lambda rng: compare(seeds(rng, number), seeds(rng, number)))
    assert times["higher"] + times["lower"] <= 0.05


def test_unequal_spreads_do_not_make_a_difference() -> None:
    found = shares(
        lambda rng: compare(seeds(rng, lambda _: 0.8), seeds(rng, lambda rng: rng.normal(0.8, 0.03)), baseline=0.1)
    )
    assert found["higher"] + found["lower"] <= 0.05


def test_clearly_different_models_are_told_apart_and_seldom_called_alike() -> None:
    found = shares(
        lambda rng: compare(
            seeds(rng, lambda rng: rng.normal(0.6, 0.03)), seeds(rng, lambda rng: rng.normal(0.8, 0.03)), baseline=0.1
        )
    )
    assert found["higher"] >= 0.95
    for spread in (0.003, 0.01, 0.03):
        apart = shares(
            lambda rng, spread=spread: compare(
                seeds(rng, lambda rng: rng.normal(0.6, spread)),
                seeds(rng, lambda rng: rng.normal(0.6 + MARGIN, spread)),
                baseline=0.1,
            )
        )
        assert apart["alike"] <= 0.05


@pytest.mark.parametrize(
    ("first", "other", "outcome"),
    [
        ((0.5,), (0.9,), "few seeds"),
        ((0.5, 0.5), (0.9, 0.9), "few seeds"),
        ((0.50, 0.52, 0.51), (0.80, 0.79, 0.90), "higher"),
        ((0.80, 0.79, 0.90), (0.50, 0.52, 0.51), "lower"),
        ((0.50, 0.90, 0.70), (0.71, 0.50, 0.90), "unclear"),  # equal means alone are not alike
        ((0.70, 0.71, 0.72), (0.71, 0.70, 0.72), "alike"),
        ((1.0, 1.0, 1.0), (1.0, 1.0, 0.97), "saturated"),
        ((1.0,), (1.0,), "saturated"),
        ((0.19, 0.18, 0.19), (0.18, 0.18, 0.22), "no better"),
        ((0.19, 0.18, 0.19), (0.40, 0.41, 0.42), "higher"),
        ((math.nan,) * 3, (0.5,) * 3, "not asked"),
        ((0.5,), (math.nan,), "not asked"),
    ],
)
def test_runs_are_compared(first: tuple[float, ...], other: tuple[float, ...], outcome: Comparison) -> None:
    assert compare(Spread(first), Spread(other), baseline=0.18) == outcome


def test_a_model_has_learned_that_is_clearly_better_than_a_constant_answer() -> None:
    assert [learned(accuracy, 0.1) for accuracy in (0.9, 0.16, 0.14, 0.1, math.nan)] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_times_are_compared_by_their_ratio() -> None:
    times = [Spread((seconds, seconds + 0.1, seconds + 0.2)) for seconds in (20.0, 20.5, 50.0)]
    assert compare(times[0], times[1]) == "alike"
    assert compare(times[0], times[2]) == "higher"
