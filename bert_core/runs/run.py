"""One training run: facts to read, and a queue of commands that are carried out between its slices of time.

The facts do not change: an append-only history, held-out evaluations and snapshots of the weights. Readers never touch
the model that is being trained.
"""

import logging
import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from bert_core.config import Limits
from bert_core.data.corpus import Corpus
from bert_core.errors import OUT_OF_MEMORY, BertCoreError, ConfigError, RunError, one_line, reason_of
from bert_core.runs.job import SMALLER_STEP, Job, check_limits, check_steps
from bert_core.runs.saved_state import TrainingState
from bert_core.runs.snapshots import Snapshot, thinned
from bert_core.runs.train import Evaluation, Event, Training, prepare
from bert_core.storage.checkpoint import Checkpoint, save_checkpoint
from bert_core.tasks.examples import TaskParts
from bert_core.training.objective import StepRow

# What a run learns from: None for the recipe's own, a function for a text that takes long to read.
Source = Corpus | TaskParts | Callable[[], Corpus | TaskParts] | None
Status = Literal["queued", "running", "paused", "finished", "stopped", "failed"]
TRAINING = ("queued", "running")  # steps come without being asked for
ACTIVE = (*TRAINING, "paused")
ENDED = ("finished", "stopped", "failed")

PREPARING = 20  # bytes of memory for each byte of a text while it is prepared
LONG_STEP_SECONDS = 5.0  # a step in progress that takes longer is mentioned
PACES = (0.05, 1000.0)  # steps a second

_log = logging.getLogger(__name__)


class NoRoom(Exception):
    """There is no memory for a run now; it waits in the queue."""


@dataclass(frozen=True)
class Progress:
    status: Status
    reason: str
    step: int
    steps: int  # of all parts of the training
    tokens_per_second: float
    seconds_left: float | None  # an estimate, None while unknown
    runs_ahead: int  # how many are prepared before this one
    wait_seconds: float | None  # for these or, if there are none, for memory: an estimate
    preparing: str  # the present stage of the preparation, else ""
    sharing: int  # how many runs share the training thread, this one among them
    lacking: int = 0  # bytes of memory that a queued run waits for


@dataclass(frozen=True, eq=False)
class _Command:
    """done: who waits for its result, if anybody; else an error ends the run."""

    do: Callable[[], Any]
    done: Future | None = None
    note: str = ""  # for readers, until it is carried out


