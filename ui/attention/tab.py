"""Attention: which words each head attends to."""

import dataclasses
from typing import Any

import gradio as gr

from bert_core.storage.checkpoint import Checkpoint
from ui.attention import values as attention
from ui.attention.head_switches import connect_switches, head_switches
from ui.handlers import QUIET, on_error, warn
from ui.parts.compare import caption, compare_with, fill_lists, model_of
from ui.parts.downloads import exporter, numbers_of_models, offer
from ui.parts.export import Numbers, attention_numbers
from ui.parts.notes import alone_note, unknown_note
from ui.parts.page import Page, sentence_row
from ui.parts.question import Question, Values
from ui.server.probe_lock import probe_lock
from ui.views import view

FIRST_PAIR = ("Hello, how are you? I am Romeo.", "Hello, Romeo My name is Juliet. Nice to meet you.")
HINT = (
    "Attention shows which words a head attends to. It does not explain an answer: to see what an answer depends on, "
    "switch a head off below, or hide a word under Masked words."
)


def attention_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with gr.Tab("Attention", elem_id="tab-attention") as tab:
        text, texts = sentence_row("Sentence", "attention-text", FIRST_PAIR[0])
        pair, pairs = sentence_row("Second sentence (optional)", "attention-pair", FIRST_PAIR[1])
        with gr.Row():
            hide = gr.Checkbox(
                False,
                label="Hide [CLS] and [SEP]",
                info="The remaining weights of each row are scaled to sum to 1.",
                elem_id="attention-hide",
                scale=3,
                min_width=240,
            )
            other = compare_with("attention-other")
        picked = gr.State((0, 0))
        with gr.Column(elem_id="attention-stage"):
            grid = view("headGrid", events=("select", "submit"), elem_id="attention-heads")
            detail = view("headDetail", elem_id="attention-map")
            other_grid = view("headGrid", events=("select",), elem_id="attention-other-heads")
            other_detail = view("headDetail", elem_id="attention-other-map")
        gr.HTML(f"<p>{HINT}</p>", elem_classes="balcony-hint", apply_default_css=False, js_on_load=None)
        export = exporter(
            "the attention", of="attention-stage", elem_id="attention-download", kinds=("json", "csv", "html", "py")
        )
        switches = head_switches()

    def asked(values: Values) -> Question:
        return Question(values[text], values[pair], values[other], head=values[picked], hide_special=values[hide])

    def attention_of(checkpoint: Checkpoint, question: Question) -> attention.ShownAttention:
        with probe_lock:
            return attention.shown_attention(checkpoint, question)

    @on_error(lambda sentence: {other_grid: {"error": sentence}, other_detail: None})
    def beside(first: attention.ShownAttention, token: str, question: Question) -> dict[Any, Any]:
        """The two views of the model to compare with; under "apart", how much its heads differ."""
        if not question.other:
            return {other_grid: {"hidden": True}, other_detail: None}
        model = model_of(page, token, question.other)
        second = attention_of(model.checkpoint, question)
        head, apart = attention.nearest_head(question.head, second), attention.differences(first, second)
        value = attention.grid_value(second, head, apart)
        return {
            other_grid: value | {"caption": caption(model), "notes": [attention.difference_note(apart)]},
            other_detail: attention.detail_value(second, head, apart),
            "apart": apart,
        }

    @on_error(
        lambda sentence: {grid: {"error": sentence}, detail: None, other_grid: {"hidden": True}, other_detail: None}
    )
    def show(values: Values) -> dict[Any, Any]:
        """All heads and the picked one, of the model and of the one to compare with."""
        question, model = asked(values), page.model(values[page.visitor])
        if not question.text.strip():
            return {grid: None, detail: None, other_grid: {"hidden": True}, other_detail: None}
        first = attention_of(model.checkpoint, question)
        head = attention.nearest_head(question.head, first)
        notes = unknown_note(model.checkpoint, question.text, question.pair) + alone_note(
            model.checkpoint, question.pair
        )
        others = beside(first, values[page.visitor], dataclasses.replace(question, head=head))
        value = attention.grid_value(first, head, others.pop("apart", None))
        value |= {"notes": notes, "caption": caption(model) if question.other else "All heads"}
        return {grid: value, detail: attention.detail_value(first, head), **others}

    @on_error(lambda sentence: {picked: warn(sentence)})
    def pick(values: Values, event: gr.EventData) -> dict[Any, Any]:
        """Show one head in detail; the grids mark it by themselves."""
        question = dataclasses.replace(asked(values), head=(int(event.layer), int(event.head)))
        first = attention_of(page.model(values[page.visitor]).checkpoint, question)
        others = beside(first, values[page.visitor], question)
        return {
            picked: question.head,
            detail: attention.detail_value(first, attention.nearest_head(question.head, first)),
            other_detail: others[other_detail],
        }

    def numbers(values: Values) -> Numbers | dict[str, Numbers]:
        token, question = values[page.visitor], asked(values)
        return numbers_of_models(
            page, token, question.other, lambda each: attention_numbers(attention_of(each, question).maps)
        )

    def code(values: Values) -> str:
        with probe_lock:
            return attention.attention_code(page.model(values[page.visitor]).checkpoint, asked(values))

    def html(values: Values) -> str:
        question, model = asked(values), page.model(values[page.visitor])
        first = attention_of(model.checkpoint, question)
        return attention.attention_page(
            first, attention.nearest_head(question.head, first), f"Attention: {caption(model)}"
        )

    always = {"trigger_mode": "always_last", **QUIET}
    inputs = {page.visitor, text, pair, hide, other, picked}
    offer(export, "attention", inputs, numbers, code=code, page=html)
    gr.on(
        [tab.select, text.change, pair.change, hide.change, other.input, grid.submit],
        show,
        inputs,
        {grid, detail, other_grid, other_detail},
        **always,
    )
    gr.on([grid.select, other_grid.select], pick, inputs, {picked, detail, other_detail}, **always)
    connect_switches(page, switches, [tab.select, text.change, pair.change], text, pair)
    fill_lists(page, tab, {texts: text, pairs: pair}, other)
