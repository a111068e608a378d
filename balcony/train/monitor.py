"""The live part of the Train tab: a run's status, curves and guesses.

The page polls `balcony.server.news`; what it needs less often, it requests here.
"""

import json
import math
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.parts.report import frequency_loss
from balcony.server.news import CURVES, MORE_CURVES, POINTS_AT_FIRST, thin
from balcony.server.workspace import NO_MODEL_YET, Workspace, is_finetuning
from balcony.server.workspaces import Workspaces
from balcony.train.guess_board import GuessBoard
from balcony.train.saved_run import run_file
from balcony.views import view
from bert_core.config import ASSETS
from bert_core.data.corpus import Corpus
from bert_core.errors import RunError
from bert_core.runs.run import TRAINING, Run
from bert_core.runs.snapshots import MAX_SNAPSHOTS, Snapshot

JUDGED_LIVE = 2  # more kept steps of a run that trains, in one request: a room of pages asks all the time
SERIES = [*CURVES, *MORE_CURVES]  # of the charts of runs
_boards: WeakKeyDictionary[Run, GuessBoard] = WeakKeyDictionary()  # of the runs that a page shows


def run_monitor(page: Page) -> gr.HTML:
    """The component. Value: {"visitor", "run", "steps", "device", ...}; run is None before the first.

    `.status` fires when the buttons of the run change, `.elsewhere` when another browser tab changed something,
    `.limits` when a teacher has changed the limits of runs, `.fill` with {"values"} for the form, `.longer` with
    {"run", "steps"} when a person lets an ended run go on.
    """

    def board(asked: PageRequest, run_id: str, step: int | None, first: bool) -> dict[str, Any]:
        """The guesses at a step, None for the newest. first: the page has no sentences yet."""
        return run_guesses(asked.space, asked.space.run(run_id), step, first=first)

    def saved(asked: PageRequest, run_id: str, kind: str) -> dict[str, Any]:
        return run_file(page, asked.space, asked.space.run(run_id), kind)

    def between(asked: PageRequest, run_id: str, first: int, last: int) -> dict[str, Any]:
        """The points between two steps, for a part of the chart to which a person has zoomed."""
        rows = [row for row in asked.space.run(run_id).history() if first <= row.step <= last]
        return {"points": thin(rows, POINTS_AT_FIRST, SERIES)}

    for function in (board, saved, between):
        page.answers.add(function.__name__, function)
    workspaces = page.workspaces
    story = sorted((*tab.story, tab.name) for tab in page.tabs if tab.story)
    return view(
        "train/monitor",
        events=("status", "elsewhere", "limits", "fill", "longer"),
        options={"series": SERIES}
        | {"losses": workspaces.losses, "story": [[name, text] for _, text, name in story]}
        | {"example": json.loads((ASSETS / "example-curve.json").read_text(encoding="utf-8"))},
        elem_id="run-monitor",
    )


def run_guesses(space: Workspace, run: Run, step: int | None, *, first: bool) -> dict[str, Any]:
    """The guesses of a run's model at a step for the hidden words of its board. Raises RunError before the first model.

    first: also the board's sentences and the losses to compare with, which do not change. Of the newest model also the
    steps of `FirstRight`.
    """
    if (found := space.checkpoint(run, step)) is None or run.job is None or is_finetuning(run):
        raise RunError(NO_MODEL_YET)
    corpus = run.job.source
    if run not in _boards:
        _boards[run] = GuessBoard(corpus, run.snapshots[-1].checkpoint())
    guesses: dict[str, Any] = {"step": found[0], "words": _boards[run].at(found[1])}
    if step is None:
        most = JUDGED_LIVE if run.status in TRAINING else MAX_SNAPSHOTS
        guesses["first_right"] = _boards[run].first_right.steps(run, most)
    if first:
        guesses |= {"sentences": _boards[run].sentences, "baselines": baselines(corpus, run.snapshots[-1])}
    return guesses


def baselines(corpus: Corpus, model: Snapshot) -> dict[str, dict[str, Any]]:
    """Losses to compare a curve with, in nats: those of guesses that ignore the sentence."""
    vocabulary = model.config.vocab_size
    unigram = frequency_loss(corpus, model.tokenizer)
    found = {
        "uniform": (math.log(vocabulary), f"uniform guess (ln {vocabulary} = {math.log(vocabulary):.2f})"),
        "unigram": (unigram, f"always guessing by word frequency ({unigram:.2f})"),
        "coin": (math.log(2), "coin toss (ln 2 = 0.69)"),
    }
    return {name: {"loss": round(loss, 4), "label": label} for name, (loss, label) in found.items()}


def monitor_value(workspaces: Workspaces, space: Workspace, run: Run | None) -> dict[str, Any]:
    """The value of the component for a visitor's run."""
    if run is None:
        return {"visitor": space.token, "run": None}
    return {
        "visitor": space.token,
        "run": run.id,
        "title": space.title(run.id),
        "steps": run.recipe.training.total_steps,
        "device": workspaces.service.device_name,
        "step": run.progress().step,  # another value, so that the page asks at once after a button was pressed
        "status": run.status,
        "isSlow": run.pace is not None,
        "rate": f"{rate_of(run):g}",
        "listed": [*space.runs],
    }


def rate_of(run: Run) -> float:
    """The learning rate of a run's last part."""
    training = run.recipe.training
    return (training.parts or (training,))[-1].learning_rate
