"""How the model leaves out padding: in a batch of sentence pairs, a third to a half of the positions is padding.

Shapes: B batch, T tokens of the longest row, N computed positions, C any width. Positions are counted through the whole
batch, 0 to B * T - 1.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a CPU tensor to a device; with CUDA, without waiting for the GPU's queued work."""
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@dataclass(frozen=True)
class Packing:
    """The positions of a batch that the model computes, everywhere but in attention.

    shape: (B, T). real: (N,) the computed positions in order; None means all. number: (B * T,) the index in `real` of
    each position; for padding, that of the real token before it.
    """

    shape: tuple[int, int]
    real: Tensor | None = None
    number: Tensor | None = None

    @classmethod
    def of(cls, attention_mask: Tensor, device: torch.device | str = "cpu") -> "Packing":
        """The packing of a (B, T) mask on the CPU: 1 at real tokens, with which each row begins, and 0 at padding."""
        B, T = attention_mask.shape
        flat = attention_mask.flatten().bool()
        if flat.all():
            return cls((B, T))
        return cls((B, T), send(flat.nonzero().squeeze(1), device), send(flat.cumsum(0) - 1, device))

    def pack(self, padded: Tensor) -> Tensor:
        """The computed positions, (N, C), of a (B, T, C) tensor; of a (B, T) tensor (N,)."""
        flat = padded.flatten(0, 1)
        return flat if self.real is None else flat.index_select(0, self.real)

    def unpack(self, packed: Tensor) -> Tensor:
        """An (N, C) tensor as (B, T, C); padding gets a copy of a real token, which the attention mask hides."""
        flat = packed if self.number is None else packed.index_select(0, self.number)
        return flat.view(*self.shape, -1)

    def index(self, positions: Tensor) -> Tensor:
        """Where the vectors of these positions are in a packed tensor."""
        return positions if self.number is None else self.number[positions]
