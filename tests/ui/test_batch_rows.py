"""A batch as text: kinds of positions, and a model's answers against the losses of training."""

import dataclasses

import pytest
import torch
from helpers import numbers_of

from balcony.batch.rows import interleaved, judged_rows
from bert_core.config import DataConfig
from bert_core.data.batches import IGNORED, Batch, PretrainingBatches
from bert_core.data.encoding import encode_corpus


@pytest.fixture
def batch(dialogue, word_tokenizer):
    config = DataConfig(sequence_length=17, batch_size=13, mask_probability=0.4, mask_share=0.4, random_share=0.3)
    return PretrainingBatches(encode_corpus(dialogue, word_tokenizer), word_tokenizer, config)[3]


def test_every_position_has_its_kind(batch, tiny_checkpoint, word_tokenizer):
    rows = judged_rows(batch, tiny_checkpoint)
    found = set()
    order = interleaved(batch.next_sentence_label)
    parts = (part[order] for part in (batch.input_ids, batch.labels, batch.attention_mask))
    for row, shown, labels, attended in zip(rows, *parts, strict=True):
        true = {each["at"]: each["label"] for each in row["asks"] if "at" in each}
        for i, (token, kind) in enumerate(zip(row["tokens"], row["kinds"], strict=True)):
            found.add(kind)
            assert token == word_tokenizer.id_to_token(int(shown[i]))
            assert (kind == "padding") == (not attended[i])
            assert (kind == "special") == (token in ("[CLS]", "[SEP]"))
            assert (kind in ("masked", "replaced", "kept")) == (labels[i] != IGNORED) == (i in true)
            if i in true:
                assert true[i] == word_tokenizer.id_to_token(int(labels[i]))
                assert (kind == "masked") == (token == "[MASK]")
                assert (kind == "kept") == (token == true[i])
    assert found == {"masked", "replaced", "kept", "untouched", "special", "padding"}
    names = [("IsNext", "NotNext")[label] for label in batch.next_sentence_label[order].tolist()]
    assert [row["asks"][0]["label"] for row in rows] == names
    assert [row["segments"] for row in rows] == batch.token_type_ids[order].tolist()


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ("0000111", "0101010"),
        ("1110000", "0101010"),
        ("000011", "010010"),
        ("000000001", "000010000"),
        ("0111111", "1110111"),
        ("000", "000"),
        ("1", "1"),
        ("", ""),
    ],
)
def test_both_kinds_of_pairs_are_interleaved(labels, shown):
    numbers = torch.tensor([int(label) for label in labels])
    order = interleaved(numbers)
    assert "".join(str(numbers[i].item()) for i in order) == shown
    for kind in (0, 1):
        rows = [i for i in order.tolist() if numbers[i] == kind]
        assert rows == sorted(rows), "each kind keeps its own order"


def test_the_first_pairs_of_a_batch_are_of_both_kinds(batch, tiny_checkpoint):
    assert batch.next_sentence_label.tolist() == [0] * 7 + [1] * 6, "as the sampler draws them"
    first = judged_rows(batch, tiny_checkpoint, slice(4))
    assert [row["asks"][0]["label"] for row in first] == ["IsNext", "NotNext"] * 2


@pytest.mark.parametrize("size", [13, 9])  # 7 and 6 pairs of a kind, 7 and 2
def test_the_judgement_is_that_of_training_without_dropout(batch, tiny_checkpoint, size):
    batch = Batch(*(getattr(batch, part.name)[:size] for part in dataclasses.fields(Batch)))
    rows = judged_rows(batch, tiny_checkpoint)
    guesses = [each for row in rows for each in row["asks"] if "at" in each]
    with torch.no_grad():
        mlm, nsp, mlm_accuracy, *_ = numbers_of(tiny_checkpoint.model, batch)
    assert sum(guess["loss"] for guess in guesses) / len(guesses) == pytest.approx(float(mlm), rel=1e-4)
    assert sum(guess["is_right"] for guess in guesses) / len(guesses) == pytest.approx(float(mlm_accuracy))
    assert sum(row["asks"][0]["loss"] for row in rows) / size == pytest.approx(float(nsp), rel=1e-4)
    for each in (each for row in rows for each in row["asks"]):
        assert each["is_right"] == (each["guess"] == each["label"])
        assert 0 < each["probability"] <= 1
    assert judged_rows(batch, tiny_checkpoint) == rows


def test_a_part_of_a_batch_is_judged_as_in_the_whole(batch, tiny_checkpoint):
    whole, part = judged_rows(batch, tiny_checkpoint), judged_rows(batch, tiny_checkpoint, slice(5, 8))
    assert (len(whole), len(part)) == (13, 3)
    for row, alone in zip(whole[5:8], part, strict=True):
        assert (alone["ids"], alone["number"]) == (row["ids"], row["number"])
        losses = [[asked["loss"] for asked in each["asks"]] for each in (alone, row)]
        assert losses[0] == pytest.approx(losses[1], abs=1e-4)
        assert alone["example"] == row["example"]
    assert judged_rows(batch, tiny_checkpoint, slice(13, 17)) == []
