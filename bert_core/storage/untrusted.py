"""Reads untrusted files: with a size limit, as JSON, never as a pickle."""

import functools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bert_core.config import LOCAL, Limits
from bert_core.errors import CheckpointError, megabytes, quoted

Json = dict[str, Any]  # an object in a JSON file
Kind = TypeVar("Kind")

MAX_JSON_BYTES = 32 * 2**20  # a tokenizer.json of 250,000 tokens has about 10 MB
DEEPEST = 200  # lists and objects within each other
_READINGS = 20  # of a file that is replaced meanwhile


def read_limited(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes. Raises CheckpointError."""
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


def read_json(path: Path, limits: Limits = LOCAL, most_bytes: int = MAX_JSON_BYTES) -> Json:
    """The object in a JSON file of at most `most_bytes`. Raises CheckpointError as `parse_json` does."""
    return parse_json(read_limited(path, min(most_bytes, limits.upload_bytes)), path.name, limits.items)


def parse_json(data: bytes, name: str, most_values: int = LOCAL.items) -> Json:
    """The object in JSON bytes of at most `most_values` values. Raises CheckpointError with the name of
    the file for what `parse_value` refuses and for anything but an object."""
    try:
        content = parse_value(data.decode("utf-8-sig"), most_values)
    except ValueError as error:
        reason = f" ({error})" if isinstance(error, Refused) else ""
        raise CheckpointError(f"{name} is not valid JSON{reason}; download or export it again.") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{name} does not hold a JSON object; download or export it again.")
    return content


def parse_value(text: str, most_values: int) -> object:
    """The value in a JSON text.

    Raises json.JSONDecodeError, and its base class ValueError as `Refused` with the reason for what Python's reader
    accepts and this program does not: more than `most_values` values, values nested too deep, repeated names, NaN,
    infinity and numbers of more than 100 characters.
    """
    # Counted before anything is built; a string's commas count too. An escaped character takes a quarter of the time.
    marks = (text.count(mark, start, start + 2**20) for start in range(0, len(text), 2**20) for mark in ",[{")
    count = sum(marks) + text.count("\\") // 4
    if count > most_values:
        raise Refused(f"about {count:,} values are more than the limit of {most_values:,}")
    try:
        return _shallow(
            json.loads(
                text,
                object_pairs_hook=_without_repeats,
                parse_int=functools.partial(_short, int),
                parse_float=functools.partial(_short, float),
                parse_constant=_refuse_nan,
            )
        )
    except RecursionError:
        raise Refused("its values are nested too deep") from None


def part(content: Json, name: str, kind: type[Kind], default: Kind) -> Kind:
    """An entry of an object if it is of this kind."""
    value = content.get(name)
    return value if isinstance(value, kind) else default


def _shallow(value: object) -> object:
    """The value, if it is nested no more than DEEPEST times. How deep Python itself reads differs from one to the next,
    and what it has read may still be too deep to be shown."""
    level = [value]
    for _ in range(DEEPEST + 1):
        nested = [each for each in level if isinstance(each, dict | list)]
        level = [each for items in nested for each in (items.values() if isinstance(items, dict) else items)]
        if not level:
            return value
    raise Refused("its values are nested too deep")


class Refused(ValueError):
    """JSON that Python's reader accepts and this program does not, with the reason."""


def _without_repeats(pairs: list[tuple[str, object]]) -> Json:
    content = dict(pairs)
    if len(content) != len(pairs):
        repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise Refused(f"the name {quoted(repeated)} occurs twice")
    return content


def _short(kind: Callable[[str], float], digits: str) -> float:
    if len(digits) > 100:
        raise Refused("a number has more than 100 digits")
    return kind(digits)


def _refuse_nan(name: str) -> None:
    raise Refused(f"{name} is not a number")
