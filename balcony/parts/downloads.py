"""One exporter for every view: its picture, its numbers, a page of its own, and the Python code that computes them.

The browser makes pictures from what it shows (balcony/parts/picture.js); everything else is written here.
"""

from collections.abc import Callable, Sequence
from typing import Any

from balcony.frame.page import Page, PageRequest
from balcony.frame.shown_model import caption
from balcony.handlers import MALFORMED
from balcony.parts.export import Numbers, file_text
from balcony.server.files import file_name
from balcony.views import view
from bert_core.errors import BertCoreError, InputError
from bert_core.storage.checkpoint import Checkpoint

PICTURES = ("png", "svg")


def exporter(
    page: Page,
    what: str,
    *,
    of: str,
    elem_id: str,
    name: str,
    numbers: Callable[..., Numbers | dict[str, Numbers]],
    title: Sequence[str] = ("text", "pair"),
    code: Callable[[PageRequest], str] | None = None,
    html: Callable[[PageRequest], str] | None = None,
    with_value: str | None = None,
) -> None:
    """Lay out the button "Save", whose items have the ids `<elem_id>-<kind>`.

    of: elem_id of the picture. name: of the view, in the files' names; {stage} is that part of the question. numbers:
    for JSON and CSV. title: parts of the question that stand above a picture, before the model, and in the files'
    names. code: Python to copy. html: a page. with_value: elem_id of a view whose value `numbers` gets after the
    question.
    """
    kinds = [*PICTURES, "json", "csv", *(["html"] if html else []), *(["py"] if code else [])]

    def exported(asked: PageRequest, kind: str, value: object) -> dict[str, Any]:
        if kind not in kinds:
            raise InputError(MALFORMED)
        if kind == "py" and code:
            return {"code": code(asked)}
        named = f"{saved_name(asked, title, name.format(stage=asked.question.stage))}.{kind}"
        if kind in PICTURES:
            return {"name": named, "title": picture_title(asked, title)}
        given = [asked, value] if with_value else [asked]
        content = html(asked) if kind == "html" and html else file_text(kind, numbers(*given))
        return {"name": named, "content": content}

    options = {"id": elem_id, "of": of, "what": what, "kinds": kinds, "with": with_value}
    view("parts/downloads", options=options, server_functions=page.functions(exported), elem_id=elem_id)


def picture_title(asked: PageRequest, parts: Sequence[str]) -> list[str]:
    """The named parts of the question, then its model with the step, or both models."""
    texts = [getattr(asked.question, part) for part in parts]
    return [*filter(None, texts), " · ".join(caption(model) for model in (asked.model, asked.other) if model)]


def saved_name(asked: PageRequest, parts: Sequence[str], view: str) -> str:
    """The models with their steps, the named parts of the question and the view, as the name of a file."""
    try:
        models = [model for model in (asked.model, asked.other) if model]
    except BertCoreError:  # a run without a model has a batch all the same
        models = []
    steps = (model.detail.replace(",", "") if model.detail.startswith("step") else "" for model in models)
    named = (f"{model.title} {step}" for model, step in zip(models, steps))
    texts = " ".join(filter(None, (getattr(asked.question, part) for part in parts)))
    return file_name(*named, texts, view)


def numbers_of_models(
    asked: PageRequest, numbers: Callable[[Checkpoint], Numbers], checkpoint: Checkpoint | None = None
) -> Numbers | dict[str, Numbers]:
    """The numbers of the question's model or, with another one to compare with, of both by title.

    checkpoint: in place of that of the question's model. Raises BertCoreError where either model has no numbers.
    """
    model, beside = asked.model, asked.other
    checkpoint = checkpoint or model.checkpoint
    if beside is None:
        return numbers(checkpoint)
    first, second = (f"{each.title}, {each.detail}" for each in (model, beside))
    second += " (2)" if second == first else ""
    return {first: numbers(checkpoint), second: numbers(beside.checkpoint)}
