"""Our own views: gr.HTML components whose content our scripts draw from a JSON value.

The template is one constant element, so Gradio never renders typed text as HTML; the scripts insert it as text.
views.js beside it is the other half.
"""

import html
from typing import Any

import gradio as gr


def hint(text: str) -> gr.HTML:
    """A paragraph in small print. text: HTML of this program, never of a visitor."""
    return gr.HTML(f"<p>{text}</p>", elem_classes="b-hint", apply_default_css=False, padding=False, js_on_load=None)


def with_terms(text: str) -> str:
    """HTML of a text in which terms are marked, as `withTerms` in balcony/parts/elements.js draws it."""
    return f'<b-text text="{html.escape(text)}"></b-text>'


def view(
    name: str,
    value: Any = None,
    *,
    events: tuple[str, ...] = (),
    options: dict[str, Any] | None = None,
    elem_id: str | None = None,
    **layout: Any,
) -> gr.HTML:
    """A component drawn by the function `view` of balcony/<name>.js.

    value: JSON that the view draws, again at every update. events: names of the events that the view may trigger;
    names unknown to Gradio become listeners of the component. options: JSON that never changes.
    """
    return gr.HTML(
        value,
        html_template='<div class="b-view"></div>',
        js_on_load=(
            f"{list(events)!r};"  # Gradio reads here which events there are
            f"Balcony.mount({name!r}, {{element, props, trigger, watch}});"
        ),
        apply_default_css=False,
        padding=False,
        options=options or {},
        elem_id=elem_id,
        **layout,
    )
