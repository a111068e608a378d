"""Numbers to Plotly figures, as plain dictionaries {"data": [...], "layout": {...}} that Plotly.react takes.

assets/js/parts/plotly_view.js draws them: gr.Plot loses zoom at every update and loads an older Plotly.js. Backgrounds
are transparent and letters mid-grey, so that one figure suits a light and a dark page. What a person typed becomes
text that Plotly can't read as markup.
"""

from collections.abc import Sequence
from typing import Any

ACCENT = "#0d9488"
SECOND = "#c2812a"
MAP_OPTIONS = {"colour": (13, 148, 136)}  # ACCENT, for heat maps that the page draws

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


_SHARES = {"range": [0, 1.02], "tickformat": ".0%"}
_WORDS, _PAIRS = "Masked words (MLM)", "Next sentence (NSP)"
_BY_KIND = (
    ("masked_accuracy", "shown as [MASK]", ACCENT, "solid"),
    ("replaced_accuracy", "replaced by another word", SECOND, "dash"),
    ("kept_accuracy", "kept as they are", _GREY, "dot"),
)


def _curve(series: str, name: str, colour: str, axes: str, digits: str, **parts: Any) -> dict[str, Any]:
    """A line without points. `meta` tells the page what it shows: a series of numbers, and in which way (kind)."""
    kind, dash = parts.pop("kind", "line"), parts.pop("dash", "solid")
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "meta": {"series": series, "kind": kind},
        "x": [],
        "y": [],
        "xaxis": f"x{axes}",
        "yaxis": f"y{axes}",
        "line": {"color": colour, "width": 2, "dash": dash},
        "hovertemplate": f"{name} %{{y:{digits}}}<extra></extra>",
        **parts,
    }


def _three_ways(series: str, name: str, colour: str, dash: str, axes: str, digits: str) -> list[dict[str, Any]]:
    """A curve, its raw points behind it, and the same on held-out text."""
    thin = {"color": colour, "width": 1, "dash": "solid"}
    held = f"{series[:3].upper()}, held-out"
    return [
        _curve(
            series,
            name,
            colour,
            axes,
            digits,
            kind="raw",
            line=thin,
            opacity=0.3,
            hoverinfo="skip",
            hovertemplate=None,
            showlegend=False,
        ),
        _curve(series, name, colour, axes, digits, dash=dash, showlegend=not axes),
        _curve(
            series,
            held,
            colour,
            axes,
            digits,
            kind="held",
            mode="lines+markers",
            dash="dot",
            marker={"symbol": "circle-open", "size": 7},
            showlegend=not axes,
            visible=False,
        ),
    ]


def _reference(series: str, name: str, colour: str, *, side: str = "top") -> dict[str, Any]:
    """A level that a loss can be compared with, named at its right end."""
    return _curve(
        series,
        name,
        colour,
        "",
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
    """Loss above accuracy, each for masked words (MLM) and next sentence (NSP); the points come later.

    Every curve also has its raw points and held-out text, every loss the levels of a guess without knowledge. more:
    below them accuracy by how an asked word was shown, learning rate and length of the gradient.
    """
    data = [
        *_three_ways("mlm_loss", _WORDS, ACCENT, "solid", "", ".3f"),
        *_three_ways("nsp_loss", _PAIRS, SECOND, "dash", "", ".3f"),
        *_three_ways("mlm_accuracy", _WORDS, ACCENT, "solid", "2", ".0%"),
        *_three_ways("nsp_accuracy", _PAIRS, SECOND, "dash", "2", ".0%"),
        _reference("ignorance", "any word alike", ACCENT),
        _reference("unigram", "word frequencies alone", ACCENT, side="bottom"),
        _reference("coin", "tossing a coin", SECOND),
    ]
    panels = [("", "Loss", {"rangemode": "tozero"}, 0.54), ("2", "Accuracy", _SHARES, 0.46)]
    if more:
        data += [_curve(series, name, colour, "3", ".0%", dash=dash) for series, name, colour, dash in _BY_KIND]
        data += [
            _curve("learning_rate", "Learning rate", _GREY, "4", ".3g", showlegend=False),
            _curve("grad_norm", "Gradient norm", _GREY, "5", ".3g", showlegend=False),
        ]
        panels = [
            ("", "Loss", {"rangemode": "tozero"}, 0.28),
            ("2", "Accuracy", _SHARES, 0.22),
            ("3", "MLM accuracy", _SHARES, 0.22),
            ("4", "Learning rate", {"rangemode": "tozero"}, 0.12),
            ("5", "Gradient norm", {"rangemode": "tozero"}, 0.12),
        ]
    gap = 0.035 if more else 0.04
    top, axes, free = 1.0, {}, 1 - gap * (len(panels) - 1)
    for number, title, range_, share in panels:
        bottom = max(0.0, top - share * free / sum(panel[3] for panel in panels))
        is_last = number == panels[-1][0]
        axes[f"xaxis{number}"] = _axis(
            anchor=f"y{number}",
            range=[0, 100],
            showticklabels=is_last,
            **({"title": {"text": "Step", "standoff": 6}} if is_last else {"matches": f"x{panels[-1][0]}"}),
        )
        axes[f"yaxis{number}"] = _axis(domain=[bottom, top], title={"text": title, "standoff": 6}, **range_)
        top = bottom - gap
    layout = _layout(
        margin={"l": 56, "r": 12, "t": 34, "b": 40},
        hovermode="x unified",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "xanchor": "left"},
        **axes,
    )
    return {"data": data, "layout": layout}


def similarity_map(labels: Sequence[str], cosine: Sequence[Sequence[float]], *, title: str = "") -> dict[str, Any]:
    """How alike N vectors are, as a map: one colour for the same direction, the other for the opposite one.

    labels: what each vector stands for; the rows have number and label, the columns the number alone. cosine: (N, N),
    from -1 to 1.
    """
    cosine = [[round(float(value), 4) for value in row] for row in cosine]
    colours = [[0, SECOND], [0.5, "rgba({}, {}, {}, 0.03)".format(*MAP_OPTIONS["colour"])], [1, ACCENT]]
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
    return {"text": text, "font": {"size": 14}, "x": 0, "y": 1, "yanchor": "top", "pad": {"t": 6, "l": 4}}


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
                "tickmode": "array",
                "tickvals": [lowest, 0, 1],
                "tickangle": 0,
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
