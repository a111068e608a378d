"""Attention as a page of its own, for a cell of a notebook or a file, and the values that its views draw.

It reads the scripts and styles of the app's page as data. Shapes: L layers, H heads, T tokens."""

import base64
import html
import json
import math
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Template

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_core.config import ASSETS, PAGE
from bert_core.errors import InputError
from bert_core.probes.attention import AttentionMaps, without_special

Names = Sequence[Sequence[str]]  # of the heads of each layer, see `head_names`
MAX_WEIGHTS = 2_000_000  # 12 layers of 12 heads over 117 tokens
MOST_IN_THUMBNAIL = 64  # tokens; of more, a pixel shows the largest weight of several
_SCRIPTS = ("attention/saved_page.js", "language/translator.js")  # the latter for a page saved in another language
_IMPORT = re.compile(r'(\bfrom |\bimport[ (])"(\.[^"]*)"')


@dataclass(frozen=True)
class View:
    """A page that a notebook shows below its cell. html: the page, as a file may hold it."""

    title: str
    html: str = field(repr=False)

    def _repr_html_(self) -> str:
        # A frame, so that styles and scripts of the page and those of the notebook don't meet.
        frame = f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts" title="{html.escape(self.title)}" '
        return frame + 'style="width: 100%; height: 640px; resize: vertical; border: 0"></iframe>'


def check_size(L: int, H: int, T: int) -> None:
    """Raises InputError where L layers with H heads have more than MAX_WEIGHTS weights over T tokens."""
    if L * H * T * T > MAX_WEIGHTS:
        raise InputError(
            f"The heads have {L * H * T * T:,} weights for this text; the page shows {MAX_WEIGHTS:,}. Shorten the text "
            f"to {math.isqrt(MAX_WEIGHTS // (L * H))} tokens."
        )


def show(maps: AttentionMaps, names: Names | None = None, *, title: str = "Attention") -> View:
    """The Attention tab's view of one input, for a notebook, where it appears below the cell: all heads, and one of
    them large, as a map or as lines between words. `.html` is the page for a file; neither needs a network.

    maps: what `attention` returns. names: what `head_names` returns, to label the heads. Raises InputError for more
    than MAX_WEIGHTS weights."""
    question = {"head": (0, 0), "heads": {}, "off": ()}
    return View(title, attention_page(attention_values(maps, names), question, title))


def attention_values(
    maps: AttentionMaps, names: Names | None = None, *, hide_special: bool = False
) -> dict[str, dict[str, object]]:
    """What the views draw: "grid", all heads as small pictures of size x size, a byte for each weight, 255 times its
    root, which keeps small weights visible; and their names, "" for none. "detail", of all heads, two bytes for a
    weight, 65535 means 1.

    hide_special: draw the words alone, see `without_special`. Raises InputError for more than MAX_WEIGHTS weights."""
    L, H, T, _ = maps.weights.shape
    check_size(L, H, T)
    own = without_special(maps) if hide_special else maps
    size = math.ceil(len(own.tokens) / MOST_IN_THUMBNAIL)
    pictures = F.max_pool2d(own.weights, size, ceil_mode=True)
    grid = {
        "layers": L,
        "heads": H,
        "size": pictures.shape[-1],
        "weights": packed((pictures.sqrt() * 255).round().clamp(0, 255).byte()),
        "names": names or [[""] * H] * L,
    }
    detail = {
        "tokens": own.tokens,
        "segments": own.token_type_ids,
        "layers": L,
        "heads": H,
        "weights": packed((own.weights * 65535).round().clamp(0, 65535).to(torch.uint16)),
    }
    return {"grid": grid, "detail": detail}


def attention_page(values: Mapping[str, object], question: Mapping[str, object], title: str) -> str:
    """An HTML page with these views that needs no network: it contains scripts, style and numbers.

    question: "head", the layer and head shown first; "heads", how they are drawn, where that is changed; "off", heads
    that are switched off."""
    scripts = {name: _base64(source.encode()) for script in _SCRIPTS for name, source in modules(script).items()}
    urls = {name: f"data:text/javascript;base64,{content}" for name, content in scripts.items()}
    return Template(asset("offline-page.html")).substitute(  # one pass: inserted text is not substituted
        title=html.escape(title),
        style=asset("css/balcony.css"),
        data=json.dumps({**values, "question": question}, ensure_ascii=False).replace(
            "<", "\\u003c"
        ),  # a text must not end the script element
        imports=json.dumps({"imports": urls}),
        entry=_SCRIPTS[0],
    )


def modules(entry: str) -> dict[str, str]:
    """An entry and every script that it needs, by their paths below balcony. They import each other by these paths:
    a script of a page on disk may not import files."""
    found, wanted = dict[str, str](), [entry]
    for name in wanted:  # which grows
        source = (PAGE / name).read_text(encoding="utf-8")
        wanted += {resolved(name, path) for _, path in _IMPORT.findall(source)} - {*wanted}
        found[name] = _IMPORT.sub(lambda match: f'{match[1]}"{resolved(name, match[2])}"', source)  # noqa: B023
    return found


def resolved(name: str, imported: str) -> str:
    """The path below balcony of what a script imports."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), imported))


def asset(path: str) -> str:
    return (ASSETS / path).read_text(encoding="utf-8")


def packed(numbers: Tensor) -> str:
    """The bytes of a tensor in base64."""
    return _base64(numbers.contiguous().numpy().tobytes())


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
