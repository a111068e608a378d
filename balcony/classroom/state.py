"""What all pages of a class share: the runs that people chose to share, the view that the teacher sends, and the room's
guesses.

All of it is bounded, and holds nothing of a visitor but what that visitor sent. A page asks with the version that it
has and gets what changed since.
"""

import secrets
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from balcony.classroom.covered import MOST_GAPS, Round
from balcony.server.workspace import RUN_LOOKS
from bert_core.errors import InputError

LONGEST_NAME, LONGEST_GUESS, LONGEST_LINK = 24, 32, 8_000  # characters
MOST_SHARED = MOST_GUESSES = 300  # visitors


class Classroom:
    """What all pages of a class share. token: the teacher's. Visitors are digests of tokens.

    join: the address for others and its QR code, once the page is served.
    """

    def __init__(self, token: str) -> None:
        self.join: dict[str, Any] = {}
        self.token = token
        self._lock = threading.Lock()
        self._version = int(time.time() * 1000)  # of a restarted server newer than all that a page may have
        self._board: dict[str, dict[str, Any]] = {}  # by visitor
        self._sent: dict[str, Any] | None = None
        self._round: Round | None = None
        self._limits: dict[str, int] | None = None  # of runs, once the teacher has set them

    def is_teacher(self, token: Any) -> bool:
        given = token.encode("utf-8", "replace") if isinstance(token, str) else b""
        return secrets.compare_digest(given, self.token.encode())

    def news(self, visitor: str | None, since: int, *, is_teacher: bool = False) -> dict[str, Any]:
        """The version; after a change since the one that a page has, also what it shows."""
        with self._lock:
            if since == self._version:
                return {"version": since}
            since = 0 if since > self._version else since
            own = self._board.get(visitor or "")
            return {
                "version": self._version,
                "numbers": [each["number"] for each in self._board.values()],
                "runs": [each for each in self._board.values() if each["version"] > since],
                "own": own and own["number"],
                "sent": self._sent,
                "round": self._round and self._round.shown_to(visitor or "", is_teacher),
                "limits": self._limits,
                "address": self.join.get("address", ""),
            }

    def share(self, visitor: str, name: str, described: dict[str, Any]) -> None:
        """Put a visitor's run on the board under a name, in place of the one before. Raises InputError."""
        name = cleaned(name, LONGEST_NAME)
        with self._change() as version:
            if not name:
                raise InputError("Type a name first.")
            if visitor not in self._board and len(self._board) >= MOST_SHARED:
                raise InputError(f"The board is full: it holds {MOST_SHARED} runs.")
            looks = {(run["colour"], run["isDotted"]) for run in self._board.values()}
            colour, is_dotted = next((each for each in RUN_LOOKS if each not in looks), RUN_LOOKS[0])
            new = {"number": version, "colour": colour, "isDotted": is_dotted}
            self._board[visitor] = self._board.get(visitor, new) | {"version": version, "name": name} | described

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

    def shared_runs(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._board.values())

    def withdraw(self, visitor: str) -> None:
        """Take a visitor's run off the board."""
        with self._change():
            self._board.pop(visitor, None)

    def guess(self, visitor: str, number: int | None, words: list) -> None:
        """Count a visitor's words for the gaps of a round, in place of those before. Raises InputError."""
        cut = [cleaned(word, LONGEST_GUESS).lower() for word in words[:MOST_GAPS]]
        with self._change():
            asked = self._round
            if asked is None or asked.number != number or not asked.is_open:
                raise InputError("This question is closed.")
            words = [*cut, *[""] * len(asked.words)][: len(asked.words)]
            if not any(words):
                raise InputError("Type a word first.")
            if visitor not in asked.guesses and len(asked.guesses) >= MOST_GUESSES:
                raise InputError(f"{MOST_GUESSES} people have guessed already.")
            asked.guesses[visitor] = words

    # --- The teacher's ------------------------------------------------------------------------------------------------

    def send(self, link: str) -> None:
        """Offer a view to all pages; an empty link takes the offer back. Raises InputError."""
        link = self._part_of(link) if link else ""
        with self._change() as number:
            self._sent = {"number": number, "link": link} if link else None

    def ask(self, asked: Round) -> None:
        """Ask all pages a question."""
        with self._change() as asked.number:
            self._round = asked

    def uncover(self) -> None:
        """Close the question, so that all pages show what is hidden and the model's guesses beside the room's."""
        with self._change():
            if self._round:
                self._round.is_open = False

    def end(self) -> None:
        """Take the question and its histogram off all pages."""
        with self._change():
            self._round = None

    def clear(self, number: int | None = None) -> None:
        """Take one run off the board, or all."""
        with self._change():
            self._board = {key: run for key, run in self._board.items() if number not in (None, run["number"])}

    def limit(self, steps: int, parameters: int) -> None:
        """Tell all pages the limits of a run."""
        with self._change():
            self._limits = {"steps": steps, "parameters": parameters}

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


def cleaned(text: Any, most: int) -> str:
    """A typed text in one line of at most `most` characters, without characters that have no shape of their own, such
    as those that turn the direction of what follows."""
    if not isinstance(text, str):
        raise InputError("This request holds no text where one belongs; reload the page.")
    text = unicodedata.normalize("NFC", text[: 8 * most])
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:most].strip()
