"""The scripts of assets/js: ES modules for the page, or all modules of one entry in one piece for a page on disk.

The page's modules have an address with a fingerprint of their content, so that a browser may keep them for good and
an updated program is never served with old scripts.
"""

import functools
import hashlib
import json
import posixpath
import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

ASSETS = Path(__file__).resolve().parents[2] / "assets"
ENTRY = "main.js"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
_COMMENT = re.compile(r"/\*\*(?:[^*]|\*(?!/))*\*/[ \t]*|^[ \t]*//.*\n", re.MULTILINE)
_INDENT = re.compile(r"^\s+", re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const) (\w+)", re.MULTILINE)


@functools.cache
def sources() -> dict[str, str]:
    """Every script by its path below assets/js, read once: a running program keeps serving what it started with."""
    folder = ASSETS / "js"
    return {
        path.relative_to(folder).as_posix(): bare(path.read_text(encoding="utf-8")) for path in folder.rglob("*.js")
    }


def bare(script: str) -> str:
    """A script without its comments and indentation, a third of it. A // comment goes if it has a line of its own."""
    return _INDENT.sub("", _COMMENT.sub("", script))


def address() -> str:
    """Where the page finds the scripts, relative to its own address."""
    content = json.dumps(sorted(sources().items())).encode()
    return f"balcony/scripts/{hashlib.sha256(content).hexdigest()[:16]}"


def modules(entry: str) -> list[str]:
    """The scripts that an entry needs, each after those that it imports, the entry last."""
    found: dict[str, None] = {}

    def add(name: str) -> None:
        for _, imported in _IMPORT.findall(sources()[name]):
            add(_resolve(name, imported))
        found.setdefault(name)

    add(entry)
    return list(found)


def tags() -> str:
    """HTML that loads the page's scripts; the preload links fetch all modules at once, not import by import."""
    names = modules(ENTRY)
    links = [f'<link rel="modulepreload" href="{address()}/{name}">' for name in names]
    return "\n".join([*links, f'<script type="module" src="{address()}/{ENTRY}"></script>'])


def scripts_route() -> Route:
    """GET address()/name answers with a script."""

    async def answer(request: Request) -> Response:
        source = sources().get(request.path_params["name"])
        if source is None:
            return Response("There is no such script.", 404)
        keep = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(source, media_type="text/javascript", headers=keep)

    return Route(f"/{address()}/{{name:path}}", answer)


def in_one_piece(entry: str) -> str:
    """An entry and its modules as one classic script: a page that is opened from disk may not import.

    Each module becomes a function that returns what it exports, so names of two modules do not collide.
    """

    def imported(match: re.Match[str], name: str) -> str:
        return f"const {{{match[1].replace(' as ', ': ')}}} = modules[{json.dumps(_resolve(name, match[2]))}];"

    parts = ['"use strict";\nconst modules = {};']
    for name in modules(entry):
        exported = ", ".join(found for _, found in _EXPORT.findall(sources()[name]))
        source = _IMPORT.sub(functools.partial(imported, name=name), sources()[name])
        source = _EXPORT.sub(r"\1 \2", source)
        parts.append(f"modules[{json.dumps(name)}] = (() => {{\n{source}return {{ {exported} }};\n}})();")
    return "\n".join(parts)


def _resolve(name: str, imported: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), imported))
