"""Every setting of a recipe is a row of one table, a recipe travels as a file, and training goes on from a model."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from browser_steps import change_setting, choose_source, expect_seen, show, shown_model, start, wait_for_status
from playwright.sync_api import Page, ViewportSize, expect


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Page:
    show(shared, "train")
    return shared


def test_a_setting_is_changed_and_the_recipe_saved_and_opened_again(page: Page, tmp_path: Path) -> None:
    preview, beta1 = page.locator("#preview"), page.locator("#setting-beta1")
    rows = page.locator("#settings tr")
    expect_seen(rows.filter(visible=True).nth(2), re.compile("Layers.*one after the other", re.DOTALL))
    expect_seen(page.locator("#setting-num-hidden-layers"), "1 – 48")
    expect(beta1).to_be_hidden()
    page.get_by_label("All settings").first.check()
    assert rows.filter(visible=True).count() == rows.count() > 50
    beta1.locator("input").fill("7")
    page.keyboard.press("Tab")
    expect_seen(preview.get_by_role("alert"), "Beta1 is 7")
    beta1.locator("input").fill("0.5")
    page.keyboard.press("Tab")
    expect(preview.get_by_role("alert")).to_have_count(0)
    page.get_by_label("All settings").first.uncheck()
    expect(beta1).to_be_visible()  # a change is never out of sight

    page.get_by_role("button", name="About this recipe").click()
    with page.expect_download() as waiting:
        page.locator("#save-recipe").click()
    assert waiting.value.suggested_filename == "romeo-juliet.json"
    recipe = json.loads(waiting.value.path().read_text(encoding="utf-8"))
    assert (recipe["training"]["beta1"], recipe["training"]["steps"]) == (0.5, 110)
    page.locator("#settings").get_by_role("button", name="Undo all changes").click()
    expect(beta1).to_be_hidden()
    expect(page.locator("#settings").get_by_role("button", name="Undo all changes")).to_be_disabled()

    recipe |= {"title": "Mine", "description": "My own.", "seed": 8}
    page.get_by_role("combobox", name="Recipe").select_option("A recipe file of your own")
    expect_seen(preview, "Choose a recipe file first.")
    file = {"name": "mine.json", "mimeType": "application/json", "buffer": b"[1"}
    chosen = page.locator("#recipe-file input[type=file]")
    chosen.set_input_files(file)
    expect_seen(preview.get_by_role("alert"), "The recipe file mine.json cannot be read")
    page.locator("#recipe-file").get_by_label("Clear").click()
    chosen.set_input_files(file | {"buffer": json.dumps(recipe).encode()})
    expect_seen(page.locator("#about-recipe"), "My own.")
    expect_seen(preview, "9 sentences")
    expect(page.locator("#seed input")).to_have_value("8")
    page.get_by_label("All settings").first.check()
    expect(beta1.locator("input")).to_have_value("0.5")
    page.get_by_role("combobox", name="Recipe").select_option("Romeo and Juliet, quick")
    expect(beta1.locator("input")).to_have_value("0.7")
    page.get_by_label("All settings").first.uncheck()


def test_a_text_file_may_have_any_ending(page: Page) -> None:
    choose_source(page, "Upload a text file")
    text = " = Verona = \n\n hello romeo . good day juliet . \n" * 3
    file = {"name": "wiki.train.tokens", "mimeType": "", "buffer": text.encode()}
    page.locator("#uploaded input[type=file]").set_input_files(file)
    expect_seen(page.locator("#preview"), "6 sentences")
    choose_source(page, "The recipe's own text")
    expect_seen(page.locator("#preview"), "9 sentences")


LAPTOP: ViewportSize = {"width": 1366, "height": 657}
HELD_OUT = """() => document.querySelector('#run-curves').data
    .find(({ meta }) => meta.series === 'mlm_loss' && meta.kind === 'held')"""


def test_an_example_is_taken_by_one_press_and_start_stays_in_sight(visit: Callable[..., Page]) -> None:
    page = visit()
    page.set_viewport_size(LAPTOP)
    begin, own = page.locator("#start"), page.locator("#pasted textarea")
    page.get_by_role("button", name="Text and settings").click()
    expect(own).to_be_in_viewport(ratio=1)
    expect(begin).to_be_in_viewport(ratio=1)
    # What a person typed comes back by one press.
    again = page.locator("#own-text-again")
    expect(again).to_be_hidden()
    own.fill("my own first line\nand my second")
    page.locator("#example-en-dish").click()
    expect(own).to_have_value(re.compile("^Soup for Four People"))
    page.locator("#example-en-song").click()
    expect(own).to_have_value(re.compile("^Who is knocking"))
    again.click()
    expect(own).to_have_value("my own first line\nand my second")
    expect_seen(page.locator("#preview-line"), "2 sentences")
    group = page.get_by_role("group", name="Deutsch")
    group.get_by_role("button", name="A song").click()
    expect(own).to_have_value(re.compile("^Wer klopft so früh am Morgen an"))
    expect_seen(page.locator("#preview"), "Balcony chose by the size what you did not set yourself.")
    expect_seen(page.locator("#preview-line"), re.compile(r"28 sentences · .* · about \d+ (s|min)"))
    expect(page.get_by_role("radio", name="Paste a text")).to_be_checked()
    expect(page.get_by_role("combobox", name="Recipe")).to_have_value("Chosen by the size of your text")
    expect(page.locator("#setting-num-hidden-layers")).to_be_visible()
    change_setting(page, "steps", "20")
    expect(begin).to_be_in_viewport(ratio=1)
    start(page)
    wait_for_status(page, "Finished")
    page.wait_for_function(f"() => {{ const {{ visible, x }} = ({HELD_OUT})(); return visible && x.length > 1; }}")
    expect(own).to_be_hidden()  # the form is folded, so that the run is in sight
    title = "Run 1 · Wer klopft so fr…t an meine Tür?"  # without its middle
    expect(shown_model(page)).to_have_text(title)
    # As many more steps as a person types, in the same run.
    page.get_by_label("More steps").fill("5")
    expect(page.locator("#go-on")).to_have_text("Train 5 more steps")
    page.locator("#go-on").click()
    expect(page.locator("#run-step")).to_have_text("25 of 25")
    wait_for_status(page, "Finished")
    expect(shown_model(page)).to_have_text(title)
    expect(page.get_by_label("More steps")).to_have_value("25")
    page.get_by_role("button", name="Text and settings").click()
    own.fill("one two three\nfour five six\nseven eight nine")
    expect_seen(page.locator("#preview-line"), "3 sentences")
    choose_source(page, "The recipe's own text")
    expect_seen(page.locator("#preview"), "9 sentences")
    expect(page.get_by_role("combobox", name="Recipe")).to_have_value("Romeo and Juliet, quick")
    # What a person has changed stays, since the person did not choose another recipe.
    expect(page.locator("#setting-steps input")).to_have_value("20")
    page.locator("#settings").get_by_role("button", name="Undo all changes").click()
    expect(page.locator("#setting-steps input")).to_have_value("110")


def test_training_goes_on_from_the_shown_model(page: Page) -> None:
    page.get_by_role("radio", name="The shown model, at the step above").first.check()
    expect(page.locator("#setting-num-hidden-layers")).to_be_hidden()
    expect(page.locator("#setting-learning-rate input")).to_have_value("0.0003")
    change_setting(page, "steps", "20")
    start(page)
    wait_for_status(page, "Finished")
    page.get_by_role("radio", name="Random weights").first.check()
    expect(page.locator("#setting-num-hidden-layers")).to_be_visible()
