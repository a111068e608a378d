"""Labelled examples of the five kinds of task, and their files."""

import csv
import dataclasses
import hashlib
import math
import random
import statistics
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_core.config import LOCAL, Limits
from bert_core.data.decoding import decode, without_invisible
from bert_core.errors import CorpusError, first_three, megabytes, quoted
from bert_core.storage.checkpoint import Checkpoint
from bert_core.storage.untrusted import Json
from bert_core.tasks.multiple_choice import MultipleChoice
from bert_core.tasks.question_answering import QuestionAnswering
from bert_core.tasks.tables import TaskFile, number_in
from bert_core.tasks.task import Example, Layout, Task, TaskBatches
from bert_core.tasks.texts import SeveralLabels, TextClassification, TextRegression
from bert_core.tasks.token_classification import TokenClassification

MAX_BYTES = 200 * 2**20
MAX_LABELS = 1_000
_MOST_CLASSES = 10  # of numbers, unless they are whole
_MISSING = {"nan", "null", "none", "n/a", "na", "#n/a", "<na>"}  # as pandas, R and spreadsheets write it

_KINDS = (TextClassification(), TextRegression(), MultipleChoice(), QuestionAnswering(), TokenClassification())
TASKS: dict[str, Task] = {task.name: task for task in _KINDS}
SEVERAL_LABELS = SeveralLabels()


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
        return SEVERAL_LABELS if self.is_multi_label else TASKS[self.task]

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
        Raises CorpusError if there are more than MAX_LABELS, or all examples have the same one."""
        found = _names(self.examples)
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
            raise CorpusError(
                f"{self.name} has labels that the training part lacks: {where}; train with examples of them, "
                "or remove these."
            )

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
        together, and of each label an example stays in the first part. Raises CorpusError if a part would be empty."""
        groups: dict[object, list[Example]] = {}
        for i, example in enumerate(self.examples):
            groups.setdefault(getattr(example, "context", i), []).append(example)
        if len(groups) < 2:
            raise CorpusError(f"Hold-out needs at least two examples; {self.name} has {len(self.examples)}.")
        keys, most = list(groups), min(len(groups) - 1, max(1, round(fraction * len(groups))))
        random.Random(seed).shuffle(keys)
        labels = {key: _names(members) for key, members in groups.items()}
        left = Counter(label for each in labels.values() for label in each)  # of the part to train on
        held_out, passed = set[object](), 0
        for key in keys:
            if len(held_out) == most:
                break
            if all(left[label] > 1 for label in labels[key]):
                left.subtract(labels[key])
                held_out.add(key)
            else:
                passed += len(groups[key])
        if not held_out:
            raise CorpusError(
                f"Each example of {self.name} has a label that no other has, so none can be held out; choose another "
                "column of the label, or add examples."
            )
        note = f"Examples that are not held out, because no other would be left with their label: {passed:,}."
        parts: tuple[list[Example], list[Example]] = ([], [])
        for key, members in groups.items():
            parts[key in held_out].extend(members)
        held_out_part = TaskData(self.task, parts[1], f"the held-out part of {self.name}")
        notes = (*self.notes, *[note] * bool(passed))
        return dataclasses.replace(self, examples=parts[0], notes=notes), held_out_part


@dataclass(frozen=True)
class TaskParts:
    """The labelled examples of a task."""

    train: TaskData
    validation: TaskData | None = None  # by which the best epoch is chosen; None to hold a part of `train` out
    test: TaskData | None = None  # for the result

    @property
    def name(self) -> str:
        """The name of the training file."""
        return self.train.name

    @property
    def others(self) -> list[TaskData]:
        """The parts beside the training part."""
        return [part for part in (self.validation, self.test) if part]

    @property
    def notes(self) -> tuple[str, ...]:
        """What the readers have read and changed; of other files than the training part, with their names."""
        said = {note for note in self.train.notes if note.startswith(("Texts: ", "Words: "))}  # the same columns
        named = [f"In {part.name}: {note}" for part in self.others for note in part.notes if note not in said]
        return tuple(dict.fromkeys((*self.train.notes, *named)))

    @property
    def fingerprint(self) -> str:
        """A hash of all examples: two tasks with the same one are the same."""
        examples = [part and list(part.examples) for part in vars(self).values()]
        return hashlib.sha256(repr(examples).encode("utf-8", "surrogatepass")).hexdigest()

    def as_json(self) -> Json:
        """All examples as JSON data, for `from_json`."""
        return {
            name: part and {**vars(part), "examples": [dataclasses.astuple(each) for each in part.examples]}
            for name, part in vars(self).items()
        }

    @classmethod
    def from_json(cls, content: Json) -> "TaskParts":
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
        return sum(500 + len(repr(example)) for part in vars(self).values() if part for example in part.examples)


