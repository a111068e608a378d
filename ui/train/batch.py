"""The batch under the microscope: what the model was given in a step, what was asked of it, and what it says now."""

from typing import Any

import gradio as gr

from bert_core.config import DataConfig
from bert_core.errors import InputError, RunError
from bert_core.probes.batch import RowJudgement, RowView
from bert_core.runs.run import ENDED, Run
from ui.handlers import on_error
from ui.parts.downloads import exporter, offer
from ui.parts.export import Numbers, table
from ui.parts.notes import pair_labels
from ui.parts.page import Page
from ui.server.probe_lock import probe_lock
from ui.server.workspace import Workspace
from ui.views import view

PAIRS_SHOWN = 4
NO_RUN = "Press Start; the batch of the newest step appears here."
NO_RUN_LOOKED_AT = "The page looks at a model that brings no batches; choose one of your runs in the Models tab."
COLUMNS = ("pair", "label", "position", "segment", "kind", "shown", "true", "guess", "probability", "loss")


def batch_view(page: Page) -> None:
    """Lay out the view, closed at first, and connect it."""

    @on_error(lambda sentence: {"text": sentence})
    def look(arguments: list[Any]) -> dict[str, Any]:
        """Some pairs of the batch of a step, of the one that the page looks at for None."""
        token, step, first, again = arguments
        space = page.workspaces.find(token)
        if (run := space.runs.get(space.selected)) is None:
            return {"text": NO_RUN_LOOKED_AT if space.runs else NO_RUN}
        step = space.selected_step if step is None else int(step)
        return batch_value(space, run, step, max(0, int(first)), max(0, int(again)))

    with gr.Accordion("The batch under the microscope", open=False, elem_id="batch-microscope"):
        # What is looked at, as {step, first, again}, comes back as the value; the picture itself stays in the browser.
        microscope = view("batch", server_functions=[look], options={"pairs": PAIRS_SHOWN}, elem_id="batch")
        downloads = exporter("the batch", of="batch", elem_id="batch-download", kinds=("json", "csv"))

    def numbers(token: str, at: dict[str, int] | None) -> Numbers:
        if not at:
            raise InputError(NO_RUN)
        value = look([token, at["step"], at["first"], at["again"]])
        if "text" in value:
            raise InputError(value["text"])
        return table(COLUMNS, batch_table(value))

    offer(downloads, "batch", [page.visitor, microscope], numbers)


def batch_value(space: Workspace, run: Run, step: int | None, first: int, again: int) -> dict[str, Any]:
    """PAIRS_SHOWN pairs from number `first` on, as the batch view shows them.

    step: of a snapshot, None for the newest; the batch is the one that this snapshot has just learned from, and step 0
    shows the first batch to an untrained model. again: 1, 2, ... for another drawing of the masks.
    """
    if (found := space.checkpoint(run, step)) is None:
        if run.status in ENDED:
            raise RunError("Your run ended before its first batch; start another one.")
        raise RunError("Your run has no batch yet; it will in a moment.")
    at, checkpoint = found
    batch = run.batch_at(max(1, at), again=again, rows=slice(first, first + PAIRS_SHOWN))
    with probe_lock:
        judged = batch.judge(checkpoint) if batch.rows else ()
    return {
        "run": run.id,
        "step": at,
        "first": first,
        "again": again,
        "pairs": batch.pairs,
        "label": pair_labels(checkpoint)[0],
        "rows": [_row(row, said) for row, said in zip(batch.rows, judged, strict=True)],
        "legend": legend(run.recipe.data),
    }


def _row(row: RowView, said: RowJudgement) -> dict[str, Any]:
    return {
        "tokens": list(row.tokens),
        "kinds": list(row.kinds),
        "segments": list(row.segments),
        "is_next": row.is_next,
        "said": round(said.is_next, 4),
        # By position: true token, guess, its probability, loss, right.
        "asked": {
            str(guess.position): [
                row.labels[guess.position],
                guess.token,
                round(guess.probability, 4),
                round(guess.loss, 4),
                guess.is_right,
            ]
            for guess in said.guesses
        },
    }


def legend(data: DataConfig) -> list[list[str]]:
    """[kind, what it means] in a line each, with the shares of this run."""
    kept = 1 - data.mask_share - data.random_share
    return [
        ["masked", f"hidden behind [MASK] ({data.mask_share:.0%} of the asked words): say what stood here"],
        ["replaced", f"another word in its place ({data.random_share:.0%}): say which one belongs here"],
        ["kept", f"asked, but shown as it is ({kept:.0%}): a word that is seen is not always wrong"],
        ["untouched", "shown, and nothing is asked"],
        ["special", "[CLS] begins a pair, [SEP] ends a sentence; never asked"],
        ["padding", "fills shorter pairs up; gets no attention and has no loss"],
    ]


def batch_table(value: dict[str, Any]) -> list[list[Any]]:
    """What `batch_value` gives as rows of COLUMNS, one for each position; cells without a value are None."""
    label = value["label"]
    other = "NotNext" if label == "IsNext" else f"not {label}"
    rows = []
    for number, row in enumerate(value["rows"], value["first"] + 1):
        truth = label if row["is_next"] else other
        for position, (token, kind, segment) in enumerate(zip(row["tokens"], row["kinds"], row["segments"])):
            true, guess, probability, loss = row["asked"].get(str(position), [None] * 5)[:4]
            rows.append([number, truth, position, "AB"[segment], kind, token, true, guess, probability, loss])
    return rows
