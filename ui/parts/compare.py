"""A second model, or another step of a run, beside the one that the page shows."""

from typing import Any

import gradio as gr
from gradio.events import Dependency

from bert_core.errors import BertCoreError
from ui.handlers import QUIET
from ui.parts.page import Page
from ui.server.workspace import Model, Workspace

NOTHING = "Nothing"
MOST_STEPS = 12  # of one run in the list


def compare_with(elem_id: str) -> gr.Dropdown:
    """The list of models to compare with; `fill_lists` fills it when the tab opens."""
    return gr.Dropdown(
        [(NOTHING, "")],
        value="",
        label="Compare with",
        info="Another model, or another step of a run, on the same sentences.",
        elem_id=elem_id,
        min_width=240,
    )


def fill_lists(page: Page, tab: gr.Tab, boxes: dict[gr.Dropdown, gr.Textbox], other: gr.Dropdown) -> None:
    """Fill the tab's lists when it opens: `other`, and lists of sentences, from which one goes into its box.

    Examples of another text in the boxes give way to sentences of the shown model's text.
    """

    shown = [*boxes.values()]
    with tab:
        offered = gr.JSON(visible="hidden")

    def fill(token: str, key: str, *texts: str) -> dict[Any, Any]:
        sentences, models = gr.update(choices=page.sentences(token)), model_choices(page, token)
        chosen = key if key in {value for _, value in models} else ""
        return {
            **dict.fromkeys(boxes, sentences),
            other: gr.update(choices=models, value=chosen),
            offered: [texts, page.examples(token, texts)],
        }

    opened = tab.select(fill, [page.visitor, other, *shown], {*boxes, other, offered}, **QUIET)
    replace_unchanged(opened, offered, shown)
    for chosen, box in boxes.items():
        chosen.input(lambda text: text or gr.skip(), chosen, box, **QUIET)


def replace_unchanged(event: Dependency, offered: gr.JSON, boxes: list[gr.Textbox]) -> None:
    """After an event put texts into boxes, unless a person has typed into one since the event began.

    offered: what the event gives, the texts that the boxes had and those to put in.
    """
    # An update without a value leaves a box alone; the text that it has now would undo what is typed meanwhile.
    replace = """([before, after], ...texts) => texts.every((text, i) => text === before[i])
        ? after.map((text, i) => text === before[i] ? {__type__: "update"} : text)
        : texts.map(() => ({__type__: "update"}))"""
    event.success(None, [offered, *boxes], boxes, js=replace, **QUIET)


def model_choices(page: Page, token: str) -> list[tuple[str, str]]:
    """Models to compare with, (label, key) each; of a run some of its steps."""
    space = page.space(token) or Workspace("")
    found = [(NOTHING, ""), *((name, name) for name in page.workspaces.shipped_names)]
    found += [(caption(model), key) for key, model in list(space.models.items())]
    for run in list(space.runs.values()):
        steps = [snapshot.step for snapshot in run.snapshots]
        for step in steps[:: -(-len(steps) // MOST_STEPS) or 1] + steps[-1:]:
            choice = (f"{space.title_of(run)}, step {step:,}", f"{run.id}@{step}")
            if choice not in found:
                found.append(choice)
    return found


def model_of(page: Page, token: str, key: str) -> Model:
    """The model with a key of `model_choices`. Raises BertCoreError when the visitor does not have it (any more)."""
    space = page.space(token) or Workspace("")
    if key in page.workspaces.shipped_names:
        return page.workspaces.shipped(key)
    if key in space.models:
        return space.models[key]
    run_id, _, step = key.partition("@")
    run = space.run(run_id)
    if not step.isdigit() or (found := space.checkpoint(run, int(step))) is None:
        raise BertCoreError("This step is no longer kept; choose another one.")
    return Model(space.title_of(run), f"step {found[0]:,}", found[1])


def caption(model: Model) -> str:
    """The model's name above its view."""
    return f"{model.title}, {model.detail}"
