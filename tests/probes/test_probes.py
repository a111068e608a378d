"""Probes: against the model's own output, `transformers`' pipeline, and a model that knows its text by heart."""

import dataclasses
import itertools

import pytest
import torch
import transformers
from helpers import make_model

from bert_core.config import BertConfig
from bert_core.costs import probe_operations, processor_cores, threads_for
from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import train_tokenizer
from bert_core.errors import InputError
from bert_core.probes.attention import attention
from bert_core.probes.exam import exam
from bert_core.probes.forward import word_scores
from bert_core.probes.masked_words import fill_mask
from bert_core.probes.reading import read_words, unknown_words
from bert_core.probes.sentence_pairs import next_sentence
from bert_core.probes.vectors import Occurrence, encode, plane, sentence_vector, sentence_vectors, words_in_contexts
from bert_core.storage.checkpoint import Checkpoint, save_checkpoint


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
    words = [word.text for word in read_words(tiny_checkpoint, text)]
    assert words == ["Hello", "<b>Romeo</b>", "${1}", "[MASK]", "naïve", "你好"]
    assert read_words(tiny_checkpoint, "") == []


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


# --- Sentences as vectors -------------------------------------------------------------------------------------------

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
        torch.testing.assert_close(sentence_vector(tiny_checkpoint, text, pooling), expected, rtol=0, atol=1e-5)


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
    torch.testing.assert_close(vectors[260], sentence_vector(tiny_checkpoint, texts[0], "mean"), rtol=0, atol=1e-5)
    assert not torch.allclose(vectors[0], vectors[1], atol=1e-3)


@pytest.mark.parametrize(
    ("texts", "pooling", "says"),
    [
        ([], "mean", "no text"),
        (["hello", ""], "mean", "no word"),
        (["you " * 40], "mean", "the model reads 17"),
        (["hello"], "max", "pooling 'max' is unknown; it can be one of: cls, mean"),
    ],
)
def test_sentences_without_a_vector_are_refused(tiny_checkpoint, texts, pooling, says):
    with pytest.raises(InputError, match=says):
        sentence_vectors(tiny_checkpoint, texts, pooling)


# --- A word in several contexts -------------------------------------------------------------------------------------


@pytest.fixture
def piece_checkpoint(dialogue) -> Checkpoint:
    """A small model that reads pieces of words."""
    tokenizer = train_tokenizer(dialogue, kind="wordpiece", vocab_size=60)
    config = BertConfig(vocab_size=60, hidden_size=12, num_attention_heads=3, max_position_embeddings=40)
    return Checkpoint(make_model(config), tokenizer)


def test_a_word_has_a_vector_in_each_context(tiny_checkpoint):
    texts = ["Hello, Romeo! I am romeo.", "", "thank you", "thank you ROMEO"]
    found = words_in_contexts(tiny_checkpoint, "Romeo", texts)
    assert [texts[place.text][place.start : place.end] for place in found.occurrences] == ["Romeo", "romeo", "ROMEO"]
    assert [place.text for place in found.occurrences] == [0, 0, 3]
    assert (found.vectors.shape, found.cosine.shape, found.points.shape) == ((3, 3, 12), (3, 3, 3), (3, 3, 2))
    first, last = encode(tiny_checkpoint, texts[0]), encode(tiny_checkpoint, texts[3])
    for occurrence, (hidden, token) in enumerate([(first, 2), (first, 5), (last, 3)]):
        assert hidden.tokens[token] == "romeo"
        assert torch.equal(found.vectors[:, occurrence], hidden.states[:, token])
    for layer, i, j in itertools.product(range(3), repeat=3):
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
    torch.testing.assert_close(found.vectors[:, 0], hidden.states[:, first:last].mean(1))
    assert found.points.tolist() == [[[0, 0]]] * 3
    torch.testing.assert_close(found.cosine, torch.ones(3, 1, 1))


