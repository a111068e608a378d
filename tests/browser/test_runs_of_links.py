"""Runs that a link or a lesson names: the page trains one again, once, says so, and shows the step that it names."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from browser_steps import (
    FIRST,
    expect_seen,
    open_tab,
    show,
    shown_model,
    unfold_form,
    wait_for_answer,
    wait_for_question,
    wait_for_status,
    wait_until,
)
from playwright.sync_api import Page, expect

from balcony.server.workspace import NOT_YOURS
from bert_core.runs.run import ENDED

AGAIN = "a run here repeats the training, with the same recipe, settings and seed"
TABS = ("masked-words", "words-in-context", "batch", "train")
RUN = "Run {} · Romeo and Juliet, quick"


SEEN = """text => {
    window.seen = []; // where the text stood
    const look = () => {
        for (const each of document.querySelectorAll("p, span, li, td, div"))
            if (!each.childElementCount && each.textContent.includes(text) && each.checkVisibility())
                window.seen.push([location.hash, each.closest("[id]").id]);
    };
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""


def parts_of(steps: int, seed: int = 5) -> dict[str, str]:
    """What an address says of a run that nobody has."""
    recipe = {"recipe": "romeo-juliet", "seed": str(seed), "settings": {"training.steps": steps}}
    return {"model": "elsewhere", "recipe": json.dumps(recipe), **FIRST}


def link(step: int | None, steps: int, seed: int = 5) -> str:
    """A link to a run that nobody has."""
    parts = {"tab": "masked-words"} | parts_of(steps, seed)
    return f"#{urlencode(parts if step is None else parts | {'step': str(step)})}"


def test_a_link_to_a_step_shows_that_step_and_says_that_it_is_trained_again(visit: Callable[..., Page]) -> None:
    page = visit(at=link(33, 60))
    notice = page.locator("#link-notice")
    expect(notice).to_be_visible()
    expect_seen(notice, AGAIN)
    expect(page.locator("#model-step")).to_have_text("step 33")
    expect(page.locator("#masked-guesses li")).to_have_count(5)
    open_tab(page, "Train")
    wait_for_status(page, "Finished")
    expect(page.locator("#run-step")).to_have_text("60 of 60")
    # What Start would train now is the same.
    unfold_form(page)
    expect(page.locator("#seed input")).to_have_value("5")
    expect(page.locator("#setting-steps input")).to_have_value("60")
    open_tab(page, "Masked words")
    expect(page.locator("#model-step")).to_have_text("step 33")
    wait_for_question(page, step="33")
    expect(notice).to_be_in_viewport(ratio=1)
    wait_for_answer(page.locator("#masked-guesses"))
    guesses = page.locator("#masked-guesses").inner_text()
    page.reload()
    expect(page.locator("#model-step")).to_have_text("step 33")
    expect(page.locator("#masked-guesses")).to_have_text(guesses, use_inner_text=True)
    show(page, "masked-words", model=page.locator("#model-picker").input_value(), step="9999", **FIRST)
    told = page.locator("#messages").get_by_text("no model of step 9,999; the page shows step 60")
    expect(told).to_be_in_viewport(ratio=1)
    expect(page.locator("#model-step")).to_have_text("step 60")


def test_no_view_says_that_the_run_is_not_here_while_it_is_trained_again(
    visit: Callable[..., Page], service: Any
) -> None:
    page = visit()
    page.evaluate(SEEN, NOT_YOURS)
    for seed, tab in enumerate(TABS, 5):
        show(page, tab, **parts_of(1, seed))
        expect(page.locator("#model-step")).to_have_text("step 1")
        expect(shown_model(page)).to_have_text(RUN.format(seed - 4))
        wait_until(page, lambda: service.runs[-1].status in ENDED)
    assert page.evaluate("window.seen") == []


def runs_of(page: Page) -> list[str]:
    """The names of the visitor's runs."""
    names = page.locator("#model-picker option").all_inner_texts()
    return [name for name in names if name.startswith("Run")]


def test_lessons_that_need_the_same_run_train_it_once(visit: Callable[..., Page]) -> None:
    page = visit(at="#lesson=memorising-and-learning&at=1")
    wait_for_question(page, lesson="memorising-and-learning", at="1", step="0")
    expect(page.locator("#link-notice")).to_be_visible()
    expect(page.locator("#masked-guesses li").first).to_be_visible()
    page.locator("#lesson-next").click()
    wait_for_status(page, "Finished")
    expect(page.locator("#link-notice")).to_be_hidden()
    page.locator("#lesson-back").click()
    expect(page.locator("#model-step")).to_have_text("step 0")
    expect(page.locator("#masked-guesses li").first).to_be_visible()
    page.locator("#lessons-list").click()
    page.locator("#lesson-what-bert-learns").click()
    for _ in range(2):
        page.locator("#lesson-next").click()
    expect_seen(page.locator("#lesson-step"), "Step 3 of")
    expect(page.locator("#model-step")).to_have_text("step 110")
    assert len(runs_of(page)) == 1


def test_paging_back_at_once_shows_the_model_of_the_step(visit: Callable[..., Page]) -> None:
    page = visit(at="#lesson=memorising-and-learning&at=3")
    wait_for_question(page, at="3", model="romeo-juliet")
    for _ in range(3):
        for button in ("back", "back", "next", "next"):
            page.locator(f"#lesson-{button}").click()
    expect_seen(page.locator("#lesson-step"), "Step 4 of")
    expect(shown_model(page)).to_have_text("romeo-juliet")
    open_tab(page, "Train")
    wait_for_status(page, "Finished")
    wait_for_question(page, model="romeo-juliet")
    expect(shown_model(page)).to_have_text("romeo-juliet")
    page.locator("#lesson-back").click()
    expect(shown_model(page)).to_have_text(RUN.format(1))
    expect(page.locator("#time-slider")).to_be_visible()
    expect(page.locator("#time-slider")).to_be_enabled()
    assert len(runs_of(page)) == 1
