"""A visitor's question, with the models and the text that it names."""

import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path

from balcony.frame.question import Question
from balcony.server.workspace import NOT_YOURS, Model, Workspace, is_finetuning
from balcony.server.workspaces import Workspaces
from bert_core.config import ASSETS
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.errors import RunError
from bert_core.probes.stages import without_heads
from bert_core.runs.recipe import DEFAULT_RECIPE, recipe_named
from bert_core.runs.run import Run
from bert_core.storage.checkpoint import Checkpoint

# Sentences for the shipped models whose own text is not shipped.
SAMPLES = {"english-mini": "english.txt", "chinese-poems": "poems.txt"}


@dataclass(frozen=True)
class PageRequest:
    """A visitor's question, with the models and the text that it names.

    space: an empty one where the visitor is unknown: a page that is older than the server asks on until it gets another
    token. given: the question, or its JSON.
    """

    workspaces: Workspaces
    space: Workspace
    given: object

    @functools.cached_property
    def question(self) -> Question:
        """Raises InputError for a malformed one."""
        return self.given if isinstance(self.given, Question) else Question.read(self.given)

    @property
    def key(self) -> str:
        """The name of the shown model, also where the question does not say it."""
        return self.question.model or self.workspaces.shipped_names[0]

    @property
    def pretraining(self) -> Run | None:
        """The run whose model is shown, if that learns from a text."""
        run = self.space.runs.get(self.question.model)
        return None if run is None or is_finetuning(run) else run

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
    def other_or_why(self) -> tuple[Model | None, str]:
        """The same, and a sentence that says why it is missing, "" where it is not."""
        try:
            return self.other, ""
        except RunError as error:
            return None, str(error)

    @property
    def corpus(self) -> Corpus:
        return corpus_of(self.space, self.question.model)

    @property
    def visitor(self) -> Workspace:
        """The workspace, to change it. Raises RunError for an unknown visitor."""
        if not self.space.token:
            raise RunError(NOT_YOURS)
        return self.space


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
