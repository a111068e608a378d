"""Examples of a task, how a model reads them, and a fine-tuned model's answers about them and the page's sentences."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from balcony.frame.page_request import PageRequest
from balcony.frame.shown_model import caption
from balcony.parts.export import Row as FileRow
from balcony.parts.export import python_code
from balcony.parts.notes import unknown_note
from balcony.parts.task_input import example_of, hint_of, not_used
from balcony.parts.verdicts import FEWEST, MOST_JUDGED
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import Model, is_finetuning
from bert_core.config import FinetuningData
from bert_core.errors import InputError, RunError, percent
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskData, TaskParts
from bert_core.tasks.prediction import (
    Judged,
    label_in_words,
    layout_of,
    predict,
    review,
    task_logits,
    task_of,
    task_rows,
)
from bert_core.tasks.question_answering import Candidate, QuestionAnswering, candidates
from bert_core.tasks.task import Example, Layout, Prediction, Row
from bert_core.tasks.token_classification import places

SAMPLES = 3  # before a model has learned the task
MOST_SHOWN = 12  # examples
MOST_BARS = 8
MOST_CANDIDATES = 5  # of a window
LONGEST_SHOWN = 4_000  # characters of a text
NOTHING = "no answer"
NO_QUESTION = "Fine-tune a model on questions first; the windows and candidates of a question can be saved then."

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
    """How the fine-tuned model does on examples that it has not learned from, {} without a model. See `Results` in
    balcony/finetune/results.js."""
    if (shown := task_model(asked)) is None:
        return {}
    checkpoint, parts = shown.model.checkpoint, shown.parts
    task, title = task_of(checkpoint).name, caption(shown.model)
    value: dict[str, Any] = {"key": shown.key, "step": shown.step, "name": title, "task": task}
    if parts is None:
        return value
    if (part := parts.test or parts.validation) is None:
        raise RunError("The examples of this run are no longer kept; fine-tune it again.")
    with probe_lock:
        found = review(checkpoint, part.sample(MOST_JUDGED, 0))
    count, right = len(found.judged), [each.is_right for each in found.judged]
    examples = f"{count:,} {'test' if parts.test else 'held-out'} examples"
    verdict = f"{right.count(True)} of {examples} right."
    verdict += f" Always giving one and the same answer would be right for {found.always_right}."
    return value | {
        "verdict": f"On {examples}:" if None in right else verdict,
        "notes": [*of_the_curve(parts), *few_examples(count), *found.notes],
        "measures": [[title.replace("_", " "), number] for title, number in found.measures.items()],
        "labels": found.labels,
        "confusion": found.confusion,
        "examples": [example_value(each, found.labels) for each in found.judged[:MOST_SHOWN]],
    }


def of_the_curve(parts: TaskParts) -> list[str]:
    if parts.test is None or parts.validation is None:
        return []
    count = len(parts.validation.examples)
    return [f"The curve is of {count:,} held-out examples after each epoch, these numbers are of the test examples."]


def few_examples(count: int) -> list[str]:
    said = f"So few held-out examples ({count}) measure nothing: one more right moves the accuracy by "
    said += f"{percent(1 / count)}. Give a test file, or at least {10 * FEWEST} examples."
    return [said] if count < FEWEST else []


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


def samples_value(data: TaskData, checkpoint: Checkpoint, config: FinetuningData) -> dict[str, Any]:
    """Three examples, with different labels where they have them, and the first of them as the rows that a model reads.
    Raises CorpusError for one that the model cannot read."""
    first: dict[str, Example] = {}
    for example in data.examples[:MOST_JUDGED]:
        first.setdefault(label_in_words(example, example.label), example)
    chosen = [first[label] for label in sorted(first, key=lambda label: not label)]  # entities and answers first
    chosen += [example for example in data.examples[: 2 * SAMPLES] if example not in chosen]
    config, task = config.within(checkpoint.config.max_position_embeddings), data.kind
    rows = task.rows(chosen[:1], Layout(data.labels(), checkpoint.tokenizer, config))
    shown = rows if task.has_choices else ([row for row in rows if row.answer] or rows)[:1]
    figure = {
        "task": task.name,
        "layers": checkpoint.config.num_hidden_layers,
        "pooler": checkpoint.config.pooler,
        "rows": [
            {"tokens": [checkpoint.tokenizer.id_to_token(token) for token in row.ids], "second": row.second}
            for row in shown
        ],
        "of": 1 if task.has_choices else len(rows),
        "contextFirst": config.context_first,
        "read": read_at(chosen[0], shown[0]),
    }
    return {"examples": [labelled(example) for example in chosen[:SAMPLES]], "figure": figure}


def read_at(example: Example, row: Row) -> list[tuple[int, str]]:
    """Positions of a row where the answer is read, each with what is read there; the number of the right choice."""
    if row.offsets is not None:
        assert row.target is not None
        [[start, end]] = row.target.tolist()
        return [(start, "start"), (end, "end")]
    if row.positions is not None and row.words is not None:
        return [(int(at), example.label[word]) for at, word in zip(row.positions, row.words)]
    return [(example.label if isinstance(example.label, int) else 0, label_in_words(example, example.label))]


def windows_value(asked: PageRequest, most: int | None = MOST_CANDIDATES) -> dict[str, Any]:
    """The windows of the asked question, {} where the model answers none: a row for each candidate, `most` of a window,
    or for a window that has none. start, end: the window's tokens of the context, the last one excluded, of which the
    window before has `overlap` too."""
    if (shown := _asked_question(asked)) is None:
        return {}
    checkpoint, example, name = shown
    config, (_, context) = layout_of(checkpoint).config, example.texts
    with probe_lock:
        rows = task_rows(checkpoint, example)
        logits = task_logits(checkpoint, rows)
    listed, before = list[FileRow](), rows[0].window.start
    for number, (row, scores) in enumerate(zip(rows, logits), 1):
        window, empty = row.window, dict.fromkeys(("answer", "first", "last", "start_logit", "end_logit", "score"))
        place = {"id": name, "window": number, "start": window.start, "end": window.stop}
        place["overlap"], before = before - window.start, window.stop
        found = candidates(context, row, scores, config.best_answers, config.longest_answer)[:most]
        listed += [{**place, **_candidate_value(context, scores, each)} for each in found] or [{**place, **empty}]
    return {"rows": listed}


def _candidate_value(context: str, scores: np.ndarray, found: Candidate) -> FileRow:
    """first, last: tokens of the window's row."""
    ends = {"start_logit": float(scores[found.start, 0]), "end_logit": float(scores[found.end, 1])}
    answer = {"answer": context[slice(*found.span)], "first": found.start, "last": found.end}
    return {**answer, **ends, "score": found.score}


def _asked_question(asked: PageRequest) -> tuple[Checkpoint, Example, str] | None:
    """The model, the question with its context, and its id among the run's examples, "" for one that was typed."""
    if (shown := task_model(asked)) is None:
        return None
    checkpoint = shown.model.checkpoint
    if task_of(checkpoint).name != QuestionAnswering.name:
        return None
    if (example := example_of(checkpoint, asked.question)) is None:
        return None
    parts = [shown.parts.train, *shown.parts.others] if shown.parts else []
    known = (each.name for part in parts for each in part.examples if each.texts == example.texts)
    return checkpoint, example, next(known, "")


def windows_code(asked: PageRequest) -> str:
    """Python code for the same. Raises InputError where no question is asked."""
    if (shown := _asked_question(asked)) is None:
        raise InputError(NO_QUESTION)
    checkpoint, example, _ = shown
    config = layout_of(checkpoint).config
    return python_code(
        checkpoint,
        f"question, context = {example.texts!r}",
        "rows = task_rows(checkpoint, (question, context))",
        "[row.window for row in rows]  # tokens of the context",
        "windows = zip(rows, task_logits(checkpoint, rows))",
        f"[candidates(context, *window, {config.best_answers}, {config.longest_answer}) for window in windows]",
    )
