"""Questions to the room whose answers are covered: which words are hidden, whether a sentence follows another, and with
which loss a run will end."""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from balcony.classroom.board import last_losses
from balcony.classroom.typed import NO_TEXT
from balcony.frame.masking import mask_words, rated_guess
from balcony.frame.page import PageRequest, follows
from balcony.frame.shown_model import caption
from balcony.parts.notes import NEXT, pair_labels
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import Workspace
from bert_core.errors import InputError
from bert_core.probes.masked_words import fill_mask
from bert_core.probes.sentence_pairs import next_sentence
from bert_core.runs.run import ACTIVE, Run

MOST_GAPS = 8
MOST_GUESSES = 5  # of the model
MOST_BARS = 12  # of a histogram
MOST_LOSS = 30.0
WORDS, FOLLOWS, LOSS = "words", "follows", "loss"
YES, NO = "yes", "no"
NO_GAP = "Hide a word in the tab Masked words first."


@dataclass(eq=False)
class Covered:
    """A question with a gap, or several.

    texts: one or two sentences; of WORDS with a [MASK] for each gap. words: what is right at each gap, in lower case,
    "" where that is not known: a typed [MASK], a pair that the text lacks, a run that has not ended. model: its name.
    rated: for each gap the probability of answers by the model. about: the run whose loss is asked for. probability: of
    a word at a gap, None where the model cannot say. settle: what is right, once it is known; raises InputError before.
    """

    texts: tuple[str, ...]
    words: tuple[str, ...]
    model: str
    rated: list[dict[str, float]]
    kind: str = WORDS
    about: dict[str, Any] = field(default_factory=dict)
    probability: Callable[[int, str], float | None] = field(default=lambda gap, word: None, repr=False)
    settle: Callable[[], tuple[str, ...]] | None = field(default=None, repr=False)

    def read(self, typed: list[str]) -> list[str]:
        """What a person answers, for each gap. Raises InputError."""
        words = [*typed, *[""] * len(self.words)][: len(self.words)]
        if self.kind == WORDS and not any(words):
            raise InputError("Type a word first.")
        if self.kind == FOLLOWS and words[0] not in (YES, NO):
            raise InputError(NO_TEXT)
        return [_as_loss(words[0])] if self.kind == LOSS else words

    def counted(self, answers: list[str]) -> list[tuple[str, int]]:
        """How often each answer to a gap was given, the commonest ones; of losses, how many are in each interval."""
        if self.kind != LOSS:
            return Counter(answers).most_common(MOST_BARS)
        right = self.words[0]
        found = _intervals([float(each) for each in [*answers, *filter(None, [right])]])
        return [(_name(each), sum(each[0] <= float(answer) < each[1] for answer in answers)) for each in found]

    def uncover(self, guesses: list[list[str]]) -> None:
        """Learn what is right, and ask the model for the probability of the room's guesses for each gap and of what is
        right. Raises InputError while that is not known."""
        if self.settle:
            self.words = self.settle()
        for gap, words in enumerate(guesses):
            for word in [*words, self.words[gap]]:
                found = self.probability(gap, word) if word and word not in self.rated[gap] else None
                if found is not None:
                    self.rated[gap][word] = found

    def beside(self, gap: int, counted: list[tuple[str, int]]) -> list[tuple[str, int, float | None, bool]]:
        """Rows [answer, how often it was given, its probability by the model or None, whether it is right]."""
        right, rated = self.words[gap], self.rated[gap]
        if self.kind == LOSS:
            ends = [tuple(map(float, name.split("–"))) for name, _ in counted]
            is_right = [bool(right) and low <= float(right) < high for low, high in ends]
            return [(*row, None, is_it) for row, is_it in zip(counted, is_right, strict=True)]
        counts = dict(counted) | {word: dict(counted).get(word, 0) for word in [*rated, *filter(None, [right])]}
        rows = [(word, count, rated.get(word), word == right) for word, count in counts.items()]
        return sorted(rows, key=lambda row: (-row[1], -(row[2] or 0)))

    def nearest(self, answers: list[str]) -> str:
        """Of losses the one that is nearest to what is right, "" without any."""
        if self.kind != LOSS or not self.words[0]:
            return ""
        return min(answers, key=lambda answer: abs(float(answer) - float(self.words[0])), default="")

    def content(self) -> dict[str, Any]:
        """All but what asks the model, as JSON data."""
        return {name: value for name, value in vars(self).items() if name not in ("probability", "settle")}


