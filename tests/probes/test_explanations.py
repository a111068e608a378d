"""Explanations against `transformers`, PyTorch and cases worked by hand, and what random ones must not pass."""

import math
from dataclasses import replace

import pytest
import torch
import transformers
from helpers import make_model

from bert_core.config import BertConfig
from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import MASK, train_tokenizer
from bert_core.errors import InputError
from bert_core.probes.attention import attention, rollout
from bert_core.probes.explanations import (
    METHODS,
    ORDERS,
    STEPS,
    Explanation,
    deletion,
    explain,
    rank_correlations,
    trial_texts,
)
from bert_core.probes.masked_words import fill_mask, rate_guess
from bert_core.probes.stages import activations, without_heads
from bert_core.storage.checkpoint import Checkpoint, save_checkpoint

TEXTS = ("Oh [MASK] [MASK] Juliet, congratulations", "how are me")
LONG = ("hello my name is [MASK] nice to meet you", "thank you romeo")


@pytest.fixture
def piece_checkpoint(dialogue) -> Checkpoint:
    """A small model that reads pieces of words, and whose embedding has more rows than there are tokens."""
    tokenizer = train_tokenizer(dialogue, kind="wordpiece", vocab_size=60)
    config = BertConfig(vocab_size=67, hidden_size=12, num_attention_heads=3, max_position_embeddings=40)
    return Checkpoint(make_model(config), tokenizer)


def by_method(found: Explanation) -> dict[str, torch.Tensor]:
    return dict(zip(METHODS, found.shares, strict=True))


def test_gradients_are_those_of_transformers_with_captums_definitions(piece_checkpoint, tmp_path):
    save_checkpoint(piece_checkpoint, tmp_path)
    model = transformers.BertForMaskedLM.from_pretrained(tmp_path).eval()
    found = explain(piece_checkpoint, *TEXTS, mask=1, answer="you")
    encoding = piece_checkpoint.tokenizer.encode(*TEXTS)
    at = [i for i, token in enumerate(encoding.tokens) if token == MASK][1]
    ids = torch.tensor(encoding.ids)
    hidden = ids.clone()
    for word in found.words:
        hidden[word.first : word.last] = piece_checkpoint.tokenizer.token_to_id(MASK)
    embeddings, segments = model.get_input_embeddings(), torch.tensor([encoding.type_ids])
    you = piece_checkpoint.tokenizer.token_to_id("you")

    def log_p(vectors: torch.Tensor) -> torch.Tensor:
        return model(inputs_embeds=vectors[None], token_type_ids=segments).logits[0, at].log_softmax(-1)[you]

    def slope(vectors: torch.Tensor) -> torch.Tensor:
        vectors = vectors.detach().requires_grad_()
        return torch.autograd.grad(log_p(vectors), vectors)[0]

    text, baseline = embeddings(ids).detach(), embeddings(hidden).detach()
    # captum.attr: InputXGradient, and IntegratedGradients with method="riemann_middle"
    times_input = (text * slope(text)).sum(-1)
    alphas = [(step + 0.5) / STEPS for step in range(STEPS)]
    scaled = sum(slope(baseline + alpha * (text - baseline)) for alpha in alphas) / STEPS
    integrated = ((text - baseline) * scaled).sum(-1)
    for name, tokens in (("gradient", times_input), ("integrated", integrated)):
        expected = torch.stack([tokens[word.first : word.last].sum() for word in found.words]).float()
        torch.testing.assert_close(by_method(found)[name], expected, atol=1e-5, rtol=1e-4)
        others = found.others[METHODS.index(name)].item()
        assert others == pytest.approx(tokens.sum().item() - expected.sum().item(), abs=1e-5)
    assert found.log_probability == pytest.approx(log_p(text).item(), abs=1e-5)
    assert found.hidden == pytest.approx(log_p(baseline).item(), abs=1e-5)
    assert found.error == pytest.approx(integrated.sum().item() - found.log_probability + found.hidden, abs=1e-5)
    # Complete, as far as the steps go: with many, the sum is the difference.
    ways = ((torch.arange(400) + 0.5) / 400)[:, None, None]
    between = (baseline + ways * (text - baseline)).requires_grad_()
    logits = model(inputs_embeds=between, token_type_ids=segments.expand(400, -1)).logits[:, at]
    [slopes] = torch.autograd.grad(logits.log_softmax(-1)[:, you].sum(), between)
    exact = ((text - baseline) * slopes.mean(0)).sum().item()
    assert exact == pytest.approx(found.log_probability - found.hidden, abs=1e-3)


