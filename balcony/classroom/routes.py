"""What pages ask of a class: to follow it, and to take part. Only who knows the teacher's token changes all pages."""

import asyncio
import dataclasses
import threading
import time
from typing import Any

from balcony.classroom.board import Shared, board_rows
from balcony.classroom.covered import cover
from balcony.classroom.state import Classroom
from balcony.frame.answers import Answers
from balcony.frame.page_request import PageRequest
from balcony.parts.export import file_text
from balcony.server.kept import digest
from balcony.server.workspace import NO_RUN_YET, is_finetuning
from balcony.server.workspaces import Workspaces
from bert_core.config import LOCAL
from bert_core.errors import InputError, RunError

FOLLOW_SECONDS = 1.5  # at most so often the board looks at the runs that are on it


def class_answers(answers: Answers, classroom: Classroom) -> None:
    """Let pages ask for the news of the class, and change it."""
    actions = Actions(answers.workspaces, classroom)
    changes = "share", "withdraw", "guess", "send", "ask", "uncover", "end", "clear", "limit"
    for name in ("news", "board", "enter", *changes):
        answers.add(f"class-{name}", getattr(actions, name))


class Actions:
    """What visitors do in a class, and what its teacher does, whose token comes first then."""

    def __init__(self, workspaces: Workspaces, classroom: Classroom) -> None:
        self.workspaces, self.classroom = workspaces, classroom
        self._shared: dict[str, Shared] = {}  # by visitor
        self._following, self._followed = threading.Lock(), 0.0

    async def news(self, asked: PageRequest, since: int, token: str = "") -> dict[str, Any]:
        """The news of the class since a version. token: the teacher's, else ""."""
        if self._shared and time.monotonic() - self._followed > FOLLOW_SECONDS:
            await asyncio.to_thread(self.follow)
        known = digest(asked.space.token) if asked.space.token else None
        return self.classroom.news(known, since, is_teacher=self.classroom.is_teacher(token))

    def check(self, token: str) -> None:
        """Raises InputError for any other than the teacher's token."""
        if not self.classroom.is_teacher(token):
            raise InputError("Only the teacher can do this: open the teacher's address, which the terminal shows.")

    def share(self, asked: PageRequest, name: str) -> None:
        """Put the visitor's newest run on the board, which follows it from then on."""
        space = asked.visitor
        run, visitor = space.current_run, digest(space.token)
        if run is None or is_finetuning(run) or not run.steps_done:
            raise RunError(NO_RUN_YET)
        shared = Shared(space, run)
        self.classroom.share(visitor, name, shared.described())
        self._shared[visitor] = shared

    def withdraw(self, asked: PageRequest) -> None:
        """Take the visitor's run off the board."""
        self.classroom.withdraw(digest(asked.visitor.token))

    def guess(self, asked: PageRequest, number: int | None, words: list) -> None:
        """Count the visitor's words for the gaps of a round."""
        self.classroom.guess(digest(asked.visitor.token), number, words)

    def follow(self) -> None:
        """Show the runs on the board as they are."""
        if not self._following.acquire(blocking=False):
            return
        try:
            self._followed = time.monotonic()
            shared = dict(self._shared)
            on_board = self.classroom.follow({key: each.described() for key, each in shared.items() if each.has_news()})
            for visitor, each in shared.items():
                is_here = visitor in on_board and each.is_listed() and self.workspaces.has(visitor)
                if not is_here and self._shared.get(visitor) is each:  # else its run would be kept in memory
                    del self._shared[visitor]
        finally:
            self._following.release()

    def send(self, asked: PageRequest, token: str, link: str) -> None:
        """Offer a view to all pages, or take the offer back."""
        self.check(token)
        self.classroom.send(link)

    def ask(self, asked: PageRequest, token: str) -> None:
        """Ask all pages for the words that are hidden on the teacher's page."""
        self.check(token)
        self.classroom.ask(cover(asked))

    def uncover(self, asked: PageRequest, token: str) -> None:
        """Show what is hidden, and the model's guesses beside the room's."""
        self.check(token)
        self.classroom.uncover()

    def end(self, asked: PageRequest, token: str) -> None:
        """Take the question off all pages."""
        self.check(token)
        self.classroom.end()

    def clear(self, asked: PageRequest, token: str, number: int | None = None) -> None:
        """Take one run off the board, or all."""
        self.check(token)
        self.classroom.clear(number)

    def board(self, asked: PageRequest) -> dict[str, Any]:
        """The board as a file."""
        return {"name": "board", "content": file_text("csv", {"": self.classroom.shared_runs()}, board_rows)}

    def enter(self, asked: PageRequest, token: str) -> dict[str, Any]:
        """What the teacher's page shows."""
        self.check(token)
        limits = self.workspaces.service.limits
        return {"steps": limits.steps, "parameters": limits.parameters, **self.classroom.join}

    def limit(self, asked: PageRequest, token: str, steps: object, parameters: object) -> None:
        """Limit the runs of all."""
        self.check(token)
        limits: dict[str, Any] = {"steps": steps, "parameters": parameters}
        for name, value in limits.items():
            most = getattr(LOCAL, name)
            if type(value) is not int or not 1 <= value <= most:
                raise InputError(f"The limit of {name} is a whole number from 1 to {most:,}.")
        service = self.workspaces.service
        service.limits = dataclasses.replace(service.limits, **limits)
        self.classroom.limit(**limits)
