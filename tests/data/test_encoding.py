"""A text becomes token ids: each sentence as the tokenizer reads it."""

import itertools
import random

import numpy as np
import pytest

from bert_core.data import encoding as encoding_module
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus, mix, text_hashes
from bert_core.data.tokenizer import plain, train_tokenizer


def test_sentences_of_the_same_tokens_have_the_same_hash():
    ids = np.array([1, 2, 3, 1, 2, 3, 2, 1, 3, 0, 1, 1], np.uint8)
    lengths = np.array([3, 3, 3, 1, 1, 1])
    a, b, other_order, zero, one, same = text_hashes(ids, lengths)
    assert (a == b, one == same) == (True, True)
    assert len({a, other_order, zero, one}) == 4
    assert text_hashes(ids[:0], lengths[:0]).tolist() == []
    # Reference values of SplitMix64 started at 0, as published with it.
    assert [f"{n:x}" for n in mix(np.array([0], np.uint64))] == ["e220a8397b1dcdaf"]


@pytest.mark.parametrize("kind", ["word", "wordpiece", "bpe"])
def test_ids_of_cached_words_are_those_of_the_whole_sentence(monkeypatch, kind):
    monkeypatch.setattr(encoding_module, "_ENCODED_AT_ONCE", 2)
    monkeypatch.setattr(encoding_module, "_MOST_CACHED", 3)
    sentences = (
        "ΟΔΟΣ ΣΑΣ, «Οδός»  İstanbul!",
        "日本 語です。 naïve-é é́ ca­fe\u200b no\u00a0break",
        "[MASK] [SEP]x don't 3.14 😀👍🏽 \u2028 end",
        "... --- ...",
        "a a  a   a",
    )
    corpus = Corpus([sentences, sentences[::-1]])
    tokenizer = train_tokenizer(corpus, kind=kind, vocab_size=150)
    encoded = encode_corpus(corpus, tokenizer)
    tokenizer.encode_special_tokens = True
    whole = [tokenizer.encode(sentence, add_special_tokens=False).ids for sentence in corpus.sentences]
    whole = [ids for ids in whole if ids]
    assert encoded.lengths.tolist() == [len(ids) for ids in whole]
    assert encoded.ids.tolist() == list(itertools.chain.from_iterable(whole))


def test_no_call_holds_more_than_a_group_of_words(monkeypatch):
    """While words become Python objects, no other thread runs; a pair stays in one group."""
    calls = []

    class Counting:
        def __init__(self, tokenizer):
            self._tokenizer = plain(tokenizer)

        def encode_batch_fast(self, words, **options):
            calls.append(sum(map(len, words)))
            return self._tokenizer.encode_batch_fast(words, **options)

    monkeypatch.setattr(encoding_module, "_CHARACTERS_AT_ONCE", 1_000)
    draw, words = random.Random(0), [f"{number:06}" for number in range(1_500)]
    lines = [tuple(words[start : start + draw.randrange(1, 30)]) for start in range(0, len(words), 30)]
    corpus = Corpus([[" ".join(line) for line in lines]])
    tokenizer = train_tokenizer(corpus)
    whole = encode_corpus(corpus, tokenizer)
    monkeypatch.setattr(encoding_module, "plain", Counting)
    assert encode_corpus(corpus, tokenizer).ids.tolist() == whole.ids.tolist()
    assert sum(calls) == sum(len(word) for line in lines for word in line)
    assert max(calls) <= 1_000 + 2 * 30 * 6
    assert {len(group) % 2 for group in list(encoding_module._groups(corpus.sentences))[:-1]} == {0}
