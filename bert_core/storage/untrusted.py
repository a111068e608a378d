"""Reads untrusted files: with a size limit, as JSON, never as a pickle."""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from bert_core.errors import CheckpointError, megabytes, quoted

Json = dict[str, Any]  # an object in a JSON file
Fields = TypeVar("Fields", bound=BaseModel)

MAX_JSON_BYTES = 32 * 2**20  # a tokenizer.json of 250,000 tokens has about 10 MB
_MOST_PARTS = 1_000_000  # each takes 30 times its bytes; SQuAD has half a million


def read_limited(path: Path, most: int) -> bytes:
    """The content of a file of at most so many bytes. Raises CheckpointError for a larger one, or none."""
    try:
        if not path.is_file():
            raise CheckpointError(f"{path.name} is missing; a model folder needs it.")
        if path.stat().st_size > most:
            raise CheckpointError(f"{path.name} is larger than the limit of {megabytes(most)}; choose a BERT model.")
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read ({error.strerror}); check the folder.") from None


def parse_json(data: bytes, name: str) -> Json:
    """The object in the JSON bytes of a file. Raises CheckpointError for anything else; see `parse_value`."""
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


def parse_fields(fields: type[Fields], content: object, name: str) -> Fields:
    """The fields of a JSON object. Raises CheckpointError that names the file and the first field that does not fit."""
    try:
        return fields.model_validate(content, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        found = f"{'.'.join(map(str, first['loc']))} {quoted(first['input'])}"
        raise CheckpointError(
            f"{name} has {found}, which cannot be used: {first['msg'].removeprefix('Value error, ')}."
        ) from None
