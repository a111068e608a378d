"""Every stage's numbers against `transformers`: its own outputs, and its weights applied by hand."""

import copy
import dataclasses
import math
from pathlib import Path

import pytest
import torch
import transformers

from balcony.frame.question import Question
from balcony.masked_words.closer_view import closer_value
from balcony.step_by_step.tab import norms_of
from bert_core.config import BertConfig
from bert_core.data.encoding import IS_NEXT
from bert_core.data.tokenizer import MASK
from bert_core.errors import InputError
from bert_core.model import BertForPreTraining
from bert_core.probes.attention import answers
from bert_core.probes.masked_words import fill_mask, layer_lens
from bert_core.probes.sentence_pairs import next_sentence
from bert_core.probes.stages import PARTS, activations, follow, without_heads
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

SHIPPED = Path(__file__).resolve().parents[2] / "checkpoints"
TEXTS = ("hello how [MASK] you i am romeo", "hello romeo my name is juliet")


@pytest.fixture(scope="module", params=["romeo-juliet", "english-mini", "12 x 12"])
def folder(request, tmp_path_factory, word_tokenizer) -> Path:
    if request.param != "12 x 12":
        return SHIPPED / request.param
    size = word_tokenizer.get_vocab_size()
    config = BertConfig(
        vocab_size=size,
        hidden_size=144,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=200,
        hidden_act="relu",
    )
    model = BertForPreTraining(config, generator=torch.Generator().manual_seed(0)).eval()
    path = tmp_path_factory.mktemp("models") / "random"
    save_checkpoint(Checkpoint(model, word_tokenizer), path)
    return path


@pytest.fixture
def pair(folder):
    """A model here and in `transformers`, and the inputs of the latter."""
    checkpoint = load_checkpoint(folder)
    theirs = transformers.BertForPreTraining.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    ).eval()
    encoding = checkpoint.tokenizer.encode(*TEXTS)
    return (
        checkpoint,
        theirs,
        {"input_ids": torch.tensor([encoding.ids]), "token_type_ids": torch.tensor([encoding.type_ids])},
    )


