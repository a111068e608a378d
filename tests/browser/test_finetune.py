"""A model learns a task in the page; it is tried, shown in all tabs, and compared with random weights."""

import csv
import json
import random
import re
import zipfile
from pathlib import Path
from typing import Any

from browser_steps import (
    VIEWPORT,
    change_setting,
    download,
    expect_seen,
    fine_tune,
    grave,
    open_tab,
    show,
    show_setting,
    type_sentence,
    wait_until,
)
from playwright.sync_api import Page, Route, expect
from transformers import pipeline

WORDS = ["hello", "juliet", "nice", "great", "today", "name", "team", "won"]


def own_task(count: int = 40) -> str:
    rng = random.Random(0)
    texts = [" ".join(rng.choices([*WORDS, "romeo"], k=4)) for _ in range(count)]
    return "".join(f"{text}\t{'him' if 'romeo' in text else 'nobody'}\n" for text in texts)


def drop_files(page: Page, *files: Any) -> None:
    """Give the form these files instead of those that it has."""
    clear = page.locator("#task-files").get_by_label("Clear")
    if clear.count():
        clear.click()
    page.locator("#task-files input[type=file]").set_input_files(list(files))


def test_a_file_of_ones_own_is_learned_tried_and_compared(page: Page, tmp_path: Path) -> None:
    open_tab(page, "Fine-tune")
    facts = page.locator("#task-facts")
    expect(facts).to_contain_text("text classification")
    expect(facts).to_contain_text("Choose one at the top")  # the model of the dialogue knows few of those words
    page.get_by_role("button", name="Examples of your own").click()
    file = {"name": "own.tsv", "mimeType": "text/plain", "buffer": b"hello\tyes\nromeo\n"}
    drop_files(page, file)
    expect(facts).to_contain_text("Line 2 of own.tsv")
    file["buffer"] = own_task().encode()
    drop_files(page, file)
    expect(facts).to_contain_text("him, nobody")
    expect(facts.get_by_text("Texts: column 1. Label: column 2.")).to_be_visible()
    columns, header = page.locator("#task-columns .b-scroll select"), page.locator("#task-header")
    expect(page.locator("#task-columns .b-scroll tbody tr")).to_have_count(5)
    expect(columns.first.locator("option:checked")).to_have_text("text")
    expect(page.get_by_label("Between columns")).to_have_attribute("placeholder", "tab")
    columns.first.select_option("not used")
    expect_seen(facts, "It is not clear which columns of own.tsv are one or two texts and the label")
    columns.first.select_option("text")
    expect(facts.get_by_text("Texts: column 1. Label: column 2.")).to_be_visible()
    expect_seen(facts, "Examples40")
    header.check()
    expect_seen(facts, "Examples39")
    header.uncheck()
    expect_seen(facts, "Examples40")
    held = {"name": "more.tsv", "mimeType": "text/plain", "buffer": own_task(9).encode()}
    drop_files(page, file, held)
    expect(facts).to_contain_text("Held out9")
    parts = page.locator("#task-parts select")
    expect(parts).to_have_count(2)
    parts.last.select_option("Training file")
    expect_seen(facts, "Held out40")  # the other one gives way where nobody has said what it is
    parts.first.select_option("Training file")
    expect_seen(facts, "own.tsv and more.tsv are both “Training file”; choose another part beside one of them.")
    parts.first.select_option("Test file")
    expect_seen(facts, "To test40")
    drop_files(page, *({**held, "name": f"{name}.tsv"} for name in ("own", "dev", "test", "more")))
    expect_seen(facts, "These are 4 files; at most three are read, one for each part. Remove others.")
    page.locator("#task-files").get_by_label("Remove").last.click()
    expect_seen(facts, "To test9")
    drop_files(page, file)
    expect(facts).to_contain_text("Held out10%")
    fine_tune(page, epochs=4)
    expect_seen(page.locator("#task-verdict"), re.compile("^[0-4] of 4 held-out .* would be right for [2-4]\\.$"))
    expect(page.locator("#task-measures")).to_contain_text("accuracy")
    expect(page.locator("#task-confusion tbody tr")).to_have_count(2)
    expect(page.locator("#task-examples li").first).to_have_attribute("data-right", re.compile("true|false"))
    page.locator("#task-examples").get_by_role("button").first.click()
    expect(page.locator("#task-answer li")).to_have_count(2)
    expect_seen(page.locator("#task-answer .b-verdict"), re.compile("him|nobody"), in_window=True)
    type_sentence(page, "romeo")
    expect(page.locator("#question")).to_contain_text("romeo")
    page.locator("#task-show").click()
    expect(page.locator("#model-picker option:checked")).to_have_text("Run 1 · own.tsv")
    open_tab(page, "Attention")
    expect(page.locator("#attention-map .b-map-title")).to_have_text("Layer 1, head 1")
    open_tab(page, "Fine-tune")
    page.reload()
    expect(page.locator("#task-status")).to_have_text("Finished")
    open_tab(page, "Models")
    expect(page.locator("#model-facts")).to_contain_text("text classification: him, nobody")
    with page.expect_download() as waiting:
        page.locator("#download").click()
    zipfile.ZipFile(waiting.value.path()).extractall(tmp_path / "model")
    [folder] = (tmp_path / "model").iterdir()
    [found] = pipeline("text-classification", str(folder))("romeo")
    assert found["label"] in ("him", "nobody")
    open_tab(page, "Compare")
    expect(page.locator("#runs-list")).to_contain_text("Each run that you start is listed here")
    open_tab(page, "Fine-tune")
    picker = page.locator("#model-picker")
    expect(picker.locator("option:checked")).to_have_text("Run 1 · own.tsv")
    page.locator("#task-remove").click()
    page.locator("#task-remove-sure").click()
    expect_seen(page.locator("#task-status"), "Removed")
    expect(picker.locator("option:checked")).to_have_text("romeo-juliet")
    expect(picker.get_by_role("option", name="own.tsv")).to_have_count(0)
    page.reload()
    expect(page.locator("#start")).to_be_enabled()
    expect(picker.get_by_role("option", name="romeo-juliet")).to_have_count(1)
    expect(picker.get_by_role("option", name="own.tsv")).to_have_count(0)


