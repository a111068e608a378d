"""What the Words in context tab shows, as plain values."""

import dataclasses
from types import SimpleNamespace

import pytest

from balcony.frame.question import Question
from balcony.words_in_context.tab import (
    BANK,
    CONTEXT,
    HINT,
    ONE_OCCURRENCE,
    contexts_code,
    contexts_rows,
    contexts_value,
    example,
    filled,
    first_example,
    sentences_value,
    snippet,
)
from bert_core import load_checkpoint, save_checkpoint
from bert_core.config import CHECKPOINTS
from bert_core.data.corpus import Corpus
from bert_core.errors import InputError
from bert_core.probes.vectors import Occurrence, sentence_vectors, words_in_contexts

SENTENCES = ["Hello, Romeo!", "", "thank you romeo, <b>romeo</b>"]


@pytest.mark.parametrize(("level", "named"), [*enumerate(["Word vectors alone", "Embeddings", "Layer 1", "Layer 2"])])
def test_occurrences_are_counted_and_the_map_shows_the_level(level, named, tiny_checkpoint):
    facts, cosine = contexts_value(
        tiny_checkpoint, "romeo", ["Hello, Romeo!", "", "thank you", "thank you romeo", "thank you"], level
    )
    assert dict(facts["facts"])["Occurrences"] == dict(facts["facts"])["Sentences"] == "2"
    shown = dict(facts["facts"])
    assert shown["Left out, without the word"] == "2"
    assert facts["notes"] == []
    assert dict(facts["facts"])["Mean similarity"] == f"{cosine['cosine'][0][1]:.2f}"
    assert len(cosine["cosine"]) == len(cosine["labels"]) == 2
    assert cosine["title"].startswith(named)


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
    facts, cosine = contexts_value(tiny_checkpoint, "quark", ["hello quark"], 1)
    assert facts["notes"][0] == ONE_OCCURRENCE
    assert "quark" in facts["notes"][1]
    assert "Mean similarity" not in dict(facts["facts"])
    assert cosine["cosine"] == [[pytest.approx(1)]]


def test_files_and_python_give_the_same_similarities(tiny_checkpoint, tmp_path):
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    named = dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model"))
    rows = [*contexts_rows(contexts_value(named, "romeo", SENTENCES, 1)[1])]
    assert [row["second_sentence"] for row in rows] == [SENTENCES[0], SENTENCES[2]] * 2
    assert {row["title"] for row in rows} == {"Embeddings: cosine similarity"}
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


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_whole_sentences_are_compared_by_their_vectors(pooling, tiny_checkpoint, tmp_path):
    texts = ["Hello, Romeo!", "thank you romeo", "how are you"]
    facts, cosine = sentences_value(tiny_checkpoint, texts, pooling)
    vectors = sentence_vectors(tiny_checkpoint, texts, pooling)
    expected = (vectors[0] @ vectors[1] / vectors[0].norm() / vectors[1].norm()).item()
    assert cosine["cosine"][0][1] == pytest.approx(expected, abs=1e-5)
    assert (dict(facts["facts"])["Sentences"], cosine["labels"]) == ("3", texts)
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    named = dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model"))
    rows = contexts_rows(cosine)
    *setup, last = contexts_code(named, "", texts, 0, pooling).strip().split("\n")
    scope = {}
    exec("\n".join(setup), scope)
    assert [row["cosine"] for row in rows] == pytest.approx(
        eval(last.removeprefix("print(").partition(")  #")[0], scope).flatten().tolist(), abs=1e-5
    )
    with pytest.raises(InputError, match="compares 100"):
        sentences_value(tiny_checkpoint, texts * 40, pooling)


def test_the_example_is_bank_where_the_model_knows_it_and_its_two_meanings_lie_apart():
    model = load_checkpoint(CHECKPOINTS / "english-mini")
    word, texts = first_example(model, ["any text"])
    assert (word, texts) == BANK
    cosine = words_in_contexts(model, word, texts).cosine[-1]
    within, across = (cosine[0, 1], cosine[2, 3]), cosine[:2, 2:]
    assert min(within) > across.max() + 0.1
    own = [*BANK[1], "she sat on the bank of the river"]
    for lines, found in (
        (own, "bank"),
        (own[:1] + own[2:4], "bank"),
        (["a company here", "a company there"], "company"),
    ):
        asked = SimpleNamespace(
            checkpoint=model, corpus=Corpus.from_text("any text\n", "lines"), question=Question(contexts=tuple(lines))
        )
        assert filled(asked)[:2] == (found, lines)
