"""The command line: python -m bert_core COMMAND --help; README.md shows each command."""

import argparse
import contextlib
import csv
import dataclasses
import errno
import functools
import json
import math
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist
from tqdm import tqdm

from bert_core.config import CORPUS_KINDS, VERSION, BertConfig, CorpusConfig, check_seed
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.data.decoding import ENCODINGS
from bert_core.device import choose_device, gpu_fault
from bert_core.errors import BertCoreError, ConfigError, RunError, quoted, reason_of
from bert_core.probes.exam import EXAM_SENTENCES, exam
from bert_core.runs.job import Job
from bert_core.runs.recipe import (
    DEFAULT_RECIPE,
    FinetuningRecipe,
    Recipe,
    finetuning_recipe,
    finetuning_recipes,
    load_recipe,
    recipe_for,
    recipe_names,
)
from bert_core.runs.saved_state import TrainingState, read_training_state
from bert_core.runs.snapshots import Snapshot
from bert_core.runs.train import Evaluation, Finetuned, Training, prepare
from bert_core.storage.checkpoint import (
    CONFIG,
    Checkpoint,
    check_saving,
    load_checkpoint,
    model_folder,
    save_checkpoint,
)
from bert_core.storage.hub import fetch_checkpoint, is_hub_name
from bert_core.tasks.examples import TASKS, TaskData, load_task, read_parts
from bert_core.tasks.prediction import predict, review, task_of
from bert_core.tasks.question_answering import QuestionAnswering, check_ids, squad_predictions
from bert_core.tasks.tables import ColumnsError
from bert_core.tasks.task import Task
from bert_core.training.distributed import LostProcess, any_wants_to_stop, joined, rank
from bert_core.training.evaluation import evaluate
from bert_core.training.objective import DETAILS, StepRow
from bert_core.training.trainer import Trainer

