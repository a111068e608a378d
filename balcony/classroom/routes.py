"""What pages ask of a class: to follow it, and to take part. Only who knows the teacher's token changes all pages."""

import asyncio
import dataclasses
import functools
import json
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from balcony.classroom.board import Shared, board_rows
from balcony.classroom.covered import cover
from balcony.classroom.state import Classroom
from balcony.frame.answers import Answers
from balcony.frame.page_request import PageRequest
from balcony.handlers import on_error
from balcony.parts.export import file_text
from balcony.server.kept import digest, replace_file
from balcony.server.workspace import NO_RUN_YET, Workspace, is_finetuning
from balcony.server.workspaces import Workspaces
from bert_core.config import LOCAL
from bert_core.errors import BertCoreError, InputError, RunError, one_line
from bert_core.runs.run import TRAINING, Run

LONGEST_VERDICT = 400  # characters
FOLLOW_SECONDS = 1.5  # at most so often the board looks at the runs that are on it
KEPT = "class.json"  # in the folder of `app.py --keep`, which reads the teacher's token from there
Judge = Callable[[Workspace, Run], str]

_log = logging.getLogger(__name__)


def class_answers(answers: Answers, classroom: Classroom, judge: Judge, keep: Path | None = None) -> None:
    """Let pages ask for the news of the class, and change it. judge: the verdict on a run that has ended. keep: the
    folder where the class is kept over a restart."""
    actions = Actions(answers.workspaces, classroom, judge, keep)
    changes = "share", "withdraw", "guess", "send", "ask", "uncover", "end", "clear", "limit"
    for name in ("news", "board", "enter", *changes):
        action = getattr(actions, name)
        answers.add(f"class-{name}", actions.keeping(action) if name in changes else action)