def _names(examples: Sequence[Example]) -> set[str]:
    """The names of all labels of examples."""
    return {label for example in examples for label, _ in example.named_labels}


def _frozen(value: Any) -> Any:
    """JSON data with tuples in place of lists."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def load_task(
    path: str | Path,
    task: str,
    *,
    labelled: bool = True,
    columns: str | Sequence[str] = (),
    model: Checkpoint | None = None,
    train: TaskData | None = None,
    encoding: str | None = None,
    label_separator: str | None = None,
    limits: Limits = LOCAL,
) -> TaskData:
    """Read the examples of a task file.

    labelled: whether to read labels. columns: the texts and then, with labels, the label, or the word and the tag:
    names of a header, or numbers from 1, such as ("review", "sentiment") or "1,2". By default, a header's usual names,
    else the order. model, train: the fine-tuned model or the training part that the examples are for, whose columns
    come first. encoding: of a file that is not UTF-8, see `decode`. label_separator: what stands between the
    labels of a text that may have several; alone, it means none of them. Raises CorpusError, with the line or the
    question, if a part cannot be read, if it is not clear which columns to read, and for a file without examples or
    over the limits.
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
        data = path.read_bytes()
    except OSError as error:
        raise CorpusError(f"{path.name} cannot be read ({error.strerror or error}).") from None
    text, found = decode(data, path.name, encoding)
    notes += found
    if not kind.keeps_characters:
        text, invisible = without_invisible(text)
        notes += [f"Characters without width taken out of words: {invisible:,}."] if invisible else []
    separator = label_separator if task == TextClassification.name else None
    file = TaskFile(text, path.name, labelled, columns, kind.columns, separator, limits.items, notes)
    learned = learned_columns(model) if model else train.columns if train else ()
    file.learned, file.learned_label = learned[:-1], learned[-1:]
    file.labels = model.head.labels if model and model.head else None
    examples = kind.read(file)
    if not examples:
        raise CorpusError(f"{path.name} has no examples; a {task} file has {kind.form}.")
    notes += _doubts(examples) if labelled else []
    return TaskData(task, examples, path.name, tuple(notes), tuple(file.chosen), tuple(file.blanks))


def read_parts(read: Callable[..., TaskData], paths: Mapping[str, str | Path]) -> TaskParts:
    """The parts of a task from their files, the training part first: its columns come first in the others. read: as
    `load_task`, of a path."""
    train = read(paths["train"])
    return TaskParts(train, **{part: read(path, train=train) for part, path in paths.items() if part != "train"})


def _doubts(examples: Sequence[Example]) -> list[str]:
    """What may be wrong with the labels of examples, one sentence each."""
    counts = Counter(label for example in examples for label, _ in example.named_labels)
    alike: dict[str | float, list[str]] = {}
    for name in sorted(counts):
        alike.setdefault(_plainest(name), []).append(quoted(name))
    least = min((count for name, count in counts.items() if name.lower() not in _MISSING), default=0)
    missing = first_three(quoted(name) for name in sorted(counts) if name.lower() in _MISSING and counts[name] < least)
    is_rare = counts and statistics.median(counts.values()) > 2
    single = first_three(quoted(name) for name in sorted(counts) if is_rare and counts[name] == 1)
    numbers = [number_in(name) for name in counts]
    is_scale = len(numbers) > _MOST_CLASSES and any(each is not None and each % 1 for each in numbers)
    rights: dict[tuple[str, ...], str] = {}
    answers = ((each.texts, repr(each.right)) for each in examples)
    wrong = sum(rights.setdefault(texts, right) != right for texts, right in answers)
    several = first_three(" and ".join(each) for each in alike.values() if len(each) > 1)
    return [
        *[f"Labels that are almost the same are different labels: {several}."] * bool(several),
        *["The labels are numbers, each learned as a class of its own; text-regression learns them as numbers."]
        * (is_scale and None not in numbers),
        *[f"Labels that may stand for a missing value are learned as labels: {missing}."] * bool(missing),
        *[f"Labels that occur once, from which no model learns much: {single}."] * bool(single),
        *[f"Examples with the same text as an earlier one but another label or answer: {wrong:,}."] * bool(wrong),
    ]


def _plainest(label: str) -> str | float:
    """What labels have in common that differ only in capitals, blanks, the form of accents or that of a number."""
    number = number_in(label)
    if number is None or math.isnan(number):
        return " ".join(unicodedata.normalize("NFC", label).casefold().split())
    return number


def learned_columns(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The columns from which a fine-tuned model learned, see `TaskData.columns`; () if its recipe does not say."""
    match (checkpoint.recipe or {}).get("columns"):
        case [str(), str()] | [str(), str(), str()] as columns:
            return tuple(columns)
    return ()