def test_several_words_and_a_word_with_a_hyphen_are_found(piece_checkpoint):
    texts = ["my name-is Juliet", "is my name is is"]
    found = words_in_contexts(piece_checkpoint, "name is", texts)
    assert [(place.text, texts[place.text][place.start : place.end]) for place in found.occurrences] == [(1, "name is")]
    (place,) = words_in_contexts(piece_checkpoint, "NAME-IS", texts).occurrences
    assert (place.text, place.start, place.end) == (0, 3, 10)


def test_a_word_is_not_found_inside_another_and_unknown_words_differ(tiny_checkpoint):
    with pytest.raises(InputError, match="'rome' is in none of the sentences"):
        words_in_contexts(tiny_checkpoint, "rome", ["hello romeo"])
    found = words_in_contexts(tiny_checkpoint, "zebra", ["hello zebra", "hello quark"])
    assert [place.text for place in found.occurrences] == [0]


@pytest.mark.parametrize(
    ("word", "texts", "says"),
    [
        ("", ["hello"], "no word to find"),
        ("...", ["hello"], "no word to find"),
        ("hello", [], "is in none of"),
        ("you", ["you " * 14] * 8, "more than 100 times"),
        ("you", ["you " * 40], "the model reads 17"),
        ("you", ["you " * 3000, "you " * 3000], "24,000 characters; the limit is 20,000"),
        ("\ud800", ["hello"], "surrogate"),
    ],
)
def test_words_that_cannot_be_compared_are_refused(tiny_checkpoint, word, texts, says):
    with pytest.raises(InputError, match=says):
        words_in_contexts(tiny_checkpoint, word, texts)


def test_the_plane_keeps_the_largest_differences():
    generator = torch.Generator().manual_seed(4)
    vectors = torch.randn(7, 5, generator=generator) * torch.tensor([1.0, 9.0, 2.0, 5.0, 1.0]) + 3
    points = plane(vectors)
    variances, directions = torch.linalg.eigh(torch.cov(vectors.double().T))
    torch.testing.assert_close(points.double().var(0), variances[[-1, -2]], rtol=1e-4, atol=0)
    assert points.sum(0).abs().max() < 1e-4
    for column, direction in zip(points.T, (directions[:, -1], directions[:, -2])):
        direction = direction * direction[direction.abs().argmax()].sign()
        torch.testing.assert_close(
            column.double(), (vectors.double() - vectors.double().mean(0)) @ direction, rtol=0, atol=1e-5
        )
    # Vectors that are nearly the same give nearly the same picture: no direction turns round.
    assert (plane(vectors + 1e-3 * torch.randn(7, 5, generator=generator)) - points).abs().max() < 0.1


@pytest.mark.parametrize(
    "vectors",
    [
        torch.ones(1, 5),
        torch.ones(4, 5),
        torch.full((7, 5), 0.1),
        torch.zeros(3, 5),
        torch.tensor([[1.0], [3.0], [2.0]]),
    ],
    ids=["one", "the same", "the same with rounding", "nothing", "one number"],
)
def test_the_plane_of_few_or_equal_vectors_is_finite(vectors):
    points = plane(vectors)
    assert points.shape == (len(vectors), 2)
    assert points.isfinite().all()
    assert points[:, 1].abs().max() < 1e-6
    if (vectors == vectors[0]).all():
        assert points.abs().max() == 0


def test_a_small_probe_takes_one_processor_thread_and_leaves_the_number_as_it_was(tiny_checkpoint):
    seen = []
    tiny_checkpoint.model.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        fill_mask(tiny_checkpoint, "hello [MASK]")
        list(word_scores(tiny_checkpoint, [([2, 6, 3], [0, 0, 0])], [[1]]))
        assert (seen, torch.get_num_threads()) == ([1, 1], 3)
    finally:
        torch.set_num_threads(before)
    base = BertConfig(30522, 768, 12, 12, 3072)
    assert threads_for(probe_operations(base, 64)) == processor_cores()
    assert threads_for(probe_operations(tiny_checkpoint.config, 64)) == 1
