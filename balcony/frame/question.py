"""What a person looks at, as one value: the page's bars change it, every tab reads it, and the address keeps it."""

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

from bert_core.errors import InputError
from bert_core.storage.checkpoint import Checkpoint

Values = dict[Any, Any]  # what each component holds when an event fires
Head = tuple[int, int]  # layer and head, from 0
Carried = tuple[int, int, int]

LONGEST = 100_000  # letters of a text in a question
MOST_ITEMS = 4096

# Parts that an answer reads. newest: of the page alone, changes when the shown run has another snapshot for it.
MODEL = ("model", "step", "newest")
TEXTS = (*MODEL, "text", "pair")


@dataclass(frozen=True)
class Question:
    """One or two sentences, a model, and what to show of its answer. The page gets names, kinds and defaults from here.

    model: key of the shown model, "" for the first shipped one. step: of a run, None for its newest. other: key of the
    model to compare with, "" for none. tab: the open one. pair: the second sentence, "" for none. hidden: numbers of
    the hidden words, counted through both sentences; on the page None until it has chosen some. guess: a person's own
    guess. view: key of the closer view. mask: number of the mask that it shows. head: the one shown in detail.
    hide_special: leave out [CLS] and [SEP]. off: heads switched off. zeroed: other parts set to zero, (layer, index in
    `bert_core.probes.stages.PARTS`). choices: of which one follows the sentence. word, contexts: the word to follow and
    sentences with it, None for an example. level: None for the model's last. pooling: "word", or how a vector of a
    whole sentence is made, see `sentence_vectors`. place: number of the word in whose place other words stand in turn,
    None for an example; swaps, answers: these words, and those that are rated at the shown mask. length: how many
    [MASK]s stand behind the first sentence where the model writes; rounds, temperature (in tenths) and seed: see
    `unmask`. token: the position followed through the stages, None for that of the shown mask; carried: what is carried
    into that pass from the one of the text with the first other word in that place, (0, layer, token) for a state, with
    layer 0 for the embeddings, (1, layer, head) for the output of a head; row: of the rows in which a fine-tuned model
    reads an example, the followed one. first: index of the first shown pair of a batch.

    Only the page reads these. stage: the one shown step by step. heads: how the views of heads are drawn. lesson: name
    of the open one, "given" for that of `app.py --lesson`. at: its step, from 0. recipe: how the shown run is trained
    again, or why it cannot be.
    """

    text: str = ""
    pair: str = ""
    model: str = ""
    step: int | None = None
    other: str = ""
    tab: str = "train"
    hidden: tuple[int, ...] = field(default=(), metadata={"first": None})
    guess: str = ""
    view: str = "lens"
    mask: int = 0
    place: int | None = None
    swaps: tuple[str, ...] | None = None
    answers: tuple[str, ...] | None = None
    length: int = 7
    rounds: int = 8
    temperature: int = 0
    seed: int = 0
    head: Head = (0, 0)
    hide_special: bool = False
    off: tuple[Head, ...] = ()
    zeroed: tuple[Head, ...] = ()
    choices: tuple[str, ...] | None = None
    word: str | None = None
    contexts: tuple[str, ...] | None = None
    level: int | None = None
    pooling: str = "word"
    token: int | None = None
    carried: Carried | None = None
    row: int = 0
    first: int = 0
    stage: str = "map"
    heads: dict = field(default_factory=dict)
    lesson: str = ""
    at: int = 0
    recipe: dict | None = None

    @classmethod
    def read(cls, value: Any) -> "Question":
        """A question from the page's JSON; what is no part of it is left out. Raises InputError."""
        parts = value if isinstance(value, dict) else {}
        changed = (name for name, (_, first) in SCHEMA.items() if name in parts and parts[name] != first)
        return cls(**{name: _checked(name, parts[name], _KINDS[name]) for name in changed})

    @property
    def texts(self) -> tuple[str, str | None]:
        """The texts as a probe takes them."""
        return self.text, self.pair or None

    def heads_off(self, checkpoint: Checkpoint) -> list[Head]:
        """The heads switched off that a model has."""
        L, H = checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads
        return [(layer, head) for layer, head in self.off if 0 <= layer < L and 0 <= head < H]

    def nearest_head(self, checkpoint: Checkpoint) -> Head:
        """The chosen head, or the last one of a smaller model."""
        most = checkpoint.config.num_hidden_layers - 1, checkpoint.config.num_attention_heads - 1
        layer, head = (max(0, min(number, last)) for number, last in zip(self.head, most))
        return layer, head

    @property
    def texts_code(self) -> str:
        """The same as arguments in Python code."""
        return ", ".join(repr(text) for text in self.texts if text is not None)


_KINDS = get_type_hints(Question)
_NAMES = {  # of the kinds, for the page
    str: "text",
    int: "number",
    bool: "flag",
    dict: "object",
    tuple[str, ...]: "texts",
    tuple[int, ...]: "numbers",
    Carried: "numbers",
    Head: "head",
    tuple[Head, ...]: "heads",
}


def _for_page(each: dataclasses.Field) -> tuple[str, Any]:
    default = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
    kinds = [_KINDS[each.name], *get_args(_KINDS[each.name])]
    first = each.metadata.get("first", default)
    return next(_NAMES[kind] for kind in kinds if kind in _NAMES), list(first) if isinstance(first, tuple) else first


# Kind and first value of each part, for balcony/frame/question.js.
SCHEMA = {each.name: _for_page(each) for each in dataclasses.fields(Question)}


def _checked(name: str, value: Any, kind: Any) -> Any:
    """A JSON value as a type of the fields above. Raises InputError."""
    items = get_args(kind)
    if type(None) in items:
        return None if value is None else _checked(name, value, items[0])
    if items and isinstance(value, list) and len(value) <= MOST_ITEMS:
        if items[-1] is Ellipsis:
            return tuple(_checked(name, each, items[0]) for each in value)
        if len(items) == len(value):
            return tuple(_checked(name, each, item) for each, item in zip(value, items, strict=True))
    elif type(value) is kind and (kind is not str or len(value) <= LONGEST):
        # JSON can spell half a character, which no answer may have.
        return re.sub("[\ud800-\udfff]", "\ufffd", value) if kind is str else value
    raise InputError(f"This address or lesson has no usable “{name}”; open the page without it.")
