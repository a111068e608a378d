"""Masked words: hide words of a sentence and see the model's guesses for them, and what they depend on."""

import math
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr

from balcony.frame.masking import MaskedWord, asked_of, mask_words, maskable, rated_guess
from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import TEXTS, Question
from balcony.frame.shown_model import of_both
from balcony.frame.tab import Tab
from balcony.masked_words.closer_view import LABELS, closer_code, closer_rows, closer_value, tried_on_text, tried_value
from balcony.masked_words.taught import TAUGHT, news, stop_teaching, taught_code, taught_value, teach
from balcony.masked_words.writing import PARTS, WRITE, lay_out_controls, writing_value
from balcony.parts.controls import control
from balcony.parts.downloads import exporter
from balcony.parts.export import Row, python_code
from balcony.parts.first_right import FirstRight
from balcony.parts.notes import alone_note, unknown_note
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import NOT_YOURS
from balcony.views import view
from bert_core.data.tokenizer import MASK
from bert_core.errors import InputError, RunError
from bert_core.probes.forward import likeliest, word_scores
from bert_core.probes.masked_words import find_masks, rated
from bert_core.probes.reading import encode_text, row_of
from bert_core.runs.run import Run
from bert_core.storage.checkpoint import Checkpoint

MOST_GUESSES = 5
NO_WORDS = "Type or choose a sentence first."
HINT = "Click words to hide them from the model."


GUESSES, BESIDE, CLOSER = "masked-guesses", "masked-other-guesses", "masked-closer"  # elem_ids
SWAPS, ANSWERS = "masked-swaps", "masked-answers"
_asked: WeakKeyDictionary[Run, FirstRight] = WeakKeyDictionary()  # the newest question about each run


def lay_out(page: Page) -> None:
    with gr.Row(elem_classes="b-split", elem_id="masked-row"):
        with gr.Column(scale=5, min_width=340):
            with gr.Column(elem_id="masked-stage"):
                view("masked_words/guesses", options={"canFollow": True}, elem_id=GUESSES)
                view("masked_words/guesses", elem_id=BESIDE)
            info = "Any word: its probability and rank at each mask."
            control("text", "guess", label="My guess", info=info, elem_id="masked-own")
            exporter(
                *(page, "the guesses"),
                of="masked-stage",
                elem_id="masked-download",
                name="guesses",
                answer=guess,
                views=(GUESSES, BESIDE),
                rows=guess_rows,
                code=lambda asked: guesses_code(asked.checkpoint, asked.question),
            )
        with gr.Column(scale=7, min_width=340, elem_id="masked-beside"):
            choices = [*LABELS.items()]
            control("radio", "view", label="A closer view", choices=choices, elem_id="masked-kind")
            with gr.Row(elem_id="masked-swap"):
                control("lines", "swaps", label="Words to put there, one per line", elem_id=SWAPS)
                control("lines", "answers", label="Answers to compare, one per line", elem_id=ANSWERS)
            lay_out_controls()
            view("masked_words/closer_view", elem_id=CLOSER)
            exporter(
                *(page, "this view"),
                of=CLOSER,
                elem_id="masked-closer-download",
                name="closer-view",
                answer=look_closer,
                views=(CLOSER,),
                rows=closer_rows,
                code=code_of_view,
            )
    page.answers.add("first-right", first_right)
    page.answers.add("tried", tried_value)
    page.answers.add("tried-on-text", tried_on_text)
    page.answers.add("taught", news)
    page.answers.add("teach", teach)
    page.answers.add("stop-teaching", stop_teaching)
    page.answer("guesses", (*TEXTS, "hidden", "guess", "other", "off"), (GUESSES, BESIDE), guess)
    reads = (*TEXTS, "hidden", "guess", "view", "mask", "place", "swaps", "answers", "off", *PARTS)
    page.answer("closer", reads, (CLOSER,), look_closer)


TAB = Tab(
    "masked-words",
    "Masked words",
    lay_out,
    hint="Click a word to hide it from the model.",
    press="hidden",
    compares=True,
    story=(1, "Now hide a word"),
)


def guess(asked: PageRequest) -> dict[str, Any]:
    """The guesses, and those of the model to compare with."""
    checkpoint, question = asked.checkpoint, asked.question
    with probe_lock:
        value = guesses_value(asked.answering, question)
    off = question.heads_off(checkpoint)
    if off and value["masks"]:
        value |= {"off": len(off)}
    elif value["masks"] and asked.pretraining:
        value |= {"isOfRun": True}  # the page asks for `first_right`

    def beside(other: Checkpoint) -> dict[str, Any]:
        with probe_lock:
            return beside_value(checkpoint, other, question)

    return dict(zip((GUESSES, BESIDE), of_both(asked, value, beside)))


