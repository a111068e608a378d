"""The trainer: losses against PyTorch by hand, determinism, schedule, clipping, divergence."""

import itertools
import math
import platform
import subprocess
import sys
import types

import pytest
import torch
import torch.nn.functional as F
from helpers import make_batch, make_model, numbers_of
from torch.nn.utils import parameters_to_vector

from bert_core import device
from bert_core.config import BertConfig, TrainingConfig
from bert_core.data.batches import IGNORED, Batch
from bert_core.device import Cost
from bert_core.errors import CheckpointError
from bert_core.runs.jobs import evaluation_plan, prepare
from bert_core.runs.recipe import load_recipe
from bert_core.runs.train import Training
from bert_core.training import (
    Optimizer,
    Pretraining,
    StepRow,
    Trainer,
    evaluate,
    learning_rate_at,
    orthogonalized,
    read_rows,
    schedule,
    step_cost,
    until_divergence,
)

CONFIG = BertConfig(
    vocab_size=37,
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=17,
)


def labelled_batch(seed: int = 0) -> Batch:
    """B=3, T=7; two words asked in the first pair, none in the second, one in the third."""
    fields = make_batch(CONFIG, seed)
    labels = torch.full((3, 7), IGNORED)
    labels[0, 1], labels[0, 3], labels[2, 6] = 11, 7, 30
    return Batch(**fields, labels=labels, next_sentence_label=torch.tensor([0, 1, 1]))


def small_run(steps=20, seed=0, **settings):
    recipe = load_recipe("romeo-juliet").override(
        {
            "training.steps": steps,
            "data.batch_size": 5,
            "model.hidden_size": 12,
            "model.num_attention_heads": 3,
            **settings,
        }
    )
    return prepare(recipe, seed=seed).trainer()


def weights_of(trainer):
    return parameters_to_vector(trainer.model.parameters())


def losses(trainer):
    return [(row.mlm_loss, row.nsp_loss, row.grad_norm) for row in read_rows(list(trainer))]


def test_the_loss_is_that_of_the_asked_words_and_of_all_pairs():
    model, batch = make_model(CONFIG), labelled_batch()
    mlm, nsp, mlm_accuracy, nsp_accuracy, *_ = numbers_of(model, batch)
    output = model(batch.input_ids, batch.attention_mask, batch.token_type_ids)  # all positions, as the oracle
    words = output.prediction_logits.log_softmax(-1)
    by_hand = -(words[0, 1, 11] + words[0, 3, 7] + words[2, 6, 30]) / 3
    pairs = output.seq_relationship_logits.log_softmax(-1)
    pairs_by_hand = -(pairs[0, 0] + pairs[1, 1] + pairs[2, 1]) / 3
    torch.testing.assert_close(mlm, by_hand)
    torch.testing.assert_close(nsp, pairs_by_hand)
    guesses = output.prediction_logits.argmax(-1)
    right = [guesses[0, 1] == 11, guesses[0, 3] == 7, guesses[2, 6] == 30]
    assert mlm_accuracy.item() == pytest.approx(sum(right) / 3)
    judged = output.seq_relationship_logits.argmax(-1)
    assert nsp_accuracy.item() == pytest.approx((judged == batch.next_sentence_label).float().mean().item())


def test_accuracy_is_counted_by_the_kind_of_shown_token():
    batch = labelled_batch()  # asked: 11, 7 and 30
    batch.input_ids[0, 1], batch.input_ids[0, 3], batch.input_ids[2, 6] = 4, 9, 30
    words = F.one_hot(torch.tensor([11, 8, 30]), 37).float()  # right, wrong, right

    def guessing(*inputs, **options):
        return types.SimpleNamespace(prediction_logits=words, seq_relationship_logits=torch.zeros(3, 2))

    assert [each.item() for each in numbers_of(guessing, batch, 4)[4:]] == [1, 0, 1]
    batch.input_ids[0, 3] = 4
    masked, replaced, kept = numbers_of(guessing, batch, 4)[4:]
    assert (masked.item(), kept.item()) == (0.5, 1)
    assert replaced.isnan()
    assert [each.isnan().item() for each in numbers_of(guessing, batch)[4:]] == [True, True, False]


