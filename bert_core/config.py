"""Settings: frozen models that check themselves once; and `Limits`, what a visitor may ask for, by place.

A field declares all that is known of a setting: its limits or choices, a hint of one line below it, and a title where
its name in words is none. Checks, JSON, the command line's `--set` and the page's controls read it."""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from bert_core.errors import ConfigError, quoted

VERSION = "1.0.0"

_PACKAGE = Path(__file__).resolve().parent
# Assets and checkpoints are in the installed package, or in the repository beside it.
HOME = _PACKAGE if (_PACKAGE / "assets").is_dir() else _PACKAGE.parent
ASSETS, CHECKPOINTS = HOME / "assets", HOME / "checkpoints"
PAGE = _PACKAGE.parent / "balcony"  # the page's package, whose scripts draw saved views, too
MAX_SEED = 2**63 - 1


@dataclass(frozen=True)
class Limits:
    """What one visitor may ask of a machine. LOCAL: of one's own. PUBLIC: of a page open to strangers."""

    upload_bytes: int  # of an uploaded file
    items: int  # lines and sentence marks of a text, lines of a task, or values in JSON, in a file of others
    tokens: int  # of a tokenizer to open
    parameters: int  # of a model to train or to open
    step_seconds: float  # estimated, of a training step
    steps: int  # of a run
    program_runs: int  # of the programs of one address, that have not ended; a visitor of the page has one
    probe_seconds: float  # estimated, of a question to a model
    memory_bytes: float  # of all visitors' models and runs; above it, the least useful is freed


LOCAL = Limits(2**30, 5_000_000, 1_000_000, 500_000_000, 600.0, 100_000_000, 64, 120.0, math.inf)
PUBLIC = Limits(5 * 2**20, 250_000, 32_768, 50_000_000, 2.0, 20_000, 4, 10.0, 2.5 * 2**30)


