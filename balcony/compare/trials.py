"""Trials: several runs that start together, are measured as they end, and answer a question in a sentence.

An experiment of the Compare tab is one, and so is what pre-training bought in the Fine-tune tab.
"""

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.parts.verdicts import SEEDS, Spread, failed
from balcony.server.workspace import Workspace
from balcony.views import view
from bert_core.errors import BertCoreError, RunError, percent
from bert_core.runs.run import ACTIVE, Run

SEED_CHOICES = [("One seed", 1), ("Three seeds", SEEDS)]
UNSETTLED = "{seeds} do not settle it, because their results overlap; "
CONCLUSIONS = {  # by verdict; each says what to try next
    "unclear": UNSETTLED + "take more steps or a longer text",
    "few seeds": "with {seeds} this difference may be chance; run three",
}
NUMBERS = ("no", "one", "two", "three")
FORMATS = {  # by unit: factor, digits, and what follows the number
    "fraction": (100, 0, "%"),
    "correlation": (1, 2, ""),
    "nats": (1, 2, ""),
    "seconds": (1, 1, " s"),
}


@dataclass(eq=False)
class Trial:
    """A trial as a visitor started it.

    kind: "experiment" or "transfer". variants: in words. measure: returns a run's mark and on what it was measured.
    report: returns `answer` and `how` in sentences, perhaps `columns` and `rows` of a table, None without enough marks.
    figure: draws the marks so far. number: counts the visitor's trials of this kind. runs: variant and seed of each
    run, by its id, in the order of their start. marks: by variant and seed. problems: why a run has no mark, by its id.
    about: on what the marks were measured.
    """

    kind: str
    title: str
    question: str
    variants: Sequence[str]
    measure: Callable[[Run], tuple[Any, str]]
    report: Callable[["Trial", Workspace], dict[str, Any] | None]
    figure: Callable[["Trial"], dict[str, Any] | None] = lambda trial: None
    number: int = 0
    runs: dict[str, tuple[int, int]] = field(default_factory=dict)
    marks: dict[tuple[int, int], Any] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    about: str = ""
    _measuring: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, space: Workspace) -> None:
        """Take the place of the visitor's trial of this kind."""
        newest = _newest.setdefault(space, {})
        if before := newest.get(self.kind):
            before.examine(space)
        self.number = before.number + 1 if before else 1
        newest[self.kind] = self

    def examine(self, space: Workspace) -> list[Run]:
        """Measure the runs that have ended, each once, and free those that no list shows. Returns the active ones."""
        active = []
        with self._measuring:
            for run in [run for run in space.all_runs if run.id in self.runs]:
                if run.status in ACTIVE:
                    self.problems.pop(run.id, None)
                    active.append(run)
                    continue
                if self.runs[run.id] not in self.marks and run.id not in self.problems:
                    self._examine(space, run)
                if run in space.unlisted:
                    space.unlisted.remove(run)
        return active

    def _examine(self, space: Workspace, run: Run) -> None:
        try:
            if run.status != "finished" or not run.snapshots:
                raise RunError(run.reason or "A run ended before it could be measured.")
            self.marks[self.runs[run.id]], self.about = self.measure(run)
        except BertCoreError as error:
            number = space.entries[run.id].number if run.id in space.entries else [*self.runs].index(run.id) + 1
            self.problems[run.id] = f"Run {number}: {error}"

    def complete(self, *variants: int) -> list[list[Any]]:
        """For each of the variants its marks, with the seeds that all of them have."""
        seeds = dict.fromkeys(seed for _, seed in self.marks)
        whole = [seed for seed in seeds if all((variant, seed) in self.marks for variant in variants)]
        return [[self.marks[variant, seed] for seed in whole] for variant in variants]


_newest: WeakKeyDictionary[Workspace, dict[str, Trial]] = WeakKeyDictionary()  # each visitor's, by its kind


