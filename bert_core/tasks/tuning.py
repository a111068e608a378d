"""Fine-tuning: an encoder and a new output layer learn a task (Devlin et al. 2018, section 4 and appendix A.3).

task = load_task("train.tsv", "text-classification")
result = finetune(load_checkpoint("checkpoints/english-mini"), task, epochs=3)
result.validation["accuracy"], predict(result.checkpoint, ["a fine film"])
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from bert_core.config import BertConfig, FinetuningConfig
from bert_core.costs import batch_operations, check_size, choose_device, estimate_seconds, training_bytes
from bert_core.data.encoding import notes_on_unknown
from bert_core.data.tokenizer import CLS, SEP, UNK, special_ids
from bert_core.errors import CheckpointError, ConfigError, CorpusError
from bert_core.storage.checkpoint import Checkpoint, TaskHead
from bert_core.tasks.examples import TASKS, TaskData, TaskParts, model_of, predicting, score
from bert_core.tasks.recipe import FinetuningRecipe
from bert_core.tasks.task import BertForTask, Layout, Metrics, Prediction, Row, Task, TaskBatch, TaskBatches
from bert_core.training.metrics import Fractions, Numbers
from bert_core.training.trainer import Trainer


@dataclass(frozen=True, eq=False)
class TaskMetrics(Numbers):
    """The numbers of one step; see `StepMetrics`.

    loss: in nats, for regression the mean squared error. accuracy: fraction right; nan for regression. Of an answer,
    start and end count on their own; several labels are right if all of them are.
    """

    step: int
    loss: float
    accuracy: float
    learning_rate: float
    grad_norm: float
    tokens: int
    seconds: float

    losses: ClassVar = ("loss",)
    measured: ClassVar = ("loss", "accuracy")


@dataclass(frozen=True, eq=False)
class EpochMetrics(Numbers):
    """The validation part after a step, measured without dropout; nan for measures that the task does not have.

    epoch: passes through the training part so far. loss: as in `TaskMetrics`. The others: see `metrics`.
    """

    step: int
    epoch: float
    loss: float
    accuracy: float = math.nan
    precision: float = math.nan
    recall: float = math.nan
    f1: float = math.nan
    exact_match: float = math.nan
    matthews_correlation: float = math.nan
    pearson: float = math.nan
    spearman: float = math.nan

    @property
    def measures(self) -> Metrics:
        """The measures that the task has, by name."""
        values = dataclasses.asdict(self)
        return {name: values[name] for name in list(values)[3:] if not math.isnan(values[name])}


class TaskObjective:
    """The `Objective` of fine-tuning for a kind of task."""

    metrics: ClassVar = TaskMetrics

    def __init__(self, task: Task) -> None:
        self.task = task

    def send(self, batch: TaskBatch, device: torch.device) -> TaskBatch:
        return batch.to(device)

    def operations(self, config: BertConfig, batch: TaskBatch) -> float:
        lengths = batch.attention_mask.flatten(0, -2).sum(1)
        return batch_operations(dataclasses.replace(config, vocab_size=6, pad_token_id=0), lengths, 0)

    def optimizers(self, config: FinetuningConfig) -> int:
        return 1

    def measure(self, model: BertForTask, batch: TaskBatch) -> Fractions:
        assert batch.target is not None
        return self.task.numbers(batch.logits(model), batch.target)

    def loss(self, numbers: Tensor, config: FinetuningConfig, step: int) -> Tensor:
        return numbers[0]


def task_model(start: Checkpoint, recipe: FinetuningRecipe, outputs: int | None) -> BertForTask:
    """A model with the encoder of a checkpoint, or a random one, and a new pooler and output layer, drawn by the seed.

    Only the pooler of a fine-tuned checkpoint is kept: next-sentence training drives it to -1 and 1, where tanh passes
    on hardly any gradient (Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning", draw it anew too).
    """
    rates: dict[str, Any] = dict.fromkeys(
        ("hidden_dropout_prob", "attention_probs_dropout_prob"), recipe.training.dropout
    )
    config = dataclasses.replace(start.config, classifier_dropout=None, **rates)
    generator = torch.Generator().manual_seed(recipe.seed)
    model = TASKS[recipe.task].model(config, outputs, generator=generator)
    if not recipe.random_weights:
        left_out = "-" if start.head is not None and "pooler" not in start.missing else "pooler."
        encoder = start.model.bert.state_dict().items()
        known = {name: tensor for name, tensor in encoder if not name.startswith(left_out)}
        model.bert.load_state_dict(known, strict=False)
    return model


@dataclass(frozen=True)
class PreparedTask:
    """A task and a model that are ready to train.

    recipe: with its number of steps. parts: the examples to train on, and those held out, which are never None but for
    the test. given: the parts as they were given. labels: of the model's outputs, empty for regression,
    choices and answers. batches, validation: of the parts. device: to train on. notes: what the readers changed, and
    how many words are unknown, one sentence each.
    """

    recipe: FinetuningRecipe
    parts: TaskParts
    given: TaskParts
    labels: tuple[str, ...]
    tokenizer: Tokenizer
    model: BertForTask
    batches: TaskBatches
    validation: TaskBatches
    device: str
    notes: tuple[str, ...]

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the given parts; see `TaskParts.fingerprint`."""
        return self.given.fingerprint

    def trainer(self, device: str | None = None) -> Trainer:
        """A trainer of the model. device: another one than it was prepared for."""
        model, objective = self.model.to(device or self.device), TaskObjective(self.parts.train.kind)
        operations = objective.operations(model.config, self.batches[0])
        return Trainer(
            *(model, self.batches, self.recipe.training),
            seed=self.recipe.seed,
            operations=operations,
            objective=objective,
        )

    def evaluator(self, points: Sequence[EpochMetrics] = ()) -> "TaskEvaluator":
        """An evaluator on the validation part, which has these results so far."""
        return TaskEvaluator(self, points)

    @property
    def head(self) -> TaskHead:
        """The output layer without its weights."""
        shape = self.model.output_layer.weight.shape
        weight = torch.empty(shape, device="meta")
        is_regression = self.recipe.task == "text-regression"
        is_multi_label = self.parts.train.is_multi_label
        return TaskHead(type(self.model).__name__, self.labels, is_regression, weight, weight[:, 0], is_multi_label)

    def load(self, checkpoint: Checkpoint) -> None:
        """Take the weights of a checkpoint of this task. Raises CheckpointError for one of another task."""
        head = checkpoint.head
        if head is None or (head.architecture, head.labels) != (self.head.architecture, self.labels):
            raise CheckpointError("The model has other labels than these examples; give the same file, unchanged.")
        self.model.load_state_dict(model_of(checkpoint).state_dict())

    @property
    def config(self) -> BertConfig:
        """The sizes of the model."""
        return self.model.config

    @property
    def training_bytes(self) -> int:
        """Estimated bytes of training beside snapshots and examples."""
        rows = self.recipe.data.batch_size * (self.parts.train.choices or 1)
        return training_bytes(self.config, rows, self.batches.longest, 0)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of the examples as tokens."""
        return sum(500 + 36 * len(row.ids) for part in (self.batches, self.validation) for row in part.rows)

    def seconds(self, steps: int, device: str) -> float:
        """Estimated training time of so many steps."""
        lengths = self.batches[0].attention_mask.flatten(0, -2).sum(1)
        return estimate_seconds(steps, self.config, lengths, 0, device)


def prepare_task(
    recipe: FinetuningRecipe,
    start: Checkpoint,
    parts: TaskParts | None = None,
    device: str = "auto",
    *,
    progress: Callable[[str], None] = lambda stage: None,
    admit: Callable[["PreparedTask"], None] = lambda task: None,
) -> PreparedTask:
    """Read and encode a task and build its model, without the global random generator.

    start: the model whose encoder, tokenizer and sizes it takes. parts: None for the recipe's own. device: see
    `choose_device`. progress: called
    with the present stage. admit: called before the model is built. Raises BertCoreError for data that cannot be
    learned.
    """
    device = choose_device(device)
    progress("reading the examples")
    given = parts or recipe.parts()
    if any(part and part.task != recipe.task for part in (given.train, given.validation, given.test)):
        raise CorpusError(f"The recipe is for {recipe.task}; give it examples of that task.")
    recipe, train, validation = recipe.for_parts(given), given.train, given.validation
    data, seed = recipe.data, recipe.seed
    if validation is None:
        train, validation = train.split(data.validation_share, seed)
    labels = train.labels()
    if data.most_examples is not None:
        train = train.sample(data.most_examples, seed)
    for part in (validation, given.test):
        if part and part.is_multi_label != train.is_multi_label:
            raise CorpusError(f"{part.name} and the training part must both have one label for a text, or several.")
        if part and part.choices != train.choices:
            raise CorpusError(f"{part.name} has {part.choices} choices where the training part has {train.choices}.")
        if part and part.texts != train.texts:
            raise CorpusError(f"{part.name} and the training part must both have single texts, or pairs of texts.")
    if given.test:
        given.test.check_labels(labels)
    data = dataclasses.replace(data, sequence_length=min(data.sequence_length, start.config.max_position_embeddings))
    progress("encoding the examples")

    def batches_of(part: TaskData) -> TaskBatches:
        return part.batches(Layout(labels, start.tokenizer, data), start.config.pad_token_id, seed)

    batches, held_out = batches_of(train), batches_of(validation)
    unknown = _unknown_share(batches.rows, start.tokenizer)
    remedy = "choose a model that knows them, such as english-mini for English"
    notes = tuple(dict.fromkeys(note for part in (train, validation, given.test) if part for note in part.notes))
    notes += notes_on_unknown(unknown, train.name, remedy)
    training, steps = recipe.training, recipe.training.steps
    if training.epochs is not None:
        steps = max(1, math.ceil(training.epochs * batches.steps_per_epoch))
    warmup_steps = min(training.warmup_steps or round(training.warmup_fraction * steps), steps)
    prepared = dataclasses.replace(
        recipe,
        start=recipe.start or start.name,
        may_be_missing=any(not getattr(each, "answers", True) for each in train.examples),
        columns=train.columns or ("1", "2", "3")[: train.texts + 1 if train.texts else 0],
        data=data,
        training=dataclasses.replace(training, steps=steps, warmup_steps=warmup_steps),
    )
    used = TaskParts(train, validation, given.test)
    outputs = len(labels) or None
    with torch.device("meta"):
        sizes = TASKS[recipe.task].model(start.config, outputs)
    task = PreparedTask(prepared, used, given, labels, start.tokenizer, sizes, batches, held_out, device, notes)
    check_size(task.config, task.training_bytes, device)
    admit(task)
    progress("drawing the initial weights")
    model = task_model(start, prepared, outputs)
    _freeze(model, training.frozen_layers)
    return dataclasses.replace(task, model=model)


def _unknown_share(rows: Sequence[Row], tokenizer: Tokenizer) -> float:
    """The fraction of the words of rows that are [UNK]."""
    ids, special = np.concatenate([row.ids for row in rows]), special_ids(tokenizer)
    words = ids[~np.isin(ids, [special[CLS], special[SEP]])]
    return float((words == special[UNK]).mean()) if len(words) else 0.0


def _freeze(model: BertForTask, count: int) -> None:
    """Keep the embeddings and so many of the lowest layers as they are."""
    layers = model.bert.encoder.layer
    if count > len(layers):
        raise ConfigError(f"frozen_layers is {count}; the model has {len(layers)} layers.")
    for module in (model.bert.embeddings, *layers[:count]) if count else ():
        module.requires_grad_(False)


class TaskEvaluator:
    """Evaluates snapshots on the validation part after epochs, one batch at a time, as `Evaluator` does.

    every: number of steps from one evaluation to the next. points: the results so far, oldest first. latest_step: of
    the last evaluation that has begun, 0 before the first. best: the snapshot of `best_step`, None without one.
    """

    def __init__(self, prepared: PreparedTask, points: Sequence[EpochMetrics] = ()) -> None:
        self._prepared, self.points = prepared, list(points)
        self.every = prepared.recipe.training.evaluate_every * prepared.batches.steps_per_epoch
        self.latest_step = points[-1].step if points else 0
        self.best: Any = None
        self._snapshot: Any = None  # that is being evaluated, by `_work`
        self._work: Generator[float, None, tuple[list[Prediction], float]] | None = None

    @property
    def is_running(self) -> bool:
        """Whether an evaluation has begun and has not ended."""
        return self._work is not None

    def may_begin(self, step: int, training_seconds: float) -> bool:
        """Whether to evaluate this step: the last one of an epoch."""
        return step > self.latest_step and step % self.every == 0

    def begin(self, snapshot: Any) -> None:
        """Begin to evaluate a snapshot; a running evaluation ends first."""
        while self.is_running:
            self.advance()
        prepared, recipe = self._prepared, self._prepared.recipe
        assert prepared.parts.validation is not None
        layout = Layout(prepared.labels, prepared.tokenizer, recipe.data, recipe.may_be_missing)
        self.latest_step, self._snapshot = snapshot.step, snapshot
        model, data = model_of(snapshot.checkpoint()), prepared.parts.validation
        self._work = predicting(data.kind, model, prepared.validation, data.examples, layout)

    def advance(self) -> None:
        """Evaluate one batch, if an evaluation is running."""
        if self._work is None:
            return
        try:
            next(self._work)
        except StopIteration as end:
            found, loss = end.value
            prepared, snapshot = self._prepared, self._snapshot
            self._work = self._snapshot = None
            assert prepared.parts.validation is not None
            measures = score(prepared.parts.validation, found, prepared.labels)
            epoch = snapshot.step / prepared.batches.steps_per_epoch
            self.points.append(EpochMetrics(snapshot.step, epoch, loss, **measures))
            if self.best_step == snapshot.step:
                self.best = snapshot

    @property
    def best_step(self) -> int | None:
        """The step that did best so far; None before the first result, and if the recipe keeps the last weights.

        Of equal ones it is the latest: few examples give few different values.
        """
        recipe = self._prepared.recipe
        if not self.points or not recipe.training.keep_best:
            return None
        measure = self._prepared.parts.train.kind.measure
        return max(self.points, key=lambda point: (getattr(point, measure), point.step)).step
