"""Masked words: hide words of a sentence and see what the model puts in their place, and why."""

from typing import Any

import gradio as gr

from bert_core.checkpoint import Checkpoint
from bert_core.errors import InputError
from bert_core.export import predictions_csv, predictions_json, table_csv, table_json
from bert_core.probing import fill_mask, unknown_words
from bert_core.tokenization import MASK
from bert_core.word_probes import rate_guess
from ui.closer_look import VIEWS, closer_table, closer_value
from ui.downloads import exporter, offer
from ui.handlers import QUIET, on_error, warn
from ui.page import Page, choose_sentence
from ui.token_picker import Place, mask_words, picker_value, pressable, token_picker
from ui.turns import probing
from ui.views import view

FIRST_SENTENCE = "Hello, Romeo My name is Juliet. Nice to meet you."
FIRST_PICK = 5
MOST_GUESSES = 5
NO_WORDS = "Type or choose a sentence first."
HINT = (
    "Press a word to hide it from the model; press several to hide them together, or one twice quickly to hide only it."
)


def masked_words_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with gr.Tab("Masked words", elem_id="tab-masked-words") as tab:
        with gr.Row():
            sentence = gr.Textbox(
                FIRST_SENTENCE, label="Sentence", lines=1, max_lines=4, elem_id="masked-sentence", scale=3
            )
            chosen = choose_sentence("Or choose one", "masked-choose")
        picker = token_picker(elem_id="masked-words")
        with gr.Row():
            pair = gr.Textbox(
                label="Second sentence (optional)",
                info="The model learned from pairs of sentences; what follows can help it guess.",
                lines=1,
                max_lines=4,
                elem_id="masked-pair",
                scale=3,
            )
            own = gr.Textbox(
                label="My guess",
                info="Any word: its probability and rank at each mask.",
                lines=1,
                max_lines=1,
                elem_id="masked-own",
                min_width=240,
            )
        guesses = view("guesses", events=("submit", "select"), elem_id="masked-guesses")
        downloads = exporter("the guesses", of="masked-guesses", elem_id="masked-download", kinds=("json", "csv"))
        kind = gr.Radio(list(VIEWS), value=VIEWS[0], label="A closer look", elem_id="masked-kind")
        place = gr.State(0)
        closer = view("closer", events=("select",), elem_id="masked-closer")
        table = exporter("this look", of="masked-closer", elem_id="masked-closer-download", kinds=("json", "csv"))

    @on_error(lambda sentence: (no_guesses(sentence), {"kind": "", "text": ""}))
    def guess(
        token: str, text: str, pair: str, picker: dict[str, Any] | None, own: str, kind: str, place: int
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        checkpoint, picked = page.model(token).checkpoint, (picker or {}).get("picked", [])
        with probing():
            value = guesses_value(checkpoint, text, pair, picked, own)
            return value, closer_value(checkpoint, kind, text, pair, picked, place, own)

    @on_error(lambda sentence: (gr.skip(), no_guesses(sentence), {"kind": "", "text": ""}))
    def read(
        token: str, text: str, pair: str, picker: dict[str, Any] | None, *rest: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Cut the sentences into words and guess again; words that stayed stay hidden."""
        now = picker_value(page.model(token).checkpoint, text, pair, picker)
        if picker is None and text == FIRST_SENTENCE:
            now["picked"] = [FIRST_PICK]
        return now, *guess(token, text, pair, now, *rest)

    @on_error(lambda sentence: (warn(sentence), *[gr.skip()] * 4))
    def put(
        event: gr.EventData, token: str, text: str, pair: str, picker: dict[str, Any] | None, *rest: Any
    ) -> tuple[Any, ...]:
        """Put a guess into the sentence."""
        checkpoint, picked = page.model(token).checkpoint, (picker or {}).get("picked", [])
        places = mask_words(checkpoint, text, pair, picked)[2]
        chosen = places[int(event.place)]
        text, pair = put_guess(text, pair, chosen, int(event.piece), str(event.token)[:200])
        kept = (picker or {}) | {"picked": [index for index in picked if index != chosen.index]}
        return text, pair, *read(token, text, pair, kept if picker else None, *rest)

    @on_error(lambda sentence: (gr.skip(), {"kind": "", "text": sentence}))
    def look(
        event: gr.EventData,
        token: str,
        text: str,
        pair: str,
        picker: dict[str, Any] | None,
        own: str,
        kind: str,
        *_: Any,
    ) -> tuple[int, dict[str, Any]]:
        """Another mask is looked at."""
        place, picked = int(event.place), (picker or {}).get("picked", [])
        with probing():
            return place, closer_value(page.model(token).checkpoint, kind, text, pair, picked, place, own)

    def write(file: str, token: str, text: str, pair: str, picker: dict[str, Any] | None, *_: Any) -> str:
        return guesses_file(file, page.model(token).checkpoint, text, pair, (picker or {}).get("picked", []))

    def write_table(
        file: str, token: str, text: str, pair: str, picker: dict[str, Any] | None, own: str, kind: str, place: int
    ) -> str:
        picked = (picker or {}).get("picked", [])
        with probing():
            value = closer_value(page.model(token).checkpoint, kind, text, pair, picked, place, own)
        header, rows = closer_table(value)
        return table_json(header, rows) if file == "json" else table_csv(header, rows)

    inputs = [page.visitor, sentence, pair, picker, own, kind, place]
    always = {"trigger_mode": "always_last", **QUIET}
    offer(downloads, "guesses", inputs, write)
    offer(table, "closer-look", inputs, write_table)
    gr.on([tab.select, sentence.change, pair.change], read, inputs, [picker, guesses, closer], **always)
    gr.on([picker.input, own.change, kind.input, guesses.submit], guess, inputs, [guesses, closer], **always)
    guesses.select(put, inputs, [sentence, pair, picker, guesses, closer], **always)
    closer.select(look, inputs, [place, closer], **always)
    tab.select(lambda token: gr.update(choices=page.sentences(token)), page.visitor, chosen, **QUIET)
    chosen.input(lambda text: text or gr.skip(), chosen, sentence, **QUIET)


def guesses_value(checkpoint: Checkpoint, text: str, pair: str, picked: list[int], own: str = "") -> dict[str, Any]:
    """The guesses for every hidden word and every typed [MASK], in reading order, as the guesses view shows them."""
    masked, masked_pair, places = mask_words(checkpoint, text, pair, picked)
    if not places:
        return {"masks": [], "notes": [], "hint": HINT if pressable(checkpoint, text, pair) else NO_WORDS}
    guesses = fill_mask(checkpoint, masked, masked_pair or None, top_k=MOST_GUESSES)
    masks = []
    for number, place in enumerate(places):
        pieces = [
            {
                "answer": piece if place.index is not None and place.word.is_known else None,
                "guesses": guesses[place.mask + i],
            }
            for i, piece in enumerate(place.word.pieces)
        ]
        word = "" if place.index is None else place.word.text
        rated = own_guess(checkpoint, text, pair, picked, number, own) if own.strip() else None
        masks.append({"word": word, "pieces": pieces, "own": rated})
    notes = unknown_note(checkpoint, text.replace(MASK, " "), pair.replace(MASK, " "))
    return {"masks": masks, "notes": notes}


def own_guess(checkpoint: Checkpoint, text: str, pair: str, picked: list[int], number: int, own: str) -> dict[str, Any]:
    """A person's own word at one place; the place gets as many masks as the word has pieces."""
    pieces = checkpoint.tokenizer.encode(own, add_special_tokens=False).tokens
    masked, masked_pair, places = mask_words(checkpoint, text, pair, picked, {number: max(1, len(pieces))})
    try:
        rated = rate_guess(checkpoint, own, masked, masked_pair or None, mask=places[number].mask)
    except InputError as error:
        return {"word": own.strip(), "error": str(error)}
    return {
        "word": own.strip(),
        "pieces": list(rated.pieces),
        "probability": rated.probability,
        "ranks": list(rated.ranks),
    }


def put_guess(text: str, pair: str, place: Place, piece: int, token: str) -> tuple[str, str]:
    """Both texts with a guess at a masked place; a piece of a word goes to its place in the word as it was typed."""
    word = place.word
    source = (text, pair)[word.sentence]
    start, end = word.start, word.end
    if len(word.pieces) > 1:
        cuts = [*word.cuts, len(word.text)]
        start, end = word.start + cuts[piece], word.start + cuts[piece + 1]
    if token.startswith("##") and len(token) > 2:
        token = token[2:]
        if start == word.start:  # a piece that goes on with the word before it
            start = len(source[:start].rstrip())
    put = source[:start] + token + source[end:]
    return (put, pair) if word.sentence == 0 else (text, put)


def guesses_file(kind: str, checkpoint: Checkpoint, text: str, pair: str, picked: list[int]) -> str:
    """The same guesses as the content of a JSON or a CSV file. Raises InputError when no word is hidden."""
    masked, masked_pair, places = mask_words(checkpoint, text, pair, picked)
    if not places:
        raise InputError(HINT)
    with probing():
        guesses = fill_mask(checkpoint, masked, masked_pair or None, top_k=MOST_GUESSES)
    return predictions_json(masked, masked_pair, guesses) if kind == "json" else predictions_csv(guesses)


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
