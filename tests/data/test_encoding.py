"""A text becomes token ids: each sentence as the tokenizer reads it."""

import itertools

import pytest

from bert_core.data import encoding as encoding_module
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IS_NEXT, NOT_NEXT, encode_corpus
from bert_core.data.tokenizer import train_tokenizer


def test_sentences_of_the_same_tokens_have_the_same_hash():
    sentences = ["a b c", "A, b c!", "b a c", "a b", "a", "a a", "aa"]
    corpus = Corpus([sentences])
    texts = encode_corpus(corpus, train_tokenizer(corpus)).hashes.tolist()
    assert texts[0] == texts[1]
    assert len(set(texts)) == len(sentences) - 1


@pytest.mark.parametrize("kind", ["word", "wordpiece", "bpe"])
def test_a_sentence_is_read_in_training_as_it_is_when_a_person_asks(monkeypatch, kind):
    monkeypatch.setattr(encoding_module, "_ENCODED_AT_ONCE", 2)
    sentences = [
        "il vient ; elle part",
        "ΟΔΟΣ ΣΑΣ, «Οδός»  İstanbul! Πού ; Πού;",
        "日本 語です。 naïve-é é́ ca­fe\u200b no\u00a0break",
        "[MASK] [SEP]x don't 3.14 -5 😀👍🏽 \u2028 end",
        "... --- ...",
        "a a  a   a",
    ]
    corpus = Corpus([sentences, sentences[::-1]])
    tokenizer = train_tokenizer(corpus, kind=kind, vocab_size=150)
    encoded = encode_corpus(corpus, tokenizer)
    tokenizer.encode_special_tokens = True
    whole = [tokenizer.encode(sentence, add_special_tokens=False) for sentence in corpus.sentences]
    ids = [each.ids for each in whole if each.ids]
    assert kind != "word" or (whole[0].tokens[2], len(ids)) == (";", 10)
    assert encoded.lengths.tolist() == list(map(len, ids))
    assert encoded.ids.tolist() == list(itertools.chain.from_iterable(ids))


def test_sentences_and_documents_without_a_token_are_left_out_and_pairs_as_a_whole():
    documents = [["...", "a"], ["!", "?"], ["b c", "...", "d"]]
    tokenizer = train_tokenizer(Corpus(documents))
    encoded = encode_corpus(Corpus(documents), tokenizer)
    assert (encoded.offsets.tolist(), encoded.document_offsets.tolist()) == ([0, 1, 3, 4], [0, 1, 3])
    assert encoded.has_next.tolist() == [False, True, False]
    pairs = Corpus([["...", "a"], ["b", "c"], ["d", "a"]], labels=[True, True, False])
    encoded = encode_corpus(pairs, tokenizer)
    assert (encoded.document_offsets.tolist(), encoded.pair_labels.tolist()) == ([0, 2, 4], [IS_NEXT, NOT_NEXT])
    assert len(encode_corpus(Corpus([["..."]]), tokenizer)) == 0
