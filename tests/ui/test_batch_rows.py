"""A batch as text: kinds of positions, and a model's answers against the losses of training."""

import dataclasses

import pytest
import torch
from helpers import numbers_of

from balcony.batch.rows import interleaved, view_batch
from bert_core.config import DataConfig
from bert_core.data.batches import IGNORED, Batch, PretrainingBatches
from bert_core.data.encoding import encode_corpus


@pytest.fixture
def batch(dialogue, word_tokenizer):
    config = DataConfig(sequence_length=17, batch_size=13, mask_probability=0.4, mask_share=0.4, random_share=0.3)
    return PretrainingBatches(encode_corpus(dialogue, word_tokenizer), word_tokenizer, config)[3]


def test_every_position_has_its_kind(batch, word_tokenizer):
    view = view_batch(batch, word_tokenizer)
    found = set()
    order = interleaved(batch.next_sentence_label)
    parts = (part[order] for part in (batch.input_ids, batch.labels, batch.attention_mask))
    for row, shown, labels, attended in zip(view.rows, *parts, strict=True):
        for i, (token, kind) in enumerate(zip(row.tokens, row.kinds)):
            found.add(kind)
            assert token == word_tokenizer.id_to_token(int(shown[i]))
            assert (kind == "padding") == (not attended[i])
            assert (kind == "special") == (token in ("[CLS]", "[SEP]"))
            assert (kind in ("masked", "replaced", "kept")) == (labels[i] != IGNORED) == (i in row.labels)
            if i in row.labels:
                assert row.labels[i] == word_tokenizer.id_to_token(int(labels[i]))
                assert (kind == "masked") == (token == "[MASK]")
                assert (kind == "kept") == (token == row.labels[i])
    assert found == {"masked", "replaced", "kept", "untouched", "special", "padding"}
    assert [row.is_next for row in view.rows] == [label == 0 for label in batch.next_sentence_label[order].tolist()]
    assert [list(row.segments) for row in view.rows] == batch.token_type_ids[order].tolist()


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


def test_the_first_pairs_of_a_batch_are_of_both_kinds(batch, word_tokenizer):
    assert batch.next_sentence_label.tolist() == [0] * 7 + [1] * 6, "as the sampler draws them"
    first = view_batch(batch, word_tokenizer, slice(4)).rows
    assert [row.is_next for row in first] == [True, False, True, False]


@pytest.mark.parametrize("size", [13, 9])  # 7 and 6 pairs of a kind, 7 and 2
def test_the_judgement_is_that_of_training_without_dropout(batch, tiny_checkpoint, size):
    batch = Batch(*(getattr(batch, part.name)[:size] for part in dataclasses.fields(Batch)))
    view = view_batch(batch, tiny_checkpoint.tokenizer)
    judged = view.judge(tiny_checkpoint)
    guesses = [guess for row in judged for guess in row.guesses]
    with torch.no_grad():
        mlm, nsp, mlm_accuracy, *_ = numbers_of(tiny_checkpoint.model, batch)
    assert sum(guess.loss for guess in guesses) / len(guesses) == pytest.approx(float(mlm), rel=1e-4)
    assert sum(guess.is_right for guess in guesses) / len(guesses) == pytest.approx(float(mlm_accuracy))
    true = torch.tensor(
        [judgement.is_next if row.is_next else 1 - judgement.is_next for row, judgement in zip(view.rows, judged)]
    )
    assert float(-true.log().mean()) == pytest.approx(float(nsp), rel=1e-4)
    for row, judgement in zip(view.rows, judged):
        assert [guess.position for guess in judgement.guesses] == sorted(row.labels)
        for guess in judgement.guesses:
            assert guess.is_right == (guess.token == row.labels[guess.position])
            assert 0 < guess.probability <= 1
    assert view.judge(tiny_checkpoint) == judged


def test_a_part_of_a_batch_is_judged_as_in_the_whole(batch, tiny_checkpoint):
    whole = view_batch(batch, tiny_checkpoint.tokenizer)
    part = view_batch(batch, tiny_checkpoint.tokenizer, slice(5, 8))
    assert (whole.shape[0], part.shape[0], len(part.rows)) == (13, 13, 3)
    assert part.rows == whole.rows[5:8]
    for judgement, alone in zip(whole.judge(tiny_checkpoint)[5:8], part.judge(tiny_checkpoint), strict=True):
        assert alone.is_next == pytest.approx(judgement.is_next, abs=1e-5)
        assert [guess.loss for guess in alone.guesses] == pytest.approx([g.loss for g in judgement.guesses], abs=1e-4)
    assert view_batch(batch, tiny_checkpoint.tokenizer, slice(13, 17)).rows == ()
