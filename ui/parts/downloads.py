"""One exporter for every view: its picture, its numbers, a page of its own, and the Python code that computes them.

The browser makes pictures from what it shows (assets/js/parts/picture.js); everything else is written here.
"""

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import QUIET, on_error, warn
from ui.parts.export import Numbers, write
from ui.parts.page import Asked
from ui.parts.shown_model import caption
from ui.views import view

PICTURES = ("png", "svg")


@dataclass(frozen=True)
class Exporter:
    """The row of buttons, and the hidden link through which a browser downloads."""

    buttons: gr.HTML
    link: gr.DownloadButton


def exporter(what: str, *, of: str, elem_id: str, kinds: tuple[str, ...] = ("json", "csv", "py")) -> Exporter:
    """Lay out the row "Save <what> as" with PNG and SVG, which the browser makes, and the `kinds` that `offer` writes.

    of: elem_id of the picture. kinds: "json", "csv", "html" become files; "py" is code to copy. A button has the id
    `<elem_id>-<kind>`.
    """
    options = {"id": elem_id, "of": of, "what": what, "kinds": [*PICTURES, *kinds]}
    buttons = view("exporter", events=("select", "submit"), options=options, elem_id=elem_id)
    # The browser needs a link to click before the file exists.
    return Exporter(buttons, gr.DownloadButton("File", visible="hidden", elem_id=f"{elem_id}-file"))


def offer(
    export: Exporter,
    name: str,
    inputs: Any,
    numbers: Callable[..., Numbers | dict[str, Numbers]],
    *,
    code: Callable[..., str] | None = None,
    page: Callable[..., str] | None = None,
) -> None:
    """Connect the buttons to functions of the inputs' values.

    name: of the files, without their ending. numbers: for JSON and CSV. code: Python code. page: an HTML page.
    """
    link = export.link
    click = f"() => document.querySelector('#{link.elem_id} a, #{link.elem_id}').click()"

    # After an error the link has no file, so that the click does not download an older one.
    @on_error(lambda sentence: warn(sentence) and None)
    def save(event: gr.EventData, *values: Any) -> Any:
        kind = str(event.kind)
        if kind in ("json", "csv"):
            content = write(kind, numbers(*values))
        elif kind == "html" and page:
            content = page(*values)
        else:
            return gr.skip()
        with tempfile.TemporaryDirectory(prefix="balcony-download-") as scratch:
            path = Path(scratch) / f"{name}.{kind}"
            path.write_text(content, encoding="utf-8", newline="")
            # Files in the component's cache are deleted when they are old (delete_cache).
            return link.move_resource_to_block_cache(str(path))

    @on_error(warn)
    def show(*values: Any) -> Any:
        return {"code": code(*values)} if code else gr.skip()

    export.buttons.select(save, inputs, link, **QUIET).success(None, None, None, js=click)
    export.buttons.submit(show, inputs, export.buttons, **QUIET)


def numbers_of_models(asked: Asked, numbers: Callable[[Checkpoint], Numbers]) -> Numbers | dict[str, Numbers]:
    """The numbers of the question's model or, with another one to compare with, of both by title.

    Raises BertCoreError where either model has no numbers.
    """
    model, beside = asked.model, asked.other
    if beside is None:
        return numbers(model.checkpoint)
    first, second = caption(model), caption(beside)
    second += " (2)" if second == first else ""
    return {first: numbers(model.checkpoint), second: numbers(beside.checkpoint)}


def file_name(title: str) -> str:
    """A title as a file name: letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "model"
