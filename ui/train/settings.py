"""The controls under "More settings", made from the metadata of the settings themselves.

A hint, a range or a choice is written once, beside the field in bert_core.config; this module only says which of them
a person sees and in which order.
"""

import dataclasses
import re
from typing import Any

import gradio as gr

from bert_core.config import BertConfig, DataConfig, TokenizerConfig, TrainingConfig
from bert_core.runs.recipe import Recipe

_CLASSES = {"tokenizer": TokenizerConfig, "model": BertConfig, "data": DataConfig, "training": TrainingConfig}
_POSITIONS = "model.max_position_embeddings"

SHOWN = {
    "training.steps": "Steps",
    "data.batch_size": "Batch size",
    "training.learning_rate": "Learning rate",
    "data.mask_probability": "Share of hidden words",
    "model.num_hidden_layers": "Layers",
    "model.num_attention_heads": "Heads per layer",
    "model.hidden_size": "Hidden size",
    "model.intermediate_size": "Feed-forward size",
    "data.sequence_length": "Longest pair in tokens",
    "tokenizer.kind": "Tokens are",
    "tokenizer.vocab_size": "Vocabulary size",
}


def settings_controls(recipe: Recipe) -> list[gr.components.Component]:
    """One control per shown setting with the recipe's value, in the order of SHOWN, two in a row."""
    settings = list(zip(SHOWN, values_of(recipe), strict=True))
    controls = []
    for start in range(0, len(settings), 2):
        with gr.Row():
            controls += [_control(key, value) for key, value in settings[start : start + 2]]
    return controls


def values_of(recipe: Recipe) -> list[Any]:
    """The recipe's own value for each control; an empty field stands for None."""
    own = [getattr(getattr(recipe, section), name) for section, name in (key.split(".") for key in SHOWN)]
    return ["" if value is None else value for value in own]


def overrides(recipe: Recipe, values: list[Any]) -> dict[str, Any]:
    """The settings that differ from the recipe's, as `recipe.override` takes them.

    A longer pair than the recipe's model reads makes the model read more; the page has no control of its own for that.
    """
    changed = {
        key: value
        for key, value, own in zip(SHOWN, values, values_of(recipe), strict=True)
        if value != own and value is not None
    }
    longest = changed.get("data.sequence_length", 0)
    return changed | ({_POSITIONS: longest} if longest > recipe.model.max_position_embeddings else {})


def with_labels(sentence: str) -> str:
    """The sentence with the names of settings as their controls have them."""
    labels = {key.split(".")[1]: label for key, label in SHOWN.items()}
    labels[_POSITIONS.split(".")[1]] = SHOWN["data.sequence_length"]
    return re.sub(r"\b\w+_\w+\b|^\w+(?= is )", lambda name: labels.get(name[0], name[0]), sentence)


def _field(key: str) -> dataclasses.Field:
    section, name = key.split(".")
    return next(item for item in dataclasses.fields(_CLASSES[section]) if item.name == name)


def _control(key: str, value: Any) -> gr.components.Component:
    item = _field(key)
    common = {
        "value": value,
        "label": SHOWN[key],
        "info": item.metadata["hint"],
        "elem_id": "setting-" + key.split(".")[1].replace("_", "-"),
        "min_width": 140,
    }
    if "choices" in item.metadata:
        return gr.Dropdown(list(item.metadata["choices"]), **common)
    if item.metadata["optional"]:
        # An empty gr.Number turns into 0; a text stays empty, and the setting's own check reads numbers in it.
        return gr.Textbox(**common)
    return gr.Number(precision=0 if item.type in (int, int | None) else None, **common)
