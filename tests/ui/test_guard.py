"""Requests that are too large, too slow, too many, foreign, or for nothing that the page needs do not reach Gradio."""

import asyncio
import dataclasses
import json
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from balcony.server import guard as module
from balcony.server.guard import (
    ADDRESS_BURST,
    COST_OF_A_NEW_PAGE,
    COST_OF_FILE,
    DEEPEST,
    LARGEST_QUESTION,
    LONGEST_SESSION,
    MOST_UPLOADS_AT_ONCE,
    PAGE_BURST,
    PAGE_RATE,
    UPLOADS_AN_HOUR,
    UPLOADS_AT_ONCE,
    Guard,
)
from balcony.server.probe_lock import asker
from bert_core.config import LOCAL, PUBLIC

QUESTION, UPLOAD = "/balcony/ask", "/gradio_api/upload"
HOSTS = ("127.0.0.1", "localhost", "::1")


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Reads the whole body, as Gradio does, and answers 200."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})


def run(work: Any) -> Any:
    with ThreadPoolExecutor(1) as other:  # the browser tests leave an event loop in this thread
        return other.submit(asyncio.run, work).result()


async def ask(guard: Guard, path: str, messages: list[Any], *, method: str = "POST", **scope: Any) -> tuple[int, str]:
    """Status and body of the answer. messages: what the server receives, then silence."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        await asyncio.sleep(60)
        raise AssertionError("it waits for more than there is")

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(name.encode(), value.encode()) for name, value in scope.pop("headers", {}).items()]
    given = {"type": "http", "method": method, "path": path, "headers": headers, "client": ("::1", 1)} | scope
    await guard(given, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent).decode()


def parts(*sizes: int) -> list[dict[str, Any]]:
    bodies = [{"type": "http.request", "body": b" " * size, "more_body": True} for size in sizes]
    bodies[-1]["more_body"] = False
    return bodies


def question(content: Any) -> list[dict[str, Any]]:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return [{"type": "http.request", "body": body, "more_body": False}]


def status(guard: Guard, path: str, messages: list[Any] | None = None, **options: Any) -> int:
    return run(ask(guard, path, messages or parts(0), **options))[0]


@pytest.mark.parametrize(
    "path",
    ["/", "/config", "/health", "/theme.css", "/assets/index-1.js", "/static/fonts/a.woff2",
     "/gradio_api/run/predict", "/gradio_api/call/fill_mask", "/gradio_api/call/fill_mask/1a2b", QUESTION,
     "/gradio_api/queue/join", "/gradio_api/queue/data", UPLOAD, "/gradio_api/info", "/gradio_api/heartbeat/1a2b",
     "/gradio_api/file=/somewhere/plotly.min.js", "/gradio_api/file=C:/somewhere/plotly.min.js"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_the_page_needs_passes(path: str, method: str) -> None:
    assert status(Guard(app), path, method=method) == 200


@pytest.mark.parametrize(
    "path",
    ["/gradio_api/file=https://example.org/", "/gradio_api/file=http:x", "/gradio_api/file= https://example.org/",
     "/gradio_api/file/https://example.org/", "/gradio_api/file/etc/passwd", "/gradio_api/deep_link",
     "/monitoring", "/monitoring/summary", "/gradio_api/component_server", "/gradio_api/dev/reload", "/gradio_api/proxy=https://x.hf.space/",
     "/gradio_api/vibe-edit/", "/gradio_api/undo-vibe-edit", "/gradio_api/vibe-code",
     "/gradio_api/stream/1", "/gradio_api/process_recording", "/pwa_icon", "/pwa_icon/20000", "/pwa_icon/192000"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_may_do_harm_is_closed(path: str, method: str) -> None:
    assert status(Guard(app), path, method=method) == 404
    assert status(Guard(app), f"/below{path}", method=method, root_path="/below") == 404


# Routes of Gradio that were looked at and may stay open. A new version may bring another one.
HARMLESS = re.compile(
    r"/(|config/?|theme\.css|favicon\.ico|manifest\.json|robots\.txt|pwa_icon/.*|(static|assets|svelte)/.*"
    r"|login/?|logout"  # there are no users
    r"|gradio_api/((run|api|call)/.*|queue/(join|data|status)|upload|upload_progress|info/?|app_id/?"
    r"|reset/?|cancel|startup-events|heartbeat/.*|file=.*|theme\.css|openapi\.json|login_check/?|token/?|user/?"
    r"|custom_component/.*"  # the page has none
    r"|runs/?|run-history/.*))"  # `launch` switches them off
)


def test_every_route_of_gradio_is_refused_or_was_looked_at() -> None:
    with gr.Blocks() as demo:
        gr.HTML()
    routes = gr.routes.App.create_app(demo).openapi()["paths"]
    assert len(routes) > 50
    assert [path for path in routes if not HARMLESS.fullmatch(path) and status(Guard(app), path) != 404] == []


def test_a_body_has_a_limit_with_or_without_a_content_length() -> None:
    limits = dataclasses.replace(PUBLIC, upload_bytes=2**18)
    for path, limit in ((QUESTION, LARGEST_QUESTION), (UPLOAD, limits.upload_bytes + 2**16)):
        guard = Guard(app, limits=limits)
        half, valid = limit // 2, question(b'{"a": 1' + b" " * (limit - 8) + b"}")
        assert status(guard, path, list(valid), headers={"content-length": str(limit)}) == 200
        assert status(guard, path, headers={"content-length": str(limit + 1)}) == 413
        assert status(guard, path, headers={"content-length": "9" * 5000}) == 413
        assert status(guard, path, headers={"content-length": "-1"}) == 400
        assert status(guard, path, parts(half, limit - half, 1)) == 413
        assert status(guard, path, parts(half, half, 9), headers={"content-length": "1"}) == 413
    assert status(Guard(app, limits=LOCAL), QUESTION, question(b'"' + b"x" * 2 * LARGEST_QUESTION + b'"')) == 200


FILE = {"meta": {"_type": "gradio.FileData"}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 200_000 + b"]" * 200_000, "nested"),
        (b"[" * (DEEPEST + 2) + b"]" * (DEEPEST + 2), "nested"),
        (b"\xff", "not valid JSON"),
        (b'{"session_hash":', "not valid JSON"),
        ({"session_hash": 7}, "not a text"),
        ({"session_hash": ["x"]}, "not a text"),
        ({"session_hash": "x" * (LONGEST_SESSION + 1)}, "64 characters"),
        ({"session_hash": "a b"}, "odd ones"),
        *[
            ({"data": [[{"a": FILE | {"path": path}}]]}, "is uploaded, not named by its web address")
            for path in (
                "http://127.0.0.1/x",
                " HTTPS://x.org",
                "ftp://x",
                "//x.org/y",
                "\\\\x\\y",
                "file:///etc/passwd",
            )
        ],
    ],
)
def test_a_malformed_question_is_refused(content: Any, message: str) -> None:
    answer = run(ask(Guard(app), "/gradio_api/run/predict", question(content)))
    assert answer[0] == 400
    assert message in answer[1]


@pytest.mark.parametrize(
    "content",
    [{"session_hash": "x" * LONGEST_SESSION}, {"session_hash": None}, [1, 2], "text", {"data": ["http://in.a.text"]},
     {"data": [FILE | {"path": "/tmp/gradio/a.txt", "url": "http://127.0.0.1:7860/gradio_api/file=/tmp/gradio/a.txt"}]},
     {"data": [FILE | {"path": "C:\\Temp\\a.txt"}]}, {"data": [{"path": {"a": 1}}, {"path": None}]}],
)  # fmt: skip
def test_what_pages_send_passes_whole(content: Any) -> None:
    seen: list[Any] = []

    async def reader(scope: Any, receive: Any, send: Any) -> None:
        seen.append(json.loads((await receive())["body"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})

    assert status(Guard(reader), "/gradio_api/run/predict", question(content)) == 200
    assert seen == [content]


def test_another_site_may_not_post() -> None:
    for guard in (Guard(app, hosts=HOSTS), Guard(app)):
        assert status(guard, QUESTION, headers={"sec-fetch-site": "cross-site"}) == 403
        assert status(guard, QUESTION, headers={"sec-fetch-site": "same-origin"}) == 200
        assert status(guard, "/", method="GET", headers={"sec-fetch-site": "cross-site"}) == 200
    for origin in ("https://attacker.example", "null"):
        assert status(Guard(app, hosts=HOSTS), QUESTION, headers={"origin": origin}) == 403
    assert status(Guard(app, hosts=HOSTS), QUESTION, headers={"origin": "http://localhost:7860"}) == 200


def test_a_page_that_floods_leaves_the_others_at_its_address_alone() -> None:
    clock = Clock()
    guard = Guard(app, clock=clock)

    async def asked(session: str, times: int) -> list[int]:
        return [(await ask(guard, QUESTION, question({"session_hash": session})))[0] for _ in range(times)]

    most = int(PAGE_BURST)
    assert run(asked("a", most + 2)) == [200] * most + [429] * 2
    nobodys = [status(guard, QUESTION, question([])) for _ in range(most + 1)]
    assert nobodys.count(200) == most
    assert run(asked("", 1)) == [429]
    visitors = [status(guard, QUESTION, question({"visitor": f"visitor{n}"})) for n in range(40)]
    assert visitors == [200] * 40
    assert run(asked("b", 1)) == [200]
    assert status(guard, "/", method="GET") == 200
    clock.now += 10 / PAGE_RATE
    assert run(asked("a", 12)).count(200) in range(9, 12)
    clock.now += 3600
    assert run(asked("a", 1)) == [200]


def test_new_pages_cost_an_address_more_than_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Guard(app, clock=Clock())

    async def open_pages() -> int:
        for number in range(10_000):
            path = f"/gradio_api/heartbeat/page{number}"
            if (await ask(guard, path, parts(0), method="GET"))[0] == 429:
                return number
        raise AssertionError

    assert run(open_pages()) == int(ADDRESS_BURST / (COST_OF_A_NEW_PAGE + COST_OF_FILE))
    assert status(guard, "/", method="GET", client=("::2", 1)) == 200
    monkeypatch.setattr(module, "MOST_KEYS", 3)
    for number in range(9):
        status(guard, "/", method="GET", client=(f"::{number}", 1))
    assert len(guard._addresses._levels) == 3


def test_an_upload_reaches_gradio_when_it_is_complete_and_leaves_nothing_when_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "SECONDS", 0.05)
    received: list[bytes] = []

    async def reader(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["body"]:
            received.append(message["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    guard = Guard(reader, limits=PUBLIC, clock=Clock())
    assert status(guard, UPLOAD, parts(3, 5, 2**19)) == 200
    assert len(b"".join(received)) == 8 + 2**19
    received.clear()
    assert status(guard, UPLOAD, [*parts(7, 7)[:1], {"type": "http.disconnect"}]) == 499
    assert status(guard, UPLOAD, parts(7, 7)[:1]) == 408, "it has stalled"
    assert (received, list(tmp_path.iterdir()), guard._uploading.total()) == ([], [], 0)
    monkeypatch.setattr(module, "FREE_DISK", 2**80)
    assert status(guard, UPLOAD, parts(1)) == 507


def test_uploads_have_a_quota_by_address_and_a_number_at_once() -> None:
    limits = dataclasses.replace(PUBLIC, upload_bytes=100)
    guard, clock = Guard(app, limits=limits, clock=(clock := Clock())), clock
    assert [status(guard, UPLOAD, parts(60 * UPLOADS_AN_HOUR // 2)) for _ in range(4)] == [200, 200, 200, 429]
    assert status(guard, UPLOAD, parts(60), client=("::2", 1)) == 200
    clock.now += 3600
    assert status(guard, UPLOAD, parts(60)) == 200
    guard._uploading["::1"] = UPLOADS_AT_ONCE
    assert status(guard, UPLOAD, parts(60)) == 503
    assert status(guard, UPLOAD, parts(60), client=("::2", 1)) == 200
    assert list(guard._uploading) == ["::1"]
    guard._uploading["::3"] = MOST_UPLOADS_AT_ONCE
    assert status(guard, UPLOAD, parts(60), client=("::2", 1)) == 503


@pytest.mark.parametrize(("path", "is_known"), [("/gradio_api/run/predict", True), ("/gradio_api/queue/join", False)])
def test_the_handlers_of_a_page_know_when_it_is_gone(path: str, is_known: bool) -> None:
    found: list[Any] = []

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        if sender := asker.get():
            found.append((sender.page, sender.is_gone))
            await receive()
            assert (await receive())["type"] == "http.disconnect"
            found.append((sender.page, sender.is_gone))
        await send({"type": "http.response.start", "status": 200, "headers": []})

    status(Guard(handler), path, [*question({"session_hash": "abc"}), {"type": "http.disconnect"}])
    assert found == ([("abc", False), ("abc", True)] if is_known else [])
    assert asker.get() is None
