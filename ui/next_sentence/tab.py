"""Next sentence: does the second sentence follow the first? One pair closely, and every pair of the text at once."""

from typing import Any

import gradio as gr

from bert_core.errors import BertCoreError, InputError
from bert_core.probes.sentence_pairs import PairMatrix, next_sentence, pair_matrix
from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import QUIET, on_error
from ui.next_sentence.pair_views import (
    MEAN,
    across_value,
    matrix_code,
    matrix_file,
    matrix_value,
    pair_code,
    pair_file,
    told_apart,
    window_size,
)
from ui.parts.compare import caption, choices, compare_with, model_of
from ui.parts.downloads import exporter, offer, with_other
from ui.parts.figures import MAP_OPTIONS
from ui.parts.notes import NEXT, pair_labels, unknown_note
from ui.parts.page import Page, choose_sentence
from ui.server.probe_lock import probe_lock
from ui.server.workspace import Model
from ui.views import answer_to, view

FIRST_PAIR = ("Oh Congratulations, Juliet", "Thank you Romeo")
FOLLOWS = "The model thinks the second sentence follows the first:"
DOES_NOT = "The model thinks the second sentence does not follow the first:"
IS_PAIR = "The model thinks that this pair belongs to the class {label}:"
IS_NO_PAIR = "The model thinks that this pair does not belong to the class {label}:"
HINT = "Type or choose two sentences; the model says whether the second follows the first."
ALL = "Every sentence against every other"
HIDDEN = {"hidden": True}


