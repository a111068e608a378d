"""Experiments: one question, a few runs that differ in one setting, and the answer in numbers and a sentence."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr

from bert_core.config import check_seed
from bert_core.data.corpus import Corpus
from bert_core.errors import BertCoreError, ConfigError
from bert_core.runs.experiments import (
    MEASURES,
    Contrast,
    Experiment,
    Marks,
    baseline_of,
    examine,
    load_experiments,
    outcome,
    spread,
)
from bert_core.runs.prepare import preview
from bert_core.runs.recipe import Recipe
from bert_core.runs.run import ACTIVE, Run
from bert_core.training.verdicts import MARGIN, MARGIN_RATIO, SEEDS, STANDARD_ERRORS, Spread
from ui.handlers import QUIET, on_error
from ui.parts.page import Page
from ui.server.probe_lock import probe_lock
from ui.server.workspace import Workspace
from ui.server.workspaces import Workspaces, functions
from ui.train.form import with_labels
from ui.train.tab import Training
from ui.views import view

SEED_CHOICES = [("One seed", 1), ("Three seeds", 3)]
ALWAYS_SHOWN = ("mlm_accuracy", "mlm_loss", "nsp_accuracy", "nsp_loss", "seconds")
MODELS_PER_RUN = 2  # that are never dropped: the first and the newest
NO_CONCLUSION = {  # by outcome; a contrast has the sentences for the others
    "not asked": "not asked in this test",
    "not trained": "not compared, because not every model is trained for it",
    "no better": f"no model is more than {100 * MARGIN:g} points above always giving the most frequent answer",
    "saturated": f"all models are within {100 * MARGIN:g} points of 100%, so this text cannot show a difference",
    "few seeds": "{seeds} cannot settle it",
    "unclear": "the seeds do not settle it",
}
FEW_SEEDS = "Between fewer than three seeds, any difference can be chance; run three."
RULE = (
    f"Mean ± standard deviation over {{}} seeds. Higher or lower: the means differ by more than {STANDARD_ERRORS} "
    f"standard errors (Student's t, 95%). Alike: even with {STANDARD_ERRORS} standard errors more, they would differ "
    f"by less than {100 * MARGIN:g} points (times: {MARGIN_RATIO:.0%})."
)
FORMATS = {"fraction": (100, 0, "%"), "nats": (1, 2, ""), "seconds": (1, 1, " s")}  # factor, digits, unit


@dataclass
class Trial:
    """An experiment as a visitor started it.

    number: counts the visitor's trials. recipe: at scale, without a variant's settings; it decides how every model is
    tested. runs: (number of the variant, seed, run id) in the order of their start. marks: of the finished runs, by
    id. problems: why a finished run could not be tested, by id. text: describes the text that the models were tested
    on, "" before the first test.
    """

    number: int
    experiment: Experiment
    recipe: Recipe
    runs: tuple[tuple[int, int, str], ...]
    marks: dict[str, Marks] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    text: str = ""

    def examine(self, space: Workspace) -> None:
        """Test the models of the runs that have finished, each once."""
        for run in self.kept_runs(space):
            snapshots, prepared = run.snapshots, run.prepared
            is_done = run.id in self.marks or run.id in self.problems
            if run.status != "finished" or not snapshots or prepared is None or is_done:
                continue
            text, held_out = prepared.parts.validation or prepared.parts.train, prepared.parts.validation
            weights = run.recipe.training
            trained = tuple(name for name in ("mlm", "nsp") if getattr(weights, f"{name}_weight"))
            seconds = run.history()[-1].seconds
            try:
                with probe_lock:
                    self.text = "held-out text" if held_out else "the training text"
                    self.marks[run.id] = examine(
                        snapshots[-1].checkpoint(), text, self.recipe.data, seconds=seconds, trained=trained
                    )
            except BertCoreError as error:
                self.problems[run.id] = f"Its model cannot be tested: {error}"

    def kept_runs(self, space: Workspace) -> list[Run]:
        """Its runs that have not been dropped."""
        return [space.runs[run_id] for _, _, run_id in self.runs if run_id in space.runs]

    @property
    def complete_marks(self) -> list[list[Marks]]:
        """For each variant, its marks with the seeds for which all variants have finished."""
        seeds = dict.fromkeys(seed for _, seed, _ in self.runs)
        by_seed = [[run_id for _, seed, run_id in self.runs if seed == wanted] for wanted in seeds]
        complete = [ids for ids in by_seed if all(run_id in self.marks for run_id in ids)]
        return [[self.marks[ids[variant]] for ids in complete] for variant in range(len(self.experiment.variants))]


_trials: WeakKeyDictionary[Workspace, Trial] = WeakKeyDictionary()  # each visitor's newest


def experiment_named(name: str) -> Experiment:
    """The experiment of that name. Raises ConfigError for an unknown one."""
    found = next((experiment for experiment in load_experiments() if experiment.name == name), None)
    if found is None:
        raise ConfigError(f"There is no experiment {str(name)[:60]!r}; choose one of the list.")
    return found


def start_trial(
    workspaces: Workspaces,
    space: Workspace,
    experiment: Experiment,
    recipe: Recipe,
    corpus: Corpus | None,
    seeds: range,
) -> None:
    """Start a run of each variant with each seed, one after the other.

    Raises RunError while a run of the visitor is active, ConfigError where settings do not fit together or the models
    exceed the visitor's budget.
    """
    space.refuse_if_active()
    check_seed(seeds[-1])
    recipes, service = [variant.apply(recipe) for variant in experiment.variants], workspaces.service
    vocabulary = preview(recipe, corpus or recipe.source(), service.device, service.limits).vocabulary
    _check_bytes(recipes, vocabulary, len(seeds), space.budget.limit)
    runs = [
        (number, seed, workspaces.start(space, recipes[number], corpus, seed, variant=variant.title).id)
        for seed in seeds
        for number, variant in enumerate(experiment.variants)
    ]
    before = _trials[space].number if space in _trials else 0
    _trials[space] = Trial(before + 1, experiment, recipe.at_scale(), tuple(runs))


def _check_bytes(recipes: list[Recipe], vocabulary: int, seeds: int, limit: int) -> None:
    models = [dataclasses.replace(recipe.at_scale().model, vocab_size=vocabulary) for recipe in recipes]
    needed = sum(4 * model.parameter_count() for model in models) * seeds * MODELS_PER_RUN
    if needed > limit:
        raise ConfigError(
            f"The models of this experiment take {needed / 2**20:,.0f} MB and you can keep {limit / 2**20:,.0f} MB; "
            "choose a smaller hidden size or fewer seeds."
        )


def trial_news(space: Workspace, number: int = 0, cursor: int = 0) -> dict[str, Any]:
    """Progress or result of the visitor's newest trial; {} before the first.

    number, cursor: the trial that the page knows and how many of its ended runs. The ids of the runs that ended since
    come only while the Train tab shows a run of the trial, whose curves they are drawn over.
    """
    trial = _trials.get(space)
    if trial is None:
        return {}
    trial.examine(space)
    runs = trial.kept_runs(space)
    ended = [run for run in runs if run.status not in ACTIVE]
    active = next((run for run in runs if run.status in ACTIVE), None)
    news: dict[str, Any] = {
        "number": trial.number,
        "of": len(trial.runs),
        "done": len(trial.runs) - len(runs) + len(ended),
        "cursor": len(ended),
    }
    if space.current_run in runs:
        news["ended"] = [run.id for run in ended[cursor if number == trial.number else 0 :]]
    if number != trial.number:
        news |= {"title": trial.experiment.title, "question": trial.experiment.question}
    if active is not None:
        return news | _progress(space, runs, active)
    problems = {run.id: run.reason for run in runs if run.status != "finished"} | trial.problems
    reason = next((f"Run {space.entries[run.id].number}: {problems[run.id]}" for run in runs if run.id in problems), "")
    return news | {"result": _result(space, trial), "reason": reason}


def _progress(space: Workspace, runs: list[Run], active: Run) -> dict[str, Any]:
    """The run in training, the fraction of all steps done, and the seconds left."""
    progress, entry = active.progress(), space.entries[active.id]
    steps = [(run.progress().step, run.recipe.training.total_steps) for run in runs]
    all_steps, left = sum(total for _, total in steps), None
    done = sum(step if run.status in ACTIVE else total for run, (step, total) in zip(runs, steps, strict=True))
    if progress.seconds_left is not None and progress.step < progress.steps:
        left = round(progress.seconds_left * (all_steps - done) / (progress.steps - progress.step), 1)
    return {"now": f"{entry.variant}, seed {active.recipe.seed}", "fraction": round(done / all_steps, 3), "left": left}


def _result(space: Workspace, trial: Trial) -> dict[str, Any] | None:
    """A row for each variant and the answer, from the seeds for which all variants have finished."""
    marks, experiment = trial.complete_marks, trial.experiment
    if not marks[0]:
        return None
    contrasted = {contrast.measure for contrast in experiment.contrasts}
    shown = [name for name in MEASURES if name in contrasted or name in ALWAYS_SHOWN]
    entries = {entry.variant: entry for entry in space.entries.values()}
    rows = [
        {
            "title": variant.title,
            "colour": entries[variant.title].colour if variant.title in entries else "",
            "isDotted": variant.title in entries and entries[variant.title].is_dotted,
            "cells": [_cell(column, name) for name in shown],
        }
        for variant, column in zip(experiment.variants, marks, strict=True)
    ]
    seeds = len(marks[0])
    how = FEW_SEEDS if seeds < SEEDS else RULE.format(seeds)
    how += f" Every model was tested on the same {marks[0][0].pairs} pairs of {trial.text}, masked by the recipe."
    columns = [MEASURES[name].title for name in shown]
    return {"columns": columns, "rows": rows, "answer": answer(experiment, marks), "how": how}


def answer(experiment: Experiment, marks: Sequence[Sequence[Marks]]) -> str:
    """A sentence that answers the experiment's question, as far as the numbers can.

    marks: for each variant those of its runs, one for each seed.
    """
    seeds = "one seed" if len(marks[0]) == 1 else f"{len(marks[0])} seeds"
    conclusions: dict[str, list[str]] = {}
    for contrast in experiment.contrasts:
        found = outcome(contrast, marks)
        conclusion = NO_CONCLUSION.get(found, "").format(seeds=seeds) or getattr(contrast, found)
        conclusions.setdefault(conclusion, []).append(_numbers(experiment, contrast, marks, found))
    whole = "; ".join(f"{conclusion} ({'; '.join(numbers)})" for conclusion, numbers in conclusions.items())
    return f"{whole[0].upper()}{whole[1:]}."


def _numbers(experiment: Experiment, contrast: Contrast, marks: Sequence[Sequence[Marks]], found: str) -> str:
    """What is compared, and the numbers of both variants unless nothing was asked."""
    measure, phrase = contrast.measure, MEASURES[contrast.measure].phrase
    if found in ("not asked", "not trained"):
        return phrase
    numbers = [f"{experiment.variants[n].title} {_cell(marks[n], measure)}" for n in (0, contrast.other)]
    if found in ("no better", "fallback"):
        numbers.append(f"always the most frequent answer {baseline_of(marks[0][0], measure):.0%}")
    return f"{phrase}: {', '.join(numbers)}"


def _cell(marks: Sequence[Marks], measure: str) -> str:
    if any(MEASURES[measure].objective not in ("", *each.trained) for each in marks):
        return "not trained"
    return format_number(spread(marks, measure), measure)


def format_number(number: Spread, measure: str) -> str:
    """Mean and standard deviation as text: "97% ± 2", "0.41 ± 0.03", "1.2 s ± 0.1"."""
    if not math.isfinite(number.mean):
        return "not asked"
    factor, digits, unit = FORMATS[MEASURES[measure].unit]
    deviation = f" ± {factor * number.deviation:.{digits}f}" if math.isfinite(number.deviation) else ""
    return f"{factor * number.mean:.{digits}f}{unit}{deviation}"


def experiments(page: Page, training: Training) -> None:
    """Lay out the controls, which start an experiment with the text and the recipe of the Train tab's form."""

    def news(space: Workspace, number: int, cursor: int) -> dict[str, Any]:
        return trial_news(space, number, cursor)

    @on_error(lambda sentence: page.say(with_labels(sentence)))
    def begin(space: Workspace, values: dict[Any, Any]) -> dict[Any, Any]:
        filled, experiment = training.form.read(values), experiment_named(values[choice])
        recipe = filled.recipe()
        chosen = range(filled.seed, filled.seed + int(values[seeds]))
        start_trial(
            page.workspaces, space, experiment, recipe, filled.corpus(recipe, page.workspaces.service.limits), chosen
        )
        return {result: {}}

    def begin_and_show(values: dict[Any, Any]) -> dict[Any, Any]:
        space = page.workspaces.enter(values[page.visitor])
        return begin(space, values) | training.show(space.token)

    listed = load_experiments()
    gr.HTML("<h2>What does each part of BERT do?</h2>", elem_classes="b-heading", apply_default_css=False)
    choice = gr.Radio(
        [(experiment.title, experiment.name) for experiment in listed],
        value=listed[0].name,
        label="Change one setting, keep the rest",
        info=listed[0].question,
        elem_id="experiment-choice",
        elem_classes="b-list",
    )
    with gr.Row(elem_id="experiment-start-row"):
        seeds = gr.Radio(
            SEED_CHOICES,
            value=1,
            label="Seeds",
            show_label=False,
            container=False,
            elem_id="experiment-seeds",
            min_width=200,
        )
        start = gr.Button("Start experiment", elem_id="experiment-start", min_width=160)
    result = view("experiment", server_functions=functions(page.workspaces, news), elem_id="experiment")
    choice.change(lambda name: gr.update(info=experiment_named(name).question), choice, choice, **QUIET)
    inputs = {page.visitor, choice, seeds, *training.form.all}
    start.click(begin_and_show, inputs, [result, *training.live], **QUIET)