def cover(asked: PageRequest) -> Covered:
    """Which words are hidden in the sentences of a question. Raises BertCoreError."""
    checkpoint, question = asked.checkpoint, asked.question
    masked, found = mask_words(checkpoint, question)
    if not found:
        raise InputError(NO_GAP)
    if len(found) > MOST_GAPS:
        raise InputError(f"{len(found)} words are hidden; ask for at most {MOST_GAPS} at once.")
    with probe_lock:
        guesses = fill_mask(checkpoint, *masked.texts, top_k=MOST_GUESSES)
    gapped, _ = mask_words(checkpoint, question, dict.fromkeys(range(len(found)), 1))

    def probability(gap: int, word: str) -> float | None:
        written = found[gap].word.text if word == hidden[gap] else word
        with probe_lock:
            return rated_guess(checkpoint, question, gap, written).get("probability")

    rated = []
    for word in found:
        pieces = guesses[word.mask : word.mask + word.masks]
        if word.masks > 1:  # the best guess for each piece, together
            best = [piece[0] for piece in pieces]
            whole = "".join(token.removeprefix("##") for token, _ in best)
            pieces = [[(whole, math.prod(probability for _, probability in best))]]
        rated.append({_as_typed(token): probability for token, probability in reversed(pieces[0])})
    hidden = tuple("" if each.index is None else each.word.text.lower() for each in found)
    return Covered(tuple(filter(None, gapped.texts)), hidden, _name_of_model(asked), rated, probability=probability)


def pair(asked: PageRequest) -> Covered:
    """Whether the second sentence of a question follows the first. Raises BertCoreError."""
    checkpoint, texts = asked.checkpoint, (asked.question.text, asked.question.pair)
    if not all(text.strip() for text in texts):
        raise InputError("Type or choose two sentences first.")
    if pair_labels(checkpoint) != NEXT:
        raise InputError("This model does not judge which sentence comes next; choose another model.")
    with probe_lock:
        is_next = next_sentence(checkpoint, *texts)
    right = {None: "", True: YES, False: NO}[follows(asked.corpus, asked.question)]
    return Covered(texts, (right,), _name_of_model(asked), [{YES: is_next, NO: 1 - is_next}], FOLLOWS)


def forecast(asked: PageRequest) -> Covered:
    """Which loss the active run of the visitor will end with or, without one, the next that is started."""
    space = asked.space
    active = next((run for run in space.pretraining_runs if run.status in ACTIVE), None)
    numbers = [entry.number for entry in space.entries.values()]
    first = space.entries[active.id].number if active else max(numbers, default=0) + 1

    def settle() -> tuple[str, ...]:
        runs = (run for run in space.pretraining_runs if space.entries[run.id].number >= first)
        run = next(runs, None)
        if run is None:
            raise InputError("The question is about your next run: start one, and uncover when it has ended.")
        if run.status in ACTIVE:
            steps = run.recipe.training.total_steps
            raise InputError(f"Your run is at step {run.steps_done:,} of {steps:,}; uncover when it has ended.")
        loss = last_losses(run)[0] if run.steps_done else None
        if loss is None:
            raise InputError("Your run has no MLM loss, so nobody can be right. End this question.")
        about.update(_about(space, run))
        return (f"{loss:.2f}",)

    about = _about(space, active) if active else {}
    return Covered((), ("",), "", [{}], LOSS, about, settle=settle)


def _about(space: Workspace, run: Run) -> dict[str, Any]:
    """What helps to guess the loss of a run. blind: that of a uniform guess, once the vocabulary is known."""
    training = run.recipe.training
    about = {"title": space.title_of(run), "steps": training.total_steps, "rate": training.learning_rate}
    return about | ({"blind": round(math.log(run.job.config.vocab_size), 2)} if run.job else {})


ASKED = {WORDS: cover, FOLLOWS: pair, LOSS: forecast}


def _name_of_model(asked: PageRequest) -> str:
    model = asked.model
    return caption(model) if asked.question.model in asked.space.runs else model.title


def _as_typed(token: str) -> str:
    """A guess as the room's are counted, in lower case, unless it is special, such as [CLS]."""
    return token if token.startswith("[") else token.lower()


def _as_loss(typed: str) -> str:
    try:
        value = float(typed.replace(",", "."))
    except ValueError:
        value = math.nan
    if not 0 <= value <= MOST_LOSS:
        raise InputError(f"Type a number from 0 to {MOST_LOSS:g} first, such as 2.5.")
    return f"{value:.2f}"


def _intervals(values: list[float]) -> list[tuple[float, float]]:
    """At most nine intervals of one length that hold all values."""
    if not values:
        return []
    low, high = min(values), max(values)
    # A run may have ended far above all guesses.
    lengths = (each * 10.0**k for k in itertools.count(-1) for each in (1, 2, 5))
    length = next(each for each in lengths if high - low <= 8 * each)
    first, last = math.floor(low / length + 1e-9), math.floor(high / length + 1e-9)
    return [(round(k * length, 1), round((k + 1) * length, 1)) for k in range(first, last + 1)]


def _name(interval: tuple[float, float]) -> str:
    return f"{interval[0]:g}–{interval[1]:g}"
