"""The visitor's runs side by side: their rows in the list, running one again, and experiments from start to answer."""

import dataclasses
import functools
import json
import math

import pytest
from helpers import finished, labelled, wait

from balcony.compare.definitions import MEASURES, Marks, answer, format_number, load_experiments
from balcony.compare.experiments import (
    experiment_named,
    start_experiment,
    start_slower,
    start_task_experiment,
    trial_news,
)
from balcony.compare.runs_list import curve, differences, run_row, settings_of, what_differs
from balcony.frame.page_request import PageRequest
from balcony.frame.shown_model import models
from balcony.handlers import own
from balcony.parts.verdicts import Spread
from balcony.server.workspace import Workspace, fixed_bytes
from balcony.server.workspaces import Workspaces
from balcony.train.settings import in_words, label_of
from bert_core import TrainingService, load_recipe
from bert_core.data.corpus import Corpus
from bert_core.errors import ConfigError, RunError
from bert_core.runs.recipe import finetuning_recipe
from bert_core.tasks.examples import TaskParts


@pytest.fixture
def workspaces(service: TrainingService) -> Workspaces:
    return Workspaces(service, {})


@pytest.fixture
def space(workspaces: Workspaces) -> Workspace:
    return workspaces.enter(None)


RECIPE = load_recipe("romeo-juliet").override({"training.steps": 25})


def test_a_run_is_called_by_its_number_and_its_recipe_or_text(workspaces, space) -> None:
    text = Corpus.from_text("one two three\nfour five\nsix seven eight\n", "lines", "mine.txt")
    changed = RECIPE.override({"model.num_hidden_layers": 1, "training.learning_rate": 0.5})
    runs = [
        finished(workspaces.start(space, *each)) for each in ((RECIPE, None, 0), (changed, None, 5), (RECIPE, text, 0))
    ]
    first, second, own_text = [space.title(run.id) for run in runs]
    assert (first, second) == ("Run 1 · Romeo and Juliet, quick", "Run 2 · Romeo and Juliet, quick")
    assert own_text == f"Run 3 · {own('mine')}", "the page translates no words of a person's"
    space.rename(runs[1].id, "the deep one")
    assert space.title(runs[1].id) == own("the deep one")
    space.remove(runs[0].id)
    assert space.title(runs[2].id) == own_text, "also when another run is gone"


def test_a_removed_run_is_forgotten_with_all_that_it_keeps(workspaces, space) -> None:
    first, second = [finished(workspaces.start(space, RECIPE, None, seed)) for seed in (1, 2)]
    space.rename(first.id, "mine")
    assert space.checkpoint(first)
    used = space.used
    waiting = workspaces.start(space, RECIPE, None, 3, paused=True)
    with pytest.raises(RunError, match="Stop it before you remove it"):
        space.remove(waiting.id)
    with pytest.raises(RunError, match="not one of yours"):
        workspaces.enter(None).remove(first.id)
    waiting.stop()
    space.remove(waiting.id)
    space.remove(first.id)
    assert list(space.runs) == list(space.entries) == [second.id]
    assert space.names == {}
    assert (first.snapshots, first.job, first.training) == ((), None, None)
    assert space.used < 0.6 * used
    again = workspaces.start(space, RECIPE, None, 3)
    assert space.entries[again.id].number == 4, "no number is given twice"
    finished(again)


def test_a_row_of_the_list_has_the_means_of_the_last_steps(workspaces, space) -> None:
    run = finished(workspaces.start(space, RECIPE, None, 2**60 + 1))
    row = run_row(space, run)
    last = run.history()[-20:]
    for number, name in zip(row["numbers"], ("mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy"), strict=True):
        values = [value for each in last if math.isfinite(value := getattr(each, name))]
        assert number == pytest.approx(sum(values) / len(values), rel=1e-3)
    assert (row["number"], row["status"]) == (1, "finished")
    assert (row["step"], row["steps"], row["held"], row["isKept"]) == (25, 25, None, True)
    json.dumps(row)
    drawn = curve(PageRequest(workspaces, space, {}), run.id)
    assert [point[0] for point in drawn["points"]] == list(range(1, 26))
    assert (drawn["name"], drawn["colour"], drawn["steps"]) == (row["title"], row["colour"], 25)


