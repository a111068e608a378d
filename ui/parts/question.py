"""What a person looks at, as one value: the page's bars change it, every tab reads it, and the address keeps it."""

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

from bert_core.errors import InputError

Values = dict[Any, Any]  # what each component holds when an event fires
Head = tuple[int, int]  # layer and head, from 0

LONGEST = 100_000  # letters of a text in a question
MOST_ITEMS = 4096

_MODEL = ("model", "step", "newest")  # newest: changes when a run that is shown live has a new snapshot
_INPUT = (*_MODEL, "text", "pair")
# The events of the page: the tab that each is for, and the parts of the question that it answers. The page triggers an
# event when its tab is open and one of these parts has changed since the event was last triggered.
EVENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "guesses": ("masked-words", (*_INPUT, "hidden", "guess", "other")),
    "closer": ("masked-words", (*_INPUT, "hidden", "guess", "view", "mask")),
    "verdict": ("next-sentence", (*_INPUT, "other")),
    "across": ("next-sentence", (*_INPUT, "across")),
    "matrix": ("next-sentence", (*_MODEL, "other", "start")),
    "heads": ("attention", (*_INPUT, "hidden", "hide_special", "other")),
    "names": ("", ()),  # the page asks for them once "heads" or "layer" is answered
    "layer": ("attention", ("head",)),  # "heads" answers it as well
    "switches": ("attention", (*_INPUT, "hidden", "off")),
    "contexts": ("words-in-context", (*_INPUT, "word", "contexts", "level")),
    "task": ("fine-tune", _MODEL),
    "steps": ("step-by-step", (*_INPUT, "hidden", "mask", "head", "off", "zeroed", "token")),
    "facts": ("models", _MODEL),
}


@dataclass(frozen=True)
class Question:
    """One or two sentences, a model, and what to show of its answer.

    model: key of the shown model, "" for the first shipped one. step: of a run, None for its newest. other: key of the
    model to compare with, "" for none. tab: the open one. pair: the second sentence, "" for none. hidden: numbers of
    the hidden words, counted through both sentences. guess: a person's own guess. view: key of the closer view. mask:
    number of the mask that it shows. head: the one shown in detail. hide_special: leave out [CLS] and [SEP]. off: heads
    switched off. zeroed: other parts set to zero, (layer, index in `bert_core.probes.stages.PARTS`). across: the head
    whose attention across the pair is shown, None for the mean. start: first sentence of the matrix. choices: of which
    one follows the sentence. word, contexts: the word to follow and sentences with it, None for an example. level: None
    for the model's last. token: the position followed through the stages, None for that of the shown mask.
    """

    text: str = ""
    pair: str = ""
    model: str = ""
    step: int | None = None
    other: str = ""
    tab: str = "train"
    hidden: tuple[int, ...] = ()
    guess: str = ""
    view: str = "lens"
    mask: int = 0
    head: Head = (0, 0)
    hide_special: bool = False
    off: tuple[Head, ...] = ()
    zeroed: tuple[Head, ...] = ()
    across: Head | None = None
    start: int = 0
    choices: tuple[str, ...] | None = None
    word: str | None = None
    contexts: tuple[str, ...] | None = None
    level: int | None = None
    token: int | None = None

    @classmethod
    def read(cls, value: Any) -> "Question":
        """A question from the page's JSON; parts that only the page uses are left out. Raises InputError."""
        if not isinstance(value, dict):
            return cls()
        return cls(**{name: _checked(name, value[name], kind) for name, kind in _KINDS.items() if name in value})

    @property
    def texts(self) -> tuple[str, str | None]:
        """The texts as a probe takes them."""
        return self.text, self.pair or None

    @property
    def texts_code(self) -> str:
        """The same as arguments in Python code."""
        return ", ".join(repr(text) for text in self.texts if text is not None)


_KINDS = {each.name: get_type_hints(Question)[each.name] for each in dataclasses.fields(Question)}


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
