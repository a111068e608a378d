"""Words in context: one word in several sentences, and how similar its vectors are, level by level."""

import itertools
from typing import Any

import gradio as gr
import torch

from bert_core.errors import InputError
from bert_core.probes.reading import read_words
from bert_core.probes.vectors import Occurrence, words_in_contexts
from bert_core.storage.checkpoint import Checkpoint
from ui.frame.page import Page, PageRequest
from ui.frame.question import TEXTS
from ui.frame.tab import Tab
from ui.parts.controls import control
from ui.parts.downloads import exporter
from ui.parts.export import Numbers, python_code, table
from ui.parts.figures import word_points
from ui.parts.notes import EACH_ALONE, alone_note, unknown_note
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


FACTS, COSINE, POINTS = "context-facts", "context-cosine", "context-points"  # elem_ids
WORD, SENTENCES, LEVEL = "context-word", "context-sentences", "context-level"


def lay_out(page: Page) -> None:
    """Lay out the tab and connect it."""
    view("train/facts", elem_id=FACTS)
    with gr.Row(elem_classes="b-split", elem_id="context-stage"):
        with gr.Column(scale=1, min_width=320):
            view("words_in_context/similarity_map", elem_id=COSINE)
        with gr.Column(scale=1, min_width=320):
            view("parts/figures", elem_id=POINTS)
    info = "0: the word vectors alone. 1: with position and segment (embeddings). Then the layers."
    control("slider", "level", label="Level", info=info, most=MOST_LEVELS, elem_id=LEVEL)
    with gr.Row(elem_id="context-texts"):
        control("text", "word", label="Word", elem_id=WORD)
        control("lines", "contexts", label="Sentences, one per line", elem_id=SENTENCES)
    exporter(
        *(page, "the similarities"),
        of="context-stage",
        elem_id="context-download",
        name="similarities",
        numbers=lambda asked: contexts_numbers(*given(asked)),
        title=("word",),
        code=lambda asked: contexts_code(*given(asked)),
    )
    hint(HINT)
    page.on("contexts", (*TEXTS, "word", "contexts", "level"), show, nothing)


TAB = Tab(
    "words-in-context",
    "Words in context",
    lay_out,
    hint="Click a word to follow it through several sentences.",
    press="word",
)


def filled(asked: PageRequest) -> tuple[str, list[str], int]:
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


def show(asked: PageRequest) -> dict[str, Any]:
    """The facts, both pictures of the chosen level, and what the controls show where the person did not set them."""
    chosen, lines, at = filled(asked)
    last = asked.checkpoint.config.num_hidden_layers + 1
    controls = {WORD: {"first": chosen}, SENTENCES: {"first": lines}, LEVEL: {"first": at, "most": last}}
    if not chosen.strip() or not any(line.strip() for line in lines):
        return nothing("") | controls | {FACTS: {"facts": [], "notes": [EMPTY]}}
    shown = contexts_value(asked.checkpoint, chosen, lines, at)
    return {**controls, **dict(zip((FACTS, COSINE, POINTS), shown))}


def nothing(sentence: str) -> dict[str, Any]:
    """An error instead of the pictures."""
    return {FACTS: {"facts": [], "notes": [], "error": sentence}, COSINE: None, POINTS: None}


def given(asked: PageRequest) -> tuple[Checkpoint, str, list[str], int]:
    """What a file is about. Raises InputError where the word or the sentences are missing."""
    chosen, lines, at = filled(asked)
    if not chosen.strip() or not lines:
        raise InputError(EMPTY)
    return asked.checkpoint, chosen, lines, at


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
