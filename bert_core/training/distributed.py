"""Training on several processes or machines: PyTorch's DistributedDataParallel around the same step.

torchrun starts a process for each GPU, or several on a CPU. Every process draws the same whole batch, which is a
function of seed and step, and trains on its own rows of it. The loss is the mean over the asked positions of the whole
batch, as one process would compute it.
"""

import contextlib
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from bert_core.data.batches import Batch
from bert_core.errors import ConfigError, RunError
from bert_core.training.trainer import Trainer

_AGREE_EVERY = 10  # steps; in between, the processes do not wait for each other to agree on a stop
_TIMEOUT = timedelta(hours=2)  # long enough for the first process to encode a long text


class LostProcess(RunError):
    """Another process of the same training has ended."""


def make_trainer(*args: Any, **options: Any) -> Trainer:
    return (DistributedTrainer if dist.is_initialized() else Trainer)(*args, **options)


def rank() -> int:
    """This process's number. Only the first process, 0, prints and writes files."""
    return dist.get_rank() if dist.is_initialized() else 0


def _local_rank() -> int:
    return int(os.environ["LOCAL_RANK"])


@contextlib.contextmanager
def joined(device: str) -> Iterator[None]:
    """Join the other processes, if torchrun has started this one: over NCCL on GPUs, otherwise over Gloo. Raises
    ConfigError where this process has no device of its own."""
    if not dist.is_torchelastic_launched():
        yield
        return
    if device not in ("cpu", "cuda"):
        raise ConfigError(f"Several processes train on cpu, or on cuda with a GPU for each, and not on {device}.")
    if device == "cuda":
        if (there := torch.cuda.device_count()) <= _local_rank():
            raise ConfigError(
                f"This machine has too few GPUs for {os.environ['LOCAL_WORLD_SIZE']} processes: {there}. Start fewer "
                "with --nproc-per-node, or choose --device cpu."
            )
        torch.cuda.set_device(_local_rank())
    own = torch.device("cuda", _local_rank()) if device == "cuda" else None  # else NCCL guesses it
    dist.init_process_group("nccl" if device == "cuda" else "gloo", timeout=_TIMEOUT, device_id=own)
    try:
        yield
    finally:
        # If another process has ended, leaving the group may fail too.
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()


@contextlib.contextmanager
def first_on_each_machine() -> Iterator[None]:
    """Run the block in one process of each machine first; the others then find its files."""
    if dist.is_initialized() and _local_rank() > 0:
        dist.barrier()
    yield
    if dist.is_initialized() and _local_rank() == 0:
        dist.barrier()


def any_wants_to_stop(wish: bool, step: int) -> bool:
    """Whether this or another process wants to stop; all get the same answer, and so stop after the same step."""
    if not dist.is_initialized():
        return wish
    if step % _AGREE_EVERY:
        return False
    wishes = torch.tensor(float(wish), device="cuda" if dist.get_backend() == "nccl" else "cpu")
    with _together():
        dist.all_reduce(wishes)
        return wishes.item() > 0


@contextlib.contextmanager
def _together() -> Iterator[None]:
    """Raise LostProcess when communication fails: in most cases, another process has ended."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0].split(". ")[0]
        raise LostProcess(f"Another process of this training has ended ({reason}).") from None


def own_rows(batch: Batch, number: int, size: int) -> Batch:
    """Every size-th row of a batch, from row `number` on, trimmed to the longest of them."""
    T = int(batch.attention_mask[number::size].sum(1).max())
    rows = {name: part[number::size] for name, part in vars(batch).items()}
    return Batch(**{name: part if part.ndim == 1 else part[:, :T] for name, part in rows.items()})


class DistributedTrainer(Trainer):
    """The trainer of one of several processes, whose weights and states stay equal, with metrics of the whole batch.

    Raises LostProcess when another process ends; the state is then that of the last complete step. Raises ConfigError
    when a batch has fewer rows than there are processes.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.threads = max(1, self.threads // int(os.environ["LOCAL_WORLD_SIZE"]))
        size = dist.get_world_size()
        rows = len(self.batches[0].next_sentence_label)
        if rows < size:
            raise ConfigError(
                f"A batch of {rows} pairs is too small for {size} processes; set data.batch_size to {size} or more."
            )
        self._shared = DistributedDataParallel(self.model)

    @property
    def _dropout_seed(self) -> int:
        return super()._dropout_seed ^ dist.get_rank()  # a mask of its own for each process

    def _backward(self, batch: Batch) -> Tensor:
        size = dist.get_world_size()
        own = own_rows(batch, dist.get_rank(), size)
        with _together():
            with self._autocast():
                sums, counts = self.objective.run(self._shared, own, self.device)
            dist.all_reduce(counts)
            # DistributedDataParallel divides the sum of the gradients by `size`.
            (size * self.objective.loss(sums / counts, self.config, self.step)).backward()
            sums = sums.detach()
            dist.all_reduce(sums)
        return sums / counts
