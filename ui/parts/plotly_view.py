"""The one component that draws a Plotly figure, and where Plotly.js comes from.

gr.Plot draws its chart anew at every update (zoom and hover are lost) and brings an older Plotly.js of its own; this
component keeps the chart and uses the Plotly.js of the installed package, served from this machine.
"""

import importlib.util
from pathlib import Path
from typing import Any

import gradio as gr

from ui.views import view


def plotly_script() -> Path:
    """The plotly.min.js of the installed package, found without importing plotly."""
    package = importlib.util.find_spec("plotly")
    return Path(package.submodule_search_locations[0]) / "package_data" / "plotly.min.js"


def plotly_view(figure: dict[str, Any] | None = None, *, elem_id: str | None = None) -> gr.HTML:
    """A chart; its value is a figure as a dictionary, or None for an empty place."""
    return view("plot", figure, elem_id=elem_id)
