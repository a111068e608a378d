"""Attention as a page of its own, for a file or a notebook, and the values that its views draw."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_core.errors import InputError
from bert_core.pages.offline import Theme, View, packed, page
from bert_core.probes.attention import (
    FACTS,
    NAMED_FROM,
    PATTERNS,
    RANDOM_HEADS,
    AttentionMaps,
    HeadFacts,
    average,
    head_facts,
    rollout,
    without_special,
)

MAX_WEIGHTS = 4_000_000  # 12 layers of 12 heads over 166 tokens; a spreadsheet opens a million rows
DIFFERENCE = {"difference": "Difference from the other model"}
LABEL_HINT = (
    f"A head is labelled if its weight there is at least {NAMED_FROM:.0%} of the way from uniform to 1, and above that "
    f"of {RANDOM_HEADS} heads with random weights."
)
MOST_IN_THUMBNAIL = 64  # tokens; of more, a pixel shows the largest weight of several
_STAGE = """<main id="attention-stage">
<div><div class="b-view" id="grid"></div></div>
<div><div class="b-view" id="detail"></div></div>
</main>"""


@dataclass(frozen=True)
class ShownAttention:
    """Attention as the page shows it: of all L layers, or of one of them where all have too many weights, over all
    tokens or those that are not special; facts and names are of the whole input."""

    shown: range  # the numbers of these layers, from 0
    layers: int  # L
    weights: int  # number of weights of all heads over the whole input
    maps: AttentionMaps
    facts: HeadFacts
    names: Sequence[Sequence[str]]  # see `head_names`
    average: Tensor  # (shown, T, T)
    rollout: Tensor  # (shown, T, T)
    mean: Tensor  # of all heads of all layers, (T, T)

    @classmethod
    def of(
        cls,
        maps: AttentionMaps,
        names: Sequence[Sequence[str]] | None = None,
        *,
        hide_special: bool = False,
        layer: int = 0,
    ) -> "ShownAttention":
        """names: of the heads of all layers, or of those that are shown. layer, errors: see `shown_layers`."""
        L, H, T, _ = maps.weights.shape
        shown = shown_layers(L, H, T, layer)
        some = slice(shown.start, shown.stop)
        own = dataclasses.replace(maps, weights=maps.weights[some])
        flow = dataclasses.replace(maps, weights=rollout(maps.weights)[some])
        each = [dataclasses.replace(maps, weights=weights[None]) for weights in maps.weights]
        facts, names = head_facts(own), names or [[""] * H] * len(shown)
        if hide_special:
            own, flow, *each = map(without_special, (own, flow, *each))
        averages = torch.cat([average(one.weights) for one in each])
        names = names[some] if len(names) == L else names
        return cls(shown, L, maps.weights.numel(), own, facts, names, averages[some], flow.weights, averages.mean(0))

    @property
    def note(self) -> list[str]:
        """Why not all layers are shown."""
        if len(self.shown) == self.layers:
            return []
        together = f"all heads together have {self.weights:,} weights; the page shows {MAX_WEIGHTS:,}."
        return [f"One layer at a time is shown: {together}"]


def shown_layers(L: int, H: int, T: int, layer: int) -> range:
    """The layers that are shown of L layers with H heads over T tokens: all, or the one with this number where all have
    more weights than MAX_WEIGHTS. Raises InputError where one has more."""
    if L * H * T * T <= MAX_WEIGHTS:
        return range(L)
    if H * T * T > MAX_WEIGHTS:
        raise InputError(
            f"All heads together have {L * H * T * T:,} weights; the page shows {MAX_WEIGHTS:,}, and one layer alone "
            f"has {H * T * T:,}. Shorten the text to {math.isqrt(MAX_WEIGHTS // H)} tokens."
        )
    layer = max(0, min(layer, L - 1))
    return range(layer, layer + 1)


def show(
    maps: AttentionMaps,
    names: Sequence[Sequence[str]] | None = None,
    *,
    title: str = "Attention",
    theme: Theme = "auto",
    layer: int = 0,
) -> View:
    """The Attention tab's view of one input, for a notebook, where it appears below the cell: all heads, and one of
    them large, as a map or as lines between words. `.html` is the page for a file; neither needs a network.

    maps: what `attention` returns. names: what `head_names` returns, to label the heads. theme: "light" or "dark"
    for a notebook whose theme is not that of the system. layer: from 0, the one that is shown first, and alone where
    all have more weights than MAX_WEIGHTS. Raises InputError where one layer has more, and for a layer that is missing.
    """
    if theme not in get_args(Theme):
        raise InputError(f"The theme {theme!r} is unknown; it can be one of: {', '.join(get_args(Theme))}.")
    if not 0 <= layer < len(maps.weights):
        raise InputError(f"There are {len(maps.weights)} layers, and no layer {layer}; they are counted from 0.")
    return View(title, attention_page(ShownAttention.of(maps, names, layer=layer), (layer, 0), title, theme))


def grid_value(shown: ShownAttention, picked: tuple[int, int], apart: Tensor | None = None) -> dict[str, Any]:
    """All maps for the grid: a byte for each weight, 255 times its root, which keeps small weights visible.

    apart: how much each head differs from another model's, (L, H), see `difference`; one more fact.
    """
    weights = shown.maps.weights
    if (pooled := math.ceil(weights.shape[-1] / MOST_IN_THUMBNAIL)) > 1:
        weights = F.max_pool2d(weights, pooled, ceil_mode=True)
    L, H, size, _ = weights.shape
    facts = shown.facts.facts if apart is None else {**shown.facts.facts, "difference": apart}
    titles = FACTS if apart is None else FACTS | DIFFERENCE
    return {
        "first": shown.shown.start,
        "layers": L,
        "of": shown.layers,
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
        "notes": shown.note,
    }


def detail_value(shown: ShownAttention, picked: tuple[int, int], apart: Tensor | None = None) -> dict[str, Any]:
    """One layer in detail; each weight as two bytes, 65535 means 1. Layers and heads are counted from 0."""
    layer, head = picked
    first = shown.shown.start
    return {
        "tokens": shown.maps.tokens,
        "segments": shown.maps.token_type_ids,
        "layer": layer,
        "head": head,
        "first": first,
        "heads": shown.maps.weights.shape[1],
        "weights": packed(_two_bytes(shown.maps.weights[layer - first])),
        "averages": packed(_two_bytes(shown.average)),
        "rollout": packed(_two_bytes(shown.rollout)),
        "mean": packed(_two_bytes(shown.mean)),
        "apart": None if apart is None else [round(fraction, 4) for fraction in apart[layer - first].tolist()],
    }


def attention_page(shown: ShownAttention, picked: tuple[int, int], title: str, theme: Theme = "auto") -> str:
    """An HTML page with the same views that needs no network: it contains scripts, style and numbers."""
    layers = [packed(_two_bytes(layer)) for layer in shown.maps.weights]
    data = {"grid": grid_value(shown, picked), "detail": detail_value(shown, picked), "layers": layers}
    return page(title, _STAGE, theme=theme, entry="attention/saved_page.js", data=data)


def _two_bytes(weights: Tensor) -> Tensor:
    return (weights * 65535).round().clamp(0, 65535).to(torch.uint16)


def _numbers(values: Tensor) -> list[list[float | None]]:
    """JSON has no nan: a fact that no token has is null."""
    return [[None if math.isnan(value) else round(value, 4) for value in row] for row in values.tolist()]
