"""The form of the Train tab: a text, a recipe, initial weights, a seed, and a table of settings."""

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from balcony.frame.page import Page
from balcony.frame.question import Values
from balcony.handlers import FOLLOWING, MALFORMED, QUIET, on_error, sent
from balcony.parts.notes import no_facts
from balcony.server.workspace import PASTED_TEXT, Workspace
from balcony.train.settings import overrides, settings_value, settings_view
from balcony.views import view
from bert_core.config import ASSETS, Limits
from bert_core.data.corpus import Corpus
from bert_core.data.decoding import ENCODINGS, likely_encoding
from bert_core.errors import ConfigError, CorpusError, InputError
from bert_core.runs.recipe import (
    BY_SIZE,
    DEFAULT_RECIPE,
    Recipe,
    load_recipe,
    recipe_for,
    recipe_named,
    recipe_names,
)
from bert_core.storage.checkpoint import Checkpoint

OFTEN = (  # settings that people change most
    "training.steps",
    "training.learning_rate",
    "model.num_hidden_layers",
    "model.num_attention_heads",
    "model.hidden_size",
    "data.batch_size",
    "data.mask_probability",
    "model.intermediate_size",
    "data.sequence_length",
    "data.segments",
    "tokenizer.kind",
    "tokenizer.vocab_size",
)
OWN_TEXT, PASTED, UPLOADED = "The recipe's own text", "Paste a text", "Upload a text file"
OF_A_FILE = ""  # in the list of recipes
NO_RECIPE_FILE = "Choose a recipe file first."
NO_TEXT = "Paste a text first."
EXAMPLES = ASSETS / "examples"  # texts to choose by one press: files named by their language and their kind
LANGUAGES = {"en": "English", "zh": "中文", "ko": "한국어", "de": "Deutsch", "es": "Español"}
KINDS = {"song": "A song", "fable": "A fable", "dish": "A dish"}
RANDOM, SHOWN_MODEL = "Random weights", "The shown model, at the step above"


