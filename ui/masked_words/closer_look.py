"""Three closer looks at masked words: layer by layer, every word in turn, and one word less."""

import math
from typing import Any

from bert_core.data.tokenizer import MASK
from bert_core.errors import InputError
from bert_core.probes.masked_words import LeaveOneOut, layer_lens, leave_one_out, sweep
from bert_core.storage.checkpoint import Checkpoint
from ui.masked_words.token_picker import Place, mask_words

VIEWS = ("Layer lens", "Which words mattered", "Sweep")
NO_MASK = "Press a word above to hide it; this look is at one hidden word."
LENS = (
    "The part of the model that guesses words is meant for the last layer. Put on every layer, it shows where the "
    "answer appears."
)
MATTERED = (
    "Each other word was hidden too, one at a time. A minus: without this word {answer} is less likely by so many "
    "percentage points, so the word helped."
)
SWEEP = (
    "Each word was hidden in turn; the fuller the colour, the likelier the model finds the word at its place. Press a "
    "word for its rivals. Mean log-probability {mean:.2f} (0 is certain). It says how well words fit their places; it "
    "is not the probability of the sentence, because each word was guessed from all the others."
)


def closer_value(
    checkpoint: Checkpoint, kind: str, text: str, pair: str, picked: list[int], place: int, own: str = ""
) -> dict[str, Any]:
    """One of VIEWS as the closer view shows it. place: number of the masked place that is looked at. own: a person's
    own guess, which is shown beside the model's.
    """
    if kind == VIEWS[2]:
        return sweep_value(checkpoint, text, pair)
    masked, masked_pair, places = mask_words(checkpoint, text, pair, picked)
    if not places:
        return {"kind": "", "text": NO_MASK}
    place = min(max(place, 0), len(places) - 1)
    names = [chosen.word.text if chosen.index is not None else MASK for chosen in places]
    look = lens_value if kind == VIEWS[0] else mattered_value
    value = look(checkpoint, masked, masked_pair, places[place], own)
    return value | {"places": names, "place": place}


def lens_value(checkpoint: Checkpoint, text: str, pair: str, place: Place, own: str) -> dict[str, Any]:
    """Layers, each with its best guess, the candidates' probabilities and the rank of the word that was hidden."""
    answer, words = lens_words(place, own)
    lens = layer_lens(checkpoint, text, pair or None, mask=place.mask, words=words)
    tokens = checkpoint.tokenizer.encode(answer, add_special_tokens=False).tokens
    watched = tokens[0] if len(tokens) == 1 and tokens[0] in lens.candidates else lens.candidates[0]
    column = lens.candidates.index(watched)
    rows = [
        {"cells": cells, "rank": ranks[column], "best": list(best)}
        for cells, ranks, best in zip(lens.probabilities.tolist(), lens.ranks.tolist(), lens.best)
    ]
    piece = f" The first of its {place.masks} pieces is shown." if place.masks > 1 else ""
    return {
        "kind": "lens",
        "text": LENS + piece,
        "candidates": list(lens.candidates),
        "watched": watched,
        "rows": rows,
    }


def lens_words(place: Place, own: str) -> tuple[str, list[str]]:
    """The word whose rank is told, and all that are shown besides the model's guesses."""
    known = place.index is not None and place.word.is_known
    answer = place.word.text if known and len(place.word.pieces) == 1 else own.strip()
    return answer, [word for word in (answer, own) if word.strip()]


def mattered_value(checkpoint: Checkpoint, text: str, pair: str, place: Place, own: str) -> dict[str, Any]:
    """The words of both sentences, each with the change of the answer's probability when it is hidden too."""
    answer, left = left_out(checkpoint, text, pair, place, own)
    named = answer if answer and len(left.answer) == place.masks else " ".join(left.answer)
    words = [
        {"word": word.text, "sentence": word.sentence, "start": word.start, "change": without - left.probability}
        for word, without in zip(left.words, left.without.tolist(), strict=True)
    ]
    return {
        "kind": "mattered",
        "text": MATTERED.format(answer=f"“{named}”"),
        "answer": named,
        "probability": left.probability,
        "words": words,
    }


def left_out(checkpoint: Checkpoint, text: str, pair: str, place: Place, own: str) -> tuple[str | None, LeaveOneOut]:
    """The word that is watched, None for the likeliest guess, and what became of it."""
    answer = place.word.text if place.index is not None and place.word.is_known else own.strip() or None
    try:
        return answer, leave_one_out(checkpoint, text, pair or None, mask=place.mask, answer=answer)
    except InputError:  # a guess of one's own that does not fit here
        return None, leave_one_out(checkpoint, text, pair or None, mask=place.mask)


def sweep_value(checkpoint: Checkpoint, text: str, pair: str) -> dict[str, Any]:
    """The words of both sentences, each with its own probability and its rivals."""
    if not text.strip():
        return {"kind": "", "text": "Type or choose a sentence first."}
    swept = sweep(checkpoint, text, pair or None)
    words = [
        {
            "word": entry.word.text,
            "sentence": entry.word.sentence,
            "probability": entry.own.probability if entry.own else None,
            "log_probability": entry.own.log_probability if entry.own else None,
            "pieces": list(entry.word.pieces),
            "rivals": [[list(guess) for guess in rivals] for rivals in entry.rivals],
        }
        for entry in swept.words
    ]
    mean = swept.mean_log_probability
    caption = "The model knows none of these words." if math.isnan(mean) else SWEEP.format(mean=mean)
    return {"kind": "sweep", "text": caption, "words": words}


def closer_table(value: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """The same look as a header and rows. Raises InputError when there is nothing to look at."""
    if value["kind"] == "lens":
        rows = [
            [layer, candidate, p]
            for layer, row in enumerate(value["rows"])
            for candidate, p in zip(value["candidates"], row["cells"])
        ]
        return ["layer", "token", "probability"], rows
    if value["kind"] == "mattered":
        rows = [[word["sentence"] + 1, word["word"], word["change"]] for word in value["words"]]
        return ["sentence", "hidden_too", "change_of_probability"], rows
    if value["kind"] == "sweep":
        rows = [[w["sentence"] + 1, w["word"], w["probability"], w["log_probability"]] for w in value["words"]]
        return ["sentence", "word", "probability", "log_probability"], rows
    raise InputError(value["text"])


def closer_code(
    checkpoint: Checkpoint, kind: str, text: str, pair: str, picked: list[int], place: int, own: str = ""
) -> str:
    """The lines of Python that give the same look; arguments as for `closer_value`. InputError without a mask."""
    asked = {}
    if kind == VIEWS[2]:
        function, told = "sweep", "found.words, found.mean_log_probability"
    else:
        text, pair, places = mask_words(checkpoint, text, pair, picked)
        if not places:
            raise InputError(NO_MASK)
        chosen = places[min(max(place, 0), len(places) - 1)]
        asked["mask"] = chosen.mask
        if kind == VIEWS[0]:
            function, told = "layer_lens", "found.candidates, found.probabilities, found.ranks, found.best"
            asked["words"] = lens_words(chosen, own)[1]
        else:
            function, told = "leave_one_out", "found.answer, found.probability, found.words, found.without"
            asked["answer"] = left_out(checkpoint, text, pair, chosen, own)[0]
    arguments = [repr(text), *([repr(pair)] if pair else []), *(f"{name}={value!r}" for name, value in asked.items())]
    return (
        f"from bert_core import {function}, load_checkpoint\n\n"
        f"checkpoint = load_checkpoint({checkpoint.name!r})\n"
        f"found = {function}(checkpoint, {', '.join(arguments)})\n"
        f"{told}\n"
    )
