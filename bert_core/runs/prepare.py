"""From a recipe and a text to a model and batches that are ready to train, and a preview of both."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from tokenizers import Tokenizer

from bert_core.config import LOCAL, BertConfig, Limits, fields_of
from bert_core.costs import check_size, choose_device, estimate_seconds, training_bytes
from bert_core.data.batches import PretrainingBatches, truncated_lengths
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus, notes_on_unknown
from bert_core.data.tokenizer import LEARNED_BYTES, MASK, notes_on_words, train_tokenizer
from bert_core.errors import ConfigError, CorpusError, checked_settings, quoted
from bert_core.model import BertForPreTraining
from bert_core.runs.recipe import GOING_ON_RATE, Recipe, recipe_corpus
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.tuning import PreparedTask
from bert_core.training.distributed import make_trainer
from bert_core.training.evaluation import EvaluationPoint, Evaluator
from bert_core.training.losses import Pretraining
from bert_core.training.trainer import Trainer

# Unless the recipe says otherwise, a tenth is held out of a text of at least this many documents or sentences.
HELD_OUT_SHARE = 0.1
MIN_DOCUMENTS = 8
MIN_SENTENCES = 200
MAX_PREVIEWED = 20_000  # sentences
SMALLER_STEP = "Choose a smaller model, shorter sequences or smaller batches."


@dataclass(frozen=True)
class PreparedText:
    """A text as a recipe trains on it.

    recipe: at scale, with its number of steps, vocabulary size, held-out fraction and seed. corpus: the whole text.
    training_text, held_out: its parts for training and for the validation curve. batches, validation, test: of the
    parts; None for a missing part. device: to train on. notes: what was changed in the text and in the settings, and
    what else is to be known, one sentence each.
    """

    recipe: Recipe
    corpus: Corpus
    training_text: Corpus
    held_out: Corpus | None
    tokenizer: Tokenizer
    batches: PretrainingBatches
    validation: PretrainingBatches | None
    test: PretrainingBatches | None
    device: str
    notes: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Of the whole text; see `Corpus.fingerprint`."""
        return self.corpus.fingerprint

    @property
    def config(self) -> BertConfig:
        """The sizes of the model."""
        return self.recipe.model

    @property
    def training_bytes(self) -> int:
        """Estimated bytes of training beside snapshots and text."""
        return _training_bytes(self.recipe)

    def seconds(self, steps: int, device: str) -> float:
        """Estimated training time of so many steps."""
        batch = self.batches[0]
        return estimate_seconds(steps, self.config, batch.attention_mask.sum(1), len(batch.asked()[0]), device)


@dataclass(frozen=True)
class Prepared(PreparedText):
    """A recipe ready to train: `Trainer(model, batches, recipe.training, seed=seed)` is the next line."""

    model: BertForPreTraining
    head: ClassVar = None  # of a task

    def load(self, checkpoint: Checkpoint) -> None:
        """Take the weights of a checkpoint of these sizes."""
        self.model.load_state_dict(checkpoint.model.state_dict())

    def evaluator(self, points: Sequence[EvaluationPoint] = ()) -> Evaluator | None:
        """An evaluator on the held-out part, which has these results so far; None where nothing is held out."""
        return Evaluator(self.validation, points) if self.validation else None

    def trainer(self, device: str | None = None) -> Trainer:
        """A trainer of this model; each of several processes makes its own. device: another one than it was prepared
        for."""
        device = device or self.device
        model, config = self.model.to(device), self.recipe.training
        objective = Pretraining(self.tokenizer.token_to_id(MASK))
        operations = objective.operations(model.config, self.batches[0])
        return make_trainer(
            *(model, self.batches, config),
            seed=self.recipe.seed,
            operations=operations,
            objective=objective,
        )


