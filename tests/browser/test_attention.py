"""Attention in a real browser: pictures, keys, lines, heads that are switched off."""

import importlib
import json
import math
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from browser_steps import (
    FIRST,
    VIEWPORT,
    download,
    expect_seen,
    late_answers,
    picture,
    show,
    type_sentence,
    wait_for_answer,
    wait_for_question,
    words_of,
)
from playwright.sync_api import Page, ViewportSize, expect

from balcony.attention import values

pages = importlib.import_module("bert_core.show")  # bert_core.show is the function of that name

LAPTOP: ViewportSize = {"width": 1366, "height": 657}  # without the bars of a browser


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Page:
    show(shared, "attention", **FIRST)
    expect(shared.locator("#attention-map .b-map-title")).to_have_text("Layer 1, head 1")
    expect_seen(shared.locator("#attention-switches"), "Probability of “juliet”")
    return shared


def mode(page: Page, name: str) -> None:
    page.locator("#attention-map").get_by_role("tab", name=name).click()


def test_the_keyboard_reads_each_weight_of_the_map(page: Page, tmp_path: Path) -> None:
    maps = json.loads(download(page, "#attention-download-json", tmp_path, "attention.json"))
    page.locator("#attention-map").get_by_role("application").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):  # the first key marks the first cell
        page.keyboard.press(key)
    first, second = maps["tokens"][:2]
    expect(page.locator("#attention-map .b-readout")).to_have_text(
        f"{second} → {second}: {maps['weights'][0][0][1][1]:.3f}"
    )
    page.keyboard.press("ArrowLeft")
    expect_seen(page.locator("#attention-map .b-readout"), f"{second} → {first}: ")
    page.keyboard.press("Tab")
    expect(page.locator("#attention-map .b-readout")).to_be_empty()


def test_the_word_of_a_row_is_pressed_and_the_map_says_what_rows_are(page: Page, tmp_path: Path) -> None:
    page.set_viewport_size(LAPTOP)
    detail, axes = page.locator("#attention-map"), "A row is the word that attends"
    words, row = detail.locator(".b-map-word"), detail.locator(".b-map-line").first
    page.evaluate("scrollTo(0, 0)")
    expect_seen(detail.locator(".b-map-hint"), axes, in_window=True)
    assert detail.locator(".b-map-hint").bounding_box()["y"] < detail.locator("image").bounding_box()["y"]
    maps = json.loads(download(page, "#attention-download-json", tmp_path, "attention.json"))
    weights = maps["weights"][0][0][3]
    best = weights.index(max(weights))
    said = f"{maps['tokens'][3]} attends most to {maps['tokens'][best]} {weights[best]:.3f}, "
    words.nth(3).click()
    expect_seen(detail.locator(".b-readout"), said)
    page.locator("#title").hover()
    expect_seen(detail.locator(".b-map-hint"), said, in_window=True)
    expect(row).to_have_css("visibility", "visible")
    assert abs(row.bounding_box()["y"] - words.nth(3).bounding_box()["y"]) < row.bounding_box()["height"]
    expect(page.locator(".b-computation")).to_have_count(0)
    drawn = " ".join(picture(page, "#attention-download-png", "attention.png").split())
    assert axes in drawn
    assert "attends most to" in drawn
    for key in ("ArrowDown", "ArrowDown", "ArrowUp"):  # the pressed row, the next one, and back
        detail.get_by_role("application").press(key)
    expect_seen(detail.locator(".b-readout"), said)
    page.set_viewport_size(VIEWPORT)


