"""A run's report: one HTML file with its recipe, curves and results, and the command that repeats it.

The template is assets/report.html; it escapes all texts.
"""

import functools
import json
import math
import platform
import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, Template
from tokenizers import Tokenizer

from balcony.server.news import thin
from bert_core.config import ASSETS
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.errors import RunError
from bert_core.runs.recipe import Recipe
from bert_core.storage.checkpoint import Checkpoint
from bert_core.training import StepRow

MOST_POINTS = 300  # of a curve; of more steps, each point is the mean of several
MOST_READ = 20_000  # sentences from the start of a text
_LOSSES = {"mlm_loss": "MLM loss", "nsp_loss": "NSP loss"}


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
    text. verdict: sentences. Raises RunError before the first step.
    """
    facts = _facts(checkpoint, recipe, rows)
    chances = {"uniform guess": math.log(checkpoint.config.vocab_size)}
    if corpus:
        chances["word frequency"] = frequency_loss(corpus, checkpoint.tokenizer)
    text = f"{corpus.name}, {len(corpus.sentences):,} sentences" if corpus else recipe.corpus.needs
    curves = {"training": rows, "held-out": points}
    command = "python -m bert_core train --recipe recipe.json --output repeated"
    command += "" if recipe.corpus.file else " --corpus my-text.txt"
    command += f" --start {shlex.quote(recipe.start)}" if recipe.start else ""
    command += " --random-weights" * recipe.random_weights
    charts = [
        _chart("MLM loss, nats", "mlm", "mlm_loss", curves, chances),
        _chart("NSP loss, nats", "nsp", "nsp_loss", curves, {"coin toss": math.log(2)}),
    ]
    versions = [f"Python {platform.python_version()}"]
    versions += [f"{name} {version(name)}" for name in ("torch", "tokenizers", "numpy")]
    return _template().render(
        title=recipe.title,
        description=recipe.description,
        style=(ASSETS / "css" / "report.css").read_text(encoding="utf-8"),
        facts={"Text": text, **facts}.items(),
        charts=[chart for chart in charts if chart],
        verdict=verdict,
        command=command,
        settings=json.dumps(recipe.content(), indent=2, ensure_ascii=False),
        versions=f"{', '.join(versions)}, {platform.system()} {platform.machine()}",
    )


def _facts(checkpoint: Checkpoint, recipe: Recipe, rows: Sequence[StepRow]) -> dict[str, str]:
    if not rows:
        raise RunError("This run has no step yet, so there is nothing to report; train it first.")
    config, last = checkpoint.config, rows[-1]
    return {
        "Model": f"{config.in_words}, {config.num_attention_heads} heads, "
        f"{config.parameter_count():,} parameters, {config.vocab_size:,} tokens",
        "Training": f"{last.step:,} of {recipe.training.total_steps:,} steps of {recipe.data.batch_size} pairs, "
        f"{last.seconds:,.1f} s, seed {recipe.seed}",
        "Last step": ", ".join(f"{_LOSSES[name]} {getattr(last, name):.4f}" for name in last.losses),
    }


@functools.cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(ASSETS, encoding="utf-8"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html")


def _chart(
    title: str, hue: str, name: str, curves: Mapping[str, Sequence[StepRow]], chances: Mapping[str, float]
) -> dict[str, Any] | None:
    """A number over the steps, in a colour of the style sheet, with what chance reaches; None if none was measured."""
    points = {
        kind: [(step or 0, value) for step, value in thin(rows, MOST_POINTS, [name]) if value is not None]
        for kind, rows in curves.items()
    }
    measured = [point for curve in points.values() for point in curve]
    if not measured:
        return None
    return {
        "title": title,
        "hue": hue,
        "steps": max(step for step, _ in measured),
        "top": 1.05 * max([*chances.values(), *(value for _, value in measured)]),
        "chances": chances,
        "curves": {
            kind: " ".join(f"{step},{value}" for step, value in curve) for kind, curve in points.items() if curve
        },
    }
