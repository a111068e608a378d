"""A laptop and a keyboard are enough: results on screen without scrolling, nothing jumps, no mouse."""

from collections.abc import Callable
from urllib.parse import urlencode

from browser_steps import FIRST, change_setting, expect_seen, move_slider, show, wait_for_status, words_of
from playwright.sync_api import Page, ViewportSize, expect

LAPTOP: ViewportSize = {"width": 1280, "height": 720}
MOST_SHIFT = 0.05
MOST_KEYS = 60
# Of each tab: what a person comes for, which is there once the server has answered.
RESULTS = {
    "masked-words": "#masked-guesses section",
    "next-sentence": "#next-verdict .b-ends",
    "attention": "#attention-heads .b-heads",
    "words-in-context": "#context-facts dl",
    "models": "#model-facts dl",
    "batch": "#batch .b-batch-summary",
    "compare": "#runs-list .b-empty",
    "fine-tune": "#task-facts dl",
    "step-by-step": "#steps h3",
    "train": "#run-curves",
}
SHIFTS = """window.shift = 0;
new PerformanceObserver((list) => {
    for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) window.shift += value;
}).observe({ type: "layout-shift", buffered: true });"""


def test_results_are_on_screen_and_nothing_jumps(visit: Callable[..., Page]) -> None:
    page = visit()
    page.set_viewport_size(LAPTOP)
    page.evaluate(SHIFTS)
    jumps, outside = {}, {}
    for tab, result in RESULTS.items():
        page.evaluate("shift = 0")
        show(page, tab, **FIRST)
        shown = page.locator(result).first
        expect(shown).to_be_visible()
        page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
        jumps[tab] = page.evaluate("shift")
        box = shown.bounding_box()
        assert box is not None
        if box["y"] < 0 or box["y"] + box["height"] > LAPTOP["height"]:
            outside[tab] = (box["y"], box["y"] + box["height"])
    # The first page of a visitor who opens a link.
    page.add_init_script(SHIFTS)
    page.goto("about:blank")
    page.goto(f"{visit.__self__.address}#{urlencode({'tab': 'masked-words', **FIRST})}")  # type: ignore[attr-defined]
    expect(page.locator(RESULTS["masked-words"]).first).to_be_visible()
    assert page.evaluate("shift") <= MOST_SHIFT
    assert outside == {}
    assert {tab: shift for tab, shift in jumps.items() if shift > MOST_SHIFT} == {}


def press_until_focused(page: Page, part: str, key: str = "Tab") -> None:
    """Press a key until a part of the page has the focus."""
    for _ in range(MOST_KEYS):
        if page.evaluate("part => document.activeElement.matches(part)", part):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{MOST_KEYS} keys do not reach {part}")


def test_the_keyboard_trains_hides_a_word_and_reads_a_head(page: Page) -> None:
    change_setting(page, "steps", "20")
    page.locator("body").press("Escape")
    press_until_focused(page, "#start", "Shift+Tab")
    page.keyboard.press("Enter")
    wait_for_status(page, "Finished")
    press_until_focused(page, "#tab-masked-words-button", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(words_of(page)).to_have_count(17)
    press_until_focused(page, ".b-word")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    expect(page.locator("#masked-guesses h3")).to_have_text(["Mask 1 for how", "Mask 2 for Juliet"])
    press_until_focused(page, ".b-guess button")
    expect_seen(page.locator(".b-card").first, "The arrow keys go from word to word.", in_window=True)
    page.keyboard.press("ArrowDown")
    expect(page.locator(".b-card").first.locator("li").nth(1).get_by_role("button").last).to_be_focused()
    page.keyboard.press("Tab")  # a card is one stop
    expect(page.locator(".b-card").nth(1).get_by_role("button").first).to_be_focused()
    press_until_focused(page, "#tab-attention-button", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#attention-map .b-map-title")).to_have_text("Layer 1, head 1")
    press_until_focused(page, ".b-head")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#attention-map .b-map-title")).to_have_text("Layer 2, head 2")
    expect(page.locator(".b-head:focus")).to_have_attribute("aria-pressed", "true")


def test_the_verdict_of_a_run_stands_beside_its_status_with_what_to_do_next(visit: Callable[..., Page]) -> None:
    page = visit()
    verdict, further = page.locator("#run-monitor .b-reason"), page.locator("#go-on.b-next")
    page.set_viewport_size({"width": 1600, "height": 900})  # the form is open
    change_setting(page, "steps", "3")
    page.set_viewport_size({"width": 1366, "height": 657})
    page.locator("#start").click()
    wait_for_status(page, "Finished")
    expect_seen(verdict, "It fills in ")
    expect(verdict).to_be_in_viewport(ratio=1)
    expect(further).to_have_text("Train 3 more steps")
    expect(further).to_be_in_viewport(ratio=1)
    said = verdict.inner_text()
    move_slider(page, 0)
    expect(page.locator("#exam details p").first).to_have_text("Exam at step 0")
    expect(verdict).to_have_text(said)
    page.locator("#model-picker").select_option("romeo-juliet")
    page.locator("#go-on").click()
    expect(verdict).not_to_have_text(said)
    wait_for_status(page, "Finished")
    expect_seen(page.locator("#run-of"), "the model chosen above is another one")
    expect_seen(verdict, "It fills in ")
