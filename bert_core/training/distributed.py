"""Training on several processes that torchrun starts, one for each GPU or several on a CPU, on one machine or more.

Every process draws the same whole batch, a function of seed and step, and runs its own rows of it in PyTorch's
DistributedDataParallel. The loss is the mean over the asked positions of the whole batch, as of one process."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bert_core.data.batches import Batch
from bert_core.device import choose_device
from bert_core.errors import ConfigError
from bert_core.training.objective import Fractions
from bert_core.training.trainer import Trainer

_AGREE_EVERY = 10  # steps; in between, the processes do not wait for each other to agree on a stop


def rank() -> int:
    """This process's number. Only the first process, 0, prints and writes files."""
    return dist.get_rank() if dist.is_initialized() else 0


@contextlib.contextmanager
def joined(device: str) -> Iterator[None]:
    """Join the other processes, if torchrun has started this one: over NCCL on "cuda", with a GPU for each, otherwise
    over Gloo. Raises ConfigError where this process has no GPU of its own."""
    if not dist.is_torchelastic_launched():
        yield
        return
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if device == "cuda" else None
    if own:
        torch.cuda.set_device(choose_device(str(own)))
    dist.init_process_group("nccl" if own else "gloo", device_id=own)  # without it, NCCL guesses the GPU
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
    dist.all_reduce(wishes)
    return wishes.item() > 0


def own_rows(batch: Batch, number: int, size: int) -> Batch:
    """Every size-th row of a batch, from row `number` on, trimmed to the longest of them."""
    T = int(batch.attention_mask[number::size].sum(1).max())
    rows = {name: part[number::size] for name, part in vars(batch).items()}
    return Batch(**{name: part if part.ndim == 1 else part[:, :T] for name, part in rows.items()})


class DistributedTrainer(Trainer):
    """The trainer of one of several processes, whose weights and states stay equal. Raises ConfigError when a batch has
    fewer rows than there are processes."""

    def __init__(self, model: Any, batches: Any, config: Any, *, seed: int, **more: Any) -> None:
        super().__init__(model, batches, config, seed=seed + dist.get_rank(), **more)  # with dropout of its own
        if (rows := len(batches[0].next_sentence_label)) < (size := dist.get_world_size()):
            raise ConfigError(
                f"A batch of {rows} pairs is too small for {size} processes; set data.batch_size to {size} or more."
            )
        self.threads = max(1, self.threads // int(os.environ["LOCAL_WORLD_SIZE"]))
        self._shared = DistributedDataParallel(model)

    def _run(self, batch: Batch) -> Fractions:
        size = dist.get_world_size()
        sums, counts = self.objective.run(self._shared, own_rows(batch, dist.get_rank(), size), self.device)
        whole = torch.stack([sums.detach(), counts])
        dist.all_reduce(whole)
        # The values of all rows with the gradients of the own ones, which DistributedDataParallel averages.
        return whole[0] + size * (sums - sums.detach()), whole[1]
