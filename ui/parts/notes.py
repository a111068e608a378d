"""Sentences that warn of what a model cannot know about a text."""

from bert_core.probes.forward import unknown_words
from bert_core.storage.checkpoint import Checkpoint

NEXT = ("IsNext", "NotNext")
PAIRS_ONLY = (
    "This model only ever saw pairs of sentences, so a single one is strange to it; give it a second sentence too."
)
EACH_ALONE = (
    "This model only ever saw pairs of sentences; here it reads each sentence alone, which is strange to it, so its "
    "vectors may differ from those it learned with."
)


def unknown_note(checkpoint: Checkpoint, *texts: str) -> list[str]:
    """A sentence that names the words the model does not know, or nothing."""
    unknown = list(dict.fromkeys(word for text in texts if text.strip() for word in unknown_words(checkpoint, text)))
    if not unknown:
        return []
    named = ", ".join(unknown[:8]) + (f" and {len(unknown) - 8} more" if len(unknown) > 8 else "")
    return [f"The model never learned these words and reads each as [UNK]: {named}."]


def alone_note(checkpoint: Checkpoint, pair: str, told: str = PAIRS_ONLY) -> list[str]:
    """What to tell when a model of pairs gets one sentence only, or nothing."""
    return [] if pair.strip() or "nsp" in checkpoint.missing else [told]


def pair_labels(checkpoint: Checkpoint) -> tuple[str, str]:
    """What classes 0 and 1 of the sentence-pair head stand for: IsNext, or what the recipe's labelled pairs are."""
    corpus = (checkpoint.recipe or {}).get("corpus")
    label = corpus.get("pair_label") if isinstance(corpus, dict) else None
    return (label, f"not {label}") if isinstance(label, str) and label != NEXT[0] else NEXT
