"""The command line.

python -m bert_core train --recipe romeo-juliet --seed 0 --output DIR
python -m bert_core train --resume DIR
torchrun --nproc-per-node 8 -m bert_core train --corpus FILE --output DIR
python -m bert_core exam DIR_OR_HUB_NAME --corpus FILE
"""

import argparse
import contextlib
import csv
import dataclasses
import functools
import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

from bert_core.config import CORPUS_KINDS
from bert_core.data.arrays import cache_folder
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.errors import BertCoreError, ConfigError, RunError
from bert_core.probes.exam import EXAM_SENTENCES, exam
from bert_core.runs.prepare import Prepared, prepare
from bert_core.runs.recipe import load_recipe, recipe_corpus, recipe_names, stated
from bert_core.runs.saved_state import TrainingState, read_training_state
from bert_core.runs.service import choose_device
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from bert_core.storage.hub import fetch_checkpoint, is_hub_name
from bert_core.training.distributed import LostProcess, any_wants, first_on_each_machine, joined, rank
from bert_core.training.evaluation import EvaluationPoint, evaluate
from bert_core.training.trainer import PendingMetrics, StepMetrics, Trainer, read_metrics, until_divergence

_SHOW_SECONDS = 0.2  # metrics are read from the device and shown this often
_EVALUATIONS = 20  # looks at the validation part in a run
_EVALUATION_BATCHES = 20  # batches of one look


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 when it worked, 1 with one sentence on standard error when it did not."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except BertCoreError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bert_core", description="Train a small BERT and examine it.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    train = commands.add_parser(
        "train",
        help="train a model and write it as a Hugging Face folder",
        description="Train a model and write it as a Hugging Face folder. Ctrl-C and SIGTERM save it before they end "
        "it. On several GPUs or machines: torchrun --nproc-per-node N -m bert_core train ...; they share each batch.",
    )
    train.add_argument("--recipe", help=f"one of {', '.join(recipe_names())}, or a JSON file")
    train.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on with the interrupted training in this folder, bit for bit"
    )
    train.add_argument(
        "--corpus",
        type=Path,
        metavar="FILE",
        help="a text to learn instead of the recipe's own, of any size; what a file of more than 16 MB becomes is kept "
        f"in {cache_folder()} for the next time",
    )
    train.add_argument(
        "--kind",
        choices=CORPUS_KINDS,
        help="how --corpus is cut into sentences; without it, as the recipe or the text suggests",
    )
    train.add_argument("--seed", type=int, help="decides the initial weights, pairs, masks and dropout")
    train.add_argument("--output", type=Path, metavar="DIR", help="the folder to write")
    train.add_argument("--device", choices=("auto", "cuda", "mps", "cpu"), default="auto", help="where to train")
    train.add_argument(
        "--save-every",
        type=int,
        default=1000,
        metavar="STEPS",
        help="save the model and its training after every so many steps, not only at the end; %(default)s by default",
    )
    train.add_argument("--set", nargs="+", default=[], metavar="SETTING=VALUE", help="for example training.steps=2000")
    train.set_defaults(command=_train)

    examine = commands.add_parser("exam", help="mask every word and judge every pair of a text")
    examine.add_argument("model", metavar="FOLDER_OR_NAME", help="a Hugging Face folder, or owner/model on the Hub")
    examine.add_argument("--corpus", type=Path, required=True, help="the text to be examined on")
    examine.add_argument("--kind", choices=CORPUS_KINDS, default="auto", help="how the text is split into sentences")
    examine.add_argument(
        "--seed", type=int, default=0, help=f"chooses the window of a text over {EXAM_SENTENCES} sentences"
    )
    examine.add_argument("--max-positions", type=int, metavar="N", help="read N tokens, more than the model learned")
    examine.set_defaults(command=_exam)
    return parser


def _train(options: argparse.Namespace) -> None:
    if options.save_every < 1:
        raise ConfigError(f"--save-every is {options.save_every}; it must be a number of steps, 1 or more.")
    device = choose_device(options.device)
    with joined(device):
        with first_on_each_machine():
            prepared, make_trainer, rows, validation = (_resumed if options.resume else _begun)(options, device)
        training = _Training(prepared, make_trainer(), rows, validation, options.output or options.resume)
        recipe, trainer = training.recipe, training.trainer
        _show_stage("")
        _say(*prepared.corpus.notes, sep="\n", end="\n" if prepared.corpus.notes else "")
        _say(
            f"{recipe.title}: {len(prepared.corpus.sentences):,} sentences, "
            f"{prepared.tokenizer.get_vocab_size():,} tokens in the vocabulary, "
            f"{trainer.model.config.parameter_count():,} parameters, in "
            f"{recipe.training.precision} on {device}"
        )
        with _interruptible() as interrupted:
            lost = training.run(interrupted, options.save_every)
            if rank() == 0:
                training.save()
            if lost:  # said here, because torchrun ends this process soon
                goes_on = f"train --resume {training.output} goes on from what the first process has saved."
                print(lost, goes_on, file=sys.stderr, flush=True)
                raise SystemExit(1)
        if interrupted.is_set and trainer.step < trainer.config.total_steps:
            _say(
                f"Interrupted at step {trainer.step}; train --resume {training.output} goes on from there.",
                file=sys.stderr,
            )
            raise KeyboardInterrupt
        if rank() == 0:
            training.report()


