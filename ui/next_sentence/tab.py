"""Next sentence: does the second sentence follow the first? One pair in detail, and every pair of the text."""

import itertools
from typing import Any

import gradio as gr

from bert_core.data.corpus import Corpus
from bert_core.errors import BertCoreError, InputError
from bert_core.probes.sentence_pairs import PairMatrix, next_sentence, pair_matrix
from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import on_error
from ui.next_sentence import pair_views as pairs
from ui.parts.downloads import exporter, numbers_of_models, offer
from ui.parts.export import Numbers
from ui.parts.notes import NEXT, pair_labels, unknown_note
from ui.parts.page import Asked, Page
from ui.parts.question import Question
from ui.parts.shown_model import caption
from ui.server.probe_lock import probe_lock
from ui.server.workspace import Model
from ui.views import view

# Keys: whether class 0 is IsNext, and whether the model predicts class 0.
VERDICTS = {
    (True, True): "The model judges that the second sentence follows the first:",
    (True, False): "The model judges that the second sentence does not follow the first:",
    (False, True): "The model judges that this pair belongs to the class {label}:",
    (False, False): "The model judges that this pair does not belong to the class {label}:",
}
HINT = "Type or choose two sentences; the model judges whether the second follows the first."
ACROSS_HINT = (
    "A row is [CLS] or a word of the first sentence; point at a cell to read how much it attends to a word of the "
    "second."
)
MATRIX_HINT = (
    "Rows are first sentences, columns second ones; point at a cell to read it, click it to put the pair into the "
    "boxes above."
)
ALL = "Every sentence with every other"
HIDDEN = {"hidden": True}


def next_sentence_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with page.tab("Next sentence", "next-sentence"):
        with gr.Column(elem_id="next-pair"):
            verdict = view("verdict", elem_id="next-verdict")
            across = view("pairAcross", options={"hint": ACROSS_HINT}, elem_id="next-across")
        pair_export = exporter("the pair", of="next-pair", elem_id="next-download")
        with gr.Column(elem_id="next-matrices"):
            matrix = view("pairMatrix", options={"hint": MATRIX_HINT}, elem_id="next-matrix")
            matrix_beside = view("pairMatrix", options={"hint": MATRIX_HINT}, elem_id="next-other-matrix")
        matrix_export = exporter("the matrix", of="next-matrices", elem_id="next-matrix-download")

    def is_whole(question: Question) -> bool:
        return bool(question.text.strip() and question.pair.strip())

    def judge(asked: Asked) -> dict[Any, Any]:
        """The answer for the pair, and that of the model to compare with."""
        if not is_whole(asked.question):
            return {verdict: {"hint": HINT}}
        value = verdict_value(asked.checkpoint, asked.question) | {"follows": follows(asked.corpus, asked.question)}
        if asked.question.other:
            value |= {"caption": caption(asked.model), "other": beside(asked)}
        return {verdict: value}

    @on_error(lambda sentence: {"error": sentence})
    def beside(asked: Asked) -> dict[str, Any]:
        model = asked.other
        assert model is not None
        return verdict_value(model.checkpoint, asked.question) | {"caption": caption(model)}

    def cross(asked: Asked) -> dict[Any, Any]:
        """The attention across the pair."""
        if not is_whole(asked.question):
            return {across: HIDDEN}
        with probe_lock:
            return {across: pairs.across_value(asked.checkpoint, asked.question)}

    def judged(asked: Asked, checkpoint: Checkpoint, size: int) -> PairMatrix:
        with probe_lock:
            return pair_matrix(checkpoint, asked.corpus, limit=size, start=asked.question.start)

    def matrices(asked: Asked) -> dict[Any, Any]:
        """All pairs of the window, by the model and by the one to compare with."""
        model, corpus = asked.model, asked.corpus
        try:
            second, why = asked.other, ""
        except BertCoreError as error:
            second, why = None, str(error)
        size = min(pairs.window_size(each.checkpoint) for each in (model, second) if each)
        one = judged(asked, model.checkpoint, size)
        value = pairs.matrix_value(one, corpus, size, model.checkpoint)
        if second is None:
            return {matrix: value | {"caption": ALL}, matrix_beside: {"error": why} if why else HIDDEN}
        return {
            matrix: value | {"caption": caption(model)},
            matrix_beside: beside_matrix(asked, second, size, one),
        }

    @on_error(lambda sentence: {"error": sentence})
    def beside_matrix(asked: Asked, model: Model, size: int, one: PairMatrix) -> dict[str, Any]:
        two = judged(asked, model.checkpoint, size)
        value = pairs.matrix_value(two, asked.corpus, size, model.checkpoint)
        notes = [*value["notes"], pairs.difference_note(one, two)]
        return value | {"caption": caption(model), "notes": notes, "beside": True}

    def check_pair(asked: Asked) -> None:
        if not is_whole(asked.question):
            raise InputError(HINT)

    def shown_size(asked: Asked) -> int:
        """Of the window that is on the page."""
        return min(pairs.window_size(each.checkpoint) for each in (asked.model, asked.other) if each)

    def numbers_of_pair(asked: Asked) -> Numbers | dict[str, Numbers]:
        check_pair(asked)
        return numbers_of_models(asked, lambda each: pairs.pair_numbers(each, asked.question))

    def code_of_pair(asked: Asked) -> str:
        check_pair(asked)
        return pairs.pair_code(asked.checkpoint, asked.question)

    def numbers_of_matrix(asked: Asked) -> Numbers | dict[str, Numbers]:
        size = shown_size(asked)
        return numbers_of_models(asked, lambda each: pairs.matrix_numbers(judged(asked, each, size)))

    def code_of_matrix(asked: Asked) -> str:
        return pairs.matrix_code(asked.checkpoint.name, asked.corpus, asked.question.start, shown_size(asked))

    page.on("verdict", judge, lambda sentence: {verdict: {"error": sentence}})
    page.on("across", cross, lambda sentence: {across: {"error": sentence}})
    page.on(
        "matrix",
        matrices,
        lambda sentence: {matrix: {"error": sentence}, matrix_beside: HIDDEN},
    )
    offer(page, pair_export, "pair", numbers_of_pair, code=code_of_pair)
    offer(page, matrix_export, "matrix", numbers_of_matrix, title=(), code=code_of_matrix)


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
        "notes": unknown_note(checkpoint, question.text, question.pair),
    }
