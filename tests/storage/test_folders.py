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

from balcony.server.files import unpack
from bert_core.data.tokenizer import SPECIAL_TOKENS
from bert_core.errors import CheckpointError
from bert_core.storage.checkpoint import load_checkpoint, save_checkpoint
from bert_core.tasks.prediction import predict

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


def same_ids(folder: Path) -> None:
    ours, theirs = load_checkpoint(folder).tokenizer, transformers.AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        assert ours.encode(text).ids == theirs(text)["input_ids"], text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("added_tokens.json", {"covid": 13, "[E1]": 14}),
        ("special_tokens_map.json", {"additional_special_tokens": ["[E1]"]}),
        ("special_tokens_map.json", {"bos_token": {"content": "[E1]", "special": True}}),
        ("special_tokens_map.json", {"cls_token": "[E1]"}),
        ("tokenizer_config.json", {"additional_special_tokens": [{"content": "[E1]"}]}),
        ("tokenizer_config.json", {"extra_special_tokens": {"first_token": "[E1]"}}),
        ("tokenizer_config.json", {"extra_special_tokens": ["[E1]"]}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"13": {"content": "[E1]"}}}),
        ("tokenizer_config.json", {"mask_token": "[E1]"}),
        ("tokenizer_config.json", {"entity_token": "[E1]"}),
    ],
)
def test_tokens_beside_the_vocabulary_are_refused_by_name_in_every_spelling(name, content, write, tmp_path):
    folder = write()
    (folder / name).write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=rf"^{name}: .*\[E1\]"):
        load_checkpoint(folder)
    shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
    unpack(tmp_path / "packed.zip", tmp_path / "unpacked")
    with pytest.raises(CheckpointError, match=rf"^{name}: .*\[E1\]"):
        load_checkpoint(tmp_path / "unpacked")


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
    same_ids(folder)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    same_ids(folder)


def test_a_token_on_several_lines_has_the_id_of_the_last_as_in_transformers(write, tmp_path):
    folder = write([*SPECIAL_TOKENS, "", "a", "b", "", "c", "a", "##b", "[MASK]", ""])
    checkpoint = load_checkpoint(folder)
    same_ids(folder)
    assert "the id of line 5 ('[MASK]'), 6 (''), 7 ('a') and 1 more" in checkpoint.notes[0]
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
        ({"num_labels": 3, "id2label": {"0": "a", "1": "b"}}, "each of its 3 outputs"),
        ({"num_labels": 0}, "num_labels 0"),
        ({"problem_type": "multi_label_classification"}, "several labels, which this program does not support"),
        ({"num_labels": "3"}, "num_labels '3'"),
        ({"num_labels": 10**9}, "from 1 to 10,000"),
        ({"id2label": {}}, "a name for each"),
        ({"id2label": 2}, "a name for each"),
        ({"id2label": {"0": "a", "2": "b"}}, "a name for each"),
    ],
)
def test_labels_that_do_not_fit_are_refused(settings, message, write):
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(write(cls="BertForSequenceClassification", **settings))


def test_outputs_with_the_same_label_keep_their_probabilities(write, tmp_path):
    names = dict(enumerate(["good", "bad", "good", "good (2)", "good"]))
    folder = write(cls="BertForSequenceClassification", outputs=5, id2label=names)
    checkpoint = load_checkpoint(folder)
    assert checkpoint.head.labels == ("good", "bad", "good (2)", "good (2) (3)", "good (4)")
    [answer] = predict(checkpoint, ["a b"])
    model, tokenizer = (
        transformers.BertForSequenceClassification.from_pretrained(folder),
        transformers.AutoTokenizer.from_pretrained(folder),
    )
    logits = model.eval()(**tokenizer("a b", return_tensors="pt")).logits
    probabilities = answer.probabilities
    assert list(probabilities) == pytest.approx(logits.softmax(-1)[0].tolist(), abs=1e-5)
    assert sum(probabilities) == pytest.approx(1, abs=1e-4)


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
    with pytest.raises(CheckpointError, match="neither BERT's nor one of this project's"):
        load_checkpoint(folder)


