"""What a person looks at, in the address: a link shows the same to another visitor, or says what is missing."""

import csv
import functools
import re
from collections.abc import Callable
from pathlib import Path

from browser_steps import (
    change_setting,
    compare_with,
    download,
    expect_seen,
    late_answers,
    open_tab,
    paste,
    show,
    shown_model,
    wait_for_question,
    wait_for_status,
    words_of,
)
from playwright.sync_api import Page, expect

from balcony.server.files import pack, save_to_share
from bert_core import load_checkpoint

STEPS = 8
TEXTS = {  # the letters of a script, and sentences in it
    "[\u4e00-\u9fff]": ["今天天气很好", "我们今天去公园", "公园里有很多花"],
    "[\u0621-\u064a]": ["مرحبا كيف حالك اليوم", "أنا بخير شكرا كيف حالك أنت", "أنا سعيد اليوم شكرا لك"],
}
# What shows words of the sentences in each tab.
WORDS = {
    "Masked words": "#masked-guesses",
    "Next sentence": "#next-matrix",
    "Attention": "#attention-map",
    "Words in context": "#context-cosine",
    "Step by step": "#steps",
}


def link_of(page: Page) -> str:
    """The part of the copied link after and with #."""
    page.locator("#copy-link").click()
    return page.evaluate("location.hash")


def train(page: Page) -> None:
    """Do STEPS steps, and wait for the end."""
    change_setting(page, "steps", str(STEPS))
    shown = page.locator("#model-picker").input_value()
    page.locator("#start").click()
    expect(page.locator("#model-picker")).not_to_have_value(shown)
    wait_for_status(page, "Finished")


def test_a_link_shows_the_same_to_another_visitor(visit: Callable[..., Page], tmp_path: Path) -> None:
    page = visit()
    show(
        page,
        "masked-words",
        text="Oh Congratulations, Juliet",
        pair="Thank you Romeo",
        hidden="2,4",
        guess="romeo",
        view="explained",
        mask="1",
    )
    closer, guesses = "#masked-closer", "#masked-guesses"
    expect_seen(page.locator(closer), "Explained: romeo, ln p")
    expect(page.locator(guesses)).to_contain_text("My guess romeo")
    other = visit(at=link_of(page))
    for each in (closer, guesses):
        expect(other.locator(each)).to_have_text(page.locator(each).inner_text(), use_inner_text=True)
    expect(other.get_by_role("radio", name="Which words it depends on")).to_be_checked()
    expect(other.locator("#masked-own").get_by_role("textbox")).to_have_value("romeo")

    # A run of a recipe with a seed is trained again, and is the same.
    open_tab(page, "Train")
    page.locator("#seed input").fill("3")
    train(page)
    # Without the recipe, which the page has for the same model.
    parts = {"text": "Oh Congratulations, Juliet", "hidden": "1", "head": "1.2", "off": "0.1"}
    show(page, "attention", model=page.locator("#model-picker").input_value(), **parts)
    expect(page.locator("#attention-map .b-map-title")).to_have_text("Layer 2, head 3")
    link = link_of(page)
    other.goto("about:blank")
    other.goto(page.url.partition("#")[0] + link)
    expect_seen(
        other.locator("#link-notice"),
        "a run here repeats the training, with the same recipe, settings and seed",
        in_window=True,
    )
    expect(other.locator("#model-step")).to_have_text(f"step {STEPS}")
    expect(other.locator("#link-notice")).to_be_in_viewport(ratio=1)
    expect(other.locator("#attention-map .b-map-title")).to_have_text("Layer 2, head 3")
    answers = "#attention-switches [role=status]"
    expect_seen(other.locator(answers), "Without 1 head")
    expect(other.locator(answers)).to_have_text(page.locator(answers).inner_text(), use_inner_text=True)
    # Of another model, no head is off.
    other.locator("#model-picker").select_option(label="romeo-juliet")
    expect_seen(other.locator(answers), "With all heads")
    open_tab(other, "Train")
    wait_for_status(other, "Finished")
    assert losses(other, tmp_path) == losses(page, tmp_path)


def losses(page: Page, folder: Path) -> list[tuple[str, str]]:
    """Both losses of each step with all of their digits."""
    open_tab(page, "Train")
    table = csv.DictReader(download(page, "#curves-csv", folder, "curves.csv").splitlines())
    rows = [(row["mlm_loss"], row["nsp_loss"]) for row in table if row["part"] == "training"]
    assert len(rows) == STEPS
    return rows


