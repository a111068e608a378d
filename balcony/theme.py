"""The page's theme, style sheet and document head; nothing comes from another machine."""

import importlib.util
import json
from pathlib import Path

import gradio as gr

from balcony.frame.question import SCHEMA
from balcony.server.served import tag

SYSTEM_FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"]
# As Gradio's, in lengths that follow the browser's font size.
LETTERS = gr.themes.Size(
    *("0.5625rem", "0.625rem", "0.75rem", "0.875rem", "1rem", "1.375rem", "1.625rem"), name="text_of_browser"
)
SYSTEM_MONO = ["ui-monospace", "SF Mono", "Consolas", "monospace"]


def theme() -> gr.themes.Base:
    """One accent on grey, with the fonts the person's own system has."""
    return gr.themes.Default(
        primary_hue=gr.themes.colors.teal,
        secondary_hue=gr.themes.colors.teal,
        neutral_hue=gr.themes.colors.slate,
        font=SYSTEM_FONTS,
        font_mono=SYSTEM_MONO,
        text_size=LETTERS,
        radius_size=gr.themes.sizes.radius_md,
        spacing_size=gr.themes.sizes.spacing_md,
    ).set(
        body_background_fill="*neutral_50",
        body_background_fill_dark="*neutral_950",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_hover_dark="*primary_600",
        block_label_background_fill="transparent",
        block_label_background_fill_dark="transparent",
        block_title_text_weight="600",
        body_text_color_subdued="*neutral_500",
        block_info_text_color="*neutral_500",
        block_info_text_color_dark="*neutral_400",
        checkbox_border_color_dark="*neutral_500",
        checkbox_background_color_selected="*primary_700",
        checkbox_background_color_selected_dark="*primary_500",
        checkbox_border_color_selected="*primary_700",
        checkbox_border_color_selected_dark="*primary_500",
    )


def plotly_script() -> Path:
    """The plotly.min.js of the installed package, found without importing plotly."""
    package = importlib.util.find_spec("plotly")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "package_data" / "plotly.min.js"


# A link to another tab than the first: no tab can be seen, or pressed, before the bar opens that one, and nothing in it
# before the bar knows the question.
_OPENING = """if (/[#&]tab=(?!train(&|$))/.test(location.hash))
  for (const parts of ["#tabs", "#tabs [role=tabpanel]"]) {
    const style = document.createElement("style");
    Object.assign(style, { className: "opening", textContent: `${parts} { visibility: hidden; }` });
    document.head.append(style);
  }"""
# A browser may refuse storage to a frame of another site; Gradio's page would not load then. What is kept stands in the
# frame's entry of the history instead, so that a reload of the frame finds it; no link and no other site sees it there.
_STORAGE = """for (const name of ["localStorage", "sessionStorage"]) {
  try { window[name].setItem("balcony", ""); window[name].removeItem("balcony"); } catch {
    const kept = new Map(history.state?.[name]);
    const write = () => history.replaceState({ ...history.state, [name]: [...kept] }, "");
    const written = (change) => (...values) => { change(...values); write(); };
    addEventListener("hashchange", write);  // a new entry
    Object.defineProperty(window, name, { value: {
      getItem: (key) => kept.get(`${key}`) ?? null, setItem: written((key, value) => kept.set(`${key}`, `${value}`)),
      removeItem: written((key) => kept.delete(`${key}`)), clear: written(() => kept.clear()) } });
    Balcony.forgets = true;
  }
}"""


# A frame with `sandbox` and without `allow-same-origin` may fetch none of the page's scripts;
# this one is in the document.
SANDBOXED = """<script>if (origin === "null") addEventListener("DOMContentLoaded", () => {
  const [said, link] = ["p", "a"].map((tag) => document.createElement(tag));
  link.href = location.href; link.target = "_blank"; link.textContent = "Open it in a tab of its own.";
  said.role = "alert"; said.style.cssText = "font: 16px system-ui; padding: 1em";
  said.append("This page is in a frame without allow-same-origin, so it cannot ask its server. ", link);
  document.body.replaceChildren(said);
});</script>"""


def head() -> str:
    """What the document's head gets: the scripts, a list for views that are mounted before they have loaded, what hides
    the first tab from a link to another, and storage where the browser has none."""
    plotly = json.dumps(f"gradio_api/file={plotly_script().as_posix()}")
    facts = f"plotly: {plotly}, schema: {json.dumps(SCHEMA)}, hash: location.hash"
    early = f"{{ {facts}, waiting: [], mount(...view) {{ this.waiting.push(view); }} }}"
    return f"<script>window.Balcony ||= {early};\n{_OPENING}\n{_STORAGE}</script>\n{tag()}"
