"""The Class tab: a board of the runs that people share."""

from ui.parts.page import Page
from ui.parts.tab import Tab
from ui.views import view


def lay_out(page: Page) -> None:
    """Lay out the board."""
    view("class/board", options={"lessons": page.lessons}, elem_id="class-board")


TAB = Tab("class", "Class", lay_out)
