"""The values that the views of sentence pairs draw, and Python code for them."""

import math
from collections.abc import Iterator
from typing import Any

from balcony.frame.question import Question
from balcony.parts.export import Row, finite, python_code
from balcony.parts.notes import NEXT, pair_labels
from bert_core.data.corpus import Corpus
from bert_core.probes.sentence_pairs import UNLABELLED, PairMatrix, window
from bert_core.storage.checkpoint import Checkpoint

MOST, FEWEST = 32, 6  # sentences of a window
WORK = 1_000_000_000  # parameters x pairs, so that nobody waits long


def window_size(checkpoint: Checkpoint) -> int:
    """How many sentences of a text are paired with each other: fewer with a large model."""
    return max(FEWEST, min(MOST, math.isqrt(WORK // checkpoint.config.parameter_count())))


def matrix_value(matrix: PairMatrix, corpus: Corpus, size: int, checkpoint: Checkpoint) -> dict[str, Any]:
    """The matrix as its view draws it. size: number of sentences in the window."""
    probabilities, labels = matrix.probabilities.tolist(), pair_labels(checkpoint)
    return {
        "numbers": [number + 1 for number in matrix.numbers],
        "sentences": list(matrix.sentences),
        "probabilities": [finite(row) for row in probabilities],
        "pair_labels": matrix.labels.tolist(),
        "labels": list(labels),
        "notes": matrix_notes(matrix, labels) + window_note(size, len(corpus.sentences)),
    }


def matrix_notes(matrix: PairMatrix, labels: tuple[str, str]) -> list[str]:
    asked, right, true = matrix.is_asked, int(matrix.is_right.sum()), matrix.labels == 1
    notes = []
    if labels == NEXT:
        found, of = matrix.found
        notes.append(f"Ranks the true next sentence first for {found} of {of} sentences.")
    total, positive = int(asked.sum()), int((asked & true).sum())
    missed, taken = (int((asked & ~matrix.is_right & part).sum()) for part in (true, ~true))
    negative = total - positive
    wrong = f" (wrong: {missed} of {positive} {labels[0]}, {taken} of {negative} {labels[1]})" if right < total else ""
    notes.append(f"Judges {right} of {total} pairs right{wrong}. Always {labels[1]} would be right for {negative}.")
    if long := int(matrix.probabilities.isnan().sum()):
        notes.append(f"Pairs left out because they are longer than the model reads: {long}.")
    return notes


def window_note(size: int, of: int) -> list[str]:
    return [f"These are the first {size} of {of:,} sentences."] * (size < of)


def matrix_rows(value: dict[str, Any]) -> Iterator[Row]:
    """A row for each pair; no probability for a pair that is too long, no label where the text has none."""
    sentences = [*zip(value["numbers"], value["sentences"])]
    for (first, one), probabilities, labels in zip(sentences, value["probabilities"], value["pair_labels"]):
        for (second, other), p, label in zip(sentences, probabilities, labels):
            pair = {"first": first, "second": second, "first_sentence": one, "second_sentence": other}
            yield pair | {"probability": p, "is_true": None if label == UNLABELLED else label}


def matrix_code(checkpoint: Checkpoint, corpus: Corpus, size: int) -> str:
    """Python code that computes the same matrix."""
    part = window(corpus, size)[1]
    documents = "".join(
        f"    ({''.join(f'{sentence!r}, ' for sentence in document)}),\n" for document in part.documents
    )
    labels = "" if part.labels is None else f", labels={part.labels!r}"
    return python_code(
        checkpoint,
        f"corpus = Corpus((\n{documents}){labels})",
        "matrix = pair_matrix(checkpoint, corpus)",
        "matrix.probabilities  # (sentences, sentences): rows are first sentences",
        "matrix.found  # how many sentences rank their true next sentence first, and how many have one",
    )


def pair_rows(value: dict[str, Any]) -> Iterator[Row]:
    if "is_next" in value:
        yield {"is_next": value["is_next"]}


def pair_code(checkpoint: Checkpoint, question: Question) -> str:
    call = f"is_next = next_sentence(checkpoint, {question.texts_code})"
    return python_code(checkpoint, call, "is_next  # the probability that the second sentence follows")
