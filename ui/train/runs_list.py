"""The list of a visitor's runs: their last numbers side by side, what differs between them, and starting one again."""

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from bert_core.errors import RunError
from bert_core.runs.experiments import begin_alike, differences, settings_of
from bert_core.runs.run import Run
from ui.handlers import QUIET, on_error, warn
from ui.parts.page import Page
from ui.server.news import thin
from ui.server.workspace import Workspace
from ui.server.workspaces import Workspaces
from ui.train.settings import SHOWN
from ui.views import view

LAST_STEPS = 20  # whose mean is a run's last number


def runs_list(page: Page) -> gr.HTML:
    """Lay the list out in an accordion of its own. `connect` wires its buttons."""

    @on_error(lambda sentence: {"error": sentence})
    def listing(visitor: str) -> list[dict[str, Any]]:
        space = page.workspaces.find(visitor)
        return [run_row(space, run) for run in space.runs.values()]

    @on_error(lambda sentence: {"error": sentence})
    def differing(arguments: list[Any]) -> dict[str, Any]:
        visitor, ids = arguments
        space = page.workspaces.find(visitor)
        return what_differs(space, [space.run(run_id) for run_id in ids])

    with gr.Accordion("Your runs side by side", open=False, elem_id="your-runs"):
        return view("runsList", server_functions=[listing, differing], elem_id="runs-list")


def connect_runs(page: Page, runs: gr.HTML, show: Callable[[str], list[Any]], live: list[Any]) -> None:
    """Run again and Reset: start a run like the chosen one, and `show` it in the components `live`."""

    @on_error(warn)
    def start(token: str, event: gr.EventData) -> None:
        space = page.workspaces.find(token)
        repeat(page.workspaces, space, space.run(event.run), paused=bool(event.paused))

    def again(token: str, event: gr.EventData) -> list[Any]:
        start(token, event)
        return show(token)

    runs.select(again, page.visitor, live, **QUIET)


def repeat(workspaces: Workspaces, space: Workspace, run: Run, *, paused: bool) -> Run:
    """Start a run with the same settings, text and seed, which therefore begins with the same weights bit for bit.

    paused: before its first step. Raises RunError while another one is going, or where the text is no longer kept.
    """
    space.refuse_if_active()
    if run.corpus is None:
        raise RunError("The text of this run is no longer kept; start it from the form.")
    variant = space.entries[run.id].variant
    again = workspaces.start(space, run.recipe, run.corpus, run.seed, paused=paused, variant=variant)
    again.set_pace(run.pace)
    return again


def run_row(space: Workspace, run: Run) -> dict[str, Any]:
    """A line of the list. numbers, held: of the last steps and of the last look at held-out text, in the order of
    CURVES; None where there are none. The seed is text, because JavaScript's numbers do not hold all seeds."""
    entry, progress = space.entries[run.id], run.progress()
    rows, looks = run.history(since=max(0, progress.step - LAST_STEPS)), run.evaluations()
    return {
        "run": run.id,
        "number": entry.number,
        "variant": entry.variant,
        "colour": entry.colour,
        "title": run.recipe.title,
        "seed": str(run.seed),
        "status": progress.status,
        "reason": progress.reason,
        "step": progress.step,
        "steps": progress.steps,
        "numbers": thin(rows, 1)[0][1:] if rows else None,
        "held": thin(looks[-1:], 1)[0][1:] if looks else None,
        "canRepeat": run.corpus is not None,
    }


def what_differs(space: Workspace, runs: Sequence[Run]) -> dict[str, Any]:
    """The settings that are not the same in all these runs as [label, name, a value for each run], and whether all
    began with the same weights, None where that can't be told. Raises RunError for a run whose text is gone."""
    for run in runs:
        if run.corpus is None:
            raise RunError(f"Run {space.entries[run.id].number} is not prepared yet, or is no longer kept.")
    found = differences([settings_of(run.recipe, run.seed, run.corpus) for run in runs])
    if "text" in found:
        found["text"] = [f"{run.corpus.name}, {len(run.corpus.sentences):,} sentences" for run in runs]
    return {
        "runs": [space.entries[run.id].number for run in runs],
        "rows": [[label_of(name), name, *(said(value) for value in values)] for name, values in found.items()],
        "alike": begin_alike([run.snapshots for run in runs]),
    }


def label_of(name: str) -> str:
    """A setting's name as the form has it, or in words."""
    words = " ".join(word.upper() if word in ("mlm", "nsp") else word for word in name.split(".")[-1].split("_"))
    return SHOWN.get(name) or words[0].upper() + words[1:]


def said(value: Any) -> str:
    """A setting's value for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):  # the later parts of a training
        parts = (f"from step {part['start']} on {part['steps']} steps at {part['learning_rate']:g}" for part in value)
        return "; ".join(parts) or "–"
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