_POSITIONS, _LENGTH = "model.max_position_embeddings", "data.sequence_length"
_OF_A_NEW_RUN = ("recipe", "start", "set", "task", "checkpoint", "random_weights", "max_positions")
_FIRST_LINE, _LINES = 0.5, 5.0  # seconds until the first line of progress, and between two
_SHOWN = {"mlm_loss": "MLM loss", "nsp_loss": "NSP loss", "loss": "loss", "accuracy": "accuracy"}
_SHOWN_CHARACTERS = 100  # of a sentence
_TEST_BATCHES = 20  # of the test part, after the training


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0, or 1 after printing an error to standard error, 130 after Ctrl-C, or 141 when the
    reader of its output, such as `head`, has closed it."""
    write_utf8()
    options = _parser().parse_args(arguments)
    try:
        if options.device == "auto" and (fault := gpu_fault()):
            print(f"The GPU cannot be used ({fault}), so this runs on the CPU.", file=sys.stderr)
        options.command(options)
        sys.stdout.flush()
    except OSError as error:
        if _is_closed_pipe(error):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it again
            return 141  # 128 + SIGPIPE
        print(f"{error.filename or 'The output'} cannot be used ({error.strerror or error}).", file=sys.stderr)
        return 1
    except ColumnsError as error:
        rows = ("  ".join(f"{i}: {quoted(field)}" for i, field in enumerate(row, 1)) for row in error.columns.first)
        print(*error.notes, error, *rows, f"Add for example --columns {error.example}.", sep="\n", file=sys.stderr)
        return 1
    except BertCoreError as error:
        print(*error.notes, error, sep="\n", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except (MemoryError, RuntimeError) as error:
        if not (reason := reason_of(error)):
            raise
        print(reason, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    program = "balcony" if Path(sys.argv[0]).stem in ("balcony", "app") else "python -m bert_core"
    parser = argparse.ArgumentParser(prog=program, description="Train a small BERT and examine it.")
    parser.add_argument("--version", action="version", version=f"balcony {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    for add in (_add_train, _add_exam, _add_finetune, _add_predict_and_evaluate):
        add(commands)
    encoding = "of the text; default: UTF-8, or what its mark names"
    device = "cpu, cuda, mps, or cuda:1 for the second GPU; by default cuda where there is one, else cpu"
    for command in commands.choices.values():
        command.add_argument("--encoding", choices=ENCODINGS, help=encoding)
        command.add_argument("--device", default="auto", help=device)
    return parser


def _command(commands: Any, name: str, does: str, run: Callable, more: str = "") -> argparse.ArgumentParser:
    """Add a command. does: what it does, in a few words. more: sentences that only its own help has."""
    description = f"{does[0].upper()}{does[1:]}. {more}"
    command = commands.add_parser(name, help=does, description=description)
    command.set_defaults(command=run)
    return command


def _add_train(commands: Any) -> None:
    more = "Ctrl-C and SIGTERM save it and end the training. Several GPUs or machines share each batch: "
    more += "torchrun --nproc-per-node N -m bert_core train ..."
    train = _command(commands, "train", "train a model and write it as a Hugging Face folder", _train, more)
    train.add_argument(
        "--recipe",
        type=_given,
        help=f"one of {', '.join(recipe_names())}, or a JSON file; "
        f"by default settings chosen by the size of --corpus, and without that or with --start {DEFAULT_RECIPE}",
    )
    start = "a model to go on from: its tokenizer, sizes and weights; by default the weights are random"
    train.add_argument("--start", type=_given, metavar="FOLDER_OR_NAME", help=start)
    _add_training(train, start="--start", setting="training.steps=2000")
    train.add_argument("--more-steps", type=int, metavar="N", help="with --resume: N steps more than it would have had")
    _add_corpus(train, "a text instead of the recipe's")
    train.add_argument("--seed", type=int, help="of weights, pairs, masks and dropout; default: the recipe's")


def _add_exam(commands: Any) -> None:
    examine = _command(commands, "exam", "mask every word and judge every pair of a text", _exam)
    _add_model(examine)
    _add_corpus(examine, "the text to mask and judge", required=True)
    window = f"chooses the window of a text over {EXAM_SENTENCES} sentences"
    examine.add_argument("--seed", type=int, default=0, help=window)
    _add_max_positions(examine)


def _add_finetune(commands: Any) -> None:
    more = "Ctrl-C and SIGTERM save the best epoch so far and end it."
    tune = _command(commands, "finetune", "let a model learn a task from labelled examples", _finetune, more)
    names = ", ".join(recipe.name for recipe in finetuning_recipes())
    tune.add_argument("--recipe", type=_given, help=f"one of {names}; by default, only --task")
    tune.add_argument("--task", choices=TASKS, help="the kind of task; default: the recipe's")
    forms = "the labelled examples: columns of texts and a label, SWAG's csv, SQuAD's JSON, or words with tags"
    tune.add_argument("--train", type=_path, metavar="FILE", help=f"{forms}; default: the recipe's own")
    held_out = "examples to choose the best epoch by; by default, a tenth of --train is held out"
    tune.add_argument("--validation", type=_path, metavar="FILE", help=held_out)
    tune.add_argument("--test", type=_path, metavar="FILE", help="examples to measure the result on")
    _add_columns(tune, "the texts and then the label, or the word and the tag, for example review,sentiment")
    start = "the model to start from"
    tune.add_argument("--checkpoint", type=_given, metavar="FOLDER_OR_NAME", help=start)
    _add_max_positions(tune)
    _add_training(tune, start="--checkpoint", setting="training.epochs=3")
    tune.add_argument("--seed", type=int, help="of the output layer, the order of examples and dropout; default: 0")


def _add_predict_and_evaluate(commands: Any) -> None:
    more = "The output has a line of JSON for each line of the input after its header, null for an empty line. For a "
    more += "file of a word a line, and for SQuAD's JSON, it has one for each sentence or question: its id, the best "
    more += "answer and the n-best list."
    predictor = _command(commands, "predict", "apply a fine-tuned model to examples", _predict, more)
    _add_model(predictor)
    predictor.add_argument("--input", type=_path, required=True, metavar="FILE", help="examples; labels are not read")
    _add_columns(predictor, "the texts, or the word, for example review")
    predictor.add_argument("--output", type=_path, metavar="FILE", help="default: standard output")
    form = "lines of JSON, or for answers the file that SQuAD's own evaluation reads; default: lines"
    predictor.add_argument("--format", choices=("lines", "squad"), default="lines", help=form)

    more = (
        "--output gets a line of JSON for each example, the worst mistakes first: its texts, what is right, and what "
    )
    more += "the model says."
    evaluator = _command(commands, "evaluate", "measure a fine-tuned model on labelled examples", _evaluate, more)
    _add_model(evaluator)
    evaluator.add_argument("--input", type=_path, required=True, metavar="FILE", help="labelled examples")
    _add_columns(evaluator, "the texts and then the label, or the word and the tag")
    evaluator.add_argument("--output", type=_path, metavar="FILE", help="a line for each example; by default, none")


def _add_training(train: argparse.ArgumentParser, *, start: str, setting: str) -> None:
    """What pre-training and fine-tuning have in common. start: the option with the model. setting: an example."""
    random = f"keep only the tokenizer and the sizes of {start}, a folder that needs no weights"
    train.add_argument("--random-weights", action="store_true", help=random)
    train.add_argument("--resume", type=_path, metavar="DIR", help="continue the training in this folder, bit for bit")
    train.add_argument("--output", type=_path, metavar="DIR", help="the folder to write")
    train.add_argument("--overwrite", action="store_true", help="replace a model that --output already holds")
    every = "save the model and its training state every STEPS steps and at the end; %(default)s by default"
    train.add_argument("--save-every", type=int, default=1000, metavar="STEPS", help=every)
    example = f"for example {setting}"
    train.add_argument("--set", nargs="+", action="extend", default=[], metavar="SETTING=VALUE", help=example)


def _add_model(command: argparse.ArgumentParser) -> None:
    help = "a Hugging Face folder, or owner/model on the Hub"
    command.add_argument("model", type=_given, metavar="FOLDER_OR_NAME", help=help)


def _add_corpus(command: argparse.ArgumentParser, help: str, required: bool = False) -> None:
    command.add_argument("--corpus", type=_path, metavar="FILE", required=required, help=help)
    help = "how --corpus is split into sentences; default: as the recipe says, else auto"
    command.add_argument("--kind", choices=CORPUS_KINDS, help=help)


def _add_columns(command: argparse.ArgumentParser, which: str) -> None:
    help = f"{which}: names of the header, or numbers from 1; default: usual names, or the order"
    command.add_argument("--columns", default="", metavar="NAME,NAME", help=help)
    help = "what stands between the columns, such as ; or tab or space; default: tab, _!_, comma or semicolon, as found"
    command.add_argument("--separator", type=_given, metavar="TEXT", help=help)


def _add_max_positions(command: argparse.ArgumentParser) -> None:
    help = "read up to N tokens, more than in training; the new positions are untrained"
    command.add_argument("--max-positions", type=int, metavar="N", help=help)


def _train(options: argparse.Namespace) -> None:
    output = _output(options)
    device = choose_device(options.device)
    with joined(device):
        with _stages() as show_stage:
            job, state = _prepare(options, device, show_stage)
        used = sum(len(part.sentences) for part in job.parts if part)
        given = len(job.source.sentences)
        of = "" if used == given else f" of {given:,}"
        pairs = "" if job.batches.encoded.pair_labels is None else f" in {used // 2:,} labelled pairs"
        about = f"{used:,}{of} sentences{pairs}, {job.tokenizer.get_vocab_size():,} tokens in the vocabulary"
        training, history = _learn(options, output, about, job, state)
        if rank() == 0:
            _print_results(training, history[-1])


def _output(options: argparse.Namespace) -> Path:
    """The folder to write, which can be. Raises ConfigError where none is given."""
    if options.save_every < 1:
        raise ConfigError(f"--save-every is {options.save_every}; it must be a number of steps, 1 or more.")
    output = options.output or options.resume
    if output is None:
        raise ConfigError("There is no folder for the model. Give --output and a folder.")
    if (output / CONFIG).exists() and not (options.overwrite or output == options.resume):
        raise ConfigError(f"{output} holds a model already. Give another folder, or --overwrite to replace it.")
    check_saving(output)
    return output


def _learn(
    options: argparse.Namespace, output: Path, about: str, job: Job, state: TrainingState | None
) -> tuple[Training, list[StepRow]]:
    """Train until the end and save; an interrupt and the loss of another process save too, say how to continue, and end
    the program. Returns the training and the rows of all steps."""
    with _delayed_interrupts() as interrupts:
        stop = _Stop(interrupts, options.save_every)
        training, history = Training(job, state, stop.may_step), list(state.history) if state else []
        stop.trainer = training.trainer
        size, precision = f"{job.config.parameter_count():,} parameters", training.trainer.config.precision
        _tell(*job.notes, f"{job.recipe.title}: {about}, {size}, in {precision} on {job.device}")
        lost = _run(training, history, output, stop)
        if rank() == 0:
            _save(training, history, output)
        if lost:  # printed at once, because torchrun will end this process
            remedy = f"{job.command} --resume {output} continues from what the first process has saved."
            print(lost, remedy, file=sys.stderr, flush=True)
            raise SystemExit(1)
    if interrupts and not training.is_trained:
        _tell(f"Stopped at step {training.trainer.step}; {job.command} --resume {output} continues.")
        raise KeyboardInterrupt
    _tell(*training.verdict(history))
    return training, history


def _print_results(training: Training, last: StepRow) -> None:
    """Print the results on the test part, if there is one, and the numbers of the last step."""
    if test := training.job.test:
        batches = (test[k] for k in range(_TEST_BATCHES))
        *_, result = evaluate(training.newest.checkpoint().model, batches, last.step)
        _print_result({"test": vars(result)})
    summary = {"steps": last.step, "seconds": round(last.seconds, 3)}
    _print_result({**summary, "mlm_loss": last.mlm_loss, "nsp_loss": last.nsp_loss})


def _print_result(content: Mapping[str, object]) -> None:
    """Print a line of JSON on standard output; a number that was not measured is null there, since JSON has no NaN."""
    measured = json.loads(json.dumps(content), parse_constant=lambda _: None)
    print(json.dumps(measured, ensure_ascii=False))


_Show = Callable[[str], None]


def _prepare(options: argparse.Namespace, device: str, show_stage: _Show) -> tuple[Job, TrainingState | None]:
    """Prepare the training. The other is the state that --resume continues from."""
    state = _read_saved(options) if options.resume else None
    start = state.model if state else None
    corpus: Corpus | None = None
    if options.more_steps is not None and not state:
        raise ConfigError("--more-steps goes on with a saved training; give --resume and its folder.")
    if state:
        recipe = state.recipe
    else:
        settings = dict(map(_setting, options.set))
        if options.corpus and not (options.recipe or options.start):
            asked = CorpusConfig().replace_by_texts({"most_documents": settings.get("corpus.most_documents", "")})
            corpus = _read(options, show_stage, most_documents=asked.most_documents)
            assert corpus is not None
            recipe = recipe_for(corpus)
        else:
            recipe = load_recipe(options.recipe or DEFAULT_RECIPE)
        if options.start:
            recipe = recipe.replace(random_weights=options.random_weights or recipe.random_weights)
            start = _start(options.start, recipe, settings)
            length = {"sequence_length": settings[_LENGTH]} if _LENGTH in settings else {}
            recipe = recipe.going_on_from(options.start, start.config, **length)
        elif options.random_weights:
            raise ConfigError("--random-weights goes with --start; without it, the weights are random anyway.")
        recipe = recipe.override(settings).with_seed(options.seed)
    corpus = corpus or _read(options, show_stage, recipe)
    corpus = state.matching(corpus) if state else corpus
    goes_on_from = start if recipe.start else None
    return prepare(recipe, corpus, device=device, start=goes_on_from, progress=show_stage), state


def _start(name: str, recipe: Recipe, settings: dict[str, str]) -> Checkpoint:
    """The model to go on from, with as many positions as the settings say. Raises ConfigError for other sizes."""
    sizes = {each: value for each, value in settings.items() if each.startswith("model.") and "dropout" not in each}
    positions = sizes.pop(_POSITIONS, None)
    if sizes:
        can = f"the model of --start has its sizes. Only {_POSITIONS} can, to add positions."
        raise ConfigError(f"{min(sizes)} cannot be set: {can}")
    most = None
    if positions:
        most = BertConfig().replace_by_texts({"max_position_embeddings": positions}).max_position_embeddings
    start = load_checkpoint(_model_folder(name), max_positions=most, random_weights=recipe.random_weights)
    _tell(*start.notes)
    return start


def _read_saved(options: argparse.Namespace) -> TrainingState:
    given = [name for name in _OF_A_NEW_RUN if getattr(options, name, None)]
    if given or options.seed is not None:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given) or "--seed"
        raise ConfigError(f"--resume takes all settings from DIR; leave out {named}.")
    state = read_training_state(options.resume)
    is_task = isinstance(state.recipe, FinetuningRecipe)
    if is_task != (options.command is _finetune):
        kind, command = ("fine-tuning", "finetune") if is_task else ("pre-training", "train")
        raise ConfigError(f"{options.resume} holds a saved {kind}; {command} --resume continues it.")
    if (more := getattr(options, "more_steps", None)) is not None:
        training = state.recipe.training
        longer = state.recipe.replace(training=training.then(training.total_steps, more))
        state = dataclasses.replace(state, recipe=longer)
    if state.trainer.step == state.recipe.training.total_steps:
        remedy = "" if is_task else " --more-steps N lets it go on."
        raise RunError(f"This training has done all of its {state.trainer.step:,} steps.{remedy}")
    return state


class _Stop:
    """Whether a step may begin: not at a step to save, nor after an interrupt of this or another process."""

    trainer: Trainer

    def __init__(self, interrupts: list[int], save_every: int) -> None:
        self._interrupts, self._save_every = interrupts, save_every
        self.saved, self.is_interrupted = 0, False

    def may_step(self) -> bool:
        self.is_interrupted = any_wants_to_stop(bool(self._interrupts), self.trainer.step)
        return not (self.is_interrupted or self.is_save_due)

    @property
    def is_save_due(self) -> bool:
        step = self.trainer.step
        return step > self.saved and step % self._save_every == 0


def _run(training: Training, history: list[StepRow], output: Path, stop: _Stop) -> LostProcess | None:
    """Train until the end, an interrupt, or the loss of another process, which it returns. The first of several
    processes saves. Raises RunError when the loss stops being a number."""
    trainer, show_line = training.trainer, _lines()
    steps, stop.saved = trainer.config.total_steps, trainer.step
    with _progress_bar(desc="training", total=steps, initial=trainer.step, unit=" steps") as bar:
        try:
            for event in training:
                match event:
                    case Snapshot():  # the rows of its step come next
                        continue
                    case Evaluation(row=row):
                        if not training.job.is_text:
                            _tell(_epoch_line(row))
                        continue
                    case [*_, StepRow() as last]:
                        history += event
                        _show_step(bar, last, show_line)
                if stop.is_interrupted:
                    break
                if stop.is_save_due:
                    stop.saved = trainer.step
                    if rank() == 0 and trainer.step < steps:
                        _save(training, history, output)
        except LostProcess as error:
            return error
        except RunError as error:
            raise RunError(f"{error} {output} holds the model that was saved last, if any.") from None
    return None


def _save(training: Training, history: list[StepRow], output: Path) -> None:
    """Write the model, the curves as CSV files and, unless a task is learned to its end, the training state."""
    model, state = training.to_save(history)
    is_done = training.is_trained and not training.job.is_text
    save_checkpoint(model.checkpoint(), output, **({} if is_done else {"also": state.write}))
    try:
        if history:  # else it was interrupted before its first step
            _write_csv(output / "metrics.csv", history, precision=training.trainer.config.precision)
        if training.points:
            _write_csv(output / "validation.csv", training.points)
    except PermissionError as error:  # of a table in a spreadsheet's program, on Windows
        saved = "The model is saved, and the numbers are in its training state"
        _tell(f"{error.filename} was not written ({error.strerror}); close it where it is open. {saved}.")


def _read(
    options: argparse.Namespace, show_stage: _Show, recipe: Recipe | None = None, most_documents: int | None = None
) -> Corpus | None:
    """The text that --corpus names, if any, read as the recipe says; --kind and --encoding say otherwise. How it was
    read is told at once, so that it comes before an error that follows from it."""
    kind, encoding = (recipe.text_kind, recipe.corpus.encoding) if recipe else ("auto", None)
    check_seed(options.seed or 0)  # before a long text is read
    if options.corpus:
        show_stage("reading the text")
        corpus = read_corpus(
            options.corpus,
            kind=options.kind or kind,
            encoding=options.encoding or encoding,
            most_documents=recipe.corpus.most_documents if recipe else most_documents,
        )
        first = ", ".join(map(_shown, corpus.sentences[:3]))
        _tell(*corpus.notes, f"It begins with {first}. Its longest sentence: {_shown(corpus.longest)}.")
        return dataclasses.replace(corpus, notes=())
    if options.kind or options.encoding:
        raise ConfigError("--kind and --encoding say how --corpus is read; give a text with it, or leave them out.")
    return None


def _shown(sentence: str) -> str:
    return f"“{sentence}”" if len(sentence) <= _SHOWN_CHARACTERS else f"“{sentence[:_SHOWN_CHARACTERS]}…”"


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--set {text} has no value; write it as training.steps=2000.")
    return name, value


def _given(text: str) -> str:
    """What an option is given; an empty text would count as no option, and an empty path as the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; give a name, or leave the option out.")
    return text


