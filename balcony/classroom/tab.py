"""A class: what all of its pages share, how they take part, and what only its teacher does.

All of it is bounded, and holds nothing of a visitor but what that visitor sent. A page asks with the version that it
has and gets what changed since. Who changes all pages knows the teacher's token, which comes first then.
"""

import asyncio
import dataclasses
import math
import secrets
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from balcony.classroom.covered import MOST_GAPS, Round, cover
from balcony.frame.answers import Answers
from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.tab import Tab
from balcony.parts.export import Row, file_text
from balcony.server.kept import digest
from balcony.server.news import CURVES, LAST_STEPS, thin
from balcony.server.workspace import NO_RUN_YET, RUN_LOOKS, Workspace
from balcony.server.workspaces import Workspaces
from balcony.views import view
from bert_core.config import LOCAL
from bert_core.errors import InputError, RunError
from bert_core.runs.run import Run

LONGEST_NAME, LONGEST_GUESS, LONGEST_LINK = 24, 32, 8_000  # characters
MOST_SHARED = MOST_GUESSES = 300  # visitors
MOST_POINTS = 60  # of a curve
FOLLOW_SECONDS = 1.5  # at most so often the board looks at the runs that are on it
OBJECTIVES = CURVES[:2]
COLUMNS = ("name", "title", "recipe", "sentences", "seed", "rate", "step", "steps", "status")
ANSWERS = (
    *("news", "board", "share", "withdraw", "guess"),
    *("enter", "send", "ask", "uncover", "end", "clear", "limit"),  # the teacher's
)


def lay_out(page: Page) -> None:
    view("classroom/board", options={"series": OBJECTIVES, "id": "class-curves"}, elem_id="class-board")


TAB = Tab("class", "Class", lay_out)


@dataclass(eq=False)
class Shared:
    """A run on the board. run: None once its person has removed it or has left; it stays as it was. shown: what pages
    get of it. seen: what it was at the last look."""

    space: Workspace | None
    run: Run | None
    shown: dict[str, Any] = field(default_factory=dict)
    seen: tuple[str, ...] = ()

    def news(self) -> dict[str, Any] | None:
        """What the board shows of it: its title, settings and losses, and not its text. None where nothing is new."""
        run, space, before = self.run, self.space, self.seen
        if run is None or space is None or run.id not in space.runs:
            return None
        self.seen = (run.status, f"{run.steps_done}", space.title(run.id))
        if self.seen == before:
            return None
        recipe, last = run.recipe, run.history(since=max(0, run.steps_done - LAST_STEPS))
        return {
            "title": self.seen[2],
            "recipe": f"{recipe.model.in_words}, {recipe.data.batch_size} pairs a step",
            "seed": str(recipe.seed),  # as text: a JavaScript number cannot hold every seed
            "rate": recipe.training.learning_rate,
            "sentences": len(run.job.source.sentences) if run.job else 0,
            "status": run.status,
            "step": run.steps_done,
            "steps": recipe.training.total_steps,
            "curve": thin(run.history(), MOST_POINTS, OBJECTIVES),
            "losses": thin(last, 1, OBJECTIVES)[0][1:],  # means; None for an objective that it lacks
        }


