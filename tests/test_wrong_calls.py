"""Every public function and method with None, numbers, bytes, lists, empty and very long texts in place of each
argument: it works, or it raises a BertCoreError; of a type that cannot be meant, one that names the argument."""

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from helpers import make_model

import bert_core
from bert_core import BertConfig, Checkpoint, Corpus, Run, TrainingService, load_recipe
from bert_core.config import DataConfig, TrainingConfig
from bert_core.data.encoding import encode_corpus
from bert_core.data.tokenizer import train_tokenizer
from bert_core.errors import BertCoreError
from bert_core.probes.attention import attention
from bert_core.runs.recipe import Recipe
from bert_core.runs.worker import finetune
from bert_core.tasks.examples import TaskData
from bert_core.tasks.texts import TextExample

WRONG = [None, 3, -1, 10**30, 2.5, math.nan, True, b"one", [], ["one"], [None], {}, object(), Path("nowhere")]
WRONG += ["", " ", "one\x00two", "\ud800", "one " * 9000, "a" * 5000, 1j]
CORPUS = Corpus.from_text("one two three\nfour five six\nseven one two\nthree four", "lines")
SMALL = {"training.steps": 2, "data.batch_size": 2, "model.hidden_size": 12, "model.num_attention_heads": 3}
FEW = load_recipe("romeo-juliet").override({**SMALL, "model.num_hidden_layers": 1})


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    tokenizer = train_tokenizer(CORPUS)
    model = make_model(BertConfig(tokenizer.get_vocab_size(), 12, 1, 3, 8, max_position_embeddings=32))
    checkpoint = Checkpoint(model, tokenizer)
    words = tuple(CORPUS.sentences)
    task = TaskData("text-classification", [TextExample(each, None, each[:3]) for each in words * 4])
    tuned = finetune(checkpoint, task, validation=task, epochs=1).checkpoint
    service = TrainingService("cpu")
    run = service.start(FEW, CORPUS)
    folder = tmp_path_factory.mktemp("calls")
    (folder / "task.tsv").write_text("one two\ta\ntwo three\tb\n" * 4)
    (folder / "text.txt").write_text("one two\nthree four\n")
    bert_core.save_checkpoint(checkpoint, folder / "model")
    run.wait()
    run.save(folder / "saved")
    yield locals()
    service.close()


