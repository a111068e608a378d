"""After a lost connection, in a hidden tab, in two tabs, after a reload: the same run, each point once."""

from collections.abc import Callable

from browser_steps import (
    assert_curve_is_whole,
    change_setting,
    expect_seen,
    points,
    start,
    wait_for_points,
    wait_for_status,
    wait_for_visitor,
    wait_until,
)
from playwright.sync_api import Page, expect

from balcony.server.news import DEAD

ENDLESS = "500000"
ATTEMPTS = 2  # requests that fail before the connection is back
GOES_ON = "before => document.querySelector('#run-step').innerText !== before"


def stop(page: Page) -> None:
    page.locator("#stop").click()
    wait_for_status(page, "Stopped")


def step(page: Page) -> str:
    return page.locator("#run-step").inner_text()


def hide(page: Page, state: str) -> None:
    """Make the page believe that its tab is hidden, or visible again."""
    page.evaluate(
        """state => {
            Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });
            document.dispatchEvent(new Event('visibilitychange'));
        }""",
        state,
    )


def test_a_server_that_trains_no_more_says_so(page: Page, complaints: list[str]) -> None:
    change_setting(page, "steps", ENDLESS)
    start(page)
    page.route("**/balcony/ask", lambda route: route.abort())
    page.route("**/health", lambda route: route.fulfill(status=503, json={"status": "...", "error": DEAD}))
    expect_seen(page.locator("#messages .b-view"), DEAD)
    expect_seen(page.locator("#run-monitor .b-reason").first, DEAD)
    page.unroute_all()
    wait_for_status(page, "Training")
    stop(page)
    complaints.clear()


def test_a_run_continues_while_the_connection_is_lost(visit: Callable[[], Page], complaints: list[str]) -> None:
    page, other = visit(), visit()
    change_setting(page, "steps", ENDLESS)
    start(page)
    wait_for_points(page, 5)
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.context.set_offline(True)
    expect(page.locator("#run-status")).to_have_text("Connection lost")
    before, at = points(page), step(page)
    # Meanwhile the service trains: another visitor's run ends.
    change_setting(other, "steps", "60")
    start(other)
    wait_for_status(other, "Finished")
    wait_until(page, lambda: len(failed) >= ATTEMPTS)
    assert (points(page), step(page)) == (before, at)
    expect(page.locator("#run-status")).to_have_text("Connection lost")
    page.context.set_offline(False)
    wait_for_status(page, "Training")
    page.wait_for_function(GOES_ON, arg=at)
    wait_for_points(page, before + 3)
    stop(page)
    assert_curve_is_whole(page)
    complaints[:] = [text for text in complaints if "ERR_INTERNET_DISCONNECTED" not in text]


def test_a_hidden_tab_stops_asking_and_catches_up_as_a_reloaded_one_does(
    page: Page, visit: Callable[..., Page]
) -> None:
    wait_for_visitor(page)
    other = visit(page.context)
    change_setting(page, "steps", ENDLESS)
    start(page)
    wait_for_points(other, 3)
    hide(page, "hidden")
    for _ in range(5):  # answers to earlier requests still arrive
        before = points(page)
        wait_for_points(other, points(other) + 10)
        if points(page) == before:
            break
    assert points(page) == before
    at = step(page)
    assert step(other) != at
    hide(page, "visible")
    page.wait_for_function(GOES_ON, arg=at)
    other.reload()
    wait_for_status(other, "Training")
    wait_for_points(other, 5)
    stop(other)
    wait_for_status(page, "Stopped")
    for tab in (page, other):
        assert_curve_is_whole(tab)


def test_a_page_whose_server_has_lost_its_runs_says_so(page: Page) -> None:
    change_setting(page, "steps", "5")
    start(page)
    wait_for_status(page, "Finished")
    # A server that has restarted knows no visitor.
    page.evaluate("for (const name of ['visitor', 'trained']) localStorage.setItem(`balcony-${name}`, 'f'.repeat(32))")
    page.reload()
    gone = page.locator(".b-message", has_text="Your earlier runs and models are gone.")
    for _ in range(2):  # it stands until it is closed
        expect_seen(gone, "When the server restarts", in_window=True)
        page.reload()
        wait_for_visitor(page)
    gone.get_by_role("button").click()
    page.reload()
    wait_for_visitor(page)
    expect(page.locator("#question .b-view")).not_to_have_attribute("aria-busy", "true")
    expect(gone).to_have_count(0)
