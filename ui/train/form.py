"""The form of the Train tab: a text, a recipe, a seed, and the settings under "More settings".

A setting's hint, range and choices are defined once, beside its field in bert_core.config. SHOWN says which settings a
person sees and in which order.
"""

import collections
import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import gradio as gr

from bert_core.config import Limits
from bert_core.data.corpus import Corpus
from bert_core.data.decoding import ENCODINGS, EncodingError, decoded_blocks
from bert_core.errors import CorpusError, InputError
from bert_core.runs.recipe import DEFAULT_RECIPE, FinetuningRecipe, Recipe, recipe_named, recipe_names
from ui.handlers import MALFORMED, QUIET, on_error
from ui.server.workspace import PASTED_TEXT, Workspace
from ui.views import view

_POSITIONS = "model.max_position_embeddings"

SHOWN = {
    "training.steps": "Steps",
    "data.batch_size": "Batch size",
    "training.learning_rate": "Learning rate",
    "data.mask_probability": "Fraction to predict",
    "model.num_hidden_layers": "Layers",
    "model.num_attention_heads": "Heads per layer",
    "model.hidden_size": "Hidden size",
    "model.intermediate_size": "Feed-forward size",
    "data.sequence_length": "Longest pair in tokens",
    "data.segments": "Segments",
    "tokenizer.kind": "Tokenizer",
    "tokenizer.vocab_size": "Vocabulary size",
}
OWN_TEXT, PASTED, UPLOADED = "The recipe's own text", "Paste a text", "Upload a .txt file"


@dataclass(frozen=True)
class Filled:
    """What a person filled in. settings: the values of SHOWN, in order."""

    source: str
    pasted: str | None
    uploaded: str | None
    encoding: str | None
    recipe_name: str
    seed: int
    settings: list[Any]

    def recipe(self) -> Recipe:
        """The recipe with the settings of the form. Raises BertCoreError."""
        own = recipe_named(known(self.recipe_name, recipe_names()))
        return own.override(overrides(own, self.settings))

    @property
    def missing(self) -> str:
        """What to do before there is a text, "" if there is one."""
        if self.source == PASTED and not (self.pasted or "").strip():
            return "Paste a text first."
        return "Choose a .txt file first." if self.source == UPLOADED and not self.uploaded else ""

    def corpus(self, recipe: Recipe, limits: Limits) -> Corpus:
        """The chosen text, read as that recipe asks. Raises CorpusError."""
        if self.missing:
            raise CorpusError(self.missing)
        if self.source == PASTED:
            return Corpus.from_text(self.pasted or "", recipe.text_kind, name=PASTED_TEXT, limits=limits)
        if self.source == UPLOADED:
            path = Path(self.uploaded or "")
            encoding = recipe.corpus.encoding or self.encoding
            return Corpus.from_bytes(path.read_bytes(), recipe.text_kind, path.name, encoding, limits)
        return recipe.source()