def _path(text: str) -> Path:
    return Path(_given(text))


def _check_file(path: Path) -> None:
    """Raise before the work begins where its result could not be written after it."""
    try:
        with path.open("a") if path.exists() else tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise RunError(f"{path} cannot be written ({error.strerror}); choose another file.") from None


def _write_csv(path: Path, rows: Sequence[StepRow], **constant: str) -> None:
    """Write a line for each row, its details left out. constant: columns at the end, by name, with one value each."""
    names = [name for name in vars(rows[0]) if name not in DETAILS]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, *constant])
        writer.writerows([*(vars(row)[name] for name in names), *constant.values()] for row in rows)


@contextlib.contextmanager
def ended_by(handler: Callable[..., Any]) -> Iterator[dict[int, Any]]:
    """Call `handler` for what asks a program to end: Ctrl-C, SIGTERM and, on Windows, Ctrl-Break and a closed window.
    Yields the handlers so far, by signal: none outside the main thread, which alone hears of signals."""
    names = ("SIGINT", "SIGTERM", "SIGBREAK")
    before = {}
    with contextlib.suppress(ValueError):
        for number in [getattr(signal, name) for name in names if hasattr(signal, name)]:
            before[number] = signal.signal(number, handler)
    try:
        yield before
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextlib.contextmanager
def _delayed_interrupts() -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM in the yielded list, so that a step can end; a second Ctrl-C interrupts at once."""
    interrupts: list[int] = []

    def note(number: int, *_: object) -> None:
        interrupts.append(number)
        # Of several processes, each gets the signal twice: from the terminal and from torchrun.
        if not dist.is_torchelastic_launched():
            signal.signal(number, before[number])

    with ended_by(note) as before:
        yield interrupts


def write_utf8() -> None:
    """Write UTF-8 on standard output and error also where they are redirected and the system prefers another encoding,
    as Windows does. What no text may hold, half of a character, is written as JSON and Python write it: \\ud83d."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a notebook's has no encoding
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _is_closed_pipe(error: OSError) -> bool:
    """Whether the reader of the output, such as `head`, has closed it. Windows calls that an invalid argument."""
    is_invalid = error.errno == errno.EINVAL and error.filename is None
    return isinstance(error, BrokenPipeError) or (sys.platform == "win32" and is_invalid)


