"""The Train tab: choose a text and a recipe, start, and watch."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import gradio as gr

from balcony.frame.page import Page
from balcony.frame.tab import Tab
from balcony.handlers import FOLLOWING, QUIET, on_error, sent
from balcony.parts.notes import no_facts
from balcony.server.workspace import NO_RUN_YET, Workspace
from balcony.train.exam import exam_view
from balcony.train.form import (
    OWN_TEXT,
    RANDOM,
    SHOWN_MODEL,
    UPLOADED,
    Filled,
    TrainingForm,
    begun,
    encoding_of,
)
from balcony.train.monitor import monitor_value, rate_of, run_monitor
from balcony.train.preview import Preview, preview
from balcony.train.settings import values_of, with_labels, without_options
from balcony.views import view
from bert_core.config import CORPUS_KINDS, Limits, OptimizerConfig
from bert_core.data.corpus import Corpus
from bert_core.errors import BertCoreError, InputError, RunError
from bert_core.runs.recipe import Recipe
from bert_core.runs.run import ACTIVE, Run

FIRST_SENTENCES, SHOWN_CHARACTERS = 3, 300
FIRST_RUN_SECONDS = 10.0  # of a visitor's first run, so that it can be watched
MOST_WATCHED = 100  # steps a second; a longer first run goes at full speed

Updates = dict[gr.blocks.Block, Any]


class TrainTab:
    """The components of the tab, and a method for each command. live: those that show the visitor's current run."""

    def __init__(self, page: Page) -> None:
        self.page, self.workspaces = page, page.workspaces
        with gr.Row(elem_id="train"):
            kinds = [[kind, kind] for kind in CORPUS_KINDS]
            self.preview = view("train/preview", events=("stale",), options={"kinds": kinds}, elem_id="preview")
            with gr.Row(elem_id="form"):
                self.form = TrainingForm(page)
            with gr.Row(elem_id="run-buttons"):
                self._lay_out_buttons()
            with gr.Column(elem_id="watch"):
                self.monitor = run_monitor(page)
                self._lay_out_changes()
                exam_view(page)
        self.live = [page.visitor, page.messages, self.monitor, page.frame]
        self._connect_form()
        self._connect_commands()

    def _lay_out_changes(self) -> None:
        info = "For the remaining steps of a paused or stopped run. A new run takes the rate of the form."
        with gr.Accordion("Change the learning rate", open=False, elem_id="more-control"), gr.Row():
            # Not a field of numbers, which begins with 0.
            self.rate = gr.Textbox(label="New learning rate", info=info, max_lines=1, elem_id="new-rate", min_width=140)
            self.change_rate = gr.Button("Change", elem_id="change-rate", min_width=90)

    def _lay_out_buttons(self) -> None:
        self.start = gr.Button("Start", variant="primary", elem_id="start", min_width=90)
        self.pause = gr.Button("Pause", variant="primary", interactive=False, elem_id="pause", min_width=90)
        self.step = gr.Button("One step", elem_id="step", min_width=70)
        self.stop = gr.Button("Stop", interactive=False, elem_id="stop", min_width=70)

    def _connect_form(self) -> None:
        form, page = self.form, self.page
        shown = [*form.described, self.preview, page.messages]
        form.connect(self.follow, form.all, shown)
        for event in (page.demo.load, self.monitor.limits):
            event(self.follow, form.all, shown, **FOLLOWING)
        for event in (form.settings.input, self.preview.stale):
            event(self.show_preview, form.all, self.preview, **FOLLOWING)
        reading = no_facts(notes=["Reading the file…"])
        reads = form.uploaded.change(lambda path: reading if path else gr.skip(), form.uploaded, self.preview, **QUIET)
        reads = reads.then(encoding_of, form.uploaded, form.encoding, **FOLLOWING)
        reads.then(self.follow, form.all, shown, **FOLLOWING)

    def _connect_commands(self) -> None:
        page, live = self.page, self.live
        form = self.form.all
        page.visitor.enter(self.show, page.visitor, live, **FOLLOWING)
        self.start.click(self.start_run, form, live, **QUIET)
        self.step.click(self.one_step, form, live, **QUIET)
        self._on_click(self.pause, lambda run: run.resume() if run.status == "paused" else run.pause())
        self._on_click(self.change_rate, change_rate, self.rate)
        self.stop.click(self.stop_all, page.visitor, live, **QUIET)
        parts = self.form
        filled = [parts.seed, parts.settings, parts.source, parts.recipe, parts.initial, page.messages]
        follows = self.monitor.fill(on_error(page.say)(self.fill), form, filled, **QUIET).then
        follows(self.show_preview, form, self.preview, **FOLLOWING)
        self.monitor.longer(self.showing(more_steps), page.visitor, live, **QUIET)
        self.monitor.elsewhere(self.show, page.visitor, live, **FOLLOWING)
        buttons = [self.start, self.pause, self.stop, self.rate]
        self.monitor.status(None, None, buttons, js="() => Balcony.buttons", **QUIET)

    def _on_click(self, button: gr.Button, command: Callable[..., Any], *inputs: gr.components.Component) -> None:
        """Connect a button to a command for the visitor's current run. inputs: its further arguments."""

        def attempt(space: Workspace, *values: Any) -> Any:
            return command(current_run(space), *values)

        button.click(self.showing(attempt), [self.page.visitor, *inputs], self.live, **QUIET)

    def showing(self, work: Callable[..., Any]) -> Callable[..., Updates]:
        """A handler with the outputs `live`, of a function of the visitor's workspace; the page says why it fails, or
        the sentence that it gives."""

        @functools.wraps(work)
        def handle(token: str, *values: Any) -> Updates:
            def attempt() -> Updates:
                said = work(self.workspaces.find(token), *values)
                return self.page.say(said, done=True) if said else {}

            return on_error(lambda sentence: self.page.say(with_labels(sentence)))(attempt)() | self.show(token)

        return handle

    def show(self, token: str | None) -> Updates:
        """Values of `live` for a visitor: the current run as it is."""
        space, page = self.workspaces.enter(token), self.page
        run = space.current_run
        is_variant = run is not None and bool(space.entries[run.id].variant)  # the page keeps the model it shows
        return {
            page.visitor: space.token,
            self.monitor: monitor_value(self.workspaces, space, run),
            page.frame: {"visitor": space.token} | ({} if is_variant else {"run": run.id if run else None}),
        }

    def show_preview(self, values: dict[Any, Any]) -> dict[str, Any]:
        """The sizes of the text, or why it cannot be trained on."""
        return self._preview(self.form.read(values), values)

    def _preview(self, filled: Filled, values: dict[Any, Any]) -> dict[str, Any]:
        """The same; follows: whether another shown model makes it stale."""
        failed = on_error(lambda sentence: no_facts(with_labels(sentence)))
        return failed(self._counted)(filled, values) | {"follows": filled.initial == SHOWN_MODEL}

    def _counted(self, filled: Filled, values: dict[Any, Any]) -> dict[str, Any]:
        if filled.missing:
            return no_facts(notes=[filled.missing])
        service, is_own = self.workspaces.service, filled.source != OWN_TEXT
        read: dict[str, Any] = {"kind": (filled.chosen_kind or "auto") if is_own else None}
        try:
            recipe = filled.recipe()
            read["kind"] = filled.kind(recipe) if is_own else None
            if not is_own and filled.start is None:
                found, corpus = _own_preview(recipe, service.device, service.limits)
            else:
                corpus = filled.corpus(recipe)
                read |= reading_value(corpus)
                found = preview(recipe, corpus, service.device, service.limits, start=filled.start)
        except BertCoreError as error:  # how the text was read stands above it
            return read | no_facts(with_labels(str(error)), [*map(without_options, error.notes)])
        if self._pace(values, recipe):
            found = dataclasses.replace(found, seconds=max(found.seconds, FIRST_RUN_SECONDS))
        return preview_value(found, corpus) | read

    def _pace(self, values: dict[Any, Any], recipe: Recipe) -> float | None:
        """Steps a second of the next run with that recipe, None for full speed."""
        space = self.workspaces.lookup(values[self.page.visitor])
        return None if space and space.runs else pace_of_first(recipe.training)

    def follow(self, values: dict[Any, Any]) -> Updates:
        """Show the settings of the chosen recipe and the sizes of the text. The form asks for no more steps than the
        limits of this place allow, and says so."""
        form, filled, most = self.form, self.form.read(values), self.workspaces.service.limits.steps
        shown = form.describe(filled)
        training = on_error(lambda sentence: None)(lambda: filled.recipe().training)()
        asked = training.total_steps if training and training.epochs is None else 0
        if asked > most and form.settings in shown:
            shown |= self.page.say(
                f"The form asks for {most:,} steps instead of {asked:,}, because that is the limit here."
            )
            fewer, sent = {"training.steps": str(most)}, filled.settings
            shown[form.settings] |= {"changed": fewer}
            kept = sent["changed"] if sent["recipe"] == shown[form.settings]["recipe"] else {}
            filled = dataclasses.replace(filled, settings=shown[form.settings] | {"changed": kept | fewer})
        return shown | {self.preview: self._preview(filled, values)}

    def fill(self, values: dict[Any, Any], event: gr.EventData) -> Updates:
        """Put the recipe, seed and settings of a link into the form. Raises BertCoreError."""
        form, given, filled = self.form, sent(event, "values", dict), self.form.read(values)
        filled = dataclasses.replace(filled, source=OWN_TEXT, recipe_name=given.get("recipe"), initial=RANDOM)
        recipe, linked = filled.own_recipe(), given.get("settings", {})
        asked = values_of(recipe.override(linked))
        changed = {name: asked[name] for name in {*filled.settings.get("changed", {}), *linked} & asked.keys()}
        return {
            form.source: filled.source,
            form.recipe: filled.recipe_name,
            form.initial: filled.initial,
            form.seed: recipe.replace_by_texts({"seed": given.get("seed", "0")}).seed,
            form.settings: form.describe(filled)[form.settings] | {"changed": changed},
        }

    def start_run(self, values: dict[Any, Any], *, steps: bool = False) -> Updates:
        """Start a run; a form that can't be trained starts nothing and loses nothing. steps: only its first step."""
        space, filled = self.workspaces.enter(values[self.page.visitor]), self.form.read(values)

        def begin() -> None:
            recipe = filled.recipe()
            # The run reads the text itself, and its status line says so: a large file takes a while.
            read = functools.partial(filled.corpus, recipe)
            pace = self._pace(values, recipe)
            run = self.workspaces.start(space, recipe, read, filled.seed, paused=steps, start=filled.start)
            run.set_pace(pace)
            if steps:
                run.step()

        problem, dropped = filled.missing, list[str]()
        if not problem and filled.source != UPLOADED:  # a file may be large; its run tells why it cannot be trained on
            problem = self._preview(filled, values).get("error", "")
        if not problem:
            problem, dropped = begun(space, begin)
        said = self.page.say(problem or dropped[0]) if problem or dropped else {}
        return said | self.show(space.token)

    def one_step(self, values: dict[Any, Any]) -> Updates:
        """One step of the active run, or the first one of a new run."""
        token = values[self.page.visitor]
        space = self.workspaces.lookup(token)
        run = space.current_run if space else None
        if run is None or run.status not in ACTIVE:
            return self.start_run(values, steps=True)
        return self.showing(lambda space: run.step())(token)

    def stop_all(self, token: str) -> Updates:
        """Stop the active run and those that wait for it."""
        if space := self.workspaces.lookup(token):
            space.stop()
        return self.show(token)


