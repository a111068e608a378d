"""Refuses requests before Gradio sees them: too large, too many, or for addresses that the page does not need.

Gradio's own limit counts the bytes of files only, not those of form fields and JSON.
"""

import re
import time
from collections.abc import Callable

from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LARGEST_FILE = 256 * 2**20
LARGEST_REQUEST = 16 * 2**20  # a pasted text
# Requests of one address: a whole class may share one, and opening the page takes some 110 requests.
MOST_PER_SECOND, MOST_AT_ONCE = 500.0, 4000.0
MOST_ADDRESSES = 4096
_NEEDED = re.compile(
    r"/(|config|theme\.css|favicon\.ico|manifest\.json|robots\.txt|(static|assets|svelte|balcony)/.*"
    r"|gradio_api/((run|api|call)/.*|component_server|queue/(join|data)|upload|upload_progress|info|app_id|reset|cancel"
    r"|startup-events|heartbeat/\w+|file=(?!\w\w+:).*))/?"
)
_UPLOADS = "/gradio_api/upload"


class Guard:
    """ASGI middleware. clock: monotonic seconds."""

    def __init__(self, app: ASGIApp, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._uploads = RequestBodyLimitMiddleware(app, LARGEST_FILE)
        self._requests = RequestBodyLimitMiddleware(app, LARGEST_REQUEST)
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}  # address -> level of its bucket, seconds of its last request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app: ASGIApp = self._requests
        if scope["type"] != "http":
            app = self._app
        elif not _NEEDED.fullmatch(scope["path"]):
            app = PlainTextResponse("There is nothing here.", 404)
        elif self._asks_too_often((scope.get("client") or ("",))[0]):
            app = PlainTextResponse("Too many requests; wait a moment.", 429)
        elif scope["path"].startswith(_UPLOADS):
            app = self._uploads
        await app(scope, receive, send)

    def _asks_too_often(self, address: str) -> bool:
        """Count a request in a leaky bucket that holds MOST_AT_ONCE and empties at MOST_PER_SECOND."""
        now = self._clock()
        level, last = self._levels.pop(address, (0.0, now))
        level = max(0.0, level - (now - last) * MOST_PER_SECOND) + 1
        self._levels[address] = min(level, MOST_AT_ONCE + 1), now  # the most recent address comes last
        while len(self._levels) > MOST_ADDRESSES:
            del self._levels[next(iter(self._levels))]
        return level > MOST_AT_ONCE
