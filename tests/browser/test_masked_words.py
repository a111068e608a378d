"""Masked words by hand: one press and two, two sentences, guesses put in, the closer views."""

import pytest
from browser_steps import open_tab
from playwright.sync_api import Locator, Page, expect


@pytest.fixture
def words(page: Page) -> Locator:
    open_tab(page, "Masked words")
    expect(page.locator("#masked-guesses section")).to_have_count(1)
    return page.get_by_role("group", name="Words to mask").get_by_role("button")


def test_a_press_masks_a_word_and_two_quick_ones_only_it(page: Page, words: Locator) -> None:
    pressed = page.locator("#masked-words button[aria-pressed=true]")
    words.filter(has_text="name").click()
    expect(pressed).to_have_text(["name", "Juliet"])
    words.filter(has_text="name").press("Enter")
    expect(pressed).to_have_text(["Juliet"])
    page.locator("#masked-pair textarea").fill("How are you?")
    expect(words).to_have_count(13)
    words.filter(has_text="are").dblclick()
    expect(pressed).to_have_text(["are"])
    expect(page.locator("#masked-guesses h3")).to_have_text(["Mask 1 for are"])


def test_a_guess_is_put_into_the_sentence(page: Page, words: Locator) -> None:
    page.locator("#masked-own textarea, #masked-own input").first.fill("romeo")
    expect(page.locator("#masked-guesses")).to_contain_text("My guess romeo")
    put = page.locator("#masked-guesses section button").last
    token = put.get_attribute("aria-label").split()[1]
    put.click()
    sentence = f"Hello, Romeo My name is {token}. Nice to meet you."
    expect(page.locator("#masked-sentence textarea")).to_have_value(sentence)
    expect(words.nth(5)).to_have_text(token)
    expect(page.locator("#masked-guesses section")).to_have_count(0)


def test_each_closer_view_answers(page: Page, words: Locator) -> None:
    closer = page.locator("#masked-closer")
    expect(closer.get_by_role("rowheader")).to_have_text(["Embeddings", "Layer 1", "Layer 2"])
    words.filter(has_text="name").click()
    closer.get_by_role("button", name="Mask 2: Juliet").click()
    expect(closer.get_by_role("columnheader").nth(2)).to_have_text("Rank of juliet")
    page.get_by_role("radio", name="Which words mattered").check()
    expect(closer).to_contain_text("With these masks, Juliet has")
    page.get_by_role("radio", name="Sweep").check()
    closer.get_by_role("button", name="Romeo").click()
    expect(closer).to_contain_text("Guesses for romeo")
