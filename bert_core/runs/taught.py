"""Which sentence taught it: a model is trained again without each sentence of its text in turn.

What a word loses without a sentence is measured, where influence functions estimate it (Koh & Liang 2017). All
trainings have the recipe, the sizes and the vocabulary of the given model: with the whole text and the model's own
seed, one gives its weights again, bit for bit on the same device with the same number of threads.

Shapes: S sentences, W words."""

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
from bert_core.runs.jobs import parts_of, prepare
from bert_core.runs.recipe import Recipe
from bert_core.runs.train import Training
from bert_core.storage.checkpoint import Checkpoint

MOST_SENTENCES = 60
SEEDS = 3

Texts = tuple[str, str | None]  # one or two sentences, as a probe takes them


@dataclass(frozen=True, eq=False)
class Taught:
    """What is known so far.

    scores: the log-probability of each word, (1 + S, SEEDS, W), natural; first after training on the whole text, then
    without each sentence; nan where no training has ended, and for a word that the vocabulary lacks."""

    sentences: tuple[str, ...]  # S, each once
    words: tuple[tuple[Texts, Word], ...]  # W, each with the sentences in which it was hidden, alone
    scores: Tensor
    notes: tuple[str, ...]  # also why a training gave nothing


def falls_of(scores: Tensor) -> tuple[Tensor, Tensor]:
    """By how much the log-probabilities of `Taught` fall without each sentence: the mean over the seeds that have both
    numbers, and its standard error, (S, W) each; nan for the mean of none and the error of fewer than two."""
    falls = (scores[:1] - scores[1:]).double()
    means, count = falls.nanmean(1), (~falls.isnan()).sum(1)
    squares = (falls - means[:, None]).square().nansum(1)
    return means, (squares / (count * (count - 1))).sqrt()


def taught(
    checkpoint: Checkpoint,
    corpus: Corpus | None = None,
    texts: Sequence[Texts] = (),
    *,
    train: Callable[[Recipe, Corpus], Checkpoint] | None = None,
    turn: AbstractContextManager[object] | None = None,
) -> Iterator[Taught]:
    """Train a model again without each sentence of its text, with SEEDS seeds from its own on, and yield what is known
    after each of the (1 + S) * SEEDS trainings; the last one has everything: `*_, found = taught(checkpoint)`.

    The words are those of all neighbours of the text, and of a sentence alone in its document, as far as the model
    reads so long a pair; each is hidden alone. texts: more of one or two sentences. corpus: the text that the model was
    trained on, None for its recipe's own; what its training held out is not left out. train: trains in another way.
    turn: is held while a trained model is asked about one pair.

    Raises ConfigError for a model without a recipe, or whose training went on from another one, and for more than
    MOST_SENTENCES sentences, other BertCoreErrors for an unusable text, and InputError where no word can be asked."""
    recipe, text = training_of(checkpoint, corpus)
    sentences, turn = tuple(dict.fromkeys(text.sentences)), turn or nullcontext()
    train = train or functools.partial(_train, checkpoint)
    words, notes = _words(checkpoint, [*dict.fromkeys([*pairs_of(text), *texts])])
    if again := len(text.sentences) - len(sentences):
        notes.append(f"Sentences that stand in the text again, left out everywhere: {again}.")
    scores = torch.full((1 + len(sentences), SEEDS, len(words)), torch.nan)
    for n, row in itertools.product(range(SEEDS), range(len(scores))):
        try:
            model = train(recipe.with_seed(recipe.seed + n), without(text, sentences[row - 1]) if row else text)
            asked = torch.tensor(_ask(model, words, turn))
        except BertCoreError as error:
            notes.append(f"Training {n * len(scores) + row + 1} gave nothing: {error}")
        else:
            scores = scores.clone()
            scores[row, n] = asked
        yield Taught(sentences, words, scores, tuple(notes))


def training_of(checkpoint: Checkpoint, corpus: Corpus | None = None) -> tuple[Recipe, Corpus]:
    """The recipe with which a model is trained again, of which `prepare` takes the sizes and the tokenizer as `start`,
    and the text that it was trained on. Errors as for `taught`."""
    if checkpoint.recipe is None or "task" in checkpoint.recipe:
        raise ConfigError(f"The model {checkpoint.name} has no recipe of a training on a text; choose one that has.")
    recipe = Recipe.from_dict(checkpoint.name, checkpoint.recipe)
    if recipe.start and not recipe.random_weights:
        raise ConfigError(
            f"The training of this model went on from the model {recipe.start}, which may have read these sentences. "
            "Choose one that began with random weights."
        )
    source = corpus or recipe.source()
    if source.labels is not None:
        raise ConfigError("This text has labelled pairs, of which no sentence can be left out alone; choose another.")
    text = parts_of(recipe, source.first(recipe.corpus.most_documents)).train
    if (count := len({*text.sentences})) > MOST_SENTENCES:
        raise ConfigError(
            f"The text has {count:,} different sentences; the limit is {MOST_SENTENCES}, because the model is trained "
            "again without each of them. Train it on a shorter text."
        )
    whole = recipe.corpus.replace(validation_share=0.0, test_share=0.0, most_documents=None)
    return recipe.replace(corpus=whole, start=checkpoint.name, random_weights=True), text


def pairs_of(text: Corpus) -> list[Texts]:
    """The neighbours of each document, or its only sentence."""
    documents = ([*itertools.pairwise(each)] if len(each) > 1 else [(each[0], None)] for each in text.documents)
    return [*itertools.chain.from_iterable(documents)]


def without(text: Corpus, left: str) -> Corpus:
    """The text without a sentence, wherever that stands; there its document is cut, so that its neighbours are no pair,
    as in the text. Each of them is then in one pair less, which is a part of the effect."""
    documents = (itertools.groupby(document, left.__eq__) for document in text.documents)
    kept = [[*group] for document in documents for is_left, group in document if not is_left]
    return replace(text, documents=kept)


def _train(start: Checkpoint, recipe: Recipe, text: Corpus) -> Checkpoint:
    training = Training(prepare(recipe, text, start=start))
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
            swept = sweep(model, *texts, top_k=1)  # all words of the pair, in the order of `_words`
        scores += [each.own.log_probability if each.own else math.nan for each in swept]
    return scores