class Settings(BaseModel):
    """Base of all settings and recipes: what is made is valid, with values of the fields' own types (no "48" for 48).

    Raises ConfigError for a value that a field does not allow, and for a name that is no field."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(_refusal(error.errors(include_url=False)[0], type(self).model_fields)) from None

    def replace(self, **values: Any) -> Self:
        """A copy with other values, which are checked as all are."""
        return type(self)(**vars(self) | values)

    def replace_by_texts(self, values: Mapping[str, object]) -> Self:
        """As `replace`, where texts stand for values: of `--set` and of the fields of a page."""
        fields, found = type(self).model_fields, dict(values)
        for name, value in values.items():
            if isinstance(value, str) and name in fields:
                found[name] = _meant(value, fields[name])
        return self.replace(**found)

    def content(self) -> dict[str, Any]:
        """The settings as JSON content."""
        return self.model_dump(mode="json")


def _kinds(field: FieldInfo) -> tuple[Any, ...]:
    """The types that a field allows, or the texts to choose from."""
    return get_args(field.annotation) or (field.annotation,)


def choices(field: FieldInfo) -> tuple[Any, ...]:
    """The values of a field that has few of them, else ()."""
    kinds = _kinds(field)
    if bool in kinds:
        return (False, True, None) if NoneType in kinds else (False, True)
    return kinds if get_origin(field.annotation) is Literal else ()


def limits_of(field: FieldInfo) -> tuple[float, float] | None:
    """The lowest and the highest value of a number, else None."""
    found = {end: getattr(each, end) for each in field.metadata for end in ("ge", "le") if hasattr(each, end)}
    return (found["ge"], found["le"]) if found else None


def _refusal(found: Mapping[str, Any], fields: Mapping[str, FieldInfo]) -> str:
    name = str(found["loc"][0] if found["loc"] else found["input"])  # a name that is no Unicode has no "loc"
    if found["type"] == "missing":
        return f"These settings are needed: {', '.join(each for each in fields if fields[each].is_required())}."
    if name not in fields:
        return f"There is no setting {quoted(name)}; there are: {', '.join(fields)}."
    field, given = fields[name], f"{name} is {quoted(found['input'])}; it"
    if few := choices(field):
        return f"{given} can be one of: {', '.join(map(str, few))}."
    if limits := limits_of(field):
        return f"{given} must be a {'whole ' * (int in _kinds(field))}number from {limits[0]:,} to {limits[1]:,}."
    if get_origin(field.annotation) is tuple:
        return f"{given} must be a list."
    return f"{given} must be a text." if str in _kinds(field) else f"{given} must map names to values."


def _meant(text: str, field: FieldInfo) -> object:
    """The value that a typed text means for a field; one that means none is returned, and the field refuses it."""
    kinds, plain = _kinds(field), text.strip().lower()
    if NoneType in kinds and plain in ("", "none", "null"):
        return None
    if any(str in (each, type(each)) for each in kinds):
        return text
    if not plain and get_origin(field.annotation) is tuple:
        return ()
    for read in (json.loads, float):
        with suppress(ValueError, RecursionError):
            value = read(plain)
            return int(value) if type(value) is float and value.is_integer() else value
    return text


Dropout = Annotated[float, Field(ge=0, le=0.9)]
Share = Annotated[float, Field(ge=0, le=1)]
Tokens = Annotated[int, Field(ge=1, le=8192)]
Rate = Annotated[float, Field(ge=1e-8, le=1)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]
Steps = Annotated[int, Field(ge=0, le=100_000_000)]
BatchSize = Annotated[int, Field(ge=1, le=4096)]


class BertConfig(Settings):
    """Sizes of a BERT, under the field names of a Hugging Face config.json (Devlin et al. 2018, section 3). vocab_size
    and pad_token_id, the id of [PAD], are the tokenizer's."""

    vocab_size: int = Field(30522, ge=6, le=1_000_000)
    hidden_size: int = Field(64, ge=2, le=4096)
    """Length of the vector that represents a token."""
    num_hidden_layers: int = Field(2, ge=1, le=48, title="Layers")
    """Transformer layers, one after the other."""
    num_attention_heads: int = Field(4, ge=1, le=64, title="Heads per layer")
    """Each head compares words in its own way; the hidden size is divided among them."""
    intermediate_size: int = Field(256, ge=2, le=16384, title="Feed-forward size")
    """Width of the feed-forward block, usually 4 × hidden size."""
    hidden_act: Literal["gelu", "gelu_new", "relu", "tanh", "linear"] = "gelu"
    """Activation function of the feed-forward block. gelu_new: GPT's GELU, by tanh. linear: none."""
    hidden_dropout_prob: Dropout = 0.1
    """Fraction of vector entries set to zero in training."""
    attention_probs_dropout_prob: Dropout = 0.1
    """Fraction of attention weights set to zero in training."""
    classifier_dropout: float | None = Field(None, ge=0, le=0.9)
    """Dropout before the sentence-pair classifier. Empty: none."""
    max_position_embeddings: int = Field(128, ge=8, le=8192)
    """Longest input in tokens that the model can read."""
    type_vocab_size: int = Field(2, ge=2, le=16)
    """Number of segments: sentence A and sentence B."""
    use_position_embeddings: bool = True
    """Whether the model knows each token's position. If not, all position vectors stay 0."""
    use_token_type_embeddings: bool = True
    """Whether the model knows each token's sentence. If not, all segment vectors stay 0."""
    initializer_range: float = Field(0.02, ge=1e-6, le=1)
    """Standard deviation of the initial weights."""
    initial_positions: Literal["random", "sinusoidal"] = "random"
    """Initial position vectors: random, or the first Transformer's sine waves."""
    layer_norm_eps: float = Field(1e-12, ge=0, le=0.01)
    """Small number that keeps LayerNorm from dividing by zero."""
    pooler: Literal["first", "mean"] = "first"
    """What next sentence is read from: the vector at [CLS], or the mean of all tokens."""
    pad_token_id: int = Field(0, ge=0, le=1_000_000)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.hidden_size % (heads := self.num_attention_heads):
            raise ConfigError(f"hidden_size {self.hidden_size} must be a multiple of the number of heads, {heads}.")
        if self.pad_token_id >= self.vocab_size:
            raise ConfigError(f"pad_token_id {self.pad_token_id} is outside the vocabulary of {self.vocab_size}.")
        return self

    @property
    def in_words(self) -> str:
        """The layers and the hidden size, such as "2 layers of 48"."""
        return f"{self.num_hidden_layers} layer{'s' * (self.num_hidden_layers != 1)} of {self.hidden_size}"

    def parameter_count(self) -> int:
        """Number of parameters of a `BertForPreTraining` of these sizes, computed without allocating anything."""
        d, f, v = self.hidden_size, self.intermediate_size, self.vocab_size
        embeddings = (v + self.max_position_embeddings + self.type_vocab_size + 2) * d
        layer = 4 * (d * d + d) + (d * f + f) + (f * d + d) + 4 * d
        pooler = d * d + d
        heads = (d * d + d + 2 * d + v) + (2 * d + 2)
        return embeddings + self.num_hidden_layers * layer + pooler + heads


