"""The Fine-tune tab: choose a task and initial weights, train, try the model, see its mistakes."""

import contextlib
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from balcony.finetune.answers import (
    few_examples,
    results_value,
    samples_value,
    tried_value,
    windows_code,
    windows_value,
)
from balcony.finetune.columns import chosen, columns_value, path_of_parts
from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import MODEL, Values
from balcony.frame.tab import Tab
from balcony.handlers import FOLLOWING, QUIET, on_error, own
from balcony.parts.downloads import exporter
from balcony.parts.notes import no_facts
from balcony.server.workspace import Workspace
from balcony.server.workspaces import Workspaces
from balcony.train.form import SHOWN_MODEL, begun, encoding_control, encoding_of, known, select
from balcony.train.settings import overrides, settings_value, settings_view, with_labels, without_options
from balcony.views import view
from bert_core.config import FinetuningData
from bert_core.data.decoding import likely_encoding
from bert_core.data.encoding import MANY_UNKNOWN
from bert_core.data.tokenizer import UNK
from bert_core.errors import BertCoreError, CorpusError, first_three, percent
from bert_core.runs.recipe import FinetuningRecipe, finetuning_recipe, finetuning_recipes
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TASKS, TaskData, TaskParts, load_task, read_parts
from bert_core.tasks.tables import ColumnsError

RANDOM = "Random weights of the same sizes"
STARTS = (SHOWN_MODEL, RANDOM)
OFTEN = (  # settings that people change most
    "training.epochs",
    "training.learning_rate",
    "data.batch_size",
    "data.most_examples",
    "training.frozen_layers",
    "data.sequence_length",
    "data.stride",
    "data.best_answers",
    "training.evaluate_every",
)
OWN_EXAMPLES = "Your own examples are used. To use those of the task, empty the fields under “Examples of your own”."
PASTED = "Your examples"  # the name of examples that were pasted
MOST_READ = 200  # examples whose words are counted
UNKNOWN = (
    "The shown model knows few of these words. Choose one at the top that does, such as english-mini for English, or "
    "train one on such texts."
)
TUNED = "The shown model is fine-tuned already; its encoder learns on, with a new output layer."


class TaskForm:
    """The controls for a task, its examples and its training. examples: those on which the facts depend."""

    def __init__(self) -> None:
        recipes = finetuning_recipes()
        titles = [(each.title if each.files else f"{each.title} (needs your file)", each.name) for each in recipes]
        self.task = select(titles, recipes[0].name, label="Task", elem_id="task")
        self.start = gr.Button("Fine-tune", variant="primary", elem_id="task-start")
        self.facts = view("train/facts", elem_id="task-facts")
        self.initial = gr.Radio(
            list(STARTS), value=STARTS[0], label="Initial weights", elem_id="initial", elem_classes="b-list"
        )
        with gr.Accordion("Examples of your own", open=False, elem_id="own-examples"):
            self.form = view("train/facts", form_of(recipes[0]), elem_id="task-form")
            label, info = "Paste examples", "As in such a file. Not used when there is a training file."
            self.pasted = gr.Textbox(label=label, info=info, lines=4, max_lines=10, elem_id="task-pasted")
            label = "Up to three files: training, validation, test"
            self.files = gr.File(label=label, file_count="multiple", elem_id="task-files", height=140)
            self.encoding = encoding_control("task-encoding")
            self.columns = view("finetune/columns", events=("input",), elem_id="task-columns", render=False)
        self.settings = settings_view(recipes[0], OFTEN, prefix="task", elem_id="task-settings")
        self.seed = gr.Number(0, label="Seed", precision=0, elem_id="task-seed")
        self.examples = {self.task, self.pasted, self.encoding, self.columns, self.files, self.settings}
        self.all = {*self.examples, self.initial, self.seed}
        # Connect what follows another task and other files, whose columns are not those of the ones before.
        shown, read = [self.form, self.settings, self.columns], [self.encoding, self.columns]
        self.other_task = self.task.input(show_task, self.task, shown, **FOLLOWING).then
        self.other_files = self.files.change(
            lambda paths: (encoding_of(*(paths or ())), None), self.files, read, **FOLLOWING
        ).then

    def parts(self, values: Values, workspaces: Workspaces) -> TaskParts:
        """The examples of the files or those pasted, or else those of the recipe. Raises BertCoreError."""
        recipe = recipe_of(values[self.task])
        if not self.is_own(values):
            return recipe.source()
        said = chosen(values[self.columns])
        paths = path_of_parts(values[self.files] or (), said.files)
        pasted = values[self.pasted] or ""
        if "train" not in paths and not pasted.strip():
            raise CorpusError("Choose which file is the training file; validation and test go with it.")
        limits = workspaces.service.limits
        read = functools.partial(load_task, task=recipe.task, separator=said.separator or None, limits=limits)
        with tempfile.TemporaryDirectory(prefix="balcony-examples-") as scratch:
            if "train" not in paths:
                paths["train"] = f"{scratch}/{PASTED}"
                Path(paths["train"]).write_text(pasted, encoding="utf-8", errors="surrogatepass")
            return read_parts(functools.partial(read_part, read, values[self.encoding]), paths, **said.options())

    def is_own(self, values: Values) -> bool:
        return bool((values[self.pasted] or "").strip() or values[self.files])

    def recipe(self, values: Values) -> FinetuningRecipe:
        """The recipe with the settings of the form. Raises ConfigError."""
        recipe = recipe_of(values[self.task])
        recipe = recipe.override(overrides(recipe, values[self.settings])).with_seed(int(values[self.seed] or 0))
        return recipe.replace(random_weights=values[self.initial] == RANDOM)