def _tell(*notes: str) -> None:
    """Print notes of the first process on standard error: standard output is the result, for other programs."""
    for note in notes if rank() == 0 else ():
        print(note, file=sys.stderr)


def _progress_bar(**options: Any) -> tqdm:
    """A progress bar on standard error, shown on a terminal by the first of several processes."""
    return tqdm(disable=rank() > 0 or not sys.stderr.isatty(), dynamic_ncols=True, **options)


@contextlib.contextmanager
def _stages() -> Iterator[_Show]:
    """What shows the present stage of a preparation."""
    with _progress_bar(bar_format="{desc}", leave=False) as bar:
        yield _lines() if bar.disable else bar.set_description_str


def _lines(clock: Callable[[], float] = time.monotonic) -> _Show:
    """What prints a line of progress on standard error from time to time, where there is no terminal for a bar.

    The first line of a stage is printed at once: its next one may be long in coming.
    """
    due = first = clock() + _FIRST_LINE
    shown = ""

    def show(line: str) -> None:
        nonlocal due, shown
        now, stage = clock(), re.split(r"\d", line, maxsplit=1)[0]
        if (now >= due or (now >= first and stage != shown)) and rank() == 0:
            print(line, file=sys.stderr, flush=True)
            due, shown = now + _LINES, stage

    return show


