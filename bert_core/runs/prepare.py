"""From a recipe with a text or labelled examples to a model and batches that are ready to train, and a preview."""

import contextlib
import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from tokenizers import Tokenizer

from bert_core.config import LOCAL, BertConfig, DataConfig, FinetuningData, Limits
from bert_core.data.batches import PretrainingBatches, truncated_lengths
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import MANY_UNKNOWN, encode_corpus, notes_on_unknown
from bert_core.data.tokenizer import CLS, MASK, SEP, UNK, notes_on_words, special_ids, train_tokenizer
from bert_core.device import choose_device, training_bytes
from bert_core.errors import CheckpointError, ConfigError, CorpusError, ignore, noting, percent, quoted
from bert_core.model import BertForPreTraining
from bert_core.runs.recipe import BY_SIZE, GOING_ON_RATE, FinetuningRecipe, Recipe
from bert_core.runs.snapshots import Snapshot
from bert_core.storage.checkpoint import MEAN_POOLER, Checkpoint, TaskHead
from bert_core.tasks.examples import TaskParts
from bert_core.tasks.prediction import initial_model, model_of, validating
from bert_core.tasks.question_answering import QuestionAnswering
from bert_core.tasks.task import Layout, TaskBatches
from bert_core.training.distributed import DistributedTrainer
from bert_core.training.evaluation import Evaluator, evaluating, evaluation_plan
from bert_core.training.objective import Objective, Pretraining, StepRow
from bert_core.training.trainer import Trainer, step_cost

_MANY_KNOWN = 0.1  # of the sentences of a held-out part
# Unless the recipe says otherwise, a tenth is held out of a text of at least this many documents, sentences or bytes.
HELD_OUT_SHARE = 0.1
MIN_DOCUMENTS = 8
MIN_SENTENCES = 200
MIN_BYTES = 12_000
MAX_PREVIEWED = 20_000  # sentences
SMALLER_STEP = "Choose a smaller model, shorter sequences or smaller batches."


class TextParts(NamedTuple):
    """The parts of a text: to train on, for the validation curve and for the final test; None for a missing part."""

    train: Corpus
    validation: Corpus | None = None
    test: Corpus | None = None


@dataclass(frozen=True)
class Prepared:
    """A text or a task that is ready to train. evaluator: makes one on the held-out part, with the results so far."""

    recipe: Any  # a Recipe or a FinetuningRecipe, at scale, with its number of steps, sizes, held-out fraction and seed
    source: Any  # a Corpus or, for a task, TaskParts, as it was given
    parts: Any  # TextParts or, for a task, TaskParts, whose validation part is never None
    tokenizer: Tokenizer
    config: BertConfig  # sizes of the model
    objective: Objective
    batches: Any  # of the training part
    validation: Any  # batches of that part, if there is one
    test: PretrainingBatches | None  # of that part of a text
    device: str  # to train on
    training_bytes: int  # estimated, of training beside snapshots and text
    notes: tuple[str, ...]  # one sentence each
    evaluator: Callable[[Sequence[StepRow]], Evaluator]
    head: TaskHead | None = None  # of a task
    model: Any = None  # None in a preview and in a `Run`

    def seconds(self, steps: int) -> float:
        """Estimated training time of so many steps."""
        cost = step_cost(self.config, self.batches, self.objective, self.device)
        return steps * cost.seconds(self.recipe.training.precision)

    def load(self, checkpoint: Checkpoint) -> None:
        """Take the weights of a model that was saved in this training. Raises CheckpointError for another model."""
        if checkpoint.config != self.model.config or checkpoint.tokenizer.get_vocab() != self.tokenizer.get_vocab():
            raise CheckpointError(
                "The model does not fit its recipe.json, or this program's tokenizer differs from that of the program "
                "that saved it; its training cannot continue."
            )
        if self.head and checkpoint.head != self.head:
            raise CheckpointError("The model has other labels than these examples; give the same file, unchanged.")
        model = model_of(checkpoint) if self.head else checkpoint.model
        self.model.load_state_dict(model.state_dict())

    def trainer(self) -> Trainer:
        """A trainer of this model; each of several processes makes its own."""
        model, recipe = self.model.to(self.device), self.recipe
        kind = DistributedTrainer if dist.is_initialized() else Trainer
        return kind(model, self.batches, recipe.training, seed=recipe.seed, objective=self.objective)


