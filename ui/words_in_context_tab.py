"""Words in context: one word in several sentences, and how similar its vectors are, level by level."""

from typing import Any

import gradio as gr
import torch

from bert_core.errors import InputError
from bert_core.probes.reading import read_words
from bert_core.probes.vectors import Occurrence, words_in_contexts
from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import QUIET, on_error
from ui.parts.compare import replace_unchanged
from ui.parts.downloads import exporter, offer
from ui.parts.export import Numbers, python_code, table
from ui.parts.figures import word_points
from ui.parts.notes import EACH_ALONE, alone_note, unknown_note
from ui.parts.page import Page
from ui.parts.question import Values
from ui.server.probe_lock import probe_lock
from ui.views import view

FIRST_WORD = "Romeo"
FIRST_SENTENCES = "Hello, how are you? I am Romeo.\nHello, Romeo My name is Juliet. Nice to meet you.\nThank you Romeo"
EMPTY = "Type a word, and two or more sentences that contain it, one per line."
ONE_OCCURRENCE = "The word occurs only once; add a sentence to compare it with."
HINT = (
    "Level 0 is the word's own vector. Level 1 adds the vectors of its position and segment; each layer then mixes in "
    "the words around it. The points are these vectors, projected onto the two directions in which they differ most "
    "(principal components)."
)
WORD_VECTORS, EMBEDDINGS = "Word vectors alone", "Embeddings"
MOST_LEVELS = 50
MOST_EXAMPLES = 3
CONTEXT = 8  # characters shown on each side of the word


def words_in_context_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with gr.Tab("Words in context", elem_id="tab-words-in-context") as tab:
        with gr.Row():
            word = gr.Textbox(FIRST_WORD, label="Word", lines=1, max_lines=1, elem_id="context-word", min_width=160)
            sentences = gr.Textbox(
                FIRST_SENTENCES,
                label="Sentences, one per line",
                lines=3,
                max_lines=10,
                elem_id="context-sentences",
                scale=3,
                min_width=280,
            )
        offered = gr.JSON(visible="hidden")
        # More than any model has; the first answer lowers it to the model's last layer.
        level = gr.Slider(
            0,
            MOST_LEVELS,
            value=MOST_LEVELS,
            step=1,
            label="Level",
            info="0: the word vectors alone. 1: with position and segment (embeddings). Then the layers.",
            elem_id="context-level",
        )
        facts = view("facts", events=("submit",), options={"follows": True}, elem_id="context-facts")
        with gr.Row(elem_classes="balcony-split", elem_id="context-stage"):
            with gr.Column(scale=1, min_width=320):
                cosine = view("similarityMap", elem_id="context-cosine")
            with gr.Column(scale=1, min_width=320):
                points = view("plot", elem_id="context-points")
        export = exporter("the similarities", of="context-stage", elem_id="context-download")
        gr.HTML(f"<p>{HINT}</p>", elem_classes="balcony-hint", apply_default_css=False, js_on_load=None)

    @on_error(lambda sentence: {facts: {"facts": [], "notes": [], "error": sentence}, cosine: None, points: None})
    def show(values: Values) -> dict[Any, Any]:
        """The facts, the slider with the model's levels, and both pictures of the chosen one."""
        checkpoint, chosen = asked(values)
        slider = gr.update(maximum=checkpoint.config.num_hidden_layers + 1, value=chosen)
        if not values[word].strip() or not values[sentences].strip():
            return {facts: {"facts": [], "notes": [EMPTY]}, level: slider, cosine: None, points: None}
        shown = contexts_value(checkpoint, values[word], values[sentences].splitlines(), chosen)
        return {level: slider, **dict(zip((facts, cosine, points), shown))}

    def exemplify(values: Values) -> dict[Any, Any]:
        """Examples of another text than the shown model's give way to its own."""
        before, own = values[sentences].splitlines(), page.sentences(values[page.visitor])
        texts = [values[word], values[sentences]]
        if page.examples(values[page.visitor], before) == before:
            return {offered: [texts, texts]}
        found, lines = example(page.model(values[page.visitor]).checkpoint, own)
        return {offered: [texts, [found, "\n".join(lines)]]}

    def asked(values: Values) -> tuple[Checkpoint, int]:
        """The model, and the chosen level or its last one."""
        checkpoint = page.model(values[page.visitor]).checkpoint
        return checkpoint, min(int(values[level]), checkpoint.config.num_hidden_layers + 1)

    def numbers(values: Values) -> Numbers:
        if not values[word].strip() or not values[sentences].strip():
            raise InputError(EMPTY)
        checkpoint, chosen = asked(values)
        return contexts_numbers(checkpoint, values[word], values[sentences].splitlines(), chosen)

    def code(values: Values) -> str:
        checkpoint, chosen = asked(values)
        return contexts_code(checkpoint, values[word], values[sentences].splitlines(), chosen)

    inputs = {page.visitor, word, sentences, level}
    offer(export, "similarities", inputs, numbers, code=code)
    replace_unchanged(tab.select(exemplify, inputs, offered, **QUIET), offered, [word, sentences])
    gr.on(
        [tab.select, word.change, sentences.change, level.input, facts.submit],
        show,
        inputs,
        {facts, level, cosine, points},
        trigger_mode="always_last",
        **QUIET,
    )


