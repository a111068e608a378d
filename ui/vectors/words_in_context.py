"""Words in context: one word in several sentences, and how similar its vectors are, level by level."""

import itertools
from typing import Any

import gradio as gr
import torch

from bert_core.errors import InputError
from bert_core.probes.reading import read_words
from bert_core.probes.vectors import Occurrence, words_in_contexts
from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import QUIET
from ui.parts.downloads import exporter, offer
from ui.parts.export import Numbers, python_code, table
from ui.parts.figures import word_points
from ui.parts.notes import EACH_ALONE, alone_note, unknown_note
from ui.parts.page import SKIP, Asked, Page
from ui.server.probe_lock import probe_lock
from ui.views import hint, view

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
MOST_READ = 200  # sentences from the start of the text
CONTEXT = 8  # characters shown on each side of the word


def words_in_context_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with page.tab("Words in context", "words-in-context"):
        facts = view("facts", elem_id="context-facts")
        with gr.Row(elem_classes="b-split", elem_id="context-stage"):
            with gr.Column(scale=1, min_width=320):
                cosine = view("similarityMap", elem_id="context-cosine")
            with gr.Column(scale=1, min_width=320):
                points = view("plot", elem_id="context-points")
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
        with gr.Row():
            # assets/js/vectors/words_in_context.js reads what is typed here.
            word = gr.Textbox(label="Word", max_lines=1, elem_id="context-word", min_width=160, interactive=True)
            sentences = gr.Textbox(
                label="Sentences, one per line",
                lines=3,
                max_lines=10,
                elem_id="context-sentences",
                scale=3,
                min_width=280,
                interactive=True,
            )
        export = exporter("the similarities", of="context-stage", elem_id="context-download")
        hint(HINT)

    def filled(asked: Asked) -> tuple[str, list[str], int]:
        """The word and its sentences, where the person gave none those of an example, and the level."""
        question, checkpoint = asked.question, asked.checkpoint
        chosen, lines = question.word, question.contexts
        if chosen is None or lines is None:
            offered = [text for text in (question.text, question.pair) if text.strip()]
            texts = list(dict.fromkeys([*offered, *asked.corpus.sentences[:MOST_READ]]))
            found = with_word(checkpoint, chosen, texts) if chosen else example(checkpoint, texts)
            chosen, lines = (found[0] if chosen is None else chosen), (tuple(found[1]) if lines is None else lines)
        last = checkpoint.config.num_hidden_layers + 1
        return chosen, list(lines), last if question.level is None else max(0, min(question.level, last))

    def show(asked: Asked) -> dict[Any, Any]:
        """The facts, both pictures of the chosen level, and the controls where the person did not set them."""
        question, (chosen, lines, at) = asked.question, filled(asked)
        controls = {
            word: gr.skip() if question.word is not None else chosen,
            sentences: gr.skip() if question.contexts is not None else "\n".join(lines),
            level: gr.update(maximum=asked.checkpoint.config.num_hidden_layers + 1, value=at),
        }
        if not chosen.strip() or not any(line.strip() for line in lines):
            return {**controls, facts: {"facts": [], "notes": [EMPTY]}, cosine: None, points: None}
        shown = contexts_value(asked.checkpoint, chosen, lines, at)
        return {**controls, **dict(zip((facts, cosine, points), shown))}

    def given(asked: Asked) -> tuple[Checkpoint, str, list[str], int]:
        chosen, lines, at = filled(asked)
        if not chosen.strip() or not lines:
            raise InputError(EMPTY)
        return asked.checkpoint, chosen, lines, at

    page.on(
        "contexts",
        show,
        lambda sentence: {facts: {"facts": [], "notes": [], "error": sentence}, cosine: None, points: None},
        [level, word, sentences],
    )
    # Where the question has none, the answer sets the controls to an example.
    page.on_restored([word, sentences], f"[question.word ?? {SKIP}, question.contexts?.join('\\n') ?? {SKIP}]")
    level.input(None, level, None, js="(level) => Balcony.ask({ level })", trigger_mode="always_last", **QUIET)
    offer(
        page,
        export,
        "similarities",
        lambda asked: contexts_numbers(*given(asked)),
        title=("word",),
        code=lambda asked: contexts_code(*given(asked)),
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


def with_word(checkpoint: Checkpoint, word: str, texts: list[str]) -> tuple[str, list[str]]:
    """The word, and the first texts with it, at most MOST_EXAMPLES."""
    wanted = word.strip().lower()
    having = (text for text in texts if wanted in text.lower())
    found = (text for text in having if any(each.text.lower() == wanted for each in read_words(checkpoint, text)))
    return word, list(itertools.islice(found, MOST_EXAMPLES))


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
