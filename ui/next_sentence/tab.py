"""Next sentence: does the second sentence follow the first? One pair in detail, and every pair of the text."""

from typing import Any

import gradio as gr

from bert_core.errors import BertCoreError, InputError
from bert_core.probes.sentence_pairs import PairMatrix, next_sentence, pair_matrix
from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import QUIET, on_error
from ui.next_sentence import pair_views as pairs
from ui.parts.compare import caption, compare_with, fill_lists, model_of
from ui.parts.downloads import exporter, numbers_of_models, offer
from ui.parts.export import Numbers
from ui.parts.notes import NEXT, pair_labels, unknown_note
from ui.parts.page import Page, sentence_row
from ui.parts.question import Question, Values
from ui.server.probe_lock import probe_lock
from ui.server.workspace import Model
from ui.views import answer_to, view

FIRST_PAIR = ("Oh Congratulations, Juliet", "Thank you Romeo")
# Keys: whether class 0 is IsNext, and whether the model predicts class 0.
VERDICTS = {
    (True, True): "The model judges that the second sentence follows the first:",
    (True, False): "The model judges that the second sentence does not follow the first:",
    (False, True): "The model judges that this pair belongs to the class {label}:",
    (False, False): "The model judges that this pair does not belong to the class {label}:",
}
HINT = "Type or choose two sentences; the model judges whether the second follows the first."
ALL = "Every sentence with every other"
HIDDEN = {"hidden": True}


