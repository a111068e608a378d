"""Memorising versus generalising: the exam on both parts of a text, and on a text with nothing to hold out."""

import time

import pytest

from bert_core import TrainingService, exam, load_recipe
from bert_core.data.corpus import Corpus
from bert_core.runs.run import Run
from bert_core.training.evaluation import is_more_than_chance
from ui.server.workspace import Workspace
from ui.train.exam import FEW, GENERALISES, MEMORISED, MOST_SENTENCES, NEVER, exam_value, verdict_on

RECIPE = load_recipe("romeo-juliet")
WORDS = ("one", "two", "three", "four", "five", "six", "seven")


def trained(service: TrainingService, steps: int, corpus: Corpus | None = None) -> tuple[Workspace, Run]:
    run = service.start(RECIPE.override({"training.steps": steps}), corpus, seed=1)
    while run.status not in ("finished", "failed"):
        time.sleep(0.02)
    space = Workspace("token")
    space.add_run(run)
    return space, run


def test_a_text_with_nothing_to_hold_out_is_memorised(service: TrainingService) -> None:
    space, run = trained(service, 110)
    value = exam_value(space, run)
    assert "nothing to hold out: all 9 sentences" in value["text"]
    assert "memorising" in value["text"]
    result = exam(run.snapshots[-1].checkpoint(), run.corpus)
    assert value["columns"] == ["Training text"]
    assert value["rows"] == [
        ["Hidden words right", result.words],
        ["Pairs judged right", result.pairs],
        [NEVER, (81 - 8, 81)],
    ]
    assert value["step"] == 110
    space.select(run.id, 0)
    assert exam_value(space, run)["step"] == 0


def test_a_longer_text_is_examined_on_both_parts(service: TrainingService) -> None:
    lines = [f"{WORDS[i % 7]} {WORDS[(i + j) % 7]} {WORDS[j % 5]}" for i in range(30) for j in range(8)]
    space, run = trained(service, 30, Corpus.from_text("\n".join(lines), "lines"))
    value = exam_value(space, run)
    assert f"{len(run.held_out.sentences)} sentences are held out" in value["text"]
    assert value["columns"] == ["Training text", "Held out"]
    checkpoint = run.snapshots[-1].checkpoint()
    for column, part in enumerate((run.training_text, run.held_out), 1):
        result = exam(checkpoint, Corpus((part.sentences[:MOST_SENTENCES],)))
        neighbours = min(MOST_SENTENCES, len(part.sentences)) - 1
        never = (result.pairs[1] - neighbours, result.pairs[1])
        assert [row[column] for row in value["rows"]] == [result.words, result.pairs, never]


def test_a_run_in_training_is_examined_only_at_a_selected_step(service: TrainingService) -> None:
    run = service.start(RECIPE.override({"training.steps": 50_000}), seed=1)
    while not run.progress().step:
        time.sleep(0.02)
    space = Workspace("token")
    space.add_run(run)
    assert "rows" not in exam_value(space, run)
    space.select(run.id, 0)
    assert exam_value(space, run)["step"] == 0
    run.stop()


@pytest.mark.parametrize(
    ("learned", "held_out", "verdict"),
    [
        ((90, 100), (20, 100), MEMORISED),
        ((90, 100), (86, 100), GENERALISES),
        ((90, 100), (95, 100), GENERALISES),
        ((4, 100), (0, 100), FEW),
        ((0, 0), (0, 0), ""),
        ((90, 100), (0, 0), ""),
        ((100, 100), (0, 100), MEMORISED),
    ],
)
def test_the_verdict(learned: tuple[int, int], held_out: tuple[int, int], verdict: str) -> None:
    assert verdict_on(learned, held_out) == verdict


def test_chance_makes_small_differences() -> None:
    assert is_more_than_chance((60, 100), (40, 100))
    assert not is_more_than_chance((6, 10), (4, 10))
    assert not is_more_than_chance((40, 100), (60, 100))
