"""Numbers to Plotly figures, as plain dictionaries {"data": [...], "layout": {...}} that Plotly.react takes.

balcony/parts/figures.js draws them: gr.Plot loses zoom at every update and loads an older Plotly.js. Backgrounds
are transparent and letters mid-grey, so that one figure suits a light and a dark page. What a person typed becomes
text that Plotly can't read as markup.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MLM, NSP = "#1f6fd6", "#a86200"  # as in assets/css/balcony.css; on a light page and on a dark one
POINT = "#825fcb"  # of the colours of maps there

_GREY = "#7c8594"
_GRID = "rgba(124, 133, 148, 0.18)"
_FONT = {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 13, "color": _GREY}
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
    """The text, escaped so that Plotly shows tags, entities and dollar signs as they are."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("$", "$" + _ZERO_WIDTH_SPACE)


@dataclass(frozen=True)
class _Panel:
    """One of the charts below each other that share the steps. axis: what follows "x" and "y" in its axes' names.
    digits: format of a value. height: relative to the other panels. logarithmic: may be shown on such a scale."""

    axis: str
    title: str
    digits: str
    height: float
    scale: dict[str, Any]
    logarithmic: bool = False


_SILENT = {"showlegend": False, "hoverinfo": "skip", "hovertemplate": None}
_FRACTIONS, _FROM_ZERO = {"range": [0, 1.02], "tickformat": ".0%"}, {"rangemode": "tozero"}
_LOSS = _Panel("", "Loss", ".3f", 0.42, _FROM_ZERO, logarithmic=True)
_ACCURACY = _Panel("2", "Accuracy", ".0%", 0.23, _FRACTIONS)
_BY_KIND = _Panel("3", "Asked words", ".0%", 0.22, _FRACTIONS)
_LEARNING_RATE = _Panel("4", "Learning rate", ".3g", 0.12, _FROM_ZERO)
_MEASURE = _Panel("2", "Held out", ".2f", 0.36, {"range": [-0.05, 1.02]})
_GRADIENT = _Panel("5", "Gradient norm", ".3g", 0.12, _FROM_ZERO, logarithmic=True)


