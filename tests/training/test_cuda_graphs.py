"""Recorded steps: padding changes nothing, each shape is recorded once, and no step waits for its device."""

import copy
import dataclasses
import gc
import logging

import pytest
import torch

from bert_core.config import TrainingConfig
from bert_core.costs import is_worth_recording
from bert_core.model import BertForPreTraining
from bert_core.runs.prepare import prepare
from bert_core.runs.recipe import load_recipe
from bert_core.training import cuda_graphs
from bert_core.training import optimizer as optimizer_module
from bert_core.training.cuda_graphs import RecordedTrainer, pad_to_layout
from bert_core.training.losses import DeviceBatch, Pretraining, accuracy_by_kind, pretraining_losses
from bert_core.training.metrics import read_metrics
from bert_core.training.optimizer import FlatWeights
from bert_core.training.trainer import Trainer

MASK = 4


def parts(steps=12, **settings):
    """Model, batches and training settings of a small dialogue run."""
    recipe = load_recipe("romeo-juliet").override(
        {
            "training.steps": steps,
            "data.batch_size": 7,
            "model.hidden_size": 12,
            "model.num_attention_heads": 3,
            "training.precision": "float32",
            **settings,
        }
    )
    prepared = prepare(recipe, seed=3)
    return prepared.model, prepared.batches, prepared.recipe.training


class Recorder:
    """Replaces CUDA graphs: every call repeats the recorded work."""

    def __init__(self):
        self.recorded = 0

    def __call__(self, work):
        self.recorded += 1
        return work


@pytest.mark.parametrize("k", range(4))
def test_padding_a_batch_to_a_shape_changes_neither_losses_nor_gradients(k):
    model, batches, _ = parts()
    model.eval()
    results = []
    layout, numbers = pad_to_layout(batches[k], longest=64)
    for batch in (DeviceBatch.of(batches[k]), layout.view(numbers)):
        model.zero_grad()
        *scalars, correct = pretraining_losses(model, batch)
        sum(scalars[:2]).backward()
        gradients = [p.grad.clone() for p in model.parameters()]
        results.append([*(scalar.detach() for scalar in scalars), accuracy_by_kind(batch, correct, MASK), *gradients])
    for packed, filled in zip(*results):
        torch.testing.assert_close(packed, filled, atol=1e-5, rtol=1e-5, equal_nan=True)
    assert layout.T % 16 == layout.M % 64 == 0
    assert layout.T - 16 < batches[k].input_ids.shape[1] <= layout.T


def test_padding_to_a_shape_never_exceeds_the_positions_of_the_model():
    settings = {"model.max_position_embeddings": 30, "data.sequence_length": 30}
    trainer = RecordedTrainer(*parts(**settings), objective=Pretraining(MASK), record=Recorder())
    assert len(read_metrics(list(trainer))) == 12
    assert max(layout.T for layout in trainer.recorded) == 30


def test_recorded_steps_train_like_plain_ones_and_each_shape_is_recorded_once():
    settings = {"model.hidden_dropout_prob": 0.0, "model.attention_probs_dropout_prob": 0.0}
    model, batches, config = parts(**settings)
    before = copy.deepcopy(model)
    plain = Trainer(model, batches, config, seed=3, objective=Pretraining(MASK))
    record = Recorder()
    recorded = RecordedTrainer(*parts(**settings), seed=3, objective=Pretraining(MASK), record=record)
    rows, others = read_metrics(list(plain)), read_metrics(list(recorded))
    for row, other in zip(rows, others, strict=True):
        values, wanted = (list(vars(dataclasses.replace(each, seconds=0.0)).values()) for each in (other, row))
        assert values == pytest.approx(wanted, rel=1e-3, abs=1e-4, nan_ok=True)
    shapes = [pad_to_layout(batches[k], longest=64)[0] for k in range(config.steps)]
    assert recorded.recorded.keys() == {shape for shape in shapes if shapes.count(shape) > 1}
    assert record.recorded == len(recorded.recorded) > 0
    # Of single weights with a gradient near 0, Adam makes a whole step of a difference in rounding.
    error, way = (plain.flat.weights - each for each in (recorded.flat.weights, FlatWeights(before).weights))
    assert error.norm() < 0.01 * way.norm()


def test_steps_run_unrecorded_where_recording_fails(caplog):
    def refuse(work):
        raise RuntimeError("operation not permitted when stream is capturing")

    recorded = RecordedTrainer(*parts(), seed=3, objective=Pretraining(MASK), record=Recorder())
    refused = RecordedTrainer(*parts(), seed=3, objective=Pretraining(MASK), record=refuse)
    with caplog.at_level(logging.WARNING):
        rows = [row.mlm_loss for row in read_metrics(list(refused))]
    assert rows == [row.mlm_loss for row in read_metrics(list(recorded))]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("kind", [Trainer, RecordedTrainer])
def test_no_step_waits_for_its_device(kind, monkeypatch):
    if kind is RecordedTrainer:  # AdamW's kernel has no meta version for a learning rate in a tensor
        names, _ = optimizer_module._RULES["adamw"]
        monkeypatch.setitem(optimizer_module._RULES, "adamw", (names, lambda *arguments: None))
    model, batches, config = parts()
    with torch.device("meta"):  # a device whose numbers cannot be read
        empty = BertForPreTraining(model.config)
    options = {"record": Recorder()} if kind is RecordedTrainer else {}
    trainer = kind(empty, batches, config, objective=Pretraining(MASK), **options)
    rows = list(trainer)
    assert len(rows) == config.steps
    assert rows[-1].values.device.type == "meta"
    with pytest.raises(RuntimeError):
        read_metrics(rows)


def test_small_steps_on_a_gpu_are_recorded():
    plain = TrainingConfig()
    assert is_worth_recording(1e9, plain, "cuda")
    assert not is_worth_recording(1e9, plain, "cpu")
    assert not is_worth_recording(1e13, plain, "cuda")
    assert not is_worth_recording(1e9, TrainingConfig(alternating=True), "cuda")
    assert not is_worth_recording(1e9, TrainingConfig(optimizer="adadelta"), "cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cuda_graphs_give_the_losses_of_kernels_started_one_by_one():
    settings = {"model.hidden_size": 64, "model.num_attention_heads": 4, "model.hidden_dropout_prob": 0.1}

    def trainer(**options):
        model, batches, config = parts(60, **settings)
        return RecordedTrainer(model.to("cuda"), batches, config, seed=3, objective=Pretraining(MASK), **options)

    def losses(some, steps):
        return [(row.mlm_loss, row.nsp_loss) for row in read_metrics([next(some) for _ in range(steps)])]

    assert not cuda_graphs._failures
    graphs, kernels = trainer(), trainer(record=lambda work: work)
    assert losses(graphs, 20) == losses(kernels, 20)
    assert graphs.recorded
    # Graphs of other trainers use the same memory in between.
    other = trainer()
    losses(other, 20)
    assert other.recorded
    del other
    gc.collect()
    losses(trainer(), 20)
    assert losses(graphs, 40) == losses(kernels, 40)
