"""Every button of every tab is pressed where the server refuses it, and the reason stands in the window.

The buttons are those that the page has: of each kind in each part of a tab the first one.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_steps import WAIT_MS, Tabs, wait_for_status, wait_for_visitor
from playwright.sync_api import Page, expect

import ui
import ui.server.workspaces
from bert_core import load_recipe
from bert_core.config import LOCAL
from bert_core.runs.run import ACTIVE, Run
from ui import handlers
from ui.server.probe_lock import probe_lock
from ui.server.workspace import Workspace
from ui.server.workspaces import Workspaces
from ui.train.settings import with_labels

POLL_MS, QUIET_MS, PATIENCE_MS = 40, 800, 3_000
LOST = "The server does not answer."
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
    for (const close of document.querySelectorAll('.b-message button')) close.click();
    document.querySelector('dialog[open]')?.close();
    const item = window.buttons.get(key);
    if (!item.isConnected) return false;
    window.changes = 0;
    window.watcher ??= new MutationObserver(() => { window.changes += 1; });
    window.watcher.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
    item.scrollIntoView({ block: 'nearest' });
    item.focus();
    item.click();
    return true;
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


# The number of questions under way, and when the last one was sent.
COUNTING = """window.asking = 0;
window.last_asked = 0;
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
        for tab in page.locator("#tabs > .tab-wrapper [role=tab]:visible").all():
            tab.click()
            expect(tab).to_have_attribute("aria-selected", "true")
            self.settle()
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
                if sentences and not self._stands(sentences):
                    faults.append(f"{key}: {sentences}")
                elif not (sentences or page.evaluate("changes") or (is_lost and self._stands([LOST]))):
                    faults.append(f"{key}: nothing happens")
                if tab.get_attribute("aria-selected") != "true":
                    tab.click()
                    self.settle()
        assert len(pressed) > 60
        return faults

    def settle(self, quiet_ms: int = POLL_MS) -> None:
        """Wait until the server has answered all requests of the page, and the page has not asked for quiet_ms."""
        end = time.monotonic() + WAIT_MS / 1000
        self.page.wait_for_timeout(quiet_ms)
        while not self.page.evaluate("least => !asking && performance.now() - last_asked > least", quiet_ms):
            assert time.monotonic() < end, "The page asks without end."
            self.page.wait_for_timeout(POLL_MS)

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
    open_workspaces, sentence_of = ui.open_workspaces, handlers.sentence_of

    def kept(*arguments: Any, **options: Any) -> Workspaces:
        opened.append(open_workspaces(*arguments, **options))
        return opened[-1]

    def noted(error: BaseException) -> str:
        said.append(sentence_of(error))
        return said[-1]

    monkeypatch.setattr(ui, "open_workspaces", kept)
    monkeypatch.setattr(handlers, "sentence_of", noted)
    app, url, _ = ui.launch(service, shipped=[shipped], server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
    context = tabs.browser.new_context(viewport={"width": 1600, "height": 900})
    context.add_init_script("localStorage.setItem('balcony-tour', 'seen');" + COUNTING)
    page = context.new_page()
    walk = Walk(page, opened[0], said, [])
    page.on("requestfailed", lambda request: walk.lost.append(request.url))
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


def test_a_refused_press_is_answered_in_the_window(walk: Walk, service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page, workspaces = walk.page, walk.workspaces
    recipe = load_recipe("romeo-juliet").override({"training.steps": 3})
    faults: dict[str, list[str]] = {}

    def start(**options: Any) -> Run:
        return workspaces.start(walk.space, recipe, **options)

    def is_active() -> None:
        if walk.space.active_run is None:
            start(paused=True)

    with monkeypatch.context() as patched:
        patched.setattr(ui.server.workspaces, "MOST_TRAINING", 0)  # nobody may start a run
        faults["no run"] = walk.press_all(lambda: None)
    run = start()
    while run.status in ACTIVE:
        time.sleep(0.05)
    with monkeypatch.context() as patched:
        patched.setattr(ui.server.workspaces, "MOST_TRAINING", 0)
        patched.setattr(service, "limits", dataclasses.replace(LOCAL, steps=3))
        patched.setattr(probe_lock, "limit_seconds", 0.0)
        reload(walk, "Finished")
        faults["ended run and limits"] = walk.press_all(lambda: None)
    is_active()
    reload(walk, "Paused")
    faults["active run"] = walk.press_all(is_active)
    page.context.set_offline(True)
    faults["server gone"] = walk.press_all(lambda: None, is_lost=True)
    found = [f"{state}: {fault}" for state, each in faults.items() for fault in each]
    assert not found, "\n".join(found)
