"""The data sets of assets/tasks: they read, their parts agree, and the held-out part asks for more than its memory."""

import re
from pathlib import Path

import pytest

from bert_core.runs.recipe import finetuning_recipes
from bert_core.tasks.examples import TASKS
from bert_core.tasks.token_classification import entities

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "tasks"
RECIPES = [recipe for recipe in finetuning_recipes() if recipe.files]


@pytest.fixture(params=RECIPES, ids=lambda recipe: recipe.name)
def recipe(request):
    return request.param


def parts(recipe):
    found = recipe.source()
    return found.train, found.test


def texts(example):
    """The texts of an example that must occur in one part only."""
    is_answer = isinstance(example.label, tuple) and not example.words
    return example.texts[is_answer:]


def content_words(data):
    """Different words of at least five letters; shorter ones are mostly grammar."""
    return {word for each in data.examples for text in texts(each) for word in re.findall("[a-z]{5,}", text.lower())}


def names(data):
    """The words of all entities."""
    return {
        word.strip(".").lower()
        for each in data.examples
        for _, start, end in entities(each.label)
        for word in each.words[start:end]
    }


def test_every_kind_of_task_has_one_data_set():
    assert [recipe.task for recipe in RECIPES] == list(TASKS)
    files = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    own = {f"{recipe.task}/{name}" for recipe in RECIPES for name in recipe.files.values()}
    assert files == {"tasks.json", "tutorials.json", *own}
    assert all(recipe.description.endswith("?") for recipe in RECIPES)


def test_the_parts_are_read_whole_and_share_no_text(recipe):
    train, test = parts(recipe)
    assert 60 <= len(train.examples) + len(test.examples) <= 300
    assert len(test.examples) >= 30
    assert train.notes == test.notes
    assert not any("eft out" in note for note in train.notes)
    assert train.labels() == test.labels()
    shown = [{text.lower() for each in part.examples for text in texts(each)} for part in (train, test)]
    assert not shown[0] & shown[1]


def test_most_content_words_of_the_held_out_part_are_new(recipe):
    train, test = map(content_words, parts(recipe))
    assert len(test - train) >= len(test) / 2


def test_names_of_the_held_out_part_are_new():
    [recipe] = [recipe for recipe in RECIPES if recipe.task == "token-classification"]
    train, test = map(names, parts(recipe))
    titles = {"captain", "miss", "mr", "mrs", "dr", "general", "lord", "lady", "queen", "sir", "prince", "colonel"}
    assert not (test & train) - titles


def test_every_label_is_about_equally_frequent():
    """So that the commonest label, or a fixed choice, is no better than a guess."""
    for recipe in RECIPES:
        for part in parts(recipe):
            if recipe.task in ("text-classification", "multiple-choice"):
                labels = [each.label for each in part.examples]
                counts = [labels.count(label) for label in set(labels)]
                assert max(counts) <= 1.5 * min(counts), (recipe.name, counts)


def test_a_wrong_choice_is_the_right_one_elsewhere():
    """Every sentence is offered four times, once as the right one, so that an ending alone gives nothing away."""
    [recipe] = [recipe for recipe in RECIPES if recipe.task == "multiple-choice"]
    for part in parts(recipe):
        right = [each.texts[1 + each.label] for each in part.examples]
        assert sorted(choice for each in part.examples for choice in each.texts[1:]) == sorted(4 * right)
