"""The Fine-tune tab: choose a task and initial weights, train, try the model, see its mistakes."""

import dataclasses
from typing import Any

import gradio as gr

from bert_core.config import FinetuningConfig, FinetuningData
from bert_core.data.encoding import MANY_UNKNOWN
from bert_core.data.tokenizer import UNK
from bert_core.errors import RunError, first_three
from bert_core.runs.recipe import FinetuningRecipe, finetuning_recipe, finetuning_recipes
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TASKS, TaskParts, load_task
from ui.compare.trials import seeds_control, trial_view
from ui.finetune.answers import results_numbers, results_page, results_value, texts_of, tried_value
from ui.finetune.transfer import start_transfer
from ui.handlers import QUIET, on_error, own
from ui.parts.downloads import exporter
from ui.parts.figures import task_curves
from ui.parts.page import Asked, Page
from ui.parts.question import MODEL, Question, Values
from ui.parts.tab import Tab
from ui.server.workspace import Workspace
from ui.server.workspaces import functions
from ui.train.form import encoding_choices, encoding_control
from ui.views import view

RANDOM = "Random weights of the same sizes"
STARTS = ("The shown model, at the step above", RANDOM)
SHOWN = {  # settings
    "training.epochs": "Epochs",
    "training.learning_rate": "Learning rate",
    "data.batch_size": "Batch size",
    "data.most_examples": "Labelled examples",
    "training.frozen_layers": "Frozen layers",
}
_CLASSES = {"training": FinetuningConfig, "data": FinetuningData}
MOST_READ = 200  # examples whose words are counted
UNKNOWN = "The shown model knows few of these words. Choose one at the top that does, such as english-mini."
TUNED = "The shown model is fine-tuned already; its encoder learns on, with a new output layer."


def finetune_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    workspaces, recipes = page.workspaces, finetuning_recipes()

    def results(space: Workspace, question: object) -> dict[str, Any]:
        return results_value(Asked(workspaces, space, Question.read(question)))

    def tried(space: Workspace, question: object) -> dict[str, Any]:
        return tried_value(Asked(workspaces, space, Question.read(question)))

    def command(space: Workspace, run_id: str, what: str) -> dict[str, Any]:
        run = space.run(run_id)
        commands = {"pause": run.pause, "resume": run.resume, "stop": lambda: run.stop(wait=False)}
        if what not in commands:
            raise RunError("There is no such command; reload the page.")
        commands[what]()
        return {}

    titles = [(each.title if each.files else f"{each.title} (needs your file)", each.name) for each in recipes]
    with gr.Row(elem_classes="b-split"):
        with gr.Column(scale=4, min_width=320):
            task = gr.Dropdown(titles, value=recipes[0].name, label="Task", elem_id="task")
            facts = view("parts/facts", elem_id="task-facts")
            initial = gr.Radio(
                list(STARTS), value=STARTS[0], label="Initial weights", elem_id="initial", elem_classes="b-list"
            )
            with gr.Accordion("Examples of your own", open=False, elem_id="own-examples"):
                uploaded = gr.File(label=f"A file with {TASKS[recipes[0].task].form}", elem_id="task-file", height=120)
                encoding = encoding_control("task-encoding")
                columns = gr.Textbox(
                    label="Columns",
                    info="The texts, then the label: review,sentiment, or 1,2 without a header. Empty: as found.",
                    max_lines=1,
                    elem_id="task-columns",
                )
                separator = gr.Textbox(
                    label="Between several labels of one text",
                    info="Empty: each text has one label.",
                    max_lines=1,
                    elem_id="label-separator",
                )
            with gr.Accordion("Training settings", open=False, elem_id="task-settings"):
                settings = {key: _control(key, recipes[0]) for key in SHOWN}
                seed = gr.Number(0, label="Seed", precision=0, elem_id="task-seed")
            start = gr.Button("Fine-tune", variant="primary", elem_id="task-start")
            with gr.Row():
                seeds = seeds_control("transfer-seeds")
                compare = gr.Button("What did pre-training buy?", elem_id="transfer-start", min_width=200)
        with gr.Column(scale=8, min_width=340):
            monitor = view(
                "finetune/run",
                server_functions=functions(workspaces, results, tried, command),
                options={
                    "figures": [task_curves()],
                    "series": ["loss", "measure"],
                    "id": "task-curves",
                    "alone": workspaces.alone,
                },
                elem_id="fine-tune",
            )
            exporter(
                *(page, "the answers"),
                of="task-results",
                elem_id="task-download",
                name="answers",
                numbers=results_numbers,
                title=(),
                html=results_page,
            )
            transfer = trial_view(workspaces, "transfer", "Progress of the comparison")

    examples = {task, uploaded, encoding, columns, separator}
    form = {*page.inputs, *examples, initial, seed, *settings.values()}

    def parts_of(values: Values) -> TaskParts:
        recipe = finetuning_recipe(values[task])
        if not values[uploaded]:
            return recipe.source()
        own = load_task(
            *(values[uploaded], recipe.task),
            columns=values[columns] or "",
            encoding=values[encoding] or None,
            label_separator=values[separator] or None,
            limits=workspaces.service.limits,
        )
        return TaskParts(own)

    def recipe_of(values: Values) -> FinetuningRecipe:
        recipe = finetuning_recipe(values[task])
        typed = {key: str(values[control]).strip() for key, control in settings.items()}
        changed = {key: text for key, text in typed.items() if text != setting_of(recipe, key)}
        recipe = recipe.override(changed).with_seed(int(values[seed] or 0))
        return dataclasses.replace(recipe, random_weights=values[initial] == RANDOM)

    @on_error(lambda sentence: {"facts": [], "notes": [], "error": sentence})
    def describe(values: Values) -> dict[str, Any]:
        recipe = finetuning_recipe(values[task])
        value = task_facts(recipe, parts_of(values), page.asked(values).checkpoint)
        return value if values[uploaded] else value | {"notes": [recipe.description, *value["notes"]]}

    @on_error(lambda sentence: sentence)
    def begin(space: Workspace, values: Values) -> str:
        space.refuse_if_active()
        workspaces.finetune(space, recipe_of(values), page.asked(values).checkpoint, parts_of(values))
        return ""

    @on_error(lambda sentence: sentence)
    def begin_transfer(space: Workspace, values: Values) -> str:
        checkpoint, parts = page.asked(values).checkpoint, parts_of(values)
        start_transfer(workspaces, space, recipe_of(values), checkpoint, parts, values[seeds])
        return ""

    def started(problem: str, space: Workspace, values: Values) -> dict[Any, Any]:
        shown = page.say(problem) if problem else {facts: describe(values)}
        return shown | {page.visitor: space.token, page.frame: {"visitor": space.token}}

    def press_start(values: Values) -> dict[Any, Any]:
        space = workspaces.enter(values[page.visitor])
        before = len(space.dropped)
        shown = started(begin(space, values), space, values) | {monitor: shown_run(space)}
        if len(space.dropped) > before:
            shown[facts]["notes"] = [*space.dropped_notes, *shown[facts]["notes"]]
        return shown

    def press_compare(values: Values) -> dict[Any, Any]:
        space = workspaces.enter(values[page.visitor])
        return started(begin_transfer(space, values), space, values) | {transfer: {}}

    def choose(name: str) -> list[Any]:
        recipe = finetuning_recipe(name)
        return [gr.update(label=f"A file with {TASKS[recipe.task].form}"), *(setting_of(recipe, key) for key in SHOWN)]

    def restore(token: str | None) -> dict[str, Any] | None:
        """After a reload; the Train tab gives a new visitor a workspace."""
        space = workspaces.lookup(token)
        return shown_run(space) if space else None

    live = {facts, page.messages, page.visitor, page.frame}
    page.visitor.enter(restore, page.visitor, monitor, trigger_mode="always_last", **QUIET)
    task.input(choose, task, [uploaded, *settings.values()], **QUIET)
    uploaded.change(encoding_choices, uploaded, encoding, **QUIET)
    described = {"fn": describe, "inputs": {*page.inputs, *examples}, "outputs": facts, "trigger_mode": "always_last"}
    changes = [task.input, uploaded.change, encoding.input, columns.change, separator.change]
    gr.on(changes, **described, **QUIET)
    page.changed(*MODEL)(**described, **QUIET)
    start.click(press_start, form, {*live, monitor}, **QUIET)
    compare.click(press_compare, {*form, seeds}, {*live, transfer}, **QUIET)


