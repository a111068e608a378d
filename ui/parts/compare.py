"""A second model, or another step of a run, beside the one that the page looks at."""

from typing import Any

import gradio as gr

from bert_core.errors import BertCoreError
from ui.parts.page import Page
from ui.server.workspace import Model, Workspace

NOBODY = "Nothing"
MOST_STEPS = 12  # of one run in the list


def compare_with(elem_id: str) -> gr.Dropdown:
    """The list of models to compare with; filled when the tab opens, by `choices`."""
    return gr.Dropdown(
        [(NOBODY, "")],
        value="",
        label="Compare with",
        info="Another model, or another step of a run, on the same sentences.",
        elem_id=elem_id,
        min_width=240,
    )


def choices(page: Page, token: str, other: str) -> dict[str, Any]:
    """The list for a visitor; the chosen one stays as long as it is in the list."""
    found = model_choices(page, token)
    return gr.update(choices=found, value=other if other in dict(map(reversed, found)) else "")


def model_choices(page: Page, token: str) -> list[tuple[str, str]]:
    """What the model can be compared with: (words for the person, key); of a run some of its steps."""
    space = page.space(token) or Workspace("")
    found = [(NOBODY, ""), *((name, name) for name in page.workspaces.shipped_names)]
    found += [(f"{model.title} ({model.detail})", key) for key, model in list(space.models.items())]
    for number, run in enumerate(list(space.runs.values()), 1):
        steps = [snapshot.step for snapshot in run.snapshots]
        for step in steps[:: -(-len(steps) // MOST_STEPS) or 1] + steps[-1:]:
            choice = (f"Your run {number}: {run.recipe.title}, step {step:,}", f"{run.id}@{step}")
            if choice not in found:
                found.append(choice)
    return found


def model_of(page: Page, token: str, key: str) -> Model:
    """The model of a key of `model_choices`. Raises BertCoreError for what is not (or no longer) the visitor's."""
    space = page.space(token) or Workspace("")
    if key in page.workspaces.shipped_names:
        return page.workspaces.shipped(key)
    if key in space.models:
        return space.models[key]
    run_id, _, step = key.partition("@")
    run = space.run(run_id)
    if not step.isdigit() or (found := space.checkpoint(run, int(step))) is None:
        raise BertCoreError("This step is not kept any more; choose another one.")
    return Model(f"Your run: {run.recipe.title}", f"step {found[0]:,}", found[1])


def caption(model: Model) -> str:
    """How a model is named above its own view."""
    return f"{model.title}, {model.detail}"
