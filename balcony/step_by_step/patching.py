"""Patch by hand: states of the text with another word in one place are carried into the pass of this text."""

from typing import Any, NamedTuple

from balcony.frame.masking import mask_words, maskable, shown_mask
from balcony.frame.question import Head, Question
from balcony.parts.export import Row, python_code
from balcony.parts.notes import unknown_note
from balcony.parts.swaps import chosen_swap, swapped
from balcony.server.probe_lock import probe_lock
from bert_core.errors import InputError
from bert_core.probes.reading import encode_text
from bert_core.probes.stages import BAND, parts_of, patch_map, without_heads
from bert_core.storage.checkpoint import Checkpoint

TEXT = (
    "What in the model makes a word change the answer? Put another word in the place of one. Each state of that text's "
    "pass, of a token after a layer or of a head, is then [[patching|carried]] alone into this text's pass. The map "
    "shows how much of the change of the answer comes back: 1 is all of it."
)
LIMITS = (
    "A cell shows that its state alone is enough to bring so much of this change back, not that the model has no other "
    "way to it, nor what the state means for other words or other texts. After the last layer, [MASK] has no frame: "
    "the answer is made of its state alone, so any other state brings a change, too."
)
NOT_HERE = "This needs a model that guesses hidden words; choose another one above."
NO_MASK = "No word is hidden. Click a word above: the model then predicts it, and this shows what its answer hangs on."
NO_OTHER = "No other word stands there. Type one."

Carry = tuple[tuple[str, str | None], str, int, int]  # what `carrying` takes: source, kind, layer, index


class Passes(NamedTuple):
    """The two texts. place: number of the word that differs. words: the other one, and this text's. ends: the answers
    that are compared, None for those that change most, and where."""

    place: int
    words: tuple[str, str]
    source: tuple[str, str | None]
    target: tuple[str, str | None]
    ends: dict[str, Any]


def passes_of(checkpoint: Checkpoint, question: Question) -> Passes:
    """The two texts of a question: in the place of its word the first other one of its list, or without a list one of
    the example that has as many tokens. Raises InputError where all words are hidden."""
    masked, words = mask_words(checkpoint, question)
    chosen, number = chosen_swap(checkpoint, question, words), shown_mask(question, words)
    word = chosen.places[chosen.place]
    after = chosen.words.index(word.text) if question.swaps is None and word.text in chosen.words else 0
    others = [other for other in (*chosen.words[after:], *chosen.words) if other.strip() and other != word.text]

    def with_other(other: str) -> tuple[str, str | None]:
        return mask_words(checkpoint, swapped(checkpoint, question, chosen.place, word, other))[0].texts

    length, tried = len(encode_text(checkpoint, *masked.texts)), others[: 1 if question.swaps else None]
    fitting = (each for each in tried if len(encode_text(checkpoint, *with_other(each))) == length)
    other, answers = next(fitting, (others or [""])[0]), question.answers or ()
    ends = {"answers": answers[:2] if len(answers) > 1 else None, "mask": words[number].mask}
    return Passes(chosen.place, (other, word.text), with_other(other), masked.texts, ends)


def carry_of(checkpoint: Checkpoint, question: Question) -> Carry | None:
    """What a question carries into the pass that is followed."""
    if question.carried is None:
        return None
    is_head, layer, index = question.carried
    return passes_of(checkpoint, question).source, "head" if is_head else "state", layer, index


def less_of(checkpoint: Checkpoint, question: Question) -> tuple[tuple[Head, ...], tuple[Head, ...]]:
    """The heads and the other parts that are set to zero, those that the model has."""
    there = parts_of(checkpoint.config.num_hidden_layers)
    return tuple(question.heads_off(checkpoint)), tuple(part for part in question.zeroed if part in there)


def patch_value(checkpoint: Checkpoint, question: Question) -> dict[str, Any]:
    """What the view shows: the words whose place others can take; once one is chosen, the two texts and answers; and
    the map, or under "refused" why there is none."""
    if checkpoint.head or "mlm" in checkpoint.missing:
        return {"hint": NOT_HERE}
    if not question.text.strip() or not mask_words(checkpoint, question)[1]:
        return {"hint": NO_MASK}
    places = [[i, word.text] for i, word in enumerate(maskable(checkpoint, question)) if i not in question.hidden]
    value: dict[str, Any] = {"places": places, "place": None}
    if question.place is None:
        return value
    checkpoint = without_heads(checkpoint, *less_of(checkpoint, question))
    with probe_lock:
        passes = passes_of(checkpoint, question)
    value |= {"place": passes.place, "words": passes.words, "answers": passes.ends["answers"] or ["", ""]}
    value |= {"notes": unknown_note(checkpoint, *passes.words, *value["answers"])}
    if not passes.words[0]:
        return value | {"refused": NO_OTHER}
    try:
        with probe_lock:
            found = patch_map(checkpoint, passes.source, passes.target, **passes.ends)
    except InputError as error:
        return value | {"refused": str(error)}
    value |= {"answers": found.words, "tokens": found.tokens, "both": found.answers.tolist()}
    for kind, part in (("state", found.states), ("head", found.heads)):
        numbers = {"fractions": part.fractions, "means": part.random.mean(0), "bands": BAND * part.random.std(0)}
        numbers |= {"out": part.stands_out, "answers": part.answers}
        value |= {kind: {name: each.tolist() for name, each in numbers.items()}, "random": len(part.random)}
    return value


def patch_rows(value: dict[str, Any]) -> list[Row]:
    """A row for each cell of both maps, none without them."""
    names = {"fractions": "comes back", "means": "random mean", "bands": "random band", "out": "stands out"}
    return [
        {"of": kind, "layer": layer, "index": i, **{said: value[kind][name][layer][i] for name, said in names.items()}}
        for kind in ("state", "head")
        for layer, fractions in enumerate(value.get(kind, {}).get("fractions", ()))
        for i in range(len(fractions))
    ]


def patch_code(checkpoint: Checkpoint, question: Question) -> str:
    """Python code that computes the same map. Raises InputError where no word is hidden."""
    off, zeroed = less_of(checkpoint, question)
    with probe_lock:
        passes = passes_of(without_heads(checkpoint, off, zeroed), question)
    ends = ", ".join(f"{name}={value}" for name, value in passes.ends.items())
    return python_code(
        checkpoint,
        f"found = patch_map(checkpoint, {passes.source}, {passes.target}, {ends})",
        "found.words, found.states.fractions.round(decimals=2), found.heads.fractions.round(decimals=2)",
        "found.states.stands_out, found.heads.stands_out",
        off=off,
        zeroed=zeroed,
    )
