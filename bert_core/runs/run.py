"""One training run as its visitor sees it: facts to read, commands to give, and its turns on the training thread.

A run publishes immutable facts: an append-only history, held-out evaluations and snapshots of its weights. Whoever
reads them never touches the model that is being trained. The service and its threads are in `bert_core.runs.service`.
"""

import contextlib
import dataclasses
import math
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer

from bert_core.config import TrainingConfig
from bert_core.data.batches import PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.errors import ConfigError, RunError
from bert_core.probes.batch import BatchView, view_batch
from bert_core.runs.prepare import prepare
from bert_core.runs.recipe import Recipe, stated
from bert_core.runs.saved_state import TrainingState
from bert_core.runs.snapshots import Budget, Snapshot, thinned
from bert_core.storage.checkpoint import Checkpoint, pack_checkpoint, save_checkpoint
from bert_core.training.evaluation import EvaluationPoint, Evaluator
from bert_core.training.trainer import StepMetrics, Trainer, read_metrics, until_divergence

SLICE_SECONDS = 0.03
SNAPSHOT_SECONDS = 0.5  # wall clock between two snapshots of a running model, at most
SNAPSHOT_GROWTH = 1.1  # a step this many times the last snapshot's is worth one too: dense at the start
FREE_AFTER = 18  # leases without a visitor, after which a run is freed: three hours for a lease of ten minutes
ROW_BYTES = 500  # of a step's metrics, which are Python numbers
PACES = (0.05, 1000.0)  # steps a second

Status = Literal["queued", "running", "paused", "finished", "stopped", "failed"]
TRAINING = ("queued", "running")  # steps come without being asked for
ACTIVE = (*TRAINING, "paused")
ENDED = ("finished", "stopped", "failed")


@dataclass(frozen=True)
class Progress:
    """Where a run stands.

    steps: of all parts of the training. seconds: training time so far. seconds_left: at its present pace, None while
    unknown. place: number of runs that are prepared before this one, 0 from its turn on. wait_seconds: how long that
    takes by experience, None while unknown. preparing: what is being done before the first step, else "". sharing:
    number of runs that share the training thread now, this one included.
    """

    status: Status
    reason: str
    step: int
    steps: int
    seconds: float
    tokens_per_second: float
    seconds_left: float | None
    place: int
    wait_seconds: float | None
    preparing: str
    sharing: int