def test_on_a_laptop_task_button_examples_and_progress_are_in_sight(page: Page) -> None:
    page.set_viewport_size({"width": 1366, "height": 657})
    open_tab(page, "Fine-tune")
    samples, facts = page.locator("#task-samples .b-pair"), page.locator("#task-facts")
    expect(samples).to_have_count(3)
    expect(facts).not_to_contain_text("Texts: ")
    for part in (
        page.locator("#task select"),
        page.locator("#task-start"),
        page.locator("#task-status"),
        samples.first,
    ):
        expect(part).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="Examples of your own").click()
    page.locator("#task-pasted textarea").fill(own_task(30))
    expect_seen(facts, "So few held-out examples (3) measure nothing")
    expect_seen(facts, "Your own examples are used. To use those of the task, empty the fields under “Examples of")
    expect_seen(samples.first, re.compile("Label: (him|nobody)"))
    page.locator("#task select").select_option("Size of a thing")
    expect_seen(facts, "text-regression needs a number")
    expect_seen(facts, "Your own examples are used. To use")
    expect(facts.locator(".b-view")).to_have_css("opacity", "1")  # a reason to read is not faded
    page.locator("#task select").select_option("Subject of a sentence")
    expect_seen(samples.first, re.compile("Label: (him|nobody)"))
    fine_tune(page, epochs=1)
    expect_seen(page.locator("#fine-tune .b-card"), "Try it: the sentences above", in_window=True)
    for part in (page.locator("#task-status"), page.locator("#fine-tune .b-progress")):
        expect(part).to_be_in_viewport(ratio=1)
    expect(samples.first).to_be_hidden()
    expect_seen(page.locator("#task-of"), "; the model chosen above is another one.", in_window=True)
    expect_seen(page.locator("#task-results"), "So few held-out examples (3) measure nothing")
    page.set_viewport_size({"width": 390, "height": 844})  # where the progress is below the form
    page.locator("#task-start").click()
    expect(page.locator("#task-status")).to_be_in_viewport(ratio=1)


def test_a_run_is_stopped_beside_the_train_tab(page: Page) -> None:
    show(page, "fine-tune", text="hello romeo")
    page.get_by_role("button", name="Examples of your own").click()
    stride, columns = page.locator("#task-stride"), page.locator("#task-columns table")
    page.get_by_label("All settings").filter(visible=True).check()
    expect(stride).to_be_hidden()
    page.locator("#task-pasted textarea").fill("a\tx\nb\ty")
    expect(columns).to_be_visible()
    page.locator("#task select").select_option("Who, when and where")
    expect(stride).to_be_visible()
    expect(page.locator("#task-best-answers input")).to_have_value("20")
    expect(columns).to_be_hidden()
    page.locator("#task-pasted textarea").fill("")
    page.locator("#task select").select_option("Subject of a sentence")
    expect(stride).to_be_hidden()
    page.locator("#task-epochs input").fill("900")
    page.locator("#task-start").click()
    expect(page.locator("#task-status")).to_have_text("Training")
    open_tab(page, "Train")
    change_setting(page, "steps", "5")
    page.locator("#start").click()
    expect_seen(page.locator(".b-message"), "“Run 1 · Subject of a sentence” has not ended")
    open_tab(page, "Fine-tune")
    page.evaluate("document.body.classList.toggle('dark')")  # with no picture yet
    expect_seen(page.locator("#fine-tune .b-reason"), "Training step")
    page.locator("#task-stop").click()
    expect(page.locator("#task-status")).to_have_text("Stopped")
    page.locator("#task-start").click()  # a second one in the same page
    page.locator("#task-stop").click()
    expect(page.locator("#task-status")).to_have_text("Stopped")


