"""A run's report: one HTML file with its recipe, curves, results and views, and the command that repeats it.

The template is assets/report.html; it escapes all texts.
"""

import contextlib
import functools
import json
import math
import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, Template
from tokenizers import Tokenizer

from balcony.parts.labels import in_words
from bert_core.config import ASSETS, HOME
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.errors import InputError, RunError
from bert_core.probes.attention import attention, head_facts
from bert_core.probes.masked_words import SweptWord, sweep
from bert_core.runs.recipe import FinetuningRecipe, Recipe, finetuning_recipes
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TASKS, TaskParts
from bert_core.tasks.prediction import Review
from bert_core.training.objective import StepRow

MOST_POINTS = 300  # of a curve; of more steps, each point is the mean of several
PAIRS = 4  # of neighbouring sentences whose words are guessed
MOST_READ = 20_000  # sentences from the start of a text
LONGEST = 40  # tokens in the attention map
MOST_MISTAKES = 20
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 820, 220, 44, 12, 190  # of a chart, and of its axes, in pixels
_SAVE_RECIPE = "Save the recipe below as recipe.json and run this in Balcony's folder:"
_SAVE_MODEL = "Save the model of the initial weights as the folder my-model, then run this in Balcony's folder:"
_RUN = "Run this in Balcony's folder:"
_LOSSES = {"mlm_loss": "MLM loss", "nsp_loss": "NSP loss", "loss": "loss"}
_PREPARED = {"steps", "warmup_steps"}  # computed from the number of epochs


def frequency_loss(corpus: Corpus, tokenizer: Tokenizer) -> float:
    """The MLM loss of a model that knows only how often each token occurs: the entropy of that, in nats."""
    counts = np.unique(encode_corpus(corpus.part(0, MOST_READ), tokenizer).ids, return_counts=True)[1]
    frequencies = counts / counts.sum()
    return float(-(frequencies * np.log(frequencies)).sum())


def report(
    checkpoint: Checkpoint,
    recipe: Recipe,
    rows: Sequence[StepRow],
    points: Sequence[StepRow] = (),
    corpus: Corpus | None = None,
    *,
    verdict: Sequence[str] = (),
) -> str:
    """The report of a pre-training run as an HTML page without scripts, which needs no network.

    checkpoint: the run's model. recipe: with the run's seed. rows: of all steps. points: on held-out text. corpus: its
    text; without it there are no views. verdict: sentences. Raises RunError before the first step.
    """
    facts = _facts(checkpoint, recipe, rows, "pairs")
    pairs = _pairs(corpus) if corpus else []
    chances = {"uniform guess": math.log(checkpoint.config.vocab_size)}
    if corpus:
        chances["word frequency"] = frequency_loss(corpus, checkpoint.tokenizer)
    text = f"{corpus.name}, {len(corpus.sentences):,} sentences" if corpus else recipe.corpus.needs
    curves = {"training": rows, "held-out": points}
    command = "python -m bert_core train --recipe recipe.json --output repeated"
    command += "" if recipe.corpus.file else " --corpus my-text.txt"
    command += f" --start {shlex.quote(recipe.start)}" if recipe.start else ""
    command += " --random-weights" * recipe.random_weights
    return _page(
        recipe,
        facts={"Text": text, **facts},
        charts=[
            _chart("MLM loss, nats", "mlm", "mlm_loss", curves, chances),
            _chart("NSP loss, nats", "nsp", "nsp_loss", curves, {"coin toss": math.log(2)}),
        ],
        verdict=verdict,
        guesses=_guesses(checkpoint, pairs),
        head=_sharpest_head(checkpoint, pairs),
        what_to_do=_SAVE_RECIPE,
        command=command,
    )


