"""A task as a job: its examples for fine-tuning; `finetune` trains one and waits."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from tokenizers import Tokenizer
from torch import Tensor, nn

from bert_core.config import FinetuningData
from bert_core.data.encoding import notes_on_unknown
from bert_core.data.tokenizer import CLS, SEP, UNK, special_ids
from bert_core.device import training_bytes
from bert_core.errors import CorpusError
from bert_core.runs.job import Job
from bert_core.runs.recipe import FinetuningRecipe
from bert_core.runs.snapshots import Snapshot
from bert_core.storage.checkpoint import Checkpoint, TaskHead
from bert_core.tasks.examples import TaskParts
from bert_core.tasks.prediction import initial_model, model_of, validate
from bert_core.tasks.question_answering import QuestionAnswering
from bert_core.tasks.task import Layout, TaskBatches
from bert_core.training.objective import StepRow


@dataclass(frozen=True, eq=False)
class TaskJob(Job):
    """Fine-tuning on labelled examples. layout: of the rows of texts."""

    is_text: ClassVar = False

    layout: Any = None

    def first_model(self) -> nn.Module:
        recipe, kind = self.recipe, self.parts.train.kind.model
        assert self.start is not None
        assert self.head is not None
        return initial_model(self.start, kind, self.head, recipe.training, recipe.seed, random=recipe.random_weights)

    def weights_of(self, saved: Checkpoint) -> Mapping[str, Tensor]:
        return model_of(saved).state_dict()

    def evaluate(self, snapshot: Snapshot) -> Iterator[StepRow | None]:
        epoch = snapshot.step / self.batches.steps_per_epoch
        for row in validate(snapshot.checkpoint(), self.parts.validation, self.validation, self.layout):
            yield StepRow(step=snapshot.step, epoch=epoch, **row) if row else None

    def verdict(self, history: Sequence[StepRow], evaluations: Sequence[StepRow]) -> list[str]:
        return []


def prepare_task(
    recipe: FinetuningRecipe, given: TaskParts, device: str, start: Checkpoint, progress: Callable[[str], None]
) -> TaskJob:
    """Encode labelled examples; see `prepare`."""
    used, labels = _used_parts(recipe, given)
    train, validation, data, training = used.train, used.validation, recipe.data, recipe.training
    assert validation is not None
    data, shortened = _shortened(data, start.config.max_position_embeddings, used)
    progress("encoding the examples")
    may_be_missing = recipe.task == QuestionAnswering.name and any(not each.label for each in train.examples)
    layout = Layout(labels, start.tokenizer, data, may_be_missing)
    batches, held_out = (each.batches(layout, start.config.pad_token_id, recipe.seed) for each in (train, validation))
    steps = training.steps
    if training.epochs is not None:
        steps = max(1, math.ceil(training.epochs * batches.steps_per_epoch))
    warmup_steps = min(training.warmup_steps or round(training.warmup_fraction * steps), steps)
    recipe = recipe.for_source(given).replace(
        start=recipe.start or start.name,
        may_be_missing=may_be_missing,
        columns=train.columns.names if train.columns else ("1", "2", "3")[: train.texts + 1 if train.texts else 0],
        data=data,
        training=training.replace(steps=steps, warmup_steps=warmup_steps),
    )
    head = TaskHead(train.kind.model.__name__, labels, recipe.task == "text-regression")
    return TaskJob(
        recipe=recipe,
        source=given,
        parts=used,
        tokenizer=start.tokenizer,
        config=start.config,
        objective=train.kind,
        batches=batches,
        validation=held_out,
        device=device,
        training_bytes=training_bytes(start.config, data.batch_size * (train.choices or 1), batches.longest, 0, device),
        notes=(
            *_task_notes(used, batches, start.tokenizer),
            *train.kind.doubts(train.examples, batches.rows, data),
            *batches.cut(train.name),
            *held_out.cut(validation.name),
            *(shortened if batches.longest == data.sequence_length else ()),
            *(() if recipe.random_weights else _head_notes(start, head)),
        ),
        start=start,
        head=head,
        evaluate_every=training.evaluate_every * batches.steps_per_epoch,
        best_by=train.kind.measure if training.keep_best else "",
        layout=layout,
    )


def _shortened(data: FinetuningData, positions: int, parts: TaskParts) -> tuple[FinetuningData, tuple[str, ...]]:
    """Settings of batches that a model with so many positions can read, and what to say where texts are cut."""
    length, stride = data.sequence_length, data.stride
    if length <= positions:
        return data, ()
    said = f"The model reads {positions:,} tokens, not {length:,}"
    if parts.train.task != QuestionAnswering.name:
        return data.replace(sequence_length=positions), (f"{said}; longer texts are cut.",)
    if stride is not None:  # windows go on overlapping
        shorter = max(1, stride * positions // length)
        said, stride = f"{said}, so the stride is {shorter:,} instead of {stride:,}", shorter
    return data.replace(sequence_length=positions, stride=stride), (f"{said}.",)


def _head_notes(start: Checkpoint, head: TaskHead) -> tuple[str, ...]:
    """What becomes of the output layer of a model that has learned a task."""
    if start.head is None:
        return ()
    if start.head == head:
        return (f"The output layer of {start.name} goes on, since it has the same labels.",)
    return (f"{start.name} has learned another task or other labels, so the output layer is drawn anew.",)


def _used_parts(recipe: FinetuningRecipe, given: TaskParts) -> tuple[TaskParts, tuple[str, ...]]:
    """The examples to train on and to evaluate on, and their labels. Raises CorpusError where they do not fit."""
    if any(part.task != recipe.task for part in (given.train, *given.others)):
        raise CorpusError(f"The recipe is for {recipe.task}; give it examples of that task.")
    train, validation = given.train, given.validation
    if validation is None:
        train, validation = train.split(recipe.data.validation_share, recipe.seed)
    labels = train.labels()
    if recipe.data.most_examples is not None:
        train = train.sample(recipe.data.most_examples, recipe.seed)
    for part in (validation, given.test):
        if part and part.choices != train.choices:
            raise CorpusError(f"{part.name} has {part.choices} choices where the training part has {train.choices}.")
        if part and part.texts != train.texts:
            raise CorpusError(f"{part.name} and the training part must both have single texts, or pairs of texts.")
    others = [part and part.with_labels_of(labels) for part in (validation, given.test)]
    return TaskParts(train, *others), labels


def _task_notes(parts: TaskParts, batches: TaskBatches, tokenizer: Tokenizer) -> tuple[str, ...]:
    """What the readers changed, and how many words of the training part are unknown."""
    notes = dict.fromkeys(parts.notes)
    learned = {(each.texts, each.label) for each in parts.train.examples}
    for part in parts.others:
        if known := sum((each.texts, each.label) in learned for each in part.examples):
            about = f"{known:,} of {len(part.examples):,} examples are in the training part too"
            notes[f"{part.name}: {about}, so a model may know them by heart."] = None
    ids, special = np.concatenate([row.ids for row in batches.rows]), special_ids(tokenizer)
    words = ids[~np.isin(ids, [special[CLS], special[SEP]])]
    unknown = float((words == special[UNK]).mean()) if len(words) else 0.0
    remedy = "choose a model that knows them, such as english-mini for English"
    return (*notes, *notes_on_unknown(unknown, parts.train.name, remedy))
