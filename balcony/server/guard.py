"""Refuses requests before Gradio sees them: too large, slow or many, from another site, or for what may do harm.

A body reaches Gradio only when it is complete: of a question in memory, of an upload in a temporary file that vanishes
when the sender gives up. Gradio's own limit counts the bytes of files only, not those of form fields and JSON, and it
would fetch a file that is named by a web address.
"""

import asyncio
import json
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import IO, Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from balcony.server.probe_lock import Asker, asker
from bert_core.config import LOCAL, Limits
from bert_core.errors import megabytes

LARGEST_QUESTION = 2**20  # or a 64th of the largest upload: on one's own machine, a long pasted text
LONGEST_SESSION = 64  # characters
DEEPEST = 64  # lists and objects within each other
# Rates are of costs. Opening a page costs some 60; a page that is used, a few a second. What a view asks names
# the visitor instead of the page and has a bucket of its own. All visitors behind a proxy have one address.
COSTS = {"/gradio_api/upload": 20.0, "/gradio_api/call": 5.0, "/gradio_api/queue/join": 5.0, "/gradio_api/run": 2.0}
ASKS = "/balcony/ask"
COST, COST_OF_FILE, COST_OF_A_NEW_PAGE = 1.0, 0.2, 50.0
PAGE_RATE, PAGE_BURST = 15.0, 300.0  # all questions of an address that name no page count as those of one
ADDRESS_RATE, ADDRESS_BURST = 2_000.0, 20_000.0
MOST_KEYS = 16_384  # pages and addresses
# Uploads of one address.
UPLOADS_AN_HOUR = 60  # as large as they may be
UPLOADS_AT_ONCE, MOST_UPLOADS_AT_ONCE = 8, 64  # of one address, of all
FREE_DISK = 2**30
SECONDS, SLOWEST = 20.0, 16_384  # in which a request is here; it also has a second for each SLOWEST bytes
# Beginnings of routes of Gradio that no page needs, and what they would do for whoever asks.
REFUSED = {
    r"gradio_api/file(/|=\s*\w\w+:)": "fetch a file that is named by a web address",
    r"gradio_api/proxy=": "fetch a page of another server",
    r"gradio_api/process_recording": "write files that count towards no limit",
    r"gradio_api/deep_link": "write what a session shows to the disk",
    r"gradio_api/(undo-)?vibe-": "change the program",
    r"gradio_api/stream/": "change or end what another session has asked",
    r"gradio_api/component_server": "call functions that no part of the page has",
    r"gradio_api/dev/": "keep a connection busy until the browser closes it",
    r"gradio_api/profiling/|monitoring": "show how others use the page",
    r"pwa_icon(?!/(192|512)$)": "draw an icon as large as the address says",
}
_REFUSED = re.compile(f"/({'|'.join(REFUSED)})")
_WEB_ADDRESS = re.compile(r"\s*([A-Za-z][\w+.-]+:|//|\\\\)")
_SESSION = re.compile(rf"[\w-]{{0,{LONGEST_SESSION}}}")
_UPLOADS = "/gradio_api/upload"
_IS_DIRECT = re.compile(f"/gradio_api/run/|{ASKS}")


class _Refused(Exception):
    """The status and the sentence of an answer."""

    def __init__(self, status: int, sentence: str) -> None:
        self.answer = PlainTextResponse(sentence, status)


