"""The attention that a question asks for, of one model and of two, and Python code for it."""

from collections.abc import Iterator
from typing import Any

from balcony.frame.masking import mask_words
from balcony.frame.question import Head, Question
from balcony.parts.export import Row, python_code
from balcony.server.probe_lock import probe_lock
from bert_core.errors import InputError
from bert_core.probes.attention import SPECIAL, attention, without_special
from bert_core.probes.patterns import head_names
from bert_core.probes.reading import encode_text
from bert_core.probes.stages import follow
from bert_core.show import attention_values, check_size, packed
from bert_core.storage.checkpoint import Checkpoint


def shown_attention(checkpoint: Checkpoint, question: Question, *, is_named: bool = True) -> dict[str, Any]:
    """What the page draws of a model's attention, where hidden words are [MASK]s; see `attention_values`.

    is_named: with the names of the heads, which take much longer. Raises InputError for an empty or too long text.
    """
    texts = shown_texts(checkpoint, question)
    names = head_names(checkpoint, *texts) if is_named else None
    return attention_values(attention(checkpoint, *texts), names, hide_special=question.hide_special)


def weights_value(checkpoint: Checkpoint, question: Question) -> dict[str, Any]:
    """The attention of the tokens that are shown, with all digits."""
    maps = attention(checkpoint, *shown_texts(checkpoint, question))
    maps = without_special(maps) if question.hide_special else maps
    weights = maps.weights.double().round(decimals=6).tolist()
    return {"tokens": maps.tokens, "token_type_ids": maps.token_type_ids, "weights": weights}


def weight_rows(value: dict[str, Any]) -> Iterator[Row]:
    """A row for each weight: layer, head, the token that attends and the token attended to, all counted from 1."""
    tokens = [*enumerate(value["tokens"], 1)]
    for layer, heads in enumerate(value["weights"], 1):
        for head, weights in enumerate(heads, 1):
            for (i, attends), row in zip(tokens, weights):
                places = {"layer": layer, "head": head, "from_position": i, "from_token": attends}
                for (j, attended), weight in zip(tokens, row):
                    yield {**places, "to_position": j, "to_token": attended, "weight": weight}


def shown_names(checkpoint: Checkpoint, question: Question) -> list[list[str]]:
    """The names of the heads."""
    texts = shown_texts(checkpoint, question)
    with probe_lock:
        return head_names(checkpoint, *texts)


def shown_texts(checkpoint: Checkpoint, question: Question) -> tuple[str, str | None]:
    """The texts with their hidden words as [MASK]s. Raises InputError for an empty or too long text."""
    if not question.text.strip():
        raise InputError("There is no sentence yet; type or choose one first.")
    texts, config = mask_words(checkpoint, question)[0].texts, checkpoint.config
    check_size(config.num_hidden_layers, config.num_attention_heads, len(encode_text(checkpoint, *texts)))
    return texts


def head_value(checkpoint: Checkpoint, question: Question, at: Head) -> dict[str, Any]:
    """The tokens of the question, and the query, key and value of each in a head, base64 of float32. words: the
    positions of those that are not special."""
    layer, head = at
    with probe_lock:
        found = follow(checkpoint, *mask_words(checkpoint, question)[0].texts, layer=layer)
    if not 0 <= head < len(found.layer["query"]):
        raise InputError(f"The model has {len(found.layer['query'])} heads in a layer, and no head {head + 1}.")
    vectors = {name: packed(found.layer[name][head]) for name in ("query", "key", "value")}
    words = [i for i, token in enumerate(found.tokens) if token not in SPECIAL]
    return {"tokens": found.tokens, "words": words, **vectors}


def attention_code(checkpoint: Checkpoint, question: Question) -> str:
    layer, head = question.nearest_head(checkpoint)
    shown_texts(checkpoint, question)  # or it raises
    texts = mask_words(checkpoint, question)[0].texts_code
    return python_code(
        checkpoint,
        f"maps = attention(checkpoint, {texts})",
        f"names = head_names(checkpoint, {texts})  # names[layer][head]",
        "flow = rollout(maps.weights)  # (layers, T, T)",
        *(["maps = without_special(maps)"] if question.hide_special else []),
        f"one = maps.weights[{layer}, {head}]  # (T, T): layer {layer + 1}, head {head + 1}; rows attend to columns",
        f"mean = maps.weights[{layer}].mean(0)  # (T, T)",
        "maps.tokens, names, one",
    )
