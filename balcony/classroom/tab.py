"""The Class tab: a board of the runs that people share."""

from balcony.classroom.board import CHART
from balcony.frame.page import Page
from balcony.frame.tab import Tab
from balcony.views import view


def lay_out(page: Page) -> None:
    view("classroom/board", options=CHART, elem_id="class-board")


TAB = Tab("class", "Class", lay_out)
