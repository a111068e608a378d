"""Explanations of a guess side by side, and their trial: on this guess, or on sentences of the model's text."""

import contextlib
from collections.abc import Iterator
from typing import Any

from balcony.frame.masking import MaskedWord, mask_words, shown_mask
from balcony.frame.page_request import PageRequest
from balcony.frame.question import Question
from balcony.handlers import MALFORMED
from balcony.parts.export import Row, finite, python_code
from balcony.server.probe_lock import probe_lock
from bert_core.errors import InputError
from bert_core.probes.explanations import METHODS, STEPS, deletion, explain, trial_texts
from bert_core.probes.masked_words import rate_guess
from bert_core.storage.checkpoint import Checkpoint

EXPLAINED = "explained"
NO_MASK = "Click a word above to hide it; this view shows one hidden word."
NOT_ASKED = "“{guess}” is not one word of this model, so it cannot be asked about at this mask. "
HINT = (
    "Click a guess of the list to explain that word instead. Pieces of a word are summed; a raised number tells equal "
    "words apart. An explanation that passes names words without which the guess falls. It does not say how the model "
    "computes the guess, nor what it would make of other words in their place. Hiding favours “Left out”, which hides "
    "words too."
)


def explained_value(checkpoint: Checkpoint, masked: Question, word: MaskedWord) -> dict[str, Any]:
    """The words of both sentences with their shares by each method, what all other tokens have, and how alike the
    methods order the words."""
    guess, answer = masked.guess.strip(), chosen(checkpoint, masked, word)
    found = explain(checkpoint, *masked.texts, mask=word.mask, answer=answer)
    words = [
        {"word": each.text, "sentence": each.sentence, "shares": shares}
        for each, shares in zip(found.words, found.shares.T.tolist(), strict=True)
    ]
    said = NOT_ASKED.format(guess=guess) if guess and not answer else ""
    piece = f"The first of its {word.masks} pieces is shown. " if word.masks > 1 and not answer else ""
    return {
        "kind": EXPLAINED,
        "text": said + piece + HINT,
        "answer": answer or found.answer[0],
        "log_probability": found.log_probability,
        "hidden": found.hidden,
        "left": found.error,
        "steps": STEPS,
        "words": words,
        "others": found.others.tolist(),
        "correlations": [finite(row) for row in found.correlations.tolist()],
    }


def chosen(checkpoint: Checkpoint, masked: Question, word: MaskedWord) -> str | None:
    """The guess that a person pressed or typed; None, for the likeliest, without one or where it does not fit."""
    guess = masked.guess.strip()
    if guess:
        with contextlib.suppress(InputError):
            rate_guess(checkpoint, guess, *masked.texts, mask=word.mask)
            return guess
    return None


def tried_value(asked: PageRequest, number: int) -> dict[str, Any]:
    """The trial of the explanations of the shown guess, if `number` is -1, else of the guess in that sentence of those
    drawn from the model's text, of which there are `of`."""
    checkpoint, question = asked.answering, asked.question
    if number == -1:
        masked, words = mask_words(checkpoint, question)
        if not words:
            raise InputError(NO_MASK)
        word = words[shown_mask(question, words)]
        with probe_lock:
            answer = chosen(checkpoint, masked, word)
            explained = explain(checkpoint, *masked.texts, mask=word.mask, answer=answer)
            found = deletion(checkpoint, explained)
        curves = {"counts": found.counts, "curves": found.curves.tolist(), "chance": found.chance.tolist()}
        return curves | {"slower": found.slower.tolist(), "deviations": finite(found.deviations.tolist())}
    texts = trial_texts(checkpoint, asked.corpus)
    if not texts:
        raise InputError("No sentence of this model's text has enough words that it knows; choose another model.")
    if not 0 <= number < len(texts):
        raise InputError(MALFORMED)
    with probe_lock:
        found = deletion(checkpoint, explain(checkpoint, texts[number]))
    return {"of": len(texts), "deviations": finite(found.deviations.tolist())}


def explained_rows(value: dict[str, Any]) -> Iterator[Row]:
    for word in value["words"]:
        yield {"sentence": word["sentence"] + 1, "word": word["word"], **dict(zip(METHODS, word["shares"]))}


def explained_code(checkpoint: Checkpoint, masked: Question, word: MaskedWord) -> str:
    given = f"checkpoint, {masked.texts_code}, mask={word.mask}, answer={chosen(checkpoint, masked, word)!r}"
    return python_code(
        checkpoint,
        f"found = explain({given})",
        "found.answer, found.words, found.shares, found.correlations, found.error",
        "trial = deletion(checkpoint, found)",
        "trial.counts, trial.curves, trial.chance, trial.slower, trial.deviations",
        off=masked.heads_off(checkpoint),
    )
