"""The Batch tab: what the model was given in a training step, what it was asked for, and what it predicts now."""

from collections.abc import Iterator
from typing import Any

from balcony.batch.rows import BatchView, RowJudgement, RowView, shape_rows, view_batch
from balcony.batch.task_rows import task_value
from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import MODEL
from balcony.frame.tab import Tab
from balcony.handlers import on_error
from balcony.parts.downloads import exporter
from balcony.parts.export import Row, python_code
from balcony.parts.notes import pair_labels
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import NO_MODEL_YET, Workspace, is_finetuning
from balcony.views import view
from bert_core.config import MAX_SEED, DataConfig, pair_names
from bert_core.errors import InputError, RunError
from bert_core.runs.job import Job
from bert_core.runs.run import ENDED, Run
from bert_core.storage.checkpoint import Checkpoint

PAIRS_SHOWN = 4
NO_RUN = "Press Start under Train; the batch of the newest step appears here."
NO_RUN_SELECTED = "This model has no batches; choose one of your runs above."
READY_MADE = "This model was trained elsewhere, and the text of its batches did not come with it. "
HINT = (
    "In this step the model was asked for some words of each pair, and whether B follows A. Every step draws new pairs "
    "and new words. The curve shows the [[loss]] before the update; these answers come after it, with dropout off."
)
PAIRING = (
    "In half of the pairs B is the sentence after A ([[IsNext]]); in the others it was drawn at random from elsewhere "
    "in the text, and never is the true next one ([[IsNext|NotNext]])."
)
ASKED = ("masked", "replaced", "kept")
WHY = "Why not always [MASK]? Later texts have none, so any visible word may be asked, or be the wrong one."


def lay_out(page: Page) -> None:
    def batch(asked: PageRequest) -> dict[str, Any]:
        space, question = asked.space, asked.question
        if (run := space.runs.get(question.model)) is None:
            raise InputError(READY_MADE + (NO_RUN_SELECTED if space.runs else NO_RUN))
        step, again = question.drawn or (question.step, 0)
        return {"batch": batch_value(space, run, step, max(0, question.first), max(0, again))}

    shown = on_error(lambda sentence: {"batch": {"text": sentence}})(batch)
    page.answer("batch", (*MODEL, "first", "drawn"), ("batch",), shown)
    options = {"pairs": PAIRS_SHOWN, "hint": HINT, "pairing": PAIRING, "why": WHY}
    view("batch/batch", options=options, elem_id="batch")

    exporter(
        *(page, "the batch"),
        of="batch",
        elem_id="batch-download",
        name="batch",
        answer=batch,
        views=("batch",),
        rows=batch_rows,
        title=(),
        code=batch_code,
    )


TAB = Tab("batch", "Batch", lay_out, story=(5, "See what one step asks"))


def batch_value(space: Workspace, run: Run, step: int | None, first: int, again: int) -> dict[str, Any]:
    """PAIRS_SHOWN pairs or examples of a task from index `first` on, as the batch view shows them.

    step: of a snapshot, None for the newest, and of its batch; step 0 shows the untrained model the first batch. again:
    1, 2, ... to draw other masks. Raises RunError before the first batch.
    """
    if (found := space.checkpoint(run, step)) is None:
        if run.status in ENDED:
            raise RunError("Your run ended before its first batch; start another one.")
        raise RunError(NO_MODEL_YET)
    at, checkpoint = found
    about, shown = {"run": run.id, "step": at, "first": first}, slice(first, first + PAIRS_SHOWN)
    if is_finetuning(run):
        return {**about, "again": 0, **task_value(_job(run, max(1, at)).batches, checkpoint, max(1, at), shown)}
    batch = batch_at(run, max(1, at), again, shown)
    with probe_lock:
        judged = batch.judge(checkpoint) if batch.rows else ()
    rows = [_row(row, judged_row) for row, judged_row in zip(batch.rows, judged, strict=True)]
    return {
        **about,
        "again": again,
        "hint": HINT,
        "pairs": batch.shape[0],
        "length": batch.shape[1],
        "shapes": shapes(batch, checkpoint),
        "label": pair_labels(checkpoint)[0],
        "rows": rows,
        "right": right_by_kind(rows),
        "legend": legend(run.recipe.data),
    }


def batch_at(run: Run, step: int, again: int = 0, rows: slice = slice(None)) -> BatchView:
    """The batch of a step, counted from 1, also of a step to come. rows: the pairs to show. again: 1, 2, ... hide other
    words of the same pairs. Raises RunError without such a step or without batches."""
    job = _job(run, step)
    if not 0 <= again <= MAX_SEED:
        raise RunError(f"again is {again}; it must be a number from 0 to {MAX_SEED}.")
    return view_batch(job.batches.copy(again)[step - 1], job.tokenizer, rows)


def _job(run: Run, step: int) -> Job:
    """The job of a run that has this step."""
    if run.job is None:
        raise RunError("The batches of this run are not here: it is not prepared yet, or it was freed.")
    last = run.recipe.training.total_steps
    if not 1 <= step <= last:
        raise RunError(f"There is no step {step}; this run has the steps 1 to {last}.")
    return run.job


def _row(row: RowView, judged: RowJudgement) -> dict[str, Any]:
    return {
        "tokens": list(row.tokens),
        "ids": list(row.ids),
        "kinds": list(row.kinds),
        "segments": list(row.segments),
        "number": row.number,
        "is_next": row.is_next,
        "is_next_probability": judged.is_next,
        "guesses": {
            str(guess.position): {
                "label": row.labels[guess.position],
                "token": guess.token,
                "probability": guess.probability,
                "loss": guess.loss,
                "is_right": guess.is_right,
            }
            for guess in judged.guesses
        },
    }


