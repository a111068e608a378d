"""Reads untrusted files: with a size limit, as JSON, never as a pickle."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import from_json

from bert_core.config import LOCAL, Limits
from bert_core.errors import CheckpointError, megabytes

Json = dict[str, Any]  # an object in a JSON file
Kind = TypeVar("Kind")

MAX_JSON_BYTES = 32 * 2**20  # a tokenizer.json of 250,000 tokens has about 10 MB
_MOST_PARTS = 1_000_000  # each takes 30 times its bytes; SQuAD has half a million
_READINGS = 20  # of a file that is replaced meanwhile


def read_limited(path: Path, limits: Limits = LOCAL) -> bytes:
    """The content of a regular file that is no larger than JSON may be. Raises CheckpointError."""
    limit = min(MAX_JSON_BYTES, limits.upload_bytes)
    try:
        if not path.is_file():
            raise CheckpointError(f"{path.name} is missing; a model folder needs it.")
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read ({error.strerror}); check the folder.") from None
    if len(data) > limit:
        raise CheckpointError(f"{path.name} is larger than the limit of {megabytes(limit)}; choose a BERT model.")
    return data


def while_same(path: Path, read: Callable[[], Kind]) -> Kind:
    """What `read` returns or raises; it is called again where the file at this path was replaced meanwhile."""
    for _ in range(_READINGS):
        before = _identity(path)
        try:
            found = read()
        except Exception:
            if _identity(path) == before:
                raise
        else:
            if _identity(path) == before:
                return found
    raise CheckpointError(f"{path.name} is replaced again and again while it is read; open it when that has ended.")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns


def parse_json(data: bytes, name: str) -> Json:
    """The object in JSON bytes. Raises CheckpointError with the name of the file for what `parse_value` refuses and for
    anything but an object."""
    try:
        content = parse_value(data.decode("utf-8-sig"))
    except ValueError as error:
        raise CheckpointError(f"{name} is not valid JSON ({error}); download or export it again.") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{name} does not hold a JSON object; download or export it again.")
    return content


def parse_value(text: str) -> object:
    """The value in a JSON text. Raises ValueError with the reason, also for NaN, infinity, halves of characters, more
    than a million lists and objects, and values nested more than 200 times."""
    if (count := text.count("[") + text.count("{")) > _MOST_PARTS:
        raise ValueError(f"about {count:,} lists and objects are more than the limit of {_MOST_PARTS:,}")
    return from_json(text, allow_inf_nan=False)


def part(content: Json, name: str, kind: type[Kind], default: Kind) -> Kind:
    """An entry of an object if it is of this kind."""
    value = content.get(name)
    return value if isinstance(value, kind) else default
