"""Which sentence taught it: a model is trained again without each sentence of its text in turn.

What a word loses without a sentence is measured, where influence functions estimate it (Koh & Liang 2017). All
trainings have the recipe, the sizes and the vocabulary of the given model: with the whole text and the model's own
seed, one gives its weights again, bit for bit on the same device with the same number of threads.

Where a sentence is left out, its document is cut in two, so that the neighbours on both sides do not become a pair that
the text does not have. Each of them is then in one pair less, which is a part of what is measured.

Shapes: S sentences, N seeds, W words."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bert_core.data.corpus import Corpus
from bert_core.errors import BertCoreError, ConfigError, InputError
from bert_core.probes.masked_words import sweep
from bert_core.probes.reading import Word, encode_text, read_words
from bert_core.runs.recipe import Recipe
from bert_core.runs.text_job import parts_of
from bert_core.runs.train import Training, prepare
from bert_core.storage.checkpoint import Checkpoint

MOST_SENTENCES = 60
SEEDS = 3

Texts = tuple[str, str | None]  # one or two sentences, as a probe takes them


@dataclass(frozen=True, eq=False)
class Taught:
    """What is known so far.

    sentences: S, each once. words: W, each with the sentences in which it was hidden, alone. seeds: N. scores: the
    log-probability of each word, (1 + S, N, W), natural; first after training on the whole text, then without each
    sentence; nan where no training has ended, and for a word that the vocabulary lacks. problems: why a training gave
    nothing, by row and seed. notes: a sentence each."""

    sentences: tuple[str, ...]
    words: tuple[tuple[Texts, Word], ...]
    seeds: tuple[int, ...]
    scores: Tensor
    problems: dict[tuple[int, int], str]
    notes: tuple[str, ...] = ()

    @property
    def falls(self) -> Tensor:
        """By how much each word's log-probability falls without each sentence, (S, W): see `falls_of`."""
        return falls_of(self.scores)[0]

    @property
    def errors(self) -> Tensor:
        """The standard errors of `falls`, (S, W)."""
        return falls_of(self.scores)[1]


