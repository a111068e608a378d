"""One background thread trains everybody's runs.

`TrainingService` goes round the active runs in slices of some tens of milliseconds, the run that has had the least
time first, so that a room of people share the machine fairly. A second thread prepares new runs (tokenizer, encoding,
initial weights), so that a long text holds up nobody's training.

A run publishes immutable facts: an append-only history and snapshots of its weights. Whoever reads them never touches
the model that is being trained.
"""

import logging
import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import torch
from tokenizers import Tokenizer
from torch import Tensor

from bert_core.checkpoint import Checkpoint
from bert_core.config import BertConfig
from bert_core.corpus import Corpus
from bert_core.errors import BertCoreError, ConfigError, RunError
from bert_core.model import BertForPreTraining
from bert_core.recipes import Recipe, check_seed, load_recipe, prepare, stated
from bert_core.training import Layout, StepMetrics, Trainer, fill_from_flat, read_metrics, until_divergence

SLICE_SECONDS = 0.03
SNAPSHOT_SECONDS = 0.5  # wall clock between two snapshots of a running model, at most
SNAPSHOT_GROWTH = 1.1  # a step this many times the last snapshot's is worth one too: dense at the start
MAX_SNAPSHOTS = 40
MAX_SNAPSHOT_BYTES = 256 * 2**20

Status = Literal["queued", "running", "paused", "finished", "stopped", "failed"]
ENDED = ("finished", "stopped", "failed")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """Where a run stands. seconds: training time so far. seconds_left: at its present pace, None while unknown."""

    status: Status
    reason: str
    step: int
    steps: int
    seconds: float
    tokens_per_second: float
    seconds_left: float | None


@dataclass(frozen=True)
class Snapshot:
    """A run's weights after a step, as one flat tensor that nobody changes."""

    step: int
    weights: Tensor
    layout: Layout
    config: BertConfig
    tokenizer: Tokenizer
    name: str
    recipe: Mapping[str, Any]

    def checkpoint(self) -> Checkpoint:
        """A model in eval mode over these weights; each call builds one, the weights are not copied."""
        with torch.device("meta"):
            model = BertForPreTraining(self.config)
        fill_from_flat(model, self.layout, self.weights)
        return Checkpoint(model.eval(), self.tokenizer, self.name, recipe=self.recipe)


