"""What an opened page costs the server before anybody asks anything.

Gradio makes the document anew for each page, which takes 80 ms of processor time. Here all pages share it, compressed
once; `Sessions` of balcony/gradio_gaps.py saves the other half.
"""

import asyncio
import gzip
from collections.abc import Mapping, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from balcony.gradio_gaps import finish_document
from balcony.server.guard import path_of

MOST_DOCUMENTS = 16  # of different hosts
_OF_ADDRESS = (b"host", b"x-forwarded", b"x-gradio")  # the beginnings of headers by which Gradio writes addresses
_OF_VISITOR = b"x-forwarded-for"  # by which it does not


class Packed:
    """An answer that is compressed once for everybody who asks. headers: beside those of its size and encoding."""

    def __init__(self, body: bytes, headers: Mapping[str, str]) -> None:
        self._body, self._headers = gzip.compress(body), headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, body = {**self._headers, "Vary": "Accept-Encoding"}, self._body
        if "gzip" in Headers(scope=scope).get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
        else:
            body = gzip.decompress(body)
        await Response(body, headers=headers)(scope, receive, send)


class Documents:
    """ASGI middleware that keeps the answer to GET / for each address of the app. links: for the document's head."""

    def __init__(self, app: ASGIApp, links: str = "") -> None:
        self._app, self._links = app, links
        self._kept: dict[Any, Packed] = {}
        self._making = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_document = scope["type"] == "http" and (scope["method"], path_of(scope)) == ("GET", "/")
        if not is_document or scope.get("query_string"):
            return await self._app(scope, receive, send)
        of_address = (item for item in scope["headers"] if item[0].startswith(_OF_ADDRESS) and item[0] != _OF_VISITOR)
        key = (scope.get("scheme"), *sorted(of_address))
        if key not in self._kept:
            async with self._making:  # a class that comes at once waits for the first one's
                if key not in self._kept and not await self._make(key, scope, receive, send):
                    return None
        return await self._kept[key](scope, receive, send)

    async def _make(self, key: Any, scope: Scope, receive: Receive, send: Send) -> bool:
        """Keep the app's answer; one that is no document is sent, and False is returned."""
        messages: list[MutableMapping[str, Any]] = []

        async def note(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, note)
        if not messages or messages[0].get("status") != 200 or messages[-1].get("more_body"):
            for message in messages:
                await send(message)
            return False
        headers = MutableHeaders(raw=messages[0]["headers"])
        del headers["content-length"]
        body = b"".join(message.get("body", b"") for message in messages)
        self._kept[key] = Packed(finish_document(body, self._links), headers)
        if len(self._kept) > MOST_DOCUMENTS:
            del self._kept[next(iter(self._kept))]
        return True
