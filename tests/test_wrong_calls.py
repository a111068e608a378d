"""What a person may get wrong, given to every public function in place of each text, number and path: numbers out of
range, empty, odd and very long texts, unknown names. It works, or it raises one sentence. A value of another type is
Python's own TypeError."""

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import finetune, make_model

import bert_core
from bert_core import BertConfig, Checkpoint, Corpus, TrainingService, load_recipe
from bert_core.data.tokenizer import train_tokenizer
from bert_core.errors import BertCoreError
from bert_core.probes.attention import attention
from bert_core.tasks.examples import TaskData
from bert_core.tasks.task import Example

TEXTS = ["", " ", "one\x00two", "\ud800", "one " * 9000, "a" * 5000, "nowhere", "2"]
WHOLE = [-1, 0, 3, 10**30]
WRONG = {str: TEXTS, int: WHOLE, float: [-1.0, 0.0, math.nan, math.inf, 1e300], list: [[], *([each] for each in TEXTS)]}
WRONG[type(Path())] = [Path(each) for each in ("", "nowhere", "a" * 5000, ".")]
CORPUS = Corpus.from_text("one two three\nfour five six\nseven one two\nthree four", "lines")
SMALL = {"training.steps": 2, "data.batch_size": 2, "model.hidden_size": 12, "model.num_attention_heads": 3}
FEW = load_recipe("romeo-juliet").override({**SMALL, "model.num_hidden_layers": 1})


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    tokenizer = train_tokenizer(CORPUS)
    model = make_model(
        BertConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=12,
            num_hidden_layers=1,
            num_attention_heads=3,
            intermediate_size=8,
            max_position_embeddings=32,
        )
    )
    checkpoint = Checkpoint(model, tokenizer)
    words = tuple(CORPUS.sentences)
    task = TaskData("text-classification", [Example((each,), each[:3]) for each in words * 4])
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


def calls(has: dict[str, Any]) -> dict[str, tuple[Callable, dict[str, Any]]]:
    """Functions with valid arguments, by name."""
    model, folder, run = {"checkpoint": has["checkpoint"]}, has["folder"], has["run"]
    pair = {**model, "text": "one two", "text_pair": "three"}
    mask = {**model, "text": "one [MASK]", "text_pair": "two"}
    of_core: dict[str, dict[str, Any]] = {
        "fill_mask": {**mask, "top_k": 2},
        "rate_guess": {**mask, "guess": "one", "mask": 0},
        "layer_lens": {**mask, "mask": 0, "words": ["one"], "top_k": 2},
        "explain": {**mask, "mask": 0, "answer": "one"},
        "trial_texts": {**model, "corpus": CORPUS, "count": 2},
        "sweep": {**pair, "top_k": 2},
        "unmask": {**mask, "rounds": 2, "temperature": 0.5, "seed": 1},
        "attention": pair,
        "encode": pair,
        "head_names": pair,
        "head_patterns": pair,
        "show": {"maps": attention(**pair), "title": "t"},
        "follow": {**pair, "layer": 0, "position": 1, "attending": 0},
        "activations": {**pair, "names": ["*"]},
        "next_sentence": {**model, "sentence_a": "one", "sentence_b": "two"},
        "pair_matrix": {**model, "corpus": CORPUS, "limit": 2},
        "exam": {**model, "corpus": CORPUS, "seed": 0},
        "sentence_vectors": {**model, "texts": ["one"], "pooling": "cls"},
        "words_in_contexts": {**model, "word": "one", "texts": ["one two"]},
        "predict": {"checkpoint": has["tuned"], "examples": "one two"},
        "load_task": {"path": folder / "task.tsv", "task": "text-classification"},
        "finetuning_recipe": {"name": "subjects"},
        "fetch_checkpoint": {"name": "not a name"},
        "load_checkpoint": {"folder": folder / "model"},
        "load_recipe": {"name_or_path": "romeo-juliet"},
        "read_corpus": {"path_or_text": folder / "text.txt", "kind": "auto"},
        "train_tokenizer": {"corpus": CORPUS, "kind": "word", "vocab_size": 20, "min_frequency": 1},
    }
    of_run = {
        "set_pace": {"steps_per_second": 1.0},
        "set_learning_rate": {"value": 0.1},
        "continue_for": {"steps": 1},
        "keep_step": {"step": 1},
    }
    found = {name: (getattr(bert_core, name), valid) for name, valid in of_core.items()}
    return found | {f"Run.{name}": (getattr(run, name), valid) for name, valid in of_run.items()}


def test_a_wrong_argument_is_a_sentence(
    objects: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    problems, tried = [], 0
    for name, (function, valid) in calls(objects).items():
        for argument, own in valid.items():
            for value in WRONG.get(type(own), []):
                tried += 1
                try:
                    function(**{**valid, argument: value})
                except BertCoreError as error:
                    if not re.fullmatch(r"[^\n]+\.", str(error)):
                        problems.append(f"{name}, {argument}: {error}")
                except Exception as error:
                    shown = f"{argument}={str(value)[:20]!r}"
                    problems.append(f"{name}, {shown}: {type(error).__name__}: {str(error)[:80]}")
    assert problems == []
    assert tried > 300


@pytest.mark.parametrize(
    ("name", "argument", "value", "sentence"),
    [
        ("fill_mask", "top_k", 0, "top_k is 0; ask for at least 1 guess."),
        ("load_checkpoint", "folder", "x", "There is no folder 'x'; give the folder that holds config.json."),
        ("sentence_vectors", "pooling", "max", "The pooling 'max' is unknown; it can be one of: cls, mean."),
    ],
)
def test_the_sentence_says_what_is_possible(name, argument, value, sentence, objects):
    function, valid = calls(objects)[name]
    with pytest.raises(BertCoreError, match=re.escape(sentence)):
        function(**{**valid, argument: value})
