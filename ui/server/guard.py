"""What is refused before Gradio sees it: requests that are too large, too many, or for what the page does not need.

Gradio's own limit counts the bytes of files alone, not those of form fields and JSON.
"""

import re
import time
from collections.abc import Callable

from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LARGEST_FILE = 256 * 2**20
LARGEST_QUESTION = 16 * 2**20  # a pasted text
# Requests of one address: a class sits behind one, and a page that is opened asks for some sixty files at once.
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
        self._files = RequestBodyLimitMiddleware(app, LARGEST_FILE)
        self._questions = RequestBodyLimitMiddleware(app, LARGEST_QUESTION)
        self._clock = clock
        self._asked: dict[str, tuple[float, float]] = {}  # address -> requests not yet forgiven, at what time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._questions
        if scope["type"] != "http":
            app = self._app
        elif not _NEEDED.fullmatch(scope["path"]):
            app = PlainTextResponse("There is nothing here.", 404)
        elif self._is_too_eager((scope.get("client") or ("",))[0]):
            app = PlainTextResponse("Too many requests; wait a moment.", 429)
        elif scope["path"].startswith(_UPLOADS):
            app = self._files
        await app(scope, receive, send)

    def _is_too_eager(self, address: str) -> bool:
        """Count a request, into a bucket of MOST_AT_ONCE that runs dry at MOST_PER_SECOND."""
        now = self._clock()
        asked, then = self._asked.pop(address, (0.0, now))
        asked = max(0.0, asked - (now - then) * MOST_PER_SECOND) + 1
        self._asked[address] = min(asked, MOST_AT_ONCE + 1), now  # asked last stands last
        while len(self._asked) > MOST_ADDRESSES:
            del self._asked[next(iter(self._asked))]
        return asked > MOST_AT_ONCE
