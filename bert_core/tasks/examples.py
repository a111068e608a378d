"""Labelled examples of the five kinds of task: their files, and what a fine-tuned model makes of them."""

import csv
import dataclasses
import hashlib
import random
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bert_core.config import LOCAL, FinetuningData, Limits, build
from bert_core.costs import probe_operations, threads_for, using_threads
from bert_core.data.decoding import decoded_blocks, with_plain_line_ends, without_invisible
from bert_core.errors import (
    CheckpointError,
    ConfigError,
    CorpusError,
    InputError,
    checked,
    first_three,
    megabytes,
    quoted,
)
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.multiple_choice import MultipleChoice
from bert_core.tasks.question_answering import QuestionAnswering
from bert_core.tasks.tables import TaskFile
from bert_core.tasks.task import BertForTask, Example, Layout, Metrics, Prediction, Row, Task, TaskBatches
from bert_core.tasks.texts import SeveralLabels, TextClassification, TextExample, TextRegression, confusion
from bert_core.tasks.token_classification import TokenClassification

MAX_BYTES = 200 * 2**20
MAX_LABELS = 1_000
_PREDICTED_TOGETHER = 64  # examples

_KINDS = (TextClassification(), TextRegression(), MultipleChoice(), QuestionAnswering(), TokenClassification())
TASKS: dict[str, Task] = {task.name: task for task in _KINDS}
_SEVERAL_LABELS = SeveralLabels()


@dataclass(frozen=True)
class TaskData:
    """The examples of one part of a task: training, validation or test."""

    task: str  # one of `TASKS`
    examples: Sequence[Example]
    name: str = "the examples"  # of the file
    notes: tuple[str, ...] = ()  # what the reader has read and changed, one sentence each
    columns: tuple[str, ...] = ()  # the texts and the label, or the word and the tag, by name or by number from 1
    blanks: tuple[int, ...] = ()  # places of empty lines among the examples, of a file without labels

    @property
    def is_multi_label(self) -> bool:
        """Whether a text may have several labels, or none."""
        return isinstance(getattr(self.examples[0], "label", None), tuple)

    @property
    def kind(self) -> Task:
        """The kind of task."""
        return _SEVERAL_LABELS if self.is_multi_label else TASKS[self.task]

    @property
    def choices(self) -> int | None:
        """The number of choices of each example, None for other tasks."""
        return len(getattr(self.examples[0], "choices", ())) or None

    @property
    def texts(self) -> int | None:
        """1 if each example is a text, 2 if each is a pair, None if they differ and for other tasks."""
        found = {len(each.texts) for each in self.examples} if TASKS[self.task].has_pairs else set()
        return found.pop() if len(found) == 1 else None

    def labels(self) -> tuple[str, ...]:
        """The labels to learn, in the order of their ids: numbers by size, others by alphabet, and O before tags.

        Raises CorpusError if the examples cannot be learned: all have the same label, or there are more than
        MAX_LABELS.
        """
        found = {label for example in self.examples for label, _ in example.named_labels}
        names = sorted(found, key=lambda name: (name != "O", not name.isdecimal(), len(name) * name.isdecimal(), name))
        if len(names) > MAX_LABELS:
            raise CorpusError(
                f"{self.name} has {len(names):,} different labels; the limit is {MAX_LABELS:,}. Choose the column of "
                "the label; for numbers, choose text-regression."
            )
        if len(names) == 1 and not self.is_multi_label:
            raise CorpusError(
                f"All {len(self.examples):,} examples of {self.name} have the label {quoted(names[0])}; there is "
                "nothing to learn. Add examples with another label."
            )
        return tuple(names)

    def check_labels(self, labels: Sequence[str]) -> None:
        """Raise CorpusError, with the line, if an example has a label that is not one of `labels`."""
        known, unknown = {*labels}, dict[str, int]()
        for label, line in (each for example in self.examples for each in example.named_labels):
            if label not in known:
                unknown.setdefault(label, line)
        if unknown:
            where = first_three(f"{quoted(label)} (line {line})" for label, line in unknown.items())
            raise CorpusError(f"{self.name} has labels that the training part lacks: {where}; add examples of them.")

    def batches(self, layout: Layout, pad_token_id: int, seed: int) -> TaskBatches:
        """Batches of all examples. Raises CorpusError for a label that the layout does not have."""
        self.check_labels(layout.labels)
        rows = self.kind.rows(self.examples, layout)
        return TaskBatches(rows, pad_token_id, layout.config.batch_size, self.choices, seed)

    def sample(self, count: int, seed: int) -> "TaskData":
        """`count` examples drawn by a seed, in their order; all of them if there are fewer."""
        chosen = sorted(random.Random(seed).sample(range(len(self.examples)), min(count, len(self.examples))))
        return dataclasses.replace(self, examples=[self.examples[i] for i in chosen])

    def split(self, fraction: float, seed: int) -> tuple["TaskData", "TaskData"]:
        """Two parts of the examples: without and with a seeded `fraction` of them. Questions about one context stay
        together. Raises CorpusError if a part would be empty."""
        groups: dict[object, list[Example]] = {}
        for i, example in enumerate(self.examples):
            groups.setdefault(getattr(example, "context", i), []).append(example)
        keys = list(groups)
        random.Random(seed).shuffle(keys)
        held_out = {*keys[: max(1, round(fraction * len(keys)))]}
        if len(held_out) == len(keys):
            raise CorpusError(f"{self.name} has {len(self.examples)} examples; hold-out needs at least two.")
        parts: tuple[list[Example], list[Example]] = ([], [])
        for key, members in groups.items():
            parts[key in held_out].extend(members)
        held_out_part = TaskData(self.task, parts[1], f"the held-out part of {self.name}")
        return dataclasses.replace(self, examples=parts[0]), held_out_part


