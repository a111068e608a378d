"""An HTML page in one file, with its style and scripts, and the same page in a cell of a notebook."""

import base64
import html
import json
import posixpath
import re
from dataclasses import dataclass, field
from string import Template
from typing import Literal

from torch import Tensor

from bert_core.config import ASSETS

Theme = Literal["auto", "light", "dark"]
TRANSLATOR = "language/translator.js"  # for whoever saves the page in another language
_IMPORT = re.compile(r'(\bfrom |\bimport[ (])"(\.[^"]*)"')
_FRAME = (
    '<iframe srcdoc="{page}" sandbox="allow-scripts" title="{title}" '
    'style="width: 100%; height: {height}px; resize: vertical; border: 0"></iframe>'
)


@dataclass(frozen=True)
class View:
    """A page that a notebook shows below its cell. html: the page, as a file may hold it. height: in pixels."""

    title: str
    html: str = field(repr=False)
    height: int = 640

    def _repr_html_(self) -> str:
        """The page in a frame, so that its styles and scripts and those of the notebook do not meet."""
        return _FRAME.format(page=html.escape(self.html), title=html.escape(self.title), height=self.height)


def page(title: str, content: str, *, theme: Theme = "auto", entry: str = "", data: object = None) -> str:
    """A page that needs no network. content: HTML of its body, whose texts are escaped. theme: "auto" follows the
    reader's system. entry: its script below assets/js, if it has one, which finds `data` as JSON in the element
    "data"."""
    scripts = ""
    if entry:
        # A person's text must not end the script element.
        text = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
        sources = modules(entry) | modules(TRANSLATOR)
        imports = json.dumps({"imports": {name: _data_url(source) for name, source in sources.items()}})
        scripts = (
            f'<script type="application/json" id="data">{text}</script>\n<script type="importmap">{imports}</script>\n'
            f'<script type="module">import "{entry}";</script>'
        )
    template = Template((ASSETS / "offline-page.html").read_text(encoding="utf-8"))
    return template.substitute(  # one pass: inserted text is not substituted
        title=html.escape(title),
        style=style_sheet(),
        theme="light dark" if theme == "auto" else theme,
        content=content,
        scripts=scripts,
        allowed="script-src 'unsafe-inline' data:" if entry else "",
    )


def modules(entry: str) -> dict[str, str]:
    """Every script that an entry needs, itself included, by its path below assets/js. They import each other by these
    paths: a script of a page on disk may not import files."""
    found: dict[str, str] = {}

    def add(name: str) -> None:
        def by_path(imported: re.Match[str]) -> str:
            path = resolved(name, imported[2])
            if path not in found:
                add(path)
            return f'{imported[1]}"{path}"'

        found[name] = ""  # now, because modules may import each other
        source = (ASSETS / "js" / name).read_text(encoding="utf-8")
        found[name] = _IMPORT.sub(by_path, source)

    add(entry)
    return found


def resolved(name: str, imported: str) -> str:
    """The path below assets/js of what a script imports."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), imported))


def style_sheet(name: str = "balcony") -> str:
    return (ASSETS / "css" / f"{name}.css").read_text(encoding="utf-8")


def packed(numbers: Tensor) -> str:
    """The bytes of a tensor in base64."""
    return base64.b64encode(numbers.contiguous().numpy().tobytes()).decode("ascii")


def _data_url(script: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(script.encode()).decode('ascii')}"
