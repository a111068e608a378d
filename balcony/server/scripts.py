"""The scripts of the page, served as the files that they are, with the texts of the page in other languages.

Their addresses have one fingerprint of all that is served, so that a browser may keep it for good and an updated
program is never served with an old script. The page's head names the modules that its entry imports: the browser
fetches them at once, and does not have to read one to find the next.
"""

import functools
import hashlib
import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from balcony.server.pages import Packed
from bert_core.config import ASSETS, PAGE
from bert_core.show import resolved

ENTRY = "main.js"
FIRST = ("frame/", "lessons/lesson_bar.js", "train/")  # with the views of the page's beginning
_IMPORT = re.compile(r'^import (?:[^;"]* from )?"(\.[^"]+)";$', re.MULTILINE)


@functools.cache
def sources() -> dict[str, str]:
    """Every script by its path below balcony, read once: a running program keeps serving what it started with."""
    return {path.relative_to(PAGE).as_posix(): path.read_text(encoding="utf-8") for path in PAGE.rglob("*.js")}


@functools.cache
def locales() -> dict[str, str]:
    """The texts of the page in other languages, by their paths below assets."""
    return {f"locales/{path.name}": path.read_text(encoding="utf-8") for path in (ASSETS / "locales").glob("*.json")}


def needed(entry: str = ENTRY) -> list[str]:
    """An entry and the scripts that it cannot begin without."""
    found = [entry]
    for name in found:  # which grows
        found += {resolved(name, path) for path in _IMPORT.findall(sources()[name])} - {*found}
    return found


def folder() -> str:
    """Where the page finds its scripts, relative to its own address."""
    served = sorted((sources() | locales()).items())
    return f"balcony/{hashlib.sha256(repr(served).encode()).hexdigest()[:16]}"


def tag() -> str:
    """HTML that loads the entry."""
    return f'<script type="module" src="{folder()}/{ENTRY}"></script>'


def links() -> str:
    """HTML for the document's head: the browser fetches at once the entry, the views of FIRST, and what they need."""
    below, entries = folder(), [ENTRY, *(name for name in sources() if name.startswith(FIRST))]
    first = set().union(*map(needed, entries))
    return "".join(f'<link rel="modulepreload" href="{below}/{name}">' for name in sorted(first))


def script_route() -> Route:
    """GET answers with a script, or with texts."""
    keep = {"Cache-Control": "public, max-age=31536000, immutable"}
    kinds = {"text/javascript": sources(), "application/json": locales()}
    answers = {
        name: Packed(text.encode(), keep | {"Content-Type": kind})
        for kind in kinds
        for name, text in kinds[kind].items()
    }

    async def answer(request: Request) -> Packed | Response:
        return answers.get(request.path_params["name"]) or Response("There is no such script.", 404)

    return Route(f"/{folder()}/{{name:path}}", answer)
