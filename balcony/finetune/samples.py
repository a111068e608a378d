"""Three examples of a task, and one of them as the rows that a model reads."""

from collections.abc import Sequence
from typing import Any

from balcony.finetune.answers import labelled
from balcony.parts.verdicts import MOST_JUDGED
from bert_core.config import FinetuningData
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskData
from bert_core.tasks.prediction import label_in_words
from bert_core.tasks.task import Example, Layout, Row

SAMPLES = 3


def samples(examples: Sequence[Example]) -> list[Example]:
    """Three examples of a task, with different labels where it has them."""
    first: dict[str, Example] = {}
    for example in examples[:MOST_JUDGED]:
        first.setdefault(label_in_words(example, example.label), example)
    chosen = [first[label] for label in sorted(first, key=lambda label: not label)]  # entities and answers first
    chosen += [example for example in examples[: 2 * SAMPLES] if example not in chosen]
    return chosen[:SAMPLES]


def samples_value(data: TaskData, checkpoint: Checkpoint, config: FinetuningData) -> dict[str, Any]:
    """Three examples, and the first of them as the rows that a model reads. Raises CorpusError for one that the model
    cannot read."""
    chosen, config = samples(data.examples), config.within(checkpoint.config.max_position_embeddings)
    layout, task = Layout(data.labels(), checkpoint.tokenizer, config), data.kind
    rows = task.rows(chosen[:1], layout)
    windows = [row for row in rows if row.answer]
    shown = rows if task.has_choices else (windows or rows)[:1]
    figure = {
        "task": task.name,
        "layers": checkpoint.config.num_hidden_layers,
        "pooler": checkpoint.config.pooler,
        "rows": [
            {"tokens": [checkpoint.tokenizer.id_to_token(token) for token in row.ids], "second": row.second}
            for row in shown
        ],
        "of": 1 if task.has_choices else len(rows),
        "contextFirst": config.context_first,
        "read": read_at(chosen[0], shown[0]),
    }
    return {"examples": [labelled(example) for example in chosen], "figure": figure}


def read_at(example: Example, row: Row) -> list[tuple[int, str]]:
    """Positions of a row where the answer is read, each with what is read there; the number of the right choice."""
    if row.offsets is not None:
        assert row.target is not None
        [[start, end]] = row.target.tolist()
        return [(start, "start"), (end, "end")]
    if row.positions is not None and row.words is not None:
        return [(int(at), example.label[word]) for at, word in zip(row.positions, row.words)]
    return [(example.label if isinstance(example.label, int) else 0, label_in_words(example, example.label))]
