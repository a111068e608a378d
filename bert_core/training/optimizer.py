"""From gradients to new weights: AdamW, Adam, Adadelta and Muon, and the learning-rate schedule.

The updates are PyTorch's functions and not its classes, the first of which imports PyTorch's compiler for seconds.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adadelta import adadelta
from torch.optim.adam import adam

from bert_core.config import OptimizerConfig, TrainingPart

_MUON_MOMENTUM, _MUON_SCALE = 0.95, 0.2  # the scale gives an update the size that one of AdamW has
_CLIPPING_KERNELS = ("cpu", "cuda")  # the fused update of other devices, such as MPS, ignores both scale and skip
_NEWTON_SCHULZ, _NEWTON_SCHULZ_STEPS = (3.4445, -4.7750, 2.0315), 5

# An update moves the weights of one group. tensors: lists of the weights, their gradients, both running averages, and
# their numbers of updates. scale: divides the gradients; None means 1. skip: 1.0 to ignore the gradients, else 0.0.
Tensors = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor], list[Tensor]]
Update = Callable[[OptimizerConfig, Tensors, float, float, Tensor | None, Tensor], None]


def _adam(config: OptimizerConfig, tensors: Tensors, rate, weight_decay, scale, skip) -> None:
    weights, gradients, first, second, counts = tensors
    if weights[0].device.type not in _CLIPPING_KERNELS:
        _scale(gradients, scale, skip)
        scale = skip = None
    # The kernel divides by the scale and changes nothing if found_inf is 1, so that clipping needs neither its own pass
    # over the gradients nor a wait for the device.
    settings: Any = {"beta1": config.beta1, "beta2": config.beta2, "eps": 1e-8, "amsgrad": False, "maximize": False}
    settings |= {"fused": True, "grad_scale": scale, "found_inf": skip}
    settings |= {"lr": rate, "weight_decay": weight_decay, "decoupled_weight_decay": config.optimizer != "adam"}
    adam(weights, gradients, first, second, [], counts, **settings)


def _scale(gradients: Sequence[Tensor], scale: Tensor | float | None, skip: Tensor) -> None:
    """Divide gradients in place, and clear those to ignore: such an update still decays weights and averages."""
    for gradient in gradients:
        if scale is not None:
            gradient.div_(scale)
        gradient.masked_fill_(skip.bool(), 0.0)


def _adadelta(config: OptimizerConfig, tensors: Tensors, rate, weight_decay, scale, skip) -> None:
    _scale(tensors[1], scale, skip)
    adadelta(*tensors, lr=rate, rho=0.9, eps=1e-6, weight_decay=weight_decay, maximize=False)


def orthogonalized(matrix: Tensor) -> Tensor:
    """U V^T of a matrix U S V^T, nearly: its singular values become 0.7 to 1.2, in a few matrix products.

    Newton-Schulz iteration with the coefficients of Jordan et al. (2024). Every iterate is a polynomial of X X^T times
    X, so all products but the first and the last are of the smaller side.
    """
    x = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
    x = x / x.norm().clamp(min=1e-7)
    gram = x @ x.mT
    factor = step = _newton_schulz(gram)
    for _ in range(_NEWTON_SCHULZ_STEPS - 1):
        gram = step @ gram @ step
        step = _newton_schulz(gram)
        factor = factor @ step
    x = factor @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.mT


def _newton_schulz(gram: Tensor) -> Tensor:
    a, b, c = _NEWTON_SCHULZ
    step = torch.addmm(gram, gram, gram, beta=b, alpha=c)
    step.diagonal().add_(a)
    return step


def _muon(config: OptimizerConfig, tensors: Tensors, rate, weight_decay, scale, skip) -> None:
    weights, gradients, momenta, _, _ = tensors
    _scale(gradients, scale, skip)
    for weight, gradient, momentum in zip(weights, gradients, momenta):
        momentum.lerp_(gradient, 1 - _MUON_MOMENTUM)
        update = orthogonalized(gradient.lerp(momentum, _MUON_MOMENTUM))
        weight.mul_(1 - rate * weight_decay).sub_(update * (rate * _MUON_SCALE * max(weight.shape) ** 0.5))


class Optimizer:
    """AdamW, Adam or Adadelta over all parameters of a model, or Muon over the matrices of its layers and AdamW over
    the others. Biases and LayerNorm have no weight decay.

    parameters: their names and tensors. averages: the running averages by name, a tensor for each parameter. updates:
    steps taken so far.
    """

    def __init__(self, parameters: Iterable[tuple[str, Tensor]], config: OptimizerConfig) -> None:
        self.config = config
        names, weights = zip(*parameters)
        is_adadelta = config.optimizer == "adadelta"
        kinds = ("square_avg", "acc_delta") if is_adadelta else ("exp_avg", "exp_avg_sq")  # PyTorch's names
        self.averages = {kind: [torch.zeros_like(weight) for weight in weights] for kind in kinds}
        self._counts = [torch.zeros((), device=weight.device) for weight in weights]
        self._rows = list(zip(weights, *self.averages.values(), self._counts))
        usual = _adadelta if is_adadelta else _adam
        of_layers = _muon if config.optimizer == "muon" else usual
        # For each parameter, whether it is a matrix, and its update.
        updates = (of_layers if ".encoder." in name and each.ndim >= 2 else usual for name, each in zip(names, weights))
        self._groups = [(weight.ndim >= 2, update) for weight, update in zip(weights, updates)]

    @property
    def updates(self) -> int:
        return int(max(self._counts))

    @updates.setter
    def updates(self, number: int) -> None:
        for count in self._counts:
            count.fill_(number)

    @torch.no_grad()
    def step(
        self, gradients: Sequence[Tensor | None], learning_rate: float, scale: Tensor | None, skip: Tensor
    ) -> None:
        """Update the weights by their gradients, which come in the order of the parameters.

        Parameters without a gradient do not change. scale: () divides the gradients; None means 1. skip: () whether to
        ignore the gradients; on the CPU and CUDA, Adam and AdamW then change nothing. Both stay on the device.
        """
        groups: dict[tuple[bool, Update], list[tuple[Tensor, ...]]] = {}
        for key, (weight, *state), gradient in zip(self._groups, self._rows, gradients):
            if gradient is not None:
                groups.setdefault(key, []).append((weight, gradient, *state))
        for (is_matrix, update), group in groups.items():
            weights, given, first, second, counts = map(list, zip(*group))
            weight_decay = self.config.weight_decay if is_matrix else 0.0
            tensors = weights, given, first, second, counts
            update(self.config, tensors, learning_rate, weight_decay, scale, skip.float())


def learning_rate_at(step: int, config: OptimizerConfig) -> float:
    """The learning rate of a step, counted from 0, by the part of the training that contains the step."""
    for part in reversed(config.parts):
        if part.start <= step:
            return part.learning_rate * schedule(step - part.start, part)
    return config.learning_rate * schedule(step, config)


def schedule(step: int, config: OptimizerConfig | TrainingPart) -> float:
    """The fraction of the peak learning rate at a step, counted from 0: linear warm-up, from 1 / warmup_steps, then
    linear decay to a last step above 0 (Devlin et al. 2018, A.2), or none."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if config.decay == "none":
        return 1.0
    return max(0.0, (config.steps - step) / max(1, config.steps - config.warmup_steps))
