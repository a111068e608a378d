"""Models of `transformers` that are in memory: taken over with their tokenizer, or refused with the reason."""

from types import SimpleNamespace

import pytest
import torch
import transformers

from bert_core.data.tokenizer import train_tokenizer
from bert_core.errors import CheckpointError
from bert_core.probes.attention import attention
from bert_core.probes.masked_words import fill_mask
from bert_core.probes.sentence_pairs import next_sentence
from bert_core.probes.vectors import encode
from bert_core.storage.checkpoint import Checkpoint
from bert_core.storage.weights import TASK_HEADS

TEXTS = "hello romeo [MASK] name", "nice to meet you"
EXACT = {"rtol": 0, "atol": 1e-6}
CLASSES = {  # and the parts that each lacks
    "BertForPreTraining": set(),
    "BertForMaskedLM": {"pooler", "nsp"},
    "BertForNextSentencePrediction": {"mlm"},
    "BertModel": {"mlm", "nsp"},
    "BertForSequenceClassification": {"mlm", "nsp"},
    "BertForMultipleChoice": {"mlm", "nsp"},
    "BertForTokenClassification": {"pooler", "mlm", "nsp"},
    "BertForQuestionAnswering": {"pooler", "mlm", "nsp"},
}


@pytest.fixture(scope="module")
def vocabulary(dialogue, tmp_path_factory):
    """A vocab.txt of word pieces."""
    ids = train_tokenizer(dialogue, kind="wordpiece", vocab_size=70).get_vocab()
    path = tmp_path_factory.mktemp("pieces") / "vocab.txt"
    path.write_text("\n".join(sorted(ids, key=ids.get)), encoding="utf-8")
    return path


@pytest.fixture
def pieces(vocabulary):
    """A fast tokenizer."""
    return transformers.BertTokenizer(str(vocabulary))


def random_model(name: str, tokens: int, **settings: object) -> torch.nn.Module:
    torch.manual_seed(5)
    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
    sizes |= {"max_position_embeddings": 41, "initializer_range": 0.3, "attn_implementation": "eager", **settings}
    return getattr(transformers, name)(transformers.BertConfig(vocab_size=tokens, **sizes)).eval()


@pytest.mark.parametrize("name", CLASSES)
@torch.no_grad()
def test_the_probes_of_every_class_give_the_numbers_of_transformers(name, pieces):
    model = random_model(name, len(pieces))
    random_state = torch.get_rng_state()
    taken = Checkpoint.from_transformers(model, pieces)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert (taken.name, taken.missing) == (name, CLASSES[name])
    inputs = pieces(*TEXTS, return_tensors="pt")
    encoder = getattr(model, "bert", model)
    theirs = encoder(**inputs, output_attentions=True, output_hidden_states=True)
    torch.testing.assert_close(encode(taken, *TEXTS).states, torch.cat(theirs.hidden_states), **EXACT)
    maps = attention(taken, *TEXTS)
    assert maps.tokens == inputs.tokens()
    torch.testing.assert_close(maps.weights, torch.cat(theirs.attentions), **EXACT)
    answer = model(**inputs) if "mlm" not in taken.missing or "nsp" not in taken.missing else None
    if "mlm" not in taken.missing:
        logits = getattr(answer, "prediction_logits", getattr(answer, "logits", None))
        expected = logits[0, inputs.tokens().index("[MASK]")].softmax(-1)
        for token, probability in fill_mask(taken, *TEXTS, top_k=9)[0]:
            assert probability == pytest.approx(float(expected[pieces.convert_tokens_to_ids(token)]), abs=1e-6)
    if "nsp" not in taken.missing:
        logits = getattr(answer, "seq_relationship_logits", getattr(answer, "logits", None))
        assert next_sentence(taken, *TEXTS) == pytest.approx(float(logits.softmax(-1)[0, 0]), abs=1e-6)
    if head := taken.head:
        for part in (f"{TASK_HEADS[head.architecture][0]}.{each}" for each in ("weight", "bias")):
            assert torch.equal(taken.tensors[part], model.state_dict()[part])


