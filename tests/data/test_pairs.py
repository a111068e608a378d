"""Which sentences stand together: no label from one side alone, texts that leave few pairs, packed segments."""

import itertools
import re
from collections import namedtuple

import numpy as np
import pytest
import torch

from bert_core.config import DataConfig
from bert_core.data.batches import OUTSIDE, PairSampler, PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IGNORED, IS_NEXT, NOT_NEXT, encode_corpus
from bert_core.data.tokenizer import train_tokenizer
from bert_core.errors import ConfigError, CorpusError


def make_sampler(documents, *, needs_pairs=True, seed=0, **settings):
    corpus = Corpus([list(document) for document in documents])
    encoded = encode_corpus(corpus, train_tokenizer(corpus))
    return PairSampler(encoded, DataConfig(**settings), seed, needs_pairs)


Pairs = namedtuple("Pairs", "start_a end_a start_b end_b label")


def drawn(sampler, steps):
    """The pairs of the first steps, with the maximum length of the settings."""
    longest = np.full(steps, sampler.config.sequence_length)
    sides, label = sampler.draw(np.arange(steps), longest, np.random.default_rng(3))
    return Pairs(*sides, label)


def accuracy_from(sentences, labels):
    """How many labels of the second half are guessed by the commonest label of the same sentence in the first half."""
    half = len(labels) // 2
    counts = np.zeros((sentences.max() + 1, 2))
    np.add.at(counts, (sentences[:half], labels[:half]), 1)
    return (counts.argmax(1)[sentences[half:]] == labels[half:]).mean()


def many(documents, sentences):
    return [[f"a{d} b{s}" for s in range(sentences)] for d in range(documents)]


@pytest.mark.parametrize(
    "documents",
    [
        many(60, 2),
        many(24, 5),
        many(1, 9),
        [[f"what is a{i}", f"it is b{i % 40} c{i}"] for i in range(60)],  # questions and answers
        [["yes", f"a{i}", "no", f"b{i}"] for i in range(20)],
    ],
)
def test_one_side_alone_does_not_show_the_label(documents):
    pairs = drawn(make_sampler(documents, batch_size=32), 2000)
    assert accuracy_from(pairs.start_a, pairs.label) == pytest.approx(0.5, abs=0.02)
    assert accuracy_from(pairs.start_b, pairs.label) == pytest.approx(0.5, abs=0.02)


def test_a_last_sentence_is_a_seldom_and_a_first_one_b_as_seldom():
    sampler = make_sampler(many(10, 4), batch_size=50)
    pairs = drawn(sampler, 1000)
    has_next = sampler.encoded.has_next
    is_outside = ~has_next[pairs.start_a] | ~np.concatenate([[False], has_next[:-1]])[pairs.start_b]
    assert (pairs.label[is_outside] == NOT_NEXT).all()
    assert is_outside.mean() == pytest.approx(OUTSIDE, abs=0.002)


@pytest.mark.parametrize("segments", ["sentences", "packed"])
def test_swapped_pairs_are_neighbours_in_the_wrong_order(segments):
    settings = {"segments": segments, "sequence_length": 17, "batch_size": 10}
    sampler = make_sampler(many(12, 7), negatives="swapped", **settings)
    pairs = drawn(sampler, 300)
    swapped = pairs.label == NOT_NEXT
    assert swapped.mean() == pytest.approx(0.5, abs=0.05)
    assert (pairs.end_b[swapped] == pairs.start_a[swapped]).all()
    assert (pairs.end_a[~swapped] == pairs.start_b[~swapped]).all()
    if segments == "sentences":  # all pairs of neighbours occur in both orders
        for label, of in ((IS_NEXT, pairs.start_a), (NOT_NEXT, pairs.start_b)):
            assert set(of[pairs.label == label]) == set(np.flatnonzero(sampler.encoded.has_next))


def test_sentences_that_follow_each_other_in_both_orders_are_never_a_swapped_pair():
    documents = [["ping a", "pong b", "ping a", "pong b", "one c", "two d", "one c one"]]
    pairs = drawn(make_sampler(documents, negatives="swapped", batch_size=8), 300)
    texts = np.array(documents[0])
    found = set(zip(texts[pairs.start_a[pairs.label == NOT_NEXT]], texts[pairs.start_b[pairs.label == NOT_NEXT]]))
    true = set(itertools.pairwise(documents[0]))
    assert not found & true
    assert ("two d", "one c") in found
    assert any(pair[::-1] not in true for pair in found), "where the order says nothing, B is from elsewhere"


