"""Experiments: runs that differ in one setting, measured with the same questions, and what follows from the numbers."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

import torch
from torch import Tensor

from balcony.parts.verdicts import FEWEST, MARGIN, Comparison, Spread, compare, learned
from bert_core.config import ASSETS, DataConfig, read_json_file
from bert_core.data.batches import PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IGNORED, encode_corpus
from bert_core.data.tokenizer import MASK
from bert_core.errors import CorpusError, percent
from bert_core.runs.recipe import Recipe
from bert_core.storage.checkpoint import Checkpoint
from bert_core.training import Pretraining, evaluate

PAIRS = 512  # that each model judges, down to whole batches
MAX_SENTENCES = 2000  # of the text, from its start


@dataclass(frozen=True)
class Measure:
    """A number of a trained model."""

    title: str  # of a column
    phrase: str  # in a sentence
    objective: str  # "mlm", "nsp", "task" or ""
    unit: str  # "fraction", "correlation", "nats" or "seconds"


MEASURES = {  # in the order of the columns; those of a task by its own name
    "accuracy": Measure("Accuracy", "accuracy", "task", "fraction"),
    "f1": Measure("F1", "F1", "task", "fraction"),
    "pearson": Measure("Pearson", "Pearson", "task", "correlation"),
    "mlm_accuracy": Measure("Asked words right", "asked words right", "mlm", "fraction"),
    "masked_accuracy": Measure("At [MASK]", "right at [MASK]", "mlm", "fraction"),
    "replaced_accuracy": Measure("Replaced", "right where another word is shown", "mlm", "fraction"),
    "kept_accuracy": Measure("Left unchanged", "right at words left unchanged", "mlm", "fraction"),
    "mlm_loss": Measure("MLM loss, same batches", "MLM loss", "mlm", "nats"),
    "nsp_accuracy": Measure("Pairs right", "pairs right", "nsp", "fraction"),
    "nsp_loss": Measure("NSP loss, same batches", "NSP loss", "nsp", "nats"),
    "seconds": Measure("Training", "training time", "", "seconds"),
}
ACCURACIES = {"mlm": "mlm_accuracy", "nsp": "nsp_accuracy"}  # of objectives; that of a task is its measure

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


@dataclass(frozen=True)
class Variant:
    """One side of an experiment. settings: as `Recipe.override` takes them. factors: of the recipe's own settings.
    random_weights: whether a task begins with them."""

    title: str
    settings: dict[str, object] = field(default_factory=dict)
    factors: dict[str, float] = field(default_factory=dict)
    random_weights: bool = False

    def apply(self, recipe: Recipe) -> Recipe:
        """The recipe with this variant's settings. Raises ConfigError where one exceeds its limit."""
        scaled = {name: factor * attrgetter(name)(recipe) for name, factor in self.factors.items()}
        return recipe.override({**self.settings, **scaled})


@dataclass(frozen=True)
class Contrast:
    """A comparison of two variants, and the conclusions from it.

    fallback: for any number of seeds, if no run of the other variant learned while those of the first one did.
    """

    measure: str  # a key of MEASURES; "task" stands for the measure of the task
    other: int  # index of the other variant
    higher: str  # if its number is higher
    alike: str  # if it is about the same
    lower: str
    fallback: str = ""
    first: int = 0


@dataclass(frozen=True)
class Experiment:
    """A question that a few runs with the same recipe and seed answer, which differ in one thing.

    test: settings of the test that all variants get, if they are not the recipe's; its title says how they differ.
    failing_counts: a variant that does not learn is an answer; else its learning rate may be to blame. of_task: the
    runs learn the task of the Fine-tune tab.
    """

    name: str
    title: str
    question: str
    variants: tuple[Variant, ...]
    contrasts: tuple[Contrast, ...]
    test: Variant = Variant("")
    failing_counts: bool = False
    of_task: bool = False


@functools.cache
def load_experiments() -> tuple[Experiment, ...]:
    """The experiments of the program, in the order of their files' numbers; a name is what follows the "-" there."""
    found = []
    for path in sorted((ASSETS / "experiments").glob("*.json"), key=lambda path: int(path.stem.partition("-")[0])):
        content = read_json_file(path, "experiment")
        content["variants"] = tuple(Variant(**each) for each in content["variants"])
        content["test"] = Variant(**content.get("test", {"title": ""}))
        content["contrasts"] = tuple(Contrast(**each) for each in content["contrasts"])
        found.append(Experiment(path.stem.partition("-")[2], **content))
    return tuple(found)


