"""Heads switched off: what the model then answers, and how each answer changes without each head."""

from typing import Any

import gradio as gr
import torch

from bert_core.data.batches import Batch
from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import CLS, PAD, SEP
from bert_core.errors import BertCoreError, InputError
from bert_core.probes.attention import Ablation, ablation_map, answers, corpus_batch, without
from bert_core.probes.reading import encode_text
from bert_core.probes.sentence_pairs import window
from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import QUIET, on_error
from ui.parts.downloads import Exporter, exporter, offer
from ui.parts.export import Numbers, ablation_numbers, python_code
from ui.parts.page import Page
from ui.parts.question import Question, Values
from ui.server.probe_lock import probe_lock
from ui.views import answer_to, view

SENTENCES = 200  # from the beginning of the corpus: sixteen rows need no more of a long text
ROWS, ROWS_OF_A_LARGE_MODEL = 16, 4
LARGE = 20_000_000  # parameters
AT_ONCE = 100_000_000  # heads x parameters x rows: more work waits for a click
WITH_LOSS = 8_000_000_000  # more work leaves the loss out of the map
LOSS_LEFT_OUT = "The corpus loss without each head is left out: it would take minutes with a model of this size."
WAITS = "With a model of this size it takes some seconds to switch off each head once."


def head_switches() -> tuple[gr.HTML, Exporter]:
    """Lay out the switches and their exporter. Value: see `switches_value`."""
    switches = view("headSwitches", events=("input", "submit"), elem_id="attention-switches")
    return switches, exporter("the effect of each head", of="attention-switches", elem_id="switches-download")


def connect_switches(
    page: Page, parts: tuple[gr.HTML, Exporter], triggers: list[Any], text: gr.Textbox, pair: gr.Textbox
) -> None:
    """Answer the switches for the two texts, and again whenever one of `triggers` fires."""
    switches, export = parts

    def asked(values: Values) -> tuple[Checkpoint, Question]:
        return page.model(values[page.visitor]).checkpoint, Question(values[text], values[pair])

    @on_error(lambda sentence: {switches: {"error": sentence}})
    def judge(values: Values, at_once: bool = False) -> dict[Any, Any]:
        if not values[text].strip():
            return {switches: None}
        corpus, chosen = page.corpus(values[page.visitor]), values[switches]
        return {switches: answer_to(chosen, switches_value(*asked(values), corpus, chosen, at_once))}

    def measure(values: Values) -> dict[Any, Any]:
        return judge(values, True)

    def numbers(values: Values) -> Numbers:
        if not values[text].strip():
            raise InputError("There is no sentence yet; type or choose one first.")
        checkpoint, question = asked(values)
        position = hidden_position(checkpoint, question, values[switches])
        with probe_lock:
            batch = batch_for(checkpoint, page.corpus(values[page.visitor])) if cost(checkpoint) <= WITH_LOSS else None
            return ablation_numbers(ablation_map(checkpoint, *question.texts, position=position, batch=batch))

    def code(values: Values) -> str:
        checkpoint, question = asked(values)
        return switches_code(checkpoint, question, hidden_position(checkpoint, question, values[switches]))

    inputs = {page.visitor, text, pair, switches}
    offer(export, "heads-off", inputs, numbers, code=code)
    gr.on([*triggers, switches.input], judge, inputs, switches, trigger_mode="always_last", **QUIET)
    switches.submit(measure, inputs, switches, trigger_mode="once", **QUIET)


