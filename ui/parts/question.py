"""A person's question to a model: one value, which a tab makes of its components and hands to the probes."""

from dataclasses import dataclass
from typing import Any

Values = dict[Any, Any]  # what each component holds when an event fires


@dataclass(frozen=True)
class Question:
    """One or two sentences and what to show of the model's answer; a tab fills in the fields that it has.

    pair: the second sentence, "" for none. other: key of the model to compare with, "" for none. hidden: numbers of
    the hidden words, counted through both sentences. guess: a person's own guess. view: key of the closer view. mask:
    number of the mask that it shows. head: (layer, head) from 0, None for the mean over all heads. hide_special: leave
    out [CLS] and [SEP].
    """

    text: str = ""
    pair: str = ""
    other: str = ""
    hidden: tuple[int, ...] = ()
    guess: str = ""
    view: str = ""
    mask: int = 0
    head: tuple[int, int] | None = None
    hide_special: bool = False

    @property
    def texts(self) -> tuple[str, str | None]:
        """The texts as a probe takes them."""
        return self.text, self.pair or None

    @property
    def texts_code(self) -> str:
        """The same as arguments in Python code."""
        return ", ".join(repr(text) for text in self.texts if text is not None)
