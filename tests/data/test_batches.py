"""Pairs, truncation and masking: rules for every batch, and statistics over many."""

import itertools

import numpy as np
import pytest
import torch

from bert_core.config import DataConfig
from bert_core.data.batches import IGNORED, PretrainingBatches, truncated_lengths
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IS_NEXT, NOT_NEXT, encode_corpus
from bert_core.data.tokenizer import MASK, PAD, SPECIAL_TOKENS, special_ids, train_tokenizer
from bert_core.errors import CorpusError

LETTERS = [f"w{i}" for i in range(60)]


def make_corpus(n_documents=5, n_sentences=7, longest=9, seed=0) -> Corpus:
    """Documents of sentences in which every sentence is a different text."""
    rng = np.random.default_rng(seed)
    numbers = itertools.count()
    documents = tuple(
        tuple(
            " ".join([f"s{next(numbers)}", *rng.choice(LETTERS, rng.integers(1, longest))]) for _ in range(n_sentences)
        )
        for _ in range(n_documents)
    )
    return Corpus(documents)


def make_batches(corpus=None, *, seed=0, **settings):
    corpus = corpus or make_corpus()
    tokenizer = train_tokenizer(corpus)
    encoded = encode_corpus(corpus, tokenizer)
    return PretrainingBatches(encoded, tokenizer, DataConfig(**settings), seed=seed), tokenizer, corpus


def halves(batch, row, tokenizer):
    """The ids of both sides of a pair, as they were before masking."""
    original = torch.where(batch.labels[row] == IGNORED, batch.input_ids[row], batch.labels[row]).tolist()
    sep = tokenizer.token_to_id("[SEP]")
    first_end = original.index(sep)
    second_end = original.index(sep, first_end + 1)
    return original[1:first_end], original[first_end + 1 : second_end]


def test_a_copy_has_the_same_batches():
    batches, *_ = make_batches(batch_size=13, sequence_length=37)
    last = batches[45]
    for field in ("input_ids", "labels", "next_sentence_label"):
        assert torch.equal(getattr(batches.copy()[45], field), getattr(last, field))


def test_a_batch_has_the_layout_that_bert_reads():
    batches, tokenizer, _ = make_batches(batch_size=13, sequence_length=37)
    ids = special_ids(tokenizer)
    for k in range(20):
        batch = batches[k]
        B, T = batch.input_ids.shape
        assert B == 13
        assert batch.attention_mask.sum(1).max() == T  # trimmed to the longest pair
        for name in ("input_ids", "token_type_ids", "attention_mask", "labels"):
            assert getattr(batch, name).shape == (B, T)
            assert getattr(batch, name).dtype == torch.int64
        assert batch.next_sentence_label.shape == (B,)
        for row in range(B):
            length = int(batch.attention_mask[row].sum())
            tokens = batch.input_ids[row].tolist()
            assert batch.attention_mask[row].tolist() == [1] * length + [0] * (T - length)
            assert tokens[0] == ids["[CLS]"]
            assert tokens[length - 1] == ids["[SEP]"]
            assert tokens[:length].count(ids["[SEP]"]) == 2
            assert tokens[length:] == [ids["[PAD]"]] * (T - length)
            first = tokens.index(ids["[SEP]"]) + 1
            expected = [0] * first + [1] * (length - first) + [0] * (T - length)
            assert batch.token_type_ids[row].tolist() == expected


def test_every_step_draws_new_pairs_and_new_masks():
    batches, _, _ = make_batches(batch_size=6)
    seen = {batches[k].input_ids.numpy().tobytes() for k in range(50)}
    assert len(seen) == 50


def test_a_batch_is_a_function_of_seed_and_step():
    batches, _, _ = make_batches(batch_size=7, seed=5)
    again, _, _ = make_batches(batch_size=7, seed=5)
    other, _, _ = make_batches(batch_size=7, seed=6)
    in_order = [batches[k] for k in range(300)]
    for k in (299, 0, 150, 151, 80):
        assert torch.equal(again[k].input_ids, in_order[k].input_ids)
        assert torch.equal(again[k].labels, in_order[k].labels)
        assert other[k].input_ids.shape != in_order[k].input_ids.shape or not torch.equal(
            other[k].input_ids, in_order[k].input_ids
        )


