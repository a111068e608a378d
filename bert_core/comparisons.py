"""Runs side by side: in which settings they differ, how each answers the same questions, and what follows from that."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bert_core.checkpoint import Checkpoint
from bert_core.config import DataConfig
from bert_core.corpus import Corpus
from bert_core.encoded import encode_corpus
from bert_core.losses import PlacedBatch, kinds_asked, pretraining_losses
from bert_core.pretraining_data import PretrainingBatches
from bert_core.recipes import Contrast, Experiment, Recipe, stated
from bert_core.snapshots import Snapshot
from bert_core.tokenization import MASK

PAIRS = 512  # that each model is asked about
MOST_SENTENCES = 2000  # of the text, from its start
MEASURES = {  # fields of Marks as a table names them
    "mlm_accuracy": "Words right",
    "masked_accuracy": "At [MASK]",
    "replaced_accuracy": "Replaced",
    "kept_accuracy": "Shown as they are",
    "mlm_loss": "MLM loss",
    "nsp_accuracy": "Pairs right",
    "nsp_loss": "NSP loss",
    "seconds": "Training",
}
CLEAR_SHARE = 0.02  # a smaller difference between two shares is none
CLEAR_RATIO = 0.1  # nor is a smaller one between two times


def settings_of(recipe: Recipe, seed: int, corpus: Corpus) -> dict[str, Any]:
    """All that decides a run by name, as "training.learning_rate"; the text by its fingerprint. The recipe is a
    prepared one."""
    content = stated(recipe, seed)
    flat = {"recipe": content.pop("title"), "text": corpus.fingerprint, "seed": content.pop("seed")}
    del content["description"], content["scale"]
    return flat | {f"{section}.{name}": value for section, values in content.items() for name, value in values.items()}


def differences(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Of several runs' settings those that are not the same in all, with the value of each run."""
    columns = {name: [each[name] for each in settings] for name in settings[0]}
    return {name: values for name, values in columns.items() if any(value != values[0] for value in values)}


def begin_alike(runs: Sequence[Sequence[Snapshot]]) -> bool | None:
    """Whether these runs, each given by its snapshots, began with the same weights bit for bit; None where the
    beginning of one is not kept."""
    first = [snapshots[0] if snapshots and snapshots[0].step == 0 else None for snapshots in runs]
    if None in first:
        return None
    return all(each.layout == first[0].layout and torch.equal(each.weights, first[0].weights) for each in first[1:])


@dataclass(frozen=True)
class Marks:
    """How a trained model answers the questions that all sides of an experiment get, and how long it was trained.

    Losses in nats and shares right, dropout off. masked_accuracy, replaced_accuracy, kept_accuracy: of the asked words
    that are shown as [MASK], as another word, and as they are; nan where there are none. seconds: of training.
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
    """Ask a model about 512 pairs of a text, drawn and masked as `data` says; the same ones at every call."""
    encoded = encode_corpus(text.excerpt(MOST_SENTENCES), checkpoint.tokenizer)
    batches = PretrainingBatches(encoded, checkpoint.tokenizer, data, seed=0)
    mask, count = checkpoint.tokenizer.token_to_id(MASK), max(1, PAIRS // data.batch_size)
    sums = torch.zeros(4, dtype=torch.float64)  # losses and pairs right; the words right follow by kind
    right, asked = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for k in range(count):
        batch = PlacedBatch.of(batches[k], checkpoint.model.device)
        mlm_loss, nsp_loss, _, nsp_accuracy, hits = pretraining_losses(checkpoint.model, batch)
        kinds = kinds_asked(batch.shown, batch.truth, mask)
        right += (kinds @ hits).cpu()
        asked += kinds.sum(1).cpu()
        sums += torch.stack([mlm_loss.cpu() * len(hits), nsp_loss.cpu(), nsp_accuracy.cpu(), torch.tensor(1.0)])
    words = float(asked.sum())
    by_kind = (right / asked).tolist()  # nan where nothing was asked
    return Marks(
        mlm_loss=float(sums[0]) / words,
        nsp_loss=float(sums[1]) / count,
        mlm_accuracy=float(right.sum()) / words,
        nsp_accuracy=float(sums[2]) / count,
        masked_accuracy=by_kind[0],
        replaced_accuracy=by_kind[1],
        kept_accuracy=by_kind[2],
        seconds=seconds,
    )


@dataclass(frozen=True)
class Spread:
    """A number of runs that differ in the seed alone: their mean and standard deviation (nan for a single run)."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        return statistics.stdev(self.values) if len(self.values) > 1 else math.nan


def spread(marks: Sequence[Marks], measure: str) -> Spread:
    """One number of several runs."""
    return Spread(tuple(getattr(each, measure) for each in marks))


def compared(first: Spread, other: Spread, measure: str) -> str:
    """How the other's numbers stand to the first's: "higher", "lower", "alike", or "unclear" where the seeds of one
    side differ more than the two sides do: not each seed of one is above each of the other."""
    scale = CLEAR_RATIO * first.mean if measure == "seconds" else CLEAR_SHARE
    if not abs(other.mean - first.mean) >= scale:
        return "alike"
    if min(other.values) > max(first.values):
        return "higher"
    return "lower" if max(other.values) < min(first.values) else "unclear"


_WHAT = {
    "mlm_accuracy": "hidden words right",
    "nsp_accuracy": "pairs right",
    "masked_accuracy": "right at [MASK]",
    "kept_accuracy": "right at words that are shown as they are",
    "seconds": "time of training",
}


def answer(experiment: Experiment, marks: Sequence[Sequence[Marks]]) -> str:
    """One sentence that answers the experiment's question from what was measured.

    marks: for each variant those of its runs, one for each seed.
    """
    parts = [_part(experiment, contrast, marks) for contrast in experiment.contrasts]
    whole = "; ".join(parts) + "."
    return f"With this one seed, {whole}" if len(marks[0]) == 1 else whole[0].upper() + whole[1:]


def _part(experiment: Experiment, contrast: Contrast, marks: Sequence[Sequence[Marks]]) -> str:
    first, other = (spread(marks[number], contrast.measure) for number in (0, contrast.other))
    outcome = compared(first, other, contrast.measure)
    said = "the seeds do not settle it" if outcome == "unclear" else getattr(contrast, outcome)
    titles = (experiment.variants[number].title for number in (0, contrast.other))
    numbers = ", ".join(
        f"{title} {said_number(each, contrast.measure)}" for title, each in zip(titles, (first, other), strict=True)
    )
    return f"{said} ({_WHAT[contrast.measure]}: {numbers})"


def said_number(number: Spread, measure: str) -> str:
    """A mean with its spread for people: "97 % ± 2", "0.41 ± 0.03", "1.2 s ± 0.1"."""
    mean, deviation = number.mean, number.deviation
    if not math.isfinite(mean):
        return "–"
    if measure.endswith("accuracy"):
        return f"{100 * mean:.0f} %" + (f" ± {100 * deviation:.0f}" if math.isfinite(deviation) else "")
    digits, unit = (1, " s") if measure == "seconds" else (2, "")
    return f"{mean:.{digits}f}{unit}" + (f" ± {deviation:.{digits}f}" if math.isfinite(deviation) else "")
