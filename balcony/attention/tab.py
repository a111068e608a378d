"""Attention: which words each head attends to."""

import itertools
from typing import Any

import gradio as gr

from balcony.attention import values
from balcony.attention.head_births import birth_rows, births, births_code
from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import TEXTS
from balcony.frame.shown_model import caption
from balcony.frame.tab import Tab
from balcony.handlers import on_error
from balcony.parts.controls import control
from balcony.parts.downloads import exporter
from balcony.parts.notes import alone_note
from balcony.views import hint, view, with_terms
from bert_core.show import attention_page

HINT = (
    "Attention shows which words a [[head]] attends to. It does not explain an answer: to see what an answer depends "
    "on, switch a head off above its map, colour the heads by what changes without each, or click a word above to hide "
    "it."
)
EFFECTS = ("word", "is_next", "loss")  # of switching a head off, which heads can show
LATER = {"names": None}  # the page asks for them
GRID, DETAIL, SWITCHES = "attention-heads", "attention-map", "attention-switches"  # elem_ids
OTHER_GRID, OTHER_DETAIL, BIRTHS = "attention-other-heads", "attention-other-map", "attention-births"
NO_OTHER = {OTHER_GRID: None, OTHER_DETAIL: None}


def lay_out(page: Page) -> None:
    save_births = exporter(
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
    with gr.Column(elem_id="attention-stage"):
        view("attention/head_grid", elem_id=GRID)
        view("attention/head_switches", elem_id=SWITCHES)
        view("attention/head_detail", options={"is_first": True}, elem_id=DETAIL)
        view("attention/head_births", options=save_births, elem_id=BIRTHS)
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
        answer=numbers,
        views=(GRID, OTHER_GRID),
        rows=values.number_rows,
        code=code,
        html=html,
    )
    views = (GRID, DETAIL, OTHER_GRID, OTHER_DETAIL)
    page.answer("heads", (*TEXTS, "hidden", "hide_special", "other"), views, show)
    page.answer("switches", (*TEXTS, "hidden", "off"), (SWITCHES,), switches)
    for function in (names, effects, unfold, births):
        page.answers.add(function.__name__, function)


TAB = Tab(
    "attention",
    "Attention",
    lay_out,
    hint="Click a word to hide it from the model.",
    press="hidden",
    compares=True,
    story=(3, "Now see what each head attends to"),
)


def show(asked: PageRequest) -> dict[str, Any]:
    """All heads, of the model and of the one to compare with."""
    question, model = asked.question, asked.model
    if not question.text.strip():
        return {GRID: None, DETAIL: None} | NO_OTHER
    first, notes = values.shown_attention(model.checkpoint, question), alone_note(model.checkpoint, question.pair)
    said = {"notes": notes, "caption": caption(model) if question.other else ""}
    return {GRID: first["grid"] | LATER | said, DETAIL: first["detail"], **show_beside(asked)}


@on_error(lambda sentence: NO_OTHER | {OTHER_GRID: {"error": sentence}})
def show_beside(asked: PageRequest) -> dict[str, Any]:
    """The two views of the model to compare with."""
    if (model := asked.other) is None:
        return dict(NO_OTHER)
    second = values.shown_attention(model.checkpoint, asked.question)
    return {OTHER_GRID: second["grid"] | LATER | {"caption": caption(model)}, OTHER_DETAIL: second["detail"]}


def switches(asked: PageRequest) -> dict[str, Any]:
    has_text = asked.question.text.strip()
    return {SWITCHES: values.switches_value(asked.checkpoint, asked.question, asked.corpus) if has_text else None}


def names(asked: PageRequest, beside: bool) -> dict[str, Any]:
    """The names of the heads of the model, or of the one to compare with. They take much longer than the weights."""
    model = asked.other if beside else asked.model
    return {"names": values.shown_names(model.checkpoint, asked.question) if model else []}


def effects(asked: PageRequest, beside: bool) -> dict[str, Any]:
    """The same for what changes without each head."""
    model = asked.other if beside else asked.model
    return values.effects_value(model.checkpoint, asked.question, asked.corpus) if model else {"changes": {}}


def unfold(asked: PageRequest, layer: int, head: int) -> dict[str, Any]:
    return values.head_value(asked.checkpoint, asked.question, layer, head)


def shows_effects(asked: PageRequest) -> bool:
    """Whether the heads are coloured by what changes without them."""
    return asked.question.heads.get("effect") in EFFECTS


def numbers(asked: PageRequest) -> dict[str, Any]:
    """What changes without each head where the heads show that, else the weights of all heads, which the page gets
    with fewer digits."""
    models = [asked.checkpoint, *([asked.other.checkpoint] if asked.other else [])]
    if shows_effects(asked):
        found = [values.effects_value(checkpoint, asked.question, asked.corpus) for checkpoint in models]
    else:
        found = [values.weights_value(checkpoint, asked.question) for checkpoint in models]
    return dict(itertools.zip_longest((GRID, OTHER_GRID), found))


def code(asked: PageRequest) -> str:
    written = values.effects_code if shows_effects(asked) else values.attention_code
    return written(asked.checkpoint, asked.question)


def html(asked: PageRequest) -> str:
    shown, question = values.shown_attention(asked.checkpoint, asked.question, is_named=True), asked.question
    drawn = {"head": question.nearest_head(asked.checkpoint), "heads": question.heads, "off": question.off}
    return attention_page(shown, drawn, f"Attention: {caption(asked.model)}")
