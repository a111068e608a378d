"""Words that resemble markup, templates or formulas, or run leftward, stay literal in every view and file."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_steps import (
    Tabs,
    change_setting,
    download,
    expect_seen,
    letters,
    open_tab,
    paste,
    picture,
    press_save,
    start,
    type_sentence,
    wait_for_question,
    wait_for_status,
    words_of,
)
from playwright.sync_api import Browser, Page, expect

ODD = ["<b>", "${1}", "$x$", "=1+1", "שלום", "你", "&amp;", "{{7}}"]
TEXT = " ".join(ODD)


@pytest.fixture(scope="module")
def odd(tabs: Tabs) -> Iterator[Page]:
    """A page that shows a model which learned the odd words, for all tests of this module."""
    tabs.complaints.clear()
    with tabs.visits() as visit:
        page = visit()
        paste(page, "\n".join(f"{word} goes on {word} again" for word in ODD))
        change_setting(page, "steps", "20")
        start(page)
        wait_for_status(page, "Finished")
        literal(page, "#run-guesses")
        assert tabs.complaints == []
        yield page


def literal(page: Page, part: str) -> str:
    """The text of a part of the page, after a check that nothing in it became markup."""
    shown = page.locator(part)
    assert shown.locator("b:not(.b-legend b), img, mjx-container, .MathJax").count() == 0
    return shown.evaluate("part => part.textContent")


def cells(table: str) -> set[str]:
    """The texts of a CSV as they were before a formula was defused."""
    rows = list(csv.reader(io.StringIO(table)))
    return {cell.removeprefix("'") for row in rows for cell in row}


def python_of(page: Page, export: str) -> str:
    press_save(page, f"#{export}-py")
    expect(page.locator(f"#{export} pre")).to_contain_text("load_checkpoint")
    code = page.locator(f"#{export} pre").inner_text()
    page.keyboard.press("Escape")
    return code


def test_masked_words(odd: Page, tmp_path: Path, complaints: list[str]) -> None:
    open_tab(odd, "Masked words")
    type_sentence(odd, "", "pair")
    type_sentence(odd, f"{TEXT} [MASK]")
    expect(odd.locator("#sentence-text")).to_have_css("unicode-bidi", "plaintext")  # so that Hebrew runs from the right
    words = words_of(odd)
    expect(words).to_have_text(ODD)
    literal(odd, "#question")
    words.first.click()
    expect(odd.locator("#masked-guesses section")).to_have_count(2)
    expect(odd.locator("#masked-guesses h3").first).to_have_text("Mask 1 for <b>")
    assert "never learned" not in literal(odd, "#question")
    guesses = json.loads(download(odd, "#masked-download-json", tmp_path, "guesses.json"))
    assert guesses["sentences"] == [["", 0, f" {TEXT.removeprefix('<b> ')} ", 1, ""]]
    shown = letters(picture(odd, "#masked-download-png", "guesses.png"))
    assert all(token in shown for mask in guesses["masks"] for token, _ in mask["pieces"][0]["guesses"])
    assert repr(f"[MASK] {TEXT.removeprefix('<b> ')} [MASK]") in python_of(odd, "masked-download")
    expect(odd.locator("#masked-closer th").nth(1)).to_have_text("Rank of <b>")
    kinds = {"Which words it depends on": "tbody th bdi", "Every word once": ".b-seen bdi"}
    for kind, words in kinds.items():
        odd.get_by_role("radio", name=kind).check()
        shown = odd.locator(f"#masked-closer {words}")
        if kind == "Every word once":
            expect(shown).to_have_text(ODD)
        else:
            odd.get_by_role("combobox", name="Sorted by").select_option("The text")
            expect(shown).to_have_text(ODD[1:])
        assert set(ODD[1:]) <= cells(download(odd, "#masked-closer-download-csv", tmp_path, "closer-view.csv"))
    odd.locator("#masked-closer .b-seen").nth(1).click()
    expect(odd.locator("#masked-closer .b-rivals")).to_contain_text("Guesses for ${1}")
    literal(odd, "#masked-closer")
    assert repr(f"{TEXT} [MASK]") in python_of(odd, "masked-closer-download")


def test_next_sentence(odd: Page, tmp_path: Path, complaints: list[str]) -> None:
    open_tab(odd, "Next sentence")
    type_sentence(odd, TEXT)
    type_sentence(odd, "שלום <b>", "pair")
    assert repr(TEXT) in python_of(odd, "next-download")
    sentences = [f"{word} goes on {word} again" for word in ODD]
    titles = odd.locator("#next-matrix .b-map-word title").all_text_contents()
    assert titles[: len(ODD)] == [f"{number} {sentence}" for number, sentence in enumerate(sentences, 1)]
    matrix = odd.locator("#next-matrix").get_by_role("application")
    matrix.focus()
    odd.keyboard.press("ArrowDown")
    odd.keyboard.press("ArrowRight")
    expect(odd.locator("#next-matrix .b-readout bdi")).to_have_text(sentences[:2])
    odd.keyboard.press("Enter")
    wait_for_question(odd, text=sentences[0], pair=sentences[1])
    assert set(sentences) <= cells(download(odd, "#next-matrix-download-csv", tmp_path, "matrix.csv"))
    assert sentences[2] in " ".join(letters(picture(odd, "#next-matrix-download-png", "matrix.png")))
    assert repr(sentences[1]) in python_of(odd, "next-matrix-download")
    for part in ("#next-verdict", "#next-matrices"):
        literal(odd, part)


def test_attention(odd: Page, browser: Browser, tmp_path: Path, complaints: list[str]) -> None:
    open_tab(odd, "Attention")
    type_sentence(odd, "", "pair")
    type_sentence(odd, f"{TEXT} [MASK]")
    words = odd.locator("#attention-map .b-map-word")
    expect(words.filter(has_text="שלום")).to_have_count(2)
    maps = json.loads(download(odd, "#attention-download-json", tmp_path, "attention.json"))
    tokens = maps["tokens"]
    assert tokens == ["[CLS]", *ODD, "[MASK]", "[SEP]"]
    shown = words.locator("title").evaluate_all("all => all.map(title => title.textContent)")
    assert shown == tokens + tokens
    assert letters(picture(odd, "#attention-download-png", "attention.png")).count("<b>") == 2
    odd.locator("#attention-map").get_by_role("tab", name="Lines").click()
    assert odd.locator("#attention-map .is-left bdi").all_text_contents() == tokens
    literal(odd, "#attention-stage")
    assert repr(f"{TEXT} [MASK]") in python_of(odd, "attention-download")

    file = tmp_path / "attention.html"
    download(odd, "#attention-download-html", tmp_path, file.name)
    offline = browser.new_context(offline=True)
    errors: list[str] = []
    alone = offline.new_page()
    alone.on("pageerror", lambda error: errors.append(str(error)))
    alone.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    alone.goto(file.as_uri())
    assert alone.locator(".is-left bdi").all_text_contents() == tokens
    alone.get_by_role("tab", name="One head").click()
    titles = alone.locator(".b-map-word title").evaluate_all("all => all.map(title => title.textContent)")
    assert titles == tokens + tokens
    alone.get_by_role("button", name="Layer 2, head 2").click()
    expect(alone.locator(".b-map-title")).to_have_text("Layer 2, head 2")
    assert errors == []
    offline.close()


def test_heads_that_are_switched_off(odd: Page, tmp_path: Path, complaints: list[str]) -> None:
    open_tab(odd, "Attention")
    type_sentence(odd, "", "pair")  # first, so that the words of both are never asked for
    type_sentence(odd, TEXT)
    expect(words_of(odd)).to_have_text(ODD)
    probability = odd.locator("#attention-switches [role=status] span").first
    expect(probability).to_contain_text("שלום")  # in the middle, as no word is hidden
    for odd_word in ("<b>", "$x$", "=1+1"):
        for pressed in odd.locator("#question .b-word[aria-pressed=true]").all():
            pressed.click()
        words_of(odd).nth(ODD.index(odd_word)).click()
        expect_seen(probability, f"Probability of “{odd_word}” at its position: ")
    odd.get_by_role("combobox", name="Colour the heads by").select_option("word")
    effects = json.loads(download(odd, "#attention-download-json", tmp_path, "attention.json"))
    assert effects["answer"] == "=1+1"
    literal(odd, "#attention-switches")


def test_words_in_context(odd: Page, tmp_path: Path, complaints: list[str]) -> None:
    open_tab(odd, "Words in context")
    words = odd.locator("#context-cosine .b-map-word title")
    expect(words).not_to_have_count(0)  # the example
    odd.locator("#context-word input, #context-word textarea").fill("${1}")
    expect(words.first).to_contain_text("${1}")  # its sentences are filled in; later they would replace the next ones
    odd.locator("#context-sentences textarea").fill("<b> ${1} שלום\n$x$ ${1} 你好")
    expect(words).to_have_text(["1 <b> ${1} שלום", "2 $x$ ${1} 你好", "1", "2"])
    assert {"<b> ${1} שלום", "$x$ ${1} 你好"} <= cells(
        download(odd, "#context-download-csv", tmp_path, "similarities.csv")
    )
    assert "<b> ${1} שלום" in " ".join(letters(picture(odd, "#context-download-png", "similarities.png"))).replace(
        "\u200b", ""
    )
    assert "'${1}'" in python_of(odd, "context-download")
