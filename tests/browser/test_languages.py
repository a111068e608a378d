"""The page in Chinese and Korean: chosen by the browser, switched in the bar, without a reload."""

from collections.abc import Iterator

import pytest
from browser_steps import VIEWPORT, Tabs
from playwright.sync_api import Page, expect


@pytest.fixture(scope="module")
def chinese(tabs: Tabs) -> Iterator[Page]:
    """The page of a visitor whose browser asks for Chinese."""
    profile = tabs.browser.new_context(viewport=VIEWPORT, locale="zh-CN")
    profile.add_init_script("try { localStorage.setItem('balcony-tour', 'seen'); } catch {}")
    page = profile.new_page()
    page.goto(tabs.address)
    expect(page.locator("#start")).to_be_enabled()
    yield page
    profile.close()


def test_the_browser_chooses_the_language_and_the_bar_switches_it(chinese: Page) -> None:
    start = chinese.locator("#start")
    expect(start).to_have_text("开始")
    assert chinese.evaluate("document.documentElement.lang") == "zh-CN"
    words = chinese.locator(".b-chips").first
    before = words.text_content()
    for code, text in (("ko", "시작"), ("en", "Start"), ("zh-CN", "开始")):
        chinese.locator("#language").select_option(code)
        expect(start).to_have_text(text)
        assert chinese.evaluate("document.documentElement.lang") == code
        assert chinese.evaluate("localStorage.getItem('balcony-language')") == code
    assert words.text_content() == before


def test_a_text_that_is_written_later_is_translated_before_it_is_painted(chinese: Page) -> None:
    shown = chinese.evaluate(
        """async () => {
            const box = document.createElement("p"), own = document.createElement("p"), all = [];
            own.translate = false;
            document.body.append(box, own);
            for (const text of ["Start", "step 18", "Romeo and Juliet, quick, step 1,800", "ABC Start", ""]) {
                box.textContent = box.title = own.textContent = text;
                await null;
                await null;
                all.push([box.textContent, box.title, own.textContent]);
            }
            box.remove();
            own.remove();
            return all;
        }"""
    )
    assert shown == [
        ["开始", "开始", "Start"],
        ["第 18 步", "第 18 步", "step 18"],
        ["罗密欧与朱丽叶，快速，第 1,800 步"] * 2 + ["Romeo and Juliet, quick, step 1,800"],
        ["ABC Start"] * 3,
        [""] * 3,
    ]


def test_a_curve_is_named_in_the_language_of_the_page_on_hover(chinese: Page) -> None:
    chinese.wait_for_function("document.querySelector('#run-curves')?.data?.length")
    chinese.locator("#run-curves .nsewdrag").first.hover()
    expect(chinese.locator("#run-curves .hoverlayer")).to_contain_text("掩码词（MLM） ")
    expect(chinese.locator("#run-curves .hoverlayer")).not_to_contain_text("Masked")
