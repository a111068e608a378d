"""Next sentence: does the second sentence follow the first? One pair in detail, and every pair of the text."""

import itertools
from typing import Any

import gradio as gr

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import MODEL, TEXTS, Question
from balcony.frame.shown_model import caption
from balcony.frame.tab import Tab
from balcony.handlers import on_error
from balcony.next_sentence import pair_views as pairs
from balcony.parts.downloads import exporter
from balcony.parts.notes import NEXT, pair_labels, unknown_note
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import Model
from balcony.views import view
from bert_core.data.corpus import Corpus
from bert_core.errors import InputError
from bert_core.probes.sentence_pairs import PairMatrix, next_sentence, pair_matrix
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


VERDICT, MATRIX, BESIDE = "next-verdict", "next-matrix", "next-other-matrix"  # elem_ids
OTHER = "other"  # the verdict of the model to compare with


def lay_out(page: Page) -> None:
    with gr.Column(elem_id="next-stage"):
        with gr.Column(elem_id="next-all"):
            with gr.Column(elem_id="next-matrices"):
                view("next_sentence/matrix", elem_id=MATRIX)
                view("next_sentence/matrix", elem_id=BESIDE)
            exporter(
                *(page, "the matrix"),
                of="next-matrices",
                elem_id="next-matrix-download",
                name="matrix",
                answer=judge_all,
                views=(MATRIX, BESIDE),
                rows=pairs.matrix_rows,
                title=(),
                code=code_of_matrix,
            )
        with gr.Column(elem_id="next-one"):
            with gr.Column(elem_id="next-pair"):
                view("next_sentence/verdict", elem_id=VERDICT)
            exporter(
                *(page, "the pair"),
                of="next-pair",
                elem_id="next-download",
                name="pair",
                answer=judge_apart,
                views=(VERDICT, OTHER),
                rows=pairs.pair_rows,
                code=code_of_pair,
            )
    page.answer("verdict", (*TEXTS, "other"), (VERDICT,), judge)
    page.answer("matrix", (*MODEL, "other"), (MATRIX, BESIDE), judge_all)


TAB = Tab(
    "next-sentence",
    "Next sentence",
    lay_out,
    hint="",
    compares=True,
    draws_strangers=True,
    story=(2, "Now judge a pair of sentences"),
)


def is_whole(question: Question) -> bool:
    return bool(question.text.strip() and question.pair.strip())


def judge(asked: PageRequest) -> dict[str, Any]:
    """The answer for the pair, and that of the model to compare with."""
    if not is_whole(asked.question):
        return {VERDICT: {"hint": HINT}}
    value = verdict_value(asked.checkpoint, asked.question) | {"follows": follows(asked.corpus, asked.question)}
    if asked.question.other:
        value |= {"caption": caption(asked.model), OTHER: judge_beside(asked)}
    return {VERDICT: value}


@on_error(lambda sentence: {"error": sentence})
def judge_beside(asked: PageRequest) -> dict[str, Any]:
    model = asked.other
    assert model is not None
    notes = unknown_note(model.checkpoint, asked.question.text, asked.question.pair)
    return verdict_value(model.checkpoint, asked.question) | {"caption": caption(model), "notes": notes}


def judge_apart(asked: PageRequest) -> dict[str, Any]:
    """The verdict of each model."""
    verdict = judge(asked)[VERDICT]
    return {OTHER: verdict.pop(OTHER, None), VERDICT: verdict}


def judge_all(asked: PageRequest) -> dict[str, Any]:
    """All pairs of the window, by the model and by the one to compare with."""
    model, corpus, (second, why) = asked.model, asked.corpus, asked.other_or_why
    size = shown_size(model, second)
    one = matrix_of(asked, model.checkpoint, size)
    value = pairs.matrix_value(one, corpus, size, model.checkpoint)
    if second is None:
        return {MATRIX: value | {"caption": ALL}, BESIDE: {"error": why} if why else None}
    return {MATRIX: value | {"caption": caption(model)}, BESIDE: matrix_beside(asked, second, size)}


@on_error(lambda sentence: {"error": sentence})
def matrix_beside(asked: PageRequest, model: Model, size: int) -> dict[str, Any]:
    """The same pairs by the model to compare with."""
    value = pairs.matrix_value(matrix_of(asked, model.checkpoint, size), asked.corpus, size, model.checkpoint)
    return value | {"caption": caption(model)}


def matrix_of(asked: PageRequest, checkpoint: Checkpoint, size: int) -> PairMatrix:
    """Every pair of `size` sentences of the text."""
    with probe_lock:
        return pair_matrix(checkpoint, asked.corpus, limit=size)


def code_of_pair(asked: PageRequest) -> str:
    if not is_whole(asked.question):
        raise InputError(HINT)
    return pairs.pair_code(asked.checkpoint, asked.question)


def code_of_matrix(asked: PageRequest) -> str:
    size = shown_size(asked.model, asked.other_or_why[0])
    return pairs.matrix_code(asked.checkpoint, asked.corpus, size)


def shown_size(*models: Model | None) -> int:
    """Number of sentences in the window that is on the page."""
    return min(pairs.window_size(each.checkpoint) for each in models if each)


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