class _Training:
    """A training on the command line: its trainer, the rows of its steps and of its held-out curve so far, and the
    folder that they go to."""

    def __init__(
        self,
        prepared: Prepared,
        trainer: Trainer,
        rows: list[StepMetrics],
        validation: list[EvaluationPoint],
        output: Path,
    ) -> None:
        self.prepared, self.trainer, self.output = prepared, trainer, output
        self.recipe = dataclasses.replace(prepared.recipe, training=trainer.config)
        self.rows, self.validation = rows, validation
        self._pending: list[PendingMetrics] = []

    def run(self, interrupted: "_Interrupted", save_every: int) -> LostProcess | None:
        """Train with a progress bar until the end, an interruption, or the loss of another process, which is returned.

        The first of several processes looks at the held-out text and saves. Raises RunError when the loss stops being
        a number.
        """
        trainer, held_out, lost = self.trainer, self.prepared.validation, None
        steps = trainer.config.total_steps
        evaluate_every = max(1, steps // _EVALUATIONS)
        aside, before = 0.0, trainer.seconds
        started = shown = time.perf_counter()
        try:
            while not any_wants(interrupted.is_set, trainer.step) and (metrics := next(trainer, None)):
                self._pending.append(metrics)
                now = time.perf_counter()
                if now - shown > _SHOW_SECONDS:
                    self._take_in()
                    shown = now
                paused = time.perf_counter()
                if rank() == 0 and held_out and metrics.step % evaluate_every == 0:
                    self.validation.append(evaluate(trainer.model, held_out, _EVALUATION_BATCHES, metrics.step))
                if rank() == 0 and metrics.step % save_every == 0 and metrics.step < steps:
                    self.save()
                aside += time.perf_counter() - paused
        except LostProcess as error:
            lost = error
        self._take_in()
        # Reading the last metrics waited for the device, so that the time is that of finished work.
        if self.rows:
            seconds = before + time.perf_counter() - started - aside
            self.rows[-1] = dataclasses.replace(self.rows[-1], seconds=seconds)
        return lost

    def _take_in(self) -> None:
        fresh, divergence = until_divergence(read_metrics(self._pending))
        if divergence:
            raise RunError(f"{divergence} {self.output} is as it was saved last, if it was.")
        self.rows += fresh
        self._pending.clear()
        if fresh:
            _show_progress(self.rows[-1], self.trainer.config.total_steps)

    def save(self) -> None:
        """Write the model, all that its training needs to go on, and the curves as tables."""
        self._take_in()
        prepared, rows, validation = self.prepared, self.rows, self.validation
        recipe, model = self.recipe, self.trainer.model
        checkpoint = Checkpoint(model, prepared.tokenizer, recipe.title, recipe=stated(recipe, prepared.seed))
        state = TrainingState(
            recipe, prepared.seed, prepared.corpus.fingerprint, self.trainer.state(), rows, validation
        )
        save_checkpoint(checkpoint, self.output, also=state.writer())
        numbers = ("mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy")
        names = ("step", *numbers, "learning_rate", "grad_norm", "tokens", "seconds")
        precision = recipe.training.precision
        table = ([*(getattr(row, name) for name in names), precision] for row in rows)
        _write_csv(self.output / "metrics.csv", (*names, "precision"), table)
        if validation:
            _write_csv(self.output / "validation.csv", ("step", *numbers), map(dataclasses.astuple, validation))

    def report(self) -> None:
        """Print the test part's numbers, where there is one, and the last step's."""
        if self.prepared.test:
            result = evaluate(self.trainer.model, self.prepared.test, _EVALUATION_BATCHES, self.trainer.step)
            print(json.dumps({"test": dataclasses.asdict(result)}))
        last = self.rows[-1]
        summary = {
            "steps": last.step,
            "seconds": round(last.seconds, 3),
            "mlm_loss": last.mlm_loss,
            "nsp_loss": last.nsp_loss,
        }
        print(json.dumps(summary))


_Begin = tuple[Prepared, Callable[[], Trainer], list[StepMetrics], list[EvaluationPoint]]


def _begun(options: argparse.Namespace, device: str) -> _Begin:
    """A new training, with the rows of its steps and of its held-out curve, none yet."""
    if not options.output:
        raise ConfigError("Where is the model to go? Give --output and a folder.")
    recipe = load_recipe(options.recipe or "romeo-juliet").override(dict(_setting(text) for text in options.set))
    corpus = _read(options.corpus, options.kind or recipe.text_kind) if options.corpus else recipe_corpus(recipe)
    prepared = prepare(recipe, corpus, options.seed or 0, device, progress=_show_stage)
    return prepared, lambda: prepared.trainer(device), [], []


def _resumed(options: argparse.Namespace, device: str) -> _Begin:
    """The training that a folder holds, at the step where it was saved, with all its rows so far."""
    if options.recipe or options.set or options.seed is not None:
        raise ConfigError(
            "--resume takes recipe, settings and seed from the folder; leave out --recipe, --set and --seed."
        )
    checkpoint, state = load_checkpoint(options.resume), read_training_state(options.resume)
    if state.trainer.step == state.recipe.training.total_steps:
        raise RunError(f"This training has done all of its {state.trainer.step:,} steps.")
    kind = options.kind or state.recipe.text_kind
    corpus = state.text_to_go_on(_read(options.corpus, kind) if options.corpus else None)
    prepared = prepare(state.recipe, corpus, state.seed, device, progress=_show_stage)
    make_trainer = functools.partial(state.trainer_of, prepared, checkpoint, device)
    return prepared, make_trainer, list(state.history), list(state.evaluations)


def _read(path: Path, kind: str) -> Corpus:
    return read_corpus(path, kind=kind, progress=lambda share: _show_stage(f"reading the text, {share:.0%}"))


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--set {text} has no value; write it as training.steps=2000.")
    return name, value


def _write_csv(path: Path, names: Sequence[str], rows: Iterable[Sequence[float | str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)


@dataclasses.dataclass
class _Interrupted:
    is_set: bool = False


@contextlib.contextmanager
def _interruptible() -> Iterator[_Interrupted]:
    """Let Ctrl-C and SIGTERM wait for the end of a step, so that what is saved is whole; a second Ctrl-C does not
    wait."""
    interrupted = _Interrupted()

    def note(number: int, *_: object) -> None:
        interrupted.is_set = True
        # Of several processes, each is told by the terminal and by torchrun.
        if not dist.is_torchelastic_launched():
            signal.signal(number, before[number])

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(*parts: str, **options: Any) -> None:
    if rank() == 0:
        print(*parts, **options)


def _show_stage(stage: str) -> None:
    """What is being done before the first step, on a line that the next one takes the place of."""
    if sys.stderr.isatty() and rank() == 0:
        print(f"\r\x1b[K{stage}", end="", file=sys.stderr, flush=True)


def _show_progress(row: StepMetrics, steps: int) -> None:
    if not sys.stderr.isatty() or rank() > 0:
        return
    filled = 30 * row.step // steps
    print(
        f"\r[{'#' * filled}{'.' * (30 - filled)}] {row.step}/{steps}  masked words {row.mlm_loss:.3f}  "
        f"next sentence {row.nsp_loss:.3f}",
        end="\n" if row.step == steps else "",
        file=sys.stderr,
        flush=True,
    )


def _model_folder(name: str) -> Path:
    """The folder of that name, or of the fetched model; a path into a folder that is here is never asked of the Hub."""
    path = Path(name)
    if not is_hub_name(name) or path.exists() or path.parent.exists():
        return path
    print(f"Fetching {name} from the Hugging Face Hub", file=sys.stderr)
    return fetch_checkpoint(name, progress=_show_fetched if sys.stderr.isatty() else None)


def _show_fetched(done: int, total: int) -> None:
    print(
        f"\r{done / 2**20:,.1f} of {total / 2**20:,.1f} MB",
        end="\n" if done == total else "",
        file=sys.stderr,
        flush=True,
    )


def _exam(options: argparse.Namespace) -> None:
    checkpoint = load_checkpoint(_model_folder(options.model), max_positions=options.max_positions)
    for note in checkpoint.notes:
        print(note)
    corpus = _read(options.corpus, options.kind)
    result = exam(checkpoint, corpus, seed=options.seed)
    if result.window:
        first, last = result.window
        print(
            f"The text has {len(corpus.sentences):,} sentences; examined were {first:,} to {last:,} "
            f"(seed {options.seed})."
        )
    print(json.dumps({"words": list(result.words), "pairs": list(result.pairs)}))


if __name__ == "__main__":
    sys.exit(main())
