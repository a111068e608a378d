"""The words of a question that can be hidden, and its texts with a [MASK] for each piece of a hidden one."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from balcony.frame.question import Question
from bert_core.data.tokenizer import MASK
from bert_core.errors import InputError, first_three
from bert_core.probes.masked_words import rate_guess
from bert_core.probes.reading import Word, read_words, tokenize
from bert_core.storage.checkpoint import Checkpoint


@dataclass(frozen=True)
class MaskedWord:
    """A masked word. index: its number among the words that can be hidden, None for a typed [MASK]. mask: number of
    its first [MASK] in reading order. masks: how many it has, one for each of its pieces.
    """

    word: Word
    index: int | None
    mask: int
    masks: int

    @property
    def is_lacking(self) -> bool:
        """Whether the vocabulary lacks the hidden word."""
        return self.index is not None and not self.word.is_known

    @property
    def answer(self) -> str:
        """The hidden word; "" for a typed [MASK] and where the vocabulary lacks it."""
        return "" if self.index is None or self.is_lacking else self.word.text


def words_value(checkpoint: Checkpoint, question: Question, before: dict[str, Any] | None) -> dict[str, Any]:
    """The words of the question's texts that can be hidden; those hidden `before` an edit that did not change stay so.

    before: this value for the texts before, None to hide the longest word that the model knows in one piece. A
    fine-tuned model predicts no words, so at first nothing is hidden from it.
    {"words": texts, "cuts": where each word's pieces begin, "known": whether the model has the word, "second": number
    of the second sentence's first word, "typed": (sentence, number of the word after it) of each typed [MASK],
    "lacking": see `lacking_note`, "hidden": numbers of hidden words}
    """
    words: list[Word] = []
    typed = []
    for word in _all_words(checkpoint, question):
        if word.pieces == (MASK,):
            typed.append((word.sentence, len(words)))
        elif not word.is_special:
            words.append(word)
    value = {
        "words": [word.text for word in words],
        "cuts": [list(word.cuts) for word in words],
        "known": [word.is_known for word in words],
        "second": sum(word.sentence == 0 for word in words),
        "typed": typed,
        "lacking": lacking_note([word.text for word in words if not word.is_known]),
    }
    if checkpoint.head:
        return value | {"hidden": []}
    if before is None:
        whole = [index for index, word in enumerate(words) if word.is_known and len(word.pieces) == 1]
        return value | {"hidden": sorted(whole, key=lambda index: -len(words[index].text))[:1]}
    return value | {"hidden": keep_hidden(before, value)}


def lacking_note(unknown: Sequence[str]) -> str:
    """A sentence that names the words which the vocabulary lacks, "" without such."""
    named = first_three([*dict.fromkeys(unknown)])
    return f"The model never learned these words and reads each as [UNK]: {named}." if unknown else ""


def maskable(checkpoint: Checkpoint, question: Question) -> list[Word]:
    """The words that can be masked, without any typed [MASK]."""
    return [word for word in _all_words(checkpoint, question) if not word.is_special]


def _all_words(checkpoint: Checkpoint, question: Question) -> list[Word]:
    is_empty = not question.text.strip() and not question.pair.strip()
    return [] if is_empty else read_words(checkpoint, *question.texts)


def keep_hidden(before: dict[str, Any], now: dict[str, Any]) -> list[int]:
    """Numbers of the hidden words that are still in their sentence, wherever the edit has moved them."""
    sentences = [((0, each["second"]), (each["second"], len(each["words"]))) for each in (before, now)]
    moved: dict[int, int] = {}
    for (start, end), (new_start, new_end) in zip(*sentences):
        same = SequenceMatcher(None, before["words"][start:end], now["words"][new_start:new_end])
        for old, new, size in same.get_matching_blocks():
            moved |= {start + old + i: new_start + new + i for i in range(size)}
    return [moved[index] for index in before["hidden"] if index in moved]


def mask_words(
    checkpoint: Checkpoint, question: Question, widths: dict[int, int] | None = None
) -> tuple[Question, list[MaskedWord]]:
    """The question with a [MASK] for each piece of the hidden words in its texts, and all masked words in order.

    widths: for some masked words, by number, how many masks they get instead.
    """
    found: list[MaskedWord] = []
    sources, texts, ends = (question.text, question.pair), ["", ""], [0, 0]
    index, mask, hidden = 0, 0, set(question.hidden)
    for word in read_words(checkpoint, *question.texts):
        typed = word.pieces == (MASK,)
        if typed or (not word.is_special and index in hidden):
            masks = (widths or {}).get(len(found), len(word.pieces))
            found.append(MaskedWord(word, None if typed else index, mask, masks))
            mask += masks
            unchanged = sources[word.sentence][ends[word.sentence] : word.start]
            texts[word.sentence] += unchanged + " ".join([MASK] * masks)
            ends[word.sentence] = word.end
        index += not word.is_special
    text, pair = (done + source[end:] for done, source, end in zip(texts, sources, ends))
    return dataclasses.replace(question, text=text, pair=pair), found


def shown_mask(question: Question, words: list[MaskedWord]) -> int:
    """Number of the masked word that a view shows: the chosen one, or the nearest one that exists."""
    return min(max(question.mask, 0), len(words) - 1)


def asked_of(first: Checkpoint, other: Checkpoint, question: Question) -> Question:
    """The question with the numbers that the words hidden from the first model have in another one, found by their
    characters. Raises InputError where the other one does not read a hidden word as one or more words of its own."""
    words, hidden = maskable(other, question), []
    for word in (each.word for each in mask_words(first, question)[1] if each.index is not None):
        same = [
            (number, each)
            for number, each in enumerate(words)
            if each.sentence == word.sentence and each.start < word.end and each.end > word.start
        ]
        if not same or same[0][1].start < word.start or same[-1][1].end > word.end:
            raise InputError(
                f"This model does not read “{word.text}” as a word of its own; hide another word to compare."
            )
        hidden += [number for number, _ in same]
    return dataclasses.replace(question, hidden=tuple(hidden))


def rated_guess(checkpoint: Checkpoint, question: Question, number: int, guess: str) -> dict[str, Any]:
    """A person's own guess for masked word `number`, which gets as many masks as the guess has pieces."""
    try:
        pieces = tokenize(checkpoint, guess, add_special_tokens=False)
        masked, words = mask_words(checkpoint, question, {number: max(1, len(pieces))})
        rated = rate_guess(checkpoint, guess, *masked.texts, mask=words[number].mask)
    except InputError as error:
        return {"word": guess.strip(), "error": str(error)}
    return {
        "word": guess.strip(),
        "pieces": list(rated.pieces),
        "probability": rated.probability,
        "ranks": list(rated.ranks),
    }
