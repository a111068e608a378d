"""The batch of a step as text: its rows, what is asked of them, and a model's answers.

Data are a function of seed and step, so the batch of any step can be drawn again at any time. A question is what a loss
is the mean over: an asked word, a pair or an example, an answer's start or end in a window, a tagged word.

Shapes: B pairs, C choices, T tokens, M asked positions, L labels."""

import dataclasses
import functools
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from balcony.parts.notes import pair_labels
from balcony.server.probe_lock import probe_lock
from bert_core.config import DataConfig
from bert_core.data.batches import Batch, PretrainingBatches
from bert_core.data.encoding import IGNORED
from bert_core.data.tokenizer import CLS, MASK, PAD, SEP, special_ids
from bert_core.probes.forward import scores_of
from bert_core.probes.reading import token_text
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import TaskBatches
from bert_core.tasks.prediction import task_logits
from bert_core.tasks.task import Row, TaskBatch

HINT = (
    "In this step the model was asked for some words of each pair, and whether B follows A. Every step draws new pairs "
    "and new words. The curve shows the [[loss]] before the update; these answers come after it, with dropout off."
)
PAIRING = (
    "In half of the pairs B is the sentence after A ([[IsNext]]); in the others it was drawn at random from elsewhere "
    "in the text, and never is the true next one ([[IsNext|NotNext]])."
)
WHY = "Why not always [MASK]? Later texts have none, so any visible word may be asked, or be the wrong one."
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


def text_value(batches: PretrainingBatches, checkpoint: Checkpoint, step: int, shown: slice) -> dict[str, Any]:
    """The pairs `shown` of the batch of a step, counted from 1, and a model's answers, as the batch view shows them."""
    batch = batches.copy()[step - 1]
    rows = judged_rows(batch, checkpoint, shown)
    frequent = token_text(checkpoint.tokenizer, int(np.bincount(batches.encoded.ids).argmax()))
    right = Counter(each["label"] for row in rows for each in row["asks"] if "at" in each)[frequent]
    return {
        "hints": [HINT, PAIRING] if pair_labels(checkpoint)[0] == "IsNext" else [HINT],
        "pairs": len(batch.input_ids),
        "length": batch.input_ids.shape[1],
        "sizes": sizes(batch),
        "rows": rows,
        "always": [frequent, right],
        "legend": legend(batches.config),
        "why": WHY,
    }