TAB = Tab("train", "Train", TrainTab)


def current_run(space: Workspace) -> Run:
    """The visitor's current run. Raises RunError without one."""
    if (run := space.current_run) is None:
        raise RunError(NO_RUN_YET)
    return run


def more_steps(space: Workspace, event: gr.EventData) -> None:
    """Let an ended run go on for the steps that the monitor has sent."""
    run = space.run(sent(event, "run", str))
    run.continue_for(sent(event, "steps", int))
    run.set_pace(None)  # a first run was slowed down for its own steps


def change_rate(run: Run, typed: str) -> str:
    """Let a paused or stopped run go on with the learning rate that a person has typed, and confirm it."""
    if not typed.strip():
        raise InputError("Type the new learning rate first.")
    run.set_learning_rate(run.recipe.training.replace_by_texts({"learning_rate": typed}).learning_rate)
    return f"The learning rate is {rate_of(run):g} from the next step on."


def pace_of_first(training: OptimizerConfig) -> float | None:
    """Steps a second of a visitor's first run, None for full speed."""
    pace = training.total_steps / FIRST_RUN_SECONDS
    return pace if training.epochs is None and pace <= MOST_WATCHED else None


@functools.lru_cache(maxsize=64)  # every page begins with one, and every Start asks again
def _own_preview(recipe: Recipe, device: str, limits: Limits) -> tuple[Preview, Corpus]:
    """The preview of a recipe's own text, and that text. Raises BertCoreError."""
    corpus = recipe.source()
    return preview(recipe, corpus, device, limits), corpus


