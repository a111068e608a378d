"""Training steps of this project beside those of `transformers` and of PyTorch's encoder, in one process and in turns.

    python benchmarks/training.py [--only toy tutorial] [--rounds 5] [--steps 20] [--precision bfloat16]
    python benchmarks/training.py --only mini mini-30k --corpus wikipedia.txt --steps 3
    python benchmarks/training.py --only toy base-128 base-512 base-512-full --corpus wikipedia.txt --device cuda \\
        --precision bfloat16 --compile

All train from the same sizes on the same batches, without dropout, with gradient clipping and fused AdamW:
`bert_core.Trainer`; `transformers.BertForPreTraining` with its default attention, on the batches as they are here
(trimmed to the longest pair) and on batches padded to the recipe's length, which is what its users feed it, with
--compile also through `torch.compile`, which takes a minute or more before the first round and, on a CPU, needs a C++
compiler; and `torch.nn.TransformerEncoder` with a tied word head over every position. Every round times a block of
steps of each in turn; the table has medians over the rounds. Batches are drawn beforehand; what drawing costs stands
above each table.

Real tokens are those that are no padding. Useful operations are the matrix products that the losses depend on, forward
and twice that backward: no padding, words scored where they are asked, and after the last layer's attention only asked
words and first tokens; the measured peak is a product of two 2048 x 2048 matrices (8192 on a GPU), the specified one
that of the card's maker. Memory is what resident memory (on a GPU, its own) grew by at its highest during two steps,
model and optimizer included. The mini and base cases learn from the text in --corpus, a paragraph a line, an empty line
between documents; in those called full, a pair has as many sentences as fill its row. Needs the packages of
tests/requirements.txt.
"""

import argparse
import ctypes
import dataclasses
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bert_core import BertConfig, Recipe, load_recipe, prepare, read_corpus
from bert_core.data.batches import IGNORED, Batch
from bert_core.device import Cost

Step = Callable[[int], Any]  # trains on the batch of that number

_MINI = {
    "model.hidden_size": 256,
    "model.num_hidden_layers": 4,
    "model.num_attention_heads": 4,
    "model.intermediate_size": 1024,
    "model.max_position_embeddings": 128,
    "model.initializer_range": 0.02,
    "data.sequence_length": 128,
    "data.batch_size": 32,
    "tokenizer.kind": "wordpiece",
    "corpus.validation_share": 0.0,
    "corpus.most_documents": 6000,
}
_BASE = {
    **_MINI,
    "model.hidden_size": 768,
    "model.num_hidden_layers": 12,
    "model.num_attention_heads": 12,
    "model.intermediate_size": 3072,
    "model.max_position_embeddings": 512,
    "tokenizer.vocab_size": 30522,
}
_512 = {"model.max_position_embeddings": 512, "data.sequence_length": 512, "data.max_predictions": 77}
_FULL = {**_512, "data.segments": "packed"}
CASES: dict[str, tuple[str, Recipe]] = {
    "toy": (
        "2 x 64, the dialogue, batch 32",
        load_recipe("romeo-juliet").override(
            {"model.hidden_size": 64, "model.intermediate_size": 256, "data.batch_size": 32}
        ),
    ),
    "tutorial": (
        "6 x 768, the dialogue, batch 6",
        load_recipe("romeo-juliet-wmathor").override({"model.classifier_dropout": None}),
    ),
    "mini": (
        "4 x 256, vocabulary 8,000, 128 tokens, batch 32",
        load_recipe("romeo-juliet").override({**_MINI, "tokenizer.vocab_size": 8000}),
    ),
    "mini-30k": (
        "4 x 256, vocabulary 30,522, 128 tokens, batch 32",
        load_recipe("romeo-juliet").override({**_MINI, "tokenizer.vocab_size": 30522}),
    ),
    "mini-512-full": (
        "4 x 256, vocabulary 8,000, 512 tokens, full rows, batch 8",
        load_recipe("romeo-juliet").override({**_MINI, **_FULL, "tokenizer.vocab_size": 8000, "data.batch_size": 8}),
    ),
    "base-128": (
        "12 x 768, vocabulary 30,522, 128 tokens, batch 256",
        load_recipe("romeo-juliet").override({**_BASE, "data.batch_size": 256}),
    ),
    "base-512": (
        "12 x 768, vocabulary 30,522, 512 tokens, batch 64",
        load_recipe("romeo-juliet").override({**_BASE, **_512, "data.batch_size": 64}),
    ),
    "base-512-full": (
        "12 x 768, vocabulary 30,522, 512 tokens, full rows, batch 48",
        load_recipe("romeo-juliet").override({**_BASE, **_FULL, "data.batch_size": 48}),
    ),
}

# GFLOP/s in float32 and in bfloat16, of NVIDIA's data sheets, without sparsity. The first name in a card's own counts.
SPECIFIED = {
    "H100 PCIe": (51_000, 756_000),
    "H100 NVL": (60_000, 835_000),
    "H100": (67_000, 989_000),
    "H200": (67_000, 989_000),
    "A100": (19_500, 312_000),
}


