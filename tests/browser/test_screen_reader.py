"""Accessibility: axe-core finds nothing serious in any of our own views, in both themes, at two widths."""

import json
from typing import Any

import pytest
from browser_steps import FIRST, change_setting, fine_tune, grave, press_save, show, start, wait_for_status
from playwright.sync_api import Page, expect

HEIGHT = 900
NARROW, WIDE = 390, 1280
LOOKS: tuple[tuple[str, int, dict[str, Any]], ...] = (  # theme, width, options of axe
    ("light", WIDE, {}),
    ("light", NARROW, {"rules": {"color-contrast": {"enabled": False}}}),  # slow, and the same at both widths
    ("dark", NARROW, {"runOnly": ["color-contrast"]}),
)
# What is shown, with an element that exists only once the server has answered, and what is pressed then.
STATES = {
    "lesson": ("masked-words", {"lesson": "what-bert-learns"}, "#lesson-choice-0", "#lesson-choice-0"),
    "masked words": ("masked-words", {}, "#masked-closer table", ""),
    "explanations": (
        "masked-words",
        {"view": "explained"},
        "#masked-closer .js-plotly-plot",
        "#masked-closer [data-key=text]",
    ),
    "sweep": ("masked-words", {"view": "sweep"}, "#masked-closer button", "#masked-closer button"),
    "writing": ("masked-words", {"view": "write"}, "#masked-closer .b-seen", "#masked-length input"),
    "next sentence": ("next-sentence", {}, "#next-matrix .b-map svg", ""),
    "attention": ("attention", {}, "#attention-switches b-text", "#attention-download-py"),
    "lines": ("attention", {"mode": "lines"}, "#attention-map .b-lines path", ""),
    "words in context": ("words-in-context", {}, "#context-cosine .b-map svg", ""),
    "fine-tune": ("fine-tune", {}, "#task-examples li", ""),
    "map": ("step-by-step", {}, "#steps .b-bert", ""),
    "swapped words": ("masked-words", {"view": "swap"}, "#masked-closer .b-swap", ""),
    "whole sentences": ("words-in-context", {"pooling": "mean"}, "#context-cosine .b-map svg", ""),
    "strips": ("step-by-step", {"stage": "feed-forward"}, "#steps canvas", ""),
    "unfolded": ("step-by-step", {"stage": "weights"}, "#steps .b-map svg", "#steps .b-map svg"),
    "probabilities": ("step-by-step", {"stage": "probabilities"}, "#steps table", "#steps-download-py"),
    "models": ("models", {}, "#model-facts dt", ""),
}


@pytest.fixture(scope="module")
def page(shared: Page) -> Page:
    change_setting(shared, "steps", "40")
    start(shared)
    wait_for_status(shared, "Finished")
    expect(shared.locator("#time-slider")).to_be_enabled()
    show(shared, "fine-tune")
    fine_tune(shared, epochs=1)
    show(shared, "train")
    return shared


def grave_in_each_look(page: Page) -> dict[str, list[str]]:
    """All rules where most is shown; in a narrow window what its layout changes, in the dark the colours."""
    found = {}
    for theme, width, options in LOOKS:
        page.evaluate("is => document.body.classList.toggle('dark', is)", theme == "dark")
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.wait_for_function("document.getAnimations().every(each => each.playState !== 'running')")
        found[f"{theme}, {width}"] = grave(page, **options)
    return {look: findings for look, findings in found.items() if findings}


def open_state(page: Page, state: str) -> None:
    """Show a state of STATES, with its answers."""
    tab, parts, answered, press = STATES[state]
    parts = {"heads": json.dumps(parts)} if tab == "attention" else parts
    # An open dialog of the state before would lie over this one.
    page.evaluate("() => document.querySelectorAll('dialog[open]').forEach(each => each.close())")
    show(page, tab, **FIRST, **parts)
    page.locator(answered).first.wait_for()
    if press.endswith("-py"):
        press_save(page, press)
        expect(page.locator("dialog[open] pre")).to_be_visible()
    elif press:
        page.locator(press).first.click()


def test_a_run(page: Page, complaints: list[str]) -> None:
    assert grave_in_each_look(page) == {}


@pytest.mark.parametrize("state", STATES)
def test_a_tab(page: Page, state: str, complaints: list[str]) -> None:
    open_state(page, state)
    assert grave_in_each_look(page) == {}
