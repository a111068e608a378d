"""The scripts of assets/js and the style sheet, minified: all modules that an entry needs are served in one piece.

The page's script has an address with a fingerprint of its content, so that a browser may keep it for good and an
updated program is never served with an old script.
"""

import functools
import hashlib
import posixpath
import re
from pathlib import Path

import minify
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

ASSETS = Path(__file__).resolve().parents[2] / "assets"
ENTRY = "main.js"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const) (\w+)", re.MULTILINE)


@functools.cache
def sources() -> dict[str, str]:
    """Every script by its path below assets/js, read once: a running program keeps serving what it started with."""
    folder = ASSETS / "js"
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.js")}


def modules(entry: str) -> list[str]:
    """The scripts that an entry needs, each after those that it imports, the entry last."""
    found: dict[str, None] = {}

    def add(name: str) -> None:
        for _, imported in _IMPORT.findall(sources()[name]):
            add(_resolve(name, imported))
        found.setdefault(name)

    add(entry)
    return list(found)


def joined(entry: str) -> str:
    """An entry and its modules as one classic script, which a page on disk may contain: it may not import.

    Each module becomes a function from what it imports to what it exports, so names of two modules do not collide.
    """
    names = modules(entry)

    def outer(module: str, name: str) -> str:
        return f"{name}${names.index(module)}"

    parts = []
    for module in names:
        source = sources()[module]
        given = {}  # the name in this module: the name outside
        for imported, path in _IMPORT.findall(source):
            for each in filter(None, map(str.strip, imported.split(","))):
                name, _, local = each.partition(" as ")
                given[local or name] = outer(_resolve(module, path), name)
        exported = [name for _, name in _EXPORT.findall(source)]
        source = _EXPORT.sub(r"\1 \2", _IMPORT.sub("", source))
        parts.append(
            f"const [{', '.join(outer(module, name) for name in exported)}] = (({', '.join(given)}) => {{\n"
            f"{source}return [{', '.join(exported)}];\n}})({', '.join(given.values())});\n"
        )
    return f'(() => {{\n"use strict";\n{"".join(parts)}}})();'


def in_one_piece(entry: str) -> str:
    """The same, minified."""
    return minify.string("application/javascript", joined(entry))


def style_sheet() -> str:
    """The style sheet of our own components, minified."""
    return minify.string("text/css", (ASSETS / "css" / "balcony.css").read_text(encoding="utf-8"))


def address() -> str:
    """Where the page finds its script, relative to its own address."""
    return f"balcony/{hashlib.sha256(in_one_piece(ENTRY).encode()).hexdigest()[:16]}.js"


def tag() -> str:
    """HTML that loads the page's script."""
    return f'<script type="module" src="{address()}"></script>'


def script_route() -> Route:
    """GET address() answers with the script."""
    script = in_one_piece(ENTRY)

    async def answer(request: Request) -> Response:
        keep = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(script, media_type="text/javascript", headers=keep)

    return Route(f"/{address()}", answer)


def _resolve(name: str, imported: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), imported))
