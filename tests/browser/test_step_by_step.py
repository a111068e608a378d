"""The Step by step tab in the browser: stages by key, formulas with the model's numbers, parts set to zero."""

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from browser_steps import (
    FIRST,
    VIEWPORT,
    change_setting,
    expect_seen,
    move_slider,
    serve_modules,
    show,
    start,
    wait_for_answer,
    wait_for_question,
    wait_for_status,
)
from helpers import with_head
from playwright.sync_api import Browser, Page, expect

import balcony
from balcony.frame.question import Question
from balcony.step_by_step.patching import patch_value
from balcony.step_by_step.tab import listed, steps_value
from bert_core.probes.forward import likeliest
from bert_core.probes.stages import Stages, follow
from bert_core.storage.checkpoint import Checkpoint, TaskHead, load_checkpoint, save_checkpoint

MASKED = FIRST["pair"].replace("Juliet", "[MASK]")
ASKED = 14  # position of the [MASK]
MOST_SHIFT = 0.05
# Count what begins to listen to the size of the window.
COUNT = """() => {
    const { addEventListener: listen } = window;
    window.listening = 0;
    window.addEventListener = (name, ...rest) => { window.listening += name === "resize"; listen(name, ...rest); };
}"""
# A map of a model of 12 layers x 12 heads, in the page.
LARGE = """async () => {
    const { modelMap } = await import("/modules/step_by_step/map.js");
    const tokens = ["[CLS]", ...Array.from({ length: 60 }, (_, i) => `word${i}`), "[MASK]", "[SEP]"];
    const strongest = Array.from({ length: 12 }, () => Array.from({ length: 12 }, (_, h) => [h, h / 12])),
        value = { tokens, ids: tokens.map((_, i) => i), segments: tokens.map(() => 0), layers: 12, heads: 12,
            head: [4, 2], token: 61, off: [], zeroed: [], labels: ["IsNext", "NotNext"], pair: null, words: null,
            strongest };
    document.querySelector("#steps .b-stage").replaceChildren(modelMap({ value, missing: ["", ""] }));
}"""


@pytest.fixture(scope="module")
def model(shipped: Path) -> Checkpoint:
    return load_checkpoint(shipped)


@pytest.fixture(scope="module")
def found(model: Checkpoint) -> Stages:
    return follow(model, FIRST["text"], MASKED, layer=1, position=2)


def test_the_map_shows_the_model_and_a_press_on_a_part_opens_it(shared: Page, model: Checkpoint, complaints) -> None:
    show(shared, "step-by-step", **FIRST)
    steps = shared.locator("#steps")
    found = follow(model, FIRST["text"], MASKED, position=ASKED, attending=ASKED)
    tokens = steps.locator(".b-bert-token")
    expect(tokens).to_have_text(found.tokens)
    expect(tokens.nth(ASKED)).to_have_attribute("aria-pressed", "true")
    weights = found.attention.max(-1).values
    expect_seen(steps.locator(".b-bert-weight").nth(1), f"{100 * weights[1].max().item():.0f}%")
    head, target = divmod(found.attention[1].argmax().item(), len(found.tokens))
    named = f"Layer 2, head {head + 1}: [MASK] attends most to {found.tokens[target]}"
    assert named in (steps.locator(f"[data-key='head 1.{head}']").get_attribute("aria-label") or "")
    [(best, _)] = likeliest(model, found.words["log_probabilities"], 1)
    expect_seen(steps.locator("[data-key=words]"), best)
    expect_seen(steps.locator("[data-key=pair]"), "Yes")
    parts = {
        "pieces": "1 Pieces",
        "embeddings": "2 Embeddings",
        "attention 0": f"5 Weights: layer 1, head {found.attention[0].argmax().item() // len(found.tokens) + 1}",
        "feed-forward 1": "8 Feed-forward: layer 2",
        "layer 0": "9 All layers",
        "words": "11 Probabilities",
        "pair": "12 Next sentence",
    }
    for part, title in parts.items():
        steps.locator(f"[data-key='{part}']").click()
        expect(steps.locator("h3").first).to_have_text(title)
        steps.locator(".b-stages button").first.click()
        expect(steps.locator("h3").first).to_have_text("Map")


