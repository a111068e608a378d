"""A recipe is data: text, tokenizer, sizes, masking and training as one JSON file, and what it builds.

The page, the command line and a downloaded checkpoint speak of the same recipes (`assets/recipes/*.json`).
"""

import dataclasses
import json
import os
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from bert_core.config import BertConfig, CorpusConfig, DataConfig, TokenizerConfig, TrainingConfig
from bert_core.corpus import Corpus, read_corpus
from bert_core.costs import check_size, estimate_seconds, is_worth_recording, step_operations, threads_for
from bert_core.distributed import make_trainer
from bert_core.encoded import encode_corpus
from bert_core.errors import ConfigError, CorpusError
from bert_core.model import BertForPreTraining
from bert_core.pretraining_data import PretrainingBatches, truncated_lengths
from bert_core.tokenization import LEARNED_BYTES, MASK, train_tokenizer
from bert_core.training import Trainer

ASSETS = Path(__file__).resolve().parent.parent / "assets"
MAX_SEED = 2**63 - 1

# Where a recipe does not say what is held out: a tenth of a text of so many documents, or of one long document.
HELD_OUT_SHARE = 0.1
FEWEST_DOCUMENTS = 8
FEWEST_SENTENCES = 200
MOST_PREVIEWED = 20_000  # sentences

_PAIRS_LOOKED_AT = 1_000_000


