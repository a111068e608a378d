"""The scripts in one piece: none missing, none twice, small, at an address that follows their content."""

import re

import pytest

from ui.server import scripts

MOST_BYTES = 157_000  # of script and style sheet together, before compression


@pytest.fixture
def sources(monkeypatch) -> dict[str, str]:
    """Three small scripts in place of those of the page."""
    small = {
        "main.js": 'import { a, b as c } from "./parts/b.js";\nimport { a } from "./a.js";\n\nshow(a, c);\n',
        "parts/b.js": 'import { a } from "../a.js";\n\nexport const b = a + 1;\nexport async function wait() {}\n',
        "a.js": "export const a = 1;\n",
        "unused.js": "",
    }
    monkeypatch.setattr(scripts, "sources", lambda: small)
    return small


def test_modules_come_after_what_they_import_and_once(sources):
    assert scripts.modules("main.js") == ["a.js", "parts/b.js", "main.js"]


def test_one_piece_has_no_import_and_keeps_names_apart(sources):
    assert scripts.joined("main.js") == (
        '(() => {\n"use strict";\n'
        "const [a$0] = (() => {\nconst a = 1;\nreturn [a];\n})();\n"
        "const [b$1, wait$1] = ((a) => {\n\n\nconst b = a + 1;\nasync function wait() {}\nreturn [b, wait];\n})(a$0);\n"
        "const [] = ((a, c) => {\n\n\n\nshow(a, c);\nreturn [];\n})(a$0, b$1);\n"
        "})();"
    )


def test_the_address_changes_with_any_script(sources):
    before = scripts.address()
    assert scripts.address() == before
    sources["a.js"] = "export const a = 2;\n"
    assert scripts.address() != before


def test_every_script_of_the_page_is_understood_and_used():
    """An import or export in another form would be lost."""
    used = {*scripts.modules(scripts.ENTRY), *scripts.modules("attention/page.js")}
    assert used == set(scripts.sources())
    for name, source in scripts.sources().items():
        forms = len(scripts._IMPORT.findall(source)), len(scripts._EXPORT.findall(source))
        assert forms == tuple(len(re.findall(rf"^{word}\b", source, re.MULTILINE)) for word in ("import", "export")), (
            name
        )


def test_folders_of_scripts_have_at_most_nine():
    folders = [name.rpartition("/")[0] for name in scripts.sources()]
    assert max(folders.count(folder) for folder in folders) <= 9


def test_script_and_style_sheet_are_small_and_can_stand_in_a_page():
    script, style = scripts.in_one_piece(scripts.ENTRY), scripts.style_sheet()
    assert len(script.encode()) + len(style.encode()) <= MOST_BYTES
    assert "</" not in script + style


def test_no_key_is_a_text_that_the_minifier_takes_for_a_number():
    """It writes {"1.0": a} as {1.0: a}, whose key is "1"."""
    for name, source in scripts.sources().items():
        assert re.findall(r"""["']\d*\.\d*["']\s*[:\]]""", source) == [], name
