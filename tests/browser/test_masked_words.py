"""Masked words by hand: one press and two, two sentences, a guess of one's own, the closer views."""

import math
import re

import pytest
from browser_steps import (
    FIRST,
    expect_seen,
    follow_link,
    late_answers,
    show,
    type_sentence,
    wait_for_answer,
    wait_for_question,
    words_of,
)
from playwright.sync_api import Locator, Page, expect

from balcony.masked_words import writing


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Page:
    show(shared, "masked-words", **FIRST)
    expect(shared.locator("#masked-guesses h3")).to_have_text(["Mask 1 for Juliet"])
    wait_for_answer(shared.locator("#masked-guesses"))
    return shared


@pytest.fixture
def words(page: Page) -> Locator:
    return words_of(page)


def test_a_press_masks_a_word_and_another_shows_it(page: Page, words: Locator) -> None:
    pressed = page.locator("#question .b-word[aria-pressed=true]")
    words.filter(has_text="name").click()
    expect(pressed).to_have_text(["name", "Juliet"])
    words.filter(has_text="name").press("Enter")
    expect(pressed).to_have_text(["Juliet"])
    type_sentence(page, "How are you?", "pair")
    expect(words).to_have_count(10)
    expect(pressed).to_have_count(0)
    words.filter(has_text="are").last.click()
    expect(pressed).to_have_text(["are"])
    expect(page.locator("#masked-guesses h3")).to_have_text(["Mask 1 for are"])


def test_a_word_pressed_while_the_words_are_read_is_hidden(page: Page, words: Locator) -> None:
    with late_answers(page):
        follow_link(page, "masked-words", **FIRST | {"hidden": "3"})
        words.filter(has_text="name").click()
    expect(page.locator("#question .b-word[aria-pressed=true]")).to_have_text(["you", "name"])
    expect(page.locator("#masked-guesses h3")).to_have_text(["Mask 1 for you", "Mask 2 for name"])


def test_escape_gives_an_edit_up(page: Page, words: Locator) -> None:
    editor = page.locator("#sentence-pair")
    for delay in (0, 900):  # before the page has asked about the new words, and after it
        page.locator("#edit-pair").click()
        editor.fill("Great.")
        page.wait_for_timeout(delay)
        editor.press("Escape")
        expect(editor).to_be_hidden()
        expect(page.locator("#edit-pair")).to_be_focused()
        wait_for_question(page, **FIRST)
        expect(page.locator("#masked-guesses h3")).to_have_text(["Mask 1 for Juliet"])
        expect(words.filter(has_text="Juliet")).to_have_attribute("aria-pressed", "true")
    page.locator("#edit-pair").click()
    expect(editor).to_have_value(FIRST["pair"])


def test_swap_moves_the_hidden_words_with_their_sentences(page: Page, words: Locator) -> None:
    words.filter(has_text="how").click()
    pressed = page.locator("#question .b-word[aria-pressed=true]")
    expect(pressed).to_have_text(["how", "Juliet"])
    page.locator("#swap").click()
    wait_for_question(page, text=FIRST["pair"], pair=FIRST["text"])
    expect(pressed).to_have_text(["Juliet", "how"])
    expect(page.locator("#masked-guesses h3")).to_have_text(["Mask 1 for Juliet", "Mask 2 for how"])
    page.locator("#swap").click()
    expect(pressed).to_have_text(["how", "Juliet"])


def test_swap_of_sentences_of_one_length_hides_the_same_words(page: Page, words: Locator) -> None:
    show(page, "masked-words", text="Hello Romeo", pair="Great Juliet", hidden="1,3")
    pressed = page.locator("#question .b-word[aria-pressed=true]")
    expect(pressed).to_have_text(["Romeo", "Juliet"])
    page.locator("#swap").click()
    expect(words).to_have_text(["Great", "Juliet", "Hello", "Romeo"])
    expect(pressed).to_have_text(["Juliet", "Romeo"])