class TokenizerConfig(Settings):
    """How text becomes tokens."""

    kind: Literal["word", "whitespace", "wordpiece", "bpe"] = Field("word", title="Tokenizer")
    """One token per word (whitespace: marks belong to the words beside them), or frequent pieces of words."""
    vocab_size: int | None = Field(None, ge=6, le=200_000, title="Vocabulary size")
    """Vocabulary limit. Empty: all words, or 30,000 pieces."""
    min_frequency: int = Field(1, ge=1, le=1_000_000)
    """How often a word or piece must occur to be in the vocabulary."""
    lowercase: bool = True
    """Whether capital letters are read as small ones."""
    strip_accents: bool | None = False
    """Whether marks on letters are removed. None: if lowercase. Many scripts need them."""


class CorpusConfig(Settings):
    """Which text a recipe trains on, and how it is split (see `bert_core.data.corpus`)."""

    file: str | None = None  # in assets/corpora; None if the text is not shipped, and `needs` then describes it
    kind: Literal["auto", "lines", "documents", "wrapped", "wikitext", "pairs"] = Field("auto", title="Kind of text")
    """How the text is split into documents and sentences."""
    encoding: str | None = None  # of a file that is not UTF-8, see `bert_core.data.decoding`
    needs: str = "a text of your own"
    most_documents: int | None = Field(None, ge=1, le=100_000_000)
    """Read only this many documents or pairs from the start. Empty: all."""
    validation_share: float | None = Field(None, ge=0, le=0.5)
    """Fraction for the validation curve. Empty: a tenth of a longer text."""
    test_share: float = Field(0.0, ge=0, le=0.5)
    """Fraction at the end of the text, used only for the final test."""
    pair_label: str = "IsNext"
    """What a pair with the label 1 is called."""


def pair_names(label: str) -> tuple[str, str]:
    """What pairs with the label 1 are called, and the others: the classes 0 and 1 of next sentence prediction."""
    return label, "NotNext" if label == "IsNext" else f"not {label}"


CORPUS_KINDS = choices(CorpusConfig.model_fields["kind"])  # see `Corpus.from_text`


