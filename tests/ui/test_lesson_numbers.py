"""The numbers in the lessons are those of the shipped models."""

import functools
import itertools
import math
from typing import Any

import pytest
import torch

from balcony.lessons.lesson_bar import lessons
from bert_core import (
    attention,
    deletion,
    explain,
    fill_mask,
    load_checkpoint,
    load_recipe,
    next_sentence,
    read_corpus,
    trial_texts,
)
from bert_core.config import ASSETS
from bert_core.data.tokenizer import MASK
from bert_core.probes.attention import answers
from bert_core.probes.explanations import METHODS, ORDERS
from bert_core.probes.masked_words import rate_guess
from bert_core.probes.stages import PARTS, follow, patch_map, without_heads
from bert_core.probes.vectors import words_in_contexts
from bert_core.runs.jobs import prepare
from bert_core.runs.train import Training

BERT, HEADS, MEMORY, PRETRAINING, OTHERS, TRUST = lessons()
shipped = functools.cache(lambda name: load_checkpoint(ASSETS.parent / "checkpoints" / name))


def step(lesson: str, number: int) -> tuple[dict[str, Any], str]:
    """The question of a step, counted from 1, and all that the step says."""
    found = lessons()[lesson]["steps"][number - 1]
    return found["question"], " ".join([found["text"], found["ask"], found["answer"], *found["choices"]])


def masked(question: dict[str, Any], word: str) -> tuple[str, str]:
    """The texts of a question with a hidden word."""
    before, _, after = f"{question['text']}\n{question['pair']}".rpartition(word)
    first, _, second = f"{before}[MASK]{after}".partition("\n")
    return first, second


def percent(share: float) -> str:
    return "below 1%" if share < 0.005 else f"{100 * share:.0f}%"


def test_the_dialogue_models_juliet_and_its_loss():
    question, said = step(BERT, 2)
    share = rate_guess(shipped("romeo-juliet"), "juliet", *masked(question, "Juliet")).probability
    assert percent(share) in said
    assert f"−ln {share:.2f} = {-math.log(share):.2f}" in said
    assert f"here {shipped('romeo-juliet').config.vocab_size}," in said


def test_swapped_sentences_are_judged_otherwise():
    question, said = step(BERT, 4)
    pair, model = (question["text"], question["pair"]), shipped("romeo-juliet")
    assert next_sentence(model, *pair) > 0.99
    assert next_sentence(model, *reversed(pair)) < 0.01
    assert "from over 99% to under 1%" in said


def test_the_head_of_the_next_token():
    question, said = step(HEADS, 1)
    layer, head = question["head"]
    weights = attention(shipped("english-mini"), question["text"], question["pair"]).weights[layer, head]
    assert f"on average {percent(weights.diagonal(1).mean().item())}" in said


def test_softmax_by_hand():
    _, said = step(HEADS, 2)
    weights = torch.tensor([2.0, 1.0, 0.0]).softmax(0).tolist()
    assert ", ".join(f"{weight:.2f}" for weight in weights) in said
    assert f"√12 = {math.sqrt(12):.2f}" in said


def test_a_large_weight_without_an_effect_and_one_with():
    question, said = step(HEADS, 3)
    model, texts = shipped("english-mini"), masked(question, "edge")
    maps = attention(model, *texts)
    position = maps.tokens.index("[MASK]")
    for head, word in ((0, "the"), (4, "of")):
        weight, at = maps.weights[1, head, position].max(0)
        assert maps.tokens[at] == word
        assert (
            f"{percent(weight.item())} of its weight to “{word}”" in said
            or f"{percent(weight.item())} to “{word}”" in said
        )
    answer, _ = answers(model, *texts, position=position)
    settings = ([], [(1, 0)], [(1, 4)])
    each = [answers(without_heads(model, off), *texts, position=position, answer=answer)[1] for off in settings]
    intact, first, fifth = (percent(found["word"]) for found in each)
    assert (answer, f"gives “edge” {intact}" in said) == ("edge", True)
    assert f"Without head 1 “edge” still has {first}, without head 5 only {fifth}" in said


