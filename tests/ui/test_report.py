"""A run's report: what it states is what the run has, as text, in one file that loads nothing."""

import html
import json
import math
import re
import shlex
from pathlib import Path

import pytest
from helpers import NASTY, Elements, finished

from balcony.parts import report as module
from balcony.parts.report import report
from bert_core import load_recipe
from bert_core.__main__ import main
from bert_core.data.corpus import Corpus
from bert_core.errors import RunError
from bert_core.runs.recipe import Recipe
from bert_core.training import HELD_OUT as NAMES
from bert_core.training import StepRow

TEXT = Corpus.from_text(f"one two {NASTY}\nthree four five\nsix one two\nthree six four", name="Your text")
HELD_OUT = [
    StepRow(step=step, **dict(zip(NAMES, numbers)))
    for step, numbers in ((2, (2.5, 0.7, 0.1, 0.5)), (7, (2.25, 0.69, 0.2, 0.5)))
]
SHORT = ["training.steps=7", "data.batch_size=3", "model.hidden_size=12", "model.num_attention_heads=3"]


@pytest.fixture(scope="module")
def run(service):
    recipe = load_recipe("romeo-juliet").override(dict(each.split("=") for each in SHORT))
    return finished(service.start(recipe, TEXT, seed=5))


@pytest.fixture(scope="module")
def page(run) -> str:
    checkpoint = run.snapshots[-1].checkpoint()
    return report(checkpoint, run.recipe, run.history(), HELD_OUT, run.job.source, verdict=[NASTY])


def test_it_states_the_numbers_of_the_run(run, page):
    texts, last = Elements(page).texts, run.history()[-1]
    facts = dict(zip(texts["th"], texts["td"]))
    assert facts["Last step"] == f"MLM loss {last.mlm_loss:.4f}, NSP loss {last.nsp_loss:.4f}"
    assert facts["Training"].startswith("7 of 7 steps of 3 pairs,")
    assert facts["Training"].endswith("seed 5")
    assert facts["Text"] == "Your text, 4 sentences"
    model = run.snapshots[-1].checkpoint().config
    assert f"{model.parameter_count():,} parameters, {model.vocab_size} tokens" in facts["Model"]
    labels = " ".join(texts["figcaption"])
    assert f"uniform guess, {math.log(model.vocab_size):.2f}" in labels
    assert "coin toss, 0.69" in labels
    curves = [
        [len(points.split()), kind]
        for kind, points in re.findall(r'<polyline class="curve (.*?)" points="(.*?)"', page)
    ]
    assert curves == [[7, "training"], [2, "held-out"]] * 2


def test_the_recipe_in_it_is_that_of_the_run(run, page):
    command, settings = Elements(page).texts["pre"]
    assert command == "python -m bert_core train --recipe recipe.json --output repeated --corpus my-text.txt"
    repeated = Recipe.from_dict("repeated", json.loads(settings))
    assert repeated.content() == run.recipe.content()
    assert repeated.seed == 5


def test_all_texts_are_escaped_and_nothing_is_loaded(page):
    elements = Elements(page)
    assert "script" not in elements.texts
    assert html.escape(NASTY) in page
    assert NASTY in " ".join(elements.texts["p"])
    assert not [each for each in elements.attributes if each[1] in ("src", "href", "onerror", "onload")]
    [policy] = [value for tag, name, value in elements.attributes if name == "content" and "default-src" in value]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_a_long_run_has_short_curves(run, monkeypatch):
    rows = run.history()
    monkeypatch.setattr(module, "MOST_POINTS", 3)
    drawn = report(run.snapshots[-1].checkpoint(), run.recipe, rows)
    points = [point.split(",") for point in re.findall(r'points="(.*?)"', drawn)[0].split()]
    assert [int(step) for step, _ in points] == [3, 6, 7]
    assert float(points[0][1]) == pytest.approx(sum(row.mlm_loss for row in rows[:3]) / 3, rel=1e-3)


def test_a_run_without_its_text_or_without_a_step(run):
    checkpoint = run.snapshots[-1].checkpoint()
    texts = Elements(report(checkpoint, run.recipe, run.history())).texts
    assert texts["h2"] == ["Curves", "Repeat it"]
    with pytest.raises(RunError, match="no step yet"):
        report(checkpoint, run.recipe, [])


def test_its_command_and_recipe_repeat_the_training(tmp_path, monkeypatch, capsys, page, run):
    command, settings = Elements(page).texts["pre"]
    monkeypatch.chdir(tmp_path)
    Path("recipe.json").write_text(settings, encoding="utf-8")
    Path("my-text.txt").write_text("\n".join(TEXT.sentences), encoding="utf-8")
    assert main(shlex.split(command)[3:]) == 0
    again, last = json.loads(capsys.readouterr().out.splitlines()[-1]), run.history()[-1]
    assert (again["mlm_loss"], again["nsp_loss"]) == (pytest.approx(last.mlm_loss), pytest.approx(last.nsp_loss))
