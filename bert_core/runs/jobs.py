"""From a recipe to a job: a text or labelled examples, encoded and ready to train. Both have the same protocol."""

import contextlib
import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from tokenizers import Tokenizer
from torch import nn

from bert_core.config import BertConfig, Limits
from bert_core.data.batches import Batch, PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import MANY_UNKNOWN, encode_corpus, notes_on_unknown
from bert_core.data.tokenizer import MASK, notes_on_words, train_tokenizer
from bert_core.device import choose_device, training_bytes
from bert_core.errors import CheckpointError, ConfigError, CorpusError, ignore, noting, percent, quoted
from bert_core.model import BertForPreTraining
from bert_core.runs.recipe import BY_SIZE, FinetuningRecipe, Recipe
from bert_core.storage.checkpoint import Checkpoint, TaskHead, notes_on_missing
from bert_core.tasks.examples import TaskBatches, TaskParts
from bert_core.tasks.prediction import predicting
from bert_core.tasks.task import Layout
from bert_core.training import DistributedTrainer, Objective, Pretraining, StepRow, Trainer, evaluate, step_cost

# Unless the recipe says otherwise, a tenth is held out of a text of at least so many documents, sentences or bytes.
_HELD_OUT_SHARE, _DOCUMENTS, _SENTENCES, _BYTES = 0.1, 8, 200, 12_000
_MANY_KNOWN = 0.1  # of the sentences of a held-out part
_NOTED = 20_000  # sentences whose words are looked at
_MAX_BATCHES, _MAX_EVALUATIONS = 8, 100  # of one evaluation, and of one run
_PASSES = 4  # over a short held-out part, each with other words masked
_LAST_STEPS, _ABOVE_CHANCE = 20, 1.01  # whose mean loss is that at the end; times the loss of chance


@dataclass(frozen=True, eq=False, kw_only=True)
class Job(ABC):
    """A text or a task with all that its training needs but the weights, which `first_model` draws."""

    recipe: Any  # a Recipe or a FinetuningRecipe, with its number of steps, sizes, held-out fraction and seed
    source: Any  # a Corpus or, for a task, TaskParts, as it was given
    parts: Any  # TextParts or, for a task, TaskParts, whose validation part is never None
    tokenizer: Tokenizer
    config: BertConfig  # sizes of the model
    objective: Objective
    batches: Any  # of the training part
    validation: Any  # batches of that part; None without one
    device: str  # to train on
    training_bytes: int  # estimated, of training beside snapshots and text
    notes: tuple[str, ...] = ()  # one sentence each
    start: Checkpoint | None = None  # the model to begin with, if any; a run that has begun drops it
    head: TaskHead | None = None  # the output layer of a task
    evaluate_every: int = 0  # steps from one evaluation on held-out data to the next, 0 where nothing is held out
    best_by: str = ""  # the measure by which the best snapshot is chosen, if any is
    test: Any = None  # batches of that part of a text, if there is one

    @abstractmethod
    def first_model(self) -> nn.Module:
        """A model with its initial weights: drawn by the seed, or those of the start."""

    @abstractmethod
    def evaluate(self, checkpoint: Checkpoint, step: int) -> Iterator[StepRow | None]:
        """Evaluate a model, as it is after a step, on held-out data: yields None after each batch, and at the end the
        row of numbers."""

    def verdict(self, history: Sequence[StepRow], evaluations: Sequence[StepRow]) -> list[str]:
        return []

    def trainer(self) -> Trainer:
        """A trainer of a new model; each of several processes makes its own."""
        model, recipe = self.first_model().to(self.device), self.recipe
        kind = DistributedTrainer if dist.is_initialized() else Trainer
        return kind(model, self.batches, recipe.training, seed=recipe.seed, objective=self.objective)

    def load(self, model: nn.Module, saved: Checkpoint) -> None:
        """Give a model the weights that were saved in this training. Raises CheckpointError for another model."""
        fits = saved.config == model.config and saved.head == self.head
        if not fits or saved.tokenizer.get_vocab() != self.tokenizer.get_vocab():
            raise CheckpointError(
                "The model does not fit its recipe.json, or this program's tokenizer differs from that of the program "
                "that saved it; its training cannot continue."
            )
        weights, own = saved.model.state_dict(), model.state_dict()
        model.load_state_dict({name: each for name, each in weights.items() if name in own})

    def seconds(self, steps: int) -> float:
        """Estimated training time of so many steps."""
        cost = step_cost(self.config, self.batches, self.objective, self.device)
        return steps * cost.seconds(self.recipe.training.precision)


