"""Which sentence taught it: the shown model is trained again without each sentence of its text, and the page shows what
a hidden word loses."""

import contextvars
import functools
import threading
import time
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from balcony.frame.masking import mask_words, shown_mask
from balcony.frame.page_request import PageRequest
from balcony.handlers import sentence_of
from balcony.parts.export import Row, finite, python_code
from balcony.parts.verdicts import STANDARD_ERRORS
from balcony.server.kept import digest
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import Workspace
from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import MASK
from bert_core.errors import CorpusError, RunError
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import Recipe
from bert_core.runs.run import Run
from bert_core.runs.taught import MOST_SENTENCES, SEEDS, Taught, falls_of, pairs_of, taught, training_of
from bert_core.storage.checkpoint import Checkpoint

WHY = (
    "Then the page shows, sentence by sentence, how much less likely a word of the text is to a model that has never "
    "read that sentence: [[leave-one-out]] by training, not by an estimate. Recipe, seeds and vocabulary stay. Stop "
    "when you like; what is done stays."
)
HOW = (
    "A bar is the fall of the [[log-probability]] of a word, hidden alone, in models that have never read that "
    "sentence. ± is the standard error over the seeds that have ended, {seeds} at last. A fall is marked if it is more "
    "than {errors} standard errors, which chance alone passes in at most 3 of 100. Each training takes all steps, "
    "whichever is shown above.",
    "Where a sentence is left out, the text is cut, so that its two neighbours do not become a pair. Each of them is "
    "then in one pair less, and its words may fall for that alone.",
    "What the numbers cannot show: of two sentences that teach the same, each can be missed without a fall. So the "
    "falls do not add up, and no fall does not mean that a sentence taught nothing.",
)
NO_TEXT = f"The text of this model is not here. Choose a run that you trained on at most {MOST_SENTENCES} sentences."
NOT_ASKED = (
    "Only words that the vocabulary has were asked about, of neighbours in the text and of the sentences that stood "
    "above at the start. Hide one of these, or train again."
)
MORE = "Less likely without sentence {numbers}, by more than another seed alone changes."
NONE = "No sentence’s fall is more than another seed alone changes."
EARLY = "What another seed alone changes is known after {} seeds; until then nothing is marked."
OFF = "The models that are trained here have all their heads, also those that you switched off under Attention."
NAME = "The experiment"
HERE = "# Save the text of the run as my-text.txt."
TAUGHT = "taught"


class _StoppedError(Exception):
    """A person has stopped it, or nobody is there any more."""


