"""From a pretrained model to one for a task (Devlin et al. 2018, 4 and A.3), to predictions, and how good they are."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from bert_core.config import FinetuningConfig, FinetuningData
from bert_core.device import Cost, using_threads
from bert_core.errors import CheckpointError, ConfigError, InputError, ignore, quoted
from bert_core.storage.checkpoint import Checkpoint, TaskHead
from bert_core.tasks.examples import TASKS, TaskData, learned_columns
from bert_core.tasks.task import BertForTask, Example, Layout, Metrics, Prediction, Row, Task, TaskBatches
from bert_core.tasks.texts import TextExample, confusion
from bert_core.tasks.token_classification import TaggedExample

_PREDICTED_TOGETHER = 64  # examples


def task_of(checkpoint: Checkpoint) -> Task:
    """The task of a fine-tuned model. Raises CheckpointError for a model without a task's output layer."""
    if (head := checkpoint.head) is None:
        raise CheckpointError(f"{checkpoint.name} is not fine-tuned; it has no output layer for a task.")
    if head.is_regression:
        return TASKS["text-regression"]
    return next(task for task in TASKS.values() if task.model.__name__ == head.architecture)


def model_of(checkpoint: Checkpoint) -> BertForTask:
    """A fine-tuned model in eval mode, which shares its weights with the checkpoint. Errors as for `task_of`."""
    kind, head = task_of(checkpoint).model, checkpoint.head
    assert head is not None
    with torch.device("meta"):
        model = kind(checkpoint.config, head.outputs)
    own = {name: tensor for name, tensor in checkpoint.model.state_dict().items() if not name.startswith("cls.")}
    model.load_state_dict(own, assign=True)
    return model.eval()


def initial_model(
    start: Checkpoint, kind: type[BertForTask], head: TaskHead, config: FinetuningConfig, seed: int, *, random: bool
) -> BertForTask:
    """A model with the encoder of a checkpoint, or a random one, and a new pooler and output layer, drawn by the seed.

    Only the pooler of a fine-tuned checkpoint is kept: next-sentence training drives it to -1 and 1, where tanh passes
    on hardly any gradient (Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning", draw it anew too). Its output
    layer is kept where it has learned the same labels. Raises ConfigError when more layers are to be kept as they are
    than there are.
    """
    rate = config.dropout
    sizes = start.config.replace(hidden_dropout_prob=rate, attention_probs_dropout_prob=rate, classifier_dropout=None)
    model = kind(sizes, head.outputs, generator=torch.Generator().manual_seed(seed))
    if not random:
        keeps_pooler = start.head is not None and "pooler" not in start.missing
        new = ("cls.", *["bert.pooler."] * (not keeps_pooler), *[model.layer] * (start.head != head))
        known = {name: each for name, each in start.model.state_dict().items() if not name.startswith(new)}
        model.load_state_dict(known, strict=False)
    layers, frozen = model.bert.encoder.layer, config.frozen_layers
    if frozen > len(layers):
        raise ConfigError(f"frozen_layers is {frozen}; the model has {len(layers)} layers.")
    for module in (model.bert.embeddings, *layers[:frozen]) if frozen else ():
        module.requires_grad_(False)
    return model


@torch.inference_mode()
def predicting(
    task: Task, model: BertForTask, batches: TaskBatches, examples: Sequence[Example], layout: Layout
) -> Iterator[tuple[list[Prediction], float] | None]:
    """Predict a batch at a time: yields None after each, and at the end a prediction for each example, in their order,
    and their mean loss, nan without labels. model: in eval mode. batches: of `examples`."""
    device = next(model.parameters()).device
    logits_of: list[np.ndarray] = [np.empty(0)] * batches.count
    sums, counts = torch.zeros(2, 2, device=device)
    for numbers, batch in batches.in_order():
        cost = Cost(model.config, *task.size(batch), str(device), is_step=False)
        with using_threads(cost.threads):
            logits = batch.logits(model, device)
        if batch.target is not None and len(batch.target):
            fractions = task.numbers(logits, batch.target.to(device))
            sums += fractions[0]
            counts += fractions[1]
        words = [len(row.words) for row in (batches.rows[number] for number in numbers) if row.words is not None]
        for number, part in zip(numbers, logits.split(words) if words else logits):
            logits_of[number] = part.cpu().numpy()
        yield None
    parts_of: list[list[tuple[Row, np.ndarray]]] = [[] for _ in examples]
    for row, each in zip(batches.rows[:: batches.choices or 1], logits_of):
        parts_of[row.example].append((row, each))
    found = [task.decode(example, parts, layout) for example, parts in zip(examples, parts_of)]
    yield found, float(sums[0] / counts[0])


def validate(
    checkpoint: Checkpoint, part: TaskData, batches: TaskBatches, layout: Layout
) -> Iterator[dict[str, float] | None]:
    """Evaluate a fine-tuned model on the validation part: yields None after each batch, and at the end the loss, as of
    a step without dropout, and the measures; see `Task.measures`."""
    right = [each.label for each in part.examples]
    for answers in predicting(part.kind, model_of(checkpoint), batches, part.examples, layout):
        if answers is None:
            yield None
        else:
            found, loss = answers
            yield {"loss": loss, **part.kind.measures(right, [each.label for each in found], layout.labels)}