def next_sentence_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with gr.Tab("Next sentence", elem_id="tab-next-sentence") as tab:
        with gr.Row():
            first = gr.Textbox(
                FIRST_PAIR[0], label="First sentence", lines=1, max_lines=4, elem_id="next-first", scale=3
            )
            choose_first = choose_sentence("Or choose one", "next-choose-first")
        with gr.Row():
            second = gr.Textbox(
                FIRST_PAIR[1], label="Second sentence", lines=1, max_lines=4, elem_id="next-second", scale=3
            )
            choose_second = choose_sentence("Or choose one", "next-choose-second")
        with gr.Row(elem_id="next-tools"):
            swap = gr.Button("Swap the sentences", elem_id="next-swap", size="sm")
            other = compare_with("next-other")
        with gr.Column(elem_id="next-pair"):
            verdict = view("verdict", events=("submit",), elem_id="next-verdict")
            across = view("pairAcross", events=("input",), options=MAP_OPTIONS, elem_id="next-across")
        pair_export = exporter("the pair", of="next-pair", elem_id="next-download")
        with gr.Column(elem_id="next-matrices"):
            matrix = view(
                "pairMatrix", events=("input", "select", "submit"), options=MAP_OPTIONS, elem_id="next-matrix"
            )
            matrix_beside = view("pairMatrix", events=("select",), options=MAP_OPTIONS, elem_id="next-other-matrix")
        matrix_export = exporter("the matrix", of="next-matrices", elem_id="next-matrix-download")

    @on_error(lambda sentence: ({"error": sentence}, HIDDEN))
    def judge(token: str, first: str, second: str, other: str, shown: dict[str, Any] | None) -> tuple[Any, Any]:
        """The answer for the pair, that of the other model, and how the first sentence looks at the second."""
        if not first.strip() or not second.strip():
            return {"hint": HINT}, HIDDEN
        model = page.model(token)
        value = verdict_value(model.checkpoint, first, second)
        if other:
            value |= {"caption": caption(model), "other": beside(token, first, second, other)}
        return value, cross(token, first, second, shown)

    @on_error(lambda sentence: {"error": sentence})
    def beside(token: str, first: str, second: str, other: str) -> dict[str, Any]:
        model = model_of(page, token, other)
        return verdict_value(model.checkpoint, first, second) | {"caption": caption(model)}

    @on_error(lambda sentence: HIDDEN)
    def cross(token: str, first: str, second: str, shown: dict[str, Any] | None) -> dict[str, Any]:
        with probe_lock:
            value = across_value(page.model(token).checkpoint, first, second, choice_of(shown))
        return answer_to(shown, value)

    def judged(checkpoint: Checkpoint, token: str, start: int, size: int) -> PairMatrix:
        with probe_lock:
            return pair_matrix(checkpoint, page.corpus(token), limit=size, start=start)

    @on_error(lambda sentence: ({"error": sentence}, HIDDEN))
    def matrices(token: str, other: str, shown: dict[str, Any] | None) -> tuple[Any, Any]:
        """All pairs of the window, by the model and by the one beside it."""
        model, corpus, start = page.model(token), page.corpus(token), start_of(shown)
        try:
            second, why = model_of(page, token, other) if other else None, ""
        except BertCoreError as error:
            second, why = None, str(error)
        size = min(window_size(each.checkpoint) for each in (model, second) if each)
        one = judged(model.checkpoint, token, start, size)
        value = answer_to(shown, matrix_value(one, corpus, size, pair_labels(model.checkpoint)))
        if second is None:
            return value | {"caption": ALL}, {"error": why} if why else HIDDEN
        return value | {"caption": caption(model)}, beside_matrix(second, token, start, size, one)

    @on_error(lambda sentence: {"error": sentence})
    def beside_matrix(model: Model, token: str, start: int, size: int, one: PairMatrix) -> dict[str, Any]:
        two = judged(model.checkpoint, token, start, size)
        value = matrix_value(two, page.corpus(token), size, pair_labels(model.checkpoint))
        return value | {"caption": caption(model), "told": [*value["told"], told_apart(one, two)], "beside": True}

    def write_pair(kind: str, token: str, other: str, first: str, second: str, shown: dict[str, Any] | None) -> str:
        if not first.strip() or not second.strip():
            raise InputError(HINT)

        def pair(checkpoint: Checkpoint) -> str:
            if kind == "py":
                return pair_code(checkpoint.name, first, second, choice_of(shown))
            with probe_lock:
                return pair_file(kind, checkpoint, first, second, choice_of(shown))

        return with_other(page, token, other, kind, pair)

    def write_matrix(kind: str, token: str, other: str, shown: dict[str, Any] | None) -> str:
        start = start_of(shown)

        def matrix(checkpoint: Checkpoint) -> str:
            size = window_size(checkpoint)
            size = min(size, int((shown or {}).get("size", size)))
            if kind == "py":
                return matrix_code(checkpoint.name, page.corpus(token), start, size)
            return matrix_file(kind, judged(checkpoint, token, start, size))

        return with_other(page, token, other, kind, matrix)

    def load(event: gr.EventData) -> tuple[str, str]:
        """A cell was pressed: its pair is looked at closely."""
        return str(event.first), str(event.second)

    always = {"trigger_mode": "always_last", **QUIET}
    gr.on(
        [tab.select, first.change, second.change, other.input, verdict.submit],
        judge,
        [page.visitor, first, second, other, across],
        [verdict, across],
        **always,
    )
    across.input(cross, [page.visitor, first, second, across], across, **always)
    gr.on(
        [tab.select, other.input, matrix.input, matrix.submit],
        matrices,
        [page.visitor, other, matrix],
        [matrix, matrix_beside],
        **always,
    )
    gr.on([matrix.select, matrix_beside.select], load, None, [first, second], **always)
    offer(pair_export, "pair", [page.visitor, other, first, second, across], write_pair)
    offer(matrix_export, "matrix", [page.visitor, other, matrix], write_matrix)
    swap.click(None, [first, second], [first, second], js="(first, second) => [second, first]", **QUIET)
    tab.select(
        lambda token, other: [*[gr.update(choices=page.sentences(token))] * 2, choices(page, token, other)],
        [page.visitor, other],
        [choose_first, choose_second, other],
        **QUIET,
    )
    for chosen, box in ((choose_first, first), (choose_second, second)):
        chosen.input(lambda text: text or gr.skip(), chosen, box, **QUIET)


def start_of(shown: dict[str, Any] | None) -> int:
    """Where the window of the shown matrix begins."""
    return int((shown or {}).get("start", 0))


def choice_of(shown: dict[str, Any] | None) -> str:
    """The heads that were chosen where attention across the pair is shown."""
    return str((shown or {}).get("choice", MEAN))


def verdict_value(checkpoint: Checkpoint, first: str, second: str) -> dict[str, Any]:
    """The answer in words, its probability, and the probability of IsNext."""
    with probe_lock:
        is_next = next_sentence(checkpoint, first, second)
    follows = is_next >= 0.5
    labels = pair_labels(checkpoint)
    yes, no = (FOLLOWS, DOES_NOT) if labels == NEXT else (IS_PAIR, IS_NO_PAIR)
    return {
        "sentence": (yes if follows else no).format(label=labels[0]),
        "labels": list(labels),
        "probability": is_next if follows else 1 - is_next,
        "is_next": is_next,
        "notes": unknown_note(checkpoint, first, second),
    }
