"""What all pages of a class share: the runs that people chose to share, what the teacher sends, and the room's guesses.

All of it is bounded, and holds nothing of a visitor but what that visitor sent. A page asks with the version that it
has and gets what changed since.
"""

import dataclasses
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from balcony.classroom.board import LONGEST_TITLE
from balcony.classroom.covered import MOST_GAPS, Covered
from balcony.classroom.given import Given
from balcony.classroom.typed import NO_TEXT, cleaned
from balcony.server.workspace import RUN_LOOKS
from bert_core.errors import InputError

LONGEST_NAME, LONGEST_GUESS, LONGEST_LINK = 24, 32, 8_000  # characters
MOST_SHARED = MOST_GUESSES = 300  # visitors
LONGEST_STEP = 200  # characters of a step's name
MOST_STEPS, MOST_CHOICES = 1_200, 8  # whose answers are counted
MOST_PRESENT = 2_000
PRESENT_SECONDS = 5.0  # since a page's last poll
NOT_THE_TEACHER = "Only the teacher can do this: open the teacher's address, which the terminal shows."


@dataclass(eq=False)
class _Round:
    """A question to the room. link: to what the teacher's page shows, the part of an address after #. guesses: words
    for each gap, by visitor."""

    number: int
    link: str
    covered: Covered
    is_open: bool = True
    guesses: dict[str, list[str]] = field(default_factory=dict)

    def shown_to(self, visitor: str, is_teacher: bool) -> dict[str, Any]:
        """What a page shows. own: the visitor's guess. bars: for each gap rows [word, its guesses], for the teacher and
        who has guessed; closed, rows as of `Covered.beside`, with the link, what is right and the nearest guess."""
        own = self.guesses.get(visitor)
        shown = {
            "number": self.number,
            "kind": self.covered.kind,
            "about": self.covered.about,
            "texts": self.covered.texts,
            "gaps": len(self.covered.words),
            "open": self.is_open,
            "count": len(self.guesses),
            "own": own,
            "bars": self.counts() if is_teacher or own or not self.is_open else [],
        }
        if not self.is_open:
            covered, bars = self.covered, [self.covered.beside(k, each) for k, each in enumerate(self.counts())]
            nearest = covered.nearest(self.answers(0))
            shown |= {"link": self.link, "model": covered.model, "bars": bars, "nearest": nearest}
            shown["right"] = covered.words
        return shown

    def answers(self, gap: int) -> list[str]:
        return [each[gap] for each in self.guesses.values() if each[gap]]

    def counts(self) -> list[list[tuple[str, int]]]:
        """How often each guess for each gap was made."""
        return [self.covered.counted(self.answers(k)) for k in range(len(self.covered.words))]


