"""The batch of a step, memorising versus generalising, and a run that is saved and continued."""

import csv
import re
from collections.abc import Callable
from pathlib import Path

from browser_steps import (
    change_setting,
    expect_seen,
    fine_tune,
    late_answers,
    move_slider,
    open_tab,
    paste,
    press_save,
    show,
    start,
    wait_for_points,
    wait_for_question,
    wait_for_status,
)
from playwright.sync_api import Page, expect

ENDLESS = "50000"


def test_views_that_are_opened_before_the_server_answers_are_filled_when_it_does(page: Page) -> None:
    batch, exam = page.locator("#batch"), page.locator("#exam")
    with late_answers(page):
        page.reload()
        open_tab(page, "Batch")
        expect(batch).to_be_visible()
        page.wait_for_timeout(100)
        expect(batch).not_to_contain_text("Press Start")
    expect_seen(batch, "Press Start")
    open_tab(page, "Train")
    expect_seen(exam, "words are hidden one at a time")
    show(page, "attention", text="where are you")
    with late_answers(page):
        page.reload()
        open_tab(page, "Batch")
        wait_for_question(page, tab="batch")
    wait_for_question(page, tab="batch", text="where are you")  # all of the address that was not pressed away
    expect(batch).to_be_visible()


def test_the_batch_of_the_selected_step(page: Page) -> None:
    open_tab(page, "Batch")
    batch = page.locator("#batch")
    expect_seen(
        batch, "This model was trained elsewhere, and the text of its batches did not come with it. Press Start"
    )
    expect(page.locator("#batch-next")).to_be_hidden()
    open_tab(page, "Train")
    change_setting(page, "steps", "40")
    start(page)
    wait_for_status(page, "Finished")
    open_tab(page, "Batch")
    summary, pairs = batch.locator(".b-batch-summary"), batch.locator(".b-batch-range")
    expect_seen(summary, "Batch of step 40")
    expect_seen(summary, re.compile(r"\d+ of \d+ asked words of these pairs right, mean loss \d"))
    expect_seen(summary, re.compile(r"Always answering “.+” would be right for \d+\."))
    expect(pairs).to_have_text("Pairs 1 to 4 of 48")
    expect(batch.locator("section")).to_have_count(4)
    expect_seen(batch.locator(".b-batch-legend"), "replaced: shown as a random word (10%)", in_window=True)
    asked = batch.locator("section li").filter(has_text="true:")
    assert asked.count() >= 4
    for text in asked.all_inner_texts():
        assert any(text.split("\n")[1] == kind for kind in ("masked", "replaced", "kept")), text
        assert "loss" in text
        assert "✓" in text or "✗" in text
    page.get_by_text("Shapes, and how the asked words are gathered").click()
    expect_seen(batch.get_by_role("row", name="input_ids"), "48 × ")
    gathered = batch.get_by_role("region", name="Asked positions").locator("tbody tr")
    expect(gathered).to_have_count(asked.count())
    last = (-1, -1)  # a row of the batch, and which of its asked words
    for text, rule in zip(*(gathered.locator(f"td:nth-child({n})").all_inner_texts() for n in (4, 5)), strict=True):
        row, length, at, number = map(int, re.findall(r"\d+", text))
        assert row * length + at == number
        last = (row, last[1] + 1 if row == last[0] else 0)
        assert rule == f"output[{last[0]}][{last[1]}][k] = vectors[{row}][{at}][k]"
    expect_seen(batch, "dim 1: output[i][j][k] = input[i][index[i][j][k]][k]")
    page.locator("#batch-next").click()
    expect(pairs).to_have_text("Pairs 5 to 8 of 48")
    with page.expect_download() as waiting:
        press_save(page, "#batch-download-csv")
    rows = list(csv.DictReader(Path(waiting.value.path()).read_text(encoding="utf-8-sig").splitlines()))
    assert {row["example"] for row in rows} == {"5", "6", "7", "8"}
    move_slider(page, 0)
    expect_seen(summary, "guesses of the untrained model")


