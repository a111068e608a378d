"""A job: what a model learns from, ready to train. A text's and a task's have the same protocol."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch.distributed as dist
from tokenizers import Tokenizer
from torch import Tensor, nn

from bert_core.config import BertConfig, Limits
from bert_core.errors import CheckpointError, ConfigError
from bert_core.runs.snapshots import Snapshot
from bert_core.storage.checkpoint import Checkpoint, TaskHead
from bert_core.training.distributed import DistributedTrainer
from bert_core.training.objective import Objective, StepRow
from bert_core.training.trainer import Trainer, step_cost


@dataclass(frozen=True, eq=False)
class Job(ABC):
    """A text or a task with all that its training needs but the weights, which `first_model` draws."""

    is_text: ClassVar[bool]

    recipe: Any  # a Recipe or a FinetuningRecipe, with its number of steps, sizes, held-out fraction and seed
    source: Any  # a Corpus or, for a task, TaskParts, as it was given
    parts: Any  # TextParts or, for a task, TaskParts, whose validation part is never None
    tokenizer: Tokenizer
    config: BertConfig  # sizes of the model
    objective: Objective
    batches: Any  # of the training part
    validation: Any  # batches of that part, if there is one
    device: str  # to train on
    training_bytes: int  # estimated, of training beside snapshots and text
    notes: tuple[str, ...] = ()  # one sentence each
    start: Checkpoint | None = None  # the model to begin with, if any; a run that has begun drops it
    head: TaskHead | None = None  # the output layer of a task
    evaluate_every: int = 0  # steps from one evaluation on held-out data to the next, 0 where nothing is held out
    best_by: str = ""  # the measure by which the best snapshot is chosen, if any is
    test: Any = None  # batches of that part of a text, if there is one

    @abstractmethod
    def first_model(self) -> nn.Module:
        """A model with its initial weights: drawn by the seed, or those of the start."""

    @abstractmethod
    def weights_of(self, saved: Checkpoint) -> Mapping[str, Tensor]:
        """The weights of a model that was saved in this training, by the names of `first_model`."""

    @abstractmethod
    def evaluate(self, snapshot: Snapshot) -> Iterator[StepRow | None]:
        """Evaluate a snapshot on held-out data: yields None after each batch, and at the end the row of numbers."""

    def verdict(self, history: Sequence[StepRow], evaluations: Sequence[StepRow]) -> list[str]:
        return []

    def trainer(self) -> Trainer:
        """A trainer of a new model; each of several processes makes its own."""
        model, recipe = self.first_model().to(self.device), self.recipe
        kind = DistributedTrainer if dist.is_initialized() else Trainer
        return kind(model, self.batches, recipe.training, seed=recipe.seed, objective=self.objective)

    def load(self, model: nn.Module, saved: Checkpoint) -> None:
        """Give a model the weights that were saved in this training. Raises CheckpointError for another model."""
        fits = saved.config == model.config and saved.head == self.head
        if not fits or saved.tokenizer.get_vocab() != self.tokenizer.get_vocab():
            raise CheckpointError(
                "The model does not fit its recipe.json, or this program's tokenizer differs from that of the program "
                "that saved it; its training cannot continue."
            )
        model.load_state_dict(self.weights_of(saved))

    def seconds(self, steps: int) -> float:
        """Estimated training time of so many steps."""
        cost = step_cost(self.config, self.batches, self.objective, self.device)
        return steps * cost.seconds(self.recipe.training.precision)


def check_limits(job: Job, limits: Limits) -> None:
    """Raise ConfigError when a run would exceed the limits of this place."""
    check_steps(job.recipe.training.total_steps, limits)
    parameters, seconds = job.config.parameter_count(), job.seconds(1)
    if parameters > limits.parameters:
        raise ConfigError(
            f"This model has {parameters / 1e6:.1f} million parameters; the limit here is {limits.parameters / 1e6:g} "
            "million. Choose fewer layers, a smaller hidden size or a smaller vocabulary."
        )
    if seconds > limits.step_seconds:
        raise ConfigError(
            f"A step would take about {seconds:.0f} s; the limit here is {limits.step_seconds:g} s. Choose a smaller "
            "model, shorter sequences or smaller batches."
        )


def check_steps(steps: int, limits: Limits) -> None:
    """Raise ConfigError when a run would have too many steps for this place."""
    if steps > limits.steps:
        raise ConfigError(f"This run would have {steps:,} steps; the limit here is {limits.steps:,}. Choose fewer.")
