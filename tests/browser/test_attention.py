"""Attention in a real browser: pictures, keys, odd words and files."""

import json
import math
import re
from pathlib import Path

import pytest
from browser_steps import (
    change_setting,
    compare_with,
    download,
    late_answers,
    open_tab,
    paste,
    press_save,
    start,
    wait_for_answer,
    wait_for_status,
)
from playwright.sync_api import Browser, Page, expect

ODD = ["<b>", "${1}", "$x$", "[MASK]", "שלום", "你", "&amp;", "{{7}}"]


def open_attention(page: Page) -> None:
    open_tab(page, "Attention")
    expect(page.locator("#attention-map .balcony-map-title")).to_have_text("Layer 1, head 1")
    expect(page.locator("#attention-switches .balcony-switch")).to_have_count(8)


def mode(page: Page, name: str) -> None:
    page.locator("#attention-map").get_by_role("tab", name=name).click()


def test_the_keyboard_reads_each_weight_of_the_map(page: Page, tmp_path: Path) -> None:
    open_attention(page)
    maps = json.loads(download(page, "#attention-download-json", tmp_path, "attention.json"))
    page.locator("#attention-map").get_by_role("application").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):  # the first key marks the first cell
        page.keyboard.press(key)
    first, second = maps["tokens"][:2]
    expect(page.locator("#attention-map .balcony-readout")).to_have_text(
        f"{second} → {second}: {maps['weights'][0][0][1][1]:.3f}"
    )
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#attention-map .balcony-readout")).to_contain_text(f"{second} → {first}: ")


def test_a_helpful_head_and_a_helpful_word_have_one_colour_on_one_scale(page: Page) -> None:
    """The colour of a change depends on nothing else, so that -0.007 is not as dark as -0.139."""
    open_attention(page)
    heads = page.locator("#attention-switches .balcony-switch")
    expect(heads.first).to_have_attribute("title", re.compile("change"))
    shown = heads.evaluate_all("heads => heads.map(head => [head.title, head.style.getPropertyValue('--tint')])")
    open_tab(page, "Masked words")
    expect(page.locator("#masked-guesses section")).to_have_count(1)
    page.get_by_role("radio", name="Which words mattered").check()
    expect(page.locator("#masked-closer .balcony-legend")).to_contain_text("Helped")
    words = page.locator("#masked-closer .balcony-seen")
    shown += words.evaluate_all("words => words.map(word => [word.lastChild.textContent, word.style.background])")
    assert len(shown) > 8
    for text, colour in shown:
        change = float(text.split()[-1].replace("−", "-")) / (1 if "change" in text else 100)
        percent = float(re.search(r"([\d.]+)%", colour).group(1))
        assert percent == pytest.approx(60 * math.sqrt(abs(change)), abs=0.7 if "change" in text else 5)
        if abs(change) >= 0.01:
            assert ("more" in colour) == (change < 0), text


def test_heads_are_sorted_by_a_fact_and_keep_their_names(page: Page) -> None:
    open_attention(page)
    grid = page.locator("#attention-heads")
    grid.get_by_role("combobox", name="Colour").select_option("Entropy (nats)")
    grid.get_by_role("button", name="Sort").click()
    shown = [
        label.split(": ")[-1]
        for label in grid.locator(".balcony-head").evaluate_all("all => all.map(b => b.ariaLabel)")
    ]
    values = [float(value) for value in shown]
    assert values == sorted(values, reverse=True)
    grid.get_by_role("button", name="Layer 2, head 3").click()
    expect(page.locator("#attention-map .balcony-map-title")).to_have_text("Layer 2, head 3")


