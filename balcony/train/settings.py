"""Every setting of a recipe as a row of one table, in which those that people change most come first.

A setting's hint, limits, choices and title stand once, beside its field in bert_core.config.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any

import gradio as gr

from balcony.handlers import MALFORMED
from balcony.views import view
from bert_core.config import choices, limits_of
from bert_core.errors import InputError
from bert_core.runs.recipe import BY_SIZE, DEFAULT_RECIPE, FinetuningRecipe, Recipe
from bert_core.tasks.question_answering import QuestionAnswering

Tunable = Recipe | FinetuningRecipe

FIRST = 4  # rows that are not folded
_OF_ANSWERS = ("question_length", "context_first", "stride", "best_answers", "longest_answer")  # that no other task has
_OPTION = re.compile(r" \(--(?:kind|encoding|columns)\)")


def settings_view(recipe: Tunable, often: Sequence[str], *, prefix: str, elem_id: str) -> gr.HTML:
    """The table with the values of a recipe, those of `often` first. Its value see `settings_value`. It fires `input`,
    or `anew` where the recipe itself may be another one then. prefix: of each row's id."""
    fields = type(recipe).settings()
    names = Counter(name.split(".")[-1] for name in fields)
    rows = []
    for name in dict.fromkeys([*often, *fields]):
        section, _, alone = name.rpartition(".")
        key = alone if names[alone] == 1 else f"{section}-{alone}"
        rows.append(
            {
                "name": name,
                "id": f"{prefix}-{key.replace('_', '-')}",
                "label": label_of(name, type(recipe)),
                "info": fields[name].description,
                "range": " – ".join(f"{end:,}" for end in limits_of(fields[name]) or ()),
                "choices": [[_typed(choice), in_words(choice)] for choice in choices(fields[name])],
            }
        )
    options = {"settings": rows, "first": FIRST}
    return view("train/settings", settings_value(recipe), events=("input", "anew"), options=options, elem_id=elem_id)


def settings_value(recipe: Tunable, *, without: Collection[str] = ()) -> dict[str, Any]:
    """What the table shows: the recipe's name and the text of each of its settings. The page keeps what a person has
    changed while the recipe stays. without: settings that do not count."""
    values = {name: value for name, value in values_of(recipe).items() if name not in without}
    if recipe.name == BY_SIZE:
        values["corpus.kind"] = "auto"  # the recipe has the kind as which its text was read
    return {"recipe": _kept_with(recipe), "values": values, "changed": {}}


def _kept_with(recipe: Tunable) -> str:
    """The name with which changed settings stay. The text alone decides between the default recipe and the one by size,
    also after a person has changed a setting: they have one name."""
    return DEFAULT_RECIPE if recipe.name == BY_SIZE else recipe.name


def values_of(recipe: Tunable) -> dict[str, str]:
    """Each setting with which a recipe trains, as ``--set`` reads it, the steps of all parts together. The steps are
    empty if the recipe counts epochs; other tasks' settings are missing."""
    values = {}
    for name in recipe.settings():
        if name.removeprefix("data.") in _OF_ANSWERS and getattr(recipe, "task", "") != QuestionAnswering.name:
            continue
        values[name] = _typed(attrgetter(name)(recipe))
    values["training.steps"] = "" if recipe.training.epochs else _typed(recipe.training.total_steps)
    return values


def _typed(value: Any) -> str:
    """A value as ``--set`` reads it."""
    if isinstance(value, tuple):
        return json.dumps([part.content() for part in value]) if value else ""
    if isinstance(value, bool):
        return json.dumps(value)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def overrides(recipe: Tunable, sent: Any) -> dict[str, Any]:
    """The settings that a person has changed, as `recipe.override` takes them; none if the table shows another
    recipe still. sent: the value of the table. Raises InputError for a malformed value."""
    if not isinstance(sent, dict) or not isinstance(sent.get("changed"), dict):
        raise InputError(MALFORMED)
    if sent.get("recipe") != _kept_with(recipe):
        return {}
    changed = sent["changed"]
    if not changed.keys() <= values_of(recipe).keys():
        raise InputError(MALFORMED)
    return changed


def label_of(name: str, kind: type[Tunable] = Recipe) -> str:
    """A setting's label by its name, such as "data.batch_size"; of what is no setting, the name in words."""
    item, plain = kind.settings().get(name), name.split(".")[-1].split("_")
    words = " ".join(word.upper() if word in ("mlm", "nsp") else word for word in plain)
    return (item.title if item else None) or words[0].upper() + words[1:]


def in_words(value: Any) -> str:
    """A setting's value as the page shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):  # the later phases of a training
        parts = (f"from step {part['start']}: {part['steps']} steps, rate {part['learning_rate']:g}" for part in value)
        return "; ".join(parts) or "–"
    if isinstance(value, int):
        return f"{value:,}"
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def with_labels(sentence: str) -> str:
    """The sentence with the labels of the table instead of the names of settings and of options."""
    labels = {
        name.split(".")[-1]: label_of(name, kind) for kind in (FinetuningRecipe, Recipe) for name in kind.settings()
    }
    return without_options(re.sub(r"\b\w+_\w+\b|^\w+(?= is )", lambda name: labels.get(name[0], name[0]), sentence))


def without_options(sentence: str) -> str:
    """The sentence without the command line's options, in the place of which the page has controls."""
    return _OPTION.sub("", sentence)
