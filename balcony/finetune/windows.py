"""The windows in which a long context is read for a question, and the candidates of each before one is chosen."""

from collections.abc import Iterator
from typing import Any

from balcony.finetune.answers import task_model
from balcony.frame.page_request import PageRequest
from balcony.parts.export import Row, python_code
from balcony.parts.task_input import example_of
from balcony.server.probe_lock import probe_lock
from bert_core.errors import InputError
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskParts
from bert_core.tasks.prediction import layout_of, task_logits, task_of, task_rows
from bert_core.tasks.question_answering import QuestionAnswering, candidates
from bert_core.tasks.task import Example

MOST_SHOWN = 5  # candidates of a window
NO_QUESTION = "Fine-tune a model on questions first; the windows and candidates of a question can be saved then."


def windows_value(asked: PageRequest, most: int | None = MOST_SHOWN) -> dict[str, Any]:
    """The windows of the asked question, {} where the model answers none. Each has its tokens of the context, from
    `start` to before `end`, how many of them the window before it has too, and its candidates, `most` at most."""
    if (shown := _asked(asked)) is None:
        return {}
    checkpoint, example, parts = shown
    config, (_, context) = layout_of(checkpoint).config, example.texts
    with probe_lock:
        rows = task_rows(checkpoint, example)
        found = task_logits(checkpoint, rows)
    windows, before = list[dict[str, Any]](), rows[0].window.start
    for row, logits in zip(rows, found):
        own = candidates(context, row, logits, config.best_answers, config.longest_answer)
        listed = [
            {
                "answer": context[slice(*each.span)],
                "start_token": each.start,
                "end_token": each.end,
                "start_logit": float(logits[each.start, 0]),
                "end_logit": float(logits[each.end, 1]),
                "score": each.score,
            }
            for each in own[:most]
        ]
        place = {"start": row.window.start, "end": row.window.stop, "overlap": before - row.window.start}
        windows.append({**place, "count": len(own), "candidates": listed})
        before = row.window.stop
    return {"id": id_of(example, parts), "most": MOST_SHOWN, "windows": windows}


def _asked(asked: PageRequest) -> tuple[Checkpoint, Example, TaskParts | None] | None:
    if (shown := task_model(asked)) is None:
        return None
    checkpoint = shown.model.checkpoint
    example = example_of(checkpoint, asked.question) if task_of(checkpoint).name == QuestionAnswering.name else None
    return None if example is None else (checkpoint, example, shown.parts)


def id_of(example: Example, parts: TaskParts | None) -> str:
    """The id of a question of the examples of a run, "" for one that was typed."""
    known = (each for part in [parts.train, *parts.others] for each in part.examples) if parts else iter(())
    return next((each.name for each in known if each.texts == example.texts), "")


def window_rows(value: dict[str, Any]) -> Iterator[Row]:
    """A row for each candidate, or for a window that has none. Raises InputError where no question is asked."""
    if not value:
        raise InputError(NO_QUESTION)
    empty = dict.fromkeys(("answer", "start_token", "end_token", "start_logit", "end_logit", "score"))
    for number, window in enumerate(value["windows"], 1):
        place = {"id": value["id"], "window": number, **{name: window[name] for name in ("start", "end", "overlap")}}
        yield from ({**place, **each} for each in window["candidates"] or [empty])


def windows_code(asked: PageRequest) -> str:
    """Python code for the same. Raises InputError where no question is asked."""
    if (shown := _asked(asked)) is None:
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