def test_a_run_counts_masked_replaced_and_kept_words():
    row = read_rows([next(small_run(**{"data.batch_size": 64}))])[0]
    batch = prepare(load_recipe("romeo-juliet").override({"data.batch_size": 64})).batches[0]
    asked = batch.labels != IGNORED
    shown, labels = batch.input_ids[asked], batch.labels[asked]
    counts = [int((shown == 4).sum()), int(((shown != 4) & (shown != labels)).sum()), int((shown == labels).sum())]
    assert min(counts) > 0
    accuracies = (row.masked_accuracy, row.replaced_accuracy, row.kept_accuracy)
    assert sum(n * accuracy for n, accuracy in zip(counts, accuracies)) == pytest.approx(row.mlm_accuracy * sum(counts))


def test_rows_are_equal_if_all_numbers_are_and_a_number_is_an_attribute():
    first, second, other = (StepRow(step=3, loss=0.5, accuracy=value) for value in (0.25, 0.25, 1.0))
    assert first == second != other
    assert (other.step, other.loss, other.accuracy) == (3, 0.5, 1.0)
    assert (other.losses, other.measures) == ({"loss": 0.5}, {"accuracy": 1.0})
    with pytest.raises(AttributeError):
        other.speed  # noqa: B018


def test_numbers_still_on_the_device_are_read_in_one_transfer(monkeypatch):
    rows = [StepRow(step=k, loss=torch.tensor(k / 2), grad_norm=torch.tensor(0.25), tokens=7) for k in (1, 2)]
    assert f"{rows[0].loss:.1f}" == "0.5"
    assert until_divergence(rows) == (rows, "")
    lists, to_list = [], torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: lists.append(tensor.shape) or to_list(tensor))
    assert read_rows(rows) == [StepRow(step=k, loss=k / 2, grad_norm=0.25, tokens=7) for k in (1, 2)]
    assert lists == [(4,)]
    assert read_rows(read_rows(rows)) == read_rows(rows)


def test_padding_with_any_ids_changes_neither_loss_nor_gradient():
    batch = labelled_batch()
    wider = Batch(
        F.pad(batch.input_ids, (0, 4), value=9),
        F.pad(batch.token_type_ids, (0, 4), value=1),
        F.pad(batch.attention_mask, (0, 4), value=0),
        F.pad(batch.labels, (0, 4), value=IGNORED),
        batch.next_sentence_label,
    )
    gradients = []
    for each in (batch, wider):
        model = make_model(CONFIG)
        sum(numbers_of(model, each)[:2]).backward()
        gradients.append(torch.cat([p.grad.flatten() for n, p in model.named_parameters() if "position" not in n]))
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-6, rtol=1e-4)


