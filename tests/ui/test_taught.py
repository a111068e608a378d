"""Which sentence taught it, on the page: trainings that a visitor starts, watches and stops."""

import csv
import dataclasses
import gc
import json

import pytest
import torch
from helpers import finished, wait

from balcony.frame.page_request import PageRequest
from balcony.frame.question import Question
from balcony.masked_words.taught import (
    kept_of,
    news,
    stop_teaching,
    taught_code,
    taught_rows,
    taught_value,
    teach,
    told,
)
from balcony.parts.export import file_text
from balcony.server.files import folder_name
from balcony.server.workspace import NOT_YOURS
from bert_core import save_checkpoint
from bert_core.data.corpus import Corpus
from bert_core.errors import ConfigError, InputError, RunError
from bert_core.runs.recipe import load_recipe

TEXT = Corpus.from_text("my name is juliet\nnice to meet you\nthe team won today\nthank you\n", "lines")
SIZES = {"model.hidden_size": 12, "model.num_hidden_layers": 1, "model.intermediate_size": 12, "data.batch_size": 6}
RECIPE = load_recipe("romeo-juliet").override({"training.steps": 15, "training.warmup_steps": 1, **SIZES})


@pytest.fixture
def asked(workspaces, space) -> PageRequest:
    """A press on *juliet* of a run that has ended."""
    run = finished(workspaces.start(space, RECIPE, TEXT, 5))
    question = Question(*TEXT.sentences[:2], model=run.id, hidden=(3,), view="taught")
    return PageRequest(workspaces, space, question)


def of(asked: PageRequest, **changes) -> PageRequest:
    return dataclasses.replace(asked, given=dataclasses.replace(asked.question, **changes))


def test_a_visitor_trains_without_each_sentence_and_reads_each_word(asked, capsys, tmp_path, monkeypatch):
    before = taught_value(asked)["before"]
    assert (before["sentences"], before["seeds"], before["trainings"]) == (4, 3, 15)
    assert 0 < before["seconds"] < 60
    with pytest.raises(InputError, match="no numbers"):
        file_text("csv", {"": taught_value(asked)}, taught_rows)
    teach(asked)
    with pytest.raises(RunError, match="“The experiment” has not ended"):
        teach(asked)
    wait(lambda: not taught_value(asked)["isActive"], every=0.1)
    value = taught_value(asked)
    assert (value["done"], value["of"], value["reason"], value["notes"]) == (15, 15, "", [])
    assert (asked.space.unlisted, len(asked.space.runs)) == ([], 1), "its runs are in no list, and freed"
    assert (value["masks"], value["mask"], len(value["falls"])) == (["juliet"], 0, 4)
    shown = value["map"]
    assert [word for word, *_ in shown["words"]] == " ".join(TEXT.sentences).split()
    assert shown["words"][3] == ("juliet", *TEXT.sentences[:2], 3)
    assert shown["words"][8] == ("the", *TEXT.sentences[1:3], 4), "its number is counted through both sentences"
    assert value["falls"] == pytest.approx(shown["falls"][3 :: len(shown["words"])]), "it stands in one pair"
    json.dumps(value, allow_nan=False)
    rows = [*csv.DictReader(file_text("csv", {"": value}, taught_rows)[1:].splitlines())]
    assert (len(rows), rows[3]["word"]) == (4 * len(shown["words"]), "juliet")
    assert float(rows[3]["fall"]) == pytest.approx(value["falls"][0])

    every = taught_value(of(asked, hidden=()))
    assert every["falls"][0] == pytest.approx(sum(shown["falls"][:4] + of_pair(asked)) / 8), (
        "the mean of the pair's words"
    )
    elsewhere = taught_value(of(asked, pair="", hidden=()))
    assert "of neighbours in the text" in elsewhere["missing"]
    typed = taught_value(of(asked, text="my [MASK] is juliet", hidden=()))
    assert "falls" not in typed
    assert taught_value(of(asked, off=((0, 1),)))["notes"][0].startswith("The models that are trained here have all")
    assert news(asked, 15) == value, "the last numbers come in any case"

    checkpoint = asked.checkpoint
    monkeypatch.chdir(tmp_path)
    save_checkpoint(checkpoint, tmp_path / folder_name(checkpoint.name))
    (tmp_path / "my-text.txt").write_text(TEXT.text)
    exec(taught_code(asked), {"torch": torch})
    printed = capsys.readouterr().out
    assert f"{value['falls'][0]:.4f}" in printed


def of_pair(asked: PageRequest) -> list[float]:
    """The falls without the first sentence of the second sentence's words, in the first pair alone."""
    return [taught_value(of(asked, hidden=(number,)))["falls"][0] for number in range(4, 8)]


def test_what_is_done_stays_after_a_stop(asked):
    run = next(iter(asked.space.runs.values()))
    slow = finished(asked.workspaces.start(asked.space, run.recipe.override({"training.steps": 40}), TEXT, 5))
    asked = of(asked, model=slow.id)
    teach(asked)
    wait(lambda: taught_value(asked)["done"] >= 2, every=0.1)
    part = taught_value(asked)
    assert news(asked, -1).keys() >= {"map", "falls", "answer"}
    stop_teaching(asked)
    wait(lambda: not taught_value(asked)["isActive"], every=0.1)
    value = taught_value(asked)
    assert value["reason"] == f"Stopped after {value['done']} of 15 trainings."
    assert 2 <= value["done"] < 15
    assert value["falls"][0] == part["falls"][0] is not None
    assert value["errors"] == value["marks"] == [None] * 4, "one seed says nothing about another"
    assert value["answer"].startswith("What another seed alone changes is known after 3 seeds")
    assert asked.space.unlisted == []
    asked.space.refuse_if_active()
    held = gc.get_referents(*kept_of(asked).__dict__.values(), kept_of(asked).__dict__)
    assert all(each is not asked and each is not asked.space for each in held), "a visitor can be forgotten"


def test_nobody_trains_what_is_not_theirs_or_too_long(asked, workspaces):
    other = dataclasses.replace(asked, space=workspaces.enter(None))
    for ask in (taught_value, teach):
        with pytest.raises(RunError, match=NOT_YOURS[:20]):
            ask(other)
    with pytest.raises(ConfigError, match="The model tiny has no recipe"):
        teach(of(asked, model="shipped"))
    many = Corpus([[f"my name is {a} {b}" for a in "abcdefgh" for b in "abcdefgh"]])
    run = finished(workspaces.start(asked.space, RECIPE.override({"corpus.validation_share": 0.0}), many, 5))
    with pytest.raises(ConfigError, match="has 64 different sentences; the limit is 60"):
        taught_value(of(asked, model=run.id))


def test_what_another_seed_alone_changes_is_seldom_marked():
    """Models that differ in nothing: 20,000 comparisons, and as many where the whole text's models are all alike."""
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(2, 3, 20_000, generator=generator)
    for spread in (1.0, 1e-3):
        scores[0] *= spread
        marks = torch.tensor(told(scores)["marks"])
        assert 0.001 < (marks == 1).double().mean() < 0.03
    scores[1, :, 0], scores[1, :, 1], scores[1, 1, 2] = -9.0, 9.0, torch.nan
    assert told(scores)["marks"][:3] == [1.0, -1.0, None]
