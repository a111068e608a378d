"""One background thread trains the runs of all owners, in slices of some tens of milliseconds.

The next slice is for the owner who has had the least time, so that a room of people share the machine fairly. The runs
of one owner train one after the other, but for paused ones: twenty get no more of the machine than one. A second thread
prepares new runs, first come, first served, so that a long text does not delay anybody's training."""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, Self

import torch

from bert_core.config import LOCAL, Limits
from bert_core.data.corpus import Corpus
from bert_core.device import choose_device, give_back_memory, give_way, gpu_fault, processor_cores
from bert_core.errors import RunError, one_line
from bert_core.runs.jobs import check_limits, prepare
from bert_core.runs.recipe import FinetuningRecipe, Recipe, finetuning_recipe, load_recipe
from bert_core.runs.run import ENDED, Run
from bert_core.runs.train import TRIM_SECONDS, Training, TrainingState, read_training_state
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskParts

TICK_SECONDS = 0.5  # the longest time that a thread waits for a change

# What a run learns from: None for the recipe's own, a function for a text that takes long to read.
Source = Corpus | TaskParts | Callable[[], Corpus | TaskParts] | None
# Of a queued run: what it learns from, the model to start from and the state to continue from.
_Plan = tuple[Source, Checkpoint | None, TrainingState | None]

_log = logging.getLogger(__name__)


