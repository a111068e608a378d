"""The runs on the board of a class: what it shows of each, its chart, and its table as a file."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from balcony.parts.export import Row
from balcony.server.news import CURVES, LAST_STEPS, thin
from balcony.server.workspace import Workspace
from bert_core.runs.run import Run

MOST_POINTS = 60  # of a curve
OBJECTIVES = CURVES[:2]
COLUMNS = ("name", "title", "recipe", "sentences", "seed", "rate", "step", "steps", "status")
CHART = {"series": OBJECTIVES, "id": "class-curves"}


@dataclass(eq=False)
class Shared:
    """A run on the board. seen: what it was when `has_news` looked."""

    space: Workspace
    run: Run
    seen: tuple[str, ...] = ()

    def is_listed(self) -> bool:
        """Whether its person has not removed it."""
        return self.run.id in self.space.runs

    def has_news(self) -> bool:
        """Whether it is another than at the look before; a run that its person has removed stays as it was."""
        if not self.is_listed():
            return False
        before, self.seen = self.seen, (self.run.status, f"{self.run.steps_done}", self.space.title(self.run.id))
        return before != self.seen

    def described(self) -> dict[str, Any]:
        """What the board shows of it: its title, settings and losses, and not its text."""
        run, recipe = self.run, self.run.recipe
        last = run.history(since=max(0, run.steps_done - LAST_STEPS))
        return {
            "title": self.space.title(run.id),
            "recipe": f"{recipe.model.in_words}, {recipe.data.batch_size} pairs a step",
            "seed": str(recipe.seed),  # as text: a JavaScript number cannot hold every seed
            "rate": recipe.training.learning_rate,
            "sentences": len(run.job.source.sentences) if run.job else 0,
            "status": run.status,
            "step": run.steps_done,
            "steps": recipe.training.total_steps,
            "curve": thin(run.history(), MOST_POINTS, OBJECTIVES),
            "losses": thin(last, 1, OBJECTIVES)[0][1:],  # means; None for an objective that it lacks
        }


def board_rows(runs: Iterable[dict[str, Any]]) -> list[Row]:
    """A row for each run of the board; the losses are means over the last steps."""
    return [{name: run[name] for name in COLUMNS} | dict(zip(OBJECTIVES, run["losses"])) for run in runs]
