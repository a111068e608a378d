"""The scripts as modules and as one piece: none missing, none twice, an address that follows their content."""

import re

import pytest

from ui.server import scripts


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
    assert scripts.in_one_piece("parts/b.js") == (
        '"use strict";\nconst modules = {};\n'
        'modules["a.js"] = (() => {\nconst a = 1;\nreturn { a };\n})();\n'
        'modules["parts/b.js"] = (() => {\nconst { a } = modules["a.js"];\n\n'
        "const b = a + 1;\nasync function wait() {}\nreturn { b, wait };\n})();"
    )
    assert 'const { a, b: c } = modules["parts/b.js"];' in scripts.in_one_piece("main.js")


def test_the_address_changes_with_any_script(sources):
    before = scripts.address()
    assert scripts.address() == before
    sources["a.js"] += " "
    assert scripts.address() != before


def test_every_script_of_the_page_is_understood_and_used():
    """An import or export in another form would be lost in the preload links and in the saved page."""
    used = {*scripts.modules(scripts.ENTRY), *scripts.modules("attention/page.js")}
    assert used == set(scripts.sources())
    for name, source in scripts.sources().items():
        forms = len(scripts._IMPORT.findall(source)), len(scripts._EXPORT.findall(source))
        assert forms == tuple(len(re.findall(rf"^{word}\b", source, re.MULTILINE)) for word in ("import", "export")), (
            name
        )
    assert scripts.tags().count("modulepreload") == len(scripts.modules(scripts.ENTRY))


def test_folders_of_scripts_have_at_most_nine():
    folders = [name.rpartition("/")[0] for name in scripts.sources()]
    assert max(folders.count(folder) for folder in folders) <= 9


def test_a_script_is_served_without_comments_and_keeps_its_code():
    script = (
        "// one\n/**\n * two\n */\nexport const a = /** @type {B} */ (b);\n\n  // three\n  const c = '//d'; // kept\n"
    )
    assert scripts.bare(script) == "export const a = (b);\nconst c = '//d'; // kept\n"
    files = (scripts.ASSETS / "js").rglob("*.js")
    whole = sum(path.stat().st_size for path in files)
    assert sum(len(source.encode()) for source in scripts.sources().values()) < 0.75 * whole