def _show_step(bar: tqdm, row: StepRow, show_line: _Show) -> None:
    numbers = ", ".join(
        f"{title} {vars(row)[name]:.3f}"
        for name, title in _SHOWN.items()
        if math.isfinite(vars(row).get(name, math.nan))
    )
    bar.set_postfix_str(numbers, refresh=False)
    bar.update(row.step - bar.n)
    if bar.disable:
        show_line(f"step {row.step:,} of {bar.total:,}, {numbers}")


def _epoch_line(point: StepRow) -> str:
    numbers = ", ".join(
        f"{name.replace('_', ' ')} {value:.3f}" for name, value in vars(point).items() if name not in ("step", "epoch")
    )
    return f"epoch {point.epoch:g}, on the validation part: {numbers}"


def _model_folder(name: str) -> Path:
    """The folder of that name, or that of a model that comes with Balcony or, if neither it nor its parent exists, of
    one downloaded from the Hub."""
    path = model_folder(name)
    if not is_hub_name(name) or path.exists() or path.parent.exists():
        return path
    print(f"Fetching {name} from the Hugging Face Hub", file=sys.stderr)
    with _progress_bar(unit="B", unit_scale=True, unit_divisor=1024) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        return fetch_checkpoint(name, progress=show)


def _exam(options: argparse.Namespace) -> None:
    device = choose_device(options.device)
    checkpoint = load_checkpoint(_model_folder(options.model), max_positions=options.max_positions).to(device)
    _tell(*checkpoint.notes)
    with _stages() as show_stage:
        corpus = _read(options, show_stage)
    assert corpus is not None  # --corpus is required
    result = exam(checkpoint, corpus, seed=options.seed)
    if result.window:
        first, last = result.window
        of = f"{len(corpus.sentences):,} (seed {options.seed})"
        _tell(f"The exam takes sentences {first:,} to {last:,} of {of}.")
    tallies = {"words": result.words, "pairs": result.pairs}
    constant = {"words": result.frequent, "pairs": result.label}
    always = {name: [constant[name], each.baseline, each.asked] for name, each in tallies.items()}
    _print_result({"always": always})
    _print_result({name: [each.right, each.asked] for name, each in tallies.items()})


