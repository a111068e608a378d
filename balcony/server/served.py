"""What an opened page costs the server before anybody asks anything: its document and its scripts.

Gradio makes the document anew for each page, which takes 80 ms of processor time. Here all pages share it, compressed
once; `Sessions` of balcony/gradio_gaps.py saves the other half.

The scripts are served as the files that they are, with the texts of the page in other languages. Their addresses have
one fingerprint of all that is served, so that a browser may keep it for good and an updated program is never served
with an old script. The page's head names the modules that its entry imports: the browser fetches them at once, and does
not have to read one to find the next.
"""

import asyncio
import functools
import gzip
import hashlib
import re
from collections.abc import Mapping, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from balcony.gradio_gaps import finish_document
from balcony.server.guard import path_of
from bert_core.config import ASSETS, PAGE
from bert_core.show import resolved

MOST_DOCUMENTS = 16  # of different hosts
_OF_ADDRESS = (b"host", b"x-forwarded", b"x-gradio")  # the beginnings of headers by which Gradio writes addresses
_OF_VISITOR = b"x-forwarded-for"  # by which it does not
ENTRY = "main.js"
FIRST = ("frame/", "lessons/lesson_bar.js", "train/")  # with the views of the page's beginning
_IMPORT = re.compile(r'^import (?:[^;"]* from )?"(\.[^"]+)";$', re.MULTILINE)


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


@functools.cache
def sources() -> dict[str, str]:
    """Every script by its path below balcony, read once: a running program keeps serving what it started with."""
    return {path.relative_to(PAGE).as_posix(): path.read_text(encoding="utf-8") for path in PAGE.rglob("*.js")}


@functools.cache
def locales() -> dict[str, str]:
    """The texts of the page in other languages, by their paths below assets."""
    return {f"locales/{path.name}": path.read_text(encoding="utf-8") for path in (ASSETS / "locales").glob("*.json")}


def needed(entry: str = ENTRY) -> list[str]:
    """An entry and the scripts that it cannot begin without."""
    found = [entry]
    for name in found:  # which grows
        found += {resolved(name, path) for path in _IMPORT.findall(sources()[name])} - {*found}
    return found


def folder() -> str:
    """Where the page finds its scripts, relative to its own address."""
    served = sorted((sources() | locales()).items())
    return f"balcony/{hashlib.sha256(repr(served).encode()).hexdigest()[:16]}"


def tag() -> str:
    """HTML that loads the entry."""
    return f'<script type="module" src="{folder()}/{ENTRY}"></script>'


def links() -> str:
    """HTML for the document's head: the browser fetches at once the entry, the views of FIRST, and what they need."""
    below, entries = folder(), [ENTRY, *(name for name in sources() if name.startswith(FIRST))]
    first = set().union(*map(needed, entries))
    return "".join(f'<link rel="modulepreload" href="{below}/{name}">' for name in sorted(first))


def script_route() -> Route:
    """GET answers with a script, or with texts."""
    keep = {"Cache-Control": "public, max-age=31536000, immutable"}
    kinds = {"text/javascript": sources(), "application/json": locales()}
    answers = {
        name: Packed(text.encode(), keep | {"Content-Type": kind})
        for kind in kinds
        for name, text in kinds[kind].items()
    }

    async def answer(request: Request) -> Packed | Response:
        return answers.get(request.path_params["name"]) or Response("There is no such script.", 404)

    return Route(f"/{folder()}/{{name:path}}", answer)
