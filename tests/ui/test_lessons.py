"""Lessons: what a file may hold, and that those of the program are whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from balcony.lessons.lesson_bar import lessons, load_lesson, terms
from bert_core.errors import BertCoreError

STEP = {
    "question": {"tab": "attention", "text": "a b", "head": [1, 0], "hidden": None, "heads": {"mode": "lines"}},
    "text": "Look.",
    "ask": "Which?",
    "choices": ["one", "two"],
    "right": 1,
    "answer": "Two.",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "l.json"


def read(path: Path, *steps: Any, **parts: Any) -> dict[str, Any]:
    path.write_text(json.dumps({"title": "T", "steps": steps, **parts}))
    return load_lesson(path)


def test_a_lesson_is_read_as_it_is_written(path):
    empty = {"question": {}, "text": "", "ask": "", "choices": [], "right": None, "answer": ""}
    assert read(path, STEP, {}) == {"title": "T", "steps": [STEP, empty]}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("text", 1),
        ("text", None),
        ("text", "No term is a [[lossy]] one."),
        ("ask", ["a"]),
        ("choices", "ab"),
        ("choices", [""] * 2),
        ("right", 2),
        ("right", True),
        ("question", []),
        ("answer", {}),
        ("script", "x"),
    ],
)
def test_a_step_that_cannot_be_used_is_named(path, part, value):
    with pytest.raises(BertCoreError, match=rf"l\.json: steps\.1\.{part}.*: .*; see docs/lessons-and-class\.md\."):
        read(path, STEP, {**STEP, part: value})


@pytest.mark.parametrize(
    "part",
    [{"off": "all"}, {"heads": 1}, {"recipe": "a"}, {"at": 1}, {"number": 3}, {"lesson": "a"}, {"text": None}, {"": 1}],
)
def test_a_question_that_no_page_asks_is_named(path, part):
    with pytest.raises(BertCoreError, match=f"steps.0.question: '{next(iter(part))}'"):
        read(path, {"question": part})


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
        b"[" * 100_000,
        json.dumps({"title": "a", "steps": [1]}).encode(),
    ],
)
def test_what_is_no_lesson_gets_a_sentence(path, data):
    path.write_bytes(data)
    with pytest.raises(BertCoreError, match=r"l\.json: .*; see"):
        load_lesson(path)


def test_a_missing_file_is_named(path):
    with pytest.raises(BertCoreError, match=r"l\.json cannot be read"):
        load_lesson(path)


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
