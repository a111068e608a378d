"""One training run: facts to read and commands to give, while a `Worker` trains its model in another thread.

The facts do not change: an append-only history, held-out evaluations and snapshots of the weights. Readers never touch
the model that is being trained.
"""

import contextlib
import dataclasses
import logging
import math
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from bert_core.config import MAX_SEED, Limits
from bert_core.data.corpus import Corpus
from bert_core.errors import OUT_OF_MEMORY, BertCoreError, ConfigError, RunError, one_line, reason_of
from bert_core.probes.batch import BatchView, view_batch
from bert_core.runs.memory import Budget
from bert_core.runs.prepare import SMALLER_STEP, Prepared, check_limits, check_steps, prepare
from bert_core.runs.saved_state import TrainingState
from bert_core.runs.snapshots import Snapshot, least_useful, thinned
from bert_core.runs.worker import Worker
from bert_core.storage.checkpoint import Checkpoint, pack_checkpoint, save_checkpoint
from bert_core.tasks.examples import TaskParts
from bert_core.training.objective import StepRow

# What a run learns from: None for the recipe's own, a function for a text that takes long to read.
Source = Corpus | TaskParts | Callable[[], Corpus | TaskParts] | None
Status = Literal["queued", "running", "paused", "finished", "stopped", "failed"]
TRAINING = ("queued", "running")  # steps come without being asked for
ACTIVE = (*TRAINING, "paused")
ENDED = ("finished", "stopped", "failed")

ROW_BYTES = 500  # of a step's metrics, which are Python numbers
PREPARING = 20  # bytes of memory for each byte of a text while it is prepared
LONG_STEP_SECONDS = 5.0  # a step in progress that takes longer is mentioned
FREE_AFTER = 18  # leases without a visitor, after which a run is freed: three hours for a lease of ten minutes
PACES = (0.05, 1000.0)  # steps a second

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    status: Status
    reason: str
    step: int
    steps: int  # of all parts of the training
    seconds: float  # training time so far
    tokens_per_second: float
    seconds_left: float | None  # an estimate, None while unknown
    runs_ahead: int  # how many are prepared before this one
    wait_seconds: float | None  # for these, an estimate
    preparing: str  # the present stage of the preparation, else ""
    sharing: int  # how many runs share the training thread, this one among them


