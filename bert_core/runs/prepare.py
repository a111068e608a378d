"""From a recipe and a text to a model and batches that are ready to train, and what a text gives before that."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer

from bert_core.costs import check_size, estimate_seconds, is_worth_recording, step_operations, threads_for
from bert_core.data.batches import PretrainingBatches, truncated_lengths
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.data.tokenizer import LEARNED_BYTES, MASK, train_tokenizer
from bert_core.errors import CorpusError
from bert_core.model import BertForPreTraining
from bert_core.runs.recipe import Recipe, check_seed, fields_of, recipe_corpus
from bert_core.training.distributed import make_trainer
from bert_core.training.trainer import Trainer

# Where a recipe does not say what is held out: a tenth of a text of so many documents, or of one long document.
HELD_OUT_SHARE = 0.1
FEWEST_DOCUMENTS = 8
FEWEST_SENTENCES = 200
MOST_PREVIEWED = 20_000  # sentences

_PAIRS_LOOKED_AT = 1_000_000


@dataclass(frozen=True)
class Prepared:
    """A recipe made ready to train: `Trainer(model, batches, recipe.training, seed=seed)` is the next line.

    recipe: at scale, with its number of steps and the share that is held out. training_text, held_out: the part of
    the corpus that is learned from and the part for the validation curve, None where there is nothing to hold out.
    validation, test: batches of the parts that were held out, if any.
    """

    recipe: Recipe
    corpus: Corpus
    training_text: Corpus
    held_out: Corpus | None
    tokenizer: Tokenizer
    model: BertForPreTraining
    batches: PretrainingBatches
    seed: int
    validation: PretrainingBatches | None = None
    test: PretrainingBatches | None = None

    def trainer(self, device: str = "cpu") -> Trainer:
        """A trainer of this model on a device; of several processes, each makes its own."""
        model, config = self.model.to(device), self.recipe.training
        operations = step_operations(self.recipe.data, model.config, _mean_pair_tokens(self.batches))
        return make_trainer(
            *(model, self.batches, config),
            seed=self.seed,
            threads=threads_for(operations),
            recorded=is_worth_recording(operations, config, device),
            mask_token_id=self.tokenizer.token_to_id(MASK),
        )


def prepare(
    recipe: Recipe,
    corpus: Corpus | None = None,
    seed: int = 0,
    device: str = "cpu",
    *,
    progress: Callable[[str], None] = lambda stage: None,
) -> Prepared:
    """Train the tokenizer, encode the text and draw the initial weights; nothing is taken from the global generator.

    corpus: None takes the recipe's own. progress: called with what is being done, as "encoding the text, 40 %".
    Raises BertCoreError when the text or the sizes cannot be used here.
    """
    check_seed(seed)
    progress("reading the text")
    corpus = corpus or recipe_corpus(recipe)
    data = _prepare_data(recipe, corpus, seed, device, progress)
    progress("drawing the initial weights")
    model = BertForPreTraining(data.recipe.model, generator=torch.Generator().manual_seed(seed))
    return Prepared(
        recipe=data.recipe,
        corpus=corpus,
        training_text=data.texts["training"],
        held_out=data.texts.get("validation"),
        tokenizer=data.tokenizer,
        model=model,
        batches=data.batches["training"],
        seed=seed,
        validation=data.batches.get("validation"),
        test=data.batches.get("test"),
    )


@dataclass(frozen=True)
class _Data:
    """The recipe at scale with its steps, shares and vocabulary size; texts and batches by part: training,
    validation, test."""

    recipe: Recipe
    tokenizer: Tokenizer
    texts: dict[str, Corpus]
    batches: dict[str, PretrainingBatches]


def _prepare_data(
    recipe: Recipe, corpus: Corpus, seed: int, device: str, progress: Callable[[str], None] = lambda stage: None
) -> _Data:
    if len(corpus.sentences) < 2:
        raise CorpusError("The text is a single sentence; next sentence prediction needs at least two, a line each.")
    recipe, corpus = recipe.at_scale(), corpus.first(recipe.corpus.most_documents)
    if recipe.corpus.validation_share is None:
        share = HELD_OUT_SHARE if _is_worth_splitting(corpus) else 0.0
        try:
            return _prepare_data(_holding_out(recipe, share), corpus, seed, device, progress)
        except CorpusError:
            if not share:
                raise
            # Too little to split, as where the last documents are one sentence each: all of it is learned from.
            return _prepare_data(_holding_out(recipe, 0.0), corpus, seed, device, progress)
    shares = {"validation": recipe.corpus.validation_share, "test": recipe.corpus.test_share}
    shares = {part: share for part, share in shares.items() if share}
    texts = dict(zip(("training", *shares), corpus.split(*shares.values())))
    share = texts["training"].sampled_share(LEARNED_BYTES)
    progress("training the tokenizer" + (f" on {share:.0%} of the text, evenly spread" if share < 1 else ""))
    tokenizer = train_tokenizer(texts["training"], **fields_of(recipe.tokenizer))
    recipe = dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, vocab_size=tokenizer.get_vocab_size()))
    check_size(recipe.model, recipe.data, device)

    def batches_of(part: Corpus) -> PretrainingBatches:
        encoded = encode_corpus(part, tokenizer, progress=lambda share: progress(f"encoding the text, {share:.0%}"))
        return PretrainingBatches(encoded, tokenizer, recipe.data, seed=seed)

    batches = {part: batches_of(text) for part, text in texts.items()}
    if recipe.training.epochs is not None:
        steps = max(1, round(recipe.training.epochs * batches["training"].steps_per_epoch))
        # Both objectives of a turn see the same number of sentences.
        steps *= 2 if recipe.training.alternating else 1
        recipe = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, steps=steps, epochs=None))
    if recipe.data.short_length:
        batches["training"].short_steps = round(recipe.data.short_share * recipe.training.steps)
    return _Data(recipe, tokenizer, texts, batches)


def _is_worth_splitting(corpus: Corpus) -> bool:
    """Whether a part can be held out without being missed; a single document is cut between its sentences."""
    if len(corpus.documents) == 1:
        return len(corpus.sentences) >= FEWEST_SENTENCES
    return len(corpus.documents) >= FEWEST_DOCUMENTS


def _holding_out(recipe: Recipe, share: float) -> Recipe:
    return dataclasses.replace(recipe, corpus=dataclasses.replace(recipe.corpus, validation_share=share))


@dataclass(frozen=True)
class Preview:
    """What a text and a recipe give before training. cut_share: share of the tokens of neighbouring sentences that
    do not fit into sequence_length. seconds: a rough estimate of the training time on the device. held_out_documents,
    held_out_sentences: how much of the text is for the validation curve and not learned from, 0 where there is
    nothing to hold out: such a text can only be memorised.
    """

    documents: int
    sentences: int
    tokens: int
    vocabulary: int
    unknown_share: float
    cut_share: float
    parameters: int
    seconds: float
    held_out_documents: int
    held_out_sentences: int
    warnings: tuple[str, ...]


def preview(recipe: Recipe, corpus: Corpus, device: str = "cpu") -> Preview:
    """Read the text as training would and say what it gives. Raises BertCoreError when it cannot be trained on.

    Of a text of more than MOST_PREVIEWED sentences that many are read, so that the answer comes soon.
    """
    corpus = corpus.first(recipe.corpus.most_documents)
    part = corpus.excerpt(MOST_PREVIEWED)
    data = _prepare_data(recipe, part, 0, device)
    times = len(corpus.sentences) / len(part.sentences)
    batches, held_out, config = data.batches["training"], data.texts.get("validation"), data.recipe.model
    encoded, training = batches.encoded, data.recipe.training
    first = np.flatnonzero(encoded.has_next)
    a, b = encoded.lengths_of(first), encoded.lengths_of(first + 1)
    kept = sum(side.sum() for side in truncated_lengths(a, b, data.recipe.data.sequence_length - 3))
    warnings = list(corpus.notes)
    if encoded.unknown_share > 0.1:
        warnings.append(f"{encoded.unknown_share:.0%} of the words are unknown to this vocabulary; make it larger.")
    if times > 1:
        warnings.append(
            f"Estimated from the first {len(part.sentences):,} of {len(corpus.sentences):,} sentences; the vocabulary "
            "of the whole text may be larger."
        )
    steps = training.total_steps * (times if recipe.training.epochs is not None else 1)
    return Preview(
        documents=len(corpus.documents),
        sentences=round(len(encoded) * times),
        tokens=round(len(encoded.ids) * times),
        vocabulary=config.vocab_size,
        unknown_share=encoded.unknown_share,
        cut_share=1 - float(kept) / float((a + b).sum()),
        parameters=config.parameter_count(),
        seconds=estimate_seconds(round(steps), data.recipe.data, config, _mean_pair_tokens(batches), device),
        held_out_documents=round(len(held_out.documents) * times) if held_out else 0,
        held_out_sentences=round(len(held_out.sentences) * times) if held_out else 0,
        warnings=tuple(warnings),
    )


def _mean_pair_tokens(batches: PretrainingBatches) -> float:
    """Mean tokens of a pair of neighbouring sentences as the model sees it, special tokens included; of many pairs,
    the first ones speak for all."""
    encoded = batches.encoded
    first = np.flatnonzero(encoded.has_next)[:_PAIRS_LOOKED_AT]
    pairs = encoded.lengths_of(first) + encoded.lengths_of(first + 1) + 3
    return float(pairs.clip(max=batches.config.sequence_length).mean())