@dataclass(eq=False)
class Teaching:
    """The trainings of a model without each sentence of its text. It knows no visitor, who can so be forgotten.

    key: of the model. text: what is left out of. seed: the first one. done: trainings that have ended. found: what they
    gave. reason: why they ended early, else ""."""

    key: str
    text: Corpus
    seed: int
    found: Taught | None = None
    done: int = 0
    reason: str = ""
    is_active: bool = True
    began: float = field(default_factory=time.monotonic)
    _run: Run | None = None
    _is_stopped: bool = False

    @property
    def of(self) -> int:
        return SEEDS * (1 + len({*self.text.sentences}))

    def stop(self) -> None:
        """End after the step in progress; what is done stays."""
        self._is_stopped = True
        if run := self._run:
            run.stop(wait=False)

    def work(self, asked: PageRequest, model: Checkpoint, corpus: Corpus | None) -> None:
        """Train until the end or a stop, as runs of the visitor, one after the other."""
        texts = [asked.question.texts] if asked.question.text.strip() else []
        train = functools.partial(self._train, asked, model)
        try:
            for found in taught(model, corpus, texts, train=train, turn=probe_lock):
                self.found, self.done = found, self.done + 1
        except _StoppedError:
            self.reason = f"Stopped after {self.done} of {self.of} trainings."
        except BaseException as error:
            self.reason = sentence_of(error)
        self.is_active, self._run = False, None

    def _train(self, asked: PageRequest, start: Checkpoint, recipe: Recipe, text: Corpus) -> Checkpoint:
        workspaces, space = asked.workspaces, asked.space
        if self._is_stopped or not workspaces.has(digest(space.token)):
            raise _StoppedError
        self._run = run = workspaces.start(space, recipe, text, recipe.seed, start=start, listed=False)
        if self._is_stopped:  # in between
            run.stop(wait=False)
        try:
            if run.wait().status == "stopped":
                raise _StoppedError
        finally:
            space.unlisted.remove(run)
        return run.snapshots[-1].checkpoint()

    def progress(self) -> dict[str, Any]:
        """How far it is: trainings, the present one, and the estimated seconds that are left, None while unknown."""
        told = {"of": self.of, "done": self.done, "isActive": self.is_active, "reason": self.reason}
        if not self.is_active:
            return told
        done, (seed, row) = float(self.done), divmod(self.done, self.of // SEEDS)
        if run := self._run:
            done = min(self.of, done + run.steps_done / run.recipe.training.total_steps)
        left = (time.monotonic() - self.began) * (self.of - done) / done if done > 0.5 else None
        return told | {"fraction": done / self.of, "left": left, "seed": self.seed + seed, "row": row}


_kept: WeakKeyDictionary[Workspace, Teaching] = WeakKeyDictionary()  # the newest of each visitor
_starting = threading.Lock()


def kept_of(asked: PageRequest) -> Teaching | None:
    """The trainings of the shown model, if there are any."""
    kept = _kept.get(asked.space)
    return kept if kept and kept.key == asked.key else None


def source_of(asked: PageRequest) -> tuple[Checkpoint, Corpus | None, Recipe, Corpus]:
    """The shown model, its whole text, None for its recipe's own, and what `training_of` makes of both. Raises
    BertCoreError where it cannot be trained again."""
    model, run = asked.checkpoint, asked.pretraining
    corpus = run.job.source if run and run.job else None
    try:
        return model, corpus, *training_of(model, corpus)
    except CorpusError:
        raise CorpusError(NO_TEXT) from None


def teach(asked: PageRequest) -> None:
    """Start the trainings of the shown model, in place of earlier ones. Raises BertCoreError where they cannot be."""
    space = asked.visitor
    with _starting:  # two presses at once
        space.refuse_if_active()
        if (before := _kept.get(space)) and before.is_active:
            raise RunError(f"“{NAME}” has not ended. Stop it before you start another.")
        model, corpus, recipe, text = source_of(asked)
        _kept[space] = new = Teaching(asked.key, text, recipe.seed)
    # Without the context of the request: that ends, and its page may go.
    threading.Thread(target=contextvars.Context().run, args=(new.work, asked, model, corpus), daemon=True).start()


def stop_teaching(asked: PageRequest) -> None:
    if kept := _kept.get(asked.space):
        kept.stop()


def taught_value(asked: PageRequest) -> dict[str, Any]:
    """What the view shows: what would be trained, or how far that is and what is known. Raises BertCoreError where it
    cannot be."""
    kept = kept_of(asked)
    return {"kind": TAUGHT} | (kept.progress() | results(asked, kept) if kept else before(asked))


def news(asked: PageRequest, done: int) -> dict[str, Any]:
    """The same, without the numbers where the page has those after so many trainings."""
    kept = kept_of(asked)
    return kept.progress() if kept and kept.is_active and kept.done == done else taught_value(asked)


def before(asked: PageRequest) -> dict[str, Any]:
    model, _, recipe, text = source_of(asked)
    job, sentences = prepare(recipe, text, device=asked.workspaces.service.device, start=model), {*text.sentences}
    trainings = SEEDS * (1 + len(sentences))
    seconds = trainings * job.seconds(recipe.training.total_steps)
    told = {"sentences": len(sentences), "seeds": SEEDS, "trainings": trainings, "seconds": seconds}
    return {"before": told, "said": [WHY]}


def results(asked: PageRequest, kept: Teaching) -> dict[str, Any]:
    """What is known of the shown hidden word or, where none is hidden, of the mean of the question's words; and of each
    word of the text."""
    if (found := kept.found) is None:
        return {}
    question, words = asked.question, mask_words(asked.checkpoint, asked.question)[1]
    shown = shown_mask(question, words) if words else None
    asks = [w for w, (texts, _) in enumerate(found.words) if texts == question.texts]
    if shown is not None:
        asks = [w for i, w in enumerate(asks) if i == words[shown].index]
    known = [w for w in asks if found.words[w][1].is_known]
    value = {
        "masks": [MASK if each.index is None else each.word.text for each in words],
        "mask": shown,
        "said": [each.format(seeds=SEEDS, errors=STANDARD_ERRORS) for each in HOW],
        "notes": [*[OFF] * bool(question.heads_off(asked.checkpoint)), *found.notes],
        "map": map_of(found, kept.text),
    }
    if not known:
        return value | {"missing": NOT_ASKED}
    rows = told(found.scores[..., known].mean(-1, keepdim=True))
    numbers = [f"{i}" for i, mark in enumerate(rows["marks"], 1) if mark == 1]
    early = EARLY.format(SEEDS) if None in rows["marks"] else NONE
    return value | rows | {"answer": MORE.format(numbers=", ".join(numbers)) if numbers else early}


def told(scores: Tensor) -> dict[str, Any]:
    """Falls and standard errors of `falls_of`, row by row, and the sign of those that count, None while that is
    unknown."""
    falls, errors = falls_of(scores)
    marks = torch.where(falls.abs() > STANDARD_ERRORS * errors, falls.sign(), 0)
    marks[(scores[1:] - scores[:1]).isnan().any(1)] = torch.nan
    named = {"falls": falls, "errors": errors, "marks": marks}
    return {name: finite(each.flatten().tolist()) for name, each in named.items()}


def map_of(found: Taught, text: Corpus) -> dict[str, Any]:
    """Each word of the text, in the mean of all pairs that have it. words: each with the first of these pairs, and its
    number among their words."""
    places: dict[tuple[str | None, int], list[int]] = {}
    words, pairs = list[tuple[Any, ...]](), set(pairs_of(text))
    for texts, group in groupby(range(len(found.words)), lambda w: found.words[w][0]):
        for number, w in enumerate(group if texts in pairs else ()):
            word = found.words[w][1]
            place = texts[word.sentence], word.start
            if place not in places:
                words.append((word.text, *texts, number))
            places.setdefault(place, []).append(w)
    scores = torch.stack([found.scores[..., each].mean(-1) for each in places.values()], -1)
    return {"sentences": found.sentences, "words": words, **told(scores)}


def taught_rows(value: dict[str, Any]) -> list[Row]:
    """The map of `taught_value` as rows."""
    if (shown := value.get("map")) is None:
        return []
    names = ("left_out", "word", "text", "pair", "number", "fall", "standard_error", "mark")
    places = [(left, *each) for left in shown["sentences"] for each in shown["words"]]
    cells = zip(shown["falls"], shown["errors"], shown["marks"])
    return [dict(zip(names, (*place, *cell), strict=True)) for place, cell in zip(places, cells, strict=True)]


def taught_code(asked: PageRequest) -> str:
    """Python code that trains again and prints the falls of the question's words."""
    model, corpus, recipe, _ = source_of(asked)
    lines, texts, own = list[str](), asked.question.texts, ""
    if corpus is not None and recipe.corpus.file is None:
        kind = "pairs" if corpus.kind == "pairs" else "lines"
        lines, own = [HERE, f'corpus = read_corpus("my-text.txt", kind="{kind}")'], ", corpus"
    return python_code(
        model,
        *lines,
        f"*_, found = taught(checkpoint{own}, texts=[{texts!r}])",
        "falls, errors = falls_of(found.scores)",
        f"words = [w for w, (texts, _) in enumerate(found.words) if texts == {texts!r}]",
        "[(found.words[w][1].text, falls[:, w], errors[:, w]) for w in words]",
    )
