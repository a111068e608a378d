"""Sentence pairs by hand: the map of all pairs, its order and its files."""

import csv
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
    wait_for_answer,
    wait_for_question,
)
from playwright.sync_api import Page, expect

NUMBERS = ("first", "second", "probability", "is_true")


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Page:
    show(shared, "next-sentence", **FIRST)
    expect(shared.locator("#next-matrix .b-map-true").first).to_be_attached()
    expect(shared.locator("#next-across svg")).to_be_visible()
    return shared


def first_words(page: Page) -> list[str]:
    """The names of the rows of the matrix from top to bottom."""
    titles = page.locator("#next-matrix .b-map-word title").evaluate_all("all => all.map(t => t.textContent)")
    return titles[: len(titles) // 2]


def test_a_pair_is_chosen_from_the_matrix_by_keyboard_and_by_pointer(page: Page) -> None:
    rows = first_words(page)
    matrix = page.locator("#next-matrix").get_by_role("application")
    matrix.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):  # the first key marks the first cell
        page.keyboard.press(key)
    readout = page.locator("#next-matrix .b-readout")
    expect(readout).to_contain_text("IsNext in the text, judged")
    page.keyboard.press("Enter")
    wait_for_question(page, text=rows[1].split(" ", 1)[1], pair=rows[2].split(" ", 1)[1])
    expect(matrix).to_be_focused()
    percent = readout.inner_text().split("P(IsNext) ")[1].split(";")[0]
    expect_seen(page.locator("#next-verdict .b-ends"), f"follows (IsNext) {percent}")
    words = page.locator("#next-across .b-map-word")
    expect(words.nth(1).locator("title")).to_have_text(rows[1].split(" ", 1)[1].split()[0].strip(",").lower())
    cells, frame = page.locator("#next-matrix image").bounding_box(), matrix.bounding_box()
    matrix.click(position={"x": cells["x"] - frame["x"] + 3, "y": cells["y"] + cells["height"] - frame["y"] - 3})
    wait_for_question(page, text=rows[-1].split(" ", 1)[1], pair=rows[0].split(" ", 1)[1])
    page.locator("#undo").click()
    wait_for_question(page, text=rows[1].split(" ", 1)[1], pair=rows[2].split(" ", 1)[1])


def test_the_map_of_all_pairs_is_seen_first_and_the_answer_for_one_beside_it(page: Page) -> None:
    page.set_viewport_size({"width": 1366, "height": 657})
    cells, answer = page.locator("#next-matrix image"), page.locator("#next-verdict .b-ends")
    for part in (cells, answer):
        expect(part).to_be_in_viewport(ratio=0.75)
    for text in ("Judges ", "Rows are first sentences", "Crossed: judged wrong"):
        said = page.locator("#next-matrix").get_by_text(text)
        expect_seen(said, text, in_window=True)
        assert said.bounding_box()["y"] < cells.bounding_box()["y"]
    assert cells.bounding_box()["x"] + cells.bounding_box()["width"] <= answer.bounding_box()["x"]
    cells.hover(position={"x": 50, "y": 50})
    readout = page.locator("#next-matrix .b-readout")
    expect_seen(readout, "P(IsNext)")
    pointer = cells.bounding_box()["y"] + 50
    assert abs(readout.bounding_box()["y"] - pointer) < 120
    page.set_viewport_size({"width": 390, "height": 844})
    top = "document.querySelector('{}')?.getBoundingClientRect().top"  # the map is drawn anew
    page.wait_for_function(f"{top.format('#next-matrix image')} < {top.format('#next-verdict .b-ends')}")
    page.set_viewport_size(VIEWPORT)


def test_heads_chosen_while_an_answer_is_under_way(page: Page) -> None:
    across = page.locator("#next-across")
    heads, summary = across.get_by_role("combobox", name="Attention of"), across.locator("p").last
    expect(heads.locator("option")).to_have_count(9)
    with late_answers(page):
        heads.select_option("0.1")
        heads.select_option("1.2")
    wait_for_answer(across)
    expect(heads).to_have_value("1.2")
    after_haste = summary.inner_text()
    for choice in ("mean", "1.2"):
        heads.select_option(choice)
        wait_for_answer(across)
    assert summary.inner_text() == after_haste


def test_rows_are_sorted_and_the_numbers_are_those_of_the_file(page: Page, tmp_path: Path) -> None:
    rows = first_words(page)
    table = download(page, "#next-matrix-download-csv", tmp_path, "matrix.csv").splitlines()
    file = [{name: float(row[name] or 0) for name in NUMBERS} for row in csv.DictReader(table)]
    assert len(file) == len(rows) ** 2
    page.locator("#next-matrix").get_by_role("combobox", name="Rows by").select_option("P of the true next sentence")
    likely: dict[int, float] = {}
    for row in file:
        if row["is_true"]:
            likely[row["first"]] = max(row["probability"], likely.get(row["first"], 0))
    numbers = [int(title.split()[0]) for title in first_words(page)]
    assert sorted(numbers) == list(range(1, len(rows) + 1))
    in_order = [round(likely.get(number, -1), 4) for number in numbers]
    assert in_order == sorted(in_order, reverse=True)
    found = sum(
        max((row for row in file if row["first"] == number), key=lambda row: row["probability"])["is_true"] == 1
        for number in likely
    )
    expect(page.locator("#next-matrix")).to_contain_text(f"for {found} of {len(likely)} sentences")
    assert page.locator("#next-matrix .b-map-true").count() == sum(row["is_true"] for row in file)
    drawn = picture(page, "#next-matrix-download-png", "matrix.png")
    assert "Ranks the true next sentence" in drawn.replace("\n", " ")
