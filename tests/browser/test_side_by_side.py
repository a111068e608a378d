"""Runs side by side in a real browser: the list, curves over one another, what differs, repeated runs, experiments."""

import re
from typing import Any

import pytest
from browser_steps import (
    change_setting,
    expect_seen,
    open_tab,
    saved,
    show,
    shown_model,
    start,
    wait_for_question,
    wait_for_status,
)
from playwright.sync_api import Locator, Page, ViewportSize, expect

LONG = 60_000
DRAWN = "document.querySelector('#other-curves')?.data?.filter((trace) => trace.meta.kind === 'other').length === "
NAMES = ["Run 1 · Romeo and Juliet, quick", "Run 2 · Romeo and Juliet, quick"]
LAPTOP: ViewportSize = {"width": 1366, "height": 657}


def row(page: Page, number: int) -> Locator:
    """A run's line in the list."""
    return page.locator("#runs-table tbody tr").nth(number - 1)


def differs(page: Page, number: int) -> Locator:
    """The settings in which a run differs from others of the list."""
    return row(page, number).locator(".b-differs div")


def curves_of_others(page: Page) -> list[dict[str, Any]]:
    """Name, number of points and last step of the other runs' curves."""
    return page.evaluate(
        """() => document.querySelector('#other-curves').data.filter((trace) => trace.meta.kind === 'other')
            .map(({ name, meta, x }) => ({ name, series: meta.series, points: x.length, last: x.at(-1) }))"""
    )


@pytest.fixture(scope="module")
def compared(shared: Page) -> Page:
    """A page with a run of 30 steps and one of 40 that hides more words."""
    change_setting(shared, "steps", "30")
    start(shared)
    wait_for_status(shared, "Finished")
    change_setting(shared, "steps", "40")
    change_setting(shared, "mask-probability", "0.3")
    shared.locator("#start").click()
    expect(shared.locator("#run-step")).to_have_text("40 of 40")
    wait_for_status(shared, "Finished")
    shared.set_viewport_size(LAPTOP)
    open_tab(shared, "Compare")
    shared.wait_for_function(DRAWN + "8")
    return shared


def test_runs_are_listed_with_the_settings_in_which_they_differ(compared: Page, complaints: list[str]) -> None:
    page = compared
    expect(page.locator("#runs-table tbody tr")).to_have_count(2)
    expect_seen(row(page, 1), "finished")
    expect(row(page, 1).locator("[data-name='Steps']")).to_have_text("30")
    expect(row(page, 1).locator("[data-name^='MLM loss']")).to_have_text(re.compile(r"^\d\.\d{3}$"))
    expect_seen(row(page, 2).locator(".b-run-name"), NAMES[1], in_window=True)
    expect(page.get_by_role("button", name="Remove: run 2")).to_be_in_viewport(ratio=1)
    expect(differs(page, 1)).to_have_text(["Steps 30", "Fraction to predict 0.15"])
    expect(differs(page, 2)).to_have_text(["Steps 40", "Fraction to predict 0.3"])
    page.locator("#copy-link").click()
    expect_seen(page.locator(".b-message"), "none of your other runs", in_window=True)
    page.keyboard.press("Escape")


def test_curves_of_runs_are_drawn_over_each_other(compared: Page, complaints: list[str]) -> None:
    page = compared
    boxes = [
        page.locator(part).bounding_box() or {}
        for part in (
            "#runs-table",
            "#other-curves",
            "#other-curves .legend",
            "#other-curves .nsewdrag[data-subplot=xy]",
        )
    ]
    table, chart, legend, area = boxes
    assert chart["y"] >= table["y"] + table["height"]
    assert chart["height"] > 0.75 * LAPTOP["height"]
    assert legend["y"] + legend["height"] <= area["y"]
    named = page.evaluate("document.querySelector('#other-curves').data.filter((each) => each.line && each.name)")
    colours = {each["name"]: each["line"]["color"] for each in named if each.get("showlegend", True)}
    assert colours["Masked words (MLM)"] == colours["Next sentence (NSP)"] == "#7c8594"
    assert len({colours[name] for name in NAMES} - {"#7c8594"}) == 2
    others = curves_of_others(page)
    assert [other["series"] for other in others] == 2 * ["mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy"]
    assert {(other["name"], other["points"], other["last"]) for other in others} == {
        (NAMES[0], 30, 30),
        (NAMES[1], 40, 40),
    }


