"""An experiment as a visitor started it: its runs are measured as they end, and answer the question together."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from balcony.compare.definitions import Experiment, Marks
from balcony.server.workspace import Workspace
from bert_core.errors import BertCoreError, RunError
from bert_core.runs.run import ACTIVE, Run


@dataclass(eq=False)
class Trial:
    """An experiment as a visitor started it.

    measure: gives the marks of a run that has finished. slower: starts the same with a third of the learning rate.
    number: counts the visitor's experiments. runs: variant and seed of each run, by its id, in the order of their
    start. marks: by variant and seed. problems: why a run has no marks, by its id.
    """

    experiment: Experiment
    measure: Callable[[Run], Marks]
    slower: Callable[[], None] | None = None
    number: int = 0
    runs: dict[str, tuple[int, int]] = field(default_factory=dict)
    marks: dict[tuple[int, int], Marks] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    _measuring: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, space: Workspace, start: Callable[[int, int], Run], seeds: range) -> None:
        """Start a run of each variant with each seed, one after the other, in place of the visitor's earlier trial."""
        for seed in seeds:
            for variant in range(len(self.experiment.variants)):
                self.runs[start(variant, seed).id] = variant, seed
        if before := newest_trial(space):
            before.examine(space)
        self.number = before.number + 1 if before else 1
        _newest[space] = self

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
            self.marks[self.runs[run.id]] = self.measure(run)
        except BertCoreError as error:
            number = space.entries[run.id].number if run.id in space.entries else [*self.runs].index(run.id) + 1
            self.problems[run.id] = f"Run {number}: {error}"

    def complete(self) -> list[list[Marks]]:
        """For each variant its marks, with the seeds that all variants have."""
        variants = range(len(self.experiment.variants))
        seeds = dict.fromkeys(seed for _, seed in self.marks)
        whole = [seed for seed in seeds if all((variant, seed) in self.marks for variant in variants)]
        return [[self.marks[variant, seed] for seed in whole] for variant in variants]


_newest: WeakKeyDictionary[Workspace, Trial] = WeakKeyDictionary()


def newest_trial(space: Workspace) -> Trial | None:
    return _newest.get(space)
