"""What is new in a run since a page last asked.

The answer holds what came after the page's cursors, thinned to a few points, so it stays below a kilobyte however
fast the training is. A reloaded page starts without cursors and gets the whole curve once.
"""

import math
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import Workspace, is_finetuning
from balcony.server.workspaces import Workspaces
from bert_core.errors import megabytes
from bert_core.runs.run import ACTIVE, Progress, Run
from bert_core.tasks.examples import TASKS

POINTS_LIVE = 6
POINTS_AT_FIRST = 300
LAST_STEPS = 20  # whose means lists of runs show
DEAD = "Training has stopped on this server, which has to be started again."
CURVES = ("mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy")
MORE_CURVES = ("learning_rate", "grad_norm", "masked_accuracy", "replaced_accuracy", "kept_accuracy")
# Milliseconds until a page asks again: before the first point, while points come, paused, ended.
FIRST_POLL, LIVE_POLL, PAUSED_POLL, ENDED_POLL = 120, 400, 2_000, 60_000
# For each run that shares the machine, or is ahead in line, so that many pages ask no more often in all than a few.
CROWD_POLL = 30


def health_route(workspaces: Workspaces) -> Route:
    """GET: the status, the number of runs and questions that wait, and the bytes in use, as JSON; 503 when training has
    stopped."""

    async def answer(request: Request) -> JSONResponse:
        service = workspaces.service
        found = {"queue": service.queue_length + probe_lock.waiting, "bytes": workspaces.memory.used}
        if service.is_alive:
            return JSONResponse({"status": "ok"} | found)
        return JSONResponse({"status": "training has stopped", "error": DEAD} | found, 503)

    return Route("/health", answer)


def run_news(space: Workspace, run_id: str, row: int = 0, snapshot: int = -1, evaluation: int = 0) -> dict[str, Any]:
    """What is new in a run since the page's cursors, with the cursors for the next request.

    row: rows of the history that the page has. snapshot: step of the newest snapshot it knows, -1 for none.
    evaluation: points of the held-out curve that it has. In the answer, poll_ms is the time until the page should ask
    again; current: the id of the run that Train shows.
    """
    run = space.run(run_id)
    progress = run.progress()
    rows = run.history(since=row)
    snapshots = [kept.step for kept in run.snapshots if kept.step > snapshot]
    names, held = series_of(run)
    names += MORE_CURVES if names is CURVES else ()
    news = {
        "status": progress.status,
        "reason": progress.reason or status_line(progress),
        "step": progress.step,
        "steps": progress.steps,
        "rate": round(progress.tokens_per_second),
        "left": None if progress.seconds_left is None else round(progress.seconds_left, 1),
        "points": thin(rows, POINTS_LIVE if row else POINTS_AT_FIRST, names),
        # The curve's last point is a mean over some steps; the numbers beside it are those of the newest step.
        "last": _mean(rows[-1:], names[:2]) if rows else None,
        "snapshots": snapshots,
        "poll_ms": poll_delay(progress),
        "current": (space.current_run or run).id,
    }
    if run.verdict and run.status == "finished":
        news["said"] = list(run.verdict)
    if not row and rows:
        news["precision"] = run.recipe.training.precision
    if evaluations := run.evaluations(since=evaluation):
        news["held"] = thin(evaluations, len(evaluations), held)
    news["cursors"] = [row + len(rows), max([snapshot, *snapshots]), evaluation + len(evaluations)]
    return news


def series_of(run: Run) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The numbers of a step and those of an evaluation that a page draws."""
    if not is_finetuning(run):
        return CURVES, CURVES
    task = run.job.parts.train.kind if run.job else TASKS[run.recipe.task]
    return ("loss",), ("loss", task.measure)


def poll_delay(progress: Progress) -> int:
    """Milliseconds until a page should ask again."""
    if progress.status not in ACTIVE:
        return ENDED_POLL  # only to renew the lease
    if progress.status == "paused":
        return PAUSED_POLL
    if progress.step:
        return max(LIVE_POLL, CROWD_POLL * progress.sharing)
    return max(FIRST_POLL, CROWD_POLL * progress.runs_ahead)


def status_line(progress: Progress) -> str:
    """What a queued run waits for, or how many runs a running one shares the machine with; else ""."""
    if progress.status == "running" and progress.sharing > 1:
        return f"Sharing the machine with {progress.sharing - 1} other{'s' if progress.sharing > 2 else ''}."
    if progress.status != "queued":
        return ""
    if progress.runs_ahead:
        ahead = "One run is" if progress.runs_ahead == 1 else f"{progress.runs_ahead} runs are"
        return f"{ahead} prepared before yours."
    if progress.lacking:
        wait = "" if progress.wait_seconds is None else f", about {max(1, round(progress.wait_seconds))} s"
        return f"Waiting for {megabytes(progress.lacking)} of memory until other runs have ended{wait}."
    return f"Preparing: {progress.preparing}." if progress.preparing else "Preparing."


def thin(rows: Sequence[Any], most: int, names: Sequence[str] = CURVES) -> list[list[float | None]]:
    """At most `most` points [step, *values of these names], each the mean of some consecutive rows.

    The step is that of the last of these rows; a value that no row has (all nan) is None.
    """
    size = max(1, math.ceil(len(rows) / most))
    return [_mean(rows[start : start + size], names) for start in range(0, len(rows), size)]


def _mean(rows: Sequence[Any], names: Sequence[str]) -> list[float | None]:
    point: list[float | None] = [int(rows[-1].step)]
    for name in names:
        values = [value for row in rows if math.isfinite(value := getattr(row, name))]
        point.append(float(f"{sum(values) / len(values):.4g}") if values else None)
    return point
