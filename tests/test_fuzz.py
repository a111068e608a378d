"""Whatever a reader of foreign files is given, it reads or refuses with a BertCoreError, and it costs little.

5,000 cases in all; `pytest -m fuzz --hypothesis-profile release` tries 50,000. No case may take 2 s of processor time
or raise the process's peak of memory by 256 MB.
"""

import contextlib
import copy
import io
import json
import resource
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import load_tokenizer, make_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from balcony.server.files import unpack
from bert_core.config import CORPUS_KINDS, PUBLIC, BertConfig
from bert_core.data.corpus import Corpus
from bert_core.data.decoding import ENCODINGS
from bert_core.data.tokenizer import train_tokenizer
from bert_core.errors import BertCoreError
from bert_core.runs.recipe import finetuning_recipes, load_recipe, recipe_names
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from bert_core.storage.untrusted import parse_json
from bert_core.storage.weights import open_tensors
from bert_core.tasks.examples import TASKS, load_task

# Tracing would double their time; each reader has tests of its own, which are counted.
pytestmark = [pytest.mark.fuzz, pytest.mark.no_cover]

SECONDS, BYTES = 2.0, 256 * 2**20


def cases(share: int) -> Callable:
    """Settings for that many cases, or ten times as many in a release run. All shares are 5,000 together."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    most = share * settings.default.max_examples // 60
    return settings(max_examples=most, deadline=None, database=None, suppress_health_check=checks)


# Of the kind that the big list of naughty strings collects: what other programs have stumbled over.
NAUGHTY = [
    *("", " ", "undefined", "null", "nil", "None", "NaN", "Infinity", "-0", "0x0", "1e1000", "1/0", "١٢٣", "½", "²"),
    *("田中さん", "مُنَاقَشَةُ", "הָיְתָה", "᚛ᚄᚓᚐᚋᚒᚄ᚜", "Ω≈ç√∫", "ﬀﬁ", "İstanbul", "ß", "ǅ", "z͑ͫ̓ͪ̂ͫ̽", "👩‍👩‍👧‍👦", "🇺🇸🇷", "❤️"),
    *(
        "\u200b",
        "\u202e\u2066abc\u2069",
        "\ufeff",
        "\u2028",
        "\x7f",
        "\x85",
        "\ufffe",
        "\U0010ffff",
        "\ue000",
        "\u0345",
    ),
    *(
        "<script>alert(1)</script>",
        "'; DROP TABLE x; --",
        "${7*7}",
        "{{7*7}}",
        "%s%n",
        "../../etc/passwd",
        "C:\\con",
        "`id`",
    ),
    *("[PAD]", "[UNK]", "[MASK]", "[CLS] [SEP]", "##a", "##", "_!_", "\t", "\r", "\n\n", "\x1a", "\x00", "\ud800"),
]
PIECES = [
    *NAUGHTY,
    *"aB1 \t\n.,!?;:#=()[]\"'”»。、।",
    "= ",
    " . ",
    "Dr. ",
    "3. ",
    "\t1\n",
    "\t0\n",
    "a\tb\t1\n",
    "Hi you. ",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
VALUES = st.one_of(
    st.sampled_from(
        [None, True, False, -1, 0, 1, 5, 10**9, 10**30, 0.5, float("nan"), float("inf"), [], {}, [[]], [None]]
    ),
    st.sampled_from([*NAUGHTY, "BPE", "WordLevel", "bert", "[0]", "BertForTokenClassification", "regression"]),
    st.integers(-3, 40),
    st.dictionaries(st.sampled_from(["0", "type", "vocab", "a"]), st.integers(-1, 3), max_size=3),
)


@contextlib.contextmanager
def expect_bounded() -> Iterator[None]:
    """Nothing but BertCoreError, within the bounds. Both are counts of this process: others do not change them."""
    start, peak = time.thread_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.suppress(BertCoreError):
        yield
    assert time.thread_time() - start < SECONDS
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) < BYTES


@st.composite
def changed(draw: Callable, content: Any) -> Any:
    """JSON content in which some values, at any depth, are replaced, removed or added."""
    content = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        parent, key, child = None, None, content
        while isinstance(child, dict | list) and child and (parent is None or draw(st.integers(0, 5))):
            keys = list(child) if isinstance(child, dict) else range(len(child))
            parent, key = child, keys[draw(st.integers(0, len(keys) - 1))]
            child = parent[key]
        if isinstance(parent, dict) and not draw(st.integers(0, 3)):
            parent[draw(st.sampled_from(NAUGHTY))] = parent.pop(key)
        elif parent is not None:
            parent[key] = copy.deepcopy(draw(VALUES))
    return content


@st.composite
def damaged(draw: Callable, data: bytes) -> bytes:
    """Bytes of which some are changed, cut out, repeated or appended."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        stop = min(len(data), start + draw(st.sampled_from([0, 1, 4, 100, 10**9])))
        between = draw(st.one_of(st.binary(max_size=9), st.just(data[start:stop] * 2)))
        data = data[:start] + between + data[stop:]
    return data


