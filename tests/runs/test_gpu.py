"""What a GPU must do as the CPU does. The tests run on both where TEST_GPU names a GPU; some of them need one."""

import copy
import dataclasses
import functools
import re
from pathlib import Path

import pytest
import torch
from helpers import finetune, labelled, texts, wait

from bert_core import attention, encode, fill_mask, next_sentence
from bert_core.probes.sentence_pairs import exam
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import FinetuningRecipe, load_recipe
from bert_core.runs.run import ENDED, Run
from bert_core.runs.service import TrainingService
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TASKS, TaskParts
from bert_core.tasks.prediction import predict
from bert_core.training import read_rows

ROOT = Path(__file__).resolve().parents[2]
A = "hello how [MASK] you i am romeo"
B = "hello romeo my name is juliet nice to meet you"
DROPOUT = {"model.hidden_dropout_prob": 0.1, "model.attention_probs_dropout_prob": 0.1}
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: TEST_GPU=0 is the first one")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=needs_gpu)])
def device(request):
    return request.param


@pytest.fixture
def service(device):
    service = TrainingService(device)
    yield service
    service.close()


def finished(run: Run) -> Run:
    wait(lambda: run.progress().status in ENDED)
    return run


def numbers(run):
    return [(row.mlm_loss, row.nsp_loss, row.grad_norm) for row in run.history()]


_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def numbers_and_words(predictions):
    """The numbers of what a model says, and what is left without them."""
    said = repr(predictions)
    return [float(each) for each in _NUMBER.findall(said)], _NUMBER.sub("", said)


@pytest.mark.parametrize("settings", [{}, DROPOUT, {"training.precision": "bfloat16"}], ids=["", "dropout", "bfloat16"])
def test_a_run_repeats_bit_for_bit_beside_others_of_other_shapes(service, settings):
    recipe = load_recipe("romeo-juliet").override({"training.steps": 40, "data.batch_size": 7, **settings})
    first = numbers(finished(service.start(recipe, seed=5)))
    other = recipe.override({"training.steps": 100_000, "model.hidden_size": 24, "data.batch_size": 5, **DROPOUT})
    others = [service.start(other, seed=seed) for seed in (6, 7)]
    again = finished(service.start(recipe, seed=5))
    assert all(each.history() for each in others)
    for each in others:
        each.stop()
    assert numbers(again) == first
    assert again.status == "finished"


def test_bfloat16_learns_the_dialogue_like_float32(device):
    losses = {}
    for precision in ("float32", "bfloat16"):
        prepared = prepare(load_recipe("romeo-juliet").override({"training.precision": precision}), device=device)
        rows = read_rows(list(prepared.trainer()))
        losses[precision] = sum(row.mlm_loss for row in rows[-10:]) / 10
    assert losses["bfloat16"] == pytest.approx(losses["float32"], abs=0.15)
    assert losses["float32"] < 1.0


def test_a_model_on_the_device_answers_as_on_the_cpu(device):
    prepared = prepare(load_recipe("romeo-juliet"), device=device)
    list(trainer := prepared.trainer())
    there = Checkpoint(trainer.model.eval(), prepared.tokenizer, "there")
    here = Checkpoint(copy.deepcopy(trainer.model).cpu().eval(), prepared.tokenizer, "here")
    assert there.model.device.type == device
    [guesses], [wanted] = fill_mask(there, A, B), fill_mask(here, A, B)
    assert [word for word, _ in guesses] == [word for word, _ in wanted]
    assert [chance for _, chance in guesses] == pytest.approx([chance for _, chance in wanted], abs=1e-4)
    assert next_sentence(there, A, B) == pytest.approx(next_sentence(here, A, B), abs=1e-4)
    torch.testing.assert_close(attention(there, A, B).weights, attention(here, A, B).weights, atol=1e-4, rtol=0)
    torch.testing.assert_close(encode(there, A, B).states.cpu(), encode(here, A, B).states, atol=1e-3, rtol=1e-3)
    corpus = load_recipe("romeo-juliet").source()
    assert exam(there, corpus) == exam(here, corpus)


@pytest.mark.parametrize("kind", TASKS)
def test_a_task_is_learned_bit_for_bit_and_answered_as_on_the_cpu(device, kind, tiny_checkpoint):
    settings = {"learning_rate": 0.01, "batch_size": 8, "epochs": 2}  # with dropout
    first, again = (
        finetune(tiny_checkpoint, labelled(kind), validation=labelled(kind, 1), device=device, **settings)
        for _ in range(2)
    )
    assert [(row.loss, row.grad_norm) for row in first.history] == [(row.loss, row.grad_norm) for row in again.history]
    assert first.evaluations == again.evaluations
    there = first.checkpoint
    here = dataclasses.replace(there, module=copy.deepcopy(there.model).cpu())
    assert there.model.device.type == device
    examples = list(labelled(kind, 2).examples)
    (found, words), (wanted, same_words) = (numbers_and_words(predict(each, examples)) for each in (there, here))
    assert found == pytest.approx(wanted, abs=1e-4)
    assert words == same_words


@pytest.mark.parametrize("is_task", [False, True], ids=["text", "task"])
def test_a_saved_run_goes_on_bit_for_bit(service, is_task, tiny_checkpoint, tmp_path):
    if is_task:
        recipe = FinetuningRecipe(name="own", task="text-classification", title="Romeo or not").override(
            {"epochs": 4, "batch_size": 8}
        )
        source = TaskParts(texts(60), texts(30, seed=1))
        start = functools.partial(service.finetune, recipe, tiny_checkpoint, source, seed=4)
    else:
        recipe = load_recipe("romeo-juliet").override({"training.steps": 24, **DROPOUT})
        source, start = None, functools.partial(service.start, recipe, seed=4)
    whole = finished(start())
    run = start(paused=True)
    for step in range(1, 12):
        wait(lambda: run.status == "paused")
        run.step()
        wait(lambda step=step: run.progress().step == step)
    wait(lambda: run.status == "paused")
    run.save(tmp_path / "run")
    again = finished(service.resume(tmp_path / "run", source))
    losses = [[row.losses for row in each.history()] for each in (whole, again)]
    assert losses[0] == losses[1]
    assert len(losses[0]) > 20


@needs_gpu
def test_a_run_for_which_the_gpu_has_no_memory_fails_and_the_others_go_on():
    service = TrainingService("cuda")
    small = service.start(load_recipe("romeo-juliet").override({"training.steps": 100_000}))

    def go_on(steps):
        goal = len(small.history()) + steps
        wait(lambda: len(small.history()) >= goal or small.status in ENDED)
        assert small.status not in ENDED, small.reason

    try:
        go_on(200)
        _, total = torch.cuda.mem_get_info()
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 2**29) / total)
        sizes = {"model.hidden_size": 1024, "model.intermediate_size": 4096, "model.num_hidden_layers": 12}
        failed = finished(service.start(load_recipe("romeo-juliet").override(sizes)))  # 600 MB of weights
        assert failed.status == "failed"
        assert "ran out of memory" in failed.reason
        go_on(100)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        service.close()