def test_after_a_run_on_ones_own_text_every_tab_shows_its_words_and_a_link_says_what_is_missing(
    visit: Callable[..., Page],
) -> None:
    page = visit()
    for number, (letter, sentences) in enumerate(TEXTS.items(), 1):
        open_tab(page, "Train")
        paste(page, "\n".join(sentences))
        train(page)
        expect(shown_model(page)).to_have_text(f"Run {number} · Your text")
        for tab, words in WORDS.items():
            open_tab(page, tab)
            expect(words_of(page).first).to_have_text(re.compile(f"^{letter}+$"))
            expect(page.locator(words)).to_contain_text(re.compile(letter))
            assert page.locator("#question .is-unknown").count() == 0
            panel = page.locator(f"#tab-{tab.lower().replace(' ', '-')}")
            expect(panel).not_to_contain_text("[UNK]")
            expect(page.locator("#unknown-words")).to_be_empty()
        wait_for_question(page, text=sentences[0], pair=sentences[1])
    link = link_of(page)
    said = page.locator(".b-message", has_text="Download yours under Models and send the file too")
    expect_seen(said, "It was trained on a text that a link does not carry: Your text.", in_window=True)
    other = visit(at=link)
    expect(other.locator("#link-notice")).to_contain_text("It was trained on a text that a link does not carry")
    expect(shown_model(other)).to_have_text("romeo-juliet")
    expect(other.locator("#steps")).to_contain_text(re.compile("[A-Za-z]"))
    expect(other.locator("#link-notice")).to_be_in_viewport(ratio=1)
    expect(other.get_by_role("tab", name="Step by step")).to_have_attribute("aria-selected", "true")


def test_a_link_that_compares_with_a_model_of_ones_own_says_that_it_lacks_it(page: Page) -> None:
    train(page)
    run = page.locator("#model-picker").input_value()
    show(page, "masked-words", model="romeo-juliet")
    page.locator("#copy-link").click()
    expect(page.locator("#copy-link")).to_have_text("Copied")
    expect(page.locator(".b-message")).to_have_count(0)
    compare_with(page, run)
    page.locator("#copy-link").click()
    name = "Run 1 · Romeo and Juliet, quick"
    expect_seen(
        page.locator(".b-message"), f"A link does not carry your model to compare with: {name}.", in_window=True
    )


def test_a_link_to_a_model_that_was_opened_says_what_is_missing(visit: Callable[..., Page], tmp_path: Path) -> None:
    path = tmp_path / "of-mine.zip"
    pack(functools.partial(save_to_share, load_checkpoint("romeo-juliet")), path)
    page = visit()
    page.get_by_role("button", name="Help").click()
    expect_seen(page.get_by_text("except for what it cannot carry"), "a model that you trained", in_window=True)
    page.keyboard.press("Escape")
    open_tab(page, "Models")
    page.locator("#model-upload input[type=file]").set_input_files(path)
    expect(shown_model(page)).to_have_text("of-mine")
    link = link_of(page)
    said = page.locator(".b-message", has_text="Download yours under Models and send the file too")
    expect_seen(said, "which a link does not carry: of-mine.", in_window=True)
    other = visit(at=link)
    expect_seen(other.locator("#link-notice"), "which a link does not carry: of-mine.", in_window=True)
    expect(shown_model(other)).to_have_text("romeo-juliet")


def test_the_tab_of_a_link_opens_before_the_server_answers_and_every_press_of_another_counts(page: Page) -> None:
    show(page, "compare", text="where are you")
    wait_for_question(page, tab="compare", text="where are you")
    train = page.locator("#tab-train-button")
    with late_answers(page):
        page.reload()
        expect(page.locator("#tab-compare-button")).to_have_attribute("aria-selected", "true")
        expect(page.locator("#tab-compare-button")).to_be_visible()
        page.wait_for_timeout(500)
        wait_for_question(page, tab="compare", text="where are you")  # what is not yet taken stays in the address
        train.click()
        expect(train).to_have_attribute("aria-selected", "true")
    expect(page.locator("#start")).to_be_enabled()
    page.wait_for_load_state("networkidle")
    expect(train).to_have_attribute("aria-selected", "true")
    expect_seen(page.locator("#start"), "Start", in_window=True)
    wait_for_question(page, tab=None, text="where are you")


def test_a_link_to_no_tab_hides_nothing(page: Page) -> None:
    for tab in ("", "nosuch"):
        page.goto(f"{page.url.split('#')[0]}#tab={tab}")
        page.reload()
        open_tab(page, "Attention")
        expect_seen(page.get_by_role("heading", name="All heads"), "All heads", in_window=True)