@pytest.mark.parametrize("text", ["Hello, Romeo: my näme is 中文!", "NICE to  meet-you [MASK]"])
@pytest.mark.parametrize("kind", ["fast", "slow", "cased", "word"])
def test_the_tokenizer_gives_the_same_ids(kind, text, vocabulary, word_tokenizer):
    theirs = {
        "fast": lambda: transformers.BertTokenizer(str(vocabulary)),
        "slow": lambda: transformers.BertTokenizerLegacy(str(vocabulary)),
        "cased": lambda: transformers.BertTokenizer(str(vocabulary), do_lower_case=False),
        "word": lambda: transformers.PreTrainedTokenizerFast(tokenizer_object=word_tokenizer),
    }[kind]()
    taken = Checkpoint.from_transformers(random_model("BertForMaskedLM", len(theirs)), theirs)
    assert taken.tokenizer.encode(text, "hello").ids == theirs(text, "hello")["input_ids"]


def test_a_model_in_half_precision_that_is_being_trained_is_copied(pieces):
    model = random_model("BertForMaskedLM", len(pieces)).to(torch.bfloat16).train()
    taken = Checkpoint.from_transformers(model, pieces)
    weights = taken.model.state_dict()["bert.pooler.dense.weight"]
    assert weights.dtype == torch.float32
    assert model.training
    assert not taken.model.training
    before = fill_mask(taken, *TEXTS)
    with torch.no_grad():
        model.get_input_embeddings().weight.zero_()
    assert fill_mask(taken, *TEXTS) == before


def test_names_of_labels_and_of_the_model_come_along(pieces):
    model = random_model("BertForSequenceClassification", len(pieces), id2label={0: "sad", 1: "so-so", 2: "glad"})
    model.name_or_path = "someone/moods"
    taken = Checkpoint.from_transformers(model, pieces)
    assert (taken.name, taken.head.labels) == ("moods", ("sad", "so-so", "glad"))


def test_what_does_not_fit_is_refused_with_the_reason(pieces, monkeypatch):
    def refused(message: str, model: object, tokenizer: object = pieces) -> None:
        with pytest.raises(CheckpointError, match=f"^The model of transformers cannot be taken over.*{message}"):
            Checkpoint.from_transformers(model, tokenizer)

    model = random_model("BertForMaskedLM", len(pieces))
    refused("these are BertTokenizer and BertForMaskedLM.*in this order", pieces, model)
    refused("these are str and BertTokenizer", "bert-base-uncased")
    monkeypatch.setattr("bert_core.storage.checkpoint.save_model", None)  # nothing is written
    roberta = transformers.RobertaConfig(vocab_size=9, hidden_size=12, num_attention_heads=3, num_hidden_layers=1)
    refused("model_type 'roberta'; this program supports only 'bert'", transformers.RobertaModel(roberta))
    with torch.device("meta"):
        refused("parameters; the limit is", random_model("BertModel", 1_000_000, hidden_size=1200))
    refused("is_decoder True", random_model("BertLMHeadModel", len(pieces), is_decoder=True))
    monkeypatch.undo()
    refused("The tokenizer has .* tokens where config.json has a vocab_size of 9", random_model("BertModel", 9))
    refused("is F64 instead of", model.double())
    with torch.no_grad():
        model.float().bert.embeddings.word_embeddings.weight[3] = torch.nan
    refused("NaN or infinite", model)
    pieces.add_tokens(["<mark>"])
    refused("added tokens '<mark>' cannot be used", random_model("BertModel", len(pieces)))
    without_files = SimpleNamespace(save_pretrained=lambda folder: None)
    refused("neither tokenizer.json nor vocab.txt", random_model("BertModel", len(pieces)), without_files)
