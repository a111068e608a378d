"""Experiments: runs that differ in one setting, measured with the same questions, and what follows from the numbers."""

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bert_core.config import DataConfig
from bert_core.data.batches import PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.data.tokenizer import MASK
from bert_core.probes.forward import suitable_threads
from bert_core.runs.recipe import ASSETS, read_json_file
from bert_core.storage.checkpoint import Checkpoint
from bert_core.training.losses import DeviceBatch, kinds_asked, pretraining_losses

PAIRS = 512  # that each model judges
MAX_SENTENCES = 2000  # of the text, from its start
CLEAR_FRACTION = 0.02  # a smaller difference between two fractions counts as none
CLEAR_RATIO = 0.1  # of two times, likewise


@dataclass(frozen=True)
class Measure:
    """A number of `Marks`. title: heads a column. phrase: stands in a sentence. objective: "mlm", "nsp" or "".
    unit: "fraction", "nats" or "seconds"."""

    title: str
    phrase: str
    objective: str
    unit: str


MEASURES = {  # by field of Marks, in the order of the columns
    "mlm_accuracy": Measure("Asked words right", "asked words right", "mlm", "fraction"),
    "masked_accuracy": Measure("At [MASK]", "right at [MASK]", "mlm", "fraction"),
    "replaced_accuracy": Measure("Replaced", "right where another word is shown", "mlm", "fraction"),
    "kept_accuracy": Measure("Left unchanged", "right at words left unchanged", "mlm", "fraction"),
    "mlm_loss": Measure("MLM loss", "MLM loss", "mlm", "nats"),
    "nsp_accuracy": Measure("Pairs right", "pairs right", "nsp", "fraction"),
    "nsp_loss": Measure("NSP loss", "NSP loss", "nsp", "nats"),
    "seconds": Measure("Training", "training time", "", "seconds"),
}
_FORMATS = {"fraction": (100, 0, "%"), "nats": (1, 2, ""), "seconds": (1, 1, " s")}  # factor, digits, unit


@dataclass(frozen=True)
class Variant:
    """One side of an experiment; settings as `Recipe.override` takes them."""

    title: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Contrast:
    """A comparison of another variant with the first one.

    measure: a key of MEASURES. other: index of the other variant. higher, alike, lower: the conclusion if the other's
    number is higher, about the same, or lower.
    """

    measure: str
    other: int
    higher: str
    alike: str
    lower: str


@dataclass(frozen=True)
class Experiment:
    """A question that a few runs with the same recipe and seed answer, which differ in one thing."""

    name: str
    title: str
    question: str
    variants: tuple[Variant, ...]
    contrasts: tuple[Contrast, ...]


@functools.cache
def load_experiments() -> tuple[Experiment, ...]:
    """The experiments of the program, in the order of their file names; a name is what follows the "-" there."""
    found = []
    for path in sorted((ASSETS / "experiments").glob("*.json")):
        content = read_json_file(path, "experiment")
        content["variants"] = tuple(Variant(**each) for each in content["variants"])
        content["contrasts"] = tuple(Contrast(**each) for each in content["contrasts"])
        found.append(Experiment(path.stem.partition("-")[2], **content))
    return tuple(found)


@dataclass(frozen=True)
class Marks:
    """How a trained model answers the questions that all variants of an experiment get, with dropout off.

    Losses are in nats, accuracies from 0 to 1. masked_accuracy, replaced_accuracy, kept_accuracy: as in `StepMetrics`.
    seconds: training time.
    """

    mlm_loss: float
    nsp_loss: float
    mlm_accuracy: float
    nsp_accuracy: float
    masked_accuracy: float
    replaced_accuracy: float
    kept_accuracy: float
    seconds: float


@torch.no_grad()
def examine(checkpoint: Checkpoint, text: Corpus, data: DataConfig, seconds: float = math.nan) -> Marks:
    """Test a model on PAIRS pairs of a text, drawn and masked according to `data`; the same ones at every call."""
    encoded = encode_corpus(text.excerpt(MAX_SENTENCES), checkpoint.tokenizer)
    batches = PretrainingBatches(encoded, checkpoint.tokenizer, data, seed=0)
    mask, count = checkpoint.tokenizer.token_to_id(MASK), max(1, PAIRS // data.batch_size)
    sums = torch.zeros(3, dtype=torch.float64)
    right, asked = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for k in range(count):
        batch = DeviceBatch.of(batches[k], checkpoint.model.device)
        with suitable_threads(checkpoint, batches[k].input_ids.numel()):
            mlm_loss, nsp_loss, _, nsp_accuracy, hits = pretraining_losses(checkpoint.model, batch)
        kinds = kinds_asked(batch.shown, batch.labels, mask)
        right += (kinds @ hits).cpu()
        asked += kinds.sum(1).cpu()
        sums += torch.stack([mlm_loss.cpu() * len(hits), nsp_loss.cpu(), nsp_accuracy.cpu()])
    words = float(asked.sum())
    masked, replaced, kept = (right / asked).tolist()  # nan where no word is of that kind
    mlm, nsp, pairs = sums.tolist()
    accuracy = float(right.sum()) / words
    return Marks(mlm / words, nsp / count, accuracy, pairs / count, masked, replaced, kept, seconds)


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


def spread(marks: Sequence[Marks], measure: str) -> Spread:
    """One measure of several runs."""
    return Spread(tuple(getattr(each, measure) for each in marks))


def compared(first: Spread, other: Spread, measure: str) -> str:
    """Whether the other numbers are "higher" than the first, "lower", "alike", or "unclear": their ranges overlap."""
    threshold = CLEAR_RATIO * first.mean if MEASURES[measure].unit == "seconds" else CLEAR_FRACTION
    if not abs(other.mean - first.mean) >= threshold:
        return "alike"
    if min(other.values) > max(first.values):
        return "higher"
    return "lower" if max(other.values) < min(first.values) else "unclear"


def answer(experiment: Experiment, marks: Sequence[Sequence[Marks]]) -> str:
    """One sentence that answers the experiment's question from the measured numbers.

    marks: for each variant those of its runs, one for each seed.
    """
    parts = [_conclusion(experiment, contrast, marks) for contrast in experiment.contrasts]
    whole = "; ".join(parts) + "."
    return f"With this one seed, {whole}" if len(marks[0]) == 1 else whole[0].upper() + whole[1:]


def _conclusion(experiment: Experiment, contrast: Contrast, marks: Sequence[Sequence[Marks]]) -> str:
    measure = contrast.measure
    first, other = (spread(marks[number], measure) for number in (0, contrast.other))
    outcome = compared(first, other, measure)
    conclusion = "the seeds do not settle it" if outcome == "unclear" else getattr(contrast, outcome)
    numbers = ", ".join(
        f"{experiment.variants[number].title} {format_number(values, measure)}"
        for number, values in ((0, first), (contrast.other, other))
    )
    return f"{conclusion} ({MEASURES[measure].phrase}: {numbers})"


def format_number(number: Spread, measure: str) -> str:
    """Mean and standard deviation as text: "97% ± 2", "0.41 ± 0.03", "1.2 s ± 0.1"."""
    if not math.isfinite(number.mean):
        return "–"
    factor, digits, unit = _FORMATS[MEASURES[measure].unit]
    deviation = f" ± {factor * number.deviation:.{digits}f}" if math.isfinite(number.deviation) else ""
    return f"{factor * number.mean:.{digits}f}{unit}{deviation}"
