"""The model against `transformers` as an oracle, and each mistake of the tutorials on its own."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
import transformers
from helpers import make_batch, make_model, watched
from torch import nn

from bert_core.config import BertConfig
from bert_core.model import BertForPreTraining, Packing, attend, draw

SIZES = {
    "odd": {
        "vocab_size": 31,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 20,
    },
    "relu": {
        "vocab_size": 11,
        "hidden_size": 6,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 5,
        "hidden_act": "relu",
    },
    "gelu_new": {
        "vocab_size": 10,
        "hidden_size": 9,
        "num_hidden_layers": 1,
        "num_attention_heads": 3,
        "intermediate_size": 8,
        "hidden_act": "gelu_new",
    },
    "segments": {
        "vocab_size": 13,
        "hidden_size": 10,
        "num_hidden_layers": 3,
        "num_attention_heads": 5,
        "intermediate_size": 7,
        "type_vocab_size": 3,
        "hidden_act": "tanh",
    },
    "linear": {
        "vocab_size": 9,
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 7,
        "hidden_act": "linear",
    },
}


@pytest.fixture(params=SIZES.values(), ids=SIZES.keys())
def config(request) -> BertConfig:
    return BertConfig(**request.param, max_position_embeddings=8)


def oracle_of(model: BertForPreTraining) -> transformers.BertForPreTraining:
    """The same weights in the reference implementation, whose eager attention gives maps."""
    settings = {
        name: getattr(model.config, name) for name in transformers.BertConfig().to_dict() if hasattr(model.config, name)
    }
    oracle = transformers.BertForPreTraining(transformers.BertConfig(**settings, attn_implementation="eager"))
    result = oracle.load_state_dict(model.state_dict(), strict=False)
    assert set(result.missing_keys) <= {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert not result.unexpected_keys
    return oracle.eval()


@torch.no_grad()
def test_every_number_agrees_with_transformers(config):
    model, batch = make_model(config), make_batch(config)
    ours, hidden_states, attentions = watched(model, **batch)
    theirs = oracle_of(model).forward(**batch, output_hidden_states=True, output_attentions=True)
    pooled = oracle_of(model).bert(**batch).pooler_output
    assert len(hidden_states) == config.num_hidden_layers + 1
    assert len(attentions) == config.num_hidden_layers
    for mine, other in [
        *zip(hidden_states, theirs.hidden_states, strict=True),
        *zip(attentions, theirs.attentions, strict=True),
        (ours.last_hidden_state, theirs.hidden_states[-1]),
        (ours.pooler_output, pooled),
        (ours.prediction_logits, theirs.prediction_logits),
        (ours.seq_relationship_logits, theirs.seq_relationship_logits),
    ]:
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("given", [("labels", "next_sentence_label"), ("labels",), ("next_sentence_label",), ()])
def test_the_loss_of_labels_and_its_gradients_are_those_of_transformers(config, given):
    model, batch = make_model(config), make_batch(config)
    oracle = oracle_of(model)
    words = torch.where(torch.rand(batch["input_ids"].shape) < 0.4, batch["input_ids"], -100)
    asked = {"labels": words, "next_sentence_label": torch.tensor([1, -100, 0])}
    assert (words != -100).sum() > 1
    ours, theirs = (each(**batch, **{name: asked[name] for name in given}).loss for each in (model, oracle))
    if len(given) < 2:
        assert ours is theirs is None
        return
    positions = (words.flatten() != -100).nonzero().squeeze(1)
    asked["labels"] = words.flatten()[positions]
    few = model(**batch, **asked, asked_positions=positions).loss
    for each in (ours, few):
        torch.testing.assert_close(each, theirs, rtol=0, atol=1e-6)
    for loss in (ours, theirs):
        loss.backward()
    expected = dict(oracle.named_parameters())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name].grad, rtol=0, atol=1e-6, msg=name)


@pytest.mark.parametrize(("is_packed", "is_watched"), [(False, False), (False, True), (True, False)])
@torch.no_grad()
def test_a_pooler_of_the_mean_reads_all_real_tokens_and_changes_nothing_else(config, is_packed, is_watched):
    model, batch = make_model(config.replace(pooler="mean")), make_batch(config)
    theirs, oracle, mask = oracle_of(model).bert, oracle_of(model), batch["attention_mask"]
    assert mask.sum(1).unique().numel() > 1, "the rows have other lengths"
    states = theirs(**batch).last_hidden_state
    means = torch.stack([row[: int(real)].mean(0) for row, real in zip(states, mask.sum(1))])
    pooled = theirs.pooler.activation(theirs.pooler.dense(means))
    asked = torch.tensor([1, 8])
    found = model(
        **batch,
        asked_positions=asked,
        watch=(lambda name, number: number) if is_watched else None,
        packing=Packing.of(mask) if is_packed else None,
    )
    for mine, other in [
        (found.pooler_output, pooled),
        (found.seq_relationship_logits, oracle.cls.seq_relationship(pooled)),
        (found.last_hidden_state, states.flatten(0, 1)[asked]),
        (
            model(**{**batch, "attention_mask": None}).pooler_output,
            model(**batch | {"attention_mask": mask**0}).pooler_output,
        ),
    ]:
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-5)


@torch.no_grad()
def test_fused_attention_equals_plain_products(config, monkeypatch):
    monkeypatch.setattr("bert_core.model._SHORT", 0)  # otherwise so short a text is never worth the fused kernel
    model, batch = make_model(config), make_batch(config)
    fused, (written, *_) = model(**batch), watched(model, **batch)
    torch.testing.assert_close(fused.prediction_logits, written.prediction_logits, rtol=0, atol=1e-5)
    torch.testing.assert_close(fused.seq_relationship_logits, written.seq_relationship_logits, rtol=0, atol=1e-5)


def test_attention_in_bfloat16_differs_from_the_fused_one_in_float32_by_rounding_alone():
    torch.manual_seed(0)
    is_padding = torch.arange(45) >= torch.tensor([45, 31]).view(2, 1, 1, 1)
    mask = torch.zeros(2, 1, 1, 45).masked_fill_(is_padding, -torch.inf)
    given = torch.randn(3, 2, 4, 45, 8)  # query, key and value
    direction = torch.randn(2, 4, 45, 8)

    def values(dtype):
        tensors = given.to(dtype, copy=True).requires_grad_()
        context = attend(*tensors, mask.to(dtype), 0.0)
        (context * direction).sum().backward()
        return context.float(), tensors.grad.float()

    for exact, rough in zip(values(torch.float32), values(torch.bfloat16)):
        torch.testing.assert_close(rough, exact, rtol=0, atol=0.03)
        assert not torch.equal(rough, exact)


@torch.no_grad()
def test_padding_gets_no_attention_and_changes_nothing(tiny_config):
    model = make_model(tiny_config)
    ids = torch.tensor([[2, 9, 7, 11, 3]])
    padded = torch.tensor([[2, 9, 7, 11, 3, 8, 6]])
    mask = torch.tensor([[1, 1, 1, 1, 1, 0, 0]])
    short = model(ids)
    first, _, attentions = watched(model, input_ids=padded, attention_mask=mask)
    for long in (first, model(padded, mask)):
        torch.testing.assert_close(long.prediction_logits[:, :5], short.prediction_logits, rtol=0, atol=1e-5)
        torch.testing.assert_close(long.seq_relationship_logits, short.seq_relationship_logits, rtol=0, atol=1e-5)
    for weights in attentions:
        assert weights.shape == (1, 3, 7, 7)
        assert (weights[..., 5:] == 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 3, 7))
    assert not torch.allclose(model(padded).prediction_logits[:, :5], short.prediction_logits, atol=1e-3)


@torch.no_grad()
def test_absent_mask_and_segments_mean_no_padding_and_first_segment(tiny_config):
    model, ids = make_model(tiny_config), make_batch(tiny_config)["input_ids"]
    spelled_out = model(ids, torch.ones_like(ids), torch.zeros_like(ids))
    torch.testing.assert_close(model(ids).prediction_logits, spelled_out.prediction_logits, rtol=0, atol=1e-5)
    second = model(ids, token_type_ids=torch.ones_like(ids))
    assert not torch.allclose(second.prediction_logits, spelled_out.prediction_logits, atol=1e-3)


@torch.no_grad()
def test_without_position_embeddings_the_model_does_not_see_the_order_of_tokens(tiny_config):
    ids, order = torch.tensor([[5, 6, 7, 8, 9]]), torch.tensor([2, 0, 4, 3, 1])
    for has_positions in (True, False):
        model = make_model(tiny_config)
        model.bert.embeddings.position_embeddings.weight.mul_(has_positions)
        states, moved = (model(each).last_hidden_state for each in (ids, ids[:, order]))
        assert torch.allclose(states[:, order], moved, atol=1e-5) is not has_positions


@torch.no_grad()
def test_what_watch_returns_takes_the_place_of_a_number(config):
    model, batch = make_model(config), make_batch(config)
    layer, head = config.num_hidden_layers - 1, config.num_attention_heads - 1
    size = config.hidden_size // config.num_attention_heads

    def off(name, number):
        if name == f"blocks.{layer}.attn.hook_z":
            number = number.clone()
            number[:, :, head] = 0  # (B, T, H, d)
        return number

    without = model(**batch, watch=off)

    def zero(_, inputs):
        context = inputs[0].clone()
        context[..., head * size : (head + 1) * size] = 0
        return context, *inputs[1:]

    dense = model.bert.encoder.layer[layer].attention.output.dense
    with dense.register_forward_pre_hook(zero):
        expected = model(**batch)
    torch.testing.assert_close(without.last_hidden_state, expected.last_hidden_state, rtol=0, atol=1e-5)
    torch.testing.assert_close(without.prediction_logits, expected.prediction_logits, rtol=0, atol=1e-5)
    assert not torch.allclose(without.last_hidden_state, model(**batch).last_hidden_state, atol=1e-3)


@torch.no_grad()
def test_watch_is_given_every_number_once_and_may_change_each(tiny_config):
    model, batch, names = make_model(tiny_config), make_batch(tiny_config), []
    plain = model(**batch)
    same = model(**batch, watch=lambda name, number: names.append(name) or number)
    torch.testing.assert_close(same.prediction_logits, plain.prediction_logits, rtol=0, atol=1e-5)
    assert len(names) == len(set(names)) == 4 + 15 * tiny_config.num_hidden_layers + 1 + 3
    for changed in names:
        other = model(
            **batch, watch=lambda name, number, changed=changed: number.flip(-1) if name == changed else number
        )
        scores = other.seq_relationship_logits if "pooler" in changed else other.prediction_logits
        expected = plain.seq_relationship_logits if "pooler" in changed else plain.prediction_logits
        assert not torch.allclose(scores, expected, atol=1e-4), changed


@torch.no_grad()
def test_scores_of_asked_positions_are_rows_of_all_scores(tiny_config):
    model, batch = make_model(tiny_config), make_batch(tiny_config)
    asked = torch.tensor([1, 5, 8, 20])
    some, everything = model(**batch, asked_positions=asked), model(**batch)
    assert some.prediction_logits.shape == (4, tiny_config.vocab_size)
    torch.testing.assert_close(some.prediction_logits, everything.prediction_logits.flatten(0, 1)[asked])


def test_every_parameter_exists_before_the_first_pass_and_learns(tiny_config):
    """Layers built inside forward, as in the tutorials, would be new in every pass and never learn."""
    model, batch = make_model(tiny_config), make_batch(tiny_config)
    before = dict(model.named_parameters())
    output = model(**batch)
    (output.prediction_logits.logsumexp(-1).sum() + output.seq_relationship_logits[:, 0].sum()).backward()
    assert dict(model.named_parameters()).keys() == before.keys()
    still = [name for name, p in model.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-7]
    # Softmax ignores what is added to all scores of a row, as the key's bias is.
    assert [name for name in still if not name.endswith("key.bias")] == []
    for name in ("attention.output.dense", "attention.output.LayerNorm", "output.dense", "output.LayerNorm"):
        assert f"bert.encoder.layer.1.{name}.weight" in before


@torch.no_grad()
def test_both_blocks_of_a_layer_have_their_own_residual_and_layer_norm(tiny_config):
    """A block whose projection is zero hands on LayerNorm(its input): with its own residual and its own LayerNorm."""
    model = make_model(tiny_config)
    layer, x = model.bert.encoder.layer[0], torch.randn(3 * 7, 12, generator=torch.Generator().manual_seed(5))
    for block in (layer.attention.output, layer.output):
        nn.init.zeros_(block.dense.weight)
        nn.init.zeros_(block.dense.bias)
    after_attention = layer.attention.output.LayerNorm(x)
    result = layer(x.view(3, 7, 12), None, Packing((3, 7))).flatten(0, 1)
    torch.testing.assert_close(result, layer.output.LayerNorm(after_attention))
    assert not torch.allclose(result, after_attention, atol=1e-2)


@torch.no_grad()
def test_layer_norms_use_the_epsilon_of_the_config(tiny_config):
    """1e-12 as in BERT; PyTorch's own 1e-5 would show on small numbers."""
    assert tiny_config.layer_norm_eps == 1e-12
    model = make_model(tiny_config)
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 1 + 2 * tiny_config.num_hidden_layers + 1
    small = torch.linspace(-1e-3, 1e-3, 12)
    for norm in norms:
        scaled = (norm(small) - norm.bias) / norm.weight
        assert scaled.std(unbiased=False).item() == pytest.approx(1, abs=1e-4)


