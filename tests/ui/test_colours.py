"""The colours of numbers differ in lightness, for every eye and in both themes, and are stated once."""

import itertools
import math
import re
from typing import Any, cast

import pytest

from balcony.server.workspace import MOST_RUNS, Workspace
from bert_core.config import ASSETS
from bert_core.runs.recipe import DEFAULT_RECIPE, recipe_named
from bert_core.runs.run import Run

LIGHT, DARK = re.findall(
    r"\{\n((?: *--b-[^;]*; *\n| *\n)+)", re.sub(r"/\*.*?\*/", "", (ASSETS / "css" / "balcony.css").read_text("utf-8"))
)
BACKGROUNDS = {LIGHT: "#ffffff", DARK: "#0f172a"}  # of panels, in Gradio's theme


def variable(theme: str, name: str) -> list[str]:
    return re.findall(rf"--b-{name}: ([^;]*);", theme)[0].split()


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2, 1 to 21."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", BACKGROUNDS, ids=["light", "dark"])
@pytest.mark.parametrize("name", ["map", "opposite"])
def test_each_step_of_a_map_is_lighter_or_darker_than_the_step_before(theme: str, name: str) -> None:
    stops, background = variable(theme, name), BACKGROUNDS[theme]
    assert stops[0] == variable(theme, "map")[0]  # 0 has one colour
    assert contrast(stops[0], background) > 1.15  # a cell of 0 can be seen
    ratios = [contrast(stop, background) for stop in stops]
    assert all(later / earlier > 1.35 for earlier, later in itertools.pairwise(ratios))
    assert ratios[-1] > 12


@pytest.mark.parametrize("theme", BACKGROUNDS, ids=["light", "dark"])
def test_a_number_and_its_opposite_have_different_colours(theme: str) -> None:
    for more, less in zip(variable(theme, "map")[1:], variable(theme, "opposite")[1:], strict=True):
        parts = ([int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in (more, less))
        assert math.dist(*parts) > 70, (more, less)


@pytest.mark.parametrize("name", ["accent", "mlm", "nsp"])
def test_a_colour_of_letters_is_readable(name: str) -> None:
    assert min(contrast(*variable(theme, name), background) for theme, background in BACKGROUNDS.items()) > 4.5


CURVES = [*variable(LIGHT, "curve-mlm"), *variable(LIGHT, "curve-nsp")]


def test_curves_can_be_seen_in_both_themes() -> None:
    assert min(contrast(each, ground) for each in CURVES for ground in BACKGROUNDS.values()) > 3


def ended_run(number: int) -> Run:
    recipe = recipe_named(DEFAULT_RECIPE)
    facts: dict[str, Any] = {"id": f"{number}", "status": "finished", "recipe": recipe, "asked": recipe}
    facts |= {"snapshots": (), "training": None, "steps_done": 0, "text_bytes": 0, "free": lambda *_: None}
    return cast(Run, type("EndedRun", (), facts)())


def test_curves_of_runs_differ_from_one_another_and_can_be_seen_in_both_themes() -> None:
    space = Workspace("")
    for number in range(MOST_RUNS):
        space.add_run(ended_run(number))
    assert len({(entry.colour, entry.is_dotted) for entry in space.entries.values()}) == MOST_RUNS
    colours = {entry.colour for entry in space.entries.values()}
    assert min(contrast(each, ground) for each in colours for ground in BACKGROUNDS.values()) > 3
    assert colours.isdisjoint(CURVES)


def test_runs_of_one_variant_look_alike() -> None:
    space = Workspace("")
    for number, variant in enumerate(["", "A", "", "A"]):
        space.add_run(ended_run(number), variant)
    looks = [(entry.colour, entry.is_dotted) for entry in space.entries.values()]
    assert looks[1] == looks[3]
    assert len(set(looks)) == 3
