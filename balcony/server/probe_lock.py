"""One probe runs at a time: each would use every core, and they come from the server's many threads.

Visitors take turns: each second that a page's probes take puts its next ones a second back in the line, and a long
probe lets others go first between two forward passes. A probe is dropped, while it waits or between two passes, when
its page is gone, and when it would take longer than the limit of this place.
"""

import math
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from bert_core.config import LOCAL
from bert_core.errors import InputError
from bert_core.probes.forward import before_passes

MOST_WAITING = 192  # of the server's threads, so that some stay free for all other requests; a lecture asks at once
MOST_OF_A_PAGE = 12
MOST_VISITORS = 4096  # whose probing time is kept
FORGIVEN = 0.2
TURN_SECONDS = 0.2  # after which a long probe lets others go first, between two forward passes
POLL_SECONDS = 0.25  # between two checks whether the page of a waiting probe is gone
GONE = "The page that asked is gone."
CROWDED = "Too many questions wait for their answers; ask again in a moment."


@dataclass(eq=False)
class Asker:
    """Who sent a request. page: of the browser, or a program's session. is_gone: the connection is closed. address: of
    a program."""

    page: str = ""
    address: str = ""
    is_gone: bool = False


asker: ContextVar[Asker | None] = ContextVar("asker", default=None)  # set by the guard, of a program by its endpoint


@dataclass(eq=False)
class _Ticket:
    """A probe. changed: it is the first one now. rank: the least comes first. began: when its turn came. spent: seconds
    of its earlier turns."""

    asker: Asker
    changed: threading.Condition
    rank: float = 0.0
    began: float = math.nan
    spent: float = 0.0
    before: Any = None  # what `before_passes` was


class Turns:
    """A lock for `with`, taken by visitors in turns. limit_seconds: of one probe. clock: monotonic seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit_seconds = LOCAL.probe_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self._waiting: list[_Ticket] = []
        self._running: _Ticket | None = None
        self._here = threading.local()  # the ticket of this thread's probe
        self._spent: dict[str, tuple[float, float]] = {}  # page -> seconds and when; the last to ask comes last

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def __enter__(self) -> None:
        ticket = _Ticket(asker.get() or Asker(), threading.Condition(self._lock))
        with self._lock:
            if len(self._waiting_of(ticket.asker.page)) >= MOST_OF_A_PAGE or len(self._waiting) >= MOST_WAITING:
                raise InputError(CROWDED)
            self._take_turn(ticket)
        self._here.ticket = ticket
        ticket.before = before_passes.set(lambda cost: self._check(ticket, cost.seconds()))

    def __exit__(self, *error: object) -> None:
        ticket: _Ticket = self._here.ticket
        before_passes.reset(ticket.before)
        with self._lock:
            if self._running is ticket:  # else it was dropped while it let others go first
                self._end_turn(ticket)

    def _take_turn(self, ticket: _Ticket) -> None:
        ticket.rank = self._clock() + self._spent_by(ticket.asker.page, self._clock())
        self._waiting.append(ticket)
        try:
            while self._running is not None or self._first() is not ticket:
                self._refuse(ticket)
                ticket.changed.wait(POLL_SECONDS)
            self._refuse(ticket)
            self._running, ticket.began = ticket, self._clock()
        finally:
            self._waiting.remove(ticket)
            self._wake_first()

    def _end_turn(self, ticket: _Ticket) -> None:
        page, now, self._running = ticket.asker.page, self._clock(), None
        seconds = now - ticket.began
        ticket.spent += seconds
        for other in self._waiting_of(page):
            other.rank += seconds
        spent = self._spent_by(page, ticket.began) + seconds
        self._spent.pop(page, None)
        self._spent[page] = spent, now
        while len(self._spent) > MOST_VISITORS:
            del self._spent[next(iter(self._spent))]
        self._wake_first()

    def _wake_first(self) -> None:
        """Wake the first probe, and only that one, where none is running."""
        if self._waiting and self._running is None:
            self._first().changed.notify()

    def _first(self) -> _Ticket:
        return min(self._waiting, key=lambda ticket: ticket.rank)

    def _waiting_of(self, page: str) -> list[_Ticket]:
        """The probes of a page that wait; those without a page have nothing in common."""
        return [ticket for ticket in self._waiting if page and ticket.asker.page == page]

    def _spent_by(self, page: str, now: float) -> float:
        """Seconds of this page's recent probes: each second that passes since takes FORGIVEN of one away."""
        seconds, then = self._spent.get(page, (0.0, now))
        return max(0.0, seconds - FORGIVEN * (now - then))

    def _check(self, ticket: _Ticket, seconds: float) -> None:
        """Before a forward pass: refuse a probe that would take too long, and let others go first after a while.
        seconds: estimated, of this pass and those after it."""
        self._refuse(ticket)
        total = ticket.spent + self._clock() - ticket.began + seconds
        if total > self.limit_seconds:
            raise InputError(
                f"This takes about {total:,.0f} s; the limit here is {self.limit_seconds:g} s. Shorten the text, or "
                "choose a smaller model."
            )
        with self._lock:
            if self._waiting and self._clock() - ticket.began > TURN_SECONDS:
                self._end_turn(ticket)
                self._take_turn(ticket)

    @staticmethod
    def _refuse(ticket: _Ticket) -> None:
        if ticket.asker.is_gone:
            raise InputError(GONE)


probe_lock = Turns()