def test_a_head_of_the_map_opens_its_attention(shared: Page, complaints: list[str]) -> None:
    show(shared, "step-by-step", **FIRST)
    shared.locator("[data-key='pieces']").focus()
    for key in (
        "Tab",
        "Tab",
        "Tab",
        "ArrowRight",
        "ArrowRight",
        "ArrowRight",
        "Enter",
    ):  # layer 2: attention, head 1, head 2
        shared.keyboard.press(key)
    expect(shared.locator("#attention-map .b-map-title")).to_have_text("Layer 2, head 2")


def test_a_state_that_is_patched_by_hand_shows_both_passes_and_a_link_repeats_it(
    shared: Page, model: Checkpoint, complaints: list[str]
) -> None:
    asked = {"text": "hello romeo my name is juliet", "hidden": "3"}
    value = patch_value(model, Question(asked["text"], hidden=(3,), place=1))
    other, out = value["words"][0], [*value["state"]["out"], *value["head"]["out"]]
    show(shared, "step-by-step", **asked)
    patch, steps = shared.locator("#patch"), shared.locator("#steps")
    patch.get_by_role("button", name="romeo", exact=True).click()
    expect_seen(patch, f"{sum(map(sum, out))} of {sum(map(len, out))} cells stand out (framed)")
    expect(patch.get_by_label("Put there:")).to_have_value(other)
    patch.get_by_role("application", name="What the state of each token").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):  # after layer 1, in the place of romeo
        shared.keyboard.press(key)
    wait_for_question(shared, place="1", carried="0,1,2")
    rows, fraction = patch.locator("tbody tr"), two_decimals(value["state"]["fractions"][1][2])
    expect_seen(rows.nth(2), f"With romeo, and carried: Layer 1: {other}", in_window=True)
    expect(rows.locator("td:nth-child(2)")).to_have_text(["1.00", "0.00", fraction])
    expect_seen(patch.locator(".b-readout").first, f"{fraction} comes back; random sentences: ")
    steps.scroll_into_view_if_needed()
    expect_seen(steps.locator(".b-answers"), "(without it: ", in_window=True)
    expect(steps.get_by_role("img", name=f"the state of {other}")).to_be_visible()

    show(shared, "step-by-step", **asked, place="1", carried="1,1,2")
    expect_seen(rows.nth(2), "With romeo, and carried: Layer 2, head 3")
    expect(rows.nth(2).locator("td").first).to_have_text(two_decimals(value["head"]["fractions"][1][2]))
    patch.get_by_label("Put there:").fill("nice juliet")
    patch.get_by_label("Put there:").press("Enter")
    expect_seen(patch, "The two texts have 9 and 8 tokens")
    wait_for_question(shared, carried=None, swaps="nice juliet")
    expect(rows.first).to_be_hidden()
    steps.locator(".b-stages button").nth(1).click()
    expect(patch).not_to_contain_text("Patch by hand")


def two_decimals(number: float) -> str:
    """As the page writes it."""
    return f"{number:.2f}".replace("-0.00", "0.00").replace("-", "−")


def test_the_map_moves_with_the_time_slider_and_stays_in_its_place(visit: Callable[..., Page]) -> None:
    page = visit()
    change_setting(page, "steps", "40")
    start(page)
    wait_for_status(page, "Finished")
    page.set_viewport_size({"width": 1366, "height": 657})
    page.get_by_role("tab", name="Step by step").click()
    # In the page: another answer may put a new map there between finding one and measuring it.
    box = "document.querySelector('#steps .b-bert').getBoundingClientRect().toJSON()"
    words = page.locator("[data-key=words]")
    expect(words).to_be_visible()
    wait_for_answer(page.locator("#steps"))
    page.evaluate(
        """window.shift = 0;
        new PerformanceObserver((list) => { for (const { value } of list.getEntries()) window.shift += value; })
            .observe({ type: "layout-shift" })"""
    )
    before, stood = words.inner_text(), page.evaluate(box)
    move_slider(page, 0)
    expect(words).not_to_have_text(before)
    wait_for_answer(page.locator("#steps"))
    assert page.evaluate(box) == stood
    assert page.evaluate("window.shift") <= MOST_SHIFT


