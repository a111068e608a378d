"""Heads as switches: the answers with and without them, the hidden word after an edit, and the files."""

import dataclasses
import json

import pytest

from balcony.attention import head_switches
from balcony.attention.head_switches import LOSS_LEFT_OUT, hidden_position, switch_rows, switches_code, switches_value
from balcony.frame.masking import maskable
from balcony.frame.question import Question
from bert_core import save_checkpoint
from bert_core.data.corpus import Corpus
from bert_core.errors import InputError
from bert_core.probes.attention import ablation_map, answers

ASKED = Question("how are you", "i am romeo")


def test_answers_stand_beside_those_without_the_heads_that_are_off(tiny_checkpoint, dialogue):
    value = switches_value(
        tiny_checkpoint, dataclasses.replace(ASKED, off=((1, 2), (0, 0), (7, 7)), hidden=(1,)), dialogue
    )
    assert value["off"] == [[1, 2], [0, 0]], "a smaller model has fewer switches"
    for setting, off in enumerate(([], [(1, 2), (0, 0)])):
        _, found = answers(tiny_checkpoint, *ASKED.texts, off=off, position=2, answer="are")
        assert value["rows"]["word"][setting] == pytest.approx(found["word"], abs=1e-4)
        assert value["rows"]["is_next"][setting] == pytest.approx(found["is_next"], abs=1e-4)
    assert value["rows"]["loss"][0] != value["rows"]["loss"][1]
    assert set(value["maps"]) == set(value["titles"]) == {"word", "is_next", "loss"}
    json.dumps(value, allow_nan=False)


def test_one_sentence_is_not_judged_as_a_pair(tiny_checkpoint, dialogue):
    assert set(switches_value(tiny_checkpoint, Question("how are you"), dialogue)["titles"]) == {"word", "loss"}


def test_the_probability_of_the_first_hidden_word_is_followed_and_the_others_are_masks(tiny_checkpoint):
    def of(text, *hidden):
        question, position = hidden_position(tiny_checkpoint, Question(text, hidden=hidden))
        return question.text, position

    assert of("how are you") == ("how are you", 2), "without a hidden word the middle one"
    assert of("how are you", 0) == ("how are you", 1)
    assert of("how are you", 0, 2, 9) == ("how are [MASK]", 1)
    with pytest.raises(InputError):
        of("...") if not maskable(tiny_checkpoint, Question("...")) else of(" ")


def test_a_slow_model_waits_for_a_press_and_a_very_slow_one_leaves_the_loss_out(tiny_checkpoint, dialogue, monkeypatch):
    monkeypatch.setattr(head_switches, "AT_ONCE", 1)
    value = switches_value(tiny_checkpoint, ASKED, dialogue)
    assert (value["maps"], bool(value["waits"])) == (None, True)
    monkeypatch.setattr(head_switches, "WITH_LOSS", 1)
    value = switches_value(tiny_checkpoint, ASKED, dialogue, at_once=True)
    assert set(value["maps"]) == {"word", "is_next"}
    assert (value["waits"], value["notes"]) == ("", [LOSS_LEFT_OUT])


def test_a_text_without_pairs_has_no_corpus_loss(tiny_checkpoint):
    value = switches_value(tiny_checkpoint, ASKED, Corpus([["how are you"]]))
    assert set(value["titles"]) == {"word", "is_next"}


def test_files_and_python_give_the_same_changes(tiny_checkpoint, dialogue, tmp_path):
    found = ablation_map(tiny_checkpoint, *ASKED.texts, position=2)
    value = switches_value(tiny_checkpoint, dataclasses.replace(ASKED, hidden=(1,)), dialogue)
    rows = [*switch_rows(value)]
    assert len(rows) == 6
    assert list(rows[0]) == ["layer", "head", "word", "is_next", "loss"]
    changes = found.changes["word"]
    assert value["maps"]["word"][1][2] == rows[5]["word"] == pytest.approx(changes[1, 2].item(), abs=1e-6)
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    scope = {}
    exec(switches_code(dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model")), ASKED, 2), scope)
    assert (scope["found"].changes["word"] - changes).abs().max() < 1e-6
