"""The live part of the Train tab: a run's status, curves and guesses.

The page polls `balcony.server.news`; what it needs less often, it requests here.
"""

import itertools
import json
import math
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.parts.export import curve_rows, file_text
from balcony.parts.first_right import FirstRight
from balcony.parts.report import frequency_loss, report
from balcony.server.files import file_name
from balcony.server.news import CURVES, MORE_CURVES, POINTS_AT_FIRST, thin
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import NO_MODEL_YET, Workspace, is_finetuning
from balcony.server.workspaces import Workspaces
from balcony.train.exam import exam_value
from balcony.views import view
from bert_core.config import ASSETS
from bert_core.data.corpus import Corpus
from bert_core.errors import RunError
from bert_core.probes.forward import likeliest, word_scores
from bert_core.probes.reading import Row, Word, masked_row, read_words, row_of, tokenize
from bert_core.runs.run import MAX_SNAPSHOTS, TRAINING, Run
from bert_core.runs.train import Snapshot
from bert_core.storage.checkpoint import Checkpoint

JUDGED_LIVE = 2  # more kept steps of a run that trains, in one request: a room of pages asks all the time
SERIES = [*CURVES, *MORE_CURVES]  # of the charts of runs
SENTENCES = 5  # of a board
LONGEST_SENTENCE = 160
MOST_READ = 20_000  # sentences from the start of a text, to choose from


def run_monitor(page: Page) -> gr.HTML:
    """The component. Value: {"visitor", "run", "steps", "device", ...}; run is None before the first.

    `.status` fires when the buttons of the run change, `.elsewhere` when another browser tab changed something,
    `.limits` when a teacher has changed the limits of runs, `.fill` with {"values"} for the form, `.longer` with
    {"run", "steps"} when a person lets an ended run go on.
    """

    def board(asked: PageRequest, run_id: str, step: int | None, first: bool) -> dict[str, Any]:
        """The guesses at a step, None for the newest. first: the page has no sentences yet."""
        return run_guesses(asked.space, asked.space.run(run_id), step, first=first)

    def saved(asked: PageRequest, run_id: str, kind: str) -> dict[str, Any]:
        return run_file(asked.space, asked.space.run(run_id), kind)

    def between(asked: PageRequest, run_id: str, first: int, last: int) -> dict[str, Any]:
        """The points between two steps, for a part of the chart to which a person has zoomed."""
        rows = [row for row in asked.space.run(run_id).history() if first <= row.step <= last]
        return {"points": thin(rows, POINTS_AT_FIRST, SERIES)}

    for function in (board, saved, between):
        page.answers.add(function.__name__, function)
    workspaces = page.workspaces
    story = sorted((*tab.story, tab.name) for tab in page.tabs if tab.story)
    return view(
        "train/monitor",
        events=("status", "elsewhere", "limits", "fill", "longer"),
        options={"series": SERIES}
        | {"losses": workspaces.losses, "story": [[name, text] for _, text, name in story]}
        | {"example": json.loads((ASSETS / "example-curve.json").read_text(encoding="utf-8"))},
        elem_id="run-monitor",
    )


def run_guesses(space: Workspace, run: Run, step: int | None, *, first: bool) -> dict[str, Any]:
    """The guesses of a run's model at a step for the hidden words of its board. Raises RunError before the first model.

    first: also the board's sentences and the losses to compare with, which do not change. Of the newest model also the
    steps of `FirstRight`.
    """
    if (found := space.checkpoint(run, step)) is None or run.job is None or is_finetuning(run):
        raise RunError(NO_MODEL_YET)
    corpus = run.job.source
    if run not in _boards:
        _boards[run] = GuessBoard(corpus, run.snapshots[-1].checkpoint())
    guesses: dict[str, Any] = {"step": found[0], "words": _boards[run].at(found[1])}
    if step is None:
        most = JUDGED_LIVE if run.status in TRAINING else MAX_SNAPSHOTS
        guesses["first_right"] = _boards[run].first_right.steps(run, most)
    if first:
        guesses |= {"sentences": _boards[run].sentences, "baselines": baselines(corpus, run.snapshots[-1])}
    return guesses


class GuessBoard:
    """The masked words of one run, and its models' guesses.

    sentences: text before, the masked word, text after, the sentence that is read after it, and the word's number among
    those that a question can hide; one row per sentence. first_right: of these words.
    """

    def __init__(self, corpus: Corpus, checkpoint: Checkpoint) -> None:
        asked = _masked_words(corpus, checkpoint)
        self.sentences = [
            [text[: word.start], text[word.start : word.end], text[word.end :], pair, number]
            for text, pair, number, word, _ in asked
        ]
        self._rows = [row for *_, row in asked]
        self._words = [word for *_, word, _ in asked]
        self._positions = [[word.first] for word in self._words]
        self.first_right = FirstRight(self._rows, self._positions, [word.pieces for word in self._words])

    def at(self, checkpoint: Checkpoint) -> list[list[Any]]:
        """[guess, probability, right] per sentence, of the run's model at any step."""
        with probe_lock:
            guesses = word_scores(
                *(checkpoint, self._rows, self._positions), lambda _, scores: likeliest(checkpoint, scores[0], 1)[0]
            )
        return [
            [guess, round(probability, 6), int(guess == word.pieces[0])]
            for (guess, probability), word in zip(guesses, self._words, strict=True)
        ]


