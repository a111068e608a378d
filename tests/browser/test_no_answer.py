"""A question without an answer: what it was asked for fades and says so, and it is asked again."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser_steps import (
    FIRST,
    QUESTIONS,
    TAB_RECORDS,
    expect_seen,
    open_tab,
    picture,
    press_save,
    show,
    type_sentence,
    wait_for_answer,
    wait_until,
    words_of,
)
from playwright.sync_api import Locator, Page, Route, expect

from balcony.server.probe_lock import probe_lock

NO_ANSWER = "The server did not answer; try again."
SERVER = re.compile("/(run/predict|balcony/ask|health)")
STALE = re.compile("is-stale")
# What the tabs have declared, see `Page.answer`.
ANSWERS = """Object.values(gradio_config.components.find(({ props }) => props.elem_id === 'question')
    .props.props.options.answers)"""


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Iterator[Page]:
    yield shared
    shared.unroute_all(behavior="ignoreErrors")
    complaints[:] = [text for text in complaints if not re.search("ERR_INTERNET_DISCONNECTED|ERR_FAILED|429|502", text)]


def failure(page: Page, view: str) -> Locator:
    return page.locator(view).locator(".b-failure")


def test_an_answer_that_was_lost_is_asked_again_when_the_page_is_online(page: Page) -> None:
    show(page, "masked-words", **FIRST)
    guesses = page.locator("#masked-guesses")
    expect(guesses.locator("h3")).to_have_text(["Mask 1 for Juliet"])
    page.context.set_offline(True)
    words_of(page).filter(has_text="name").click()
    expect(guesses.locator(".b-view")).to_have_class(STALE)
    expect(failure(page, "#masked-guesses")).to_contain_text(NO_ANSWER)
    expect(failure(page, "#masked-guesses")).to_be_in_viewport()
    page.context.set_offline(False)
    expect(guesses.locator("h3")).to_have_text(["Mask 1 for name", "Mask 2 for Juliet"])
    expect(guesses.locator(".b-view")).not_to_have_class(STALE)
    expect(page.locator(".b-failure")).to_have_count(0)


def test_a_refused_question_leaves_no_old_answer_as_if_it_were_new(page: Page) -> None:
    titles = {tab.name: tab.title for tab in TAB_RECORDS}
    views: dict[str, list[str]] = {}
    for each in page.evaluate(ANSWERS):
        views.setdefault(each["tab"], []).extend(each["views"])
    asking = {tab: page.locator(", ".join(f"#{view} .b-view" for view in each)) for tab, each in views.items() if each}
    assert len(asking) > 5
    for number, (tab, parts) in enumerate(asking.items()):
        show(page, tab, **FIRST)
        expect(parts.and_(page.locator("[aria-busy=true]"))).to_have_count(0)
        page.route(QUESTIONS, lambda route: route.fulfill(status=429, body="Too many requests; wait a moment."))
        show(page, tab, **FIRST | {"text": "How are you?", "step": f"{number}"})
        expect(parts.and_(page.locator(":not(.is-stale)"))).to_have_count(0)
        failures = page.locator(f"#tab-{tab} .b-failure")
        expect(failures.first).to_be_in_viewport()
        page.unroute(QUESTIONS)
        open_tab(page, "Train")
        open_tab(page, titles[tab])  # the person comes back
        expect(failures).to_have_count(0)
        expect(parts.and_(page.locator(".is-stale, [aria-busy=true]"))).to_have_count(0)


def test_a_picture_waits_until_the_words_of_a_new_sentence_are_read(page: Page, tmp_path: Path) -> None:
    show(page, "masked-words", **FIRST)
    expect(page.locator("#masked-guesses h3")).to_have_text(["Mask 1 for Juliet"])
    words: list[Route] = []
    page.route(
        QUESTIONS, lambda route: words.append(route) if '"words"' in str(route.request.post_data) else route.continue_()
    )
    type_sentence(page, "How are you?", "pair")
    wait_until(page, lambda: words)
    press_save(page, "#masked-download-png")
    expect_seen(page.locator("#masked-download"), "no answer to the question yet", in_window=True)
    words.pop().continue_()
    expect(words_of(page)).to_have_count(10)
    wait_for_answer(page.locator("#masked-guesses"))
    assert "How are you?" in picture(page, "#masked-download-png", "guesses.png")


def test_a_person_asks_again_after_a_new_sentence_found_no_answer(page: Page) -> None:
    show(page, "masked-words", **FIRST)
    expect(page.locator("#masked-guesses h3")).to_have_text(["Mask 1 for Juliet"])
    page.route(SERVER, lambda route: route.abort())
    type_sentence(page, "How are you?", "pair")
    expect(failure(page, "#masked-guesses")).to_be_in_viewport()
    expect(words_of(page)).to_have_count(0)  # those of the sentences before are not these
    expect(page.locator("#question .b-chips").last).to_have_text("Howareyou?")
    page.unroute(SERVER)
    page.route("**/health", lambda route: route.abort())  # the page has not seen yet that the server is there
    failure(page, "#masked-guesses").get_by_role("button", name="Ask again").click()
    expect(words_of(page)).to_have_count(10)
    wait_for_answer(page.locator("#masked-guesses"))
    expect(page.locator(".b-failure")).to_have_count(0)


@pytest.mark.parametrize("gone", [lambda route: route.abort(), lambda route: route.fulfill(status=502, body="<html>")])
def test_what_was_lost_is_asked_again_when_the_server_is_there_again(
    page: Page, gone: Callable[[Route], object]
) -> None:
    show(page, "masked-words", **FIRST)
    page.route(SERVER, gone)
    words_of(page).filter(has_text="name").click()
    expect_seen(failure(page, "#masked-guesses"), NO_ANSWER, in_window=True)
    expect(page.locator(".b-message")).to_have_count(1)
    page.unroute(SERVER)
    expect(page.locator(".b-message, .b-failure")).to_have_count(0)
    expect(page.locator("#masked-guesses h3")).to_have_text(["Mask 1 for name", "Mask 2 for Juliet"])


def test_a_question_that_the_server_refused_is_asked_again(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    show(page, "step-by-step", **FIRST, stage="pieces")
    expect(page.locator("#steps h3").first).to_have_text("1 Pieces")
    monkeypatch.setattr(probe_lock, "limit_seconds", 0.0)
    words_of(page).filter(has_text="name").click()
    expect(page.locator("#steps")).to_contain_text("the limit here is 0 s")
    monkeypatch.undo()

    def is_answered() -> bool:  # the person may come back while a question is on its way that is refused too
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        return page.locator("#steps h3").count() > 0

    wait_until(page, is_answered)
    expect(page.locator("#steps h3").first).to_have_text("1 Pieces")


def test_a_pressed_number_says_when_it_has_no_explanation(page: Page) -> None:
    show(page, "step-by-step", **FIRST, head="1.0", stage="projections", token="2")
    steps = page.locator("#steps")
    strips = steps.locator(".b-strips:not(.b-unfolded .b-strips)").last
    expect(strips).to_be_visible()
    page.route(QUESTIONS, lambda route: route.abort())
    strips.press("Enter")
    expect(steps.locator(".b-note.is-error")).to_have_text([NO_ANSWER] * 3)
    page.unroute(QUESTIONS)
    for press in range(8):
        strips.press("ArrowRight")
        strips.press("Enter")
        expect(steps.locator(".b-unfolded h3")).to_have_text(
            [f"{name}[{press + 1}]" for name in ("query", "key", "value")]
        )


def test_heads_of_a_new_sentence_wait_while_a_file_is_asked_for(page: Page) -> None:
    show(page, "attention", **FIRST)
    grid, detail = page.locator("#attention-heads"), page.locator("#attention-map")
    wait_for_answer(grid)
    with page.expect_download(), probe_lock:  # somebody else's probe is running
        type_sentence(page, "How are you?")
        wait_until(page, lambda: probe_lock.waiting >= 2)  # heads and switches
        grid.get_by_role("button", name="Layer 2, head 2").click()
        press_save(page, "#attention-download-json")
        wait_until(page, lambda: probe_lock.waiting >= 3)
    wait_for_answer(grid)
    wait_for_answer(detail)
    expect(grid.locator(".b-head")).not_to_have_count(0)
    expect(page.locator("#tab-attention .b-note.is-error")).to_have_count(0)
    expect(detail.locator("h3")).to_have_text("Layer 2, head 2")
