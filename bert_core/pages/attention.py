"""Attention as a page of its own, for a file or a notebook, and the values that its views draw."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_core.errors import InputError, checked
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
    """Attention as the page shows it. maps, average, rollout: of the same tokens, with or without special ones; the
    latter two are (L, T, T). facts, names: of the whole input in either case, see `head_names`.
    """

    maps: AttentionMaps
    facts: HeadFacts
    names: Sequence[Sequence[str]]
    average: Tensor
    rollout: Tensor

    @classmethod
    def of(
        cls, maps: AttentionMaps, names: Sequence[Sequence[str]] | None = None, *, hide_special: bool = False
    ) -> "ShownAttention":
        """names: of the heads; none by default. Raises InputError for more weights than MAX_WEIGHTS."""
        if maps.weights.numel() > MAX_WEIGHTS:
            raise InputError(
                f"All heads together have {maps.weights.numel():,} weights; the page shows {MAX_WEIGHTS:,}. "
                "Shorten the text."
            )
        flow = AttentionMaps(maps.tokens, maps.token_type_ids, rollout(maps.weights))
        shown, shown_flow = (without_special(each) if hide_special else each for each in (maps, flow))
        L, H = maps.weights.shape[:2]
        return cls(shown, head_facts(maps), names or [[""] * H] * L, average(shown.weights), shown_flow.weights)


@checked
def show(
    maps: AttentionMaps,
    names: Sequence[Sequence[str]] | None = None,
    *,
    title: str = "Attention",
    theme: Theme = "auto",
) -> View:
    """The Attention tab's view of one input, for a notebook, where it appears below the cell: all heads, and one of
    them large, as a map or as lines between words. `.html` is the page for a file; neither needs a network.

    maps: what `attention` returns. names: what `head_names` returns, to label the heads. theme: "light" or "dark"
    for a notebook whose theme is not that of the system. Raises InputError for more weights than MAX_WEIGHTS.
    """
    return View(title, attention_page(ShownAttention.of(maps, names), (0, 0), title, theme))


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


def detail_value(shown: ShownAttention, picked: tuple[int, int], apart: Tensor | None = None) -> dict[str, Any]:
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


def attention_page(shown: ShownAttention, picked: tuple[int, int], title: str, theme: Theme = "auto") -> str:
    """An HTML page with the same views that needs no network: it contains scripts, style and numbers."""
    layers = [packed(_two_bytes(layer)) for layer in shown.maps.weights]
    data = {"grid": grid_value(shown, picked), "detail": detail_value(shown, picked), "layers": layers}
    return page(title, _STAGE, theme=theme, entry="attention/page.js", data=data)


def _two_bytes(weights: Tensor) -> Tensor:
    return (weights * 65535).round().clamp(0, 65535).to(torch.uint16)


def _numbers(values: Tensor) -> list[list[float | None]]:
    """JSON has no nan: a fact that no token has is null."""
    return [[None if math.isnan(value) else round(value, 4) for value in row] for row in values.tolist()]
