"""One browser is one visitor, whose words stay as they are written; what the page cannot do, it says."""

import re
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from browser_steps import (
    FIRST,
    QUESTIONS,
    TAB_RECORDS,
    Tabs,
    change_setting,
    expect_seen,
    open_tab,
    paste,
    press_save,
    show,
    shown_model,
    start,
    wait_for_question,
    wait_for_status,
    wait_for_visitor,
    wait_until,
    words_of,
)
from playwright.sync_api import Browser, Page, Route, expect

from balcony.frame.tab import Tab

LEASE = 600.0
TOKEN = "localStorage.getItem('balcony-visitor')"
# A word that the page has in Chinese for this test alone: its translation can only stand where a person's word stood.
WORD, CHINESE = "zebra", "斑马"
FOUND = f"""() => [...document.querySelectorAll("*")].flatMap((each) => [
    ...[...each.attributes].map(({{ name, value }}) => [name, value]),
    ...[...each.childNodes].filter((node) => node instanceof Text).map((node) => ["text", node.data])])
    .filter(([, text]) => text.includes("{CHINESE}"))"""

SHOWN = f"""async () => {{
    const box = document.body.appendChild(document.createElement("p"));
    box.textContent = "{WORD}";
    await null;
    await null;
    box.remove();
    return box.textContent;
}}"""


@pytest.fixture(scope="module")
def served(tabs: Tabs, service: Any, shipped: Path) -> Iterator[tuple[Tabs, Any]]:
    """A server with leases, and the workspaces of its visitors."""
    import balcony.app

    found = []
    opened, balcony.app.open_workspaces = (
        balcony.app.open_workspaces,
        lambda *some, **named: found.append(opened(*some, **named)) or found[-1],
    )
    app, url, _ = balcony.launch(
        service, shipped=[shipped], lease=LEASE, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True
    )
    balcony.app.open_workspaces = opened
    yield Tabs(tabs.browser, url), found[0]
    app.get_blocks().close(verbose=False)


def forget(workspaces: Any) -> None:
    """What a restart, and the end of a lease, do to visitors."""
    workspaces._spaces.clear()


def train(page: Page, steps: str = "20") -> None:
    change_setting(page, "steps", steps)
    start(page)
    wait_for_status(page, "Finished")


def test_tabs_that_are_opened_at_once_are_one_visitor(served: tuple[Tabs, Any], browser: Browser) -> None:
    profile = browser.new_context()
    held: list[Route] = []
    profile.route(QUESTIONS, lambda route: held.append(route))
    pages = [profile.new_page(), profile.new_page()]
    for page in pages:
        page.goto(served[0].address)
    # Both ask for a visitor.
    wait_until(pages[0], lambda: sum('"data":[null]' in (route.request.post_data or "") for route in held) == 2)
    while held:
        held.pop(0).continue_()
        pages[0].wait_for_timeout(100)
    profile.unroute(QUESTIONS)
    for number, page in enumerate(pages, 1):
        wait_for_visitor(page)
        train(page)
        for each in pages:  # both show the new run, not the finished one before it
            expect(shown_model(each)).to_have_text(f"Run {number} · Romeo and Juliet, quick")
    pages[0].reload()
    wait_for_status(pages[0], "Finished")
    expect(shown_model(pages[0])).to_have_text("Run 2 · Romeo and Juliet, quick")
    assert pages[0].evaluate(TOKEN) == pages[1].evaluate(TOKEN)
    profile.close()


def test_tabs_that_outlive_the_server_are_one_visitor(served: tuple[Tabs, Any], complaints: list[str]) -> None:
    with served[0].visits() as visit:
        first = visit()
        wait_for_visitor(first)
        second = visit(first.context)
        before = first.evaluate(TOKEN)
        forget(served[1])
        train(first)
        assert first.evaluate(TOKEN) != before
        expect(shown_model(second)).to_have_text("Run 1 · Romeo and Juliet, quick")
        train(second)
        for page in (first, second):
            expect(shown_model(page)).to_have_text("Run 2 · Romeo and Juliet, quick")
        first.reload()
        wait_for_status(first, "Finished")
        expect(shown_model(first)).to_have_text("Run 2 · Romeo and Juliet, quick")


# All tabs ask in one way; Compare asks by itself.
@pytest.mark.parametrize(
    "tab", [tab for tab in TAB_RECORDS if tab.name in ("masked-words", "compare")], ids=attrgetter("name")
)
def test_after_the_end_of_a_lease_the_page_goes_back_to_a_model_that_exists(
    served: tuple[Tabs, Any], complaints: list[str], tab: Tab
) -> None:
    with served[0].visits() as visit:
        page = visit()
        train(page)
        expect(shown_model(page)).to_have_text("Run 1 · Romeo and Juliet, quick")
        show(page, tab.name, **FIRST, model=page.evaluate("new URLSearchParams(location.hash.slice(1)).get('model')"))
        forget(served[1])
        if tab.press:
            words_of(page).nth(1).click()
        else:
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        notice = page.locator("#link-notice")
        expect(notice).to_be_in_viewport()
        expect(notice).to_have_text(
            "Run 1 · Romeo and Juliet, quick is gone. When the server restarts, your runs and models are lost. The "
            "same happens 3 hours after your last visit. The page shows a model that comes with Balcony. ×"
        )
        expect(shown_model(page)).to_have_text("romeo-juliet")
        expect(page.locator(f"#tab-{tab.name} [role=alert]:visible, #question [role=alert]:visible")).to_have_count(0)
        if tab.press:
            expect(words_of(page).nth(1)).to_have_attribute("aria-pressed", "true")
        notice.get_by_role("button", name="Close").click()
        expect(notice).to_be_hidden()


