"""The list of a visitor's runs: their last numbers and the settings that differ."""

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

import gradio as gr

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.handlers import QUIET, own, sent
from balcony.server.news import LAST_STEPS, POINTS_AT_FIRST, thin
from balcony.server.workspace import Workspace
from balcony.train.form import OFTEN
from balcony.train.monitor import SERIES
from balcony.train.settings import in_words, label_of
from balcony.train.tab import TrainTab
from balcony.views import view
from bert_core.data.corpus import Corpus
from bert_core.device import give_back_memory
from bert_core.runs.recipe import Recipe
from bert_core.runs.run import Run

HINT = (
    "The ticked runs are drawn below. Numbers are means over the last 20 steps, while the model was still learning; "
    "the sentence beside “Finished” in Train tests the finished model."
)
LONGEST_BEGIN = 40  # letters of a text


def runs_list(page: Page, training: TrainTab) -> None:
    """Lay out the list and connect its buttons."""

    def remove(space: Workspace, event: gr.EventData) -> None:
        space.remove(sent(event, "run", str))
        give_back_memory()

    for function in (listing, curve):
        page.answers.add(function.__name__, function)
    options = {"series": SERIES, "hint": HINT}
    runs = view("compare/runs_list", events=("remove",), options=options, elem_id="runs-list")
    runs.remove(training.showing(remove), page.visitor, training.live, trigger_mode="multiple", **QUIET)


def listing(asked: PageRequest) -> dict[str, Any]:
    """The rows of the list."""
    space, runs = asked.space, asked.space.pretraining_runs
    differing = what_differs(runs)
    rows = [run_row(space, run) | {"differs": differing.get(run, [])} for run in runs]
    return {"rows": rows, "notes": space.dropped_notes}


def curve(asked: PageRequest, run_id: str) -> dict[str, Any]:
    """A run's whole curve, thinned, to draw beside those of others."""
    run, entry = asked.space.run(run_id), asked.space.entries[run_id]
    return {
        "name": asked.space.title(run_id),
        "colour": entry.colour,
        "isDotted": entry.is_dotted,
        "steps": run.recipe.training.total_steps,
        "points": thin(run.history(), POINTS_AT_FIRST),
    }


def run_row(space: Workspace, run: Run) -> dict[str, Any]:
    """A row of the list. numbers, held: of the last steps and of the last held-out evaluation, in the order of CURVES;
    None where there are none."""
    entry, progress = space.entries[run.id], run.progress()
    rows, evaluations = run.history(since=max(0, progress.step - LAST_STEPS)), run.evaluations()
    return {
        "run": run.id,
        "number": entry.number,
        "colour": entry.colour,
        "isDotted": entry.is_dotted,
        "title": space.title(run.id),
        "status": progress.status,
        "reason": progress.reason,
        "step": progress.step,
        "steps": progress.steps,
        "numbers": thin(rows, 1)[0][1:] if rows else None,
        "held": thin(evaluations[-1:], 1)[0][1:] if evaluations else None,
        "isKept": run.job is not None,
    }


def what_differs(runs: Sequence[Run]) -> dict[Run, list[list[str]]]:
    """For each run the settings that are not the same in all of them, as [label, name, value]. A run that is not
    prepared, or whose text is no longer kept, is left out."""
    texts = {run: job.source for run in runs if (job := run.job)}
    found = differences([settings_of(run.recipe, text) for run, text in texts.items()])
    if "text" in found:
        begins = (own(shorten(text.sentences[0], LONGEST_BEGIN, placeholder="…")) for text in texts.values())
        found["text"] = [f"{len(text.sentences):,} sentences: {begin}" for text, begin in zip(texts.values(), begins)]
    return {
        run: [[label_of(name), name, in_words(values[k])] for name, values in found.items()]
        for k, run in enumerate(texts)
    }


def settings_of(recipe: Recipe, corpus: Corpus) -> dict[str, Any]:
    """All settings of a run with a prepared recipe, by names such as "data.batch_size", after the fingerprint of its
    text and its seed; those come first that people change most."""
    content = recipe.content()
    flat = {"text": corpus.fingerprint, "seed": str(content.pop("seed"))}
    content["training"]["steps"] = recipe.training.total_steps
    del content["title"], content["description"]
    for name in ("file", "kind", "needs"):  # the fingerprint says more
        del content["corpus"][name]
    flat |= {f"{section}.{name}": value for section, values in content.items() for name, value in values.items()}
    return {name: flat[name] for name in ("text", "seed", *OFTEN, *flat)}


def differences(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The settings that are not the same in all runs, with the value of each run."""
    columns = {name: [each[name] for each in settings] for name in settings[0]} if settings else {}
    return {name: values for name, values in columns.items() if any(value != values[0] for value in values)}
