"""What pre-training bought: the same task from random and from pretrained weights, with fewer and fewer examples."""

import dataclasses
import math
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from bert_core.config import check_seed
from bert_core.errors import BertCoreError, CheckpointError
from bert_core.runs.recipe import FinetuningRecipe
from bert_core.runs.run import ACTIVE, Run
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskData, TaskParts
from bert_core.tasks.prediction import review
from bert_core.training.verdicts import MARGIN, SEEDS, Spread, compare
from ui.finetune.answers import MOST_JUDGED
from ui.parts.figures import transfer_chart
from ui.server.news import series_of
from ui.server.probe_lock import probe_lock
from ui.server.workspace import Workspace
from ui.server.workspaces import Workspaces

SIZES = (128, 32, 8)  # labelled examples, beside all
STARTS = ("random weights", "pretrained weights")
MOST_EPOCHS = 1_000
CORRELATIONS = ("pearson",)  # measures that are no fractions
CONCLUSIONS = {  # by verdict
    "higher": "pre-training helps",
    "lower": "pre-training hurts",
    "alike": f"pre-training changes less than {100 * MARGIN:g} points",
    "unclear": "the seeds do not settle it",
    "few seeds": "{seeds} cannot settle it",
    "no better": f"neither is more than {100 * MARGIN:g} points above always giving the most frequent answer",
    "saturated": f"both are within {100 * MARGIN:g} points of 100%",
    "not asked": "nothing could be measured",
}


class Mark(NamedTuple):
    """One run, measured.

    random: its initial weights. examples: that it learned from. curve: [step, measure] on the validation part. value:
    measure on the test part at the end. baseline: that of the most frequent answer.
    """

    random: bool
    examples: int
    seed: int
    curve: list[list[float]]
    value: float
    baseline: float


@dataclass
class Transfer:
    """A comparison as a visitor started it. runs: that are not measured yet. total: of its runs. measure: by name.
    part: describes what the models are measured on. problem: why a run was not measured."""

    number: int
    title: str
    runs: list[Run]
    total: int
    marks: list[Mark] = field(default_factory=list)
    measure: str = ""
    part: str = ""
    problem: str = ""
    _measuring: threading.Lock = field(default_factory=threading.Lock)

    def examine(self, space: Workspace) -> None:
        """Measure the models of the runs that have ended, and free them."""
        with self._measuring:
            for run in [run for run in self.runs if run.status not in ACTIVE]:
                try:
                    self._measure(run)
                except BertCoreError as error:
                    self.problem = str(error)
                self.runs.remove(run)
                space.unlisted.remove(run)
                space.budget.forget(run)

    def _measure(self, run: Run) -> None:
        if run.status != "finished" or run.prepared is None or not run.snapshots:
            raise CheckpointError(run.reason or "A run ended before it could be measured.")
        parts, recipe = run.prepared.parts, run.recipe
        part = parts.test or parts.validation
        assert part is not None
        self.measure = series_of(run)[1][-1]
        part = part.sample(MOST_JUDGED, 0)
        with probe_lock:
            value = review((run.best or run.snapshots[-1]).checkpoint(), part).measures[self.measure]
        self.part = f"{len(part.examples):,} {'test' if parts.test else 'held-out'} examples"
        curve = [[point.step, round(getattr(point, self.measure), 4)] for point in run.evaluations()]
        baseline = most_frequent(part) if self.measure == "accuracy" else 0.0
        examples = len(parts.train.examples)
        self.marks.append(Mark(recipe.random_weights, examples, recipe.seed, curve, value, baseline))

    def sides(self, examples: int) -> tuple[Spread, Spread] | None:
        """The values with random and with pretrained weights, of the seeds that both have; None without such a seed."""
        values = {(mark.random, mark.seed): mark.value for mark in self.marks if mark.examples == examples}
        seeds = sorted(seed for random, seed in values if random and (False, seed) in values)
        random, pretrained = (Spread(tuple(values[is_random, seed] for seed in seeds)) for is_random in (True, False))
        return (random, pretrained) if seeds else None

    @property
    def sizes(self) -> list[int]:
        """The numbers of labelled examples that are measured, the fewest first."""
        return sorted({mark.examples for mark in self.marks})


_transfers: WeakKeyDictionary[Workspace, Transfer] = WeakKeyDictionary()  # each visitor's newest