def _masked_words(corpus: Corpus, checkpoint: Checkpoint) -> list[tuple[str, str, int, Word, Row]]:
    """Sentences spread over the text: each with the next one where both fit, the masked word's number, that word, and
    the row."""
    followed_by: dict[str, str | None] = {}  # each sentence once, with the sentence after its first occurrence
    following = (
        neighbours for document in corpus.documents for neighbours in zip(document, [*document[1:], None], strict=True)
    )
    for sentence, after in itertools.islice(following, MOST_READ):
        if len(sentence) <= LONGEST_SENTENCE:
            followed_by.setdefault(sentence, after)
    # A model that reads pairs guesses worse in a sentence alone, as the last one of a document is.
    followed: list[tuple[str, str | None]] = [each for each in followed_by.items() if each[1]]
    pairs = followed or list(followed_by.items())
    asked: list[tuple[str, str, int, Word, Row]] = []
    taken: set[str] = set()  # a text may have one long word in every sentence
    for index in range(0, len(pairs), max(1, len(pairs) // SENTENCES)):
        text, after = pairs[index]
        words = [word for word in read_words(checkpoint, text) if not word.is_special]
        known = [number for number, word in enumerate(words) if is_whole(word)]
        both = after and _row(checkpoint, text, after)
        row = both or _row(checkpoint, text, None)
        if known and row and len(asked) < SENTENCES:
            number = max(known, key=lambda k: (words[k].pieces[0] not in taken, words[k].end - words[k].start))
            longest = words[number]
            taken.add(longest.pieces[0])
            masked = masked_row(checkpoint, row, longest.first, longest.last)
            asked.append((text, after if after and both else "", number, longest, masked))
    return asked


def _row(checkpoint: Checkpoint, text: str, pair: str | None) -> Row | None:
    """A text as the model reads it; None if it is too long."""
    encoding = tokenize(checkpoint, text, pair)
    fits = len(encoding) <= checkpoint.config.max_position_embeddings
    return row_of(encoding) if fits else None


def is_whole(word: Word) -> bool:
    """Whether the model knows the word and reads it in one piece."""
    return len(word.pieces) == 1 and word.is_known and not word.is_special


_boards: WeakKeyDictionary[Run, GuessBoard] = WeakKeyDictionary()  # of the runs that a page shows


def run_file(space: Workspace, run: Run, kind: str) -> dict[str, Any]:
    """What the list "Save" below the curves gives: a file's name without its ending, and its content, or the title of a
    picture, which the browser draws. Raises RunError for a report before the first model."""
    progress, title = run.progress(), space.title(run.id)
    named = {"name": file_name(title, f"step {progress.step}", "report" if kind == "html" else "curves")}
    if kind == "png":
        return named | {"title": f"{title}, step {progress.step:,} of {progress.steps:,}"}
    if kind == "html":
        return named | {"content": report_of(space, run)}
    return named | {"content": file_text(kind, {"": curve_rows(run)}, iter)}


def report_of(space: Workspace, run: Run) -> str:
    """The report of a run as HTML. Raises RunError before its first model."""
    if (found := space.checkpoint(run)) is None:
        raise RunError(NO_MODEL_YET)
    step, checkpoint = found
    verdict = exam_value(space, run, step).get("verdict", [])
    corpus = run.job.source if run.job else None
    with probe_lock:
        return report(checkpoint, run.recipe, run.history()[:step], run.evaluations(), corpus, verdict=verdict)


def baselines(corpus: Corpus, model: Snapshot) -> dict[str, dict[str, Any]]:
    """Losses to compare a curve with, in nats: those of guesses that ignore the sentence."""
    vocabulary = model.empty.config.vocab_size
    unigram = frequency_loss(corpus, model.empty.tokenizer)
    found = {
        "uniform": (math.log(vocabulary), f"uniform guess (ln {vocabulary} = {math.log(vocabulary):.2f})"),
        "unigram": (unigram, f"always guessing by word frequency ({unigram:.2f})"),
        "coin": (math.log(2), "coin toss (ln 2 = 0.69)"),
    }
    return {name: {"loss": round(loss, 4), "label": label} for name, (loss, label) in found.items()}


def monitor_value(workspaces: Workspaces, space: Workspace, run: Run | None) -> dict[str, Any]:
    """The value of the component for a visitor's run."""
    if run is None:
        return {"visitor": space.token, "run": None}
    return {
        "visitor": space.token,
        "run": run.id,
        "title": space.title(run.id),
        "steps": run.recipe.training.total_steps,
        "device": workspaces.service.device_name,
        "step": run.progress().step,  # another value, so that the page asks at once after a button was pressed
        "status": run.status,
        "rate": f"{rate_of(run):g}",
        "listed": [*space.runs],
    }


def rate_of(run: Run) -> float:
    """The learning rate of a run's last part."""
    training = run.recipe.training
    return (training.parts or (training,))[-1].learning_rate
