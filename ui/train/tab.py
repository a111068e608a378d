"""The Train tab: choose a text and a recipe, start, and watch."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from bert_core.data.corpus import Corpus
from bert_core.errors import RunError
from bert_core.runs.prepare import Preview, preview
from bert_core.runs.recipe import DEFAULT_RECIPE, Recipe, recipe_named, recipe_names
from bert_core.runs.run import ACTIVE, Run
from ui.handlers import QUIET, on_error, sent
from ui.parts.downloads import SAVE
from ui.parts.page import Page
from ui.parts.tab import Tab
from ui.server.workspace import NO_RUN_YET
from ui.train.exam import exam_view
from ui.train.form import (
    OWN_TEXT,
    PASTED,
    UPLOADED,
    FormControls,
    encoding_choices,
    encoding_control,
    settings_controls,
    title_in_list,
    values_of,
    with_labels,
)
from ui.train.monitor import run_monitor
from ui.train.saved_run import packed, reported, resumed, saved_run
from ui.views import view

AUTOMATIC, FULL_SPEED = 0, -1  # paces; others are steps a second
PACES = [
    ("Automatic pace", AUTOMATIC),
    ("Full speed", FULL_SPEED),
    ("20 steps a second", 20),
    ("5 steps a second", 5),
    ("1 step a second", 1),
]
FIRST_SENTENCES = 3
MOST_WATCHED = 100  # steps a second; a longer first run goes at full speed
FIRST_RUN_SECONDS = 10.0  # of a visitor's first run at the automatic pace, so that it can be watched


@dataclass(frozen=True)
class Training:
    """What another tab needs to start a run. live: the components that show the current run. show: returns their values
    for a visitor's token. showing: makes a handler with these outputs from a function whose first argument is the
    token; the page says why it fails."""

    form: FormControls
    live: list[Any]
    show: Callable[[str], dict[Any, Any]]
    showing: Callable[[Callable[..., None]], Callable[..., dict[Any, Any]]]


def train_tab(page: Page) -> Training:
    """Lay out the tab and connect it."""
    workspaces = page.workspaces
    recipes = [(title_in_list(recipe_named(name)), name) for name in recipe_names()]
    with gr.Row(elem_id="train"):
        facts = view("train/preview", elem_id="preview")
        with gr.Column(elem_id="form"):
            source = gr.Radio([OWN_TEXT, PASTED, UPLOADED], value=OWN_TEXT, label="Training text", elem_id="source")
            pasted = gr.Textbox(
                label="Your text",
                info="One sentence per line, or paragraphs; a blank line separates documents.",
                lines=6,
                max_lines=12,
                visible=False,
                elem_id="pasted",
            )
            uploaded = gr.File(label="A .txt file", file_types=[".txt"], visible=False, elem_id="uploaded", height=120)
            encoding = encoding_control()
            with gr.Row():
                recipe = gr.Dropdown(
                    recipes, value=DEFAULT_RECIPE, label="Recipe", elem_id="recipe", scale=3, min_width=180
                )
                seed = gr.Number(0, label="Seed", precision=0, elem_id="seed", scale=1, min_width=70)
            with gr.Accordion("About this recipe", open=False):
                about = gr.Textbox(
                    recipe_named(DEFAULT_RECIPE).description,
                    label="About this recipe",
                    show_label=False,
                    container=False,
                    interactive=False,
                    lines=3,
                    max_lines=14,
                    elem_id="about-recipe",
                )
            with gr.Accordion("More settings", open=False, elem_id="more-settings"):
                settings = settings_controls(recipe_named(DEFAULT_RECIPE))
            with gr.Accordion("Learning rate, more steps", open=False, elem_id="more-control"):
                info = "For the remaining steps. Pause the run first."
                with gr.Row():
                    rate = gr.Number(0.001, label="New learning rate", info=info, elem_id="new-rate", min_width=140)
                    change_rate = gr.Button("Change", elem_id="change-rate", min_width=90)
                with gr.Row():
                    extra = gr.Number(
                        100,
                        label="More steps",
                        info="For an ended run.",
                        precision=0,
                        elem_id="extra-steps",
                        min_width=140,
                    )
                    continue_run = gr.Button("Continue", elem_id="continue", min_width=90)
            saved = saved_run(workspaces.losses)
        with gr.Row(elem_id="run-buttons"):
            start = gr.Button("Start", variant="primary", elem_id="start", min_width=90)
            pause = gr.Button("Pause", variant="primary", interactive=False, elem_id="pause", min_width=90)
            step = gr.Button("Step", elem_id="step", min_width=70)
            reset = gr.Button("Reset", interactive=False, elem_id="reset", min_width=70)
            stop = gr.Button("Stop", interactive=False, elem_id="stop", min_width=70)
            pace = gr.Dropdown(
                PACES, value=AUTOMATIC, label="Pace", show_label=False, container=False, elem_id="pace", min_width=150
            )
            faster = gr.Button("Faster", interactive=False, elem_id="faster", min_width=80)
        with gr.Column(elem_id="watch"):
            monitor = run_monitor(workspaces, page.tabs)
            exam_view(workspaces)

    form = FormControls(source, pasted, uploaded, encoding, recipe, seed, pace, settings)
    with_form = {page.visitor, *form.all}
    live = [page.visitor, page.messages, monitor, page.frame, start, pause, reset, stop, faster]

    def show(token: str | None) -> dict[gr.blocks.Block, Any]:
        """Values of `live` for a visitor: the current run as it is now."""
        space = workspaces.enter(token)
        run = space.current_run
        is_active = run is not None and run.status in ACTIVE
        is_paused = run is not None and run.status == "paused"
        is_variant = run is not None and bool(space.entries[run.id].variant)  # the page keeps the model it shows
        return {
            page.visitor: space.token,
            monitor: _monitor_value(page, space.token, run),
            page.frame: {"visitor": space.token} | ({} if is_variant else {"run": run.id if run else None}),
            start: gr.update(interactive=not is_active),
            pause: gr.update(interactive=is_active, value="Resume" if is_paused else "Pause"),
            reset: gr.update(interactive=run is not None),
            stop: gr.update(interactive=is_active),
            faster: gr.update(interactive=run is not None and is_active and run.pace is not None),
        }

    def showing(work: Callable[..., None]) -> Callable[..., dict[gr.blocks.Block, Any]]:
        @functools.wraps(work)
        def handle(token: str, *values: Any) -> dict[gr.blocks.Block, Any]:
            failed = on_error(page.say)(work)(token, *values)
            return (failed or {}) | show(token)

        return handle

    @on_error(lambda sentence: {"facts": [], "notes": [], "error": with_labels(sentence)})
    def show_preview(values: dict[Any, Any]) -> dict[str, Any]:
        """The sizes of the text, or why it cannot be trained on."""
        filled = form.read(values)
        recipe, service = filled.recipe(), workspaces.service
        if filled.missing:
            return {"facts": [], "notes": [filled.missing]}
        corpus = filled.corpus(recipe, service.limits)
        return preview_value(preview(recipe, corpus, service.device, service.limits), corpus)

    def start_run(values: dict[Any, Any], *, steps: bool = False) -> dict[gr.blocks.Block, Any]:
        """Start a run; a form that can't be trained starts nothing and loses nothing. steps: only its first step."""
        space, filled, claimed = workspaces.enter(values[page.visitor]), form.read(values), values[facts]
        # A large file is previewed once. What the page claims of it is never sent back.
        claim = claimed if isinstance(claimed, dict) else {}
        claimed_error = bool(claim.get("error"))
        dropped: list[str] = []
        is_previewed = filled.source == UPLOADED and bool(claim) and not claimed_error

        def begin() -> None:
            space.refuse_if_active()
            recipe = filled.recipe()
            # The run reads the text itself, and its status line says so: a large file takes a while.
            read = functools.partial(filled.corpus, recipe, workspaces.service.limits)
            is_first = not space.runs
            run = workspaces.start(space, recipe, read, filled.seed, paused=steps)
            run.set_pace(pace_of(filled.pace, recipe.training.total_steps if is_first else None))
            if steps:
                run.step()

        shown = {"facts": [], "notes": []} if is_previewed else show_preview(values)
        if filled.missing:
            shown = {"facts": [], "notes": [], "error": filled.missing}
        elif shown.get("error"):
            # The preview shows it already. Sent again, it might arrive after the preview of a newer value.
            return show(space.token)
        else:
            before = len(space.dropped)
            shown["error"] = on_error(str)(begin)()
            dropped = space.dropped_notes if len(space.dropped) > before else []
            shown["notes"] = [*dropped, *shown["notes"]]
        has_news = shown["error"] or claimed_error or dropped
        return {**({facts: shown} if has_news else {}), **show(space.token)}

    def on_click(button: gr.Button, command: Callable[..., None], *inputs: gr.components.Component) -> None:
        """Connect a button to a command for the visitor's current run; inputs: its further arguments."""

        def attempt(token: str, *values: Any) -> None:
            run = workspaces.find(token).current_run
            if run is None:
                raise RunError(NO_RUN_YET)
            command(run, *values)

        button.click(showing(attempt), [page.visitor, *inputs], live, **QUIET)

    def one_step(values: dict[Any, Any]) -> dict[gr.blocks.Block, Any]:
        """One step of the active run, or the first one of a new run."""
        token = values[page.visitor]
        run = _current_run(page, token)
        if run is None or run.status not in ACTIVE:
            return start_run(values, steps=True)
        return showing(lambda token: run.step())(token)

    def repeat_paused(token: str) -> None:
        space = workspaces.find(token)
        if (run := space.current_run) is None:
            raise RunError(NO_RUN_YET)
        run.stop()
        workspaces.repeat(space, run, paused=True)

    def stop_all(token: str) -> dict[gr.blocks.Block, Any]:
        """Stop the active run and those that wait for it."""
        if space := page.workspaces.lookup(token):
            space.stop()
        return show(token)

    # After an error the link has no file, so that the click does not download an older one.
    @on_error(lambda sentence: {saved.link: None, **page.say(sentence)})
    def save(token: str) -> dict[gr.blocks.Block, Any]:
        return {saved.link: packed(_current_run(page, token), saved.link)}

    @on_error(lambda sentence: {saved.link: None, **page.say(sentence)})
    def describe(token: str) -> dict[gr.blocks.Block, Any]:
        return {saved.link: reported(workspaces.find(token), saved.link)}

    def open_saved(values: dict[Any, Any]) -> dict[gr.blocks.Block, Any]:
        """Resume the run of a zip file; one that can't be used starts nothing and loses nothing."""
        space, filled, path = workspaces.enter(values[page.visitor]), form.read(values), values[saved.opened]

        def own_text(recipe: Recipe) -> Corpus | None:
            return None if filled.source == OWN_TEXT else filled.corpus(recipe, workspaces.service.limits)

        def resume() -> None:
            space.refuse_if_active()
            limits = workspaces.service.limits
            resumed(functools.partial(workspaces.resume, space), path, own_text, limits).set_pace(pace_of(filled.pace))

        problem = on_error(str)(resume)() if path else None
        return {saved.problem: {"facts": [], "notes": [], "error": problem}, **show(space.token)}

    def more_steps(token: str, event: gr.EventData) -> None:
        workspaces.find(token).run(sent(event, "run", str)).continue_for(sent(event, "steps", int))

    def change_pace(token: str, pace: float) -> dict[gr.blocks.Block, Any]:
        if run := _current_run(page, token):
            run.set_pace(pace_of(pace))
        return show(token)

    def show_source(kind: str, path: str | None) -> list[Any]:
        """Show the chosen source of the text; of an uploaded file also the encoding, unless it is UTF-8."""
        is_upload = kind == UPLOADED
        has_choice = is_upload and encoding_choices(path)["visible"]
        return [gr.update(visible=shown) for shown in (kind == PASTED, is_upload, has_choice)]

    page.visitor.enter(show, page.visitor, live, trigger_mode="always_last", **QUIET)
    source.change(show_source, [source, uploaded], [pasted, uploaded, encoding], **QUIET)
    recipe.input(
        lambda name: [recipe_named(name).description, *values_of(recipe_named(name))],
        recipe,
        [about, *settings],
        **QUIET,
    )
    changes = [page.demo.load, encoding.input, *(control.change for control in form.text_and_recipe)]
    gr.on(changes, show_preview, form.all, facts, trigger_mode="always_last", **QUIET)
    reading = {"facts": [], "notes": ["Reading the file…"]}
    reads = uploaded.change(lambda path: reading if path else gr.skip(), uploaded, facts, **QUIET)
    reads = reads.then(encoding_choices, uploaded, encoding, **QUIET)
    reads.then(show_preview, form.all, facts, **QUIET)
    start.click(start_run, {facts, *with_form}, [facts, *live], **QUIET)
    on_click(pause, lambda run: run.resume() if run.status == "paused" else run.pause())
    step.click(one_step, {facts, *with_form}, [facts, *live], **QUIET)
    reset.click(showing(repeat_paused), page.visitor, live, **QUIET)
    on_click(faster, lambda run: run.set_pace(None))
    faster.click(lambda: FULL_SPEED, None, pace, **QUIET)
    stop.click(stop_all, page.visitor, live, **QUIET)
    pace.input(change_pace, [page.visitor, pace], live, **QUIET)
    on_click(change_rate, lambda run, rate: run.set_learning_rate(rate or 0.0), rate)
    on_click(continue_run, lambda run, steps: run.continue_for(int(steps or 0)), extra)
    for button, write in ((saved.save, save), (saved.describe, describe)):
        written = button.click(write, page.visitor, [saved.link, page.messages], **QUIET)
        written.success(None, saved.link, None, js=SAVE)
    saved.opened.upload(open_saved, {saved.opened, *with_form}, [saved.problem, *live], **QUIET).then(
        lambda: None, None, saved.opened, **QUIET
    )
    monitor.more(showing(more_steps), page.visitor, live, **QUIET)
    monitor.elsewhere(show, page.visitor, live, trigger_mode="always_last", **QUIET)
    # The status may change again before an event is answered; dropping the later one would leave the page behind.
    monitor.status(show, page.visitor, live, trigger_mode="always_last", **QUIET)
    return Training(form, live, show, showing)