class TrainingForm:
    """The controls of the form. text_and_recipe: those on which the preview depends, except the uploaded file and its
    encoding. all: a handler's `inputs`."""

    def __init__(self) -> None:
        recipe = recipe_named(DEFAULT_RECIPE)
        recipes = [(title_in_list(recipe_named(name)), name) for name in recipe_names()]
        self.source = gr.Radio([OWN_TEXT, PASTED, UPLOADED], value=OWN_TEXT, label="Training text", elem_id="source")
        info = "One sentence per line, or paragraphs; a blank line separates documents."
        self.pasted = gr.Textbox(label="Your text", info=info, lines=6, max_lines=12, visible=False, elem_id="pasted")
        self.uploaded = gr.File(label="A .txt file", file_types=[".txt"], visible=False, elem_id="uploaded", height=120)
        self.encoding = encoding_control()
        with gr.Row():
            self.recipe = select(recipes, DEFAULT_RECIPE, label="Recipe", elem_id="recipe", scale=3, min_width=180)
            self.seed = gr.Number(0, label="Seed", precision=0, elem_id="seed", scale=1, min_width=70)
        with gr.Accordion("About this recipe", open=False):
            self.about = view("train/facts", description_of(recipe), elem_id="about-recipe")
        with gr.Accordion("More settings", open=False, elem_id="more-settings"):
            self.settings = settings_controls(recipe)
        self.steps = self.settings[list(SHOWN).index("training.steps")]
        self.text_and_recipe = [self.source, self.pasted, self.recipe, *self.settings]
        self.all = {*self.text_and_recipe, self.uploaded, self.encoding, self.seed}
        shown = [self.pasted, self.uploaded, self.encoding]
        self.source.change(show_source, [self.source, self.uploaded], shown, **QUIET)
        self.recipe.input(describe_recipe, self.recipe, [self.about, *self.settings], **QUIET)

    def read(self, values: Mapping[Any, Any]) -> Filled:
        """The form from the values that Gradio gives a handler whose inputs are a set of components."""
        return Filled(
            values[self.source],
            values[self.pasted],
            values[self.uploaded],
            values[self.encoding],
            values[self.recipe],
            int(values[self.seed] or 0),
            [values[control] for control in self.settings],
        )


def show_source(kind: str, path: str | None) -> list[Any]:
    """Show the chosen source of the text; of an uploaded file also the encoding, unless it is UTF-8."""
    has_choice = kind == UPLOADED and encoding_choices(path)["visible"]
    return [gr.update(visible=shown) for shown in (kind == PASTED, kind == UPLOADED, has_choice)]


@on_error(lambda sentence: [no_facts(sentence), *(gr.skip() for _ in SHOWN)])
def describe_recipe(name: str) -> list[Any]:
    """A recipe's description and settings."""
    recipe = recipe_named(known(name, recipe_names()))
    return [description_of(recipe), *values_of(recipe)]


def description_of(recipe: Recipe) -> dict[str, Any]:
    """What a recipe is, as the view of facts shows it."""
    return no_facts() | {"notes": [recipe.description]}


def title_in_list(recipe: Recipe) -> str:
    """A recipe's title, and whether it needs a text of the person's own."""
    return recipe.title if recipe.corpus.file else f"{recipe.title} (needs your text)"


def known(value: Any, names: Sequence[str]) -> str:
    """The value of a `select`. Raises InputError for one that the list does not have."""
    if value not in names:
        raise InputError(MALFORMED)
    return value


def select(
    choices: Sequence[tuple[str, Any]], value: Any, *, label: str, elem_id: str, info: str = "", **layout: Any
) -> gr.HTML:
    """A list of choices, each with its label; its value is the chosen one's, or what a client sends."""
    options = {"choices": choices, "label": label, "info": info}
    layout["elem_classes"] = "b-select"
    return view("train/select", value, events=("input", "change"), options=options, elem_id=elem_id, **layout)


def encoding_control(elem_id: str = "encoding") -> gr.Radio:
    """The encoding of an uploaded file; `encoding_choices` shows it for a file that is not UTF-8."""
    info = "The file is not UTF-8. Choose the encoding in which it reads right, or save it as UTF-8."
    return gr.Radio(list(ENCODINGS), label="Encoding", info=info, visible=False, elem_id=elem_id)


def encoding_choices(path: str | None) -> dict[str, Any]:
    """An update of the control with the likely encodings of a file and how they read it; one is chosen only if it is
    the only one."""
    likely: dict[str, str] = {}
    try:
        with Path(path or os.devnull).open("rb") as file:
            collections.deque(decoded_blocks(file, "", []), maxlen=0)
    except EncodingError as error:
        likely = error.likely
    except (CorpusError, OSError):  # the preview shows why
        pass
    only = next(iter(likely)) if len(likely) == 1 else None
    choices = [(f"{name}: {preview}", name) for name, preview in likely.items()]
    return gr.update(choices=choices, value=only, visible=bool(likely))


