"""A recipe is data: a text or labelled examples, and all settings of a training, in one piece of JSON, which the page,
the command line and saved models share. Those of the program are in assets/recipes and assets/tasks."""

import functools
import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import Field, model_validator
from pydantic.fields import FieldInfo

from bert_core.config import (
    ASSETS,
    BertConfig,
    CorpusConfig,
    DataConfig,
    FinetuningConfig,
    FinetuningData,
    Schedule,
    Seed,
    Settings,
    TokenizerConfig,
    TrainingConfig,
    read_json_file,
)
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.data.sentences import UNSPACED
from bert_core.errors import ConfigError, CorpusError, quoted
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TASKS, TaskParts, load_task, read_parts

DEFAULT_RECIPE = "romeo-juliet"
GOING_ON_RATE = 3e-4  # the highest peak of the learning rate with which a trained model goes on, if none is given
BY_SIZE = "by-size"  # name of the recipes that `recipe_for` makes

_OWN_NEEDS = "the text that it was trained on"
_MOST_READINGS = 100  # of each word of a text; more would teach it by heart
_MOST_PIECES = 8_000
_PIECES_OF_A_WORD = 1.3
_COUNTED = 20_000  # sentences of a text, evenly spread; they stand for the rest
_WORDS = re.compile(f"[{UNSPACED}]|[^\\s{UNSPACED}]+")  # a character of a script without spaces is a word

Part = TypeVar("Part", bound=Schedule)


class _Recipe(Settings):
    """What the recipes of a text and of a task have in common, beside sections of settings."""

    name: str  # of the file without .json, or by which `finetuning_recipe` finds it
    title: str
    seed: Seed = 0  # of initial weights, draws of the data, the held-out part of examples and dropout
    random_weights: bool = False  # take only the tokenizer and the sizes of the model that `start` names

    @classmethod
    def sections(cls) -> dict[str, type[Settings]]:
        """The class of each section of settings by its name."""
        fields = cls.model_fields.items()
        return {name: type(field.default) for name, field in fields if isinstance(field.default, Settings)}

    @classmethod
    def settings(cls) -> dict[str, FieldInfo]:
        """The field of each setting that a person may choose, by names such as "data.batch_size": those with a hint."""
        return {
            f"{section}.{name}": field
            for section, kind in cls.sections().items()
            for name, field in kind.model_fields.items()
            if field.description
        }

    def content(self) -> dict[str, Any]:
        """The recipe as JSON content for `from_dict`, without what a file's name and a text give."""
        content = super().content()
        del content["name"]
        content.get("model", {}).pop("vocab_size", None)
        if content["start"] is None:
            del content["start"], content["random_weights"]
        return content

    def with_seed(self, seed: int | None) -> Self:
        """A copy with another seed; None keeps this one. Raises ConfigError for a seed out of range."""
        return self if seed is None else self.replace(seed=seed)

    def override(self, settings: Mapping[str, object]) -> Self:
        """A copy with other settings, such as {"training.steps": 400}; values may be texts, and a name that only one
        section has needs no section. Given steps or epochs take the place of steps, epochs and later parts."""
        sections = self.sections()
        given: dict[str, dict[str, object]] = {section: {} for section in sections}
        for path, value in settings.items():
            section, _, name = path.rpartition(".")
            owners = [owner for owner, kind in sections.items() if name in kind.model_fields]
            section = section or (owners[0] if len(owners) == 1 else "")
            if section not in given:
                raise ConfigError(f"There is no setting {quoted(path)}; sections are: {', '.join(sections)}.")
            given[section][name] = value
        if given["training"].keys() & {"steps", "epochs"}:
            given["training"] = {"epochs": None, "parts": (), **given["training"]}
        changed = {name: getattr(self, name).replace_by_texts(new) for name, new in given.items() if new}
        return self.replace(**changed)

    @classmethod
    def from_dict(cls, name: str, content: object) -> Self:
        """Check JSON content and build a recipe. Raises ConfigError."""
        try:
            return cls(**dict(content) | {"name": name})  # type: ignore[call-overload]
        except (ConfigError, TypeError, ValueError) as error:  # the others of what is no object
            raise ConfigError(f"The recipe {name} cannot be used: {error}") from None


