"""What the views of attention show of a model: its heads, their names, and its answers without some of them."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from balcony.frame.masking import mask_words, maskable
from balcony.frame.question import Question
from balcony.parts.export import Row, python_code
from balcony.server.probe_lock import probe_lock
from bert_core.config import DataConfig
from bert_core.data.batches import Batch, PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.errors import BertCoreError, InputError
from bert_core.probes.attention import SPECIAL, ablation_map, answers, attention, without_special
from bert_core.probes.patterns import head_names
from bert_core.probes.reading import encode_text
from bert_core.probes.sentence_pairs import window
from bert_core.probes.stages import follow, without_heads
from bert_core.show import attention_values, check_size, packed
from bert_core.storage.checkpoint import Checkpoint

NO_TEXT = "There is no sentence yet; type or choose one first."
SENTENCES = 200  # from the beginning of the corpus: sixteen rows need no more of a long text
ROWS = 16  # over which the loss is averaged
WITH_LOSS = 8_000_000_000  # of `cost`: with more, the loss is left out
LOSS_LEFT_OUT = "The loss on the corpus is left out: with a model of this size it would take minutes."


def shown_texts(checkpoint: Checkpoint, question: Question) -> tuple[str, str | None]:
    """The texts with their hidden words as [MASK]s. Raises InputError for an empty or too long text."""
    if not question.text.strip():
        raise InputError(NO_TEXT)
    texts, config = mask_words(checkpoint, question)[0].texts, checkpoint.config
    check_size(config.num_hidden_layers, config.num_attention_heads, len(encode_text(checkpoint, *texts)))
    return texts


def shown_attention(checkpoint: Checkpoint, question: Question, *, is_named: bool = False) -> dict[str, Any]:
    """What the page draws of a model's attention; see `attention_values`. Raises InputError as `shown_texts`.

    is_named: with the names of the heads, which take much longer."""
    with probe_lock:
        texts = shown_texts(checkpoint, question)
        names = head_names(checkpoint, *texts) if is_named else None
        return attention_values(attention(checkpoint, *texts), names, hide_special=question.hide_special)


def shown_names(checkpoint: Checkpoint, question: Question) -> list[list[str]]:
    texts = shown_texts(checkpoint, question)
    with probe_lock:
        return head_names(checkpoint, *texts)


def weights_value(checkpoint: Checkpoint, question: Question) -> dict[str, Any]:
    """The attention of the tokens that are shown, with all digits."""
    with probe_lock:
        maps = attention(checkpoint, *shown_texts(checkpoint, question))
    maps = without_special(maps) if question.hide_special else maps
    weights = maps.weights.double().round(decimals=6).tolist()
    return {"tokens": maps.tokens, "token_type_ids": maps.token_type_ids, "weights": weights}


def number_rows(value: dict[str, Any]) -> Iterator[Row]:
    """A row for each weight: layer, head, the token that attends and the token attended to, all counted from 1; of what
    changes without each head, a row for each head."""
    if changes := value.get("changes"):
        for layer, head in np.ndindex(np.shape(next(iter(changes.values())))):
            found = {name: heads[layer][head] for name, heads in changes.items()}
            yield {"layer": layer + 1, "head": head + 1, **found}
    tokens, weights = value.get("tokens", ()), np.array(value.get("weights", ()))
    for (layer, head, i, j), weight in np.ndenumerate(weights):
        places = {"layer": layer + 1, "head": head + 1, "from_position": i + 1, "from_token": tokens[i]}
        yield {**places, "to_position": j + 1, "to_token": tokens[j], "weight": weight.item()}


def head_value(checkpoint: Checkpoint, question: Question, layer: int, head: int) -> dict[str, Any]:
    """The tokens of the question, and the query, key and value of each in a head, base64 of float32. words: the
    positions of those that are not special."""
    with probe_lock:
        found = follow(checkpoint, *mask_words(checkpoint, question)[0].texts, layer=layer)
    if not 0 <= head < len(found.layer["query"]):
        raise InputError(f"The model has {len(found.layer['query'])} heads in a layer, and no head {head + 1}.")
    vectors = {name: packed(found.layer[name][head]) for name in ("query", "key", "value")}
    words = [i for i, token in enumerate(found.tokens) if token not in SPECIAL]
    return {"tokens": found.tokens, "words": words, **vectors}


def switches_value(checkpoint: Checkpoint, question: Question, corpus: Corpus) -> dict[str, Any]:
    """The answers with all heads and without those that are off, see `answers`."""
    off, (question, position) = question.heads_off(checkpoint), hidden_position(checkpoint, question)
    with probe_lock:
        ask = functools.partial(answers, position=position, batch=batch_for(checkpoint, corpus))
        answer, intact = ask(checkpoint, *question.texts)
        _, without = ask(without_heads(checkpoint, off), *question.texts, answer=answer)
    return {
        "layers": checkpoint.config.num_hidden_layers,
        "heads": checkpoint.config.num_attention_heads,
        "off": off,
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


def hidden_position(checkpoint: Checkpoint, question: Question) -> tuple[Question, int]:
    """The texts with all hidden words masked but the first, and the position of that one's first token; without a
    hidden word that of the middle word. Raises InputError for a text without words."""
    if not question.text.strip():
        raise InputError(NO_TEXT)
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


def attention_code(checkpoint: Checkpoint, question: Question) -> str:
    layer, head = question.nearest_head(checkpoint)
    shown_texts(checkpoint, question)  # or it raises
    texts = mask_words(checkpoint, question)[0].texts_code
    return python_code(
        checkpoint,
        f"maps = attention(checkpoint, {texts})",
        f"names = head_names(checkpoint, {texts})  # names[layer][head]",
        *(["maps = without_special(maps)"] if question.hide_special else []),
        f"one = maps.weights[{layer}, {head}]  # (T, T): layer {layer + 1}, head {head + 1}; rows attend to columns",
        "maps.tokens, names, one",
    )


def effects_code(checkpoint: Checkpoint, question: Question) -> str:
    question, position = hidden_position(checkpoint, question)
    return python_code(
        checkpoint,
        f"found = ablation_map(checkpoint, {question.texts_code}, position={position})",
        "found.intact  # the answers of the whole model",
        "found.changes['word']  # (layers, heads): the change without that head",
    )
