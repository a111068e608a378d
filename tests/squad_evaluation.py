"""An evaluation of answers after the definitions of SQuAD's own, versions 1.1 (Rajpurkar et al. 2016) and 2 (2018); it
shares no code with the program. Both take the content of a data set and of a file of predictions."""

import re
import string
from collections import Counter


def normalised(answer: str) -> str:
    """Small letters, without punctuation, articles and extra white space."""
    plain = "".join(letter for letter in answer.lower() if letter not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", plain).split())


def overlap(prediction: str, truth: str, is_second: bool) -> float:
    """F1 of the words. In version 2, an empty answer is as good as it is equal."""
    guess, right = normalised(prediction).split(), normalised(truth).split()
    if is_second and not (guess and right):
        return float(guess == right)
    same = sum((Counter(guess) & Counter(right)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(guess), same / len(right)
    return 2 * precision * recall / (precision + recall)


def questions(dataset: dict) -> list[dict]:
    return [qa for article in dataset["data"] for paragraph in article["paragraphs"] for qa in paragraph["qas"]]


def evaluate_1(dataset: dict, predictions: dict[str, str]) -> dict[str, float]:
    """Version 1.1: a question without a prediction counts as wrong."""
    exact = f1 = 0.0
    asked = questions(dataset)
    for qa in asked:
        if qa["id"] in predictions:
            prediction, truths = predictions[qa["id"]], [each["text"] for each in qa["answers"]]
            exact += max(normalised(prediction) == normalised(truth) for truth in truths)
            f1 += max(overlap(prediction, truth, False) for truth in truths)
    return {"exact_match": 100 * exact / len(asked), "f1": 100 * f1 / len(asked)}


def evaluate_2(dataset: dict, predictions: dict[str, str]) -> dict[str, float]:
    """Version 2: "" is right where there is no answer; also for both kinds of question on their own."""
    scores = {}
    for qa in questions(dataset):
        truths = [each["text"] for each in qa["answers"] if normalised(each["text"])] or [""]
        prediction = predictions[qa["id"]]
        exact = max(float(normalised(prediction) == normalised(truth)) for truth in truths)
        scores[qa["id"]] = exact, max(overlap(prediction, truth, True) for truth in truths), bool(qa["answers"])
    kinds = {"": (True, False), "HasAns_": (True,), "NoAns_": (False,)}
    result = {}
    for prefix, kind in kinds.items():
        chosen = [each for each in scores.values() if each[2] in kind]
        for number, name in enumerate(("exact", "f1")):
            result[prefix + name] = 100 * sum(each[number] for each in chosen) / len(chosen)
    return result
