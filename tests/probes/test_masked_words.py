"""Views of masked words against fill_mask and against one word at a time."""

import dataclasses
import math

import pytest
import torch
from helpers import make_model, watched

from bert_core.config import BertConfig
from bert_core.data.tokenizer import train_tokenizer
from bert_core.errors import InputError
from bert_core.probes.explanations import deletion, explain
from bert_core.probes.forward import batches
from bert_core.probes.masked_words import fill_mask, layer_lens, rate_guess, sweep
from bert_core.probes.reading import read_words
from bert_core.storage.checkpoint import Checkpoint

PAIR = ("Hello, how are you?", "I am [MASK] Romeo.")


@pytest.fixture(scope="module")
def piece_checkpoint(dialogue) -> Checkpoint:
    """A small model that reads pieces of words, and whose embedding has more rows than there are tokens."""
    tokenizer = train_tokenizer(dialogue, kind="wordpiece", vocab_size=60)
    config = BertConfig(vocab_size=67, hidden_size=12, num_attention_heads=3, max_position_embeddings=40)
    return Checkpoint(make_model(config), tokenizer)


def probabilities(checkpoint: Checkpoint, text: str, pair: str | None = None) -> list[dict[str, float]]:
    """Every token's probability at every mask, by fill_mask."""
    return [dict(row) for row in fill_mask(checkpoint, text, pair, top_k=10**6)]


def test_words_have_their_sentence_characters_and_pieces(piece_checkpoint):
    text, pair = "Oh congratulations, [MASK]!", "<b> 你好"
    words = read_words(piece_checkpoint, text, pair)
    encoding = piece_checkpoint.tokenizer.encode(text, pair)
    assert [word.text for word in words] == ["Oh", "congratulations", ",", "[MASK]", "!", "<", "b", ">", "你", "好"]
    assert [word.sentence for word in words] == [0] * 5 + [1] * 5
    for word in words:
        assert (text, pair)[word.sentence][word.start : word.end] == word.text
        assert tuple(encoding.tokens[word.first : word.last]) == word.pieces
    long = words[1]
    spelled = [long.text[a:b] for a, b in zip(long.cuts, [*long.cuts[1:], None])]
    assert len(spelled) > 2
    assert [piece.removeprefix("##") for piece in long.pieces] == spelled
    assert [word.is_special for word in words].count(True) == 1
    assert [word.text for word in words if not word.is_known] == ["!", "<", ">", "你", "好"]


def test_a_guess_has_the_probability_and_rank_of_fill_mask(tiny_checkpoint):
    (row,) = fill_mask(tiny_checkpoint, *PAIR, top_k=10**6)
    for rank, (word, probability) in enumerate(row, 1):
        if word != "[UNK]":
            rated = rate_guess(tiny_checkpoint, word.title() if word.isalpha() else word, *PAIR)
            assert (rated.pieces, rated.ranks) == ((word,), (rank,))
            assert rated.probability == pytest.approx(probability, rel=1e-4)


def test_a_guess_of_several_pieces_takes_as_many_masks(piece_checkpoint):
    text = "Oh [MASK] how [MASK] [MASK] [MASK] [MASK] you"
    word = "Hello"
    pieces = piece_checkpoint.tokenizer.encode(word, add_special_tokens=False).tokens
    assert len(pieces) == 4
    at = probabilities(piece_checkpoint, text)
    rated = rate_guess(piece_checkpoint, word, text, mask=1)
    assert rated.pieces == tuple(pieces)
    assert rated.probability == pytest.approx(math.prod(at[i][piece] for i, piece in enumerate(pieces, 1)), rel=1e-4)
    with pytest.raises(InputError, match=r"The model reads 'Hello' as 4 pieces; put 4 \[MASK\] in a row"):
        rate_guess(piece_checkpoint, word, text)


@pytest.mark.parametrize("mask", [0, 1])
def test_the_last_layer_of_the_lens_is_fill_mask(piece_checkpoint, mask):
    text, pair = "Oh [MASK], how are you", "[MASK] am I"
    lens = layer_lens(piece_checkpoint, text, pair, mask=mask, words=["you", "nobody", "me"], top_k=4)
    everything = fill_mask(piece_checkpoint, text, pair, top_k=10**6)[mask]
    order = [token for token, _ in everything]
    layers = piece_checkpoint.config.num_hidden_layers
    assert lens.candidates[:4] == tuple(order[:4])
    assert set(lens.candidates[4:]) <= {"you", "me"}
    assert "you" in lens.candidates
    assert lens.probabilities.shape == lens.ranks.shape == (layers + 1, len(lens.candidates))
    assert lens.probabilities[-1].tolist() == pytest.approx([dict(everything)[c] for c in lens.candidates], abs=1e-6)
    assert lens.ranks[-1].tolist() == [order.index(c) + 1 for c in lens.candidates]
    assert lens.best[-1] == pytest.approx(everything[0])


