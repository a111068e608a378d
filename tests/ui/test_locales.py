"""The texts of the page in other languages: the same in each, with the same holes, and none is missing."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from ui.server.scripts import ASSETS, locales

TEXTS = {Path(name).stem: json.loads(text) for name, text in locales().items()}


def holes(text: str) -> Counter[str]:
    """The holes of a text; that of the second number, {2}, counts as one of a number."""
    return Counter(re.sub(r"\{\d+\}", "{}", hole) for hole in re.findall(r"\{\w*\}", text))


def test_the_languages_have_the_same_keys() -> None:
    assert list(TEXTS["zh"]) == list(TEXTS["ko"])


@pytest.mark.parametrize("language", TEXTS)
def test_a_translation_has_the_holes_of_its_key(language: str) -> None:
    assert {key: text for key, text in TEXTS[language].items() if not text or holes(text) != holes(key)} == {}
    numbered = [text for text in TEXTS[language].values() if re.search(r"\{\d", text)]
    for text in numbered:
        numbers = sorted(int(number) for number in re.findall(r"\{(\d+)\}", text))
        assert numbers == list(range(1, len(numbers) + 1)), text


@pytest.mark.parametrize(("language", "script"), [("zh", r"[\u4e00-\u9fff]"), ("ko", r"[\uac00-\ud7a3]")])
def test_a_translation_is_in_its_script(language: str, script: str) -> None:
    """But for names, such as PNG, and what is written with marks alone."""
    same = [key for key, text in TEXTS[language].items() if not re.search(script, text)]
    assert [key for key in same if len(re.findall("[a-z]{2,}", key)) > 2] == []


def test_the_files_of_texts_are_served_with_the_scripts() -> None:
    assert set(locales()) == {f"locales/{path.name}" for path in (ASSETS / "locales").iterdir()}
