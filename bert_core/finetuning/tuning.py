"""Fine-tuning: an encoder and a new output layer learn a task (Devlin et al. 2018, section 4 and appendix A.3).

task = load_task("train.tsv", "text-classification")
result = finetune(load_checkpoint("checkpoints/english-mini"), task, epochs=3)
result.validation["accuracy"], predict(result.checkpoint, ["a fine film"])
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bert_core.config import BertConfig, FinetuningConfig, FinetuningData, build, fields_of
from bert_core.costs import batch_operations, threads_for
from bert_core.errors import CheckpointError, ConfigError, CorpusError, InputError, RunError
from bert_core.finetuning import heads
from bert_core.finetuning.batches import TaskBatch, TaskBatches, TaskMeasures, task_loss
from bert_core.finetuning.examples import AnswerExample, ChoiceExample, Example, TaggedExample, TaskData, TextExample
from bert_core.finetuning.features import task_rows
from bert_core.finetuning.metrics import Metrics
from bert_core.finetuning.prediction import Prediction, predictions, score
from bert_core.model import BertForPreTraining
from bert_core.storage.checkpoint import Checkpoint, TaskHead
from bert_core.training.metrics import read_metrics, until_divergence
from bert_core.training.trainer import Trainer

MODEL_CLASSES: dict[str, type[heads.BertForTask]] = {
    "text-classification": heads.BertForSequenceClassification,
    "text-regression": heads.BertForSequenceClassification,
    "multiple-choice": heads.BertForMultipleChoice,
    "question-answering": heads.BertForQuestionAnswering,
    "token-classification": heads.BertForTokenClassification,
}
# The measure by which the best epoch is chosen.
MAIN_MEASURE = {
    "text-classification": "accuracy",
    "text-regression": "pearson",
    "multiple-choice": "accuracy",
    "question-answering": "f1",
    "token-classification": "f1",
}
_PREDICTED_TOGETHER = 64  # examples


@dataclass(frozen=True)
class TaskMetrics:
    """The numbers of one step; see `StepMetrics` and `TaskMeasures`."""

    step: int
    loss: float
    accuracy: float
    learning_rate: float
    grad_norm: float
    tokens: int
    seconds: float

    losses: ClassVar = ("loss",)
    measured: ClassVar = (*TaskMeasures._fields, "grad_norm")


@dataclass(frozen=True)
class EpochMetrics:
    """The measures of a validation part after a step."""

    step: int
    epoch: float
    measures: Metrics


class TaskObjective:
    """The `Objective` of fine-tuning."""

    metrics: ClassVar = TaskMetrics

    def send(self, batch: TaskBatch, device: torch.device) -> TaskBatch:
        return batch.to(device)

    def operations(self, config: BertConfig, batch: TaskBatch) -> float:
        lengths = batch.attention_mask.flatten(0, -2).sum(1)
        return batch_operations(dataclasses.replace(config, vocab_size=6, pad_token_id=0), lengths, 0)

    def rates(self, model: nn.Module, config: FinetuningConfig) -> list[list[float]]:
        assert isinstance(model, heads.BertForTask)
        layers = model.config.num_hidden_layers
        return [[config.layer_decay ** (layers + 1 - _depth(name, layers)) for name, _ in model.named_parameters()]]

    def loss(
        self, model: heads.BertForTask, batch: TaskBatch, config: FinetuningConfig, step: int
    ) -> tuple[Tensor, Sequence[Tensor]]:
        assert batch.target is not None
        measured = task_loss(batch.logits(model), batch.target)
        return measured.loss, [each.detach() for each in measured]


def _depth(name: str, layers: int) -> int:
    """0 for a parameter of the embeddings, then the number of its layer from 1, and one more for the outputs."""
    if name.startswith("bert.embeddings."):
        return 0
    layer = re.match(r"bert\.encoder\.layer\.(\d+)\.", name)
    return 1 + int(layer[1]) if layer else layers + 1


def settings_of(settings: Mapping[str, Any]) -> tuple[FinetuningConfig, FinetuningData]:
    """Settings by name, such as epochs or training.epochs; values may be texts. Raises ConfigError."""
    kinds = {"training": FinetuningConfig, "data": FinetuningData}
    owner = {item.name: section for section, kind in kinds.items() for item in dataclasses.fields(kind)}
    sections: dict[str, dict[str, Any]] = {section: {} for section in kinds}
    for path, value in settings.items():
        section, _, name = path.rpartition(".")
        section = section or owner.get(name, "training")
        if section not in kinds:
            raise ConfigError(f"There is no setting {path}; sections are: {', '.join(kinds)}.")
        sections[section][name] = value
    if "steps" in sections["training"]:
        sections["training"] = {"epochs": None, **sections["training"]}
    training = build(FinetuningConfig, sections["training"], "training")
    return training, build(FinetuningData, sections["data"], "data")


def task_model(
    checkpoint: Checkpoint,
    task: str,
    outputs: int,
    *,
    seed: int = 0,
    dropout: float | None = None,
    random_weights: bool = False,
) -> heads.BertForTask:
    """A model with the encoder of a checkpoint, and a new pooler and output layer drawn by the seed.

    dropout: of the model; None for the checkpoint's. random_weights: draw the encoder too. Only the pooler of a
    fine-tuned checkpoint is kept: next-sentence training drives it to -1 and 1, where tanh passes on hardly any
    gradient (Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning", draw it anew too).
    """
    config = checkpoint.config
    if dropout is not None:
        rates: dict[str, Any] = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), dropout)
        config = dataclasses.replace(config, classifier_dropout=None, **rates)
    generator = torch.Generator().manual_seed(seed)
    model = MODEL_CLASSES[task](config, outputs, generator=generator)
    if not random_weights:
        keeps_pooler = checkpoint.head is not None and "pooler" not in checkpoint.missing
        known = {
            name: tensor
            for name, tensor in checkpoint.model.bert.state_dict().items()
            if keeps_pooler or not name.startswith("pooler.")
        }
        model.bert.load_state_dict(known, strict=False)
    return model


class Finetuning:
    """A task and a model that learns it: `for row in finetuning:` trains, `evaluate` measures.

    training, validation: labelled examples; validation None holds a part of training out. settings: see `settings_of`.
    random_weights: start from random weights of the same sizes. Raises BertCoreError for data that cannot be learned.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        training: TaskData,
        validation: TaskData | None = None,
        *,
        seed: int = 0,
        random_weights: bool = False,
        device: str = "cpu",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        config, data = settings_of(settings or {})
        limit = checkpoint.config.max_position_embeddings
        self.data = data = dataclasses.replace(data, sequence_length=min(data.sequence_length, limit))
        self.seed, self.task, self.checkpoint = seed, training.task, checkpoint
        if validation is None:
            training, validation = training.split(data.validation_share, seed)
        if data.most_examples is not None:
            training = training.sample(data.most_examples, seed)
        self.training, self.validation = training, validation
        self.labels = training.labels()
        self.choices = _choices(training)
        self.may_be_missing = self.task == "question-answering" and any(
            not getattr(each, "answers", ()) for each in training.examples
        )
        outputs = len(self.labels) or (2 if self.task == "question-answering" else 1)
        self.model = task_model(
            checkpoint, self.task, outputs, seed=seed, dropout=config.dropout, random_weights=random_weights
        ).to(device)
        _freeze(self.model, config)
        self.batches = self._batches(training)
        self._validation_batches = self._batches(validation)
        steps = config.steps
        if config.epochs is not None:
            steps = max(1, math.ceil(config.epochs * self.batches.steps_per_epoch))
        warmup_steps = config.warmup_steps or round(config.warmup_fraction * steps)
        config = dataclasses.replace(config, steps=steps, warmup_steps=min(warmup_steps, steps))
        objective = TaskObjective()
        operations = objective.operations(self.model.config, self.batches[0])
        self.trainer = Trainer(
            *(self.model, self.batches, config), seed=seed, threads=threads_for(operations), objective=objective
        )
        self.history: list[TaskMetrics] = []
        self.evaluations: list[EpochMetrics] = []
        self._best: tuple[float, Tensor] | None = None

    def _batches(self, part: TaskData) -> TaskBatches:
        if _choices(part) != self.choices:
            raise CorpusError(f"{part.name} has {_choices(part)} choices where the training part has {self.choices}.")
        rows = task_rows(part, self.labels, self.checkpoint.tokenizer, self.data)
        pad = self.checkpoint.config.pad_token_id
        return TaskBatches(rows, pad, self.data.batch_size, choices=self.choices, seed=self.seed)

    def __iter__(self) -> Iterator[TaskMetrics]:
        """Train to the end, evaluate after epochs, and keep the best weights; yields the numbers of each step.

        Raises RunError when the loss stops being a number.
        """
        config = self.trainer.config
        every = config.evaluate_every * self.batches.steps_per_epoch
        for pending in self.trainer:
            rows, divergence = until_divergence(read_metrics([pending]))
            if divergence:
                raise RunError(divergence)
            self.history += rows
            if pending.step % every == 0 or pending.step == config.total_steps:
                self._evaluate_epoch(pending.step)
            yield rows[0]
        if self._best is not None:
            with torch.no_grad():
                self.trainer.flat.weights.copy_(self._best[1])
        self.model.eval()

    def _evaluate_epoch(self, step: int) -> None:
        measures = self.evaluate()
        self.evaluations.append(EpochMetrics(step, step / self.batches.steps_per_epoch, measures))
        value = measures[MAIN_MEASURE[self.task]]
        # Of equal epochs the latest: few examples give few different values.
        if self.trainer.config.keep_best and (self._best is None or value >= self._best[0]):
            self._best = value, self.trainer.flat.weights.clone()

    def evaluate(self, part: TaskData | None = None) -> Metrics:
        """The measures of the model as it is on labelled examples; None means the validation part."""
        data = part or self.validation
        return score(data, self.predict(data), self.labels)

    def predict(self, part: TaskData) -> list[Prediction]:
        """Predictions of the model as it is about examples."""
        batches = self._validation_batches if part is self.validation else self._batches(part)
        examples, is_missing = part.examples, self.may_be_missing
        return predictions(self.model, batches, examples, self.labels, self.data, may_be_missing=is_missing)

    def result(self) -> Checkpoint:
        """A copy of the model as it is, in eval mode, with its output layer and settings."""
        model = self.model
        copy = BertForPreTraining(model.config, generator=torch.Generator().manual_seed(0))
        copy.bert.load_state_dict(model.bert.state_dict())
        missing = {"mlm", "nsp", *([] if model.has_pooler else ["pooler"])}
        layer = model.output_layer
        head = TaskHead(
            type(model).__name__,
            self.labels,
            self.task == "text-regression",
            layer.weight.detach().cpu().clone(),
            layer.bias.detach().cpu().clone(),
        )
        recipe = {
            "task": self.task,
            "start": self.checkpoint.name,
            "seed": self.seed,
            "may_be_missing": self.may_be_missing,
            "data": fields_of(self.data),
            "training": dataclasses.asdict(self.trainer.config),
        }
        name = f"{self.checkpoint.name}, {self.task}"
        return Checkpoint(copy.eval(), self.checkpoint.tokenizer, name, (), frozenset(missing), recipe, head)


def _choices(data: TaskData) -> int | None:
    first = data.examples[0]
    return len(first.choices) if isinstance(first, ChoiceExample) else None


def _freeze(model: heads.BertForTask, config: FinetuningConfig) -> None:
    layers = model.config.num_hidden_layers
    if config.frozen_layers > layers:
        raise ConfigError(f"frozen_layers is {config.frozen_layers}; the model has {layers} layers.")
    for name, parameter in model.named_parameters():
        depth = _depth(name, layers)
        in_encoder = name.startswith("bert.") and depth <= layers
        if (config.freeze_encoder and in_encoder) or (config.frozen_layers and depth <= config.frozen_layers):
            parameter.requires_grad_(False)


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned model and its measures.

    test: empty without a test part. examples: number of examples that it was trained on. seconds: of the training's
    steps.
    """

    checkpoint: Checkpoint
    validation: Metrics
    test: Metrics
    examples: int
    steps: int
    seconds: float
    history: Sequence[TaskMetrics]
    evaluations: Sequence[EpochMetrics]


def finetune(
    checkpoint: Checkpoint,
    task: TaskData,
    *,
    validation: TaskData | None = None,
    test: TaskData | None = None,
    seed: int = 0,
    random_weights: bool = False,
    device: str = "cpu",
    progress: Callable[[TaskMetrics, int], None] = lambda row, steps: None,
    **settings: Any,
) -> Finetuned:
    """Fine-tune a model on a task; arguments as for `Finetuning`. progress: called with each step and their number."""
    finetuning = Finetuning(
        *(checkpoint, task, validation),
        seed=seed,
        random_weights=random_weights,
        device=device,
        settings=settings,
    )
    if test is not None:
        test.check_labels(finetuning.labels)
    for row in finetuning:
        progress(row, finetuning.trainer.config.total_steps)
    return Finetuned(
        finetuning.result(),
        finetuning.evaluate(),
        {} if test is None else finetuning.evaluate(test),
        len(finetuning.training.examples),
        len(finetuning.history),
        finetuning.history[-1].seconds,
        finetuning.history,
        finetuning.evaluations,
    )


def task_of(checkpoint: Checkpoint) -> str:
    """The task of a fine-tuned model. Raises CheckpointError for a model without a task's output layer."""
    head = checkpoint.head
    if head is None:
        raise CheckpointError(f"{checkpoint.name} is not fine-tuned; it has no output layer for a task.")
    if head.is_regression:
        return "text-regression"
    return next(task for task, kind in MODEL_CLASSES.items() if kind.__name__ == head.architecture)


def predict(checkpoint: Checkpoint, examples: Iterable[str | tuple[str, str] | Example]) -> list[Prediction]:
    """Predictions of a fine-tuned model about examples; a text, or a pair of texts, stands for a `TextExample`.

    Raises CheckpointError for a model that is not fine-tuned, InputError for examples of another task.
    """
    task, head = task_of(checkpoint), checkpoint.head
    assert head is not None
    given = [_example(each) for each in examples]
    wanted = MODEL_CLASSES[task]
    if any(_KINDS[type(each)] is not wanted for each in given):
        raise InputError(f"This model does {task}; give it examples of that task.")
    if not given:
        return []
    outputs = head.weight.shape[0]
    with torch.device("meta"):
        model = wanted(checkpoint.config, outputs)
    encoder = {f"bert.{name}": tensor for name, tensor in checkpoint.model.bert.state_dict().items()}
    model.load_state_dict({**encoder, **head.tensors()}, assign=True)
    recipe = checkpoint.recipe or {}
    saved = recipe.get("data")
    try:
        config = build(FinetuningData, saved if isinstance(saved, dict) else {}, "data")
    except ConfigError:
        config = FinetuningData()
    length = min(config.sequence_length if saved else 512, checkpoint.config.max_position_embeddings)
    config = dataclasses.replace(config, sequence_length=length)
    data = TaskData(task, given)
    rows = task_rows(data, (), checkpoint.tokenizer, config)
    choices = _choices(data)
    batches = TaskBatches(rows, checkpoint.config.pad_token_id, _PREDICTED_TOGETHER, choices=choices, seed=0)
    may_be_missing = recipe.get("may_be_missing") is True
    return predictions(model, batches, given, head.labels, config, may_be_missing=may_be_missing)


_KINDS: dict[type, type[heads.BertForTask]] = {
    TextExample: heads.BertForSequenceClassification,
    ChoiceExample: heads.BertForMultipleChoice,
    AnswerExample: heads.BertForQuestionAnswering,
    TaggedExample: heads.BertForTokenClassification,
}


def _example(given: str | tuple[str, str] | Example) -> Example:
    """An example without its label, which the model may not know."""
    if isinstance(given, str):
        return TextExample(given, None, None)
    if isinstance(given, tuple):
        return TextExample(given[0], given[1], None)
    field = {TaggedExample: "tags", AnswerExample: "answers"}.get(type(given), "label")
    unlabelled: Any = {field: None}
    return dataclasses.replace(given, **unlabelled)
