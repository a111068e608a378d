"""Attention: where each head looks."""

from typing import Any

import gradio as gr
from torch import Tensor

from bert_core.errors import InputError
from bert_core.probes.attention import NAMED_FROM
from bert_core.storage.checkpoint import Checkpoint
from ui.attention.head_switches import connect_switches, head_switches
from ui.attention.values import (
    Looked,
    attention_code,
    attention_page,
    detail_value,
    differences,
    grid_value,
    look_at,
    told_difference,
    within,
)
from ui.handlers import QUIET, on_error, warn
from ui.parts.compare import caption, choices, compare_with, model_of
from ui.parts.downloads import exporter, offer, with_other
from ui.parts.export import attention_csv, attention_json
from ui.parts.figures import MAP_OPTIONS
from ui.parts.notes import alone_note, unknown_note
from ui.parts.page import Page, choose_sentence
from ui.server.probe_lock import probe_lock
from ui.views import view

FIRST_PAIR = ("Hello, how are you? I am Romeo.", "Hello, Romeo My name is Juliet. Nice to meet you.")
HINT = (
    "Attention says which words a head reads from, not why the model answers as it does: it is a part of the "
    "computation, not an explanation. What an answer rests on shows when something is taken away: a head, below, or a "
    f"word, under Masked words. A head has a name when a place gets at least {NAMED_FROM:.0%} of what it could get "
    "above an even spread."
)


def attention_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with gr.Tab("Attention", elem_id="tab-attention") as tab:
        with gr.Row():
            text = gr.Textbox(FIRST_PAIR[0], label="Sentence", lines=1, max_lines=4, elem_id="attention-text", scale=3)
            choose_text = choose_sentence("Or choose one", "attention-choose-text")
        with gr.Row():
            pair = gr.Textbox(
                FIRST_PAIR[1],
                label="Second sentence (optional)",
                lines=1,
                max_lines=4,
                elem_id="attention-pair",
                scale=3,
            )
            choose_pair = choose_sentence("Or choose one", "attention-choose-pair")
        with gr.Row():
            hide = gr.Checkbox(
                False,
                label="Hide [CLS] and [SEP]",
                info="The weights between the words are then scaled so that each row sums to 1 again.",
                elem_id="attention-hide",
                scale=3,
                min_width=240,
            )
            other = compare_with("attention-other")
        picked = gr.State((0, 0))
        with gr.Column(elem_id="attention-stage"):
            grid = view("headGrid", events=("select", "submit"), options=MAP_OPTIONS, elem_id="attention-heads")
            detail = view("headDetail", options=MAP_OPTIONS, elem_id="attention-map")
            other_grid = view("headGrid", events=("select",), options=MAP_OPTIONS, elem_id="attention-other-heads")
            other_detail = view("headDetail", options=MAP_OPTIONS, elem_id="attention-other-map")
        gr.HTML(f"<p>{HINT}</p>", elem_classes="balcony-hint", apply_default_css=False, js_on_load=None)
        export = exporter(
            "the attention", of="attention-stage", elem_id="attention-download", kinds=("json", "csv", "html", "py")
        )
        switches = head_switches()

    def looked(checkpoint: Checkpoint, text: str, pair: str, hide: bool) -> Looked:
        if not text.strip():
            raise InputError("There is no sentence yet; type or choose one first.")
        with probe_lock:
            return look_at(checkpoint, text, pair, hide)

    def beside(
        first: Looked, token: str, text: str, pair: str, hide: bool, other: str, picked: tuple[int, int]
    ) -> tuple[dict[str, Any], Any, Tensor | None]:
        """The two views of the model to compare with, and how far apart the heads of the two models are."""
        if not other:
            return {"hidden": True}, None, None
        model = model_of(page, token, other)
        seen = looked(model.checkpoint, text, pair, hide)
        place, apart = within(picked, seen), differences(first, seen)
        grid = grid_value(seen, place, apart) | {"caption": caption(model), "notes": [told_difference(apart)]}
        return grid, detail_value(seen, place, apart), apart

    beside_or_why = on_error(lambda sentence: ({"error": sentence}, None, None))(beside)

    @on_error(lambda sentence: ({"error": sentence}, None, {"hidden": True}, None))
    def look(token: str, text: str, pair: str, hide: bool, other: str, picked: tuple[int, int]) -> tuple[Any, ...]:
        """All heads and the picked one, of the model and of the one beside it."""
        if not text.strip():
            return None, None, {"hidden": True}, None
        model = page.model(token)
        seen = looked(model.checkpoint, text, pair, hide)
        place = within(picked, seen)
        notes = unknown_note(model.checkpoint, text, pair) + alone_note(model.checkpoint, pair)
        *others, apart = beside_or_why(seen, token, text, pair, hide, other, place)
        grid = grid_value(seen, place, apart) | {"notes": notes, "caption": caption(model) if other else "All heads"}
        return grid, detail_value(seen, place), *others

    @on_error(lambda sentence: (warn(sentence), gr.skip(), gr.skip()))
    def pick(token: str, text: str, pair: str, hide: bool, other: str, event: gr.EventData) -> tuple[Any, Any, Any]:
        """One head close up; the grids show the press by themselves."""
        place = int(event.layer), int(event.head)
        seen = looked(page.model(token).checkpoint, text, pair, hide)
        detail = detail_value(seen, within(place, seen))
        return place, detail, beside_or_why(seen, token, text, pair, hide, other, place)[1]

    def write(kind: str, token: str, text: str, pair: str, hide: bool, other: str, picked: tuple[int, int]) -> str:
        def weights(checkpoint: Checkpoint) -> str:
            seen = looked(checkpoint, text, pair, hide)
            if kind == "html":
                return attention_page(seen, within(picked, seen), f"Attention: {caption(page.model(token))}")
            if kind == "py":
                return attention_code(checkpoint.name, text, pair, within(picked, seen), hide)
            return attention_json(seen.maps) if kind == "json" else attention_csv(seen.maps)

        return with_other(page, token, other, kind, weights)

    words = [page.visitor, text, pair, hide]
    offer(export, "attention", [*words, other, picked], write)
    gr.on(
        [tab.select, text.change, pair.change, hide.change, other.input, grid.submit],
        look,
        [*words, other, picked],
        [grid, detail, other_grid, other_detail],
        trigger_mode="always_last",
        **QUIET,
    )
    gr.on(
        [grid.select, other_grid.select],
        pick,
        [*words, other],
        [picked, detail, other_detail],
        trigger_mode="always_last",
        **QUIET,
    )

    connect_switches(page, switches, [tab.select, text.change, pair.change], words[:3])

    def lists(token: str, other: str) -> list[Any]:
        sentences = gr.update(choices=page.sentences(token))
        return [sentences, sentences, choices(page, token, other)]

    tab.select(lists, [page.visitor, other], [choose_text, choose_pair, other], **QUIET)
    for chosen, box in ((choose_text, text), (choose_pair, pair)):
        chosen.input(lambda sentence: sentence or gr.skip(), chosen, box, **QUIET)
