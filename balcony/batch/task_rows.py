"""The batch of a step that learns a task, as text: its examples, what is asked of them, and a model's answers.

A question is what the loss of a step is the mean over: one for each example or, of an answer, its start and its end in
each window, or one for each tagged word.

Shapes: R rows of a batch (of choices, examples), C choices, T tokens, M tagged words, L labels."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from balcony.batch.rows import shape_rows
from balcony.server.probe_lock import probe_lock
from bert_core.probes.reading import token_text
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskBatches
from bert_core.tasks.prediction import task_logits
from bert_core.tasks.task import Row, TaskBatch

MOST_SCORES = 8  # labels of an example
HINTS = {
    "text-classification": "In this step the model was asked for the label of each example.",
    "text-regression": "In this step the model was asked for the number of each example.",
    "multiple-choice": "In this step the model was asked which choice is right. Each choice stands in a row with its "
    "prompt and gets one score; softmax compares the scores of an example.",
    "question-answering": "In this step the model was asked for the first and the last token of the answer. Each "
    "window of a long context is a row by itself; where it does not have the answer, [CLS] is right.",
    "token-classification": "In this step the model was asked for the tag of each word, at its first piece.",
}
AFTER = "The curve shows the loss before the update; these answers come after it, with dropout off."
LEGEND = {
    "question-answering": [
        ["answer", "the answer; its first and last tokens are asked for"],
        ["shared", "another window of this context shows it too"],
    ],
    "token-classification": [
        ["asked", "the first piece of a word, whose tag is asked for"],
        ["later", "a later piece: its label is -100, as of special tokens and padding, so it is not asked"],
    ],
}
OF_EVERY = [
    ["untouched", "shown, and not asked"],
    ["special", "[CLS] begins a row; [SEP] ends each of its texts"],
    ["padding", "fills up shorter rows; gets no attention"],
]
SHAPES = {  # of what the model reads, of what is right and of the logits
    "text-classification": ("R, T", "R", "R, L", "the number of each label", "a score for each label"),
    "text-regression": ("R, T", "R", "R, 1", "the right numbers", "the model's numbers"),
    "multiple-choice": ("R, C, T", "R", "R, C", "the right choices, from 0", "a score for each choice"),
    "question-answering": ("R, T", "R, 2", "R, T, 2", "where answers start and end", "each token as start and as end"),
    "token-classification": ("R, T", "M", "M, L", "the number of each tag", "a score for each tag, at these tokens"),
}


def task_value(batches: TaskBatches, checkpoint: Checkpoint, step: int, shown: slice) -> dict[str, Any]:
    """The examples `shown` of the batch of a step, counted from 1, and a model's answers to its questions, as the batch
    view shows them. Windows of other steps, which have no answers, stand beside those of this one."""
    task = batches.data.kind.name
    epoch = batches.epoch_of(step - 1)
    place = (step - 1) % batches.steps_per_epoch
    used: list[int] = epoch[place].tolist()
    steps = {number: step + k - place for k, numbers in enumerate(epoch) for number in numbers.tolist()}
    groups: dict[int, list[int]] = {}  # of each example, the numbers of its rows
    for number in used:
        groups.setdefault(batches.rows_of([number])[0].example, []).append(number)
    chosen = [sorted(own) for own in [*groups.values()][shown]]
    numbers = [number for own in chosen for number in own]
    with probe_lock:
        found = task_logits(checkpoint, batches.rows_of(numbers), batches.choices) if numbers else []
    logits, batch, rows = dict(zip(numbers, found, strict=True)), batches.batch(used), list[dict[str, Any]]()
    for example, here in enumerate(chosen, shown.start or 0):
        for number in _with_others(batches, here):
            about = {"example": example, **_window(batches, number, steps[number])}
            questions = [*_questions(batches, number, logits[number])] if number in logits else []
            for choice, row in enumerate(batches.rows_of([number])):
                at = used.index(number) * batches.choices + choice if number in logits else None
                own = _row(batches, row, batch.input_ids.shape[-1], [] if choice else questions)
                rows.append({**about, "number": at, **own})
    return {
        "task": task,
        "hints": [HINTS[task], AFTER],
        "pairs": len(groups),
        "length": batch.input_ids.shape[-1],
        "shapes": _shapes(batches, batch),
        "rows": rows,
        "always": _always(batches, numbers) if numbers else None,
        "legend": [*LEGEND.get(task, []), *OF_EVERY],
    }


def _always(batches: TaskBatches, numbers: list[int]) -> list[Any]:
    """The most frequent answer to all examples, and to how many questions about these rows it is right; of numbers
    their mean, and its mean squared error. Of answers in a text, it is the position of a token."""
    shown = batches.rows_of(numbers)
    every, asked = (
        np.concatenate([row.target.ravel() for row in rows[:: batches.choices] if row.target is not None])
        for rows in (batches.rows, shown)
    )
    if every.dtype == np.float32:
        return [float(every.mean()), float(((asked - every.mean()) ** 2).mean())]
    most = int(np.bincount(every).argmax())
    name = _names(batches, shown[0])[most] if shown[0].offsets is None else f"({most})"
    return [name, int((asked == most).sum())]


def _questions(batches: TaskBatches, number: int, logits: np.ndarray) -> Iterator[dict[str, Any]]:
    """What is asked of a row or, of choices, an example: what is right, and a model's answer. logits: (L,), (C,),
    (T, 2) or (M, L)."""
    row = batches.rows_of([number])[0]
    assert row.target is not None
    is_answer, right = row.offsets is not None, row.target.ravel()
    names = _names(batches, row)
    for place, (scores, label) in enumerate(zip(logits.T if is_answer else np.atleast_2d(logits), right, strict=True)):
        if row.target.dtype == np.float32:
            guess = float(scores[0])
            yield {"label": float(label), "guess": guess, "loss": (guess - float(label)) ** 2, "is_right": None}
            continue
        likely = torch.from_numpy(scores).double().log_softmax(0)
        best, order = int(scores.argmax()), np.argsort(-scores, kind="stable").tolist()
        said = {"label": names[label], "guess": names[best], "probability": likely[best].exp().item()}
        said |= {"loss": -likely[label].item(), "is_right": best == int(label)}
        if is_answer:
            said |= {"what": ("start", "end")[place], "at": int(label), "guessed": best}
        elif row.positions is None:
            shown = order if batches.choices > 1 else order[:MOST_SCORES]
            said |= {"of": len(order), "scores": [[names[i], float(scores[i]), likely[i].exp().item()] for i in shown]}
        yield said


def _names(batches: TaskBatches, row: Row) -> Sequence[str]:
    """What the answers to a question are called: labels, choices, or tokens with their positions."""
    if row.offsets is None:
        return batches.layout.labels or [f"{i + 1}" for i in range(batches.choices)]
    return [f"{token_text(batches.layout.tokenizer, int(token))} ({i})" for i, token in enumerate(row.ids)]


def _row(batches: TaskBatches, row: Row, length: int, questions: list[dict[str, Any]]) -> dict[str, Any]:
    """The tokens of a row, filled up to `length`; the questions about them by position, and those about all of it."""
    layout, used, positions = batches.layout, len(row.ids), [] if row.positions is None else row.positions.tolist()
    ids = [*map(int, row.ids), *[layout.pad] * (length - used)]
    plain = "untouched" if row.positions is None else "later"
    kinds = ["special" if token in (layout.cls, layout.sep) else plain for token in ids[:used]]
    for position in positions:
        kinds[position] = "asked"
    if row.answer:
        start, end = row.answer
        kinds[start : end + 1] = ["answer"] * (end + 1 - start)
    return {
        "tokens": [token_text(layout.tokenizer, token) for token in ids],
        "ids": ids,
        "kinds": kinds + ["padding"] * max(0, length - used),
        "segments": row.inputs[1] + [0] * (length - used),
        "lost": row.lost,
        "asks": questions if row.positions is None else [],
        "guesses": {f"{position}": each for position, each in zip(positions, questions)},
    }


def _same(batches: TaskBatches, number: int) -> range:
    """The numbers of the rows of one example: the windows of its context or the parts of its sentence."""
    example = batches.rows[number].example
    return range(*(find(batches.rows, example, key=lambda row: row.example) for find in (bisect_left, bisect_right)))


def _with_others(batches: TaskBatches, own: list[int]) -> list[int]:
    """These rows of an example and, of a long context, the windows beside them and those with the answer."""
    rows = batches.rows
    if batches.rows_of(own[:1])[0].offsets is None:
        return own
    return [i for i in _same(batches, own[0]) if rows[i].answer or any(abs(i - each) < 2 for each in own)]


def _window(batches: TaskBatches, number: int, step: int) -> dict[str, Any]:
    """Of an answer, the right one. Of several windows or parts, which of them a row is, the step that has it, and
    what it shows of the context: tokens from and to, counted from 1, and those that its neighbours show too."""
    row, found = batches.rows_of([number])[0], dict[str, Any]()
    if row.offsets is not None:
        given = batches.data.examples[row.example].label
        found["answer"] = given[0][0] if given else ""
    if batches.choices > 1 or len(every := _same(batches, number)) < 2:
        return found
    found["window"] = {
        "number": number - every.start + 1,
        "of": len(every),
        "step": step,
        "with_answer": [i - every.start + 1 for i in every if batches.rows[i].answer],
    }
    if row.offsets is not None:
        inside = np.flatnonzero(row.inside).tolist()
        before = batches.rows[number - 1].window.stop - row.window.start if number > every.start else 0
        after = row.window.stop - batches.rows[number + 1].window.start if number + 1 < every.stop else 0
        shared = [*inside[:before], *inside[len(inside) - after :]]
        found["window"] |= {
            "from": row.window.start + 1,
            "to": row.window.stop,
            "before": before,
            "after": after,
            "shared": shared,
        }
    return found


def _shapes(batches: TaskBatches, batch: TaskBatch) -> list[list[str]]:
    """As `shapes` of the batch tab, of a task's batch."""
    read, right, scores, is_right, is_score = SHAPES[batches.data.kind.name]
    found = {
        "input_ids": (read, "the tokens of each row, filled up to T"),
        "token_type_ids": (read, "1 in the second text of a row, else 0"),
        "attention_mask": (read, "1 at tokens and 0 at padding"),
        "target": (right, is_right),
        "logits": (scores, is_score),
    }
    if batch.positions is not None:
        found["positions"] = ("M", "the numbers of the asked tokens among all R × T, from 0")
    R, *_, T = batch.input_ids.shape
    words = 0 if batch.positions is None else len(batch.positions)
    return shape_rows(found, {"R": R, "C": batches.choices, "T": T, "L": len(batches.layout.labels), "M": words})
