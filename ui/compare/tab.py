"""The Compare tab: runs side by side, experiments, and the batch of a step, each below its question."""

from ui.compare.batch import batch_view
from ui.compare.experiments import Experiments
from ui.compare.runs_list import runs_list
from ui.parts.page import Page
from ui.train.tab import TrainTab


def compare_tab(page: Page, training: TrainTab) -> None:
    """Lay out the tab and connect it."""
    with page.tab("Compare", "compare"):
        runs_list(page, training)
        Experiments(page, training)
        batch_view(page)