def test_a_cell_says_its_weight_at_the_pointer_and_its_computation_below_the_map(page: Page) -> None:
    page.set_viewport_size(LAPTOP)
    detail, readout = page.locator("#attention-map"), page.locator("#attention-map .b-readout")
    cells, computation = detail.locator("image"), page.locator("#attention-map .b-unfolded")
    cells.hover(position={"x": 40, "y": 200})
    expect_seen(readout, re.compile(r" → .*: \d\.\d{3}$"))
    pointer, tip = cells.bounding_box(), readout.bounding_box()
    assert abs(tip["x"] - pointer["x"] - 40) < 60
    assert abs(tip["y"] - pointer["y"] - 200) < 60
    said = readout.inner_text()
    cells.click(position={"x": 40, "y": 200})
    expect_seen(computation, said.split(":")[0])
    expect_seen(computation, "÷ √")
    expect(computation.locator("h3")).to_be_in_viewport()
    detail.locator(".b-map").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(computation).not_to_contain_text(said.split(":")[0])
    page.locator("#attention-heads").get_by_role("button", name="Layer 2, head 1").click()
    expect(computation).to_have_count(0)
    page.set_viewport_size(VIEWPORT)


def test_a_map_is_no_higher_than_the_window(page: Page) -> None:
    page.set_viewport_size(LAPTOP)
    field = page.locator("#attention-map .b-map")
    for text in (FIRST["text"], "hello how are you " * 10):
        show(page, "attention", **FIRST | {"text": text})
        tokens = len(text.replace(",", " ,").replace("?", " ?").replace(".", " .").split())
        expect(field.locator("text").nth(2 * tokens)).to_be_attached()
        assert field.bounding_box()["height"] <= LAPTOP["height"] - page.locator("#header").bounding_box()["height"]
    page.set_viewport_size(VIEWPORT)


def test_a_model_without_a_head_that_stands_out_says_so(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "shown_names", lambda *asked: [[""] * 4] * 2)
    show(page, "attention", **FIRST | {"hidden": "5"})
    expect_seen(page.locator("#attention-heads"), "No head of this model stands out in these sentences.")


def test_heads_show_what_changes_without_each(page: Page, tmp_path: Path) -> None:
    """The colour of a change depends on nothing else, so that -0.007 is not as dark as -0.139."""
    grid = page.locator("#attention-heads")
    heads = grid.locator(".b-head.has-effect")
    for fact, name in (("word", "the word's probability"), ("is_next", "P(IsNext)"), ("loss", "the MLM loss")):
        grid.get_by_role("combobox", name="Colour").select_option(f"Change without it: {name}")
        wait_for_question(page, heads=json.dumps({"effect": fact}, separators=(",", ":")))
        expect(grid).not_to_contain_text("Measuring…")
        shown = heads.evaluate_all("heads => heads.map(head => [head.title, head.style.getPropertyValue('--frame')])")
        assert len(shown) == 8
        for text, colour in shown:
            change = float(text.split()[-1].replace("−", "-"))
            percent = float(re.search(r"([\d.]+)%", colour).group(1))
            assert percent == pytest.approx(60 * math.sqrt(abs(change)), abs=0.7)
            if abs(change) >= 0.01:
                assert ("more" in colour) == ((change < 0) != (fact == "loss")), text
    expect_seen(heads.first.locator(".b-head-value"), re.compile(r"\d\.\d{3}"))
    saved = json.loads(download(page, "#attention-download-json", tmp_path, "attention.json"))
    assert saved["changes"]["loss"][1][3] == pytest.approx(float(shown[7][0].split()[-1].replace("−", "-")), abs=1e-4)
    type_sentence(page, "", "pair")
    grid.get_by_role("combobox", name="Colour").select_option("Change without it: P(IsNext)")
    expect_seen(grid.locator(".b-note").first, "the model or the text has no such answer")