def falls_of(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The mean fall without each sentence over the seeds that have both numbers, and the standard error of that
    difference of two means, (S, W) each; nan for the mean of none and the error of fewer than two.

    scores: (1 + S, N, W)."""
    whole, without = scores[:1].double(), scores[1:].double()
    falls = whole - without
    count = (~falls.isnan()).sum(1)

    def variance(values: Tensor) -> Tensor:
        known = values.where(~falls.isnan(), torch.nan)
        return (known - known.nanmean(1, keepdim=True)).square().nansum(1) / (count - 1)

    return falls.nanmean(1), ((variance(whole) + variance(without)) / count).sqrt()


def taught(
    checkpoint: Checkpoint,
    corpus: Corpus | None = None,
    texts: Sequence[Texts] = (),
    *,
    seeds: int = SEEDS,
    start: Checkpoint | None = None,
    device: str = "auto",
    train: Callable[[Recipe, Corpus, Checkpoint], Checkpoint] | None = None,
    turn: AbstractContextManager[object] | None = None,
) -> Iterator[Taught]:
    """Train a model again without each sentence of its text, and yield what is known after each of the (1 + S) * seeds
    trainings; the last one has everything: `*_, found = taught(checkpoint)`.

    The words are those of all neighbours of the text, and of a sentence alone in its document, as far as the model
    reads so long a pair; each is hidden alone. texts: more of one or two sentences. corpus: the text that the model was
    trained on, None for its recipe's own; what its training held out is not left out. seeds: so many from that of the
    recipe on. start: the model from which its training began, where that had no random weights. device: see
    `choose_device`. train: trains in another way, with such a recipe and text, from such a model. turn: is held while a
    trained model is asked about one pair.

    Raises ConfigError for a model without a recipe and more than MOST_SENTENCES sentences, other BertCoreErrors for an
    unusable text, and InputError where no word can be asked. A training that fails is one of the `problems`."""
    recipe, text, start = training_of(checkpoint, corpus, start)
    sentences, train, turn = sentences_of(text), train or functools.partial(_train, device), turn or nullcontext()
    again = len(text.sentences) - len(sentences)
    words, notes = _words(checkpoint, [*dict.fromkeys([*pairs_of(text), *texts])])
    found = Taught(
        sentences=sentences,
        words=words,
        seeds=tuple(range(recipe.seed, recipe.seed + seeds)),
        scores=torch.full((1 + len(sentences), seeds, len(words)), torch.nan),
        problems={},
        notes=(*notes, *[f"Sentences that stand in the text again, left out everywhere: {again}."] * bool(again)),
    )
    for n, seed in enumerate(found.seeds):
        for row, left in enumerate([None, *sentences]):
            try:
                less = text if left is None else without(text, left)
                model = train(recipe.with_seed(seed), less, start)
            except BertCoreError as error:
                found = replace(found, problems={**found.problems, (row, n): str(error)})
            else:
                found = replace(found, scores=found.scores.clone())
                found.scores[row, n] = torch.tensor(_ask(model, words, turn))
            yield found


def training_of(
    checkpoint: Checkpoint, corpus: Corpus | None = None, start: Checkpoint | None = None
) -> tuple[Recipe, Corpus, Checkpoint]:
    """The recipe with which a model is trained again, the text that it was trained on, and the model from which
    `prepare` starts: `start` or, for random weights, itself. Errors as for `taught`."""
    if checkpoint.recipe is None or "task" in checkpoint.recipe:
        raise ConfigError(f"The model {checkpoint.name} has no recipe of a training on a text; choose one that has.")
    recipe = Recipe.from_dict(checkpoint.name, checkpoint.recipe)
    source = corpus or recipe.source()
    if source.labels is not None:
        raise ConfigError("This text has labelled pairs, of which no sentence can be left out alone; choose another.")
    if recipe.start is None or recipe.random_weights:
        recipe, start = recipe.replace(start=checkpoint.name, random_weights=True), checkpoint
    elif start is None:
        raise ConfigError(f"The training of this model went on from the model {recipe.start}, which is needed again.")
    text = parts_of(recipe, source.first(recipe.corpus.most_documents)).train
    if (count := len(sentences_of(text))) > MOST_SENTENCES:
        raise ConfigError(
            f"The text has {count:,} different sentences; the limit is {MOST_SENTENCES}, because the model is trained "
            "again without each of them. Train it on a shorter text."
        )
    whole = recipe.corpus.replace(validation_share=0.0, test_share=0.0, most_documents=None)
    return recipe.replace(corpus=whole), text, start


def sentences_of(text: Corpus) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.sentences))


def pairs_of(text: Corpus) -> list[Texts]:
    """The neighbours of each document, or its only sentence."""
    documents = ([*itertools.pairwise(each)] if len(each) > 1 else [(each[0], None)] for each in text.documents)
    return [*itertools.chain.from_iterable(documents)]


def without(text: Corpus, left: str) -> Corpus:
    """The text without a sentence, wherever that stands; there its document is cut in two."""
    documents = (itertools.groupby(document, left.__eq__) for document in text.documents)
    kept = [[*group] for document in documents for is_left, group in document if not is_left]
    return replace(text, documents=kept)


def _train(device: str, recipe: Recipe, text: Corpus, start: Checkpoint) -> Checkpoint:
    training = Training(prepare(recipe, text, device=device, start=start))
    for _ in training:
        pass
    return training.newest.checkpoint()


def _words(checkpoint: Checkpoint, pairs: Sequence[Texts]) -> tuple[tuple[tuple[Texts, Word], ...], list[str]]:
    """The words of the pairs that can be asked, each with its pair, and notes on the others."""
    found, long = list[tuple[Texts, Word]](), list[str]()
    for texts in pairs:
        try:
            encode_text(checkpoint, *texts)
            found += [(texts, word) for word in read_words(checkpoint, *texts) if not word.is_special]
        except InputError as error:
            long.append(str(error))
    unknown = sum(not word.is_known for _, word in found)
    if unknown == len(found):
        raise InputError((*long, "The vocabulary has none of the words of this text; choose another model.")[0])
    notes = [f"Pairs that cannot be asked: {len(long)}. {error}" for error in long[:1]]
    return tuple(found), notes + [f"Words that the vocabulary lacks, not asked: {unknown}."] * bool(unknown)


def _ask(model: Checkpoint, words: Sequence[tuple[Texts, Word]], turn: AbstractContextManager[object]) -> list[float]:
    """The log-probability of each word, hidden alone."""
    scores: list[float] = []
    for texts in dict.fromkeys(texts for texts, _ in words):
        with turn:
            swept = sweep(model, *texts, top_k=1).words  # all words of the pair, in the order of `_words`
        scores += [each.own.log_probability if each.own else math.nan for each in swept]
    return scores
