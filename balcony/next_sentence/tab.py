"""Next sentence: does the second sentence follow the first? One pair in detail, and every pair of the text."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import gradio as gr

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import MODEL, TEXTS, Question
from balcony.frame.shown_model import of_both
from balcony.frame.tab import Tab
from balcony.parts.downloads import exporter
from balcony.parts.export import Row, finite, python_code
from balcony.parts.notes import NEXT, pair_labels, unknown_note
from balcony.server.probe_lock import probe_lock
from balcony.views import view
from bert_core.data.corpus import Corpus
from bert_core.errors import InputError
from bert_core.probes.sentence_pairs import UNLABELLED, PairMatrix, next_sentence, pair_matrix, window
from bert_core.storage.checkpoint import Checkpoint

# Keys: whether class 0 is IsNext, and whether the model predicts class 0.
VERDICTS = {
    (True, True): "The model judges that the second sentence follows the first:",
    (True, False): "The model judges that the second sentence does not follow the first:",
    (False, True): "The model judges that this pair belongs to the class {label}:",
    (False, False): "The model judges that this pair does not belong to the class {label}:",
}
HINT = "Type or choose two sentences; the model judges whether the second follows the first."
ALL = "Every sentence with every other"
MOST, FEWEST = 32, 6  # sentences of a window
WORK = 1_000_000_000  # parameters x pairs, so that nobody waits long

VERDICT, OTHER_VERDICT = "next-verdict", "next-other-verdict"  # elem_ids
MATRIX, OTHER_MATRIX = "next-matrix", "next-other-matrix"


def lay_out(page: Page) -> None:
    with gr.Column(elem_id="next-stage"):
        with gr.Column(elem_id="next-all"):
            with gr.Column(elem_id="next-matrices"):
                view("next_sentence/matrix", elem_id=MATRIX)
                view("next_sentence/matrix", elem_id=OTHER_MATRIX)
            exporter(
                *(page, "the matrix"),
                of="next-matrices",
                elem_id="next-matrix-download",
                name="matrix",
                answer=judge_all,
                views=(MATRIX, OTHER_MATRIX),
                rows=matrix_rows,
                title=(),
                code=lambda asked: matrix_code(asked.checkpoint, asked.corpus, shown_size(asked)),
            )
        with gr.Column(elem_id="next-one"):
            with gr.Column(elem_id="next-pair"):
                view("next_sentence/verdict", elem_id=VERDICT)
                view("next_sentence/verdict", options={"beside": True}, elem_id=OTHER_VERDICT)
            exporter(
                *(page, "the pair"),
                of="next-pair",
                elem_id="next-download",
                name="pair",
                answer=judge,
                views=(VERDICT, OTHER_VERDICT),
                rows=pair_rows,
                code=lambda asked: pair_code(asked.checkpoint, asked.question),
            )
    page.answer("verdict", (*TEXTS, "other"), (VERDICT, OTHER_VERDICT), judge)
    page.answer("matrix", (*MODEL, "other"), (MATRIX, OTHER_MATRIX), judge_all)


TAB = Tab(
    "next-sentence",
    "Next sentence",
    lay_out,
    hint="",
    compares=True,
    draws_strangers=True,
    story=(2, "Now judge a pair of sentences"),
)


def judge(asked: PageRequest) -> dict[str, Any]:
    """The answer for the pair, and that of the model to compare with."""
    question = asked.question
    if not is_whole(question):
        return {VERDICT: {"hint": HINT}, OTHER_VERDICT: None}

    def beside(checkpoint: Checkpoint) -> dict[str, Any]:
        return verdict_value(checkpoint, question) | {"notes": unknown_note(checkpoint, question.text, question.pair)}

    first = verdict_value(asked.checkpoint, question) | {"follows": follows(asked.corpus, question)}
    return dict(zip((VERDICT, OTHER_VERDICT), of_both(asked, first, beside)))


def is_whole(question: Question) -> bool:
    return bool(question.text.strip() and question.pair.strip())


def follows(corpus: Corpus, question: Question) -> bool | None:
    """Whether the text has the second sentence right after the first; None where it lacks one of them."""
    pair = question.text, question.pair
    if not {*pair} <= {*corpus.sentences}:
        return None
    return any(pair in itertools.pairwise(document) for document in corpus.documents)


def verdict_value(checkpoint: Checkpoint, question: Question) -> dict[str, Any]:
    """The answer in words, its probability, and the probability of IsNext."""
    with probe_lock:
        is_next = next_sentence(checkpoint, question.text, question.pair)
    labels = pair_labels(checkpoint)
    return {
        "sentence": VERDICTS[labels == NEXT, is_next >= 0.5].format(label=labels[0]),
        "labels": list(labels),
        "probability": max(is_next, 1 - is_next),
        "is_next": is_next,
        "notes": [],
    }


def pair_rows(value: dict[str, Any]) -> Iterator[Row]:
    if "is_next" in value:
        yield {"is_next": value["is_next"]}


def pair_code(checkpoint: Checkpoint, question: Question) -> str:
    if not is_whole(question):
        raise InputError(HINT)
    call = f"is_next = next_sentence(checkpoint, {question.texts_code})"
    return python_code(checkpoint, call, "is_next  # the probability that the second sentence follows")


def judge_all(asked: PageRequest) -> dict[str, Any]:
    """All pairs of the window, by the model and by the one to compare with."""
    size, corpus = shown_size(asked), asked.corpus

    def judged(checkpoint: Checkpoint) -> dict[str, Any]:
        with probe_lock:
            return matrix_value(pair_matrix(checkpoint, corpus, limit=size), corpus, size, checkpoint)

    first = judged(asked.checkpoint) | {"caption": ALL}
    return dict(zip((MATRIX, OTHER_MATRIX), of_both(asked, first, judged)))


def shown_size(asked: PageRequest) -> int:
    """Number of sentences in the window that is on the page."""
    return min(window_size(each.checkpoint) for each in (asked.model, asked.other_or_why[0]) if each)


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
