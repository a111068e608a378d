"""A few sentences of the corpus with one masked word each, guessed again for every snapshot of a run."""

import itertools
from typing import Any

from balcony.parts.first_right import FirstRight
from balcony.server.probe_lock import probe_lock
from bert_core.data.corpus import Corpus
from bert_core.probes.forward import likeliest, word_scores
from bert_core.probes.reading import Row, Word, masked_row, read_words, row_of, tokenize
from bert_core.storage.checkpoint import Checkpoint

SENTENCES = 5
LONGEST_SENTENCE = 160
MOST_READ = 20_000  # sentences from the start of a text, to choose from


class GuessBoard:
    """The masked words of one run, and its models' guesses.

    sentences: text before, the masked word, text after, the sentence that is read after it, and the word's number among
    those that a question can hide; one row per sentence. first_right: of these words.
    """

    def __init__(self, corpus: Corpus, checkpoint: Checkpoint) -> None:
        asked = _masked_words(corpus, checkpoint)
        self.sentences = [
            [text[: word.start], text[word.start : word.end], text[word.end :], pair, number]
            for text, pair, number, word, _ in asked
        ]
        self._rows = [row for *_, row in asked]
        self._words = [word for *_, word, _ in asked]
        self._positions = [[word.first] for word in self._words]
        self.first_right = FirstRight(self._rows, self._positions, [word.pieces for word in self._words])

    def at(self, checkpoint: Checkpoint) -> list[list[Any]]:
        """[guess, probability, right] per sentence, of the run's model at any step."""
        with probe_lock:
            guesses = word_scores(
                *(checkpoint, self._rows, self._positions), lambda _, scores: likeliest(checkpoint, scores[0], 1)[0]
            )
        return [
            [guess, round(probability, 6), int(guess == word.pieces[0])]
            for (guess, probability), word in zip(guesses, self._words, strict=True)
        ]


def _masked_words(corpus: Corpus, checkpoint: Checkpoint) -> list[tuple[str, str, int, Word, Row]]:
    """Sentences spread over the text: each with the next one where both fit, the masked word's number, that word, and
    the row."""
    followed_by: dict[str, str | None] = {}  # each sentence once, with the sentence after its first occurrence
    following = (
        neighbours for document in corpus.documents for neighbours in zip(document, [*document[1:], None], strict=True)
    )
    for sentence, after in itertools.islice(following, MOST_READ):
        if len(sentence) <= LONGEST_SENTENCE:
            followed_by.setdefault(sentence, after)
    # A model that reads pairs guesses worse in a sentence alone, as the last one of a document is.
    followed: list[tuple[str, str | None]] = [each for each in followed_by.items() if each[1]]
    pairs = followed or list(followed_by.items())
    asked: list[tuple[str, str, int, Word, Row]] = []
    taken: set[str] = set()  # a text may have one long word in every sentence
    for index in range(0, len(pairs), max(1, len(pairs) // SENTENCES)):
        text, after = pairs[index]
        words = [word for word in read_words(checkpoint, text) if not word.is_special]
        known = [number for number, word in enumerate(words) if is_whole(word)]
        both = after and _row(checkpoint, text, after)
        row = both or _row(checkpoint, text, None)
        if known and row and len(asked) < SENTENCES:
            number = max(known, key=lambda k: (words[k].pieces[0] not in taken, words[k].end - words[k].start))
            longest = words[number]
            taken.add(longest.pieces[0])
            masked = masked_row(checkpoint, row, longest.first, longest.last)
            asked.append((text, after if after and both else "", number, longest, masked))
    return asked


def _row(checkpoint: Checkpoint, text: str, pair: str | None) -> Row | None:
    """A text as the model reads it; None if it is too long."""
    encoding = tokenize(checkpoint, text, pair)
    fits = len(encoding) <= checkpoint.config.max_position_embeddings
    return row_of(encoding) if fits else None


def is_whole(word: Word) -> bool:
    """Whether the model knows the word and reads it in one piece."""
    return len(word.pieces) == 1 and word.is_known and not word.is_special
