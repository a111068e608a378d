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
from ui.handlers import on_error
from ui.server.classroom.state import LONGEST_TITLE, Classroom, cleaned
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
    service = workspaces.service
    verdicts: weakref.WeakKeyDictionary[Run, tuple[int, str]] = weakref.WeakKeyDictionary()  # after how many steps

    def verdict(space: Workspace, run: Run) -> str:
        """Judged once, however often the run is shared."""
        steps = run.steps_done
        if verdicts.get(run, (None, ""))[0] != steps:
            verdicts[run] = steps, judge(space, run)[:LONGEST_VERDICT]
        return verdicts[run][1]

    def share(visitor: str, run_id: Any, name: str) -> dict[str, Any]:
        space = workspaces.find(visitor)
        run = space.run(run_id) if run_id else space.current_run
        if run is None or is_finetuning(run) or not run.steps_done:
            raise RunError(NO_RUN_YET)
        found = described(space, run)
        classroom.share(digest(visitor), name, found)
        if run.status not in TRAINING:  # the others need not wait for that
            classroom.share(digest(visitor), name, found | {"verdict": verdict(space, run)})
        return {"run": run.id}

    def withdraw(visitor: str) -> None:
        workspaces.find(visitor)
        classroom.withdraw(digest(visitor))

    def guess(visitor: str, number: Any, words: Any) -> None:
        workspaces.find(visitor)
        classroom.guess(digest(visitor), number, words)

    def enter() -> dict[str, Any]:
        return {"steps": service.limits.steps, "parameters": service.limits.parameters, **classroom.join}

    def limit(steps: Any, parameters: Any, is_sharing: Any) -> None:
        for name, value, most in (("steps", steps, LOCAL.steps), ("parameters", parameters, LOCAL.parameters)):
            if type(value) is not int or not 1 <= value <= most:
                raise InputError(f"The limit of {name} is a whole number from 1 to {most:,}.")
        service.limits = dataclasses.replace(service.limits, steps=steps, parameters=parameters)
        classroom.open_board(is_sharing is True)

    everybody: dict[str, Callable[..., Any]] = {"share": share, "withdraw": withdraw, "guess": guess}
    for_teacher: dict[str, Callable[..., Any]] = {
        "enter": enter,
        "send": classroom.send,
        "ask": classroom.ask,
        "uncover": classroom.uncover,
        "end": classroom.end,
        "clear": classroom.clear,
        "limit": limit,
    }

    @on_error(lambda sentence: {"error": sentence})
    def act(action: str, *arguments: Any) -> Any:
        if action in for_teacher:
            classroom.check(arguments[1] if arguments[1:] else None)
            arguments = arguments[2:]  # without the visitor and the token
        work = (everybody | for_teacher).get(action, malformed)
        try:
            inspect.signature(work).bind(*arguments)
        except TypeError:
            malformed()
        return work(*arguments)

    async def answer(request: Request) -> JSONResponse:
        action = request.path_params.get("action")
        try:
            visitor, *_ = sent = await request.json()
            since = 0 if action else int(sent[1])
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return JSONResponse({"error": MALFORMED}, 400)
        if action:
            return JSONResponse(await asyncio.to_thread(act, action, *sent) or {})
        return JSONResponse(classroom.news(digest(visitor) if workspaces.lookup(visitor) else None, since))

    return [Route(path, answer, methods=["POST"]) for path in (ADDRESS, f"{ADDRESS}/{{action}}")]


def malformed(*_: Any) -> None:
    """Raise InputError."""
    raise InputError(MALFORMED)


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
