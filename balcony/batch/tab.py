"""The Batch tab: what the model was given in a training step, what it was asked for, and what it predicts now."""

from collections.abc import Iterator
from typing import Any

from balcony.batch.rows import task_value, text_value
from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import MODEL
from balcony.frame.tab import Tab
from balcony.handlers import on_error
from balcony.parts.downloads import exporter
from balcony.parts.export import Row, python_code
from balcony.server.workspace import NO_MODEL_YET, Workspace, is_finetuning
from balcony.views import view
from bert_core.errors import InputError, RunError
from bert_core.runs.run import ENDED, Run

PAIRS_SHOWN = 4
NO_RUN = "Press Start under Train; the batch of the newest step appears here."
NO_RUN_SELECTED = "This model has no batches; choose one of your runs above."
READY_MADE = "This model was trained elsewhere, and the text of its batches did not come with it. "


def lay_out(page: Page) -> None:
    shown = on_error(lambda sentence: {"batch": {"text": sentence}})(batch)
    page.answer("batch", (*MODEL, "first"), ("batch",), shown)
    view("batch/batch", options={"pairs": PAIRS_SHOWN}, elem_id="batch")
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


def batch(asked: PageRequest) -> dict[str, Any]:
    space, question = asked.space, asked.question
    if (run := space.runs.get(question.model)) is None:
        raise InputError(READY_MADE + (NO_RUN_SELECTED if space.runs else NO_RUN))
    return {"batch": batch_value(space, run, question.step, max(0, question.first))}


def batch_value(space: Workspace, run: Run, step: int | None, first: int) -> dict[str, Any]:
    """PAIRS_SHOWN pairs or examples of a task from index `first` on, as the batch view shows them.

    step: of a snapshot, None for the newest, and of its batch; step 0 shows the untrained model the first batch. Raises
    RunError before the first batch.
    """
    if (found := space.checkpoint(run, step)) is None:
        if run.status in ENDED:
            raise RunError("Your run ended before its first batch; start another one.")
        raise RunError(NO_MODEL_YET)
    if run.job is None:
        raise RunError("The batches of this run are not here: it is not prepared yet, or it was freed.")
    at, checkpoint = found
    shown, of = slice(first, first + PAIRS_SHOWN), max(1, at)
    value = task_value if is_finetuning(run) else text_value
    return {"step": at, "first": first, **value(run.job.batches, checkpoint, of, shown)}


def batch_rows(value: dict[str, Any]) -> Iterator[Row]:
    """The value of `batch_value` as rows, one for each position and question there; cells without a value are None.
    What is asked of a whole row stands at its [CLS]; rows of other steps are left out."""
    for row in value.get("rows", ()):
        tokens = zip(row["tokens"], row["ids"], row["kinds"], row["segments"])
        for position, (token, number, kind, segment) in enumerate(tokens if row["number"] is not None else ()):
            about = {"example": row["example"] + 1, "row": row["number"], "position": position}
            shown = {"segment": "AB"[segment], "kind": kind, "shown": token, "id": number}
            for asked in [each for each in row["asks"] if each.get("at", 0) == position] or [{}]:
                names = ("what", "label", "guess", "probability", "loss")
                yield about | shown | {name: asked.get(name) for name in names}


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
