"""Settings: frozen dataclasses that check themselves once.

The metadata of a field holds a hint of one line and a range or choices; a label, where its name in words is none; and
the only task that has it. The checks, the command line's `--set` and the page's controls read it. `Limits` holds what a
visitor may ask for, by place.
"""

import contextlib
import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Self, get_args, get_origin

from bert_core.errors import ConfigError

VERSION = "1.0.0"

_PACKAGE = Path(__file__).resolve().parent
# Assets and checkpoints are in the installed package, or in the repository beside it.
HOME = _PACKAGE if (_PACKAGE / "assets").is_dir() else _PACKAGE.parent
ASSETS, CHECKPOINTS = HOME / "assets", HOME / "checkpoints"
MAX_SEED = 2**63 - 1
_FLAG = (False, True)
_ANSWERS = "question-answering"
CORPUS_KINDS = ("auto", "lines", "documents", "wikitext", "pairs")  # how a text is split, see `data.sentences`


@dataclass(frozen=True)
class Limits:
    """What one visitor may ask of a machine. LOCAL is generous, for one's own; PUBLIC is for a page open to strangers.

    upload_bytes: of an uploaded file. items: lines and sentence marks of a text, lines of a task, or values in JSON, in
    a file of others. tokens: of a tokenizer to open. parameters: of a model to train or to open. step_seconds,
    probe_seconds: estimated, of a training step and of a question to a model. steps: of a run. program_runs: of the
    programs of one address, that have not ended; a visitor of the page has one. memory_bytes: of all visitors' models
    and runs; above it, the least useful is freed.
    """

    upload_bytes: int
    items: int
    tokens: int
    parameters: int
    step_seconds: float
    steps: int
    program_runs: int
    probe_seconds: float
    memory_bytes: float


LOCAL = Limits(2**30, 5_000_000, 1_000_000, 500_000_000, 600.0, 100_000_000, 64, 120.0, math.inf)
PUBLIC = Limits(5 * 2**20, 250_000, 32_768, 20_000_000, 2.0, 20_000, 4, 10.0, 2.5 * 2**30)


def _range(default: float | None, low: float, high: float, hint: str, **more: str) -> Any:
    return field(default=default, metadata={"hint": hint, "range": (low, high), **more})


def _choice(default: object, choices: tuple, hint: str, **more: str) -> Any:
    return field(default=default, metadata={"hint": hint, "choices": choices, **more})


def _kinds(kind: object) -> tuple:
    """The types that a field allows."""
    return get_args(kind) or (kind,)


@dataclass(frozen=True)
class _Checked:
    """Base of the settings: checks every field against its metadata. Raises ConfigError."""

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value, meta, kinds = getattr(self, item.name), item.metadata, _kinds(item.type)
            if "choices" in meta and (type(value), value) not in [(type(choice), choice) for choice in meta["choices"]]:
                choices = ", ".join(map(str, meta["choices"]))
                raise ConfigError(f"{item.name} is {value!r}; it can be one of: {choices}.")
            if item.type in (str, str | None) and not isinstance(value, kinds):
                raise ConfigError(f"{item.name} is {value!r}; it must be a text.")
            if "range" not in meta or (value is None and NoneType in kinds):
                continue
            low, high = meta["range"]
            is_number = isinstance(value, int if int in kinds else (int, float)) and not isinstance(value, bool)
            if not is_number or not low <= value <= high:  # NaN is in no range
                kind = "a whole number" if int in kinds else "a number"
                raise ConfigError(f"{item.name} is {value!r}; it must be {kind} from {low:g} to {high:g}.")


