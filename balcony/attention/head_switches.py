"""Heads switched off: what the model then answers, and how each answer changes without each head."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from balcony.frame.masking import mask_words, maskable
from balcony.frame.page_request import PageRequest
from balcony.frame.question import Question
from balcony.parts.export import Row, python_code
from balcony.server.probe_lock import probe_lock
from bert_core.config import DataConfig
from bert_core.data.batches import Batch, PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.errors import BertCoreError, InputError
from bert_core.probes.attention import ablation_map, answers
from bert_core.probes.sentence_pairs import window
from bert_core.probes.stages import without_heads
from bert_core.storage.checkpoint import Checkpoint

SENTENCES = 200  # from the beginning of the corpus: sixteen rows need no more of a long text
ROWS = 16  # over which the loss is averaged
WITH_LOSS = 8_000_000_000  # of `cost`: with more, the loss is left out
LOSS_LEFT_OUT = "The loss on the corpus is left out: with a model of this size it would take minutes."


def switches_value(asked: PageRequest) -> dict[str, Any]:
    """The answers with all heads and without those that are off, see `answers`."""
    checkpoint, (question, position) = asked.checkpoint, hidden_position(asked.checkpoint, asked.question)
    off = question.heads_off(checkpoint)
    with probe_lock:
        batch = batch_for(checkpoint, asked.corpus)
        ask = functools.partial(answers, position=position, batch=batch)
        answer, intact = ask(checkpoint, *question.texts)
        _, without = ask(without_heads(checkpoint, off), *question.texts, answer=answer)
    return {
        "layers": checkpoint.config.num_hidden_layers,
        "heads": checkpoint.config.num_attention_heads,
        "off": [list(head) for head in off],
        "answer": answer,
        "rows": {name: [number, without[name]] for name, number in intact.items()},
        "notes": [LOSS_LEFT_OUT] if cost(checkpoint) > WITH_LOSS else [],
    }


def effects_value(checkpoint: Checkpoint, question: Question, corpus: Corpus) -> dict[str, Any]:
    """The change of each answer when one head alone is off, by layer and head."""
    question, position = hidden_position(checkpoint, question)
    with probe_lock:
        found = ablation_map(checkpoint, *question.texts, position=position, batch=batch_for(checkpoint, corpus))
    return {"answer": found.answer, "changes": {name: each.tolist() for name, each in found.changes.items()}}


def effect_rows(value: dict[str, Any]) -> Iterator[Row]:
    """A row for each head, counted from 1, with the change of each answer when that head alone is off."""
    changes = value["changes"]
    for layer, head in np.ndindex(np.shape(next(iter(changes.values()), [[]]))):
        found = {name: heads[layer][head] for name, heads in changes.items()}
        yield {"layer": layer + 1, "head": head + 1, **found}


def hidden_position(checkpoint: Checkpoint, question: Question) -> tuple[Question, int]:
    """The texts with all hidden words masked but the first, and the position of that one's first token; without a
    hidden word that of the middle word. Raises InputError for a text without words."""
    if not question.text.strip():
        raise InputError("There is no sentence yet; type or choose one first.")
    words = maskable(checkpoint, question)
    if not words:
        raise InputError("The model reads no word of this text; type another.")
    numbers = [number for number in question.hidden if 0 <= number < len(words)]
    first, *others = numbers or [len(words) // 2]
    masked, _ = mask_words(checkpoint, dataclasses.replace(question, hidden=tuple(others)))
    return masked, words[first].first


def cost(checkpoint: Checkpoint) -> int:
    """The work of switching off each head once: heads x parameters x rows."""
    config = checkpoint.config
    return config.num_hidden_layers * config.num_attention_heads * config.parameter_count() * ROWS


def batch_for(checkpoint: Checkpoint, corpus: Corpus) -> Batch | None:
    """Rows of the corpus for the loss; None for a text without pairs and for a model that is too large."""
    if cost(checkpoint) > WITH_LOSS:
        return None
    try:
        return corpus_batch(checkpoint, window(corpus, SENTENCES)[1], rows=ROWS)
    except BertCoreError:  # one sentence, or only unknown words: there is no loss to measure
        return None


def corpus_batch(checkpoint: Checkpoint, corpus: Corpus, *, rows: int) -> Batch:
    """Sentence pairs of a corpus with each asked token shown as [MASK], the same at every call. Raises CorpusError when
    the text has no two neighbouring sentences."""
    length = min(DataConfig().sequence_length, checkpoint.config.max_position_embeddings)
    config = DataConfig(batch_size=rows, sequence_length=length, mask_share=1.0, random_share=0.0)
    return PretrainingBatches(encode_corpus(corpus, checkpoint.tokenizer), checkpoint.tokenizer, config, seed=0)[0]


def effects_code(checkpoint: Checkpoint, question: Question) -> str:
    question, position = hidden_position(checkpoint, question)
    return python_code(
        checkpoint,
        f"found = ablation_map(checkpoint, {question.texts_code}, position={position})",
        "found.intact  # the answers of the whole model",
        "found.changes['word']  # (layers, heads): the change without that head",
    )
