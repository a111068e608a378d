"""Probes: against the model's own output, `transformers`' pipeline, and a model that knows its text by heart."""

import dataclasses
import itertools

import pytest
import torch
import transformers

from bert_core.checkpoint import Checkpoint, save_checkpoint
from bert_core.corpus import Corpus
from bert_core.errors import InputError
from bert_core.probing import attention, encode, exam, fill_mask, next_sentence, unknown_words, words


def test_fill_mask_is_a_softmax_over_the_vocabulary_at_each_mask(tiny_checkpoint):
    guesses = fill_mask(tiny_checkpoint, "hello [MASK] are you", "i am [MASK]", top_k=4)
    encoding = tiny_checkpoint.tokenizer.encode("hello [MASK] are you", "i am [MASK]")
    logits = tiny_checkpoint.model(
        torch.tensor([encoding.ids]), token_type_ids=torch.tensor([encoding.type_ids])
    ).prediction_logits[0]
    places = [i for i, token in enumerate(encoding.tokens) if token == "[MASK]"]
    assert len(guesses) == len(places) == 2
    for place, row in zip(places, guesses):
        best = logits[place].softmax(-1).topk(4)
        assert [word for word, _ in row] == [tiny_checkpoint.tokenizer.id_to_token(i) for i in best.indices.tolist()]
        assert [p for _, p in row] == pytest.approx(best.values.tolist(), abs=1e-6)


def test_all_words_together_have_probability_one(tiny_checkpoint):
    size = tiny_checkpoint.tokenizer.get_vocab_size()
    (row,) = fill_mask(tiny_checkpoint, "[MASK]", top_k=10**6)
    assert len(row) == size
    assert sum(p for _, p in row) == pytest.approx(1, abs=1e-5)


def test_the_pipeline_of_transformers_gives_the_same_guesses(tiny_checkpoint, tmp_path):
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    pipeline = transformers.pipeline("fill-mask", str(tmp_path / "model"))
    ours = fill_mask(tiny_checkpoint, "hello [MASK] are you")[0]
    theirs = pipeline("hello [MASK] are you")
    assert [guess["token_str"] for guess in theirs] == [word for word, _ in ours]
    assert [guess["score"] for guess in theirs] == pytest.approx([p for _, p in ours], abs=1e-5)


def test_next_sentence_is_the_probability_of_the_first_class(tiny_checkpoint):
    encoding = tiny_checkpoint.tokenizer.encode("thank you romeo", "how are you")
    output = tiny_checkpoint.model(torch.tensor([encoding.ids]), token_type_ids=torch.tensor([encoding.type_ids]))
    expected = output.seq_relationship_logits.softmax(-1)[0, 0].item()
    assert next_sentence(tiny_checkpoint, "Thank you, Romeo!", "How are you?") == pytest.approx(expected, abs=1e-6)
    assert next_sentence(tiny_checkpoint, "how are you", "thank you romeo") != pytest.approx(expected, abs=1e-4)


def test_attention_maps_have_a_row_of_shares_for_every_token(tiny_checkpoint):
    maps = attention(tiny_checkpoint, "how are you", "i am romeo")
    assert maps.tokens == ["[CLS]", "how", "are", "you", "[SEP]", "i", "am", "romeo", "[SEP]"]
    assert maps.token_type_ids == [0] * 5 + [1] * 4
    assert maps.weights.shape == (2, 3, 9, 9)
    assert maps.weights.dtype == torch.float32
    torch.testing.assert_close(maps.weights.sum(-1), torch.ones(2, 3, 9))


def test_encode_gives_every_layer(tiny_checkpoint):
    hidden = encode(tiny_checkpoint, "how are you")
    encoding = tiny_checkpoint.tokenizer.encode("how are you")
    output = tiny_checkpoint.model(torch.tensor([encoding.ids]), output_hidden_states=True)
    assert hidden.states.shape == (3, 5, 12)
    torch.testing.assert_close(hidden.states, torch.cat(output.hidden_states))
    assert hidden.tokens == encoding.tokens


