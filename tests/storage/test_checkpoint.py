"""Model folders: compared with `transformers`, malicious files, kills in the middle of a save."""

import dataclasses
import errno
import fcntl
import json
import os
import pickle
import random
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import transformers
from helpers import killed_after, make_batch, make_model, watched
from safetensors.torch import load_file, save_file

from bert_core import attention
from bert_core.config import LOCAL, PUBLIC, BertConfig
from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import SPECIAL_TOKENS, train_tokenizer
from bert_core.errors import BertCoreError, CheckpointError
from bert_core.model import BertForPreTraining
from bert_core.storage import checkpoint as checkpoint_module
from bert_core.storage import tokenizer_file
from bert_core.storage.checkpoint import (
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)

EXACT = {"rtol": 0, "atol": 1e-5}


@pytest.fixture
def folder(tiny_checkpoint, tmp_path) -> Path:
    """A written checkpoint."""
    save_checkpoint(tiny_checkpoint, tmp_path / "tiny")
    return tmp_path / "tiny"


def change_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_tensors(folder: Path, change) -> None:
    """Rewrite model.safetensors after `change(tensors)`, which changes the dictionary in place or returns another."""
    tensors = load_file(folder / "model.safetensors")
    result = change(tensors)
    tensors = result if isinstance(result, dict) else tensors
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")