class Run:
    """One training run. Its methods may be called from any thread.

    `set_learning_rate`, `save`, `pack` and, unless asked not to, `stop` wait for the step in progress and the held-out
    batch after it; `save` and `pack` also end an evaluation.

    id: 128 random bits in hexadecimal. recipe: once prepared, at scale, with its number of steps and every change of
    the schedule. asked: the recipe as it was given. reason: why it failed, was stopped or paused itself. prepared: its
    text or task with their parts and batches, without the model; None until then and after it was freed. snapshots:
    oldest first. best: of a task, the one that did best on the validation part; None before the first result, and if
    its recipe keeps the last weights.
    worker: None until it is prepared and after the state for the next step was freed. pace: steps a second, None for
    full speed. due: when the pace allows the next step, by the service's clock. training_bytes: estimated. budget: what
    its visitor may keep.
    """

    def __init__(
        self,
        recipe: Any,  # a Recipe or, for a task, a FinetuningRecipe
        service: Any,  # the TrainingService
        *,
        budget: Budget | None = None,
        paused: bool = False,
        lease: float | None = None,
        keep_step: int | None = None,
        limits: Limits | None = None,
        start: Checkpoint | None = None,
        saved: TrainingState | None = None,
    ) -> None:
        """Arguments as for `TrainingService.start`; start, saved: the model and the state to begin with, if any."""
        self.id = secrets.token_hex(16)
        self.recipe, self.asked, self.reason = recipe, recipe, ""
        self.prepared: Prepared | None = None
        self.snapshots: tuple[Snapshot, ...] = ()
        self.best: Snapshot | None = None
        self.worker: Worker | None = None
        self.pace: float | None = None
        self.due = -math.inf
        self.training_bytes = self._text_bytes = 0
        self._history: list[StepRow] = []
        self._evaluations: Sequence[StepRow] = ()
        self._service, self._changed = service, service.changed
        self.budget: Budget = budget or service.budget()
        self._saved, self._start = saved, start
        self._kept_steps = {keep_step}
        self._limits = limits or service.limits
        self._lease, self._renewed = lease, service.now()
        self._stage = ""  # of the preparation
        self._ended: Status | None = None
        self._stop_reason: str | None = None  # once it was asked to stop
        self._paused_by: Literal["", "command", "lease"] = "command" if paused else ""
        self._single_steps = 0
        self._is_held = False  # a thread needs it at rest for a moment
        self._slice_began: float | None = None  # None while no slice is in progress
        self._is_single = False  # the slice in progress began in a pause
        self._slice_ended = 0.0
        self._step_seconds: float | None = None  # running mean, wall clock
        self._estimated_step = 0.0  # seconds

    # --- Facts --------------------------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """ "paused" means that only `step` trains, and that the newest snapshot is of the last step."""
        worker = self.worker  # read first: a reader without the lock never sees a freed run as queued
        if self._ended:
            return self._ended
        if worker is None:
            return "queued"
        is_at_rest = self._slice_began is None or self._is_single
        return "paused" if self._paused_by and is_at_rest and not worker.is_trained else "running"

    @property
    def steps_done(self) -> int:
        """The number of rows of the history."""
        return len(self._history)

    def history(self, since: int = 0) -> list[StepRow]:
        """The rows after the first `since` ones; the next cursor is since + len(rows)."""
        return self._history[since:]

    def evaluations(self, since: int = 0) -> list[StepRow]:
        """The held-out curve after its first `since` points; empty where nothing is held out."""
        return list(self._evaluations[since:])

    def __repr__(self) -> str:
        done = f"step {len(self._history):,} of {self.recipe.training.total_steps:,}"
        return f"<Run {self.id[:6]}, {self.recipe.title}: {self.status}, {done}>"

    def progress(self) -> Progress:
        """How far the run is now."""
        with self._changed:
            done, steps = len(self._history), self.recipe.training.total_steps
            recent, status = self._history[-50:], self.status
            seconds = recent[-1].seconds if recent else 0.0
            spent = seconds - recent[0].seconds if recent else 0.0
            speed = sum(row.tokens for row in recent[1:]) / spent if spent else 0.0
            left = None
            if status == "running" and self._step_seconds is not None:
                left = (steps - done) * max(self._step_seconds, 1 / (self.pace or math.inf))
            ahead, wait, sharing = self._service.place_of(self)
            reason = self.reason or self._slice_note()
            return Progress(status, reason, done, steps, seconds, speed, left, ahead, wait, self._stage, sharing)

    def _slice_note(self) -> str:
        """That it stops after the step in progress, or how long that has taken; else ""."""
        if self._ended or self._slice_began is None:
            return ""
        if self._stop_reason is not None:
            return "Stopping after the step in progress."
        seconds = time.monotonic() - self._slice_began
        return f"The step in progress has taken {seconds:.0f} s so far." if seconds > LONG_STEP_SECONDS else ""

    def batch_at(self, step: int, *, again: int = 0, rows: slice = slice(None)) -> BatchView:
        """The batch of a step, counted from 1, also of a step to come. rows: the pairs to show.

        again: 1, 2, ... hide other words of the same pairs. Raises RunError without such a step or without batches.
        """
        prepared, last = self.prepared, self.recipe.training.total_steps
        if prepared is None or prepared.head:
            raise RunError("The batches of this run are not here: it is not prepared yet, or it was freed.")
        if not 0 <= again <= MAX_SEED:
            raise RunError(f"again is {again}; it must be a number from 0 to {MAX_SEED}.")
        if not 1 <= step <= last:
            raise RunError(f"There is no step {step}; this run has the steps 1 to {last}.")
        return view_batch(prepared.batches.copy(again)[step - 1], prepared.tokenizer, step, rows)

    def save(self, folder: str | Path) -> None:
        """Write the model, that of a task's best epoch, as a Hugging Face folder, with the state for `resume`, if it
        is kept. Raises RunError without a model, CheckpointError if the folder cannot be written."""
        checkpoint, also = self._to_save()
        save_checkpoint(checkpoint, folder, also=also)

    def pack(self, zip_path: str | Path) -> None:
        """As `save`, into a zip file."""
        checkpoint, also = self._to_save()
        pack_checkpoint(checkpoint, zip_path, also=also)

    def _to_save(self) -> tuple[Checkpoint, Callable[[Path], None]]:
        with self._at_rest():
            if not self.snapshots:
                raise RunError("This run has no model to save: it is not prepared yet, or it was freed.")
            if self.worker is None:
                return (self.best or self.snapshots[-1]).checkpoint(), lambda folder: None
            shown, state = self.worker.to_save()
            self._publish(self.worker.newest, self.worker.evaluator.best)
            return shown.checkpoint(), state.write

    # --- Commands -----------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Train no more until `resume`; the step in progress is finished. Raises RunError if the run has ended."""
        self._command("command")

    def resume(self) -> None:
        """Continue after a pause. Raises RunError if the run has ended."""
        self._command("")

    def step(self) -> None:
        """Train one step and stay paused. Raises RunError if the run has ended."""
        self._command("command", single_steps=1)

    def _command(self, paused_by: Literal["", "command", "lease"], single_steps: int = 0, reason: str = "") -> None:
        with self._changed:
            self._refuse_if_ended()
            if paused_by != "lease":
                self._renewed = self._service.now()
            self.reason = reason
            if self._slice_began is None:
                if paused_by:
                    self._keep_newest()  # first, for readers who do not take the lock
                elif self._paused_by:
                    self._slice_ended = time.monotonic()  # the pause is no part of a step
            self._single_steps = self._single_steps + single_steps if paused_by else 0
            self._paused_by = paused_by
            self._changed.notify_all()

    def stop(self, reason: str = "", *, wait: bool = True) -> None:
        """End the run after the step in progress; its model and the state for `continue_for` are kept. No effect on a
        run that has ended. wait: until it has ended."""
        with self._changed:
            self._stop_reason = reason
            self._settle_stop()
            self._changed.notify_all()
            while wait and not self._ended:
                self._changed.wait()

    def wait(self, seconds: float = math.inf) -> Self:
        """Wait until the run has ended, also while it is paused, and return it. Raises RunError with the reason where
        it has failed, and after `seconds` where it has not ended."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not self._ended and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(min(left, 0.5))  # Windows hears Ctrl-C only in between
            if self._ended == "failed":
                raise RunError(self.reason)
            if not self._ended:
                raise RunError(f"The run has not ended within {seconds:g} s; it is {self.status}. Wait longer.")
        return self

    def _settle_stop(self) -> None:
        """End a run that was asked to stop, if no slice is in progress."""
        if self._stop_reason is not None and self._slice_began is None and not self._ended:
            self._keep_newest()
            self._end("stopped", self._stop_reason or f"Stopped by you at step {len(self._history)}.")

    def keep_step(self, step: int) -> bool:
        """Keep the snapshot of a step, which may be still to come. Returns whether the run has it or will have it."""
        with self._changed:
            done = self.worker.trainer.step if self.worker else -1
            is_to_come = self._ended is None and done < step <= self.recipe.training.total_steps
            has_it = is_to_come or any(each.step == step for each in self.snapshots)
            if has_it:
                self._kept_steps.add(step)
            return has_it

    def touch(self) -> None:
        """Renew the lease; a run that was paused at the end of its lease continues."""
        with self._changed:
            self._renewed = self._service.now()
            if self._paused_by == "lease" and not self._ended:
                self.resume()

    def set_pace(self, steps_per_second: float | None) -> None:
        """Train at this many steps a second, or at full speed (None). Raises ConfigError outside 0.05 to 1000."""
        low, high = PACES
        if steps_per_second is not None and not low <= steps_per_second <= high:
            raise ConfigError(f"The pace is {steps_per_second!r}; it must be from {low:g} to {high:g} steps a second.")
        with self._changed:
            self.pace, self.due = steps_per_second, -math.inf
            self._changed.notify_all()

    def set_learning_rate(self, value: float) -> None:
        """Use this learning rate, which decays as before, from the next step on: a new part of the recipe's training.

        Raises RunError unless the run is paused, ConfigError for a value out of range.
        """
        with self._at_rest():
            self._refuse_if_ended()
            if self.status != "paused" or self.worker is None:
                raise RunError("The learning rate can be changed while the run is paused; pause it first.")
            self.recipe = self.worker.add_part(self.recipe.training.total_steps - len(self._history), value)

    def continue_for(self, steps: int, learning_rate: float | None = None) -> None:
        """Train a finished or stopped run for more steps, bit for bit as if its recipe had contained both parts, or as
        if it had not been stopped where these are the steps that it had left.

        learning_rate: peak of the new part; None for the present peak. Raises RunError where the run has not ended, has
        failed or was freed, ConfigError for a number out of range.
        """
        with self._changed:
            if self._ended not in ("finished", "stopped"):
                raise RunError(f"Only a finished or stopped run can train more steps; this one is {self.status}.")
            if self.worker is None:
                raise RunError("The state that this run needs to continue is no longer kept; start it again.")
            check_steps(len(self._history) + steps, self._service.limits)
            if learning_rate is not None or steps != self.recipe.training.total_steps - len(self._history):
                self.recipe = self.worker.add_part(steps, learning_rate)
            self._service.enlist(self)
            self.reason, self._stop_reason, self._paused_by, self._single_steps = "", None, "", 0
            self._ended, self._slice_ended = None, time.monotonic()
            self._changed.notify_all()

    def _refuse_if_ended(self) -> None:
        if self._ended:
            raise RunError(f"This run has ended ({self._ended}); start a new one.")

    @contextlib.contextmanager
    def _at_rest(self) -> Iterator[None]:
        """Hold the lock while no slice is in progress, and let no new one begin. One thread at a time may wait, so that
        many requests do not take all threads of a server; RunError for any other."""
        with self._changed:
            if self._is_held:
                raise RunError("Another request waits for this run's step in progress; try again when it has ended.")
            self._is_held = True
            try:
                while self._slice_began is not None:
                    self._changed.wait()
                yield
            finally:
                self._is_held = False
                self._changed.notify_all()

    def _end(self, status: Status, reason: str) -> None:
        with self._changed:
            if self._ended:
                return
            self.reason, self._stage = reason, ""
            self._ended = status
            self._start = self._saved = None
            if status == "failed":
                self.worker = None
            self.budget.make_room()
            self._changed.notify_all()

    # --- For the service alone ----------------------------------------------------------------------------------------

    def prepare(self, source: Source, device: str) -> None:
        """Read and encode what it learns from and build the model; an error ends the run."""
        try:
            if callable(source):
                self._show_stage("reading the text")
                source = source()
            if source is not None:
                self._text_bytes = source.nbytes
                self._service.memory.admit(self, PREPARING * source.nbytes)

            def admit(prepared: Prepared) -> None:
                check_limits(prepared, self._limits)
                self.training_bytes = prepared.training_bytes
                self._service.memory.admit(self, 0)

            start = self._start if self.recipe.start is not None else None
            progress = self._show_stage
            prepared = prepare(self.recipe, source, device=device, start=start, progress=progress, admit=admit)
            worker = Worker(prepared, self._start, self._saved)
            with self._changed:
                if self._ended:
                    return
                self.prepared = dataclasses.replace(prepared, model=None)
                self._estimated_step = prepared.seconds(1)
                self._text_bytes += sum(part.nbytes for part in (prepared.batches, prepared.validation) if part)
                self.recipe, self._history, self._evaluations = worker.recipe, worker.history, worker.evaluator.points
                self._start = self._saved = None
                self._publish(worker.newest, worker.evaluator.best)
                self._stage, self._slice_ended = "", time.monotonic()
                self.worker = worker
                self._changed.notify_all()
        except BaseException as error:
            self._fail(error)

    def _show_stage(self, stage: str) -> None:
        with self._changed:
            if self._ended:
                raise RunError(self.reason)  # it was stopped meanwhile
            self._stage = stage

    @property
    def wants_steps(self) -> bool:
        """Whether it would train if it was given the training thread."""
        if self.worker is None or self._ended or self._is_held or self._stop_reason is not None:
            return False
        return not self._paused_by or self._single_steps > 0 or self.worker.is_trained

    def begin_slice(self) -> None:
        """Mark the run as training, under the lock; `train_slice` comes next."""
        self._slice_began, self._is_single = time.monotonic(), bool(self._paused_by)

    def train_slice(self) -> None:
        """Train for a slice of time, publish what it gave and evaluate; an error ends the run."""
        try:
            assert self.worker is not None
            self._train(self.worker)
        except BaseException as error:
            self._fail(error)
        with self._changed:
            try:
                if self.worker is not None and self.worker.is_finished:
                    self._end("finished", "")
                if self._paused_by:
                    self._keep_newest()
            except BaseException as error:
                self._fail(error)
            self._slice_began = None
            try:
                self._settle_stop()
            except BaseException as error:
                self._fail(error)
            self._changed.notify_all()

    def interrupt(self, reason: str) -> None:
        """End the run as failed after an error that `train_slice` did not catch."""
        self._slice_began = None
        self._end("failed", reason)

    def _train(self, worker: Worker) -> None:
        started = time.monotonic()
        began = time.thread_time()  # which does not count the time in which other threads held this one up
        rows, divergence = worker.train(self._may_step)
        seconds, limit = (time.thread_time() - began) / max(1, len(rows)), 2 * self._limits.step_seconds
        if rows and seconds > limit:
            raise RunError(f"A step took {seconds:.1f} s; the limit here is {limit:g} s. {SMALLER_STEP}")
        now = time.monotonic()
        with self._changed:
            if rows and not self._is_single:
                self._step_seconds = running_mean(self._step_seconds, (now - self._slice_ended) / len(rows), 0.2)
                slowness = (now - started) / len(rows) / self._estimated_step
                self._service.slowness = running_mean(self._service.slowness, slowness, 0.2)
            self._slice_ended = now
            if rows and not divergence and (worker.is_snapshot_due or self._lacks_kept_step or not self.wants_steps):
                self._publish(worker.take_snapshot())
            # Rows come after the snapshot: a reader who sees a step's row finds its weights.
            self._history.extend(rows)
            if divergence:
                self._end("failed", divergence)
        if not divergence:
            worker.evaluate()
            if worker.evaluator.best is not self.best:
                with self._changed:
                    self._publish(worker.newest, worker.evaluator.best)

    def _may_step(self) -> bool:
        """Whether a step may begin now; if so, it is counted, and by its pace the next one is due a period later."""
        with self._changed:
            now = self._service.now()
            if self._lacks_kept_step or not self.wants_steps or now < self.due:
                return False
            if self.pace is not None:
                # A step that begins a little late does not shift the later ones; a longer delay is not caught up.
                self.due = (self.due if now - self.due < 1 / self.pace else now) + 1 / self.pace
            self._single_steps = max(0, self._single_steps - 1)
            return True

    @property
    def _lacks_kept_step(self) -> bool:
        """Whether the training is at the step to keep and its snapshot is still to be taken."""
        worker = self.worker
        return worker is not None and worker.trainer.step in self._kept_steps - {self.snapshots[-1].step}

    def _keep_newest(self) -> None:
        if self.worker is not None and self.worker.newest.step < self.worker.trainer.step:
            self._publish(self.worker.take_snapshot())

    def _publish(self, newest: Snapshot, best: Snapshot | None = None) -> None:
        self.best = best or self.best
        by_step = {each.step: each for each in (*self.snapshots, self.best, newest) if each}
        self.snapshots = thinned([by_step[step] for step in sorted(by_step)], self._staying)
        self.budget.make_room()

    def _fail(self, error: BaseException) -> None:
        """End this run alone after an error, of any kind: a panic of the tokenizers' library is no Exception.

        It is no context manager: from Python 3.12 on, a generator that swallows an error keeps its frames, and so the
        run's model, until the garbage collector comes. The other runs need that memory at once.
        """
        if isinstance(error, BertCoreError):
            self._end("failed", str(error))
            return
        reason = reason_of(error)
        if reason != OUT_OF_MEMORY:
            _log.error("run %s: %s", self.id[:6], one_line(error))
        internal = f"Training stopped on an internal error ({type(error).__name__}); the log has more."
        self._end("failed", reason or internal)

    def check_lease(self, now: float) -> None:
        """Pause a run that nobody has visited for longer than its lease; free it after FREE_AFTER leases."""
        with self._changed:
            if not self.is_left:
                return
            if now - self._renewed > FREE_AFTER * (self._lease or 0):
                self.free("Stopped and freed, because nobody had visited it for long.")
            elif not self._paused_by and self.status in TRAINING:
                done = f"Paused at step {len(self._history)}"
                self._command("lease", reason=f"{done}, because nobody was watching; it continues when you do.")

    # --- Memory -------------------------------------------------------------------------------------------------------

    @property
    def is_left(self) -> bool:
        """Whether nobody has visited it for longer than its lease."""
        return self._lease is not None and self._service.now() - self._renewed > self._lease

    @property
    def working_bytes(self) -> int:
        """Estimated bytes of training it, until it has ended."""
        return 0 if self._ended else self.training_bytes

    @property
    def fixed_bytes(self) -> int:
        """Estimated bytes of the history and the text."""
        return ROW_BYTES * len(self._history) + self._text_bytes

    @property
    def spare_bytes(self) -> int:
        """Bytes that an ended run keeps only to be continued."""
        return self.worker.trainer.nbytes if self.worker is not None and self._ended else 0

    @property
    def kept_bytes(self) -> int:
        """Bytes that it keeps beside training; asked often, so one snapshot stands for all, which have one size."""
        snapshots = self.snapshots
        return self.fixed_bytes + self.spare_bytes + (len(snapshots) * snapshots[0].nbytes if snapshots else 0)

    @property
    def staying_bytes(self) -> int:
        """Bytes that stay when all is freed that others may need: text, history, first, newest and best weights."""
        ends, staying = self.snapshots[:1] + self.snapshots[-1:], self._staying
        stay = [each for each in self.snapshots if each in ends or each.step in staying]
        return self.fixed_bytes + sum(each.nbytes for each in stay)

    @property
    def _staying(self) -> set[int | None]:
        added = (part.start for part in self.recipe.training.parts[-1:])  # the model before the last steps were added
        return {*self._kept_steps, *added, self.best.step if self.best else None}

    def least_useful(self) -> tuple[float, Snapshot] | None:
        """Of the snapshots that may be dropped; see `snapshots.least_useful`."""
        return least_useful(self.snapshots, self._staying)

    def drop(self, snapshot: Snapshot) -> int:
        """Drop a snapshot; returns its bytes."""
        self.snapshots = tuple(each for each in self.snapshots if each is not snapshot)
        return snapshot.nbytes

    def give_up(self) -> int:
        """Free what only `continue_for` needs; returns its bytes. History and snapshots stay."""
        freed, self.worker = self.spare_bytes, None
        return freed

    def free(self, reason: str) -> None:
        """Stop and free all but the history; a run with a step in progress only stops, and is freed by a later call."""
        self.stop(reason, wait=False)
        if self._ended:
            self.worker = self.prepared = self.best = self._lease = None
            self.snapshots, self._evaluations, self._text_bytes = (), (), 0


def running_mean(mean: float | None, value: float, weight: float) -> float:
    """An exponentially weighted mean with a new value; None before the first. weight: of the new value."""
    return value if mean is None else (1 - weight) * mean + weight * value
