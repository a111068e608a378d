"""Which rows of a padded batch are computed: the speed beside the plain path of `bert_core.model`.

Shapes: B batch, T tokens of the longest row, N rows that are kept, C any width. Positions are counted through the
whole batch, 0 to B * T - 1.

The model calls the same four methods in every case. `AllRows` is the plain path, in which they do nothing. `Packing`
leaves padding out of everything but attention: in a batch of sentence pairs a third to a half of the B * T positions
is padding. `Only` lets the last layer compute only the positions that something reads.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a CPU tensor to a device; with CUDA, without waiting for the work that the GPU still does."""
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class AllRows:
    """The plain path: hidden states are (B, T, C) everywhere."""

    def pack(self, padded: Tensor) -> Tensor:
        """The rows that are computed, of a (B, T) or (B, T, C) tensor."""
        return padded

    def unpack(self, packed: Tensor) -> Tensor:
        """Back to (B, T, C), for attention."""
        return packed

    def at(self, packed: Tensor, positions: Tensor) -> Tensor:
        """The vectors at (M,) positions, (M, C)."""
        return packed.flatten(0, 1).index_select(0, positions)

    def residual(self, packed: Tensor) -> Tensor:
        """What is added to the output of attention."""
        return packed

    def position_vectors(self, table: Tensor) -> Tensor:
        """The position vector of each row, from a (T, C) table."""
        return table


@dataclass(frozen=True)
class Packing(AllRows):
    """Only the real tokens: hidden states are (N, C).

    shape: (B, T). real: (N,) positions of the real tokens, in order. number: (B * T,) for each position its number
    among the real ones; for padding, that of the real token before it.
    """

    shape: tuple[int, int]
    real: Tensor
    number: Tensor

    @classmethod
    def of(cls, attention_mask: Tensor, device: torch.device | str = "cpu") -> "Packing":
        """The packing of a (B, T) mask that is 1 at real tokens, each row's first among them.

        Pass the mask on the CPU: its real tokens are counted there without a wait for the device.
        """
        flat = attention_mask.flatten().bool()
        B, T = attention_mask.shape
        return cls((B, T), send(flat.nonzero().squeeze(1), device), send(flat.cumsum(0) - 1, device))

    def pack(self, padded: Tensor) -> Tensor:
        return padded.flatten(0, 1).index_select(0, self.real)

    def unpack(self, packed: Tensor) -> Tensor:
        # Padding gets a copy of some real token, which the attention mask hides.
        return packed.index_select(0, self.number).view(*self.shape, -1)

    def at(self, packed: Tensor, positions: Tensor) -> Tensor:
        return packed.index_select(0, self.number[positions])

    def position_vectors(self, table: Tensor) -> Tensor:
        return F.embedding(self.real % self.shape[1], table)


@dataclass(frozen=True)
class Only(AllRows):
    """In the last layer: attention reads `rows`, and everything after it is computed at (M,) `positions` alone."""

    rows: AllRows
    positions: Tensor

    def pack(self, padded: Tensor) -> Tensor:
        return padded.flatten(0, 1).index_select(0, self.positions)

    def unpack(self, packed: Tensor) -> Tensor:
        return self.rows.unpack(packed)

    def residual(self, packed: Tensor) -> Tensor:
        return self.rows.at(packed, self.positions)


ALL_ROWS = AllRows()
