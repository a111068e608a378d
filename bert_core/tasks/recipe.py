"""A fine-tuning recipe is data: the kind of task, its examples and all settings in one piece of JSON.

The recipes of the program are in `assets/tasks`: data sets of its own in tasks.json, settings of tutorials, for files
that a person has, in tutorials.json. A fine-tuned model has its recipe in recipe.json.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bert_core.config import ASSETS, FinetuningConfig, FinetuningData, build, check_seed, fields_of, read_json_file
from bert_core.errors import ConfigError, CorpusError, checked, quoted
from bert_core.tasks.examples import TASKS, TaskParts, load_task

_FOLDER = ASSETS / "tasks"
_TRAINED_ON = "the examples that it was trained on"  # of a recipe that was written with a model
_SECTIONS: dict[str, type] = {"data": FinetuningData, "training": FinetuningConfig}


@dataclass(frozen=True)
class FinetuningRecipe:
    """All settings of a fine-tuning run.

    name: by which `finetuning_recipe` finds it. task: one of `TASKS`. files: of the program's own data set, in
    assets/tasks/TASK by part (train, validation, test); none if a person brings the files, which `needs` describes.
    seed: of the output layer, the order of examples, the held-out part and dropout. random_weights: start from random
    weights of the same sizes. start: name of the model to start from, once it is known. may_be_missing: whether the
    answers to some questions are missing, columns: those that were read (see `TaskData`), once it is known. Raises
    ConfigError.
    """

    name: str
    task: str
    title: str
    description: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    needs: str = "a file of labelled examples"
    seed: int = 0
    random_weights: bool = False
    start: str = ""
    may_be_missing: bool = False
    columns: Sequence[str] = ()
    data: FinetuningData = field(default_factory=FinetuningData)
    training: FinetuningConfig = field(default_factory=FinetuningConfig)

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.task not in list(TASKS):
            raise ConfigError(f"The task {quoted(self.task)} is unknown; it can be one of: {', '.join(TASKS)}.")
        for item in dataclasses.fields(self):
            if item.type in (str, bool) and type(getattr(self, item.name)) is not item.type:
                raise ConfigError(f"{item.name} is {getattr(self, item.name)!r}; it must be a {item.type.__name__}.")
        if not isinstance(self.files, Mapping) or not all(isinstance(name, str) for name in self.files.values()):
            raise ConfigError(f"files is {self.files!r}; it must map train, validation and test to names of files.")
        if not isinstance(self.columns, list | tuple) or not all(isinstance(name, str) for name in self.columns):
            raise ConfigError(f"columns is {self.columns!r}; it must be a list of names.")
        object.__setattr__(self, "columns", tuple(self.columns))

    def with_seed(self, seed: int | None) -> "FinetuningRecipe":
        """A copy with another seed; None keeps this one. Raises ConfigError for a seed out of range."""
        return self if seed is None else dataclasses.replace(self, seed=seed)

    def override(self, settings: Mapping[str, Any]) -> "FinetuningRecipe":
        """A copy with other settings by name, such as epochs or training.epochs; values may be texts.

        training.steps overrides the recipe's epochs. Raises ConfigError, which names the setting.
        """
        sections = {section: fields_of(getattr(self, section)) for section in _SECTIONS}
        owner = {name: section for section, values in sections.items() for name in values}
        given: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
        for path, value in settings.items():
            section, _, name = path.rpartition(".")
            section = section or owner.get(name, "training")
            if section not in given:
                raise ConfigError(f"There is no setting {path}; sections are: {', '.join(_SECTIONS)}.")
            given[section][name] = value
        if given["training"].keys() & {"steps", "epochs"}:
            given["training"] = {"epochs": None, "parts": (), **given["training"]}
        changed = {name: build(kind, {**sections[name], **given[name]}, name) for name, kind in _SECTIONS.items()}
        return dataclasses.replace(self, **changed)

    def parts(self) -> TaskParts:
        """The recipe's own examples. Raises CorpusError if it has none."""
        if not self.files:
            raise CorpusError(f"The recipe {self.title!r} comes without examples; give it {self.needs}.")
        folder = _FOLDER / self.task
        return TaskParts(**{part: load_task(folder / Path(name).name, self.task) for part, name in self.files.items()})

    def for_parts(self, parts: TaskParts) -> "FinetuningRecipe":
        """This recipe, or a copy that describes these examples if its own are others."""
        if not self.files or parts.fingerprint == self.parts().fingerprint:
            return self
        description = f"Examples of your own, with the settings of the recipe {self.name}."
        return dataclasses.replace(self, title=parts.name, description=description, needs=_TRAINED_ON, files={})

    @classmethod
    def from_dict(cls, name: str, content: Any) -> "FinetuningRecipe":
        """Check JSON content and build a recipe. Raises ConfigError."""
        if not isinstance(content, dict) or not {"task", "title"} <= content.keys():
            raise ConfigError(f"The recipe {name} needs a task and a title.")
        known = {item.name for item in dataclasses.fields(cls)} - {"name"}
        if unknown := content.keys() - known:
            raise ConfigError(f"The recipe {name} has no {min(unknown)!r}; there are: {', '.join(sorted(known))}.")
        sections = {key: build(kind, content[key], key) for key, kind in _SECTIONS.items() if key in content}
        return cls(**{"name": name, **content, **sections})


@functools.cache
def finetuning_recipes() -> tuple[FinetuningRecipe, ...]:
    """The recipes of the program: those with a data set of their own, then those of tutorials."""
    files = (read_json_file(_FOLDER / f"{file}.json", "recipe") for file in ("tasks", "tutorials"))
    return tuple(FinetuningRecipe.from_dict(name, content) for file in files for name, content in file.items())


@checked
def finetuning_recipe(name: str) -> FinetuningRecipe:
    """A recipe of the program by its name. Raises ConfigError."""
    recipes = {recipe.name: recipe for recipe in finetuning_recipes()}
    if name not in recipes:
        raise ConfigError(f"There is no fine-tuning recipe {quoted(name)}; there are: {', '.join(recipes)}.")
    return recipes[name]
