"""Which sentence taught it: a person starts the trainings, sees what comes, stops them and comes back."""

import re

from browser_steps import FIRST, expect_seen, show, wait_for_question
from playwright.sync_api import Page


def test_a_person_sees_which_sentence_taught_a_word(page: Page) -> None:
    show(page, "masked-words", **FIRST, view="taught")
    status, rows = page.locator("#taught-status"), page.locator("#masked-closer tbody tr")
    expect_seen(status, re.compile(r"without each of the 9 sentences.*30 trainings, about \d"), in_window=True)
    page.locator("#taught-start").click()
    expect_seen(status, re.compile(r"Training \d+ of 30: seed 1"), in_window=True)
    expect_seen(rows.nth(1), re.compile(r"2\. Hello, Romeo My name is Juliet.*\d\.\d\d"), in_window=True)
    expect_seen(page.locator("#masked-closer"), "is known after 3 seeds; until then nothing is marked")
    page.locator("#taught-stop").click()
    expect_seen(status, re.compile(r"Stopped after \d+ of 30 trainings"), in_window=True)
    fall, done = rows.nth(1).inner_text(), status.inner_text()

    page.reload()
    expect_seen(status, done)
    expect_seen(rows.nth(1), fall.split("\t")[-2])
    words = page.locator("#masked-closer .b-map")
    words.press("ArrowRight")
    words.press("ArrowRight")
    expect_seen(page.locator("#masked-closer .b-readout"), "how, without sentence 1: ")
    words.press("Enter")
    wait_for_question(page, **FIRST | {"hidden": "1"})
    expect_seen(page.locator("#masked-closer thead"), "how")
    expect_seen(page.locator("#taught-start"), "Train again")
