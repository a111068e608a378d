"""The scripts of the page: each served as its file, small, at an address that follows the content of all of them."""

import posixpath
import re
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from balcony.server import served
from bert_core.show import asset, modules

# Of scripts and style sheet together, before compression.
OFFLINE = "attention/saved_page.js"  # the entry of saved pages
UI = Path(__file__).resolve().parent.parent.parent / "balcony"


def views() -> set[str]:
    """The scripts of the views that Python names."""
    sources = "".join(path.read_text(encoding="utf-8") for path in UI.rglob("*.py"))
    return {f"{name}.js" for name in re.findall(r'\bview\(\s*"([^"]+)"', sources)}


@pytest.fixture
def sources(monkeypatch) -> dict[str, str]:
    """Four small scripts in place of those of the page."""
    small = {
        "main.js": 'import {\n  b as c,\n} from "./parts/b.js";\nimport { a } from "./a.js";\nimport("./later.js");\n',
        "parts/b.js": '// import { no } from "./no.js";\nimport { a } from "../a.js";\n\nexport const b = a + 1;\n',
        "a.js": "export const a = 1;\n",
        "later.js": 'import "./main.js";\n',
    }
    monkeypatch.setattr(served, "sources", lambda: small)
    return small


def test_the_head_names_every_module_that_the_entry_imports_once(sources, monkeypatch):
    monkeypatch.setattr(served, "FIRST", ("parts/",))
    assert sorted(served.needed()) == ["a.js", "main.js", "parts/b.js"]
    assert sorted(served.needed("later.js")) == ["a.js", "later.js", "main.js", "parts/b.js"]
    below = served.folder()
    links = re.findall(r'<link rel="modulepreload" href="([^"]+)">', served.links())
    assert links == [f"{below}/{name}" for name in ("a.js", "main.js", "parts/b.js")]
    assert f'src="{below}/main.js"' in served.tag()


@pytest.mark.parametrize("name", ["a.js", "later.js"])
def test_the_address_changes_with_any_script(sources, name):
    before = served.folder()
    assert served.folder() == before
    sources[name] += "show();\n"
    assert served.folder() != before


def test_every_file_is_served_for_good_and_compressed_for_whoever_can_read_that():
    client = TestClient(Starlette(routes=[served.script_route()]))
    for name, text in (served.sources() | served.locales()).items():
        sizes = []
        for encoding in ("gzip, deflate, br", "identity"):
            answer = client.get(f"/{served.folder()}/{name}", headers={"Accept-Encoding": encoding})
            assert answer.text == text
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["content-type"] == (
                "application/json" if name.endswith("json") else "text/javascript"
            )
            sizes.append(int(answer.headers["content-length"]))
        assert sizes[0] < sizes[1] == len(text.encode()), name
    assert client.get(f"/{served.folder()}/none.js").status_code == 404
    assert client.get("/balcony/0123456789abcdef/main.js").status_code == 404


def test_every_import_names_a_script_and_every_script_is_used():
    found = re.compile(r'\bfrom "(\.[^"]+)"|\bimport\("(\.[^"]+)"\)|^import "(\.[^"]+)"', re.MULTILINE)
    for name, source in served.sources().items():
        named = {
            posixpath.normpath(posixpath.join(posixpath.dirname(name), "".join(each))) for each in found.findall(source)
        }
        assert named <= served.sources().keys(), name
    used = {name for entry in (served.ENTRY, OFFLINE, *views()) for name in modules(entry)}
    assert used == served.sources().keys()


def test_every_view_is_the_function_of_that_name_in_its_script():
    assert len(views()) > 20
    for name in views():
        assert re.search(r"^export (function|const) view\b", served.sources()[name], re.MULTILINE), name


def test_style_sheets_can_stand_in_a_page():
    assert "</" not in asset("css/balcony.css") + asset("css/class.css")
