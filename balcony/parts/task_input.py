"""The page's sentences as an example of a fine-tuned model's task, and what to type where one is missing."""

from balcony.frame.question import Question
from bert_core.probes.reading import tokenize
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.examples import learned_columns
from bert_core.tasks.prediction import task_of
from bert_core.tasks.task import Example
from bert_core.tasks.token_classification import divided

HINTS = {
    "multiple-choice": "Type a sentence above, and below at least two choices, one on each line.",
    "question-answering": "Type a question above, and in the second box the text that has the answer.",
}
PAIR_HINT = "This model learned from pairs of texts: type a sentence into both boxes above, or try one under Fine-tune."
HINT = "Type a sentence above, or try an example under Fine-tune."
CHOICES_ALONE = "This task does not use the second sentence above, only the choices."
ALONE = "This model learned from single texts; the second sentence above is not used."


def example_of(checkpoint: Checkpoint, question: Question) -> Example | None:
    """The page's sentences as an example of the model's task, None if one is missing; `hint_of` says which."""
    task, (text, pair), learned = task_of(checkpoint).name, question.texts, texts_learned(checkpoint)
    if not text.strip() or (learned == 2 and not (pair or "").strip()):
        return None
    if task == "multiple-choice":
        choices = tuple(choice for choice in question.choices or () if choice.strip())
        return Example((text, *choices)) if len(choices) > 1 else None
    if task == "question-answering":
        return Example((text, pair)) if pair and pair.strip() else None
    if task == "token-classification":
        tokenize(checkpoint, text)  # refuses what no tokenizer should be given
        tagged_text = divided(text, checkpoint.tokenizer)
        return tagged_text if tagged_text.words else None
    return Example((text,) if learned == 1 or pair is None else (text, pair))


def hint_of(checkpoint: Checkpoint) -> str:
    return PAIR_HINT if texts_learned(checkpoint) == 2 else HINTS.get(task_of(checkpoint).name, HINT)


def not_used(checkpoint: Checkpoint, question: Question) -> list[str]:
    """A note, if the model does not read the second sentence."""
    if not question.pair.strip():
        return []
    return [CHOICES_ALONE] * task_of(checkpoint).has_choices + [ALONE] * (texts_learned(checkpoint) == 1)


def texts_learned(checkpoint: Checkpoint) -> int:
    """From how many texts an example of the model's training was, below 1 if that is not known."""
    return len(learned_columns(checkpoint)) - 1
