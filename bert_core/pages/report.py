"""A run's report: one HTML file with its recipe, curves, results and views, and the command that repeats it."""

import contextlib
import html
import json
import math
import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import islice

from bert_core.config import HOME
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.errors import InputError, RunError
from bert_core.pages.offline import page
from bert_core.probes.attention import attention, head_facts
from bert_core.probes.masked_words import SweptWord, sweep
from bert_core.runs.recipe import FinetuningRecipe, Recipe, finetuning_recipes
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TASKS, TaskParts
from bert_core.tasks.prediction import Review
from bert_core.training.metrics import StepMetrics

MOST_POINTS = 300  # of a curve; of more steps, each point is the mean of several
PAIRS = 4  # of neighbouring sentences whose words are guessed
MOST_READ = 20_000  # sentences from the start of a text
LONGEST = 40  # tokens in the attention map
MOST_MISTAKES = 20
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 820, 220, 44, 12, 30  # of a chart, in pixels
_SAVE_RECIPE = "Save the recipe below as recipe.json and run this in Balcony's folder:"
_SAVE_MODEL = "Save the model of the initial weights as the folder my-model, then run this in Balcony's folder:"
_RUN = "Run this in Balcony's folder:"
_LOSSES = {"mlm_loss": "MLM loss", "nsp_loss": "NSP loss", "loss": "loss"}
_PREPARED = {"steps", "warmup_steps"}  # computed from the number of epochs


def report(
    checkpoint: Checkpoint,
    recipe: Recipe,
    rows: Sequence[StepMetrics],
    points: Sequence[StepMetrics] = (),
    corpus: Corpus | None = None,
    *,
    verdict: Sequence[str] = (),
) -> str:
    """The report of a pre-training run as an HTML page without scripts, which needs no network.

    checkpoint: the run's model. recipe: with the run's seed. rows: of all steps. points: on held-out text. corpus: its
    text; without it there are no views. verdict: sentences. Raises RunError before the first step.
    """
    facts = _facts(checkpoint, recipe, rows, "pairs")
    pairs = list(_pairs(corpus)) if corpus else []
    chances = {"uniform guess": math.log(checkpoint.config.vocab_size)}
    if corpus:
        chances["word frequency"] = encode_corpus(corpus.excerpt(MOST_READ), checkpoint.tokenizer).unigram_entropy
    text = f"{corpus.name}, {len(corpus.sentences):,} sentences" if corpus else recipe.corpus.needs
    curves = {"training": rows, "held-out": points}
    sections = [
        _chart("MLM loss, nats", "mlm", "mlm_loss", curves, chances),
        _chart("NSP loss, nats", "nsp", "nsp_loss", curves, {"coin toss": math.log(2)}),
        *([_section("Verdict")] if verdict else []),
        *(_tag("p", sentence) for sentence in verdict),
        *_guesses(checkpoint, pairs),
        *_attention(checkpoint, pairs),
    ]
    command = "python -m bert_core train --recipe recipe.json --output repeated"
    command += "" if recipe.corpus.file else " --corpus my-text.txt"
    command += f" --start {shlex.quote(recipe.start)}" if recipe.start else ""
    command += " --random-weights" * recipe.random_weights
    return _page(recipe, {"Text": text, **facts}, sections, _SAVE_RECIPE, command)


