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
from playwright.sync_api import BrowserContext, Page, ViewportSize, expect

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
BELOW = re.compile("example-.*")
SCRIPT = Path(__file__).with_name("presses.js")


@dataclasses.dataclass
class Walk:
    """A new visitor's page and its server.

    said: sentences by which handlers have refused since the last press. lost: addresses that the page could not reach
    since then.
    """

    page: Page
    workspaces: Workspaces
    said: list[str]
    lost: list[str] = dataclasses.field(default_factory=list)
    is_offline: bool = False

    @property
    def space(self) -> Workspace:
        """The visitor's workspace."""
        return self.workspaces.find(self.page.evaluate("localStorage.getItem('balcony-visitor')"))

    def start(self, **options: Any) -> Run:
        """Start a short run of the visitor's."""
        return self.workspaces.start(self.space, load_recipe("romeo-juliet").override({"training.steps": 3}), **options)

    def reload(self, status: str) -> None:
        self.page.reload()
        wait_for_status(self.page, status)
        self.settle(QUIET_MS)  # what the page asks by itself, one after the other, is not the answer to a press

    def press_all(self, *tabs: str, arrange: Callable[[], object] = lambda: None) -> list[str]:
        """Press the buttons of these tabs, or of all; returns what is wrong. arrange: called before each press."""
        faults: list[str] = []
        pressed: set[str] = set()
        for tab in TAB_RECORDS:
            if tabs and tab.name not in tabs:
                continue
            self.open(tab)
            self.page.evaluate("presses.unfold()")
            self.settle()
            for key, is_disabled, why in self.buttons(pressed):
                if is_disabled:
                    faults += [] if why else [f"{tab.name}, {key}: disabled, and nothing says why"]
                    continue
                arrange()
                if fault := self.press(key):
                    faults.append(f"{tab.name}, {key}: {fault}")
                self.open(tab)
        assert len(pressed) > 6 * (len(tabs) or len(TAB_RECORDS))
        return faults

    def buttons(self, pressed: set[str]) -> Iterator[tuple[str, bool, str]]:
        """The buttons that are not among the pressed ones, with those that a press brings, which come first."""
        known: set[str] = set()
        while left := {key: found for key, *found in self.page.evaluate("presses.list()") if key not in pressed}:
            key = min(left, key=lambda each: each in known)
            known |= left.keys()
            pressed.add(key)
            if not key.endswith("-sure"):  # it would remove the run
                yield key, *left[key]

    def press(self, key: str) -> str:
        """Press a button; returns what is wrong with its answer, or ""."""
        self.said.clear()
        self.lost.clear()
        if not self.page.evaluate("key => presses.press(key)", key):
            return ""
        self.settle()
        if refusals := [*self.said, *map(with_labels, self.said)] or [LOST] * bool(self.lost):
            return "" if self.stands(refusals) else f"{refusals}"
        changes, outside = self.page.evaluate("presses.answer()")
        if not changes:
            return "" if self.is_offline and self.stands([LOST]) else "nothing happens"
        return f"out of sight: {outside}" if outside and not self.is_offline and not BELOW.fullmatch(key) else ""

    def open(self, tab: Tab) -> None:
        if not self.page.locator(f"#tab-{tab.name}").is_visible():
            self.page.locator(f"#tab-{tab.name}-button").evaluate("button => button.click()")
            expect(self.page.locator(f"#tab-{tab.name}")).to_be_visible()
            self.settle()

    def settle(self, quiet_ms: int = POLL_MS) -> None:
        """Wait until the server has answered all requests of the page, and the page has not asked for quiet_ms."""
        assert self.page.evaluate("times => presses.settled(...times)", [quiet_ms, WAIT_MS]), "It asks without end."

    def stands(self, sentences: list[str]) -> bool:
        """Whether one of the sentences comes to stand in the window."""
        for _ in range(PATIENCE_MS // POLL_MS):
            if self.page.evaluate("sentences => presses.stands(sentences)", sentences):
                return True
            self.page.wait_for_timeout(POLL_MS)
        return False


@pytest.fixture(scope="module")
def served(service: Any, shipped: Path) -> Iterator[tuple[str, Workspaces, list[str]]]:
    """The address of a server, the workspaces of its visitors, and the sentences by which its handlers refuse."""
    opened: list[Workspaces] = []
    said: list[str] = []
    open_workspaces, sentence_of = balcony.app.open_workspaces, handlers.sentence_of

    def kept(*arguments: Any, **options: Any) -> Workspaces:
        opened.append(open_workspaces(*arguments, **options))
        return opened[-1]

    def noted(error: BaseException) -> str:
        said.append(sentence_of(error))
        return said[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(balcony.app, "open_workspaces", kept)
        patched.setattr(handlers, "sentence_of", noted)
        app, url, _ = balcony.launch(
            service, shipped=[shipped], server_name="127.0.0.1", prevent_thread_lock=True, quiet=True
        )
        yield url, opened[0], said
        app.get_blocks().close(verbose=False)


@pytest.fixture(scope="module")
def context(tabs: Tabs) -> Iterator[BrowserContext]:
    context = tabs.browser.new_context(viewport=LAPTOP)
    context.add_init_script(path=SCRIPT)
    yield context
    context.close()


@pytest.fixture
def walk(context: BrowserContext, served: tuple[str, Workspaces, list[str]]) -> Iterator[Walk]:
    address, workspaces, said = served
    page = context.new_page()
    walk = Walk(page, workspaces, said)
    # What the page ends itself, such as a stream of news that it has read, is not lost.
    page.on("requestfailed", lambda each: walk.lost.append(each.url) if each.failure != "net::ERR_ABORTED" else None)
    page.on("filechooser", lambda chooser: None)
    page.goto(address)
    wait_for_visitor(page)
    walk.settle(QUIET_MS)
    yield walk
    if active := walk.space.active_run:
        active.stop()
    context.set_offline(False)
    page.evaluate("localStorage.clear()")  # the next one is another visitor
    page.close()


def test_without_a_run_every_press_is_answered_in_a_phones_window(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balcony.server.workspaces, "MOST_TRAINING", 0)  # nobody may start a run
    walk.page.set_viewport_size(PHONE)
    assert walk.press_all() == []


def test_after_a_run_every_press_is_answered_also_where_limits_refuse(
    walk: Walk, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk.start().wait()
    monkeypatch.setattr(balcony.server.workspaces, "MOST_TRAINING", 0)
    monkeypatch.setattr(service, "limits", dataclasses.replace(LOCAL, steps=3))
    monkeypatch.setattr(probe_lock, "limit_seconds", 0.0)
    walk.reload("Finished")
    assert walk.press_all() == []


def test_beside_an_active_run_every_press_on_runs_is_answered(walk: Walk) -> None:
    def arrange() -> None:
        if walk.space.active_run is None:
            walk.start(paused=True)

    walk.start().wait()
    arrange()
    walk.reload("Paused")
    assert walk.press_all("train", "compare", "fine-tune", arrange=arrange) == []


def test_without_a_server_every_press_is_answered(walk: Walk) -> None:
    walk.page.context.set_offline(True)
    walk.is_offline = True
    assert walk.press_all("train", "masked-words", "models") == []


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_a_refused_start_says_why_beside_its_button(page: Page, size: ViewportSize) -> None:
    message, start = page.locator(".b-message"), page.locator("#start")
    open_tab(page, "Fine-tune")
    page.locator("#task-epochs input").fill("900")
    page.locator("#task-start").click()
    expect(page.locator("#task-status")).to_have_text("Training")
    open_tab(page, "Train")
    page.set_viewport_size(size)
    start.click()
    expect_seen(message, re.compile(r"“Run 1 · Subject of a sentence” has not ended\. Stop it"), in_window=True)
    boxes = [part.bounding_box() for part in (message, start)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert abs(boxes[0]["y"] - boxes[1]["y"] - boxes[1]["height"]) < 20, "beside the button"
    open_tab(page, "Fine-tune")
    page.locator("#task-stop").click()
    expect(page.locator("#task-status")).to_have_text("Stopped")
    open_tab(page, "Train")
    change_setting(page, "steps", "0")
    expect_seen(page.locator("#preview").get_by_role("alert"), "Steps is 0")
    start.click()
    expect_seen(message, "Steps is 0", in_window=True)
    expect(page.get_by_text("No text yet")).to_have_count(0)
    page.get_by_label("Recipe", exact=True).select_option("A recipe file of your own")
    start.click()
    expect_seen(message, "Choose a recipe file first.", in_window=True)
    page.get_by_label("Recipe", exact=True).select_option(index=0)
    expect(message).to_have_count(0)  # it can start now
