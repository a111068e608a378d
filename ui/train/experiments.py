"""Experiments: one question, a few runs that differ in one setting, and the answer in numbers and a sentence."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr

from bert_core.data.corpus import Corpus
from bert_core.errors import ConfigError
from bert_core.runs.experiments import (
    MEASURES,
    PAIRS,
    Experiment,
    Marks,
    answer,
    examine,
    format_number,
    load_experiments,
    spread,
)
from bert_core.runs.prepare import preview
from bert_core.runs.recipe import Recipe, check_seed, recipe_corpus
from bert_core.runs.run import ACTIVE, Run
from ui.handlers import QUIET, on_error
from ui.parts.page import Page
from ui.server.probe_lock import probe_lock
from ui.server.workspace import Workspace
from ui.server.workspaces import Workspaces
from ui.train.settings import with_labels
from ui.views import view

SEEDS = [("One seed", 1), ("Three seeds", 3)]


class Experiments:
    """The accordion. `connect` wires it once the form is known."""

    def __init__(self, page: Page) -> None:
        self.page = page

        @on_error(lambda sentence: {"error": sentence})
        def news(arguments: list[Any]) -> dict[str, Any]:
            visitor, number, seen = arguments
            return trial_news(page.workspaces.find(visitor), int(number), int(seen))

        experiments = load_experiments()
        with gr.Accordion("Experiments: change one thing", open=False, elem_id="experiments"):
            self.choice = gr.Radio(
                [(experiment.title, experiment.name) for experiment in experiments],
                value=experiments[0].name,
                label="What to change; the rest is as in the form",
                info=experiments[0].question,
                elem_id="experiment-choice",
                elem_classes="balcony-list",
            )
            with gr.Row(elem_id="experiment-start-row"):
                self.seeds = gr.Radio(
                    SEEDS, value=1, show_label=False, container=False, elem_id="experiment-seeds", min_width=200
                )
                self.start = gr.Button("Start experiment", elem_id="experiment-start", min_width=160)
            self.result = view("experiment", server_functions=[news], elem_id="experiment")

    def connect(
        self,
        seed: gr.Number,
        form: list[Any],
        chosen: Callable[..., tuple[Recipe, Callable[[], Corpus]]],
        show: Callable[[str], list[Any]],
        live: list[Any],
    ) -> None:
        """chosen: of the form's values, the recipe and what reads the text. show: values of `live` for a visitor."""
        page = self.page

        @on_error(lambda sentence: {"error": with_labels(sentence)})
        def begin(space: Any, name: str, seeds: int, first: float | None, *form: Any) -> dict[str, Any]:
            first = int(first or 0)
            recipe, read = chosen(*form)
            wanted = range(first, first + int(seeds))
            start_trial(page.workspaces, space, experiment_named(name), recipe, read(), wanted)
            return {}

        def start(token: str, *values: Any) -> list[Any]:
            space = page.workspaces.enter(token)
            return [begin(space, *values), *show(space.token)]

        self.choice.change(
            lambda name: gr.update(info=experiment_named(name).question), self.choice, self.choice, **QUIET
        )
        inputs = [page.visitor, self.choice, self.seeds, seed, *form]
        self.start.click(start, inputs, [self.result, *live], **QUIET)


def experiment_named(name: str) -> Experiment:
    """One of the experiments of `bert_core.runs.experiments`. Raises ConfigError for another name."""
    found = next((experiment for experiment in load_experiments() if experiment.name == name), None)
    if found is None:
        raise ConfigError(f"There is no experiment {str(name)[:60]!r}; choose one of the list.")
    return found


_trials: WeakKeyDictionary[Workspace, "Trial"] = WeakKeyDictionary()  # the one that each visitor started last
ALWAYS_SHOWN = ("mlm_accuracy", "mlm_loss", "nsp_accuracy", "nsp_loss", "seconds")
MODELS_OF_A_RUN = 2  # that always stay: the first and the newest


@dataclass
class Trial:
    """number: counts the visitor's experiments. recipe: at scale, without the settings of a side; every model is asked
    as it says. runs: (number of the variant, seed, id of the run) in the order of their start. marks: by id, of the
    runs that have finished. text: what the models are asked about, "" before the first is."""

    number: int
    experiment: Experiment
    recipe: Recipe
    runs: tuple[tuple[int, int, str], ...]
    marks: dict[str, Marks] = field(default_factory=dict)
    text: str = ""

    def examine(self, space: Workspace) -> None:
        """Ask the models of the runs that have finished, each once."""
        for run in self.of(space):
            snapshots, text = run.snapshots, run.held_out or run.training_text
            if run.status != "finished" or not snapshots or run.id in self.marks:
                continue
            with probe_lock:
                self.text = "held-out text" if run.held_out else "the text that they learned from"
                seconds = run.history()[-1].seconds
                self.marks[run.id] = examine(snapshots[-1].checkpoint(), text, self.recipe.data, seconds)

    def of(self, space: Workspace) -> list[Run]:
        """Its runs that are still kept."""
        return [space.runs[run_id] for _, _, run_id in self.runs if run_id in space.runs]

    @property
    def complete(self) -> list[list[Marks]]:
        """For each variant the marks of the seeds with which all variants have finished."""
        seeds = dict.fromkeys(seed for _, seed, _ in self.runs)
        by_seed = [[run_id for _, seed, run_id in self.runs if seed == wanted] for wanted in seeds]
        whole = [ids for ids in by_seed if all(run_id in self.marks for run_id in ids)]
        return [[self.marks[ids[variant]] for ids in whole] for variant in range(len(self.experiment.variants))]


