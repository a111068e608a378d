"""What a view shows as a file, JSON for programs and CSV for a spreadsheet, and as Python code.

JSON holds every token as it is. A CSV begins with a byte-order mark: without it, Excel reads an old encoding. In it a
text that begins with = + - @ or a control character would be a formula to a spreadsheet, which may run programs; such a
text gets an apostrophe in front, and so does one that begins with an apostrophe itself. A reader who removes one
leading apostrophe has the token again. Numbers are never changed.
"""

import ast
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
from bert_core.storage.checkpoint import Checkpoint
from bert_core.training import StepRow

BYTE_ORDER_MARK = "\ufeff"
NO_NUMBERS = "This view has no numbers to save yet."
_FIRST_OF_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "'")

_OF_PYTHON = ("dict", "enumerate", "len", "list", "max", "min", "print", "range", "sorted", "sum", "zip")

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
    return dict(zip(vars(record), finite(vars(record).values())))


def finite(numbers: Iterable[float]) -> list[float | None]:
    """Numbers with None for nan and infinity, which JSON does not have."""
    return [number if math.isfinite(number) else None for number in numbers]


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


def python_code(
    checkpoint: Checkpoint, *lines: str, off: Sequence[tuple[int, int]] = (), zeroed: Sequence[tuple[int, int]] = ()
) -> str:
    """`with_imports` of code that loads a model and computes what a view shows, to run in the repository's root.

    checkpoint: the name of a model on this machine is the path of its folder, from that root. off: heads of it that are
    switched off. zeroed: other parts of it, set to zero.
    """
    name, hint = checkpoint.name, []
    if "/" not in name:
        name, hint = folder_name(name), ["# Download this model in the Models tab and unpack the zip here."]
    parts = f", {[*zeroed]}" if zeroed else ""
    less = [f"checkpoint = without_heads(checkpoint, {[*off]}{parts})"] if off or zeroed else []
    return with_imports(*hint, f"checkpoint = load_checkpoint({name!r})", *less, *lines)


def with_imports(*lines: str) -> str:
    """Python code that imports what these lines need and prints each of them that is a value alone."""
    code = "\n".join(lines).split("\n")
    tree = ast.parse(source := "\n".join(code))
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {"torch", *_OF_PYTHON}
    ours = ", ".join(sorted({node.id for node in names} - made))
    for statement in tree.body:
        if isinstance(statement, ast.Expr):
            value, line = ast.get_source_segment(source, statement) or "", code[statement.lineno - 1]
            code[statement.lineno - 1] = f"print({value}){line.removeprefix(value)}"
    first = ["import torch"] if any(node.id == "torch" for node in names) else []
    return "\n".join([*first, f"from bert_core import {ours}\n", *code, ""])