def test_a_step_is_adamw_with_clipping_and_decay_of_the_matrices_alone():
    config = TrainingConfig(
        mlm_weight=2.0,
        nsp_weight=0.5,
        steps=3,
        learning_rate=0.01,
        weight_decay=0.1,
        max_grad_norm=0.5,
        warmup_steps=1,
        decay="none",
    )
    batches = [labelled_batch(seed) for seed in range(3)]
    no_dropout = BertConfig(**{**vars(CONFIG), "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    ours, theirs = make_model(no_dropout), make_model(no_dropout)
    rows = read_rows(list(Trainer(ours, batches, config)))

    matrices = [p for p in theirs.parameters() if p.ndim >= 2]
    vectors = [p for p in theirs.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=0.01
    )
    for batch, row in zip(batches, rows):
        optimizer.zero_grad()
        theirs.train()
        mlm, nsp, *_ = numbers_of(theirs, batch)
        (2.0 * mlm + 0.5 * nsp).backward()
        norm = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        assert row.grad_norm == pytest.approx(norm.item(), rel=1e-4)
        assert norm > 0.5  # so that clipping has an effect
        optimizer.step()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters()):
        if "key.bias" not in name:  # softmax ignores the key's bias: its gradient is rounding, which AdamW makes large
            torch.testing.assert_close(p, q, atol=2e-5, rtol=1e-4, msg=name)


def test_every_parameter_learns():
    trainer = small_run(steps=3)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    list(trainer)
    for name, p in trainer.model.named_parameters():
        assert not torch.equal(p, before[name]), name


def test_the_same_seed_gives_the_same_losses_bit_for_bit_and_another_does_not():
    dropout = {"model.hidden_dropout_prob": 0.1, "model.attention_probs_dropout_prob": 0.1}
    torch.manual_seed(1)
    first = losses(small_run(seed=3, **dropout))
    torch.manual_seed(2)
    again = []
    for metrics in small_run(seed=3, **dropout):
        again += [(row.mlm_loss, row.nsp_loss, row.grad_norm) for row in read_rows([metrics])]
        torch.rand(7)  # a draw between two steps
    assert first == again
    assert first != losses(small_run(seed=4, **dropout))


def test_dropout_is_new_at_every_step():
    model = make_model(BertConfig(**{**vars(CONFIG), "hidden_dropout_prob": 0.5}))
    config = TrainingConfig(steps=4, learning_rate=1e-8)  # too small to move: only dropout can change the loss
    rows = read_rows(list(Trainer(model, [labelled_batch()] * 4, config)))
    losses = sorted(row.mlm_loss for row in rows)
    assert min(b - a for a, b in itertools.pairwise(losses)) > 1e-4


def test_the_schedule_warms_up_and_decays():
    config = TrainingConfig(steps=10, warmup_steps=4)
    fractions = [schedule(step, config) for step in range(10)]
    assert fractions == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])
    assert [schedule(step, TrainingConfig(steps=10, decay="none")) for step in (0, 9)] == [1, 1]
    rows = read_rows(list(small_run(steps=4, **{"training.learning_rate": 0.01, "training.warmup_steps": 2})))
    assert [row.learning_rate for row in rows] == pytest.approx([0.005, 0.01, 0.01, 0.005])


def test_each_part_of_a_training_has_its_own_schedule():
    config = TrainingConfig(steps=10, warmup_steps=4, learning_rate=0.1).then(7, 4, 0.2)
    config = config.replace(parts=(config.parts[0].replace(warmup_steps=2),))
    rates = [learning_rate_at(step, config) for step in range(config.total_steps)]
    first = [0.1 * fraction for fraction in (1 / 4, 2 / 4, 3 / 4, 1, 1, 5 / 6, 4 / 6)]
    assert rates == pytest.approx([*first, 0.1, 0.2, 0.2, 0.1])


@pytest.mark.parametrize(
    "settings",
    [{}, {"training.alternating": True}, {"training.optimizer": "adadelta"}, {"training.optimizer": "muon"}],
)
def test_a_trainer_resumes_from_a_state_bit_for_bit(settings):
    dropout = {"model.hidden_dropout_prob": 0.1, **settings}
    whole = losses(small_run(steps=9, **dropout))
    for cut in (0, 1, 4):
        first = small_run(steps=9, **dropout)
        for _ in range(cut):
            next(first)
        state = first.step, first.seconds, first.averages()
        second = small_run(steps=9, **dropout)
        second.model.load_state_dict(first.model.state_dict())
        list(first)  # a state is a copy
        second.restore(*state)
        assert losses(second) == whole[cut:]


def test_a_state_of_another_size_is_refused():
    state = next_state(small_run())
    with pytest.raises(CheckpointError, match="does not fit"):
        small_run(**{"model.hidden_size": 24}).restore(*state)
    with pytest.raises(CheckpointError, match="does not fit"):
        small_run(**{"training.optimizer": "adadelta"}).restore(*state)


def next_state(trainer):
    next(trainer)
    return trainer.step, trainer.seconds, trainer.averages()


def test_a_trainer_is_an_iterator_that_ends():
    trainer = small_run(steps=4)
    assert next(trainer).step == 1
    assert [metrics.step for metrics in trainer] == [2, 3, 4]
    assert next(trainer, None) is None


def test_metrics_count_real_tokens_and_time():
    trainer = small_run(steps=3)
    rows = read_rows(list(trainer))
    assert [row.tokens for row in rows] == [int(trainer.batches[k].attention_mask.sum()) for k in range(3)]
    assert 0 < rows[0].seconds < rows[1].seconds < rows[2].seconds


