"""The report of a fine-tuning run: its numbers, mistakes and command are the run's, and all texts are escaped."""

import csv
import dataclasses
import html
import shlex

import pytest
from helpers import NASTY, Elements, labelled

from balcony.parts.report import MOST_MISTAKES, task_report
from bert_core import load_checkpoint
from bert_core.__main__ import main
from bert_core.config import ASSETS
from bert_core.errors import RunError
from bert_core.runs.recipe import FinetuningRecipe, finetuning_recipe
from bert_core.runs.train import finetune
from bert_core.tasks.examples import TASKS, TaskParts
from bert_core.tasks.prediction import review
from bert_core.tasks.tables import Columns

OWN = FinetuningRecipe(name="own", task="text-classification", title="A task").override({"epochs": 1, "batch_size": 40})
PARTS = TaskParts(labelled("text-classification"), labelled("text-classification", seed=1))


def reported(checkpoint, parts, recipe, **settings):
    """A run of these settings, its review and its report."""
    result = finetune(checkpoint, parts.train, validation=parts.validation, test=parts.test, recipe=recipe, **settings)
    used = FinetuningRecipe.from_dict(recipe.name, result.checkpoint.recipe)
    found = review(result.checkpoint, parts.test or parts.validation)
    page = task_report(result.checkpoint, used, parts, result.history, result.evaluations, found)
    return result, found, page


@pytest.mark.parametrize("kind", TASKS)
def test_it_states_the_numbers_and_the_mistakes_of_the_run(kind, tiny_checkpoint):
    parts = TaskParts(labelled(kind), labelled(kind, seed=1), labelled(kind, seed=2))
    recipe = FinetuningRecipe(name="own", task=kind, title=NASTY, description=NASTY).override(
        {"epochs": 1, "batch_size": 20}
    )
    result, found, page = reported(tiny_checkpoint, parts, recipe)
    texts = Elements(page).texts
    facts = dict(zip(texts["th"], texts["td"]))
    assert facts["Examples"] == "80 to train, 80 held out, 80 to test"
    assert facts["Last step"] == f"loss {result.history[-1].loss:.4f}"
    cells = texts["th"] + texts["td"]
    for name, value in found.measures.items():
        assert cells.count(name.replace("_", " ")) == 1
        assert f"{value:.4f}" in cells
    wrong = sum(not each.is_right for each in found.judged)
    rows = [row for row in page.split("<tr>") if row.count("<td") == 3 and "<th" not in row]
    assert len(rows) == (1 + min(wrong, MOST_MISTAKES) if wrong else 0), "a row for each, below their titles"
    assert "script" not in texts
    assert html.escape(NASTY) in page


def test_the_command_in_it_repeats_the_training(tmp_path, monkeypatch, capsys):
    recipe = finetuning_recipe("subjects").replace(random_weights=True)
    start = load_checkpoint(ASSETS.parent / "checkpoints" / "english-mini")
    result, _, page = reported(start, recipe.source(), recipe, seed=3, epochs=1, most_examples=24)
    command = shlex.split(Elements(page).texts["pre"][0])
    assert command[:3] == ["python", "-m", "bert_core"]
    assert {"data.most_examples=24", "training.epochs=1.0"} < set(command[command.index("--set") :])
    monkeypatch.chdir(ASSETS.parent)
    folder = tmp_path / "repeated"
    assert main([str(folder) if word == "repeated" else word for word in command[3:]]) == 0
    with (folder / "metrics.csv").open(newline="") as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    assert losses == [row.loss for row in result.history]


@pytest.mark.parametrize("start", ["english-mini", "checkpoints/english-mini"])  # its name in Python, and on the page
def test_the_command_begins_with_a_shipped_model_in_its_folder(tiny_checkpoint, start):
    _, _, page = reported(dataclasses.replace(tiny_checkpoint, name=start), PARTS, OWN)
    assert "--checkpoint checkpoints/english-mini --seed" in page
    assert "my-model" not in page


def test_the_command_names_the_columns_of_a_persons_own_file(tiny_checkpoint):
    train = dataclasses.replace(
        labelled("text-classification"), columns=Columns([0], [1], True, [("review, short", "mood")])
    )
    _, _, page = reported(tiny_checkpoint, dataclasses.replace(PARTS, train=train), OWN)
    command = shlex.split(Elements(page).texts["pre"][0])
    assert command[command.index("--train") :][:4] == [
        "--train",
        "my-examples.tsv",
        "--columns",
        '"review, short",mood',
    ]


def test_without_a_step_there_is_nothing_to_report(tiny_checkpoint):
    result, found, page = reported(tiny_checkpoint, PARTS, OWN)
    assert "to test" not in page
    assert "--train my-examples.tsv" in page
    assert "--checkpoint my-model" in page
    assert "Save the model of the initial weights as the folder my-model" in page
    with pytest.raises(RunError, match="no step yet"):
        task_report(result.checkpoint, OWN, PARTS, [], [], found)
