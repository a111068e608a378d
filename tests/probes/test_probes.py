"""Probes against the model's own output, `transformers`, and hand-counted answers."""

import copy
import dataclasses
import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import transformers
from helpers import make_model, watched
from tokenizers import Encoding

from balcony.attention.values import corpus_batch
from balcony.batch.rows import judged_rows
from balcony.compare.definitions import examine
from balcony.train.exam import examine_part
from bert_core import device
from bert_core.config import BertConfig, DataConfig
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.device import Cost, processor_cores
from bert_core.errors import InputError
from bert_core.probes import reading
from bert_core.probes.attention import ablation_map, attention
from bert_core.probes.forward import word_scores
from bert_core.probes.masked_words import fill_mask, layer_lens, rate_guess
from bert_core.probes.patterns import above_chance, head_names
from bert_core.probes.reading import read_words, tokenize, unknown_words
from bert_core.probes.sentence_pairs import exam, next_sentence
from bert_core.probes.stages import follow
from bert_core.probes.vectors import encode, words_in_contexts
from bert_core.storage.checkpoint import Checkpoint, save_checkpoint


def test_fill_mask_is_a_softmax_over_the_vocabulary_at_each_mask(tiny_checkpoint):
    guesses = fill_mask(tiny_checkpoint, "hello [MASK] are you", "i am [MASK]", top_k=4)
    encoding = tiny_checkpoint.tokenizer.encode("hello [MASK] are you", "i am [MASK]")
    logits = tiny_checkpoint.model(
        torch.tensor([encoding.ids]), token_type_ids=torch.tensor([encoding.type_ids])
    ).prediction_logits[0]
    positions = [i for i, token in enumerate(encoding.tokens) if token == "[MASK]"]
    assert len(guesses) == len(positions) == 2
    for position, row in zip(positions, guesses):
        best = logits[position].softmax(-1).topk(4)
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


def test_the_attention_of_each_token_sums_to_one(tiny_checkpoint):
    maps = attention(tiny_checkpoint, "how are you", "i am romeo")
    assert maps.tokens == ["[CLS]", "how", "are", "you", "[SEP]", "i", "am", "romeo", "[SEP]"]
    assert maps.token_type_ids == [0] * 5 + [1] * 4
    assert maps.weights.shape == (2, 3, 9, 9)
    assert maps.weights.dtype == torch.float32
    torch.testing.assert_close(maps.weights.sum(-1), torch.ones(2, 3, 9))


def test_encode_gives_every_layer(tiny_checkpoint):
    hidden = encode(tiny_checkpoint, "how are you")
    encoding = tiny_checkpoint.tokenizer.encode("how are you")
    _, states, _ = watched(tiny_checkpoint.model, input_ids=torch.tensor([encoding.ids]))
    assert hidden.states.shape == (3, 5, 12)
    torch.testing.assert_close(hidden.states, torch.cat(states))
    assert hidden.tokens == encoding.tokens


def test_a_probe_gives_the_same_answer_twice_and_draws_no_random_number(tiny_checkpoint):
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
        (lambda c: next_sentence(c, "...", "hello"), "first sentence has no word"),
        (lambda c: next_sentence(c, "hello", "!"), "second sentence has no word"),
        (lambda c: next_sentence(c, "\ud800", "hello"), "surrogate"),
        (lambda c: rate_guess(c, "\ud800", "hello [MASK]"), "surrogate"),
        (lambda c: layer_lens(c, "hello [MASK]", words=["\ud800"]), "surrogate"),
        (lambda c: next_sentence(c, "you " * 9, "you " * 9), "21 tokens; the model reads 17"),
        (lambda c: attention(c, ""), "no word"),
        (lambda c: attention(c, "...", "!"), "no word"),
        (lambda c: encode(c, "you " * 16), "18 tokens"),
    ],
)
def test_questions_without_an_answer_raise_one_sentence(tiny_checkpoint, probe, message):
    with pytest.raises(InputError, match=message) as caught:
        probe(tiny_checkpoint)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("part", "probe"),
    [
        ("mlm", lambda c: fill_mask(c, "[MASK]")),
        ("nsp", lambda c: next_sentence(c, "a", "b")),
        ("mlm", lambda c: exam(c, Corpus([["a", "b"]]))),
    ],
)
def test_a_probe_refuses_a_model_that_lacks_its_head(tiny_checkpoint, part, probe):
    checkpoint = dataclasses.replace(tiny_checkpoint, missing=frozenset({part}))
    with pytest.raises(InputError, match="came without a"):
        probe(checkpoint)


