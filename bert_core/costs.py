"""What a training run costs on this machine: memory, operations and time, estimated without building the model."""

import contextlib
import math
import os
import timeit
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache

import torch
from torch import Tensor

from bert_core.config import BertConfig
from bert_core.errors import ConfigError, quoted
from bert_core.machine import memory_bytes, processor_cores

# Bytes for one parameter in training: the weight, its gradient and AdamW's two averages in float32.
_BYTES_PER_PARAMETER = 16
_MEMORY_FRACTION = 0.6

# A step writes or reads each number that it keeps about four times, at some 5 GB/s for small arrays.
_SECONDS_PER_NUMBER = 16 / 5e9

# Below this many operations, a second CPU thread costs more than it saves.
_SMALL_STEP = 2e9

# From this many operations a step, bfloat16 saves more time in the products than it costs in conversions. On a CPU with
# bfloat16 units, the romeo-juliet recipe (2.5e8) took 1.7 times as long in bfloat16 as in float32, and the mini case of
# benchmarks/training.py (5e10) 0.7 times as long. On an H100, bfloat16 began to win between 1.5e11 and 3.5e11.
_STEP_FOR_BFLOAT16 = {"cpu": 1e10, "cuda": 3e11}

# An estimate of a GPU's operations a second. Apple's are not measured, because many threads ask for it and only one at
# a time may use MPS, and others not while they have no memory for it.
_GPU_RATE = 1e12

# A step's operations a second as a part of those of one large product. What lies between the products takes longer than
# they do in bfloat16 on a GPU: there, benchmarks/training.py has 0.11 to 0.21.
_STEP_SHARE, _STEP_SHARE_OF_TENSOR_CORES = 0.5, 0.2


def choose_device(device: str) -> str:
    """The device to work on: "cuda", "cuda:1" for the second GPU and so on, "mps" or "cpu". "auto" takes CUDA where
    there is one that works, else the CPU: Apple's MPS is taken only when it is asked for. Raises ConfigError for a
    missing one."""
    # A ZeroGPU Space lends its GPU to forked workers only; a background thread never sees it.
    has_cuda = torch.cuda.is_available() and not os.environ.get("SPACES_ZERO_GPU")
    devices = ["cuda"] * has_cuda + ["cpu"] + ["mps"] * torch.backends.mps.is_available()
    if device == "auto":
        return "cpu" if gpu_fault() else devices[0]
    devices += [f"cuda:{number}" for number in range(torch.cuda.device_count() if has_cuda else 0)]
    if device not in devices:
        raise ConfigError(f"The device {quoted(device)} is not available here; there is: {', '.join(devices)}.")
    if device.startswith("cuda") and (fault := gpu_fault(device)):
        raise ConfigError(f"The GPU cannot be used ({fault}); choose the device cpu.")
    return device


def gpu_fault(device: str = "cuda") -> str:
    """Why a GPU that CUDA lists cannot compute, for example because this PyTorch has no code for it; "" if it can, if
    there is none, or if a process of several would begin to use another one's."""
    is_asked = torch.cuda.is_available() and not (os.environ.get("SPACES_ZERO_GPU") or "LOCAL_RANK" in os.environ)
    return _fault_of_gpu(device) if is_asked else ""


@cache
def _fault_of_gpu(device: str) -> str:
    try:
        torch.ones(2, 2, device=device).mm(torch.ones(2, 2, device=device)).sum().item()
    except (RuntimeError, AssertionError) as error:  # the latter where PyTorch comes without CUDA
        return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
    return ""


def training_bytes(config: BertConfig, rows: int, length: int, asked: int, device: str) -> int:
    """Bytes that training takes beside snapshots and text: parameters with their averages, and activations.

    rows: of a batch. length, asked: numbers of tokens and of asked positions in a row. Raises ConfigError where these
    are more than `usable_memory`.
    """
    parameters, available = config.parameter_count(), usable_memory(device)
    activations = 4 * rows * (length * _activations(config, length) + 3 * asked * config.vocab_size)
    needed = int(_BYTES_PER_PARAMETER * parameters + activations)
    if needed > available:
        needs, limit, million = needed / 2**30, available / 2**30, parameters / 1e6
        if device.startswith("cuda"):
            raise ConfigError(
                f"This size needs about {needs:.1f} GB to train ({million:.0f} million parameters); the limit on this "
                f"GPU is {limit:.1f} GB, 60 % of what other programs leave. Choose fewer layers, a smaller hidden size "
                "or smaller batches."
            )
        raise ConfigError(
            f"This size needs about {needs:.1f} GB to train ({million:.0f} million parameters); the limit here is "
            f"{limit:.1f} GB. Choose fewer layers, a smaller hidden size or smaller batches."
        )
    return needed


def _activations(config: BertConfig, length: float) -> float:
    """Numbers that the forward pass keeps for each token of a pair with `length` tokens."""
    # About 12 vectors of the hidden size, two of the feed-forward size, and the attention weights.
    layer = 12 * config.hidden_size + 2 * config.intermediate_size + config.num_attention_heads * length
    return config.num_hidden_layers * layer


