"""A closer view of masked words: the model writes by unmasking, and what of that stands in the text it learned from."""

import dataclasses
from typing import Any

import gradio as gr

from balcony.frame.masking import mask_words
from balcony.frame.page_request import PageRequest
from balcony.frame.question import Question
from balcony.parts.controls import control
from balcony.parts.export import Row, python_code
from balcony.server.probe_lock import probe_lock
from bert_core.data.encoding import EncodedCorpus, encode_corpus
from bert_core.data.tokenizer import MASK, PREFIX
from bert_core.errors import InputError
from bert_core.probes.masked_words import copied, unmask
from bert_core.runs.recipe import Recipe
from bert_core.storage.checkpoint import Checkpoint

WRITE = "write"
PARTS = ("length", "rounds", "temperature", "seed")  # of the question
MOST_MASKS = 32
ROUNDS = [(count, str(count)) for count in (1, 2, 4, 8, 16, 32)]
TEMPERATURES = [(0, "0: always the likeliest"), *((tenths, f"{tenths / 10:g}") for tenths in (2, 5, 8, 10, 15, 20))]


def lay_out_controls() -> None:
    with gr.Row(elem_id="masked-writing"):
        control("slider", "length", label="[MASK]s added", most=MOST_MASKS, elem_id="masked-length")
        control("select", "rounds", label="Rounds", choices=ROUNDS, elem_id="masked-rounds")
        control("select", "temperature", label="Temperature", choices=TEMPERATURES, elem_id="masked-temperature")


def given_texts(checkpoint: Checkpoint, question: Question) -> Question:
    """The question with its hidden words as [MASK]s, and more of these behind the first sentence."""
    if question.length > MOST_MASKS:
        raise InputError(f"This link adds {question.length:,} [MASK]s; the limit is {MOST_MASKS}. Choose fewer.")
    masked, _ = mask_words(checkpoint, question)
    return dataclasses.replace(masked, text=" ".join(filter(None, [masked.text, *[MASK] * question.length])))


def writing_value(asked: PageRequest) -> dict[str, Any]:
    """The rounds of a writing, and what of it stands in the training text: None where that is not known."""
    checkpoint, question = asked.answering, asked.question
    degree, seed = question.temperature / 10, question.seed
    with probe_lock:
        given = given_texts(checkpoint, question)
        writing = unmask(checkpoint, *given.texts, rounds=question.rounds, temperature=degree, seed=seed)
    value = dataclasses.asdict(writing) | {"kind": WRITE, "seed": seed if degree else None, "copied": None}
    value["places"] = value.pop("masks")  # the other closer views call the masked words so
    if text := training_text(asked):
        runs = copied(checkpoint, writing, text)
        inside = sum(any(first <= mask < last for first, last in runs) for mask in writing.masks)
        words = [sum(not token.startswith(PREFIX) for token in writing.tokens[first:last]) for first, last in runs]
        value["copied"] = {"runs": runs, "inside": inside, "longest": max(words, default=0)}
    return value


def training_text(asked: PageRequest) -> EncodedCorpus | None:
    """All text that the shown model was trained on, None where it is not here."""
    if run := asked.pretraining:
        return run.job.batches.encoded if run.job and run.recipe.start is None else None
    recipe = asked.checkpoint.recipe
    if asked.key not in asked.workspaces.shipped_names or not recipe or not recipe["corpus"]["file"]:
        return None
    return encode_corpus(Recipe.from_dict(asked.key, dict(recipe)).source(), asked.checkpoint.tokenizer)


def writing_rows(value: dict[str, Any]) -> list[Row]:
    """A row for each token of each round: numbers of the round and the [MASK], counted from 1."""
    return [
        {"round": number, "mask": mask + 1, "token": token, "probability": p, "hidden_again": mask in each["hidden"]}
        for number, each in enumerate(value["rounds"], 1)
        for mask, (token, p) in enumerate(zip(each["tokens"], each["probabilities"]))
    ]


def writing_code(checkpoint: Checkpoint, question: Question) -> str:
    given, degree = given_texts(checkpoint, question), question.temperature / 10
    options = f"rounds={question.rounds}, temperature={degree}, seed={question.seed}"
    call = f"writing = unmask(checkpoint, {given.texts_code}, {options})"
    return python_code(checkpoint, call, "writing.texts, writing.rounds", off=question.heads_off(checkpoint))
