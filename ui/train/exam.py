"""Memorised or learned: the exam on sentences that the model learned from beside the exam on held-out ones."""

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

# Of each part: a look is over in a moment, and 16 sentences have some 150 words and 256 pairs.
MOST_SENTENCES = 16
FEW_RIGHT = 0.1

WHEN = (
    "When the run rests, each of its words is hidden in turn and each pair of sentences is judged: sentences that it "
    "learned from, beside sentences that it has never seen."
)
NOTHING_HELD_OUT = (
    "There is nothing to hold out: all {sentences:,} sentences of this text are learned from, again and again. The "
    "model is memorising them; what it would do with new sentences cannot be told from this text."
)
HELD_OUT = "{held_out:,} sentences are held out: the model never learns from them."
NEVER = "The same by always saying “does not follow”"
FEW = "Few words are right in either part; there is not much to tell apart yet."
MEMORISED = "It guesses more of the words that it has seen before, by more than chance: that much of it is memory."
LEARNED = (
    "It does about as well on sentences that it has never seen, as far as so few words can tell: this is learning."
)


def exam_view(workspaces: Workspaces) -> gr.HTML:
    """The view. It asks by itself, when it is seen and the run rests or another step is looked at."""

    @on_error(lambda sentence: {"text": sentence})
    def look(token: str) -> dict[str, Any]:
        space = workspaces.find(token)
        run = space.runs.get(space.selected)
        return {"text": WHEN} if run is None else exam_value(space, run)

    return view("exam", server_functions=[look], elem_id="exam")


def exam_value(space: Workspace, run: Run) -> dict[str, Any]:
    """What the exam view shows: `text`, and when the run rests or a moment of it is looked at also `step`, `columns`,
    and `rows` of a name and (right, asked) for each column.
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
    parts = {"Learned from": learned} | ({"Held out": held_out} if held_out else {})
    words, pairs, never = zip(*(_examine(checkpoint, part.excerpt(MOST_SENTENCES)) for part in parts.values()))
    rows = [["Hidden words guessed", *words]]
    if learned.labels is None:  # the exam's pairs are neighbours, and labelled pairs are something else
        rows += [["Pairs of sentences judged", *pairs], [NEVER, *never]]
    text = f"{about} {verdict_on(*words)}".strip() if held_out else about
    return {"text": text, "step": step, "columns": list(parts), "rows": rows}


def _examine(checkpoint: Checkpoint, part: Corpus) -> tuple[tuple[int, int], ...]:
    """(right, asked) for words, for pairs, and for who says of every pair that it does not follow."""
    with probe_lock:
        result = exam(checkpoint, part)
    asked = result.pairs[1]
    return result.words, result.pairs, (asked - sum(len(document) - 1 for document in part.documents), asked)


def verdict_on(learned: tuple[int, int], held_out: tuple[int, int]) -> str:
    """What (right, asked) in both parts say, in words; "" where a part has nothing to ask."""
    if not learned[1] or not held_out[1]:
        return ""
    if learned[0] / learned[1] < FEW_RIGHT:
        return FEW
    return MEMORISED if is_more_than_chance(learned, held_out) else LEARNED
