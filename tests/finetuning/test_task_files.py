"""The data sets of assets/tasks: they read, their parts agree, and the held-out part asks for more than its memory."""

import json
import re
from pathlib import Path

import pytest

from bert_core.finetuning.examples import AnswerExample, ChoiceExample, TaggedExample
from bert_core.finetuning.metrics import entities
from bert_core.finetuning.readers import TASKS, load_task
from bert_core.finetuning.tuning import settings_of

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "tasks"
FILES = json.loads((FOLDER / "tasks.json").read_text(encoding="utf-8"))


@pytest.fixture(params=FILES, ids=lambda entry: entry["task"])
def entry(request):
    return request.param


def parts(entry):
    return [load_task(FOLDER / entry[part], entry["task"]) for part in ("train", "test")]


def texts(example):
    """The texts of an example that must occur in one part only."""
    if isinstance(example, TaggedExample):
        return [" ".join(example.words)]
    if isinstance(example, AnswerExample):
        return [example.context]
    return [example.text, *(example.choices if isinstance(example, ChoiceExample) else ())]


def content_words(data):
    """Different words of at least five letters; shorter ones are mostly grammar."""
    return {word for each in data.examples for text in texts(each) for word in re.findall("[a-z]{5,}", text.lower())}


def names(data):
    """The words of all entities."""
    return {
        word.strip(".").lower()
        for each in data.examples
        for _, start, end in entities(each.tags)
        for word in each.words[start:end]
    }


def test_every_kind_of_task_has_one_data_set():
    assert [entry["task"] for entry in FILES] == list(TASKS)
    files = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert files == {"tasks.json", *(entry[part] for entry in FILES for part in ("train", "test"))}
    assert all(set(entry) == {"task", "title", "description", "train", "test", "settings"} for entry in FILES)


def test_the_settings_are_accepted(entry):
    training, data = settings_of(entry["settings"])
    assert {training.epochs, training.learning_rate, data.batch_size} <= set(entry["settings"].values())


def test_the_parts_are_read_whole_and_share_no_text(entry):
    train, test = parts(entry)
    assert 60 <= len(train.examples) + len(test.examples) <= 300
    assert len(test.examples) >= 30
    assert train.notes == test.notes == ()
    assert train.labels() == test.labels()
    shown = [{text.lower() for each in part.examples for text in texts(each)} for part in (train, test)]
    assert not shown[0] & shown[1]


def test_most_content_words_of_the_held_out_part_are_new(entry):
    train, test = map(content_words, parts(entry))
    assert len(test - train) >= len(test) / 2


def test_names_of_the_held_out_part_are_new():
    [entry] = [entry for entry in FILES if entry["task"] == "token-classification"]
    train, test = map(names, parts(entry))
    titles = {"captain", "miss", "mr", "mrs", "dr", "general", "lord", "lady", "queen", "sir", "prince", "colonel"}
    assert not (test & train) - titles


def test_every_label_is_about_equally_frequent():
    """So that the commonest label, or a fixed choice, is no better than a guess."""
    for entry in FILES:
        for part in parts(entry):
            if entry["task"] in ("text-classification", "multiple-choice"):
                labels = [each.label for each in part.examples]
                counts = [labels.count(label) for label in set(labels)]
                assert max(counts) <= 1.5 * min(counts), (entry["task"], counts)


def test_a_wrong_choice_is_the_right_one_elsewhere():
    """Every sentence is offered four times, once as the right one, so that an ending alone gives nothing away."""
    [entry] = [entry for entry in FILES if entry["task"] == "multiple-choice"]
    for part in parts(entry):
        right = [each.choices[each.label] for each in part.examples]
        assert sorted(choice for each in part.examples for choice in each.choices) == sorted(4 * right)
