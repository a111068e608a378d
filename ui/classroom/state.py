"""What all pages of a class share: the runs that people chose to share, what the teacher sends, and the room's guesses.

All of it is in memory and bounded, and holds nothing of a visitor but what that visitor sent. A page asks with the
version that it has and gets what changed since.
"""

import secrets
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from bert_core.errors import InputError

LONGEST_NAME, LONGEST_GUESS, LONGEST_TITLE, LONGEST_LINK = 24, 32, 80, 8_000  # characters
MOST_SHARED = MOST_GUESSES = 300  # visitors
MOST_PRESENT = 2_000
MOST_MASKS = 8
MOST_BARS = 12  # of a histogram
PRESENT_SECONDS = 5.0  # since a page's last poll
NO_TEXT = "This request holds no text where one belongs; reload the page."
NOT_THE_TEACHER = "Only the teacher can do this: open the teacher's address, which the terminal shows."


@dataclass(eq=False)
class _Round:
    """A question to the room. link: the part after # of an address. guesses: words for each mask, by visitor."""

    number: int
    link: str
    is_open: bool = True
    guesses: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def shown_to(self, visitor: str) -> dict[str, Any]:
        """bars: for each mask, the commonest guesses, each with its count. own: the visitor's guess."""
        masks = max(map(len, self.guesses.values()), default=0)
        counts = [Counter(words[k] for words in self.guesses.values() if words[k:] and words[k]) for k in range(masks)]
        return {
            "number": self.number,
            "link": self.link,
            "open": self.is_open,
            "count": len(self.guesses),
            "bars": [each.most_common(MOST_BARS) for each in counts],
            "own": self.guesses.get(visitor),
        }


class Classroom:
    """What all pages of a class share. token: the teacher's. clock: monotonic seconds. Visitors are digests of tokens.

    join: the address for others and its QR code, once the page is served.
    """

    def __init__(self, token: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.join: dict[str, Any] = {}
        self._token, self._clock = token, clock
        self._lock = threading.Lock()
        self._version = int(time.time() * 1000)  # of a restarted server newer than all that a page may have
        self._board: dict[str, dict[str, Any]] = {}  # by visitor
        self._lesson: dict[str, Any] | None = None
        self._round: _Round | None = None
        self._is_sharing = True
        self._limits: dict[str, int] | None = None  # of runs, once the teacher has set them
        self._present: dict[str, float] = {}  # seconds of the last poll by visitor, the latest last

    def check(self, token: Any) -> None:
        """Raise InputError unless this is the teacher's token."""
        given = token.encode("utf-8", "replace") if isinstance(token, str) else b""
        if not secrets.compare_digest(given, self._token.encode()):
            raise InputError(NOT_THE_TEACHER)

    def news(self, visitor: str | None, since: int) -> dict[str, Any]:
        """The version and the number of visitors here; after a change since that version, also what a page shows."""
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
            news: dict[str, Any] = {"version": self._version, "here": len(self._present)}
            if since == self._version:
                return news
            since = 0 if since > self._version else since
            own = self._board.get(visitor or "")
            return news | {
                "numbers": [each["number"] for each in self._board.values()],
                "runs": [each for each in self._board.values() if each["version"] > since],
                "own": own and own["number"],
                "lesson": self._lesson,
                "round": self._round and self._round.shown_to(visitor or ""),
                "sharing": self._is_sharing,
                "limits": self._limits,
            }

    def share(self, visitor: str, name: str, described: dict[str, Any]) -> None:
        """Put a visitor's run on the board, in place of the one before. Raises InputError."""
        name = cleaned(name, LONGEST_NAME)
        with self._change() as version:
            if not self._is_sharing:
                raise InputError("Your teacher has closed the board.")
            if not name:
                raise InputError("Type a name first.")
            if visitor not in self._board and len(self._board) >= MOST_SHARED:
                raise InputError(f"The board is full: it holds {MOST_SHARED} runs.")
            number = self._board[visitor]["number"] if visitor in self._board else version
            self._board[visitor] = {"number": number, "version": version, "name": name, **described}

    def withdraw(self, visitor: str) -> None:
        """Take a visitor's run off the board."""
        with self._change():
            self._board.pop(visitor, None)

    def guess(self, visitor: str, number: int, words: list[str]) -> None:
        """Count a visitor's words for the masks of a round, in place of those before. Raises InputError."""
        if not isinstance(words, list):
            raise InputError(NO_TEXT)
        cut = tuple(cleaned(word, LONGEST_GUESS).lower() for word in words[:MOST_MASKS])
        with self._change():
            asked = self._round
            if asked is None or asked.number != number or not asked.is_open:
                raise InputError("This question is closed.")
            if not any(cut):
                raise InputError("Type a word first.")
            if visitor not in asked.guesses and len(asked.guesses) >= MOST_GUESSES:
                raise InputError(f"{MOST_GUESSES} people have guessed already.")
            asked.guesses[visitor] = cut

    # --- The teacher's ------------------------------------------------------------------------------------------------

    def send(self, title: str, link: str) -> None:
        """Offer a lesson or a view to all pages; an empty link takes the offer back. Raises InputError."""
        link = self._part_of(link) if link else ""
        with self._change() as number:
            self._lesson = {"number": number, "title": cleaned(title, LONGEST_TITLE), "link": link} if link else None

    def ask(self, link: str) -> None:
        """Ask all pages what stands at the masks of a view. Raises InputError."""
        link = self._part_of(link)
        with self._change() as number:
            self._round = _Round(number, link)

    def uncover(self) -> None:
        """Close the question, so that all pages show the model's guesses."""
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

    def limit(self, steps: int, parameters: int, is_sharing: bool) -> None:
        """Tell all pages the limits of a run, and let people share their runs, or not."""
        with self._change():
            self._limits, self._is_sharing = {"steps": steps, "parameters": parameters}, is_sharing

    def _part_of(self, link: str) -> str:
        """The part of a link after #, which is all that a page opens: so no link leads elsewhere."""
        part = link.partition("#")[2].strip() if isinstance(link, str) else ""
        if not part or len(part) > LONGEST_LINK or not part.isprintable():
            raise InputError(f"A link has a part after #, of at most {LONGEST_LINK:,} characters; use Copy link.")
        if self._token in unquote(part) or "teacher=" in part:
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
        raise InputError(NO_TEXT)
    text = unicodedata.normalize("NFC", text[: 8 * most])
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:most].strip()
