"""Patch by hand: states of the text with another word in one place are carried into the pass of this text."""

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from balcony.frame.masking import mask_words, maskable, shown_mask
from balcony.frame.question import Head, Question
from balcony.parts.export import Row, python_code
from balcony.parts.notes import unknown_note
from balcony.parts.swaps import chosen_swap, swapped
from balcony.server.probe_lock import probe_lock
from bert_core.data.tokenizer import MASK
from bert_core.errors import InputError
from bert_core.probes.forward import word_scores
from bert_core.probes.reading import encode_text, row_of, token_text
from bert_core.probes.stages import BAND, PatchMap, carrying, parts_of, patch_map, stands_out, without_heads
from bert_core.storage.checkpoint import Checkpoint

TEXT = (
    "What in the model makes a word change the answer? Put another word in the place of one. Each state of that text's "
    "pass, of a token after a layer or of a head, is then [[patching|carried]] alone into this text's pass. The map "
    "shows how much of the change of the answer comes back: 1 is all of it."
)
LIMITS = (
    "A cell shows that its state alone is enough to bring so much of this change back, not that the model has no other "
    "way to it, nor what the state means for other words or other texts."
)
NOT_HERE = "This needs a model that guesses hidden words; choose another one above."
NO_MASK = "No word is hidden. Click a word above: the model then predicts it, and this shows what its answer hangs on."
NO_OTHER = "No other word stands there. Type one."
PARTS = tuple(range(first, first + 4) for first in range(0, 16, 4))  # seeds of random sentences, with a turn each
LIKELY = 5  # guesses of each text, of which two are compared