@checked_settings
def prepare(
    recipe: Recipe,
    corpus: Corpus | None = None,
    seed: int | None = None,
    device: str = "auto",
    *,
    start: Checkpoint | None = None,
    progress: Callable[[str], None] = lambda stage: None,
    admit: Callable[[PreparedText], None] = lambda text: None,
) -> Prepared:
    """Train the tokenizer, encode the text and draw the initial weights, without the global random generator.

    corpus, seed: None for the recipe's own. device: see `choose_device`. start: a model to go on from: its tokenizer,
    sizes and weights are taken instead, and the learning rate is that of `Recipe.going_on_from`. progress: called with
    the present stage, such as "encoding the text, 40 %". admit: called before the model is built. Raises BertCoreError
    for a text or sizes that cannot be used.
    """
    if recipe.start and start is None:
        raise ConfigError(
            f"This recipe goes on from the model {quoted(recipe.start)}, which is missing here. Train it on the "
            "command line, with --start and that model's folder."
        )
    device = choose_device(device)
    progress("reading the text")
    text = _prepare_text(recipe.with_seed(seed), corpus or recipe_corpus(recipe), device, start, progress)
    admit(text)
    progress("drawing the initial weights")
    model = BertForPreTraining(text.recipe.model, generator=torch.Generator().manual_seed(text.recipe.seed))
    prepared = Prepared(**fields_of(text), model=model)
    if start is not None:
        prepared.load(start)
    return prepared


