"""Accessibility: axe-core finds nothing serious in any of our own views."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_steps import change_setting, open_tab, press_save, start, wait_for_status
from playwright.sync_api import Page, expect

GRAVE = ("serious", "critical")
# An element that exists only once the server has answered the tab.
ANSWERED = {
    "Masked words": "#masked-closer table",
    "Next sentence": "#next-matrix .balcony-map svg",
    "Attention": "#attention-switches .balcony-switch",
    "Words in context": "#context-points .points path",
    "Models": "#model-facts dt",
}


def grave(page: Page) -> list[str]:
    """The serious and critical findings in what is ours: views, the time slider among them."""
    found = Axe().run(page, context={"include": [[".balcony-view"]]}).response["violations"]
    return [f"{one['id']}: {node['html'][:160]}" for one in found if one["impact"] in GRAVE for node in one["nodes"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("tab", ANSWERED)
def test_a_tab(page: Page, tab: str, theme: str) -> None:
    if theme == "dark":
        page.evaluate("document.body.classList.add('dark')")
    open_tab(page, tab)
    page.locator(ANSWERED[tab]).first.wait_for()
    assert grave(page) == []


@pytest.mark.parametrize("kind", ["Which words mattered", "Sweep"])
def test_a_closer_view(page: Page, kind: str) -> None:
    open_tab(page, "Masked words")
    page.get_by_role("radio", name=kind).check()
    page.locator("#masked-closer .balcony-seen").first.wait_for()
    if kind == "Sweep":
        page.locator("#masked-closer button").first.click()
    assert grave(page) == []


@pytest.mark.parametrize("mode", ["Lines", "Average"])
def test_a_way_of_drawing_attention(page: Page, mode: str) -> None:
    open_tab(page, "Attention")
    page.locator("#attention-map").get_by_role("tab", name=mode).click()
    press_save(page, "#attention-download-py")
    expect(page.locator("#attention-download pre")).to_be_visible()
    assert grave(page) == []


def test_a_run_and_its_time_slider(page: Page) -> None:
    change_setting(page, "steps", "40")
    start(page)
    wait_for_status(page, "Finished")
    expect(page.locator("#time-slider")).to_be_enabled()
    assert grave(page) == []