def test_compared_curves_are_saved_as_a_picture(compared: Page, complaints: list[str]) -> None:
    page = compared
    page.evaluate("""() => { const draw = Plotly.downloadImage; Plotly.downloadImage = (figure, how) => {
        window.drawn = [figure.layout.title.text, ...figure.data.map((trace) => trace.name)];
        return draw(figure, how); }; }""")
    assert saved(page, "#compared-png", "curves.png").suggested_filename == "compared-curves.png"
    assert {"Compared runs", *NAMES} <= {*page.evaluate("window.drawn")}


def test_a_run_that_is_not_ticked_is_not_drawn(compared: Page, complaints: list[str]) -> None:
    page, first = compared, compared.get_by_label("In the curves: Run 1")
    expect(first).to_be_checked()
    others = curves_of_others(page)
    wait_for_question(page, tab="compare")  # it is in the address a moment after the press
    page.reload()
    page.wait_for_function(DRAWN + "8")
    assert curves_of_others(page) == others
    expect(first).to_be_checked()
    first.uncheck()
    page.wait_for_function(DRAWN + "4")
    first.check()
    page.wait_for_function(DRAWN + "8")


def test_a_renamed_run_has_its_name_everywhere(compared: Page, complaints: list[str]) -> None:
    page, name = compared, "His run with a higher rate than all others B"
    for new in ("My Juliet", name):
        page.locator("#model-rename").click()
        page.locator("#model-name").fill(new)
        page.locator("#model-name").press("Enter")
        page.wait_for_function(
            "name => document.querySelector('#other-curves').data.some((each) => each.name?.includes(name))",
            arg=new,
        )
    expect(page.get_by_label(name).first).to_be_checked()
    chosen = page.locator("#model-picker option:checked")
    expect(chosen).to_have_text("His run with a h…an all others B")  # the end tells it from others
    open_tab(page, "Models")
    expect_seen(page.locator("#model-choice"), "His")
    expect_seen(page.locator("#model-facts"), "His")
    open_tab(page, "Compare")


def test_a_run_is_removed_after_a_question(page: Page) -> None:
    change_setting(page, "steps", "20")
    models = page.locator("#model-picker option")
    for number in (1, 2, 3):
        page.locator("#start").click()
        expect(models).to_have_count(1 + number)
        wait_for_status(page, "Finished")
    open_tab(page, "Compare")
    rows, question = page.locator("#runs-table tbody tr"), page.locator("#runs-table :popover-open")
    page.get_by_role("button", name="Remove: run 1").click()
    expect_seen(question, "Remove “Run 1 · Romeo and Juliet, quick” with its curves and its model?", in_window=True)
    question.get_by_role("button", name="Cancel").click()
    expect(rows).to_have_count(3)
    for left, number in ((2, 1), (1, 3), (0, 2)):  # the shown one is the last
        page.get_by_role("button", name=f"Remove: run {number}").click()
        page.locator(f"#remove-{number}-sure").click()
        expect(rows).to_have_count(left)
        expect(models).to_have_count(1 + left)
    expect_seen(page.locator("#runs-list"), "Each run that you start is listed here")
    expect(shown_model(page)).to_have_text("romeo-juliet")
    open_tab(page, "Train")
    wait_for_status(page, "No run yet")
    start(page)


