"""Which ways to a faster training step pay on a GPU, of those that the package does not go: a table decides.

    python benchmarks/gpu.py --device cuda [--only base-128 base-512-full]
    python benchmarks/gpu.py --only toy           # on a CPU: whether each of them computes the package's losses

The package's step is measured beside attention on packed tokens alone (`varlen_attn`, in bfloat16), `torch.compile` of
the layers and of the whole model, the whole step as one CUDA graph, and `transformers`, padded, as it is and compiled.
The ids are random; the share of padding is what English paragraphs have at these lengths, and stands in the table's
title. All start from the same weights; "differs" is how far the losses of the first two steps are from the package's.
Real tokens, operations and the measured peak are those of benchmarks/training.py. Whatever fails says why, and the
others go on. On a CPU, each row's attention is computed by itself, and nothing is recorded. Needs torch 2.10 or newer.
"""

import argparse
import math
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn
from training import Step, Transformers, block, compiled, peer, product_rate, specified_rate, where

from bert_core import BertConfig, BertForPreTraining, TrainingConfig
from bert_core.data.batches import IGNORED, Batch
from bert_core.device import Cost
from bert_core.model import BertSelfAttention, Packing
from bert_core.training import Pretraining, Trainer

_BATCHES, _STEPS, _ROUNDS, _RATE = 8, 16, 3, 1e-4
_TOLERANCE = {"float32": 1e-4, "bfloat16": 0.05}  # of losses near 11


