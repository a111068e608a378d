"""Figures are valid for Plotly and show words literally."""

import itertools
import re
from pathlib import Path

import plotly.graph_objects as go
import pytest

from balcony.parts.figures import curves, literal, word_points

ROOT = Path(__file__).resolve().parents[2]
TOKENS = ["[CLS]", "<b>hi</b>", "$x$", "שלום", "&lt;"]
WEIGHTS = [[(row + column) / 10 for column in range(5)] for row in range(5)]


@pytest.mark.parametrize(
    "figure",
    [
        curves(),
        curves(more=True),
        word_points(TOKENS, [row[:2] for row in WEIGHTS], title="Layer 1"),
        word_points([], []),
    ],
)
def test_plotly_accepts_every_property(figure: dict) -> None:
    go.Figure(figure)


def test_every_curve_is_shown_as_it_is_as_raw_points_and_on_held_out_text() -> None:
    shown = [(trace["meta"]["series"], trace["meta"]["kind"], trace["yaxis"]) for trace in curves()["data"]]
    for series, axis in (("mlm_loss", "y"), ("nsp_loss", "y"), ("mlm_accuracy", "y2"), ("nsp_accuracy", "y2")):
        assert {(series, kind, axis) for kind in ("line", "raw", "held")} <= set(shown)
    assert {series for series, kind, _ in shown if kind == "baseline"} == {"uniform", "unigram", "coin"}
    styles = {trace["line"]["dash"] for trace in curves()["data"] if trace["meta"]["kind"] == "line"}
    assert len(styles) == 2, "the curves differ by more than colour"


def test_more_curves_have_axes_of_their_own_that_do_not_overlap() -> None:
    figure = curves(more=True)
    assert {trace["yaxis"] for trace in figure["data"]} == {"y", "y2", "y3", "y4", "y5"}
    titles = [figure["layout"][name]["title"]["text"] for name in figure["layout"]["meta"]["logarithmic"]]
    assert titles == ["Loss", "Gradient norm"]
    domains = sorted(axis["domain"] for name, axis in figure["layout"].items() if name.startswith("yaxis"))
    assert len(domains) == 5
    assert all(below[1] < above[0] for below, above in itertools.pairwise(domains))


@pytest.mark.parametrize(
    ("typed", "markup"), [("<b>hi</b>", "<"), ("$x$", "$x"), ("&lt;", "&l"), ("<a href='x'>", "<")]
)
def test_typed_markup_is_shown_as_text(typed: str, markup: str) -> None:
    assert markup not in literal(typed)


def test_points_are_numbered_and_one_unit_is_as_long_both_ways() -> None:
    figure = word_points(["<b>x</b>", "y"], [[1, 2], [3, -4]])
    [dots] = figure["data"]
    assert (dots["x"], dots["y"], dots["text"]) == ([1, 3], [2, -4], ["1", "2"])
    assert dots["hovertext"][0] == literal("1 <b>x</b>") != "1 <b>x</b>"
    assert figure["layout"]["yaxis"]["scaleanchor"] == "x"


def test_a_loss_has_one_name_everywhere() -> None:
    sources = [*ROOT.glob("balcony/**/*.*[sy]"), *ROOT.glob("bert_core/**/*.py"), *ROOT.glob("assets/**/*.json")]
    assert len(sources) > 100
    other = re.compile(r"(masked.word|next.sentence) loss", re.IGNORECASE)
    assert [path.name for path in sources if other.search(path.read_text(encoding="utf-8"))] == []