def test_gelu_is_the_exact_one(tiny_config):
    layer = make_model(tiny_config).bert.encoder.layer[0]
    x = torch.linspace(-3, 3, 25, dtype=torch.float64)
    torch.testing.assert_close(layer.activation(x), x * 0.5 * (1 + torch.erf(x / 2**0.5)), rtol=0, atol=1e-12)


def test_gelu_new_is_gpts_by_tanh(tiny_config):
    """Radford et al. 2018; another form than BERT's, by up to 0.0005."""
    layer = make_model(tiny_config.replace(hidden_act="gelu_new")).bert.encoder.layer[0]
    x = torch.linspace(-3, 3, 25, dtype=torch.float64)
    by_hand = x * 0.5 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))
    torch.testing.assert_close(layer.activation(x), by_hand, rtol=0, atol=1e-12)
    torch.testing.assert_close(layer.activation(x), F.gelu(x, approximate="tanh"), rtol=0, atol=0)
    assert 0.0003 < (layer.activation(x) - F.gelu(x)).abs().max() < 0.0005


def test_weights_start_as_truncated_normal_numbers():
    config = BertConfig(vocab_size=2000, hidden_size=64, num_hidden_layers=1, num_attention_heads=4)
    model = BertForPreTraining(config, generator=torch.Generator().manual_seed(3))
    for name, parameter in model.state_dict().items():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
        elif "LayerNorm" in name:
            assert (parameter == 1).all(), name
        else:
            assert parameter.abs().max() <= 0.04 + 1e-6, name
        if parameter.numel() >= 4096 and "LayerNorm" not in name:
            # A normal cut at two standard deviations keeps 0.8796 of its own.
            assert parameter.std().item() == pytest.approx(0.02 * 0.8796, rel=0.04), name
            assert abs(parameter.mean().item()) < 0.001, name


