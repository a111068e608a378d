"""Words in context: one word in several sentences, and how alike its vectors are, layer by layer."""

from typing import Any

import gradio as gr

from bert_core.errors import InputError
from bert_core.probes.vectors import Occurrence, words_in_contexts
from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import QUIET, on_error
from ui.parts.downloads import exporter, offer
from ui.parts.export import table_csv, table_json
from ui.parts.figures import similarity_map, word_points
from ui.parts.notes import EACH_ALONE, alone_note, unknown_note
from ui.parts.page import Page
from ui.parts.plotly_view import plotly_view
from ui.server.probe_lock import probe_lock
from ui.views import view

FIRST_WORD = "Romeo"
FIRST_SENTENCES = "Hello, how are you? I am Romeo.\nHello, Romeo My name is Juliet. Nice to meet you.\nThank you Romeo"
EMPTY = "Type a word, and two or more sentences in which it stands, one a line."
ONE_PLACE = "The word stands in one place only; add a sentence to compare it with."
HINT = (
    "Before the first layer a word has nearly the same vector everywhere; each layer mixes in what stands around it. "
    "1 is the same direction, 0 none in common, -1 the opposite. The points are the same vectors on the plane of "
    "their largest differences (principal components)."
)
MOST_LAYERS = 48
CONTEXT = 8  # characters shown on each side of the word


def words_in_context_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with gr.Tab("Words in context", elem_id="tab-words-in-context") as tab:
        with gr.Row():
            word = gr.Textbox(FIRST_WORD, label="Word", lines=1, max_lines=1, elem_id="context-word", min_width=160)
            sentences = gr.Textbox(
                FIRST_SENTENCES,
                label="Sentences, one a line",
                lines=3,
                max_lines=10,
                elem_id="context-sentences",
                scale=3,
                min_width=280,
            )
        # Higher than any model; the first look brings it down to the last layer of the model.
        layer = gr.Slider(
            0,
            MOST_LAYERS,
            value=MOST_LAYERS,
            step=1,
            label="Layer",
            info="0 is the sum of word, position and segment vectors, before the first layer.",
            elem_id="context-layer",
        )
        facts = view("facts", events=("submit",), options={"follows": True}, elem_id="context-facts")
        with gr.Row(elem_classes="balcony-split", elem_id="context-stage"):
            with gr.Column(scale=1, min_width=320):
                cosine = plotly_view(elem_id="context-cosine")
            with gr.Column(scale=1, min_width=320):
                points = plotly_view(elem_id="context-points")
        export = exporter("the similarities", of="context-stage", elem_id="context-download")
        gr.HTML(f"<p>{HINT}</p>", elem_classes="balcony-hint", apply_default_css=False, js_on_load=None)

    @on_error(lambda sentence: ({"facts": [], "notes": [], "error": sentence}, gr.skip(), None, None))
    def look(token: str, word: str, sentences: str, layer: int) -> tuple[Any, Any, Any, Any]:
        """What is found, the slider with the model's layers, and both pictures of the chosen layer."""
        checkpoint = page.model(token).checkpoint
        layers = checkpoint.config.num_hidden_layers
        slider = gr.update(maximum=layers, value=min(int(layer), layers))
        if not word.strip() or not sentences.strip():
            return {"facts": [], "notes": [EMPTY]}, slider, None, None
        value, *figures = contexts_value(checkpoint, word, sentences.splitlines(), min(int(layer), layers))
        return value, slider, *figures

    def write(kind: str, token: str, word: str, sentences: str, layer: int) -> str:
        if not word.strip() or not sentences.strip():
            raise InputError(EMPTY)
        checkpoint = page.model(token).checkpoint
        layer = min(int(layer), checkpoint.config.num_hidden_layers)
        return contexts_file(kind, checkpoint, word, sentences.splitlines(), layer)

    offer(export, "similarities", [page.visitor, word, sentences, layer], write)
    gr.on(
        [tab.select, word.change, sentences.change, layer.input, facts.submit],
        look,
        [page.visitor, word, sentences, layer],
        [facts, layer, cosine, points],
        trigger_mode="always_last",
        **QUIET,
    )


def contexts_value(
    checkpoint: Checkpoint, word: str, sentences: list[str], layer: int
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What the facts view and the two charts show for one layer."""
    with probe_lock:
        found = words_in_contexts(checkpoint, word, sentences)
    labels = [snippet(sentences[place.text], place) for place in found.occurrences]
    places = len(labels)
    facts = [["Places", f"{places}"], ["Sentences", f"{len({place.text for place in found.occurrences})}"]]
    if places > 1:
        others = found.cosine[layer].sum() - found.cosine[layer].trace()
        facts.append(["Mean similarity", f"{others.item() / (places * (places - 1)):.2f}"])
    notes = unknown_note(checkpoint, *(sentences[place.text] for place in found.occurrences))
    notes += alone_note(checkpoint, "", EACH_ALONE)
    title = f"Layer {layer}" if layer else "Before the first layer"
    return (
        {"facts": facts, "notes": [*([ONE_PLACE] if places == 1 else []), *notes]},
        similarity_map(labels, found.cosine[layer].tolist(), title=f"{title}: cosine similarity"),
        word_points(labels, found.points[layer].tolist(), title=f"{title}: the vectors on a plane"),
    )


def contexts_file(kind: str, checkpoint: Checkpoint, word: str, sentences: list[str], layer: int) -> str:
    """One layer's similarities as JSON or CSV, a row for each two places, or the lines of Python that give them."""
    if kind == "py":
        return (
            "from bert_core import load_checkpoint, words_in_contexts\n\n"
            f"checkpoint = load_checkpoint({checkpoint.name!r})\n"
            f"found = words_in_contexts(checkpoint, {word!r}, {sentences!r})\n"
            f"found.cosine[{layer}]  # (places, places)\n"
            f"found.points[{layer}]  # (places, 2)\n"
        )
    with probe_lock:
        found = words_in_contexts(checkpoint, word, sentences)
    texts = [sentences[place.text] for place in found.occurrences]
    header = ("layer", "first_place", "first_sentence", "second_place", "second_sentence", "cosine")
    rows = [
        (layer, i + 1, texts[i], j + 1, texts[j], cosine)
        for i, row in enumerate(found.cosine[layer].tolist())
        for j, cosine in enumerate(row)
    ]
    return table_json(header, rows) if kind == "json" else table_csv(header, rows)


def snippet(text: str, place: Occurrence) -> str:
    """The word with a little of what stands around it."""
    start, end = max(0, place.start - CONTEXT), min(len(text), place.end + CONTEXT)
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
