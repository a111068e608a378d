"""The live part of the Train tab: what a page gets when it asks for news of its run.

An answer holds what came after the page's cursor, thinned to a few points, so it stays below half a kilobyte however
fast the training is. A page that was reloaded asks from 0 and gets the whole curve once.
"""

import math
from collections.abc import Sequence
from typing import Any

import gradio as gr

from bert_core.figures import curves
from ui.guess_board import GuessBoard
from ui.handlers import on_error
from ui.views import view
from ui.workspace import ACTIVE, Workspace
from ui.workspaces import Workspaces

POINTS_LIVE = 6
POINTS_AT_FIRST = 300
CURVES = (("mlm_loss", 4), ("nsp_loss", 4), ("mlm_accuracy", 3), ("nsp_accuracy", 3))


def run_monitor(workspaces: Workspaces) -> gr.HTML:
    """The component. Value: {"visitor", "run", "steps", "device"}, run None before the first.

    `.status` fires when the status changes, `.elsewhere` when another browser tab of the visitor changed something.
    """

    @on_error(lambda sentence: {"error": sentence})
    def poll(arguments: list[Any]) -> dict[str, Any]:
        visitor, run_id, cursors = arguments
        return run_news(workspaces.find(visitor), run_id, *map(int, cursors))

    return view(
        "runMonitor",
        events=("status", "elsewhere"),
        options={"figure": curves()},
        server_functions=[poll],
        elem_id="run-monitor",
    )


def run_news(space: Workspace, run_id: str, row: int = 0, snapshot: int = -1, guess: int = -1) -> dict[str, Any]:
    """What is new in a run since the page's cursors, which come back renewed.

    row: rows of the history seen. snapshot: newest step that the time slider knows, -1 for none. guess: step whose
    guesses were seen, -1 for none.
    """
    run = space.run(run_id)
    progress = run.progress()
    rows = run.history(since=row)
    snapshots = [kept.step for kept in run.snapshots if kept.step > snapshot]
    news = {
        "status": progress.status,
        "reason": progress.reason,
        "step": progress.step,
        "steps": progress.steps,
        "rate": round(progress.tokens_per_second),
        "left": None if progress.seconds_left is None else round(progress.seconds_left, 1),
        "points": thin(rows, POINTS_LIVE if row else POINTS_AT_FIRST),
        # The curve's last point is a mean over some steps; the numbers beside it are those of the newest step.
        "last": _mean(rows[-1:]) if rows else None,
        "snapshots": snapshots,
    }
    # The first points of a run come at once; the guesses take a moment longer and come with the next answer.
    is_over = progress.status not in ACTIVE
    asked = guess
    if (row or is_over) and (newest := space.checkpoint(run)) and newest[0] > guess and run.corpus is not None:
        step, checkpoint = newest
        board = space.boards.get(run.id) or space.boards.setdefault(run.id, GuessBoard(run.corpus, checkpoint))
        asked, words = board.guesses(step, checkpoint, now=is_over)
        if asked > guess and words:
            news["guesses"] = {"words": words} | ({"sentences": board.sentences} if guess < 0 else {})
    news["cursors"] = [row + len(rows), max([snapshot, *snapshots]), asked]
    return news


def thin(rows: Sequence[Any], most: int) -> list[list[float | None]]:
    """At most so many points [step, MLM loss, NSP loss, MLM accuracy, NSP accuracy], each the mean of its rows.

    A point stands at the last step of its rows; a value that was never asked for (nan) is None.
    """
    size = max(1, math.ceil(len(rows) / most))
    return [_mean(rows[start : start + size]) for start in range(0, len(rows), size)]


def _mean(rows: Sequence[Any]) -> list[float | None]:
    point: list[float | None] = [int(rows[-1].step)]
    for name, digits in CURVES:
        values = [value for row in rows if math.isfinite(value := getattr(row, name))]
        point.append(round(sum(values) / len(values), digits) if values else None)
    return point
