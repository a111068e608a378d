"""Masked words: hide words of a sentence and see what the model puts in their place, and why."""

from typing import Any

import gradio as gr

from bert_core.data.tokenizer import MASK
from bert_core.errors import InputError
from bert_core.probes.masked_words import fill_mask, rate_guess
from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import QUIET, on_error, warn
from ui.masked_words.closer_look import VIEWS, closer_code, closer_table, closer_value
from ui.masked_words.token_picker import Place, mask_words, picker_value, pressable, token_picker
from ui.parts.compare import caption, choices, compare_with, model_of
from ui.parts.downloads import exporter, offer, with_other
from ui.parts.export import predictions_csv, predictions_json, table_csv, table_json
from ui.parts.notes import alone_note, unknown_note
from ui.parts.page import Page, choose_sentence
from ui.server.probe_lock import probe_lock
from ui.views import view

FIRST_SENTENCE = "Hello, Romeo My name is Juliet. Nice to meet you."
FIRST_PICK = 5
MOST_GUESSES = 5
NO_WORDS = "Type or choose a sentence first."
NOBODY = {"masks": [], "notes": []}
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
            other = compare_with("masked-other")
        with gr.Column(elem_id="masked-stage"):
            guesses = view("guesses", events=("submit", "select"), elem_id="masked-guesses")
            guesses_beside = view("guesses", elem_id="masked-other-guesses")
        downloads = exporter("the guesses", of="masked-stage", elem_id="masked-download")
        kind = gr.Radio(list(VIEWS), value=VIEWS[0], label="A closer look", elem_id="masked-kind")
        place = gr.State(0)
        closer = view("closer", events=("select",), elem_id="masked-closer")
        table = exporter("this look", of="masked-closer", elem_id="masked-closer-download")

    @on_error(lambda sentence: (no_guesses(sentence), NOBODY, {"kind": "", "text": ""}))
    def guess(
        token: str, other: str, text: str, pair: str, picker: dict[str, Any] | None, own: str, kind: str, place: int
    ) -> tuple[Any, Any, Any]:
        """The guesses, those of the model beside it, and the closer look."""
        model, picked = page.model(token), (picker or {}).get("picked", [])
        with probe_lock:
            value = guesses_value(model.checkpoint, text, pair, picked, own)
            closer = closer_value(model.checkpoint, kind, text, pair, picked, place, own)
        if not other:
            return value, NOBODY, closer
        return (
            value | {"caption": caption(model)},
            beside(model.checkpoint, token, other, text, pair, picked, own),
            closer,
        )

    @on_error(lambda sentence: no_guesses(sentence) | {"caption": "The other model"})
    def beside(
        first: Checkpoint, token: str, other: str, text: str, pair: str, picked: list[int], own: str
    ) -> dict[str, Any]:
        model = model_of(page, token, other)
        with probe_lock:
            return beside_value(first, model.checkpoint, text, pair, picked, own) | {"caption": caption(model)}

    @on_error(lambda sentence: (gr.skip(), no_guesses(sentence), NOBODY, {"kind": "", "text": ""}))
    def read(
        token: str, other: str, text: str, pair: str, picker: dict[str, Any] | None, *rest: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Cut the sentences into words and guess again; words that stayed stay hidden."""
        now = picker_value(page.model(token).checkpoint, text, pair, picker)
        if picker is None and text == FIRST_SENTENCE:
            now["picked"] = [FIRST_PICK]
        return now, *guess(token, other, text, pair, now, *rest)

    @on_error(lambda sentence: (warn(sentence), *[gr.skip()] * 5))
    def put(
        event: gr.EventData, token: str, other: str, text: str, pair: str, picker: dict[str, Any] | None, *rest: Any
    ) -> tuple[Any, ...]:
        """Put a guess into the sentence."""
        checkpoint, picked = page.model(token).checkpoint, (picker or {}).get("picked", [])
        places = mask_words(checkpoint, text, pair, picked)[2]
        chosen = places[int(event.place)]
        text, pair = put_guess(text, pair, chosen, int(event.piece), str(event.token)[:200])
        kept = (picker or {}) | {"picked": [index for index in picked if index != chosen.index]}
        return text, pair, *read(token, other, text, pair, kept if picker else None, *rest)

    @on_error(lambda sentence: (gr.skip(), {"kind": "", "text": sentence}))
    def look(
        event: gr.EventData,
        token: str,
        text: str,
        pair: str,
        picker: dict[str, Any] | None,
        own: str,
        kind: str,
    ) -> tuple[int, dict[str, Any]]:
        """Another mask is looked at."""
        place, picked = int(event.place), (picker or {}).get("picked", [])
        with probe_lock:
            return place, closer_value(page.model(token).checkpoint, kind, text, pair, picked, place, own)

    def write(file: str, token: str, other: str, text: str, pair: str, picker: dict[str, Any] | None) -> str:
        first, picked = page.model(token).checkpoint, (picker or {}).get("picked", [])

        def guesses(checkpoint: Checkpoint) -> str:
            check_words(first, checkpoint, text, pair)
            return guesses_file(file, checkpoint, text, pair, picked)

        return with_other(page, token, other, file, guesses)

    def write_table(
        file: str, token: str, text: str, pair: str, picker: dict[str, Any] | None, own: str, kind: str, place: int
    ) -> str:
        checkpoint, picked = page.model(token).checkpoint, (picker or {}).get("picked", [])
        with probe_lock:
            if file == "py":
                return closer_code(checkpoint, kind, text, pair, picked, place, own)
            header, rows = closer_table(closer_value(checkpoint, kind, text, pair, picked, place, own))
        return table_json(header, rows) if file == "json" else table_csv(header, rows)

    words = [sentence, pair, picker]
    looks, inputs = [page.visitor, *words, own, kind], [page.visitor, other, *words, own, kind, place]
    answers = [guesses, guesses_beside, closer]
    always = {"trigger_mode": "always_last", **QUIET}
    offer(downloads, "guesses", [page.visitor, other, *words], write)
    offer(table, "closer-look", [*looks, place], write_table)
    gr.on([tab.select, sentence.change, pair.change], read, inputs, [picker, *answers], **always)
    gr.on([picker.input, own.change, kind.input, other.input, guesses.submit], guess, inputs, answers, **always)
    guesses.select(put, inputs, [sentence, pair, picker, *answers], **always)
    closer.select(look, looks, [place, closer], **always)
    tab.select(
        lambda token, other: [gr.update(choices=page.sentences(token)), choices(page, token, other)],
        [page.visitor, other],
        [chosen, other],
        **QUIET,
    )
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
    notes = unknown_note(checkpoint, text.replace(MASK, " "), pair.replace(MASK, " ")) + alone_note(checkpoint, pair)
    return {"masks": masks, "notes": notes}


def beside_value(
    first: Checkpoint, other: Checkpoint, text: str, pair: str, picked: list[int], own: str = ""
) -> dict[str, Any]:
    """The guesses of another model for the words that were picked among those of the first, and how far the hidden
    words' probabilities are apart. Raises InputError when the other model tells other words apart.
    """
    check_words(first, other, text, pair)
    value = guesses_value(other, text, pair, picked, own) | {"beside": True, "told": []}
    for number, place in enumerate(mask_words(first, text, pair, picked)[2]):
        if place.index is None:
            continue
        here, there = (
            own_guess(each, text, pair, picked, number, place.word.text).get("probability") for each in (other, first)
        )
        if here is not None and there is not None:
            value["told"].append({"word": place.word.text, "here": here, "there": there})
    return value


def check_words(first: Checkpoint, other: Checkpoint, text: str, pair: str) -> None:
    """InputError where two models tell other words apart: the same words can't be hidden from both then."""
    one, two = ([word.text for word in pressable(each, text, pair)] for each in (first, other))
    if one != two:
        raise InputError("This model cuts the text into other words; put [MASK] in place of a word to compare.")


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
    """The same guesses as the content of a JSON or a CSV file, or as Python that gives them ("py").

    Raises InputError when no word is hidden.
    """
    masked, masked_pair, places = mask_words(checkpoint, text, pair, picked)
    if not places:
        raise InputError(HINT)
    if kind == "py":
        texts = f"{masked!r}, {masked_pair!r}" if masked_pair else f"{masked!r}"
        return (
            "from bert_core import fill_mask, load_checkpoint\n\n"
            f"checkpoint = load_checkpoint({checkpoint.name!r})\n"
            f"guesses = fill_mask(checkpoint, {texts}, top_k={MOST_GUESSES})\n"
        )
    with probe_lock:
        guesses = fill_mask(checkpoint, masked, masked_pair or None, top_k=MOST_GUESSES)
    return predictions_json(masked, masked_pair, guesses) if kind == "json" else predictions_csv(guesses)


def no_guesses(sentence: str) -> dict[str, Any]:
    """What the guesses view shows in place of an answer: the sentence that says why there is none."""
    return {"masks": [], "notes": [], "error": sentence}
