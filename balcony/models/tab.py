"""Models: choose the one that the page shows; keep, download and open models."""

import contextlib
import dataclasses
import functools
import itertools
import re
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import MODEL, Question, Values
from balcony.frame.shown_model import models
from balcony.frame.tab import Tab
from balcony.handlers import FOLLOWING, QUIET, on_error, own
from balcony.parts.controls import control
from balcony.server.files import folder_name, pack, save_to_share, unpack
from balcony.server.workspace import Model
from balcony.views import hint, view
from bert_core.config import CHECKPOINTS, LOCAL, Limits
from bert_core.errors import CheckpointError, first_three
from bert_core.storage.checkpoint import MODEL_FILES, Checkpoint, load_checkpoint
from bert_core.storage.hub import fetch_checkpoint
from bert_core.storage.untrusted import parse_json, read_limited
from bert_core.storage.weights import CONFIG, weight_files
from bert_core.tasks.prediction import task_of

FACTS, CHOICE = "model-facts", "model-choice"  # elem_ids
CARD = "README.md"  # of a model that comes with the program
_TO_TRY = re.compile(r"^- (.+?): `(#\S+)`$", re.MULTILINE)  # a line of it: what to do, and the part of a link after #
MOST_LETTERS = 60  # of a model's name from its files
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
                    "To continue training later, save the run: Train, “Save” below the curves."
                )
                hint(
                    "What you have opened here can be removed from the list. Compare removes a run of Train, "
                    "and Fine-tune one of its own; models that come with Balcony stay."
                )
                hint(page.workspaces.losses)
        page.answer("facts", MODEL, (FACTS,), show)
        inputs, changed = page.inputs, {page.visitor, page.frame, page.messages}
        page.changed(*MODEL)(self.allow, inputs, self.remove, **FOLLOWING)
        said = on_error(page.say)
        self.remove.click(said(lambda values: self.act(values, self.drop)), inputs, changed, **QUIET)
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

    def act(self, values: Values, work: Callable[[PageRequest], str | None]) -> dict[Any, Any]:
        """Change the visitor's workspace and show the model with the key that `work` returns. Raises BertCoreError."""
        space = self.workspaces.enter(values[self.page.visitor])
        key = work(PageRequest(self.workspaces, space, Question.read(values[self.page.bar])))
        if not key:
            return gr.skip()
        return {self.page.visitor: space.token, self.page.frame: {"visitor": space.token, "show": key}}

    def drop(self, asked: PageRequest) -> str:
        asked.space.remove_model(asked.question.model)
        return self.workspaces.shipped_names[0]

    def open_uploaded(self, values: Values) -> dict[Any, Any]:
        def opened(asked: PageRequest) -> str | None:
            if not (paths := values[self.uploaded]):
                return None
            model = open_files([Path(path) for path in paths], self.workspaces.service.limits)
            titles = {each.title for each in asked.space.models.values()}
            numbered = (f"{model.name} ({number})" for number in itertools.count(2))
            title = next(each for each in itertools.chain([model.name], numbered) if each not in titles)
            detail = "random weights" if model.random_weights else "opened"
            return asked.space.add_model(Model(title, detail, model))

        return self.act(values, opened)

    def open_named(self, values: Values) -> dict[Any, Any]:
        name = values[self.name].strip()

        def fetched(asked: PageRequest) -> str:
            if not name:
                raise CheckpointError("Type the name of a model first.")
            keep, limits = not self.workspaces.is_shared, self.workspaces.service.limits
            return asked.space.add_model(Model(name, "from the Hub", fetch_model(name, keep=keep, limits=limits)))

        return self.act(values, fetched)

    def pack(self, values: Values) -> dict[Any, Any]:
        """Write the shown model to a file. Raises BertCoreError."""
        checkpoint = self.page.asked(values).checkpoint
        name = f"{folder_name(checkpoint.name)}.zip"
        return self.page.save(name, functools.partial(pack, functools.partial(save_to_share, checkpoint)))


TAB = Tab("models", "Models", ModelsTab)


def show(asked: PageRequest) -> dict[str, Any]:
    """The list of models, and the facts of the shown one."""
    workspaces = asked.workspaces
    listed = [(key, f"{name} · {detail}") for key, name, detail, *_ in models(workspaces, asked.space)]
    card = card_of(CHECKPOINTS / asked.key / CARD) if asked.key in workspaces.shipped_names else {}
    return {CHOICE: {"choices": listed, "first": asked.key}, FACTS: model_facts(asked.model) | card}


def card_of(path: Path) -> dict[str, Any]:
    """The first paragraph of a model's card, and what to try with the model: a sentence and a link of each; {} without
    a card."""
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    paragraph = text.partition("\n# ")[2].split("\n\n")[1]
    return {"card": " ".join(paragraph.split()), "links": _TO_TRY.findall(text)}


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

    Its name is that of the zip, or the one that the files hold. Raises CheckpointError.
    """
    with _one_reader, tempfile.TemporaryDirectory(prefix="balcony-upload-") as scratch:
        folder = Path(scratch) / "model"
        if len(paths) == 1 and paths[0].suffix.lower() == ".zip":
            unpack(paths[0], folder, limits)
            return dataclasses.replace(load_checkpoint(folder, limits=limits), name=paths[0].stem[:MOST_LETTERS])
        weight_files([path.name for path in paths])  # refuses others
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
        return dataclasses.replace(
            checkpoint,
            name=name_in_files(checkpoint, parse_json(read_limited(folder / CONFIG, limits.upload_bytes), CONFIG)),
        )


def name_in_files(checkpoint: Checkpoint, config: dict[str, Any]) -> str:
    """The title of a model's recipe, or the end of the name that `transformers` noted, or else its sizes."""
    for name in ((checkpoint.recipe or {}).get("title"), config.get("_name_or_path")):
        if isinstance(name, str) and (last := name.strip(" ./").split("/")[-1].strip()):
            return last[:MOST_LETTERS]
    return checkpoint.config.in_words


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