def switches_value(
    checkpoint: Checkpoint, question: Question, corpus: Corpus, chosen: dict[str, Any] | None, at_once: bool = False
) -> dict[str, Any]:
    """The answers with all heads and without those that are off, and the change for each head alone.

    chosen: the last value, in which the page changed "off" or "position". at_once: measure each head even with a model
    that is slow at it.
    """
    L, H = checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads
    off = [(int(layer), int(head)) for layer, head in (chosen or {}).get("off", []) if 0 <= layer < L and 0 <= head < H]
    position, work = hidden_position(checkpoint, question, chosen), cost(checkpoint)
    with probe_lock:
        settings = torch.stack([without(checkpoint, []), without(checkpoint, off)])
        batch = batch_for(checkpoint, corpus)
        found = answers(checkpoint, settings, *question.texts, position=position, batch=batch)
    changes = None
    if work <= AT_ONCE or at_once:
        with probe_lock:
            each = batch if work <= WITH_LOSS else None
            changes = ablation_map(checkpoint, *question.texts, position=position, batch=each)
    titles = titles_of(found.answer)
    shown = {name: values.tolist() for name in titles if (values := getattr(found, name)) is not None}
    return {
        "layers": L,
        "heads": H,
        "off": [list(head) for head in off],
        "position": position,
        "words": maskable_tokens(checkpoint, question),
        "titles": {name: titles[name] for name in shown},
        "rows": {name: [round(value, 5) for value in values] for name, values in shown.items()},
        "maps": None if changes is None else maps_of(changes),
        "waits": "" if changes is not None else WAITS,
        "notes": [LOSS_LEFT_OUT] if changes is not None and "loss" in shown and changes.loss is None else [],
    }


def titles_of(answer: str) -> dict[str, str]:
    """Labels of the measured answers. answer: the hidden word."""
    return {
        "word": f"Probability of {answer} at its position",
        "is_next": "P(IsNext) of the pair",
        "loss": "MLM loss on the corpus",
    }


def maps_of(changes: Ablation) -> dict[str, list[list[float]]]:
    """The changes that were measured, as JSON."""
    found = {name: getattr(changes, name) for name in ("word", "is_next", "loss")}
    return {
        name: [[round(value, 5) for value in row] for row in values.tolist()]
        for name, values in found.items()
        if values is not None
    }


def maskable_tokens(checkpoint: Checkpoint, question: Question) -> list[list[Any]]:
    """The tokens that can be hidden, [position, token] each."""
    tokens = encode_text(checkpoint, *question.texts).tokens
    return [[position, token] for position, token in enumerate(tokens) if token not in (CLS, SEP, PAD)]


def hidden_position(checkpoint: Checkpoint, question: Question, chosen: dict[str, Any] | None) -> int:
    """Position of the hidden token: the chosen one as long as it holds the same token, else the middle one."""
    words = maskable_tokens(checkpoint, question)
    before = dict(map(tuple, (chosen or {}).get("words", [])))
    position = (chosen or {}).get("position")
    kept = [at for at, token in words if at == position and before.get(position) == token]
    return kept[0] if kept else words[len(words) // 2][0]


def rows_for(checkpoint: Checkpoint) -> int:
    """Number of corpus rows over which the loss is averaged."""
    return ROWS if checkpoint.config.parameter_count() <= LARGE else ROWS_OF_A_LARGE_MODEL


def cost(checkpoint: Checkpoint) -> int:
    """The work of switching off each head once: heads x parameters x rows."""
    config = checkpoint.config
    heads = config.num_hidden_layers * config.num_attention_heads
    return heads * config.parameter_count() * rows_for(checkpoint)


def batch_for(checkpoint: Checkpoint, corpus: Corpus) -> Batch | None:
    """Rows of the corpus for the loss; None for a text without pairs."""
    try:
        return corpus_batch(checkpoint, window(corpus, SENTENCES)[1], rows=rows_for(checkpoint))
    except BertCoreError:  # one sentence, or only unknown words: there is no loss to measure
        return None


def switches_code(checkpoint: Checkpoint, question: Question, position: int) -> str:
    """Python code that computes the same numbers."""
    return python_code(
        checkpoint.name,
        ["ablation_map"],
        f"changes = ablation_map(checkpoint, {question.texts_code}, position={position})",
        "changes.intact.word, changes.intact.is_next  # the whole model",
        "changes.word, changes.is_next  # (layers, heads): the change without that head",
    )
