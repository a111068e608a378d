"""Padding costs nothing: a packed batch gives the numbers and the gradients of the padded one."""

import pytest
import torch

from bert_core.config import BertConfig
from bert_core.model import BertForPreTraining
from bert_core.packing import Packing

LENGTHS = (7, 3, 1, 5)


def batch():
    draw = torch.Generator().manual_seed(3)
    mask = (torch.arange(7) < torch.tensor(LENGTHS)[:, None]).long()
    ids = torch.randint(5, 23, (4, 7), generator=draw)
    segments = torch.randint(0, 2, (4, 7), generator=draw)
    return ids, mask, segments


def test_real_tokens_are_taken_out_and_put_back_in_their_places():
    _, mask, _ = batch()
    packing = Packing.of(mask)
    padded = torch.arange(4 * 7 * 2, dtype=torch.float32).view(4, 7, 2)
    packed = packing.pack(padded)
    assert packed.tolist() == padded[mask.bool()].tolist()
    assert packing.unpack(packed)[mask.bool()].tolist() == packed.tolist()
    assert packed[packing.first].tolist() == padded[:, 0].tolist()


def test_gradients_of_packing_agree_with_finite_differences():
    _, mask, _ = batch()
    packing = Packing.of(mask)
    draw = torch.Generator().manual_seed(4)
    padded = torch.randn(4, 7, 2, generator=draw, dtype=torch.float64, requires_grad=True)
    packed = torch.randn(sum(LENGTHS), 2, generator=draw, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(packing.pack, padded)
    # Padding is hidden by a mask wherever rows are unpacked, so that is how it is tried here.
    assert torch.autograd.gradcheck(lambda x: packing.unpack(x) * mask[..., None], packed)


@pytest.mark.parametrize("lengths", [LENGTHS, (7, 7, 7, 7), (1, 1, 1, 2)])
def test_a_packed_model_has_the_scores_and_gradients_of_the_padded_one(lengths):
    config = BertConfig(
        vocab_size=23,
        hidden_size=12,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=9,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    ids, _, segments = batch()
    mask = (torch.arange(7) < torch.tensor(lengths)[:, None]).long()
    asked = mask.flatten().nonzero().squeeze(1)[::2]
    results = []
    for packing in (None, Packing.of(mask)):
        model = BertForPreTraining(config, generator=torch.Generator().manual_seed(0))
        output = model(ids, mask, segments, asked_positions=asked, packing=packing)
        scores = output.prediction_logits, output.seq_relationship_logits
        sum((each**2).sum() for each in scores).backward()
        results.append((*scores, *(parameter.grad for parameter in model.parameters())))
    for packed, padded in zip(*results, strict=True):
        torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-4)
