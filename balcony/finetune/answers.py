"""A fine-tuned model's answers as the page shows them: about labelled examples, and about the page's sentences."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from balcony.frame.page_request import PageRequest
from balcony.frame.shown_model import caption
from balcony.parts.export import Row
from balcony.parts.notes import unknown_note
from balcony.parts.task_input import example_of, hint_of, not_used
from balcony.parts.verdicts import FEWEST, MOST_JUDGED
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import Model, is_finetuning
from bert_core.errors import InputError, RunError, percent
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskParts
from bert_core.tasks.prediction import Judged, Review, label_in_words, predict, review, task_of
from bert_core.tasks.task import Example, Prediction
from bert_core.tasks.token_classification import places

MOST_SHOWN = 12  # examples
MOST_BARS = 8
LONGEST_SHOWN = 4_000  # characters of a text
COLUMNS = ("text", "pair", "label", "guess", "right")
NO_EXAMPLES = "Fine-tune a model first; its answers about held-out examples can be saved then."
NOTHING = "no answer"

Span = tuple[str, int, int]  # kind, first character, and the one after the last
Pieces = list[list[str]]  # of a text: [characters, kind], "" between the marked ones


class TaskModel(NamedTuple):
    """A model that does a task. key, step: by which the page shows it. parts: its run's examples, if there is a run."""

    model: Model
    key: str
    step: int | None
    parts: TaskParts | None


def task_model(asked: PageRequest) -> TaskModel | None:
    """The shown model if it does a task, else that of the newest run that fine-tunes; None if there is neither.

    Of a run it is the best step, unless the page shows another."""
    space, question = asked.space, asked.question
    run = space.runs.get(question.model)
    if run is None and asked.checkpoint.head is not None:
        return TaskModel(asked.model, question.model, None, None)
    is_shown = run is not None and is_finetuning(run)
    run = run if is_shown else space.finetuning_run
    best = run.best.step if run and run.best else None
    step = question.step if is_shown and question.step is not None else best
    if run is None or (found := space.checkpoint(run, step)) is None:
        return None
    model = Model(space.title(run.id), f"step {found[0]:,}", found[1])
    return TaskModel(model, run.id, found[0], run.job.parts if run.job else None)


def results_value(asked: PageRequest) -> dict[str, Any]:
    """How the fine-tuned model does on held-out examples, {} without a model. See `Results` in
    balcony/finetune/results.js."""
    if (shown := task_model(asked)) is None:
        return {}
    checkpoint = shown.model.checkpoint
    value: dict[str, Any] = {
        "key": shown.key,
        "step": shown.step,
        "name": caption(shown.model),
        "task": task_of(checkpoint).name,
    }
    if shown.parts is None:
        return value
    found, name = _reviewed(checkpoint, shown.parts)
    return value | {
        "part": f"{len(found.judged):,} {name} examples",
        "notes": [*other_examples(shown.parts), *few_examples(len(found.judged)), *found.notes],
        "measures": [[title.replace("_", " "), round(number, 4)] for title, number in found.measures.items()],
        "count": len(found.judged),
        "always": found.always_right,
        "mistakes": sum(each.is_right is False for each in found.judged),
        "labels": list(found.labels),
        "confusion": found.confusion,
        "examples": [example_value(each, found.labels) for each in found.judged[:MOST_SHOWN]],
    }


def other_examples(parts: TaskParts) -> list[str]:
    if parts.test is None or parts.validation is None:
        return []
    count = len(parts.validation.examples)
    return [f"The curve is of {count:,} held-out examples after each epoch, these numbers are of the test examples."]


def few_examples(count: int) -> list[str]:
    said = f"So few held-out examples ({count}) measure nothing: one more right moves the accuracy by "
    said += f"{percent(1 / count)}. Give a test file, or at least {10 * FEWEST} examples."
    return [said] if count < FEWEST else []


def result_rows(value: dict[str, Any]) -> list[Row]:
    """A row for each shown example. Raises InputError without examples."""
    if "examples" not in value:
        raise InputError(NO_EXAMPLES)
    return [{name: each.get(name) for name in COLUMNS} for each in value["examples"]]


def _reviewed(checkpoint: Checkpoint, parts: TaskParts) -> tuple[Review, str]:
    """How a model does on examples that it has not learned from, and what these are called."""
    part = parts.test or parts.validation
    if part is None:
        raise RunError("The examples of this run are no longer kept; fine-tune it again.")
    with probe_lock:
        return review(checkpoint, part.sample(MOST_JUDGED, 0)), "test" if parts.test else "held-out"


def example_value(judged: Judged, labels: Sequence[str]) -> dict[str, Any]:
    """A labelled example beside what the model predicted."""
    found = prediction_value(judged.example, judged.prediction, labels)
    return labelled(judged.example) | {"right": judged.is_right} | found


def labelled(example: Example) -> dict[str, Any]:
    """An example, whose label it has as "true" or as "label"."""
    text = example.texts[0]
    value: dict[str, Any] = {"text": text[:LONGEST_SHOWN]}
    if example.words is not None:
        return value | {"true": cut(text, places(example, example.label or ()))}
    value["label"] = label_in_words(example, example.label) or NOTHING
    if isinstance(example.label, int):
        return value | {"choices": list(example.texts[1:])}
    return value | {"pair": "".join(example.texts[1:])[:LONGEST_SHOWN]}


def tried_value(asked: PageRequest) -> dict[str, Any]:
    """The fine-tuned model's answer about the page's sentences, {} without a model, {"hint"} without a sentence."""
    if (shown := task_model(asked)) is None:
        return {}
    checkpoint, question = shown.model.checkpoint, asked.question
    if (example := example_of(checkpoint, question)) is None:
        return {"hint": hint_of(checkpoint)}
    cut_notes: list[str] = []
    with probe_lock:
        [found] = predict(checkpoint, [example], tell=cut_notes.append)
    assert checkpoint.head is not None
    value = prediction_value(example, found, checkpoint.head.labels)
    notes = [*unknown_note(checkpoint, question.text), *not_used(checkpoint, question), *cut_notes]
    return value | {"name": caption(shown.model), "notes": notes}


def prediction_value(example: Example, found: Prediction, labels: Sequence[str]) -> dict[str, Any]:
    """A prediction: "guess" in words, "bars" with the likeliest answers, "marked" with the parts of a text."""
    if example.words is not None:
        return {"marked": cut(example.texts[0], places(example, found.label))}
    if found.answers:
        best, context = found.answers[0], example.texts[1]
        bars = [[answer.text or NOTHING, round(answer.probability, 6)] for answer in found.answers[:MOST_BARS]]
        span = [("answer", best.start, best.start + len(best.text))] if best.text else []
        return {"guess": best.text or NOTHING, "bars": bars, "marked": cut(context[:LONGEST_SHOWN], span)}
    names = example.texts[1:] if isinstance(found.label, int) else labels
    likeliest = sorted(zip(names, found.probabilities), key=lambda each: -each[1])[:MOST_BARS]
    bars = [[name, round(probability, 6)] for name, probability in likeliest]
    return {"guess": label_in_words(example, found.label), "bars": bars}


def cut(text: str, marks: Sequence[Span]) -> Pieces:
    """A text in pieces, of which some have a kind. marks: in order, not overlapping."""
    pieces, end = [], 0
    for kind, start, after in marks:
        pieces += [[text[end:start], ""], [text[start:after], kind]]
        end = after
    return [piece for piece in [*pieces, [text[end:], ""]] if piece[0]]
