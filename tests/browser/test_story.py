"""The whole story in a real browser: start, watch, probe, keep, come back."""

import zipfile
from collections.abc import Callable
from pathlib import Path

from browser_steps import (
    change_setting,
    expect_seen,
    open_tab,
    points,
    shown_model,
    start,
    wait_for_points,
    wait_for_question,
    wait_for_status,
    wait_for_visitor,
)
from playwright.sync_api import Page, Request, expect

from balcony.train.preview import preview
from bert_core.runs.recipe import load_recipe

ENDLESS = "50000"
SENTENCES = ("Words of: Sentence", "Words of: Second sentence")
RECIPE = load_recipe("romeo-juliet")
STEPS = RECIPE.training.steps
PARAMETERS = f"{preview(RECIPE, RECIPE.source()).parameters:,}"


def test_a_person_trains_probes_keeps_and_finds_the_run_again(page: Page, address: str, tmp_path: Path) -> None:
    asked: list[str] = []  # nothing of it leaves the machine

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    expect(shown_model(page)).to_have_text("romeo-juliet")
    expect_seen(page.locator("#preview"), PARAMETERS)

    start(page)
    wait_for_points(page, 20)
    wait_for_status(page, "Finished")
    expect(page.locator("#run-step")).to_have_text(f"{STEPS} of {STEPS}")
    cut_off = "tiles => tiles.filter((tile) => tile.scrollWidth > tile.clientWidth).map((tile) => tile.textContent)"
    assert page.locator(".b-tiles dd").evaluate_all(cut_off) == []
    expect(page.locator("#run-guesses tbody tr[data-right=true]")).to_have_count(5)
    expect_seen(page.locator("#run-guesses"), "✓ right")
    expect(page.locator("#start")).to_be_enabled()
    expect(shown_model(page)).to_have_text(f"Run 1 · {RECIPE.title}")
    expect(page.locator("#model-step")).to_have_text(f"step {STEPS}")

    open_tab(page, "Masked words")
    words = page.get_by_role("group", name="Words of: Second sentence")
    expect(words.get_by_role("button", name="Juliet")).to_have_attribute("aria-pressed", "true")
    cards = page.locator("#masked-guesses section")
    expect(cards).to_have_count(1)
    words.get_by_role("button", name="name").click()
    expect(cards).to_have_count(2)
    expect_seen(cards.first.get_by_role("listitem").first, "name")
    words.get_by_role("button", name="Romeo").focus()
    page.keyboard.press("Space")
    expect(cards).to_have_count(3)
    expect(words.get_by_role("button", name="Romeo")).to_be_focused()

    open_tab(page, "Next sentence")
    verdict = page.locator("#next-verdict")
    expect_seen(verdict, "judges that the second sentence follows the first")
    page.locator("#swap").click()
    expect_seen(verdict, "does not follow the first")

    open_tab(page, "Attention")
    head = page.get_by_role("button", name="Layer 2, head 3", exact=True)
    expect(page.locator("#attention-map .b-map-title")).to_have_text("Layer 1, head 1")
    head.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#attention-map .b-map-title")).to_have_text("Layer 2, head 3")
    expect(head).to_have_attribute("aria-pressed", "true")

    open_tab(page, "Models")
    expect_seen(page.locator("#model-facts"), PARAMETERS)
    with page.expect_download() as waiting:
        page.locator("#download").click()
    download = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(download)
    names = {Path(name).name for name in zipfile.ZipFile(download).namelist()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    page.locator("#model-upload input[type=file]").set_input_files(download)
    expect(shown_model(page)).to_have_text(Path(download.name).stem)
    expect_seen(page.locator("#model-facts"), PARAMETERS)
    open_tab(page, "Train")
    wait_for_question(page, model=shown_model(page).get_attribute("value"), tab=None)  # written a moment later

    page.reload()
    wait_for_status(page, "Finished")
    wait_for_points(page, 100)
    expect(page.locator("#run-step")).to_have_text(f"{STEPS} of {STEPS}")
    expect(shown_model(page)).to_have_text(Path(download.name).stem)
    page.remove_listener("request", note)
    assert any("plotly" in url for url in asked)
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def test_two_visitors_train_at_once_and_see_only_their_own(visit: Callable[[], Page]) -> None:
    one, other = visit(), visit()
    change_setting(one, "steps", ENDLESS)
    change_setting(other, "steps", "40000")
    start(one)
    expect(one.locator("#start")).to_be_disabled()
    expect(other.locator("#start")).to_be_enabled()
    expect(other.locator("#run-status")).to_have_text("No run yet")
    start(other)
    wait_for_points(one, points(one) + 2)
    expect_seen(one.locator("#run-step"), "of 50,000")
    expect_seen(other.locator("#run-step"), "of 40,000")
    other.locator("#stop").click()
    wait_for_status(other, "Stopped")
    expect(one.locator("#run-status")).to_have_text("Training")
    wait_for_points(one, points(one) + 2)
    open_tab(one, "Models")
    expect(one.locator("#model-choice input")).to_have_count(2)
    open_tab(one, "Train")
    one.locator("#stop").click()
    wait_for_status(one, "Stopped")


def test_a_run_is_watched_zoomed_paused_and_resumed(page: Page) -> None:
    change_setting(page, "steps", ENDLESS)
    start(page)
    area = page.locator("#run-curves .nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 40, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 80, steps=5)
    page.mouse.up()
    ranges = "() => ['xaxis', 'yaxis'].map(axis => document.querySelector('#run-curves')._fullLayout[axis].range)"
    page.wait_for_function(f"({ranges})()[0][1] < {int(ENDLESS) / 2}")
    zoomed = page.evaluate(ranges)
    wait_for_points(page, points(page) + 8)
    assert page.evaluate(ranges) == zoomed

    # An open tab follows the model while it learns.
    open_tab(page, "Masked words")
    expect_seen(page.locator("#masked-guesses section li").first, "%")
    before = page.locator("#masked-guesses").inner_text()
    page.wait_for_function("before => document.querySelector('#masked-guesses').innerText !== before", arg=before)

    open_tab(page, "Train")
    page.locator("#pause").click()
    wait_for_status(page, "Paused")
    expect(page.locator("#pause")).to_have_text("Resume")
    at = int(page.locator("#run-step").inner_text().split(" of ")[0].replace(",", ""))  # comes with the status
    page.locator("#step").click()
    expect(page.locator("#run-step")).to_have_text(f"{at + 1:,} of 50,000")
    wait_for_status(page, "Paused")
    page.locator("#pause").click()
    wait_for_status(page, "Training")
    wait_for_points(page, points(page) + 3)
    page.locator("#stop").click()
    wait_for_status(page, "Stopped")
    expect(page.locator("#start")).to_be_enabled()
    assert page.evaluate(ranges) == zoomed


def test_another_browser_tab_of_the_visitor_shows_the_run_without_a_reload(
    page: Page, visit: Callable[..., Page]
) -> None:
    # The server has answered: the first tab has its token, which the second then finds.
    expect(shown_model(page)).to_have_text("romeo-juliet")
    wait_for_visitor(page)
    other = visit(page.context)
    expect(shown_model(other)).to_have_text("romeo-juliet")
    expect(other.locator("#run-status")).to_have_text("No run yet")
    change_setting(page, "steps", ENDLESS)
    start(page)
    wait_for_points(other, 1)
    expect(other.locator("#stop")).to_be_enabled()
    expect(shown_model(other)).to_have_text(f"Run 1 · {RECIPE.title}")
    open_tab(other, "Models")
    other.get_by_role("radio", name="comes with Balcony").check()
    expect(shown_model(other)).to_have_text("romeo-juliet")
    expect(shown_model(page)).to_have_text(f"Run 1 · {RECIPE.title}")  # each browser tab has a question of its own
    open_tab(other, "Train")
    other.locator("#stop").click()
    wait_for_status(page, "Stopped")
    expect(page.locator("#start")).to_be_enabled()


def test_the_first_point_does_not_move_the_chart(page: Page) -> None:
    # Measured on the page: the window scrolls to a pressed button.
    position = "document.querySelector('#run-curves .nsewdrag').getBoundingClientRect().top + scrollY"
    expect_seen(page.locator("#run-curves .legend"), "Masked words")
    before = page.evaluate(position)
    change_setting(page, "steps", "20")
    start(page)
    wait_for_status(page, "Finished")
    expect_seen(page.locator("#next-step"), "Now hide a word")  # with the verdict, after the status
    assert page.evaluate(position) == before


def test_arrow_keys_go_through_words_and_heads(page: Page) -> None:
    open_tab(page, "Masked words")
    first, second = (page.get_by_role("group", name=name).get_by_role("button") for name in SENTENCES)
    expect(first).to_have_count(7)
    first.first.focus()
    page.keyboard.press("ArrowRight")
    expect(first.nth(1)).to_be_focused()
    page.keyboard.press("End")
    expect(first.last).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("#edit-text")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(first.last).to_be_focused()
    for focused in ("edit-text", "choose-text", "swap"):
        page.keyboard.press("Tab")
        expect(page.locator(f"#{focused}")).to_be_focused()
    page.keyboard.press("Tab")
    expect(second.first).to_be_focused()
    open_tab(page, "Attention")
    page.get_by_role("button", name="Layer 1, head 2", exact=True).focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("button", name="Layer 2, head 2", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#attention-map .b-map-title")).to_have_text("Layer 2, head 2")


def test_the_keyboard_skips_the_frame_and_keeps_its_place_beside_start_and_stop(page: Page) -> None:
    page.locator("#skip").press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#tab-train :focus")).to_have_count(1)
    change_setting(page, "steps", "100000")
    page.locator("#start").press("Enter")
    expect(page.locator("#pause")).to_be_focused()
    page.locator("#stop").press("Enter")
    expect(page.locator("#start")).to_be_focused()


def test_tab_goes_from_the_tabs_to_the_words_and_then_to_the_answer(page: Page) -> None:
    open_tab(page, "Masked words")
    word, keys = page.get_by_role("group", name=SENTENCES[0]).get_by_role("button"), page.locator("#word-keys")
    expect(word).to_have_count(7)
    expect(keys).to_be_hidden()
    page.locator("#tab-models-button").focus()
    page.keyboard.press("Tab")
    expect(word.first).to_be_focused()
    expect_seen(keys, "The arrow keys go from word to word.", in_window=True)
    page.locator("#compare-with").focus()
    page.keyboard.press("Tab")
    expect(page.locator("#guess-first-masked-words")).to_be_focused()

    # A chosen option looks chosen under the pointer too.
    open_tab(page, "Train")
    circle = page.get_by_role("radio", name="The recipe's own text")
    colour = circle.evaluate("circle => getComputedStyle(circle).backgroundColor")
    circle.hover()
    expect(circle).to_have_css("background-color", colour)
