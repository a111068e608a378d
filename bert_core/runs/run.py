"""One training run: a status, facts to read, and a queue of commands that are carried out between its slices of time.

The facts do not change: an append-only history, held-out numbers and snapshots of the weights. Readers never touch the
model that is being trained."""

import logging
import math
import secrets
from collections import deque
from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from bert_core.config import Limits
from bert_core.errors import BertCoreError, ConfigError, RunError, one_line, reason_of
from bert_core.runs.jobs import Job, check_steps
from bert_core.runs.train import Event, Snapshot, Training
from bert_core.storage.checkpoint import save_checkpoint
from bert_core.training import StepRow

Status = Literal["queued", "running", "paused", "finished", "stopped", "failed"]
TRAINING = ("queued", "running")  # steps come without being asked for
ACTIVE = (*TRAINING, "paused")
ENDED = ("finished", "stopped", "failed")

NOT_KEPT = "The state that this run needs to continue is no longer kept; start it again."
MAX_SNAPSHOTS = 40  # of one run
_LATEST = 50  # steps, whose time and tokens are measured
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    status: Status
    reason: str
    step: int
    steps: int  # of all parts of the training
    tokens_per_second: float
    seconds_left: float | None  # an estimate, None while unknown
    sharing: int  # how many runs share the training thread, this one among them
    preparing: str  # the present stage of the preparation, else ""
    runs_ahead: int  # how many are prepared before this one
    lacking: int  # bytes of memory that a queued run waits for
    wait_seconds: float | None  # until another run ends: an estimate, None while unknown


