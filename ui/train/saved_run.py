"""A run as a file to go on from: downloaded with its training state, and opened again."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from bert_core.data.corpus import Corpus
from bert_core.errors import CorpusError, RunError
from bert_core.runs.recipe import Recipe
from bert_core.runs.run import Run
from bert_core.runs.saved_state import read_training_state
from bert_core.storage.checkpoint import unpack_checkpoint
from ui.parts.downloads import file_name
from ui.views import view

CLICK = "() => document.querySelector('#run-file a, #run-file').click()"
ABOUT = (
    "<p>A zip of the model as it is now, with all that its training needs to go on: the optimizer's memory, the "
    "settings, the numbers so far. It is some three times as large as the download in Models, which is for using a "
    "model, in <code>transformers</code> too, and from which no training goes on.</p>"
    "<p>Opened again, the run goes on as if it had never stopped, bit for bit. A text of your own is not in the "
    "zip: choose the same text above first. <code>python -m bert_core train --resume</code> takes the unpacked "
    "folder.</p>"
)
NOT_KEPT = "What this run needs to go on is no longer kept; its model can be downloaded in the Models tab."
OTHER_TEXT = (
    "This run learned from a text that is not its recipe's own, and a zip does not hold the text; choose the same text "
    "above, then open the zip again."
)


@dataclass(frozen=True)
class SavedRun:
    """The controls; `link` is the hidden one through which a browser downloads, `said` shows why a zip is refused."""

    save: gr.Button
    link: gr.DownloadButton
    opened: gr.File
    said: gr.HTML


def saved_run() -> SavedRun:
    """Lay out the controls, closed at first."""
    with gr.Accordion("Save a run and go on later", open=False, elem_id="saved-run"):
        gr.HTML(ABOUT, elem_classes="balcony-hint", apply_default_css=False, js_on_load=None)
        save = gr.Button("Download with training state", elem_id="save-run", min_width=160)
        link = gr.DownloadButton("File", visible="hidden", elem_id="run-file")
        opened = gr.File(label="Go on from a saved run (.zip)", file_types=[".zip"], elem_id="resume", height=120)
        said = view("facts", elem_id="resume-said")
    return SavedRun(save, link, opened, said)


def packed(run: Run | None, link: gr.DownloadButton) -> str:
    """The zip of a run, in the component's cache, whose files are deleted when they are old. Raises RunError."""
    if run is None:
        raise RunError("There is no run yet; press Start.")
    if not run.can_go_on:
        raise RunError(NOT_KEPT)
    with tempfile.TemporaryDirectory(prefix="balcony-download-") as scratch:
        path = Path(scratch) / f"{file_name(f'{run.recipe.title} step {run.progress().step}')}-to-go-on.zip"
        run.pack(path)
        return link.move_resource_to_block_cache(str(path))


def resumed(
    resume: Callable[[Path, Corpus | None], Run], zip_path: str, own_text: Callable[[Recipe], Corpus | None]
) -> Run:
    """The run of a zip, which goes on at once.

    resume: `TrainingService.resume`. own_text: gives the text that a person chose for a run of that recipe, None for
    the recipe's own. Raises BertCoreError for a zip or a text that cannot be used; nothing has begun then.
    """
    with tempfile.TemporaryDirectory(prefix="balcony-upload-") as scratch:
        folder = Path(scratch) / "model"
        unpack_checkpoint(zip_path, folder)
        corpus = own_text(read_training_state(folder).recipe)
        try:
            return resume(folder, corpus)
        except CorpusError:
            if corpus is None:
                raise CorpusError(OTHER_TEXT) from None
            raise
