"""The frame of the page, shared by all tabs: the visitor, the shown model, and the question that is asked of it."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.routes import ORJSONResponse

from balcony.frame.masking import words_value
from balcony.frame.question import Question, Values
from balcony.frame.shown_model import choices, comparisons, first_pair, repeated_run, shown_model
from balcony.frame.tab import Tab
from balcony.gradio_gaps import OPEN_TAB
from balcony.handlers import MALFORMED, QUIET, cached_file, on_error
from balcony.server.workspace import NOT_YOURS, STOP_IT_FIRST, Model, Workspace, is_finetuning
from balcony.server.workspaces import Workspaces, functions
from balcony.views import view
from bert_core.config import ASSETS
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.errors import InputError
from bert_core.probes.stages import without_heads
from bert_core.runs.recipe import DEFAULT_RECIPE, recipe_named
from bert_core.storage.checkpoint import Checkpoint

MOST_CHOICES = 200
# Sentences for the shipped models whose own text is not shipped.
SAMPLES = {"english-mini": "english.txt", "chinese-poems": "poems.txt"}
HELP = (
    "Train a small BERT on a few sentences, and watch its losses fall.",
    "Then ask it: hide words, judge pairs of sentences, see which words each head attends to.",
    "The model and the step above hold for every tab. Drag the slider back to see what the model knew before.",
    "The link keeps all that you look at. Whoever opens it sees the same, except for what it cannot carry: a model "
    "that you trained on your own text, fine-tuned or opened. Download that under Models and send the file too.",
)
_said = itertools.count()


@dataclass(frozen=True)
class PageRequest:
    """A visitor's question, with the models and the text that it names."""

    workspaces: Workspaces
    space: Workspace
    question: Question

    @property
    def model(self) -> Model:
        """The shown model. Raises RunError before a run has one."""
        return self.workspaces.model(self.space, self.question.model, self.question.step)

    @property
    def checkpoint(self) -> Checkpoint:
        """The shown model's checkpoint, with the name that the person gave it."""
        found, name = self.model.checkpoint, self.space.names.get(self.question.model)
        return dataclasses.replace(found, name=name) if name else found

    @property
    def answering(self) -> Checkpoint:
        """The same without the heads that are switched off."""
        checkpoint = self.checkpoint
        off = self.question.heads_off(checkpoint)
        return without_heads(checkpoint, off) if off else checkpoint

    @property
    def other(self) -> Model | None:
        """The model to compare with, if there is one. Raises RunError when the visitor does not have it (any more)."""
        if not self.question.other:
            return None
        key, _, step = self.question.other.partition("@")
        return self.workspaces.model(self.space, key, int(step) if step.isdigit() else None)

    @property
    def corpus(self) -> Corpus:
        """The text of the shown model, see `corpus_of`."""
        return corpus_of(self.space, self.question.model)


