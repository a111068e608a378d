"""The files of examples: which part each is, the first rows of the training file, and what a person says of both."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from balcony.handlers import MALFORMED, own
from bert_core.errors import CorpusError, InputError
from bert_core.tasks.examples import TASKS
from bert_core.tasks.tables import Columns

LONGEST_FIELD = 200  # characters that are shown
MOST_COLUMNS = 30
NOT_USED = "not used"
PARTS = {"train": "Training file", "validation": "Validation file", "test": "Test file"}
_IN_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "val", "valid", "validation"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}


class Chosen(BaseModel):
    """What a person says. roles: of each column, "text", "second", "label" or "". files: the parts of files, by their
    paths. None: as it is found."""

    roles: list[str] | None = Field(default=None, max_length=1000)
    header: bool | None = None
    separator: str = Field(default="", max_length=20)
    files: dict[str, Literal["train", "validation", "test"]] = Field(default={}, max_length=1000)

    def options(self) -> dict[str, Any]:
        """The arguments of `load_task` for a training file."""
        if self.roles is None:
            return {"has_header": self.header}
        numbers = {role: str(i) for i, role in enumerate(self.roles, 1)}
        columns = [numbers[role] for role in ("text", "second", "label") if role in numbers]
        return {"has_header": self.header, "columns": columns}


def chosen(sent: Any) -> Chosen:
    """What a person says, of the value of the view. Raises InputError for a malformed one."""
    if not isinstance(sent, dict) or not sent.get("chosen"):
        return Chosen()
    try:
        return Chosen.model_validate(sent["chosen"], strict=True)
    except ValidationError:
        raise InputError(MALFORMED) from None


def parts_of(paths: Sequence[str], said: Mapping[str, str]) -> list[str]:
    """Which part each file is: as a person says, or by its name where that names one part; the others are the missing
    parts in their order, and "" if there is none left."""
    words = [re.findall("[a-z]+", Path(path).stem.lower()) for path in paths]
    named = [{_IN_NAMES[word] for word in each if word in _IN_NAMES} for each in words]
    found = [said.get(path) or (min(each) if len(each) == 1 else None) for path, each in zip(paths, named)]
    missing = (part for part in PARTS if part not in found)
    return [part or next(missing, "") for part in found]


def path_of_parts(paths: Sequence[str], said: Mapping[str, str]) -> dict[str, str]:
    """The file of each part. Raises CorpusError for more files than parts, and for two files of one part."""
    if len(paths) > len(PARTS):
        raise CorpusError(f"These are {len(paths)} files; at most three are read, one for each part. Remove others.")
    found: dict[str, str] = {}
    for path, part in zip(paths, parts_of(paths, said)):
        if part in found:
            a, b = (own(Path(each).name) for each in (found[part], path))
            raise CorpusError(f"{a} and {b} are both “{PARTS[part]}”; choose another part beside one of them.")
        found[part] = path
    return found


def columns_value(task: str, paths: Sequence[str], found: Columns | None, said: Chosen) -> dict[str, Any]:
    """The files with their parts, and the first rows of the training file with what each column is, without rows where
    none could be read. The files of some tasks have columns of their own."""
    value = {
        "files": [[Path(path).name, path, part] for path, part in zip(paths, parts_of(paths, said.files))],
        "parts": [*PARTS.items()],
        "chosen": said.model_dump() if said != Chosen() else None,
    }
    usual = TASKS[task].usual
    if usual is None:
        return value
    found = found or Columns([], [], False, [()])
    text, label = (each.removeprefix("the ").replace("one or two texts", "text") for each in usual.what)
    titles = {"text": text, **({"second": "second text"} if usual.most > 1 else {}), "label": label, "": NOT_USED}
    roles = [""] * min(MOST_COLUMNS, len(found.first[0]))
    for role, columns in {"text": found.texts[:1], "second": found.texts[1:], "label": found.label}.items():
        for column in columns:
            if column < len(roles):
                roles[column] = role
    return value | {
        "rows": [[field[:LONGEST_FIELD] for field in row[:MOST_COLUMNS]] for row in found.first],
        "kinds": list(titles.items()),
        "roles": said.roles or roles,
        "header": found.is_named,
        "between": found.between,
    }