@torch.no_grad()
def test_each_layer_of_the_lens_is_the_head_on_its_hidden_state(piece_checkpoint):
    model = piece_checkpoint.model
    ids = torch.tensor([piece_checkpoint.tokenizer.encode("how are [MASK]").ids])
    mask = piece_checkpoint.tokenizer.token_to_id("[MASK]")
    states = watched(model, input_ids=ids)[1]
    lens = layer_lens(piece_checkpoint, "how are [MASK]")
    for layer, state in enumerate(states):
        expected = model.score_words(state[0, ids[0].tolist().index(mask)]).softmax(-1)[:60]
        assert lens.best[layer][0] == piece_checkpoint.tokenizer.id_to_token(expected.argmax().item())
        for candidate, probability, rank in zip(lens.candidates, lens.probabilities[layer], lens.ranks[layer]):
            own = expected[piece_checkpoint.tokenizer.token_to_id(candidate)]
            torch.testing.assert_close(probability, own)
            assert rank == (expected > own).sum() + 1


def test_the_sweep_masks_one_word_at_a_time(piece_checkpoint):
    text, pair = "Oh congratulations, Juliet", "How [MASK] you 你"
    result = sweep(piece_checkpoint, text, pair, top_k=3)
    assert [entry.word.text for entry in result] == ["Oh", "congratulations", ",", "Juliet", "How", "you", "你"]
    for entry in result:
        word = entry.word
        masks = " ".join(["[MASK]"] * len(word.pieces))
        texts = [text, pair]
        texts[word.sentence] = texts[word.sentence][: word.start] + masks + texts[word.sentence][word.end :]
        masked = fill_mask(piece_checkpoint, *texts, top_k=60)
        first = 1 if word.sentence == 1 and word.start > 3 else 0  # after the [MASK] in the text
        own = masked[first : first + len(word.pieces)]
        for rivals, row in zip(entry.rivals, own, strict=True):
            assert [token for token, _ in rivals] == [token for token, _ in row[:3]]
            assert [p for _, p in rivals] == pytest.approx([p for _, p in row[:3]], rel=1e-4)
        if word.text == "你":
            assert entry.own is None
            continue
        each = [dict(row)[piece] for piece, row in zip(word.pieces, own)]
        assert entry.own.probability == pytest.approx(math.prod(each), rel=1e-3)
        assert [row[rank - 1][0] for rank, row in zip(entry.own.ranks, own)] == list(word.pieces)


def test_a_sweep_over_several_passes_gives_the_same(piece_checkpoint, monkeypatch):
    text = "Oh congratulations, Juliet how are you"
    once = sweep(piece_checkpoint, text)
    monkeypatch.setattr("bert_core.probes.forward._ROWS", 2)
    assert len(list(batches(piece_checkpoint, [([1], [0])] * 5))) == 3
    for entry, before in zip(sweep(piece_checkpoint, text), once, strict=True):
        assert entry.own.log_probability == pytest.approx(before.own.log_probability, rel=1e-4)


def test_words_that_the_model_never_learned_have_no_probability(tiny_checkpoint):
    assert [entry.own for entry in sweep(tiny_checkpoint, "zebra quark")] == [None, None]


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (lambda c: layer_lens(c, "no mask"), r"There is no \[MASK\] in the text"),
        (lambda c: layer_lens(c, "[MASK]", mask=1), "number 1 in the text; choose one from 0 to 0"),
        (lambda c: rate_guess(c, "zebra", "[MASK]"), "never learned the word 'zebra'"),
        (lambda c: rate_guess(c, " ", "[MASK]"), "never learned"),
        (lambda c: rate_guess(c, "how are", "[MASK]"), "2 pieces"),
        (lambda c: sweep(c, ""), "no word"),
        (lambda c: sweep(c, "you " * 40), "the model reads 17"),
    ],
)
def test_questions_without_an_answer_raise_one_sentence(tiny_checkpoint, probe, message):
    with pytest.raises(InputError, match=message):
        probe(tiny_checkpoint)


@pytest.mark.parametrize("probe", [sweep, layer_lens, explain])
def test_a_model_without_the_masked_word_head_is_refused(tiny_checkpoint, probe):
    with pytest.raises(InputError, match="came without a"):
        probe(dataclasses.replace(tiny_checkpoint, missing=frozenset({"mlm"})), "[MASK] you")


def test_a_model_without_that_head_puts_no_explanation_on_trial(tiny_checkpoint):
    found = explain(tiny_checkpoint, "[MASK] you")
    with pytest.raises(InputError, match="came without a"):
        deletion(dataclasses.replace(tiny_checkpoint, missing=frozenset({"mlm"})), found)