class FinetuneTab:
    def __init__(self, page: Page) -> None:
        self.page, self.workspaces = page, page.workspaces
        with gr.Row(elem_classes="b-split"):
            with gr.Column(scale=4, min_width=320):
                self.form = TaskForm()
            with gr.Column(scale=8, min_width=340):
                for function in (results_value, tried_value, windows_value, stop, remove):
                    page.answers.add(function.__name__, function)
                windows = exporter(
                    *(page, "windows and candidates"),
                    of="task-windows",
                    elem_id="task-windows-download",
                    name="candidates",
                    answer=lambda asked: {"windows": windows_value(asked, None)},
                    views=("windows",),
                    rows=lambda value: value["rows"],
                    code=windows_code,
                    is_inside=True,
                )
                options = {"series": ["loss", "measure"], "id": "task-curves", "windows": windows}
                self.monitor = view("finetune/run", options=options, elem_id="fine-tune")
                self.form.columns.render()
                self.samples = view("finetune/samples", elem_id="task-samples")
        form = self.form
        live = {form.facts, form.columns, self.samples, page.messages, page.visitor, page.frame}
        page.visitor.enter(self.restore, page.visitor, self.monitor, **FOLLOWING)
        inputs = {*page.inputs, *form.examples}
        described = [form.facts, self.samples, form.columns]
        changes = [form.encoding.input, form.pasted.change, form.columns.input, form.settings.input]
        gr.on(changes, self.describe, inputs, described, **FOLLOWING)
        for changed in (form.other_task, form.other_files, page.changed(*MODEL)):
            changed(self.describe, inputs, described, **FOLLOWING)
        inputs = {*page.inputs, *form.all}
        form.start.click(self.start, inputs, {*live, self.monitor}, **QUIET)
        page.laid_out["compare"].connect(form)

    def restore(self, token: str | None) -> dict[str, Any] | None:
        """The run after a reload; the Train tab gives a new visitor a workspace."""
        space = self.workspaces.lookup(token)
        return shown_run(space) if space else None

    def describe(self, values: Values) -> dict[Any, Any]:
        """What the task asks of the shown model, and three of its examples."""
        form, columns = self.form, None
        about = [OWN_EXAMPLES] if form.is_own(values) else []

        @on_error(lambda sentence: {form.facts: no_facts(with_labels(sentence), about), self.samples: {"examples": []}})
        def described() -> dict[Any, Any]:
            nonlocal columns
            recipe = recipe_of(values[form.task])
            try:
                parts = form.parts(values, self.workspaces)
                columns = parts.train.columns
            except ColumnsError as error:
                columns = error.columns
                raise
            checkpoint = self.page.asked(values).checkpoint
            facts = task_facts(recipe, parts, checkpoint)
            if not about:  # nobody has to know the columns of these files
                facts["notes"] = [note for note in facts["notes"] if note not in parts.train.notes]
            facts["notes"][:0] = about or [recipe.description]
            return {form.facts: facts, self.samples: samples_value(parts.train, checkpoint, self.data(recipe, values))}

        shown, task, said = described(), recipe_of(values[form.task]).task, chosen(values[form.columns])
        value = columns_value(task, values[form.files] or (), columns, said) if about else None
        return shown | {form.columns: value}

    def data(self, recipe: FinetuningRecipe, values: Values) -> FinetuningData:
        """How examples are read, as a person has set it; as the recipe says while a setting is not typed to its end."""
        with contextlib.suppress(BertCoreError):
            return recipe.override(overrides(recipe, values[self.form.settings])).data
        return recipe.data

    def start(self, values: Values) -> dict[Any, Any]:
        """Fine-tune with the recipe, model and examples of the form; the page says why that fails."""
        space, page, form = self.workspaces.enter(values[self.page.visitor]), self.page, self.form

        def start() -> None:
            initial, parts = page.asked(values).checkpoint, form.parts(values, self.workspaces)
            self.workspaces.finetune(space, form.recipe(values), initial, parts)

        problem, dropped = begun(space, start)
        shown = page.say(with_labels(problem)) if problem else self.describe(values)
        if not problem:
            shown[form.facts]["notes"][:0] = dropped
        shown |= {page.visitor: space.token, page.frame: {"visitor": space.token}}
        return shown | {self.monitor: shown_run(space)}


