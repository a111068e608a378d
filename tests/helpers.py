"""Functions that several test modules share. Sizes are odd on purpose: nothing fits by accident."""

import copy
import dataclasses
import json
import os
import random
import signal
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from bert_core.config import LOCAL, BertConfig, Limits
from bert_core.model import BertForPreTraining
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import FinetuningRecipe
from bert_core.runs.run import ENDED, Run
from bert_core.runs.train import Training, measured
from bert_core.storage.checkpoint import Checkpoint, TaskHead, empty_model, filled
from bert_core.storage.tokenizer_file import TOKENIZER_CONFIG, read_tokenizer
from bert_core.storage.weights import TASK_HEADS
from bert_core.tasks.examples import TaskData, TaskParts
from bert_core.tasks.task import Example
from bert_core.training import Pretraining

NASTY = "</p><script>alert(1)</script> & ${title}"
WORDS = ["romeo", "juliet", "nice", "great", "today", "name", "team", "won"]

PATIENCE = 300  # seconds; a test waits for what happens, and as long as that takes on a slow and busy machine


def wait(condition: Callable[[], Any], message: str = "it has not happened in time", every: float = 0.005) -> Any:
    """Wait until a condition holds, and return its value. every: seconds between two looks."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, message
        time.sleep(every)
    return value


def finished(run: Run) -> Run:
    """Wait until a run has finished."""
    wait(lambda: run.status in ENDED)
    assert run.status == "finished", run.reason
    return run


def finetune(
    checkpoint: Checkpoint,
    task: TaskData,
    *,
    validation: TaskData | None = None,
    test: TaskData | None = None,
    recipe: FinetuningRecipe | None = None,
    seed: int | None = None,
    device: str = "auto",
    **settings: object,
) -> SimpleNamespace:
    """A model that has learned a task, and its numbers."""
    recipe = (recipe or FinetuningRecipe(name="own", task=task.task, title=task.name)).override(settings)
    training = Training(prepare(recipe, TaskParts(task, validation, test), seed, device, start=checkpoint))
    for _ in training:
        pass
    (found, said), tuned = measured(training), (training.best or training.newest).checkpoint()
    numbers = {"history": training.history, "evaluations": training.points}
    return SimpleNamespace(checkpoint=tuned, notes=training.job.notes, verdict=said, **numbers, **found)


def save_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Write tokenizer.json as a checkpoint has it."""
    path.write_text(tokenizer.to_str(pretty=True), encoding="utf-8")


def load_tokenizer(path: Path, settings: object = None, limits: Limits = LOCAL, **options: Any) -> Tokenizer:
    """Read a tokenizer.json or a vocab.txt. settings: in tokenizer_config.json."""
    beside = json.dumps(settings or {}).encode()
    return read_tokenizer({path.name: path.read_bytes(), TOKENIZER_CONFIG: beside}, None, limits, **options)


def change_state(folder: Path, change: Callable[[dict[str, torch.Tensor], dict[str, Any]], object]) -> None:
    """Rewrite a training state after `change(tensors, facts)`, which changes both in place."""
    path = folder / "training_state.safetensors"
    tensors = load_file(path)
    facts = json.loads(tensors["facts"].numpy().tobytes())
    change(tensors, facts)
    tensors["facts"] = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
    save_file(tensors, path)


def start_child(work: Callable[[], object]) -> int:
    """Run `work` in a forked process; returns its number."""
    if child := os.fork():
        return child
    try:
        work()
    finally:
        os._exit(1)


def killed_after(seconds: float, work: Callable[[], object], meanwhile: Callable[[], object] = lambda: None) -> None:
    """Run `work` in a forked process that is killed after a time; call `meanwhile` until then, again and again."""
    child, until = start_child(work), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        meanwhile()
        time.sleep(min(left, 0.001))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def make_model(config: BertConfig, seed: int = 0) -> BertForPreTraining:
    """A model in eval mode in which every number is random, biases and LayerNorms too."""
    generator = torch.Generator().manual_seed(seed)
    model = BertForPreTraining(config, generator=generator).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.empty_like(parameter).normal_(0, 0.2, generator=generator))
    return model


