"""The question: what a page sends is checked, each event concerns its own parts, and a link trains its model again."""

import dataclasses

import pytest
from helpers import finished, wait
from torch.testing import assert_close

from balcony.frame.page_request import PageRequest
from balcony.frame.question import LONGEST, SCHEMA, Question
from balcony.frame.shown_model import description, models, repeated_run, shown_model
from balcony.handlers import own
from balcony.server.workspace import NOT_YOURS, Workspace
from balcony.server.workspaces import Workspaces
from bert_core import load_recipe
from bert_core.config import LOCAL
from bert_core.data.corpus import Corpus
from bert_core.errors import BertCoreError, InputError
from bert_core.runs.run import thinned

RECIPE = load_recipe("romeo-juliet").override({"training.steps": 8})
TEXT = Corpus.from_text("one two three\nfour five six\nseven eight nine\n", "lines", name="my.txt")


def test_a_question_is_read_as_the_page_sends_it():
    assert Question.read(None) == Question.read({}) == Question()
    sent = {
        **dataclasses.asdict(Question(text="hello", pair="you", model="m", step=3)),
        "hidden": [1, 4],
        "head": [1, 0],
        "off": [[0, 1], [1, 1]],
        "zeroed": [[0, 2]],
        "carried": [1, 0, 3],
        "contexts": ["a", "b"],
        "number": 7,
        "newest": 2,
        "heads": {"mode": "lines"},
    }
    found = Question.read(sent)
    assert (found.hidden, found.off, found.head) == ((1, 4), ((0, 1), (1, 1)), (1, 0))
    assert (found.text, found.step, found.contexts) == ("hello", 3, ("a", "b"))
    assert Question.read({**sent, "contexts": None, "step": None}).contexts is None


@pytest.mark.parametrize(
    "part",
    [
        {"hidden": ["a"]},
        {"hidden": 3},
        {"head": [1]},
        {"head": None},
        {"carried": [1, 2]},
        {"off": [[0, True]]},
        {"text": None},
        {"text": "a" * (LONGEST + 1)},
        {"step": "3"},
        {"step": 1.5},
        {"hide_special": 1},
        {"contexts": "abc"},
        {"hidden": [0] * 5000},
    ],
)
def test_what_no_page_sends_is_refused_by_name(part):
    with pytest.raises(InputError, match=f"“{next(iter(part))}”"):
        Question.read(part)


def test_a_page_sends_the_first_values_that_it_has_got():
    assert Question.read({name: first for name, (_, first) in SCHEMA.items()}) == Question()
    assert {kind for kind, _ in SCHEMA.values()} == {
        *("text", "number", "flag", "object", "texts", "numbers", "head", "heads")
    }


def test_a_link_trains_the_same_model_again_bit_for_bit(workspaces: Workspaces, space: Workspace):
    changed = RECIPE.override({"data.mask_probability": 0.3, "training.nsp_weight": 0.0, "model.num_hidden_layers": 1})
    first = finished(workspaces.start(space, changed, None, 2**60))
    described = description(first)
    assert described["seed"] == str(2**60), "JavaScript does not hold such a number"
    visitor = workspaces.enter(None)
    again = finished(repeated_run(workspaces, visitor, described))
    assert again is not first
    assert_close(again.snapshots[-1].weights, first.snapshots[-1].weights, rtol=0, atol=0)
    assert description(again) == described
    assert repeated_run(workspaces, visitor, described) is again, "the same link does not train twice"


def test_the_step_of_a_link_is_there_whatever_snapshots_the_run_keeps(workspaces: Workspaces, space: Workspace):
    recipe = RECIPE.override({"training.steps": 150, "data.batch_size": 2})
    described = description(finished(workspaces.start(space, recipe, None, 1)))
    found = []
    for _ in range(2):
        run = finished(repeated_run(workspaces, workspaces.enter(None), described, 137))
        run.snapshots = thinned([*run.snapshots] * 3)
        [there] = {id(kept): kept for kept in run.snapshots if kept.step == 137}.values()
        found.append(there.weights)
        assert run.snapshots[-1].step == 150
    assert_close(*found, rtol=0, atol=0)


def test_a_run_that_is_there_is_used_again(workspaces: Workspaces):
    visitor, plain = workspaces.enter(None), {"recipe": "romeo-juliet", "seed": "4", "settings": {"training.steps": 8}}
    first = repeated_run(workspaces, visitor, plain)
    assert repeated_run(workspaces, visitor, plain) is first, "also while it is being prepared"
    finished(first)
    assert repeated_run(workspaces, visitor, plain) is repeated_run(workspaces, visitor, description(first)) is first
    own = finished(workspaces.start(visitor, RECIPE, None, 5))
    assert repeated_run(workspaces, visitor, plain | {"seed": "5"}) is own
    assert repeated_run(workspaces, visitor, plain | {"seed": "6"}) not in (first, own)