@dataclass(frozen=True)
class BertConfig(_Checked):
    """Sizes of a BERT, under the field names of a Hugging Face config.json (Devlin et al. 2018, section 3).

    Raises ConfigError when a value is out of range or the heads do not divide the hidden size.
    """

    vocab_size: int = _range(30522, 6, 1e6, "Number of tokens in the vocabulary.")
    hidden_size: int = _range(64, 2, 4096, "Length of the vector that represents a token.")
    num_hidden_layers: int = _range(2, 1, 48, "Transformer layers, one after the other.", label="Layers")
    num_attention_heads: int = _range(
        4,
        1,
        64,
        "Each head compares words in its own way; the hidden size is divided among them.",
        label="Heads per layer",
    )
    intermediate_size: int = _range(
        256, 2, 16384, "Width of the feed-forward block, usually 4 × hidden size.", label="Feed-forward size"
    )
    hidden_act: str = _choice(
        "gelu", ("gelu", "relu", "tanh", "linear"), "Activation function of the feed-forward block; linear: none."
    )
    hidden_dropout_prob: float = _range(0.1, 0, 0.9, "Fraction of vector entries set to zero in training.")
    attention_probs_dropout_prob: float = _range(0.1, 0, 0.9, "Fraction of attention weights set to zero in training.")
    classifier_dropout: float | None = _range(None, 0, 0.9, "Dropout before the sentence-pair classifier. Empty: none.")
    max_position_embeddings: int = _range(128, 8, 8192, "Longest input in tokens that the model can read.")
    type_vocab_size: int = _range(2, 2, 16, "Number of segments: sentence A and sentence B.")
    use_position_embeddings: bool = _choice(
        True, _FLAG, "Whether the model knows each token's position. If not, all position vectors stay 0."
    )
    use_token_type_embeddings: bool = _choice(
        True, _FLAG, "Whether the model knows each token's sentence. If not, all segment vectors stay 0."
    )
    initializer_range: float = _range(0.02, 1e-6, 1, "Standard deviation of the initial weights.")
    initial_positions: str = _choice(
        "random", ("random", "sinusoidal"), "Initial position vectors: random, or the first Transformer's sine waves."
    )
    layer_norm_eps: float = _range(1e-12, 0, 1e-2, "Small number that keeps LayerNorm from dividing by zero.")
    pooler: str = _choice(
        "first", ("first", "mean"), "What next sentence is read from: the vector at [CLS], or the mean of all tokens."
    )
    pad_token_id: int = _range(0, 0, 1e6, "Id of the [PAD] token.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % (heads := self.num_attention_heads):
            raise ConfigError(f"hidden_size {self.hidden_size} must be a multiple of the number of heads, {heads}.")
        if self.pad_token_id >= self.vocab_size:
            raise ConfigError(f"pad_token_id {self.pad_token_id} is outside the vocabulary of {self.vocab_size}.")

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


@dataclass(frozen=True)
class TokenizerConfig(_Checked):
    """How text becomes tokens."""

    kind: str = _choice(
        "word",
        ("word", "whitespace", "wordpiece", "bpe"),
        "One token per word (whitespace: marks belong to the words beside them), or frequent pieces of words.",
        label="Tokenizer",
    )
    vocab_size: int | None = _range(
        None, 6, 200_000, "Vocabulary limit. Empty: all words, or 30,000 pieces.", label="Vocabulary size"
    )
    min_frequency: int = _range(1, 1, 1e6, "How often a word or piece must occur to be in the vocabulary.")
    lowercase: bool = _choice(True, _FLAG, "Whether capital letters are read as small ones.")
    strip_accents: bool | None = _choice(
        False, (False, True, None), "Whether marks on letters are removed. None: if lowercase. Many scripts need them."
    )


@dataclass(frozen=True)
class CorpusConfig(_Checked):
    """Which text a recipe trains on, and how it is split (see `bert_core.data.corpus`).

    file: a name in assets/corpora, or None if the text is not shipped; `needs` then describes the text to provide.
    encoding: of a file that is not UTF-8, see `bert_core.data.decoding`.
    """

    file: str | None = None
    kind: str = _choice(
        "auto", CORPUS_KINDS, "How the text is split into documents and sentences.", label="Kind of text"
    )
    encoding: str | None = None
    needs: str = "a text of your own"
    most_documents: int | None = _range(
        None, 1, 1e8, "Read only this many documents or pairs from the start. Empty: all."
    )
    validation_share: float | None = _range(
        None, 0, 0.5, "Fraction for the validation curve. Empty: a tenth of a longer text."
    )
    test_share: float = _range(0.0, 0, 0.5, "Fraction at the end of the text, used only for the final test.")
    pair_label: str = field(default="IsNext", metadata={"hint": "What a pair with the label 1 is called."})


@dataclass(frozen=True)
class DataConfig(_Checked):
    """How sentence pairs and masks are drawn (Devlin et al. 2018, appendix A.1)."""

    sequence_length: int = _range(64, 8, 8192, "Maximum number of tokens in a pair.", label="Longest pair in tokens")
    segments: str = _choice(
        "sentences",
        ("sentences", "packed"),
        "sentences: one on each side of a pair. packed: as many consecutive sentences as fit.",
    )
    long_pairs: str = _choice(
        "crop", ("crop", "drop"), "crop: a longer pair loses tokens from its longer side. drop: it is not used."
    )
    negatives: str = _choice(
        "random",
        ("random", "swapped"),
        "NotNext pairs. random: B is from elsewhere. swapped: two neighbours in the wrong order (ALBERT).",
    )
    short_length: int | None = _range(
        None, 8, 8192, "Maximum number of tokens in a pair early in the run. Empty: as in the rest."
    )
    short_share: float = _range(0.9, 0, 1, "Fraction of the first part's steps that use the shorter pairs.")
    batch_size: int = _range(32, 1, 4096, "Sentence pairs per training step.")
    mask_probability: float = _range(
        0.15, 0.001, 1, "Fraction of tokens to predict (BERT: 15%).", label="Fraction to predict"
    )
    min_predictions: int = _range(1, 1, 8192, "Minimum number of tokens to predict in a pair.")
    max_predictions: int = _range(20, 1, 8192, "Maximum number of tokens to predict in a pair.")
    mask_share: float = _range(0.8, 0, 1, "Fraction of the predicted tokens replaced by [MASK].")
    draw: str = _choice(
        "token", ("token", "batch"), "Choose between [MASK], random and unchanged for each token or for a whole batch."
    )
    random_share: float = _range(0.1, 0, 1, "Fraction of the predicted tokens replaced by a random word.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, limit in (("min_predictions", "max_predictions"), ("short_length", "sequence_length")):
            value, most = getattr(self, name), getattr(self, limit)
            if value is not None and value > most:
                raise ConfigError(f"{name} {value} is more than {limit} {most}; lower it.")
        if self.segments == "packed" and self.long_pairs == "drop":
            raise ConfigError("segments packed fills pairs to sequence_length, so long_pairs cannot be drop; use crop.")
        if self.mask_share + self.random_share > 1 + 1e-9:
            both = f"mask_share {self.mask_share:g} and random_share {self.random_share:g}"
            raise ConfigError(f"{both} are more than 1 together; lower one.")


@dataclass(frozen=True)
class Schedule(_Checked):
    """The learning rate from step to step: it grows from 0 to its peak, then falls or stays."""

    steps: int = _range(1000, 1, 1e8, "Training steps, one batch each. Empty: from the recipe's epochs.")
    learning_rate: float = _range(1e-3, 1e-8, 1, "How far a step moves the weights. If too high, nothing is learned.")
    warmup_steps: int = _range(0, 0, 1e8, "Steps in which the learning rate grows from 0 to its peak.")
    decay: str = _choice("linear", ("linear", "none"), "After warm-up, the rate falls to 0 (linear) or stays (none).")


@dataclass(frozen=True)
class TrainingPart(Schedule):
    """A later part of a training run: after `start` steps, its schedule replaces the current one.

    It may begin before the previous part is over, which then ends early. The last part ends the training.
    """

    start: int = _range(0, 0, 1e8, "Steps done before this part begins.")


@dataclass(frozen=True)
class OptimizerConfig(Schedule):
    """How the weights are updated. The inherited schedule is that of the first part, usually the only one.

    parts: added when a run is continued or its learning rate is changed.
    """

    epochs: float | None = _range(None, 0.001, 1e6, "Instead of steps: how many times each sentence begins a pair.")
    optimizer: str = _choice(
        "adamw",
        ("adamw", "adam", "adadelta", "muon"),
        "Rule that turns gradients into weight updates. muon: for the matrices of the layers, AdamW for all else.",
    )
    weight_decay: float = _range(0.01, 0, 1, "How strongly each step pulls the weights towards zero.")
    beta1: float = _range(0.9, 0, 0.9999, "Decay rate of Adam's running mean of the gradient.")
    beta2: float = _range(0.999, 0, 0.99999, "Decay rate of Adam's running mean of the squared gradient.")
    max_grad_norm: float = _range(1.0, 0, 1e6, "Maximum length of the gradient; a longer one is scaled down. 0: off.")
    precision: str = _choice(
        "auto",
        ("auto", "float32", "bfloat16"),
        "Number format of the matrix products. auto: bfloat16 where it makes a step of this size faster.",
    )
    parts: tuple[TrainingPart, ...] = field(
        default=(),
        metadata={
            "hint": "Later parts of the training, each with a start and a schedule of its own.",
            "label": "Changed later",
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            parts = tuple(part if isinstance(part, TrainingPart) else TrainingPart(**part) for part in self.parts)
        except TypeError:
            names = ", ".join(item.name for item in dataclasses.fields(TrainingPart))
            raise ConfigError(f"training.parts must be a list of parts with these settings: {names}.") from None
        object.__setattr__(self, "parts", parts)
        start, end = -1, self.steps
        for part in parts:
            if not start < part.start <= end:
                raise ConfigError(
                    f"A part of the training starts at step {part.start}; it must start after the previous part began "
                    f"and no later than step {end}, where that one ends."
                )
            start, end = part.start, part.start + part.steps

    @property
    def total_steps(self) -> int:
        """Number of steps of all parts together."""
        return self.parts[-1].start + self.parts[-1].steps if self.parts else self.steps

    def then(self, start: int, steps: int, learning_rate: float | None = None) -> Self:
        """These settings with another part of `steps` steps that begins after `start` steps.

        learning_rate: its peak; None keeps the current one. There is no warm-up, because the optimizer keeps its
        running means. Raises ConfigError when a number is out of range.
        """
        earlier = tuple(part for part in self.parts if part.start < start)
        last = earlier[-1] if earlier else self
        rate = last.learning_rate if learning_rate is None else learning_rate
        part = TrainingPart(steps=steps, learning_rate=rate, decay=last.decay, start=start)
        return dataclasses.replace(self, parts=(*earlier, part))


@dataclass(frozen=True)
class TrainingConfig(OptimizerConfig):
    """How pre-training updates the weights."""

    mlm_weight: float = _range(1.0, 0, 1000, "Weight of the MLM loss in the sum.")
    alternating: bool = _choice(
        False, _FLAG, "Train the objectives alternately, with an optimizer each, instead of summing the losses."
    )
    nsp_weight: float = _range(1.0, 0, 1000, "Weight of the NSP loss in the sum.")


@dataclass(frozen=True)
class FinetuningConfig(OptimizerConfig):
    """How fine-tuning updates the weights (Devlin et al. 2018, appendix A.3). `steps` follow from the epochs."""

    epochs: float | None = _range(3.0, 0.001, 1_000, "How many times each example is read.")
    learning_rate: float = _range(
        1e-3, 1e-8, 1, "How far a step moves the weights. A larger model needs less: 5e-5 for 12 layers of 768."
    )
    warmup_fraction: float = _range(0.1, 0, 1, "Fraction of the steps in which the learning rate grows to its peak.")
    dropout: float = _range(0.1, 0, 0.9, "Fraction of vector entries and attention weights set to zero in training.")
    frozen_layers: int = _range(
        0, 0, 48, "Keep the embeddings and this many of the lowest layers as they are. 0: train everything."
    )
    keep_best: bool = _choice(True, _FLAG, "Keep the weights of the epoch that did best on the validation part.")
    evaluate_every: int = _range(1, 1, 1000, "Epochs between two evaluations on the validation part.")


@dataclass(frozen=True)
class FinetuningData(_Checked):
    """How labelled examples become batches."""

    sequence_length: int = _range(
        128, 12, 8192, "Maximum number of tokens in a text or a pair.", label="Longest text in tokens"
    )
    batch_size: int = _range(32, 1, 4096, "Examples per training step.")
    most_examples: int | None = _range(
        None, 1, 1e8, "Train on this many examples, drawn by the seed. Empty: all.", label="Labelled examples"
    )
    validation_share: float = _range(0.1, 0.001, 0.9, "Fraction held out if there is no validation file.")
    question_length: int = _range(64, 1, 8192, "Maximum number of tokens of a question.", task=_ANSWERS)
    stride: int | None = _range(
        None, 1, 8192, "Tokens from one window of a long context to the next. Empty: half a window.", task=_ANSWERS
    )
    best_answers: int = _range(
        20, 1, 1000, "How many likeliest starts and ends of an answer are combined.", task=_ANSWERS
    )
    longest_answer: int = _range(30, 1, 8192, "Maximum number of tokens of an answer.", task=_ANSWERS)


def build(kind: type, values: object, section: str) -> Any:
    """Settings of a kind from values by name, which may be texts. Raises ConfigError, which names the section."""
    if not isinstance(values, dict):
        raise ConfigError(f"The section {section!r} must map settings to values.")
    known = {item.name: item for item in dataclasses.fields(kind)}
    for name in values:
        if name not in known:
            raise ConfigError(f"There is no setting {section}.{name}; there are: {', '.join(known)}.")
    return kind(**{name: parse(value, known[name].type) for name, value in values.items()})


def parse(value: object, kind: object) -> Any:
    """A string as a value of the field's type; a string that is not one is returned, and the field refuses it."""
    if not isinstance(value, str):
        return value
    text, kinds = value.strip().lower(), _kinds(kind)
    if NoneType in kinds and text in ("", "none", "null"):
        return None
    if bool in kinds:
        return {"true": True, "false": False}.get(text, value)
    if str in kinds:
        return value
    if get_origin(kind) is tuple:
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(value)
    try:
        number = float(value)
        return int(number) if int in kinds and number.is_integer() else number
    except (ValueError, OverflowError):
        return value


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