def test_a_page_without_a_server_says_for_how_long_its_run_goes_on(page: Page, complaints: list[str]) -> None:
    change_setting(page, "steps", "500000")
    start(page)
    page.context.set_offline(True)
    expect(page.locator("#run-status")).to_have_text("Connection lost")
    expect_seen(page.locator("#run-monitor .b-reason"), "on a server for many, it pauses after 10 minutes.")
    page.context.set_offline(False)
    # If Gradio lost a request too, it says so, and takes no press until it has loaded the page again.
    expect(page.get_by_text("Attempting reconnection")).to_have_count(0)
    wait_for_status(page, "Training")
    page.locator("#stop").click()
    wait_for_status(page, "Stopped")
    complaints[:] = [text for text in complaints if "ERR_INTERNET_DISCONNECTED" not in text]


def test_where_news_are_blocked_the_page_says_so(page: Page, complaints: list[str]) -> None:
    page.route("**/balcony/ask", lambda route: route.abort("blockedbyclient"))
    change_setting(page, "steps", "20")
    page.locator("#start").click()
    reason = page.locator("#run-monitor .b-reason")
    expect_seen(reason, "blocks /balcony/ask", in_window=True)
    page.unroute_all()
    wait_for_status(page, "Finished")
    expect(reason).not_to_contain_text("blocks")
    complaints[:] = [text for text in complaints if "ERR_BLOCKED_BY_CLIENT" not in text]


def test_without_the_chart_library_the_page_says_so(page: Page, complaints: list[str]) -> None:
    page.route("**/plotly.min.js", lambda route: route.abort("blockedbyclient"))
    page.reload()
    train(page)
    expect(page.locator("#run-curves")).to_contain_text("The chart library did not load, so there is no chart.")
    expect(page.locator("#run-curves [role=alert]")).to_be_in_viewport()
    press_save(page, "#curves-png")
    expect_seen(page.locator("#messages").get_by_role("alert"), "The chart library did not load", in_window=True)
    show(page, "masked-words", **FIRST, view="explained")
    expect(page.locator("#masked-closer [role=alert]")).to_be_visible()
    page.unroute_all()
    page.reload()
    expect(page.locator("#masked-closer .js-line").first).to_be_visible()
    open_tab(page, "Train")
    page.wait_for_function("document.querySelector('#run-curves')?.data?.length")
    expect(page.locator("#run-curves [role=alert]")).to_have_count(0)
    complaints.clear()


def test_an_unknown_lesson_is_named(visit: Callable[..., Page]) -> None:
    page = visit(at="#lesson=nosuch")
    expect(page.locator("#lesson [role=alert]")).to_contain_text("There is no lesson 'nosuch'")
    expect(page.locator("#lesson [role=alert]")).to_be_in_viewport()


def test_in_a_frame_a_link_that_cannot_be_copied_is_shown(page: Page, tabs: Tabs) -> None:
    page.route(
        "**/framing",
        lambda route: route.fulfill(
            body=f'<iframe src="{tabs.address}" allow="" width="1500" height="800"></iframe>', content_type="text/html"
        ),
    )
    page.goto(f"{tabs.address}framing")
    frame = page.frame_locator("iframe")
    expect(frame.locator("#run-curves .main-svg").first).to_be_visible()  # else it may say "Copied" unseen
    frame.locator("body").evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed')); }"
    )
    frame.locator("#copy-link").click()
    expect(frame.locator("#copy-link")).to_have_text("Copied")
    expect(frame.locator("#link")).to_be_visible()
    expect(frame.locator("#link")).to_have_value(re.compile(f"^{re.escape(tabs.address)}"))
    assert frame.locator("#link").evaluate("field => field.selectionEnd - field.selectionStart") > len(tabs.address)
    # Nothing moves away under the press that closes it.
    frame.get_by_role("tab", name="Masked words").click()
    expect(frame.locator("#link")).to_be_hidden()
    expect(frame.locator("#masked-guesses li").first).to_be_visible()


