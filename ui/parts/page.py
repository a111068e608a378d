"""The frame of the page, shared by all tabs: the visitor, the shown model, and the question that is asked of it."""

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.routes import ORJSONResponse

from bert_core.config import ASSETS
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.errors import InputError, quoted
from bert_core.runs.recipe import DEFAULT_RECIPE, recipe_named
from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import MALFORMED, QUIET, on_error, own
from ui.parts.lessons import LESSON_BYTES, PARTS, lessons, read_lesson
from ui.parts.masking import words_value
from ui.parts.question import EVENTS, Question, Values
from ui.parts.shown_model import choices, comparisons, first_pair, repeated_run, shown_model
from ui.server.workspace import Model, Workspace, is_finetuning
from ui.server.workspaces import Workspaces, functions
from ui.views import view

MOST_CHOICES = 200
# Sentences for the shipped models whose own text is not shipped.
SAMPLES = {"english-mini": "english.txt", "chinese-poems": "poems.txt"}
HELP = (
    "Train a small BERT on a few sentences, and watch its losses fall.",
    "Then ask it: hide words, judge pairs of sentences, see which words each head attends to.",
    "The model and the step above hold for every tab. Drag the slider back to see what the model knew before.",
    "The link keeps all that you look at. Whoever opens it sees the same.",
)
SKIP = "{ __type__: 'update' }"  # JavaScript for gr.skip()
_messages = itertools.count()
GIVEN = "given"  # the lesson of `app.py --lesson`


@dataclass(frozen=True)
class Asked:
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
        """The shown model's checkpoint."""
        return self.model.checkpoint

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
    """The parts of the page that tabs share. visitor: its value is the token that the browser keeps; `enter` fires when
    the page comes to the server with it. frame: the bar above the tabs, its value see `frame_value`. messages: see
    `say`. bar: the bar with the sentences, its value the question. lessons: name and title of each. answers, answered:
    functions and the ids of the views that they answer, by event, see `on`."""

    demo: gr.Blocks
    workspaces: Workspaces
    visitor: gr.HTML
    frame: gr.HTML
    messages: gr.HTML
    bar: gr.HTML
    lessons: list[list[str]]
    answers: dict[str, Callable[[Workspace, object], dict[Any, Any]]]
    answered: dict[str, list[str | None]]

    def say(self, sentence: str) -> dict[Any, Any]:
        """The output of a handler that shows a sentence in the window, wherever the page is scrolled."""
        # Gradio does not send a value to the page again; the same sentence is a new message.
        return {self.messages: {"text": sentence, "number": next(_messages)}}

    @property
    def inputs(self) -> set[Any]:
        """What `asked` needs."""
        return {self.visitor, self.bar}

    def asked(self, values: Values) -> Asked:
        """The visitor's question. Raises InputError for a malformed one."""
        space = self.workspaces.lookup(values[self.visitor]) or Workspace("")
        return Asked(self.workspaces, space, Question.read(values[self.bar]))

    @contextmanager
    def tab(self, label: str, name: str) -> Iterator[None]:
        """Lay out a tab. name: its key in the question."""
        with gr.Tab(label, id=name, elem_id=f"tab-{name}") as tab:
            yield
        tab.select(None, None, None, js=f"() => Balcony.ask({{ tab: {name!r} }})", **QUIET)

    def on(
        self,
        event: str,
        answer: Callable[[Asked], dict[Any, Any]],
        failed: Callable[[str], dict[Any, Any]],
        controls: Sequence[gr.components.Component] = (),
    ) -> None:
        """Answer an event of EVENTS with values of views. failed: these for an error's sentence, which one of them has
        under "error". controls: other components, whose values an answer may hold too."""

        def respond(space: Workspace, question: object) -> dict[Any, Any]:
            return answer(Asked(self.workspaces, space, Question.read(question)))

        self.answers[event] = on_error(failed)(respond)
        self.answered[event] += [view.elem_id for view in failed("")]
        if controls:
            js = f"() => {[each.elem_id for each in controls]}.map((id) => Balcony.values[id] ?? {SKIP})"
            getattr(self.bar, event)(None, None, [*controls], js=js, **QUIET)

    def open_tabs(self, tabs: gr.Tabs) -> None:
        """Let the page open the question's tab."""
        js = "(question) => ({ selected: question.tab, __type__: 'update' })"
        self.bar.open(None, self.bar, tabs, js=js, **QUIET)

    def on_restored(self, controls: list[gr.components.Component], values: str) -> None:
        """Set controls of a tab to the question of an address. values: a list of theirs, in JavaScript."""
        self.bar.restored(None, self.bar, controls, js=f"(question) => {values}", **QUIET)


