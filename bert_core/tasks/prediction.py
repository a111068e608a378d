"""From a fine-tuned model to predictions, and how good they are."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bert_core.config import FinetuningData
from bert_core.device import Cost, using_threads
from bert_core.errors import CheckpointError, ConfigError, InputError, ignore, quoted
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TASKS, TaskBatches, TaskData, learned_columns
from bert_core.tasks.tables import NUMBERS_OF_TEXTS
from bert_core.tasks.task import BertForTask, Example, Layout, Metrics, Prediction, Row, Task, TaskBatch, names_of
from bert_core.tasks.texts import confusion
from bert_core.tasks.token_classification import divided, entities

_PREDICTED_TOGETHER = 64  # examples


def task_of(checkpoint: Checkpoint) -> Task:
    """The task of a fine-tuned model. Raises CheckpointError for a model without a task's output layer."""
    if (head := checkpoint.head) is None:
        raise CheckpointError(f"{checkpoint.name} is not fine-tuned; it has no output layer for a task.")
    if head.is_regression:
        return TASKS["text-regression"]
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


@torch.inference_mode()
def predicting(checkpoint: Checkpoint, batches: TaskBatches) -> Iterator[tuple[list[Prediction], float] | None]:
    """Apply a fine-tuned model to all examples: yields None after each batch, and at the end a prediction for each
    example, in their order, and their mean loss, nan without labels. Errors as for `task_of`."""
    task, examples, model = batches.data.kind, batches.data.examples, model_of(checkpoint)
    device = next(model.parameters()).device
    total = torch.zeros(2, 2, device=device)
    logits_of: dict[int, np.ndarray] = {}
    for numbers, batch in batches.in_order():
        cost = Cost(model.config, *task.size(batch), str(device), is_step=False)
        with using_threads(cost.threads):
            logits = batch.logits(model, device, checkpoint.watch)
        if batch.target is not None and len(batch.target):
            total += torch.stack(task.numbers(logits, batch.target.to(device)))
        logits_of |= zip(numbers, _divided(logits, batches.rows_of(numbers), batches.choices))
        yield None
    parts_of: list[list[tuple[Row, np.ndarray]]] = [[] for _ in examples]
    for number, row in enumerate(batches.rows[:: batches.choices]):
        parts_of[row.example].append((row, logits_of[number]))
    found = [task.decode(example, parts, batches.layout) for example, parts in zip(examples, parts_of)]
    loss, count = total[:, 0].tolist()
    yield found, loss / count if count else float("nan")


def predict(
    checkpoint: Checkpoint, examples: Iterable[str | tuple[str, str] | Example], *, tell: Callable[[str], None] = ignore
) -> list[Prediction]:
    """Predictions of a fine-tuned model about examples; a text or a pair of texts stands for an example of them. tell:
    called with how much of them is cut, if any is. Raises CheckpointError for a model that is not fine-tuned,
    InputError for examples of another task, or single texts where the model learned from pairs and the reverse."""
    if isinstance(examples, str | tuple):
        raise InputError(f"predict takes a list of examples, not {quoted(examples)}; give one, such as ['a text'].")
    asked = [_example(checkpoint, given) for given in examples]
    if not asked:
        return []
    found, _, batches = _answers(checkpoint, TaskData(task_of(checkpoint).name, asked))
    for note in batches.cut():
        tell(note)
    return found


def _example(checkpoint: Checkpoint, given: str | tuple[str, ...] | Example) -> Example:
    if isinstance(given, Example):
        return replace(given, label=None)  # which the model may not know
    if task_of(checkpoint).has_words and isinstance(given, str):
        return divided(given, checkpoint.tokenizer)
    return Example((given,) if isinstance(given, str) else tuple(given))


def task_rows(checkpoint: Checkpoint, given: str | tuple[str, ...] | Example) -> list[Row]:
    """The rows in which a fine-tuned model reads an example: one, or one for each choice, window of a context or
    part of a sentence. Errors as for `predict`."""
    return _batches(checkpoint, TaskData(task_of(checkpoint).name, [_example(checkpoint, given)])).rows


@torch.inference_mode()
def task_logits(checkpoint: Checkpoint, rows: Sequence[Row], choices: int = 1) -> list[np.ndarray]:
    """The logits that a fine-tuned model gives each row: (L,), (T, 2) for an answer, or (M, L) for tagged words, (T, L)
    for all tokens of a row without `positions`; of rows of choices, those of each example, (C,)."""
    model, found = model_of(checkpoint), list[np.ndarray]()
    for start in range(0, len(rows), _PREDICTED_TOGETHER * choices):
        own = rows[start : start + _PREDICTED_TOGETHER * choices]
        batch = TaskBatch.of(own, checkpoint.config.pad_token_id, choices)
        found += _divided(batch.logits(model, checkpoint.model.device, checkpoint.watch), own, choices)
    return found


def _divided(logits: Tensor, rows: Sequence[Row], choices: int) -> list[np.ndarray]:
    """The logits of a batch for each of its rows, those of padding left out, or for each example with choices."""
    lengths = [len(row.ids if row.positions is None else row.positions) for row in rows]
    parts = logits.cpu() if rows[0].positions is None else logits.cpu().split(lengths)
    return [(part[:length] if part.ndim > 1 else part).numpy() for part, length in zip(parts, lengths[::choices])]