def test_a_loss_that_is_not_finite_is_detected_and_leaves_the_weights_finite():
    model = make_model(CONFIG)
    batches = [labelled_batch() for _ in range(3)]
    trainer = Trainer(model, batches, TrainingConfig(steps=3))
    good = read_rows([next(trainer)])
    kept = weights_of(trainer).clone()
    trainer.model.bert.embeddings.LayerNorm.eps = float("nan")
    rows, reason = until_divergence(good + read_rows(list(trainer)))
    assert rows == good
    assert "at step 2" in reason
    assert "lower learning rate" in reason
    assert torch.equal(weights_of(trainer), kept)
    assert until_divergence(good) == (good, "")


def test_the_first_losses_are_those_of_uniform_guesses():
    row = read_rows([next(small_run(**{"data.batch_size": 64, "model.initializer_range": 0.02}))])[0]
    assert row.mlm_loss == pytest.approx(math.log(41), abs=0.1)
    assert row.nsp_loss == pytest.approx(math.log(2), abs=0.05)


def test_alternating_steps_minimise_one_objective_each_with_its_own_optimizer():
    no_dropout = BertConfig(**{**vars(CONFIG), "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    config = TrainingConfig(
        steps=4, learning_rate=0.01, weight_decay=0.0, max_grad_norm=0, alternating=True, decay="none"
    )
    batches = [labelled_batch(seed) for seed in range(4)]
    ours, theirs = make_model(no_dropout), make_model(no_dropout)
    list(Trainer(ours, batches, config))
    optimizers = [torch.optim.AdamW(theirs.parameters(), lr=0.01, weight_decay=0.0) for _ in range(2)]
    for step, batch in enumerate(batches):
        theirs.zero_grad()
        numbers_of(theirs, batch)[step % 2].backward()
        optimizers[step % 2].step()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters()):
        if "key.bias" not in name:
            torch.testing.assert_close(p, q, atol=5e-5, rtol=1e-4, msg=name)


@pytest.mark.parametrize("name", ["adamw", "adam", "muon"])
def test_a_new_config_changes_the_very_next_step(name):
    def trained(first, second):
        trainer = Trainer(make_model(CONFIG), [labelled_batch()] * 9, TrainingConfig(optimizer=name, **first))
        next(trainer)
        trainer.config = trainer.config.replace(**second)
        next(trainer)
        return trainer

    settings = {"weight_decay": 0.5, "beta1": 0.3, "beta2": 0.7, "max_grad_norm": 0.01, "mlm_weight": 3.0}
    same = weights_of(trained({}, {}))
    for key, value in settings.items():
        changed, from_the_start = trained({}, {key: value}), trained({key: value}, {})
        assert not torch.equal(weights_of(changed), same), key
        assert not torch.equal(weights_of(changed), weights_of(from_the_start)), key


def test_a_step_leaves_the_callers_generator_and_threads_as_they_were():
    before = torch.get_num_threads()
    model = make_model(BertConfig(**{**vars(CONFIG), "hidden_dropout_prob": 0.5}))
    seen = []
    model.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    trainer = Trainer(model, [labelled_batch()] * 4, TrainingConfig(steps=4))
    torch.set_num_threads(3)
    try:
        torch.manual_seed(5)
        expected = torch.rand(6)
        torch.manual_seed(5)
        found = [torch.rand(3)]
        next(trainer)
        found.append(torch.rand(3))
        assert torch.equal(torch.cat(found), expected)
        assert (seen, torch.get_num_threads()) == ([1], 3)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "adadelta", "muon"])
def test_every_optimizer_lowers_the_loss_and_survives_a_loss_that_is_not_finite(optimizer):
    rate = {"adadelta": 1.0}.get(optimizer, 0.005)
    trainer = small_run(steps=60, **{"training.optimizer": optimizer, "training.learning_rate": rate})
    rows = read_rows([next(trainer) for _ in range(40)])
    assert sum(row.mlm_loss for row in rows[-5:]) < sum(row.mlm_loss for row in rows[:5])
    trainer.model.bert.embeddings.LayerNorm.eps = float("nan")
    next(trainer)
    assert weights_of(trainer).isfinite().all()


