"""Numbers to Plotly figures, as plain dictionaries {"data": [...], "layout": {...}} that Plotly.react takes.

assets/js/parts/plotly_view.js draws them: gr.Plot loses zoom at every update and loads an older Plotly.js. Backgrounds
are transparent and letters mid-grey, so that one figure suits a light and a dark page. What a person typed becomes
text that Plotly can't read as markup.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

ACCENT = "#0d9488"
SECOND = "#c2812a"
MAP_OPTIONS = {"colour": (13, 148, 136), "opposite": (194, 129, 42)}  # ACCENT and SECOND for heat_map.js

_GREY = "#7c8594"
_GRID = "rgba(124, 133, 148, 0.18)"
_FONT = {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 12, "color": _GREY}
_ZERO_WIDTH_SPACE = "\u200b"


def _layout(**parts: Any) -> dict[str, Any]:
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": _FONT,
        "hoverlabel": {"font": {"family": _FONT["family"]}},
        "autosize": True,
        **parts,
    }


def _axis(**parts: Any) -> dict[str, Any]:
    return {"gridcolor": _GRID, "zeroline": False, "linecolor": _GRID, "automargin": False, **parts}


def literal(text: str) -> str:
    """The text so that Plotly shows it as it is: no tags, no entities, and no TeX between dollar signs."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("$", "$" + _ZERO_WIDTH_SPACE)


class _Objective(NamedTuple):
    name: str
    short: str
    colour: str
    dash: str


class _Panel(NamedTuple):
    """Curves on the same axes. height: in proportion to the other panels. axis: properties of the vertical axis."""

    title: str
    height: float
    axis: dict[str, Any]
    curves: list[dict[str, Any]]


_WORDS = _Objective("Masked words (MLM)", "MLM", ACCENT, "solid")
_PAIRS = _Objective("Next sentence (NSP)", "NSP", SECOND, "dash")
_FROM_ZERO = {"rangemode": "tozero"}
_FRACTION = {"range": [0, 1.02], "tickformat": ".0%"}


def _curve(series: str, name: str, colour: str, digits: str, **parts: Any) -> dict[str, Any]:
    """A line without points. `meta` names its series of numbers and the kind of line for the page."""
    kind, dash = parts.pop("kind", "line"), parts.pop("dash", "solid")
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "meta": {"series": series, "kind": kind},
        "x": [],
        "y": [],
        "line": {"color": colour, "width": 2, "dash": dash},
        "hovertemplate": f"{name} %{{y:{digits}}}<extra></extra>",
        **parts,
    }


def _three_curves(series: str, objective: _Objective, digits: str, *, showlegend: bool) -> list[dict[str, Any]]:
    """The raw points, the smoothed curve, and the same on held-out text."""
    name, short, colour, dash = objective
    raw = {"opacity": 0.3, "hoverinfo": "skip", "hovertemplate": None, "showlegend": False}
    held = {
        "mode": "lines+markers",
        "dash": "dot",
        "marker": {"symbol": "circle-open", "size": 7},
        "showlegend": showlegend,
        "visible": False,
    }
    return [
        _curve(series, name, colour, digits, kind="raw", line={"color": colour, "width": 1, "dash": "solid"}, **raw),
        _curve(series, name, colour, digits, dash=dash, showlegend=showlegend),
        _curve(series, f"{short}, held-out", colour, digits, kind="held", **held),
    ]


def _reference(series: str, name: str, colour: str, *, side: str = "top") -> dict[str, Any]:
    """A level to compare a loss with, labelled at its right end."""
    return _curve(
        series,
        name,
        colour,
        ".3f",
        kind="reference",
        mode="lines+text",
        text=["", name],
        textposition=f"{side} left",
        textfont={"size": 11, "color": _GREY},
        line={"color": colour, "width": 1, "dash": "dot"},
        showlegend=False,
        hoverinfo="skip",
        hovertemplate=None,
    )


