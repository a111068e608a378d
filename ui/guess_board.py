"""A few sentences of the corpus with one word hidden, guessed again for every snapshot of a run."""

import time
from typing import Any

from bert_core.checkpoint import Checkpoint
from bert_core.corpus import Corpus
from bert_core.probing import fill_mask
from bert_core.reading import Word, read_words
from bert_core.tokenization import MASK
from ui.turns import probing

SENTENCES = 5
LONGEST_SENTENCE = 160
# Guessing may take this share of the time, so that the table never slows the training it watches.
SHARE_OF_TIME = 0.05


class GuessBoard:
    """The hidden words of one run and the newest guesses for them."""

    def __init__(self, corpus: Corpus, checkpoint: Checkpoint) -> None:
        self._asked = _hidden_words(corpus, checkpoint)
        self._step = -1
        self._guesses: list[list[Any]] = []
        self._rest_until = 0.0

    @property
    def sentences(self) -> list[list[str]]:
        """Text before, the hidden word, text after; one row per sentence."""
        return [[text[:start], text[start:end], text[end:]] for text, (start, end), _, _ in self._asked]

    def guesses(self, step: int, checkpoint: Checkpoint, *, now: bool) -> tuple[int, list[list[Any]]]:
        """The step that was asked and [guess, probability, right] per sentence.

        now: ask even if the last time was a moment ago, as for the last snapshot of a run.
        """
        began = time.monotonic()
        if step != self._step and (now or began >= self._rest_until):
            self._guesses = self.at(checkpoint)
            self._step = step
            self._rest_until = time.monotonic() + (time.monotonic() - began) / SHARE_OF_TIME
        return self._step, self._guesses

    def at(self, checkpoint: Checkpoint) -> list[list[Any]]:
        """[guess, probability, right] per sentence, of the run's model at any step."""
        with probing():
            return [self._guess(checkpoint, *asked) for asked in self._asked]

    @staticmethod
    def _guess(checkpoint: Checkpoint, text: str, place: tuple[int, int], answer: str, pair: str | None) -> list[Any]:
        start, end = place
        [(guess, probability)] = fill_mask(checkpoint, text[:start] + MASK + text[end:], pair, top_k=1)[0]
        return [guess, round(probability, 3), int(guess == answer)]


def _hidden_words(corpus: Corpus, checkpoint: Checkpoint) -> list[tuple[str, tuple[int, int], str, str | None]]:
    """Sentences spread over the corpus: text, place of the hidden word, its token, and the sentence that follows."""
    followed_by: dict[str, str | None] = {}  # each sentence once, with what follows it the first time
    for document in corpus.documents:
        for sentence, after in zip(document, [*document[1:], None], strict=True):
            if len(sentence) <= LONGEST_SENTENCE:
                followed_by.setdefault(sentence, after)
    pairs = list(followed_by.items())
    asked = []
    for index in range(0, len(pairs), max(1, len(pairs) // SENTENCES)):
        text, after = pairs[index]
        known = [word for word in read_words(checkpoint, text) if is_whole(word)]
        if known and len(asked) < SENTENCES:
            longest = max(known, key=lambda word: word.end - word.start)
            asked.append((text, (longest.start, longest.end), longest.pieces[0], after))
    return asked


def is_whole(word: Word) -> bool:
    """Whether the model knows the word and reads it in one piece."""
    return len(word.pieces) == 1 and word.is_known and not word.is_special
