"""Facts of hand-made heads, rollout against the paper's formula, and heads switched off, several or one at a time."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import make_model, numbers_of

from balcony.attention.values import corpus_batch
from bert_core.errors import InputError
from bert_core.model import BertForPreTraining
from bert_core.probes import patterns
from bert_core.probes.attention import AttentionMaps, ablation_map, answers, rollout, without_special
from bert_core.probes.masked_words import fill_mask
from bert_core.probes.patterns import TARGETS, above_chance, head_names
from bert_core.probes.sentence_pairs import next_sentence
from bert_core.probes.stages import without_heads
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
TEXTS = ("how are you", "i am romeo")
TOKENS = ["[CLS]", "to", "be", "to", "[SEP]", "or", "[SEP]"]
SEGMENTS = [0, 0, 0, 0, 0, 1, 1]


class Adapter(torch.nn.Module):
    """A linear layer and a change of it, as libraries of adapters put in its place."""

    def __init__(self, base):
        super().__init__()
        self.base, self.change = base, torch.nn.Linear(base.in_features, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.change(x)


def test_heads_with_an_adapter_have_the_names_of_heads_with_its_sum():
    checkpoint = load_checkpoint("english-mini")
    texts = "the king was born in the city", "he died in the old house"
    expected = head_names(checkpoint, *texts)
    for layer in checkpoint.model.bert.encoder.layer:
        for name in ("query", "key"):
            adapter = Adapter(getattr(layer.attention.self, name))
            adapter.base.weight.data -= adapter.change.weight
            setattr(layer.attention.self, name, adapter.eval())
    assert any(map(any, expected))
    assert head_names(checkpoint, *texts) == expected


def some_maps(layers: int = 3, heads: int = 2) -> AttentionMaps:
    draw = torch.Generator().manual_seed(5)
    weights = torch.rand(layers, heads, len(TOKENS), len(TOKENS), generator=draw).softmax(-1)
    return AttentionMaps(TOKENS, SEGMENTS, weights)


def one_hot(columns: list[int]) -> torch.Tensor:
    return torch.eye(len(TOKENS))[columns]


def test_a_head_of_one_pattern_is_furthest_above_chance_there():
    made = {
        "next": one_hot([1, 2, 3, 4, 5, 6, 0]),
        "previous": one_hot([0, 0, 1, 2, 3, 4, 5]),
        "same": one_hot([0, 3, 2, 1, 4, 5, 6]),
        "cls": one_hot([0] * 7),
        "sep": one_hot([4, 6, 4, 6, 4, 6, 4]),
        "other": one_hot([5, 5, 5, 5, 5, 2, 1]),
    }
    weights = torch.stack([*made.values(), torch.full((7, 7), 1 / 7)])
    above = above_chance(AttentionMaps(TOKENS, SEGMENTS, weights[None]))[:, 0]
    assert list(made) == list(TARGETS)
    assert above[:, :6].argmax(0).tolist() == list(range(6))
    assert above[:, :6].amax(0).tolist() == pytest.approx([1] * 6)
    assert above[:, 6].tolist() == pytest.approx([0] * 6, abs=1e-6)


NAMED = ("juliet", None), ("how are you", None), ("hello how are you", "i am romeo my name is juliet nice to meet")


@pytest.mark.parametrize("noise", [0, 0.2], ids=["initial", "large"])
@pytest.mark.parametrize("texts", NAMED, ids=["word", "sentence", "pair"])
def test_random_weights_give_at_most_one_head_in_fifty_a_name(texts, noise, tiny_config, word_tokenizer):
    config = tiny_config.replace(hidden_size=48, num_attention_heads=12)
    names = []
    for seed in range(60):  # 1,440 heads
        model = BertForPreTraining(config, generator=torch.Generator().manual_seed(seed)).eval()
        model = make_model(config, seed) if noise else model
        for layer in head_names(Checkpoint(model, word_tokenizer), *texts):
            names += layer
    assert sum(map(bool, names)) <= 0.02 * len(names)


@pytest.mark.parametrize("at_once", [2**24, 17**2 * 7], ids=["together", "in parts"])
def test_heads_that_learned_a_pattern_keep_their_name(at_once, monkeypatch):
    monkeypatch.setattr(patterns, "_WEIGHTS_AT_ONCE", at_once)
    checkpoint = load_checkpoint(CHECKPOINTS / "english-mini")
    first, second = head_names(checkpoint, "the king was born in the city", "he died in the old house")
    assert "next" in first
    assert {"sep", "previous"} <= set(second)


def test_weights_above_chance_by_hand():
    weights = torch.zeros(7, 7)
    weights[:, 0] = 1
    weights[1] = torch.tensor([0, 0.1, 0.2, 0.3, 0, 0.4, 0])  # the first "to"
    weights[2] = torch.tensor([0, 0.5, 0, 0.25, 0, 0, 0.25])
    above = above_chance(AttentionMaps(TOKENS, SEGMENTS, weights[None, None]))
    expected = {  # the mean weight, and that of uniform attention
        "next": ((0.2 + 0.25) / 2, 1 / 7),  # rows "to", "be": the next of the other "to" is [SEP]
        "previous": ((0.5 + 0) / 2, 1 / 7),  # rows "be" and the second "to"
        "same": ((0.1 + 0.3) / 4, 6 / 28),  # rows "to", "be", "to", "or"
        "cls": (5 / 7, 1 / 7),
        "sep": (0.25 / 7, 2 / 7),
        "other": (0.4 / 4, 6 / 28),
    }
    assert above.flatten().tolist() == pytest.approx(
        [(own - chance) / (1 - chance) for own, chance in expected.values()]
    )


def test_a_single_sentence_has_no_weight_on_another():
    above = above_chance(AttentionMaps(["[CLS]", "to", "[SEP]"], [0, 0, 0], torch.full((1, 1, 3, 3), 1 / 3)))
    assert [above[TARGETS.index(name)].item() for name in ("other", "next")] == [-1, -1]


def test_rollout_is_the_papers_formula():
    weights = some_maps().weights
    steps = [0.5 * layer.mean(0) + 0.5 * np.eye(7) for layer in weights.numpy()]
    steps = [step / step.sum(1, keepdims=True) for step in steps]
    expected = [steps[0], steps[1] @ steps[0], steps[2] @ steps[1] @ steps[0]]
    found = rollout(weights)
    np.testing.assert_allclose(found.numpy(), np.stack(expected), atol=1e-6)
    torch.testing.assert_close(found.sum(-1), torch.ones(3, 7))


def test_without_the_special_tokens_rows_sum_to_one_again():
    maps = some_maps()
    maps.weights[0, 0, 1] = torch.tensor([0.5, 0, 0, 0, 0.5, 0, 0])  # all of it on tokens that are left out
    shown = without_special(maps)
    assert (shown.tokens, shown.token_type_ids) == (["to", "be", "to", "or"], [0, 0, 0, 1])
    torch.testing.assert_close(shown.weights.sum(-1), torch.ones(3, 2, 4))
    kept = maps.weights[1, 1][[1, 2, 3, 5]][:, [1, 2, 3, 5]]
    torch.testing.assert_close(shown.weights[1, 1], kept / kept.sum(-1, keepdim=True))
    assert shown.weights[0, 0, 0].tolist() == [0.25] * 4
    with pytest.raises(InputError, match="no word"):
        without_special(AttentionMaps(["[CLS]", "[SEP]"], [0, 0], torch.full((1, 1, 2, 2), 0.5)))


def test_with_all_heads_on_the_answers_are_those_of_the_probes(tiny_checkpoint, dialogue):
    batch = corpus_batch(tiny_checkpoint, dialogue, rows=16)
    _, intact = answers(tiny_checkpoint, *TEXTS, position=2, batch=batch)
    [guesses] = fill_mask(tiny_checkpoint, "how [MASK] you", TEXTS[1], top_k=100)
    assert intact["word"] == pytest.approx(dict(guesses)["are"], abs=1e-5)
    assert intact["is_next"] == pytest.approx(next_sentence(tiny_checkpoint, *TEXTS), abs=1e-5)
    with torch.no_grad():
        mlm_loss = numbers_of(tiny_checkpoint.model, batch)[0].item()
    assert intact["loss"] == pytest.approx(mlm_loss, rel=1e-4)


def test_an_ablation_map_has_the_change_of_each_head(tiny_checkpoint):
    found = ablation_map(tiny_checkpoint, *TEXTS, position=2)
    assert {name: change.shape for name, change in found.changes.items()} == {"word": (2, 3), "is_next": (2, 3)}
    answer, off = answers(without_heads(tiny_checkpoint, [(1, 2)]), *TEXTS, position=2)
    assert answer == found.answer == "are"
    for name, change in found.changes.items():
        assert change[1, 2].item() == pytest.approx(off[name] - found.intact[name], abs=1e-5)


def test_a_checkpoint_without_heads_answers_any_question_as_with_these_heads_off(tiny_checkpoint):
    before = {name: tensor.clone() for name, tensor in tiny_checkpoint.tensors.items()}
    cut = without_heads(tiny_checkpoint, [(0, 1), (1, 2)])
    _, off = answers(cut, *TEXTS, position=2)
    [guesses] = fill_mask(cut, "how [MASK] you", TEXTS[1], top_k=100)
    assert dict(guesses)["are"] == pytest.approx(off["word"], abs=1e-6)
    assert next_sentence(cut, *TEXTS) == pytest.approx(off["is_next"], abs=1e-6)
    assert all(torch.equal(tensor, before[name]) for name, tensor in tiny_checkpoint.tensors.items())
    embeddings = "bert.embeddings.word_embeddings.weight"
    assert cut.tensors[embeddings].data_ptr() == tiny_checkpoint.tensors[embeddings].data_ptr()
    with pytest.raises(InputError, match="no head 4 in layer 1"):
        without_heads(tiny_checkpoint, [(0, 3)])


def test_at_a_typed_mask_the_best_guess_is_rated(tiny_checkpoint):
    [[(word, probability), *_]] = fill_mask(tiny_checkpoint, "how [MASK] you")
    answer, found = answers(tiny_checkpoint, "how [MASK] you", position=2)
    assert (answer, found["word"]) == (word, pytest.approx(probability, abs=1e-5))
    assert "is_next" not in found, "one sentence is not a pair"


def test_a_model_without_its_heads_answers_none(tiny_checkpoint, dialogue):
    batch = corpus_batch(tiny_checkpoint, dialogue, rows=16)
    bare = dataclasses.replace(tiny_checkpoint, missing=frozenset({"mlm", "nsp"}))
    assert ablation_map(bare, *TEXTS, position=2, batch=batch).changes == {}


def test_positions_and_heads_that_do_not_exist_are_refused(tiny_checkpoint):
    for position in (0, 4, 99, -1):
        with pytest.raises(InputError, match="not a word"):
            answers(tiny_checkpoint, *TEXTS, position=position)
    for head in ((2, 0), (0, 3), (-1, 0)):
        with pytest.raises(InputError, match="2 layers of 3 heads"):
            without_heads(tiny_checkpoint, [head])