@dataclass(frozen=True)
class Filled:
    """What a person filled in. settings: the value of their table. shown: the model that the page shows. limits:
    those of this place."""

    source: str
    pasted: str | None
    uploaded: str | None
    encoding: str | None
    recipe_name: str
    recipe_file: str | None
    initial: str
    seed: int
    settings: Any
    shown: Callable[[], Checkpoint]
    limits: Limits

    def own_recipe(self) -> Recipe:
        """The chosen recipe, or that of the file. Raises BertCoreError."""
        name = known(self.recipe_name, (*recipe_names(), BY_SIZE, OF_A_FILE))
        if name == BY_SIZE:
            return recipe_for(self.own_text(self.chosen_kind or "auto", self.encoding))
        if name != OF_A_FILE:
            return recipe_named(name)
        if not self.recipe_file:
            raise ConfigError(NO_RECIPE_FILE)
        return load_recipe(self.recipe_file)

    @property
    def start(self) -> Checkpoint | None:
        """The model that training goes on from, None for random weights. Raises BertCoreError."""
        return self.shown() if self.initial == SHOWN_MODEL else None

    def recipe(self) -> Recipe:
        """The recipe with the settings of the form. Raises BertCoreError."""
        own, start = self.own_recipe(), self.start
        changed = overrides(own, self.settings)
        if start is None:
            return own.override(changed)
        kept = {name: value for name, value in changed.items() if name not in given_by_a_model(own)}
        # Its data come first: a recipe may have longer pairs than the model can read.
        data = {name: value for name, value in kept.items() if name.startswith("data.")}
        going_on = own.override(data).going_on_from(start.name, start)
        return going_on.override({name: value for name, value in kept.items() if name not in data})

    @property
    def missing(self) -> str:
        """What to do before there is a text and a recipe, "" if there are."""
        if self.recipe_name == OF_A_FILE and not self.recipe_file:
            return NO_RECIPE_FILE
        is_by_size_of_none = self.source == OWN_TEXT and self.recipe_name == BY_SIZE
        if is_by_size_of_none or (self.source == PASTED and not (self.pasted or "").strip()):
            return NO_TEXT
        return "Choose a text file first." if self.source == UPLOADED and not self.uploaded else ""

    @property
    def chosen_kind(self) -> str | None:
        """How a text of the person's own is split, if the person has chosen that."""
        return self.settings.get("changed", {}).get("corpus.kind")

    def corpus(self, recipe: Recipe) -> Corpus:
        """The chosen text, read as that recipe and the settings ask. Raises CorpusError."""
        if self.source == OWN_TEXT and not self.missing:
            return recipe.source()
        return self.own_text(self.kind(recipe), recipe.corpus.encoding or self.encoding)

    def kind(self, recipe: Recipe) -> str:
        """How a text of the person's own is split: as chosen, or as the recipe asks."""
        return recipe.corpus.kind if self.chosen_kind else "auto" if recipe.name == BY_SIZE else recipe.text_kind

    def own_text(self, kind: str, encoding: str | None) -> Corpus:
        """The person's text, which is read once. Raises CorpusError."""
        if self.missing:
            raise CorpusError(self.missing)
        if (kind, encoding) not in self._read:
            if self.source == PASTED:
                pasted = self.pasted or ""
                is_example = pasted.strip() in map(str.strip, example_texts().values())
                name = pasted.strip().partition("\n")[0] if is_example else PASTED_TEXT
                text = Corpus.from_text(pasted, kind, name=name, limits=self.limits)
            else:
                path = Path(self.uploaded or "")
                text = Corpus.from_bytes(path.read_bytes(), kind, path.name, encoding, self.limits)
            self._read[kind, encoding] = text
        return self._read[kind, encoding]

    @functools.cached_property
    def _read(self) -> dict[tuple[str, str | None], Corpus]:
        return {}


