"""Labelled examples of the five kinds of task, their batches and their files."""

import csv
import functools
import hashlib
import itertools
import json
import math
import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bert_core.config import LOCAL, Limits
from bert_core.data.batches import PASS_STREAM, generator
from bert_core.data.decoding import decode
from bert_core.errors import CorpusError, first_three, megabytes, noting, percent, quoted
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.question_answering import QuestionAnswering
from bert_core.tasks.tables import Columns, TaskFile
from bert_core.tasks.task import Example, Layout, Metrics, Row, Task, TaskBatch, names_of
from bert_core.tasks.texts import MultipleChoice, TextClassification, TextRegression, number_in
from bert_core.tasks.token_classification import TokenClassification

MAX_BYTES = 200 * 2**20
MAX_LABELS = 1_000

_KINDS = (TextClassification(), TextRegression(), MultipleChoice(), QuestionAnswering(), TokenClassification())
TASKS: dict[str, Task] = {task.name: task for task in _KINDS}


@dataclass(frozen=True)
class TaskData:
    """The examples of one part of a task: training, validation or test."""

    task: str  # one of `TASKS`
    examples: Sequence[Example]
    name: str = "the examples"  # of the file
    notes: tuple[str, ...] = ()  # what the reader has read and changed, one sentence each
    columns: Columns | None = None  # that were read, of a file that has some to choose
    blanks: tuple[int, ...] = ()  # places of empty lines among the examples, of a file without labels

    @property
    def kind(self) -> Task:
        return TASKS[self.task]

    @property
    def texts(self) -> int | None:
        """The number of texts of each example, of a prompt and its choices together; None if they differ."""
        found = {len(each.texts) for each in self.examples}
        return found.pop() if len(found) == 1 else None

    def names(self) -> Counter[str]:
        """How often each label that has a name, or each tag, occurs."""
        return Counter(name for each in self.examples for name in names_of(each.label))

    def labels(self) -> tuple[str, ...]:
        """The labels to learn, in the order of their ids: O, numbers by size, others by alphabet. Raises CorpusError
        for a single one or more than MAX_LABELS."""
        names = sorted(self.names(), key=lambda name: (not name.isdecimal(), len(name) * name.isdecimal(), name))
        found = sorted(names, key=lambda name: name != "O")
        if len(found) == 1 or len(found) > MAX_LABELS:
            raise CorpusError(
                f"The number of labels in {self.name} is {len(found):,}, such as {quoted(found[0])}; it must be from 2 "
                f"to {MAX_LABELS:,}. Choose another column of the label; for numbers, choose text-regression."
            )
        return tuple(found)

    def with_labels_of(self, known: Sequence[str]) -> "TaskData":
        """These examples with the labels that a model knows, where only capitals, blanks or the form of a number
        differ; a note says so. Raises CorpusError for other labels."""
        same = {_plainest(label): label for label in known}
        changed = {each: same.get(_plainest(each), "") for each in self.names() if each not in known}
        if lacking := [quoted(each) for each, label in changed.items() if not label]:
            raise CorpusError(
                f"{self.name} has the label {lacking[0]}, which the training part lacks; train with it, or remove it."
            )
        if not changed:
            return self
        said = first_three(f"{quoted(each)} as {quoted(label)}" for each, label in changed.items())
        names = [tuple(changed.get(name, name) for name in names_of(each.label)) for each in self.examples]
        examples = [replace(each, label=own if each.words else own[0]) for each, own in zip(self.examples, names)]
        return replace(self, examples=examples, notes=(*self.notes, f"Labels that are written otherwise: {said}."))

    def sample(self, count: int, seed: int) -> "TaskData":
        """`count` examples drawn by a seed, in their order; all of them if there are fewer."""
        chosen = sorted(random.Random(seed).sample(range(len(self.examples)), min(count, len(self.examples))))
        return replace(self, examples=[self.examples[i] for i in chosen])

    def split(self, fraction: float, seed: int) -> tuple["TaskData", "TaskData"]:
        """Two parts of the examples: without and with a seeded `fraction` of them, and of each label if it has at least
        two examples. Questions about one context stay together. Raises CorpusError if a part would be empty."""
        groups: dict[object, list[Example]] = {}
        for i, example in enumerate(self.examples):
            groups.setdefault(example.texts[1] if self.task == QuestionAnswering.name else i, []).append(example)
        names = {key: {name for each in own for name in names_of(each.label)} for key, own in groups.items()}
        every = Counter(name for found in names.values() for name in found)  # groups that have a label
        keys, most = list(groups), min(len(groups) - 1, max(1, round(fraction * len(groups))))
        random.Random(seed).shuffle(keys)
        held, held_out = Counter[str](), set[object]()
        # First one group of each label, then the share of each, then any.
        for share, key in itertools.product((0, fraction, 1), keys):
            is_wanted = not names[key] or any(held[name] < max(1, share * every[name]) for name in names[key])
            is_spare = key not in held_out and all(every[name] - held[name] > 1 for name in names[key])
            if len(held_out) < most and is_wanted and is_spare:
                held.update(names[key])
                held_out.add(key)
        if not held_out:
            if self.task == QuestionAnswering.name:  # its groups are contexts, each with all of its questions
                raise CorpusError(
                    f"All questions of {self.name} are about one context; add another or a validation file."
                )
            raise CorpusError(f"No example of {self.name} can be held out; add examples of each label.")
        kept, out = list[Example](), list[Example]()
        for key, own in groups.items():
            (out if key in held_out else kept).extend(own)
        return replace(self, examples=kept), TaskData(self.task, out, f"the held-out part of {self.name}")


