"""The words of one or two sentences as buttons that mask them, and the masked texts."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import gradio as gr

from bert_core.data.tokenizer import MASK
from bert_core.probes.reading import Word, read_words
from bert_core.storage.checkpoint import Checkpoint
from ui.parts.question import Question
from ui.views import view


@dataclass(frozen=True)
class MaskedWord:
    """A masked word. index: its number among the words that have a button, None for a typed [MASK]. mask: number of
    its first [MASK] in reading order. masks: how many it has, one for each of its pieces.
    """

    word: Word
    index: int | None
    mask: int
    masks: int


def token_picker(*, elem_id: str) -> gr.HTML:
    """The words as toggle buttons; listen to `.input`. Value: see `picker_value`."""
    return view("tokenPicker", events=("input",), elem_id=elem_id)


def picker_value(checkpoint: Checkpoint, question: Question, before: dict[str, Any] | None) -> dict[str, Any]:
    """The words with a button; those that were masked `before` an edit of the texts and did not change stay masked.

    {"words": texts, "cuts": where each word's pieces begin, "known": whether the model has the word, "second": number
    of the second sentence's first word, "picked": numbers of masked words}
    """
    words = maskable(checkpoint, question)
    value = {
        "words": [word.text for word in words],
        "cuts": [list(word.cuts) for word in words],
        "known": [word.is_known for word in words],
        "second": sum(word.sentence == 0 for word in words),
    }
    return value | {"picked": keep_picked(before, value)}


def maskable(checkpoint: Checkpoint, question: Question) -> list[Word]:
    """The words that can be masked, without any typed [MASK]."""
    return [word for word in read_words(checkpoint, *question.texts) if not word.is_special]


def keep_picked(before: dict[str, Any] | None, now: dict[str, Any]) -> list[int]:
    """Numbers of the picked words that are still the same at their position in their sentence."""
    if not before:
        return []
    kept = []
    for index in before["picked"]:
        moved = index if index < before["second"] else index - before["second"] + now["second"]
        same_sentence = (index < before["second"]) == (moved < now["second"])
        if same_sentence and moved < len(now["words"]) and before["words"][index] == now["words"][moved]:
            kept.append(moved)
    return kept


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
