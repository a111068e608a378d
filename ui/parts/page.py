"""The frame of the page, shared by all tabs: the visitor, and the line that names the shown model and its step."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from bert_core.data.corpus import Corpus, read_corpus
from bert_core.errors import BertCoreError
from bert_core.runs.recipe import DEFAULT_RECIPE, recipe_corpus, recipe_named
from bert_core.runs.run import ACTIVE, Run
from ui.handlers import on_error
from ui.parts.scripts import ASSETS
from ui.server.workspace import Model, Workspace
from ui.server.workspaces import Workspaces
from ui.views import view

MOST_CHOICES = 200
ENGLISH = "english.txt"  # sentences for the shipped model of plain English, whose own text is not shipped
ENGLISH_MODEL = "english-mini"


@dataclass(frozen=True)
class Page:
    """The parts of the page that tabs share. visitor: holds the token that the browser keeps."""

    demo: gr.Blocks
    workspaces: Workspaces
    visitor: gr.BrowserState
    model_line: gr.HTML

    def space(self, token: str | None) -> Workspace | None:
        """The visitor's workspace, or None for an unknown or expired token."""
        try:
            return self.workspaces.find(token)
        except BertCoreError:
            return None

    def model(self, token: str | None) -> Model:
        """The model that the visitor chose, by default the shipped one."""
        return self.workspaces.model(self.space(token) or Workspace(""))

    def model_line_value(self, token: str | None) -> dict[str, Any]:
        """Name and detail of the model; of a run also its id, the steps of its snapshots and the shown one."""
        space = self.space(token) or Workspace("")
        run = space.runs.get(space.selected)
        try:
            model = self.workspaces.model(space)
            name, detail = model.title, model.detail
        except BertCoreError:
            name, detail = "none yet", "train one first"
            if run:
                name = space.title_of(run)
                detail = "preparing" if run.status in ACTIVE else "ended before it had a model"
        shown = {"run": run.id, **snapshot_steps(space, run)} if run else {"run": None, "steps": [], "at": None}
        return {"name": name, "detail": detail, "visitor": token, **shown}

    def corpus(self, token: str | None) -> Corpus:
        """The run's text; for a model without a run the dialogue, or plain English for the shipped model of it."""
        space = self.space(token) or Workspace("")
        run = space.runs.get(space.selected)
        if run is not None and run.corpus is not None:
            return run.corpus
        return shipped_texts()[space.selected == ENGLISH_MODEL]

    def sentences(self, token: str | None) -> list[str]:
        """Sentences to choose from, those of `corpus`."""
        return list(dict.fromkeys(self.corpus(token).sentences))[:MOST_CHOICES]

    def examples(self, token: str | None, texts: Sequence[str]) -> list[str]:
        """The texts, with the first sentences of `corpus` for those that are examples from another shipped text."""
        own, shipped = self.sentences(token), {sentence for text in shipped_texts() for sentence in text.sentences}
        return [own[i % len(own)] if text in shipped and text not in own else text for i, text in enumerate(texts)]


@functools.cache
def shipped_texts() -> tuple[Corpus, Corpus]:
    """The dialogue, and plain English."""
    english = read_corpus(ASSETS / "corpora" / ENGLISH, kind="documents")
    return recipe_corpus(recipe_named(DEFAULT_RECIPE)), english


def snapshot_steps(space: Workspace, run: Run) -> dict[str, Any]:
    """The steps on the time slider, the shown one, None for live, and how often one was chosen until then."""
    choice, at = space.choices, space.selected_step  # in this order: a step is never older than its number
    found = None if at is None else space.checkpoint(run, at)
    return {"steps": [snapshot.step for snapshot in run.snapshots], "at": found and found[0], "choice": choice}


def header(demo: gr.Blocks, workspaces: Workspaces) -> Page:
    """The top of the page, above all tabs."""
    visitor = gr.BrowserState(None, storage_key="balcony-visitor", secret="balcony")

    @on_error(lambda sentence: {"error": sentence})
    def select(arguments: list[Any]) -> dict[str, Any]:
        """The time slider moved: show a step of a run, None for its newest."""
        token, run_id, step = arguments
        space = workspaces.find(token)
        run = space.run(run_id)
        space.select(run.id, None if step is None else int(step))
        return snapshot_steps(space, run)

    with gr.Row(elem_id="header"):
        gr.HTML(
            "<h1>Balcony</h1><p>Train a small BERT, watch it learn, look inside it.</p>",
            elem_id="title",
            apply_default_css=False,
            js_on_load=None,
        )
        model_line = view("modelLine", server_functions=[select], elem_id="model-line")
    return Page(demo, workspaces, visitor, model_line)


def sentence_box(label: str, elem_id: str, text: str = "", *, info: str | None = None) -> gr.Textbox:
    """A box for one sentence, which grows with it."""
    return gr.Textbox(text or None, label=label, info=info, lines=1, max_lines=4, elem_id=elem_id, scale=3)


def sentence_row(label: str, elem_id: str, text: str) -> tuple[gr.Textbox, gr.Dropdown]:
    """A box for one sentence, and a list of sentences for it; `fill_lists` fills the list when the tab opens."""
    with gr.Row():
        box = sentence_box(label, elem_id, text)
        label = "Or choose one"
        return box, gr.Dropdown([], value=None, label=label, elem_id=f"{elem_id}-list", filterable=True, min_width=240)
