"""One background thread trains everybody's runs.

`TrainingService` goes round its visitors in slices of some tens of milliseconds, the one who has had the least time
first, so that a room of people share the machine fairly. The runs of one visitor, who share a budget, come one after
the other: two or twenty of them take no more of the machine than one. A second thread prepares new runs (tokenizer,
encoding, initial weights) in the order of their coming, so that a long text holds up nobody's training.
"""

import logging
import math
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import torch

from bert_core.costs import processor_cores
from bert_core.data.corpus import Corpus
from bert_core.errors import BertCoreError, ConfigError, RunError
from bert_core.runs.recipe import Recipe, check_seed, load_recipe
from bert_core.runs.run import ENDED, Run
from bert_core.runs.saved_state import read_training_state
from bert_core.runs.snapshots import BUDGET_BYTES, Budget
from bert_core.storage.checkpoint import load_checkpoint, unpack_checkpoint

TICK_SECONDS = 0.5  # how often leases are looked at

Text = Corpus | Callable[[], Corpus] | None

_log = logging.getLogger(__name__)


class Leased(Protocol):
    """What is looked at every TICK_SECONDS, to see whether whoever it is for is still there."""

    def check_lease(self, now: float) -> None: ...


class TrainingService:
    """Trains runs in the background until `close()`.

    device: "auto" takes a GPU when there is one, then Apple's MPS, then the CPU; or "cuda", "mps", "cpu". clock: of
    leases and paces, monotonic seconds. Raises ConfigError for a device that is not there.
    """

    def __init__(self, device: str = "auto", *, clock: Callable[[], float] = time.monotonic) -> None:
        self.device = choose_device(device)
        self.device_name = _describe_device(self.device)
        self._clock = clock
        self._wake = threading.Condition(threading.RLock())
        self._active: list[Run] = []
        self._waiting: list[tuple[Run, Text]] = []  # for another run of the same visitor to be over
        self._line: list[Run] = []  # to be prepared, in the order of their coming
        self._served = 0.0  # seconds that whoever had the last turn had had before
        self._leased: weakref.WeakSet[Leased] = weakref.WeakSet()
        self._prepare_seconds = math.nan  # running mean
        self._closing = False
        self._preparing = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self._thread = threading.Thread(target=self._train, name="train", daemon=True)
        self._thread.start()

    def start(
        self,
        recipe: Recipe | str,
        corpus: Text = None,
        seed: int = 0,
        *,
        paused: bool = False,
        lease: float | None = None,
        budget: Budget | None = None,
    ) -> Run:
        """Queue a run and return at once.

        recipe: a recipe or the name of one. corpus: None takes the recipe's own; a function is called when it is this
        run's turn to be prepared, for a text that takes long to read. paused: wait before the first step. lease:
        seconds after which a run that nobody has touched is paused; after FREE_AFTER times as long it is freed. None
        leaves it alone. budget: shared by the runs of one visitor, which wait for each other: each is prepared when
        those before it have ended. None gives the run one of its own.

        Raises ConfigError for an unknown recipe or a seed out of range; what is wrong with the text is found while
        the run is prepared and ends it as failed, with the reason.
        """
        recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
        check_seed(seed)
        return self._queue(Run(recipe, seed, self, lease, budget or self.budget()), corpus, paused)

    def resume(
        self,
        folder_or_zip: str | Path,
        corpus: Corpus | None = None,
        *,
        paused: bool = False,
        lease: float | None = None,
        budget: Budget | None = None,
    ) -> Run:
        """Go on with a run that `Run.save` or `Run.pack` wrote, bit for bit as if it had never stopped.

        corpus: its text, where that is not the recipe's own. Other arguments as for `start`. Raises CheckpointError or
        ConfigError for files that cannot be used, CorpusError for a text that is another one.
        """
        with tempfile.TemporaryDirectory(prefix="resume-") as temporary:
            folder = Path(folder_or_zip)
            if folder.is_file():
                folder = Path(temporary, "model")
                unpack_checkpoint(folder_or_zip, folder)
            checkpoint, state = load_checkpoint(folder), read_training_state(folder)
        corpus = state.text_to_go_on(corpus)
        run = Run(state.recipe, state.seed, self, lease, budget or self.budget())
        run._saved = checkpoint, state
        return self._queue(run, corpus, paused)

    def _queue(self, run: Run, corpus: Text, paused: bool) -> Run:
        with self._wake:
            run._paused = paused
            self._take_up(run)
            self._waiting.append((run, corpus))
            self._call_up()
            if run._lease is not None:
                self.watch(run)
        return run

    def budget(self, limit: int = BUDGET_BYTES) -> Budget:
        """A byte budget that runs of this service and other threads may share."""
        return Budget(limit, self._wake)

    def watch(self, leased: Leased) -> None:
        """Call its `check_lease` with `now()` every TICK_SECONDS, under the service's lock, as long as it lives."""
        with self._wake:
            self._leased.add(leased)
            self._wake.notify_all()

    def now(self) -> float:
        """Seconds by the clock of leases and paces."""
        return self._clock()

    def close(self) -> None:
        """Stop all runs and end the threads."""
        with self._wake:
            self._closing = True
            for run in self._active:
                run.stop("The app was closed.")
            self._wake.notify_all()
        self._preparing.shutdown(wait=True, cancel_futures=True)
        self._thread.join()

    def _take_up(self, run: Run) -> None:
        """Train a run from now on, when those of the same visitor before it have ended."""
        if self._closing:
            raise RunError("The service is closing; start the app again.")
        self._active.append(run)

    def _firsts(self) -> list[Run]:
        """The runs whose turn it is: of each visitor the first one that has not ended."""
        firsts: dict[Budget, Run] = {}
        for run in self._active:
            if run.status not in ENDED:
                firsts.setdefault(run._budget, run)
        return list(firsts.values())

    def _call_up(self) -> None:
        """Send the runs whose turn it is to be prepared."""
        firsts, waiting = self._firsts(), self._waiting
        self._waiting = [(run, text) for run, text in waiting if run not in firsts and run.status not in ENDED]
        for run, text in waiting:
            if run in firsts:
                self._line.append(run)
                self._preparing.submit(self._prepare, run, text)

    def _prepare(self, run: Run, corpus: Text) -> None:
        started = time.monotonic()
        if run.status not in ENDED:
            self._guard(run, run._prepare, corpus, self.device)
            seconds = time.monotonic() - started
            known = math.isfinite(self._prepare_seconds)
            self._prepare_seconds = 0.7 * self._prepare_seconds + 0.3 * seconds if known else seconds
        with self._wake:
            run._preparing = ""
            self._line.remove(run)

    def _line_before(self, run: Run) -> tuple[int, float | None]:
        """How many runs are prepared before this one, and the seconds which that takes by experience."""
        place = 0
        if run in self._line and run.status not in ENDED:
            place = sum(other.status not in ENDED for other in self._line[: self._line.index(run)])
        known = math.isfinite(self._prepare_seconds)
        return place, place * self._prepare_seconds if known or not place else None

    def _sharing(self) -> int:
        return sum(run._wants_turn() for run in self._firsts())

    def _train(self) -> None:
        while True:
            with self._wake:
                while (run := self._next()) is None and not self._closing:
                    self._wake.wait(self._nap())
                if self._closing:
                    return
                run._busy = True
            self._guard(run, run._train_slice)
            with self._wake:
                run._settle()
            del run  # whoever waits holds no run that its visitor has left

    def _next(self) -> Run | None:
        """Whose turn it is: of the runs that want one and whose pace allows it, that of the visitor who has had the
        least time. Who was away has no claim on the time that passed meanwhile."""
        now = self._clock()
        for leased in list(self._leased):
            leased.check_lease(now)
        self._active = [run for run in self._active if run.status not in ENDED]
        self._call_up()
        ready = [run for run in self._firsts() if run._wants_turn() and run._due <= now]
        run = min(ready, key=lambda run: max(run._budget.seconds, self._served), default=None)
        if run is not None:
            run._budget.seconds = self._served = max(run._budget.seconds, self._served)
        return run

    def _nap(self) -> float | None:
        """How long there is nothing to do unless somebody calls; None for ever."""
        now = self._clock()
        waits = [run._due - now for run in self._firsts() if run._wants_turn()]
        return max(0.0, min([*waits, TICK_SECONDS])) if waits or self._leased else None

    def _guard(self, run: Run, work: Callable[..., None], *arguments: Any) -> None:
        """Do a piece of a run's work; whatever goes wrong ends that run alone, with a reason."""
        try:
            work(*arguments)
        except BertCoreError as error:
            run._end("failed", str(error))
        except torch.OutOfMemoryError:
            run._end("failed", "The device ran out of memory; choose a smaller model or smaller batches.")
        except Exception as error:
            _log.exception("run %s", run.id[:6])
            run._end("failed", f"Training stopped on an internal error ({type(error).__name__}); the log has more.")


def choose_device(device: str) -> str:
    """The device to train on; "auto" takes CUDA, then MPS, then the CPU. Raises ConfigError for a missing one."""
    # A ZeroGPU Space lends its GPU to forked workers only; a background thread never sees it.
    zero_gpu = bool(os.environ.get("SPACES_ZERO_GPU"))
    available = {
        "cuda": torch.cuda.is_available() and not zero_gpu,
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if device == "auto":
        return next(name for name, there in available.items() if there)
    if not available.get(device):
        there = ", ".join(name for name, is_there in available.items() if is_there)
        raise ConfigError(f"The device {device!r} is not available here; there is: {there}.")
    return device


def _describe_device(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name(0)
    if device == "mps":
        return "Apple GPU"
    cores = processor_cores()
    return f"CPU, {cores} core{'s' if cores > 1 else ''}"
