"""Any text is read, split and sampled in linear time, or refused with a sentence (BertCoreError).

`--hypothesis-profile long` tries many more texts.
"""

import contextlib
import time

import torch
from hypothesis import given
from hypothesis import strategies as st

from bert_core.config import CORPUS_KINDS, DataConfig
from bert_core.data.batches import PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.decoding import ENCODINGS
from bert_core.data.encoding import IS_NEXT, encode_corpus
from bert_core.data.sentences import MAX_RUN_CHARACTERS
from bert_core.data.tokenizer import train_tokenizer
from bert_core.errors import BertCoreError

# Everything that the rules of reading know, and letters of several scripts.
PIECES = [
    *"aB1 \t\n.,!?…;:-_*#=()[]\"'”»«。！？、」।؟،\x0b\x1a\u2028\u00a0\u3000\ufeff\u0301\ud800\x00é中かกا한😀",
    *("\n\n", "\n# ", "= ", " . ", "...", "Dr. ", "3. ", "\t1\n", "\r\n", "[MASK]", "a b\tc d\t0\n", "Hello there. "),
]
REFUSED = "\x00\x1a\ud800"
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=60).map("".join), st.text(max_size=60))
KINDS = st.sampled_from(CORPUS_KINDS)
SHARES = st.lists(st.floats(0.01, 0.5), max_size=2)
SETTINGS = st.builds(
    DataConfig,
    batch_size=st.integers(1, 9),
    sequence_length=st.integers(8, 30),
    long_pairs=st.sampled_from(("crop", "drop")),
)


def expect_whole(corpus: Corpus) -> None:
    assert corpus.sentences
    assert all(corpus.documents)
    assert corpus.labels is None or len(corpus.labels) == len(corpus.documents)
    if corpus.labels is None:
        assert all(sentence.strip() == sentence != "" for sentence in corpus.sentences)


@given(TEXTS, KINDS)
def test_any_text_is_read_or_refused(text: str, kind: str) -> None:
    with contextlib.suppress(BertCoreError):
        expect_whole(Corpus.from_text(text, kind))


@given(
    st.one_of(st.binary(max_size=80), st.tuples(TEXTS, st.sampled_from(["utf-8", "utf-16", "gb18030", "cp1252"]))),
    KINDS,
    st.sampled_from([None, *ENCODINGS]),
)
def test_any_file_is_read_or_refused(content: bytes | tuple[str, str], kind: str, encoding: str | None) -> None:
    data = content if isinstance(content, bytes) else content[0].encode(content[1], "ignore")
    with contextlib.suppress(BertCoreError):
        expect_whole(Corpus.from_bytes(data, kind, encoding=encoding))


@given(TEXTS, KINDS, SHARES)
def test_any_text_is_split_without_a_loss_or_refused(text: str, kind: str, shares: list[float]) -> None:
    try:
        corpus = Corpus.from_text(text, kind)
        parts = corpus.split(*shares)
    except BertCoreError:
        return
    assert [sentence for part in parts for sentence in part.sentences] == corpus.sentences
    for part in parts:
        expect_whole(part)


@given(TEXTS, KINDS, st.sampled_from(("word", "wordpiece", "bpe")), SETTINGS, st.integers(0, 9))
def test_any_text_is_sampled_or_refused(text: str, kind: str, tokenizer: str, config: DataConfig, step: int) -> None:
    try:
        corpus = Corpus.from_text(text, kind)
        trained = train_tokenizer(corpus, kind=tokenizer)
        batches = PretrainingBatches(encode_corpus(corpus, trained), trained, config)
    except BertCoreError:
        return
    batch = batches[step]
    assert len(batch.input_ids) == config.batch_size
    assert batch.input_ids.shape[1] <= config.sequence_length
    assert int(batch.input_ids.max()) < trained.get_vocab_size()
    if corpus.labels is None:
        assert abs(int((batch.next_sentence_label == IS_NEXT).sum()) - config.batch_size / 2) <= 0.5
    assert torch.equal(batch.input_ids, batches.copy()[step].input_ids)


_SHORT = 4 * MAX_RUN_CHARACTERS  # characters; longer than all of what a rule looks at
_TIMES = 8
_ROUNDS = 20


@given(
    st.lists(st.sampled_from(PIECES).filter(lambda piece: piece not in "\x00\x1a\ud800"), min_size=1, max_size=5), KINDS
)
def test_reading_takes_linear_time(pieces: list[str], kind: str) -> None:
    """Twice the text takes at most 2.3 times the processor time, in the best of several rounds."""
    unit = "".join(pieces)
    short = unit * (_SHORT // len(unit))
    least = [float("inf"), float("inf")]
    for _ in range(_ROUNDS):
        for i, text in enumerate((short, short * _TIMES)):
            start = time.thread_time()
            with contextlib.suppress(BertCoreError):
                Corpus.from_text(text, kind).split(0.1)
            least[i] = min(least[i], time.thread_time() - start)
        if least[1] <= 2.3**3 * least[0] + 0.001:
            break
    assert least[1] <= 2.3**3 * least[0] + 0.001, f"{_TIMES} times the text"
