"""Small controls that show and change one part of the question."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from balcony.views import view


def control(
    kind: str,
    part: str,
    *,
    label: str,
    info: str = "",
    choices: Sequence[tuple[Any, str]] = (),
    most: int = 0,
    resets: dict[str, Any] | None = None,
    elem_id: str,
    **layout: Any,
) -> gr.HTML:
    """A control for a part of the question. kind: "checkbox", "text", "lines" (a list of texts), "radio" or "select"
    (with choices: [key, label] of each) or "slider" (with most: the end of its range, from 0). resets: other parts of
    the question that change with it.

    Its answer: {"first": what it shows where the question has nothing, "choices" or "most": others}.
    """
    options = {"kind": kind, "part": part, "label": label, "info": info, "choices": choices, "most": most}
    options["resets"] = resets or {}
    return view("parts/control", options=options, elem_id=elem_id, **layout)
