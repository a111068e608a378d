"""A text as a job: its parts, tokenizer and batches for pre-training, and a preview before the training."""

import contextlib
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from bert_core.config import DataConfig
from bert_core.data.batches import Batch, PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import MANY_UNKNOWN, encode_corpus, notes_on_unknown
from bert_core.data.tokenizer import MASK, notes_on_words, train_tokenizer
from bert_core.device import training_bytes
from bert_core.errors import CorpusError, ignore, percent
from bert_core.model import BertForPreTraining
from bert_core.runs.job import Job
from bert_core.runs.recipe import BY_SIZE, GOING_ON_RATE, Recipe
from bert_core.runs.snapshots import Snapshot
from bert_core.storage.checkpoint import MEAN_POOLER, Checkpoint
from bert_core.training.evaluation import evaluate, evaluation_plan
from bert_core.training.objective import Pretraining, StepRow

_MANY_KNOWN = 0.1  # of the sentences of a held-out part
# Unless the recipe says otherwise, a tenth is held out of a text of at least this many documents, sentences or bytes.
HELD_OUT_SHARE = 0.1
MIN_DOCUMENTS = 8
MIN_SENTENCES = 200
MIN_BYTES = 12_000
_NOTED = 20_000  # sentences whose words are looked at
_LAST_STEPS = 20  # whose mean loss is that at the end
_ABOVE_CHANCE = 1.01  # times the loss of chance

_Show = Callable[[str], None]


class TextParts(NamedTuple):
    """The parts of a text: to train on, for the validation curve and for the final test; None for a missing part."""

    train: Corpus
    validation: Corpus | None = None
    test: Corpus | None = None


@dataclass(frozen=True, eq=False)
class TextJob(Job):
    """Pre-training on a text. held_out: the batches of each evaluation."""

    is_text: ClassVar = True

    held_out: Sequence[Batch] = field(default=(), repr=False)

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
        if evaluations:
            return [*self._beside_always(evaluations[-1]), *self._above_chance("held-out ", evaluations[-1:])]
        return self._above_chance("", history[-_LAST_STEPS:])

    def _beside_always(self, row: StepRow) -> Iterator[str]:
        """The held-out accuracies beside those of always the same answer, and how much of the text they cover."""
        part, whole = self.parts.validation.sentences, self.parts.train.sentences
        covered = f"of {len(part):,} held-out sentences, {percent(len(part) / (len(part) + len(whole)))} of the text"
        answers = {"hidden words": (row.mlm_accuracy, [batch.asked()[1] for batch in self.held_out])}
        if self.recipe.training.nsp_weight:
            answers["pairs"] = row.nsp_accuracy, [batch.next_sentence_label for batch in self.held_out]
        for what, (accuracy, labels) in answers.items():
            asked = torch.cat(labels)
            asked = asked[asked >= 0]
            if len(asked):
                always = float(asked.bincount().max()) / len(asked)
                yield (
                    f"{percent(accuracy)} of {len(asked):,} {what} {covered}, are right; always the same answer "
                    f"would get {percent(always)}."
                )

    def _above_chance(self, held_out: str, rows: Sequence[StepRow]) -> list[str]:
        """Which losses are above those of guessing, in a sentence each."""
        said, training = [], self.recipe.training
        for name, weight, answers in (
            ("MLM", training.mlm_weight, self.config.vocab_size),
            ("NSP", training.nsp_weight, 2),
        ):
            found = [getattr(row, f"{name.lower()}_loss") for row in rows]
            loss = sum(found) / len(found) if found and weight else 0.0
            if loss > _ABOVE_CHANCE * math.log(answers):
                said.append(
                    f"The {held_out}{name} loss at the end, {loss:.2f}, is above {math.log(answers):.2f}, that of "
                    "guessing."
                )
        return said


