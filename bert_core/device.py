"""The device that trains and answers: which one, the memory and the time that a training step takes of it."""

import contextlib
import ctypes
import math
import os
import sys
import time
import timeit
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from bert_core.config import BertConfig
from bert_core.errors import ConfigError, ignore, quoted

MEMORY_FRACTION = 0.6
_SMALL = 2e9  # operations; below, a second CPU thread costs more than it saves

# From this many operations a step, bfloat16 saves more time in the products than it costs in conversions, if it is so
# many times as fast there. On a CPU with fast bfloat16, the romeo-juliet recipe (2.5e8) took 1.7 times as long in
# bfloat16 as in float32, and the mini case of benchmarks/training.py (5e10) 0.7 times as long; where its products are
# half as fast, 1.5 times as long. On an H100, bfloat16 began to win between 1.5e11 and 3.5e11.
_LARGE, _FASTER = {"cpu": 1e10, "cuda": 3e11}, 1.2

# The rate of a step as a part of that of its products. What lies between these takes longer than they do in bfloat16 on
# a GPU: there, benchmarks/training.py has 0.11 to 0.21.
_SHARE, _SHARE_OF_TENSOR_CORES = 0.5, 0.2
_SECONDS_PER_LAYER = 1e-3  # of a step, beside its products
_MEASURED_ROWS, _TRIES = 1024, 5

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h

_trimmed = time.monotonic()  # when free memory was last given back


def choose_device(device: str) -> str:
    """The device to work on: "cuda", "cuda:1" and so on, or "cpu". "auto" takes CUDA where there is one that works.
    Raises ConfigError for a missing one."""
    # A ZeroGPU Space lends its GPU to forked workers only; a background thread never sees it.
    has_cuda = torch.cuda.is_available() and not os.environ.get("SPACES_ZERO_GPU")
    if device == "auto":
        return "cuda" if has_cuda and not gpu_fault() else "cpu"
    gpus = ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))] if has_cuda else []
    if device not in ("cpu", *gpus):
        raise ConfigError(f"The device {quoted(device)} is not available here; there is: {', '.join(['cpu', *gpus])}.")
    if device in gpus and (fault := gpu_fault(device)):
        raise ConfigError(f"The GPU cannot be used ({fault}); choose the device cpu.")
    return device


@cache
def gpu_fault(device: str = "cuda") -> str:
    """Why a GPU that CUDA lists cannot compute, such as without code for it in this PyTorch; "" if it can, if there is
    none, or if a process of several would begin to use another one's."""
    if not torch.cuda.is_available() or os.environ.get("SPACES_ZERO_GPU") or "LOCAL_RANK" in os.environ:
        return ""
    try:
        torch.ones(2, 2, device=device).mm(torch.ones(2, 2, device=device)).sum().item()
    except (RuntimeError, AssertionError) as error:  # the latter where PyTorch comes without CUDA
        return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return ""


def usable_memory(device: str = "cpu") -> int:
    """The bytes that the process may use: 60 % of what other programs leave of a GPU's memory, or of the machine's."""
    if device.startswith("cuda"):
        memory = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    elif hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    else:
        memory = 2**32  # Windows: as of a small machine
    return int(MEMORY_FRACTION * memory)


def training_bytes(config: BertConfig, rows: int, length: int, asked: int, device: str) -> int:
    """Bytes that training takes beside snapshots and text, for batches of so many rows with so many tokens and asked
    positions each. Raises ConfigError where these are more than `usable_memory`."""
    # The forward pass keeps about 12 vectors of the hidden size for each token and layer, two of the feed-forward size,
    # and the attention weights. Training keeps each weight, its gradient and two averages.
    layer = 12 * config.hidden_size + 2 * config.intermediate_size + config.num_attention_heads * length
    activations = rows * (length * config.num_hidden_layers * layer + 3 * asked * config.vocab_size)
    parameters, available = config.parameter_count(), usable_memory(device)
    needed = 4 * (4 * parameters + activations)
    if needed > available:
        raise ConfigError(
            f"This size needs about {needed / 2**30:.1f} GB to train ({parameters / 1e6:.0f} million parameters); the "
            f"limit here is {available / 2**30:.1f} GB. Choose fewer layers, a smaller hidden size or smaller batches."
        )
    return needed


