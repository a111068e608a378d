"""Fine-tuning as a run of the service: the same numbers as alone, through pauses, cuts and other runs."""

import json

import pytest
import torch
import transformers
from helpers import change_state, finetune, labelled, make_model, texts, wait

from bert_core.errors import CheckpointError, ConfigError, CorpusError
from bert_core.runs.recipe import FinetuningRecipe, finetuning_recipe, finetuning_recipes, load_recipe
from bert_core.runs.train import read_training_state
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from bert_core.tasks.examples import TaskData, TaskParts
from bert_core.tasks.prediction import predict, review
from bert_core.tasks.task import Example

RECIPE = FinetuningRecipe(name="own", task="text-classification", title="Romeo or not").override(
    {"epochs": 6, "learning_rate": 0.01, "batch_size": 8, "dropout": 0.1}
)
PARTS = TaskParts(texts(60), texts(30, seed=1), texts(30, seed=2))


def numbers(run):
    """The numbers of all steps and epochs of a run, or of a fine-tuning in one go."""
    history, points = run.history, run.evaluations
    rows = [(row.step, row.loss, row.grad_norm) for row in (history if isinstance(history, list) else history())]
    points = points if isinstance(points, list) else points()
    return rows, [(point.step, point.epoch, point.loss, point.measures) for point in points]


@pytest.fixture(scope="module")
def whole(tiny_checkpoint):
    """The fine-tuning in one go, without the service."""
    return finetune(tiny_checkpoint, PARTS.train, validation=PARTS.validation, test=PARTS.test, recipe=RECIPE, seed=4)


@pytest.fixture(scope="module")
def tiny_checkpoint(tiny_config, word_tokenizer):
    return Checkpoint(make_model(tiny_config), word_tokenizer, "tiny")


def test_a_run_has_the_numbers_of_a_training_alone_whatever_else_is_trained(service, tiny_checkpoint, whole):
    other = service.start(load_recipe("romeo-juliet").override({"training.steps": 40}))
    run = service.finetune(RECIPE, tiny_checkpoint, lambda: PARTS, seed=4)
    wait(lambda: run.status == other.status == "finished")
    assert numbers(run) == numbers(whole)
    assert [point.epoch for point in run.evaluations()] == [1, 2, 3, 4, 5, 6]
    assert run.best.step == max(run.evaluations(), key=lambda point: (point.accuracy, point.step)).step
    assert run.best in run.snapshots
    measures = review(run.best.checkpoint(), PARTS.validation).measures
    assert measures == whole.validation == next(p for p in run.evaluations() if p.step == run.best.step).measures
    assert [len(part.examples) for part in (run.job.parts.train, run.job.parts.validation)] == [60, 30]
    assert (run.recipe.start, run.recipe.training.total_steps, run.job.source) == ("tiny", 48, PARTS)
    assert run.progress().steps == 48


def test_pausing_and_single_steps_change_no_number(service, tiny_checkpoint, whole):
    run = service.finetune(RECIPE, tiny_checkpoint, PARTS, seed=4, paused=True)
    for step in (1, 2, 3):
        wait(lambda: run.status == "paused")
        run.step()
        wait(lambda step=step: run.progress().step == step)
    run.resume()
    wait(lambda: run.status == "finished")
    assert numbers(run) == numbers(whole)


@pytest.mark.parametrize("cut", [5, 16, 35, 48])
def test_a_saved_run_continues_bit_for_bit(cut, service, tiny_checkpoint, whole, tmp_path):
    run = service.finetune(RECIPE, tiny_checkpoint, PARTS, seed=4, paused=True)
    wait(lambda: run.status == "paused")
    for _ in range(cut):
        run.step()
    wait(lambda: run.progress().step == cut and run.status in ("paused", "finished"))
    run.save(tmp_path / "run")
    again = service.resume(tmp_path / "run", PARTS)
    wait(lambda: again.status == "finished")
    assert numbers(again) == numbers(whole)
    assert predict(again.best.checkpoint(), ["nice romeo"]) == predict(whole.checkpoint, ["nice romeo"])
    assert again.recipe.start == "tiny"
    run.stop()