class TrainingForm:
    """The controls of the form, in two columns. all: a handler's `inputs`. described: the outputs of `describe`."""

    def __init__(self, page: Page) -> None:
        self.page, recipe = page, recipe_named(DEFAULT_RECIPE)
        info = "One sentence per line, or paragraphs; a blank line separates documents."
        with gr.Column(min_width=300):
            self.pasted = gr.Textbox(label="Your own text", info=info, lines=4, max_lines=8, elem_id="pasted")
            self.examples = view(
                "train/examples", events=("chosen",), options={"texts": examples()}, elem_id="examples"
            )
        with gr.Column(min_width=300):
            self.source = gr.Radio(
                [OWN_TEXT, PASTED, UPLOADED], value=OWN_TEXT, label="Training text", elem_id="source"
            )
            self.uploaded = gr.File(label="A text file, with any ending", visible=False, elem_id="uploaded", height=120)
            self.encoding = encoding_control()
            with gr.Row():
                self.recipe = select(
                    recipe_choices(), DEFAULT_RECIPE, label="Recipe", elem_id="recipe", scale=3, min_width=180
                )
                self.seed = gr.Number(0, label="Seed", precision=0, elem_id="seed", scale=1, min_width=70)
            self.recipe_file = gr.File(
                label="A recipe file (.json)", file_types=[".json"], visible=False, elem_id="recipe-file", height=120
            )
            self.settings = settings_view(recipe, OFTEN, prefix="setting", elem_id="settings")
            self.initial = gr.Radio(
                [RANDOM, SHOWN_MODEL],
                value=RANDOM,
                label="Initial weights",
                elem_id="start-from",
                elem_classes="b-list",
            )
            with gr.Accordion("About this recipe", open=False):
                self.about = view("train/facts", description_of(recipe), elem_id="about-recipe")
                self.save = gr.Button("Download this recipe", elem_id="save-recipe")
        asked = [self.source, self.pasted, self.recipe, self.initial, self.settings]
        self.described = [self.recipe_file, self.about, self.settings, self.seed]
        self.all = {*asked, self.uploaded, self.recipe_file, self.encoding, self.seed, *page.inputs}
        self.save.click(on_error(page.say)(self.save_recipe), self.all, [page.file, page.messages], **QUIET)

    def connect(
        self,
        follow: Callable[[Values], dict[Any, Any]],
        inputs: set[gr.components.Component],
        outputs: Sequence[gr.blocks.Block],
    ) -> None:
        """Call `follow` with the form once a person has changed what it describes, whose values it returns."""
        shown = [self.uploaded, self.encoding]
        self.source.change(show_source, [self.source, self.uploaded], shown, **QUIET)
        both = [self.source, self.recipe]
        changes = [
            # Not `input`, which Gradio fires for keys alone, and not for what is pasted.
            self.pasted.change(typed, both, both, **FOLLOWING).then,
            self.examples.chosen(example, both, [self.pasted, *both], **FOLLOWING).then,
            self.source.input(lambda source, recipe: recipe_of(source, recipe), both, self.recipe, **FOLLOWING).then,
            *(self.recipe.input, self.recipe_file.change, self.initial.input, self.encoding.input),
            self.settings.anew,
        ]
        for changed in changes:
            changed(follow, inputs, outputs, **FOLLOWING)

    def read(self, values: Values) -> Filled:
        """The form from the values that Gradio gives a handler whose inputs are a set of components."""
        return Filled(
            values[self.source],
            values[self.pasted],
            values[self.uploaded],
            values[self.encoding],
            values[self.recipe],
            values[self.recipe_file],
            values[self.initial],
            int(values[self.seed] or 0),
            values[self.settings] if isinstance(values[self.settings], dict) else {},
            lambda: self.page.asked(values).checkpoint,
            self.page.workspaces.service.limits,
        )

    def describe(self, filled: Filled) -> dict[Any, Any]:
        """The chosen recipe's description, and the settings with which it trains; of one in a file also the seed."""
        shown = {self.recipe_file: gr.update(visible=filled.recipe_name == OF_A_FILE)}
        return shown | (on_error(lambda sentence: {self.about: no_facts(sentence)})(self._described)(filled) or {})

    def _described(self, filled: Filled) -> dict[Any, Any]:
        if filled.missing == NO_RECIPE_FILE or (filled.missing and filled.recipe_name == BY_SIZE):
            return {self.about: no_facts(notes=[filled.missing])}
        own, start = filled.own_recipe(), filled.start
        shown = own.going_on_from(start.name, start) if start else own
        without = given_by_a_model(own) if start else ()
        seed = {self.seed: own.seed} if filled.recipe_name == OF_A_FILE else {}
        return {self.about: description_of(own), self.settings: settings_value(shown, without=without), **seed}

    def save_recipe(self, values: Values) -> dict[Any, Any]:
        """Give the person the recipe of the form as a file. Raises BertCoreError."""
        filled = self.read(values)
        recipe = filled.recipe().with_seed(filled.seed)
        if not filled.missing:
            recipe = recipe.for_source(filled.corpus(recipe))
        text = json.dumps(recipe.content(), ensure_ascii=False, indent=2)
        return self.page.save(f"{recipe.name}.json", lambda path: path.write_text(text, encoding="utf-8"))


def show_source(kind: str, path: str | None) -> list[Any]:
    """Show the field of an uploaded file where that is the source, and its encoding, unless it is UTF-8."""
    has_choice = kind == UPLOADED and encoding_of(path)["visible"]
    return [gr.update(visible=shown) for shown in (kind == UPLOADED, has_choice)]


def recipe_of(source: str, recipe: str) -> Any:
    """The recipe after a person has chosen another source of the text: the default one, or by the size of a text. One
    that the person has chosen stays."""
    first, other = (BY_SIZE, DEFAULT_RECIPE) if source == OWN_TEXT else (DEFAULT_RECIPE, BY_SIZE)
    return other if recipe == first else gr.skip()


