"""Training as an iterator: pre-training on masked words and next sentence, or another objective.

`for row in trainer:` is the whole loop. The trainer needs no thread, page or file: each `next(trainer)` is a step,
and a caller pauses or stops by not asking for another.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bert_core.config import BertConfig, OptimizerConfig
from bert_core.device import Cost, using_threads
from bert_core.errors import CheckpointError, ConfigError
from bert_core.training.objective import OF_EVERY_STEP, Objective, Pretraining, StepRow
from bert_core.training.optimizer import Optimizer, learning_rate_at

_SEED_STRIDE = 0x9E3779B97F4A7C15  # an odd constant spreads neighbouring seeds over all 64-bit numbers


def step_cost(config: BertConfig, batches: Any, objective: Objective, device: str) -> Cost:
    """What a step takes with batches of the longest kind: the first `short_steps` of some texts are short."""
    return Cost(config, *objective.size(batches[getattr(batches, "short_steps", 0)]), device)


class Trainer:
    """Trains a model on batches, one step for each `next()`, until config.total_steps steps are done.

    model: trained in place, on its device. batches: `batches[k]` is the batch of step k. All draws are a function of
    (seed, k), so a run repeats its losses bit for bit on the same device with the same number of threads; on a GPU, to
    rounding where batches have more than 64 tokens, because CUDA's attention then adds up in any order. Dropout draws
    from PyTorch's global generator, which is as before after each step; two trainers with dropout that step at the same
    time in two threads do not repeat their losses. Weights, gradients and losses are float32. config.precision is that
    of the matrix products; "auto" becomes the faster of "float32" and "bfloat16". threads: CPU threads of a step.
    objective: what to minimise; None means pre-training. `config` may be replaced between two steps; raises ConfigError
    for another optimizer or another number of alternating objectives.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Any,
        config: OptimizerConfig,
        *,
        seed: int = 0,
        objective: Objective | None = None,
    ) -> None:
        self.objective: Objective = objective or Pretraining()
        self.model: Any = model.train()
        self.batches, self.seed = batches, seed
        self._parameters, self.step, self.seconds = list(model.parameters()), 0, 0.0
        self.device = self._parameters[0].device
        sizes: Any = model.config
        self._cost = step_cost(sizes, batches, self.objective, str(self.device))
        self.threads = self._cost.threads
        dropouts = (sizes.hidden_dropout_prob, sizes.attention_probs_dropout_prob, sizes.classifier_dropout)
        self._has_dropout = any(dropouts)
        number = 2 if getattr(config, "alternating", False) else 1  # each with averages of its own objective
        self.optimizers = [Optimizer(model.named_parameters(), config) for _ in range(number)]
        self._averages = {  # of all optimizers, a tensor for each parameter; by names such as "0.exp_avg"
            f"{number}.{name}": averages
            for number, optimizer in enumerate(self.optimizers)
            for name, averages in optimizer.averages.items()
        }
        self._config = self.config = config

    @property
    def config(self) -> Any:
        """The settings of the next step."""
        return self._config

    @config.setter
    def config(self, config: OptimizerConfig) -> None:
        for name in ("optimizer", "alternating"):
            if getattr(config, name, None) != getattr(self._config, name, None):
                raise ConfigError(f"{name} cannot change during a training, because its running averages go on.")
        if config.precision == "auto":
            config = config.replace(precision=self._cost.precision)
        self._config = config
        for optimizer in self.optimizers:
            optimizer.config = config

    def __iter__(self) -> Iterator[StepRow]:
        return self

    def __next__(self) -> StepRow:
        if self.step >= self.config.total_steps:
            raise StopIteration
        started = time.perf_counter()
        with using_threads(self.threads), self._seeded_dropout():
            batch = self.batches[self.step]
            for parameter in self._parameters:  # which Module.zero_grad would look up anew in each step
                parameter.grad = None
            numbers = self._backward(batch)
            gradients = [parameter.grad for parameter in self._parameters]
            grad_norm = nn.utils.get_total_norm([each for each in gradients if each is not None])
            most, rate = self.config.max_grad_norm, learning_rate_at(self.step, self.config)
            scale = (grad_norm / most).clamp(min=1.0) if most else None
            optimizer = self.optimizers[self.step % len(self.optimizers)]
            optimizer.step(gradients, rate, scale, skip=~torch.isfinite(grad_norm))
        self.step += 1
        self.seconds += time.perf_counter() - started
        *values, norm = self._shown(torch.cat([numbers, grad_norm[None]]))
        of_every = rate, norm, int(batch.attention_mask.sum()), self.seconds
        return StepRow(step=self.step, **dict(zip((*self.objective.names, *OF_EVERY_STEP), (*values, *of_every))))

    def _shown(self, numbers: Tensor) -> Iterable[float | Tensor]:
        """Numbers as a row has them: those on a GPU, which has yet to compute them, are not waited for."""
        return numbers.tolist() if self.device.type == "cpu" else numbers.unbind()

    @contextlib.contextmanager
    def _seeded_dropout(self) -> Iterator[None]:
        """Seed the device's global generator, from which only dropout draws, and give it back as it was."""
        if not self._has_dropout:
            yield
            return
        draws = {"cuda": torch.cuda, "mps": torch.mps}.get(self.device.type, torch.random)
        seed_with = torch.default_generator.manual_seed if draws is torch.random else draws.manual_seed
        with torch.cuda.device(self.device) if draws is torch.cuda else contextlib.nullcontext():
            before = draws.get_rng_state()
            seed_with(self._dropout_seed)
            try:
                yield
            finally:
                draws.set_rng_state(before)

    @property
    def _dropout_seed(self) -> int:
        """Of this step; it does not depend on earlier draws."""
        return (self.seed * _SEED_STRIDE + self.step) % 2**63

    def _backward(self, batch: Any) -> Tensor:
        """Compute the gradients of a batch, which it leaves in the parameters; returns its numbers, (K,)."""
        with self._autocast():
            sums, counts = self.objective.run(self.model, batch, self.device)
        # A loss over nothing is 0, and shown as nan.
        self.objective.loss(sums / counts.clamp(min=1), self.config, self.step).backward()
        return sums.detach() / counts

    def _autocast(self) -> contextlib.AbstractContextManager:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16")

    def state(self) -> "TrainerState":
        """A copy on the CPU of everything that the next step depends on, except the weights."""
        averages = {name: nn.utils.parameters_to_vector(each).cpu() for name, each in self._averages.items()}
        return TrainerState(self.step, self.seconds, tuple(int(max(each.counts)) for each in self.optimizers), averages)

    def restore(self, state: "TrainerState") -> None:
        """Continue from a state; the model must already have the weights of its step. Raises CheckpointError if the
        state does not fit the model or the optimizer."""
        size, own = sum(parameter.numel() for parameter in self._parameters), self._averages
        is_right_size = all(each.shape == (size,) for each in state.averages.values())
        if not is_right_size or len(state.updates) != len(self.optimizers) or state.averages.keys() != own.keys():
            raise CheckpointError(
                "The state does not fit this model and optimizer, or another version of this program has saved it; "
                "start the training again."
            )
        for name, averages in own.items():
            nn.utils.vector_to_parameters(state.averages[name].to(self.device, copy=True), averages)
        for optimizer, updates in zip(self.optimizers, state.updates):
            for count in optimizer.counts:
                count.fill_(updates)
        self.step, self.seconds = state.step, state.seconds

    @property
    def nbytes(self) -> int:
        """Bytes of weights, gradients and the optimizers' averages."""
        return (2 + len(self._averages)) * sum(parameter.nbytes for parameter in self._parameters)


@dataclass(frozen=True)
class TrainerState:
    """Everything that the next step depends on besides weights, settings and seed. updates: of each optimizer, their
    number. averages: those of all parameters in one tensor, by the optimizer's number and a name ("0.exp_avg")."""

    step: int
    seconds: float
    updates: tuple[int, ...]
    averages: dict[str, Tensor]
