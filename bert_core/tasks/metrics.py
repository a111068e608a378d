"""The measures that papers report for the five kinds of task. All are fractions, from 0 to 1 or -1 to 1.

`n` examples. A measure that divides by zero is 0, as in scikit-learn, seqeval and SQuAD's script.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

Metrics = dict[str, float]
Entity = tuple[str, int, int]  # type, first word, and the word after the last one

_MARKS, _BEGIN, _END = ({*"BIMESLU"}, {*"BSU"}, {*"ESLU"})
_ONLY_KIND = "entity"  # of tags that are marks alone

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def classification_metrics(labels: Sequence[str], predicted: Sequence[str], names: Sequence[str]) -> Metrics:
    """accuracy, f1 and matthews_correlation of n labels.

    names: all labels. Of two, f1 is that of the second one (scikit-learn's binary average); of more, their mean (its
    macro average, over the labels that occur). matthews_correlation: Gorodkin 2004 for more than two.
    """
    table = confusion(labels, predicted, names)
    n, right = len(labels), sum(table[i][i] for i in range(len(names)))
    rows = [sum(row) for row in table]
    columns = [sum(column) for column in zip(*table)]
    scores = [_ratio(2 * table[i][i], rows[i] + columns[i]) for i in range(len(names))]
    occurring = [score for score, row, column in zip(scores, rows, columns) if row + column]
    covariance = n * right - sum(row * column for row, column in zip(rows, columns))
    spread = (n * n - sum(row * row for row in rows)) * (n * n - sum(column * column for column in columns))
    return {
        "accuracy": _ratio(right, n),
        "f1": scores[1] if len(names) == 2 else _ratio(sum(occurring), len(occurring)),
        "matthews_correlation": _ratio(covariance, math.sqrt(spread)),
    }


def multi_label_metrics(labels: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Metrics:
    """accuracy, the fraction of texts whose labels are all right, and f1 over all labels of all texts (micro)."""
    pairs = [(set(a), set(b)) for a, b in zip(labels, predicted)]
    right = sum(len(a & b) for a, b in pairs)
    return {
        "accuracy": _ratio(sum(a == b for a, b in pairs), len(pairs)),
        "f1": _ratio(2 * right, sum(len(a) + len(b) for a, b in pairs)),
    }


def confusion(labels: Sequence[str], predicted: Sequence[str], names: Sequence[str]) -> list[list[int]]:
    """How often each label, a row, was predicted as each, a column; both in the order of `names`."""
    counts = Counter(zip(labels, predicted))
    return [[counts[label, other] for other in names] for label in names]


def regression_metrics(numbers: Sequence[float], predicted: Sequence[float]) -> Metrics:
    """pearson and spearman correlation; ties get their mean rank, as in SciPy."""
    return {"pearson": _pearson(numbers, predicted), "spearman": _pearson(_ranks(numbers), _ranks(predicted))}


def _pearson(x: Sequence[float], y: Sequence[float]) -> float:
    mean_x, mean_y = (math.fsum(each) / max(1, len(each)) for each in (x, y))
    x, y = [value - mean_x for value in x], [value - mean_y for value in y]
    products = math.fsum(a * b for a, b in zip(x, y))
    return _ratio(products, math.sqrt(math.fsum(a * a for a in x) * math.fsum(b * b for b in y)))


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, start = [0.0] * len(values), 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for i in order[start:end]:
            ranks[i] = (start + end - 1) / 2
        start = end
    return ranks


def choice_metrics(labels: Sequence[int], predicted: Sequence[int]) -> Metrics:
    """accuracy."""
    return {"accuracy": _ratio(sum(a == b for a, b in zip(labels, predicted)), len(labels))}


def answer_metrics(answers: Sequence[Sequence[str]], predicted: Sequence[str]) -> Metrics:
    """exact_match and f1 of n answers, as SQuAD's evaluation script (version 2) computes them.

    answers: the accepted answers of each question; none means that the context holds no answer, and "" is right.
    """

    def best(measure: Callable[[str, str], float]) -> float:
        return _ratio(sum(max(measure(a, b) for a in accepted or [""]) for accepted, b in zip(answers, predicted)), n)

    n = len(answers)
    return {"exact_match": best(lambda a, b: float(_words(a) == _words(b))), "f1": best(_answer_f1)}


def _words(answer: str) -> list[str]:
    return _ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split()


def _answer_f1(answer: str, predicted: str) -> float:
    words, others = _words(answer), _words(predicted)
    if not words or not others:
        return float(words == others)
    return _ratio(2 * (Counter(words) & Counter(others)).total(), len(words) + len(others))


def entity_metrics(tags: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Metrics:
    """precision, recall and f1 of whole entities, and the accuracy of single tags, as conlleval computes them."""
    found = correct = wanted = 0
    for sentence, guess in zip(tags, predicted):
        real, guessed = set(entities(sentence)), set(entities(guess))
        found, correct, wanted = found + len(guessed), correct + len(real & guessed), wanted + len(real)
    pairs = [pair for sentence, guess in zip(tags, predicted) for pair in zip(sentence, guess)]
    return {
        "precision": _ratio(correct, found),
        "recall": _ratio(correct, wanted),
        "f1": _ratio(2 * correct, found + wanted),
        "accuracy": _ratio(sum(a == b for a, b in pairs), len(pairs)),
    }


def marked(tag: str) -> tuple[str, str]:
    """The mark of a tag and the type of its entity: B and person of B-person.

    The marks are those of IOB, BIOES, BMES and BILOU. A tag without a mark, such as NOUN, is a type. O and a mark
    alone, as in files with one kind of entity, have none.
    """
    mark, dash, kind = tag.partition("-")
    if mark in _MARKS and bool(dash) == bool(kind):
        return mark, kind
    return ("O", "") if tag == "O" else ("", tag)


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities that a sentence's tags mark.

    One begins at each B-, S- and U-, and at a tag that continues none of its type; it ends after E-, L-, S- and U-.
    Neighbours with the same tag without a mark are one entity, as in the pipeline of `transformers`.
    """
    found: list[Entity] = []
    is_bare = {*tags} <= {"O", *_MARKS}
    is_open = False
    for i, tag in enumerate(tags):
        mark, kind = marked(tag)
        if mark in _MARKS and not kind:
            mark, kind = (mark, _ONLY_KIND) if is_bare else ("", tag)
        if is_open and found[-1][0] == kind and mark not in _BEGIN:
            found[-1] = (kind, found[-1][1], i + 1)
        elif mark != "O":
            found.append((kind, i, i + 1))
        is_open = mark != "O" and mark not in _END
    return found


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
