"""The words of one or two sentences as buttons that a person presses to mask them, and the text that comes of it."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from bert_core.data.tokenizer import MASK
from bert_core.probes.forward import Word, read_words
from bert_core.storage.checkpoint import Checkpoint
from ui.views import view


@dataclass(frozen=True)
class Place:
    """A masked word. index: its number among the words that can be pressed, None for a [MASK] that was typed. mask:
    number of its first [MASK] in reading order; a word of several pieces has as many.
    """

    word: Word
    index: int | None
    mask: int
    masks: int


def token_picker(*, elem_id: str) -> gr.HTML:
    """The words as toggle buttons; listen to `.input`. Value: what `picker_value` gives."""
    return view("tokenPicker", events=("input",), elem_id=elem_id)


def picker_value(checkpoint: Checkpoint, text: str, pair: str, before: dict[str, Any] | None) -> dict[str, Any]:
    """The words to press, and which of them are masked: those that were masked before an edit and stayed.

    {"words": texts, "cuts": where each word's pieces begin, "known": whether the model has the word, "second": the
    number of the second sentence's first word, "picked": numbers of masked words}
    """
    words = pressable(checkpoint, text, pair)
    value = {
        "words": [word.text for word in words],
        "cuts": [list(word.cuts) for word in words],
        "known": [word.is_known for word in words],
        "second": sum(word.sentence == 0 for word in words),
    }
    return value | {"picked": keep_picked(before, value)}


def pressable(checkpoint: Checkpoint, text: str, pair: str = "") -> list[Word]:
    """The words that can be masked; a [MASK] that was typed is none of them."""
    return [word for word in read_words(checkpoint, text, pair or None) if not word.is_special]


def keep_picked(before: dict[str, Any] | None, now: dict[str, Any]) -> list[int]:
    """The picked words that are still the same at their place in their sentence after the texts were edited."""
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
    checkpoint: Checkpoint, text: str, pair: str, picked: list[int], widths: dict[int, int] | None = None
) -> tuple[str, str, list[Place]]:
    """Both texts with a [MASK] for each piece of the picked words, and all masked places in reading order.

    widths: for some places, by number, how many masks they get instead.
    """
    places: list[Place] = []
    texts, ends = ["", ""], [0, 0]
    index = mask = 0
    for word in read_words(checkpoint, text, pair or None):
        typed = word.pieces == (MASK,)
        if typed or (not word.is_special and index in picked):
            masks = (widths or {}).get(len(places), len(word.pieces))
            places.append(Place(word, None if typed else index, mask, masks))
            mask += masks
            source = (text, pair)[word.sentence]
            texts[word.sentence] += source[ends[word.sentence] : word.start] + " ".join([MASK] * masks)
            ends[word.sentence] = word.end
        index += not word.is_special
    return texts[0] + text[ends[0] :], texts[1] + pair[ends[1] :], places