def prepare(
    recipe: Recipe | FinetuningRecipe,
    source: Corpus | TaskParts | None = None,
    seed: int | None = None,
    device: str = "auto",
    *,
    start: Checkpoint | None = None,
    progress: Callable[[str], None] = ignore,
    admit: Callable[[Prepared], None] = ignore,
) -> Prepared:
    """Encode a text or labelled examples and draw the initial weights, without the global random generator.

    source, seed: None for the recipe's own. device: see `choose_device`. start: the model to start from, which a task
    needs; without one, a tokenizer is trained on the text. progress: called with the present stage, such as "encoding
    the text, 40 %". admit: called before the model is built. Raises BertCoreError for unusable data or sizes.
    """
    device, recipe = choose_device(device), recipe.with_seed(seed)
    if start is None and recipe.start:
        raise ConfigError(
            f"This recipe goes on from the model {quoted(recipe.start)}, which is missing here. Train it on the "
            "command line, with --start and that model's folder."
        )
    if isinstance(recipe, FinetuningRecipe) and isinstance(source, TaskParts | None):
        if start is None:
            raise ConfigError("A task starts from a model, and there is none; give one as start.")
        progress("reading the examples")
        source = source or recipe.source()
        with noting(source.notes):
            prepared = _prepare_task(recipe, source, device, start, progress)
    elif isinstance(recipe, Recipe) and isinstance(source, Corpus | None):
        progress("reading the text")
        source = source or recipe.source()
        with noting(source.notes):
            prepared = _prepare_text(recipe, source, device, start, progress)
    else:
        raise ConfigError(
            "A recipe and what it learns from do not fit; a text goes with Recipe, a task with TaskParts."
        )
    admit(prepared)
    progress("drawing the initial weights")
    return dataclasses.replace(prepared, model=_model(prepared, start))


def _model(prepared: Prepared, start: Checkpoint | None) -> torch.nn.Module:
    """The model with its initial weights: drawn by the seed, or those of the start."""
    recipe, head = prepared.recipe, prepared.head
    if head is not None and start is not None:
        kind, random = prepared.parts.train.kind.model, recipe.random_weights
        return initial_model(start, kind, head, recipe.training, recipe.seed, random=random)
    model = BertForPreTraining(prepared.config, generator=torch.Generator().manual_seed(recipe.seed))
    if start is not None and not recipe.random_weights:
        model.load_state_dict(start.model.state_dict())
    return model


