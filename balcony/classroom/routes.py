"""The requests by which pages follow a class and take part. Only who knows the teacher's token changes all pages."""

import asyncio
import dataclasses
import json
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from balcony.classroom.board import Shared, board_rows
from balcony.classroom.covered import cover
from balcony.classroom.state import Classroom
from balcony.frame.page import PageRequest
from balcony.frame.question import Question
from balcony.handlers import MALFORMED, on_error
from balcony.parts.export import file_text
from balcony.server.kept import digest, replace_file
from balcony.server.workspace import NO_RUN_YET, Workspace, is_finetuning
from balcony.server.workspaces import Workspaces, functions
from bert_core.config import LOCAL
from bert_core.errors import BertCoreError, InputError, RunError, one_line
from bert_core.runs.run import TRAINING, Run

ADDRESS = "/balcony/class"
LONGEST_VERDICT = 400  # characters
FOLLOW_SECONDS = 1.5  # at most so often the board looks at the runs that are on it
KEPT = "class.json"  # in the folder of `app.py --keep`, which reads the teacher's token from there
READS = ("board", "enter")  # the actions that change nothing
Judge = Callable[[Workspace, Run], str]

_log = logging.getLogger(__name__)


def class_routes(workspaces: Workspaces, classroom: Classroom, judge: Judge, keep: Path | None = None) -> list[Route]:
    """POST [visitor, version, teacher's token or ""]: the news of the class as JSON. POST to /ACTION [visitor, ...]:
    change the class; after the visitor, the teacher's actions have the token. An answer may be {"error"}.

    judge: the verdict on a run that has ended. keep: the folder where the class is kept over a restart.
    """
    actions = Actions(workspaces, classroom, judge, keep)

    async def answer(request: Request) -> JSONResponse:
        action = request.path_params.get("action")
        try:
            visitor, *_ = sent = await request.json()
            since, token = (0, []) if action else (int(sent[1]), sent[2:])
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return JSONResponse({"error": MALFORMED}, 400)
        if action:
            return JSONResponse(await asyncio.to_thread(actions.act, action, sent))
        if actions.is_due():
            await asyncio.to_thread(actions.follow)
        known = digest(visitor) if workspaces.lookup(visitor) else None
        news = classroom.news(known, since, is_teacher=bool(token) and classroom.is_teacher(token[0]))
        if "present" in news:
            news |= actions.counted(news.pop("present"))
        return JSONResponse(news)

    return [Route(path, answer, methods=["POST"]) for path in (ADDRESS, f"{ADDRESS}/{{action}}")]


class Actions:
    """What visitors do in a class, and what its teacher does."""

    def __init__(self, workspaces: Workspaces, classroom: Classroom, judge: Judge, keep: Path | None) -> None:
        self.workspaces, self.classroom, self.judge = workspaces, classroom, judge
        self._shared: dict[str, Shared] = {}  # by visitor
        self._following, self._followed = threading.Lock(), 0.0
        self._kept, self._keeping = keep and keep / KEPT, threading.Lock()
        self._problem = ""  # for the teacher
        of_person = classroom.withdraw, classroom.guess
        of_room = classroom.send, classroom.uncover, classroom.end, classroom.clear
        of_teacher = self.enter, self.limit, self.ask
        served = [
            *functions(workspaces, *of_person, take=lambda space, values: [digest(space.token)]),
            *functions(workspaces, self.share, self.board),
            *functions(workspaces, *of_room, *of_teacher, known=False, take=self.take_token),
        ]
        self._served = {function.__name__: function for function in served}
        if self._kept and self._kept.exists():
            self._restore(self._kept)

    def act(self, action: str, sent: Any) -> Any:
        """Do what a page asks. sent: the visitor and, of the teacher's actions, the token come first."""
        if action not in self._served:
            return {"error": MALFORMED}
        done = self._served[action](sent)
        if action not in READS and "error" not in done:
            self.keep()
        return done

    def take_token(self, space: Workspace, values: list[Any]) -> list[Any]:
        """Take the teacher's token off the values of a request. Raises InputError for any other."""
        if not self.classroom.is_teacher(values.pop(0) if values else None):
            raise InputError("Only the teacher can do this: open the teacher's address, which the terminal shows.")
        return []

    def share(self, space: Workspace, run_id: str | None, name: str) -> None:
        """Put a run on the board, which follows it from then on."""
        run, visitor = space.run(run_id) if run_id else space.current_run, digest(space.token)
        if run is None or is_finetuning(run) or not run.steps_done:
            raise RunError(NO_RUN_YET)
        before = self._shared.get(visitor)
        shared = before if before and before.run is run else Shared(space, run)
        self.classroom.share(visitor, name, shared.described())
        self._shared[visitor] = shared
        self._followed = 0.0

    def is_due(self) -> bool:
        """Whether the board has not looked at its runs for a while."""
        return bool(self._shared) and time.monotonic() - self._followed > FOLLOW_SECONDS

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

    def ask(self, visitor: str, link: str, question: object) -> None:
        """Ask all pages for the words that are hidden on the teacher's page."""
        asked = PageRequest(self.workspaces, self.workspaces.find(visitor), Question.read(question))
        self.classroom.ask(link, cover(asked))

    def board(self, space: Workspace) -> dict[str, Any]:
        """The board as the content of a file, and the version of its newest run."""
        runs = self.classroom.shared_runs()
        version = max((run["version"] for run in runs), default=0)
        return {"content": file_text("csv", {"": runs}, board_rows), "version": version}

    def enter(self) -> dict[str, Any]:
        """What the teacher's page shows."""
        limits = self.workspaces.service.limits
        shown = {"steps": limits.steps, "parameters": limits.parameters, "problem": self._problem}
        return shown | self.classroom.join

    def limit(self, steps: object, parameters: object, is_sharing: bool) -> None:
        """Limit the runs of all, and open or close the board."""
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
                self.limit(limits["steps"], limits["parameters"], content["sharing"])
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
