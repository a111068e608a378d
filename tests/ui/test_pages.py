"""The document is made once for each address, and compressed once."""

import asyncio
import gzip
from typing import Any

from balcony.server.served import MOST_DOCUMENTS, Documents


class App:
    """Answers with the number of the request, in two parts."""

    def __init__(self, status: int = 200) -> None:
        self.status, self.asked = status, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        headers = [(b"content-length", b"9"), (b"content-type", b"text/html")]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"page ", "more_body": True})
        await send({"type": "http.response.body", "body": str(self.asked).encode()})


def ask(documents: Documents, path: str = "/", method: str = "GET", query: bytes = b"", **headers: str) -> str:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": named, "scheme": "http"}
    asyncio.run(documents(scope, None, send))  # type: ignore[arg-type]
    body = b"".join(message.get("body", b"") for message in sent)
    given = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    if sent[0]["status"] == 200 and path == "/" and not query and method == "GET":
        assert (given["content-length"], given["content-type"]) == (str(len(body)), "text/html")
        assert ("content-encoding" in given) == ("gzip" in headers.get("accept_encoding", ""))
    return (gzip.decompress(body) if given.get("content-encoding") == "gzip" else body).decode()


def test_a_document_is_made_once_for_each_address() -> None:
    documents = Documents(App())
    assert [ask(documents, host="a", cookie=name) for name in "xyz"] == ["page 1"] * 3
    assert ask(documents, host="b") == "page 2"
    assert ask(documents, host="a", x_forwarded_proto="https") == "page 3"
    assert ask(documents, host="a") == "page 1"
    assert ask(documents, host="a", accept_encoding="br, gzip") == "page 1"
    others = [{"path": "/config"}, {"method": "HEAD"}, {"query": b"deep_link=x"}]
    assert [ask(documents, host="a", **other) for other in others] == ["page 4", "page 5", "page 6"]


def test_few_documents_are_kept_and_no_error() -> None:
    documents = Documents(App())
    for number in range(MOST_DOCUMENTS + 1):
        ask(documents, host=str(number))
    assert ask(documents, host=str(MOST_DOCUMENTS)) == f"page {MOST_DOCUMENTS + 1}"
    assert ask(documents, host="0") == f"page {MOST_DOCUMENTS + 2}"
    broken = Documents(App(503))
    assert [ask(broken, host="a") for _ in "ab"] == ["page 1", "page 2"]


def test_a_class_that_comes_at_once_waits_for_one_document() -> None:
    app = App()
    sent: list[Any] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0)  # the others come meanwhile
        await app(scope, receive, send)

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async def come() -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [], "scheme": "http"}
        documents = Documents(slow)
        await asyncio.gather(*(documents(scope, None, send) for _ in range(30)))  # type: ignore[arg-type]

    asyncio.run(come())
    assert (app.asked, b"".join(sent).count(b"page 1")) == (1, 30)
