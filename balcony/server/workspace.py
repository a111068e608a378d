"""One visitor's runs and models.

An unguessable token is all that identifies a visitor. Handlers find runs through the visitor's workspace, so nobody
can see or stop another's run, and a wrong token and an unknown run give the same error.
"""

import itertools
import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from balcony.handlers import own
from balcony.server import memory
from bert_core.errors import RunError, first_three
from bert_core.runs.recipe import FinetuningRecipe, Recipe, recipe_named, recipe_names
from bert_core.runs.run import ACTIVE, TRAINING, Run
from bert_core.storage.checkpoint import Checkpoint

NOT_YOURS = "This run is not here: it is not one of yours, or the server has restarted."
NO_RUN_YET = "There is no run yet; press Start."
STOP_IT_FIRST = "Stop it before you start another."  # ends the sentence with which the page offers to stop that run
NO_MODEL_YET = "Your run is being prepared; its model comes in a moment."
MOST_RUNS = 24
LONGEST_NAME = 60
# Of other runs' curves, drawn over those of the shown run.
RUN_COLOURS: tuple[str, ...] = ("#8b5cf6", "#0891b2", "#ec4899", "#65a30d", "#ef4444", "#a8715a")
RUN_COLOURS += ("#08a07a", "#ff05ea", "#8f5095", "#67732b", "#9705ff", "#f06400")
RUN_LOOKS = tuple((colour, dotted) for dotted in (False, True) for colour in RUN_COLOURS)  # one for each of MOST_RUNS
PASTED_TEXT = "Your text"  # the name of a text that was pasted
# In a run's name, settings that are not those of the first run of its kind: the most telling ones first.
DIFFERENCES = {
    "model.num_hidden_layers": "{} layers",
    "training.learning_rate": "rate {:g}",
    "data.mask_probability": "{:.0%} to predict",
    "model.num_attention_heads": "{} heads",
    "model.hidden_size": "hidden size {}",
    "training.steps": "{:,} steps",
    "training.epochs": "{} epochs",
    "data.batch_size": "batch size {}",
    "seed": "seed {}",
}
MOST_DIFFERENCES = 2
MODEL_BYTES = 2**20  # of a model beside its weights: modules, tokenizer
MOST_BUILT = 2  # checkpoints built from snapshots and kept: the newest and the selected one


