"""Words in context, views as files, and a model by name, in a real browser."""

import csv
import json
import re
from pathlib import Path

import pytest
from browser_steps import FIRST, download, expect_seen, late_answers, letters, picture, show, shown_model, words_of
from playwright.sync_api import Page, expect

MARKUP = "<img src=x onerror=document.title='gone'> $x$ romeo"


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Page:
    return shared


def test_a_word_is_compared_in_several_sentences(page: Page) -> None:
    show(page, "words-in-context", **FIRST)
    facts, title = page.locator("#context-facts"), page.locator("#context-cosine h3")
    word = page.locator("#context-word input, #context-word textarea")
    expect(facts).to_contain_text("Occurrences2")
    expect(word).to_have_value("juliet")
    expect(title).to_have_text("Layer 2: cosine similarity")
    expect_seen(page.locator("#context-level"), "Layer 2")
    expect_seen(facts, re.compile(r"Word vectors alone1\.00Embeddings0\.\d\dLast layer0\.\d\d"))
    expect_seen(page.locator("#sentence-hint"), "The sentences below are compared.")
    page.locator("#context-sentences textarea").fill("Thank you juliet\nThank you, good juliet\nI am juliet")
    expect_seen(facts, "Occurrences3", in_window=True)
    expect(word).to_have_value("juliet")
    page.locator("#context-sentences textarea").fill("Thank you\nThank you")
    expect(word).to_have_value("thank")
    show(page, "words-in-context", **FIRST)
    words_of(page).filter(has_text="Romeo").first.click()
    expect(facts).to_contain_text("Occurrences3")
    expect(word).to_have_value("Romeo")
    expect(page.locator("#context-cosine .b-map-word")).to_have_count(6)
    page.locator("#context-level input").fill("0")
    expect(title).to_have_text("Word vectors alone: cosine similarity")
    expect_seen(page.locator("#context-level"), "Word vectors alone")
    expect(facts).to_contain_text("Mean similarity1.00")
    page.locator("#context-sentences textarea").fill(f"Thank you Romeo\n{MARKUP}")
    expect(facts).to_contain_text("Occurrences2")
    expect(page.locator("#context-cosine .b-map-word title").nth(1)).to_contain_text("e'>")
    assert page.locator("#context-cosine img").count() == 0
    assert page.title() == "Balcony"
    word.fill("zebra")
    expect(facts).to_contain_text("is in none of the sentences")
    expect(title).to_be_hidden()
    word.fill("")
    expect(facts).to_contain_text("Type a word")


def test_whole_sentences_are_compared_with_each_other(page: Page) -> None:
    show(page, "words-in-context", **FIRST)
    facts, sentences = page.locator("#context-facts"), page.locator("#context-sentences textarea")
    expect_seen(facts, "Occurrences2")
    top, below = (page.locator(part).bounding_box() for part in ("#context-sentences", "#context-cosine"))
    assert top is not None
    assert below is not None
    assert top["y"] < below["y"], "inputs first"
    page.get_by_role("radio", name="Whole sentences, mean of all tokens").check()
    expect_seen(facts, "Sentences2")
    expect(page.locator("#context-word")).to_be_hidden()
    sentences.fill("Thank you Romeo\nhow are you\nmy name is romeo")
    expect_seen(facts, "Sentences3")
    before = facts.inner_text()
    page.get_by_role("radio", name="Whole sentences, vector at [CLS]").check()
    expect(facts).not_to_have_text(before)
    page.get_by_role("radio", name="One word").check()
    expect(page.locator("#context-word")).to_be_visible()


def test_a_list_of_words_stands_in_the_place_of_one(page: Page, tmp_path: Path) -> None:
    show(page, "masked-words", **FIRST)
    closer, words = page.locator("#masked-closer"), page.locator("#masked-swaps textarea")
    expect(closer.locator("table")).to_have_count(1)
    expect(words).to_be_hidden()
    page.get_by_role("radio", name="Other words in one place").check()
    closer.get_by_role("button", name="name", exact=True).click()
    expect_seen(closer, "in the place of “name”")
    words.fill("name\nromeo\nis my")
    expect(closer.get_by_role("rowheader")).to_have_text(["name", "romeo", "is my"])
    page.locator("#masked-answers textarea").fill("juliet\nromeo")
    expect(closer.get_by_role("columnheader")).to_have_text(["Word there", "juliet", "romeo"])
    rows = list(csv.DictReader(download(page, "#masked-closer-download-csv", tmp_path, "closer-view.csv").splitlines()))
    assert [(row["word"], row["answer"]) for row in rows[1:3]] == [("name", "romeo"), ("romeo", "juliet")]
    shown = closer.locator("tbody tr").first.locator("td").first
    expect_seen(shown, f"{100 * float(rows[0]['probability']):.0f}%")