def test_what_a_tokenizer_json_puts_around_texts_is_said(tmp_path):
    theirs, notes = from_scratch(), []
    theirs.normalizer, theirs.pre_tokenizer = (
        normalizers.BertNormalizer(lowercase=False),
        pre_tokenizers.BertPreTokenizer(),
    )
    theirs.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for framed in (True, False):
        if not framed:
            theirs.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B")
        theirs.save(str(tmp_path / "tokenizer.json"))
        load_tokenizer(tmp_path / "tokenizer.json", settings, note=notes.append)
        assert len(notes) == (not framed)
    assert "does not put [CLS] and [SEP] around texts" in notes[0]


def test_a_tokenizer_json_that_berts_class_replaces_is_read_as_transformers_reads_it_and_said(write):
    folder = write([f"{i}" for i in range(90)])
    (folder / "vocab.txt").unlink()
    from_scratch(normalizers.Lowercase()).save(str(folder / "tokenizer.json"))
    same_ids(folder)
    assert "BERT's is used" in load_checkpoint(folder).notes[0]
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    same_ids(folder)
    assert "BERT's is used" not in " ".join(load_checkpoint(folder).notes)


def test_another_longest_word_is_refused(tmp_path):
    content = json.loads(from_scratch().to_str())
    content["model"]["max_input_chars_per_word"] = 50
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="max_input_chars_per_word is 50; it must be 100"):
        load_tokenizer(tmp_path / "tokenizer.json", {"tokenizer_class": "PreTrainedTokenizerFast"})


ODD = [
    ({"architectures": ["BertForTopics"]}, "The files have an output layer (classifier) that is left out, since"),
    (
        {"architectures": ["BertModel", "BertForSequenceClassification"]},
        "an output layer (classifier) that is left out",
    ),
    ({"num_attention_heads": None}, "config.json lacks num_attention_heads; BERT's 12 is used."),
]


@pytest.mark.parametrize(("settings", "note"), ODD)
def test_what_is_guessed_or_left_out_of_a_folder_is_said(settings, note, write):
    checkpoint = load_checkpoint(write(cls="BertForSequenceClassification", **settings))
    assert any(note in each for each in checkpoint.notes), checkpoint.notes


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({"label2id": {"bad": 0, "good": 1}}, ("bad", "good")),
        ({"id2label": {"0": "bad", "1": "good"}, "label2id": {"good": 0, "bad": 1}}, ("bad", "good")),
        ({"id2label": {"0": None, "1": "good"}}, ("LABEL_0", "good")),
    ],
)
def test_labels_are_named_as_well_as_the_config_allows(settings, labels, write):
    assert load_checkpoint(write(cls="BertForSequenceClassification", **settings)).head.labels == labels


@pytest.mark.parametrize("settings", [{}, {"id2label": {"0": "bad", "1": "good"}, "label2id": {"bad": 0, "good": 1}}])
def test_nothing_is_said_of_a_plain_folder(settings, write):
    notes = load_checkpoint(write(cls="BertForSequenceClassification", **settings)).notes
    assert [note for note in notes if "lack" not in note and "no text" not in note] == []


def test_tokens_that_no_text_can_have_are_counted(write):
    folder = write([*PIECES[:-2], "Anna", "café"])
    said = "No text has 2 of the 13 tokens, such as 'Anna', because capitals or accents are taken from texts"
    assert any(note.startswith(said) for note in load_checkpoint(folder).notes)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not any("No text has" in note for note in load_checkpoint(folder).notes)
    blank = load_checkpoint(write([*PIECES, "", ""])).notes
    assert any("repeats tokens" in note for note in blank)
    assert not any("No text has" in note for note in blank)


def test_a_recipe_that_cannot_be_read_is_said(write):
    folder = write()
    (folder / "recipe.json").write_text("{nope")
    assert any(note.startswith("recipe.json is not valid JSON") for note in load_checkpoint(folder).notes)


def test_a_mark_at_the_start_of_a_file_is_no_part_of_it(write):
    folder = write()
    for name in ("config.json", "vocab.txt"):
        (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    assert load_checkpoint(folder).tokenizer.token_to_id("[PAD]") == 0


def test_parts_of_weights_without_their_index_are_named(write):
    folder = write()
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    with pytest.raises(
        CheckpointError, match=r"model-00001-of-00002\.safetensors, but no model\.safetensors\.index\.json"
    ):
        load_checkpoint(folder)
