"""The page in Chinese and Korean: chosen by the browser, switched in the bar, without a reload."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from browser_steps import VIEWPORT, Tabs, expect_seen
from playwright.sync_api import Page, expect
from test_every_tab_translated import is_english

from balcony.compare.definitions import MEASURES, Experiment, Marks, answer, load_experiments


def each_marks(k: int) -> Marks:
    """Of a variant: each is better than the one before, and takes longer."""
    numbers = dict.fromkeys(MEASURES, 0.3 + k / 10) | {"seconds": 1.0 + k}
    return Marks(numbers, {"mlm": 0.1, "nsp": 0.2, "task": 0.1}, "questions")


@pytest.fixture(scope="module")
def chinese(tabs: Tabs) -> Iterator[Page]:
    """The page of a visitor whose browser asks for Chinese."""
    profile = tabs.browser.new_context(viewport=VIEWPORT, locale="zh-CN")
    page = profile.new_page()
    page.goto(tabs.address)
    expect(page.locator("#start")).to_be_enabled()
    expect(page.locator("#start")).to_have_text("开始")
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


def test_a_text_that_begins_with_a_term_changes_with_the_language(chinese: Page) -> None:
    names = chinese.locator("#run-monitor dt")
    texts = {"zh-CN": "MLM 损失，此步", "ko": "MLM 손실, 이 스텝", "en": "MLM loss, this step"}
    for code in (*texts, "zh-CN"):
        chinese.locator("#language").select_option(code)
        expect(names.nth(1)).to_have_text(texts[code])
        expect(names.nth(1).locator(".b-term")).to_have_count(2)
    names.nth(1).locator(".b-term", has_text="损失").focus()
    expect_seen(chinese.locator(".b-tip[aria-hidden]"), "损失：−ln p", in_window=True)


def test_a_text_that_is_written_later_is_translated_before_it_is_painted(chinese: Page) -> None:
    shown = chinese.evaluate(
        """async () => {
            const box = document.createElement("p"), own = document.createElement("p"), all = [];
            own.translate = false;
            document.body.append(box, own);
            for (const text of ["Start", "step 18", "Romeo and Juliet, quick, step 1,800",
                    "Words cut after 100 characters: 12; 3% of the text is left out.",
                    "Line 2 of Your examples has an empty tag; text-regression needs a number, such as 0.5.",
                    "ABC Start", ""]) {
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
        ["超过 100 个字符的词已截断：12 个；略去了文本的 3%。"] * 2
        + ["Words cut after 100 characters: 12; 3% of the text is left out."],
        ["您的样本的第 2 行：有空标记；文本回归需要数字，例如 0.5。"] * 2
        + ["Line 2 of Your examples has an empty tag; text-regression needs a number, such as 0.5."],
        ["ABC Start"] * 3,
        [""] * 3,
    ]


def test_what_one_answer_for_all_would_get_is_translated_with_its_measures(chinese: Page) -> None:
    said = [
        "Always answering 'a' would get accuracy 0.500, f1 0.000, matthews correlation 0.000 on the 4 examples of the "
        "held-out part of own.tsv.",
        "Always answering choice 3 (label 2) would get accuracy 0.270 on the 1,100 examples of swag.csv.",
        "Always answering that there is no answer would get exact match 0.1, f1 0.1 on the 10 examples of dev.json.",
        "Always answering 2.5 would get pearson 0.000, spearman 0.000 on the 9 examples of sts.tsv.",
        "Run 3 · \u2068own.tsv\u2069",
    ]
    shown = chinese.evaluate(
        """async (texts) => Promise.all(texts.map(async (text) => {
            const box = document.createElement("p");
            document.body.append(box);
            box.textContent = text;
            await null;
            await null;
            box.remove();
            return box.textContent;
        }))""",
        said,
    )
    assert shown[:2] == [
        "在 own.tsv 的留出部分的 4 个样本上，总是回答 'a' 会得到：准确率 0.500，F1 0.000，马修斯相关系数 0.000。",
        "在 swag.csv 的 1,100 个样本上，总是回答第 3 个选项（标签 2）会得到：准确率 0.270。",
    ]
    assert [text for text in shown[2:] if any(word in text for word in ("Always", "exact", "pearson", "Run"))] == []


def with_a_measure(experiment: Experiment) -> Experiment:
    """As it has when it begins."""
    contrasts = [replace(each, measure=each.measure.replace("task", "accuracy")) for each in experiment.contrasts]
    return replace(experiment, contrasts=tuple(contrasts))


def test_what_experiments_answer_is_translated_as_a_whole(chinese: Page) -> None:
    better = [[[each_marks(k)] * n for k in range(6)] for n in (1, 3)]
    failing = [[[each_marks(k)] * n for k in (3, -2, -2, -2, -2, -2)] for n in (1, 3)]
    unsettled = [[each_marks(k + seed) for seed in (3, 0, 2)] for k in (0, 1, 0, 1, 0, 1)]
    sides = [*better, *failing, unsettled]
    said = [answer(with_a_measure(each), side) for each in load_experiments() for side in sides]
    shown = chinese.evaluate(
        """async (texts) => {
            const box = document.createElement("p"), all = [];
            document.body.append(box);
            for (const text of texts) {
                box.textContent = text;
                await null;
                await null;
                all.push(box.textContent);
            }
            box.remove();
            return all;
        }""",
        said,
    )
    assert [text for text in shown if is_english(text)] == []


def test_a_curve_is_named_in_the_language_of_the_page_on_hover(chinese: Page) -> None:
    chinese.wait_for_function("document.querySelector('#run-curves')?.data?.length")
    chinese.locator("#run-curves .nsewdrag").first.hover()
    expect_seen(chinese.locator("#run-curves .hoverlayer"), "掩码词（MLM） ")
    expect_seen(chinese.locator("#run-curves .hoverlayer"), "，已平滑")
    expect(chinese.locator("#run-curves .hoverlayer")).not_to_contain_text("Masked")
