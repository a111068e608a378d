"""One background thread trains the runs of all owners.

`TrainingService` gives each owner slices of some tens of milliseconds, first the one who has had the least time, so
that a room of people share the machine fairly. The runs of one owner train one after the other, but for those that are
paused: twenty of them get no more of the machine than one. A second thread prepares new runs (tokenizer, encoding,
initial weights) first come, first served, so that a long text does not delay anybody's training.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import torch

from bert_core.config import LOCAL, Limits
from bert_core.data.corpus import Corpus
from bert_core.device import choose_device, give_way, gpu_fault, processor_cores
from bert_core.errors import RunError, one_line
from bert_core.runs.recipe import FinetuningRecipe, Recipe, finetuning_recipe, load_recipe
from bert_core.runs.run import ENDED, NoRoom, Run, Source, running_mean
from bert_core.runs.saved_state import read_training_state
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskParts

TICK_SECONDS = 0.5  # between two calls of `tick`
CLOSE_SECONDS = 1.0  # for the step in progress to end when the service is closed
CLOSED = "The app was closed."

_log = logging.getLogger(__name__)


class TrainingService:
    """Trains runs in the background until `close()`, or to the end of a `with` block.

    device: see `choose_device`, which raises ConfigError for one that is not there. clock, now: of paces, monotonic
    seconds. limits: of each run. changed: guards all runs and wakes the training thread. slowness: how many times as
    long as estimated the latest steps took; None before the first.

    A program that serves many people may set two functions. tick: called every TICK_SECONDS between two slices. admit:
    called with a run and the bytes that it needs, before it takes them; returns how many of them are missing now, for
    which the run then waits, and raises RunError where it can never have them.
    """

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
        self._active: list[Run] = []
        self._waiting: dict[Run, Source] = {}  # for the owner's earlier runs to end, or for memory
        self._queue: list[Run] = []  # to be prepared, first come, first served
        self._spent: dict[Hashable, float] = {}  # training time of each owner with active runs, in seconds
        self._served = 0.0  # that of the last owner to train, before that slice
        self._ticked = time.monotonic()
        self._prepare_seconds: float | None = None  # running mean
        self.slowness: float | None = None  # running mean
        self._is_closing = False
        self._in_slice: Run | None = None
        self._preparer = ThreadPoolExecutor(1, thread_name_prefix="prepare", initializer=give_way)
        self._trainer = threading.Thread(target=self._train, name="train", daemon=True)
        self._trainer.start()
        atexit.register(self._end_with_program)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        while self._trainer.is_alive():  # the interpreter's own end would abort a thread in the middle of a step
            self._trainer.join(TICK_SECONDS)  # a wait without an end could not be interrupted on Windows

    def _end_with_program(self) -> None:
        if not self._trainer.is_alive():  # in a fork of the program, which has none of its threads
            return
        if (active := self._number_of_active()) and not self._is_closing:
            message = "The program ends and stops %d unfinished run(s). To let a run finish, call run.wait() first."
            _log.warning(message, active)
        self.__exit__()

    def __repr__(self) -> str:
        return f"<TrainingService on {self.device_name}: {self._number_of_active()} runs that have not ended>"

    def _number_of_active(self) -> int:
        return sum(run.status not in ENDED for run in self._active)

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
        `Recipe.going_on_from`; None for random weights. Raises ConfigError for an unknown recipe or a seed out of
        range. options: of all runs. paused: wait before the first step. owner: whose run it is, any hashable; the runs
        of one owner are prepared and trained one after the other; None for an owner of its own. keep_step: a step of
        which a snapshot is taken and stays. limits: None for those of the service, which also hold for later
        `continue_for`.
        """
        recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
        if start is not None and recipe.start is None:
            recipe = recipe.going_on_from(start.name, start.config)
        return self._add(Run(recipe.with_seed(seed), self, start=start, **options), corpus)

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
        the recipe's own examples. seed, options: as for `start`, which also has the errors.
        """
        recipe = finetuning_recipe(recipe) if isinstance(recipe, str) else recipe
        recipe = recipe.with_seed(seed).replace(start=start.name)
        return self._add(Run(recipe, self, start=start, **options), parts)

    def resume(self, folder: str | Path, corpus: Corpus | TaskParts | None = None, **options: Any) -> Run:
        """Continue a run that `Run.save` wrote, bit for bit as if it had never stopped.

        corpus: its text, or a task's parts, if they are not the recipe's own. options: as for `start`. Raises
        CheckpointError or ConfigError for unusable files, CorpusError for another text.
        """
        state = read_training_state(folder, self.limits)
        corpus = state.matching(corpus)
        return self._add(Run(state.recipe, self, start=state.model, saved=state, **options), corpus)

    def _add(self, run: Run, text: Source) -> Run:
        with self.changed:
            self.enlist(run)
            self._waiting[run] = text
            self._queue_next_runs()
        return run

    @property
    def is_alive(self) -> bool:
        """Whether the training thread lives."""
        return self._trainer.is_alive()

    @property
    def queue_length(self) -> int:
        """The number of runs that wait to be prepared."""
        return len(self._queue) + len(self._waiting)

    def close(self) -> None:
        """Stop all runs and end the threads; a step in progress that takes longer than CLOSE_SECONDS is left behind."""
        with self.changed:
            self._is_closing = True
            for run in self._active:
                run.stop(CLOSED, wait=False)
            self.changed.notify_all()
        self._preparer.shutdown(wait=True, cancel_futures=True)
        self._trainer.join(CLOSE_SECONDS)
        if not self._trainer.is_alive():
            atexit.unregister(self._end_with_program)

    # --- For a run ----------------------------------------------------------------------------------------------------

    def enlist(self, run: Run) -> None:
        """Train a run once the owner's earlier runs have ended. Raises RunError while the service is closing."""
        if self._is_closing:
            raise RunError("The service is closing; start the app again.")
        self._active.append(run)

    def place_of(self, run: Run) -> tuple[int, float | None, int]:
        """How many runs are prepared before it, the estimated wait in seconds for these or for memory, None if unknown,
        and how many train."""
        sharing = sum(each.wants_steps for each in self._next_runs().values())
        if run in self._queue and run.status == "queued":
            ahead = sum(other.status == "queued" for other in self._queue[: self._queue.index(run)])
            wait = None if ahead and self._prepare_seconds is None else ahead * (self._prepare_seconds or 0.0)
            return ahead, wait, sharing
        lacking, wait = run.lacking, 0.0 if not run.lacking else None
        ending = [(left, other) for other in self._active if (left := other.seconds_left) is not None]
        for left, other in sorted(ending, key=lambda each: each[0]):
            if lacking > 0:
                lacking, wait = lacking - other.training_bytes, left
        return 0, wait if lacking <= 0 else None, sharing

    # --- The two threads ----------------------------------------------------------------------------------------------

    def _next_runs(self) -> dict[Hashable, Run]:
        """Of each owner the first run that has not ended and would train."""
        found: dict[Hashable, Run] = {}
        for run in self._active:
            if run.status == "queued" or run.wants_steps:
                found.setdefault(run.owner, run)
        return found

    def _queue_next_runs(self) -> None:
        self._active = [run for run in self._active if run.status not in ENDED]
        self._waiting = {run: text for run, text in self._waiting.items() if run in self._active}
        for run in self._next_runs().values():
            if run in self._waiting and not run.lacking:
                self._queue.append(run)
                self._preparer.submit(self._prepare, run, self._waiting.pop(run))

    def _prepare(self, run: Run, text: Source) -> None:
        started = time.monotonic()
        try:
            if run.status == "queued":
                run.prepare(text, self.device)
                self._prepare_seconds = running_mean(self._prepare_seconds, time.monotonic() - started, 0.3)
        except NoRoom:
            with self.changed:
                self._waiting[run] = text
        finally:
            with self.changed:
                self._queue.remove(run)

    def _train(self) -> None:
        give_way()
        while not self._is_closing:
            try:
                self._train_one()
            except BaseException as error:  # whatever it is, the others go on
                _log.error("the training thread: %s", one_line(error))
                self._end_slice("Training stopped on an internal error; the log has more.")
                time.sleep(TICK_SECONDS)  # an error that comes back at once must not fill the log

    def _train_one(self) -> None:
        """Wait until a run wants steps, and train it for a slice."""
        with self.changed:
            self._tick()
            self._queue_next_runs()
            if (chosen := self._chosen_run()) is None:
                if not self._is_closing:
                    self.changed.wait(self._idle_seconds())
                return
            self._in_slice = chosen
            chosen.begin_slice()
        began = time.monotonic()
        chosen.train()
        self._spent[chosen.owner] = self._spent.get(chosen.owner, 0.0) + time.monotonic() - began
        self._end_slice()

    def _end_slice(self, problem: str = "") -> None:
        """End the slice in progress; a waiting thread does not keep a run that nobody else has."""
        run, self._in_slice = self._in_slice, None
        if run is not None:
            run.end_slice(problem)

    def _tick(self) -> None:
        if time.monotonic() - self._ticked < TICK_SECONDS:
            return
        self._ticked = time.monotonic()
        try:
            self.tick()
        except BaseException as error:  # of the program around; the training goes on
            _log.error("between two slices: %s", one_line(error))
        for run in self._waiting:
            run.look_for_room()

    def _chosen_run(self) -> Run | None:
        """Of the runs that want steps and are due, one without any, or else that of the owner who has had the least
        training time.

        An owner who was away does not catch up on missed time: theirs is raised to that of the last one to train.
        """
        now, firsts = self.now(), self._next_runs()
        owners = {run.owner for run in self._active}
        self._spent = {owner: seconds for owner, seconds in self._spent.items() if owner in owners}
        ready = [run for run in firsts.values() if run.wants_steps and run.due <= now]
        if not ready:
            return None
        spent = {run: max(self._spent.get(run.owner, 0.0), self._served) for run in ready}
        chosen = min(ready, key=lambda run: (run.steps_done > 0, spent[run]))
        if chosen.steps_done:
            self._spent[chosen.owner] = self._served = spent[chosen]
        return chosen

    def _idle_seconds(self) -> float:
        """The time until a run is due, at most TICK_SECONDS."""
        now = self.now()
        waits = [run.due - now for run in self._next_runs().values() if run.wants_steps]
        return max(0.0, min([*waits, TICK_SECONDS]))


def _describe_device(device: str, asked: str) -> str:
    if device != "cpu":
        return torch.cuda.get_device_name(device) if device.startswith("cuda") else "Apple GPU"
    cores = processor_cores()
    idle = " (ZeroGPU lends no GPU to training)" if os.environ.get("SPACES_ZERO_GPU") else ""
    if asked == "auto" and (fault := gpu_fault()):  # a person who asks for the CPU leaves the GPU alone
        idle = f" (the GPU cannot be used: {fault})"
    return f"CPU, {cores} core{'s' if cores > 1 else ''}{idle}"
