"""What an example is labelled with, and what a model says of it, in words."""

from typing import Any

from bert_core.tasks.task import Example
from bert_core.tasks.token_classification import entities


def in_words(example: Example, label: Any) -> str:
    """A label of an example, its own or a predicted one, as a person reads it; "" for none."""
    if example.words is not None:
        return "; ".join(f"{kind}: {' '.join(example.words[a:b])}" for kind, a, b in entities(label))
    match label:
        case int():
            return example.texts[1 + label]
        case tuple():
            return " / ".join(dict.fromkeys(text for text, _ in label))
        case float():
            return f"{label:.2f}".rstrip("0").rstrip(".")
    return str(label)