class Run:
    """One training run. Its methods may be called from any thread and return at once.

    id: 128 random bits in hexadecimal. recipe: as asked for; once prepared, at scale and with its number of steps.
    status, reason: see `Progress`. corpus: None until the text was read. snapshots: oldest first, thinned so that
    early steps keep more of them.
    """

    def __init__(self, recipe: Recipe, seed: int, wake: threading.Condition) -> None:
        self.id = secrets.token_hex(16)
        self.recipe, self.seed = recipe, seed
        self.status: Status = "queued"
        self.reason = ""
        self.corpus: Corpus | None = None
        self.snapshots: tuple[Snapshot, ...] = ()
        self._wake = wake  # guards what follows, and wakes the training thread
        self._history: list[StepMetrics] = []
        self._trainer: Trainer | None = None
        self._tokenizer: Tokenizer | None = None
        self._paused = False
        self._single_steps = 0
        self._used = 0.0  # seconds of the training thread; who had the least is next
        self._turn_ended = 0.0
        self._pace = math.nan  # running mean of wall-clock seconds per step
        self._snapped = 0.0

    def history(self, since: int = 0) -> list[StepMetrics]:
        """The rows after the first `since` ones; the next cursor is since + len(rows)."""
        return self._history[since:]

    def progress(self) -> Progress:
        """Where the run stands now."""
        with self._wake:
            done, steps = len(self._history), self.recipe.training.total_steps
            recent = self._history[-50:]
            spent = recent[-1].seconds - recent[0].seconds if len(recent) > 1 else 0.0
            running = self.status == "running" and math.isfinite(self._pace)
            return Progress(
                status=self.status,
                reason=self.reason,
                step=done,
                steps=steps,
                seconds=recent[-1].seconds if recent else 0.0,
                tokens_per_second=sum(row.tokens for row in recent[1:]) / spent if spent else 0.0,
                seconds_left=(steps - done) * self._pace if running else None,
            )

    def pause(self) -> None:
        """Ask for no more steps until `resume`; the step in progress is finished. Raises RunError if it has ended."""
        self._command(paused=True)

    def resume(self) -> None:
        """Go on after a pause. Raises RunError if the run has ended."""
        self._command(paused=False)

    def step(self) -> None:
        """Do one step and stay paused. Raises RunError if the run has ended."""
        self._command(paused=True, single_steps=1)

    def stop(self, reason: str = "") -> None:
        """End the run for good and keep what it has learnt; without effect on a run that has ended."""
        with self._wake:
            self._end("stopped", reason or f"Stopped by you at step {len(self._history)}.")

    def _command(self, *, paused: bool, single_steps: int = 0) -> None:
        with self._wake:
            if self.status in ENDED:
                raise RunError(f"This run has ended ({self.status}); start a new one.")
            self._paused = paused
            self._single_steps = self._single_steps + single_steps if paused else 0
            if self._trainer is not None:
                self.status = "paused" if paused else "running"
            self._wake.notify_all()

    def _end(self, status: Status, reason: str) -> None:
        with self._wake:
            if self.status not in ENDED:
                self.status, self.reason = status, reason
                self._wake.notify_all()

    # What follows is called by the service's threads alone.

    def _prepare(self, corpus: Corpus | None, device: str) -> None:
        prepared = prepare(self.recipe, corpus, self.seed, device)
        self.corpus, self._tokenizer, self.recipe = prepared.corpus, prepared.tokenizer, prepared.recipe
        trainer = prepared.trainer(device)
        with self._wake:
            if self.status in ENDED:
                return
            self._trainer = trainer
            self._snap()
            self.status = "paused" if self._paused else "running"
            self._turn_ended = time.monotonic()
            self._wake.notify_all()

    def _wants_turn(self) -> bool:
        ready = self._trainer is not None and self.status not in ENDED
        return ready and (not self._paused or self._single_steps > 0)

    def _train_slice(self) -> None:
        """Train for a slice of time, or for one step where a step is longer, and publish what it gave."""
        started = time.monotonic()
        trainer, pending = self._trainer, []
        while self._wants_turn() and time.monotonic() - started < SLICE_SECONDS:
            if (metrics := next(trainer, None)) is None:
                break
            pending.append(metrics)
            self._single_steps = max(0, self._single_steps - 1)
        rows, divergence = until_divergence(read_metrics(pending))
        now = time.monotonic()
        finished = trainer.step >= trainer.config.total_steps
        grown = trainer.step >= SNAPSHOT_GROWTH * self.snapshots[-1].step
        due = grown or finished or not self._wants_turn() or now - self._snapped >= SNAPSHOT_SECONDS
        with self._wake:
            if rows:
                pace = (now - self._turn_ended) / len(rows)
                self._pace = pace if math.isnan(self._pace) else 0.8 * self._pace + 0.2 * pace
            self._turn_ended = now
            self._used += now - started
            if rows and due and not divergence:
                self._snap()
            # Rows come after the snapshot: whoever sees a step's row finds its weights.
            self._history.extend(rows)
            if divergence:
                self._end("failed", divergence)
            elif finished:
                self._end("finished", "")

    def _snap(self) -> None:
        """Keep a copy of the weights; when there are too many, drop the one that is missed least."""
        trainer, now = self._trainer, time.monotonic()
        flat = trainer.flat
        kept = [snapshot for snapshot in self.snapshots if snapshot.step != trainer.step]
        name = f"{self.recipe.title}, step {trainer.step}"
        weights = flat.weights.clone()
        config, recipe = trainer.model.config, stated(self.recipe, self.seed)
        kept.append(Snapshot(trainer.step, weights, flat.layout, config, self._tokenizer, name, recipe))
        room = max(2, min(MAX_SNAPSHOTS, MAX_SNAPSHOT_BYTES // weights.nbytes))
        while len(kept) > room:
            # Missed least is the one whose neighbours are closest in ratio, the first and the newest aside.
            ratios = [(kept[i + 1].step + 1) / (kept[i - 1].step + 1) for i in range(1, len(kept) - 1)]
            del kept[1 + ratios.index(min(ratios))]
        self.snapshots, self._snapped = tuple(kept), now

    def _release(self) -> None:
        """Let go of the optimizer and the text's batches; history and snapshots stay."""
        self._trainer = None


class TrainingService:
    """Trains runs in the background until `close()`.

    device: "auto" takes a GPU when there is one, then Apple's MPS, then the CPU; or "cuda", "mps", "cpu".
    Raises ConfigError for a device that is not there.
    """

    def __init__(self, device: str = "auto") -> None:
        self.device = choose_device(device)
        self.device_name = _describe_device(self.device)
        self._wake = threading.Condition(threading.RLock())
        self._active: list[Run] = []
        self._closing = False
        self._preparing = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self._thread = threading.Thread(target=self._train, name="train", daemon=True)
        self._thread.start()

    def start(self, recipe: Recipe | str, corpus: Corpus | None = None, seed: int = 0) -> Run:
        """Queue a run and return at once. recipe: a recipe or the name of one. corpus: None takes the recipe's own.

        Raises ConfigError for an unknown recipe or a seed out of range; what is wrong with the text is found while
        the run is prepared and ends it as failed, with the reason.
        """
        recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
        check_seed(seed)
        with self._wake:
            if self._closing:
                raise RunError("The service is closing; start the app again.")
            run = Run(recipe, seed, self._wake)
            # A newcomer is first in line, but gets no more than its share afterwards.
            run._used = min((other._used for other in self._active), default=0.0)
            self._active.append(run)
            self._preparing.submit(self._guard, run, run._prepare, corpus, self.device)
        return run

    def close(self) -> None:
        """Stop all runs and end the threads."""
        with self._wake:
            self._closing = True
            for run in self._active:
                run.stop("The app was closed.")
            self._wake.notify_all()
        self._preparing.shutdown(wait=True, cancel_futures=True)
        self._thread.join()

    def _train(self) -> None:
        while True:
            with self._wake:
                while (run := self._next()) is None and not self._closing:
                    self._wake.wait()
                if self._closing:
                    return
            self._guard(run, run._train_slice)

    def _next(self) -> Run | None:
        """Whose turn it is: of the runs that want one, the one that has had the least time."""
        for run in self._active:
            if run.status in ENDED:
                run._release()
        self._active = [run for run in self._active if run.status not in ENDED]
        return min((run for run in self._active if run._wants_turn()), key=lambda run: run._used, default=None)

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
    return f"CPU, {os.cpu_count()} cores"
