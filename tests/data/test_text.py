"""A text as bytes and offsets: the same in memory and in a folder, which a later call reads."""

import json

import numpy as np
import pytest

from bert_core.data.corpus import Corpus
from bert_core.data.text import arrays
from bert_core.errors import CorpusError

NAMES = ("odd", "words", "empty")


def pieces(append):
    append("odd", np.arange(3, dtype=np.uint16))
    append("empty", np.empty(0, np.int64))
    append("odd", np.arange(3, 7, dtype=np.uint16))
    append("words", np.array(["one", "é"]))


@pytest.mark.parametrize("is_kept", [False, True])
def test_pieces_become_one_array_of_their_type(tmp_path, is_kept):
    found = arrays(pieces, tmp_path / "kept" if is_kept else None, NAMES)
    assert found["odd"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert found["odd"].dtype == np.uint16
    assert len(found["empty"]) == 0
    assert found["words"].tolist() == ["one", "é"]
    assert all(type(array) is np.ndarray for array in found.values())


def test_arrays_that_a_folder_holds_are_not_built_again(tmp_path):
    arrays(pieces, tmp_path / "kept", NAMES)
    found = arrays(lambda append: pytest.fail("fill was called again"), tmp_path / "kept", NAMES)
    assert found["odd"].sum() == 21
    assert isinstance(found["odd"].base, np.memmap)
    assert np.load(tmp_path / "kept" / "odd.npy").sum() == 21, "a file of NumPy"


@pytest.mark.parametrize("damage", ["shorter", "empty", "no array", "no array of numbers"])
def test_a_damaged_folder_is_written_again(tmp_path, damage):
    path = tmp_path / "kept" / "odd.npy"
    arrays(pieces, path.parent, NAMES)
    if damage == "shorter":
        path.write_bytes(path.read_bytes()[:-1])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "no array":
        path.unlink()
    else:
        path.write_bytes(json.dumps([1] * 99).encode())
    assert arrays(pieces, path.parent, NAMES)["odd"].sum() == 21


def test_a_failure_leaves_nothing_behind(tmp_path):
    def fill(append):
        append("odd", np.zeros(9))
        raise CorpusError("no text")

    with pytest.raises(CorpusError, match="no text"):
        arrays(fill, tmp_path / "kept", NAMES)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CorpusError, match=r"cannot be stored in .*file.*XDG_CACHE_HOME"):
        arrays(pieces, tmp_path / "file" / "kept", NAMES)


def test_a_corpus_is_a_sequence_of_documents_of_sentences():
    given = (("one", "\ud800 two"), (), ("é木😀", ""), ("a\nb",))
    corpus = Corpus(given)
    assert corpus.documents == (given[0], *given[2:]), "without the empty one"
    assert corpus.sentences == ("one", "\ud800 two", "é木😀", "", "a\nb")
    assert corpus.sentences[::-2] == ("a\nb", "é木😀", "one")
    assert (corpus.sentences[4:1], corpus.documents[9:]) == ((), ())
    assert hash(Corpus(given)) == hash(corpus)
    assert corpus.sentences != ("one",)
    assert list(map(list, corpus.documents[1])) == [["é", "木", "😀"], []]
    assert corpus.nbytes == sum(len(sentence.encode(errors="surrogatepass")) + 1 for sentence in corpus.sentences) + 48
