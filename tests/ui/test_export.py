"""Files of a view hold what was shown when they are read back, and no formula for a spreadsheet."""

import csv
import dataclasses
import functools
import importlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from balcony.app import open_workspaces
from balcony.attention.values import attention_code, effects_code, number_rows, weights_value
from balcony.frame.page_request import PageRequest
from balcony.frame.question import Question
from balcony.masked_words.closer_view import EXPLAINED, LENS, SWEEP, closer_code
from balcony.masked_words.tab import guess_rows, guesses_code, guesses_value
from balcony.next_sentence.tab import judge_all, matrix_code, pair_code, shown_size
from balcony.parts.downloads import picture_title
from balcony.parts.export import BYTE_ORDER_MARK, NO_NUMBERS, file_text
from balcony.server.files import folder_name, pack
from balcony.server.workspace import Workspace
from balcony.words_in_context.tab import contexts_code
from bert_core.data.corpus import Corpus
from bert_core.errors import InputError
from bert_core.probes.attention import attention
from bert_core.probes.masked_words import fill_mask
from bert_core.storage.checkpoint import save_checkpoint

pages = importlib.import_module("bert_core.show")  # bert_core.show is the function of that name

NASTY = [
    "=1+1",
    "+",
    "-",
    "@x",
    "'",
    "''=",
    "\t=1",
    "\r=1",
    "\n=1",
    '"',
    ",",
    "a\nb",
    "שלום",
    "<b>",
    "=cmd|'/c'!A1",
    "1",
    "",
]


def rows_of(text: str) -> list[dict[str, str]]:
    assert text.startswith(BYTE_ORDER_MARK), "else Excel reads an old encoding"
    return list(csv.DictReader(io.StringIO(text[1:], newline="")))


def token_of(cell: str) -> str:
    """The token of a cell: without one leading apostrophe."""
    return cell[1:] if cell.startswith("'") else cell


def weights_of(tokens: list[str]) -> dict[str, Any]:
    """The value of two layers with three heads."""
    generator = torch.Generator().manual_seed(len(tokens))
    weights = torch.rand(2, 3, len(tokens), len(tokens), generator=generator).softmax(-1)
    return {"tokens": tokens, "weights": weights.tolist()}


def test_attention_reads_back_from_json(tiny_checkpoint):
    maps = attention(tiny_checkpoint, "how are you", "i am romeo")
    value = weights_value(tiny_checkpoint, Question("how are you", "i am romeo"))
    content = json.loads(file_text("json", {"": value}, number_rows))
    assert (content["tokens"], content["token_type_ids"]) == (maps.tokens, maps.token_type_ids)
    torch.testing.assert_close(torch.tensor(content["weights"]), maps.weights, rtol=0, atol=1e-6)
    assert json.loads(file_text("json", {"": weights_of(NASTY)}, number_rows))["tokens"] == NASTY


def test_attention_reads_back_from_csv():
    value = weights_of(NASTY)
    rows = rows_of(file_text("csv", {"": value}, number_rows))
    assert len(rows) == 2 * 3 * len(NASTY) ** 2
    for row in rows:
        layer, head, i, j = (int(row[name]) - 1 for name in ("layer", "head", "from_position", "to_position"))
        assert float(row["weight"]) == value["weights"][layer][head][i][j]
        assert (token_of(row["from_token"]), token_of(row["to_token"])) == (NASTY[i], NASTY[j])


def test_guesses_read_back(tiny_checkpoint):
    value = guesses_value(tiny_checkpoint, Question("hello [MASK] are you", "i am [MASK]"))
    assert json.loads(file_text("json", {"": value}, guess_rows))["masks"][1]["word"] == ""
    rows = rows_of(file_text("csv", {"": value}, guess_rows))
    expected = fill_mask(tiny_checkpoint, "hello [MASK] are you", "i am [MASK]", top_k=5)
    assert [(row["token"], float(row["probability"])) for row in rows] == [each for mask in expected for each in mask]
    assert [(row["mask"], row["rank"]) for row in rows[4:6]] == [("1", "5"), ("2", "1")]


def test_no_text_is_a_formula_and_every_text_comes_back():
    cells = [row["token"] for row in rows_of(file_text("csv", {"": NASTY}, lambda all: ({"token": t} for t in all)))]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))]
    assert [token_of(cell) for cell in cells] == NASTY
    assert cells[NASTY.index("a\nb")] == "a\nb"


