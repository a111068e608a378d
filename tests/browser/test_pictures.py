"""Pictures for slides: light in either theme, titled, without what can only be pressed."""

import re
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from browser_steps import FIRST, VIEWPORT, expect_seen, letters, open_tab, picture, press_save, show
from playwright.sync_api import Page, expect

CELLS = "document.querySelector('#attention-map image').href.baseVal"
SENTENCES = ["Hello, how are you? I am Romeo.", "Hello, Romeo My name is Juliet. Nice to meet you."]
MODEL = "romeo-juliet, comes with Balcony"


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Page:
    return shared


def in_picture(page: Page, drawn: str, script: str, *values: str) -> Any:
    """What a script finds in a picture that a browser has opened alone."""
    alone = page.context.new_page()
    alone.goto(f"data:image/svg+xml;charset=utf-8,{quote(drawn)}")
    found = alone.evaluate(script, values)
    alone.close()
    return found


def looks(drawn: str) -> tuple[str, list[list[Any]], list[float]]:
    """What a picture shows: all but its texts; of these the attributes and words; and where they stand, in pixels."""
    texts: list[list[Any]] = []
    places: list[float] = []
    for text in re.findall("<text .*?</text>", drawn):
        node = ElementTree.fromstring(text.replace("xml:space", "space"))
        places.append(float(node.attrib.pop("x", 0)))
        texts.append([node.attrib, node.text])
    return re.sub('<text .*?</text>| class=""', "", drawn), texts, places


# What stands outside of a picture, and pictures inside that lie over each other.
LOST = """() => {
    const root = document.documentElement;
    const extent = each => each.getBoundingClientRect(), boxes = kind => [...root.querySelectorAll(kind)].map(extent);
    const whole = extent(root);
    const lost = boxes('text, image, canvas, p').filter(({ left, right, top, bottom }) =>
        left < whole.left || right > whole.right + 1 || top < whole.top || bottom > whole.bottom + 1).length;
    const images = boxes('image');
    const over = images.filter((one, i) => images.some((other, j) => i < j
        && one.left < other.right && other.left < one.right
        && one.top < other.bottom && other.top < one.bottom)).length;
    return [lost, over];
}"""
STYLE = "([parts, name]) => [...document.querySelectorAll(parts)].map(each => getComputedStyle(each)[name])"
SCROLLED = """root => [...document.querySelectorAll(root + ', ' + root + ' *')].filter(each =>
    each.scrollWidth > each.clientWidth && /auto|scroll/.test(getComputedStyle(each).overflowX))"""
LONG = {"text": "how are you " * 10, "pair": "i am romeo " * 9, "hidden": "1"}  # 60 tokens


@pytest.mark.parametrize(
    ("tab", "parts", "root", "button", "name"),
    [
        ("attention", {}, "#attention-stage", "#attention-download-png", "attention.png"),
        ("attention", {"other": "romeo-juliet"}, "#attention-stage", "#attention-download-png", "attention.png"),
        ("step-by-step", {"stage": "pieces"}, "#steps", "#steps-download-png", "step-by-step-pieces.png"),
        ("step-by-step", {"stage": "scores"}, "#steps", "#steps-download-png", "step-by-step-scores.png"),
    ],
)
def test_a_picture_holds_what_scrolls_on_the_page(
    page: Page, tab: str, parts: dict[str, str], root: str, button: str, name: str
) -> None:
    page.set_viewport_size({"width": 1000, "height": 800})
    show(page, tab, **LONG, **parts)
    page.wait_for_function(f"root => ({SCROLLED})(root).length", arg=root)
    expect(page.locator(f"{root} [aria-busy=true]")).to_have_count(0)
    page.evaluate(f"root => ({SCROLLED})(root).forEach(each => each.scrollLeft = 50)", root)
    state = f"root => ({SCROLLED})(root).map(each => [each.scrollLeft, each.clientWidth, each.scrollWidth])"
    before = page.evaluate(state, root)
    drawn = picture(page, button, name)
    assert in_picture(page, drawn, LOST) == [0, 0]
    assert page.evaluate(state, root) == before


def test_a_picture_is_in_the_language_of_the_page(page: Page) -> None:
    page.set_viewport_size(VIEWPORT)
    show(page, "attention", **FIRST)
    page.locator("#language").select_option("zh-CN")
    expect_seen(page.locator("#attention-map"), "行是发出注意力的词，列是被关注的词。")
    drawn = "".join(letters(picture(page, "#attention-download-png", "attention.png")))
    page.locator("#language").select_option("en")
    assert "行是发出注意力的词，列是被关注的词。" in drawn.replace(" ", "")
    assert "Balcony自带" in drawn.replace(" ", "")
    assert not re.search("attends|word|head|Weight", drawn)


def test_a_picture_is_the_same_from_a_light_page_and_a_dark_one(page: Page) -> None:
    page.set_viewport_size(VIEWPORT)
    show(page, "attention", **FIRST)
    expect(page.locator("#attention-map image")).to_have_count(1)
    drawn = picture(page, "#attention-download-png", "attention.png")
    assert set(in_picture(page, drawn, STYLE, ".b-term", "textDecorationLine")) == {"none"}
    assert letters(drawn)[:3] == [*SENTENCES, MODEL]
    assert not {"Colour by", "One head", "Lines", "Switch this head off"} & set(letters(drawn))
    before = page.evaluate(CELLS)
    page.evaluate("document.body.classList.add('dark')")
    page.wait_for_function(f"before => {CELLS} !== before", arg=before)  # the map has colours for the dark
    *light, places = looks(drawn)
    *dark, places_in_dark = looks(picture(page, "#attention-download-png", "attention.png"))
    assert dark == light
    assert places_in_dark == pytest.approx(places, abs=0.1)
    assert page.evaluate(f"before => [document.body.classList.contains('dark'), {CELLS} === before]", before) == [
        True,
        False,
    ]
    expect(page.locator(".b-picture-title")).to_have_count(0)
    page.evaluate("document.body.classList.remove('dark')")

    menu = page.locator("#attention-download .b-popover")
    opener = page.locator("#attention-download").get_by_role("button", name="Save", exact=False).first
    page.set_viewport_size({"width": 390, "height": 844})
    opener.click()
    assert menu.evaluate("list => list.getBoundingClientRect().right") <= 390
    scrolled = (
        "menu => { let x = 0; for (let each = menu; each; each = each.parentElement) x += each.scrollLeft; return x; }"
    )
    assert menu.evaluate(scrolled) == 0
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(menu).to_be_hidden()
    expect(opener).to_be_focused()
    press_save(page, "#attention-download-py")
    expect(page.locator("#attention-download pre")).to_contain_text(repr(SENTENCES[0]))
    page.keyboard.press("Escape")

    open_tab(page, "Next sentence")
    expect(page.locator("#next-verdict .b-bar-fill")).to_have_count(1)
    bar = page.locator("#next-verdict .b-bar-fill").evaluate("bar => getComputedStyle(bar).backgroundColor")
    drawn = picture(page, "#next-download-png", "pair.png")
    assert bar in in_picture(page, drawn, STYLE, ".b-bar-fill", "backgroundColor")
    open_tab(page, "Masked words")
    expect(page.locator("#masked-guesses section")).to_have_count(1)
    shown = letters(picture(page, "#masked-download-png", "guesses.png"))
    first, *_, best = shown[shown.index(MODEL) + 1 : shown.index("Mask 1 for")]  # the sentences with the guess
    assert first == SENTENCES[0]
    assert best.startswith(". Nice")