def start_transfer(
    workspaces: Workspaces,
    space: Workspace,
    recipe: FinetuningRecipe,
    start: Checkpoint,
    parts: TaskParts,
    seeds: int,
) -> int:
    """Start runs from random weights and from those of `start`, with all examples and with some of them.

    All have the same number of steps, so that few examples are read more often. Returns the number of the comparison.
    Raises BertCoreError.
    """
    check_seed(recipe.seed + seeds - 1)
    everything, batch = len(parts.train.examples), recipe.data.batch_size
    if recipe.data.most_examples is not None:
        everything = min(everything, recipe.data.most_examples)
    recipes = []
    for size in (None, *(size for size in SIZES if size < everything)):
        sized = recipe
        if size is not None:
            ratio = math.ceil(everything / batch) / math.ceil(size / batch)
            every = min(MOST_EPOCHS, max(1, round(recipe.training.evaluate_every * ratio)))
            changed: dict[str, Any] = {"data.most_examples": size, "evaluate_every": every}
            if recipe.training.epochs is not None:
                changed["epochs"] = min(MOST_EPOCHS, recipe.training.epochs * ratio)
            sized = recipe.override(changed)
        recipes += [dataclasses.replace(sized, random_weights=random) for random in (True, False)]
    runs = [
        workspaces.finetune(space, each.with_seed(recipe.seed + seed), start, parts, listed=False)
        for seed in range(seeds)
        for each in recipes
    ]
    before = _transfers.get(space)
    if before is not None:
        before.examine(space)
    number, title = before.number + 1 if before else 1, f"{recipe.title}, from {start.name}"
    _transfers[space] = Transfer(number, title, runs, len(runs))
    return number


def transfer_news(space: Workspace, number: int = 0, done: int = 0) -> dict[str, Any]:
    """Progress or result of the visitor's newest comparison; {} before the first.

    number, done: the comparison that the page knows, and how many of its runs had ended."""
    trial = _transfers.get(space)
    if trial is None:
        return {}
    trial.examine(space)
    ended = trial.total - len(trial.runs)
    news: dict[str, Any] = {
        "number": trial.number,
        "title": trial.title,
        "of": trial.total,
        "done": ended,
        "reason": trial.problem,
    }
    if active := trial.runs[:1]:
        progress = active[0].progress()
        part = progress.step / progress.steps if progress.steps else 0.0
        news["fraction"] = round((ended + part) / trial.total, 3)
    elif trial.marks:
        news |= {"answer": answer(trial), "how": how(trial)}
    if trial.marks and (number, done) != (trial.number, ended):
        news["figure"] = figure(trial)
    return news


def answer(trial: Transfer) -> str:
    """A sentence on what pre-training bought, as far as the numbers carry."""
    conclusions: dict[str, list[str]] = {}
    for examples in trial.sizes:
        if (sides := trial.sides(examples)) is None:
            continue
        random, pretrained = sides
        baseline = max(mark.baseline for mark in trial.marks)
        verdict = compare(random, pretrained, baseline)
        seeds = "one seed" if len(random.values) == 1 else f"{len(random.values)} seeds"
        numbers = f"{examples:,} examples: {formatted(pretrained, trial.measure)} from pretrained weights, "
        numbers += f"{formatted(random, trial.measure)} from random ones"
        conclusions.setdefault(CONCLUSIONS[verdict].format(seeds=seeds), []).append(numbers)
    whole = "; ".join(f"{conclusion} ({'; '.join(numbers)})" for conclusion, numbers in conclusions.items())
    return f"{whole[:1].upper()}{whole[1:]}." if whole else ""


def how(trial: Transfer) -> str:
    """How the numbers were measured."""
    seeds = len({mark.seed for mark in trial.marks})
    spread = f", mean ± standard deviation over {seeds} seeds" if seeds > 1 else ""
    few = " Between fewer than three seeds, any difference can be chance." if seeds < SEEDS else ""
    name = trial.measure.replace("_", " ")
    return f"{name.capitalize()} on {trial.part}{spread}. All runs have the same number of steps.{few}"


def formatted(number: Spread, measure: str) -> str:
    """Mean and standard deviation as text: "84% ± 2"; a correlation: "0.84 ± 0.02"."""
    factor, digits, unit = (1, 2, "") if measure in CORRELATIONS else (100, 0, "%")
    deviation = f" ± {factor * number.deviation:.{digits}f}" if math.isfinite(number.deviation) else ""
    return f"{factor * number.mean:.{digits}f}{unit}{deviation}"


def figure(trial: Transfer) -> dict[str, Any]:
    """The curves with all examples over one another, and the measure against the number of labelled examples."""
    starts = []
    for name, random in zip(STARTS, (True, False)):
        own = [mark for mark in trial.marks if mark.random == random]
        curves = [mark.curve for mark in own if mark.examples == trial.sizes[-1] and mark.curve]
        sizes = []
        for examples in sorted({mark.examples for mark in own}):
            values = Spread(tuple(mark.value for mark in own if mark.examples == examples))
            deviation = values.deviation if math.isfinite(values.deviation) else 0.0
            sizes.append([examples, round(values.mean, 4), round(deviation, 4)])
        starts.append((name.capitalize(), curves, sizes))
    return transfer_chart(starts, trial.measure.replace("_", " ").capitalize())


def most_frequent(part: TaskData) -> float:
    """The accuracy of always giving the most frequent label."""
    labels: Sequence[Any] = [getattr(each, "label", None) for each in part.examples]
    return max(Counter(labels).values()) / len(labels)