def test_a_wide_map_is_scrolled_and_a_long_text_leaves_tokens_out(shared: Page, complaints: list[str]) -> None:
    shared.set_viewport_size({"width": 390, "height": 844})
    try:
        show(shared, "step-by-step", **FIRST)
        expect(shared.locator("#steps .is-layer")).to_have_count(2)
        serve_modules(shared)
        shared.evaluate(LARGE)
        expect(shared.locator("#steps .is-layer")).to_have_count(12)
        assert shared.locator("#steps .b-bert-token").count() <= 24
        expect_seen(shared.locator("#steps span.b-bert-token").first, re.compile("more"))
        assert shared.evaluate("document.documentElement.scrollWidth") <= 390
        shared.locator("[data-key=words]").scroll_into_view_if_needed()
        expect_seen(shared.locator("[data-key=words]"), "At [MASK]", in_window=True)
    finally:
        shared.set_viewport_size(VIEWPORT)
        shared.unroute_all()


def numbers(text: str | None) -> list[float]:
    return [float(each.replace("−", "-")) for each in re.findall(r"−?\d+\.\d{4}", text or "")]


def test_stages_follow_the_arrow_keys_and_show_the_models_numbers(shared: Page, found: Stages, complaints) -> None:
    show(shared, "step-by-step", **FIRST, head="1.0", stage="scores")
    steps = shared.locator("#steps")
    title, readout = steps.locator("h3").first, steps.locator(".b-readout").first
    expect(title).to_have_text("4 Scores: layer 2, head 1")
    steps.locator(".b-map").press("ArrowDown")  # the first cell
    expect(readout).to_contain_text("÷ √")
    products, scores, weights = (found.layer[name][0, 0] for name in ("products", "scores", "weights"))
    assert numbers(readout.text_content()) == pytest.approx([products[0].item(), scores[0].item()], abs=1e-4)
    steps.locator(".b-map").press("Enter")
    card = steps.locator(".b-unfolded")
    shown = numbers(card.locator("tbody").text_content())
    assert shown[2::3] == pytest.approx(weights.tolist(), abs=1e-4)
    expect_seen(card, "The weights sum to 1.0000")
    expect(card.locator("tr").first).to_be_in_viewport(ratio=0.99)  # the rest is rounding
    steps.locator("button[aria-current=step]").press("ArrowRight")
    expect(title).to_have_text("5 Weights: layer 2, head 1")
    steps.get_by_role("button", name="4 Scores").click()
    expect(title).to_have_text("4 Scores: layer 2, head 1")
    wait_for_question(shared, stage="scores")


def test_a_pressed_cell_of_the_attention_map_unfolds(shared: Page, found: Stages, complaints: list[str]) -> None:
    show(shared, "attention", **FIRST, head="1.0")
    expect(shared.locator("#attention-map .b-map-title")).to_have_text("Layer 2, head 1")
    wait_for_answer(shared.locator("#attention-map"))
    shared.locator("#attention-map .b-map").press("ArrowDown")  # the first cell
    shared.locator("#attention-map .b-map").press("Enter")
    card = shared.locator("#attention-map .b-unfolded")
    expect(card).to_contain_text("The weights sum to 1.0000")
    shown = numbers(card.locator("tbody").text_content())
    assert shown[2::3] == pytest.approx(found.layer["weights"][0, 0].tolist(), abs=1e-4)
    show(shared, "attention", **FIRST, head="0.0")
    expect(card).to_have_count(0)


def test_a_number_opens_into_the_products_that_it_is_the_sum_of(shared: Page, found: Stages, complaints) -> None:
    show(shared, "step-by-step", **FIRST, head="1.0", stage="feed-forward", token="2")
    steps = shared.locator("#steps")
    expect(steps.locator("h3").first).to_have_text("8 Feed-forward: layer 2")
    expect(steps.locator("[aria-label^='The token'] button").nth(2)).to_have_attribute("aria-pressed", "true")
    wait_for_answer(steps)
    strips = steps.locator(".b-strips").first
    strips.press("ArrowRight")
    strips.press("Enter")
    card = steps.locator(".b-unfolded")
    expect(card).to_contain_text("Sum of the 48 products")
    assert numbers(card.locator("p").last.text_content())[-1] == pytest.approx(
        found.layer["inner"][2, 1].item(), abs=1e-4
    )
    readout = steps.locator(".b-readout").nth(1)
    steps.locator(".b-strips").nth(1).press("ArrowRight")  # the sum and its LayerNorm
    assert numbers(readout.text_content())[-1] == pytest.approx(found.states[2, 2, 1].item(), abs=1e-4)
    show(shared, "step-by-step", **FIRST, stage="scores-of-words")
    wait_for_answer(steps)
    steps.get_by_role("button", name="juliet", exact=True).click()
    expect(card.locator("h3")).to_have_text("Score of juliet")
    shown = steps.locator("tr", has_text="juliet").locator("td").first.text_content()
    assert numbers(card.locator("p").last.text_content())[-1] == pytest.approx(numbers(shown)[0], abs=1e-4)


