"""A file of a view that shows two models."""

import csv
import dataclasses
import io
import json

import pytest
from helpers import make_model

from balcony.frame.page_request import PageRequest
from balcony.frame.question import Question
from balcony.next_sentence.tab import OTHER_VERDICT, VERDICT, judge, pair_rows
from balcony.parts.downloads import by_title, saved_name
from balcony.parts.export import file_text
from balcony.server.workspace import Model
from balcony.server.workspaces import Workspaces
from bert_core import TrainingService
from bert_core.errors import BertCoreError
from bert_core.probes.sentence_pairs import next_sentence
from bert_core.storage.checkpoint import Checkpoint

PAIR = Question("how are you", "i am romeo")


@pytest.fixture
def workspaces(service: TrainingService, tiny_checkpoint: Checkpoint) -> Workspaces:
    return Workspaces(service, {"shipped": lambda: tiny_checkpoint})


def test_a_file_has_the_numbers_of_both_models(workspaces: Workspaces, tiny_checkpoint, tiny_config) -> None:
    space = workspaces.enter(None)
    own = dataclasses.replace(tiny_checkpoint, module=make_model(tiny_config, seed=1))
    key = space.add_model(Model("=mine", "step 3", own))

    def file(kind: str, other: str) -> str:
        asked = PageRequest(workspaces, space, dataclasses.replace(PAIR, model=key, other=other))
        found = judge(asked)
        return file_text(kind, by_title(asked, [found[VERDICT], found[OTHER_VERDICT]]), pair_rows)

    alone, both = json.loads(file("json", "")), json.loads(file("json", "shipped"))
    assert list(both) == ["=mine, step 3", "shipped, comes with Balcony"]
    for found, checkpoint in zip((alone, *both.values()), (own, own, tiny_checkpoint), strict=True):
        assert found["is_next"] == pytest.approx(next_sentence(checkpoint, PAIR.text, PAIR.pair), abs=1e-6)
    rows = csv.DictReader(io.StringIO(file("csv", "shipped").removeprefix("\ufeff"), newline=""))
    found = {row["model"].removeprefix("'"): float(row["is_next"]) for row in rows}
    assert found == {model: each["is_next"] for model, each in both.items()}
    with pytest.raises(BertCoreError):
        file("json", "of somebody else")


def test_the_name_of_a_file_says_model_step_sentence_and_view(workspaces: Workspaces, tiny_checkpoint) -> None:
    space = workspaces.enter(None)
    key = space.add_model(Model("My words", "step 1,200", tiny_checkpoint))
    asked = PageRequest(workspaces, space, dataclasses.replace(PAIR, model=key))
    assert saved_name(asked, ("text", "pair"), "guesses") == "My-words-step-1200-how-are-you-i-am-romeo-guesses"
    both = PageRequest(workspaces, space, dataclasses.replace(PAIR, model=key, other="shipped"))
    assert saved_name(both, (), "matrix") == "My-words-step-1200-shipped-matrix"


def test_two_models_of_one_name_get_different_titles(workspaces: Workspaces) -> None:
    asked = PageRequest(workspaces, workspaces.enter(None), Question(other="shipped"))
    titles = ["shipped, comes with Balcony", "shipped, comes with Balcony (2)"]
    assert by_title(asked, [1, 2]) == dict(zip(titles, (1, 2)))