@pytest.mark.parametrize("name", ["adamw", "adam", "adadelta"])
def test_the_optimizers_are_pytorchs(name):
    config = TrainingConfig(optimizer=name, weight_decay=0.1, beta1=0.8, beta2=0.9)
    ours, theirs = make_model(CONFIG), make_model(CONFIG)
    parameters = list(theirs.parameters())
    betas = {} if name == "adadelta" else {"betas": (0.8, 0.9)}
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    reference = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "adadelta": torch.optim.Adadelta}[name](
        groups, lr=0.5, **betas
    )
    optimizer = Optimizer(ours.named_parameters(), config)
    generator = torch.Generator().manual_seed(1)
    for step in range(5):
        gradients = [torch.randn(p.shape, generator=generator) for p in parameters]
        gradients[3] = None
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = None if gradient is None else gradient / 2
        given = [None if gradient is None else gradient.clone() for gradient in gradients]
        optimizer.step(given, 0.01 * (step + 1), torch.tensor(2.0), torch.tensor(False))
        for group in reference.param_groups:
            group["lr"] = 0.01 * (step + 1)
        reference.step()
    assert max(optimizer.counts) == 5
    for (label, p), q in zip(ours.named_parameters(), parameters):
        torch.testing.assert_close(p, q, atol=1e-6, rtol=1e-5, msg=label)
    kept = [p.clone() for p in ours.parameters()]
    optimizer.step([torch.full_like(p, float("nan")) for p in parameters], 0.01, None, torch.tensor(True))
    assert all(torch.equal(p, q) for p, q in zip(ours.parameters(), kept)) or name == "adadelta"


