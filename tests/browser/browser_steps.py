"""Steps that several browser tests share. They find controls by role, label and elem_id."""

import csv
import importlib
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode
from xml.etree import ElementTree

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Download, Locator, Page, Route, ViewportSize, expect
from playwright.sync_api import Error as PlaywrightError

from balcony.app import TABS
from balcony.server.served import sources

WAIT_MS = 45_000
TAB_RECORDS = [importlib.import_module(f"balcony.{folder}.tab").TAB for folder in TABS]
QUESTIONS = re.compile("/(run/predict|balcony/ask)")  # requests to which a handler answers
VIEWPORT: ViewportSize = {"width": 1600, "height": 900}
# The question of a new visitor: the first two sentences of the dialogue, and of their words the longest hidden.
FIRST = {
    "text": "Hello, how are you? I am Romeo.",
    "pair": "Hello, Romeo My name is Juliet. Nice to meet you.",
    "hidden": "12",
}


class Tabs:
    """Browser tabs that outlive a test: to load the page again costs half of the processor time of a new tab.

    Each visitor has a browser profile. After a visit its tab is emptied and forgets the visitor.
    """

    def __init__(self, browser: Browser, address: str) -> None:
        self.browser, self.address = browser, address
        self.complaints: list[str] = []
        self._profiles: list[BrowserContext] = []
        self._used: list[Page] = []

    def open(self, profile: BrowserContext | None = None, *, at: str = "") -> Page:
        """Load the page in a tab that the test does not use yet: of this profile, or of one without a visitor.

        at: the part of its address after and with #.
        """
        taken = {page.context for page in self._used}
        profile = profile or next((each for each in self._profiles if each not in taken), None) or self._new_profile()
        page = next((each for each in profile.pages if each not in self._used), None) or self._new_tab(profile)
        self._used.append(page)
        page.set_viewport_size(VIEWPORT)  # an earlier test may have changed it
        page.goto(self.address + at)
        expect(page.locator("#start")).to_be_enabled()
        return page

    @contextmanager
    def visits(self) -> Iterator[Callable[..., Page]]:
        """`open`; the visits inside the block end with it. A tab in which that fails is closed."""
        earlier = len(self._used)
        try:
            yield self.open
        finally:
            for page in self._used[earlier:]:
                try:
                    page.context.set_offline(False)
                    page.unroute_all(behavior="ignoreErrors")
                    page.evaluate("localStorage.clear(); sessionStorage.clear()")
                    page.goto("about:blank")
                except PlaywrightError:
                    page.close()
            del self._used[earlier:]

    def _new_profile(self) -> BrowserContext:
        profile = self.browser.new_context(viewport=VIEWPORT, accept_downloads=True)
        profile.set_default_timeout(WAIT_MS)
        self._profiles.append(profile)
        return profile

    def _new_tab(self, profile: BrowserContext) -> Page:
        page = profile.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda each: self.complaints.append(each.text) if each.type == "error" else None)
        return page


def serve_modules(page: Page) -> None:
    """Let the page import every script by its path, as in `import("/modules/frame/question.js")`.

    The page's own modules have another address and share nothing with them.
    """
    page.route(
        "**/modules/**",
        lambda route: route.fulfill(
            body=sources()[route.request.url.split("/modules/")[1]], content_type="text/javascript"
        ),
    )


def press_save(page: Page, item: str) -> None:
    """Open the list "Save" that has the item, and press it."""
    page.locator(".b-save", has=page.locator(item)).locator("button").first.click()
    page.locator(item).click()


def saved(page: Page, button: str, name: str) -> Download:
    """Press an item of a list "Save" and return what it downloads, whose name ends with this one."""
    with page.expect_download() as waiting:
        press_save(page, button)
    assert re.search(rf"(^|-){re.escape(name)}$", waiting.value.suggested_filename)
    return waiting.value


def picture(page: Page, button: str, name: str) -> str:
    """Save a picture, and return the SVG that it was drawn from."""
    page.evaluate(
        """() => { const { decode } = HTMLImageElement.prototype;
            HTMLImageElement.prototype.decode = function () { window.drawn = this.src; return decode.call(this); }; }"""
    )
    assert saved(page, button, name).path().read_bytes().startswith(b"\x89PNG")
    return unquote(page.evaluate("window.drawn").partition(",")[2])