@cache
def keep_memory() -> None:
    """Let glibc, on Linux, keep the freed blocks of a step for the next one, until `give_back_memory`: by default, it
    gives megabytes back at once, and the system clears each page anew, a fifth of the time of a medium-sized step."""
    _call_glibc("mallopt", _M_MMAP_THRESHOLD, 2**25)  # the most that it allows
    _call_glibc("mallopt", _M_TRIM_THRESHOLD, 2**30)


def give_back_memory(seconds: float = 0.0) -> None:
    """Ask glibc, on Linux, to return free memory to the system, unless it has done so in the last `seconds`. Batches of
    many sizes leave holes in its heap: with each step of a medium-sized model, it would grow by a megabyte or two."""
    global _trimmed
    if time.monotonic() - _trimmed >= seconds:
        _trimmed = time.monotonic()
        _call_glibc("malloc_trim", 0)


def _call_glibc(name: str, *arguments: int) -> None:
    if sys.platform == "linux":
        getattr(ctypes.CDLL(None), name, ignore)(*arguments)  # other libraries lack it


def processor_cores() -> int:
    """The number of CPU cores that this process may use; of the machine, where that is unknown."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def give_way() -> None:
    """Let other threads go before the calling one, and before those that it starts, on the same core: on Linux, where
    no sandbox forbids it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # 0 is the calling thread
            os.setpriority(os.PRIO_PROCESS, 0, min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10))


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


class Cost:
    """What a training step takes on a device, or forward passes alone: operations of the matrix products, CPU threads
    that suit these, precision and seconds.

    lengths: (B,) real tokens of each row. asked: number of positions with word scores. is_step: with the gradients,
    which take twice as much again."""

    def __init__(self, config: BertConfig, lengths: Tensor, asked: float, device: str, *, is_step: bool = True) -> None:
        d, f, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
        self.rows, tokens = len(lengths), float(lengths.sum())
        attention = layers * (3 * d * d * tokens + 2 * d * float((lengths.double() ** 2).sum()))
        # After its attention, the last layer computes only asked positions and first tokens, if no mean is needed.
        last = tokens if config.pooler == "mean" else asked + self.rows
        after_attention = (d * d + 2 * d * f) * ((layers - 1) * tokens + last)
        heads = asked * d * (d + config.vocab_size) + self.rows * d * (d + 2)
        self.operations = (6 if is_step else 2) * (attention + after_attention + heads)
        self.threads = 1 if self.operations < _SMALL else processor_cores()
        self._device, self._least = device, _SECONDS_PER_LAYER * (1 + layers) * (1 if is_step else 1 / 3)
        self._product = min(_MEASURED_ROWS, 2 ** int(tokens).bit_length()), d, f  # of the feed-forward part

    @property
    def precision(self) -> str:
        """That in which it is faster here, "float32" or "bfloat16"."""
        is_large = self.operations >= _LARGE.get(self._device.split(":")[0], math.inf)
        is_faster = is_large and self._rate("bfloat16") >= _FASTER * self._rate("float32")
        return "bfloat16" if is_faster else "float32"

    def seconds(self, precision: str = "float32") -> float:
        """A rough estimate: operations divided by the rate of a matrix product, which is measured in the size and with
        the threads of the step, since all of these change it by a factor. precision: "auto" is the faster one."""
        precision = self.precision if precision == "auto" else precision
        share = _SHARE_OF_TENSOR_CORES if precision == "bfloat16" and self._device != "cpu" else _SHARE
        return self._least + self.operations / (share * self._rate(precision))

    def _rate(self, precision: str) -> float:
        return _rate(self._device, precision, self.threads, *self._product)


@cache
def _rate(device: str, precision: str, threads: int, rows: int, inner: int, outer: int) -> float:
    """Operations a second of a product of two matrices. Other programs hold some of the tries up."""
    a, b = (torch.ones(*n, dtype=getattr(torch, precision), device=device) for n in ((rows, inner), (inner, outer)))
    with using_threads(threads):
        return 2 * rows * inner * outer / min(timeit.repeat(lambda: (a @ b)[0, 0].item(), repeat=_TRIES, number=1))
