"""Vectors of sentences and of words in several contexts, against `transformers` and one text at a time."""

import itertools

import pytest
import torch
import transformers
from helpers import make_model

from bert_core.config import BertConfig
from bert_core.data.tokenizer import train_tokenizer
from bert_core.errors import InputError
from bert_core.probes.vectors import Occurrence, encode, sentence_vectors, words_in_contexts
from bert_core.storage.checkpoint import Checkpoint, save_checkpoint

TEXTS = ["hello romeo", "how are you i am romeo my name is juliet", "thank you"]


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_sentence_has_the_same_vector_alone_and_among_longer_ones(tiny_checkpoint, pooling):
    together = sentence_vectors(tiny_checkpoint, TEXTS, pooling)
    assert (together.shape, together.dtype) == ((3, 12), torch.float32)
    for vector, text in zip(together, TEXTS):
        ids = torch.tensor([tiny_checkpoint.tokenizer.encode(text).ids])
        states = tiny_checkpoint.model(ids).last_hidden_state[0]
        expected = states[0] if pooling == "cls" else states.mean(0)
        torch.testing.assert_close(vector, expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(sentence_vectors(tiny_checkpoint, [text], pooling)[0], expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_mean_pooling_is_that_of_transformers(tiny_checkpoint, tmp_path):
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    assert (batch["attention_mask"] == 0).any()
    states = transformers.BertModel.from_pretrained(tmp_path / "model").eval()(**batch).last_hidden_state
    mask = batch["attention_mask"][:, :, None]
    expected = (states * mask).sum(1) / mask.sum(1)
    ours = sentence_vectors(tiny_checkpoint, TEXTS, "mean")
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)


def test_more_sentences_than_one_batch_keep_their_order(tiny_checkpoint):
    texts = [f"you {'romeo ' * (i % 5)}" for i in range(261)]
    vectors = sentence_vectors(tiny_checkpoint, texts, "mean")
    assert vectors.shape == (261, 12)
    torch.testing.assert_close(vectors[260], sentence_vectors(tiny_checkpoint, texts[:1], "mean")[0], rtol=0, atol=1e-5)
    assert not torch.allclose(vectors[0], vectors[1], atol=1e-3)


@pytest.mark.parametrize(
    ("texts", "pooling", "message"),
    [
        (["hello", ""], "mean", "no word"),
        (["you " * 40], "mean", "the model reads 17"),
        (["hello"], "max", "pooling 'max' is unknown; it can be one of: cls, mean"),
    ],
)
def test_sentences_without_a_vector_are_refused(tiny_checkpoint, texts, pooling, message):
    with pytest.raises(InputError, match=message):
        sentence_vectors(tiny_checkpoint, texts, pooling)


@pytest.fixture
def piece_checkpoint(dialogue) -> Checkpoint:
    """A small model that reads pieces of words."""
    tokenizer = train_tokenizer(dialogue, kind="wordpiece", vocab_size=60)
    config = BertConfig(vocab_size=60, hidden_size=12, num_attention_heads=3, max_position_embeddings=40)
    return Checkpoint(make_model(config), tokenizer)


def test_a_word_has_a_vector_in_each_context(tiny_checkpoint):
    texts = ["Hello, Romeo! I am romeo.", "", "thank you", "thank you ROMEO"]
    found = words_in_contexts(tiny_checkpoint, "Romeo", texts)
    assert [texts[at.text][at.start : at.end] for at in found.occurrences] == ["Romeo", "romeo", "ROMEO"]
    assert [at.text for at in found.occurrences] == [0, 0, 3]
    assert (found.vectors.shape, found.cosine.shape) == ((4, 3, 12), (4, 3, 3))
    first, last = encode(tiny_checkpoint, texts[0]), encode(tiny_checkpoint, texts[3])
    for occurrence, (hidden, token) in enumerate([(first, 2), (first, 5), (last, 3)]):
        assert hidden.tokens[token] == "romeo"
        assert torch.equal(found.vectors[1:, occurrence], hidden.states[:, token])
    for layer, i, j in itertools.product(range(4), range(3), range(3)):
        expected = torch.nn.functional.cosine_similarity(found.vectors[layer, i], found.vectors[layer, j], 0)
        assert found.cosine[layer, i, j].item() == pytest.approx(expected.item(), abs=1e-5)


def test_the_pieces_of_a_word_are_averaged(piece_checkpoint):
    text = "Oh congratulations, Juliet. Oh!"
    found = words_in_contexts(piece_checkpoint, "Congratulations", [text])
    hidden = encode(piece_checkpoint, text)
    last = hidden.tokens.index(",")
    first = last - len(piece_checkpoint.tokenizer.encode("congratulations", add_special_tokens=False))
    assert last - first > 3
    assert found.occurrences == (Occurrence(0, 3, 18),)
    torch.testing.assert_close(found.vectors[1:, 0], hidden.states[:, first:last].mean(1))
    torch.testing.assert_close(found.cosine, torch.ones(4, 1, 1))


def test_the_first_level_is_the_word_vector_of_the_files_and_positions_already_change_it(tiny_checkpoint, tmp_path):
    save_checkpoint(tiny_checkpoint, tmp_path)
    theirs = transformers.BertModel.from_pretrained(tmp_path).get_input_embeddings().weight.detach()
    found = words_in_contexts(tiny_checkpoint, "romeo", ["hello romeo", "romeo and romeo"])
    romeo = theirs[tiny_checkpoint.tokenizer.token_to_id("romeo")]
    assert torch.equal(found.vectors[0], romeo.expand(3, -1))
    torch.testing.assert_close(found.cosine[0], torch.ones(3, 3))
    assert found.cosine[1, 0, 1] < 0.999


def test_several_words_and_a_word_with_a_hyphen_are_found(piece_checkpoint):
    texts = ["my name-is Juliet", "is my name is is"]
    found = words_in_contexts(piece_checkpoint, "name is", texts)
    assert [(at.text, texts[at.text][at.start : at.end]) for at in found.occurrences] == [(1, "name is")]
    (at,) = words_in_contexts(piece_checkpoint, "NAME-IS", texts).occurrences
    assert (at.text, at.start, at.end) == (0, 3, 10)


def test_a_word_is_not_found_inside_another_and_unknown_words_differ(tiny_checkpoint):
    with pytest.raises(InputError, match="'rome' is in none of the sentences"):
        words_in_contexts(tiny_checkpoint, "rome", ["hello romeo"])
    found = words_in_contexts(tiny_checkpoint, "zebra", ["hello zebra", "hello quark"])
    assert [at.text for at in found.occurrences] == [0]


@pytest.mark.parametrize(
    ("word", "texts", "message"),
    [
        ("", ["hello"], "no word to find"),
        ("...", ["hello"], "no word to find"),
        ("hello", [], "is in none of"),
        ("you", ["you " * 14] * 8, "more than 100 times"),
        ("you", ["you " * 40], "the model reads 17"),
        ("you", ["you " * 3000, "you " * 3000], "24,001 characters; the limit is 20,000"),
        ("you", [""] * 20_002, "20,001 characters; the limit is 20,000"),
        ("\ud800", ["hello"], "surrogate"),
    ],
)
def test_words_that_cannot_be_compared_are_refused(tiny_checkpoint, word, texts, message):
    with pytest.raises(InputError, match=message):
        words_in_contexts(tiny_checkpoint, word, texts)
