"""Flat arrays, gathered piece by piece: the same in memory and in a folder, which a later call reads."""

import numpy as np
import pytest

from bert_core.data.arrays import HEADER, gather
from bert_core.errors import CorpusError


def pieces(append):
    append("odd", np.arange(3, dtype=np.uint16))
    append("empty", np.empty(0, np.int64))
    append("odd", np.arange(3, 7, dtype=np.uint16))
    return {"sum": 21}


@pytest.mark.parametrize("is_kept", [False, True])
def test_pieces_become_one_array_of_their_type(tmp_path, is_kept):
    arrays, facts = gather(pieces, tmp_path / "kept" if is_kept else None)
    assert arrays["odd"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert arrays["odd"].dtype == np.uint16
    assert len(arrays["empty"]) == 0
    assert facts == {"sum": 21}
    assert all(type(array) is np.ndarray for array in arrays.values())


def test_arrays_that_a_folder_holds_are_not_gathered_again(tmp_path):
    gather(pieces, tmp_path / "kept")
    arrays, facts = gather(lambda append: pytest.fail("fill was called again"), tmp_path / "kept")
    assert (arrays["odd"].sum(), facts["sum"]) == (21, 21)


@pytest.mark.parametrize("damage", ["shorter", "no header", "no array", "foreign header"])
def test_a_damaged_folder_is_written_again(tmp_path, damage):
    folder = tmp_path / "kept"
    gather(pieces, folder)
    if damage == "shorter":
        (folder / "odd.bin").write_bytes(b"ab")
    elif damage == "no array":
        (folder / "odd.bin").unlink()
    elif damage == "foreign header":
        (folder / HEADER).write_text("[1]")
    else:
        (folder / HEADER).unlink()
    assert gather(pieces, folder)[0]["odd"].sum() == 21


def test_a_failure_leaves_nothing_behind(tmp_path):
    def fill(append):
        append("odd", np.zeros(9))
        raise CorpusError("no text")

    with pytest.raises(CorpusError, match="no text"):
        gather(fill, tmp_path / "kept")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CorpusError, match=r"cannot be stored in .*file.*XDG_CACHE_HOME"):
        gather(pieces, tmp_path / "file" / "kept")
