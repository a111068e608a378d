"""The words of a sentence as buttons that a person presses to mask them, and the text that comes of it."""

from typing import Any

import gradio as gr

from ui.views import view

MASK = "[MASK]"


def token_picker(*, elem_id: str) -> gr.HTML:
    """The words as toggle buttons. Value: {"words": [...], "picked": [indexes]}; listen to `.input`."""
    return view("tokenPicker", events=("input",), elem_id=elem_id)


def word_places(text: str, words: list[str]) -> list[tuple[int, int]]:
    """Start and end in the text of each word, in reading order; words that the text lacks are left out."""
    places, position = [], 0
    for word in words:
        start = text.find(word, position)
        if start < 0:
            continue
        position = start + len(word)
        places.append((start, position))
    return places


def keep_picked(picker: dict[str, Any] | None, words: list[str]) -> list[int]:
    """The picked indexes whose word is still the same after the text was edited."""
    if not picker:
        return []
    before = picker.get("words", [])
    return [i for i in picker.get("picked", []) if i < len(words) and i < len(before) and before[i] == words[i]]


def mask_text(text: str, places: list[tuple[int, int]], picked: list[int]) -> str:
    """The text with each picked word replaced by [MASK]."""
    for start, end in sorted((places[index] for index in picked), reverse=True):
        text = text[:start] + MASK + text[end:]
    return text