def preview_value(found: Preview, corpus: Corpus) -> dict[str, Any]:
    """The sizes of a text and its first sentences, as the preview shows them."""
    return {
        "facts": [
            ["Sentences", f"{found.sentences:,}"],
            ["[[held out|Held out]]", f"{found.held_out_sentences:,}" if found.held_out_sentences else "nothing"],
            ["[[token|Tokens]]", f"{found.tokens:,}"],
            ["[[vocabulary|Vocabulary]]", f"{found.vocabulary:,}"],
            ["Unknown words", f"{found.unknown_share:.1%}"],
            ["Cut-off tokens", f"{found.cut_share:.1%}"],
            ["Parameters", f"{found.parameters:,}"],
            ["Estimated time", duration(found.seconds)],
        ],
        "first": [*map(_cut, corpus.sentences[:FIRST_SENTENCES])],
        "notes": [*map(without_options, found.warnings)],
    }


def reading_value(corpus: Corpus) -> dict[str, Any]:
    """How a text was read: its first sentences and its longest one."""
    return {"first": [*map(_cut, corpus.sentences[:FIRST_SENTENCES])], "longest": _cut(max(corpus.sentences, key=len))}


def _cut(sentence: str) -> str:
    return sentence if len(sentence) <= SHOWN_CHARACTERS else f"{sentence[:SHOWN_CHARACTERS]}…"


def duration(seconds: float) -> str:
    """An estimated time in words, rounded."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min"
    hours, days = seconds / 3600, seconds / 86400
    if hours < 48:
        return f"about {hours:.1f} h"
    return f"about {days:.0f} days" if days < 730 else f"about {days / 365:,.0f} years"
