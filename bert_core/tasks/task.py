"""What all kinds of task share: examples, rows of tokens, batches, the model with an output layer, and the class of a
kind of task (Devlin et al. 2018, 4).

Shapes: R rows of a batch, C choices of an example, T tokens, D hidden size, M tagged words, L labels."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Encoding, Tokenizer
from torch import Generator, Tensor, nn

from bert_core.config import BertConfig, FinetuningData
from bert_core.data.batches import truncated_lengths
from bert_core.data.tokenizer import CLS, PAD, SEP, UNK, plain, special_ids
from bert_core.errors import quoted
from bert_core.model import BertModel, Packing, Watch, initialise
from bert_core.storage.untrusted import Json
from bert_core.storage.weights import TASK_HEADS
from bert_core.tasks.tables import TaskFile, Usual
from bert_core.training import Fractions

Metrics = dict[str, float]

_TEXTS_AT_ONCE = 10_000
_NO_POSITIONS = torch.empty(0, dtype=torch.long)  # the last layer then computes only each row's first token


@dataclass(frozen=True, slots=True)
class Example:
    """What a model learns from, or predicts. texts: a text or a pair, a prompt and its choices, a question and its
    context, or a sentence."""

    texts: tuple[str, ...]
    # None if it is not known: a name, a number, the index of the right choice, the tags of words, or the answers, each
    # with its first character in the context; () if there is none.
    label: Any = None
    words: tuple[str, ...] | None = None  # of a sentence to tag
    name: str = ""  # the id of a question


@dataclass(frozen=True)
class Answer:
    """A part of the context; an empty text means that the context holds no answer."""

    text: str
    start: int  # its first character
    score: float  # sum of the logits of its first and last token
    probability: float = 1.0  # softmax over the candidates of the question


@dataclass(frozen=True)
class Prediction:
    """What a model says about an example. label: as of an example, O for a word that the tokenizer drops, and for a
    question the text of the likeliest answer."""

    label: Any
    probabilities: tuple[float, ...] = ()  # of each label or choice
    answers: tuple[Answer, ...] = ()  # the likeliest ones to a question, the best first; at least one


@dataclass(frozen=True)
class Row:
    """[CLS] A [SEP] or [CLS] A [SEP] B [SEP], with what the model learns for it."""

    ids: Sequence[int]  # all tokens
    second: int  # index of the first token of B, or the number of tokens
    example: int  # index of its example
    # (1,) the label's id, the number or the index of the right choice; (1, 2) the tokens where the answer starts and
    # ends; (M,) label ids of tagged words. None without labels.
    target: np.ndarray | None = None
    positions: np.ndarray | None = None  # (M,) the first token of each tagged word
    words: np.ndarray | None = None  # (M,) the indices of tagged words in the sentence
    # Of a window: (T, 2) the first character of each token in the context and that after its last one; -1 elsewhere.
    offsets: np.ndarray | None = None
    # Of a window: (T,) whether no other window shows the token with more context on both sides.
    widest: np.ndarray | None = None
    window: range = range(0)  # of a window: the indices of its tokens in the context
    lost: int = 0  # tokens of the texts for which there is no room

    @property
    def inputs(self) -> tuple[list[int], list[int]]:
        """The ids and the segments, as `follow` takes them."""
        return [*self.ids], [int(t >= self.second) for t in range(len(self.ids))]

    @property
    def inside(self) -> np.ndarray:
        """Of a window: (T,) whether each token is of the context."""
        assert self.offsets is not None
        return self.offsets[:, 0] >= 0

    @property
    def answer(self) -> tuple[int, int] | None:
        """Of a window that has the whole answer: the positions of its first and last token."""
        if self.offsets is None or self.target is None or not self.target.any():
            return None
        start, end = self.target[0].tolist()
        return start, end


Parts = Sequence[tuple[Row, np.ndarray]]  # the rows of an example, each with its logits


class Layout:
    """How texts become rows, and how a model's outputs are read. labels: of the outputs, empty if they have no names.
    may_be_missing: whether a question may have no answer. ids: of each label. cls, sep, pad, unk: ids of tokens."""

    def __init__(
        self, labels: Sequence[str], tokenizer: Tokenizer, config: FinetuningData, may_be_missing: bool = False
    ) -> None:
        self.labels, self.ids = labels, {label: i for i, label in enumerate(labels)}
        self.tokenizer, self.config, self.may_be_missing = tokenizer, config, may_be_missing
        self.cls, self.sep, self.pad, self.unk = (special_ids(tokenizer)[each] for each in (CLS, SEP, PAD, UNK))

    def row(self, example: int, texts: Sequence[Encoding], target: np.ndarray | None) -> Row:
        """One or two texts, the end of the longer one cut."""
        a, b = (each.ids for each in texts) if len(texts) == 2 else (texts[0].ids, [])
        room = self.config.sequence_length - 1 - len(texts)
        length_a, length_b = map(int, truncated_lengths(np.array(len(a)), np.array(len(b)), room))
        first = [self.cls, *a[:length_a], self.sep]
        second = [*b[:length_b], self.sep] if len(texts) == 2 else []
        return Row([*first, *second], len(first), example, target, lost=len(a) + len(b) - length_a - length_b)


@dataclass(frozen=True)
class TaskBatch:
    """Rows as int64 tensors, padded to the longest."""

    input_ids: Tensor  # (R, T), for choices (R, C, T), as the next two
    token_type_ids: Tensor
    attention_mask: Tensor
    target: Tensor | None = None  # the rows' targets in one
    positions: Tensor | None = None  # (M,) of tagged words among all R * T

    @classmethod
    def of(cls, rows: Sequence[Row], pad_token_id: int, choices: int) -> "TaskBatch":
        """Pad rows. choices: the number of rows of an example."""
        lengths = np.array([len(row.ids) for row in rows])
        t = np.arange(lengths.max())  # (T,)
        mask = t < lengths[:, None]
        ids = np.full(mask.shape, pad_token_id)
        ids[mask] = np.concatenate([row.ids for row in rows])
        segments = mask & (t >= np.array([row.second for row in rows])[:, None])
        shape = (-1, choices, len(t)) if choices > 1 else mask.shape
        tensors = [torch.from_numpy(each.astype(np.int64)).view(shape) for each in (ids, segments, mask)]
        targets = [row.target for row in rows[::choices] if row.target is not None]
        positions = [row.positions + i * len(t) for i, row in enumerate(rows) if row.positions is not None]
        target, asked = (torch.from_numpy(np.concatenate(each)) if each else None for each in (targets, positions))
        return cls(tensors[0], tensors[1], tensors[2], target, asked)

    def logits(self, model: "BertForTask", device: torch.device | str, watch: Watch | None = None) -> Tensor:
        """The logits of a model on this device: (R, L), (R, C), (R, T, 2) or, for tagged words, (M, L). watch: see
        `BertModel.forward`."""
        packing = Packing.of(self.attention_mask.flatten(0, -2), device)
        mask = None if packing.real is None else self.attention_mask.to(device)
        ids, segments = self.input_ids.to(device), self.token_type_ids.to(device)
        return model(ids, mask, segments, asked_positions=self.positions, packing=packing, watch=watch).float()


class BertForTask(nn.Module):
    """An encoder and one linear layer, under the class and tensor names of Hugging Face. outputs: of a row or a token.
    generator: of the initial weights; under `torch.device("meta")` nothing is drawn."""

    def __init__(self, config: BertConfig, outputs: int = 2, *, generator: Generator | None = None) -> None:
        super().__init__()
        self.config = config
        self.layer, self.has_pooler = TASK_HEADS[type(self).__name__]
        self.bert = BertModel(config, generator=generator)
        with torch.device("meta"):  # a layer elsewhere would draw from the global generator, as another run's dropout
            self.add_module(self.layer, nn.Linear(config.hidden_size, outputs))
        initialise(self.get_submodule(self.layer), config, generator)
        self.bert.pooler.requires_grad_(self.has_pooler)  # nothing else reads it
        dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = nn.Dropout(dropout if self.layer == "classifier" else 0.0)  # none before the ends of answers

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None, **more: Any
    ) -> Tensor:
        """The logits of rows, (R, L), or of tokens, (R, T, L), from inputs (R, T); of choices, (R, C) from (R, C, T).
        more: further arguments of `BertModel.forward`; of tokens, the logits are those of the M asked ones, (M, L)."""
        given = (input_ids, attention_mask, token_type_ids)
        inputs = (None if each is None else each.flatten(0, -2).contiguous() for each in given)
        if self.has_pooler:
            more["asked_positions"] = _NO_POSITIONS
        output = self.bert(*inputs, **more)
        read = output.pooler_output if self.has_pooler else output.last_hidden_state
        logits: Tensor = self.get_submodule(self.layer)(self.dropout(read))
        return logits if input_ids.ndim == 2 else logits.view(input_ids.shape[:2])


class Task:
    """A kind of task, the `Objective` of its fine-tuning; by default one label or choice for each example. Its numbers:
    loss, in nats or the mean squared error of a regression; accuracy, nan for a regression. Of an answer, start and end
    count on their own."""

    names: ClassVar[tuple[str, ...]] = ("loss", "accuracy")
    name: ClassVar[str]  # in recipes
    model: ClassVar[type[BertForTask]]
    measure: ClassVar[str] = "accuracy"  # by which the best epoch is chosen
    form: ClassVar[str]  # of its files
    usual: ClassVar[Usual | None] = None  # of the columns that a person may choose, if any
    texts: ClassVar[range]  # how many an example may have
    has_choices: ClassVar[bool] = False
    has_words: ClassVar[bool] = False  # which have tags

    def read(self, file: TaskFile) -> Sequence[Example]:
        raise NotImplementedError

    def rows(self, examples: Sequence[Example], layout: Layout) -> list[Row]:
        encode, rows = plain(layout.tokenizer).encode_batch, list[Row]()
        for start in range(0, len(examples), _TEXTS_AT_ONCE):
            part = examples[start : start + _TEXTS_AT_ONCE]
            inputs = [[each.words or ()] if self.has_words else each.texts for each in part]
            texts = [text for each in inputs for text in each]
            encoded = iter(encode(texts, add_special_tokens=False, is_pretokenized=self.has_words))
            for number, (each, own) in enumerate(zip(part, inputs), start):
                rows += self.rows_of(each, number, [next(encoded) for _ in own], layout)
        return rows

    def rows_of(self, example: Example, number: int, texts: Sequence[Encoding], layout: Layout) -> list[Row]:
        label = layout.ids.get(example.label, example.label)
        target = None if label is None else np.array([label], np.float32 if isinstance(label, float) else np.int64)
        pairs = [(texts[0], choice) for choice in texts[1:]] if self.has_choices else [texts]
        return [layout.row(number, each, target) for each in pairs]

    def size(self, batch: TaskBatch) -> tuple[Tensor, int]:
        return batch.attention_mask.flatten(0, -2).sum(1), 0

    def run(self, model: BertForTask, batch: TaskBatch, device: torch.device) -> Fractions:
        assert batch.target is not None
        return self.numbers(batch.logits(model, device), batch.target.to(device))

    def loss(self, numbers: Tensor, config: object, step: int) -> Tensor:
        return numbers[0]

    def numbers(self, logits: Tensor, target: Tensor) -> Fractions:
        """Loss and accuracy as the task classes of `transformers` have them; see `TaskBatch`."""
        loss = F.cross_entropy(logits, target, reduction="sum")
        right = (logits.detach().argmax(1) == target).sum()
        return torch.stack([loss, right]), loss.new_tensor([len(target), len(target)])

    def chance(self, rows: Sequence[Row]) -> float:
        """The least loss of an answer that does not look at the text: the entropy of the labels of these rows."""
        counts = np.bincount(np.concatenate([row.target.ravel() for row in rows if row.target is not None]))
        shares = counts[counts > 0] / counts.sum()
        return float(-shares @ np.log(shares))

    def decode(self, example: Example, parts: Parts, layout: Layout) -> Prediction:
        scores = torch.from_numpy(parts[0][1]).softmax(-1)
        best = int(scores.argmax())
        return Prediction(layout.labels[best] if layout.labels else best, tuple(scores.tolist()))

    def measures(self, right: Sequence[Any], found: Sequence[Any], labels: Sequence[str] = ()) -> Metrics:
        """The measures that papers report, of the right labels and those found: fractions from 0, or -1, to 1. One that
        divides by zero is 0, as in scikit-learn, seqeval and SQuAD's script."""
        return {"accuracy": accuracy(right, found)}

    def always(self, right: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """The most frequent answer in words, and predictions that are always this one."""
        most: Any
        [(most, _)] = Counter(each for label in right for each in names_of(label) or [label]).most_common(1)
        said = f"choice {most + 1} (label {most})" if self.has_choices else quoted(most)
        return said, [(most,) * len(label) if self.has_words else most for label in right]

    def judge(self, example: Example, found: Prediction, labels: Sequence[str]) -> tuple[bool | None, float]:
        """Whether a prediction is right, and how far off it is: `is_right` and `mistake` of `Judged`."""
        if self.has_words:
            return found.label == example.label, 1 - accuracy(example.label, found.label)
        names: Sequence[Any] = labels or range(len(found.probabilities))
        return found.label == example.label, 1 - dict(zip(names, found.probabilities)).get(example.label, 0.0)

    def as_json(self, example: Example, found: Prediction, labels: Sequence[str]) -> Json:
        names = labels or map(str, range(len(found.probabilities)))
        probabilities = {"probabilities": dict(zip(names, found.probabilities))} if found.probabilities else {}
        return {"label": found.label, **probabilities}


def names_of(label: Any) -> Sequence[str]:
    """The names in a label: its own, or the tags of words; none of other tasks."""
    match label:
        case str():
            return [label]
        case [str(), *_]:
            return label
    return ()


def ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def accuracy(a: Sequence[Any], b: Sequence[Any]) -> float:
    """The fraction of pairs whose two sides are equal."""
    return ratio(sum(x == y for x, y in zip(a, b)), len(a))
