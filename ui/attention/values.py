"""What the pictures of attention are drawn from, the page that holds them, and the Python that gives the same."""

import base64
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
    PATTERNS,
    AttentionMaps,
    HeadFacts,
    attention,
    average,
    difference,
    head_facts,
    rollout,
    without_special,
)
from bert_core.storage.checkpoint import Checkpoint
from ui.parts.export import MAX_WEIGHTS
from ui.parts.figures import MAP_OPTIONS
from ui.parts.scripts import ASSETS, in_one_piece

DIFFERENCE = "Difference from the other model"
MOST_IN_THUMBNAIL = 64  # tokens; of more, a pixel shows the largest weight of several


@dataclass(frozen=True)
class Looked:
    """Attention as it is shown. maps: with or without special tokens. average, rollout: (L, T, T) for the same tokens.
    facts: of the whole input, whatever is hidden.
    """

    maps: AttentionMaps
    facts: HeadFacts
    average: Tensor
    rollout: Tensor


def look_at(checkpoint: Checkpoint, text: str, pair: str, hide_special: bool) -> Looked:
    """Everything that is shown of a model's attention. Raises InputError for too long a text."""
    maps = attention(checkpoint, text, pair or None)
    if maps.weights.numel() > MAX_WEIGHTS:
        raise InputError(
            f"All heads together have {maps.weights.numel():,} weights; the page shows {MAX_WEIGHTS:,}. "
            "Shorten the text."
        )
    flow = AttentionMaps(maps.tokens, maps.token_type_ids, rollout(maps.weights))
    shown, shown_flow = (without_special(each) if hide_special else each for each in (maps, flow))
    return Looked(shown, head_facts(maps), average(shown.weights), shown_flow.weights)


def differences(one: Looked, other: Looked) -> Tensor | None:
    """How far apart each head is in two models, (L, H); None where tokens or heads have no counterpart."""
    same = one.maps.tokens == other.maps.tokens and one.maps.weights.shape == other.maps.weights.shape
    return difference(one.maps.weights, other.maps.weights) if same else None


def told_difference(apart: Tensor | None) -> str:
    """The same in words. apart: of all heads, as `differences` gives it."""
    if apart is None:
        return "The two models differ in tokens, layers or heads, so their weights are not subtracted."
    H = apart.shape[1]
    least, most = (divmod(int(at), H) for at in (apart.argmin(), apart.argmax()))
    return (
        f"On average {apart.mean():.0%} of a word's weight lies elsewhere than in the other model: "
        f"{apart.max():.0%} in layer {most[0] + 1}, head {most[1] + 1}, {apart.min():.0%} in layer {least[0] + 1}, "
        f"head {least[1] + 1}."
    )


def grid_value(looked: Looked, picked: tuple[int, int], apart: Tensor | None = None) -> dict[str, Any]:
    """All maps for the grid: a byte for each weight, 255 times its root, so that small weights can be told apart.

    apart: how far each head is from that of another model, one more fact.
    """
    weights = looked.maps.weights
    if (pooled := math.ceil(weights.shape[-1] / MOST_IN_THUMBNAIL)) > 1:
        weights = F.max_pool2d(weights, pooled, ceil_mode=True)
    L, H, size, _ = weights.shape
    facts = looked.facts.facts if apart is None else {**looked.facts.facts, "difference": apart}
    titles = FACTS if apart is None else FACTS | {"difference": DIFFERENCE}
    return {
        "layers": L,
        "heads": H,
        "size": size,
        "weights": _base64((weights.sqrt() * 255).round().clamp(0, 255).byte()),
        "picked": list(picked),
        "facts": {name: _numbers(facts[name]) for name in titles},
        "titles": titles,
        "names": looked.facts.names,
        "patterns": PATTERNS,
        "notes": [],
    }


def detail_value(looked: Looked, picked: tuple[int, int], apart: Tensor | None = None) -> dict[str, Any]:
    """One layer close up; each weight as two bytes, 65535 standing for 1. Layers and heads are counted from 0.

    apart: how far each head is from that of another model.
    """
    layer, head = picked
    L, H, _, _ = looked.maps.weights.shape
    return {
        "tokens": looked.maps.tokens,
        "segments": looked.maps.token_type_ids,
        "layer": layer,
        "head": head,
        "layers": L,
        "heads": H,
        "weights": _base64(_shares(looked.maps.weights[layer])),
        "averages": _base64(_shares(looked.average)),
        "rollout": _base64(_shares(looked.rollout)),
        "apart": None if apart is None else [round(share, 4) for share in apart[layer].tolist()],
    }


def within(picked: tuple[int, int], looked: Looked) -> tuple[int, int]:
    """The picked head, or the last one of a smaller model."""
    L, H, _, _ = looked.maps.weights.shape
    return min(picked[0], L - 1), min(picked[1], H - 1)


def attention_page(looked: Looked, picked: tuple[int, int], title: str) -> str:
    """A page of its own with the same pictures, which needs no network: scripts, style and numbers stand in it."""
    layers = [_base64(_shares(layer)) for layer in looked.maps.weights]
    content = {
        "grid": grid_value(looked, picked),
        "detail": detail_value(looked, picked),
        "layers": layers,
        "options": MAP_OPTIONS,
        "title": title,
    }
    # No text of a person may end the script element, whatever it holds.
    data = json.dumps(content, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    style = (ASSETS / "css" / "balcony.css").read_text(encoding="utf-8")
    page = Template((ASSETS / "attention-page.html").read_text(encoding="utf-8"))
    scripts = in_one_piece("attention/page.js")
    return page.substitute(style=style, data=data, scripts=scripts)  # one pass: what is put in is not read again


def attention_code(folder: str, text: str, pair: str, picked: tuple[int, int], hide_special: bool) -> str:
    """The lines of Python that give the numbers on the page. folder: where the model's files are."""
    layer, head = picked
    texts = f"{text!r}, {pair!r}" if pair else f"{text!r}"
    hidden = "maps = without_special(maps)\n" if hide_special else ""
    return (
        "from bert_core import attention, average, head_facts, load_checkpoint, rollout, without_special\n\n"
        f"checkpoint = load_checkpoint({folder!r})\n"
        f"maps = attention(checkpoint, {texts})\n"
        "facts = head_facts(maps)  # facts.facts['entropy'][layer, head], facts.names[layer][head]\n"
        "flow = rollout(maps.weights)  # (layers, T, T)\n"
        f"{hidden}"
        f"one = maps.weights[{layer}, {head}]  # (T, T): layer {layer + 1}, head {head + 1}; rows look at columns\n"
        f"mean = average(maps.weights)[{layer}]  # (T, T)\n"
    )


def _shares(weights: Tensor) -> Tensor:
    return (weights * 65535).round().clamp(0, 65535).to(torch.uint16)


def _base64(numbers: Tensor) -> str:
    return base64.b64encode(numbers.contiguous().numpy().tobytes()).decode("ascii")


def _numbers(values: Tensor) -> list[list[float | None]]:
    """JSON has no nan; a fact that a head has no place for is null."""
    return [[None if math.isnan(value) else round(value, 4) for value in row] for row in values.tolist()]
