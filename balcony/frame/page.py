"""The frame of the page, shared by all tabs: the visitor, the shown model, and the question that is asked of it."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradio as gr

from balcony.frame.answers import Answers
from balcony.frame.masking import words_value
from balcony.frame.page_request import PageRequest, corpus_of
from balcony.frame.question import Values
from balcony.frame.shown_model import models as models_of
from balcony.frame.shown_model import repeated_run, shown_model
from balcony.frame.tab import Tab
from balcony.gradio_gaps import OPEN_TAB
from balcony.handlers import MALFORMED, QUIET, cached_file, on_error
from balcony.server.news import run_news
from balcony.server.workspace import NOT_YOURS
from balcony.server.workspaces import Workspaces
from balcony.views import view
from bert_core.errors import InputError

MOST_CHOICES = 200
HELP = (
    "Train a small BERT on a few sentences, and watch its losses fall.",
    "Then ask it: hide words, judge pairs of sentences, see which words each head attends to.",
    "The model and the step above hold for every tab. Drag the slider back to see what the model knew before.",
    "The link keeps all that you look at. Whoever opens it sees the same, except for what it cannot carry: a model "
    "that you trained on your own text, fine-tuned or opened, and one of yours to compare with. Download that under "
    "Models and send the file too.",
)
_said = itertools.count()


@dataclass(frozen=True)
class Page:
    """The parts of the page that tabs share.

    visitor: its value is the token that the browser keeps; `enter` fires when the page comes to the server with it.
    frame: the bar above the tabs, its value see `frame.js`. messages: see `say`. file: see `save`. bar: the bar with
    the sentences, its value the question. tabs: all of them. answers: what the page may ask. declared: see `answer`.
    laid_out: what earlier tabs returned for later ones, by name. tab: the one that is laid out.
    """

    demo: gr.Blocks
    workspaces: Workspaces
    visitor: gr.HTML
    frame: gr.HTML
    messages: gr.HTML
    file: gr.HTML
    bar: gr.HTML
    tabs: Sequence[Tab]
    answers: Answers
    declared: dict[str, dict[str, Any]]
    laid_out: dict[str, Any] = field(default_factory=dict)
    tab: Tab | None = None

    def say(self, sentence: str, *, done: bool = False) -> dict[Any, Any]:
        """The output of a handler that shows a sentence beside the pressed button, or else in the window, wherever the
        page is scrolled. done: the sentence confirms a press; else it says why one was refused.
        """
        # Gradio does not send a value to the page again; the same sentence is a new message.
        return {self.messages: {"text": sentence, "done": done, "number": next(_said)}}

    def save(self, name: str, write: Callable[[Path], object]) -> dict[Any, Any]:
        """The output of a handler that gives the person a file. write: called with the path to write it to."""
        return {self.file: self.kept_file(name, write)}

    def kept_file(self, name: str, write: Callable[[Path], object]) -> dict[str, Any]:
        """A file as `saveFile` of balcony/parts/downloads.js takes it."""
        return {"path": cached_file(self.file, name, write), "name": name, "number": next(_said)}

    @property
    def inputs(self) -> set[Any]:
        return {self.visitor, self.bar}

    def asked(self, values: Values) -> PageRequest:
        return self.answers.asked(values[self.visitor], values[self.bar])

    def answer(
        self,
        name: str,
        reads: Sequence[str],
        views: Sequence[str],
        work: Callable[[PageRequest], dict[str, Any]],
    ) -> None:
        """Answer the question with values of views of this tab, by their elem_id: when the tab is open and one of the
        parts `reads` of the question has changed since.

        views: those that it always has a value of. Where `work` fails, the first of them gets the sentence under
        "error", and the others None.
        """
        failed = on_error(lambda sentence: dict.fromkeys(views) | {views[0]: {"error": sentence}})
        self.answers.add(name, failed(work))
        self._declare(name, reads, views)

    def changed(self, *reads: str) -> Callable[..., Any]:
        """A listener for a form of Gradio's controls in this tab: one of these parts of the question has changed."""
        assert self.tab is not None
        self._declare(self.tab.name, reads, [])
        return getattr(self.bar, self.tab.name)

    def _declare(self, name: str, reads: Sequence[str], views: Sequence[str]) -> None:
        assert self.tab is not None
        self.declared[name] = {"tab": self.tab.name, "reads": reads, "views": views}

    def lay_out(self) -> None:
        """Lay out the tabs. The question names the open one, whether the person opens it or the page."""
        with gr.Tabs(elem_id="tabs", overflow_behavior="wrap") as tabs:
            for tab in self.tabs:
                with gr.Tab(tab.title, elem_id=f"tab-{tab.name}") as opened:
                    self.laid_out[tab.name] = tab.lay_out(dataclasses.replace(self, tab=tab))
                opened.select(None, None, None, js=f"() => Balcony.ask({{ tab: {tab.name!r} }})", **QUIET)
        self.bar.open(None, self.bar, tabs, js=OPEN_TAB, **QUIET)