@torch.no_grad()
def test_every_number_is_that_of_transformers(pair):
    checkpoint, theirs, inputs = pair
    encoding = checkpoint.tokenizer.encode(*TEXTS)
    position, layer = encoding.tokens.index(MASK), theirs.config.num_hidden_layers - 1
    out = theirs(**inputs, output_hidden_states=True, output_attentions=True)
    found = follow(checkpoint, *TEXTS, layer=layer, position=position, attending=3)
    assert (found.tokens, found.ids, found.segments) == (encoding.tokens, encoding.ids, encoding.type_ids)

    def same(ours, expected):
        torch.testing.assert_close(ours, expected.float(), rtol=1e-5, atol=1e-5)

    tables, block = theirs.bert.embeddings, theirs.bert.encoder.layer[layer]
    same(found.states, torch.cat(out.hidden_states))
    same(found.embeddings["word"], tables.word_embeddings(inputs["input_ids"])[0])
    same(found.embeddings["position"], tables.position_embeddings.weight[: len(encoding)])
    same(found.embeddings["segment"], tables.token_type_embeddings(inputs["token_type_ids"])[0])
    same(found.embeddings["sum"], sum(found.embeddings[name] for name in ("word", "position", "segment")))
    x, numbers, own = out.hidden_states[layer][0], found.layer, block.attention.self
    heads = theirs.config.num_attention_heads
    for name in ("query", "key", "value"):
        same(numbers[name], getattr(own, name)(x).view(len(x), heads, -1).transpose(0, 1))
    same(numbers["products"], torch.einsum("hid,hjd->hij", numbers["query"], numbers["key"]))
    same(numbers["scores"], numbers["products"] / math.sqrt(x.shape[1] // heads))
    same(found.attention, torch.stack([each[0, :, 3] for each in out.attentions]))
    same(numbers["weights"], out.attentions[layer][0])
    same(numbers["context"], torch.einsum("hij,hjd->hid", numbers["weights"], numbers["value"]))
    joined = torch.cat(list(numbers["context"]), 1)
    same(numbers["joined"], joined)
    same(numbers["projected"], block.attention.output.dense(joined))
    same(numbers["attention_sum"], x + numbers["projected"])
    same(numbers["attended"], block.attention(x[None])[0][0])
    same(numbers["inner"], block.intermediate.dense(numbers["attended"]))
    same(numbers["activated"], block.intermediate(numbers["attended"]))
    same(numbers["fed"], block.output.dense(numbers["activated"]))
    same(numbers["output_sum"], numbers["attended"] + numbers["fed"])
    same(numbers["output"], out.hidden_states[layer + 1][0])

    transform = theirs.cls.predictions.transform
    same(found.words["dense"], transform.dense(out.hidden_states[-1][0, position]))
    same(found.words["activated"], transform.transform_act_fn(found.words["dense"]))
    same(found.words["transformed"], transform(out.hidden_states[-1][0, position]))
    logits = out.prediction_logits[0, position]
    same(found.words["logits"], logits[: len(found.words["logits"])])
    same(found.words["log_probabilities"], logits.log_softmax(-1)[: len(found.words["logits"])])
    by_layer = theirs.cls.predictions(torch.cat(out.hidden_states)[:, position]).log_softmax(-1)
    same(found.words["by_layer"], by_layer[:, : len(found.words["logits"])])
    # The path of a pressed guess, as the page shows it.
    lens, token = closer_value(checkpoint, Question(*TEXTS, view="lens", guess="are")), checkpoint.tokenizer.token_to_id
    assert lens["watched"] == "are"
    column, path = lens["candidates"].index("are"), by_layer[:, token("are")]
    same(torch.tensor([row["cells"][column] for row in lens["rows"]]), path.exp())
    assert [row["rank"] for row in lens["rows"]] == ((by_layer > path[:, None]).sum(1) + 1).tolist()
    assert lens["size"] == logits.numel()
    same(found.pooled, theirs.bert.pooler(out.hidden_states[-1])[0])
    same(found.pair["logits"], out.seq_relationship_logits[0])
    same(found.pair["probabilities"], out.seq_relationship_logits.softmax(-1)[0])
    for name, before, after in [
        ("embeddings", found.embeddings["sum"], found.states[0]),
        ("attention", numbers["attention_sum"], numbers["attended"]),
        ("output", numbers["output_sum"], numbers["output"]),
        ("transform", found.words["activated"], found.words["transformed"]),
    ]:
        deviation = (before.var(-1, correction=0, keepdim=True) + theirs.config.layer_norm_eps).sqrt()
        norm = norms_of(checkpoint, layer)[name]
        same((before - before.mean(-1, keepdim=True)) / deviation * norm.weight + norm.bias, after)


def test_it_agrees_with_the_other_probes_and_with_heads_off(tiny_checkpoint):
    position = follow(tiny_checkpoint, *TEXTS).tokens.index(MASK)
    found = follow(tiny_checkpoint, *TEXTS, position=position)
    [[(best, probability)]] = fill_mask(tiny_checkpoint, *TEXTS, top_k=1)
    token = tiny_checkpoint.tokenizer.token_to_id(best)
    assert found.words["log_probabilities"][token].exp().item() == pytest.approx(probability, abs=1e-5)
    lens = layer_lens(tiny_checkpoint, *TEXTS, top_k=1)
    torch.testing.assert_close(found.words["by_layer"][:, token].exp(), lens.probabilities[:, 0], rtol=0, atol=1e-5)
    assert found.pair["probabilities"][IS_NEXT].item() == pytest.approx(
        next_sentence(tiny_checkpoint, *TEXTS), abs=1e-5
    )
    off = [(0, 1), (1, 2)]
    answer, _ = answers(tiny_checkpoint, *TEXTS, position=position)
    _, expected = answers(without_heads(tiny_checkpoint, off), *TEXTS, position=position, answer=answer)
    less = follow(without_heads(tiny_checkpoint, off), *TEXTS, position=position)
    token = tiny_checkpoint.tokenizer.token_to_id(answer)
    assert less.words["log_probabilities"][token].exp().item() == pytest.approx(expected["word"], abs=1e-5)
    assert less.pair["probabilities"][IS_NEXT].item() == pytest.approx(expected["is_next"], abs=1e-5)
    assert less.layer["context"][1].abs().max() == 0 != less.layer["context"][0].abs().max()


def test_a_part_set_to_zero_adds_nothing(tiny_checkpoint):
    whole = follow(tiny_checkpoint, *TEXTS, layer=1)
    for part, (block, added) in enumerate([("projected", 1), ("attention_sum", 0), ("fed", 1), ("output_sum", 0)]):
        numbers = follow(without_heads(tiny_checkpoint, [], [(1, part)]), *TEXTS, layer=1).layer
        if added:
            assert numbers[block].abs().max() == 0, PARTS[part]
        else:
            assert torch.equal(numbers[block], numbers["projected" if part == 1 else "fed"]), PARTS[part]
        assert not torch.allclose(numbers["output"], whole.layer["output"])
    first = follow(without_heads(tiny_checkpoint, [], [(0, 2)]), *TEXTS, layer=1)
    assert not torch.allclose(first.states[1], whole.states[1])


def test_position_and_segment_vectors_set_to_zero_are_left_out_of_the_sum(tiny_checkpoint):
    whole = follow(tiny_checkpoint, *TEXTS).embeddings
    for part, name, others in ((4, "position", ("word", "segment")), (5, "segment", ("word", "position"))):
        found = follow(without_heads(tiny_checkpoint, [], [(0, part)]), *TEXTS)
        assert not found.embeddings[name].any()
        assert whole[name].any()
        total = sum(whole[each] for each in others)
        assert torch.allclose(found.embeddings["sum"], total)
        norm = tiny_checkpoint.model.bert.embeddings.LayerNorm
        assert torch.allclose(found.states[0], norm(total), atol=1e-6)


def test_a_model_without_output_heads_has_no_scores(tiny_checkpoint):
    bare = Checkpoint(tiny_checkpoint.model, tiny_checkpoint.tokenizer, missing=frozenset({"mlm", "nsp"}))
    found = follow(bare, TEXTS[0], position=1)
    assert (found.words, found.pair) == ({}, {})


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("hello", {"layer": 2}, "no layer 3"),
        ("hello", {"position": 3}, "3 tokens, and no token 3"),
        ("hello", {"attending": 3}, "3 tokens, and no token 3"),
        ("", {}, "no word"),
        ("you " * 40, {}, "the model reads 17"),
    ],
)
def test_what_cannot_be_followed_is_refused(text, options, message, tiny_checkpoint):
    with pytest.raises(InputError, match=message):
        follow(tiny_checkpoint, text, **options)


