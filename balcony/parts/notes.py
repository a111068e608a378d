"""Sentences that warn of what a model cannot know about a text, and the names of its two kinds of pairs."""

from collections.abc import Sequence
from typing import Any

from balcony.frame.masking import lacking_note
from bert_core.config import pair_names
from bert_core.probes.reading import unknown_words
from bert_core.storage.checkpoint import Checkpoint

NEXT = pair_names("IsNext")
PAIRS_ONLY = "This model was trained on pairs of sentences, not on single ones; add a second sentence."


def no_facts(error: str = "", notes: Sequence[str] = ()) -> dict[str, Any]:
    """The value of a view of facts without any. error: why there are none."""
    return {"facts": [], "notes": [*notes], "error": error}


def unknown_note(checkpoint: Checkpoint, *texts: str) -> list[str]:
    """A sentence that names the words the vocabulary lacks, or nothing."""
    note = lacking_note([word for text in texts if text.strip() for word in unknown_words(checkpoint, text)])
    return [note] if note else []


def alone_note(checkpoint: Checkpoint, pair: str) -> list[str]:
    """The note, if a model that was trained on pairs gets one sentence only; otherwise nothing."""
    return [] if pair.strip() or "nsp" in checkpoint.missing else [PAIRS_ONLY]


def pair_labels(checkpoint: Checkpoint) -> tuple[str, str]:
    """The names of classes 0 and 1 of the sentence-pair head: IsNext and NotNext, or those of the recipe's pairs."""
    corpus = (checkpoint.recipe or {}).get("corpus")
    label = corpus.get("pair_label") if isinstance(corpus, dict) else None
    return pair_names(label) if isinstance(label, str) else NEXT
