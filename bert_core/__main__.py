"""The command line: python -m bert_core COMMAND --help; docs/command-line.md shows each command."""

import argparse
import contextlib
import csv
import dataclasses
import functools
import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tqdm import tqdm

from bert_core.config import CORPUS_KINDS, VERSION, check_seed, pair_names
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.data.decoding import ENCODINGS
from bert_core.device import choose_device, gpu_fault
from bert_core.errors import BertCoreError, ConfigError, RunError, percent, quoted, reason_of
from bert_core.model import BertForPreTraining
from bert_core.probes.reading import token_text
from bert_core.probes.sentence_pairs import exam
from bert_core.runs import recipe as recipes
from bert_core.runs.jobs import Job, TaskJob, prepare
from bert_core.runs.recipe import FinetuningRecipe, Recipe
from bert_core.runs.train import Event, Training, TrainingState, measured, read_training_state
from bert_core.storage.checkpoint import Checkpoint, check_saving, load_checkpoint, model_folder, save_checkpoint
from bert_core.storage.hub import fetch_checkpoint, is_hub_name
from bert_core.storage.weights import CONFIG
from bert_core.tasks.examples import TASKS, TaskData, load_task, read_parts
from bert_core.tasks.prediction import in_words, label_in_words, predict, review, task_of
from bert_core.tasks.tables import ColumnsError
from bert_core.tasks.task import Example
from bert_core.training import DETAILS, StepRow, any_wants_to_stop, evaluate, joined, rank

_OF_A_NEW_RUN = ("recipe", "start", "set", "task", "checkpoint", "random_weights", "max_positions", "seed")
_LENGTH, _MOST = "data.sequence_length", "corpus.most_documents"
_SHOWN = {"mlm_loss": "MLM loss", "nsp_loss": "NSP loss", "loss": "loss", "accuracy": "accuracy"}
_SHOWN_CHARACTERS = 100  # of a sentence
_TEST_BATCHES = 20  # of the test part, after the training


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0, or 1 after printing an error to standard error, or 130 after Ctrl-C."""
    write_utf8()
    options = _parser().parse_args(arguments)
    try:
        if options.device == "auto" and (fault := gpu_fault()):
            print(f"The GPU cannot be used ({fault}), so this runs on the CPU.", file=sys.stderr)
        check_seed(getattr(options, "seed", None) or 0)  # before a long text is read
        options.work(options)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except Exception as error:
        if not (said := _said_of(error)):
            raise
        print(*said, sep="\n", file=sys.stderr)
        return 1
    return 0


def _said_of(error: Exception) -> list[str]:
    if isinstance(error, ColumnsError):
        rows = ["  ".join(f"{i}: {quoted(field)}" for i, field in enumerate(row, 1)) for row in error.columns.first]
        remedy = "Add --columns with their names, or with numbers from 1, such as --columns 1,2."
        return [*error.notes, str(error), *rows, remedy]
    if isinstance(error, BertCoreError):
        return [*error.notes, str(error)]
    if isinstance(error, OSError):
        return [f"{error.filename or 'The output'} cannot be used ({error.strerror or error})."]
    return [reason] if (reason := reason_of(error)) else []


# --- Options ---------------------------------------------------------------------------------------------------------


def _given(text: str) -> str:
    """What an option is given; an empty text would count as no option, and an empty path as the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; give a name, or leave the option out.")
    return text


def _path(text: str) -> Path:
    return Path(_given(text))


_NAME, _FILE = {"type": _given, "metavar": "FOLDER_OR_NAME"}, {"type": _path, "metavar": "FILE"}
_FOLDER, _COUNT = {"type": _path, "metavar": "DIR"}, {"type": int, "metavar": "N"}
_TEXT, _FLAG = {"type": _given, "metavar": "TEXT"}, {"action": "store_true"}
_SEVERAL = {"nargs": "+", "action": "extend"}
_SETTINGS = _SEVERAL | {"default": [], "metavar": "SETTING=VALUE"}

