"""Sentence pairs by hand: the map of all pairs, and its files."""

import csv
from pathlib import Path

import pytest
from browser_steps import (
    FIRST,
    VIEWPORT,
    download,
    expect_seen,
    picture,
    show,
    wait_for_question,
)
from playwright.sync_api import Page, expect

NUMBERS = ("first", "second", "probability", "is_true")


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Page:
    show(shared, "next-sentence", **FIRST)
    expect(shared.locator("#next-matrix .b-map-true").first).to_be_attached()
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
    cells, frame = page.locator("#next-matrix image").bounding_box(), matrix.bounding_box()
    matrix.click(position={"x": cells["x"] - frame["x"] + 3, "y": cells["y"] + cells["height"] - frame["y"] - 3})
    wait_for_question(page, text=rows[-1].split(" ", 1)[1], pair=rows[0].split(" ", 1)[1])


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


def test_the_numbers_are_those_of_the_file(page: Page, tmp_path: Path) -> None:
    rows = first_words(page)
    table = download(page, "#next-matrix-download-csv", tmp_path, "matrix.csv").splitlines()
    file = [{name: float(row[name] or 0) for name in NUMBERS} for row in csv.DictReader(table)]
    assert len(file) == len(rows) ** 2
    likely = {row["first"] for row in file if row["is_true"]}
    found = sum(
        max((row for row in file if row["first"] == number), key=lambda row: row["probability"])["is_true"] == 1
        for number in likely
    )
    expect(page.locator("#next-matrix")).to_contain_text(f"for {found} of {len(likely)} sentences")
    assert page.locator("#next-matrix .b-map-true").count() == sum(row["is_true"] for row in file)
    drawn = picture(page, "#next-matrix-download-png", "matrix.png")
    assert "Ranks the true next sentence" in drawn.replace("\n", " ")