def trial_news(kind: str, space: Workspace, number: int = 0, done: int = 0) -> dict[str, Any]:
    """Progress or result of the visitor's newest trial of a kind; {} before the first.

    number, done: the trial that the page knows, and how many of its runs had ended. A new one comes with the ids of
    its listed runs.
    """
    if (trial := _newest.get(space, {}).get(kind)) is None:
        return {}
    active = trial.examine(space)
    ended = [run_id for run_id in trial.runs if run_id not in {run.id for run in active}]
    news: dict[str, Any] = {"number": trial.number, "of": len(trial.runs), "done": len(ended)}
    if number != trial.number:
        listed = [run_id for run_id in trial.runs if run_id in space.entries]
        news |= {"title": trial.title, "question": trial.question, "runs": listed}
    if (number, done) != (trial.number, len(ended)) and (figure := trial.figure(trial)):
        news["figure"] = figure
    if not active:
        return news | {"result": trial.report(trial, space), "reason": next(iter(trial.problems.values()), "")}
    progress, (variant, seed) = active[0].progress(), trial.runs[active[0].id]
    part = progress.step / progress.steps if progress.steps else 0.0
    left = progress.seconds_left
    if left is not None and part < 1:  # of all runs, as if each took as long as this one
        left = round(left * (len(active) - part) / (1 - part), 1)
    fraction = round((len(ended) + part) / len(trial.runs), 3)
    return news | {"now": f"{trial.variants[variant]}, seed {seed}", "fraction": fraction, "left": left}


def begun_trials(space: Workspace) -> dict[str, Any]:
    """The value of a trial's view: another one after each start, because a view is not told of the value it has."""
    return {"visitor": space.token} | {kind: trial.number for kind, trial in _newest.get(space, {}).items()}


def sentences(conclusions: Iterable[tuple[str, int, Sequence[str]]]) -> str:
    """Conclusions, each once, after what was seen and from which it follows; it comes with its number of seeds."""
    grouped: dict[str, list[str]] = {}
    for conclusion, seeds, seen in conclusions:
        words = conclusion.format(seeds=f"{NUMBERS[seeds]} seed{'s' * (seeds > 1)}")
        grouped.setdefault(words, []).extend(filter(None, seen))
    said = [each for words, seen in grouped.items() for each in (*seen, words)]
    return " ".join(f"{each[:1].upper()}{each[1:]}." for each in said)


def failures(title: str, accuracies: Spread, baseline: float) -> str:
    """A sentence on the runs of a variant that did not learn while others did, "" if there are none."""
    low = failed(accuracies, baseline)
    count, of = NUMBERS[len(low)].capitalize(), NUMBERS[len(accuracies.values)]
    said = f"{count} of the {of} runs with {title} did not learn ({', '.join(map(percent, low))})"
    return f"{said}, so the mean says little; try a smaller learning rate" if low else ""


def format_number(number: Spread, unit: str) -> str:
    """Mean and standard deviation as text: "97% ± 2", "0.41 ± 0.03", "1.2 s ± 0.1"."""
    if not math.isfinite(number.mean):
        return "not asked"
    factor, digits, follows = FORMATS[unit]
    deviation = f" ± {factor * number.deviation:.{digits}f}" if math.isfinite(number.deviation) else ""
    mean = percent(number.mean) if unit == "fraction" else f"{number.mean:.{digits}f}{follows}"
    return f"{mean}{deviation}"


def trial_view(page: Page, kind: str, label: str, hello: str = "") -> gr.HTML:
    """The view of the visitor's newest trial of a kind. label: of its progress. hello: before the first."""

    def news(asked: PageRequest, number: int, done: int) -> dict[str, Any]:
        return trial_news(kind, asked.space, number, done)

    page.answers.add(kind, news)
    return view("compare/trials", options={"id": kind, "label": label, "hello": hello}, elem_id=kind)


def seeds_control(elem_id: str) -> gr.Radio:
    """With how many seeds each variant is trained."""
    options: dict[str, Any] = {"show_label": False, "container": False, "min_width": 200}
    return gr.Radio(SEED_CHOICES, value=1, label="Seeds", elem_id=elem_id, **options)
