"""The values that the views of sentence pairs draw, and Python code for them."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from balcony.frame.question import Question
from balcony.parts.export import Row, finite, python_code
from balcony.parts.notes import NEXT, pair_labels
from bert_core.data.corpus import Corpus
from bert_core.errors import InputError, percent
from bert_core.probes.attention import SPECIAL, AttentionMaps, attention
from bert_core.probes.sentence_pairs import UNLABELLED, PairMatrix, window
from bert_core.storage.checkpoint import Checkpoint

MOST, FEWEST = 32, 6  # sentences of a window
WORK = 1_000_000_000  # parameters x pairs, so that nobody waits long


def window_size(checkpoint: Checkpoint) -> int:
    """How many sentences of a text are paired with each other: fewer with a large model."""
    return max(FEWEST, min(MOST, math.isqrt(WORK // checkpoint.config.parameter_count())))


def matrix_value(matrix: PairMatrix, corpus: Corpus, size: int, checkpoint: Checkpoint) -> dict[str, Any]:
    """The matrix as its view draws it. size: number of sentences in the window."""
    probabilities, labels = matrix.probabilities.tolist(), pair_labels(checkpoint)
    return {
        "start": matrix.start,
        "size": size,
        "total": len(corpus.sentences),
        "numbers": [number + 1 for number in matrix.numbers],
        "sentences": list(matrix.sentences),
        "probabilities": [finite(row) for row in probabilities],
        "pair_labels": matrix.labels.tolist(),
        "labels": list(labels),
        "notes": matrix_notes(matrix, labels) + subject_note(checkpoint, matrix, window(corpus, size, matrix.start)[1]),
    }


def matrix_notes(matrix: PairMatrix, labels: tuple[str, str]) -> list[str]:
    asked, right, true = matrix.is_asked, int(matrix.is_right.sum()), matrix.labels == 1
    notes = []
    if labels == NEXT:
        found, of = matrix.found
        notes.append(f"Ranks the true next sentence first for {found} of {of} sentences.")
    total, positive = int(asked.sum()), int((asked & true).sum())
    missed, taken = (int((asked & ~matrix.is_right & part).sum()) for part in (true, ~true))
    negative = total - positive
    wrong = f" (wrong: {missed} of {positive} {labels[0]}, {taken} of {negative} {labels[1]})" if right < total else ""
    notes.append(f"Judges {right} of {total} pairs right{wrong}. Always {labels[1]} would be right for {negative}.")
    if long := int(matrix.probabilities.isnan().sum()):
        notes.append(f"Pairs left out because they are longer than the model reads: {long}.")
    return notes


def subject_note(checkpoint: Checkpoint, matrix: PairMatrix, part: Corpus) -> list[str]:
    """A sentence on why a model that was trained on many documents takes most pairs of one document for IsNext; nothing
    where it does not. part: the window of the matrix."""
    recipe = (checkpoint.recipe or {}).get("corpus")
    if not isinstance(recipe, dict) or recipe.get("kind") != "documents" or part.labels is not None:
        return []
    of_sentence = [number for number, document in enumerate(part.documents) for _ in document]
    document = torch.tensor([of_sentence[number - matrix.start] for number in matrix.numbers])
    same, taken = document[:, None] == document, matrix.probabilities >= 0.5
    within, across = (
        (int((taken & pairs & matrix.is_asked).sum()), int((pairs & matrix.is_asked).sum())) for pairs in (same, ~same)
    )
    if within[0] <= within[1] / 2:
        return []
    others = f", and {across[0]} of {across[1]} pairs from two" if across[1] else ""
    return [
        f"It takes {within[0]} of {within[1]} pairs from one document for IsNext{others}: in its training, NotNext "
        "sentences came from other documents, so it judges by subject."
    ]


def matrix_rows(value: dict[str, Any]) -> Iterator[Row]:
    """A row for each pair; no probability for a pair that is too long, no label where the text has none."""
    sentences = [*zip(value["numbers"], value["sentences"])]
    for (first, one), probabilities, labels in zip(sentences, value["probabilities"], value["pair_labels"]):
        for (second, other), p, label in zip(sentences, probabilities, labels):
            pair = {"first": first, "second": second, "first_sentence": one, "second_sentence": other}
            yield pair | {"probability": p, "is_true": None if label == UNLABELLED else label}


def matrix_code(checkpoint: Checkpoint, corpus: Corpus, start: int, size: int) -> str:
    """Python code that computes the same matrix."""
    part = window(corpus, size, start)[1]
    documents = "".join(
        f"    ({''.join(f'{sentence!r}, ' for sentence in document)}),\n" for document in part.documents
    )
    labels = "" if part.labels is None else f", labels={part.labels!r}"
    return python_code(
        checkpoint,
        f"corpus = Corpus((\n{documents}){labels})",
        "matrix = pair_matrix(checkpoint, corpus)",
        "matrix.probabilities  # (sentences, sentences): rows are first sentences",
        "matrix.found  # how many sentences rank their true next sentence first, and how many have one",
    )


def across(maps: AttentionMaps) -> tuple[list[str], list[str], Tensor]:
    """How [CLS], which next sentence prediction reads, and the first sentence attend to the second: [CLS] and the first
    one's words, R in all, the second's C words, and weights (L, H, R, C)."""
    words = [i for i, token in enumerate(maps.tokens) if token not in SPECIAL]
    rows = [0, *(i for i in words if maps.token_type_ids[i] == 0)]
    columns = [i for i in words if maps.token_type_ids[i] == 1]
    weights = maps.weights[..., rows, :][..., columns]
    return [maps.tokens[i] for i in rows], [maps.tokens[i] for i in columns], weights


def across_value(checkpoint: Checkpoint, question: Question) -> dict[str, Any]:
    """How [CLS] and the words of the first sentence attend to those of the second, by the head of `question.across`."""
    rows, columns, weights = across(attention(checkpoint, *question.texts))
    if len(rows) == 1 or not columns:
        raise InputError("One of the sentences has no word that the model reads; type another.")
    H = weights.shape[1]
    fractions = weights[..., 1:, :].sum(-1).mean(-1)  # (L, H), of the words
    heads = [divmod(int(at), H) for at in fractions.flatten().argsort(descending=True, stable=True)]
    head = question.across if question.across in heads else None
    shown = weights.mean((0, 1)) if head is None else weights[head]
    return {
        "rows": rows,
        "columns": columns,
        "weights": shown.tolist(),
        "head": head,
        "choices": [
            [None, f"mean of all heads ({percent(fractions.mean().item())})"],
            *([each, f"layer {each[0] + 1}, head {each[1] + 1} ({percent(fractions[each].item())})"] for each in heads),
        ],
        "note": f"{percent(shown[1:].sum(-1).mean().item())} of the first sentence's attention goes to the second, and "
        f"{percent(shown[0].sum().item())} of that of [CLS], whose vector decides whether the second follows.",
    }


def pair_rows(value: dict[str, Any]) -> Iterator[Row]:
    """P(IsNext), with a row for each weight of the attention from the first sentence to the second."""
    if "is_next" not in value:
        return
    is_next, shown = {"is_next": value["is_next"]}, value.get("attention") or {}
    if "weights" not in shown:
        yield is_next
        return
    heads = "mean" if shown["head"] is None else "layer {}, head {}".format(*(number + 1 for number in shown["head"]))
    for i, (attends, weights) in enumerate(zip(shown["rows"], shown["weights"]), 1):
        for j, (attended, weight) in enumerate(zip(shown["columns"], weights), 1):
            places = {"from_position": i, "from_token": attends, "to_position": j, "to_token": attended}
            yield {**is_next, "heads": heads, **places, "weight": weight}


def pair_code(checkpoint: Checkpoint, question: Question) -> str:
    head = question.across
    return python_code(
        checkpoint,
        f"pair = {question.texts_code}",
        "is_next = next_sentence(checkpoint, *pair)",
        "maps = attention(checkpoint, *pair)",
        f"words = [i for i, token in enumerate(maps.tokens) if token not in {SPECIAL}]",
        "rows = [0, *(i for i in words if maps.token_type_ids[i] == 0)]  # [CLS] and the first sentence's words",
        "columns = [i for i in words if maps.token_type_ids[i] == 1]  # the second's",
        "weights = maps.weights[..., rows, :][..., columns]  # (layers, heads, rows, columns)",
        "shown = weights.mean((0, 1))  # of all heads" if head is None else f"shown = weights[{head[0]}, {head[1]}]",
        "is_next, shown",
    )