def test_what_differs_has_the_labels_of_the_form(workspaces, space) -> None:
    masks = RECIPE.override({"data.mask_probability": 0.4, "data.random_share": 0.05})
    text = Corpus.from_text("one two three\nfour five\nsix seven eight\n", "lines", "Your text")
    first, other, own_text = (
        finished(workspaces.start(space, *each)) for each in ((RECIPE, None, 7), (masks, None, 7), (RECIPE, text, 8))
    )
    assert what_differs([first, other]) == {
        first: [
            ["Fraction to predict", "data.mask_probability", "0.15"],
            ["Random share", "data.random_share", "0.1"],
        ],
        other: [
            ["Fraction to predict", "data.mask_probability", "0.4"],
            ["Random share", "data.random_share", "0.05"],
        ],
    }
    found = what_differs([other, own_text])[own_text]
    assert [name for _, name, _ in found] == ["text", "seed", "data.mask_probability", "data.random_share"]
    assert found[0] == ["Text", "text", f"3 sentences: {own('one two three')}"]
    # The same number of steps in all, of which one run has got some later.
    longer = finished(workspaces.start(space, RECIPE.override({"training.steps": 30}), None, 7))
    first.continue_for(5)
    rows = what_differs([finished(first), longer])[first]
    assert [row for row in rows if row[0] != "Warmup steps"] == [
        ["Changed later", "training.parts", "from step 25: 5 steps, rate 0.009"]
    ]
    first.free("Removed.")
    assert list(what_differs([first, other, longer])) == [other, longer], "its text is no longer kept"
    assert what_differs([]) == {}


def test_another_text_differs_whatever_its_name() -> None:
    texts = [Corpus.from_text(text, "lines") for text in ("a b\nc d\n", "a b\nc e\n", "a b\nc d\n")]
    columns = [settings_of(RECIPE, text) for text in texts]
    assert list(differences(columns[:2])) == ["text"]
    assert differences([columns[0], columns[2]]) == {}


def test_values_are_shown_in_words() -> None:
    values = (None, (), True, 0.00100, 12, "word")
    assert [in_words(value) for value in values] == ["–", "–", "yes", "0.001", "12", "word"]
    assert label_of("training.nsp_weight") == "NSP weight"
    assert in_words([{"start": 20, "steps": 15, "learning_rate": 0.01}]) == "from step 20: 15 steps, rate 0.01"


def test_runs_that_keep_more_than_a_visitor_may_make_room(workspaces, space, monkeypatch) -> None:
    first = finished(workspaces.start(space, RECIPE, None, 1))
    kept = 2 * first.snapshots[0].nbytes + fixed_bytes(first)
    space.limit = 3 * kept
    runs = [first, *(finished(workspaces.start(space, RECIPE, None, seed)) for seed in range(2, 8))]
    assert list(space.runs) == [run.id for run in runs[-len(space.runs) :]]
    assert 2 <= len(space.runs) <= 4
    numbers = list(range(8 - len(space.runs), 8))
    assert [entry.number for entry in space.entries.values()] == numbers
    names = [space.title(run.id) for run in space.runs.values()]
    assert [name for key, name, *_ in models(workspaces, space) if key in space.runs] == names[::-1], "newest first"
    for run in space.runs.values():
        monkeypatch.setattr(run, "status", "running")
    assert models(workspaces, space)[0][2] == "training", "as in the list of runs"


def asked(space: Workspace, number: int = 0) -> dict:
    return trial_news(space, number)


def result_of(space: Workspace) -> dict:
    wait(lambda: "fraction" not in asked(space))
    return asked(space)