def prepare(
    recipe: Recipe | FinetuningRecipe,
    source: Corpus | TaskParts | None = None,
    seed: int | None = None,
    device: str = "auto",
    *,
    start: Checkpoint | None = None,
    progress: Callable[[str], None] = ignore,
) -> Job:
    """Encode a text or labelled examples, without the global random generator.

    source, seed: None for the recipe's own. device: see `choose_device`. start: the model to start from, which a task
    needs; without one, a tokenizer is trained on the text. progress: called with the present stage, such as "encoding
    the text, 40 %". Raises BertCoreError for unusable data or sizes."""
    device, recipe = choose_device(device), recipe.with_seed(seed)
    if start is None and recipe.start:
        raise ConfigError(
            f"This recipe goes on from the model {quoted(recipe.start)}, which is missing here. Train it on the "
            "command line, with --start and that model's folder."
        )
    source = source or recipe.source()
    with noting(source.notes):
        if isinstance(recipe, Recipe) and isinstance(source, Corpus):
            return prepare_text(recipe, source, device, start, progress)
        if isinstance(recipe, FinetuningRecipe) and isinstance(source, TaskParts) and start:
            return prepare_task(recipe, source, device, start, progress)
    raise ConfigError("A recipe and what it learns from do not fit; a text goes with Recipe, a task with TaskParts.")


def check_limits(job: Job, limits: Limits) -> None:
    """Raise ConfigError when a run would exceed the limits of this place."""
    check_steps(job.recipe.training.total_steps, limits)
    parameters, seconds = job.config.parameter_count(), job.seconds(1)
    if parameters > limits.parameters:
        raise ConfigError(
            f"This model has {parameters / 1e6:.1f} million parameters; the limit here is {limits.parameters / 1e6:g} "
            "million. Choose fewer layers, a smaller hidden size or a smaller vocabulary."
        )
    if seconds > limits.step_seconds:
        raise ConfigError(
            f"A step would take about {seconds:.0f} s; the limit here is {limits.step_seconds:g} s. Choose a smaller "
            "model, shorter sequences or smaller batches."
        )


def check_steps(steps: int, limits: Limits) -> None:
    """Raise ConfigError when a run would have too many steps for this place."""
    if steps > limits.steps:
        raise ConfigError(f"This run would have {steps:,} steps; the limit here is {limits.steps:,}. Choose fewer.")


# --- A text -----------------------------------------------------------------------------------------------------------


class TextParts(NamedTuple):
    """The parts of a text: to train on, for the validation curve and for the final test; None for a missing part."""

    train: Corpus
    validation: Corpus | None = None
    test: Corpus | None = None


@dataclass(frozen=True, eq=False)
class TextJob(Job):
    """Pre-training on a text. held_out: the batches of each evaluation."""

    held_out: Sequence[Batch] = ()

    def first_model(self) -> nn.Module:
        model = BertForPreTraining(self.config, generator=torch.Generator().manual_seed(self.recipe.seed))
        if self.start is not None and not self.recipe.random_weights:
            model.load_state_dict(self.start.model.state_dict())
        return model

    def evaluate(self, checkpoint: Checkpoint, step: int) -> Iterator[StepRow | None]:
        return evaluate(checkpoint.model, self.held_out, step)

    def verdict(self, history: Sequence[StepRow], evaluations: Sequence[StepRow]) -> list[str]:
        held_out, rows = ("held-out ", evaluations[-1:]) if evaluations else ("", history[-_LAST_STEPS:])
        said = [*self._beside_always(evaluations[-1])] if evaluations else []
        training = self.recipe.training
        weights = {"MLM": (training.mlm_weight, self.config.vocab_size), "NSP": (training.nsp_weight, 2)}
        for name, (weight, answers) in weights.items():
            loss = sum(getattr(row, f"{name.lower()}_loss") for row in rows) / max(1, len(rows))
            if weight and loss > _ABOVE_CHANCE * math.log(answers):
                above = f"{loss:.2f}, is above {math.log(answers):.2f}, that of guessing."
                said.append(f"The {held_out}{name} loss at the end, {above}")
        return said

    def _beside_always(self, row: StepRow) -> Iterator[str]:
        """The held-out accuracies beside those of always the same answer, and how much of the text they cover."""
        part, rest = len(self.parts.validation.sentences), len(self.parts.train.sentences)
        covered = f"of {part:,} held-out sentences, {percent(part / (part + rest))} of the text"
        answers = {"hidden words": (row.mlm_accuracy, [batch.asked()[1] for batch in self.held_out])}
        if self.recipe.training.nsp_weight:
            answers["pairs"] = row.nsp_accuracy, [batch.next_sentence_label for batch in self.held_out]
        for what, (accuracy, labels) in answers.items():
            asked = torch.cat(labels)
            asked = asked[asked >= 0]
            if len(asked):
                always = percent(float(asked.bincount().max()) / len(asked))
                right = f"{percent(accuracy)} of {len(asked):,} {what} {covered}, are right"
                yield f"{right}; always the same answer would get {always}."