_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "model": (_NAME, "a Hugging Face folder, or owner/model on the Hub"),
    "--recipe": ({"type": _given}, "a name, such as romeo-juliet, or a JSON file; default: by --corpus or --task"),
    "--corpus": (_FILE | _SEVERAL, "a text: files or folders of files, one after the other; default: the recipe's"),
    "--kind": ({"choices": CORPUS_KINDS}, "how --corpus is split into sentences; default: the recipe's, else auto"),
    "--start": (_NAME, "a model to go on from: its tokenizer, sizes and weights; by default they are random"),
    "--checkpoint": (_NAME, "the model to start from"),
    "--random-weights": (_FLAG, "keep only the tokenizer and the sizes of that model, a folder that needs no weights"),
    "--max-positions": (_COUNT, "read up to N tokens, more than the model did; the new positions are untrained"),
    "--resume": (_FOLDER, "continue the training in this folder, bit for bit"),
    "--output": (_FOLDER, "the folder to write; of predict and evaluate, a file with a line of JSON for each example"),
    "--overwrite": (_FLAG, "replace a model that --output already holds"),
    "--save-splits": (_FOLDER, "write the texts to train on and held out as files there, which --corpus reads"),
    "--save-every": ({"type": int, "default": 1000}, "steps between two saves; it is saved at the end, too"),
    "--set": (_SETTINGS, "for example training.learning_rate=0.001"),
    "--task": ({"choices": TASKS}, "the kind of task; default: the recipe's"),
    "--train": (_FILE, "columns of texts and a label, SWAG's csv, SQuAD's JSON, or words with tags"),
    "--validation": (_FILE, "examples to choose the best epoch by; by default, a tenth of --train is held out"),
    "--test": (_FILE, "examples to measure the result on"),
    "--input": (_FILE | {"required": True}, "examples; predict reads no labels"),
    "--columns": (
        {"default": "", "metavar": "NAME,NAME"},
        "the texts and then the label, or the word and the tag, by name or number from 1; default: usual names",
    ),
    "--separator": (_TEXT, "of columns, such as ; or tab or space; default: tab, _!_, comma or semicolon, as found"),
    "--seed": ({"type": int}, "of all that is drawn; default: the recipe's, else 0"),
    "--encoding": ({"choices": ENCODINGS}, "of the text; default: UTF-8, or what is found"),
    "--device": ({"default": "auto"}, "cpu, cuda, or cuda:1 for the second GPU; by default cuda if there is one"),
}
_TABLE = ["--columns", "--separator"]
_LEARNING = [
    "--random-weights",
    "--max-positions",
    "--set",
    "--seed",
    "--output",
    "--overwrite",
    "--save-every",
    "--resume",
]


def _parser() -> argparse.ArgumentParser:
    program = "balcony" if Path(sys.argv[0]).stem in ("balcony", "app") else "python -m bert_core"
    parser = argparse.ArgumentParser(prog=program, description="Train a small BERT and examine it.")
    parser.add_argument("--version", action="version", version=f"balcony {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    options_of = {
        _train: ["--recipe", "--corpus", "--kind", "--start", *_LEARNING, "--save-splits"],
        _finetune: ["--recipe", "--task", "--train", "--validation", "--test", *_TABLE, "--checkpoint", *_LEARNING],
        _exam: ["model", "--corpus", "--kind", "--seed", "--max-positions"],
        _predict: ["model", "--input", *_TABLE, "--output"],
        _evaluate: ["model", "--input", *_TABLE, "--output"],
    }
    for work, names in options_of.items():
        about = str(work.__doc__)
        command = commands.add_parser(work.__name__[1:], help=about.splitlines()[0], description=about)
        command.set_defaults(work=work)
        for option in (*names, "--encoding", "--device"):
            how, meaning = _OPTIONS[option]
            command.add_argument(option, help=meaning, **how)
    return parser


# --- Learning --------------------------------------------------------------------------------------------------------


def _train(options: argparse.Namespace) -> None:
    """Train a model and write it as a Hugging Face folder.

    Ctrl-C and SIGTERM save it and end the training. Several GPUs or machines share each batch: torchrun
    --nproc-per-node N -m bert_core train ..."""
    output, device = _output(options), choose_device(options.device)
    with joined(device):
        with _stages() as show_stage:
            job, state = _prepare_text(options, device, show_stage)
        used, given = sum(len(part.sentences) for part in job.parts if part), len(job.source.sentences)
        if options.save_splits and rank() == 0:
            _save_splits(job, options.save_splits, options.overwrite)
        about = f"{used:,}{f' of {given:,}' * (used < given)} sentences"
        about += f", {job.tokenizer.get_vocab_size():,} tokens in the vocabulary"
        training = _learn(options, output, about, job, state)
        if rank() > 0:
            return
        last, model = training.history[-1], training.newest.checkpoint().model
        _tell(*_pair(job, model, last.step))
        if job.test:
            *_, result = evaluate(model, (job.test[k] for k in range(_TEST_BATCHES)), last.step)
            _print_result({"test": vars(result)})
        losses = {"mlm_loss": last.mlm_loss, "nsp_loss": last.nsp_loss}
        _print_result({"steps": last.step, "seconds": round(last.seconds, 3), **losses})