@pytest.mark.parametrize("part", [(0, 6), (1, 4)])
def test_a_part_that_is_missing_is_refused(part, tiny_checkpoint):
    with pytest.raises(InputError, match="part to set to zero"):
        without_heads(tiny_checkpoint, [], [part])


def test_a_wide_model_over_many_tokens_is_refused_before_its_weights_are_made(monkeypatch, tiny_checkpoint):
    monkeypatch.setattr("bert_core.probes.forward.MOST_WEIGHTS", 100)
    with pytest.raises(InputError, match="Shorten the text to 4 tokens"):
        follow(tiny_checkpoint, *TEXTS)


def hooked(theirs, layer):
    """The modules of transformers, and the names of what goes in (0) or comes out (1), as (T, D) each."""
    block = theirs.bert.encoder.layer[layer]
    return {
        "attn.hook_q": (block.attention.self.query, 1),
        "attn.hook_k": (block.attention.self.key, 1),
        "attn.hook_v": (block.attention.self.value, 1),
        "attn.hook_z": (block.attention.output.dense, 0),
        "hook_attn_out": (block.attention.output.dense, 1),
        "hook_resid_mid": (block.attention.output.LayerNorm, 0),
        "ln1.hook_normalized": (block.attention.output.LayerNorm, 1),
        "mlp.hook_pre": (block.intermediate.dense, 1),
        "mlp.hook_post": (block.output.dense, 0),
        "hook_mlp_out": (block.output.dense, 1),
        "hook_resid_post": (block.output.LayerNorm, 0),
        "hook_normalized_resid_post": (block.output.LayerNorm, 1),
    }


def exact(pair):
    """The same in float64, where the order of a sum, which differs from processor to processor, hardly counts."""
    checkpoint, theirs, inputs = copy.deepcopy(pair)
    return dataclasses.replace(checkpoint, module=checkpoint.model.double()), theirs.double(), inputs