class DataConfig(Settings):
    """How sentence pairs and masks are drawn (Devlin et al. 2018, appendix A.1)."""

    sequence_length: int = Field(64, ge=8, le=8192, title="Longest pair in tokens")
    """Maximum number of tokens in a pair."""
    segments: Literal["sentences", "packed"] = "sentences"
    """sentences: one on each side of a pair. packed: as many consecutive sentences as fit."""
    long_pairs: Literal["crop", "drop"] = "crop"
    """crop: a longer pair loses tokens from its longer side. drop: it is not used."""
    negatives: Literal["random", "swapped"] = "random"
    """NotNext pairs. random: B is from elsewhere. swapped: two neighbours in the wrong order (ALBERT)."""
    short_length: int | None = Field(None, ge=8, le=8192)
    """Maximum number of tokens in a pair early in the run. Empty: as in the rest."""
    short_share: Share = 0.9
    """Fraction of the first part's steps that use the shorter pairs."""
    batch_size: BatchSize = 32
    """Sentence pairs per training step."""
    mask_probability: float = Field(0.15, ge=0.001, le=1, title="Fraction to predict")
    """Fraction of tokens to predict (BERT: 15%)."""
    min_predictions: Tokens = 1
    """Minimum number of tokens to predict in a pair."""
    max_predictions: Tokens = 20
    """Maximum number of tokens to predict in a pair."""
    mask_share: Share = 0.8
    """Fraction of the predicted tokens replaced by [MASK]."""
    draw: Literal["token", "batch"] = "token"
    """Choose between [MASK], random and unchanged for each token or for a whole batch."""
    random_share: Share = 0.1
    """Fraction of the predicted tokens replaced by a random word."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name, limit in (("min_predictions", "max_predictions"), ("short_length", "sequence_length")):
            value, most = getattr(self, name) or 0, getattr(self, limit)
            if value > most:
                raise ConfigError(f"{name} {value} is more than {limit} {most}; lower it.")
        if self.segments == "packed" and self.long_pairs == "drop":
            raise ConfigError("segments packed fills pairs to sequence_length, so long_pairs cannot be drop; use crop.")
        if self.mask_share + self.random_share > 1 + 1e-9:
            both = f"mask_share {self.mask_share:g} and random_share {self.random_share:g}"
            raise ConfigError(f"{both} are more than 1 together; lower one.")
        return self


class Schedule(Settings):
    """The learning rate from step to step: it grows from 0 to its peak, then falls or stays."""

    steps: int = Field(1000, ge=1, le=100_000_000)
    """Training steps, one batch each. Empty: from the recipe's epochs."""
    learning_rate: Rate = 1e-3
    """How far a step moves the weights. If too high, nothing is learned."""
    warmup_steps: Steps = 0
    """Steps in which the learning rate grows from 0 to its peak."""
    decay: Literal["linear", "none"] = "linear"
    """After warm-up, the rate falls to 0 (linear) or stays (none)."""


class TrainingPart(Schedule):
    """A later part of a training run: after `start` steps, its schedule replaces the current one, which may end early.
    The last part ends the training."""

    start: Steps = 0
    """Steps done before this part begins."""


class OptimizerConfig(Schedule):
    """How the weights are updated. The inherited schedule is that of the first part, usually the only one; others are
    added when a run is continued or its learning rate is changed."""

    epochs: float | None = Field(None, ge=0.001, le=1_000_000)
    """Instead of steps: how many times each sentence begins a pair."""
    optimizer: Literal["adamw", "adam", "adadelta", "muon"] = "adamw"
    """Rule that turns gradients into weight updates. muon: for the matrices of the layers, AdamW for all else."""
    weight_decay: Share = 0.01
    """How strongly each step pulls the weights towards zero."""
    beta1: float = Field(0.9, ge=0, le=0.9999)
    """Decay rate of Adam's running mean of the gradient."""
    beta2: float = Field(0.999, ge=0, le=0.99999)
    """Decay rate of Adam's running mean of the squared gradient."""
    max_grad_norm: float = Field(1.0, ge=0, le=1_000_000)
    """Maximum length of the gradient; a longer one is scaled down. 0: off."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number format of the matrix products. auto: bfloat16 where it makes a step of this size faster."""
    parts: tuple[TrainingPart, ...] = Field((), strict=False, title="Changed later")  # JSON has lists
    """Later parts of the training, each with a start and a schedule of its own."""

    @model_validator(mode="after")
    def _follow_one_another(self) -> Self:
        start, end = -1, self.steps
        for part in self.parts:
            if not start < part.start <= end:
                raise ConfigError(
                    f"A part of the training starts at step {part.start}; it can start from step {start + 1} to {end}."
                )
            start, end = part.start, part.start + part.steps
        return self

    @property
    def total_steps(self) -> int:
        return self.parts[-1].start + self.parts[-1].steps if self.parts else self.steps

    def then(self, start: int, steps: int, learning_rate: float | None = None) -> Self:
        """These settings with another part of `steps` steps that begins after `start` steps, without a warm-up, because
        the optimizer keeps its running means. learning_rate: its peak; None keeps the current one. Raises ConfigError.
        """
        earlier = tuple(part for part in self.parts if part.start < start)
        last = earlier[-1] if earlier else self
        rate = last.learning_rate if learning_rate is None else learning_rate
        part = TrainingPart(steps=steps, learning_rate=rate, decay=last.decay, start=start)
        return self.replace(parts=(*earlier, part))