def _save_splits(job: Job, folder: Path, overwrite: bool) -> None:
    """Write each part of a text as a file of its name. Raises ConfigError for files that are there already."""
    parts = {folder / f"{name}.txt": part for name, part in zip(("train", "validation", "test"), job.parts)}
    if there := next((path for path in parts if path.exists() and not overwrite), None):
        raise ConfigError(f"{there} is there already. Give another folder, or --overwrite to replace it.")
    folder.mkdir(parents=True, exist_ok=True)
    for path, part in parts.items():
        path.unlink(missing_ok=True)  # of another split
        if part:
            path.write_text(part.text, encoding="utf-8", newline="\n")
            kind = "pairs" if "\t" in part.text else "lines"
            _tell(f"{path}: {len(part.sentences):,} sentences, for --corpus with --kind {kind}")


@torch.no_grad()
def _pair(job: Job, model: BertForPreTraining, step: int) -> Iterator[str]:
    """A line on what the model makes of the first pair of a step that hides a word, and lines on its words."""
    batch, known = job.batches[step], job.tokenizer.get_vocab_size()
    row = (batch.labels >= 0).any(1).int().argmax()
    ids, segments, mask, labels, pair = (each[row].to(model.device) for each in vars(batch).values())
    found, asked = model(ids[None], mask[None], segments[None]), labels >= 0
    lines = ids[mask > 0], labels[asked], found.prediction_logits[0, asked, :known].argmax(-1)
    names = ("Now it reads of the training text:", "Hidden words:", "Guessed:")
    for name, line in zip(names, lines):
        yield " ".join([name, *(token_text(job.tokenizer, token) for token in line.tolist())])
    if pair >= 0 and job.recipe.training.nsp_weight:
        answers = pair_names(job.recipe.corpus.pair_label)
        yield f"The pair is {answers[pair]}, and judged {answers[found.seq_relationship_logits[0].argmax()]}."


def _example(checkpoint: Checkpoint, example: Example) -> str:
    [found] = predict(checkpoint, [example])
    sure = max(found.probabilities, default=0) or max((each.probability for each in found.answers), default=0)
    labels = (label_in_words(example, each) for each in (example.label, found.label))
    right, answer = (_shown(each) if each else "nothing" for each in labels)
    texts = " ".join(map(_shown, example.texts))
    how = f" ({percent(sure)})" if sure else ""
    return f"For example {texts}: right {right}, answered {answer}{how}"


def _finetune(options: argparse.Namespace) -> None:
    """Let a model learn a task from labelled examples.

    Ctrl-C and SIGTERM save the best epoch so far and end it."""
    output = _output(options)
    with _stages() as show_stage:
        job, state = _prepare_task(options, show_stage)
    count = len(job.parts.train.examples)
    training = _learn(options, output, f"{count:,} examples", job, state)
    (found, said), last = measured(training), training.history[-1]
    _tell(*said)
    summary = {"task": job.recipe.task, "examples": count, "steps": last.step, "seconds": round(last.seconds, 3)}
    _print_result({**summary, **found})


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


_Show = Callable[[str], None]
_Prepared = tuple[Job, TrainingState | None]  # the other is what --resume continues from


def _prepare_text(options: argparse.Namespace, device: str, show_stage: _Show) -> _Prepared:
    if state := _read_saved(options):
        same = state.matching(_read_text(options, show_stage, state.recipe))
        start = state.model if state.recipe.start else None
        return prepare(state.recipe, same, device=device, start=start, progress=show_stage), state
    settings, start = _settings(options), None
    recipe = recipes.load_recipe(options.recipe or recipes.DEFAULT_RECIPE)
    most = {name: value for name, value in settings.items() if name == _MOST}
    corpus = _read_text(options, show_stage, recipe.override(most))
    if corpus and not (options.recipe or options.start):
        recipe = recipes.recipe_for(corpus)
    if options.start:
        recipe = recipe.replace(random_weights=options.random_weights or recipe.random_weights)
        start = _open(options, options.start, random_weights=recipe.random_weights)
        lengths = {"sequence_length": settings[_LENGTH]} if _LENGTH in settings else {}
        recipe = recipe.going_on_from(options.start, start, **lengths)
    elif options.random_weights or options.max_positions:
        raise ConfigError("--random-weights and --max-positions go with --start; give it, or leave them out.")
    recipe = recipe.override(settings).with_seed(options.seed)
    return prepare(recipe, corpus, device=device, start=start, progress=show_stage), None