def predict(
    checkpoint: Checkpoint,
    examples: Iterable[str | tuple[str, str] | Example],
    *,
    tell: Callable[[str], None] = ignore,
) -> list[Prediction]:
    """Predictions of a fine-tuned model about examples; a text or a pair of texts stands for an example of them. tell:
    called with how much of them is cut, if any is.

    Raises CheckpointError for a model that is not fine-tuned, InputError for examples of another task, and for single
    texts where the model learned from pairs or the other way round.
    """
    if isinstance(examples, str | tuple):
        raise InputError(f"predict takes a list of examples, not {quoted(examples)}; give one, such as ['a text'].")
    asked = [_example(each, checkpoint) for each in examples]
    return _answers(checkpoint, TaskData(task_of(checkpoint).name, asked), tell)[0] if asked else []


def _example(given: object, checkpoint: Checkpoint) -> Example:
    """An example without its label, which the model may not know."""
    task = task_of(checkpoint)
    match given:
        case str() if task.is_split:
            return TaggedExample.of_text(given, checkpoint.tokenizer)
        case str():
            return TextExample(given, None, None)
        case [str(text), str(pair)]:
            return TextExample(text, pair, None)
        case Example():
            return replace(given, label=None)  # type: ignore[type-var]
    raise InputError(f"An example is a text, a pair of texts or one that load_task reads, not {quoted(given)}.")


def _answers(
    checkpoint: Checkpoint, data: TaskData, tell: Callable[[str], None]
) -> tuple[list[Prediction], float, TaskBatches]:
    """Predictions about examples, their mean loss, nan without labels, and their batches."""
    task, head, recipe = task_of(checkpoint), checkpoint.head, checkpoint.recipe or {}
    assert head is not None
    if any(type(each) is not task.example for each in data.examples):
        raise InputError(f"This model does {task.name}; give it examples of that task.")
    learned = len(learned_columns(checkpoint)) - 1
    if task.has_pairs and learned > 0 and data.texts != learned:
        kinds = ("single texts", "pairs of texts") if learned == 1 else ("pairs of texts", "single texts")
        raise InputError("This model learned from {}, and these are {}; give it {}.".format(*kinds, kinds[0]))
    config, saved = FinetuningData(), recipe.get("data")
    with contextlib.suppress(ConfigError):  # of another program
        config = FinetuningData().replace(**saved) if saved else config
    length = min(config.sequence_length if saved else 512, checkpoint.config.max_position_embeddings)
    config = config.replace(sequence_length=length, batch_size=_PREDICTED_TOGETHER)
    layout = Layout(head.labels, checkpoint.tokenizer, config, recipe.get("may_be_missing") is True)
    batches = data.batches(layout, checkpoint.config.pad_token_id, 0)
    for note in batches.cut(data.name):
        tell(note)
    *_, answers = predicting(task, model_of(checkpoint), batches, data.examples, layout)
    assert answers is not None
    return *answers, batches


@dataclass(frozen=True)
class Judged:
    """A labelled example beside its prediction."""

    example: Example
    prediction: Prediction
    is_right: bool | None  # in all tags, or as SQuAD's exact match; None for regression
    # 1 - the probability of the label, 1 - the F1 of an answer, the fraction of wrong tags, or for regression the
    # absolute difference.
    mistake: float


@dataclass(frozen=True)
class Review:
    """How a fine-tuned model does on labelled examples."""

    measures: Metrics
    always: Metrics  # what always giving the most frequent answer would get
    judged: tuple[Judged, ...]  # all examples, mistakes first and of these the worst first
    labels: tuple[str, ...]  # names of labels or tags
    confusion: tuple[tuple[int, ...], ...]  # how often each, a row, was predicted as each, a column; or empty
    notes: tuple[str, ...]  # labels that are written otherwise, what was cut, and what `verdict` says


def review(checkpoint: Checkpoint, data: TaskData) -> Review:
    """Apply a fine-tuned model to labelled examples and compare. Errors as for `predict`, and CorpusError for a label
    that the model has not learned."""
    labels, task, notes = checkpoint.head.labels if checkpoint.head else (), task_of(checkpoint), list[str]()
    before, data = data, data.with_labels_of(labels)
    notes += data.notes[len(before.notes) :]
    found, loss, batches = _answers(checkpoint, data, notes.append)
    judged = [Judged(each, guess, *task.judge(each, guess, labels)) for each, guess in zip(data.examples, found)]
    judged.sort(key=lambda each: (bool(each.is_right), -each.mistake))
    right, guessed = ([each.label for each in side] for side in (data.examples, found))
    pairs = [pair for sides in zip(right, guessed) for pair in zip(*map(task.names_of, sides))]
    table = tuple(map(tuple, confusion(pairs, labels) if pairs else ()))
    always, said = verdict(data, batches.rows, loss, labels)
    measures = task.measures(right, guessed, labels)
    return Review(measures, always, tuple(judged), labels, table, (*notes, *said))


def verdict(data: TaskData, rows: Sequence[Row], loss: float, labels: Sequence[str]) -> tuple[Metrics, list[str]]:
    """What always giving the most frequent answer would get, and what is to be known of measures and of the loss, one
    sentence each. rows: of the examples."""
    task, right = data.kind, [each.label for each in data.examples]
    most, found = task.always(right)
    always, chance, names = task.measures(right, found, labels), task.chance(rows), data.names()
    said = [f"Always answering {most} would get {in_words(always)} on the {len(right):,} examples of {data.name}."]
    if len(names) == 1:
        said.append(f"All of them have the label {quoted(*names)}, so these measures say nothing of the others.")
    if loss > chance:
        said.append(f"The loss there, {loss:.3f}, is above {chance:.3f}, that of an answer that ignores the text.")
    return always, said


def in_words(measures: Metrics) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in measures.items())
