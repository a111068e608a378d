"""Closer views of masked words: layer by layer, explanations on trial, every word hidden once, and other words in the
place of one."""

from collections.abc import Callable, Iterable, Iterator
from statistics import fmean
from typing import Any

from balcony.frame.masking import MaskedWord, mask_words, rated_guess, shown_mask
from balcony.frame.page_request import PageRequest
from balcony.frame.question import Question
from balcony.masked_words.taught import TAUGHT, taught_rows
from balcony.masked_words.writing import WRITE, writing_code, writing_rows
from balcony.parts.export import Row, finite, python_code
from balcony.parts.notes import unknown_note
from balcony.parts.swaps import chosen_swap, swapped
from balcony.server.probe_lock import probe_lock
from bert_core.data.tokenizer import MASK, UNK
from bert_core.errors import InputError
from bert_core.probes.explanations import METHODS, STEPS, deletion, explain, trial_texts
from bert_core.probes.masked_words import layer_lens, rate_guess, sweep
from bert_core.probes.reading import tokenize
from bert_core.storage.checkpoint import Checkpoint

LENS, EXPLAINED, SWEEP, SWAP = "lens", "explained", "sweep", "swap"
LABELS = {
    LENS: "Layer by layer",
    EXPLAINED: "Which words it depends on",
    SWEEP: "Every word once",
    SWAP: "Other words in one place",
    WRITE: "Write by unmasking",
    TAUGHT: "Which sentence taught it",
}
NO_MASK = "Click a word above to hide it; this view shows one hidden word."
NOT_ASKED = "“{guess}” is not one word of this model, so it cannot be asked about at this mask."
FIRST_PIECE = "The first of its {} pieces is shown."
NO_TEXT = "No sentence of this model's text has enough words that it knows; choose another model."
EXPLAINED_HINT = (
    "Click a guess of the list to explain that word instead. Pieces of a word are summed; a raised number tells equal "
    "words apart. An explanation that passes names words without which the guess falls. It does not say how the model "
    "computes the guess, nor what it would make of other words in their place. Hiding favours “Left out”, which hides "
    "words too."
)
SWEEP_HINT = (
    "Each word was hidden once; the stronger the colour, the likelier the model finds the word. Click a word to see "
    "alternatives. Mean log-probability {mean} (0 is certain): how well words fit their positions, each predicted "
    "from all the others. It is not the probability of the sentence."
)
SWAP_HINT = (
    "Each word of the list stands in turn in the place of “{word}”; the bars show how likely each answer then is at "
    "{mask}. What changes with a name or a profession, the model has taken from the texts that it was trained on."
)


def closer_value(checkpoint: Checkpoint, question: Question) -> dict[str, Any]:
    """The question's view of LABELS, as the page draws it."""
    if question.view == SWEEP:
        return sweep_value(checkpoint, question)
    masked, words = mask_words(checkpoint, question)
    if not words:
        return {"kind": "", "text": NO_MASK}
    number = shown_mask(question, words)
    if question.view == SWAP:
        value = swap_value(checkpoint, question, words)
    else:
        value = (lens_value if question.view == LENS else explained_value)(checkpoint, masked, words[number])
    names = [word.word.text if word.index is not None else MASK for word in words]
    return value | {"masks": names, "mask": number}


def chosen(checkpoint: Checkpoint, masked: Question, word: MaskedWord) -> tuple[str | None, str]:
    """The guess that a person pressed or typed, None without one or where it does not fit; and what is to be said."""
    guess, said = masked.guess.strip(), [FIRST_PIECE.format(word.masks)] * (word.masks > 1)
    if guess:
        try:
            rate_guess(checkpoint, guess, *masked.texts, mask=word.mask)
        except InputError:
            said.insert(0, NOT_ASKED.format(guess=guess))
        else:
            return guess, ""
    return None, " ".join(said)


def lens_value(checkpoint: Checkpoint, masked: Question, word: MaskedWord) -> dict[str, Any]:
    """Layers, each with its best guess, the candidates' probabilities and the rank of the watched word: of a guess that
    was pressed or typed, else of the hidden word. size: of the vocabulary."""
    asked = lens_words(word, masked.guess)
    lens = layer_lens(checkpoint, *masked.texts, mask=word.mask, words=asked)
    tokens = {each: _token(checkpoint, each, lens.candidates) for each in asked}
    followed = next(filter(tokens.get, asked), lens.candidates[0])
    watched = tokens.get(followed, followed)
    column = lens.candidates.index(watched)
    rows = [
        {"cells": cells, "rank": ranks[column], "best": list(best)}
        for cells, ranks, best in zip(lens.probabilities.tolist(), lens.ranks.tolist(), lens.best)
    ]
    guess = masked.guess.strip()
    said = NOT_ASKED.format(guess=guess) if guess not in ("", followed) else ""
    piece = FIRST_PIECE.format(word.masks) if word.masks > 1 else ""
    return {
        "kind": LENS,
        "text": said + piece,
        "candidates": list(lens.candidates),
        "watched": watched,
        "rows": rows,
        "size": checkpoint.tokenizer.get_vocab_size(),
    }


