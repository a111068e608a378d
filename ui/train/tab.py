"""Train: choose a text and a recipe, start, and watch."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from bert_core.data.corpus import Corpus
from bert_core.errors import CorpusError, RunError
from bert_core.runs.prepare import Preview, preview
from bert_core.runs.recipe import DEFAULT_RECIPE, Recipe, recipe_corpus, recipe_named, recipe_names
from bert_core.runs.run import ACTIVE, Run
from ui.handlers import QUIET, on_error, warn
from ui.parts.page import Page
from ui.server.workspace import Workspace
from ui.server.workspaces import Workspaces
from ui.train.batch import batch_view
from ui.train.exam import exam_view
from ui.train.experiments import Experiments
from ui.train.monitor import run_monitor
from ui.train.runs_list import connect_runs, runs_list
from ui.train.saved_run import CLICK, packed, resumed, saved_run
from ui.train.settings import overrides, settings_controls, values_of, with_labels
from ui.views import view

PACES = [("Full speed", 0), ("20 steps a second", 20), ("5 steps a second", 5), ("1 step a second", 1)]
OWN, PASTED, UPLOADED = "The recipe's own text", "Paste a text", "Upload a .txt file"


def train_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    recipes = {recipe_named(name).title: name for name in recipe_names()}
    with gr.Tab("Train", elem_id="tab-train"), gr.Row(elem_classes="balcony-split"):
        with gr.Column(scale=5, min_width=320):
            source = gr.Radio([OWN, PASTED, UPLOADED], value=OWN, label="Text to learn from", elem_id="source")
            pasted = gr.Textbox(
                label="Your text",
                info="A sentence a line, or paragraphs with a blank line between texts.",
                lines=6,
                max_lines=12,
                visible=False,
                elem_id="pasted",
            )
            uploaded = gr.File(label="A .txt file", file_types=[".txt"], visible=False, elem_id="uploaded", height=120)
            with gr.Row():
                recipe = gr.Dropdown(
                    list(recipes.items()),
                    value=DEFAULT_RECIPE,
                    label="Recipe",
                    elem_id="recipe",
                    scale=3,
                    min_width=180,
                )
                seed = gr.Number(0, label="Seed", precision=0, elem_id="seed", scale=1, min_width=90)
            facts = view("facts", elem_id="preview")
            with gr.Row(elem_id="run-buttons"):
                start = gr.Button("Start", variant="primary", elem_id="start", min_width=90)
                pause = gr.Button("Pause", interactive=False, elem_id="pause", min_width=90)
                step = gr.Button("Step", interactive=False, elem_id="step", min_width=70)
                stop = gr.Button("Stop", interactive=False, elem_id="stop", min_width=70)
            with gr.Accordion("Pace, learning rate, more steps", open=False, elem_id="more-control"):
                pace = gr.Dropdown(
                    PACES, value=0, label="Pace", info="Slow the training down to watch it.", elem_id="pace"
                )
                with gr.Row():
                    rate = gr.Number(
                        0.001,
                        label="New learning rate",
                        info="For the steps that are left; pause the run first.",
                        elem_id="new-rate",
                        min_width=160,
                    )
                    change_rate = gr.Button("Change", elem_id="change-rate", min_width=90)
                with gr.Row():
                    extra = gr.Number(
                        100,
                        label="More steps",
                        info="For a run that has ended.",
                        precision=0,
                        elem_id="extra-steps",
                        min_width=160,
                    )
                    go_on = gr.Button("Continue", elem_id="continue", min_width=90)
            saved = saved_run()
            with gr.Accordion("About this recipe", open=False):
                about = gr.Textbox(
                    recipe_named(DEFAULT_RECIPE).description,
                    show_label=False,
                    container=False,
                    interactive=False,
                    lines=3,
                    max_lines=14,
                    elem_id="about-recipe",
                )
            with gr.Accordion("More settings", open=False, elem_id="more-settings"):
                controls = settings_controls(recipe_named(DEFAULT_RECIPE))
        with gr.Column(scale=8, min_width=340):
            monitor = run_monitor(page.workspaces)
            exam_view(page.workspaces)
            runs = runs_list(page)
            experiments = Experiments(page)
            batch_view(page)

    form = [source, pasted, uploaded, recipe, *controls]
    buttons = [start, experiments.start, pause, step, stop]
    live = [page.visitor, monitor, page.model_line, *buttons]

    def show(token: str) -> list[Any]:
        """Values of `live` for a visitor: the run that is watched, as it is now."""
        space = page.workspaces.enter(token)
        run = space.show_current_run()
        return [
            space.token,
            _monitor_value(page, space.token, run),
            page.model_line_value(space.token),
            *button_states(run),
        ]

    @on_error(lambda sentence: {"facts": [], "notes": [], "error": with_labels(sentence)})
    def tell(*form: Any) -> dict[str, Any]:
        """What the text gives, or the one sentence that says why it can't be trained on."""
        chosen, read = _chosen(*form)
        return preview_value(preview(chosen, read(), page.workspaces.service.device))

    def begin(token: str, told: dict[str, Any] | None, seed: float | None, pace: float, *form: Any) -> list[Any]:
        """Start a run of what the form says; a form that can't be trained starts nothing and loses nothing."""
        space = page.workspaces.enter(token)
        if form[0] != UPLOADED or not told or told.get("error"):
            told = tell(*form)
        if not told.get("error"):
            told["error"] = on_error(str)(_start)(page.workspaces, space, seed, pace, *form)
        return [told, *show(space.token)]

    def command(obey: Callable[..., None]) -> Callable:
        """A handler that has the visitor's run obey and shows what came of it."""

        @on_error(warn)
        def attempt(token: str, *values: Any) -> None:
            run = page.workspaces.find(token).current_run
            if run is None:
                raise RunError("There is no run yet; press Start.")
            obey(run, *values)

        def act(token: str, *values: Any) -> list[Any]:
            attempt(token, *values)
            return show(token)

        return act

    def end(token: str) -> list[Any]:
        """Stop what is going and what waits for it."""
        if space := page.space(token):
            space.stop()
        return show(token)

    @on_error(lambda sentence: warn(sentence) and None)
    def save(token: str) -> str:
        return packed(_current_run(page, token), saved.link)

    def go_on_from(token: str, path: str | None, pace: float, source: str, *text: Any) -> list[Any]:
        """Go on with the run of a zip; one that can't be used starts nothing and loses nothing."""
        space = page.workspaces.enter(token)

        def own_text(recipe: Recipe) -> Corpus | None:
            return None if source == OWN else read_text(source, *text, recipe)

        def resume() -> None:
            space.refuse_if_active()
            resume = functools.partial(page.workspaces.resume, space)
            resumed(resume, path, own_text).set_pace(pace or None)

        problem = on_error(str)(resume)() if path else None
        return [{"facts": [], "notes": [], "error": problem}, *show(space.token)]

    def change_pace(token: str, pace: float) -> None:
        if run := _current_run(page, token):
            run.set_pace(pace or None)

    page.demo.load(show, page.visitor, live, **QUIET)
    source.change(
        lambda kind: (gr.update(visible=kind == PASTED), gr.update(visible=kind == UPLOADED)),
        source,
        [pasted, uploaded],
        **QUIET,
    )
    recipe.input(
        lambda name: [recipe_named(name).description, *values_of(recipe_named(name))],
        recipe,
        [about, *controls],
        **QUIET,
    )
    gr.on(
        [page.demo.load, *(part.change for part in form if part is not uploaded)],
        tell,
        form,
        facts,
        trigger_mode="always_last",
        **QUIET,
    )
    reading = {"facts": [], "notes": ["Reading the file…"]}
    uploaded.change(lambda path: reading if path else gr.skip(), uploaded, facts, **QUIET).then(
        tell, form, facts, **QUIET
    )
    start.click(begin, [page.visitor, facts, seed, pace, *form], [facts, *live], **QUIET)
    pause.click(
        command(lambda run: run.resume() if run.status == "paused" else run.pause()), page.visitor, live, **QUIET
    )
    step.click(command(Run.step), page.visitor, live, **QUIET)
    stop.click(end, page.visitor, live, **QUIET)
    pace.input(change_pace, [page.visitor, pace], None, **QUIET)
    change_rate.click(
        command(lambda run, rate: run.set_learning_rate(rate or 0.0)), [page.visitor, rate], live, **QUIET
    )
    go_on.click(command(lambda run, steps: run.continue_for(int(steps or 0))), [page.visitor, extra], live, **QUIET)
    saved.save.click(save, page.visitor, saved.link, **QUIET).success(None, None, None, js=CLICK)
    saved.opened.upload(
        go_on_from, [page.visitor, saved.opened, pace, source, pasted, uploaded], [saved.said, *live], **QUIET
    ).then(lambda: None, None, saved.opened, **QUIET)
    monitor.elsewhere(show, page.visitor, live, **QUIET)
    monitor.status(show, page.visitor, live, **QUIET)
    connect_runs(page, runs, show, live)
    experiments.connect(seed, form, _chosen, show, live)