def json_bytes(content: Any) -> bytes:
    return json.dumps(content).encode()


_TOKENIZERS = {kind: train_tokenizer(Corpus.from_text("one two one\ntwo three"), kind=kind) for kind in ("word", "bpe")}
_CONFIG = BertConfig(
    vocab_size=_TOKENIZERS["word"].get_vocab_size(),
    hidden_size=4,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=3,
    max_position_embeddings=9,
)
_TOKENIZER_FILES = [json.loads(tokenizer.to_str()) for tokenizer in _TOKENIZERS.values()]
_RECIPES = [(type(recipe), recipe.content()) for recipe in (*map(load_recipe, recipe_names()), *finetuning_recipes())]
_HEADER = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
    "b": {"dtype": "F16", "shape": [3], "data_offsets": [8, 14]},
}
_SQUAD = {
    "data": [
        {"paragraphs": [{"context": "a b", "qas": [{"question": "c", "answers": [{"text": "b", "answer_start": 2}]}]}]}
    ]
}
_TASK_FILES = ["sent1,sent2,ending0,ending1,label\na,b,c,d,1\n", "label\ttext\n1\ta\n0\tb\n", "a B-x\nb I-x\n\nc O\n"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "model"
    save_checkpoint(Checkpoint(make_model(_CONFIG), _TOKENIZERS["word"]), folder)
    return folder


@contextlib.contextmanager
def replaced(path: Path, data: bytes) -> Iterator[None]:
    original = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(original)


@cases(600)
@given(TEXTS, st.sampled_from(CORPUS_KINDS))
def test_texts(text, kind):
    with expect_bounded():
        assert Corpus.from_text(text, kind, limits=PUBLIC).sentences


@cases(900)
@given(
    st.one_of(st.binary(max_size=60), st.tuples(TEXTS, st.sampled_from(["utf-8", "utf-16", "gb18030", "cp1252"]))),
    st.sampled_from(["auto", "pairs"]),
    st.sampled_from([None, *ENCODINGS]),
)
def test_text_files_and_pairs(content, kind, encoding):
    data = content if isinstance(content, bytes) else content[0].encode(content[1], "ignore")
    with expect_bounded():
        assert Corpus.from_bytes(data, kind, encoding=encoding, limits=PUBLIC).sentences


@cases(200)
@given(st.data())
def test_configs(model, data):
    content = json.loads((model / "config.json").read_text())
    with replaced(model / "config.json", json_bytes(data.draw(changed(content)))), expect_bounded():
        load_checkpoint(model, limits=PUBLIC)


@cases(600)
@given(st.one_of(TEXTS, TEXTS.map(lambda text: "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", text]))))
def test_vocabularies(model, text):
    path = model.parent / "vocab.txt"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with expect_bounded():
        load_tokenizer(path, {}, PUBLIC).encode("a b [MASK] 田中さん")


