"""Experiments: one question, a few runs that differ in one setting, and the answer in numbers and a sentence."""

import functools
from collections.abc import Sequence
from typing import Any

import gradio as gr

from balcony.compare.definitions import (
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
from balcony.compare.trials import (
    CONCLUSIONS,
    Trial,
    begun_trials,
    failures,
    format_number,
    seeds_control,
    sentences,
    trial_view,
)
from balcony.frame.page import Page
from balcony.handlers import QUIET, on_error
from balcony.parts.verdicts import MARGIN, MARGIN_RATIO, SEEDS, STANDARD_ERRORS
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import Workspace
from balcony.server.workspaces import Workspaces
from balcony.train.form import SHOWN_MODEL
from balcony.train.preview import preview
from balcony.train.settings import with_labels
from balcony.train.tab import TrainTab
from bert_core.config import DataConfig, check_seed
from bert_core.data.corpus import Corpus
from bert_core.errors import BertCoreError, ConfigError, CorpusError, percent
from bert_core.runs.recipe import Recipe
from bert_core.runs.run import Run

ALWAYS_SHOWN = ("mlm_accuracy", "mlm_loss", "nsp_accuracy", "nsp_loss", "seconds")
MODELS_PER_RUN = 2  # that are never dropped: the first and the newest
HELLO = (
    "Choose a question and press Start experiment. Its models are trained one after the other; then a table and a "
    "sentence answer the question here. They are trained on the text and with the settings of the Train tab."
)
NO_CONCLUSION = CONCLUSIONS | {  # by outcome; a contrast has the sentences for the others
    "not asked": "not asked in this test",
    "not trained": "not compared, because not every model is trained for it",
    "no better": f"no model is more than {100 * MARGIN:g} points above always giving the most frequent answer; "
    "take more steps",
    "saturated": f"all models are within {100 * MARGIN:g} points of 100%, so this text cannot show a difference; "
    "take a longer one",
}
RULE = (
    f"Mean ± standard deviation over {{}} seeds. A difference counts if the means differ by more than "
    f"{STANDARD_ERRORS} standard errors (Student's t, 95%). Results count as equal if they would differ by less "
    f"than {100 * MARGIN:g} points (times: {MARGIN_RATIO:.0%}) even with {STANDARD_ERRORS} standard errors more."
)


def measured(data: DataConfig, run: Run) -> tuple[Marks, str]:
    """How the newest model of a run answers the questions that `data` gives, and on which text. Raises CorpusError."""
    weights = run.recipe.training
    trained = tuple(name for name in ("mlm", "nsp") if getattr(weights, f"{name}_weight"))
    seconds = run.history()[-1].seconds
    try:
        if run.job is None:
            raise CorpusError("The text of this run is no longer kept; start it from the form.")
        training_text, held_out, _ = run.job.parts
        text = held_out or training_text
        with probe_lock:
            marks = examine(run.snapshots[-1].checkpoint(), text, data, seconds=seconds, trained=trained)
    except BertCoreError as error:
        raise CorpusError(f"Its model cannot be tested: {error}") from None
    return marks, "held-out text" if held_out else "the training text"


def report(experiment: Experiment, trial: Trial, space: Workspace) -> dict[str, Any] | None:
    """A row for each variant and the answer, from the seeds with which all variants have finished."""
    marks = trial.complete(*range(len(experiment.variants)))
    if not marks[0]:
        return None
    contrasted = {contrast.measure for contrast in experiment.contrasts}
    shown = [name for name in MEASURES if name in contrasted or name in ALWAYS_SHOWN]
    looks = {entry.variant: {"colour": entry.colour, "isDotted": entry.is_dotted} for entry in space.entries.values()}
    rows = [
        {"title": title, "cells": [_cell(column, name) for name in shown], **looks.get(title, {})}
        for title, column in zip(trial.variants, marks, strict=True)
    ]
    how = RULE.format(len(marks[0])) + " " if len(marks[0]) >= SEEDS else ""
    how += f"Every model was tested on the same {marks[0][0].pairs} pairs of {trial.about}, masked by the recipe."
    steps = {run.recipe.training.total_steps for run in space.all_runs if run.id in trial.runs}
    how += f" Each was trained for {steps.pop():,} steps." if len(steps) == 1 else ""
    if experiment.test.title:
        how += f" {experiment.test.title}"
    columns = [MEASURES[name].title for name in shown]
    return {"columns": columns, "rows": rows, "answer": answer(experiment, marks), "how": how}


def experiment_named(name: str) -> Experiment:
    """The experiment of that name. Raises ConfigError for an unknown one."""
    found = next((experiment for experiment in load_experiments() if experiment.name == name), None)
    if found is None:
        raise ConfigError(f"There is no experiment {str(name)[:60]!r}; choose one of the list.")
    return found


def start_experiment(
    workspaces: Workspaces,
    space: Workspace,
    experiment: Experiment,
    recipe: Recipe,
    corpus: Corpus | None,
    seeds: range,
) -> None:
    """Start a run of each variant with each seed, one after the other.

    Raises RunError while a run of the visitor is active, ConfigError where settings do not fit together or the models
    exceed the visitor's limit.
    """
    space.refuse_if_active()
    check_seed(seeds[-1])
    recipes, service = [variant.apply(recipe) for variant in experiment.variants], workspaces.service
    vocabulary = preview(recipe, corpus or recipe.source(), service.device, service.limits).vocabulary
    _check_bytes(recipes, vocabulary, len(seeds), space.limit)
    trial = Trial(
        *("experiment", experiment.title, experiment.question, [variant.title for variant in experiment.variants]),
        functools.partial(measured, experiment.test.apply(recipe).data),
        functools.partial(report, experiment),
    )
    for seed in seeds:
        for number, variant in enumerate(experiment.variants):
            run = workspaces.start(space, recipes[number], corpus, seed, variant=variant.title)
            trial.runs[run.id] = number, seed
    trial.begin(space)


def _check_bytes(recipes: list[Recipe], vocabulary: int, seeds: int, limit: int) -> None:
    models = [recipe.model.replace(vocab_size=vocabulary) for recipe in recipes]
    needed = sum(4 * model.parameter_count() for model in models) * seeds * MODELS_PER_RUN
    if needed > limit:
        raise ConfigError(
            f"The models of this experiment take {needed / 2**20:,.0f} MB and you can keep {limit / 2**20:,.0f} MB; "
            "choose a smaller hidden size or fewer seeds."
        )


def answer(experiment: Experiment, marks: Sequence[Sequence[Marks]]) -> str:
    """Sentences that answer the experiment's question, as far as the numbers can.

    marks: for each variant those of its runs, one for each seed.
    """
    conclusions = []
    for contrast in experiment.contrasts:
        verdict = outcome(contrast, marks)
        conclusion = NO_CONCLUSION.get(verdict) or getattr(contrast, verdict)
        seen = [_numbers(experiment, contrast, marks, verdict), *_failures(experiment, contrast, marks, verdict)]
        conclusions.append((conclusion, len(marks[0]), seen))
    return sentences(conclusions)


def _numbers(experiment: Experiment, contrast: Contrast, marks: Sequence[Sequence[Marks]], verdict: str) -> str:
    """What is compared, and the numbers of both variants unless nothing was asked."""
    measure, phrase = contrast.measure, MEASURES[contrast.measure].phrase
    if verdict in ("not asked", "not trained"):
        return phrase
    numbers = [f"{_cell(marks[n], measure)} ({experiment.variants[n].title})" for n in (0, contrast.other)]
    if verdict in ("no better", "fallback"):
        numbers.append(f"{percent(baseline_of(marks[0][0], measure))} (always the most frequent answer)")
    return f"{phrase}: {', '.join(numbers)}"


def _failures(experiment: Experiment, contrast: Contrast, marks: Sequence[Sequence[Marks]], verdict: str) -> list[str]:
    """For both variants a sentence on runs that did not learn what is compared."""
    measure, is_compared = contrast.measure, verdict not in ("not asked", "not trained")
    if not is_compared or MEASURES[measure].unit != "fraction":
        return []
    baseline = baseline_of(marks[0][0], measure)
    return [failures(experiment.variants[n].title, spread(marks[n], measure), baseline) for n in (0, contrast.other)]


def _cell(marks: Sequence[Marks], measure: str) -> str:
    if any(MEASURES[measure].objective not in ("", *each.trained) for each in marks):
        return "not trained"
    return format_number(spread(marks, measure), MEASURES[measure].unit)


class Experiments:
    """The controls, which start an experiment with the text and the recipe of the Train tab's form."""

    def __init__(self, page: Page, training: TrainTab) -> None:
        self.page, self.training, listed = page, training, load_experiments()
        gr.HTML("<h2>What does each part of BERT do?</h2>", elem_classes="b-heading", apply_default_css=False)
        with gr.Row(elem_id="experiments"):
            with gr.Column(scale=2, min_width=320):
                self.choice = gr.Radio(
                    [(experiment.title, experiment.name) for experiment in listed],
                    value=listed[0].name,
                    label="Change one setting, keep the rest",
                    info=listed[0].question,
                    elem_id="experiment-choice",
                    elem_classes="b-list",
                )
                with gr.Row(elem_id="experiment-start-row"):
                    self.seeds = seeds_control("experiment-seeds")
                    start = gr.Button("Start experiment", elem_id="experiment-start", min_width=160)
            with gr.Column(scale=3, min_width=320):
                self.result = trial_view(page, "experiment", "Progress of the experiment", HELLO)
        self.choice.change(
            lambda name: gr.update(info=experiment_named(name).question), self.choice, self.choice, **QUIET
        )
        inputs = {page.visitor, self.choice, self.seeds, *training.form.all}
        start.click(self.start, inputs, [self.result, *training.live], **QUIET)

    def start(self, values: dict[Any, Any]) -> dict[Any, Any]:
        """Start the chosen experiment; one that cannot be started says why."""
        space = self.page.workspaces.enter(values[self.page.visitor])
        failed = on_error(lambda reason: self.page.say(with_labels(reason)))(self._start)(space, values)
        return (failed or {self.result: begun_trials(space)}) | self.training.show(space.token)

    def _start(self, space: Workspace, values: dict[Any, Any]) -> None:
        filled, workspaces = self.training.form.read(values), self.page.workspaces
        if filled.initial == SHOWN_MODEL:
            raise ConfigError(
                "An experiment begins with random weights; choose them as initial weights in the Train tab."
            )
        recipe, seeds = filled.recipe(), range(filled.seed, filled.seed + int(values[self.seeds]))
        corpus = filled.corpus(recipe)
        start_experiment(workspaces, space, experiment_named(values[self.choice]), recipe, corpus, seeds)