@dataclass(frozen=True)
class Case:
    """Rows of at most `length` tokens, of which the fraction `real` is no padding."""

    layers: int
    hidden: int
    vocabulary: int
    rows: int
    length: int
    real: float
    precision: Literal["float32", "bfloat16"]

    @property
    def config(self) -> BertConfig:
        return BertConfig(
            num_hidden_layers=self.layers,
            hidden_size=self.hidden,
            intermediate_size=4 * self.hidden,
            num_attention_heads=max(4, self.hidden // 64),
            vocab_size=self.vocabulary,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            max_position_embeddings=512,
        )

    def batch(self, number: int) -> Batch:
        """Random ids, of which 15 % are asked. Of a uniform u, u ** ((1 - real) / real) has the mean `real`."""
        draw = torch.Generator().manual_seed(number)
        lengths = (self.length * torch.rand(self.rows, 1, generator=draw) ** (1 / self.real - 1)).clamp(min=5).round()
        lengths[0] = self.length
        places = torch.arange(self.length)
        mask = (places < lengths).long()
        ids = mask * torch.randint(5, self.vocabulary, mask.shape, generator=draw)
        is_asked = (torch.rand(mask.shape, generator=draw) < 0.15) & (mask > 0)
        labels = ids.masked_fill(~is_asked, IGNORED)
        return Batch(ids, mask * (places > lengths / 2), mask, labels, torch.arange(self.rows) % 2)


CASES = {
    "toy": Case(2, 64, 41, 32, 25, 0.66, "float32"),
    "mini": Case(4, 256, 8000, 32, 128, 0.6, "float32"),
    "base-128": Case(12, 768, 30522, 256, 128, 0.6, "bfloat16"),
    "base-512": Case(12, 768, 30522, 64, 512, 0.2, "bfloat16"),
    "base-512-full": Case(12, 768, 30522, 48, 512, 0.86, "bfloat16"),
}
HERE, PACKED, LAYERS, WHOLE = "here", "packed", "packed, layers compiled", "packed, compiled"
RECORDED, THEIRS, PEAK = "one CUDA graph", "transformers, compiled", "of the peak"
# What has to be reached for a way to pay: a part of the measured peak, milliseconds, or times the speed of another way.
GOALS = (
    ("attention without padding", "base-512-full", PACKED, 0.35, PEAK),
    *(("layers compiled", case, LAYERS, 0.45, PEAK) for case in ("base-128", "base-512-full")),
    *(("layers compiled", case, LAYERS, 1.5, THEIRS) for case in ("base-128", "base-512-full")),
    *(("one launch", case, RECORDED, most, "ms") for case, most in (("toy", 1.5), ("mini", 4.0))),
    *(("one launch", case, RECORDED, 2.5, HERE) for case in ("toy", "mini")),
)


class PackedAttention(BertSelfAttention):
    """Attention that never unpacks: each row's tokens are found by where the row begins. Without dropout."""

    def forward(self, x: Tensor, mask: Tensor | None, packing: Packing, watch: Any = None) -> Tensor:
        rows, longest = packing.shape
        edges = torch.arange(0, rows * longest + 1, longest, device=x.device)
        starts = (edges if packing.real is None else torch.searchsorted(packing.real, edges)).int()  # (B + 1,)
        query, key, value = (  # (N, H, d)
            project(x).view(-1, self.num_heads, x.shape[-1] // self.num_heads)
            for project in (self.query, self.key, self.value)
        )
        if x.is_cuda:
            context = cast(Tensor, varlen_attn(query, key, value, starts, starts, longest, longest))
        else:
            sizes = starts.diff().tolist()
            of_rows = zip(*(each.transpose(0, 1).split(sizes, dim=1) for each in (query, key, value)))
            context = torch.cat([F.scaled_dot_product_attention(*row) for row in of_rows], dim=1).transpose(0, 1)
        return context.flatten(1).view_as(x)


def trained_here(case: Case, model: BertForPreTraining, batches: list[Batch], way: str) -> Step:
    """The package's own step; `way` says what is changed about the model."""
    layers = model.bert.encoder.layer
    if way != HERE:
        for layer in layers:
            layer.attention["self"].__class__ = PackedAttention
    for part in layers if way == LAYERS else [model] if way == WHOLE else []:
        part.compile(dynamic=True)
    settings = {"optimizer": "adamw", "learning_rate": _RATE, "warmup_steps": 0, "decay": "none", "max_grad_norm": 1.0}
    config = TrainingConfig.model_validate(settings | {"steps": len(batches), "precision": case.precision})
    trainer = Trainer(model, batches, config)

    return lambda _: torch.as_tensor(sum(next(trainer).losses.values()))


def recorded(case: Case, model: BertForPreTraining, batches: list[Batch]) -> Step:
    """A step of fixed shapes, padding and all; on a GPU it is recorded once as a CUDA graph and replayed."""
    device, weights = str(model.device.type), [each.detach().clone() for each in model.parameters()]
    most, inputs = max(len(batch.asked()[0]) for batch in batches), []
    for batch in batches:
        positions, labels = batch.asked()
        rest = 0, most - len(positions)
        words = F.pad(positions, rest), F.pad(labels, rest, value=IGNORED)
        parts = batch.input_ids, batch.attention_mask, batch.token_type_ids, *words, batch.next_sentence_label
        inputs.append([each.to(device) for each in parts])
    read = [each.clone() for each in inputs[0]]
    rate: Any = torch.tensor(_RATE, device=device) if device == "cuda" else _RATE  # which a schedule can then change
    optimizer = torch.optim.AdamW(model.parameters(), rate, fused=True, capturable=device == "cuda")

    def work() -> Tensor:
        ids, mask, segments, positions, labels, pairs = read
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=case.precision == "bfloat16"):
            output = model(ids, mask, segments, asked_positions=positions)
        loss = F.cross_entropy(output.prediction_logits.float(), labels)
        loss = loss + F.cross_entropy(output.seq_relationship_logits.float(), pairs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss.detach()

    run = work
    if device == "cuda":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            loss = work()
        with torch.no_grad():  # the weights and averages of before the warm-up
            for weight, first in zip(model.parameters(), weights):
                weight.copy_(first)
        for averages in optimizer.state.values():
            for each in averages.values():
                each.zero_()

        def run() -> Tensor:
            graph.replay()
            return loss.clone()

    def step(k: int) -> Tensor:
        for to, each in zip(read, inputs[k]):
            to.copy_(each)
        return run()

    return step


def ways(case: Case, batches: list[Batch], device: str) -> dict[str, Callable[[], Step]]:
    """What takes part in a case: `varlen_attn` computes in bfloat16 alone, and one launch is for small models."""
    weights = BertForPreTraining(case.config, generator=torch.Generator().manual_seed(0)).state_dict()

    def model() -> BertForPreTraining:
        fresh = BertForPreTraining(case.config)
        fresh.load_state_dict(weights)
        return fresh.to(device).train()

    def theirs(kind: Any) -> Step:
        moved = [Batch(*(part.to(device) for part in vars(batch).values())) for batch in batches]
        return peer(kind(case.config, weights).to(device), moved, _RATE, getattr(torch, case.precision))

    is_small, on_cpu = case.precision == "float32", device == "cpu"
    found: dict[str, Callable[[], Step]] = {
        way: partial(lambda way: trained_here(case, model(), batches, way), way)
        for way in (HERE, *(PACKED, LAYERS, WHOLE) * (on_cpu or not is_small))
    }
    if is_small or on_cpu:
        found[RECORDED] = lambda: recorded(case, model(), batches)
    return found | {"transformers": lambda: theirs(Transformers), THEIRS: lambda: theirs(compiled)}


def measured(build: Callable[[], Step], device: str) -> tuple[float, float, float, list[float]]:
    """Seconds of a step and of the first two, in which it is compiled or recorded, GB of memory, and their losses."""
    torch.compiler.reset()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    started, step = time.perf_counter(), build()
    losses = [step(0).item(), step(1).item()]
    first = time.perf_counter() - started
    seconds = statistics.median(block(step, number, _STEPS, device) for number in range(1, _ROUNDS + 1))
    return seconds, first, torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else math.nan, losses


def repeats(build: Callable[[], Step], device: str) -> bool:
    """Whether the losses of some steps are the same bit for bit while another thread uses the device."""
    step, matrix, has_ended = build(), torch.ones(512, 512, device=device), threading.Event()
    alone = [step(k).item() for k in range(_STEPS)]

    def multiply() -> None:
        while not has_ended.is_set():
            (matrix @ matrix)[0, 0].item()

    thread = threading.Thread(target=multiply)
    thread.start()
    try:
        step = build()
        return [step(k).item() for k in range(_STEPS)] == alone
    finally:
        has_ended.set()
        thread.join()


def main() -> None:
    """Measure, and print what each way reaches and which goals that meets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), help="which cases")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {where(options.device)}")
    found: dict[tuple[str, str], float] = {}  # seconds of a step
    for name in options.only:
        measure(name, options.device, found)
    if options.device == "cpu":
        return  # whose times say nothing of a GPU's
    print("\n| what | case | goal | found | pays |\n|---|---|---|---|---|")
    for what, name, way, goal, of in GOALS:
        if (name, way) in found:
            seconds, other = found[name, way] * 1000, found.get((name, of), math.nan) * 1000
            most = goal if of == "ms" else other / goal
            verdict = "yes" if seconds <= most else "no" if seconds > most else "unknown"
            print(f"| {what} | {name} | {goal:g} {of}: {most:.2f} ms | {seconds:.2f} ms | {verdict} |")


def measure(name: str, device: str, found: dict[tuple[str, str], float]) -> None:
    """Print the table of a case, and note the seconds of each way, and those that a step takes at the peak."""
    case = CASES[name]
    batches = [case.batch(number) for number in range(_BATCHES)] * (_STEPS * (_ROUNDS + 1) // _BATCHES)
    tokens = statistics.mean(int(batch.attention_mask.sum()) for batch in batches[:_BATCHES])
    costs = [Cost(case.config, *Pretraining().size(batch), device) for batch in batches[:_BATCHES]]
    dtype = getattr(torch, case.precision)
    peak = product_rate(dtype, device)
    found[name, PEAK] = least = statistics.mean(cost.operations for cost in costs) / peak / 1e9
    print(
        f"\n{name}: {case}, padding {1 - tokens / case.rows / case.length:.0%}; peak {peak:,.0f} GFLOP/s, specified "
        f"{specified_rate(dtype, device) or 'unknown'}\n\n"
        "| | ms per step | real tokens/s | share of the peak | memory, GB | first two steps, s | differs |\n"
        "|---|---|---|---|---|---|---|"
    )
    expected: list[float] = []
    for way, build in ways(case, batches, device).items():
        try:
            seconds, first, memory, losses = measured(build, device)
            expected = expected or losses
            off = max(abs(a - b) for a, b in zip(expected, losses))
            is_right = off <= _TOLERANCE[case.precision] and (way != RECORDED or repeats(build, device))
        except Exception as error:
            print(f"| {way} | failed: {type(error).__name__}: {str(error).strip()[:200]!r} |")
            continue
        found[name, way] = seconds if is_right else math.nan
        print(
            f"| {way} | {seconds * 1000:.2f} | {tokens / seconds:,.0f} | {least / seconds:.0%} | {memory:.1f} "
            f"| {first:.1f} | {off:.1e}{'' if is_right else ', WRONG or not repeatable'} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
