"""A class for benchmarks/app.py: people who train, share their runs on the board, guess, and follow the board."""

import argparse
import http.client
import itertools
import json
import random
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from crowd import COMING_SECONDS, Crowd
from serving import PATIENCE, Server, Visitor, row, spread

POLL_SECONDS = 1.8  # as in balcony/classroom/state.js
STEPS = 30  # of a run
TOKEN = "teacher-of-this-class"


class Class(Crowd):
    """A crowd on the dialogue, each of whom shares a run when it has ended.

    delays: seconds from the sharing of a run until another page had it. asked: seconds of each request for the board.
    """

    def __init__(self, server: Server, people: ThreadPoolExecutor, seconds: float) -> None:
        super().__init__(server, seconds / 2)
        self.delays: list[float] = []
        self.asked: list[float] = []
        self.trained: dict[str, int] = {}  # of each visitor's newest run
        self.boards: list[Future[None]] = []
        self._people = people
        self._shared: dict[str, float] = {}  # when, by the name on the board
        self._names = map(str, itertools.count())

    def follow(self, visitor: str, until: float) -> None:
        """Ask for news of the board as a page does, until the time (monotonic) has come."""
        connection, version, seen = self.connected(), 0, set(self._shared)
        while time.monotonic() < until:
            time.sleep(POLL_SECONDS)
            asked = time.monotonic()
            news = self.ask(connection, "", visitor, version)
            now, version = time.monotonic(), news["version"]
            self.asked.append(now - asked)
            fresh = {run["name"] for run in news.get("runs", [])} - seen
            self.delays += [now - self._shared[name] for name in fresh]
            seen |= fresh
        connection.close()

    def share(self, visitor: str) -> None:
        """Put the visitor's newest run on the board."""
        name = next(self._names)
        self._shared[name] = time.monotonic()
        connection = self.connected()
        self.ask(connection, "share", visitor, name)
        connection.close()

    def connected(self) -> http.client.HTTPConnection:
        """A new connection to the server."""
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)

    def ask(
        self, connection: http.client.HTTPConnection, action: str, visitor: str, *values: Any, question: Any = None
    ) -> dict[str, Any]:
        """Change the class, or with "" ask for its news. question: what the page shows."""
        asked = {"visitor": visitor, "question": question, "asks": [[f"class-{action or 'news'}", *values]]}
        connection.request("POST", "/balcony/ask", json.dumps(asked))
        _, answer = json.loads(connection.getresponse().read())
        if "error" in answer:
            raise OSError(answer["error"])
        return answer

    def _open(self, number: int, own: random.Random) -> Visitor:
        visitor = super()._open(1, own)  # without a text of its own
        visitor.change(training__steps=STEPS)
        token = visitor.value("visitor")
        self.trained[token] = 0
        self.boards.append(self._people.submit(self.follow, token, self.began + 2 * self.half))
        return visitor

    def _train(self, visitor: Visitor, own: random.Random) -> dict[str, Any]:
        news = super()._train(visitor, own)
        visitor.fire("stop", "click")
        token = visitor.value("visitor")
        self.trained[token] = news["step"]
        if news["step"]:  # at the end of the lesson a run may still wait in line
            self.share(token)
        return news


def classroom(options: argparse.Namespace) -> None:
    """A lesson; then everybody guesses; then somebody shares a run each second while the others only watch.

    It takes half a minute longer than the lesson."""
    count = options.pupils

    def cost(seconds: float) -> float:
        """One core's fraction that the server uses meanwhile."""
        before = server.facts()["cpu"]
        time.sleep(seconds)
        return (server.facts()["cpu"] - before) / seconds

    with Server(is_public=True, teacher=TOKEN) as server, ThreadPoolExecutor(2 * count + 1) as people:
        room = Class(server, people, options.lesson)
        list(people.map(room.take_part, range(count)))
        for each in room.boards:
            each.result()
        delays, asked = list(room.delays), list(room.asked)
        connection = room.connected()
        shown = {"tab": "masked-words", "text": "hello romeo", "hidden": [1]}
        room.ask(connection, "ask", "", TOKEN, question=shown)
        question = room.ask(connection, "", "", 0)["round"]["number"]
        for token in room.trained:
            room.ask(connection, "guess", token, question, ["a"])
        guesses = room.ask(connection, "", "", 0)["round"]["count"]
        time.sleep(5)
        quiet = cost(2 * options.seconds)
        able = [token for token, steps in room.trained.items() if steps]
        until = time.monotonic() + 2 * options.seconds
        watching = [people.submit(room.follow, token, until) for token in room.trained]
        watched = people.submit(cost, 2 * options.seconds)
        for token in itertools.islice(itertools.cycle(able), int(2 * options.seconds)):
            room.share(token)
            time.sleep(1)
        for each in watching:
            each.result()
    row(
        f"{count} in a class press Start within {COMING_SECONDS} s: first loss",
        spread(room.first_losses, "s", 2),
        "2.5 s",
    )
    row("click until its guesses", spread([1000 * each for each in room.clicks[0] + room.clicks[1]]), "p95 200 ms")
    row("from sharing a run until another page has it", f"{spread(delays, 's', 2)}, at most {max(delays):.2f} s", "2 s")
    row("request for the board", spread([1000 * each for each in asked]))
    row("one core's fraction for the board, a run shared each second", f"{watched.result() - quiet:.1%}", "5 %")
    row("runs by their end; guesses", f"{dict(room.ends)}; {guesses} of {len(room.trained)} counted", "all")
    row("problems", f"{dict(room.problems) or 'none'}", "none")
