"""From a pretrained model to one for a task (Devlin et al. 2018, 4 and A.3), to predictions, and how good they are."""

import contextlib
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from bert_core.config import FinetuningConfig, FinetuningData
from bert_core.costs import threads_for_pass
from bert_core.errors import CheckpointError, ConfigError, CorpusError, InputError, quoted
from bert_core.storage.checkpoint import Checkpoint, TaskHead
from bert_core.tasks.examples import SEVERAL_LABELS, TASKS, TaskData, learned_columns
from bert_core.tasks.task import BertForTask, Example, Layout, Metrics, Prediction, Row, Task, TaskBatches
from bert_core.tasks.texts import TextExample, confusion
from bert_core.training.evaluation import result_of
from bert_core.training.objective import StepRow

_PREDICTED_TOGETHER = 64  # examples


def task_of(checkpoint: Checkpoint) -> Task:
    """The task of a fine-tuned model. Raises CheckpointError for a model without a task's output layer."""
    head = checkpoint.head
    if head is None:
        raise CheckpointError(f"{checkpoint.name} is not fine-tuned; it has no output layer for a task.")
    if head.is_regression or head.is_multi_label:
        return TASKS["text-regression"] if head.is_regression else SEVERAL_LABELS
    return next(task for task in TASKS.values() if task.model.__name__ == head.architecture)


def model_of(checkpoint: Checkpoint) -> BertForTask:
    """A fine-tuned model in eval mode, which shares its weights with the checkpoint. Errors as for `task_of`."""
    kind, head = task_of(checkpoint).model, checkpoint.head
    assert head is not None
    with torch.device("meta"):
        model = kind(checkpoint.config, head.outputs)
    own = {name: tensor for name, tensor in checkpoint.model.state_dict().items() if not name.startswith("cls.")}
    model.load_state_dict(own, assign=True)
    return model.eval()


def initial_model(
    start: Checkpoint, kind: type[BertForTask], head: TaskHead, config: FinetuningConfig, seed: int, *, random: bool
) -> BertForTask:
    """A model with the encoder of a checkpoint, or a random one, and a new pooler and output layer, drawn by the seed.

    Only the pooler of a fine-tuned checkpoint is kept: next-sentence training drives it to -1 and 1, where tanh passes
    on hardly any gradient (Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning", draw it anew too). Its output
    layer is kept where it has learned the same labels. Raises ConfigError when more layers are to be kept as they are
    than there are.
    """
    rate = config.dropout
    sizes = start.config.replace(hidden_dropout_prob=rate, attention_probs_dropout_prob=rate, classifier_dropout=None)
    model = kind(sizes, head.outputs, generator=torch.Generator().manual_seed(seed))
    if not random:
        keeps_pooler = start.head is not None and "pooler" not in start.missing
        new = ("cls.", *["bert.pooler."] * (not keeps_pooler), *[model.layer] * (start.head != head))
        known = {name: each for name, each in start.model.state_dict().items() if not name.startswith(new)}
        model.load_state_dict(known, strict=False)
    layers, frozen = model.bert.encoder.layer, config.frozen_layers
    if frozen > len(layers):
        raise ConfigError(f"frozen_layers is {frozen}; the model has {len(layers)} layers.")
    for module in (model.bert.embeddings, *layers[:frozen]) if frozen else ():
        module.requires_grad_(False)
    return model


@torch.inference_mode()
def predicting(
    task: Task, model: BertForTask, batches: TaskBatches, examples: Sequence[Example], layout: Layout
) -> Generator[float, None, tuple[list[Prediction], float]]:
    """Predict a batch at a time: yields the done fraction, and returns a prediction for each example, in their order,
    and their mean loss, nan without labels. model: in eval mode. batches: of `examples`."""
    device = next(model.parameters()).device
    logits_of: list[np.ndarray] = [np.empty(0)] * batches.count
    done, sums, counts = 0, *torch.zeros(2, 2, device=device)
    for numbers, batch in batches.in_order():
        with threads_for_pass(model.config, batch.input_ids.numel()):
            logits = batch.logits(model, device)
        if batch.target is not None and len(batch.target):
            fractions = task.numbers(logits, batch.target.to(device))
            sums += fractions[0]
            counts += fractions[1]
        words = [len(row.words) for row in (batches.rows[number] for number in numbers) if row.words is not None]
        for number, part in zip(numbers, logits.split(words) if words else logits):
            logits_of[number] = part.cpu().numpy()
        done += len(numbers)
        yield done / batches.count
    parts_of: list[list[tuple[Row, np.ndarray]]] = [[] for _ in examples]
    for row, each in zip(batches.rows[:: batches.choices or 1], logits_of):
        parts_of[row.example].append((row, each))
    found = [task.decode(example, parts, layout) for example, parts in zip(examples, parts_of)]
    return found, float(sums[0] / counts[0])


