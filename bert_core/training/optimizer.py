"""From gradients to new weights: AdamW, Adam, Adadelta and Muon, and the learning-rate schedule.

The updates are PyTorch's functions and not its classes: making the first of those imports PyTorch's compiler, which
takes as long as PyTorch itself."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adadelta import adadelta
from torch.optim.adam import adam

from bert_core.config import OptimizerConfig, Schedule

_MUON_MOMENTUM, _MUON_SCALE = 0.95, 0.2  # the scale gives an update the size that one of AdamW has

# Of weights that are updated together: they, their gradients, both running averages, and their numbers of updates.
_Columns = Sequence[list[Tensor]]


class Optimizer:
    """AdamW, Adam or Adadelta over all parameters of a model, or Muon over the matrices of its layers and AdamW over
    the others. Biases and LayerNorm have no weight decay.

    parameters: with their names. config: of the next update; its `optimizer` stays. averages: by PyTorch's names, one
    for each parameter. counts: of the updates of each."""

    def __init__(self, parameters: Iterable[tuple[str, Tensor]], config: OptimizerConfig) -> None:
        self.config = config
        names, self._weights = zip(*parameters)
        is_adadelta = config.optimizer == "adadelta"
        kinds = ("square_avg", "acc_delta") if is_adadelta else ("exp_avg", "exp_avg_sq")
        self.averages = {kind: [torch.zeros_like(weight) for weight in self._weights] for kind in kinds}
        self.counts = [torch.zeros((), device=weight.device) for weight in self._weights]
        usual = self._adadelta if is_adadelta else self._adam
        of_layers = self._muon if config.optimizer == "muon" else usual
        # The numbers of the parameters that are updated together: whether they are matrices, and how.
        self._groups: dict[tuple[bool, Callable[..., Any]], list[int]] = {}
        for i, (name, weight) in enumerate(zip(names, self._weights)):
            is_matrix = weight.ndim >= 2
            update = of_layers if ".encoder." in name and is_matrix else usual
            self._groups.setdefault((is_matrix, update), []).append(i)

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | None], rate: float, scale: Tensor | None, skip: Tensor) -> None:
        """Update the weights by their gradients, which come in the order of the parameters, at a learning rate.

        Parameters without a gradient do not change. scale: () divides the gradients; None means 1. skip: () whether to
        ignore the gradients; Adam and AdamW then change nothing. Both stay on the device."""
        columns: Any = (self._weights, gradients, *self.averages.values(), self.counts)
        for (is_matrix, update), numbers in self._groups.items():
            own = [[column[i] for i in numbers if gradients[i] is not None] for column in columns]
            if own[0]:
                update(own, rate, self.config.weight_decay if is_matrix else 0.0, scale, skip.float())

    def _adam(self, columns: _Columns, rate: float, decay: float, scale: Tensor | None, skip: Tensor) -> None:
        weights, gradients, first, second, counts = columns
        # The kernel divides by the scale and changes nothing if found_inf is 1, so that clipping needs neither its own
        # pass over the gradients nor a wait for the device.
        settings: dict[str, Any] = {"fused": True, "grad_scale": scale, "found_inf": skip}
        settings |= {"beta1": self.config.beta1, "beta2": self.config.beta2, "eps": 1e-8}
        settings |= {"decoupled_weight_decay": self.config.optimizer != "adam", "amsgrad": False, "maximize": False}
        adam(weights, gradients, first, second, [], counts, lr=rate, weight_decay=decay, **settings)

    def _adadelta(self, columns: _Columns, rate: float, decay: float, scale: Tensor | None, skip: Tensor) -> None:
        weights, gradients, first, second, counts = columns
        _scale(gradients, scale, skip)
        settings: dict[str, Any] = {"rho": 0.9, "eps": 1e-6, "maximize": False}
        adadelta(weights, gradients, first, second, counts, lr=rate, weight_decay=decay, **settings)

    def _muon(self, columns: _Columns, rate: float, decay: float, scale: Tensor | None, skip: Tensor) -> None:
        weights, gradients, momenta, *_ = columns
        _scale(gradients, scale, skip)
        for weight, gradient, momentum in zip(weights, gradients, momenta):
            momentum.lerp_(gradient, 1 - _MUON_MOMENTUM)
            update = orthogonalized(gradient.lerp(momentum, _MUON_MOMENTUM))
            weight.mul_(1 - rate * decay).sub_(update * (rate * _MUON_SCALE * max(weight.shape) ** 0.5))


def _scale(gradients: Sequence[Tensor], scale: Tensor | None, skip: Tensor) -> None:
    """Divide gradients in place, and clear those to ignore: such an update still decays weights and averages."""
    for gradient in gradients:
        if scale is not None:
            gradient.div_(scale)
        gradient.masked_fill_(skip.bool(), 0.0)


def orthogonalized(matrix: Tensor) -> Tensor:
    """U V^T of a matrix U S V^T, nearly, by Newton-Schulz iteration: its singular values become 0.7 to 1.2."""
    a, b, c = 3.4445, -4.7750, 2.0315  # of Jordan et al. (2024)
    is_wide = matrix.shape[0] <= matrix.shape[1]
    x = matrix if is_wide else matrix.mT
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x if is_wide else x.mT


def learning_rate_at(step: int, config: OptimizerConfig) -> float:
    """The learning rate of a step, counted from 0, by the part of the training that contains the step."""
    for part in reversed(config.parts):
        if part.start <= step:
            return part.learning_rate * schedule(step - part.start, part)
    return config.learning_rate * schedule(step, config)


def schedule(step: int, part: Schedule) -> float:
    """The fraction of the peak learning rate at a step, counted from 0: linear warm-up, from 1 / warmup_steps, then
    linear decay to a last step above 0 (Devlin et al. 2018, A.2), or none."""
    if step < part.warmup_steps:
        return (step + 1) / part.warmup_steps
    if part.decay == "none":
        return 1.0
    return max(0.0, (part.steps - step) / max(1, part.steps - part.warmup_steps))