def test_muon_is_pytorchs_for_the_matrices_of_the_layers_and_adamw_for_all_else(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda tensor: tensor.clone())  # PyTorch's rounds within an update
    ours, theirs = make_model(CONFIG), make_model(CONFIG)
    named = dict(theirs.named_parameters())
    matrices = {name: p for name, p in named.items() if ".encoder." in name and p.ndim == 2}
    rest = [p for name, p in named.items() if name not in matrices]
    assert len(matrices) == 6 * CONFIG.num_hidden_layers
    references = [
        torch.optim.Muon(matrices.values(), lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(
            [
                {"params": [p for p in rest if p.ndim >= 2], "weight_decay": 0.1},
                {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
            ],
            lr=0.01,
        ),
    ]
    optimizer = Optimizer(ours.named_parameters(), TrainingConfig(optimizer="muon", weight_decay=0.1))
    generator = torch.Generator().manual_seed(1)
    for _ in range(5):
        gradients = [torch.randn(p.shape, generator=generator) for p in named.values()]
        for parameter, gradient in zip(named.values(), gradients):
            parameter.grad = gradient / 2
        optimizer.step([gradient.clone() for gradient in gradients], 0.01, torch.tensor(2.0), torch.tensor(False))
        for reference in references:
            reference.step()
    for (label, p), q in zip(ours.named_parameters(), named.values()):
        torch.testing.assert_close(p, q, atol=2e-6, rtol=1e-4, msg=label)


@pytest.mark.parametrize("shape", [(7, 7), (5, 17), (17, 5)])
def test_an_orthogonalized_matrix_keeps_its_directions_and_loses_its_scale(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    left, singular, right = torch.linalg.svd(matrix, full_matrices=False)
    found = left.mT @ orthogonalized(1e-6 * matrix) @ right.mT
    assert singular.max() / singular.min() > 1.3
    torch.testing.assert_close(found, torch.diag(found.diagonal()), atol=1e-5, rtol=0)
    assert 0.65 < found.diagonal().min() <= found.diagonal().max() < 1.25


@pytest.mark.parametrize("steps", [1, 2, 7, 20, 40, 66, 67, 134, 999, 1340, 50_000])
@pytest.mark.parametrize("steps_per_epoch", [0.2, 1.3, 77.0])
def test_evaluations_take_a_tenth_of_the_training(steps, steps_per_epoch):
    every, batches = evaluation_plan(steps, steps_per_epoch)
    assert 1 <= batches <= max(1, min(8, 4 * steps_per_epoch))
    points = {*range(0, steps, every), steps}
    assert len(points) <= 101
    between = len(points) - 2
    assert between * batches / 3 <= 0.11 * steps
    assert batches / 3 <= max(0.06 * steps, 1 / 3)  # of the first and of the last one
    assert batches == 8 or steps < 50 or steps_per_epoch < 2


def test_evaluation_is_without_dropout_and_repeatable():
    trainer = small_run(**{"model.hidden_dropout_prob": 0.5})
    model, batches = trainer.model.eval(), [trainer.batches[k] for k in range(3)]
    first, again = ([*evaluate(model, batches, step=5)][-1] for _ in range(2))
    assert first == again
    found = [Pretraining().run(model, batch, torch.device("cpu")) for batch in batches]
    sums, counts = (torch.stack(each).sum(0)[:4].detach() for each in zip(*found))
    assert [*vars(first).values()] == pytest.approx([5, *(sums / counts).tolist()], abs=1e-5)


def test_bfloat16_learns_as_float32_does():
    def last_losses(precision, seed):
        rows = read_rows(list(small_run(80, seed, **{"training.precision": precision, "data.batch_size": 16})))
        return [sum(row.mlm_loss for row in rows[-20:]) / 20, sum(row.nsp_loss for row in rows[-20:]) / 20]

    exact, rough = (torch.tensor([last_losses(kind, seed) for seed in range(3)]) for kind in ("float32", "bfloat16"))
    assert not torch.equal(exact, rough)
    between_seeds = exact.std(0)
    assert ((rough - exact).mean(0).abs() < 2 * between_seeds).all(), (exact, rough)


def test_bfloat16_keeps_weights_and_losses_in_float32():
    trainer = small_run(3, **{"training.precision": "bfloat16"})
    list(trainer)
    assert {parameter.dtype for parameter in trainer.model.parameters()} == {torch.float32}
    assert {parameter.grad.dtype for parameter in trainer.model.parameters()} == {torch.float32}


MINI = BertConfig(vocab_size=8000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)


@pytest.mark.parametrize(
    ("bfloat16", "precision"),
    [(0.5, "float32"), (1.19, "float32"), (1.21, "bfloat16")],
    ids=["half the rate", "no faster", "faster"],
)
def test_auto_precision_is_bfloat16_where_a_step_is_large_and_its_products_are_measured_to_be_faster(
    monkeypatch, bfloat16, precision
):
    """Also on a processor that lists bfloat16: some multiply it at half the rate."""
    measured = []

    def rate(device, kind, threads, rows, inner, outer):
        measured.append((kind, threads, rows, inner, outer))
        return 1e11 * {"float32": 1.0, "bfloat16": bfloat16}[kind]

    monkeypatch.setattr(device, "_rate", rate)
    monkeypatch.setattr(device, "processor_cores", lambda: 3)
    mini, dialogue = (Cost(MINI, torch.full((rows,), 80), 400, "cpu") for rows in (32, 1))
    assert dialogue.operations < 1e10 < 4e10 < mini.operations
    assert (dialogue.precision, mini.precision) == ("float32", precision)
    assert measured == [("bfloat16", 3, 1024, 256, 1024), ("float32", 3, 1024, 256, 1024)], "as the step multiplies"
    assert mini.seconds("auto") == mini.seconds(precision) > mini.operations / 1e11


def test_a_rate_is_measured_with_the_threads_of_the_step():
    before = torch.get_num_threads()
    device._rate.cache_clear()
    for threads in (1, 2):
        assert device._rate("cpu", "float32", threads, 64, 12, 20) > 0
    assert device._rate.cache_info().misses == 2, "the rate of other threads is another one"
    assert torch.get_num_threads() == before


def test_the_chosen_precision_is_in_the_recipe_that_repeats_the_run(monkeypatch):
    monkeypatch.setattr(device, "_LARGE", {"cpu": 0})
    for rates in ({"float32": 1.0, "bfloat16": 2.0}, {"float32": 2.0, "bfloat16": 1.0}):
        monkeypatch.setattr(device, "_rate", lambda _, kind, *rest, rates=rates: rates[kind])
        recipe = load_recipe("romeo-juliet").override({"training.steps": 2, "training.precision": "auto"})
        chosen = Training(prepare(recipe)).recipe
        assert chosen.training.precision == max(rates, key=rates.get)
        monkeypatch.setattr(device, "_rate", lambda *_: pytest.fail("it is measured once"))
        assert Training(prepare(chosen)).recipe == chosen


def test_an_explicit_precision_is_used_and_not_measured(monkeypatch):
    monkeypatch.setattr(device, "_rate", lambda *_: pytest.fail("it is given"))
    for precision in ("float32", "bfloat16"):
        assert small_run(**{"training.precision": precision}).config.precision == precision


def test_threads_and_precision_are_those_of_the_longest_kind_of_batch():
    long = labelled_batch()
    short = Batch(**{name: part[:1] for name, part in vars(long).items()})
    batches = ShortFirst([short, short, long, long])
    whole, of_long, of_short = (step_cost(CONFIG, each, Pretraining(), "cpu") for each in (batches, [long], [short]))
    assert whole.operations == of_long.operations > of_short.operations


class ShortFirst(list):
    short_steps = 2


def test_a_batch_in_which_no_pair_is_asked_trains_its_words():
    batch = Batch(**vars(labelled_batch()) | {"next_sentence_label": torch.full((3,), IGNORED)})
    trainer = Trainer(make_model(CONFIG), [batch] * 2, TrainingConfig(steps=2))
    before = weights_of(trainer).clone()
    rows = read_rows(list(trainer))
    assert all(math.isnan(row.nsp_loss) and math.isnan(row.nsp_accuracy) and row.mlm_loss > 0 for row in rows)
    assert not torch.equal(weights_of(trainer), before)
    assert until_divergence(rows) == (rows, "")


HOLES = """
import re
import torch
from bert_core.device import give_back_memory

def resident():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) / 1024

blocks = [torch.ones(25_000) for _ in range(3_000)]
kept = blocks[::50]
del blocks
before = resident()
give_back_memory()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc returns freed memory on request")
def test_freed_memory_between_used_blocks_returns_to_the_system():
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 200, "of 286 MB, all but a fiftieth was free"


# Pages that a step of a medium-sized model needs anew, and the megabytes of the process after each training.
STEPS = r"""
import gc, re, resource, sys, torch
from bert_core.config import BertConfig, TrainingConfig
from bert_core.data.batches import Batch
from bert_core.device import give_back_memory, keep_memory
from bert_core.model import BertForPreTraining
from bert_core.training import Trainer

if sys.argv[1] == "kept":
    keep_memory()
ids = torch.full((8, 40), 7)
batch = Batch(ids, ids * 0, ids * 0 + 1, ids.where(torch.arange(40) < 9, -100), ids[:, 0] * 0)
config = BertConfig(vocab_size=2000, hidden_size=256, num_hidden_layers=2, intermediate_size=1024)
for _ in range(2):
    trainer = Trainer(BertForPreTraining(config), [batch] * 6, TrainingConfig(steps=6))
    faults = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt for _ in trainer]
    del trainer
    gc.collect()
    give_back_memory()
    resident = re.search(r"RssAnon:\s+(\d+)", open("/proc/self/status").read()).group(1)
    print(faults[-1] - faults[2], int(resident) / 1024)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to keep freed memory")
def test_a_step_takes_its_memory_from_the_one_before_and_the_end_gives_it_back():
    found = {}
    for mode in ("by default", "kept"):
        done = subprocess.run([sys.executable, "-c", STEPS, mode], capture_output=True, text=True, check=True)
        found[mode] = [[float(number) for number in line.split()] for line in done.stdout.splitlines()]
    by_default, kept = (sum(faults for faults, _ in found[mode]) for mode in ("by default", "kept"))
    assert kept < by_default / 4, found
    after = {mode: [megabytes for _, megabytes in numbers] for mode, numbers in found.items()}
    assert after["kept"][-1] < min(after["by default"][-1], after["kept"][0]) + 5, found
