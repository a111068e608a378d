"""One background thread trains the runs of all visitors.

`TrainingService` gives each visitor slices of some tens of milliseconds, first the one who has had the least time, so
that a room of people share the machine fairly. The runs of one visitor, which share a budget, train one after the
other: twenty of them get no more of the machine than one. A second thread prepares new runs (tokenizer, encoding,
initial weights) first come, first served, so that a long text does not delay anybody's training. A third one checks
the leases, and that the training thread lives.
"""

import atexit
import logging
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import torch

from bert_core.config import LOCAL, Limits
from bert_core.costs import choose_device, gpu_fault, usable_memory
from bert_core.data.corpus import Corpus
from bert_core.errors import RunError, one_line
from bert_core.machine import give_way, processor_cores
from bert_core.runs.memory import Budget, Memory
from bert_core.runs.recipe import FinetuningRecipe, Recipe, finetuning_recipe, load_recipe
from bert_core.runs.run import ENDED, Run, Source, running_mean
from bert_core.runs.saved_state import read_training_state
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint, unpack_checkpoint
from bert_core.tasks.examples import TaskParts

TICK_SECONDS = 0.5  # between two checks of the leases and the training thread
CLOSE_SECONDS = 1.0  # for the step in progress to end when the service is closed
CLOSED = "The app was closed."

_log = logging.getLogger(__name__)


