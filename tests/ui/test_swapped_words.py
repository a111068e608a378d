"""A list of words in the place of one: how likely the answers are with each of them."""

import dataclasses

import pytest

from balcony.frame.question import Question
from balcony.masked_words.closer_view import NO_MASK, closer_code, closer_rows, closer_value
from balcony.parts.swaps import NO_PLACE
from bert_core import load_checkpoint
from bert_core.config import CHECKPOINTS
from bert_core.errors import InputError
from bert_core.probes.masked_words import rate_guess

DOCTOR = Question("the doctor said that [MASK] was late.", view="swap")
TINY = Question("hello how are you i am romeo", "hello romeo", hidden=(2,), view="swap")


@pytest.fixture(scope="module")
def english():
    return load_checkpoint(CHECKPOINTS / "english-mini")


def test_persons_are_put_in_the_place_of_a_person_and_he_and_she_are_rated(english, capsys):
    value = closer_value(english, DOCTOR)
    assert (value["answers"], value["places"][value["place"]][1]) == (("he", "she"), "doctor")
    rows = {row["word"]: row["cells"] for row in value["rows"]}
    assert rows["doctor"] == pytest.approx([0.29, 0.04], abs=0.01)
    assert rows["nurse"] == pytest.approx([0.16, 0.07], abs=0.01)
    lines = closer_rows(value)
    assert lines[0].keys() == {"word", "answer", "probability"}
    assert len(lines) == 2 * len(rows)
    exec(closer_code(english, DOCTOR), {})
    word, answer, p = capsys.readouterr().out.splitlines()[1].split()
    assert (word, answer, float(p)) == ("doctor", "she", pytest.approx(rows["doctor"][1], abs=1e-5))


def test_a_persons_own_words_stand_in_the_chosen_place_and_the_hidden_word_stays_hidden(tiny_checkpoint):
    asked = dataclasses.replace(TINY, place=1, swaps=("how", "thank you"), answers=("are", "zebra"))
    how, thanks = closer_value(tiny_checkpoint, asked)["rows"]
    for row, words in ((how, "how"), (thanks, "thank you")):
        rated = rate_guess(tiny_checkpoint, "are", f"hello {words} [MASK] you i am romeo", "hello romeo")
        assert row["cells"] == [pytest.approx(rated.probability, abs=1e-6), None]
    assert "zebra" in closer_value(tiny_checkpoint, asked)["notes"][0]


def test_without_a_choice_the_models_own_guesses_stand_there(tiny_checkpoint):
    value = closer_value(tiny_checkpoint, TINY)
    place = dict(value["places"])[value["place"]]
    assert value["swaps"][0] == place == "hello"  # of the longest words the first
    assert len(value["answers"]) == 2
    assert len(value["rows"]) == len(value["swaps"]) > 1


def test_a_word_is_no_example_for_itself_in_small_letters(tiny_checkpoint):
    asked = Question("Hello how are you", "I am Romeo", hidden=(2,), place=0, view="swap")
    value = closer_value(tiny_checkpoint, asked)
    assert value["swaps"][0] == "Hello"
    assert "hello" not in value["swaps"]


def test_what_cannot_be_swapped_is_said(tiny_checkpoint):
    assert closer_value(tiny_checkpoint, dataclasses.replace(TINY, hidden=()))["text"] == NO_MASK
    with pytest.raises(InputError, match=NO_PLACE[:20]):
        closer_value(tiny_checkpoint, Question("hello", hidden=(0,), view="swap"))
    with pytest.raises(InputError, match="has 31 words; the view shows 30"):
        closer_value(tiny_checkpoint, dataclasses.replace(TINY, swaps=("you",) * 31))
    with pytest.raises(InputError, match="only words"):
        closer_value(tiny_checkpoint, dataclasses.replace(TINY, swaps=("[MASK]",)))
