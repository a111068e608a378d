"""A file of a view that shows two models."""

import csv
import dataclasses
import io
import itertools
import json

import pytest
from helpers import make_model

from bert_core import TrainingService
from bert_core.errors import BertCoreError
from bert_core.probes.sentence_pairs import next_sentence
from bert_core.storage.checkpoint import Checkpoint
from ui.next_sentence.pair_views import MEAN, pair_file
from ui.parts.downloads import with_other
from ui.parts.page import Page
from ui.server.workspace import Model
from ui.server.workspaces import Workspaces

PAIR = ("how are you", "i am romeo")


@pytest.fixture
def page(service: TrainingService, tiny_checkpoint: Checkpoint) -> Page:
    return Page(None, Workspaces(service, {"shipped": lambda: tiny_checkpoint}), None, None)


def test_both_models_stand_in_the_numbers_and_one_in_the_python(page: Page, tiny_checkpoint, tiny_config) -> None:
    space = page.workspaces.enter(None)
    own = dataclasses.replace(tiny_checkpoint, model=make_model(tiny_config, seed=1))
    space.add_model(Model("=mine", "step 3", own))

    def files(kind: str, other: str) -> str:
        return with_other(page, space.token, other, kind, lambda checkpoint: pair_file(kind, checkpoint, *PAIR, MEAN))

    assert files("json", "") == pair_file("json", own, *PAIR, MEAN)
    content = json.loads(files("json", "shipped"))
    assert list(content) == ["=mine, step 3", "shipped, comes with Balcony"]
    rows = list(csv.DictReader(io.StringIO(files("csv", "shipped"), newline="")))
    for (title, file), checkpoint in zip(content.items(), (own, tiny_checkpoint), strict=True):
        assert file["is_next"] == pytest.approx(next_sentence(checkpoint, *PAIR), abs=1e-6)
        weights = [float(row["weight"]) for row in rows if row["model"].removeprefix("'") == title]
        assert weights == list(itertools.chain(*file["attention"]["weights"]))
    assert with_other(page, space.token, "shipped", "py", lambda checkpoint: str(checkpoint is own)) == "True"
    with pytest.raises(BertCoreError):
        files("json", "of somebody else")


def test_two_models_of_one_name_are_told_apart(page: Page) -> None:
    content = with_other(page, "", "shipped", "json", lambda checkpoint: "1\n")
    assert content == '{"shipped, comes with Balcony": 1, "shipped, comes with Balcony (2)": 1}\n'
