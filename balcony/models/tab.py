"""Models: choose the one that the page shows; keep, download and open models."""

import contextlib
import dataclasses
import functools
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import gradio as gr

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import MODEL, Values
from balcony.frame.shown_model import models
from balcony.frame.tab import Tab
from balcony.handlers import FOLLOWING, QUIET, on_error, own
from balcony.parts.controls import control
from balcony.server.files import folder_name, pack, save_to_share, unpack
from balcony.server.workspace import Model, Workspace
from balcony.views import hint, view
from bert_core.config import LOCAL, Limits
from bert_core.errors import CheckpointError, first_three
from bert_core.storage.checkpoint import MODEL_FILES, Checkpoint, load_checkpoint
from bert_core.storage.hub import fetch_checkpoint
from bert_core.storage.weights import CONFIG, has_weights
from bert_core.tasks.prediction import task_of

FACTS, CHOICE = "model-facts", "model-choice"  # elem_ids
MOST_LETTERS = 60  # of the name of an uploaded model
HUB_MEGABYTES = 600  # BERT base has 440
_one_reader = threading.Lock()  # the memory that strangers' models take while they are read is that of one


class ModelsTab:
    def __init__(self, page: Page) -> None:
        self.page, self.workspaces = page, page.workspaces
        with gr.Row(elem_classes="b-split"):
            with gr.Column(scale=5, min_width=320):
                self._lay_out_choice()
            with gr.Column(scale=8, min_width=340):
                view("train/facts", elem_id=FACTS)
                with gr.Row():
                    download = gr.Button("Download", variant="primary", elem_id="download", min_width=120)
                    self.remove = gr.Button("Remove from the list", elem_id="remove", min_width=160)
                hint(
                    "A download is a zip of a Hugging Face folder, which <code>transformers</code> and this page open. "
                    "To train it further, open it here and choose it as initial weights in Train."
                )
                hint(page.workspaces.losses)
        page.answer("facts", MODEL, (FACTS,), show)
        inputs, changed = page.inputs, {page.visitor, page.frame, page.messages}
        page.changed(*MODEL)(self.allow, inputs, self.remove, **FOLLOWING)
        said = on_error(page.say)
        self.remove.click(said(self.drop), inputs, changed, **QUIET)
        opened = self.uploaded.upload(said(self.open_uploaded), {*inputs, self.uploaded}, changed, **QUIET)
        opened.then(lambda: None, None, self.uploaded, **QUIET)
        # Queued: Gradio shows that it works. Several download at once, so that nobody waits for one visitor's model.
        queued: dict[str, Any] = {"concurrency_limit": 4, "api_visibility": "private", "show_progress_on": self.name}
        gr.on([self.fetch.click, self.name.submit], said(self.open_named), {*inputs, self.name}, changed, **queued)
        download.click(said(self.pack), inputs, {page.file, page.messages}, **QUIET)

    def _lay_out_choice(self) -> None:
        label, new = "The model that the other tabs use", {"step": None}
        control("radio", "model", label=label, resets=new, elem_id=CHOICE, elem_classes="b-list")
        self.uploaded = gr.File(
            label="Open a model: a .zip, or the files of its folder",
            file_count="multiple",
            file_types=[".zip", ".json", ".safetensors", ".txt", ".bin"],  # the last to say why it is not opened
            elem_id="model-upload",
            height=150,
        )
        hint("A folder of config.json and vocab.txt opens with random weights.")
        self.name = gr.Textbox(
            label="Or a model from the Hugging Face Hub",
            info=f"Its name as owner/model; at most {HUB_MEGABYTES} MB.",
            placeholder="google-bert/bert-base-uncased",
            max_lines=1,
            elem_id="hub-name",
        )
        self.fetch = gr.Button("Fetch", elem_id="hub-fetch", min_width=120)

    def allow(self, values: Values) -> Any:
        """Whether the shown model can be removed."""
        asked = self.page.asked(values)
        return gr.update(interactive=asked.question.model in asked.space.models)

    def drop(self, values: Values) -> dict[Any, Any]:
        asked = self.page.asked(values)
        asked.visitor.remove_model(asked.question.model)
        return self.shown(asked.visitor, self.workspaces.shipped_names[0])

    def open_uploaded(self, values: Values) -> dict[Any, Any]:
        """Open the model of the uploaded files. Raises BertCoreError."""
        if not (paths := values[self.uploaded]):
            return gr.skip()
        model = open_files([Path(path) for path in paths], self.workspaces.service.limits)
        return self.add(values, Model(model.name, "random weights" if model.random_weights else "opened", model))

    def open_named(self, values: Values) -> dict[Any, Any]:
        """Open the model with the typed name. Raises BertCoreError."""
        if not (name := values[self.name].strip()):
            raise CheckpointError("Type the name of a model first.")
        keep, limits = not self.workspaces.is_shared, self.workspaces.service.limits
        return self.add(values, Model(name, "from the Hub", fetch_model(name, keep=keep, limits=limits)))

    def add(self, values: Values, model: Model) -> dict[Any, Any]:
        """Give the visitor a model, and show it."""
        space = self.workspaces.enter(values[self.page.visitor])
        return self.shown(space, space.add_model(model))

    def shown(self, space: Workspace, key: str) -> dict[Any, Any]:
        return {self.page.visitor: space.token, self.page.frame: {"visitor": space.token, "show": key}}

    def pack(self, values: Values) -> dict[Any, Any]:
        """Write the shown model to a file. Raises BertCoreError."""
        checkpoint = self.page.asked(values).checkpoint
        name = f"{folder_name(checkpoint.name)}.zip"
        return self.page.save(name, functools.partial(pack, functools.partial(save_to_share, checkpoint)))


