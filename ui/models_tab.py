"""Models: choose the one that the page shows; keep, download and open models."""

import contextlib
import contextvars
import dataclasses
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from bert_core.errors import CheckpointError
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint, pack_checkpoint, unpack_checkpoint
from bert_core.storage.hub import Progress, fetch_checkpoint
from ui.handlers import QUIET, on_error, warn
from ui.parts.compare import caption
from ui.parts.downloads import file_name
from ui.parts.page import Page
from ui.server.workspace import Model, Workspace
from ui.views import view

FOLDER_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
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
            space.add_model(Model(Path(paths[0]).name, "opened", open_files([Path(path) for path in paths])))

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
            path = Path(scratch) / f"{file_name(model.checkpoint.name)}.zip"
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
    runs = [(f"{space.title_of(run)}, {run.status}", run.id) for run in space.runs.values()]
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
    """The model in an uploaded zip or in the uploaded files of its folder. Raises CheckpointError.

    The files are copied under known names into a temporary folder.
    """
    with tempfile.TemporaryDirectory(prefix="balcony-upload-") as scratch:
        folder, name = Path(scratch) / "model", "model"
        if len(paths) == 1 and paths[0].suffix.lower() == ".zip":
            name = file_name(paths[0].stem)
            unpack_checkpoint(paths[0], folder)
        else:
            folder.mkdir()
            for path in paths:
                if path.name not in FOLDER_FILES:
                    raise CheckpointError(
                        f"{path.name} is not a file of a model folder; choose a .zip, or {', '.join(FOLDER_FILES[:4])} "
                        "together."
                    )
                shutil.copyfile(path, folder / path.name)
        return dataclasses.replace(load_checkpoint(folder), name=name)


def fetch_model(name: str, progress: Progress, *, keep: bool) -> Checkpoint:
    """The model with that name on the Hub. Raises CheckpointError.

    keep: leave the files in huggingface_hub's cache ; on a shared machine they would fill the disk.
    """
    with contextlib.ExitStack() as stack:
        cache = None if keep else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="balcony-hub-")))
        folder = fetch_checkpoint(name, progress=progress, max_bytes=HUB_MEGABYTES * 2**20, cache=cache)
        return dataclasses.replace(load_checkpoint(folder), name=name.split("/")[-1])
