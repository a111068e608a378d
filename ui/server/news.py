"""What a page gets when it asks for news of its run.

An answer holds what came after the page's cursors, thinned to a few points, so it stays below half a kilobyte however
fast the training is. A page that was reloaded asks from the start and gets the whole curve once. The question has a
route of its own: Gradio's way to a Python function takes several times as long as the answer, and a room of people asks
all the time.
"""

import math
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bert_core.runs.run import ACTIVE, Progress
from ui.handlers import on_error
from ui.server.workspace import Workspace
from ui.server.workspaces import Workspaces

ADDRESS = "/balcony/news"
POINTS_LIVE = 6
POINTS_LIVE_MORE = 3  # of twice as many numbers
POINTS_AT_FIRST = 300
CURVES = ("mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy")
MORE_CURVES = ("learning_rate", "grad_norm", "masked_accuracy", "replaced_accuracy", "kept_accuracy")
# Milliseconds until a page asks again: before the first point, while points come, and while nothing happens.
FIRST_REST, LIVE_REST, PAUSED_REST, ENDED_REST = 120, 400, 2_000, 60_000
CROWD_REST = 30  # for each of the runs that share the machine, so that many pages together ask no more often than a few


def news_route(workspaces: Workspaces) -> Route:
    """POST [visitor, run id, whether more curves are shown, cursors] as JSON; answers as `run_news`, or {"error"}."""

    @on_error(lambda sentence: {"error": sentence})
    def tell(visitor: str, run_id: str, cursors: list[int], *, more: bool) -> dict[str, Any]:
        return run_news(workspaces.find(visitor), run_id, *cursors, more=more)

    async def answer(request: Request) -> JSONResponse:
        try:
            visitor, run_id, more, cursors = await request.json()
            row, snapshot, look = map(int, cursors)
        except (ValueError, TypeError, OverflowError):
            return JSONResponse({"error": "This question for news is malformed; reload the page."}, 400)
        # On the event loop: handing so short a work to a thread takes longer than the work.
        return JSONResponse(tell(visitor, run_id, [row, snapshot, look], more=bool(more)))

    return Route(ADDRESS, answer, methods=["POST"])


def run_news(
    space: Workspace, run_id: str, row: int = 0, snapshot: int = -1, look: int = 0, *, more: bool = False
) -> dict[str, Any]:
    """What is new in a run since the page's cursors, which come back renewed.

    row: rows of the history seen. snapshot: newest step that the time slider knows, -1 for none. look: points of the
    held-out curve seen. more: whether the page shows more curves than the first four. rest, in the answer:
    milliseconds until the page is to ask again.
    """
    run = space.run(run_id)
    progress = run.progress()
    rows = run.history(since=row)
    snapshots = [kept.step for kept in run.snapshots if kept.step > snapshot]
    names = CURVES + MORE_CURVES if more else CURVES
    live = POINTS_LIVE_MORE if more else POINTS_LIVE
    news = {
        "status": progress.status,
        "reason": progress.reason or standing(progress),
        "step": progress.step,
        "steps": progress.steps,
        "rate": round(progress.tokens_per_second),
        "left": None if progress.seconds_left is None else round(progress.seconds_left, 1),
        "points": thin(rows, live if row else POINTS_AT_FIRST, names),
        # The curve's last point is a mean over some steps; the numbers beside it are those of the newest step.
        "last": _mean(rows[-1:], CURVES[:2]) if rows else None,
        "snapshots": snapshots,
        "rest": rest(progress),
    }
    if not row and rows:
        news["precision"] = run.recipe.training.precision
    if looks := run.evaluations(since=look):
        news["held"] = thin(looks, len(looks))
    news["cursors"] = [row + len(rows), max([snapshot, *snapshots]), look + len(looks)]
    return news


def rest(progress: Progress) -> int:
    """Milliseconds until a page should ask again."""
    if progress.status not in ACTIVE:
        return ENDED_REST  # and then only to say that somebody is still here
    if progress.status == "paused":
        return PAUSED_REST
    return max(LIVE_REST if progress.step else FIRST_REST, CROWD_REST * progress.sharing)


def standing(progress: Progress) -> str:
    """What a run that has not begun is waiting for, and with how many others a running one takes turns; else ""."""
    if progress.status == "running" and progress.sharing > 1:
        return f"Taking turns with {progress.sharing - 1} other{'s' if progress.sharing > 2 else ''}."
    if progress.status != "queued":
        return ""
    if progress.place:
        ahead = "One run is" if progress.place == 1 else f"{progress.place} runs are"
        wait = "" if progress.wait_seconds is None else f", about {max(1, round(progress.wait_seconds))} s"
        return f"{ahead} prepared before yours{wait}."
    doing = progress.preparing or "getting ready"
    return f"{doing[0].upper()}{doing[1:]}."


def thin(rows: Sequence[Any], most: int, names: Sequence[str] = CURVES) -> list[list[float | None]]:
    """At most so many points [step, *values of these names], each the mean of its rows.

    A point stands at the last step of its rows; a value that was never asked for (nan) is None.
    """
    size = max(1, math.ceil(len(rows) / most))
    return [_mean(rows[start : start + size], names) for start in range(0, len(rows), size)]


def _mean(rows: Sequence[Any], names: Sequence[str]) -> list[float | None]:
    point: list[float | None] = [int(rows[-1].step)]
    for name in names:
        values = [value for row in rows if math.isfinite(value := getattr(row, name))]
        point.append(float(f"{sum(values) / len(values):.4g}") if values else None)
    return point
