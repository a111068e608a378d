"""Writing by unmasking as the page asks for it."""

import dataclasses
import math

import pytest
from helpers import finished

from balcony.frame.page_request import PageRequest
from balcony.frame.question import Question
from balcony.masked_words.closer_view import closer_code, closer_rows
from balcony.masked_words.tab import CLOSER, look_closer
from balcony.server.workspaces import Workspaces
from bert_core import load_checkpoint, load_recipe
from bert_core.config import CHECKPOINTS
from bert_core.errors import InputError

ASKED = Question("hello how are you", "i am [MASK]", hidden=(1,), view="write", length=3, rounds=2)


def test_hidden_typed_and_added_masks_are_written(workspaces, space, capsys):
    asked = dataclasses.replace(ASKED, temperature=15, seed=3)
    value = look_closer(PageRequest(workspaces, space, asked))[CLOSER]
    assert [value["tokens"][position] for position in (1, 3, 4)] == ["hello", "are", "you"]
    assert value["places"] == (2, 5, 6, 7, 11)
    assert (value["seed"], value["copied"]) == (3, None)  # nothing is known of the model's text
    rows = closer_rows(value)
    assert [row["hidden_again"] for row in rows].count(True) == 2
    last = value["rounds"][-1]
    assert [row["token"] for row in rows if row["round"] == 2] == list(last["tokens"])
    checkpoint = workspaces.model(space).checkpoint
    exec(closer_code(dataclasses.replace(checkpoint, name=str(CHECKPOINTS / "romeo-juliet")), asked), {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1
    assert printed[0].startswith("('hello ")


def test_what_stands_in_the_text_of_a_run_and_of_a_shipped_model(service, workspaces, space):
    recipe = load_recipe("romeo-juliet").override({"training.steps": 2})
    run = finished(service.start(recipe, seed=0))
    later = finished(service.start(recipe, start=run.snapshots[-1].checkpoint()))
    blank = dataclasses.replace(ASKED, text="", pair="", hidden=(), length=12, rounds=8)
    for each in (run, later):
        space.add_run(each)
        value = look_closer(PageRequest(workspaces, space, dataclasses.replace(blank, model=each.id)))[CLOSER]
        if each is run:
            assert value["copied"]["longest"] <= 3  # hardly trained
        else:
            assert value["copied"] is None, "it went on from another model, which had a text of its own"
    shipped = Workspaces(service, {"romeo-juliet": lambda: load_checkpoint(CHECKPOINTS / "romeo-juliet")})
    value = look_closer(PageRequest(shipped, space, blank))[CLOSER]
    assert value["copied"]["longest"] == value["copied"]["inside"] == 12
    assert math.prod(value["rounds"][-1]["probabilities"]) > 0.1


def test_a_link_that_asks_for_too_much_is_refused(workspaces, space):
    with pytest.raises(InputError, match=r"adds 1,000,000 \[MASK\]s; the limit is 32"):
        look_closer(PageRequest(workspaces, space, dataclasses.replace(ASKED, length=10**6)))
    value = look_closer(PageRequest(workspaces, space, dataclasses.replace(ASKED, rounds=10**9)))[CLOSER]
    assert len(value["rounds"]) == 5
    with pytest.raises(InputError, match=r"no \[MASK\]"):
        look_closer(PageRequest(workspaces, space, Question("hello", view="write", length=0)))
