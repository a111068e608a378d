"""Small controls that show and change one part of the question."""

from typing import Any

import gradio as gr

from ui.views import view


def control(kind: str, part: str, *, label: str, info: str = "", elem_id: str, **options: Any) -> gr.HTML:
    """A control for a part of the question. kind: "checkbox", "text", "lines" (a list of texts), "radio" (with
    choices: [key, label] of each) or "slider" (with most: the end of its range, from 0).

    Its answer: {"first": what it shows where the question has nothing, "most": another end of the range}.
    """
    options |= {"kind": kind, "part": part, "label": label, "info": info}
    return view("parts/control", options=options, elem_id=elem_id)