def test_an_experiment_runs_each_variant_with_each_seed_and_answers(workspaces, space) -> None:
    experiment = experiment_named("positions")
    start_experiment(workspaces, space, experiment, RECIPE, None, range(5, 8))
    assert space.current_run is next(iter(space.runs.values()))
    news = asked(space)
    assert (news["of"], news["title"]) == (6, experiment.title)
    news = result_of(space)
    runs = list(space.runs.values())
    assert [(run.recipe.seed, space.entries[run.id].variant) for run in runs] == [
        (seed, variant.title) for seed in (5, 6, 7) for variant in experiment.variants
    ]
    assert [run.recipe.model.use_position_embeddings for run in runs] == [True, False] * 3
    assert len({space.entries[run.id].colour for run in runs}) == 2
    result = news["result"]
    assert [row["title"] for row in result["rows"]] == [variant.title for variant in experiment.variants]
    assert all("±" in cell for row in result["rows"] for cell in row["cells"])
    assert (
        "over 3 [[seed|seeds]]. A difference counts if the means differ by more than 4.3 standard errors"
        in result["how"]
    )
    assert "the same 480 pairs of the training text" in result["how"]
    for row in result["rows"]:
        assert row["cells"][0] in result["answer"]
    assert [row[1:] for [row] in what_differs(runs[:2]).values()] == [
        ["model.use_position_embeddings", "yes"],
        ["model.use_position_embeddings", "no"],
    ]
    assert [row[1] for [row] in what_differs(runs[::2]).values()] == ["seed"] * 3


def test_the_news_of_an_experiment_are_small(workspaces, space) -> None:
    # Runs that cannot end by themselves: what the news hold does not depend on how fast the machine is.
    start_experiment(
        workspaces, space, load_experiments()[0], RECIPE.override({"training.steps": 100_000}), None, range(3)
    )
    stopped = list(space.runs.values())[:2]
    for run in stopped:
        run.stop()
    first = asked(space)
    assert ("question" in first, first["done"]) == (True, 2)
    later = asked(space, first["number"])
    assert ("question" in later, later["done"]) == (False, 2)
    assert len(json.dumps(later)) <= 512
    assert later["now"].startswith(tuple(variant.title for variant in load_experiments()[0].variants))
    with pytest.raises(RunError, match="has not ended"):
        start_experiment(workspaces, space, load_experiments()[1], RECIPE, None, range(1))
    space.stop()
    assert {run.status for run in space.runs.values()} == {"stopped"}
    assert "Stopped by you" in asked(space)["reason"]


def test_a_variant_that_was_not_trained_on_a_task_has_no_number_for_it(workspaces, space) -> None:
    start_experiment(workspaces, space, experiment_named("objectives"), RECIPE, None, range(1))
    result = result_of(space)["result"]
    cells = {row["title"]: dict(zip(result["columns"], row["cells"], strict=True)) for row in result["rows"]}
    assert cells["Masked words only"]["Pairs right"] == "not trained"
    assert cells["Next sentence only"]["MLM loss, same batches"] == "not trained"
    assert "not trained" not in cells["Both"].values()
    assert "With one seed this difference may be chance; run three." in result["answer"]


def test_an_experiment_on_what_no_model_is_trained_for_says_so(workspaces, space) -> None:
    start_experiment(
        workspaces, space, experiment_named("segments"), RECIPE.override({"training.nsp_weight": 0}), None, range(1)
    )
    answer = result_of(space)["result"]["answer"]
    assert answer == "Pairs right. Not compared, because not every model is trained for it."


def test_a_model_that_cannot_be_tested_gives_a_reason_instead_of_a_result(workspaces, space, monkeypatch) -> None:
    monkeypatch.setattr("balcony.compare.definitions.MAX_SENTENCES", 3)
    text = Corpus.from_text("one two\none two\none two\nthree four\nfive six\nseven one", "lines")
    start_experiment(workspaces, space, experiment_named("segments"), RECIPE, text, range(1))
    news = result_of(space)
    assert news["result"] is None
    assert news["reason"].startswith("Run 1: Its model cannot be tested: Next sentence prediction needs two")


def test_a_longer_text_is_tested_on_its_held_out_part(workspaces, space) -> None:
    words = ("one", "two", "three", "four", "five", "six", "seven")
    text = "\n\n".join("\n".join(f"{a} {b} {c}" for b in words) for a, c in zip(words * 2, words[3:] * 4, strict=False))
    start_experiment(workspaces, space, experiment_named("layers"), RECIPE, Corpus.from_text(text, "lines"), range(1))
    assert "of held-out text" in result_of(space)["result"]["how"]


