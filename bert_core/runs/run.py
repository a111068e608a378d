"""One training run: facts to read and commands to give, while a `Worker` trains its model in another thread.

A run publishes immutable facts: an append-only history, held-out evaluations and snapshots of its weights. Readers
never touch the model that is being trained.
"""

import contextlib
import dataclasses
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from bert_core.config import MAX_SEED, Limits
from bert_core.data.batches import PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import EncodedCorpus
from bert_core.errors import BertCoreError, RunError, checked, is_out_of_memory, megabytes, one_line
from bert_core.probes.batch import BatchView, view_batch
from bert_core.runs.prepare import SMALLER_STEP, Prepared, check_limits, check_steps, prepare
from bert_core.runs.recipe import FinetuningRecipe
from bert_core.runs.saved_state import TrainingState
from bert_core.runs.snapshots import Budget, Memory, Snapshot, thinned
from bert_core.runs.timing import Lease, Pace, RunningMean
from bert_core.runs.worker import Worker
from bert_core.storage.checkpoint import Checkpoint, pack_checkpoint, save_checkpoint
from bert_core.tasks.examples import TaskParts

ROW_BYTES = 500  # of a step's metrics, which are Python numbers

# None for the recipe's own, a function for one that takes long to read.
Text = Corpus | TaskParts | Callable[[], Corpus | TaskParts] | None
Status = Literal["queued", "running", "paused", "finished", "stopped", "failed"]
TRAINING = ("queued", "running")  # steps come without being asked for
ACTIVE = (*TRAINING, "paused")
ENDED = ("finished", "stopped", "failed")

PREPARING = 20  # bytes of memory for each byte of a text while it is prepared
MEMORY_SECONDS = 600.0  # that a run waits in line for memory
LONG_STEP_SECONDS = 5.0  # a step in progress that takes longer is mentioned

_log = logging.getLogger(__name__)


class Scheduler(Protocol):
    """What a run needs of its service. changed: guards all runs; a notification wakes the training thread. limits: of
    this place. memory: of all visitors."""

    changed: threading.Condition
    limits: Limits
    memory: Memory

    def now(self) -> float: ...

    def enlist(self, run: "Run") -> None: ...

    def queue_ahead(self, run: "Run") -> tuple[int, float | None]: ...

    def count_sharing(self) -> int: ...


@dataclass(frozen=True)
class Progress:
    """The progress of a run.

    steps: of all parts of the training. seconds: training time so far. seconds_left, wait_seconds: estimates, None
    while unknown. runs_ahead: number of runs that are prepared before this one, for which it waits. preparing: the
    present stage of the preparation, else "". sharing: number of runs that share the training thread now, with this.
    """

    status: Status
    reason: str
    step: int
    steps: int
    seconds: float
    tokens_per_second: float
    seconds_left: float | None
    runs_ahead: int
    wait_seconds: float | None
    preparing: str
    sharing: int


