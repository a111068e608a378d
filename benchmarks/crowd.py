"""A crowd for benchmarks/app.py: visitors who train, watch and probe in one room, and a client that floods it."""

import contextlib
import http.client
import random
import re
import socket
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from serving import ENDED, Refused, Server, Visitor, row, spread

COMING_SECONDS = 30  # within which all visitors open the page and press Start
THINKING_SECONDS = (10.0, 20.0)  # of a visitor between two clicks
OWN_TEXTS = 4  # each visitor of so many brings a text
WORDS = [f"{a}{b}{c}" for a in "bdfglm" for b in "aeiou" for c in ("n", "r", "st", "ll", "ck", "")]
SIZES = [(128, 2), (256, 2), (256, 6)]  # hidden size and layers of their models: 0.4, 1.6 and 4.8 million parameters
FLOOD = 50  # requests a second
MOST_HELD = 200  # connections of the flood
_LINE = re.compile(r"(\d+|One) runs? (?:is|are) prepared before yours")


@dataclass
class Wait:
    """A run in line. ahead: runs before it. took: seconds."""

    ahead: int
    took: float = float("nan")


@dataclass
class Crowd:
    """What the visitors have met, the pairs without and with the flood. began: monotonic seconds. half: seconds until
    the flood, and of it. clicks: seconds until the guesses were there. closer: of the questions after it. ends: of
    runs.
    refused: clicks that a sentence answered. problems: all else that was not answered, by status and sentence."""

    server: Server
    half: float
    began: float = field(default_factory=time.monotonic)
    clicks: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    closer: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    polls: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    opened: list[float] = field(default_factory=list)
    first_losses: list[float] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    problems: Counter[tuple[int, str]] = field(default_factory=Counter)

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.began + 2 * self.half

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self.began + self.half

    def take_part(self, number: int) -> None:
        """Be a visitor until it is over: train run after run, and click meanwhile."""
        own = random.Random(number)
        time.sleep(own.random() * COMING_SECONDS)
        visitor = None
        while not self.is_over:
            try:
                visitor = visitor or self._open(number, own)
                self._train(visitor, own)
            except (Refused, OSError, http.client.HTTPException) as error:
                status = getattr(error, "status", 0)
                self.problems[status, re.sub(r"\d+", "N", str(error))[:100]] += 1
                time.sleep(1)

    def _open(self, number: int, own: random.Random) -> Visitor:
        began = time.monotonic()
        visitor = Visitor(self.server)
        self.opened.append(time.monotonic() - began)
        if number % OWN_TEXTS == 0:
            hidden, layers = SIZES[number // OWN_TEXTS % len(SIZES)]
            visitor.set("source", "Paste a text")
            visitor.set("pasted", "\n".join(" ".join(own.choices(WORDS, k=8)) for _ in range(400)))
            visitor.change(model__hidden_size=hidden, model__num_hidden_layers=layers)
            visitor.change(model__intermediate_size=4 * hidden, data__batch_size=16)
        return visitor

    def _train(self, visitor: Visitor, own: random.Random) -> dict[str, Any]:
        """Start a run, watch it to its end, or until it is over, and click meanwhile. Returns the last news of it."""
        pressed = time.monotonic()
        visitor.start()
        visitor.spent.clear()
        click, wait, has_loss, news = pressed, None, False, {}
        for news in visitor.watch(until=self.began + 2 * self.half):
            self.polls[self.is_late].extend(visitor.spent)
            visitor.spent.clear()
            now = time.monotonic()
            if (found := _LINE.match(news["reason"] or "")) and wait is None:
                wait = Wait(1 if found[1] == "One" else int(found[1]))
                self.waits.append(wait)
                lined_up = now
            if wait and not found and wait.took != wait.took:
                wait.took = now - lined_up
            if news["points"] and not has_loss:
                has_loss = True
                self.first_losses.append(now - pressed)
            if now > click:
                click = now + own.uniform(*THINKING_SECONDS)
                self._click(visitor, own, has_loss)
        self.ends[news["status"]] += 1
        self.steps += news["step"]
        if news["status"] in ENDED and news["status"] != "finished":
            self.problems[0, f"{news['status']}: {news['reason']}"] += 1
        return news

    def _click(self, visitor: Visitor, own: random.Random, has_model: bool) -> None:
        """Hide other words, of the run's newest model, before that of the model which comes with the page."""
        is_late = self.is_late
        answers = visitor.look(own.randrange(3), of_run=has_model)
        self.clicks[is_late].append(sum(visitor.spent[:2]))  # the words and the guesses
        self.closer[is_late].extend(visitor.spent[2:])
        visitor.spent.clear()
        self.refused.update(each["error"] for each in answers if each.get("error"))

    def flood(self) -> None:
        """From the middle on, FLOOD requests a second: stalled uploads, fields of 2 GB, and questions without end."""
        held: deque[socket.socket] = deque()
        time.sleep(max(0.0, self.began + self.half - time.monotonic()))
        asks = ("balcony/ask", 2)
        kinds = [("gradio_api/upload", 1000), ("gradio_api/run/predict", 2**31), asks, asks, asks]
        count = 0
        while not self.is_over:
            path, length = kinds[count % len(kinds)]
            count += 1
            with contextlib.suppress(OSError):
                one = socket.create_connection(("127.0.0.1", self.server.port), timeout=5)
                head = f"POST /{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
                one.sendall(head.encode() + (b"{}" if length == 2 else b"x" * 100))
                held.append(one)
            while len(held) > MOST_HELD:
                held.popleft().close()
            time.sleep(1 / FLOOD)
        while held:
            held.popleft().close()


def report(crowd: Crowd, visitors: int, samples: list[tuple[bool, dict[str, Any]]]) -> None:
    """Print what the visitors have met. samples: whether it was during the flood, and facts of the server."""
    row(f"{visitors} visitors open the page within {COMING_SECONDS} s", spread(crowd.opened, "s", 2))
    row("first loss after Start", spread(crowd.first_losses, "s", 1))
    for name, times in (
        ("click until its guesses", crowd.clicks),
        ("closer view", crowd.closer),
        ("poll", crowd.polls),
    ):
        for when, found in zip(("", ", beside a flood"), times):
            row(f"{name}{when}", spread([1000 * each for each in found]), "p95 200 ms" if name[:5] == "click" else "")
    row("clicks that a sentence answered", f"{dict(crowd.refused) or 'none'}", "none")
    statuses = [status for (status, _), count in crowd.problems.items() for _ in range(count)]
    row("answers of 5xx; sent away (429)", f"{sum(each >= 500 for each in statuses)}; {statuses.count(429)}", "0; 0")
    row("runs by their end; steps of all", f"{dict(crowd.ends)}; {crowd.steps:,}", "no run failed or lost")
    row("problems", "; ".join(f"{count} x {each}" for each, count in crowd.problems.most_common(5)) or "none", "none")
    known = [wait for wait in crowd.waits if wait.took == wait.took]
    row("runs in line", f"{len(crowd.waits)}, {sum(wait.took != wait.took for wait in crowd.waits)} are still there")
    if known:
        longest = max(known, key=lambda wait: wait.ahead)
        row("the longest line", f"{longest.ahead} runs; took {longest.took:.0f} s")
    calm, late = ([facts for is_late, facts in samples if is_late == when] for when in (False, True))
    for when, found in (("at the beginning", [samples[0][1]]), ("before the flood", calm), ("during the flood", late)):
        most = [
            max(each) for each in zip(*((one["memory"], one["kept"], one["memory"] - one["kept"]) for one in found))
        ]
        measured = f"{most[0]:.0f} MB; {most[1]:.0f} MB; {most[2]:.0f} MB"
        row(f"memory at the most {when}; of weights and texts; the rest", measured, "64 MB more by the flood")
