"""What the pictures of attention are drawn from: bytes that give the weights back, a page of its own, Python code."""

import base64
import dataclasses
import json
import re

import numpy as np
import pytest
import torch
from helpers import make_model

from bert_core import save_checkpoint
from bert_core.errors import InputError
from bert_core.probes.attention import attention
from ui.attention.values import (
    attention_code,
    attention_page,
    detail_value,
    differences,
    grid_value,
    look_at,
    told_difference,
    within,
)
from ui.parts import export

TEXTS = ("how are you", "i am romeo")
NASTY = "</script><script>document.title='gone'</script> ${1} {data} $x$ <b>"


def numbers(text: str, kind: str, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), kind).astype("float32")).view(shape)


@pytest.mark.parametrize("hide", [False, True])
def test_the_bytes_give_the_weights_back(tiny_checkpoint, hide):
    looked = look_at(tiny_checkpoint, *TEXTS, hide)
    T = len(looked.maps.tokens)
    assert ("[CLS]" in looked.maps.tokens) is not hide
    grid, detail = grid_value(looked, (0, 0)), detail_value(looked, (1, 2))
    shown = (numbers(grid["weights"], "uint8", 2, 3, T, T) / 255) ** 2
    torch.testing.assert_close(shown, looked.maps.weights, rtol=0, atol=0.005)
    exact = numbers(detail["weights"], "<u2", 3, T, T) / 65535
    torch.testing.assert_close(exact, looked.maps.weights[1], rtol=0, atol=1e-5)
    for name, values in (("averages", looked.average), ("rollout", looked.rollout)):
        torch.testing.assert_close(numbers(detail[name], "<u2", 2, T, T) / 65535, values, rtol=0, atol=1e-5)
        torch.testing.assert_close(values.sum(-1), torch.ones(2, T))
    json.dumps([grid, detail], allow_nan=False)


def test_facts_are_those_of_the_whole_input(tiny_checkpoint):
    shown, hidden = (look_at(tiny_checkpoint, *TEXTS, hide).facts.facts["cls"] for hide in (False, True))
    torch.testing.assert_close(shown, hidden)


def test_a_fact_that_a_head_lacks_is_null(tiny_checkpoint):
    assert grid_value(look_at(tiny_checkpoint, "how are you", "", False), (0, 0))["facts"]["other"][0][0] is None


def test_a_smaller_model_shows_its_last_head(tiny_checkpoint):
    looked = look_at(tiny_checkpoint, *TEXTS, False)
    assert within((11, 1), looked) == (1, 1)
    assert within((0, 11), looked) == (0, 2)


def test_two_models_heads_are_subtracted_where_tokens_and_heads_are_the_same(tiny_checkpoint, tiny_config):
    one = look_at(tiny_checkpoint, *TEXTS, False)
    other = look_at(dataclasses.replace(tiny_checkpoint, model=make_model(tiny_config, seed=1)), *TEXTS, False)
    apart = differences(one, other)
    gap = (one.maps.weights - other.maps.weights).abs().sum(-1).mean(-1) / 2
    torch.testing.assert_close(apart, gap)
    assert grid_value(other, (0, 0), apart)["facts"]["difference"][1][2] == pytest.approx(gap[1, 2].item(), abs=1e-4)
    assert "difference" not in grid_value(other, (0, 0))["titles"]
    assert detail_value(other, (1, 0), apart)["apart"] == pytest.approx(gap[1].tolist(), abs=1e-4)
    assert f"On average {gap.mean():.0%}" in told_difference(apart)
    layer, head = divmod(int(gap.argmax()), 3)
    assert f"{gap.max():.0%} in layer {layer + 1}, head {head + 1}" in told_difference(apart)
    assert differences(one, look_at(tiny_checkpoint, *TEXTS, True)) is None
    assert "not subtracted" in told_difference(None)


def test_too_many_weights_are_refused(tiny_checkpoint, monkeypatch):
    monkeypatch.setattr("ui.attention.values.MAX_WEIGHTS", 100)
    with pytest.raises(InputError, match="486 weights; the page shows 100"):
        look_at(tiny_checkpoint, *TEXTS, False)
    assert export.MAX_WEIGHTS > 100


def test_a_page_of_its_own_holds_words_as_data(tiny_checkpoint):
    page = attention_page(look_at(tiny_checkpoint, NASTY, "", False), (1, 1), NASTY)
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    content = json.loads(data)
    assert content["title"] == NASTY
    assert len(content["layers"]) == 2
    assert "document.title='gone'</script>" not in page
    assert not re.search(r'(src|href)="', page), "it asks no other file"


@pytest.mark.parametrize("hide", [False, True])
def test_the_python_gives_the_same_numbers(tiny_checkpoint, tmp_path, hide):
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    text = "how 'are' \"you\" {x} \\ <b>"
    scope = {}
    exec(attention_code(str(tmp_path / "model"), text, TEXTS[1], (1, 2), hide), scope)
    looked = look_at(tiny_checkpoint, text, TEXTS[1], hide)
    torch.testing.assert_close(scope["one"], looked.maps.weights[1, 2])
    torch.testing.assert_close(scope["mean"], looked.average[1])
    torch.testing.assert_close(scope["facts"].facts["entropy"], looked.facts.facts["entropy"])
    expected = looked.rollout if not hide else look_at(tiny_checkpoint, text, TEXTS[1], False).rollout
    torch.testing.assert_close(scope["flow"], expected)
    assert scope["maps"].tokens == (looked.maps if hide else attention(tiny_checkpoint, text, TEXTS[1])).tokens