def task_report(
    checkpoint: Checkpoint,
    recipe: FinetuningRecipe,
    parts: TaskParts,
    rows: Sequence[StepMetrics],
    points: Sequence[StepMetrics],
    found: Review,
) -> str:
    """The report of a fine-tuning run, as that of `report`.

    checkpoint: the fine-tuned model. recipe, parts: of the run. rows: of all steps. points: on the validation part.
    found: its review of the test part or, without one, of the validation part. Raises RunError before the first step.
    """
    task, name = TASKS[recipe.task], "test" if parts.test else "held-out"
    measure = task.measure.replace("_", " ")
    counts = {"to train": parts.train, "held out": parts.validation, "to test": parts.test}
    facts = {
        "Task": recipe.task.replace("-", " "),
        "Examples": ", ".join(f"{len(each.examples):,} {what}" for what, each in counts.items() if each),
        "Initial weights": "random" if recipe.random_weights else recipe.start,
        **_facts(checkpoint, recipe, rows, "examples"),
    }
    sections = [
        _chart("Loss", "mlm", "loss", {"training": rows, "held-out": points}, {}),
        _chart(f"{measure.capitalize()}, held out", "nsp", task.measure, {"held-out": points}, {}),
        _section("Results"),
        _tag("p", f"On {len(found.judged):,} {name} examples:"),
        _table([(title.replace("_", " "), f"{value:.4f}") for title, value in found.measures.items()]),
    ]
    if found.confusion:
        counted = [(label, *map(str, row)) for label, row in zip(found.labels, found.confusion)]
        about = _tag("p", "Each row is a label, each column what the model predicted:", "muted")
        sections += [about, _table([("", *found.labels), *counted])]
    mistakes = []
    for judged in (each for each in found.judged[:MOST_MISTAKES] if not each.is_right):
        example = judged.example
        answers = (example.in_words(value) or "none" for value in (example.right, judged.prediction.value))
        mistakes.append((*answers, " | ".join(example.texts if task.has_pairs else example.texts[:1])))
    if mistakes:
        titles = ("Right", "Predicted", "Text")
        sections += [_section("Mistakes, the worst first"), _table([titles, *mistakes], named=False)]
    # The page calls a shipped model by its path; the reader saves any other.
    start = f"checkpoints/{recipe.start.removeprefix('checkpoints/')}"
    is_shipped = (HOME / start / "config.json").is_file()
    command = _command(recipe, start if is_shipped else "my-model")
    return _page(recipe, facts, sections, _RUN if is_shipped else _SAVE_MODEL, command)


def _facts(
    checkpoint: Checkpoint, recipe: Recipe | FinetuningRecipe, rows: Sequence[StepMetrics], unit: str
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
    recipe: Recipe | FinetuningRecipe, facts: dict[str, str], sections: Sequence[str], what_to_do: str, command: str
) -> str:
    """The parts that all reports have, around the sections of one."""
    libraries = ("torch", "tokenizers", "numpy")
    versions = ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in libraries)])
    content = [
        _tag("p", recipe.description, "muted"),
        _table(facts.items()),
        _section("Curves"),
        *sections,
        _section("Repeat it"),
        _tag("p", what_to_do),
        _tag("pre", command),
        "<details><summary>recipe.json</summary>",
        _tag("pre", json.dumps(recipe.content(), indent=2, ensure_ascii=False)),
        "</details>",
        _tag("p", f"{versions}, {platform.system()} {platform.machine()}.", "muted"),
    ]
    return page(f"Report: {recipe.title}", "\n".join(content), style="report")


def _command(recipe: FinetuningRecipe, start: str) -> str:
    """The command that repeats the run from the folder `start`: the program's recipe, if it is one, and the changes."""
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


def _tag(name: str, text: str, kind: str = "") -> str:
    """An element that holds a text of any origin."""
    return f'<{name} dir="auto"{f" class={kind}" if kind else ""}>{html.escape(text)}</{name}>'


def _section(title: str) -> str:
    return f"<h2>{title}</h2>"


def _table(rows: Iterable[Sequence[str]], *, named: bool = True) -> str:
    """named: the first cell of a row is its name."""
    lines = ("".join(_tag("td" if i or not named else "th", text) for i, text in enumerate(row)) for row in rows)
    return f"<table><tr>{'</tr><tr>'.join(lines)}</tr></table>"


def _pairs(corpus: Corpus) -> Iterable[tuple[str, str | None]]:
    """Different pairs of neighbouring sentences, evenly spread over the text."""
    read = islice((each for document in corpus.documents for each in zip(document, [*document[1:], None])), MOST_READ)
    neighbours = list(dict.fromkeys(read))
    return neighbours[:: max(2, math.ceil(len(neighbours) / PAIRS))]  # no sentence twice


