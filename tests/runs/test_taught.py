"""Which sentence taught it: a model is trained again without each sentence of its text."""

import dataclasses
import itertools
import math
import statistics

import pytest
import torch

from bert_core.data.corpus import Corpus
from bert_core.errors import ConfigError, CorpusError, InputError
from bert_core.probes.masked_words import fill_mask, rate_guess
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import load_recipe
from bert_core.runs.taught import Taught, falls_of, pairs_of, taught, training_of, without
from bert_core.runs.train import Training

SENTENCES = ("nice to meet you", "my name is juliet", "the team won today", "we are going shopping")
TEXT = Corpus([[*SENTENCES]], "four sentences")
SETTINGS = {
    "training.steps": 45,
    "training.warmup_steps": 5,
    "data.batch_size": 12,
    "data.sequence_length": 16,
    "model.hidden_size": 24,
    "model.intermediate_size": 24,
    "model.num_hidden_layers": 1,
}
RECIPE = load_recipe("romeo-juliet").override(SETTINGS)


def trained(recipe=RECIPE, text=TEXT, **options):
    training = Training(prepare(recipe, text, **options))
    for _ in training:
        pass
    return training.newest.checkpoint()


@pytest.fixture(scope="module")
def model():
    return trained(RECIPE.with_seed(7))


@pytest.fixture(scope="module")
def found(model) -> Taught:
    *_, found = taught(model, TEXT, [("nice to meet you", None)])
    return found


def column(found: Taught, text: str, sentence: int, pair: tuple) -> int:
    return next(
        w for w, (of, word) in enumerate(found.words) if of == pair and (word.text, word.sentence) == (text, sentence)
    )


def test_the_whole_text_and_the_models_own_seed_give_its_weights_again(model):
    recipe, text = training_of(model, TEXT)
    again = trained(recipe, text, start=model)
    assert recipe.seed == 7
    assert again.tokenizer is model.tokenizer
    for name, weight in model.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name


def test_scores_are_those_of_a_model_that_is_trained_by_hand(model, found):
    """The second seed without the third sentence, with the vocabulary of all four."""
    recipe = RECIPE.with_seed(8).replace(start="whole", random_weights=True)
    less = Corpus([[*SENTENCES[:2]], [*SENTENCES[3:]]])
    by_hand = trained(recipe, less, start=model)
    for word, pair, masked in [
        ("juliet", SENTENCES[:2], (SENTENCES[0], "my name is [MASK]")),
        ("won", SENTENCES[1:3], (SENTENCES[1], "the team [MASK] today")),  # never seen: but the vocabulary has it
        ("meet", ("nice to meet you", None), ("nice to [MASK] you", None)),
    ]:
        w = column(found, word, masked.index(next(filter(lambda text: "[MASK]" in (text or ""), masked))), pair)
        rated = rate_guess(by_hand, word, *masked)
        assert found.scores[3, 1, w].item() == pytest.approx(rated.log_probability, abs=1e-5)


def test_every_word_of_every_pair_is_asked_alone(found):
    pairs = [*itertools.pairwise(SENTENCES), ("nice to meet you", None)]
    assert [*dict.fromkeys(texts for texts, _ in found.words)] == pairs
    assert len(found.words) == sum(len(f"{a} {b or ''}".split()) for a, b in pairs)
    assert found.scores.shape == (5, 3, len(found.words))
    assert not found.scores.isnan().any()
    assert found.notes == ()


def test_a_word_falls_without_its_sentence_and_not_without_one_unlike_it(found):
    """The control: of sentences far from the word, none teaches it anything beyond what another seed does."""
    w = column(found, "juliet", 1, SENTENCES[:2])
    falls, errors = (each[:, w] for each in falls_of(found.scores))
    assert falls[1] > max(2, 4.3 * errors[1])
    assert all(falls[i] < 4.3 * errors[i] for i in (2, 3)), falls