def prepare_text(
    recipe: Recipe,
    corpus: Corpus,
    device: str,
    start: Checkpoint | None = None,
    progress: _Show = ignore,
    times: float = 1.0,
) -> TextJob:
    """Encode a text. times: how many times as long the text is for which this one stands. Others: see `prepare`."""
    if len(corpus.sentences) < 2 and recipe.training.nsp_weight:
        raise CorpusError("The text is a single sentence; next sentence prediction needs at least two, a line each.")
    recipe, used = recipe.for_source(corpus), corpus.first(recipe.corpus.most_documents)
    if recipe.corpus.validation_share is None:
        if _may_hold_out(used):
            held_out = recipe.override({"corpus.validation_share": HELD_OUT_SHARE})
            with contextlib.suppress(CorpusError):  # no pairs can be drawn from the part
                return prepare_text(held_out, corpus, device, start, progress, times)
        recipe = recipe.override({"corpus.validation_share": 0.0})
    texts = _parts(recipe, used)
    if start is None:
        progress("training the tokenizer")
        tokenizer = train_tokenizer(texts["train"], **vars(recipe.tokenizer))
        recipe = recipe.replace(model=recipe.model.replace(vocab_size=tokenizer.get_vocab_size()))
    else:
        tokenizer, recipe = start.tokenizer, recipe.going_on_from(recipe.start or start.name, start.config)
    batches = _batches(recipe, texts, tokenizer, progress)
    train, validation = batches["train"], batches.get("validation")
    recipe, late = _scheduled(recipe, train.steps_per_epoch * times)
    data, steps = recipe.data, recipe.training.steps
    if data.short_length:
        train.short_steps = round(data.short_share * steps)
    every, count = evaluation_plan(steps, validation.steps_per_epoch) if validation else (0, 0)
    asked = min(data.max_predictions, 1 + round(data.mask_probability * data.sequence_length))
    notes = _chosen_note(recipe, texts, times, start), _text_notes(recipe, corpus, texts["train"], train, start)
    return TextJob(
        recipe=recipe,
        source=corpus,
        parts=TextParts(**texts),
        tokenizer=tokenizer,
        config=recipe.model,
        objective=Pretraining(tokenizer.token_to_id(MASK)),
        batches=train,
        validation=validation,
        test=batches.get("test"),
        device=device,
        training_bytes=training_bytes(recipe.model, data.batch_size, data.sequence_length, asked, device),
        notes=sum(notes, ()) + _held_out_notes(batches) + _repeated_notes(texts) + late,
        start=start,
        evaluate_every=every,
        held_out=[validation[k] for k in range(count)] if validation else (),
    )


def _may_hold_out(text: Corpus) -> bool:
    """Whether a text is long enough for a held-out part."""
    size = sum(len(sentence.encode("utf-8", "surrogatepass")) for sentence in text.sentences)
    sizes = len(text.documents), len(text.sentences), size
    return any(map(operator.ge, sizes, (MIN_DOCUMENTS, MIN_SENTENCES, MIN_BYTES)))


def _parts(recipe: Recipe, text: Corpus) -> dict[str, Corpus]:
    wanted = {"validation": recipe.corpus.validation_share, "test": recipe.corpus.test_share}
    shares = {part: share for part, share in wanted.items() if share}
    found = text.split(*shares.values(), needs_pairs=recipe.training.nsp_weight > 0)
    return dict(zip(("train", *shares), found))


def _batches(
    recipe: Recipe, texts: Mapping[str, Corpus], tokenizer: Tokenizer, progress: _Show
) -> dict[str, PretrainingBatches]:
    """The batches of each part, the shorter ones first, because they may be refused."""
    found, needs_pairs = {}, recipe.training.nsp_weight > 0
    for part in [*texts][::-1]:
        encoded = encode_corpus(
            texts[part], tokenizer, progress=lambda share: progress(f"encoding the text, {share:.0%}")
        )
        found[part] = PretrainingBatches(encoded, tokenizer, recipe.data, seed=recipe.seed, needs_pairs=needs_pairs)
    return found


def _held_out_notes(batches: Mapping[str, PretrainingBatches]) -> tuple[str, ...]:
    """What to say where many words of a held-out part are unknown: whatever is measured there says little."""
    shares = {part: each.encoded.unknown_share for part, each in batches.items() if part != "train"}
    return tuple(
        f"{percent(share)} of the words held out for {part} are unknown to the vocabulary, which learned the training "
        "part's, so what is measured there says little."
        for part, share in shares.items()
        if share > MANY_UNKNOWN
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
    if start is None and recipe.tokenizer.kind == "word":
        notes += tuple(notes_on_words(text.sentences[:_NOTED]))
    elif start and not recipe.random_weights:
        notes += (
            f"Training goes on from {start.name} with a learning rate of {recipe.training.learning_rate:g}; with a "
            f"rate far above {GOING_ON_RATE:g} it forgets what it has learned.",
        )
    return notes


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