class TrainingService:
    """Trains runs in the background until `close()`, or to the end of a `with` block.

    device: see `choose_device`, which raises ConfigError for one that is not there. clock, now: of paces, monotonic
    seconds. limits: of each run. changed: guards all runs and wakes the threads.

    A program that serves many people may set two functions. tick: called about every TICK_SECONDS between two slices.
    admit: called with a run and the bytes that it needs, before it takes them; returns how many of them are missing
    now, for which the run then waits, and raises RunError where it can never have them."""

    def __init__(
        self, device: str = "auto", *, clock: Callable[[], float] = time.monotonic, limits: Limits = LOCAL
    ) -> None:
        self.device = choose_device(device)
        self.device_name = _describe_device(self.device, device)
        self.limits = limits
        self.changed = threading.Condition(threading.RLock())
        self.now = clock
        self.tick: Callable[[], None] = lambda: None
        self.admit: Callable[[Run, int], int] = lambda run, nbytes: 0
        self._runs: list[Run] = []  # that have not ended, first come, first served
        self._plans: dict[Run, _Plan] = {}  # of queued runs
        self._spent: dict[Hashable, float] = {}  # training time of each owner with active runs, in seconds
        self._served = 0.0  # that of the last owner to train, before that slice
        self._next_tick = time.monotonic()
        self._is_closing = False
        works = {"prepare": self._prepare_next, "train": self._train_next}
        self._threads = [
            threading.Thread(target=self._repeat, args=[work], name=name, daemon=True) for name, work in works.items()
        ]
        for thread in self._threads:
            thread.start()
        atexit.register(self._end_with_program)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(
        self,
        recipe: Recipe | str,
        corpus: Source = None,
        seed: int | None = None,
        *,
        start: Checkpoint | None = None,
        **options: Any,
    ) -> Run:
        """Queue a run and return at once. An unusable text ends the run as failed.

        recipe: a recipe or its name. corpus, seed: None for the recipe's own. start: a model to go on from, see
        `Recipe.going_on_from`; None for random weights. options: of all runs, see `Run`. Raises ConfigError for an
        unknown recipe or a seed out of range."""
        recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
        if start is not None and recipe.start is None:
            recipe = recipe.going_on_from(start.name, start)
        return self._add(Run(recipe.with_seed(seed), self, **options), corpus, start)

    def finetune(
        self,
        recipe: FinetuningRecipe | str,
        start: Checkpoint,
        parts: TaskParts | Callable[[], TaskParts] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> Run:
        """Queue a run that fine-tunes a model, and return at once.

        recipe: a recipe or its name. start: the model, which may be a snapshot's; it does not change. parts: None for
        the recipe's own examples. seed, options: as for `start`, which also has the errors."""
        recipe = finetuning_recipe(recipe) if isinstance(recipe, str) else recipe
        return self._add(Run(recipe.with_seed(seed).replace(start=start.name), self, **options), parts, start)

    def resume(self, folder: str | Path, corpus: Corpus | TaskParts | None = None, **options: Any) -> Run:
        """Continue a run that `Run.save` wrote, bit for bit as if it had never stopped.

        corpus: its text, or a task's parts, if they are not the recipe's own. options: as for `start`. Raises
        CheckpointError or ConfigError for unusable files, CorpusError for another text."""
        state = read_training_state(folder, self.limits)
        start = state.model if state.recipe.start is not None else None
        return self._add(Run(state.recipe, self, **options), state.matching(corpus), start, state)

    def _add(self, run: Run, source: Source, start: Checkpoint | None, saved: TrainingState | None = None) -> Run:
        with self.changed:
            self.enlist(run)
            self._plans[run] = source, start, saved
        return run

    @property
    def is_alive(self) -> bool:
        return self._threads[-1].is_alive()

    @property
    def queue_length(self) -> int:
        return len(self._plans)

    def close(self) -> None:
        """Stop all runs and end the threads after the step in progress."""
        with self.changed:
            self._is_closing = True
            for run in self._runs:
                run.stop("The app was closed.", wait=False)
            self.changed.notify_all()
        for thread in self._threads:  # the interpreter's own end would abort one in the middle of a step
            while thread.is_alive():
                thread.join(TICK_SECONDS)  # a wait without an end could not be interrupted on Windows
        atexit.unregister(self._end_with_program)

    def _end_with_program(self) -> None:
        if self.is_alive:  # else in a fork of the program, which has none of its threads
            if count := sum(run.status not in ENDED for run in self._runs):
                said = "The program ends and stops %d unfinished run(s). To let a run finish, call run.wait() first."
                _log.warning(said, count)
            self.close()

    # --- For a run ----------------------------------------------------------------------------------------------------

    def enlist(self, run: Run) -> None:
        """Train a run once the owner's earlier runs have ended. Raises RunError while the service is closing."""
        if self._is_closing:
            raise RunError("The service is closing; start the app again.")
        self._runs.append(run)
        self.changed.notify_all()

    def place_of(self, run: Run) -> tuple[int, int, float | None]:
        """How many runs train, how many are prepared before this one, and the estimated seconds until one of the others
        ends; None if unknown."""
        firsts = self._next_runs()
        sharing = sum(each.wants_steps for each in firsts)
        queue = [each for each in firsts if each.status == "queued" and not each.lacking]
        left = [seconds for each in self._runs if run.lacking and (seconds := each.seconds_left(sharing))]
        return sharing, queue.index(run) if run in queue else 0, min(left, default=None)

    # --- The two threads ----------------------------------------------------------------------------------------------

    def _repeat(self, work: Callable[[], None]) -> None:
        give_way()
        while not self._is_closing:
            try:
                work()
            except BaseException as error:  # whatever it is, the others go on
                _log.error("between two runs: %s", one_line(error))
                time.sleep(TICK_SECONDS)  # an error that comes back at once must not fill the log

    def _next_runs(self) -> list[Run]:
        """Of each owner the first run that has not ended and would train."""
        found: dict[Hashable, Run] = {}
        for run in self._runs:
            if run.status == "queued" or run.wants_steps:
                found.setdefault(run.owner, run)
        return [*found.values()]

    def _prepare_next(self) -> None:
        with self.changed:
            queue = [run for run in self._next_runs() if run.status == "queued"]
            if (chosen := next((run for run in queue if self._reserve(run, run.asked_bytes)), None)) is None:
                self.changed.wait(TICK_SECONDS)
                return
            plan = self._plans[chosen]
        try:
            self._prepare(chosen, *plan)
        except BaseException as error:
            chosen.fail(error)

    def _reserve(self, run: Run, nbytes: int) -> bool:
        """Take so much memory for what comes next in a run, and return whether there was; else it stays queued, and its
        preparation begins anew once there is."""
        with self.changed:
            run.training_bytes = 0  # else what it took before would count twice
            run.asked_bytes, run.lacking = nbytes, self.admit(run, nbytes) if nbytes else 0
            run.training_bytes = 0 if run.lacking or run.status in ENDED else nbytes
            return not run.lacking

    def _prepare(self, run: Run, source: Source, start: Checkpoint | None, saved: TrainingState | None) -> None:
        """Read and encode what a run learns from, build its model and let it begin, unless it has to wait for room."""

        def progress(stage: str) -> None:
            if run.status in ENDED:
                raise RunError(run.reason)
            run.stage = stage

        if callable(source):
            progress("reading the text")
            source = source()
        run.text_bytes = source.nbytes if source is not None else 0
        job = prepare(run.recipe, source, device=self.device, start=start, progress=progress)
        check_limits(job, run.limits)
        if self._reserve(run, job.training_bytes):
            progress("drawing the initial weights")
            run.begin(Training(job, saved, run.may_step))
        else:
            run.stage, run.text_bytes = "", 0

    def _train_next(self) -> None:
        with self.changed:
            if time.monotonic() >= self._next_tick:
                self._next_tick = time.monotonic() + TICK_SECONDS
                self.tick()
            self._runs = [run for run in self._runs if run.status not in ENDED]
            self._plans = {run: plan for run, plan in self._plans.items() if run.status == "queued"}
            wanting = [run for run in self._next_runs() if run.wants_steps]
            if (chosen := self._chosen_run([run for run in wanting if run.due <= self.now()])) is None:
                give_back_memory(TRIM_SECONDS)  # which a paused or stopped run no longer needs
                self.changed.wait(min([TICK_SECONDS, *(run.due - self.now() for run in wanting)]))
                return
            chosen.in_slice = True
        began = time.monotonic()
        try:
            chosen.train()
        except BaseException as error:
            chosen.fail(error)
        with self.changed:
            self._spent[chosen.owner] += time.monotonic() - began
            chosen.in_slice = False
            chosen.obey()

    def _chosen_run(self, ready: Sequence[Run]) -> Run | None:
        """One without any steps, or else that of the owner who has had the least training time.

        An owner who was away does not catch up on missed time: theirs is raised to that of the last one to train."""
        self._spent = {run.owner: max(self._spent.get(run.owner, 0.0), self._served) for run in self._runs}
        chosen = min(ready, key=lambda run: (run.steps_done > 0, self._spent[run.owner]), default=None)
        if chosen and chosen.steps_done:
            self._served = self._spent[chosen.owner]
        return chosen


def _describe_device(device: str, asked: str) -> str:
    if device != "cpu":
        return torch.cuda.get_device_name(device)
    cores = processor_cores()
    idle = " (ZeroGPU lends no GPU to training)" if os.environ.get("SPACES_ZERO_GPU") else ""
    if asked == "auto" and (fault := gpu_fault()):  # a person who asks for the CPU leaves the GPU alone
        idle = f" (the GPU cannot be used: {fault})"
    return f"CPU, {cores} core{'s' if cores > 1 else ''}{idle}"