def write_safetensors(path: Path, header: object, data: bytes = b"") -> None:
    """Write a file with any header, also a wrong one."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


# --- Opened by transformers -----------------------------------------------------------------------------------------


@torch.no_grad()
def test_transformers_opens_a_written_folder_and_gives_the_same_numbers(tiny_checkpoint, folder):
    oracle, info = transformers.BertForPreTraining.from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    batch = make_batch(tiny_checkpoint.config)
    ours, states, attentions = watched(tiny_checkpoint.model, **batch)
    theirs = oracle.eval()(**batch, output_hidden_states=True, output_attentions=True)
    torch.testing.assert_close(ours.prediction_logits, theirs.prediction_logits, **EXACT)
    torch.testing.assert_close(ours.seq_relationship_logits, theirs.seq_relationship_logits, **EXACT)
    assert len(theirs.attentions) == 2
    for mine, other in zip(states + attentions, theirs.hidden_states + theirs.attentions, strict=True):
        torch.testing.assert_close(mine, other, **EXACT)


def test_transformers_reads_the_tokenizer_of_a_written_folder(tiny_checkpoint, folder):
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = tiny_checkpoint.tokenizer.encode("Hello, Romeo [MASK]!", "my name-is unheard")
    encoded = theirs("Hello, Romeo [MASK]!", "my name-is unheard")
    assert (ours.ids, ours.type_ids) == (encoded["input_ids"], encoded["token_type_ids"])
    assert theirs.model_max_length == tiny_checkpoint.config.max_position_embeddings
    assert [theirs.pad_token, theirs.unk_token, theirs.cls_token, theirs.sep_token, theirs.mask_token] == [
        *SPECIAL_TOKENS
    ]


@torch.no_grad()
def test_the_fill_mask_pipeline_gives_our_probabilities(tiny_checkpoint, folder):
    guesses = transformers.pipeline("fill-mask", str(folder))("hello romeo [MASK] you", top_k=3)
    ids = torch.tensor([tiny_checkpoint.tokenizer.encode("hello romeo [MASK] you").ids])
    mask = ids[0].tolist().index(4)
    probabilities = tiny_checkpoint.model(ids).prediction_logits[0, mask].softmax(-1)
    best = probabilities.topk(3)
    assert [guess["token"] for guess in guesses] == best.indices.tolist()
    assert [guess["score"] for guess in guesses] == pytest.approx(best.values.tolist(), abs=1e-5)


# --- Opened here ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["word", "wordpiece", "bpe"])
@torch.no_grad()
def test_a_written_folder_opens_unchanged(kind, dialogue, tmp_path):
    tokenizer = train_tokenizer(dialogue, kind=kind)
    config = BertConfig(vocab_size=tokenizer.get_vocab_size(), hidden_size=12, num_attention_heads=3, hidden_act="relu")
    written = Checkpoint(make_model(config), tokenizer, recipe={"training": {"steps": 3}})
    save_checkpoint(written, tmp_path / "model")
    state = torch.get_rng_state()
    loaded = load_checkpoint(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), state)
    assert loaded.config == config
    assert (loaded.name, loaded.notes, loaded.missing) == ("model", (), frozenset())
    assert loaded.recipe == {"training": {"steps": 3}}
    assert loaded.tokenizer.to_str() == tokenizer.to_str()
    assert not loaded.model.training
    weights = loaded.model.state_dict()
    for name, tensor in written.model.state_dict().items():
        assert torch.equal(weights[name], tensor), name


HUGGING_FACE_CLASSES = {
    "BertForPreTraining": set(),
    "BertModel": {"mlm", "nsp"},
    "BertForMaskedLM": {"pooler", "nsp"},
    "BertForNextSentencePrediction": {"mlm"},
    "BertForSequenceClassification": {"mlm", "nsp"},
    "BertForTokenClassification": {"pooler", "mlm", "nsp"},
    "BertForQuestionAnswering": {"pooler", "mlm", "nsp"},
}


@pytest.fixture
def hugging_face_folder(tiny_config, word_tokenizer, tmp_path):
    """A function that writes a random model of a class of `transformers`, as `transformers` writes it."""

    def write(cls: str = "BertForPreTraining", dtype: torch.dtype = torch.float32, **options: object) -> Path:
        torch.manual_seed(7)
        sizes = {key: value for key, value in vars(tiny_config).items() if key != "pad_token_id"}
        model = getattr(transformers, cls)(transformers.BertConfig(**sizes))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
        model.to(dtype).save_pretrained(tmp_path / "theirs", **options)
        (tmp_path / "theirs" / "tokenizer.json").write_text(word_tokenizer.to_str())
        (tmp_path / "theirs" / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
        return tmp_path / "theirs"

    return write


@torch.no_grad()
def assert_same_as_transformers(folder: Path) -> Checkpoint:
    """Everything that the files hold gives the numbers of `transformers`; returns what was loaded."""
    state = torch.get_rng_state()
    loaded = load_checkpoint(folder)
    assert torch.equal(torch.get_rng_state(), state)
    oracle = transformers.BertForPreTraining.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    batch = make_batch(loaded.config)
    ours, states, attentions = watched(loaded.model, **batch)
    theirs = oracle(**batch, output_hidden_states=True, output_attentions=True)
    for mine, other in zip(states + attentions, theirs.hidden_states + theirs.attentions, strict=True):
        torch.testing.assert_close(mine, other, **EXACT)
    if "pooler" not in loaded.missing:
        torch.testing.assert_close(ours.pooler_output, oracle.bert(**batch).pooler_output, **EXACT)
    if "mlm" not in loaded.missing:
        torch.testing.assert_close(ours.prediction_logits, theirs.prediction_logits, **EXACT)
    if not {"pooler", "nsp"} & loaded.missing:
        torch.testing.assert_close(ours.seq_relationship_logits, theirs.seq_relationship_logits, **EXACT)
    assert loaded.model.bert.embeddings.word_embeddings.weight.dtype == torch.float32
    return loaded


@pytest.mark.parametrize("cls", HUGGING_FACE_CLASSES)
def test_folders_of_every_class_open(cls, hugging_face_folder):
    loaded = assert_same_as_transformers(hugging_face_folder(cls))
    assert loaded.missing == HUGGING_FACE_CLASSES[cls]
    said = loaded.missing if loaded.head is None else ()  # others never have what is missing
    assert len(loaded.notes) == bool(said)
    for part, title in {"pooler": "the pooler", "mlm": "the masked-word head", "nsp": "the next-sentence head"}.items():
        assert (title in " ".join(loaded.notes)) == (part in said)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32(dtype, hugging_face_folder):
    assert_same_as_transformers(hugging_face_folder(dtype=dtype))


def test_old_names_open(hugging_face_folder):
    folder = hugging_face_folder()
    change_tensors(
        folder,
        lambda tensors: {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
            for name, tensor in tensors.items()
        },
    )
    assert "bert.embeddings.LayerNorm.gamma" in load_file(folder / "model.safetensors")
    assert assert_same_as_transformers(folder).missing == set()


@pytest.mark.parametrize("prefix", ["bert.", ""])
def test_folders_open_with_and_without_prefix_pooler_and_buffers(prefix, hugging_face_folder):
    def change(tensors):
        kept = {name.removeprefix("bert."): tensor for name, tensor in tensors.items() if not name.startswith("cls.")}
        kept["embeddings.position_ids"] = torch.arange(17)[None]
        return {prefix + name: tensor for name, tensor in kept.items() if "pooler" not in name}

    folder = hugging_face_folder()
    change_tensors(folder, change)
    loaded = assert_same_as_transformers(folder)
    assert loaded.missing == {"pooler", "mlm", "nsp"}
    assert loaded.notes == (
        "The files lack the pooler and the masked-word head and the next-sentence head; what they lack is new and "
        "untrained here.",
    )


def test_copies_of_tied_tensors_are_accepted_if_they_are_equal(hugging_face_folder):
    def add_copies(tensors):
        tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()

    folder = hugging_face_folder()
    change_tensors(folder, add_copies)
    assert_same_as_transformers(folder)
    change_tensors(folder, lambda tensors: tensors.pop("cls.predictions.bias"))
    assert load_checkpoint(folder).missing == set()
    change_tensors(folder, lambda tensors: tensors["cls.predictions.decoder.weight"].add_(1e-3))
    with pytest.raises(CheckpointError, match=r"decoder\.weight differs from bert\.embeddings\.word_embeddings"):
        load_checkpoint(folder)


def test_new_parts_are_the_same_every_time_and_are_not_written_as_if_trained(hugging_face_folder, tmp_path):
    folder = hugging_face_folder("BertForMaskedLM")
    first, second = load_checkpoint(folder), load_checkpoint(folder)
    pooler = first.model.state_dict()["bert.pooler.dense.weight"]
    assert 0 < pooler.abs().max() <= 0.04
    assert torch.equal(pooler, second.model.state_dict()["bert.pooler.dense.weight"])
    save_checkpoint(first, tmp_path / "again")
    assert load_checkpoint(tmp_path / "again").missing == {"pooler", "nsp"}


@torch.no_grad()
def test_longer_positions_keep_the_first_and_draw_the_others(tiny_checkpoint, folder, tmp_path):
    state = torch.get_rng_state()
    longer = load_checkpoint(folder, max_positions=230)
    assert torch.equal(torch.get_rng_state(), state)
    assert longer.config.max_position_embeddings == longer.model.bert.config.max_position_embeddings == 230
    assert longer.notes == ("The weights have 17 positions; 18 to 230 are new and untrained.",)
    old = tiny_checkpoint.model.bert.embeddings.position_embeddings.weight
    new = longer.model.bert.embeddings.position_embeddings.weight
    assert torch.equal(new[:17], old)
    assert new.requires_grad
    assert torch.equal(new, load_checkpoint(folder, max_positions=230).model.bert.embeddings.position_embeddings.weight)
    # Cut at two standard deviations, a normal distribution keeps 88 % of its width; 2,556 numbers are within 5 %.
    assert new[17:].std().item() == pytest.approx(0.88 * tiny_checkpoint.config.initializer_range, rel=0.05)
    assert new[17:].abs().max() <= 2 * tiny_checkpoint.config.initializer_range
    batch = make_batch(tiny_checkpoint.config)
    ours = longer.model(**batch).prediction_logits
    assert torch.equal(ours, tiny_checkpoint.model(**batch).prediction_logits)
    assert longer.model(torch.full((1, 230), 7)).last_hidden_state.isfinite().all()

    save_checkpoint(longer, tmp_path / "longer")
    assert_same_as_transformers(tmp_path / "longer")
    assert load_checkpoint(tmp_path / "longer").notes == ()


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (16, "the weights have 17 positions"),
        (10**9, "max_position_embeddings is 1000000000; it must be a whole number from 8 to 8,192"),
        (0, "max_positions is 0"),
    ],
)
def test_an_impossible_number_of_positions_is_refused(positions, message, folder):
    with pytest.raises(BertCoreError, match=message):
        load_checkpoint(folder, max_positions=positions)


def test_as_many_positions_as_there_are_change_nothing(folder):
    loaded = load_checkpoint(folder, max_positions=17)
    assert (loaded.notes, loaded.config.max_position_embeddings) == ((), 17)


def test_more_positions_stay_within_the_limit_of_parameters(folder):
    parameters = load_checkpoint(folder).config.parameter_count()
    with pytest.raises(CheckpointError, match=r"parameters; the limit is"):
        load_checkpoint(folder, max_positions=18, limits=dataclasses.replace(LOCAL, parameters=parameters + 11))
    with pytest.raises(CheckpointError, match=r"config\.json describes .* parameters; the limit is"):
        load_checkpoint(folder, limits=dataclasses.replace(LOCAL, parameters=parameters - 1))


def test_sizes_left_out_of_the_config_are_those_of_bert_base(folder, monkeypatch):
    content = json.loads((folder / "config.json").read_text())
    for name in (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
    ):
        del content[name]
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"\[30, 12\] instead of float32 \[30, 768\]"):
        load_checkpoint(folder)


def test_a_tokenizer_may_have_fewer_tokens_than_the_model_but_not_more(folder, dialogue):
    smaller = train_tokenizer(dialogue, vocab_size=20)
    (folder / "tokenizer.json").write_text(smaller.to_str())
    assert load_checkpoint(folder).config.vocab_size == 30
    larger = train_tokenizer(Corpus.from_text("\n".join(dialogue.sentences) + "\none more"))
    (folder / "tokenizer.json").write_text(larger.to_str())
    with pytest.raises(CheckpointError, match=r"32 tokens where config\.json has a vocab_size of 30"):
        load_checkpoint(folder)


def test_the_padding_id_is_the_vocabularys_own(folder):
    vocabulary = ["a", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]", "hello"]
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    assert load_checkpoint(folder).config.pad_token_id == 5


# --- Malicious and wrong files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "model_type 'roberta', which cannot be used: Input should be 'bert'"),
        ({"model_type": None}, "model_type None"),
        ({"is_decoder": True}, "is_decoder True"),
        ({"type_vocab_size": 1}, "type_vocab_size is 1; it must be a whole number from 2 to 16"),
        ({"hidden_act": "silu"}, "hidden_act is 'silu'; it can be one of: gelu, gelu_new, relu"),
        (
            {"pooler_type": "max"},
            "pooler_type 'max', which cannot be used: Input should be 'first_token_transform' or 'all_token_average'",
        ),
        ({"pooler_type": ["first"]}, "pooler_type"),
        ({"hidden_act": ["gelu"]}, "hidden_act is"),
        ({"hidden_size": 10**9}, "hidden_size is 1000000000"),
        ({"hidden_size": -12}, "hidden_size is -12"),
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"hidden_size": "12"}, "hidden_size is '12'"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"hidden_size": 12.0}, "hidden_size is 12.0"),
        ({"num_attention_heads": 5}, "multiple of the number of heads"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is"),
        ({"vocab_size": 10**90}, "vocab_size is"),
        ({"vocab_size": 900_000, "hidden_size": 4092}, "parameters; the limit is 500,000,000"),
        ({"layer_norm_eps": -1}, "layer_norm_eps is -1"),
        ({"num_hidden_layers": 3}, r"encoder\.layer\.2\.\S+ is missing"),
        ({"num_hidden_layers": 1}, r"'bert\.encoder\.layer\.1\.\S+ is unknown.* and \d+ more"),
        ({"hidden_size": 6}, r"float32 \[30, 12\] instead of float32 \[30, 6\]"),
    ],
)
def test_a_wrong_or_unsupported_config_is_refused(changes, message, folder):
    change_json(folder / "config.json", **changes)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_checkpoint(folder)
    assert "config.json" in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_config_without_a_model_type_opens(tiny_checkpoint, folder):
    """As Google's bert_config.json has them."""
    content = json.loads((folder / "config.json").read_text())
    del content["model_type"]
    (folder / "config.json").write_text(json.dumps(content))
    assert load_checkpoint(folder).config == tiny_checkpoint.config


