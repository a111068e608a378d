"""How the model skips positions that nothing reads: padding and, in the last layer, all but the asked positions.

Shapes: B batch, T tokens of the longest row, N real tokens, M positions, C any width. Positions are counted through the
whole batch, 0 to B * T - 1.

The model always calls the same five methods. `AllRows` computes every position. `Packing` leaves padding out of
everything but attention: in a batch of sentence pairs, a third to a half of the positions is padding. `OnlyAt` limits
the last layer to some positions.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a CPU tensor to a device; with CUDA, without waiting for the GPU's queued work."""
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class AllRows:
    """Every position is computed: hidden states are (B, T, C) everywhere."""

    def pack(self, padded: Tensor) -> Tensor:
        """The part of a (B, T) or (B, T, C) tensor that is computed."""
        return padded

    def unpack(self, packed: Tensor) -> Tensor:
        """A packed tensor as (B, T, C), for attention."""
        return packed

    def at(self, packed: Tensor, positions: Tensor) -> Tensor:
        """The vectors at (M,) positions, (M, C)."""
        return packed.flatten(0, 1).index_select(0, positions)

    def residual(self, packed: Tensor) -> Tensor:
        """The residual of attention: its input, at the positions of its output."""
        return packed

    def position_vectors(self, table: Tensor) -> Tensor:
        """The position vectors of packed tokens, from a (T, C) table."""
        return table


@dataclass(frozen=True)
class Packing(AllRows):
    """Only the real tokens are computed: hidden states are (N, C).

    shape: (B, T). real: (N,) positions of the real tokens, in order. number: (B * T,) index of each position in `real`;
    for padding, that of the real token before it.
    """

    shape: tuple[int, int]
    real: Tensor
    number: Tensor

    @classmethod
    def of(cls, attention_mask: Tensor, device: torch.device | str = "cpu") -> "Packing":
        """The packing of a (B, T) mask on the CPU: 1 at real tokens, with which each row begins, and 0 at padding."""
        flat = attention_mask.flatten().bool()
        B, T = attention_mask.shape
        return cls((B, T), send(flat.nonzero().squeeze(1), device), send(flat.cumsum(0) - 1, device))

    def pack(self, padded: Tensor) -> Tensor:
        return padded.flatten(0, 1).index_select(0, self.real)

    def unpack(self, packed: Tensor) -> Tensor:
        # Padding gets a copy of a real token, which the attention mask hides.
        return packed.index_select(0, self.number).view(*self.shape, -1)

    def at(self, packed: Tensor, positions: Tensor) -> Tensor:
        return packed.index_select(0, self.number[positions])

    def position_vectors(self, table: Tensor) -> Tensor:
        return F.embedding(self.real % self.shape[1], table)


@dataclass(frozen=True)
class OnlyAt(AllRows):
    """In the last layer, attention reads `rows`, and everything after it is computed only at (M,) `positions`."""

    rows: AllRows
    positions: Tensor

    def pack(self, padded: Tensor) -> Tensor:
        return padded.flatten(0, 1).index_select(0, self.positions)

    def unpack(self, packed: Tensor) -> Tensor:
        return self.rows.unpack(packed)

    def residual(self, packed: Tensor) -> Tensor:
        return self.rows.at(packed, self.positions)


ALL_ROWS = AllRows()
