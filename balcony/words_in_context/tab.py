"""Words in context: how similar the vectors of one word in several sentences are, level by level, or those of whole
sentences."""

import itertools
from collections.abc import Iterator
from typing import Any

import gradio as gr
import torch
from torch import Tensor

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import TEXTS
from balcony.frame.tab import Tab
from balcony.parts.controls import control
from balcony.parts.downloads import exporter
from balcony.parts.export import Row, python_code
from balcony.parts.notes import no_facts, unknown_note
from balcony.server.probe_lock import probe_lock
from balcony.views import hint, view, with_terms
from bert_core.errors import InputError
from bert_core.probes.reading import read_words, unknown_words
from bert_core.probes.vectors import Occurrence, cosines, sentence_vectors, words_in_contexts
from bert_core.storage.checkpoint import Checkpoint

EMPTY = "Type a word, and two or more sentences that contain it, one per line."
NO_SENTENCES = "Type two or more sentences, one per line."
ONE_OCCURRENCE = "The word occurs only once; add a sentence to compare it with."
HINT = (
    "Level 0 is the word's own vector. Level 1 adds the vectors of its position and segment; each [[layer]] then mixes "
    "in the words around it. A whole sentence has one vector of the last layer, the sentence vector: the mean of the "
    "vectors of all its [[token|tokens]], or the one at [[[CLS]]]. Near means a cosine near 1, which like words give "
    "as well as a like subject; no training asked for it. The mean mostly does better, because [CLS] was trained only "
    "to tell whether B follows A."
)
WORD_VECTORS, EMBEDDINGS = "Word vectors alone", "Embeddings"
ONE_WORD = "word"
KINDS = (
    (ONE_WORD, "One word"),
    ("mean", "Whole sentences, mean of all tokens"),
    ("cls", "Whole sentences, vector at [CLS]"),
)
MOST_LEVELS = 50
MOST_EXAMPLES = 3
MOST_READ = 200  # sentences from the start of the text
MOST_SENTENCES = 100
CONTEXT = 16  # characters shown on each side of the word
BANK = (
    "bank",
    [
        "the bank of the river was steep",
        "the bank of the lake was green",
        "the bank lent money to the company",
        "the bank paid interest to the company",
    ],
)

FACTS, COSINE = "context-facts", "context-cosine"  # elem_ids
WORD, SENTENCES, LEVEL = "context-word", "context-sentences", "context-level"


def lay_out(page: Page) -> None:
    with gr.Row(elem_id="context-texts"):
        with gr.Column(scale=3, min_width=300):
            control("radio", "pooling", label="Compare", choices=KINDS, elem_id="context-kind")
            with gr.Row(elem_id="context-inputs"):
                control("text", "word", label="Word", elem_id=WORD)
                control("lines", "contexts", label="Sentences, one per line", elem_id=SENTENCES)
        with gr.Column(scale=2, min_width=300):
            control("slider", "level", label="Level", most=MOST_LEVELS, elem_id=LEVEL)
            view("train/facts", elem_id=FACTS)
    view("words_in_context/similarity_map", elem_id=COSINE)
    exporter(
        *(page, "the similarities"),
        of=COSINE,
        elem_id="context-download",
        name="similarities",
        answer=show,
        views=(COSINE,),
        rows=contexts_rows,
        title=("word",),
        code=code_of_view,
    )
    hint(with_terms(HINT))
    reads = (*TEXTS, "word", "contexts", "level", "pooling")
    page.answer("contexts", reads, (FACTS, COSINE), show)


TAB = Tab(
    "words-in-context",
    "Words in context",
    lay_out,
    hint="The sentences below are compared. Click a word here to follow it through them.",
    press="word",
)


def filled(asked: PageRequest) -> tuple[str, list[str], int]:
    """The word and its sentences, where the person gave none those of an example, and the level."""
    question, checkpoint = asked.question, asked.checkpoint
    chosen, lines = question.word, question.contexts
    if chosen is None or lines is None:
        offered = [text for text in (question.text, question.pair) if text.strip()]
        texts = list(dict.fromkeys([*offered, *asked.corpus.sentences[:MOST_READ]]))
        found = with_word(checkpoint, chosen, texts) if chosen else first_example(checkpoint, texts)
        if lines is not None and not with_word(checkpoint, found[0], list(lines))[1]:
            found = example(checkpoint, list(lines))  # the word of the example is in none of the person's sentences
        chosen, lines = found[0] if chosen is None else chosen, tuple(found[1]) if lines is None else lines
    last = checkpoint.config.num_hidden_layers + 1
    return chosen, list(lines), last if question.level is None else max(0, min(question.level, last))