def test_the_config_may_name_the_class_of_the_tokenizer(folder):
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    change_json(folder / "config.json", tokenizer_class="BertJapaneseTokenizer")
    with pytest.raises(CheckpointError, match=r"neither tokenizer\.json nor the vocab\.txt of a BertTokenizer"):
        load_checkpoint(folder)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    assert load_checkpoint(folder).tokenizer.get_vocab() == vocabulary


@pytest.mark.parametrize("flag", [True, False])
def test_the_settings_of_the_long_tutorial_open(flag, folder, tmp_path):
    """Its pooler may average, its activation be tanh or none, and its two ways to write attention are one here."""
    batch = make_batch(load_checkpoint(folder).config)
    change_json(folder / "config.json", pooler_type="all_token_average", hidden_act="tanh", use_torch_multi_head=flag)
    loaded = load_checkpoint(folder)
    assert (loaded.config.pooler, loaded.config.hidden_act) == ("mean", "tanh")
    oracle = transformers.BertForPreTraining.from_pretrained(folder).eval()
    with torch.no_grad():
        states, mask = oracle.bert(**batch).last_hidden_state, batch["attention_mask"][..., None]
        pooled = oracle.bert.pooler.activation(oracle.bert.pooler.dense((states * mask).sum(1) / mask.sum(1)))
        torch.testing.assert_close(loaded.model(**batch).pooler_output, pooled, **EXACT)
    save_checkpoint(loaded, tmp_path / "again")
    again = load_checkpoint(tmp_path / "again")
    assert again.config == loaded.config
    change_json(folder / "config.json", pooler_type="first_token_transform", hidden_act="linear")
    assert load_checkpoint(folder).config.pooler == "first"


def test_fields_of_transformers_that_change_nothing_are_ignored(folder):
    change_json(
        folder / "config.json", use_cache=True, id2label={"0": "x"}, gradient_checkpointing=False,
        torch_dtype="float16", transformers_version="4.0", architectures=None,
        pad_token_id=None, classifier_dropout=None,
        position_embedding_type="absolute", pruned_heads={}, chunk_size_feed_forward=0,
    )  # fmt: skip
    change_json(folder / "tokenizer_config.json", model_max_length=1000000000000000019884624838656)
    assert load_checkpoint(folder).notes == ()


def test_nothing_is_allocated_for_sizes_that_the_files_do_not_have(folder, monkeypatch):
    change_json(folder / "config.json", hidden_size=1200, intermediate_size=9000, num_hidden_layers=12)
    monkeypatch.setattr(checkpoint_module, "draw", lambda *_: pytest.fail("weights were drawn"))
    with pytest.raises(CheckpointError, match=r"\[30, 12\] instead of float32 \[30, 1200\]"):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("bert.encoder.layer.0.output.dense.bias"), "layer.0.output.dense.bias is missing"),
        (lambda t: t.pop("bert.pooler.dense.bias"), r"bert\.pooler\.dense\.bias is missing"),
        (lambda t: t.pop("cls.predictions.transform.LayerNorm.bias"), "LayerNorm.bias is missing"),
        (lambda t: t.update({"x" * 500: torch.ones(2)}), r"'x{100}' is unknown"),
        (
            lambda t: {name: tensor.double() for name, tensor in t.items()},
            r"float64 \[30, 12\] instead of float32 ",
        ),
        (
            lambda t: {name: tensor.t() for name, tensor in t.items()},
            r"float32 \[12, 30\] instead of float32 \[30, 12\]",
        ),
        (lambda t: t["bert.pooler.dense.bias"][3:5].fill_(float("nan")), r"\(bert\.pooler\.dense\.bias\)"),
        (lambda t: t["cls.predictions.bias"][0].fill_(float("-inf")), r"\(cls\.predictions\.bias\)"),
        (lambda t: {"a": torch.ones(1)}, "and 35 more"),
    ],
)
def test_tensors_that_do_not_fit_are_named(change, message, folder):
    change_tensors(folder, change)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(folder)


def header(**changes: object) -> dict:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    ("content", "data", "message"),
    [
        (b"", b"", "is damaged"),
        (b"{", b"", "is damaged"),
        (b"[]", b"", "is damaged"),
        (b"[" * 500_000, b"", "is damaged"),
        (b'{"a": {}, "a": {}}', b"", "is damaged"),
        (b" " * (512 * 2**10 + 1), b"", "or its header has more than 512 kB"),
        (header(), b"1234567", "is damaged"),
        (header(), b"123456789", "is damaged"),
        (header(data_offsets=[4, 12]), b"0" * 12, "is damaged"),
        ({"a": header()["a"], "b": header()["a"]}, b"0" * 8, "is damaged"),
        (header(data_offsets=[0, 2**62]), b"", "is damaged"),
        (header(data_offsets=[-8, 0]), b"", "is damaged"),
        (header(data_offsets=[8, 0]), b"", "is damaged"),
        (header(data_offsets=[0]), b"", "is damaged"),
        (header(data_offsets="08"), b"", "is damaged"),
        (header(data_offsets=[0, 8.0]), b"", "is damaged"),
        (header(shape=[2**40, 2**40]), b"", "is damaged"),
        (header(shape=[-2]), b"", "is damaged"),
        (header(shape=[True, 2]), b"", "is damaged"),
        (header(shape=[1] * 9), b"", "is damaged"),
        (header(shape=None), b"", "is damaged"),
        (header(dtype="F8_E4M3"), b"", "is damaged"),
        (header(dtype=["F32"]), b"", "is damaged"),
        ({"a": 3}, b"", "is damaged"),
        ({"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}, b"", "is missing"),
    ],
)
def test_hostile_headers_are_refused(content, data, message, folder):
    write_safetensors(folder / "model.safetensors", content, data)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(folder)


def test_a_strangers_files_are_refused_before_anything_is_built(folder):
    original = (folder / "tokenizer.json").read_bytes()
    for content, message in (
        (b'{"a": [' + b"[" * 130_000 + b"{" * 130_000, "recursion limit exceeded"),
        (b'{"a": ' + b"[" * 201 + b"]" * 201 + b"}", "recursion limit exceeded"),
        (b'{"a": ' + b"1" * 10_000 + b"}", "number out of range"),
        (b" " * (PUBLIC.upload_bytes + 1), "larger than the limit of 5 MB"),
    ):
        (folder / "tokenizer.json").write_bytes(content)
        with pytest.raises(CheckpointError, match=message):
            load_checkpoint(folder, limits=PUBLIC)
    (folder / "tokenizer.json").write_bytes(original)
    assert load_checkpoint(folder, limits=PUBLIC).notes == ()


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt"])
def test_a_vocabulary_over_the_limit_is_refused_before_it_is_built(name, folder, monkeypatch):
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    if name == "vocab.txt":
        (folder / "tokenizer.json").unlink()
        (folder / "tokenizer_config.json").unlink()
        (folder / name).write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    assert load_checkpoint(folder, limits=dataclasses.replace(LOCAL, tokens=30)).tokenizer.get_vocab() == vocabulary
    real = tokenizer_file.build_tokenizer
    monkeypatch.setattr(
        tokenizer_file,
        "build_tokenizer",
        lambda tokens, scheme: real(tokens, scheme) if len(tokens) == 5 else pytest.fail("was built"),
    )
    with pytest.raises(CheckpointError, match="30 tokens are more than the limit of 29; choose a smaller"):
        load_checkpoint(folder, limits=dataclasses.replace(LOCAL, tokens=29))


def test_a_header_longer_than_the_file_is_refused_without_reading_it(folder):
    (folder / "model.safetensors").write_bytes((2**63).to_bytes(8, "little") + b"{}" * 10)
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        load_checkpoint(folder)


@pytest.mark.parametrize("length", [0, 7, 8, 9, 100, 3000, -1])
def test_truncated_files_are_refused(length, folder):
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:length])
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        load_checkpoint(folder)


class Trap:
    """Unpickling this would create a file."""

    path = ""

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_pickles_are_never_opened(folder, tmp_path):
    Trap.path = str(tmp_path / "sprung")
    (folder / "model.safetensors").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        load_checkpoint(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(
        CheckpointError,
        match=r"but 'pytorch_model\.bin'\. Weights in \.bin.*To convert a file that you trust",
    ):
        load_checkpoint(folder)
    assert not (tmp_path / "sprung").exists()


def test_a_part_of_the_weights_that_is_a_pickle_is_refused(folder):
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    (folder / "model-00002-of-00002.safetensors").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(CheckpointError, match=r"no model.safetensors, but 'model-00001"):
        load_checkpoint(folder)


def test_a_file_without_tensors_is_no_model(folder):
    write_safetensors(folder / "model.safetensors", {})
    with pytest.raises(CheckpointError, match="is missing"):
        load_checkpoint(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_missing_file_is_named(name, folder):
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        load_checkpoint(folder)
    (folder / name).mkdir()
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        load_checkpoint(folder)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="There is no folder 'nowhere'"):
        load_checkpoint(tmp_path / "nowhere")


# --- Saving, all or nothing -----------------------------------------------------------------------------------------


def other_checkpoint() -> Checkpoint:
    """A model whose every file differs from the tiny one's."""
    tokenizer = train_tokenizer(Corpus.from_text("one two three\nfour five six"))
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=10,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=7,
    )
    return Checkpoint(make_model(config), tokenizer)


def test_saving_again_replaces_the_model_and_keeps_other_files(tiny_checkpoint, folder):
    (folder / "README.md").write_text("a card")
    (folder / "logs").mkdir()
    (folder / "logs" / "model.safetensors").write_text("not of this model")
    (folder / "vocab.txt").write_text("old")
    with (folder / "metrics.csv").open("w") as metrics:
        metrics.write("step 1\n")
        save_checkpoint(other_checkpoint(), folder)
        metrics.write("step 2\n")
    assert load_checkpoint(folder).config.hidden_size == 10
    assert (folder / "metrics.csv").read_text() == "step 1\nstep 2\n"
    assert (folder / "README.md").read_text() == "a card"
    assert (folder / "logs" / "model.safetensors").read_text() == "not of this model"
    assert sorted(path.name for path in folder.glob("*.*")) == [
        "README.md", "config.json", "metrics.csv", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]


def test_weights_that_are_views_of_one_tensor_are_written(tiny_checkpoint, tmp_path):
    """The trainer keeps all parameters in one flat tensor."""
    parameters = list(tiny_checkpoint.model.parameters())
    flat = torch.cat([parameter.detach().flatten() for parameter in parameters])
    pieces = flat.split([parameter.numel() for parameter in parameters])
    expected = {name: tensor.clone() for name, tensor in tiny_checkpoint.model.state_dict().items()}
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.data = piece.view_as(parameter)
    save_checkpoint(tiny_checkpoint, tmp_path / "flat")
    for name, tensor in load_checkpoint(tmp_path / "flat").model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


def test_numbers_that_are_not_finite_are_not_written(tiny_checkpoint, folder):
    before = (folder / "model.safetensors").read_bytes()
    with torch.no_grad():
        tiny_checkpoint.model.cls["predictions"].bias[2] = float("nan")
    with pytest.raises(CheckpointError, match=r"not saved: .*\(cls\.predictions\.bias"):
        save_checkpoint(tiny_checkpoint, folder)
    assert (folder / "model.safetensors").read_bytes() == before


def in_a_child(work) -> int:
    """Run `work` in a forked process and return its exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work() or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def stopped_at(point: int, work, stop) -> int:
    """Run `work` in a child that calls `stop` at its `point`th use of the file system; return the child's exit code."""

    def run():
        count = 0

        def step() -> None:
            nonlocal count
            count += 1
            if count == point:
                stop()

        def hook(event: str, _arguments: tuple) -> None:
            if event == "open" or event.startswith(("os.", "ctypes.dlsym")):
                step()

        def counted(function):  # which raises no event itself
            def call(*arguments, **options):
                step()
                result = function(*arguments, **options)
                step()
                return result

            return call

        os.fsync = counted(lambda descriptor: None)  # no power fails here
        checkpoint_module.save_file = counted(checkpoint_module.save_file)
        sys.addaudithook(hook)
        return work()

    return in_a_child(run)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def no_room() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def save_or_explain(checkpoint: Checkpoint, folder: Path, reason: str = "No space left on device") -> int:
    """Save a model: 0, or 1 when it was not saved and says so."""
    expected = rf"The model was not saved to {folder.name} \(.*{reason}.*\); the earlier model there is kept\."
    try:
        save_checkpoint(checkpoint, folder)
    except CheckpointError as error:
        return 1 if re.fullmatch(expected, str(error)) else 2
    return 0


def stop_everywhere(folder: Path, work, stop, prepare, check) -> int:
    """Stop a save at each point, one after the other; return the number of points. check: called with the exit code."""
    point, first, reached = 0, folder.parent.with_name("first"), folder.parent.with_name("reached")
    folder.parent.mkdir()
    prepare()
    folder.parent.rename(first)
    while True:
        point += 1
        shutil.rmtree(folder.parent, ignore_errors=True)
        shutil.copytree(first, folder.parent)

        def mark() -> None:
            os.mkdir(reached)
            stop()

        check(stopped_at(point, work, mark))
        if not reached.exists():
            return point - 1
        reached.rmdir()


def changed(checkpoint: Checkpoint) -> Checkpoint:
    """The same model after more training."""
    return dataclasses.replace(checkpoint, module=make_model(checkpoint.config, seed=1))


def which(folder: Path, *known: Checkpoint) -> int:
    """The number of the model that a folder holds, whole."""
    loaded = load_checkpoint(folder)
    for number, each in enumerate(known):
        if loaded.config == each.config and loaded.tokenizer.to_str() == each.tokenizer.to_str():
            theirs = each.model.state_dict()
            if all(torch.equal(theirs[name], tensor) for name, tensor in loaded.model.state_dict().items()):
                return number
    pytest.fail("a mixture of models")


