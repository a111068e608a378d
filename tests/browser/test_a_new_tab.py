"""The probe and the tab of CONTRIBUTING.md, followed to the letter in a copy of the program."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_steps import WAIT_MS, expect_seen, type_sentence, wait_for_question
from helpers import wait
from playwright.sync_api import Browser, Page, expect
from test_screen_reader import grave_in_each_look

ROOT = Path(__file__).resolve().parent.parent.parent
SECTION = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## A probe\n")[1]
# The last file that a paragraph names, and the block below it.
BLOCKS = re.findall(r"`((?:bert_core|balcony|assets)/[\w/]+\.\w+)`[^`]*\n\n```\w+\n(.*?)```", SECTION, re.DOTALL)


def add(path: Path, text: str) -> None:
    """Write a new file, or put more texts into a file of a language."""
    if path.suffix == ".json":
        before = path.read_text(encoding="utf-8")
        if text.rstrip() in before:
            return
        before = before.rstrip().removesuffix("}").rstrip()
        text = f"{before},\n{text}}}\n"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program with what CONTRIBUTING.md adds, where a person has not added it already."""
    root = tmp_path_factory.mktemp("balcony")
    for name in ("bert_core", "balcony", "assets"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.webp"))
    for name in ("app.py",):
        shutil.copy(ROOT / name, root)
    (root / "checkpoints").symlink_to(ROOT / "checkpoints")
    assert 3 <= len(BLOCKS) <= 5
    for name, text in BLOCKS:
        add(root / name, text)
    [line] = re.findall(r"line `([^`]+)` in `TABS`", SECTION)
    tabs = root / "balcony/app.py"
    before = tabs.read_text(encoding="utf-8")
    if f"    {line}\n" not in before:
        after = re.sub(r"^(TABS = \(\n.*?)^\)", rf"\1    {line}\n)", before, flags=re.DOTALL | re.MULTILINE)
        tabs.write_text(after, encoding="utf-8")
        assert len(after.splitlines()) == len(before.splitlines()) + 1
    return root


@pytest.fixture(scope="module")
def address(copy: Path) -> Iterator[str]:
    """The address of the page of that program."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "app.py", "--port", str(port), "--no-browser"]
    program = subprocess.Popen(command, cwd=copy, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": ""})
    url = f"http://127.0.0.1:{port}/"

    def answers() -> bool:
        assert program.poll() is None
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{url}health", timeout=5).close()
            return True
        return False

    try:
        wait(answers, every=0.1)
        yield url
    finally:
        program.terminate()
        program.wait(30)


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The page of a new visitor, without errors in its console."""
    complaints: list[str] = []
    expect.set_options(timeout=WAIT_MS)
    page = browser.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda each: complaints.append(each.text) if each.type == "error" else None)
    page.goto(address)
    yield page
    page.close()
    assert complaints == []


def test_the_tab_of_contributing_answers_the_question_as_every_other(page: Page, address: str) -> None:
    assert len(BLOCKS) == 5
    words, hint = page.locator("#movement-map .b-map-word title"), page.locator("#sentence-hint")
    page.get_by_role("tab", name="Movement").click()
    expect(words.filter(has_text="romeo")).to_have_count(1)
    type_sentence(page, "thank you romeo")
    expect(words).to_have_text(["Layer 1", "Layer 2", "[CLS]", "thank", "you", "romeo", "[SEP]"])
    expect_seen(page.locator("#movement-map .b-map-hint"), "Point at a cell")
    wait_for_question(page, tab="movement", text="thank you romeo")
    assert grave_in_each_look(page) == {}

    page.locator("#language").select_option("ko")
    expect(page.get_by_role("tab", name="이동")).to_have_attribute("aria-selected", "true")
    expect(hint).to_have_text("각 레이어가 첫 문장의 단어들을 이동시킵니다.")
    expect_seen(page.locator("#movement-map .b-map-hint"), "칸을 가리키면")
    page.locator("#language").select_option("zh-CN")
    expect(hint).to_have_text("每一层都会移动第一句话中的词。")
    page.locator("#language").select_option("en")

    page.goto("about:blank")
    page.goto(f"{address}#tab=movement&text=i+am+romeo")
    expect(words).to_have_text(["Layer 1", "Layer 2", "[CLS]", "i", "am", "romeo", "[SEP]"])
