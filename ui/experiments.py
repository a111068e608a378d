"""Experiments: one question, a few runs that differ in one setting, and the answer in numbers and a sentence."""

from collections.abc import Callable
from typing import Any

import gradio as gr

from bert_core.corpus import Corpus
from bert_core.errors import ConfigError
from bert_core.recipes import EXPERIMENTS, Experiment, Recipe
from ui.handlers import QUIET, on_error
from ui.page import Page
from ui.settings import with_labels
from ui.trial import start_trial, trial_news
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

        with gr.Accordion("Experiments: change one thing", open=False, elem_id="experiments"):
            self.choice = gr.Radio(
                [(experiment.title, experiment.name) for experiment in EXPERIMENTS],
                value=EXPERIMENTS[0].name,
                label="What to change; the rest is as in the form",
                info=EXPERIMENTS[0].question,
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
    """One of the experiments of `bert_core.recipes`. Raises ConfigError for another name."""
    found = next((experiment for experiment in EXPERIMENTS if experiment.name == name), None)
    if found is None:
        raise ConfigError(f"There is no experiment {str(name)[:60]!r}; choose one of the list.")
    return found