def make_batch(config: BertConfig, seed: int = 0) -> dict[str, torch.Tensor]:
    """Three inputs of seven tokens (B=3, T=7), the first padded by three and the second by one."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.ones(3, 7, dtype=torch.long)
    mask[0, 4:], mask[1, 6:] = 0, 0
    return {
        "input_ids": torch.randint(5, config.vocab_size, (3, 7), generator=generator),
        "attention_mask": mask,
        "token_type_ids": torch.randint(0, 2, (3, 7), generator=generator),
    }


def watched(model, **inputs):
    """The output of a pass, its hidden states, layers + 1 of (B, T, D), and its attention, (B, H, T, T) each."""
    found = {}
    output = model(**inputs, watch=lambda name, number: found.setdefault(name, number))
    states = [each for name, each in found.items() if name.endswith(("full_embed", "normalized_resid_post"))]
    return output, tuple(states), tuple(each for name, each in found.items() if name.endswith("pattern"))


def with_head(checkpoint: Checkpoint, head: TaskHead, weight: torch.Tensor, bias: torch.Tensor) -> Checkpoint:
    """A copy of a checkpoint with a task's output layer, (L, D) and (L,)."""
    layer, _ = TASK_HEADS[head.architecture]
    weights = copy.deepcopy(checkpoint.model).state_dict() | {f"{layer}.weight": weight, f"{layer}.bias": bias}
    model = filled(empty_model(checkpoint.config, head), weights)
    return dataclasses.replace(checkpoint, module=model, head=head)


def numbers_of(model, batch, mask_token_id=None):
    """The numbers of a pre-training batch, () each, in the order of `Pretraining.names`."""
    sums, counts = Pretraining(mask_token_id).run(model, batch, torch.device("cpu"))
    return (sums / counts).unbind()


def texts(count=80, seed=0):
    """Each text is labelled with the presence of one word."""
    rng = random.Random(seed)
    samples = [" ".join(rng.choices(WORDS, k=rng.randint(2, 6))) for _ in range(count)]
    return TaskData("text-classification", [Example((each,), "yes" if "romeo" in each else "no") for each in samples])


def guessed(count, seed=0):
    """Texts with labels of pure chance: any epoch may do best on them."""
    rng = random.Random(seed)
    examples = [Example((each.texts[0],), rng.choice(("no", "yes"))) for each in texts(count, seed).examples]
    return TaskData("text-classification", examples)


def labelled(kind, seed=0):
    """A small task of a kind that a tiny model can learn."""
    rng = random.Random(seed)
    if kind == "text-classification":
        return texts(seed=seed)
    if kind == "text-regression":
        return TaskData(
            kind, [Example((each.texts[0],), float(each.label == "yes")) for each in texts(seed=seed).examples]
        )
    examples = []
    for _ in range(80):
        words = rng.sample(WORDS, 4)
        if kind == "multiple-choice":
            label = rng.randrange(3)
            choices = [*words[:3]]
            choices[label] = words[3] + " romeo"
            examples.append(Example(("hello", *(word.replace("romeo ", "") for word in choices)), label))
        elif kind == "question-answering":
            context = " ".join(words)
            examples.append(Example(("what name", context), ((words[2], context.index(words[2])),)))
        else:
            tags = tuple("B-person" if word in ("romeo", "juliet") else "O" for word in words)
            examples.append(Example((" ".join(words),), tags, tuple(words)))
    return TaskData(kind, examples)


class Elements(HTMLParser):
    """The texts of a page by the name and class of their elements; unclosed elements fail."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {}
        self.attributes: list[tuple[str, str, str | None]] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attributes]
        if tag not in ("meta", "path", "polyline"):
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attributes]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self._open:
            self.texts[tag][-1] += data