@dataclass(frozen=True)
class Marks:
    """How a trained model answers the questions that all variants of an experiment get, with dropout off.

    numbers: by measure, for the objectives that it was trained on; nan where nothing is asked. Losses are in nats,
    accuracies from 0 to 1. baselines: the accuracy of always the most frequent answer, by objective. about: the
    questions. is_enough: whether they are enough to measure something.
    """

    numbers: dict[str, float]
    baselines: dict[str, float]
    about: str
    is_enough: bool = True

    def learned(self, measure: str) -> bool:
        """Whether the model learned what a measure asks."""
        objective = MEASURES[measure].objective
        return learned(self.numbers[ACCURACIES.get(objective, measure)], self.baselines[objective])


def examine(
    checkpoint: Checkpoint,
    text: Corpus,
    data: DataConfig,
    seconds: float = math.nan,
    trained: tuple[str, ...] = ("mlm", "nsp"),
    name: str = "the text",
) -> Marks:
    """Test a model on about PAIRS pairs of a text, drawn and masked according to `data`; the same ones at every call.

    seconds: its training time. trained: its objectives. name: of the text. Raises CorpusError for a text without
    pairs, unless the model is not trained on them.
    """
    encoded, tokenizer = encode_corpus(text.part(0, MAX_SENTENCES), checkpoint.tokenizer), checkpoint.tokenizer
    try:
        drawn = PretrainingBatches(encoded, tokenizer, data, seed=0)
    except CorpusError:
        if "nsp" in trained:
            raise
        drawn = PretrainingBatches(encoded, tokenizer, data, seed=0, needs_pairs=False)
    batches = [drawn[k] for k in range(max(1, PAIRS // data.batch_size))]
    *_, row = evaluate(checkpoint.model, batches, mask_token_id=tokenizer.token_to_id(MASK))
    return Marks(
        {name: getattr(row, name) for name in Pretraining.names if MEASURES[name].objective in trained}
        | {"seconds": seconds},
        {
            "mlm": _most_frequent([batch.asked()[1] for batch in batches]),
            "nsp": _most_frequent([batch.next_sentence_label for batch in batches]),
        },
        f"{len(batches) * data.batch_size} pairs of {name}, masked by the recipe",
    )


def _most_frequent(labels: Sequence[Tensor]) -> float:
    found = torch.cat(list(labels))
    found = found[found != IGNORED]
    return int(found.bincount().max()) / len(found) if len(found) else math.nan


def spread(marks: Sequence[Marks], measure: str) -> Spread:
    return Spread(tuple(each.numbers[measure] for each in marks))


def failed(marks: Sequence[Marks], measure: str) -> list[Marks]:
    """Those of the runs that did not learn what is measured."""
    return [each for each in marks if MEASURES[measure].objective and not each.learned(measure)]


Outcome = Comparison | Literal["not trained", "too few", "failed", "fallback"]


def outcome(experiment: Experiment, contrast: Contrast, marks: Sequence[Sequence[Marks]]) -> Outcome:
    """What the numbers say about a contrast. marks: for each variant those of its runs, one for each seed."""
    measure, sides = contrast.measure, (marks[contrast.first], marks[contrast.other])
    runs = [*sides[0], *sides[1]]
    if not all(measure in each.numbers for each in runs):
        return "not trained"
    if not all(each.is_enough for each in runs):
        return "too few"
    first, other = (spread(side, measure) for side in sides)
    if not all(map(math.isfinite, first.values + other.values)):
        return "not asked"
    low, lower = (len(failed(side, measure)) for side in sides)
    if contrast.fallback and not low and lower == len(sides[1]):
        return "fallback"
    if not experiment.failing_counts and low + lower:
        return "no better" if low + lower == len(runs) else "failed"
    return compare(first, other, runs[0].baselines.get(MEASURES[measure].objective))


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
    numbers = [f"{cell(marks[n], measure)} ({title})" for n, title in titles.items()]
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


def cell(marks: Sequence[Marks], measure: str) -> str:
    """A measure of a variant's runs as text."""
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
