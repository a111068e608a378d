"""Attention: which words each head attends to."""

import itertools
from typing import Any

import gradio as gr

from balcony.attention import values as attention
from balcony.attention.head_births import birth_rows, births, births_code
from balcony.attention.head_switches import head_switches
from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import TEXTS, Question
from balcony.frame.shown_model import caption
from balcony.frame.tab import Tab
from balcony.handlers import on_error
from balcony.parts.controls import control
from balcony.parts.downloads import exporter
from balcony.parts.notes import alone_note
from balcony.server.probe_lock import probe_lock
from balcony.views import hint, view, with_terms
from bert_core.show import attention_page
from bert_core.storage.checkpoint import Checkpoint

HINT = (
    "Attention shows which words a [[head]] attends to. It does not explain an answer: to see what an answer depends "
    "on, switch a head off at its map or below, or click a word above to hide it."
)
CLEAR = "english-mini"  # a model with heads that stand out
LATER = {"names": None}  # the page asks for them
GRID, DETAIL, BIRTHS = "attention-heads", "attention-map", "attention-births"  # elem_ids
OTHER_GRID, OTHER_DETAIL = "attention-other-heads", "attention-other-map"
NO_OTHER = {OTHER_GRID: None, OTHER_DETAIL: None}


def births_exporter(page: Page) -> dict[str, Any]:
    page.answers.add("births", births)
    return exporter(
        *(page, "the heads over the steps"),
        of=BIRTHS,
        elem_id="births-download",
        name="heads-over-steps",
        answer=lambda asked: {BIRTHS: births(asked)},
        views=(BIRTHS,),
        rows=birth_rows,
        code=births_code,
        is_inside=True,
    )


def lay_out(page: Page) -> None:
    with gr.Column(elem_id="attention-stage"):
        view("attention/head_grid", options={"switches": True}, elem_id=GRID)
        view("attention/head_detail", options={"unfolds": True}, elem_id=DETAIL)
        view("attention/head_births", options=births_exporter(page), elem_id=BIRTHS)
        view("attention/unfolded_cell", elem_id="attention-cell")
        view("attention/head_grid", options={"beside": True}, elem_id=OTHER_GRID)
        view("attention/head_detail", elem_id=OTHER_DETAIL)
    info = "The remaining weights of each row are scaled to sum to 1."
    control("checkbox", "hide_special", label="Hide [CLS] and [SEP]", info=info, elem_id="attention-hide")
    hint(with_terms(HINT))
    exporter(
        *(page, "the attention"),
        of="attention-stage",
        elem_id="attention-download",
        name="attention",
        answer=weights,
        views=(GRID, OTHER_GRID),
        rows=attention.weight_rows,
        code=lambda asked: attention.attention_code(asked.checkpoint, asked.question),
        html=html,
    )
    head_switches(page)
    views = (GRID, DETAIL, OTHER_GRID, OTHER_DETAIL)
    page.answer("heads", (*TEXTS, "hidden", "hide_special", "other"), views, show)
    page.answer("layer", ("head",), (DETAIL, OTHER_DETAIL), show_layer, part_of="heads")
    page.answers.add("names", names)
    page.answers.add("unfold", unfold)


TAB = Tab(
    "attention",
    "Attention",
    lay_out,
    hint="Click a word to hide it from the model.",
    press="hidden",
    compares=True,
    story=(3, "Now see what each head attends to"),
)


def unfold(asked: PageRequest, layer: int, head: int) -> dict[str, Any]:
    return attention.head_value(asked.checkpoint, asked.question, (layer, head))


def show(asked: PageRequest) -> dict[str, Any]:
    """All heads and one layer of them, of the model and of the one to compare with."""
    question, model = asked.question, asked.model
    if not question.text.strip():
        return {GRID: None, DETAIL: None} | NO_OTHER
    first, notes = attention_of(model.checkpoint, question), alone_note(model.checkpoint, question.pair)
    said = {"notes": notes, "caption": caption(model) if question.other else "", "clear": clear_model(asked)}
    return {GRID: first["grid"] | LATER | said, DETAIL: first["detail"], **show_beside(asked)}


def clear_model(asked: PageRequest) -> str:
    """A model to try where no head stands out; "" where there is none, or it is shown."""
    return CLEAR if CLEAR in asked.workspaces.shipped_names and asked.question.model != CLEAR else ""


@on_error(lambda sentence: NO_OTHER | {OTHER_GRID: {"error": sentence}})
def show_beside(asked: PageRequest) -> dict[str, Any]:
    """The two views of the model to compare with."""
    if (model := asked.other) is None:
        return dict(NO_OTHER)
    second, said = attention_of(model.checkpoint, asked.question), {"caption": caption(model), "clear": ""}
    return {OTHER_GRID: second["grid"] | LATER | said, OTHER_DETAIL: second["detail"]}


def show_layer(asked: PageRequest) -> dict[str, Any]:
    """One layer in detail, and its heads where one layer is shown at a time; else the grids mark the chosen head by
    themselves."""
    values = show(asked)
    for grid in (GRID, OTHER_GRID):
        shown = values[grid] or {}
        if shown.get("of") == shown.get("layers"):
            del values[grid]
    return values


def names(asked: PageRequest, beside: bool) -> dict[str, Any]:
    """The names of the heads of the model, or of the one to compare with. They take much longer than the weights."""
    model = asked.other if beside else asked.model
    return {"names": attention.shown_names(model.checkpoint, asked.question) if model else []}


def attention_of(checkpoint: Checkpoint, question: Question, *, is_named: bool = False) -> dict[str, Any]:
    """What is shown of a model, when its turn has come."""
    with probe_lock:
        return attention.shown_attention(checkpoint, question, is_named=is_named)


def weights(asked: PageRequest) -> dict[str, Any]:
    """The weights of all heads, which the page gets with fewer digits."""
    models = [asked.checkpoint, *([asked.other.checkpoint] if asked.other else [])]
    with probe_lock:
        found = [attention.weights_value(checkpoint, asked.question) for checkpoint in models]
    return dict(itertools.zip_longest((GRID, OTHER_GRID), found))


def html(asked: PageRequest) -> str:
    values = attention_of(asked.checkpoint, asked.question, is_named=True)
    question = asked.question
    shown = {"head": question.nearest_head(asked.checkpoint), "heads": question.heads, "off": question.off}
    return attention_page(values, shown, f"Attention: {caption(asked.model)}")