def start_trial(
    workspaces: Workspaces,
    space: Workspace,
    experiment: Experiment,
    recipe: Recipe,
    corpus: Corpus | None,
    seeds: range,
) -> None:
    """Start a run of each variant with each seed; they wait for each other.

    Raises RunError while a run of the visitor is going, ConfigError where the settings do not fit together or the
    models would be more than a visitor may keep.
    """
    space.refuse_if_active()
    check_seed(seeds[-1])
    recipes = [recipe.override(variant.settings) for variant in experiment.variants]
    told = preview(recipe, corpus or recipe_corpus(recipe), workspaces.service.device)
    _check_bytes(recipes, told.vocabulary, len(seeds), space.budget.limit)
    runs = [
        (number, seed, workspaces.start(space, recipes[number], corpus, seed, variant=variant.title).id)
        for seed in seeds
        for number, variant in enumerate(experiment.variants)
    ]
    before = _trials[space].number if space in _trials else 0
    _trials[space] = Trial(before + 1, experiment, recipe.at_scale(), tuple(runs))


def _check_bytes(recipes: list[Recipe], vocabulary: int, seeds: int, limit: int) -> None:
    """ConfigError where the models that always stay would be more than a visitor may keep."""
    models = [dataclasses.replace(recipe.at_scale().model, vocab_size=vocabulary) for recipe in recipes]
    needed = sum(4 * model.parameter_count() for model in models) * seeds * MODELS_OF_A_RUN
    if needed > limit:
        raise ConfigError(
            f"The models of this experiment take {needed / 2**20:,.0f} MB and you can keep {limit / 2**20:,.0f} MB; "
            "choose a smaller hidden size or fewer seeds."
        )


def trial_news(space: Workspace, number: int = 0, seen: int = 0) -> dict[str, Any]:
    """How the visitor's experiment stands; {} before the first. number, seen: the experiment that the page knows and
    how many of its runs that have ended.

    The runs that have ended since are only named while one of the experiment's is watched, for the curves.
    """
    trial = _trials.get(space)
    if trial is None:
        return {}
    trial.examine(space)
    runs = trial.of(space)
    ended = [run for run in runs if run.status not in ACTIVE]
    going = next((run for run in runs if run.status in ACTIVE), None)
    news: dict[str, Any] = {
        "number": trial.number,
        "of": len(trial.runs),
        "done": len(trial.runs) - len(runs) + len(ended),
    }
    if space.shown_run_id in {run.id for run in runs}:
        news["ended"] = [run.id for run in ended[seen if number == trial.number else 0 :]]
    news["seen"] = len(ended)
    if number != trial.number:
        news |= {"title": trial.experiment.title, "question": trial.experiment.question}
    if going is not None:
        return news | _standing(space, runs, going)
    problem = next((run for run in runs if run.status != "finished"), None)
    reason = f"Run {space.entries[problem.id].number}: {problem.reason}" if problem else ""
    return news | {"result": _result(space, trial), "reason": reason}


def _standing(space: Workspace, runs: list[Run], going: Run) -> dict[str, Any]:
    """What is trained now, the share of all steps that is done, and the seconds that are left."""
    progress, entry = going.progress(), space.entries[going.id]
    steps = [(run.progress().step, run.recipe.training.total_steps) for run in runs]
    all_steps, left = sum(total for _, total in steps), None
    done = sum(step if run.status in ACTIVE else total for run, (step, total) in zip(runs, steps, strict=True))
    if progress.seconds_left is not None and progress.step < progress.steps:
        left = round(progress.seconds_left * (all_steps - done) / (progress.steps - progress.step), 1)
    return {"now": f"{entry.variant}, seed {going.seed}", "share": round(done / all_steps, 3), "left": left}


def _result(space: Workspace, trial: Trial) -> dict[str, Any] | None:
    """A line for each variant and a sentence on all of them, of the seeds with which all variants have finished."""
    marks, experiment = trial.complete, trial.experiment
    if not marks[0]:
        return None
    asked = {contrast.measure for contrast in experiment.contrasts}
    shown = [name for name in MEASURES if name in asked or name in ALWAYS_SHOWN]
    colours = {entry.variant: entry.colour for entry in space.entries.values()}
    rows = []
    for variant, column in zip(experiment.variants, marks, strict=True):
        untrained = [task for task in ("mlm", "nsp") if variant.settings.get(f"training.{task}_weight") == 0]
        cells = [
            "–" if MEASURES[name].objective in untrained else format_number(spread(column, name), name)
            for name in shown
        ]
        rows.append({"title": variant.title, "colour": colours.get(variant.title, ""), "cells": cells})
    seeds = len(marks[0])
    chance = "One seed can't tell chance from effect; three can."
    mean = chance if seeds == 1 else f"Mean ± standard deviation over {seeds} seeds."
    same = f"Every model was asked about the same {PAIRS} pairs of {trial.text}, with words hidden as the recipe says."
    columns = [MEASURES[name].title for name in shown]
    return {"columns": columns, "rows": rows, "answer": answer(experiment, marks), "how": f"{mean} {same}"}
