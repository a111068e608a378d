"""In high contrast, where the system gives all colours, bars, maps and what is chosen can still be told apart."""

from collections.abc import Iterator

import pytest
from browser_steps import FIRST, TAB_RECORDS, show
from playwright.sync_api import Page, expect

# What a tab shows when it is ready, where that is not its first view.
READY = {
    "train": "#run-curves",
    "masked-words": "#masked-guesses h3",
    "next-sentence": "#next-verdict .b-verdict",
    "attention": ".b-head",
    "words-in-context": "#context-cosine .b-map",
    "step-by-step": "#steps h3",
}
LOOK = "['backgroundColor', 'backgroundImage', 'outlineStyle', 'outlineWidth', 'borderTopStyle', 'textDecorationLine']"
# What is chosen and looks as its neighbours do, bars as their track, and colours of a legend as the next one.
ALIKE = (
    "() => { const look = (each) => JSON.stringify("
    + LOOK
    + """.map((name) => getComputedStyle(each)[name]));
    const seen = (selector) => [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility());
    const alike = [];
    for (const name of ['aria-pressed', 'aria-selected', 'aria-current']) {
        for (const chosen of seen(`[${name}]:not([${name}=false])`)) {
            const others = [...chosen.parentElement.children].filter((each) => each.tagName === chosen.tagName
                && each !== chosen && each.getAttribute(name) !== chosen.getAttribute(name));
            if (others[0] && look(others[0]) === look(chosen)) alike.push(chosen.outerHTML.slice(0, 120));
        }
    }
    for (const fill of seen('.b-bar-fill')) {
        const [ink, track] = [fill, fill.parentElement].map((each) => getComputedStyle(each).backgroundColor);
        if (ink === track) alike.push(fill.parentElement.outerHTML.slice(0, 120));
    }
    for (const legend of seen('.b-legend')) {
        const dots = [...legend.querySelectorAll('.b-dot')].map((dot) => getComputedStyle(dot).backgroundColor);
        if (new Set(dots).size < dots.length) alike.push(legend.outerHTML.slice(0, 120));
    }
    return alike; }"""
)


@pytest.fixture
def page(shared: Page) -> Iterator[Page]:
    yield shared
    shared.emulate_media(forced_colors="none", color_scheme="light")  # other tests have the same browser tab


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_chosen_bars_and_legends_differ(page: Page, complaints: list[str], scheme: str) -> None:
    page.emulate_media(forced_colors="active", color_scheme=scheme)  # type: ignore[arg-type]
    alike = {}
    for tab in (each.name for each in TAB_RECORDS):
        show(page, tab, **FIRST)
        expect(page.locator(READY.get(tab, f"#tab-{tab} .b-view > *:visible")).first).to_be_visible()
        alike[tab] = page.evaluate(ALIKE)
    assert {tab: found for tab, found in alike.items() if found} == {}
