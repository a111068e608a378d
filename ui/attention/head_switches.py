"""Heads switched off: what the model then answers, and what each head alone is good for."""

from typing import Any

import gradio as gr
import torch

from bert_core.data.batches import Batch
from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import CLS, PAD, SEP
from bert_core.errors import BertCoreError, InputError
from bert_core.probes.attention import Ablation, ablation_map, answers, corpus_batch, without
from bert_core.probes.forward import encode_text
from bert_core.probes.sentence_pairs import window
from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import QUIET, on_error
from ui.parts.downloads import Exporter, exporter, offer
from ui.parts.export import ablation_csv, ablation_json
from ui.parts.page import Page
from ui.server.probe_lock import probe_lock
from ui.views import answer_to, view

SENTENCES = 200  # from the beginning of the corpus: a long text is not read whole for sixteen rows
ROWS, ROWS_OF_A_LARGE_MODEL = 16, 4
LARGE = 20_000_000  # parameters
AT_ONCE = 100_000_000  # heads x parameters x rows: more waits for a press
WITH_LOSS = 8_000_000_000  # more leaves the loss out of the map
LOSS_LEFT_OUT = "The corpus loss without each head would take minutes with a model of this size, so it is left out."
WAITS = "With a model of this size it takes some seconds to switch each head off in turn."


def head_switches() -> tuple[gr.HTML, Exporter]:
    """Lay out the switches and their exporter. Value: what the page chose, "off" and "place", and what came of it."""
    switches = view("headSwitches", events=("input", "submit"), elem_id="attention-switches")
    what = "what each head is good for"
    return switches, exporter(what, of="attention-switches", elem_id="switches-download")


def connect_switches(page: Page, parts: tuple[gr.HTML, Exporter], triggers: list[Any], words: list[Any]) -> None:
    """Answer the switches, and again whenever one of `triggers` fires. words: visitor, text and pair."""
    switches, export = parts

    @on_error(lambda sentence: {"error": sentence})
    def judge(token: str, text: str, pair: str, chosen: dict[str, Any] | None, at_once: bool = False) -> Any:
        if not text.strip():
            return None
        value = switches_value(page.model(token).checkpoint, page.corpus(token), text, pair, chosen, at_once)
        return answer_to(chosen, value)

    def measure(token: str, text: str, pair: str, chosen: dict[str, Any] | None) -> dict[str, Any]:
        return judge(token, text, pair, chosen, True)

    def write(kind: str, token: str, text: str, pair: str, chosen: dict[str, Any] | None) -> str:
        if not text.strip():
            raise InputError("There is no sentence yet; type or choose one first.")
        checkpoint = page.model(token).checkpoint
        place = place_of(checkpoint, text, pair, chosen)
        if kind == "py":
            return switches_code(checkpoint.name, text, pair, place)
        with probe_lock:
            batch = batch_for(checkpoint, page.corpus(token)) if cost(checkpoint) <= WITH_LOSS else None
            changes = ablation_map(checkpoint, text, pair or None, position=place, batch=batch)
        return ablation_json(changes) if kind == "json" else ablation_csv(changes)

    inputs = [*words, switches]
    offer(export, "heads-off", inputs, write)
    gr.on([*triggers, switches.input], judge, inputs, switches, trigger_mode="always_last", **QUIET)
    switches.submit(measure, inputs, switches, trigger_mode="once", **QUIET)


