"""One exporter for every view: its picture, its numbers, a page of its own, and the Python code that computes them.

The browser makes pictures from what it shows (assets/js/parts/picture.js); everything else is written here.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import QUIET, cached_file, on_error, sent
from ui.parts.export import Numbers, file_text
from ui.parts.page import Asked, Page
from ui.parts.question import Values
from ui.parts.shown_model import caption
from ui.views import view

PICTURES = ("png", "svg")
SAVE = "(file) => file && Balcony.saveFile(file)"  # JavaScript for the file of a link


@dataclass(frozen=True)
class Exporter:
    """The button with its list, and the hidden link through which a browser downloads."""

    menu: gr.HTML
    link: gr.DownloadButton


def exporter(what: str, *, of: str, elem_id: str, kinds: tuple[str, ...] = ("json", "csv", "py")) -> Exporter:
    """Lay out the button "Save" with PNG and SVG, which the browser makes, and the `kinds` that `offer` writes.

    of: elem_id of the picture. kinds: "json", "csv", "html" become files; "py" is code to copy. An item of the list
    has the id `<elem_id>-<kind>`.
    """
    options = {"id": elem_id, "of": of, "what": what, "kinds": [*PICTURES, *kinds]}
    menu = view("exporter", events=("select", "submit"), options=options, elem_id=elem_id)
    # The browser needs a link to click before the file exists.
    return Exporter(menu, gr.DownloadButton("File", visible="hidden", elem_id=f"{elem_id}-file"))


def offer(
    page: Page,
    export: Exporter,
    name: str,
    numbers: Callable[..., Numbers | dict[str, Numbers]],
    *,
    title: Sequence[str] = ("text", "pair"),
    code: Callable[..., str] | None = None,
    html: Callable[..., str] | None = None,
    also: Sequence[gr.components.Component] = (),
) -> None:
    """Connect the list to functions of what is asked, and of the values of the components `also`.

    name: of the files, without their ending. numbers: for JSON and CSV. title: parts of the question that stand above a
    picture, before the model. code: Python code. html: a page.
    """

    def given(values: Values) -> list[Any]:
        return [page.asked(values), *(values[each] for each in also)]

    link = export.link

    # After an error the link has no file, so that the click does not download an older one.
    @on_error(lambda sentence: {link: None, **page.say(sentence)})
    def save(values: Values, event: gr.EventData) -> dict[Any, Any]:
        kind = sent(event, "kind", str)
        if kind in ("json", "csv"):
            content = file_text(kind, numbers(*given(values)))
        elif kind == "html" and html:
            content = html(*given(values))
        else:
            return gr.skip()
        return {link: cached_file(link, f"{name}.{kind}", lambda path: path.write_text(content, "utf-8", newline=""))}

    @on_error(page.say)
    def show(values: Values, event: gr.EventData) -> dict[Any, Any]:
        asked, *others = given(values)
        if sent(event, "kind", str) in PICTURES:
            content: dict[str, Any] = {"title": picture_title(asked, title)}
        else:
            content = {"code": code(asked, *others) if code else ""}
        return {export.menu: content | {"number": sent(event, "number", int)}}

    inputs = {*page.inputs, *also}
    export.menu.select(save, inputs, {link, page.messages}, **QUIET).success(None, link, None, js=SAVE)
    export.menu.submit(show, inputs, {export.menu, page.messages}, **QUIET)


def picture_title(asked: Asked, parts: Sequence[str]) -> list[str]:
    """The named parts of the question, then its model with the step, or both models."""
    texts = [getattr(asked.question, part) for part in parts]
    return [*filter(None, texts), " · ".join(caption(model) for model in (asked.model, asked.other) if model)]


def numbers_of_models(asked: Asked, numbers: Callable[[Checkpoint], Numbers]) -> Numbers | dict[str, Numbers]:
    """The numbers of the question's model or, with another one to compare with, of both by title.

    Raises BertCoreError where either model has no numbers.
    """
    model, beside = asked.model, asked.other
    if beside is None:
        return numbers(model.checkpoint)
    first, second = (f"{each.title}, {each.detail}" for each in (model, beside))
    second += " (2)" if second == first else ""
    return {first: numbers(model.checkpoint), second: numbers(beside.checkpoint)}


def file_name(title: str) -> str:
    """A title as a file name: letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "model"