def test_position_vectors_set_to_zero_change_the_answer(shared: Page, complaints) -> None:
    show(shared, "step-by-step", **FIRST, stage="embeddings")
    steps = shared.locator("#steps")
    steps.get_by_role("button", name="position vectors", exact=True).click()
    expect_seen(steps.locator(".b-answers"), "the whole model:", in_window=True)
    expect_seen(steps.locator(".b-readout"), " + 0.0000 + ")
    wait_for_question(shared, zeroed="0.4")
    steps.locator(".b-stages button").first.click()
    expect(steps.locator(".b-bert .is-off")).to_have_text("+ position")
    steps.get_by_role("button", name="position vectors", exact=True).click()
    expect_seen(steps.locator("h3 + p"), "This is the whole model.")


def test_a_part_set_to_zero_changes_the_answer_beside_the_whole_models(shared: Page, complaints) -> None:
    show(shared, "step-by-step", **FIRST, stage="feed-forward")
    steps = shared.locator("#steps")
    expect(steps.locator(".b-strip canvas")).to_have_count(6)
    expect_seen(steps.locator(".b-answers"), "The model gives juliet", in_window=True)
    steps.get_by_role("button", name="Layer 1: feed-forward", exact=True).click()
    expect_seen(steps.locator(".b-readout code[translate=no]").first, "attended · W[:, 0] + b[0]")
    expect_seen(steps.locator(".b-answers"), re.compile(r"juliet: .*the whole model: .*IsNext.*the whole model: "))
    wait_for_question(shared, zeroed="0.2")
    steps.locator(".b-stages button").first.click()
    expect_seen(steps.locator("h3 + p"), "This is not the whole model.", in_window=True)
    expect(steps.locator(".b-bert .is-off")).to_have_attribute("aria-label", "Layer 1: feed-forward · set to zero")
    expect_seen(steps.locator(".b-answers"), "the whole model:", in_window=True)
    expect(steps.locator(".b-stages")).to_be_in_viewport(ratio=1)
    steps.get_by_role("button", name="Layer 1: feed-forward", exact=True).click()
    expect_seen(steps.locator("h3 + p"), "This is the whole model.")
    expect(steps.locator(".b-bert .is-off")).to_have_count(0)
    expect(steps.locator("h3").first).to_be_focused()


def test_every_stage_is_drawn(shared: Page, complaints: list[str]) -> None:
    show(shared, "step-by-step", **FIRST)
    steps = shared.locator("#steps")
    names = steps.get_by_role("group", name=re.compile("^Stages")).get_by_role("button")
    expect(names).to_have_count(13)
    shared.evaluate(COUNT)
    for index in range(13):
        names.nth(index).click()
        expect(steps.locator("h3").first).to_contain_text((names.nth(index).text_content() or "").strip())
        assert steps.locator(".b-strip canvas, .b-map svg, .b-bert-lines svg, table").count()
    assert shared.evaluate("window.listening") == 0, "a map that is gone listens to the window no longer"


def test_the_picture_of_a_stage_begins_in_the_window_below_one_row_of_stages(shared: Page, complaints) -> None:
    shared.set_viewport_size({"width": 1366, "height": 657})
    long = "Hello, how are you? I am Romeo. My name is Juliet. Nice to meet you."
    for stage, picture in (("weights", ".b-map image"), ("feed-forward", ".b-strip canvas")):
        show(shared, "step-by-step", text=long, pair=long, hidden="12", stage=stage)
        expect(shared.locator(f"#steps {picture}").first).to_be_visible()
        wait_for_answer(shared.locator("#steps"))
        names = shared.locator("#steps .b-stages button")
        assert len({box["top"] for box in names.evaluate_all("all => all.map(e => e.getBoundingClientRect())")}) == 1
        expect(shared.locator("#steps [aria-current=step]")).to_be_in_viewport(ratio=1)
        assert shared.locator(f"#steps {picture}").first.bounding_box()["y"] < 600  # in the widest font
    shared.set_viewport_size(VIEWPORT)