def switches_value(
    checkpoint: Checkpoint,
    corpus: Corpus,
    text: str,
    pair: str,
    chosen: dict[str, Any] | None,
    at_once: bool = False,
) -> dict[str, Any]:
    """The answers with all heads and without those that are off, and the change for each head alone.

    chosen: the last value. at_once: measure each head even with a model that is slow at it.
    """
    L, H = checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads
    off = [(int(layer), int(head)) for layer, head in (chosen or {}).get("off", []) if 0 <= layer < L and 0 <= head < H]
    words = words_of(checkpoint, text, pair)
    place = place_of(checkpoint, text, pair, chosen)
    work = cost(checkpoint)
    with probe_lock:
        settings = torch.stack([without(checkpoint, []), without(checkpoint, off)])
        batch = batch_for(checkpoint, corpus)
        found = answers(checkpoint, settings, text, pair or None, position=place, batch=batch)
    changes = None
    if work <= AT_ONCE or at_once:
        with probe_lock:
            each = batch if work <= WITH_LOSS else None
            changes = ablation_map(checkpoint, text, pair or None, position=place, batch=each)
    titles = titles_of(found.answer)
    shown = {name: values.tolist() for name in titles if (values := getattr(found, name)) is not None}
    return {
        "layers": L,
        "heads": H,
        "off": [list(head) for head in off],
        "place": place,
        "words": words,
        "titles": {name: titles[name] for name in shown},
        "rows": {name: [round(value, 5) for value in values] for name, values in shown.items()},
        "maps": None if changes is None else maps_of(changes),
        "waits": "" if changes is not None else WAITS,
        "notes": [LOSS_LEFT_OUT] if changes is not None and "loss" in shown and changes.loss is None else [],
    }


def titles_of(answer: str) -> dict[str, str]:
    """What is measured, in words; answer: the hidden word."""
    return {
        "word": f"Probability of {answer} at its place",
        "is_next": "P(IsNext) of the pair",
        "loss": "Masked-word loss on the corpus",
    }


def maps_of(changes: Ablation) -> dict[str, list[list[float]]]:
    """The changes as JSON, for what was asked."""
    found = {name: getattr(changes, name) for name in ("word", "is_next", "loss")}
    return {
        name: [[round(value, 5) for value in row] for row in values.tolist()]
        for name, values in found.items()
        if values is not None
    }


def words_of(checkpoint: Checkpoint, text: str, pair: str) -> list[list[Any]]:
    """The tokens that can be hidden, [place, token] each."""
    tokens = encode_text(checkpoint, text, pair or None).tokens
    return [[place, token] for place, token in enumerate(tokens) if token not in (CLS, SEP, PAD)]


def place_of(checkpoint: Checkpoint, text: str, pair: str, chosen: dict[str, Any] | None) -> int:
    """The place of the hidden word: the chosen one as long as the same word stands there, else the middle one."""
    words = words_of(checkpoint, text, pair)
    before = dict(map(tuple, (chosen or {}).get("words", [])))
    place = (chosen or {}).get("place")
    kept = [at for at, token in words if at == place and before.get(place) == token]
    return kept[0] if kept else words[len(words) // 2][0]


def rows_for(checkpoint: Checkpoint) -> int:
    """Rows of the corpus that a loss is the mean of."""
    return ROWS if checkpoint.config.parameter_count() <= LARGE else ROWS_OF_A_LARGE_MODEL


def cost(checkpoint: Checkpoint) -> int:
    """How much work it is to switch each head off in turn."""
    config = checkpoint.config
    heads = config.num_hidden_layers * config.num_attention_heads
    return heads * config.parameter_count() * rows_for(checkpoint)


def batch_for(checkpoint: Checkpoint, corpus: Corpus) -> Batch | None:
    """Rows of the corpus for the loss; None for a text without pairs."""
    try:
        return corpus_batch(checkpoint, window(corpus, SENTENCES)[1], rows=rows_for(checkpoint))
    except BertCoreError:  # one sentence, or words the model does not know: there is nothing to measure
        return None


def switches_code(folder: str, text: str, pair: str, place: int) -> str:
    """The lines of Python that give the same numbers. folder: where the model's files are."""
    texts = f"{text!r}, {pair!r}" if pair else f"{text!r}"
    return (
        "from bert_core import ablation_map, load_checkpoint\n\n"
        f"checkpoint = load_checkpoint({folder!r})\n"
        f"changes = ablation_map(checkpoint, {texts}, position={place})\n"
        "changes.intact.word, changes.intact.is_next  # the whole model\n"
        "changes.word, changes.is_next  # (layers, heads): the change without that head\n"
        "# With batch=corpus_batch(checkpoint, corpus) from bert_core.probes.attention also changes.loss.\n"
    )