def _prepare_text(
    recipe: Recipe,
    corpus: Corpus,
    device: str,
    start: Checkpoint | None = None,
    progress: Callable[[str], None] = ignore,
    times: float = 1.0,
) -> Prepared:
    """As `prepare`, without weights. times: how many times as long the text is for which this one stands."""
    if len(corpus.sentences) < 2 and recipe.training.nsp_weight:
        raise CorpusError("The text is a single sentence; next sentence prediction needs at least two, a line each.")
    recipe, used = recipe.for_source(corpus), corpus.first(recipe.corpus.most_documents)
    if recipe.corpus.validation_share is None:
        size = sum(len(sentence.encode("utf-8", "surrogatepass")) for sentence in used.sentences)
        sizes = len(used.documents), len(used.sentences), size
        if any(map(operator.ge, sizes, (MIN_DOCUMENTS, MIN_SENTENCES, MIN_BYTES))):
            held_out = recipe.override({"corpus.validation_share": HELD_OUT_SHARE})
            with contextlib.suppress(CorpusError):  # no pairs can be drawn from the part
                return _prepare_text(held_out, corpus, device, start, progress, times)
        recipe = recipe.override({"corpus.validation_share": 0.0})
    wanted = {"validation": recipe.corpus.validation_share, "test": recipe.corpus.test_share}
    shares = {part: share for part, share in wanted.items() if share}
    needs_pairs = recipe.training.nsp_weight > 0
    texts = dict(zip(("train", *shares), used.split(*shares.values(), needs_pairs=needs_pairs)))
    if start is None:
        tokenizer = _learned_tokenizer(recipe, texts["train"], progress)
        model = recipe.model.replace(vocab_size=tokenizer.get_vocab_size())
        recipe = recipe.replace(model=model)
    else:
        tokenizer, recipe = start.tokenizer, recipe.going_on_from(recipe.start or start.name, start.config)
    data = recipe.data
    asked = min(data.max_predictions, 1 + round(data.mask_probability * data.sequence_length))
    needed = training_bytes(recipe.model, data.batch_size, data.sequence_length, asked, device)

    def batches_of(part: Corpus) -> PretrainingBatches:
        encoded = encode_corpus(part, tokenizer, progress=lambda share: progress(f"encoding the text, {share:.0%}"))
        return PretrainingBatches(encoded, tokenizer, data, seed=recipe.seed, needs_pairs=needs_pairs)

    batches = {part: batches_of(texts[part]) for part in (*shares, "train")}  # the shorter parts may be refused
    train = batches["train"]
    recipe, late = _scheduled(recipe, train.steps_per_epoch * times)
    if data.short_length:
        train.short_steps = round(data.short_share * recipe.training.steps)
    return Prepared(
        recipe=recipe,
        source=corpus,
        parts=TextParts(**texts),
        tokenizer=tokenizer,
        config=recipe.model,
        objective=Pretraining(tokenizer.token_to_id(MASK)),
        batches=train,
        validation=batches.get("validation"),
        test=batches.get("test"),
        device=device,
        training_bytes=needed,
        notes=_chosen_note(recipe, texts, times, start)
        + _text_notes(recipe, corpus, texts["train"], train, start)
        + _repeated_notes(texts)
        + _held_out_notes(batches)
        + late,
        evaluator=_evaluator_of_text(batches.get("validation"), recipe.training.steps),
    )


def _chosen_note(
    recipe: Recipe, texts: Mapping[str, Corpus], times: float, start: Checkpoint | None
) -> tuple[str, ...]:
    """What was chosen by the size of the text, and how to choose otherwise. times: as for `_prepare_text`."""
    if recipe.name != BY_SIZE or start is not None:
        return ()
    sentences, model, training = sum(len(text.sentences) for text in texts.values()), recipe.model, recipe.training
    held_out = len(texts["validation"].sentences) if "validation" in texts else 0
    size = f"{model.in_words}, a vocabulary of {model.vocab_size:,}"
    length = f"{training.total_steps:,} steps of {recipe.data.batch_size} pairs"
    held = f"{round(held_out * times):,} sentences held out" if held_out else "nothing held out, because it is short"
    return (
        f"This text has {round(sentences * times):,} sentences. Its run has {size}, {length}, {held}. Balcony chose by "
        "the size what you did not set yourself. Another recipe or a changed setting takes the place of this choice.",
    )


def _text_notes(
    recipe: Recipe, corpus: Corpus, text: Corpus, batches: PretrainingBatches, start: Checkpoint | None
) -> tuple[str, ...]:
    """What the reader changed, what the tokenizer does to the words of the training text, and what a start means."""
    remedy = "choose a model that knows the text, or random weights" if start else "make it larger"
    notes = corpus.notes + notes_on_unknown(batches.encoded.unknown_share, text.name, remedy) + batches.notes
    notes += (MEAN_POOLER,) * (recipe.model.pooler == "mean" and MEAN_POOLER not in (start.notes if start else ()))
    if batches.encoded.pair_labels is not None and recipe.data.negatives != DataConfig().negatives:
        notes += ("The pairs of this text have labels of their own, so the setting data.negatives is not used.",)
    if start is None:
        notes += tuple(notes_on_words(text.part(0, MAX_PREVIEWED).sentences, recipe.tokenizer.kind))
    elif not recipe.random_weights:
        notes += (
            f"Training goes on from {start.name} with a learning rate of {recipe.training.learning_rate:g}; with a "
            f"rate far above {GOING_ON_RATE:g} it forgets what it has learned.",
        )
    return notes