def brute_force(documents, longest):
    """The texts of all IsNext pairs and of all NotNext pairs that fit."""
    true = {pair for document in documents for pair in itertools.pairwise(document)}
    size = {sentence: len(sentence.split()) for document in documents for sentence in document}
    fits = {(a, b) for a, b in itertools.product(size, repeat=2) if size[a] + size[b] <= longest}
    return true & fits, fits - true


@pytest.mark.parametrize("rule", ["crop", "drop"])
def test_a_text_of_few_different_sentences_gives_right_pairs_or_is_refused(rule):
    refused = 0
    for seed in range(60):
        draw = np.random.default_rng(seed)
        words = ["x", "y", "x y", "z x y", "x x x x", "z z z z z z"][: draw.integers(1, 7)]
        documents = [list(draw.choice(words, draw.integers(1, 9))) for _ in range(draw.integers(1, 4))]
        positives, negatives = brute_force(documents, 5 if rule == "drop" else 99)
        try:
            sampler = make_sampler(documents, batch_size=6, sequence_length=8, long_pairs=rule)
        except CorpusError:
            refused += 1
            has_both = {a for a, _ in positives} & {a for a, _ in negatives}
            assert not has_both, "refused although an A has both kinds of B"
            continue
        sentences = [sentence for document in documents for sentence in document]
        pairs = drawn(sampler, 20)
        for a, b, label in zip(pairs.start_a, pairs.start_b, pairs.label):
            assert label == IGNORED or (sentences[a], sentences[b]) in (positives if label == IS_NEXT else negatives)
        assert (pairs.label == IS_NEXT).mean() == 0.5
    assert 5 < refused < 55


def test_pairs_that_fit_are_all_alike():
    with pytest.raises(CorpusError, match="two different sentences"):
        make_sampler([["x y"] * 5 + ["a b c d e f g h"]], sequence_length=8, long_pairs="drop")


def test_where_all_sentences_follow_nothing_is_asked():
    """All follow "a" but "c": hardly a draw finds it. Nothing is asked of the other pairs, which stay neighbours."""
    sampler = make_sampler([["a"] * 3000 + ["b", "c"]], batch_size=32)
    [note] = sampler.notes
    assert re.fullmatch(r"For \d+% of the sentences no other was found that never follows them, .*", note)
    pairs = drawn(sampler, 10)
    ignored = pairs.label == IGNORED
    assert 0.3 < ignored.mean() <= 0.5
    assert (pairs.start_b[ignored] == pairs.start_a[ignored] + 1).all()
    assert (pairs.label == IS_NEXT).mean() == 0.5


def test_a_text_of_blank_lines_says_how_few_pairs_it_has():
    documents = [[f"a{i} b"] for i in range(398)] + [["c d", "e f"]]
    [note] = make_sampler(documents).notes
    assert note.startswith("Only 1 of the 400 sentences have a next one in their document, so next sentence")
    assert make_sampler(documents, needs_pairs=False).notes == ()
    assert make_sampler(many(9, 2)).notes == ()


@pytest.mark.parametrize(("rule", "lost"), [("crop", "lose their ends"), ("drop", "are left out")])
def test_pairs_that_are_too_long_are_counted(rule, lost):
    documents = [["a b c", "d e", "f g h i", "j", "k l"]]
    said = make_sampler(documents, sequence_length=8, long_pairs=rule).notes[0]
    assert said == f"1 of the 4 pairs of neighbours have more than 8 tokens and {lost}."
    assert make_sampler(documents, sequence_length=9, long_pairs=rule).notes == ()


def test_a_question_whose_answers_are_all_alike_has_other_questions_as_negatives():
    pairs = drawn(make_sampler([[f"is it a{i}", "yes"] for i in range(9)], batch_size=8), 50)
    assert (pairs.start_b[(pairs.label == NOT_NEXT)] % 2 == 0).mean() > 0.9


# --- Packed segments --------------------------------------------------------------------------------------------------


def packed(documents=30, sentences=40, **settings):
    draw = np.random.default_rng(1)
    texts = [[" ".join([f"s{d}x{s}"] * draw.integers(1, 9)) for s in range(sentences)] for d in range(documents)]
    return make_sampler(texts, segments="packed", **{"batch_size": 16, "sequence_length": 67, **settings})


