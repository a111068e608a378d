"""A question to the room: which words are hidden. They stay covered until the teacher uncovers them."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
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
    typed [MASK]. model: its name. rated: for each gap the probability of each word by the model, the likeliest first.
    guesses: words for each gap, by visitor.
    """

    texts: tuple[str, ...]
    words: tuple[str, ...]
    model: str
    rated: list[dict[str, float]]
    number: int = 0
    is_open: bool = True
    guesses: dict[str, list[str]] = field(default_factory=dict)

    def shown_to(self, visitor: str, is_teacher: bool) -> dict[str, Any]:
        """What a page shows. own: the visitor's guess. bars: for each gap rows [word, its guesses], for the teacher and
        who has guessed; closed, rows as of `_beside`, with the model."""
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
        return shown | {"model": self.model, "bars": list(map(self._beside, self.counts(), self.rated, self.words))}

    def counts(self) -> list[list[tuple[str, int]]]:
        """How often each guess for each gap was made, the commonest ones."""
        gaps = range(len(self.words))
        given = ([each[gap] for each in self.guesses.values() if each[gap]] for gap in gaps)
        return [Counter(words).most_common(MOST_BARS) for words in given]

    @staticmethod
    def _beside(
        counted: list[tuple[str, int]], rated: dict[str, float], hidden: str
    ) -> list[tuple[str, int, float | None, bool]]:
        """Rows [word, its guesses, its probability by the model or None, whether it is hidden] of a gap."""
        counts = dict(counted)
        words = dict.fromkeys([*counts, *islice(rated, MOST_GUESSES), *filter(None, [hidden])])
        rows = [(word, counts.get(word, 0), rated.get(word), word == hidden) for word in words]
        return sorted(rows, key=lambda row: (-row[1], -(row[2] or 0)))


def cover(asked: PageRequest) -> Round:
    """Ask for the words that are hidden in the sentences of a page's question. Raises BertCoreError."""
    checkpoint, question, model = asked.checkpoint, asked.question, asked.model
    _, found = mask_words(checkpoint, question)
    if not found:
        raise InputError("Hide a word in the tab Masked words first.")
    if len(found) > MOST_GAPS:
        raise InputError(f"{len(found)} words are hidden; ask for at most {MOST_GAPS} at once.")
    gapped, _ = mask_words(checkpoint, question, dict.fromkeys(range(len(found)), 1))
    hidden = tuple("" if each.index is None else each.word.text.lower() for each in found)
    with probe_lock:
        guesses = fill_mask(checkpoint, *gapped.texts, top_k=checkpoint.config.vocab_size)
        rated = [_by_word(each) for each in guesses]
        for gap, word in enumerate(hidden):
            if word and word not in rated[gap]:  # of several pieces, or unknown
                whole = rated_guess(checkpoint, question, gap, found[gap].word.text)
                rated[gap] |= {word: whole["probability"]} if "probability" in whole else {}
    name = caption(model) if question.model in asked.space.runs else model.title
    return Round(tuple(filter(None, gapped.texts)), hidden, name, rated)


def _by_word(guesses: list[tuple[str, float]]) -> dict[str, float]:
    """The probability of each word as the room types it, in lower case; special tokens such as [CLS] stay as they
    are."""
    rated: dict[str, float] = {}
    for token, probability in guesses:
        rated.setdefault(token if token.startswith("[") else token.lower(), probability)
    return rated