def test_a_file_has_a_limit(tiny_checkpoint, monkeypatch):
    monkeypatch.setattr(pages, "MAX_WEIGHTS", 100)
    with pytest.raises(InputError, match="weights for this text; the page shows 100"):
        weights_value(tiny_checkpoint, Question("how are you", "i am romeo"))


def test_one_file_holds_two_models():
    titles = ['=my model, "step" 3\r\n', "שלום"]
    values = dict(zip(titles, (weights_of(NASTY), weights_of(["a", "b\r\nc"]))))
    assert json.loads(file_text("json", values, number_rows)) == values
    rows = rows_of(file_text("csv", values, number_rows))
    assert next(iter(rows[0])) == "model"
    assert list(dict.fromkeys(token_of(row["model"]) for row in rows)) == titles
    for title, value in values.items():
        own = [row for row in rows if token_of(row["model"]) == title]
        alone = rows_of(file_text("csv", {"": value}, number_rows))
        assert own == [{"model": own[0]["model"], **row} for row in alone]


def test_one_of_two_tables_may_have_no_rows_or_a_long_cell():
    long = 'say "no"\n' * 12_000
    values = {"empty": {"texts": []}, "long": {"texts": [long]}}
    rows = rows_of(file_text("csv", values, lambda value: ({"text": text} for text in value["texts"])))
    assert rows == [{"model": "long", "text": long}]


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, NO_NUMBERS),
        ({"error": "Too long."}, "Too long."),
        ({"masks": [], "hint": "Click words."}, "Click"),
    ],
)
def test_a_view_without_numbers_says_why_it_has_none(kind, value, said):
    with pytest.raises(InputError, match=said):
        file_text(kind, {"": value}, guess_rows)


PAIR = Question("hello how are you", "i am romeo", hidden=(1,), head=(0, 1))
CODES = {
    "guesses": lambda model: guesses_code(model, PAIR),
    "lens": lambda model: closer_code(model, dataclasses.replace(PAIR, view=LENS)),
    "explained": lambda model: closer_code(model, dataclasses.replace(PAIR, view=EXPLAINED)),
    "sweep": lambda model: closer_code(model, dataclasses.replace(PAIR, view=SWEEP)),
    "pair": lambda model: pair_code(model, PAIR),
    "matrix": lambda model: matrix_code(model, Corpus([["hello", "thank you"]], name="two"), 6),
    "attention": lambda model: attention_code(model, PAIR),
    "heads": lambda model: effects_code(model, PAIR),
    "contexts": lambda model: contexts_code(model, "romeo", ["hello romeo", "romeo"], 1),
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_python_of_a_shipped_model_runs_in_the_root_of_the_repository_and_prints(code, service, monkeypatch, capsys):
    monkeypatch.chdir(Path(__file__).parents[2])
    exec(code(open_workspaces(service).shipped("romeo-juliet").checkpoint), {})
    assert capsys.readouterr().out.strip()


def test_files_of_a_model_are_made_without_the_one_to_compare_with(service, monkeypatch, capsys):
    asked = PageRequest(open_workspaces(service), Workspace(""), Question(*PAIR.texts, other="gone"))
    monkeypatch.chdir(Path(__file__).parents[2])
    exec(matrix_code(asked.checkpoint, asked.corpus, shown_size(asked)), {})
    assert "tensor(" in capsys.readouterr().out
    assert judge_all(asked)["next-other-matrix"]["error"]
    assert picture_title(asked, ("text",)) == [PAIR.text, "romeo-juliet, comes with Balcony"]


def test_python_of_another_model_runs_where_its_download_was_unpacked(tiny_checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = dataclasses.replace(tiny_checkpoint, name="Your run 1, step 40")
    path = tmp_path / f"{folder_name(model.name)}.zip"
    pack(functools.partial(save_checkpoint, model), path)
    zipfile.ZipFile(path).extractall()
    code = guesses_code(model, PAIR)
    assert "Download this model" in code
    scope = {}
    exec(code, scope)
    assert scope["guesses"] == fill_mask(tiny_checkpoint, "hello [MASK] are you", "i am romeo")