class TrainingService:
    """Trains runs in the background until `close()`, or to the end of a `with` block.

    device: see `choose_device`, which raises ConfigError for one that is not there. clock, now: of leases and paces,
    monotonic seconds. limits: of each run. changed: guards all runs and wakes the training thread. memory: what all
    runs and their models may take together. budget: makes a visitor's share of it. slowness: how many times as long as
    estimated the latest steps took; None before the first.
    """

    def __init__(
        self, device: str = "auto", *, clock: Callable[[], float] = time.monotonic, limits: Limits = LOCAL
    ) -> None:
        self.device = choose_device(device)
        self.device_name = _describe_device(self.device, device)
        self.limits = limits
        self.changed = threading.Condition(threading.RLock())
        usable = usable_memory(self.device)
        self.memory = Memory(int(min(usable, limits.memory_bytes)), usable, self.changed)
        self.budget = self.memory.budget
        self.now = clock
        self._active: list[Run] = []
        self._waiting: dict[Run, Source] = {}  # for the visitor's earlier runs to end
        self._queue: list[Run] = []  # to be prepared, first come, first served
        self._served = 0.0  # training time of the last visitor to train, before that slice
        self._leased: weakref.WeakSet[Any] = weakref.WeakSet()
        self._prepare_seconds: float | None = None  # running mean
        self.slowness: float | None = None  # running mean
        self._is_closing = False
        self._in_slice: Run | None = None
        self._preparer = ThreadPoolExecutor(1, thread_name_prefix="prepare", initializer=give_way)
        self._closing = threading.Event()
        self._trainer = self._start_thread(self._train, "train")
        self._watcher = self._start_thread(self._watch, "watch")
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
        paused: bool = False,
        lease: float | None = None,
        budget: Budget | None = None,
        keep_step: int | None = None,
        start: Checkpoint | None = None,
        limits: Limits | None = None,
    ) -> Run:
        """Queue a run and return at once. An unusable text ends the run as failed.

        recipe: a recipe or its name. corpus, seed: None for the recipe's own. paused: wait before the first step.
        lease: seconds without a `touch` after which the run is paused; after FREE_AFTER times as long it is freed; None
        for no limit. budget: shared by the runs of one visitor, which are prepared and trained one after the other;
        None for one of its own. keep_step: a step of which a snapshot is taken and stays. start: a model to go on
        from, see `Recipe.going_on_from`; None for random weights. limits: None for those of the service, which
        also hold for later `continue_for`. Raises ConfigError for an unknown recipe or a seed out of range.
        """
        recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
        if start is not None and recipe.start is None:
            recipe = recipe.going_on_from(start.name, start.config)
        options: dict[str, Any] = {"paused": paused, "lease": lease, "keep_step": keep_step, "limits": limits}
        return self._add(Run(recipe.with_seed(seed), self, start=start, budget=budget, **options), corpus)

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

    def resume(self, folder_or_zip: str | Path, corpus: Corpus | TaskParts | None = None, **options: Any) -> Run:
        """Continue a run that `Run.save` or `Run.pack` wrote, bit for bit as if it had never stopped.

        corpus: its text, or a task's parts, if they are not the recipe's own. options: as for `start`. Raises
        CheckpointError or ConfigError for unusable files, CorpusError for another text.
        """
        with tempfile.TemporaryDirectory(prefix="resume-") as temporary:
            folder = Path(folder_or_zip)
            if folder.is_file():
                folder = Path(temporary, "model")
                unpack_checkpoint(folder_or_zip, folder, limits=self.limits)
            checkpoint, state = load_checkpoint(folder, limits=self.limits), read_training_state(folder)
        corpus = state.matching(corpus)
        return self._add(Run(state.recipe, self, start=checkpoint, saved=state, **options), corpus)

    def _add(self, run: Run, text: Source) -> Run:
        with self.changed:
            self.enlist(run)
            run.budget.runs[run] = None
            self._waiting[run] = text
            self._queue_first_runs()
            self.watch(run)
        return run

    def watch(self, leased: Any) -> None:
        """Call its `check_lease` with `now()` every TICK_SECONDS, as long as the object lives."""
        with self.changed:
            self._leased.add(leased)

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
                try:
                    run.stop(CLOSED, wait=False)
                except Exception as error:  # for example of a lost GPU; the others end all the same
                    _log.error("closing run %s: %s", run.id[:6], one_line(error))
                    run.interrupt(CLOSED)
            self.changed.notify_all()
        self._closing.set()
        self._preparer.shutdown(wait=True, cancel_futures=True)
        self._trainer.join(CLOSE_SECONDS)
        self._watcher.join()
        if not self._trainer.is_alive():
            atexit.unregister(self._end_with_program)

    # --- For a run ----------------------------------------------------------------------------------------------------

    def enlist(self, run: Run) -> None:
        """Train a run once the visitor's earlier runs have ended. Raises RunError while the service is closing."""
        if self._is_closing:
            raise RunError("The service is closing; start the app again.")
        self._active.append(run)

    def place_of(self, run: Run) -> tuple[int, float | None, int]:
        """How many runs are prepared before it, the estimated wait in seconds, None if unknown, and how many train."""
        ahead, seconds = 0, self._prepare_seconds
        if run in self._queue and run.status not in ENDED:
            ahead = sum(other.status not in ENDED for other in self._queue[: self._queue.index(run)])
        wait = None if ahead and seconds is None else ahead * (seconds or 0.0)
        return ahead, wait, sum(each.wants_steps for each in self._first_runs().values())

    # --- The two threads ----------------------------------------------------------------------------------------------

    def _first_runs(self) -> dict[Budget, Run]:
        """Of each visitor the first run that has not ended."""
        firsts: dict[Budget, Run] = {}
        for run in self._active:
            if run.status not in ENDED:
                firsts.setdefault(run.budget, run)
        return firsts

    def _queue_first_runs(self) -> None:
        self._active = [run for run in self._active if run.status not in ENDED]
        self._waiting = {run: text for run, text in self._waiting.items() if run in self._active}
        for run in self._first_runs().values():
            if run in self._waiting:
                self._queue.append(run)
                self._preparer.submit(self._prepare, run, self._waiting.pop(run))

    def _prepare(self, run: Run, text: Source) -> None:
        started = time.monotonic()
        try:
            if run.status not in ENDED:
                run.prepare(text, self.device)
                self._prepare_seconds = running_mean(self._prepare_seconds, time.monotonic() - started, 0.3)
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
                self._fail_slice()

    def _train_one(self) -> None:
        """Wait until a run wants steps, and train it for a slice."""
        with self.changed:
            while (run := self._next_run()) is None and not self._is_closing:
                self.changed.wait(self._idle_seconds())
            if run is None or self._is_closing:
                return
            self._in_slice = run
            run.begin_slice()
        began = time.monotonic()
        run.train_slice()
        run.budget.seconds += time.monotonic() - began
        self._in_slice = None  # a waiting thread does not keep a run whose visitor has left

    def _fail_slice(self) -> None:
        """End the run whose slice an error has interrupted."""
        with self.changed:
            if (run := self._in_slice) is not None:
                run.interrupt("Training stopped on an internal error; the log has more.")
            self._in_slice = None
        self._closing.wait(TICK_SECONDS)  # an error that comes back at once must not fill the log

    def _watch(self) -> None:
        while not self._closing.wait(TICK_SECONDS):
            try:
                self._check_leases()
                self.memory.make_room()
                if not self._trainer.is_alive():
                    _log.error("the training thread has died; a new one starts")
                    self._fail_slice()
                    self._trainer = self._start_thread(self._train, "train")
            except BaseException as error:  # this thread watches the others; nothing may end it
                _log.error("the watching thread: %s", one_line(error))

    def _check_leases(self) -> None:
        now = self.now()
        with self.changed:
            leased = list(self._leased)
        for each in leased:
            try:
                each.check_lease(now)
            except BaseException as error:  # the other leases are checked nevertheless
                _log.error("the lease of %s: %s", type(each).__name__, one_line(error))

    @staticmethod
    def _start_thread(target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def _next_run(self) -> Run | None:
        """Of the runs that want steps and are due, one without any, or else that of the visitor who has had the least
        training time.

        A run that was paused does not catch up on missed time: its visitor's time is raised to the last one's.
        """
        now = self.now()
        self._queue_first_runs()
        ready = {budget: run for budget, run in self._first_runs().items() if run.wants_steps and run.due <= now}
        if not ready:
            return None
        budget = min(ready, key=lambda each: (ready[each].steps_done > 0, max(each.seconds, self._served)))
        if ready[budget].steps_done:
            budget.seconds = self._served = max(budget.seconds, self._served)
        return ready[budget]

    def _idle_seconds(self) -> float | None:
        """The time until a run is due, at most TICK_SECONDS; None to wait for a notification."""
        now = self.now()
        waits = [run.due - now for run in self._first_runs().values() if run.wants_steps]
        return max(0.0, min([*waits, TICK_SECONDS])) if waits else None


def _describe_device(device: str, asked: str) -> str:
    if device != "cpu":
        return torch.cuda.get_device_name(device) if device.startswith("cuda") else "Apple GPU"
    cores = processor_cores()
    idle = " (ZeroGPU lends no GPU to training)" if os.environ.get("SPACES_ZERO_GPU") else ""
    if asked == "auto" and (fault := gpu_fault()):  # a person who asks for the CPU leaves the GPU alone
        idle = f" (the GPU cannot be used: {fault})"
    return f"CPU, {cores} core{'s' if cores > 1 else ''}{idle}"