def task_report(
    checkpoint: Checkpoint,
    recipe: FinetuningRecipe,
    parts: TaskParts,
    rows: Sequence[StepRow],
    points: Sequence[StepRow],
    found: Review,
) -> str:
    """The report of a fine-tuning run, as that of `report`.

    checkpoint: the fine-tuned model. recipe, parts: of the run. rows: of all steps. points: on the validation part.
    found: its review of the test part or, without one, of the validation part. Raises RunError before the first step.
    """
    task = TASKS[recipe.task]
    measure = task.measure.replace("_", " ")
    counts = {"to train": parts.train, "held out": parts.validation, "to test": parts.test}
    # The page calls a shipped model by its path; the reader saves any other.
    start = f"checkpoints/{recipe.start.removeprefix('checkpoints/')}"
    is_shipped = (HOME / start / "config.json").is_file()
    return _page(
        recipe,
        facts={
            "Task": recipe.task.replace("-", " "),
            "Examples": ", ".join(f"{len(each.examples):,} {what}" for what, each in counts.items() if each),
            "Initial weights": "random" if recipe.random_weights else recipe.start,
            **_facts(checkpoint, recipe, rows, "examples"),
        },
        charts=[
            _chart("Loss", "mlm", "loss", {"training": rows, "held-out": points}, {}),
            _chart(f"{measure.capitalize()}, held out", "nsp", task.measure, {"held-out": points}, {}),
        ],
        judged=f"{len(found.judged):,} {'test' if parts.test else 'held-out'}",
        measures=[(title.replace("_", " "), f"{value:.4f}") for title, value in found.measures.items()],
        confusion=found.confusion
        and [("", *found.labels), *((label, *row) for label, row in zip(found.labels, found.confusion))],
        mistakes=_mistakes(found),
        what_to_do=_RUN if is_shipped else _SAVE_MODEL,
        command=_command(recipe, start if is_shipped else "my-model"),
    )


def _mistakes(found: Review) -> list[tuple[str, ...]]:
    """The rows of a table of the worst mistakes, its titles first; none without mistakes."""
    wrong = [judged for judged in found.judged[:MOST_MISTAKES] if not judged.is_right]
    rows = []
    for example, prediction in ((judged.example, judged.prediction) for judged in wrong):
        texts = example.texts if isinstance(example.label, str | float) else example.texts[:1]
        answers = (in_words(example, label) or "none" for label in (example.label, prediction.label))
        rows.append((*answers, " | ".join(texts)))
    return [("Right", "Predicted", "Text"), *rows] if rows else []


def _facts(
    checkpoint: Checkpoint, recipe: Recipe | FinetuningRecipe, rows: Sequence[StepRow], unit: str
) -> dict[str, str]:
    """What is known about every run. unit: what a batch is made of."""
    if not rows:
        raise RunError("This run has no step yet, so there is nothing to report; train it first.")
    config, last = checkpoint.config, rows[-1]
    return {
        "Model": f"{config.in_words}, {config.num_attention_heads} heads, "
        f"{config.parameter_count():,} parameters, {config.vocab_size:,} tokens",
        "Training": f"{last.step:,} of {recipe.training.total_steps:,} steps of {recipe.data.batch_size} {unit}, "
        f"{last.seconds:,.1f} s, seed {recipe.seed}",
        "Last step": ", ".join(f"{_LOSSES[name]} {getattr(last, name):.4f}" for name in last.losses),
    }


def _page(
    recipe: Recipe | FinetuningRecipe,
    *,
    facts: Mapping[str, str],
    charts: Sequence[dict[str, Any] | None],
    **parts: Any,
) -> str:
    """The template with what all reports have and the parts of one."""
    libraries = ("torch", "tokenizers", "numpy")
    versions = [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in libraries)]
    return _template().render(
        title=recipe.title,
        description=recipe.description,
        style=(ASSETS / "css" / "report.css").read_text(encoding="utf-8"),
        facts=facts.items(),
        charts=[chart for chart in charts if chart],
        settings=json.dumps(recipe.content(), indent=2, ensure_ascii=False),
        versions=f"{', '.join(versions)}, {platform.system()} {platform.machine()}",
        **parts,
    )