@cases(250)
@given(st.one_of([changed(content).map(json_bytes) for content in _TOKENIZER_FILES]), changed({"do_lower_case": True}))
def test_tokenizer_files(model, data, flags):
    path = model.parent / "tokenizer.json"
    path.write_bytes(data)
    with expect_bounded():
        load_tokenizer(path, flags, PUBLIC).encode("one [MASK] 田中さん")


@cases(600)
@given(st.one_of(changed(_HEADER).map(json_bytes), damaged(json_bytes(_HEADER))), st.integers(0, 20))
def test_headers(model, header, length):
    path = model.parent / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(length))
    with expect_bounded():
        open_tensors(path, 2**20)


@cases(150)
@given(st.data())
def test_weights(model, data):
    content = (model / "model.safetensors").read_bytes()
    with replaced(model / "model.safetensors", data.draw(damaged(content))), expect_bounded():
        assert (
            load_checkpoint(model, limits=PUBLIC)
            .model(torch.zeros(1, 3, dtype=torch.long))
            .last_hidden_state.isfinite()
            .all()
        )


@pytest.fixture(scope="module")
def packed(model) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("config.json", "tokenizer_config.json"):
            archive.write(model / name, f"model/{name}")
    return file.getvalue()


@cases(300)
@given(st.data())
def test_zips(packed, model, data):
    path, folder = model.parent / "in.zip", model.parent / "out"
    path.write_bytes(data.draw(damaged(packed)))
    with expect_bounded():
        unpack(path, folder, PUBLIC)
        assert {each.name for each in folder.iterdir()} <= {"config.json", "tokenizer_config.json"}
        for each in folder.iterdir():
            each.unlink()
        folder.rmdir()
    assert not folder.exists()


@cases(600)
@given(st.one_of([st.tuples(st.just(kind), changed(content)) for kind, content in _RECIPES]))
def test_recipes(kind_and_content):
    kind, content = kind_and_content
    with expect_bounded():
        recipe = kind.from_dict("fuzz", parse_json(json_bytes(content), "fuzz.json"))
        assert recipe.content()


@cases(500)
@given(
    st.one_of(TEXTS, *(damaged(each.encode()) for each in _TASK_FILES), changed(_SQUAD).map(json_bytes)),
    st.sampled_from([*TASKS]),
    st.booleans(),
)
def test_task_files(model, content, task, labelled):
    path = model.parent / "task.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    with expect_bounded():
        data = load_task(path, task, labelled=labelled, limits=PUBLIC)
        assert data.examples
        data.with_labels_of(data.labels())


_MANY = 5 * 2**20
HOSTILE = {
    "tokenizer.json": [
        b"[" * _MANY,
        b'{"a":' * (_MANY // 5),
        b'{"a": [' + b"[]," * (_MANY // 3),
        b'"' + rb"\n" * (_MANY // 2),
    ],
    "vocab.txt": [b"a\n" * (_MANY // 2), b"a" * _MANY, "的".encode() * (_MANY // 3)],
    "text": [b"a\n" * (_MANY // 2), b"A. " * (_MANY // 3), b"a" * _MANY, b".!?" * (_MANY // 3)],
    "task": [
        b"a\tb\n" * (_MANY // 4),
        b"\t" * _MANY,
        b"a O\n\n" * (_MANY // 5),
        b"[" * _MANY,
        b"a,b,c,d,0\n" * (_MANY // 10),
    ],
}


@pytest.mark.parametrize(("name", "number"), [(name, i) for name, files in HOSTILE.items() for i in range(len(files))])
def test_large_files(name, number, tmp_path):
    data = HOSTILE[name][number]
    path = tmp_path / name
    path.write_bytes(data)
    if name == "text":
        for kind in CORPUS_KINDS:
            with expect_bounded():
                Corpus.from_bytes(data, kind, limits=PUBLIC)
    elif name == "task":
        for task in TASKS:
            with expect_bounded():
                load_task(path, task, limits=PUBLIC)
    else:
        with expect_bounded():
            load_tokenizer(path, {}, PUBLIC)