def lens_words(word: MaskedWord, guess: str) -> list[str]:
    """The words that the lens shows besides the model's guesses, and of which it follows the first one that is a token:
    a guess that was pressed or typed, and the hidden word or its first piece."""
    first = word.answer[: word.word.cuts[1]] if word.masks > 1 else word.answer
    return [each for each in (guess.strip(), first) if each]


def _token(checkpoint: Checkpoint, word: str, candidates: tuple[str, ...]) -> str:
    """The one known token that a word is, "" for none. A pressed guess may be one that cannot be typed, such as ##s."""
    if word in candidates:
        return word
    tokens = tokenize(checkpoint, word, add_special_tokens=False).tokens
    return tokens[0] if len(tokens) == 1 and tokens != [UNK] else ""


def explained_value(checkpoint: Checkpoint, masked: Question, word: MaskedWord) -> dict[str, Any]:
    """The words of both sentences with their shares by each method, what all other tokens have, and how alike the
    methods order the words."""
    answer, said = chosen(checkpoint, masked, word)
    found = explain(checkpoint, *masked.texts, mask=word.mask, answer=answer)
    words = [
        {"word": each.text, "sentence": each.sentence, "shares": shares}
        for each, shares in zip(found.words, found.shares.T.tolist(), strict=True)
    ]
    return {
        "kind": EXPLAINED,
        "text": f"{said} {EXPLAINED_HINT}".strip(),
        "answer": answer or found.answer[0],
        "log_probability": found.log_probability,
        "hidden": found.hidden,
        "left": found.error,
        "steps": STEPS,
        "words": words,
        "others": found.others.tolist(),
        "correlations": [finite(row) for row in found.correlations.tolist()],
    }


def tried_value(asked: PageRequest) -> dict[str, Any]:
    """The trial of the explanations of the shown guess."""
    checkpoint, question = asked.answering, asked.question
    masked, words = mask_words(checkpoint, question)
    if not words:
        raise InputError(NO_MASK)
    word = words[shown_mask(question, words)]
    with probe_lock:
        answer, _ = chosen(checkpoint, masked, word)
        found = deletion(checkpoint, explain(checkpoint, *masked.texts, mask=word.mask, answer=answer))
    numbers = {name: getattr(found, name).tolist() for name in ("curves", "chance", "slower")}
    return numbers | {"counts": found.counts, "deviations": finite(found.deviations.tolist())}


def tried_on_text(asked: PageRequest) -> dict[str, Any]:
    """How far each method is ahead of chance in sentences drawn from the model's text."""
    checkpoint, rows = asked.answering, list[list[float | None]]()
    for text in trial_texts(checkpoint, asked.corpus):
        with probe_lock:
            rows.append(finite(deletion(checkpoint, explain(checkpoint, text)).deviations.tolist()))
    if not rows:
        raise InputError(NO_TEXT)
    return {"rows": rows}


def sweep_value(checkpoint: Checkpoint, question: Question) -> dict[str, Any]:
    """The words of both sentences, each with its own probability and the likeliest alternatives."""
    if not question.text.strip():
        return {"kind": "", "text": "Type or choose a sentence first."}
    swept = sweep(checkpoint, *question.texts)
    words = [
        {
            "word": entry.word.text,
            "sentence": entry.word.sentence,
            "probability": entry.own.probability if entry.own else None,
            "log_probability": entry.own.log_probability if entry.own else None,
            "pieces": list(entry.word.pieces),
            "rivals": [[list(guess) for guess in rivals] for rivals in entry.rivals],
        }
        for entry in swept
    ]
    logs = [entry.own.log_probability for entry in swept if entry.own]
    caption = "The model knows none of these words."
    if logs:
        caption = SWEEP_HINT.format(mean=f"{fmean(logs):.2f}".replace("-", "−"))
    return {"kind": SWEEP, "text": caption, "words": words}


