"""Masked words: hide words of a sentence and see what the model puts in their place."""

import re
from typing import Any

import gradio as gr

from bert_core.checkpoint import Checkpoint
from bert_core.errors import InputError
from bert_core.export import predictions_csv, predictions_json
from bert_core.probing import fill_mask, unknown_words, words
from ui.downloads import exporter, offer
from ui.guess_board import single_token
from ui.handlers import QUIET, on_error
from ui.page import Page, choose_sentence
from ui.token_picker import MASK, keep_picked, mask_text, token_picker, word_places
from ui.turns import probing
from ui.views import view

FIRST_SENTENCE = "Hello, Romeo My name is Juliet. Nice to meet you."
FIRST_PICK = 5
MOST_GUESSES = 5
NO_WORDS = "Type or choose a sentence first."
HINT = "Press a word to hide it from the model; press several to hide them together."


def masked_words_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with gr.Tab("Masked words", elem_id="tab-masked-words") as tab:
        with gr.Row():
            sentence = gr.Textbox(
                FIRST_SENTENCE, label="Sentence", lines=1, max_lines=4, elem_id="masked-sentence", scale=3
            )
            chosen = choose_sentence("Or choose one", "masked-choose")
        picker = token_picker(elem_id="masked-words")
        pair = gr.Textbox(
            label="Second sentence (optional)",
            info="The model learned from pairs of sentences; what follows can help it guess.",
            lines=1,
            max_lines=4,
            elem_id="masked-pair",
        )
        guesses = view("guesses", events=("submit",), elem_id="masked-guesses")
        downloads = exporter("the guesses", of="masked-guesses", elem_id="masked-download", kinds=("json", "csv"))

    @on_error(no_guesses)
    def guess(token: str, text: str, pair: str, picker: dict[str, Any] | None) -> dict[str, Any]:
        return guesses_value(page.model(token).checkpoint, text, pair, (picker or {}).get("picked", []))

    @on_error(lambda sentence: ({"words": [], "picked": []}, no_guesses(sentence)))
    def read(token: str, text: str, pair: str, picker: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Cut the sentence into words and guess again; words that stayed stay hidden."""
        shown = [word for word, _ in clickable_words(page.model(token).checkpoint, text)]
        picked = [FIRST_PICK] if picker is None and text == FIRST_SENTENCE else keep_picked(picker, shown)
        picker = {"words": shown, "picked": picked}
        return picker, guess(token, text, pair, picker)

    def write(kind: str, token: str, text: str, pair: str, picker: dict[str, Any] | None) -> str:
        picked = (picker or {}).get("picked", [])
        return guesses_file(kind, page.model(token).checkpoint, text, pair, picked)

    inputs = [page.visitor, sentence, pair, picker]
    offer(downloads, "guesses", inputs, write)
    gr.on([tab.select, sentence.change], read, inputs, [picker, guesses], trigger_mode="always_last", **QUIET)
    gr.on(
        [picker.input, pair.change, guesses.submit],
        guess,
        inputs,
        guesses,
        trigger_mode="always_last",
        **QUIET,
    )
    tab.select(lambda token: gr.update(choices=page.sentences(token)), page.visitor, chosen, **QUIET)
    chosen.input(lambda text: text or gr.skip(), chosen, sentence, **QUIET)


def clickable_words(checkpoint: Checkpoint, text: str) -> list[tuple[str, tuple[int, int]]]:
    """The words that can be hidden, with their places; a [MASK] that was typed is none of them."""
    typed = [match.span() for match in re.finditer(re.escape(MASK), text)]
    places = word_places(text, words(checkpoint, text))
    return [
        (text[start:end], (start, end))
        for start, end in places
        if not any(start < typed_end and end > typed_start for typed_start, typed_end in typed)
    ]


def guesses_value(checkpoint: Checkpoint, text: str, pair: str, picked: list[int]) -> dict[str, Any]:
    """The guesses for every hidden word and every typed [MASK], in reading order, as the guesses view shows them."""
    masked, asked = hide_words(checkpoint, text, pair, picked)
    if not asked:
        return {"masks": [], "notes": [], "hint": HINT if clickable_words(checkpoint, text) else NO_WORDS}
    with probing():
        guesses = fill_mask(checkpoint, masked, pair or None, top_k=MOST_GUESSES)
    masks = [
        {"word": word, "answer": single_token(checkpoint, word) if word else None, "guesses": best}
        for word, best in zip(asked, guesses, strict=False)
    ]
    return {
        "masks": masks,
        "notes": unknown_note(checkpoint, text.replace(MASK, " "), pair.replace(MASK, " ")),
    }


def guesses_file(kind: str, checkpoint: Checkpoint, text: str, pair: str, picked: list[int]) -> str:
    """The same guesses as the content of a JSON or a CSV file. Raises InputError when no word is hidden."""
    masked, asked = hide_words(checkpoint, text, pair, picked)
    if not asked:
        raise InputError(HINT)
    with probing():
        guesses = fill_mask(checkpoint, masked, pair or None, top_k=MOST_GUESSES)
    return predictions_json(masked, pair, guesses) if kind == "json" else predictions_csv(guesses)


def hide_words(checkpoint: Checkpoint, text: str, pair: str, picked: list[int]) -> tuple[str, list[str]]:
    """The text with [MASK] for the picked words, and the word behind each [MASK] of both texts, "" for typed ones."""
    shown = clickable_words(checkpoint, text)
    picked = [index for index in picked if index < len(shown)]
    hidden = {shown[index][1]: shown[index][0] for index in picked}
    typed = {match.span(): "" for match in re.finditer(re.escape(MASK), text)}
    asked = [word for _, word in sorted((hidden | typed).items())] + [""] * pair.count(MASK)
    return mask_text(text, [place for _, place in shown], picked), asked


def no_guesses(sentence: str) -> dict[str, Any]:
    """What the guesses view shows in place of an answer: the sentence that says why there is none."""
    return {"masks": [], "notes": [], "error": sentence}


def unknown_note(checkpoint: Checkpoint, *texts: str) -> list[str]:
    """A sentence that names the words the model does not know, or nothing."""
    unknown = list(dict.fromkeys(word for text in texts if text.strip() for word in unknown_words(checkpoint, text)))
    if not unknown:
        return []
    named = ", ".join(unknown[:8]) + (f" and {len(unknown) - 8} more" if len(unknown) > 8 else "")
    return [f"The model never learned these words and reads each as [UNK]: {named}."]
