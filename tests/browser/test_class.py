"""A class: a teacher and two pupils, each in a browser profile of their own."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_steps import (
    FIRST,
    TAB_RECORDS,
    Tabs,
    change_setting,
    download,
    expect_seen,
    open_tab,
    press_save,
    show,
    start,
    wait_for_question,
    wait_for_status,
)
from playwright.sync_api import Page, expect

TEACHER = "the-token"
WITH_SENTENCES = [tab for tab in TAB_RECORDS if tab.hint is not None]


@pytest.fixture(scope="module")
def class_tabs(tabs: Tabs, service: Any, shipped: Path) -> Iterator[Tabs]:
    import balcony.app

    app, url, _ = balcony.launch(
        *(service,), shipped=[shipped], teacher=TEACHER, server_name="0.0.0.0", prevent_thread_lock=True, quiet=True
    )
    own = Tabs(tabs.browser, url.replace("0.0.0.0", "localhost"))
    limits = service.limits
    yield own
    service.limits = limits
    assert own.complaints == []
    app.get_blocks().close(verbose=False)


@pytest.fixture(scope="module")
def people(class_tabs: Tabs) -> Iterator[tuple[Page, Page, Page]]:
    """A teacher and two pupils, who are there for some lessons."""
    with class_tabs.visits() as visit:
        yield visit(at=f"#teacher={TEACHER}"), visit(), visit()


@pytest.fixture
def visit_class(class_tabs: Tabs) -> Iterator[Callable[..., Page]]:
    with class_tabs.visits() as visit:
        yield visit


def test_a_class_shares_runs_and_opens_a_view(people: tuple[Page, Page, Page]) -> None:
    teacher, ada, bob = people
    expect(teacher.locator("#class-send-view")).to_be_visible()
    assert TEACHER not in teacher.url
    expect(ada.locator("#class-bar section")).to_be_hidden()

    change_setting(ada, "steps", "5000")
    start(ada)
    for page in (teacher, ada, bob):
        open_tab(page, "Class")
    expect_seen(teacher.locator(".class-address"), "http://")
    expect(ada.locator(".class-desk")).to_have_count(0)
    ada.locator("#class-name").fill("Ada <b>")
    ada.locator("#class-share").click()
    for page in (teacher, bob):
        expect_seen(page.locator(".class-run th"), "Ada <b>")
    expect(ada.locator(".class-run.is-own")).to_have_count(1)
    # The board follows the run while it trains.
    step = bob.locator(".class-run").get_by_text("of 5,000")
    expect(step).to_be_visible()
    before = step.text_content() or ""
    expect(step).not_to_have_text(before)
    expect(bob.locator("#class-runs").get_by_text("MLM loss, last 20 steps")).to_be_visible()
    ada.locator("#stop").evaluate("button => button.click()")
    expect(bob.locator(".class-run").get_by_text("stopped")).to_be_visible()

    show(teacher, "attention", **FIRST)
    teacher.locator("#class-send-view").click()
    expect_seen(bob.locator("#class-bar"), "Your teacher shows a view.")
    expect(bob.locator("#messages").get_by_text("Your teacher shows a view.")).to_be_in_viewport()
    ada.locator("#language").select_option("zh-CN")
    expect_seen(ada.locator("#class-bar"), "老师发来一个页面。")
    ada.locator("#language").select_option("en")
    bob.locator("#class-open").click()
    wait_for_question(bob, tab="attention", text=FIRST["text"])

    open_tab(teacher, "Class")
    teacher.locator("[id^=class-remove-]").first.click()
    expect(teacher.get_by_text("Take this run off the board? It is of Ada <b>.")).to_be_visible()
    teacher.get_by_role("button", name="Cancel").last.click()
    teacher.locator("#class-clear").click()
    expect(ada.locator(".class-run")).to_have_count(1)
    teacher.locator("#class-clear-sure").click()
    expect(ada.locator(".class-run")).to_have_count(0)
    teacher.locator("#class-unsend").click()
    expect(ada.locator("#class-bar section")).to_be_hidden()


def test_the_room_guesses_and_the_model_stands_beside_it(
    people: tuple[Page, Page, Page], visit_class: Callable[..., Page]
) -> None:
    teacher, ada, bob = people
    open_tab(teacher, "Train")
    change_setting(teacher, "steps", "20")
    start(teacher)
    wait_for_status(teacher, "Finished")
    asked = {"text": "Where is my Juliet?", "hidden": "3"}
    show(teacher, "masked-words", **asked, model=teacher.locator("#model-picker").input_value())
    expect(teacher.locator("#masked-guesses ol li")).not_to_have_count(0)
    teacher.locator("#class-ask").click()
    expect(teacher.locator("#class-uncover")).to_be_visible()
    expect(teacher.locator("#masked-guesses ol li").first).to_be_hidden()  # it may be on the wall
    expect(teacher.locator("#masked-guesses .b-filled")).to_be_hidden()
    for tab in WITH_SENTENCES:
        show(teacher, tab.name, **asked, model=teacher.locator("#model-picker").input_value())
        expect(teacher.locator(".b-view[aria-busy=true]")).to_have_count(0)
        expect(teacher.locator("#question .is-asked")).to_have_accessible_name("?")
        if tab.press == "hidden":
            assert "Juliet" not in teacher.locator("#tabs > .tabitem:visible").inner_text()
    show(teacher, "masked-words", **asked, model=teacher.locator("#model-picker").input_value())
    for page in (ada, bob):
        expect(page.get_by_role("button", name="Send my guess")).to_be_visible()
        expect(page.locator(".class-sentence")).to_have_text("Where is my ?")
        assert "Where is my Juliet" not in page.url + page.content()
    bob.get_by_label("Your word for mask 1").fill("rom")
    ada.get_by_label("Your word for mask 1").fill("Juliet")
    ada.locator("#class-guess").click()
    expect_seen(ada.locator(".class-histogram"), "juliet")
    expect_seen(teacher.locator(".class-histogram"), "1 guess")
    expect(bob.locator(".class-histogram")).to_have_count(0)
    expect(bob.get_by_label("Your word for mask 1")).to_have_value("rom")  # what was typed stays
    bob.get_by_label("Your word for mask 1").fill("romeo")
    bob.keyboard.press("Enter")
    expect(bob.locator(".class-histogram tbody tr")).to_have_count(2)
    show(bob, "masked-words", **asked)
    expect(bob.locator("#masked-guesses ol li")).not_to_have_count(0)
    expect(bob.locator("#masked-guesses ol li").first).to_be_hidden()
    expect(bob.locator("#masked-guesses .b-filled")).to_be_hidden()
    expect(ada.locator("#class-bar")).not_to_contain_text("Model")
    teacher.locator("#class-uncover").click()
    late = visit_class()
    for page in (teacher, ada, bob, late):
        right = page.locator(".class-histogram tr.is-own")
        expect(right).to_be_visible()
        expect_seen(right.locator("th"), "juliet")
        expect_seen(right, "hidden")
        expect(right.locator("td").nth(1)).to_have_text("1")  # the room's
        expect(right.locator("td").nth(2)).to_have_text(re.compile("%$"))  # the model's
        expect(page.locator(".class-sentence")).to_be_visible()
        expect(page.get_by_text("The model is Run 1 · Romeo and Juliet, quick, step 20.")).to_be_visible()
    expect_seen(ada.locator(".class-histogram tr.is-own"), "your guess")
    for page in (teacher, bob):
        expect(page.locator("#masked-guesses ol li").first).to_be_visible()
    expect(bob.get_by_label("Guess first")).not_to_be_checked()
    teacher.locator("#class-end").click()
    expect(ada.locator(".class-sentence")).to_have_count(0)


def test_the_board_compares_the_runs(people: tuple[Page, Page, Page], tmp_path: Path) -> None:
    teacher, ada, bob = people
    open_tab(teacher, "Class")
    for name, page, seed in (("Ada", ada, "2"), ("Bob", bob, "1")):
        open_tab(page, "Train")
        page.locator("#seed input").fill(seed)
        change_setting(page, "steps", "20")
        start(page)
        wait_for_status(page, "Finished")
        expect_seen(page.locator("#run-monitor .b-reason"), "hidden words")
        open_tab(page, "Class")
        page.locator("#class-name").fill(name)
        page.locator("#class-share").click()
    rows = teacher.locator(".class-run")
    expect(rows).to_have_count(2)
    expect(rows.locator("td:nth-child(4)")).to_have_text(["2", "1"])  # in the order of sharing
    for drawn in (".legend", ".xtitle", ".ytitle"):
        expect(teacher.locator(f"#class-curves {drawn}")).to_be_visible()
    expect_seen(teacher.locator("#class-curves .legend"), re.compile("Ada.*Bob|Bob.*Ada"))
    expect(teacher.locator("#class-curves .legendtext", has_text="\u2068Ada\u2069")).to_have_count(1)  # not translated
    saved = download(teacher, "#board-csv", tmp_path, "board.csv").splitlines()
    assert len(saved) == 3
    assert saved[0].startswith("name,title,recipe,sentences,seed,rate,step,steps,status,mlm_loss,nsp_loss")
    with teacher.expect_download(lambda each: each.suggested_filename == "board.png"):
        press_save(teacher, "#board-png")
    teacher.locator("#class-clear").click()
    teacher.locator("#class-clear-sure").click()
    expect(rows).to_have_count(0)


def test_links_of_a_class_are_copied_and_lead_to_it(visit_class: Callable[..., Page]) -> None:
    page = visit_class()
    show(page, "masked-words", **FIRST)
    address = page.evaluate("location.port")
    page.wait_for_function("window.Balcony.address")
    joined = page.evaluate("window.Balcony.address")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy-link").click()
    expect(page.locator("#copy-link")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"{joined}#")
    assert "localhost" not in copied
    # The teacher's address in a page that is open already.
    page.evaluate(f"location.hash = '#teacher={TEACHER}'")
    expect(page.locator("#class-send-view")).to_be_visible()
    assert TEACHER not in page.url
    wait_for_question(page, tab="masked-words", hidden="12")
    # Without https a page may copy what is selected.
    page.goto(f"http://0.0.0.0:{address}/")
    # While the page reads the chart library, nothing can see what it says for two seconds.
    expect(page.locator("#run-curves .main-svg").first).to_be_visible()
    assert page.evaluate("window.isSecureContext") is False
    page.locator("#copy-link").click()
    expect(page.locator("#copy-link")).to_have_text("Copied")
    expect(page.locator("#link")).to_be_visible()
    selected = page.locator("#link").evaluate("field => field.value.slice(field.selectionStart, field.selectionEnd)")
    assert selected.startswith("http://0.0.0.0")


def test_a_teacher_who_lowers_the_limits_is_heard_on_every_page(visit_class: Callable[..., Page], service: Any) -> None:
    before = service.limits
    try:
        ada, teacher = visit_class(), visit_class(at=f"#teacher={TEACHER}")
        open_tab(teacher, "Class")
        expect(teacher.locator("#class-steps")).not_to_have_value("")
        teacher.locator("#class-steps").fill("50")
        teacher.locator("#class-steps").blur()
        told, asks = "a run has at most 50 steps", "asks for 50 steps instead of 110"
        for sentence in (told, asks):
            expect(ada.locator("#messages").get_by_text(sentence)).to_be_in_viewport(ratio=1)
        change_setting(ada, "steps", "60")
        refused = "This run would have 60 steps; the limit here is 50."
        expect_seen(ada.locator("#preview"), refused)
        ada.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        ada.locator("#start").click()
        expect(ada.locator("#messages").get_by_text(refused)).to_be_in_viewport(ratio=1)

        late = visit_class()
        expect(late.locator("#messages").get_by_text(asks)).to_be_in_viewport(ratio=1)
        expect(late.locator("#preview")).not_to_contain_text("This run would have")
        show(late, "masked-words", **FIRST, model="x", recipe='{"recipe":"romeo-juliet","seed":"7","settings":{}}')
        expect_seen(late.locator("#link-notice"), "This run would have 110 steps; the limit here is 50.")
        expect(late.locator("#link-notice")).to_be_in_viewport(ratio=1)
        # The runs of the lessons are exempt.
        show(late, "train", lesson="memorising-and-learning", at="1")
        late.locator("#lesson-next").click()
        wait_for_status(late, "Finished")
        expect(late.locator("#run-step")).to_have_text("110 of 110")
        expect(late.locator("#model-step")).to_have_text("step 110")
    finally:
        service.limits = before
