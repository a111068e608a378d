"""The page that stands at the address while the app is loaded."""

import http.server
import socket
import struct
import threading

import pytest
from browser_steps import expect_seen
from playwright.sync_api import Browser, expect

from balcony import __main__ as command


class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<h1>Ready</h1>")


def test_the_waiting_page_is_readable_and_opens_the_app_where_the_address_points(browser: Browser) -> None:
    waiting = command.serve_waiting_page("127.0.0.1", 0)
    port = waiting.server_port
    with pytest.raises(OSError, match="in use"):
        command.serve_waiting_page("127.0.0.1", port)
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{port}/#tab=attention")
    expect_seen(page.get_by_role("status"), "Balcony is starting")
    for code, text in (("zh-CN", "正在启动"), ("ko", "시작하는 중")):
        page.evaluate("code => localStorage.setItem('balcony-language', code)", code)
        page.reload()
        expect_seen(page.get_by_role("status"), text)
        expect(page.locator("html")).to_have_attribute("lang", code)
    waiting.shutdown()
    waiting.server_close()
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Ready) as ready:
        threading.Thread(target=ready.serve_forever, args=(0.05,), daemon=True).start()
        expect(page.get_by_role("heading")).to_have_text("Ready")
        assert page.url.endswith("#tab=attention")
        page.close()
        ready.shutdown()


def test_a_browser_that_goes_away_leaves_no_trace_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = command.serve_waiting_page("127.0.0.1", 0)
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", waiting.server_port)) as browser:
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            browser.sendall(b"GET / HTTP/1.1\r\n\r\n")
    waiting.shutdown()
    waiting.server_close()  # waits for the answers
    assert capsys.readouterr().err == ""