def validating(
    snapshot: Any, part: TaskData, batches: TaskBatches, layout: Layout, steps_per_epoch: int
) -> Generator[float, None, StepRow]:
    """Evaluate a snapshot on the validation part, a batch at a time: yields the done fraction.

    epoch: passes through the training part so far. loss: as of a step, without dropout. Others: see `Task.measures`.
    """
    found, loss = yield from predicting(part.kind, model_of(snapshot.checkpoint()), batches, part.examples, layout)
    values = {"epoch": snapshot.step / steps_per_epoch, "loss": loss, **score(part, found, layout.labels)}
    return StepRow(step=snapshot.step, **values)


def predict(checkpoint: Checkpoint, examples: Iterable[str | tuple[str, str] | Example]) -> list[Prediction]:
    """Predictions of a fine-tuned model about examples; a text, or a pair of texts, stands for a `TextExample`.

    Raises CheckpointError for a model that is not fine-tuned, InputError for examples of another task, for single texts
    where the model learned from pairs or the other way round, and for a text or a pair outside of a list.
    """
    task, head = task_of(checkpoint), checkpoint.head
    assert head is not None
    if isinstance(examples, str | tuple):
        raise InputError(f"predict takes a list of examples, not {quoted(examples)}; give one, such as ['a text'].")
    data = TaskData(task.name, [_example(each) for each in examples])
    if any(type(each) is not task.example for each in data.examples):
        raise InputError(f"This model does {task.name}; give it examples of that task.")
    if not data.examples:
        return []
    learned = len(learned_columns(checkpoint)) - 1
    if task.has_pairs and learned > 0 and data.texts != learned:
        kinds = ("single texts", "pairs of texts") if learned == 1 else ("pairs of texts", "single texts")
        raise InputError("This model learned from {}, and these are {}; give it {}.".format(*kinds, kinds[0]))
    recipe, config = checkpoint.recipe or {}, FinetuningData()
    saved = recipe.get("data")
    with contextlib.suppress(ConfigError):  # of another program
        config = FinetuningData().replace(**saved) if saved else config
    length = min(config.sequence_length if saved else 512, checkpoint.config.max_position_embeddings)
    config = config.replace(sequence_length=length, batch_size=_PREDICTED_TOGETHER)
    layout = Layout(head.labels, checkpoint.tokenizer, config, recipe.get("may_be_missing") is True)
    batches = data.batches(layout, checkpoint.config.pad_token_id, 0)
    return result_of(predicting(task, model_of(checkpoint), batches, data.examples, layout))[0]


def _example(given: object) -> Example:
    """An example without its label, which the model may not know."""
    match given:
        case str():
            return TextExample(given, None, None)
        case [str(text), str(pair)]:
            return TextExample(text, pair, None)
        case Example():
            return replace(given, **{given.answer: None})
    raise InputError(f"An example is a text, a pair of texts or one that load_task reads, not {quoted(given)}.")


@dataclass(frozen=True)
class Judged:
    """A labelled example beside its prediction."""

    example: Example
    prediction: Prediction
    is_right: bool | None  # in all labels or tags, or as SQuAD's exact match; None for regression
    # 1 - the probability of the label (the least certain of several), 1 - the F1 of an answer, the fraction of wrong
    # tags, or for regression the absolute difference.
    mistake: float


@dataclass(frozen=True)
class Review:
    """How a fine-tuned model does on labelled examples."""

    measures: Metrics
    judged: tuple[Judged, ...]  # all examples, mistakes first and of these the worst first
    labels: tuple[str, ...]  # names of labels or tags
    confusion: tuple[tuple[int, ...], ...]  # how often each, a row, was predicted as each, a column; or empty


def review(checkpoint: Checkpoint, data: TaskData) -> Review:
    """Apply a fine-tuned model to labelled examples and compare. Errors as for `predict`, and CorpusError for a label
    that the model has not learned, and where only one of the two has several labels for a text."""
    labels, task = checkpoint.head.labels if checkpoint.head else (), task_of(checkpoint)
    if data.task == task.name and data.is_multi_label != (task is SEVERAL_LABELS):
        if data.is_multi_label:
            raise CorpusError(f"{data.name} has several labels for a text, but the model gives one; read it with one.")
        raise CorpusError(
            f"{data.name} was read with one label for a text, but the model gives several; choose what stands between "
            "several labels (--label-separator)."
        )
    data.check_labels(labels)
    found = predict(checkpoint, data.examples)
    judged = [Judged(each, guess, *task.judge(each, guess, labels)) for each, guess in zip(data.examples, found)]
    judged.sort(key=lambda each: (bool(each.is_right), -each.mistake))
    pairs = [pair for each in judged for pair in task.compared(each.example, each.prediction)]
    table = confusion(pairs, labels) if pairs else []
    return Review(score(data, found, labels), tuple(judged), labels, tuple(map(tuple, table)))


def score(data: TaskData, found: Sequence[Prediction], labels: Sequence[str]) -> Metrics:
    """The measures of predictions about labelled examples; see `Task.measures`."""
    return data.kind.measures([each.right for each in data.examples], [each.value for each in found], labels)
