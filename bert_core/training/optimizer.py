"""From gradients to new weights: AdamW, Adam, Adadelta and Muon over flat weights, and the learning-rate schedule.

The updates call the same functions as PyTorch's own optimizers. `torch.optim.AdamW(fused=True)` computes the same, but
takes three times as long for a small model, and imports PyTorch's compiler, which takes seconds.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim.adadelta import adadelta

from bert_core.config import OptimizerConfig, TrainingPart

_MUON_MOMENTUM, _MUON_SCALE = 0.95, 0.2  # the scale gives an update the size that one of AdamW has
_NEWTON_SCHULZ, _NEWTON_SCHULZ_STEPS = (3.4445, -4.7750, 2.0315), 5
_ALIGNMENT = 16  # float32 numbers; every parameter starts at a multiple of 64 bytes

Layout = dict[str, tuple[slice, torch.Size]]  # each parameter's part of a flat tensor, and its shape


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

    def copied_to(self, device: str) -> Tensor:
        """A copy of the weights on a device."""
        return self.weights.to(device, copy=True)

    def views(self, flat: Tensor) -> list[Tensor]:
        """The parts of a tensor with the layout of the weights, one for each parameter."""
        return [flat[part].view(shape) for part, shape in self.layout.values()]


def fill_from_flat(model: nn.Module, layout: Layout, weights: Tensor) -> None:
    """Set a model's parameters to views of `weights`, a flat tensor with this layout."""
    set_parameters(model, {name: weights[part].view(shape) for name, (part, shape) in layout.items()})


def set_parameters(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Replace a model's parameters by these tensors, without copying them."""
    for name, tensor in tensors.items():
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, nn.Parameter(tensor, requires_grad=False))


# An update moves the weights of one group. tensors: lists of the weights, their gradients, both running averages, and
# their numbers of updates. scale: divides the gradients; None means 1. skip: 1.0 to ignore the gradients, else 0.0.
Tensors = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor], list[Tensor]]
Update = Callable[[OptimizerConfig, Tensors, float | Tensor, float, Tensor | None, Tensor], None]


def _adam(kernel: Callable[..., None]) -> Update:
    def update(config: OptimizerConfig, tensors: Tensors, rate, weight_decay, scale, skip) -> None:
        *lists, counts = tensors
        # The kernel divides by the scale and changes nothing if found_inf is 1, so that clipping needs neither its own
        # pass over the gradients nor a wait for the device.
        options = {"amsgrad": False, "eps": 1e-8, "maximize": False, "grad_scale": scale, "found_inf": skip}
        betas = {"beta1": config.beta1, "beta2": config.beta2}
        kernel(*lists, [], counts, lr=rate, weight_decay=weight_decay, **betas, **options)

    return update


def _scale(gradients: Sequence[Tensor], scale: Tensor | float | None, skip: Tensor) -> None:
    """Divide gradients in place, and clear those to ignore: such an update still decays weights and averages."""
    for gradient in gradients:
        if scale is not None:
            gradient.div_(scale)
        gradient.masked_fill_(skip.bool(), 0.0)


def _adadelta(config: OptimizerConfig, tensors: Tensors, rate, weight_decay, scale, skip) -> None:
    weights, gradients, first, second, counts = tensors
    _scale(gradients, scale, skip)
    counts = [count.clone() for count in counts]  # PyTorch's function increments them
    lists = weights, gradients, first, second, counts
    adadelta(*lists, lr=rate, rho=0.9, eps=1e-6, weight_decay=weight_decay, maximize=False)


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


# For each optimizer: PyTorch's names of its two running averages, and its update.
_RULES: dict[str, tuple[tuple[str, str], Update]] = {
    "adamw": (("exp_avg", "exp_avg_sq"), _adam(torch._fused_adamw_)),
    "adam": (("exp_avg", "exp_avg_sq"), _adam(torch._fused_adam_)),
    "adadelta": (("square_avg", "acc_delta"), _adadelta),
}
_RULES["muon"] = _RULES["adamw"]  # of all weights but the matrices of the layers


class Optimizer:
    """AdamW, Adam or Adadelta over all parameters of a model, or Muon over the matrices of its layers and AdamW over
    the others. Biases and LayerNorm have no weight decay.

    rates: for each parameter, a factor on the learning rate; None means 1. averages: the running averages by name, each
    with the layout of the weights. updates: steps taken so far.
    """

    def __init__(self, flat: FlatWeights, config: OptimizerConfig, rates: Sequence[float] | None = None) -> None:
        self._number = len(flat.layout)
        self.use(config, rates)
        names, self._update = _RULES[config.optimizer]
        self.averages = {name: torch.zeros_like(flat.weights) for name in names}
        self._is_muon = [
            config.optimizer == "muon" and ".encoder." in name and len(shape) == 2
            for name, (_, shape) in flat.layout.items()
        ]
        self._counts = torch.zeros(len(flat.layout), device=flat.weights.device)
        # For each parameter: its weights, both averages and its number of updates.
        views = map(flat.views, (flat.weights, *self.averages.values()))
        self._rows = list(zip(*views, self._counts.unbind()))

    def use(self, config: OptimizerConfig, rates: Sequence[float] | None) -> None:
        """Take other settings for the steps to come; the optimizer itself stays."""
        self.config, self._rates = config, rates or [1.0] * self._number

    @property
    def updates(self) -> int:
        return int(self._counts.max())

    @updates.setter
    def updates(self, number: int) -> None:
        self._counts.fill_(number)

    @torch.no_grad()
    def step(
        self, gradients: Sequence[Tensor | None], learning_rate: float | Tensor, scale: Tensor | None, skip: Tensor
    ) -> None:
        """Update the weights by their gradients, which come in the order of the model's parameters.

        Parameters without a gradient do not change. scale: () divides the gradients; None means 1. skip: () whether to
        ignore the gradients; Adam and AdamW then change nothing. Both stay on the device.
        """
        skip = skip.float()
        self._counts += 1 - skip
        groups: dict[tuple[bool, bool, float], list[tuple[Tensor, ...]]] = {}
        for row, is_muon, rate, gradient in zip(self._rows, self._is_muon, self._rates, gradients):
            if gradient is not None:
                groups.setdefault((is_muon, row[0].ndim >= 2, rate), []).append((row[0], gradient, *row[1:]))
        for (is_muon, is_matrix, rate), group in groups.items():
            weights, given, first, second, counts = map(list, zip(*group))
            weight_decay = self.config.weight_decay if is_matrix else 0.0
            tensors = weights, given, first, second, counts
            update = _muon if is_muon else self._update
            update(self.config, tensors, learning_rate * rate, weight_decay, scale, skip)


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
