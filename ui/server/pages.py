"""What an opened page costs the server before anybody asks anything.

Gradio makes the document anew for each page, and a copy of all settings and values for each session: 80 ms of processor
time for the one, 60 ms on the event loop and a megabyte for the other. Here all pages share the document, and a session
has no copy: it is for links to a state of the page, which the address holds here.
"""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from gradio.blocks import Blocks
from gradio.state_holder import SessionState, StateHolder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_DOCUMENTS = 16  # of different hosts
# Relative, so that a browser finds it where the app lies below a path of its host; the same number of bytes.
_MANIFEST = b'href="/manifest.json"', b'href="manifest.json" '
_OF_ADDRESS = (b"host", b"x-forwarded", b"x-gradio")  # the beginnings of headers by which Gradio writes addresses


class Documents:
    """ASGI middleware that keeps the answer to GET / for each address of the app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._kept: dict[Any, list[Message]] = {}
        self._making = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_document = scope["type"] == "http" and (scope["method"], scope["path"]) == ("GET", "/")
        if not is_document or scope.get("query_string"):
            return await self._app(scope, receive, send)
        key = (scope.get("scheme"), *sorted(item for item in scope["headers"] if item[0].startswith(_OF_ADDRESS)))
        messages = self._kept.get(key, [])
        if not messages:
            async with self._making:  # a class that comes at once waits for the first one's
                messages = self._kept.get(key) or await self._make(key, scope, receive)
        for message in messages:
            await send(message)
        return None

    async def _make(self, key: Any, scope: Scope, receive: Receive) -> list[Message]:
        messages: list[Message] = []

        async def note(message: Message) -> None:
            if "body" in message:
                message = {**message, "body": message["body"].replace(*_MANIFEST)}
            messages.append(message)

        await self._app(scope, receive, note)
        if messages and messages[0].get("status") == 200 and not messages[-1].get("more_body"):
            self._kept[key] = messages
            while len(self._kept) > MOST_DOCUMENTS:
                del self._kept[next(iter(self._kept))]
        return messages


class Sessions(StateHolder):
    """Gradio's sessions without copies of the page."""

    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self.session_data:
            self.session_data[session_id] = _Session(self.blocks)
        return super().__getitem__(session_id)


class _Session(SessionState):
    def __init__(self, blocks: Blocks) -> None:
        super().__init__(cast(Blocks, SimpleNamespace(default_config=blocks.default_config, blocks={})))
        self.config_values = _Nothing()


class _Nothing(dict[int, dict]):
    """Forgets what is put into it, and has something empty for each key."""

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: int) -> dict:
        return {}

    def __setitem__(self, key: int, value: dict) -> None:
        pass