def test_drawing_batches_leaves_the_global_generators_alone():
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    make_batches()[0][3]
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)


@pytest.mark.parametrize("batch_size", [1, 6, 13])
def test_half_of_each_batch_is_is_next(batch_size):
    batches, _, _ = make_batches(batch_size=batch_size)
    counts = [int((batches[k].next_sentence_label == IS_NEXT).sum()) for k in range(200)]
    assert set(counts) <= {batch_size // 2, -(-batch_size // 2)}
    assert sum(counts) == 100 * batch_size


def test_labels_show_whether_the_second_sentence_follows_the_first():
    batches, tokenizer, corpus = make_batches(batch_size=16, sequence_length=64)
    encoded = {s: tuple(tokenizer.encode(s, add_special_tokens=False).ids) for s in corpus.sentences}
    true_pairs = {(encoded[a], encoded[b]) for document in corpus.documents for a, b in itertools.pairwise(document)}
    for k in range(300):
        batch = batches[k]
        for row, label in enumerate(batch.next_sentence_label.tolist()):
            first, second = halves(batch, row, tokenizer)
            assert (label == IS_NEXT) == ((tuple(first), tuple(second)) in true_pairs)


def test_a_repeated_sentence_never_makes_a_true_pair_negative():
    # "yes" occurs twice; a sentence that follows either of them follows "yes".
    corpus = Corpus([["are you there", "yes", "good", "are you well", "yes", "fine"]])
    batches, tokenizer, _ = make_batches(corpus, batch_size=8)
    follows = set(itertools.pairwise(corpus.sentences))
    for k in range(200):
        batch = batches[k]
        for row, label in enumerate(batch.next_sentence_label.tolist()):
            pair = tuple(" ".join(tokenizer.id_to_token(i) for i in side) for side in halves(batch, row, tokenizer))
            assert (label == NOT_NEXT) == (pair not in follows)


def test_every_sentence_that_has_a_next_is_first_equally_often():
    corpus = make_corpus(n_documents=1, n_sentences=41)
    batches, tokenizer, _ = make_batches(corpus, batch_size=8)
    counts = dict.fromkeys(range(41), 0)
    names = {tokenizer.token_to_id(f"s{i}"): i for i in range(41)}
    for k in range(5 * 40):  # 40 passes of 40 sentences
        batch = batches[k]
        for row in range(8):
            counts[names[halves(batch, row, tokenizer)[0][0]]] += 1
    assert counts.pop(40) <= 20
    assert min(counts.values()) >= 36
    assert max(counts.values()) <= 40
    assert batches.steps_per_epoch == 5


@pytest.mark.parametrize(("probability", "most"), [(0.15, 20), (0.4, 3), (0.01, 20)])
def test_the_number_of_asked_tokens(probability, most):
    batches, _, _ = make_batches(batch_size=16, mask_probability=probability, max_predictions=most)
    for k in range(40):
        batch = batches[k]
        wanted = np.rint(batch.attention_mask.sum(1).numpy() * probability).clip(1, most)
        assert (batch.labels != IGNORED).sum(1).tolist() == wanted.tolist()


def test_special_tokens_and_padding_are_never_asked():
    batches, tokenizer, _ = make_batches(batch_size=16, mask_probability=0.9, max_predictions=99)
    special = list(special_ids(tokenizer).values())
    for k in range(40):
        labels = batches[k].labels
        assert not np.isin(labels[labels != IGNORED].numpy(), special).any()
        assert (labels[batches[k].attention_mask == 0] == IGNORED).all()


def asked_tokens(batches, tokenizer, number):
    shown, labels = [], []
    for batch in batches:
        asked = batch.labels != IGNORED
        shown.append(batch.input_ids[asked])
        labels.append(batch.labels[asked])
        if sum(map(len, shown)) >= number:
            break
    return torch.cat(shown).numpy(), torch.cat(labels).numpy()


def test_eighty_ten_ten():
    corpus = make_corpus(n_documents=40, n_sentences=20, longest=30)
    batches, tokenizer, _ = make_batches(corpus, batch_size=64, sequence_length=64, mask_probability=0.3)
    shown, labels = asked_tokens(batches, tokenizer, 100_000)
    masked = shown == tokenizer.token_to_id(MASK)
    kept = shown == labels
    words = tokenizer.get_vocab_size() - len(SPECIAL_TOKENS)
    # One random word in `words` is the original one, so slightly more than 10 % seem unchanged.
    assert masked.mean() == pytest.approx(0.8, abs=0.005)
    assert kept.mean() == pytest.approx(0.1 + 0.1 / words, abs=0.005)
    assert (~masked & ~kept).mean() == pytest.approx(0.1, abs=0.005)


def test_a_random_replacement_is_a_word_and_any_word():
    batches, tokenizer, _ = make_batches(
        batch_size=64, mask_share=0.0, random_share=1.0, mask_probability=0.5, max_predictions=99
    )
    shown, _ = asked_tokens(batches, tokenizer, 30_000)
    words = set(range(tokenizer.get_vocab_size())) - set(special_ids(tokenizer).values())
    counts = np.bincount(shown, minlength=tokenizer.get_vocab_size())
    assert set(np.flatnonzero(counts)) == words
    expected = len(shown) / len(words)
    chi_squared = ((counts[sorted(words)] - expected) ** 2 / expected).sum()
    assert chi_squared < len(words) + 5 * (2 * len(words)) ** 0.5


def test_masked_positions_are_spread_evenly():
    corpus = Corpus([[" ".join(f"w{i}{j}" for j in range(8)) for i in range(9)]])
    batches, _, _ = make_batches(corpus, batch_size=64)
    counts = sum((batches[k].labels != IGNORED).sum(0).numpy() for k in range(300))
    words = np.delete(counts, [0, 9, 18])
    assert counts[[0, 9, 18]].sum() == 0
    assert words.min() > 0.9 * words.mean()
    assert words.max() < 1.1 * words.mean()


def test_lengths_after_truncation_are_those_of_googles_code():
    def one_by_one(a, b, room):
        while a + b > room:
            a, b = (a - 1, b) if a > b else (a, b - 1)
        return a, b

    for a, b, room in itertools.product(range(1, 15), range(1, 15), range(2, 30)):
        got = truncated_lengths(np.array([a]), np.array([b]), room)
        assert (int(got[0][0]), int(got[1][0])) == one_by_one(a, b, room)


def test_a_long_pair_loses_tokens_from_both_ends_of_its_longer_side():
    sentences = (" ".join(f"a{i}" for i in range(30)), "b0 b1", " ".join(f"c{i}" for i in range(30)))
    batches, tokenizer, _ = make_batches(Corpus([sentences]), batch_size=8, sequence_length=16)
    fronts = set()
    for k in range(100):
        batch = batches[k]
        assert batch.input_ids.shape[1] <= 16
        for row in range(8):
            for side in halves(batch, row, tokenizer):
                words = [tokenizer.id_to_token(i) for i in side]
                assert words
                numbers = [int(word[1:]) for word in words]
                assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))  # one unbroken part
                if words[0][0] == "a" and len(words) < 30:
                    fronts.add(numbers[0])
    assert min(fronts) < 8
    assert max(fronts) > 8


