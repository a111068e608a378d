"""Sentence pairs as the page shows them: notes on a matrix, attention across a pair, files and Python."""

import csv
import dataclasses
import io
import json

import pytest
import torch

from balcony.frame.question import Question
from balcony.next_sentence import pair_views as pairs
from balcony.next_sentence.tab import follows, verdict_value
from balcony.parts.export import BYTE_ORDER_MARK, file_text
from balcony.parts.notes import NEXT
from bert_core import save_checkpoint
from bert_core.config import BertConfig
from bert_core.data.corpus import Corpus
from bert_core.errors import InputError
from bert_core.model import BertForPreTraining
from bert_core.probes.attention import attention
from bert_core.probes.sentence_pairs import PairMatrix, next_sentence, pair_matrix

PAIR = Question("how are you", "i am romeo today")


def by_hand(likely: list[list[float]]) -> PairMatrix:
    truth = torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    return PairMatrix(4, (4, 5, 7), ("a", "b", "c"), torch.tensor(likely, dtype=torch.float), truth)


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


def test_why_a_model_of_many_documents_takes_pairs_of_one_document_for_neighbours(tiny_checkpoint):
    alike = by_hand([[0.9, 0.9, 0.2], [0.8, 0.7, 0.4], [0.6, 0.1, torch.nan]])
    trained = dataclasses.replace(tiny_checkpoint, recipe={"corpus": {"kind": "documents"}})
    one, two = Corpus([["a", "b", "-", "c"]], name="one"), Corpus([["a", "b", "-"], ["c"]], name="two")
    [why] = pairs.subject_note(trained, alike, one)
    assert why.startswith("It takes 5 of 8 pairs from one document for IsNext: in its training, ")
    [why] = pairs.subject_note(trained, alike, two)
    assert why.startswith("It takes 4 of 4 pairs from one document for IsNext, and 1 of 4 pairs from two: ")
    assert pairs.subject_note(tiny_checkpoint, alike, one) == [], "no recipe"
    apart = by_hand([[0.1, 0.9, 0.2], [0.1, 0.1, 0.9], [0.1, 0.1, 0.1]])
    assert pairs.subject_note(trained, apart, one) == [], "nothing to explain"


def test_the_view_has_the_numbers_of_the_matrix(tiny_checkpoint, dialogue):
    matrix = pair_matrix(tiny_checkpoint, dialogue, limit=4, start=1)
    value = pairs.matrix_value(matrix, dialogue, 4, tiny_checkpoint)
    assert (value["start"], value["total"], value["numbers"]) == (1, 6, [2, 3, 4, 5])
    for shown, probabilities in zip(value["probabilities"], matrix.probabilities.tolist(), strict=True):
        assert [None if p != p else pytest.approx(p, abs=1e-4) for p in probabilities] == shown
    json.dumps(value, allow_nan=False)


def test_a_large_model_gets_a_small_window(tiny_checkpoint):
    assert pairs.window_size(tiny_checkpoint) == pairs.MOST
    config = BertConfig(vocab_size=30000, hidden_size=768, num_hidden_layers=12)
    with torch.device("meta"):
        base = BertForPreTraining(config)
    assert pairs.window_size(dataclasses.replace(tiny_checkpoint, model=base)) == pairs.FEWEST


def rows_of(table):
    return list(csv.DictReader(io.StringIO(table.removeprefix(BYTE_ORDER_MARK))))


