"""Runs outlive a server that is killed: their visitor finds them stopped and continues them, nobody else sees them."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from browser_steps import (
    Tabs,
    assert_curve_is_whole,
    change_setting,
    expect_seen,
    open_tab,
    start,
    wait_for_points,
    wait_for_status,
    wait_until,
)
from helpers import wait
from playwright.sync_api import expect

from bert_core.config import HOME


def answers(port: int) -> bool:
    """Whether the app answers, in place of the page that waits for it."""
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/health").status == 200
    except OSError:
        return False


@contextmanager
def server(keep: Path, port: int) -> Iterator[None]:
    """A server in a process of its own, which is killed at the end of the block."""
    command = [sys.executable, str(HOME / "app.py"), "--no-browser", "--port", str(port), "--keep", str(keep)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait(lambda: answers(port))
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_a_run_of_a_killed_server_is_stopped_and_goes_on_for_its_visitor_alone(tabs: Tabs, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own = Tabs(tabs.browser, f"http://127.0.0.1:{port}/")
    with own.visits() as visit:
        with server(tmp_path, port):
            page = visit()
            change_setting(page, "steps", "100000")
            start(page)
            wait_until(page, lambda: [*tmp_path.glob("*/*/listed.json")])
        wait_for_status(page, "Connection lost")
        with server(tmp_path, port):
            wait_for_status(page, "Stopped")
            assert_curve_is_whole(page)
            page.reload()  # as Gradio does by itself, where it was asked meanwhile
            wait_for_status(page, "Stopped")
            expect_seen(page.locator(".b-reason").first, "The models of its earlier steps are lost.", in_window=True)
            step = int(re.sub(r"\D", "", page.locator("#go-on").inner_text()))
            assert 0 < step < 100_000
            page.locator("#go-on").click()
            wait_for_status(page, "Training")
            wait_for_points(page, 2)
            open_tab(page, "Compare")
            expect(page.locator("#runs-list tbody tr")).to_have_count(1)
            other = visit()
            open_tab(other, "Compare")
            expect_seen(other.locator("#runs-list"), "Each run that you start is listed here")
            expect(other.locator("#runs-list tbody tr")).to_have_count(0)
