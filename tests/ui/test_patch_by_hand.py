"""Patch by hand: which words and answers are taken, what is refused, and how a pass with a carried state runs."""

import dataclasses

import pytest
import torch

from balcony.frame.question import Question
from balcony.step_by_step.patching import NO_MASK, NOT_HERE, patch_code, patch_rows, patch_value
from balcony.step_by_step.tab import inputs_value, steps_code, steps_value
from bert_core import load_checkpoint, patch_map
from bert_core.config import CHECKPOINTS
from bert_core.errors import InputError

KING = Question("the king took [MASK] crown.", place=1)
TINY = Question("hello how are you i am romeo", "hello romeo", hidden=(2,), place=0, swaps=("my",))


@pytest.fixture(scope="module")
def english():
    return load_checkpoint(CHECKPOINTS / "english-mini")


@pytest.fixture(scope="module")
def value(english):
    return patch_value(english, KING)


def test_a_press_on_a_word_takes_another_and_the_answers_that_it_changes_most(value):
    assert value["places"] == [[0, "the"], [1, "king"], [2, "took"], [3, "crown"], [4, "."]]
    assert (value["place"], value["words"], value["answers"]) == (1, ("queen", "king"), ("her", "his"))
    assert value["state"]["fractions"][1][2] == pytest.approx(0.85, abs=0.01)
    assert [value["state"]["out"][level][2] for level in range(3)] == [True, True, False]
    assert value["random"] == 16
    rows = patch_rows(value)
    assert len(rows) == 3 * 9 + 2 * 8
    assert rows[11] == {
        "of": "state",
        "layer": 1,
        "index": 2,
        "stands out": True,
        "comes back": value["state"]["fractions"][1][2],
        "random mean": value["state"]["means"][1][2],
        "random band": value["state"]["bands"][1][2],
    }


def test_its_code_computes_the_same_map(english, value, capsys):
    exec(patch_code(english, KING), {"torch": torch})
    printed = capsys.readouterr().out
    fractions, _, marked, _ = printed.split("tensor(")[1:]
    assert f"{value['state']['fractions'][1][2]:.2f}" in fractions
    assert marked.count("True") == sum(map(sum, value["state"]["out"]))


def test_words_and_answers_of_ones_own_in_a_pair_with_a_head_off(tiny_checkpoint):
    asked = dataclasses.replace(TINY, answers=("are", "you", "how"), off=((0, 1),))
    value = patch_value(tiny_checkpoint, asked)
    assert (value["words"], value["answers"]) == (("my", "hello"), ("are", "you"))
    if "refused" in value:
        assert "would be noise" in value["refused"]
    whole = patch_value(tiny_checkpoint, dataclasses.replace(asked, off=()))
    assert value != whole
    assert "without_heads" in patch_code(tiny_checkpoint, asked)


def test_what_has_no_map_says_why_and_keeps_its_controls(english, tiny_checkpoint):
    assert "words" not in patch_value(english, dataclasses.replace(KING, place=None))
    assert patch_value(english, Question("the king took a crown.", place=1)) == {"hint": NO_MASK}
    lacking = dataclasses.replace(tiny_checkpoint, missing=frozenset({"mlm"}))
    assert patch_value(lacking, TINY) == {"hint": NOT_HERE}
    longer = patch_value(english, dataclasses.replace(KING, swaps=("old queen",)))
    assert "have 10 and 9 tokens" in longer["refused"]
    assert longer["words"] == ("old queen", "king")
    assert patch_rows(longer) == []
    same = patch_value(english, dataclasses.replace(KING, swaps=("prince",), answers=("the", "the")))
    assert "would be noise" in same["refused"]


def test_every_stage_follows_the_pass_with_the_carried_state(english):
    asked = dataclasses.replace(KING, carried=(0, 1, 2), token=2)
    value, before = steps_value(english, asked), steps_value(english, KING)
    found = patch_map(
        *(english, "the queen took [MASK] crown.", "the king took [MASK] crown."),
        answers=("her", "the"),
        random_sentences=0,
    )
    her = next(p for word, _, p in value["words"]["top"] if word == "her")
    assert her == pytest.approx(found.states.answers[1, 2, 0].exp().item(), abs=1e-5)
    assert value["carried"] == {"kind": "state", "at": [1, 2], "token": "queen"}
    assert value["before"]["probability"] == pytest.approx(before["words"]["top"][0][2], abs=1e-5)
    head = steps_value(english, dataclasses.replace(KING, carried=(1, 1, 5)))
    the = next(p for word, _, p in head["words"]["top"] if word == "the")
    assert the == pytest.approx(found.heads.answers[1, 5, 1].exp().item(), abs=1e-5)
    exec(steps_code(english, asked), scope := {})
    assert -scope["found"].words["log_probabilities"].max().item() == pytest.approx(value["words"]["loss"], abs=1e-5)
    inputs_value(english, asked, "logits", 5)


def test_an_address_with_a_state_that_is_not_there_says_what_there_is(english):
    with pytest.raises(InputError, match="has no state 2 in layer 3"):
        steps_value(english, dataclasses.replace(KING, carried=(0, 3, 2)))
