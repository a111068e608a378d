"""Numbers to Plotly figures, as plain dictionaries {"data": [...], "layout": {...}} that Plotly.react takes.

Backgrounds are transparent and letters mid-grey, so that one figure suits a light and a dark page. Words that a
person typed go in as text that Plotly can't read as markup.
"""

from collections.abc import Sequence
from typing import Any

ACCENT = "#0d9488"
SECOND = "#c2812a"
ACCENT_RGB = (13, 148, 136)

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


def _curve(
    name: str, colour: str, axes: str, digits: str, *, dash: str = "solid", legend: bool = True
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "showlegend": legend,
        "x": [],
        "y": [],
        "xaxis": f"x{axes}",
        "yaxis": f"y{axes}",
        "line": {"color": colour, "width": 2, "dash": dash},
        "hovertemplate": f"{name} %{{y:{digits}}}<extra></extra>",
    }


def curves() -> dict[str, Any]:
    """Loss above accuracy, each for masked words (MLM) and next sentence (NSP); the points come later.

    The traces are, in this order: MLM loss, NSP loss, MLM accuracy, NSP accuracy.
    """
    words, pairs = "Masked words (MLM)", "Next sentence (NSP)"
    data = [
        _curve(words, ACCENT, "", ".3f"),
        _curve(pairs, SECOND, "", ".3f", dash="dash"),
        _curve(words, ACCENT, "2", ".0%", legend=False),
        _curve(pairs, SECOND, "2", ".0%", dash="dash", legend=False),
    ]
    layout = _layout(
        margin={"l": 48, "r": 12, "t": 34, "b": 40},
        hovermode="x unified",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "xanchor": "left"},
        xaxis=_axis(domain=[0, 1], anchor="y", matches="x2", showticklabels=False, range=[0, 100]),
        yaxis=_axis(domain=[0.54, 1], title={"text": "Loss", "standoff": 6}, rangemode="tozero"),
        xaxis2=_axis(domain=[0, 1], anchor="y2", title={"text": "Step", "standoff": 6}, range=[0, 100]),
        yaxis2=_axis(domain=[0, 0.46], title={"text": "Accuracy", "standoff": 6}, range=[0, 1.02], tickformat=".0%"),
    )
    return {"data": data, "layout": layout}


def _opacity_scale() -> list[list[Any]]:
    """The accent colour, its opacity the root of the weight: most weights are small and should still be told apart."""
    shares = (0, 0.01, 0.04, 0.09, 0.16, 0.25, 0.36, 0.49, 0.64, 0.81, 1)
    return [[share, "rgba({}, {}, {}, {:.2f})".format(*ACCENT_RGB, max(0.03, share**0.5))] for share in shares]


def attention_map(tokens: Sequence[str], weights: Sequence[Sequence[float]], *, title: str = "") -> dict[str, Any]:
    """One head as a map: a row for each word that looks, a column for each word it looks at.

    tokens: T words. weights: (T, T), each row a share of 1.
    """
    weights = [[round(float(weight), 4) for weight in row] for row in weights]
    return _square_map(tokens, tokens, weights, between="→", lowest=0, colours=_opacity_scale(), title=title)


def similarity_map(labels: Sequence[str], cosine: Sequence[Sequence[float]], *, title: str = "") -> dict[str, Any]:
    """How alike N vectors are, as a map: one colour for the same direction, the other for the opposite one.

    labels: what each vector stands for; the rows have number and label, the columns the number alone. cosine: (N, N),
    from -1 to 1.
    """
    cosine = [[round(float(value), 4) for value in row] for row in cosine]
    colours = [[0, SECOND], [0.5, "rgba({}, {}, {}, 0.03)".format(*ACCENT_RGB)], [1, ACCENT]]
    numbers = [str(number) for number in range(1, len(labels) + 1)]
    return _square_map(_numbered(labels), numbers, cosine, between="and", lowest=-1, colours=colours, title=title)


def word_points(labels: Sequence[str], points: Sequence[Sequence[float]], *, title: str = "") -> dict[str, Any]:
    """Vectors as numbered points on a plane, one step as long to the right as upwards.

    labels: what each vector stands for, shown at its point when it is pointed at. points: (N, 2).
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
            "hovertext": [literal(label) for label in _numbered(labels)],
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


def _numbered(labels: Sequence[str]) -> list[str]:
    return [f"{number} {label}" for number, label in enumerate(labels, 1)]


def _title(text: str) -> dict[str, Any]:
    return {"text": text, "font": {"size": 14}, "x": 0, "xref": "paper", "y": 1, "yanchor": "top", "pad": {"t": 6}}


def _square_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: list[list[float]],
    *,
    between: str,
    lowest: float,
    colours: list[list[Any]],
    title: str,
) -> dict[str, Any]:
    """N x N values from `lowest` to 1, with the rows' and columns' names; `between` joins two of them in a hint."""
    size = len(rows)
    row_names, column_names = [literal(row) for row in rows], [literal(column) for column in columns]
    places = list(range(size))
    ticks = {"tickmode": "array", "tickvals": places, "showgrid": False, "fixedrange": False}
    # Names shrink with many words, and the margin follows the longest of them, up to a limit.
    letters = max(8, min(13, round(420 / max(size, 1))))
    angle = 0 if all(len(column) < 3 for column in columns) else -90 if size > 12 else -45
    left, top = (
        int(min(180, 24 + letters * 0.62 * max((len(name) for name in names), default=0))) for names in (rows, columns)
    )
    data = [
        {
            "type": "heatmap",
            "z": values,
            "x": places,
            "y": places,
            "zmin": lowest,
            "zmax": 1,
            "colorscale": colours,
            "xgap": 1,
            "ygap": 1,
            "text": [
                [f"{row} {between} {column}: {values[i][j]:.3f}" for j, column in enumerate(column_names)]
                for i, row in enumerate(row_names)
            ],
            "hovertemplate": "%{text}<extra></extra>",
            "colorbar": {
                "orientation": "h",
                "x": 0,
                "xanchor": "left",
                "y": 0,
                "yanchor": "top",
                "ypad": 14,
                "len": 0.5,
                "thickness": 8,
                "outlinewidth": 0,
                "tickformat": ".1f",
            },
        }
    ]
    layout = _layout(
        title=_title(title),
        margin={"l": left, "r": 12, "t": top + 20, "b": 56},
        xaxis=_axis(side="top", tickangle=angle, tickfont={"size": letters}, ticktext=column_names, **ticks),
        yaxis=_axis(autorange="reversed", tickfont={"size": letters}, ticktext=row_names, **ticks),
    )
    return {"data": data, "layout": layout}
