"""The page in Chromium: one server and one browser for all browser tests, and every test begins as a new visitor."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser_steps import WAIT_MS, Tabs
from helpers import finished
from playwright.sync_api import Browser, Page, expect, sync_playwright

from bert_core.runs.run import ENDED

# The first is Chromium without windows, which takes a fifth less time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
ENDLESS = 10_000  # steps
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--proxy-server=direct://",  # the tests' servers are on this machine
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Last: their service lives until the end, and may still train for a visitor who has left.
    items.sort(key=_is_for_the_browser)
    if CHROMIUM is None:
        for item in filter(_is_for_the_browser, items):
            item.add_marker(pytest.mark.skip(reason="there is no chromium here (apt-get install chromium)"))


def _is_for_the_browser(item: pytest.Item) -> bool:
    return Path(__file__).parent in item.path.parents


@pytest.fixture(scope="session")
def service() -> Iterator[Any]:
    from bert_core import TrainingService

    class Listing(TrainingService):
        """A service that knows all its runs."""

        def __init__(self) -> None:
            super().__init__("cpu")
            self.runs: list[Any] = []

        def enlist(self, run: Any) -> None:
            self.runs.append(run)
            super().enlist(run)

    service = Listing()
    yield service
    service.close()


@contextmanager
def _runs_end(service: Any) -> Iterator[None]:
    """Stop the runs that begin inside the block: they would go on beside the tests that follow."""
    earlier = len(service.runs)
    yield
    for run in service.runs[earlier:]:
        if run.status not in ENDED:
            run.stop()
    del service.runs[earlier:]


@pytest.fixture(scope="session")
def shipped(service: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained here instead of the shipped one: so the tests judge this code and not an old file."""
    from bert_core import load_recipe, save_checkpoint

    run = finished(service.start(load_recipe("romeo-juliet").override({"training.steps": 30}), seed=1))
    folder = tmp_path_factory.mktemp("checkpoints") / "romeo-juliet"
    save_checkpoint(run.snapshots[-1].checkpoint(), folder)
    return folder


def _pace_of_first(training: Any) -> float | None:
    """Full speed, except that a visitor's first run without an end leaves the processor to the pages."""
    return 25 if training.total_steps >= ENDLESS else None


@pytest.fixture(scope="session")
def address(service: Any, shipped: Path) -> Iterator[str]:
    """The address of the served page."""
    import balcony.app
    import balcony.train.tab

    balcony.train.tab.pace_of_first = _pace_of_first
    app, url, _ = balcony.launch(
        service, shipped=[shipped], server_name="127.0.0.1", prevent_thread_lock=True, quiet=True
    )
    yield url
    app.get_blocks().close(verbose=False)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def tabs(browser: Browser, address: str) -> Tabs:
    expect.set_options(timeout=WAIT_MS)
    return Tabs(browser, address)


@pytest.fixture
def complaints(tabs: Tabs) -> Iterator[list[str]]:
    """Errors in the console of any tab; one that the test does not remove fails it."""
    tabs.complaints.clear()
    yield tabs.complaints
    assert tabs.complaints == []


@pytest.fixture
def visit(tabs: Tabs, service: Any, complaints: list[str]) -> Iterator[Callable[..., Page]]:
    """Open the page: `visit()` as a new visitor, `visit(page.context)` in another browser tab of the same visitor."""
    with _runs_end(service), tabs.visits() as visit:
        yield visit


@pytest.fixture(scope="module")
def shared(tabs: Tabs, service: Any) -> Iterator[Page]:
    """The page of one visitor for all tests of a module, each of which begins at an address (`show`)."""
    tabs.complaints.clear()
    with _runs_end(service), tabs.visits() as visit:
        page = visit()
        assert tabs.complaints == []
        yield page


@pytest.fixture
def page(visit: Callable[..., Page]) -> Page:
    """The page of a new visitor."""
    return visit()
