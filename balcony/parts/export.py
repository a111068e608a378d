"""What a view shows as a file, JSON for programs and CSV for a spreadsheet, and as Python code.

JSON holds every token as it is. A CSV begins with a byte-order mark: without it, Excel reads an old encoding. In it a
text that begins with = + - @ or a control character would be a formula to a spreadsheet, which may run programs; such a
text gets an apostrophe in front, and so does one that begins with an apostrophe itself. A reader who removes one
leading apostrophe has the token again. Numbers are never changed.
"""

import csv
import io
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from balcony.server.files import folder_name
from bert_core.errors import InputError
from bert_core.runs.run import Run
from bert_core.training.objective import StepRow

BYTE_ORDER_MARK = "\ufeff"
NO_NUMBERS = "This view has no numbers to save yet."
_FIRST_OF_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "'")

Row = Mapping[str, Any]  # of a CSV file, by its columns


def file_text(kind: str, values: Mapping[str, Any], rows: Callable[[Any], Iterable[Row]]) -> str:
    """The text of a "json" or "csv" file.

    values: what a view shows of one model, or of several by title: then JSON has a key for each title, and the first
    column of the CSV is the title. rows: returns the rows of a value. Raises InputError for a value without rows; it
    often says why it has none.
    """
    for value in values.values():
        if not value or "error" in value:
            raise InputError((value or {}).get("error", NO_NUMBERS))
    lines = _lines(values, rows)
    if (first := next(lines, None)) is None:
        said = next(iter(values.values()))
        raise InputError(said.get("text") or said.get("hint") or NO_NUMBERS)
    if kind == "csv":
        return _csv(itertools.chain([first], lines), list(first))
    content = values if len(values) > 1 else next(iter(values.values()))
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def curve_rows(run: Run) -> list[Row]:
    """A row for each step and for each evaluation on held-out text; None where nothing was measured."""
    parts = {"training": run.history(), "held-out": run.evaluations()}
    return [{"part": part, **_measured(record)} for part, records in parts.items() for record in records]


def _measured(record: StepRow) -> Row:
    return {name: value if math.isfinite(value) else None for name, value in vars(record).items()}


def _lines(values: Mapping[str, Any], rows: Callable[[Any], Iterable[Row]]) -> Iterator[Row]:
    for title, value in values.items():
        model = {"model": title} if len(values) > 1 else {}
        yield from ({**model, **row} for row in rows(value))


def _csv(rows: Iterable[Row], columns: Sequence[str]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, columns)
    writer.writeheader()
    writer.writerows({name: _no_formula(cell) for name, cell in row.items()} for row in rows)
    return BYTE_ORDER_MARK + file.getvalue()


def _no_formula(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FIRST_OF_FORMULAS) else cell


def python_code(model: str, functions: Sequence[str], *lines: str, off: Sequence[tuple[int, int]] = ()) -> str:
    """Python code that computes the same numbers with functions of bert_core, to run in the repository's root.

    model: name of the checkpoint. The name of a model on this machine is the path of its folder, from that root. off:
    heads of it that are switched off.
    """
    if off:
        functions = [*functions, "without_heads"]
        lines = f"checkpoint = without_heads(checkpoint, {[*off]!r})", *lines
    names, hint = ", ".join(sorted([*functions, "load_checkpoint"])), []
    if "/" not in model:
        model, hint = folder_name(model), ["# Download this model in the Models tab and unpack the zip here."]
    return "\n".join(
        [f"from bert_core import {names}\n", *hint, f"checkpoint = load_checkpoint({model!r})", *lines, ""]
    )