class Run:
    """One training run. Its methods may be called from any thread.

    `set_learning_rate`, `save`, `pack` and, unless asked not to, `stop` wait for the step in progress and the held-out
    batch after it; `save` and `pack` also end an evaluation.

    id: 128 random bits in hexadecimal. owner: whose run it is, for whom it shares the training thread. recipe: once
    prepared, with its number of steps and every change of the schedule. asked: the recipe as it was given. status:
    "paused" means that only `step` trains, and that the newest snapshot is of the last step. reason: why it failed, was
    stopped or paused. verdict: what is to be known of a finished one's numbers. job: its text or task with parts and
    batches; None until it is prepared and after it was freed. snapshots: oldest first. best: of a task, the one that
    did best on the validation part; None before the first result, and if its recipe keeps the last weights. training:
    None until it is prepared and after the state for the next step was freed. pace: steps a second, None for full
    speed. due: when the pace allows the next step, by the service's clock. training_bytes: estimated, of what it has
    got for training. lacking: bytes of memory that it waits for.
    """

    def __init__(
        self,
        recipe: Any,  # a Recipe or, for a task, a FinetuningRecipe
        service: Any,  # the TrainingService
        *,
        owner: Hashable = None,
        paused: bool = False,
        keep_step: int | None = None,
        limits: Limits | None = None,
        start: Checkpoint | None = None,
        saved: TrainingState | None = None,
    ) -> None:
        """Arguments as for `TrainingService.start`; start, saved: the model and the state to begin with, if any."""
        self.id = secrets.token_hex(16)
        self.owner: Hashable = self.id if owner is None else owner
        self.recipe, self.asked = recipe, recipe
        self.status: Status = "queued"
        self.reason = ""
        self.verdict: Sequence[str] = ()
        self.job: Job | None = None
        self.snapshots: tuple[Snapshot, ...] = ()
        self.best: Snapshot | None = None
        self.training: Training | None = None
        self._events: Iterator[Event] = iter(())  # of the training
        self.pace: float | None = None
        self.due = -math.inf
        self.training_bytes = self.asked_bytes = self.text_bytes = self.lacking = 0
        self._history: list[StepRow] = []
        self._evaluations: list[StepRow] = []
        self._service, self._changed = service, service.changed
        self._saved, self._start = saved, start
        self._kept_steps = {keep_step}
        self._limits = limits or service.limits
        self._commands: deque[_Command] = deque()
        self._single_steps = 0  # to do in a pause
        self._stage = ""  # of the preparation
        self._slice_began: float | None = None  # None while no slice is in progress
        self._slice_ended = 0.0
        self._step_seconds: float | None = None  # running mean, wall clock
        self._estimated_step = 0.0  # seconds
        if paused:
            self.pause()

    # --- Facts --------------------------------------------------------------------------------------------------------

    @property
    def steps_done(self) -> int:
        """The number of rows of the history."""
        return len(self._history)

    def history(self, since: int = 0) -> list[StepRow]:
        """The rows after the first `since` ones; the next cursor is since + len(rows)."""
        return self._history[since:]

    def evaluations(self, since: int = 0) -> list[StepRow]:
        """The held-out curve after its first `since` points; empty where nothing is held out."""
        return self._evaluations[since:]

    def __repr__(self) -> str:
        done = f"step {len(self._history):,} of {self.recipe.training.total_steps:,}"
        return f"<Run {self.id[:6]}, {self.recipe.title}: {self.status}, {done}>"

    def progress(self) -> Progress:
        """How far the run is now."""
        with self._changed:
            recent = self._history[-50:]
            spent = recent[-1].seconds - recent[0].seconds if recent else 0.0
            ahead, wait, sharing = self._service.place_of(self)
            return Progress(
                status=self.status,
                reason=self.reason or self._slice_note(),
                step=len(self._history),
                steps=self.recipe.training.total_steps,
                tokens_per_second=sum(row.tokens for row in recent[1:]) / spent if spent else 0.0,
                seconds_left=self.seconds_left,
                runs_ahead=ahead,
                wait_seconds=wait,
                preparing=self._stage,
                sharing=sharing,
                lacking=self.lacking,
            )

    @property
    def seconds_left(self) -> float | None:
        """An estimate of the time until it has trained; None while it is unknown or does not train."""
        if self.status != "running" or self._step_seconds is None:
            return None
        left = self.recipe.training.total_steps - len(self._history)
        return left * max(self._step_seconds, 1 / (self.pace or math.inf))

    def _slice_note(self) -> str:
        """That it stops after the step in progress, or how long that has taken; else ""."""
        if note := next((command.note for command in self._commands if command.note), ""):
            return note
        seconds = time.monotonic() - self._slice_began if self._slice_began is not None else 0.0
        return f"The step in progress has taken {seconds:.0f} s so far." if seconds > LONG_STEP_SECONDS else ""

    def save(self, folder: str | Path) -> None:
        """Write the model, that of a task's best epoch, as a Hugging Face folder, with the state for `resume`, if it
        is kept. Raises RunError without a model, CheckpointError if the folder cannot be written."""
        checkpoint, also = self._ask(self._to_save)
        save_checkpoint(checkpoint, folder, also=also)

    def _to_save(self) -> tuple[Checkpoint, Callable[[Path], None]]:
        if not self.snapshots:
            raise RunError("This run has no model to save: it is not prepared yet, or it was freed.")
        if self.training is None:
            return (self.best or self.snapshots[-1]).checkpoint(), lambda folder: None
        shown, state = self.training.to_save(self._history)
        return shown.checkpoint(), state.write

    # --- Commands -----------------------------------------------------------------------------------------------------

    def pause(self, reason: str = "") -> None:
        """Train no more until `resume`; the step in progress is finished. Raises RunError if the run has ended."""
        self._send(lambda: self._pause(reason))

    def resume(self) -> None:
        """Continue after a pause. Raises RunError if the run has ended."""
        self._send(self._resume)

    def step(self) -> None:
        """Train one step and stay paused. Raises RunError if the run has ended."""
        self._send(lambda: self._pause(steps=1))

    def stop(self, reason: str = "", *, wait: bool = True) -> None:
        """End the run after the step in progress; its model and the state for `continue_for` are kept. No effect on a
        run that has ended. wait: until it has ended."""
        with self._changed:
            if self.status == "queued":
                self._stop(reason)
            elif self.status in ACTIVE:
                self._add(_Command(lambda: self._stop(reason), note="Stopping after the step in progress."))
            while wait and self.status not in ENDED:
                self._changed.wait()

    def wait(self, seconds: float = math.inf) -> Self:
        """Wait until the run has ended, also while it is paused, and return it. Raises RunError with the reason where
        it has failed, and after `seconds` where it has not ended."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self.status not in ENDED and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(min(left, 0.5))  # Windows hears Ctrl-C only in between
            if self.status == "failed":
                raise RunError(self.reason)
            if self.status not in ENDED:
                raise RunError(f"The run has not ended within {seconds:g} s; it is {self.status}. Wait longer.")
        return self

    def keep_step(self, step: int) -> bool:
        """Keep the snapshot of a step, which may be still to come. Returns whether the run has it or will have it."""
        with self._changed:
            done = self.training.trainer.step if self.training else -1
            is_to_come = self.status in ACTIVE and done < step <= self.recipe.training.total_steps
            has_it = is_to_come or any(each.step == step for each in self.snapshots)
            if has_it:
                self._kept_steps.add(step)
            return has_it

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

        def change() -> None:
            self._refuse_if_ended()
            if self.status != "paused" or self.training is None:
                raise RunError("The learning rate can be changed while the run is paused; pause it first.")
            self.recipe = self.training.add_part(self.recipe.training.total_steps - len(self._history), value)

        self._ask(change)

    def continue_for(self, steps: int, learning_rate: float | None = None) -> None:
        """Train a finished or stopped run for more steps, bit for bit as if its recipe had contained both parts, or as
        if it had not been stopped where these are the steps that it had left.

        learning_rate: peak of the new part; None for the present peak. Raises RunError where the run has not ended, has
        failed or was freed, ConfigError for a number out of range.
        """
        with self._changed:
            if self.status not in ("finished", "stopped"):
                raise RunError(f"Only a finished or stopped run can train more steps; this one is {self.status}.")
            if self.training is None:
                raise RunError("The state that this run needs to continue is no longer kept; start it again.")
            check_steps(len(self._history) + steps, self._service.limits)
            if learning_rate is not None or steps != self.recipe.training.total_steps - len(self._history):
                self.recipe = self.training.add_part(steps, learning_rate)
            if self.status == "finished":
                self._events = iter(self.training)
            self._service.enlist(self)
            self._resume()
            self._changed.notify_all()

    def _send(self, do: Callable[[], None]) -> None:
        with self._changed:
            self._refuse_if_ended()
            self._add(_Command(do))

    def _ask(self, do: Callable[[], Any]) -> Any:
        """What a function returns that is called between two slices. One thread at a time may wait, so that many
        requests do not take all threads of a server; RunError for any other."""
        with self._changed:
            if self.status == "queued" or self.status in ENDED:
                return do()
            if any(command.done for command in self._commands):
                raise RunError("Another request waits for this run's step in progress; try again when it has ended.")
            done: Future = Future()
            self._add(_Command(do, done))
        return done.result()

    def _add(self, command: _Command) -> None:
        self._commands.append(command)
        if self._slice_began is None:
            self.obey()
        self._changed.notify_all()

    def _refuse_if_ended(self) -> None:
        if self.status in ENDED:
            raise RunError(f"This run has ended ({self.status}); start a new one.")

    def _pause(self, reason: str = "", steps: int = 0) -> None:
        if self.training is None or self.training.is_trained:
            return
        self._keep_newest()  # first, for readers who do not take the lock
        self._single_steps += steps
        self.reason, self.status = reason, "paused"

    def _resume(self) -> None:
        self.reason, self._single_steps = "", 0
        if self.status != "running":
            self.status, self._slice_ended = "running", time.monotonic()  # the pause is no part of a step

    def _stop(self, reason: str) -> None:
        self._keep_newest()
        self._end("stopped", reason or f"Stopped by you at step {len(self._history)}.")

    def _end(self, status: Status, reason: str) -> None:
        with self._changed:
            if self.status in ENDED:
                return
            self.reason, self._stage, self.lacking, self.training_bytes = reason, "", 0, 0
            self._start = self._saved = None
            if status == "failed":
                self.training, self._events = None, iter(())
            self.status = status
            self._changed.notify_all()

    # --- For the service alone ----------------------------------------------------------------------------------------

    def prepare(self, source: Source, device: str) -> None:
        """Read and encode what it learns from and build the model; an error ends the run. Raises NoRoom where there is
        no memory for it now."""
        try:
            if callable(source):
                self._show_stage("reading the text")
                source = source()
            if source is not None:
                self.text_bytes = source.nbytes
                self._take(PREPARING * source.nbytes)
            is_needed = self.recipe.start is not None
            start = self._start if is_needed else None
            job = prepare(self.recipe, source, device=device, start=start, progress=self._show_stage)
            check_limits(job, self._limits)
            self._take(job.training_bytes)
            self._show_stage("drawing the initial weights")
            self._begin(Training(job, self._saved, self._may_step))
        except NoRoom:
            raise
        except BaseException as error:
            self._fail(error)

    def _take(self, nbytes: int) -> None:
        """Take memory for what comes next; NoRoom where too little is free now, RunError where it can never be."""
        with self._changed:
            self.training_bytes, self.asked_bytes = 0, nbytes
            self.lacking = self._service.admit(self, nbytes)
            if self.lacking:
                self._stage = ""
                self.text_bytes = 0
                raise NoRoom
            self.training_bytes = nbytes

    def look_for_room(self) -> None:
        """Ask again for the memory that it waits for."""
        try:
            self.lacking = self.lacking and self._service.admit(self, self.asked_bytes)
        except BaseException as error:
            self._fail(error)

    def _begin(self, training: Training) -> None:
        with self._changed:
            if self.status in ENDED:
                return
            self.job = training.job
            self._estimated_step = training.job.seconds(1)
            self.recipe = training.recipe
            self._history = list(self._saved.history) if self._saved else []
            self._evaluations = list(training.points)
            self._start = self._saved = None
            self.training, self._events = training, iter(training)
            self._publish(training.newest)
            self._stage = ""
            self._resume()
            self.obey()  # what came while it was in the queue
            self._changed.notify_all()

    def _show_stage(self, stage: str) -> None:
        with self._changed:
            if self.status in ENDED:
                raise RunError(self.reason)  # it was stopped meanwhile
            self._stage = stage

    def obey(self) -> None:
        """Carry out the commands that have come, under the lock and between two slices; those to a queued run wait."""
        while self._commands and self.status != "queued":
            command = self._commands.popleft()
            try:
                if command.done:
                    command.done.set_result(command.do())
                elif self.status not in ENDED:
                    command.do()
            except BaseException as error:
                if command.done:
                    command.done.set_exception(error)
                else:
                    self._fail(error)

    @property
    def wants_steps(self) -> bool:
        """Whether it would train if it was given the training thread."""
        return self.status == "running" or (self.status == "paused" and self._single_steps > 0)

    def begin_slice(self) -> None:
        """Mark the run as training, under the lock; `train` and `end_slice` come next."""
        self._slice_began = time.monotonic()

    def train(self) -> None:
        """Train for a slice of time, or evaluate a batch, and publish what it gave; an error ends the run."""
        try:
            self._train()
        except BaseException as error:
            self._fail(error)

    def end_slice(self, problem: str = "") -> None:
        """Carry out the commands that came meanwhile. problem: why the run fails, after an error that `train` did not
        catch."""
        with self._changed:
            self._slice_began = None
            if problem:
                self._end("failed", problem)
            self.obey()

    def _train(self) -> None:
        started, began = time.monotonic(), time.thread_time()  # the latter does not count the work of other threads
        for event in self._events:
            with self._changed:
                match event:
                    case Snapshot():
                        self._publish(event)
                        continue
                    case Evaluation():
                        self._evaluations.append(event.row)
                        self._publish(event.snapshot)
                    case [*_, StepRow()]:
                        self._measure(len(event), time.monotonic() - started, time.thread_time() - began)
                        self._extend(event)
            return
        assert self.training is not None
        self.verdict = self.training.verdict(self._history)
        self._end("finished", "")

    def _measure(self, steps: int, seconds: float, own_seconds: float) -> None:
        """Count the time of some steps. own_seconds: of this thread's work; RunError where a step takes too much."""
        limit = 2 * self._limits.step_seconds
        if own_seconds / steps > limit:
            raise RunError(f"A step took {own_seconds / steps:.1f} s; the limit here is {limit:g} s. {SMALLER_STEP}")
        now = time.monotonic()
        if self.status == "running":
            self._step_seconds = running_mean(self._step_seconds, (now - self._slice_ended) / steps, 0.2)
            slowness = seconds / steps / self._estimated_step
            self._service.slowness = running_mean(self._service.slowness, slowness, 0.2)
        self._slice_ended = now

    def _extend(self, rows: Sequence[StepRow]) -> None:
        """Publish the rows of a slice, after a snapshot that has to be there: who sees a row finds its weights."""
        if self._lacks_kept_step or (self.status == "paused" and not self._single_steps):
            self._keep_newest()
        self._history.extend(rows)
        if self.status == "paused" and self.training is not None and self.training.is_trained:
            self._resume()  # what is left is to evaluate

    def _may_step(self) -> bool:
        """Whether a step may begin now; if so, it is counted, and by its pace the next one is due a period later."""
        with self._changed:
            now = self._service.now()
            if self._commands or self._lacks_kept_step or not self.wants_steps or now < self.due:
                return False
            if self.pace is not None:
                # A step that begins a little late does not shift the later ones; a longer delay is not caught up.
                self.due = (self.due if now - self.due < 1 / self.pace else now) + 1 / self.pace
            self._single_steps = max(0, self._single_steps - 1)
            return True

    @property
    def _lacks_kept_step(self) -> bool:
        """Whether the training is at the step to keep and its snapshot is still to be taken."""
        return self.training is not None and self.training.trainer.step in self._kept_steps - {self.snapshots[-1].step}

    def _keep_newest(self) -> None:
        """Have a snapshot of the last step."""
        if self.training is not None and self.training.newest.step < self.training.trainer.step:
            self._publish(self.training.take_snapshot())

    def _publish(self, snapshot: Snapshot) -> None:
        assert self.training is not None
        self.best = self.training.best
        by_step = {each.step: each for each in (*self.snapshots, self.best, snapshot) if each}
        self.snapshots = thinned([by_step[step] for step in sorted(by_step)], self.staying)

    def _fail(self, error: BaseException) -> None:
        """End this run alone after an error, of any kind: a panic of the tokenizers' library is no Exception.

        It is no context manager: from Python 3.12 on, a generator that swallows an error keeps its frames, and so the
        run's model, until the garbage collector comes. The other runs need that memory at once.
        """
        if isinstance(error, BertCoreError):
            self._end("failed", " ".join([*error.notes, str(error)]))
            return
        reason = reason_of(error)
        if reason != OUT_OF_MEMORY:
            _log.error("run %s: %s", self.id[:6], one_line(error))
        internal = f"Training stopped on an internal error ({type(error).__name__}); the log has more."
        self._end("failed", reason or internal)

    # --- Memory -------------------------------------------------------------------------------------------------------

    @property
    def staying(self) -> set[int | None]:
        """The steps whose snapshots are not dropped, beside the first and the newest one."""
        added = (part.start for part in self.recipe.training.parts[-1:])  # the model before the last steps were added
        return {*self._kept_steps, *added, self.best.step if self.best else None}

    def drop(self, snapshot: Snapshot) -> None:
        """Drop a snapshot."""
        with self._changed:
            self.snapshots = tuple(each for each in self.snapshots if each is not snapshot)

    def give_up(self) -> None:
        """Free what an ended run keeps only for `continue_for`. History and snapshots stay."""
        with self._changed:
            if self.status in ENDED:
                self.training, self._events = None, iter(())

    def free(self, reason: str) -> None:
        """Stop and free all but the history; a run with a step in progress only stops, and is freed by a later call."""
        self.stop(reason, wait=False)
        with self._changed:
            if self.status in ENDED:
                self.training = self.job = self.best = None
                self._events = iter(())
                self.snapshots, self._evaluations, self.text_bytes = (), [], 0


def running_mean(mean: float | None, value: float, weight: float) -> float:
    """An exponentially weighted mean with a new value; None before the first. weight: of the new value."""
    return value if mean is None else (1 - weight) * mean + weight * value
