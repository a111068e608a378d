"""Fine-tuning steps of this project beside those of `transformers`, in one process and in turns.

    python benchmarks/finetuning.py --train train.tsv [--checkpoint checkpoints/english-mini] [--rounds 7] [--steps 20]

Both start from the same weights, with the same sizes, examples, batch size, dropout, fused AdamW and gradient clipping.
`transformers` shuffles the examples and pads each batch to its longest text, as its `DataCollatorWithPadding` does;
tokens are encoded beforehand on both sides. Every round times a block of steps of each in turn; the last line has the
medians over the rounds and their ratio. Needs the packages of tests/requirements.txt.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bert_core import load_checkpoint, load_task, save_checkpoint
from bert_core.runs.job import Job
from bert_core.runs.recipe import FinetuningRecipe
from bert_core.runs.train import prepare
from bert_core.tasks.examples import TaskParts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="a text-classification file")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/english-mini"))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()

    checkpoint, task = load_checkpoint(options.checkpoint), load_task(options.train, "text-classification")
    settings = {"data.batch_size": options.batch_size, "training.dropout": options.dropout, "training.epochs": 1000}
    recipe = FinetuningRecipe(name="benchmark", task=task.task, title=task.name).override(settings)
    prepared = prepare(recipe, TaskParts(task), start=checkpoint)
    trainer = prepared.trainer()
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(checkpoint, folder)
        theirs = transformers_step(folder, prepared, options)
    # Both use as many threads as this project chooses for a step of this size.
    torch.set_num_threads(trainer.threads or torch.get_num_threads())
    sides: dict[str, Callable[[], object]] = {"here": lambda: next(trainer), "transformers": theirs}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(options.rounds + 1):  # the first round warms up
        for name, step in sides.items():
            started = time.perf_counter()
            for _ in range(options.steps):
                step()
            if number:
                seconds[name].append((time.perf_counter() - started) / options.steps)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name, each in seconds.items():
        print(f"{name}: {1e3 * medians[name]:.1f} ms a step, {1e3 * min(each):.1f} to {1e3 * max(each):.1f}")
    ratios = sorted(theirs / ours for ours, theirs in zip(seconds["here"], seconds["transformers"]))
    print(
        f"transformers takes {medians['transformers'] / medians['here']:.2f} times as long "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f} in single rounds), "
        f"{torch.get_num_threads()} threads, {len(prepared.parts.train.examples):,} examples"
    )


def transformers_step(folder: str, prepared: Job, options: argparse.Namespace) -> Callable[[], object]:
    """A step of `BertForSequenceClassification` with padded batches."""
    dropout = {"hidden_dropout_prob": options.dropout, "attention_probs_dropout_prob": options.dropout}
    labels = prepared.head.outputs
    model = transformers.BertForSequenceClassification.from_pretrained(folder, num_labels=labels, **dropout).train()
    config = prepared.recipe.training
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=config.weight_decay, fused=True)
    collate = transformers.DataCollatorWithPadding(transformers.AutoTokenizer.from_pretrained(folder))
    examples = [
        {
            "input_ids": list(row.ids),
            "token_type_ids": [0] * len(row.ids),
            "attention_mask": [1] * len(row.ids),
            "label": int(row.target[0]),
        }
        for row in prepared.batches.rows
        if row.target is not None
    ]
    rng = random.Random(0)

    def step() -> object:
        batch = collate(rng.sample(examples, options.batch_size))
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
        optimizer.step()
        return loss.item()

    return step


if __name__ == "__main__":
    main()
