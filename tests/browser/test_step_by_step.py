"""The Step by step tab in the browser: stages by key, formulas with the model's numbers, parts set to zero."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from browser_steps import FIRST, show, wait_for_answer, wait_for_question
from playwright.sync_api import Page, expect

from bert_core.probes.stages import Stages, follow
from bert_core.storage.checkpoint import load_checkpoint

MASKED = FIRST["pair"].replace("Juliet", "[MASK]")


@pytest.fixture(scope="module")
def found(shipped: Path) -> Stages:
    return follow(load_checkpoint(shipped), FIRST["text"], MASKED, layer=1, position=2)


def numbers(text: str | None) -> list[float]:
    return [float(each.replace("−", "-")) for each in re.findall(r"−?\d+\.\d{4}", text or "")]


def test_stages_follow_the_arrow_keys_and_show_the_models_numbers(shared: Page, found: Stages, complaints) -> None:
    show(shared, "step-by-step", **FIRST, head="1.0", stage="scores")
    steps = shared.locator("#steps")
    title, readout = steps.locator("h3").first, steps.locator(".b-readout").first
    expect(title).to_have_text("4 Scores: layer 2, head 1")
    steps.locator(".b-map").press("ArrowDown")  # the first cell
    expect(readout).to_contain_text("÷ √")
    products, scores, weights = (found.layer[name][0, 0] for name in ("products", "scores", "weights"))
    assert numbers(readout.text_content()) == pytest.approx([products[0].item(), scores[0].item()], abs=1e-4)
    steps.locator(".b-map").press("Enter")
    card = steps.locator(".b-unfolded")
    shown = numbers(card.locator("tbody").text_content())
    assert shown[2::3] == pytest.approx(weights.tolist(), abs=1e-4)
    expect(card).to_contain_text("The weights sum to 1.0000")
    card.get_by_role("slider").first.press("ArrowUp")
    assert numbers(card.locator("tbody").text_content()) != shown  # computed in the browser, so at once
    card.get_by_role("button", name="Reset").click()
    assert numbers(card.locator("tbody").text_content()) == pytest.approx(shown, abs=1e-4)
    steps.locator("button[aria-current=step]").press("ArrowRight")
    expect(title).to_have_text("5 Weights: layer 2, head 1")
    steps.get_by_role("button", name="Back").click()
    expect(title).to_have_text("4 Scores: layer 2, head 1")
    wait_for_question(shared, stage="scores")


def test_a_pressed_cell_of_the_attention_map_unfolds(shared: Page, found: Stages, complaints: list[str]) -> None:
    show(shared, "attention", **FIRST, head="1.0")
    shared.locator("#attention-map .b-map").press("ArrowDown")  # the first cell
    shared.locator("#attention-map .b-map").press("Enter")
    card = shared.locator("#attention-cell .b-unfolded")
    expect(card).to_contain_text("The weights sum to 1.0000")
    shown = numbers(card.locator("tbody").text_content())
    assert shown[2::3] == pytest.approx(found.layer["weights"][0, 0].tolist(), abs=1e-4)
    show(shared, "attention", **FIRST, head="0.0")
    expect(card).to_have_count(0)


def test_a_number_opens_into_the_products_that_it_is_the_sum_of(shared: Page, found: Stages, complaints) -> None:
    show(shared, "step-by-step", **FIRST, head="1.0", stage="feed-forward", token="2")
    steps = shared.locator("#steps")
    expect(steps.locator("h3").first).to_have_text("8 Feed-forward: layer 2")
    expect(steps.locator("[aria-label^='The token'] button").nth(2)).to_have_attribute("aria-pressed", "true")
    wait_for_answer(steps)
    strips = steps.locator(".b-strips").first
    strips.press("ArrowRight")
    strips.press("Enter")
    card = steps.locator(".b-unfolded")
    expect(card).to_contain_text("Sum of the 48 products")
    assert numbers(card.locator("p").text_content())[-1] == pytest.approx(found.layer["inner"][2, 1].item(), abs=1e-4)
    readout = steps.locator(".b-readout").nth(1)
    steps.locator(".b-strips").nth(1).press("ArrowRight")  # the sum and its LayerNorm
    assert numbers(readout.text_content())[-1] == pytest.approx(found.states[2, 2, 1].item(), abs=1e-4)
    show(shared, "step-by-step", **FIRST, stage="scores-of-words")
    steps.get_by_role("button", name="juliet", exact=True).click()
    expect(card.locator("h3")).to_have_text("Score of juliet")
    shown = steps.locator("tr", has_text="juliet").locator("td").first.text_content()
    assert numbers(card.locator("p").text_content())[-1] == pytest.approx(numbers(shown)[0], abs=1e-4)


def test_a_part_set_to_zero_changes_the_answer_beside_the_whole_models(shared: Page, complaints) -> None:
    show(shared, "step-by-step", **FIRST, stage="feed-forward")
    steps = shared.locator("#steps")
    expect(steps.locator(".b-strip canvas")).to_have_count(6)
    expect(steps).to_contain_text("The answer. juliet")
    steps.get_by_role("button", name="Feed-forward", exact=True).click()
    expect(steps).to_contain_text("the whole model")
    wait_for_question(shared, zeroed="0.2")
    steps.get_by_role("button", name="Feed-forward", exact=True).click()
    expect(steps).not_to_contain_text("the whole model")


def test_every_stage_is_drawn_and_has_python(shared: Page, complaints: list[str]) -> None:
    show(shared, "step-by-step", **FIRST)
    steps = shared.locator("#steps")
    names = steps.get_by_role("group", name=re.compile("^Stages")).get_by_role("button")
    expect(names).to_have_count(12)
    for index in range(12):
        names.nth(index).click()
        expect(steps.locator("h3").first).to_contain_text((names.nth(index).text_content() or "").strip())
        assert steps.locator(".b-strip canvas, .b-map svg, table").count()
        assert "found" in (steps.locator("pre").text_content() or "")


def test_a_visit_without_a_hidden_word_says_what_to_do(visit: Callable[..., Page], complaints: list[str]) -> None:
    page = visit(at="#tab=step-by-step&stage=probabilities&text=hello&hidden=")
    expect(page.locator("#steps")).to_contain_text("No word is hidden")