def test_the_batch_of_a_task_has_its_examples_with_all_choices(page: Page) -> None:
    open_tab(page, "Fine-tune")
    page.locator("#task select").select_option(label="What follows")
    page.get_by_role("button", name="Examples of your own").click()
    header = "sent1,sent2,ending0,ending1,ending2,ending3,label\n"
    lines = [f"hello how are you,,i am romeo,my name is juliet,great,nice to meet you,{i % 4}\n" for i in range(30)]
    page.locator("#task-pasted textarea").fill("".join([header, *lines]))
    expect_seen(page.locator("#task-facts"), "Examples30")
    fine_tune(page, epochs=1)
    page.locator("#task-show").click()
    open_tab(page, "Batch")
    batch = page.locator("#batch")
    summary, examples = batch.locator(".b-batch-summary"), batch.locator("section")
    expect_seen(
        summary, re.compile(r"\d of \d answers to these examples right, mean loss \d\.\d\d\. Always"), in_window=True
    )
    expect_seen(batch, re.compile(r"Examples 1 to \d of \d"))
    for example in examples.all():
        expect_seen(
            example.locator("h4 + p"), re.compile(r"[✓✗] true: choice [1-4]; the model: choice [1-4] \d+%; loss")
        )
        rows = example.locator(".b-batch-row")
        expect(rows).to_have_count(4)
        expect(rows.filter(has_text="(right)")).to_have_count(1)
        for k, row in enumerate(rows.all(), 1):
            expect_seen(row, re.compile(rf"Choice {k}.*: score −?\d\.\d\d \(\d+%\)"))
            assert row.locator("li").first.inner_text() == "[CLS]\n2"
            expect_seen(row, "segment 1, attention mask 1")
    batch.get_by_text("Shapes of the batch").click()
    expect_seen(batch.get_by_role("row", name="input_ids"), re.compile(r"\d × 4 × \d+"))
    move_slider(page, 0)
    expect_seen(summary, "The first batch, with guesses of the untrained model")
    with page.expect_download() as waiting:
        press_save(page, "#batch-download-csv")
    rows = list(csv.DictReader(Path(waiting.value.path()).read_text(encoding="utf-8-sig").splitlines()))
    assert {row["row"] for row in rows} == {str(number) for number in range(16)}
    page.locator("#language").select_option("zh-CN")
    expect_seen(summary, "个问题中答对")
    expect_seen(examples.first, "分数")


def test_the_dialogue_is_memorised_and_a_longer_text_has_held_out_sentences(page: Page) -> None:
    expect_seen(page.locator("#preview"), "Held outnothing")
    start(page)
    wait_for_status(page, "Finished")
    exam = page.locator("#exam")
    exam.scroll_into_view_if_needed()
    expect_seen(exam, "There is nothing to hold out: all 9 sentences")
    expect_seen(exam, "so this cannot show whether it learned a rule or learned the text by heart")
    expect_seen(exam, "sign test")
    exam.locator("summary").click()
    expect(exam.locator("details p").first).to_have_text("Exam at step 110")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.post_data or ""))
    page.locator("#model-rename").click()
    page.locator("#model-name").fill("Juliet's")
    page.locator("#model-name").press("Enter")
    open_tab(page, "Compare")
    expect_seen(page.locator("#runs-list"), "Juliet's")
    open_tab(page, "Train")
    expect_seen(exam, "sign test")
    assert not [body for body in asked if '"exam"' in body], "a name changes nothing of the exam"
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    paste(page, "\n".join(f"{words[i % 7]} {words[(i * j) % 7]} {words[j % 6]}" for i in range(30) for j in range(8)))
    change_setting(page, "steps", "20")
    expect_seen(page.locator("#preview"), "Held out24")
    start(page)
    wait_for_status(page, "Finished")
    exam.scroll_into_view_if_needed()
    expect_seen(exam, "24 sentences are held out")
    expect(exam.locator("details p").first).to_have_text("Exam at step 20")
    move_slider(page, 0)
    expect(exam.locator("details p").first).to_have_text("Exam at step 0")


def test_a_report_of_a_run_is_saved_in_the_language_of_the_page(visit: Callable[[], Page]) -> None:
    page = visit()
    change_setting(page, "steps", ENDLESS)
    start(page)
    wait_for_points(page, 5)
    page.locator("#pause").click()
    wait_for_status(page, "Paused")
    steps = int(page.locator("#run-step").inner_text().split(" of ")[0].replace(",", ""))
    with page.expect_download() as waiting:
        press_save(page, "#curves-html")
    assert f"{steps:,} of 50,000 steps" in waiting.value.path().read_text(encoding="utf-8")
    page.locator("#language").select_option("zh-CN")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    with page.expect_download() as waiting:
        press_save(page, "#curves-html")
    report = waiting.value.path().read_text(encoding="utf-8")
    assert waiting.value.suggested_filename.endswith("report.html")
    assert f"50,000 步中的 {steps:,} 步" in report
    assert '<h1 dir="auto">报告：罗密欧与朱丽叶' in report
    page.locator("#language").select_option("en")
    page.locator("#stop").click()
    wait_for_status(page, "Stopped")