def test_parts_set_to_zero():
    question, said = step(HEADS, 5)
    model, texts = shipped("romeo-juliet"), masked(question, "Juliet")
    position = attention(model, *texts).tokens.index("[MASK]")
    token = model.tokenizer.token_to_id("juliet")

    def share(*zeroed: tuple[int, int]) -> str:
        words = follow(without_heads(model, [], zeroed), *texts, position=position).words
        return percent(words["log_probabilities"][token].exp().item())

    fed, attended = PARTS.index("feed-forward"), PARTS.index("attention")
    assert f"falls from {share()} to {share((0, fed))}" in said
    assert f"Without the feed-forward part of layer 2 it is {share((1, fed))}" in said
    assert f"without the attention of layer 1 or 2 {share((0, attended))}" in said
    assert share((0, attended)) == share((1, attended))


def test_one_word_in_four_sentences():
    question, said = step(HEADS, 6)
    found = words_in_contexts(shipped("english-mini"), question["word"], question["contexts"])
    cosine = found.cosine[question["level"]]
    assert len(found.occurrences) == 4
    assert len({each.start for each in found.occurrences}) == 1, "the position makes no difference"
    across = sorted(cosine[i, j].item() for i, j in itertools.product((0, 1), (2, 3)))
    assert f"lake: {cosine[0, 1]:.2f}. The two about money have {cosine[2, 3]:.2f}" in said
    assert f"it is {across[0]:.2f} to {across[-1]:.2f}" in said
    assert found.cosine[0].min() > 0.999


def test_a_model_learns_first_which_word_is_frequent():
    question, said = step(MEMORY, 2)
    recipe = load_recipe(question["recipe"]["recipe"])
    job = prepare(recipe, recipe.source(), int(question["recipe"]["seed"]), "cpu")
    training = Training(job)
    texts = (question["text"], question["pair"])
    questions = [masked(question, word) for word in ("Juliet", "Nice", "Hello")] + [
        (texts[0].replace("how", MASK), texts[1])
    ]

    def first_guesses(step: int) -> list[str]:
        while training.trainer.step < step:
            next(training.trainer)
        training.take_snapshot()
        return [fill_mask(training.newest.checkpoint(), *each, top_k=1)[0][0][0] for each in questions]

    assert "after four steps its first guess is “you”" in said
    assert first_guesses(0) != ["you"] * 4
    assert first_guesses(4) == ["you"] * 4
    assert first_guesses(recipe.training.total_steps) == ["juliet", "nice", "hello", "how"]


def test_a_word_without_the_words_after_it():
    question, said = step(OTHERS, 1)
    model = shipped("english-mini")
    whole, _ = masked(question, "edge")
    left = whole[: whole.index(MASK) + len(MASK)]
    (best, share), *_ = fill_mask(model, left, top_k=1)[0]
    assert f"left of the {percent(rate_guess(model, 'edge', whole).probability)} for “edge”" in said
    assert f"it is {100 * rate_guess(model, 'edge', left).probability:.2f}%" in said
    assert (best, f"the full stop ({percent(share)})" in said) == (".", True)


def test_pieces_of_a_word_that_the_vocabulary_lacks():
    question, said = step(OTHERS, 2)
    model = shipped("english-mini")
    assert f"{model.config.vocab_size:,} [[token|tokens]] and no token for “paleontologist”" in said
    assert model.tokenizer.token_to_id("paleontologist") is None
    assert "##olog" in model.tokenizer.encode(question["text"]).tokens


def test_the_order_that_random_pairs_did_not_teach():
    question, said = step(OTHERS, 3)
    model, (first, second) = shipped("english-mini"), (question["text"], question["pair"])
    assert {percent(next_sentence(model, *pair)) for pair in ((first, second), (second, first))} == {"99%"}
    assert "99% both ways" in said
    assert next_sentence(model, first, "the lake is in the north.") < 0.05


def test_he_and_she():
    question, said = step(OTHERS, 5)
    found = []
    for word in ("doctor", "nurse", "teacher"):
        text = question["text"].replace("doctor", word)
        shares = (rate_guess(shipped("english-mini"), guess, text).probability for guess in ("he", "she"))
        found.append([percent(share) for share in shares])
    (he, she), nurse, teacher = found
    assert f"For the doctor “he” has {he} and “she” {she}, for the nurse {' and '.join(nurse)}" in said
    assert f"for the teacher {' and '.join(teacher)}" in said


