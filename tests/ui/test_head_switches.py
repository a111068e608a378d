"""Heads switched off: the answers with and without them, the hidden word after an edit, and the files."""

import dataclasses
import json

import pytest

from balcony.attention import values
from balcony.attention.values import (
    LOSS_LEFT_OUT,
    effects_code,
    effects_value,
    hidden_position,
    number_rows,
    switches_value,
)
from balcony.frame.masking import maskable
from balcony.frame.question import Question
from bert_core import save_checkpoint
from bert_core.data.corpus import Corpus
from bert_core.errors import InputError
from bert_core.probes.attention import ablation_map, answers
from bert_core.probes.stages import without_heads

ASKED = Question("how are you", "i am romeo")


def test_answers_stand_beside_those_without_the_heads_that_are_off(tiny_checkpoint, dialogue):
    asked = dataclasses.replace(ASKED, off=((1, 2), (0, 0), (7, 7)), hidden=(1,))
    value = switches_value(tiny_checkpoint, asked, dialogue)
    assert value["off"] == [(1, 2), (0, 0)], "a smaller model has fewer heads"
    for setting, off in enumerate(([], [(1, 2), (0, 0)])):
        _, found = answers(without_heads(tiny_checkpoint, off), *ASKED.texts, position=2, answer="are")
        assert value["rows"]["word"][setting] == pytest.approx(found["word"], abs=1e-4)
        assert value["rows"]["is_next"][setting] == pytest.approx(found["is_next"], abs=1e-4)
    assert value["rows"]["loss"][0] != value["rows"]["loss"][1]
    assert (value["answer"], set(value["rows"])) == ("are", {"word", "is_next", "loss"})
    json.dumps(value, allow_nan=False)


def test_the_probability_of_the_first_hidden_word_is_followed_and_the_others_are_masks(tiny_checkpoint):
    def of(text, *hidden):
        question, position = hidden_position(tiny_checkpoint, Question(text, hidden=hidden))
        return question.text, position

    assert of("how are you") == ("how are you", 2), "without a hidden word the middle one"
    assert of("how are you", 0) == ("how are you", 1)
    assert of("how are you", 0, 2, 9) == ("how are [MASK]", 1)
    with pytest.raises(InputError):
        of("...") if not maskable(tiny_checkpoint, Question("...")) else of(" ")


def test_a_very_large_model_leaves_the_loss_out_and_says_so(tiny_checkpoint, dialogue, monkeypatch):
    asked = tiny_checkpoint, ASKED, dialogue
    assert switches_value(*asked)["notes"] == []
    monkeypatch.setattr(values, "WITH_LOSS", 1)
    value = switches_value(*asked)
    assert (set(value["rows"]), value["notes"]) == ({"word", "is_next"}, [LOSS_LEFT_OUT])


@pytest.mark.parametrize(
    ("asked", "corpus", "found"),
    [
        (ASKED, Corpus([["how are you"]]), {"word", "is_next"}),
        (Question("how are you"), Corpus([["how are you", "i am romeo"]]), {"word", "loss"}),
    ],
)
def test_a_text_without_pairs_has_no_loss_and_one_sentence_is_not_judged(tiny_checkpoint, asked, corpus, found):
    assert set(effects_value(tiny_checkpoint, asked, corpus)["changes"]) == found


def test_files_and_python_give_the_same_changes(tiny_checkpoint, dialogue, tmp_path):
    asked = dataclasses.replace(ASKED, hidden=(1,))
    changes = ablation_map(tiny_checkpoint, *ASKED.texts, position=2).changes["word"]
    value = effects_value(tiny_checkpoint, asked, dialogue)
    rows = [*number_rows(value)]
    assert len(rows) == 6
    assert list(rows[0]) == ["layer", "head", "word", "is_next", "loss"]
    assert value["changes"]["word"][1][2] == rows[5]["word"] == pytest.approx(changes[1, 2].item(), abs=1e-6)
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    scope = {}
    exec(effects_code(dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model")), asked), scope)
    assert (scope["found"].changes["word"] - changes).abs().max() < 1e-6