@dataclass(frozen=True)
class Carry:
    """What is carried: from which texts, and of a token (layer, token) or of a head (layer, head)."""

    source: tuple[str, str | None]
    state: Head | None
    head: Head | None

    def into(self, checkpoint: Checkpoint) -> Checkpoint:
        return carrying(checkpoint, self.source, state=self.state, head=self.head)

    def shown(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """token: of the source, whose state is carried, "" for a head."""
        token = encode_text(checkpoint, *self.source).tokens[self.state[1]] if self.state else ""
        return {"state": self.state, "head": self.head, "token": token}

    @property
    def code(self) -> str:
        at = f"state={self.state}" if self.state else f"head={self.head}"
        return f"{self.source!r}, {at}"


@dataclass(frozen=True)
class Passes:
    """The two texts. place: number of the word that differs. words: the other one, and this text's. mask: number of the
    [MASK] in both."""

    place: int
    words: tuple[str, str]
    source: tuple[str, str | None]
    target: tuple[str, str | None]
    mask: int


def passes_of(checkpoint: Checkpoint, question: Question) -> Passes:
    """The two texts of a question: in the place of its word the first other one of its list, or without a list one of
    the example that has as many tokens. Raises InputError where no word is hidden or all are."""
    masked, words = mask_words(checkpoint, question)
    if not words:
        raise InputError(NO_MASK)
    chosen, mask = chosen_swap(checkpoint, question, words), words[shown_mask(question, words)].mask
    word = chosen.places[chosen.place]
    others = [other for other in chosen.words if other.strip() and other != word.text] or [""]
    if question.swaps is None:
        after = chosen.words.index(word.text) if word.text in chosen.words else 0
        others = [*(other for other in chosen.words[after:] if other != word.text), *others]
    texts = {
        other: mask_words(checkpoint, swapped(checkpoint, question, chosen.place, word, other))[0].texts
        for other in others[: 1 if question.swaps else None]
    }
    length = len(encode_text(checkpoint, *masked.texts))
    other = next((each for each in texts if len(encode_text(checkpoint, *texts[each])) == length), others[0])
    return Passes(chosen.place, (other, word.text), texts[other], masked.texts, mask)


def zeroed_of(checkpoint: Checkpoint, question: Question) -> tuple[Head, ...]:
    """The parts set to zero that a model has."""
    there = parts_of(checkpoint.config.num_hidden_layers)
    return tuple(part for part in question.zeroed if part in there)


def carry_of(checkpoint: Checkpoint, question: Question) -> Carry | None:
    """What a question carries into the pass that is followed."""
    if question.carried is None and question.carried_head is None:
        return None
    return Carry(passes_of(checkpoint, question).source, question.carried, question.carried_head)


def compared(checkpoint: Checkpoint, question: Question, passes: Passes) -> tuple[str, str]:
    """The two answers: the question's first two; else, of what is likely in one of the texts, the word that gains most
    by the other word and the one that loses most."""
    if len(question.answers or ()) > 1:
        first, second, *_ = question.answers or ()
        return first.strip(), second.strip()
    encodings = [encode_text(checkpoint, *texts) for texts in (passes.source, passes.target)]
    at = [[[i for i, token in enumerate(each.tokens) if token == MASK][passes.mask]] for each in encodings]
    source, target = word_scores(checkpoint, [row_of(each) for each in encodings], at, lambda _, scores: scores[0])
    likely = torch.cat([source.topk(LIKELY).indices, target.topk(LIKELY).indices])
    gains = (source - target)[likely]
    ends = likely[gains.argmax()], likely[gains.argmin()]
    first, second = (token_text(checkpoint.tokenizer, int(token)) for token in ends)
    return first, second


def patch_value(checkpoint: Checkpoint, question: Question) -> dict[str, Any]:
    """What the view shows: the words whose place others can take; once one is chosen, the two texts and answers; and
    the map, or under "refused" why there is none. It is computed in parts, between which others have their turn."""
    if checkpoint.head or "mlm" in checkpoint.missing:
        return {"hint": NOT_HERE}
    if not question.text.strip() or not mask_words(checkpoint, question)[1]:
        return {"hint": NO_MASK}
    places = [[i, word.text] for i, word in enumerate(maskable(checkpoint, question)) if i not in question.hidden]
    value: dict[str, Any] = {"places": places, "place": None}
    if question.place is None:
        return value
    checkpoint = without_heads(checkpoint, question.heads_off(checkpoint), zeroed_of(checkpoint, question))
    with probe_lock:
        passes = passes_of(checkpoint, question)
        answers = compared(checkpoint, question, passes)
    value |= {"place": passes.place, "words": passes.words, "answers": answers}
    if not passes.words[0]:
        return value | {"refused": NO_OTHER}
    value |= {"notes": unknown_note(checkpoint, *passes.words, *answers)}
    found = []
    for seeds in PARTS:
        try:
            with probe_lock:
                ask = functools.partial(patch_map, checkpoint, passes.source, passes.target, answers=answers)
                found.append(ask(mask=passes.mask, random_sentences=seeds))
        except InputError as error:
            return value | {"refused": str(error)}
    return value | map_value(found)


def map_value(found: list[PatchMap]) -> dict[str, Any]:
    """A map of equal ones, each with random sentences of its own."""
    first = found[0]

    def part(fractions: Tensor, random: list[Tensor], answers: Tensor) -> dict[str, Any]:
        every = torch.cat(random)
        return {
            "fractions": fractions.tolist(),
            "means": every.mean(0).tolist(),
            "bands": (BAND * every.std(0)).tolist(),
            "out": stands_out(fractions, every).tolist(),
            "answers": answers.tolist(),
        }

    return {
        "tokens": first.tokens,
        "both": first.answers.tolist(),
        "random": sum(len(each.random_states) for each in found),
        "states": part(first.states, [each.random_states for each in found], first.state_answers),
        "heads": part(first.heads, [each.random_heads for each in found], first.head_answers),
    }


def patch_rows(value: dict[str, Any]) -> list[Row]:
    """A row for each cell of both maps, none without them."""
    rows: list[Row] = []
    for kind in ("states", "heads"):
        part = value.get(kind, {"fractions": ()})
        for layer, fractions in enumerate(part["fractions"]):
            for i, fraction in enumerate(fractions):
                name = value["tokens"][1][i] if kind == "states" else i + 1
                at = {"of": kind, "layer": layer + (kind == "heads"), "token or head": name, "comes back": fraction}
                random = {"random mean": part["means"][layer][i], "random band": part["bands"][layer][i]}
                rows.append(at | random | {"stands out": part["out"][layer][i]})
    return rows


def patch_code(checkpoint: Checkpoint, question: Question) -> str:
    """Python code that computes the same map. Raises InputError where no word is hidden."""
    off, zeroed = question.heads_off(checkpoint), zeroed_of(checkpoint, question)
    with probe_lock:
        whole = without_heads(checkpoint, off, zeroed)
        passes = passes_of(whole, question)
        ends = f"answers={compared(whole, question, passes)}, mask={passes.mask}"
    less = [f"checkpoint = without_heads(checkpoint, {off}, {zeroed})"] if off or zeroed else []
    return python_code(
        checkpoint,
        *less,
        f"found = patch_map(checkpoint, {passes.source!r}, {passes.target!r}, {ends})",
        "found.states.round(decimals=2), found.heads.round(decimals=2)",
        "stands_out(found.states, found.random_states), stands_out(found.heads, found.random_heads)",
    )
