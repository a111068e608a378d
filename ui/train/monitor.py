"""The live part of the Train tab: a run's status, curves and guesses as they come.

The page asks for news over `ui.news`; what it wants less often, it asks for here.
"""

import math
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr

from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.errors import RunError
from bert_core.runs.run import Run
from bert_core.runs.snapshots import Snapshot
from ui.handlers import on_error
from ui.parts.export import history_numbers, write
from ui.parts.figures import curves
from ui.server.news import CURVES, MORE_CURVES, POINTS_AT_FIRST, thin
from ui.server.workspace import NO_MODEL_YET, Workspace
from ui.server.workspaces import Workspaces
from ui.train.guess_board import GuessBoard
from ui.views import view

# The text's word frequencies are counted in so many sentences from its start.
MOST_COUNTED = 20_000

_boards: WeakKeyDictionary[Run, GuessBoard] = WeakKeyDictionary()  # of the runs that are watched


def run_monitor(workspaces: Workspaces) -> gr.HTML:
    """The component. Value: {"visitor", "run", "steps", "device"}, run None before the first.

    `.status` fires when the status changes, `.elsewhere` when another browser tab of the visitor changed something.
    """

    @on_error(lambda sentence: {"error": sentence})
    def guesses(arguments: list[Any]) -> dict[str, Any]:
        """The guesses of the model at a step, of the newest for None. first: the page has no sentences yet."""
        visitor, run_id, step, first = arguments
        space = workspaces.find(visitor)
        return run_guesses(space, space.run(run_id), None if step is None else int(step), first=bool(first))

    @on_error(lambda sentence: {"error": sentence})
    def table(arguments: list[Any]) -> dict[str, Any]:
        """All numbers of a run as the content of a file."""
        visitor, run_id, kind = arguments
        run = workspaces.find(visitor).run(run_id)
        return {"content": write(kind, history_numbers(run.history(), run.evaluations()))}

    @on_error(lambda sentence: {"error": sentence})
    def curve(arguments: list[Any]) -> dict[str, Any]:
        visitor, run_id = arguments
        space = workspaces.find(visitor)
        return run_curve(space, space.run(run_id))

    return view(
        "runMonitor",
        events=("status", "elsewhere"),
        options={"figures": [curves(), curves(more=True)], "series": [*CURVES, *MORE_CURVES]},
        server_functions=[guesses, table, curve],
        elem_id="run-monitor",
    )


def run_guesses(space: Workspace, run: Run, step: int | None, *, first: bool) -> dict[str, Any]:
    """The guesses of a run's model at a step for the hidden words of its board; the sentences of these and the levels
    that losses are compared with do not change and come with the first. Raises RunError where there is no model yet."""
    if (found := space.checkpoint(run, step)) is None:
        raise RunError(NO_MODEL_YET)
    board = _board(run)
    told = {"step": found[0], "words": board.at(found[1])}
    if first:
        told |= {"sentences": board.sentences, "levels": levels(run.corpus, run.snapshots[-1])}
    return told


def run_curve(space: Workspace, run: Run) -> dict[str, Any]:
    """A run's whole curve, thinned, to lie over that of another run; the page asks for it once."""
    entry = space.entries[run.id]
    return {
        "number": entry.number,
        "colour": entry.colour,
        "steps": run.recipe.training.total_steps,
        "points": thin(run.history(), POINTS_AT_FIRST),
    }


def levels(corpus: Corpus, model: Snapshot) -> dict[str, float]:
    """Losses of guesses without any knowledge of the sentence, in nats: what a curve can be compared with."""
    return {
        "ignorance": round(math.log(model.config.vocab_size), 4),
        "unigram": round(encode_corpus(corpus.excerpt(MOST_COUNTED), model.tokenizer).unigram_entropy, 4),
        "coin": round(math.log(2), 4),
    }


def _board(run: Run) -> GuessBoard:
    if run not in _boards:
        _boards[run] = GuessBoard(run.corpus, run.snapshots[-1].checkpoint())
    return _boards[run]