def test_an_experiment_that_cannot_be_kept_starts_nothing(workspaces, space) -> None:
    space.limit = 100_000
    with pytest.raises(ConfigError, match="0 MB"):
        start_experiment(workspaces, space, experiment_named("layers"), RECIPE, None, range(3))
    with pytest.raises(ConfigError, match="seed"):
        start_experiment(workspaces, space, experiment_named("layers"), RECIPE, None, range(2**63 - 1, 2**63 + 1))
    assert space.runs == {}
    assert asked(space) == {}
    with pytest.raises(ConfigError, match="no experiment"):
        experiment_named("../positions")


def test_an_experiment_that_did_not_learn_is_started_again_with_a_third_of_the_rate(workspaces, space) -> None:
    fast = RECIPE.override({"training.learning_rate": 0.9})
    with pytest.raises(ConfigError, match="no such experiment"):
        start_slower(space)
    start_experiment(workspaces, space, experiment_named("layers"), fast, None, range(4, 5))
    assert result_of(space)["result"]["slower"]
    start_slower(space)
    assert asked(space)["number"] == 2
    again = list(space.runs.values())[2:]
    assert [(run.asked.training.learning_rate, run.asked.seed) for run in again] == [(pytest.approx(0.3), 4)] * 2
    assert [run.asked.model.num_hidden_layers for run in again] == [1, 4]
    space.stop()


EXAMPLES, OTHERS = (labelled("text-classification", seed=seed) for seed in (0, 1))


@pytest.mark.parametrize("has_test", [False, True])
def test_pretraining_is_compared_with_random_weights(workspaces, space, tiny_checkpoint, has_test) -> None:
    parts = TaskParts(EXAMPLES, None, OTHERS) if has_test else TaskParts(EXAMPLES, OTHERS)
    recipe = finetuning_recipe("subjects").override({"training.epochs": 2})
    start_task_experiment(workspaces, space, experiment_named("pretraining"), recipe, tiny_checkpoint, parts, range(1))
    assert (len(space.unlisted), space.runs) == (6, {})
    news = result_of(space)
    assert (news["done"], news["of"], news["reason"]) == (6, 6, "")
    assert space.unlisted == [], "they are freed"
    result = news["result"]
    assert result["columns"] == ["Accuracy", "Training"]
    titles = [row["title"] for row in result["rows"]]
    assert titles[::2] == [f"{each} examples, random weights" for each in ("8", "32", "All")]
    assert titles[1::2] == [f"{each} examples, pre-trained weights" for each in ("8", "32", "All")]
    assert f"the same 80 {'test' if has_test else 'held-out'} examples" in result["how"]
    for row in result["rows"]:
        assert f"{row['cells'][0]} ({row['title']})" in result["answer"]
    assert not result["slower"]
    json.dumps(news, allow_nan=False)


def test_a_comparison_with_random_weights_needs_examples_and_can_be_stopped(workspaces, space, tiny_checkpoint) -> None:
    recipe, experiment = finetuning_recipe("subjects"), experiment_named("pretraining")
    start = functools.partial(start_task_experiment, workspaces, space, experiment)
    few = dataclasses.replace(EXAMPLES, examples=EXAMPLES.examples[:20])
    with pytest.raises(ConfigError, match="There are 20 examples to learn from; this experiment needs 32"):
        start(recipe, tiny_checkpoint, TaskParts(few, OTHERS), range(1))
    start(recipe.override({"epochs": 1000}), tiny_checkpoint, TaskParts(EXAMPLES), range(3))
    assert len(space.unlisted) == 18
    assert 0 <= asked(space)["fraction"] < 1
    with pytest.raises(RunError, match="“The experiment” has not ended"):
        space.refuse_if_active()
    space.stop()
    wait(lambda: not space.active_run)
    assert asked(space)["result"] is None
    assert "Stopped by you" in asked(space)["reason"]


def test_after_an_experiment_the_run_from_before_it_is_current_again(workspaces, space) -> None:
    before = finished(workspaces.start(space, RECIPE, None, 7))
    start_experiment(workspaces, space, experiment_named("layers"), RECIPE, None, range(1))
    *_, first, second = space.runs.values()
    assert space.current_run is first, "active"
    finished(second)
    assert space.current_run is before


def marked(baseline: float = 0.1, **numbers: float) -> Marks:
    return Marks(dict.fromkeys(MEASURES, 0.5) | numbers, {"mlm": baseline, "nsp": baseline}, "questions")


