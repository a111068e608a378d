"""Fine-tuning: an encoder and a new output layer learn a task (Devlin et al. 2018, section 4 and appendix A.3).

task = load_task("train.tsv", "text-classification")
result = finetune(load_checkpoint("checkpoints/english-mini"), task, epochs=3)
result.validation["accuracy"], predict(result.checkpoint, ["a fine film"])
"""

from collections.abc import Generator
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from bert_core.config import FinetuningConfig
from bert_core.errors import ConfigError
from bert_core.storage.checkpoint import Checkpoint, TaskHead
from bert_core.tasks.examples import TaskData
from bert_core.tasks.prediction import model_of, predicting, score
from bert_core.tasks.task import BertForTask, Layout, Task, TaskBatch, TaskBatches
from bert_core.training.metrics import Fractions, StepMetrics


class TaskObjective:
    """The `Objective` of fine-tuning for a kind of task.

    loss: in nats, for regression the mean squared error. accuracy: fraction right; nan for regression. Of an answer,
    start and end count on their own; several labels are right if all of them are.
    """

    names: ClassVar[tuple[str, ...]] = ("loss", "accuracy")

    def __init__(self, task: Task) -> None:
        self.task = task

    def send(self, batch: TaskBatch, device: torch.device) -> TaskBatch:
        return batch.to(device)

    def size(self, batch: TaskBatch) -> tuple[Tensor, int]:
        return batch.attention_mask.flatten(0, -2).sum(1), 0

    def measure(self, model: BertForTask, batch: TaskBatch) -> Fractions:
        assert batch.target is not None
        return self.task.numbers(batch.logits(model), batch.target)

    def loss(self, numbers: Tensor, config: FinetuningConfig, step: int) -> Tensor:
        return numbers[0]


def goes_on(start: Checkpoint, head: TaskHead) -> bool:
    """Whether a model has learned a task with this output layer and these labels."""
    old = start.head
    return old is not None and (old.architecture, old.labels, len(old.weight), old.is_multi_label) == (
        head.architecture,
        head.labels,
        len(head.weight),
        head.is_multi_label,
    )


def initial_model(
    start: Checkpoint, kind: type[BertForTask], head: TaskHead, config: FinetuningConfig, seed: int, *, random: bool
) -> BertForTask:
    """A model with the encoder of a checkpoint, or a random one, and a new pooler and output layer, drawn by the seed.

    Only the pooler of a fine-tuned checkpoint is kept: next-sentence training drives it to -1 and 1, where tanh passes
    on hardly any gradient (Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning", draw it anew too). Its output
    layer is kept where the model `goes_on`. Raises
    ConfigError when more layers are to be kept as they are than there are.
    """
    rate = config.dropout
    sizes = replace(start.config, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate, classifier_dropout=None)
    model = kind(sizes, len(head.weight), generator=torch.Generator().manual_seed(seed))
    if not random:
        keeps_pooler = start.head is not None and "pooler" not in start.missing
        encoder = start.model.bert.state_dict().items()
        known = {name: tensor for name, tensor in encoder if keeps_pooler or not name.startswith("pooler.")}
        model.bert.load_state_dict(known, strict=False)
        if goes_on(start, head) and start.head is not None:
            model.load_state_dict(start.head.tensors(), strict=False)
    layers, frozen = model.bert.encoder.layer, config.frozen_layers
    if frozen > len(layers):
        raise ConfigError(f"frozen_layers is {frozen}; the model has {len(layers)} layers.")
    for module in (model.bert.embeddings, *layers[:frozen]) if frozen else ():
        module.requires_grad_(False)
    return model


def evaluating(
    snapshot: Any, part: TaskData, batches: TaskBatches, layout: Layout, steps_per_epoch: int
) -> Generator[float, None, StepMetrics]:
    """Evaluate a snapshot on the validation part, a batch at a time: yields the done fraction.

    epoch: passes through the training part so far. loss: as of a step, without dropout. The others: see
    `Task.measures`.
    """
    found, loss = yield from predicting(part.kind, model_of(snapshot.checkpoint()), batches, part.examples, layout)
    values = {"epoch": snapshot.step / steps_per_epoch, "loss": loss, **score(part, found, layout.labels)}
    return StepMetrics(snapshot.step, values)
