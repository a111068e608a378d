"""Lessons: steps that each set the page's question, with a text beside it and something to answer."""

import functools
import json
import re
from pathlib import Path
from typing import Any

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import SCHEMA, Question
from balcony.handlers import own
from balcony.views import view
from bert_core.config import ASSETS
from bert_core.errors import BertCoreError, InputError, quoted
from bert_core.storage.untrusted import parse_json

GIVEN = "given"  # the lesson of `app.py --lesson`
LESSON_BYTES = 256 * 1024
MOST_STEPS = 60
LONGEST = 4000  # characters of a title, text, question or choice
MOST_CHOICES = 8
# Parts of the page that a step can hide: the name of each in a file, and its CSS selector.
PARTS = {
    "tabs": "#tabs > .tab-wrapper",
    "model": "#frame .b-model, #frame .b-time",
    "sentences": "#question",
    "form": "#form, #preview",
    "curves": "#run-curves",
    "exam": "#exam",
    "own-guess": "#masked-own",
    "closer-view": "#masked-beside",
    "across": "#next-across",
    "matrix": "#next-all",
    "maps": "#attention-stage, #attention-hide",
    "heads": "#attention-heads",
    "head": "#attention-map",
    "switches": "#attention-switches",
    "downloads": ".b-save",
}
_TERM = re.compile(r"\[\[(.+?)(?:\|.+?)?\]\](?!\])")  # as in balcony/parts/elements.js
_STRINGS = ("text", "ask", "answer")


def lesson_bar(page: Page, given: dict[str, Any] | None = None) -> None:
    """Lay out the open lesson and the list of them. given: a lesson with which the page begins, named GIVEN."""
    shipped = lessons() | ({GIVEN: given} if given else {})
    questions = [step["question"] for each in shipped.values() for step in each["steps"]]
    page.workspaces.lesson_runs = [each["recipe"] for each in questions if "recipe" in each]
    titles = [[name, own(each["title"]) if name == GIVEN else each["title"]] for name, each in shipped.items()]

    def lesson(asked: PageRequest, name: str, text: str | None = None) -> dict[str, Any]:
        """A shipped lesson, or the one in the text of a file."""
        if text is not None:
            return read_lesson(text[: LESSON_BYTES + 1].encode("utf-8", "replace"), name[:60])
        if name not in shipped:
            raise InputError(f"There is no lesson {quoted(name)}; choose one from the list.")
        return shipped[name]

    options = {
        "lessons": titles,
        "begin": GIVEN if given else "",
        "parts": PARTS,
        "most": LESSON_BYTES + 1,
        "terms": terms(),
    }
    page.answers.add("lesson", lesson)
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
    """The lesson in a file. Raises BertCoreError."""
    try:
        with path.open("rb") as file:
            return read_lesson(file.read(LESSON_BYTES + 1), path.name)
    except OSError as error:
        raise InputError(f"The lesson {path.name} cannot be read ({error.strerror}); check its path.") from None


def read_lesson(data: bytes, name: str) -> dict[str, Any]:
    """A lesson from the bytes of a file, with the same names as there; what a step leaves out is empty.

    {"title", "steps": [{"question", "text", "ask", "choices", "right": index of the right choice or None, "answer",
    "hide": names of PARTS}]}. Raises BertCoreError with a sentence that names the file and the step.
    """
    if len(data) > LESSON_BYTES:
        raise InputError(f"{name} is larger than a lesson may be ({LESSON_BYTES // 1024} kB); shorten it.")
    content = parse_json(data, name)
    title, steps = content.get("title"), content.get("steps")
    if not _is_text(title) or not isinstance(steps, list) or not 0 < len(steps) <= MOST_STEPS or len(content) > 2:
        raise InputError(f"{name} is not a lesson: it needs a “title” and “steps”, from 1 to {MOST_STEPS}.")
    return {"title": title, "steps": [_read_step(step, f"{name}, step {k}") for k, step in enumerate(steps, 1)]}


def _read_step(step: Any, where: str) -> dict[str, Any]:
    def check(is_right: Any, part: str) -> None:
        if not is_right:
            raise InputError(f"{where}: its “{part}” cannot be used; see docs/lessons-and-class.md.")

    known = {*_STRINGS, "question", "choices", "right", "hide"}
    if not isinstance(step, dict) or not known.issuperset(step):
        unknown = next((each for each in step if each not in known), "") if isinstance(step, dict) else str(step)
        raise InputError(f"{where}: {quoted(unknown)} is not a part of a step; see docs/lessons-and-class.md.")
    texts = {each: step.get(each, "") for each in _STRINGS}
    for part, text in texts.items():
        check(text == "" or (_is_text(text) and {name.lower() for name in _TERM.findall(text)} <= {*terms()}), part)
    question, choices, right, hide = (step.get(each, empty) for each, empty in _EMPTY)
    check(isinstance(choices, list) and len(choices) <= MOST_CHOICES and all(map(_is_text, choices)), "choices")
    check(right is None or (type(right) is int and 0 <= right < len(choices)), "right")
    check(isinstance(hide, list) and all(isinstance(part, str) and part in PARTS for part in hide), "hide")
    check(isinstance(question, dict), "question")
    for part, value in question.items():
        try:
            Question.read({part: value})
        except BertCoreError:
            check(False, part)
        check(part in SCHEMA and part not in ("lesson", "at"), part)
    return {**texts, "question": question, "choices": choices, "right": right, "hide": hide}


_EMPTY: tuple[tuple[str, Any], ...] = (("question", {}), ("choices", []), ("right", None), ("hide", []))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST
