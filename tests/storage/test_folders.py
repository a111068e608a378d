"""Folders as `transformers` and `tokenizers` write and open them: the same ids and outputs, or a refusal by name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from helpers import load_tokenizer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from bert_core.data.tokenizer import SPECIAL_TOKENS
from bert_core.errors import CheckpointError
from bert_core.probes.masked_words import fill_mask
from bert_core.storage.checkpoint import load_checkpoint, save_checkpoint

PIECES = [*SPECIAL_TOKENS, *"abc", "##a", "##b", "##c", "!", "-"]
TEXTS = ["a ab! bca", "covid [E1] a", "Äb--c  C!!", "", "d a[MASK]b"]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A function that writes a random model of a class of `transformers` with a vocab.txt."""

    def written(pieces: list[str] = PIECES, cls: str = "BertForPreTraining", **settings: object) -> Path:
        torch.manual_seed(3)
        config = transformers.BertConfig(
            vocab_size=len(pieces) + 3, hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=7
        )
        folder = tmp_path / "theirs"
        shutil.rmtree(folder, ignore_errors=True)
        config.num_labels = settings.pop("outputs", 2)
        getattr(transformers, cls)(config).save_pretrained(folder)
        content = json.loads((folder / "config.json").read_text())
        for name in ("id2label", "label2id"):
            content.pop(name, None)
        (folder / "config.json").write_text(json.dumps(content | settings))
        (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        return folder

    return written


def expect_same_ids(folder: Path) -> None:
    ours, theirs = load_checkpoint(folder).tokenizer, transformers.AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        assert ours.encode(text).ids == theirs(text)["input_ids"], text


def test_tokens_beside_the_vocabulary_are_refused_by_name(write):
    folder = write()
    (folder / "added_tokens.json").write_text(json.dumps({"covid": 13, "[E1]": 14}))
    with pytest.raises(CheckpointError, match=r"tokens beside those of BERT's vocabulary \('covid', '\[E1\]'\)"):
        load_checkpoint(folder)


def test_a_folder_without_weights_opens_with_random_ones_and_says_so(write):
    folder = write(cls="BertForSequenceClassification")
    (folder / "model.safetensors").unlink()
    torch.manual_seed(5)
    model, again = load_checkpoint(folder), load_checkpoint(folder, random_weights=True)
    assert (model.random_weights, model.missing, model.head, model.recipe) == (True, frozenset(), None, None)
    assert model.notes == ("All weights are random; only the tokenizer and the sizes are those of the files.",)
    assert model.tokenizer.encode("ab").tokens == ["[CLS]", "a", "##b", "[SEP]"]
    assert all(torch.equal(first, second) for first, second in zip(model.tensors.values(), again.tensors.values()))
    assert 0.015 < float(model.tensors["bert.embeddings.word_embeddings.weight"].std()) < 0.02  # cut at two deviations
    assert len(fill_mask(model, "a [MASK]")) == 1, "its heads are random, not missing"
    save_checkpoint(model, folder)
    opened = load_checkpoint(folder)
    assert (opened.random_weights, opened.recipe) == (True, None), "nobody has trained it since"


@pytest.mark.parametrize(
    "name",
    ["pytorch_model-00001-of-00002.bin", "bert_model.ckpt.index", "tf_model.h5", "model.safetensors.index.json"],
)
def test_a_folder_with_weights_that_are_not_read_does_not_open_with_random_ones(name, write):
    folder = write()
    (folder / "model.safetensors").rename(folder / name)
    with pytest.raises(CheckpointError, match=f"but '{name}'"):
        load_checkpoint(folder)
    assert load_checkpoint(folder, random_weights=True).random_weights


@pytest.mark.parametrize("new", ["covid", "[E1]"])
def test_tokens_that_transformers_has_added_are_refused(new, write):
    folder = write()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([new]) if new == "covid" else tokenizer.add_special_tokens({"extra_special_tokens": [new]})
    tokenizer.save_pretrained(folder)
    with pytest.raises(CheckpointError, match=new.strip("[]")):
        load_checkpoint(folder)


def test_the_five_special_tokens_may_be_named_again(write):
    folder = write()
    names = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS}
    (folder / "special_tokens_map.json").write_text(json.dumps({**names, "additional_special_tokens": ["[MASK]"]}))
    (folder / "added_tokens.json").write_text(json.dumps({"[CLS]": 2}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "[SEP]", "add_bos_token": False, **names}))
    expect_same_ids(folder)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    expect_same_ids(folder)