def swap_value(checkpoint: Checkpoint, question: Question, words: list[MaskedWord]) -> dict[str, Any]:
    """The words that stand in the place of one, each with the probability of every answer at the shown mask; None for
    an answer that the model cannot give there."""
    chosen, number = chosen_swap(checkpoint, question, words), shown_mask(question, words)
    word, rows = chosen.places[chosen.place], []
    for other in chosen.words:
        asked = swapped(checkpoint, question, chosen.place, word, other)
        rated = [rated_guess(checkpoint, asked, number, answer) for answer in chosen.answers]
        rows.append({"word": other, "cells": [each.get("probability") for each in rated]})
    return {
        "kind": SWAP,
        "text": SWAP_HINT.format(word=word.text, mask=MASK),
        "places": [[i, each.text] for i, each in chosen.places.items()],
        "place": chosen.place,
        "swaps": chosen.words,
        "answers": chosen.answers,
        "rows": rows,
        "notes": unknown_note(checkpoint, *chosen.words, *chosen.answers),
    }


def lens_rows(value: dict[str, Any]) -> Iterator[Row]:
    for layer, row in enumerate(value["rows"]):
        for token, probability in zip(value["candidates"], row["cells"]):
            yield {"layer": layer, "token": token, "probability": probability}


def explained_rows(value: dict[str, Any]) -> Iterator[Row]:
    for word in value["words"]:
        yield {"sentence": word["sentence"] + 1, "word": word["word"], **dict(zip(METHODS, word["shares"]))}


def sweep_rows(value: dict[str, Any]) -> Iterator[Row]:
    for word in value["words"]:
        numbers = {name: word[name] for name in ("probability", "log_probability")}
        yield {"sentence": word["sentence"] + 1, "word": word["word"], **numbers}


def swap_rows(value: dict[str, Any]) -> Iterator[Row]:
    for row in value["rows"]:
        for answer, probability in zip(value["answers"], row["cells"]):
            yield {"word": row["word"], "answer": answer, "probability": probability}


ROWS: dict[str, Callable[[dict[str, Any]], Iterable[Row]]] = {
    LENS: lens_rows,
    EXPLAINED: explained_rows,
    SWEEP: sweep_rows,
    SWAP: swap_rows,
    WRITE: writing_rows,
    TAUGHT: taught_rows,
}


def closer_rows(value: dict[str, Any]) -> list[Row]:
    """The numbers of a closer view as rows, none when it shows none."""
    return [*ROWS[value["kind"]](value)] if value["kind"] else []


def closer_code(checkpoint: Checkpoint, question: Question) -> str:
    """Python code that computes the same numbers. Raises InputError without a mask."""
    if question.view == WRITE:
        return writing_code(checkpoint, question)
    if question.view == SWEEP:
        function, options, shown = "sweep", "", "[(each.word.text, each.own, each.rivals) for each in found]"
    else:
        masked, words = mask_words(checkpoint, question)
        if not words:
            raise InputError(NO_MASK)
        if question.view == SWAP:
            return swap_code(checkpoint, question, words)
        question, word = masked, words[shown_mask(question, words)]
        if question.view == EXPLAINED:
            return explained_code(checkpoint, question, word)
        function, shown = "layer_lens", "found.candidates, found.probabilities, found.ranks, found.best"
        options = f", mask={word.mask}, words={lens_words(word, question.guess)!r}"
    return python_code(
        checkpoint,
        f"found = {function}(checkpoint, {question.texts_code}{options})",
        shown,
        off=question.heads_off(checkpoint),
    )


def swap_code(checkpoint: Checkpoint, question: Question, words: list[MaskedWord]) -> str:
    chosen, mask = chosen_swap(checkpoint, question, words), words[shown_mask(question, words)].mask
    word, mark = chosen.places[chosen.place], "{word}"
    texts = mask_words(checkpoint, swapped(checkpoint, question, chosen.place, word, mark))[0].texts
    written = ", ".join(f"{text!r}.replace({mark!r}, word)" for text in texts if text is not None)
    return python_code(
        checkpoint,
        f"for word in {list(chosen.words)!r}:",
        f"    for answer in {list(chosen.answers)!r}:",
        f"        print(word, answer, rate_guess(checkpoint, answer, {written}, mask={mask}).probability)",
        off=question.heads_off(checkpoint),
    )


def explained_code(checkpoint: Checkpoint, masked: Question, word: MaskedWord) -> str:
    given = f"checkpoint, {masked.texts_code}, mask={word.mask}, answer={chosen(checkpoint, masked, word)[0]!r}"
    return python_code(
        checkpoint,
        f"found = explain({given})",
        "found.answer, found.words, found.shares, found.correlations, found.error",
        "trial = deletion(checkpoint, found)",
        "trial.counts, trial.curves, trial.chance, trial.slower, trial.deviations",
        off=masked.heads_off(checkpoint),
    )
