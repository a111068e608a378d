"""The scripts of assets/js: all modules that the page's entry needs are one piece.

What the entry fetches later, with `import()`, are pieces of their own. The addresses of all pieces have one
fingerprint of their content, so that a browser may keep them for good and an updated program is never served with an
old script.
"""

import functools
import hashlib
import posixpath
import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bert_core.config import ASSETS
from bert_core.pages.offline import resolved

ENTRY = "main.js"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
_LATER = re.compile(r'(?:=>|await) import\("([^"]+)"\)')
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
            add(resolved(name, imported))
        found.setdefault(name)

    add(entry)
    return list(found)


def pieces() -> dict[str, str]:
    """The page's scripts by their paths below assets/js: ENTRY with the modules that it needs, and every script that
    one of them fetches later, with those that did not come at first."""
    first = modules(ENTRY)
    fetched = {resolved(module, path) for module in first for path in _LATER.findall(sources()[module])}
    later = {piece: [module for module in modules(piece) if module not in first] for piece in sorted(fetched)}
    needs = {
        piece: {_outer(of, name) for each in new for _, of, name in _imports(each) if of in first}
        for piece, new in later.items()
    }
    shared = sorted(set().union(*needs.values()))
    found = {ENTRY: f"export const shared = (() => {{\n{joined(first)}return [{', '.join(shared)}];\n}})();"}
    for piece, new in later.items():
        names, given = _exports(piece), ", ".join(name if name in needs[piece] else "" for name in shared)
        found[piece] = (
            f'import {{ shared }} from "{posixpath.relpath(ENTRY, posixpath.dirname(piece))}";\n'
            f"export const [{', '.join(names)}] = (([{given}]) => {{\n{joined(new)}"
            f"return [{', '.join(_outer(piece, name) for name in names)}];\n}})(shared);"
        )
    return found


def locales() -> dict[str, str]:
    """The texts of the page in other languages, by their paths below assets."""
    return {f"locales/{path.name}": path.read_text(encoding="utf-8") for path in (ASSETS / "locales").glob("*.json")}


def joined(names: list[str]) -> str:
    """Modules, each after those that it imports, as one script.

    Each becomes a function from what it imports to what it exports, so names of two modules do not collide.
    """
    parts = []
    for module in names:
        imports, exports = _imports(module), _exports(module)
        source = _EXPORT.sub(r"\1 \2", _IMPORT.sub("", sources()[module]))
        for path in _LATER.findall(source):  # from the address of the page's script
            source = source.replace(f'import("{path}")', f'import("./{resolved(module, path)}")')
        parts.append(
            f"const [{', '.join(_outer(module, name) for name in exports)}] = "
            f"(({', '.join(local for local, _, _ in imports)}) => {{\n{source}return [{', '.join(exports)}];\n"
            f"}})({', '.join(_outer(of, name) for _, of, name in imports)});\n"
        )
    return "".join(parts)


def folder(scripts: dict[str, str]) -> str:
    """Where the page finds its pieces, relative to its own address."""
    return f"balcony/{hashlib.sha256(''.join(scripts.values()).encode()).hexdigest()[:16]}"


def tag(scripts: dict[str, str]) -> str:
    """HTML that loads the first of the pieces."""
    return f'<script type="module" src="{folder(scripts)}/{ENTRY}"></script>'


def script_route(scripts: dict[str, str]) -> Route:
    """GET answers with a piece."""

    async def answer(request: Request) -> Response:
        script = scripts.get(request.path_params["piece"])
        if script is None:
            return Response("There is no such script.", 404)
        keep = {"Cache-Control": "public, max-age=31536000, immutable"}
        kind = "application/json" if request.path_params["piece"].endswith(".json") else "text/javascript"
        return Response(script, media_type=kind, headers=keep)

    return Route(f"/{folder(scripts)}/{{piece:path}}", answer)


def _imports(module: str) -> list[tuple[str, str, str]]:
    """What a module imports: the name in it, the module from which, and the name there."""
    found = []
    for names, path in _IMPORT.findall(sources()[module]):
        for each in filter(None, map(str.strip, names.split(","))):
            name, _, local = each.partition(" as ")
            found.append((local or name, resolved(module, path), name))
    return found


def _exports(module: str) -> list[str]:
    return [name for _, name in _EXPORT.findall(sources()[module])]


def _outer(module: str, name: str) -> str:
    """The name outside of its module."""
    return name + re.sub(r"\W", "$", f"${module.removesuffix('.js')}")
