"""Sentence pairs by hand: the map of all pairs, its order, its window, its files, and two models beside each other."""

import csv
import json
from pathlib import Path

from browser_steps import (
    change_setting,
    compare_with,
    download,
    late_answers,
    open_tab,
    paste,
    start,
    wait_for_answer,
    wait_for_status,
)
from playwright.sync_api import Page, expect


def open_pairs(page: Page) -> None:
    open_tab(page, "Next sentence")
    expect(page.locator("#next-matrix .balcony-map-true").first).to_be_attached()


def first_words(page: Page) -> list[str]:
    """The names of the rows of the matrix from top to bottom."""
    titles = page.locator("#next-matrix .balcony-map-word title").evaluate_all("all => all.map(t => t.textContent)")
    return titles[: len(titles) // 2]


def test_a_pair_is_chosen_from_the_matrix_by_keyboard_and_by_pointer(page: Page) -> None:
    open_pairs(page)
    rows = first_words(page)
    matrix = page.locator("#next-matrix").get_by_role("application")
    matrix.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):  # the first key marks the first cell
        page.keyboard.press(key)
    readout = page.locator("#next-matrix .balcony-readout")
    expect(readout).to_contain_text("IsNext in the text, judged")
    page.keyboard.press("Enter")
    first, second = page.locator("#next-first textarea"), page.locator("#next-second textarea")
    expect(first).to_have_value(rows[1].split(" ", 1)[1])
    expect(second).to_have_value(rows[2].split(" ", 1)[1])
    expect(matrix).to_be_focused()
    percent = readout.inner_text().split("P(IsNext) ")[1].split(";")[0]
    expect(page.locator("#next-verdict .balcony-ends")).to_contain_text(f"IsNext {percent}")
    words = page.locator("#next-across .balcony-map-word")
    expect(words.first.locator("title")).to_have_text(rows[1].split(" ", 1)[1].split()[0].strip(",").lower())
    cells, frame = page.locator("#next-matrix image").bounding_box(), matrix.bounding_box()
    matrix.click(position={"x": cells["x"] - frame["x"] + 3, "y": cells["y"] + cells["height"] - frame["y"] - 3})
    expect(first).to_have_value(rows[-1].split(" ", 1)[1])
    expect(second).to_have_value(rows[0].split(" ", 1)[1])


def test_heads_chosen_while_an_answer_is_under_way(page: Page) -> None:
    open_pairs(page)
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
    open_pairs(page)
    rows = first_words(page)
    file = json.loads(download(page, "#next-matrix-download-json", tmp_path, "matrix.json"))
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
    assert page.locator("#next-matrix .balcony-map-true").count() == sum(row["is_true"] for row in file)
    picture = download(page, "#next-matrix-download-svg", tmp_path, "matrix.svg")
    assert "Ranks the true next sentence" in picture.replace("\n", " ")


def test_the_matrix_shows_a_window_of_a_long_text(page: Page) -> None:
    paste(page, "\n".join(f"sentence number {number} goes on" for number in range(1, 61)))
    change_setting(page, "steps", "20")
    start(page)
    wait_for_status(page, "Finished")
    open_pairs(page)
    matrix = page.locator("#next-matrix")
    expect(matrix.locator("output")).to_contain_text("of 60")
    assert first_words(page)[0] == "1 sentence number 1 goes on"
    matrix.get_by_role("slider").press("End")
    expect(matrix.locator("output")).to_contain_text("to 60 of 60")
    expect(matrix.locator(".balcony-map-word title").filter(has_text="60 sentence number 60")).to_have_count(1)


def test_two_models_judge_side_by_side(page: Page, tmp_path: Path) -> None:
    change_setting(page, "steps", "20")
    start(page)
    wait_for_status(page, "Finished")
    open_pairs(page)
    compare_with(page, "next-other", "romeo-juliet")
    expect(page.locator("#next-verdict h3")).to_have_count(2)
    expect(page.locator("#next-verdict")).to_contain_text("percentage points apart")
    other = page.locator("#next-other-matrix")
    expect(other).to_contain_text("pairs differently")
    expect(other.locator("svg")).to_be_visible()
    both = page.locator("#next-verdict h3").all_inner_texts()
    assert list(json.loads(download(page, "#next-download-json", tmp_path, "pair.json"))) == both
    matrices = json.loads(download(page, "#next-matrix-download-json", tmp_path, "matrix.json"))
    assert [len(matrices[title]) for title in both] == [81, 81]
    rows = list(csv.DictReader(download(page, "#next-matrix-download-csv", tmp_path, "matrix.csv").splitlines()))
    assert [row["model"] for row in rows] == [title for title in both for _ in range(81)]
    open_tab(page, "Masked words")
    compare_with(page, "masked-other", "romeo-juliet")
    expect(page.locator("#masked-other-guesses h3").first).to_contain_text("comes with Balcony")
    expect(page.locator("#masked-other-guesses")).to_contain_text("with the first")
    expect(page.locator("#masked-other-guesses section")).to_have_count(1)
    guesses = json.loads(download(page, "#masked-download-json", tmp_path, "guesses.json"))
    assert list(guesses) == both
    shown = page.locator("#masked-other-guesses bdi").all_inner_texts()
    assert {guess["token"] for guess in guesses[both[1]]["masks"][0]} <= set(shown)
    compare_with(page, "masked-other", "Nothing")
    expect(page.locator("#masked-other-guesses")).to_be_hidden()
