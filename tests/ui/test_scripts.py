"""The pieces of the script: no module missing, none twice, small, at an address that follows their content."""

import re

import pytest

from bert_core.pages.offline import style_sheet
from ui.server import scripts

# Of scripts and style sheet together, before compression.
MOST_BYTES_AT_FIRST = 244_000
MOST_BYTES = 362_000
MOST_BYTES_OF_A_CLASS = 26_000  # which only the pages of a class fetch


@pytest.fixture
def sources(monkeypatch) -> dict[str, str]:
    """Three small scripts in place of those of the page."""
    small = {
        "main.js": 'import { b as c } from "./parts/b.js";\nimport { a } from "./a.js";\n\nshow(a, c);\n',
        "parts/b.js": 'import { a } from "../a.js";\n\nexport const b = a + 1;\nexport async function wait() {}\n',
        "a.js": "export const a = 1;\n",
        "unused.js": "",
    }
    monkeypatch.setattr(scripts, "sources", lambda: small)
    return small


def test_modules_come_after_what_they_import_and_once(sources):
    assert scripts.modules("main.js") == ["a.js", "parts/b.js", "main.js"]


def test_joined_modules_have_no_import_and_keep_names_apart(sources):
    assert scripts.joined(scripts.modules("main.js")) == (
        "const [a$a] = (() => {\nconst a = 1;\nreturn [a];\n})();\n"
        "const [b$parts$b, wait$parts$b] = "
        "((a) => {\n\n\nconst b = a + 1;\nasync function wait() {}\nreturn [b, wait];\n})(a$a);\n"
        "const [] = ((c, a) => {\n\n\n\nshow(a, c);\nreturn [];\n})(b$parts$b, a$a);\n"
    )


def test_a_piece_that_is_fetched_later_shares_the_modules_of_the_first(sources):
    sources["a.js"] = 'export const a = async () => (await import("./parts/c.js")).c;\n'
    sources["parts/c.js"] = 'import { b } from "./b.js";\nimport { d } from "./d.js";\n\nexport const c = b + d;\n'
    sources["parts/d.js"] = "export const d = 1;\n"
    pieces = scripts.pieces()
    assert list(pieces) == ["main.js", "parts/c.js"]
    assert 'await import("./parts/c.js")' in pieces["main.js"]
    assert pieces["main.js"].endswith("return [b$parts$b];\n})();")
    assert pieces["parts/c.js"] == (
        'import { shared } from "../main.js";\n'
        "export const [c] = (([b$parts$b]) => {\n"
        "const [d$parts$d] = (() => {\nconst d = 1;\nreturn [d];\n})();\n"
        "const [c$parts$c] = ((b, d) => {\n\n\n\nconst c = b + d;\nreturn [c];\n})(b$parts$b, d$parts$d);\n"
        "return [c$parts$c];\n})(shared);"
    )


@pytest.mark.parametrize("name", ["a.js", "parts/c.js"])
def test_the_address_changes_with_any_script(sources, name):
    sources["a.js"] = 'export const a = () => import("./parts/c.js");\n'
    sources["parts/c.js"] = "export const c = 1;\n"
    before = scripts.folder(scripts.pieces())
    assert scripts.folder(scripts.pieces()) == before
    sources[name] += "show();\n"
    assert scripts.folder(scripts.pieces()) != before


def test_every_script_of_the_page_is_understood_and_used():
    """An import or export in another form would be lost."""
    first, *later = map(scripts.modules, scripts.pieces())
    fetched = [name for names in later for name in names if name not in first]
    assert {*first, *fetched, *scripts.modules("attention/page.js")} == set(scripts.sources())
    assert len(fetched) == len(set(fetched)), "a module of two pieces would have two states"
    for name, source in scripts.sources().items():
        forms = len(scripts._IMPORT.findall(source)), len(scripts._EXPORT.findall(source))
        assert forms == tuple(len(re.findall(rf"^{word}\b", source, re.MULTILINE)) for word in ("import", "export")), (
            name
        )


def test_folders_of_scripts_have_at_most_nine():
    folders = [name.rpartition("/")[0] for name in scripts.sources()]
    assert max(folders.count(folder) for folder in folders) <= 9


def test_scripts_and_style_sheet_are_small_and_can_stand_in_a_page():
    pieces, style = scripts.pieces(), style_sheet()
    of_class = pieces.pop("class/room.js") + style_sheet("class")
    first, *later = pieces.values()
    assert len((style + first).encode()) <= MOST_BYTES_AT_FIRST
    assert len("".join([style, first, *later]).encode()) <= MOST_BYTES
    assert len(of_class.encode()) <= MOST_BYTES_OF_A_CLASS
    assert "</" not in style + of_class