def test_what_is_typed_stays_when_an_example_arrives_late(page: Page) -> None:
    show(page, "masked-words", **FIRST)
    expect(page.locator("#masked-guesses section")).to_have_count(1)
    word, sentences = (page.locator(f"#context-{box}").locator("input, textarea") for box in ("word", "sentences"))
    with late_answers(page):
        page.get_by_role("tab", name="Words in context").click()
        page.wait_for_timeout(200)
        word.fill("romeo")
        sentences.fill("Romeo is here\nI am Romeo")
    expect(page.locator("#context-facts")).to_contain_text("Occurrences2")
    expect(page.locator("#context-cosine .b-map-word title").first).to_have_text("1 Romeo is here")
    expect(word).to_have_value("romeo")
    expect(sentences).to_have_value("Romeo is here\nI am Romeo")
    word.fill("here")
    expect(page.locator("#context-facts")).to_contain_text("Occurrences1")


def test_guesses_and_attention_are_downloaded(page: Page, tmp_path: Path) -> None:
    show(page, "masked-words", **FIRST)
    expect(page.locator("#masked-guesses section")).to_have_count(1)
    guesses = json.loads(download(page, "#masked-download-json", tmp_path, "guesses.json"))
    assert guesses["sentences"] == [[FIRST["text"]], ["Hello, Romeo My name is ", 0, ". Nice to meet you."]]
    [mask] = guesses["masks"]
    rows = list(csv.DictReader(download(page, "#masked-download-csv", tmp_path, "guesses.csv").splitlines()))
    assert [row["token"] for row in rows] == [token for token, _ in mask["pieces"][0]["guesses"]]
    shown = letters(picture(page, "#masked-download-png", "guesses.png"))
    shown = shown[shown.index("Mask 1 for") :]  # below the sentences
    assert shown[1] == "Juliet"
    assert [row["token"] for row in rows] == [word for word in shown if word in {row["token"] for row in rows}]
    show(page, "attention", text="thank you romeo")
    expect(page.locator("#attention-map .b-map-word")).to_have_count(10)
    maps = json.loads(download(page, "#attention-download-json", tmp_path, "attention.json"))
    assert maps["tokens"] == ["[CLS]", "[MASK]", "you", "romeo", "[SEP]"], "what is hidden is hidden here too"
    assert len(download(page, "#attention-download-csv", tmp_path, "attention.csv").splitlines()) == 1 + 2 * 4 * 25


def test_a_model_is_fetched_by_name_and_a_dead_network_is_reported(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants, hf_api

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hf_api.api, "endpoint", "http://127.0.0.1:9")
    show(page, "models")
    said, name = page.locator("#messages .b-note").last, page.locator("#hub-name input, #hub-name textarea")
    page.get_by_text("Parameters by name and shape").click()
    table = page.locator("#parameters")
    expect(table.get_by_role("row", name="bert.encoder.layer.1.output.dense.weight")).to_contain_text("48 × 964,608")
    page.locator("#hub-fetch").click()
    expect_seen(said, "Type the name of a model first.")
    name.fill("google-bert/../../etc")
    page.locator("#hub-fetch").click()
    expect_seen(said, "is not a model name of the Hub", in_window=True)
    expect(page.locator("#model-facts dl")).to_be_visible()  # the shown model is still described
    name.fill("google-bert/bert-base-uncased")
    name.press("Enter")
    expect_seen(said, "google-bert/bert-base-uncased was not downloaded (", in_window=True)
    expect(shown_model(page)).to_have_text("romeo-juliet")
    expect(page.locator("#hub-fetch")).to_be_enabled()