def test_falls_by_hand():
    scores = torch.tensor([[-1.0, -2.0, -4.5], [-3.0, -5.0, -7.0], [-1.0, -3.0, math.nan]])[..., None]
    falls, errors = falls_of(scores)
    assert falls[:, 0].tolist() == pytest.approx([2.5, 0.5])
    by_seed = [2, 3, 2.5], [0, 1]
    assert errors[:, 0].tolist() == pytest.approx([statistics.stdev(each) / len(each) ** 0.5 for each in by_seed])
    falls, errors = falls_of(scores[:, :1])
    assert falls[:, 0].tolist() == [2.0, 0.0]
    assert errors.isnan().all()
    assert falls_of(scores[:, 2:])[0].isnan().tolist() == [[False], [True]]


def test_a_sentence_goes_wherever_it_stands_and_its_neighbours_are_no_pair():
    text = Corpus([["a", "b", "c", "a", "d"], ["a"], ["e", "a"]])
    assert without(text, "a").documents == [["b", "c"], ["d"], ["e"]]
    assert without(text, "c").documents == [["a", "b"], ["a", "d"], ["a"], ["e", "a"]]
    assert pairs_of(text)[3:] == [("a", "d"), ("a", None), ("e", "a")]


def test_what_is_known_comes_after_each_training(model):
    started = []

    def train(recipe, text):
        started.append((recipe.seed, len(text.sentences)))
        if len(started) == 3:
            raise CorpusError("It cannot be.")
        return model

    steps = taught(model, Corpus([["my name is juliet", "you won"] * 2]), train=train)
    counts, notes = [], []
    for each in steps:
        counts.append(int((~each.scores.isnan()).any(-1).sum()))
        notes.append(each.notes)
    assert started == [(seed, left) for seed in (7, 8, 9) for left in (4, 2, 2)]
    assert counts == [1, 2, 2, 3, 4, 5, 6, 7, 8]
    again = "Sentences that stand in the text again, left out everywhere: 2."
    assert notes[1:3] == [(again,), (again, "Training 3 gave nothing: It cannot be.")]
    assert (falls_of(each.scores)[0] == 0).all(), "one model has the same numbers"


def test_words_that_cannot_be_asked_are_counted(model):
    long = "nice to meet you " * 20
    first = next(taught(model, TEXT, [(long, None), ("hello name", None)], train=lambda *_: model))
    assert first.notes[0].startswith("Pairs that cannot be asked: 1. This text has 82 tokens")
    assert first.notes[1] == "Words that the vocabulary lacks, not asked: 1."
    assert first.scores[0, 0, -2:].isnan().tolist() == [True, False]
    assert [word.text for _, word in first.words[-2:]] == ["hello", "name"]
    with pytest.raises(InputError, match="has 163 tokens"):
        next(taught(model, Corpus([[long, f"thank {long[6:]}"]])))
    with pytest.raises(InputError, match="has none of the words"):
        next(taught(model, Corpus([["xa xb", "xc"]])))


def test_what_has_no_sentences_to_leave_out_is_refused(model, tiny_checkpoint):
    many = Corpus([[f"my name is {word} {other}" for word in fill_words(model) for other in fill_words(model)]])
    with pytest.raises(ConfigError, match="has 64 different sentences; the limit is 60"):
        next(taught(model, many))
    with pytest.raises(ConfigError, match="The model tiny has no recipe"):
        next(taught(tiny_checkpoint, TEXT))
    with pytest.raises(ConfigError, match="labelled pairs"):
        next(taught(model, dataclasses.replace(TEXT, documents=[["you", "we"]], labels=[True])))
    going_on = dataclasses.replace(model, recipe={**model.recipe, "start": "another"})
    with pytest.raises(ConfigError, match="went on from the model another, which may have read"):
        next(taught(going_on, TEXT))


def fill_words(model) -> list[str]:
    return [word for word, _ in fill_mask(model, "my [MASK]", top_k=30)[0] if word.isalpha()][:8]