class Run:
    """One training run. Its methods may be called from any thread; `save`, `set_learning_rate`, `keep_step` and, unless
    asked not to, `stop` wait for the slice in progress."""

    def __init__(
        self,
        recipe: Any,  # a Recipe or a FinetuningRecipe
        service: Any,  # the TrainingService
        *,
        owner: Hashable = None,
        paused: bool = False,
        stopped: str = "",
        keep_step: int | None = None,
        limits: Limits | None = None,
    ) -> None:
        """owner: any hashable, whose runs are prepared and trained one after the other; None for one of its own.
        paused: before the first step. stopped: why it is stopped before its next step, if one is left. keep_step: of
        which a snapshot is taken and stays. limits: None for those of the service, which also hold for later
        `continue_for`."""
        self.id = secrets.token_hex(16)
        self.owner: Hashable = self.id if owner is None else owner  # for whom it shares the training thread
        self.asked = recipe  # as it was given
        self.recipe = recipe  # once prepared, with its number of steps and every change of the schedule
        self.limits = limits or service.limits
        self.status: Status = "queued"  # "paused": only `step` trains, and the newest snapshot is of the last step
        self.reason = ""  # why it failed, was stopped or paused
        self.verdict: Sequence[str] = ()  # what is to be known of a finished one's numbers
        self.job: Job | None = None  # None until it is prepared and after it was freed
        self.training: Training | None = None  # the same, and None after the state for the next step was freed
        self.snapshots: tuple[Snapshot, ...] = ()  # oldest first
        self.best: Snapshot | None = None  # of a task, on the validation part, if its recipe keeps it
        self.pace: float | None = None  # steps a second, None for full speed
        self.due = -math.inf  # when the pace allows the next step, by the service's clock
        self.text_bytes = self.training_bytes = 0  # estimated
        self.asked_bytes = self.lacking = 0  # of memory: what it has asked for last, and what it waits for
        self.stage = ""  # of its preparation
        self.in_slice = False
        self._service, self._changed = service, service.changed
        self._events: Iterator[Event] = iter(())  # of the training
        self._history: list[StepRow] = []
        self._evaluations: list[StepRow] = []
        self._commands: deque[tuple[Callable[[], object], Future[Any] | None]] = deque()
        self._single_steps = 0  # to do in a pause
        self._kept_steps = {keep_step}
        if paused:
            self.pause()
        if stopped:
            self._send(lambda: self._stop_unfinished(stopped))

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

    def progress(self) -> Progress:
        """How far the run is now."""
        with self._changed:
            sharing, ahead, wait = self._service.place_of(self)
            return Progress(
                status=self.status,
                reason=self.reason,
                step=self.steps_done,
                steps=self.recipe.training.total_steps,
                tokens_per_second=self._speed()[1],
                seconds_left=self.seconds_left(sharing),
                sharing=sharing,
                preparing=self.stage,
                runs_ahead=ahead,
                lacking=self.lacking,
                wait_seconds=wait,
            )

    def seconds_left(self, sharing: int) -> float | None:
        """An estimate of the time until it has trained beside so many runs; None while unknown."""
        seconds, _ = self._speed()
        if self.status != "running" or not seconds:
            return None
        return self._steps_left * max(sharing * seconds, 1 / (self.pace or math.inf))

    def _speed(self) -> tuple[float, float]:
        """Seconds of a step, and tokens a second, of the latest steps; zeros before there are two."""
        rows = self._history[-_LATEST:]
        if len(rows) < 2:
            return 0.0, 0.0
        seconds = rows[-1].seconds - rows[0].seconds
        return seconds / (len(rows) - 1), sum(row.tokens for row in rows[1:]) / seconds

    @property
    def _steps_left(self) -> int:
        return self.recipe.training.total_steps - self.steps_done

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
                self.reason = "Stopping after the step in progress."
                self._send(lambda: self._stop(reason))
            while wait and self.status in ACTIVE:
                self._changed.wait()

    def wait(self) -> Self:
        """Wait until the run has ended, also while it is paused, and return it. Raises RunError where it has failed."""
        with self._changed:
            while self.status not in ENDED:
                self._changed.wait(0.5)  # Windows hears Ctrl-C only in between
        if self.status == "failed":
            raise RunError(self.reason)
        return self

    def save(self, folder: str | Path) -> None:
        """Write the model, that of a task's best epoch, as a Hugging Face folder, with the state for `resume`, if it
        is kept. Raises RunError without a model, CheckpointError if the folder cannot be written."""
        if not self.snapshots:
            raise RunError("This run has no model to save: it is not prepared yet, or it was freed.")
        if (training := self.training) is None:
            save_checkpoint((self.best or self.snapshots[-1]).checkpoint(), folder)
        else:
            shown, state = self._ask(training.to_save)
            save_checkpoint(shown, folder, also=state.write)

    def keep_step(self, step: int) -> None:
        """Keep the snapshot of a step that is still to come, or that the run has."""
        self._ask(lambda: self._kept_steps.add(step))

    def set_pace(self, steps_per_second: float | None) -> None:
        """Train at this many steps a second, or at full speed (None). Raises ConfigError outside 0.05 to 1000."""
        if steps_per_second is not None and not 0.05 <= steps_per_second <= 1000:
            raise ConfigError(f"The pace is {steps_per_second!r}; it must be from 0.05 to 1000 steps a second.")
        with self._changed:
            self.pace, self.due = steps_per_second, self._service.now()
            self._changed.notify_all()

    def set_learning_rate(self, value: float) -> None:
        """Use this learning rate, which decays as before, from the next step on: a new part of the recipe's training.
        Raises RunError unless the run is paused or stopped, ConfigError for a value out of range."""
        if self.status not in ("paused", "stopped"):
            raise RunError("The learning rate can be changed while the run is paused or stopped; pause it first.")
        if self.training is None:
            raise RunError(NOT_KEPT)
        self._ask(lambda: self._add_part(self._steps_left, value))

    def continue_for(self, steps: int) -> None:
        """Train a finished or stopped run for more steps, bit for bit as if its recipe had contained both parts, or as
        if it had not been stopped where these are the steps that it had left. Raises RunError where the run has not
        ended, has failed or was freed, ConfigError for a number out of range."""
        with self._changed:
            if self.status not in ("finished", "stopped"):
                raise RunError(f"Only a finished or stopped run can train more steps; this one is {self.status}.")
            if self.training is None:
                raise RunError(NOT_KEPT)
            check_steps(self.steps_done + steps, self._service.limits)
            if steps != self._steps_left:
                self._add_part(steps)
            if self.status == "finished":
                self._events = iter(self.training)
            self._service.enlist(self)
            self._resume()

    def _add_part(self, steps: int, learning_rate: float | None = None) -> None:
        if self.training:
            self.recipe = self.training.add_part(steps, learning_rate)

    def _send(self, do: Callable[[], object], done: Future[Any] | None = None) -> None:
        """Carry out a command between two slices, one to a queued run once it is prepared. done: who waits for its
        result or error; if nobody does, an error ends the run."""
        with self._changed:
            if self.status in ENDED:
                raise RunError(f"This run has ended ({self.status}); start a new one.")
            self._commands.append((do, done))
            if not self.in_slice:
                self.obey()
            self._changed.notify_all()

    def _ask(self, do: Callable[[], Any]) -> Any:
        """What a function returns that is called between two slices."""
        with self._changed:
            if self.status not in ("running", "paused"):
                return do()
            done: Future[Any] = Future()
            self._send(do, done)
        return done.result()

    def obey(self) -> None:
        """Carry out the commands that have come, under the lock and between two slices."""
        while self._commands and self.status != "queued":
            do, done = self._commands.popleft()
            try:
                if done:
                    done.set_result(do())
                elif self.status not in ENDED:
                    do()
            except BaseException as error:
                done.set_exception(error) if done else self.fail(error)

    def _pause(self, reason: str = "", steps: int = 0) -> None:
        if self.training and not self.training.is_trained:
            self._keep_newest()  # first, for readers who do not take the lock
            self._single_steps += steps
            self.reason, self.status = reason, "paused"

    def _resume(self) -> None:
        self.reason, self._single_steps, self.status = "", 0, "running"
        self._changed.notify_all()

    def _stop(self, reason: str) -> None:
        self._keep_newest()
        self._end("stopped", reason or f"Stopped by you at step {self.steps_done}.")

    def _stop_unfinished(self, reason: str) -> None:
        if self.training and not self.training.is_trained:
            self._stop(reason)

    def _end(self, status: Status, reason: str) -> None:
        with self._changed:
            if self.status not in ENDED:
                self.reason, self.stage, self.lacking, self.training_bytes = reason, "", 0, 0
                self.status = status
                if status == "failed":
                    self.give_up()
                self._changed.notify_all()

    # --- For the service alone ----------------------------------------------------------------------------------------

    def begin(self, training: Training) -> None:
        """Train from now on."""
        with self._changed:
            if self.status not in ENDED:
                self.training, self.job, self.recipe, self.stage = training, training.job, training.recipe, ""
                training.kept_steps, self._events = self._kept_steps, iter(training)
                self._history, self._evaluations = list(training.history), list(training.points)
                self._publish(training.newest)
                self._resume()
                self.obey()  # what came while it was in the queue

    @property
    def wants_steps(self) -> bool:
        """Whether it would train if it was given the training thread."""
        return self.status == "running" or (self.status == "paused" and self._single_steps > 0)

    def may_step(self) -> bool:
        """Whether a step may begin now; if so, it is counted, and by its pace the next one is due a period later."""
        with self._changed:
            now = self._service.now()
            if self._commands or not self.wants_steps or now < self.due:
                return False
            if self.pace is not None:
                self.due = max(now, self.due + 1 / self.pace)  # a step that begins late does not shift the later ones
            self._single_steps = max(0, self._single_steps - 1)
            return True

    def train(self) -> None:
        """Train for a slice of time, or evaluate a batch, and publish what it gave."""
        for event in self._events:
            with self._changed:
                match event:
                    case Snapshot():
                        self._publish(event)
                        continue  # the rows of its step come next
                    case StepRow():
                        self._evaluations.append(event)
                        self._publish(self.snapshots[-1])
                    case _:
                        self._extend(event)
            return
        assert self.job is not None
        self.verdict = self.job.verdict(self._history, self._evaluations)
        self._end("finished", "")

    def _extend(self, rows: Sequence[StepRow]) -> None:
        """Publish the rows of a slice, in a pause after a snapshot: who sees a row finds its weights."""
        if self.status == "paused":
            self._keep_newest()
        self._history.extend(rows)
        if self.status == "paused" and self.training and self.training.is_trained:
            self._resume()  # what is left is to evaluate

    def _keep_newest(self) -> None:
        if self.training and self.training.newest.step < self.training.trainer.step:
            self._publish(self.training.take_snapshot())

    def _publish(self, snapshot: Snapshot) -> None:
        self.best = self.training.best if self.training else None
        by_step = {each.step: each for each in (*self.snapshots, self.best, snapshot) if each}
        self.snapshots = thinned([by_step[step] for step in sorted(by_step)], self.staying)

    def fail(self, error: BaseException) -> None:
        """End this run alone after an error, of any kind: a panic of the tokenizers' library is no Exception."""
        reason = " ".join([*error.notes, str(error)]) if isinstance(error, BertCoreError) else reason_of(error)
        if not reason:
            _log.error("run %s: %s", self.id[:6], one_line(error))
            reason = f"Training stopped on an internal error ({type(error).__name__}); the log has more."
        self._end("failed", reason)

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
                self.give_up()
                self.job = self.best = None
                self.snapshots, self._evaluations, self.text_bytes = (), [], 0


def least_useful(snapshots: Sequence[Snapshot], staying: Container[int | None] = ()) -> tuple[float, Snapshot] | None:
    """The snapshot whose neighbours are closest to each other, and the ratio of the neighbours' steps; None where the
    first and the newest one and those of the steps `staying` are all that is left."""
    neighbours = zip(snapshots, snapshots[1:], snapshots[2:])
    ratios = [((after.step + 1) / (before.step + 1), each) for before, each, after in neighbours]
    return min((found for found in ratios if found[1].step not in staying), key=lambda found: found[0], default=None)


def thinned(snapshots: Sequence[Snapshot], staying: Container[int | None] = ()) -> tuple[Snapshot, ...]:
    """At most MAX_SNAPSHOTS of one run, dense at the start. staying: steps whose snapshots are not dropped."""
    kept = list(snapshots)
    while len(kept) > MAX_SNAPSHOTS and (least := least_useful(kept, staying)):
        kept.remove(least[1])
    return tuple(kept)
