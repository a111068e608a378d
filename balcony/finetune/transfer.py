"""What pre-training bought: the same task from random and from pre-trained weights, with fewer and fewer examples."""

import functools
import math
import sys
from typing import Any, NamedTuple

from balcony.compare import trials
from balcony.compare.trials import UNSETTLED, Trial, failures, format_number, sentences
from balcony.finetune.answers import FEWEST, MOST_JUDGED, other_examples
from balcony.parts.figures import transfer_chart
from balcony.parts.verdicts import MARGIN, Spread, compare
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import Workspace
from balcony.server.workspaces import Workspaces
from bert_core.config import CHECKPOINTS, check_seed
from bert_core.errors import CorpusError
from bert_core.runs.recipe import FinetuningRecipe
from bert_core.runs.run import Run
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskParts
from bert_core.tasks.prediction import review

SIZES = (128, 32, 8)  # labelled examples, beside all
STARTS = ("random weights", "pre-trained weights")
MOST_EPOCHS = 1_000
UNITS = {"pearson": "correlation"}  # of measures that are not fractions
CONCLUSIONS = trials.CONCLUSIONS | {  # by verdict
    "unclear": UNSETTLED + "take more epochs",
    "higher": "pre-training helps",
    "lower": "pre-training hurts",
    "alike": f"pre-training changes less than {100 * MARGIN:g} points",
    "no better": f"neither is more than {100 * MARGIN:g} points above always giving the most frequent answer; "
    "take more epochs",
    "saturated": f"both are within {100 * MARGIN:g} points of 100%, so this task cannot show a difference",
    "not asked": "nothing could be measured",
    "too few": f"fewer than {FEWEST} held-out examples measure nothing; give a test file, or more examples",
}


class Mark(NamedTuple):
    """One run, measured.

    examples: that it learned from. judged: that were asked at the end. curve: [step, measure] on the validation part.
    value: measure on the test part at the end. baseline: that of the most frequent answer. note: that the curve is of
    other examples, if it is.
    """

    examples: int
    judged: int
    curve: list[list[float]]
    value: float
    baseline: float
    note: str = ""


def measured(run: Run) -> tuple[Mark, str]:
    """How the best model of a run does on examples from which it has not learned, and which these are."""
    if run.job is None:
        raise CorpusError("The examples of this run are no longer kept; fine-tune it again.")
    parts = run.job.parts
    part = parts.test or parts.validation
    name, part = part.kind.measure, part.sample(MOST_JUDGED, 0)
    with probe_lock:
        found = review((run.best or run.snapshots[-1]).checkpoint(), part)
    curve = [[point.step, round(getattr(point, name), 4)] for point in run.evaluations()]
    about = f"{len(part.examples):,} {'test' if parts.test else 'held-out'} example{'s' * (len(part.examples) != 1)}"
    counts = len(parts.train.examples), len(part.examples)
    return Mark(*counts, curve, found.measures[name], found.always[name], *other_examples(parts)), about


def report(measure: str, trial: Trial, space: Workspace) -> dict[str, Any] | None:
    """What pre-training bought in a sentence, and how that was measured."""
    seeds = len({seed for _, seed in trial.marks})
    spread = f", mean ± standard deviation over {seeds} seeds" if seeds > 1 else ""
    how = f"{in_words(measure)}, measured on {trial.about}{spread}. All runs have the same number of steps."
    notes = {mark.note for mark in trial.marks.values() if mark.note}
    return {"answer": answer(measure, trial), "how": " ".join([how, *notes])} if seeds else None


def answer(measure: str, trial: Trial) -> str:
    """A sentence on what pre-training bought, as far as the numbers carry."""
    baseline, unit = max(mark.baseline for mark in trial.marks.values()), UNITS.get(measure, "fraction")
    conclusions = []
    for variant in range(0, len(trial.variants), 2)[::-1]:  # the fewest examples first
        sides = trial.complete(variant, variant + 1)
        if marks := sides[0]:
            random, pretrained = (Spread(tuple(mark.value for mark in side)) for side in sides)
            numbers = f"{format_number(random, unit)} ({STARTS[0]}), {format_number(pretrained, unit)} ({STARTS[1]})"
            numbers = f"{marks[0].examples:,} examples: {numbers}"
            low = [failures(*each, baseline) for each in zip(STARTS, (random, pretrained)) if unit == "fraction"]
            verdict = compare(random, pretrained, baseline) if marks[0].judged >= FEWEST else "too few"
            conclusions.append((CONCLUSIONS[verdict], len(marks), [numbers, *low]))
    return sentences(conclusions)


def figure(measure: str, trial: Trial) -> dict[str, Any] | None:
    """The curves with all examples over one another, and the measure against the number of labelled examples."""
    starts = []
    for start, name in enumerate(STARTS):
        sizes = []
        for variant in range(start, len(trial.variants), 2)[::-1]:
            if marks := trial.complete(variant)[0]:
                values = Spread(tuple(mark.value for mark in marks))
                deviation = values.deviation if math.isfinite(values.deviation) else 0.0
                sizes.append([marks[0].examples, round(values.mean, 4), round(deviation, 4)])
        starts.append((name.capitalize(), [mark.curve for mark in trial.complete(start)[0] if mark.curve], sizes))
    return transfer_chart(starts, in_words(measure)) if trial.marks else None


def in_words(measure: str) -> str:
    return measure.replace("_", " ").capitalize()


def start_transfer(
    workspaces: Workspaces, space: Workspace, recipe: FinetuningRecipe, start: Checkpoint, parts: TaskParts, seeds: int
) -> None:
    """Start runs from random weights and from those of `start`, with all examples and with some of them.

    All have the same number of steps, so that few examples are read more often. Raises BertCoreError.
    """
    space.refuse_if_active()
    check_seed(recipe.seed + seeds - 1)
    train = parts.train if parts.validation else parts.train.split(recipe.data.validation_share, recipe.seed)[0]
    everything = min(len(train.examples), recipe.data.most_examples or sys.maxsize)
    sizes = [everything, *(size for size in SIZES if size < everything)]
    recipes = [recipe, *(_sized(recipe, size, everything) for size in sizes[1:])]
    recipes = [each.replace(random_weights=random) for each in recipes for random in (True, False)]
    names = [f"{start}, {size:,} examples" for size in sizes for start in STARTS]
    model, measure = start.name.removeprefix(f"{CHECKPOINTS.name}/"), parts.train.kind.measure
    title = f"{recipe.for_source(parts).title}, from {model}"
    trial = Trial(
        *("transfer", title, "", names, measured),
        functools.partial(report, measure),
        functools.partial(figure, measure),
    )
    for seed in range(recipe.seed, recipe.seed + seeds):
        for variant, each in enumerate(recipes):
            run = workspaces.finetune(space, each.with_seed(seed), start, parts, listed=False)
            trial.runs[run.id] = variant, seed
    trial.begin(space)


def _sized(recipe: FinetuningRecipe, size: int, everything: int) -> FinetuningRecipe:
    """The recipe with some of the examples, and as many steps as with everything."""
    batch = recipe.data.batch_size
    ratio = math.ceil(everything / batch) / math.ceil(size / batch)
    every = min(MOST_EPOCHS, max(1, round(recipe.training.evaluate_every * ratio)))
    changed: dict[str, Any] = {"data.most_examples": size, "evaluate_every": every}
    if recipe.training.epochs is not None:
        changed["epochs"] = min(MOST_EPOCHS, recipe.training.epochs * ratio)
    return recipe.override(changed)