TAB = Tab("fine-tune", "Fine-tune", finetune_tab, hint="", reads_parts=True)


def shown_run(space: Workspace) -> dict[str, Any]:
    """The value of the view that watches a run."""
    run = space.finetuning_run
    return {"visitor": space.token, "run": run.id if run else None}


def task_facts(recipe: FinetuningRecipe, parts: TaskParts, checkpoint: Checkpoint) -> dict[str, Any]:
    """What a task asks, its examples, and how many of their words the model lacks. Raises CorpusError for examples
    that cannot be learned."""
    train, labels = parts.train, parts.train.labels()
    tokenized = checkpoint.tokenizer.encode_batch(texts_of(train, MOST_READ), add_special_tokens=False)
    tokens = [token for encoding in tokenized for token in encoding.tokens]
    unknown = tokens.count(UNK) / max(1, len(tokens))
    held_out = [f"{len(part.examples):,}" for part in (parts.validation, parts.test) if part]
    facts = [
        ["Kind", recipe.task.replace("-", " ")],
        ["Examples", f"{len(train.examples):,}"],
        ["Held out", " and ".join(held_out) or f"{recipe.data.validation_share:.0%}"],
        ["Unknown words", f"{unknown:.0%}"],
        *([["Labels", first_three(map(own, labels))]] if labels else []),
    ]
    warnings = {UNKNOWN: unknown > MANY_UNKNOWN, TUNED: checkpoint.head is not None}
    return {"facts": facts, "notes": [*train.notes, *(note for note, applies in warnings.items() if applies)]}


def setting_of(recipe: FinetuningRecipe, key: str) -> str:
    """A setting as a field shows it."""
    section, name = key.split(".")
    value = getattr(getattr(recipe, section), name)
    return "" if value is None else f"{value:g}"


def _control(key: str, recipe: FinetuningRecipe) -> gr.Textbox:
    section, name = key.split(".")
    hint = next(item.metadata["hint"] for item in dataclasses.fields(_CLASSES[section]) if item.name == name)
    options = {"info": hint, "max_lines": 1, "elem_id": "task-" + name.replace("_", "-")}
    return gr.Textbox(setting_of(recipe, key), label=SHOWN[key], **options)