@dataclass(frozen=True)
class Recipe:
    """Everything that a training run needs but the seed. `name` is the file's name without .json.

    scale: one factor on layers, heads, widths, batch, steps and warm-up, so that a recipe for a room of machines can
    state its own numbers and still run on one; `at_scale()` applies it.
    """

    name: str
    title: str
    description: str
    scale: float = 1.0
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: BertConfig = field(default_factory=BertConfig)
    data: DataConfig = field(default_factory=DataConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        if not isinstance(self.scale, int | float) or not 0.001 <= self.scale <= 1:
            raise ConfigError(f"scale is {self.scale!r}; it must be a number from 0.001 to 1.")
        if self.data.sequence_length > self.model.max_position_embeddings:
            raise ConfigError(
                f"sequence_length {self.data.sequence_length} is more than the {self.model.max_position_embeddings} "
                "positions of the model; lower it or raise max_position_embeddings."
            )

    @property
    def text_kind(self) -> str:
        """How a text that a person gives is cut: as a recipe without a text of its own asks for, else by its looks."""
        return "auto" if self.corpus.file else self.corpus.kind

    def override(self, settings: dict[str, Any]) -> "Recipe":
        """A copy with settings such as {"training.steps": 400}; values may be strings, as on a command line.

        Whoever sets the steps wants so many, and neither the recipe's epochs nor its later parts any more. scale is
        set without a section. Raises ConfigError with the setting, the value and what is allowed.
        """
        if "training.steps" in settings:
            settings = {"training.epochs": None, "training.parts": (), **settings}
        sections: dict[str, dict[str, Any]] = {}
        scale = _parse(settings.get("scale", self.scale), float)
        for path, value in settings.items():
            if path == "scale":
                continue
            section, _, name = path.partition(".")
            sections.setdefault(section, {})[name] = value
        changed = {}
        for section, values in sections.items():
            if section not in _SECTIONS:
                raise ConfigError(
                    f"There is no setting {section}.{next(iter(values))}; sections are: {', '.join(_SECTIONS)}."
                )
            current = getattr(self, section)
            changed[section] = _build(_SECTIONS[section], {**_fields(current), **values}, section)
        return dataclasses.replace(self, scale=scale, **changed)

    def at_scale(self) -> "Recipe":
        """This recipe with its factor applied and set to 1. Heads keep their size: they shrink in number."""

        def scaled(number: int) -> int:
            return max(1, round(number * self.scale))

        heads = scaled(self.model.num_attention_heads)
        model = dataclasses.replace(
            self.model,
            num_hidden_layers=scaled(self.model.num_hidden_layers),
            num_attention_heads=heads,
            hidden_size=heads * (self.model.hidden_size // self.model.num_attention_heads),
            intermediate_size=max(2, scaled(self.model.intermediate_size)),
        )
        training = dataclasses.replace(
            self.training,
            steps=scaled(self.training.steps),
            warmup_steps=round(self.training.warmup_steps * self.scale),
            parts=tuple(
                dataclasses.replace(
                    part,
                    start=round(part.start * self.scale),
                    steps=scaled(part.steps),
                    warmup_steps=round(part.warmup_steps * self.scale),
                )
                for part in self.training.parts
            ),
        )
        data = dataclasses.replace(self.data, batch_size=scaled(self.data.batch_size))
        return dataclasses.replace(self, scale=1.0, model=model, data=data, training=training)

    @classmethod
    def from_dict(cls, name: str, content: Any) -> "Recipe":
        """Check and build a recipe from JSON content; ConfigError names what is wrong."""
        if not isinstance(content, dict) or not all(
            isinstance(content.get(key), str) for key in ("title", "description")
        ):
            raise ConfigError(f"The recipe {name} needs a title and a description.")
        unknown = set(content) - {"title", "description", "scale", "seed", *_SECTIONS}
        if unknown:
            raise ConfigError(
                f"The recipe {name} has an unknown part {min(unknown)!r}; parts are: {', '.join(_SECTIONS)}."
            )
        sections = {key: _build(kind, content[key], key) for key, kind in _SECTIONS.items() if key in content}
        return cls(name, content["title"], content["description"], content.get("scale", 1.0), **sections)


_SECTIONS = {
    "corpus": CorpusConfig,
    "tokenizer": TokenizerConfig,
    "model": BertConfig,
    "data": DataConfig,
    "training": TrainingConfig,
}


def _fields(config: Any) -> dict[str, Any]:
    return {item.name: getattr(config, item.name) for item in dataclasses.fields(config)}


def _build(kind: type, values: Any, section: str) -> Any:
    if not isinstance(values, dict):
        raise ConfigError(f"The part {section!r} of a recipe must map settings to values.")
    known = {item.name: item for item in dataclasses.fields(kind)}
    for name in values:
        if name not in known:
            raise ConfigError(f"There is no setting {section}.{name}; there are: {', '.join(known)}.")
    return kind(**{name: _parse(value, known[name].type) for name, value in values.items()})


def _parse(value: Any, kind: Any) -> Any:
    """A string as the number or None that its field wants; what can't be parsed is left for the field's own check."""
    if not isinstance(value, str):
        return value
    kinds = kind.__args__ if isinstance(kind, types.UnionType) else (kind,)
    if type(None) in kinds and value.strip().lower() in ("", "none", "null"):
        return None
    if bool in kinds:
        return {"true": True, "false": False}.get(value.strip().lower(), value)
    for wanted in (int, float):
        if wanted in kinds:
            try:
                number = float(value)
                return int(number) if wanted is int and number.is_integer() else number
            except (ValueError, OverflowError):
                return value
    return value


def stated(recipe: Recipe, seed: int) -> dict[str, Any]:
    """Recipe and seed as the JSON content that is saved beside a model; `Recipe.from_dict` reads it again."""
    content = dataclasses.asdict(recipe)
    del content["name"], content["model"]["vocab_size"]  # the file's name, and what follows from the text
    return {**content, "seed": seed}


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


def recipe_names() -> list[str]:
    """Names of the recipes that come with the app, the default first."""
    names = sorted(path.stem for path in (ASSETS / "recipes").glob("*.json"))
    return sorted(names, key=lambda name: name != "romeo-juliet")


def load_recipe(name_or_path: str | os.PathLike) -> Recipe:
    """A recipe by its name, or from a JSON file. Raises ConfigError when there is none or it cannot be used."""
    if name_or_path in recipe_names():
        path = ASSETS / "recipes" / f"{name_or_path}.json"
    elif str(name_or_path).endswith(".json"):
        path = Path(name_or_path)
    else:
        raise ConfigError(f"There is no recipe {str(name_or_path)!r}; there are: {', '.join(recipe_names())}.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"The recipe file {path.name} cannot be read ({type(error).__name__}).") from None
    return Recipe.from_dict(path.stem, content)


def recipe_corpus(recipe: Recipe) -> Corpus:
    """The recipe's own text. Raises CorpusError where none is shipped."""
    if recipe.corpus.file is None:
        raise CorpusError(f"{recipe.title} comes without a text; give it {recipe.corpus.needs}.")
    return read_corpus(ASSETS / "corpora" / Path(recipe.corpus.file).name, kind=recipe.corpus.kind)


@dataclass(frozen=True)
class Prepared:
    """A recipe made ready to train: `Trainer(model, batches, recipe.training, seed=seed)` is the next line.

    recipe: at scale, with its number of steps and the share that is held out. training_text, held_out: the part of
    the corpus that is learned from and the part for the validation curve, None where there is nothing to hold out.
    validation, test: batches of the parts that were held out, if any.
    """

    recipe: Recipe
    corpus: Corpus
    training_text: Corpus
    held_out: Corpus | None
    tokenizer: Tokenizer
    model: BertForPreTraining
    batches: PretrainingBatches
    seed: int
    validation: PretrainingBatches | None = None
    test: PretrainingBatches | None = None

    def trainer(self, device: str = "cpu") -> Trainer:
        """A trainer of this model on a device; of several processes, each makes its own."""
        model, config = self.model.to(device), self.recipe.training
        operations = step_operations(self.recipe.data, model.config, _mean_pair_tokens(self.batches))
        return make_trainer(
            *(model, self.batches, config),
            seed=self.seed,
            threads=threads_for(operations),
            recorded=is_worth_recording(operations, config, device),
            mask_token_id=self.tokenizer.token_to_id(MASK),
        )


def prepare(
    recipe: Recipe,
    corpus: Corpus | None = None,
    seed: int = 0,
    device: str = "cpu",
    *,
    progress: Callable[[str], None] = lambda stage: None,
) -> Prepared:
    """Train the tokenizer, encode the text and draw the initial weights; nothing is taken from the global generator.

    corpus: None takes the recipe's own. progress: called with what is being done, as "encoding the text, 40 %".
    Raises BertCoreError when the text or the sizes cannot be used here.
    """
    check_seed(seed)
    progress("reading the text")
    corpus = corpus or recipe_corpus(recipe)
    data = _prepare_data(recipe, corpus, seed, device, progress)
    progress("drawing the initial weights")
    model = BertForPreTraining(data.recipe.model, generator=torch.Generator().manual_seed(seed))
    return Prepared(
        recipe=data.recipe,
        corpus=corpus,
        training_text=data.texts["training"],
        held_out=data.texts.get("validation"),
        tokenizer=data.tokenizer,
        model=model,
        batches=data.batches["training"],
        seed=seed,
        validation=data.batches.get("validation"),
        test=data.batches.get("test"),
    )


@dataclass(frozen=True)
class _Data:
    """The recipe at scale with its steps, shares and vocabulary size; texts and batches by part: training,
    validation, test."""

    recipe: Recipe
    tokenizer: Tokenizer
    texts: dict[str, Corpus]
    batches: dict[str, PretrainingBatches]


def _prepare_data(
    recipe: Recipe, corpus: Corpus, seed: int, device: str, progress: Callable[[str], None] = lambda stage: None
) -> _Data:
    if len(corpus.sentences) < 2:
        raise CorpusError("The text is a single sentence; next sentence prediction needs at least two, a line each.")
    recipe, corpus = recipe.at_scale(), corpus.first(recipe.corpus.most_documents)
    if recipe.corpus.validation_share is None:
        share = HELD_OUT_SHARE if _is_worth_splitting(corpus) else 0.0
        try:
            return _prepare_data(_holding_out(recipe, share), corpus, seed, device, progress)
        except CorpusError:
            if not share:
                raise
            # Too little to split, as where the last documents are one sentence each: all of it is learned from.
            return _prepare_data(_holding_out(recipe, 0.0), corpus, seed, device, progress)
    shares = {"validation": recipe.corpus.validation_share, "test": recipe.corpus.test_share}
    shares = {part: share for part, share in shares.items() if share}
    texts = dict(zip(("training", *shares), corpus.split(*shares.values())))
    share = texts["training"].sampled_share(LEARNED_BYTES)
    progress("training the tokenizer" + (f" on {share:.0%} of the text, evenly spread" if share < 1 else ""))
    tokenizer = train_tokenizer(texts["training"], **_fields(recipe.tokenizer))
    recipe = dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, vocab_size=tokenizer.get_vocab_size()))
    check_size(recipe.model, recipe.data, device)

    def batches_of(part: Corpus) -> PretrainingBatches:
        encoded = encode_corpus(part, tokenizer, progress=lambda share: progress(f"encoding the text, {share:.0%}"))
        return PretrainingBatches(encoded, tokenizer, recipe.data, seed=seed)

    batches = {part: batches_of(text) for part, text in texts.items()}
    if recipe.training.epochs is not None:
        steps = max(1, round(recipe.training.epochs * batches["training"].steps_per_epoch))
        # Both objectives of a turn see the same number of sentences.
        steps *= 2 if recipe.training.turns else 1
        recipe = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, steps=steps, epochs=None))
    if recipe.data.short_length:
        batches["training"].short_steps = round(recipe.data.short_share * recipe.training.steps)
    return _Data(recipe, tokenizer, texts, batches)


