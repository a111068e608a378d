"""What an example is labelled with, and what a model says of it, in words."""

from typing import Any

from bert_core.tasks.multiple_choice import ChoiceExample
from bert_core.tasks.question_answering import AnswerExample
from bert_core.tasks.task import Example
from bert_core.tasks.token_classification import TaggedExample, entities


def in_words(example: Example, label: Any) -> str:
    """A label of an example, its own or a predicted one, as a person reads it; "" for none."""
    match example:
        case ChoiceExample():
            return example.choices[label]
        case TaggedExample():
            return "; ".join(f"{kind}: {' '.join(example.words[a:b])}" for kind, a, b in entities(label))
        case AnswerExample():
            return label if isinstance(label, str) else " / ".join(dict.fromkeys(text for text, _ in label))
    return f"{label:.2f}".rstrip("0").rstrip(".") if isinstance(label, float) else str(label)
