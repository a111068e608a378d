"""A class: a teacher and two pupils, each in a browser profile of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_steps import FIRST, Tabs, change_setting, open_tab, show, start, wait_for_question, wait_for_status
from playwright.sync_api import Page, expect

TEACHER = "the-token"


@pytest.fixture(scope="module")
def visit_class(tabs: Tabs, service: Any, shipped: Path) -> Iterator[Callable[..., Page]]:
    import ui

    app, url, _ = ui.launch(
        service, shipped=[shipped], teacher=TEACHER, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True
    )
    own = Tabs(tabs.browser, url)
    with own.visits() as visit:
        yield visit
    assert own.complaints == []
    app.get_blocks().close(verbose=False)


def test_a_class_shares_runs_opens_a_lesson_and_guesses(visit_class: Callable[..., Page]) -> None:
    teacher, ada, bob = visit_class(at=f"#teacher={TEACHER}"), visit_class(), visit_class()
    expect(teacher.locator("#class-bar")).to_contain_text("3 here")
    assert TEACHER not in teacher.url
    expect(ada.locator("#class-bar section")).to_be_hidden()

    start(ada)
    for page in (teacher, ada, bob):
        open_tab(page, "Class")
    expect(teacher.locator(".class-address")).to_contain_text("http://127.0.0.1")
    expect(ada.locator(".class-desk")).to_have_count(0)
    ada.locator("#class-name").fill("Ada <b>")
    ada.locator("#class-share").click()
    for page in (teacher, bob):
        expect(page.locator(".class-run h3")).to_have_text("Ada <b>")
    expect(ada.locator(".class-run.is-own")).to_have_count(1)

    teacher.locator("#language").select_option("ko")
    ada.locator("#language").select_option("zh-CN")
    teacher.locator("#class-send").click()
    expect(bob.locator("#class-bar")).to_contain_text("Your teacher shows “What BERT is trained to do”")
    expect(ada.locator("#class-bar")).to_contain_text("“BERT 的训练目标”")
    for page in (teacher, ada):
        page.locator("#language").select_option("en")
    bob.locator("#class-open").click()
    wait_for_question(bob, lesson="what-bert-learns")
    ada.locator("#class-close").click()
    expect(ada.locator("#class-bar section")).to_be_hidden()

    show(teacher, "masked-words", **FIRST)
    expect(teacher.locator("#masked-guesses section")).to_have_count(1)
    teacher.locator("#class-ask").click()
    expect(teacher.locator("#uncover")).to_be_visible()
    for page, word in ((ada, "Juliet"), (bob, "romeo")):
        page.locator("#class-answer").click()
        expect(page.locator(".class-histogram")).to_have_count(0)
        page.get_by_label("Your word for mask 1").fill(word)
        page.locator("#uncover").click()
        expect(page.locator(".class-histogram")).to_contain_text(word.lower())
        expect(page.locator("#masked-guesses li")).to_have_count(0)
    expect(teacher.locator(".class-histogram tr")).to_have_count(2)
    teacher.locator("#class-uncover").click()
    for page, right in ((ada, 1), (bob, 0)):
        expect(page.locator("#masked-guesses [role=status]")).to_contain_text(f"You {right} of 1")
    expect(teacher.locator("#masked-guesses li")).to_have_count(5)

    open_tab(teacher, "Class")
    teacher.locator("#class-clear").click()
    expect(ada.locator(".class-run")).to_have_count(0)
    ada.reload()
    expect(ada.locator("#class-bar")).to_contain_text("What the room guessed")
    expect(ada.get_by_text("What the room guessed")).to_be_in_viewport()
    ada.locator("#stop").evaluate("button => button.click()")


def test_a_teacher_who_lowers_the_limits_is_heard_on_every_page(visit_class: Callable[..., Page], service: Any) -> None:
    before = service.limits
    try:
        ada, teacher = visit_class(), visit_class(at=f"#teacher={TEACHER}")
        open_tab(teacher, "Class")
        expect(teacher.locator("#class-steps")).not_to_have_value("")
        teacher.locator("#class-steps").fill("50")
        teacher.locator("#class-steps").blur()
        told, asks = "a run has at most 50 steps", "asks for 50 steps instead of 110"
        for sentence in (told, asks):
            expect(ada.locator("#messages").get_by_text(sentence)).to_be_in_viewport(ratio=1)
        change_setting(ada, "steps", "60")
        refused = "This run would have 60 steps; the limit here is 50."
        expect(ada.locator("#preview")).to_contain_text(refused)
        ada.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        ada.locator("#start").click()
        expect(ada.locator("#messages").get_by_text(refused)).to_be_in_viewport(ratio=1)

        late = visit_class()
        expect(late.locator("#messages").get_by_text(asks)).to_be_in_viewport(ratio=1)
        expect(late.locator("#preview")).not_to_contain_text("This run would have")
        show(late, "masked-words", **FIRST, model="x", recipe='{"recipe":"romeo-juliet","seed":"7","settings":{}}')
        expect(late.locator("#link-notice")).to_contain_text("This run would have 110 steps; the limit here is 50.")
        expect(late.locator("#link-notice")).to_be_in_viewport(ratio=1)
        # The runs of the lessons are exempt.
        show(late, "train", lesson="memorising-and-learning", at="1")
        late.locator("#lesson-next").click()
        wait_for_status(late, "Finished")
        expect(late.locator("#run-step")).to_have_text("110 of 110")
        expect(late.locator("#model-step")).to_have_text("step 110")
    finally:
        service.limits = before
