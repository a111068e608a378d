"""Measures of hand-worked cases; the numbers agree with scikit-learn, SciPy, seqeval and SQuAD's script."""

import pytest

from bert_core.finetuning.metrics import (
    answer_metrics,
    choice_metrics,
    classification_metrics,
    confusion,
    entities,
    entity_metrics,
    multi_label_metrics,
    regression_metrics,
)


def test_two_labels():
    # 3 true positives, 1 false positive, 2 false negatives, 4 true negatives
    labels, predicted = list("1111100000"), list("1110010000")
    found = classification_metrics(labels, predicted, ["0", "1"])
    assert found["accuracy"] == 0.7
    assert found["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 2))
    assert found["matthews_correlation"] == pytest.approx((3 * 4 - 1 * 2) / (4 * 5 * 5 * 6) ** 0.5)
    assert confusion(labels, predicted, ["0", "1"]) == [[4, 1], [2, 3]]


def test_three_labels_have_a_macro_f1_over_those_that_occur():
    found = classification_metrics(list("0010112021"), list("0110102022"), list("0123"))
    assert found["f1"] == pytest.approx(0.7071428571428572)
    assert found["matthews_correlation"] == pytest.approx(0.5539117094069973)


def test_one_label_everywhere_has_no_correlation():
    found = classification_metrics(list("0011"), list("0000"), ["0", "1"])
    assert found == {"accuracy": 0.5, "f1": 0.0, "matthews_correlation": 0.0}


def test_several_labels_of_a_text():
    wanted, found = [("a", "b"), (), ("c",), ("a",)], [("a",), (), ("b",), ("a",)]
    assert multi_label_metrics(wanted, found) == {"accuracy": 0.5, "f1": pytest.approx(4 / 7)}


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
