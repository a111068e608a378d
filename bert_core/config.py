"""Settings: frozen dataclasses that check themselves once.

Every field carries its range (or its choices) and a hint of one line. The checks, the command line's `--set` and
the page's controls all read the same metadata, so a setting is described in exactly one place.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from bert_core.errors import ConfigError

KINDS = ("auto", "lines", "documents", "wikitext", "pairs")  # how a text is cut


def _number(default: Any, low: float, high: float, hint: str, *, optional: bool = False) -> Any:
    return field(default=default, metadata={"hint": hint, "range": (low, high), "optional": optional})


def _choice(default: Any, choices: tuple, hint: str) -> Any:
    return field(default=default, metadata={"hint": hint, "choices": choices})


class _Checked:
    """Checks every field of a dataclass against its metadata."""

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value, meta = getattr(self, item.name), item.metadata
            if "choices" in meta and value not in meta["choices"]:
                choices = ", ".join(map(str, meta["choices"]))
                raise ConfigError(f"{item.name} is {value!r}; it can be one of: {choices}.")
            if "range" not in meta or (value is None and meta["optional"]):
                continue
            low, high = meta["range"]
            wants_int = item.type in (int, int | None)
            is_number = isinstance(value, int if wants_int else (int, float)) and not isinstance(value, bool)
            if not is_number or not low <= value <= high:  # NaN is in no range
                kind = "a whole number" if wants_int else "a number"
                raise ConfigError(f"{item.name} is {value!r}; it must be {kind} from {low:g} to {high:g}.")


@dataclass(frozen=True)
class BertConfig(_Checked):
    """Sizes of a BERT, under the field names of a Hugging Face config.json (Devlin et al. 2018, section 3).

    Raises ConfigError when a value is out of range or the heads do not divide the hidden size.
    """

    vocab_size: int = _number(30522, 6, 1_000_000, "Number of different tokens the model knows.")
    hidden_size: int = _number(64, 2, 4096, "Length of the vector that stands for a token.")
    num_hidden_layers: int = _number(2, 1, 48, "Transformer layers, one after the other.")
    num_attention_heads: int = _number(4, 1, 64, "Attention heads in each layer; they share the hidden size.")
    intermediate_size: int = _number(256, 2, 16384, "Width of the feed-forward block, usually 4 x hidden size.")
    hidden_act: str = _choice("gelu", ("gelu", "relu"), "Activation function of the feed-forward block.")
    hidden_dropout_prob: float = _number(0.1, 0, 0.9, "Share of vector entries set to zero while training.")
    attention_probs_dropout_prob: float = _number(0.1, 0, 0.9, "Share of attention weights set to zero while training.")
    classifier_dropout: float | None = _number(
        None, 0, 0.9, "Dropout before the sentence-pair classifier; empty means none.", optional=True
    )
    max_position_embeddings: int = _number(128, 8, 8192, "Longest input in tokens that the model can read.")
    type_vocab_size: int = _number(2, 1, 16, "Segments: sentence A and sentence B.")
    use_position_embeddings: bool = _choice(
        True, (False, True), "Whether the model is told where a token stands; if not, all its position vectors stay 0."
    )
    use_token_type_embeddings: bool = _choice(
        True, (False, True), "Whether it is told which sentence a token is in; if not, all its segment vectors stay 0."
    )
    initializer_range: float = _number(0.02, 1e-6, 1, "Standard deviation of the initial weights.")
    initial_positions: str = _choice(
        "random",
        ("random", "sinusoidal"),
        "What the position vectors are before training: drawn like all weights, or the waves of the first Transformer.",
    )
    layer_norm_eps: float = _number(1e-12, 0, 1e-2, "Small number that keeps LayerNorm from dividing by zero.")
    pad_token_id: int = _number(0, 0, 1_000_000, "Id of the [PAD] token.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % self.num_attention_heads:
            raise ConfigError(
                f"hidden_size {self.hidden_size} cannot be shared by {self.num_attention_heads} heads; "
                "choose a hidden size that is a multiple of the number of heads."
            )
        if self.pad_token_id >= self.vocab_size:
            raise ConfigError(f"pad_token_id {self.pad_token_id} is outside the vocabulary of {self.vocab_size}.")

    def parameter_count(self) -> int:
        """Trainable numbers of a BertForPreTraining of these sizes, by arithmetic: nothing is allocated."""
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
        "word", ("word", "wordpiece", "bpe"), "word: a token per word; wordpiece, bpe: frequent pieces of words."
    )
    vocab_size: int | None = _number(
        None, 6, 200_000, "Most tokens in the vocabulary; empty keeps every word (30,000 pieces).", optional=True
    )
    min_frequency: int = _number(1, 1, 1_000_000, "A word or piece must occur this often to be known.")


@dataclass(frozen=True)
class CorpusConfig(_Checked):
    """Which text a recipe learns from, and how it is cut (see `bert_core.data.corpus`).

    file: a name in assets/corpora; None where the text is not shipped, then `needs` says which text to give.
    """

    file: str | None = None
    kind: str = _choice("auto", KINDS, "How the text is cut into documents and sentences.")
    needs: str = "a text of your own"
    most_documents: int | None = _number(
        None, 1, 100_000_000, "Read this many documents or pairs from the start; empty reads all.", optional=True
    )
    validation_share: float | None = _number(
        None,
        0,
        0.5,
        "Share of the text, after the training part, for the validation curve; empty takes a tenth of a text of at "
        "least 8 documents.",
        optional=True,
    )
    test_share: float = _number(0.0, 0, 0.5, "Share at the end of the text that is only used for the final test.")
    pair_label: str = "IsNext"


@dataclass(frozen=True)
class DataConfig(_Checked):
    """How sentence pairs and masks are drawn (Devlin et al. 2018, appendix A.1)."""

    sequence_length: int = _number(64, 8, 8192, "Most tokens in a pair.")
    long_pairs: str = _choice(
        "crop", ("crop", "drop"), "A longer pair loses tokens from its longer side (crop) or is left out (drop)."
    )
    short_length: int | None = _number(
        None, 8, 8192, "Most tokens in a pair during the first part of the run; empty has no such part.", optional=True
    )
    short_share: float = _number(0.9, 0, 1, "Share of the steps that the part with short pairs takes.")
    batch_size: int = _number(32, 1, 4096, "Sentence pairs in one training step.")
    mask_probability: float = _number(0.15, 0.001, 1, "Share of the tokens that the model is asked for.")
    min_predictions: int = _number(1, 1, 8192, "Fewest tokens asked for in one pair.")
    max_predictions: int = _number(20, 1, 8192, "Most tokens asked for in one pair.")
    mask_share: float = _number(0.8, 0, 1, "Of the asked tokens, the share shown as [MASK].")
    draw: str = _choice(
        "token",
        ("token", "batch"),
        "Whether one draw decides between [MASK], random and kept for a token or for a batch.",
    )
    random_share: float = _number(
        0.1, 0, 1, "Of the asked tokens, the share replaced by a random word; the rest is kept."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_predictions > self.max_predictions:
            raise ConfigError(
                f"min_predictions {self.min_predictions} is more than max_predictions {self.max_predictions}; lower it."
            )
        if self.short_length is not None and self.short_length > self.sequence_length:
            raise ConfigError(
                f"short_length {self.short_length} is more than sequence_length {self.sequence_length}; lower it."
            )
        if self.mask_share + self.random_share > 1 + 1e-9:
            raise ConfigError(
                f"mask_share {self.mask_share:g} and random_share {self.random_share:g} are more than 1 together; "
                "lower one."
            )


@dataclass(frozen=True)
class TrainingPart(_Checked):
    """A later part of a training: from step `start` on its schedule takes the place of the one before.

    The fields are those of `TrainingConfig`, whose own schedule is the first part. A part may begin before the one
    before it is over, and cuts it short; the last part ends the training.
    """

    start: int = _number(0, 0, 100_000_000, "Steps done before this part begins.")
    steps: int = _number(1000, 1, 100_000_000, "Steps of this part's schedule.")
    learning_rate: float = _number(1e-3, 1e-8, 1, "Size of a step at the peak of this part's schedule.")
    warmup_steps: int = _number(0, 0, 100_000_000, "Steps in which the learning rate grows from 0 to its peak.")
    decay: str = _choice(
        "linear", ("linear", "none"), "After warm-up the learning rate falls to 0 (linear) or stays (none)."
    )


@dataclass(frozen=True)
class TrainingConfig(_Checked):
    """How the weights are changed.

    steps, learning_rate, warmup_steps and decay are the schedule of the first part, which is usually all. parts: what
    came later, when a run was continued or its learning rate was changed.
    """

    steps: int = _number(1000, 1, 100_000_000, "Training steps; one batch each.")
    epochs: float | None = _number(
        None, 0.001, 1_000_000, "Instead of steps: how often every sentence is the first of a pair.", optional=True
    )
    optimizer: str = _choice("adamw", ("adamw", "adam", "adadelta"), "Rule that turns gradients into steps.")
    learning_rate: float = _number(1e-3, 1e-8, 1, "Size of a step at the peak of the schedule.")
    weight_decay: float = _number(0.01, 0, 1, "Pull of the weights towards zero at each step.")
    beta1: float = _number(0.9, 0, 0.9999, "Memory of Adam for the direction of the gradient.")
    beta2: float = _number(0.999, 0, 0.99999, "Memory of Adam for the size of the gradient.")
    warmup_steps: int = _number(0, 0, 100_000_000, "Steps in which the learning rate grows from 0 to its peak.")
    decay: str = _choice(
        "linear", ("linear", "none"), "After warm-up the learning rate falls to 0 (linear) or stays (none)."
    )
    max_grad_norm: float = _number(1.0, 0, 1e6, "Longest gradient; longer ones are scaled down. 0 switches it off.")
    precision: str = _choice(
        "auto",
        ("auto", "float32", "bfloat16"),
        "Numbers in the matrix products: bfloat16 where it makes a step of this size faster (auto), or always one.",
    )
    mlm_weight: float = _number(1.0, 0, 1000, "Weight of the masked-word loss in the sum.")
    alternating: bool = _choice(
        False,
        (False, True),
        "Alternate between the two objectives, one step and one optimizer each, instead of summing their losses.",
    )
    nsp_weight: float = _number(1.0, 0, 1000, "Weight of the next-sentence loss in the sum.")
    parts: tuple[TrainingPart, ...] = field(
        default=(), metadata={"hint": "Later parts of the training, each with a start and a schedule of its own."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            parts = tuple(part if isinstance(part, TrainingPart) else TrainingPart(**part) for part in self.parts)
        except TypeError:
            names = ", ".join(item.name for item in dataclasses.fields(TrainingPart))
            raise ConfigError(f"training.parts must be a list of parts with these settings: {names}.") from None
        object.__setattr__(self, "parts", parts)
        begun, end = -1, self.steps
        for part in parts:
            if not begun < part.start <= end:
                raise ConfigError(
                    f"A part of the training starts at step {part.start}; it must start after the part before began "
                    f"and no later than step {end}, where that one ends."
                )
            begun, end = part.start, part.start + part.steps

    @property
    def total_steps(self) -> int:
        """Steps of all parts together."""
        return self.parts[-1].start + self.parts[-1].steps if self.parts else self.steps

    def then(self, start: int, steps: int, learning_rate: float | None = None) -> "TrainingConfig":
        """These settings with another part of so many steps after the first `start` ones.

        learning_rate: its peak; None takes the one in force. There is no warm-up, because the optimizer's averages
        go on. Raises ConfigError when a number is out of range.
        """
        before = tuple(part for part in self.parts if part.start < start)
        last = before[-1] if before else self
        rate = last.learning_rate if learning_rate is None else learning_rate
        return dataclasses.replace(self, parts=(*before, TrainingPart(start, steps, rate, decay=last.decay)))
