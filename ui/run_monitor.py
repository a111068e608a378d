"""The live part of the Train tab: what a page gets when it asks for news of its run.

An answer holds what came after the page's cursors, thinned to a few points, so it stays below half a kilobyte however
fast the training is. A page that was reloaded asks from the start and gets the whole curve once.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import gradio as gr

from bert_core.corpus import Corpus
from bert_core.encoded import encode_corpus
from bert_core.errors import RunError
from bert_core.export import history_csv, history_json
from bert_core.figures import curves
from bert_core.run import Progress, Run
from bert_core.snapshots import Snapshot
from ui.guess_board import GuessBoard
from ui.handlers import on_error
from ui.views import view
from ui.workspace import ACTIVE, Workspace
from ui.workspaces import Workspaces

POINTS_LIVE = 6
POINTS_LIVE_MORE = 3  # of twice as many numbers
POINTS_AT_FIRST = 300
CURVES = ("mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy")
MORE_CURVES = ("learning_rate", "grad_norm", "masked_accuracy", "replaced_accuracy", "kept_accuracy")
# The text's word frequencies are counted in so many sentences from its start.
MOST_COUNTED = 20_000


def run_monitor(workspaces: Workspaces) -> gr.HTML:
    """The component. Value: {"visitor", "run", "steps", "device"}, run None before the first.

    `.status` fires when the status changes, `.elsewhere` when another browser tab of the visitor changed something.
    """

    @on_error(lambda sentence: {"error": sentence})
    def poll(arguments: list[Any]) -> dict[str, Any]:
        visitor, run_id, more, cursors = arguments
        return run_news(workspaces.find(visitor), run_id, *map(int, cursors), more=bool(more))

    @on_error(lambda sentence: {"error": sentence})
    def guesses_at(arguments: list[Any]) -> dict[str, Any]:
        """The guesses of the model at a step, of the newest for None."""
        visitor, run_id, step = arguments
        space = workspaces.find(visitor)
        run = space.run(run_id)
        if (found := space.checkpoint(run, None if step is None else int(step))) is None:
            raise RunError("Your run has no model yet; it will in a moment.")
        return {"step": found[0], "words": _board(space, run).at(found[1])}

    @on_error(lambda sentence: {"error": sentence})
    def table(arguments: list[Any]) -> dict[str, Any]:
        """All numbers of a run as the content of a file."""
        visitor, run_id, kind = arguments
        run = workspaces.find(visitor).run(run_id)
        write = history_json if kind == "json" else history_csv
        return {"content": write(run.history(), run.evaluations())}

    @on_error(lambda sentence: {"error": sentence})
    def curve(arguments: list[Any]) -> dict[str, Any]:
        visitor, run_id = arguments
        space = workspaces.find(visitor)
        return run_curve(space, space.run(run_id))

    return view(
        "runMonitor",
        events=("status", "elsewhere"),
        options={"figures": [curves(), curves(more=True)], "series": [*CURVES, *MORE_CURVES]},
        server_functions=[poll, guesses_at, table, curve],
        elem_id="run-monitor",
    )


def run_news(
    space: Workspace,
    run_id: str,
    row: int = 0,
    snapshot: int = -1,
    guess: int = -1,
    look: int = 0,
    *,
    more: bool = False,
) -> dict[str, Any]:
    """What is new in a run since the page's cursors, which come back renewed.

    row: rows of the history seen. snapshot: newest step that the time slider knows, -1 for none. guess: step whose
    guesses were seen, -1 for none. look: points of the held-out curve seen. more: whether the page shows more
    curves than the first four.
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
    }
    if looks := run.evaluations(since=look):
        news["held"] = thin(looks, len(looks))
    newest = run.snapshots[-1] if run.snapshots and run.corpus is not None else None
    if newest and snapshot < 0:
        news["levels"] = levels(run.corpus, newest)
    # The first points of a run come at once; the guesses take a moment longer and come with the next answer.
    is_over = progress.status not in ACTIVE
    asked = guess
    if (row or is_over) and newest and newest.step > guess:
        board = _board(space, run)
        if is_over or board.is_rested:
            board.look(*space.checkpoint(run), sharing=progress.sharing)
        asked = board.step
        if asked > guess and board.words:
            news["guesses"] = {"words": board.words} | ({"sentences": board.sentences} if guess < 0 else {})
    news["cursors"] = [row + len(rows), max([snapshot, *snapshots]), asked, look + len(looks)]
    return news


def run_curve(space: Workspace, run: Run) -> dict[str, Any]:
    """A run's whole curve, thinned, to lie over that of another run; the page asks for it once."""
    entry = space.entries[run.id]
    return {
        "number": entry.number,
        "colour": entry.colour,
        "steps": run.recipe.training.total_steps,
        "points": thin(run.history(), POINTS_AT_FIRST),
    }


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


def levels(corpus: Corpus, model: Snapshot) -> dict[str, float]:
    """Losses of guesses without any knowledge of the sentence, in nats: what a curve can be compared with."""
    text = dataclasses.replace(corpus, documents=(corpus.sentences[:MOST_COUNTED],), labels=None)
    return {
        "ignorance": round(math.log(model.config.vocab_size), 4),
        "unigram": round(encode_corpus(text, model.tokenizer).unigram_entropy, 4),
        "coin": round(math.log(2), 4),
    }


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


def _board(space: Workspace, run: Run) -> GuessBoard:
    if run.id not in space.boards:
        space.boards[run.id] = GuessBoard(run.corpus, run.snapshots[-1].checkpoint())
    return space.boards[run.id]