@pytest.mark.parametrize("is_other", [False, True])
def test_a_kill_while_saving_leaves_the_old_model_or_the_new_one(is_other, tiny_checkpoint, tmp_path, monkeypatch):
    """Or, where another model is replaced, none: never a mixture."""
    folder = tmp_path / "models" / "tiny"
    new, seen = other_checkpoint() if is_other else changed(tiny_checkpoint), set()

    def prepare() -> None:
        save_checkpoint(tiny_checkpoint, folder)
        (folder / "metrics.csv").write_text("step")

    def check(code: int) -> None:
        assert code in (0, -signal.SIGKILL)
        assert (folder / "metrics.csv").read_text() == "step"
        found = which(folder, tiny_checkpoint, new) if (folder / "config.json").exists() else None
        assert code or found == 1
        seen.add(found)
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)
        save_checkpoint(tiny_checkpoint, folder)  # leftovers do not prevent another save
        assert which(folder, tiny_checkpoint) == 0

    assert stop_everywhere(folder, lambda: save_checkpoint(new, folder), kill, prepare, check) > 20
    assert seen == ({0, 1, None} if is_other else {0, 1})


def test_a_kill_in_the_first_save_leaves_no_half_model(tmp_path):
    folder = tmp_path / "models" / "new"

    def prepare() -> None:
        folder.mkdir()
        (folder / "metrics.csv").write_text("step")

    def check(code: int) -> None:
        assert code in (0, -signal.SIGKILL)
        assert (folder / "metrics.csv").read_text() == "step"
        if (folder / "config.json").exists() or not code:
            assert which(folder, new) == 0

    new = other_checkpoint()
    assert stop_everywhere(folder, lambda: save_checkpoint(new, folder), kill, prepare, check) > 20


def test_a_full_disk_at_any_operation_keeps_the_old_model_and_says_so(tiny_checkpoint, tmp_path):
    folder, codes, new = tmp_path / "models" / "tiny", [], changed(tiny_checkpoint)

    def prepare() -> None:
        save_checkpoint(tiny_checkpoint, folder)
        (folder / "metrics.csv").write_text("step")

    def check(code: int) -> None:
        assert code in (0, 1)
        assert code or which(folder, new) == 0
        assert which(folder, tiny_checkpoint, new) in (0, 1)
        assert (folder / "metrics.csv").read_text() == "step"
        codes.append(code)

    assert stop_everywhere(folder, lambda: save_or_explain(new, folder), no_room, prepare, check) > 20
    assert sum(codes) > 15, "the others only remove what is no longer needed"


@pytest.mark.parametrize("is_other", [False, True])
def test_readers_beside_a_writer_that_is_killed_at_any_moment_see_one_model(is_other, tiny_checkpoint, tmp_path):
    """At another model, a reader may find that there is no config.json just now."""
    folder, rng, seen = tmp_path / "tiny", random.Random(0), set()
    known = tiny_checkpoint, other_checkpoint() if is_other else changed(tiny_checkpoint)
    save_checkpoint(known[0], folder)

    def write() -> None:
        while True:
            for each in reversed(known):
                save_checkpoint(each, folder)
                time.sleep(0.05 * is_other)

    for _ in range(8):
        killed_after(rng.uniform(0.1, 0.4), write, lambda: seen.add(which_or_none(folder, known)))
        seen.add(which_or_none(folder, known))
    assert seen >= {0, 1}
    assert is_other or None not in seen
    assert {path.name for path in folder.iterdir() if path.name != ".unfinished"} <= {
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    }


def which_or_none(folder: Path, known: Sequence[Checkpoint]) -> int | None:
    try:
        return which(folder, *known)
    except CheckpointError as error:
        return None if str(error) == "config.json is missing; a model folder needs it." else pytest.fail(str(error))