def judged_rows(batch: Batch, checkpoint: Checkpoint, shown: slice = slice(None)) -> list[dict[str, Any]]:
    """The pairs `shown` of a batch, in the order of `interleaved`, with what is asked of each and a model's answers
    without dropout. The checkpoint must have the vocabulary of the batch."""
    order, tokenizer, T = interleaved(batch.next_sentence_label)[shown], checkpoint.tokenizer, batch.input_ids.shape[1]
    if not len(order):
        return []
    batch = Batch(*(getattr(batch, each.name)[order] for each in dataclasses.fields(Batch)))
    positions, true = batch.asked()  # (M,)
    inputs = batch.input_ids, batch.attention_mask, batch.token_type_ids
    with probe_lock:
        words, pairs = scores_of(checkpoint, inputs, positions)
    word = functools.partial(token_text, tokenizer)
    names, specials, rows = pair_labels(checkpoint), special_ids(tokenizer), list[dict[str, Any]]()
    for i, number in enumerate(order.tolist()):
        ids, labels, segments = (part[i].tolist() for part in (batch.input_ids, batch.labels, batch.token_type_ids))
        label = int(batch.next_sentence_label[i])
        kinds = [_kind(token, true, specials) for token, true in zip(ids, labels)]
        asks = [] if label == IGNORED else [answered(pairs[i], label, names.__getitem__)]
        about = {"example": (shown.start or 0) + i, "number": number, "asks": asks}
        rows.append(about | tokens_of(tokenizer, ids, segments, kinds))
    for place, label, scores in zip(positions.tolist(), true.tolist(), words):
        rows[place // T]["asks"].append({"at": place % T, **answered(scores, label, word)})
    return rows


def tokens_of(tokenizer: Tokenizer, ids: list[int], segments: list[int], kinds: list[str]) -> dict[str, Any]:
    """The tokens of a row, for the page."""
    return {"tokens": [token_text(tokenizer, each) for each in ids], "ids": ids, "segments": segments, "kinds": kinds}


def answered(scores: Tensor, right: int, name: Callable[[int], str]) -> dict[str, Any]:
    """What is right, and a model's answer, by its scores of all answers. name: of an answer, by its number."""
    likely, best = scores.double().log_softmax(0), int(scores.argmax())
    said = {"label": name(right), "guess": name(best), "probability": likely[best].exp().item()}
    return said | {"loss": -likely[right].item(), "is_right": best == right}


def interleaved(next_sentence_label: Tensor) -> Tensor:
    """The rows of a batch, (B,), in an order that spreads IsNext and NotNext evenly over it, however many there are of
    each; each kind keeps its own order. next_sentence_label: (B,)."""
    alike = (next_sentence_label[:, None] == next_sentence_label).double()  # (B, B)
    middles = (alike.tril().sum(1) - 0.5) / alike.sum(1)  # (i - 1/2) / n for the i-th of n rows of a kind
    return middles.argsort(stable=True)


def _kind(token: int, label: int, specials: dict[str, int]) -> str:
    if label != IGNORED:
        return "masked" if token == specials[MASK] else "kept" if token == label else "replaced"
    if token == specials[PAD]:
        return "padding"
    return "special" if token in (specials[CLS], specials[SEP]) else "untouched"


def sizes(batch: Batch | TaskBatch) -> list[list[str]]:
    """[name, size] of each tensor of a batch."""
    tensors = {name: tensor for name, tensor in vars(batch).items() if tensor is not None}
    return [[name, " × ".join(f"{length:,}" for length in tensor.shape)] for name, tensor in tensors.items()]


def legend(data: DataConfig) -> list[list[str]]:
    """[kind, explanation] each, with the fractions of this run; the asked words come first."""
    kept = 1 - data.mask_share - data.random_share
    return [
        ["masked", f"shown as [MASK] ({data.mask_share:.0%} of the asked words)"],
        ["replaced", f"shown as a random word ({data.random_share:.0%})"],
        ["kept", f"left unchanged but asked ({kept:.0%})"],
        *OF_EVERY,
    ]


def task_value(batches: TaskBatches, checkpoint: Checkpoint, step: int, shown: slice) -> dict[str, Any]:
    """The examples `shown` of the batch of a step, counted from 1, and a model's answers to its questions, as the batch
    view shows them. Windows of other steps, which have no answers, stand beside those of this one."""
    task, epoch, place = batches.data.kind.name, batches.epoch_of(step - 1), (step - 1) % batches.steps_per_epoch
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
    length = batch.input_ids.shape[-1]
    for example, here in enumerate(chosen, shown.start or 0):
        for number in _with_others(batches, here):
            window = {"example": example, **_window(batches, number, steps[number])}
            asks = [*_questions(batches, number, logits[number])] if number in logits else []
            for choice, row in enumerate(batches.rows_of([number])):
                at = used.index(number) * batches.choices + choice if number in logits else None
                about = {"number": at, "asks": [] if choice else asks}
                rows.append(window | about | _row(batches, row, length))
    return {
        "task": task,
        "hints": [HINTS[task], AFTER],
        "pairs": len(groups),
        "length": length,
        "sizes": sizes(batch),
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
        said, best = (
            answered(torch.from_numpy(scores), int(label), names.__getitem__),
            np.argsort(-scores, kind="stable").tolist(),
        )
        if is_answer:
            said |= {"what": ("start", "end")[place], "at": int(label), "guessed": best[0]}
        elif row.positions is not None:
            said |= {"at": int(row.positions[place])}
        else:
            likely = torch.from_numpy(scores).double().softmax(0).tolist()
            shown = best if batches.choices > 1 else best[:MOST_SCORES]
            said |= {"scores": [[names[i], float(scores[i]), likely[i]] for i in shown]}
        yield said


def _names(batches: TaskBatches, row: Row) -> Sequence[str]:
    """What the answers to a question are called: labels, choices, or tokens with their positions."""
    if row.offsets is None:
        return batches.layout.labels or [f"{i + 1}" for i in range(batches.choices)]
    return [f"{token_text(batches.layout.tokenizer, int(token))} ({i})" for i, token in enumerate(row.ids)]


def _row(batches: TaskBatches, row: Row, length: int) -> dict[str, Any]:
    """The tokens of a row, filled up to `length`, and how many had no room."""
    layout, used = batches.layout, len(row.ids)
    ids = [*map(int, row.ids), *[layout.pad] * (length - used)]
    plain = "untouched" if row.positions is None else "later"
    kinds = ["special" if token in (layout.cls, layout.sep) else plain for token in ids[:used]]
    for position in [] if row.positions is None else row.positions:
        kinds[position] = "asked"
    if row.answer:
        start, end = row.answer
        kinds[start : end + 1] = ["answer"] * (end + 1 - start)
    empty = length - used
    shown = tokens_of(layout.tokenizer, ids, row.inputs[1] + [0] * empty, kinds + ["padding"] * empty)
    return {"lost": row.lost, **shown}


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
