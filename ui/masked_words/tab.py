"""Masked words: hide words of a sentence and see the model's guesses for them, and what they depend on."""

import dataclasses
from typing import Any

import gradio as gr

from bert_core.data.tokenizer import MASK
from bert_core.errors import InputError
from bert_core.probes.masked_words import fill_mask, rate_guess
from bert_core.probes.reading import tokenize
from bert_core.storage.checkpoint import Checkpoint
from ui.handlers import QUIET, on_error, warn
from ui.masked_words.closer_view import LABELS, VIEWS, closer_code, closer_numbers, closer_value
from ui.masked_words.token_picker import MaskedWord, mask_words, maskable, picker_value, token_picker
from ui.parts.compare import caption, compare_with, fill_lists, model_of
from ui.parts.downloads import exporter, numbers_of_models, offer
from ui.parts.export import Numbers, guesses_numbers, python_code
from ui.parts.notes import alone_note, unknown_note
from ui.parts.page import Page, sentence_box, sentence_row
from ui.parts.question import Question, Values
from ui.server.probe_lock import probe_lock
from ui.views import view

FIRST_SENTENCE = "Hello, Romeo My name is Juliet. Nice to meet you."
FIRST_PICK = 5
MOST_GUESSES = 5
NO_WORDS = "Type or choose a sentence first."
NO_GUESSES: dict[str, Any] = {"masks": [], "notes": []}
NO_VIEW = {"kind": "", "text": ""}
HINT = "Click words to hide them from the model; double-click a word to hide only that one."


def masked_words_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with gr.Tab("Masked words", elem_id="tab-masked-words") as tab:
        sentence, sentences = sentence_row("Sentence", "masked-sentence", FIRST_SENTENCE)
        picker = token_picker(elem_id="masked-words")
        with gr.Row():
            info = "The model was trained on pairs of sentences; a second one can help it guess."
            pair = sentence_box("Second sentence (optional)", "masked-pair", info=info)
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
        kinds = [(LABELS[key], key) for key in VIEWS]
        kind = gr.Radio(kinds, value=VIEWS[0], label="A closer view", elem_id="masked-kind")
        mask = gr.State(0)
        closer = view("closer", events=("select",), elem_id="masked-closer")
        closer_downloads = exporter("this view", of="masked-closer", elem_id="masked-closer-download")

    def asked(values: Values) -> Question:
        return Question(
            values[sentence],
            values[pair],
            values[other],
            hidden=tuple((values[picker] or {}).get("picked", ())),
            guess=values[own],
            view=values[kind],
            mask=values[mask],
        )

    def checkpoint_of(values: Values) -> Checkpoint:
        return page.model(values[page.visitor]).checkpoint

    @on_error(lambda sentence: {guesses: no_guesses(sentence), guesses_beside: NO_GUESSES, closer: NO_VIEW})
    def guess(values: Values) -> dict[Any, Any]:
        """The guesses, those of the model to compare with, and the closer view."""
        model, question = page.model(values[page.visitor]), asked(values)
        with probe_lock:
            value = guesses_value(model.checkpoint, question)
            answer = {guesses: value, guesses_beside: NO_GUESSES, closer: closer_value(model.checkpoint, question)}
        if question.other:
            answer[guesses] = value | {"caption": caption(model)}
            answer[guesses_beside] = beside(model.checkpoint, values[page.visitor], question)
        return answer

    @on_error(lambda sentence: no_guesses(sentence) | {"caption": "The other model"})
    def beside(first: Checkpoint, token: str, question: Question) -> dict[str, Any]:
        model = model_of(page, token, question.other)
        with probe_lock:
            return beside_value(first, model.checkpoint, question) | {"caption": caption(model)}

    @on_error(lambda sentence: {guesses: no_guesses(sentence), guesses_beside: NO_GUESSES, closer: NO_VIEW})
    def read(values: Values) -> dict[Any, Any]:
        """Split the sentences into words and guess again; words that did not change stay hidden."""
        question, before = asked(values), values[picker]
        now = picker_value(checkpoint_of(values), question, before)
        if before is None and question.text == FIRST_SENTENCE:
            now["picked"] = [FIRST_PICK]
        return {picker: now, **guess({**values, picker: now})}

    @on_error(lambda sentence: {picker: warn(sentence)})
    def put(values: Values, event: gr.EventData) -> dict[Any, Any]:
        """Put a guess into the sentence."""
        question = asked(values)
        word = mask_words(checkpoint_of(values), question)[1][int(event.mask)]
        edited = put_guess(question, word, int(event.piece), str(event.token)[:200])
        texts = {sentence: edited.text, pair: edited.pair}
        if before := values[picker]:
            before = before | {"picked": [index for index in question.hidden if index != word.index]}
        return texts | read({**values, **texts, picker: before})

    @on_error(lambda sentence: {closer: {"kind": "", "text": sentence}})
    def show_mask(values: Values, event: gr.EventData) -> dict[Any, Any]:
        """Show another mask in the closer view."""
        question = dataclasses.replace(asked(values), mask=int(event.mask))
        with probe_lock:
            return {mask: question.mask, closer: closer_value(checkpoint_of(values), question)}

    def numbers(values: Values) -> Numbers | dict[str, Numbers]:
        first, question = checkpoint_of(values), asked(values)

        def of_model(checkpoint: Checkpoint) -> Numbers:
            check_words(first, checkpoint, question)
            return all_guesses(checkpoint, question)

        return numbers_of_models(page, values[page.visitor], question.other, of_model)

    def numbers_of_view(values: Values) -> Numbers:
        with probe_lock:
            return closer_numbers(closer_value(checkpoint_of(values), asked(values)))

    def code_of_view(values: Values) -> str:
        with probe_lock:
            return closer_code(checkpoint_of(values), asked(values))

    inputs = {page.visitor, sentence, pair, other, picker, own, kind, mask}
    answers = {guesses, guesses_beside, closer}
    always = {"trigger_mode": "always_last", **QUIET}
    offer(downloads, "guesses", inputs, numbers, code=lambda values: guesses_code(checkpoint_of(values), asked(values)))
    offer(closer_downloads, "closer-view", inputs, numbers_of_view, code=code_of_view)
    gr.on([tab.select, sentence.change, pair.change], read, inputs, {picker, *answers}, **always)
    gr.on([picker.input, own.change, kind.input, other.input, guesses.submit], guess, inputs, answers, **always)
    guesses.select(put, inputs, {sentence, pair, picker, *answers}, **always)
    closer.select(show_mask, inputs, {mask, closer}, **always)
    fill_lists(page, tab, {sentences: sentence}, other)


