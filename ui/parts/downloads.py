"""One exporter for every view: its picture, its numbers, a page of its own, and the lines of Python that give the same.

Pictures are made in the browser from what is shown there (assets/js/export.js); everything else is written here.
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
from ui.parts.compare import caption, model_of
from ui.parts.export import of_models
from ui.parts.page import Page
from ui.views import view

PICTURES = ("png", "svg")


@dataclass(frozen=True)
class Exporter:
    """The row of buttons, and the hidden link through which a browser downloads."""

    buttons: gr.HTML
    link: gr.DownloadButton


def exporter(what: str, *, of: str, elem_id: str, kinds: tuple[str, ...] = ("json", "csv", "py")) -> Exporter:
    """Lay out the row "Save <what> as" with PNG and SVG, which need nothing more, and the `kinds` that `offer` writes.

    of: elem_id of what is drawn. kinds: of "json", "csv", "html", which become files, and "py", which is shown to be
    copied. A button has the id `<elem_id>-<kind>`.
    """
    options = {"id": elem_id, "of": of, "what": what, "kinds": [*PICTURES, *kinds]}
    buttons = view("exporter", events=("select", "submit"), options=options, elem_id=elem_id)
    # The browser starts a download from a link that exists; the file does not before it is asked for.
    return Exporter(buttons, gr.DownloadButton("File", visible="hidden", elem_id=f"{elem_id}-file"))


def offer(export: Exporter, name: str, inputs: list[Any], write: Callable[..., str]) -> None:
    """Connect the buttons: `write(kind, *values of the inputs)` gives the content of the file `name.kind`."""
    link = export.link
    click = f"() => document.querySelector('#{link.elem_id} a, #{link.elem_id}').click()"

    # After an error the link has no file, so that the press does not give an older one.
    @on_error(lambda sentence: warn(sentence) and None)
    def give(event: gr.EventData, *values: Any) -> str:
        kind = str(event.kind)
        if kind not in ("json", "csv", "html"):
            return gr.skip()
        with tempfile.TemporaryDirectory(prefix="balcony-download-") as scratch:
            path = Path(scratch) / f"{name}.{kind}"
            path.write_text(write(kind, *values), encoding="utf-8", newline="")
            # Files in the component's cache are deleted when they are old (delete_cache).
            return link.move_resource_to_block_cache(str(path))

    @on_error(warn)
    def show(*values: Any) -> dict[str, str]:
        return {"code": write("py", *values)}

    export.buttons.select(give, inputs, link, **QUIET).success(None, None, None, js=click)
    export.buttons.submit(show, inputs, export.buttons, **QUIET)


def with_other(page: Page, token: str, other: str, kind: str, write: Callable[[Checkpoint], str]) -> str:
    """What `write` gives for the model that the page looks at, in JSON and CSV also for the one beside it.

    other: key of that one, "" for none. Raises BertCoreError where either model has nothing to give.
    """
    model = page.model(token)
    if not other or kind not in ("json", "csv"):
        return write(model.checkpoint)
    beside = model_of(page, token, other)
    first, second = caption(model), caption(beside)
    second += " (2)" if second == first else ""
    return of_models(kind, {first: write(model.checkpoint), second: write(beside.checkpoint)})


def file_name(title: str) -> str:
    """A title as a name for a file: letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "model"