def _is_worth_splitting(corpus: Corpus) -> bool:
    """Whether a part can be held out without being missed; a single document is cut between its sentences."""
    if len(corpus.documents) == 1:
        return len(corpus.sentences) >= FEWEST_SENTENCES
    return len(corpus.documents) >= FEWEST_DOCUMENTS


def _holding_out(recipe: Recipe, share: float) -> Recipe:
    return dataclasses.replace(recipe, corpus=dataclasses.replace(recipe.corpus, validation_share=share))


def check_seed(seed: int) -> None:
    """Raise ConfigError unless the seed is a whole number from 0 to 2**63 - 1."""
    if type(seed) is not int or not 0 <= seed <= MAX_SEED:
        raise ConfigError(f"The seed is {seed!r}; it must be a whole number from 0 to {MAX_SEED}.")


@dataclass(frozen=True)
class Preview:
    """What a text and a recipe give before training. cut_share: share of the tokens of neighbouring sentences that
    do not fit into sequence_length. seconds: a rough estimate of the training time on the device. held_out_documents,
    held_out_sentences: how much of the text is for the validation curve and not learned from, 0 where there is
    nothing to hold out: such a text can only be memorised.
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


def preview(recipe: Recipe, corpus: Corpus, device: str = "cpu") -> Preview:
    """Read the text as training would and say what it gives. Raises BertCoreError when it cannot be trained on.

    Of a text of more than MOST_PREVIEWED sentences that many are read, so that the answer comes soon.
    """
    corpus = corpus.first(recipe.corpus.most_documents)
    part = corpus.excerpt(MOST_PREVIEWED)
    data = _prepare_data(recipe, part, 0, device)
    times = len(corpus.sentences) / len(part.sentences)
    batches, held_out, config = data.batches["training"], data.texts.get("validation"), data.recipe.model
    encoded, training = batches.encoded, data.recipe.training
    first = np.flatnonzero(encoded.has_next)
    a, b = encoded.lengths_of(first), encoded.lengths_of(first + 1)
    kept = sum(side.sum() for side in truncated_lengths(a, b, data.recipe.data.sequence_length - 3))
    warnings = list(corpus.notes)
    if encoded.unknown_share > 0.1:
        warnings.append(f"{encoded.unknown_share:.0%} of the words are unknown to this vocabulary; make it larger.")
    if times > 1:
        warnings.append(
            f"Estimated from the first {len(part.sentences):,} of {len(corpus.sentences):,} sentences; the vocabulary "
            "of the whole text may be larger."
        )
    steps = training.total_steps * (times if recipe.training.epochs is not None else 1)
    return Preview(
        documents=len(corpus.documents),
        sentences=round(len(encoded) * times),
        tokens=round(len(encoded.ids) * times),
        vocabulary=config.vocab_size,
        unknown_share=encoded.unknown_share,
        cut_share=1 - float(kept) / float((a + b).sum()),
        parameters=config.parameter_count(),
        seconds=estimate_seconds(round(steps), data.recipe.data, config, _mean_pair_tokens(batches), device),
        held_out_documents=round(len(held_out.documents) * times) if held_out else 0,
        held_out_sentences=round(len(held_out.sentences) * times) if held_out else 0,
        warnings=tuple(warnings),
    )


def _mean_pair_tokens(batches: PretrainingBatches) -> float:
    """Mean tokens of a pair of neighbouring sentences as the model sees it, special tokens included; of many pairs,
    the first ones speak for all."""
    encoded = batches.encoded
    first = np.flatnonzero(encoded.has_next)[:_PAIRS_LOOKED_AT]
    pairs = encoded.lengths_of(first) + encoded.lengths_of(first + 1) + 3
    return float(pairs.clip(max=batches.config.sequence_length).mean())