def main() -> None:
    """Measure the cases and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=CASES, default=["toy", "tutorial"], help="which cases")
    parser.add_argument("--corpus", type=Path, help="a text for the mini and base cases, a paragraph a line")
    parser.add_argument("--rounds", type=int, default=5, help="how often all take turns")
    parser.add_argument("--steps", type=int, default=20, help="steps in a block")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="of all of them")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where all of them train")
    parser.add_argument("--compile", action="store_true", help="let torch.compile take part")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, torch {torch.__version__}, transformers {transformers.__version__}")
    for name in options.only:
        if _is_of_text(name) and not options.corpus:
            parser.error(f"{name} needs --corpus and a text.")
        measure(name, options)


def _is_of_text(name: str) -> bool:
    return name.startswith(("mini", "base"))


def _at_length(batch: Batch, length: int) -> Batch:
    """The batch padded to `length` tokens."""
    rest = (0, length - batch.input_ids.shape[1])
    ids, segments, mask = (F.pad(each, rest) for each in (batch.input_ids, batch.token_type_ids, batch.attention_mask))
    return Batch(ids, segments, mask, F.pad(batch.labels, rest, value=IGNORED), batch.next_sentence_label)


def measure(name: str, options: argparse.Namespace) -> None:
    """Print the table of a case."""
    title, recipe = CASES[name]
    count = (options.rounds + 1) * options.steps
    training = recipe.training.replace(
        steps=2 * count, epochs=None, optimizer="adamw", max_grad_norm=1.0, precision=options.precision
    )
    corpus, device = read_corpus(options.corpus, kind="lines") if _is_of_text(name) else None, options.device
    prepared = prepare(recipe.replace(training=training), corpus, device=device)
    started = time.perf_counter()
    trimmed = [prepared.batches[k] for k in range(count)]
    drawing = (time.perf_counter() - started) / count * 1000
    padded = [_at_length(batch, recipe.data.sequence_length) for batch in trimmed]
    config, dtype, weights = prepared.config, getattr(torch, options.precision), prepared.first_model().state_dict()
    weights = {key: tensor.clone() for key, tensor in weights.items()}

    def here(precision: str) -> Callable[[], Step]:
        training = prepared.recipe.training.replace(precision=precision)
        recipe = prepared.recipe.replace(training=training)

        def build() -> Step:
            trainer = dataclasses.replace(prepared, recipe=recipe).trainer()
            trainer.batches = 2 * trimmed
            return lambda _: next(trainer)

        return build

    def their(kind: Callable[..., nn.Module], batches: Sequence[Batch]) -> Callable[[], Step]:
        # Their batches are on the device beforehand; ours travel there in each step.
        moved = [Batch(*(part.to(device) for part in vars(batch).values())) for batch in batches]
        return lambda: peer(kind(config, weights).to(device), moved, training.learning_rate, dtype)

    other = "bfloat16" if options.precision == "float32" else "float32"
    contestants = {
        "here": here(options.precision),
        f"here, {other}": here(other),
        "transformers, padded": their(Transformers, padded),
        "transformers, trimmed": their(Transformers, trimmed),
        "TransformerEncoder, padded": their(Encoder, padded),
    }
    if options.compile:
        contestants["transformers, padded and compiled"] = their(compiled, padded)
    torch.set_num_threads(prepared.trainer().threads)
    peak = product_rate(dtype, device)
    specified = specified_rate(dtype, device)
    memory, steps = {}, {}
    times: dict[str, list[float]] = {who: [] for who in contestants}
    for who, build in contestants.items():
        memory[who], steps[who] = grown(build, device)
    for k in range(options.rounds + 1):
        for who, step in steps.items():
            times[who].append(block(step, k, options.steps, device))
    times = {who: rounds[1:] for who, rounds in times.items()}  # the first round warms up
    tokens = sum(int(batch.attention_mask.sum()) for batch in trimmed) / count
    cut, whole = (1 - tokens * count / sum(each.input_ids.numel() for each in those) for those in (trimmed, padded))
    costs = [Cost(config, *prepared.objective.size(each), device) for each in trimmed]
    useful = sum(cost.operations for cost in costs) / count
    print(
        f"\n{name}: {title}, {options.precision}, {where(device)} with a peak of {peak:.0f} GFLOP/s, "
        f"specified {specified or 'unknown'}; {tokens:.0f} real tokens and {useful / 1e9:.2f} GFLOP a step; padding is "
        f"{whole:.0%} of the padded batches and {cut:.0%} of the trimmed ones; drawing a batch {drawing:.2f} ms; "
        f"precision auto would choose {costs[0].precision}\n"
    )
    print("| | ms per step | real tokens/s | useful GFLOP/s | share of the peak | memory, MB | slower than here |")
    print("|---|---|---|---|---|---|---|")
    for who, rounds in times.items():
        seconds = statistics.median(rounds)
        rate = useful / seconds / 1e9
        ratios = [there / here for here, there in zip(times["here"], rounds)]
        print(
            f"| {who} | {seconds * 1000:.1f} | {tokens / seconds:,.0f} | {rate:.0f} "
            f"| {rate / peak:.0%}{f' ({rate / specified:.0%} of the specified one)' if specified else ''} "
            f"| {memory[who] / 1e6:.0f} "
            f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |",
            flush=True,
        )


def where(device: str) -> str:
    """The device that does the steps."""
    return torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"


def wait(device: str) -> None:
    """Wait until the device has done all its work."""
    if device == "cuda":
        torch.cuda.synchronize()


def block(step: Step, k: int, steps: int, device: str) -> float:
    """Seconds per step of block k."""
    wait(device)
    started = time.perf_counter()
    for i in range(k * steps, (k + 1) * steps):
        step(i)
    wait(device)
    return (time.perf_counter() - started) / steps


def grown(build: Callable[[], Step], device: str) -> tuple[float, Step]:
    """Bytes by which memory grew at its peak during two steps, and a fresh step function."""
    _rest(device)
    before = torch.cuda.memory_allocated() if device == "cuda" else _resident("VmRSS")
    step = build()
    step(0), step(1)
    highest = torch.cuda.max_memory_allocated() if device == "cuda" else _resident("VmHWM")
    del step
    _rest(device)
    return highest - before, build()


def _rest(device: str) -> None:
    """Return free memory to the system and reset its record of the peak."""
    gc.collect()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    elif sys.platform == "linux":
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")


def _resident(line: str) -> float:
    if sys.platform != "linux":
        return float("nan")
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return float(status[line].split()[0]) * 1024


class Transformers(nn.Module):
    """The loss of `transformers.BertForPreTraining` from the given weights."""

    def __init__(self, config: BertConfig, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.model = transformers.BertForPreTraining(transformers.BertConfig(**config.content()))
        self.model.load_state_dict(weights, strict=False)

    def forward(self, batch: Batch) -> Tensor:
        return self.model(**vars(batch)).loss


def compiled(config: BertConfig, weights: dict[str, Tensor]) -> nn.Module:
    """The same through `torch.compile`."""
    model = Transformers(config, weights)
    model.compile()
    return model


class Encoder(nn.Module):
    """The loss of a BERT around `torch.nn.TransformerEncoder`, from weights of its own."""

    def __init__(self, config: BertConfig, _: dict[str, Tensor]) -> None:
        super().__init__()
        d = config.hidden_size
        self.words, self.segments = nn.Embedding(config.vocab_size, d), nn.Embedding(2, d)
        self.positions = nn.Parameter(torch.randn(config.max_position_embeddings, d) * 0.02)
        self.norm = nn.LayerNorm(d)
        layer = nn.TransformerEncoderLayer(
            d, config.num_attention_heads, config.intermediate_size, 0.0, F.gelu, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, config.num_hidden_layers, enable_nested_tensor=False)
        self.pooler, self.pair = nn.Linear(d, d), nn.Linear(d, 2)
        self.transform = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, batch: Batch) -> Tensor:
        x = self.words(batch.input_ids) + self.segments(batch.token_type_ids) + self.positions[: batch.labels.shape[1]]
        x = self.encoder(self.norm(x), src_key_padding_mask=batch.attention_mask == 0)
        words = F.linear(self.transform(x), self.words.weight, self.bias)
        pairs = self.pair(self.pooler(x[:, 0]).tanh())
        return F.cross_entropy(words.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED) + F.cross_entropy(
            pairs, batch.next_sentence_label
        )


def peer(model: nn.Module, batches: Sequence[Batch], learning_rate: float, dtype: torch.dtype) -> Step:
    """The usual training step of PyTorch around a model that gives the loss of a batch."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01, fused=True)

    def step(k: int) -> Tensor:
        optimizer.zero_grad()
        with torch.autocast(batches[k].labels.device.type, dtype, enabled=dtype is not torch.float32):
            loss = model(batches[k])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def specified_rate(dtype: torch.dtype, device: str) -> int | None:
    """GFLOP/s that the maker of the device names for it, where `SPECIFIED` has them."""
    rates = [both for name, both in SPECIFIED.items() if device == "cuda" and name in where(device)]
    return rates[0][dtype is torch.bfloat16] if rates else None


def product_rate(dtype: torch.dtype, device: str) -> float:
    """GFLOP/s of the best of five matrix products."""
    n, best = 8192 if device == "cuda" else 2048, float("inf")
    a = torch.randn(n, n, dtype=dtype, device=device)
    for _ in range(5):
        wait(device)
        started = time.perf_counter()
        a @ a
        wait(device)
        best = min(best, time.perf_counter() - started)
    return 2 * n**3 / best / 1e9


if __name__ == "__main__":
    main()