def test_lines_are_toggled_and_kept(page: Page) -> None:
    mode(page, "Lines")
    detail = page.locator("#attention-map")
    paths = detail.locator(".b-lines path")
    colours = "all => [...new Set(all.map(path => path.getAttribute('stroke')))].length"
    expect(paths).not_to_have_count(0)
    assert paths.evaluate_all(colours) == 1
    detail.get_by_role("button", name="Head 3").click()
    expect(detail.locator(".b-map-title")).to_have_text("Layer 1, heads 1, 3")
    assert paths.evaluate_all(colours) == 2
    detail.get_by_role("button", name="Head 1").click()
    expect(detail.locator(".b-map-title")).to_have_text("Layer 1, head 3")
    assert paths.evaluate_all(colours) == 1
    word = detail.get_by_role("group", name="Words that attend").get_by_role("button").nth(2)
    word.focus()
    page.keyboard.press("Enter")
    expect(word).to_have_attribute("aria-pressed", "true")
    starts = "all => [...new Set(all.map(path => path.getAttribute('d').match(/M0 [0-9.]+/)[0]))].length"
    assert paths.evaluate_all(starts) == 1
    weights = detail.locator(".b-line-side:not(.is-left) .b-line-weight").all_inner_texts()
    assert sum(float(weight or 0) for weight in weights) == pytest.approx(1, abs=0.1)


def test_two_words_are_chosen_with_ctrl(page: Page) -> None:
    detail = page.locator("#attention-map")
    words, hint = detail.locator(".b-map-word"), detail.locator(".b-map-hint")
    words.nth(2).click()
    words.nth(3).click(modifiers=["Control"])
    page.locator("#title").hover()
    texts = [words.nth(k).locator("title").text_content() for k in (2, 3)]
    for text in texts:
        expect_seen(hint, f"{text} attends most to ", in_window=True)
    expect(detail.locator(".b-map-line:not([visibility])")).to_have_count(2)
    words.nth(3).click()
    page.locator("#title").hover()
    expect(hint).not_to_contain_text(f"{texts[0]} attends most to ")
    mode(page, "Lines")
    left = detail.get_by_role("group", name="Words that attend").get_by_role("button")
    weights = detail.locator(".b-line-side:not(.is-left) .b-line-weight")
    alone = []
    left.nth(4).click()
    for k in (2, 3):
        left.nth(k).click()
        alone.append(weights.all_inner_texts())
    left.nth(2).click()
    left.nth(3).click(modifiers=["Control"])
    page.locator("#title").hover()
    for k in (2, 3):
        expect(left.nth(k)).to_have_attribute("aria-pressed", "true")
    both = [f"{one or '–'} · {two or '–'}" if one or two else "" for one, two in zip(*alone)]
    expect(weights).to_have_text(both)


def test_a_head_is_switched_off_and_on_again(page: Page) -> None:
    panel, grid = page.locator("#attention-switches"), page.locator("#attention-heads")
    answers = panel.get_by_role("status").locator("span")
    before = answers.all_inner_texts()
    assert [re.sub(r"[\d.]+$", "", each) for each in before] == [
        "Probability of “juliet” at its position: ",
        "P(IsNext) of the pair: ",
        "MLM loss on the corpus: ",
    ]
    grid.get_by_role("combobox", name="Colour").select_option("Change without it: the word's probability")
    head = grid.get_by_role("button", name="Layer 1, head 2")
    expect(head).to_have_attribute("title", re.compile("probability: .*\\d"))
    head.click()
    switch = panel.get_by_role("button", name=re.compile("Switch this head o"))
    switch.focus()
    page.keyboard.press("Enter")
    expect_seen(panel, "Without 1 head", in_window=True)
    wait_for_answer(panel)
    expect_seen(head.locator(".b-head-off"), "off")
    expect(answers.first).to_have_text(re.compile(re.escape(before[0]) + r" → \d\.\d+ \(.*\)"))
    # All heads are tried in one pass and one head in another, which may round the last digit otherwise.
    changes = answers.first.inner_text().split("(")[-1].rstrip(")"), head.get_attribute("title").split()[-3]
    shown, announced = (float(change.rstrip(".").replace("−", "-")) for change in changes)
    assert shown == pytest.approx(announced, abs=2e-4)
    expect(switch).to_have_text("Switch this head on")
    panel.get_by_role("button", name="Switch all on").click()
    expect(answers).to_have_text(before)
    expect(head.locator(".b-head-off")).to_be_empty()
    expect(switch).to_have_text("Switch this head off")