def arguments_of(name: str, has: dict[str, Any]) -> tuple[Callable, dict[str, Any]] | None:
    """The function and valid arguments by name; None for what has none, or checks its fields itself."""
    checkpoint, folder, run, service = has["checkpoint"], has["folder"], has["run"], has["service"]
    model = {"checkpoint": checkpoint}
    pair = {**model, "text": "one two", "text_pair": "three"}
    mask = {**model, "text": "one [MASK]", "text_pair": "two"}
    maps = attention(checkpoint, "one two", "three")
    encoded = encode_corpus(CORPUS, checkpoint.tokenizer)
    config, task = checkpoint.config, has["task"]
    batches = bert_core.PretrainingBatches(encoded, checkpoint.tokenizer, DataConfig(batch_size=2))
    valid: dict[str, dict[str, Any] | None] = {
        "fill_mask": {**mask, "top_k": 2},
        "rate_guess": {**mask, "guess": "one", "mask": 0},
        "layer_lens": {**mask, "mask": 0, "words": ["one"], "top_k": 2},
        "leave_one_out": {**mask, "mask": 0, "answer": "one"},
        "sweep": {**pair, "top_k": 2},
        "attention": pair,
        "encode": pair,
        "head_names": pair,
        "head_facts": {"maps": maps},
        "across": {"maps": maps},
        "without_special": {"maps": maps},
        "without_heads": {**model, "heads": [(0, 0)]},
        "show": {"maps": maps, "names": None, "title": "t", "theme": "auto"},
        "average": {"weights": maps.weights},
        "rollout": {"weights": maps.weights},
        "follow": {**pair, "layer": 0},
        "activations": {**pair, "names": None, "patches": None},
        "next_sentence": {**model, "sentence_a": "one", "sentence_b": "two"},
        "pair_matrix": {**model, "corpus": CORPUS, "limit": 2, "start": 0},
        "exam": {**model, "corpus": CORPUS, "seed": 0},
        "sentence_vector": {**model, "text": "one", "pooling": "cls"},
        "sentence_vectors": {**model, "texts": ["one"], "pooling": "cls"},
        "words_in_contexts": {**model, "word": "one", "texts": ["one two"]},
        "predict": {"checkpoint": has["tuned"], "examples": ["one two"]},
        "review": {"checkpoint": has["tuned"], "data": task},
        "load_task": {"path": folder / "task.tsv", "task": "text-classification", "labelled": True, "encoding": None},
        "finetuning_recipe": {"name": "subjects"},
        "finetune": {**model, "task": task, "validation": task, "test": None, "recipe": None, "seed": 0},
        "fetch_checkpoint": {"name": "not a name", "max_bytes": 10, "cache": folder},
        "load_checkpoint": {"folder": folder / "model", "max_positions": None},
        "save_checkpoint": {**model, "folder": folder / "new"},
        "load_recipe": {"name_or_path": "romeo-juliet"},
        "recipe_for": {"corpus": CORPUS},
        "prepare": {"recipe": FEW, "source": CORPUS, "seed": 0, "start": None},
        "preview": {"recipe": FEW, "corpus": CORPUS},
        "read_corpus": {"path_or_text": folder / "text.txt", "kind": "auto", "encoding": None},
        "encode_corpus": {"corpus": CORPUS, "tokenizer": checkpoint.tokenizer},
        "train_tokenizer": {"corpus": CORPUS, "kind": "word", "vocab_size": 20, "min_frequency": 1, "lowercase": True},
        "Checkpoint": {"model": checkpoint.model, "tokenizer": checkpoint.tokenizer, "name": "n", "notes": ()},
        "Recipe": {each.name: getattr(FEW, each.name) for each in dataclasses.fields(Recipe)},
        "FinetuningRecipe": {"name": "n", "task": "text-classification", "title": "t", "files": {}, "seed": 0},
        "PretrainingBatches": {"encoded": encoded, "tokenizer": checkpoint.tokenizer, "config": DataConfig()},
        "Trainer": {"model": make_model(config), "config": TrainingConfig(steps=1), "batches": batches, "seed": 0},
        "TrainingService": {"device": "cpu"},
        "separate_projections": {"model": make_model(config)},
        "BertModel": {"config": config},
        "BertForPreTraining": {"config": config},
        "BertForSequenceClassification": {"config": config, "outputs": 2},
        "BertForMultipleChoice": {"config": config},
        "BertForQuestionAnswering": {"config": config},
        "BertForTokenClassification": {"config": config, "outputs": 2},
        "Corpus.from_text": {"text": "one two\nthree", "kind": "auto", "name": "n"},
        "Corpus.from_bytes": {"data": b"one two\nthree", "kind": "auto", "name": "n", "encoding": None},
        "Corpus.first": {"number": 1},
        "Corpus.excerpt": {"most": 2},
        "Corpus.part": {"start": 0, "end": 1},
        "Corpus.split": {"needs_pairs": True},
        "Corpus.sample": {"most_bytes": 9},
        "Corpus.sampled_share": {"most_bytes": 9},
        "Checkpoint.to": {"device": "cpu"},
        "Checkpoint.from_transformers": {"model": None, "tokenizer": None},
        "TrainingService.start": {"recipe": FEW, "corpus": CORPUS, "seed": 0, "paused": True, "lease": None},
        "TrainingService.finetune": {"recipe": "subjects", "start": checkpoint, "parts": None, "seed": 0},
        "TrainingService.resume": {"folder_or_zip": folder / "saved", "corpus": CORPUS},
        "TrainingService.budget": {"limit": 9},
        "Run.history": {"since": 0},
        "Run.evaluations": {"since": 0},
        "Run.batch_at": {"step": 1, "again": 0},
        "Run.save": {"folder": folder / "run"},
        "Run.pack": {"zip_path": folder / "run.zip"},
        "Run.stop": {"reason": "", "wait": False},
        "Run.wait": {"seconds": 0.0},
        "Run.set_pace": {"steps_per_second": None},
        "Run.set_learning_rate": {"value": 0.1},
        "Run.continue_for": {"steps": 1, "learning_rate": None},
        "Run.keep_step": {"step": 1},
    }
    owner, _, method = name.rpartition(".")
    owners = {"Run": run, "TrainingService": service, "Corpus": CORPUS, "Checkpoint": Checkpoint}
    function = getattr(owners[owner], method) if owner else getattr(bert_core, method)
    function = checkpoint.to if name == "Checkpoint.to" else function  # the only one that is not a class method
    return (function, valid[name]) if valid.get(name) is not None else None


