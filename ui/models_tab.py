"""Models: choose the one that the page shows; keep, download and open models."""

import contextlib
import contextvars
import dataclasses
import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from bert_core.errors import CheckpointError
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
from ui.handlers import QUIET, on_error, warn
from ui.parts.compare import caption
from ui.parts.page import Page
from ui.server.workspace import Model, Workspace
from ui.views import view

MOST_LETTERS = 60  # of a model's name from its files
STATUS_NAMES = {"running": "training"}  # on the page, where it differs from the program's, as in train/run_status.js
HUB_MEGABYTES = 600  # BERT base has 440
CLICK_DOWNLOAD = "() => document.querySelector('#download-file a, #download-file').click()"


def models_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with gr.Tab("Models", elem_id="tab-models") as tab, gr.Row(elem_classes="balcony-split"):
        with gr.Column(scale=5, min_width=320):
            choice = gr.Radio(
                [], label="The model that the other tabs use", elem_id="model-choice", elem_classes="balcony-list"
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
            facts = view("facts", elem_id="model-facts")
            with gr.Row():
                download = gr.Button("Download", variant="primary", elem_id="download", min_width=120)
                keep = gr.Button("Keep a copy of this step", elem_id="keep", min_width=180)
                remove = gr.Button("Remove from the list", elem_id="remove", min_width=160)
            gr.HTML(
                "<p>A download is a zip of a Hugging Face folder, which <code>transformers</code> and this page open. "
                "Runs and models in the list are lost when the app stops. To continue training later, save the run in "
                "the Train tab.</p>",
                elem_classes="balcony-hint",
                apply_default_css=False,
                js_on_load=None,
            )
            # The browser needs a link to click before the file exists.
            file = gr.DownloadButton("File", visible="hidden", elem_id="download-file")

    shown = [choice, facts, keep, remove, page.model_line]

    def facts_of(space: Workspace, error: str) -> dict[str, Any]:
        facts = on_error(lambda problem: {"facts": [], "notes": [], "error": problem})(model_facts)(page, space)
        return facts | ({"error": error} if error else {})

    def show(token: str, error: str = "") -> list[Any]:
        space = page.space(token) or Workspace("")
        return [
            gr.update(choices=model_choices(page, space), value=space.selected or page.workspaces.shipped_names[0]),
            facts_of(space, error),
            gr.update(interactive=space.selected in space.runs),
            gr.update(interactive=space.selected in space.models),
            page.model_line_value(token),
        ]

    def act(work: Callable) -> Callable:
        """A handler that changes the visitor's workspace, then shows it; an error appears above the facts."""

        def handler(token: str, *arguments: Any) -> list[Any]:
            problem = on_error(str)(work)(page.workspaces.enter(token), *arguments)
            return show(token, problem or "")

        return handler

    def keep_copy(space: Workspace) -> None:
        model = page.workspaces.model(space)
        space.add_model(Model(caption(model), "kept", model.checkpoint))

    def open_upload(space: Workspace, paths: list[str] | None) -> None:
        if paths:
            model = open_files([Path(path) for path in paths])
            titles = {each.title for each in space.models.values()}
            numbered = (f"{model.name} ({number})" for number in itertools.count(2))
            title = model.name if model.name not in titles else next(each for each in numbered if each not in titles)
            space.add_model(Model(title, "opened", model))

    def open_name(token: str, name: str, progress: Any = gr.Progress()) -> list[Any]:  # noqa: B008  # Gradio fills it in
        # The library downloads in its own threads, and Gradio finds the visitor of a progress bar by the context.
        context = contextvars.copy_context()

        def show_bytes(done: int, total: int) -> None:
            megabytes = (round(done / 2**20, 1), round(total / 2**20, 1))
            context.copy().run(progress, megabytes, desc=f"Fetching {name}", unit="MB")

        def open_fetched(space: Workspace) -> None:
            model = fetch_model(name.strip(), show_bytes, keep=not page.workspaces.is_shared)
            space.add_model(Model(name.strip(), "from the Hub", model))

        return act(open_fetched)(token)

    @on_error(warn)
    def pack(token: str) -> str:
        model = page.model(token)
        with tempfile.TemporaryDirectory(prefix="balcony-download-") as scratch:
            path = Path(scratch) / f"{folder_name(model.checkpoint.name)}.zip"
            pack_checkpoint(model.checkpoint, path)
            # Files in the component's cache are deleted when they are old (delete_cache).
            return file.move_resource_to_block_cache(str(path))

    tab.select(show, page.visitor, shown, **QUIET)
    choice.input(act(Workspace.select), [page.visitor, choice], shown, **QUIET)
    keep.click(act(keep_copy), page.visitor, shown, **QUIET)
    remove.click(act(lambda space: space.remove_selected_model()), page.visitor, shown, **QUIET)
    uploaded.upload(act(open_upload), [page.visitor, uploaded], shown, **QUIET).then(
        lambda: None, None, uploaded, **QUIET
    )
    # Queued: Gradio shows progress, and one download runs at a time.
    gr.on(
        [fetch.click, hub_name.submit],
        open_name,
        [page.visitor, hub_name],
        shown,
        show_progress_on=facts,
        concurrency_limit=1,
        api_visibility="private",
    )
    download.click(pack, page.visitor, file, **QUIET).success(None, None, None, js=CLICK_DOWNLOAD)


def model_choices(page: Page, space: Workspace) -> list[tuple[str, str]]:
    """All models that the visitor can choose, (label, key) each."""
    runs = [
        (f"{space.title_of(run)}, {STATUS_NAMES.get(run.status, run.status)}", run.id) for run in space.runs.values()
    ]
    models = [(caption(model), key) for key, model in space.models.items()]
    shipped = [(f"{name}, comes with Balcony", name) for name in page.workspaces.shipped_names]
    return [*shipped, *runs, *models]


def model_facts(page: Page, space: Workspace) -> dict[str, Any]:
    """Sizes of the shown model, for the facts view."""
    model = page.workspaces.model(space)
    config = model.checkpoint.config
    return {
        "facts": [
            ["Model", model.title],
            ["State", model.detail],
            ["Layers", f"{config.num_hidden_layers}"],
            ["Heads per layer", f"{config.num_attention_heads}"],
            ["Hidden size", f"{config.hidden_size}"],
            ["Vocabulary", f"{config.vocab_size:,}"],
            ["Maximum length", f"{config.max_position_embeddings:,} tokens"],
            ["Parameters", f"{config.parameter_count():,}"],
        ],
        "notes": list(model.checkpoint.notes),
    }


def open_files(paths: list[Path]) -> Checkpoint:
    """The model in an uploaded zip or in the uploaded files of its folder, of which only a model's own are read.

    Its name is that of the zip, or the one that the files hold. Raises CheckpointError.
    """
    with tempfile.TemporaryDirectory(prefix="balcony-upload-") as scratch:
        folder = Path(scratch) / "model"
        if len(paths) == 1 and paths[0].suffix.lower() == ".zip":
            unpack_checkpoint(paths[0], folder)
            return dataclasses.replace(load_checkpoint(folder), name=paths[0].stem[:MOST_LETTERS])
        folder.mkdir()
        for path in paths:
            if MODEL_FILES.fullmatch(path.name):
                shutil.copyfile(path, folder / path.name)
        if not (folder / CONFIG).exists():
            chosen = ", ".join(path.name for path in paths[:4])
            raise CheckpointError(
                f"There is no {CONFIG} among {chosen}; choose a .zip, or all files of a model's folder."
            )
        checkpoint = load_checkpoint(folder)
        return dataclasses.replace(checkpoint, name=name_in_files(checkpoint, read_json(folder / CONFIG)))


def name_in_files(checkpoint: Checkpoint, config: dict[str, Any]) -> str:
    """The title of a model's recipe, or the end of the name that `transformers` noted, or else its sizes."""
    for name in ((checkpoint.recipe or {}).get("title"), config.get("_name_or_path")):
        if isinstance(name, str) and (last := name.strip(" ./").split("/")[-1].strip()):
            return last[:MOST_LETTERS]
    return f"{checkpoint.config.num_hidden_layers} layers of {checkpoint.config.hidden_size}"


def fetch_model(name: str, progress: Progress, *, keep: bool) -> Checkpoint:
    """The model with that name on the Hub. Raises CheckpointError.

    keep: leave the files in huggingface_hub's cache ; on a shared machine they would fill the disk.
    """
    with contextlib.ExitStack() as stack:
        cache = None if keep else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="balcony-hub-")))
        folder = fetch_checkpoint(name, progress=progress, max_bytes=HUB_MEGABYTES * 2**20, cache=cache)
        return dataclasses.replace(load_checkpoint(folder), name=name.split("/")[-1])
