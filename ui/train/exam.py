"""Memorising versus generalising: the exam on training sentences beside the exam on held-out ones."""

from typing import Any

import gradio as gr

from bert_core.data.corpus import Corpus
from bert_core.probes.exam import exam
from bert_core.runs.run import TRAINING, Run
from bert_core.storage.checkpoint import Checkpoint
from bert_core.training.evaluation import is_more_than_chance
from ui.handlers import on_error
from ui.server.probe_lock import probe_lock
from ui.server.workspace import Workspace
from ui.server.workspaces import Workspaces
from ui.views import view

MOST_SENTENCES = 16  # of each part: some 150 words and 256 pairs, which take a moment
FEW_RIGHT = 0.1

WHEN = "When training pauses or ends, every word is hidden once and every pair judged."
NOTHING_HELD_OUT = (
    "There is nothing to hold out: all {sentences:,} sentences of this text are used for training. The model is "
    "memorising them; how well it generalises cannot be measured."
)
HELD_OUT = "{held_out:,} sentences are held out: the model never trains on them."
NEVER = "Baseline: always “does not follow”"
FEW = "Few words are right in either part; it is too early to compare them."
MEMORISED = "It predicts training words better than held-out words, by more than chance: this gap is memorisation."
GENERALISES = "It predicts held-out words about as well as training words, as far as so few can show: it generalises."


def exam_view(workspaces: Workspaces) -> gr.HTML:
    """The view. It updates when it is visible and the run pauses or ends, or a step is selected."""

    @on_error(lambda sentence: {"text": sentence})
    def results(token: str) -> dict[str, Any]:
        space = workspaces.find(token)
        run = space.runs.get(space.selected)
        return {"text": WHEN} if run is None else exam_value(space, run)

    return view("exam", server_functions=[results], elem_id="exam")


def exam_value(space: Workspace, run: Run) -> dict[str, Any]:
    """What the exam view shows: `text`, and, unless the newest step of a run in training is selected, `step`, `columns`
    and `rows` of a name and (right, of how many) for each column.
    """
    learned, held_out = run.training_text, run.held_out
    if learned is None or (found := space.checkpoint(run, space.selected_step)) is None:
        return {"text": WHEN}
    about = (
        HELD_OUT.format(held_out=len(held_out.sentences))
        if held_out
        else NOTHING_HELD_OUT.format(sentences=len(learned.sentences))
    )
    if space.selected_step is None and run.status in TRAINING:
        return {"text": f"{about} {WHEN}" if held_out else about}
    step, checkpoint = found
    parts = {"Training text": learned} | ({"Held out": held_out} if held_out else {})
    words, pairs, never = zip(*(_examine(checkpoint, part.excerpt(MOST_SENTENCES)) for part in parts.values()))
    rows = [["Hidden words right", *words]]
    if learned.labels is None:  # the exam's pairs are neighbours; labelled pairs mean something else
        rows += [["Pairs judged right", *pairs], [NEVER, *never]]
    text = f"{about} {verdict_on(*words)}".strip() if held_out else about
    return {"text": text, "step": step, "columns": list(parts), "rows": rows}


def _examine(checkpoint: Checkpoint, part: Corpus) -> tuple[tuple[int, int], ...]:
    """(right, of how many) for words, for pairs, and for always answering that a pair does not follow."""
    with probe_lock:
        result = exam(checkpoint, part)
    pairs = result.pairs[1]
    return result.words, result.pairs, (pairs - sum(len(document) - 1 for document in part.documents), pairs)


def verdict_on(learned: tuple[int, int], held_out: tuple[int, int]) -> str:
    """A sentence on the words right in both parts, (right, of how many) each; "" for a part without words."""
    if not learned[1] or not held_out[1]:
        return ""
    if learned[0] / learned[1] < FEW_RIGHT:
        return FEW
    return MEMORISED if is_more_than_chance(learned, held_out) else GENERALISES
