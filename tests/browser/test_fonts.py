"""With any fonts, no words of the page lie on others or are cut, and those of a saved picture keep their places."""

from pathlib import Path

import pytest
from browser_steps import FIRST, change_setting, press_save, show, start, wait_for_status
from playwright.sync_api import Page, ViewportSize, expect

LAPTOP: ViewportSize = {"width": 1366, "height": 657}
RESULTS = {  # of each tab: what is there once the server has answered
    "train": "#run-curves .xtick text",
    "compare": "#runs-list tbody td",
    "masked-words": "#masked-guesses section",
    "next-sentence": "#next-matrix svg text",
    "attention": "#attention-map svg text",
    "words-in-context": "#context-facts dl",
    "fine-tune": "#task-samples li",
    "models": "#model-facts dl",
    "step-by-step": "#steps h3",
}
# Words outside of what holds them, words of one picture on each other, and what is wider than the page.
FAULTS = """() => {
    const found = [], page = document.documentElement;
    const named = (part) => `${part.outerHTML.split(">")[0]}> ${part.textContent.slice(0, 30)}`;
    if (page.scrollWidth > innerWidth) found.push(`the page has ${page.scrollWidth} px`);
    for (const part of document.querySelectorAll("button, label, th, td, dd, dt, summary, h2, h3, p, li")) {
        const { overflowX, textOverflow, display, clipPath } = getComputedStyle(part);
        if (!part.offsetWidth || display === "inline" || clipPath !== "none" || part.matches(".b-unseen, .b-unseen *"))
            continue;
        if (textOverflow !== "ellipsis" && overflowX !== "auto" && part.scrollWidth > part.clientWidth + 1)
            found.push(`out of ${named(part)} (${part.scrollWidth} of ${part.clientWidth})`);
    }
    for (const drawing of document.querySelectorAll(".b-map svg, .js-plotly-plot")) {
        if (!drawing.getBoundingClientRect().width) continue;
        const words = [...drawing.querySelectorAll("text")].filter(
            (each) => each.textContent.trim() && !each.closest(".hoverlayer") && each.getBoundingClientRect().width);
        const boxes = words.map((each) => each.getBoundingClientRect()), whole = drawing.getBoundingClientRect();
        boxes.forEach((a, i) => {
            if (a.left < whole.left - 1 || a.right > whole.right + 1) found.push(`outside ${named(words[i])}`);
            for (let j = i + 1; j < boxes.length; j++) {
                const b = boxes[j];
                const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                if (wide > 2 && high > Math.min(a.height, b.height) / 3 && wide > Math.min(a.width, b.width) / 3)
                    found.push(`${named(words[i])} on ${named(words[j])}`);
            }
        });
    }
    return found;
}"""


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Page:
    return shared


@pytest.mark.parametrize("family", ["DejaVu Serif, serif", "monospace"])
def test_no_words_lie_on_others_or_are_cut(page: Page, family: str) -> None:
    page.set_viewport_size(LAPTOP)
    page.add_style_tag(content=f"* {{ font-family: {family} !important; }}")
    show(page, "train")
    if not page.locator("#run-curves").is_visible() or page.locator("#run-status").inner_text() != "Finished":
        change_setting(page, "steps", "30")
        start(page)
        wait_for_status(page, "Finished")
    faults = {}
    for tab, result in RESULTS.items():
        show(page, tab, **FIRST)
        expect(page.locator(result).first).to_be_visible()
        page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
        faults[tab] = page.evaluate(FAULTS)
    assert {tab: found for tab, found in faults.items() if found} == {}


def test_a_saved_picture_keeps_its_places_with_other_fonts(page: Page, tmp_path: Path) -> None:
    show(page, "attention", **FIRST)
    expect(page.locator("#attention-map svg text").first).to_be_visible()
    with page.expect_download() as waiting:
        press_save(page, "#attention-download-svg")
    waiting.value.save_as(tmp_path / "attention.svg")
    text = (tmp_path / "attention.svg").read_text(encoding="utf-8")
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