TAB = Tab("train", "Train", train_tab)


def pace_of(chosen: float, steps_to_watch: int | None = None) -> float | None:
    """Steps per second for a chosen pace, None for full speed. steps_to_watch: of a visitor's first run."""
    if chosen > 0:
        return chosen
    watched = (steps_to_watch or math.inf) / FIRST_RUN_SECONDS
    return watched if chosen == AUTOMATIC and watched <= MOST_WATCHED else None


def preview_value(found: Preview, corpus: Corpus) -> dict[str, Any]:
    """The sizes of a text and its first sentences, as the preview shows them."""
    return {
        "facts": [
            ["Sentences", f"{found.sentences:,}"],
            ["Held out", f"{found.held_out_sentences:,}" if found.held_out_sentences else "nothing"],
            ["Tokens", f"{found.tokens:,}"],
            ["Vocabulary", f"{found.vocabulary:,}"],
            ["Unknown words", f"{found.unknown_share:.1%}"],
            ["Cut-off tokens", f"{found.cut_share:.1%}"],
            ["Parameters", f"{found.parameters:,}"],
            ["Estimated time", duration(found.seconds)],
        ],
        "first": list(corpus.sentences[:FIRST_SENTENCES]),
        "notes": list(found.warnings),
    }


def duration(seconds: float) -> str:
    """An estimated time in words, rounded."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"


def _current_run(page: Page, token: str) -> Run | None:
    space = page.workspaces.lookup(token)
    return space.current_run if space else None


def _monitor_value(page: Page, token: str, run: Run | None) -> dict[str, Any]:
    if run is None:
        return {"visitor": token, "run": None}
    return {
        "visitor": token,
        "run": run.id,
        "steps": run.recipe.training.total_steps,
        "device": page.workspaces.service.device_name,
        "step": run.progress().step,  # another value, so that the page asks at once after a button was pressed
        "status": run.status,
        "isSlow": run.pace is not None,
    }
