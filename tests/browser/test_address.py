"""The question in the address: what is written is read again, by the page and by the server."""

import dataclasses
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from browser_steps import serve_modules
from playwright.sync_api import Browser, Page

from balcony.frame.question import SCHEMA, Question

QUESTIONS = 200
TEXTS = [
    "",
    "a",
    "Oh, Juliet?",
    "a&b=c#d%20+e",
    "مرحبا كيف",
    "今天 天气",
    "🎭 [MASK]",
    "two\nlines",
    " 1.5,2 ",
    "null",
    '{"a": 1}',
]
MODULE = 'await import("/modules/frame/question.js")'


@pytest.fixture(scope="module")
def empty(browser: Browser) -> Iterator[Page]:
    """A page that has only the modules."""
    page = browser.new_page()
    page.add_init_script(f"window.Balcony = {{ schema: {json.dumps(SCHEMA)}, hash: '' }}")
    page.route("**/*", lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
    serve_modules(page)
    page.goto("http://localhost/")
    yield page
    page.close()


def a_question(draw: random.Random) -> dict[str, Any]:
    """Random parts of a question, as JSON; some are as at first."""

    def number(most: int = 999_999_999) -> int:
        return draw.choice([0, 1, draw.randint(0, most)])

    def head() -> list[int]:
        return [number(20), number(20)]

    def lines() -> list[str] | None:
        return draw.choice([None, [], [text for text in draw.sample(TEXTS, 3) if text]])

    values = {
        "model": draw.choice(["", "romeo-juliet", "0123456789abcdef"]),
        "step": draw.choice([None, number()]),
        "other": draw.choice(["", "0123456789abcdef@30"]),
        "tab": draw.choice(["train", "attention"]),
        "text": draw.choice(TEXTS),
        "pair": draw.choice(TEXTS),
        "hidden": draw.choice([None, [], sorted({number(50), number(50)})]),
        "guess": draw.choice(TEXTS),
        "view": draw.choice(["lens", "explained", "sweep", "swap", "write"]),
        "mask": number(9),
        "place": draw.choice([None, number(9)]),
        "swaps": lines(),
        "answers": lines(),
        "length": number(32),
        "rounds": number(32),
        "temperature": number(20),
        "seed": number(99),
        "pooling": draw.choice(["word", "mean"]),
        "head": head(),
        "hide_special": draw.choice([False, True]),
        "off": draw.choice([[], [head()], [head(), head()]]),
        "word": draw.choice([None, *TEXTS]),
        "contexts": lines(),
        "choices": lines(),
        "level": draw.choice([None, number(24)]),
        "zeroed": draw.choice([[], [head()]]),
        "token": draw.choice([None, number(24)]),
        "carried": draw.choice([None, [number(1), *head()]]),
        "row": number(9),
        "first": number(99),
        "stage": draw.choice(["map", "pieces", "weights"]),
        "lesson": draw.choice(["", "what-bert-learns"]),
        "at": number(9),
        "heads": draw.choice([{}, {"mode": "lines", "effect": "loss", "active": [0, 2]}]),
        "recipe": draw.choice(
            [None, {"missing": draw.choice(TEXTS)}, {"recipe": "romeo-juliet", "seed": "3", "settings": {}}]
        ),
    }
    return {name: value for name, value in values.items() if draw.random() < 0.7}


def test_a_random_question_is_read_as_it_was_written(empty: Page) -> None:
    draw = random.Random(14)
    questions = [a_question(draw) for _ in range(QUESTIONS)]
    assert set().union(*questions) == SCHEMA.keys(), "every part is tried"
    first, found = empty.evaluate(
        f"""async (questions) => {{
            const {{ address, parsed, question, restore }} = {MODULE};
            const now = () => {{ const {{ number, newest, ...parts }} = question; return parts; }}, first = now();
            return [first, questions.map((each) => {{
                restore(each);
                const hash = address();
                restore({{}});
                restore(parsed(hash) ?? {{}});
                return now();
            }})];
        }}""",
        questions,
    )
    for asked, read in zip(questions, found, strict=True):
        assert read == first | asked
        parts = dataclasses.asdict(Question.read(read | {"hidden": read["hidden"] or []}))
        for name, value in parts.items():
            assert as_json(value) == (read[name] if name != "hidden" else read[name] or []), name


def as_json(value: Any) -> Any:
    """The same with lists for tuples."""
    return [as_json(each) for each in value] if isinstance(value, tuple) else value


def test_parts_that_a_question_lacks_are_left_out(empty: Page) -> None:
    wrong = "#constructor=1&__proto__=2&toString=3&number=4&step=x&head=1&off=1.2,3&heads={&hidden=1,a"
    assert empty.evaluate(f"async (hash) => ({MODULE}).parsed(hash)", wrong) is None


def test_presses_just_before_a_reload_are_in_the_address(empty: Page) -> None:
    empty.goto("http://localhost/")
    empty.evaluate(
        f"""async () => {{
            const {{ ask }} = {MODULE};
            for (const first of [1, 2, 3]) {{
                ask({{ first }});
                await new Promise((done) => setTimeout(done, 30));
            }}
        }}"""
    )
    empty.reload()
    assert empty.url.endswith("#first=3")
