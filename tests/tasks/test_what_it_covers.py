"""No accuracy without what always the same answer would get, and nothing is cut without a word."""

import json
import math

import pytest
from helpers import finetune, labelled, texts

from bert_core import predict, review, save_checkpoint
from bert_core.__main__ import main
from bert_core.config import FinetuningData
from bert_core.tasks.examples import TASKS, TaskBatches, TaskData
from bert_core.tasks.prediction import verdict
from bert_core.tasks.task import Example, Layout

QUICK = {"epochs": 1, "batch_size": 8, "dropout": 0, "learning_rate": 0.01}


@pytest.fixture
def word_layout(tiny_checkpoint):
    return Layout(("x", "y"), tiny_checkpoint.tokenizer, FinetuningData())


CUT = "are longer than the 12 tokens that are read and lose their ends"


@pytest.mark.parametrize("kind", TASKS)
def test_every_task_says_what_always_the_same_answer_gets(kind, tiny_checkpoint):
    result = finetune(tiny_checkpoint, labelled(kind), test=labelled(kind, seed=1), **QUICK)
    assert {part: {*measures} for part, measures in result.always.items()} == {
        "validation": {*result.validation},
        "test": {*result.test},
    }
    assert sum(said.startswith("Always answering ") for said in result.verdict) == 2


def test_how_many_examples_one_answer_for_all_has_right(tiny_checkpoint):
    def always_right(kind, *answers, text=("hello romeo",)):
        return review(tuned[kind], TaskData(kind, [Example(text, *each) for each in answers], "test")).always_right

    kinds = ("text-classification", "text-regression", "multiple-choice", "question-answering", "token-classification")
    tuned = {kind: finetune(tiny_checkpoint, labelled(kind), **QUICK).checkpoint for kind in kinds}
    name, other = tuned["text-classification"].head.labels[:2]
    assert always_right("text-classification", (name,), (other,), (name,)) == 2
    assert always_right("text-regression", (1.0,), (1.0,)) == 0  # a number is not right or wrong
    assert always_right("multiple-choice", (1,), (0,), (1,), text=("hello", "romeo", "juliet")) == 2
    assert always_right("question-answering", ((("romeo", 0),),), ((),), text=("hello", "romeo")) == 1
    tag = next(each for each in tuned["token-classification"].head.labels if each != "O")
    words = ("hello", "romeo")
    assert always_right("token-classification", (("O", "O"), words), ((tag, "O"), words), (("O", "O"), words)) == 2


def test_the_choice_that_is_most_often_right_is_named_by_its_place_and_its_label():
    found = TASKS["multiple-choice"].always([2, 0, 2])
    assert found == ("choice 3 (label 2)", [2, 2, 2])


def test_a_rare_label_is_held_out_too(tiny_checkpoint):
    examples = [Example(("team",), "pos")] * 290 + [Example(("romeo",), "neg")] * 10
    result = finetune(tiny_checkpoint, TaskData("text-classification", examples), **QUICK, validation_share=0.1)
    assert result.always["validation"]["accuracy"] == pytest.approx(29 / 30)
    assert any("Always answering 'pos' would get accuracy 0.967" in said for said in result.verdict)


def test_a_part_with_one_label_is_said_to_measure_little(tiny_checkpoint):
    tested = TaskData("text-classification", [Example(("team",), "no")] * 20, "test.csv")
    found = review(finetune(tiny_checkpoint, texts(), **QUICK).checkpoint, tested)
    assert found.always["accuracy"] == 1
    assert "All of them have the label 'no', so these measures say nothing of the others." in found.notes


def test_a_loss_above_that_of_chance_is_said(word_layout):
    labels, count = ("x", "x", "x", "y"), 4
    data = TaskData("text-classification", [Example(("romeo",), label) for label in labels])
    batches, chance = TaskBatches(data, word_layout), -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert data.kind.chance(batches.rows) == pytest.approx(chance)
    assert len(verdict(batches, chance - 0.01)[1]) == 1
    always, said = verdict(batches, chance + 0.01)
    assert always["accuracy"] == 3 / count
    assert said[1] == "The loss there, 0.572, is above 0.562, that of an answer that ignores the text."
    numbers = TaskData("text-regression", [Example(("romeo",), number) for number in (0.0, 1.0, 5.0)])
    assert numbers.kind.chance(numbers.kind.rows(numbers.examples, word_layout)) == pytest.approx(14 / 3)


@pytest.mark.parametrize("kind", ["text-classification", "multiple-choice"])
def test_what_is_cut_is_counted_in_every_part(kind, tiny_checkpoint, tmp_path):
    def longer(seed):
        data = labelled(kind, seed)
        examples = [Example((" ".join([each.texts[0]] * 9), *each.texts[1:]), each.label) for each in data.examples]
        return TaskData(kind, examples, f"part {seed}")

    result = finetune(tiny_checkpoint, longer(0), validation=longer(1), test=longer(2), sequence_length=12, **QUICK)
    for part in (0, 1):
        assert any(f"In part {part}, 80 of 80 {CUT}" in note for note in result.notes)
    assert any(f"In part 2, 80 of 80 {CUT}" in said for said in result.verdict)
    told = []
    predict(result.checkpoint, longer(3).examples, tell=told.append)
    assert len(told) == 1
    assert f"In the examples, 80 of 80 {CUT}" in told[0]


def test_the_commands_say_what_is_cut_and_what_one_answer_gets(tiny_checkpoint, tmp_path, capsys):
    save_checkpoint(tiny_checkpoint, tmp_path / "start")
    path = tmp_path / "long.csv"
    path.write_text("text,label\n" + "".join(f"{'romeo ' * 30},{label}\n" for label in ("x", "y", "x") * 5))
    begin = ["--task", "text-classification", "--train", str(path), "--checkpoint", str(tmp_path / "start")]
    assert main(["finetune", *begin, "--output", str(tmp_path / "tuned"), "--set", "epochs=1"]) == 0
    printed = capsys.readouterr()
    assert "In long.csv, 13 of 13 are longer than the 17 tokens" in printed.err
    assert "In the held-out part of long.csv, 2 of 2 are longer" in printed.err
    assert "Always answering " in printed.err
    assert json.loads(printed.out)["always"].keys() == {"validation"}
    for command in ("evaluate", "predict"):
        assert main([command, str(tmp_path / "tuned"), "--input", str(path)]) == 0
        printed = capsys.readouterr()
        assert "15 of 15 are longer than the 17 tokens" in printed.err
        assert ("Always answering 'x' would get accuracy 0.667" in printed.err) == (command == "evaluate")