class Classroom:
    """What all pages of a class share, and what they may ask. token: the teacher's. Visitors are digests of tokens.

    join: the address for others and its QR code, once the page is served.
    """

    def __init__(self, answers: Answers, token: str) -> None:
        self.workspaces: Workspaces = answers.workspaces
        self.token = token
        self.join: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._version = int(time.time() * 1000)  # of a restarted server newer than all that a page may have
        self._board: dict[str, Shared] = {}  # by visitor
        self._followed = 0.0
        self._sent: dict[str, Any] | None = None
        self._round: Round | None = None
        self._limits: dict[str, int] | None = None  # of runs, once the teacher has set them
        for name in ANSWERS:
            answers.add(f"class-{name}", getattr(self, name))

    @contextmanager
    def _change(self) -> Iterator[int]:
        """Nobody else reads or changes the class meanwhile. Yields the version after the change."""
        with self._lock:
            yield self._version + 1
            self._version += 1

    async def news(self, asked: PageRequest, since: int, token: str = "") -> dict[str, Any]:
        """The version; after a change since the one that a page has, also what it shows. token: the teacher's, or
        ""."""
        if self._board and time.monotonic() - self._followed > FOLLOW_SECONDS:
            self._followed = math.inf  # nobody else looks meanwhile
            try:
                await asyncio.to_thread(self._follow)
            finally:
                self._followed = time.monotonic()
        visitor = digest(asked.space.token) if asked.space.token else ""
        with self._lock:
            if since == self._version:
                return {"version": since}
            since = 0 if since > self._version else since
            runs, own = [each.shown for each in self._board.values()], self._board.get(visitor)
            return {
                "version": self._version,
                "numbers": [each["number"] for each in runs],
                "runs": [each for each in runs if each["version"] > since],
                "own": own and own.shown["number"],
                "sent": self._sent,
                "round": self._round and self._round.shown_to(visitor, self._is_teacher(token)),
                "limits": self._limits,
                "address": self.join.get("address", ""),
            }

    def _follow(self) -> None:
        """Show the runs on the board as they are."""
        for visitor, each in [*self._board.items()]:
            if new := each.news():
                with self._change() as version:
                    each.shown = each.shown | new | {"version": version}
            if each.run and not (self.workspaces.has(visitor) and each.space and each.run.id in each.space.runs):
                each.space = each.run = None  # else it would be kept in memory

    def board(self, asked: PageRequest) -> dict[str, Any]:
        """The board as a file; the losses are means over the last steps."""

        def rows(runs: list[dict[str, Any]]) -> list[Row]:
            return [{name: run[name] for name in COLUMNS} | dict(zip(OBJECTIVES, run["losses"])) for run in runs]

        shown = [each.shown for each in [*self._board.values()]]
        return {"name": "board", "content": file_text("csv", {"": shown}, rows)}

    def share(self, asked: PageRequest, name: str) -> None:
        """Put the visitor's newest run on the board, in place of the one before; the board follows it from then on."""
        space, name = asked.visitor, cleaned(name, LONGEST_NAME)
        run, visitor = space.current_run, digest(space.token)
        if run is None or not run.steps_done:
            raise RunError(NO_RUN_YET)
        if not name:
            raise InputError("Type a name first.")
        shared = Shared(space, run)
        described = shared.news() or {}
        with self._change() as version:
            if visitor not in self._board and len(self._board) >= MOST_SHARED:
                raise InputError(f"The board is full: it holds {MOST_SHARED} runs.")
            looks = {(each.shown["colour"], each.shown["isDotted"]) for each in self._board.values()}
            colour, is_dotted = next((each for each in RUN_LOOKS if each not in looks), RUN_LOOKS[0])
            new = {"number": version, "colour": colour, "isDotted": is_dotted}
            before = self._board[visitor].shown if visitor in self._board else new
            shared.shown = before | {"version": version, "name": name} | described
            self._board[visitor] = shared

    def withdraw(self, asked: PageRequest) -> None:
        """Take the visitor's run off the board."""
        with self._change():
            self._board.pop(digest(asked.visitor.token), None)

    def guess(self, asked: PageRequest, number: int | None, words: list) -> None:
        """Count the visitor's words for the gaps of a round, in place of those before."""
        cut = [cleaned(word, LONGEST_GUESS).lower() for word in words[:MOST_GAPS]]
        visitor = digest(asked.visitor.token)
        with self._change():
            now = self._round
            if now is None or now.number != number or not now.is_open:
                raise InputError("This question is closed.")
            words = [*cut, *[""] * len(now.words)][: len(now.words)]
            if not any(words):
                raise InputError("Type a word first.")
            if visitor not in now.guesses and len(now.guesses) >= MOST_GUESSES:
                raise InputError(f"{MOST_GUESSES} people have guessed already.")
            now.guesses[visitor] = words

    # --- The teacher's ------------------------------------------------------------------------------------------------

    def _is_teacher(self, token: str) -> bool:
        return secrets.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def _check(self, token: str) -> None:
        if not self._is_teacher(token):
            raise InputError("Only the teacher can do this: open the teacher's address, which the terminal shows.")

    def enter(self, asked: PageRequest, token: str) -> dict[str, Any]:
        """What the teacher's page shows."""
        self._check(token)
        limits = self.workspaces.service.limits
        return {"steps": limits.steps, "parameters": limits.parameters, **self.join}

    def send(self, asked: PageRequest, token: str, link: str) -> None:
        """Offer a view to all pages; an empty link takes the offer back."""
        self._check(token)
        link = self._part_of(link) if link else ""
        with self._change() as number:
            self._sent = {"number": number, "link": link} if link else None

    def _part_of(self, link: str) -> str:
        """The part of a link after #, which is all that a page opens: so no link leads elsewhere."""
        part = link.partition("#")[2].strip()
        if not part or len(part) > LONGEST_LINK or not part.isprintable():
            raise InputError(f"A link has a part after #, of at most {LONGEST_LINK:,} characters; use Copy link.")
        if self.token in unquote(part) or "teacher=" in part:
            raise InputError("This is the teacher's own address; copy a link with Copy link.")
        return part

    def ask(self, asked: PageRequest, token: str) -> None:
        """Ask all pages for the words that are hidden on the teacher's page."""
        self._check(token)
        new = cover(asked)
        with self._change() as new.number:
            self._round = new

    def uncover(self, asked: PageRequest, token: str) -> None:
        """Close the question: all pages show what is hidden, and the model's guesses beside the room's."""
        self._check(token)
        with self._change():
            if self._round:
                self._round.is_open = False

    def end(self, asked: PageRequest, token: str) -> None:
        """Take the question off all pages."""
        self._check(token)
        with self._change():
            self._round = None

    def clear(self, asked: PageRequest, token: str, number: int | None = None) -> None:
        """Take one run off the board, or all."""
        self._check(token)
        with self._change():
            self._board = {
                visitor: each for visitor, each in self._board.items() if number not in (None, each.shown["number"])
            }

    def limit(self, asked: PageRequest, token: str, steps: object, parameters: object) -> None:
        """Limit the runs of all, and tell all pages."""
        self._check(token)
        limits: dict[str, Any] = {"steps": steps, "parameters": parameters}
        for name, value in limits.items():
            most = getattr(LOCAL, name)
            if type(value) is not int or not 1 <= value <= most:
                raise InputError(f"The limit of {name} is a whole number from 1 to {most:,}.")
        service = self.workspaces.service
        service.limits = dataclasses.replace(service.limits, **limits)
        with self._change():
            self._limits = limits


def cleaned(text: Any, most: int) -> str:
    """A typed text in one line of at most `most` characters, without characters that have no shape of their own, such
    as those that turn the direction of what follows."""
    if not isinstance(text, str):
        raise InputError("This request holds no text where one belongs; reload the page.")
    text = unicodedata.normalize("NFC", text[: 8 * most])
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:most].strip()
