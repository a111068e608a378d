"""A question to the room: which words are hidden. They stay covered until the teacher uncovers them."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from balcony.frame.masking import mask_words, rated_guess
from balcony.frame.page_request import PageRequest
from balcony.frame.shown_model import caption
from balcony.server.probe_lock import probe_lock
from bert_core.errors import InputError
from bert_core.probes.masked_words import fill_mask

MOST_GAPS = 8
MOST_GUESSES = 5  # of the model
MOST_BARS = 12  # of a histogram


@dataclass(eq=False)
class Round:
    """A question with a gap for each hidden word.

    texts: one or two sentences with a [MASK] for each gap. words: what is hidden at each gap, in lower case, "" for a
    typed [MASK]. model: its name. rated: for each gap the probability of words by the model, None for a word that it
    lacks. probability: of a word at a gap. link: to what the teacher's page shows, the part of an address after #.
    guesses: words for each gap, by visitor.
    """

    texts: tuple[str, ...]
    words: tuple[str, ...]
    model: str
    rated: list[dict[str, float | None]]
    probability: Callable[[int, str], float | None] = field(default=lambda gap, word: None, repr=False)
    number: int = 0
    link: str = ""
    is_open: bool = True
    guesses: dict[str, list[str]] = field(default_factory=dict)

    def shown_to(self, visitor: str, is_teacher: bool) -> dict[str, Any]:
        """What a page shows. own: the visitor's guess. bars: for each gap rows [word, its guesses], for the teacher and
        who has guessed; closed, rows as of `_beside`, with the link and the model."""
        own = self.guesses.get(visitor)
        shown = {
            "number": self.number,
            "texts": self.texts,
            "gaps": len(self.words),
            "open": self.is_open,
            "count": len(self.guesses),
            "own": own,
        }
        if self.is_open:
            return shown | {"bars": self.counts() if is_teacher or own else []}
        bars = [self._beside(gap, counted) for gap, counted in enumerate(self.counts())]
        return shown | {"link": self.link, "model": self.model, "bars": bars}

    def counts(self) -> list[list[tuple[str, int]]]:
        """How often each guess for each gap was made, the commonest ones."""
        gaps = range(len(self.words))
        given = ([each[gap] for each in self.guesses.values() if each[gap]] for gap in gaps)
        return [Counter(words).most_common(MOST_BARS) for words in given]

    def rate(self, counts: list[list[tuple[str, int]]]) -> None:
        """Ask the model for the probability of the room's guesses for each gap and of what is hidden."""
        for gap, counted in enumerate(counts):
            for word in [*dict(counted), self.words[gap]]:
                if word and word not in self.rated[gap]:
                    self.rated[gap][word] = self.probability(gap, word)

    def _beside(self, gap: int, counted: list[tuple[str, int]]) -> list[tuple[str, int, float | None, bool]]:
        """Rows [word, its guesses, its probability by the model or None, whether it is hidden]."""
        rated, counts = self.rated[gap], dict(counted)
        words = dict.fromkeys([*counts, *rated, *filter(None, [self.words[gap]])])
        rows = [(word, counts.get(word, 0), rated.get(word), word == self.words[gap]) for word in words]
        return sorted(rows, key=lambda row: (-row[1], -(row[2] or 0)))

    def content(self) -> dict[str, Any]:
        """All but what asks the model, as JSON data."""
        return {name: value for name, value in vars(self).items() if name != "probability"}


def cover(asked: PageRequest) -> Round:
    """Ask for the words that are hidden in the sentences of a page's question. Raises BertCoreError."""
    checkpoint, question, model = asked.checkpoint, asked.question, asked.model
    masked, found = mask_words(checkpoint, question)
    if not found:
        raise InputError("Hide a word in the tab Masked words first.")
    if len(found) > MOST_GAPS:
        raise InputError(f"{len(found)} words are hidden; ask for at most {MOST_GAPS} at once.")
    with probe_lock:
        guesses = fill_mask(checkpoint, *masked.texts, top_k=MOST_GUESSES)
    gapped, _ = mask_words(checkpoint, question, dict.fromkeys(range(len(found)), 1))
    hidden = tuple("" if each.index is None else each.word.text.lower() for each in found)

    def probability(gap: int, word: str) -> float | None:
        written = found[gap].word.text if word == hidden[gap] else word
        with probe_lock:
            return rated_guess(checkpoint, question, gap, written).get("probability")

    rated: list[dict[str, float | None]] = []
    for word in found:
        pieces = guesses[word.mask : word.mask + word.masks]
        if word.masks > 1:  # the best guess for each piece, together
            best = [piece[0] for piece in pieces]
            whole = "".join(token.removeprefix("##") for token, _ in best)
            pieces = [[(whole, math.prod(probability for _, probability in best))]]
        rated.append({_as_typed(token): probability for token, probability in reversed(pieces[0])})
    name = caption(model) if question.model in asked.space.runs else model.title
    return Round(tuple(filter(None, gapped.texts)), hidden, name, rated, probability)


def _as_typed(token: str) -> str:
    """A guess as the room's are counted, in lower case, unless it is special, such as [CLS]."""
    return token if token.startswith("[") else token.lower()
