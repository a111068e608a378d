"""The page in a frame of another site, as on a Space: with storage blocked, and in a frame as tall as its content."""

from collections.abc import Iterator
from contextlib import contextmanager

from browser_steps import FIRST, Tabs, expect_seen, show
from playwright.sync_api import FrameLocator, Page, ViewportSize, expect

LOADS = 2
PHONE: ViewportSize = {"width": 390, "height": 844}
# As a browser in private mode refuses storage to a frame of another site.
BLOCKED = """if (top !== window) for (const name of ['localStorage', 'sessionStorage'])
    Object.defineProperty(window, name, {
        configurable: true, get() { throw new DOMException('Denied', 'SecurityError'); } });"""


@contextmanager
def framed(tabs: Tabs, viewport: ViewportSize, style: str) -> Iterator[tuple[Page, FrameLocator]]:
    """A page of another site, and the app in its frame, which has no storage."""
    context = tabs.browser.new_context(viewport=viewport)
    try:
        context.add_init_script(BLOCKED)
        page = context.new_page()
        page.on("pageerror", lambda error: tabs.complaints.append(str(error)))
        page.goto(tabs.address.replace("127.0.0.1", "localhost") + "health")  # another site
        page.set_content(f"<title>Outside</title><iframe style='border: 0; {style}' src='{tabs.address}'></iframe>")
        yield page, page.frame_locator("iframe")
    finally:
        context.close()


def test_without_storage_the_page_loads_trains_and_answers(tabs: Tabs, complaints: list[str]) -> None:
    with framed(tabs, {"width": 1600, "height": 900}, "width: 1580px; height: 880px") as (page, app):
        for _ in range(LOADS):
            page.frames[1].goto(tabs.address)
            expect(app.locator("#start")).to_be_enabled()
        told = app.get_by_text("gives this page no storage. A reload keeps your runs")
        expect(told).to_have_count(1)
        expect(told).to_be_in_viewport()
        app.locator("#start").click()
        expect(app.locator("#run-status")).to_have_text("Finished")
        app.get_by_role("button", name="Close this message").click()
        expect(told).to_have_count(0)
        app.get_by_role("tab", name="Masked words").click()
        app.locator("#question .b-word").first.click()
        expect(app.locator("#masked-guesses h3").first).to_be_visible()
        frame = page.frames[1]
        frame.wait_for_function("new URLSearchParams(location.hash.slice(1)).get('model')?.length === 32")
        app.get_by_role("tab", name="Train").click()
        frame.evaluate("location.hash += '&seed=5'")  # a new entry of the history
        frame.evaluate("location.reload()")
        expect(app.locator("#run-status")).to_have_text("Finished")
        assert complaints == []


def test_a_frame_that_may_not_ask_its_server_says_so(tabs: Tabs) -> None:
    context = tabs.browser.new_context()
    try:
        page = context.new_page()
        page.goto(tabs.address.replace("127.0.0.1", "localhost") + "health")
        page.set_content(f"<title>Outside</title><iframe sandbox='allow-scripts' src='{tabs.address}'></iframe>")
        said = page.frame_locator("iframe").get_by_role("alert")
        expect_seen(said, "allow-same-origin")
        expect(said.get_by_role("link")).to_have_attribute("href", tabs.address)
    finally:
        context.close()


def test_in_a_frame_as_tall_as_its_page_start_and_refusals_are_in_sight(tabs: Tabs, complaints: list[str]) -> None:
    with framed(tabs, PHONE, "width: 370px; height: 2600px") as (_, app):
        expect(app.locator("#start")).to_be_enabled()
        expect(app.locator("#start")).to_be_in_viewport(ratio=1)
        app.get_by_role("button", name="Close this message").click()
        app.get_by_role("button", name="Change the learning rate").click()
        refused = app.locator("#messages").get_by_role("alert")
        for _ in range(2):  # the same sentence comes again
            app.locator("#change-rate").click()
            expect(refused).to_have_text("There is no run yet; press Start.")
            expect(refused).to_be_in_viewport(ratio=1)
            app.get_by_role("button", name="Close this message").click()
            expect(refused).to_have_count(0)


def test_on_a_phone_the_buttons_stay_and_a_strip_leaves_swipes_to_the_page(tabs: Tabs, complaints: list[str]) -> None:
    context = tabs.browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    try:
        page = context.new_page()
        page.goto(tabs.address)
        expect(page.locator("#start")).to_be_enabled()
        page.locator("#run-guesses, .b-guess-frame").first.scroll_into_view_if_needed()
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        expect(page.locator("#start")).to_be_in_viewport(ratio=1)
        show(page, "step-by-step", **FIRST, stage="embeddings", token="1")
        strip = page.locator("#steps .b-strip canvas").first
        expect(strip).to_have_css("touch-action", "pan-y pinch-zoom")  # a finger that goes up or down scrolls the page
    finally:
        context.close()