def test_sinusoidal_vectors_rotate_alike_from_each_position_to_the_next(tiny_config):
    config = tiny_config.replace(initial_positions="sinusoidal")
    plain, waves = (
        BertForPreTraining(each, generator=torch.Generator().manual_seed(3)) for each in (tiny_config, config)
    )
    differing = {
        name
        for (name, drawn), (_, other) in zip(plain.named_parameters(), waves.named_parameters())
        if not torch.equal(drawn, other)
    }
    assert differing == {"bert.embeddings.position_embeddings.weight"}
    positions = waves.bert.embeddings.position_embeddings.weight.double()
    # As functions: sine of place over wavelength first, then cosine (Vaswani et al. 2017).
    place, wave = 5, 2
    angle = place / 10000 ** (2 * wave / 12)
    scale = config.initializer_range * math.sqrt(2)
    assert positions[place, wave].item() == pytest.approx(scale * math.sin(angle), rel=1e-4)
    assert positions[place, 6 + wave].item() == pytest.approx(scale * math.cos(angle), rel=1e-4)
    products = positions @ positions.T
    for distance in range(5):
        same = products.diagonal(distance)
        torch.testing.assert_close(same, same[:1].expand_as(same), rtol=1e-4, atol=1e-8)
    odd = draw("position_embeddings.weight", (4, 7), config)
    assert odd.shape == (4, 7)
    assert odd.isfinite().all()