def _finetune(options: argparse.Namespace) -> None:
    output = _output(options)
    with _stages() as show_stage:
        job, state = _prepare_task(options, show_stage)
    count = len(job.parts.train.examples)
    training, history = _learn(options, output, f"{count:,} examples", job, state)
    result, last = Finetuned.of(training, history), history[-1]
    summary = {"task": job.recipe.task, "examples": count, "steps": last.step, "seconds": round(last.seconds, 3)}
    _tell(*result.verdict)
    _print_result({**summary, "validation": result.validation, "test": result.test, "always": result.always})


def _prepare_task(options: argparse.Namespace, show_stage: _Show) -> tuple[Job, TrainingState | None]:
    """Prepare a fine-tuning. The other is the state that --resume continues from."""
    state = None
    if options.resume:
        state = _read_saved(options)
        start = state.model
        recipe = state.recipe
    elif options.recipe:
        recipe = finetuning_recipe(options.recipe)
    elif options.task and options.train:
        recipe = FinetuningRecipe(name="own", task=options.task, title=options.train.name)
    else:
        raise ConfigError("There is nothing to learn. Give --task and --train, or --recipe.")
    if options.task not in (None, recipe.task):
        raise ConfigError(f"The recipe {recipe.name} is for {recipe.task}; leave out --task.")
    how = {name: getattr(options, name) for name in ("encoding", "separator")}
    files = {name: getattr(options, name) for name in ("train", "validation", "test")}
    paths = {name: path for name, path in files.items() if path}
    if paths and "train" not in paths:
        raise ConfigError("--validation and --test go with --train; without it, a recipe's own examples are read.")
    read = functools.partial(load_task, task=recipe.task, **how)
    source = read_parts(read, paths, columns=options.columns) if paths else None
    if state:
        source = state.matching(source)
    elif not options.checkpoint:
        raise ConfigError("There is no model to start from. Give --checkpoint and a folder.")
    else:
        recipe = recipe.override(dict(map(_setting, options.set))).with_seed(options.seed)
        recipe = recipe.replace(random_weights=options.random_weights or recipe.random_weights)
        how = {"max_positions": options.max_positions, "random_weights": recipe.random_weights}
        start = load_checkpoint(_model_folder(options.checkpoint), **how)
        _tell(*start.notes)
    return prepare(recipe, source, device=options.device, start=start, progress=show_stage), state


