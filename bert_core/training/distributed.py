"""Training on several processes that torchrun starts, one for each GPU or several on a CPU, on one machine or more.

Every process draws the same whole batch, a function of seed and step, and runs its own rows of it in PyTorch's
DistributedDataParallel. The loss is the mean over the asked positions of the whole batch, as of one process.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bert_core.data.batches import Batch
from bert_core.errors import ConfigError, RunError
from bert_core.training.objective import Fractions, Objective, StepRow
from bert_core.training.trainer import Trainer

_AGREE_EVERY = 10  # steps; in between, the processes do not wait for each other to agree on a stop


class LostProcess(RunError):
    """Another process of the same training has ended."""


def rank() -> int:
    """This process's number. Only the first process, 0, prints and writes files."""
    return dist.get_rank() if dist.is_initialized() else 0


@contextlib.contextmanager
def joined(device: str) -> Iterator[None]:
    """Join the other processes, if torchrun has started this one: over NCCL on GPUs, otherwise over Gloo. Raises
    ConfigError where this process has no device of its own."""
    if not dist.is_torchelastic_launched():
        yield
        return
    number, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count() if device == "cuda" else 0
    if device != "cpu" and number >= there:
        raise ConfigError(
            f"Each of several processes needs a GPU of its own on cuda, and {there} can be used as {device}. Start "
            "fewer with --nproc-per-node, or choose --device cpu."
        )
    own = torch.device("cuda", number) if device == "cuda" else None  # else NCCL guesses it
    if own:
        torch.cuda.set_device(own)
    dist.init_process_group("nccl" if own else "gloo", device_id=own)
    try:
        yield
    finally:
        with contextlib.suppress(RuntimeError):  # if another process has ended
            dist.destroy_process_group()


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


class _Shared:
    """An objective whose model runs the own rows of a batch, and whose numbers are those of all rows."""

    def __init__(self, objective: Objective, model: torch.nn.Module) -> None:
        self.names, self.size, self.loss = objective.names, objective.size, objective.loss
        self._objective, self._shared = objective, DistributedDataParallel(model)

    def run(self, _: torch.nn.Module, batch: Batch, device: torch.device) -> Fractions:
        size = dist.get_world_size()
        sums, counts = self._objective.run(self._shared, own_rows(batch, dist.get_rank(), size), device)
        whole = torch.stack([sums.detach(), counts])
        dist.all_reduce(whole)
        # The gradients are those of the own rows: DistributedDataParallel adds them up and divides by `size`.
        return whole[0] + size * (sums - sums.detach()), whole[1]


class DistributedTrainer(Trainer):
    """The trainer of one of several processes, whose weights and states stay equal. Raises LostProcess when another one
    ends, in the state of the last complete step, and ConfigError when a batch has fewer rows than there are processes.
    """

    def __init__(self, model: torch.nn.Module, batches: Any, config: Any, *, seed: int, objective: Objective) -> None:
        super().__init__(model, batches, config, seed=seed + dist.get_rank(), objective=objective)  # its own dropout
        if (rows := len(batches[0].next_sentence_label)) < (size := dist.get_world_size()):
            raise ConfigError(
                f"A batch of {rows} pairs is too small for {size} processes; set data.batch_size to {size} or more."
            )
        self.threads = max(1, self.threads // int(os.environ["LOCAL_WORLD_SIZE"]))
        self.objective = _Shared(objective, model)

    def __next__(self) -> StepRow:
        with _together():
            return super().__next__()
