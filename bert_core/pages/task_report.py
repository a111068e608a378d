"""A fine-tuning run's report: one HTML file with its recipe, curves, results and mistakes, and the command again."""

import shlex
from collections.abc import Iterator, Sequence

from bert_core.config import ASSETS
from bert_core.errors import RunError
from bert_core.pages.offline import page
from bert_core.pages.report import chart, how_to_repeat, model_facts, section, table, tag
from bert_core.runs.recipe import FinetuningRecipe, finetuning_recipes
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TASKS, TaskParts
from bert_core.tasks.prediction import Judged, Review
from bert_core.tasks.tuning import EpochMetrics, TaskMetrics

MOST_MISTAKES = 20
_COLUMNS = ("Right", "Predicted", "Text")
_NOTHING = "none"
_RUN = "Run this in Balcony's folder:"
_SAVE_FIRST = "Save the model of the initial weights as the folder my-model, then run this in Balcony's folder:"
_SAVED = "my-model"
_PREPARED = {"steps", "warmup_steps"}  # computed from the number of epochs


def task_report(
    checkpoint: Checkpoint,
    recipe: FinetuningRecipe,
    parts: TaskParts,
    rows: Sequence[TaskMetrics],
    points: Sequence[EpochMetrics],
    found: Review,
) -> str:
    """The report as an HTML page without scripts, which needs no network.

    checkpoint: the fine-tuned model. recipe, parts: of the run. rows: of all steps. points: on the validation part.
    found: its review of the test part or, without one, of the validation part. Raises RunError before the first step.
    """
    if not rows:
        raise RunError("This run has no step yet, so there is nothing to report; train it first.")
    start = _start_folder(recipe.start)
    part, last, task = "test" if parts.test else "held-out", rows[-1], TASKS[recipe.task]
    counts = {"to train": parts.train, "held out": parts.validation, "to test": parts.test}
    facts = {
        "Task": recipe.task.replace("-", " "),
        "Examples": ", ".join(f"{len(each.examples):,} {what}" for what, each in counts.items() if each),
        "Initial weights": "random" if recipe.random_weights else recipe.start,
        "Model": model_facts(checkpoint.config),
        "Training": f"{last.step:,} of {recipe.training.steps:,} steps of {recipe.data.batch_size} examples, "
        f"{last.seconds:,.1f} s, seed {recipe.seed}",
        "Last step": f"loss {last.loss:.4f}",
    }
    curves = {
        "training": [(row.step, row.loss) for row in rows],
        "held-out": [(each.step, each.loss) for each in points],
    }
    measures = {"held-out": [(each.step, getattr(each, task.measure)) for each in points]}
    name = task.measure.replace("_", " ")
    mistakes = [_mistake(each, task.has_pairs) for each in found.judged[:MOST_MISTAKES] if not each.is_right]
    content = [
        tag("p", recipe.description, "muted"),
        table(facts.items()),
        section("Curves"),
        chart("Loss", "mlm", curves, {}),
        chart(f"{name.capitalize()}, held out", "nsp", measures, {}),
        section("Results"),
        tag("p", f"On {len(found.judged):,} {part} examples:"),
        table([(title.replace("_", " "), f"{value:.4f}") for title, value in found.measures.items()]),
        *_confusion(found),
        *([section("Mistakes, the worst first"), table([_COLUMNS, *mistakes], named=False)] if mistakes else []),
        *how_to_repeat(recipe, _command(recipe, start), _SAVE_FIRST if start == _SAVED else _RUN),
    ]
    return page(f"Report: {recipe.title}", "\n".join(content), style="report")


def _command(recipe: FinetuningRecipe, start: str) -> str:
    """The command that repeats the run from the folder `start`: its recipe, if the program has it, with what was
    changed."""
    known = {each.name: each for each in finetuning_recipes()}.get(recipe.name)
    base = known or FinetuningRecipe(recipe.name, recipe.task, "")
    settings = [
        f"{section}.{name}={value}"
        for section in ("data", "training")
        for name, value in vars(getattr(recipe, section)).items()
        if name not in _PREPARED or recipe.training.epochs is None
        if value is not None and value != getattr(getattr(base, section), name) and name != "parts"
    ]
    words = ["python", "-m", "bert_core", "finetune", *(["--recipe", known.name] if known else ["--task", recipe.task])]
    names = (f'"{name}"' if "," in name else name for name in recipe.columns)
    chosen = ["--columns", ",".join(names)] if recipe.columns else []
    words += [] if recipe.files else ["--train", "my-examples.tsv", *chosen]
    words += ["--checkpoint", start, *(["--random-weights"] if recipe.random_weights else [])]
    words += ["--seed", str(recipe.seed), "--output", "repeated", *(["--set", *settings] if settings else [])]
    return shlex.join(words)


def _start_folder(name: str) -> str:
    """The folder of a shipped model, which the page calls by its path, or else the one that the reader is to save."""
    folder = f"checkpoints/{name.removeprefix('checkpoints/')}"
    return folder if (ASSETS.parent / folder / "config.json").is_file() else _SAVED


def _confusion(found: Review) -> Iterator[str]:
    """How often each label was predicted as each."""
    if found.confusion:
        rows = [(label, *map(str, row)) for label, row in zip(found.labels, found.confusion)]
        yield tag("p", "Each row is a label, each column what the model predicted:", "muted")
        yield table([("", *found.labels), *rows])


def _mistake(judged: Judged, has_pairs: bool) -> tuple[str, str, str]:
    """What is right, what the model predicted, and the example's text."""
    example, found = judged.example, judged.prediction
    right, predicted = (example.in_words(value) or _NOTHING for value in (example.right, found.value))
    return right, predicted, " | ".join(example.texts if has_pairs else example.texts[:1])
