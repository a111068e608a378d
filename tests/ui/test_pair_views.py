"""Sentence pairs as the page shows them: notes on a matrix, files and Python."""

import csv
import dataclasses
import io
import json

import pytest
import torch

from balcony.frame.question import Question
from balcony.next_sentence import tab as pairs
from balcony.next_sentence.tab import follows, verdict_value
from balcony.parts.export import BYTE_ORDER_MARK, file_text
from balcony.parts.notes import NEXT
from bert_core import save_checkpoint
from bert_core.config import BertConfig
from bert_core.data.corpus import Corpus
from bert_core.model import BertForPreTraining
from bert_core.probes.sentence_pairs import PairMatrix, next_sentence, pair_matrix

PAIR = Question("how are you", "i am romeo today")


def by_hand(likely: list[list[float]]) -> PairMatrix:
    truth = torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    return PairMatrix((4, 5, 7), ("a", "b", "c"), torch.tensor(likely, dtype=torch.float), truth)


def test_a_matrix_is_described_in_words():
    found, judged = pairs.matrix_notes(by_hand([[0.1, 0.9, 0.2], [0.8, 0.3, 0.4], [0.6, 0.1, 0.1]]), NEXT)
    assert found == "Ranks the true next sentence first for 1 of 2 sentences."
    assert judged.startswith("Judges 6 of 9 pairs right (wrong: 1 of 2 IsNext, 2 of 7 NotNext). ")
    assert judged.endswith("Always NotNext would be right for 7.")
    assert pairs.matrix_notes(by_hand([[0, 1, 0], [0, 0, 1], [0, 0, 0]]), NEXT)[1].startswith(
        "Judges 9 of 9 pairs right. Always"
    )
    *_, long = pairs.matrix_notes(by_hand([[0.1, torch.nan, 0.2], [0.8, 0.3, 0.4], [0.6, 0.1, torch.nan]]), NEXT)
    assert long == "Pairs left out because they are longer than the model reads: 2."


def test_labelled_pairs_have_no_next_sentence_to_find():
    [judged] = pairs.matrix_notes(
        by_hand([[0.1, 0.9, 0.2], [0.8, 0.3, 0.4], [0.6, 0.1, 0.1]]), ("Paraphrase", "not Paraphrase")
    )
    assert "1 of 2 Paraphrase, 2 of 7 not Paraphrase" in judged


def test_the_view_has_the_numbers_of_the_matrix(tiny_checkpoint, dialogue):
    matrix = pair_matrix(tiny_checkpoint, dialogue, limit=4)
    value = pairs.matrix_value(matrix, dialogue, 4, tiny_checkpoint)
    assert (value["numbers"], value["notes"][-1]) == ([1, 2, 3, 4], "These are the first 4 of 6 sentences.")
    for shown, probabilities in zip(value["probabilities"], matrix.probabilities.tolist(), strict=True):
        assert [None if p != p else pytest.approx(p, abs=1e-4) for p in probabilities] == shown
    json.dumps(value, allow_nan=False)


def test_a_large_model_gets_a_small_window(tiny_checkpoint):
    assert pairs.window_size(tiny_checkpoint) == pairs.MOST
    config = BertConfig(vocab_size=30000, hidden_size=768, num_hidden_layers=12)
    with torch.device("meta"):
        base = BertForPreTraining(config)
    assert pairs.window_size(dataclasses.replace(tiny_checkpoint, module=base)) == pairs.FEWEST


def rows_of(table):
    return list(csv.DictReader(io.StringIO(table.removeprefix(BYTE_ORDER_MARK))))


def test_files_and_python_give_the_same_matrix(tiny_checkpoint, tmp_path):
    text = Corpus([["how are you", "=1+1 romeo", "${1} {x} 'i' \"am\""], ["you " * 12, "thank you"]])
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    scope = {}
    exec(pairs.matrix_code(dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model")), text, 4), scope)
    matrix = pair_matrix(tiny_checkpoint, text, limit=4)
    torch.testing.assert_close(scope["matrix"].probabilities, matrix.probabilities, equal_nan=True)
    assert torch.equal(scope["matrix"].labels, matrix.labels)
    value = pairs.matrix_value(matrix, text, 4, tiny_checkpoint)
    table = rows_of(file_text("csv", {"": value}, pairs.matrix_rows))
    assert len(table) == 16
    assert (table[4]["first"], table[4]["first_sentence"]) == ("2", "'=1+1 romeo")
    assert table[1]["is_true"] == "1"
    assert float(table[1]["probability"]) == pytest.approx(matrix.probabilities[0, 1].item(), abs=1e-6)
    assert table[15]["probability"] == "", "the long one with itself"


def test_the_python_contains_the_labels_of_pairs(tiny_checkpoint, tmp_path):
    labelled = Corpus([["how are you", "i am romeo"], ["thank you", "oh romeo"]], labels=[True, False])
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    scope = {}
    exec(pairs.matrix_code(dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model")), labelled, 4), scope)
    assert torch.equal(scope["matrix"].labels, pair_matrix(tiny_checkpoint, labelled).labels)


def test_files_and_python_give_the_same_pair(tiny_checkpoint, tmp_path):
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    content = verdict_value(tiny_checkpoint, PAIR)
    [row] = rows_of(file_text("csv", {"": content}, pairs.pair_rows))
    assert content["is_next"] == pytest.approx(next_sentence(tiny_checkpoint, PAIR.text, PAIR.pair), abs=1e-6)
    assert float(row["is_next"]) == content["is_next"]
    scope = {}
    exec(pairs.pair_code(dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model")), PAIR), scope)
    assert scope["is_next"] == pytest.approx(content["is_next"], abs=1e-6)


def test_a_guess_is_judged_by_the_text(dialogue):
    first, second, *_, last = dialogue.sentences
    pairs = {(first, second): True, (second, first): False, (last, first): False, (first, "other"): None}
    assert {pair: follows(dialogue, Question(*pair)) for pair in pairs} == pairs