def usable_memory(device: str = "cpu") -> int:
    """The bytes that the process may use: 60 % of what other programs leave of a GPU's memory or, on the CPU, of the
    container's limit."""
    if device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(device)
        return int(_MEMORY_FRACTION * (free + torch.cuda.memory_reserved(device)))
    return int(_MEMORY_FRACTION * memory_bytes())


def batch_operations(config: BertConfig, lengths: Tensor, asked: float) -> float:
    """Floating-point operations of a training step's matrix products, forward and twice as many backward.

    lengths: (B,) real tokens of each pair. asked: number of asked positions in the batch.
    """
    d, f, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    lengths, pairs = lengths.double(), len(lengths)
    tokens = float(lengths.sum())
    attention = layers * (3 * d * d * tokens + 2 * d * float((lengths**2).sum()))
    # After its attention, the last layer computes only the asked positions and the first tokens, if no mean is needed.
    last = tokens if config.pooler == "mean" else asked + pairs
    after_attention = (d * d + 2 * d * f) * ((layers - 1) * tokens + last)
    return 6 * (attention + after_attention + asked * d * (d + config.vocab_size) + pairs * d * (d + 2))


def threads_for(operations: float) -> int:
    """The number of CPU threads for this many operations: one, or as many as there are cores."""
    return 1 if operations < _SMALL_STEP else processor_cores()


@contextlib.contextmanager
def using_threads(number: int) -> Iterator[None]:
    """Give PyTorch this number of CPU threads for a block: in a small pass on a busy machine, threads wait for each
    other up to ten times as long as they work. A new thread begins with the number that any thread set last."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def probe_operations(config: BertConfig, tokens: int) -> float:
    """Floating-point operations of a forward pass over this many tokens, without attention's scores and the heads."""
    d, f = config.hidden_size, config.intermediate_size
    return 2 * tokens * config.num_hidden_layers * (4 * d * d + 2 * d * f)


def threads_for_pass(config: BertConfig, tokens: int) -> AbstractContextManager[None]:
    """Give PyTorch, for a block, the number of CPU threads that suits a forward pass over this many tokens."""
    return using_threads(threads_for(probe_operations(config, tokens)))


def probe_seconds(config: BertConfig, rows: int, tokens: int, scored: int, device: str) -> float:
    """A rough time in seconds of forward passes. rows, tokens: of all passes. scored: positions with word scores."""
    attention = 4 * config.num_hidden_layers * config.hidden_size * tokens * tokens / max(1, rows)
    words = 2 * scored * config.hidden_size * (config.hidden_size + config.vocab_size)
    return (probe_operations(config, tokens) + attention + words) / (2 * _rate(device))


def has_fast_bfloat16(device: str) -> bool:
    """Whether this device multiplies bfloat16 matrices in hardware; emulation is slower than float32."""
    if device.startswith("cuda"):
        with torch.cuda.device(device):
            return torch.cuda.is_bf16_supported(including_emulation=False)
    if device == "cpu":
        found = torch.cpu.get_capabilities()
        return bool(found.get("amx_bf16") or found.get("avx512_bf16"))
    return False


def faster_precision(operations: float, device: str) -> str:
    """The precision, "float32" or "bfloat16", in which a training step of this many operations is faster here."""
    is_large = operations >= _STEP_FOR_BFLOAT16.get(device.partition(":")[0], math.inf)
    return "bfloat16" if is_large and has_fast_bfloat16(device) else "float32"


def estimate_seconds(
    steps: int, config: BertConfig, lengths: Tensor, asked: float, device: str = "cpu", precision: str = "float32"
) -> float:
    """A rough training time in seconds: the matrix products at the device's measured rate; on a CPU also the reading
    and writing of numbers between them, and a fixed time per layer; on a GPU at least the time in which the CPU starts
    its work. lengths, asked: as for `batch_operations`. precision: "auto" is that of `faster_precision`."""
    operations, tokens = batch_operations(config, lengths, asked), float(lengths.sum())
    if precision == "auto":
        precision = faster_precision(operations, device)
    seconds, parts = operations / _rate(device, precision), 1 + config.num_hidden_layers
    if device != "cpu":
        return steps * max(seconds, 1.5e-3 * parts)
    kept = tokens * _activations(config, tokens / len(lengths)) + config.parameter_count()
    return steps * (seconds + kept * _SECONDS_PER_NUMBER + 1e-3 * parts)


def _rate(device: str, precision: str = "float32") -> float:
    """Operations per second of a training step: a part of the rate of a matrix product, which is measured once."""
    is_of_tensor_cores = precision == "bfloat16" and device != "cpu"
    share = _STEP_SHARE_OF_TENSOR_CORES if is_of_tensor_cores else _STEP_SHARE
    try:
        return _GPU_RATE if device == "mps" else share * _product_rate(device, precision)
    except torch.OutOfMemoryError:
        return _GPU_RATE


@cache
def _product_rate(device: str, precision: str) -> float:
    n = 512 if device == "cpu" else 4096
    a = torch.ones(n, n, dtype=getattr(torch, precision), device=device)
    # The fastest of several, because other programs hold some of them up.
    best = min(timeit.repeat(lambda: (a @ a).sum().item(), repeat=16, number=1))
    return 2 * n**3 / best
