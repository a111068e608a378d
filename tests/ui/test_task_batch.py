"""The batch of a step of each task as the page gets it, against what the step received and transformers' heads."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from helpers import finished, labelled, make_model
from torch.nn import functional as F

import bert_core
from balcony.batch.rows import task_value
from balcony.batch.tab import batch_code, batch_rows, batch_value
from balcony.frame.page_request import PageRequest
from balcony.frame.question import Question
from balcony.server.files import folder_name
from balcony.server.workspace import Workspace
from balcony.server.workspaces import Workspaces
from bert_core import load_recipe
from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import train_tokenizer
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import FinetuningRecipe
from bert_core.runs.train import Training
from bert_core.storage.checkpoint import Checkpoint, save_checkpoint
from bert_core.tasks.examples import TaskData, TaskParts
from bert_core.tasks.task import Example

SETTINGS = {"training.steps": 5, "data.batch_size": 7, "data.validation_share": 0.2, "data.sequence_length": 14}
LONG = "the team won today . my name is juliet and i am great . nice to meet you romeo , how are you ?"
CONTEXT = [
    Example(("what name", LONG), (("juliet", LONG.index("juliet")),)),
    Example(("who is romeo", LONG), (("team won", LONG.index("team won")),)),
    Example(("what today", f"{LONG} {LONG}"), ()),
]
PAIRS = [Example(("hello romeo", f"my name is {word}"), word) for word in ("juliet", "great", "nice", "team")] * 5
TASKS = {kind: labelled(kind) for kind in ("text-classification", "text-regression", "multiple-choice")}
TASKS |= {kind: labelled(kind) for kind in ("question-answering", "token-classification")}
TASKS |= {"pairs": TaskData("text-classification", PAIRS), "windows": TaskData("question-answering", CONTEXT * 2)}


class Recording:
    """An objective that keeps the batches that the steps received."""

    def __init__(self, task: Any) -> None:
        self.task, self.batches = task, list[Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def run(self, model: Any, batch: Any, device: Any) -> Any:
        self.batches.append(batch)
        return self.task.run(model, batch, device)


def trained(checkpoint: Checkpoint, data: TaskData, **settings: Any) -> Any:
    """A job after its steps: with the batches that these received, and the model after them."""
    recipe = FinetuningRecipe(name="own", task=data.task, title="Own").override({**SETTINGS, **settings})
    job = prepare(recipe, TaskParts(data, data), seed=3, start=checkpoint)
    training = Training(job)
    training.trainer.objective = received = Recording(training.trainer.objective)
    for _ in training:
        pass
    return SimpleNamespace(job=job, received=received.batches, after=training.newest.checkpoint())


@pytest.fixture(scope="module")
def pieces() -> Any:
    words = Corpus.from_text(f"{LONG}\nhello romeo my name is juliet\nwho what name", "lines")
    return train_tokenizer(words, kind="wordpiece", vocab_size=60)


@pytest.mark.parametrize("name", TASKS)
def test_the_shown_rows_are_those_that_the_step_received(name: str, tiny_checkpoint: Checkpoint) -> None:
    run = trained(tiny_checkpoint, TASKS[name])
    for step, batch in enumerate(run.received, 1):
        value = task_value(run.job.batches, run.after, step, slice(99))
        assert json.loads(json.dumps(value, allow_nan=False)) == value
        rows = sorted((row for row in value["rows"] if row["number"] is not None), key=lambda row: row["number"])
        flat = [getattr(batch, part).flatten(0, -2) for part in ("input_ids", "token_type_ids", "attention_mask")]
        assert [row["ids"] for row in rows] == flat[0].tolist()
        assert [row["segments"] for row in rows] == flat[1].tolist()
        assert [[int(kind != "padding") for kind in row["kinds"]] for row in rows] == flat[2].tolist()
        assert value["length"] == flat[0].shape[1]
        sizes = dict(value["sizes"])
        for part in ("input_ids", "target", "positions"):
            if (tensor := getattr(batch, part)) is not None:
                assert sizes[part] == " × ".join(map(str, tensor.shape))


@pytest.mark.parametrize("name", TASKS)
def test_the_answers_equal_the_heads_of_transformers(name: str, tiny_checkpoint: Checkpoint, tmp_path: Any) -> None:
    run = trained(tiny_checkpoint, TASKS[name])
    save_checkpoint(run.after, tmp_path)
    theirs = getattr(transformers, run.after.head.architecture).from_pretrained(tmp_path).eval()
    batch, value = run.received[-1], task_value(run.job.batches, run.after, 5, slice(99))
    inputs = {part: getattr(batch, part) for part in ("input_ids", "token_type_ids", "attention_mask")}
    with torch.no_grad():
        output = theirs(**inputs)
    rows = sorted((row for row in value["rows"] if row["number"] is not None), key=lambda row: row["number"])
    if TASKS[name].task == "question-answering":
        found = torch.stack([output.start_logits, output.end_logits], 1)  # (R, 2, T)
        found = found.masked_fill(batch.attention_mask[:, None] == 0, -torch.inf).flatten(0, 1)
    else:
        found = output.logits if batch.positions is None else output.logits.flatten(0, 1)[batch.positions]
    asked = [each for row in rows for each in row["asks"]]
    right = batch.target.flatten()
    assert len(asked) == len(found) == len(right)
    if name == "text-regression":
        assert [each["guess"] for each in asked] == pytest.approx(found[:, 0].tolist(), abs=1e-5)
        assert [each["label"] for each in asked] == pytest.approx(right.tolist())
        assert [each["loss"] for each in asked] == pytest.approx(((found[:, 0] - right) ** 2).tolist(), abs=1e-5)
        return
    losses, likely = F.cross_entropy(found, right, reduction="none"), found.softmax(-1)
    assert [each["loss"] for each in asked] == pytest.approx(losses.tolist(), abs=1e-5)
    assert [each["probability"] for each in asked] == pytest.approx(likely.amax(-1).tolist(), abs=1e-5)
    assert [each["is_right"] for each in asked] == (found.argmax(-1) == right).tolist()
    labels = run.after.head.labels or ["1", "2", "3"]
    for each, scores, label in zip(asked, found, right.tolist(), strict=True):
        if "guessed" in each:
            assert (each["at"], each["guessed"]) == (label, int(scores.argmax()))
            continue
        assert each["label"] == labels[label]
        for named, logit, p in each.get("scores", ()):
            at = labels.index(named)
            assert (logit, p) == pytest.approx((scores[at].item(), scores.softmax(-1)[at].item()), abs=1e-5)


def test_the_rows_of_a_choice_stand_together_with_one_answer(tiny_checkpoint: Checkpoint) -> None:
    run = trained(tiny_checkpoint, TASKS["multiple-choice"])
    value = task_value(run.job.batches, run.after, 2, slice(2, 5))
    assert [row["example"] for row in value["rows"]] == [2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert [row["number"] for row in value["rows"]] == [*range(6, 15)], "3 rows of each example before them"
    assert [len(row["asks"]) for row in value["rows"]] == [1, 0, 0] * 3


def test_windows_follow_each_other_and_say_where_the_answer_is(tiny_checkpoint: Checkpoint) -> None:
    run = trained(tiny_checkpoint, TASKS["windows"], **{"data.stride": 5})
    batches, seen = run.job.batches, set()
    for step in range(1, batches.steps_per_epoch + 1):
        value = task_value(batches, run.after, step, slice(99))
        by_example: dict[int, list[Any]] = {}
        for row in value["rows"]:
            by_example.setdefault(row["example"], []).append(row)
        for rows in by_example.values():
            numbers = [row["window"]["number"] for row in rows]
            assert numbers == sorted(numbers)
            for row, following in itertools.pairwise(rows):
                here, there = row["window"], following["window"]
                if there["number"] == here["number"] + 1:
                    assert there["before"] == here["after"] == here["to"] - there["from"] + 1 > 0
                    shared = [row["ids"][i] for i in here["shared"]][-here["after"] :]
                    assert shared == [following["ids"][i] for i in there["shared"]][: there["before"]]
            for row in rows:
                window, has = row["window"], "answer" in row["kinds"]
                assert has == (window["number"] in window["with_answer"])
                words = [token for token, kind in zip(row["tokens"], row["kinds"]) if kind == "answer"]
                assert " ".join(words) == (row["answer"] if has else "")
                assert (row["number"] is None) == (window["step"] != step) == (row["asks"] == [])
                for each in row["asks"]:
                    assert (each["label"] == "[CLS] (0)") == (not has)
                if row["number"] is not None:
                    seen.add((row["answer"], window["number"], window["of"]))
        csv = [*batch_rows(value)]
        assert {row["row"] for row in csv} == {*range(len(batches[step - 1].input_ids))}
    assert {answer for answer, *_ in seen} == {"", "juliet", "team won"}
    assert max(of for *_, of in seen) > 6


def test_the_answer_to_compare_with_is_the_most_frequent_of_the_training_examples(tiny_checkpoint: Checkpoint) -> None:
    run = trained(tiny_checkpoint, TASKS["text-classification"])
    value = task_value(run.job.batches, run.after, 1, slice(99))
    labels = [example.label for example in run.job.batches.data.examples]
    shown = [each["label"] for row in value["rows"] for each in row["asks"]]
    answer, right = value["always"]
    assert labels.count(answer) == max(map(labels.count, labels))
    assert right == shown.count(answer)
    run = trained(tiny_checkpoint, TASKS["text-regression"])
    value = task_value(run.job.batches, run.after, 1, slice(99))
    labels = [example.label for example in run.job.batches.data.examples]
    shown = np.array([each["label"] for row in value["rows"] for each in row["asks"]])
    assert value["always"] == pytest.approx([np.mean(labels), ((shown - np.mean(labels)) ** 2).mean()])


def test_a_later_piece_of_a_word_has_no_tag(tiny_config: Any, pieces: Any) -> None:
    checkpoint = Checkpoint(make_model(tiny_config.replace(vocab_size=60)), pieces)
    words = ("romeo", "team", "juliets", "a")
    data = TaskData("token-classification", [Example((" ".join(words),), ("B-a", "O", "B-a", "O"), words)] * 9)
    run = trained(checkpoint, data, **{"data.sequence_length": 40})
    [row, *_] = task_value(run.job.batches, run.after, 1, slice(1))["rows"]
    asked = [token for token, kind in zip(row["tokens"], row["kinds"]) if kind == "asked"]
    later = [token for token, kind in zip(row["tokens"], row["kinds"]) if kind == "later"]
    assert [len(asked), len(later) > 1, all(token.startswith("##") for token in later)] == [4, True, True]
    assert [each["label"] for each in row["asks"]] == ["B-a", "O", "B-a", "O"]


def test_to_show_a_batch_changes_nothing_of_the_batches_of_training(tiny_checkpoint: Checkpoint) -> None:
    run = trained(tiny_checkpoint, TASKS["pairs"])
    batches = run.job.batches
    before = batches.epoch_of(0)
    task_value(batches, run.after, 5 * batches.steps_per_epoch, slice(2))
    assert all(np.array_equal(one, other) for one, other in zip(batches.epoch_of(0), before))


@pytest.mark.parametrize("task", [*TASKS, None])
def test_the_python_code_draws_the_same_batch(
    task: str | None,
    workspaces: Workspaces,
    space: Workspace,
    tiny_checkpoint: Checkpoint,
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    if task is None:
        recipe = load_recipe("romeo-juliet").override({"training.steps": 3})
        run = finished(workspaces.start(space, recipe))
    else:
        own = FinetuningRecipe(name="own", task=TASKS[task].task, title="Own").override(SETTINGS)
        run = finished(workspaces.finetune(space, own, tiny_checkpoint, TaskParts(TASKS[task])))
        monkeypatch.setattr(bert_core, "load_task", lambda *_, **options: run.job.source.train)
    asked = PageRequest(workspaces, space, Question(model=run.id))
    run.save(tmp_path / folder_name(asked.checkpoint.name))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(batch_code(asked), names)
    value = batch_value(space, run, None, 0)
    rows = {row["number"]: row["ids"] for row in value["rows"] if row["number"] is not None}
    ids = names["batch"].input_ids.flatten(0, -2).tolist()
    assert {number: ids[number] for number in rows} == rows
    if task is None:
        guesses = iter(names["guesses"].tolist())
        found = {
            n: [next(guesses) for _ in range(int((own >= 0).sum()))] for n, own in enumerate(names["batch"].labels)
        }
        token_id = run.snapshots[0].empty.tokenizer.token_to_id
        for row in value["rows"]:
            assert found[row["number"]] == [token_id(each["guess"]) for each in row["asks"] if "at" in each]
    elif value["task"].startswith("text-class"):
        guessed = [run.job.head.labels.index(row["asks"][0]["guess"]) for row in value["rows"]]
        assert [int(each.argmax()) for each in names["logits"]][: len(rows)] == guessed
