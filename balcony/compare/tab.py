"""The Compare tab: runs side by side, and experiments, each below its question."""

from balcony.compare.experiments import Experiments
from balcony.compare.runs_list import runs_list
from balcony.frame.page import Page
from balcony.frame.tab import Tab
from balcony.train.tab import TrainTab


def compare_tab(page: Page) -> Experiments:
    training: TrainTab = page.laid_out["train"]
    runs_list(page, training)
    return Experiments(page, training)


TAB = Tab("compare", "Compare", compare_tab, story=(4, "Now change one setting and compare"))
