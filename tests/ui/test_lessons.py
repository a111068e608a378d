"""Lessons: what a file may hold, and that those of the program are whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from balcony.lessons.lesson_bar import LESSON_BYTES, LONGEST, MOST_STEPS, lessons, load_lesson, read_lesson, terms
from bert_core.errors import BertCoreError

STEP = {
    "question": {"tab": "attention", "text": "a b", "head": [1, 0], "hidden": None, "heads": {"mode": "lines"}},
    "text": "Look.",
    "ask": "Which?",
    "choices": ["one", "two"],
    "right": 1,
    "answer": "Two.",
    "hide": ["form"],
}


def read(*steps: Any, **parts: Any) -> dict[str, Any]:
    return read_lesson(json.dumps({"title": "T", "steps": steps, **parts}).encode(), "l.json")


def test_a_lesson_is_read_as_it_is_written():
    assert read(STEP, {}) == {
        "title": "T",
        "steps": [
            STEP,
            {"question": {}, "text": "", "ask": "", "choices": [], "right": None, "answer": "", "hide": []},
        ],
    }


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("text", 1),
        ("text", "a" * (LONGEST + 1)),
        ("ask", ["a"]),
        ("choices", "ab"),
        ("choices", [""] * 2),
        ("choices", ["a"] * 9),
        ("right", 2),
        ("right", True),
        ("hide", ["body"]),
        ("hide", [[]]),
        ("question", []),
        ("answer", {}),
    ],
)
def test_a_step_that_cannot_be_used_is_named(part, value):
    with pytest.raises(BertCoreError, match=f"l.json, step 2: its “{part}”"):
        read(STEP, {**STEP, part: value})


@pytest.mark.parametrize(
    "part",
    [{"off": "all"}, {"heads": 1}, {"recipe": "a"}, {"at": 1}, {"number": 3}, {"lesson": "a"}, {"text": None}, {"": 1}],
)
def test_a_question_that_no_page_asks_is_named(part):
    with pytest.raises(BertCoreError, match=f"step 1: its “{next(iter(part))}”"):
        read({"question": part})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"title": "", "steps": [{}]}',
        b'{"title": "a", "steps": []}',
        b'{"title": "a", "steps": [{}], "script": "x"}',
        b"[" * LESSON_BYTES,
        b" " * (LESSON_BYTES + 1),
        json.dumps({"title": "a", "steps": [{}] * (MOST_STEPS + 1)}).encode(),
        json.dumps({"title": "a", "steps": [1]}).encode(),
        json.dumps({"title": "a", "steps": [{"script": "x"}]}).encode(),
        json.dumps({"title": "a", "steps": [{"text": "No term is a [[lossy]] one."}]}).encode(),
    ],
)
def test_what_is_no_lesson_gets_a_sentence(data):
    with pytest.raises(BertCoreError, match=r"l\.json.*[;:]"):
        read_lesson(data, "l.json")


def test_a_lesson_file_is_read_or_refused(tmp_path: Path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"title": "T", "steps": [STEP]}))
    assert load_lesson(path)["steps"] == [STEP]
    with pytest.raises(BertCoreError, match=r"gone\.json cannot be read"):
        load_lesson(tmp_path / "gone.json")


def test_the_lessons_of_the_program():
    for name, lesson in lessons().items():
        for step in lesson["steps"]:
            assert step["text"], name
            assert not step["choices"] or (step["right"] is not None and step["answer"]), step["text"]
            assert not step["ask"] or step["answer"], step["text"]
            assert step["question"]["tab"], name
            # Without a text, the page takes the first sentences of the shown model's own.
            assert step["question"].get("text") or step["question"]["tab"] in (
                "train",
                "batch",
                "compare",
                "fine-tune",
            ), name


def test_each_term_is_explained_once():
    assert all(text.endswith(".") and len(text) < 240 for text in terms().values())