def show(asked: PageRequest) -> dict[str, Any]:
    """The facts, the map of the chosen level, and what the controls show where the person did not set them."""
    chosen, lines, at = filled(asked)
    last, pooling = asked.checkpoint.config.num_hidden_layers + 1, asked.question.pooling
    level = {"first": at, "most": last, "names": [level_name(number) for number in range(last + 1)]}
    controls = {WORD: {"first": chosen}, SENTENCES: {"first": lines}, LEVEL: level}
    is_word = pooling == ONE_WORD
    shown: tuple[dict[str, Any] | None, ...]
    if not any(line.strip() for line in lines) or (is_word and not chosen.strip()):
        shown = no_facts(notes=[EMPTY if is_word else NO_SENTENCES]), None
    elif is_word:
        shown = contexts_value(asked.checkpoint, chosen, lines, at)
    else:
        shown = sentences_value(asked.checkpoint, lines, pooling)
    return {**controls, **dict(zip((FACTS, COSINE), shown))}


def code_of_view(asked: PageRequest) -> str:
    return contexts_code(asked.checkpoint, *filled(asked), asked.question.pooling)


def first_example(checkpoint: Checkpoint, texts: list[str]) -> tuple[str, list[str]]:
    """BANK, if the model knows its words, else `example`."""
    word, sentences = BANK
    is_whole = [each.pieces for each in read_words(checkpoint, word)] == [(word,)]
    if is_whole and not unknown_words(checkpoint, " ".join(sentences)):
        return word, sentences
    return example(checkpoint, texts)


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


def level_name(level: int) -> str:
    return (WORD_VECTORS, EMBEDDINGS)[level] if level < 2 else f"Layer {level - 1}"


def contexts_value(checkpoint: Checkpoint, word: str, sentences: list[str], level: int) -> tuple[dict[str, Any], ...]:
    """The values of the facts view and of the heat map for one level."""
    with probe_lock:
        found = words_in_contexts(checkpoint, word, sentences)
    texts = [sentences[occurrence.text] for occurrence in found.occurrences]
    labels = [snippet(text, occurrence) for text, occurrence in zip(texts, found.occurrences)]
    having = {occurrence.text for occurrence in found.occurrences}
    facts = [["Occurrences", f"{len(labels)}"], ["Sentences", f"{len(having)}"]]
    if without := sum(bool(text.strip()) for number, text in enumerate(sentences) if number not in having):
        facts.append(["Left out, without the word", f"{without}"])
    if len(labels) > 1:
        different = ~torch.eye(len(labels), dtype=torch.bool)
        means = [f"{cosine[different].mean():.2f}" for cosine in found.cosine]
        facts.append(["Mean similarity", means[level]])
        facts += [[WORD_VECTORS, means[0]], [EMBEDDINGS, means[1]], ["Last layer", means[-1]]]
    return (
        {"facts": facts, "notes": [ONE_OCCURRENCE] * (len(labels) == 1) + unknown_note(checkpoint, *texts)},
        map_value(level_name(level), labels, texts, found.cosine[level]),
    )


def map_value(title: str, labels: list[str], texts: list[str], cosine: Tensor) -> dict[str, Any]:
    return {"title": f"{title}: cosine similarity", "labels": labels, "texts": texts, "cosine": cosine.tolist()}


def sentences_value(checkpoint: Checkpoint, sentences: list[str], pooling: str) -> tuple[dict[str, Any], ...]:
    """The same for whole sentences, each with one vector of the last layer."""
    if len(sentences) > MOST_SENTENCES:
        raise InputError(f"There are {len(sentences):,} sentences; this view compares {MOST_SENTENCES}. Remove some.")
    with probe_lock:
        cosine = cosines(sentence_vectors(checkpoint, sentences, pooling))
    facts = [["Sentences", f"{len(sentences)}"]]
    if len(sentences) > 1:
        facts.append(["Mean similarity", f"{cosine[~torch.eye(len(sentences), dtype=torch.bool)].mean():.2f}"])
    return (
        {"facts": facts, "notes": [NO_SENTENCES] * (len(sentences) < 2) + unknown_note(checkpoint, *sentences)},
        map_value("Whole sentences", sentences, sentences, cosine),
    )


def contexts_rows(value: dict[str, Any]) -> Iterator[Row]:
    """A row for each two occurrences of the word, or for each two whole sentences, counted from 1."""
    texts = [*enumerate(value["texts"], 1)]
    for (first, one), row in zip(texts, value["cosine"]):
        for (second, other), cosine in zip(texts, row):
            pair = {"first": first, "first_sentence": one, "second": second, "second_sentence": other}
            yield {"title": value["title"], **pair, "cosine": cosine}


def contexts_code(checkpoint: Checkpoint, word: str, sentences: list[str], level: int, pooling: str = ONE_WORD) -> str:
    if pooling != ONE_WORD:
        return python_code(
            checkpoint,
            f"vectors = sentence_vectors(checkpoint, {sentences!r}, {pooling!r})",
            "unit = vectors / vectors.norm(dim=1, keepdim=True)",
            "unit @ unit.T  # (sentences, sentences)",
        )
    return python_code(
        checkpoint,
        f"found = words_in_contexts(checkpoint, {word!r}, {sentences!r})",
        f"found.cosine[{level}]  # (occurrences, occurrences)",
        f"found.vectors[{level}]  # (occurrences, hidden size)",
    )


def snippet(text: str, occurrence: Occurrence) -> str:
    """The word with a few characters on each side."""
    start, end = max(0, occurrence.start - CONTEXT), min(len(text), occurrence.end + CONTEXT)
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