@dataclass(frozen=True)
class Page:
    """The parts of the page that tabs share.

    visitor: its value is the token that the browser keeps; `enter` fires when the page comes to the server with it.
    frame: the bar above the tabs, its value see `frame.js`. messages: see `say`. file: see `save`. bar: the bar with
    the sentences, its value the question. tabs: all of them. answers: see `on`. laid_out: what earlier tabs returned
    for later ones, by name. tab: the one that is laid out.
    """

    demo: gr.Blocks
    workspaces: Workspaces
    visitor: gr.HTML
    frame: gr.HTML
    messages: gr.HTML
    file: gr.HTML
    bar: gr.HTML
    tabs: Sequence[Tab]
    answers: "Answers"
    laid_out: dict[str, Any] = field(default_factory=dict)
    tab: Tab | None = None

    def say(self, sentence: str) -> dict[Any, Any]:
        """The output of a handler that shows a sentence beside the pressed button, or else in the window, wherever the
        page is scrolled. Where a run of the visitor's is in the way, a button that stops it comes with the sentence."""
        # Gradio does not send a value to the page again; the same sentence is a new message.
        return {self.messages: {"text": sentence, "number": next(_said)}}

    def save(self, name: str, write: Callable[[Path], object]) -> dict[Any, Any]:
        """The output of a handler that gives the person a file. write: called with the path to write it to."""
        return {self.file: self.kept_file(name, write)}

    def kept_file(self, name: str, write: Callable[[Path], object]) -> dict[str, Any]:
        """A file as `saveFile` of balcony/parts/downloads.js takes it."""
        return {"path": cached_file(self.file, name, write), "name": name, "number": next(_said)}

    @property
    def inputs(self) -> set[Any]:
        """What `asked` needs."""
        return {self.visitor, self.bar}

    def asked(self, values: Values) -> PageRequest:
        """The visitor's question. Raises InputError for a malformed one."""
        return self._asked(self.workspaces.lookup(values[self.visitor]) or Workspace(""), values[self.bar])

    def _asked(self, space: Workspace, question: object) -> PageRequest:
        return PageRequest(self.workspaces, space, Question.read(question))

    def functions(self, *work: Callable[..., Any]) -> list[Callable[[Any], Any]]:
        """`server_functions` of a view, each called with the visitor's question and what else the page sends."""

        def take(space: Workspace, values: list[Any]) -> list[Any]:
            if not values:
                raise InputError(MALFORMED)
            return [self._asked(space, values.pop(0))]

        return functions(self.workspaces, *work, known=False, take=take)

    def on(
        self,
        name: str,
        reads: Sequence[str],
        answer: Callable[[PageRequest], dict[str, Any]],
        failed: Callable[[str], dict[str, Any]],
        *,
        part_of: str = "",
    ) -> None:
        """Answer the question with values of views of this tab, by their elem_id: when the tab is open and one of the
        parts `reads` of the question has changed since. Without `reads`, when an answer has {"more": name}.

        failed: the views' values for an error's sentence, which one of them has under "error". part_of: the name of an
        answer that has these values too.
        """

        def respond(space: Workspace, question: object) -> dict[str, Any]:
            return answer(self._asked(space, question))

        self.answers.functions[name] = on_error(failed)(respond)
        self._declare(name, reads, list(failed("")), part_of)

    def changed(self, *reads: str) -> Callable[..., Any]:
        """A listener for a form of Gradio's controls in this tab: one of these parts of the question has changed."""
        assert self.tab is not None
        self._declare(self.tab.name, reads, [], "")
        return getattr(self.bar, self.tab.name)

    def _declare(self, name: str, reads: Sequence[str], views: list[str], part_of: str) -> None:
        assert self.tab is not None
        self.answers.declared[name] = {"tab": self.tab.name, "reads": reads, "views": views, "part_of": part_of}

    def lay_out(self) -> None:
        """Lay out the tabs. The question names the open one, whether the person opens it or the page."""
        with gr.Tabs(elem_id="tabs") as tabs:
            for tab in self.tabs:
                with gr.Tab(tab.title, elem_id=f"tab-{tab.name}") as opened:
                    self.laid_out[tab.name] = tab.lay_out(dataclasses.replace(self, tab=tab))
                opened.select(None, None, None, js=f"() => Balcony.ask({{ tab: {tab.name!r} }})", **QUIET)
        self.bar.open(None, self.bar, tabs, js=OPEN_TAB, **QUIET)


@dataclass(frozen=True)
class Answers:
    """What the server answers to a question. functions: by name. declared: the same for the page, see `Page.on`."""

    functions: dict[str, Callable[[Workspace, object], dict[str, Any]]] = field(default_factory=dict)
    declared: dict[str, dict[str, Any]] = field(default_factory=dict)

    def answer(self, space: Workspace, name: str, question: object) -> Any:
        """What the views of an answer show, by their ids."""
        if name not in self.functions:
            raise InputError(MALFORMED)
        # As it is: the framework would copy each number of a large answer.
        return ORJSONResponse(self.functions[name](space, question))