def test_each_other_word_is_left_out_once_with_all_its_pieces(piece_checkpoint):
    found = explain(piece_checkpoint, *TEXTS, mask=1, answer="you")
    assert [word.text for word in found.words] == ["Oh", "Juliet", ",", "congratulations", "how", "are", "me"]
    assert max(len(word.pieces) for word in found.words) > 2
    for word, fall in zip(found.words, by_method(found)["left_out"].tolist(), strict=True):
        texts = list(TEXTS)
        masks = " ".join([MASK] * len(word.pieces))
        texts[word.sentence] = texts[word.sentence][: word.start] + masks + texts[word.sentence][word.end :]
        at = len(word.pieces) + 1 if word.text == "Oh" else 1
        without = rate_guess(piece_checkpoint, "you", *texts, mask=at).log_probability
        assert fall == pytest.approx(found.log_probability - without, abs=1e-5)


def test_the_likeliest_guess_is_explained_and_a_word_of_pieces_as_a_whole(piece_checkpoint):
    [(best, probability)] = fill_mask(piece_checkpoint, "how are [MASK]", top_k=1)[0]
    found = explain(piece_checkpoint, "how are [MASK]")
    assert (found.answer, math.exp(found.log_probability)) == ((best,), pytest.approx(probability, rel=1e-4))
    found = explain(piece_checkpoint, "how are [MASK] [MASK] [MASK]", answer="Romeo")
    rated = rate_guess(piece_checkpoint, "Romeo", "how are [MASK] [MASK] [MASK]")
    assert (found.answer, found.log_probability) == (rated.pieces, pytest.approx(rated.log_probability, abs=1e-5))
    assert len(found.answer) == 2


def test_norms_of_two_numbers_worked_by_hand():
    """LayerNorm makes (1, -1) of one word and (-1, 1) of all else; attention is uniform. The value is the input plus
    (1, 0), times 1 and 2: (2, -2) of length 2.83 for the word, (0, 2) of length 2 for the four others."""
    tokenizer = train_tokenizer(Corpus.from_text("one two"))
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=2, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=3, max_position_embeddings=9, use_position_embeddings=False, use_token_type_embeddings=False,
    )  # fmt: skip
    model = make_model(config)
    layer = model.bert.encoder.layer[0].attention
    with torch.no_grad():
        for each in (layer.self.query, layer.self.key):
            each.weight.zero_()
            each.bias.zero_()
        layer.self.value.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        layer.self.value.bias.copy_(torch.tensor([1.0, 0.0]))
        layer.output.dense.weight.copy_(torch.eye(2))
        layer.output.dense.bias.fill_(7.0)  # belongs to no token
        model.bert.embeddings.word_embeddings.weight.copy_(torch.tensor([-3.0, 3.0]))
        model.bert.embeddings.word_embeddings.weight[tokenizer.token_to_id("two")] = torch.tensor([3.0, -3.0])
        model.bert.embeddings.LayerNorm.weight.fill_(1.0)
        model.bert.embeddings.LayerNorm.bias.zero_()
        for table in (model.bert.embeddings.position_embeddings, model.bert.embeddings.token_type_embeddings):
            table.weight.zero_()
    found = by_method(explain(Checkpoint(model, tokenizer), "one [MASK] two"))
    all_norms = 2 * math.sqrt(2) + 4 * 2
    expected = [0.5 * 2 / all_norms, 0.5 * 2 * math.sqrt(2) / all_norms]
    assert found["norms"].tolist() == pytest.approx(expected, abs=1e-5)
    assert found["rollout"].tolist() == pytest.approx([0.1, 0.1], abs=1e-5)


