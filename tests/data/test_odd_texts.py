"""Texts as people have them: damaged characters, and notes that come before a refusal."""

import pytest

from balcony.train.preview import preview
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.errors import CorpusError
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import recipe_named


def read(text, **options):
    return Corpus.from_bytes(text.encode(), **options)


def test_damaged_characters_are_counted():
    text = "Caf\ufffd is open.\nIt\ufffds fine.\n"
    for corpus in (read(text), Corpus.from_text(text)):
        assert "Characters that were damaged before: 2." in corpus.notes


def test_what_was_read_comes_before_a_refusal_that_follows_from_it(tmp_path):
    with pytest.raises(CorpusError, match="is not a pair") as caught:
        Corpus.from_bytes("Der Zug fährt über die Brücke.\n".encode("cp1252"), "pairs")
    [note] = caught.value.notes
    assert note.startswith("It is not UTF-8 and was read as windows-1252")
    corpus, recipe = Corpus.from_text("all words of this text are one sentence"), recipe_named("romeo-juliet")
    for refuses in (prepare, preview):
        with pytest.raises(CorpusError, match="single sentence") as caught:
            refuses(recipe, corpus)
        assert caught.value.notes == list(corpus.notes)
    assert corpus.notes[0].startswith("Read as lines: each line is a sentence.")
    path = tmp_path / "none.txt"
    path.write_bytes(b"\xef\xbb\xbf\x02\x03")
    with pytest.raises(CorpusError, match="is empty") as caught:
        read_corpus(path)
    assert caught.value.notes == ["Controls and characters without width left out: 2."]
