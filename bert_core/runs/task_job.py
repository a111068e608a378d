"""A task as a job: its examples for fine-tuning."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from bert_core.data.encoding import notes_on_unknown
from bert_core.device import training_bytes
from bert_core.errors import ConfigError, CorpusError
from bert_core.runs.job import Job
from bert_core.runs.recipe import FinetuningRecipe
from bert_core.runs.snapshots import Snapshot
from bert_core.storage.checkpoint import Checkpoint, TaskHead
from bert_core.tasks.examples import TaskBatches, TaskParts
from bert_core.tasks.prediction import model_of, predicting
from bert_core.tasks.task import Layout
from bert_core.training.objective import StepRow


@dataclass(frozen=True, eq=False)
class TaskJob(Job):
    is_text: ClassVar = False

    def first_model(self) -> nn.Module:
        """A model with the encoder of the start, or a random one, and a new pooler and output layer, drawn by the seed.

        Only the pooler of a fine-tuned start is kept: next-sentence training drives it to -1 and 1, where tanh passes
        on hardly any gradient (Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning", draw it anew too). Its
        output layer is kept where it has learned the same labels. Raises ConfigError when more layers are to be kept
        as they are than there are."""
        start, head, recipe = self.start, self.head, self.recipe
        assert start is not None
        assert head is not None
        rate, frozen = recipe.training.dropout, recipe.training.frozen_layers
        drop = {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate, "classifier_dropout": None}
        generator = torch.Generator().manual_seed(recipe.seed)
        model = self.parts.train.kind.model(start.config.replace(**drop), head.outputs, generator=generator)
        if not recipe.random_weights:
            keeps_pooler = start.head is not None and "pooler" not in start.missing
            new = ("cls.", *["bert.pooler."] * (not keeps_pooler), *[model.layer] * (start.head != head))
            known = {name: each for name, each in start.model.state_dict().items() if not name.startswith(new)}
            model.load_state_dict(known, strict=False)
        layers = model.bert.encoder.layer
        if frozen > len(layers):
            raise ConfigError(f"frozen_layers is {frozen}; the model has {len(layers)} layers.")
        for module in (model.bert.embeddings, *layers[:frozen]) if frozen else ():
            module.requires_grad_(False)
        return model

    def weights_of(self, saved: Checkpoint) -> Mapping[str, Tensor]:
        return model_of(saved).state_dict()

    def evaluate(self, snapshot: Snapshot) -> Iterator[StepRow | None]:
        for answers in predicting(snapshot.checkpoint(), self.validation):
            if answers is None:
                yield None
            else:
                measures = self.validation.measures([each.label for each in answers[0]])
                epoch = snapshot.step / self.batches.steps_per_epoch
                yield StepRow(step=snapshot.step, epoch=epoch, loss=answers[1], **measures)


def prepare_task(
    recipe: FinetuningRecipe, given: TaskParts, device: str, start: Checkpoint, progress: Callable[[str], None]
) -> TaskJob:
    """Encode labelled examples; see `prepare`."""
    used, labels = _used_parts(recipe, given)
    train, validation, training = used.train, used.validation, recipe.training
    assert validation is not None
    data = recipe.data.within(start.config.max_position_embeddings)
    progress("encoding the examples")
    may_be_missing = any(each.label == () for each in train.examples)
    layout = Layout(labels, start.tokenizer, data, may_be_missing)
    batches, held_out = (TaskBatches(each, layout, recipe.seed) for each in (train, validation))
    epochs = training.epochs
    steps = training.steps if epochs is None else max(1, math.ceil(epochs * batches.steps_per_epoch))
    warmup_steps = min(training.warmup_steps or round(training.warmup_fraction * steps), steps)
    in_order = ("1", "2", "3")[: train.texts + 1] if train.texts and train.kind.usual else ()
    recipe = recipe.for_source(given).replace(
        start=recipe.start or start.name,
        random_weights=recipe.random_weights or start.random_weights,
        may_be_missing=may_be_missing,
        columns=train.columns.names if train.columns else in_order,
        data=data,
        training=training.replace(steps=steps, warmup_steps=warmup_steps),
    )
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
        training_bytes=training_bytes(start.config, data.batch_size * batches.choices, batches.longest, 0, device),
        notes=_notes(used, batches, held_out),
        start=start,
        head=TaskHead(train.kind.model.__name__, labels),
        evaluate_every=training.evaluate_every * batches.steps_per_epoch,
        best_by=train.kind.measure if training.keep_best else "",
    )


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
        if part and part.texts != train.texts:
            raise CorpusError(f"Examples of {part.name} have more or fewer texts or choices than those to train on.")
    others = [part and part.with_labels_of(labels) for part in (validation, given.test)]
    return TaskParts(train, *others), labels


def _notes(parts: TaskParts, batches: TaskBatches, held_out: TaskBatches) -> tuple[str, ...]:
    notes, learned = list(parts.notes), {(each.texts, each.label) for each in parts.train.examples}
    for part in parts.others:
        if known := sum((each.texts, each.label) in learned for each in part.examples):
            about = f"{known:,} of {len(part.examples):,} examples are in the training part too"
            notes.append(f"{part.name}: {about}, so a model may know them by heart.")
    ids, layout = np.concatenate([row.ids for row in batches.rows]), batches.layout
    words = ids[~np.isin(ids, [layout.cls, layout.sep])]
    unknown = float((words == layout.unk).mean()) if len(words) else 0.0
    remedy = "choose a model that knows them, such as english-mini for English"
    notes += notes_on_unknown(unknown, parts.train.name, remedy)
    return (*notes, *batches.cut(), *held_out.cut())