def test_a_seed_decides_the_weights_and_the_global_generator_is_not_used(tiny_config):
    state = torch.get_rng_state()
    first, again, other = (
        BertForPreTraining(tiny_config, generator=torch.Generator().manual_seed(seed)).state_dict()
        for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["cls.seq_relationship.weight"], other["cls.seq_relationship.weight"])
    with torch.device("meta"):
        BertForPreTraining(tiny_config)
    assert torch.equal(torch.get_rng_state(), state)


def test_initial_values_are_normal_zero_or_one(tiny_config):
    config = tiny_config.replace(initializer_range=0.5)
    weight = draw("a.weight", (50, 50), config, torch.Generator().manual_seed(0))
    assert weight.abs().max() <= 1.0
    assert weight.std() > 0.4
    assert draw("a.bias", (3,), config).tolist() == [0, 0, 0]
    assert draw("LayerNorm.weight", (3,), config).tolist() == [1, 1, 1]


@torch.no_grad()
def test_dropout_works_in_training_and_is_off_otherwise(tiny_config):
    model, batch = make_model(tiny_config), make_batch(tiny_config)
    torch.testing.assert_close(model(**batch).prediction_logits, model(**batch).prediction_logits, rtol=0, atol=0)
    model.train()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert not torch.allclose(model(**batch).prediction_logits, model(**batch).prediction_logits, atol=1e-3)
    without = BertConfig(**{**vars(tiny_config), "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    model = make_model(without).train()
    torch.testing.assert_close(model(**batch).prediction_logits, model(**batch).prediction_logits, rtol=0, atol=0)


@torch.no_grad()
@pytest.mark.parametrize("watch", [None, lambda name, number: number], ids=["fused", "watched"])
def test_both_kinds_of_attention_have_dropout(tiny_config, watch):
    config = BertConfig(**{**vars(tiny_config), "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.5})
    model, batch = make_model(config).train(), make_batch(config)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first, second = (model(**batch, watch=watch).prediction_logits for _ in range(2))
    assert not torch.allclose(first, second, atol=1e-3)


def test_names_and_number_of_parameters_are_those_of_the_reference(config):
    model = make_model(config)
    names = set(oracle_of(model).state_dict())
    assert set(model.state_dict()) == names - {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert sum(parameter.numel() for parameter in model.parameters()) == config.parameter_count()


@torch.no_grad()
def test_copies_and_reloaded_weights_give_the_same_scores(tiny_config):
    model, batch = make_model(tiny_config), make_batch(tiny_config)
    copied = copy.deepcopy(model)
    for parameter in model.parameters():
        parameter.mul_(2)
    loaded = BertForPreTraining(tiny_config).eval()
    loaded.load_state_dict(model.state_dict())
    torch.testing.assert_close(loaded(**batch).prediction_logits, model(**batch).prediction_logits, rtol=0, atol=0)
    assert not torch.allclose(copied(**batch).prediction_logits, model(**batch).prediction_logits, atol=1e-3)
    assert copied.state_dict().keys() == model.state_dict().keys()


# --- What other libraries do with a module --------------------------------------------------------------------------


def test_functional_call_takes_the_names_of_the_state_dict(config):
    model, inputs = make_model(config), make_batch(config)
    changed = {name: tensor * 1.5 for name, tensor in model.state_dict().items()}
    other = make_model(config)
    other.load_state_dict(changed)
    before = model(**inputs).prediction_logits
    found = torch.func.functional_call(model, changed, kwargs=inputs, strict=True)
    torch.testing.assert_close(found.prediction_logits, other(**inputs).prediction_logits)
    torch.testing.assert_close(model(**inputs).prediction_logits, before)

    def loss(weights):
        return torch.func.functional_call(model, weights, kwargs=inputs).prediction_logits.square().mean()

    gradients = torch.func.grad(loss)(dict(model.state_dict()))
    assert gradients.keys() == model.state_dict().keys()
    assert all(gradients[f"bert.encoder.layer.0.attention.self.{name}.weight"].any() for name in ("query", "value"))


class Adapter(torch.nn.Module):
    """A low-rank change of a linear layer, as LoRA has it (Hu et al. 2021)."""

    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = torch.nn.Parameter(0.5 * torch.ones(2, base.in_features))
        self.up = torch.nn.Parameter(torch.zeros(base.out_features, 2))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def test_an_adapter_finds_query_and_value_by_name_and_learns(config):
    model, inputs = make_model(config), make_batch(config)
    before = model(**inputs).prediction_logits
    model.requires_grad_(False)
    found = [name for name, each in model.named_modules() if name.rpartition(".")[2] in ("query", "value")]
    assert len(found) == 2 * config.num_hidden_layers
    for name in found:
        assert isinstance(model.get_submodule(name), torch.nn.Linear)
        model.set_submodule(name, Adapter(model.get_submodule(name)))
    torch.testing.assert_close(model(**inputs).prediction_logits, before)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert len(learning) == 2 * len(found)
    model(**inputs).prediction_logits.square().mean().backward()
    for name in found:
        assert model.get_submodule(name).up.grad.any()
        model.get_submodule(name).up.data.add_(0.1)
    assert not torch.allclose(model(**inputs).prediction_logits, before)
