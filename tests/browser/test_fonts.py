"""Letters follow the size that a browser has, and tabs fit."""

import re

import pytest
from browser_steps import FIRST, TAB_RECORDS, VIEWPORT, expect_seen, open_tab, show, start, wait_for_status
from playwright.sync_api import Page, expect


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Page:
    return shared


@pytest.mark.parametrize("language", ["en", "zh-CN", "ko"])
def test_all_tabs_and_two_more_fit_into_a_small_window(page: Page, language: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    page.locator("#language").select_option(language)
    expect(page.locator("html")).to_have_attribute("lang", language)
    places = [page.locator(f"#tab-{tab.name}-button").bounding_box() for tab in TAB_RECORDS]
    assert len({place["y"] for place in places}) == 1
    ends = [place["x"] + place["width"] for place in places]
    widest = max(place["width"] for place in places)
    page.locator("#language").select_option("en")
    assert max(ends) + 2 * widest < 1280


@pytest.mark.parametrize(("width", "height", "size"), [(1366, 768, "200%"), (390, 844, "100%")])
def test_every_tab_is_in_sight_in_a_narrow_window_and_with_large_letters(
    page: Page, width: int, height: int, size: str
) -> None:
    open_tab(page, "Train")
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("size => { document.documentElement.style.fontSize = size; scrollTo(0, 0); }", size)
    for tab in TAB_RECORDS:
        expect_seen(page.locator(f"#tab-{tab.name}-button"), tab.title, in_window=True)
    expect(page.locator("#start")).to_be_in_viewport(ratio=1)
    page.evaluate("document.documentElement.style.fontSize = ''")


@pytest.mark.parametrize(("width", "size"), [(1366, "200%"), (950, "100%"), (390, "100%")])
def test_the_guesses_of_a_run_have_room(page: Page, width: int, size: str) -> None:
    page.set_viewport_size({"width": width, "height": 768})
    open_tab(page, "Train")
    if not page.locator("#run-guesses tbody tr").count():
        start(page)
        wait_for_status(page, "Finished")
    page.evaluate("size => { document.documentElement.style.fontSize = size; }", size)
    guesses = page.locator("#run-guesses tbody tr").first
    expect_seen(guesses, "First right at step")
    page.locator("#run-guesses").evaluate("table => table.scrollIntoView()")
    expect_seen(guesses.locator("td").first, re.compile("Romeo"), in_window=True)
    found = guesses.evaluate(
        """row => {
            const [sentence, guess, , mark] = [...row.cells].map((cell) => cell.getBoundingClientRect());
            const letter = parseFloat(getComputedStyle(row).fontSize), frame = row.closest(".b-guess-frame");
            const isApart = guess.left >= sentence.right || guess.top >= sentence.bottom - 1;
            return [sentence.width > 8 * letter, isApart, mark.right <= frame.getBoundingClientRect().right + 1];
        }"""
    )
    page.evaluate("document.documentElement.style.fontSize = ''")
    assert found == [True, True, True]


def test_letters_are_twice_as_large_where_the_browser_s_font_size_is(page: Page) -> None:
    page.set_viewport_size(VIEWPORT)  # an earlier test may have changed it
    show(page, "attention", **FIRST)
    parts = ["#title", "#tabs [role=tab]", "#start", "#preview-line", "#attention-map svg text", ".b-chips button"]
    sizes = """parts => parts.map((part) =>
        parseFloat(getComputedStyle(document.querySelector(part)).fontSize))"""
    expect(page.locator("#attention-map svg text").first).to_be_visible()
    usual = page.evaluate(sizes, parts)
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    page.evaluate("dispatchEvent(new Event('resize'))")
    expect(page.locator("#attention-map svg text").first).not_to_have_css("font-size", f"{usual[4]}px")
    for part, size in zip(parts, usual, strict=True):
        if "svg" not in part:  # those of the map become as large as it has room for
            expect(page.locator(part).first).to_have_css("font-size", f"{2 * size:g}px")  # some change gradually
    large = page.evaluate(sizes, parts)
    page.evaluate("document.documentElement.style.fontSize = ''")
    assert large[4] > usual[4]


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 844)])
def test_no_word_of_a_long_sentence_is_out_of_sight_in_large_letters(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    show(page, "masked-words", text=" ".join(["Hello Romeo how are you I am Juliet"] * 3), pair="", hidden="12")
    words, last = page.locator(".b-chips").first, page.locator(".b-chips").first.get_by_role("button").last
    expect(last).to_have_css("font-size", "28px")
    last.scroll_into_view_if_needed()
    expect_seen(last, "Juliet", in_window=True)
    unseen = words.evaluate("each => each.scrollHeight - each.clientHeight")
    page.evaluate("document.documentElement.style.fontSize = ''")
    assert unseen == 0
