"""What the Words in context tab shows, as plain values."""

import dataclasses
import json

import pytest

from bert_core import save_checkpoint
from bert_core.errors import InputError
from bert_core.probes.vectors import Occurrence, words_in_contexts
from ui.parts.export import write
from ui.parts.notes import EACH_ALONE
from ui.words_in_context.tab import (
    CONTEXT,
    HINT,
    ONE_OCCURRENCE,
    contexts_code,
    contexts_numbers,
    contexts_value,
    example,
    snippet,
)

SENTENCES = ["Hello, Romeo!", "", "thank you romeo, <b>romeo</b>"]


@pytest.mark.parametrize(("level", "named"), [*enumerate(["Word vectors alone", "Embeddings", "Layer 1", "Layer 2"])])
def test_occurrences_are_counted_and_both_pictures_show_the_level(level, named, tiny_checkpoint):
    facts, cosine, points = contexts_value(tiny_checkpoint, "romeo", ["Hello, Romeo!", "", "thank you romeo"], level)
    assert dict(facts["facts"])["Occurrences"] == dict(facts["facts"])["Sentences"] == "2"
    assert facts["notes"] == [EACH_ALONE]
    [dots] = points["data"]
    assert dict(facts["facts"])["Mean similarity"] == f"{cosine['cosine'][0][1]:.2f}"
    assert len(dots["x"]) == len(cosine["cosine"]) == len(cosine["labels"]) == 2
    assert cosine["title"].startswith(named)
    assert points["layout"]["title"]["text"].startswith(named)


def test_the_level_changes_what_is_shown(tiny_checkpoint):
    shown = [contexts_value(tiny_checkpoint, "romeo", SENTENCES, level)[1]["cosine"] for level in range(4)]
    assert shown[0] != shown[1] != shown[2] != shown[3]


def test_the_similarity_of_the_word_vectors_and_of_the_embeddings_is_measured(tiny_checkpoint):
    """A word's own vector is the same everywhere; with its position it is not."""
    facts = dict(contexts_value(tiny_checkpoint, "romeo", SENTENCES, 3)[0]["facts"])
    assert facts["Word vectors alone"] == "1.00" != facts["Embeddings"]
    found = words_in_contexts(tiny_checkpoint, "romeo", SENTENCES).cosine
    means = found[:, 0, 1].tolist()  # of two occurrences
    assert [facts[name] for name in ("Embeddings", "Last layer")] == [f"{means[1]:.2f}", f"{means[3]:.2f}"]
    assert facts["Mean similarity"] == facts["Last layer"]
    assert "nearly" not in HINT


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


def test_an_example_is_the_longest_word_that_sentences_share(tiny_checkpoint):
    texts = ["Hello, Romeo!", "how are you", "you, romeo", "great today", "thank you Romeo", "romeo"]
    assert example(tiny_checkpoint, texts) == ("romeo", ["Hello, Romeo!", "you, romeo", "thank you Romeo"])
    assert example(tiny_checkpoint, ["zebra", "zebra!", "hello"]) == ("", ["zebra", "zebra!", "hello"])


def test_a_word_that_is_nowhere_is_an_error(tiny_checkpoint):
    with pytest.raises(InputError, match="is in none of"):
        contexts_value(tiny_checkpoint, "zebra", SENTENCES, 1)


def test_a_snippet_shows_a_little_on_both_sides():
    text = "x" * 50 + "Romeo" + "y" * 50
    assert snippet(text, Occurrence(0, 50, 55)) == f"…{'x' * CONTEXT}Romeo{'y' * CONTEXT}…"
    assert snippet("Romeo", Occurrence(0, 0, 5)) == "Romeo"
