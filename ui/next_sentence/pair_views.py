"""What the pictures of sentence pairs are drawn from, as files too, and the Python that gives the same numbers."""

import json
import math
from typing import Any

from bert_core.data.corpus import Corpus
from bert_core.errors import InputError
from bert_core.probes.attention import across, attention
from bert_core.probes.sentence_pairs import UNLABELLED, PairMatrix, next_sentence, window
from bert_core.storage.checkpoint import Checkpoint
from ui.parts.export import table_csv, table_json
from ui.parts.notes import NEXT

MOST, FEWEST = 32, 6  # sentences of a window
WORK = 1_000_000_000  # parameters x pairs that a person waits for
MEAN = "mean"


def window_size(checkpoint: Checkpoint) -> int:
    """How many sentences of a text are judged against each other, fewer with a large model."""
    return max(FEWEST, min(MOST, math.isqrt(WORK // checkpoint.config.parameter_count())))


def matrix_value(matrix: PairMatrix, corpus: Corpus, size: int, labels: tuple[str, str]) -> dict[str, Any]:
    """The matrix as its view draws it. size: of the window."""
    return {
        "start": matrix.start,
        "size": size,
        "total": len(corpus.sentences),
        "numbers": [number + 1 for number in matrix.numbers],
        "sentences": list(matrix.sentences),
        "shares": [[None if math.isnan(p) else round(p, 4) for p in row] for row in matrix.probabilities.tolist()],
        "truth": matrix.labels.tolist(),
        "labels": list(labels),
        "told": told_matrix(matrix, labels),
    }


def told_matrix(matrix: PairMatrix, labels: tuple[str, str]) -> list[str]:
    """How right the model is, in sentences."""
    asked, right, true = matrix.is_asked, int(matrix.is_right.sum()), matrix.labels == 1
    told = []
    if labels == NEXT:
        found, of = matrix.found
        told.append(f"Finds the true next sentence for {found} of {of} sentences: it rates no other one higher.")
    total, positive = int(asked.sum()), int((asked & true).sum())
    missed, taken = (int((asked & ~matrix.is_right & part).sum()) for part in (true, ~true))
    wrong = f": it misses {missed} of {positive} that are {labels[0]} and takes {taken} others for {labels[0]}"
    told.append(
        f"Judges {right} of {total} pairs right{wrong if right < total else ''}. Always answering {labels[1]} would be "
        f"right {total - positive} times."
    )
    if long := int(matrix.probabilities.isnan().sum()):
        told.append(f"{long} pairs are longer than the model reads and were left out.")
    return told


def told_apart(one: PairMatrix, other: PairMatrix) -> str:
    """How far two models are apart over the same sentences."""
    if one.sentences != other.sentences:
        return "The two models leave out different sentences, so their numbers are not subtracted."
    both = ~one.probabilities.isnan() & ~other.probabilities.isnan()
    gap = (one.probabilities - other.probabilities)[both].abs()
    flips = ((one.probabilities >= 0.5) != (other.probabilities >= 0.5))[both].sum()
    return (
        f"The two models are {gap.mean() * 100:.0f} percentage points apart on average and judge {flips} of "
        f"{int(both.sum())} pairs differently."
    )


def matrix_file(kind: str, matrix: PairMatrix) -> str:
    """A row for each pair, as JSON or CSV; no probability for a pair that is too long, no label where nobody gave one."""
    header = ("first", "second", "first_sentence", "second_sentence", "probability", "is_true")
    rows = [
        (
            matrix.numbers[i] + 1,
            matrix.numbers[j] + 1,
            matrix.sentences[i],
            matrix.sentences[j],
            None if math.isnan(p) else p,
            None if matrix.labels[i, j] == UNLABELLED else int(matrix.labels[i, j]),
        )
        for i, row in enumerate(matrix.probabilities.tolist())
        for j, p in enumerate(row)
    ]
    return table_json(header, rows) if kind == "json" else table_csv(header, rows)


def matrix_code(folder: str, corpus: Corpus, start: int, size: int) -> str:
    """The lines of Python that give the same matrix. folder: where the model's files are."""
    part = window(corpus, size, start)[1]
    documents = "".join(
        f"    ({''.join(f'{sentence!r}, ' for sentence in document)}),\n" for document in part.documents
    )
    labels = "" if part.labels is None else f", labels={part.labels!r}"
    return (
        "from bert_core import Corpus, load_checkpoint, pair_matrix\n\n"
        f"checkpoint = load_checkpoint({folder!r})\n"
        f"corpus = Corpus((\n{documents}){labels})\n"
        "matrix = pair_matrix(checkpoint, corpus)\n"
        "matrix.probabilities  # (sentences, sentences): the first of a pair in the row\n"
        "matrix.found  # for how many sentences a true next one is the likeliest, and how many have one\n"
    )


def across_value(checkpoint: Checkpoint, first: str, second: str, choice: str = MEAN) -> dict[str, Any]:
    """How the words of the first sentence look at those of the second. choice: MEAN over all heads, or "layer.head"."""
    rows, columns, weights = across(attention(checkpoint, first, second))
    if not rows or not columns:
        raise InputError("One of the sentences has no word that the model reads; type another.")
    H = weights.shape[1]
    shares = weights.sum(-1).mean(-1)  # (L, H)
    heads = {
        f"{at // H}.{at % H}": f"layer {at // H + 1}, head {at % H + 1} ({shares.flatten()[at]:.0%})"
        for at in shares.flatten().argsort(descending=True, stable=True).tolist()
    }
    choice = choice if choice in heads else MEAN
    layer, head = (slice(None), slice(None)) if choice == MEAN else map(int, choice.split("."))
    shown = weights[layer, head].reshape(-1, len(rows), len(columns)).mean(0)
    return {
        "rows": rows,
        "columns": columns,
        "shares": [[round(share, 5) for share in row] for row in shown.tolist()],
        "choice": choice,
        "choices": [[MEAN, f"mean of all heads ({shares.mean():.0%})"], *heads.items()],
        "told": f"The words of the first sentence take {shown.sum(-1).mean():.0%} of what they read from the words of "
        "the second.",
    }


def pair_file(kind: str, checkpoint: Checkpoint, first: str, second: str, choice: str) -> str:
    """The pair's answer and its attention as JSON, or as CSV with a row for each weight."""
    shown = across_value(checkpoint, first, second, choice)
    is_next, choice = round(next_sentence(checkpoint, first, second), 6), shown["choice"]
    heads = MEAN if choice == MEAN else "layer {}, head {}".format(*(int(number) + 1 for number in choice.split(".")))
    if kind == "csv":
        rows = [
            (is_next, heads, i, a, j, c, shown["shares"][i - 1][j - 1])
            for i, a in enumerate(shown["rows"], 1)
            for j, c in enumerate(shown["columns"], 1)
        ]
        header = ("is_next", "heads", "from_position", "from_token", "to_position", "to_token", "weight")
        return table_csv(header, rows)
    content = {
        "sentence_a": first,
        "sentence_b": second,
        "is_next": is_next,
        "attention": {
            "heads": heads,
            "from": shown["rows"],
            "to": shown["columns"],
            "weights": shown["shares"],
        },
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def pair_code(folder: str, first: str, second: str, choice: str) -> str:
    """The lines of Python that give the same answer and weights. folder: where the model's files are."""
    layer, _, head = choice.partition(".")
    one = "weights.mean((0, 1))  # of all heads" if choice == MEAN else f"weights[{layer}, {head}]"
    return (
        "from bert_core import across, attention, load_checkpoint, next_sentence\n\n"
        f"checkpoint = load_checkpoint({folder!r})\n"
        f"pair = {first!r}, {second!r}\n"
        "is_next = next_sentence(checkpoint, *pair)\n"
        "rows, columns, weights = across(attention(checkpoint, *pair))  # (layers, heads, rows, columns)\n"
        f"shown = {one}\n"
    )
