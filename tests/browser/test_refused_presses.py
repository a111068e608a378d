"""Every button of every tab is pressed, also where the server refuses: the answer or the reason stands in the window.

The buttons are those that the page has: of each kind in each part of a tab the first one.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_steps import (
    TAB_RECORDS,
    WAIT_MS,
    Tabs,
    change_setting,
    expect_seen,
    open_tab,
    wait_for_status,
    wait_for_visitor,
)
from playwright.sync_api import Page, ViewportSize, expect

import balcony.app
import balcony.server.workspaces
from balcony import handlers
from balcony.frame.tab import Tab
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import Workspace
from balcony.server.workspaces import Workspaces
from balcony.train.settings import with_labels
from bert_core import load_recipe
from bert_core.config import LOCAL
from bert_core.runs.run import Run

POLL_MS, QUIET_MS, PATIENCE_MS = 20, 800, 3_000
LAPTOP: ViewportSize = {"width": 1366, "height": 657}
PHONE: ViewportSize = {"width": 390, "height": 844}
LOST = "The server does not answer."
# An example is put into the field above it, and its sizes stand above that; a sample is a file.
BELOW = re.compile("example-.*|task-sample")
# The buttons that can be seen now: a key, which is the id or the part of the page and the class; whether it is
# disabled; why, by its title or description.
BUTTONS = """() => {
    window.buttons = new Map();
    for (const item of document.querySelectorAll('button:not([role=tab]), summary, [role=button]')) {
        if (!item.checkVisibility({ visibilityProperty: true }) || !item.getClientRects().length) continue;
        const key = item.id || `${item.parentElement.closest('[id]')?.id ?? ''} ${item.className}`;
        if (!window.buttons.has(key)) window.buttons.set(key, item);
    }
    const described = (item) => document.getElementById(item.getAttribute('aria-describedby'))?.textContent;
    return [...window.buttons].map(([key, item]) => [key, item.disabled === true, item.title || described(item) || '']);
}"""
PRESS = """(key) => {
    for (const close of document.querySelectorAll('.b-message [aria-label]')) close.click();
    document.querySelector('dialog[open]')?.close();
    const item = window.buttons.get(key);
    if (!item.isConnected) return false;
    window.changed = [];
    window.watcher ??= new MutationObserver((records) => { window.changed.push(...records); });
    window.watcher.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
    item.scrollIntoView({ block: 'center' });
    item.focus();
    window.pressed = item;
    window.watcher.takeRecords();
    window.before = new Map([...document.querySelectorAll(TEXTS)].map((each) => [each, each.textContent]));
    item.click();
    return true;
}"""
# After a press: how much has changed, and what a person would have to scroll to: the changed texts, where none of them
# is in the window. The bar at the top counts for its own buttons alone, since it shows everything that happens. Other
# answers are a field with the focus, a window of the browser, and what is opened over the page.
ANSWER = """() => {
    const isShown = (each) => each.isConnected && each.checkVisibility({ visibilityProperty: true })
        && each.textContent.trim() && !each.closest('#header, .b-unseen, .visually-hidden');
    const texts = window.changed.filter(({ type }) => type !== 'attributes')
        .flatMap(({ target, addedNodes }) => addedNodes.length ? [...addedNodes] : [target])
        .map((node) => (node instanceof Element ? node : node.parentElement)).filter((each) => each && isShown(each))
        .map((each) => each.closest(TEXTS) ?? each).filter((each) => before.get(each) !== each.textContent);
    const isSeen = (each) => {
        const { top, bottom, width } = each.getBoundingClientRect();
        return width > 0 && bottom > 0 && top < innerHeight;
    };
    const { pressed } = window, { activeElement: active } = document;
    const isNear = pressed.closest('#header, .b-save-kinds') || pressed.querySelector('[type=file]')
        || document.querySelector(':popover-open, dialog[open]') || (active !== document.body && active !== pressed
        && isSeen(active)) || texts.some((each) => pressed.contains(each) || isSeen(each));
    // The progress of an earlier press may still be counting.
    const outside = isNear ? [] : texts.filter((each) => !each.closest('[data-testid=status-tracker]'))
        .map((each) => each.textContent.trim().slice(0, 60));
    return [window.changed.length, [...new Set(outside)].slice(0, 3)];
}"""
UNFOLD = """() => {
    for (const item of document.querySelectorAll('details:not(.b-save)')) item.open = true;
    for (const item of document.querySelectorAll('button.label-wrap:not(.open)')) item.click();
}"""
# Whether one of the sentences stands in the window, with nothing over it but what a person closes by a press outside.
STANDS = """(sentences) => {
    for (const open of document.querySelectorAll(':popover-open')) open.hidePopover();  // what the press has opened
    const has = (each) => sentences.some((text) => each.textContent.includes(text));
    return [...document.querySelectorAll('.gradio-container *')].some((each) => {
        if (!has(each) || [...each.children].some(has) || !each.checkVisibility()) return false;
        const { left, right, top, bottom } = each.getBoundingClientRect();
        if (right === left || top < 0 || left < 0 || bottom > innerHeight || right > innerWidth) return false;
        const above = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
        return each.contains(above) || above?.contains(each);
    });
}"""


# The number of questions under way, when the last one was sent, and a wait until all are answered, no view waits for
# its turn to ask, and no other has been sent for some milliseconds.
COUNTING = """window.TEXTS = 'h2, h3, dt, dd, th, caption, p';
window.asking = 0;
window.last_asked = 0;
window.settled = async (quiet, most) => {
    const began = performance.now();
    for (;;) {
        await new Promise((resolve) => setTimeout(resolve, quiet / 2));
        const now = performance.now();
        const waits = asking || document.querySelector('.b-view[aria-busy=true]');
        if (!waits && now - Math.max(began, last_asked) > quiet) return true;
        if (now - began > most) return false;
    }
};
const ask = window.fetch;
window.fetch = (...request) => {
    if (request[1]?.method !== 'POST') return ask(...request);
    window.asking += 1;
    window.last_asked = performance.now();
    return ask(...request).finally(() => { window.asking -= 1; });
};"""


@dataclasses.dataclass
class Walk:
    """A page and its server. said: sentences by which handlers have refused since the last press. lost: addresses that
    the page could not reach since then."""

    page: Page
    workspaces: Workspaces
    said: list[str]
    lost: list[str]

    @property
    def space(self) -> Workspace:
        """The visitor's workspace."""
        return [*self.workspaces._spaces.values()][-1]

    def press_all(self, arrange: Callable[[], object], *, is_lost: bool = False) -> list[str]:
        """Press the buttons of all tabs; returns what is wrong. arrange: called before each press."""
        page, faults, pressed = self.page, [], set[str]()
        for tab in TAB_RECORDS:
            self.open(tab)
            page.evaluate(UNFOLD)
            self.settle()
            known: set[str] = set()
            while True:
                buttons = {key: (off, why) for key, off, why in page.evaluate(BUTTONS)}
                left = [key for key in buttons if key not in pressed]
                if not left:
                    break
                key = min(left, key=lambda each: each in known)  # what the last press has opened goes first
                known |= buttons.keys()
                pressed.add(key)
                if key.endswith("-sure"):  # it would remove the run
                    continue
                if buttons[key][0]:
                    faults += [] if buttons[key][1] else [f"{key}: disabled, and nothing says why"]
                    continue
                arrange()
                self.said.clear()
                self.lost.clear()
                if not page.evaluate(PRESS, key):
                    continue
                self.settle()
                sentences = [*self.said, *map(with_labels, self.said)] or ([LOST] if self.lost else [])
                changes, outside = page.evaluate(ANSWER)
                if sentences and not self._stands(sentences):
                    faults.append(f"{key}: {sentences}")
                elif not (sentences or changes or (is_lost and self._stands([LOST]))):
                    faults.append(f"{key}: nothing happens")
                elif outside and not sentences and not is_lost and not BELOW.fullmatch(key):
                    faults.append(f"{key}: out of sight: {outside}")
                self.open(tab)
        assert len(pressed) > 60
        return faults

    def open(self, tab: Tab) -> None:
        if not self.page.locator(f"#tab-{tab.name}").is_visible():
            self.page.locator(f"#tab-{tab.name}-button").evaluate("button => button.click()")
            expect(self.page.locator(f"#tab-{tab.name}")).to_be_visible()
            self.settle()

    def settle(self, quiet_ms: int = POLL_MS) -> None:
        """Wait until the server has answered all requests of the page, and the page has not asked for quiet_ms."""
        assert self.page.evaluate("times => settled(...times)", [quiet_ms, WAIT_MS]), "The page asks without end."

    def _stands(self, sentences: list[str]) -> bool:
        for _ in range(PATIENCE_MS // POLL_MS):
            if self.page.evaluate(STANDS, sentences):
                return True
            self.page.wait_for_timeout(POLL_MS)
        return False


@pytest.fixture
def walk(tabs: Tabs, service: Any, shipped: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Walk]:
    opened: list[Workspaces] = []
    said: list[str] = []
    open_workspaces, sentence_of = balcony.app.open_workspaces, handlers.sentence_of

    def kept(*arguments: Any, **options: Any) -> Workspaces:
        opened.append(open_workspaces(*arguments, **options))
        return opened[-1]

    def noted(error: BaseException) -> str:
        said.append(sentence_of(error))
        return said[-1]

    monkeypatch.setattr(balcony.app, "open_workspaces", kept)
    monkeypatch.setattr(handlers, "sentence_of", noted)
    app, url, _ = balcony.launch(
        service, shipped=[shipped], server_name="127.0.0.1", prevent_thread_lock=True, quiet=True
    )
    context = tabs.browser.new_context(viewport=LAPTOP)
    context.add_init_script(COUNTING)
    page = context.new_page()
    walk = Walk(page, opened[0], said, [])
    # What the page ends itself, such as a stream of news that it has read, is not lost.
    page.on("requestfailed", lambda each: walk.lost.append(each.url) if each.failure != "net::ERR_ABORTED" else None)
    page.on("filechooser", lambda chooser: None)
    page.goto(url)
    wait_for_visitor(page)
    yield walk
    context.close()
    app.get_blocks().close(verbose=False)


def reload(walk: Walk, status: str) -> None:
    walk.page.reload()
    wait_for_status(walk.page, status)
    walk.settle(QUIET_MS)  # what the page asks by itself, one after the other, is not the answer to a press


def test_every_press_is_answered_in_the_window(walk: Walk, service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page, workspaces = walk.page, walk.workspaces
    recipe = load_recipe("romeo-juliet").override({"training.steps": 3})
    faults: dict[str, list[str]] = {}

    def start(**options: Any) -> Run:
        return workspaces.start(walk.space, recipe, **options)

    def is_active() -> None:
        if walk.space.active_run is None:
            start(paused=True)

    with monkeypatch.context() as patched:
        patched.setattr(balcony.server.workspaces, "MOST_TRAINING", 0)  # nobody may start a run
        page.set_viewport_size(PHONE)
        faults["no run"] = walk.press_all(lambda: None)
    run = start()
    run.wait()
    with monkeypatch.context() as patched:
        patched.setattr(balcony.server.workspaces, "MOST_TRAINING", 0)
        patched.setattr(service, "limits", dataclasses.replace(LOCAL, steps=3))
        patched.setattr(probe_lock, "limit_seconds", 0.0)
        page.set_viewport_size(LAPTOP)
        reload(walk, "Finished")
        faults["ended run and limits"] = walk.press_all(lambda: None)
    is_active()
    reload(walk, "Paused")
    faults["active run"] = walk.press_all(is_active)
    page.context.set_offline(True)
    faults["server gone"] = walk.press_all(lambda: None, is_lost=True)
    found = [f"{state}: {fault}" for state, each in faults.items() for fault in each]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_a_refused_start_says_why_beside_its_button_and_beside_the_field(page: Page, size: ViewportSize) -> None:
    message, start = page.locator(".b-message"), page.locator("#start")
    open_tab(page, "Fine-tune")
    page.locator("#task-epochs input").fill("900")
    page.locator("#task-start").click()
    page.locator("#task-pause").click()
    open_tab(page, "Train")
    page.set_viewport_size(size)
    start.click()
    expect_seen(message, re.compile(r"“Run 1 · Subject of a sentence” has not ended\. Stop it"), in_window=True)
    boxes = [part.bounding_box() for part in (message, start)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert abs(boxes[0]["y"] - boxes[1]["y"] - boxes[1]["height"]) < 20, "beside the button"
    page.locator("#stop-active").click()
    expect(message).to_have_count(0)
    expect(page.locator("#task-status")).to_have_text("Stopped")
    change_setting(page, "steps", "0")
    expect_seen(page.locator("#setting-steps [role=alert]"), "Steps is 0")
    start.click()
    expect_seen(message, "Steps is 0", in_window=True)
    expect(page.get_by_text("No text yet")).to_have_count(0)
    page.get_by_label("Recipe", exact=True).select_option("A recipe file of your own")
    start.click()
    expect_seen(message, "Choose a recipe file first.", in_window=True)
    page.get_by_label("Recipe", exact=True).select_option(index=0)
    expect(message).to_have_count(0)  # it can start now
