"""What a text and a recipe give, before training."""

from dataclasses import dataclass

import numpy as np

from bert_core.config import LOCAL, Limits
from bert_core.data.batches import truncated_lengths
from bert_core.data.corpus import Corpus
from bert_core.errors import noting
from bert_core.runs.jobs import check_limits, prepare_text
from bert_core.runs.recipe import Recipe
from bert_core.storage.checkpoint import Checkpoint

MAX_PREVIEWED = 20_000  # sentences


@dataclass(frozen=True)
class Preview:
    sentences: int
    tokens: int
    vocabulary: int
    unknown_share: float  # fraction of the words that are [UNK]
    cut_share: float  # of the tokens of neighbouring sentences, those over sequence_length; 0 for packed segments
    parameters: int
    seconds: float  # estimated training time
    held_out_sentences: int  # with 0, the text can only be memorised
    warnings: tuple[str, ...]


def preview(
    recipe: Recipe,
    corpus: Corpus,
    device: str = "cpu",
    limits: Limits = LOCAL,
    *,
    start: Checkpoint | None = None,
) -> Preview:
    """Prepare a text without a model and count; the first MAX_PREVIEWED sentences stand for a longer text. start: as
    for `prepare`.

    Raises BertCoreError when the text cannot be trained on, or the run would exceed the limits.
    """
    corpus = corpus.first(recipe.corpus.most_documents)
    part = corpus.part(0, MAX_PREVIEWED)
    times = len(corpus.sentences) / len(part.sentences)
    with noting(corpus.notes):
        text = prepare_text(recipe, part, device, start, times=times)
        check_limits(text, limits)
    encoded, held_out = text.batches.encoded, text.parts.validation
    first = np.flatnonzero(encoded.has_next if recipe.data.segments == "sentences" else [])
    a, b = encoded.lengths[first], encoded.lengths[first + 1]
    kept = sum(side.sum() for side in truncated_lengths(a, b, text.recipe.data.sequence_length - 3))
    warnings = [*text.notes]
    if times > 1:
        warnings.append(
            f"Estimated from the first {len(part.sentences):,} of {len(corpus.sentences):,} sentences; the vocabulary "
            "of the whole text may be larger."
        )
    return Preview(
        sentences=round(len(encoded) * times),
        tokens=round(len(encoded.ids) * times),
        vocabulary=text.config.vocab_size,
        unknown_share=encoded.unknown_share,
        cut_share=1 - float(kept) / float((a + b).sum()) if len(first) else 0.0,
        parameters=text.config.parameter_count(),
        seconds=text.seconds(text.recipe.training.total_steps),
        held_out_sentences=round(len(held_out.sentences) * times) if held_out else 0,
        warnings=tuple(warnings),
    )