def test_packed_segments_are_consecutive_sentences_cut_at_a_sentence():
    sampler = packed()
    offsets, pairs = sampler.encoded.offsets, drawn(sampler, 200)
    is_next = pairs.label == IS_NEXT
    assert is_next.mean() == 0.5
    assert (pairs.start_b == pairs.end_a)[is_next].all()
    assert not (pairs.start_b == pairs.end_a)[~is_next].any()
    for start, end in ((pairs.start_a, pairs.end_a), (pairs.start_b, pairs.end_b)):
        assert (end > start).all()
        assert (start // 40 == (end - 1) // 40).all(), "a segment stays in its document"
    tokens = (offsets[pairs.end_a] - offsets[pairs.start_a]) + (offsets[pairs.end_b] - offsets[pairs.start_b])
    for kind in (is_next, ~is_next):
        assert (tokens[kind] >= 64).mean() == pytest.approx(0.9, abs=0.03)
    # The cut is at any sentence: a side has one sentence about as often as it has all but one.
    a, whole = (pairs.end_a - pairs.start_a)[is_next], (pairs.end_b - pairs.start_a)[is_next]
    assert ((a - 0.5) / (whole - 1)).mean() == pytest.approx(0.5, abs=0.02)
    for side in (pairs.start_a, pairs.start_b):
        assert accuracy_from(side // 40, pairs.label) == pytest.approx(0.5, abs=0.05)


def test_packed_pairs_fill_their_length_early_and_late_in_a_run():
    documents = [[" ".join(["w"] * 5 + [f"s{d}x{s}"]) for s in range(60)] for d in range(9)]
    corpus = Corpus(list(map(tuple, documents)))
    tokenizer = train_tokenizer(corpus)
    config = DataConfig(segments="packed", batch_size=7, sequence_length=96, short_length=32)
    batches = PretrainingBatches(encode_corpus(corpus, tokenizer), tokenizer, config, seed=2)
    batches.short_steps = 30
    in_order = [batches[k] for k in range(60)]
    for part, length in ((in_order[:30], 32), (in_order[30:], 96)):
        filled = torch.cat([batch.attention_mask.sum(1) for batch in part]).double() / length
        assert filled.max() == 1
        assert filled.mean() > 0.9
        assert (filled < 1).double().mean() == pytest.approx(0.1, abs=0.07)
    again = PretrainingBatches(batches.encoded, tokenizer, config, seed=2)
    again.short_steps = 30
    for k in (59, 29, 30, 0):
        assert torch.equal(again[k].input_ids, in_order[k].input_ids)


def test_a_short_document_is_packed_whole_and_a_long_sentence_is_cropped():
    sampler = make_sampler(
        [["a b", "c d", "e"], ["f " * 90, "g " * 90], ["h"]], segments="packed", batch_size=8, sequence_length=32
    )
    pairs = drawn(sampler, 100)
    is_next = pairs.label == IS_NEXT
    assert set(zip(pairs.start_a[is_next], pairs.end_b[is_next])) >= {(0, 3), (3, 5)}
    assert 5 not in pairs.start_a


def test_packed_pairs_are_cropped_never_dropped():
    with pytest.raises(ConfigError, match="use crop"):
        DataConfig(segments="packed", long_pairs="drop")


# --- Without next sentence prediction ---------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", ["sentences", "packed"])
def test_documents_of_one_sentence_train_without_pairs(segments):
    corpus = Corpus([["one a"], ["two b"], ["three c d"]])
    tokenizer = train_tokenizer(corpus)
    encoded = encode_corpus(corpus, tokenizer)
    with pytest.raises(CorpusError, match="no two neighbours"):
        PretrainingBatches(encoded, tokenizer, DataConfig(segments=segments))
    batches = PretrainingBatches(encoded, tokenizer, DataConfig(batch_size=6, segments=segments), needs_pairs=False)
    assert batches.steps_per_epoch == 0.5
    batch = batches[0]
    assert sorted(batch.attention_mask.sum(1).tolist()) == [4, 4, 4, 4, 5, 5]
    assert not batch.token_type_ids.any()
    assert (batch.next_sentence_label == IGNORED).all()
    sep = tokenizer.token_to_id("[SEP]")
    assert ((batch.input_ids == sep).sum(1) == 1).all()


def test_without_pairs_every_sentence_is_used_and_neighbours_stay_pairs():
    pairs = drawn(make_sampler([["a"], ["b", "c", "d"], ["e"]], needs_pairs=False, batch_size=10), 100)
    alone = pairs.start_b == pairs.end_b
    assert set(pairs.start_a[alone]) == {0, 3, 4}
    assert set(pairs.start_a[pairs.label == IS_NEXT]) == {1, 2}
    assert (pairs.start_b == pairs.start_a + 1)[pairs.label == IS_NEXT].all()
    assert (pairs.label[alone] == IGNORED).all()
    assert (~alone & (pairs.label == NOT_NEXT)).any()