def test_a_guess_of_ones_own_and_heads_that_are_off(page: Page, words: Locator) -> None:
    own = page.locator("#masked-own textarea, #masked-own input").first
    own.fill("romeo")
    expect(page.locator("#masked-guesses")).to_contain_text("My guess romeo")
    words.filter(has_text="name").click()
    expect(own).to_have_value("")  # it was for the words that were hidden
    words.filter(has_text="name").click()
    expect(page.locator("#masked-guesses h3")).to_have_text(["Mask 1 for Juliet"])
    numbers = page.locator("#masked-guesses .b-number")
    before = numbers.all_inner_texts()
    show(page, "masked-words", **FIRST | {"off": "0.0,0.1,1.0,1.1"})
    expect_seen(
        page.locator("#masked-guesses"),
        "4 heads are off here, because you switched them off under Attention.",
        in_window=True,
    )
    assert numbers.all_inner_texts() != before
    page.locator("#masked-guesses").get_by_role("button", name="Switch on").click()
    expect(numbers).to_have_text(before)


def test_guesses_stand_in_the_sentence_and_the_hidden_word_has_its_rank(page: Page, words: Locator) -> None:
    guesses = page.locator("#masked-guesses")
    best = guesses.locator("bdi.b-guess-word").first.text_content() or ""
    expect_seen(guesses.locator(".b-filled").nth(1), f"My name is {best} ")
    hidden = guesses.locator(".b-guess.is-own")
    expect_seen(hidden, re.compile(r"juliet.*the hidden word(, rank \d+)?"))
    assert ("✓" in hidden.inner_text()) == (best == "juliet") == guesses.locator("mark [role=img]").is_visible()


def test_a_word_that_the_vocabulary_lacks_is_named_with_the_sentence(page: Page, words: Locator) -> None:
    expect(page.locator("#unknown-words")).to_be_hidden()
    type_sentence(page, "Hello Zyzzyva")
    expect_seen(page.locator("#unknown-words"), "reads each as [UNK]: Zyzzyva.")
    words.filter(has_text="Zyzzyva").click()
    first = page.locator("#masked-guesses section").first
    expect_seen(first, "The vocabulary of this model lacks this word")
    expect(first.locator(".is-own")).to_have_count(0)


def test_a_pressed_guess_shows_its_path(page: Page) -> None:
    closer = page.locator("#masked-closer")
    page.get_by_role("button", name=re.compile("^Look closer at")).nth(1).click()
    token = page.locator("#masked-guesses bdi.b-guess-word").nth(1).text_content()
    expect(closer.get_by_role("columnheader").nth(1)).to_have_text(f"Rank of {token}")
    said = re.compile(f"If “{token}” is right, the loss is −ln (.*) = (.*); a uniform guess has ln 41 = 3.7136")
    expect_seen(closer, said)
    p, loss = re.findall(said, closer.inner_text())[0]
    assert float(loss) == pytest.approx(-math.log(float(p)), abs=1e-3)
    closer.get_by_role("button", name="Follow it step by step").click()
    wait_for_question(page, tab="step-by-step", stage="layers", guess=token)
    expect(page.locator("#steps h3").first).to_have_text("9 All layers")


def test_the_open_view_follows_a_pressed_guess(page: Page) -> None:
    closer, guess = page.locator("#masked-closer"), page.locator("#masked-guesses .b-path").nth(1)
    token = guess.inner_text()
    page.get_by_role("radio", name="Which words it depends on").check()
    expect_seen(closer, "Explained: juliet, ln p = ")
    guess.click()
    expect_seen(closer, f"Explained: {token}, ln p = ")
    expect(page.get_by_role("radio", name="Which words it depends on")).to_be_checked()
    page.get_by_role("radio", name="Other words in one place").check()
    expect(closer.get_by_role("columnheader", name=token, exact=True)).to_be_visible()
    closer.get_by_role("button", name="Patch by hand").click()
    expect(page.get_by_text("Below: carry a state of another text")).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("heading", name="Patch by hand")).to_be_visible()