class Recipe(_Recipe):
    """All settings of a training run. Raises ConfigError for settings that do not fit together."""

    description: str
    start: str | None = None  # name of the model that training goes on from; None for random weights
    corpus: CorpusConfig = CorpusConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: BertConfig = BertConfig()
    data: DataConfig = DataConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.data.sequence_length > self.model.max_position_embeddings:
            raise ConfigError(
                f"sequence_length {self.data.sequence_length} is more than the {self.model.max_position_embeddings} "
                "positions of the model; lower it or raise max_position_embeddings."
            )
        return self

    @property
    def text_kind(self) -> str:
        """How a person's own text is split: as a recipe without a text of its own needs it, else detected."""
        return "auto" if self.corpus.file else self.corpus.kind

    def going_on_from(self, name: str, start: Checkpoint, **data: object) -> Self:
        """A copy for a model and its sizes, with these settings of data; dropout stays the recipe's. The learning rate
        becomes at most GOING_ON_RATE, because a recipe for random weights would lose trained ones at its own."""
        training, is_random = self.training, self.random_weights or start.random_weights
        # The rates of Adadelta mean something else.
        if self.start is None and not is_random and training.optimizer != "adadelta":
            training = _slowed(training).replace(parts=tuple(map(_slowed, training.parts)))
        model = start.config.replace(**{each: value for each, value in vars(self.model).items() if "dropout" in each})
        changed = {"model": model, "data": self.data.replace_by_texts(data), "training": training}
        return self.replace(start=name, random_weights=is_random, **changed)

    def source(self) -> Corpus:
        """The recipe's own text. Raises CorpusError if it has none."""
        if self.corpus.file is None:
            raise CorpusError(f"The recipe {self.title!r} comes without a text; give it {self.corpus.needs}.")
        return read_corpus(ASSETS / "corpora" / Path(self.corpus.file).name, kind=self.corpus.kind)

    def for_source(self, source: Corpus) -> Self:
        """This recipe for its own text; for another, a copy that describes that, and says how it was read."""
        with suppress(CorpusError):
            if source.fingerprint == self.source().fingerprint:
                return self
        reading = {"kind": source.kind, "encoding": source.encoding} if source.kind else {"kind": self.text_kind}
        about = f"A text of your own, with the settings of the recipe {self.name}."
        description = self.description if self.corpus.needs == _OWN_NEEDS else about  # it says so already
        own = self.corpus.replace(file=None, needs=_OWN_NEEDS, **reading)
        return self.replace(title=source.name, description=description, corpus=own)


def _slowed(part: Part) -> Part:
    return part.replace(learning_rate=min(part.learning_rate, GOING_ON_RATE))


class FinetuningRecipe(_Recipe):
    """All settings of a fine-tuning run; start and what follows it are known once the examples are prepared."""

    task: str  # of `TASKS`
    description: str = ""
    files: dict[str, str] = Field(default_factory=dict)  # of the program's own examples, in assets/tasks/TASK by part
    needs: str = "a file of labelled examples"  # that a person brings
    start: str = ""  # name of the model to start from
    may_be_missing: bool = False  # whether some questions have no answer
    columns: tuple[str, ...] = Field((), strict=False)  # that were read, see `TaskData`; JSON has lists
    data: FinetuningData = FinetuningData()
    training: FinetuningConfig = FinetuningConfig()

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.task not in list(TASKS):
            raise ConfigError(f"The task {quoted(self.task)} is unknown; it can be one of: {', '.join(TASKS)}.")
        return self

    def source(self) -> TaskParts:
        """The recipe's own examples. Raises CorpusError if it has none."""
        if not self.files:
            raise CorpusError(f"The recipe {self.title!r} comes without examples; give it {self.needs}.")
        paths = {part: ASSETS / "tasks" / self.task / Path(name).name for part, name in self.files.items()}
        return read_parts(functools.partial(load_task, task=self.task), paths)

    def for_source(self, source: TaskParts) -> Self:
        """This recipe for its own examples and for a file of a person's; else a copy that describes other examples."""
        if not self.files or source.fingerprint == self.source().fingerprint:
            return self
        description = f"Examples of your own, with the settings of the recipe {self.name}."
        needs = "the examples that it was trained on"
        return self.replace(title=source.name, description=description, needs=needs, files={})