def test_lines_are_toggled_isolated_filtered_and_kept(page: Page) -> None:
    open_attention(page)
    mode(page, "Lines")
    detail = page.locator("#attention-map")
    paths = detail.locator(".balcony-lines path")
    colours = "all => [...new Set(all.map(path => path.getAttribute('stroke')))].length"
    expect(paths).not_to_have_count(0)
    assert paths.evaluate_all(colours) == 1
    detail.get_by_role("button", name="Head 3").click()
    expect(detail.locator(".balcony-map-title")).to_have_text("Layer 1, heads 1, 3")
    assert paths.evaluate_all(colours) == 2
    detail.get_by_role("button", name="Head 4").dblclick()
    expect(detail.locator(".balcony-map-title")).to_have_text("Layer 1, head 4")
    strokes = "all => all.map(path => path.getAttribute('d').split('M').length - 1).reduce((a, b) => a + b, 0)"
    whole = paths.evaluate_all(strokes)
    parts = 0
    for name in ("A → A", "A → B", "B → A", "B → B"):
        detail.get_by_role("combobox", name="Lines").select_option(name)
        parts += paths.evaluate_all(strokes)
    assert parts == whole
    detail.get_by_role("combobox", name="Lines").select_option("all words")
    word = detail.get_by_role("group", name="Words that attend").get_by_role("button").nth(2)
    word.focus()
    page.keyboard.press("Enter")
    expect(word).to_have_attribute("aria-pressed", "true")
    starts = "all => [...new Set(all.flatMap(path => path.getAttribute('d').match(/M0 [0-9.]+/g)))].length"
    assert paths.evaluate_all(starts) == 1
    weights = detail.locator(".balcony-line-side:not(.is-left) .balcony-line-weight").all_inner_texts()
    assert sum(float(weight or 0) for weight in weights) == pytest.approx(1, abs=0.1)


def test_averages_and_rollout(page: Page) -> None:
    open_attention(page)
    mode(page, "Average")
    detail = page.locator("#attention-map")
    title, over = detail.locator(".balcony-map-title"), detail.get_by_role("combobox", name="Average")
    expect(title).to_have_text("Layer 1, mean of its heads")
    over.select_option("all heads and layers")
    expect(title).to_have_text("Mean of all heads and layers")
    over.select_option("rollout up to the layer")
    page.get_by_role("button", name="Layer 2, head 1").click()
    expect(title).to_have_text("Rollout up to layer 2")


def test_a_head_is_switched_off_and_on_again(page: Page) -> None:
    open_attention(page)
    panel = page.locator("#attention-switches")
    head = panel.get_by_role("button", name="Switch off head 2 of layer 1")
    before = panel.locator("tbody tr").first.locator("td").first.inner_text()
    head.focus()
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-pressed", "true")
    expect(panel.locator("thead")).to_contain_text("Without 1 head")
    cells = panel.locator("tbody tr").first.locator("td")
    wait_for_answer(panel)
    assert cells.nth(0).inner_text() == before
    # All heads are tried in one pass and one head in another, which may round the last digit otherwise.
    changes = cells.nth(2).inner_text(), head.get_attribute("aria-label").split("change ")[1]
    shown, announced = (float(change.replace("−", "-")) for change in changes)
    assert shown == pytest.approx(announced, abs=2e-4)
    panel.get_by_role("button", name="Switch all on").click()
    expect(cells.nth(2)).to_be_empty()


def test_heads_switched_off_while_an_answer_is_under_way(page: Page) -> None:
    open_attention(page)
    panel = page.locator("#attention-switches")
    first, second = (panel.get_by_role("button", name=f"Switch off head {head} of layer 1") for head in (2, 3))
    changes = panel.locator("tbody tr td:last-child")
    with late_answers(page):
        first.click()
        expect(first).to_have_attribute("aria-pressed", "true")
        assert set(changes.all_inner_texts()) == {"…"}
        second.click()
    expect(panel.locator("thead")).to_contain_text("Without 2 heads")
    wait_for_answer(panel)
    for head in (first, second):
        expect(head).to_have_attribute("aria-pressed", "true")
    both = changes.all_inner_texts()
    second.click()
    expect(panel.locator("thead")).to_contain_text("Without 1 head")
    wait_for_answer(panel)
    assert changes.all_inner_texts() != both


