"""Files of a view hold what was shown when they are read back, and no formula for a spreadsheet."""

import csv
import dataclasses
import functools
import io
import json
import zipfile
from pathlib import Path

import pytest
import torch

from balcony.app import open_workspaces
from balcony.attention.head_switches import switches_code
from balcony.attention.values import attention_code
from balcony.frame.question import Question
from balcony.masked_words.closer_view import LENS, MATTERED, SWEEP, closer_code
from balcony.masked_words.tab import guesses_code
from balcony.next_sentence.pair_views import matrix_code, pair_code
from balcony.parts import export
from balcony.parts.export import attention_numbers, guesses_numbers, table, write
from balcony.server.files import folder_name, pack
from balcony.words_in_context.tab import contexts_code
from bert_core.data.corpus import Corpus
from bert_core.errors import InputError
from bert_core.probes.attention import AttentionMaps, attention
from bert_core.probes.masked_words import fill_mask
from bert_core.storage.checkpoint import save_checkpoint

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


def maps_of(tokens: list[str]) -> AttentionMaps:
    weights = torch.rand(2, 3, len(tokens), len(tokens), generator=torch.Generator().manual_seed(1)).softmax(-1)
    return AttentionMaps(tokens, [0] * len(tokens), weights)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def token_of(cell: str) -> str:
    """The token of a cell: without one leading apostrophe."""
    return cell[1:] if cell.startswith("'") else cell


def test_attention_reads_back_from_json(tiny_checkpoint):
    maps = attention(tiny_checkpoint, "how are you", "i am romeo")
    content = json.loads(write("json", attention_numbers(maps)))
    assert (content["tokens"], content["token_type_ids"]) == (maps.tokens, maps.token_type_ids)
    torch.testing.assert_close(torch.tensor(content["weights"]), maps.weights, rtol=0, atol=1e-6)
    assert json.loads(write("json", attention_numbers(maps_of(NASTY))))["tokens"] == NASTY


def test_attention_reads_back_from_csv():
    maps = maps_of(NASTY)
    weights = torch.zeros_like(maps.weights)
    rows = rows_of(write("csv", attention_numbers(maps)))
    assert len(rows) == weights.numel()
    for row in rows:
        layer, head, i, j = (int(row[name]) - 1 for name in ("layer", "head", "from_position", "to_position"))
        weights[layer, head, i, j] = float(row["weight"])
        assert (token_of(row["from_token"]), token_of(row["to_token"])) == (NASTY[i], NASTY[j])
    torch.testing.assert_close(weights, maps.weights, rtol=0, atol=1e-6)


def test_guesses_read_back(tiny_checkpoint):
    texts = ("hello [MASK] are you", "i am [MASK]")
    guesses = fill_mask(tiny_checkpoint, *texts, top_k=4)
    content = json.loads(write("json", guesses_numbers(*texts, guesses)))
    assert (content["text"], content["text_pair"]) == texts
    assert json.loads(write("json", guesses_numbers("x [MASK]", "", guesses)))["text_pair"] is None
    rows = rows_of(write("csv", guesses_numbers(*texts, guesses)))
    assert len(rows) == 8
    for mask, rank in ((0, 0), (1, 3)):
        token, probability = guesses[mask][rank]
        [row] = [row for row in rows if (row["mask"], row["rank"]) == (str(mask + 1), str(rank + 1))]
        assert row["token"] == content["masks"][mask][rank]["token"] == token
        assert float(row["probability"]) == pytest.approx(probability, abs=1e-6)
        assert content["masks"][mask][rank]["probability"] == pytest.approx(probability, abs=1e-6)


def test_no_text_is_a_formula_and_every_text_comes_back():
    guesses = [[(token, 0.5) for token in NASTY]]
    cells = [row["token"] for row in rows_of(write("csv", guesses_numbers("", None, guesses)))]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))]
    assert [token_of(cell) for cell in cells] == NASTY
    assert cells[NASTY.index("a\nb")] == "a\nb"


def test_a_file_has_a_limit(monkeypatch):
    maps = maps_of(["a", "b", "c"])
    monkeypatch.setattr(export, "MAX_WEIGHTS", 53)
    with pytest.raises(InputError, match="54 weights; a file holds 53"):
        attention_numbers(maps)
    monkeypatch.setattr(export, "MAX_WEIGHTS", 54)
    assert len(rows_of(write("csv", attention_numbers(maps)))) == 54


def test_one_file_holds_two_models():
    one, other = maps_of(NASTY), maps_of(["a", "b\r\nc"])
    titles = ['=my model, "step" 3\r\n', "שלום"]
    content = json.loads(write("json", dict(zip(titles, map(attention_numbers, (one, other))))))
    alone = [json.loads(write("json", attention_numbers(maps))) for maps in (one, other)]
    assert content == dict(zip(titles, alone))
    rows = rows_of(write("csv", dict(zip(titles, map(attention_numbers, (one, other))))))
    assert next(iter(rows[0])) == "model"
    assert list(dict.fromkeys(token_of(row["model"]) for row in rows)) == titles
    for title, maps in zip(titles, (one, other)):
        own = [row for row in rows if token_of(row["model"]) == title]
        assert own == [{"model": own[0]["model"], **row} for row in rows_of(write("csv", attention_numbers(maps)))]


def test_one_of_two_tables_may_have_no_rows_or_a_long_cell():
    header, long = ("text", "number"), 'say "no"\n' * 12_000
    rows = rows_of(write("csv", {"empty": table(header, []), "long": table(header, [(long, 1)])}))
    assert rows == [{"model": "long", "text": long, "number": "1"}]


PAIR = Question("hello how are you", "i am romeo", hidden=(1,), head=(0, 1), across=(0, 1))
CODES = {
    "guesses": lambda model: guesses_code(model, PAIR),
    "lens": lambda model: closer_code(model, dataclasses.replace(PAIR, view=LENS)),
    "mattered": lambda model: closer_code(model, dataclasses.replace(PAIR, view=MATTERED)),
    "sweep": lambda model: closer_code(model, dataclasses.replace(PAIR, view=SWEEP)),
    "pair": lambda model: pair_code(model, PAIR),
    "matrix": lambda model: matrix_code(model.name, Corpus([["hello", "thank you"]], name="two"), 0, 6),
    "attention": lambda model: attention_code(model, PAIR),
    "heads": lambda model: switches_code(model, PAIR, 2),
    "contexts": lambda model: contexts_code(model, "romeo", ["hello romeo", "romeo"], 1),
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_python_of_a_shipped_model_runs_in_the_root_of_the_repository(code, service, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    exec(code(open_workspaces(service).shipped("romeo-juliet").checkpoint), {})


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