def answer_on(name: str, *sides: list[Marks]) -> str:
    return answer(experiment_named(name), sides)


def test_the_answer_says_no_more_than_the_numbers() -> None:
    same, better = [marked() for _ in range(3)], [marked(mlm_accuracy=0.8, nsp_accuracy=0.9, seconds=3.0)] * 3
    assert answer_on("layers", same, better) == (
        "Asked words right: 50% ± 0 (1 layer), 80% ± 0 (4 layers). Depth helps with asked words. "
        "Training time: 0.5 s ± 0.0 (1 layer), 3.0 s ± 0.0 (4 layers). It costs time."
    )
    assert answer_on("layers", same[:1], better[:1]) == (
        "Asked words right: 50% (1 layer), 80% (4 layers). Training time: 0.5 s (1 layer), 3.0 s (4 layers). "
        "With one seed this difference may be chance; run three."
    )
    unsettled = [marked(nsp_accuracy=value) for value in (0.5, 0.9, 0.7)]
    answered = answer_on("segments", unsettled, better)
    assert answered.startswith("Pairs right: 70% ± 20 (With segments), ")
    assert answered.endswith(
        ". Three seeds do not settle the difference in “Pairs right” between “With segments” and “Without segments”, "
        "because their results overlap; take more steps or a longer text."
    )
    one_failed = [marked(mlm_accuracy=value) for value in (0.9, 0.13, 0.92)]
    assert answer_on("layers", same, one_failed).startswith(
        "Asked words right: 50% ± 0 (1 layer), 65% ± 45 (4 layers), 10% (always the most frequent answer). 1 of the 3 "
        "runs with 4 layers did not learn. A model that did not learn says nothing about what differs; try a third of "
        "the learning rate. Training time: "
    )
    assert "10% (always the most frequent answer). The run with 4 layers did not learn." in answer_on(
        "layers", same[:1], one_failed[1:2]
    )
    saturated = [marked(nsp_accuracy=1.0)] * 3
    answered = answer_on("segments", saturated, saturated)
    assert answered.startswith("Pairs right: 100% ± 0 (With segments)")
    assert answered.endswith(
        ". “Pairs right” leaves no room for a difference, because all models are within 5 points of 100%; take a "
        "longer text or a harder task."
    )
    constant = [marked(nsp_accuracy=0.5, baseline=0.5)] * 3
    assert answer_on("segments", constant, constant) == (
        "Pairs right: 50% ± 0 (With segments), 50% ± 0 (Without segments), 50% (always the most frequent answer). "
        "No model is more than 5 points above always giving the most frequent answer; take more steps."
    )


def test_what_is_not_asked_is_called_that() -> None:
    nothing = [marked(kept_accuracy=math.nan, masked_accuracy=0.97)] * 3
    assert answer_on("mask-kind", nothing, nothing) == (
        "Right at words left unchanged. Not asked in this test. Right at [MASK]: 97% ± 0 (80/10/10), 97% ± 0 (Always "
        "[MASK]). “At [MASK]” leaves no room for a difference, because all models are within 5 points of 100%; "
        "take a longer text or a harder task."
    )


def test_mean_and_deviation_as_text() -> None:
    assert format_number(Spread((0.90, 0.94, 0.98)), "fraction") == "94% ± 4"
    assert format_number(Spread((0.9,)), "fraction") == "90%"
    # As the page's scripts round the same number: half a per cent goes up.
    assert [format_number(Spread((each,)), "fraction") for each in (0.025, 0.004, 0.996)] == ["3%", "<1%", ">99%"]
    assert format_number(Spread((1.234,)), "nats") == "1.23"
    assert format_number(Spread((3.0, 4.0)), "seconds") == "3.5 s ± 0.7"
    assert format_number(Spread((math.nan,)), "fraction") == "not asked"


def test_the_result_of_an_experiment_outlives_its_runs(workspaces, space) -> None:
    start_experiment(workspaces, space, experiment_named("segments"), RECIPE, None, range(1))
    before = result_of(space)["result"]
    space.runs = {}
    after = asked(space)
    assert after["result"]["answer"] == before["answer"]
    assert (after["done"], after["of"]) == (2, 2)