def first_right(asked: PageRequest) -> dict[str, Any]:
    """The steps of `FirstRight` for the masks, and False for one whose word is not known. They take longer than the
    guesses. Raises RunError for another model than that of a run."""
    run, checkpoint = asked.pretraining, asked.checkpoint
    if run is None:
        raise RunError(NOT_YOURS)
    masked, words = mask_words(checkpoint, asked.question)
    known = [each for each in words if each.answer]
    encoding = encode_text(checkpoint, *masked.texts)
    masks = [position for position, token in enumerate(encoding.tokens) if token == MASK]
    places = [masks[each.mask : each.mask + each.masks] for each in known]
    asks = FirstRight([row_of(encoding)] * len(known), places, [each.word.pieces for each in known])
    if (before := _asked.get(run)) == asks:  # it knows some steps already
        asks = before
    _asked[run] = asks
    steps = asks.steps(run)
    if steps is not None:
        of = dict(zip((each.mask for each in known), steps))
        steps = [of.get(each.mask, False) for each in words]
    return {"steps": steps}


def look_closer(asked: PageRequest) -> dict[str, Any]:
    if asked.question.view == TAUGHT:
        return {CLOSER: taught_value(asked)}
    if asked.question.view == WRITE:
        return {CLOSER: writing_value(asked)}
    with probe_lock:
        value = closer_value(asked.answering, asked.question)
    lists = {SWAPS: {"first": value["swaps"]}, ANSWERS: {"first": value["answers"]}} if "swaps" in value else {}
    return {CLOSER: value, **lists}


def code_of_view(asked: PageRequest) -> str:
    if asked.question.view == TAUGHT:
        return taught_code(asked)
    with probe_lock:
        return closer_code(asked.checkpoint, asked.question)


def guesses_value(checkpoint: Checkpoint, question: Question) -> dict[str, Any]:
    """The guesses for every hidden word and every typed [MASK], in reading order, as the guesses view shows them."""
    masked, words = mask_words(checkpoint, question)
    if not words:
        return {"masks": [], "hint": HINT if maskable(checkpoint, question) else NO_WORDS}
    encoding, places = find_masks(checkpoint, *masked.texts)
    [scores] = word_scores(checkpoint, [row_of(encoding)], [places], lambda _, scores: scores)  # (masks, V)
    ids, masks = encode_text(checkpoint, *question.texts).ids, list[dict[str, Any]]()
    for number, word in enumerate(words):
        own, answers = scores[word.mask : word.mask + word.masks], list[Any]([None] * word.masks)
        if word.answer:
            right = rated(checkpoint, ids[word.word.first : word.word.last], own)
            answers = [*zip(right.pieces, map(math.exp, right.log_probabilities), right.ranks)]
        guesses = [list(likeliest(checkpoint, each, MOST_GUESSES)) for each in own]
        masks.append(
            {
                "word": "" if word.index is None else word.word.text,
                "is_lacking": word.is_lacking,
                "pieces": [{"answer": answer, "guesses": each} for answer, each in zip(answers, guesses)],
                "own": rated_guess(checkpoint, question, number, question.guess) if question.guess.strip() else None,
            }
        )
    notes = alone_note(checkpoint, question.pair)
    return {"masks": masks, "sentences": around_masks(question, words), "notes": notes}


def guess_rows(value: dict[str, Any]) -> Iterator[Row]:
    """A row for each guess: numbers of the mask in reading order, of its piece and of the guess, counted from 1."""
    for number, mask in enumerate(value["masks"], 1):
        for piece, each in enumerate(mask["pieces"], 1):
            for rank, (token, probability) in enumerate(each["guesses"], 1):
                at = {"mask": number, "word": mask["word"], "piece": piece, "rank": rank}
                yield at | {"token": token, "probability": probability}


def around_masks(question: Question, words: list[MaskedWord]) -> list[list[str | int]]:
    """Each sentence as its texts and, in place of a masked word, the number of that."""
    sources, ends = (question.text, question.pair), [0, 0]
    parts: list[list[str | int]] = [[], []]
    for number, word in enumerate(words):
        sentence = word.word.sentence
        parts[sentence] += [sources[sentence][ends[sentence] : word.word.start], number]
        ends[sentence] = word.word.end
    return [[*part, source[end:]] for part, source, end in zip(parts, sources, ends) if source.strip()]


def beside_value(first: Checkpoint, other: Checkpoint, question: Question) -> dict[str, Any]:
    """Another model's guesses for the words hidden from the first.

    Raises InputError when the other model does not read a hidden word as one or more words.
    """
    value = guesses_value(other, asked_of(first, other, question))
    texts = (text.replace(MASK, " ") for text in question.texts if text)
    value["notes"] = unknown_note(other, *texts) + value["notes"]  # the words above are those of the first model
    return value


def guesses_code(checkpoint: Checkpoint, question: Question) -> str:
    """Python code that computes the same guesses. Raises InputError when no word is hidden."""
    masked, words = mask_words(checkpoint, question)
    if not words:
        raise InputError(HINT)
    call = f"guesses = fill_mask(checkpoint, {masked.texts_code}, top_k={MOST_GUESSES})"
    return python_code(checkpoint, call, "guesses", off=question.heads_off(checkpoint))
