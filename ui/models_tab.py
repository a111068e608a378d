"""Models: choose the one that the page shows; keep, download and open models."""

import contextlib
import contextvars
import dataclasses
import itertools
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from bert_core.config import LOCAL, Limits
from bert_core.errors import CheckpointError, first_three
from bert_core.storage.checkpoint import (
    CONFIG,
    MODEL_FILES,
    Checkpoint,
    folder_name,
    load_checkpoint,
    pack_checkpoint,
    unpack_checkpoint,
)
from bert_core.storage.hub import Progress, fetch_checkpoint
from bert_core.storage.untrusted import read_json
from bert_core.tasks.prediction import task_of
from ui.handlers import QUIET, cached_file, on_error, own, sentence_of
from ui.parts.downloads import SAVE
from ui.parts.page import Asked, Page
from ui.parts.question import MODEL, Question, Values
from ui.parts.shown_model import choices
from ui.parts.tab import Tab
from ui.server.workspace import Model
from ui.views import hint, view

MOST_LETTERS = 60  # of a model's name from its files
HUB_MEGABYTES = 600  # BERT base has 440
_one_reader = threading.Lock()  # the memory that strangers' models take while they are read is that of one


def models_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with gr.Row(elem_classes="b-split"):
        with gr.Column(scale=5, min_width=320):
            choice = gr.Radio(
                [], label="The model that the other tabs use", elem_id="model-choice", elem_classes="b-list"
            )
            uploaded = gr.File(
                label="Open a model: a .zip, or the files of its folder",
                file_count="multiple",
                file_types=[".zip", ".json", ".safetensors", ".txt"],
                elem_id="model-upload",
                height=150,
            )
            hub_name = gr.Textbox(
                label="Or a model from the Hugging Face Hub",
                info=f"Its name as owner/model; at most {HUB_MEGABYTES} MB.",
                placeholder="google-bert/bert-base-uncased",
                max_lines=1,
                elem_id="hub-name",
            )
            fetch = gr.Button("Fetch", elem_id="hub-fetch", min_width=120)
        with gr.Column(scale=8, min_width=340):
            facts = view("parts/facts", elem_id="model-facts")
            with gr.Row():
                download = gr.Button("Download", variant="primary", elem_id="download", min_width=120)
                keep = gr.Button("Keep a copy of this step", elem_id="keep", min_width=180)
                remove = gr.Button("Remove from the list", elem_id="remove", min_width=160)
            hint(
                "A download is a zip of a Hugging Face folder, which <code>transformers</code> and this page open. "
                "To continue training later, save the run in the Train tab."
            )
            hint(page.workspaces.losses)
            # The browser needs a link to click before the file exists.
            file = gr.DownloadButton("File", visible="hidden", elem_id="download-file")

    def facts_of(asked: Asked) -> dict[str, Any]:
        return {"model-facts": model_facts(asked.model)}

    def show_choice(values: Values) -> dict[Any, Any]:
        asked = page.asked(values)
        space, key = asked.space, asked.question.model or page.workspaces.shipped_names[0]
        models = choices(page.workspaces, space)
        listed = [(f"{space.shown_title(value, name)}, {detail}", value) for value, name, detail in models]
        return {
            choice: gr.update(choices=listed, value=key),
            keep: gr.update(interactive=key in space.runs),
            remove: gr.update(interactive=key in space.models),
        }

    def act(values: Values, work: Callable[[Asked], str | None]) -> dict[Any, Any]:
        """Change the visitor's workspace and show the model with the key that `work` returns; an error appears among
        the facts."""
        space = page.workspaces.enter(values[page.visitor])
        try:
            key = work(Asked(page.workspaces, space, Question.read(values[page.bar])))
        except Exception as error:  # the page must answer in any case; the error is logged
            return {facts: {"facts": [], "notes": [], "error": sentence_of(error)}}
        return {page.visitor: space.token, page.frame: {"visitor": space.token, "show": key}} if key else gr.skip()

    def keep_copy(asked: Asked) -> str:
        model = asked.model
        return asked.space.add_model(Model(f"{model.title}, {model.detail}", "kept", model.checkpoint))

    def drop(asked: Asked) -> str:
        asked.space.models.pop(asked.question.model, None)
        return page.workspaces.shipped_names[0]

    def open_uploaded(asked: Asked, paths: list[str] | None) -> str | None:
        if not paths:
            return None
        model = open_files([Path(path) for path in paths], page.workspaces.service.limits)
        titles = {each.title for each in asked.space.models.values()}
        numbered = (f"{model.name} ({number})" for number in itertools.count(2))
        title = model.name if model.name not in titles else next(each for each in numbered if each not in titles)
        return asked.space.add_model(Model(title, "opened", model))

    def open_named(values: Values, progress: Any = gr.Progress()) -> dict[Any, Any]:  # noqa: B008  # Gradio fills it in
        name = values[hub_name].strip()
        # The library downloads in its own threads, and Gradio finds the visitor of a progress bar by the context.
        context = contextvars.copy_context()

        def show_bytes(done: int, total: int) -> None:
            megabytes = (round(done / 2**20, 1), round(total / 2**20, 1))
            context.copy().run(progress, megabytes, desc=f"Fetching {name}", unit="MB")

        def open_fetched(asked: Asked) -> str:
            model = fetch_model(
                name, show_bytes, keep=not page.workspaces.is_shared, limits=page.workspaces.service.limits
            )
            return asked.space.add_model(Model(name, "from the Hub", model))

        return act(values, open_fetched)

    @on_error(page.say)
    def pack(values: Values) -> dict[Any, Any]:
        checkpoint = page.asked(values).checkpoint
        name = f"{folder_name(checkpoint.name)}.zip"
        return {file: cached_file(file, name, lambda path: pack_checkpoint(checkpoint, path))}

    changed = {page.visitor, page.frame, facts}
    failed = {"facts": [], "notes": []}
    page.on("facts", MODEL, facts_of, lambda sentence: {"model-facts": failed | {"error": sentence}})
    page.changed(*MODEL)(show_choice, page.inputs, {choice, keep, remove}, trigger_mode="always_last", **QUIET)
    choice.input(None, choice, None, js="(model) => Balcony.ask({ model, step: null })", **QUIET)
    keep.click(lambda values: act(values, keep_copy), page.inputs, changed, **QUIET)
    remove.click(lambda values: act(values, drop), page.inputs, changed, **QUIET)
    opened = uploaded.upload(
        lambda values: act(values, lambda asked: open_uploaded(asked, values[uploaded])),
        {*page.inputs, uploaded},
        changed,
        **QUIET,
    )
    opened.then(lambda: None, None, uploaded, **QUIET)
    # Queued: Gradio shows progress. Several download at once, so that nobody waits for one visitor's model.
    gr.on(
        [fetch.click, hub_name.submit],
        open_named,
        {*page.inputs, hub_name},
        changed,
        show_progress_on=facts,
        concurrency_limit=4,
        api_visibility="private",
    )
    download.click(pack, page.inputs, {file, page.messages}, **QUIET).success(None, file, None, js=SAVE)