def open_page(demo: gr.Blocks, answers: Answers, tabs: Sequence[Tab]) -> Page:
    """Lay out what stands above all tabs."""
    workspaces, declared = answers.workspaces, dict[str, dict[str, Any]]()
    lost = f"Your earlier runs and models are gone. {workspaces.losses}"
    visitor = view("frame/visitor", events=("enter",), options={"lost": lost}, elem_id="visitor")
    for function in (models, model, rename, repeat, news, sentences, words):
        answers.add(function.__name__, function)
    with gr.Row(elem_id="header"):
        frame = view("frame/frame", options={"help": HELP, "losses": workspaces.losses}, elem_id="frame")
    messages = view("frame/messages", elem_id="messages")
    file = view("frame/file", elem_id="file")
    bar = _sentence_bar(tabs, declared)
    return Page(demo, workspaces, visitor, frame, messages, file, bar, tabs, answers, declared)


def _sentence_bar(tabs: Sequence[Tab], declared: dict[str, dict[str, Any]]) -> gr.HTML:
    """The bar with the sentences, which asks for the answers."""
    names = [each.name for each in dataclasses.fields(Tab) if each.name not in ("name", "title", "lay_out", "story")]
    shown = {tab.name: {name: getattr(tab, name) for name in names} for tab in tabs if tab.hint is not None}
    return view(
        "frame/sentence_bar",
        {},
        events=("open", *(tab.name for tab in tabs)),
        options={"tabs": shown, "answers": declared, "missing": NOT_YOURS},
        elem_id="question",
    )


def models(asked: PageRequest) -> list[Any]:
    return models_of(asked.workspaces, asked.space)


def model(asked: PageRequest, key: str, step: int | None) -> dict[str, Any]:
    return shown_model(asked.workspaces, asked.space, key, step)


def rename(asked: PageRequest, key: str, name: str) -> None:
    asked.visitor.rename(key, name)


def repeat(asked: PageRequest, recipe: object, step: int | None) -> str:
    """The id of the run of a link, which begins if there is none."""
    return repeated_run(asked.workspaces, asked.visitor, recipe, step).id


def news(asked: PageRequest, run_id: str, cursors: list) -> dict[str, Any]:
    """What is new in a run. cursors: see `run_news`."""
    if len(cursors) != 3 or not all(isinstance(cursor, int) for cursor in cursors):
        raise InputError(MALFORMED)
    return run_news(asked.space, run_id, *cursors)


def sentences(asked: PageRequest, key: str) -> dict[str, Any]:
    """Two neighbours from the start of a model's text, or its only sentence, and its first sentences."""
    corpus = corpus_of(asked.space, key)
    pairs = (pair for document in corpus.documents for pair in itertools.pairwise(document))
    first = next(pairs, (corpus.sentences[0], ""))
    return {"first": first, "all": [*itertools.islice(dict.fromkeys(corpus.sentences), MOST_CHOICES)]}


def words(asked: PageRequest, before: dict | None) -> dict[str, Any]:
    if before is not None and not {"words", "second", "hidden"} <= before.keys():
        raise InputError(MALFORMED)
    return words_value(asked.checkpoint, asked.question, before)
