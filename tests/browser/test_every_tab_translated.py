"""Every tab in Chinese and Korean, in both themes, at two widths: translated, nothing cut off or overlapping."""

import re
from pathlib import Path

import pytest
from browser_steps import (
    FIRST,
    TAB_RECORDS,
    change_setting,
    download,
    grave,
    show,
    start,
    wait_for_answer,
    wait_for_status,
)
from playwright.sync_api import Page, expect

from balcony.masked_words.closer_view import LABELS
from balcony.step_by_step.tab import STAGES
from bert_core.runs.recipe import FinetuningRecipe, Recipe

# Of a tab an element that exists only once the server has answered, where that is not its first view.
DRAWN = {
    "train": "#run-curves .legend",
    "batch": "#batch .b-batch-legend",
    "compare": "#runs-list table",
    "masked-words": "#masked-closer table",
    "next-sentence": "#next-matrix .b-map svg",
    "attention": "#attention-map .b-map svg",
    "words-in-context": "#context-cosine .b-map svg",
    "fine-tune": "#task-facts dl",
    "step-by-step": "#steps h3",
    "models": "#model-facts dl",
}
LOOKS = ((1600, False), (390, True))  # width, whether the theme is dark
CHINESE_OR_KOREAN = re.compile(r"[\u4e00-\u9fff\uac00-\ud7a3]")
ENGLISH = re.compile(r"[A-Za-z]{2,}(?: [A-Za-z]{2,}){2,}")
# Names, which are the same in every language, and words of the model.
NAMES = re.compile(
    r"\[\w+\]|\S+/\S+|romeo-juliet|^\w+ 0\.\d+$|Hugging Face Hub|"
    r"tanh\(read|\b(?:BERT|MLM|NSP|Balcony|PNG|SVG|CSV|JSON|HTML|Python|IsNext|NotNext|GELU|LayerNorm|[Ss]oftmax|ID|float32)\b"
)
SETTINGS = {*Recipe.settings(), *FinetuningRecipe.settings()}  # as the command line and recipe files name them
NOT_COLOURS = {"rules": {"color-contrast": {"enabled": False}}}  # the same in every language, and slow
# The page's own texts that can be seen, those of them that are cut off, and pairs that stand on each other.
SEEN = """() => {
    const isSeen = (node) => node.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
    const some = (node, property, values) => {
        for (; node; node = node.parentElement) if (values.includes(getComputedStyle(node)[property])) return true;
        return false;
    };
    const theirs = "[translate=no], bdi:not([translate]), .textpoint, code, pre, script, style, .visually-hidden";
    const texts = new Set(), cut = [], boxes = [];
    for (const element of document.body.querySelectorAll("*")) {
        if (element.closest(theirs) || !isSeen(element)) continue;
        for (const name of ["title", "aria-label", "placeholder", "aria-valuetext"])
            texts.add(element.getAttribute(name) ?? "");
        for (const node of element.childNodes) {
            const text = node instanceof Text ? node.data.trim() : "";
            if (!text || element.matches("textarea")) continue;
            texts.add(text);
            if (element.closest("svg, select, .b-unseen, .sr-only") || element.clientWidth === 1) continue;
            const range = document.createRange();
            range.selectNodeContents(node);
            const lines = [...range.getClientRects()].filter(({ width }) => width > 2);
            if (!lines.length || some(element, "overflowX", ["auto", "scroll"])) continue;
            const { overflowX } = getComputedStyle(element);
            const isCut = element.scrollWidth > element.clientWidth + 1 && overflowX !== "visible";
            if (isCut || lines.some(({ right }) => right > innerWidth + 1)) cut.push(text);
            if (!some(element, "position", ["sticky", "fixed"])) boxes.push([text, lines]);
        }
    }
    const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 6;
    const over = boxes.flatMap(([text, lines], k) => boxes.slice(k + 1)
        .filter(([, others]) => lines.some((a) => others.some((b) => meet(a, b)))).map(([other]) => [text, other]));
    return { texts: [...texts], cut, over, wide: document.documentElement.scrollWidth > innerWidth };
}"""


@pytest.fixture(scope="module")
def page(shared: Page) -> Page:
    change_setting(shared, "steps", "20")
    start(shared)
    wait_for_status(shared, "Finished")
    return shared


def is_english(text: str) -> bool:
    """Whether a text is, or has a part that is, in English; a name or a model's word in a translated text is not."""
    text = "" if text in SETTINGS else NAMES.sub("", text)
    return bool(ENGLISH.search(text) if CHINESE_OR_KOREAN.search(text) else re.search("[A-Za-z]{2}", text))


@pytest.mark.parametrize("language", ["zh-CN", "ko"])
def test_every_tab_is_translated_and_nothing_is_cut_off(page: Page, language: str) -> None:
    found = {}
    page.locator("#language").select_option(language)
    expect(page.locator("html")).to_have_attribute("lang", language)
    run = {"model": page.locator("#model-picker option").nth(1).get_attribute("value") or ""}
    for tab in (each.name for each in TAB_RECORDS):
        drawn = DRAWN.get(tab, f"#tab-{tab} .b-view > *:visible")
        # Without a second sentence its field is open, and says so.
        show(page, tab, **{"train": {}, "batch": run, "attention": {"text": FIRST["text"]}}.get(tab, FIRST))
        for width, is_dark in LOOKS:
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate("is => document.body.classList.toggle('dark', is)", is_dark)
            expect(page.locator(drawn).first).to_be_visible()
            page.wait_for_function("document.getAnimations().every(each => each.playState !== 'running')")
            seen = page.evaluate(SEEN)
            seen["texts"] = list(filter(is_english, seen["texts"]))
            found |= {f"{tab}, {width}, {what}": each for what, each in seen.items() if each}
        # One language is enough for what all of them share.
        if language == "ko" and (findings := grave(page, **NOT_COLOURS)):
            found[f"{tab}, axe"] = findings
    assert found == {}


def test_every_stage_and_closer_view_is_translated(page: Page) -> None:
    page.set_viewport_size({"width": 1600, "height": 900})
    page.locator("#language").select_option("zh-CN")
    views = [{"tab": "step-by-step", "stage": key} for key, *_ in STAGES]
    views += [{"tab": "masked-words", "view": view} for view in LABELS]
    found = {}
    for view in views:
        show(page, **FIRST, **view)
        wait_for_answer(page.locator("#steps" if "stage" in view else "#masked-closer"))
        if texts := list(filter(is_english, page.evaluate(SEEN)["texts"])):
            found[f"{view}"] = texts
    assert found == {}


def test_what_the_scripts_of_a_saved_page_write_is_translated_too(page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1600, "height": 900})
    page.locator("#language").select_option("ko")
    show(page, "attention", text=FIRST["text"])
    download(page, "#attention-download-html", tmp_path, "attention.html")
    saved = page.context.new_page()
    saved.goto((tmp_path / "attention.html").as_uri())
    expect(saved.locator("html")).to_have_attribute("lang", "ko")
    for head in (1, 2):
        saved.locator("#grid .b-head").nth(head).click()
        expect(saved.locator("#detail .b-map svg")).to_be_visible()
        assert list(filter(is_english, saved.evaluate(SEEN)["texts"])) == []
    saved.close()