@functools.cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(ASSETS, encoding="utf-8"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html")


def _command(recipe: FinetuningRecipe, start: str) -> str:
    """The command that repeats the run from the folder `start`: the program's recipe, if it is one, and the changes."""
    known = {each.name: each for each in finetuning_recipes()}.get(recipe.name)
    base = known or FinetuningRecipe(name=recipe.name, task=recipe.task, title="")
    used, usual = recipe.content(), base.content()
    settings = [
        f"{section}.{name}={value}"
        for section in ("data", "training")
        for name, value in used[section].items()
        if name not in _PREPARED or recipe.training.epochs is None
        if value is not None and value != usual[section].get(name) and name != "parts"
    ]
    words = ["python", "-m", "bert_core", "finetune", *(["--recipe", known.name] if known else ["--task", recipe.task])]
    names = (f'"{name}"' if "," in name else name for name in recipe.columns)
    chosen = ["--columns", ",".join(names)] if recipe.columns else []
    words += [] if recipe.files else ["--train", "my-examples.tsv", *chosen]
    words += ["--checkpoint", start, *(["--random-weights"] if recipe.random_weights else [])]
    words += ["--seed", str(recipe.seed), "--output", "repeated", *(["--set", *settings] if settings else [])]
    return shlex.join(words)


def _pairs(corpus: Corpus) -> list[tuple[str, str | None]]:
    """Different pairs of neighbouring sentences, evenly spread over the text."""
    read = islice((each for document in corpus.documents for each in zip(document, [*document[1:], None])), MOST_READ)
    neighbours = list(dict.fromkeys(read))
    return neighbours[:: max(2, math.ceil(len(neighbours) / PAIRS))]  # no sentence twice


def _chart(
    title: str, hue: str, name: str, curves: Mapping[str, Sequence[StepRow]], chances: Mapping[str, float]
) -> dict[str, Any] | None:
    """A number over the steps, in a colour of the style sheet, with what chance reaches; None where none was measured.
    All places are in pixels."""
    measured = {
        kind: [(row.step, getattr(row, name)) for row in rows if math.isfinite(getattr(row, name))]
        for kind, rows in curves.items()
    }
    drawn = {kind: _thinned(curve) for kind, curve in measured.items() if curve}
    if not drawn:
        return None
    steps = max(step for curve in measured.values() for step, _ in curve)
    top = 1.05 * max([*chances.values(), *(value for curve in drawn.values() for _, value in curve)])

    def x(step: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT) * step / steps, 1)

    def y(value: float) -> float:
        return round(_TOP + (_BOTTOM - _TOP) * (1 - max(0.0, value / top)), 1)

    return {
        "title": title,
        "hue": hue,
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": _LEFT,
        "top": _TOP,
        "bottom": _BOTTOM,
        "levels": [(y(value), f"{value:.2f}") for value in (0, top / 2, top)],
        "steps": [(x(step), f"{step:,}") for step in (0, steps // 2, steps)],
        "chances": [(y(value), f"{label}, {value:.2f}") for label, value in chances.items()],
        "curves": {kind: " ".join(f"{x(step)},{y(value)}" for step, value in curve) for kind, curve in drawn.items()},
    }


def _thinned(curve: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """At most MOST_POINTS points, each the mean of several."""
    size = math.ceil(len(curve) / MOST_POINTS)
    groups = [curve[start : start + size] for start in range(0, len(curve), size)]
    return [tuple(sum(column) / len(group) for column in zip(*group)) for group in groups]


def _guesses(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str | None]]) -> dict[str, Any] | None:
    """Pairs of sentences whose words were masked one at a time, with each guess that was wrong."""
    lines = [[*_guessed(checkpoint, *pair)] for pair in pairs]
    asked = sum(map(len, lines))
    right = sum(wrong is None for line in lines for _, wrong in line)
    return {"lines": [line for line in lines if line], "asked": f"{asked:,}", "right": f"{right:,}"} if asked else None


def _guessed(checkpoint: Checkpoint, text: str, after: str | None) -> Iterator[tuple[str, str | None]]:
    """Each word of a pair, and the likeliest pieces where they are not its own. Too long a pair has none."""
    swept: Sequence[SweptWord] = ()
    with contextlib.suppress(InputError):
        swept = sweep(checkpoint, text, after, top_k=1).words
    for each in swept:
        guess = [likeliest[0][0] for likeliest in each.rivals]
        yield each.word.text, None if guess == list(each.word.pieces) else " ".join(guess)


def _sharpest_head(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str | None]]) -> dict[str, Any] | None:
    """The head with the lowest entropy on the first pair that is short enough; None where none is."""
    for text, after in pairs:
        with contextlib.suppress(InputError):
            maps = attention(checkpoint, text, after)
            if len(maps.tokens) <= LONGEST:
                entropy = head_facts(maps)["entropy"]
                layer, head = divmod(int(entropy.argmin()), entropy.shape[1])
                rows = [*zip(maps.tokens, maps.weights[layer, head].tolist())]
                shown = {"tokens": maps.tokens, "rows": rows, "entropy": f"{entropy.min():.2f}"}
                return {**shown, "layer": layer + 1, "head": head + 1}
    return None