TAB = Tab("models", "Models", ModelsTab)


def show(asked: PageRequest) -> dict[str, Any]:
    """The list of models, and the facts of the shown one."""
    listed = [(key, f"{name} · {detail}") for key, name, detail, *_ in models(asked.workspaces, asked.space)]
    return {CHOICE: {"choices": listed, "first": asked.key}, FACTS: model_facts(asked.model)}


def model_facts(model: Model) -> dict[str, Any]:
    """Sizes of a model, the task that it does, and its parameters, for the facts view."""
    config, head = model.checkpoint.config, model.checkpoint.head
    task = "masked words and next sentence" if head is None else task_of(model.checkpoint).name.replace("-", " ")
    labels = f": {first_three(map(own, head.labels))}" if head and head.labels else ""
    return {
        "facts": [
            ["Model", model.title],
            ["State", model.detail],
            ["Task", task + labels],
            ["[[layer|Layers]]", f"{config.num_hidden_layers}"],
            ["[[head|Heads]] per layer", f"{config.num_attention_heads}"],
            ["Hidden size", f"{config.hidden_size}"],
            ["[[vocabulary|Vocabulary]]", f"{config.vocab_size:,}"],
            ["Maximum length", f"{config.max_position_embeddings:,} tokens"],
            ["[[parameter|Parameters]]", f"{config.parameter_count():,}"],
        ],
        "notes": list(model.checkpoint.notes),
        "parameters": parameters_of(model.checkpoint),
    }


def parameters_of(checkpoint: Checkpoint) -> list[list[str]]:
    """[name, shape, number of weights] of each tensor of a model's file."""
    found = checkpoint.tensors.items()
    return [[name, " × ".join(map(str, each.shape)), f"{each.numel():,}"] for name, each in found]


def open_files(paths: list[Path], limits: Limits = LOCAL) -> Checkpoint:
    """The model in an uploaded zip or in the uploaded files of its folder, of which only a model's own are read.

    Its name is that of the zip, or else its sizes. Raises CheckpointError.
    """
    with _one_reader, tempfile.TemporaryDirectory(prefix="balcony-upload-") as scratch:
        folder = Path(scratch) / "model"
        if len(paths) == 1 and paths[0].suffix.lower() == ".zip":
            unpack(paths[0], folder, limits)
            return dataclasses.replace(load_checkpoint(folder, limits=limits), name=paths[0].stem[:MOST_LETTERS])
        has_weights([path.name for path in paths])  # refuses others
        folder.mkdir()
        for path in paths:
            if path.name in MODEL_FILES:
                shutil.copyfile(path, folder / path.name)
        if not (folder / CONFIG).exists():
            chosen = ", ".join(path.name for path in paths[:4])
            raise CheckpointError(
                f"There is no {CONFIG} among {chosen}; choose a .zip, or all files of a model's folder."
            )
        checkpoint = load_checkpoint(folder, limits=limits)
        return dataclasses.replace(checkpoint, name=checkpoint.config.in_words)


def fetch_model(name: str, *, keep: bool, limits: Limits = LOCAL) -> Checkpoint:
    """The model with that name on the Hub. Raises CheckpointError.

    keep: leave the files in huggingface_hub's cache; on a shared machine they would fill the disk.
    """
    with contextlib.ExitStack() as stack:
        cache = None if keep else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="balcony-hub-")))
        most = min(HUB_MEGABYTES * 2**20, 5 * limits.parameters)  # four bytes each, and the other files
        folder = fetch_checkpoint(name, max_bytes=most, cache=cache)
        with _one_reader:
            return dataclasses.replace(load_checkpoint(folder, limits=limits), name=name.split("/")[-1])