def test_files_and_python_give_the_same_matrix(tiny_checkpoint, tmp_path):
    text = Corpus([["how are you", "=1+1 romeo", "${1} {x} 'i' \"am\""], ["you " * 12, "thank you"]])
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    scope = {}
    exec(pairs.matrix_code(dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model")), text, 1, 4), scope)
    matrix = pair_matrix(tiny_checkpoint, text, limit=4, start=1)
    torch.testing.assert_close(scope["matrix"].probabilities, matrix.probabilities, equal_nan=True)
    assert torch.equal(scope["matrix"].labels, matrix.labels)
    value = pairs.matrix_value(matrix, text, 4, tiny_checkpoint)
    table = rows_of(file_text("csv", {"": value}, pairs.matrix_rows))
    assert len(table) == 16
    assert (table[0]["first"], table[0]["first_sentence"]) == ("2", "'=1+1 romeo")
    assert table[1]["is_true"] == "1"
    assert float(table[1]["probability"]) == pytest.approx(matrix.probabilities[0, 1].item(), abs=1e-6)
    assert table[10]["probability"] == "", "the long one with itself"


def test_the_python_contains_the_labels_of_pairs(tiny_checkpoint, tmp_path):
    labelled = Corpus([["how are you", "i am romeo"], ["thank you", "oh romeo"]], labels=[True, False])
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    scope = {}
    exec(pairs.matrix_code(dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model")), labelled, 0, 4), scope)
    assert torch.equal(scope["matrix"].labels, pair_matrix(tiny_checkpoint, labelled).labels)


def test_across_a_pair_words_attend_to_the_words_of_the_other_sentence(tiny_checkpoint):
    maps = attention(tiny_checkpoint, *PAIR.texts)  # [CLS] how are you [SEP] i am romeo today [SEP]
    value = pairs.across_value(tiny_checkpoint, PAIR)
    assert (value["rows"], value["columns"]) == (["[CLS]", "how", "are", "you"], ["i", "am", "romeo", "today"])
    expected = maps.weights.mean((0, 1))[:4, 5:9]
    torch.testing.assert_close(torch.tensor(value["weights"]), expected, rtol=0, atol=1e-5)
    assert value["note"].startswith(f"{expected[1:].sum(-1).mean():.0%} of the first sentence's attention")
    assert f"{expected[0].sum():.0%} of that of [CLS]" in value["note"]
    heads = [head for head, _ in value["choices"]]
    assert (heads[0], len(heads)) == (None, 7)
    layer, head = heads[1]
    most = maps.weights[..., 1:4, 5:9].sum((-1, -2))
    assert most[layer, head] == most.max()
    one = pairs.across_value(tiny_checkpoint, dataclasses.replace(PAIR, across=heads[1]))
    torch.testing.assert_close(torch.tensor(one["weights"]), maps.weights[layer, head, :4, 5:9], rtol=0, atol=1e-5)
    assert pairs.across_value(tiny_checkpoint, dataclasses.replace(PAIR, across=(7, 7)))["head"] is None


def test_a_sentence_without_a_word_has_no_attention_to_show(tiny_checkpoint):
    with pytest.raises(InputError, match="no word"):
        pairs.across_value(tiny_checkpoint, Question("how are you", "..."))


@pytest.mark.parametrize(("head", "heads"), [(None, "mean"), ((1, 2), "layer 2, head 3")])
def test_files_and_python_give_the_same_pair(tiny_checkpoint, tmp_path, head, heads):
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    asked = dataclasses.replace(PAIR, across=head)
    content = verdict_value(tiny_checkpoint, asked) | {"attention": pairs.across_value(tiny_checkpoint, asked)}
    rows = rows_of(file_text("csv", {"": content}, pairs.pair_rows))
    assert content["is_next"] == pytest.approx(next_sentence(tiny_checkpoint, PAIR.text, PAIR.pair), abs=1e-6)
    assert [row["from_token"] for row in rows[::4]] == content["attention"]["rows"]
    assert float(rows[5]["weight"]) == content["attention"]["weights"][1][1]
    assert {row["heads"] for row in rows} == {heads}
    assert {float(row["is_next"]) for row in rows} == {content["is_next"]}
    scope = {}
    exec(pairs.pair_code(dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model")), asked), scope)
    assert scope["is_next"] == pytest.approx(content["is_next"], abs=1e-6)
    torch.testing.assert_close(scope["shown"], torch.tensor(content["attention"]["weights"]), rtol=0, atol=1e-5)


def test_a_guess_is_judged_by_the_text(dialogue):
    first, second, *_, last = dialogue.sentences
    pairs = {(first, second): True, (second, first): False, (last, first): False, (first, "other"): None}
    assert {pair: follows(dialogue, Question(*pair)) for pair in pairs} == pairs
