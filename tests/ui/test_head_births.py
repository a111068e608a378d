"""Heads over the steps of a run: what the page gets is what the probes say, and what is said of it."""

import json

import pytest
import torch

from balcony.attention import head_births as module
from balcony.attention.head_births import NO_COST, NO_RUN, NONE_BORN, birth_rows, births, births_code, conclusion
from balcony.attention.values import batch_for
from balcony.frame.page_request import PageRequest
from balcony.frame.question import Question
from bert_core import TrainingService, ablation_map, head_patterns, load_recipe
from bert_core.probes.patterns import HeadBirth

TEXTS = ("Oh Congratulations, Juliet", "Thank you Romeo")


@pytest.fixture(scope="module")
def run(service: TrainingService):
    return service.start(load_recipe("romeo-juliet").override({"training.steps": 4}), seed=2).wait()


def test_all_steps_are_measured_in_parts_and_once(workspaces, space, run, monkeypatch):
    space.add_run(run)
    asked = PageRequest(workspaces, space, Question(*TEXTS, model=run.id))
    other = PageRequest(workspaces, space, Question(TEXTS[0], model=run.id))
    monkeypatch.setattr(module, "SECONDS", 0)  # one part of each answer
    of = 2 * len(run.snapshots)
    first = births(asked)
    assert first["said"] == "", "nothing is said before all patterns are known"
    found = [first["parts"], *(births(each)["parts"] for each in (other, asked, other))]
    assert found == [[1, of], [1, of], [2, of], [2, of]], "two pages ask about one run"
    monkeypatch.setattr(module, "SECONDS", 60)
    value = births(asked)
    assert value["parts"] == [of, of]
    calls: list[object] = []
    monkeypatch.setattr(module, "head_patterns", lambda *_: calls.append(1))
    assert births(asked) == value
    assert calls == [], "it is known"
    for place in (0, len(run.snapshots) - 1):
        checkpoint = run.snapshots[place].checkpoint()
        patterns = head_patterns(checkpoint, *TEXTS)
        batch = batch_for(checkpoint, run.job.source)
        cost = ablation_map(checkpoint, *TEXTS, batch=batch).changes["loss"]
        torch.testing.assert_close(torch.tensor(value["above"][place]).double(), patterns.above, atol=1e-4, rtol=0)
        torch.testing.assert_close(torch.tensor(value["limits"][place]).double(), patterns.limits, atol=1e-4, rtol=0)
        torch.testing.assert_close(torch.tensor(value["costs"][place]), cost, atol=1e-4, rtol=0)
    rows = [*birth_rows(json.loads(json.dumps(value, allow_nan=False)))]
    assert len(rows) == len(run.snapshots) * 8
    assert (rows[-1]["step"], rows[-1]["layer"], rows[-1]["head"]) == (4, 2, 4)
    assert rows[-1]["previous_limit"] == value["limits"][-1][1][1]


def test_another_model_says_what_to_do_and_a_large_one_has_no_cost(workspaces, space, run, monkeypatch):
    assert births(PageRequest(workspaces, space, Question(*TEXTS)))["error"] == NO_RUN
    space.add_run(run)
    monkeypatch.setattr(module, "WITH_COST", 0)
    monkeypatch.setattr(module, "SECONDS", 60)
    value = births(PageRequest(workspaces, space, Question("Thank you Romeo", model=run.id)))
    assert (value["costs"], value["notes"], value["said"]) == ([], [NO_COST], NONE_BORN)


def test_the_code_of_a_run_finds_its_births(workspaces, space, run, capsys):
    space.add_run(run)
    code = births_code(PageRequest(workspaces, space, Question(*TEXTS, model=run.id)))
    exec(compile(code, "births", "exec"), scope := {})
    assert scope["run"].history()[-1].mlm_loss == run.history()[-1].mlm_loss
    assert scope["patterns"][-1].above.shape == (6, 2, 4)


def born(*steps: int) -> list[HeadBirth]:
    return [HeadBirth(step, 0, 0, "next") for step in steps]


def test_one_sentence_says_whether_a_fall_and_births_coincide():
    steps = range(41)
    assert conclusion(steps, [], (3, 5)) == NONE_BORN
    assert "cannot be said: it takes 10 kept steps" in conclusion(range(5), born(3), None)
    assert "born then: 0 of 1. By chance, as many would be in 100% of cases: one run" in conclusion(
        steps, born(9), (3, 5)
    )
    assert conclusion(steps, born(4), (3, 4)).endswith("in 2% of cases: fall and births coincide.")
    assert "in 10% of cases: one run cannot tell" in conclusion(steps, born(4, 9), (3, 5))
