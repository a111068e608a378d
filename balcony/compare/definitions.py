"""Experiments: runs that differ in one setting, measured with the same questions, and what follows from the numbers."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

import torch
from torch import Tensor

from balcony.parts.verdicts import MARGIN, Comparison, Spread, compare
from bert_core.config import ASSETS, DataConfig, read_json_file
from bert_core.data.batches import IGNORED, PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.data.tokenizer import MASK
from bert_core.errors import CorpusError
from bert_core.runs.recipe import Recipe
from bert_core.storage.checkpoint import Checkpoint
from bert_core.training.evaluation import evaluate
from bert_core.training.objective import Pretraining

PAIRS = 512  # that each model judges, down to whole batches
MAX_SENTENCES = 2000  # of the text, from its start


@dataclass(frozen=True)
class Measure:
    """A number of `Marks`."""

    title: str  # of a column
    phrase: str  # in a sentence
    objective: str  # "mlm", "nsp" or ""
    unit: str  # "fraction", "nats" or "seconds"


MEASURES = {  # by field of Marks, in the order of the columns
    "mlm_accuracy": Measure("Asked words right", "asked words right", "mlm", "fraction"),
    "masked_accuracy": Measure("At [MASK]", "right at [MASK]", "mlm", "fraction"),
    "replaced_accuracy": Measure("Replaced", "right where another word is shown", "mlm", "fraction"),
    "kept_accuracy": Measure("Left unchanged", "right at words left unchanged", "mlm", "fraction"),
    "mlm_loss": Measure("MLM loss, same batches", "MLM loss", "mlm", "nats"),
    "nsp_accuracy": Measure("Pairs right", "pairs right", "nsp", "fraction"),
    "nsp_loss": Measure("NSP loss, same batches", "NSP loss", "nsp", "nats"),
    "seconds": Measure("Training", "training time", "", "seconds"),
}


@dataclass(frozen=True)
class Variant:
    """One side of an experiment. settings: as `Recipe.override` takes them. factors: of the recipe's own settings."""

    title: str
    settings: dict[str, object] = field(default_factory=dict)
    factors: dict[str, float] = field(default_factory=dict)

    def apply(self, recipe: Recipe) -> Recipe:
        """The recipe with this variant's settings. Raises ConfigError where one exceeds its limit."""
        scaled = {name: factor * attrgetter(name)(recipe) for name, factor in self.factors.items()}
        return recipe.override({**self.settings, **scaled})


@dataclass(frozen=True)
class Contrast:
    """A comparison of another variant with the first one, and the conclusions from it.

    fallback: for any number of seeds, if the other is no better than the most frequent answer while the first one is.
    """

    measure: str  # a key of MEASURES
    other: int  # index of the other variant
    higher: str  # if its number is higher
    alike: str  # if it is about the same
    lower: str
    fallback: str = ""


@dataclass(frozen=True)
class Experiment:
    """A question that a few runs with the same recipe and seed answer, which differ in one thing.

    test: settings of the test that all variants get, if they are not the recipe's; its title says how they differ.
    """

    name: str
    title: str
    question: str
    variants: tuple[Variant, ...]
    contrasts: tuple[Contrast, ...]
    test: Variant = Variant("")


@functools.cache
def load_experiments() -> tuple[Experiment, ...]:
    """The experiments of the program, in the order of their file names; a name is what follows the "-" there."""
    found = []
    for path in sorted((ASSETS / "experiments").glob("*.json")):
        content = read_json_file(path, "experiment")
        content["variants"] = tuple(Variant(**each) for each in content["variants"])
        content["test"] = Variant(**content.get("test", {"title": ""}))
        content["contrasts"] = tuple(Contrast(**each) for each in content["contrasts"])
        found.append(Experiment(path.stem.partition("-")[2], **content))
    return tuple(found)


@dataclass(frozen=True)
class Marks:
    """How a trained model answers the questions that all variants of an experiment get, with dropout off.
    Losses are in nats, accuracies from 0 to 1, as in `Pretraining`."""

    mlm_loss: float
    nsp_loss: float
    mlm_accuracy: float
    nsp_accuracy: float
    masked_accuracy: float
    replaced_accuracy: float
    kept_accuracy: float
    seconds: float  # training time
    pairs: int  # how many were judged
    mlm_baseline: float  # accuracy of always the most frequent answer
    nsp_baseline: float
    trained: tuple[str, ...]  # the objectives, "mlm" and "nsp"


def examine(
    checkpoint: Checkpoint,
    text: Corpus,
    data: DataConfig,
    seconds: float = math.nan,
    trained: tuple[str, ...] = ("mlm", "nsp"),
) -> Marks:
    """Test a model on about PAIRS pairs of a text, drawn and masked according to `data`; the same ones at every call.

    seconds, trained: see `Marks`. Raises CorpusError for a text without pairs, unless the model is not trained on them.
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
        **{name: getattr(row, name) for name in Pretraining.names},  # nan where nothing is asked
        seconds=seconds,
        pairs=len(batches) * data.batch_size,
        mlm_baseline=_most_frequent([batch.asked()[1] for batch in batches]),
        nsp_baseline=_most_frequent([batch.next_sentence_label for batch in batches]),
        trained=trained,
    )


def _most_frequent(labels: Sequence[Tensor]) -> float:
    found = torch.cat(list(labels))
    found = found[found != IGNORED]
    return int(found.bincount().max()) / len(found) if len(found) else math.nan


def spread(marks: Sequence[Marks], measure: str) -> Spread:
    return Spread(tuple(getattr(each, measure) for each in marks))


def outcome(contrast: Contrast, marks: Sequence[Sequence[Marks]]) -> Comparison | Literal["not trained", "fallback"]:
    """What the numbers say about a contrast. marks: for each variant those of its runs, one for each seed."""
    measure, sides = MEASURES[contrast.measure], (marks[0], marks[contrast.other])
    if measure.objective and not all(measure.objective in each.trained for side in sides for each in side):
        return "not trained"
    baseline = baseline_of(marks[0][0], contrast.measure) if measure.unit == "fraction" else None
    first, other = (spread(side, contrast.measure) for side in sides)
    if contrast.fallback and baseline is not None and max(other.values) <= baseline + MARGIN < min(first.values):
        return "fallback"
    return compare(first, other, baseline)


def baseline_of(marks: Marks, measure: str) -> float:
    """The accuracy of always the most frequent answer, for a measure that is a fraction."""
    return getattr(marks, f"{MEASURES[measure].objective}_baseline")