def prepare_text(
    recipe: Recipe,
    corpus: Corpus,
    device: str,
    start: Checkpoint | None = None,
    progress: Callable[[str], None] = ignore,
    times: float = 1.0,
) -> TextJob:
    """Encode a text. times: how many times as long the text is for which this one stands. Others: see `prepare`."""
    if len(corpus.sentences) < 2 and recipe.training.nsp_weight:
        raise CorpusError("The text is a single sentence; next sentence prediction needs at least two, a line each.")
    asked, used = recipe.for_source(corpus), corpus.first(recipe.corpus.most_documents)
    if asked.corpus.validation_share is None:
        if _may_hold_out(used):
            held_out = asked.override({"corpus.validation_share": _HELD_OUT_SHARE})
            with contextlib.suppress(CorpusError):  # no pairs can be drawn from the part
                return prepare_text(held_out, corpus, device, start, progress, times)
        asked = asked.override({"corpus.validation_share": 0.0})
    parts = parts_of(asked, used)
    if start is None:
        progress("training the tokenizer")
        tokenizer = train_tokenizer(parts.train, **vars(asked.tokenizer))
        recipe = asked.replace(model=asked.model.replace(vocab_size=tokenizer.get_vocab_size()))
    else:
        tokenizer, recipe = start.tokenizer, asked.going_on_from(asked.start or start.name, start)
    batches = _batches(recipe, parts, tokenizer, progress)
    train, validation = batches["train"], batches.get("validation")
    recipe = _scheduled(recipe, train.steps_per_epoch * times)
    data, steps = recipe.data, recipe.training.steps
    if data.short_length:
        train.short_steps = round(data.short_share * steps)
    every, count = evaluation_plan(steps, validation.steps_per_epoch) if validation else (0, 0)
    most_asked = min(data.max_predictions, 1 + round(data.mask_probability * data.sequence_length))
    job = TextJob(
        recipe=recipe,
        source=corpus,
        parts=parts,
        tokenizer=tokenizer,
        config=recipe.model,
        objective=Pretraining(tokenizer.token_to_id(MASK)),
        batches=train,
        validation=validation,
        test=batches.get("test"),
        device=device,
        training_bytes=training_bytes(recipe.model, data.batch_size, data.sequence_length, most_asked, device),
        start=start,
        evaluate_every=every,
        held_out=[validation[k] for k in range(count)] if validation else (),
    )
    return dataclasses.replace(job, notes=tuple(_notes_on_text(job, asked)))


def evaluation_plan(steps: int, steps_per_epoch: float) -> tuple[int, int]:
    """The steps from one evaluation to the next and the batches of each, for a run of so many steps.

    steps_per_epoch: batches in one pass through the held-out text. All evaluations take about a tenth of the training
    time: a batch costs a third of a training step, and a short run has two, before its first step and after its last.
    """
    batches = max(1, min(_MAX_BATCHES, round(0.15 * steps), round(_PASSES * steps_per_epoch)))
    return max(round(batches / 0.3), math.ceil(steps / _MAX_EVALUATIONS)), batches