def test_explanations_are_tried_on_the_guess_and_on_the_text(page: Page) -> None:
    closer = page.locator("#masked-closer")
    page.get_by_role("radio", name="Which words it depends on").check()
    expect_seen(closer.get_by_text("Better than chance here"), "Left out", in_window=True)
    shares = closer.get_by_role("region", name="Shares of the words")
    expect(shares.get_by_role("columnheader")).to_have_count(6)
    for method in range(5):
        closer.get_by_role("combobox", name="Sorted by").select_option(index=method + 1)
        texts = shares.locator(f"tbody tr:not(:last-child) td:nth-child({method + 2})").all_inner_texts()
        numbers = [float(text.replace("−", "-").strip("%")) for text in texts]
        assert numbers == sorted(numbers, reverse=True), method
        assert len(numbers) > 10
    closer.get_by_role("combobox", name="Sorted by").select_option("The text")
    repeated = shares.locator("tbody tr:has(sup) > :first-child").all_inner_texts()
    assert repeated == ["Hello1", "you1", "Romeo1", "Hello2", "Romeo2", "you2"]
    trial = closer.get_by_role("region", name="The trial")
    expect_seen(trial.get_by_role("row", name="Left out"), "20 of 20")
    expect(closer.locator(".js-plotly-plot .js-line")).to_have_count(25)
    closer.get_by_role("button", name="Try 20 sentences of the text").click()
    expect_seen(closer, re.compile(r"Better than chance over \d+ sentences: .*Left out"))
    expect_seen(trial.get_by_role("row", name="Left out"), re.compile(r"\+\d\.\d\d ± 0\.\d\d"))


def test_each_closer_view_answers(page: Page, words: Locator) -> None:
    closer = page.locator("#masked-closer")
    expect(closer.get_by_role("rowheader")).to_have_text(["Embeddings", "Layer 1", "Layer 2"])
    words.filter(has_text="name").click()
    closer.get_by_role("button", name="Mask 2: Juliet").click()
    expect(closer.get_by_role("columnheader").nth(1)).to_have_text("Rank of juliet")
    page.get_by_role("radio", name="Every word once").check()
    closer.get_by_role("button", name="Romeo").first.click()
    expect(closer).to_contain_text("Guesses for romeo")


def test_the_model_writes_and_a_link_repeats_it(page: Page, words: Locator, monkeypatch: pytest.MonkeyPatch) -> None:
    closer = page.locator("#masked-closer")
    page.get_by_role("radio", name="Write by unmasking").check()
    closer.get_by_role("button", name="Begin with [MASK]s alone").click()
    wait_for_question(page, text="[MASK]", pair=None, hidden="", view="write")
    page.locator("#masked-length input").fill("4")
    round_slider, written = closer.locator("input[type=range]"), closer.locator(".b-seen")
    expect(round_slider).to_have_attribute("aria-valuetext", "5 of 5")
    expect(written).to_have_count(5)
    expect(closer.locator(".is-again")).to_have_count(0)
    sentence = closer.locator(".b-filled").inner_text()
    assert sentence.split() == closer.locator(".b-seen bdi").all_inner_texts()
    expect_seen(closer, re.compile("stand.* so in the training text|stand word for word in the training text"))
    round_slider.fill("1")
    expect(closer.locator(".b-seen.is-again")).to_have_count(4)
    expect_seen(written.first, re.compile("%.*1$", re.DOTALL), in_window=True)
    round_slider.fill("0")
    expect(closer.locator(".b-seen.is-again")).to_have_text(["[MASK]"] * 5)
    page.locator("#masked-temperature select").select_option("2")
    expect_seen(closer, "Seed 0")
    closer.get_by_role("button", name="Draw again").click()
    wait_for_question(page, seed="1", temperature="20", length="4")
    expect_seen(closer, "Seed 1")
    drawn = closer.locator(".b-filled").inner_text()
    show(page, "masked-words", text="[MASK]", hidden="", view="write", length="4", temperature="20", seed="2")
    expect_seen(closer, "Seed 2")
    show(page, "masked-words", text="[MASK]", hidden="", view="write", length="4", temperature="20", seed="1")
    expect_seen(closer, "Seed 1")
    expect(closer.locator(".b-filled")).to_have_text(drawn)
    closer.get_by_role("button", name="Put it into the sentences").click()
    wait_for_question(page, text=drawn, hidden="")
    expect(words).to_have_text(drawn.split())
    monkeypatch.setattr(writing, "training_text", lambda asked: None)
    show(page, "masked-words", text="[MASK]", hidden="", view="write", length="5")
    expect_seen(closer, "The text that this model was trained on is not here")
    expect(closer.locator(".is-copied")).to_have_count(0)  # nothing is marked that could not be searched
