"""Long texts are split and encoded once, stored in files and read in blocks; they give the same as short texts."""

import io
import itertools
import os
import random

import numpy as np
import pytest

from bert_core.config import DataConfig
from bert_core.data import corpus as corpus_module
from bert_core.data import decoding as decoding_module
from bert_core.data import encoding as encoding_module
from bert_core.data import text as text_module
from bert_core.data.batches import PretrainingBatches
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.data.decoding import decoded_blocks
from bert_core.data.encoding import encode_corpus, mix, text_hashes
from bert_core.data.tokenizer import plain, train_tokenizer
from bert_core.errors import CorpusError
from bert_core.machine import cache_folder
from bert_core.runs.prepare import prepare
from bert_core.runs.recipe import load_recipe

WORDS = [*(f"w{i}" for i in range(15)), "é", "木", "😀"]


@pytest.fixture
def few_bytes(monkeypatch, tmp_path):
    """Files of more than 100 bytes count as long, and blocks are so small that many are needed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(corpus_module, "IN_MEMORY_BYTES", 100)
    monkeypatch.setattr(text_module, "_AT_ONCE", 7)
    monkeypatch.setattr(encoding_module, "_ENCODED_AT_ONCE", 6)
    monkeypatch.setattr(decoding_module.decoded_blocks, "__defaults__", (None, 37))


def written(path, documents=9, seed=0, kind="lines"):
    """A text in which some sentences occur twice, and some have no word."""
    draw = random.Random(seed)

    def sentence():
        return draw.choice(["...", "oak pine.", " ".join(draw.choices(WORDS, k=draw.randint(1, 9))) + "."])

    breaks = {"lines": "\n", "documents": " "}[kind]
    path.write_text(
        "\n\n".join(breaks.join(sentence() for _ in range(draw.randint(1, 8))) for _ in range(documents)),
        encoding="utf-8",
    )
    return path


def same_text(stored, held):
    assert stored.sentences.folder is not None
    assert [tuple(document) for document in stored.documents] == list(held.documents)
    assert (list(stored.sentences), stored.notes, stored.name) == (list(held.sentences), held.notes, held.name)
    assert stored.fingerprint == held.fingerprint


@pytest.mark.parametrize("kind", ["lines", "documents"])
def test_a_long_file_has_the_sentences_of_a_short_one(few_bytes, tmp_path, kind):
    path = written(tmp_path / "long.txt", kind=kind)
    stored, held = read_corpus(path, kind=kind), Corpus.from_bytes(path.read_bytes(), kind, "long.txt")
    same_text(stored, held)
    n = len(held.sentences)
    for at in (0, 1, n // 2, n - 1, -1):
        assert stored.sentences[at] == held.sentences[at]
    assert list(stored.sentences[3:11][2:5]) == list(held.sentences[3:11][2:5])
    assert [list(document) for document in stored.documents[2:5]] == [list(each) for each in held.documents[2:5]]
    for index in (n, -n - 1):
        with pytest.raises(IndexError):
            stored.sentences[index]
    for ours, theirs in zip(stored.split(0.2, 0.3), held.split(0.2, 0.3)):
        assert [tuple(document) for document in ours.documents] == list(theirs.documents)
        assert [tuple(document) for document in ours.split(0.3)[1].documents] == list(theirs.split(0.3)[1].documents)
    assert list(stored.first(4).sentences) == list(held.first(4).sentences)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_character_may_continue_in_the_next_block(few_bytes, tmp_path, encoding):
    path = tmp_path / "long.txt"
    path.write_bytes(("Grüße, 世界 👍\nשלום\n\r\nnoch eins\r\n" + "ü😀 " * 40 + "\n").encode(encoding))
    same_text(read_corpus(path, kind="lines"), Corpus.from_bytes(path.read_bytes(), "lines", "long.txt"))


def test_pairs_and_one_long_document_are_stored_too(few_bytes, tmp_path):
    pairs = tmp_path / "pairs.txt"
    pairs.write_text("".join(f"left {i}\tright  {i}\t{i % 2}\n" for i in range(30)) + "\tnothing left\t1\n")
    stored, held = read_corpus(pairs, kind="pairs"), Corpus.from_bytes(pairs.read_bytes(), "pairs", "pairs.txt")
    same_text(stored, held)
    assert list(stored.labels) == list(held.labels)
    one = tmp_path / "one.txt"
    one.write_text("".join(f"sentence {i}\n" for i in range(40)))
    first, rest = read_corpus(one).split(0.25)
    assert (first.sentences[-1], rest.sentences[0], len(rest.documents)) == ("sentence 29", "sentence 30", 1)


@pytest.mark.parametrize(("wrong", "byte"), [(b"\x81", 300), (b"\x00", 300)])
def test_a_file_that_is_not_text_is_refused_with_the_byte_and_leaves_nothing(few_bytes, tmp_path, wrong, byte):
    path = tmp_path / "long.txt"
    path.write_bytes(("ü 123456\n" * 30).encode() + wrong + b"ab\n" * 50)
    with pytest.raises(CorpusError, match=rf"long\.txt is not plain text \(byte {byte}\)"):
        read_corpus(path, kind="lines")
    assert [*cache_folder().rglob("*.npy")] == []
    path.write_bytes(b"\n" * 200)
    with pytest.raises(CorpusError, match=r"long\.txt is empty"):
        read_corpus(path, kind="lines")


def test_a_file_is_read_in_blocks_of_whole_lines():
    class Counted(io.BytesIO):
        largest = 0

        def read(self, size=-1):
            self.largest = max(self.largest, size)
            return super().read(size)

    lines = [f"line {i} ä\n" * (1 + i % 3) for i in range(400)]
    file = Counted("".join(lines).encode())
    blocks = list(decoded_blocks(file, "x", [], size=64))
    assert "".join(blocks) == "".join(lines)
    assert all(block.endswith("\n") for block in blocks)
    assert max(map(len, blocks)) < 2 * 64
    assert file.largest == 64


def test_a_line_that_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(decoding_module, "MAX_LINE_BYTES", 2**20)
    with pytest.raises(CorpusError, match="a line of more than 1 MB"):
        list(decoded_blocks(io.BytesIO(b"word " * 10**6), "x", [], size=2**16))


def test_a_second_run_reads_the_stored_text_and_ids(few_bytes, tmp_path, monkeypatch):
    path = written(tmp_path / "long.txt")
    corpus = read_corpus(path, kind="lines")
    tokenizer = train_tokenizer(corpus)
    encoded = encode_corpus(corpus, tokenizer)
    monkeypatch.setattr(corpus_module.SentenceReader, "read", lambda *_: pytest.fail("the text was split again"))
    monkeypatch.setattr(encoding_module, "_encode", lambda *_: pytest.fail("the text was encoded again"))
    again = encode_corpus(read_corpus(os.fspath(path), kind="lines"), tokenizer)
    assert isinstance(again.ids.base, np.memmap)
    for name in ("ids", "offsets", "documents", "texts"):
        assert np.array_equal(getattr(again, name), getattr(encoded, name))
    assert again.unknown_share == encoded.unknown_share


@pytest.mark.parametrize("kind", ["word", "wordpiece", "bpe"])
def test_mapped_ids_give_the_same_batches_as_ids_in_memory(few_bytes, tmp_path, kind):
    path = written(tmp_path / "long.txt", documents=20)
    stored, held = read_corpus(path, kind="lines"), Corpus.from_bytes(path.read_bytes(), "lines", "long.txt")
    tokenizers = [train_tokenizer(corpus, kind=kind, vocab_size=90) for corpus in (stored, held)]
    assert tokenizers[0].to_str() == tokenizers[1].to_str()
    batches = [
        PretrainingBatches(encode_corpus(corpus, tokenizers[0]), tokenizers[0], DataConfig(batch_size=5), seed=3)
        for corpus in (stored, held)
    ]
    for k in (0, 1, 200, 17):
        assert batches[0][k].input_ids.tolist() == batches[1][k].input_ids.tolist()
        assert batches[0][k].labels.tolist() == batches[1][k].labels.tolist()


def test_a_recipe_trains_alike_on_a_long_text_and_on_a_short_one(few_bytes, tmp_path):
    path = written(tmp_path / "long.txt", documents=40)
    recipe = load_recipe("romeo-juliet")
    stored, held = (
        prepare(recipe, corpus)
        for corpus in (read_corpus(path, kind="lines"), Corpus.from_bytes(path.read_bytes(), "lines", "long.txt"))
    )
    assert stored.validation is not None
    for ours, theirs in ((stored.batches, held.batches), (stored.validation, held.validation)):
        assert ours[3].input_ids.tolist() == theirs[3].input_ids.tolist()


def test_a_tokenizer_learns_from_an_even_sample_of_a_text_that_is_too_long(few_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "_SAMPLED_AT_ONCE", 5)
    path = tmp_path / "long.txt"
    path.write_text("".join(f"{i:03}\n" for i in range(1000)))
    corpus = read_corpus(path, kind="lines")
    assert list(corpus.sample(10**6)) == list(corpus.sentences)
    sampled = [int(sentence) for sentence in corpus.sample(4 * 100)]
    assert len(sampled) == 100
    assert sampled == sorted(sampled)
    assert max(b - a for a, b in itertools.pairwise([0, *sampled, 1000])) < 60


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
    corpus = Corpus((sentences, sentences[::-1]))
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
    corpus = Corpus((tuple(" ".join(line) for line in lines),))
    tokenizer = train_tokenizer(corpus)
    whole = encode_corpus(corpus, tokenizer)
    monkeypatch.setattr(encoding_module, "plain", Counting)
    assert encode_corpus(corpus, tokenizer).ids.tolist() == whole.ids.tolist()
    assert sum(calls) == sum(len(word) for line in lines for word in line)
    assert max(calls) <= 1_000 + 2 * 30 * 6
    assert {len(group) % 2 for group in list(encoding_module._groups(corpus.sentences))[:-1]} == {0}
