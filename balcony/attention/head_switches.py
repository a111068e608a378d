"""Heads switched off: what the model then answers, and how each answer changes without each head."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from balcony.frame.masking import mask_words, maskable
from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import TEXTS, Question
from balcony.parts.downloads import exporter
from balcony.parts.export import Row, python_code
from balcony.server.probe_lock import probe_lock
from balcony.views import view
from bert_core.config import DataConfig
from bert_core.data.batches import Batch, PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.errors import BertCoreError, InputError
from bert_core.probes.attention import ablation_map, answers
from bert_core.probes.sentence_pairs import window
from bert_core.storage.checkpoint import Checkpoint

SENTENCES = 200  # from the beginning of the corpus: sixteen rows need no more of a long text
ROWS, ROWS_OF_A_LARGE_MODEL = 16, 4
LARGE = 20_000_000  # parameters
AT_ONCE = 100_000_000  # heads x parameters x rows: more work waits for a click
WITH_LOSS = 8_000_000_000  # more work leaves the loss out of the map
LOSS_LEFT_OUT = "The corpus loss without each head is left out: it would take minutes with a model of this size."
HINT = (
    "Click a head to switch it off, and again to switch it on. A head helped if the probability is lower or the loss "
    "higher without it. Other heads can take over the part of one that is off: a small change does not show that it "
    "does nothing."
)
WAITS = "With a model of this size it takes some seconds to switch off each head once."


SWITCHES = "attention-switches"  # elem_id


def head_switches(page: Page) -> None:
    """Lay out the switches and their exporter, and connect them."""
    view("attention/head_switches", options={"hint": HINT}, elem_id=SWITCHES)
    exporter(
        *(page, "the effect of each head"),
        of=SWITCHES,
        elem_id="switches-download",
        name="heads-off",
        answer=lambda asked: {SWITCHES: measure(asked)},
        views=(SWITCHES,),
        rows=switch_rows,
        code=lambda asked: switches_code(asked.checkpoint, *hidden(asked)),
    )
    page.answers.add("measure", measure)
    page.answer("switches", (*TEXTS, "hidden", "off"), (SWITCHES,), judge)


def judge(asked: PageRequest) -> dict[str, Any]:
    """The answers without the heads that are off."""
    if not asked.question.text.strip():
        return {SWITCHES: None}
    return {SWITCHES: switches_value(asked.checkpoint, asked.question, asked.corpus)}


def measure(asked: PageRequest) -> dict[str, Any]:
    """The same, with each head switched off once even where that is slow."""
    return switches_value(asked.checkpoint, asked.question, asked.corpus, at_once=True)


def hidden(asked: PageRequest) -> tuple[Question, int]:
    """The question with its hidden words masked but the first, and the position of that one."""
    if not asked.question.text.strip():
        raise InputError("There is no sentence yet; type or choose one first.")
    return hidden_position(asked.checkpoint, asked.question)


def switches_value(checkpoint: Checkpoint, question: Question, corpus: Corpus, at_once: bool = False) -> dict[str, Any]:
    """The answers with all heads and without those that are off, and the change for each head alone.

    at_once: measure each head even with a model that is slow at it.
    """
    L, H = checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads
    off, work = question.heads_off(checkpoint), cost(checkpoint)
    question, position = hidden_position(checkpoint, question)
    with probe_lock:
        batch = batch_for(checkpoint, corpus)
        ask = functools.partial(answers, position=position, batch=batch)
        answer, intact = ask(checkpoint, *question.texts)
        _, without = ask(checkpoint, *question.texts, off=off, answer=answer)
    changes = None
    if work <= AT_ONCE or at_once:
        with probe_lock:
            each = batch if work <= WITH_LOSS else None
            changes = ablation_map(checkpoint, *question.texts, position=position, batch=each)
    titles, shown = titles_of(answer), {name: [value, without[name]] for name, value in intact.items()}
    return {
        "layers": L,
        "heads": H,
        "off": [list(head) for head in off],
        "titles": {name: titles[name] for name in shown},
        "rows": shown,
        "maps": None if changes is None else {name: each.tolist() for name, each in changes.changes.items()},
        "waits": "" if changes is not None else WAITS,
        "notes": [LOSS_LEFT_OUT] if changes is not None and changes.changes.keys() != shown.keys() else [],
    }


def switch_rows(value: dict[str, Any]) -> Iterator[Row]:
    """A row for each head, counted from 1, with the change of each answer when that head alone is off."""
    for layer, head in np.ndindex(value["layers"], value["heads"]):
        changes = {name: heads[layer][head] for name, heads in value["maps"].items()}
        yield {"layer": layer + 1, "head": head + 1, **changes}


def titles_of(answer: str) -> dict[str, str]:
    return {
        "word": f"Probability of “{answer}” at its position",
        "is_next": "P(IsNext) of the pair",
        "loss": "MLM loss on the corpus",
    }


def hidden_position(checkpoint: Checkpoint, question: Question) -> tuple[Question, int]:
    """The texts with all hidden words masked but the first, and the position of that one's first token; without a
    hidden word that of the middle word. Raises InputError for a text without words."""
    words = maskable(checkpoint, question)
    if not words:
        raise InputError("The model reads no word of this text; type another.")
    numbers = [number for number in question.hidden if 0 <= number < len(words)]
    first, *others = numbers or [len(words) // 2]
    masked, _ = mask_words(checkpoint, dataclasses.replace(question, hidden=tuple(others)))
    return masked, words[first].first


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


def corpus_batch(checkpoint: Checkpoint, corpus: Corpus, *, rows: int) -> Batch:
    """Sentence pairs of a corpus with each asked token shown as [MASK], the same at every call. Raises CorpusError when
    the text has no two neighbouring sentences."""
    length = min(DataConfig().sequence_length, checkpoint.config.max_position_embeddings)
    config = DataConfig(batch_size=rows, sequence_length=length, mask_share=1.0, random_share=0.0)
    return PretrainingBatches(encode_corpus(corpus, checkpoint.tokenizer), checkpoint.tokenizer, config, seed=0)[0]


def switches_code(checkpoint: Checkpoint, question: Question, position: int) -> str:
    return python_code(
        checkpoint,
        f"found = ablation_map(checkpoint, {question.texts_code}, position={position})",
        "found.intact  # the answers of the whole model",
        "found.changes['word']  # (layers, heads): the change without that head",
    )