class TaskBatches:
    """An endless sequence of shuffled passes through a task's examples: `batches[k]` is the batch of step k, a function
    of (seed, k). Each example, window or part of a long one occurs once in a pass; its last batch may be smaller.
    choices: rows of an example. longest: tokens of the longest row."""

    def __init__(self, data: TaskData, layout: Layout, seed: int = 0) -> None:
        self.data, self.layout, self.seed, self.rows = data, layout, seed, data.kind.rows(data.examples, layout)
        self.choices = len(data.examples[0].texts) - 1 if data.kind.has_choices else 1
        self._lengths = np.array([len(row.ids) for row in self.rows]).reshape(-1, self.choices).max(1)
        self.longest = int(self._lengths.max())
        self.steps_per_epoch = math.ceil(len(self._lengths) / layout.config.batch_size)
        self._pass = functools.lru_cache(2)(self._draw_pass)

    def cut(self) -> list[str]:
        """How many of the examples are cut, in a sentence."""
        lost = Counter[int]()
        for row in self.rows:
            lost[row.example] += row.lost
        share = lost.total() / (sum(len(row.ids) for row in self.rows) + lost.total())
        cut = f"{len(+lost):,} of {len(lost):,} are longer than the {self.longest:,} tokens that are read"
        return [f"In {self.data.name}, {cut} and lose their ends, {percent(share)} of all tokens."] * bool(+lost)

    def measures(self, found: Sequence[Any]) -> Metrics:
        return self.data.kind.measures([each.label for each in self.data.examples], found, self.layout.labels)

    def __getitem__(self, k: int) -> TaskBatch:
        return self.batch(self.epoch_of(k)[k % self.steps_per_epoch])

    def epoch_of(self, k: int) -> list[np.ndarray]:
        """The pass to which step k belongs: the numbers of the rows (of choices, of the examples) of each batch."""
        return self._pass(k // self.steps_per_epoch)

    def _draw_pass(self, number: int) -> list[np.ndarray]:
        return self._divided(generator(self.seed, PASS_STREAM, number).permutation(len(self._lengths)))

    def in_order(self) -> Iterator[tuple[np.ndarray, TaskBatch]]:
        """Every row once, the short ones first: the numbers of a batch's rows (of choices, of its examples), and it."""
        for numbers in self._divided(np.argsort(self._lengths, kind="stable")):
            yield numbers, self.batch(numbers)

    def _divided(self, order: np.ndarray) -> list[np.ndarray]:
        size = self.layout.config.batch_size
        return np.split(order, range(size, len(order), size))

    def rows_of(self, numbers: Sequence[int] | np.ndarray) -> list[Row]:
        """The rows of these numbers; of choices, those of each of these examples."""
        return [row for number in numbers for row in self.rows[number * self.choices : (number + 1) * self.choices]]

    def batch(self, numbers: Sequence[int] | np.ndarray) -> TaskBatch:
        return TaskBatch.of(self.rows_of(numbers), self.layout.pad, self.choices)


@dataclass(frozen=True)
class TaskParts:
    train: TaskData
    validation: TaskData | None = None  # by which the best epoch is chosen; None to hold a part of `train` out
    test: TaskData | None = None  # for the result

    @property
    def name(self) -> str:
        return self.train.name

    @property
    def others(self) -> list[TaskData]:
        return [part for part in (self.validation, self.test) if part]

    @property
    def notes(self) -> tuple[str, ...]:
        """What the readers have read and changed; of other files than the training part, with their names."""
        said = {note for note in self.train.notes if note.startswith(("Texts: ", "Words: "))}  # the same columns
        named = (f"In {part.name}: {note}" for part in self.others for note in part.notes if note not in said)
        return tuple(dict.fromkeys((*self.train.notes, *named)))

    @property
    def fingerprint(self) -> str:
        """A hash of all examples: two tasks with the same one are the same."""
        parts = (self.train, self.validation, self.test)
        content = [part and [[each.texts, each.label] for each in part.examples] for part in parts]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @property
    def nbytes(self) -> int:
        parts = (self.train, *self.others)
        return sum(500 + sum(map(len, each.texts)) for part in parts for each in part.examples)


def _plainest(label: str) -> str | float:
    """What labels have in common that differ only in capitals, blanks, the form of accents or that of a number."""
    number = number_in(label)
    if number is None or math.isnan(number):
        return " ".join(unicodedata.normalize("NFC", label).casefold().split())
    return number


def load_task(
    path: str | Path,
    task: str,
    *,
    labelled: bool = True,
    columns: str | Sequence[str] = (),
    has_header: bool | None = None,
    separator: str | None = None,
    model: Checkpoint | None = None,
    train: TaskData | None = None,
    encoding: str | None = None,
    limits: Limits = LOCAL,
) -> TaskData:
    """Read the examples of a task file.

    columns: the texts and then, if labelled, the label, or the word and the tag, as names of a header or numbers from
    1, such as "review,sentiment"; else what the model or the training part learned from, usual names, or the order.
    has_header: None for a header with the chosen or usual names. separator: what stands between the columns, or "tab"
    or "space"; None for what is found. encoding: see `decode`. Raises CorpusError; `ColumnsError` if it is not clear
    which columns to read."""
    path, kind, most = Path(path), TASKS.get(task), min(MAX_BYTES, limits.upload_bytes)
    if kind is None:
        raise CorpusError(f"The task {quoted(task)} is unknown; it can be one of: {', '.join(TASKS)}.")
    if columns and not kind.usual:
        raise CorpusError(f"A {task} file has columns of its own; leave out the choice of columns.")
    if isinstance(columns, str):
        columns = next(csv.reader(columns.splitlines(), skipinitialspace=True), [])
    learned = learned_columns(model) if model else train.columns.names if train and train.columns else ()
    try:
        if path.stat().st_size > most:
            raise CorpusError(f"{path.name} has more than {megabytes(most)}; use a part of it.")
        text, notes = decode(path.read_bytes(), path.name, encoding, task == QuestionAnswering.name)
    except OSError as error:
        raise CorpusError(f"{path.name} cannot be read ({error.strerror or error}).") from None
    tokenizer = model.tokenizer if model else None
    file = TaskFile(text, path.name, labelled, limits.items, columns, has_header, separator, learned, tokenizer, notes)
    with noting(notes):
        try:
            examples = kind.read(file) if text.strip() else ()
        finally:
            notes += [f"{what}: {count:,}." for what, count in file.counts.items() if count]
        if not examples:
            raise CorpusError(f"{path.name} has no examples; a {task} file has {kind.form}.")
    return TaskData(task, examples, path.name, tuple(notes), file.columns, tuple(file.blanks))


def read_parts(read: Callable[..., TaskData], paths: Mapping[str, str | Path], **chosen: Any) -> TaskParts:
    """The parts of a task from their files. read: as `load_task`. chosen: its arguments for the training part alone,
    whose columns come first in the others."""
    train = read(paths["train"], **chosen)
    return TaskParts(train, **{part: read(path, train=train) for part, path in paths.items() if part != "train"})


def learned_columns(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The columns from which a fine-tuned model learned, see `Columns.names`; () if its recipe does not say."""
    match (checkpoint.recipe or {}).get("columns"):
        case [str(), str()] | [str(), str(), str()] as columns:
            return tuple(columns)
    return ()