def settings_controls(
    recipe: Recipe | FinetuningRecipe, shown: Mapping[str, str] = SHOWN, prefix: str = "setting"
) -> tuple[gr.components.Component, ...]:
    """A control for each shown setting with the recipe's value, two in a row. prefix: of their elem_id."""
    settings = list(zip(shown, values_of(recipe, shown), strict=True))
    controls = []
    for start in range(0, len(settings), 2):
        with gr.Row():
            controls += [_control(recipe, key, shown[key], value, prefix) for key, value in settings[start : start + 2]]
    return tuple(controls)


def values_of(recipe: Recipe | FinetuningRecipe, shown: Mapping[str, str] = SHOWN) -> list[Any]:
    """The value for each shown setting with which the recipe trains: at scale, and the steps of all parts together.

    The steps are None if the recipe counts epochs. An optional setting is text, "" for None.
    """
    recipe = recipe.at_scale() if isinstance(recipe, Recipe) else recipe
    values = {key: attrgetter(key)(recipe) for key in shown}
    for key, value in values.items():
        if NoneType in get_args(_field(recipe, key).type):
            values[key] = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(recipe, Recipe):
        values["training.steps"] = None if recipe.training.epochs else recipe.training.total_steps
    return list(values.values())


def overrides(
    recipe: Recipe | FinetuningRecipe, values: Sequence[Any], shown: Mapping[str, str] = SHOWN
) -> dict[str, Any]:
    """The settings that differ from the recipe's, as `recipe.override` takes them.

    Pairs longer than the model reads raise its number of positions too, which has no control of its own.
    """
    own = zip(shown, values, values_of(recipe, shown), strict=True)
    changed = {key: value for key, value, before in own if value != before and value is not None}
    longest = changed.get("data.sequence_length", 0)
    is_too_long = isinstance(recipe, Recipe) and longest > recipe.model.max_position_embeddings
    return changed | ({_POSITIONS: longest} if is_too_long else {})


def with_labels(sentence: str) -> str:
    """The sentence with the labels of the controls instead of the settings' names."""
    labels = {key.split(".")[1]: label for key, label in SHOWN.items()}
    labels[_POSITIONS.split(".")[1]] = SHOWN["data.sequence_length"]
    return re.sub(r"\b\w+_\w+\b|^\w+(?= is )", lambda name: labels.get(name[0], name[0]), sentence)


def _field(recipe: Recipe | FinetuningRecipe, key: str) -> dataclasses.Field:
    section, name = key.split(".")
    return next(item for item in dataclasses.fields(getattr(recipe, section)) if item.name == name)


def _control(
    recipe: Recipe | FinetuningRecipe, key: str, label: str, value: Any, prefix: str
) -> gr.components.Component:
    field = _field(recipe, key)
    elem_id = f"{prefix}-{field.name.replace('_', '-')}"
    common = {"value": value, "label": label, "info": field.metadata["hint"], "elem_id": elem_id, "min_width": 140}
    if "choices" in field.metadata:
        return select([(choice, choice) for choice in field.metadata["choices"]], **common)
    if NoneType in get_args(field.type):
        # An empty gr.Number becomes 0; a text stays empty, and the setting's own check reads the number in it.
        return gr.Textbox(max_lines=1, **common)
    return gr.Number(precision=0 if field.type in (int, int | None) else None, **common)


def no_facts(error: str = "") -> dict[str, Any]:
    """The value of a view of facts without any. error: why there are none."""
    return {"facts": [], "notes": [], "error": error}


def begun(space: Workspace, begin: Callable[[], object]) -> tuple[str, list[str]]:
    """Start a run. Returns why that failed, "" if it did not, and the note on runs that were dropped for it."""
    before = len(space.dropped)

    def attempt() -> None:
        space.refuse_if_active()
        begin()

    problem = on_error(str)(attempt)() or ""
    return problem, space.dropped_notes if len(space.dropped) > before else []
