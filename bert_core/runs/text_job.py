"""A text as a job: its parts, tokenizer and batches for pre-training."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from bert_core.data.batches import Batch, PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import MANY_UNKNOWN, encode_corpus, notes_on_unknown
from bert_core.data.tokenizer import MASK, notes_on_words, train_tokenizer
from bert_core.device import training_bytes
from bert_core.errors import CorpusError, ignore, percent
from bert_core.model import BertForPreTraining
from bert_core.runs.job import Job
from bert_core.runs.recipe import BY_SIZE, Recipe
from bert_core.runs.snapshots import Snapshot
from bert_core.storage.checkpoint import Checkpoint, notes_on_missing
from bert_core.training.objective import Pretraining, StepRow, evaluate

# Unless the recipe says otherwise, a tenth is held out of a text of at least so many documents, sentences or bytes.
_HELD_OUT_SHARE, _DOCUMENTS, _SENTENCES, _BYTES = 0.1, 8, 200, 12_000
_MANY_KNOWN = 0.1  # of the sentences of a held-out part
_NOTED = 20_000  # sentences whose words are looked at
_MAX_BATCHES, _MAX_EVALUATIONS = 8, 100  # of one evaluation, and of one run
_PASSES = 4  # over a short held-out part, each with other words masked
_LAST_STEPS, _ABOVE_CHANCE = 20, 1.01  # whose mean loss is that at the end; times the loss of chance


class TextParts(NamedTuple):
    """The parts of a text: to train on, for the validation curve and for the final test; None for a missing part."""

    train: Corpus
    validation: Corpus | None = None
    test: Corpus | None = None


@dataclass(frozen=True, eq=False)
class TextJob(Job):
    """Pre-training on a text. held_out: the batches of each evaluation."""

    is_text: ClassVar = True

    held_out: Sequence[Batch] = ()

    def first_model(self) -> nn.Module:
        model = BertForPreTraining(self.config, generator=torch.Generator().manual_seed(self.recipe.seed))
        if self.start is not None and not self.recipe.random_weights:
            model.load_state_dict(self.start.model.state_dict())
        return model

    def weights_of(self, saved: Checkpoint) -> Mapping[str, Tensor]:
        return saved.model.state_dict()

    def evaluate(self, snapshot: Snapshot) -> Iterator[StepRow | None]:
        return evaluate(snapshot.checkpoint().model, self.held_out, snapshot.step)

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
    return dataclasses.replace(job, notes=tuple(_notes(job, asked)))


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


def _notes(job: TextJob, asked: Recipe) -> Iterator[str]:
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
