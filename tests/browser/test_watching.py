"""Watching a run in a real browser: the time slider, curves that stay, what survives a reload or a lost connection."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser_steps import (
    Tabs,
    assert_curve_is_whole,
    change_setting,
    expect_seen,
    move_slider,
    open_tab,
    points,
    press_save,
    start,
    wait_for_points,
    wait_for_status,
    wait_until,
)
from playwright.sync_api import APIResponse, Page, Route, expect

ENDLESS = "50000"


@pytest.fixture(scope="module")
def trained(tabs: Tabs) -> Iterator[Page]:
    """A page with a finished run, for all tests of this module that only view it and leave it live."""
    tabs.complaints.clear()
    with tabs.visits() as visit:
        page = visit()
        start(page)
        wait_for_status(page, "Finished")
        assert tabs.complaints == []
        yield page


def test_a_late_answer_does_not_hide_the_end_of_a_run(page: Page) -> None:
    change_setting(page, "steps", ENDLESS)
    start(page)
    wait_for_points(page, 1)
    expect(page.locator("#stop")).to_be_enabled()
    page.wait_for_timeout(500)  # the answers to Start and to the first status are there
    held: list[Route] = []
    answers: dict[Route, APIResponse] = {}

    def both_are_held(route: Route) -> None:
        if len(held) < 2:
            held.append(route)  # at once, because another request can come while this one is answered
            answers[route] = route.fetch()
        else:
            route.continue_()

    page.route("**/run/**", both_are_held)
    page.locator("#pause").click()
    wait_for_status(page, "Paused")
    page.locator("#stop").click()
    wait_for_status(page, "Stopped")
    wait_until(page, lambda: len(answers) == 2)
    paused, stopped = held
    for route in (stopped, paused):
        route.fulfill(response=answers[route])
        page.wait_for_timeout(200)
    expect(page.locator("#start")).to_be_enabled()
    page.unroute("**/run/**")


def test_the_slider_takes_the_open_tab_back_in_time(trained: Page, complaints: list[str]) -> None:
    page = trained
    open_tab(page, "Masked words")
    guess = page.locator("#masked-guesses section li").first
    expect_seen(guess, "Juliet".lower())
    learned = page.locator("#masked-guesses").inner_text()
    move_slider(page, 0)
    expect(page.locator("#model-step")).to_have_text("step 0")
    page.wait_for_function("learned => document.querySelector('#masked-guesses').innerText !== learned", arg=learned)
    expect(page.locator("#time-live")).to_have_attribute("aria-pressed", "false")
    open_tab(page, "Next sentence")
    expect(page).to_have_url(re.compile("step=0&tab=next-sentence"))  # written a moment after the change
    page.reload()
    expect(page.locator("#model-step")).to_have_text("step 0")
    open_tab(page, "Masked words")
    page.locator("#time-live").click()
    expect(page.locator("#masked-guesses")).to_have_text(re.compile("juliet.*100%|juliet.*9.%", re.DOTALL))


def test_a_chart_is_fetched_and_drawn_in_an_open_tab_alone(visit: Callable[..., Page]) -> None:
    page = visit(at="#tab=masked-words")
    expect_seen(page.locator("#masked-guesses section li").first, "%")
    assert not page.evaluate("performance.getEntriesByType('resource').some(({ name }) => name.includes('plotly'))")
    open_tab(page, "Train")
    expect(page.locator("#run-curves .main-svg").first).to_be_visible()
    change_setting(page, "steps", ENDLESS)
    start(page)
    wait_for_points(page, 3)
    drawn = "document.querySelector('#run-curves').data.find(({ meta }) => meta.kind === 'raw').x.length"
    open_tab(page, "Masked words")
    before = page.evaluate(drawn)
    wait_for_points(page, points(page) + 5)
    assert page.evaluate(drawn) == before
    open_tab(page, "Train")
    page.wait_for_function(f"before => {drawn} >= before + 5", arg=before)
    page.locator("#stop").click()
    wait_for_status(page, "Stopped")
    assert_curve_is_whole(page)


def test_curves_keep_their_points_in_every_display(trained: Page, complaints: list[str]) -> None:
    page = trained
    open_tab(page, "Train")
    wait_for_points(page, 20)
    expect(page.locator("#run-curves .main-svg").first).to_be_visible()
    x = """series => document.querySelector('#run-curves').data
        .find(trace => trace.meta.series === series && trace.meta.kind === 'line').x"""
    steps = page.evaluate(x, "mlm_loss")
    assert steps[-1] == 110
    assert steps == sorted(set(steps)), "no point twice"
    page.get_by_label("Logarithmic loss").check()
    page.get_by_label("More curves").check()
    page.wait_for_function(
        "document.querySelector('#run-curves').data.some(t => t.meta.series === 'grad_norm' && t.x.length > 20)"
    )
    again = page.evaluate(x, "grad_norm")
    assert again == sorted(set(again))
    assert again[-1] == 110
    with page.expect_download() as waiting:
        press_save(page, "#curves-csv")
    lines = Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 110


def test_the_slider_takes_the_guesses_below_the_curves_back_in_time(trained: Page, complaints: list[str]) -> None:
    page = trained
    open_tab(page, "Train")
    expect(page.locator("#run-guesses tbody tr[data-right=true]")).to_have_count(5)
    move_slider(page, 0)
    expect(page.locator("#run-guesses caption")).to_have_text("Guesses for hidden words at step 0")
    page.locator("#time-live").click()
    expect(page.locator("#run-guesses caption")).to_have_text("Guesses for hidden words at step 110")
    expect(page.locator("#run-guesses tbody tr[data-right=true]")).to_have_count(5)


def test_a_word_tells_when_it_was_first_right(trained: Page, complaints: list[str]) -> None:
    page = trained
    open_tab(page, "Train")
    slider, ticks = page.locator("#time-slider"), page.locator(".b-time-right")
    first = page.locator("#run-guesses .b-path").first
    expect_seen(first, "First right at step ")
    assert (ticks.get_attribute("d") or "").count("v-20") >= 1
    step = re.sub(r"\D", "", first.inner_text())
    first.click()
    expect(slider).to_have_attribute("aria-valuetext", f"step {step}")
    row = first.locator("xpath=ancestor::tr")
    expect(row).to_have_attribute("data-right", "true")
    page.locator("#time-live").click()
    open_tab(page, "Masked words")
    expect_seen(page.locator("#masked-guesses .b-path", has_text="First right"), "First right at step ")
    expect(ticks).to_have_attribute("d", re.compile("^[^v]+v-20$"))


def test_a_press_on_the_birth_of_a_head_shows_the_head_at_that_step(trained: Page, complaints: list[str]) -> None:
    page = trained
    open_tab(page, "Attention")
    page.evaluate("Balcony.ask({ text: 'Oh Congratulations, Juliet', pair: 'Thank you Romeo', hidden: [] })")
    page.locator("#attention-map").get_by_role("tab", name="Over the steps").click()
    births, slider = page.locator("#attention-births"), page.locator("#time-slider")
    expect_seen(births.locator("div[role=status]"), "The loss falls most steeply from step ", in_window=True)
    expect(births.get_by_role("progressbar")).to_be_hidden()
    expect_seen(births.locator(".ytitle"), "Above chance", in_window=True)
    name, born = (births.locator("tbody tr").first.locator(cell).inner_text() for cell in ("th .b-path", "td >> nth=0"))
    step = born.replace(",", "")
    assert step.isdigit()
    marks = [box for mark in births.locator(".points path").all() if (box := mark.bounding_box()) and box["width"] > 8]
    assert len(marks) >= 1
    page.mouse.click(marks[0]["x"] + marks[0]["width"] / 2, marks[0]["y"] + marks[0]["height"] / 2)
    expect_seen(page.locator("#attention-map .b-map-title"), name, in_window=True)
    expect(slider).to_have_attribute("aria-valuetext", f"step {step}")
    expect(births).to_be_hidden()
    page.locator("#time-live").click()


def test_while_a_run_goes_on_a_chosen_step_and_a_selected_text_stay_and_the_slider_grows(page: Page) -> None:
    change_setting(page, "steps", ENDLESS)
    start(page)
    wait_for_points(page, 5)
    for tab, part in (("Train", "#run-guesses td"), ("Masked words", "#masked-guesses .b-filled")):
        open_tab(page, tab)
        expect_seen(page.locator(part).first, re.compile("[A-Za-z]{3}"))
        selected = page.evaluate(  # in one go, since the run draws it anew
            """selector => { const part = document.querySelector(selector);
                getSelection().selectAllChildren(part); part.isOld = true; return `${getSelection()}`; }""",
            part,
        )
        assert len(selected) > 5
        page.wait_for_function(f"!document.querySelector('{part}').isOld")
        page.wait_for_timeout(100)
        assert page.evaluate("`${getSelection()}`") == selected

    expect(page.locator("#model-step")).not_to_have_text("step 0")  # the newest
    move_slider(page, 0)
    expect(page.locator("#model-step")).to_have_text("step 0")
    step = page.locator("#run-step").inner_text()
    page.wait_for_function("step => document.querySelector('#run-step').innerText !== step", arg=step)
    expect(page.locator("#model-step")).to_have_text("step 0")
    page.locator("#time-live").click()
    expect(page.locator("#model-step")).not_to_have_text("step 0")

    places = "() => document.querySelector('.b-time-loss')?.points.length ?? 0"
    page.wait_for_function(f"({places})() > 3")
    page.wait_for_function(f"before => ({places})() > before + 3", arg=page.evaluate(places))

    open_tab(page, "Train")
    page.locator("#stop").click()
    wait_for_status(page, "Stopped")


def test_a_paused_run_takes_a_new_learning_rate_and_an_ended_one_continues(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("balcony.train.tab.pace_of_first", lambda training: 1)
    change_setting(page, "steps", "12")
    start(page)
    page.set_viewport_size({"width": 1366, "height": 657})
    page.locator("#change-settings").click()
    page.get_by_role("button", name="Change the learning rate").click()
    wait_for_points(page, points(page) + 1)
    expect(page.locator("#recipe")).to_be_visible()  # the form is folded by what the run is told, not by its field
    page.locator("#pause").click()
    wait_for_status(page, "Paused")
    page.locator("#new-rate input").fill("0.0005")
    page.locator("#change-rate").click()
    expect_seen(page.locator(".b-message"), "The learning rate is 0.0005 from the next step on.", in_window=True)
    expect(page.locator(".b-message .is-error")).to_have_count(0)  # no red line beside what was done
    page.locator("#pause").click()
    page.locator("#stop").click()
    wait_for_status(page, "Stopped")
    page.locator("#new-rate input").fill("0.0004")
    page.locator("#change-rate").click()
    expect_seen(page.locator(".b-message"), "The learning rate is 0.0004 from the next step on.", in_window=True)
    page.locator("#go-on").filter(has_text="Train the remaining ").click()
    wait_for_status(page, "Finished")
    expect(page.locator("#run-step")).to_have_text("12 of 12")
    page.get_by_label("More steps").fill("")
    expect(page.locator("#go-on")).to_be_disabled()
    page.get_by_label("More steps").fill("4")
    page.locator("#go-on").click()
    expect(page.locator("#run-step")).to_have_text("16 of 16")
    wait_for_status(page, "Finished")
    last = "() => Math.max(...document.querySelector('#run-curves').data.flatMap(({ x }) => x))"
    wait_until(page, lambda: page.evaluate(last) == 16)
    axis = "() => document.querySelector('#run-curves').layout.xaxis.range"
    assert page.evaluate(axis) == [0, 16]
