"""The numbers of a view as a file, JSON for programs and CSV for a spreadsheet, and as Python code.

JSON holds every token as it is. A CSV that is saved begins with a byte-order mark. In it a text that begins with
= + - @ or a control character would be a formula to a spreadsheet, which may run programs; such a text gets an
apostrophe in front, and so does one that begins with an apostrophe itself. A reader who removes one leading apostrophe
has the token again. Numbers are never changed.
"""

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from balcony.server.files import folder_name
from bert_core.errors import InputError
from bert_core.probes.attention import Ablation, AttentionMaps
from bert_core.show import MAX_WEIGHTS

BYTE_ORDER_MARK = "\ufeff"
_DIGITS = 6
_FIRST_OF_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


@dataclass(frozen=True)
class Numbers:
    """What a view shows. header, rows: the table of a CSV file. content: returns what a JSON file holds instead of a
    list of the rows, each {name: value}.
    """

    header: Sequence[str]
    rows: Iterable[Sequence[Any]]
    content: Callable[[], Any] | None = None

    def as_json(self) -> Any:
        return self.content() if self.content else [dict(zip(self.header, row, strict=True)) for row in self.rows]


def write(kind: str, numbers: Numbers | Mapping[str, Numbers]) -> str:
    """The text of a "json" or "csv" file. numbers: of one model, or of several by title.

    For several models, JSON has a key for each title, and the first column of the CSV is the title.
    """
    if isinstance(numbers, Numbers):
        return _json(numbers.as_json()) if kind == "json" else _csv(numbers.header, numbers.rows)
    if kind == "json":
        return _json({title: each.as_json() for title, each in numbers.items()})
    header = next(iter(numbers.values())).header
    return _csv(("model", *header), ((title, *row) for title, each in numbers.items() for row in each.rows))


def file_text(kind: str, numbers: Numbers | Mapping[str, Numbers]) -> str:
    """`write` for a file that a person opens: without a byte-order mark, Excel reads a CSV in an old encoding."""
    return BYTE_ORDER_MARK * (kind == "csv") + write(kind, numbers)


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


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Numbers:
    """A table whose numbers are rounded to six digits; None for no value."""
    return Numbers(header, [[_rounded(value) for value in row] for row in rows])


def attention_numbers(maps: AttentionMaps) -> Numbers:
    """A row for each weight: layer, head, the token that attends and the token attended to, all counted from 1.

    JSON: {"tokens": T, "token_type_ids": T, "weights": layers x heads x T x T}. Raises InputError for too many weights.
    """
    if maps.weights.numel() > MAX_WEIGHTS:
        raise InputError(
            f"All heads together have {maps.weights.numel():,} weights; a file holds {MAX_WEIGHTS:,}. Shorten the text."
        )
    rows = (
        (layer, head, i, maps.tokens[i - 1], j, maps.tokens[j - 1], _rounded(weight))
        for layer, heads in enumerate(maps.weights.tolist(), 1)
        for head, weights in enumerate(heads, 1)
        for i, row in enumerate(weights, 1)
        for j, weight in enumerate(row, 1)
    )
    header = ("layer", "head", "from_position", "from_token", "to_position", "to_token", "weight")
    return Numbers(
        header,
        rows,
        lambda: {
            "tokens": maps.tokens,
            "token_type_ids": maps.token_type_ids,
            "weights": _rounded(maps.weights.tolist()),
        },
    )


def ablation_numbers(changes: Ablation) -> Numbers:
    """A row for each head, counted from 1, with the change of each answer when that head alone is off.

    JSON: {"answer": the hidden word, "intact": {name: number}, "changes": {name: layers x heads}}.
    """
    maps = changes.changes
    heads = [(layer, head) for values in [*maps.values()][:1] for layer, head in np.ndindex(*values.shape)]
    return Numbers(
        ("layer", "head", *maps),
        ((i + 1, j + 1, *(_rounded(values[i, j].item()) for values in maps.values())) for i, j in heads),
        lambda: {
            "answer": changes.answer,
            "intact": {name: _rounded(value) for name, value in changes.intact.items()},
            "changes": {name: _rounded(values.tolist()) for name, values in maps.items()},
        },
    )


def guesses_numbers(text: str, text_pair: str | None, guesses: Sequence[Sequence[tuple[str, float]]]) -> Numbers:
    """A row for each guess: number of the [MASK] in reading order, rank, token, probability; counted from 1.

    guesses: what `fill_mask` returns for the texts. JSON: {"text", "text_pair", "masks": for each [MASK] its guesses
    as {"token", "probability"}, likeliest first}.
    """
    rows = (
        (mask, rank, token, _rounded(p))
        for mask, row in enumerate(guesses, 1)
        for rank, (token, p) in enumerate(row, 1)
    )
    return Numbers(
        ("mask", "rank", "token", "probability"),
        rows,
        lambda: {
            "text": text,
            "text_pair": text_pair or None,
            "masks": [[{"token": token, "probability": _rounded(p)} for token, p in row] for row in guesses],
        },
    )


def history_numbers(rows: Sequence[Any], held_out: Sequence[Any]) -> Numbers:
    """A row for each step and for each evaluation on held-out text.

    JSON: {"training": rows, "held_out": rows}; null where nothing was measured.
    """
    parts = {"training": [_numbers(row) for row in rows], "held-out": [_numbers(point) for point in held_out]}
    names = list([*parts["training"], *parts["held-out"], {}][0])
    return Numbers(
        ("part", *names),
        ([part, *(row.get(name) for name in names)] for part, records in parts.items() for row in records),
        lambda: {"training": parts["training"], "held_out": parts["held-out"]},
    )


def _numbers(record: Any) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in vars(record).items()
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, _DIGITS) if isinstance(value, float) else value


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def _no_formula(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FIRST_OF_FORMULAS) else cell


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(header)
    writer.writerows(map(_no_formula, row) for row in rows)
    return file.getvalue()