def letters(picture: str) -> list[str]:
    """The texts that an SVG shows."""
    root = ElementTree.fromstring(picture)
    for part in [*root.iter()]:
        if part.tag.rpartition("}")[2] in ("style", "title"):
            part.clear()
    return [text.strip() for text in root.itertext() if text.strip()]


def download(page: Page, button: str, folder: Path, name: str) -> str:
    """Press an item of a list "Save" and return the text of the file that it downloads; its name ends with this one."""
    file = saved(page, button, name)
    file.save_as(folder / name)
    # Excel reads a CSV without a byte-order mark in an old encoding.
    assert (folder / name).read_bytes().startswith(BOM_UTF8) == name.endswith(".csv")
    return (folder / name).read_text(encoding="utf-8-sig")


def open_tab(page: Page, name: str) -> None:
    """Press a tab and wait until it is open."""
    page.get_by_role("tab", name=name).click()
    expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")


def points(page: Page) -> int:
    """The number of points of the curves."""
    return int(page.locator("#run-curves").get_attribute("data-points") or 0)


def wait_until(page: Page, condition: Callable[[], Any]) -> None:
    """Wait until a condition holds that the page alone cannot tell, while the page's events are heard."""
    for _ in range(600):
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it did not come true")


def wait_for_points(page: Page, at_least: int) -> None:
    """Wait until the curves have at least this number of points."""
    page.wait_for_function(
        "least => Number(document.querySelector('#run-curves')?.dataset.points || 0) >= least", arg=at_least
    )


def wait_for_status(page: Page, *words: str) -> None:
    """Wait until the run's status is one of these words."""
    expect(page.locator("#run-status")).to_have_text(re.compile("|".join(words)))


def wait_for_visitor(page: Page) -> None:
    """Wait until the server has answered and the browser keeps the visitor's token, for other tabs of this visitor."""
    expect(shown_model(page)).not_to_be_empty()
    page.wait_for_function("localStorage.getItem('balcony-visitor')")


def expect_seen(part: Locator, text: str | re.Pattern[str], *, in_window: bool = False) -> None:
    """Expect that a person can see a part of the page, and that it has the text. in_window: without scrolling."""
    expect(part).to_contain_text(text)
    expect(part).to_be_visible()
    if in_window:
        expect(part).to_be_in_viewport(ratio=1)


def choose_source(page: Page, name: str) -> None:
    """Choose where the text comes from."""
    unfold_form(page)
    page.get_by_role("radio", name=name).check()


def unfold_form(page: Page) -> None:
    """Open the form of Train, which is folded in a narrow or low window."""
    if page.locator("#change-settings[aria-expanded=false]").is_visible():
        page.locator("#change-settings").click()


def paste(page: Page, text: str) -> None:
    """Choose to paste a text, and paste it."""
    choose_source(page, "Paste a text")
    page.locator("#pasted textarea").fill(text)


def change_setting(page: Page, name: str, value: str) -> None:
    """Type a value into the table of settings of the Train tab; the name is the end of the row's elem_id."""
    unfold_form(page)
    show_setting(page, f"setting-{name}").fill(value)
    page.locator(f"#setting-{name} input").blur()


def show_setting(page: Page, row: str) -> Locator:
    """The field of a row, which is unfolded if it is none of the first."""
    field = page.locator(f"#{row}").locator("input, select")
    if not field.is_visible():
        page.get_by_label("All settings").filter(visible=True).check()
    return field


def move_slider(page: Page, position: int) -> None:
    """Put the time slider at a position, as a drag does."""
    page.locator("#time-slider").evaluate(
        "(slider, position) => { slider.value = position; slider.dispatchEvent(new Event('input')); }", position
    )


def start(page: Page) -> None:
    """Press Start and wait for the first point."""
    page.locator("#start").click()
    wait_for_points(page, 1)


def fine_tune(page: Page, epochs: int) -> None:
    """Press Fine-tune in its tab, with a number of epochs, and wait for the end."""
    page.locator("#task-epochs input").fill(str(epochs))
    page.locator("#task-start").click()
    expect(page.locator("#task-status")).to_have_text("Finished")


