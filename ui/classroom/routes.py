"""The requests by which pages follow a class and take part. Only who knows the teacher's token changes all pages."""

import asyncio
import dataclasses
import inspect
import weakref
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bert_core.config import LOCAL
from bert_core.errors import InputError, RunError
from bert_core.runs.run import TRAINING, Run
from ui.classroom.state import LONGEST_TITLE, Classroom, cleaned
from ui.handlers import on_error
from ui.server.kept import digest
from ui.server.news import CURVES, thin
from ui.server.workspace import NO_RUN_YET, Workspace, is_finetuning
from ui.server.workspaces import Workspaces

ADDRESS = "/balcony/class"
MOST_POINTS = 60  # of a curve
LONGEST_VERDICT = 400  # characters
MALFORMED = "This request is malformed; reload the page."
Judge = Callable[[Workspace, Run], str]


def class_routes(workspaces: Workspaces, classroom: Classroom, judge: Judge) -> list[Route]:
    """POST [visitor, version]: the news of the class as JSON. POST to /ACTION [visitor, ...]: change the class; the
    teacher's actions begin with the token. An answer may be {"error"}. judge: the verdict on a run that has ended."""
    actions = Actions(workspaces, classroom, judge)

    async def answer(request: Request) -> JSONResponse:
        action = request.path_params.get("action")
        try:
            visitor, *_ = sent = await request.json()
            since = 0 if action else int(sent[1])
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return JSONResponse({"error": MALFORMED}, 400)
        if action:
            return JSONResponse(await asyncio.to_thread(actions.act, action, *sent) or {})
        return JSONResponse(classroom.news(digest(visitor) if workspaces.lookup(visitor) else None, since))

    return [Route(path, answer, methods=["POST"]) for path in (ADDRESS, f"{ADDRESS}/{{action}}")]


class Actions:
    """What visitors do in a class, and what its teacher does."""

    def __init__(self, workspaces: Workspaces, classroom: Classroom, judge: Judge) -> None:
        self.workspaces, self.classroom, self.judge = workspaces, classroom, judge
        self._verdicts: weakref.WeakKeyDictionary[Run, tuple[int, str]] = weakref.WeakKeyDictionary()  # and its steps
        self._for_all = _by_name(self.share, self.withdraw, self.guess)
        of_room = _by_name(classroom.send, classroom.ask, classroom.uncover, classroom.end, classroom.clear)
        self._for_teacher = of_room | _by_name(self.enter, self.limit)

    @on_error(lambda sentence: {"error": sentence})
    def act(self, action: str, *arguments: Any) -> Any:
        """Do what a page asks. arguments: the visitor and, of the teacher's actions, the token come first."""
        if action in self._for_teacher:
            self.classroom.check(arguments[1] if arguments[1:] else None)
            arguments = arguments[2:]
        work = (self._for_all | self._for_teacher).get(action)
        try:
            inspect.signature(work).bind(*arguments)  # type: ignore[arg-type]
        except TypeError:
            raise InputError(MALFORMED) from None
        return work(*arguments) if work else None

    def share(self, visitor: str, run_id: Any, name: str) -> dict[str, Any]:
        """Put a run on the board, later with the verdict on one that has ended."""
        space = self.workspaces.find(visitor)
        run = space.run(run_id) if run_id else space.current_run
        if run is None or is_finetuning(run) or not run.steps_done:
            raise RunError(NO_RUN_YET)
        found = described(space, run)
        self.classroom.share(digest(visitor), name, found)
        if run.status not in TRAINING:  # the others need not wait for that
            self.classroom.share(digest(visitor), name, found | {"verdict": self._verdict(space, run)})
        return {"run": run.id}

    def _verdict(self, space: Workspace, run: Run) -> str:
        """Judged once, however often the run is shared."""
        if self._verdicts.get(run, (None, ""))[0] != run.steps_done:
            self._verdicts[run] = run.steps_done, self.judge(space, run)[:LONGEST_VERDICT]
        return self._verdicts[run][1]

    def withdraw(self, visitor: str) -> None:
        """Take the visitor's run off the board."""
        self.workspaces.find(visitor)
        self.classroom.withdraw(digest(visitor))

    def guess(self, visitor: str, number: Any, words: Any) -> None:
        """Guess the words of a question."""
        self.workspaces.find(visitor)
        self.classroom.guess(digest(visitor), number, words)

    def enter(self) -> dict[str, Any]:
        """What the teacher's page shows."""
        limits = self.workspaces.service.limits
        return {"steps": limits.steps, "parameters": limits.parameters, **self.classroom.join}

    def limit(self, steps: Any, parameters: Any, is_sharing: Any) -> None:
        """Limit the runs of all, and open or close the board."""
        for name, value, most in (("steps", steps, LOCAL.steps), ("parameters", parameters, LOCAL.parameters)):
            if type(value) is not int or not 1 <= value <= most:
                raise InputError(f"The limit of {name} is a whole number from 1 to {most:,}.")
        service = self.workspaces.service
        service.limits = dataclasses.replace(service.limits, steps=steps, parameters=parameters)
        self.classroom.limit(steps, parameters, is_sharing is True)


def _by_name(*actions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {action.__name__: action for action in actions}


def described(space: Workspace, run: Run) -> dict[str, Any]:
    """What the board shows of a run: its title, settings and losses, and not its text."""
    recipe = run.recipe
    return {
        "title": cleaned(space.title_of(run), LONGEST_TITLE),
        "recipe": f"{recipe.model.num_hidden_layers} layers of {recipe.model.hidden_size}, {recipe.data.batch_size} "
        f"pairs a step, learning rate {recipe.training.learning_rate:g}, seed {recipe.seed}",
        "status": run.status,
        "step": run.steps_done,
        "curve": thin(run.history(), MOST_POINTS, CURVES[:2]),
        "verdict": "",
    }
