"""What pre-training bought as a Plotly figure, a plain dictionary {"data": [...], "layout": {...}}."""

from collections.abc import Sequence
from typing import Any

MLM, NSP = "#1f6fd6", "#a86200"  # as in assets/css/balcony.css
_GREY = "#7c8594"
_GRID = "rgba(124, 133, 148, 0.18)"
_FONT = {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 13, "color": _GREY}
_FROM_ZERO, _MEASURE = {"rangemode": "tozero"}, {"range": [-0.05, 1.02]}


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
        yaxis=_axis(title={"text": measure, "standoff": 6}, **_MEASURE),
        yaxis2=_axis(anchor="x2", matches="y", **_MEASURE),
    )
    return {"data": data, "layout": layout}
