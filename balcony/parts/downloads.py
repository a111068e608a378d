"""One exporter for every view: its picture, its numbers, a page of its own, and the Python code that computes them.

The browser makes pictures from what it shows (balcony/parts/picture.js); everything else is written here.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.shown_model import caption
from balcony.handlers import MALFORMED, plain
from balcony.parts.export import Row, file_text
from balcony.server.files import file_name
from balcony.views import view
from bert_core.errors import InputError


def exporter(
    page: Page,
    what: str,
    *,
    of: str,
    elem_id: str,
    name: str,
    answer: Callable[..., dict[str, Any]],
    views: Sequence[str],
    rows: Callable[[Any], Iterable[Row]],
    title: Sequence[str] = ("text", "pair"),
    code: Callable[[PageRequest], str] | None = None,
    html: Callable[[PageRequest], str] | None = None,
    is_inside: bool = False,
) -> dict[str, Any]:
    """Lay out the button "Save", whose items have the ids `<elem_id>-<kind>`; its options.

    of: elem_id of the picture. name: of the view, in the files' names; {stage} is that part of the question. answer:
    the values of views, as the page shows them. views: those of them that a JSON file holds: of the question's model
    and, where it is compared, of the other one. rows: the rows of one value in a CSV file. title: parts of the question
    that stand above a picture, before the model, and in the files' names. code: Python to copy. html: a page.
    is_inside: a script lays it out in its own view, with these options.
    """
    kinds = ["png", "json", "csv", *(["html"] if html else []), *(["py"] if code else [])]

    def exported(asked: PageRequest, kind: str) -> dict[str, Any]:
        if kind not in kinds:
            raise InputError(MALFORMED)
        if kind == "py" and code:
            return {"code": code(asked)}
        named = f"{saved_name(asked, title, name.format(stage=asked.question.stage))}.{kind}"
        if kind == "png":
            return {"name": named, "title": picture_title(asked, title)}
        if kind == "html" and html:
            return {"name": named, "content": html(asked)}
        found = answer(asked)
        return {"name": named, "content": file_text(kind, by_title(asked, [found[each] for each in views]), rows)}

    options = {"id": elem_id, "of": of, "what": what, "kinds": kinds}
    page.answers.add(elem_id, exported)
    if not is_inside:
        view("parts/downloads", options=options, elem_id=elem_id)
    return options


def by_title(asked: PageRequest, values: Sequence[Any]) -> dict[str, Any]:
    """The values of the question's model and, if it is compared, of the other one, by the titles of the models.

    values: of one or both. Raises RunError when the visitor does not have the other model (any more).
    """
    if len(values) == 1 or (other := asked.other) is None:
        return {"": values[0]}
    first, second = (plain(f"{each.title}, {each.detail}") for each in (asked.model, other))
    return {first: values[0], second + " (2)" * (second == first): values[1]}


def picture_title(asked: PageRequest, parts: Sequence[str]) -> list[str]:
    """The named parts of the question, then its model with the step, or both models."""
    texts = [getattr(asked.question, part) for part in parts]
    return [*filter(None, texts), " · ".join(caption(model) for model in (asked.model, asked.other_or_why[0]) if model)]


def saved_name(asked: PageRequest, parts: Sequence[str], view: str) -> str:
    """The models with their steps, the named parts of the question and the view, as the name of a file."""
    models = [model for model in (asked.model, asked.other_or_why[0]) if model]
    steps = (model.detail.replace(",", "") if model.detail.startswith("step") else "" for model in models)
    named = (f"{model.title} {step}" for model, step in zip(models, steps))
    texts = " ".join(filter(None, (getattr(asked.question, part) for part in parts)))
    return file_name(*named, texts, view)