def typed(source: str, recipe: str) -> tuple[Any, Any]:
    """The source and the recipe once a person types a text."""
    return (gr.skip(), gr.skip()) if source == PASTED else (PASTED, recipe_of(PASTED, recipe))


def examples() -> list[tuple[str, list[tuple[str, str]]]]:
    """Each language with the names and kinds of its texts."""
    return [
        (title, [(f"{language}-{kind}", name) for kind, name in KINDS.items()]) for language, title in LANGUAGES.items()
    ]


def example(source: str, recipe: str, event: gr.EventData) -> tuple[str, Any, Any]:
    """An example in place of the person's text, or without a name that text again. Raises InputError for an example
    that the page does not have."""
    texts, name = example_texts(), sent(event, "name", str)
    text = texts[known(name, [*texts])] if name else sent(event, "text", str)
    return text, *typed(source, recipe)


@functools.cache
def example_texts() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.txt")}


def given_by_a_model(recipe: Recipe) -> list[str]:
    """The settings that a model brings with it: its tokenizer, and its sizes without dropout."""
    names = (name for name in recipe.settings() if name.startswith(("model.", "tokenizer.")))
    return [name for name in names if "dropout" not in name]


def description_of(recipe: Recipe) -> dict[str, Any]:
    """What a recipe is, as the view of facts shows it."""
    return no_facts(notes=[recipe.description])


def recipe_choices() -> list[tuple[str, str]]:
    """Title and name of each recipe of the program and of what else can be chosen. A title says whether the recipe
    needs a text of the person's own."""
    recipes = map(recipe_named, recipe_names())
    first, *others = ((each.title + " (needs your text)" * (not each.corpus.file), each.name) for each in recipes)
    return [first, ("Chosen by the size of your text", BY_SIZE), *others, ("A recipe file of your own", OF_A_FILE)]


def known(value: Any, names: Sequence[str]) -> str:
    """The value of a `select`. Raises InputError for one that the list does not have."""
    if value not in names:
        raise InputError(MALFORMED)
    return value


def select(
    choices: Sequence[tuple[str, Any]], value: Any, *, label: str, elem_id: str, info: str = "", **layout: Any
) -> gr.HTML:
    """A list of choices, each with its label; its value is the chosen one's, or what a client sends."""
    options = {"choices": [(value, title) for title, value in choices], "label": label, "info": info}
    layout["elem_classes"] = "b-select"
    return view("parts/control", value, events=("input",), options=options, elem_id=elem_id, **layout)


def encoding_control(elem_id: str = "encoding") -> gr.HTML:
    """The encoding of an uploaded file; `encoding_of` shows it for a file that is not UTF-8."""
    info = "The file is not UTF-8. If letters are wrong below, choose another encoding."
    choices = [(name, name) for name in ENCODINGS]
    return select(choices, None, label="Encoding", elem_id=elem_id, info=info, visible=False)


def encoding_of(*paths: str | None) -> dict[str, Any]:
    """An update of the control with the likely encoding of the first file that is not UTF-8."""
    files = [Path(path).read_bytes() for path in paths if path and Path(path).is_file()]
    likely = next(filter(None, map(likely_encoding, files)), None)
    return gr.update(value=likely, visible=likely is not None or any(b"\0" in each for each in files))  # as UTF-16 has


def begun(space: Workspace, begin: Callable[[], object]) -> tuple[str, list[str]]:
    """Start a run. Returns why that failed, "" if it did not, and the note on runs that were dropped for it."""
    before = len(space.dropped)

    def attempt() -> None:
        space.refuse_if_active()
        begin()

    problem = on_error(str)(attempt)() or ""
    return problem, space.dropped_notes if len(space.dropped) > before else []