def test_special_tokens_in_a_text_are_words_like_any_other():
    corpus = Corpus([["say [MASK] now", "what [SEP] then", "[CLS] [PAD] good"]])
    tokenizer = train_tokenizer(corpus)
    encoded = encode_corpus(corpus, tokenizer)
    hidden = [tokenizer.token_to_id(token) for token in ("[MASK]", "[SEP]", "[CLS]", PAD)]
    assert not np.isin(encoded.ids, hidden).any()


def test_sentences_without_a_word_are_left_out():
    corpus = Corpus([["one two", "...", "three four"]])
    encoded = encode_corpus(corpus, train_tokenizer(corpus))
    assert encoded.lengths.tolist() == [2, 2]
    assert encoded.has_next.tolist() == [True, False]


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ((("a single sentence",),), "no two neighbours"),
        ((("one document",), ("another document",)), "no two neighbours"),
        ((("all alike", "all alike", "all alike"),), "two different"),
    ],
)
def test_a_text_without_both_kinds_of_pairs_is_refused(documents, message):
    with pytest.raises(CorpusError, match=message):
        make_batches(Corpus(documents))


@pytest.mark.parametrize("n", [2, 3])
def test_the_smallest_text_works(n):
    batches, _, _ = make_batches(Corpus([[f"x{i} y{i}" for i in range(n)]]), batch_size=3)
    for k in range(50):
        assert batches[k].input_ids.shape[0] == 3