def _prepare_task(options: argparse.Namespace, show_stage: _Show) -> _Prepared:
    state = _read_saved(options)
    if state:
        recipe = state.recipe
    elif options.recipe:
        recipe = recipes.finetuning_recipe(options.recipe)
    elif options.task and options.train:
        recipe = FinetuningRecipe(name="own", task=options.task, title=options.train.name)
    else:
        raise ConfigError("There is nothing to learn. Give --task and --train, or --recipe.")
    if options.task not in (None, recipe.task):
        raise ConfigError(f"The recipe {recipe.name} is for {recipe.task}; leave out --task.")
    paths = {name: path for name in ("train", "validation", "test") if (path := getattr(options, name))}
    if paths and "train" not in paths:
        raise ConfigError("--validation and --test go with --train; without it, a recipe's own examples are read.")
    read = functools.partial(load_task, task=recipe.task, encoding=options.encoding, separator=options.separator)
    parts = read_parts(read, paths, columns=options.columns) if paths else None
    if state:
        parts, start = state.matching(parts), state.model
    elif not options.checkpoint:
        raise ConfigError("There is no model to start from. Give --checkpoint and a folder.")
    else:
        recipe = recipe.override(_settings(options)).with_seed(options.seed)
        recipe = recipe.replace(random_weights=options.random_weights or recipe.random_weights)
        start = _open(options, options.checkpoint, random_weights=recipe.random_weights)
    return prepare(recipe, parts, device=options.device, start=start, progress=show_stage), state


def _settings(options: argparse.Namespace) -> dict[str, str]:
    pairs = [text.partition("=") for text in options.set]
    if wrong := next((name for name, equals, _ in pairs if not equals), None):
        raise ConfigError(f"--set {wrong} has no value; write it as training.steps=2000.")
    settings = {name: value for name, _, value in pairs}
    sizes = [name for name in settings if name.startswith("model.") and "dropout" not in name]
    if sizes and getattr(options, "start", None):
        raise ConfigError(
            f"{sizes[0]} cannot be set: the model of --start has its sizes; --max-positions adds positions."
        )
    return settings


def _read_saved(options: argparse.Namespace) -> TrainingState | None:
    if not options.resume:
        return None
    if given := [name for name in _OF_A_NEW_RUN if getattr(options, name, None) not in (None, False, [])]:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ConfigError(f"--resume takes all settings from DIR; leave out {named}.")
    state = read_training_state(options.resume)
    is_task = isinstance(state.recipe, FinetuningRecipe)
    if is_task != (options.command == "finetune"):
        kind, command = ("fine-tuning", "finetune") if is_task else ("pre-training", "train")
        raise ConfigError(f"{options.resume} holds a saved {kind}; {command} --resume continues it.")
    if len(state.history) == state.recipe.training.total_steps:
        raise RunError(f"This training has done all of its {len(state.history):,} steps.")
    return state


def _read_text(options: argparse.Namespace, show_stage: _Show, recipe: Recipe) -> Corpus | None:
    """The text that --corpus names, if any, read as the recipe says; --kind and --encoding say otherwise. How it was
    read is told at once, so that it comes before an error that follows from it."""
    if not options.corpus:
        if options.kind or options.encoding:
            raise ConfigError("--kind and --encoding say how --corpus is read; give a text with it, or leave them out.")
        return None
    show_stage("reading the text")
    corpus = read_corpus(
        options.corpus,
        kind=options.kind or recipe.text_kind,
        encoding=options.encoding or recipe.corpus.encoding,
        most_documents=recipe.corpus.most_documents,
    )
    first = ", ".join(map(_shown, corpus.sentences[:3]))
    _tell(*corpus.notes, f"It begins with {first}. Its longest sentence: {_shown(max(corpus.sentences, key=len))}.")
    return dataclasses.replace(corpus, notes=())


def _shown(sentence: str) -> str:
    return f"“{sentence[:_SHOWN_CHARACTERS]}{'…' * (len(sentence) > _SHOWN_CHARACTERS)}”"


