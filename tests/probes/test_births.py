"""When heads are born, by hand and in runs that learn nothing; where the loss falls; how often both would coincide."""

import pytest
import torch
from helpers import make_model

from bert_core import TrainingService, coincidence, head_births, head_names, head_patterns, load_recipe, steepest_fall
from bert_core.errors import InputError
from bert_core.probes.attention import AttentionMaps
from bert_core.probes.patterns import FEWEST, NAMED_FROM, TARGETS, HeadBirth, HeadPatterns, above_chance
from bert_core.storage.checkpoint import Checkpoint

STEPS = [0, 1, 2, 4, 8, 16]
TOKENS = ["[CLS]", "to", "be", "or", "not", "[SEP]"]
TEXTS = ("how are you", "i am romeo")


def patterns(*series: list[float]) -> list[HeadPatterns]:
    """At each step heads of one layer that go so far from uniform attention to all of it on the previous word."""
    previous, uniform = torch.eye(6).roll(-1, 1), torch.full((6, 6), 1 / 6)
    found = []
    for parts in zip(*series):
        weights = torch.stack([uniform.lerp(previous, part) for part in parts])
        limits = torch.full((len(TARGETS), 1), NAMED_FROM)
        found.append(HeadPatterns(above_chance(AttentionMaps(TOKENS, [0] * 6, weights[None])), limits))
    return found


def test_a_head_is_born_where_it_comes_to_stay_above_its_limit():
    found = patterns(
        [0.0, 0.5, 0.3, 0.41, 0.9, 0.7],  # it was above once, and came to stay at step 4
        [0.6, 0.6, 0.6, 0.6, 0.6, 0.6],  # from the first kept step on: it is not born in this run
        [0.0, 0.0, 0.5, 0.6, 0.6, 0.39],  # it lost its pattern
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.9],  # one step is not staying
        [0.0, 0.0, 0.0, 0.0, 0.5, 0.5],
    )
    assert head_births(STEPS, found) == [
        HeadBirth(4, 0, 0, "previous"),
        HeadBirth(8, 0, 4, "previous"),
    ]
    assert head_births(STEPS[:1], found[:1]) == head_births([], []) == []
    with pytest.raises(InputError, match="6 steps and the patterns of 5"):
        head_births(STEPS, found[1:])


def test_no_head_is_born_where_nothing_is_learned(service: TrainingService, tiny_config, word_tokenizer):
    recipe = load_recipe("romeo-juliet").override({"training.steps": 24, "training.learning_rate": 1e-8})
    run = service.start(recipe, seed=0).wait()
    steps = [each.step for each in run.snapshots]
    texts = "Oh Congratulations, Juliet", "Thank you Romeo"
    kept = [head_patterns(each.checkpoint(), *texts) for each in run.snapshots]
    assert head_births(steps, kept) == []
    assert steepest_fall(steps, [(row.step, row.mlm_loss) for row in run.history()]) is None
    # And in other random weights at each step.
    config = tiny_config.replace(hidden_size=48, num_attention_heads=12)
    random = [head_patterns(Checkpoint(make_model(config, seed), word_tokenizer), *TEXTS) for seed in range(12)]
    assert head_births(range(12), random) == []


def test_patterns_are_what_names_are_made_of(tiny_checkpoint):
    found = head_patterns(tiny_checkpoint, *TEXTS)
    assert found.above.shape == (6, 2, 3)
    assert found.limits.min() >= NAMED_FROM
    held = found.held.flatten(2).any(0).any(1).tolist()
    assert [any(names) for names in head_names(tiny_checkpoint, *TEXTS)] == held


def test_the_fall_is_the_shortest_way_over_half_of_the_whole():
    steps = [*range(FEWEST), 20, 40, 80, 160, 320]  # closer together at the start, as a run keeps them
    level = {9: 2.9, 10: 2.6, 11: 1.4, 12: 1.1}  # the mean loss until the kept step of that number
    means = [3.0 if place < 9 else level.get(place, 1.0) for place in range(1, len(steps))]
    rows = [
        (step, mean + (0.1 if step % 2 else -0.1) * (last - first > 1))  # noise that goes out of the mean
        for mean, first, last in zip(means, steps, steps[1:])
        for step in range(first + 1, last + 1)
    ]
    assert steepest_fall(steps, rows) == (20, 40), "1.2 of 2.0"
    slower = [(step, loss + 0.5 * (step > 20)) for step, loss in rows]
    assert steepest_fall(steps, slower) == (9, 40), "2.9 to 1.9, which is more than half of 1.5; no single step is"
    assert steepest_fall(steps[: FEWEST - 1], rows) is None, "too few kept steps"
    assert steepest_fall(steps, [row for row in rows if row[0] != 5]) is None, "a loss is missing"
    assert steepest_fall(steps, [(step, 4 - loss) for step, loss in rows]) is None, "it rises"
    assert steepest_fall(steps, [(step, 10 + loss) for step, loss in rows]) is None, "by less than a fifth"


def test_chance_moves_all_births_together():
    steps = [*range(0, 22, 2)]  # ten ways from one kept step to the next
    births = [HeadBirth(step, 0, 0, "next") for step in (6, 8)]
    assert coincidence(steps, births, (4, 8)) == (2, 0.1)
    assert coincidence(steps, births[:1], (4, 8)) == (1, 0.2)
    assert coincidence(steps, births, (6, 10)) == (1, 0.3)
    assert coincidence(steps, births, (12, 16)) == (0, 1.0)
