"""The form of the Train tab: every setting of a recipe, recipes as files, and what the limits of a place leave."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
import torch
from helpers import finished, wait

from balcony.finetune.tab import OFTEN as OFTEN_OF_A_TASK
from balcony.frame.answers import Answers
from balcony.frame.page import open_page
from balcony.frame.shown_model import description, repeated_run
from balcony.train.form import (
    OF_A_FILE,
    OFTEN,
    OWN_TEXT,
    PASTED,
    RANDOM,
    SHOWN_MODEL,
    UPLOADED,
    Filled,
    TrainingForm,
    example,
    examples,
    recipe_choices,
    recipe_of,
)
from balcony.train.form import typed as typed_text
from balcony.train.preview import preview
from balcony.train.settings import label_of, overrides, settings_value, values_of, with_labels
from balcony.train.tab import FIRST_RUN_SECONDS, TrainTab, duration
from bert_core import load_recipe
from bert_core.config import LOCAL, PUBLIC, Limits
from bert_core.data.corpus import Corpus
from bert_core.errors import ConfigError, InputError
from bert_core.runs.jobs import check_limits, prepare
from bert_core.runs.recipe import BY_SIZE, FinetuningRecipe, Recipe, finetuning_recipe, recipe_for, recipe_names
from bert_core.storage.checkpoint import Checkpoint

QUICK = load_recipe("romeo-juliet")


def typed(recipe: Any, **changed: object) -> dict[str, Any]:
    """The value of the controls after a person has typed or chosen something; "__" stands for a point."""
    return settings_value(recipe) | {"changed": {name.replace("__", "."): value for name, value in changed.items()}}


def filled(settings: dict[str, Any] | None = None, *, limits: Limits = LOCAL, **others: Any) -> Filled:
    first = Filled(OWN_TEXT, "", None, None, QUICK.name, None, RANDOM, 0, settings or typed(QUICK), _no_model, limits)
    return dataclasses.replace(first, **others)


def _no_model() -> Checkpoint:
    raise AssertionError("no model is asked for")


@pytest.mark.parametrize(("kind", "often"), [(Recipe, OFTEN), (FinetuningRecipe, OFTEN_OF_A_TASK)])
def test_every_field_of_a_recipe_is_a_setting_with_a_hint_and_a_label(kind: Any, often: tuple[str, ...]) -> None:
    settings = kind.settings()
    fields = {f"{section}.{item}" for section, of in kind.sections().items() for item in of.model_fields}
    not_typed = {"corpus.file", "corpus.needs", "corpus.encoding", "model.vocab_size", "model.pad_token_id"}
    assert settings.keys() == fields - not_typed
    assert set(often) <= settings.keys()
    for name, item in settings.items():
        assert item.description.endswith((".", "%).")), name
        assert label_of(name, kind)[0].isupper(), name


def test_settings_that_were_not_touched_override_nothing() -> None:
    assert overrides(QUICK, typed(QUICK)) == {}
    changed = filled(typed(QUICK, training__steps="7", tokenizer__vocab_size="30", tokenizer__strip_accents=""))
    recipe = changed.recipe()
    assert (recipe.training.steps, recipe.tokenizer.vocab_size, recipe.tokenizer.strip_accents) == (7, 30, None)
    other = typed(load_recipe("wikitext-d2l"), training__steps="7")
    assert filled(other).recipe() == QUICK.override({}), "the controls still show another recipe"


@pytest.mark.parametrize("sent", [None, {}, {"changed": []}, typed(QUICK, nothing="1"), typed(QUICK, corpus__file="x")])
def test_what_is_no_setting_is_refused(sent: Any) -> None:
    with pytest.raises(InputError):
        filled(sent or {"recipe": QUICK.name}).recipe()


@pytest.mark.parametrize("name", recipe_names())
def test_the_form_shows_with_which_settings_a_recipe_trains(name: str) -> None:
    recipe = load_recipe(name)
    shown = values_of(recipe)
    assert shown.keys() == Recipe.settings().keys()
    assert shown["model.num_hidden_layers"] == str(recipe.model.num_hidden_layers)
    assert shown["data.batch_size"] == str(recipe.data.batch_size)
    assert shown["training.steps"] == ("" if recipe.training.epochs else str(recipe.training.total_steps))
    again = {key: value for key, value in shown.items() if key != "training.steps"}
    assert recipe.override(again) == recipe.override({}), "what is shown is what a person would type"
    three = recipe.override(overrides(recipe, typed(recipe, training__steps="3")))
    assert three.training.total_steps == 3
    if recipe.training.parts:
        assert f"{recipe.training.total_steps:,} steps" in recipe.description


def test_a_task_has_only_its_own_settings() -> None:
    answers, labels = (values_of(finetuning_recipe(name)) for name in ("question-answering-tutorial", "subjects"))
    assert (answers["data.stride"], answers["data.best_answers"], answers["data.sequence_length"]) == (
        "128",
        "4",
        "384",
    )
    only = {"data.question_length", "data.context_first", "data.stride", "data.best_answers", "data.longest_answer"}
    assert answers.keys() - labels.keys() == only
    assert labels["training.steps"] == "", "it counts epochs"


def test_a_setting_is_named_as_its_control() -> None:
    assert with_labels("learning_rate is 0; it must be a number.") == "Learning rate is 0; it must be a number."
    assert with_labels("steps is 0.") == "Steps is 0."
    assert with_labels("Choose another kind of text (--kind).") == "Choose another kind of text."
    assert with_labels("mask_share 1 and random_share 1 are more.") == "Mask share 1 and Random share 1 are more."
    assert with_labels("no.zip has no config.json") == "no.zip has no config.json"


def test_a_longer_pair_needs_more_positions() -> None:
    with pytest.raises(ConfigError, match="sequence_length 200 is more than the 64"):
        filled(typed(QUICK, data__sequence_length="200")).recipe()
    longer = filled(typed(QUICK, data__sequence_length="200", model__max_position_embeddings="200")).recipe()
    assert longer.model.max_position_embeddings == 200
    with pytest.raises(ConfigError, match=r"^sequence_length is 9000"):
        filled(typed(QUICK, data__sequence_length="9000")).recipe()


def test_later_parts_are_a_setting_too() -> None:
    parts = '[{"start": 5, "steps": 4, "learning_rate": 0.001}]'
    recipe = filled(typed(QUICK, training__parts=parts, training__steps="6")).recipe()
    assert recipe.training.total_steps == 9
    assert json.loads(values_of(recipe)["training.parts"])[0]["start"] == 5


def test_a_recipe_is_downloaded_and_opened_again_as_it_was(tmp_path: Path) -> None:
    changed = filled(typed(QUICK, training__beta1="0.5", data__max_predictions="3")).recipe().with_seed(5)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(changed.content()), encoding="utf-8")
    opened = filled(recipe_name=OF_A_FILE, recipe_file=str(path))
    assert opened.recipe() == changed.replace(name="mine")
    assert opened.corpus(opened.recipe()).sentences[0].startswith("Hello, how are you?")
    assert filled(recipe_name=OF_A_FILE).missing == "Choose a recipe file first."
    path.write_text('{"title": "no recipe"}', encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be used: These settings are needed: name, title, description"):
        opened.recipe()


def test_a_chosen_kind_of_text_holds_for_a_text_of_ones_own() -> None:
    text = "One two.\nThree four.\n\nFive six.\nSeven eight.\n"
    for kind in ("lines", "documents"):
        own = filled(typed(QUICK, corpus__kind=kind), source=PASTED, pasted=text)
        assert own.corpus(own.recipe()).kind == kind


def test_the_recipe_of_a_text_of_ones_own_is_chosen_by_its_size(tmp_path: Path) -> None:
    text = "\n".join(f"the man number {number} sees a dog of {number + 7} years" for number in range(400))
    path = tmp_path / "mine.txt"
    path.write_text(text, encoding="utf-8")
    for source, name in ((PASTED, "Your text"), (UPLOADED, "mine.txt")):
        form = filled(source=source, pasted=text, uploaded=str(path), recipe_name=BY_SIZE)
        recipe = form.recipe()
        assert recipe == recipe_for(Corpus.from_text(text, name=name))
        assert form.corpus(recipe) is form.corpus(recipe), "the text is read once"
    changed = typed(recipe, training__steps="30", corpus__kind="documents")
    form = filled(changed, source=PASTED, pasted=text, recipe_name=BY_SIZE)
    assert (form.recipe().training.steps, form.corpus(form.recipe()).kind) == (30, "documents")
    assert filled(recipe_name=BY_SIZE).missing == "Paste a text first."


def test_a_text_takes_the_recipe_of_its_size_with_it_and_leaves_a_chosen_one() -> None:
    assert typed_text(OWN_TEXT, QUICK.name) == (PASTED, BY_SIZE)
    as_it_is = gr.skip()
    assert typed_text(UPLOADED, "english-mini") == (PASTED, as_it_is)
    assert typed_text(PASTED, QUICK.name) == (as_it_is, as_it_is), "chosen for this text"
    assert recipe_of(UPLOADED, QUICK.name) == BY_SIZE
    assert recipe_of(OWN_TEXT, BY_SIZE) == QUICK.name
    assert [len(texts) for _, texts in examples()] == [3] * 5
    chosen = gr.EventData(None, {"name": "en-song", "text": ""})
    text, *others = example(OWN_TEXT, QUICK.name, chosen)
    assert (text.splitlines()[0], others) == ("Who is knocking at my door so early in the morning?", [PASTED, BY_SIZE])
    form = filled(source=PASTED, pasted=text, recipe_name=BY_SIZE)
    assert form.corpus(form.recipe()).name == text.splitlines()[0], "an example has its own name"
    mine = gr.EventData(None, {"name": "", "text": "mine"})
    assert example(PASTED, QUICK.name, mine)[0] == "mine"
    with pytest.raises(InputError):
        example(OWN_TEXT, QUICK.name, gr.EventData(None, {"name": "../../app", "text": ""}))


def test_training_goes_on_from_the_shown_model(workspaces, space, tiny_checkpoint) -> None:
    settings = typed(QUICK, data__sequence_length="17", training__steps="3", model__hidden_size="90")
    form = filled(settings, initial=SHOWN_MODEL, shown=lambda: tiny_checkpoint)
    recipe = form.recipe()
    assert (recipe.start, recipe.model.hidden_size, recipe.training.learning_rate) == ("tiny", 12, 3e-4)
    faster = filled(settings | {"changed": settings["changed"] | {"training.learning_rate": "0.002"}})
    faster = dataclasses.replace(faster, initial=SHOWN_MODEL, shown=lambda: tiny_checkpoint)
    assert faster.recipe().training.learning_rate == 0.002
    run = finished(workspaces.start(space, recipe, form.corpus(recipe), 0, start=form.start))
    before = tiny_checkpoint.model.state_dict()
    assert all(torch.equal(each, before[name]) for name, each in run.snapshots[0].weights.items() if name in before)
    assert "used another model" in description(run)["missing"]
    long = filled(typed(QUICK), initial=SHOWN_MODEL, shown=lambda: tiny_checkpoint)
    with pytest.raises(ConfigError, match="sequence_length 64 is more than the 17 positions"):
        long.recipe()


def test_a_link_carries_what_is_held_out_and_refuses_a_recipe_file(workspaces, space, tmp_path: Path) -> None:
    short = QUICK.override({"training.steps": 2, "corpus.validation_share": 0.3})
    run = finished(workspaces.start(space, short, None, 0))
    described = description(run)
    assert described["settings"]["corpus.validation_share"] == 0.3
    other = workspaces.enter(None)
    again = finished(repeated_run(workspaces, other, described))
    assert len(again.job.parts.validation.sentences) == len(run.job.parts.validation.sentences) == 3
    plain = finished(workspaces.start(other, QUICK.override({"training.steps": 2}), None, 0))
    assert "corpus.validation_share" not in description(plain)["settings"]
    of_a_file = finished(workspaces.start(space, short.replace(name="mine"), None, 0))
    assert "recipe file" in description(of_a_file)["missing"]


@pytest.mark.parametrize("name", ["romeo-juliet-wmathor", "romeo-juliet-graykode"])
def test_the_tutorials_sizes_are_within_the_limits_for_strangers(name: str) -> None:
    patient = dataclasses.replace(PUBLIC, step_seconds=math.inf)  # a step takes longer on a slow or busy machine
    prepared = prepare(load_recipe(name))
    assert prepared.config.in_words == "6 layers of 768"
    check_limits(prepared, patient)


@pytest.mark.parametrize("limits", [PUBLIC, dataclasses.replace(LOCAL, parameters=50_000_000)])
def test_the_papers_sizes_are_refused_before_the_press_where_they_do_not_fit(limits: Limits) -> None:
    text = Corpus.from_text("\n\n".join(["One dog ran. Two cats sat."] * 40), "documents")
    with pytest.raises(ConfigError, match=r"needs about \d+\.\d GB to train|\d+ steps; the limit|50 million"):
        preview(load_recipe("bert-paper"), text, limits=limits)
    assert preview(load_recipe("bert-paper-small"), text).seconds > 3600


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "about 1 s"),
        (5000, "about 83 min"),
        (7200, "about 2.0 h"),
        (20 * 86400, "about 20 days"),
        (1e9, "about 32 years"),
    ],
)
def test_an_estimated_time_is_said_in_its_unit(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_estimated_time_of_the_first_run_is_that_in_which_it_can_be_watched(workspaces, space) -> None:
    with gr.Blocks() as demo:
        tab = TrainTab(open_page(demo, Answers(workspaces), []))
    form, short = tab.form, {"training.steps": "50"}
    values: dict = dict.fromkeys(form.all) | {form.source: OWN_TEXT, form.recipe: QUICK.name, form.initial: RANDOM}
    values |= {form.settings: settings_value(QUICK) | {"changed": short}, tab.page.visitor: space.token}

    def estimated() -> str:
        return dict(tab.show_preview(values)["facts"])["Estimated time"]

    watched = f"about {FIRST_RUN_SECONDS:.0f} s"
    assert estimated() == watched
    run = workspaces.start(space, QUICK.override({"training.steps": 2}), None, 0)
    wait(lambda: run.status == "finished")
    assert estimated() != watched


def test_the_list_has_every_recipe_the_default_first_and_that_of_a_file_last(workspaces) -> None:
    with gr.Blocks() as demo:
        form = TrainingForm(open_page(demo, Answers(workspaces), []))
    names = [name for _, name in recipe_choices()]
    assert names == [QUICK.name, BY_SIZE, *recipe_names()[1:], OF_A_FILE]
    assert form.recipe.value == QUICK.name