def read_text(source: str, pasted: str, uploaded: str | None, recipe: Recipe) -> Corpus:
    """The text the form points at, as a corpus. Raises CorpusError."""
    if source == PASTED:
        return Corpus.from_text(pasted or "", recipe.text_kind, name="Your text")
    if source == UPLOADED:
        if not uploaded:
            raise CorpusError("Choose a .txt file first.")
        path = Path(uploaded)
        return Corpus.from_bytes(path.read_bytes(), recipe.text_kind, name=path.name)
    return recipe_corpus(recipe)


def preview_value(told: Preview) -> dict[str, Any]:
    """What the text gives, as the facts view shows it."""
    return {
        "facts": [
            ["Sentences", f"{told.sentences:,}"],
            ["Held out", f"{told.held_out_sentences:,}" if told.held_out_sentences else "nothing"],
            ["Tokens", f"{told.tokens:,}"],
            ["Vocabulary", f"{told.vocabulary:,}"],
            ["Unknown words", f"{told.unknown_share:.1%}"],
            ["Cut-off tokens", f"{told.cut_share:.1%}"],
            ["Parameters", f"{told.parameters:,}"],
            ["Estimated time", duration(told.seconds)],
        ],
        "notes": list(told.warnings),
    }


def duration(seconds: float) -> str:
    """A time for people, rounded to what an estimate can say."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"


def button_states(run: Run | None) -> list[dict[str, Any]]:
    """Start, Start experiment, Pause or Resume, Step, Stop: which can be pressed while the run is as it is."""
    status = run.status if run is not None else ""
    going = status in ACTIVE
    return [
        gr.update(interactive=not going),
        gr.update(interactive=not going),
        gr.update(interactive=going, value="Resume" if status == "paused" else "Pause"),
        gr.update(interactive=going),
        gr.update(interactive=going),
    ]


def _start(workspaces: Workspaces, space: Workspace, seed: float | None, pace: float, *form: Any) -> None:
    space.refuse_if_active()
    # The run itself reads the text, when it is its turn, and says how far it is: a large file takes a while.
    chosen, read = _chosen(*form)
    workspaces.start(space, chosen, read, int(seed or 0)).set_pace(pace or None)


def _chosen(
    source: str, pasted: str, uploaded: str | None, recipe: str, *settings: Any
) -> tuple[Recipe, Callable[[], Corpus]]:
    """The recipe with its settings, and what reads the text: both as the form says."""
    own = recipe_named(recipe)
    chosen = own.override(overrides(own, list(settings)))
    return chosen, functools.partial(read_text, source, pasted, uploaded, chosen)


def _current_run(page: Page, token: str) -> Run | None:
    space = page.space(token)
    return space.current_run if space else None


def _monitor_value(page: Page, token: str, run: Run | None) -> dict[str, Any]:
    if run is None:
        return {"visitor": token, "run": None}
    return {
        "visitor": token,
        "run": run.id,
        "steps": run.recipe.training.total_steps,
        "device": page.workspaces.service.device_name,
        # A new number makes the page ask at once: a button was pressed.
        "asked": run.progress().step,
        "status": run.status,
    }