def test_an_experiment_answers_its_question_and_its_runs_are_drawn(page: Page) -> None:
    change_setting(page, "steps", "20")
    start(page)
    wait_for_status(page, "Finished")
    open_tab(page, "Compare")
    page.get_by_role("radio", name="With and without position embeddings").check()
    expect_seen(page.locator("#experiment-choice"), "without word order?")
    expect(page.get_by_role("progressbar", name="Progress of the experiment")).to_be_hidden()
    page.get_by_role("radio", name="Three seeds").check()
    page.set_viewport_size(LAPTOP)
    page.get_by_role("button", name="Start experiment").click()
    expect_seen(page.locator("#experiment-status"), "of 6", in_window=True)
    expect(page.locator("#start")).to_be_disabled()
    rows = page.locator("#experiment-result tbody tr")
    expect(rows).to_have_count(2, timeout=LONG)
    expect_seen(rows.nth(0), "With positions")
    expect(rows.nth(1).locator("[data-name='Asked words right']")).to_have_text(re.compile(r"^\d+% ± \d+$"))
    answer = re.compile(r"Asked words right: \d+% ± \d+ \(With positions\), \d+% ± \d+ \(Without positions\)")
    expect_seen(page.locator("#experiment-answer"), answer)
    expect_seen(page.locator("#experiment-result"), "4.3 standard errors")
    expect(page.locator("#start")).to_be_enabled()
    open_tab(page, "Compare")
    expect(page.locator("#runs-table tbody tr")).to_have_count(7)
    expect_seen(row(page, 7), "Use position embeddings no")
    page.wait_for_function(DRAWN + "28")
    for number in (1, 2):
        page.get_by_label(f"In the curves: Run {number}").uncheck()
    page.wait_for_function(DRAWN + "20")
    page.reload()
    open_tab(page, "Compare")
    expect(page.locator("#experiment-answer")).to_be_visible()


def test_stop_ends_a_whole_experiment(page: Page) -> None:
    change_setting(page, "steps", "50000")
    open_tab(page, "Compare")
    page.get_by_role("button", name="Start experiment").click()
    expect_seen(page.locator("#experiment-status"), "Run 1 of 3")
    open_tab(page, "Train")
    expect(page.locator("#stop")).to_be_enabled()
    page.locator("#stop").click()
    wait_for_status(page, "Stopped")
    open_tab(page, "Compare")
    expect_seen(page.locator("#experiment-status"), "Stopped by you")
    expect(page.locator("#start")).to_be_enabled()
    page.get_by_role("button", name="Start experiment").click()  # a second one in the same page
    expect_seen(page.locator("#experiment-status"), "Run 1 of 3")
    page.locator("#experiment-stop").click()
    expect_seen(page.locator("#experiment-status"), "Stopped by you")


def test_where_models_did_not_learn_the_same_is_offered_with_a_third_of_the_rate(page: Page) -> None:
    change_setting(page, "steps", "20")
    change_setting(page, "learning-rate", "0.9")
    open_tab(page, "Compare")
    page.set_viewport_size(LAPTOP)
    page.get_by_role("radio", name="One layer or four").check()
    page.get_by_role("button", name="Start experiment").click()
    answer = page.locator("#experiment-answer")
    expect_seen(answer, re.compile("did not learn|No model is more than 5 points"))
    expect(answer).not_to_have_text(re.compile("Depth"))
    page.get_by_role("button", name="The same with a third of the learning rate").click()
    expect(page.locator("#runs-table tbody tr")).to_have_count(4)
    expect(differs(page, 4).filter(has_text="Learning rate")).to_have_text("Learning rate 0.3")
    expect(page.locator("#experiment-result tbody tr")).to_have_count(2)


def test_what_pretraining_bought_is_an_experiment_on_the_task_of_fine_tuning(page: Page) -> None:
    show(page, "fine-tune", model="english-mini")
    epochs = page.locator("#task-epochs input")
    open_tab(page, "Compare")
    page.get_by_role("radio", name="What did pre-training buy?").check()
    expect_seen(page.locator("#experiment-choice"), "how many labels does pre-training save?")
    for count in ("-1", "1"):
        open_tab(page, "Fine-tune")
        epochs.fill(count)
        open_tab(page, "Compare")
        page.get_by_role("button", name="Start experiment").click()
        if count == "-1":
            expect_seen(page.locator(".b-message"), "Epochs is -1", in_window=True)
    rows = page.locator("#experiment-result tbody tr")
    expect(rows).to_have_count(6, timeout=LONG)
    expect_seen(rows.nth(0), "8 examples, random weights")
    expect_seen(rows.nth(5), "All examples, pre-trained weights")
    expect_seen(page.locator("#experiment-answer"), re.compile(r"Accuracy: \d+% \(8 examples, random weights\)"))
    expect(page.locator("#runs-table tbody tr")).to_have_count(0)
