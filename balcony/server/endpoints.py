"""Endpoints for gradio_client: plain JSON in and out, on the shipped model and on runs that the program starts.

The probes take a run's id for its newest model; without one they ask the shipped model.
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import gradio as gr
from gradio.data_classes import FileData
from pydantic import ConfigDict, ValidationError, validate_call

from balcony.handlers import cached_file, sentence_of
from balcony.server.files import folder_name, pack, save_to_share
from balcony.server.news import series_of
from balcony.server.probe_lock import Asker, asker, probe_lock
from balcony.server.workspace import NO_MODEL_YET, Workspace
from balcony.server.workspaces import Workspaces
from bert_core.data.corpus import Corpus
from bert_core.errors import InputError, RunError, quoted
from bert_core.probes.attention import attention as attention_maps
from bert_core.probes.masked_words import fill_mask as guess_masks
from bert_core.probes.reading import tokenize
from bert_core.probes.sentence_pairs import next_sentence as judge_pair
from bert_core.runs.recipe import BY_SIZE, DEFAULT_RECIPE, finetuning_recipe, recipe_for, recipe_named
from bert_core.runs.run import Run
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.prediction import predict, task_of
from bert_core.tasks.task import Example
from bert_core.tasks.token_classification import divided

MOST_NUMBERS = 2**21  # of an answer: some 40 MB of JSON
NO_TASK = "No model for a task comes with Balcony; give the run_id of a run that /start_finetuning began."


class Endpoints:
    """A method for each endpoint, of these visitors. demo: whose cache has the files of a download."""

    def __init__(self, demo: gr.Blocks, workspaces: Workspaces) -> None:
        self.demo, self.workspaces = demo, workspaces

    def _model(self, run_id: str) -> Checkpoint:
        if not run_id:
            return self.workspaces.shipped().checkpoint
        space, run = self._run(run_id)
        if (found := space.checkpoint(run, run.best.step if run.best else None)) is None:
            raise RunError(NO_MODEL_YET)
        return found[1]

    def _run(self, run_id: str) -> tuple[Workspace, Run]:
        space = self.workspaces.find(run_id)
        return space, space.run(run_id)

    def fill_mask(self, text: str, text_pair: str = "", top_k: int = 5, run_id: str = "") -> list[list[list[Any]]]:
        """The most probable words for each [MASK], in reading order: a list of [word, probability] per mask."""
        checkpoint = self._model(run_id)
        with probe_lock:
            masks = guess_masks(checkpoint, text, text_pair or None, top_k=top_k)
        return [[list(guess) for guess in mask] for mask in masks]

    def next_sentence(self, sentence_a: str, sentence_b: str, run_id: str = "") -> float:
        """The probability that the second sentence follows the first (IsNext)."""
        checkpoint = self._model(run_id)
        with probe_lock:
            return judge_pair(checkpoint, sentence_a, sentence_b)

    def attention(self, text: str, text_pair: str = "", run_id: str = "") -> dict[str, Any]:
        """Tokens, token_type_ids, and attention weights as nested lists: layers, heads, tokens, tokens."""
        checkpoint = self._model(run_id)
        with probe_lock:
            maps = attention_maps(checkpoint, text, text_pair or None)
        if maps.weights.numel() > MOST_NUMBERS:
            raise InputError(
                f"This answer has {maps.weights.numel():,} numbers; the limit is {MOST_NUMBERS:,}. Shorten the text."
            )
        return {
            "tokens": list(maps.tokens),
            "token_type_ids": [int(segment) for segment in maps.token_type_ids],
            "weights": maps.weights.tolist(),
        }

    def _predicted(self, run_id: str, example: Example) -> dict[str, Any]:
        if not run_id:
            raise InputError(NO_TASK)
        checkpoint = self._model(run_id)
        with probe_lock:
            [found] = predict(checkpoint, [example])
        return task_of(checkpoint).as_json(example, found, checkpoint.head.labels if checkpoint.head else ())

    def classify(self, text: str, text_pair: str = "", run_id: str = "") -> dict[str, Any]:
        """Label and probabilities of a text or a pair of texts; of a regression, the number as "label"."""
        return self._predicted(run_id, Example((text, text_pair) if text_pair else (text,)))

    def answer(self, question: str, context: str, run_id: str = "") -> dict[str, Any]:
        """The part of the context that answers the question, its first character, and its probability."""
        return self._predicted(run_id, Example((question, context)))

    def tag(self, text: str, run_id: str = "") -> dict[str, Any]:
        """The entities of a text: the type of each, its words, and the characters where it starts and ends."""
        if not run_id:
            raise InputError(NO_TASK)
        checkpoint = self._model(run_id)
        tokenize(checkpoint, text)  # refuses what no tokenizer should be given
        return self._predicted(run_id, divided(text, checkpoint.tokenizer))

    def start_finetuning(self, recipe: str = "subjects", seed: int = 0) -> str:
        """Start to fine-tune english-mini on the recipe's examples; returns a run id."""
        return self.workspaces.start_for_program(finetuning_recipe(recipe), None, seed, caller=_caller()).id

    def start_training(self, recipe: str = DEFAULT_RECIPE, corpus_text: str = "", seed: int = 0) -> str:
        """Start a run and return its id, the only credential for it. An empty text means the recipe's own corpus;
        the recipe "by-size" is chosen by the size of the text."""
        read = functools.partial(Corpus.from_text, corpus_text, name="The text", limits=self.workspaces.service.limits)
        corpus = read() if recipe == BY_SIZE else None
        chosen = recipe_for(corpus) if corpus else recipe_named(recipe)
        if corpus_text and not corpus:
            corpus = read(kind=chosen.text_kind)
        return self.workspaces.start_for_program(chosen, corpus, seed, caller=_caller()).id

    def training_status(self, run_id: str) -> dict[str, Any]:
        """A run's status, reason, step and steps, and the losses and accuracies of its newest step (null before); of
        a run that fine-tunes, its loss, and its measure after the newest epoch."""
        run = self._run(run_id)[1]
        progress = run.progress()
        last, epochs = run.history(since=max(0, progress.step - 1))[-1:], run.evaluations()[-1:]
        names, held_out = series_of(run)
        rows = ((held_out, epochs), (names, last))
        numbers = {name: _finite(getattr(row[0], name)) if row else None for each, row in rows for name in each}
        return {name: getattr(progress, name) for name in ("status", "reason", "step", "steps")} | numbers

    def stop_training(self, run_id: str) -> str:
        """Stop a run after the step in progress and return its status now; the trained model stays."""
        run = self._run(run_id)[1]
        run.stop(wait=False)
        return run.status

    def download(self, run_id: str) -> FileData:
        """A zip of a run's newest model as a Hugging Face folder."""
        self._run(run_id)  # no other model has an address
        checkpoint = self._model(run_id)
        name = f"{folder_name(checkpoint.name)}.zip"
        save = functools.partial(save_to_share, checkpoint)
        return FileData(path=cached_file(self.demo, name, functools.partial(pack, save)))


