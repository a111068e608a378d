"""What the page asks of the server. One request names any number of answers; each comes as a line once it is ready.

The route is our own: Gradio's call of a Python function takes several times as long as a short answer, and a roomful of
pages polls.
"""

import asyncio
import contextvars
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gradio.routes import ORJSONResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from balcony.frame.page_request import PageRequest
from balcony.handlers import MALFORMED, sentence_of
from balcony.server.workspace import Workspace
from balcony.server.workspaces import Workspaces
from bert_core.errors import InputError

ADDRESS = "/balcony/ask"
MOST_ASKED = 64  # of one request
MOST_THREADS = 256  # more than wait for a probe


class Answers:
    """The functions that the page may ask, by name. Each gets the visitor's question and the JSON values that the page
    sends, once they are of the types that it names, and returns JSON. An error's sentence comes as {"error"}.

    A coroutine function answers on the event loop, where handing short work to a thread takes longer than that.
    """

    def __init__(self, workspaces: Workspaces) -> None:
        self.workspaces = workspaces
        self._functions: dict[str, tuple[Callable[..., Any], list[inspect.Parameter]]] = {}
        self._threads = ThreadPoolExecutor(MOST_THREADS, "answer")

    def add(self, name: str, function: Callable[..., Any]) -> None:
        """Let the page ask a function by a name that no other has."""
        assert name not in self._functions, name
        _, *named = inspect.signature(function, eval_str=True).parameters.values()
        self._functions[name] = function, named

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def route(self) -> Route:
        """POST {"visitor", "question", "asks": [[name, *values], ...]} returns a line [index, value] for each ask."""
        return Route(ADDRESS, self._serve, methods=["POST"])

    async def _serve(self, request: Request) -> JSONResponse | StreamingResponse:
        try:
            sent = await request.json()
            asks = [(name, values) for name, *values in sent["asks"]]
            find = functools.partial(self.asked, sent["visitor"], sent["question"])
            if len(asks) > MOST_ASKED or not all(isinstance(ask, list) for ask in sent["asks"]):
                raise ValueError
        except (ValueError, TypeError, KeyError, RecursionError):
            return JSONResponse({"error": MALFORMED}, 400)
        # Where runs are kept, those of a visitor who comes back are read from files first.
        asked = (
            await asyncio.get_running_loop().run_in_executor(self._threads, find) if self.workspaces.kept else find()
        )
        headers = {"X-Accel-Buffering": "no"}  # nginx would hold lines back until the last one is there
        return StreamingResponse(self._lines(asked, asks), headers=headers, media_type="application/x-ndjson")

    def asked(self, token: Any, question: object) -> PageRequest:
        return PageRequest(self.workspaces, self.workspaces.lookup(token) or Workspace(""), question)

    async def _lines(self, asked: PageRequest, asks: Sequence[tuple[Any, list[Any]]]) -> AsyncIterator[bytes]:
        async def line(index: int, name: Any, values: list[Any]) -> bytes:
            # As it is: the framework would copy each number of a large answer.
            return b"[%d,%s]\n" % (index, ORJSONResponse(await self.answer(asked, name, values)).body)

        tasks = [asyncio.create_task(line(index, *ask)) for index, ask in enumerate(asks)]
        try:
            for done in asyncio.as_completed(tasks):
                yield await done
        finally:  # the page may be gone
            for task in tasks:
                task.cancel()

    async def answer(self, asked: PageRequest, name: Any, values: Sequence[Any]) -> Any:
        """What a function answers, or {"error": sentence}; {} for one that returns nothing."""
        try:
            if not isinstance(name, str) or name not in self._functions:
                raise InputError(MALFORMED)
            function, named = self._functions[name]
            if not _fits(named, values):
                raise InputError(MALFORMED)
            if inspect.iscoroutinefunction(function):
                found = await function(asked, *values)
            else:
                work = functools.partial(contextvars.copy_context().run, function, asked, *values)
                found = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # the page must answer in any case, also to a panic of a library in Rust
            return {"error": sentence_of(error)}
        return {} if found is None else found


def _fits(named: Sequence[inspect.Parameter], values: Sequence[Any]) -> bool:
    """Whether the values are as many, and of the types, as the function takes after the question."""
    needed = sum(each.default is each.empty for each in named)
    is_whole = needed <= len(values) <= len(named)
    return is_whole and all(isinstance(value, each.annotation) for value, each in zip(values, named))