def _held_out_notes(batches: Mapping[str, PretrainingBatches]) -> tuple[str, ...]:
    """What to say where many words of a held-out part are unknown: whatever is measured there says little."""
    shares = {part: each.encoded.unknown_share for part, each in batches.items() if part != "train"}
    return tuple(
        f"{percent(share)} of the words held out for {part} are unknown to the vocabulary, which learned the training "
        "part's, so what is measured there says little."
        for part, share in shares.items()
        if share > MANY_UNKNOWN
    )


def _repeated_notes(texts: Mapping[str, Corpus]) -> tuple[str, ...]:
    """What to say where many sentences of a held-out part are in the training part too."""
    notes: tuple[str, ...] = ()
    learned = set(texts["train"].sentences)
    for part, text in texts.items():
        known = 0 if part == "train" else sum(map(learned.__contains__, text.sentences))
        if known > _MANY_KNOWN * len(text.sentences):
            held_out = f"Of the {len(text.sentences):,} sentences held out for {part}"
            notes += (f"{held_out}, {known:,} are in the training part too, so a model may know them by heart.",)
    return notes


def _learned_tokenizer(recipe: Recipe, text: Corpus, progress: Callable[[str], None]) -> Tokenizer:
    def show(done: float) -> None:
        if done < 1:
            progress(f"training the tokenizer, {done:.0%}")
        else:
            progress("making the vocabulary")

    return train_tokenizer(text, **vars(recipe.tokenizer), progress=show)