def test_a_run_under_way_keeps_the_step_of_a_link_and_one_that_has_passed_it_is_trained_again(workspaces: Workspaces):
    visitor, recipe = workspaces.enter(None), RECIPE.override({"training.steps": 150, "data.batch_size": 2})
    run = workspaces.start(visitor, recipe, None, 1, paused=True)
    wait(lambda: run.snapshots)
    assert repeated_run(workspaces, visitor, description(run), 137) is run
    assert shown_model(workspaces, visitor, run.id, 137)["at"] is None, "the page waits for it"
    run.resume()
    steps = {snapshot.step for snapshot in finished(run).snapshots}
    assert shown_model(workspaces, visitor, run.id, 137)["at"] == 137
    passed = next(step for step in range(1, 150) if step not in steps)
    again = repeated_run(workspaces, visitor, description(run), passed)
    assert again is not run
    assert passed in {snapshot.step for snapshot in finished(again).snapshots}


def test_only_the_runs_of_lessons_are_exempt_from_lowered_limits(workspaces: Workspaces, monkeypatch):
    visitor, plain = workspaces.enter(None), {"recipe": "romeo-juliet", "seed": "4", "settings": {"training.steps": 8}}
    monkeypatch.setattr(workspaces.service, "limits", dataclasses.replace(LOCAL, steps=5))
    run = workspaces.start(visitor, RECIPE, None, 1)
    why = "This run would have 8 steps; the limit here is 5"
    with pytest.raises(BertCoreError, match=why):
        run.wait()
    with pytest.raises(BertCoreError, match=f"ended before it had a model. {why}"):
        workspaces.model(visitor, run.id)
    with pytest.raises(BertCoreError, match=why):
        repeated_run(workspaces, visitor, plain)
    workspaces.lesson_runs = [plain]
    finished(repeated_run(workspaces, visitor, plain))


def test_a_link_says_what_it_cannot_carry(workspaces: Workspaces, space: Workspace):
    own = finished(workspaces.start(space, RECIPE, TEXT, 1))
    assert description(own) == {"missing": "It was trained on a text that a link does not carry: my.txt."}
    continued = finished(workspaces.start(space, RECIPE, None, 1))
    continued.continue_for(3)
    finished(continued)
    assert "while it trained" in description(continued)["missing"]


@pytest.mark.parametrize(
    "described",
    [
        None,
        [],
        {},
        {"recipe": "romeo-juliet", "seed": "-1", "settings": {}},
        {"recipe": "romeo-juliet", "seed": "0", "settings": {"training.steps": "many"}},
        {"recipe": "romeo-juliet", "seed": "0", "settings": {"corpus.file": "../x"}},
        {"recipe": "../romeo-juliet", "seed": "0", "settings": {}},
        {"recipe": "romeo-juliet", "seed": "0", "settings": {"nothing": 1}},
        {"recipe": "romeo-juliet", "seed": "9" * 5000, "settings": {}},
    ],
)
def test_a_broken_link_starts_nothing(workspaces: Workspaces, space: Workspace, described):
    with pytest.raises(BertCoreError):
        repeated_run(workspaces, space, described)
    assert not space.runs


def test_the_lists_name_models_and_steps(workspaces: Workspaces, space: Workspace):
    run = finished(workspaces.start(space, RECIPE, None, 1))
    space.rename(run.id, "mine")
    assert [found[:3] for found in models(workspaces, space)] == [
        ("shipped", "shipped", "comes with Balcony"),
        (run.id, own("mine"), "finished"),
    ]
    assert PageRequest(workspaces, space, Question(model=run.id)).checkpoint.name == "mine"  # of a download too
    newer = finished(workspaces.start(space, RECIPE, None, 2))
    shipped, first, second = models(workspaces, space)
    assert shipped == ("shipped", "shipped", "comes with Balcony", [], False)
    assert (first[0], second[:2]) == (newer.id, (run.id, own("mine"))), "the newest run comes first"
    assert (second[3][0], second[3][-1]) == (8, 0), "and its newest step"
    other = workspaces.enter(None)
    with pytest.raises(BertCoreError, match=NOT_YOURS):
        workspaces.model(other, run.id)
