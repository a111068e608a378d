"""The values that the views of attention draw: bytes that hold the weights, a page of its own, Python code."""

import base64
import dataclasses
import html
import importlib
import json
import re

import numpy as np
import pytest
import torch

from balcony.attention import values
from balcony.frame.question import Question
from bert_core import save_checkpoint, show
from bert_core.errors import InputError
from bert_core.model import BertForPreTraining
from bert_core.probes.attention import attention, without_special
from bert_core.probes.patterns import NAMED_FROM, RANDOM_HEADS, TARGETS, head_names

pages = importlib.import_module("bert_core.show")  # bert_core.show is the function of that name

TEXTS = "how are you", "i am romeo"
ASKED = Question(*TEXTS)
NASTY = "</script><script>document.title='gone'</script> ${1} {data} $x$ <b>"


def numbers(text: str, kind: str, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), kind).astype("float32")).view(shape)


def exact(text: str, *shape: int) -> torch.Tensor:
    """Weights of two bytes each."""
    return numbers(text, "<u2", *shape) / 65535


def maps_of(checkpoint, asked):
    maps = attention(checkpoint, *asked.texts)
    return without_special(maps) if asked.hide_special else maps


@pytest.mark.parametrize("hide", [False, True])
def test_the_bytes_give_the_weights_back(tiny_checkpoint, hide):
    asked = dataclasses.replace(ASKED, hide_special=hide)
    maps = maps_of(tiny_checkpoint, asked)
    found, T = values.shown_attention(tiny_checkpoint, asked), len(maps.tokens)
    assert ("[CLS]" in found["detail"]["tokens"]) is not hide
    shown = (numbers(found["grid"]["weights"], "uint8", 2, 3, T, T) / 255) ** 2
    torch.testing.assert_close(shown, maps.weights, rtol=0, atol=0.005)
    torch.testing.assert_close(exact(found["detail"]["weights"], *maps.weights.shape), maps.weights, rtol=0, atol=1e-5)
    json.dumps(found, allow_nan=False)


def test_the_page_says_what_gives_a_head_its_label():
    said = pages.modules("attention/head_grid.js")["attention/head_grid.js"]
    assert f"at least {NAMED_FROM:.0%} of the way" in said
    assert f"that of {RANDOM_HEADS} heads" in said
    assert all(f"\n  {target}: " in said for target in TARGETS)


def test_a_smaller_model_shows_its_last_head(tiny_checkpoint):
    assert Question(head=(11, 1)).nearest_head(tiny_checkpoint) == (1, 1)
    assert Question(head=(0, 11)).nearest_head(tiny_checkpoint) == (0, 2)


def test_too_many_weights_are_refused(tiny_checkpoint, monkeypatch):
    monkeypatch.setattr(pages, "MAX_WEIGHTS", 100)
    with pytest.raises(InputError, match="486 weights for this text; the page shows 100"):
        values.shown_attention(tiny_checkpoint, ASKED)
    with pytest.raises(InputError, match="486 weights for this text; the page shows 100"):
        show(attention(tiny_checkpoint, *TEXTS))


def test_a_text_that_is_too_long_is_refused_before_the_model_reads_it(tiny_checkpoint, monkeypatch):
    monkeypatch.setattr(pages, "MAX_WEIGHTS", 200)
    monkeypatch.setattr(BertForPreTraining, "forward", lambda *arguments, **named: pytest.fail("it was computed"))
    with pytest.raises(InputError, match=r"have 486 weights .* Shorten the text to 5 tokens"):
        values.shown_attention(tiny_checkpoint, ASKED)


def test_names_are_found_layer_by_layer(tiny_checkpoint):
    names = values.shown_attention(tiny_checkpoint, ASKED, is_named=True)["grid"]["names"]
    assert values.shown_names(tiny_checkpoint, ASKED) == names == head_names(tiny_checkpoint, *TEXTS)


def content_of(page: str) -> dict:
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(data)


def test_a_page_of_its_own_holds_words_as_data(tiny_checkpoint):
    shown = values.shown_attention(tiny_checkpoint, Question(NASTY))
    page = pages.attention_page(shown, {"head": (1, 1)}, NASTY)
    content = content_of(page)
    assert f'<h1 dir="auto">{html.escape(NASTY)}</h1>' in page
    assert (content["detail"]["layers"], content["question"]) == (2, {"head": [1, 1]})
    assert "document.title='gone'</script>" not in page
    assert not re.search(r'(src|href)="', page), "it loads no other file"


def test_a_notebook_shows_the_same_values_as_the_tab(tiny_checkpoint):
    maps, shown = attention(tiny_checkpoint, *TEXTS), values.shown_attention(tiny_checkpoint, ASKED)
    content = content_of(show(maps, head_names(tiny_checkpoint, *TEXTS)).html)
    assert content == shown | {"question": {"head": [0, 0], "heads": {}, "off": []}}
    assert content_of(show(maps).html)["grid"]["names"] == [[""] * 3] * 2
    assert "[CLS]" not in content_of(show(without_special(maps)).html)["detail"]["tokens"]


def test_a_notebook_gets_the_page_in_a_frame(tiny_checkpoint):
    view = show(attention(tiny_checkpoint, NASTY), title=NASTY)
    [frame] = re.findall(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts" title="([^"]*)"', view._repr_html_())
    assert [html.unescape(part) for part in frame] == [view.html, NASTY]
    assert view._repr_html_().count("<") == 2
    assert len(repr(view)) < 200


@pytest.mark.parametrize("hide", [False, True])
def test_the_python_gives_the_same_numbers(tiny_checkpoint, tmp_path, hide):
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    asked = dataclasses.replace(ASKED, text="how 'are' \"you\" {x} \\ <b>", head=(1, 2), hide_special=hide)
    scope = {}
    exec(values.attention_code(dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model")), asked), scope)
    shown = maps_of(tiny_checkpoint, asked)
    torch.testing.assert_close(scope["one"], shown.weights[1, 2])
    assert scope["maps"].tokens == shown.tokens


def test_a_heads_vectors_give_its_weights(tiny_checkpoint):
    question = Question("hello romeo", "thank you", hidden=(0,))
    value = values.head_value(tiny_checkpoint, question, 1, 2)
    assert value["tokens"] == ["[CLS]", "[MASK]", "romeo", "[SEP]", "thank", "you", "[SEP]"]
    assert value["words"] == [1, 2, 4, 5]
    query, key = (numbers(value[name], "<f4", 7, 4) for name in ("query", "key"))
    expected = attention(tiny_checkpoint, "[MASK] romeo", "thank you").weights[1, 2]
    torch.testing.assert_close((query @ key.T / 2).softmax(-1), expected, rtol=0, atol=1e-5)
    with pytest.raises(InputError, match="no head 4"):
        values.head_value(tiny_checkpoint, question, 0, 3)