@pytest.mark.parametrize("off", [(), ((0, 1), (1, 2))])
def test_attention_and_norms_word_by_word(tiny_checkpoint, off):
    """Against loops over layers, heads and tokens; a head that is switched off brings nothing."""
    found = explain(without_heads(tiny_checkpoint, off), *LONG)
    seen = activations(without_heads(tiny_checkpoint, off), *LONG)
    weights = attention(without_heads(tiny_checkpoint, off), *LONG).weights
    norms = []
    for number, layer in enumerate(tiny_checkpoint.model.bert.encoder.layer):
        value, matrix = seen[f"blocks.{number}.attn.hook_v"], layer.attention.output.dense.weight.detach()
        brought = torch.zeros(weights.shape[2], weights.shape[2], 12)
        for head in range(3):
            if (number, head) in off:
                weights[number, head] = 0
            for j in range(len(value)):
                brought[:, j] += weights[number, head, :, j, None] * (
                    matrix[:, 4 * head : 4 * head + 4] @ value[j, head]
                )
        norms.append(brought.norm(dim=-1))
    norms = torch.stack([each / each.sum(-1, keepdim=True) for each in norms])
    at = tiny_checkpoint.tokenizer.encode(*LONG).tokens.index(MASK)
    for name, expected in (("rollout", rollout(weights)[-1][at]), ("norms", rollout(norms[:, None])[-1][at])):
        own = torch.stack([expected[word.first] for word in found.words])
        torch.testing.assert_close(by_method(found)[name], own, atol=1e-5, rtol=1e-4)
        assert (own.sum() + found.others[METHODS.index(name)]).item() == pytest.approx(1, abs=1e-5)


def test_without_any_head_all_attention_stays_at_the_mask(tiny_checkpoint):
    off = [(layer, head) for layer in range(2) for head in range(3)]
    found = by_method(explain(without_heads(tiny_checkpoint, off), *LONG))
    for name, shares in found.items():
        assert shares.abs().max().item() == pytest.approx(0, abs=1e-5), name


def test_a_shared_model_keeps_its_gradients_and_its_state(tiny_checkpoint):
    before = [(each.requires_grad, each.grad) for each in tiny_checkpoint.model.parameters()]
    with torch.no_grad():
        inside = explain(tiny_checkpoint, *LONG).shares
    torch.testing.assert_close(inside, explain(tiny_checkpoint, *LONG).shares)
    assert before == [(each.requires_grad, each.grad) for each in tiny_checkpoint.model.parameters()]


def test_rank_correlations_by_hand():
    nan = math.nan
    found = rank_correlations(torch.tensor([[1.0, 5.0, 9.0], [3.0, 2.0, 1.0], [4.0, 4.0, 4.0], [1.0, 1.0, 2.0]]))
    r = math.sqrt(3) / 2  # of the ranks 1, 2, 3 and 1.5, 1.5, 3
    expected = torch.tensor([[1, -1, nan, r], [-1, 1, nan, -r], [nan] * 4, [r, -r, nan, 1]], dtype=torch.float64)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_words_are_hidden_in_the_order_of_their_shares(tiny_checkpoint):
    words = ["hello", "my", "name", "is", "nice", "to", "meet", "you", "thank", "you", "romeo"]
    shares = torch.tensor([[1.0, 5.0, 2.0, -3.0, 0.0, 7.0, 6.0, 4.0, 3.0, -1.0, -2.0]])
    explained = replace(explain(tiny_checkpoint, *LONG, answer="juliet"), shares=shares)
    trial = deletion(tiny_checkpoint, explained)
    left = list(words)
    expected = [rate_guess(tiny_checkpoint, "juliet", *LONG).log_probability]
    for number in shares[0].argsort(descending=True).tolist():
        left[number] = MASK
        texts = " ".join([*left[:4], MASK, *left[4:8]]), " ".join(left[8:])
        expected.append(rate_guess(tiny_checkpoint, "juliet", *texts, mask=left[:4].count(MASK)).log_probability)
    assert trial.counts == tuple(range(12))
    assert trial.curves[0].tolist() == pytest.approx(expected, abs=1e-5)
    assert trial.chance.shape == (ORDERS, 12)
    assert trial.chance[:, 0].tolist() == pytest.approx([expected[0]] * ORDERS, abs=1e-5)
    assert trial.chance[:, -1].tolist() == pytest.approx([expected[-1]] * ORDERS, abs=1e-5)
    means = trial.chance.mean(1)
    assert trial.slower[0] == sum(mean > trial.curves[0].mean() for mean in means)
    assert trial.deviations[0] == pytest.approx((means.mean() - trial.curves[0].mean()) / means.std())
    assert torch.equal(deletion(tiny_checkpoint, explained).chance, trial.chance)


