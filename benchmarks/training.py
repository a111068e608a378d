"""Training steps of this project beside those of `transformers`, in one process and in turns.

    python benchmarks/training.py [--rounds 5] [--steps 20]

Both train on the same batches with the same sizes, without dropout, in float32: here `bert_core.Trainer`; there
`transformers.BertForPreTraining` with its default attention, gradient clipping and fused AdamW. Every round times a
block of steps of one and then of the other; the table gives medians over the rounds, and the ratio's median and range.
Needs the packages of tests/requirements.txt.
"""

import argparse
import dataclasses
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bert_core import Recipe, load_recipe, prepare
from bert_core.recipes import Prepared

_DIALOGUE = load_recipe("romeo-juliet")
CASES = {
    "toy, 2 x 64, the dialogue, batch 32": _DIALOGUE.override(
        {"model.hidden_size": 64, "model.intermediate_size": 256}
    ),
    "tutorial, 6 x 768, the dialogue, batch 6": load_recipe("romeo-juliet-wmathor").override(
        {"model.classifier_dropout": None}
    ),
}


def main() -> None:
    """Measure every case and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often the two take turns")
    parser.add_argument("--steps", type=int, default=20, help="steps in a block")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, torch {torch.__version__}, transformers {transformers.__version__}")
    for threads in sorted({1, os.cpu_count() or 1}):
        print(f"matrix product of 2048 x 2048, {threads} threads: {product_rate(threads):.0f} GFLOP/s")
    print("| case | threads | ms per step here | there | here is faster by |")
    print("|---|---|---|---|---|")
    for name, recipe in CASES.items():
        print(measure(name, recipe, options.rounds, options.steps), flush=True)


def measure(name: str, recipe: Recipe, rounds: int, steps: int) -> str:
    """A row of the table."""
    training = dataclasses.replace(recipe.training, steps=(rounds + 1) * steps, max_grad_norm=1.0)
    prepared = prepare(dataclasses.replace(recipe, training=training))
    trainer = prepared.trainer()
    torch.set_num_threads(trainer.threads)
    theirs = peer(prepared)
    block(lambda _: next(trainer), 0, steps)
    block(theirs, 0, steps)
    here, there = [], []
    for k in range(1, rounds + 1):
        here.append(block(lambda _: next(trainer), k, steps))
        there.append(block(theirs, k, steps))
    ratios = [b / a for a, b in zip(here, there)]
    return (
        f"| {name} | {trainer.threads} | {statistics.median(here):.1f} | {statistics.median(there):.1f} "
        f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |"
    )


def block(step: Callable[[int], object], k: int, steps: int) -> float:
    """Milliseconds per step of block k."""
    started = time.perf_counter()
    for i in range(k * steps, (k + 1) * steps):
        step(i)
    return (time.perf_counter() - started) / steps * 1000


def peer(prepared: Prepared) -> Callable[[int], None]:
    """A training step of `transformers` from the same weights; its argument is the number of the batch."""
    model = transformers.BertForPreTraining(transformers.BertConfig(**dataclasses.asdict(prepared.model.config)))
    model.load_state_dict(prepared.model.state_dict(), strict=False)
    model.train()
    config = prepared.recipe.training
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
    )

    def step(k: int) -> None:
        batch = prepared.batches[k]
        optimizer.zero_grad()
        output = model(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask,
            token_type_ids=batch.token_type_ids,
            labels=batch.labels,
            next_sentence_label=batch.next_sentence_label,
        )
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
        optimizer.step()

    return step


def product_rate(threads: int) -> float:
    """GFLOP/s of the best of five matrix products."""
    torch.set_num_threads(threads)
    a, best = torch.randn(2048, 2048), float("inf")
    for _ in range(5):
        started = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - started)
    return 2 * 2048**3 / best / 1e9


if __name__ == "__main__":
    main()
