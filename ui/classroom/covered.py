"""The sentences of a question to the room, without the words that are hidden, and what a model gives each guess."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bert_core.errors import InputError
from bert_core.probes.masked_words import fill_mask
from bert_core.storage.checkpoint import Checkpoint
from ui.frame.masking import mask_words, rated_guess
from ui.frame.question import Question
from ui.server.probe_lock import probe_lock

MOST_GAPS = 8
MOST_GUESSES = 5  # of the model
NO_GAP = "Hide a word in the tab Masked words first."


@dataclass(eq=False)
class Covered:
    """Sentences with a [MASK] for each gap, one or two.

    words: that are hidden, in lower case; "" for a typed [MASK]. model: its name. rated: for each gap the probability
    of words by the model. probability: of a word at a gap, None where the model cannot say.
    """

    texts: tuple[str, ...]
    words: tuple[str, ...]
    model: str
    rated: list[dict[str, float]]
    probability: Callable[[int, str], float | None] = field(default=lambda gap, word: None, repr=False)

    def rate(self, guesses: list[list[str]]) -> None:
        """Ask the model for the probability of the room's guesses for each gap, and of the hidden words."""
        for gap, words in enumerate(guesses):
            for word in [*words, self.words[gap]]:
                found = self.probability(gap, word) if word and word not in self.rated[gap] else None
                if found is not None:
                    self.rated[gap][word] = found

    def content(self) -> dict[str, Any]:
        """All but what asks the model, as JSON data."""
        return {"texts": self.texts, "words": self.words, "model": self.model, "rated": self.rated}


def cover(checkpoint: Checkpoint, question: Question, model: str) -> Covered:
    """The sentences of a question, and the model's guesses for what is hidden. Raises InputError."""
    masked, found = mask_words(checkpoint, question)
    if not found:
        raise InputError(NO_GAP)
    if len(found) > MOST_GAPS:
        raise InputError(f"{len(found)} words are hidden; ask for at most {MOST_GAPS} at once.")
    with probe_lock:
        guesses = fill_mask(checkpoint, *masked.texts, top_k=MOST_GUESSES)
    gapped, _ = mask_words(checkpoint, question, dict.fromkeys(range(len(found)), 1))

    def probability(gap: int, word: str) -> float | None:
        written = found[gap].word.text if word == hidden[gap] else word
        with probe_lock:
            return rated_guess(checkpoint, question, gap, written).get("probability")

    rated = []
    for word in found:
        pieces = guesses[word.mask : word.mask + word.masks]
        if word.masks > 1:  # the best guess for each piece, together
            best = [piece[0] for piece in pieces]
            whole = "".join(token.removeprefix("##") for token, _ in best)
            pieces = [[(whole, math.prod(probability for _, probability in best))]]
        rated.append({_as_typed(token): probability for token, probability in reversed(pieces[0])})
    hidden = tuple("" if each.index is None else each.word.text.lower() for each in found)
    return Covered(tuple(filter(None, gapped.texts)), hidden, model, rated, probability)


def _as_typed(token: str) -> str:
    """A guess as the room's are counted, in lower case, unless it is special, such as [CLS]."""
    return token if token.startswith("[") else token.lower()