def open_page(demo: gr.Blocks, workspaces: Workspaces, tabs: Sequence[Tab]) -> Page:
    """Lay out what stands above all tabs."""
    answers = Answers()
    lost = f"Your earlier runs and models are gone. {workspaces.losses}"
    visitor = view("frame/visitor", events=("enter",), options={"lost": lost}, elem_id="visitor")
    with gr.Row(elem_id="header"):
        frame = _frame(workspaces)
    options, stop = {"active": STOP_IT_FIRST}, functions(workspaces, Workspace.stop)
    messages = view("frame/messages", options=options, server_functions=stop, elem_id="messages")
    file = view("frame/file", elem_id="file")
    bar = _sentence_bar(workspaces, tabs, answers)
    return Page(demo, workspaces, visitor, frame, messages, file, bar, tabs, answers)


def _frame(workspaces: Workspaces) -> gr.HTML:
    """The bar with the shown model and its steps."""

    def models(space: Workspace) -> dict[str, Any]:
        return {
            "models": [[key, space.shown_title(key, name), state] for key, name, state in choices(workspaces, space)],
            "others": [
                [key, space.shown_title(key.partition("@")[0], name)] for key, name in comparisons(workspaces, space)
            ],
        }

    def model(space: Workspace, key: str, step: int | None) -> dict[str, Any]:
        return shown_model(workspaces, space, key, step)

    def repeat(space: Workspace, recipe: object, step: int | None) -> str:
        return repeated_run(workspaces, space, recipe, step).id

    served = [*functions(workspaces, models, model, Workspace.rename, known=False), *functions(workspaces, repeat)]
    options = {"help": HELP, "losses": workspaces.losses}
    return view("frame/frame", options=options, server_functions=served, elem_id="frame")


def _sentence_bar(workspaces: Workspaces, tabs: Sequence[Tab], answers: Answers) -> gr.HTML:
    """The bar with the sentences, which asks for the answers."""

    def sentences(space: Workspace, key: str) -> dict[str, Any]:
        corpus = corpus_of(space, key)
        found = list(itertools.islice(dict.fromkeys(corpus.sentences), MOST_CHOICES + 1))
        return {"first": first_pair(corpus), "all": found[:MOST_CHOICES], "whole": len(found) <= MOST_CHOICES}

    def words(space: Workspace, question: object, before: dict | None) -> dict[str, Any]:
        if before is not None and not {"words", "second", "hidden"} <= before.keys():
            raise InputError(MALFORMED)
        asked = PageRequest(workspaces, space, Question.read(question))
        return words_value(asked.checkpoint, asked.question, before)

    names = [each.name for each in dataclasses.fields(Tab) if each.name not in ("name", "title", "lay_out", "story")]
    shown = {tab.name: {name: getattr(tab, name) for name in names} for tab in tabs if tab.hint is not None}
    return view(
        "frame/sentence_bar",
        {},
        events=("open", *(tab.name for tab in tabs)),
        options={"tabs": shown, "answers": answers.declared, "missing": NOT_YOURS},
        server_functions=functions(workspaces, sentences, words, answers.answer, known=False),
        elem_id="question",
    )


def follows(corpus: Corpus, question: Question) -> bool | None:
    """Whether the text has the second sentence right after the first; None where it lacks one of them."""
    pair = question.text, question.pair
    if not {*pair} <= {*corpus.sentences}:
        return None
    return any(pair in itertools.pairwise(document) for document in corpus.documents)


def corpus_of(space: Workspace, key: str) -> Corpus:
    """The text of a run; without a text the sample of the shipped model of this name, or of what began as that model,
    else the dialogue."""
    run = space.runs.get(key)
    if run is not None and is_finetuning(run):
        key = Path(run.recipe.start).name
    elif run is not None and run.job is not None:
        return run.job.source
    return _shipped_text(SAMPLES.get(key))


@functools.cache
def _shipped_text(sample: str | None) -> Corpus:
    if sample is None:
        return recipe_named(DEFAULT_RECIPE).source()
    return read_corpus(ASSETS / "corpora" / sample, kind="documents")
