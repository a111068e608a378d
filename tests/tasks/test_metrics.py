"""Measures of hand-worked cases; the numbers agree with scikit-learn, SciPy, seqeval and SQuAD's script."""

import pytest

from bert_core.tasks.examples import TASKS
from bert_core.tasks.texts import confusion
from bert_core.tasks.token_classification import entities

classification_metrics, regression_metrics, choice_metrics, squad_metrics, entity_metrics = (
    task.measures for task in TASKS.values()
)


def answer_metrics(answers, predicted):
    return squad_metrics([[(text, 0) for text in each] for each in answers], predicted)


def test_two_labels():
    # 3 true positives, 1 false positive, 2 false negatives, 4 true negatives
    labels, predicted = list("1111100000"), list("1110010000")
    found = classification_metrics(labels, predicted, ["0", "1"])
    assert found["accuracy"] == 0.7
    assert found["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 2))
    assert found["matthews_correlation"] == pytest.approx((3 * 4 - 1 * 2) / (4 * 5 * 5 * 6) ** 0.5)
    assert confusion(zip(labels, predicted), ["0", "1"]) == [[4, 1], [2, 3]]


def test_three_labels_have_a_macro_f1_over_those_that_occur():
    found = classification_metrics(list("0010112021"), list("0110102022"), list("0123"))
    assert found["f1"] == pytest.approx(0.7071428571428572)
    assert found["matthews_correlation"] == pytest.approx(0.5539117094069973)


def test_one_label_everywhere_has_no_correlation():
    found = classification_metrics(list("0011"), list("0000"), ["0", "1"])
    assert found == {"accuracy": 0.5, "f1": 0.0, "matthews_correlation": 0.0}


def test_correlations_share_the_ranks_of_ties():
    found = regression_metrics([0, 1, 2, 2, 5], [0.5, 0.4, 2, 3, 2])
    assert found["pearson"] == pytest.approx(0.5538070298805202)
    assert found["spearman"] == pytest.approx(0.6578947368421053)
    assert regression_metrics([1, 2], [3, 3]) == {"pearson": 0.0, "spearman": 0.0}


def test_choices():
    assert choice_metrics([0, 3, 2, 1], [0, 3, 1, 1]) == {"accuracy": 0.75}


def test_answers_ignore_case_articles_and_punctuation_and_count_common_words():
    found = answer_metrics([["The Cat!"], ["a red car", "blue car"], [], ["42"]], ["cat", "the blue bike", "", "no"])
    assert found["exact_match"] == 0.5
    assert found["f1"] == pytest.approx((1 + 0.5 + 1 + 0) / 4)


def test_entities_count_as_a_whole():
    tags = ["B-a", "I-a", "O", "B-b", "B-b", "I-a"]
    assert entities(tags) == [("a", 0, 2), ("b", 3, 4), ("b", 4, 5), ("a", 5, 6)]
    found = entity_metrics([tags, ["O"]], [["B-a", "O", "O", "B-b", "B-b", "O"], ["B-a"]])
    assert (found["precision"], found["recall"], found["f1"]) == (2 / 4, 2 / 4, 0.5)
    assert found["accuracy"] == pytest.approx(4 / 7)


SCHEMES = [  # tags of "Anna Maria Berg sings in Rome", and the entities
    ("B-P I-P I-P O O B-L", [("P", 0, 3), ("L", 5, 6)]),
    ("B-P I-P E-P O O S-L", [("P", 0, 3), ("L", 5, 6)]),
    ("B-P M-P E-P O O S-L", [("P", 0, 3), ("L", 5, 6)]),
    ("S-P B-P E-P S-P E-P I-L", [("P", 0, 1), ("P", 1, 3), ("P", 3, 4), ("P", 4, 5), ("L", 5, 6)]),
    ("I-P I-P B-P I-L O I-L", [("P", 0, 2), ("P", 2, 3), ("L", 3, 4), ("L", 5, 6)]),
    ("P P P O O L", [("P", 0, 3), ("L", 5, 6)]),
    ("NOUN NOUN NOUN VERB ADP NOUN", [("NOUN", 0, 3), ("VERB", 3, 4), ("ADP", 4, 5), ("NOUN", 5, 6)]),
    ("LABEL_1 O LABEL_1 LABEL_2 O O", [("LABEL_1", 0, 1), ("LABEL_1", 2, 3), ("LABEL_2", 3, 4)]),
    ("M NOUN S-BAR B- - O", [("M", 0, 1), ("NOUN", 1, 2), ("BAR", 2, 3), ("B-", 3, 4), ("-", 4, 5)]),
]


@pytest.mark.parametrize(("tags", "expected"), SCHEMES)
def test_entities_in_every_scheme_have_a_type(tags, expected):
    assert entities(tags.split()) == expected
    assert entity_metrics([tags.split()], [tags.split()])["f1"] == 1