def _curve(panel: _Panel, series: str, name: str, colour: str, dash: str, **parts: Any) -> dict[str, Any]:
    """A line without points. `meta` is for balcony/train/curves.js: the series of numbers, the kind of the line, and
    whether it can be smoothed and compared with other runs."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": series,
        "meta": {"series": series, "kind": "line"},
        "x": [],
        "y": [],
        "xaxis": f"x{panel.axis}",
        "yaxis": f"y{panel.axis}",
        "line": {"color": colour, "width": 2, "dash": dash},
        "hovertemplate": f"{name} %{{y:{panel.digits}}}<extra></extra>",
        **parts,
    }


@dataclass(frozen=True)
class _Objective:
    """answers: what its accuracy counts."""

    key: str
    name: str
    answers: str
    colour: str
    dash: str

    def curves(self, panel: _Panel, series: str) -> list[dict[str, Any]]:
        """A curve, its raw points behind it, and the same on held-out text. The legend shows the loss panel's curves
        and switches those of both panels."""
        line = _curve(panel, series, self.name if panel is _LOSS else self.answers, self.colour, self.dash)
        line |= {"legendgroup": self.key, "showlegend": panel is _LOSS}
        thin, circle = {"color": self.colour, "width": 1, "dash": "solid"}, {"symbol": "circle-open", "size": 7}
        raw = line | _SILENT | {"meta": {"series": series, "kind": "raw"}, "line": thin, "opacity": 0.3}
        held = _curve(panel, series, f"{self.key.upper()}, held-out", self.colour, "dot")
        held |= {"meta": {"series": series, "kind": "held"}, "mode": "lines+markers", "marker": circle}
        held |= {"legendgroup": f"{self.key} held-out", "showlegend": panel is _LOSS, "visible": False}
        return [raw, line | {"meta": {"series": series, "kind": "line", "smoothed": True}}, held]


_MLM = _Objective("mlm", "Masked words (MLM)", "Asked words right", MLM, "solid")
_NSP = _Objective("nsp", "Next sentence (NSP)", "Pairs right", NSP, "dash")
_TASK = _Objective("task", "Training loss", "", MLM, "solid")


def _baseline(name: str, colour: str, *, side: str = "bottom") -> dict[str, Any]:
    """A loss to compare with; its label comes with its value. side: of the label that touches the line."""
    line = {"color": colour, "width": 1, "dash": "dot"}
    meta = {"series": name, "kind": "baseline", "side": side}
    return _curve(_LOSS, name, "", colour, "dot") | _SILENT | {"meta": meta, "line": line}


def curves(*, more: bool = False) -> dict[str, Any]:
    """Loss above accuracy, each for masked words (MLM) and next sentence (NSP); the page adds the points.

    more: also the accuracy for masked, replaced and kept words, the learning rate and the gradient's norm.
    """
    data = [
        *_MLM.curves(_LOSS, "mlm_loss"),
        *_NSP.curves(_LOSS, "nsp_loss"),
        *_MLM.curves(_ACCURACY, "mlm_accuracy"),
        *_NSP.curves(_ACCURACY, "nsp_accuracy"),
        _baseline("uniform", MLM),
        _baseline("unigram", MLM, side="top"),
        _baseline("coin", NSP),
    ]
    panels = [_LOSS, _ACCURACY]
    if more:
        data += [
            _curve(_BY_KIND, "masked_accuracy", "masked", MLM, "solid"),
            _curve(_BY_KIND, "replaced_accuracy", "replaced", MLM, "dash"),
            _curve(_BY_KIND, "kept_accuracy", "kept", MLM, "dot"),
            _curve(_LEARNING_RATE, "learning_rate", "Learning rate", _GREY, "solid", showlegend=False),
            _curve(_GRADIENT, "grad_norm", "Gradient norm", _GREY, "solid", showlegend=False),
        ]
        panels += [_BY_KIND, _LEARNING_RATE, _GRADIENT]
    return _stacked(data, panels)


def loss_curves() -> dict[str, Any]:
    """Both losses; the page adds the curves of several runs, each in its colour."""
    both = [
        _curve(_LOSS, series, each.name, _GREY, each.dash, meta={"series": series, "kind": "line", "smoothed": True})
        for each in (_MLM, _NSP)
        for series in [f"{each.key}_loss"]
    ]
    figure = _stacked(both, [_LOSS])
    figure["layout"]["hovermode"] = "closest"
    return figure


def task_curves() -> dict[str, Any]:
    """The loss of fine-tuning above the measure of its task; the latter only on the validation part."""
    raw, line, held = _TASK.curves(_LOSS, "loss")
    name = {"name": "On held-out examples", "hovertemplate": "held out %{y:.3f}<extra></extra>"}
    below = {"xaxis": "x2", "yaxis": "y2", "showlegend": False}
    measure = held | name | below | {"meta": {"series": "measure", "kind": "held"}}
    # Plotly cannot draw a panel without a visible curve; one of this kind is visible from the start.
    empty = raw | below | {"meta": {"series": "measure", "kind": "line"}}
    return _stacked([raw, line, held | name, empty, measure], [_LOSS, _MEASURE])


def transfer_chart(
    starts: Sequence[tuple[str, Sequence[Sequence[Sequence[float]]], Sequence[Sequence[float]]]], measure: str
) -> dict[str, Any]:
    """A measure after each epoch, beside the same at the end for each number of labelled examples.

    starts: for each kind of initial weights its name; for each of its runs the [step, value] points; and [examples,
    mean, standard deviation] points.
    """
    data: list[dict[str, Any]] = []
    for (name, runs, sizes), (colour, dash) in zip(starts, ((NSP, "dash"), (MLM, "solid"))):
        line, hover = {"color": colour, "width": 2, "dash": dash}, f"{name} %{{y:.2f}}<extra></extra>"
        shared = {"type": "scatter", "name": name, "legendgroup": name, "line": line, "hovertemplate": hover}
        for run in runs:
            x, y = zip(*run)
            data.append(shared | {"mode": "lines", "x": x, "y": y, "showlegend": False, "opacity": 0.7})
        if sizes:
            x, y, deviations = zip(*sizes)
            error = {"type": "data", "array": deviations, "color": colour}
            sized = {"mode": "lines+markers", "x": x, "y": y, "error_y": error, "xaxis": "x2", "yaxis": "y2"}
            data.append(shared | sized)
    examples = sorted({point[0] for _, _, sizes in starts for point in sizes})
    ticks = {"type": "log", "tickmode": "array", "tickvals": examples, "ticktext": [f"{each:g}" for each in examples]}
    layout = _layout(
        margin={"l": 56, "r": 16, "t": 34, "b": 44},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "xanchor": "left"},
        xaxis=_axis(domain=[0, 0.46], title={"text": "Step, with all examples", "standoff": 6}, **_FROM_ZERO),
        xaxis2=_axis(domain=[0.56, 1], anchor="y2", title={"text": "Labelled examples", "standoff": 6}, **ticks),
        yaxis=_axis(title={"text": measure, "standoff": 6}, **_MEASURE.scale),
        yaxis2=_axis(anchor="x2", matches="y", **_MEASURE.scale),
    )
    return {"data": data, "layout": layout}


def _stacked(data: list[dict[str, Any]], panels: list[_Panel]) -> dict[str, Any]:
    """A figure of panels one below the other."""
    gap, last = 0.05 if len(panels) > 2 else 0.1, panels[-1]  # so that the numbers of two axes do not touch
    unit = (1 - gap * (len(panels) - 1)) / sum(panel.height for panel in panels)
    top, axes = 1.0, {}
    for panel in panels:
        bottom = max(0.0, top - panel.height * unit)
        axes[f"xaxis{panel.axis}"] = _axis(
            anchor=f"y{panel.axis}",
            range=[0, 100],
            showticklabels=panel is last,
            **({"title": {"text": "Step", "standoff": 6}} if panel is last else {"matches": f"x{last.axis}"}),
        )
        title = {"text": panel.title, "standoff": 6, "font": {"size": 12}}  # no longer than a low panel is high
        axes[f"yaxis{panel.axis}"] = _axis(domain=[bottom, top], title=title, **panel.scale)
        top = bottom - gap
    layout = _layout(
        margin={"l": 56, "r": 12, "t": 34, "b": 40},
        hovermode="x unified",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "xanchor": "left"},
        meta={"logarithmic": [f"yaxis{panel.axis}" for panel in panels if panel.logarithmic]},
        **axes,
    )
    return {"data": data, "layout": layout}


def word_points(
    labels: Sequence[str], points: Sequence[Sequence[float]], names: Sequence[str] = (), *, title: str = ""
) -> dict[str, Any]:
    """Vectors as numbered points with the same scale on both axes.

    labels: shown on hover. points: (N, 2). names: beside the numbers.
    """
    numbered = [
        f"{number} {name}".strip()
        for number, name in itertools.zip_longest(range(1, len(points) + 1), names, fillvalue="")
    ]
    data = [
        {
            "type": "scatter",
            "mode": "markers+text",
            "x": [round(float(x), 4) for x, _ in points],
            "y": [round(float(y), 4) for _, y in points],
            "text": [literal(name) for name in numbered],
            "textposition": _beside(points),
            "textfont": {"size": 13, "color": _GREY},
            "hovertext": [literal(f"{number} {label}") for number, label in enumerate(labels, 1)],
            "hovertemplate": "%{hovertext}<extra></extra>",
            "marker": {"size": 11, "color": POINT, "opacity": 0.8},
            "cliponaxis": False,
        }
    ]
    layout = _layout(
        title={"text": title, "font": {"size": 15}, "x": 0, "y": 1, "yanchor": "top", "pad": {"t": 6, "l": 4}},
        margin={"l": 48, "r": 24, "t": 44, "b": 36},
        xaxis=_axis(zeroline=True, zerolinecolor=_GRID),
        yaxis=_axis(zeroline=True, zerolinecolor=_GRID, scaleanchor="x"),
    )
    return {"data": data, "layout": layout}


def _beside(points: Sequence[Sequence[float]]) -> list[str]:
    """Where the name of each point stands: towards the middle of the picture, and away from the nearest height of
    another."""
    across = [x for x, _ in points] or [0.0]
    least, width = min(across), (max(across) - min(across)) or 1.0
    order = sorted(range(len(points)), key=lambda i: points[i][1])
    heights = [-math.inf, *(points[i][1] for i in order), math.inf]
    sides = {}
    for k, i in enumerate(order):
        share, is_under = (points[i][0] - least) / width, heights[k + 2] - heights[k + 1] < heights[k + 1] - heights[k]
        sides[i] = (
            f"{'bottom' if is_under else 'top'} {'right' if share < 1 / 3 else 'left' if share > 2 / 3 else 'center'}"
        )
    return [sides[i] for i in range(len(points))]