class Buckets:
    """Leaky buckets by key, of which the oldest are forgotten."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self._levels: dict[Any, tuple[float, float]] = {}  # key -> level, seconds of the last request

    def __contains__(self, key: Any) -> bool:
        return key in self._levels

    def is_full(self, key: Any, cost: float, now: float) -> bool:
        """Add a cost to a bucket, which empties at `rate`; whether it does not hold it."""
        level, last = self._levels.pop(key, (0.0, now))
        level = max(0.0, level - (now - last) * self.rate)
        is_full = level + cost > self.burst
        self._levels[key] = level if is_full else level + cost, now  # the most recent key comes last
        while len(self._levels) > MOST_KEYS:
            del self._levels[next(iter(self._levels))]
        return is_full


class Guard:
    """ASGI middleware. limits: of uploads. hosts: of the sites that may send something, None for all but those that a
    browser calls another site. clock: monotonic seconds."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits = LOCAL,
        hosts: Collection[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._limits, self._hosts, self._clock = app, limits, hosts, clock
        self._pages, self._addresses = Buckets(PAGE_RATE, PAGE_BURST), Buckets(ADDRESS_RATE, ADDRESS_BURST)
        most = float(UPLOADS_AN_HOUR * limits.upload_bytes)
        self._uploaded = Buckets(most / 3600, most)
        self._uploading: Counter[str] = Counter()  # by address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            self._check_sender(scope)
            if scope.get("method") != "POST":
                self._count(scope, _query_session(scope), COST_OF_FILE)
                await self._app(scope, receive, send)
            elif path_of(scope).startswith(_UPLOADS):
                await self._upload(scope, receive, send)
            else:
                await self._question(scope, receive, send)
        except _Refused as refused:
            await refused.answer(scope, receive, send)

    def _check_sender(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        origin = headers.get("origin", "")
        if _REFUSED.match(path_of(scope)):
            raise _Refused(404, "There is nothing here.")
        is_foreign = headers.get("sec-fetch-site") == "cross-site"
        is_foreign |= bool(origin) and self._hosts is not None and urlsplit(origin).hostname not in self._hosts
        if scope.get("method") == "POST" and is_foreign:
            raise _Refused(403, "Another site may not send this.")

    def _count(self, scope: Scope, session: str, cost: float) -> None:
        now, address = self._clock(), _address(scope)
        if not _SESSION.fullmatch(session):
            raise _Refused(400, f"The session's name has more than {LONGEST_SESSION} characters, or odd ones.")
        page = (address, session)
        is_new = bool(session) and page not in self._pages
        is_too_much = self._addresses.is_full(address, cost + is_new * COST_OF_A_NEW_PAGE, now)
        if is_too_much or (session and self._pages.is_full(page, cost, now)):
            raise _Refused(429, "Too many requests; wait a moment.")

    async def _question(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()
        largest = max(LARGEST_QUESTION, self._limits.upload_bytes // 64)
        await self._read(scope, receive, body.extend, largest)
        session, asks = _checked_question(bytes(body)) if body else ("", 1)
        path = path_of(scope)
        cost = next((cost for start, cost in COSTS.items() if path.startswith(start)), COST)
        self._count(scope, session or _query_session(scope) or "-", asks * cost)
        sent = [{"type": "http.request", "body": bytes(body), "more_body": False}]
        sender = Asker(session or _address(scope))  # all questions of an address that name no page are those of one

        async def until_gone() -> Message:
            while (message := await receive())["type"] != "http.disconnect":
                pass
            sender.is_gone = True
            return message

        gone = asyncio.create_task(until_gone())
        # Gradio's queue works in other contexts, which may outlive this one.
        token = asker.set(sender if _IS_DIRECT.match(path) else None)

        async def replay() -> Message:
            return sent.pop() if sent else await asyncio.shield(gone)

        try:
            await self._app(scope, replay, send)
        finally:
            asker.reset(token)
            gone.cancel()

    async def _upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._count(scope, _query_session(scope), COSTS[_UPLOADS])
        limit, now, address = self._limits.upload_bytes, self._clock(), _address(scope)
        if self._uploading[address] >= UPLOADS_AT_ONCE or self._uploading.total() >= MOST_UPLOADS_AT_ONCE:
            raise _Refused(503, "Others upload files now; try again in a moment.")
        if shutil.disk_usage(tempfile.gettempdir()).free < FREE_DISK + 2 * limit:
            raise _Refused(507, "The disk is full; the file was not kept.")
        self._uploading[address] += 1
        try:
            with tempfile.TemporaryFile() as file:
                await self._read(scope, receive, file.write, limit + 2**16)
                if self._uploaded.is_full(address, file.tell(), now):
                    raise _Refused(429, f"Too many files in an hour: {megabytes(int(self._uploaded.burst))} at most.")
                file.seek(0)
                await self._app(scope, _file_replay(file), send)
        finally:
            self._uploading[address] -= 1
            self._uploading += Counter()  # forgets addresses without an upload

    async def _read(self, scope: Scope, receive: Receive, keep: Callable[[bytes], Any], limit: int) -> None:
        """Hand a body of at most so many bytes to `keep` in parts."""
        too_large = _Refused(413, f"This has more than {megabytes(limit)}, which is the limit here.")
        for length in (value for name, value in scope["headers"] if name == b"content-length"):
            if not length.isdigit():
                raise _Refused(400, "The length of this request is not a number.")
            if int(length[:20]) > limit:
                raise too_large
        deadline, count = asyncio.get_running_loop().time() + SECONDS, 0
        while True:
            try:
                async with asyncio.timeout_at(deadline + count / SLOWEST):
                    message = await receive()
            except TimeoutError:
                raise _Refused(408, "This request took too long to arrive; try again.") from None
            if message["type"] == "http.disconnect":
                raise _Refused(499, "The sender is gone.")
            part = message.get("body", b"")
            count += len(part)
            if count > limit:
                raise too_large
            keep(part)
            if not message.get("more_body"):
                return


def _file_replay(file: IO[bytes]) -> Receive:
    async def replay() -> Message:
        part = file.read(2**18)
        return {"type": "http.request", "body": part, "more_body": bool(part)}

    return replay


def path_of(scope: Scope) -> str:
    """The part of the path by which Gradio finds a route."""
    return scope["path"].removeprefix(scope.get("root_path", ""))  # which not every proxy takes away


def _address(scope: Scope) -> str:
    return (scope.get("client") or ("",))[0]


def _query_session(scope: Scope) -> str:
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    return query.get("session_hash", [""])[0] or scope["path"].partition("/heartbeat/")[2].rstrip("/")


def _checked_question(body: bytes) -> tuple[str, int]:
    """The session, or the visitor, of a question in JSON, and for how many answers it asks. Refuses one that is
    malformed, too deep, or names a file by a web address."""
    try:
        question = json.loads(body)
    except (ValueError, RecursionError):
        raise _Refused(400, "This request is not valid JSON, or it is nested too deeply.") from None
    found, depth = [question], 0
    while found:
        if depth > DEEPEST:
            raise _Refused(400, f"This request is nested more than {DEEPEST} times.")
        paths = [item.get("path") for item in found if isinstance(item, dict)]
        if any(isinstance(path, str) and _WEB_ADDRESS.match(path) for path in paths):
            raise _Refused(400, "A file is uploaded, not named by its web address.")
        nested = (item.values() if isinstance(item, dict) else item for item in found)
        found, depth = [each for items in nested for each in items if isinstance(each, dict | list)], depth + 1
    named = question if isinstance(question, dict) else {}
    session, asks = named.get("session_hash", named.get("visitor")), named.get("asks")
    if not isinstance(session, str | None):
        raise _Refused(400, "The name of the session is not a text.")
    return session or "", max(1, len(asks)) if isinstance(asks, list) else 1