def test_a_visit_without_a_hidden_word_says_what_to_do(visit: Callable[..., Page], complaints: list[str]) -> None:
    page = visit(at="#tab=step-by-step&stage=probabilities&text=hello&hidden=")
    expect(page.locator("#steps")).to_contain_text("No word is hidden")


TASKS = {  # the class, its labels, and how many outputs it has
    "label": ("BertForSequenceClassification", ("calm", "glad", "sad"), 3),
    "number": ("BertForSequenceClassification", (), 1),
    "choice": ("BertForMultipleChoice", (), 1),
    "answer": ("BertForQuestionAnswering", (), 2),
    "tags": ("BertForTokenClassification", ("O", "B-who", "I-who"), 3),
}
TYPED = Question("Who are you today?", "Hello, how are you? I am Romeo. Nice to meet you.")


@pytest.fixture(scope="module")
def tuned(model: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checkpoint]:
    """A model of each task, with random output layers."""
    found, generator = {}, torch.Generator().manual_seed(3)
    for name, (architecture, labels, outputs) in TASKS.items():
        weight = 0.1 * torch.randn(outputs, model.config.hidden_size, generator=generator)
        head = TaskHead(architecture, labels)
        made = with_head(model, head, weight, torch.randn(outputs, generator=generator))
        found[name] = dataclasses.replace(made, missing=head.never, name=str(tmp_path_factory.mktemp("tasks") / name))
        save_checkpoint(found[name], found[name].name)
    return found


@pytest.fixture(scope="module")
def task_page(service: Any, shipped: Path, tuned: dict[str, Checkpoint], browser: Browser) -> Iterator[Page]:
    """The page of a place where models of all tasks are shipped."""
    folders = [shipped, *(Path(each.name) for each in tuned.values())]
    app, url, _ = balcony.launch(
        service, shipped=folders, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True
    )
    with browser.new_page(viewport=VIEWPORT) as page:
        page.goto(url)
        expect(page.locator("#start")).to_be_enabled()
        yield page
    app.get_blocks().close(verbose=False)


def show_task(page: Page, name: str, stage: str, question: Question = TYPED) -> None:
    choices = {"choices": question.choices} if question.choices else {}
    show(page, "step-by-step", model=name, stage=stage, text=question.text, pair=question.pair, **choices)


def shown(number: float) -> str:
    return f"{number:.4f}".replace("-", "−")


def test_a_label_is_made_of_the_pooled_vector(task_page: Page, tuned: dict[str, Checkpoint]) -> None:
    value, steps = steps_value(tuned["label"], TYPED, listed), task_page.locator("#steps")
    show_task(task_page, "label", "map")
    card, (best, share) = steps.locator("[data-key=task]"), value["task"]["answers"][0]
    expect_seen(card, "At [CLS]: which label?", in_window=True)
    expect_seen(card, f"{best}{100 * share:.0f}%")
    expect(steps.locator(".b-bert-card")).to_have_count(1)
    expect(steps.locator(".b-stages button")).to_have_count(11)
    card.click()
    expect(steps.locator("h3").first).to_have_text("10 Task")
    rows = steps.locator("tbody tr")
    expect(rows).to_have_count(3)
    logits = dict(zip(value["task"]["labels"], value["vectors"]["task"]))
    expect_seen(rows.first, f"{best}{shown(logits[best])}")
    steps.get_by_role("button", name=best, exact=True).click()
    expect_seen(steps.locator(".b-unfolded"), f"Score of {best}")
    assert numbers(steps.locator(".b-unfolded p").last.text_content())[-1] == pytest.approx(logits[best], abs=1e-4)
    show_task(task_page, "label", "probabilities")  # a stage of other models
    expect(steps.locator("h3").first).to_have_text("10 Task")
    show(task_page, "step-by-step", stage="task", **FIRST)
    expect(steps.locator("h3").first).to_have_text("12 Next sentence")


def test_a_number_is_made_of_the_pooled_vector(task_page: Page, tuned: dict[str, Checkpoint]) -> None:
    value, steps = steps_value(tuned["number"], TYPED), task_page.locator("#steps")
    show_task(task_page, "number", "task")
    found = shown(value["task"]["number"])
    expect_seen(steps.locator(".b-answers"), f"The model's number: {found}", in_window=True)
    steps.get_by_role("button", name=found, exact=True).click()
    expect_seen(steps.locator(".b-unfolded"), f"= {found}")
    steps.locator(".b-stages button").first.click()
    expect_seen(steps.locator("[data-key=task]"), found)


