"""Padding costs nothing: a packed batch gives the numbers and the gradients of the padded one."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bert_core.config import BertConfig
from bert_core.device import Cost
from bert_core.model import BertForPreTraining, Packing

LENGTHS = (7, 3, 1, 5)


def batch():
    draw = torch.Generator().manual_seed(3)
    mask = (torch.arange(7) < torch.tensor(LENGTHS)[:, None]).long()
    ids = torch.randint(5, 23, (4, 7), generator=draw)
    segments = torch.randint(0, 2, (4, 7), generator=draw)
    return ids, mask, segments


def test_packing_and_unpacking_keep_the_real_tokens_at_their_positions():
    _, mask, _ = batch()
    packing = Packing.of(mask)
    padded = torch.arange(4 * 7 * 2, dtype=torch.float32).view(4, 7, 2)
    packed = packing.pack(padded)
    assert packed.tolist() == padded[mask.bool()].tolist()
    assert packing.unpack(packed)[mask.bool()].tolist() == packed.tolist()
    assert packed[packing.slot[[0, 7, 14, 21]]].tolist() == padded[:, 0].tolist()


@pytest.mark.parametrize("lengths", [LENGTHS, (7, 7, 7, 7), (1, 1, 1, 2)])
def test_packing_and_asked_positions_change_neither_scores_nor_gradients(lengths):
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
    asked = mask.flatten().nonzero().squeeze(1)[::2]  # a first token among them
    asked = torch.cat([asked, asked[:1]])  # and one position twice
    results = []
    packed = {"asked_positions": asked, "packing": Packing.of(mask)}
    watched = {"watch": lambda name, number: number}
    for options in (
        {},
        {"asked_positions": asked},
        packed,
        {"asked_positions": asked} | watched,
    ):
        model = BertForPreTraining(config, generator=torch.Generator().manual_seed(0))
        output = model(ids, mask, segments, **options)
        words = output.prediction_logits
        scores = words if options else words.flatten(0, 1)[asked], output.seq_relationship_logits
        sum((each**2).sum() for each in scores).backward()
        results.append((*scores, *(parameter.grad for parameter in model.parameters())))
    for whole, *others in zip(*results, strict=True):
        for other in others:
            torch.testing.assert_close(other, whole, atol=1e-5, rtol=1e-4)


def test_a_step_does_exactly_the_operations_that_are_estimated(tiny_model):
    """Counted by PyTorch: words are scored where they are asked, and the last layer answers just there."""
    asked = (torch.arange(3)[:, None] * 12 + torch.tensor([4, 9, 11])).flatten()
    with FlopCounterMode(display=False) as counter:
        tiny_model(torch.full((3, 12), 7), asked_positions=asked)
    assert 3 * counter.get_total_flops() == pytest.approx(
        Cost(tiny_model.config, torch.full((3,), 12), len(asked), "cpu").operations
    )