@pytest.mark.parametrize(
    ("lesson", "number", "says", "value"),
    [
        (MEMORY, 1, "ln 41 = 3.71", math.log(41)),
        (MEMORY, 1, "ln 2 = 0.69", math.log(2)),
        (MEMORY, 5, "ln 6000 = 8.70", math.log(6000)),
        (BERT, 2, "50% would cost 0.69", math.log(2)),
        (BERT, 2, "1% would cost 4.61", math.log(100)),
    ],
)
def test_losses_of_guesses(lesson, number, says, value):
    assert says in step(lesson, number)[1]
    assert says.endswith(f"{value:.2f}")


def test_five_explanations_of_one_guess():
    question, said = step(TRUST, 1)
    model, texts = shipped("english-mini"), masked(question, "edge")
    found = explain(model, *texts)
    assert found.answer == ("edge",)
    assert f"“edge” here, with {percent(math.exp(found.log_probability))}" in said
    first = dict(zip(METHODS, (found.words[number].text for number in found.shares.argmax(1).tolist())))
    assert first == dict.fromkeys(METHODS, "of") | {"gradient": "along"}
    left, norms, through, integrated, _ = found.shares.max(1).values.tolist()
    assert f"left out +{left:.2f}, attention × norm {norms:.1%}, attention rollout {through:.1%}" in said
    assert f"integrated gradients +{integrated:.2f}" in said
    assert f"with left out is {found.correlations[0, 4]:.2f}" in said
    slower = dict(zip(METHODS, deletion(model, found).slower.tolist()))
    assert slower.pop("gradient") == 14
    assert set(slower.values()) == {ORDERS}
    assert "faster than 14 of the 20 random orders" in step(TRUST, 2)[1]


def test_explanations_over_the_sentences_of_the_text():
    _, said = step(TRUST, 3)
    model, corpus = shipped("english-mini"), read_corpus(ASSETS / "corpora/english.txt", kind="documents")
    ahead = torch.stack([deletion(model, explain(model, text)).deviations for text in trial_texts(model, corpus)])
    means, errors = ahead.mean(0), ahead.std(0) / math.sqrt(len(ahead))
    left, norms, through, integrated, gradient = (f"{a:.2f} ± {b:.2f}" for a, b in zip(means, errors))
    assert f"Over {len(ahead)} sentences, left out is ahead by {left}, attention × norm by {norms}" in said
    assert f"rollout by {through} and integrated gradients by {integrated}. Gradient × input, with {gradient}" in said
    assert (means > 2.131 * errors).tolist() == [True, True, True, True, False]  # Student's t of 15 degrees, 95 %


def test_attention_explains_every_answer_alike():
    question, said = step(TRUST, 4)
    model, text = shipped("english-mini"), question["text"]
    guesses = dict(fill_mask(model, text)[0])
    assert f"“his” has {percent(guesses['his'])} here, and “the” {percent(guesses['the'])}" in said
    his, the = (explain(model, text, answer=answer).shares[:, 1].tolist() for answer in ("his", "the"))
    assert his[1:3] == the[1:3]
    assert f"“king” has {his[1]:.1%} and {his[2]:.1%} of it" in said
    assert f"costs “his” {his[0]:.2f}, but it helps “the” by {-the[0]:.2f}" in said


def test_states_of_a_queen_in_the_pass_of_a_king():
    question, said = step(TRUST, 5)
    text = question["text"]
    found = patch_map(shipped("english-mini"), text.replace("king", "queen"), text, answers=tuple(question["answers"]))
    assert found.tokens[1][1:5] == ["the", "king", "took", MASK]
    embedded, first, last = found.states.fractions
    assert f"{embedded[2]:.2f} in the embeddings and {first[2]:.2f} after layer 1" in said
    assert f"“the” before it {first[1]:.2f}. After layer 2 it is the state of [MASK] alone, with {last[4]:.2f}" in said
    assert last[[0, 1, 2, 3, 5, 6, 7, 8]].abs().max() < 0.005
    said = step(TRUST, 6)[1]
    sixth, eighth = found.heads.fractions[1, [5, 7]]
    assert f"Head 6 of layer 2 brings back {sixth:.2f}, head 8 of that layer {eighth:.2f}" in said
    assert found.heads.stands_out[1, [5, 7]].tolist() == [False, True]