class Run:
    """One training run. Its methods may be called from any thread.

    `set_learning_rate`, `save`, `pack` and, unless asked not to, `stop` wait for the step in progress and the held-out
    batch after it; `save` and `pack` also end an evaluation.

    id: 128 random bits in hexadecimal. recipe: once prepared, at scale, with its number of steps and every change of
    the schedule. status: "paused" means that only `step` trains. reason: why it failed, was stopped or paused itself.
    corpus, training_text, held_out: the text and its parts, None until it was read; held_out stays None if the model
    can only memorise. parts: instead of these for a task, with the examples that it trains on; validation is never None
    then. given: the parts as they were given. snapshots: oldest first. best: of a task, the one that did best on the
    validation part; None before the first epoch is evaluated, and if its recipe keeps the last weights. worker: None
    until it is prepared and after its state was freed.
    """

    def __init__(
        self,
        recipe: Any,  # a Recipe or, for a task, a FinetuningRecipe
        scheduler: Scheduler,
        budget: Budget,
        *,
        paused: bool = False,
        lease: float | None = None,
        keep_step: int | None = None,
        saved: tuple[Checkpoint, TrainingState] | None = None,
        start: Checkpoint | None = None,
    ) -> None:
        """Arguments as for `TrainingService.start`; saved: where a resumed run begins. start: of a task's run."""
        self.id = secrets.token_hex(16)
        self.recipe, self.budget = recipe, budget
        self.status: Status = "queued"
        self.reason = ""
        self.corpus: Corpus | None = None
        self.training_text: Corpus | None = None
        self.held_out: Corpus | None = None
        self.parts: TaskParts | None = None
        self.given: TaskParts | None = None
        self.snapshots: tuple[Snapshot, ...] = ()
        self.best: Snapshot | None = None
        self.worker: Worker | None = None
        self._scheduler, self._changed = scheduler, scheduler.changed
        self._lease, self._pace = Lease(lease, scheduler.now), Pace()
        self._saved, self._start = saved, saved[0] if saved else start
        self._keep_step = keep_step
        self._history: list[Any] = []
        self._evaluations: Sequence[Any] = ()
        self._batches: PretrainingBatches | None = None
        self._training_bytes = 0  # that it was admitted with
        self._text_bytes = 0
        self._stage = ""  # of the preparation
        self._is_training = False  # a slice is in progress
        self._slice_began = 0.0
        self._is_held = False  # a thread needs it at rest for a moment
        self._stop_reason: str | None = None  # once it was asked to stop
        self._paused, self._paused_by_lease = paused, False
        self._single_steps = 0
        self._slice_ended = 0.0
        self._step_seconds = RunningMean(0.2)  # wall clock
        budget.hold(self)

    # --- Facts --------------------------------------------------------------------------------------------------------

    @checked
    def history(self, since: int = 0) -> list[Any]:
        """The rows, `StepMetrics` or `TaskMetrics`, after the first `since` ones; the next cursor is since +
        len(rows)."""
        return self._history[since:]

    @property
    def steps_done(self) -> int:
        """The number of rows of the history."""
        return len(self._history)

    @checked
    def evaluations(self, since: int = 0) -> list[Any]:
        """The held-out curve of `EvaluationPoint` or `EpochMetrics` after its first `since` points; empty where nothing
        is held out."""
        return list(self._evaluations[since:])

    def progress(self) -> Progress:
        """The progress now."""
        with self._changed:
            done, steps = len(self._history), self.recipe.training.total_steps
            recent = self._history[-50:]
            seconds = recent[-1].seconds if recent else 0.0
            spent = seconds - recent[0].seconds if recent else 0.0
            speed = sum(row.tokens for row in recent[1:]) / spent if spent else 0.0
            is_estimated = self.status == "running" and self._step_seconds.is_known
            left = (steps - done) * self._step_seconds.value if is_estimated else None
            ahead, sharing = self._scheduler.queue_ahead(self), self._scheduler.count_sharing()
            reason = self.reason or self._slice_note()
            return Progress(self.status, reason, done, steps, seconds, speed, left, *ahead, self._stage, sharing)

    def _slice_note(self) -> str:
        """That it stops after the step in progress, or how long that has taken; else ""."""
        if self.status in ENDED or not self._is_training:
            return ""
        if self._stop_reason is not None:
            return "Stopping after the step in progress."
        seconds = time.monotonic() - self._slice_began
        return f"The step in progress has taken {seconds:.0f} s so far." if seconds > LONG_STEP_SECONDS else ""

    @checked
    def batch_at(self, step: int, *, again: int = 0, rows: slice = slice(None)) -> BatchView:
        """The batch of a step, counted from 1, also of a step to come. rows: the pairs to show.

        again: 1, 2, ... hide other words of the same pairs. Raises RunError without such a step or without batches.
        """
        batches, last = self._batches, self.recipe.training.total_steps
        if batches is None:
            raise RunError("The batches of this run are not here: it is not prepared yet, or it was freed.")
        if not 0 <= again <= MAX_SEED:
            raise RunError(f"again is {again}; it must be a number from 0 to {MAX_SEED}.")
        if not 1 <= step <= last:
            raise RunError(f"There is no step {step}; this run has the steps 1 to {last}.")
        return view_batch(batches.copy(again)[step - 1], self.snapshots[0].tokenizer, step, rows)

    @property
    def seed(self) -> int:
        """The seed of the recipe."""
        return self.recipe.seed

    @property
    def encoded(self) -> EncodedCorpus | None:
        """The training text as token ids; None until it is prepared and after it was freed."""
        return self._batches.encoded if self._batches else None

    @property
    def pace(self) -> float | None:
        """Steps a second, None for full speed."""
        return self._pace.steps_per_second

    @property
    def can_continue(self) -> bool:
        """Whether the state that the next step needs is kept."""
        return self.worker is not None

    @checked
    def save(self, folder: str | Path) -> None:
        """Write the model, that of a task's best epoch, as a Hugging Face folder with the state for
        `TrainingService.resume`, if that is still kept. Raises RunError if there is no model, CheckpointError if the
        folder cannot be written."""
        checkpoint, also = self._to_save()
        save_checkpoint(checkpoint, folder, also=also)

    @checked
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
            shown, state = self.worker.to_save(self._history)
            self.best = self.worker.best
        return shown.checkpoint(), state.write

    # --- Commands -----------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Train no more until `resume`; the step in progress is finished. Raises RunError if the run has ended."""
        self._command(paused=True)

    def resume(self) -> None:
        """Continue after a pause. Raises RunError if the run has ended."""
        self._command(paused=False)

    def step(self) -> None:
        """Train one step and stay paused. Raises RunError if the run has ended."""
        self._command(paused=True, single_steps=1)

    @checked
    def stop(self, reason: str = "", *, wait: bool = True) -> None:
        """End the run after the step in progress; its model and the state for `continue_for` are kept. No effect on a
        run that has ended. wait: until it has ended."""
        with self._changed:
            self._stop_reason = reason
            self._settle_stop()
            self._changed.notify_all()
            while wait and self.status not in ENDED:
                self._changed.wait()

    def _settle_stop(self) -> None:
        """End a run that was asked to stop, if no step is in progress."""
        if self._stop_reason is not None and not self._is_training and self.status not in ENDED:
            self._keep_newest()
            self._end("stopped", self._stop_reason or f"Stopped by you at step {len(self._history)}.")

    def touch(self) -> None:
        """Renew the lease; a run that was paused at the end of its lease continues."""
        with self._changed:
            self._lease.renew()
            if self._paused_by_lease and self.status not in ENDED:
                self._command(paused=False)

    @checked
    def set_pace(self, steps_per_second: float | None) -> None:
        """Train at this many steps a second, or at full speed (None). Raises ConfigError outside 0.05 to 1000."""
        with self._changed:
            self._pace.set(steps_per_second)
            self._changed.notify_all()

    @checked
    def set_learning_rate(self, value: float) -> None:
        """Use this learning rate, which decays as before, from the next step on: a new part of the recipe's training.

        Raises RunError unless the run is paused, ConfigError for a value out of range.
        """
        with self._at_rest():
            self._refuse_if_ended()
            if self.status != "paused" or self.worker is None:
                raise RunError("The learning rate can be changed while the run is paused; pause it first.")
            left = self.recipe.training.total_steps - self.worker.trainer.step
            self.recipe = self.worker.add_part(left, value)

    @checked
    def continue_for(self, steps: int, learning_rate: float | None = None) -> None:
        """Train a finished or stopped run for more steps, bit for bit as if its recipe had contained both parts.

        learning_rate: peak of the new part; None for the present peak. Raises RunError where the run has not ended, has
        failed or was freed, ConfigError for a number out of range.
        """
        with self._changed:
            if self.status not in ("finished", "stopped"):
                raise RunError(f"Only a finished or stopped run can be continued; this one is {self.status}.")
            if self.worker is None:
                raise RunError("The state that this run needs to continue is no longer kept; start it again.")
            check_steps(len(self._history) + steps, self._scheduler.limits)
            self.recipe = self.worker.add_part(steps, learning_rate)
            self._scheduler.enlist(self)
            self.status, self.reason, self._stop_reason = "running", "", None
            self._paused = self._paused_by_lease = False
            self._single_steps, self._slice_ended = 0, time.monotonic()
            self._changed.notify_all()

    def _command(self, *, paused: bool, single_steps: int = 0) -> None:
        with self._changed:
            self._refuse_if_ended()
            self._lease.renew()
            self._set_paused(paused, single_steps)

    def _set_paused(self, paused: bool, single_steps: int = 0, reason: str = "") -> None:
        self._paused, self._paused_by_lease, self.reason = paused, False, reason
        self._single_steps = self._single_steps + single_steps if paused else 0
        if self.worker is not None and not paused:
            self.status = "running"
        self._settle_pause()
        self._changed.notify_all()

    def _refuse_if_ended(self) -> None:
        if self.status in ENDED:
            raise RunError(f"This run has ended ({self.status}); start a new one.")

    @contextlib.contextmanager
    def _at_rest(self) -> Iterator[None]:
        """Hold the lock while no slice is in progress, and let no new one begin. One thread at a time may wait, so that
        many requests do not take all threads of a server; RunError for any other."""
        with self._changed:
            if self._is_held:
                raise RunError("Another request waits for this run's step in progress; try again when it has ended.")
            self._is_held = True
            try:
                while self._is_training:
                    self._changed.wait()
                yield
            finally:
                self._is_held = False
                self._changed.notify_all()

    def _end(self, status: Status, reason: str) -> None:
        with self._changed:
            if self.status not in ENDED:
                self.reason, self._stage, self.status = reason, "", status
                if status == "failed":
                    self.give_up()
                self.budget.make_room()
                self._changed.notify_all()

    # --- For the scheduler alone --------------------------------------------------------------------------------------

    def prepare(self, text: Text, device: str) -> None:
        """Read and encode the text and build the model; an error ends the run."""
        with self._fail_on_error():
            if callable(text):
                self._show_stage("reading the text")
            source: Any = text() if callable(text) else text
            if source is not None:
                self._text_bytes = source.nbytes
                self._wait_for_memory(PREPARING * source.nbytes)

            def admit(text: Prepared) -> None:
                check_limits(text, self._scheduler.limits, device)
                self._training_bytes = text.training_bytes
                self._wait_for_memory(0)

            start = self._start if self.recipe.start or isinstance(self.recipe, FinetuningRecipe) else None
            progress = self._show_stage
            prepared = prepare(self.recipe, source, device=device, start=start, progress=progress, admit=admit)
            worker = Worker(prepared, device, self._saved)
            with self._changed:
                if self.status in ENDED:
                    return
                if isinstance(prepared.source, TaskParts):
                    self.parts, self.given = prepared.parts, prepared.source
                    self._text_bytes += sum(part.nbytes for part in (prepared.batches, prepared.validation))
                else:
                    self.corpus, self._batches = prepared.source, prepared.batches
                    self.training_text, self.held_out, _ = prepared.parts
                self.recipe, self._start = worker.recipe, None
                self._history = list(self._saved[1].history) if self._saved else []
                self.worker, self._evaluations, self._saved = worker, worker.evaluations, None
                self.best = worker.best
                self._publish(worker.newest)
                self._stage = ""
                self.status = "paused" if self._paused else "running"
                self._slice_ended = time.monotonic()
                self._changed.notify_all()

    def _wait_for_memory(self, nbytes: int) -> None:
        """Wait in line until this run and these bytes have room; RunError when they cannot have it."""
        memory, needed = self._scheduler.memory, nbytes + self._training_bytes
        if needed > memory.limit:
            raise RunError(
                f"This run needs about {megabytes(needed)} of memory; the limit here is {megabytes(memory.limit)}. "
                "Choose a smaller model or a shorter text."
            )
        with self._changed:
            deadline = time.monotonic() + MEMORY_SECONDS
            while not memory.has_room(nbytes):
                if time.monotonic() > deadline:
                    raise RunError(f"The machine's memory was full for {MEMORY_SECONDS / 60:.0f} min; try again later.")
                self._show_stage("waiting until others have freed enough memory")
                self._changed.wait(1.0)

    def _show_stage(self, stage: str) -> None:
        with self._changed:
            if self.status in ENDED:
                raise RunError(self.reason)  # it was stopped meanwhile
            self._stage = stage

    @property
    def wants_steps(self) -> bool:
        """Whether it would train if it was given the training thread."""
        if self.worker is None or self.status in ENDED or self._is_held or self._stop_reason is not None:
            return False
        return not self._paused or self._single_steps > 0 or self.worker.is_trained

    @property
    def due(self) -> float:
        """When its pace allows the next step, by the scheduler's clock."""
        return self._pace.due

    def begin_slice(self) -> None:
        """Mark the run as training, under the lock; `train_slice` comes next."""
        self._is_training, self._slice_began = True, time.monotonic()

    def train_slice(self) -> None:
        """Train for a slice of time, publish what it gave and evaluate; an error ends the run."""
        with self._fail_on_error():
            assert self.worker is not None
            self._train(self.worker)
        with self._changed, self._fail_on_error():
            self.budget.seconds += time.monotonic() - self._slice_began
            self._is_training = False
            if self.worker is not None and self.worker.is_finished:
                self._end("finished", "")
            self._settle_stop()
            self._settle_pause()
            self._changed.notify_all()

    def interrupt(self, reason: str) -> None:
        """End the run as failed after an error that `train_slice` did not catch."""
        self._is_training = False
        self._end("failed", reason)

    def _train(self, worker: Worker) -> None:
        began = time.thread_time()  # which does not count the time in which other threads held this one up
        rows, divergence = worker.train(self._may_step)
        seconds, limit = (time.thread_time() - began) / max(1, len(rows)), 2 * self._scheduler.limits.step_seconds
        if rows and seconds > limit:
            raise RunError(f"A step took {seconds:.1f} s; the limit here is {limit:g} s. {SMALLER_STEP}")
        now = time.monotonic()
        with self._changed:
            if rows:
                self._step_seconds.add((now - self._slice_ended) / len(rows))
            self._slice_ended = now
            if rows and not divergence and (worker.is_snapshot_due or self._is_at_kept_step or not self.wants_steps):
                self._publish(worker.take_snapshot())
            # Rows come after the snapshot: a reader who sees a step's row finds its weights.
            self._history.extend(rows)
            if divergence:
                self._end("failed", divergence)
        if not divergence:
            worker.evaluate()
            if worker.best is not self.best:
                with self._changed:
                    self.best = worker.best
                    self._publish(worker.newest)

    def _may_step(self) -> bool:
        """Whether a step may begin now; if so, it is counted."""
        with self._changed:
            if self._is_at_kept_step and self.snapshots[-1].step != self._keep_step:
                return False  # the slice ends here, for a snapshot
            may_step = self.wants_steps and self._pace.take_step(self._scheduler.now())
            if may_step:
                self._single_steps = max(0, self._single_steps - 1)
            return may_step

    @property
    def _is_at_kept_step(self) -> bool:
        return self.worker is not None and self.worker.trainer.step == self._keep_step

    def _settle_pause(self) -> None:
        is_due = self._paused and not self._single_steps and (self.worker is None or not self.worker.is_trained)
        if is_due and not self._is_training and self.status == "running":
            self._keep_newest()  # first, for readers who do not take the lock
            self.status = "paused"

    def _keep_newest(self) -> None:
        if self.worker is not None and self.worker.newest.step < self.worker.trainer.step:
            self._publish(self.worker.take_snapshot())

    def _publish(self, snapshot: Snapshot) -> None:
        kept = [other for other in self.snapshots if other.step != snapshot.step]
        if snapshot.step == self._keep_step:
            snapshot = dataclasses.replace(snapshot, stays=True)
        chosen = {each.step: each for each in (*thinned([*kept, snapshot]), *([self.best] if self.best else []))}
        self.snapshots = tuple(chosen[step] for step in sorted(chosen))
        self.budget.make_room()

    @contextlib.contextmanager
    def _fail_on_error(self) -> Iterator[None]:
        """End this run alone after an error, of any kind: a panic of the tokenizers' library is no Exception."""
        try:
            yield
        except BertCoreError as error:
            self._end("failed", str(error))
        except BaseException as error:
            if is_out_of_memory(error):
                reason = "The machine ran out of memory; choose a smaller model, smaller batches or a shorter text."
            else:
                _log.error("run %s: %s", self.id[:6], one_line(error))
                reason = f"Training stopped on an internal error ({type(error).__name__}); the log has more."
            self._end("failed", reason)

    @property
    def is_left(self) -> bool:
        """Whether nobody has visited it for longer than its lease."""
        return self._lease.status(self._scheduler.now()) != "valid"

    @property
    def working_bytes(self) -> int:
        """Estimated bytes of training it, until it has ended."""
        return 0 if self.status in ENDED else self._training_bytes

    @property
    def spare_bytes(self) -> int:
        """Bytes that an ended run keeps only to be continued."""
        return self.worker.trainer.nbytes if self.worker is not None and self.status in ENDED else 0

    @property
    def fixed_bytes(self) -> int:
        """Estimated bytes of the history and the encoded text."""
        encoded = self.encoded
        arrays = (encoded.ids, encoded.offsets, encoded.texts) if encoded else ()
        # A memory-mapped array does not own its data and takes no memory.
        text = sum(array.nbytes for array in arrays if array.flags.owndata)
        best = self.best.nbytes if self.best and all(each is not self.best for each in self.snapshots) else 0
        return ROW_BYTES * len(self._history) + text + self._text_bytes + best

    def give_up(self) -> None:
        """Free what only `continue_for` needs; history and snapshots stay."""
        self.worker = None

    def check_lease(self, now: float) -> None:
        """Pause a run whose lease has lapsed; free one whose lease has expired."""
        with self._changed:
            status = self._lease.status(now)
            if status == "expired":
                self.free("Stopped and freed, because nobody had visited it for long.")
            elif status == "lapsed" and not self._paused and self.status in TRAINING:
                reason = f"Paused at step {len(self._history)}, because nobody was watching; it continues when you do."
                self._set_paused(True, reason=reason)
                self._paused_by_lease = True

    def free(self, reason: str) -> None:
        """Stop and free all but the history; a run with a step in progress only stops, and is freed by a later call."""
        self.stop(reason, wait=False)
        if self.status in ENDED:
            self.give_up()
            self.snapshots, self._batches, self._evaluations = (), None, ()
            self.corpus = self.training_text = self.held_out = self.parts = self.given = self.best = None
            self._text_bytes, self._lease.seconds = 0, None