@pytest.mark.parametrize("is_freed", [False, True])
def test_the_saved_model_is_the_best_epochs_and_training_goes_on_from_the_last(
    is_freed, service, tiny_checkpoint, tmp_path
):
    # What the model learns is the opposite of what it is measured by, so an early epoch does best.
    opposite = [Example((each.texts[0],), float(each.label == "no")) for each in texts(120, seed=1).examples]
    parts = TaskParts(labelled("text-regression"), TaskData("text-regression", opposite))
    recipe = FinetuningRecipe(
        name="own", task="text-regression", title="Romeo", data=RECIPE.data, training=RECIPE.training
    )
    run = service.finetune(recipe, tiny_checkpoint, parts, seed=4)
    wait(lambda: run.status == "finished")
    best = max(run.evaluations(), key=lambda point: point.pearson)
    assert best.step == run.best.step < run.steps_done
    if is_freed:
        run.give_up()
    run.save(tmp_path / "folder")
    saved = load_checkpoint(tmp_path / "folder")
    assert review(saved, parts.validation).measures == pytest.approx(best.measures, abs=1e-4)
    if not is_freed:
        again = service.resume(tmp_path / "folder", parts)
        wait(lambda: again.status == "finished")
        assert again.best.step == run.best.step
        for ours, theirs in ((again.best, run.best), (again.snapshots[-1], run.snapshots[-1])):
            assert ours.weights.keys() == theirs.weights.keys()
            assert all(torch.equal(ours.weights[name], theirs.weights[name]) for name in ours.weights)
        for each in (run, again):
            each.continue_for(10)
        wait(lambda: run.status == again.status == "finished")
        assert numbers(run) == numbers(again)


def test_a_finished_run_is_continued_as_if_its_recipe_had_both_parts(service, tiny_checkpoint, tmp_path):
    run = service.finetune(RECIPE, tiny_checkpoint, PARTS, seed=4)
    wait(lambda: run.status == "finished")
    run.save(tmp_path)
    again = service.resume(tmp_path, PARTS)
    wait(lambda: again.status == "finished")
    for each in (run, again):
        each.continue_for(10)
    both = service.finetune(run.recipe, tiny_checkpoint, PARTS, seed=4)
    wait(lambda: run.status == again.status == both.status == "finished")
    assert [point.step for point in run.evaluations()] == [8, 16, 24, 32, 40, 48, 56, 58]
    assert numbers(run) == numbers(again)
    assert numbers(both)[0] == numbers(run)[0]


@pytest.mark.parametrize("kind", ["text-classification", "question-answering", "token-classification"])
def test_the_best_snapshot_opens_in_transformers_as_its_class(kind, service, tiny_checkpoint, tmp_path):
    recipe = FinetuningRecipe(name="own", task=kind, title="A task").override(
        {"epochs": 1, "batch_size": 8, "validation_share": 0.2}
    )
    run = service.finetune(recipe, tiny_checkpoint, TaskParts(labelled(kind)))
    wait(lambda: run.status == "finished")
    found = run.best.checkpoint()
    save_checkpoint(found, tmp_path)
    theirs = getattr(transformers, found.head.architecture)
    _, report = theirs.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    examples = labelled(kind, seed=3).examples
    assert predict(load_checkpoint(tmp_path), examples) == pytest.approx(predict(found, examples))
    assert json.loads((tmp_path / "recipe.json").read_text())["task"] == kind