class Classroom:
    """What all pages of a class share. token: the teacher's. clock: monotonic seconds. Visitors are digests of tokens.

    join: the address for others and its QR code, once the page is served.
    """

    def __init__(self, token: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.join: dict[str, Any] = {}
        self.token, self._clock = token, clock
        self._lock = threading.Lock()
        self._version = int(time.time() * 1000)  # of a restarted server newer than all that a page may have
        self._board: dict[str, dict[str, Any]] = {}  # by visitor
        self._lesson: dict[str, Any] | None = None
        self._round: _Round | None = None
        self._given: Given | None = None
        self._answers: dict[str, dict[str, int]] = {}  # by the name of a step, by visitor
        self._is_sharing = True
        self._limits: dict[str, int] | None = None  # of runs, once the teacher has set them
        self._present: dict[str, float] = {}  # seconds of the last poll by visitor, the latest last

    def check(self, token: Any) -> None:
        """Raise InputError unless this is the teacher's token."""
        if not self.is_teacher(token):
            raise InputError(NOT_THE_TEACHER)

    def is_teacher(self, token: Any) -> bool:
        given = token.encode("utf-8", "replace") if isinstance(token, str) else b""
        return secrets.compare_digest(given, self.token.encode())

    def news(self, visitor: str | None, since: int, *, is_teacher: bool = False) -> dict[str, Any]:
        """The version and the number of visitors here; after a change since that version, also what a page shows.
        "is_new": whether the visitor was given a value just now."""
        with self._lock:
            now = self._clock()
            if visitor is not None:
                self._present.pop(visitor, None)
                self._present[visitor] = now
            while self._present:
                first = next(iter(self._present))
                if len(self._present) <= MOST_PRESENT and now - self._present[first] <= PRESENT_SECONDS:
                    break
                del self._present[first]
            is_new = bool(visitor and self._given and not is_teacher and self._given.take(visitor))
            self._version += is_new
            news: dict[str, Any] = {"version": self._version, "here": len(self._present)}
            news |= {"is_new": True} if is_new else {}
            if is_teacher:
                news["present"] = list(self._present)
            if since == self._version:
                return news
            since = 0 if since > self._version else since
            own = self._board.get(visitor or "")
            return news | {
                "numbers": [each["number"] for each in self._board.values()],
                "runs": [each for each in self._board.values() if each["version"] > since],
                "own": own and own["number"],
                "lesson": self._lesson and self._lesson | {"lesson": self._lesson["lesson"] is not None},
                "round": self._round and self._round.shown_to(visitor or "", is_teacher),
                "given": self._given and self._given.shown_to(visitor or "", is_teacher=is_teacher),
                "sharing": self._is_sharing,
                "limits": self._limits,
                "address": self.join.get("address", ""),
                **({"answers": {step: self._counted(step) for step in self._answers}} if is_teacher else {}),
            }

    def share(self, visitor: str, name: str, described: dict[str, Any]) -> str:
        """Put a visitor's run on the board, in place of the one before, under the name or, where another has it, under
        the name with a number. Returns that. Raises InputError."""
        name = cleaned(name, LONGEST_NAME)
        with self._change() as version:
            if not self._is_sharing:
                raise InputError("Your teacher has closed the board.")
            if not name:
                raise InputError("Type a name first.")
            if visitor not in self._board and len(self._board) >= MOST_SHARED:
                raise InputError(f"The board is full: it holds {MOST_SHARED} runs.")
            taken = {run["name"].casefold() for other, run in self._board.items() if other != visitor}
            alike = (f"{name[: LONGEST_NAME - 6]} ({k})" for k in range(2, MOST_SHARED + 2))
            name = next(each for each in [name, *alike] if each.casefold() not in taken)
            looks = {(run["colour"], run["isDotted"]) for run in self._board.values()}
            colour, is_dotted = next((each for each in RUN_LOOKS if each not in looks), RUN_LOOKS[0])
            before, new = self._board.get(visitor, {}), {"number": version, "colour": colour, "isDotted": is_dotted}
            kept = {key: before.get(key, value) for key, value in new.items()}
            self._board[visitor] = {**kept, "version": version, "name": name, **described}
            return name

    def follow(self, described: dict[str, dict[str, Any]]) -> set[str]:
        """Show shared runs as they are, by visitor. Returns the visitors whose runs are on the board."""
        with self._lock:
            fresh = {
                visitor: run | found
                for visitor, found in described.items()
                if (run := self._board.get(visitor)) is not None and run != run | found
            }
            self._version += bool(fresh)
            for visitor, run in fresh.items():
                self._board[visitor] = run | {"version": self._version}
            return set(self._board)

    def own_lesson(self) -> dict[str, Any]:
        """The lesson of the teacher's own that is offered. Raises InputError without one."""
        with self._lock:
            if self._lesson is None or self._lesson["lesson"] is None:
                raise InputError("Your teacher has taken this lesson back.")
            return self._lesson["lesson"]

    def shared_runs(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._board.values())

    def given(self, visitor: str) -> dict[str, Any]:
        """What the visitor was given: {kind: value}. Raises InputError without that."""
        with self._lock:
            if self._given is None or visitor not in self._given.taken:
                raise InputError("Your teacher has taken this back.")
            return {self._given.kind: self._given.value_of(visitor)}

    def name_of_text(self, sentences: Sequence[str]) -> str:
        """Which of the texts that the teacher gives has these sentences, "" for none."""
        with self._lock:
            return self._given.name_of_text(sentences) if self._given else ""

    def withdraw(self, visitor: str) -> None:
        """Take a visitor's run off the board."""
        with self._change():
            self._board.pop(visitor, None)

    def answer(self, visitor: str, step: str, choice: int) -> None:
        """Count a visitor's first answer to a step of a lesson, by the name that pages have for it. Raises
        InputError."""
        if len(step) > LONGEST_STEP or type(choice) is not int or not 0 <= choice < MOST_CHOICES:
            raise InputError(NO_TEXT)
        step = step.encode("utf-8", "replace").decode("utf-8")
        with self._change():
            if step not in self._answers and len(self._answers) >= MOST_STEPS:
                raise InputError(f"The answers to {MOST_STEPS:,} steps are counted already.")
            answers = self._answers.setdefault(step, {})
            if visitor not in answers and len(answers) >= MOST_GUESSES:
                raise InputError(f"{MOST_GUESSES} people have answered already; your answer is not counted.")
            answers.setdefault(visitor, choice)

    def _counted(self, step: str) -> list[int]:
        """How often each choice of a step was the answer."""
        counts = Counter(self._answers[step].values())
        return [counts[choice] for choice in range(MOST_CHOICES)]

    def guess(self, visitor: str, number: int | None, words: list) -> None:
        """Count a visitor's words for the gaps of a round, in place of those before. Raises InputError."""
        cut = [cleaned(word, LONGEST_GUESS).lower() for word in words[:MOST_GAPS]]
        with self._change():
            asked = self._round
            if asked is None or asked.number != number or not asked.is_open:
                raise InputError("This question is closed.")
            words = asked.covered.read(cut)
            if visitor not in asked.guesses and len(asked.guesses) >= MOST_GUESSES:
                raise InputError(f"{MOST_GUESSES} people have guessed already.")
            asked.guesses[visitor] = words

    # --- The teacher's ------------------------------------------------------------------------------------------------

    def send(self, title: str, link: str, lesson: dict[str, Any] | None = None, *, together: bool = False) -> None:
        """Offer a lesson or a view to all pages; an empty link takes the offer back. lesson: the teacher's own,
        which pages fetch when it is opened. together: it opens by itself. Raises InputError."""
        link = self._part_of(link) if link else ""
        sent = {"title": cleaned(title, LONGEST_TITLE), "link": link, "lesson": lesson, "together": together}
        with self._change() as number:
            self._lesson = {"number": number} | sent if link else None

    def ask(self, link: str, covered: Covered) -> None:
        """Ask all pages a question. link: to what the teacher's page shows. Raises InputError."""
        link = self._part_of(link)
        with self._change() as number:
            self._round = _Round(number, link, covered)

    def uncover(self) -> None:
        """Close the question, so that all pages show what is right and the model's guesses beside the room's. Raises
        InputError while nobody knows what is right."""
        with self._lock:
            asked = self._round
            counts = asked.counts() if asked else []
        if asked:
            asked.covered.uncover([[word for word, _ in counted] for counted in counts])
            with self._change():
                asked.is_open = False

    def end(self) -> None:
        """Take the question and its histogram off all pages."""
        with self._change():
            self._round = None

    def give(self, kind: str, values: list[str]) -> None:
        """Give each page one of the values, see `Given`; with "" for the kind, take them back."""
        with self._change() as number:
            self._given = Given(number, kind, values) if kind else None

    def clear(self, number: int | None = None) -> None:
        """Take one run off the board, or all."""
        with self._change():
            self._board = {key: run for key, run in self._board.items() if number not in (None, run["number"])}

    def limit(self, steps: int, parameters: int, is_sharing: bool) -> None:
        """Tell all pages the limits of a run, and let people share their runs, or not."""
        with self._change():
            self._limits, self._is_sharing = {"steps": steps, "parameters": parameters}, is_sharing

    # --- Kept over a restart ------------------------------------------------------------------------------------------

    def content(self) -> dict[str, Any]:
        """All of it as JSON data, with the teacher's token and digests of the visitors' tokens."""
        with self._lock:
            asked = self._round and {
                **{name: getattr(self._round, name) for name in ("number", "link", "is_open", "guesses")},
                "covered": self._round.covered.content(),
            }
            return {
                "token": self.token,
                "board": self._board,
                "lesson": self._lesson,
                "round": asked,
                "given": self._given and dataclasses.asdict(self._given),
                "sharing": self._is_sharing,
                "limits": self._limits,
                "answers": self._answers,
            }

    def restore(self, content: dict[str, Any]) -> None:
        """Go on as `content` says; a question's model rates no more words. Raises KeyError, TypeError or ValueError
        where that is no content of a class."""
        board, lesson, asked = dict(content["board"]), content["lesson"], content["round"]
        answers = dict(content["answers"])
        asked = asked and _Round(**asked | {"covered": Covered(**asked["covered"])})
        given = content.get("given") and Given(**content["given"])
        with self._change():
            self._board, self._lesson, self._round, self._answers = board, lesson, asked, answers
            self._given = given
            self._is_sharing = content["sharing"] is True

    def _part_of(self, link: str) -> str:
        """The part of a link after #, which is all that a page opens: so no link leads elsewhere."""
        part = link.partition("#")[2].strip()
        if not part or len(part) > LONGEST_LINK or not part.isprintable():
            raise InputError(f"A link has a part after #, of at most {LONGEST_LINK:,} characters; use Copy link.")
        if self.token in unquote(part) or "teacher=" in part:
            raise InputError("This is the teacher's own address; copy a link with Copy link.")
        return part

    @contextmanager
    def _change(self) -> Iterator[int]:
        """Nobody else reads or changes the class meanwhile. Yields the version after the change."""
        with self._lock:
            yield self._version + 1
            self._version += 1
