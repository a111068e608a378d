"""The columns of a file of examples: its first rows as a person sees them, and what that person says each column is."""

from typing import Any

from pydantic import BaseModel, Field, ValidationError

from balcony.handlers import MALFORMED
from bert_core.errors import InputError
from bert_core.tasks.examples import TASKS
from bert_core.tasks.tables import Columns

LONGEST_FIELD = 200  # characters that are shown
MOST_COLUMNS = 30
NOT_USED = "not used"


class Chosen(BaseModel):
    """What a person says. roles: of each column, "text", "second", "label" or "". None: as it is found."""

    roles: list[str] | None = Field(default=None, max_length=1000)
    header: bool | None = None
    separator: str = Field(default="", max_length=20)

    def options(self) -> dict[str, Any]:
        """The arguments of `load_task` for a training file."""
        if self.roles is None:
            return {"has_header": self.header}
        numbers = {role: str(i) for i, role in enumerate(self.roles, 1)}
        columns = [numbers[role] for role in ("text", "second", "label") if role in numbers]
        return {"has_header": self.header, "columns": columns}


def chosen(sent: Any, of: str) -> Chosen:
    """What a person says of the columns of a file; nothing if the view shows another one. of: its name. Raises
    InputError for a malformed value."""
    if not isinstance(sent, dict) or sent.get("of") != of or not sent.get("chosen"):
        return Chosen()
    try:
        return Chosen.model_validate(sent["chosen"], strict=True)
    except ValidationError:
        raise InputError(MALFORMED) from None


def columns_value(task: str, of: str, found: Columns | None, said: Chosen) -> dict[str, Any] | None:
    """The first rows of a file, with what each column is, without rows where none could be read; None for a task whose
    files have columns of their own."""
    usual = TASKS[task].usual
    if usual is None:
        return None
    found = found or Columns([], [], False, [()])
    text, label = (each.removeprefix("the ").replace("one or two texts", "text") for each in usual.what)
    titles = {"text": text, **({"second": "second text"} if usual.most > 1 else {}), "label": label, "": NOT_USED}
    roles = [""] * min(MOST_COLUMNS, len(found.first[0]))
    for role, columns in {"text": found.texts[:1], "second": found.texts[1:], "label": found.label}.items():
        for column in columns:
            if column < len(roles):
                roles[column] = role
    return {
        "of": of,
        "rows": [[field[:LONGEST_FIELD] for field in row[:MOST_COLUMNS]] for row in found.first],
        "kinds": list(titles.items()),
        "roles": said.roles or roles,
        "header": found.is_named,
        "chosen": said.model_dump() if said != Chosen() else None,
    }