def test_reading_never_writes(tiny_checkpoint, folder):
    """Also beside what a save in another process has in progress."""
    (folder / ".unfinished").mkdir()
    before = {path: path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}
    load_checkpoint(folder)
    assert {path: path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))} == before


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "refused"])
def test_a_write_that_ends_in_the_middle_of_any_file_keeps_the_old_model(is_killed, folder, tmp_path):
    new = other_checkpoint()
    save_checkpoint(new, tmp_path / "other")
    sizes = [path.stat().st_size for path in (tmp_path / "other").iterdir()]
    shutil.rmtree(tmp_path / "other")

    def save_with_little_room(limit: int) -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if is_killed else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return save_or_explain(new, folder, "File too large")

    for limit in {0, 1, *(size // 2 for size in sizes), max(sizes) - 1}:
        assert in_a_child(lambda limit=limit: save_with_little_room(limit)) == (-signal.SIGXFSZ if is_killed else 1)
        assert load_checkpoint(folder).config.hidden_size == 12
        assert is_killed or [path.name for path in folder.parent.iterdir()] == ["tiny"]


def test_a_save_needs_no_more_than_windows_and_macos_have(tiny_checkpoint, tmp_path, monkeypatch):
    """Without opening folders, and syncing what is open for reading only."""

    def open_file(path, flags, *arguments, **options):
        if Path(path).is_dir() and "dir_fd" not in options and not flags & os.O_NOFOLLOW:  # rmtree's are POSIX's own
            raise PermissionError(errno.EACCES, "Permission denied")
        return real_open(path, flags, *arguments, **options)

    def sync(descriptor: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        synced.append(descriptor)
        real_sync(descriptor)

    real_open, real_sync, synced = os.open, os.fsync, []
    monkeypatch.setattr(os, "fsync", sync)
    for opening in (open_file, real_open):  # then a file system that opens folders, but does not sync them
        monkeypatch.setattr(os, "open", opening)
        folder = tmp_path / opening.__name__ / "tiny"
        save_checkpoint(tiny_checkpoint, folder)
        (folder / "metrics.csv").write_text("step")
        synced.clear()
        save_checkpoint(other_checkpoint(), folder)
        assert len(synced) == 4, "every written file"
        assert load_checkpoint(folder).config.hidden_size == 10
        assert (folder / "metrics.csv").read_text() == "step"
        assert [path.name for path in folder.parent.iterdir()] == ["tiny"]


def test_a_failing_write_at_any_file_keeps_the_old_model(folder, monkeypatch):
    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for owner, name in ((checkpoint_module, "save_file"), (checkpoint_module, "small_files"), (os, "fsync")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises(CheckpointError, match=r"not saved to tiny \(No space left on device\); .* is kept"):
                save_checkpoint(other_checkpoint(), folder)
        assert load_checkpoint(folder).config.hidden_size == 12


def test_leftovers_of_a_killed_save_are_deleted(tiny_checkpoint, folder):
    (folder / ".unfinished").mkdir()
    (folder / ".unfinished" / "model.safetensors").write_bytes(b"half")
    save_checkpoint(tiny_checkpoint, folder)
    assert not (folder / ".unfinished").exists()
    assert load_checkpoint(folder).notes == ()


# --- Eval mode and devices -------------------------------------------------------------------------------------------


def dropping(config: BertConfig) -> BertForPreTraining:
    """A model that drops a lot while it is in training, as it is when it was made."""
    model = BertForPreTraining(config.replace(hidden_dropout_prob=0.4, attention_probs_dropout_prob=0.4))
    assert model.training
    return model


def test_a_checkpoint_is_asked_in_eval_mode_whatever_its_model_is_used_for(tiny_checkpoint):
    model = dropping(tiny_checkpoint.config)
    checkpoint = dataclasses.replace(tiny_checkpoint, module=model)
    text = "hello romeo my name is juliet"

    def asked() -> torch.Tensor:
        weights = torch.as_tensor(attention(checkpoint, text).weights)
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        return weights

    first = asked()
    assert torch.equal(asked(), first)
    assert model.training, "who trains it goes on with dropout"
    assert not checkpoint.model.training
    checkpoint.model.train()
    assert torch.equal(asked(), first)
    help(Checkpoint)
    checkpoint.model.bert.encoder.layer[1].train()
    assert torch.equal(asked(), first)
    with torch.no_grad():
        for parameter in model.parameters():  # a step of the training
            parameter.mul_(1.5)
    assert not torch.equal(asked(), first), "the weights are those of the model that it was given"


def test_another_device_gives_another_checkpoint_with_a_model_of_its_own(tiny_checkpoint, monkeypatch):
    monkeypatch.setattr(checkpoint_module, "choose_device", lambda device: device)
    before = {name: (id(each), each.device) for name, each in tiny_checkpoint.model.named_parameters()}
    assert tiny_checkpoint.to("cpu") is tiny_checkpoint
    moved = tiny_checkpoint.to("meta")
    assert (moved.model.device.type, moved.tokenizer, moved.name) == ("meta", tiny_checkpoint.tokenizer, "tiny")
    assert {name: (id(each), each.device) for name, each in tiny_checkpoint.model.named_parameters()} == before


def test_a_folder_of_pieces_has_a_vocabulary_that_reads_alone(tmp_path):
    """`transformers`' BertTokenizer of vocab.txt alone gives the same ids."""
    checkpoint = load_checkpoint("english-mini")
    save_checkpoint(checkpoint, tmp_path / "saved")
    lines = (tmp_path / "saved" / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert lines == [checkpoint.tokenizer.id_to_token(i) for i in range(checkpoint.config.vocab_size)]
    (tmp_path / "alone").mkdir()
    (tmp_path / "saved" / "vocab.txt").rename(tmp_path / "alone" / "vocab.txt")
    text = "The old man's handkerchief, 1999!"
    assert (
        transformers.BertTokenizer.from_pretrained(tmp_path / "alone")(text).input_ids
        == checkpoint.tokenizer.encode(text).ids
    )
    save_checkpoint(load_checkpoint("romeo-juliet"), tmp_path / "words")
    assert not (tmp_path / "words" / "vocab.txt").exists()