def _read_examples(
    options: argparse.Namespace, *, only: str | None = None, **how: Any
) -> tuple[Checkpoint, Task, TaskData]:
    """A fine-tuned model, its task, and the examples of --input. only: the task that it must have for --format."""
    if options.output:
        _check_file(options.output)
    checkpoint = load_checkpoint(_model_folder(options.model)).to(choose_device(options.device))
    given = {name: getattr(options, name) for name in ("columns", "encoding", "separator")}
    task, how = task_of(checkpoint), {**given, **how}
    if only not in (None, task.name):
        raise ConfigError(f"--format {options.format} is for {only}; this model does {task.name}.")
    data = load_task(options.input, task.name, model=checkpoint, **how)
    _tell(*data.notes)
    return checkpoint, task, data


def _predict(options: argparse.Namespace) -> None:
    is_squad = options.format == "squad"
    only = QuestionAnswering.name if is_squad else None
    checkpoint, task, data = _read_examples(options, only=only, labelled=False)
    examples: Sequence[Any] = data.examples
    if is_squad:
        check_ids(examples, data.name)
    found: Sequence[Any] = predict(checkpoint, examples, tell=_tell)
    blanks = {*data.blanks}
    assert checkpoint.head is not None
    answers = map(functools.partial(task.as_json, labels=checkpoint.head.labels), examples, found)
    lines = (None if i in blanks else next(answers) for i in range(len(found) + len(blanks)))
    printed = _json_lines([squad_predictions(examples, found)] if is_squad else lines)
    if options.output:
        options.output.write_text("".join(printed), encoding="utf-8")
    else:
        print(*printed, sep="", end="")


def _json_lines(items: Iterable[Any]) -> list[str]:
    return [json.dumps(each, ensure_ascii=False) + "\n" for each in items]


def _evaluate(options: argparse.Namespace) -> None:
    checkpoint, task, data = _read_examples(options)
    _tell(*checkpoint.notes)
    result = review(checkpoint, data)
    _tell(*result.notes)
    if options.output:
        lines = (
            {
                "texts": each.example.texts,
                "right": each.example.label,
                "is_right": each.is_right,
                "answer": task.as_json(each.example, each.prediction, result.labels),
            }
            for each in result.judged
        )
        options.output.write_text("".join(_json_lines(lines)), encoding="utf-8")
    _print_result({"task": task.name, "examples": len(data.examples), **result.measures, "always": result.always})


if __name__ == "__main__":
    sys.exit(main())