def test_asking_twice_gives_the_same_answer_and_draws_nothing(tiny_checkpoint):
    """Dropout is off although the config has some."""
    assert tiny_checkpoint.config.hidden_dropout_prob > 0
    before = torch.get_rng_state()
    assert fill_mask(tiny_checkpoint, "how [MASK] you") == fill_mask(tiny_checkpoint, "how [MASK] you")
    assert next_sentence(tiny_checkpoint, "a", "b") == next_sentence(tiny_checkpoint, "a", "b")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (lambda c: fill_mask(c, "no mask here"), r"no \[MASK\]"),
        (lambda c: fill_mask(c, ""), r"no \[MASK\]|no word"),
        (lambda c: fill_mask(c, "[MASK]", top_k=0), "top_k is 0"),
        (lambda c: fill_mask(c, "you " * 40 + "[MASK]"), "43 tokens; the model reads 17"),
        (lambda c: fill_mask(c, "[MASK] " + "x" * 100_000), "characters; the limit"),
        (lambda c: fill_mask(c, "\ud800 [MASK]"), "surrogate"),
        (lambda c: next_sentence(c, "", "hello"), "first sentence is empty"),
        (lambda c: next_sentence(c, "hello", "  "), "second sentence is empty"),
        (lambda c: next_sentence(c, "you " * 9, "you " * 9), "21 tokens; the model reads 17"),
        (lambda c: attention(c, ""), "no word"),
        (lambda c: attention(c, "...", "!"), "no word"),
        (lambda c: encode(c, "you " * 16), "18 tokens"),
    ],
)
def test_what_cannot_be_answered_gets_one_sentence(tiny_checkpoint, probe, message):
    with pytest.raises(InputError, match=message) as caught:
        probe(tiny_checkpoint)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("part", "probe"),
    [
        ("mlm", lambda c: fill_mask(c, "[MASK]")),
        ("nsp", lambda c: next_sentence(c, "a", "b")),
        ("mlm", lambda c: exam(c, Corpus((("a", "b"),)))),
    ],
)
def test_a_part_that_the_files_lacked_is_not_asked(tiny_checkpoint, part, probe):
    checkpoint = dataclasses.replace(tiny_checkpoint, missing=frozenset({part}))
    with pytest.raises(InputError, match="without the part"):
        probe(checkpoint)


def test_words_are_spelled_as_typed(tiny_checkpoint):
    text = "Hello, <b>Romeo</b>! ${1} [MASK] -- naïve 你好"
    assert words(tiny_checkpoint, text) == ["Hello", "<b>Romeo</b>", "${1}", "[MASK]", "naïve", "你好"]
    assert words(tiny_checkpoint, "") == []


def test_unknown_words_are_named_once(tiny_checkpoint):
    assert unknown_words(tiny_checkpoint, "Hello zebra, you quark zebra") == ["zebra", "quark"]
    assert unknown_words(tiny_checkpoint, "hello romeo") == []


def test_the_exam_counts_by_hand(tiny_checkpoint):
    corpus = Corpus((("hello romeo", "thank you"), ("how are you",)))
    result = exam(tiny_checkpoint, corpus)
    sentences = corpus.sentences
    pairs_right = 0
    for a, b in itertools.product(sentences, sentences):
        is_next = (a, b) == ("hello romeo", "thank you")
        pairs_right += (next_sentence(tiny_checkpoint, a, b) > 0.5) == is_next
    words_right = sum(
        fill_mask(tiny_checkpoint, a, b)[0][0][0] == word
        for a, b, word in [
            ("[MASK] romeo", "thank you", "hello"),
            ("hello [MASK]", "thank you", "romeo"),
            ("hello romeo", "[MASK] you", "thank"),
            ("hello romeo", "thank [MASK]", "you"),
        ]
    )
    assert result.words == (words_right, 4)
    assert result.pairs == (pairs_right, 9)
    assert result.window is None


def test_the_exam_takes_a_seeded_window_of_a_long_text(tiny_checkpoint: Checkpoint):
    corpus = Corpus((tuple(f"you are {'romeo ' * (i % 3)}" for i in range(230)),))
    result = exam(tiny_checkpoint, corpus, seed=3)
    first, last = result.window
    assert last - first + 1 == 200
    assert result.pairs[1] == 200 * 200
    assert exam(tiny_checkpoint, corpus, seed=3) == result
    assert exam(tiny_checkpoint, corpus, seed=4).window != result.window