def curves(*, more: bool = False) -> dict[str, Any]:
    """Loss above accuracy, each for masked words (MLM) and next sentence (NSP); the page adds the points.

    Every curve also has its raw points and held-out text, every loss the levels of guesses without knowledge. more:
    adds accuracy by how a predicted token was shown, learning rate and gradient norm. `meta.logarithmic` of the layout
    lists the axes that may have a logarithmic scale.
    """
    losses = [
        *_three_curves("mlm_loss", _WORDS, ".3f", showlegend=True),
        *_three_curves("nsp_loss", _PAIRS, ".3f", showlegend=True),
        _reference("ignorance", "uniform guess", ACCENT),
        _reference("unigram", "always guessing by word frequency", ACCENT, side="bottom"),
        _reference("coin", "coin toss (ln 2 = 0.69)", SECOND),
    ]
    accuracies = [
        *_three_curves("mlm_accuracy", _WORDS, ".0%", showlegend=False),
        *_three_curves("nsp_accuracy", _PAIRS, ".0%", showlegend=False),
    ]
    if not more:
        return _panels(
            [_Panel("Loss", 54, _FROM_ZERO, losses), _Panel("Accuracy", 46, _FRACTION, accuracies)], gap=0.04
        )
    by_input = [
        _curve("masked_accuracy", "shown as [MASK]", ACCENT, ".0%"),
        _curve("replaced_accuracy", "replaced by another word", SECOND, ".0%", dash="dash"),
        _curve("kept_accuracy", "left unchanged", _GREY, ".0%", dash="dot"),
    ]
    rate = _curve("learning_rate", "Learning rate", _GREY, ".3g", showlegend=False)
    norm = _curve("grad_norm", "Gradient norm", _GREY, ".3g", showlegend=False)
    panels = [
        _Panel("Loss", 28, _FROM_ZERO, losses),
        _Panel("Accuracy", 22, _FRACTION, accuracies),
        _Panel("MLM accuracy", 22, _FRACTION, by_input),
        _Panel("Learning rate", 12, _FROM_ZERO, [rate]),
        _Panel("Gradient norm", 12, _FROM_ZERO, [norm]),
    ]
    return _panels(panels, gap=0.035)


def _panels(panels: Sequence[_Panel], *, gap: float) -> dict[str, Any]:
    """The panels below one another with a common horizontal axis; gap: between two of them, of the whole height."""
    numbers = ["", *map(str, range(2, len(panels) + 1))]  # Plotly's names: x, x2, ...
    unit = (1 - gap * (len(panels) - 1)) / sum(panel.height for panel in panels)
    data: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    top = 1.0
    for number, panel in zip(numbers, panels):
        data += [{**curve, "xaxis": f"x{number}", "yaxis": f"y{number}"} for curve in panel.curves]
        is_last, bottom = panel is panels[-1], max(0.0, top - panel.height * unit)
        axes[f"xaxis{number}"] = _axis(
            anchor=f"y{number}",
            range=[0, 100],
            showticklabels=is_last,
            **({"title": {"text": "Step", "standoff": 6}} if is_last else {"matches": f"x{numbers[-1]}"}),
        )
        axes[f"yaxis{number}"] = _axis(domain=[bottom, top], title={"text": panel.title, "standoff": 6}, **panel.axis)
        top = bottom - gap
    by_title = {panel.title: f"yaxis{number}" for number, panel in zip(numbers, panels)}
    layout = _layout(
        margin={"l": 56, "r": 12, "t": 34, "b": 40},
        hovermode="x unified",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "xanchor": "left"},
        meta={"logarithmic": [by_title[title] for title in ("Loss", "Gradient norm") if title in by_title]},
        **axes,
    )
    return {"data": data, "layout": layout}


def word_points(labels: Sequence[str], points: Sequence[Sequence[float]], *, title: str = "") -> dict[str, Any]:
    """Vectors as numbered points with the same scale on both axes.

    labels: what each vector stands for, shown on hover. points: (N, 2).
    """
    data = [
        {
            "type": "scatter",
            "mode": "markers+text",
            "x": [round(float(x), 4) for x, _ in points],
            "y": [round(float(y), 4) for _, y in points],
            "text": [str(number) for number in range(1, len(points) + 1)],
            "textposition": "top center",
            "textfont": {"size": 13, "color": _GREY},
            "hovertext": [literal(f"{number} {label}") for number, label in enumerate(labels, 1)],
            "hovertemplate": "%{hovertext}<extra></extra>",
            "marker": {"size": 11, "color": ACCENT, "opacity": 0.8},
            "cliponaxis": False,
        }
    ]
    layout = _layout(
        title=_title(title),
        margin={"l": 48, "r": 24, "t": 44, "b": 36},
        xaxis=_axis(zeroline=True, zerolinecolor=_GRID),
        yaxis=_axis(zeroline=True, zerolinecolor=_GRID, scaleanchor="x"),
    )
    return {"data": data, "layout": layout}


def _title(text: str) -> dict[str, Any]:
    return {"text": text, "font": {"size": 14}, "x": 0, "y": 1, "yanchor": "top", "pad": {"t": 6, "l": 4}}