def shapes(batch: BatchView, checkpoint: Checkpoint) -> list[list[str]]:
    """The tensors of the whole batch, from the tokens to the scores, see `shape_rows`."""
    config, (B, T), M = checkpoint.config, batch.shape, batch.asked
    D, V = config.hidden_size, config.vocab_size
    read = "each pair's [CLS], the row b × T" if config.pooler == "first" else "the mean of each pair's vectors"
    found = {
        "input_ids": ("B, T", "the tokens of B pairs, each filled up to T"),
        "token_type_ids": ("B, T", "0 in A and 1 in B"),
        "attention_mask": ("B, T", "1 at tokens and 0 at padding"),
        "labels": ("B, T", "the true token where the model is asked, else -100"),
        "next_sentence_label": ("B", "0 for IsNext, 1 for NotNext and -100 where it is not asked"),
        "vectors": ("B·T, D", "the last layer's vectors of all pairs, one row below the other"),
        "asked positions": ("M", "the numbers of the asked rows among these, from 0"),
        "asked vectors": ("M, D", "only these rows: the other positions need no word scores"),
        "word scores": ("M, V", "a score for each token of the vocabulary; MLM's loss compares them with M labels"),
        "pair scores": ("B, 2", f"from {read}; NSP's loss compares them with B labels"),
    }
    return shape_rows(found, {"B": B, "T": T, "B·T": B * T, "D": D, "M": M, "V": V})


def right_by_kind(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """(kind, right, of how many) for each kind of asked word that the rows have."""
    asked = [(row["kinds"][int(at)], guess["is_right"]) for row in rows for at, guess in row["guesses"].items()]
    of = {kind: [right for each, right in asked if each == kind] for kind in ASKED}
    return [(kind, sum(right), len(right)) for kind, right in of.items() if right]


def legend(data: DataConfig) -> list[list[str]]:
    """[kind, explanation] each, with the fractions of this run; the asked words come first."""
    kept = 1 - data.mask_share - data.random_share
    return [
        ["masked", f"shown as [MASK] ({data.mask_share:.0%} of the asked words)"],
        ["replaced", f"shown as a random word ({data.random_share:.0%})"],
        ["kept", f"left unchanged but asked ({kept:.0%})"],
        ["untouched", "shown, and not asked"],
        ["special", "[CLS] begins a pair, and NSP reads its last vector; [SEP] ends A and B; never asked"],
        ["padding", "fills up shorter pairs; gets no attention and has no loss"],
    ]


def batch_rows(value: dict[str, Any]) -> Iterator[Row]:
    """The value of `batch_value` as rows, one for each position, or two where an answer starts and ends there; cells
    without a value are None. What is asked of a whole row stands at its [CLS]; rows of other steps are left out."""
    (label, other), first = pair_names(value.get("label", "")), value.get("first", 0)
    for index, row in enumerate(value.get("rows", ()), first):
        about: Row = {"example": row.get("example", 0) + 1, "row": row["number"]}
        if "is_next" in row:
            about = {"pair": index + 1, "label": {True: label, False: other, None: None}[row["is_next"]]}
        for position, (token, kind, segment) in enumerate(zip(row["tokens"], row["kinds"], row["segments"])):
            asked = [each for each in row.get("asks", ()) if each.get("at", 0) == position]
            shown = {"segment": "AB"[segment], "kind": kind, "shown": token, "id": row["ids"][position]}
            for each in [row["guesses"].get(str(position)), *asked] if row["number"] is not None else ():
                if each or (not asked and each is None):
                    found = each or {}
                    said = {"true": found.get("label"), "guess": found.get("token", found.get("guess"))}
                    numbers = {name: found.get(name) for name in ("what", "probability", "loss")}
                    yield {**about, "position": position, **shown, **said, **numbers}


def batch_code(asked: PageRequest) -> str:
    """Python code that draws the same batch and computes the model's answers. Raises InputError without a run."""
    space, question = asked.space, asked.question
    if (run := space.runs.get(question.model)) is None or run.job is None:
        raise InputError(NO_RUN)
    found = space.checkpoint(run, question.step)
    step, checkpoint = max(1, found[0] if found else 0), asked.checkpoint
    batch, recipe, source = [f"k = {step - 1}  # of step {step}", "batch = job.batches[k]"], run.recipe, run.job.source
    if not is_finetuning(run):
        own = "" if recipe.corpus.file else f"read_corpus({source.name!r}, kind={source.kind!r}), "
        return python_code(
            checkpoint,
            'recipe = Recipe.from_dict("batch", checkpoint.recipe)',
            f"job = prepare(recipe, {own}start=checkpoint)",
            *batch,
            "output = checkpoint.model(batch.input_ids, batch.attention_mask, batch.token_type_ids)",
            "guesses = output.prediction_logits[batch.labels >= 0].argmax(-1)",
            "guesses  # of the asked words, row by row",
        )
    options = ", columns=recipe.columns" if source.train.columns else ""
    parts = {"train": source.train, "validation": source.validation, "test": source.test}
    files = {name: part.name for name, part in parts.items() if part}
    loaded = ", ".join(f"{name}=load_task({file!r}, recipe.task{options})" for name, file in files.items())
    return python_code(
        checkpoint,
        'recipe = FinetuningRecipe.from_dict("batch", checkpoint.recipe)',
        *([] if recipe.files else [f"parts = TaskParts({loaded})"]),
        f"job = prepare(recipe, {'' if recipe.files else 'parts, '}start=checkpoint)",
        *batch,
        "rows = job.batches.rows_of(job.batches.epoch_of(k)[k % job.batches.steps_per_epoch])",
        "logits = task_logits(checkpoint, rows, job.batches.choices)",
        "batch.target  # what is right",
        "logits  # of each row",
    )
