"""A recipe is data: text, tokenizer, sizes, masking and training settings in one JSON file.

The page, the command line and saved models use the same format; the recipes of the program are in `assets/recipes`.
"""

import dataclasses
import os
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from bert_core.config import (
    ASSETS,
    BertConfig,
    CorpusConfig,
    DataConfig,
    TokenizerConfig,
    TrainingConfig,
    build,
    check_seed,
    fields_of,
    parse,
    read_json_file,
)
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.errors import ConfigError, CorpusError, checked, quoted
from bert_core.tasks.recipe import FinetuningRecipe

SCALES = (0.001, 1.0)
DEFAULT_RECIPE = "romeo-juliet"
GOING_ON_RATE = 3e-4  # the highest peak of the learning rate with which a trained model goes on, if none is given
_TRAINED_ON = "the text that it was trained on"  # of a recipe that was written with a model


@checked
@dataclass(frozen=True)
class Recipe:
    """All settings of a training run.

    name: the file's name without .json. scale: a factor on layers, heads, widths, batch, steps and warm-up, which
    `at_scale` applies, so that a recipe for many machines keeps its own numbers and still runs on one. seed: of the
    initial weights, pairs, masks and dropout. start: the model that training goes on from, with its tokenizer and
    sizes; `prepare` is given it. None means random weights. Raises ConfigError for settings that do not fit together.
    """

    name: str
    title: str
    description: str
    scale: float = 1.0
    seed: int = 0
    start: str | None = None
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: BertConfig = field(default_factory=BertConfig)
    data: DataConfig = field(default_factory=DataConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        low, high = SCALES
        if not isinstance(self.scale, int | float) or not low <= self.scale <= high:
            raise ConfigError(f"scale is {self.scale!r}; it must be a number from {low:g} to {high:g}.")
        check_seed(self.seed)
        if not isinstance(self.start, str | None):
            raise ConfigError(f"start is {quoted(self.start)}; it must be the name of a model.")
        if self.data.sequence_length > self.model.max_position_embeddings:
            raise ConfigError(
                f"sequence_length {self.data.sequence_length} is more than the {self.model.max_position_embeddings} "
                "positions of the model; lower it or raise max_position_embeddings."
            )

    @property
    def text_kind(self) -> str:
        """How a person's own text is split: as a recipe without a text of its own needs it, else detected."""
        return "auto" if self.corpus.file else self.corpus.kind

    def override(self, settings: dict[str, Any]) -> "Recipe":
        """A copy at scale with other settings, such as {"training.steps": 400, "scale": 0.5}; values may be strings.

        The scale applies to the recipe's numbers, never to the given ones. An explicit training.steps overrides the
        recipe's epochs and later parts. Raises ConfigError, which names the setting, the value and what is allowed.
        """
        if "training.steps" in settings:
            settings = {"training.epochs": None, "training.parts": (), **settings}
        scaled = dataclasses.replace(self, scale=parse(settings.get("scale", self.scale), float)).at_scale()
        sections: dict[str, dict[str, Any]] = {}
        for path, value in settings.items():
            section, _, name = path.partition(".")
            if path != "scale" and section not in _SECTIONS:
                raise ConfigError(f"There is no setting {path}; sections are: {', '.join(_SECTIONS)}.")
            if path != "scale":
                sections.setdefault(section, fields_of(getattr(scaled, section)))[name] = value
        changed = {section: build(_SECTIONS[section], values, section) for section, values in sections.items()}
        return dataclasses.replace(scaled, **changed)

    def with_seed(self, seed: int | None) -> "Recipe":
        """A copy with another seed; None keeps this one. Raises ConfigError for a seed out of range."""
        return self if seed is None else dataclasses.replace(self, seed=seed)

    def going_on_from(self, name: str, sizes: BertConfig) -> "Recipe":
        """A copy for a model of these sizes; dropout stays the recipe's.

        A recipe that begins with random weights gets a learning rate of at most GOING_ON_RATE, because the weights of a
        trained model are lost at its own; only Adadelta, whose rates mean something else, keeps it.
        """
        dropout = {each: value for each, value in fields_of(self.model).items() if "dropout" in each}
        training = self.training
        if self.start is None and training.optimizer != "adadelta":
            parts = (_slowed(part) for part in training.parts)
            training = dataclasses.replace(_slowed(training), parts=tuple(parts))
        model = dataclasses.replace(sizes, **dropout)
        return dataclasses.replace(self, start=name, model=model, training=training)

    def at_scale(self) -> "Recipe":
        """A copy with the scale applied and set to 1. The number of heads is scaled, their size is kept."""

        def scaled(number: int) -> int:
            return max(1, round(number * self.scale))

        def scaled_schedule(part: Any, before: int, **changes: Any) -> Any:
            # The end is rounded, not the number of steps, because the next part may begin where this one ends.
            start = changes.get("start", 0)
            end = max(start + 1, round((before + part.steps) * self.scale))
            warmup_steps = round(part.warmup_steps * self.scale)
            return dataclasses.replace(part, steps=end - start, warmup_steps=warmup_steps, **changes)

        heads = scaled(self.model.num_attention_heads)
        model = dataclasses.replace(
            self.model,
            num_hidden_layers=scaled(self.model.num_hidden_layers),
            num_attention_heads=heads,
            hidden_size=max(2, heads * (self.model.hidden_size // self.model.num_attention_heads)),
            intermediate_size=max(2, scaled(self.model.intermediate_size)),
        )
        rounded = (round(part.start * self.scale) for part in self.training.parts)
        starts = accumulate(rounded, lambda previous, start: max(previous + 1, start))
        parts = (scaled_schedule(part, part.start, start=start) for part, start in zip(self.training.parts, starts))
        training = scaled_schedule(self.training, 0, parts=tuple(parts))
        data = dataclasses.replace(self.data, batch_size=scaled(self.data.batch_size))
        return dataclasses.replace(self, scale=1.0, model=model, data=data, training=training)

    def for_text(self, corpus: Corpus) -> "Recipe":
        """This recipe for its own text; for another one, a copy that describes that text and says how it was read."""
        try:
            is_own = corpus.fingerprint == recipe_corpus(self).fingerprint
        except CorpusError:
            is_own = False
        if is_own:
            return self
        reading = {"kind": corpus.kind, "encoding": corpus.encoding} if corpus.kind else {"kind": self.text_kind}
        own = dataclasses.replace(self.corpus, file=None, needs=_TRAINED_ON, **reading)
        description = f"A text of your own, with the settings of the recipe {self.name}."
        if self.corpus.needs == _TRAINED_ON:  # it says so already, and by the first recipe's name
            description = self.description
        return dataclasses.replace(self, title=corpus.name, description=description, corpus=own)

    @classmethod
    def from_dict(cls, name: str, content: Any) -> "Recipe":
        """Check JSON content and build a recipe. Raises ConfigError."""
        texts = [content.get(key) for key in ("title", "description")] if isinstance(content, dict) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"The recipe {name} needs a title and a description.")
        unknown = set(content) - {"title", "description", *_SINGLE, *_SECTIONS}
        if unknown:
            raise ConfigError(f"The recipe {name} has no section {min(unknown)!r}; sections: {', '.join(_SECTIONS)}.")
        sections = {key: build(kind, content[key], key) for key, kind in _SECTIONS.items() if key in content}
        single = {key: content[key] for key in _SINGLE if key in content}
        return cls(name, content["title"], content["description"], **single, **sections)


def _slowed(part: Any) -> Any:
    return dataclasses.replace(part, learning_rate=min(part.learning_rate, GOING_ON_RATE))


_SINGLE = ("scale", "seed", "start")  # settings outside of the sections, which have defaults
_SECTIONS = {
    "corpus": CorpusConfig,
    "tokenizer": TokenizerConfig,
    "model": BertConfig,
    "data": DataConfig,
    "training": TrainingConfig,
}


def recipe_content(recipe: Recipe | FinetuningRecipe) -> dict[str, Any]:
    """The recipe as the JSON content that is saved beside a model and that its `from_dict` reads."""
    content = dataclasses.asdict(recipe)
    del content["name"]  # given by the file's name
    content.get("model", {}).pop("vocab_size", None)  # given by the text
    if content.get("start", "") is None:
        del content["start"]
    return content


def recipe_names() -> list[str]:
    """Names of the recipes of the program, the default first."""
    names = sorted(path.stem for path in (ASSETS / "recipes").glob("*.json"))
    return sorted(names, key=lambda name: name != DEFAULT_RECIPE)


@checked
def load_recipe(name_or_path: str | os.PathLike) -> Recipe:
    """A recipe of the program by its name, or one from a JSON file. Raises ConfigError."""
    path = Path(name_or_path)
    is_file = path.suffix == ".json"
    return Recipe.from_dict(path.stem, read_json_file(path, "recipe")) if is_file else recipe_named(str(name_or_path))


def recipe_named(name: str) -> Recipe:
    """A recipe of the program by its name; unlike `load_recipe`, it never opens another path. Raises ConfigError."""
    if name not in recipe_names():
        raise ConfigError(f"There is no recipe {str(name)[:60]!r}; there are: {', '.join(recipe_names())}.")
    return Recipe.from_dict(name, read_json_file(ASSETS / "recipes" / f"{name}.json", "recipe"))


def recipe_corpus(recipe: Recipe) -> Corpus:
    """The recipe's own text. Raises CorpusError if it has none."""
    if recipe.corpus.file is None:
        raise CorpusError(f"The recipe {recipe.title!r} comes without a text; give it {recipe.corpus.needs}.")
    return read_corpus(ASSETS / "corpora" / Path(recipe.corpus.file).name, kind=recipe.corpus.kind)
