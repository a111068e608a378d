"""Attention: which words each head attends to."""

from typing import Any

import gradio as gr

from bert_core.pages.attention import ShownAttention, attention_page, detail_value, grid_value
from bert_core.storage.checkpoint import Checkpoint
from ui.attention import values as attention
from ui.attention.head_switches import head_switches
from ui.handlers import QUIET, on_error
from ui.parts.downloads import exporter, numbers_of_models, offer
from ui.parts.export import Numbers, attention_numbers
from ui.parts.notes import alone_note, unknown_note
from ui.parts.page import Asked, Page
from ui.parts.question import Head, Question
from ui.parts.shown_model import caption
from ui.server.probe_lock import probe_lock
from ui.server.workspace import Workspace
from ui.server.workspaces import functions
from ui.views import hint, view

HINT = (
    "Attention shows which words a head attends to. It does not explain an answer: to see what an answer depends on, "
    "switch a head off below, or click a word above to hide it."
)


def attention_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    workspaces = page.workspaces

    def unfold(space: Workspace, question: object) -> dict[str, Any]:
        """A head's query, key and value of each token."""
        asked = Asked(workspaces, space, Question.read(question))
        return attention.head_value(asked.checkpoint, asked.question)

    with page.tab("Attention", "attention"):
        with gr.Column(elem_id="attention-stage"):
            grid = view("headGrid", elem_id="attention-heads")
            detail = view("headDetail", options={"unfolds": True}, elem_id="attention-map")
            other_grid = view("headGrid", elem_id="attention-other-heads")
            other_detail = view("headDetail", elem_id="attention-other-map")
        view("unfoldedCell", server_functions=functions(workspaces, unfold, known=False), elem_id="attention-cell")
        hide = gr.Checkbox(
            False,
            label="Hide [CLS] and [SEP]",
            info="The remaining weights of each row are scaled to sum to 1.",
            elem_id="attention-hide",
        )
        hint(HINT)
        export = exporter(
            "the attention", of="attention-stage", elem_id="attention-download", kinds=("json", "csv", "html", "py")
        )
        head_switches(page)

    def attention_of(checkpoint: Checkpoint, question: Question) -> ShownAttention:
        with probe_lock:
            return attention.shown_attention(checkpoint, question)

    def nothing(sentence: str = "") -> dict[Any, Any]:
        first = {"error": sentence} if sentence else {}
        return {grid: first, detail: None, other_grid: {"hidden": True}, other_detail: None}

    @on_error(lambda sentence: {other_grid: {"error": sentence}, other_detail: None})
    def beside(first: ShownAttention, head: Head, asked: Asked) -> dict[Any, Any]:
        """The two views of the model to compare with; under "apart", how much its heads differ."""
        if (model := asked.other) is None:
            return {other_grid: {"hidden": True}, other_detail: None}
        second = attention_of(model.checkpoint, asked.question)
        head, apart = attention.nearest_head(head, second), attention.differences(first, second)
        value = grid_value(second, head, apart)
        return {
            other_grid: value | {"caption": caption(model), "notes": [attention.difference_note(apart)]},
            other_detail: detail_value(second, head, apart),
            "apart": apart,
        }

    def show(asked: Asked) -> dict[Any, Any]:
        """All heads and one layer of them, of the model and of the one to compare with."""
        question, model = asked.question, asked.model
        if not question.text.strip():
            return nothing()
        first = attention_of(model.checkpoint, question)
        head = attention.nearest_head(question.head, first)
        notes = unknown_note(model.checkpoint, question.text, question.pair) + alone_note(
            model.checkpoint, question.pair
        )
        others = beside(first, head, asked)
        value = grid_value(first, head, others.pop("apart", None))
        value |= {"notes": notes, "caption": caption(model) if question.other else "All heads"}
        return {grid: value, detail: detail_value(first, head), **others}

    def show_layer(asked: Asked) -> dict[Any, Any]:
        """One layer in detail; the grids mark the chosen head by themselves."""
        if not asked.question.text.strip():
            return {detail: None, other_detail: None}
        first = attention_of(asked.checkpoint, asked.question)
        head = attention.nearest_head(asked.question.head, first)
        others = beside(first, head, asked)
        return {detail: detail_value(first, head), other_detail: others[other_detail]}

    def numbers(asked: Asked) -> Numbers | dict[str, Numbers]:
        return numbers_of_models(asked, lambda each: attention_numbers(attention_of(each, asked.question).maps))

    def code(asked: Asked) -> str:
        with probe_lock:
            return attention.attention_code(asked.checkpoint, asked.question)

    def html(asked: Asked) -> str:
        first = attention_of(asked.checkpoint, asked.question)
        head = attention.nearest_head(asked.question.head, first)
        return attention_page(first, head, f"Attention: {caption(asked.model)}")

    page.on("heads", show, nothing)
    page.on("layer", show_layer, lambda sentence: {detail: {"error": sentence}, other_detail: None})
    page.on_restored([hide], "[question.hide_special]")
    hide.input(None, hide, None, js="(hide) => Balcony.ask({ hide_special: hide })", **QUIET)
    offer(page, export, "attention", numbers, code=code, html=html)