@dataclass(frozen=True)
class TaskParts:
    """The labelled examples of a task. validation: to measure after epochs and to choose the best one; None to hold a
    part of `train` out. test: for the result."""

    train: TaskData
    validation: TaskData | None = None
    test: TaskData | None = None

    @property
    def name(self) -> str:
        """The name of the training file."""
        return self.train.name

    @property
    def fingerprint(self) -> str:
        """A hash of all examples: two tasks with the same one are the same."""
        examples = [part and list(part.examples) for part in (self.train, self.validation, self.test)]
        return hashlib.sha256(repr(examples).encode("utf-8", "surrogatepass")).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """All examples as JSON data, for `from_json`."""
        return {
            name: part and {**vars(part), "examples": [dataclasses.astuple(each) for each in part.examples]}
            for name, part in vars(self).items()
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "TaskParts":
        """The parts that `as_json` wrote. Raises KeyError, TypeError or ValueError for other data."""
        parts = dict(content)
        for name, part in content.items():
            if part:
                fields = {key: _frozen(value) for key, value in part.items()}
                fields["examples"] = [TASKS[part["task"]].example(*row) for row in fields["examples"]]
                parts[name] = TaskData(**fields)
        return cls(**parts)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of all examples."""
        parts = (part for part in (self.train, self.validation, self.test) if part)
        return sum(500 + len(repr(example)) for part in parts for example in part.examples)


def _frozen(value: Any) -> Any:
    """JSON data with tuples in place of lists."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@checked
def load_task(
    path: str | Path,
    task: str,
    *,
    labelled: bool = True,
    columns: str | Sequence[str] = (),
    model: Checkpoint | None = None,
    encoding: str | None = None,
    label_separator: str | None = None,
    limits: Limits = LOCAL,
) -> TaskData:
    """Read the examples of a task file.

    labelled: whether to read labels. columns: the texts and then, with labels, the label, or the word and the tag:
    names of a header, or numbers from 1 where there is none, such as ("review", "sentiment") or "1,2". By default, a
    header's usual names, else the order. model: the fine-tuned model that examples without labels are for. encoding: of
    a file that is not UTF-8, see `decoded_blocks`. label_separator: what stands between the labels of a text that may
    have several; alone, it means none of them. Raises CorpusError, with the line or the question, if a part cannot be
    read, if it is not clear which columns to read, and for a file without examples or over the limits.
    """
    path, kind = Path(path), TASKS.get(task)
    if isinstance(columns, str):
        columns = next(csv.reader(columns.splitlines(), skipinitialspace=True), [])
    columns = [str(each).strip() for each in columns]
    if kind is None:
        raise CorpusError(f"The task {quoted(task)} is unknown; it can be one of: {', '.join(TASKS)}.")
    if columns and not kind.columns:
        raise CorpusError(f"A {task} file has columns of its own; leave out the choice of columns.")
    notes: list[str] = []
    try:
        if path.stat().st_size > (most := min(MAX_BYTES, limits.upload_bytes)):
            raise CorpusError(f"{path.name} has more than {megabytes(most)}; use a part of it.")
        with path.open("rb") as opened:
            text = "".join(map(with_plain_line_ends, decoded_blocks(opened, path.name, notes, encoding)))
    except OSError as error:
        raise CorpusError(f"{path.name} cannot be read ({error.strerror or error}).") from None
    if not kind.keeps_characters:
        text, invisible = without_invisible(text)
        notes += [f"Characters without width taken out of words: {invisible:,}."] if invisible else []
    separator = label_separator if task == TextClassification.name else None
    file = TaskFile(text, path.name, labelled, columns, kind.columns, separator, limits.items, notes)
    if model is not None:
        file.learned, file.labels = learned_columns(model)[:-1], model.head.labels if model.head else None
    examples = kind.read(file)
    if not examples:
        raise CorpusError(f"{path.name} has no examples; a {task} file has {kind.form}.")
    return TaskData(task, examples, path.name, tuple(notes), tuple(file.chosen), tuple(file.blanks))


def task_of(checkpoint: Checkpoint) -> Task:
    """The task of a fine-tuned model. Raises CheckpointError for a model without a task's output layer."""
    head = checkpoint.head
    if head is None:
        raise CheckpointError(f"{checkpoint.name} is not fine-tuned; it has no output layer for a task.")
    if head.is_regression or head.is_multi_label:
        return TASKS["text-regression"] if head.is_regression else _SEVERAL_LABELS
    return next(task for task in TASKS.values() if task.model.__name__ == head.architecture)


def learned_columns(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The columns from which a fine-tuned model learned, see `TaskData.columns`; () if its recipe does not say."""
    match (checkpoint.recipe or {}).get("columns"):
        case [str(), str()] | [str(), str(), str()] as columns:
            return tuple(columns)
    return ()


def model_of(checkpoint: Checkpoint) -> BertForTask:
    """A fine-tuned model in eval mode, which shares its weights with the checkpoint. Errors as for `task_of`."""
    kind, head = task_of(checkpoint).model, checkpoint.head
    assert head is not None
    with torch.device("meta"):
        model = kind(checkpoint.config, len(head.weight))
    encoder = {f"bert.{name}": tensor for name, tensor in checkpoint.model.bert.state_dict().items()}
    model.load_state_dict({**encoder, **head.tensors()}, assign=True)
    return model.eval()


@torch.inference_mode()
def predicting(
    task: Task, model: BertForTask, batches: TaskBatches, examples: Sequence[Example], layout: Layout
) -> Generator[float, None, tuple[list[Prediction], float]]:
    """Predict a batch at a time: yields the done fraction, and returns a prediction for each example, in their order,
    and their mean loss, nan without labels.

    model: in eval mode. batches: of the rows of `examples`.
    """
    device = next(model.parameters()).device
    logits_of: list[np.ndarray] = [np.empty(0)] * batches.count
    done, sums, counts = 0, *torch.zeros(2, 2, device=device)
    for numbers, batch in batches.in_order():
        batch = batch.to(device)
        with using_threads(threads_for(probe_operations(model.config, batch.input_ids.numel()))):
            logits = batch.logits(model)
        if batch.target is not None and len(batch.target):
            fractions = task.numbers(logits, batch.target)
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


@checked
def predict(checkpoint: Checkpoint, examples: Iterable[str | tuple[str, str] | Example]) -> list[Prediction]:
    """Predictions of a fine-tuned model about examples; a text, or a pair of texts, stands for a `TextExample`.

    Raises CheckpointError for a model that is not fine-tuned, InputError for examples of another task, for single texts
    where the model learned from pairs or the other way round, and for a text or a pair outside of a list.
    """
    task, head = task_of(checkpoint), checkpoint.head
    assert head is not None
    if isinstance(examples, tuple) and len(examples) == 2 and all(isinstance(each, str) for each in examples):
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
    recipe = checkpoint.recipe or {}
    saved = recipe.get("data")
    try:
        config = build(FinetuningData, saved if isinstance(saved, dict) else {}, "data")
    except ConfigError:
        config = FinetuningData()
    length = min(config.sequence_length if saved else 512, checkpoint.config.max_position_embeddings)
    config = dataclasses.replace(config, sequence_length=length, batch_size=_PREDICTED_TOGETHER)
    layout = Layout(head.labels, checkpoint.tokenizer, config, recipe.get("may_be_missing") is True)
    batches = data.batches(layout, checkpoint.config.pad_token_id, 0)
    work = predicting(task, model_of(checkpoint), batches, data.examples, layout)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value[0]


def _example(given: object) -> Example:
    """An example without its label, which the model may not know."""
    match given:
        case str():
            return TextExample(given, None, None)
        case [str(text), str(pair)]:
            return TextExample(text, pair, None)
        case Example():
            return dataclasses.replace(given, **{given.answer: None})
    raise InputError(f"An example is a text, a pair of texts or one that load_task reads, not {quoted(given)}.")


@dataclass(frozen=True)
class Judged:
    """A labelled example beside its prediction.

    mistake: 1 - the probability of the label (the least certain of several), 1 - the F1 of an answer, the fraction of
    wrong tags, or for regression the absolute difference.
    """

    example: Example
    prediction: Prediction
    is_right: bool | None  # in all labels or tags, or as SQuAD's exact match; None for regression
    mistake: float


@dataclass(frozen=True)
class Review:
    """How a fine-tuned model does on labelled examples."""

    measures: Metrics
    judged: tuple[Judged, ...]  # all examples, mistakes first and of these the worst first
    labels: tuple[str, ...]  # names of labels or tags
    confusion: tuple[tuple[int, ...], ...]  # how often each, a row, was predicted as each, a column; or empty


@checked
def review(checkpoint: Checkpoint, data: TaskData) -> Review:
    """Apply a fine-tuned model to labelled examples and compare. Errors as for `predict`."""
    found, task, head = predict(checkpoint, data.examples), task_of(checkpoint), checkpoint.head
    labels = head.labels if head else ()
    judged = [Judged(each, guess, *task.judge(each, guess, labels)) for each, guess in zip(data.examples, found)]
    judged.sort(key=lambda each: (bool(each.is_right), -each.mistake))
    pairs = [pair for each in judged for pair in task.compared(each.example.right, each.prediction.value)]
    table = confusion(pairs, labels) if pairs else []
    return Review(score(data, found, labels), tuple(judged), labels, tuple(map(tuple, table)))


def score(data: TaskData, found: Sequence[Prediction], labels: Sequence[str]) -> Metrics:
    """The measures of predictions about labelled examples; see `Task.measures`."""
    return data.kind.measures([each.right for each in data.examples], [each.value for each in found], labels)