def test_two_models_side_by_side(page: Page, tmp_path: Path) -> None:
    change_setting(page, "steps", "20")
    start(page)
    wait_for_status(page, "Finished")
    open_attention(page)
    compare_with(page, "attention-other", "romeo-juliet")
    other = page.locator("#attention-other-map .balcony-map-title")
    expect(other).to_have_text("Layer 1, head 1")
    expect(page.locator("#attention-other-heads h3")).to_contain_text("comes with Balcony")
    page.locator("#attention-other-heads").get_by_role("button", name="Layer 2, head 2").click()
    for detail in ("#attention-map", "#attention-other-map"):
        expect(page.locator(f"{detail} .balcony-map-title")).to_have_text("Layer 2, head 2")
    expect(page.locator("#attention-other-heads")).to_contain_text(
        "of a word's attention goes to other words than in the other"
    )
    expect(page.locator("#attention-other-map")).to_contain_text("of a word's attention goes to other words")
    first, second = json.loads(download(page, "#attention-download-json", tmp_path, "attention.json")).values()
    assert first["tokens"] == second["tokens"]
    assert first["weights"] != second["weights"]
    colour = page.locator("#attention-heads").get_by_role("combobox", name="Colour")
    colour.select_option("Difference from the other model")
    expect(page.locator("#attention-heads .balcony-head").first).to_have_attribute(
        "aria-label", re.compile("Difference")
    )
    compare_with(page, "attention-other", "Nothing")
    expect(other).to_be_hidden()
    expect(colour).to_have_value("")


def test_a_single_sentence_gets_a_note_from_a_model_of_pairs(page: Page) -> None:
    open_attention(page)
    expect(page.locator("#attention-heads")).not_to_contain_text("trained on pairs")
    page.locator("#attention-pair textarea").fill("")
    expect(page.locator("#attention-heads")).to_contain_text("trained on pairs")


def test_odd_words_are_literal_in_every_picture_and_file(page: Page, browser: Browser, tmp_path: Path) -> None:
    paste(page, "\n".join(f"{word} goes on {word} again" for word in ODD))
    change_setting(page, "steps", "20")
    start(page)
    wait_for_status(page, "Finished")
    open_tab(page, "Attention")
    page.locator("#attention-text textarea").fill(" ".join(ODD))
    page.locator("#attention-pair textarea").fill("")
    words = page.locator("#attention-map .balcony-map-word")
    expect(words.filter(has_text="שלום")).to_have_count(2)
    maps = json.loads(download(page, "#attention-download-json", tmp_path, "attention.json"))
    tokens = maps["tokens"]
    assert tokens == ["[CLS]", *ODD, "[SEP]"]
    shown = words.locator("title").evaluate_all("all => all.map(title => title.textContent)")
    assert shown == tokens + tokens
    picture = download(page, "#attention-download-svg", tmp_path, "attention.svg")
    assert "<b>" not in picture
    mode(page, "Lines")
    assert page.locator("#attention-map .is-left bdi").all_text_contents() == tokens
    assert page.locator("#attention-stage b:not(.balcony-legend b)").count() == 0
    code = page.locator("#attention-download pre")
    press_save(page, "#attention-download-py")
    expect(code).to_contain_text(repr(" ".join(ODD)))
    page.keyboard.press("Escape")

    file = tmp_path / "attention.html"
    download(page, "#attention-download-html", tmp_path, file.name)
    offline = browser.new_context(offline=True)
    errors: list[str] = []
    alone = offline.new_page()
    alone.on("pageerror", lambda error: errors.append(str(error)))
    alone.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    alone.goto(file.as_uri())
    titles = alone.locator(".balcony-map-word title").evaluate_all("all => all.map(title => title.textContent)")
    assert titles == tokens + tokens
    alone.get_by_role("button", name="Layer 2, head 2").click()
    expect(alone.locator(".balcony-map-title")).to_have_text("Layer 2, head 2")
    assert errors == []
    offline.close()
