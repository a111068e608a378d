"""What a view shows as a file: JSON for programs, CSV for a spreadsheet.

JSON holds every token as it is. In a CSV a text that begins with = + - @ or a control character would be a formula
to a spreadsheet, which may run programs; such a text gets an apostrophe in front, and so does one that begins with an
apostrophe itself. So a reader who takes one leading apostrophe away has the token again. Numbers are never changed.
"""

import csv
import dataclasses
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from bert_core.errors import InputError
from bert_core.probes.attention import Ablation, Answers, AttentionMaps

MAX_WEIGHTS = 4_000_000  # 12 layers of 12 heads over 166 tokens; a spreadsheet opens a million rows
_DIGITS = 6
_FIRST_OF_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "'")
_ROW = re.compile(r'(?:[^"\r]+|"[^"]*")*\r\n')  # of a CSV: a line's end between quotes belongs to a cell

Guesses = Sequence[Sequence[tuple[str, float]]]


def attention_json(maps: AttentionMaps) -> str:
    """{"tokens": T, "token_type_ids": T, "weights": layers x heads x T x T}. Raises InputError for too many weights."""
    _check_size(maps)
    content = {"tokens": maps.tokens, "token_type_ids": maps.token_type_ids, "weights": _rounded(maps.weights.tolist())}
    return _json(content)


def attention_csv(maps: AttentionMaps) -> str:
    """A row for each weight: layer, head, the token that looks and the one it looks at. All counted from 1, as on the
    page. Raises InputError for too many weights."""
    _check_size(maps)
    cells = [_no_formula(token) for token in maps.tokens]
    rows = (
        (layer, head, i, cells[i - 1], j, cells[j - 1], round(weight, _DIGITS))
        for layer, heads in enumerate(maps.weights.tolist(), 1)
        for head, shares in enumerate(heads, 1)
        for i, row in enumerate(shares, 1)
        for j, weight in enumerate(row, 1)
    )
    return _csv(("layer", "head", "from_position", "from_token", "to_position", "to_token", "weight"), rows)


def ablation_json(changes: Ablation) -> str:
    """{"answer": the hidden word, "intact": {name: number}, "changes": {name: layers x heads}}."""
    intact = {name: _rounded(values.item()) for name, values in _asked(changes.intact).items()}
    maps = {name: _rounded(values.tolist()) for name, values in _asked(changes).items()}
    return _json({"answer": changes.intact.answer, "intact": intact, "changes": maps})


def ablation_csv(changes: Ablation) -> str:
    """A row for each head, counted from 1, with the change of each answer when that head alone is off."""
    maps = _asked(changes)
    heads = [(layer, head) for values in [*maps.values()][:1] for layer, head in np.ndindex(*values.shape)]
    rows = ((i + 1, j + 1, *(_rounded(values[i, j].item()) for values in maps.values())) for i, j in heads)
    return _csv(("layer", "head", *maps), rows)


def _asked(answers: Ablation | Answers) -> dict[str, Tensor]:
    found = {name: getattr(answers, name) for name in ("word", "is_next", "loss")}
    return {name: values for name, values in found.items() if values is not None}


def predictions_json(text: str, text_pair: str | None, guesses: Guesses) -> str:
    """{"text", "text_pair", "masks": for each [MASK] its guesses as {"token", "probability"}, likeliest first}.

    guesses: what `fill_mask` answered for the texts.
    """
    masks = [[{"token": token, "probability": _rounded(p)} for token, p in row] for row in guesses]
    return _json({"text": text, "text_pair": text_pair or None, "masks": masks})


def predictions_csv(guesses: Guesses) -> str:
    """A row for each guess: number of the [MASK] in reading order, rank, token, probability; counted from 1."""
    rows = (
        (mask, rank, _no_formula(token), _rounded(p))
        for mask, row in enumerate(guesses, 1)
        for rank, (token, p) in enumerate(row, 1)
    )
    return _csv(("mask", "rank", "token", "probability"), rows)


def history_json(rows: Sequence[Any], held_out: Sequence[Any]) -> str:
    """{"training": [a row a step], "held_out": [a row for each look at held-out text]}; null where nothing was asked.

    rows: StepMetrics. held_out: EvaluationPoints.
    """
    return _json({"training": [_numbers(row) for row in rows], "held_out": [_numbers(point) for point in held_out]})


def history_csv(rows: Sequence[Any], held_out: Sequence[Any]) -> str:
    """The same in one table, whose first column says to which part a row belongs."""
    table = [{"part": "training", **_numbers(row)} for row in rows]
    table += [{"part": "held-out", **_numbers(point)} for point in held_out]
    names = list(table[0]) if table else ["part"]
    return _csv(names, ([row.get(name) for name in names] for row in table))


def of_models(kind: str, files: Mapping[str, str]) -> str:
    """One "json" or "csv" file of the same view of several models. files: the content of each, by the model's title.

    In JSON a key for each model holds what its own file holds; in CSV the first column says whose row it is.
    """
    if kind == "json":
        parts = (f"{json.dumps(title, ensure_ascii=False)}: {content.strip()}" for title, content in files.items())
        return f"{{{', '.join(parts)}}}\n"
    tables = {_csv([_no_formula(title)], ())[:-2]: _ROW.findall(content) for title, content in files.items()}
    [[header, *_], *_] = tables.values()
    return "".join([f"model,{header}", *(f"{cell},{row}" for cell, rows in tables.items() for row in rows[1:])])


def _numbers(record: Any) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in dataclasses.asdict(record).items()
    }


def table_json(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A list of rows, each {name: value}; numbers are rounded to six digits."""
    return _json([dict(zip(header, map(_cell, row), strict=True)) for row in rows])


def table_csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """The same rows; an empty cell where there is no value."""
    return _csv(header, [[_no_formula(v) if isinstance(v, str) else _cell(v) for v in row] for row in rows])


def _cell(value: Any) -> Any:
    return round(value, _DIGITS) if isinstance(value, float) else value


def _check_size(maps: AttentionMaps) -> None:
    if maps.weights.numel() > MAX_WEIGHTS:
        raise InputError(
            f"All heads together have {maps.weights.numel():,} weights; a file holds {MAX_WEIGHTS:,}. Shorten the text."
        )


def _rounded(values: Any) -> Any:
    return [_rounded(value) for value in values] if isinstance(values, list) else round(values, _DIGITS)


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def _no_formula(text: str) -> str:
    return "'" + text if text.startswith(_FIRST_OF_FORMULAS) else text


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(header)
    writer.writerows(rows)
    return file.getvalue()
