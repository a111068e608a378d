"""Bad input gets one sentence of explanation and loses nothing; typed text appears letter by letter."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from browser_steps import (
    FIRST,
    change_setting,
    choose_source,
    expect_seen,
    open_tab,
    paste,
    press_save,
    show,
    shown_model,
    start,
    type_sentence,
    wait_for_status,
    words_of,
)
from playwright.sync_api import Page, Route, expect

STRANGE = ["<b>bold</b>", "${1+1}", "$x$", "{{7*7}}", "שלום", "&amp;"]


@pytest.fixture
def page(shared: Page, complaints: list[str]) -> Page:
    show(shared, "train", **FIRST)
    return shared


def test_a_binary_file_and_one_in_an_old_encoding(page: Page, tmp_path: Path) -> None:
    binary, old = tmp_path / "picture.txt", tmp_path / "old.txt"
    binary.write_bytes(bytes(range(256)))
    old.write_bytes("他在北京 的大学\n每天 都要开会\n".encode("gbk"))
    press_save(page, "#curves-csv")
    expect_seen(page.locator("#messages").get_by_role("alert"), "There is no run yet; press Start.")
    choose_source(page, "Upload a text file")
    alert, encoding = page.locator("#preview").get_by_role("alert"), page.locator("#encoding")
    expect(page.locator("#preview")).to_contain_text("Choose a text file first.")
    expect(alert).to_have_count(0)
    page.locator("#uploaded input[type=file]").set_input_files(binary)
    expect(alert).to_contain_text("not plain text")
    expect(encoding).to_be_visible()  # it may be UTF-16 without its mark
    page.locator("#uploaded").get_by_label("Clear").click()
    page.locator("#uploaded input[type=file]").set_input_files(old)
    chosen = encoding.get_by_role("combobox", name="Encoding")
    expect(page.locator("#preview")).to_contain_text("Read as gbk.")
    expect(chosen.locator("option:checked")).to_have_text("gbk")
    page.locator("#uploaded").get_by_label("Clear").click()
    old.write_bytes("Le garçon est allé à l’école très tôt.\nOù est la clé ?\nElle était déjà là.\n".encode("cp1252"))
    page.locator("#uploaded input[type=file]").set_input_files(old)
    expect(page.locator("#preview")).to_contain_text("Read as windows-1252.")
    expect_seen(page.locator("#preview"), "Le garçon est allé à l’école très tôt.")
    chosen.select_option("windows-1251")
    expect_seen(page.locator("#preview"), "Read as windows-1251.")
    expect_seen(page.locator("#preview"), "Le garзon")
    choose_source(page, "The recipe's own text")
    expect(encoding).to_be_hidden()
    choose_source(page, "Upload a text file")
    expect(chosen).to_be_visible()
    expect(chosen.locator("option:checked")).to_have_text("windows-1251")


def test_a_text_is_read_as_the_kind_that_a_person_chooses_beside_it(page: Page) -> None:
    preview = page.locator("#preview")
    kind = preview.get_by_role("combobox", name="Kind of text")
    page.locator("#pasted textarea").fill("The river rises in the\nmountains. It flows\nthrough three lakes.\n")
    expect_seen(preview, "Read as wrapped: the lines up to a blank line are joined")
    expect(preview.get_by_role("listitem")).to_have_text(
        [*["The river rises in the mountains.", "It flows through three lakes."], "The river rises in the mountains."]
    )
    expect(kind.locator("option:checked")).to_have_text("auto")
    kind.select_option("lines")
    expect_seen(preview, "3 sentences")
    expect(preview).not_to_contain_text("Read as")
    page.locator("#pasted textarea").fill("One line\nis here\nand another.\nAnd more.\n")
    expect_seen(preview, "4 sentences")
    expect(kind.locator("option:checked")).to_have_text("lines")
    kind.select_option("pairs")
    expect_seen(preview.get_by_role("alert"), "is not a pair")
    kind.select_option("auto")
    expect_seen(preview, "Read as wrapped: ")


DROP = """(field, bytes) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([new Uint8Array(bytes)], "mine.txt"));
    field.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
}"""


def test_a_text_file_that_is_dropped_on_the_field_is_read(page: Page) -> None:
    field = page.locator("#pasted textarea")
    field.evaluate(DROP, list("First line.\nÉcoute.\nA third one.\n".encode()))
    expect(field).to_have_value("First line.\nÉcoute.\nA third one.\n")
    expect_seen(page.locator("#preview"), "3 sentences")
    field.evaluate(DROP, list("他在北京".encode("gbk")))
    expect_seen(page.locator(".b-message"), "Choose “Upload a text file” for this file", in_window=True)
    expect(field).to_have_value("First line.\nÉcoute.\nA third one.\n")


def test_a_file_that_comes_while_another_is_read_is_read_next(visit: Callable[..., Page], tmp_path: Path) -> None:
    page = visit()
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("One line.\nAnd another.\nThe third.\n")
    second.write_bytes("他在北京 的大学\n每天 都要开会\n".encode("gbk"))
    choose_source(page, "Upload a text file")
    expect_seen(page.locator("#preview"), "Choose a text file first")  # else this may come over what is said next
    asked: list[Route] = []

    def second_is_held(route: Route) -> None:
        # About the file alone; a question about the whole form may come before these or between them.
        if "first.txt" in (route.request.post_data or "") and len(route.request.post_data_json["data"]) == 1:
            asked.append(route)
        if route not in asked[1:2]:  # which asks for the encoding
            route.continue_()

    page.route("**/run/**", second_is_held)
    page.locator("#uploaded input[type=file]").set_input_files(first)
    expect_seen(page.locator("#preview"), "Reading the file…")
    page.locator("#uploaded").get_by_label("Clear").click()
    page.locator("#uploaded input[type=file]").set_input_files(second)
    expect_seen(page.locator("#uploaded"), "second")
    page.wait_for_timeout(500)  # the second file has asked what it can
    asked[1].continue_()
    expect_seen(page.locator("#preview"), "Read as gbk.")


def test_a_recipe_is_chosen_with_the_keyboard(page: Page) -> None:
    recipe, steps = page.get_by_role("combobox", name="Recipe"), page.locator("#setting-steps input")
    before, preview = steps.input_value(), page.locator("#preview").inner_text()
    recipe.focus()
    page.keyboard.press("End")  # a recipe file of one's own
    page.keyboard.press("ArrowUp")
    expect(recipe.locator("option:checked")).not_to_have_text("Romeo and Juliet, quick")
    expect(steps).not_to_have_value(before)
    expect(page.locator("#preview")).not_to_have_text(preview)
    recipe.select_option("Romeo and Juliet, quick")
    expect(steps).to_have_value(before)


def test_words_of_a_right_to_left_script_begin_at_the_right(page: Page) -> None:
    show(page, "masked-words", **FIRST, view="sweep")
    type_sentence(page, "", "pair")
    words = words_of(page)
    for text, begins_left in (("مرحبا كيف حالك", False), ("[MASK] שלום לך", False), ("hello שלום", True)):
        type_sentence(page, text)
        shown = [word for word in text.split() if word != "[MASK]"]
        for line in (words, page.locator("#masked-closer button bdi")):
            expect(line).to_have_text(shown)
            first, second = (line.nth(index).bounding_box() for index in (0, 1))
            assert (first["x"] < second["x"]) == begins_left, text


def test_sentences_that_the_model_cannot_read(page: Page) -> None:
    show(page, "masked-words", **FIRST)
    type_sentence(page, "hello zyzzyva how are [MASK]")
    guesses = page.locator("#masked-guesses")
    expect(guesses).to_contain_text("zyzzyva")
    expect(guesses.locator("h3")).to_have_text(["Mask 1", "Mask 2 for Juliet"])
    type_sentence(page, "hello [MASK] " * 60)
    expect(guesses.get_by_role("alert")).to_contain_text("64")
    type_sentence(page, "hello how are [MASK]")
    expect(guesses.get_by_role("alert")).to_have_count(0)
    expect(guesses.locator("h3")).to_have_text(["Mask 1", "Mask 2 for Juliet"])


def test_words_appear_as_they_were_typed(page: Page) -> None:
    text = " ".join(STRANGE)
    show(page, "masked-words", text=text, hidden="")
    group = page.get_by_role("group", name="Words of: Sentence")
    expect(group.get_by_role("button", name="שלום")).to_be_visible()
    typed = "".join(group.get_by_role("button").all_inner_texts())
    assert all(part in typed for part in ("{1", "bold", "שלום"))
    group.get_by_role("button").first.click()
    expect_seen(page.locator("#unknown-words"), "never learned")
    assert page.locator("#question b, #masked-guesses b").count() == 0


def test_a_zip_without_a_model(page: Page, tmp_path: Path) -> None:
    archive = tmp_path / "<b>holiday.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("beach.jpg", b"sand")
    open_tab(page, "Models")
    expect(shown_model(page)).to_have_text("romeo-juliet")
    page.locator("#model-upload input[type=file]").set_input_files(archive)
    expect(page.locator("#messages").get_by_role("alert")).to_be_visible()
    expect(shown_model(page)).to_have_text("romeo-juliet")
    expect(page.locator("#model-choice input")).to_have_count(1)


def test_a_learning_rate_out_of_range(page: Page) -> None:
    for rate, shown in (("0", "Learning rate is 0"), ("1000000000", "Learning rate is 1000000000")):
        change_setting(page, "learning-rate", rate)
        expect(page.locator("#preview").get_by_role("alert")).to_contain_text(shown)
        page.locator("#start").click()
        expect(page.locator("#run-step")).to_have_text("–")
    change_setting(page, "learning-rate", "0.001")
    expect(page.locator("#preview").get_by_role("alert")).to_have_count(0)


def test_a_late_answer_of_start_leaves_a_newer_preview(page: Page) -> None:
    alert = page.locator("#preview").get_by_role("alert")
    change_setting(page, "learning-rate", "0")
    expect(alert).to_contain_text("Learning rate is 0")
    held: list[Route] = []
    page.route("**/run/**", lambda route: route.continue_() if held else held.append(route))
    page.locator("#start").click()
    change_setting(page, "learning-rate", "0.001")
    expect(alert).to_have_count(0)
    with page.expect_response(lambda response: response.url == held[0].request.url) as answered:
        held[0].continue_()
    answered.value.finished()
    page.wait_for_timeout(500)  # to draw the answer
    expect(alert).to_have_count(0)
    page.unroute_all()


def test_text_that_cannot_be_trained_on(page: Page) -> None:
    alert = page.locator("#preview").get_by_role("alert")
    paste(page, "")
    expect(page.locator("#preview")).to_contain_text("Paste a text first.")
    expect(alert).to_have_count(0)  # nothing is wrong before a person could paste one
    for text, sentence in (("", "Paste a text first"), ("Only one sentence here", "single sentence")):
        if text:
            paste(page, text)
            expect(alert).to_contain_text(sentence)
        page.locator("#start").click()
        expect_seen(page.locator(".b-message"), sentence)
        expect(page.locator("#run-step")).to_have_text("–")
        expect(page.locator("#pasted textarea")).to_have_value(text)
    choose_source(page, "The recipe's own text")
    expect(alert).to_have_count(0)
    change_setting(page, "steps", "20")
    start(page)
    wait_for_status(page, "Finished")