def guesses_value(checkpoint: Checkpoint, question: Question) -> dict[str, Any]:
    """The guesses for every hidden word and every typed [MASK], in reading order, as the guesses view shows them."""
    masked, words = mask_words(checkpoint, question)
    if not words:
        return NO_GUESSES | {"hint": HINT if maskable(checkpoint, question) else NO_WORDS}
    guesses = fill_mask(checkpoint, *masked.texts, top_k=MOST_GUESSES)
    masks = []
    for number, word in enumerate(words):
        pieces = [
            {
                "answer": piece if word.index is not None and word.word.is_known else None,
                "guesses": guesses[word.mask + i],
            }
            for i, piece in enumerate(word.word.pieces)
        ]
        text = "" if word.index is None else word.word.text
        own = rated_guess(checkpoint, question, number, question.guess) if question.guess.strip() else None
        masks.append({"word": text, "pieces": pieces, "own": own})
    texts = (text.replace(MASK, " ") for text in (question.text, question.pair))
    notes = unknown_note(checkpoint, *texts) + alone_note(checkpoint, question.pair)
    return {"masks": masks, "notes": notes}


def beside_value(first: Checkpoint, other: Checkpoint, question: Question) -> dict[str, Any]:
    """Another model's guesses for the words hidden from the first, and both probabilities of each hidden word.

    Raises InputError when the other model splits the texts into other words.
    """
    check_words(first, other, question)
    comparison = []
    for number, word in enumerate(mask_words(first, question)[1]):
        if word.index is None:
            continue
        here, there = (
            rated_guess(each, question, number, word.word.text).get("probability") for each in (other, first)
        )
        if here is not None and there is not None:
            comparison.append({"word": word.word.text, "here": here, "there": there})
    return guesses_value(other, question) | {"beside": True, "comparison": comparison}


def check_words(first: Checkpoint, other: Checkpoint, question: Question) -> None:
    """InputError where two models split the texts into different words: the numbers of hidden words differ then."""
    one, two = ([word.text for word in maskable(each, question)] for each in (first, other))
    if one != two:
        raise InputError("This model splits the text into other words; type [MASK] instead of a word to compare.")


def rated_guess(checkpoint: Checkpoint, question: Question, number: int, guess: str) -> dict[str, Any]:
    """A person's own guess for masked word `number`, which gets as many masks as the guess has pieces."""
    try:
        pieces = tokenize(checkpoint, guess, None, add_special_tokens=False)
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


def put_guess(question: Question, masked: MaskedWord, piece: int, token: str) -> Question:
    """The question with a masked word of its texts, or one piece of it, replaced by a guess."""
    word = masked.word
    source = (question.text, question.pair)[word.sentence]
    start, end = word.start, word.end
    if len(word.pieces) > 1:
        cuts = [*word.cuts, len(word.text)]
        start, end = word.start + cuts[piece], word.start + cuts[piece + 1]
    if token.startswith("##") and len(token) > 2:
        token = token[2:]
        if start == word.start:  # the piece continues the word before it
            start = len(source[:start].rstrip())
    edited = source[:start] + token + source[end:]
    return (
        dataclasses.replace(question, text=edited) if word.sentence == 0 else dataclasses.replace(question, pair=edited)
    )


def all_guesses(checkpoint: Checkpoint, question: Question) -> Numbers:
    """The same guesses for a file. Raises InputError when no word is hidden."""
    masked = checked_mask(checkpoint, question)
    with probe_lock:
        return guesses_numbers(*masked.texts, fill_mask(checkpoint, *masked.texts, top_k=MOST_GUESSES))


def guesses_code(checkpoint: Checkpoint, question: Question) -> str:
    """Python code that computes the same guesses. Raises InputError when no word is hidden."""
    texts = checked_mask(checkpoint, question).texts_code
    call = f"guesses = fill_mask(checkpoint, {texts}, top_k={MOST_GUESSES})"
    return python_code(checkpoint.name, ["fill_mask"], call)


def checked_mask(checkpoint: Checkpoint, question: Question) -> Question:
    """The question with [MASK]s in its texts. Raises InputError when no word is hidden."""
    masked, words = mask_words(checkpoint, question)
    if not words:
        raise InputError(HINT)
    return masked


def no_guesses(sentence: str) -> dict[str, Any]:
    """An error instead of guesses."""
    return NO_GUESSES | {"error": sentence}