def open_page(demo: gr.Blocks, workspaces: Workspaces, given: dict[str, Any] | None = None) -> Page:
    """Lay out what stands above all tabs. given: a lesson with which the page begins, named GIVEN."""
    shipped = lessons() | ({GIVEN: given} if given else {})
    titles = [[name, own(each["title"]) if name == GIVEN else each["title"]] for name, each in shipped.items()]
    visitor = view("visitorToken", events=("enter",), elem_id="visitor")
    answers: dict[str, Callable[[Workspace, object], dict[Any, Any]]] = {}
    answered: dict[str, list[str | None]] = {event: [] for event in EVENTS}  # filled by the tabs

    def models(space: Workspace) -> dict[str, Any]:
        return {
            "models": [[key, space.shown_title(key, name), state] for key, name, state in choices(workspaces, space)],
            "others": [
                [key, space.shown_title(key.partition("@")[0], name)] for key, name in comparisons(workspaces, space)
            ],
        }

    def model(space: Workspace, key: str, step: int | None) -> dict[str, Any]:
        return shown_model(workspaces, space, key, step)

    def sentences(space: Workspace, key: str) -> dict[str, Any]:
        corpus = corpus_of(space, key)
        return {"first": first_pair(corpus), "all": list(dict.fromkeys(corpus.sentences))[:MOST_CHOICES]}

    def words(space: Workspace, question: object, before: dict | None) -> dict[str, Any]:
        if before is not None and not {"words", "second", "hidden"} <= before.keys():
            raise InputError(MALFORMED)
        asked = Asked(workspaces, space, Question.read(question))
        return words_value(asked.checkpoint, asked.question, before)

    def answer(space: Workspace, event: str, question: object) -> Any:
        """What the components of an event show, by their ids; nothing where a form answers it."""
        found = answers[event](space, question) if event in answers else {}
        # As it is: the framework would copy each number of a large answer.
        return ORJSONResponse({component.elem_id: value for component, value in found.items()})

    def rename(space: Workspace, key: str, name: str) -> None:
        space.rename(key, name)

    def repeat(space: Workspace, recipe: object, step: int | None) -> str:
        return repeated_run(workspaces, space, recipe, step).id

    def lesson(space: Workspace, name: str, text: str | None = None) -> dict[str, Any]:
        """A shipped lesson, or the one in the text of a file."""
        if text is not None:
            return read_lesson(text[: LESSON_BYTES + 1].encode("utf-8", "replace"), name[:60])
        if name not in shipped:
            raise InputError(f"There is no lesson {quoted(name)}; choose one from the list.")
        return shipped[name]

    with gr.Row(elem_id="header"):
        asked = [*functions(workspaces, models, model, rename, known=False), *functions(workspaces, repeat)]
        frame = view(
            "frame", options={"help": HELP, "losses": workspaces.losses}, server_functions=asked, elem_id="frame"
        )
    messages = view("messages", elem_id="messages")
    view(
        "lessonBar",
        options={
            "lessons": titles,
            "begin": GIVEN if given else "",
            "parts": PARTS,
            "most": LESSON_BYTES + 1,
            **{name: json.loads((ASSETS / f"{name}.json").read_text(encoding="utf-8")) for name in ("terms", "tour")},
        },
        server_functions=functions(workspaces, lesson, known=False),
        elem_id="lesson",
    )
    bar = view(
        "sentenceBar",
        {},
        events=("restored", "open", *EVENTS),
        options={"events": EVENTS, "answered": answered},
        server_functions=functions(workspaces, sentences, words, answer, known=False),
        elem_id="question",
    )
    return Page(demo, workspaces, visitor, frame, messages, bar, titles, answers, answered)


def corpus_of(space: Workspace, key: str) -> Corpus:
    """The text of a run; without a text the sample of the shipped model of this name, or of what began as that model,
    else the dialogue."""
    run = space.runs.get(key)
    if run is not None and is_finetuning(run):
        key = Path(run.recipe.start).name
    elif run is not None and run.prepared is not None:
        return run.prepared.source
    return _shipped_text(SAMPLES.get(key))


@functools.cache
def _shipped_text(sample: str | None) -> Corpus:
    if sample is None:
        return recipe_named(DEFAULT_RECIPE).source()
    return read_corpus(ASSETS / "corpora" / sample, kind="documents")
