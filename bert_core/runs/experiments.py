"""Runs side by side: in which settings they differ, how each answers the same questions, and what follows from that."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bert_core.config import DataConfig
from bert_core.data.batches import PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.data.tokenizer import MASK
from bert_core.runs.recipe import Recipe, stated
from bert_core.runs.snapshots import Snapshot
from bert_core.storage.checkpoint import Checkpoint
from bert_core.training.losses import PlacedBatch, kinds_asked, pretraining_losses


@dataclass(frozen=True)
class Variant:
    """One side of an experiment; settings as `Recipe.override` takes them."""

    title: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Contrast:
    """What a measured number says about a question: that of another variant against that of the first.

    measure: a field of `comparisons.Marks`. other: number of the variant. higher, alike, lower: what it means when the
    other's number is higher, about the same, or lower.
    """

    measure: str
    other: int
    higher: str
    alike: str
    lower: str


@dataclass(frozen=True)
class Experiment:
    """A question that a few runs answer: the same recipe and seed, and one thing that differs."""

    name: str
    title: str
    question: str
    variants: tuple[Variant, ...]
    contrasts: tuple[Contrast, ...]


_ALL_ASKED = {"data.min_predictions": 1, "data.max_predictions": 512}  # so that the shares are what they say
EXPERIMENTS = (
    Experiment(
        "objectives",
        "Masked words, next sentence, or both",
        "Does either task help the other, or do they compete for the same weights?",
        (
            Variant("Both", {"training.mlm_weight": 1, "training.nsp_weight": 1}),
            Variant("Masked words only", {"training.mlm_weight": 1, "training.nsp_weight": 0}),
            Variant("Next sentence only", {"training.mlm_weight": 0, "training.nsp_weight": 1}),
        ),
        (
            Contrast(
                "mlm_accuracy",
                1,
                "learning to judge pairs as well costs something with the words",
                "the words are learned as well with next sentence as without",
                "next sentence helps with the words",
            ),
            Contrast(
                "nsp_accuracy",
                2,
                "learning words as well costs something with the pairs",
                "the pairs are judged as well with masked words as without",
                "masked words help with the pairs",
            ),
        ),
    ),
    Experiment(
        "mask-share",
        "15 % or 40 % of the words hidden",
        "Is it better to ask for more words in each step, when fewer are left to guess them from?",
        (
            Variant("15 %", {"data.mask_probability": 0.15, **_ALL_ASKED}),
            Variant("40 %", {"data.mask_probability": 0.4, **_ALL_ASKED}),
        ),
        (
            Contrast(
                "mlm_accuracy",
                1,
                "asking for more words in each step is better here",
                "more words asked for and fewer left to guess from weigh each other up here",
                "asking for more words in each step is worse here",
            ),
        ),
    ),
    Experiment(
        "mask-kind",
        "80-10-10 or always [MASK]",
        "Why does BERT show some of the asked words unhidden or replaced, and what is lost without that?",
        (
            Variant("80-10-10", {"data.mask_share": 0.8, "data.random_share": 0.1}),
            Variant("Always [MASK]", {"data.mask_share": 1.0, "data.random_share": 0.0}),
        ),
        (
            Contrast(
                "kept_accuracy",
                1,
                "a model that was only ever asked at [MASK] knows the words that it sees even better",
                "a model that was only ever asked at [MASK] knows the words that it sees no worse here",
                "a model that was only ever asked at [MASK] says less of the words that it sees",
            ),
            Contrast(
                "masked_accuracy",
                1,
                "at [MASK] itself it is better",
                "at [MASK] itself it is about as good",
                "at [MASK] itself it is worse",
            ),
        ),
    ),
    Experiment(
        "positions",
        "With and without position embeddings",
        "What can a model learn that sees the words of a sentence as a bag, in no order?",
        (
            Variant("With positions", {"model.use_position_embeddings": True}),
            Variant("Without positions", {"model.use_position_embeddings": False}),
        ),
        (
            Contrast(
                "mlm_accuracy",
                1,
                "hidden words are guessed better from a bag of words",
                "hidden words are guessed as well from a bag of words",
                "hidden words are guessed worse from a bag of words",
            ),
            Contrast(
                "nsp_accuracy",
                1,
                "pairs are judged better without order",
                "pairs are judged as well without order",
                "pairs are judged worse without order",
            ),
        ),
    ),
    Experiment(
        "segments",
        "With and without segment embeddings",
        "Does a model need to be told which sentence a word is in, or is [SEP] enough?",
        (
            Variant("With segments", {"model.use_token_type_embeddings": True}),
            Variant("Without segments", {"model.use_token_type_embeddings": False}),
        ),
        (
            Contrast(
                "nsp_accuracy",
                1,
                "[SEP] alone is even better for judging pairs",
                "[SEP] is enough for judging pairs",
                "[SEP] alone is not enough for judging pairs as well",
            ),
        ),
    ),
    Experiment(
        "layers",
        "One layer or four",
        "What does depth bring on a text of this size, and what does it cost?",
        (Variant("1 layer", {"model.num_hidden_layers": 1}), Variant("4 layers", {"model.num_hidden_layers": 4})),
        (
            Contrast(
                "mlm_accuracy",
                1,
                "depth helps with hidden words",
                "depth brings nothing for hidden words",
                "depth harms here",
            ),
            Contrast("seconds", 1, "it costs time", "it costs next to no time", "it even saves time"),
        ),
    ),
)

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
