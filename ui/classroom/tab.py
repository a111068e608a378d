"""The Class tab: a board of the runs that people share."""

from ui.classroom.board import CHART
from ui.frame.page import Page
from ui.frame.tab import Tab
from ui.views import view


def lay_out(page: Page) -> None:
    view("classroom/board", options={"lessons": page.laid_out["lessons"], "chart": CHART}, elem_id="class-board")


TAB = Tab("class", "Class", lay_out)