def _may_hold_out(text: Corpus) -> bool:
    nbytes = sum(len(sentence.encode("utf-8", "surrogatepass")) for sentence in text.sentences)
    return len(text.documents) >= _DOCUMENTS or len(text.sentences) >= _SENTENCES or nbytes >= _BYTES


def parts_of(recipe: Recipe, text: Corpus) -> TextParts:
    """What the recipe trains on and holds out of a text. Raises CorpusError for a text that is too short for that."""
    wanted = {"validation": recipe.corpus.validation_share, "test": recipe.corpus.test_share}
    shares = {part: share for part, share in wanted.items() if share}
    found = text.split(*shares.values(), needs_pairs=recipe.training.nsp_weight > 0)
    return TextParts(**dict(zip(("train", *shares), found)))


def _batches(
    recipe: Recipe, parts: TextParts, tokenizer: Tokenizer, progress: Callable[[str], None]
) -> dict[str, PretrainingBatches]:
    """The batches of each part, the shorter ones first, because they may be refused."""
    found, needs_pairs = {}, recipe.training.nsp_weight > 0
    for name in ("test", "validation", "train"):
        if text := getattr(parts, name):
            encoded = encode_corpus(text, tokenizer, progress=lambda done: progress(f"encoding the text, {done:.0%}"))
            found[name] = PretrainingBatches(encoded, tokenizer, recipe.data, seed=recipe.seed, needs_pairs=needs_pairs)
    return found


def _scheduled(recipe: Recipe, steps_per_epoch: float) -> Recipe:
    """A copy with its number of steps and a warm-up that is shorter."""
    training = recipe.training
    if training.epochs is not None:
        steps = max(1, round(training.epochs * steps_per_epoch))
        steps *= 1 + training.alternating  # each of two alternating objectives sees every sentence once an epoch
        recipe = recipe.override({"training.steps": steps, "training.parts": training.parts})
    steps = recipe.training.steps
    return recipe if training.warmup_steps < steps else recipe.override({"training.warmup_steps": steps // 10})


def _notes_on_text(job: TextJob, asked: Recipe) -> Iterator[str]:
    """What is to be said before the training, a sentence each. asked: the recipe before the text was encoded."""
    recipe, start = job.recipe, job.start
    if recipe.name == BY_SIZE and start is None:
        yield "Balcony chose by the size what you did not set yourself."
    if start and start.head and not recipe.random_weights:
        yield from notes_on_missing(start.head.never)
    yield from job.source.notes
    remedy = "choose a model that knows the text, or random weights" if start else "make it larger"
    yield from notes_on_unknown(job.batches.encoded.unknown_share, job.parts.train.name, remedy)
    yield from job.batches.notes
    if start is None and recipe.tokenizer.kind == "word":
        yield from notes_on_words(job.parts.train.sentences[:_NOTED])
    learned = set(job.parts.train.sentences)
    for part in ("validation", "test"):
        text, batches = getattr(job.parts, part), getattr(job, part)
        if text and (share := batches.encoded.unknown_share) > MANY_UNKNOWN:
            unknown = f"{percent(share)} of the words held out for {part} are unknown to the vocabulary"
            yield f"{unknown}, which learned the training part's, so what is measured there says little."
        if text and (known := sum(map(learned.__contains__, text.sentences))) > _MANY_KNOWN * len(text.sentences):
            held_out = f"Of the {len(text.sentences):,} sentences held out for {part}"
            yield f"{held_out}, {known:,} are in the training part too, so a model may know them by heart."
    warmup, steps = asked.training.warmup_steps, recipe.training.steps
    if warmup >= steps:
        yield f"A warm-up of {warmup:,} steps is too long for {steps:,}; it is shortened to {steps // 10:,}."


# --- A task -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TaskJob(Job):
    """Fine-tuning on labelled examples."""

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

    def evaluate(self, checkpoint: Checkpoint, step: int) -> Iterator[StepRow | None]:
        for answers in predicting(checkpoint, self.validation):
            if answers is None:
                yield None
            else:
                measures = self.validation.measures([each.label for each in answers[0]])
                yield StepRow(step=step, epoch=step / self.batches.steps_per_epoch, loss=answers[1], **measures)


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
        notes=_notes_on_task(used, batches, held_out),
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


def _notes_on_task(parts: TaskParts, batches: TaskBatches, held_out: TaskBatches) -> tuple[str, ...]:
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