def _prepare_text(
    recipe: Recipe,
    corpus: Corpus,
    device: str,
    start: Checkpoint | None = None,
    progress: Callable[[str], None] = lambda stage: None,
    times: float = 1.0,
) -> PreparedText:
    """times: how many times as long the text is for which this one stands."""
    if len(corpus.sentences) < 2 and recipe.training.nsp_weight:
        raise CorpusError("The text is a single sentence; next sentence prediction needs at least two, a line each.")
    recipe, used = recipe.at_scale().for_text(corpus), corpus.first(recipe.corpus.most_documents)
    if recipe.corpus.validation_share is None:
        if len(used.sentences) >= MIN_SENTENCES or len(used.documents) >= MIN_DOCUMENTS:
            held_out = recipe.override({"corpus.validation_share": HELD_OUT_SHARE})
            with contextlib.suppress(CorpusError):  # no pairs can be drawn from the part
                return _prepare_text(held_out, corpus, device, start, progress, times)
        recipe = recipe.override({"corpus.validation_share": 0.0})
    wanted = {"validation": recipe.corpus.validation_share, "test": recipe.corpus.test_share}
    shares = {part: share for part, share in wanted.items() if share}
    needs_pairs = recipe.training.nsp_weight > 0
    texts = dict(zip(("training", *shares), used.split(*shares.values(), needs_pairs=needs_pairs)))
    share = texts["training"].sampled_share(LEARNED_BYTES)
    part = f" on {share:.0%} of the text, evenly spread" if share < 1 else ""

    def learned(fraction: float) -> None:
        if fraction < 1:
            progress(f"training the tokenizer{part}, {fraction:.0%}")
        else:
            progress("making the vocabulary")

    if start is None:
        tokenizer = train_tokenizer(texts["training"], **fields_of(recipe.tokenizer), progress=learned)
        model = dataclasses.replace(recipe.model, vocab_size=tokenizer.get_vocab_size())
        recipe = dataclasses.replace(recipe, model=model)
    else:
        tokenizer, recipe = start.tokenizer, recipe.going_on_from(recipe.start or start.name, start.config)
    check_size(recipe.model, _training_bytes(recipe), device)

    def batches_of(part: Corpus) -> PretrainingBatches:
        encoded = encode_corpus(part, tokenizer, progress=lambda share: progress(f"encoding the text, {share:.0%}"))
        return PretrainingBatches(encoded, tokenizer, recipe.data, seed=recipe.seed, needs_pairs=needs_pairs)

    batches = {part: batches_of(texts[part]) for part in (*shares, "training")}  # the shorter parts may be refused
    if recipe.training.epochs is not None:
        steps = max(1, round(recipe.training.epochs * batches["training"].steps_per_epoch * times))
        # Of two alternating objectives, each sees every sentence once an epoch.
        steps *= 2 if recipe.training.alternating else 1
        recipe = recipe.override({"training.steps": steps, "training.parts": recipe.training.parts})
    remedy = "choose a model that knows the text, or random weights" if start else "make it larger"
    notes = corpus.notes + notes_on_unknown(batches["training"].encoded.unknown_share, texts["training"].name, remedy)
    if start is not None:
        notes += (
            f"Training goes on from {start.name} with a learning rate of {recipe.training.learning_rate:g}; with a "
            f"rate far above {GOING_ON_RATE:g} it forgets what it has learned.",
        )
    warmup, steps = recipe.training.warmup_steps, recipe.training.steps
    if warmup >= steps:
        notes += (f"A warm-up of {warmup:,} steps is too long for {steps:,}; it is shortened to {steps // 10:,}.",)
        recipe = recipe.override({"training.warmup_steps": steps // 10})
    if recipe.data.short_length:
        batches["training"].short_steps = round(recipe.data.short_share * recipe.training.steps)
    parts = batches["training"], batches.get("validation"), batches.get("test")
    return PreparedText(recipe, corpus, texts["training"], texts.get("validation"), tokenizer, *parts, device, notes)


def _training_bytes(recipe: Recipe) -> int:
    data = recipe.data
    asked = min(data.max_predictions, 1 + round(data.mask_probability * data.sequence_length))
    return training_bytes(recipe.model, data.batch_size, data.sequence_length, asked)


def check_limits(text: PreparedText | PreparedTask, limits: Limits, device: str) -> None:
    """Raise ConfigError when a run would exceed the limits of this place."""
    check_steps(text.recipe.training.total_steps, limits)
    if (parameters := text.config.parameter_count()) > limits.parameters:
        raise ConfigError(
            f"This model has {parameters / 1e6:.1f} million parameters; the limit here is {limits.parameters / 1e6:g} "
            "million. Choose fewer layers, a smaller hidden size or a smaller vocabulary."
        )
    seconds = text.seconds(1, device)
    if seconds > limits.step_seconds:
        raise ConfigError(
            f"A step would take about {seconds:.0f} s; the limit here is {limits.step_seconds:g} s. {SMALLER_STEP}"
        )


def check_steps(steps: int, limits: Limits) -> None:
    """Raise ConfigError when a run would have too many steps for this place."""
    if steps > limits.steps:
        raise ConfigError(f"This run would have {steps:,} steps; the limit here is {limits.steps:,}. Choose fewer.")


@dataclass(frozen=True)
class Preview:
    """What a text and a recipe give, before training.

    unknown_share: fraction of the words that are [UNK]. cut_share: fraction of the tokens of neighbouring sentences
    that do not fit into sequence_length; 0 for packed segments. seconds: estimated training time. held_out_documents,
    held_out_sentences: for the validation curve; with 0, the text can only be memorised.
    """

    documents: int
    sentences: int
    tokens: int
    vocabulary: int
    unknown_share: float
    cut_share: float
    parameters: int
    seconds: float
    held_out_documents: int
    held_out_sentences: int
    warnings: tuple[str, ...]


@checked_settings
def preview(recipe: Recipe, corpus: Corpus, device: str = "cpu", limits: Limits = LOCAL) -> Preview:
    """Prepare a text without a model and count; the first MAX_PREVIEWED sentences stand for a longer text.

    Raises BertCoreError when the text cannot be trained on, or the run would exceed the limits.
    """
    corpus = corpus.first(recipe.corpus.most_documents)
    part = corpus.excerpt(MAX_PREVIEWED)
    times = len(corpus.sentences) / len(part.sentences)
    text = _prepare_text(recipe, part, device, times=times)
    check_limits(text, limits, device)
    encoded, held_out = text.batches.encoded, text.held_out
    first = np.flatnonzero(encoded.has_next if recipe.data.segments == "sentences" else [])
    a, b = encoded.lengths_of(first), encoded.lengths_of(first + 1)
    kept = sum(side.sum() for side in truncated_lengths(a, b, text.recipe.data.sequence_length - 3))
    warnings = [*text.notes, *notes_on_words(part.sentences, recipe.tokenizer.kind)]
    if times > 1:
        warnings.append(
            f"Estimated from the first {len(part.sentences):,} of {len(corpus.sentences):,} sentences; the vocabulary "
            "of the whole text may be larger."
        )
    return Preview(
        documents=len(corpus.documents),
        sentences=round(len(encoded) * times),
        tokens=round(len(encoded.ids) * times),
        vocabulary=text.config.vocab_size,
        unknown_share=encoded.unknown_share,
        cut_share=1 - float(kept) / float((a + b).sum()) if len(first) else 0.0,
        parameters=text.config.parameter_count(),
        seconds=text.seconds(text.recipe.training.total_steps, device),
        held_out_documents=round(len(held_out.documents) * times) if held_out else 0,
        held_out_sentences=round(len(held_out.sentences) * times) if held_out else 0,
        warnings=tuple(warnings),
    )