def test_random_explanations_are_no_better_than_chance_and_the_best_order_is(tiny_checkpoint):
    generator, passed, ahead = torch.Generator().manual_seed(5), [], []
    for answer in (None, "juliet", "romeo", "great", "name", "thank", "you", "hello"):
        explained = explain(tiny_checkpoint, *LONG, answer=answer)
        trial = deletion(tiny_checkpoint, replace(explained, shares=torch.randn(40, 11, generator=generator)))
        passed.append((trial.slower == ORDERS).double().mean())
        ahead.append(trial.deviations.mean())
    assert torch.stack(passed).mean().item() == pytest.approx(1 / (ORDERS + 1), abs=0.04)
    assert torch.stack(ahead).mean().item() == pytest.approx(0, abs=0.25)
    assert (trial.deviations.std() - 1).abs() < 0.5
    # Among many, the one that falls fastest: given as an explanation, it passes.
    many = torch.randn(300, 11, generator=generator)
    best = many[deletion(tiny_checkpoint, replace(explained, shares=many)).curves.mean(1).argmin()]
    assert deletion(tiny_checkpoint, replace(explained, shares=best[None])).slower.tolist() == [ORDERS]


def test_a_long_text_has_at_most_twenty_one_points(piece_checkpoint):
    text = "[MASK] " + "you " * 24
    trial = deletion(piece_checkpoint, explain(piece_checkpoint, text))
    assert (len(trial.counts), trial.counts[0], trial.counts[-1]) == (21, 0, 24)


def test_sentences_for_a_trial_are_drawn_and_have_one_known_word_hidden(tiny_checkpoint):
    lines = [f"{a} {b} nice to meet you" for a in ("hello", "thank", "zebra") for b in ("romeo", "juliet")]
    corpus = Corpus([[*lines, "too few words here .", "you " * 40, "zyx abc def ghi jkl mno"]])
    found = trial_texts(tiny_checkpoint, corpus, count=4)
    assert len(set(found)) == 4
    assert found == trial_texts(tiny_checkpoint, corpus, count=4)
    assert len(trial_texts(tiny_checkpoint, corpus)) == 6
    for text in found:
        assert text.split().count(MASK) == 1
        assert any(
            text.replace(MASK, word) in lines
            for word in ["hello", "thank", "romeo", "juliet", "nice", "to", "meet", "you"]
        )


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (lambda c: explain(c, "no mask"), r"There is no \[MASK\] in the text"),
        (lambda c: explain(c, "[MASK] you", answer="zebra"), "never learned the word 'zebra'"),
        (lambda c: explain(c, "[MASK]"), "no other word to hide"),
    ],
)
def test_what_cannot_be_explained_raises_one_sentence(tiny_checkpoint, probe, message):
    with pytest.raises(InputError, match=message):
        probe(tiny_checkpoint)


def test_shares_of_other_words_are_refused(tiny_checkpoint):
    found = explain(tiny_checkpoint, *LONG)
    for shares in (found.shares[:, 1:], found.shares[0]):
        with pytest.raises(InputError, match=r"it must be \(methods, 11\)"):
            deletion(tiny_checkpoint, replace(found, shares=shares))
