"""Lessons: that of a file, and the shipped ones from the list and by link."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_steps import FIRST, Tabs, expect_seen, open_tab, show, type_sentence, wait_for_question
from playwright.sync_api import Page, expect

LESSON = {
    "title": "<img src=x onerror=alert(1)>",
    "steps": [
        {
            "question": {"tab": "masked-words", **FIRST, "hidden": [12]},
            "text": "<b>$x$</b> A hidden word",
            "ask": "Which?",
            "choices": ["romeo", "juliet"],
            "right": 1,
            "answer": "It is her name.",
        },
        {"question": {"tab": "attention", "text": "thank you romeo", "head": [1, 2]}},
    ],
}


@pytest.fixture
def page_with_a_lesson(tabs: Tabs, service: Any, shipped: Path, tmp_path: Path) -> Iterator[Page]:
    """The page of a server that begins with LESSON."""
    import balcony.app

    path = tmp_path / "lesson.json"
    path.write_text(json.dumps(LESSON))
    app, url, _ = balcony.launch(service, shipped=[shipped], lesson=path, prevent_thread_lock=True, quiet=True)
    own = Tabs(tabs.browser, url)
    with own.visits() as visit:
        yield visit()
    assert own.complaints == []
    app.get_blocks().close(verbose=False)


def test_the_page_begins_with_the_lesson_of_a_file(page_with_a_lesson: Page) -> None:
    page = page_with_a_lesson
    expect(page.locator("#lesson-body h2")).to_have_text(LESSON["title"])
    expect_seen(page.locator("#lesson-body"), "<b>$x$</b> A hidden word", in_window=True)
    wait_for_question(page, **FIRST, tab="masked-words")
    expect(page.locator("#masked-guesses section")).to_have_count(1)
    page.locator("#lesson-choice-0").click()
    expect(page.locator("#lesson-body [role=status]")).to_have_text("Not this one.")
    page.locator("#lesson-choice-1").click()
    expect(page.locator("#lesson-body [role=status]")).to_have_text("Right. It is her name.")
    page.locator("#language").select_option("zh-CN")
    expect(page.locator("#lesson-body [role=status]")).to_have_text("正确。 It is her name.")  # nobody translates it
    page.locator("#language").select_option("en")
    page.locator("#lesson-next").click()
    wait_for_question(page, tab="attention", text="thank you romeo", head="1.2", pair=None)
    expect(page.locator("#attention-map .b-map-word").first).to_be_visible()
    page.reload()
    expect(page.locator("#lesson-step")).to_have_text("Step 2 of 2")
    page.locator("#lessons-list").click()
    expect(page.locator("#lesson-given")).to_have_text(LESSON["title"])


def test_a_lesson_goes_on_to_its_end(page: Page) -> None:
    page.set_viewport_size({"width": 1366, "height": 657})
    page.locator("#lessons-list").click()
    page.locator("#lesson-what-bert-learns").click()
    expect(page.locator("#lesson-step")).to_have_text("Step 1 of 6")
    height = "() => document.querySelector('#lesson-body').offsetHeight"
    assert page.evaluate(height) < 160
    for k in range(2, 7):
        page.locator("#lesson-next").click()
        expect(page.locator("#lesson-step")).to_have_text(f"Step {k} of 6")
    end = page.locator("#lesson-end")
    expect(end).to_be_in_viewport(ratio=1)
    end.click()
    expect(page.locator("#lesson-body")).to_be_hidden()
    assert page.locator("#lesson").bounding_box() is None  # nor does it leave a gap


def test_a_link_opens_a_lesson_and_the_page_answers(visit: Callable[..., Page]) -> None:
    page = visit(at="#lesson=what-bert-learns")
    expect_seen(page.locator("#lesson-step"), "Step 1 of", in_window=True)
    wait_for_question(page, lesson="what-bert-learns", tab="masked-words", hidden="12")
    expect(page.locator("#masked-guesses section")).to_have_count(1)
    type_sentence(page, "thank you")
    page.wait_for_function("location.hash.includes('thank')")
    page.reload()
    expect_seen(page.locator("#lesson-step"), "Step 1 of", in_window=True)
    wait_for_question(page, text="thank you", lesson="what-bert-learns")
    page.locator("#lesson-close").click()
    expect(page.locator("#lesson-body")).to_be_hidden()
    wait_for_question(page, lesson=None, text="thank you")


@pytest.mark.parametrize(
    ("parts", "place", "words", "explained"),
    [
        ({"tab": "train"}, "#run-monitor", "MLM", "Masked language modeling (MLM)"),
        ({"tab": "train"}, "#run-monitor", "loss", "Loss: −ln p"),
        ({"tab": "batch"}, "#batch", "step", "Step: the model answers one batch"),
        ({"tab": "masked-words"}, "#masked-closer", "output head", "Output head: the last part"),
        ({"tab": "next-sentence"}, "#next-verdict", "IsNext", "IsNext: in the text, the second"),
        ({"tab": "attention"}, ".b-hint", "head", "Head: a part of a layer"),
        ({"tab": "step-by-step", "stage": "weights"}, "#steps", "weights", "Attention weight: how much"),
        ({"tab": "models"}, "#model-facts", "Parameters", "Parameter, or weight"),
    ],
)
def test_a_term_is_explained_where_it_stands(
    shared: Page, complaints: list[str], parts: dict[str, str], place: str, words: str, explained: str
) -> None:
    page = shared
    show(page, **FIRST | parts)
    term = page.locator(f"{place} .b-term").filter(has_text=re.compile(f"^{words}$"), visible=True).first
    tip = page.locator(".b-tip[aria-hidden]")
    expect(page.locator("[role=tabpanel]:visible [aria-busy=true]")).to_have_count(0)
    term.hover()
    expect_seen(tip, explained, in_window=True)
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    term.focus()
    expect_seen(tip, explained, in_window=True)
    described = term.get_attribute("aria-describedby")
    assert page.locator(f"[id='{described}']").text_content() == tip.text_content()


def test_a_person_guesses_before_the_model(page: Page) -> None:
    show(page, "masked-words", **FIRST)
    page.locator("#guess-first-masked-words").check()
    expect(page.locator("#masked-beside")).to_be_hidden()
    covered = page.locator("#question .b-word[aria-pressed=true]")
    expect(covered).to_have_accessible_name("?")
    open_tab(page, "Attention")
    open_tab(page, "Masked words")
    expect(page.get_by_label("Your word for mask 1")).to_be_visible()
    expect(page.locator("#masked-beside")).to_be_hidden()
    expect(covered).to_have_accessible_name("?")
    page.get_by_label("Your word for mask 1").fill("Juliet")
    page.locator("#uncover").click()
    score = page.locator("#masked-guesses [role=status]")
    expect_seen(score, "You 1 of 1, the model")
    expect_seen(page.locator("#masked-guesses .b-own"), "My guess Juliet: ", in_window=True)
    expect(page.locator("#masked-guesses ol li")).to_have_count(5)
    expect(covered).to_have_accessible_name("Juliet")
    page.locator("#question .b-word").first.click()
    page.locator("#uncover").click()  # without a guess
    expect_seen(score, "You 1 of 1, the model")
    sentences = page.locator("#question .b-sentences")
    for _ in range(16):  # eight pairs: no pair twice in a row, and none with its answer shown
        before = sentences.text_content() or ""
        page.get_by_role("button", name="Another one").click()
        expect(sentences).not_to_have_text(before)
        expect(page.get_by_label("Your word").first).to_be_visible()
        expect(page.locator("#masked-guesses section")).to_be_hidden()
    page.get_by_label("Your word").first.fill("romeo")
    page.locator("#uncover").click()
    expect_seen(page.locator("#masked-guesses .b-own").first, "My guess romeo")
    page.locator("#guess-first-masked-words").uncheck()
    expect(score).to_be_hidden()
    expect(page.locator("#masked-guesses .b-own")).to_have_count(0)
    show(page, "next-sentence", **FIRST)
    page.locator("#guess-first-next-sentence").check()
    expect(page.locator("#next-matrices")).to_be_hidden()
    page.get_by_role("button", name="No", exact=True).click()
    expect(page.locator("#next-verdict [role=status]")).to_contain_text("You 0 of 1, the model")
    expect(page.locator("#next-matrices")).to_be_visible()


def test_the_list_of_lessons_closes_by_escape_and_by_a_press_outside(shared: Page, complaints: list[str]) -> None:
    page = shared
    item = page.locator("#lesson-what-bert-learns")
    page.locator("#lessons-list").click()
    expect(item).to_be_visible()
    page.keyboard.press("Escape")
    expect(item).to_be_hidden()
    page.locator("#lessons-list").click()
    expect(item).to_be_visible()
    page.locator("#title").click()
    expect(item).to_be_hidden()