def test_words_are_spelled_as_typed(tiny_checkpoint):
    text = "Hello, <b>Romeo</b>! ${1} [MASK] -- naïve 你好"
    words = [word.text for word in read_words(tiny_checkpoint, text)]
    assert words == ["Hello", "<b>Romeo</b>", "${1}", "[MASK]", "naïve", "你", "好"]
    assert read_words(tiny_checkpoint, "") == []


def test_reading_words_takes_linear_time(tiny_checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch):
    """Each property of an encoding is a list that is built anew at every access."""
    accesses: list[str] = []

    class Counted:
        def __init__(self, encoding: Encoding) -> None:
            self._encoding = encoding

        def __getattr__(self, name: str) -> object:
            accesses.append(name)
            return getattr(self._encoding, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        return Counted(tokenize(*arguments, **named))

    monkeypatch.setattr(reading, "tokenize", counted)
    assert len(read_words(tiny_checkpoint, "you " * 300, "are " * 200)) == 500
    unknown_words(tiny_checkpoint, "zebra " * 300)
    assert max(Counter(accesses).values()) == 2


def test_unknown_words_are_named_once(tiny_checkpoint):
    assert unknown_words(tiny_checkpoint, "Hello zebra, you quark zebra") == ["zebra", "quark"]
    assert unknown_words(tiny_checkpoint, "hello romeo") == []


def test_the_exam_counts_by_hand(tiny_checkpoint):
    corpus = Corpus([["hello romeo", "thank you"], ["how are you"]])
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
    assert (result.words.right, result.words.asked) == (words_right, 4)
    assert (result.pairs.right, result.pairs.asked) == (pairs_right, 9)
    assert result.window is None


def test_the_exam_judges_labelled_pairs_by_their_labels(tiny_checkpoint: Checkpoint):
    pairs = (("hello romeo", "thank you"), ("you " * 16, "oh"), ("how are you", "i am"), ("...", "oh"), ("oh", "you"))
    corpus = Corpus(pairs, labels=[False, True, True, True, False])
    judged = [next_sentence(tiny_checkpoint, *pairs[d]) >= 0.5 for d in (0, 2, 4)]
    right = sum(answer == label for answer, label in zip(judged, (False, True, False)))
    found = exam(tiny_checkpoint, corpus).pairs
    assert (found.right, found.asked) == (right, 3), "the second is too long, the fourth has no word"
    inverted = Corpus(pairs, labels=[True, False, False, False, True])
    found = exam(tiny_checkpoint, inverted).pairs
    assert (found.right, found.asked) == (3 - right, 3)


def test_the_exam_of_many_labelled_pairs_takes_a_window_of_whole_pairs(tiny_checkpoint: Checkpoint):
    corpus = Corpus([["how are you", "i am romeo"]] * 150, labels=[True, False, True] * 50)
    for seed in range(3):
        result = exam(tiny_checkpoint, corpus, seed=seed)
        assert result.pairs.asked == 100
        assert result.words.asked == 600
        assert result.window is not None
        assert result.window[0] % 2 == 1


def test_embedding_rows_without_a_token_are_never_guessed(dialogue, word_tokenizer):
    size = word_tokenizer.get_vocab_size()
    checkpoint = Checkpoint(make_model(BertConfig(vocab_size=size + 3, hidden_size=12)), word_tokenizer)
    bias = checkpoint.model.cls["predictions"].bias.data
    bias[word_tokenizer.token_to_id("romeo")] += 10
    batch = corpus_batch(checkpoint, dialogue, rows=16)

    def guessed():
        return [each["guess"] for row in judged_rows(batch, checkpoint) for each in row["asks"]]

    guesses, result, judged = fill_mask(checkpoint, "how [MASK] you"), exam(checkpoint, dialogue), guessed()
    assert result.words.right > 0
    bias[size:] += 20
    assert [word for word, _ in fill_mask(checkpoint, "how [MASK] you")[0]] == [word for word, _ in guesses[0]]
    assert exam(checkpoint, dialogue) == result
    assert guessed() == judged


def test_the_exam_takes_a_seeded_window_of_a_long_text(tiny_checkpoint: Checkpoint, monkeypatch):
    corpus = Corpus([[f"you are {'romeo ' * (i % 3)}" for i in range(230)]])
    result = exam(tiny_checkpoint, corpus)
    first, last = result.window
    assert last - first + 1 == 200
    assert result.pairs.asked == 200 * 200
    monkeypatch.setattr("bert_core.probes.sentence_pairs.EXAM_SENTENCES", 20)
    result = exam(tiny_checkpoint, corpus, seed=3)
    assert exam(tiny_checkpoint, corpus, seed=3) == result
    assert exam(tiny_checkpoint, corpus, seed=4).window != result.window


def test_a_small_probe_takes_one_processor_thread_and_leaves_the_number_as_it_was(tiny_checkpoint):
    seen = []
    tiny_checkpoint.model.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        fill_mask(tiny_checkpoint, "hello [MASK]")
        word_scores(tiny_checkpoint, [([2, 6, 3], [0, 0, 0])], [[1]], lambda number, scores: scores)
        assert (seen, torch.get_num_threads()) == ([1, 1], 3)
    finally:
        torch.set_num_threads(before)
    base = BertConfig(
        vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072
    )
    lengths = torch.tensor([64])
    assert Cost(base, lengths, 1, "cpu", is_step=False).threads == processor_cores()
    assert Cost(tiny_checkpoint.config, lengths, 1, "cpu", is_step=False).threads == 1


def test_a_large_probe_takes_all_cores_after_a_small_training(tiny_checkpoint, dialogue, monkeypatch):
    """A new thread begins with the number of threads that any thread set last, such as a training thread's one."""
    monkeypatch.setattr(device, "processor_cores", lambda: 3)
    monkeypatch.setattr(device, "_SMALL", 0)
    data, seen = DataConfig(batch_size=4, sequence_length=17), []
    tiny_checkpoint.model.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(1) as training:
            training.submit(torch.set_num_threads, 1).result()
        with ThreadPoolExecutor(1) as probing:
            probing.submit(fill_mask, tiny_checkpoint, "hello [MASK]").result()
            probing.submit(examine, tiny_checkpoint, dialogue, data).result()
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {3}


class OnDevice(torch.Tensor):
    """A tensor on a device without float64: what is computed from it is there too, until `cpu()`."""

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        kinds = (*arguments, *(named or {}).values())
        if function is torch.Tensor.double or any(each is torch.float64 for each in kinds):
            raise TypeError("This device has no float64.")
        found = super().__torch_function__(function, types, arguments, named or {})
        if function in (torch.Tensor.cpu, torch.Tensor.numpy, torch.Tensor.tolist):
            return found.as_subclass(torch.Tensor) if isinstance(found, torch.Tensor) else found
        return found


@pytest.fixture
def there(tiny_checkpoint):
    """A checkpoint on such a device."""
    model = copy.deepcopy(tiny_checkpoint.model)
    there = {name: each.data.as_subclass(OnDevice) for name, each in model.named_parameters()}
    model.requires_grad_(False).load_state_dict(there, assign=True)
    return dataclasses.replace(tiny_checkpoint, module=model)


def test_no_probe_asks_a_device_without_float64_for_it(there, tiny_checkpoint):
    with pytest.raises(TypeError):
        there.model.bert.pooler.dense.weight.double()
    texts = "hello how are you", "i am romeo"
    corpus = Corpus([[*texts, "my name is juliet", "thank you romeo"]])
    encoded = encode_corpus(corpus, tiny_checkpoint.tokenizer)
    probes = [
        lambda each: head_names(each, *texts),
        lambda each: above_chance(attention(each, *texts)).tolist(),
        lambda each: ablation_map(each, *texts, position=2, batch=corpus_batch(each, corpus, rows=3)).changes,
        lambda each: fill_mask(each, "hello [MASK] are you"),
        lambda each: layer_lens(each, "hello [MASK] are you").ranks.tolist(),
        lambda each: next_sentence(each, *texts),
        lambda each: encode(each, *texts).states.tolist(),
        lambda each: words_in_contexts(each, "romeo", ["i am romeo", "hello romeo"]).cosine.tolist(),
        lambda each: exam(each, corpus),
        lambda each: examine_part(each, encoded, encoded, 17).words,
        lambda each: examine(each, corpus, DataConfig(batch_size=3, sequence_length=17)),
        lambda each: follow(each, *texts, layer=1, position=2).pair,
    ]
    for probe in probes:
        probe(there)
