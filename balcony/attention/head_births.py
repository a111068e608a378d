"""Heads over the kept steps of a run: their patterns, when each was born, and the loss without each."""

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from balcony.attention.values import batch_for, cost, shown_texts
from balcony.frame.page_request import PageRequest
from balcony.frame.shown_model import description
from balcony.parts.export import Row, with_imports
from balcony.server.news import POINTS_AT_FIRST, thin
from balcony.server.probe_lock import probe_lock
from bert_core.data.batches import Batch
from bert_core.probes.attention import ablation_map
from bert_core.probes.patterns import FEWEST, TARGETS, HeadBirth, coincidence, head_births, head_patterns, steepest_fall
from bert_core.runs.run import ACTIVE, Run

SECONDS = 1.0  # of one answer; the page asks again for the rest
WITH_COST = 1_500_000_000  # of `cost`: about two seconds for one step on two cores
MOST_QUESTIONS = 4  # about a run, whose answers are kept
HARDLY_CHANCE = 0.05
NO_RUN = "Only a run of Train keeps earlier steps of its model. Train one, or choose one of yours above."
NO_COST = (
    "What switching off a head costs is not measured: it takes a model of masked words, a text of more than one "
    "sentence, and a model that is not too large."
)
LIVE = "The run still trains: more heads may be born, and one may lose its pattern again."
NONE_BORN = (
    "No head is born in these sentences: none comes to stay above its limit. There is nothing to compare with the loss."
)


@dataclass
class Measured:
    """What is known of one run and two sentences, by its kept steps. batch: on which the loss is, None where it is not.
    costs: what switching off each head adds to that, (L, H)."""

    texts: tuple[str, str | None]
    batch: Batch | None
    patterns: dict[int, Any] = field(default_factory=dict)  # HeadPatterns
    costs: dict[int, Any] = field(default_factory=dict)  # Tensor

    def measure(self, run: Run) -> None:
        """Measure what is missing, first the patterns, for SECONDS: at least one part, as far as there is one."""
        ends = time.monotonic() + SECONDS
        for known in (self.patterns, self.costs) if self.batch else (self.patterns,):
            for snapshot in (each for each in run.snapshots if each.step not in known):
                with probe_lock:
                    model = snapshot.checkpoint()
                    if known is self.patterns:
                        known[snapshot.step] = head_patterns(model, *self.texts)
                    else:
                        known[snapshot.step] = ablation_map(model, self.texts[0], batch=self.batch).changes["loss"]
                if time.monotonic() > ends:
                    return


_measured: WeakKeyDictionary[Run, list[Measured]] = WeakKeyDictionary()  # the newest questions about each run


def births(asked: PageRequest) -> dict[str, Any]:
    """What is measured of the shown run until now, as the view of its heads over its steps draws it. above, limits,
    costs: of the kept steps from the first one on. parts: the number of those that are measured, and of all."""
    if (run := asked.pretraining) is None:
        return {"error": NO_RUN, "trains": True}
    checkpoint = asked.checkpoint
    texts = shown_texts(checkpoint, asked.question)
    questions = _measured.setdefault(run, [])
    if (known := next((each for each in questions if each.texts == texts), None)) is None:
        has_cost = "mlm" not in checkpoint.missing and cost(checkpoint) <= WITH_COST
        with probe_lock:
            known = Measured(texts, batch_for(checkpoint, asked.corpus) if has_cost else None)
        questions[:] = [*questions[1 - MOST_QUESTIONS :], known]
    known.measure(run)
    kept = [each.step for each in run.snapshots]
    patterns = [known.patterns[step] for step in kept if step in known.patterns]
    costs = [known.costs[step] for step in kept if step in known.costs]
    found = head_births(kept, patterns) if len(patterns) == len(kept) else []
    fall = steepest_fall(kept, [(row.step, row.mlm_loss) for row in run.history() if math.isfinite(row.mlm_loss)])
    return {
        "parts": [len(patterns) + len(costs), len(kept) * (1 if known.batch is None else 2)],
        "kept": kept,
        "targets": [*TARGETS],
        "above": [each.above.double().numpy().round(4).tolist() for each in patterns],
        "limits": [each.limits.numpy().round(4).tolist() for each in patterns],
        "costs": [each.double().numpy().round(5).tolist() for each in costs],
        "curve": thin(run.history(), POINTS_AT_FIRST, ("mlm_loss",)),
        "births": [dataclasses.asdict(birth) for birth in found],
        "fall": fall,
        "said": conclusion(kept, found, fall) if len(patterns) == len(kept) else "",
        "notes": [LIVE] * (run.status in ACTIVE) + [NO_COST] * (known.batch is None),
    }


def conclusion(steps: Sequence[int], found: Sequence[HeadBirth], fall: tuple[int, int] | None) -> str:
    """Whether heads are born when the loss falls, or why that cannot be said."""
    if not found:
        return NONE_BORN
    if fall is None:
        return (
            f"Whether heads are born when the loss falls cannot be said: it takes {FEWEST} kept steps and a loss that "
            f"falls; this run has {len(steps)} such steps."
        )
    inside, chance = coincidence(steps, found, fall)
    first, last = (f"{step:,}" for step in fall)
    chances = (
        f"The loss falls most steeply from step {first} to {last}. Heads born then: {inside} of {len(found)}. By "
        f"chance, as many would be in {chance:.0%} of cases"
    )
    if chance < HARDLY_CHANCE:
        return f"{chances}: fall and births coincide."
    return f"{chances}: one run cannot tell whether they belong together; train it with other seeds."


def birth_rows(value: dict[str, Any]) -> Iterator[Row]:
    """A row for each measured step and head, counted from 1: how far above chance its weight on each target is, the
    limit of that, and how much the loss grows without it, None where it is not measured."""
    every = [*value["costs"], *[None for _ in value["kept"]]]  # also where only the patterns are measured
    for step, above, limits, costs in zip(value["kept"], value["above"], value["limits"], every):
        for layer, head in np.ndindex(len(above[0]), len(above[0][0])):
            row: dict[str, Any] = {"step": step, "layer": layer + 1, "head": head + 1}
            for each, heads, limit in zip(value["targets"], above, limits):
                row |= {each: heads[layer][head], f"{each}_limit": limit[layer]}
            yield row | {"cost": costs[layer][head] if costs else None}


def births_code(asked: PageRequest) -> str:
    """Python that trains the run again and finds the births of its heads."""
    run = asked.space.run(asked.question.model)
    texts = shown_texts(asked.checkpoint, asked.question)
    known, words = description(run), ", ".join(repr(text) for text in texts if text)
    start = 'load_recipe("recipe.json"), read_corpus("text.txt")'  # of a text of one's own
    if "recipe" in known:
        start = f"load_recipe({known['recipe']!r}).override({known['settings']!r})"
    return with_imports(
        f"run = TrainingService().start({start}, seed={run.recipe.seed}).wait()",
        "steps = [snapshot.step for snapshot in run.snapshots]",
        f"patterns = [head_patterns(snapshot.checkpoint(), {words}) for snapshot in run.snapshots]",
        "for birth in head_births(steps, patterns):",
        "    print(birth)",
        "steepest_fall(steps, [(row.step, row.mlm_loss) for row in run.history()])",
    )
