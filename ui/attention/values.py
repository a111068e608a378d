"""The values that the views of attention draw, a page of its own that holds them, and Python code for them."""

import json
import math
from dataclasses import dataclass
from string import Template
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_core.errors import InputError
from bert_core.probes.attention import (
    FACTS,
    NAMED_FROM,
    PATTERNS,
    RANDOM_HEADS,
    SPECIAL,
    AttentionMaps,
    HeadFacts,
    attention,
    average,
    difference,
    head_facts,
    head_names,
    rollout,
    without_special,
)
from bert_core.probes.stages import follow
from bert_core.storage.checkpoint import Checkpoint
from ui.parts.export import MAX_WEIGHTS, packed, python_code
from ui.parts.masking import mask_words
from ui.parts.question import Head, Question
from ui.server.probe_lock import probe_lock
from ui.server.scripts import ASSETS, in_one_piece, style_sheet

DIFFERENCE = {"difference": "Difference from the other model"}
LABEL_HINT = (
    f"A head is labelled if its weight there is at least {NAMED_FROM:.0%} of the way from uniform to 1, and above that "
    f"of {RANDOM_HEADS} heads with random weights."
)
MOST_IN_THUMBNAIL = 64  # tokens; of more, a pixel shows the largest weight of several


@dataclass(frozen=True)
class ShownAttention:
    """Attention as the page shows it. maps, average, rollout: of the same tokens, with or without special ones; the
    latter two are (L, T, T). facts, names: of the whole input in either case, see `head_names`.
    """

    maps: AttentionMaps
    facts: HeadFacts
    names: list[list[str]]
    average: Tensor
    rollout: Tensor


def shown_attention(checkpoint: Checkpoint, question: Question) -> ShownAttention:
    """Everything that the page shows of a model's attention, where hidden words are [MASK]s.

    Raises InputError for an empty or too long text.
    """
    if not question.text.strip():
        raise InputError("There is no sentence yet; type or choose one first.")
    texts = mask_words(checkpoint, question)[0].texts
    maps = attention(checkpoint, *texts)
    if maps.weights.numel() > MAX_WEIGHTS:
        raise InputError(
            f"All heads together have {maps.weights.numel():,} weights; the page shows {MAX_WEIGHTS:,}. "
            "Shorten the text."
        )
    flow = AttentionMaps(maps.tokens, maps.token_type_ids, rollout(maps.weights))
    shown, shown_flow = (without_special(each) if question.hide_special else each for each in (maps, flow))
    names = head_names(checkpoint, *texts)
    return ShownAttention(shown, head_facts(maps), names, average(shown.weights), shown_flow.weights)


def differences(one: ShownAttention, other: ShownAttention) -> Tensor | None:
    """How much each head differs between two models, (L, H); None where tokens, layers or heads differ."""
    same = one.maps.tokens == other.maps.tokens and one.maps.weights.shape == other.maps.weights.shape
    return difference(one.maps.weights, other.maps.weights) if same else None


def difference_note(apart: Tensor | None) -> str:
    """A sentence on what `differences` returns."""
    if apart is None:
        return "The two models differ in tokens, layers or heads, so their weights are not subtracted."
    H = apart.shape[1]
    least, most = (divmod(int(at), H) for at in (apart.argmin(), apart.argmax()))
    return (
        f"On average, {apart.mean():.0%} of a word's attention goes to other words than in the other model: "
        f"from {apart.min():.0%} (layer {least[0] + 1}, head {least[1] + 1}) to {apart.max():.0%} "
        f"(layer {most[0] + 1}, head {most[1] + 1})."
    )


def grid_value(shown: ShownAttention, picked: Head, apart: Tensor | None = None) -> dict[str, Any]:
    """All maps for the grid: a byte for each weight, 255 times its root, which keeps small weights visible.

    apart: see `differences`; one more fact.
    """
    weights = shown.maps.weights
    if (pooled := math.ceil(weights.shape[-1] / MOST_IN_THUMBNAIL)) > 1:
        weights = F.max_pool2d(weights, pooled, ceil_mode=True)
    L, H, size, _ = weights.shape
    facts = shown.facts.facts if apart is None else {**shown.facts.facts, "difference": apart}
    titles = FACTS if apart is None else FACTS | DIFFERENCE
    return {
        "layers": L,
        "heads": H,
        "size": size,
        "weights": packed((weights.sqrt() * 255).round().clamp(0, 255).byte()),
        "picked": list(picked),
        "facts": {name: _numbers(facts[name]) for name in titles},
        "titles": titles,
        "most": {"entropy": round(shown.facts.chance["entropy"], 4)},
        "names": shown.names,
        "patterns": PATTERNS,
        "label_hint": LABEL_HINT,
        "notes": [],
    }


