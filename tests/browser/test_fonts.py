"""The words of a saved picture keep their places with any fonts."""

import pytest
from browser_steps import FIRST, picture, show
from playwright.sync_api import Page, expect


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Page:
    return shared


def test_a_saved_picture_keeps_its_places_with_other_fonts(page: Page) -> None:
    show(page, "attention", **FIRST)
    expect(page.locator("#attention-map svg text").first).to_be_visible()
    text = picture(page, "#attention-download-png", "attention.png")
    widths = """([text, family]) => {
        const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
        document.body.append(root);
        for (const part of root.querySelectorAll("text")) part.style.fontFamily = family;
        const found = [...root.querySelectorAll("text")].map((each) => each.getBBox().width);
        root.remove();
        return found;
    }"""
    own, other = (page.evaluate(widths, [text, family]) for family in ("sans-serif", "monospace"))
    assert len(own) > 20
    assert own == pytest.approx(other, abs=1)
