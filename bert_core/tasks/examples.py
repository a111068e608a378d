"""The five kinds of task and their labelled examples.

Examples of one task file have one class. An example without a label has None, and is for prediction.
"""

import dataclasses
import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from bert_core.errors import CorpusError, first_three, quoted

MAX_LABELS = 1_000


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text, or a pair of texts, with a label, several or, for regression, a number. line: in its file, from 1."""

    text: str
    pair: str | None
    label: str | tuple[str, ...] | float | None
    line: int = 0


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A prompt, with which every choice is read as a pair. label: index of the right choice."""

    text: str
    choices: tuple[str, ...]
    label: int | None
    line: int = 0


@dataclass(frozen=True, slots=True)
class AnswerExample:
    """A question about a context. answers: each text and its first character in the context; empty if there is none,
    and None if the answer is not known."""

    text: str
    context: str
    answers: tuple[tuple[str, int], ...] | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """The words of a sentence and their tags, such as O, B-person and I-person (IOB2). line: of the first word."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    line: int = 0


Example = TextExample | ChoiceExample | AnswerExample | TaggedExample
KINDS: dict[str, type] = {
    "text-classification": TextExample,
    "text-regression": TextExample,
    "multiple-choice": ChoiceExample,
    "question-answering": AnswerExample,
    "token-classification": TaggedExample,
}


def in_words(label: Any) -> str:
    """A label, several, or a number as text."""
    if isinstance(label, tuple):
        return ", ".join(label) or "none"
    return f"{label:.2f}".rstrip("0").rstrip(".") if isinstance(label, float) else str(label)


@dataclass(frozen=True)
class TaskData:
    """The examples of one part of a task: training, validation or test.

    task: one of `TASKS`. name: of the file. notes: what the reader has read and changed, one sentence each. columns:
    the texts and the label, or the word and the tag, by name, or by number from 1 without a header. blanks: places of
    empty lines among the examples, of a file without labels.
    """

    task: str
    examples: Sequence[Example]
    name: str = "the examples"
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    blanks: tuple[int, ...] = ()

    @property
    def choices(self) -> int | None:
        """The number of choices of each example, None for other tasks."""
        first = self.examples[0]
        return len(first.choices) if isinstance(first, ChoiceExample) else None

    @property
    def texts(self) -> int | None:
        """1 if each example is a text, 2 if each is a pair, None if they differ and for other tasks."""
        found = {1 + (each.pair is not None) for each in self.examples if isinstance(each, TextExample)}
        return found.pop() if len(found) == 1 else None

    @property
    def is_multi_label(self) -> bool:
        """Whether a text may have several labels, or none."""
        return isinstance(getattr(self.examples[0], "label", None), tuple)

    def labels(self) -> tuple[str, ...]:
        """The labels to learn, in the order of their ids: numbers by size, others by alphabet, and O before tags.

        Raises CorpusError if the examples cannot be learned: an example has no label, all have the same one, or there
        are more than MAX_LABELS.
        """
        if self.task in ("text-regression", "multiple-choice", "question-answering"):
            return ()
        found: set[str] = set()
        for example in self.examples:
            if isinstance(example, TaggedExample):
                found.update(example.tags or ())
            elif isinstance(example, TextExample):
                found.update((example.label,) if isinstance(example.label, str) else cast(tuple, example.label or ()))
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
        known, unknown = set(labels), dict[object, int]()
        for example in self.examples if labels else ():
            own = example.tags if isinstance(example, TaggedExample) else getattr(example, "label", None)
            for i, label in enumerate(own if isinstance(own, tuple) else (own,)):
                if label is not None and label not in known:
                    # A tag is on a line of its own.
                    unknown.setdefault(label, getattr(example, "line", 0) + i * isinstance(example, TaggedExample))
        if unknown:
            where = first_three(f"{quoted(label)} (line {line})" for label, line in unknown.items())
            raise CorpusError(f"{self.name} has labels that the training part lacks: {where}; add examples of them.")

    def sample(self, count: int, seed: int) -> "TaskData":
        """`count` examples drawn by a seed, in their order; all of them if there are fewer."""
        chosen = sorted(random.Random(seed).sample(range(len(self.examples)), min(count, len(self.examples))))
        return dataclasses.replace(self, examples=[self.examples[i] for i in chosen])

    def split(self, fraction: float, seed: int) -> tuple["TaskData", "TaskData"]:
        """Two parts of the examples: without and with a seeded `fraction` of them. Questions about one context stay
        together. Raises CorpusError if a part would be empty."""

        groups: dict[object, list[Example]] = {}
        for i, example in enumerate(self.examples):
            groups.setdefault(example.context if isinstance(example, AnswerExample) else i, []).append(example)
        keys = list(groups)
        random.Random(seed).shuffle(keys)
        held_out = max(1, round(fraction * len(keys)))
        if len(keys) - held_out < 1:
            raise CorpusError(f"{self.name} has {len(self.examples)} examples; hold-out needs at least two.")
        chosen = set(keys[:held_out])
        parts: tuple[list[Example], list[Example]] = ([], [])
        for key, members in groups.items():
            parts[key in chosen].extend(members)
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
        parts = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return {
            name: part
            and dataclasses.asdict(part) | {"examples": [dataclasses.astuple(each) for each in part.examples]}
            for name, part in parts.items()
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "TaskParts":
        """The parts that `as_json` wrote. Raises KeyError, TypeError or ValueError for other data."""
        parts = {}
        for name, part in content.items():
            kind = KINDS[part["task"]] if part else TextExample
            parts[name] = part and TaskData(
                *(part["task"], [kind(*map(_frozen, row)) for row in part["examples"]]),
                *(part["name"], *(_frozen(part[name]) for name in ("notes", "columns", "blanks"))),
            )
        return cls(**parts)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of all examples."""
        parts = (part for part in (self.train, self.validation, self.test) if part)
        return sum(500 + len(repr(example)) for part in parts for example in part.examples)


def _frozen(value: Any) -> Any:
    """JSON data with tuples in place of lists."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