class Run:
    """One training run. Its methods may be called from any thread and wait for one training step at most.

    id: 128 random bits in hexadecimal. recipe: as asked for; once prepared, at scale, with its number of steps and
    with every change of the schedule. status, reason: see `Progress`; "paused" means that no step comes unless `step`
    asks for it. corpus: the whole text, None until it was read. training_text, held_out: its parts; held_out is None
    where there is nothing to hold out, so that the model can only memorise. snapshots: oldest first, thinned so that
    early steps keep more of them. pace: steps a second, None for full speed.
    """

    def __init__(self, recipe: Recipe, seed: int, service: Any, lease: float | None, budget: Budget) -> None:
        # service: its TrainingService, which imports this module
        self.id = secrets.token_hex(16)
        self.recipe, self.seed = recipe, seed
        self.status: Status = "queued"
        self.reason = ""
        self.corpus: Corpus | None = None
        self.training_text: Corpus | None = None
        self.held_out: Corpus | None = None
        self.snapshots: tuple[Snapshot, ...] = ()
        self.pace: float | None = None
        self._service = service
        self._wake = service._wake  # guards what follows, and wakes the training thread
        self._history: list[StepMetrics] = []
        self._trainer: Trainer | None = None
        self._tokenizer: Tokenizer | None = None
        self._batches: PretrainingBatches | None = None
        self._evaluator: Evaluator | None = None
        self._preparing = ""
        self._busy = False  # the training thread is at it
        self._holds = 0  # threads that need it at rest for a moment
        self._saved: tuple[Checkpoint, TrainingState] | None = None  # where a resumed run begins
        self._paused = False
        self._single_steps = 0
        self._turn_ended = 0.0
        self._step_seconds = math.nan  # running mean of wall-clock seconds per step
        self._snapped = 0.0
        self._due = -math.inf  # when the pace allows the next step, by the service's clock
        self._budget = budget
        self._lease, self._touched = lease, service._clock()
        self._paused_by_lease = False
        budget.hold(self)

    # --- Facts --------------------------------------------------------------------------------------------------------

    def history(self, since: int = 0) -> list[StepMetrics]:
        """The rows after the first `since` ones; the next cursor is since + len(rows)."""
        return self._history[since:]

    def evaluations(self, since: int = 0) -> list[EvaluationPoint]:
        """The held-out curve after its first `since` points: dense at the start, and never more than about a tenth of
        the training time. Empty where nothing is held out."""
        evaluator = self._evaluator
        return evaluator.points[since:] if evaluator else []

    def progress(self) -> Progress:
        """Where the run stands now."""
        with self._wake:
            done, steps = len(self._history), self.recipe.training.total_steps
            recent = self._history[-50:]
            spent = recent[-1].seconds - recent[0].seconds if len(recent) > 1 else 0.0
            running = self.status == "running" and math.isfinite(self._step_seconds)
            place, wait = self._service._line_before(self)
            return Progress(
                status=self.status,
                reason=self.reason,
                step=done,
                steps=steps,
                seconds=recent[-1].seconds if recent else 0.0,
                tokens_per_second=sum(row.tokens for row in recent[1:]) / spent if spent else 0.0,
                seconds_left=(steps - done) * self._step_seconds if running else None,
                place=place,
                wait_seconds=wait,
                preparing=self._preparing,
                sharing=self._service._sharing(),
            )

    def batch_at(self, step: int, *, again: int = 0, rows: slice = slice(None)) -> BatchView:
        """The very batch of a step, counted from 1; of a coming step too.

        again: 1, 2, ... hide other words of the same pairs, another choice each. rows: the pairs to look at. Raises
        RunError where there is no such step, or no batches any more.
        """
        batches, tokenizer, last = self._batches, self._tokenizer, self.recipe.training.total_steps
        if batches is None or tokenizer is None:
            raise RunError(
                "The batches of this run are not here; they come when it is prepared and go when it is freed."
            )
        if not 1 <= step <= last:
            raise RunError(f"There is no step {step}; this run has the steps 1 to {last}.")
        return view_batch(batches.another(again)[step - 1], tokenizer, step, rows)

    @property
    def can_go_on(self) -> bool:
        """Whether what the next step needs is still kept, so that a saved file or `continue_for` can go on."""
        return self._trainer is not None

    def save(self, folder: str | Path) -> None:
        """Write the model as it is now as a Hugging Face folder, with all that `TrainingService.resume` needs to go on.

        A run that was freed or has failed is written without that, at its newest snapshot. Raises RunError where there
        is no model yet, CheckpointError where the folder cannot be written.
        """
        checkpoint, also = self._to_save()
        save_checkpoint(checkpoint, folder, also=also)

    def pack(self, zip_path: str | Path) -> None:
        """As `save`, into a zip file."""
        checkpoint, also = self._to_save()
        pack_checkpoint(checkpoint, zip_path, also=also)

    def _to_save(self) -> tuple[Checkpoint, Callable[[Path], None]]:
        with self._at_rest():
            if not self.snapshots:
                raise RunError("This run has no model to save; it has one from its first step until it is freed.")
            trainer = self._trainer
            if trainer is None:
                return self.snapshots[-1].checkpoint(), lambda folder: None
            copy, now = self._copy(), trainer.state()
            rows, points = list(self._history), self.evaluations()
        state = TrainingState(self.recipe, self.seed, self.corpus.fingerprint, now, rows, points)
        return copy.checkpoint(), state.writer()

    # --- Commands -----------------------------------------------------------------------------------------------------

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
        """End the run, keep what it has learnt and what `continue_for` needs; without effect on one that has ended."""
        with self._at_rest():
            self._end("stopped", reason or f"Stopped by you at step {len(self._history)}.")

    def touch(self) -> None:
        """Renew the lease: somebody is here. Wakes a run that was paused because nobody was."""
        with self._wake:
            self._touched = self._service._clock()
            if self._paused_by_lease and self.status not in ENDED:
                self._command(paused=False)

    def set_pace(self, steps_per_second: float | None) -> None:
        """Train at so many steps a second, or at full speed (None). Raises ConfigError outside 0.05 to 1000."""
        low, high = PACES
        if steps_per_second is not None and not low <= steps_per_second <= high:
            raise ConfigError(f"The pace is {steps_per_second!r}; it must be from {low:g} to {high:g} steps a second.")
        with self._wake:
            self.pace, self._due = steps_per_second, -math.inf
            self._wake.notify_all()

    def set_learning_rate(self, value: float) -> None:
        """Go on from the next step with this learning rate, which then decays to the end as the recipe's does.

        It becomes a part of the recipe's training, so that a saved model says so and repeats it. Raises RunError
        unless the run is paused, ConfigError when the value is out of range.
        """
        with self._at_rest():
            self._refuse_if_ended()
            if self.status != "paused":
                raise RunError("The learning rate can be changed while the run is paused; pause it first.")
            training, done = self.recipe.training, self._trainer.step
            self._follow(training.then(done, training.total_steps - done, value))

    def continue_for(self, steps: int, learning_rate: float | None = None) -> None:
        """Train a finished or stopped run for more steps, bit for bit as if its recipe had stated both parts.

        learning_rate: peak of the new part, which decays as the recipe's first part does; None takes the one in force.
        Raises RunError where the run has not ended, has failed or was freed, ConfigError for a number out of range.
        """
        with self._wake:
            if self.status not in ("finished", "stopped"):
                raise RunError(f"Only a finished or stopped run can be continued; this one is {self.status}.")
            if self._trainer is None:
                raise RunError("What this run needs to go on is no longer kept; start it again.")
            self._follow(self.recipe.training.then(self._trainer.step, steps, learning_rate))
            self._service._take_up(self)
            self.status, self.reason = "running", ""
            self._paused = self._paused_by_lease = False
            self._single_steps, self._turn_ended = 0, time.monotonic()
            self._wake.notify_all()

    def _command(self, *, paused: bool, single_steps: int = 0) -> None:
        with self._wake:
            self._refuse_if_ended()
            self._paused = paused
            self._single_steps = self._single_steps + single_steps if paused else 0
            self._paused_by_lease, self.reason = False, ""
            self._touched = self._service._clock()
            if self._trainer is not None and not paused:
                self.status = "running"
            self._settle_pause()
            self._wake.notify_all()

    def _refuse_if_ended(self) -> None:
        if self.status in ENDED:
            raise RunError(f"This run has ended ({self.status}); start a new one.")

    @contextlib.contextmanager
    def _at_rest(self) -> Iterator[None]:
        """Hold the lock with no step in progress, and let no new one begin."""
        with self._wake:
            self._holds += 1
            try:
                while self._busy:
                    self._wake.wait()
                yield
            finally:
                self._holds -= 1
                self._wake.notify_all()

    def _follow(self, training: TrainingConfig) -> None:
        self.recipe = dataclasses.replace(self.recipe, training=training)
        self._trainer.config = training

    def _end(self, status: Status, reason: str) -> None:
        with self._wake:
            if self.status not in ENDED:
                self.status, self.reason = status, reason
                if status == "failed":
                    self.give_up()
                self._budget.make_room()
                self._wake.notify_all()

    # --- What is called by the service's threads alone ----------------------------------------------------------------

    def _prepare(self, corpus: Corpus | Callable[[], Corpus] | None, device: str) -> None:
        if callable(corpus):
            self._say("reading the text")
            corpus = corpus()
        prepared = prepare(self.recipe, corpus, self.seed, device, progress=self._say)
        if self._saved is not None:
            checkpoint, state = self._saved
            trainer = state.trainer_of(prepared, checkpoint, device)
            history, points = list(state.history), state.evaluations
        else:
            trainer, history, points = prepared.trainer(device), [], ()
        evaluator = Evaluator(prepared.validation, points) if prepared.validation else None
        with self._wake:
            if self.status in ENDED:
                return
            self.corpus, self.training_text, self.held_out = prepared.corpus, prepared.training_text, prepared.held_out
            self.recipe = dataclasses.replace(prepared.recipe, training=trainer.config)
            self._tokenizer, self._batches = prepared.tokenizer, prepared.batches
            self._trainer, self._evaluator, self._history, self._saved = trainer, evaluator, history, None
            self._snap()
            if evaluator is not None and evaluator.latest_step < trainer.step:
                evaluator.begin(trainer.step, self.snapshots[-1].checkpoint().model)
            self._preparing = ""
            self.status = "paused" if self._paused else "running"
            self._turn_ended = time.monotonic()
            self._wake.notify_all()

    def _say(self, stage: str) -> None:
        if self.status in ENDED:
            raise RunError(self.reason)  # nobody waits for it any more
        self._preparing = stage

    def _wants_turn(self) -> bool:
        ready = self._trainer is not None and self.status not in ENDED and not self._holds
        return ready and (not self._paused or self._single_steps > 0)

    def _train_slice(self) -> None:
        """Train for a slice of time, or for one step where a step is longer, and publish what it gave."""
        started = time.monotonic()
        trainer, pending = self._trainer, []
        while time.monotonic() - started < SLICE_SECONDS and self._may_step():
            if (metrics := next(trainer, None)) is None:
                break
            pending.append(metrics)
        read = time.monotonic()
        rows, divergence = until_divergence(read_metrics(pending))
        now = time.monotonic()
        if rows:  # a GPU has only now done its steps
            trainer.seconds += now - read
            rows[-1] = dataclasses.replace(rows[-1], seconds=trainer.seconds)
        is_over = trainer.step >= trainer.config.total_steps
        grown = trainer.step >= SNAPSHOT_GROWTH * self.snapshots[-1].step
        due = grown or is_over or not self._wants_turn() or now - self._snapped >= SNAPSHOT_SECONDS
        with self._wake:
            if rows:
                seconds = (now - self._turn_ended) / len(rows)
                known = math.isfinite(self._step_seconds)
                self._step_seconds = 0.8 * self._step_seconds + 0.2 * seconds if known else seconds
            self._turn_ended = now
            if rows and due and not divergence:
                self._snap()
            # Rows come after the snapshot: whoever sees a step's row finds its weights.
            self._history.extend(rows)
            if divergence:
                self._end("failed", divergence)
        if self._evaluator is not None and not divergence:
            self._evaluate(self._evaluator, is_over)
        self._budget.seconds += time.monotonic() - started

    def _may_step(self) -> bool:
        """Whether a step may be done now; what it uses up is taken off."""
        with self._wake:
            now = self._service._clock()
            if not self._wants_turn() or now < self._due:
                return False
            if self.pace is not None:
                period = 1 / self.pace
                # A step that was a little late leaves the others where they are; a longer delay is not caught up with.
                self._due = (self._due if now - self._due < period else now) + period
            self._single_steps = max(0, self._single_steps - 1)
            return True

    def _evaluate(self, evaluator: Evaluator, is_over: bool) -> None:
        """One held-out batch; when the run is over, what is left of the look and a last one."""
        newest = self.snapshots[-1]
        if evaluator.may_begin(newest.step, self._trainer.seconds):
            evaluator.begin(newest.step, newest.checkpoint().model)
        evaluator.advance()
        if is_over:
            evaluator.finish()
            if evaluator.latest_step < newest.step:
                evaluator.begin(newest.step, newest.checkpoint().model)
                evaluator.finish()

    def _settle(self) -> None:
        """After a slice: the run is at rest, and becomes what was asked for meanwhile."""
        self._busy = False
        trainer = self._trainer
        if trainer is not None and trainer.step >= trainer.config.total_steps:
            self._end("finished", "")
        self._settle_pause()
        self._wake.notify_all()

    def _settle_pause(self) -> None:
        resting = self._paused and not self._busy and not self._single_steps
        if resting and self.status == "running":
            self.status = "paused"

    def _snap(self) -> None:
        """Keep a copy of the weights; what is missed least makes room."""
        fresh = self._copy()
        kept = [snapshot for snapshot in self.snapshots if snapshot.step != fresh.step]
        self.snapshots, self._snapped = thinned([*kept, fresh]), time.monotonic()
        self._budget.make_room()

    def _copy(self) -> Snapshot:
        trainer, flat = self._trainer, self._trainer.flat
        name = f"{self.recipe.title}, step {trainer.step}"
        config, recipe = trainer.model.config, stated(self.recipe, self.seed)
        return Snapshot(trainer.step, flat.weights.clone(), flat.layout, config, self._tokenizer, name, recipe)

    @property
    def spare_bytes(self) -> int:
        """What an ended run keeps only to be continued."""
        return self._trainer.nbytes if self._trainer is not None and self.status in ENDED else 0

    @property
    def fixed_bytes(self) -> int:
        """What the numbers of its steps and its encoded text take, about."""
        encoded = self._batches and self._batches.encoded
        arrays = (encoded.ids, encoded.offsets, encoded.texts) if encoded else ()
        # What is mapped from a file is not in memory.
        text = sum(array.nbytes for array in arrays if array.flags.owndata)
        return ROW_BYTES * len(self._history) + text

    def give_up(self) -> None:
        """Let go of what only `continue_for` needs; history and snapshots stay."""
        self._trainer = None

    def check_lease(self, now: float) -> None:
        """Pause a run that nobody has asked about for a lease; free it after many."""
        away = now - self._touched
        if self._lease is None or away <= self._lease:
            return
        if away > FREE_AFTER * self._lease:
            self._end("stopped", "Stopped and freed, because nobody had looked at it for long.")
            self.give_up()
            self.snapshots, self._batches, self._evaluator = (), None, None
            self.corpus = self.training_text = self.held_out = None
            self._lease = None
        elif not self._paused and self.status in ("queued", "running"):
            self._command(paused=True)
            self._paused_by_lease, self._touched = True, now - away
            self.reason = f"Paused at step {len(self._history)}, because nobody was looking; it goes on when you do."
