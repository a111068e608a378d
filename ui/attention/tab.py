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
LATER = {"names": None, "more": "names"}  # the event that gives the heads their names


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

    def attention_of(checkpoint: Checkpoint, question: Question, *, is_named: bool = False) -> ShownAttention:
        with probe_lock:
            return attention.shown_attention(checkpoint, question, is_named=is_named)

    def nothing(sentence: str = "") -> dict[Any, Any]:
        first = {"error": sentence} if sentence else {}
        return {grid: first, detail: None, other_grid: {"hidden": True}, other_detail: None}

    @on_error(lambda sentence: {other_grid: {"error": sentence}, other_detail: None})
    def beside(first: ShownAttention, head: Head, asked: Asked) -> dict[Any, Any]:
        """The two views of the model to compare with; under "apart", how much its heads differ."""
        if (model := asked.other) is None:
            return {other_grid: {"hidden": True}, other_detail: None}
        second = attention_of(model.checkpoint, asked.question)
        head, apart = attention.nearest_head(head, model.checkpoint.config), attention.differences(first, second)
        value = grid_value(second, head, apart)
        notes = [*value["notes"], attention.difference_note(apart, first.shown.start)]
        return {
            other_grid: value | LATER | {"caption": caption(model), "notes": notes},
            other_detail: detail_value(second, head, apart),
            "apart": apart,
        }

    def show(asked: Asked) -> dict[Any, Any]:
        """All heads and one layer of them, of the model and of the one to compare with."""
        question, model = asked.question, asked.model
        if not question.text.strip():
            return nothing()
        first = attention_of(model.checkpoint, question)
        head = attention.nearest_head(question.head, model.checkpoint.config)
        notes = (
            first.note
            + unknown_note(model.checkpoint, question.text, question.pair)
            + alone_note(model.checkpoint, question.pair)
        )
        others = beside(first, head, asked)
        value = grid_value(first, head, others.pop("apart", None))
        value |= LATER | {"notes": notes, "caption": caption(model) if question.other else ""}
        return {grid: value, detail: detail_value(first, head), **others}

    def show_layer(asked: Asked) -> dict[Any, Any]:
        """One layer in detail, and its heads where one layer is shown at a time; else the grids mark the chosen head by
        themselves."""
        values = show(asked)
        grids = {view: values[view] for view in (grid, other_grid) if is_part(values[view])}
        return {detail: values[detail], other_detail: values[other_detail], **grids}

    def is_part(value: dict[str, Any]) -> bool:
        return value.get("of", 0) > value.get("layers", 0)

    def names(asked: Asked) -> dict[Any, Any]:
        """The names of the heads, which take much longer than their weights."""
        value = {grid: {"names": attention.shown_names(asked.checkpoint, asked.question)}}
        if model := asked.other:
            value[other_grid] = {"names": attention.shown_names(model.checkpoint, asked.question)}
        return value

    def numbers(asked: Asked) -> Numbers | dict[str, Numbers]:
        return numbers_of_models(asked, lambda each: attention_numbers(attention_of(each, asked.question).maps))

    def code(asked: Asked) -> str:
        return attention.attention_code(asked.checkpoint, asked.question)

    def html(asked: Asked) -> str:
        first = attention_of(asked.checkpoint, asked.question, is_named=True)
        head = attention.nearest_head(asked.question.head, asked.checkpoint.config)
        return attention_page(first, head, f"Attention: {caption(asked.model)}")

    page.on("heads", show, nothing)
    page.on("names", names, lambda sentence: {grid: {"unnamed": sentence}})
    page.on("layer", show_layer, lambda sentence: {detail: {"error": sentence}, other_detail: None})
    page.on_restored([hide], "[question.hide_special]")
    hide.input(None, hide, None, js="(hide) => Balcony.ask({ hide_special: hide })", **QUIET)
    offer(page, export, "attention", numbers, code=code, html=html)
