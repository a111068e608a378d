"""The form of the Train tab: a text, a recipe, a seed, a pace, and the settings under "More settings".

A setting's hint, range and choices are defined once, beside its field in bert_core.config. SHOWN says which settings a
person sees and in which order.
"""

import collections
import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import gradio as gr

from bert_core.config import BertConfig, DataConfig, Limits, TokenizerConfig, TrainingConfig
from bert_core.data.corpus import Corpus
from bert_core.data.decoding import ENCODINGS, EncodingError, decoded_blocks
from bert_core.errors import CorpusError
from bert_core.runs.recipe import Recipe, recipe_named
from ui.server.workspace import PASTED_TEXT

_CLASSES = {"tokenizer": TokenizerConfig, "model": BertConfig, "data": DataConfig, "training": TrainingConfig}
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
class TrainingForm:
    """What a person filled in. pace: one of PACES in tab.py. settings: the values of SHOWN, in order."""

    source: str
    pasted: str
    uploaded: str | None
    encoding: str | None
    recipe_name: str
    seed: int
    pace: float
    settings: tuple[Any, ...]

    def recipe(self) -> Recipe:
        """The recipe with the settings of the form. Raises BertCoreError."""
        own = recipe_named(self.recipe_name)
        return own.override(overrides(own, self.settings))

    @property
    def missing(self) -> str:
        """What to do before there is a text, "" if there is one."""
        if self.source == PASTED and not self.pasted.strip():
            return "Paste a text first."
        return "Choose a .txt file first." if self.source == UPLOADED and not self.uploaded else ""

    def corpus(self, recipe: Recipe, limits: Limits) -> Corpus:
        """The chosen text, read as that recipe asks. Raises CorpusError."""
        if self.missing:
            raise CorpusError(self.missing)
        if self.source == PASTED:
            return Corpus.from_text(self.pasted, recipe.text_kind, name=PASTED_TEXT, limits=limits)
        if self.source == UPLOADED:
            path = Path(self.uploaded or "")
            encoding = recipe.corpus.encoding or self.encoding
            return Corpus.from_bytes(path.read_bytes(), recipe.text_kind, path.name, encoding, limits)
        return recipe.source()


@dataclass(frozen=True)
class FormControls:
    """The controls of the form, one for each field of TrainingForm."""

    source: gr.Radio
    pasted: gr.Textbox
    uploaded: gr.File
    encoding: gr.Radio
    recipe: gr.Dropdown
    seed: gr.Number
    pace: gr.Dropdown
    settings: tuple[gr.components.Component, ...]

    @property
    def text_and_recipe(self) -> list[gr.components.Component]:
        """The controls on which the preview depends, except the uploaded file and its encoding."""
        return [self.source, self.pasted, self.recipe, *self.settings]

    @property
    def all(self) -> set[gr.components.Component]:
        """All controls, as a handler's `inputs`."""
        return {*self.text_and_recipe, self.uploaded, self.encoding, self.seed, self.pace}

    def read(self, values: Mapping[Any, Any]) -> TrainingForm:
        """The form from the values that Gradio gives a handler whose inputs are a set of components."""
        return TrainingForm(
            values[self.source],
            values[self.pasted] or "",
            values[self.uploaded],
            values[self.encoding] or None,
            values[self.recipe],
            int(values[self.seed] or 0),
            values[self.pace] or 0,
            tuple(values[control] for control in self.settings),
        )


def title_in_list(recipe: Recipe) -> str:
    """A recipe's title, and whether it needs a text of the person's own."""
    return recipe.title if recipe.corpus.file else f"{recipe.title} (needs your text)"


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


def settings_controls(recipe: Recipe) -> tuple[gr.components.Component, ...]:
    """One control per setting of SHOWN with the recipe's value, two in a row."""
    settings = list(zip(SHOWN, values_of(recipe), strict=True))
    controls = []
    for start in range(0, len(settings), 2):
        with gr.Row():
            controls += [_control(key, value) for key, value in settings[start : start + 2]]
    return tuple(controls)


def values_of(recipe: Recipe) -> list[Any]:
    """The value for each setting of SHOWN with which the recipe trains: at scale, and the steps of all parts together.

    The steps are None if the recipe counts epochs; in a field of text, "" stands for None.
    """
    recipe = recipe.at_scale()
    own = [getattr(getattr(recipe, section), name) for section, name in (key.split(".") for key in SHOWN)]
    own = ["" if value is None else value for value in own]
    own[list(SHOWN).index("training.steps")] = None if recipe.training.epochs else recipe.training.total_steps
    return own


def overrides(recipe: Recipe, values: Sequence[Any]) -> dict[str, Any]:
    """The settings that differ from the recipe's, as `recipe.override` takes them.

    Pairs longer than the model reads raise its number of positions too, which has no control of its own.
    """
    changed = {
        key: value
        for key, value, own in zip(SHOWN, values, values_of(recipe), strict=True)
        if value != own and value is not None
    }
    longest = changed.get("data.sequence_length", 0)
    return changed | ({_POSITIONS: longest} if longest > recipe.model.max_position_embeddings else {})


def with_labels(sentence: str) -> str:
    """The sentence with the labels of the controls instead of the settings' names."""
    labels = {key.split(".")[1]: label for key, label in SHOWN.items()}
    labels[_POSITIONS.split(".")[1]] = SHOWN["data.sequence_length"]
    return re.sub(r"\b\w+_\w+\b|^\w+(?= is )", lambda name: labels.get(name[0], name[0]), sentence)


def _control(key: str, value: Any) -> gr.components.Component:
    section, name = key.split(".")
    field = next(item for item in dataclasses.fields(_CLASSES[section]) if item.name == name)
    common = {
        "value": value,
        "label": SHOWN[key],
        "info": field.metadata["hint"],
        "elem_id": "setting-" + name.replace("_", "-"),
        "min_width": 140,
    }
    if "choices" in field.metadata:
        return gr.Dropdown(list(field.metadata["choices"]), **common)
    if NoneType in get_args(field.type):
        # An empty gr.Number becomes 0; a text stays empty, and the setting's own check reads the number in it.
        return gr.Textbox(**common)
    return gr.Number(precision=0 if field.type in (int, int | None) else None, **common)