@torch.no_grad()
def test_every_activation_has_its_name_and_is_that_of_transformers(pair):
    checkpoint, theirs, inputs = exact(pair)
    expected, handles = {}, []
    for layer in range(theirs.config.num_hidden_layers):
        for name, (module, is_output) in hooked(theirs, layer).items():

            def keep(module, given, result, name=f"blocks.{layer}.{name}", is_output=is_output):
                expected[name] = (result if is_output else given[0])[0]

            handles.append(module.register_forward_hook(keep))
    out = theirs(**inputs, output_hidden_states=True, output_attentions=True)
    tables = theirs.bert.embeddings
    T = inputs["input_ids"].shape[1]
    expected |= {"embed.hook_embed": tables.word_embeddings(inputs["input_ids"])[0]}
    expected |= {"embed.hook_pos_embed": tables.position_embeddings.weight[:T]}
    expected |= {"embed.hook_token_type_embed": tables.token_type_embeddings(inputs["token_type_ids"])[0]}
    expected |= {"hook_full_embed": out.hidden_states[0][0], "nsp_logits": out.seq_relationship_logits[0]}
    expected |= {"logits": out.prediction_logits[0, :, : checkpoint.tokenizer.get_vocab_size()]}
    for layer, weights in enumerate(out.attentions):
        expected[f"blocks.{layer}.hook_resid_pre"] = out.hidden_states[layer][0]
        expected[f"blocks.{layer}.attn.hook_pattern"] = weights[0]
    found = activations(checkpoint, *TEXTS)
    scores = {name for name in found if name.endswith("hook_attn_scores")}
    assert found.keys() - scores == expected.keys()
    for name, value in expected.items():
        size = max(1.0, value.abs().max().item())
        ours = found[name].reshape(value.shape)
        torch.testing.assert_close(ours, value, rtol=0, atol=1e-6 * size, msg=name, check_dtype=False)
    for name in scores:
        torch.testing.assert_close(found[name].softmax(-1), found[name.replace("attn_scores", "pattern")])
    heads, width = theirs.config.num_attention_heads, theirs.config.hidden_size
    assert found["blocks.0.attn.hook_z"].shape == (T, heads, width // heads)


@torch.no_grad()
def test_a_patched_activation_changes_the_answers_as_in_transformers(pair):
    checkpoint, theirs, inputs = exact(pair)
    layer = theirs.config.num_hidden_layers - 1
    for name, (module, is_output) in hooked(theirs, layer).items():
        hook = f"blocks.{layer}.{name}"
        own = activations(checkpoint, *TEXTS, names=[hook])[hook]
        patch = own.roll(1, 0)  # of the token before
        flat = patch.flatten(1)[None].double()

        def put(module, given, result=None, patch=flat):
            return patch if result is not None else (patch, *given[1:])

        register = module.register_forward_hook if is_output else module.register_forward_pre_hook
        handle = register(put)
        out = theirs(**inputs)
        handle.remove()
        found = activations(checkpoint, *TEXTS, names=["*logits"], patches={hook: patch})
        expected = out.prediction_logits[0, :, : found["logits"].shape[1]].float()
        torch.testing.assert_close(found["logits"], expected, rtol=1e-5, atol=2e-5, msg=name)
        pairs = out.seq_relationship_logits[0].float()
        torch.testing.assert_close(found["nsp_logits"], pairs, rtol=1e-5, atol=2e-5, msg=name)


def test_the_embeddings_of_another_text_give_its_answers_and_a_function_makes_a_patch(tiny_checkpoint):
    other = "thank you romeo oh juliet great i", "hello romeo my name is juliet"
    names = ["hook_full_embed", "logits", "nsp_logits"]
    ours, theirs = activations(tiny_checkpoint, *TEXTS, names=names), activations(tiny_checkpoint, *other, names=names)
    assert list(ours) == names
    patched = activations(tiny_checkpoint, *TEXTS, names=names, patches={"hook_full_embed": theirs["hook_full_embed"]})
    for name in names:
        assert torch.equal(patched[name], theirs[name])
        assert not torch.equal(patched[name], ours[name])

    def without_head(z):  # (T, H, d)
        z[:, 1] = 0
        return z

    off = activations(tiny_checkpoint, *TEXTS, names=["logits"], patches={"blocks.0.attn.hook_z": without_head})
    position = follow(tiny_checkpoint, *TEXTS).tokens.index(MASK)
    less = follow(without_heads(tiny_checkpoint, [(0, 1)]), *TEXTS, position=position)
    torch.testing.assert_close(off["logits"][position], less.words["logits"])
    uniform = activations(
        tiny_checkpoint,
        *TEXTS,
        patches={"blocks.1.attn.hook_attn_scores": torch.zeros_like},
        names=["blocks.1.*pattern"],
    )
    assert (uniform["blocks.1.attn.hook_pattern"] == 1 / len(off["logits"])).all()
    assert activations(tiny_checkpoint, TEXTS[0], names=[]) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"names": ["blocks.2.hook_mlp_out"]},
            r"no activation 'blocks\.2\.hook_mlp_out'; .*blocks\.0 to blocks\.1, hook_resid",
        ),
        ({"names": ["nsp_logits"]}, "no activation 'nsp_logits'"),
        ({"patches": {"logits": torch.ones(3)}}, "no activation 'logits'"),
        ({"patches": {"blocks.*.hook_mlp_out": torch.ones(3)}}, "no activation 'blocks"),
        ({"patches": {"hook_full_embed": torch.ones(3)}}, r"has the shape \(3,\); it must be .*\(\d+, 12\)"),
        ({"patches": {"hook_full_embed": len}}, "has the type int; it must be a tensor"),
    ],
)
def test_an_unknown_activation_or_a_patch_that_does_not_fit_is_named(tiny_checkpoint, options, message):
    bare = Checkpoint(tiny_checkpoint.model, tiny_checkpoint.tokenizer, missing=frozenset({"nsp"}))
    with pytest.raises(InputError, match=message):
        activations(bare, TEXTS[0], **options)
