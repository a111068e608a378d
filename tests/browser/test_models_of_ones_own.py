"""A model that a visitor has trained: beside the shipped one in every tab, and on a long text."""

import csv
import json
from pathlib import Path

import pytest
from browser_steps import (
    change_setting,
    compare_with,
    download,
    expect_seen,
    open_tab,
    paste,
    shown_model,
    start,
    wait_for_status,
)
from playwright.sync_api import Page, expect


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Page:
    return shared


def test_two_models_side_by_side_in_every_tab(page: Page, tmp_path: Path) -> None:
    change_setting(page, "steps", "20")
    start(page)
    wait_for_status(page, "Finished")
    page.set_viewport_size({"width": 1366, "height": 657})
    open_tab(page, "Next sentence")
    compare_with(page, "romeo-juliet")  # once, for all tabs
    expect(page.locator("#next-pair h3")).to_have_count(2)
    expect(page.locator("#next-pair .b-ends").last).to_be_in_viewport(ratio=1)
    matrix = page.locator("#next-other-matrix")
    expect(matrix.locator("svg")).to_be_visible()
    both = page.locator("#next-pair h3").all_inner_texts()
    assert list(json.loads(download(page, "#next-download-json", tmp_path, "pair.json"))) == both
    matrices = json.loads(download(page, "#next-matrix-download-json", tmp_path, "matrix.json"))
    assert [len(matrices[title]["probabilities"]) for title in both] == [9, 9]
    rows = list(csv.DictReader(download(page, "#next-matrix-download-csv", tmp_path, "matrix.csv").splitlines()))
    assert [row["model"] for row in rows] == [title for title in both for _ in range(81)]

    open_tab(page, "Masked words")
    guesses = page.locator("#masked-other-guesses")
    expect_seen(guesses.locator("h3").first, "comes with Balcony")
    expect(guesses.locator("section").first).to_be_in_viewport()
    expect(guesses.locator("section")).to_have_count(1)
    file = json.loads(download(page, "#masked-download-json", tmp_path, "guesses.json"))
    assert list(file) == both
    shown = guesses.locator("bdi").all_inner_texts()
    assert {token for token, _ in file[both[1]]["masks"][0]["pieces"][0]["guesses"]} <= set(shown)

    open_tab(page, "Attention")
    other = page.locator("#attention-other-map .b-map-title")
    expect(other).to_have_text("Layer 1, head 1")
    expect_seen(page.locator("#attention-other-heads h3"), "comes with Balcony")
    page.locator("#attention-other-heads").get_by_role("button", name="Layer 2, head 2").click()
    for detail in ("#attention-map", "#attention-other-map"):
        expect(page.locator(f"{detail} .b-map-title")).to_have_text("Layer 2, head 2")
    first, second = json.loads(download(page, "#attention-download-json", tmp_path, "attention.json")).values()
    assert first["tokens"] == second["tokens"]
    assert first["weights"] != second["weights"]
    step = page.locator("#compare-step")
    expect(step).to_be_hidden()
    run = page.locator("#compare-with option", has_text="Run 1")
    expect(run).to_have_count(1)  # and not one for each of its steps
    page.locator("#compare-with").scroll_into_view_if_needed()
    compare_with(page, run.get_attribute("value"))
    expect_seen(step, "Step 20", in_window=True)
    expect(step.locator("option:checked")).to_have_text("Step 20")
    step.select_option("0")
    expect_seen(page.locator("#attention-other-heads h3"), "step 0")
    compare_with(page, "")
    expect(step).to_be_hidden()
    expect(other).to_be_hidden()
    open_tab(page, "Masked words")
    expect(guesses).to_be_hidden()


def test_the_matrix_has_the_first_sentences_of_a_long_text_and_says_so(page: Page) -> None:
    open_tab(page, "Train")
    paste(page, "\n".join(f"sentence number {number} goes on" for number in range(1, 61)))
    change_setting(page, "steps", "20")
    page.locator("#start").click()
    expect(shown_model(page)).to_have_text("Run 2 · Your text")
    wait_for_status(page, "Finished")
    open_tab(page, "Next sentence")
    chips = page.get_by_role("group", name="Words of: ")
    expect(chips.nth(0)).to_have_text("sentencenumber1goeson")
    expect(chips.nth(1)).to_have_text("sentencenumber2goeson")
    matrix = page.locator("#next-matrix")
    expect_seen(matrix.locator(".b-notes"), "These are the first 32 of 60 sentences.")
    titles = matrix.locator(".b-map-word title")
    expect(titles.first).to_have_text("1 sentence number 1 goes on")
    expect(titles.filter(has_text="sentence number").last).to_have_text("32 sentence number 32 goes on")
