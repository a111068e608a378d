"""Attention: where each head looks."""

import base64
from typing import Any

import gradio as gr
from torch import Tensor

from bert_core.checkpoint import Checkpoint
from bert_core.errors import InputError
from bert_core.export import attention_csv, attention_json
from bert_core.figures import ACCENT_RGB, attention_map
from bert_core.probing import attention
from ui.downloads import exporter, offer
from ui.handlers import QUIET, on_error, warn
from ui.masked_words_tab import unknown_note
from ui.page import Page, choose_sentence
from ui.plotly_view import plotly_view
from ui.turns import probing
from ui.views import view

FIRST_PAIR = ("Hello, how are you? I am Romeo.", "Hello, Romeo My name is Juliet. Nice to meet you.")
SPECIAL = ("[CLS]", "[SEP]", "[PAD]")
HINT = (
    "Each row is a word that looks; the stronger a colour, the more it takes from the word above. Press a small map to "
    "see it large; the weights appear under the pointer. Attention says which words a head reads from, not why the "
    "model answers as it does: it is a part of the computation, not an explanation."
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
        hide = gr.Checkbox(
            False,
            label="Hide [CLS] and [SEP]",
            info="The other weights stay as they are; what a row lacks to 1 goes to the hidden ones.",
            elem_id="attention-hide",
        )
        picked = gr.State((0, 0))
        with gr.Row(elem_classes="balcony-split"):
            with gr.Column(scale=5, min_width=300):
                grid = view(
                    "headGrid",
                    events=("select", "submit"),
                    options={"colour": ACCENT_RGB},
                    elem_id="attention-heads",
                )
                gr.HTML(f"<p>{HINT}</p>", elem_classes="balcony-hint", apply_default_css=False, js_on_load=None)
            with gr.Column(scale=8, min_width=340):
                large = plotly_view(elem_id="attention-map")
        downloads = exporter("the attention", of="attention-heads", elem_id="attention-download", kinds=("json", "csv"))

    @on_error(lambda sentence: ({"error": sentence}, None))
    def look(token: str, text: str, pair: str, hide: bool, picked: tuple[int, int]) -> tuple[Any, Any]:
        """All heads, and the picked one large."""
        if not text.strip():
            return None, None
        checkpoint = page.model(token).checkpoint
        tokens, weights = visible_maps(checkpoint, text, pair, hide)
        layer, head = min(picked[0], weights.shape[0] - 1), min(picked[1], weights.shape[1] - 1)
        grid = grid_value(weights, (layer, head)) | {"notes": unknown_note(checkpoint, text, pair)}
        return grid, head_figure(tokens, weights, layer, head)

    @on_error(warn)
    def pick(token: str, text: str, pair: str, hide: bool, event: gr.EventData) -> tuple[tuple[int, int], Any]:
        """One head large; the grid shows the press by itself."""
        tokens, weights = visible_maps(page.model(token).checkpoint, text, pair, hide)
        layer, head = int(event.layer), int(event.head)
        return (layer, head), head_figure(tokens, weights, layer, head)

    def write(kind: str, token: str, text: str, pair: str) -> str:
        if not text.strip():
            raise InputError("There is no sentence yet; type or choose one first.")
        with probing():
            maps = attention(page.model(token).checkpoint, text, pair or None)
        return attention_json(maps) if kind == "json" else attention_csv(maps)

    offer(downloads, "attention", [page.visitor, text, pair], write)
    words = [page.visitor, text, pair, hide]
    gr.on(
        [tab.select, text.change, pair.change, hide.change, grid.submit],
        look,
        [*words, picked],
        [grid, large],
        trigger_mode="always_last",
        **QUIET,
    )
    grid.select(pick, words, [picked, large], trigger_mode="always_last", **QUIET)
    tab.select(
        lambda token: [gr.update(choices=page.sentences(token))] * 2,
        page.visitor,
        [choose_text, choose_pair],
        **QUIET,
    )
    for chosen, box in ((choose_text, text), (choose_pair, pair)):
        chosen.input(lambda sentence: sentence or gr.skip(), chosen, box, **QUIET)


def visible_maps(checkpoint: Checkpoint, text: str, pair: str, hide_special: bool) -> tuple[list[str], Tensor]:
    """The tokens that are shown and the weights between them, (layers, heads, T, T)."""
    with probing():
        maps = attention(checkpoint, text, pair or None)
    shown = [i for i, token in enumerate(maps.tokens) if not (hide_special and token in SPECIAL)]
    return [maps.tokens[i] for i in shown], maps.weights[:, :, shown][:, :, :, shown]


def grid_value(weights: Tensor, picked: tuple[int, int]) -> dict[str, Any]:
    """All maps for the grid: a byte per weight, 255 standing for 1."""
    layers, heads, size, _ = weights.shape
    scaled = (weights * 255).round().clamp(0, 255).byte().contiguous()
    return {
        "layers": layers,
        "heads": heads,
        "size": size,
        "weights": base64.b64encode(scaled.numpy().tobytes()).decode("ascii"),
        "picked": list(picked),
    }


def head_figure(tokens: list[str], weights: Tensor, layer: int, head: int) -> dict[str, Any]:
    """The large map of one head; layers and heads are counted from 1 on the page."""
    return attention_map(tokens, weights[layer, head].tolist(), title=f"Layer {layer + 1}, head {head + 1}")