def test_a_run_starts_from_a_snapshot_of_another_run_or_from_random_weights(service, tiny_checkpoint):
    first = service.finetune(RECIPE, tiny_checkpoint, PARTS)
    wait(lambda: first.status == "finished")
    middle = first.snapshots[len(first.snapshots) // 2]
    second = service.finetune(RECIPE, middle.checkpoint(), PARTS, paused=True)
    random = service.finetune(RECIPE.replace(random_weights=True), tiny_checkpoint, PARTS, paused=True)
    wait(lambda: second.status == random.status == "paused")
    given, same, drawn = (
        checkpoint.model.state_dict()["bert.encoder.layer.1.output.dense.weight"]
        for checkpoint in (middle.checkpoint(), second.snapshots[0].checkpoint(), random.snapshots[0].checkpoint())
    )
    assert torch.equal(given, same)
    assert given.shape == drawn.shape
    assert not torch.equal(given, drawn)
    assert second.recipe.start == middle.empty.name
    second.stop()
    random.stop()


def test_a_run_that_keeps_the_last_weights_has_no_best(service, tiny_checkpoint):
    run = service.finetune(RECIPE.override({"keep_best": False, "epochs": 1}), tiny_checkpoint, PARTS)
    wait(lambda: run.status == "finished")
    assert run.best is None
    assert review(run.snapshots[-1].checkpoint(), PARTS.validation).measures == run.evaluations()[-1].measures


def test_examples_that_cannot_be_learned_end_the_run_with_a_reason(service, tiny_checkpoint):
    alike = TaskParts(TaskData("text-classification", [Example(("hello",), "yes")] * 9))
    other = TaskParts(labelled("multiple-choice"))
    run, wrong = (service.finetune(RECIPE, tiny_checkpoint, parts) for parts in (alike, other))
    unnamed = service.finetune(RECIPE, tiny_checkpoint)
    wait(lambda: run.status == wrong.status == unnamed.status == "failed")
    assert "is 1, such as 'yes'; it must be from 2" in run.reason
    assert wrong.reason == "The recipe is for text-classification; give it examples of that task."
    assert "comes without examples" in unnamed.reason


def test_a_saved_run_asks_for_its_own_examples(service, tiny_checkpoint, tmp_path):
    run = service.finetune(RECIPE.override({"epochs": 1}), tiny_checkpoint, PARTS)
    wait(lambda: run.status == "finished")
    run.save(tmp_path)
    with pytest.raises(CorpusError, match="is not the text that this model was being trained on"):
        service.resume(tmp_path, TaskParts(texts(59), *[PARTS.validation, PARTS.test]))
    with pytest.raises(CorpusError, match="comes without examples"):
        service.resume(tmp_path)
    change_state(tmp_path, lambda tensors, facts: tensors["history"].resize_(len(tensors["history"]), 3))
    with pytest.raises(CheckpointError, match="another version of this program has saved it"):
        read_training_state(tmp_path)


def test_mistakes_come_first_and_the_confusion_counts_them(whole):
    found = review(whole.checkpoint, PARTS.test)
    assert found.measures == whole.test
    right = [judged.is_right for judged in found.judged]
    assert right == sorted(right)
    assert sum(right) / len(right) == pytest.approx(found.measures["accuracy"])
    mistakes = [judged.mistake for judged in found.judged if judged.is_right]
    assert mistakes == sorted(mistakes, reverse=True)
    assert found.labels == ("no", "yes")
    assert sum(map(sum, found.confusion)) == 30
    assert found.confusion[0][0] + found.confusion[1][1] == sum(right)


@pytest.mark.parametrize("kind", ["text-regression", "multiple-choice", "question-answering", "token-classification"])
def test_every_task_is_reviewed(kind, tiny_checkpoint):
    result = finetune(tiny_checkpoint, labelled(kind), epochs=1, batch_size=16)
    found = review(result.checkpoint, labelled(kind, seed=1))
    assert len(found.judged) == 80
    assert bool(found.confusion) == (kind == "token-classification")
    assert {judged.is_right for judged in found.judged} <= ({None} if kind == "text-regression" else {True, False})


def test_a_recipe_is_json_and_comes_back(whole):
    for recipe in (*finetuning_recipes(), RECIPE):
        again = FinetuningRecipe.from_dict(recipe.name, json.loads(json.dumps(recipe.content())))
        assert again == recipe
    saved = FinetuningRecipe.from_dict("saved", whole.checkpoint.recipe)
    assert (saved.task, saved.start, saved.training.steps) == ("text-classification", "tiny", 48)


def test_the_tutorials_settings():
    tutorials = [recipe for recipe in finetuning_recipes() if not recipe.files]
    assert len(tutorials) == 5
    for recipe in tutorials:
        training = recipe.training
        assert (recipe.data.batch_size, training.optimizer, training.learning_rate) == (64, "adam", 5e-5)
        assert (training.epochs, training.evaluate_every, training.keep_best) == (10, 2, True)
    assert finetuning_recipe("question-answering-tutorial").data.best_answers == 4


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"title": "x"},
        {"task": "poetry", "title": "x"},
        {"task": "text-classification", "title": 3},
        {"task": "text-classification", "title": "x", "colour": 1},
        {"task": "text-classification", "title": "x", "seed": -1},
        {"task": "text-classification", "title": "x", "files": {"train": 3}},
        {"task": "text-classification", "title": "x", "training": {"epochs": "many"}},
    ],
)
def test_a_recipe_that_is_none_is_refused(content):
    with pytest.raises(ConfigError):
        FinetuningRecipe.from_dict("saved", content)


def test_a_recipe_names_no_file_outside_its_folder():
    recipe = FinetuningRecipe.from_dict(
        "saved", {"task": "text-classification", "title": "x", "files": {"train": "../../../../etc/passwd"}}
    )
    with pytest.raises(CorpusError, match="passwd cannot be read"):
        recipe.source()


def test_an_unknown_recipe_is_refused(service, tiny_checkpoint):
    with pytest.raises(ConfigError, match="no fine-tuning recipe 'poetry'"):
        service.finetune("poetry", tiny_checkpoint)
