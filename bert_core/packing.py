"""Padding that costs nothing: between the attentions a batch is a list of its real tokens.

Shapes: B batch, T tokens of the longest row, N real tokens of the batch, C any width. In a batch of sentence pairs a
third to a half of the B * T positions is padding; every matrix product but those of the attention skips it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """A tensor of the CPU on a device; with CUDA without a wait for what the GPU still does."""
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@dataclass(frozen=True)
class Packing:
    """Where the real tokens of a padded batch stand.

    shape: (B, T). real: (N,) places of the real tokens among all B * T, in order. number: (B * T,) for each place its
    number among the real ones; for padding, that of the real token before it.
    """

    shape: tuple[int, int]
    real: Tensor
    number: Tensor

    @classmethod
    def of(cls, attention_mask: Tensor, device: torch.device | str = "cpu") -> "Packing":
        """The packing of a (B, T) mask that is 1 at real tokens, each row's first among them.

        The mask is best on the CPU, where its real tokens are counted without a wait for the device.
        """
        flat = attention_mask.flatten().bool()
        number = flat.cumsum(0) - 1
        return cls(tuple(attention_mask.shape), send(flat.nonzero().squeeze(1), device), send(number, device))

    def pack(self, padded: Tensor) -> Tensor:
        """The rows of the real tokens: (B, T, C) to (N, C)."""
        return padded.flatten(0, 1).index_select(0, self.real)

    def unpack(self, packed: Tensor) -> Tensor:
        """Every token at its place: (N, C) to (B, T, C). At padding stands some real token, for a mask to hide."""
        return packed.index_select(0, self.number).view(*self.shape, -1)
