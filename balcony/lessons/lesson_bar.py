"""Lessons: steps that each set the page's question, with a text beside it and something to answer."""

import functools
import json
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, ValidationError, ValidationInfo, field_validator

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import SCHEMA, Question
from balcony.handlers import own
from balcony.views import view
from bert_core.config import ASSETS
from bert_core.errors import BertCoreError, InputError, quoted

GIVEN = "given"  # the lesson of `app.py --lesson`
_TERM = re.compile(r"\[\[(.+?)(?:\|.+?)?\]\](?!\])")  # as in balcony/parts/elements.js


def _terms_known(text: str) -> str:
    for name in _TERM.findall(text):
        if name.lower() not in terms():
            raise ValueError(f"{quoted(name)} is no term that is explained")
    return text


Text = Annotated[str, AfterValidator(_terms_known)]
Named = Annotated[str, Field(min_length=1)]


class Step(BaseModel, extra="forbid"):
    """A step of a lesson: what the page shows, a text beside it, and something to answer. right: index of the right
    choice."""

    question: dict[str, Any] = {}
    text: Text = ""
    ask: Text = ""
    choices: list[Named] = []
    right: int | None = Field(None, ge=0)
    answer: Text = ""

    @field_validator("question")
    @classmethod
    def _can_be_asked(cls, question: dict[str, Any]) -> dict[str, Any]:
        for part, value in question.items():
            if part not in SCHEMA or part in ("lesson", "at"):
                raise ValueError(f"{quoted(part)} is no part of a question")
            try:
                Question.read({part: value})
            except BertCoreError:
                raise ValueError(f"{quoted(part)} cannot be {quoted(value)}") from None
        return question

    @field_validator("right")
    @classmethod
    def _is_a_choice(cls, right: int | None, info: ValidationInfo) -> int | None:
        if right is not None and right >= len(info.data.get("choices", [])):
            raise ValueError("there is no such choice")
        return right


class Lesson(BaseModel, extra="forbid"):
    title: Named
    steps: list[Step] = Field(min_length=1)


def lesson_bar(page: Page, given: dict[str, Any] | None = None) -> None:
    """Lay out the open lesson and the list of them. given: a lesson with which the page begins, named GIVEN."""
    known = lessons() | ({GIVEN: given} if given else {})
    questions = [step["question"] for each in known.values() for step in each["steps"]]
    page.workspaces.lesson_runs = [each["recipe"] for each in questions if "recipe" in each]
    titles = [[name, own(each["title"]) if name == GIVEN else each["title"]] for name, each in known.items()]

    def lesson(asked: PageRequest, name: str) -> dict[str, Any]:
        if name not in known:
            raise InputError(f"There is no lesson {quoted(name)}; choose one from the list.")
        return known[name]

    page.answers.add("lesson", lesson)
    options = {"lessons": titles, "begin": GIVEN if given else "", "terms": terms()}
    view("lessons/lesson_bar", options=options, elem_id="lesson")


@functools.cache
def terms() -> dict[str, str]:
    """The explanation of each term that a text of the page can mark, by its name in small letters."""
    explained: dict[str, str] = json.loads((ASSETS / "terms.json").read_text(encoding="utf-8"))
    return {name.lower(): text for name, text in explained.items()}


@functools.cache
def lessons() -> dict[str, dict[str, Any]]:
    """The shipped lessons by name, in the order of their files; a name is what follows the number and "-" there."""
    paths = sorted((ASSETS / "lessons").glob("*.json"))
    return {path.stem.partition("-")[2]: load_lesson(path) for path in paths}


def load_lesson(path: Path) -> dict[str, Any]:
    """The content of a `Lesson` in a file. Raises BertCoreError with a sentence that names the file and the place."""
    try:
        return Lesson.model_validate_json(path.read_bytes(), strict=True).model_dump()
    except OSError as error:
        raise InputError(f"The lesson {path.name} cannot be read ({error.strerror}); check its path.") from None
    except ValidationError as error:
        first = error.errors()[0]
        said = [path.name, ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")]
        raise InputError(f"{': '.join(filter(None, said))}; see docs/lessons-and-class.md.") from None