def test_files_are_saved_from_where_the_page_is(visit: Callable[..., Page], tabs: Tabs, tmp_path: Path) -> None:
    page = visit()
    # A proxy that does not say how the page was asked for: the server writes addresses that lead elsewhere.
    page.set_extra_http_headers({"X-Forwarded-Host": "elsewhere.invalid"})
    show(page, "masked-words", **FIRST)
    expect(page.locator("#masked-guesses section")).to_have_count(1)
    for button, name in (("#masked-download-csv", "guesses.csv"), ("#download", "romeo-juliet.zip")):
        if button == "#download":
            open_tab(page, "Models")
        with page.expect_download() as waiting:
            press_save(page, button) if button != "#download" else page.locator(button).click()
        assert waiting.value.suggested_filename.endswith(name)
        assert waiting.value.url.removeprefix("blob:").startswith(tabs.address)
        assert Path(waiting.value.path()).stat().st_size > 100
    page.set_extra_http_headers({})


def compose(page: Page, text: str) -> None:
    """Half a word of an input method, in the field with the focus; "" takes it away."""
    session = page.context.new_cdp_session(page)
    session.send("Input.imeSetComposition", {"text": text, "selectionStart": len(text), "selectionEnd": len(text)})


def confirm(page: Page, key: str, text: str) -> None:
    """The input method takes a key for itself, and then writes its word."""
    session = page.context.new_cdp_session(page)
    for kind in ("rawKeyDown", "keyUp"):
        session.send("Input.dispatchKeyEvent", {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": 229})
    session.send("Input.insertText", {"text": text})


def test_an_input_method_has_its_keys_and_half_a_word_is_never_sent(page: Page) -> None:
    train(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.post_data or ""))
    page.locator("#model-rename").click()
    name = page.locator("#model-name")
    name.fill("")
    compose(page, "ni hao")
    confirm(page, "Enter", "你好")
    expect(name).to_be_visible()
    expect(name).to_have_value("你好")
    name.press("Enter")
    expect(shown_model(page)).to_have_text("你好")
    show(page, "masked-words", **FIRST)
    expect(page.locator("#masked-guesses section")).to_have_count(1)
    page.locator("#edit-text").click()
    editor = page.locator("#sentence-text")
    editor.fill("")
    page.wait_for_timeout(500)
    compose(page, "zhong wen")
    page.wait_for_timeout(800)
    confirm(page, "Escape", "中文")
    expect(editor).to_be_visible()
    wait_for_question(page, text="中文")
    editor.press("Enter")
    show(page, "train")
    paste(page, "")
    page.locator("#pasted textarea").focus()
    compose(page, "han zi")
    page.wait_for_timeout(800)
    confirm(page, "Enter", "汉字")
    expect(page.locator("#pasted textarea")).to_have_value("汉字")
    wait_until(page, lambda: any("汉字" in body for body in asked))
    assert [body for body in asked if re.search("ni hao|zhong wen|han zi", body)] == []


@pytest.fixture
def chinese(visit: Callable[..., Page]) -> Page:
    """A page that has the word in Chinese."""

    def with_word(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), WORD: CHINESE})

    page = visit()
    page.route("**/locales/zh.json", with_word)
    page.locator("#language").select_option("zh-CN")
    expect(page.locator("#start")).to_have_text("开始")
    assert page.evaluate(SHOWN) == CHINESE, "or the test could not fail"
    return page


def test_what_a_person_wrote_is_never_translated(chinese: Page, tmp_path: Path) -> None:
    page, text = chinese, tmp_path / f"{WORD}.txt"
    text.write_text(f"{WORD}\n{WORD} {WORD}\n{WORD}, {WORD} step 3\n" * 3)
    page.locator("#source input").nth(2).check()
    page.locator("#uploaded input[type=file]").set_input_files(text)
    expect(page.locator("#preview")).to_contain_text(WORD)
    for name in ("", WORD):
        page.locator("#setting-steps input").fill("20") if page.locator("#setting-steps input").is_visible() else None
        page.locator("#start").click()
        expect(page.locator("#run-status")).to_have_text("已完成")
        if name:
            page.locator("#model-rename").click()
            page.locator("#model-name").fill(name)
            page.locator("#model-name").press("Enter")
        expect(shown_model(page)).to_have_text(name or f"运行 1 · {WORD}")
    assert page.evaluate(FOUND) == []
    model = page.evaluate("new URLSearchParams(location.hash.slice(1)).get('model')")
    asked = {"text": f"{WORD} {WORD}", "pair": WORD, "hidden": "1", "model": model}
    drawn = {
        "compare": "#runs-list table",
        "masked-words": "#masked-closer table",
        "next-sentence": "#next-matrix .b-map svg",
        "attention": "#attention-map .b-map svg",
        "words-in-context": "#context-cosine .b-map svg",
        "step-by-step": "#steps h3",
        "models": "#model-facts dl",
    }
    for tab, element in drawn.items():
        show(page, tab, **asked, **({"other": "romeo-juliet"} if tab in ("masked-words", "next-sentence") else {}))
        expect(page.locator(element).first).to_be_visible()
        if tab == "compare":
            page.locator("#runs-table input:enabled").first.check()
            expect(page.locator("#other-curves .main-svg").first).to_be_visible()
        page.wait_for_timeout(700)
        assert page.evaluate(FOUND) == [], tab
        assert WORD in page.locator("body").inner_text()