class TrainingConfig(OptimizerConfig):
    """How pre-training updates the weights."""

    mlm_weight: float = Field(1.0, ge=0, le=1000)
    """Weight of the MLM loss in the sum."""
    alternating: bool = False
    """Train the objectives alternately, with an optimizer each, instead of summing the losses."""
    nsp_weight: float = Field(1.0, ge=0, le=1000)
    """Weight of the NSP loss in the sum."""


class FinetuningConfig(OptimizerConfig):
    """How fine-tuning updates the weights (Devlin et al. 2018, appendix A.3). `steps` follow from the epochs."""

    epochs: float | None = Field(3.0, ge=0.001, le=1000)
    """How many times each example is read."""
    learning_rate: Rate = 1e-3
    """How far a step moves the weights. A larger model needs less: 5e-5 for 12 layers of 768."""
    warmup_fraction: Share = 0.1
    """Fraction of the steps in which the learning rate grows to its peak."""
    dropout: Dropout = 0.1
    """Fraction of vector entries and attention weights set to zero in training."""
    frozen_layers: int = Field(0, ge=0, le=48)
    """Keep the embeddings and this many of the lowest layers as they are. 0: train everything."""
    keep_best: bool = True
    """Keep the weights of the epoch that did best on the validation part."""
    evaluate_every: int = Field(1, ge=1, le=1000)
    """Epochs between two evaluations on the validation part."""


class FinetuningData(Settings):
    """How labelled examples become batches."""

    sequence_length: int = Field(128, ge=12, le=8192, title="Longest text in tokens")
    """Maximum number of tokens in a text or a pair."""
    batch_size: BatchSize = 32
    """Examples per training step."""
    most_examples: int | None = Field(None, ge=1, le=100_000_000, title="Labelled examples")
    """Train on this many examples, drawn by the seed. Empty: all."""
    validation_share: float = Field(0.1, ge=0.001, le=0.9)
    """Fraction held out if there is no validation file."""
    question_length: Tokens = 64
    """Maximum number of tokens of a question."""
    context_first: bool = False
    """Read the context, then the question. The pipeline of transformers puts the question first."""
    stride: int | None = Field(None, ge=1, le=8192)
    """Tokens from one window of a long context to the next. Empty: half a window."""
    best_answers: int = Field(20, ge=1, le=1000)
    """How many likeliest starts and ends of an answer are combined."""
    longest_answer: Tokens = 30
    """Maximum number of tokens of an answer."""

    def within(self, positions: int) -> "FinetuningData":
        """The same for a model that reads so many tokens; windows go on overlapping."""
        if self.sequence_length <= positions:
            return self
        stride = self.stride and max(1, self.stride * positions // self.sequence_length)
        return self.replace(sequence_length=positions, stride=stride)


def read_json_file(path: Path, kind: str) -> Any:
    """The content of a JSON file. Raises ConfigError, which names the kind of file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"The {kind} file {path.name} cannot be read ({type(error).__name__}).") from None


def check_seed(seed: object) -> None:
    """Raise ConfigError unless the seed is a whole number from 0 to 2**63 - 1."""
    if type(seed) is not int or not 0 <= seed <= MAX_SEED:
        raise ConfigError(f"The seed is {seed!r}; it must be a whole number from 0 to {MAX_SEED}.")