def example(checkpoint: Checkpoint, texts: list[str]) -> tuple[str, list[str]]:
    """The longest word that several texts share, and these texts, at most MOST_EXAMPLES; "" and the first texts without
    such a word."""
    found: dict[str, list[str]] = {}
    for text in texts:
        for word in {each.text.lower() for each in read_words(checkpoint, text) if each.is_known}:
            found.setdefault(word, []).append(text)
    shared = max((word for word, of in found.items() if len(of) > 1), key=lambda word: (len(word), word), default="")
    return shared, found.get(shared, texts)[:MOST_EXAMPLES]


def contexts_value(
    checkpoint: Checkpoint, word: str, sentences: list[str], level: int
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The values of the facts view, the heat map and the chart for one level."""
    with probe_lock:
        found = words_in_contexts(checkpoint, word, sentences)
    texts = [sentences[occurrence.text] for occurrence in found.occurrences]
    labels = [snippet(text, occurrence) for text, occurrence in zip(texts, found.occurrences)]
    facts = [["Occurrences", f"{len(labels)}"], ["Sentences", f"{len({each.text for each in found.occurrences})}"]]
    if len(labels) > 1:
        different = ~torch.eye(len(labels), dtype=torch.bool)
        means = [f"{cosine[different].mean():.2f}" for cosine in found.cosine]
        facts.append(["Mean similarity", means[level]])
        facts += [[WORD_VECTORS, means[0]], [EMBEDDINGS, means[1]], ["Last layer", means[-1]]]
    notes = unknown_note(checkpoint, *texts) + alone_note(checkpoint, "", EACH_ALONE)
    title = (WORD_VECTORS, EMBEDDINGS)[level] if level < 2 else f"Layer {level - 1}"
    return (
        {"facts": facts, "notes": [*([ONE_OCCURRENCE] if len(labels) == 1 else []), *notes]},
        {"title": f"{title}: cosine similarity", "labels": labels, "cosine": found.cosine[level].tolist()},
        word_points(labels, found.points[level].tolist(), title=f"{title}: the vectors in two dimensions"),
    )


def contexts_numbers(checkpoint: Checkpoint, word: str, sentences: list[str], level: int) -> Numbers:
    """One level's similarities, a row for each two occurrences of the word."""
    with probe_lock:
        found = words_in_contexts(checkpoint, word, sentences)
    texts = [sentences[occurrence.text] for occurrence in found.occurrences]
    header = ("level", "first_occurrence", "first_sentence", "second_occurrence", "second_sentence", "cosine")
    rows = [
        (level, i + 1, texts[i], j + 1, texts[j], cosine)
        for i, row in enumerate(found.cosine[level].tolist())
        for j, cosine in enumerate(row)
    ]
    return table(header, rows)


def contexts_code(checkpoint: Checkpoint, word: str, sentences: list[str], level: int) -> str:
    """Python code that computes the same similarities."""
    return python_code(
        checkpoint.name,
        ["words_in_contexts"],
        f"found = words_in_contexts(checkpoint, {word!r}, {sentences!r})",
        f"found.cosine[{level}]  # (occurrences, occurrences)",
        f"found.points[{level}]  # (occurrences, 2)",
    )


def snippet(text: str, occurrence: Occurrence) -> str:
    """The word with a few characters on each side."""
    start, end = max(0, occurrence.start - CONTEXT), min(len(text), occurrence.end + CONTEXT)
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