TAB = Tab("fine-tune", "Fine-tune", FinetuneTab, hint="", reads_parts=True)


def stop(asked: PageRequest, run_id: str) -> None:
    asked.space.run(run_id).stop(wait=False)


def remove(asked: PageRequest, run_id: str) -> None:
    asked.space.remove(run_id)


def form_of(recipe: FinetuningRecipe) -> dict[str, Any]:
    """What a file with examples of a task has, as the view of facts shows it."""
    form = f"A file with {TASKS[recipe.task].form}"
    return no_facts(notes=[f"{form}. Without a validation file, a part of the training file is held out."])


def read_part(read: Callable[..., TaskData], encoding: str | None, path: str, **how: Any) -> TaskData:
    """The examples of one file. encoding: of a file that is not UTF-8; the others are read as they are."""
    is_other = encoding and (b"\0" in (data := Path(path).read_bytes()) or likely_encoding(data))
    return read(path, encoding=encoding if is_other else None, **how)


def recipe_of(task: Any) -> FinetuningRecipe:
    """The recipe that is chosen in the list of tasks. Raises InputError for one that the list does not have."""
    return finetuning_recipe(known(task, [recipe.name for recipe in finetuning_recipes()]))


@on_error(lambda sentence: [gr.skip(), gr.skip(), gr.skip()])
def show_task(name: str) -> list[Any]:
    """What a file of another task has, the settings that the task has, and no columns."""
    recipe = recipe_of(name)
    return [form_of(recipe), settings_value(recipe), None]


def shown_run(space: Workspace) -> dict[str, Any]:
    """The value of the view that watches a run."""
    run = space.finetuning_run
    return {"visitor": space.token, "run": run.id if run else None}


def task_facts(recipe: FinetuningRecipe, parts: TaskParts, checkpoint: Checkpoint) -> dict[str, Any]:
    """What a task asks, its examples, and how many of their words the model lacks. Raises CorpusError for examples
    that cannot be learned."""
    train, labels = parts.train, parts.train.labels()
    held, problem = parts.validation, list[str]()
    try:
        held = held or train.split(recipe.data.validation_share, recipe.seed)[1]
    except CorpusError as error:  # more examples may follow
        problem = [str(error)]
    texts = [text for example in train.examples[:MOST_READ] for text in example.texts]
    tokenized = checkpoint.tokenizer.encode_batch(texts, add_special_tokens=False)
    tokens = [token for encoding in tokenized for token in encoding.tokens]
    unknown = tokens.count(UNK) / max(1, len(tokens))
    share = f"{recipe.data.validation_share:.0%} of them" if held else "none"
    facts = [
        ["Kind", recipe.task.replace("-", " ")],
        ["Examples", f"{len(train.examples):,}"],
        ["[[held out|Held out]]", f"{len(parts.validation.examples):,}" if parts.validation else share],
        *([["To test", f"{len(parts.test.examples):,}"]] if parts.test else []),
        ["Unknown words", percent(unknown)],
        *([["Labels", first_three(map(own, labels))]] if labels else []),
    ]
    warnings = [UNKNOWN] * (unknown > MANY_UNKNOWN) + [TUNED] * (checkpoint.head is not None)
    few = few_examples(len((parts.test or held or train).examples))
    return {"facts": facts, "notes": [*problem, *map(without_options, parts.notes), *warnings, *few]}