def next_sentence_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with gr.Tab("Next sentence", elem_id="tab-next-sentence") as tab:
        first, firsts = sentence_row("First sentence", "next-first", FIRST_PAIR[0])
        second, seconds = sentence_row("Second sentence", "next-second", FIRST_PAIR[1])
        with gr.Row(elem_id="next-tools"):
            swap = gr.Button("Swap the sentences", elem_id="next-swap", size="sm")
            other = compare_with("next-other")
        with gr.Column(elem_id="next-pair"):
            verdict = view("verdict", events=("submit",), elem_id="next-verdict")
            across = view("pairAcross", events=("input",), elem_id="next-across")
        pair_export = exporter("the pair", of="next-pair", elem_id="next-download")
        with gr.Column(elem_id="next-matrices"):
            matrix = view("pairMatrix", events=("input", "select", "submit"), elem_id="next-matrix")
            matrix_beside = view("pairMatrix", events=("select",), elem_id="next-other-matrix")
        matrix_export = exporter("the matrix", of="next-matrices", elem_id="next-matrix-download")

    def asked(values: Values) -> Question:
        head = (values[across] or {}).get("head")
        return Question(values[first], values[second], values[other], head=head and (int(head[0]), int(head[1])))

    def asked_pair(values: Values) -> Question:
        question = asked(values)
        if not question.text.strip() or not question.pair.strip():
            raise InputError(HINT)
        return question

    @on_error(lambda sentence: {verdict: {"error": sentence}, across: HIDDEN})
    def judge(values: Values) -> dict[Any, Any]:
        """The answer for the pair, that of the model to compare with, and the attention across the pair."""
        question, model = asked(values), page.model(values[page.visitor])
        if not question.text.strip() or not question.pair.strip():
            return {verdict: {"hint": HINT}, across: HIDDEN}
        value = verdict_value(model.checkpoint, question)
        if question.other:
            value |= {"caption": caption(model), "other": beside(values[page.visitor], question)}
        return {verdict: value, **cross(values)}

    @on_error(lambda sentence: {"error": sentence})
    def beside(token: str, question: Question) -> dict[str, Any]:
        model = model_of(page, token, question.other)
        return verdict_value(model.checkpoint, question) | {"caption": caption(model)}

    @on_error(lambda sentence: {across: HIDDEN})
    def cross(values: Values) -> dict[Any, Any]:
        with probe_lock:
            value = pairs.across_value(page.model(values[page.visitor]).checkpoint, asked(values))
        return {across: answer_to(values[across], value)}

    def judged(checkpoint: Checkpoint, token: str, start: int, size: int) -> PairMatrix:
        with probe_lock:
            return pair_matrix(checkpoint, page.corpus(token), limit=size, start=start)

    @on_error(lambda sentence: {matrix: {"error": sentence}, matrix_beside: HIDDEN})
    def matrices(values: Values) -> dict[Any, Any]:
        """All pairs of the window, by the model and by the one to compare with."""
        token, key, shown = values[page.visitor], values[other], values[matrix]
        model, corpus, start = page.model(token), page.corpus(token), window_start(values)
        try:
            second, why = model_of(page, token, key) if key else None, ""
        except BertCoreError as error:
            second, why = None, str(error)
        size = min(pairs.window_size(each.checkpoint) for each in (model, second) if each)
        one = judged(model.checkpoint, token, start, size)
        value = answer_to(shown, pairs.matrix_value(one, corpus, size, model.checkpoint))
        if second is None:
            return {matrix: value | {"caption": ALL}, matrix_beside: {"error": why} if why else HIDDEN}
        return {
            matrix: value | {"caption": caption(model)},
            matrix_beside: beside_matrix(second, token, start, size, one),
        }

    @on_error(lambda sentence: {"error": sentence})
    def beside_matrix(model: Model, token: str, start: int, size: int, one: PairMatrix) -> dict[str, Any]:
        two = judged(model.checkpoint, token, start, size)
        value = pairs.matrix_value(two, page.corpus(token), size, model.checkpoint)
        notes = [*value["notes"], pairs.difference_note(one, two)]
        return value | {"caption": caption(model), "notes": notes, "beside": True}

    def window_start(values: Values) -> int:
        return int((values[matrix] or {}).get("start", 0))

    def shown_size(values: Values, checkpoint: Checkpoint) -> int:
        size = pairs.window_size(checkpoint)
        return min(size, int((values[matrix] or {}).get("size", size)))

    def numbers_of_pair(values: Values) -> Numbers | dict[str, Numbers]:
        token, question = values[page.visitor], asked_pair(values)
        return numbers_of_models(page, token, question.other, lambda each: pairs.pair_numbers(each, question))

    def code_of_pair(values: Values) -> str:
        return pairs.pair_code(page.model(values[page.visitor]).checkpoint, asked_pair(values))

    def numbers_of_matrix(values: Values) -> Numbers | dict[str, Numbers]:
        token, start = values[page.visitor], window_start(values)

        def of_model(checkpoint: Checkpoint) -> Numbers:
            return pairs.matrix_numbers(judged(checkpoint, token, start, shown_size(values, checkpoint)))

        return numbers_of_models(page, token, values[other], of_model)

    def code_of_matrix(values: Values) -> str:
        token, checkpoint = values[page.visitor], page.model(values[page.visitor]).checkpoint
        size = shown_size(values, checkpoint)
        return pairs.matrix_code(checkpoint.name, page.corpus(token), window_start(values), size)

    def load(event: gr.EventData) -> tuple[str, str]:
        """Put the clicked pair into the boxes."""
        return str(event.first), str(event.second)

    always = {"trigger_mode": "always_last", **QUIET}
    of_pair, of_matrix = {page.visitor, first, second, other, across}, {page.visitor, other, matrix}
    gr.on(
        [tab.select, first.change, second.change, other.input, verdict.submit],
        judge,
        of_pair,
        {verdict, across},
        **always,
    )
    across.input(cross, of_pair, {across}, **always)
    gr.on(
        [tab.select, other.input, matrix.input, matrix.submit], matrices, of_matrix, {matrix, matrix_beside}, **always
    )
    gr.on([matrix.select, matrix_beside.select], load, None, [first, second], **always)
    offer(pair_export, "pair", of_pair, numbers_of_pair, code=code_of_pair)
    offer(matrix_export, "matrix", of_matrix, numbers_of_matrix, code=code_of_matrix)
    swap.click(None, [first, second], [first, second], js="(first, second) => [second, first]", **QUIET)
    fill_lists(page, tab, {firsts: first, seconds: second}, other)


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