TAB = Tab("models", "Models", models_tab)


def model_facts(model: Model) -> dict[str, Any]:
    """Sizes of a model and the task that it does, for the facts view."""
    config, head = model.checkpoint.config, model.checkpoint.head
    task = "masked words and next sentence" if head is None else task_of(model.checkpoint).name.replace("-", " ")
    labels = f": {first_three(map(own, head.labels))}" if head and head.labels else ""
    return {
        "facts": [
            ["Model", model.shown or model.title],
            ["State", model.detail],
            ["Task", task + labels],
            ["Layers", f"{config.num_hidden_layers}"],
            ["Heads per layer", f"{config.num_attention_heads}"],
            ["Hidden size", f"{config.hidden_size}"],
            ["Vocabulary", f"{config.vocab_size:,}"],
            ["Maximum length", f"{config.max_position_embeddings:,} tokens"],
            ["Parameters", f"{config.parameter_count():,}"],
        ],
        "notes": list(model.checkpoint.notes),
    }


def open_files(paths: list[Path], limits: Limits = LOCAL) -> Checkpoint:
    """The model in an uploaded zip or in the uploaded files of its folder, of which only a model's own are read.

    Its name is that of the zip, or the one that the files hold. Raises CheckpointError.
    """
    with _one_reader, tempfile.TemporaryDirectory(prefix="balcony-upload-") as scratch:
        folder = Path(scratch) / "model"
        if len(paths) == 1 and paths[0].suffix.lower() == ".zip":
            unpack_checkpoint(paths[0], folder, limits=limits)
            return dataclasses.replace(load_checkpoint(folder, limits=limits), name=paths[0].stem[:MOST_LETTERS])
        folder.mkdir()
        for path in paths:
            if MODEL_FILES.fullmatch(path.name):
                shutil.copyfile(path, folder / path.name)
        if not (folder / CONFIG).exists():
            chosen = ", ".join(path.name for path in paths[:4])
            raise CheckpointError(
                f"There is no {CONFIG} among {chosen}; choose a .zip, or all files of a model's folder."
            )
        checkpoint = load_checkpoint(folder, limits=limits)
        return dataclasses.replace(checkpoint, name=name_in_files(checkpoint, read_json(folder / CONFIG)))


def name_in_files(checkpoint: Checkpoint, config: dict[str, Any]) -> str:
    """The title of a model's recipe, or the end of the name that `transformers` noted, or else its sizes."""
    for name in ((checkpoint.recipe or {}).get("title"), config.get("_name_or_path")):
        if isinstance(name, str) and (last := name.strip(" ./").split("/")[-1].strip()):
            return last[:MOST_LETTERS]
    return f"{checkpoint.config.num_hidden_layers} layers of {checkpoint.config.hidden_size}"


def fetch_model(name: str, progress: Progress, *, keep: bool, limits: Limits = LOCAL) -> Checkpoint:
    """The model with that name on the Hub. Raises CheckpointError.

    keep: leave the files in huggingface_hub's cache ; on a shared machine they would fill the disk.
    """
    with contextlib.ExitStack() as stack:
        cache = None if keep else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="balcony-hub-")))
        most = min(HUB_MEGABYTES * 2**20, 5 * limits.parameters)  # four bytes each, and the other files
        folder = fetch_checkpoint(name, progress=progress, max_bytes=most, cache=cache)
        with _one_reader:
            return dataclasses.replace(load_checkpoint(folder, limits=limits), name=name.split("/")[-1])