def _chart(
    title: str, hue: str, name: str, curves: Mapping[str, Sequence[StepMetrics]], chances: dict[str, float]
) -> str:
    """A number over the steps, in a colour of the style sheet, with what chance reaches; "" where none was measured."""
    known = {kind: [row for row in rows if math.isfinite(getattr(row, name))] for kind, rows in curves.items()}
    if not any(known.values()):
        return ""
    steps = max(row.step for rows in known.values() for row in rows)
    drawn = {kind: _thinned([(row.step, getattr(row, name)) for row in rows]) for kind, rows in known.items() if rows}
    top = 1.05 * max([*chances.values(), *(loss for curve in drawn.values() for _, loss in curve)])

    def at(step: float, loss: float) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT) * step / steps
        return round(x, 1), round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - max(0.0, loss / top)), 1)

    parts = [f'<path class="axis" d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH}"/>']
    for loss in (0, top / 2, top):
        parts.append(f'<text x="{_LEFT - 6}" y="{at(0, loss)[1] + 4}" text-anchor="end">{loss:.2f}</text>')
    for step in (0, steps // 2, steps):
        anchor = "end" if step == steps else "middle"
        parts.append(f'<text x="{at(step, 0)[0]}" y="{_HEIGHT - 12}" text-anchor="{anchor}">{step:,}</text>')
    for i, (label, loss) in enumerate(chances.items()):
        y = at(0, loss)[1]
        parts.append(f'<path class="chance" d="M{_LEFT} {y}H{_WIDTH}"/>')
        parts.append(f'<text x="{_WIDTH}" y="{y + 13 if i else y - 4}" text-anchor="end">{label}, {loss:.2f}</text>')
    for kind, curve in drawn.items():
        path = " ".join(f"{x},{y}" for x, y in (at(*point) for point in curve))
        parts.append(f'<polyline class="curve {kind}" points="{path}"/>')
    held_out = "; dashed: held out" if drawn.keys() > {"held-out"} else ""
    return (
        f'<figure class="{hue}"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{title} over the steps">'
        f"{''.join(parts)}</svg><figcaption>{title}, over the steps{held_out}</figcaption></figure>"
    )


def _thinned(curve: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """At most MOST_POINTS points, each the mean of several."""
    size = math.ceil(len(curve) / MOST_POINTS)
    groups = [curve[start : start + size] for start in range(0, len(curve), size)]
    return [tuple(sum(column) / len(group) for column in zip(*group)) for group in groups]


def _guesses(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str | None]]) -> list[str]:
    """Pairs of sentences whose words were masked one at a time, the guess above every word that was guessed wrong."""
    lines: list[str] = []
    asked = right = 0
    for text, after in pairs:
        with contextlib.suppress(InputError):  # too long a pair
            swept = sweep(checkpoint, text, after, top_k=1)
            marked = [_guessed(word) for word in swept.words]
            lines.append(f'<p class="guesses" dir="auto" translate="no">{" ".join(marks for marks, _ in marked)}</p>')
            asked, right = asked + len(marked), right + sum(is_right for _, is_right in marked)
    if not asked:
        return []
    about = (
        f"Each word was hidden and guessed from the others: {right:,} of {asked:,} right. Wrong guesses stand above."
    )
    return [_section("Masked words"), _tag("p", about, "muted"), *lines]


def _guessed(swept: SweptWord) -> tuple[str, bool]:
    """The word as HTML, and whether its likeliest pieces are its own."""
    guess = [likeliest[0][0] for likeliest in swept.rivals]
    word = html.escape(swept.word.text)
    if guess == list(swept.word.pieces):
        return f"<ruby>{word}</ruby>", True
    return f'<ruby class="wrong">{word}<rt>{html.escape(" ".join(guess))}</rt></ruby>', False


def _attention(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str | None]]) -> list[str]:
    """The head with the lowest entropy as a map of the first pair that is short enough."""
    for text, after in pairs:
        with contextlib.suppress(InputError):
            maps = attention(checkpoint, text, after)
            if len(maps.tokens) <= LONGEST:
                break
    else:
        return []
    entropy = head_facts(maps).facts["entropy"]
    layer, head = divmod(int(entropy.argmin()), entropy.shape[1])
    titles = [f'<th translate="no">{html.escape(token)}</th>' for token in maps.tokens]
    rows = [f"<td></td>{''.join(titles)}"]
    for title, weights in zip(titles, maps.weights[layer, head].tolist()):
        cells = (f'<td style="opacity: {weight**0.5:.2f}" title="{weight:.3f}"></td>' for weight in weights)
        rows.append(title + "".join(cells))
    about = (
        f"Layer {layer + 1}, head {head + 1}, the head with the lowest entropy here, {entropy.min():.2f} nats. "
        "A row is the token that attends, a column the token it attends to; a stronger colour is a larger weight."
    )
    return [
        _section("Attention"),
        '<figure><table class="weights" role="img" aria-label="Attention of one head">'
        f"<tr>{'</tr><tr>'.join(rows)}</tr></table>{_tag('figcaption', about)}</figure>",
    ]
