"""A run as a file: its curves, a report to read, or all of it with its training state, which is opened again to
continue."""

import functools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gradio as gr

from balcony.frame.page import Page
from balcony.parts.export import curve_rows, file_text
from balcony.parts.report import report
from balcony.server.files import file_name, pack, unpack
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import NO_MODEL_YET, Workspace
from balcony.train.exam import exam_value
from balcony.views import hint, view
from bert_core.config import LOCAL, Limits
from bert_core.data.corpus import Corpus
from bert_core.errors import CorpusError, RunError
from bert_core.runs.recipe import Recipe
from bert_core.runs.run import Run
from bert_core.runs.saved_state import read_training_state

ABOUT = (
    "“Save” below the curves saves a run, to continue it later. Your own text is not included: choose it above "
    "before you open the file. <code>python -m bert_core train --resume</code> takes the unpacked folder."
)
NOT_KEPT = "The training state of this run is no longer kept; download its model in the Models tab."
File = tuple[str, Callable[[Path], object]]  # its name, and what writes it to a path
OTHER_TEXT = (
    "This run was trained on a text of its own, which the file does not include; choose the same text above, then open "
    "the file again."
)


class SavedRun:
    """The controls, closed at first. opened: a file to continue. problem: why one was refused."""

    def __init__(self, page: Page) -> None:
        with gr.Accordion("Continue a saved run", open=False, elem_id="saved-run"):
            hint(page.workspaces.losses)
            hint(ABOUT)
            self.problem = view("train/facts", elem_id="resume-problem")
            label = "A saved run (.zip)"
            self.opened = gr.File(label=label, file_types=[".zip"], elem_id="resume", height=120)


def run_file(page: Page, space: Workspace, run: Run, kind: str) -> dict[str, Any]:
    """What the list "Save" below the curves gives. A picture: the file's name without its ending and a title, since the
    browser draws it. Numbers: that name, and the content. Else the file. Raises RunError."""
    if kind in WHOLE:
        return page.kept_file(*WHOLE[kind](space, run))
    if kind == "png":
        progress, shown = run.progress(), space.title(run.id)
        named = {"title": f"{shown}, step {progress.step:,} of {progress.steps:,}"}
    else:
        named = {"content": file_text(kind, {"": curve_rows(run)}, iter)}
    return {"name": _name(space, run, "curves")} | named


def state_file(space: Workspace, run: Run) -> File:
    """The zip file of a run. Raises RunError."""
    if run.training is None:
        raise RunError(NOT_KEPT)
    return f"{_name(space, run, 'training-state')}.zip", functools.partial(pack, run.save)


def report_file(space: Workspace, run: Run) -> File:
    """The report of a run. Raises RunError before its first model."""
    if (found := space.checkpoint(run)) is None:
        raise RunError(NO_MODEL_YET)
    step, checkpoint = found
    verdict = exam_value(space, run, step).get("verdict", [])
    corpus = run.job.source if run.job else None
    with probe_lock:
        text = report(checkpoint, run.recipe, run.history()[:step], run.evaluations(), corpus, verdict=verdict)
    return f"{_name(space, run, 'report')}.html", lambda to: to.write_text(text, encoding="utf-8")


WHOLE: Mapping[str, Callable[[Workspace, Run], File]] = {"zip": state_file, "html": report_file}


def _name(space: Workspace, run: Run, what: str) -> str:
    return file_name(space.title(run.id), f"step {run.progress().step}", what)


def resumed(
    resume: Callable[[Path, Corpus | None], Run],
    zip_path: str,
    own_text: Callable[[Recipe], Corpus | None],
    limits: Limits = LOCAL,
) -> Run:
    """Resume the run of a zip file.

    resume: `TrainingService.resume`. own_text: returns the text that the person chose for a run of that recipe, None
    for the recipe's own. Raises BertCoreError, before anything starts, for a file or a text that cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="balcony-upload-") as scratch:
        folder = Path(scratch) / "model"
        unpack(Path(zip_path), folder, limits)
        corpus = own_text(read_training_state(folder).recipe)
        try:
            return resume(folder, corpus)
        except CorpusError:
            if corpus is None:
                raise CorpusError(OTHER_TEXT) from None
            raise