def detail_value(shown: ShownAttention, picked: Head, apart: Tensor | None = None) -> dict[str, Any]:
    """One layer in detail; each weight as two bytes, 65535 means 1. Layers and heads are counted from 0."""
    layer, head = picked
    L, H, _, _ = shown.maps.weights.shape
    return {
        "tokens": shown.maps.tokens,
        "segments": shown.maps.token_type_ids,
        "layer": layer,
        "head": head,
        "layers": L,
        "heads": H,
        "weights": packed(_two_bytes(shown.maps.weights[layer])),
        "averages": packed(_two_bytes(shown.average)),
        "rollout": packed(_two_bytes(shown.rollout)),
        "apart": None if apart is None else [round(fraction, 4) for fraction in apart[layer].tolist()],
    }


def head_value(checkpoint: Checkpoint, question: Question) -> dict[str, Any]:
    """The tokens of the question, and the query, key and value of each in its head, base64 of float32. words: the
    positions of those that are not special."""
    layer, head = question.head
    with probe_lock:
        found = follow(checkpoint, *mask_words(checkpoint, question)[0].texts, layer=layer)
    if not 0 <= head < len(found.layer["query"]):
        raise InputError(f"The model has {len(found.layer['query'])} heads in a layer, and no head {head + 1}.")
    vectors = {name: packed(found.layer[name][head]) for name in ("query", "key", "value")}
    words = [i for i, token in enumerate(found.tokens) if token not in SPECIAL]
    return {"tokens": found.tokens, "words": words, **vectors}


def nearest_head(head: Head, shown: ShownAttention) -> Head:
    """The chosen head, or the last one of a smaller model."""
    L, H, _, _ = shown.maps.weights.shape
    layer, number = head
    return max(0, min(layer, L - 1)), max(0, min(number, H - 1))


def attention_page(shown: ShownAttention, picked: Head, title: str) -> str:
    """An HTML page with the same views that needs no network: it contains scripts, style and numbers."""
    layers = [packed(_two_bytes(layer)) for layer in shown.maps.weights]
    content = {
        "grid": grid_value(shown, picked),
        "detail": detail_value(shown, picked),
        "layers": layers,
        "title": title,
    }
    # A person's text must not end the script element.
    data = json.dumps(content, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    page = Template((ASSETS / "attention-page.html").read_text(encoding="utf-8"))
    script = in_one_piece("attention/page.js")
    # one pass: inserted text is not substituted
    return page.substitute(style=style_sheet(), data=data, script=script)


def attention_code(checkpoint: Checkpoint, question: Question) -> str:
    """Python code that computes the numbers on the page."""
    layer, head = nearest_head(question.head, shown_attention(checkpoint, question))
    texts = mask_words(checkpoint, question)[0].texts_code
    return python_code(
        checkpoint.name,
        ["attention", "average", "head_facts", "head_names", "rollout", "without_special"],
        f"maps = attention(checkpoint, {texts})",
        "facts = head_facts(maps)  # facts.facts['entropy'][layer, head]",
        f"names = head_names(checkpoint, {texts})  # names[layer][head]",
        "flow = rollout(maps.weights)  # (layers, T, T)",
        *(["maps = without_special(maps)"] if question.hide_special else []),
        f"one = maps.weights[{layer}, {head}]  # (T, T): layer {layer + 1}, head {head + 1}; rows attend to columns",
        f"mean = average(maps.weights)[{layer}]  # (T, T)",
    )


def _two_bytes(weights: Tensor) -> Tensor:
    return (weights * 65535).round().clamp(0, 65535).to(torch.uint16)


def _numbers(values: Tensor) -> list[list[float | None]]:
    """JSON has no nan: a fact that no token has is null."""
    return [[None if math.isnan(value) else round(value, 4) for value in row] for row in values.tolist()]