def _learn(options: argparse.Namespace, output: Path, about: str, job: Job, state: TrainingState | None) -> Training:
    """Train until the end and save; an interrupt saves too, says how to continue, and ends the program."""
    is_stopped = False

    def may_step() -> bool:
        nonlocal is_stopped
        is_stopped = any_wants_to_stop(bool(interrupts), trainer.step)
        return not is_stopped

    with _delayed_interrupts() as interrupts:
        training = Training(job, state, may_step)
        trainer = training.trainer
        training.kept_steps = range(0, trainer.config.total_steps, options.save_every)
        size, precision = f"{job.config.parameter_count():,} parameters", trainer.config.precision
        _tell(*job.notes, f"{job.recipe.title}: {about}, {size}, in {precision} on {job.device}")
        with _bar(trainer.step, trainer.config.total_steps) as bar:
            try:
                for event in training:
                    _show(event, bar, training)
                    if is_stopped:
                        break
                    last = event[-1].step if isinstance(event, list) and event else None
                    if last == trainer.step and last in training.kept_steps:
                        _save(training, output)
            except RunError as error:
                raise RunError(f"{error} {output} holds the model that was saved last, if any.") from None
        _save(training, output)
    if interrupts and not training.is_trained:
        _tell(f"Stopped at step {trainer.step}; {options.command} --resume {output} continues.")
        raise KeyboardInterrupt
    _tell(*job.verdict(training.history, training.points))
    return training


def _show(event: Event, bar: tqdm, training: Training) -> None:
    """Show the last row of an event and, of a task, two lines for each epoch: its numbers and an example."""
    job = training.job
    match event:
        case StepRow() if isinstance(job, TaskJob):
            bar.clear()
            numbers = {name: value for name, value in vars(event).items() if name not in ("step", "epoch")}
            _tell(f"epoch {event.epoch:g}, on the validation part: {in_words(numbers)}")
            _tell(_example(training.newest.checkpoint(), job.parts.validation.examples[0]))
        case [*_, StepRow() as last]:
            _show_step(bar, last)


def _show_step(bar: tqdm, row: StepRow) -> None:
    bar.set_postfix({title: vars(row)[name] for name, title in _SHOWN.items() if name in vars(row)}, refresh=False)
    bar.update(row.step - bar.n)


def _save(training: Training, output: Path) -> None:
    """Write the model, the curves as CSV files and, unless a task is learned to its end, the training state; the first
    of several processes does."""
    if rank() > 0:
        return
    model, state = training.to_save()
    is_done = training.is_trained and isinstance(training.job, TaskJob)
    save_checkpoint(model, output, **({} if is_done else {"also": state.write}))
    if training.history:  # else it was interrupted before its first step
        _write_csv(output / "metrics.csv", training.history)
    if training.points:
        _write_csv(output / "validation.csv", training.points)


def _write_csv(path: Path, rows: Sequence[StepRow]) -> None:
    names = [name for name in vars(rows[0]) if name not in DETAILS]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([vars(row)[name] for name in names] for row in rows)


# --- A trained model -------------------------------------------------------------------------------------------------


def _exam(options: argparse.Namespace) -> None:
    """Mask every word and judge every pair of a text.

    The seed chooses the window of a long text."""
    device = choose_device(options.device)
    checkpoint = _open(options, options.model).to(device)
    with _stages() as show_stage:
        corpus = _read_text(options, show_stage, recipes.load_recipe(recipes.DEFAULT_RECIPE))
    if corpus is None:
        raise ConfigError("There is no text to mask and judge. Give --corpus and a file.")
    seed = options.seed or 0
    result = exam(checkpoint, corpus, seed=seed)
    if result.window:
        first, last = result.window
        of = f"{len(corpus.sentences):,} (seed {seed})"
        _tell(f"The exam takes sentences {first:,} to {last:,} of {of}.")
    tallies = {"words": (result.words, result.frequent), "pairs": (result.pairs, result.label)}
    _print_result({"always": {name: [answer, of.baseline, of.asked] for name, (of, answer) in tallies.items()}})
    _print_result({name: [of.right, of.asked] for name, (of, _) in tallies.items()})