def assert_curve_is_whole(page: Page) -> None:
    """Each point of the curve is the mean of the steps since the point before: none is missing, none counts twice."""
    with page.expect_download() as waiting:
        press_save(page, "#curves-csv")
    table = csv.DictReader(Path(waiting.value.path()).read_text(encoding="utf-8-sig").splitlines())
    losses = [float(row["mlm_loss"]) for row in table if row["part"] == "training"]
    raw = """() => document.querySelector('#run-curves').data
        .find(trace => trace.meta.series === 'mlm_loss' && trace.meta.kind === 'raw')"""
    page.wait_for_function(f"steps => ({raw})().x.at(-1) === steps", arg=len(losses))
    trace = page.evaluate(f"() => {{ const {{ x, y }} = ({raw})(); return {{ x: [...x], y: [...y] }}; }}")
    before = 0
    for step, value in zip(trace["x"], trace["y"], strict=True):
        assert step > before
        assert value == pytest.approx(sum(losses[before:step]) / (step - before), rel=1e-3)
        before = step


def shown_model(page: Page) -> Locator:
    """The name of the model that the page shows."""
    return page.locator("#model-picker option:checked")


def words_of(page: Page) -> Locator:
    """The words of the sentences above the tabs."""
    return page.locator("#question .b-word")


def type_sentence(page: Page, text: str, field: str = "text") -> None:
    """Type a sentence in place of the one above the tabs. field: "text" or, for the second one, "pair"."""
    editor = page.locator(f"#sentence-{field}")
    if not editor.is_visible():
        page.locator(f"#edit-{field}").click()
    editor.fill(text)
    editor.press("Enter")


def follow_link(page: Page, tab: str, **parts: str | Sequence[str]) -> None:
    """Open an address with these parts of the question, as a link does; the others are as they are at first."""
    page.evaluate(
        "hash => { history.replaceState(null, '', hash); dispatchEvent(new HashChangeEvent('hashchange')); }",
        f"#{urlencode({'tab': tab, **parts}, doseq=True)}",
    )
    expect(page.locator(f"#tab-{tab}-button")).to_have_attribute("aria-selected", "true")


def show(page: Page, tab: str, **parts: str | Sequence[str]) -> None:
    """Follow a link, and wait until its words are read. Views are `aria-busy` then until they show its answers."""
    follow_link(page, tab, **parts)
    expect(page.locator("#question .b-view")).not_to_have_attribute("aria-busy", "true")


def wait_for_question(page: Page, **parts: str | None) -> None:
    """Wait until the address has these parts of the question; None: not that part."""
    page.wait_for_function(
        """parts => { const now = new URLSearchParams(location.hash.slice(1));
            return Object.entries(parts).every(([name, value]) => now.get(name) === value); }""",
        arg=parts,
    )


def compare_with(page: Page, model: str) -> None:
    """Choose a second model to show beside the first, by its key; "" for none."""
    page.locator("#compare-with").select_option(model)


@contextmanager
def late_answers(page: Page) -> Iterator[None]:
    """Requests of the page inside the block reach the server only after it, one after the other."""
    held: list[Route] = []
    page.route(QUESTIONS, lambda route: held.append(route))
    try:
        yield
    finally:
        while held:
            held.pop(0).continue_()
            page.wait_for_timeout(200)
        page.unroute(QUESTIONS)


def wait_for_answer(view: Locator) -> None:
    """Wait until a view shows the answer to its latest choice."""
    expect(view.locator(".b-view")).to_have_attribute("aria-busy", "false")


def grave(page: Page, **options: Any) -> list[str]:
    """The serious and critical findings of axe-core in what is ours and can be seen: views, the frame, the sentences.

    options: of axe's `run`.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    run = """options => axe.run(
        { include: [...document.querySelectorAll('.b-view')].filter(view => view.checkVisibility()) }, options)"""
    # What passes is not described, which would take half of the time.
    found = page.evaluate(run, {**options, "resultTypes": ["violations"]})["violations"]
    of_interest = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {node['html'][:160]}" for one in of_interest for node in one["nodes"]]