def endpoints(demo: gr.Blocks, workspaces: Workspaces) -> None:
    """Add the endpoints to the page; called inside its Blocks."""
    found = Endpoints(demo, workspaces)
    for name in vars(Endpoints):
        if not name.startswith("_"):
            gr.api(_for_programs(getattr(found, name)), api_name=name, concurrency_limit=8)


def _for_programs(function: Callable) -> Callable:
    """The function, which knows its caller, checks what it sends, and raises every error as one sentence for it."""
    answer, signature = validate_call(config=ConfigDict(strict=True))(function), inspect.signature(function)

    @functools.wraps(function)
    def call(request: gr.Request, *arguments: Any, **named: Any) -> Any:
        asker.set(Asker(request.session_hash or "", address=request.client.host if request.client else ""))
        try:
            return answer(**signature.bind(*arguments, **named).arguments)
        except ValidationError as error:
            raise gr.Error(_wrong_type(error, signature), print_exception=False) from None
        except BaseException as error:  # also a panic of a library in Rust; it is logged, not sent
            raise gr.Error(sentence_of(error), print_exception=False) from None

    # What Gradio reads: the request is no argument of the endpoint.
    own = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=gr.Request)
    call.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])  # type: ignore[attr-defined]
    call.__annotations__ = {"request": gr.Request, **function.__annotations__}
    return call


def _wrong_type(error: ValidationError, signature: inspect.Signature) -> str:
    """What pydantic found first, as a sentence."""
    first = error.errors()[0]
    name, value = str(first["loc"][0]), first["input"]
    shown = f"of the type {type(value).__name__}" if isinstance(value, list | dict) else quoted(value)
    needed = "a whole number" if signature.parameters[name].annotation is int else "a text"
    return f"{name} is {shown}; it must be {needed}."


def _caller() -> str:
    """The address of the program, for which all of a school or behind a proxy count as one."""
    program = asker.get()
    return program.address if program else ""


def _finite(value: float) -> float | None:
    """The value, None for nan, which JSON does not have."""
    return float(value) if math.isfinite(value) else None