def _read_examples(options: argparse.Namespace, *, labelled: bool) -> tuple[Checkpoint, TaskData]:
    checkpoint = _open(options, options.model).to(choose_device(options.device))
    given = {name: getattr(options, name) for name in ("columns", "encoding", "separator")}
    data = load_task(options.input, task_of(checkpoint).name, model=checkpoint, labelled=labelled, **given)
    if options.output:
        options.output.open("a").close()  # an error comes before the work
    _tell(*data.notes)
    return checkpoint, data


def _predict(options: argparse.Namespace) -> None:
    """Apply a fine-tuned model to examples.

    Each line of the input after its header gets a line of JSON, null if it is empty; of a file with a word a line, and
    of SQuAD's JSON, each sentence or question."""
    checkpoint, data = _read_examples(options, labelled=False)
    found, labels = predict(checkpoint, data.examples, tell=_tell), checkpoint.head.labels if checkpoint.head else ()
    answers = (data.kind.as_json(each, guess, labels) for each, guess in zip(data.examples, found))
    lines = (None if i in data.blanks else next(answers) for i in range(len(found) + len(data.blanks)))
    _write_lines(lines, options.output)


def _evaluate(options: argparse.Namespace) -> None:
    """Measure a fine-tuned model on labelled examples.

    --output gets the worst mistakes first: the texts, what is right, and what the model says."""
    checkpoint, data = _read_examples(options, labelled=True)
    result = review(checkpoint, data)
    _tell(*result.notes)
    if options.output:
        lines = (
            {
                "texts": each.example.texts,
                "right": each.example.label,
                "is_right": each.is_right,
                "answer": data.kind.as_json(each.example, each.prediction, result.labels),
            }
            for each in result.judged
        )
        _write_lines(lines, options.output)
    _print_result({"task": data.task, "examples": len(data.examples), **result.measures, "always": result.always})


def _open(options: argparse.Namespace, name: str, random_weights: bool = False) -> Checkpoint:
    """The model in a folder, one that comes with Balcony or, where neither the folder nor its parent exists, one from
    the Hub. Its notes are told."""
    folder = model_folder(name)
    if is_hub_name(name) and not (folder.exists() or folder.parent.exists()):
        _tell(f"Fetching {name} from the Hugging Face Hub")
        folder = fetch_checkpoint(name)
    positions = getattr(options, "max_positions", None)
    checkpoint = load_checkpoint(folder, max_positions=positions, random_weights=random_weights)
    _tell(*checkpoint.notes)
    return checkpoint


# --- Output ----------------------------------------------------------------------------------------------------------


def _print_result(content: Mapping[str, object]) -> None:
    """Print a line of JSON on standard output; a number that was not measured is null there, since JSON has no NaN."""
    measured = json.loads(json.dumps(content), parse_constant=lambda _: None)
    print(json.dumps(measured, ensure_ascii=False))


def _write_lines(items: Iterable[object], path: Path | None) -> None:
    with path.open("w", encoding="utf-8") if path else contextlib.nullcontext(sys.stdout) as file:
        file.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in items)


def _tell(*notes: str) -> None:
    """Print notes of the first process on standard error: standard output is the result, for other programs."""
    for note in notes if rank() == 0 else ():
        print(note, file=sys.stderr)


def _bar(done: int, total: int) -> tqdm:
    """A bar of progress on standard error, of the first of several processes; in a file, it changes seldom."""
    options = {"disable": rank() > 0, "mininterval": 0.1 if sys.stderr.isatty() else 10.0}
    return tqdm(desc="training", total=total, initial=done, unit=" steps", dynamic_ncols=True, **options)


@contextlib.contextmanager
def _stages() -> Iterator[_Show]:
    """What shows the present stage of a preparation, on a terminal."""
    with tqdm(bar_format="{desc}", leave=False, disable=rank() > 0 or None) as bar:
        yield bar.set_description_str


def write_utf8() -> None:
    """Write UTF-8 on standard output and error also where they are redirected and the system prefers another encoding,
    as Windows does. What no text may hold, half of a character, is written as JSON and Python write it: \\ud83d."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a notebook's has no encoding
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


@contextlib.contextmanager
def ended_by(handler: Callable[..., object]) -> Iterator[dict[int, Callable[..., Any] | int | None]]:
    """Call `handler` for what asks a program to end: Ctrl-C, SIGTERM and, on Windows, Ctrl-Break and a closed window.
    Yields the handlers so far, by signal: none outside the main thread, which alone hears of signals."""
    before = {}
    with contextlib.suppress(ValueError):
        for number in [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)]:
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


if __name__ == "__main__":
    sys.exit(main())