def layout_of(checkpoint: Checkpoint) -> Layout:
    """How a fine-tuned model reads texts and its outputs are read, with the settings of its training."""
    head, recipe, config = checkpoint.head, checkpoint.recipe or {}, FinetuningData()
    assert head is not None
    with contextlib.suppress(ConfigError):  # of another program
        config = config.replace(**recipe.get("data") or {"sequence_length": 512})
    length = min(config.sequence_length, checkpoint.config.max_position_embeddings)
    config = config.replace(sequence_length=length, batch_size=_PREDICTED_TOGETHER)
    return Layout(head.labels, checkpoint.tokenizer, config, recipe.get("may_be_missing") is True)


def _answers(checkpoint: Checkpoint, data: TaskData) -> tuple[list[Prediction], float, TaskBatches]:
    """Predictions about examples, their mean loss, nan without labels, and their batches."""
    batches = _batches(checkpoint, data)
    *_, answers = predicting(checkpoint, batches)
    assert answers is not None
    return *answers, batches


def _batches(checkpoint: Checkpoint, data: TaskData) -> TaskBatches:
    task = task_of(checkpoint)
    if any(len(each.texts) not in task.texts or (each.words is None) == task.has_words for each in data.examples):
        raise InputError(f"This model does {task.name}; give it examples of that task.")
    learned = len(learned_columns(checkpoint)) - 1
    if learned > 0 and data.texts != learned:
        wanted, given = NUMBERS_OF_TEXTS[learned], NUMBERS_OF_TEXTS[3 - learned]
        raise InputError(f"This model learned from {wanted}, and these are {given}; give it {wanted}.")
    return TaskBatches(data, layout_of(checkpoint))


@dataclass(frozen=True)
class Judged:
    example: Example
    prediction: Prediction
    is_right: bool | None  # in all tags, or as SQuAD's exact match; None for regression
    # 1 - the probability of the label, 1 - the F1 of an answer, the fraction of wrong tags, or for regression the
    # absolute difference.
    mistake: float


@dataclass(frozen=True)
class Review:
    measures: Metrics
    always: Metrics  # what always giving the most frequent answer would get
    always_right: int  # examples for which it would be right
    judged: tuple[Judged, ...]  # all examples, mistakes first and of these the worst first
    labels: tuple[str, ...]  # names of labels or tags
    confusion: Sequence[Sequence[int]]  # how often each, a row, was predicted as each, a column; or empty
    notes: tuple[str, ...]  # labels that are written otherwise, what was cut, and what `verdict` says


def review(checkpoint: Checkpoint, data: TaskData) -> Review:
    """Apply a fine-tuned model to labelled examples and compare. Errors as for `predict`, and CorpusError for a label
    that the model has not learned."""
    task, labels, before = task_of(checkpoint), checkpoint.head.labels if checkpoint.head else (), len(data.notes)
    data = data.with_labels_of(labels)
    found, loss, batches = _answers(checkpoint, data)
    judged = [Judged(each, guess, *task.judge(each, guess, labels)) for each, guess in zip(data.examples, found)]
    judged.sort(key=lambda each: (bool(each.is_right), -each.mistake))
    sides = ((names_of(each.label), names_of(guess.label)) for each, guess in zip(data.examples, found))
    pairs = [pair for right, guessed in sides for pair in zip(right, guessed)]
    always, said = verdict(batches, loss)
    notes = (*data.notes[before:], *batches.cut(), *said)
    same = map(Prediction, task.always([each.label for each in data.examples])[1])
    always_right = sum(task.judge(each, guess, labels)[0] is True for each, guess in zip(data.examples, same))
    measures, table = batches.measures([each.label for each in found]), confusion(pairs, labels) if pairs else []
    return Review(measures, always, always_right, tuple(judged), labels, table, notes)


def verdict(batches: TaskBatches, loss: float) -> tuple[Metrics, list[str]]:
    """What always giving the most frequent answer to these examples would get, and what is to be known of measures and
    of the loss, one sentence each."""
    task, right = batches.data.kind, [each.label for each in batches.data.examples]
    most, found = task.always(right)
    always, chance = batches.measures(found), task.chance(batches.rows)
    names = {name for label in right for name in names_of(label)}
    about = f"on the {len(right):,} examples of {batches.data.name}"
    said = [f"Always answering {most} would get {in_words(always)} {about}."]
    if len(names) == 1:
        said.append(f"All of them have the label {quoted(*names)}, so these measures say nothing of the others.")
    if loss > chance:
        said.append(f"The loss there, {loss:.3f}, is above {chance:.3f}, that of an answer that ignores the text.")
    return always, said


def label_in_words(example: Example, label: Any) -> str:
    """A label of an example, its own or a predicted one, as a person reads it; "" for none."""
    if example.words is not None:
        return "; ".join(f"{kind}: {' '.join(example.words[a:b])}" for kind, a, b in entities(label))
    match label:
        case int():
            return example.texts[1 + label]
        case tuple():
            return " / ".join(dict.fromkeys(text for text, _ in label))
        case float():
            return f"{label:.2f}".rstrip("0").rstrip(".")
    return str(label)


def in_words(measures: Metrics) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in measures.items())
