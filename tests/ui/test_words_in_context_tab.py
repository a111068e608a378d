"""What the Words in context tab shows, as plain values."""

import dataclasses
import json

import pytest

from bert_core import save_checkpoint
from bert_core.errors import InputError
from bert_core.probes.vectors import Occurrence
from ui.parts.export import write
from ui.parts.notes import EACH_ALONE
from ui.words_in_context_tab import (
    CONTEXT,
    ONE_OCCURRENCE,
    contexts_code,
    contexts_numbers,
    contexts_value,
    snippet,
)

SENTENCES = ["Hello, Romeo!", "", "thank you romeo, <b>romeo</b>"]


@pytest.mark.parametrize("layer", [0, 2])
def test_occurrences_are_counted_and_both_pictures_show_the_layer(layer, tiny_checkpoint):
    facts, cosine, points = contexts_value(tiny_checkpoint, "romeo", ["Hello, Romeo!", "", "thank you romeo"], layer)
    assert dict(facts["facts"])["Occurrences"] == dict(facts["facts"])["Sentences"] == "2"
    assert facts["notes"] == [EACH_ALONE]
    [dots] = points["data"]
    assert dict(facts["facts"])["Mean similarity"] == f"{cosine['cosine'][0][1]:.2f}"
    assert len(dots["x"]) == len(cosine["cosine"]) == len(cosine["labels"]) == 2
    named = "Layer 2" if layer else "Before the first layer"
    assert cosine["title"].startswith(named)
    assert points["layout"]["title"]["text"].startswith(named)


def test_the_layer_changes_what_is_shown(tiny_checkpoint):
    shown = [contexts_value(tiny_checkpoint, "romeo", SENTENCES, layer)[1]["cosine"] for layer in (0, 1, 2)]
    assert shown[0] != shown[1] != shown[2]


def test_unknown_words_and_a_single_occurrence_are_noted(tiny_checkpoint):
    facts, _, points = contexts_value(tiny_checkpoint, "quark", ["hello quark"], 1)
    assert facts["notes"][0] == ONE_OCCURRENCE
    assert "quark" in facts["notes"][1]
    assert "Mean similarity" not in dict(facts["facts"])
    assert (points["data"][0]["x"], points["data"][0]["y"]) == ([0], [0])


def test_files_and_python_give_the_same_similarities(tiny_checkpoint, tmp_path):
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    named = dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model"))
    numbers = contexts_numbers(named, "romeo", SENTENCES, 1)
    rows = json.loads(write("json", numbers))
    assert [row["second_sentence"] for row in rows] == [SENTENCES[0], SENTENCES[2]] * 2
    assert write("csv", numbers).count("\n") == 1 + 4
    scope = {}
    exec(contexts_code(named, "romeo", SENTENCES, 1), scope)
    cosine = scope["found"].cosine[1]
    assert [row["cosine"] for row in rows] == pytest.approx(cosine.flatten().tolist(), abs=1e-6)


def test_a_word_that_is_nowhere_is_an_error(tiny_checkpoint):
    with pytest.raises(InputError, match="is in none of"):
        contexts_value(tiny_checkpoint, "zebra", SENTENCES, 1)


def test_a_snippet_shows_a_little_on_both_sides():
    text = "x" * 50 + "Romeo" + "y" * 50
    assert snippet(text, Occurrence(0, 50, 55)) == f"…{'x' * CONTEXT}Romeo{'y' * CONTEXT}…"
    assert snippet("Romeo", Occurrence(0, 0, 5)) == "Romeo"