def recipe_names() -> list[str]:
    """Names of the recipes of the program, the default first."""
    return list(_recipes())


@functools.cache
def _recipes() -> dict[str, Recipe]:
    paths = sorted((ASSETS / "recipes").glob("*.json"), key=lambda path: (path.stem != DEFAULT_RECIPE, path.stem))
    return {path.stem: Recipe.from_dict(path.stem, read_json_file(path, "recipe")) for path in paths}


def load_recipe(name_or_path: str | os.PathLike[str]) -> Recipe:
    """A recipe of the program by its name, or one from a JSON file. Raises ConfigError."""
    path = Path(name_or_path)
    is_file = path.suffix == ".json"
    return Recipe.from_dict(path.stem, read_json_file(path, "recipe")) if is_file else recipe_named(str(name_or_path))


def recipe_named(name: str) -> Recipe:
    """A recipe of the program by its name; unlike `load_recipe`, it never opens another path. Raises ConfigError."""
    if name not in recipe_names():
        raise ConfigError(f"There is no recipe {quoted(name)}; there are: {', '.join(recipe_names())}.")
    return _recipes()[name]


def recipe_for(corpus: Corpus) -> Recipe:
    """A recipe for any text, chosen by its size and script, that trains for at most about a minute on two processor
    cores. The same text has the same recipe everywhere.

    A short text is learned by heart as the dialogue of the default recipe is, in more steps. A longer one has pieces of
    words, and by its size (assets/by_size.json) a larger vocabulary and model, fewer readings and less dropout."""
    counted = corpus.sentences[:: math.ceil(len(corpus.sentences) / _COUNTED)]
    share = len(counted) / len(corpus.sentences)
    words = max(1, round(sum(len(_WORDS.findall(sentence)) for sentence in counted) / share))
    pair = 3 + 2 * _PIECES_OF_A_WORD * words / len(corpus.sentences)  # tokens
    length = 64 if pair < 40 else 128  # because others are longer
    sizes = read_json_file(ASSETS / "by_size.json", "recipe")
    size = next(each for each in sizes if words <= (each["most_words"] or words))
    settings = {"data.sequence_length": length, "model.max_position_embeddings": length, **size["settings"]}
    first = recipe_named(size["recipe"])
    if first.name == DEFAULT_RECIPE:
        steps = round(first.training.steps * max(1.0, words / 90) ** 0.75)
        settings |= {"training.steps": steps, "training.warmup_steps": steps // 8}
    else:
        # A script may have thousands of characters, each alone and as a later piece of a word.
        pieces = 2 * len(set("".join(counted).lower())) + round(20 * math.sqrt(words))
        tokens = min(size["most_tokens"], _MOST_READINGS * _PIECES_OF_A_WORD * words)
        pair = min(pair, length)
        batch_size = max(8, 4 * round(size["tokens_of_a_step"] / pair / 4))
        steps = 10 * round(tokens / (batch_size * pair) / 10)
        settings |= {"tokenizer.vocab_size": min(_MOST_PIECES, pieces), "data.batch_size": batch_size}
        settings |= {"training.steps": steps, "training.warmup_steps": steps // 20}
    return first.override(settings).replace(
        name=BY_SIZE,
        title=corpus.name,
        description="A text of your own, with settings that were chosen by its size.",
        corpus=CorpusConfig().replace(kind=corpus.kind or "auto", needs=_OWN_NEEDS),
    )


@functools.cache
def finetuning_recipes() -> tuple[FinetuningRecipe, ...]:
    """The recipes of the program: those with a data set of their own, then those of tutorials."""
    files = (read_json_file(ASSETS / "tasks" / f"{file}.json", "recipe") for file in ("tasks", "tutorials"))
    return tuple(FinetuningRecipe.from_dict(name, content) for file in files for name, content in file.items())


def finetuning_recipe(name: str) -> FinetuningRecipe:
    """A recipe of the program by its name. Raises ConfigError."""
    recipes = {recipe.name: recipe for recipe in finetuning_recipes()}
    if name not in recipes:
        raise ConfigError(f"There is no fine-tuning recipe {quoted(name)}; there are: {', '.join(recipes)}.")
    return recipes[name]