# The first are settings that check themselves, containers, or without arguments; the others are called by a service.
CHECKED_ELSEWHERE = {
    "BertConfig",
    "DataConfig",
    "TokenizerConfig",
    "TrainingConfig",
    "Batch",
    "BertCoreError",
    "Corpus",
}
CHECKED_ELSEWHERE |= {"Run", "recipe_names", "finetuning_recipes", "ablation_map"}
OF_THE_SERVICE = {"prepare", "begin_slice", "train_slice", "interrupt", "check_lease", "free", "enlist", "place_of"}
OF_THE_SERVICE |= {"watch", "drop"}


def public_names() -> list[str]:
    public = {name for name, value in vars(bert_core).items() if inspect.isfunction(value) or inspect.isclass(value)}
    names = sorted(public - CHECKED_ELSEWHERE)
    for kind in (Checkpoint, Run, Corpus, TrainingService):
        for name, member in vars(kind).items():
            function = getattr(member, "__func__", member)
            is_public = inspect.isfunction(function) and not name.startswith("_") and name not in OF_THE_SERVICE
            if is_public and len(inspect.signature(function).parameters) > 1:
                names.append(f"{kind.__name__}.{name}")
    return names


@pytest.mark.parametrize("name", public_names())
def test_a_wrong_argument_is_a_sentence(
    name: str, objects: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some of the paths can be written
    found = arguments_of(name, objects)
    assert found is not None, "give it valid arguments above"
    function, valid = found
    problems = []
    for argument in valid.keys() - {"batches"}:  # of a trainer: whatever has a batch for each step
        for value in WRONG:
            try:
                function(**{**valid, argument: value})
            except BertCoreError as error:
                if not re.fullmatch(r"[^\n]+\.", str(error)):
                    problems.append(f"{argument}: {error}")
            except Exception as error:
                problems.append(f"{argument}={str(value)[:20]!r}: {type(error).__name__}: {str(error)[:80]}")
    assert problems == []


@pytest.mark.parametrize(
    ("name", "argument", "value", "sentence"),
    [
        ("rate_guess", "guess", None, "guess is None; it must be a text."),
        ("rate_guess", "guess", 3, "guess is 3; it must be a text."),
        ("fill_mask", "text", b"one", "text is b'one'; it must be a text or a list, each item a text."),
        ("fill_mask", "top_k", "5", "top_k is '5'; it must be a whole number."),
        ("fill_mask", "top_k", True, "top_k is True; it must be a whole number."),
        ("fill_mask", "text_pair", ["one"], "text_pair is of the type list; it must be a text or None."),
        ("attention", "checkpoint", "x", "There is no folder 'x'; give the folder that holds config.json."),
        ("exam", "corpus", "one", "corpus is 'one'; it must be a Corpus, as read_corpus returns it."),
        ("sentence_vectors", "texts", "one", "texts is 'one'; it must be a list, each item a text."),
        ("load_checkpoint", "folder", "", "folder is ''; it must be the path of a file or a folder."),
        ("show", "theme", "grey", "theme is 'grey'; it must be one of: auto, light, dark."),
        ("Trainer", "config", {}, "config is of the type dict; it must be an OptimizerConfig."),
        ("BertModel", "config", None, "config is None; it must be a BertConfig."),
    ],
)
def test_the_sentence_names_the_argument(name, argument, value, sentence, objects):
    function, valid = arguments_of(name, objects)
    with pytest.raises(BertCoreError, match=re.escape(sentence)):
        function(**{**valid, argument: value})


def test_numbers_of_other_libraries_and_what_the_signature_leaves_open_are_taken(objects):
    function, valid = arguments_of("fill_mask", objects)
    assert len(function(**{**valid, "top_k": np.int64(3)})[0]) == 3
    with pytest.raises(TypeError, match="text"):
        function(objects["checkpoint"])
    assert get_args(inspect.signature(function).parameters["text_pair"].annotation), "the signature is kept"
