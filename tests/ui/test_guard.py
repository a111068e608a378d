"""Requests that are too large, too many or for nothing that the page needs do not reach Gradio."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ui.server.guard import LARGEST_FILE, LARGEST_REQUEST, MOST_AT_ONCE, MOST_PER_SECOND, Guard

QUESTION, UPLOAD = "/gradio_api/component_server", "/gradio_api/upload"


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Reads the whole body, as Gradio does, and answers 200."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})


def statuses(
    guard: Guard, path: str, *, length: int | None = None, parts: tuple[int, ...] = (0,), address: str = "::1", times=1
) -> list[int]:
    """The answers' statuses to requests of a body in parts; length: its content-length."""
    headers = [] if length is None else [(b"content-length", str(length).encode())]
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def ask() -> None:
        for _ in range(times):
            bodies = [{"type": "http.request", "body": b"x" * size, "more_body": True} for size in parts]
            bodies[-1]["more_body"] = False

            async def receive(bodies: list = bodies) -> dict[str, Any]:
                return bodies.pop(0)

            scope = {"type": "http", "path": path, "headers": headers, "client": (address, 1)}
            await guard(scope, receive, send)

    with ThreadPoolExecutor(1) as other:  # the browser tests leave an event loop in this thread
        other.submit(asyncio.run, ask()).result()
    return [message["status"] for message in sent if "status" in message]


@pytest.mark.parametrize(
    "path",
    ["/", "/config", "/theme.css", "/assets/index-1.js", "/static/fonts/a.woff2", "/gradio_api/run/predict",
     "/gradio_api/call/fill_mask", "/gradio_api/call/fill_mask/1a2b", QUESTION, "/gradio_api/queue/join",
     "/gradio_api/queue/data", UPLOAD, "/gradio_api/info", "/gradio_api/heartbeat/1a2b", "/balcony/news",
     "/gradio_api/file=/somewhere/plotly.min.js", "/gradio_api/file=C:/somewhere/plotly.min.js"],
)  # fmt: skip
def test_what_the_page_needs_passes(path: str) -> None:
    assert statuses(Guard(app), path) == [200]


@pytest.mark.parametrize(
    "path",
    ["/gradio_api/file=https://example.org/", "/gradio_api/file=http:x", "/file=/etc/passwd", "/gradio_api/monitoring",
     "/monitoring/summary", "/gradio_api/dev/reload", "/gradio_api/proxy=https://x.hf.space/", "/gradio_api/vibe-edit/",
     "/gradio_api/stream/1", "/docs", "/openapi.json", "/gradio_api/run-history/records"],
)  # fmt: skip
def test_what_the_page_does_not_need_is_closed(path: str) -> None:
    assert statuses(Guard(app), path) == [404]


@pytest.mark.parametrize(("path", "limit"), [(QUESTION, LARGEST_REQUEST), (UPLOAD, LARGEST_FILE)])
def test_a_body_has_a_limit_with_or_without_a_content_length(path: str, limit: int) -> None:
    guard = Guard(app)
    assert statuses(guard, path, length=limit) == [200]
    assert statuses(guard, path, length=limit + 1) == [413]
    half = limit // 2
    assert statuses(guard, path, parts=(half, limit - half)) == [200]
    assert statuses(guard, path, parts=(half, limit - half, 1)) == [413]
    assert statuses(guard, path, length=1, parts=(half, half, 9)) == [413]


def test_the_rate_limit_of_one_address_leaves_others_alone() -> None:
    clock = Clock()
    guard = Guard(app, clock=clock)
    most = int(MOST_AT_ONCE)
    assert statuses(guard, "/", times=most + 2) == [200] * most + [429] * 2
    assert statuses(guard, "/", address="::2") == [200]
    clock.now += 10 / MOST_PER_SECOND
    assert statuses(guard, "/", times=10).count(200) in range(8, 11)
    assert statuses(guard, "/") == [429]
    clock.now += 3600
    assert statuses(guard, "/") == [200]
