"""A run as a file: downloaded with its training state, and opened again to continue; or as a report to read."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from bert_core.config import LOCAL, Limits
from bert_core.data.corpus import Corpus
from bert_core.errors import CorpusError, RunError
from bert_core.machine import file_name
from bert_core.pages.report import report
from bert_core.runs.recipe import Recipe
from bert_core.runs.run import Run
from bert_core.runs.saved_state import read_training_state
from bert_core.storage.checkpoint import unpack_checkpoint
from ui.frame.page import Page
from ui.handlers import QUIET, on_error
from ui.server.probe_lock import probe_lock
from ui.server.workspace import NO_RUN_YET, Workspace
from ui.train.exam import exam_value
from ui.views import hint, view

ABOUT = (
    "Saves the model and its training state, to continue later. Your own text is not included: choose it above "
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
        with gr.Accordion("Save a run and continue later", open=False, elem_id="saved-run"):
            hint(page.workspaces.losses)
            hint(ABOUT)
            save = gr.Button("Download with training state", elem_id="save-run", min_width=160)
            describe = gr.Button("Report for reading (HTML)", elem_id="report", min_width=160)
            label = "Continue a saved run (.zip)"
            self.opened = gr.File(label=label, file_types=[".zip"], elem_id="resume", height=120)
            self.problem = view("train/facts", elem_id="resume-problem")

        def on_click(button: gr.Button, file: Callable[[Workspace], File]) -> None:
            @on_error(page.say)
            def handle(token: str) -> dict[Any, Any]:
                return page.save(*file(page.workspaces.find(token)))

            button.click(handle, page.visitor, [page.file, page.messages], **QUIET)

        on_click(save, state_file)
        on_click(describe, report_file)


def state_file(space: Workspace) -> File:
    """The zip file of the current run. Raises RunError."""
    run = space.current_run
    if run is None:
        raise RunError(NO_RUN_YET)
    if run.worker is None:
        raise RunError(NOT_KEPT)
    return _name(space, run, "training-state.zip"), run.pack


def report_file(space: Workspace) -> File:
    """The report of the current run. Raises RunError."""
    run = space.current_run
    found = space.checkpoint(run) if run else None
    if run is None or found is None:
        raise RunError(NO_RUN_YET)
    step, checkpoint = found
    verdict = exam_value(space, run, step).get("verdict", [])
    corpus = run.prepared.source if run.prepared else None
    with probe_lock:
        text = report(checkpoint, run.recipe, run.history()[:step], run.evaluations(), corpus, verdict=verdict)
    return _name(space, run, "report.html"), lambda to: to.write_text(text, encoding="utf-8")


def _name(space: Workspace, run: Run, kind: str) -> str:
    return f"{file_name(space.title_of(run), f'step {run.progress().step}')}-{kind}"


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
        unpack_checkpoint(zip_path, folder, limits=limits)
        corpus = own_text(read_training_state(folder).recipe)
        try:
            return resume(folder, corpus)
        except CorpusError:
            if corpus is None:
                raise CorpusError(OTHER_TEXT) from None
            raise
