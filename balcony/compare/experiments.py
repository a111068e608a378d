"""Experiments: one question, a few runs that differ in one setting, and the answer in numbers and a sentence."""

import dataclasses
import functools
import math
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr

from balcony.compare.definitions import (
    MEASURES,
    Experiment,
    Marks,
    Variant,
    answer,
    cell,
    examine,
    load_experiments,
    outcomes,
)
from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.handlers import QUIET, on_error
from balcony.parts.verdicts import FEWEST, MARGIN, MARGIN_RATIO, MOST_JUDGED, SEEDS, STANDARD_ERRORS
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import Workspace
from balcony.server.workspaces import Workspaces
from balcony.train.form import SHOWN_MODEL
from balcony.train.preview import preview
from balcony.train.settings import with_labels
from balcony.train.tab import TrainTab
from balcony.views import view
from bert_core.config import DataConfig, check_seed
from bert_core.data.corpus import Corpus
from bert_core.errors import BertCoreError, ConfigError, CorpusError, RunError
from bert_core.runs.recipe import FinetuningRecipe, Recipe
from bert_core.runs.run import ACTIVE, Run
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskParts
from bert_core.tasks.prediction import review

MODELS_PER_RUN = 2  # that are never dropped: the first and the newest
MOST_EPOCHS = 1_000
RATE = "training.learning_rate"
ALWAYS_SHOWN = ("mlm_accuracy", "mlm_loss", "nsp_accuracy", "nsp_loss", "seconds")
RULE = (
    f"Mean ± standard deviation over {{}} [[seed|seeds]]. A difference counts if the means differ by more than "
    f"{STANDARD_ERRORS} standard errors (Student's t, 95%). Results count as equal if they would differ by less "
    f"than {100 * MARGIN:g} points (times: {MARGIN_RATIO:.0%}) even with {STANDARD_ERRORS} standard errors more."
)


@dataclass(eq=False)
class Trial:
    """An experiment as a visitor started it.

    measure: gives the marks of a run that has finished. slower: starts the same with a third of the learning rate.
    number: counts the visitor's experiments. runs: variant and seed of each run, by its id, in the order of their
    start. marks: by variant and seed. problems: why a run has no marks, by its id.
    """

    experiment: Experiment
    measure: Callable[[Run], Marks]
    slower: Callable[[], None] | None = None
    number: int = 0
    runs: dict[str, tuple[int, int]] = field(default_factory=dict)
    marks: dict[tuple[int, int], Marks] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    _measuring: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, space: Workspace, start: Callable[[int, int], Run], seeds: range) -> None:
        """Start a run of each variant with each seed, one after the other, in place of the visitor's earlier trial."""
        for seed in seeds:
            for variant in range(len(self.experiment.variants)):
                self.runs[start(variant, seed).id] = variant, seed
        if before := newest_trial(space):
            before.examine(space)
        self.number = before.number + 1 if before else 1
        _newest[space] = self

    def examine(self, space: Workspace) -> list[Run]:
        """Measure the runs that have ended, each once, and free those that no list shows. Returns the active ones."""
        active = []
        with self._measuring:
            for run in [run for run in space.all_runs if run.id in self.runs]:
                if run.status in ACTIVE:
                    self.problems.pop(run.id, None)
                    active.append(run)
                    continue
                if self.runs[run.id] not in self.marks and run.id not in self.problems:
                    self._examine(space, run)
                if run in space.unlisted:
                    space.unlisted.remove(run)
        return active

    def _examine(self, space: Workspace, run: Run) -> None:
        try:
            if run.status != "finished" or not run.snapshots:
                raise RunError(run.reason or "A run ended before it could be measured.")
            self.marks[self.runs[run.id]] = self.measure(run)
        except BertCoreError as error:
            number = space.entries[run.id].number if run.id in space.entries else [*self.runs].index(run.id) + 1
            self.problems[run.id] = f"Run {number}: {error}"

    def complete(self) -> list[list[Marks]]:
        """For each variant its marks, with the seeds that all variants have."""
        variants = range(len(self.experiment.variants))
        seeds = dict.fromkeys(seed for _, seed in self.marks)
        whole = [seed for seed in seeds if all((variant, seed) in self.marks for variant in variants)]
        return [[self.marks[variant, seed] for seed in whole] for variant in variants]


_newest: WeakKeyDictionary[Workspace, Trial] = WeakKeyDictionary()


def newest_trial(space: Workspace) -> Trial | None:
    return _newest.get(space)


