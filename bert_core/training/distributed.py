"""Training on several processes or machines: PyTorch's DistributedDataParallel around the same step.

torchrun starts a process for each GPU, or several on processors. Every process draws the same global batch, which is a
function of seed and step, and reads its own rows of it. So all of them know without asking how many words are asked
for in the whole batch, and the loss is the mean over these: what one process would compute.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bert_core.config import TrainingConfig
from bert_core.data.batches import Batch
from bert_core.errors import ConfigError, RunError
from bert_core.packing import send
from bert_core.training.cuda_graphs import CapturedTrainer
from bert_core.training.losses import PlacedBatch, kinds_asked, pretraining_losses, weighted_loss
from bert_core.training.trainer import Trainer

_AGREED_EVERY = 10  # steps; between two of them no process waits for another's wish to stop
_PATIENCE = timedelta(hours=2)  # while the first process encodes a long text


class LostProcess(RunError):
    """Another process of the same training has ended."""


def make_trainer(*args: Any, threads: int, recorded: bool = False, **options: Any) -> Trainer:
    """A `Trainer`, or where there are other processes one that works with theirs; they share the processor threads.

    recorded: whether the steps of a single process are recorded.
    """
    if not dist.is_initialized():
        return (CapturedTrainer if recorded else Trainer)(*args, threads=threads, **options)
    return DistributedTrainer(*args, threads=max(1, threads // int(os.environ["LOCAL_WORLD_SIZE"])), **options)


def rank() -> int:
    """This process's number; the first one, 0, shows and writes what there is to show and write."""
    return dist.get_rank() if dist.is_initialized() else 0


@contextlib.contextmanager
def joined(device: str) -> Iterator[None]:
    """Join the other processes, if torchrun has started this one: over NCCL on GPUs, else over Gloo."""
    if not dist.is_torchelastic_launched():
        yield
        return
    if device == "cuda":
        torch.cuda.set_device(_local_rank())
    dist.init_process_group("nccl" if device == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield
    finally:
        # Where another process has ended, leaving it may fail too.
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()


def _local_rank() -> int:
    return int(os.environ["LOCAL_RANK"])


@contextlib.contextmanager
def first_on_each_machine() -> Iterator[None]:
    """One process of a machine goes through the block before the others, which find the files that it left."""
    if dist.is_initialized() and _local_rank() > 0:
        dist.barrier()
    yield
    if dist.is_initialized() and _local_rank() == 0:
        dist.barrier()


def any_wants(wish: bool, step: int) -> bool:
    """Whether this or another process has a wish, so that all of them stop after the same step."""
    if not dist.is_initialized():
        return wish
    if step % _AGREED_EVERY:
        return False
    wishes = torch.tensor(float(wish), device="cuda" if dist.get_backend() == "nccl" else "cpu")
    with _together():
        dist.all_reduce(wishes)
        return wishes.item() > 0


@contextlib.contextmanager
def _together() -> Iterator[None]:
    """What goes wrong in a work of all processes is said in a sentence: mostly, that one of them is gone."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0].split(". ")[0]
        raise LostProcess(f"Another process of this training has ended ({reason}).") from None


def own_rows(batch: Batch, number: int, size: int) -> Batch:
    """Every size-th row of a batch, from row `number` on, trimmed to the longest of them."""
    T = int(batch.attention_mask[number::size].sum(1).max())
    matrices = (batch.input_ids, batch.token_type_ids, batch.attention_mask, batch.labels)
    return Batch(*(matrix[number::size, :T] for matrix in matrices), batch.next_sentence_label[number::size])


class DistributedTrainer(Trainer):
    """A trainer for each of the processes; their models and states stay the same.

    Its steps give the metrics of the whole batch. `LostProcess` is raised when another process ends; the state is then
    that of the last whole step. Raises ConfigError when a batch has fewer rows than there are processes.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        size = dist.get_world_size()
        rows = len(self.batches[0].next_sentence_label)
        if rows < size:
            raise ConfigError(
                f"A batch of {rows} pairs cannot be shared by {size} processes; set data.batch_size to {size} or more."
            )
        # With alternating objectives, the head of the other one has no gradient.
        self._objective = DistributedDataParallel(
            _Objective(self.model, self.mask_token_id), find_unused_parameters=self.config.alternating
        )

    def _backward(self, batch: Batch, turn: int) -> tuple[Sequence[Tensor], Tensor]:
        if self._has_dropout:  # other processes drop other numbers
            torch.manual_seed(torch.initial_seed() ^ dist.get_rank())
        with _together():
            with self._autocast():
                loss, measures = self._objective(batch, self.config, turn)
            loss.backward()
            dist.all_reduce(measures)
        return measures[:4].unbind(), measures[4:]


class _Objective(nn.Module):
    """This process's part of the loss, so that the mean over processes is the mean over the whole batch."""

    def __init__(self, model: nn.Module, mask_token_id: int | None) -> None:
        super().__init__()
        self.model, self.mask_token_id = model, mask_token_id

    def forward(self, batch: Batch, config: TrainingConfig, turn: int) -> tuple[Tensor, Tensor]:
        """The loss, and this process's part of the measures, which are their sum over all processes."""
        size = dist.get_world_size()
        own = PlacedBatch.of(own_rows(batch, dist.get_rank(), size), self.model.device)
        mlm_loss, nsp_loss, *accuracies, right = pretraining_losses(self.model, own)
        places, truth = batch.asked()
        shares = len(own.truth) / len(truth), len(own.input_ids) / len(batch.input_ids)
        losses = mlm_loss * shares[0], nsp_loss * shares[1]
        in_all = kinds_asked(batch.input_ids.flatten()[places], truth, self.mask_token_id).sum(1)
        by_kind = kinds_asked(own.shown, own.truth, self.mask_token_id) @ right / send(in_all, right.device)
        means = [each.detach() for each in losses] + [each * share for each, share in zip(accuracies, shares)]
        # DistributedDataParallel takes the mean of the processes' gradients.
        loss = size * weighted_loss(*losses, config, turn)
        return loss, torch.cat([torch.stack(means), by_kind])