def test_choices_are_asked_for_and_each_is_a_row(task_page: Page, tuned: dict[str, Checkpoint]) -> None:
    steps = task_page.locator("#steps")
    show_task(task_page, "choice", "task")
    expect_seen(steps, "below at least two choices", in_window=True)
    field = steps.get_by_label("Choices, one on each line")
    field.press_sequentially("Nice to meet you.\nGreat.")
    expect(field).to_be_focused()
    expect(steps.locator("tbody tr")).to_have_count(2)
    question = dataclasses.replace(TYPED, choices=("Nice to meet you.", "Great."), row=1)
    value = steps_value(tuned["choice"], question, listed)
    expect_seen(steps.locator("tr", has_text="Great."), shown(value["vectors"]["task"][1]))
    expect_seen(steps.locator("tr", has_text="Nice to"), shown(value["vectors"]["task"][0]))
    steps.get_by_role("button", name="Great.", exact=True).click()
    wait_for_question(task_page, row="1")
    expect(steps.get_by_label("Row").locator("option:checked")).to_have_text("2 Great.")
    steps.get_by_role("button", name="Products of this row's score").click()
    expect_seen(steps.locator(".b-unfolded"), f"= {shown(value['vectors']['task'][1])}")
    expect_seen(steps, "This task does not use the second sentence above")
    steps.locator(".b-stages button").nth(1).click()
    expect(steps.locator("tbody tr").first.locator("bdi")).to_have_text(value["tokens"])


def test_starts_and_ends_have_scores_and_pairs_that_are_no_answer_have_a_reason(
    task_page: Page, tuned: dict[str, Checkpoint]
) -> None:
    value, steps = steps_value(tuned["answer"], TYPED, listed), task_page.locator("#steps")
    show_task(task_page, "answer", "task")
    tables, count = steps.locator("table"), len(value["tokens"])
    expect(tables.first.locator("tbody tr")).to_have_count(count)
    logits = value["vectors"]["task"]
    for i in (0, count - 2):
        start, end = map(shown, logits[2 * i : 2 * i + 2])
        expect_seen(tables.first.locator("tbody tr").nth(i), re.compile(f"{start}.*{end}"))
    expect_seen(tables.first.locator("tbody tr").first, "outside the context")
    expect_seen(steps.locator(".b-answers"), value["task"]["answers"][0][0])
    pairs = tables.last.locator("tbody tr")
    expect(pairs).to_have_count(len(value["task"]["pairs"]))
    for i, pair in enumerate(value["task"]["pairs"]):
        expect_seen(pairs.nth(i), shown(pair["score"]))
        expect_seen(pairs.nth(i), pair["why"])
    reasons = {pair["why"] for pair in value["task"]["pairs"]}
    assert {"", "outside the context", "the end is before the start"} <= reasons
    tables.first.get_by_role("button", name="romeo", exact=True).click()
    wait_for_question(task_page, token=str(value["tokens"].index("romeo")))
    steps.locator(".b-stages button").first.click()
    expect_seen(steps.locator("[data-key=task]"), "where does the answer start and end?")


def test_each_token_has_scores_of_tags_and_pieces_that_are_not_asked_are_marked(
    task_page: Page, tuned: dict[str, Checkpoint]
) -> None:
    question, steps = dataclasses.replace(TYPED, pair="", token=2), task_page.locator("#steps")
    value = steps_value(tuned["tags"], question, listed)
    show(task_page, "step-by-step", model="tags", stage="task", text=TYPED.text, pair="", token="2")
    rows, logits = steps.locator("tbody tr"), value["vectors"]["task"]
    expect(rows).to_have_count(len(value["tokens"]))
    for i in range(len(value["tokens"])):
        expect_seen(rows.nth(i), "".join(shown(each) for each in logits[3 * i : 3 * i + 3]))
        expect_seen(rows.nth(i), value["task"]["why"][i])
    expect_seen(rows.first, "special token")
    best, _ = value["task"]["answers"][0]
    expect_seen(steps.locator(".b-answers"), f"{value['tokens'][2]} → {best}", in_window=True)
    rows.nth(2).get_by_role("button", name=shown(logits[6])).click()
    expect_seen(steps.locator(".b-unfolded"), "Score of O")
    steps.locator(".b-stages button").first.click()
    expect_seen(steps.locator("[data-key=task]"), "At the marked token: which tag?")
