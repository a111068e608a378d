"""A few sentences of the corpus with one word hidden, guessed again for every snapshot of a run."""

import itertools
from typing import Any

from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import MASK
from bert_core.probes.forward import Row, Word, forward_rows, read_words, tokenize
from bert_core.storage.checkpoint import Checkpoint
from ui.server.probe_lock import probe_lock

SENTENCES = 5
LONGEST_SENTENCE = 160
MOST_READ = 20_000  # sentences from the start of a text, to choose from


class GuessBoard:
    """The hidden words of one run, and what its models guess for them.

    sentences: text before, the hidden word, text after; one row per sentence.
    """

    def __init__(self, corpus: Corpus, checkpoint: Checkpoint) -> None:
        self.sentences: list[list[str]] = []
        self._rows: list[Row] = []
        self._answers: list[str] = []
        self._places: list[tuple[int, int]] = []
        for text, word, row in _hidden_words(corpus, checkpoint):
            self.sentences.append([text[: word.start], text[word.start : word.end], text[word.end :]])
            self._answers.append(word.pieces[0])
            self._places.append((len(self._rows), word.first))
            self._rows.append(row)

    def at(self, checkpoint: Checkpoint) -> list[list[Any]]:
        """[guess, probability, right] per sentence, of the run's model at any step."""
        if not self._rows:
            return []
        tokenizer = checkpoint.tokenizer
        with probe_lock:
            scores = forward_rows(checkpoint, self._rows, self._places).prediction_logits
        # An embedding may have more rows than the tokenizer has tokens; those stand for no word.
        best = scores.float().softmax(-1)[:, : tokenizer.get_vocab_size()].max(-1)
        guesses = [tokenizer.id_to_token(number) for number in best.indices.tolist()]
        return [
            [guess, round(probability, 3), int(guess == answer)]
            for guess, probability, answer in zip(guesses, best.values.tolist(), self._answers)
        ]


def _hidden_words(corpus: Corpus, checkpoint: Checkpoint) -> list[tuple[str, Word, Row]]:
    """Sentences spread over the text: text, hidden word, and its row: with what follows where it fits."""
    followed_by: dict[str, str | None] = {}  # each sentence once, with what follows it the first time
    following = (
        neighbours for document in corpus.documents for neighbours in zip(document, [*document[1:], None], strict=True)
    )
    for sentence, after in itertools.islice(following, MOST_READ):
        if len(sentence) <= LONGEST_SENTENCE:
            followed_by.setdefault(sentence, after)
    pairs = list(followed_by.items())
    asked = []
    for index in range(0, len(pairs), max(1, len(pairs) // SENTENCES)):
        text, after = pairs[index]
        known = [word for word in read_words(checkpoint, text) if is_whole(word)]
        row = _row(checkpoint, text, after) or _row(checkpoint, text, None)
        if known and row and len(asked) < SENTENCES:
            longest = max(known, key=lambda word: word.end - word.start)
            row[0][longest.first] = checkpoint.tokenizer.token_to_id(MASK)
            asked.append((text, longest, row))
    return asked


def _row(checkpoint: Checkpoint, text: str, pair: str | None) -> Row | None:
    """A text as the model reads it, None where it is longer."""
    encoding = tokenize(checkpoint, text, pair)
    fits = len(encoding) <= checkpoint.config.max_position_embeddings
    return (encoding.ids, encoding.type_ids) if fits else None


def is_whole(word: Word) -> bool:
    """Whether the model knows the word and reads it in one piece."""
    return len(word.pieces) == 1 and word.is_known and not word.is_special