def _without(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {each: value for each, value in values.items() if each != key}


def is_finetuning(run: Run) -> bool:
    """Whether a run learns a task, from labelled examples."""
    return isinstance(run.recipe, FinetuningRecipe)


def own_text_of(run: Run) -> str:
    """The name of the file with a person's own text or examples that a run learns from; "" for another run."""
    recipe = run.recipe
    is_own = not recipe.files if isinstance(recipe, FinetuningRecipe) else recipe.corpus.file is None
    title = recipe.title.removesuffix(".txt")
    return title if is_own and title != PASTED_TEXT else ""


def difference(settings: dict[str, Any], first: dict[str, Any]) -> list[str]:
    """The settings of a run, in words, that the first one has otherwise."""
    others = {name: value for name, value in settings.items() if value is not None and value != first.get(name)}
    found = (words.format(others[name]) for name, words in DIFFERENCES.items() if name in others)
    return [re.sub("^(1 .*)s$", r"\1", each) for each in found][:MOST_DIFFERENCES]


def _named_settings(recipe: Recipe | FinetuningRecipe) -> dict[str, Any]:
    names = [name for name in DIFFERENCES if name == "seed" or name in recipe.settings()]
    found = {name: attrgetter(name)(recipe) for name in names}
    return found | {"training.steps": recipe.training.total_steps} if "training.steps" in found else found


def _base(asked: Recipe | FinetuningRecipe) -> dict[str, Any]:
    """What the settings of a recipe's runs are compared with in their names: those of the recipe as Balcony has it, so
    that a run from a link or a file keeps its name, with the length and the seed of the first run."""
    settings = _named_settings(asked)
    if not isinstance(asked, Recipe) or asked.name not in recipe_names():
        return settings
    found = _named_settings(recipe_named(asked.name))
    return settings | {name: found[name] for name in found if name not in ("training.steps", "training.epochs", "seed")}


@dataclass(eq=False)
class Model:
    """A model that the probing tabs can use. shown: its title with a person's own words marked, "" without such."""

    title: str
    detail: str
    checkpoint: Checkpoint
    shown: str = ""

    @property
    def nbytes(self) -> int:
        return MODEL_BYTES + sum(weight.nbytes for weight in self.checkpoint.model.parameters())


@dataclass(frozen=True)
class Entry:
    """A run in the visitor's list. number: in the list of its kind, from 1, never reused. variant: its title in an
    experiment, else "". colour, is_dotted: of its curves over another run's; runs of one variant share them.
    settings: those that names tell, as it was asked for. base: what they are compared with, see `_base`."""

    number: int
    variant: str
    colour: str
    is_dotted: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    base: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Workspace:
    """What one visitor has: runs by id, and loaded or kept models by key. Other threads iterate over these mappings, so
    a change puts another one in the place of one of them.

    token: "" until the visitor of a run that was kept on the disk comes back. caller: address of the program whose
    run it is, None for a page's.
    entries: the list of runs, by run id. unlisted: runs that end when they are measured, and no list shows. names: that
    the person gave to runs and models. dropped: names of runs that made room for newer ones. limit: bytes for all of
    it. last_seen: when the lease was renewed, by the service's clock. is_readmitted: the server has restarted, and the
    page does not know.
    """

    token: str
    limit: int = memory.BUDGET_BYTES
    owner: object = field(default_factory=object)
    runs: Mapping[str, Run] = field(default_factory=dict)
    entries: Mapping[str, Entry] = field(default_factory=dict)
    unlisted: list[Run] = field(default_factory=list)
    models: Mapping[str, Model] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    last_seen: float = 0.0
    is_away: bool = False
    caller: str | None = None
    is_readmitted: bool = False
    _numbers: list[Iterator[int]] = field(default_factory=lambda: [itertools.count(1), itertools.count(1)])
    _dropped_titles: dict[str, int] = field(default_factory=dict)  # the lowest number of each
    _built: dict[tuple[str, int], Checkpoint] = field(default_factory=dict)
    _building: threading.Lock = field(default_factory=threading.Lock)
    _changing: threading.Lock = field(default_factory=threading.Lock)  # held while a mapping is replaced
    _left: list[Run] = field(default_factory=list)  # that were paused, because the visitor was away

    def touch(self, now: float) -> None:
        """Renew the lease; the runs that were paused at its end continue."""
        self.last_seen, self.is_away = now, False
        left, self._left = self._left, []
        for run in left:
            if run.status in ACTIVE:
                run.resume()

    def leave(self) -> None:
        """Pause the runs of a visitor who stays away."""
        self.is_away = True
        for run in self.all_runs:
            if run.status in TRAINING and run not in self._left:
                done = f"Paused at step {run.steps_done}"
                run.pause(f"{done}, because nobody was watching; it continues when you do.")
                self._left.append(run)

    @property
    def used(self) -> int:
        """The bytes that its runs and models take."""
        return memory.used_by(self)

    def run(self, run_id: str) -> Run:
        """The visitor's run of that id; RunError with one fixed sentence for any other."""
        try:
            return self.runs[run_id]
        except (KeyError, TypeError):
            raise RunError(NOT_YOURS) from None

    def title_of(self, run: Run) -> str:
        """The run's name on the page: the person's own, or what tells it from others, and then its text's or recipe's.
        Its number comes first if an earlier run has the same, or had it before it was dropped."""
        if own := self.names.get(run.id):
            return own
        title, number = self.plain_title(run), self.entries[run.id].number
        alike = (self.entries[other.id].number for other in self.runs.values() if self.plain_title(other) == title)
        first = min(*alike, number, self._dropped_titles.get(title, number))
        return (f"Run {number} · " if first < number else "") + title

    def shown_title(self, key: str, title: str) -> str:
        """The title of a run or a model with the words marked that a person wrote: a name, or a file's."""
        words = self.names.get(key, "")
        if not words and (run := self.runs.get(key)):
            words = own_text_of(run)
        elif not words and (model := self.models.get(key)):
            words = model.title
        return title.replace(words, own(words), 1) if words else title

    def plain_title(self, run: Run) -> str:
        """The same without a number or a name of the person's: its variant or missing objective, the settings that
        differ, its text or recipe."""
        training, entry = run.recipe.training, self.entries[run.id]
        if is_finetuning(run):
            missing = ["random start"] * run.recipe.random_weights
        else:
            model = run.recipe.model
            parts = {"MLM": training.mlm_weight, "NSP": training.nsp_weight, "positions": model.use_position_embeddings}
            parts["segments"] = model.use_token_type_embeddings
            missing = [f"without {name}" for name, is_there in parts.items() if not is_there]
        title = run.recipe.title.removesuffix(".txt")
        steps = {"training.steps": training.total_steps} if training.parts else {}  # it was asked for more
        differing = difference(entry.settings | steps, entry.base)
        return " · ".join([*([entry.variant] if entry.variant else missing), *differing, title])

    def rename(self, key: str, name: str) -> None:
        """Give a run or a model another name, "" for its first one. RunError for another visitor's."""
        if key not in self.models:
            self.run(key)
        with self._changing:
            self.names = {**self.names, key: " ".join(name.split())[:LONGEST_NAME]}

    @property
    def all_runs(self) -> list[Run]:
        """The listed runs and the others."""
        return [*self.runs.values(), *self.unlisted]

    @property
    def active_run(self) -> Run | None:
        """The first run that has not ended; later ones wait for it."""
        return next((run for run in self.all_runs if run.status in ACTIVE), None)

    @property
    def pretraining_runs(self) -> list[Run]:
        return [run for run in self.runs.values() if not is_finetuning(run)]

    @property
    def finetuning_run(self) -> Run | None:
        """The newest listed run that fine-tunes."""
        return next((run for run in reversed([*self.runs.values()]) if is_finetuning(run)), None)

    @property
    def current_run(self) -> Run | None:
        """The active pretraining run, else the newest one; those of experiments come after all others."""
        runs = self.pretraining_runs
        active = (run for run in runs if run.status in ACTIVE)
        ended = sorted(runs, key=lambda run: not self.entries[run.id].variant)
        return next(active, None) or next(reversed(ended), None)

    def stop(self) -> None:
        """Stop the active run and those that wait for it."""
        for run in reversed(self.all_runs):
            if run.status in ACTIVE:
                run.stop(wait=False)

    def refuse_if_active(self) -> None:
        """RunError while a run has not ended, which it names."""
        if (run := self.active_run) is None:
            return
        known = run.id in self.runs  # the runs of a comparison are in no list
        name = self.shown_title(run.id, self.title_of(run)) if known else "The comparison of initial weights"
        raise RunError(f"“{name}” has not ended. Stop it before you start another.")

    def refuse_if_full(self) -> None:
        """RunError where a new run could only take the place of one that the person has named."""
        ended = [run for run in self.runs.values() if run.status not in ACTIVE]
        if len(self.runs) >= MOST_RUNS and ended and all(self.names.get(run.id) for run in ended):
            raise RunError(
                f"A page keeps {MOST_RUNS} runs, and you have named all that could make room for this one. Empty the "
                "name of one that may go."
            )

    @property
    def dropped_notes(self) -> list[str]:
        """That runs were dropped, in one sentence or none."""
        if not self.dropped:
            return []
        names = first_three(self.dropped[::-1])
        return [f"Made room for newer runs: {names}. A page keeps {MOST_RUNS}; a run that you name is not dropped."]

    def add_run(self, run: Run, variant: str = "") -> None:
        """Keep a run. With too many runs or bytes, the oldest ended ones without a name of the person's are dropped."""
        number, asked = next(self._numbers[is_finetuning(run)]), run.asked
        alike_runs = (
            self.entries[other.id]
            for other in self.runs.values()
            if (type(other.asked), other.asked.name) == (type(asked), asked.name)
        )
        base = next((entry.base for entry in alike_runs if entry.variant == variant), None) or _base(asked)
        looks = {(entry.colour, entry.is_dotted): entry.variant for entry in self.entries.values()}
        alike = (look for look, of in looks.items() if variant and of == variant)
        at = number % len(RUN_LOOKS)
        free = (look for look in RUN_LOOKS[at:] + RUN_LOOKS[:at] if look not in looks)
        look = next(itertools.chain(alike, free, RUN_LOOKS[at : at + 1]))
        entry = Entry(number, variant, *look, _named_settings(asked), base)
        with self._changing:
            self.entries, self.runs = {**self.entries, run.id: entry}, {**self.runs, run.id: run}
        memory.make_room(self)
        ended = [other for other in self.runs.values() if other.status not in ACTIVE and other is not run]
        for old in (other for other in ended if not self.names.get(other.id)):
            if len(self.runs) <= MOST_RUNS and self.used <= self.limit:
                break
            self.dropped.append(self.title_of(old))
            self._forget(old)

    def remove(self, run_id: str) -> None:
        """Forget an ended run, and free all that it keeps. RunError for an active one and for another visitor's."""
        run = self.run(run_id)
        if run.status in ACTIVE:
            raise RunError("This run has not ended. Stop it before you remove it.")
        self._forget(run)
        run.free("Removed.")

    def _forget(self, run: Run) -> None:
        title, number = self.plain_title(run), self.entries[run.id].number
        self._dropped_titles[title] = min(number, self._dropped_titles.get(title, number))
        with self._changing:
            found = self.runs, self.entries, self.names
            self.runs, self.entries, self.names = (_without(each, run.id) for each in found)
        with self._building:
            self._built = {key: built for key, built in self._built.items() if key[0] != run.id}

    def add_model(self, model: Model) -> str:
        """Keep a loaded or saved model and return its key; RunError when it exceeds the limit."""
        memory.check_model(self, model.nbytes)
        key = secrets.token_hex(8)
        with self._changing:
            self.models = {**self.models, key: model}
        memory.make_room(self)
        return key

    def remove_model(self, key: str) -> None:
        """Forget a loaded or kept model."""
        with self._changing:
            self.models = _without(self.models, key)

    def checkpoint(self, run: Run, step: int | None = None) -> tuple[int, Checkpoint] | None:
        """Step and checkpoint of the run's snapshot nearest to `step`, None for the newest; None before the first."""
        snapshots = run.snapshots
        if not snapshots:
            return None
        found = snapshots[-1] if step is None else min(snapshots, key=lambda snapshot: abs(snapshot.step - step))
        key = (run.id, found.step)
        with self._building:
            checkpoint = self._built.pop(key, None) or found.checkpoint()
            self._built[key] = checkpoint  # the most recently used comes last
            while len(self._built) > MOST_BUILT:
                del self._built[next(iter(self._built))]
        return found.step, checkpoint