def test_a_token_on_several_lines_has_the_id_of_the_last_as_in_transformers(write, tmp_path):
    folder = write([*SPECIAL_TOKENS, "", "a", "b", "", "c", "a", "##b", "[MASK]", ""])
    checkpoint = load_checkpoint(folder)
    expect_same_ids(folder)
    save_checkpoint(checkpoint, tmp_path / "ours")
    again = load_checkpoint(tmp_path / "ours").tokenizer
    assert [again.encode(text).ids for text in TEXTS] == [checkpoint.tokenizer.encode(text).ids for text in TEXTS]


@pytest.mark.parametrize("cls", ["BertForSequenceClassification", "BertForTokenClassification"])
@pytest.mark.parametrize("settings", [{}, {"id2label": None}, {"num_labels": 3}, {"id2label": None, "num_labels": 3}])
def test_a_model_has_as_many_labels_as_transformers_finds(cls, settings, write):
    folder = write(cls=cls, outputs=settings.get("num_labels", 2), **settings)
    theirs = getattr(transformers, cls).from_pretrained(folder)
    loaded = load_checkpoint(folder)
    assert loaded.head.labels == tuple(theirs.config.id2label.values())
    assert torch.equal(loaded.tensors["classifier.weight"], theirs.classifier.weight)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_labels": 0}, "num_labels 0"),
        ({"problem_type": "multi_label_classification"}, "problem_type 'multi_label_classification', which cannot be"),
        ({"num_labels": "3"}, "num_labels '3'"),
        ({"num_labels": 10**9}, "less than or equal to 10000"),
        ({"num_labels": 3}, r"classifier\.weight is torch.float32 \[2, 12\] instead of float32 \[3, 12\]"),
        ({"id2label": {str(i): str(i) for i in range(10_001)}}, "at most 10000 items"),
        ({"id2label": 2}, "id2label 2"),
        ({"id2label": {"0": "a", "1": "a"}}, "a name for each of its 2 outputs"),
        ({"id2label": {"0": "a", "2": "b"}}, "a name for each of its 2 outputs"),
    ],
)
def test_labels_that_do_not_fit_are_refused(settings, message, write):
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(write(cls="BertForSequenceClassification", **settings))


def from_scratch(*steps: normalizers.Normalizer) -> Tokenizer:
    """The "BERT from scratch" of the documentation of `tokenizers`, on three lines."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), *steps])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    trainer = trainers.WordPieceTrainer(
        vocab_size=90, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"], show_progress=False
    )
    tokenizer.train_from_iterator(["Hello, y'all! How are you?!", "a_b snake__case É é ñ", "don't -- stop..."], trainer)
    return tokenizer


def test_a_tokenizer_of_another_making_is_refused(write):
    folder = write([f"{i}" for i in range(90)])
    (folder / "vocab.txt").unlink()
    transformers.PreTrainedTokenizerFast(tokenizer_object=from_scratch()).save_pretrained(folder)
    with pytest.raises(CheckpointError, match="neither as BERT nor as this project does"):
        load_checkpoint(folder)


def test_a_tokenizer_json_that_berts_class_replaces_is_read_as_transformers_reads_it(write):
    folder = write([f"{i}" for i in range(90)])
    (folder / "vocab.txt").unlink()
    from_scratch(normalizers.Lowercase()).save(str(folder / "tokenizer.json"))
    expect_same_ids(folder)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    expect_same_ids(folder)


def test_another_longest_word_is_refused(tmp_path):
    content = json.loads(from_scratch().to_str())
    content["model"]["max_input_chars_per_word"] = 50
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"max_input_chars_per_word 50, .* should be 100"):
        load_tokenizer(tmp_path / "tokenizer.json", {"tokenizer_class": "PreTrainedTokenizerFast"})


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({"id2label": {"0": "bad", "1": "good"}, "label2id": {"good": 0, "bad": 1}}, ("bad", "good")),
        ({"id2label": {"1": "good", "0": 7}}, ("7", "good")),
    ],
)
def test_labels_are_named_as_well_as_the_config_allows(settings, labels, write):
    assert load_checkpoint(write(cls="BertForSequenceClassification", **settings)).head.labels == labels


@pytest.mark.parametrize("settings", [{}, {"id2label": {"0": "bad", "1": "good"}, "label2id": {"bad": 0, "good": 1}}])
def test_nothing_is_said_of_a_plain_folder(settings, write):
    notes = load_checkpoint(write(cls="BertForSequenceClassification", **settings)).notes
    assert [note for note in notes if "lack" not in note and "no text" not in note] == []


def test_a_mark_at_the_start_of_a_file_is_no_part_of_it(write):
    folder = write()
    for name in ("config.json", "vocab.txt"):
        (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    assert load_checkpoint(folder).tokenizer.token_to_id("[PAD]") == 0
