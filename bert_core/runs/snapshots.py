"""Snapshots of a run's weights, and which of them are least useful."""

import functools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor

from bert_core.config import BertConfig
from bert_core.model import BertForPreTraining, draw
from bert_core.storage.checkpoint import Checkpoint, TaskHead
from bert_core.storage.weights import PARTS

MAX_SNAPSHOTS = 40  # of one run


@dataclass(frozen=True, eq=False, repr=False)
class Snapshot:
    """A run's weights after a step, by the names of the model's parameters; they must not change."""

    step: int
    weights: Mapping[str, Tensor]
    config: BertConfig
    tokenizer: Tokenizer
    name: str
    recipe: Mapping[str, object]
    head: TaskHead | None = None

    @functools.cached_property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.weights.values())

    def checkpoint(self) -> Checkpoint:
        """A new model in eval mode, which shares the memory of the weights."""
        with torch.device("meta"):
            model = BertForPreTraining(self.config).eval()
        head, missing, weights = self.head, frozenset[str](), dict(self.weights)
        if head is not None:
            head.add_to(model)
            missing = head.never
            generator, device = torch.Generator().manual_seed(0), next(iter(weights.values())).device
            for name, parameter in model.named_parameters():
                if name.startswith(tuple(PARTS[part] for part in missing)):
                    weights[name] = draw(name, parameter.shape, self.config, generator).to(device)
        model.load_state_dict(weights, assign=True)
        return Checkpoint(model.requires_grad_(False), self.tokenizer, self.name, (), missing, self.recipe, head)


def least_useful(snapshots: Sequence[Snapshot], staying: Container[int | None] = ()) -> tuple[float, Snapshot] | None:
    """The snapshot whose neighbours are closest to each other, and the ratio of the neighbours' steps; None where the
    first and the newest one and those of the steps `staying` are all that is left."""
    neighbours = zip(snapshots, snapshots[1:], snapshots[2:])
    ratios = [((after.step + 1) / (before.step + 1), each) for before, each, after in neighbours]
    return min((found for found in ratios if found[1].step not in staying), key=lambda found: found[0], default=None)


def thinned(snapshots: Sequence[Snapshot], staying: Container[int | None] = ()) -> tuple[Snapshot, ...]:
    """At most MAX_SNAPSHOTS of one run, dense at the start. staying: steps whose snapshots are not dropped."""
    kept = list(snapshots)
    while len(kept) > MAX_SNAPSHOTS and (least := least_useful(kept, staying)):
        kept.remove(least[1])
    return tuple(kept)