def _scheduled(recipe: Recipe, steps_per_epoch: float) -> tuple[Recipe, tuple[str, ...]]:
    """A copy with its number of steps and a warm-up that fits, and what is to be said about it."""
    training = recipe.training
    if training.epochs is not None:
        steps = max(1, round(training.epochs * steps_per_epoch))
        # Of two alternating objectives, each sees every sentence once an epoch.
        steps *= 2 if training.alternating else 1
        recipe = recipe.override({"training.steps": steps, "training.parts": training.parts})
    warmup, steps = training.warmup_steps, recipe.training.steps
    if warmup < steps:
        return recipe, ()
    note = f"A warm-up of {warmup:,} steps is too long for {steps:,}; it is shortened to {steps // 10:,}."
    return recipe.override({"training.warmup_steps": steps // 10}), (note,)


def _evaluator_of_text(held_out: PretrainingBatches | None, steps: int) -> Callable[..., Evaluator]:
    """What makes an evaluator on the same batches of the held-out text each time."""
    if held_out is None:
        return functools.partial(Evaluator, None, 1)
    every, count = evaluation_plan(steps, held_out.steps_per_epoch)
    batches = [held_out[k] for k in range(count)]

    def evaluate(snapshot: Snapshot) -> Generator[None, None, StepRow]:
        return evaluating(snapshot.checkpoint().model, batches, snapshot.step)

    return functools.partial(Evaluator, evaluate, every)


def _prepare_task(
    recipe: FinetuningRecipe, given: TaskParts, device: str, start: Checkpoint, progress: Callable[[str], None]
) -> Prepared:
    """As `prepare`, without weights."""
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

    def evaluate(snapshot: Snapshot) -> Generator[float, None, StepRow]:
        return validating(snapshot, validation, held_out, layout, batches.steps_per_epoch)

    model = train.kind.model
    is_cut = batches.longest == data.sequence_length
    head = TaskHead(model.__name__, labels, recipe.task == "text-regression")
    needed = training_bytes(start.config, data.batch_size * (train.choices or 1), batches.longest, 0, device)
    return Prepared(
        recipe=recipe,
        source=given,
        parts=used,
        tokenizer=start.tokenizer,
        config=start.config,
        objective=train.kind,
        batches=batches,
        validation=held_out,
        test=None,
        device=device,
        training_bytes=needed,
        notes=(
            *_task_notes(used, batches, start.tokenizer),
            *train.kind.doubts(train.examples, batches.rows, data),
            *batches.cut(train.name),
            *held_out.cut(validation.name),
            *(shortened if is_cut else ()),
            *(() if recipe.random_weights else _head_notes(start, head)),
        ),
        evaluator=functools.partial(
            Evaluator,
            evaluate,
            training.evaluate_every * batches.steps_per_epoch,
            first=1,  # the output layer knows nothing before its first step
            best_by=train.kind.measure if training.keep_best else None,
        ),
        head=head,
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


def check_limits(prepared: Prepared, limits: Limits) -> None:
    """Raise ConfigError when a run would exceed the limits of this place."""
    check_steps(prepared.recipe.training.total_steps, limits)
    check_parameters(prepared.config, limits)
    seconds = prepared.seconds(1)
    if seconds > limits.step_seconds:
        raise ConfigError(
            f"A step would take about {seconds:.0f} s; the limit here is {limits.step_seconds:g} s. {SMALLER_STEP}"
        )


def check_parameters(config: BertConfig, limits: Limits) -> None:
    """Raise ConfigError when a model would be too large for this place."""
    if (parameters := config.parameter_count()) > limits.parameters:
        raise ConfigError(
            f"This model has {parameters / 1e6:.1f} million parameters; the limit here is {limits.parameters / 1e6:g} "
            "million. Choose fewer layers, a smaller hidden size or a smaller vocabulary."
        )


def check_steps(steps: int, limits: Limits) -> None:
    """Raise ConfigError when a run would have too many steps for this place."""
    if steps > limits.steps:
        raise ConfigError(f"This run would have {steps:,} steps; the limit here is {limits.steps:,}. Choose fewer.")


@dataclass(frozen=True)
class Preview:
    """What a text and a recipe give, before training."""

    documents: int
    sentences: int
    tokens: int
    vocabulary: int
    unknown_share: float  # fraction of the words that are [UNK]
    cut_share: float  # of the tokens of neighbouring sentences, those over sequence_length; 0 for packed segments
    parameters: int
    seconds: float  # estimated training time
    held_out_documents: int  # for the validation curve
    held_out_sentences: int  # with 0, the text can only be memorised
    warnings: tuple[str, ...]


def preview(
    recipe: Recipe,
    corpus: Corpus,
    device: str = "cpu",
    limits: Limits = LOCAL,
    *,
    start: Checkpoint | None = None,
) -> Preview:
    """Prepare a text without a model and count; the first MAX_PREVIEWED sentences stand for a longer text. start: as
    for `prepare`.

    Raises BertCoreError when the text cannot be trained on, or the run would exceed the limits.
    """
    corpus = corpus.first(recipe.corpus.most_documents)
    part = corpus.part(0, MAX_PREVIEWED)
    times = len(corpus.sentences) / len(part.sentences)
    with noting(corpus.notes):
        text = _prepare_text(recipe, part, device, start, times=times)
        check_limits(text, limits)
    encoded, held_out = text.batches.encoded, text.parts.validation
    first = np.flatnonzero(encoded.has_next if recipe.data.segments == "sentences" else [])
    a, b = encoded.lengths_of(first), encoded.lengths_of(first + 1)
    kept = sum(side.sum() for side in truncated_lengths(a, b, text.recipe.data.sequence_length - 3))
    warnings = [*text.notes]
    if times > 1:
        warnings.append(
            f"Estimated from the first {len(part.sentences):,} of {len(corpus.sentences):,} sentences; the vocabulary "
            "of the whole text may be larger."
        )
    return Preview(
        documents=len(corpus.documents),
        sentences=round(len(encoded) * times),
        tokens=round(len(encoded.ids) * times),
        vocabulary=text.config.vocab_size,
        unknown_share=encoded.unknown_share,
        cut_share=1 - float(kept) / float((a + b).sum()) if len(first) else 0.0,
        parameters=text.config.parameter_count(),
        seconds=text.seconds(text.recipe.training.total_steps),
        held_out_documents=round(len(held_out.documents) * times) if held_out else 0,
        held_out_sentences=round(len(held_out.sentences) * times) if held_out else 0,
        warnings=tuple(warnings),
    )