def report(trial: Trial, space: Workspace) -> dict[str, Any] | None:
    """A row for each variant and the answer, from the seeds with which all variants have finished."""
    experiment, marks = trial.experiment, trial.complete()
    if not marks[0]:
        return None
    contrasted = {contrast.measure for contrast in experiment.contrasts}
    known = {name for column in marks for each in column for name in each.numbers if name in ALWAYS_SHOWN}
    shown = [name for name in MEASURES if name in contrasted | known]
    looks = {entry.variant: {"colour": entry.colour, "isDotted": entry.is_dotted} for entry in space.entries.values()}
    rows = [
        {"title": variant.title, "cells": [cell(column, name) for name in shown], **looks.get(variant.title, {})}
        for variant, column in zip(experiment.variants, marks, strict=True)
    ]
    how = RULE.format(len(marks[0])) + " " if len(marks[0]) >= SEEDS else ""
    how += f"Every model was tested on the same {marks[0][0].about}."
    steps = {run.recipe.training.total_steps for run in space.all_runs if run.id in trial.runs}
    how += f" Each was trained for {steps.pop():,} steps." if len(steps) == 1 else ""
    if experiment.test.title:
        how += f" {experiment.test.title}"
    found = outcomes(experiment, marks)
    return {
        "columns": [MEASURES[name].title for name in shown],
        "rows": rows,
        "answer": answer(experiment, marks),
        "how": how,
        "slower": trial.slower is not None and bool({"failed", "no better"} & {*found}),
    }


def measured(data: DataConfig, run: Run) -> Marks:
    """How the newest model of a run answers the questions that `data` gives. Raises CorpusError."""
    trained = tuple(name for name in ("mlm", "nsp") if getattr(run.recipe.training, f"{name}_weight"))
    seconds = run.history()[-1].seconds
    try:
        if run.job is None:
            raise CorpusError("The text of this run is no longer kept; start it from the form.")
        training_text, held_out, _ = run.job.parts
        text, name = (held_out, "held-out text") if held_out else (training_text, "the training text")
        with probe_lock:
            return examine(run.snapshots[-1].checkpoint(), text, data, seconds, trained, name)
    except BertCoreError as error:
        raise CorpusError(f"Its model cannot be tested: {error}") from None


def measured_task(run: Run) -> Marks:
    """How the best model of a run does its task on examples from which it has not learned. Raises CorpusError."""
    if run.job is None:
        raise CorpusError("The examples of this run are no longer kept; fine-tune it again.")
    parts = run.job.parts
    part = (parts.test or parts.validation).sample(MOST_JUDGED, 0)
    measure, count = part.kind.measure, len(part.examples)
    with probe_lock:
        found = review((run.best or run.snapshots[-1]).checkpoint(), part)
    about = f"{count:,} {'test' if parts.test else 'held-out'} example{'s' * (count != 1)}"
    numbers = {measure: found.measures[measure], "seconds": run.history()[-1].seconds}
    return Marks(numbers, {"task": found.always[measure]}, about, is_enough=count >= FEWEST)


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

    def start(variant: int, seed: int) -> Run:
        return workspaces.start(space, recipes[variant], corpus, seed, variant=experiment.variants[variant].title)

    def slower() -> None:
        changed = recipe.override({RATE: recipe.training.learning_rate / 3})
        start_experiment(workspaces, space, experiment, changed, corpus, seeds)

    measure = functools.partial(measured, experiment.test.apply(recipe).data)
    Trial(experiment, measure, None if experiment.failing_counts else slower).begin(space, start, seeds)


def start_task_experiment(
    workspaces: Workspaces,
    space: Workspace,
    experiment: Experiment,
    recipe: FinetuningRecipe,
    initial: Checkpoint,
    parts: TaskParts,
    seeds: range,
) -> None:
    """The same with runs that fine-tune the model `initial`, or one of its sizes; no list shows them.

    All have the same number of steps, so that few examples are read more often. Raises BertCoreError.
    """
    space.refuse_if_active()
    check_seed(seeds[-1])
    train = parts.train if parts.validation else parts.train.split(recipe.data.validation_share, recipe.seed)[0]
    everything = min(len(train.examples), recipe.data.most_examples or sys.maxsize)
    recipes = [_sized(recipe, variant, everything) for variant in experiment.variants]
    contrasts = [dataclasses.replace(each, measure=parts.train.kind.measure) for each in experiment.contrasts]

    def start(variant: int, seed: int) -> Run:
        return workspaces.finetune(space, recipes[variant].with_seed(seed), initial, parts, listed=False)

    Trial(dataclasses.replace(experiment, contrasts=tuple(contrasts)), measured_task).begin(space, start, seeds)


def _sized(recipe: FinetuningRecipe, variant: Variant, everything: int) -> FinetuningRecipe:
    """The recipe with the examples of a variant, and as many steps as with everything. Raises ConfigError where there
    are too few."""
    batch, training = recipe.data.batch_size, recipe.training
    size = int(str(variant.settings.get("data.most_examples", everything)))
    if size > everything:
        raise ConfigError(f"There are {everything} examples to learn from; this experiment needs {size}.")
    ratio = math.ceil(everything / batch) / math.ceil(size / batch)
    changed: dict[str, Any] = {
        "data.most_examples": size,
        "evaluate_every": min(MOST_EPOCHS, round(training.evaluate_every * ratio)),
    }
    if training.epochs is not None:
        changed["epochs"] = min(MOST_EPOCHS, training.epochs * ratio)
    return recipe.override(changed).replace(random_weights=variant.random_weights)


