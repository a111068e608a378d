"""A tab of the page as a record."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tab:
    """A tab of the page.

    name: its key in the question. title: on its button. lay_out: lays out its parts and connects them, with the page
    whose open tab it is; what it returns, later tabs find in `page.laid_out`. hint: the line below the sentences, None
    for a tab without them. press: the part of the question that a click on a word changes, "hidden" or "word"; "" for
    none. compares: it shows a second model beside the first. reads_parts: its models may read a text in parts, so that
    none is too long. draws_strangers: half of the pairs drawn at random are no neighbours. story: its place among the
    next things to do after a run, and what to do there.
    """

    name: str
    title: str
    lay_out: Callable[[Any], Any]
    hint: str | None = None
    press: str = ""
    compares: bool = False
    reads_parts: bool = False
    draws_strangers: bool = False
    story: tuple[int, str] | None = None