def test_a_figure_shows_how_an_example_of_each_task_goes_in(page: Page) -> None:
    page.set_viewport_size({"width": 1366, "height": 768})
    open_tab(page, "Fine-tune")
    figure, tasks = page.locator("#task-samples figure"), page.locator("#task select")
    expect_seen(figure, "Class label of the sentence: sport", in_window=True)
    page.get_by_role("button", name="Examples of your own").click()
    page.locator("#task-pasted textarea").fill("hello romeo\tgreeting\njuliet\tname\n")
    expect_seen(figure, "Class label of the sentence: greeting")
    read = figure.get_by_role("img", name="The model reads [CLS] hello romeo [SEP].")
    expect(read).to_be_visible()
    expect(figure.locator(".is-read")).to_have_text(["C"])
    page.locator("#task-pasted textarea").fill("")
    tasks.select_option("What follows")
    expect(figure.locator(".is-read")).to_have_text(["C3 → score"])
    expect(figure.locator(".b-input-token.is-b", has_text="[SEP]")).to_have_count(4)
    tasks.select_option("Who, when and where")
    expect_seen(figure, "The answer starts at [UNK] and ends at [UNK].")
    names = figure.locator(".b-input-name")
    expect(names).to_have_text(["Question · segment A", "Context · segment B"])
    tasks.select_option("Persons and places")
    expect(figure.locator(".b-input-answer").first).to_have_text("B-person")
    page.set_viewport_size({"width": 390, "height": 844})
    assert figure.get_by_role("region").evaluate("box => box.scrollWidth > box.clientWidth")
    assert figure.evaluate("figure => figure.scrollWidth <= figure.clientWidth")
    assert grave(page) == []
    page.evaluate("document.body.classList.add('dark')")
    assert grave(page, runOnly=["color-contrast"]) == []
    page.locator("#language").select_option("ko")
    expect(names).to_have_text(["문장 · 세그먼트 A"])
    expect_seen(figure, "태그는 각 단어 첫 조각의 벡터에서 읽습니다.")


def test_the_wait_for_the_answers_after_the_end_is_said(page: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route) if "results_value" in (route.request.post_data or "") else route.continue_()

    open_tab(page, "Fine-tune")
    page.locator("#task-start").click()
    expect(page.locator("#task-status")).to_have_text("Training")
    page.route("**/balcony/ask", hold)
    expect(page.locator("#task-status")).to_have_text("Finished")
    expect_seen(page.locator("#task-results"), "The model answers the examples that it has not learned from …")
    wait_until(page, lambda: held)
    while held:
        held.pop().continue_()
    page.unroute("**/balcony/ask")
    expect_seen(page.locator("#task-results"), "Mistakes first")


def test_the_windows_and_candidates_of_a_question_are_seen_and_saved(page: Page, tmp_path: Path) -> None:
    open_tab(page, "Fine-tune")
    page.locator("#task select").select_option("Who, when and where")
    names = page.locator("#task-samples .b-input-name")
    expect(names).to_have_text(["Question · segment A", "Context · segment B"])
    show_setting(page, "task-context-first").select_option("yes")
    show_setting(page, "task-sequence-length").fill("16")
    page.keyboard.press("Tab")
    expect(names).to_have_text(["Context · segment A", "Question · segment B"])
    expect_seen(page.locator("#task-samples"), "The context is longer than the model reads; this is one of its")
    windows, save = page.locator("#task-windows"), page.locator("#task-windows-download")
    expect(windows).to_be_hidden()
    fine_tune(page, epochs=1)
    expect_seen(page.locator("#task-verdict"), "right. Always giving one and the same answer would be right for 0.")
    page.locator("#task-examples").get_by_role("button").first.click()
    windows.locator("summary").click()
    rows = windows.locator("tbody tr")
    expect(rows.first.locator("th")).to_have_text("1")
    expect_seen(windows, "Question's id: test-")
    expect_seen(windows.locator(".b-save"), "Save")  # among what it saves, not below the results
    page.set_viewport_size({"width": 390, "height": 844})
    for each in windows.locator(".b-scroll").all():
        assert each.evaluate("box => box.scrollWidth - box.clientWidth") == 0
    page.set_viewport_size(VIEWPORT)
    found = json.loads(download(page, "#task-windows-download-json", tmp_path, "candidates.json"))
    table = list(csv.DictReader(download(page, "#task-windows-download-csv", tmp_path, "candidates.csv").splitlines()))
    assert len(table) == len(found["rows"]) > rows.count()
    count = int(table[-1]["window"])
    assert [text for text in rows.locator("th").all_text_contents() if text] == [f"{k + 1}" for k in range(count)]
    assert count > 1
    page.locator("#task select").select_option("Subject of a sentence")
    fine_tune(page, epochs=1)
    expect(windows).to_be_hidden()
    expect(save).to_be_hidden()
