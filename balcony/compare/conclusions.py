"""What the numbers of an experiment say: a table, and sentences that go no further than the numbers carry."""

import math
from collections.abc import Sequence
from typing import Any

from balcony.compare.definitions import MEASURES, Contrast, Experiment, Marks, Outcome, failed, outcome, spread
from balcony.compare.trials import Trial
from balcony.parts.verdicts import FEWEST, MARGIN, MARGIN_RATIO, SEEDS, STANDARD_ERRORS, Spread
from balcony.server.workspace import Workspace
from bert_core.errors import percent

ALWAYS_SHOWN = ("mlm_accuracy", "mlm_loss", "nsp_accuracy", "nsp_loss", "seconds")
CONCLUSIONS = {  # by outcome; a contrast has the sentences for the others
    "not asked": "not asked in this test",
    "not trained": "not compared, because not every model is trained for it",
    "too few": f"fewer than {FEWEST} held-out examples measure nothing; give a test file, or more examples",
    "failed": "a model that did not learn says nothing about what differs; try a third of the learning rate",
    "no better": f"no model is more than {100 * MARGIN:g} points above always giving the most frequent answer; "
    "take more steps",
    "saturated": f"“{{measure}}” leaves no room for a difference, because all models are within {100 * MARGIN:g} "
    "points of 100%; take a longer text or a harder task",
    "few seeds": "with {seeds} this difference may be chance; run three",
    "unclear": "{seeds} do not settle the difference in “{measure}” between “{first}” and “{other}”, because their "
    "results overlap; take more steps or a longer text",
}
NUMBERS = ("no", "one", "two", "three")
FORMATS = {  # by unit: factor, digits, and what follows the number
    "fraction": (100, 0, "%"),
    "correlation": (1, 2, ""),
    "nats": (1, 2, ""),
    "seconds": (1, 1, " s"),
}
RULE = (
    f"Mean ± standard deviation over {{}} [[seed|seeds]]. A difference counts if the means differ by more than "
    f"{STANDARD_ERRORS} standard errors (Student's t, 95%). Results count as equal if they would differ by less "
    f"than {100 * MARGIN:g} points (times: {MARGIN_RATIO:.0%}) even with {STANDARD_ERRORS} standard errors more."
)


def report(trial: Trial, space: Workspace) -> dict[str, Any] | None:
    """A row for each variant and the answer, from the seeds with which all variants have finished."""
    experiment, marks = trial.experiment, trial.complete()
    if not marks[0]:
        return None
    contrasted = {contrast.measure for contrast in experiment.contrasts}
    known = {name for column in marks for each in column for name in each.numbers if name in ALWAYS_SHOWN}
    shown = [name for name in MEASURES if name in contrasted | known]
    looks = {entry.variant: {"colour": entry.colour, "isDotted": entry.is_dotted} for entry in space.entries.values()}
    rows = [
        {"title": variant.title, "cells": [_cell(column, name) for name in shown], **looks.get(variant.title, {})}
        for variant, column in zip(experiment.variants, marks, strict=True)
    ]
    how = RULE.format(len(marks[0])) + " " if len(marks[0]) >= SEEDS else ""
    how += f"Every model was tested on the same {marks[0][0].about}."
    steps = {run.recipe.training.total_steps for run in space.all_runs if run.id in trial.runs}
    how += f" Each was trained for {steps.pop():,} steps." if len(steps) == 1 else ""
    if experiment.test.title:
        how += f" {experiment.test.title}"
    found = outcomes(experiment, marks)
    return {
        "columns": [MEASURES[name].title for name in shown],
        "rows": rows,
        "answer": answer(experiment, marks),
        "how": how,
        "slower": trial.slower is not None and bool({"failed", "no better"} & {*found}),
    }


def outcomes(experiment: Experiment, marks: Sequence[Sequence[Marks]]) -> list[Outcome]:
    return [outcome(experiment, contrast, marks) for contrast in experiment.contrasts]


def answer(experiment: Experiment, marks: Sequence[Sequence[Marks]]) -> str:
    """Sentences that answer the experiment's question, as far as the numbers can: each conclusion once, after what was
    seen and from which it follows.

    marks: for each variant those of its runs, one for each seed.
    """
    seeds = f"{NUMBERS[len(marks[0])]} seed{'s' * (len(marks[0]) > 1)}"
    grouped: dict[str, list[str]] = {}
    for contrast, found in zip(experiment.contrasts, outcomes(experiment, marks), strict=True):
        first, other = (experiment.variants[n].title for n in (contrast.first, contrast.other))
        conclusion = CONCLUSIONS.get(found) or getattr(contrast, found)
        column = MEASURES[contrast.measure].title
        said = conclusion.format(seeds=seeds, measure=column, first=first, other=other)
        grouped.setdefault(said, []).extend(_seen(experiment, contrast, marks, found))
    said = [each for words, seen in grouped.items() for each in (*seen, words)]
    return " ".join(f"{each[:1].upper()}{each[1:]}." for each in said)


def _seen(experiment: Experiment, contrast: Contrast, marks: Sequence[Sequence[Marks]], found: Outcome) -> list[str]:
    """The numbers of both variants and, without a verdict on these, which runs did not learn."""
    measure, sides = contrast.measure, (contrast.first, contrast.other)
    if found in ("not asked", "not trained"):
        return [MEASURES[measure].phrase]
    titles = {n: experiment.variants[n].title for n in sides}
    numbers = [f"{_cell(marks[n], measure)} ({title})" for n, title in titles.items()]
    if found in ("no better", "fallback", "failed"):
        baseline = marks[0][0].baselines[MEASURES[measure].objective]
        numbers.append(f"{percent(baseline)} (always the most frequent answer)")
    low = {n: len(failed(marks[n], measure)) for n in sides if found == "failed"}
    failures = [
        f"{count} of the {len(marks[n])} runs with {titles[n]} did not learn"
        if len(marks[n]) > 1
        else f"The run with {titles[n]} did not learn"
        for n, count in low.items()
        if count
    ]
    return [f"{MEASURES[measure].phrase}: {', '.join(numbers)}", *failures]


def _cell(marks: Sequence[Marks], measure: str) -> str:
    if not all(measure in each.numbers for each in marks):
        return "not trained"
    return format_number(spread(marks, measure), MEASURES[measure].unit)


def format_number(number: Spread, unit: str) -> str:
    """Mean and standard deviation as text: "97% ± 2", "0.41 ± 0.03", "1.2 s ± 0.1"."""
    if not math.isfinite(number.mean):
        return "not asked"
    factor, digits, follows = FORMATS[unit]
    deviation = f" ± {factor * number.deviation:.{digits}f}" if math.isfinite(number.deviation) else ""
    mean = percent(number.mean) if unit == "fraction" else f"{number.mean:.{digits}f}{follows}"
    return f"{mean}{deviation}"