class Actions:
    """What visitors do in a class, and what its teacher does, whose token comes first then."""

    def __init__(self, workspaces: Workspaces, classroom: Classroom, judge: Judge, keep: Path | None) -> None:
        self.workspaces, self.classroom, self.judge = workspaces, classroom, judge
        self._shared: dict[str, Shared] = {}  # by visitor
        self._following, self._followed = threading.Lock(), 0.0
        self._kept, self._keeping = keep and keep / KEPT, threading.Lock()
        self._problem = ""  # for the teacher
        if self._kept and self._kept.exists():
            self._restore(self._kept)

    def keeping(self, action: Callable[..., None]) -> Callable[..., None]:
        """The same, and the class is kept then."""

        @functools.wraps(action)
        def act(asked: PageRequest, *values: Any) -> None:
            action(asked, *values)
            self.keep()

        return act

    async def news(self, asked: PageRequest, since: int, token: str = "") -> dict[str, Any]:
        """The news of the class since a version. token: the teacher's, else ""."""
        if self._shared and time.monotonic() - self._followed > FOLLOW_SECONDS:
            await asyncio.to_thread(self.follow)
        known = digest(asked.space.token) if asked.space.token else None
        news = self.classroom.news(known, since, is_teacher=self.classroom.is_teacher(token))
        if "present" in news:
            news |= self.counted(news.pop("present"))
        return news

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
        before = self._shared.get(visitor)
        shared = before if before and before.run is run else Shared(space, run)
        self.classroom.share(visitor, name, shared.described())
        self._shared[visitor] = shared
        self._followed = 0.0

    def withdraw(self, asked: PageRequest) -> None:
        """Take the visitor's run off the board."""
        self.classroom.withdraw(digest(asked.visitor.token))

    def guess(self, asked: PageRequest, number: int | None, words: list) -> None:
        """Count the visitor's words for the gaps of a round."""
        self.classroom.guess(digest(asked.visitor.token), number, words)

    def follow(self) -> None:
        """Show the runs on the board as they are; one that has ended gets its verdict, once."""
        if not self._following.acquire(blocking=False):
            return
        try:
            self._followed = time.monotonic()
            shared = dict(self._shared)
            on_board = self.classroom.follow({key: each.described() for key, each in shared.items() if each.has_news()})
            for visitor, each in shared.items():
                is_here = visitor in on_board and each.is_listed() and self.workspaces.peek([visitor])
                if not is_here and self._shared.get(visitor) is each:  # else its run would be kept in memory
                    del self._shared[visitor]
                if not is_here or each.run.status in TRAINING or each.judged == each.run.steps_done:
                    continue
                each.judged, each.verdict = each.run.steps_done, ""
                each.verdict = on_error(lambda sentence: "")(self.judge)(each.space, each.run)[:LONGEST_VERDICT]
                self.classroom.follow({visitor: each.described()})
                self.keep()
        finally:
            self._following.release()

    def counted(self, visitors: list[str]) -> dict[str, int]:
        """Of the visitors who are here, how many train, and of how many the newest run has failed."""
        spaces = self.workspaces.peek(visitors)
        newest = [space.current_run for space in spaces]
        return {
            "training": sum(any(run.status in TRAINING for run in space.all_runs) for space in spaces),
            "failed": sum(run is not None and run.status == "failed" for run in newest),
        }

    def send(self, asked: PageRequest, token: str, link: str) -> None:
        """Offer a view to all pages, or take the offer back."""
        self.check(token)
        self.classroom.send(link)

    def ask(self, asked: PageRequest, token: str, link: str) -> None:
        """Ask all pages for the words that are hidden on the teacher's page."""
        self.check(token)
        self.classroom.ask(link, cover(asked))

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
        """The board as the content of a file, and the version of its newest run."""
        runs = self.classroom.shared_runs()
        version = max((run["version"] for run in runs), default=0)
        return {"content": file_text("csv", {"": runs}, board_rows), "version": version}

    def enter(self, asked: PageRequest, token: str) -> dict[str, Any]:
        """What the teacher's page shows."""
        self.check(token)
        limits = self.workspaces.service.limits
        shown = {"steps": limits.steps, "parameters": limits.parameters, "problem": self._problem}
        return shown | self.classroom.join

    def limit(self, asked: PageRequest, token: str, steps: object, parameters: object, is_sharing: bool) -> None:
        """Limit the runs of all, and open or close the board."""
        self.check(token)
        self._limit(steps, parameters, is_sharing)

    def _limit(self, steps: object, parameters: object, is_sharing: bool) -> None:
        limits: dict[str, Any] = {"steps": steps, "parameters": parameters}
        for name, value in limits.items():
            most = getattr(LOCAL, name)
            if type(value) is not int or not 1 <= value <= most:
                raise InputError(f"The limit of {name} is a whole number from 1 to {most:,}.")
        service = self.workspaces.service
        service.limits = dataclasses.replace(service.limits, **limits)
        self.classroom.limit(**limits, is_sharing=is_sharing)

    def keep(self) -> None:
        """Write the class into the folder, if there is one."""
        if self._kept is None:
            return
        with self._keeping:
            runs = {visitor: each.run.id for visitor, each in dict(self._shared).items()}
            content = self.classroom.content() | {"runs": runs}
            try:
                replace_file(self._kept, content)
            except OSError as error:
                _log.warning("the class was not kept: %s", one_line(error))

    def _restore(self, path: Path) -> None:
        """Go on with the class of a file; the runs on its board that go on are followed again."""
        try:
            content = json.loads(path.read_text("utf-8"))
            self.classroom.restore(content)
            if limits := content["limits"]:
                self._limit(limits["steps"], limits["parameters"], content["sharing"])
            for visitor in content["board"]:
                space = self.workspaces.readmit(visitor)
                run = space.runs.get(content["runs"].get(visitor))
                if run is not None:
                    self._shared[visitor] = Shared(space, run)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, BertCoreError) as error:
            unread = path.with_suffix(".unread.json")
            os.replace(path, unread)
            self._problem = f"The class that was kept cannot be read, so it begins anew. Its file is now {unread}."
            _log.error("%s %s", self._problem, one_line(error))