def test_one_draw_decides_for_a_whole_batch():
    fractions = {"mask_share": 0.7, "random_share": 0.15, "draw": "batch"}
    batches, tokenizer, _ = make_batches(batch_size=4, mask_probability=0.3, **fractions)
    mask, counts = tokenizer.token_to_id(MASK), {"masked": 0, "kept": 0, "random": 0}
    for k in range(3000):
        batch = batches[k]
        asked = batch.labels != IGNORED
        shown, labels = batch.input_ids[asked], batch.labels[asked]
        if (shown == mask).any():
            assert (shown == mask).all()
            counts["masked"] += 1
        else:
            counts["kept" if (shown == labels).all() else "random"] += 1
    assert counts["masked"] / 3000 == pytest.approx(0.7, abs=0.03)
    assert counts["kept"] / 3000 == pytest.approx(0.15, abs=0.03)


def test_min_predictions_is_the_least_number_of_asked_tokens():
    batches, _, _ = make_batches(batch_size=8, mask_probability=0.01, min_predictions=2)
    assert {n for k in range(20) for n in (batches[k].labels != IGNORED).sum(1).tolist()} == {2}


def test_long_pairs_can_be_left_out():
    corpus = make_corpus(n_documents=10, n_sentences=10, longest=14)
    batches, tokenizer, _ = make_batches(corpus, batch_size=8, sequence_length=18, long_pairs="drop")
    sentences = {tuple(tokenizer.encode(s, add_special_tokens=False).ids) for s in corpus.sentences}
    for k in range(100):
        batch = batches[k]
        assert (batch.next_sentence_label == IS_NEXT).sum() == 4
        for row in range(8):
            for side in halves(batch, row, tokenizer):
                assert tuple(side) in sentences  # whole, never cropped
    with pytest.raises(CorpusError, match="fit into 8 tokens"):
        make_batches(Corpus([["a b c d e", "f g h i j"]]), long_pairs="drop", sequence_length=8)


def test_labelled_pairs_come_once_each_and_keep_their_own_balance():
    text = "\n".join(f"left{i} a\tright{i} b\t{int(i % 5 == 0)}" for i in range(30))
    corpus = Corpus.from_text(text + "\n...\tright\t1\n", "pairs")
    batches, tokenizer, _ = make_batches(corpus, batch_size=10, mask_probability=0.01, min_predictions=1)
    assert batches.steps_per_epoch == 3
    for start in range(0, 30, 3):
        seen = {}
        for k in range(start, start + 3):
            batch = batches[k]
            for row, label in enumerate(batch.next_sentence_label.tolist()):
                first, second = (tokenizer.id_to_token(side[0]) for side in halves(batch, row, tokenizer))
                assert first.removeprefix("left") == second.removeprefix("right")
                seen[int(first.removeprefix("left"))] = label
        assert seen == {i: IS_NEXT if i % 5 == 0 else NOT_NEXT for i in range(30)}
