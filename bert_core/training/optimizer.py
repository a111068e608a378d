"""Gradients become steps: flat weights, AdamW, Adam and Adadelta over them, the schedule of the learning rate."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim.adadelta import adadelta

from bert_core.config import TrainingConfig, TrainingPart

_ALIGNMENT = 16  # float32 numbers; every parameter starts at a multiple of 64 bytes
_AVERAGES = {
    "adamw": ("exp_avg", "exp_avg_sq"),
    "adam": ("exp_avg", "exp_avg_sq"),
    "adadelta": ("square_avg", "acc_delta"),
}


Layout = dict[str, tuple[slice, torch.Size]]  # where in a flat tensor each parameter lies, and its shape


class FlatWeights:
    """A model's parameters as views into one tensor, so that a snapshot of them is one copy."""

    def __init__(self, model: nn.Module) -> None:
        named = dict(model.named_parameters())
        self.layout: Layout = {}
        total = 0
        for name, parameter in named.items():
            self.layout[name] = (slice(total, total + parameter.numel()), parameter.shape)
            total += -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
        first = next(iter(named.values()))
        self.weights = torch.zeros(total, dtype=first.dtype, device=first.device)
        for view, parameter in zip(self.views(self.weights), named.values()):
            view.copy_(parameter.detach())
            parameter.data = view

    def views(self, flat: Tensor) -> list[Tensor]:
        """The parts of a tensor that is laid out like the weights, one for each parameter."""
        return [flat[place].view(shape) for place, shape in self.layout.values()]


def fill_from_flat(model: nn.Module, layout: Layout, weights: Tensor) -> None:
    """Make a model hold `weights`, a copy of a flat tensor with this layout, without copying it again."""
    for name, (place, shape) in layout.items():
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, nn.Parameter(weights[place].view(shape), requires_grad=False))


class Optimizer:
    """AdamW, Adam or Adadelta over all parameters of a model, by the functions at the end of PyTorch's own optimizers.

    The optimizers themselves do the same, but take longer on the way there than the update of a small model does.
    Matrices have weight decay; biases and LayerNorm weights have none.
    averages: what it remembers, each laid out like the weights. updates: how often it has moved them.
    """

    def __init__(self, flat: FlatWeights, config: TrainingConfig) -> None:
        self.config = config
        self.averages = {name: torch.zeros_like(flat.weights) for name in _AVERAGES[config.optimizer]}
        self._counters = torch.zeros(len(flat.layout), device=flat.weights.device)
        rows = list(zip(flat.views(flat.weights), *map(flat.views, self.averages.values()), self._counters.unbind()))
        matrices = [i for i, row in enumerate(rows) if row[0].ndim >= 2]
        vectors = [i for i, row in enumerate(rows) if row[0].ndim < 2]
        self._groups = [(config.weight_decay, matrices), (0.0, vectors)]
        self._rows = rows

    @property
    def updates(self) -> int:
        return int(self._counters.max())

    @updates.setter
    def updates(self, number: int) -> None:
        self._counters.fill_(number)

    @torch.no_grad()
    def step(
        self,
        gradients: Sequence[Tensor | None],
        learning_rate: float | Tensor,
        scale: Tensor | None,
        lost: Tensor,
    ) -> None:
        """Move the weights against the gradients, in the order of the model's parameters.

        A parameter without a gradient stays as it is. scale: what the gradients are divided by. lost: whether they are
        of no use; nothing moves then. Both stay on the device.
        """
        config, found_inf = self.config, lost.float()
        if config.optimizer != "adadelta":
            self._counters += 1 - found_inf
        for weight_decay, members in self._groups:
            members = [i for i in members if gradients[i] is not None]
            weights, first, second, counters = map(list, zip(*(self._rows[i] for i in members)))
            given = [gradients[i] for i in members]
            if config.optimizer == "adadelta":
                for gradient in given:
                    if scale is not None:
                        gradient.div_(scale)
                    gradient.masked_fill_(lost, 0.0)
                adadelta(
                    *(weights, given, first, second, counters),
                    lr=learning_rate,
                    rho=0.9,
                    eps=1e-6,
                    weight_decay=weight_decay,
                    maximize=False,
                )
                continue
            # The fused kernel divides by the scale and does nothing if `found_inf` is 1: no other pass over the
            # gradients and no wait for the device.
            {"adamw": torch._fused_adamw_, "adam": torch._fused_adam_}[config.optimizer](
                *(weights, given, first, second, [], counters),
                lr=learning_rate,
                beta1=config.beta1,
                beta2=config.beta2,
                weight_decay=weight_decay,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
                grad_scale=scale,
                found_inf=found_inf,
            )


def learning_rate_at(step: int, config: TrainingConfig) -> float:
    """The learning rate of a step counted from 0, by the part of the training that the step belongs to."""
    for part in reversed(config.parts):
        if part.start <= step:
            return part.learning_rate * schedule(step - part.start, part)
    return config.learning_rate * schedule(step, config)


def schedule(step: int, config: TrainingConfig | TrainingPart) -> float:
    """Share of the peak learning rate at a step counted from 0: linear warm-up, then linear decay or none.

    The first step already moves (1 / warmup_steps), the last one still does (Devlin et al. 2018, A.2).
    """
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if config.decay == "none":
        return 1.0
    return max(0.0, (config.steps - step) / max(1, config.steps - config.warmup_steps))