def _check_bytes(recipes: list[Recipe], vocabulary: int, seeds: int, limit: int) -> None:
    models = [recipe.model.replace(vocab_size=vocabulary) for recipe in recipes]
    needed = sum(4 * model.parameter_count() for model in models) * seeds * MODELS_PER_RUN
    if needed > limit:
        raise ConfigError(
            f"The models of this experiment take {needed / 2**20:,.0f} MB and you can keep {limit / 2**20:,.0f} MB; "
            "choose a smaller hidden size or fewer seeds."
        )


def trial_news(space: Workspace, number: int) -> dict[str, Any]:
    """Progress or result of the visitor's newest trial; {} before the first. number: the trial that the page knows."""
    if (trial := newest_trial(space)) is None:
        return {}
    active = trial.examine(space)
    done = len(trial.runs) - len(active)
    news: dict[str, Any] = {"number": trial.number, "of": len(trial.runs), "done": done}
    if number != trial.number:
        news |= {"title": trial.experiment.title, "question": trial.experiment.question}
    if not active:
        return news | {"result": report(trial, space), "reason": next(iter(trial.problems.values()), "")}
    progress, (variant, seed) = active[0].progress(), trial.runs[active[0].id]
    part = progress.step / progress.steps if progress.steps else 0.0
    left = progress.seconds_left
    if left is not None and part < 1:  # of all runs, as if each took as long as this one
        left = round(left * (len(active) - part) / (1 - part), 1)
    return news | {
        "now": f"{trial.experiment.variants[variant].title}, seed {seed}",
        "fraction": round((done + part) / len(trial.runs), 3),
        "left": left,
    }


def start_slower(space: Workspace) -> None:
    """Start the visitor's newest experiment again, with a third of the learning rate. Raises BertCoreError."""
    trial = newest_trial(space)
    if trial is None or trial.slower is None:
        raise ConfigError("There is no such experiment; start one.")
    trial.slower()


class Experiments:
    """The controls, which start an experiment with the text and the recipe of the Train tab's form."""

    def __init__(self, page: Page, training: TrainTab) -> None:
        def news(asked: PageRequest, number: int) -> dict[str, Any]:
            return trial_news(asked.space, number)

        def stop(asked: PageRequest) -> None:
            asked.space.stop()

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
                    self.seeds = gr.Radio(
                        [("One seed", 1), ("Three seeds", SEEDS)],
                        value=1,
                        label="Seeds",
                        show_label=False,
                        container=False,
                        min_width=200,
                        elem_id="experiment-seeds",
                    )
                    self.button = gr.Button("Start experiment", elem_id="experiment-start", min_width=160)
            with gr.Column(scale=3, min_width=320):
                page.answers.add("experiment", news)
                page.answers.add("stop-experiment", stop)
                self.result = view("compare/trials", events=("slower",), elem_id="experiment")
        self.choice.change(
            lambda name: gr.update(info=experiment_named(name).question), self.choice, self.choice, **QUIET
        )
        self.result.slower(training.showing(start_slower), page.visitor, training.live, **QUIET)

    def connect(self, task: Any) -> None:
        """Connect the button. task: the form of the Fine-tune tab, which is laid out later."""
        self.task = task
        inputs = {*self.page.inputs, self.choice, self.seeds, *self.training.form.all, *task.all}
        self.button.click(self.start, inputs, [self.result, *self.training.live], **QUIET)

    def start(self, values: dict[Any, Any]) -> dict[Any, Any]:
        """Start the chosen experiment; one that cannot be started says why."""
        space = self.page.workspaces.enter(values[self.page.visitor])
        problem = on_error(lambda reason: self.page.say(with_labels(reason)))(self._start)(space, values)
        # Another value after each start, because a view is not told of the value it has.
        trial = newest_trial(space)
        begun = {self.result: {"visitor": space.token, "number": trial.number if trial else 0}}
        return (problem or begun) | self.training.show(space.token)

    def _start(self, space: Workspace, values: dict[Any, Any]) -> None:
        experiment, workspaces, count = experiment_named(values[self.choice]), self.page.workspaces, values[self.seeds]
        if experiment.of_task:
            tuning, parts = self.task.recipe(values), self.task.parts(values, workspaces)
            initial, seeds = self.page.asked(values).checkpoint, range(tuning.seed, tuning.seed + int(count))
            start_task_experiment(workspaces, space, experiment, tuning, initial, parts, seeds)
            return
        filled = self.training.form.read(values)
        if filled.initial == SHOWN_MODEL:
            raise ConfigError(
                "An experiment begins with random weights; choose them as initial weights in the Train tab."
            )
        recipe, seeds = filled.recipe(), range(filled.seed, filled.seed + int(count))
        start_experiment(workspaces, space, experiment, recipe, filled.corpus(recipe), seeds)