def test_heads_switched_off_while_an_answer_is_under_way(page: Page) -> None:
    panel, grid = page.locator("#attention-switches"), page.locator("#attention-heads")
    switch, answers = panel.get_by_role("button", name="Switch this head"), panel.get_by_role("status").locator("span")
    with late_answers(page):
        switch.click()
        expect(answers.first).to_have_text(re.compile(" → …$"))
        grid.get_by_role("button", name="Layer 1, head 3").click()
        switch.click()
    expect_seen(panel, "Without 2 heads")
    wait_for_answer(panel)
    expect(answers.first).to_have_text(re.compile(r"\)$"))
    both = answers.all_inner_texts()
    switch.click()
    expect_seen(panel, "Without 1 head")
    wait_for_answer(panel)
    expect(answers.first).to_have_text(re.compile(r"\)$"))
    assert answers.all_inner_texts() != both


def test_heads_get_their_names_after_their_weights(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    door = threading.Event()
    names = values.shown_names
    monkeypatch.setattr(values, "shown_names", lambda *asked: door.wait(60) and names(*asked))
    show(page, "attention", **FIRST | {"hidden": "3"})
    grid = page.locator("#attention-heads")
    wait_for_answer(grid)
    expect(grid.locator(".b-head")).not_to_have_count(0)
    expect(grid).to_contain_text("The heads get their names…")
    grid.get_by_role("button", name="Layer 2, head 1").click()
    expect(page.locator("#attention-map h3")).to_have_text("Layer 2, head 1")
    door.set()
    expect(grid).not_to_contain_text("The heads get their names…")


def test_a_text_of_too_many_weights_says_to_shorten_it(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_WEIGHTS", 300)
    type_sentence(page, "Great.", "pair")
    problem = page.locator("#attention-heads .b-note.is-error")
    expect_seen(problem, "Shorten the text to")
    expect(problem).to_be_in_viewport()


def test_a_single_sentence_gets_a_note_from_a_model_of_pairs(page: Page) -> None:
    expect(page.locator("#attention-heads")).not_to_contain_text("trained on pairs")
    type_sentence(page, "", "pair")
    expect(page.locator("#attention-heads")).to_contain_text("trained on pairs")


def test_before_the_first_answer_the_grid_says_what_to_do(visit: Callable[..., Page]) -> None:
    page = visit(at="#tab=attention")
    page.route("**/balcony/ask", lambda route: None)
    page.reload()
    hint = "Type a sentence to see which words each head attends to."
    expect(page.locator("#attention-heads")).to_have_text(hint)
    page.unroute_all(behavior="ignoreErrors")
    page.reload()
    expect(words_of(page)).not_to_have_count(0)
    for field in ("text", "pair"):
        type_sentence(page, "", field)
    expect_seen(page.locator("#attention-heads"), hint, in_window=True)


def test_a_saved_page_draws_the_heads_as_they_were_drawn(page: Page, tmp_path: Path) -> None:
    drawn = {"mode": "lines", "active": [1, 3], "effect": "loss"}
    show(page, "attention", **FIRST | {"head": "1.1", "heads": json.dumps(drawn), "off": "0.2"})
    expect(page.locator("#attention-map .b-map-title")).to_have_text("Layer 2, heads 2, 4")
    download(page, "#attention-download-html", tmp_path, "attention.html")
    saved = page.context.new_page()
    saved.goto((tmp_path / "attention.html").as_uri())
    expect_seen(saved.locator("#detail .b-map-title"), "Layer 2, heads 2, 4")
    expect(saved.locator("canvas").first).to_be_visible()  # there is nobody to ask what changes
    expect_seen(saved.get_by_role("button", name="Layer 1, head 3"), "off")
    saved.get_by_role("button", name="Layer 1, head 2").click()
    expect_seen(saved.locator("#detail .b-map-title"), "Layer 1, head 2")
    saved.close()
